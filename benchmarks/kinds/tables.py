"""Games given as tables: .npz files with arrays values (games, 2^p), phi (games, p), players."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from kinds.game import Bools, Floats, Game


def table_files(folder: Path) -> list[Path]:
    """Return the files of tables in a folder."""
    return sorted(folder.glob("*.npz"))


def games_in(file: Path) -> int:
    """Return how many games a file has."""
    return len(_contents(file)[0])


def table_game(file: Path, number: int) -> Game:
    """Return one game of a file; bit i of a table's index is player i."""
    tables, phi = _contents(file)
    table = tables[number]
    places = 1 << np.arange(phi.shape[1])

    def value(coalitions: Bools) -> Floats:
        return np.asarray(table[coalitions @ places])

    return Game(file.stem, f"{file.stem} {number}", value, phi[number])


@lru_cache(maxsize=4)
def _contents(file: Path) -> tuple[Floats, Floats]:
    with np.load(file) as arrays:
        tables = np.asarray(arrays["values"], dtype=np.float64)
        phi = np.asarray(arrays["phi"], dtype=np.float64)
        players = int(arrays["players"])
    if tables.shape != (len(phi), 1 << players) or phi.shape[1] != players:
        raise ValueError(
            f"{file}: wanted values (games, 2^{players}) and phi (games, {players}), got "
            f"{tables.shape} and {phi.shape}"
        )
    return tables, phi
