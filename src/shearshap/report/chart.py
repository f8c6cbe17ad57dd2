"""Charts of lines as HTML: words, marks on one common scale, and a number, as wide as there is
room.

Words are the page's own text, which wraps and stays as large on a phone; marks are SVG, which is
printed too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from markupsafe import Markup

Span = tuple[float, float]
MARGIN = 0.04  #: of the scale's length, left free at either end


@dataclass(frozen=True)
class Dot:
    """One of many points of a line."""

    at: float
    lift: float  #: from -1 to 1, how far off the line's middle
    color: str
    title: str  #: its tooltip


@dataclass(frozen=True)
class Line:
    """One line of a chart; its marks are numbers on the chart's scale."""

    label: str
    detail: str = ""  #: after the label, in a softer colour
    number: str = ""
    bar: Span | None = None
    color: str = "#57606a"
    whisker: Span | None = None
    point: float | None = None
    dots: tuple[Dot, ...] = ()

    @property
    def ends(self) -> list[float]:
        """All numbers that the scale must hold."""
        marks = (*(self.bar or ()), *(self.whisker or ()), *(dot.at for dot in self.dots))
        return [*marks, *(() if self.point is None else (self.point,))]


def chart(lines: Sequence[Line], *, alt: str, unit: str, rule: float | None = 0.0) -> str:
    """Return a chart as HTML to put into a panel.

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

    scale = _scale([end for line in lines for end in line.ends] + ([] if rule is None else [rule]))
    told = Markup("").join(_line(line, scale, rule) for line in lines)
    return str(
        Markup(
            '<div class="chart" role="group" aria-label="{}">{}{}<p class="unit">{}</p></div>'
        ).format(alt, told, _ticks(scale), unit)
    )


def _scale(ends: list[float]) -> Span:
    """Return the first and last number of the scale, with a margin on both sides."""
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    length = (high - low) or max(abs(high), 1.0)
    return low - MARGIN * length, high + MARGIN * length


def _line(line: Line, scale: Span, rule: float | None) -> "Markup":
    from markupsafe import Markup, escape

    height, middle = (32, 16) if line.dots else (18, 9)
    detail = Markup(" <small>{}</small>").format(line.detail) if line.detail else ""
    marks = Markup("".join(_marks(line, scale, rule, middle)))
    return Markup(
        '<div class="line"><span class="name">{}{}</span><svg class="track" height="{}" aria-hidden="true">{}</svg>'
        '<span class="amount">{}</span></div>'
    ).format(line.label, detail, height, marks, escape(line.number))


def _marks(line: Line, scale: Span, rule: float | None, middle: int) -> list[str]:
    """Return the SVG elements of a line; places are shares of its width."""

    def x(value: float) -> str:
        return f"{100 * (value - scale[0]) / (scale[1] - scale[0]):.2f}%"

    def upright(value: float, top: float, bottom: float, kind: str) -> str:
        return (
            f'<line class="{kind}" x1="{x(value)}" x2="{x(value)}" y1="{top:g}" y2="{bottom:g}"/>'
        )

    marks = [] if rule is None else [upright(rule, 0, 2 * middle, "rule")]
    if line.bar is not None:
        left, right = sorted(line.bar)
        width = 100 * (right - left) / (scale[1] - scale[0])
        marks.append(
            f'<rect x="{x(left)}" width="{width:.2f}%" y="2" height="{2 * middle - 4}" fill="{line.color}"/>'
        )
    if line.whisker is not None:
        low, high = line.whisker
        across = f'<line class="whisker" x1="{x(low)}" x2="{x(high)}" y1="{middle}" y2="{middle}"/>'
        marks += [across, *(upright(end, middle - 3, middle + 3, "whisker") for end in (low, high))]
    if line.point is not None:
        marks.append(f'<circle class="point" cx="{x(line.point)}" cy="{middle}" r="4"/>')
    return marks + [_dot(dot, x(dot.at), middle) for dot in line.dots]


def _dot(dot: Dot, x: str, middle: int) -> str:
    from markupsafe import escape

    y = middle + dot.lift * (middle - 3)
    return f'<circle cx="{x}" cy="{y:.1f}" r="2.4" fill="{dot.color}"><title>{escape(dot.title)}</title></circle>'


def _ticks(scale: Span) -> "Markup":
    """Return the numbers below a chart: three to six round ones."""
    from markupsafe import Markup

    places = [f"{100 * (tick - scale[0]) / (scale[1] - scale[0]):.2f}%" for tick in ticks(scale)]
    marks = Markup("").join(
        Markup('<span style="left: {}">{}</span>').format(
            place, f"{tick:g}".replace("-", "\N{MINUS SIGN}")
        )
        for place, tick in zip(places, ticks(scale), strict=True)
    )
    return Markup(
        '<div class="line scale" aria-hidden="true"><div class="ticks">{}</div></div>'
    ).format(marks)


def ticks(scale: Span) -> list[float]:
    """Return round numbers within a scale, as many as there is room for on a phone."""
    low, high = scale
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough)
    numbers = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [float(f"{number:.6g}") + 0.0 for number in numbers]


def swarm(values: Sequence[float], *, bins: int = 70, levels: int = 4) -> list[float]:
    """Return how far each value's dot is lifted so that those of like value stand apart, from -1 to
    1.

    The dots of a bin stand at 0, 1, -1, 2, -2, ... levels from the middle; a fuller bin is
    squeezed.
    """
    low, length = min(values), (max(values) - min(values)) or 1.0
    seen: dict[int, int] = {}
    steps = []
    for value in values:
        key = int((value - low) / length * bins)
        count = seen[key] = seen.get(key, -1) + 1
        steps.append((count + 1) // 2 * (1 if count % 2 else -1))
    farthest = max(levels, *(abs(step) for step in steps), 1)
    return [step / farthest for step in steps]
