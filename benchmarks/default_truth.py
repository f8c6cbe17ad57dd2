"""True Shapley values of the pairs of default_pairs.py, kept on disk.

- Forests: the values of `shap.TreeExplainer`. On forests, the contestants see functions.
- Few features: all coalitions of the features in which a row and a background row differ, at every
  background row.
- Others: the means of many antithetic pairs of permutations, as many for each background row, each
  with its own. They are unbiased, share no draws with any contestant, and have standard errors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import factorial
from pathlib import Path

import numpy as np
import shap
from numpy.typing import NDArray

from default_pairs import Floats, Function, Pair, Task
from shearshap.store import written_whole
from shearshap_lab.provenance import short_hash

MAX_EVALUATIONS = 60_000_000  #: of all rows, for exact values
BATCH = 1 << 13  #: inputs of a call: larger ones do not fit into the caches
SUM_ERROR = 1e-6  #: of the values of forests


@dataclass(frozen=True)
class Truth:
    """Shapley values of rows, and how far they may be off."""

    values: Floats  #: (r, p)
    errors: Floats  #: (r, p) standard errors, 0 if the values are exact

    @property
    def error(self) -> float:
        """The expected relative error, as that of a contestant."""
        sizes = np.linalg.norm(self.values, axis=1)
        return float((np.linalg.norm(self.errors, axis=1) / sizes).mean())


def truth(pair: Pair, rows: int, evaluations: int, folder: Path) -> Truth:
    """Return the true values of the first rows of a pair, from the folder if they are there.

    If they are not exact, they take so many evaluations for each row.
    """
    task = Task(pair.numbers.function, pair.numbers.rows[:rows], pair.numbers.background)
    predictions = [task.function(each).tolist() for each in (task.rows, task.background)]
    key = short_hash(task.rows.tolist(), task.background.tolist(), predictions, evaluations)
    path = folder / f"{key}.npz"
    if path.exists():
        with np.load(path) as known:
            return Truth(known["values"], known["errors"])
    found = computed(pair, task, evaluations)
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez(file, values=found.values, errors=found.errors)
    return found


def computed(pair: Pair, task: Task, evaluations: int) -> Truth:
    """Return the values of a task, exact ones if that is possible."""
    if pair.forest is not None:
        values = of_forest(pair, task)
    elif differences(task).sum() <= MAX_EVALUATIONS:
        values = np.stack([exact(task.function, row, task.background) for row in task.rows])
    else:
        return sampled(task, evaluations)
    return Truth(values, np.zeros_like(values))


def of_forest(pair: Pair, task: Task) -> Floats:
    """Return the values (r, p) of a forest's probability of class 1."""
    explainer = shap.TreeExplainer(
        pair.forest, task.background, feature_perturbation="interventional"
    )
    values = np.asarray(explainer.shap_values(task.rows, check_additivity=False))[:, :, 1]
    gained = task.function(task.rows) - task.function(task.background).mean()
    missed = float(np.abs(values.sum(axis=1) - gained).max())
    if missed > SUM_ERROR:
        raise ArithmeticError(f"{pair.name}: values of the forest miss predictions by {missed:.1e}")
    return values


# All coalitions


def differences(task: Task) -> Floats:
    """Return how many coalitions there are for a row and a background row, (r, b)."""
    return np.asarray(np.exp2((task.rows[:, None] != task.background).sum(axis=2)))


def exact(function: Function, row: Floats, background: Floats) -> Floats:
    """Return the values (p,) of a row."""
    order = np.argsort((row != background).sum(axis=1), kind="stable")
    places = [np.flatnonzero(row != background[each]) for each in order]
    inputs = (
        mixed(row, background[each], columns) for each, columns in zip(order, places, strict=True)
    )
    values = np.zeros(len(row))
    for columns, outputs in zip(places, evaluated(function, inputs), strict=True):
        values[columns] += outputs @ weights(len(columns))
    return values / len(background)


