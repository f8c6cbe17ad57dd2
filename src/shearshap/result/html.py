"""Results as HTML, for notebooks: small tables with bars, on light and on dark paper.

Text has the colour of the page around it. Only bars have colours of their own, lighter ones where
the page is dark: by its notebook's theme, or else by what the reader prefers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from shearshap.result.colours import DARK_LOWERS, DARK_RAISES, GREY, KINDS, LOWERS, RAISES
from shearshap.result.importance import Importance
from shearshap.result.text import (
    JOINT,
    Cell,
    FirstRows,
    Line,
    counted,
    decimals,
    first_rows,
    format_number,
    shortened,
)

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

MAX_FEATURES = 10  #: of a table of importance
LETTERS = 28  #: of a name, at most; the whole name is its title

LIGHT = f"--raises:{RAISES};--lowers:{LOWERS}"
DARK = f"--raises:{DARK_RAISES};--lowers:{DARK_LOWERS}"
DARK_KINDS = (DARK_LOWERS, DARK_RAISES, "#2BC49A", "#E3A3C6", "#F0B840", "#8CCBF0", "#C08B3E", GREY)


def _kinds(colours: tuple[str, ...]) -> str:
    return ";".join(f"--k{number}:{colour}" for number, colour in enumerate(colours))


STYLE = f"""<style>
.shear{{{LIGHT};{_kinds(KINDS)};font:13px/1.4 system-ui,-apple-system,"Segoe UI",sans-serif;
font-variant-numeric:tabular-nums;color:inherit;max-width:100%}}
@media (prefers-color-scheme:dark){{.shear{{{DARK};{_kinds(DARK_KINDS)}}}}}
body[data-jp-theme-light="true"] .shear,.vscode-light .shear{{{LIGHT};{_kinds(KINDS)}}}
body[data-jp-theme-light="false"] .shear,.vscode-dark .shear,html[theme="dark"] .shear
{{{DARK};{_kinds(DARK_KINDS)}}}
.shear .shear-scroll{{overflow-x:auto}}
.shear table.shear-table{{border-collapse:collapse;border:0;margin:6px 0;font:inherit;color:inherit;
width:auto}}
.shear table.shear-table tr:nth-child(n){{background:none;border:0}}
.shear table.shear-table th,.shear table.shear-table td{{border:0;
border-bottom:1px solid rgba(127,127,127,.3);padding:5px 10px;text-align:right;vertical-align:top;
font:inherit;white-space:nowrap;background:none}}
.shear table.shear-table th{{font-weight:600;vertical-align:bottom}}
.shear table.shear-table .shear-left{{text-align:left}}
.shear .shear-name{{white-space:normal;overflow-wrap:break-word;max-width:11em;min-width:4.5em}}
.shear .shear-soft{{opacity:.72;font-size:12px}}
.shear .shear-key{{font-size:12px}}
.shear .shear-key span{{opacity:.72;white-space:nowrap;margin-right:12px}}
.shear .shear-end{{font-weight:600}}
.shear .shear-bar{{position:relative;height:8px;width:76px;margin:2px 0 1px auto}}
.shear .shear-bar i{{position:absolute;top:1px;height:6px;border-radius:1px}}
.shear .shear-bar u,.shear .shear-lane u{{position:absolute;top:0;height:100%;width:1px;
background:rgba(127,127,127,.6)}}
.shear .shear-key i{{display:inline-block;width:10px;height:10px;border-radius:2px;
margin-right:4px}}
.shear .shear-lane{{position:relative;height:16px;margin:2px 0}}
.shear .shear-lane i{{position:absolute;top:2px;height:12px;border-radius:1px}}
.shear .shear-lane b{{position:absolute;top:7px;height:2px;background:currentColor;opacity:.75}}
.shear table.shear-wide{{width:100%;max-width:760px;table-layout:auto}}
.shear table.shear-wide td.shear-lanes{{width:60%;min-width:90px}}
.shear table.shear-wide th,.shear table.shear-wide td{{padding:5px 8px 5px 0}}
.shear .shear-number{{height:16px;line-height:16px;margin:2px 0}}
@media (max-width:480px){{
.shear .shear-margin,.shear table.shear-rows thead{{display:none}}
.shear table.shear-rows,.shear table.shear-rows tbody{{display:block}}
.shear table.shear-rows tr{{display:flex;flex-wrap:wrap;
border-bottom:1px solid rgba(127,127,127,.3)!important;padding:4px 0}}
.shear table.shear-rows td{{display:block;border:0;flex:0 0 33.3%;max-width:33.3%;
box-sizing:border-box;text-align:left;padding:4px 8px 4px 0}}
.shear table.shear-rows td::before{{content:attr(data-name);display:block;font-size:12px;
font-weight:400;opacity:.72;overflow:hidden;text-overflow:ellipsis}}
.shear table.shear-rows .shear-bar{{margin-left:0}}
}}
</style>"""


# The first rows of an explanation


def explanation_html(explanation: "Explanation") -> str:
    """Return an explanation's cost, and its first rows as a table with bars."""
    view = first_rows(explanation)
    notes = "".join(
        f'<div class="shear-soft">Note: {escape(note)}</div>' for note in explanation.notes
    )
    return (
        f'{STYLE}<div class="shear"><div><b>Explanation</b> '
        f'<span class="shear-soft">{escape(_summary(explanation))}</span></div>'
        '<div class="shear-scroll"><table class="shear-table shear-rows">'
        f"{_head(view)}{_body(view)}</table></div>"
        f"{_sign_key()}{_left_out(view)}{notes}</div>"
    )


