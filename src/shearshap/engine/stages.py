"""Rows spend their budget stage by stage, each stage a design of more coalitions than the one
before.

Without a tolerance there is one stage, the whole design. With one, a row stops as soon as its
standard errors are small enough; a stage is made when the first row gets there, and memory holds
what rows have asked for, no more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import MethodError, ModelError
from shearshap.game import FunctionGame, Game, ModelGame, Usage
from shearshap.interactions.cross import by_derivatives
from shearshap.interactions.pairwise import codes, estimated_second_differences, has_pairs
from shearshap.interactions.pairwise import interactions as pairwise_interactions
from shearshap.methods import MOST_KRIGED, Calibration, Enumeration, Exact, Kriging, Leverage
from shearshap.methods.base import Design, Estimate, Method, Stage
from shearshap.methods.coalitions import EMPTY, FULL

Slopes = tuple[
    Tensor, Tensor
]  #: cross-contribution by derivatives (r, p, p), and the rows it tells nothing of (r,)

FIRST_BLOCK = 16
"""Rows of the first block, which tells how many outputs there are."""

MANY_OUTPUTS = 100
"""For a first block that must be planned before it is known how many there are."""

BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows that are worked on at once, by the game's
device.
"""

PILOT_BYTES = 1 << 28
"""The same for pilot rows, on all devices: the calibration is fitted to those that are worked on at
once.
"""

LEAST_FREEDOM = 7
"""Degrees of freedom of the standard errors at which a row may stop: of fewer draws, the luckiest
would stop.
"""

LARGEST_PART = 2048
"""Coalitions of the last stage before all of them: kriging can still choose so many well."""

WORTHWHILE = 16
"""Times kriging's coalitions that leverage may need to come as close; with fewer left, rows do not
go on to it.
"""


@dataclass(frozen=True)
class Answer:
    """What is kept of a block of rows."""

    tensors: dict[str, Tensor]  #: by their names in the explanation, (r, ...)
    spent: Usage
    degrees_of_freedom: float
    calibration: object


@dataclass(frozen=True)
class Told:
    """What is to be told beside the shares."""

    interactions: bool

    def check(self, coalitions: Tensor) -> None:
        """Raise unless coalitions tell it."""
        if self.interactions and not has_pairs(coalitions):
            raise MethodError(
                "interactions need coalitions with their complements, which this method does not "
                "ask for; try "
                "method='kriging', 'leverage', 'kernel-paired', 'permutation-antithetic' or 'exact'"
            )

    def slopes(self, game: Game) -> Slopes | None:
        """Return what derivatives tell of a block of rows, and count their passes; None: nothing."""
        if not self.interactions or not isinstance(game, ModelGame) or not game.differentiable:
            return None
        try:
            return by_derivatives(game)
        except ModelError:
            # a model that fails without derivatives too will say so when its values are asked for
            return None

    def of(
        self, design: Design, values: Tensor, shares: Tensor, slopes: Slopes | None
    ) -> dict[str, Tensor]:
        """Return it, of a design's values (r, c, k) and shares (r, p, k), by its names in the
        explanation.
        """
        if not self.interactions:
            return {}
        known = design.calibration if isinstance(design.calibration, Calibration) else None
        pairs = pairwise_interactions(design.coalitions, values, shares, calibration=known)
        eta, blind = slopes or (
            torch.zeros_like(pairs[..., 0]),
            torch.ones_like(values[:, 0, 0], dtype=torch.bool),
        )
        blind = blind & (values != values[:, :1]).flatten(1).any(dim=1)
        if blind.any():
            sets = design.coalitions if design.shared else design.coalitions[blind]
            eta[blind] = estimated_second_differences(sets, values[blind], calibration=known)
        return {"interactions": pairs, "cross_contribution": eta}


def block_bytes(game: Game) -> int:
    """Return the memory for the rows that are worked on at once."""
    return BLOCK_BYTES.get(game.device.type, BLOCK_BYTES["cpu"])


