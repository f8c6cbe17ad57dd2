"""How strongly players act together.

cross     cross-contribution, by derivatives or by second differences
indices   Shapley interactions: from all coalitions exactly, or else estimated
kriged    the same as posterior means of a Gaussian process
"""
