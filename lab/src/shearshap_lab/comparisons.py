"""Paired comparisons of two methods' errors: a ratio, its interval, and win, tie or loss.

Both methods are measured on the same units (rows, games) with the same draws (seeds, rounds). The
bootstrap draws units and draws anew, with replacement, and always for both methods together: what
makes a unit hard for both cancels in the ratio.

    comparison = compared(errors, others)     # (u, d) each: units x draws
    comparison.ratio, comparison.low, comparison.high, comparison.verdict

Units and draws are drawn apart from each other (crossed): right where a draw is shared by all
units, and a little cautious where each unit has draws of its own.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shearshap.errors import InputError

Floats = NDArray[np.float64]
Verdict = Literal["win", "tie", "loss"]

CONFIDENCE = 0.95
REPLICATES = 2_000
FEWEST = 8  #: pairs of errors below which nothing can be said, and the interval has no ends
ROUNDING = 1e-9  #: ratios closer to 1 than this are 1


@dataclass(frozen=True)
class Comparison:
    """The mean error of a method over that of another, with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """A win where the whole interval is below 1, a loss where it is above, else a tie."""
        if self.high < 1 - ROUNDING:
            return "win"
        if self.low > 1 + ROUNDING:
            return "loss"
        return "tie"


def compared(
    errors: ArrayLike,
    others: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Comparison:
    """Compare a method's errors (u, d), of u units and d draws, with another's.

    `clusters` (u,) says which units belong together, such as the rows of one network: whole
    clusters are drawn first, then units within them. Errors are positive, or 0 in both methods.
    """
    mine, theirs = _checked(errors, others)
    ratio = _ratio(mine.mean(), theirs.mean())
    if mine.size < FEWEST:
        return Comparison(float(ratio), 0.0, np.inf)
    pair = replicated_means(
        np.stack([mine, theirs]), clusters=clusters, replicates=replicates, seed=seed
    )
    low, high = interval(_ratio(*pair))
    return Comparison(float(ratio), low, high)


def interval(replicated: Floats) -> tuple[float, float]:
    """Return the 95 % interval of a number from its replicates (b,)."""
    outside = (1 - CONFIDENCE) / 2
    # the nearest replicate, as between 1 and infinity there is nothing to interpolate
    low, high = np.quantile(replicated, [outside, 1 - outside], method="nearest")
    return float(low), float(high)


def replicated_means(
    errors: Floats, *, clusters: ArrayLike | None = None, replicates: int = REPLICATES, seed: int
) -> Floats:
    """Return the mean (..., b) of errors (..., u, d) in each of b bootstrap replicates.

    The same units, draws, clusters and seed give the same replicates, so that numbers from two
    calls stay paired.
    """
    units, draws = errors.shape[-2:]
    rng = np.random.default_rng(seed)
    of_units = _unit_weights(units, clusters, replicates, rng)
    of_draws = rng.multinomial(draws, np.full(draws, 1 / draws), size=replicates) / draws
    by_draw = np.einsum("bu,...ud->...bd", of_units, errors)
    return np.asarray((by_draw * of_draws).sum(axis=-1))


def _unit_weights(
    units: int, clusters: ArrayLike | None, replicates: int, rng: np.random.Generator
) -> Floats:
    """Return how much each unit counts in each replicate, (b, u); every row adds up to 1."""
    labels = np.zeros(units, dtype=np.int64)
    if clusters is not None:
        labels = np.unique(np.asarray(clusters), return_inverse=True)[1].reshape(units)
    count = labels.max() + 1
    times = rng.multinomial(count, np.full(count, 1 / count), size=replicates)  # (b, clusters)

    weights = np.zeros((replicates, units))
    for cluster in range(count):
        members = np.flatnonzero(labels == cluster)
        size = len(members)
        # a cluster that is drawn twice has its units drawn twice, independently
        drawn = rng.multinomial(times[:, cluster] * size, np.full(size, 1 / size))
        weights[:, members] = drawn
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _checked(errors: ArrayLike, others: ArrayLike) -> tuple[Floats, Floats]:
    mine = np.asarray(errors, dtype=np.float64)
    theirs = np.asarray(others, dtype=np.float64)
    if mine.shape != theirs.shape or mine.ndim != 2:
        raise InputError(
            f"errors: wanted two arrays (units, draws) of one shape, got {mine.shape} and "
            f"{theirs.shape}"
        )
    if not mine.size or not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        raise InputError("errors: wanted finite numbers, at least one of each method")
    return mine, theirs


def _ratio(mine: Floats, theirs: Floats) -> Floats:
    """Return mine / theirs, where two errors of 0 are equal."""
    both_exact = (mine == 0) & (theirs == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(both_exact, 1.0, mine / theirs))
