"""A game with its exact Shapley values, and games as complete tables of coalition values.

A file of tables is an .npz file with three arrays: `values` (games, 2^p), where bit i of the index
is player i; `phi` (games, p), the exact Shapley values; `players`, p.

    index     0    1     2     3        values of a game of two players
    members   -    0     1     0 and 1
"""

import hashlib
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from shearshap.errors import InputError
from shearshap.explainer import explain, model_game
from shearshap.games.coalitions import subsets
from shearshap.methods.exact import shapley_transform
from shearshap.result.explanation import Explanation
from shearshap.store import written_whole

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

Value = Callable[[Bools], Floats]  #: coalitions (c, p) -> values (c,)

MAX_PLAYERS = 22  #: whose tables are still held: 4 million values a game
MAX_LISTED = 13  #: players of a game whose range is that of all coalitions
SAMPLED = 4000  #: coalitions that tell the range of a larger game
CONTENTS = ("values", "phi", "players")
TOLERANCE = 1e-4  #: of a file's phi: how far off they may be, as a part of the largest


@dataclass(frozen=True, eq=False)
class Game:
    """A cooperative game of p players and its Shapley values."""

    kind: str
    name: str
    value: Value
    phi: Floats  #: (p,)

    @property
    def players(self) -> int:
        """The number of players."""
        return len(self.phi)

    @cached_property
    def range(self) -> float:
        """The largest value less the smallest, of all coalitions or of a sample of them."""
        players = self.players
        if players <= MAX_LISTED:
            return float(np.ptp(self.value(subsets(players))))
        rng = np.random.default_rng(players)
        sample = rng.random((SAMPLED, players)) < rng.random((SAMPLED, 1))
        ends = np.repeat([[False], [True]], players, axis=1)
        return float(np.ptp(self.value(np.concatenate([ends, sample]))))


@dataclass(frozen=True, eq=False)
class Games:
    """Tables of games of one kind and of one origin, such as the rows of a network."""

    name: str
    kind: str  #: networks, trees, rules or tables
    values: Floats  #: (g, 2^p)
    model: "Rows | None" = None  #: behind the games, for methods that differentiate it

    def __len__(self) -> int:
        """Return the number of games g."""
        return len(self.values)

    @property
    def players(self) -> int:
        """The number of players p."""
        return int(self.values.shape[1]).bit_length() - 1

    @cached_property
    def phi(self) -> Floats:
        """The exact Shapley values, (g, p)."""
        return shapley_values(self.values)

    @property
    def size(self) -> float:
        """The mean |value| over all games, by which errors are divided."""
        return float(np.abs(self.phi).mean())

    @cached_property
    def digest(self) -> str:
        """The hash of the tables."""
        return hashlib.sha256(np.ascontiguousarray(self.values).tobytes()).hexdigest()[:16]

    def game(self, number: int) -> Game:
        """Return one game; bit i of a table's index is player i."""
        table = self.values[number]
        places = 1 << np.arange(self.players)

        def value(coalitions: Bools) -> Floats:
            return np.asarray(table[coalitions @ places])

        return Game(self.name, f"{self.name} {number}", value, self.phi[number])


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a model that are games, and the background that absent players come from."""

    name: str
    kind: str
    model: Any
    inputs: Any  #: (r, d)
    background: Any  #: (d,)
    phi: Floats | None = None  #: (r, p), the exact values if they are known
    options: Mapping[str, Any] = field(default_factory=dict)  #: of `explain`: groups, output, scale

    def __len__(self) -> int:
        """Return the number of rows r."""
        return len(self.inputs)

    def explain(self, rows: slice = slice(None), **options: Any) -> Explanation:
        """Explain rows by one of our methods, which may differentiate the model."""
        return explain(
            self.model,
            self.inputs[rows],
            background=self.background,
            progress=False,
            **self.options,
            **options,
        )

    def values(self, row: int, coalitions: Bools | None = None) -> Floats:
        """Return a row's values (c,) of coalitions (c, p), or of all in binary counting order."""
        inputs = self.inputs[row : row + 1]
        with model_game(self.model, inputs, background=self.background, **self.options) as game:
            asked = subsets(game.players) if coalitions is None else coalitions
            values = game(torch.from_numpy(asked)[None])
        return np.asarray(values[0, :, 0], dtype=np.float64)

    def tables(self) -> Floats:
        """Return the values (r, 2^p) of all coalitions."""
        return np.stack([self.values(row) for row in range(len(self))])

    def game(self, row: int) -> Game:
        """Return the game of one row, whose exact values are known."""
        assert self.phi is not None
        name = f"{self.kind}, {self.name}, row {row}"
        return Game(self.kind, name, partial(self.values, row), self.phi[row])


