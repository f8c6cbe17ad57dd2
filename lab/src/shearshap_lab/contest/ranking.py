"""From the records of a contest to who is better: ratios of errors with intervals.

A *cell* is a kind of games at one budget. Its errors are divided by the mean |value| of the games
of their origin, so that no origin counts more because its values are larger. Two estimators are
compared in a cell by `statistics`: origins are clusters, games their rows, seeds their rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap_lab.statistics import (
    Estimate,
    Floats,
    Interval,
    Verdict,
    average,
    bootstrap,
    combined,
    judged_ratio,
    log_ratio,
)

MIN_ERRORS = 8  #: pairs of errors below which nothing can be said
ROUNDING = 1e-6  #: relative errors below it count as equal: models in single precision tell no more
BASELINE = "permutation-antithetic"  #: whose error is 1 on the leaderboard


@dataclass(frozen=True, eq=False)
class Cell:
    """The relative errors of all who answered every game of a kind at one budget."""

    kind: str
    n: int  #: evaluations a player
    errors: dict[str, list[Floats]]  #: by estimator, for each origin (seeds, games)
    failures: dict[str, str]  #: by estimator: why it is not among the errors

    def mean(self, estimator: str) -> float:
        """Return an estimator's mean relative error."""
        return self.estimates[estimator].mean

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """The mean errors with their replicates, by estimator."""
        return {name: bootstrap(errors) for name, errors in self.errors.items()}

    def log_ratio(self, estimator: str, other: str) -> Estimate:
        """Return the log of an estimator's error over another's."""
        return log_ratio(self.estimates[estimator], self.estimates[other])

    def compared(self, estimator: str, other: str) -> tuple[Interval, Verdict]:
        """Return the ratio of two errors, and the verdict on the first."""
        ratio = _known(self.log_ratio(estimator, other).interval(), self.count).exp()
        return ratio, judged_ratio(ratio)

    @property
    def count(self) -> int:
        """How many errors of each estimator there are."""
        return sum(errors.size for errors in next(iter(self.errors.values()), []))


def _known(interval: Interval, count: int) -> Interval:
    """Return the interval, without its ends if there are too few errors."""
    return interval if count >= MIN_ERRORS else Interval(interval.value)


def cells_of(records: pa.Table) -> list[Cell]:
    """Return the cells of a contest, kind by kind, at growing budgets."""
    lines = records.to_pylist()
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    lines.sort(key=lambda line: (kinds.index(line["kind"]), line["n"]))
    groups = groupby(lines, key=lambda line: (line["kind"], line["n"]))
    return [_cell(kind, n, list(members)) for (kind, n), members in groups]


def _cell(kind: str, n: int, lines: list[dict[str, Any]]) -> Cell:
    errors: dict[str, list[Floats]] = {}
    failures: dict[str, str] = {}
    for estimator in dict.fromkeys(line["estimator"] for line in lines):
        own = [line for line in lines if line["estimator"] == estimator]
        failed = [line["failure"] for line in own if line["failure"]]
        if failed:
            failures[estimator] = f"{failed[0]} ({len(failed)} of {len(own)} times)"
            continue
        origins = dict.fromkeys(line["games"] for line in own)
        errors[estimator] = [_table([line for line in own if line["games"] == o]) for o in origins]
    return Cell(kind, n, errors, failures)


def _table(lines: list[dict[str, Any]]) -> Floats:
    """Return the relative errors of one origin, (seeds, games)."""
    lines = sorted(lines, key=lambda line: (line["seed"], line["game"]))
    seeds = len({line["seed"] for line in lines})
    relative = [line["error"] / (line["size"] or 1.0) for line in lines]
    return np.maximum(relative, ROUNDING).reshape(seeds, -1)


# The leaderboard


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


def standings(records: pa.Table, cells: Sequence[Cell]) -> list[Standing]:
    """Return all estimators: those that answered every cell, best first; then the others."""
    ours = dict(zip(records["estimator"].to_pylist(), records["ours"].to_pylist(), strict=True))
    seconds = _seconds(records)
    base = baseline(cells, ours)
    every = [
        Standing(
            name,
            ours[name],
            score(cells, name, base),
            tally(cells, name, [other for other in ours if other != name]),
            answered=sum(name in cell.errors for cell in cells),
            cells=len(cells),
            seconds=seconds[name],
        )
        for name in ours
    ]
    return sorted(
        every,
        key=lambda each: (not each.complete, np.inf if each.score is None else each.score.value),
    )


def baseline(cells: Sequence[Cell], ours: dict[str, bool]) -> str:
    """Return the estimator whose error is 1: the usual one, or the first that answered the most."""
    answered = {name: sum(name in cell.errors for cell in cells) for name in ours}
    if answered.get(BASELINE) == len(cells):
        return BASELINE
    return max(answered, key=lambda name: (answered[name], ours[name]))


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
    return _known(combined(intervals), sum(cell.count for cell in both)).exp()


def tally(cells: Sequence[Cell], estimator: str, others: Sequence[str]) -> dict[Verdict, int]:
    """Return how often each verdict is given, over others and the cells that both answered."""
    counts: dict[Verdict, int] = {"better": 0, "equal": 0, "not known": 0, "worse": 0}
    for cell in cells:
        for other in others:
            if estimator in cell.errors and other in cell.errors:
                counts[cell.compared(estimator, other)[1]] += 1
    return counts


def timed_at(records: pa.Table) -> int:
    """Return the evaluations a player at which times are compared: 16, or the fewest there are."""
    budgets = set(records["n"].to_pylist())
    return 16 if 16 in budgets else min(budgets)


def _seconds(records: pa.Table) -> dict[str, float]:
    """Return the median seconds an explanation of each estimator."""
    at = timed_at(records)
    times: dict[str, list[float]] = {}
    for line in records.select(["estimator", "n", "seconds", "failure"]).to_pylist():
        known = times.setdefault(line["estimator"], [])
        if line["n"] == at and not line["failure"]:
            known.append(line["seconds"])
    return {name: float(np.median(known)) if known else np.nan for name, known in times.items()}
