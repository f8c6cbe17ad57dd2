"""How many of the exact values nominal 95 % intervals hold, by kind of game and method.

    python benchmarks/intervals.py                    12 players, all kinds and methods
    python benchmarks/intervals.py --quick            few games of each kind
    python benchmarks/intervals.py --tables FOLDER    tables of games too: each .npz file
    python benchmarks/intervals.py --methods kriging leverage --kinds gloves --players 12 30
    python benchmarks/intervals.py --evaluations --tolerances 0.05 --no-conditional --kinds AND

N evaluations per player are a budget of N p + 2. Each game is explained alone; rows of models are
explained together too. Values without an interval count apart, and a value that is right up to 1e-9
of the game's range is held by any interval. With a tolerance, 1 or 5 % of the range, rows may stop
within 2000 evaluations: a row is wrong if it converged and a value is off by more than twice the
tolerance. A ratio is that of mean standard error to mean |error|, over values that are off at all:
1.25 is perfect if errors are normal.

Then come conditional values, against those of the fitted distribution, and against the true one:
see conditional_intervals.py. `--kinds` without a name leaves all kinds of games out, and
`--no-conditional` these.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from conditional_intervals import show_conditional
from setting import EVALUATIONS_PER_PLAYER, Tables, game_options, machine, measured_games, parser_of
from shearshap import METHODS
from shearshap_lab.games.study import Task, measured, subjects

#: exact values need no intervals, and SHEAR, which is biased, has none
WITH_ERRORS = [name for name in METHODS if name not in ("exact", "shear")]

TOLERANCES = (0.01, 0.05)  #: of the range
MAX_BUDGET = 2000  #: evaluations of a row that may stop
SMOOTH = ("networks by logit", "networks by logit, together")  #: whose widths are printed
LOW = 0.9  #: coverage that is too low


def records_of(
    task: Task, methods: Sequence[str], evaluations: Sequence[int], tolerances: Sequence[float]
) -> list[dict[str, Any]]:
    """Return a record for each method, and budget or tolerance (`column`), on a task's games."""
    records = []
    for subject in subjects(task):
        players = subject.phi.shape[1]
        typical = float(np.median(subject.scale))
        for method in methods:
            answered = partial(measured, subject, method, seed=task.number)
            records += [
                {"column": each, **answered(budget=each * players + 2)} for each in evaluations
            ]
            if METHODS[method].stops and typical:
                records += [
                    {"column": fraction, **answered(budget=MAX_BUDGET, tol=fraction * typical)}
                    for fraction in tolerances
                ]
    return records


def show_intervals(
    tables: Tables, method: str, records: pd.DataFrame, evaluations: Sequence[int]
) -> list[str]:
    """Print the tables of one method, and return its line of the summary."""
    totals = records.drop(columns="widths").groupby(["kind", "column"], sort=False)
    sums = totals.sum(numeric_only=True)
    kinds = records["kind"].unique()
    for name, cell, unit in (("intervals", _coverage, " %"), ("interval-ratios", _ratio, "")):
        header = ["method", "games", *(f"N = {each}{unit}" for each in evaluations)]
        lines = [
            [method, kind, *(cell(sums, kind, each) for each in evaluations)] for kind in kinds
        ]
        tables.show(name, header, lines)
    known = sums[sums["known"] > 0]
    low = int((known["held"] / known["known"] < LOW).sum())
    return [method, str(low), str(len(known))]


def show_stops(
    tables: Tables, method: str, records: pd.DataFrame, tolerances: Sequence[float]
) -> None:
    """Print how many rows converged, how many of them are wrong, and the evaluations spent."""
    header = ["method", "games"]
    for fraction in tolerances:
        header += [f"tol {fraction:.0%}: {what}" for what in ("converged %", "wrong %", "spent")]
    totals = records.drop(columns="widths", errors="ignore").groupby(["kind", "column"], sort=False)
    sums = totals.sum(numeric_only=True)
    lines = [
        [method, kind, *(cell for each in tolerances for cell in _stopped(sums, kind, each))]
        for kind in records["kind"].unique()
    ]
    tables.show("interval-stops", header, lines)


