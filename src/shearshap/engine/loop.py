"""Game -> method -> design -> values -> shares: a budget of evaluations a row, spent on all rows."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.stages import (
    FIRST_BLOCK,
    MANY_OUTPUTS,
    Answer,
    Plan,
    Told,
    all_of,
    block_bytes,
    found_of,
    most_rows,
    spent_on,
    stages_of,
)
from shearshap.errors import BudgetError, InputError, MethodError
from shearshap.explanation import Explanation
from shearshap.game import FunctionGame, Game, ModelGame
from shearshap.methods import METHODS, Exact, Kernel, Leverage, name_of, resolve
from shearshap.methods.base import Method, check_budget
from shearshap.methods.exact import MOST_PLAYERS

_MOST_DRAWN = 1 << 29
"""Coalitions times players of the largest design that is drawn: its equations take some 50 bytes
for each.
"""


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

    With `tol`, evaluations are asked for in stages, each of twice as many as the one before, and a
    row stops at the first whose standard errors, of all players and outputs, are at most `tol`. A
    method that fits a calibration fits it at each stage to those of its pilot rows that get there;
    where none do, the one of the stage before stays. The degrees of freedom are those of the row
    that rests on the fewest draws. "auto" then takes kriging as far as it goes well, and only for
    the rows that need more all coalitions or, where the budget does not hold them, leverage.

    `interactions` are told by the same values. So is cross-contribution, but of a model that can be
    differentiated; where that fails, or a row's slopes are all zero, the values tell it too.
    """
    method = _chosen(wanted, game, budget, tol)
    told, coalitions = Told(interactions), budget // game.cost
    if tol is None:
        answers = list(_whole(game, method, coalitions, seed, told))
    else:
        rng = np.random.default_rng(seed)
        parts = stages_of(game, method, coalitions, rng, told, auto=wanted == "auto")
        answers = list(spent_on(game, method, Plan(parts), tol, told))
    whole = _joined([answer.tensors for answer in answers], single=game.single == [True])
    return Explanation(
        **whole,
        evaluations=max(answer.spent.evaluations for answer in answers),
        derivative_passes=max(answer.spent.derivative_passes for answer in answers),
        method=name_of(method),
        seed=seed,
        calibration=answers[-1].calibration,
        degrees_of_freedom=min(answer.degrees_of_freedom for answer in answers),
    )


def _chosen(wanted: str | Method, game: Game, budget: int, tol: float | None) -> Method:
    """Return the method to use, after checking that a budget of evaluations suffices for it, and
    that it can stop.
    """
    if tol is not None:
        _check_tolerance(tol)
    chosen = resolve(wanted, game.players, budget // game.cost, stops=tol is not None)
    if game.players == 1:
        chosen = Exact()
    if tol is not None and not chosen.stops:
        able = ", ".join(name for name, method in METHODS.items() if method.stops)
        raise MethodError(
            f"{name_of(chosen)} cannot stop at a standard error, as tol asks; these can: {able}"
        )
    check_budget(chosen, game, budget, name_of(chosen))
    _check_drawn(chosen, game, budget)
    return chosen


def _check_tolerance(tol: Any) -> None:
    number = isinstance(tol, int | float | np.number) and not isinstance(tol, bool)
    if not number or not isfinite(tol) or tol <= 0:
        raise InputError(
            f"tol: wanted a positive number, the standard error at which to stop, got {tol!r}"
        )


def _check_drawn(method: Method, game: Game, budget: int) -> None:
    """Raise where a budget's coalitions are too many to hold; all of them are listed only for rows
    that need them.
    """
    every, most = 1 << game.players, _MOST_DRAWN // game.players
    coalitions = min(budget // game.cost, every)
    listed = (
        coalitions == every
        and game.players <= MOST_PLAYERS
        and not isinstance(method, Kernel | Leverage)
    )
    if coalitions > most and not listed:
        raise BudgetError(
            f"a budget of {budget} evaluations a row: {coalitions} coalitions of {game.players} "
            "players are too many "
            f"to hold in memory; try a budget of at most {most * game.cost}"
        )


def _whole(
    game: ModelGame | FunctionGame, method: Method, coalitions: int, seed: int, told: Told
) -> Iterator[Answer]:
    """Spend the whole budget on every row."""
    start, size = 0, _first_rows(game, coalitions)
    while start < game.rows:
        block = game.take(slice(start, start + size))
        design = method.design(block, coalitions, np.random.default_rng(seed))
        told.check(design.coalitions)
        if design.shared:
            everything = all_of(design)
            yield from spent_on(game, method, Plan(iter([everything])), None, told)
            return
        values, slopes = block(design.coalitions), told.slopes(block)
        estimate = design.estimate(values)
        kept = found_of(estimate, values) | told.of(design, values, estimate.values, slopes)
        yield Answer(kept, block.usage, estimate.degrees_of_freedom, design.calibration)
        start, size = start + size, most_rows(values.shape, game, block_bytes(game))


def _first_rows(game: Game, coalitions: int) -> int:
    """Return how many rows to design for before it is known how many outputs they have."""
    shape = (1, min(coalitions, game.players << game.players), MANY_OUTPUTS)
    fits = most_rows(shape, game, block_bytes(game)) >= FIRST_BLOCK
    return FIRST_BLOCK if fits else 1


def _joined(parts: list[dict[str, Tensor]], *, single: bool) -> dict[str, Any]:
    """Return the arrays of all blocks, joined where they are, without the last axis where there is
    a single output.
    """
    names = ("values", "base_values", "predictions", "standard_errors", "interactions")
    whole: dict[str, Any] = {
        name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in parts[0]
    }
    if single:
        whole |= {name: whole[name][..., 0] for name in names if name in whole}
    known = bool(np.isfinite(whole["standard_errors"]).any())
    return whole if known else {**whole, "standard_errors": None}
