"""Results as HTML, for notebooks: small tables with bars, on light and on dark paper.

The rows are those of `text`. Bars have lighter colours if the page is dark: by its notebook's
theme, or else by what the reader prefers.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shearshap.result.colours import (
    COHORTS,
    DARK_LOWERS,
    DARK_PAGE,
    DARK_RAISES,
    GREY,
    LOWERS,
    RAISES,
    SIZES,
)
from shearshap.result.importance import Importance
from shearshap.result.passages import are_passages, passages_html
from shearshap.result.text import (
    JOINT,
    Cell,
    Mean,
    counted,
    ends_text,
    first_rows,
    importance_rows,
    question,
    shortened,
    without_mirrored_means,
)

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

LETTERS = 28  #: of a name, at most; the whole name is its title
DARK_KINDS = ("#2BC49A", "#F0B840", "#E3A3C6", "#8CCBF0", "#C08B3E", GREY, DARK_LOWERS, DARK_RAISES)


def _style() -> str:
    """Return the style sheet, with the colours of bars as custom properties."""
    light = _properties(RAISES, LOWERS, SIZES, COHORTS)
    dark = _properties(DARK_RAISES, DARK_LOWERS, DARK_PAGE["sizes"], DARK_KINDS)
    sheet = (files("shearshap.result") / "notebook.css").read_text(encoding="utf-8")
    return f"""<style>
.shear {{{light}}}
@media (prefers-color-scheme: dark) {{.shear {{{dark}}}}}
body[data-jp-theme-light="true"] .shear, .vscode-light .shear {{{light}}}
body[data-jp-theme-light="false"] .shear, .vscode-dark .shear, html[theme="dark"] .shear {{{dark}}}
{sheet}</style>"""


def _properties(raises: str, lowers: str, sizes: str, kinds: tuple[str, ...]) -> str:
    colours = {"raises": raises, "lowers": lowers, "sizes": sizes}
    colours |= {f"k{number}": colour for number, colour in enumerate(kinds)}
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


def _framed(title: str, parts: Iterable[str], content: str) -> str:
    """Return a table with a title and some words about it."""
    words = escape(" · ".join(parts))
    return (
        f'{_style()}<div class="shear"><div><b>{title}</b> <span class="shear-soft">{words}</span>'
        f"</div>{content}</div>"
    )


def breakable(name: str) -> str:
    """Return a name as HTML that may be broken at its joints, such as after the _ of long_name."""
    return "<wbr>".join(escape(part) for part in JOINT.split(name))


def policy_hash(text: str) -> str:
    """Return the hash of a script or style in the form of a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _name(name: str) -> str:
    short = breakable(shortened(name, LETTERS))
    return f'<div class="shear-name" title="{escape(name)}">{short}</div>'


def _soft(text: str) -> str:
    return f'<div class="shear-soft">{escape(text)}</div>' if text else ""


def _key(colours: dict[str, str]) -> str:
    """Return what colours mean."""
    marks = [
        f'<i style="background:{colour}"></i><span>{escape(name)}</span> '
        for name, colour in colours.items()
    ]
    return f'<div class="shear-key">{"".join(marks)}</div>'


def _sign_key(numbers: ArrayLike) -> str:
    """Return what the colours of these numbers mean."""
    signs = np.sign(np.asarray(numbers))
    colours = {}
    if (signs > 0).any():
        colours["raises the output"] = "var(--raises)"
    if (signs < 0).any():
        colours["lowers it" if colours else "lowers the output"] = "var(--lowers)"
    return _key(colours) if colours else ""


# Bars


@dataclass(frozen=True)
class Scale:
    """The numbers at both ends of all bars."""

    low: float
    high: float

    @classmethod
    def from_numbers(cls, numbers: Iterable[float]) -> "Scale":
        """Return the scale that holds 0 and all numbers that are finite."""
        finite = [0.0, *(number for number in numbers if np.isfinite(number))]
        return cls(min(finite), max(finite))

    def at(self, number: float) -> float:
        """Return a number's place in percent; an infinite one is at an end."""
        length = (self.high - self.low) or 1.0
        return float(np.clip(100 * (number - self.low) / length, 0.0, 100.0))

    def bar(self, number: float, colour: str) -> str:
        """Return a bar from zero, to the right if the number is positive."""
        zero = self.at(0.0)
        return f'{self._span("i", 0.0, number, colour)}<u style="left:{zero:.1f}%"></u>'

    def whisker(self, low: float, high: float) -> str:
        """Return the line of an interval; nothing if that is not known."""
        return self._span("b", low, high) if np.isfinite(high) else ""

    def _span(self, tag: str, start: float, end: float, colour: str = "") -> str:
        left, right = sorted((self.at(start), self.at(end)))
        look = f";background:{colour}" if colour else ""
        return f'<{tag} style="left:{left:.1f}%;width:{right - left:.1f}%{look}"></{tag}>'


def _sign(number: float) -> str:
    return "var(--raises)" if number >= 0 else "var(--lowers)"


# The first rows of an explanation


