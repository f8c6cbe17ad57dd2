"""Kriging: Shapley values as the posterior mean of a Gaussian process over coalitions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import MethodError
from shearshap.games.coalitions import EMPTY, FULL, with_ends
from shearshap.games.game import GameInfo
from shearshap.games.indices import SHAPLEY, Index, Semivalue
from shearshap.interactions.kriged import kriged_index
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage, as_tensor
from shearshap.methods.exact import enumeration
from shearshap.methods.kriging.calibration import informative_games, row_priors
from shearshap.methods.kriging.few import FewKriging
from shearshap.methods.kriging.kernel import Part
from shearshap.methods.kriging.pairs import (
    OddEven,
    always,
    min_in_pairs,
    selected_pairs,
    signs_of,
)
from shearshap.methods.kriging.posterior import standard_errors
from shearshap.methods.kriging.shared import SharedKernels, calibrate, own_answers
from shearshap.result.calibration import Calibration

MANY_OUTPUTS = 8  #: from which on those of a row have one kernel


@dataclass(frozen=True)
class Kriging(Method):
    """Kriging of the game's odd part, with standard errors.

    Complement pairs show the odd part of the game, which determines the Shapley values, and its
    even part, which shows how strongly players interact. A Gaussian process whose variances follow
    those strengths is conditioned on the odd part. Its posterior mean gives the Shapley values, its
    posterior variance their standard errors. Rows share the coalitions, which are chosen to lower
    that variance most. If there are many rows, they share matrices too: each starts from the answer
    of a similar pilot row's equations, and refines it to its own. Games that jump, such as votes
    with a threshold, are not what the process expects: standard errors then include how badly each
    pair is predicted from all others.

    With fewer than 2 evaluations per player, plus 2, coalitions come without complements, and
    there are no standard errors.

    Parameters
    ----------
    calibration
        The numbers of the process, from an earlier `Explanation.calibration`. None: they are fitted
        to up to 256 rows of the first block of a call. If these are all additive, which fits any
        numbers, they are fitted to rows of the next block, and so on. A row's answer depends on its
        own values, the seed and the calibration alone.
    refined
        Whether each row has its own kernel. If not, all rows share one: it takes a third of the
        time, and errors are larger, except with few evaluations.
    has_time
        Asked while pairs are selected: if it is False, those selected so far are all.
    """

    calibration: Calibration | None = field(default=None, repr=False)
    refined: bool = field(default=True, repr=False)
    has_time: Callable[[], bool] = field(default=always, repr=False, compare=False)
    semivalue: Semivalue = field(default=SHAPLEY, repr=False)
    pilot_rows: ClassVar[int] = 256
    calibrates: ClassVar[bool] = True
    stops: ClassVar[bool] = True
    # pairwise: once there is a pair for each player
    promises: ClassVar[frozenset[Promise]] = frozenset({"efficiency", "pairwise"})

    def minimum(self, game: GameInfo) -> int:
        """Return the minimum of the method for few evaluations, or the number of all coalitions.

        Few evaluations give Shapley values alone.
        """
        few = FewKriging().minimum(game)
        if self.semivalue != SHAPLEY:
            few = min_in_pairs(game.players)
        return min(few, 1 << game.players)

    def errors_from(self, game: GameInfo) -> int:
        """Return what is enough not to need the method for few coalitions, which has no errors."""
        return _enough(game.players)

    def select_method(self, players: int, coalitions: int, *, stops: bool) -> Method:  # noqa: ARG002
        """Return this method, or the one for budgets that do not hold a pair for each player."""
        return self if coalitions >= _enough(players) or self.semivalue != SHAPLEY else FewKriging()

    def within(self, has_time: Callable[[], bool]) -> "Kriging":
        """Return the method that selects pairs as long as there is time."""
        return replace(self, has_time=has_time)

    def check_players(self, players: int) -> None:
        """Raise if the calibration is for another number of players."""
        super().check_players(players)
        check_calibration(self.calibration, players)

    def min_stage(self, game: GameInfo) -> int:
        """Return half the fewest in pairs: the second stage has the first to agree with."""
        return min_in_pairs(game.players) // 2

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return a design of complement pairs, or of all coalitions if the budget holds them."""
        if budget >= 1 << game.players:
            return enumeration(game, self.semivalue)
        if budget < min_in_pairs(game.players):  # for Shapley values alone, see `minimum`
            return FewKriging().design(game, budget, rng)

        count = (budget - 2) // 2
        sides = as_tensor(selected_pairs(game.players, count, rng, self.has_time), game)
        coalitions = with_ends(torch.cat((sides, ~sides))[None])
        index = None
        if self.semivalue != SHAPLEY:
            index = self.semivalue.index(game.players)
        return ComplementPairs(coalitions, self.calibration, refined=self.refined, index=index)


