"""Cooperative games whose Shapley values are known exactly.

tables      a game, tables of games, and their .npz files
rules       games given by a rule: votes, gloves, parities, ...; closed forms of their values
models      rows of small models trained on scikit-learn's data, for many numbers of players
study       methods measured on games: errors, intervals, stops
sources     the games of `shear benchmark`: rules, trees and the paper's networks
"""
