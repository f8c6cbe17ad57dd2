"""From the records of a contest to who is better: ratios of errors with intervals.

A *cell* is a kind of games at one budget. Its errors are divided by the mean |value| of the games
of their origin, so that no origin counts more because its values are larger. Two estimators are
compared in a cell by `statistics`: origins are clusters, games their rows, seeds their rounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from shearshap.apps.report import Page, Section, Table, write
from shearshap.result.text import counted, format_number
from shearshap.store import written_whole
from shearshap_lab.contest.contest import read_records
from shearshap_lab.markdown import markdown
from shearshap_lab.statistics import (
    RATIO_MARGIN,
    Estimate,
    Floats,
    Interval,
    Verdict,
    average,
    combined,
    judged_ratio,
    log_ratio,
    mean_over,
)

MIN_ERRORS = 8  #: pairs of errors below which nothing can be said
ROUNDING = 1e-6  #: relative errors below it count as equal: models in single precision tell no more
BASELINE = "permutation-antithetic"  #: whose error is 1 on the leaderboard


@dataclass(frozen=True, eq=False)
class Cell:
    """The relative errors of all who answered every game of a kind at one budget."""

    kind: str
    n: int  #: evaluations per player
    errors: dict[str, list[Floats]]  #: by estimator, for each origin (seeds, games)
    failures: dict[str, str]  #: by estimator: why it is not among the errors

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """The mean errors, by estimator."""
        return {
            name: mean_over([each.mean(axis=0) for each in errors])
            for name, errors in self.errors.items()
        }

    def log_ratio(self, estimator: str, other: str) -> Estimate:
        """Return the log of an estimator's error over another's."""
        return log_ratio(self.estimates[estimator], self.estimates[other])

    def compared(self, estimator: str, other: str) -> tuple[Interval, Verdict]:
        """Return the ratio of two errors, and the verdict on the first."""
        ratio = _known(self.log_ratio(estimator, other).interval(), self.count).map(np.exp)
        return ratio, judged_ratio(ratio)

    @property
    def count(self) -> int:
        """How many errors of each estimator there are."""
        return sum(errors.size for errors in next(iter(self.errors.values()), []))


def _known(interval: Interval, count: int) -> Interval:
    """Return the interval, without its ends if there are too few errors."""
    return interval if count >= MIN_ERRORS else Interval(interval.value)


@dataclass(frozen=True)
class Standing:
    """How an estimator stands over all cells."""

    estimator: str
    ours: bool
    score: Interval | None  #: geometric mean over cells of its error over the baseline's
    verdicts: dict[Verdict, int]  #: of all pairs of a cell and another estimator
    answered: int  #: cells
    cells: int  #: that there are
    seconds: float  #: an explanation, the median at `timed_at`

    @property
    def complete(self) -> bool:
        """Whether it has answered everything."""
        return self.answered == self.cells


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a contest, and what follows from them."""

    records: pa.Table
    origin: dict[str, Any]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The records."""
        return self.records.to_pandas()

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells: kinds of games, each at growing budgets."""
        size = self.frame["size"].where(self.frame["size"] > 0, 1.0)
        relative = np.maximum(self.frame["error"] / size, ROUNDING)
        cells = self.frame.assign(relative=relative).groupby(["kind", "n"], sort=False)
        return [_cell(kind, n, lines) for (kind, n), lines in cells]

    @cached_property
    def standings(self) -> list[Standing]:
        """All estimators: those that answered every cell, best first; then the others."""
        timed = self.frame[(self.frame["n"] == self.timed_at) & (self.frame["failure"] == "")]
        seconds = timed.groupby("estimator")["seconds"].median()
        every = [
            Standing(
                name,
                ours,
                score(self.cells, name, self.baseline),
                tally(self.cells, name, [other for other in self._ours if other != name]),
                answered=sum(name in cell.errors for cell in self.cells),
                cells=len(self.cells),
                seconds=float(seconds.get(name, np.nan)),
            )
            for name, ours in self._ours.items()
        ]
        return sorted(
            every,
            key=lambda each: (
                not each.complete,
                np.inf if each.score is None else each.score.value,
            ),
        )

    @cached_property
    def _ours(self) -> dict[str, bool]:
        """Whether each estimator is one of ours."""
        return dict(zip(self.frame["estimator"], self.frame["ours"], strict=True))

    @cached_property
    def baseline(self) -> str:
        """The estimator whose error is 1: the usual one, or the first that answered the most."""
        answered = {name: sum(name in cell.errors for cell in self.cells) for name in self._ours}
        if answered.get(BASELINE) == len(self.cells):
            return BASELINE
        return max(answered, key=lambda name: (answered[name], self._ours[name]))

    @property
    def ours(self) -> list[str]:
        """The names of our methods, the best first."""
        return [standing.estimator for standing in self.standings if standing.ours]

    @property
    def challengers(self) -> list[Standing]:
        """The estimators that are not ours, the best first."""
        return [standing for standing in self.standings if not standing.ours]

    @property
    def timed_at(self) -> int:
        """The evaluations per player at which times are compared: 16, or the fewest there are."""
        budgets = set(self.frame["n"])
        return 16 if 16 in budgets else min(budgets)

    def by_kind(self) -> dict[str, list[Cell]]:
        """Return the cells of each kind of games."""
        kinds = dict.fromkeys(cell.kind for cell in self.cells)
        return {kind: [cell for cell in self.cells if cell.kind == kind] for kind in kinds}


