"""How strongly players act together.

cross     cross-contribution, by derivatives or by second differences
indices   Shapley interactions by order: from all coalitions exactly, or else estimated
kriged    those of order 2 as posterior means of a Gaussian process
"""
