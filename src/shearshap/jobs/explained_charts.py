"""Charts of an explained file's page: sizes of values, values row by row, and single rows."""

import numpy as np

from shearshap import views
from shearshap.colours import rank_colour
from shearshap.digits import decimals, format_number
from shearshap.explanation import Explanation
from shearshap.report import Dot, Line, chart
from shearshap.views import Ints

DOTS = 250  #: rows drawn as dots, evenly taken
GLOBAL = 20  #: features in a chart of all rows
LOCAL = 12  #: features in a chart of a single row
BINS = 100  #: dots that fit along a line, on a screen between a phone and a desk
ACROSS = 8  #: dots that fit above each other in a line


def sizes_chart(explanation: Explanation) -> str:
    """Return the chart of mean |value|, the largest features first."""
    bars = views.bars(explanation)[:GLOBAL]
    lines = [
        Line(bar.name, "", bar.number, (0.0, bar.size), bar.colour, bar.interval) for bar in bars
    ]
    alt = f"Mean size of values, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit=_with_output("mean |value|", explanation))


def dots_chart(explanation: Explanation) -> str:
    """Return the chart of values row by row, a dot for each row or for `DOTS` of them."""
    rows = drawn_rows(explanation)
    players = views.largest(views.mean_sizes(explanation), GLOBAL)
    drawn = explanation[rows]

    swarms = views.swarms(drawn, players, bins=BINS, across=ACROSS)
    lines = [Line(swarm.name, dots=_dots(swarm, drawn, rows)) for swarm in swarms]
    alt = f"Values row by row, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit=_with_output("value", explanation))


def drawn_rows(explanation: Explanation) -> Ints:
    """Return the numbers of the rows that are drawn as dots."""
    count = min(DOTS, len(explanation))
    return np.unique(np.linspace(0, len(explanation) - 1, count).astype(np.int64))


def _dots(swarm: views.Swarm, drawn: Explanation, rows: Ints) -> tuple[Dot, ...]:
    """Return a swarm's dots; `rows` are the numbers that the rows drawn have in the file."""
    places = decimals(drawn.values)
    dots = []
    for at, row in enumerate(rows):
        value = float(swarm.values[at])
        detail = cell_detail(views.cell(drawn, at, swarm.player))
        words = [f"row {row}:", detail, format_number(value, places, sign=True)]
        title = " ".join(word for word in words if word)
        dots.append(Dot(value, float(swarm.offsets[at]), rank_colour(swarm.ranks[at]), title))
    return tuple(dots)


def row_chart(explanation: Explanation, row: int) -> str:
    """Return the chart from a row's base value to its prediction, the largest features first."""
    view = views.waterfall(explanation, row, LOCAL)
    base_number, *step_numbers, prediction_number = view.numbers

    lines = [Line("base value", number=base_number, point=view.base)]
    steps = zip(view.steps, step_numbers, view.starts, view.ends, strict=True)
    for step, number, start, end in steps:
        whisker = (end - step.margin, end + step.margin) if step.margin > 0 else None
        detail = cell_detail(step.cell)
        lines.append(Line(step.name, detail, number, (start, end), step.colour, whisker))
    lines.append(Line("prediction", number=prediction_number, point=view.prediction))

    alt = f"Row {row}, from base value to prediction"
    return chart(lines, alt=alt, unit=explanation.output_names[0], rule=view.base)


def cell_detail(cell: str) -> str:
    """Return "= cell", to stand after a feature's name; "" where the cell is not known."""
    return f"= {cell}" if cell else ""


def _with_output(what: str, explanation: Explanation) -> str:
    """Return what a scale shows, with the output's name if it has one."""
    name = explanation.output_names[0]
    return what if name == "output" else f"{what}, {name}"
