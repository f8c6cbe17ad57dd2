"""What rows of every kind become: tensors to mix, and the way back to what the model takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.display import Display


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows and background as tensors of one type, their players, and how people read them."""

    rows: Tensor  #: (r, d)
    background: Tensor  #: (b, d)
    shape: tuple[int, ...]  #: of one row, as `decode` takes it
    owner: NDArray[np.int64]  #: (d,) the player that owns each input
    names: list[str]  #: of the players; empty where they are not known
    decode: Callable[[Tensor], Any]  #: inputs (n, *shape) to what the model takes
    display: Display  #: what the players' inputs are, for people
    index: NDArray[Any]  #: (r,) the rows' labels

    #: Rows exactly as the model gets them if nothing is mixed.
    untouched: Callable[[slice], Any]

    type_changes: tuple[str, ...] = ()  #: of the rows, on their way to the model, in words
    index_name: str | tuple[str | None, ...] | None = None  #: of several levels, all their names
    smooth: bool = True  #: whether there are points between a row and its background
    evaluations: int = 0  #: of the model, that encoding took
    notes: tuple[str, ...] = ()  #: on what is not as the user gave it
    least_batch: int = 1  #: rows for which `decode` is worth its trouble
    #: (b,) of the background rows, with the sum 1; None: they count equally
    weights: NDArray[np.float64] | None = None
    #: (d,) the input that each column of what the model takes is; None: they are in order
    order: NDArray[np.int64] | None = None

    @property
    def players(self) -> int:
        """The number of players p."""
        return int(self.owner.max()) + 1

    @property
    def data(self) -> NDArray[np.float64]:
        """A number for each player of each row, (r, p); computed when first read."""
        return self.display.data

    @property
    def display_data(self) -> NDArray[np.object_] | None:
        """Words for each player of each row, (r, p); None where they say no more than `data`.

        They are computed when first read.
        """
        return self.display.words


def row_numbers(rows: int, shape: tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
    """Return the cells of a pool, each known by the row that it stands in: (n, *shape).

    For n = 2 rows of shape (3,) that is 0 0 0, 1 1 1. A mix of the pool's rows is a mix of them.
    """
    numbers = torch.arange(rows, device=device)
    return numbers.reshape(-1, *(1 for _ in shape)).expand(-1, *shape)


def background_numbers(cells: Tensor, same: Tensor, background: int) -> Tensor:
    """Return cells (n, *shape) of a pool, of which some are those of a background row.

    Where the content is the `same`, the cell is known by the number of that row: so a player whose
    cells are all like that is known to be null.
    """
    return torch.where(same, background, cells) if same.any() else cells
