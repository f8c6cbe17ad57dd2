"""Memory of the host for the results of all rows, where all of them are wanted at once.

A block's arrays are then parts of it, one after the other, and nothing is copied to join them:

    rows       0-15      16-1015     1016-2000
    blocks     first     second      third
    values     [         one array            ]

A block is copied from a GPU while the next one is computed. So its numbers are there only after
`wait`.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.devices import HostCopies, empty_array, to_numpy


class Room:
    """An array for each field of the results of all rows; None rows: each block has its own."""

    def __init__(self, rows: int | None) -> None:
        self.rows = rows
        self._fields: dict[str, NDArray[Any]] = {}  #: by name, (r, ...) each
        self._copies = HostCopies()

    def array(self, name: str, part: Tensor, first_row: int) -> NDArray[Any]:
        """Return a block's part (n, ...) of a field as an array, in its place among all rows.

        The part must not change any more. Where there is room for all rows, its numbers are in the
        array after `wait`.
        """
        if self.rows is None:
            return to_numpy(part)
        if name not in self._fields:
            self._fields[name] = empty_array((self.rows, *part.shape[1:]), part.dtype)
        place = self._fields[name][first_row : first_row + len(part)]
        self._copies.start(part, torch.from_numpy(place))
        return place

    def wait(self) -> None:
        """Wait until the numbers of all blocks are in their arrays."""
        self._copies.wait()
