"""Rows from base value to prediction: one as steps or as a strip, or many as lines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from shearshap.plots import canvas, words
from shearshap.plots.bar import THICKNESS
from shearshap.plots.canvas import Row
from shearshap.plots.words import scaled, type_size
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.colours import FAINT, INK, LOWERS, RAISES
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import decimals, format_end, format_estimate, format_number

WAY = "from base value to prediction"  #: what the x-axis shows
HALF = 0.9  #: half the height of the strip, in lines of text
GAP_LINES = 1.0  #: lines of text between the strip and the first name
LINE = 0.24  #: inches: the height of a line of text
MAX_OPAQUE_ROWS = 60  #: rows up to which lines are drawn without transparency


@canvas.plot
def waterfall(
    explanation: Explanation,
    *,
    row: Row = 0,
    max_features: int = 10,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw how the features' values lead from a row's base value to its prediction.

    The largest come first. Features beyond `max_features` are summed as "n others". Whiskers and ±
    are 95 % intervals of single values; the sum has none, since the correlation of its errors is
    not known. If the values do not add up to the prediction, another bar shows the gap.

    Parameters
    ----------
    max_features
        How many features to show one by one; a single one beyond is shown too.
    """
    explanation = canvas.single_output(explanation, "waterfall")
    row = canvas.row_number(explanation, row)
    most = canvas.positive_count("max_features", max_features)
    view = views.waterfall(explanation, row, most)

    room = words.name_room(ax)
    pairs = [(step.name, step.cell) for step in view.steps]
    steps = words.fitted_pairs(pairs, [room] * len(pairs))
    places = decimals(view.sizes)
    numbers = [format_estimate(step.size, step.margin, places) for step in view.steps]
    base = format_end(view.base, view.sizes)
    prediction = format_end(view.prediction, view.sizes)
    names = ["base value", *steps, "prediction"]
    ax = canvas.lines_of(ax, names, [base, *numbers, prediction], width=5.0)
    words.write_title(ax, title, explanation, row)

    ax.use_sticky_edges = False
    lines = np.arange(1, len(view.steps) + 1)  # between the base value and the prediction
    last = len(lines) + 1
    hues = [step.colour for step in view.steps]
    ends = view.base + np.cumsum([0.0, *view.sizes])
    ax.barh(lines, view.sizes, left=ends[:-1], height=THICKNESS, color=hues, zorder=2)
    # a thin line leads from the end of each step to the start of the next
    ax.vlines(ends, np.arange(last), np.arange(1, last + 1), **canvas.ZERO)
    margins = np.array([step.margin for step in view.steps])
    known = margins > 0
    if known.any():
        ax.errorbar(ends[1:][known], lines[known], xerr=margins[known], **canvas.WHISKER)
    diamond = scaled(6)
    ax.plot([view.base, view.prediction], [0, last], "D", color=INK, markersize=diamond, zorder=3)

    intervals = bool(known.any())
    ax.set_xlabel(words.axis_label(ax, explanation, WAY, intervals=intervals))
    canvas.tidy(ax, "x", numbers="x")
    for texts in (ax.get_yticklabels(), ax.texts):
        texts[0].set_fontweight("bold")
        texts[-1].set_fontweight("bold")
    canvas.key_below(ax, canvas.sign_marks([step.colour for step in view.steps if step.size]))
    return canvas.finished(ax, show=show)


# One strip


