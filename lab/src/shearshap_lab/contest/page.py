"""What is shown of a contest: an HTML report, and a leaderboard in Markdown, from the records."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.report import Figure, Line, Page, Panel, Section, Table, chart, write
from shearshap.result.colours import KINDS
from shearshap.result.text import format_number
from shearshap.store import written_whole
from shearshap_lab.contest.contest import read_records
from shearshap_lab.contest.ranking import (
    MIN_ERRORS,
    ROUNDING,
    Cell,
    Standing,
    baseline,
    cells_of,
    score,
    standings,
    tally,
    timed_at,
)
from shearshap_lab.markdown import markdown
from shearshap_lab.statistics import RATIO_MARGIN, Interval, Verdict

BLUE, VERMILION, *_ = KINDS
MAX_BAR = 3.0  #: times the baseline's error; beyond, bars are cut
MISSING = "-"  #: in a cell for which there is no number


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a contest, and what follows from them."""

    records: pa.Table
    origin: dict[str, Any]

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells: kinds of games at each budget."""
        return cells_of(self.records)

    @cached_property
    def standings(self) -> list[Standing]:
        """All estimators, the best first."""
        return standings(self.records, self.cells)

    @property
    def ours(self) -> list[str]:
        """The names of our methods, the best first."""
        return [standing.estimator for standing in self.standings if standing.ours]

    @property
    def challengers(self) -> list[Standing]:
        """The estimators that are not ours, the best first."""
        return [standing for standing in self.standings if not standing.ours]

    @property
    def baseline(self) -> str:
        """The estimator whose error is 1."""
        ours = {standing.estimator: standing.ours for standing in self.standings}
        return baseline(self.cells, ours)

    @property
    def kinds(self) -> list[str]:
        """The kinds of games."""
        return list(dict.fromkeys(cell.kind for cell in self.cells))

    def of_kind(self, kind: str) -> list[Cell]:
        """Return the cells of a kind."""
        return [cell for cell in self.cells if cell.kind == kind]


def report(out: Path) -> Path:
    """Write out/report.html and out/leaderboard.md from the records in a folder.

    Return the path of the report.
    """
    results = Results(*read_records(out))
    with written_whole(out / "leaderboard.md") as partial:
        partial.write_text(leaderboard(results), encoding="utf-8")
    return write(page(results), out / "report.html")


def page(results: Results) -> Page:
    """Return the whole report."""
    names = [standing.estimator for standing in results.challengers]
    title = f"{names[0]} against our methods" if len(names) == 1 else "Estimators of Shapley values"
    return Page(title, tuple(sentences(results)), (), tuple(_sections(results)))


def _sections(results: Results) -> Iterator[Section]:
    yield Section("leaderboard", "Leaderboard", (), tables=(standings_table(results),))
    names = [standing.estimator for standing in results.challengers if standing.answered]
    if names and results.ours:
        yield Section(
            "comparisons",
            "Against each of ours",
            ("The error over that of each of our methods, 95 % interval: below 1 it is smaller.",),
            tables=tuple(
                _comparison_table(results, name, kind) for name in names for kind in results.kinds
            ),
        )
    yield Section(
        "errors",
        "Errors",
        (
            "Mean absolute error over the mean absolute value of the games, at N evaluations a "
            "player; the smallest in bold.",
        ),
        figures=(_score_chart(results),),
        tables=tuple(errors_table(results, kind) for kind in results.kinds),
    )
    failures = failures_table(results)
    if failures is not None:
        yield Section("failures", "Failures", (), tables=(failures,))
    yield Section("games", "Games", (), tables=(games_table(results),))
    facts = (f"{name.capitalize()}: {value}" for name, value in results.origin.items())
    yield Section("reading", "How to read this", tuple(method_notes(results)), notes=tuple(facts))


def sentences(results: Results) -> Iterator[str]:
    """Yield one sentence for each challenger, or one for the best of ours if there is none."""
    for challenger in results.challengers or results.standings[:1]:
        name = challenger.estimator
        reasons = (cell.failures[name] for cell in results.cells if name in cell.failures)
        if not challenger.answered:
            yield f"**{name}** answered no cell: {next(reasons).rstrip('.')}."
            continue
        others = [other for other in results.ours if other != name]
        sentence = f"**{name}** against {_counted(len(others), 'method')} of ours: "
        sentence += f"{in_words(tally(results.cells, name, others))}."
        if challenger.score is not None:
            sentence += f" Its error is {_ratio(challenger.score)} times that of "
            sentence += f"{results.baseline}, on average."
        if not challenger.complete:
            failed = challenger.cells - challenger.answered
            sentence += f" It failed in {failed} of {challenger.cells} cells: "
            sentence += f"{next(reasons).rstrip('.')}."
        yield sentence


# Tables


def standings_table(results: Results) -> Table:
    """Return the leaderboard: a line for each estimator, those that are not ours in bold."""
    rows = []
    for place, standing in enumerate(results.standings, start=1):
        rows.append(
            (
                standing.estimator,
                str(place) if standing.complete else MISSING,
                MISSING if standing.score is None else _ratio(standing.score),
                *(str(count) for count in standing.verdicts.values()),
                f"{standing.answered} of {standing.cells}",
                _milliseconds(standing.seconds),
            )
        )
    bold = {(row, 0) for row, standing in enumerate(results.standings) if not standing.ours}
    return Table(
        f"Error over that of {results.baseline}: geometric mean over "
        f"{_counted(len(results.cells), 'cell')}, with 95 % interval",
        (
            "estimator",
            "place",
            "error",
            "better",
            "equal",
            "not known",
            "worse",
            "answered",
            "ms",
        ),
        tuple(rows),
        notes=(
            "A cell is a kind of game at one budget. Better, equal, not known and worse are "
            "against all others in all cells. An estimator that has not answered every cell is not "
            "ranked. ms: the median processor time of an explanation at N = "
            f"{timed_at(results.records)}.",
        ),
        emphasis=frozenset(bold) if results.ours else frozenset(),
    )


def _comparison_table(results: Results, name: str, kind: str) -> Table:
    """Return an estimator beside each of ours on one kind of games, budget by budget."""
    cells = results.of_kind(kind)
    rows = []
    for other in results.ours:
        overall = score(cells, name, other)
        each = [_compared(cell, name, other) for cell in cells]
        rows.append((other, *each, MISSING if overall is None else _ratio(overall)))
    return Table(
        f"{name} on {kind}",
        ("over", *(f"N = {cell.n}" for cell in cells), "all budgets"),
        tuple(rows),
        notes=("All budgets: the geometric mean.",),
    )


def _compared(cell: Cell, name: str, other: str) -> str:
    for estimator in (name, other):
        if estimator in cell.failures:
            return f"{estimator} failed"
    ratio, verdict = cell.compared(name, other)
    return f"{_ratio(ratio)} {verdict}"


def errors_table(results: Results, kind: str) -> Table:
    """Return the mean relative errors of all estimators on one kind of games."""
    cells = results.of_kind(kind)
    names = [standing.estimator for standing in results.standings]
    means = np.array(
        [[cell.mean(name) if name in cell.errors else np.inf for cell in cells] for name in names]
    )
    best = np.isfinite(means) & (means == means.min(axis=0))
    rows = [
        (name, *(_error(mean) if np.isfinite(mean) else MISSING for mean in of_name))
        for name, of_name in zip(names, means.tolist(), strict=True)
    ]
    return Table(
        f"Relative errors on {kind}",
        ("estimator", *(f"N = {cell.n}" for cell in cells)),
        tuple(rows),
        emphasis=frozenset((row, column + 1) for row, column in np.argwhere(best).tolist()),
        open=False,
    )


def failures_table(results: Results) -> Table | None:
    """Return who has failed where and why, ours last; None if nobody has."""
    rows = []
    for standing in sorted(results.standings, key=lambda standing: standing.ours):
        name = standing.estimator
        for kind in results.kinds:
            failed = [cell for cell in results.of_kind(kind) if name in cell.failures]
            if failed:
                budgets = ", ".join(str(cell.n) for cell in failed)
                rows.append((name, kind, budgets, failed[0].failures[name]))
    if not rows:
        return None
    return Table(
        "Who did not answer, with the first reason",
        ("estimator", "games", "N", "reason"),
        tuple(rows),
        left=4,
        open=False,
    )


def games_table(results: Results) -> Table:
    """Return the origins of the games."""
    origins: dict[str, dict[str, Any]] = {}
    for line in results.records.select(["games", "kind", "players", "game", "size"]).to_pylist():
        origin = origins.setdefault(line["games"], {**line, "count": 0})
        origin["count"] = max(origin["count"], line["game"] + 1)
    rows = [
        (name, each["kind"], str(each["players"]), str(each["count"]), f"{each['size']:.3g}")
        for name, each in origins.items()
    ]
    return Table(
        "The games; their values are exact, from all coalitions",
        ("name", "kind", "players", "games", "mean absolute value"),
        tuple(rows),
        left=2,
    )


def _score_chart(results: Results) -> Figure:
    """Return all scores as bars with intervals."""
    lines = [
        Line(
            standing.estimator,
            number=_ratio(standing.score),
            bar=(0.0, min(standing.score.value, MAX_BAR)),
            colour=BLUE if standing.ours else VERMILION,
            whisker=(standing.score.low, standing.score.high)
            if standing.score.known and standing.score.high <= MAX_BAR
            else None,
        )
        for standing in results.standings
        if standing.score is not None
    ]
    unit = f"error over that of {results.baseline}"
    drawn = chart(lines, alt="The error of each estimator, with its interval", unit=unit, rule=1.0)
    caption = f"Ours in blue; bars are cut at {MAX_BAR:g}."
    return Figure("All estimators", (Panel("", drawn),), caption, key=False)


def method_notes(results: Results) -> Iterator[str]:
    """Yield what the numbers are, and where the thresholds lie."""
    seeds = max(results.records["seed"].to_pylist()) + 1
    budgets = ", ".join(str(n) for n in sorted(set(results.records["n"].to_pylist())))
    yield (
        f"Every estimator gets N evaluations a player (N = {budgets}), a budget of N p + 2 for p "
        f"players, for one game at a time, with {_counted(seeds, 'seed')}; nothing learnt from one "
        "game is used in another. The game counts the evaluations, repeated ones included. An "
        "estimator that spends more than the budget has no result in that cell."
    )
    yield (
        "`shear` and `shear-unbiased` use the networks' derivatives, which do not count as "
        "evaluations. For other games they spend evaluations to find cooperators, and small "
        "budgets are not enough for that."
    )
    yield (
        "Intervals are 95 % intervals of a paired bootstrap (2,000 replicates) over origins of "
        "games, games within them, and seeds, never narrower than Student's over origins. An "
        f"estimator is better if the interval of the ratio is below 1 and the ratio at most "
        f"{1 - RATIO_MARGIN:g}, worse if the reverse is true, equal if they differ by less; else, "
        f"and with fewer than {MIN_ERRORS} pairs of errors, it is not known. If two estimators are "
        "equally good, about one cell in twenty decides by chance."
    )
    yield f"Relative errors below {ROUNDING:g} count as {ROUNDING:g}."


# Markdown, and a terminal


def leaderboard(results: Results) -> str:
    """Return the leaderboard as a page of Markdown."""
    tables = [standings_table(results)]
    tables += [errors_table(results, kind) for kind in results.kinds]
    tables += [games_table(results)]
    tables += [table for table in (failures_table(results),) if table is not None]
    origin = results.origin
    made = (
        f"Made by `{origin['command']}` at commit {origin['commit']}; {origin['versions']}; "
        f"{origin['machine']}."
    )
    sections = [markdown(table, level=2).strip() for table in tables]
    reading = ("## How to read this", *method_notes(results))
    return "\n\n".join(("# Leaderboard", made, *sections, *reading)) + "\n"


def printed(out: Path) -> str:
    """Return the leaderboard of the records in a folder, for a terminal."""
    results = Results(*read_records(out))
    table = standings_table(results)
    columns = list(zip(table.columns, *table.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in (table.columns, *table.rows):
        first, *numbers = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in numbers)]
        lines.append("  ".join(cells).rstrip())
    said = [sentence.replace("**", "") for sentence in sentences(results)]
    return "\n".join([f"{table.caption}:", "", *lines, "", *said])


# Numbers


def _ratio(ratio: Interval) -> str:
    """Return "0.56 (0.48 to 0.66)"."""
    if not ratio.known:
        return _short(ratio.value)
    return f"{_short(ratio.value)} ({_short(ratio.low)} to {_short(ratio.high)})"


def _short(number: float) -> str:
    if number >= 1e4 or 0 < number < 1e-2:
        return f"{number:.1e}"
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def _error(number: float) -> str:
    return format_number(number, 4) if number >= 1e-3 else f"{number:.1e}"


def _milliseconds(seconds: float) -> str:
    if not np.isfinite(seconds):
        return MISSING
    number = 1e3 * seconds
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def in_words(verdicts: dict[Verdict, int]) -> str:
    """Return "better in 2 comparisons, equal in 0, not known in 1, worse in 0"."""
    first, *others = (f"{verdict} in {count}" for verdict, count in verdicts.items())
    return ", ".join([f"{first} comparisons", *others])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun if count == 1 else noun + 's'}"
