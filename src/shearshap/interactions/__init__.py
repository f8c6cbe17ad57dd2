"""How strongly players act together.

cross        cross-contribution, by derivatives or by second differences
derivatives  gradients and Hessians of a model's game
pairwise     pairwise Shapley interactions, from the values of complement pairs
walsh        the same, exactly, from the values of all coalitions
kriged       the same, estimated by a Gaussian process from those of some
fields       both kinds, as the fields of an explanation
"""
