"""Coalitions: their sizes, and how to draw sets and complement pairs of them.

Letters: c coalitions, m complement pairs, p players.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

EMPTY = 0  #: the column of the empty coalition in every design
FULL = 1  #: the column of the full coalition


def end_coalitions(players: int, device: torch.device) -> Tensor:
    """Return the empty and the full coalition, (1, 2, p)."""
    ends = torch.zeros((1, 2, players), dtype=torch.bool, device=device)
    ends[:, FULL] = True
    return ends


def with_ends(coalitions: Tensor) -> Tensor:
    """Return the empty, the full and then these coalitions: (r, c, p) to (r, 2 + c, p)."""
    rows, _, players = coalitions.shape
    ends = end_coalitions(players, coalitions.device)
    return torch.cat((ends.expand(rows, -1, -1), coalitions), dim=1)


# Sizes and sets


def kernel_mass(players: int) -> Floats:
    """Return the Shapley kernel's mass of each size s = 1 ... p - 1, (p - 1,).

    It is proportional to 1 / (s (p - s)), and adds up to 1.
    """
    sizes = np.arange(1, players)
    mass = 1 / (sizes * (players - sizes))
    return np.asarray(mass / mass.sum())


def allocate(
    total: int, wanted: Floats, caps: Sequence[int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Divide `total` draws in proportion to `wanted`, at most `caps` to each: whole counts.

    A size that would get more than its cap gets its cap, and the others divide the rest. That is
    repeated, as when water fills vessels, until none is above its cap. Ten draws, wanted 2 : 1 : 1:

        caps     2    9    9
        round 1  5    2.5  2.5      the first is above its cap
        round 2  2    4    4        the other two divide the 8 that are left

    Fractions are then rounded at random, so that the expected counts are the fractions.
    """
    limits = np.array([min(cap, total) for cap in caps], dtype=np.float64)
    counts = _rounded(_water_filled(total, wanted, limits), rng)
    return np.minimum(counts, limits.astype(np.int64))


def _water_filled(total: int, wanted: Floats, limits: Floats) -> Floats:
    """Return how much of `total` each gets, in fractions; see `allocate`."""
    ideal = np.zeros(len(limits))
    free = np.ones(len(limits), dtype=bool)
    while free.any():
        left = total - limits[~free].sum()
        ideal = np.where(free, left * wanted / wanted[free].sum(), limits)
        over = free & (ideal >= limits)
        if not over.any():
            break
        free &= ~over
    return ideal


def _rounded(ideal: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return whole numbers whose expectations are `ideal`, by systematic sampling.

    The fractions lie end to end on a line, and each whole number on it is one more draw. A random
    shift makes that fair:

        ideal      1.5   2.25  0.25
        ends    0  0.5   0.75  1          of the fractions, laid end to end
        + 0.6   0.6   1.1   1.35  1.6     the first part crosses 1
        counts     2     2     0
    """
    ends = np.concatenate(([0.0], np.cumsum(ideal % 1)))
    # what rounding errors leave below a whole number has reached it
    crossed = np.floor(ends + rng.random() + 1e-9)
    return np.floor(ideal).astype(np.int64) + np.diff(crossed).astype(np.int64)


def distinct_sets(players: int, size: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw `count` distinct sets of one size, uniformly without replacement: (count, p).

    Few sets are listed, and some of the list taken. Of many, sets are drawn until enough of them
    are distinct; a set is where the random keys are smallest:

        keys      0.7  0.2  0.9  0.4      a set of size 2
        members        1         3
        set       0    1    0    1
    """
    total = comb(players, size)
    if total <= max(4 * count, 4096):
        places = np.sort(rng.permutation(total)[:count])
        return _indicators(members_of_all_sets(players, size)[places], players)

    distinct = np.empty((0, players), dtype=bool)
    while len(distinct) < count:
        keys = rng.random((count, players))
        members = np.argsort(keys, axis=1)[:, :size]
        drawn = np.concatenate((distinct, _indicators(members, players)))
        distinct = drawn[_first_places(drawn)]
    return distinct[:count]


def members_of_all_sets(players: int, size: int) -> NDArray[np.int64]:
    """Return the members of all sets of one size, (sets, size), in order."""
    total = comb(players, size)
    members = chain.from_iterable(combinations(range(players), size))
    return np.fromiter(members, np.int64, total * size).reshape(total, size)


def _first_places(sets: Bools) -> NDArray[np.int64]:
    """Return the place where each distinct set among sets (c, p) stands first, in order."""
    # as bytes: ten times as fast as np.unique over an axis
    packed = np.packbits(sets, axis=1)
    as_bytes = packed.view((np.void, packed.shape[1]))[:, 0]
    _, first = np.unique(as_bytes, return_index=True)
    return np.sort(first)


def _indicators(members: NDArray[np.int64], players: int) -> Bools:
    """Return sets (c, p) of bool, from the numbers of their members (c, size)."""
    sets = np.zeros((len(members), players), dtype=bool)
    np.put_along_axis(sets, members, True, axis=1)
    return sets


def pair_caps(players: int) -> list[int]:
    """Return how many complement pairs have a smaller side of size 1, 2, ..., p // 2."""
    sizes = range(1, players // 2 + 1)
    caps = [comb(players, size) for size in sizes]
    if players % 2 == 0:
        caps[-1] //= 2  # at half size, both sides of a pair are counted
    return caps


def distinct_pairs(players: int, counts: Sequence[int], rng: np.random.Generator) -> Bools:
    """Draw distinct complement pairs, and return one side of each, (m, p).

    counts[s - 1] pairs have a smaller side of size s, which stands for the pair. At half size, the
    side without player 0 does:

        p = 4    size 1    {0} {1} {2} {3}       of 0|123, 1|023, ...
                 size 2    {1,2} {1,3} {2,3}     of 12|03, 13|02, 23|01
    """
    drawn = [np.empty((0, players), dtype=bool)]
    for size, count in enumerate(counts, start=1):
        if 2 * size < players:
            drawn.append(distinct_sets(players, size, count, rng))
        else:
            others = distinct_sets(players - 1, size, count, rng)
            drawn.append(np.pad(others, ((0, 0), (1, 0))))
    return np.concatenate(drawn)


def subsets(size: int) -> Bools:
    """Return all subsets in binary counting order, (2^size, size).

    The n-th and the n-th last are complements. For size 2:

        number     0    1    2    3
        subset     {}   0    1    01
    """
    number = np.arange(1 << size)
    sets = np.empty((1 << size, size), dtype=bool)
    # one member at a time: all at once they take eight times the memory
    for member in range(size):
        sets[:, member] = number >> member & 1
    return sets


# Numbers for sets


def codes(sets: Tensor) -> Tensor:
    """Return a number for each set of (c, p), (c,); equal sets have equal numbers.

    With fewer than 63 players, a set's number has the bits of its members: {0, 2} has 101, that is
    5. With more, it is the sum of random numbers of its members.
    """
    players = sets.shape[1]
    if players < 63:
        bits = 1 << torch.arange(players, device=sets.device)
    else:
        drawn = np.random.default_rng(0).integers(1 << 62, size=players)
        bits = torch.from_numpy(drawn).to(sets.device)

    # in chunks, as the products take eight times the memory of the sets
    return torch.cat([(chunk * bits).sum(1) for chunk in sets.split(1 << 16)])


def are_all(sets: Tensor) -> bool:
    """Return whether every one of the 2^p sets is among those of (c, p)."""
    count, players = sets.shape
    return count >= 1 << players and len(codes(sets).unique()) == 1 << players