def mixed(row: Floats, other: Floats, columns: NDArray[np.int64]) -> Floats:
    """Return a background row with each set of columns taken from a row, (2^k, p)."""
    inputs = np.tile(other, (1 << len(columns), 1))
    inputs[:, columns] = np.where(coalitions(len(columns)), row[columns], other[columns])
    return inputs


def evaluated(function: Function, parts: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the outputs of each part, some parts in one call."""
    waiting: list[Floats] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= BATCH:
            yield from called(function, waiting)
            waiting = []
    if waiting:
        yield from called(function, waiting)


def called(function: Function, parts: list[Floats]) -> list[Floats]:
    outputs = np.asarray(function(np.concatenate(parts)), dtype=np.float64)
    return np.split(outputs, np.cumsum([len(part) for part in parts])[:-1])


@cache
def coalitions(players: int) -> NDArray[np.bool_]:
    """Return all coalitions, (2^p, p)."""
    return (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(bool)


@cache
def weights(players: int) -> Floats:
    """Return the weights (2^p, p) of coalition values, whose sums are the values of players.

    With s players present, v(S) counts (s - 1)! (p - s)! / p! for a player in S, and
    -s! (p - s - 1)! / p! for any other.
    """
    every = coalitions(players)
    sizes = np.arange(players + 1)
    present = [factorial(s - 1) * factorial(players - s) if s else 0 for s in sizes]
    absent = [-factorial(s) * factorial(players - s - 1) if s < players else 0 for s in sizes]
    size = every.sum(axis=1)[:, None]
    table = np.where(every, np.array(present, float)[size], np.array(absent, float)[size])
    return np.asarray(table / factorial(players))


# Permutations


def sampled(task: Task, evaluations: int) -> Truth:
    """Return the values of rows from antithetic pairs of permutations."""
    count, players = task.background.shape
    pairs = max(2, round(evaluations / (2 * count * (players - 1))))
    found = [
        one_sampled(task.function, row, task.background, pairs, np.random.default_rng([1, place]))
        for place, row in enumerate(task.rows)
    ]
    values, errors = map(np.stack, zip(*found, strict=True))
    return Truth(values, errors)


def one_sampled(
    function: Function, row: Floats, background: Floats, pairs: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the values (p,) of a row and their standard errors, from pairs per background row."""
    count, players = background.shape
    at_once = max(1, BATCH // (2 * count * (players - 1)))
    parts = []
    for start in range(0, pairs, at_once):
        repeats = min(at_once, pairs - start)
        others = np.tile(background, (repeats, 1))
        ranks = rng.permuted(np.tile(np.arange(players), (len(others), 1)), axis=1)
        parts.append(gains(function, row, others, ranks).reshape(repeats, count, players))
    each = np.concatenate(parts)  # (m, b, p)
    variance = each.var(axis=0, ddof=1).sum(axis=0) / pairs / count**2
    return each.mean(axis=(0, 1)), np.sqrt(variance)


def gains(function: Function, row: Floats, others: Floats, ranks: NDArray[np.int64]) -> Floats:
    """Return what each player adds to those before it, (n, p), in an order and in its reverse."""
    players = len(row)
    before = ranks[:, None] < np.arange(1, players)[:, None]  # (n, p - 1, p): the first s players
    inputs = np.stack(
        [np.where(before, row, others[:, None]), np.where(before, others[:, None], row)]
    )
    outputs = np.asarray(function(inputs.reshape(-1, players)), float)
    forward, backward = outputs.reshape(2, len(others), players - 1)
    start = np.asarray(function(others), float)[:, None]
    end = np.full_like(start, float(function(row[None])[0]))
    added = np.diff(np.concatenate([start, forward, end], axis=1), axis=1)
    lost = -np.diff(np.concatenate([end, backward, start], axis=1), axis=1)
    return np.take_along_axis((added + lost) / 2, ranks, axis=1)
