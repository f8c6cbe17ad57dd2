"""Rows of models trained on real columns, and on synthetic ones where there are too few.

Each maker takes the players, which are the columns, and the number of the model; a model has ROWS
rows. Trees are solved by their leaves; networks and labels of up to 13 players by all coalitions,
wider networks, with one hidden layer of tanh, by sines.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn import datasets
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from kinds import formulas, rules
from kinds.game import ENUMERATED, Bools, Floats, Rows, Value, all_coalitions

ROWS = 10  #: of each model


@dataclass(frozen=True, eq=False)
class Columns:
    """Data to train a model on."""

    name: str
    inputs: Floats  #: (n, p)
    labels: Bools  #: (n,)
    numbers: Floats  #: (n,), for regressions: a column that is left, as labels make trees alike


# Data


def columns(players: int, number: int, rng: Generator) -> Columns:
    """Return some columns of a data set: each model has another set, in turn."""
    known = [name for name in WIDTHS if WIDTHS[name] >= players]
    # few data sets are wide: synthetic columns stand beside them
    names = [*known, "synthetic"] if players > ENUMERATED else known
    name = names[number % len(names)]
    if name == "synthetic":
        return synthetic(players, rng)
    inputs, targets = real(name)
    order = rng.permutation(inputs.shape[1])
    left = order[players:]
    return Columns(
        name,
        inputs[:, np.sort(order[:players])],
        labels=targets > targets.mean(),
        numbers=inputs[:, left[0]] if len(left) else targets,
    )


WIDTHS = {"diabetes": 10, "wine": 13, "breast cancer": 30, "digits": 61}


@lru_cache(maxsize=8)
def real(name: str) -> tuple[Floats, Floats]:
    """Return standardised inputs, without constant columns, and targets: 0 or 1, or a number."""
    loaders = {
        "diabetes": datasets.load_diabetes,
        "wine": datasets.load_wine,
        "breast cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    inputs, targets = loaders[name](return_X_y=True)
    inputs = inputs[:, np.ptp(inputs, axis=0) > 0]
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    if name == "diabetes":
        return inputs, (targets - targets.mean()) / targets.std()
    # benign or not, one class of wine or not, odd or even digits
    return inputs, (targets % 2).astype(float)


def synthetic(players: int, rng: Generator) -> Columns:
    """Return normal columns and a target of steps, products and slopes."""
    inputs = rng.normal(size=(1000, players))
    slopes = rng.normal(size=players)
    first = inputs[:, rng.permutation(players)]
    second = inputs[:, rng.permutation(players)]
    targets = inputs @ slopes + (first * second) @ rng.normal(size=players)
    targets += (first > 0.5) @ rng.normal(size=players)
    numbers = (targets - targets.mean()) / targets.std()
    return Columns("synthetic", inputs, labels=numbers > 0, numbers=numbers)


def explained(inputs: Floats, rng: Generator) -> Floats:
    """Return ROWS rows of the inputs."""
    return inputs[rng.permutation(len(inputs))[:ROWS]]


# Trees


def boosted_trees(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of boosted trees."""
    data = columns(players, number, rng)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=number)
    model.fit(data.inputs, data.numbers)
    trees = [tree.tree_ for tree in model.estimators_[:, 0]]
    return tree_rows(data.name, model, trees, model.learning_rate, rng.permutation(data.inputs))


