"""An estimator on a game at a budget: error, top five, coverage and evaluations; and tables."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comparison.games import Floats
from comparison.measurement import Answer
from expensive.games import Expensive
from expensive.peers import PEERS, Peer
from setting import table
from shearshap import BudgetError, Explanation

EACH = (0.25, 0.5, 1.0, 2.0, 4.0)  #: evaluations a player
TOP = 5
CHECKS = 1  #: evaluations of a row by which our calls compare the game with its model

Estimator = Callable[[Expensive, int, int, int], Answer]  #: of game, row, budget, seed


@dataclass(frozen=True)
class Score:
    """What was measured of one estimator on one row of a game at one budget."""

    kind: str
    game: str
    estimator: str
    each: float  #: evaluations a player that were allowed
    budget: int
    row: int
    seed: int
    evaluations: float = np.nan
    error: float = np.nan  #: sum of |error| over sum of |value|
    top: float = np.nan  #: part of the five largest |values| that is found
    coverage: float = np.nan  #: of nominal 95 % intervals; NaN where there are none
    failure: str = ""  #: why there are no numbers


# Estimators


def with_inputs(method: str) -> Estimator:
    """Return one of our methods, which sees a row's inputs and its background."""

    def estimate(game: Expensive, row: int, budget: int, seed: int) -> Answer:
        return answer_of(game.explain(slice(row, row + 1), method=method, budget=budget, seed=seed))

    return estimate


def alone(method: str) -> Estimator:
    """Return one of our methods, which sees a function of coalitions."""

    def estimate(game: Expensive, row: int, budget: int, seed: int) -> Answer:
        return answer_of(game.explain_alone(row, method=method, budget=budget, seed=seed))

    return estimate


def answer_of(explanation: Explanation) -> Answer:
    """Return values and intervals of an explanation."""
    errors = explanation.standard_errors
    has_errors = errors is not None and np.isfinite(errors).all()
    return Answer(explanation.values, explanation.interval(0.95) if has_errors else None)


def of_peer(peer: Peer) -> Estimator:
    """Return a peer, which sees a function of coalitions."""

    def estimate(game: Expensive, row: int, budget: int, seed: int) -> Answer:
        return Answer(peer(game, game.of_row(row), budget, seed)[None])

    return estimate


ESTIMATORS: dict[str, Estimator] = {
    "kriging": with_inputs("kriging"),
    "kriging, inputs unknown": alone("kriging"),
    "permutation": with_inputs("permutation"),
    "permutation-antithetic": with_inputs("permutation-antithetic"),
    "leverage": with_inputs("leverage"),
    **{name: of_peer(peer) for name, peer in PEERS.items()},
}


# Scores


def score(
    game: Expensive, name: str, each: float, row: int, seed: int, estimator: Estimator | None = None
) -> Score:
    """Call an estimator once, and compare its answer with the truth."""
    budget = round(each * game.players) + 2
    known: dict[str, Any] = {
        "kind": game.kind,
        "game": game.name,
        "estimator": name,
        "each": each,
        "budget": budget,
        "row": row,
        "seed": seed,
    }
    estimate = estimator or ESTIMATORS[name]
    before = game.evaluations
    try:
        with silence():
            # other draws for each row, or a single lucky draw would decide
            answer = estimate(game, row, budget, seed * len(game) + row)
    except BudgetError:
        return Score(**known, failure="the budget is too small")
    except Exception as error:  # noqa: BLE001  (whatever happens in a peer, the others go on)
        return Score(**known, failure=f"{type(error).__name__}: {error}".strip().split("\n")[0])

    truth = game.truth[row]
    values = answer.values[0]
    return Score(
        **known,
        evaluations=game.evaluations - before,
        error=float(np.abs(values - truth).sum() / np.abs(truth).sum()),
        top=top_found(values, truth),
        coverage=coverage(answer, truth),
    )


def top_found(values: Floats, truth: Floats) -> float:
    """Return how many of the largest |values| are among the largest estimates."""
    wanted = set(np.argsort(-np.abs(truth))[:TOP].tolist())
    # ties are broken by the order of players, so that many zeros do not help
    found = set(np.argsort(-np.abs(values), kind="stable")[:TOP].tolist())
    return len(wanted & found) / TOP


def coverage(answer: Answer, truth: Floats) -> float:
    """Return how many true values the intervals contain; NaN where there are none."""
    if answer.interval is None:
        return np.nan
    low, high = answer.interval
    # players that do nothing have values of 0 up to rounding, and intervals of no width
    rounding = 1e-6 * np.abs(truth).mean()
    return float(((low[0] - rounding <= truth) & (truth <= high[0] + rounding)).mean())


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep warnings and what libraries print from the tables."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():  # noqa: PTH123
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


# Tables


def report(scores: Sequence[Score]) -> str:
    """Return a table for each kind of game, and what failed."""
    kinds = list(dict.fromkeys(score.kind for score in scores))
    parts = [by_budget([score for score in scores if score.kind == kind], kind) for kind in kinds]
    return "\n\n".join([*parts, failures(scores)]).strip()


def by_budget(scores: Sequence[Score], kind: str) -> str:
    """Return a kind's table: estimators down, evaluations a player across."""
    budgets = sorted({score.each for score in scores})
    lines = []
    for name in dict.fromkeys(score.estimator for score in scores):
        own = [score for score in scores if score.estimator == name]
        cells = [cell([score for score in own if score.each == each]) for each in budgets]
        lines.append([name, *cells])
    header = ["error, top five, coverage", *(f"{each:g} p" for each in budgets)]
    return f"## {kind.capitalize()}\n\n{table(header, lines)}"


def cell(scores: Sequence[Score]) -> str:
    """Return means over games, rows and seeds; empty where one is missing, bold if overspent."""
    if not scores or any(score.failure for score in scores):
        return ""
    error = over_games(scores, "error")
    top = over_games(scores, "top")
    text = f"{error:.2f}, {top:.0%}"
    covered = over_games(scores, "coverage")
    if np.isfinite(covered):
        text += f", {covered:.0%}"
    overspent = any(score.evaluations > score.budget + CHECKS for score in scores)
    return f"**{text}**" if overspent else text


def over_games(scores: Sequence[Score], field: str) -> float:
    """Return the mean over games of the mean over a game's rows and seeds; NaN where one is."""
    games = dict.fromkeys(score.game for score in scores)
    means = [np.mean([getattr(s, field) for s in scores if s.game == game]) for game in games]
    return float(np.mean(means))


def failures(scores: Sequence[Score]) -> str:
    """Return why cells are empty, once for each estimator, kind and budget."""
    reasons = {
        (score.estimator, score.kind, f"{score.each:g} p"): score.failure
        for score in scores
        if score.failure and score.failure != "the budget is too small"
    }
    lines = [[*place, reason.replace("|", "\\|")] for place, reason in reasons.items()]
    return f"## Failed\n\n{table(['', 'kind', 'budget', 'why'], lines)}" if lines else ""
