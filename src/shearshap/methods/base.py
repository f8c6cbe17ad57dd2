"""Methods: options, a design of coalitions, and stages in which coalitions are evaluated.

A *design* says which coalitions to ask for and how their values add up to Shapley values. Every
design starts with the empty and the full coalition, so base value and prediction come with the
rest:

    column      0      1     2    3   ...
    coalition   none   all   S2   S3  ...

A *method* never calls the model. It makes designs; the engine asks for their coalitions. If rows
may stop early, a method yields several *stages*, each a design of more coalitions than the stage
before. A method that chooses a row's coalitions by something of the row itself returns a
*screening*, which finds it out, and then makes the row's design.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import MethodError
from shearshap.games.coalitions import FULL, codes
from shearshap.games.game import Game, GameInfo, coalition_count
from shearshap.games.indices import SHAPLEY, Semivalue
from shearshap.interactions.cross import CrossKind, derivative_contribution, second_differences

Promise = Literal["efficiency", "unbiased", "pairwise", "null-player"]

MAX_PART = 2048
"""Coalitions, at most, of the last stage before all of them: kriging can still choose them well."""


@dataclass(frozen=True)
class Estimate:
    """Shapley values (r, p, k) and, if the method knows them, standard errors (r, p, k)."""

    values: Tensor
    standard_errors: Tensor | None = None
    #: of the standard errors: how many independent draws they rest on, less one
    degrees_of_freedom: float = inf


class Design(ABC):
    """Coalitions to evaluate, and how their values add up to Shapley values."""

    #: (r or 1, c, p) of bool; the first two are the empty and the full coalition
    coalitions: Tensor
    calibration: object = None  #: what `fit` learnt, for the explanation to hold
    tentative: bool = False  #: whether pilot rows showed nothing, so that `fit` needs others
    complete: bool = False  #: whether it asks for all coalitions there are
    #: whether a row stops only if its values agree with those of the stage before
    wants_agreement: ClassVar[bool] = False

    def fit(self, _values: Tensor) -> "Design":
        """Return the design fitted to the pilot rows' values (r, c, k), for calibrated methods."""
        return self

    def calibrated(self, _calibration: object) -> "Design":
        """Return the design with the calibration of another, if no pilot rows came to it.

        None: there is no other, so it is the usual one.
        """
        return self

    @abstractmethod
    def estimate(self, values: Tensor) -> Estimate:
        """Return the Shapley values that coalition values (r, c, k) add up to."""

    def first(self, _coalitions: int) -> "Stage":
        """Return the design on at most this number of its coalitions, the ends included.

        A smaller number's coalitions must be among a larger one's.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot stop early")


@dataclass(frozen=True)
class Stage:
    """A design, and keys by which its coalitions are recognised in other stages."""

    keys: Tensor  #: (c,) equal keys are the same coalition; the first two are the ends
    design: Design


@dataclass(frozen=True)
class Screening:
    """A first look at each row, before the row's coalitions are chosen.

    It finds the row's cross-contribution eta (p, p), by derivatives or from the values of
    coalitions; or, at no cost, the players' distances (p,) from the background.
    """

    kind: CrossKind | Literal["distance"]
    #: (1, c, p) those of `second_difference_coalitions`, to ask for; None: by derivatives
    coalitions: Tensor | None

    def at(self, game: Game, ends: Tensor, _budget: int, _rng: np.random.Generator) -> Tensor:
        """Return what it shows of every row, (r, ...); `ends` (r, 2, k) are known.

        `_budget` is the number of all coalitions, the ends and those of the design included.
        """
        if self.kind == "distance":
            return game.distances()
        if self.coalitions is None:
            return derivative_contribution(game, self.kind)
        # the full coalition comes first there, and is known
        values = game(self.coalitions[:, 1:])
        return second_differences(torch.cat((ends[:, FULL, None], values), dim=1), game.players)


class Method(ABC):
    """A way to estimate Shapley values; an instance only stores options."""

    note: ClassVar[str | None] = None  #: what users should know of its values, in a sentence
    pilot_rows: ClassVar[int] = 0  #: how many of the first rows' values its design's `fit` wants
    #: whether it lists all coalitions if the budget holds them
    enumerates: ClassVar[bool] = True
    #: whether a row can stop early: its designs have standard errors, and a `first`
    stops: ClassVar[bool] = False
    #: whether it asks for all coalitions, so that nothing is estimated
    is_exact: ClassVar[bool] = False
    #: whether closed forms, of trees and linear models, may answer in its place
    takes_closed_forms: ClassVar[bool] = False
    #: whether it has a `calibration`, and shares kernels unless `refined`: see `Kriging`
    calibrates: ClassVar[bool] = False

    @property
    def differentiates(self) -> bool:
        """Whether it differentiates models that can be."""
        return False

    @property
    @abstractmethod
    def promises(self) -> frozenset[Promise]:
        """What holds for every game.

        - efficiency: values add up to prediction - base value
        - unbiased: the mean over seeds is the Shapley value
        - pairwise: exact on games of interactions of order <= 2 (a regression: once it has full
          rank; else it warns)
        - null-player: a player that never matters gets exactly 0
        """

    @abstractmethod
    def minimum(self, game: GameInfo) -> int:
        """Return the smallest number of coalitions it can work with."""

    def errors_from(self, _game: GameInfo) -> int | None:
        """Return a number of coalitions from which on it has standard errors; None: it has none."""
        return None

    def minimum_for_interactions(self, game: GameInfo) -> int:
        """Return the smallest number of coalitions from which interactions can be estimated."""
        return self.minimum(game)

    def minimum_per_draw(self, game: GameInfo) -> int:
        """Return a number of coalitions for each of several background rows, without its ends.

        By default that is each player alone, and all the others.
        """
        return 2 * game.players

    def for_draws(self) -> "Method":
        """Return the method to use with draws of a distribution instead of background rows."""
        return self

    def estimator(self) -> "Method":
        """Return the method that explanations name if some background rows were left out."""
        return self

    def select_method(self, _players: int, _coalitions: int, *, stops: bool) -> "Method":  # noqa: ARG002
        """Return the method that does the work: this one, unless it chooses among others.

        `stops` says whether rows may stop before the budget is spent.
        """
        return self

    def in_hierarchy(
        self,
        _game: GameInfo,
        _coalitions: int,
        *,
        stops: bool,  # noqa: ARG002
    ) -> "Method | None":
        """Return the method that does the work if players are in groups; None: it cannot."""
        return None

    def within(self, _has_time: Callable[[], bool]) -> "Method":
        """Return the method that ends a long choice of coalitions, with fewer, if time is up."""
        return self

    def with_semivalue(self, semivalue: Semivalue) -> "Method":
        """Return the method that estimates a semivalue, or raise if it is not one of those."""
        if semivalue == SHAPLEY:
            return self
        if not hasattr(self, "semivalue"):
            raise MethodError(
                f"semivalue: {self!r} estimates only Shapley values; try method='auto', "
                "'kriging' or 'exact'"
            )
        return cast("Method", replace(cast(Any, self), semivalue=semivalue))

    def check_players(self, players: int) -> None:
        """Raise if an option is for another number of players than a game has."""
        semivalue = getattr(self, "semivalue", SHAPLEY)
        if semivalue != SHAPLEY:
            semivalue.check_players(players)

    def screening(self, _game: GameInfo) -> Screening | None:
        """Return what to find out about each row first; None: nothing, all rows share a design."""
        return None

    @abstractmethod
    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return a design of at most `budget` coalitions, the empty and the full one included.

        Draws must not depend on rows, so that a row's answer does not depend on its neighbours.
        """

    def design_for(
        self, game: GameInfo, budget: int, rng: np.random.Generator, _eta: Tensor
    ) -> Design:
        """Return the design for rows whose screening has found eta (r, ...)."""
        return self.design(game, budget, rng)

    def stages(
        self, game: GameInfo, budget: int, rng: np.random.Generator, *, stops: bool
    ) -> Iterator[Stage]:
        """Yield the stages in which rows ask for coalitions: one, or several if rows may stop.

        If the budget holds all coalitions, that stage comes last: only rows that need it get
        there.
        """
        design = self.design(game, budget, rng)
        if not stops:
            yield single_stage(design)
        elif not design.complete:
            yield from nested(design, self.min_stage(game))
        else:
            # keyed by members, so that equal sets of different designs have equal keys
            smallest = self.min_stage(game)
            most = min(coalition_count(game) // 2, MAX_PART)
            if 2 * smallest <= most:
                for stage in nested(self.design(game, most, rng), smallest):
                    yield Stage(codes(stage.design.coalitions[0]), stage.design)
            yield Stage(codes(design.coalitions[0]), design)

    def min_stage(self, game: GameInfo) -> int:
        """Return the number whose double is the first stage's coalitions, if rows may stop."""
        return self.minimum(game)


# Stages


def single_stage(design: Design) -> Stage:
    """Return a whole design as the only stage."""
    count = design.coalitions.shape[1]
    return Stage(torch.arange(count, device=design.coalitions.device), design)


def nested(design: Design, smallest: int) -> Iterator[Stage]:
    """Yield a design on its first 2 m, 4 m, 8 m, ... coalitions, then on all; m is `smallest`.

    A stage that leaves less than half of its own number to ask for is left out. With m = 10:

        100 coalitions    20, 40, 100      80 leaves 20, which is less than 40
        120 coalitions    20, 40, 80, 120
    """
    count = smallest
    while 3 * count <= design.coalitions.shape[1]:
        count *= 2
        yield design.first(count)
    yield single_stage(design)


# Options


def check_option(name: str, value: object, known: Sequence[str]) -> None:
    """Raise unless an option of a method has one of the values known."""
    if value not in known:
        raise MethodError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def as_tensor(array: NDArray[Any], game: GameInfo) -> Tensor:
    """Return an array as a tensor on the game's device."""
    return torch.from_numpy(array).to(game.device)
