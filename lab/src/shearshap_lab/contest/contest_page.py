"""What is shown of a contest: an HTML report, and a leaderboard in Markdown, from the records."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.report import Figure, Line, Page, Panel, Section, Table, chart, write
from shearshap.result.colours import KINDS
from shearshap.result.text import format_number
from shearshap.store import written_whole
from shearshap_lab.comparisons import FEWEST, Comparison
from shearshap_lab.contest.contest import read_records
from shearshap_lab.contest.standings import (
    ROUNDING,
    Cell,
    Standing,
    cells_of,
    score,
    standings,
    tally,
    timed_at,
    yardstick,
)
from shearshap_lab.experiments.paper_tables import markdown

BLUE, VERMILION, *_ = KINDS
LONGEST_BAR = 3.0  #: times the yardstick's error; beyond, bars are cut
MISSING = "-"  #: in a cell for which there is no number


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a contest, and what follows from them."""

    records: pa.Table
    about: dict[str, Any]

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells: kinds of games at each budget."""
        return cells_of(self.records)

    @cached_property
    def standings(self) -> list[Standing]:
        """All entrants, the best first."""
        return standings(self.records, self.cells)

    @property
    def ours(self) -> list[str]:
        """The names of our methods, the best first."""
        return [standing.entrant for standing in self.standings if standing.ours]

    @property
    def challengers(self) -> list[Standing]:
        """The estimators that are not ours, the best first."""
        return [standing for standing in self.standings if not standing.ours]

    @property
    def yardstick(self) -> str:
        """The entrant whose error is 1."""
        return yardstick(
            self.cells, {standing.entrant: standing.ours for standing in self.standings}
        )

    @property
    def kinds(self) -> list[str]:
        """The kinds of games."""
        return list(dict.fromkeys(cell.kind for cell in self.cells))


def report(out: Path) -> Path:
    """Write out/report.html and out/leaderboard.md from the records in a folder.

    Return the path of the report.
    """
    results = Results(*read_records(out))
    with written_whole(out / "leaderboard.md") as partial:
        partial.write_text(leaderboard(results), encoding="utf-8")
    return write(page(results), out / "report.html")


# The report


def page(results: Results) -> Page:
    """Return the whole report."""
    sections = [
        _summary(results),
        _duels(results),
        _errors(results),
        _failures(results),
        _games(results),
        _reading(results),
    ]
    return Page(
        _title(results),
        tuple(sentences(results)),
        (),
        tuple(section for section in sections if section is not None),
    )


def _title(results: Results) -> str:
    names = [standing.entrant for standing in results.challengers]
    if len(names) == 1:
        return f"{names[0]} against our methods"
    return "Estimators of Shapley values"


def sentences(results: Results) -> Iterator[str]:
    """Yield one sentence for each challenger, or one for the best of ours where there is none."""
    for challenger in results.challengers or results.standings[:1]:
        if not challenger.answered:
            reason = _reason(results, challenger.entrant)
            yield f"**{challenger.entrant}** answered no cell: {reason}."
            continue
        others = [name for name in results.ours if name != challenger.entrant]
        counts = tally(results.cells, challenger.entrant, others)
        yield (
            f"**{challenger.entrant}** against {_counted(len(others), 'method')} of ours: "
            f"{in_words(*counts)}. {_score_sentence(challenger, results)}"
        )


def _score_sentence(standing: Standing, results: Results) -> str:
    sentence = ""
    if standing.score is not None:
        number = f"{_ratio(standing.score)} times that of {results.yardstick}"
        sentence = f"Its error is {number}, on average."
    if not standing.complete:
        failed = standing.cells - standing.answered
        reason = _reason(results, standing.entrant)
        sentence += f" It failed in {failed} of {standing.cells} cells: {reason}."
    return sentence.strip()


def _reason(results: Results, entrant: str) -> str:
    """Return why an entrant failed first."""
    failures = (cell.failures[entrant] for cell in results.cells if entrant in cell.failures)
    return next(failures).rstrip(".")


def _summary(results: Results) -> Section:
    return Section("leaderboard", "Leaderboard", (), tables=(standings_table(results),))


def standings_table(results: Results) -> Table:
    """Return the leaderboard: a line for each entrant, those that are not ours in bold."""
    rows = []
    place = 0
    for standing in results.standings:
        place += standing.complete
        rows.append(
            (
                standing.entrant,
                str(place) if standing.complete else MISSING,
                MISSING if standing.score is None else _ratio(standing.score),
                str(standing.wins),
                str(standing.ties),
                str(standing.losses),
                f"{standing.answered} of {standing.cells}",
                milliseconds(standing.seconds),
            )
        )
    bold = {(row, 0) for row, standing in enumerate(results.standings) if not standing.ours}
    return Table(
        f"Error over that of {results.yardstick}: geometric mean over "
        f"{_counted(len(results.cells), 'cell')}, with 95 % interval",
        ("estimator", "place", "error", "wins", "ties", "losses", "answered", "ms"),
        tuple(rows),
        notes=(
            "A cell is a kind of game at one budget. Wins, ties and losses are against all others "
            "in all cells. An estimator that has not answered every cell is not ranked. ms: the "
            f"median processor time of an explanation at N = {timed_at(results.records)}.",
        ),
        emphasis=frozenset(bold) if results.ours else frozenset(),
    )


def _duels(results: Results) -> Section | None:
    """Return each challenger's comparison with each of ours."""
    names = [standing.entrant for standing in results.challengers if standing.answered]
    if not names or not results.ours:
        return None
    summaries = [_duel_summary(results, name) for name in names]
    details = [_duel_table(results, name, kind) for name in names for kind in results.kinds]
    return Section(
        "duels",
        "Against each of ours",
        ("The error over that of each of our methods, with 95 % interval: below 1 it is smaller.",),
        tables=(*summaries, *details),
    )


