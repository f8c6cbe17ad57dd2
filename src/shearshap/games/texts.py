"""The game of texts: a coalition of parts is worth what the model says of the text with only them.

Texts of a block have equally many parts, and the same groups. They are evaluated together: which
texts go through the model in one batch is up to their scorer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.batches import Batch, Box
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.game import BatchedGame, CoalitionValues, Usage
from shearshap.games.structure import Structure

MAX_DIFFERENCE = 1e-3  #: of an output, by which it may differ between batches


class Scorer(Protocol):
    """Maps texts with some of their parts to outputs."""

    @property
    def device(self) -> torch.device:
        """Where outputs live."""

    def __call__(self, texts: NDArray[np.int64], coalitions: NDArray[np.bool_]) -> Tensor:
        """Map numbers of texts (n,) and coalitions of their parts (n, p) to (n,) or (n, k)."""

    def inputs(self, text: int, coalition: NDArray[np.bool_]) -> Any:
        """Return what the model takes for a coalition, to show it in an error."""


@dataclass
class TextGame(BatchedGame):
    """A game of r texts with p parts each."""

    scorer: Scorer
    texts: NDArray[np.int64]  #: (r,) their numbers among all texts
    players: int
    batch: Batch
    advance: Callable[[int], object]
    structure: Structure | None = None
    compared: bool = False  #: whether the first text is asked for alone, too
    usage: Usage = field(default_factory=Usage)
    type_changes = ()
    cost = 1
    differentiable = False

    @property
    def rows(self) -> int:
        """The number of texts."""
        return len(self.texts)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The parts of a text, for errors."""
        return (self.players,)

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live."""
        return self.scorer.device

    def take(self, rows: slice | Tensor) -> "TextGame":
        """Return the game of some of the texts, with nothing spent yet."""
        which = rows if isinstance(rows, slice) else rows.cpu().numpy()
        return replace(self, texts=self.texts[which], usage=Usage())

    def distances(self) -> Tensor:
        """Return ones (r, p): nothing is known of the parts."""
        return torch.ones(self.rows, self.players, dtype=torch.float64, device=self.device)

    def outputs(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the outputs of texts and coalitions in a box, (r, c, 1) or (r, c, 1, k)."""
        sets = (coalitions if len(coalitions) == 1 else coalitions[box.rows])[:, box.coalitions]
        texts = self.texts[box.rows]
        count = sets.shape[1]
        every = sets.expand(len(texts), -1, -1).reshape(-1, self.players).cpu().numpy()
        answer = self.scorer(np.repeat(texts, count), every)
        return answer.reshape(len(texts), count, 1, *answer.shape[1:])

    def mean(self, outputs: Tensor) -> Tensor:
        """Return values (r, c, k), which are the outputs (r, c, 1, k) themselves."""
        return outputs[:, :, 0]

    def evaluated(self, coalitions: Tensor, box: Box) -> Any:
        """Return what the model takes for the first coalition in a box."""
        own = coalitions[0 if len(coalitions) == 1 else box.rows.start, box.coalitions.start]
        return self.scorer.inputs(int(self.texts[box.rows.start]), own.cpu().numpy())

    def consistency_warning(self, ends: CoalitionValues, *, first: bool) -> str | None:
        """Return a warning if the output for the first of all texts is not the same if alone."""
        if not (self.compared and first and self.texts[0] == 0):
            return None
        full = end_coalitions(self.players, self.device)[:, [FULL]]
        alone = self.take(slice(0, 1))(full)[0, 0]
        self.usage.checks += 1
        empty, together = ends.values[0, [EMPTY, FULL]]
        effect = torch.maximum((together - empty).abs(), together.abs())
        output = int(((alone - together).abs() - MAX_DIFFERENCE * effect).argmax())
        if abs(alone[output] - together[output]) <= MAX_DIFFERENCE * effect[output]:
            return None
        return (
            "the model's output for a text is random, or depends on the other texts in its batch "
            f"({alone[output]:.6g} alone, {together[output]:.6g} in a larger batch); pass "
            "batch_size=1, or make the model treat each text by itself"
        )

    def global_row(self, row: int) -> int:
        """Return a text's number among all texts."""
        return int(self.texts[row])
