"""Errors over that of the best peer, chosen with hindsight for each game and budget."""

from collections.abc import Iterable, Sequence

import numpy as np

from comparison.measurement import Result

ROUNDING = 1e-6  #: errors below this part of mean |value| count as equal
Place = tuple[str, int]  #: a game's name and the evaluations a player


def best_peers(results: Iterable[Result]) -> dict[Place, Result]:
    """Return, for each game and budget, the peer with the smallest error."""
    best: dict[Place, Result] = {}
    for result in results:
        if result.ours or result.failure:
            continue
        place = (result.game, result.each)
        if place not in best or result.error < best[place].error:
            best[place] = result
    return best


def relative_error(result: Result, best: dict[Place, Result]) -> float:
    """Return the error over the best peer's; NaN where either is not known."""
    peer = best.get((result.game, result.each))
    if peer is None or result.failure:
        return np.nan
    return beyond_rounding(result) / beyond_rounding(peer)


def beyond_rounding(result: Result) -> float:
    """Return the error, but not less than what models in single precision can tell."""
    return max(result.error, ROUNDING * result.size)


def geometric_mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers; NaN of none, and 0 where one is 0."""
    if not numbers:
        return np.nan
    if min(numbers) <= 0:
        return 0.0
    return float(np.exp(np.mean(np.log(numbers))))
