"""Exact Shapley values from all 2^p coalitions (the paper's eq. 3)."""

from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import BudgetError
from shearshap.games.coalitions import subsets
from shearshap.games.game import GameInfo, coalition_count
from shearshap.games.indices import SHAPLEY, Semivalue
from shearshap.games.structure import Structure
from shearshap.methods.base import Design, Estimate, Method, Promise

MAX_PLAYERS = 30  #: whose coalitions are still listed


@dataclass(frozen=True)
class Exact(Method):
    """All coalitions, each once; the answer has no sampling error."""

    semivalue: Semivalue = field(default=SHAPLEY, repr=False)
    stops: ClassVar[bool] = True  # it has no error to begin with
    is_exact: ClassVar[bool] = True
    takes_closed_forms: ClassVar[bool] = True
    promises: ClassVar[frozenset[Promise]] = frozenset(get_args(Promise))

    def minimum(self, game: GameInfo) -> int:
        """Return 2^p or, in a hierarchy, the number of coalitions with non-zero weight."""
        return coalition_count(game)

    def errors_from(self, game: GameInfo) -> int:
        """Return the number of all coalitions: the errors are 0."""
        return self.minimum(game)

    def in_hierarchy(self, _game: GameInfo, _coalitions: int, *, stops: bool) -> Method:  # noqa: ARG002
        """Return this method."""
        return self

    def design(self, game: GameInfo, _budget: int, _rng: np.random.Generator) -> Design:
        """Return the design of all coalitions."""
        return enumeration(game, self.semivalue)


@dataclass(frozen=True)
class Enumeration(Design):
    """All coalitions: the empty, the full, then the rest in binary counting order.

    They are listed when first read: rows that stop early never need them.
    """

    players: int
    device: torch.device
    semivalue: Semivalue = SHAPLEY
    complete = True

    @cached_property
    def coalitions(self) -> Tensor:  # type: ignore[override]
        """The coalitions (1, 2^p, p)."""
        counted = torch.from_numpy(subsets(self.players)).to(self.device)
        ends_first = torch.cat((counted[:1], counted[-1:], counted[1:-1]))
        return ends_first[None]

    def estimate(self, values: Tensor) -> Estimate:
        """Return the Shapley values of coalition values (r, 2^p, k), with standard errors of 0."""
        # back to binary counting order: the full coalition is the last
        counted = torch.cat((values[:, :1], values[:, 2:], values[:, 1:2]), dim=1)
        phi = shapley_transform(counted, self.semivalue)
        return Estimate(phi, torch.zeros_like(phi))


@dataclass(frozen=True)
class HierarchicalEnumeration(Design):
    """All coalitions with non-zero weight in a hierarchy, each once, and the weights."""

    structure: Structure
    device: torch.device
    complete = True

    @cached_property
    def _listed(self) -> tuple[Tensor, Tensor]:
        sets, weights = self.structure.listed()
        return sets.to(self.device)[None], weights.to(self.device)

    @property
    def coalitions(self) -> Tensor:  # type: ignore[override]
        """The coalitions (1, c, p)."""
        return self._listed[0]

    def estimate(self, values: Tensor) -> Estimate:
        """Return the Winter values of coalition values (r, c, k), with standard errors of 0."""
        weights = self._listed[1].to(values.dtype)
        # a constant changes no value, and small numbers lose fewer digits
        table = (values - values[:, :1]).transpose(0, 1).flatten(1)  # (c, r k)
        phi = torch.sparse.mm(weights, table).unflatten(1, (len(values), -1)).transpose(0, 1)
        return Estimate(phi, torch.zeros_like(phi))


def enumeration(game: GameInfo, semivalue: Semivalue = SHAPLEY) -> Design:
    """Return the design of all coalitions of a game."""
    if game.structure is not None:
        return HierarchicalEnumeration(game.structure, game.device)
    if game.players > MAX_PLAYERS:
        raise BudgetError(f"all coalitions of {game.players} features are too many to list")
    return Enumeration(game.players, game.device, semivalue)


def shapley_transform(values: Tensor, semivalue: Semivalue = SHAPLEY) -> Tensor:
    """Return the Shapley values (r, p, k) of tables (r, 2^p, k) in binary counting order.

    Bit i of a coalition's number says whether player i is in it. With w_s = s! (p-1-s)! / p!, or of
    another semivalue the probability of s others divided by C(p-1, s), a set
    S counts w_{|S|-1} for its members and -w_{|S|} for the others:

        phi_i = sum_{S with i} (w_{|S|-1} + w_{|S|}) v(S) - sum_S w_{|S|} v(S),   w_{-1} = w_p = 0.

    The first sum is wanted for every i. Folding the table in half, one player at a time, gives all
    of them in 2^p + 2^{p-1} + ... additions, instead of p sums over the table. For p = 2:

        table          {}  0  1  01      player 0: sum the odd columns, 0 and 01
        folded         {}+0  1+01        player 1: sum the odd column
    """
    players = values.shape[1].bit_length() - 1
    chances = semivalue.probabilities(players)
    inner = [float(chance / comb(players - 1, s)) for s, chance in enumerate(chances)]
    # w[s + 1] is w_s
    w = torch.tensor([0.0, *inner, 0.0], dtype=values.dtype, device=values.device)
    sizes = _sizes(players).to(values.device)

    # a constant changes no Shapley value, and small numbers lose fewer digits
    centred = values - values[:, :1]
    total = torch.einsum("c,rck->rk", w[sizes + 1], centred)

    table = (w[sizes] + w[sizes + 1])[:, None] * centred
    sums = []
    for _ in range(players):
        absent = table[:, ::2]
        present = table[:, 1::2]
        sums.append(present.sum(dim=1))
        table = absent + present
    return torch.stack(sums, dim=1) - total[:, None]


def _sizes(players: int) -> Tensor:
    """Return the number of members of every set in binary counting order, (2^p,)."""
    sizes = torch.zeros(1, dtype=torch.int64, device="cpu")
    for _ in range(players):
        sizes = torch.cat((sizes, sizes + 1))
    return sizes
