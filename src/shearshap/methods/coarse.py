"""Coarse to fine: groups of a hierarchy first, and the members of those that matter.

A group is *opened* to divide its value among its members. An opening takes a set A of outsiders
that joined before the group m, the set B of those that join after it, and an order of the n
members. Their prefixes join A, and the complements, which are the reverse order's prefixes, join B:

    A < A + 1 < A + 1, 2 < ... < A + m          B < B + n < B + n, n-1 < ... < B + m

Both ends of both chains are known from the group above, so that an opening asks for 2 (n - 1)
coalitions. Its gains are those of joining orders and their reverses that keep groups together, at
one group alone. The chains hold a new A and B for each of its members, which can be opened next.

A group is opened at few of the many A that may join before it. At the others its gain g is known,
or that of a group above, and is divided as the openings have shown, but for the size of g:

    d_c = |c| / |m| g + e_c (|g| + a little),     e_c fitted to the openings, with the sum 0.

So values add up at every level, and games of pairs of players are exact once all groups are open.
In a group that was never opened, each player has an equal share, and e_c = 0. The next to open is
the group and A with most at stake for each evaluation: weight^2 g^2, and less if the group was
opened elsewhere.

If the largest groups add much only before, or only after, the others, as in an image that takes all
its parts, the game saturates. Then A and B differ so much that each is opened alone: both chains of
an opening start at the same set. Games of pairs are then not exact.

Letters: r rows, p players, k outputs, n members of a group.
"""

from dataclasses import dataclass, field
from math import factorial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.coalitions import Bools, Floats, end_coalitions
from shearshap.games.game import Game, GameInfo, coalition_count
from shearshap.games.structure import Node, Structure
from shearshap.methods.base import Design, Estimate, Method, Promise, Screening
from shearshap.methods.exact import Exact
from shearshap.methods.permutation import Permutation

ROUND = 8
"""A round spends at least one in ROUND of the evaluations before: fewer, larger model calls."""

ORDERED = Permutation(antithetic=True)

# Of the stakes: the best of eight settings on ten texts, ten images and ten rows of a table, which
# benchmarks/questions.py leaves out. Errors differed by up to a fifth from one to the next.
KNOWN = 0.1  #: of a group that was opened at other sets
ORDERS = 0.005  #: of another order of its members, relative to how far the chains are apart
SMALLEST = 0.3  #: the "little" of e_c, relative to the root mean square of the members' gains

# Of games that saturate: the best of six settings on 14 others of each, left out as well.
UNEVEN = 0.3  #: the part of a group's larger gain below which its other one is small
KNOWN_IF_SATURATED = 0.3
SMALLEST_IF_SATURATED = 0.03

# Of the standard errors, chosen there too: 95 % intervals held 89 to 99 % of the values.
UNOPENED = 2.0  #: the variance of equal shares, relative to g^2 / |m|
PRIOR = 4  #: openings that the mean variance of all members counts for


@dataclass(frozen=True)
class CoarseToFine(Method):
    """Values of a hierarchy's groups first; groups are opened one by one until the budget is spent.

    For expensive models: with fewer evaluations than features, they go to the groups that matter.
    Features of a group that was not opened share its value equally, and their standard errors
    allow for that. Without a hierarchy it is "permutation-antithetic".
    """

    promises: ClassVar[frozenset[Promise]] = frozenset({"efficiency"})
    stops: ClassVar[bool] = True
    note: ClassVar[str | None] = (
        "coarse to fine: features of a group that was not opened share its value equally, and "
        "their standard errors say how far off that may be; a larger budget opens more groups"
    )

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions that divide all players into the largest groups."""
        if game.structure is None:
            return ORDERED.minimum(game)
        return min(2 + _cost(game.structure.root), coalition_count(game))

    def errors_from(self, game: GameInfo) -> int:
        """Return the coalitions of as many joining orders as have a spread."""
        return ORDERED.errors_from(game)

    def select_method(self, _players: int, _coalitions: int, *, stops: bool) -> Method:  # noqa: ARG002
        """Return joining orders: without groups there is nothing to open."""
        return ORDERED

    def in_hierarchy(self, game: GameInfo, coalitions: int, *, stops: bool) -> Method:
        """Return exact values if the budget holds all coalitions, else this method.

        If rows may stop, it is joining orders, whose standard errors assume nothing.
        """
        if coalitions >= coalition_count(game):
            return Exact()
        return ORDERED if stops and coalitions >= ORDERED.minimum(game) else self

    def screening(self, game: GameInfo) -> "Opening | None":
        """Return the openings, which find the values."""
        return None if game.structure is None else Opening("distance", None, game.structure)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return joining orders of all players, for rows of which nothing is known."""
        return ORDERED.design(game, budget, rng)

    def design_for(
        self, game: GameInfo, _budget: int, _rng: np.random.Generator, eta: Tensor
    ) -> "Opened":
        """Return the design that holds the values and errors (r, 2, p, k) of the openings."""
        return Opened(end_coalitions(game.players, game.device), eta)


