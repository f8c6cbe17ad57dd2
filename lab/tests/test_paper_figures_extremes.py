"""Figures of records without errors, deviations or interactions, or with hardly anything else."""

from collections.abc import Callable
from typing import Any

import pytest

from paper_drawings import DRAWINGS, markup, ours
from paper_records import CENSUS, constant, error, flat, revised, synthetic, times
from shearshap_lab.experiments.records import Records, where


def accuracy(records: Records, value: float, **equal: Any) -> Records:
    return revised(records, "estimates", "ranking_accuracy", constant(value), **equal)


def no_error(**equal: Any) -> Records:
    return accuracy(error(CENSUS, constant(0), **equal), 1, **equal)


def uncertain(*evaluations: int) -> Records:
    """Make KS's error vary more than its mean: there is no place for the bar's lower end."""
    records: Records = CENSUS
    for n in evaluations:
        records = error(records, times(30), method="kernel-paper", round=0, n=n)
    return records


def one_target() -> Records:
    return {**CENSUS, "cooperators": where(CENSUS["cooperators"], seed=0, row=3)}


def constant_contribution() -> Records:
    return revised(CENSUS, "cooperators", "cross_contribution", constant(0.1))


EXTREMES: dict[str, Callable[[], Records]] = {
    "one round": lambda: synthetic(rounds=1),
    "no error at N = 32": lambda: no_error(n=32),
    "no error at N = 16": lambda: no_error(n=16),
    "no error of SHEAR": lambda: error(CENSUS, constant(0), method="shear"),
    "no error at all": no_error,
    "uncertain at N = 8": lambda: uncertain(8),
    "uncertain at N = 16": lambda: uncertain(16),
    "uncertain at N = 8 and 16": lambda: uncertain(8, 16),
    "uncertain throughout": lambda: error(CENSUS, times(1e4), round=0),
    "every ranking wrong": lambda: accuracy(CENSUS, 0),
    "constant cross-contribution": constant_contribution,
    "no interactions": lambda: flat(CENSUS),
    "one target": one_target,
}
CURVES = ["absolute_error paper", "ranking_accuracy authors", "trade-off"]
COOPERATORS = [
    "contribution cloud",
    "contribution by feature",
    "contribution across rows",
    "cooperators",
]
AFFECTED: dict[str, list[str]] = {
    "one round": [*CURVES, "ablated error", "ablated accuracy"],
    "no error at N = 32": CURVES,
    "no error at N = 16": [*CURVES, "ablated error"],
    "no error of SHEAR": ["absolute_error paper", "ablated error"],
    "no error at all": [*CURVES, "ablated error", "ablated accuracy"],
    "uncertain at N = 8": ["absolute_error paper"],
    "uncertain at N = 16": ["absolute_error paper"],
    "uncertain at N = 8 and 16": ["absolute_error paper"],
    "uncertain throughout": ["absolute_error paper", "ablated error"],
    "every ranking wrong": CURVES[1:],
    "constant cross-contribution": COOPERATORS[:3],
    "no interactions": [*COOPERATORS, "tightness", "bound cloud", "chain", "selection bounds"],
    "one target": COOPERATORS,
}
"""The figures that each of the extremes is drawn in."""


@pytest.mark.parametrize(
    ("extreme", "name"), [(extreme, name) for extreme in AFFECTED for name in AFFECTED[extreme]]
)
def test_a_figure_of_extremes_is_drawn(extreme: str, name: str) -> None:
    """Without a warning, which would be an error here."""
    markup(DRAWINGS[name](ours(EXTREMES[extreme]())))
