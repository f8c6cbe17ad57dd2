"""How many of the exact values nominal 95 % intervals hold, by kind of game and method.

    python benchmarks/intervals.py                    12 players, all kinds and methods
    python benchmarks/intervals.py --quick            few games of each kind
    python benchmarks/intervals.py --tables FOLDER    tables of games too: each .npz file
    python benchmarks/intervals.py --methods kriging,leverage --kinds gloves --players 12,30

N evaluations a player are a budget of N p + 2. Each game is explained alone; rows of models are
explained together too. Values without an interval count apart, and a value that is right up to 1e-9
of the game's range is held by any interval. With a tolerance, 1 or 5 % of the range, rows may stop
within 2000 evaluations: a row is wrong if it converged and a value is off by more than twice the
tolerance.
"""

import argparse
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from running import (
    EVALUATIONS_A_PLAYER,
    Task,
    chosen,
    in_processes,
    numbers_of_players,
    parser,
    tasks,
)
from setting import machine
from shearshap import METHODS, BudgetError, Explanation, explain, explain_game
from shearshap_lab.games.models import MODELS, ROWS, make_rows
from shearshap_lab.games.tables import Floats
from shearshap_lab.markdown import plain_table

#: exact values need no intervals, and SHEAR, which is biased, has none
WITH_ERRORS = [name for name in METHODS if name not in ("exact", "shear")]

TOLERANCES = (0.01, 0.05)  #: of the range
MOST = 2000  #: evaluations of a row that may stop
RIGHT = 1e-9  #: of the range: a difference that is none
TOGETHER = ", together"
SMOOTH = "networks by logit"  #: whose widths are printed
LOW = 0.9  #: coverage that is too low

Explain = Callable[..., Explanation]


@dataclass(frozen=True, eq=False)
class Subject:
    """One game, or rows of a model that are explained together."""

    kind: str
    phi: Floats  #: (r, p)
    ranges: Floats  #: (r,)
    explain: Explain  #: takes budget, method, seed and tol


@dataclass(frozen=True)
class Counts:
    """What one explanation has, or many of them added up."""

    values: int
    with_interval: int = 0
    held: int = 0
    widths: tuple[float, ...] = ()  #: over the row's mean |phi|
    rows: int = 0
    converged: int = 0
    wrong: int = 0  #: rows that converged to wrong values


@dataclass(frozen=True)
class Record:
    """A method on one subject; `column` is N, or the tolerance's fraction of the range."""

    method: str
    kind: str
    column: float
    counts: Counts


# Subjects


def single(task: Task) -> Subject:
    """Return a game alone."""
    game = task.game()
    call = partial(explain_game, game.value, players=game.players)
    return Subject(game.kind, game.phi[None], np.array([game.range]), call)


