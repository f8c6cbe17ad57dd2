"""Coalitions: their sizes, and how to draw sets and complement pairs of them.

Letters: c coalitions, m complement pairs, p players.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

EMPTY = 0  #: the column of the empty coalition in every design
FULL = 1  #: the column of the full coalition


def with_ends(coalitions: Tensor) -> Tensor:
    """Return coalitions (r, c, p) with the empty and the full coalition put in front, (r, 2 + c,
    p).
    """
    ends = torch.zeros(
        (len(coalitions), 2, coalitions.shape[-1]), dtype=torch.bool, device=coalitions.device
    )
    ends[:, FULL] = True
    return torch.cat((ends, coalitions), dim=1)


# Sizes and sets


def kernel_mass(players: int) -> Floats:
    """Return the Shapley kernel's mass of each size s = 1..p-1, adding up to 1: proportional to
    1/(s (p-s)).
    """
    sizes = np.arange(1, players)
    mass = 1 / (sizes * (players - sizes))
    return np.asarray(mass / mass.sum())


def allocate(
    total: int, wanted: Floats, caps: Sequence[int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Share `total` draws out in proportion to `wanted` but no more than `caps` each (water
    filling).

    What is left after rounding down goes by systematic sampling, so each expectation is the ideal
    share.
    """
    limits = np.array([min(cap, total) for cap in caps], dtype=np.float64)
    ideal = np.zeros(len(limits))
    free = np.ones(len(limits), dtype=bool)
    while free.any():
        left = total - limits[~free].sum()
        ideal = np.where(free, left * wanted / wanted[free].sum(), limits)
        over = free & (ideal >= limits)
        if not over.any():
            break
        free &= ~over
    marks = np.floor(np.concatenate(([0.0], np.cumsum(ideal % 1))) + rng.random() + 1e-9)
    counts = np.floor(ideal).astype(np.int64) + np.diff(marks).astype(np.int64)
    return np.minimum(counts, limits.astype(np.int64))


def distinct_sets(players: int, size: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw `count` distinct sets of one size, uniformly without replacement: (count, p)."""
    total = comb(players, size)
    if total <= max(4 * count, 4096):
        members = np.array(list(combinations(range(players), size)), dtype=np.int64)
        chosen = members[np.sort(rng.permutation(total)[:count])]
        return _indicators(chosen, players)
    found = np.empty((0, players), dtype=bool)
    while len(found) < count:
        keys = rng.random((count, players))
        fresh = _indicators(np.argsort(keys, axis=1)[:, :size], players)
        both = np.concatenate((found, fresh))
        found = both[_first_of_each(both)]
    return found[:count]


def _first_of_each(sets: Bools) -> NDArray[np.int64]:
    """Return where every set of (c, p) is found first, in order, in a tenth of the time of
    `np.unique` over an axis.
    """
    packed = np.packbits(sets, axis=1)
    return np.sort(np.unique(packed.view((np.void, packed.shape[1]))[:, 0], return_index=True)[1])


def _indicators(members: NDArray[np.int64], players: int) -> Bools:
    sets = np.zeros((len(members), players), dtype=bool)
    np.put_along_axis(sets, members, True, axis=1)
    return sets


def pair_caps(players: int) -> list[int]:
    """Return how many complement pairs there are with a smaller side of size 1, 2, ..., p // 2."""
    sizes = range(1, players // 2 + 1)
    return [comb(players, s) if 2 * s < players else comb(players - 1, s) for s in sizes]


def distinct_pairs(players: int, counts: Sequence[int], rng: np.random.Generator) -> Bools:
    """Draw distinct complement pairs, counts[s-1] with a smaller side of size s: one side of each,
    (m, p).

    At half size both sides look alike; the one without player 0 stands for the pair.
    """
    drawn = [np.empty((0, players), dtype=bool)]
    for size, count in enumerate(counts, start=1):
        if 2 * size < players:
            drawn.append(distinct_sets(players, size, count, rng))
        else:
            drawn.append(np.pad(distinct_sets(players - 1, size, count, rng), ((0, 0), (1, 0))))
    return np.concatenate(drawn)


def subsets(size: int) -> Bools:
    """Return all 2^size subsets in binary counting order, (2^size, size); subset n and 2^size-1-n
    are complements.
    """
    number, found = np.arange(1 << size), np.empty((1 << size, size), dtype=bool)
    for member in range(size):  # one at a time: all at once they take eight times the memory
        found[:, member] = number >> member & 1
    return found


# Numbers for sets


def codes(sets: Tensor) -> Tensor:
    """Return a number for each set of (c, p), (c,); equal sets have equal numbers.

    It is the sum of its members' bits or, of 63 players and more, of random numbers.
    """
    players = sets.shape[1]
    if players < 63:
        bits = 1 << torch.arange(players, device=sets.device)
    else:
        drawn = np.random.default_rng(0).integers(1 << 62, size=players)
        bits = torch.from_numpy(drawn).to(sets.device)

    # In chunks, as the products take eight times the memory of the sets.
    return torch.cat([(chunk * bits).sum(1) for chunk in sets.split(1 << 16)])
