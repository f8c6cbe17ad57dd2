"""Which features a model needs: Shapley values of its mean loss (SAGE).

    v(S) = -mean over rows of loss(y, mean over b of f(x_S, background b outside S))

Shapley values are linear, so a feature's importance is the mean of its values in the games of
single rows (Covert et al. 2020). Rows differ so much that it does not pay to know any of them well:
many rows, each with one joining order and few background rows, are better than few rows with many.

    rows in random order     8  3  12  5 | 0  9  7  2 | 11 4  6  1 | ...
    each block of them       its own joining order and background rows, drawn anew
    block means (p,)         independent, so that their spread is the error of the whole:
                             rows, background rows and coalitions count

The loss of a mean over few background rows is too large, which the jackknife corrects
(games/loss.py). Each block's values add up to what all features are worth in it, T, and what that
is in all rows is known for one evaluation a row. So the means are moved along their regression on
T, after which they add up to the base loss - the loss of all rows:

    values = mean + slope (T of all rows - mean T of blocks)

Letters: r rows, p players, b background rows, g blocks, k outputs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data import Background, Groups
from shearshap.data.background import ParsedBackground, parse_background
from shearshap.engine.loop import Clock, RowProgress
from shearshap.engine.open import NamedGame, open_game
from shearshap.engine.run import Options, Task
from shearshap.errors import (
    STOPS,
    BudgetError,
    InputError,
    ModelError,
    keep_finished,
    say_finished,
    warn,
)
from shearshap.games.batches import OutOfTime
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.loss import LabelledLoss, Loss
from shearshap.games.marginal import CHECKED_ROWS, ModelGame
from shearshap.methods import Permutation
from shearshap.methods.standard_errors import within
from shearshap.models import Form, Output, Scale
from shearshap.numbers import positive_int
from shearshap.result.importance import Floats, LossImportance, student_quantile

MAX_ROWS = 10_000
"""Rows, and background rows, that are used at most: of more, a sample."""

SHARE = 10
"""With a budget, at most a tenth of it is spent on the loss of all rows, as much on the base."""

DEFAULT_TOLERANCE = 0.025
"""Without `tol`, the errors of draws to reach, relative to the range of the values and 0."""

FEW_ROWS = 1_024
"""Rows up to which each has a joining order and its reverse: then rows are what there is least of.

