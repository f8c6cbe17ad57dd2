"""A finding: a claim of the paper, counted under each reading, with one number and its interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments.bootstrap import Interval
from shearshap_lab.experiments.spec import Protocol
from shearshap_lab.experiments.summaries import Networks

READING_NAMES: dict[Protocol, str] = {
    "paper": "prefixes",
    "paper-coin": "coins",
    "authors": "as run",
    "fair": "fair",
}
"""The readings of the paper's baselines, in a word."""

READING_WORDS: dict[Protocol, str] = {
    "paper": "as the appendix describes them, PS and APS by prefixes of permutations",
    "paper-coin": "as the appendix describes them, PS and APS by fair coins",
    "authors": "as the authors ran them",
    "fair": "each at its best",
}


@dataclass(frozen=True)
class Counts:
    """How often a claim holds, is left open and fails: SHEAR's wins, ties and losses."""

    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def total(self) -> int:
        """All cases."""
        return self.wins + self.ties + self.losses

    def __add__(self, other: "Counts") -> "Counts":
        """Return both together."""
        return Counts(self.wins + other.wins, self.ties + other.ties, self.losses + other.losses)

    def __str__(self) -> str:
        """Return "3-1-2"."""
        return f"{self.wins}-{self.ties}-{self.losses}"


def counted(verdicts: Iterable[Verdict]) -> Counts:
    """Return how often each verdict was given."""
    given = list(verdicts)
    return Counts(given.count("win"), given.count("tie"), given.count("loss"))


@dataclass(frozen=True)
class Number:
    """A number with its interval, and what it is."""

    interval: Interval
    words: str
    style: str = ".2f"

    def __str__(self) -> str:
        """Return "1.52 [1.45, 1.60]", or the value alone where there is no interval."""
        if np.isnan(self.interval.value):
            return "-"
        value = written(self.interval.value, self.style)
        if not self.interval.known:
            return value
        low = written(self.interval.low, self.style)
        high = written(self.interval.high, self.style)
        return f"{value} [{low}, {high}]"


def written(number: float, style: str = ".2f") -> str:
    """Return a number in a style; a ratio far from 1 with the digits that it needs."""
    if style == ".2f" and (abs(number) >= 100 or 0 < abs(number) < 0.1):
        return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.2g}"
    return f"{number:{style}}"


@dataclass(frozen=True)
class Reading:
    """A claim under one reading, on the networks of one data set and recipe."""

    name: str
    dataset: str
    recipe: str
    counts: Counts
    number: Number


def reading(networks: Networks, name: str, counts: Counts, number: Number) -> Reading:
    """Return a reading on these networks."""
    return Reading(name, networks.dataset, networks.recipe, counts, number)


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, and what the records say of it."""

    claim: str
    cases: str  #: what is counted
    readings: tuple[Reading, ...]
    headline: Number
    sentence: str
    notes: tuple[str, ...] = ()
    brief: bool = True  #: whether it is in the summary, or in the evidence alone

    def counts(self, *recipes: str) -> dict[str, Counts]:
        """Return the counts of each reading over all data sets, on networks of some recipes."""
        sums: dict[str, Counts] = {}
        for each in self.readings:
            if each.recipe in recipes:
                sums[each.name] = sums.get(each.name, Counts()) + each.counts
        return sums


def leading(every: Sequence[Networks]) -> Networks:
    """Return the networks whose numbers stand for all in the summary: the authors', or the first.

    They are of the first data set, which is census where it was run.
    """
    authors = [networks for networks in every if networks.recipe == "authors"]
    return (authors or list(every))[0]


def leading_number(readings: Sequence[Reading], every: Sequence[Networks]) -> Number:
    """Return the number of the first reading that is of the networks that stand for all."""
    own = leading(every)
    return next(each.number for each in readings if each.recipe == own.recipe)


def listed(items: Sequence[str]) -> str:
    """Return "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
