"""Game -> method -> design -> values -> shares: a budget of evaluations a row, spent block by block of rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.design import EMPTY, FULL, Design, Estimate, Method, Part, check_budget
from shearshap.errors import InputError, MethodError, ModelError
from shearshap.explanation import Explanation
from shearshap.game import FunctionGame, Game, ModelGame, Spent
from shearshap.interaction import cross_contribution
from shearshap.ksii import has_pairs, second_differences
from shearshap.ksii import interactions as pairwise_interactions
from shearshap.methods import METHODS, Calibration, Enumeration, Exact, name_of, resolve

_FIRST_BLOCK = 16
"""Rows of the first block, which tells how many outputs there are."""

_BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows that are worked on at once, by the game's device."""

_LEAST_FREEDOM = 7
"""Degrees of freedom of the standard errors at which a row may stop: of fewer draws, the luckiest would stop."""

_LARGEST_PART = 2048
"""Coalitions of the last stage before all of them: kriging can still choose so many well."""


@dataclass(frozen=True)
class Answer:
    """What is kept of a block of rows."""

    tensors: dict[str, Tensor]  #: by their names in the explanation, (r, ...)
    spent: Spent
    degrees_of_freedom: float
    calibration: object


def solve(
    game: ModelGame | FunctionGame,
    wanted: str | Method,
    budget: int,
    seed: int,
    *,
    tol: float | None = None,
    interactions: bool = False,
) -> Explanation:
    """Explain all rows with a budget of evaluations a row, block by block of rows.

    With `tol`, evaluations are asked for in stages, each of twice as many as the one before, and a row stops at the
    first whose standard errors, of all players and outputs, are at most `tol`. A method that fits a calibration fits it
    at each stage to those of its pilot rows that get there; where none do, the one of the stage before stays. The
    degrees of freedom are those of the row that rests on the fewest draws. "auto" then prefers a method that can stop,
    and goes over to all coalitions only for the rows that need them.

    `interactions` are told by the same values. So is cross-contribution, but of a model that can be differentiated.
    """
    method = _chosen(wanted, game, budget, tol)
    told = Told(interactions)
    spending = (
        _whole(game, method, budget, seed, told) if tol is None else _staged(game, method, budget, seed, tol, told)
    )
    answers = list(spending)
    furthest = max(answers, key=lambda answer: answer.spent.evaluations)
    whole = _joined([answer.tensors for answer in answers], single=game.single == [True])
    return Explanation(
        **whole,
        evaluations=furthest.spent.evaluations,
        derivative_passes=max(answer.spent.derivative_passes for answer in answers),
        method=name_of(method),
        seed=seed,
        calibration=furthest.calibration,
        degrees_of_freedom=min(answer.degrees_of_freedom for answer in answers),
    )


def _chosen(wanted: str | Method, game: Game, budget: int, tol: float | None) -> Method:
    """Return the method to use, after checking that a budget of evaluations suffices for it, and that it can stop."""
    if tol is not None:
        _check_tolerance(tol)
    coalitions = budget // game.cost
    chosen = Exact() if game.players == 1 else resolve(wanted, game.players, coalitions, stops=tol is not None)
    if tol is not None and not chosen.stops:
        able = ", ".join(name for name, method in METHODS.items() if method.stops)
        raise MethodError(f"{name_of(chosen)} cannot stop at a standard error, as tol asks; these can: {able}")
    check_budget(chosen, game, budget, name_of(chosen))
    return chosen


def _check_tolerance(tol: Any) -> None:
    number = isinstance(tol, int | float | np.number) and not isinstance(tol, bool)
    if not number or not isfinite(tol) or tol <= 0:
        raise InputError(f"tol: wanted a positive number, the standard error at which to stop, got {tol!r}")