The second order costs 20 to 40 % more evaluations for the same error if there are rows enough.
"""

MIN_BLOCKS = 16
"""Blocks from which on their spread is trusted to stop."""

ENOUGH_BLOCKS = 64
"""Minimum number of blocks of rows, if there are enough rows."""

MIN_REGRESSED = 8
"""Blocks from which on the slope is fitted; with fewer, all features have the same."""

MAX_BLOCK_ROWS = 16
"""Rows that share a joining order and background rows at most."""

BLOCK_EVALUATIONS = 4_096
"""Model evaluations of a block: its rows are as many as these allow."""


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: Loss,
    background: Background | None = None,
    groups: Groups = None,
    budget: int | None = None,
    tol: float | None = None,
    level: float = 0.95,
    deadline: float | None = None,
    output: Output = None,
    scale: Scale | None = None,
    returns: Form | None = None,
    multilabel: bool | None = None,
    feature_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> LossImportance:
    """Return how much each feature reduces a model's mean loss over all rows: SAGE values.

    They add up to the loss with all features absent minus the loss with all present. A feature that
    the model does not use has the value 0; one that misleads it has a negative value. If the model
    fails on the way, or Ctrl-C stops the call, the error's `finished` is the importance by the rows
    so far. See `Explainer` for options that are not listed here.

    Parameters
    ----------
    X, y
        Representative rows, such as test rows, and their labels. Of more than 10,000, a sample is
        used. A part of them may be enough: see `tol`.
    loss
        "log loss" of the probabilities of classes, "mse", "mae", or a function of labels (n,) and
        predictions (n,) or (n, k) that returns losses (n,).
    background
        The rows that absent features are replaced with. None: the rows X. A few are drawn for every
        few rows, so a large background costs no extra evaluations.
    budget
        Model evaluations for all rows together. None: as many as `tol` needs.
    tol
        Spend evaluations until all standard errors are below this tolerance, or all rows are used.
        None: until the part of the errors that more evaluations can reduce is below 2.5 % of the
        range of the values and 0.
    level
        The level of the intervals. They cover the choice of rows, the draws of background rows and
        the coalitions. They do not cover the choice of the model or of the background.
    deadline
        Seconds after which nothing more is started.
    """
    started = time.perf_counter()
    if budget is not None:
        budget = positive_int("budget", budget)
    options = Options(
        model,
        _many(parse_background(background, seed), budget),
        groups=groups,
        output=output,
        scale=scale,
        returns=returns,
        multilabel=multilabel,
        feature_names=feature_names,
        output_names=output_names,
        batch_size=batch_size,
        device=device,
        seed=seed,
        loss=loss,
        y=y,
    )
    run = options.run(budget, tol=tol, deadline=deadline)
    shown = RowProgress(progress)
    with torch.inference_mode(False), open_game(Task(options, X)) as named:
        sampled = _Sampled(named, run.budget, seed)
        try:
            sampled.draw_blocks(run.tol, Clock(run.deadline), shown)
        except STOPS as error:
            if isinstance(error, ModelError):
                named.point_out(error)
            if len(sampled.means) > 1:
                keep_finished(error, sampled.table(level))
                say_finished(error, f"importance by {sampled.rows:,} rows")
            raise
        table = sampled.table(level)
        converged = sampled.within(run.tol)
        if tol is not None and not converged:
            warn(
                f"standard errors did not reach tol={tol:g} with {sampled.rows:,} rows and "
                f"{sampled.evaluations:,} evaluations; pass more rows, or a larger budget="
            )
        return replace(
            table,
            converged=None if tol is None else converged,
            seconds=time.perf_counter() - started,
        )


def _many(background: ParsedBackground, budget: int | None) -> ParsedBackground:
    """Return a background of many rows or draws, unless the user says how many rows."""
    if background.choice and not background.conditional:
        return background
    return replace(background, count=max(_max_rows(budget), background.count))


def _max_rows(budget: int | None) -> int:
    return MAX_ROWS if budget is None else max(1, min(MAX_ROWS, budget // SHARE))


class _Sampled:
    """Blocks of rows, drawn one after the other, and what they say of all rows."""

    def __init__(self, named: NamedGame, budget: int | None, seed: int) -> None:
        game = named.game
        assert game.loss is not None
        if game.rows < 2:
            raise InputError("importance: expected at least 2 rows, got 1")
        self.named = named
        self.budget = budget
        self.loss: LabelledLoss = game.loss
        self.rng = np.random.default_rng(seed)
        self.every = self.rng.permutation(game.rows)[: _max_rows(budget)]  #: rows, in random order
        #: background rows of a block; if they have weights, all are needed
        self.part = game.cost if game.weights is not None else self.loss.min_background
        self.part = min(self.part, game.cost)
        self.method = Permutation(antithetic=len(self.every) <= FEW_ROWS)
        self.coalitions = self.method.minimum(game)
        self.evaluations = 0
        self.rows = 0  #: of the blocks so far
        self.means: list[Floats] = []  #: (p,) of each block

    @property
    def game(self) -> ModelGame:
        """The game of all rows."""
        return self.named.game

    def draw_blocks(self, tol: float | None, clock: Clock, progress: RowProgress) -> None:
        """Draw blocks until the tolerance is reached, or rows, budget or time are used up."""
        blocks = self._blocks()
        self._check_model()
        clock.bound(self.game.batch)
        try:
            self.base_losses, self.losses = self._ends()
            with progress.over(sum(map(len, blocks))):
                for rows in blocks:
                    if len(self.means) >= 2 and not clock.has_time():
                        return
                    self.means.append(self._block(rows))
                    self.rows += len(rows)
                    progress.finished(len(rows))
                    if len(self.means) >= MIN_BLOCKS and self.within(tol):
                        return
        except OutOfTime:
            if len(self.means) < 2:
                raise BudgetError(
                    f"deadline: expected enough seconds for a first result, got {clock.deadline:g}"
                ) from None

    def _blocks(self) -> list[NDArray[np.int64]]:
        """Return the rows of each block that the budget holds, before anything is spent."""
        each = self.part * (self.coalitions - 1)
        rows = len(self.every)
        if self.budget is not None:
            left = self.budget - self.game.cost - rows - 3 * CHECKED_ROWS
            rows = min(rows, left // each)
            if rows < 2:
                needed = self.game.cost + len(self.every) + 3 * CHECKED_ROWS + MIN_BLOCKS * each
                raise BudgetError(
                    f"importance of {self.game.players} features needs at least {needed:,} "
                    f"evaluations for {MIN_BLOCKS} rows, got {self.budget:,}"
                )
        size = min(max(BLOCK_EVALUATIONS // each, 1), MAX_BLOCK_ROWS, max(rows // ENOUGH_BLOCKS, 1))
        return np.array_split(self.every[:rows], rows // size)

    def _check_model(self) -> None:
        """Warn if predictions for the first rows are not the model's own."""
        first = self.game.take(slice(0, CHECKED_ROWS), background=slice(0, 1))
        warning = first.consistency_warning(first.ends(), first=True)
        self.evaluations += first.usage.evaluations * first.rows + first.usage.checks
        if warning is not None:
            warn(warning)

    def _ends(self) -> tuple[Floats, Floats]:
        """Return the loss of every row with all players absent, and with all present, (r,) each."""
        game = replace(self.game, loss=None)
        ends = end_coalitions(game.players, game.device)
        base = game.take(slice(0, 1))(ends[:, [EMPTY]])
        rows = torch.from_numpy(self.every)
        predictions = game.take(rows, background=slice(0, 1))(ends[:, [FULL]])
        self.evaluations += game.cost + len(rows)
        losses = [
            -self.loss.worth(means, means[:, :, None], rows)[:, 0, 0].cpu().numpy()
            for means in (base.expand_as(predictions), predictions)
        ]
        return losses[0], losses[1]

    def _block(self, rows: NDArray[np.int64]) -> Floats:
        """Return the mean values (p,) of a block's rows, with a joining order of their own."""
        members = torch.from_numpy(self.rng.choice(self.game.cost, self.part, replace=False))
        correction = 1 - self.part / self.game.cost
        game = replace(self.game, loss=replace(self.loss, correction=correction))
        block = game.take(torch.from_numpy(rows), background=members)
        design = self.method.design(block, self.coalitions, self.rng)
        # the full coalition has no background rows: its loss is known
        known = -torch.from_numpy(self.losses[self.rows : self.rows + len(rows)])
        found = block(design.coalitions[:, _others(design.coalitions)])
        self.evaluations += block.usage.evaluations * len(rows)
        full = known.to(found)[:, None, None]
        values = torch.cat((found[:, :1], full, found[:, 1:]), dim=1)
        return np.asarray(design.estimate(values).values[..., 0].mean(dim=0).cpu().numpy())

    def _estimate(self) -> "_Estimate":
        """Return the estimate by the blocks so far."""
        means = np.array(self.means)
        count, players = means.shape
        mean = means.mean(axis=0)
        sums = means.sum(axis=1)
        centred = sums - sums.mean()
        slope = np.full(players, 1 / players)
        freedom = count - 1
        if count >= MIN_REGRESSED and centred.any():
            slope = centred @ means / (centred @ centred)
            freedom = count - 2
        totals = self.base_losses - self.losses
        values = mean + slope * (totals.mean() - sums.mean())
        left = means - mean - centred[:, None] * slope
        of_blocks = (left**2).sum(axis=0) / (freedom * count)
        of_totals = slope**2 * totals.var(ddof=1) / len(totals)
        variance = of_blocks + of_totals
        # of the estimated variance, relative to its square
        doubt = of_blocks**2 * _variance_doubt(left, freedom)
        doubt += of_totals**2 * _variance_doubt(totals - totals.mean(), len(totals) - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            reliable = np.where(variance > 0, 2 * variance**2 / doubt, freedom)
        return _Estimate(values, np.sqrt(of_blocks), np.sqrt(variance), reliable)

    def within(self, tol: float | None) -> bool:
        """Return whether the standard errors are within the tolerance.

        Without one, it is the part of them that more evaluations would reduce.
        """
        made = self._estimate()
        if tol is not None:
            errors = torch.from_numpy(made.errors)[None]
            return bool(within(errors, float(np.min(made.freedom)), tol))
        span = np.ptp([0.0, *made.values])
        return bool((made.of_draws <= DEFAULT_TOLERANCE * span).all())

    def table(self, level: float) -> LossImportance:
        """Return the importance of all players, with intervals."""
        made = self._estimate()
        margins = student_quantile(level, made.freedom) * made.errors
        names = self.named.inputs.names or [f"x{player}" for player in range(self.game.players)]
        return LossImportance(
            made.values,
            made.errors,
            made.values - margins,
            made.values + margins,
            rows=[self.rows],
            cohorts=None,
            feature_names=list(names),
            output_names=["output"],
            sizes=False,
            level=level,
            covers="rows and estimates",
            loss_name=self.loss.name,
            base_loss=float(self.base_losses.mean()),
            loss=float(self.losses.mean()),
            evaluations=self.evaluations,
            background=self.named.inputs.background_description,
            notes=() if self.game.sampler is None else self.game.sampler.distribution.notes,
        )


@dataclass(frozen=True)
class _Estimate:
    """The values of all players, and how far off they may be."""

    values: Floats  #: (p,)
    of_draws: Floats  #: (p,) standard errors, if the rows were all there are
    errors: Floats  #: (p,) standard errors, if the rows stand for others
    freedom: Floats  #: (p,) degrees of freedom


def _variance_doubt(residuals: Floats, freedom: float) -> Floats:
    """Return the variance of s^2 / sigma^2, (p,), for residuals (n, p) or (n,) with the mean 0.

    It is 2 / freedom for a Gaussian, and larger by the excess kurtosis / n if few of the residuals
    are large, as those of a rare class are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = (residuals**4).mean(axis=0) / (residuals**2).mean(axis=0) ** 2
    excess = np.nan_to_num(kurtosis - 3).clip(0)
    return np.asarray(2 / freedom + excess / len(residuals))


def _others(coalitions: Tensor) -> list[int]:
    """Return the numbers of a design's coalitions (1, c, p), without the full one."""
    return [column for column in range(coalitions.shape[1]) if column != FULL]
