"""Rows of cells as a model takes them: as a frame or, where it encodes by column, as a tensor."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.serve.features import Cell, Feature, frame_of

if TYPE_CHECKING:
    import pandas as pd

Encoded = NDArray[np.float32]
Rows = Sequence[Sequence[Cell]]

MOST_CELLS = 20_000
"""Cells of a column whose encodings are kept."""


class FrameEncoding:
    """Gives a model frames, whose columns have the types that it was prepared with."""

    def __init__(self, features: Sequence[Feature], types: Mapping[str, Any]) -> None:
        self.features = features
        self.types = types

    def __call__(self, rows: Rows) -> Any:
        """Return rows as a frame."""
        return frame_of(self.features, rows, self.types)


class ColumnEncoding:
    """Encodes cells once: a column's cells recur, and encoding a frame takes milliseconds.

    rows          age 39, sex Male       age 50, sex Male
    kept before                sex Male               sex Male
    encoded now   the first row          the second row
    """

    def __init__(
        self,
        frames: FrameEncoding,
        encode: Callable[["pd.DataFrame"], Encoded],
        groups: Mapping[str, Sequence[int]],
    ) -> None:
        self.frames = frames
        self.encode = encode
        self.places = [np.asarray(groups[each.name]) for each in frames.features]
        self._known: list[dict[Cell, Encoded]] = [{} for _ in self.places]

    def __call__(self, rows: Rows) -> torch.Tensor:
        """Return rows as the inputs (r, d) of the model's network."""
        if any(len(known) > MOST_CELLS for known in self._known):
            # before this block and not within it, whose cells are all needed
            self._known = [{} for _ in self.places]
        self._learn([row for row in rows if not self._is_known(row)])
        encoded = np.empty((len(rows), sum(map(len, self.places))), dtype=np.float32)
        for own, row in zip(encoded, rows, strict=True):
            for places, known, cell in zip(self.places, self._known, row, strict=True):
                own[places] = known[cell]
        return torch.from_numpy(encoded)

    def _is_known(self, row: Sequence[Cell]) -> bool:
        return all(cell in known for known, cell in zip(self._known, row, strict=True))

    def _learn(self, rows: Rows) -> None:
        """Keep the encodings of all cells of some rows."""
        if not rows:
            return
        encoded = self.encode(self.frames(rows))
        for number, (places, known) in enumerate(zip(self.places, self._known, strict=True)):
            for row, own in zip(rows, encoded, strict=True):
                known[row[number]] = own[places]
