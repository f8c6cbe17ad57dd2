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
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

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
MAX_BUDGET = 2000  #: evaluations of a row that may stop
RIGHT = 1e-9  #: of the range: a difference that is none
TOGETHER = ", together"
SMOOTH = "networks by logit"  #: whose widths are printed
LOW = 0.9  #: coverage that is too low


class Subject(NamedTuple):
    """One game, or rows of a model that are explained together."""

    kind: str
    phi: Floats  #: (r, p)
    ranges: Floats  #: (r,)
    explain: Any  #: takes budget, method, seed and tol


def subjects(task: Task) -> Iterator[Subject]:
    """Yield a game alone and, if it is a model's first, all rows of the model together."""
    game = task.game()
    call: Any = partial(explain_game, game.value, players=game.players)
    yield Subject(game.kind, game.phi[None], np.array([game.range]), call)
    if task.kind in MODELS and task.number % ROWS == 0:
        rows = make_rows(task.kind, task.players, task.number // ROWS)
        ranges = np.array([rows.game(task.kind, row).range for row in range(len(rows.inputs))])
        call = partial(explain, rows.model, rows.inputs, background=rows.background, progress=False)
        yield Subject(task.kind + TOGETHER, rows.phi, ranges, call)


def records_of(task: Task, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record for each method, and budget or tolerance (`column`), on a task's games."""
    records = []
    for subject in subjects(task):
        players = subject.phi.shape[1]
        typical = float(np.median(subject.ranges))
        for method in methods:
            names = {"method": method, "kind": subject.kind}
            for each in EVALUATIONS_A_PLAYER:
                answer = explanation(subject, method, each * players + 2, task.number)
                records.append({**names, "column": each, **held(answer, subject)})
            if METHODS[method].stops and typical:
                for fraction in TOLERANCES:
                    tol = fraction * typical
                    answer = explanation(subject, method, MAX_BUDGET, task.number, tol)
                    records.append({**names, "column": fraction, **stopped(answer, subject, tol)})
    return records


def explanation(
    subject: Subject, method: str, budget: int, seed: int, tol: float | None = None
) -> Explanation | None:
    """Return the explanation, or None if the budget is too small for the method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer: Explanation = subject.explain(
                budget=budget, method=METHODS[method], seed=seed, tol=tol
            )
        except BudgetError:
            return None
    return answer


def held(answer: Explanation | None, subject: Subject) -> dict[str, Any]:
    """Return how many values have an interval, how many of these it holds, and the widths."""
    phi = subject.phi
    if answer is None or answer.standard_errors is None:
        return {"values": phi.size, "known": 0, "held": 0, "widths": []}
    lower, upper = answer.interval(0.95)
    known = np.isfinite(lower) & np.isfinite(upper)
    slack = RIGHT * subject.ranges[:, None]
    inside = known & (lower - slack <= phi) & (phi <= upper + slack)
    with np.errstate(divide="ignore", invalid="ignore"):
        widths = ((upper - lower) / np.abs(phi).mean(axis=1, keepdims=True))[known]
    counts = {"values": phi.size, "known": int(known.sum()), "held": int(inside.sum())}
    return {**counts, "widths": widths.tolist()}


def stopped(answer: Explanation | None, subject: Subject, tol: float) -> dict[str, Any]:
    """Return how many rows converged, and how many of these are wrong by more than 2 tol."""
    rows = len(subject.phi)
    if answer is None or answer.converged is None:
        return {"rows": rows, "converged": 0, "wrong": 0}
    far = np.abs(answer.values - subject.phi).max(axis=1) > 2 * tol
    wrong = int((answer.converged & far).sum())
    return {"rows": rows, "converged": int(answer.converged.sum()), "wrong": wrong}


# Tables


def table_of(records: pd.DataFrame) -> str:
    """Return the table of one method, and how many of its cells are too low."""
    header = ["", *(f"N = {each}" for each in EVALUATIONS_A_PLAYER)]
    for fraction in TOLERANCES:
        header += [f"tol {fraction:.0%}: converged", "and wrong"]
    sums = records.drop(columns="widths").groupby(["kind", "column"], sort=False)
    totals = sums.sum(numeric_only=True)
    lines = []
    for kind in records["kind"].unique():
        cells = [_coverage(totals, kind, each) for each in EVALUATIONS_A_PLAYER]
        for fraction in TOLERANCES:
            cells += _stopped(totals, kind, fraction)
        lines.append([kind, *cells])
    known = totals[totals["known"] > 0]
    low = int((known["held"] / known["known"] < LOW).sum())
    return f"{plain_table(header, lines)}\n\ncells under {LOW:.0%}: {low} of {len(known)}"


def _coverage(totals: pd.DataFrame, kind: str, each: float) -> str:
    """Return the coverage, and what part of the values have no interval."""
    if (kind, each) not in totals.index or not totals.loc[(kind, each), "known"]:
        return ""
    here = totals.loc[(kind, each)]
    without = 1 - here["known"] / here["values"]
    coverage = f"{here['held'] / here['known']:.1%}"
    return f"{coverage} ({without:.0%} without)" if without else coverage


def _stopped(totals: pd.DataFrame, kind: str, fraction: float) -> list[str]:
    """Return what part of the rows converged, and what part did and are wrong."""
    if (kind, fraction) not in totals.index:
        return ["", ""]
    here = totals.loc[(kind, fraction)]
    return [f"{here['converged'] / here['rows']:.0%}", f"{here['wrong'] / here['rows']:.1%}"]


def widths_of(records: pd.DataFrame, methods: Sequence[str]) -> str:
    """Return the table of the median widths, over mean |value|."""
    lines = []
    for method in methods:
        cells = []
        for each in EVALUATIONS_A_PLAYER:
            here = records[(records["method"] == method) & (records["column"] == each)]
            widths = np.concatenate([[], *here["widths"]])
            cells.append(f"{np.median(widths):.2f}" if len(widths) else "")
        lines.append([method, *cells])
    return plain_table(["", *(f"N = {each}" for each in EVALUATIONS_A_PLAYER)], lines)


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
        records = pd.DataFrame([record for found in results for record in found])
        for method in given.methods:
            print(f"\n{method}\n\n{table_of(records[records['method'] == method])}")
        for kind in (SMOOTH, SMOOTH + TOGETHER):
            smooth = records[records["kind"] == kind]
            if len(smooth):
                print(f"\nMedian width over mean |value|, {kind}\n")
                print(widths_of(smooth, given.methods))


if __name__ == "__main__":
    main()
