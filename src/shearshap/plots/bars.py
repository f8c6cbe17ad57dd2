"""Plots of bars: a row from its base value to its prediction, and the sizes of values over rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.plots import views
from shearshap.plots.arguments import (
    check_explanation,
    positive_count,
    row_number,
    single_output,
)
from shearshap.plots.canvas import (
    SIGNS,
    axes_of,
    axis_label,
    colour_key,
    label_lines,
    number_axes,
    player_label,
    tidy,
    write_numbers,
)
from shearshap.plots.cohorts import WHISKER, draw_classes, draw_cohorts, draw_whiskers
from shearshap.plots.colours import GREY, INK
from shearshap.result.explanation import Explanation
from shearshap.result.importance import cohorts

THICKNESS = 0.62  #: of a bar, relative to the distance between two


def waterfall(
    explanation: Explanation, *, row: int = 0, max_players: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how the players' values lead from a row's base value to its prediction.

    The largest come first. The players beyond `max_players` are summed as "n others". Whiskers and
    ± are 95 % intervals of the single values. A sum has none, as it is not known how the errors of
    its parts go together. What the values miss of the prediction, if anything, is a bar of its
    own, the gap.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    row
        Which of the explanation's rows.
    max_players
        How many players to show one by one; a single one beyond is shown too.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "waterfall")
    row = row_number(explanation, row)
    most = positive_count("max_players", max_players)
    view = views.waterfall(explanation, row, most)

    ax = axes_of(ax, 6.4, 1.2 + 0.3 * (len(view.steps) + 2))
    ax.use_sticky_edges = False
    _draw_steps(ax, view)

    steps = [player_label(step.name, step.cell) for step in view.steps]
    label_lines(ax, ["base value", *steps, "prediction"])
    write_numbers(ax, view.numbers)

    intervals = any(step.margin > 0 for step in view.steps)
    label = axis_label(explanation, "from base value to prediction", intervals=intervals)
    ax.set_xlabel(label)
    tidy(ax, "x")
    number_axes(ax, "x")
    colour_key(ax, SIGNS)
    return ax


def _draw_steps(ax: Axes, view: views.Waterfall) -> None:
    """Draw the steps on lines 1, 2, ..., between the base value on line 0 and the prediction."""
    lines = np.arange(1, len(view.steps) + 1)
    last = len(view.steps) + 1
    step_colours = [step.colour for step in view.steps]
    ax.barh(lines, view.sizes, left=view.starts, height=THICKNESS, color=step_colours, zorder=2)

    # a thin line leads from the end of each step to the start of the next
    ends = np.array([view.base, *view.ends])
    ax.vlines(ends, np.arange(last), np.arange(1, last + 1), color=GREY, linewidth=0.8, zorder=1)

    margins = np.array([step.margin for step in view.steps])
    known = margins > 0
    if known.any():
        ax.errorbar(ends[1:][known], lines[known], xerr=margins[known], zorder=3, **WHISKER)

    ax.plot([view.base, view.prediction], [0, last], "D", color=INK, markersize=4, zorder=3)


def bar(
    explanation: Explanation | Mapping[str, Explanation],
    *,
    groups: Any = None,
    max_players: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean size of every player's value over the rows; for a single row, the values.

    The largest come first. Bars and whiskers are the numbers of `explanation.abs().mean()`: its
    95 % intervals cover the choice of rows and the standard errors of the values. Those of a single
    row's values cover their standard errors.

    Cohorts have bars below each other. The bars of several outputs, such as classes, follow each
    other on one line, without whiskers. Several texts have a bar for each word: its mean is over
    all texts, and a text that lacks it counts as 0.

    Parameters
    ----------
    explanation
        Of one or several outputs, or a mapping from the names of cohorts to their explanations.
    groups
        A label for each row, or anything else that `Explanation.by` takes: rows with equal labels
        are a cohort.
    max_players
        How many players to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    most = positive_count("max_players", max_players)
    if isinstance(explanation, Mapping):
        return draw_cohorts(explanation, most, ax)
    check_explanation(explanation, "bar")
    if groups is not None:
        return draw_cohorts(cohorts(explanation, groups), most, ax)
    if explanation.values.ndim == 3 and explanation.values.shape[2] > 1:
        return draw_classes(explanation, most, ax)
    return _bar_of_output(single_output(explanation, "bar"), most, ax)


def _bar_of_output(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw the bars of one output."""
    single = len(explanation) == 1
    bars = views.bars_of_row(explanation, 0) if single else views.bars(explanation)
    intervals = any(bar.interval for bar in bars)
    left_out = len(bars[most:])
    bars = bars[:most]

    ax = axes_of(ax, 6.4, 1.2 + 0.3 * len(bars))
    ax.use_sticky_edges = not single
    _draw_bars(ax, bars)

    label_lines(ax, [player_label(bar.name, bar.cell) for bar in bars])
    write_numbers(ax, [bar.number for bar in bars])

    what = "Shapley value" if single else f"mean |Shapley value| of {views.rows_text(explanation)}"
    ax.set_xlabel(axis_label(explanation, what, left_out=left_out, intervals=intervals))
    tidy(ax, "x")
    number_axes(ax, "x")
    if single:
        colour_key(ax, SIGNS)
    return ax


def _draw_bars(ax: Axes, bars: list[views.Bar]) -> None:
    """Draw bars on lines 0, 1, ..., with whiskers where they have an interval."""
    sizes = [bar.size for bar in bars]
    bar_colours = [bar.colour for bar in bars]
    ax.barh(range(len(bars)), sizes, height=THICKNESS, color=bar_colours)
    draw_whiskers(ax, range(len(bars)), sizes, [bar.interval for bar in bars])
    ax.axvline(0, color=GREY, linewidth=0.8)