def together(task: Task) -> Subject:
    """Return all rows of the model that a task's game belongs to."""
    rows = make_rows(task.kind, task.players, task.number // ROWS)
    ranges = np.array([rows.game(task.kind, row).range for row in range(len(rows.inputs))])
    call = partial(explain, rows.model, rows.inputs, background=rows.background, progress=False)
    return Subject(task.kind + TOGETHER, rows.phi, ranges, call)


# Measuring


def records_of(task: Task, methods: Sequence[str]) -> list[Record]:
    """Return what all methods do on a game, and on its model's rows where it is the first."""
    subjects = [single(task)]
    if task.kind in MODELS and task.number % ROWS == 0:
        subjects.append(together(task))
    return [
        record
        for subject in subjects
        for method in methods
        for record in measured(subject, method, task.number)
    ]


def measured(subject: Subject, method: str, seed: int) -> Iterable[Record]:
    """Yield a record for each budget, and for each tolerance where the method can stop."""
    players = subject.phi.shape[1]
    for each in EVALUATIONS_A_PLAYER:
        answer = explanation(subject, method, each * players + 2, seed)
        yield Record(method, subject.kind, each, intervals_of(answer, subject))

    typical = float(np.median(subject.ranges))
    if not METHODS[method].stops or typical == 0:
        return
    for fraction in TOLERANCES:
        tol = fraction * typical
        answer = explanation(subject, method, MOST, seed, tol)
        yield Record(method, subject.kind, fraction, stops_of(answer, subject, tol))


def explanation(
    subject: Subject, method: str, budget: int, seed: int, tol: float | None = None
) -> Explanation | None:
    """Return the explanation, or None where the budget is too small for the method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return subject.explain(budget=budget, method=METHODS[method], seed=seed, tol=tol)
        except BudgetError:
            return None


def intervals_of(answer: Explanation | None, subject: Subject) -> Counts:
    """Return how many values have an interval, how many of these it holds, and the widths."""
    phi = subject.phi
    if answer is None or answer.standard_errors is None:
        return Counts(phi.size)
    lower, upper = answer.interval(0.95)
    known = np.isfinite(lower) & np.isfinite(upper)
    slack = RIGHT * subject.ranges[:, None]
    held = known & (lower - slack <= phi) & (phi <= upper + slack)
    sizes = np.abs(phi).mean(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        widths = ((upper - lower) / sizes)[known]
    return Counts(phi.size, int(known.sum()), int(held.sum()), tuple(widths.tolist()))


def stops_of(answer: Explanation | None, subject: Subject, tol: float) -> Counts:
    """Return how many rows converged, and how many of these are wrong by more than 2 tol."""
    phi = subject.phi
    if answer is None or answer.converged is None:
        return Counts(phi.size, rows=len(phi))
    wrong = np.abs(answer.values - phi).max(axis=1) > 2 * tol
    return Counts(
        phi.size,
        rows=len(phi),
        converged=int(answer.converged.sum()),
        wrong=int((answer.converged & wrong).sum()),
    )


def total(records: Iterable[Record]) -> Counts:
    """Return the counts of several records together."""
    every = [record.counts for record in records]
    return Counts(
        values=sum(counts.values for counts in every),
        with_interval=sum(counts.with_interval for counts in every),
        held=sum(counts.held for counts in every),
        widths=tuple(width for counts in every for width in counts.widths),
        rows=sum(counts.rows for counts in every),
        converged=sum(counts.converged for counts in every),
        wrong=sum(counts.wrong for counts in every),
    )


# Tables


def table_of(records: Sequence[Record]) -> str:
    """Return the table of one method, and how many of its cells are too low."""
    header = ["", *(f"N = {each}" for each in EVALUATIONS_A_PLAYER)]
    for fraction in TOLERANCES:
        header += [f"tol {fraction:.0%}: converged", "and wrong"]

    lines = []
    coverages = []
    for kind in dict.fromkeys(record.kind for record in records):
        here = [record for record in records if record.kind == kind]
        by_budget = [total(of_column(here, each)) for each in EVALUATIONS_A_PLAYER]
        by_tolerance = [total(of_column(here, fraction)) for fraction in TOLERANCES]
        coverages += [
            counts.held / counts.with_interval for counts in by_budget if counts.with_interval
        ]
        stopped = [cell for counts in by_tolerance for cell in stopped_cells(counts)]
        lines.append([kind, *map(coverage_cell, by_budget), *stopped])
    low = sum(coverage < LOW for coverage in coverages)
    return f"{plain_table(header, lines)}\n\ncells under {LOW:.0%}: {low} of {len(coverages)}"


def of_column(records: Sequence[Record], column: float) -> list[Record]:
    """Return the records of one budget or tolerance."""
    return [record for record in records if record.column == column]


def coverage_cell(counts: Counts) -> str:
    """Return the coverage, and what part of the values have no interval."""
    without = 1 - counts.with_interval / counts.values
    if not counts.with_interval:
        return ""
    coverage = f"{counts.held / counts.with_interval:.1%}"
    return f"{coverage} ({without:.0%} without)" if without else coverage


def stopped_cells(counts: Counts) -> list[str]:
    """Return what part of the rows converged, and what part did and are wrong."""
    if not counts.rows:
        return ["", ""]
    return [f"{counts.converged / counts.rows:.0%}", f"{counts.wrong / counts.rows:.1%}"]


def widths_of(records: Sequence[Record], methods: Sequence[str]) -> str:
    """Return the table of the median widths on smooth networks."""
    lines = []
    for method in methods:
        here = [record for record in records if record.method == method]
        widths = [total(of_column(here, each)).widths for each in EVALUATIONS_A_PLAYER]
        lines.append([method, *(f"{np.median(width):.2f}" if width else "" for width in widths)])
    return plain_table(["", *(f"N = {each}" for each in EVALUATIONS_A_PLAYER)], lines)


def print_tables(records: Sequence[Record], methods: Sequence[str]) -> None:
    """Print a table for each method, and one of widths."""
    for method in methods:
        print(f"\n{method}\n")
        print(table_of([record for record in records if record.method == method]))
    for kind in (SMOOTH, SMOOTH + TOGETHER):
        smooth = [record for record in records if record.kind == kind]
        if smooth:
            print(f"\nMedian width over mean |value|, {kind}\n")
            print(widths_of(smooth, methods))


def options() -> argparse.Namespace:
    """Return what the command line asks for."""
    made = parser(__doc__, players="12", games=30)
    made.add_argument(
        "--methods",
        type=lambda text: chosen(text, WITH_ERRORS),
        default=tuple(WITH_ERRORS),
        help=f"some of {', '.join(WITH_ERRORS)} (all)",
    )
    found = made.parse_args()
    found.games = found.games or (3 if found.quick else 30)
    found.players = found.players or (12,)
    return found


def main() -> None:
    given = options()
    print(f"{given.games} games of each kind; {machine()}")
    for players in numbers_of_players(given):
        print(f"\n### {players} players")
        work = tasks(given, players)
        results = in_processes(partial(records_of, methods=given.methods), work, given.jobs)
        print_tables([record for records in results for record in records], given.methods)


if __name__ == "__main__":
    main()
