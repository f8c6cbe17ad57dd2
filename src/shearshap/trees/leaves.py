"""What a leaf adds to the players that keep a background row or the row itself away from it.

For one row x, one background row z and one leaf, let q be the players whose conditions z fails on
the leaf's path, and u those that x fails. The coalition S, x on S and z elsewhere, reaches the
leaf iff q is within S and u outside of it. So the leaf counts iff q and u are disjoint, and its
game is value * [q <= S][S & u = 0], with a = |q| and b = |u|:

    a player of q gets   value * (a-1)! b! / (a+b)!,    one of u   -value * a! (b-1)! / (a+b)!,
    two of q interact by value * (a-2)! b! / (a+b-1)!,  two of u by value * a! (b-2)! / (a+b-1)!,
    one of each by      -value * (a-1)! (b-1)! / (a+b-1)!.

For a whole background at once: with W[q] the weight of the background rows that fail exactly the
players q, sums over all q that are disjoint of u are a matrix product, or zeta transforms if the
matrix would be large:

    F(u) = sum over q within the complement of u of W[q] w(|q|, |u| - d),   d = 0, 1, 2.

The q that contain a player i are all q less those without it, and so a player's value is

    i in u:      -F(u)          w(a, b) = a! (b-1)! / (a+b)!
    i not in u:   F(u) - F'(u + i)      w(a, b) = (a-1)! b! / (a+b)!,   d = 1 in F'.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from shearshap.games.indices import Semivalue
from shearshap.trees.forest import Floats, Integers

MAX_MATRIX_PLAYERS = 7  #: sums are products with matrices of 4^m entries, or m times that
INNER = 16  #: sets of the first players, whose subsets are summed by a product
CACHED = 1 << 15  #: numbers that are transformed together

#: The sums behind values: the field of `Coefficients`, and d.
VALUES = (("absent", 0), ("present", 0), ("present", 1))
#: The sums behind interactions.
INTERACTIONS = (
    ("both_absent", 0),
    ("both_present", 0),
    ("both_present", 1),
    ("both_present", 2),
    ("mixed", 0),
    ("mixed", 1),
)
Sums = tuple[tuple[str, int], ...]


class Coefficients(NamedTuple):
    """The factors of a leaf's value, (m+1, m+1) each: by a = |q|, then by b = |u|."""

    present: Floats  #: for a player of q
    absent: Floats  #: for a player of u, without its sign
    both_present: Floats  #: for two players of q
    both_absent: Floats  #: for two players of u
    mixed: Floats  #: for one of each, without its sign


@lru_cache
def coefficients(most: int) -> Coefficients:
    """Return the factors for paths of up to `most` players."""
    # binomials are exact integers, whatever their size: factorials would overflow from 171! on
    return Coefficients(
        present=_table(most, lambda a, b: 1 / (a * comb(a + b, a)) if a else 0.0),
        absent=_table(most, lambda a, b: 1 / (b * comb(a + b, b)) if b else 0.0),
        both_present=_table(most, lambda a, b: _two(a, b)),
        both_absent=_table(most, lambda a, b: _two(b, a)),
        mixed=_table(most, lambda a, b: 1 / (b * comb(a + b - 1, b)) if a and b else 0.0),
    )


@lru_cache
def second_difference_factors(most: int) -> Coefficients:
    """Return the factors of pairs whose sums are second differences with all players present.

    In v(U) - v(U-i) - v(U-j) + v(U-ij), a leaf counts in v(U-T) iff no player of q is in T, and all
    of u are. So of the four terms remain, times the leaf's value,

        both in q      1 if u is empty              one of each    -1 if u has no other player
        both in u      1 if u has no other player
    """
    return coefficients(most)._replace(
        both_present=_table(most, lambda _a, b: float(b == 0)),
        mixed=_table(most, lambda _a, b: float(b == 1)),
        both_absent=_table(most, lambda _a, b: float(b == 2)),
    )


@lru_cache
def semivalue_factors(most: int, players: int, semivalue: Semivalue) -> Coefficients:
    """Return the factors of players, not of pairs, of another semivalue than the Shapley value.

    A player of q turns the leaf on if the other a - 1 are present and all of u are absent.
    """
    chance = partial(semivalue.chance, players=players)
    return coefficients(most)._replace(
        present=_table(most, lambda a, b: chance(a - 1, b) if 0 < a + b <= players and a else 0.0),
        absent=_table(most, lambda a, b: chance(a, b - 1) if 0 < a + b <= players and b else 0.0),
    )


def _two(a: int, b: int) -> float:
    """Return (a-2)! b! / (a+b-1)!, 0 if there are no two."""
    return 1 / ((a - 1) * comb(a + b - 1, b)) if a >= 2 else 0.0


def _table(most: int, entry: Callable[[int, int], float]) -> Floats:
    sizes = range(most + 1)
    return np.array([[entry(a, b) for b in sizes] for a in sizes], dtype=np.float64)


