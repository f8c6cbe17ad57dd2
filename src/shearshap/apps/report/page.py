"""A page as data, and the HTML file made of it.

Text is plain. `code`, **bold**, [words](https://address) and [words](#section) are marked up, and
everything else is shown as it stands. Titles are always shown as they stand.

Charts are data, too: lines of words, marks on a common scale, and a number.

    age = 39     |      ▐███████|——|        |   +0.21 ± 0.05
    hours = 60   |           |——|██▌        |   −0.09 ± 0.04
                 0         0.2        0.4

The page's script draws them (charts.js), those of single rows too. Words are the page's own text,
which wraps and is as large on a phone as on a desk. Marks are SVG, which is printed, too.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shearshap.result.colours import page_colours
from shearshap.result.html import breakable, policy_hash
from shearshap.result.text import digits_script
from shearshap.result.views import Interval
from shearshap.store import written_whole

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

MARKUP = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>.+?)\*\*"
    r"|\[(?P<words>[^\]]+)\]\((?P<to>(?:https?://|#)[^\s)]+)\)"
)
GENERATOR = "shearshap"  #: named in the head of every page, by which it is known as ours
OPTION = re.compile(r"(?<!\S)--?\w[\w-]*")

#: matplotlib's letter -> the shape in a key, around (15, 6)
MARKERS = {
    "": "",
    "o": "M15 2.5a3.5 3.5 0 1 0 .01 0z",
    "s": "M12 3h6v6h-6z",
    "D": "M15 1.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "^": "M15 2l4 7.5h-8z",
    "v": "M15 10l4-7.5h-8z",
    "<": "M11 6l7.5-4v8z",
    ">": "M19 6l-7.5-4v8z",
    "P": "M13.5 2h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
    "X": (
        "M12.5 2l2.5 2.5 2.5-2.5 1.5 1.5-2.5 2.5 2.5 2.5-1.5 1.5-2.5-2.5-2.5 2.5-1.5-1.5 "
        "2.5-2.5-2.5-2.5z"
    ),
    "*": "M15 .8l1.3 3.5 3.8.1-3 2.4 1 3.7-3.1-2.1-3.1 2.1 1-3.7-3-2.4 3.8-.1z",
}


@dataclass(frozen=True)
class Series:
    """A line of the figures: its name, and its look in their keys."""

    name: str  #: artists whose gid is "series-<name>" belong to it
    label: str
    color: str  #: as in CSS
    dash: str = ""  #: as in SVG's stroke-dasharray, "4 2"; none if empty
    marker: str = ""  #: matplotlib's letter, one of MARKERS


@dataclass(frozen=True)
class Panel:
    """A picture of a figure."""

    title: str
    svg: str  #: trusted markup with its own text alternative, from `inline` or `chart`


@dataclass(frozen=True)
class Figure:
    """Pictures that belong together: side by side if there is room, else one below the other.

    With `pick`, a list with this label chooses the picture that is shown; without a script, all
    are shown.
    """

    title: str
    panels: tuple[Panel, ...]
    caption: str
    key: bool = True  #: whether the series in its panels are listed above them
    pick: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells; a table that is not open is folded away on a screen, and printed whole."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1  #: how many columns of text come first; columns of numbers follow them
    emphasis: frozenset[tuple[int, int]] = frozenset()  #: (row, column) of cells in bold
    open: bool = True
    compact: bool = False  #: small print, so that many rows fit a screen


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, in this order.

    A section that is not open is folded away below its heading on a screen, and printed whole.
    """

    id: str  #: its name in links
    title: str
    text: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    open: bool = True
    facts: tuple[tuple[str, str], ...] = ()  #: name and value
    html: str = ""  #: trusted markup, after the figures


@dataclass(frozen=True)
class Page:
    """All that a file shows."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    series: tuple[Series, ...] = ()
    contents: bool = True  #: whether the sections are listed at the top
    foot: tuple[tuple[str, str], ...] = ()  #: facts below the last section, name and value
    standalone: bool = False
    """Whether it is to be sent to somebody: text as wide as the charts, no contents, and dark for
    readers who prefer that. All its pictures must be made by `chart`."""
    highlights: tuple[str, ...] = ()  #: what matters most, as a list below the lead
    warnings: tuple[str, ...] = ()  #: what to mind, below the highlights
    style: str = ""  #: a style sheet of its own, after that of all pages
    script: str = ""  #: a script of its own


# Charts


@dataclass(frozen=True)
class Line:
    """A line of a chart; its marks are numbers on the chart's scale."""

    name: str
    number: str = ""
    bar: Interval | None = None
    whisker: Interval | None = None
    #: points by their colour, [at, offset, at, offset, ...]; an offset is from -1 to 1, how far a
    #: point stands off the line's middle
    dots: Mapping[str, Sequence[float]] = field(default_factory=dict)
    means: Sequence[tuple[float, str]] = ()  #: of categories: where, and in words, below the line
    detail: str = ""  #: after the name, softer
    kind: str = ""  #: of its bar: "raises" or "lowers"; "": a size


