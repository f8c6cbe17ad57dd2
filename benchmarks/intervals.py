"""How many of the exact values nominal 95 % intervals hold, by kind of game and method.

    python benchmarks/intervals.py                    12 players, all kinds and methods
    python benchmarks/intervals.py --quick            few games of each kind
    python benchmarks/intervals.py --tables FOLDER    tables of games too: each .npz file
    python benchmarks/intervals.py --methods kriging leverage --kinds gloves --players 12 30

N evaluations per player are a budget of N p + 2. Each game is explained alone; rows of models are
explained together too. Values without an interval count apart, and a value that is right up to 1e-9
of the game's range is held by any interval. With a tolerance, 1 or 5 % of the range, rows may stop
within 2000 evaluations: a row is wrong if it converged and a value is off by more than twice the
tolerance.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from setting import EVALUATIONS_PER_PLAYER, Tables, game_options, machine, measured_games, parser_of
from shearshap import METHODS
from shearshap_lab.games.study import Task, measured, subjects

#: exact values need no intervals, and SHEAR, which is biased, has none
WITH_ERRORS = [name for name in METHODS if name not in ("exact", "shear")]

TOLERANCES = (0.01, 0.05)  #: of the range
MAX_BUDGET = 2000  #: evaluations of a row that may stop
SMOOTH = ("networks by logit", "networks by logit, together")  #: whose widths are printed
LOW = 0.9  #: coverage that is too low


def records_of(task: Task, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record for each method, and budget or tolerance (`column`), on a task's games."""
    records = []
    for subject in subjects(task):
        players = subject.phi.shape[1]
        typical = float(np.median(subject.scale))
        for method in methods:
            answered = partial(measured, subject, method, seed=task.number)
            records += [
                {"column": each, **answered(budget=each * players + 2)}
                for each in EVALUATIONS_PER_PLAYER
            ]
            if METHODS[method].stops and typical:
                records += [
                    {"column": fraction, **answered(budget=MAX_BUDGET, tol=fraction * typical)}
                    for fraction in TOLERANCES
                ]
    return records


def show_intervals(tables: Tables, method: str, records: pd.DataFrame) -> list[str]:
    """Print the table of one method, and return its line of the summary."""
    header = ["method", "games", *(f"N = {each} %" for each in EVALUATIONS_PER_PLAYER)]
    for fraction in TOLERANCES:
        header += [f"tol {fraction:.0%}: {what} %" for what in ("converged", "wrong")]
    totals = records.drop(columns="widths").groupby(["kind", "column"], sort=False)
    sums = totals.sum(numeric_only=True)
    lines = []
    for kind in records["kind"].unique():
        cells = [_coverage(sums, kind, each) for each in EVALUATIONS_PER_PLAYER]
        for fraction in TOLERANCES:
            cells += _stopped(sums, kind, fraction)
        lines.append([method, kind, *cells])
    tables.show("intervals", header, lines)
    known = sums[sums["known"] > 0]
    low = int((known["held"] / known["known"] < LOW).sum())
    return [method, str(low), str(len(known))]


def _coverage(sums: pd.DataFrame, kind: str, each: float) -> str:
    """Return the coverage, and what part of the values have no interval."""
    if (kind, each) not in sums.index or not sums.loc[(kind, each), "known"]:
        return ""
    here = sums.loc[(kind, each)]
    without = 1 - here["known"] / here["values"]
    coverage = f"{here['held'] / here['known']:.1%}"
    return f"{coverage} ({without:.0%} without)" if without else coverage


def _stopped(sums: pd.DataFrame, kind: str, fraction: float) -> list[str]:
    """Return what part of the rows converged, and what part did and are wrong."""
    if (kind, fraction) not in sums.index:
        return ["", ""]
    here = sums.loc[(kind, fraction)]
    return [f"{here['converged'] / here['rows']:.0%}", f"{here['wrong'] / here['rows']:.1%}"]


def show_widths(tables: Tables, kind: str, records: pd.DataFrame, methods: Sequence[str]) -> None:
    """Print the table of the median widths, over mean |value|."""
    lines = []
    for method in methods:
        cells = []
        for each in EVALUATIONS_PER_PLAYER:
            here = records[(records["method"] == method) & (records["column"] == each)]
            widths = np.concatenate([[], *here["widths"]])
            cells.append(f"{np.median(widths):.2f}" if len(widths) else "")
        lines.append([kind, method, *cells])
    header = ["games", "method", *(f"N = {each}" for each in EVALUATIONS_PER_PLAYER)]
    tables.show("interval-widths", header, lines)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--methods", nargs="+", choices=WITH_ERRORS, default=WITH_ERRORS)
    given = game_options(parser, games=(30, 3))
    for players, found in measured_games(given, (12,), partial(records_of, methods=given.methods)):
        setting = f"{given.games} games of each kind; {players} players; {machine()}"
        tables = Tables(setting, given.csv)
        records = pd.DataFrame([record for of_task in found for record in of_task])
        summary = [
            show_intervals(tables, method, records[records["method"] == method])
            for method in given.methods
        ]
        tables.show("intervals-summary", ["method", "cells below 90 %", "cells"], summary)
        for kind in SMOOTH:
            smooth = records[records["kind"] == kind]
            if len(smooth):
                show_widths(tables, kind, smooth, given.methods)


if __name__ == "__main__":
    main()