class CountedGame:
    """A game as an estimator sees it: a function of coalitions that counts what is asked of it.

    The table and the count are variables of a function: no attribute leads to them.
    """

    def __init__(self, game: Game, *, budget: int, seed: int) -> None:
        asked = 0

        def value(coalitions: Bools) -> Floats:
            nonlocal asked
            asked += len(coalitions)
            return game.value(coalitions)

        self.players = game.players  #: p
        self.budget = budget  #: coalitions that may be asked for, repeated ones included
        self.seed = seed  #: decides every draw
        self._value = value
        self._asked: Callable[[], int] = lambda: asked

    @property
    def evaluations(self) -> int:
        """Coalitions asked for so far."""
        return self._asked()

    def __call__(self, coalitions: ArrayLike) -> Floats:
        """Return the values (c,) of coalitions (c, p), 0 or 1; a single one may be (p,)."""
        present = np.atleast_2d(np.asarray(coalitions)).astype(bool)
        if present.ndim != 2 or present.shape[1] != self.players:
            raise ValueError(
                f"the game expected coalitions (c, {self.players}), got {present.shape}"
            )
        return self._value(present)


def shapley_values(tables: Floats) -> Floats:
    """Return the Shapley values (g, p) of tables (g, 2^p) in binary counting order."""
    by_game = [shapley_transform(torch.from_numpy(row)[None, :, None]) for row in tables]
    return np.asarray(torch.cat(by_game)[:, :, 0])


# Files


def read_tables(folder: Path, rows: int | None = None) -> list[Games]:
    """Return the games of every .npz file in a folder, at most the first `rows` of each."""
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise InputError(f"expected .npz files in the folder {folder}, got none; see --export")
    return [read_table(path, rows) for path in paths]


def read_table(path: Path, rows: int | None = None) -> Games:
    """Return the games of an .npz file, at most the first `rows`."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in CONTENTS}
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: expected an .npz file with arrays {', '.join(CONTENTS)}: {error}"
        ) from error
    values, phi, players = arrays["values"], arrays["phi"], int(arrays["players"])
    if not 1 <= players <= MAX_PLAYERS:
        raise InputError(f"{path}: expected 1 to {MAX_PLAYERS} players, got {players}")
    count = len(phi) if phi.ndim else 0
    if not count or values.shape != (count, 1 << players) or phi.shape != (count, players):
        raise InputError(
            f"{path}: expected values (games, {1 << players}) and phi (games, {players}) for "
            f"{players} players, got {values.shape} and {phi.shape}"
        )
    games = Games(path.stem, "tables", np.asarray(values[:rows], dtype=np.float64))
    if not np.isfinite(games.values).all():
        raise InputError(f"{path}: expected a finite value for each coalition, got NaN or infinity")
    off = float(np.abs(phi[:rows] - games.phi).max())
    if not off <= TOLERANCE * np.abs(games.phi).max() + 1e-12:
        raise InputError(
            f"{path}: phi are not the Shapley values of the tables, they are off by up to "
            f"{off:.2g}; bit i of a table's index is player i"
        )
    return games


def write_tables(games: Games, folder: Path) -> Path:
    """Write games as an .npz file of tables, named after them, and return its path."""
    path = folder / f"{slug(games.name)}.npz"
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, values=games.values, phi=games.phi, players=games.players)
    return path


def slug(name: str) -> str:
    """Return a name as a part of a file's name: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