def chart(lines: Sequence[Line], *, alt: str, unit: str) -> str:
    """Return a chart as HTML for a panel, its lines from the top down.

    `alt` says what it shows, for those who cannot see it, and `unit` what the numbers of the scale
    are. A vertical line is drawn through all lines at 0.
    """
    from markupsafe import Markup

    marks = [{name: mark for name, mark in vars(line).items() if mark} for line in lines]
    data = data_element({"lines": marks, "unit": unit, "rule": 0}, "chart-data")
    frame = Markup(
        '<div class="chart" data-chart role="group" aria-label="{}"><p class="note">This '
        "chart needs JavaScript.</p>{}</div>"
    )
    return str(frame.format(alt, Markup(data)))


def data_element(content: dict[str, Any], kind: str) -> str:
    """Return data as an element that a browser does not run, and that no text can end."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" class="{kind}">{text}</script>'


# The file


def write(page: Page, path: Path) -> Path:
    """Write the page as an HTML file, whole or not at all, and return its path."""
    html = render(page)
    with written_whole(path) as partial:
        partial.write_text(html, encoding="utf-8")
    return path


def render(page: Page) -> str:
    """Return the page as HTML that loads nothing: styles, script and figures are in it."""
    scripts = (digits_script(), resource("charts.js"), resource("page.js"), page.script)
    script = "\n".join(filter(None, scripts))
    style = [resource("page.css")]
    if page.standalone:
        style.append(resource("standalone.css"))
    return _template().render(
        page=page,
        generator=GENERATOR,
        colours=page_colours(dark=page.standalone),
        style="\n".join(filter(None, (*style, page.style))),
        script=script,
        digest=policy_hash(script),
    )


# What the template needs


def _template() -> "Template":
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install jinja2") from error

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "across": across,
        "breakable": breakable,
        "key_entries": key_entries,
        "marked": marked,
        "widest": widest,
    }
    environment.globals |= {"markers": MARKERS}
    return environment.from_string(resource("page.html.j2"))


def across(figure: Figure) -> int:
    """Return how many panels stand side by side at most.

    Two panels make one row, and four make two even rows; otherwise rows have three.
    """
    panels = 1 if figure.pick else len(figure.panels)
    return {1: 1, 2: 2, 4: 2}.get(panels, 3)


def widest(figure: Figure) -> str:
    """Return the width, as in CSS, beyond which no panel grows: that of its widest SVG."""
    widths = [
        float(width)
        for panel in figure.panels
        for width in re.findall(r"max-width: ([\d.]+)pt", panel.svg)
    ]
    return f"{max(widths):g}pt" if widths else "100vw"


def key_entries(figure: Figure, series: tuple[Series, ...]) -> tuple[Series, ...]:
    """Return the series in the figure's key: those drawn in its panels, in the page's order."""
    if not figure.key:
        return ()
    drawn = {
        name
        for panel in figure.panels
        for name in re.findall(r'class="series series-([\w-]+)"', panel.svg)
    }
    return tuple(entry for entry in series if entry.name in drawn)


def marked(text: str) -> "Markup":
    """Return the text as HTML: escaped first, and then marked up."""
    from markupsafe import Markup, escape

    return Markup(MARKUP.sub(_tagged, str(escape(text))))


def _tagged(match: re.Match[str]) -> str:
    if match["code"]:
        # browsers break lines after a hyphen, even after the first of --out
        code = OPTION.sub(r'<span class="option">\g<0></span>', match["code"])
        return f"<code>{code}</code>"
    if match["bold"]:
        return f"<strong>{breakable(unescape(match['bold']))}</strong>"
    return f'<a href="{match["to"]}">{match["words"]}</a>'


def resource(name: str) -> str:
    """Return the text of a file of this package, a script or a style sheet."""
    return (files(__package__) / name).read_text(encoding="utf-8")