# By all patterns of a row, for a whole background


def leaf_values(weights: Floats, players: int) -> Floats:
    """Return the values (l, 2^m, m) of leaves by the row's pattern, for W (l, 2^m)."""
    if players <= MAX_MATRIX_PLAYERS:
        return (weights @ _values_matrix(players)).reshape(*weights.shape, players)
    of_absent, of_all, without = _disjoint_sums(weights, players, VALUES)
    table = np.empty((*weights.shape, players))
    pattern = np.arange(1 << players)
    for player in range(players):
        has = pattern | 1 << player
        table[:, :, player] = np.where(has == pattern, -of_absent, of_all - without[:, has])
    return table


@lru_cache
def _values_matrix(players: int) -> Floats:
    """Return the values (2^m, 2^m * m) of leaves that all background rows fail alike, by q."""
    size = 1 << players
    pattern = np.arange(size)
    member = ((pattern[:, None] >> np.arange(players)) & 1).astype(np.float64)
    absent, present, _ = np.split(_matrix(players, VALUES), len(VALUES), axis=1)
    table = present[:, :, None] * member[:, None, :] - absent[:, :, None] * member
    return np.ascontiguousarray(table.reshape(size, size * players))


def leaf_interactions(weights: Floats, players: int) -> Floats:
    """Return the interactions (l, 2^m, pairs) of leaves' players, for W (l, 2^m).

    The pairs are those of `np.triu_indices(m, 1)`.
    """
    absent, both, one, none, mixed, mixed_one = _disjoint_sums(weights, players, INTERACTIONS)
    pattern = np.arange(1 << players)
    pairs = list(combinations(range(players), 2))
    table = np.empty((*weights.shape, len(pairs)))
    for number, (first, second) in enumerate(pairs):
        i = 1 << first
        j = 1 << second
        i_failed = (pattern & i) != 0
        j_failed = (pattern & j) != 0

        # q with i and j: all, less those without i, less those without j, plus without both
        present = both - one[:, pattern | i] - one[:, pattern | j] + none[:, pattern | i | j]
        i_present = mixed_one[:, pattern | i] - mixed
        j_present = mixed_one[:, pattern | j] - mixed
        table[:, :, number] = np.where(
            i_failed,
            np.where(j_failed, absent, j_present),
            np.where(j_failed, i_present, present),
        )
    return table


def _disjoint_sums(weights: Floats, players: int, sums: Sums) -> list[Floats]:
    """Return F (l, 2^m) for each of the sums."""
    if players <= MAX_MATRIX_PLAYERS:
        product = weights @ _matrix(players, sums)
        return np.split(product, len(sums), axis=1)

    factors = _factors(players, sums)
    is_size = np.arange(players + 1)[:, None] == _sizes(players)
    found = [np.empty_like(weights) for _ in sums]
    step = max(1, CACHED // ((players + 1) << players))
    for start in range(0, len(weights), step):
        some = slice(start, start + step)
        # W apart by |q|, (l, m + 1, 2^m)
        within = _zeta(weights[some, None, :] * is_size, players)
        disjoint = within[:, :, ::-1]  # what is disjoint of u is within its complement
        for factor, out in zip(factors, found, strict=True):
            np.einsum("ac,lac->lc", factor, disjoint, out=out[some])
    return found


@lru_cache
def _matrix(players: int, sums: Sums) -> Floats:
    """Return w(|q|, |u| - d) [q and u disjoint], (2^m, sums * 2^m)."""
    pattern = np.arange(1 << players)
    disjoint = (pattern[:, None] & pattern) == 0
    size = _sizes(players)
    return np.concatenate([disjoint * factors[size] for factors in _factors(players, sums)], axis=1)


def _factors(players: int, sums: Sums) -> list[Floats]:
    """Return w(a, |u| - d) for each of the sums, (m + 1, 2^m): by a, then by u."""
    size = _sizes(players)
    found = []
    for name, fewer in sums:
        table: Floats = getattr(coefficients(players), name)
        found.append(np.where(size >= fewer, table[:, np.maximum(size - fewer, 0)], 0.0))
    return found


def _zeta(ranked: Floats, players: int) -> Floats:
    """Return the sums over the subsets of each set, along the last axis."""
    # numpy is slow if the innermost loop is short: the first players are one product
    subset = (np.arange(INNER)[:, None] & ~np.arange(INNER)) == 0
    ranked = (ranked.reshape(-1, INNER) @ subset.astype(np.float64)).reshape(ranked.shape)
    for player in range(INNER.bit_length() - 1, players):
        halves = ranked.reshape(-1, 2, 1 << player)
        halves[:, 1] += halves[:, 0]
    return ranked


@lru_cache
def _sizes(players: int) -> Integers:
    """Return the number of members of each set, (2^m,)."""
    pattern = np.arange(1 << players)
    return np.asarray(((pattern[:, None] >> np.arange(players)) & 1).sum(axis=1))