@dataclass(frozen=True)
class Opened(Design):
    """Values that are known once the groups are opened; only the ends are left to ask for."""

    coalitions: Tensor
    found: Tensor  #: (r, 2, p, k) values, and their standard errors
    complete = True  # what the openings have not shown is in the errors

    def estimate(self, _values: Tensor) -> Estimate:
        """Return the values and standard errors."""
        return Estimate(self.found[:, 0], self.found[:, 1])


@dataclass(frozen=True)
class Opening(Screening):
    """The openings of every row's groups."""

    structure: Structure

    def at(self, game: Game, ends: Tensor, budget: int, rng: np.random.Generator) -> Tensor:
        """Return values and standard errors of every row, (r, 2, p, k), within a budget.

        Rows that ask for as many coalitions at a time are evaluated together.
        """
        seed = int(rng.integers(1 << 62))  # the same draws for all rows
        known = ends.double().cpu().numpy()
        rows = [
            _OpenedRow(self.structure, row, budget - 2, np.random.default_rng(seed))
            for row in known
        ]
        while True:
            chosen = [row.choose() for row in rows]
            widths = np.array([len(sets) for sets in chosen])
            if not widths.any():
                break
            for width in np.unique(widths[widths > 0]):
                alike = np.flatnonzero(widths == width)
                sets = torch.from_numpy(np.stack([chosen[place] for place in alike]))
                some = game.take(torch.from_numpy(alike).to(game.device))
                values = some(sets.to(game.device)).double().cpu().numpy()
                for place, own in zip(alike, values, strict=True):
                    rows[place].add(own)
        game.usage.evaluations += game.cost * max(row.spent for row in rows)
        return torch.from_numpy(np.stack([row.divided() for row in rows])).to(ends)


@dataclass
class _Chains:
    """Two sets of outsiders that may join before a group."""

    before: Bools  #: (p,) A
    after: Bools  #: (p,) B
    ends: Floats  #: (4, k) v(A), v(A + m), v(B), v(B + m)
    weight: float  #: of A and B among all sets that may join before the group
    orders: list[NDArray[np.int64]] = field(default_factory=list)  #: of the members, by opening
    gains: list[Floats] = field(default_factory=list)  #: of the members, (n, 2, k), by opening
    inner: "list[_Chains]" = field(default_factory=list)  #: of its members, by its openings

    @property
    def gain(self) -> Floats:
        """What the group adds, (2, k): to A, and to B."""
        return self.ends[1::2] - self.ends[::2]

    @property
    def is_uneven(self) -> bool:
        """Whether the group adds much less to one of the sets."""
        small, large = np.sort(np.square(self.gain).sum(axis=1)).tolist()
        return bool(small < UNEVEN**2 * large)

    def parted(self) -> "list[_Chains]":
        """Return chains of each set alone."""
        half = self.weight / 2
        first = np.concatenate((self.ends[:2], self.ends[:2]))
        second = np.concatenate((self.ends[2:], self.ends[2:]))
        return [
            _Chains(self.before, self.before, first, half),
            _Chains(self.after, self.after, second, half),
        ]

    def scale(self, factor: float) -> None:
        """Scale its weight, and those of all that it was opened to."""
        self.weight *= factor
        for chains in self.inner:
            chains.scale(factor)


@dataclass
class _Group:
    """A group of a row, and the chains that it may be opened at."""

    node: Node
    members: list[int]  #: the numbers of its members among the groups; -1: a player
    chains: list[_Chains] = field(default_factory=list)

    @property
    def was_opened(self) -> bool:
        """Whether it was opened at any of its chains."""
        return any(chains.gains for chains in self.chains)