def _cell(kind: str, n: int, lines: pd.DataFrame) -> Cell:
    errors: dict[str, list[Floats]] = {}
    failures: dict[str, str] = {}
    for estimator, own in lines.groupby("estimator", sort=False):
        failed = own["failure"][own["failure"] != ""]
        if len(failed):
            failures[estimator] = f"{failed.iloc[0]} ({len(failed)} of {len(own)} times)"
            continue
        seeds = own["seed"].nunique()
        by_origin = own.sort_values(["seed", "game"]).groupby("games", sort=False)["relative"]
        errors[estimator] = [each.to_numpy().reshape(seeds, -1) for _, each in by_origin]
    return Cell(kind, n, errors, failures)


def score(cells: Sequence[Cell], estimator: str, base: str) -> Interval | None:
    """Return the geometric mean over cells of an estimator's error over another's.

    Budgets of one kind have the same games; kinds are independent of each other.
    """
    both = [cell for cell in cells if estimator in cell.errors and base in cell.errors]
    if not both:
        return None
    by_kind = [
        average([cell.log_ratio(estimator, base) for cell in both if cell.kind == kind])
        for kind in dict.fromkeys(cell.kind for cell in both)
    ]
    intervals = [each.interval() for each in by_kind]
    return _known(combined(intervals), sum(cell.count for cell in both)).map(np.exp)


def tally(cells: Sequence[Cell], estimator: str, others: Sequence[str]) -> dict[Verdict, int]:
    """Return how often each verdict is given, over others and the cells that both answered."""
    counts: dict[Verdict, int] = {"better": 0, "equal": 0, "not known": 0, "worse": 0}
    for cell in cells:
        for other in others:
            if estimator in cell.errors and other in cell.errors:
                counts[cell.compared(estimator, other)[1]] += 1
    return counts


# What is shown of it: an HTML report, and a leaderboard in Markdown


MISSING = "-"  #: in a cell for which there is no number


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
    return Page(title, tuple(sentences(results)), tuple(_sections(results)))


