"""Pairs of a row and a background row, each a game of its own.

The marginal value function is a mean over background rows, and Shapley values are linear:

    v(S) = mean over b of v_b(S),    phi(v) = mean over b of phi(v_b).

So every background row may have coalitions of its own. Both ends of a game v_b are known before:
the predictions for the background row and for the row.

Letters: r pairs, c coalitions, p players, d model inputs, k outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.games.batches import Box
from shearshap.games.game import CoalitionValues, Usage
from shearshap.games.marginal import ModelGame


@dataclass
class PairedGame(ModelGame):
    """The game of pairs: `inputs` (r, d) are their rows, `background` (r, d) their backgrounds."""

    known: CoalitionValues | None = None  #: (r, 2, k), both ends

    @classmethod
    def of(
        cls, game: ModelGame, background: Tensor, ends: CoalitionValues | None = None
    ) -> "PairedGame":
        """Return each row of a game with each of n of its background rows, row by row.

        `background` (n,) are their numbers, and `ends` the values (r n, 2, k) of all pairs.
        """
        count = len(background)
        every = {name: getattr(game, name) for name in game.__dataclass_fields__}
        places = torch.arange(game.rows) if game.places is None else game.places
        changes = {
            "inputs": game.inputs.repeat_interleave(count, dim=0),
            "background": game.background[background].repeat(game.rows, 1),
            "places": places.repeat_interleave(count),
            "weights": None,
            "original_rows": None,
            "usage": Usage(),
        }
        return cls(**(every | changes), known=ends)

    @property
    def cost(self) -> int:
        """Model evaluations for one coalition."""
        return 1

    def take(
        self, rows: slice | Tensor = slice(None), background: slice | Tensor = slice(None)
    ) -> "PairedGame":
        """Return the game of some of the pairs, with nothing spent yet."""
        own = rows if isinstance(rows, slice) else rows.to(self.inputs.device)
        taken = super().take(rows, background)
        assert isinstance(taken, PairedGame)
        known = self.known and replace(self.known, values=self.known.values[rows])
        return replace(taken, background=self.background[own], known=known)

    def ends(self) -> CoalitionValues:
        """Return the empty and the full coalition's values, which are known."""
        assert self.known is not None
        return self.known

    def active_players(self) -> Tensor | None:
        """Return which players differ in the two rows of a pair, (r, p) of bool; None: all."""
        if self.sampler is not None:
            return None
        every = torch.ones(self.inputs.shape[1], dtype=torch.bool, device=self.inputs.device)
        return self._active_players(self.background, every)

    def background_in(self, box: Box) -> Tensor:
        """Return the background row of each pair in a box, (r, 1, 1, d)."""
        return self.background[box.rows, None, None]

    def _backgrounds(self) -> Iterator[Tensor]:
        """Yield the backgrounds of all pairs (r, d) at once."""
        yield self.background.to(self.device)
