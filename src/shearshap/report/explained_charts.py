"""Charts of an explained file's page: sizes of values, values row by row, and single rows."""

import numpy as np

from shearshap.plots import views
from shearshap.plots.colours import GREY, rank_colour
from shearshap.plots.views import Ints
from shearshap.report import Dot, Line, chart
from shearshap.report.explained_summary import has_cells, pair_sizes
from shearshap.result.digits import decimals, format_number, smallest_shown
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes
from shearshap.result.labels import label_text

DOTS = 500  #: rows drawn as dots, evenly taken; fewer where there are many outputs
FEWEST_DOTS = 150
GLOBAL = 20  #: features in a chart of all rows
LOCAL = 12  #: features in a chart of a single row
PAIRS = 10  #: pairs of features in the chart of interactions
BINS = 100  #: dots that fit along a line, on a screen between a phone and a desk
ACROSS = 8  #: dots that fit above each other in a line
SHADES = 8  #: steps from the lowest to the highest colour
TIMES = "\N{MULTIPLICATION SIGN}"
CATEGORIES = 1  #: a column with any category at all is one of words


def sizes_chart(explanation: Explanation) -> str:
    """Return the chart of mean |value|, the largest features first."""
    bars = views.bars(explanation)[: len(drawn_players(explanation))]
    lines = [
        Line(bar.name, "", bar.number, (0.0, bar.size), bar.colour, bar.interval) for bar in bars
    ]
    alt = f"Mean size of values, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit="how far it moves a prediction, on average")


def dots_chart(explanation: Explanation, dots: int = DOTS) -> str:
    """Return the chart of values row by row, a dot for each row or for `dots` of them."""
    rows = drawn_rows(explanation, dots)
    players = drawn_players(explanation)
    drawn = explanation[rows]

    swarms = views.swarms(drawn, players, bins=BINS, across=ACROSS)
    lines = [Line(swarm.name, dots=_dots(swarm, drawn)) for swarm in swarms]
    alt = f"Values row by row, {explanation.output_names[0]}"
    return _key() + chart(lines, alt=alt, unit="← lowers the prediction · raises it →")


def _key() -> str:
    """Return the meaning of the dots' colours."""
    shades = [rank_colour(shade / SHADES) for shade in range(SHADES + 1)]
    boxes = [
        f'<rect x="{12 * at}" width="12" height="10" fill="{c}"/>' for at, c in enumerate(shades)
    ]
    width = 12 * len(shades)
    ramp = f'<svg width="{width}" height="10" aria-hidden="true">{"".join(boxes)}</svg>'
    return f'<p class="ramp"><span>feature is low</span>{ramp}<span>feature is high</span></p>'


def drawn_players(explanation: Explanation) -> Ints:
    """Return the largest features, without those whose size would be written as 0."""
    sizes = mean_sizes(explanation)
    order = views.largest(sizes, GLOBAL)
    smallest = smallest_shown(float(sizes.max(initial=0.0)), decimals(sizes))
    visible = int((sizes[order] >= smallest).sum())
    return order[: max(1, visible)]


def drawn_rows(explanation: Explanation, dots: int = DOTS) -> Ints:
    """Return the numbers of the rows that are drawn as dots."""
    count = min(dots, len(explanation))
    return np.unique(np.linspace(0, len(explanation) - 1, count).astype(np.int64))


def dots_of_each(outputs: int) -> int:
    """Return how many rows are drawn as dots for each of the outputs."""
    return max(FEWEST_DOTS, DOTS // outputs)


def _dots(swarm: views.Swarm, drawn: Explanation) -> tuple[Dot, ...]:
    """Return a swarm's dots, in few shades; grey where a feature is words, which have no order."""
    is_words = has_words(drawn, swarm.player)
    dots = []
    for value, offset, rank in zip(swarm.values, swarm.offsets, swarm.ranks, strict=True):
        colour = GREY if is_words or np.isnan(rank) else rank_colour(round(rank * SHADES) / SHADES)
        dots.append(Dot(float(value), float(offset), colour))
    return tuple(dots)


def has_words(explanation: Explanation, player: int) -> bool:
    """Return whether a feature's cells are words, and not numbers."""
    if not has_cells(explanation, player):
        return False
    return bool(views.column(explanation, player, CATEGORIES).categories)


def pairs_chart(explanation: Explanation) -> str:
    """Return the chart of the pairs of features that act together most."""
    sizes = pair_sizes(explanation)
    order = np.argsort(-sizes, axis=None, kind="stable")[:PAIRS]
    places = decimals(sizes)
    names = explanation.feature_names
    lines = []
    for flat in order.tolist():
        first, second = divmod(flat, len(names))
        size = float(sizes[first, second])
        if size > 0:
            name = f"{names[first]} {TIMES} {names[second]}"
            lines.append(Line(name, number=format_number(size, places), bar=(0.0, size)))
    alt = f"Pairs of features that act together, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit="size of the interaction, on average")


def row_chart(explanation: Explanation, row: int) -> str:
    """Return the chart from a row's base value to its prediction, the largest features first."""
    view = views.waterfall(explanation, row, LOCAL)
    _, *step_numbers, _ = view.numbers

    lines = [Line("base value", number=own_number(view.base), point=view.base)]
    steps = zip(view.steps, step_numbers, view.starts, view.ends, strict=True)
    for step, number, start, end in steps:
        whisker = (end - step.margin, end + step.margin) if step.margin > 0 else None
        detail = cell_detail(step.cell)
        lines.append(Line(step.name, detail, number, (start, end), step.colour, whisker))
    lines.append(Line("prediction", number=own_number(view.prediction), point=view.prediction))

    alt = f"Row {label_of(explanation, row)}, from base value to prediction"
    return chart(lines, alt=alt, unit=_unit(explanation), rule=view.base)


def own_number(number: float) -> str:
    """Return a number rounded by its own size."""
    return format_number(number, decimals(number))


def label_of(explanation: Explanation, row: int) -> str:
    """Return a row's label as text."""
    return label_text(explanation.index[row])


def cell_detail(cell: str) -> str:
    """Return "= cell", to stand after a feature's name; "" where the cell is not known."""
    return f"= {cell}" if cell else ""


def _unit(explanation: Explanation) -> str:
    """Return what the scale of a row's chart shows: the output, by its name if it has one."""
    name = explanation.output_names[0]
    return "prediction" if name == "output" else name
