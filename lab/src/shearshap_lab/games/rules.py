"""Games given by a rule, with random numbers in it, and their Shapley values.

Each maker takes players and a generator. Most values rest on one integral: if every other player is
present with probability t,

    phi_i = integral over t from 0 to 1 of E[v(S + i) - v(S)]

The integrand is a polynomial of degree p - 1 in t, so Gauss-Legendre with p / 2 nodes is exact.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, comb
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import beta

from shearshap_lab.games.tables import Bools, Floats, Value

Made = tuple[Value, Floats]  #: the value function and the Shapley values

TOTAL = 1000  #: of the weights of a vote, about: they are whole numbers
MAX_TERM = 6  #: players, at most, of a term of a sum of unanimity games


def votes(players: int, rng: Generator) -> Made:
    """Return a weighted vote: 1 if the members' weights reach a quota of 30 to 80 %."""
    weights = whole_weights(players, rng)
    quota = int(np.ceil(weights.sum() * rng.uniform(0.3, 0.8)))

    def value(coalitions: Bools) -> Floats:
        return (coalitions @ weights >= quota).astype(float)

    passed = (np.arange(weights.sum() + 1) >= quota).astype(float)
    return value, of_weighted_sum(weights, passed)


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

    return value, of_products(np.exp(slopes))


def logistic(players: int, rng: Generator) -> Made:
    """Return the probability of a logistic model, (1 + tanh(s / 2)) / 2."""
    slopes = rng.normal(size=players) * 8 / np.sqrt(players)
    intercept = rng.normal()

    def value(coalitions: Bools) -> Floats:
        return np.asarray(1 / (1 + np.exp(-intercept - coalitions @ slopes)))

    halves = slopes[None] / 2
    phi = of_tanh_units(halves, np.array([intercept / 2]), np.array([0.5]))
    return value, phi


def gloves(players: int, rng: Generator) -> Made:
    """Return the number of pairs that left and right gloves make."""
    lefts = rng.integers(1, players)
    left = rng.permutation(players) < lefts

    def value(coalitions: Bools) -> Floats:
        of_left = coalitions[:, left].sum(axis=1)
        of_right = coalitions[:, ~left].sum(axis=1)
        return np.asarray(np.minimum(of_left, of_right), dtype=np.float64)

    return value, of_gloves(left)


def maximum(players: int, rng: Generator) -> Made:
    """Return the largest weight of the members."""
    weights = rng.lognormal(size=players)

    def value(coalitions: Bools) -> Floats:
        return np.asarray(np.where(coalitions, weights, 0.0).max(axis=1))

    return value, of_maximum(weights)


def conjunction(players: int, rng: Generator) -> Made:
    """Return 1 if all players of a random set, of 2 players or more, are present."""
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
    """Return the product of the signs of so many players: +1 if present, -1 if absent."""
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
    """Return the sum of boxes: their worth if `inside` is present and `outside` absent."""
    # counts of players are small whole numbers, which float32 holds exactly
    to_present = inside.T.astype(np.float32)
    to_absent = outside.T.astype(np.float32)
    wanted = inside.sum(axis=1) + outside.sum(axis=1)

    def value(coalitions: Bools) -> Floats:
        met = coalitions @ to_present + (~coalitions) @ to_absent
        return np.asarray((met == wanted) @ worth)

    return value, of_boxes(inside, outside, worth)


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


# Shapley values by closed forms and dynamic programs


MAX_FREQUENCY = 16.0  #: of those that make up tanh: its spectrum falls by exp(-pi/2 frequency)


def of_products(factors: NDArray[Any]) -> NDArray[Any]:
    """Return the values (..., p) of v(S) = product of the members' factors (..., p).

    phi_i = (a_i - 1) integral of prod_{j != i} (1 + t (a_j - 1)) dt; factors may be complex.
    """
    nodes, weights = unit_quadrature(factors.shape[-1])
    terms = 1 + nodes[:, None] * (factors[..., None, :] - 1)  # (..., t, p)
    others = products_of_others(terms)
    return np.asarray((factors - 1) * np.einsum("t,...tp->...p", weights, others))


def products_of_others(terms: NDArray[Any]) -> NDArray[Any]:
    """Return, at each place of the last axis, the product of all other places."""
    ones = np.ones_like(terms[..., :1])
    # no division by a place's own term, which may be 0
    before = np.concatenate([ones, terms[..., :-1]], axis=-1).cumprod(axis=-1)
    after = np.concatenate([ones, terms[..., :0:-1]], axis=-1).cumprod(axis=-1)[..., ::-1]
    return np.asarray(before * after)


