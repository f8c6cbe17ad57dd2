"""Cooperative games whose Shapley values are known exactly.

tables      a game, tables of games, and their .npz files
formulas    Shapley values by closed forms and dynamic programs
rules       games given by a rule: votes, gloves, parities, ...
models      rows of small models trained on scikit-learn's data, for many numbers of players
sources     the games of `shear benchmark`: rules, trees and the paper's networks
"""