def most_rows(shape: tuple[int, ...], game: Game, memory: int) -> int:
    """Return how many rows' coalitions and values, of a shape (r, c, k), fit some memory."""
    _, count, outputs = shape
    return max(1, memory // (count * (game.players + 48 * outputs)))


def found_of(estimate: Estimate, values: Tensor) -> dict[str, Tensor]:
    """Return what is kept of a design's values (r, c, k); errors not known, or that overflow, are
    infinite.
    """
    shares, errors = estimate.values, estimate.standard_errors
    if not bool(torch.isfinite(shares).all()):
        raise ModelError(
            "the values are so large that their shares are not finite; rescale the model's output"
        )
    errors = (
        torch.full_like(shares, inf) if errors is None else errors.nan_to_num(nan=inf, posinf=inf)
    )
    kept = {
        "values": shares,
        "base_values": values[:, EMPTY],
        "predictions": values[:, FULL],
        "standard_errors": errors,
    }
    # copies, as a view would keep all values alive
    return {name: part.clone(memory_format=torch.contiguous_format) for name, part in kept.items()}


# Stages


def stages_of(
    game: Game, method: Method, budget: int, rng: np.random.Generator, told: Told, *, auto: bool
) -> Iterator[Stage]:
    """Yield designs of more and more coalitions, each with a number for every coalition, by which
    it is known again.

    Where the method would list all coalitions, that comes last; where "auto" took kriging, leverage
    follows it.
    """
    smallest, every = method.minimum(game), 1 << game.players
    kriged = auto and isinstance(method, Kriging) and MOST_KRIGED < budget < every
    design = method.design(game, MOST_KRIGED if kriged else budget, rng)
    if isinstance(design, Enumeration):
        yield from _coded(_up_to_all(game, method, rng, told))
        yield from _coded(iter([all_of(design)]))
        return
    told.check(design.coalitions)
    parts = _parts(design, smallest)
    yield from _coded(parts) if kriged else parts
    left, least = budget - MOST_KRIGED + 2, WORTHWHILE * MOST_KRIGED  # the two ends are known
    if kriged and left >= least:
        yield from _coded(_parts(Leverage().design(game, left, rng), least // 2))


def _up_to_all(game: Game, method: Method, rng: np.random.Generator, told: Told) -> Iterator[Stage]:
    """Yield the stages before all coalitions, which only rows that need them go on to."""
    smallest, most = method.minimum(game), min(1 << (game.players - 1), LARGEST_PART)
    if not isinstance(method, Exact) and smallest <= most:
        design = method.design(game, most, rng)
        told.check(design.coalitions)
        yield from _parts(design, smallest)


def _parts(design: Design, smallest: int) -> Iterator[Stage]:
    """Yield the design on its first 2 m, 4 m, 8 m, ... coalitions, m the smallest number, and on
    all of them.

    A part that leaves less than half as many again to ask for is passed over.
    """
    while 3 * smallest <= design.coalitions.shape[1]:
        smallest *= 2
        yield design.first(smallest)
    yield all_of(design)


def all_of(design: Design) -> Stage:
    """Return a whole design as a part."""
    return Stage(torch.arange(design.coalitions.shape[1], device=design.coalitions.device), design)


def _coded(parts: Iterator[Stage]) -> Iterator[Stage]:
    """Number coalitions by their members, so that another design's are known again, and repeats
    asked for once.
    """
    return (replace(part, keys=codes(part.design.coalitions[0])) for part in parts)


@dataclass
class _Stage:
    """A design, and how its values come of those of the stage before and fresh ones."""

    design: Design
    known: int  #: how many coalitions the stage before has
    numbers: NDArray[np.int64]  #: (c,) by which its coalitions are known again
    fresh: Tensor  #: (f,) which of them to ask for
    #: (c,) where all their values are, the stage's before and the fresh ones put together
    source: Tensor
    settled: bool = False  #: whether the design has the calibration it keeps

    @classmethod
    def after(cls, before: NDArray[np.int64], part: Stage) -> "_Stage":
        """Make the stage that follows where the coalitions of some numbers (c',) are known."""
        numbers, count = part.keys.cpu().numpy(), len(before)
        _, first, which = np.unique(
            np.concatenate((before, numbers)), return_index=True, return_inverse=True
        )
        fresh = np.sort(first[first >= count]) - count
        place = np.empty(len(first), dtype=np.int64)
        place[which[:count]] = np.arange(count)
        place[which[count + fresh]] = count + np.arange(len(fresh))
        device = part.design.coalitions.device
        asked, source = (
            torch.from_numpy(fresh).to(device),
            torch.from_numpy(place[which[count:]]).to(device),
        )
        return cls(part.design, count, numbers, asked, source)


class Plan:
    """The stages in which rows ask for coalitions, each made when the first row gets there."""

    def __init__(self, parts: Iterator[Stage]) -> None:
        self.parts, self.stages = parts, list[_Stage]()

    def stage(self, number: int) -> _Stage | None:
        """Return a stage, or None after the last."""
        if number == len(self.stages) and (part := next(self.parts, None)) is not None:
            known = self.stages[-1].numbers if self.stages else np.empty(0, dtype=np.int64)
            self.stages.append(_Stage.after(known, part))
        return self.stages[number] if number < len(self.stages) else None

    def settle(self, number: int, pilot: Tensor) -> Design:
        """Return a stage's design; at first, fit it to pilot rows' values (r, c, k), or calibrate
        it as the one before.

        The second where no pilot row got there.
        """
        stage = self.stages[number]
        if not stage.settled:
            if len(pilot):
                stage.design = stage.design.fit(pilot)
            elif number and stage.design.calibration is None:
                stage.design = stage.design.calibrated(self.stages[number - 1].design.calibration)
            stage.settled = True
        return stage.design

    @property
    def calibration(self) -> object:
        """The calibration of the last stage that has one."""
        return next(
            (stage.design.calibration for stage in self.stages[::-1] if stage.design.calibration),
            None,
        )


def spent_on(
    game: ModelGame | FunctionGame, method: Method, plan: Plan, tol: float | None, told: Told
) -> Iterator[Answer]:
    """Spend on every row what it takes to come below `tol`, or the whole budget."""
    plan.stage(0)  # raises, if at all, before anything is spent
    start, size, pilot, outputs = (
        0,
        max(FIRST_BLOCK, method.pilot_rows),
        method.pilot_rows,
        MANY_OUTPUTS,
    )
    while start < game.rows:
        block = game.take(slice(start, start + size))
        progress = Progress(block, plan, tol, told, pilot, outputs, told.slopes(block))
        yield progress.answer()
        pilot, outputs = 0, progress.outputs
        start, size = start + size, replace(progress, pilot=0).most_rows(0)


@dataclass
class Progress:
    """How far the rows of a block have come."""

    block: ModelGame | FunctionGame
    plan: Plan
    tol: float | None
    told: Told
    pilot: int  #: how many of the first rows a calibration is fitted to
    outputs: int  #: k, or how many there may be
    slopes: Slopes | None
    kept: dict[str, Tensor] = field(default_factory=dict)  #: of the rows that are done, (r, ...)

    def answer(self) -> Answer:
        """Bring all rows through the stages, and return what is kept of them.

        Where that many rows might not fit the memory, the two ends are asked for first: they tell
        how many outputs there are.
        """
        rows = torch.arange(self.block.rows, device=self.block.device)
        known = torch.empty((len(rows), 0, 1), device=rows.device)
        if len(rows) > self.most_rows(0):
            known = self.block(self.plan.stages[0].design.coalitions[:, :2])
            self.outputs = known.shape[2]
        self._go_on(rows, 0, known, 0)
        freedom = float(self.kept.pop("degrees_of_freedom").min())
        spent = Usage(int(self.kept["row_evaluations"].max()), self.block.usage.derivative_passes)
        if self.tol is None:
            del self.kept["row_evaluations"], self.kept["converged"]
        return Answer(self.kept, spent, freedom, self.plan.calibration)

    def most_rows(self, number: int) -> int:
        """Return how many rows a stage can work on at once."""
        shape = (1, len(self.plan.stages[number].numbers), self.outputs)
        memory = PILOT_BYTES if self.pilot else block_bytes(self.block)
        return most_rows(shape, self.block, memory)

    def _go_on(self, rows: Tensor, number: int, values: Tensor, spent: int) -> None:
        """Bring rows to a stage, as many at once as it can work on, of values (r, c, k) at the
        stage before.
        """
        for some in torch.arange(len(rows), device=rows.device).split(self.most_rows(number)):
            self._stage(rows[some], number, values[some], spent)

    def _stage(self, rows: Tensor, number: int, before: Tensor, spent: int) -> None:
        """Ask for what a stage needs, keep its answer for the rows that are done, and let the
        others go on.
        """
        stage = self.plan.stages[number]
        values, spent = (
            self._values(rows, stage, before),
            spent + len(stage.fresh) * self.block.cost,
        )
        design = self.plan.settle(number, values[rows < self.pilot])
        estimate = design.estimate(values)
        below = (
            torch.zeros_like(rows, dtype=torch.bool)
            if self.tol is None
            else _below(estimate, self.tol)
        )
        last = bool(below.all()) or self.plan.stage(number + 1) is None
        done = torch.ones_like(below) if last else below
        found = found_of(estimate, values) | {
            "converged": below,
            "row_evaluations": torch.full_like(rows, spent),
        }
        found["degrees_of_freedom"] = values.new_full((len(rows),), estimate.degrees_of_freedom)
        self._keep(
            rows[done], {name: part[done] for name, part in found.items()}, design, values[done]
        )
        if not last:
            self._go_on(rows[~done], number + 1, values[~done], spent)

    def _keep(self, rows: Tensor, found: dict[str, Tensor], design: Design, values: Tensor) -> None:
        """Keep what was found of rows, and what else their values (r, c, k) tell."""
        if not len(rows):
            return
        slopes = None if self.slopes is None else (self.slopes[0][rows], self.slopes[1][rows])
        for name, part in (found | self.told.of(design, values, found["values"], slopes)).items():
            self.kept.setdefault(name, part.new_empty((self.block.rows, *part.shape[1:])))[rows] = (
                part
            )

    def _values(self, rows: Tensor, stage: _Stage, before: Tensor) -> Tensor:
        """Return the values (r, c, k) of a stage's coalitions, of those at the stage before and the
        fresh ones.
        """
        missing = stage.fresh[
            before.shape[1] - stage.known :
        ]  # not the two ends, where those were asked for ahead
        if len(missing):
            asked = self.block.take(rows)(stage.design.coalitions[:, missing])
            before, self.outputs = (
                torch.cat((before, asked), dim=1) if before.shape[1] else asked,
                asked.shape[2],
            )
        return before[:, stage.source]


def _below(estimate: Estimate, tol: float) -> Tensor:
    """Return which rows' standard errors are at most `tol`, (r,), where enough draws tell them."""
    errors = estimate.standard_errors
    if errors is None or estimate.degrees_of_freedom < LEAST_FREEDOM:
        return torch.zeros_like(estimate.values[:, 0, 0], dtype=torch.bool)
    return errors.flatten(1).amax(dim=1) <= tol
