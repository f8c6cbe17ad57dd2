"""One estimator on one game: its error, seconds, coverage, and evaluations counted at the game."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from comparison.games import Bools, Floats, Game


@dataclass(frozen=True)
class Answer:
    """An estimator's values (r, p) of some rows, and their 95 % intervals where it has any."""

    values: Floats
    interval: tuple[Floats, Floats] | None = None


@dataclass(frozen=True)
class Estimator:
    """A way from a game and a budget to values."""

    name: str
    answer: Callable[[Game, slice, int, int], Answer]  #: of game, rows, budget, seed
    ours: bool = False
    together: bool = False  #: whether it gets all rows in one call
    differentiates: bool = False  #: whether it needs the model's derivatives

    def fits(self, game: Game) -> bool:
        """Return whether the game has what the estimator needs."""
        return game.differentiable or not self.differentiates


@dataclass(frozen=True)
class Result:
    """What was measured of one estimator on one game at one budget."""

    game: str
    kind: str
    estimator: str
    ours: bool
    each: int  #: evaluations a player that were allowed
    budget: int  #: evaluations a row that were allowed
    size: float  #: mean |value| of the game
    evaluations: float = np.nan  #: a row, counted; of the row that took most
    error: float = np.nan  #: mean |value - truth| over rows, players and seeds
    seconds: float = np.nan  #: a row; the median over calls
    coverage: float = np.nan  #: of nominal 95 % intervals; NaN where there are none
    failure: str = ""  #: why there are no numbers


def of_peer(name: str, peer: Callable[..., Floats]) -> Estimator:
    """Return the estimator of a function (value, players, budget, seed) -> values (p,)."""

    def answer(game: Game, rows: slice, budget: int, seed: int) -> Answer:
        value = game.of_row(rows.start)
        return Answer(peer(value, game.players, budget, seed)[None])

    return Estimator(name, answer)


@dataclass(frozen=True)
class Call:
    """What one call of an estimator gave."""

    errors: Floats  #: (rows of the call, p)
    covered: Bools | None  #: (rows of the call, p)
    seconds: float  #: a row
    evaluations: float  #: a row


def measure(game: Game, estimator: Estimator, each: int, *, seeds: int, patience: float) -> Result:
    """Run an estimator on all rows, once for each seed, after a call to warm up.

    N evaluations a player are a budget of N p + 2, base value and prediction included.
    """
    unknown = Result(
        game.name,
        game.kind,
        estimator.name,
        estimator.ours,
        each,
        budget=each * game.players + 2,
        size=float(np.abs(game.truth).mean()),
    )
    try:
        calls = list(_calls(game, estimator, unknown.budget, seeds=seeds, patience=patience))
    except Exception as error:  # noqa: BLE001  (whatever happens in a peer, the others go on)
        reason = f"{type(error).__name__}: {error}"
        return replace(unknown, failure=reason.strip().split("\n")[0])
    return summary(unknown, calls)


class TooSlowError(Exception):
    """An estimator takes longer for a row than we wait."""


def _calls(
    game: Game, estimator: Estimator, budget: int, *, seeds: int, patience: float
) -> Iterator[Call]:
    """Yield the calls of all seeds and rows."""
    size = len(game) if estimator.together else 1
    starts = range(0, len(game), size)

    warm_up = partial(call, game, estimator, slice(0, size), budget, seed=0)
    if warm_up().seconds > patience:
        # the first call may have had to load libraries
        again = warm_up().seconds
        if again > patience:
            raise TooSlowError(f"{again:.0f} s a row, and --patience is {patience:.0f}")

    for seed in range(seeds):
        for start in starts:
            # other draws for each row, or a single lucky draw would decide
            yield call(
                game, estimator, slice(start, start + size), budget, seed * len(game) + start
            )


def call(game: Game, estimator: Estimator, rows: slice, budget: int, seed: int) -> Call:
    """Call an estimator, timed and counted."""
    truth = game.truth[rows]
    before = game.evaluations
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = estimator.answer(game, rows, budget, seed)
    seconds = time.perf_counter() - started
    evaluations = game.evaluations - before

    if not np.isfinite(answer.values).all():
        raise ValueError("some values are not finite")
    return Call(
        np.abs(answer.values - truth),
        _covered(answer, truth),
        seconds / len(truth),
        evaluations / len(truth),
    )


def _covered(answer: Answer, truth: Floats) -> Bools | None:
    if answer.interval is None:
        return None
    low, high = answer.interval
    return np.asarray((low <= truth) & (truth <= high))


def summary(unknown: Result, calls: list[Call]) -> Result:
    """Return the result with the numbers of all calls."""
    covered = [call.covered for call in calls if call.covered is not None]
    return replace(
        unknown,
        error=float(np.mean([call.errors.mean() for call in calls])),
        seconds=float(np.median([call.seconds for call in calls])),
        evaluations=max(call.evaluations for call in calls),
        coverage=float(np.mean(covered)) if len(covered) == len(calls) else np.nan,
    )