def _summary(explanation: "Explanation") -> str:
    rows, players, *outputs = explanation.values.shape
    parts = [counted(rows, "row"), counted(players, "feature")]
    if outputs:
        parts.append(counted(outputs[0], "output"))
    parts.append(explanation.method)
    parts.append(f"{explanation.evaluations:,} evaluations a row")
    if explanation.seconds is not None:
        parts.append(f"{explanation.seconds:.2g} s")
    return " · ".join(parts)


def _head(view: FirstRows) -> str:
    output = '<th class="shear-left">output</th>' if view.has_outputs else ""
    names = "".join(f"<th>{_name(name)}</th>" for name in view.names)
    return (
        f'<thead><tr><th class="shear-left">row</th>{output}<th>base value</th>{names}'
        "<th>prediction</th></tr></thead>"
    )


def _name(name: str) -> str:
    short = shortened(name, LETTERS)
    title = "" if short == name else f' title="{escape(name)}"'
    return f'<div class="shear-name"{title} style="margin-left:auto">{breakable(short)}</div>'


def breakable(name: str) -> str:
    """Return a name as HTML that may be broken at its joints, such as after the _ of long_name."""
    return "<wbr>".join(escape(part) for part in JOINT.split(name))


def _body(view: FirstRows) -> str:
    several = view.has_outputs
    scale = Scale(*view.span)
    lines = []
    before = None
    for line in view.lines:
        label = "" if several and line.label == before else shortened(line.label, LETTERS)
        before = line.label
        output = f'<td class="shear-left" data-name="output">{escape(line.output)}</td>'
        cells = "".join(
            _cell(cell, name, scale) for cell, name in zip(line.cells, view.names, strict=True)
        )
        lines.append(
            f'<tr><td class="shear-left" data-name="row" title="{escape(line.label)}">'
            f"{escape(label)}</td>{output if several else ''}"
            f'<td data-name="base value">{line.base}</td>{cells}{_end(line)}</tr>'
        )
    return f"<tbody>{''.join(lines)}</tbody>"


def _end(line: Line) -> str:
    return f'<td class="shear-end" data-name="prediction">{line.prediction}</td>'


def _cell(cell: Cell, name: str, scale: "Scale") -> str:
    content = shortened(cell.content, LETTERS)
    held = f'<div class="shear-soft">{escape(content)}</div>' if content else ""
    title = name if not cell.content else f"{name} = {cell.content}"
    title = f"{title}: {cell.text}"
    if cell.error is not None and cell.error > 0:
        title = f"{title}, standard error {cell.error:.2g}"
    return (
        f'<td data-name="{escape(name)}" title="{escape(title)}">{cell.text}'
        f"{_bar(cell.number, scale)}{held}</td>"
    )


def _bar(number: float, scale: "Scale") -> str:
    """Return a bar from zero, to the right if a value raises the output."""
    zero = scale.at(0.0)
    end = scale.at(number)
    colour = "--raises" if number >= 0 else "--lowers"
    return (
        f'<div class="shear-bar"><i style="left:{min(zero, end):.1f}%;'
        f'width:{abs(end - zero):.1f}%;background:var({colour})"></i>'
        f'<u style="left:{zero:.1f}%"></u></div>'
    )


def _sign_key() -> str:
    return (
        '<div class="shear-key"><i style="background:var(--raises)"></i><span>raises the output'
        '</span><i style="background:var(--lowers)"></i><span>lowers it</span></div>'
    )


def _left_out(view: FirstRows) -> str:
    return f'<div class="shear-soft">… and {view.left_out}</div>' if view.left_out else ""


# Importance


