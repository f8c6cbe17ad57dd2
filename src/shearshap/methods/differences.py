"""Designs of differences: what a player adds to coalitions of others, averaged."""

from dataclasses import dataclass
from math import inf
from typing import Self

import torch
from torch import Tensor

from shearshap.games.coalitions import with_ends
from shearshap.methods.base import Design, Estimate
from shearshap.methods.levels import possible_jumps


@dataclass(frozen=True)
class Differences(Design):
    """A player's value is a weighted mean of what it adds to coalitions of others.

    phi_i = sum_n w_n [v(S_in + i) - v(S_in)]. The columns for players 0 and 1, with n = 0 and 1:

        0      1     2    3       4    5       6    7       8    9
        empty  full  S00  S00+0   S01  S01+0   S10  S10+1   S11  S11+1
    """

    coalitions: Tensor  #: (r or 1, 2 + 2 p n, p)
    weights: Tensor  #: (n,)

    @classmethod
    def of(cls, others: Tensor, weights: Tensor) -> Self:
        """Return the design of the sets S_in, `others` (r or 1, p, n, p).

        They may hold player i itself or not: it is taken out, and put in.
        """
        players = others.shape[-1]
        own = torch.eye(players, dtype=torch.bool, device=others.device)[:, None]
        pairs = torch.stack((others & ~own, others | own), dim=3)
        return cls(with_ends(pairs.flatten(1, 3)), weights)

    def estimate(self, values: Tensor) -> Estimate:
        """Return the weighted mean difference of every player."""
        players = self.coalitions.shape[-1]
        pairs = values[:, 2:].unflatten(1, (players, len(self.weights), 2))
        differences = pairs[:, :, :, 1] - pairs[:, :, :, 0]
        phi = torch.einsum("n,rpnk->rpk", self.weights, differences)
        jumps = possible_jumps(values, self.coalitions.shape[2])
        errors, freedom = self.errors(differences, jumps)
        return Estimate(phi, errors, freedom)

    def errors(self, _differences: Tensor, _jumps: Tensor) -> tuple[Tensor | None, float]:
        """Return standard errors (r, p, k) of differences (r, p, n, k), and degrees of freedom.

        Here there are none.
        """
        return None, inf
