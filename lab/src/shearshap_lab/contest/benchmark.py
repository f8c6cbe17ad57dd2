"""The command `shear benchmark`: estimators of the user's own against ours."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shearshap.errors import InputError
from shearshap_lab.commands import resumable

if TYPE_CHECKING:
    from shearshap_lab.contest.contest import Estimator
    from shearshap_lab.games.sources import Request
    from shearshap_lab.games.tables import Games


QUICK = (4, 2, "8,32")  #: games of each origin, seeds, evaluations a player
FULL = (8, 3, "8,16,32,64")


@resumable
def benchmark(
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Your estimator, path/to/file.py:Name or module:Name (repeatable): a Method, a "
            "function of a game, or a shapiq approximator.",
            show_default="compare our methods only",
        ),
    ] = None,
    games: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Any of rules,trees,networks.",
            show_default="all; with --tables, none",
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of .npz files with tables of your own games."),
    ] = None,
    evaluations: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Evaluations per player.", show_default=FULL[2]),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Games per model, rule or file.", show_default="8"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs per game.", show_default="3")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Our methods to compare with.", show_default="all"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer games, budgets and runs; takes a minute.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Only write the games to this folder, as .npz files."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the records and the report.")
    ] = Path("out/benchmark"),
) -> None:
    """Compare your own estimator with our methods.

    The games are rules, trees and the paper's networks, all with exact Shapley values, or your own
    tables. Every estimator gets the same budgets, and its evaluations are counted. The report shows
    where your estimator is better, equal or worse, with intervals. You can stop the command at any
    time: run it again to resume.

    \b
    Examples:
        shear benchmark --method mine.py:MyMethod --quick
        shear benchmark --method mine.py:estimate --games rules,trees --against kriging,leverage
        shear benchmark --method mine.py:MyMethod --tables tables
        shear benchmark --games networks --export tables
    """  # noqa: D301
    from shearshap.apps.jobs.models import importing
    from shearshap.store import check_folder
    from shearshap_lab.contest.contest import Contest, our_methods, run
    from shearshap_lab.contest.page import printed, report
    from shearshap_lab.games.sources import Request
    from shearshap_lab.games.tables import write_tables

    usual_rows, usual_seeds, usual_evaluations = QUICK if quick else FULL
    budgets = _whole_numbers("--evaluations", evaluations or usual_evaluations)
    ours = our_methods(_listed(against))

    with ExitStack() as stack:
        for place in method or []:
            # also while they are called: they may import modules late
            stack.enter_context(importing(place))
        estimators = [*ours, *_estimators(method or [], {each.name for each in ours})]
        chosen = _games(games, tables, Request(rows or usual_rows, out, quick))
        if export is not None:
            for each in chosen:
                typer.echo(f"written   {write_tables(each, export)}")
            return
        check_folder(out)
        contest = Contest(estimators, chosen, budgets, seeds or usual_seeds)
        run(contest, out, command=shlex.join(["shear", *sys.argv[1:]]))

    page = report(out)
    typer.echo(printed(out))
    typer.echo(f"\nrecords   {out / 'records'}\nreport    {page}, for a browser")


def _estimators(places: Sequence[str], taken: set[str]) -> list["Estimator"]:
    """Return the user's estimators; one whose name is taken goes by its whole place."""
    from shearshap_lab.contest.contest import open_estimator

    estimators = []
    for place in dict.fromkeys(places):
        estimator = open_estimator(place)
        if estimator.name in taken:
            estimator = replace(estimator, name=place)
        taken = taken | {estimator.name}
        estimators.append(estimator)
    return estimators


def _games(kinds: str | None, folder: Path | None, request: "Request") -> list["Games"]:
    """Return the games of the kinds that are asked for, and those of a folder."""
    from shearshap_lab.games.sources import SOURCES
    from shearshap_lab.games.tables import read_tables

    names = _listed(kinds)
    if kinds is None and folder is None:
        names = list(SOURCES)
    for name in names:
        if name not in SOURCES:
            raise InputError(
                f"games: expected some of {', '.join(SOURCES)}, got {name!r}; for tables of your "
                "own take --tables"
            )
    games = [each for name in names for each in SOURCES[name](request)]
    if folder is not None:
        games += read_tables(folder, request.rows)
    return games


def _whole_numbers(option: str, text: str) -> list[int]:
    """Return the positive whole numbers of a list with commas, each once, in order."""
    parts = _listed(text)
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"{option}: expected positive whole numbers such as 8,16,32, got {text!r}")
    return sorted({int(part) for part in parts})


def _listed(text: str | None) -> list[str]:
    """Return the parts of a list with commas, each once."""
    parts = [part.strip() for part in (text or "").split(",")]
    return [part for part in dict.fromkeys(parts) if part]
