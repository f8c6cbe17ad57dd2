"""Interaction indices by their definitions, one plain sum for each set of players."""

from itertools import combinations
from math import factorial
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
