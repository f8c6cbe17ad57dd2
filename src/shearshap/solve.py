"""Game -> method -> design -> values -> shares: a budget of evaluations a row, spent block by block of rows."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.design import EMPTY, FULL, Design, Estimate, Method, check_budget
from shearshap.errors import ModelError
from shearshap.explanation import Explanation
from shearshap.game import FunctionGame, Game, ModelGame, Spent
from shearshap.methods import Exact, name_of, resolve

_FIRST_BLOCK = 16
"""Rows of the first block, which tells how many outputs there are."""

_BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows that are worked on at once, by the game's device."""


def _chosen(method: str | Method, game: Game, budget: int) -> Method:
    """Return the method to use, after checking that a budget of evaluations suffices for it."""
    chosen = Exact() if game.players == 1 else resolve(method, game.players, budget // game.cost)
    check_budget(chosen, game, budget, name_of(chosen))
    return chosen


def solve(game: ModelGame | FunctionGame, wanted: str | Method, budget: int, seed: int) -> Explanation:
    """Explain all rows with a budget of evaluations a row, block by block of rows."""
    method = _chosen(wanted, game, budget)
    coalitions = budget // game.cost
    design: Design | None = None
    parts: list[dict[str, Tensor]] = []
    spent = Spent()
    start, size = 0, max(_FIRST_BLOCK, method.pilot_rows)
    while start < game.rows:
        block = game.take(slice(start, start + size))
        if design is None or not design.shared:
            design = method.design(block, coalitions, np.random.default_rng(seed))
        values = block(design.coalitions)
        if start == 0:
            design = design.fit(values[: method.pilot_rows])
        parts.append(_kept(design.estimate(values), values))
        spent = spent.most(block.spent)
        start, size = start + size, _block_rows(design, values)
    assert design is not None
    whole = _joined(parts, single=game.single == [True])
    return Explanation(
        values=whole["values"],
        base_values=whole["base_values"],
        predictions=whole["predictions"],
        standard_errors=whole.get("standard_errors"),
        evaluations=spent.evaluations,
        derivative_passes=spent.derivative_passes,
        method=name_of(method),
        seed=seed,
        calibration=design.calibration,
    )


def _block_rows(design: Design, values: Tensor) -> int:
    """Return how many rows' coalitions and values fit the memory for one block."""
    _, coalitions, outputs = values.shape
    row_bytes = coalitions * (design.coalitions.shape[-1] + 32 * outputs)
    return max(1, _BLOCK_BYTES.get(values.device.type, 1 << 28) // row_bytes)


def _kept(estimate: Estimate, values: Tensor) -> dict[str, Tensor]:
    """Return what is kept of a block of rows, on its device, as copies: a view would keep all values alive."""
    if not bool(torch.isfinite(estimate.shares).all()):
        raise ModelError("the values are so large that their shares are not finite; rescale the model's output")
    kept = {"values": estimate.shares, "base_values": values[:, EMPTY], "predictions": values[:, FULL]}
    if estimate.standard_errors is not None:
        kept["standard_errors"] = estimate.standard_errors
    return {name: part.clone(memory_format=torch.contiguous_format) for name, part in kept.items()}


def _joined(parts: list[dict[str, Tensor]], *, single: bool) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of all blocks, joined where they are, without the last axis where there is a single output."""
    whole = {name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in parts[0]}
    return {name: array[..., 0] if single else array for name, array in whole.items()}
