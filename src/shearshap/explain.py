"""The straight line: model + rows + reference + groups -> game -> method -> design -> values -> explanation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.adapters import Output, Predictor, checked_output, opened
from shearshap.design import Method
from shearshap.errors import BudgetError, InputError
from shearshap.explanation import Explanation
from shearshap.game import Batch, FunctionGame, ModelGame, automatic_batch
from shearshap.players import Groups, owners
from shearshap.progress import progress_bar
from shearshap.reference import Reference, background, check_finite, numeric
from shearshap.solve import solve


def explain(
    model: Any,
    rows: ArrayLike | Tensor,
    *,
    reference: Reference,
    budget: int,
    method: str | Method = "auto",
    groups: Groups = None,
    output: Output = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Explanation:
    """Explain a model's predictions for many rows at once by Shapley values.

    Parameters
    ----------
    model
        A `torch.nn.Module` (put into eval mode and given back as it was), or any function from a numpy
        array (n, *shape) to an array (n,) or (n, k).
    rows
        (r, *shape), usually (r, d): the rows to explain.
    reference
        What an absent player is replaced with: one row; background rows (b, *shape) to average over, at b
        evaluations a coalition; ("mean", background), or "median" or "mode"; or the bare name, for the
        statistic of `rows` themselves.
    budget
        Model evaluations for one row, all of them, base value and prediction included.
    method
        A name in `METHODS`, an instance such as `Shear(unbiased=True)`, or "auto": exact where the budget
        holds all coalitions, else the method with the smallest measured error.
    groups
        The players: None (every input is one), lists of input columns per player, or an integer mask of the
        input's shape.
    output
        What of the model's output to explain: an index, several, or a function of the output; None: all.
    batch_size
        Model evaluations in one forward; "auto" bounds memory. Halved when memory runs out.
    device
        Where to compute; None: where the model is.
    seed
        Same seed, same answer, however rows are split over calls or batches.
    progress
        Whether to show a progress bar; None: only in a terminal, after two seconds.
    """
    budget, seed = _whole("budget", budget), _whole("seed", seed)
    with progress_bar(progress, unit=" evaluations", unit_scale=True) as bar:
        opened_game = model_game(
            model, rows, reference=reference, groups=groups, output=output, batch_size=batch_size, device=device,
            advance=bar.update,
        )  # fmt: skip
        with opened_game as game:
            bar.total = game.rows * budget
            return solve(game, method, budget, seed)


@contextmanager
def model_game(
    model: Any,
    rows: ArrayLike | Tensor,
    *,
    reference: Reference,
    groups: Groups = None,
    output: Output = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    advance: Callable[[int], object] = lambda _evaluations: None,
) -> Iterator[ModelGame]:
    """Open the cooperative game of a model's predictions, which maps coalitions of players to values.

    For those who want to ask coalitions of their own, or to measure an explanation (`shearshap.metrics`). The options
    are those of `explain`; `advance` is told how many evaluations each batch took.
    """
    output = checked_output(output)
    table = _rows(rows)
    shape = tuple(table.shape[1:])
    owner = owners(groups, shape)
    absent = background(reference, table, owner)
    with torch.inference_mode(False), opened(model, output, device) as predict:
        dtype = _dtype(predict, rows, table, absent)
        inputs, references = (_placed(part, predict.device, dtype) for part in (table, absent))
        size = automatic_batch(predict, owner.size) if batch_size == "auto" else _whole("batch_size", batch_size)
        yield ModelGame(
            predict,
            inputs,
            references,
            torch.as_tensor(owner, device=predict.device),
            shape,
            int(owner.max()) + 1,
            Batch(size),
            advance,
        )


def explain_game(
    value: Callable[[NDArray[np.bool_]], ArrayLike],
    *,
    players: int,
    budget: int,
    method: str | Method = "auto",
    seed: int = 0,
) -> Explanation:
    """Explain any cooperative game: `value` maps coalitions (c, p) of bool to values (c,) or (c, k).

    The explanation has one row. See `explain` for `budget`, `method` and `seed`.
    """
    if not callable(value):
        raise InputError(f"value: wanted a function of coalitions (c, p), got {type(value).__name__}")
    players, budget, seed = _whole("players", players), _whole("budget", budget), _whole("seed", seed)
    with torch.inference_mode(False):
        return solve(FunctionGame(value, players), method, budget, seed)


def _rows(rows: ArrayLike | Tensor) -> Tensor:
    """Return the rows as a tensor of numbers (r, *shape), or raise with what is wrong."""
    table = numeric(rows, "rows")
    if table.ndim < 2:
        raise InputError(f"rows: wanted shape (r, d), got {tuple(table.shape)}; for a single row pass rows[None]")
    if table.numel() == 0:
        raise InputError(f"rows: there is nothing to explain in an array of shape {tuple(table.shape)}")
    check_finite(table, "rows")
    return table


def _dtype(predict: Predictor, rows: Any, table: Tensor, absent: Tensor) -> torch.dtype:
    """Return the type in which the model gets its inputs: integer tensors stay integers (embeddings)."""
    if isinstance(rows, Tensor) and not rows.is_floating_point():
        if not torch.equal(absent.double(), absent.to(rows.dtype).double()):
            raise InputError("reference: integer rows need an integer reference; try ('mode', background)")
        return rows.dtype
    if predict.dtype is not None:
        return predict.dtype
    return torch.promote_types(table.dtype, absent.dtype)


def _placed(rows: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return rows (n, *shape) flattened, where and in the type that the model takes them."""
    placed = rows.clone() if rows.is_inference() else rows
    placed = placed.flatten(1).to(device, dtype)
    # beyond, the difference of a row and its reference is not finite
    if dtype.is_floating_point and bool((placed.abs() > torch.finfo(dtype).max / 4).any()):
        raise InputError(f"rows or reference: there are numbers too large for the model's {dtype}")
    return placed


def _whole(name: str, number: Any) -> int:
    """Return an option that must be a positive integer, or a seed, which may be 0."""
    error = BudgetError if name == "budget" else InputError
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    smallest = 0 if name == "seed" else 1
    if not whole or number < smallest:
        raise error(f"{name}: wanted {'an integer from 0' if name == 'seed' else 'a positive integer'}, got {number!r}")
    return int(number)