@dataclass(frozen=True)
class ComplementPairs(Design):
    """Complement pairs of coalitions, which a Gaussian process turns into Shapley values.

    The columns of m pairs (S_n, S_n^c):

        0      1     2 ... m + 1      m + 2 ... 2 m + 1
        empty  full  S_1 ... S_m      S_1^c ... S_m^c
    """

    wants_agreement: ClassVar[bool] = True

    coalitions: Tensor  #: (1, 2 + 2 m, p)
    source: Calibration | None = None  #: for this number of pairs, and for others
    fitted_kernels: SharedKernels | None = field(default=None, repr=False, compare=False)
    tentative: bool = False
    refined: bool = True  #: whether rows have kernels of their own
    index: Index | None = None  #: of single players; None: Shapley values

    @cached_property
    def calibration(self) -> Calibration | None:  # type: ignore[override]
        """The source's calibration for these players and this number of pairs."""
        if self.source is None:
            return None
        return self.source.at(self.coalitions.shape[2], _pairs(self.coalitions))

    def fit(self, values: Tensor) -> "ComplementPairs":
        """Return the design calibrated to the pilot rows' values, unless it has a calibration."""
        if self.calibration is not None and not self.tentative:
            return self
        parts = self._parts(values)
        # rows whose odd part is linear are exact under any calibration, and fit none
        unit, _ = parts.normalised()
        tentative = not len(informative_games(unit, len(unit.odd)))
        if self.tentative and tentative:
            return self
        calibration, kernels = calibrate(parts, refined=self.refined)
        calibration = replace(calibration, pairs=_pairs(self.coalitions))
        return replace(self, source=calibration, fitted_kernels=kernels, tentative=tentative)

    def calibrated(self, calibration: object) -> "ComplementPairs":
        """Return the design with another design's calibration, or the usual one."""
        assert calibration is None or isinstance(calibration, Calibration)
        usual = Calibration.default(self.coalitions.shape[2])
        return replace(self, source=calibration or usual)

    def first(self, coalitions: int) -> Stage:
        """Return the design of the first pairs, those that lower the variance most."""
        device = self.coalitions.device
        count = (coalitions - 2) // 2

        ends = torch.arange(2, device=device)
        sides = torch.arange(2, 2 + count, device=device)
        complements = sides + _pairs(self.coalitions)
        columns = torch.cat((ends, sides, complements))
        part = ComplementPairs(
            self.coalitions[:, columns], self.source, refined=self.refined, index=self.index
        )
        return Stage(columns, part)

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior mean and standard deviation of the Shapley values."""
        assert self.calibration is not None, "fit comes before estimate"
        if self.index is None:
            phi, errors = krige(self._parts(values), self.calibration, self.shared_kernels)
        else:
            which: tuple[Part, ...] = ("odd",) if self.index.is_odd else ("odd", "even")
            parts = self._parts(values)
            phi, errors = kriged_index(parts, self.calibration, self.index, which)

        rows, columns, outputs = values.shape
        shape = (rows, outputs, -1)
        # the pair of the two ends counts
        freedom = columns // 2 - self.coalitions.shape[2]
        return Estimate(phi.reshape(shape).mT, errors.reshape(shape).mT, freedom)

    @cached_property
    def shared_kernels(self) -> SharedKernels | None:
        """The kernels that rows share, made once for all blocks; None: each row has its own."""
        if self.calibration is None or not self.calibration.centres:
            return None
        return self.fitted_kernels or SharedKernels.from_calibration(
            signs_of(self._sides), self.calibration
        )

    @property
    def _sides(self) -> Tensor:
        """One side of each pair, (1 + m, p), the full coalition first."""
        return self.coalitions[0, FULL : 2 + _pairs(self.coalitions)]

    def _parts(self, values: Tensor) -> OddEven:
        """Return the odd and even parts of values (r, c, k).

        The full and the empty coalition are the first pair. A few outputs count as rows of their
        own. Many have one kernel for each row.
        """
        outputs = values.shape[2]
        flat = values.mT.flatten(0, 1)
        after_sides = 2 + _pairs(self.coalitions)
        inside = torch.cat((flat[:, FULL, None], flat[:, 2:after_sides]), dim=1)
        outside = torch.cat((flat[:, EMPTY, None], flat[:, after_sides:]), dim=1)
        together = outputs if outputs >= MANY_OUTPUTS else 1
        return OddEven.of(self._sides, inside, outside, together)


def krige(
    parts: OddEven, calibration: Calibration, shared: SharedKernels | None
) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and their standard errors, (r, k, p).

    Without shared kernels, each row's own equations are solved.
    """
    unit, size = parts.normalised()
    if shared is None:
        prior = row_priors(unit, calibration)
        answer = own_answers(unit.signs, unit.odd_by_row, prior, calibration)
    else:
        answer = shared.answer(unit)
    size = size.unflatten(0, (-1, parts.outputs))
    return size * answer.mean, size * standard_errors(unit, answer, calibration.inflation)


def check_calibration(calibration: Calibration | None, players: int) -> None:
    """Raise if a calibration was fitted to another number of players than a game has."""
    if calibration is not None and calibration.size != players:
        raise MethodError(
            f"calibration: expected one fitted to {players} features, got {calibration.size}; pass "
            "the calibration of an explanation with the same features, or none"
        )


def _enough(players: int) -> int:
    """Return the coalitions that hold a pair for each player, or all there are."""
    return min(min_in_pairs(players), 1 << players)


def _pairs(coalitions: Tensor) -> int:
    """Return the number of pairs m of coalitions (1, 2 + 2 m, p), not counting the ends."""
    return (coalitions.shape[1] - 2) // 2