class _OpenedRow:
    """The groups of one row, which is given a budget beside its ends."""

    def __init__(
        self, structure: Structure, ends: Floats, budget: int, rng: np.random.Generator
    ) -> None:
        nodes = list(structure.nodes())
        number = {id(node): place for place, node in enumerate(nodes)}
        self.groups = [
            _Group(node, [number.get(id(child), -1) for child in node.children]) for node in nodes
        ]
        self.players = len(structure.paths)
        self.largest = max(_cost(node) for node in nodes)
        self.budget = budget
        self.spent = 0
        self.ends = ends
        self.seen = [ends]
        self.rng = rng
        self.saturates = False  #: whether the largest groups add much only before, or after, others
        self.waiting: list[tuple[_Group, _Chains]] = []
        nobody = np.zeros(self.players, dtype=bool)
        both = np.concatenate((ends, ends))
        self.groups[0].chains.append(_Chains(nobody, nobody, both, 1.0))

    def choose(self) -> Bools:
        """Return the coalitions (c, p) of the next openings; none if the budget is spent."""
        allowance = self._allowance()
        offers = [
            (self._stake(group, chains) / _cost(group.node), place, group, chains)
            for place, group in enumerate(self.groups)
            for chains in group.chains
        ]
        offers.sort(key=lambda offer: (-offer[0], offer[1]))
        self.waiting = []
        sets = [np.zeros((0, self.players), dtype=bool)]
        for stake, _, group, chains in offers:
            if stake >= 0 and _cost(group.node) <= allowance:
                allowance -= _cost(group.node)
                self.waiting.append((group, chains))
                sets.append(self._opened(group.node, chains))
        return np.concatenate(sets)

    def _allowance(self) -> int:
        """Return how many coalitions the next openings may take: at first those of the root."""
        if not self.spent:
            return min(self.budget, _cost(self.groups[0].node))
        return min(self.budget - self.spent, max(self.largest, 2 * (self.spent // (2 * ROUND))))

    def _stake(self, group: _Group, chains: _Chains) -> float:
        """Return the squared error that one more opening of a group may save; -1: it cannot be."""
        count = len(chains.gains)
        if not count:
            of_others = KNOWN_IF_SATURATED if self.saturates else KNOWN
            known = of_others if group.was_opened else 1.0
            return known * chains.weight**2 * float(np.square(chains.gain).mean(axis=0).sum())
        if count >= factorial(min(len(group.node.children), 6)):
            return -1.0
        apart = np.mean(chains.gains, axis=0)
        saved = ORDERS * np.square(apart[:, 0] - apart[:, 1]).sum() / (count * (count + 1))
        return chains.weight**2 * float(saved)

    def _opened(self, node: Node, chains: _Chains) -> Bools:
        """Return the coalitions of a new opening of a group: A's chain, then B's, backwards."""
        count = len(node.children)
        order = self.rng.permutation(count)
        if len(chains.orders) % 2:
            order = chains.orders[-1][::-1]
        chains.orders.append(order)
        joined = np.zeros((count - 1, self.players), dtype=bool)
        for place, member in enumerate(order[:-1].tolist()):
            joined[place:, list(node.children[member].players)] = True
        members = np.zeros(self.players, dtype=bool)
        members[list(node.players)] = True
        return np.concatenate((chains.before | joined, chains.after | (members & ~joined)))

    def add(self, values: Floats) -> None:
        """Take the values (c, k) of the openings chosen last."""
        self.seen.append(values)
        self.spent += len(values)
        start = 0
        for group, chains in self.waiting:
            order = chains.orders[-1]
            middle = start + len(order) - 1
            end = middle + len(order) - 1
            before, whole, after, all_after = chains.ends
            up = np.concatenate((before[None], values[start:middle], whole[None]))
            # the complements, from B + m down to B
            down = np.concatenate((all_after[None], values[middle:end], after[None]))
            start = end

            count = len(chains.gains)
            for inner in chains.inner:
                inner.scale(count / (count + 1))
            gains = np.empty((len(order), 2, values.shape[1]))
            gains[order, 0] = np.diff(up, axis=0)
            gains[order, 1] = -np.diff(down, axis=0)
            chains.gains.append(gains)
            joined = chains.before.copy()
            left = chains.after.copy()
            left[list(group.node.players)] = True
            for place, member in enumerate(order.tolist()):
                own = list(group.node.children[member].players)
                left[own] = False
                if group.members[member] >= 0:
                    ends = np.stack((up[place], up[place + 1], down[place + 1], down[place]))
                    weight = chains.weight / (count + 1)
                    inner = _Chains(joined.copy(), left.copy(), ends, weight)
                    parts = inner.parted() if self.saturates and inner.is_uneven else [inner]
                    chains.inner += parts
                    self.groups[group.members[member]].chains += parts
                joined[own] = True
            if group is self.groups[0] and count == 0:
                self.saturates = all(inner.is_uneven for inner in chains.inner)

    def divided(self) -> Floats:
        """Return values and standard errors, (2, p, k)."""
        total = self.ends[1] - self.ends[0]
        values = np.tile(total, (self.players, 1))
        variances = np.zeros_like(values)
        parts = {0: (total, np.zeros_like(total))}  # of the groups to divide
        for number, group in enumerate(self.groups):
            if number not in parts:
                continue  # within a group that was not opened
            value, variance = parts[number]
            size = len(group.node.players)
            if not group.was_opened:
                own = list(group.node.players)
                stake = np.mean([np.square(each.gain) for each in group.chains], axis=(0, 1))
                values[own] = value / size
                variances[own] = variance / size**2 + UNOPENED * stake / size
                continue
            little = SMALLEST_IF_SATURATED if self.saturates else SMALLEST
            shares = _shares(group, value, little)
            errors = _share_variances(group) + variance * _ratios(group.node) ** 2
            for member, child in enumerate(group.node.children):
                if group.members[member] < 0:
                    values[child.players[0]] = shares[member]
                    variances[child.players[0]] = errors[member]
                else:
                    parts[group.members[member]] = (shares[member], errors[member])
        alike = np.ptp(np.concatenate(self.seen), axis=0) == 0
        if self.players > 1:
            variances[:, alike] = np.inf  # nothing shows how far off they are
        return np.stack((values, np.sqrt(variances)))


def _shares(group: _Group, value: Floats, little: float) -> Floats:
    """Return the values (n, k) of a group's members, which add up to the group's value (k,)."""
    ratio = _ratios(group.node)
    gains = np.stack([each.gain.mean(axis=0) for each in group.chains])  # (c, k)
    weights = np.array([each.weight for each in group.chains])
    opened = np.array([bool(each.gains) for each in group.chains])
    parts = np.stack([np.mean(each.gains, axis=(0, 2)) for each in group.chains if each.gains])
    uneven = parts - ratio * gains[opened][:, None]  # (o, n, k)

    rest = value - weights @ gains  # of sets at which the groups above were not opened
    missing = max(1 - weights.sum(), 0.0)
    weights = np.append(weights, missing)
    gains = np.vstack((gains, rest / missing if missing > 1e-9 else rest))
    opened = np.append(opened, False)
    scale = np.abs(gains) + little * np.sqrt(np.square(parts).mean(axis=(0, 1)))
    scale[:, (scale == 0).all(axis=0)] = 1.0  # nothing to divide
    own = weights[opened][:, None] * scale[opened]
    squares = (own * scale[opened]).sum(axis=0)
    slope = (own[:, None] * uneven).sum(axis=0) / np.where(squares > 0, squares, 1.0)
    shares = np.einsum("o,onk->nk", weights[opened], uneven)
    shares += slope * (weights[~opened][:, None] * scale[~opened]).sum(axis=0)
    return np.asarray(shares + ratio * value)


def _share_variances(group: _Group) -> Floats:
    """Return the variances of the members' values (n, k), as far as its openings show them.

    An opening's two chains are far apart: A is small where B is large. So half their difference
    is about the deviation of a gain from one set to another. Few openings may lie close together by
    chance: a member's variance is raised towards the mean of all.
    """
    openings = np.concatenate([each.gains for each in group.chains if each.gains])
    count = len(openings)
    own = np.square(openings[:, :, 0] - openings[:, :, 1]).mean(axis=0) / 4
    missing = (own.mean(axis=0) - own).clip(min=0)
    return np.asarray((own + missing * PRIOR / (PRIOR + count)) / count)


def _ratios(node: Node) -> Floats:
    """Return each member's part of a group's players, (n, 1)."""
    return np.array([[len(child.players)] for child in node.children]) / len(node.players)


def _cost(node: Node) -> int:
    """Return the coalitions that an opening of a group asks for."""
    return 2 * (len(node.children) - 1)
