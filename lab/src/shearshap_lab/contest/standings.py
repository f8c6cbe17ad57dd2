"""From the records of a contest to who is better: ratios of errors with intervals.

A *cell* is a kind of games at one budget. Its errors are divided by the mean |value| of the games
of their origin, so that no origin counts more because its values are larger. Two entrants are
compared in a cell by a paired bootstrap: origins are drawn anew, games within them, and seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from shearshap_lab.comparisons import FEWEST, Comparison, Floats, interval, replicated_means

ROUNDING = 1e-6  #: relative errors below it count as equal: models in single precision tell no more
YARDSTICK = "permutation-antithetic"  #: whose error is 1 on the leaderboard


@dataclass(frozen=True, eq=False)
class Cell:
    """The relative errors of all who answered every game of a kind at one budget."""

    kind: str
    n: int  #: evaluations a player
    errors: dict[str, Floats]  #: by entrant, (games, draws)
    origins: tuple[str, ...]  #: of the games
    failures: dict[str, str]  #: by entrant: why it is not among the errors

    def mean(self, entrant: str) -> float:
        """Return an entrant's mean relative error."""
        return float(self.errors[entrant].mean())

    def compared(self, entrant: str, other: str) -> Comparison:
        """Compare two who both have answered."""
        ratio = self.mean(entrant) / self.mean(other)
        if self.errors[entrant].size < FEWEST:
            return Comparison(ratio, 0.0, np.inf)
        low, high = interval(self.replicates[entrant] / self.replicates[other])
        return Comparison(ratio, low, high)

    @cached_property
    def replicates(self) -> dict[str, Floats]:
        """The mean errors in every replicate of the bootstrap, (b,), by entrant."""
        # the same seed at all budgets of a kind, which keeps their replicates paired
        means = replicated_means(
            np.stack(list(self.errors.values())), clusters=self.origins, seed=self.seed
        )
        return dict(zip(self.errors, means, strict=True))

    @property
    def seed(self) -> int:
        """The seed of the bootstrap: one for each kind of games."""
        return crc32(self.kind.encode())


def cells_of(records: pa.Table) -> list[Cell]:
    """Return the cells of a contest, kind by kind, at growing budgets."""
    lines = records.to_pylist()
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    lines.sort(key=lambda line: (kinds.index(line["kind"]), line["n"]))
    groups = groupby(lines, key=lambda line: (line["kind"], line["n"]))
    return [_cell(kind, n, list(members)) for (kind, n), members in groups]


def _cell(kind: str, n: int, lines: list[dict[str, Any]]) -> Cell:
    errors: dict[str, Floats] = {}
    failures: dict[str, str] = {}
    games = list(dict.fromkeys((line["games"], line["game"]) for line in lines))
    for entrant in dict.fromkeys(line["entrant"] for line in lines):
        own = [line for line in lines if line["entrant"] == entrant]
        failed = [line["failure"] for line in own if line["failure"]]
        if failed:
            failures[entrant] = f"{failed[0]} ({len(failed)} of {len(own)} times)"
            continue
        by_game: dict[tuple[str, int], list[float]] = {game: [] for game in games}
        for line in sorted(own, key=lambda line: line["draw"]):
            relative = line["error"] / line["size"] if line["size"] else line["error"]
            by_game[line["games"], line["game"]].append(max(relative, ROUNDING))
        errors[entrant] = np.array(list(by_game.values()))
    return Cell(kind, n, errors, tuple(origin for origin, _ in games), failures)


# The leaderboard


@dataclass(frozen=True)
class Standing:
    """How an entrant stands over all cells."""

    entrant: str
    ours: bool
    score: Comparison | None  #: geometric mean over cells of its error over the yardstick's
    wins: int  #: of all pairs of a cell and another entrant
    ties: int
    losses: int
    answered: int  #: cells
    cells: int  #: that there are
    seconds: float  #: an explanation, the median at `timed_at`

    @property
    def complete(self) -> bool:
        """Whether it has answered everything."""
        return self.answered == self.cells


def standings(records: pa.Table, cells: Sequence[Cell]) -> list[Standing]:
    """Return all entrants: who answered every cell, best first; then the others."""
    ours = dict(zip(records["entrant"].to_pylist(), records["ours"].to_pylist(), strict=True))
    seconds = _seconds(records)
    measure = yardstick(cells, ours)
    every = [
        Standing(
            entrant,
            ours[entrant],
            score(cells, entrant, measure),
            *tally(cells, entrant, [other for other in ours if other != entrant]),
            answered=sum(entrant in cell.errors for cell in cells),
            cells=len(cells),
            seconds=seconds[entrant],
        )
        for entrant in ours
    ]
    return sorted(every, key=_place)


def _place(standing: Standing) -> tuple[bool, float]:
    ratio = np.inf if standing.score is None else standing.score.ratio
    return not standing.complete, ratio


def yardstick(cells: Sequence[Cell], ours: dict[str, bool]) -> str:
    """Return the entrant whose error is 1: the usual one, or the first that answered the most."""
    answered = {name: sum(name in cell.errors for cell in cells) for name in ours}
    if answered.get(YARDSTICK) == len(cells):
        return YARDSTICK
    return max(answered, key=lambda name: (answered[name], ours[name]))


def score(cells: Sequence[Cell], entrant: str, measure: str) -> Comparison | None:
    """Return the geometric mean over cells of an entrant's error over the yardstick's."""
    both = [cell for cell in cells if entrant in cell.errors and measure in cell.errors]
    if not both:
        return None
    ratios = [cell.mean(entrant) / cell.mean(measure) for cell in both]
    replicated = [cell.replicates[entrant] / cell.replicates[measure] for cell in both]
    low, high = interval(np.exp(np.log(replicated).mean(axis=0)))
    if sum(cell.errors[entrant].size for cell in both) < FEWEST:
        low, high = 0.0, np.inf
    return Comparison(float(np.exp(np.log(ratios).mean())), low, high)


def tally(cells: Sequence[Cell], entrant: str, others: Sequence[str]) -> tuple[int, int, int]:
    """Return wins, ties and losses against others, over the cells that both have answered."""
    verdicts = [comparison.verdict for _, _, comparison in bouts(cells, entrant, others)]
    return verdicts.count("win"), verdicts.count("tie"), verdicts.count("loss")


def bouts(
    cells: Sequence[Cell], entrant: str, others: Sequence[str]
) -> Iterator[tuple[Cell, str, Comparison]]:
    """Yield the comparison with each of the others in every cell that both have answered."""
    for cell in cells:
        for other in others:
            if entrant in cell.errors and other in cell.errors:
                yield cell, other, cell.compared(entrant, other)


def timed_at(records: pa.Table) -> int:
    """Return the evaluations a player at which times are compared: 16, or the fewest there are."""
    budgets = set(records["n"].to_pylist())
    return 16 if 16 in budgets else min(budgets)


def _seconds(records: pa.Table) -> dict[str, float]:
    """Return the median seconds an explanation of each entrant."""
    at = timed_at(records)
    times: dict[str, list[float]] = {}
    for line in records.select(["entrant", "n", "seconds", "failure"]).to_pylist():
        known = times.setdefault(line["entrant"], [])
        if line["n"] == at and not line["failure"]:
            known.append(line["seconds"])
    return {name: float(np.median(known)) if known else np.nan for name, known in times.items()}
