"""Coalitions that differ in one player: what the player adds on joining is seen."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shearshap.methods.levels import TIED


@dataclass(frozen=True)
class Joins:
    """Where players join among some coalitions."""

    before: Tensor  #: (n,), the number of a coalition
    after: Tensor  #: (n,), of the same with one more player
    player: Tensor  #: (n,), who that is
    players: int

    @classmethod
    def of(cls, signs: Tensor) -> "Joins":
        """Return all joins among coalitions of signs (c, p)."""
        players = signs.shape[1]
        size = signs.sum(1)
        differ_in_one = (signs @ signs.mT).round() == players - 2
        after, before = torch.nonzero(differ_in_one & (size[:, None] > size), as_tuple=True)
        player = (signs[after] - signs[before]).argmax(1)
        return cls(before, after, player, players)

    def quiet_players(self, values: Tensor) -> Tensor:
        """Return who joins and never adds anything, (g, p) of bool, of values (g, c)."""
        gains = (values[:, self.after] - values[:, self.before]).abs()
        adds = gains > TIED * values.abs().amax(1, keepdim=True)
        who = torch.nn.functional.one_hot(self.player, self.players).to(values.dtype)
        times_added = adds.to(values.dtype) @ who
        return (times_added == 0) & (who.sum(0) > 0)