@canvas.plot
def force(
    explanation: Explanation,
    *,
    row: Row = 0,
    max_features: int = 8,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a row as one strip: what raises the output on the left, what lowers it on the right.

    Both meet at the prediction, the largest values nearest to it. The strip begins as far below the
    base value as all that lowers the output, so that lengths are values.

    Parameters
    ----------
    max_features
        How many features to show one by one; a single one beyond is shown too.
    """
    explanation = canvas.single_output(explanation, "force")
    row = canvas.row_number(explanation, row)
    view = views.waterfall(explanation, row, canvas.positive_count("max_features", max_features))
    lines = np.count_nonzero(view.sizes)
    height = 1.8 + LINE * (2 * HALF + 2 * GAP_LINES + lines)
    ax = canvas.axes_of(ax, 9.4, height, texts=True)
    words.write_title(ax, title, explanation, row)
    ax.use_sticky_edges = False
    below = _draw_side(ax, view, away=-1)
    above = _draw_side(ax, view, away=1)

    size = scaled(9)
    ax.plot(view.prediction, 0, "D", color=INK, markersize=size, markeredgecolor="white", zorder=5)
    ax.plot(view.base, 0, "D", color="white", markersize=size - 1, markeredgecolor=INK, zorder=4)
    edge = HALF + GAP_LINES - 0.4
    ax.set_ylim(-edge - below, edge + above)
    ax.set_yticks([])
    ax.set_xlabel(words.axis_label(ax, explanation, WAY))
    canvas.tidy(ax, "x", numbers="x")
    ax.grid(visible=False)  # its lines would cross names

    base = canvas.colour_mark(f"base value {format_end(view.base, view.sizes)}", "white", "D")
    base.set_markeredgecolor(INK)
    prediction = f"prediction {format_end(view.prediction, view.sizes)}"
    signs = canvas.sign_marks([step.colour for step in view.steps if step.size])
    canvas.key_below(ax, [base, canvas.colour_mark(prediction, INK, "D"), *signs])
    return canvas.finished(ax, show=show)


def _draw_side(ax: Axes, view: views.Waterfall, *, away: int) -> int:
    """Draw the steps that raise the output (-1), or those that lower it (1); return how many.

    Names stand below the strip (-1) or above it (1). The largest is nearest to the prediction, and
    its name nearest to the strip. Names go from their thin lines towards the prediction, so that no
    line crosses a name.
    """
    steps = [step for step in view.steps if step.size * away < 0]
    steps.sort(key=lambda step: -abs(step.size))
    sizes = np.array([abs(step.size) for step in steps])
    ends = view.prediction + away * np.cumsum([0.0, *sizes])
    middles = (ends[1:] + ends[:-1]) / 2
    look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": 2}
    colour = RAISES if away < 0 else LOWERS
    ax.barh(np.zeros(len(steps)), sizes, 2 * HALF, middles - sizes / 2, color=colour, **look)

    places = decimals(view.sizes)
    estimates = [format_estimate(step.size, step.margin, places) for step in steps]
    # a name may reach from its line to the far edge of the strip
    whole = float(np.abs(view.sizes).sum()) or 1.0
    far = view.prediction - away * sum(abs(s.size) for s in view.steps if s.size * away > 0)
    width = words.width_in_points(ax)
    rooms = [
        max(0.6, abs(far - middle) / whole) * width - words.text_width(estimate)
        for middle, estimate in zip(middles.tolist(), estimates, strict=True)
    ]
    names = words.fitted_pairs([(step.name, step.cell) for step in steps], rooms)
    for number, (name, estimate, middle) in enumerate(
        zip(names, estimates, middles.tolist(), strict=True)
    ):
        height = away * (HALF + GAP_LINES + number)
        ax.plot([middle] * 2, [away * HALF, height], **canvas.ZERO)
        ax.annotate(
            f"{name}  {estimate}",
            xy=(middle, height),
            xytext=(-4 * away, 0),
            textcoords="offset points",
            ha="left" if away < 0 else "right",
            va="center",
            color=INK,
            size=type_size(),
        )
    return len(steps)


# All rows, feature by feature


@canvas.plot
def decision(
    explanation: Explanation,
    *,
    highlight: Row | Sequence[Row] = (),
    max_features: int = 15,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw each row's way from its base value, at the bottom, to its prediction, at the top.

    A line moves right if a feature raises the output, left if it lowers it. The features with
    the largest mean |value| are on top; those beyond `max_features` are moved together, first. The
    colour is the prediction.

    Parameters
    ----------
    highlight
        A row's number or label, or several: drawn in black, with the row's label.
    max_features
        How many features to show one by one.
    """
    explanation = canvas.single_output(explanation, "decision")
    most = canvas.positive_count("max_features", max_features)
    whole = explanation
    explanation = same_players(explanation)
    chosen = [highlight] if isinstance(highlight, int | str) else list(highlight)
    rows = [canvas.row_number(explanation, row) for row in chosen]
    names, levels = _paths(explanation, most)

    room = words.name_room(ax)
    labels = words.fitted_names(names, room)
    high = 2.0 + canvas.LINE * (len(names) + 0.7 * len(rows))
    ax = canvas.axes_of(ax, 5.8, high, beside=labels)
    words.write_title(ax, title, whole)
    coloured = _draw_lines(ax, levels, explanation.predictions)
    for number, row in enumerate(rows):
        _draw_highlight(ax, levels[row], str(explanation.index[row]), number)

    ax.set_yticks(np.arange(len(names)) + 0.5, labels)
    ax.set_ylim(0, len(names) + 0.08 + 0.7 * len(rows))
    ax.set_xlabel(words.axis_label(ax, explanation, WAY))
    canvas.tidy(ax, "x", numbers="x")
    for level in range(1, len(names)):
        ax.axhline(level, color=FAINT, linewidth=0.6, zorder=1)
    if np.ptp(explanation.predictions) > 0:
        canvas.draw_colour_bar(ax, coloured, "prediction")
    return canvas.finished(ax, show=show)


def _paths(explanation: Explanation, most: int) -> tuple[list[str], Floats]:
    """Return the names of n steps from the bottom up, and where rows are before and after each.

    The features beyond `most` come first, then the others up to the largest: (r, n + 1).
    """
    shown, others = views.divided(mean_sizes(explanation), most)
    steps = [explanation.values[:, player] for player in shown[::-1]]
    names = [explanation.feature_names[player] for player in shown[::-1]]
    if len(others):
        steps.insert(0, explanation.values[:, others].sum(axis=1))
        names.insert(0, f"{len(others)} others")
    # a gap that is too small to be seen is none
    moved = float(np.abs(explanation.values).sum(axis=1).max())
    if np.abs(explanation.gap).max() > 5e-3 * moved > 0:
        steps.insert(0, explanation.gap)
        names.insert(0, views.GAP)

    start = explanation.base_values[:, None]
    return names, np.cumsum(np.column_stack([start, *steps]), axis=1)


def _draw_lines(ax: Axes, levels: Floats, predictions: Floats) -> ScalarMappable:
    """Draw a line for each row, in the colour of its prediction."""
    low = float(predictions.min())
    high = float(predictions.max())
    if low == high:
        low, high = low - 1, high + 1
    colours = ScalarMappable(Normalize(low, high), canvas.LOW_TO_HIGH)

    heights = np.broadcast_to(np.arange(levels.shape[1]), levels.shape)
    rows = len(predictions)
    alike = np.ptp(predictions) == 0
    lines = LineCollection(
        list(np.stack((levels, heights), axis=2)),
        colors=INK if alike else colours.to_rgba(predictions),
        linewidths=scaled(1.6 if rows <= MAX_OPAQUE_ROWS else 1.0),
        alpha=0.9 if rows <= MAX_OPAQUE_ROWS else max(0.25, 0.9 * (MAX_OPAQUE_ROWS / rows) ** 0.5),
        rasterized=rows > canvas.MAX_VECTOR_POINTS,
        zorder=3,
    )
    ax.add_collection(lines)
    ax.axvline(float(levels[:, 0].mean()), **canvas.ZERO)
    ax.autoscale_view()
    return colours


def _draw_highlight(ax: Axes, levels: Floats, label: str, line: int) -> None:
    """Draw one row in black, with its label above its end, on a line of its own."""
    top = len(levels) - 1
    ax.plot(levels, np.arange(len(levels)), color=INK, linewidth=scaled(2.4), zorder=4)
    ax.plot([levels[-1]] * 2, [top, top + 0.7 * line + 0.3], zorder=4, color=INK, linewidth=0.8)
    number = format_number(float(levels[-1]), decimals(levels))
    ax.annotate(
        f"row {words.fitted(label, 12 * type_size())}: {number}",
        xy=(levels[-1], top + 0.7 * line),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        zorder=5,
        color=INK,
        size=type_size(),
    )