@dataclass(frozen=True)
class Told:
    """What is to be told beside the shares."""

    interactions: bool

    def check(self, coalitions: Tensor) -> None:
        """Raise unless coalitions tell it."""
        if self.interactions and not has_pairs(coalitions):
            raise MethodError(
                "interactions need coalitions with their complements, which this method does not ask for; try "
                "method='kriging', 'leverage', 'kernel-paired', 'permutation-antithetic' or 'exact'"
            )

    def of(self, game: Game, design: Design, values: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Return it, of a design's values (r, c, k) and shares (r, p, k), by its names in the explanation."""
        if not self.interactions:
            return {}
        known = design.calibration if isinstance(design.calibration, Calibration) else None
        pairs = pairwise_interactions(design.coalitions, values, shares, calibration=known)
        if game.differentiable:
            return {"interactions": pairs}
        apart = second_differences(design.coalitions, values, calibration=known)
        return {"interactions": pairs, "cross_contribution": apart}

    def by_derivatives(self, game: Game) -> dict[str, Tensor]:
        """Return what derivatives tell of a block of rows, and count their passes."""
        return {"cross_contribution": cross_contribution(game)} if self.interactions and game.differentiable else {}


def _whole(game: ModelGame | FunctionGame, method: Method, budget: int, seed: int, told: Told) -> Iterator[Answer]:
    """Spend the whole budget on every row."""
    design: Design | None = None
    start, size = 0, max(_FIRST_BLOCK, method.pilot_rows)
    while start < game.rows:
        block = game.take(slice(start, start + size))
        if design is None or not design.shared:
            design = method.design(block, budget // game.cost, np.random.default_rng(seed))
            told.check(design.coalitions)
        values = block(design.coalitions)
        if start == 0:
            design = design.fit(values[: method.pilot_rows])
        estimate = design.estimate(values)
        more = told.of(block, design, values, estimate.shares) | told.by_derivatives(block)
        yield Answer(_kept(estimate, values) | more, block.spent, estimate.degrees_of_freedom, design.calibration)
        start, size = start + size, _block_rows(design.coalitions, values)


def _block_rows(coalitions: Tensor, values: Tensor) -> int:
    """Return how many rows' coalitions and values fit the memory for one block."""
    _, count, players = coalitions.shape
    row_bytes = count * (players + 48 * values.shape[-1])
    return max(1, _BLOCK_BYTES.get(values.device.type, 1 << 28) // row_bytes)


def _kept(estimate: Estimate, values: Tensor) -> dict[str, Tensor]:
    """Return what is kept of a block of rows, on its device, as copies: a view would keep all values alive."""
    _check_finite(estimate.shares)
    kept = {"values": estimate.shares, "base_values": values[:, EMPTY], "predictions": values[:, FULL]}
    if estimate.standard_errors is not None:
        kept["standard_errors"] = estimate.standard_errors
    return {name: part.clone(memory_format=torch.contiguous_format) for name, part in kept.items()}


def _check_finite(shares: Tensor) -> None:
    if not bool(torch.isfinite(shares).all()):
        raise ModelError("the values are so large that their shares are not finite; rescale the model's output")


def _joined(parts: list[dict[str, Tensor]], *, single: bool) -> dict[str, Any]:
    """Return the arrays of all blocks, joined where they are, without the last axis where there is a single output."""
    names = ("values", "base_values", "predictions", "standard_errors", "interactions")
    whole = {name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in parts[0]}
    if single:
        whole |= {name: whole[name][..., 0] for name in names if name in whole}
    errors = whole.pop("standard_errors", None)
    known = errors is not None and bool(np.isfinite(errors).all())
    return {**whole, "standard_errors": errors if known else None}


# Stages


@dataclass
class Plan:
    """Coalitions in all, and the stages in which a row asks for them."""

    coalitions: Tensor  #: (1, c, p)
    stages: list[Part]  #: each design on more of the coalitions than the one before

    def calibrate(self, number: int, pilot: Tensor) -> Design:
        """Fit a stage's design to pilot rows' values (r, c', k); where none came so far, take the stage's before."""
        design = self.stages[number].design
        if len(pilot):
            design = design.fit(pilot)
        elif number and design.calibration is None:
            design = design.calibrated(self.stages[number - 1].design.calibration)
        self.stages[number] = replace(self.stages[number], design=design)
        return design


def _planned(game: Game, method: Method, budget: int, rng: np.random.Generator) -> Plan:
    """Return the stages of a design, up to all coalitions where the method would list them."""
    design = method.design(game, budget, rng)
    if not isinstance(design, Enumeration):
        return Plan(design.coalitions, _parts(design, method.minimum(game)))
    everything = Part(torch.arange(design.coalitions.shape[1], device=game.device), design)
    most = min(1 << (game.players - 1), _LARGEST_PART)
    if isinstance(method, Exact) or most < method.minimum(game):
        return Plan(design.coalitions, [everything])
    sampled = method.design(game, most, rng)
    place = _places(sampled.coalitions[0])
    parts = [replace(part, columns=place[part.columns]) for part in _parts(sampled, method.minimum(game))]
    return Plan(design.coalitions, [*parts, everything])


def _parts(design: Design, smallest: int) -> list[Part]:
    """Return the design on its first 2 m, 4 m, 8 m, ... coalitions, m the smallest number, and on all of them.

    A part that leaves less than half as many again to ask for is passed over.
    """
    count, parts = design.coalitions.shape[1], []
    while 3 * smallest <= count:
        smallest *= 2
        parts.append(design.first(smallest))
    return [*parts, Part(torch.arange(count, device=design.coalitions.device), design)]


def _places(coalitions: Tensor) -> Tensor:
    """Return where coalitions (c, p) stand in the list of all: the empty, the full, then in binary counting order."""
    players = coalitions.shape[1]
    number = (coalitions.long() << torch.arange(players, device=coalitions.device)).sum(dim=1)
    return torch.where(number == (1 << players) - 1, FULL, torch.where(number == 0, EMPTY, number + 1))


def _staged(
    game: ModelGame | FunctionGame, method: Method, budget: int, seed: int, tol: float, told: Told
) -> Iterator[Answer]:
    """Spend on every row what it takes to come below `tol`, or the whole budget."""
    plan = _planned(game, method, budget // game.cost, np.random.default_rng(seed))
    for stage in plan.stages:
        told.check(stage.design.coalitions)
    start, size = 0, max(_FIRST_BLOCK, method.pilot_rows)
    while start < game.rows:
        rows = Progress.of(game.take(slice(start, start + size)), plan)
        for number in range(len(plan.stages)):
            seen = rows.ask(plan.stages[number].columns)
            pilot = rows.going < (method.pilot_rows if start == 0 else 0)
            rows.keep(plan.calibrate(number, seen[pilot]), seen, tol, told)
            if not len(rows.going):
                break
        yield rows.answer(told)
        start, size = start + size, _block_rows(plan.coalitions, rows.values)


@dataclass
class Progress:
    """How far the rows of a block have come."""

    block: ModelGame | FunctionGame
    coalitions: Tensor  #: (1, c, p) of the plan
    going: Tensor  #: the rows that go on
    asked: Tensor  #: (c,) what they have asked for
    spent: Tensor  #: (r,) evaluations
    converged: Tensor  #: (r,)
    values: Tensor  #: (r, c, k), where asked
    kept: dict[str, Tensor] = field(default_factory=dict)
    freedom: Tensor = field(default_factory=lambda: torch.empty(0))  #: (r,)
    calibration: object = None

    @classmethod
    def of(cls, block: ModelGame | FunctionGame, plan: Plan) -> "Progress":
        """Return where all rows of a block start."""
        going = torch.arange(block.rows, device=block.device)
        asked = torch.zeros(plan.coalitions.shape[1], dtype=torch.bool, device=block.device)
        spent, stopped = torch.zeros_like(going), torch.zeros_like(going, dtype=torch.bool)
        return cls(block, plan.coalitions, going, asked, spent, stopped, torch.empty(0))

    def ask(self, columns: Tensor) -> Tensor:
        """Return the values (r', c', k) of some coalitions, of the rows that go on, after asking for those missing."""
        fresh = columns[~self.asked[columns]].unique()
        answers = self.block.take(self.going)(self.coalitions[:, fresh])
        if not self.values.numel():
            self.values = answers.new_empty((self.block.rows, len(self.asked), answers.shape[-1]))
        self.values[self.going[:, None], fresh] = answers
        self.asked[fresh] = True
        self.spent[self.going] += len(fresh) * self.block.cost
        return self.values[self.going[:, None], columns]

    def keep(self, design: Design, seen: Tensor, tol: float, told: Told) -> None:
        """Keep what a stage's design makes of the values seen, and let the rows stop that are precise enough."""
        estimate = design.estimate(seen)
        if estimate.standard_errors is None:
            estimate = replace(estimate, standard_errors=torch.full_like(estimate.shares, inf))
        freedom = seen.new_full((len(seen),), estimate.degrees_of_freedom)
        more = told.of(self.block, design, seen, estimate.shares)
        for name, part in (_kept(estimate, seen) | more | {"freedom": freedom}).items():
            self.kept.setdefault(name, part.clone())[self.going] = part
        self.calibration = design.calibration or self.calibration
        done = _below(estimate, tol)
        self.converged[self.going] = done
        self.going = self.going[~done]

    def answer(self, told: Told) -> Answer:
        """Return what is kept of the block."""
        freedom = float(self.kept.pop("freedom").min())
        more = told.by_derivatives(self.block)
        spent = Spent(int(self.spent.max()), self.block.spent.derivative_passes)
        tensors = self.kept | more | {"row_evaluations": self.spent, "converged": self.converged}
        return Answer(tensors, spent, freedom, self.calibration)


def _below(estimate: Estimate, tol: float) -> Tensor:
    """Return which rows' standard errors are at most `tol`, (r,), where enough draws tell them."""
    assert estimate.standard_errors is not None
    below = estimate.standard_errors.flatten(1).amax(dim=1) <= tol
    return below if estimate.degrees_of_freedom >= _LEAST_FREEDOM else torch.zeros_like(below)
