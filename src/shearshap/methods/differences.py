"""Designs of differences: what a player adds to coalitions of others, averaged."""

from dataclasses import dataclass
from math import inf
from typing import Self

import torch
from torch import Tensor

from shearshap.coalitions import with_ends
from shearshap.methods.base import Design, Estimate


@dataclass(frozen=True)
class Differences(Design):
    """A player's value is a weighted mean of what it adds to coalitions of others.

    phi_i = sum_n w_n [v(S_in + i) - v(S_in)], with coalitions laid out (player, n, without | with).
    """

    coalitions: Tensor  #: (r or 1, 2 + 2 p n, p)
    weights: Tensor  #: (n,)

    @classmethod
    def of(cls, others: Tensor, weights: Tensor) -> Self:
        """Make the design of `others` (r or 1, p, n, p): the sets S_in, whatever they say of player
        i itself.
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
        return Estimate(
            torch.einsum("n,rpnk->rpk", self.weights, differences), *self.errors(differences)
        )

    def errors(self, _differences: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of differences (r, p, n, k), and their degrees of
        freedom: none here.
        """
        return None, inf
