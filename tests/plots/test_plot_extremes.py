"""Every plot of explanations at the limits: no text overlaps another, none is cut off."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_plots import DRAW

from drawn import (
    _no_figure_stays,  # noqa: F401
    check_texts,
    explanation,
)
from shearshap import Explanation
from shearshap.result.explanation import Floats


def with_values(sample: Explanation, values: Floats, base: float = 2.0) -> Explanation:
    rows = len(values)
    return replace(
        sample,
        values=values,
        base_values=np.full(rows, base),
        predictions=base + values.sum(axis=1),
    )


def long_names() -> Explanation:
    sample = explanation(rows=20, players=12)
    names = [f"a name of many words, number {n}, that goes on and on" for n in range(12)]
    shown = np.full((20, 12), "a cell with a long content as well", dtype=object)
    return replace(sample, feature_names=names, display_data=shown)


def all_zero() -> Explanation:
    sample = explanation()
    zeros = np.zeros((6, 5))
    sample = replace(sample, standard_errors=zeros, cross_contribution=np.zeros((6, 5, 5)))
    return with_values(sample, zeros)


def wide_numbers() -> Explanation:
    sample = explanation(rows=20)
    assert sample.standard_errors is not None
    assert sample.data is not None
    sample = replace(
        sample, standard_errors=1e6 * sample.standard_errors, data=1e7 + 1e3 * sample.data
    )
    return with_values(sample, 1e6 * sample.values, base=123_456_789.0)


EXTREMES: dict[str, Any] = {
    "long names": long_names,
    "one player": lambda: explanation(rows=12, players=1),
    "one row": lambda: explanation(rows=1),
    "all zero": all_zero,
    "wide numbers": wide_numbers,
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("plot", DRAW)
def test_texts_keep_apart_and_inside(plot: str, extreme: str) -> None:
    check_texts(DRAW[plot](EXTREMES[extreme]()))