def _duel_summary(results: Results, name: str) -> Table:
    """Return a challenger's comparison with each of ours by kind of games, over all budgets."""
    by_kind = [[cell for cell in results.cells if cell.kind == kind] for kind in results.kinds]
    rows = []
    for other in results.ours:
        scores = [score(cells, name, other) for cells in by_kind]
        numbers = [MISSING if ratio is None else _ratio(ratio) for ratio in scores]
        counts = tally(results.cells, name, [other])
        rows.append((other, *numbers, " / ".join(map(str, counts))))
    return Table(
        f"{name}: geometric means over all budgets",
        ("over", *results.kinds, "win / tie / loss"),
        tuple(rows),
        notes=("Wins, ties and losses are counted budget by budget, as below.",),
    )


def _duel_table(results: Results, name: str, kind: str) -> Table:
    cells = [cell for cell in results.cells if cell.kind == kind]
    rows = [(other, *(_duel(cell, name, other) for cell in cells)) for other in results.ours]
    return Table(
        f"{name} on {kind}, budget by budget",
        ("over", *(f"N = {cell.n}" for cell in cells)),
        tuple(rows),
        open=False,
    )


def _duel(cell: Cell, name: str, other: str) -> str:
    for entrant in (name, other):
        if entrant in cell.failures:
            return f"{entrant} failed"
    comparison = cell.compared(name, other)
    return f"{_ratio(comparison)} {comparison.verdict}"


def _errors(results: Results) -> Section:
    return Section(
        "errors",
        "Errors",
        (
            "Mean absolute error over the mean absolute value of the games, at N evaluations a "
            "player; the smallest in bold.",
        ),
        figures=(_score_chart(results),),
        tables=tuple(errors_table(results, kind, open=False) for kind in results.kinds),
    )


def _score_chart(results: Results) -> Figure:
    """Return all scores as bars with intervals."""
    lines = [
        Line(
            standing.entrant,
            number=_ratio(standing.score),
            bar=(0.0, min(standing.score.ratio, LONGEST_BAR)),
            colour=BLUE if standing.ours else VERMILION,
            whisker=_whisker(standing.score),
        )
        for standing in results.standings
        if standing.score is not None
    ]
    return Figure(
        "All estimators",
        (
            Panel(
                "",
                chart(
                    lines,
                    alt="The error of each estimator, with its interval",
                    unit=f"error over that of {results.yardstick}",
                    rule=1.0,
                ),
            ),
        ),
        f"Ours in blue; bars are cut at {LONGEST_BAR:g}.",
        key=False,
    )


def _whisker(score: Comparison) -> tuple[float, float] | None:
    if not score.high <= LONGEST_BAR:
        return None
    return score.low, score.high


def errors_table(results: Results, kind: str, *, open: bool = True) -> Table:  # noqa: A002
    """Return the mean relative errors of all entrants on one kind of games."""
    cells = [cell for cell in results.cells if cell.kind == kind]
    rows = []
    for standing in results.standings:
        errors = [cell.errors.get(standing.entrant) for cell in cells]
        numbers = [MISSING if error is None else _error(error.mean()) for error in errors]
        rows.append((standing.entrant, *numbers))
    bold = set()
    for column, cell in enumerate(cells, start=1):
        means = [
            cell.mean(standing.entrant) if standing.entrant in cell.errors else np.inf
            for standing in results.standings
        ]
        bold |= {(row, column) for row, mean in enumerate(means) if mean == min(means) < np.inf}
    return Table(
        f"Relative errors on {kind}",
        ("estimator", *(f"N = {cell.n}" for cell in cells)),
        tuple(rows),
        emphasis=frozenset(bold),
        open=open,
    )


def _failures(results: Results) -> Section | None:
    table = failures_table(results)
    if table is None:
        return None
    return Section("failures", "Failures", (), tables=(replace(table, open=False),))


def failures_table(results: Results) -> Table | None:
    """Return who has failed where and why, ours last; None where nobody has."""
    rows = []
    for standing in sorted(results.standings, key=lambda standing: standing.ours):
        for kind in results.kinds:
            failed = [
                cell
                for cell in results.cells
                if cell.kind == kind and standing.entrant in cell.failures
            ]
            if failed:
                budgets = ", ".join(str(cell.n) for cell in failed)
                reason = failed[0].failures[standing.entrant]
                rows.append((standing.entrant, kind, budgets, reason))
    if not rows:
        return None
    return Table(
        "Who did not answer, with the first reason",
        ("estimator", "games", "N", "reason"),
        tuple(rows),
        left=4,
    )


