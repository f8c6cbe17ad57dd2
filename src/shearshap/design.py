"""Designs: which coalitions to ask for, and how the answers add up to shares.

Every design starts with the empty and the full coalition, so base value and prediction come with the rest.
Below them the combinatorics that several methods share.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import BudgetError, MethodError
from shearshap.game import Game

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Promise = Literal["efficiency", "unbiased", "pairwise", "null-player"]

EMPTY, FULL = 0, 1  # columns of every design

FEWEST = 4
"""Draws that have standard errors: fewer lie close together by chance too often, whatever Student's t allows."""


@dataclass(frozen=True)
class Estimate:
    """Shares (r, p, k) and, where the method knows them, their standard errors (r, p, k)."""

    shares: Tensor
    standard_errors: Tensor | None = None
    degrees_of_freedom: float = inf  #: of the standard errors: how many independent draws they rest on, less one


@dataclass(frozen=True)
class Part:
    """A design on some of another one's coalitions."""

    columns: Tensor  #: (c',) which of the other's coalitions these are
    design: "Design"


class Design(ABC):
    """Coalitions to ask for, and what their values mean."""

    coalitions: Tensor  #: (r or 1, c, p) of bool; the first two are the empty and the full coalition
    shared: bool = True  #: whether one design serves all rows
    calibration: object = None  #: what `fit` learnt, for the explanation to keep

    def fit(self, _values: Tensor) -> "Design":
        """Return the design after a look at the pilot rows' values (r, c, k): the seam for calibrated methods."""
        return self

    def calibrated(self, _calibration: object) -> "Design":
        """Return the design with what another one's `fit` learnt, for want of rows of its own."""
        return self

    @abstractmethod
    def estimate(self, values: Tensor) -> Estimate:
        """Return the shares of values (r, c, k)."""

    def first(self, _coalitions: int) -> Part:
        """Return the design on its first coalitions, at most so many; where the method `stops`, parts are nested."""
        raise NotImplementedError(f"{type(self).__name__} cannot stop early")


class Method(ABC):
    """A way to estimate Shapley values; an instance holds options only."""

    pilot_rows: ClassVar[int] = 0  #: how many of the first rows' values its design's `fit` wants to see

    @property
    def stops(self) -> bool:
        """Whether its designs have standard errors and a `first`, so that a row can stop once it is precise enough."""
        return False

    @property
    @abstractmethod
    def promises(self) -> frozenset[Promise]:
        """What holds whatever the game.

        - efficiency: shares add up to prediction - base value
        - unbiased: the mean over seeds is the Shapley value
        - pairwise: exact on games of interactions of order <= 2 (a regression: once it has full rank; else it warns)
        - null-player: a player that never matters gets exactly 0
        """

    @abstractmethod
    def minimum(self, game: Game) -> int:
        """Return the smallest number of coalitions it can work with."""

    @abstractmethod
    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return a design of at most `budget` coalitions, the empty and the full one included.

        Draws must not depend on the game's rows, so that a row's answer does not depend on its neighbours.
        """


@dataclass(frozen=True)
class Differences(Design):
    """A player's share is a weighted mean of what it adds to coalitions of others.

    phi_i = sum_n w_n [v(S_in + i) - v(S_in)], with coalitions laid out (player, n, without | with).
    """

    coalitions: Tensor  #: (r or 1, 2 + 2 p n, p)
    weights: Tensor  #: (n,)
    shared: bool = True

    @classmethod
    def of(cls, others: Tensor, weights: Tensor, *, shared: bool) -> Self:
        """Make the design of `others` (r or 1, p, n, p): the sets S_in, whatever they say of player i itself."""
        players = others.shape[-1]
        own = torch.eye(players, dtype=torch.bool, device=others.device)[:, None]
        pairs = torch.stack((others & ~own, others | own), dim=3)
        return cls(with_ends(pairs.flatten(1, 3)), weights, shared)

    def estimate(self, values: Tensor) -> Estimate:
        """Return the weighted mean difference of every player."""
        players = self.coalitions.shape[-1]
        pairs = values[:, 2:].unflatten(1, (players, len(self.weights), 2))
        differences = pairs[:, :, :, 1] - pairs[:, :, :, 0]
        return Estimate(torch.einsum("n,rpnk->rpk", self.weights, differences), *self.errors(differences))

    def errors(self, _differences: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of differences (r, p, n, k), and their degrees of freedom: none here."""
        return None, inf


def normalised(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x over its largest along one axis, so that squares stay finite, and that largest, the axis kept."""
    size = x.abs().amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return x / size, size


def sample_deviation(draws: Tensor, dim: int) -> Tensor:
    """Return the root of the unbiased variance over one axis, sooner than `Tensor.std` does over an inner one."""
    apart, size = normalised(draws - draws.mean(dim, keepdim=True), dim)
    return size.squeeze(dim) * (apart.square().sum(dim) / (draws.shape[dim] - 1)).sqrt()


def with_ends(coalitions: Tensor) -> Tensor:
    """Return coalitions (r, c, p) with the empty and the full coalition put in front, (r, 2 + c, p)."""
    ends = torch.zeros((len(coalitions), 2, coalitions.shape[-1]), dtype=torch.bool, device=coalitions.device)
    ends[:, FULL] = True
    return torch.cat((ends, coalitions), dim=1)


def check_option(name: str, given: object, known: Sequence[str]) -> None:
    """Raise unless an option of a method is one of those known."""
    if given not in known:
        raise MethodError(f"{name}: wanted one of {', '.join(known)}, got {given!r}")


def check_budget(method: Method, game: Game, budget: int, name: str) -> None:
    """Raise unless a budget of model evaluations suffices."""
    smallest = method.minimum(game)
    if budget // game.cost < smallest:
        each = f" ({smallest} coalitions of {game.cost} background rows each)" if game.cost > 1 else ""
        needed = smallest * game.cost
        number = str(needed) if needed < 10**9 else f"about 2^{needed.bit_length() - 1}"
        raise BudgetError(
            f"{name} needs at least {number} evaluations a row for {game.players} players{each}, got {budget}"
        )


# Sizes and sets


def kernel_mass(players: int) -> Floats:
    """Return the Shapley kernel's mass of each size s = 1..p-1, adding up to 1: proportional to 1/(s (p-s))."""
    sizes = np.arange(1, players)
    mass = 1 / (sizes * (players - sizes))
    return np.asarray(mass / mass.sum())


def allocate(total: int, wanted: Floats, caps: Sequence[int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Share `total` draws out in proportion to `wanted` but no more than `caps` each (water filling).

    What is left after rounding down goes by systematic sampling, so each expectation is the ideal share.
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
    """Return where every set of (c, p) is found first, in order, in a tenth of the time of `np.unique` over an axis."""
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
    """Draw distinct complement pairs, counts[s-1] with a smaller side of size s: one side of each, (m, p).

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
    """Return all 2^size subsets in binary counting order, (2^size, size); subset n and 2^size-1-n are complements."""
    number, found = np.arange(1 << size), np.empty((1 << size, size), dtype=bool)
    for member in range(size):  # one at a time: all at once they take eight times the memory
        found[:, member] = number >> member & 1
    return found


def level_of_caller() -> int:
    """Return the `stacklevel` at which a warning names who called the package, if its caller here warns."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("shearshap."):
        level, frame = level + 1, frame.f_back
    return level


def as_tensor(array: NDArray[Any], game: Game) -> Tensor:
    """Return an array as a tensor on the game's device."""
    return torch.from_numpy(array).to(game.device)
