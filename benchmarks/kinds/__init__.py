"""Cooperative games by kind, each with its exact Shapley values, for many numbers of players.

game.py      a game, and the rows of a model that are explained together
formulas.py  Shapley values by closed forms and dynamic programs
rules.py     games given by a rule: votes, gloves, parities, ...
models.py    models trained on real and synthetic columns: trees, forests, networks, labels
tables.py    games given as tables in .npz files
catalogue.py all kinds by name: a new one is a function and a line
running.py   what intervals.py and simple.py have in common: options and processes
"""
