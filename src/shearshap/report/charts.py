"""Charts of a page, as data: lines of words, marks on a common scale, and a number.

    age = 39     |      ▐███████|——|        |   +0.21 ± 0.05
    hours = 60   |           |——|██▌        |   −0.09 ± 0.04
                 0         0.2        0.4

The page's script draws them (charts.js), those of single rows too. Words are the page's own text,
which wraps and is as large on a phone as on a desk. Marks are SVG, which is printed, too.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shearshap.result.colours import GREY, LOWERS, RAISES

Interval = tuple[float, float]

#: colours that are others on a dark page, by the names of their custom properties
MEANINGS = {RAISES: "raises", LOWERS: "lowers", GREY: "sizes"}


@dataclass(frozen=True)
class Dot:
    """One of many points of a line."""

    at: float
    offset: float  #: from -1 to 1: how far off the line's middle
    colour: str


@dataclass(frozen=True)
class Line:
    """A line of a chart; its marks are numbers on the chart's scale."""

    label: str
    detail: str = ""  #: after the label, in a softer colour
    number: str = ""
    bar: Interval | None = None
    colour: str = GREY  #: of the bar
    whisker: Interval | None = None
    point: float | None = None
    dots: tuple[Dot, ...] = ()


def chart(lines: Sequence[Line], *, alt: str, unit: str, rule: float | None = 0.0) -> str:
    """Return a chart as HTML for a panel.

    Parameters
    ----------
    lines
        From the top down.
    alt
        What the chart shows, for those who cannot see it.
    unit
        What the numbers of the scale are.
    rule
        Where a vertical line is drawn through all lines; None: nowhere.
    """
    from markupsafe import Markup

    content = {"lines": [_line_data(line) for line in lines], "unit": unit, "rule": rule}
    frame = Markup(
        '<div class="chart" data-chart role="group" aria-label="{}"><p class="note">This '
        "chart is drawn by a script, which your browser does not run.</p>{}</div>"
    )
    return str(frame.format(alt, Markup(data_element(content))))


def _line_data(line: Line) -> dict[str, Any]:
    """Return a line as the script takes it, without the marks that it lacks."""
    fields = {
        "name": line.label,
        "detail": line.detail,
        "number": line.number,
        "bar": line.bar,
        "colour": line.colour,
        "kind": MEANINGS.get(line.colour),
        "whisker": line.whisker,
        "point": line.point,
        "dots": _dot_data(line.dots),
    }
    return {name: content for name, content in fields.items() if content not in (None, "", {})}


def _dot_data(dots: Sequence[Dot]) -> dict[str, list[float]]:
    """Return dots by their colour: [at, offset, at, offset, ...], in few letters."""
    by_colour: dict[str, list[float]] = {}
    for dot in dots:
        numbers = by_colour.setdefault(dot.colour, [])
        numbers += (float(f"{dot.at:.4g}"), float(f"{dot.offset:.3g}"))
    return by_colour


def data_element(content: dict[str, Any], kind: str = "chart-data") -> str:
    """Return data as an element that a browser does not run, and that no text can end."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" class="{kind}">{text}</script>'