def unit_quadrature(players: int) -> tuple[Floats, Floats]:
    """Return the nodes and weights on [0, 1] that integrate polynomials of degree p - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(ceil(players / 2))
    return (nodes + 1) / 2, weights / 2


def of_weighted_sum(weights: NDArray[np.int64], outcomes: Floats) -> Floats:
    """Return the values (p,) of v(S) = outcomes[sum of the members' weights].

    `outcomes` has an entry for each sum from 0 to that of all weights, which are whole and
    positive. The players before i have a distribution of sums, the players after i an expected
    outcome for every sum that they start from; both by dynamic programs.
    """
    nodes, quadrature = unit_quadrature(len(weights))
    t = nodes[:, None]
    size = len(outcomes)
    chances = np.zeros((len(nodes), size))
    chances[:, 0] = 1
    before = []
    for weight in weights:
        before.append(chances)
        joined = np.zeros_like(chances)
        joined[:, weight:] = chances[:, :-weight]
        chances = (1 - t) * chances + t * joined

    expected = np.tile(outcomes, (len(nodes), 1))
    phi = np.empty(len(weights))
    for player in reversed(range(len(weights))):
        weight = weights[player]
        # sums beyond the last cannot be reached, so what stands there does not matter
        with_player = np.concatenate([expected[:, weight:], expected[:, -weight:]], axis=1)
        added = (before[player] * (with_player - expected)).sum(axis=1)
        phi[player] = quadrature @ added
        expected = (1 - t) * expected + t * with_player
    return phi


def of_boxes(inside: Bools, outside: Bools, worth: Floats) -> Floats:
    """Return the values (p,) of a sum of boxes.

    A box (m of them) gives its worth (m,) if all players `inside` (m, p) are present and all
    `outside` (m, p) absent. With a players inside and b outside, each inside gets
    worth (a - 1)! b! / (a + b)! = worth B(a, b + 1), and each outside loses worth B(a + 1, b).
    """
    a = inside.sum(axis=1)
    b = outside.sum(axis=1)
    # B(0, .) is infinite, of those that nobody is inside or outside of
    gains = worth * beta(np.maximum(a, 1), b + 1)
    losses = worth * beta(a + 1, np.maximum(b, 1))
    return np.asarray(gains @ inside - losses @ outside)


def of_gloves(left: Bools) -> Floats:
    """Return the values (p,) of v(S) = min(left, right gloves in S); players have one each.

    A left glove adds 1 if fewer left gloves than right ones came before it. Sums run over the
    numbers of both: a of the other left gloves, b of the right ones.
    """
    lefts = int(left.sum())
    rights = len(left) - lefts
    return np.where(left, glove(lefts, rights), glove(rights, lefts))


def glove(own: int, other: int) -> float:
    """Return the value of a glove, by how many there are of its side and of the other."""
    players = own + other
    return sum(
        comb(own - 1, a) * comb(other, b) / (players * comb(players - 1, a + b))
        for a in range(own)
        for b in range(a + 1, other + 1)
    )


def of_maximum(weights: Floats) -> Floats:
    """Return the values (p,) of v(S) = the largest weight in S, and 0 of none.

    Each step from one weight to the next larger is paid equally by all who are as large.
    """
    order = np.argsort(weights)
    steps = np.diff(weights[order], prepend=0.0)
    payers = np.arange(len(weights), 0, -1)
    phi = np.empty(len(weights))
    phi[order] = np.cumsum(steps / payers)
    return phi


def of_tanh_units(weights: Floats, biases: Floats, outer: Floats) -> Floats:
    """Return the values (p,) of v(S) = sum over units of outer tanh(bias + members' weights).

    weights (h, p), biases (h,), outer (h,). On the interval that the sums can reach, tanh is a sum
    of sines up to about 1e-10. Each is the imaginary part of exp(i frequency sum), which is a
    product over players.
    """
    reaches = np.abs(biases) + np.abs(weights).sum(axis=1)
    phi = np.zeros(weights.shape[1])
    for unit, reach in enumerate(reaches):
        # few different intervals, so that sines can be kept
        frequencies, amplitudes = sines_of_tanh(ceil(reach / 4) * 4)
        products = of_products(np.exp(1j * np.outer(frequencies, weights[unit])))
        shifted = np.exp(1j * frequencies * biases[unit]) * amplitudes
        phi += outer[unit] * (shifted @ products).imag
    return phi


@lru_cache(maxsize=64)
def sines_of_tanh(reach: int) -> tuple[Floats, Floats]:
    """Return frequencies and amplitudes of sines that add up to tanh on [-reach, reach]."""
    # periods of twice the interval: outside it the sum may do as it likes, and need not jump
    spacing = np.pi / (2 * reach)
    count = ceil(MAX_FREQUENCY / spacing)
    frequencies: Floats = spacing * np.arange(1.0, count + 1)
    places = reach * np.sin(np.linspace(0, np.pi / 2, 4 * count))
    sines = np.sin(np.outer(places, frequencies))
    amplitudes = np.linalg.lstsq(sines, np.tanh(places), rcond=1e-13)[0]
    worst = np.abs(sines @ amplitudes - np.tanh(places)).max()
    if worst > 1e-8:
        raise ArithmeticError(f"tanh on [-{reach}, {reach}] is {worst:.0e} off its sines")
    return frequencies, amplitudes