def importance_html(table: Importance) -> str:
    """Return the most important players with a bar for each cohort and output, with intervals."""
    top = table.top(MAX_FEATURES)
    series = _series(table)
    every = np.concatenate((top.values.ravel(), top.lower.ravel(), top.upper.ravel(), [0.0]))
    scale = Scale.around(every[np.isfinite(every)].tolist())
    rows = "".join(
        _player(top, player, name, scale) for player, name in enumerate(top.feature_names)
    )
    left = len(table) - len(top)
    more = f" … and {counted(left, 'more feature')}." if left else ""
    return (
        f'{STYLE}<div class="shear"><div><b>Importance</b> <span class="shear-soft">'
        f"{escape(table.kind)} · {counted(sum(table.rows), 'row')} · "
        f"{100 * table.level:g} % intervals</span></div>{_series_key(table, series)}"
        f'<table class="shear-table shear-wide"><tbody>{rows}</tbody></table>'
        f'<div class="shear-soft">{table.interval_words}{more}</div></div>'
    )


def _series(table: Importance) -> list[str]:
    """Return the names of the bars that each player has."""
    outputs = table.output_names
    if table.cohorts is None:
        return outputs
    cohorts = [
        f"{name} ({counted(rows, 'row')})"
        for name, rows in zip(table.cohorts, table.rows, strict=True)
    ]
    if len(outputs) == 1:
        return cohorts
    return [f"{cohort}, {output}" for cohort in cohorts for output in outputs]


def _series_key(table: Importance, series: list[str]) -> str:
    if len(series) == 1:
        return "" if table.sizes else _sign_key()
    marks = "".join(
        f'<i style="background:{_kind(number)}"></i><span>{escape(name)}</span> '
        for number, name in enumerate(series)
    )
    return f'<div class="shear-key">{marks}</div>'


def _kind(number: int) -> str:
    return f"var(--k{number % len(KINDS)})"


@dataclass(frozen=True)
class Scale:
    """The numbers at both ends of all lanes of bars."""

    low: float
    high: float

    @classmethod
    def around(cls, numbers: Sequence[float], margin: float = 0.0) -> "Scale":
        """Return the scale that holds some numbers, with a margin relative to its length."""
        low = min(numbers, default=0.0)
        high = max(numbers, default=1.0)
        length = (high - low) or max(abs(high), 1.0)
        return cls(low - margin * length, high + margin * length)

    def at(self, number: float) -> float:
        """Return a number's place in percent; an infinite one is at an end."""
        length = (self.high - self.low) or 1.0
        return float(np.clip(100 * (number - self.low) / length, 0.0, 100.0))


def _player(table: Importance, player: int, name: str, scale: Scale) -> str:
    numbers = table.full(table.values)[:, player].ravel().tolist()
    lower = table.full(table.lower)[:, player].ravel().tolist()
    upper = table.full(table.upper)[:, player].ravel().tolist()
    places = decimals(table.values)
    single = len(numbers) == 1
    lanes = []
    texts = []
    for number, (size, low, high) in enumerate(zip(numbers, lower, upper, strict=True)):
        colour = _kind(number)
        if single:
            sign = "--raises" if size >= 0 else "--lowers"
            colour = GREY if table.sizes else f"var({sign})"
        lanes.append(_lane(size, low, high, colour, scale))
        text = format_number(size, places, sign=not table.sizes)
        margin = _margin(size, high, places)
        texts.append(f'<div class="shear-number">{text}{margin}</div>')
    return (
        f'<tr><td class="shear-left"><div class="shear-name" title="{escape(name)}">'
        f"{breakable(shortened(name, LETTERS))}</div></td>"
        f'<td class="shear-lanes">{"".join(lanes)}</td><td>{"".join(texts)}</td></tr>'
    )


def _margin(size: float, high: float, places: int | None) -> str:
    if not np.isfinite(high):
        return '<span class="shear-soft shear-margin"> ± unknown</span>'
    margin = format_number(high - size, places)
    return f'<span class="shear-soft shear-margin"> ± {margin}</span>'


def _lane(size: float, low: float, high: float, colour: str, scale: Scale) -> str:
    zero = scale.at(0.0)
    end = scale.at(size)
    whisker = ""
    if np.isfinite(high):
        start = scale.at(low)
        whisker = f'<b style="left:{start:.1f}%;width:{scale.at(high) - start:.1f}%"></b>'
    return (
        f'<div class="shear-lane"><i style="left:{min(zero, end):.1f}%;'
        f'width:{abs(end - zero):.1f}%;background:{colour}"></i>{whisker}'
        f'<u style="left:{zero:.1f}%"></u></div>'
    )