def _games(results: Results) -> Section:
    return Section("games", "Games", (), tables=(games_table(results),))


def games_table(results: Results) -> Table:
    """Return the origins of the games."""
    origins: dict[str, dict[str, Any]] = {}
    for line in results.records.select(["games", "kind", "players", "game", "size"]).to_pylist():
        origin = origins.setdefault(line["games"], {**line, "count": 0})
        origin["count"] = max(origin["count"], line["game"] + 1)
    rows = [
        (
            name,
            origin["kind"],
            str(origin["players"]),
            str(origin["count"]),
            f"{origin['size']:.3g}",
        )
        for name, origin in origins.items()
    ]
    return Table(
        "The games; their values are exact, from all coalitions",
        ("name", "kind", "players", "games", "mean absolute value"),
        tuple(rows),
        left=2,
    )


def _reading(results: Results) -> Section:
    facts = (f"{name.capitalize()}: {value}" for name, value in results.about.items())
    return Section("reading", "How to read this", tuple(explanation(results)), notes=tuple(facts))


def explanation(results: Results) -> Iterator[str]:
    """Yield what the numbers are, and where the thresholds lie."""
    draws = max(results.records["draw"].to_pylist()) + 1
    budgets = ", ".join(str(n) for n in sorted(set(results.records["n"].to_pylist())))
    yield (
        f"Every estimator gets N evaluations a player (N = {budgets}), a budget of N p + 2 for p "
        f"players, for one game at a time, with {_counted(draws, 'seed')}; nothing learnt from one "
        "game is used in another. The game counts the evaluations, repeated ones included. An "
        "estimator that spends more than the budget has no result in that cell."
    )
    yield (
        "`shear` and `shear-unbiased` use the networks' derivatives, which do not count as "
        "evaluations. For other games they spend evaluations to find cooperators, and small "
        "budgets are not enough for that."
    )
    yield (
        "Intervals are 95 % intervals of a paired bootstrap (2,000 replicates): origins of games, "
        "games within them, and seeds are resampled, always for both estimators together. A win is "
        "an interval below 1, a loss one above 1, everything else a tie; with fewer than "
        f"{FEWEST} pairs of errors, everything is a tie. If two estimators are equally good, about "
        "one cell in twenty shows a win or a loss by chance. With few origins, intervals are too "
        "narrow to say much about other origins."
    )
    yield f"Relative errors below {ROUNDING:g} count as {ROUNDING:g}."


# The leaderboard in Markdown


def leaderboard(results: Results) -> str:
    """Return the leaderboard as a page of Markdown."""
    tables = [standings_table(results)]
    tables += [errors_table(results, kind) for kind in results.kinds]
    tables += [games_table(results)]
    failures = failures_table(results)
    if failures is not None:
        tables.append(failures)
    about = results.about
    made = (
        f"Made by `{about['command']}` at commit {about['commit']}; {about['versions']}; "
        f"{about['machine']}."
    )
    # captions are headings right below the page's title
    sections = [markdown(table).strip().replace("### ", "## ", 1) for table in tables]
    reading = ("## How to read this", *explanation(results))
    return "\n\n".join(("# Leaderboard", made, *sections, *reading)) + "\n"


def printed(out: Path) -> str:
    """Return the leaderboard of the records in a folder, for a terminal."""
    results = Results(*read_records(out))
    table = standings_table(results)
    widths = [
        max(len(row[column]) for row in (table.columns, *table.rows))
        for column in range(len(table.columns))
    ]
    lines = [
        "  ".join(
            cell.ljust(width) if column < table.left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (table.columns, *table.rows)
    ]
    said = [sentence.replace("**", "") for sentence in sentences(results)]
    return "\n".join([f"{table.caption}:", "", *lines, "", *said])


# Numbers


def _ratio(comparison: Comparison) -> str:
    """Return "0.56 (0.48 to 0.66)"."""
    if not np.isfinite(comparison.high):
        return _short(comparison.ratio)
    low = _short(comparison.low)
    high = _short(comparison.high)
    return f"{_short(comparison.ratio)} ({low} to {high})"


def _short(number: float) -> str:
    if number >= 1e4 or 0 < number < 1e-2:
        return f"{number:.1e}"
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def _error(number: float) -> str:
    return format_number(number, 4) if number >= 1e-3 else f"{number:.1e}"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, with two digits."""
    if not np.isfinite(seconds):
        return MISSING
    number = 1e3 * seconds
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def in_words(wins: int, ties: int, losses: int) -> str:
    """Return "2 wins, 1 tie, 0 losses"."""
    parts = (_counted(wins, "win"), _counted(ties, "tie"), _counted(losses, "loss", "losses"))
    return ", ".join(parts)


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
