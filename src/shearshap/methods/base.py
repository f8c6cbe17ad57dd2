"""What every method is: a design says which coalitions to ask for, and how their values add up.

Every design starts with the empty and the full coalition, so base value and prediction come with
the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from shearshap.errors import BudgetError, MethodError
from shearshap.game import Game

Promise = Literal["efficiency", "unbiased", "pairwise", "null-player"]


@dataclass(frozen=True)
class Estimate:
    """Shapley values (r, p, k) and, where the method knows them, their standard errors (r, p, k)."""

    values: Tensor
    standard_errors: Tensor | None = None
    degrees_of_freedom: float = (
        inf  #: of the standard errors: how many independent draws they rest on, less one
    )


@dataclass(frozen=True)
class Stage:
    """A design, and keys by which later stages know its coalitions again."""

    keys: Tensor  #: (c,) equal keys are the same coalition
    design: "Design"


class Design(ABC):
    """Coalitions to ask for, and what their values mean."""

    coalitions: (
        Tensor  #: (r or 1, c, p) of bool; the first two are the empty and the full coalition
    )
    shared: bool = True  #: whether one design serves all rows
    calibration: object = None  #: what `fit` learnt, for the explanation to keep

    def fit(self, _values: Tensor) -> "Design":
        """Return the design after a look at the pilot rows' values (r, c, k): the seam for
        calibrated methods.
        """
        return self

    def calibrated(self, _calibration: object) -> "Design":
        """Return the design with what another one's `fit` learnt, for want of rows of its own."""
        return self

    @abstractmethod
    def estimate(self, values: Tensor) -> Estimate:
        """Return the shares of values (r, c, k)."""

    def first(self, _coalitions: int) -> Stage:
        """Return the design on its first coalitions, at most so many; where the method `stops`,
        parts are nested.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot stop early")


class Method(ABC):
    """A way to estimate Shapley values; an instance holds options only."""

    pilot_rows: ClassVar[int] = (
        0  #: how many of the first rows' values its design's `fit` wants to see
    )

    enumerates: ClassVar[bool] = True  #: whether a budget for all coalitions lists them all

    @property
    def stops(self) -> bool:
        """Whether its designs have standard errors and a `first`, so that a row can stop once it is
        precise enough.
        """
        return False

    @property
    @abstractmethod
    def promises(self) -> frozenset[Promise]:
        """What holds whatever the game.

        - efficiency: shares add up to prediction - base value
        - unbiased: the mean over seeds is the Shapley value
        - pairwise: exact on games of interactions of order <= 2 (a regression: once it has full
          rank; else it warns)
        - null-player: a player that never matters gets exactly 0
        """

    @abstractmethod
    def minimum(self, game: Game) -> int:
        """Return the smallest number of coalitions it can work with."""

    def full(self, game: Game) -> int | None:
        """Return the number of coalitions at which its answer is exact; None where it never is."""
        return 1 << game.players

    def ample(self, game: Game) -> int:
        """Return a budget at which its laws are tested: ample, but not for all coalitions."""
        return min(2 + 16 * game.players, (1 << game.players) - 4)

    @abstractmethod
    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return a design of at most `budget` coalitions, the empty and the full one included.

        Draws must not depend on the game's rows, so that a row's answer does not depend on its
        neighbours.
        """


def check_option(name: str, given: object, known: Sequence[str]) -> None:
    """Raise unless an option of a method is one of those known."""
    if given not in known:
        raise MethodError(f"{name}: wanted one of {', '.join(known)}, got {given!r}")


def check_budget(method: Method, game: Game, budget: int, name: str) -> None:
    """Raise unless a budget of model evaluations suffices."""
    smallest = method.minimum(game)
    if budget // game.cost < smallest:
        each = (
            f" ({smallest} coalitions of {game.cost} background rows each)" if game.cost > 1 else ""
        )
        needed = smallest * game.cost
        number = str(needed) if needed < 10**9 else f"about 2^{needed.bit_length() - 1}"
        raise BudgetError(
            f"{name} needs at least {number} evaluations a row for {game.players} players{each}, "
            f"got {budget}"
        )
