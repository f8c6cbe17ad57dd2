"""A finding, and what all claims are judged by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from shearshap.explanation import Floats
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import Protocol, baselines
from shearshap.paper.experiments.summaries import curve, methods_of, protocols_of, values_of

Verdict = Literal["agrees", "partly", "does not"]

TOLERANCE = 0.3  #: by how much a number may differ from the paper's and still agree

PROTOCOL_WORDS: dict[Protocol, str] = {
    "paper": "as the appendix describes the baselines",
    "authors": "as the authors ran them",
    "fair": "each at its best",
}


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, compared with the records."""

    claim: str
    verdict: Verdict
    evidence: str
    why: str


def verdict(holds: Sequence[bool | np.bool_]) -> Verdict:
    """Return whether a claim holds in all of the cases, in some or in none."""
    if all(holds):
        return "agrees"
    return "partly" if any(holds) else "does not"


def dataset_of(records: Records) -> str:
    """Return the name of the data set, whose records are all of one."""
    name: str = values_of(records["models"], "dataset")[0]
    return name


def rivals(estimates: pa.Table) -> dict[str, list[str]]:
    """Return the five baselines of each protocol that was run, by the protocol in words."""
    return {
        PROTOCOL_WORDS[protocol]: methods_of(estimates, baselines(protocol))
        for protocol in protocols_of(estimates)
    }


def scores(estimates: pa.Table, methods: Sequence[str], metric: str) -> Floats:
    """Return the means (methods, n) of a metric; the larger, the better."""
    curves = [curve(where(estimates, method=method), metric) for method in methods]
    means = np.array([each.mean for each in curves])
    return -means if metric == "absolute_error" else means


def ratio(error: float, other: float) -> float:
    """Return how many times larger an error is than another, which may be 0."""
    return float(error / other) if other else float("inf")


def by_n(words: Mapping[int, str]) -> str:
    """Return "N = 8: ..., N = 16: ..."."""
    return ", ".join(f"N = {n}: {text}" for n, text in words.items())