def explanation_html(explanation: "Explanation") -> str:
    """Return an explanation's cost, and its first rows, or a game's values, with bars."""
    notes = "".join(_soft(f"Note: {note}") for note in explanation.notes)
    if explanation.game is not None:
        above = filter(None, (question(explanation), ends_text(explanation)))
        content = "".join(map(_soft, above)) + _means_html(explanation.mean(), explanation.game)
        return _framed("Explanation", _summary(explanation), content + notes)
    if are_passages(explanation):
        key = _sign_key(explanation.values)
        content = f"{_soft(question(explanation))}{passages_html(explanation)}{key}{notes}"
        return _framed("Explanation", _summary(explanation), content)
    view = first_rows(explanation)
    scale = Scale.from_numbers(cell.number for cell in view.cells)
    output = '<th class="shear-left">output</th>' if view.has_outputs else ""
    names = "".join(f"<th>{_name(name)}</th>" for name in view.names)
    lines = []
    for line in view.lines:
        cells = [
            _cell(cell, name, scale) for cell, name in zip(line.cells, view.names, strict=True)
        ]
        words = [line.label, line.output] if view.has_outputs else [line.label]
        left = [f'<td class="shear-left">{escape(shortened(word, LETTERS))}</td>' for word in words]
        end = f'<td class="shear-end">{line.prediction}</td>'
        lines.append(f"<tr>{''.join(left)}<td>{line.base}</td>{''.join(cells)}{end}</tr>")

    left_out = _soft(f"… and {view.left_out}") if view.left_out else ""
    table = (
        '<div class="shear-scroll"><table class="shear-table shear-rows"><thead><tr>'
        f'<th class="shear-left">row</th>{output}<th>base value</th>{names}<th>prediction</th>'
        f"</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
    key = _sign_key([cell.number for cell in view.cells])
    content = f"{_soft(question(explanation))}{table}{key}{left_out}{notes}"
    return _framed("Explanation", _summary(explanation), content)


def _summary(explanation: "Explanation") -> Iterable[str]:
    """Yield the size, the method and the cost of an explanation."""
    rows, players, *outputs = explanation.shape
    if explanation.game is None:
        yield from (counted(rows, "row"), counted(players, "feature"))
    else:
        yield f"game of {counted(players, explanation.game)}"
    yield from (counted(size, "output") for size in outputs)
    yield explanation.method
    per_row = " per row" if explanation.game is None else ""
    yield f"{counted(explanation.evaluations, 'evaluation')}{per_row}"
    if explanation.seconds is not None:
        yield f"{explanation.seconds:.2g} s"


def _cell(cell: Cell, name: str, scale: Scale) -> str:
    title = f"{name} = {cell.content}: {cell.text}" if cell.content else f"{name}: {cell.text}"
    if cell.error > 0:
        title = f"{title}, standard error {cell.error:.2g}"
    bar = scale.bar(cell.number, _sign(cell.number))
    return (
        f'<td title="{escape(title)}">{cell.text}<div class="shear-lane">{bar}</div>'
        f"{_soft(shortened(cell.content, LETTERS))}</td>"
    )


# Importance


def importance_html(table: Importance) -> str:
    """Return the most important features with a bar for each cohort and output, with intervals."""
    table = without_mirrored_means(table)
    parts = (table.kind, counted(sum(table.rows), "row"), f"{100 * table.level:g} % intervals")
    return _framed("Importance", parts, _means_html(table))


def _means_html(table: Importance, noun: str = "feature") -> str:
    """Return the lines of a table of importance, and what their intervals cover."""
    rows = importance_rows(table)
    means = [mean for _, every in rows for mean in every]
    scale = Scale.from_numbers(end for mean in means for end in (mean.size, mean.low, mean.high))
    lines = [
        f'<tr><td class="shear-left">{_name(name)}</td>{_lanes(every, table.coloured, scale)}</tr>'
        for name, every in rows
    ]
    left = len(table) - len(rows)
    more = f" … and {counted(left, f'more {noun}')}." if left else ""
    body = f'<table class="shear-table shear-wide"><tbody>{"".join(lines)}</tbody></table>'
    return f"{_series_key(table)}{body}{_soft(table.interval_words + more)}"


def _series_key(table: Importance) -> str:
    """Return what the bars of each feature are: cohorts, outputs, or signs."""
    names = table.output_names
    if table.cohorts is not None:
        sized = zip(table.cohorts, table.rows, strict=True)
        cohorts = [f"{name} ({counted(rows, 'row')})" for name, rows in sized]
        if len(names) > 1:
            cohorts = [f"{cohort}, {output}" for cohort in cohorts for output in names]
        names = cohorts
    if len(names) > 1:
        return _key({name: _kind(number) for number, name in enumerate(names)})
    return _sign_key(table.values) if table.coloured else ""


def _kind(number: int) -> str:
    return f"var(--k{number % len(COHORTS)})"


def _lanes(means: list[Mean], coloured: bool, scale: Scale) -> str:
    """Return a feature's bars below each other, and beside them their numbers."""
    lanes = []
    numbers = []
    for number, mean in enumerate(means):
        colour = _kind(number)
        if len(means) == 1:
            colour = _sign(mean.size) if coloured else "var(--sizes)"
        bar = scale.bar(mean.size, colour) + scale.whisker(mean.low, mean.high)
        margin = f'<span class="shear-soft shear-margin"> ({mean.interval})</span>'
        lanes.append(f'<div class="shear-lane">{bar}</div>')
        numbers.append(f'<div class="shear-number">{mean.text}{margin}</div>')
    return f'<td class="shear-lanes">{"".join(lanes)}</td><td>{"".join(numbers)}</td>'
