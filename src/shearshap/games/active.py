"""Games among the players that take part: null players are left out, row by row.

A player whose inputs are those of every background row is null: no coalition value depends on it.
Rows with about equally many active players are explained together, as a game of q players. Which
players these are differs from row to row, and a row with fewer is filled up with null ones. Here
q = 2:

    players    0    1    2    3
    row 0      a    null b    null       its players a and b are 0 and 2
    row 1      null null a    b          its players a and b are 2 and 3
    row 2      a    null null null       its players a and b are 0 and 1, which is null

Letters: r rows, c coalitions, p players, q of them that play, k outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shearshap.games.game import CoalitionValues, Usage
from shearshap.games.indices import sets_up_to
from shearshap.games.marginal import ModelGame


@dataclass(frozen=True)
class ActiveGame:
    """The game of a model among some players of each row; the others are null, and absent."""

    game: ModelGame
    own: Tensor  #: (r, q) the players of each row that play, in order
    active: Tensor  #: (r, q) of bool: which of these are not known to be null

    @classmethod
    def of(cls, game: ModelGame, active: Tensor, count: int) -> "ActiveGame":
        """Return the game of q players, of rows with at most as many active ones, (r, p)."""
        missing = count - active.sum(dim=1, keepdim=True)
        null = ~active
        plays = active | (null & (null.cumsum(dim=1) <= missing))
        own = plays.nonzero()[:, 1].reshape(len(active), count)
        return cls(game, own, active.gather(1, own))

    @property
    def rows(self) -> int:
        """The number of rows r."""
        return self.game.rows

    @property
    def players(self) -> int:
        """The number of players q that play."""
        return self.own.shape[1]

    @property
    def cost(self) -> int:
        """Model evaluations for one coalition."""
        return self.game.cost

    @property
    def is_mean(self) -> bool:
        """Whether a value is the mean over background rows."""
        return self.game.is_mean

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live."""
        return self.game.device

    @property
    def structure(self) -> None:
        """None: in a hierarchy all players take part."""
        return None

    @property
    def differentiable(self) -> bool:
        """Whether the model can be differentiated."""
        return self.game.differentiable

    @property
    def usage(self) -> Usage:
        """The cost of each row so far."""
        return self.game.usage

    def take(self, rows: slice | Tensor) -> "ActiveGame":
        """Return the game of some of the rows, with nothing spent yet."""
        return ActiveGame(self.game.take(rows), self.own[rows], self.active[rows])

    def active_players(self) -> Tensor | None:
        """Return which of its players are not known to be null, (r, q)."""
        return self.active

    def distances(self) -> Tensor:
        """Return how far each player's inputs are from the background's, (r, q)."""
        return self.game.distances().gather(1, self.own)

    def ends(self) -> CoalitionValues:
        """Evaluate the empty and the full coalition: null players do not matter."""
        return self.game.ends()

    def consistency_warning(self, ends: CoalitionValues, *, first: bool) -> str | None:
        """Say why predictions are not the model's own; None if they are."""
        return self.game.consistency_warning(ends, first=first)

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, q) of bool to values (r, c, k)."""
        alike = (self.own == self.own[:1]).all()
        own = self.own[:1] if alike else self.own  # rows of the same players share coalitions
        rows = max(len(coalitions), len(own))
        count = coalitions.shape[1]
        wide = coalitions.new_zeros(rows, count, self.game.players)
        index = own[:, None].expand(rows, count, -1)
        return self.game(wide.scatter_(2, index, coalitions.expand(rows, -1, -1)))

    def pairs_of(self, every: Tensor) -> Tensor:
        """Return the part (r, q, q) of a matrix over all players (r, p, p)."""
        rows = torch.arange(self.rows, device=every.device)[:, None, None]
        own = self.own.to(every.device)
        return every[rows, own[:, :, None], own[:, None, :]]


def set_places(own: Tensor, players: int, order: int) -> tuple[Tensor, int]:
    """Return the places of the sets of each row's players (r, q) among those of all, and how many.

    Both are in the order of `sets_up_to`. A set is recognised by the sum of 2^player.
    """
    bit = 2 ** torch.arange(players, device=own.device)
    every = torch.tensor([sum(1 << each for each in one) for one in sets_up_to(players, order)])
    ordered, place = every.to(own.device).sort()
    # the bit of no player is 0, so that sets of all sizes can be summed alike
    bits = torch.cat((bit[own], own.new_zeros(len(own), 1)), dim=1)
    nobody = own.shape[1]
    padded = [(*one, *[nobody] * (order - len(one))) for one in sets_up_to(nobody, order)]
    members = torch.tensor(padded, device=own.device).reshape(-1, order)
    return place[torch.searchsorted(ordered, bits[:, members].sum(2))], len(every)


def without_null(values: Tensor, active: Tensor) -> Tensor:
    """Return Shapley values (r, q, k) with 0 for null players, and the same sum.

    What null players have, which is an estimate's error, is divided equally among the active ones.
    """
    present = active[:, :, None]
    error = torch.where(present, 0.0, values).sum(dim=1, keepdim=True)
    each = error / active.sum(dim=1)[:, None, None]
    return torch.where(present, values + each, 0.0)


def widened(part: Tensor, letters: str, own: Tensor, players: int, order: int = 1) -> Tensor:
    """Return a field of active players as one of all players, with zeros for the others.

    `letters` are the field's axes, such as "rpk": each axis of q players (own, (r, q)) becomes one
    of p, and one of sets "s" of up to `order` of them that of all such sets.
    """
    if "s" in letters:
        places, sets = set_places(own, players, order)
        wide = part.new_zeros(len(part), sets, *part.shape[2:])
        return wide.scatter_(1, places[..., None].expand_as(part), part)
    for axis, letter in enumerate(letters):
        if letter == "p":
            shape = list(part.shape)
            index = own.reshape(len(own), *(-1 if at == axis else 1 for at in range(1, part.ndim)))
            index = index.expand(shape)
            shape[axis] = players
            part = part.new_zeros(shape).scatter_(axis, index, part)
    return part
