"""Charts as HTML: lines of words, marks on a common scale, and a number, as wide as there is room.

    age = 39     |      ▐███████|——|        |   +0.21 ± 0.05
    hours = 60   |           |——|██▌        |   −0.09 ± 0.04
                 0         0.2        0.4

Words are the page's own text, which wraps and is as large on a phone as on a desk. Marks are SVG,
which is printed, too; their places are percentages of its width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from shearshap.plots.colours import GREY, LOWERS, RAISES
from shearshap.result.digits import true_minus
from shearshap.result.html_tables import Scale, breakable

if TYPE_CHECKING:
    from markupsafe import Markup

Interval = tuple[float, float]

#: colours that are others on a dark page, by the names of their custom properties
MEANINGS = {RAISES: "raises", LOWERS: "lowers", GREY: "sizes"}

MARGIN = 0.04  #: of the scale's length, left free at either end
LINE_HEIGHT = 18  #: CSS pixels
SWARM_HEIGHT = 32  #: CSS pixels, of a line with dots
RADIUS = 2.4  #: of a dot, in CSS pixels
FEW_DOTS = 40  #: in a line, which are drawn larger
ACROSS = 1000  #: steps along a line that dots without a title stand on
STEPS = (1, 2, 2.5, 5, 10)  #: distances between round numbers, times a power of ten


@dataclass(frozen=True)
class Dot:
    """One of many points of a line."""

    at: float
    offset: float  #: from -1 to 1: how far off the line's middle
    colour: str
    title: str = ""  #: its tooltip; without one, many dots take little room in the file


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

    @property
    def ends(self) -> list[float]:
        """All numbers that the scale must hold."""
        ends = [dot.at for dot in self.dots]
        ends += self.bar or ()
        ends += self.whisker or ()
        if self.point is not None:
            ends.append(self.point)
        return ends


def ticks(scale: Scale) -> list[float]:
    """Return round numbers within a scale, as many as there is room for on a phone."""
    rough = (scale.high - scale.low) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(power * times for times in STEPS if power * times >= rough)

    multiples = range(ceil(scale.low / step), floor(scale.high / step) + 1)
    return [float(f"{multiple * step:.6g}") for multiple in multiples]


def _place(scale: Scale, number: float) -> str:
    """Return where a number stands, as in CSS."""
    return f"{scale.at(number):.2f}%"


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

    numbers = [end for line in lines for end in line.ends]
    if rule is not None:
        numbers.append(rule)
    scale = Scale.around(numbers, MARGIN)

    frame = Markup(
        '<div class="chart" role="group" aria-label="{}">{}{}<p class="unit">{}</p></div>'
    )
    content = Markup("").join(_line(line, scale, rule) for line in lines)
    return str(frame.format(alt, content, _tick_line(scale), unit))


def _line(line: Line, scale: Scale, rule: float | None) -> "Markup":
    from markupsafe import Markup

    frame = Markup(
        '<div class="line"><span class="name">{}{}</span>'
        '<svg class="track" height="{}" aria-hidden="true">{}</svg>'
        '<span class="amount">{}</span></div>'
    )
    name = Markup(breakable(line.label))
    detail = Markup(f" <small>{breakable(line.detail)}</small>") if line.detail else ""
    height = SWARM_HEIGHT if line.dots else LINE_HEIGHT
    marks = Markup("".join(_marks(line, scale, rule, height)))
    return frame.format(name, detail, height, marks, line.number)


def _tick_line(scale: Scale) -> "Markup":
    """Return the numbers below a chart."""
    from markupsafe import Markup

    tick = Markup('<span style="left: {}">{}</span>')
    marks = [tick.format(_place(scale, at), true_minus(f"{at:g}")) for at in ticks(scale)]
    frame = Markup('<div class="line scale" aria-hidden="true"><div class="ticks">{}</div></div>')
    return frame.format(Markup("").join(marks))


# Marks, as SVG elements


def _marks(line: Line, scale: Scale, rule: float | None, height: int) -> list[str]:
    """Return the marks of a line, the last on top."""
    marks = []
    if rule is not None:
        marks.append(_upright("rule", _place(scale, rule), 0, height))
    if line.bar is not None:
        marks.append(_bar(line.bar, line.colour, scale, height))
    if line.whisker is not None:
        marks += _whisker(line.whisker, scale, height // 2)
    if line.point is not None:
        place = _place(scale, line.point)
        marks.append(f'<circle class="point" cx="{place}" cy="{height // 2}" r="4"/>')
    bare = [dot for dot in line.dots if not dot.title]
    if bare:
        marks.append(_bare_dots(bare, scale, height))
    return marks + [_dot(dot, scale, height // 2) for dot in line.dots if dot.title]


def _upright(kind: str, x: str, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'


def _bar(bar: Interval, colour: str, scale: Scale, height: int) -> str:
    left, right = sorted(bar)
    x = _place(scale, left)
    width = f"{scale.at(right) - scale.at(left):.2f}%"
    return f'<rect x="{x}" width="{width}" y="2" height="{height - 4}" rx="1.5" {_fill(colour)}/>'


def _fill(colour: str) -> str:
    """Return a fill, by its meaning where it has one: a dark page has other colours for it."""
    name = MEANINGS.get(colour)
    return f'fill="{colour}"' if name is None else f'class="{name}" fill="{colour}"'


def _whisker(interval: Interval, scale: Scale, middle: int) -> list[str]:
    """Return a horizontal line with a cap at either end."""
    low = _place(scale, interval[0])
    high = _place(scale, interval[1])
    return [
        f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>',
        _upright("whisker", low, middle - 3, middle + 3),
        _upright("whisker", high, middle - 3, middle + 3),
    ]


def _bare_dots(dots: Sequence[Dot], scale: Scale, height: int) -> str:
    """Return dots as one path for each colour: strokes of no length with round ends.

    They stand on `ACROSS` steps along the line, whatever its width, and stay round.
    """
    middle = height // 2
    by_colour: dict[str, list[str]] = {}
    for dot in dots:
        x = round(ACROSS * scale.at(dot.at) / 100)
        y = middle + dot.offset * (middle - 3)
        by_colour.setdefault(dot.colour, []).append(f"M{x} {y:.3g}h0")
    paths = [
        f'<path stroke="{colour}" d="{"".join(places)}"/>' for colour, places in by_colour.items()
    ]
    kind = "dots few" if len(dots) <= FEW_DOTS else "dots"
    box = f'viewBox="0 0 {ACROSS} {height}" preserveAspectRatio="none"'
    return f'<svg class="{kind}" {box} width="100%" height="{height}">{"".join(paths)}</svg>'


def _dot(dot: Dot, scale: Scale, middle: int) -> str:
    from markupsafe import escape

    x = _place(scale, dot.at)
    y = middle + dot.offset * (middle - 3)
    title = f"<title>{escape(dot.title)}</title>"
    return f'<circle cx="{x}" cy="{y:.1f}" r="{RADIUS}" fill="{dot.colour}">{title}</circle>'
