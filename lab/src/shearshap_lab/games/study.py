"""Measure methods on games: how far values are off, what intervals hold, who stops too early."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from shearshap import METHODS, BudgetError, Explanation, explain_game
from shearshap.result.explanation import spent_evaluations
from shearshap_lab.games.models import MODELS, ROWS, has, make, make_rows
from shearshap_lab.games.tables import Floats, Game, read_table

RIGHT = 1e-9  #: of the scale: a difference that is none
TOP = 5  #: of the largest |values|, which an estimate should find

tables = lru_cache(maxsize=4)(read_table)


@dataclass(frozen=True)
class Task:
    """A game to measure on, by its number: processes make it for themselves."""

    kind: str
    players: int
    number: int
    file: Path | None = None  #: of a table

    def game(self) -> Game:
        """Return the game."""
        if self.file is not None:
            return tables(self.file).game(self.number)
        return make(self.kind, self.players, self.number)


def tasks(kinds: Sequence[str], players: int, games: int, files: Sequence[Path]) -> list[Task]:
    """Return so many games of each kind, and of each file whose games have as many players."""
    made = [
        Task(kind, players, number)
        for kind in kinds
        if has(kind, players)
        for number in range(games)
    ]
    return made + [
        Task(file.stem, players, number, file)
        for file in files
        if tables(file).players == players
        for number in range(min(games, len(tables(file))))
    ]


@dataclass(frozen=True, eq=False)
class Subject:
    """One game, or rows of a model that are explained together."""

    kind: str
    phi: Floats  #: (r, p), the exact values
    scale: Floats  #: (r,), what errors are small or large against: the games' ranges
    explain: Callable[..., Explanation]  #: takes budget, method, seed and tol


def subject_of(game: Game) -> Subject:
    """Return the subject of one game."""
    call = partial(explain_game, game.value, players=game.players)
    return Subject(game.kind, game.phi[None], np.array([game.range]), call)


def subjects(task: Task) -> Iterator[Subject]:
    """Yield a game alone and, if it is a model's first, all rows of the model together."""
    yield subject_of(task.game())
    if task.kind in MODELS and task.number % ROWS == 0:
        rows = make_rows(task.kind, task.players, task.number // ROWS)
        assert rows.phi is not None
        ranges = np.array([rows.game(row).range for row in range(len(rows))])
        yield Subject(f"{task.kind}, together", rows.phi, ranges, rows.explain)


def measured(
    subject: Subject, method: str, budget: int, *, seed: int = 0, tol: float | None = None
) -> dict[str, Any]:
    """Return the record of one answer; without numbers if the budget is too small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = subject.explain(budget=budget, method=METHODS[method], seed=seed, tol=tol)
        except BudgetError:
            answer = None
    return {"kind": subject.kind, "method": method, **record(answer, subject, tol)}


def record(answer: Explanation | None, subject: Subject, tol: float | None) -> dict[str, Any]:
    """Return an answer's errors, what its intervals hold and, with a tolerance, who stopped."""
    phi = subject.phi
    if tol is not None:
        return {"rows": len(phi), **_stopped(answer, phi, tol)}
    counts = {
        "values": phi.size, "known": 0, "held": 0, "widths": [], "error": np.nan,
        "standard errors": 0.0, "errors": 0.0,
    }  # fmt: skip
    if answer is None:
        return counts
    counts |= {"error": relative_error(answer.values, subject)}
    return counts if answer.standard_errors is None else counts | _held(answer, subject)


def relative_error(values: Floats, subject: Subject) -> float:
    """Return the mean absolute error over the scale, a mean over rows."""
    errors = np.abs(values - subject.phi).mean(axis=1)
    return float((errors / np.where(subject.scale > 0, subject.scale, 1.0)).mean())


def top_found(values: Floats, phi: Floats) -> float:
    """Return how many of the largest |values| (p,) are among the largest estimates (p,).

    Ties are broken by the order of players, so that many zeros do not help.
    """
    wanted = set((-abs(phi)).argsort()[:TOP].tolist())
    found = set((-abs(values)).argsort(kind="stable")[:TOP].tolist())
    return len(wanted & found) / TOP


def _held(answer: Explanation, subject: Subject) -> dict[str, Any]:
    """Return how many values have an interval, how many of these it holds, and the widths.

    Beside them the sums, over the game's scale, of standard errors and of absolute errors, of
    values with an interval that are not right.
    """
    lower, upper = answer.interval(0.95)
    known = np.isfinite(lower) & np.isfinite(upper)
    slack = RIGHT * subject.scale[:, None]
    inside = known & (lower - slack <= subject.phi) & (subject.phi <= upper + slack)
    with np.errstate(divide="ignore", invalid="ignore"):
        widths = (upper - lower) / np.abs(subject.phi).mean(axis=1, keepdims=True)
    counts = {"known": int(known.sum()), "held": int(inside.sum())}
    errors = np.abs(answer.values - subject.phi)
    off = known & (errors > slack)
    scale = np.where(subject.scale > 0, subject.scale, 1.0)[:, None]
    sums = {
        "standard errors": float((answer.standard_errors / scale)[off].sum()),
        "errors": float((errors / scale)[off].sum()),
    }
    return {**counts, **sums, "widths": widths[known].tolist()}


def _stopped(answer: Explanation | None, phi: Floats, tol: float) -> dict[str, int]:
    """Return how many rows converged, how many are wrong by more than 2 tol, and what was spent."""
    if answer is None or answer.converged is None:
        return {"converged": 0, "wrong": 0, "spent": 0}
    far = np.abs(answer.values - phi).max(axis=1) > 2 * tol
    wrong = int((answer.converged & far).sum())
    return {
        "converged": int(answer.converged.sum()),
        "wrong": wrong,
        "spent": int(spent_evaluations(answer).sum()),
    }
