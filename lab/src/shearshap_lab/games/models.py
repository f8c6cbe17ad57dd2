"""Rows of models trained on real columns, and on synthetic ones if there are too few.

Each maker takes the players, which are the columns, and the number of the model; a model has ROWS
rows. Trees are solved by their leaves; networks and labels of up to 13 players by all coalitions,
wider networks, with one hidden layer of tanh, by sines.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator
from sklearn import datasets
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from shearshap import explain
from shearshap_lab.games.rules import RULES, of_tanh_units
from shearshap_lab.games.tables import Bools, Floats, Game, Rows, shapley_values

ROWS = 10  #: of each model
MAX_ENUMERATED = 13  #: players of a model whose coalitions are all evaluated


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
    names = [*known, "synthetic"] if players > MAX_ENUMERATED else known
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
    model = GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=number)
    return _tree_rows(columns(players, number, rng), model, rng)


def forest(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a random forest."""
    model = RandomForestRegressor(
        n_estimators=30, max_depth=6, max_features=0.5, random_state=number
    )
    return _tree_rows(columns(players, number, rng), model, rng)


def _tree_rows(data: Columns, model: Any, rng: Generator) -> Rows:
    """Return rows of trees, which are solved by their leaves; the background is a row too.

    Rows whose prediction is close to the background's are left out: a game that hardly changes has
    nothing to explain.
    """
    model.fit(data.inputs, data.numbers)
    candidates = rng.permutation(data.inputs)
    background = candidates[0]
    differences = np.abs(model.predict(candidates) - model.predict(background[None]))
    rows = candidates[differences > 0.1 * differences.max()][:ROWS]
    phi = explain(model, rows, background=background, progress=False).values
    return Rows(data.name, "", model.predict, rows, background, phi)


# Networks


def logits(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its logit."""
    name, inputs, net = network(players, number, rng)
    background = inputs.mean(axis=0)
    rows = Rows(name, "", partial(logit, net), explained(inputs, rng), background)
    if players <= MAX_ENUMERATED:
        return enumerated(rows)
    return replace(
        rows, phi=np.stack([values_of_logit(net, row, background) for row in rows.inputs])
    )


def probabilities(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its probability."""
    name, inputs, net = network(players, number, rng)

    def model(x: Any) -> Floats:
        return np.asarray(1 / (1 + np.exp(-logit(net, x))))

    return enumerated(Rows(name, "", model, explained(inputs, rng), inputs.mean(axis=0)))


def labels(players: int, number: int, rng: Generator) -> Rows:
    """Return rows of a network by its label, 0 or 1, which differs from the background's."""
    name, inputs, net = network(players, number, rng)
    background = inputs.mean(axis=0)

    def model(x: Any) -> Floats:
        return (logit(net, x) > 0).astype(float)

    others = inputs[model(inputs) != model(background[None])]
    return enumerated(Rows(name, "", model, explained(others, rng), background))


def network(players: int, number: int, rng: Generator) -> tuple[str, Floats, Any]:
    """Return a trained network, and its data: two hidden layers if players are few."""
    data = columns(players, number, rng)
    narrow = players <= MAX_ENUMERATED
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


def logit(net: Any, inputs: Any) -> Floats:
    """Return the logits (n,) of inputs (n, p)."""
    hidden = np.asarray(inputs, dtype=np.float64)
    for weights, biases in zip(net.coefs_[:-1], net.intercepts_[:-1], strict=True):
        sums = hidden @ weights + biases
        hidden = np.tanh(sums) if net.activation == "tanh" else np.maximum(sums, 0)
    return np.asarray(hidden @ net.coefs_[-1][:, 0] + net.intercepts_[-1][0])


def values_of_logit(net: Any, row: Floats, background: Floats) -> Floats:
    """Return the Shapley values (p,) of the logit of a network with one hidden layer of tanh."""
    first, last = net.coefs_
    biases = background @ first + net.intercepts_[0]
    return of_tanh_units(first.T * (row - background), biases, last[:, 0])


def enumerated(rows: Rows) -> Rows:
    """Return rows with their values, from all coalitions."""
    return replace(rows, phi=shapley_values(rows.tables()))


MODELS: dict[str, Callable[[int, int, Generator], Rows]] = {
    "boosted trees": boosted_trees,
    "forests": forest,
    "networks by logit": logits,
    "networks by probability": probabilities,
    "hard labels": labels,
}
"""Every kind of model by name: a new one is a function and a line."""

OF_FEW_PLAYERS = ("networks by probability", "hard labels")  #: their values need all coalitions
KINDS = (*RULES, *MODELS)


def has(kind: str, players: int) -> bool:
    """Return whether there are games of a kind with so many players."""
    return players <= MAX_ENUMERATED or kind not in OF_FEW_PLAYERS


def make(kind: str, players: int, number: int) -> Game:
    """Return a game of a kind by its number, always the same."""
    if kind in MODELS:
        rows = make_rows(kind, players, number // ROWS)
        return rows.game(number % ROWS)
    value, phi = RULES[kind](players, _generator(kind, players, number))
    return Game(kind, f"{kind} {number}", value, phi)


@lru_cache(maxsize=2)
def make_rows(kind: str, players: int, number: int) -> Rows:
    """Return the rows of a model of a kind by its number, always the same."""
    rows = MODELS[kind](players, number, _generator(kind, players, number))
    return replace(rows, kind=kind)


def _generator(kind: str, players: int, number: int) -> Generator:
    return np.random.default_rng([crc32(kind.encode()), players, number])
