"""How good shares are: against the truth (AE, ACC), against the model (Faithfulness, Monotonicity),
and how fast.

Every metric is a function to one number a row, (r,); `summary` takes mean and standard deviation
over rows. Shares are of one output, (r, p): of several, choose `explanation.values[..., k]`.
Letters: r rows, c coalitions, p players.

Wang et al., "Accelerating Shapley Explanation via Contributive Cooperator Selection", ICML 2022,
Section 5.
"""

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.coalitions import Bools, Floats
from shearshap.errors import InputError
from shearshap.game import Game
from shearshap.inputs.arrays import numeric

Numbers: TypeAlias = ArrayLike | Tensor

_ALIKE = 1e-7
"""True shares that differ by no more than this part of the row's largest are equal: what a network
in single precision rounds off."""

_FLAT = 1e-12
"""A row whose values differ by no more than this part of the largest is constant: what is left is
rounding.
"""


@dataclass(frozen=True)
class Summary:
    """A metric over rows; the standard deviation is that of the rows given (divided by r, not r -
    1).
    """

    mean: float
    std: float
    median: float
    rows: int


def absolute_error(shares: Numbers, truth: Numbers) -> Floats:
    """Return AE (r,) of shares (r, p) against the true ones (r, p).

    AE = sum_i |phi_i - phihat_i|
    """
    estimated, true = _pair(shares, truth, "truth")
    return np.asarray(abs(true - estimated).sum(axis=1))


def ranking_accuracy(shares: Numbers, truth: Numbers) -> Floats:
    """Return ACC (r,) of the ranking by shares (r, p) against the ranking by the true ones (r, p).

    ACC = sum_m [rhat_m = r_m] / m / sum_m 1 / m, with r_m the player at rank m = 1..p.

    Signed values are ranked, the largest first. Players whose true shares are equal, up to
    rounding, may stand in any order: every ranking of them is the true one. Where all are equal
    there is nothing to rank, and ACC is 1. Equal estimates go by the player's number.
    """
    estimated, true = _pair(shares, truth, "truth")
    weights = 1 / np.arange(1, true.shape[1] + 1)
    at_rank, sought = (
        np.take_along_axis(true, descending(one), axis=1) for one in (estimated, true)
    )
    # differences of halves: those of the largest numbers there are would overflow
    right = abs(at_rank / 2 - sought / 2) <= _ALIKE * abs(true / 2).max(axis=1, keepdims=True)
    return np.asarray(np.where(right, weights, 0.0).sum(axis=1) / weights.sum())


def removal_effects(game: Game) -> Floats:
    """Return what the model loses with each player alone removed, v(U) - v(U - i), (r, p), in p + 1
    coalitions.
    """
    coalitions = ~np.eye(game.players + 1, game.players, k=-1, dtype=bool)  # U, U - 0, U - 1, ...
    values = _values(game, coalitions[None])
    return values[:, :1] - values[:, 1:]


def faithfulness(shares: Numbers, effects: Numbers) -> Floats:
    """Return the Pearson correlation (r,) of shares (r, p) and `removal_effects` (r, p).

    Faithful = cov(X, Y) / (sigma_X sigma_Y),  X_i = v(U) - v(U - i),  Y_i = phihat_i

    Where either is constant, the correlation is 0 / 0, and 0 here: equal shares tell no player from
    another, and equal effects none to tell, so such a row says nothing for or against the
    explanation. A single player is such a row.
    """
    estimated, removed = _pair(shares, effects, "effects")
    cosine = (_direction(removed) * _direction(estimated)).sum(axis=1)
    return np.asarray(cosine.clip(-1, 1))