def _sections(results: Results) -> Iterator[Section]:
    yield Section("leaderboard", "Leaderboard", (), tables=(_standings_table(results),))
    names = [standing.estimator for standing in results.challengers if standing.answered]
    if names and results.ours:
        by_kind = results.by_kind().items()
        yield Section(
            "comparisons",
            "Against each of ours",
            ("The error over that of each of our methods, 95 % interval: below 1 it is smaller.",),
            tables=tuple(
                _comparison_table(results, name, kind, cells)
                for name in names
                for kind, cells in by_kind
            ),
        )
    yield Section(
        "errors",
        "Errors",
        (
            "Mean absolute error over the mean absolute value of the games, at N evaluations per "
            "player; the smallest in bold.",
        ),
        tables=tuple(_details(results)),
    )
    facts = (f"{name.capitalize()}: {value}" for name, value in results.origin.items())
    yield Section("reading", "How to read this", tuple(_method_notes(results)), notes=tuple(facts))


def sentences(results: Results) -> Iterator[str]:
    """Yield one sentence for each challenger, or one for the best of ours if there is none."""
    for challenger in results.challengers or results.standings[:1]:
        name = challenger.estimator
        reasons = (cell.failures[name] for cell in results.cells if name in cell.failures)
        if not challenger.answered:
            yield f"**{name}** answered no cell: {next(reasons).rstrip('.')}."
            continue
        others = [other for other in results.ours if other != name]
        sentence = f"**{name}** against {counted(len(others), 'method')} of ours: "
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


def _standings_table(results: Results) -> Table:
    """Return the leaderboard: a line for each estimator, those that are not ours in bold."""
    rows = [
        (
            standing.estimator,
            str(place) if standing.complete else MISSING,
            _ratio(standing.score),
            *(str(count) for count in standing.verdicts.values()),
            f"{standing.answered} of {standing.cells}",
            _milliseconds(standing.seconds),
        )
        for place, standing in enumerate(results.standings, start=1)
    ]
    bold = {(row, 0) for row, standing in enumerate(results.standings) if not standing.ours}
    verdicts = ("better", "equal", "not known", "worse")
    return Table(
        f"Error over that of {results.baseline}: geometric mean over "
        f"{counted(len(results.cells), 'cell')}, with 95 % interval",
        ("estimator", "place", "error", *verdicts, "answered", "ms"),
        tuple(rows),
        notes=(
            "A cell is a kind of game at one budget. Better, equal, not known and worse are "
            "against all others in all cells. An estimator that has not answered every cell is not "
            "ranked. ms: the median processor time of an explanation at N = "
            f"{results.timed_at}.",
        ),
        emphasis=frozenset(bold) if results.ours else frozenset(),
    )


def _comparison_table(results: Results, name: str, kind: str, cells: Sequence[Cell]) -> Table:
    """Return an estimator beside each of ours on one kind of games, budget by budget."""
    rows = [
        (
            other,
            *(_compared(cell, name, other) for cell in cells),
            _ratio(score(cells, name, other)),
        )
        for other in results.ours
    ]
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


def _details(results: Results) -> Iterator[Table]:
    """Yield the errors of each kind of games, the games, and who has failed."""
    names = [standing.estimator for standing in results.standings]
    for kind, cells in results.by_kind().items():
        means = np.array(
            [
                [cell.estimates[name].mean if name in cell.errors else np.inf for cell in cells]
                for name in names
            ]
        )
        best = np.isfinite(means) & (means == means.min(axis=0))
        yield Table(
            f"Relative errors on {kind}",
            ("estimator", *(f"N = {cell.n}" for cell in cells)),
            tuple(
                (name, *map(_error, of_name)) for name, of_name in zip(names, means, strict=True)
            ),
            emphasis=frozenset((row, column + 1) for row, column in np.argwhere(best).tolist()),
            open=False,
        )
    origins = results.frame.groupby("games", sort=False)
    facts = origins.agg({"kind": "first", "players": "first", "game": "nunique", "size": "first"})
    facts["size"] = facts["size"].map("{:.3g}".format)
    yield Table(
        "The games; their values are exact, from all coalitions",
        ("name", "kind", "players", "games", "mean absolute value"),
        tuple((name, *map(str, line)) for name, *line in facts.itertuples()),
        left=2,
    )
    failures = [
        (standing.estimator, cell.kind, str(cell.n), cell.failures[standing.estimator])
        for standing in (*results.challengers, *results.standings)
        for cell in results.cells
        if standing.estimator in cell.failures
    ]
    if failures:
        yield Table(
            "Who did not answer, with the first reason",
            ("estimator", "games", "N", "reason"),
            tuple(dict.fromkeys(failures)),
            left=4,
            open=False,
        )


