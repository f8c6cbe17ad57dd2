"""Games given by a rule, with random numbers in it: nothing has to be trained for them.

Each takes all coalitions (2^p, p) and a generator, and returns their values (2^p,).
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from shearshap_lab.contest.games import Bools, Floats

LARGEST_TERM = 6  #: players, at most, of a term of a sum of unanimity games


def votes(coalitions: Bools, rng: Generator) -> Floats:
    """Return 1 where the members' lognormal weights reach a quota of 30 to 80 %."""
    weights = np.asarray(rng.lognormal(size=coalitions.shape[1]))
    quota = weights.sum() * rng.uniform(0.3, 0.8)
    return np.asarray(coalitions @ weights >= quota, dtype=np.float64)


def gloves(coalitions: Bools, rng: Generator) -> Floats:
    """Return the number of pairs that left and right gloves make."""
    players = coalitions.shape[1]
    left = rng.permutation(players) < rng.integers(1, players)
    of_left = coalitions[:, left].sum(axis=1)
    of_right = coalitions[:, ~left].sum(axis=1)
    return np.asarray(np.minimum(of_left, of_right), dtype=np.float64)


def maximum(coalitions: Bools, rng: Generator) -> Floats:
    """Return the largest weight of the members, which are lognormal."""
    weights = rng.lognormal(size=coalitions.shape[1])
    return np.asarray((coalitions * weights).max(axis=1))


def unanimity(coalitions: Bools, rng: Generator) -> Floats:
    """Return a sum of 2 p unanimity games with normal weights."""
    players = coalitions.shape[1]
    values = np.zeros(len(coalitions))
    for _ in range(2 * players):
        members = rng.permutation(players)[: rng.integers(1, min(LARGEST_TERM, players) + 1)]
        values += rng.normal() * coalitions[:, members].all(axis=1)
    return values


def logistic(coalitions: Bools, rng: Generator) -> Floats:
    """Return the probability of a logistic model."""
    players = coalitions.shape[1]
    slopes = rng.normal(size=players) * 8 / np.sqrt(players)
    return np.asarray(1 / (1 + np.exp(-rng.normal() - coalitions @ slopes)))


RULES: dict[str, Callable[[Bools, Generator], Floats]] = {
    "weighted votes": votes,
    "gloves": gloves,
    "maximum": maximum,
    "unanimity sums": unanimity,
    "logistic": logistic,
}