def monotonicity(shares: Numbers, game: Game) -> Floats:
    """Return how often (r,) the next player by shares (r, p) adds no more than the one before it,
    in 2 p coalitions.

    Monotonicity = #{m : delta_m >= delta_{m+1}} / (p - 1), m = 1..p-1 in descending order of the
    shares delta_i = v(W_i + i) - v(W_i),  W_i = {j != i : phihat_j >= phihat_i}

    Players of equal shares are in each other's W_i, as the set is written, and follow one another
    by number. So with constant shares every delta_i is the effect of removal v(U) - v(U - i), and
    the metric tells how they happen to be numbered. Differences are compared as computed, without
    tolerance. A single player is never out of order: 1.
    """
    estimated = _table(shares, "shares")
    rows, players = estimated.shape
    if (game.rows, game.players) != (rows, players):
        raise InputError(
            f"game: wanted the {rows} rows and {players} players of shares, got {game.rows} rows "
            "and "
            f"{game.players} players; take the rows that were explained: game.take(slice(...))"
        )
    if players == 1:
        return np.ones(rows)
    above = (
        estimated[:, None, :] >= estimated[:, :, None]
    )  # (r, i, j): phihat_j >= phihat_i, which is W_i + i
    before = above & ~np.eye(players, dtype=bool)
    values = _values(game, np.concatenate((above, before), axis=1))
    added = np.take_along_axis(
        values[:, :players] - values[:, players:], descending(estimated), axis=1
    )
    return np.asarray((added[:, :-1] >= added[:, 1:]).mean(axis=1))


def throughput(rows: int, seconds: float) -> float:
    """Return the rows explained in one second: N_test / t_total, derivatives and selection
    included.
    """
    if not 0 < seconds < inf:
        raise InputError(
            f"seconds: wanted the time it took, above 0, got {seconds!r}; time more rows at once"
        )
    return rows / seconds


def summary(metric: Numbers) -> Summary:
    """Return mean, standard deviation and median of a metric (r,) over rows."""
    each = numeric(metric, "metric").cpu().double().numpy()
    if each.ndim != 1 or each.size == 0:
        raise InputError(
            f"metric: wanted one number a row, shape (r,), got {each.shape}; pass what a metric "
            "returned"
        )
    if not np.isfinite(each).all():
        row = int(np.isfinite(each).argmin())
        raise InputError(
            f"metric: wanted finite numbers, got {each[row]} at row {row}; leave such rows out "
            "and say so"
        )
    return Summary(float(each.mean()), float(each.std()), float(np.median(each)), len(each))


def descending(values: Floats) -> NDArray[np.int64]:
    """Return the player at each rank (r, p), the largest of values (r, p) first and ties by the
    player's number.
    """
    return np.argsort(-values, axis=1, kind="stable")


def _direction(values: Floats) -> Floats:
    """Return values (r, p), centred and of length 1, or 0 where constant: their dot product is
    Pearson's correlation.

    Scaled by the largest first, so that no square overflows or vanishes.
    """
    largest = abs(values).max(axis=1, keepdims=True)
    scaled = values / np.where(largest > 0, largest, 1)
    flat = np.ptp(scaled, axis=1, keepdims=True) <= _FLAT
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.where(flat, 0.0, centred / np.where(flat, 1.0, length)))


def _values(game: Game, coalitions: Bools) -> Floats:
    """Return the values (r, c) of coalitions (r or 1, c, p) in a game of one output."""
    values = game(torch.from_numpy(coalitions).to(game.device))
    if values.shape[2] != 1:
        raise InputError(
            f"game: wanted one output, got {values.shape[2]}; choose one, as explain does with "
            "output=1"
        )
    return np.asarray(values[:, :, 0].double().cpu().numpy())


def _pair(shares: Numbers, other: Numbers, name: str) -> tuple[Floats, Floats]:
    """Return shares and what they are compared with as two tables (r, p), or raise with what is
    wrong.
    """
    left, right = _table(shares, "shares"), _table(other, name)
    if left.shape != right.shape:
        raise InputError(
            f"{name}: wanted the shape of shares, {left.shape}, got {right.shape}; "
            "compare the same rows and players, in the same order"
        )
    return left, right


def _table(given: Numbers, name: str) -> Floats:
    """Return one number for each row and player, (r, p), or raise with what is wrong."""
    table = np.asarray(numeric(given, name).cpu().double().numpy())
    if table.ndim != 2 or table.size == 0:
        hints = {
            1: "for a single row pass values[None]",
            3: "choose one output: explanation.values[..., k]",
        }
        hint = hints.get(table.ndim, "pass explanation.values")
        raise InputError(f"{name}: wanted shape (r, p), got {table.shape}; {hint}")
    if not np.isfinite(table).all():
        row, player = (int(index) for index in np.argwhere(~np.isfinite(table))[0])
        raise InputError(
            f"{name}: wanted finite numbers, got {table[row, player]} at row {row}, player "
            f"{player}; "
            "leave such rows out and say so"
        )
    return table