def forest(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a random forest."""
    data = columns(players, number, rng)
    model = RandomForestRegressor(
        n_estimators=30, max_depth=6, max_features=0.5, random_state=number
    )
    model.fit(data.inputs, data.numbers)
    trees = [tree.tree_ for tree in model.estimators_]
    return tree_rows(data.name, model, trees, 1 / len(trees), rng.permutation(data.inputs))


def tree_rows(name: str, model: Any, trees: list[Any], scale: float, candidates: Floats) -> Rows:
    """Return rows of a sum of trees, each times the scale; the first candidate is background.

    Rows whose prediction is close to the background's are left out: a game that hardly changes has
    nothing to explain.
    """
    predict: Callable[[Any], Floats] = model.predict
    background = candidates[0]
    predictions = predict(candidates)
    intercept = float(predictions[0])
    differences = np.abs(predictions - intercept)
    inputs = candidates[differences > 0.1 * differences.max()][:ROWS]
    made = [leaf_game(trees, scale, row, background, intercept) for row in inputs]
    values = tuple(value for value, _ in made)
    phi = np.stack([phi for _, phi in made])
    return Rows("", name, predict, inputs, background, values, phi)


def leaf_game(
    trees: list[Any], scale: float, row: Floats, background: Floats, intercept: float
) -> rules.Made:
    """Return the game of a row: a box for each leaf that a mixture of row and background reaches.

    Inside are the columns whose conditions on the leaf's path only the row passes, outside those
    that only the background passes.
    """
    # scikit-learn's trees see float32
    x = row.astype(np.float32)
    z = background.astype(np.float32)
    boxes = [box for tree in trees for box in boxes_of(tree, x, z)]
    inside = np.array([only_row for only_row, _, _ in boxes])
    outside = np.array([only_background for _, only_background, _ in boxes])
    worth = scale * np.array([leaf for _, _, leaf in boxes])

    value, phi = rules.boxes(inside, outside, worth)
    nobody = np.zeros((1, len(row)), dtype=bool)
    shift = intercept - float(value(nobody)[0])
    return lambda coalitions: value(coalitions) + shift, phi


def boxes_of(tree: Any, x: Any, z: Any) -> list[tuple[Bools, Bools, float]]:
    """Return the players inside and outside, and the value, of each leaf that can be reached."""
    boxes = []
    none = np.zeros(len(x), dtype=bool)
    waiting = [(0, none, none)]
    while waiting:
        node, x_fails, z_fails = waiting.pop()
        if (x_fails & z_fails).any():
            continue
        if tree.children_left[node] < 0:
            boxes.append((z_fails, x_fails, float(tree.value[node].item())))
            continue
        column = tree.feature[node]
        here = np.arange(len(x)) == column
        x_left = x[column] <= tree.threshold[node]
        z_left = z[column] <= tree.threshold[node]
        left = (tree.children_left[node], x_fails | here & ~x_left, z_fails | here & ~z_left)
        right = (tree.children_right[node], x_fails | here & x_left, z_fails | here & z_left)
        waiting += [left, right]
    return boxes


# Networks


def logits(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its logit."""
    name, inputs, net = network(players, number, rng)
    rows = explained(inputs, rng)
    background = inputs.mean(axis=0)

    def model(x: Any) -> Floats:
        return logit(net, np.asarray(x, dtype=np.float64))

    if players <= ENUMERATED:
        return enumerated(name, model, rows, background)
    phi = np.stack([values_of_logit(net, row, background) for row in rows])
    return Rows("", name, model, rows, background, mixtures(model, rows, background), phi)


def probabilities(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its probability."""
    name, inputs, net = network(players, number, rng)
    rows = explained(inputs, rng)

    def model(x: Any) -> Floats:
        return np.asarray(1 / (1 + np.exp(-logit(net, np.asarray(x, dtype=np.float64)))))

    return enumerated(name, model, rows, inputs.mean(axis=0))


def labels(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its label, 0 or 1, which differs from the background's."""
    name, inputs, net = network(players, number, rng)
    background = inputs.mean(axis=0)

    def model(x: Any) -> Floats:
        return (logit(net, np.asarray(x, dtype=np.float64)) > 0).astype(float)

    others = inputs[model(inputs) != model(background[None])]
    rows = others[rng.permutation(len(others))[:ROWS]]
    return enumerated(name, model, rows, background)


def network(players: int, number: int, rng: Generator) -> tuple[str, Floats, Any]:
    """Return a trained network, and its data: two hidden layers where players are few."""
    data = columns(players, number, rng)
    narrow = players <= ENUMERATED
    net = MLPClassifier(
        hidden_layer_sizes=(32, 32) if narrow else (12,),
        activation=("relu", "tanh")[number % 2] if narrow else "tanh",
        max_iter=60,
        learning_rate_init=0.01,
        random_state=number,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit(data.inputs, data.labels)
    return data.name, data.inputs, net


def logit(net: Any, inputs: Floats) -> Floats:
    """Return the logits (n,) of inputs (n, p)."""
    hidden = inputs
    for weights, biases in zip(net.coefs_[:-1], net.intercepts_[:-1], strict=True):
        sums = hidden @ weights + biases
        hidden = np.tanh(sums) if net.activation == "tanh" else np.maximum(sums, 0)
    return np.asarray(hidden @ net.coefs_[-1][:, 0] + net.intercepts_[-1][0])


def values_of_logit(net: Any, row: Floats, background: Floats) -> Floats:
    """Return the Shapley values (p,) of the logit of a network with one hidden layer of tanh."""
    first, last = net.coefs_
    biases = background @ first + net.intercepts_[0]
    return formulas.of_tanh_units(first.T * (row - background), biases, last[:, 0])


# From rows to games


def mixtures(model: Callable[[Any], Floats], rows: Floats, background: Floats) -> tuple[Value, ...]:
    """Return the rows' games: absent players have the background's inputs."""

    def game(row: Floats) -> Value:
        return lambda coalitions: model(np.where(coalitions, row, background))

    return tuple(game(row) for row in rows)


def enumerated(name: str, model: Callable[[Any], Floats], rows: Floats, background: Floats) -> Rows:
    """Return rows whose values come from all their coalitions."""
    values = mixtures(model, rows, background)
    every = all_coalitions(rows.shape[1])
    phi = np.stack([formulas.of_table(value(every)) for value in values])
    return Rows("", name, model, rows, background, values, phi)
