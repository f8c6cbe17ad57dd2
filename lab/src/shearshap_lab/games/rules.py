"""Games given by a rule, with random numbers in it; each maker takes players and a generator."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from shearshap_lab.games import formulas
from shearshap_lab.games.tables import Bools, Floats, Value

Made = tuple[Value, Floats]  #: the value function and the Shapley values

TOTAL = 1000  #: of the weights of a vote, about: they are whole numbers
MAX_TERM = 6  #: players, at most, of a term of a sum of unanimity games


def votes(players: int, rng: Generator) -> Made:
    """Return a weighted vote: 1 where the members' weights reach a quota of 30 to 80 %."""
    weights = whole_weights(players, rng)
    quota = int(np.ceil(weights.sum() * rng.uniform(0.3, 0.8)))

    def value(coalitions: Bools) -> Floats:
        return (coalitions @ weights >= quota).astype(float)

    passed = (np.arange(weights.sum() + 1) >= quota).astype(float)
    return value, formulas.of_weighted_sum(weights, passed)


def whole_weights(players: int, rng: Generator) -> NDArray[np.int64]:
    """Return lognormal weights, rounded to whole numbers from 1 on."""
    weights = rng.lognormal(size=players)
    rounded = np.round(weights / weights.sum() * TOTAL)
    return np.asarray(np.maximum(1, rounded), dtype=np.int64)


def exponential(players: int, rng: Generator) -> Made:
    """Return exp of a linear function."""
    slopes = rng.normal(size=players) * 3 / np.sqrt(players)

    def value(coalitions: Bools) -> Floats:
        return np.asarray(np.exp(coalitions @ slopes))

    return value, formulas.of_products(np.exp(slopes))


def logistic(players: int, rng: Generator) -> Made:
    """Return the probability of a logistic model, (1 + tanh(s / 2)) / 2."""
    slopes = rng.normal(size=players) * 8 / np.sqrt(players)
    intercept = rng.normal()

    def value(coalitions: Bools) -> Floats:
        return np.asarray(1 / (1 + np.exp(-intercept - coalitions @ slopes)))

    halves = slopes[None] / 2
    phi = formulas.of_tanh_units(halves, np.array([intercept / 2]), np.array([0.5]))
    return value, phi


def gloves(players: int, rng: Generator) -> Made:
    """Return the number of pairs that left and right gloves make."""
    lefts = rng.integers(1, players)
    left = rng.permutation(players) < lefts

    def value(coalitions: Bools) -> Floats:
        of_left = coalitions[:, left].sum(axis=1)
        of_right = coalitions[:, ~left].sum(axis=1)
        return np.asarray(np.minimum(of_left, of_right), dtype=np.float64)

    return value, formulas.of_gloves(left)


def maximum(players: int, rng: Generator) -> Made:
    """Return the largest weight of the members."""
    weights = rng.lognormal(size=players)

    def value(coalitions: Bools) -> Floats:
        return np.asarray(np.where(coalitions, weights, 0.0).max(axis=1))

    return value, formulas.of_maximum(weights)


def conjunction(players: int, rng: Generator) -> Made:
    """Return 1 where all players of a random set, of 2 players or more, are present."""
    members = rng.permutation(players) < rng.integers(2, players + 1)
    return boxes(members[None], np.zeros((1, players), dtype=bool), np.ones(1))


def unanimity(players: int, rng: Generator) -> Made:
    """Return a sum of 2 p unanimity games with normal weights."""
    inside = random_sets(2 * players, players, 1, MAX_TERM, rng)
    return boxes(inside, np.zeros_like(inside), rng.normal(size=len(inside)))


def odd_parity(players: int, rng: Generator) -> Made:
    """Return the product of the signs of 3, 5 or 7 players."""
    return parity(players, int(rng.choice([3, 5, 7])), rng)


def even_parity(players: int, rng: Generator) -> Made:
    """Return the product of the signs of 2, 4 or 6 players."""
    return parity(players, int(rng.choice([2, 4, 6])), rng)


def parity(players: int, size: int, rng: Generator) -> Made:
    """Return the product of the signs of so many players: +1 where present, -1 where absent."""
    size = min(size, players)
    members = rng.permutation(players) < size

    def value(coalitions: Bools) -> Floats:
        absent = size - coalitions[:, members].sum(axis=1)
        return np.asarray(1.0 - 2.0 * (absent % 2))

    # the players of the product are alike, and the values add up to v(all) - v(none)
    difference = 1 - (-1) ** size
    return value, members * difference / size


def dominating(players: int, rng: Generator) -> Made:
    """Return one player's 10, and a weighted vote of the others."""
    leader = rng.integers(players)
    others = np.arange(players) != leader
    vote, phi_of_vote = votes(players - 1, rng)

    def value(coalitions: Bools) -> Floats:
        return 10.0 * coalitions[:, leader] + vote(coalitions[:, others])

    phi = np.empty(players)
    phi[leader] = 10.0
    phi[others] = phi_of_vote
    return value, phi


def near_additive(players: int, rng: Generator) -> Made:
    """Return a linear function, and p boxes that few coalitions are in."""
    slopes = rng.normal(size=players)
    smallest, largest = min(4, players), min(7, players)
    fixed = random_sets(players, players, smallest, largest, rng)
    present = rng.random(fixed.shape) < 0.5
    rare, phi_of_rare = boxes(fixed & present, fixed & ~present, rng.normal(size=players))

    def value(coalitions: Bools) -> Floats:
        return np.asarray(coalitions @ slopes + rare(coalitions))

    return value, slopes + phi_of_rare


def random_sets(count: int, players: int, fewest: int, most: int, rng: Generator) -> Bools:
    """Return random sets (count, p) of `fewest` to `most` players."""
    sizes = rng.integers(fewest, min(most, players) + 1, size=(count, 1))
    places = rng.permuted(np.tile(np.arange(players), (count, 1)), axis=1)
    return places < sizes


def boxes(inside: Bools, outside: Bools, worth: Floats) -> Made:
    """Return the sum of boxes: their worth where `inside` is present and `outside` absent."""
    # counts of players are small whole numbers, which float32 holds exactly
    to_present = inside.T.astype(np.float32)
    to_absent = outside.T.astype(np.float32)
    wanted = inside.sum(axis=1) + outside.sum(axis=1)

    def value(coalitions: Bools) -> Floats:
        met = coalitions @ to_present + (~coalitions) @ to_absent
        return np.asarray((met == wanted) @ worth)

    return value, formulas.of_boxes(inside, outside, worth)


RULES: dict[str, Callable[[int, Generator], Made]] = {
    "weighted votes": votes,
    "exp(linear)": exponential,
    "logistic": logistic,
    "gloves": gloves,
    "maximum": maximum,
    "AND": conjunction,
    "unanimity sums": unanimity,
    "odd parity": odd_parity,
    "even parity": even_parity,
    "dominating player": dominating,
    "near-additive": near_additive,
}
"""Every rule by name: a new one is a function and a line."""
