"""How good Shapley values are: against the truth, and against the model.

- against the truth: `absolute_error` (AE), `ranking_accuracy` (ACC)
- against the model: `faithfulness`, `monotonicity`

Every metric returns one number a row, (r,).
Values are of one output, (r, p): of several, choose `explanation.values[..., k]`.

Letters: r rows, c coalitions, p players.

Wang et al., "Accelerating Shapley Explanation via Contributive Cooperator Selection", ICML 2022,
Section 5.
"""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.data.tensors import numeric
from shearshap.errors import InputError
from shearshap.games.coalitions import Bools, Floats
from shearshap.games.game import Game

Numbers: TypeAlias = ArrayLike | Tensor

_ALIKE = 1e-7
"""True values that differ by at most this fraction of the row's largest are equal: it is what a
network in single precision rounds off.
"""

_FLAT = 1e-12
"""Numbers that differ by at most this fraction of the largest are constant, up to rounding."""


# Against the truth


def absolute_error(values: Numbers, truth: Numbers) -> Floats:
    """Return AE (r,) of values (r, p) against the true ones (r, p).

    AE = sum_i |phi_i - phihat_i|
    """
    estimated, true = _pair(values, truth, "truth")
    return np.asarray(abs(true - estimated).sum(axis=1))


def ranking_accuracy(values: Numbers, truth: Numbers) -> Floats:
    """Return ACC (r,) of the ranking by values (r, p) against the ranking by the true ones (r, p).

    ACC = sum_m [rhat_m = r_m] / m / sum_m 1 / m, with r_m the player at rank m = 1..p.

    Signed values are ranked, the largest first. Players whose true values are equal, up to
    rounding, may stand in any order. If all are equal there is nothing to rank, and ACC is 1.
    Equal estimates go by the player's number.
    """
    estimated, true = _pair(values, truth, "truth")
    # the true values in the estimated and in the true order: equal if the rank is right
    at_rank = np.take_along_axis(true, descending(estimated), axis=1)
    wanted = np.take_along_axis(true, descending(true), axis=1)

    right = abs(at_rank - wanted) <= _ALIKE * abs(true).max(axis=1, keepdims=True)
    weights = 1 / np.arange(1, true.shape[1] + 1)
    return np.asarray(np.where(right, weights, 0.0).sum(axis=1) / weights.sum())


# Against the model


def removal_effects(game: Game) -> Floats:
    """Return what the model loses without each player alone, v(U) - v(U - i), (r, p).

    It evaluates p + 1 coalitions: U, U - 0, U - 1, ...
    """
    removed = np.eye(game.players + 1, game.players, k=-1, dtype=bool)
    values = _coalition_values(game, ~removed[None])
    return values[:, :1] - values[:, 1:]


def faithfulness(values: Numbers, effects: Numbers) -> Floats:
    """Return the Pearson correlation (r,) of values (r, p) and `removal_effects` (r, p).

    Faithful = cov(X, Y) / (sigma_X sigma_Y),  X_i = v(U) - v(U - i),  Y_i = phihat_i

    If either is constant, the correlation is 0 / 0, and 0 here: equal values tell no player from
    another, and equal effects leave none to tell. Such a row says nothing for or against the
    explanation. A single player is such a row.
    """
    estimated, removed = _pair(values, effects, "effects")
    correlations = np.zeros(len(estimated))
    for row in np.flatnonzero(_varies(removed) & _varies(estimated)):
        correlations[row] = np.corrcoef(removed[row], estimated[row])[0, 1]
    return correlations


def monotonicity(values: Numbers, game: Game) -> Floats:
    """Return how often (r,) the next player by values (r, p) adds no more than the one before it.

    Monotonicity = #{m : delta_m >= delta_{m+1}} / (p - 1), m = 1..p-1 in descending order of the
    values; delta_i = v(W_i + i) - v(W_i),  W_i = {j != i : phihat_j >= phihat_i}

    It evaluates 2 p coalitions. Players of equal values are in each other's W_i, as the set is
    written, and follow one another by number. So with constant values every delta_i is the effect
    of removal v(U) - v(U - i), and the metric tells how they happen to be numbered. Differences are
    compared as computed, without tolerance. A single player is never out of order: 1.
    """
    estimated = _table(values, "values")
    rows, players = estimated.shape
    if (game.rows, game.players) != (rows, players):
        raise InputError(
            f"game: expected {rows} rows and {players} players, like values, got {game.rows} "
            f"rows and {game.players} players"
        )
    if players == 1:
        return np.ones(rows)

    # (r, i, j): whether phihat_j >= phihat_i, which is W_i + i
    joined = estimated[:, None, :] >= estimated[:, :, None]
    before = joined & ~np.eye(players, dtype=bool)
    both = _coalition_values(game, np.concatenate((joined, before), axis=1))
    added = both[:, :players] - both[:, players:]
    in_order = np.take_along_axis(added, descending(estimated), axis=1)
    return np.asarray((in_order[:, :-1] >= in_order[:, 1:]).mean(axis=1))


def descending(values: Floats) -> NDArray[np.int64]:
    """Return the player at each rank (r, p), the largest of values (r, p) first.

    Ties go by the player's number.
    """
    return np.argsort(-values, axis=1, kind="stable")


def _varies(table: Floats) -> Bools:
    """Return whether the numbers (r, p) of a row differ by more than rounding, (r,)."""
    return np.asarray(np.ptp(table, axis=1) > _FLAT * abs(table).max(axis=1))


def _coalition_values(game: Game, coalitions: Bools) -> Floats:
    """Return the values (r, c) of coalitions (r or 1, c, p) in a game of one output."""
    values = game(torch.from_numpy(coalitions).to(game.device))
    if values.shape[2] != 1:
        raise InputError(
            f"game: expected one output, got {values.shape[2]}; choose one, as explain does with "
            "output=1"
        )
    return np.asarray(values[:, :, 0].double().cpu().numpy())


# Inputs


def _pair(values: Numbers, other: Numbers, name: str) -> tuple[Floats, Floats]:
    """Return values and what they are compared with as two tables (r, p) of one shape."""
    left = _table(values, "values")
    right = _table(other, name)
    if left.shape != right.shape:
        raise InputError(
            f"{name}: expected the shape of values, {left.shape}, got {right.shape}; "
            "compare the same rows and players, in the same order"
        )
    return left, right


def _table(numbers: Numbers, name: str) -> Floats:
    """Return one finite number for each row and player, (r, p), or raise."""
    table = np.asarray(numeric(numbers, name).cpu().double().numpy())
    if table.ndim != 2 or table.size == 0:
        raise InputError(
            f"{name}: expected shape (r, p), got {table.shape}; for a single row pass "
            "values[None]; choose one of several outputs: values[..., k]"
        )
    if not np.isfinite(table).all():
        row, player = np.argwhere(~np.isfinite(table))[0].tolist()
        raise InputError(
            f"{name}: expected finite numbers, got {table[row, player]} at row {row}, player "
            f"{player}; leave such rows out and say so"
        )
    return table