def _method_notes(results: Results) -> Iterator[str]:
    """Yield what the numbers are, and where the thresholds lie."""
    seeds = int(results.frame["seed"].max()) + 1
    budgets = ", ".join(str(n) for n in sorted(set(results.frame["n"])))
    yield (
        f"Every estimator gets N evaluations per player (N = {budgets}), a budget of N p + 2 for p "
        f"players, for one game at a time, with {counted(seeds, 'seed')}; nothing learnt from one "
        "game is used in another. The game counts the evaluations, repeated ones included. An "
        "estimator that spends more than the budget has no result in that cell."
    )
    yield (
        "`shear` and `shear-unbiased` use the networks' derivatives, which do not count as "
        "evaluations. For other games they spend evaluations to find cooperators, and small "
        "budgets are not enough for that."
    )
    yield (
        "Intervals are Student's 95 % intervals of paired ratios over origins of games, or over "
        "the games if there is one origin. An "
        f"estimator is better if the interval of the ratio is below 1 and the ratio at most "
        f"{1 - RATIO_MARGIN:g}, worse if the reverse is true, equal if they differ by less; else, "
        f"and with fewer than {MIN_ERRORS} pairs of errors, it is not known. If two estimators are "
        "equally good, about one cell in twenty decides by chance."
    )
    yield f"Relative errors below {ROUNDING:g} count as {ROUNDING:g}."


# Markdown, and a terminal


def leaderboard(results: Results) -> str:
    """Return the leaderboard as a page of Markdown."""
    origin = results.origin
    made = (
        f"Made by `{origin['command']}` at commit {origin['commit']}; {origin['versions']}; "
        f"{origin['machine']}."
    )
    tables = [_standings_table(results), *_details(results)]
    sections = [markdown(table, level=2).strip() for table in tables]
    reading = ("## How to read this", *_method_notes(results))
    return "\n\n".join(("# Leaderboard", made, *sections, *reading)) + "\n"


def printed(out: Path) -> str:
    """Return the leaderboard of the records in a folder, for a terminal."""
    results = Results(*read_records(out))
    table = _standings_table(results)
    widths = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
        for first, *others in (table.columns, *table.rows)
    ]
    said = [sentence.replace("**", "") for sentence in sentences(results)]
    return "\n".join([f"{table.caption}:", "", *lines, "", *said])


# Numbers


def _ratio(ratio: Interval | None) -> str:
    """Return "0.56 (0.48 to 0.66)"."""
    if ratio is None:
        return MISSING
    if not ratio.known:
        return _short(ratio.value)
    return f"{_short(ratio.value)} ({_short(ratio.low)} to {_short(ratio.high)})"


def _short(number: float) -> str:
    if number >= 1e4 or 0 < number < 1e-2:
        return f"{number:.1e}"
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def _error(number: float) -> str:
    if not np.isfinite(number):
        return MISSING
    return format_number(number, 4) if number >= 1e-3 else f"{number:.1e}"


def _milliseconds(seconds: float) -> str:
    if not np.isfinite(seconds):
        return MISSING
    return f"{1e3 * seconds:.0f}" if seconds >= 0.01 else f"{1e3 * seconds:.1f}"


def in_words(verdicts: dict[Verdict, int]) -> str:
    """Return "better in 2 comparisons, equal in 0, not known in 1, worse in 0"."""
    first, *others = (f"{verdict} in {count}" for verdict, count in verdicts.items())
    return ", ".join([f"{first} comparisons", *others])
