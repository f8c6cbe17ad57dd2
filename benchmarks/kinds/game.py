"""A game with its exact values, and the rows of a model that are explained together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Value = Callable[[Bools], Floats]

ENUMERATED = 13  #: players, at most, of a game whose coalitions are all evaluated
SAMPLED = 4000  #: coalitions that tell the range of a larger game


@dataclass(frozen=True, eq=False)
class Game:
    """A cooperative game of p players and its Shapley values."""

    kind: str
    name: str
    value: Value  #: coalitions (c, p) -> values (c,)
    phi: Floats  #: (p,)

    @property
    def players(self) -> int:
        """The number of players."""
        return len(self.phi)

    @cached_property
    def range(self) -> float:
        """The largest value less the smallest, of all coalitions or of a sample of them."""
        values = self.value(some_coalitions(self.players))
        return float(np.ptp(values))


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a model with one background, and their exact values."""

    kind: str
    name: str
    model: Callable[[Any], Floats]  #: inputs (n, p) -> outputs (n,)
    inputs: Floats  #: (r, p)
    background: Floats  #: (p,)
    values: tuple[Value, ...]  #: the r games
    phi: Floats  #: (r, p)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.inputs)

    def game(self, row: int) -> Game:
        """Return the game of one row."""
        return Game(self.kind, f"{self.name} row {row}", self.values[row], self.phi[row])


def all_coalitions(players: int) -> Bools:
    """Return all coalitions (2^p, p) in binary counting order: bit i is player i."""
    numbers = np.arange(1 << players)[:, None]
    return (numbers >> np.arange(players) & 1).astype(bool)


def some_coalitions(players: int) -> Bools:
    """Return all coalitions of few players, or the two ends and a sample of all sizes."""
    if players <= ENUMERATED:
        return all_coalitions(players)
    rng = np.random.default_rng(players)
    chances = rng.random((SAMPLED, 1))
    sample = rng.random((SAMPLED, players)) < chances
    ends = np.repeat([[False], [True]], players, axis=1)
    return np.concatenate([ends, sample])
