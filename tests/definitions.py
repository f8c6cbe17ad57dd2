"""Indices by their definitions: plain sums over sets of players, or over joining orders."""

from collections.abc import Iterator
from itertools import combinations, permutations
from math import comb, factorial
from typing import Any

import numpy as np

from games import Floats


def interaction_index(table: Floats, players: tuple[int, ...]) -> Any:
    """The Shapley interaction index of a set S, of a table (2^p, ...) (Grabisch & Roubens 1999).

    Sum over T outside S of t! (p - t - s)! / (p - s + 1)! sum over L in S of (-1)^(s - l) v(T + L).
    """
    p = len(table).bit_length() - 1
    s = len(players)
    chosen = sum(1 << player for player in players)
    total = np.zeros(table.shape[1:])
    for others in range(len(table)):
        if others & chosen:
            continue
        t = others.bit_count()
        weight = factorial(t) * factorial(p - t - s) / factorial(p - s + 1)
        for size in range(s + 1):
            for part in combinations(players, size):
                joined = others | sum(1 << player for player in part)
                total = total + weight * (-1) ** (s - size) * table[joined]
    return total


def pairs_of(table: Floats) -> Floats:
    """The index of all pairs of players, (p, p, ...), zero on the diagonal."""
    p = len(table).bit_length() - 1
    found = np.zeros((p, p, *table.shape[1:]))
    for i, j in combinations(range(p), 2):
        found[i, j] = found[j, i] = interaction_index(table, (i, j))
    return found


Sets = dict[tuple[int, ...], float]


def sets_of(table: Floats, order: int) -> list[tuple[int, ...]]:
    """All sets of 1 to `order` players."""
    p = len(table).bit_length() - 1
    return [one for size in range(1, order + 1) for one in combinations(range(p), size)]


def derivative(table: Floats, players: tuple[int, ...], others: int) -> float:
    """The discrete derivative at a set of others: what the players add only together."""
    return float(
        sum(
            (-1) ** (len(players) - size) * table[others | sum(1 << player for player in part)]
            for size in range(len(players) + 1)
            for part in combinations(players, size)
        )
    )


def without(table: Floats, players: tuple[int, ...]) -> list[int]:
    """All coalitions of the others, as numbers."""
    chosen = sum(1 << player for player in players)
    return [others for others in range(len(table)) if not others & chosen]


def semivalue(table: Floats, chances: Any) -> Floats:
    """What each player adds to a random coalition of the others, by the chances of its size."""
    p = len(table).bit_length() - 1
    weights = [chance / comb(p - 1, size) for size, chance in enumerate(chances)]
    return np.array(
        [
            sum(
                weights[others.bit_count()] * derivative(table, (player,), others)
                for others in without(table, (player,))
            )
            for player in range(p)
        ]
    )


def sii(table: Floats, order: int) -> Sets:
    """The Shapley interaction index of all sets."""
    return {one: float(interaction_index(table, one)) for one in sets_of(table, order)}


def k_sii(table: Floats, order: int) -> Sets:
    """n-Shapley values, from n = 1 on (Bordt & von Luxburg 2023, Definition 6)."""
    bernoulli = [1, -1 / 2, 1 / 6, 0, -1 / 30]
    p = len(table).bit_length() - 1
    every = sii(table, order)
    found: Sets = {}
    for n in range(1, order + 1):
        for one in found:
            outside = [player for player in range(p) if player not in one]
            joined = [tuple(sorted((*one, *more))) for more in combinations(outside, n - len(one))]
            found[one] += bernoulli[n - len(one)] * sum(every[each] for each in joined)
        found |= {one: every[one] for one in combinations(range(p), n)}
    return found


def stii(table: Floats, order: int) -> Sets:
    """The Shapley-Taylor interaction index (Sundararajan et al. 2020, Definition 1 and eq. 9)."""
    p = len(table).bit_length() - 1
    found: Sets = {}
    for one in sets_of(table, order):
        found[one] = derivative(table, one, 0)
        if len(one) == order:
            found[one] = (order / p) * sum(
                derivative(table, one, others) / comb(p - 1, others.bit_count())
                for others in without(table, one)
            )
    return found


def fsii(table: Floats, order: int) -> Sets:
    """The faithful index: the best approximation by the Shapley kernel (Tsai et al. 2023, eq. 14).

    It is exact at the two ends, by Lagrange multipliers.
    """
    p = len(table).bit_length() - 1
    sets = sets_of(table, order)
    number = [sum(1 << player for player in one) for one in sets]
    contains = np.array([[(each & own) == own for own in number] for each in range(len(table))])
    sizes = np.array([each.bit_count() for each in range(len(table))])
    inner = (sizes > 0) & (sizes < p)
    kernel = np.array([1 / (comb(p, s) * s * (p - s)) if 0 < s < p else 0.0 for s in sizes])
    x = contains[inner].astype(np.float64)
    weighted = x * kernel[inner, None]
    gram = np.block([[weighted.T @ x, np.ones((len(sets), 1))], [np.ones(len(sets)), 0.0]])
    right = np.append(weighted.T @ (table[inner] - table[0]), table[-1] - table[0])
    return dict(zip(sets, np.linalg.solve(gram, right)[:-1].tolist(), strict=True))


# Hierarchies


def winter_values(table: Floats, paths: tuple[tuple[str, ...], ...]) -> Floats:
    """The mean gains over all orders in which the members of every group stay together, (p,)."""
    p = len(paths)
    total = np.zeros(p)
    orders = list(orders_that_keep_groups(paths))
    for order in orders:
        joined = 0
        for player in order:
            total[player] += table[joined | 1 << player] - table[joined]
            joined |= 1 << player
    return total / len(orders)


def orders_that_keep_groups(paths: tuple[tuple[str, ...], ...]) -> Iterator[tuple[int, ...]]:
    """The orders of all players in which no outsider comes between two members of a group."""
    groups = {path[: depth + 1] for path in paths for depth in range(len(path))}
    members = [
        {player for player, path in enumerate(paths) if path[: len(group)] == group}
        for group in groups
    ]
    for order in permutations(range(len(paths))):
        places = [[order.index(player) for player in own] for own in members]
        if all(max(own) - min(own) == len(own) - 1 for own in places):
            yield order
