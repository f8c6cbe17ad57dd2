"""Games of models that are explained with few evaluations, for `benchmarks/low_budgets.py`.

    from expensive.games import load, names
    game = load("text-90")    # game.truth, game.value(row, coalitions), game.rows, game.background

models.py    the models, and their files
texts.py     a transformer of docstrings
training.py  networks, trees and a logistic regression on images and tables
truth.py     the values: closed forms, or many permutations
making.py    all games
games.py     the games, which count their evaluations, and their files
peers.py     what others use where evaluations are few
scores.py    error, top five and coverage of an estimator on a game
"""
