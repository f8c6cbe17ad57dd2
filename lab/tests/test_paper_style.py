"""How methods look in the paper's figures: to all eyes, on paper and on a page."""

import re
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from paper_records import EVERY
from shearshap.report.page import MARKERS
from shearshap.result.explanation import Floats
from shearshap_lab.experiments.spec import PROTOCOLS, Protocol
from shearshap_lab.experiments.style import SERIES, label_of, line_style, series_of


def linear(color: str) -> Floats:
    """Return the linear RGB of #rrggbb."""
    coded = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> Floats:
    """Return CIE Lab of linear RGB, white being D65."""
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ rgb.clip(0, 1)
    part = xyz / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(part > (6 / 29) ** 3, np.cbrt(part), part / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


SIGHT: Mapping[str, Floats] = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "print in grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
"""What becomes of linear RGB: Machado, Oliveira and Fernandes, 2009, severity 1; and by luminance alone."""


def apart(first: str, second: str, sight: str) -> float:
    """Return how far two colours are from one another in CIE Lab."""
    return float(
        np.linalg.norm(lab(SIGHT[sight] @ linear(first)) - lab(SIGHT[sight] @ linear(second)))
    )


def test_red_and_green_come_close_to_those_who_cannot_tell_them_apart() -> None:
    for sight in ("protanopia", "deuteranopia"):
        np.testing.assert_allclose(SIGHT[sight].sum(axis=1), 1, atol=1e-5)  # greys stay grey
        assert apart("#808000", "#b26e00", sight) < apart("#808000", "#b26e00", "normal") / 2
    np.testing.assert_allclose(lab(linear("#ff0000")), [53.2, 80.1, 67.2], atol=0.1)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_two_methods_of_a_figure_look_alike(protocol: Protocol, sight: str) -> None:
    """Colours that are close to some eyes are told apart by their markers."""
    for first, second in combinations(map(series_of, PROTOCOLS[protocol]), 2):
        assert first.label != second.label
        assert (first.color, first.marker) != (second.color, second.marker)
        if apart(first.color, second.color, sight) < 10:
            assert first.marker != second.marker


def test_every_method_has_a_look_that_pages_can_draw() -> None:
    assert {series_of(method).name for method in (*EVERY, "truth")} == set(SERIES)
    appendix = [series_of(method) for method in {*PROTOCOLS["paper"], *PROTOCOLS["paper-coin"]}]
    assert len({(series.color, series.marker) for series in appendix}) == 8
    assert {label_of(method) for method in PROTOCOLS["paper-coin"]} == {
        label_of(method) for method in PROTOCOLS["paper"]
    }
    for series in SERIES.values():
        assert series.marker in MARKERS
        assert series.marker or series.name == "truth"
        assert re.fullmatch("#[0-9A-F]{6}", series.color)
        assert apart(series.color, "#FFFFFF", "normal") > 25


def test_a_dash_is_matplotlibs_too() -> None:
    """Dashes are kept for published numbers: all methods are solid lines."""
    assert line_style(SERIES["truth"]) == (0, (1, 2))
    assert {line_style(series) for name, series in SERIES.items() if name != "truth"} == {"-"}