def _coverage(sums: pd.DataFrame, kind: str, each: float) -> str:
    """Return the coverage, and what part of the values have no interval."""
    if (kind, each) not in sums.index or not sums.loc[(kind, each), "known"]:
        return ""
    here = sums.loc[(kind, each)]
    without = 1 - here["known"] / here["values"]
    coverage = f"{here['held'] / here['known']:.1%}"
    return f"{coverage} ({without:.0%} without)" if without else coverage


def _ratio(sums: pd.DataFrame, kind: str, each: float) -> str:
    """Return the ratio of mean standard error to mean |error|."""
    if (kind, each) not in sums.index or not sums.loc[(kind, each), "errors"]:
        return ""
    here = sums.loc[(kind, each)]
    return f"{here['standard errors'] / here['errors']:.2f}"


def _stopped(sums: pd.DataFrame, kind: str, fraction: float) -> list[str]:
    """Return what part of the rows converged, what part did and are wrong, and mean evaluations."""
    if (kind, fraction) not in sums.index:
        return ["", "", ""]
    here = sums.loc[(kind, fraction)]
    rows = here["rows"]
    parts = (f"{here['converged'] / rows:.0%}", f"{here['wrong'] / rows:.1%}")
    return [*parts, f"{here['spent'] / rows:.0f}"]


def show_widths(
    tables: Tables, kind: str, records: pd.DataFrame, given: argparse.Namespace
) -> None:
    """Print the table of the median widths, over mean |value|."""
    lines = []
    for method in given.methods:
        cells = []
        for each in given.evaluations:
            here = records[(records["method"] == method) & (records["column"] == each)]
            widths = np.concatenate([[], *here["widths"]])
            cells.append(f"{np.median(widths):.2f}" if len(widths) else "")
        lines.append([kind, method, *cells])
    header = ["games", "method", *(f"N = {each}" for each in given.evaluations)]
    tables.show("interval-widths", header, lines)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--methods", nargs="+", choices=WITH_ERRORS, default=WITH_ERRORS)
    parser.add_argument(
        "--evaluations", nargs="*", type=int, default=EVALUATIONS_PER_PLAYER, help="per player"
    )
    parser.add_argument(
        "--tolerances", nargs="*", type=float, default=TOLERANCES, help="parts of the range"
    )
    parser.add_argument("--no-conditional", action="store_true", help="games alone")
    given = game_options(parser, games=(30, 3))
    measure = partial(
        records_of,
        methods=given.methods,
        evaluations=given.evaluations,
        tolerances=given.tolerances,
    )
    usual = (12,) if given.kinds or given.tables else ()
    for players, found in measured_games(given, usual, measure):
        setting = f"{given.games} games of each kind; {players} players; {machine()}"
        tables = Tables(setting, given.csv)
        records = pd.DataFrame([record for of_task in found for record in of_task])
        if given.evaluations:
            show_coverage(tables, records[records["column"] >= 1], given)
        if given.tolerances:
            for method in given.methods:
                if METHODS[method].stops:
                    stops = records[(records["method"] == method) & (records["column"] < 1)]
                    show_stops(tables, method, stops, given.tolerances)
    if not given.no_conditional:
        show_conditional(given.games, given.jobs, given.csv)


def show_coverage(tables: Tables, records: pd.DataFrame, given: argparse.Namespace) -> None:
    """Print the tables of coverage, ratios and widths."""
    summary = [
        show_intervals(tables, method, records[records["method"] == method], given.evaluations)
        for method in given.methods
    ]
    tables.show("intervals-summary", ["method", "cells below 90 %", "cells"], summary)
    for kind in SMOOTH:
        smooth = records[records["kind"] == kind]
        if len(smooth):
            show_widths(tables, kind, smooth, given)


if __name__ == "__main__":
    main()
