"""The plot of all rows' ways from their base values to their predictions, feature by feature."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from shearshap.plots.canvas import (
    LOW_TO_HIGH,
    MANY,
    SMALL,
    axes_of,
    axis_label,
    draw_colour_bar,
    number_axes,
    positive_count,
    row_number,
    shorten,
    single_output,
    tidy,
)
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.colours import FAINT, GREY, INK
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import decimals, format_number

FEW = 60  #: rows up to which lines are drawn without transparency


@dataclass(frozen=True, eq=False)
class _Paths:
    """The rows' ways from base value to prediction, from the bottom up."""

    names: list[str]  #: of the n levels between
    levels: Floats  #: (r, n + 1): where a row is before the first feature and after each


def decision(
    explanation: Explanation,
    *,
    highlight: int | Sequence[int] = (),
    max_players: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw each row's way from its base value, at the bottom, to its prediction, at the top.

    A line moves right if a feature raises the output, left if it lowers it. The features with
    the largest mean |value| are on top; those beyond `max_players` are moved together, first. The
    colour is the prediction.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    highlight
        A row's number, or several: drawn in black, with the row's label.
    max_players
        How many features to show one by one.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "decision")
    most = positive_count("max_players", max_players)
    count = views.rows_text(explanation)
    explanation = same_players(explanation)
    rows = [row_number(explanation, row) for row in np.atleast_1d(highlight).tolist()]
    paths = _paths(explanation, most)

    ax = axes_of(ax, 6.8, 1.8 + 0.3 * len(paths.names))
    coloured = _draw_lines(ax, paths, explanation.predictions)
    for row in rows:
        _draw_highlight(ax, paths, row, str(explanation.index[row]))

    ax.set_yticks(np.arange(len(paths.names)) + 0.5, [shorten(name) for name in paths.names])
    ax.set_ylim(0, len(paths.names) + (0.7 if rows else 0.08))
    what = f"from base value to prediction, {count}"
    ax.set_xlabel(axis_label(explanation, what))
    tidy(ax, "x")
    for level in range(1, len(paths.names)):
        ax.axhline(level, color=FAINT, linewidth=0.6, zorder=1)
    number_axes(ax, "x")
    if np.ptp(explanation.predictions) > 0:
        draw_colour_bar(ax, coloured, "prediction")
    return ax


def _paths(explanation: Explanation, most: int) -> _Paths:
    """Return the ways of all rows: other features first, then the features up to the largest."""
    order = views.largest(mean_sizes(explanation))
    shown = order if len(order) == most + 1 else order[:most]
    others = order[len(shown) :]

    steps = [explanation.values[:, player] for player in shown[::-1]]
    names = [explanation.feature_names[player] for player in shown[::-1]]
    if len(others):
        steps.insert(0, explanation.values[:, others].sum(axis=1))
        names.insert(0, f"{len(others)} others")
    if _has_gap(explanation):
        steps.insert(0, explanation.gap)
        names.insert(0, views.GAP)

    start = explanation.base_values[:, None]
    levels = np.cumsum(np.column_stack([start, *steps]), axis=1)
    return _Paths(names, levels)


def _has_gap(explanation: Explanation) -> bool:
    """Return whether values miss more of the predictions than can be seen."""
    span = float(np.abs(explanation.values).sum(axis=1).max())
    return bool(np.abs(explanation.gap).max() > 5e-3 * span > 0)


def _draw_lines(ax: Axes, paths: _Paths, predictions: Floats) -> ScalarMappable:
    """Draw a line for each row, in the colour of its prediction."""
    low = float(predictions.min())
    high = float(predictions.max())
    if low == high:
        low, high = low - 1, high + 1
    colours = ScalarMappable(Normalize(low, high), LOW_TO_HIGH)

    rows = len(predictions)
    alike = np.ptp(predictions) == 0
    lines = LineCollection(
        list(_points(paths)),
        colors=INK if alike else colours.to_rgba(predictions),
        linewidths=1.3 if rows <= FEW else 0.9,
        alpha=0.9 if rows <= FEW else max(0.25, 0.9 * (FEW / rows) ** 0.5),
        rasterized=rows > MANY,
        zorder=3,
    )
    ax.add_collection(lines)
    ax.axvline(float(paths.levels[:, 0].mean()), color=GREY, linewidth=0.8, zorder=1)
    ax.autoscale_view()
    return colours


def _points(paths: _Paths) -> Floats:
    """Return the points of each row's line, (r, n + 1, 2)."""
    heights = np.broadcast_to(np.arange(paths.levels.shape[1]), paths.levels.shape)
    return np.stack((paths.levels, heights), axis=2)


def _draw_highlight(ax: Axes, paths: _Paths, row: int, label: str) -> None:
    """Draw one row in black, with its label above its end."""
    levels = paths.levels[row]
    ax.plot(levels, np.arange(len(levels)), color=INK, linewidth=2, zorder=4)
    number = format_number(float(levels[-1]), decimals(levels))
    ax.annotate(
        f"row {shorten(label, 12)}: {number}",
        xy=(levels[-1], len(levels) - 1),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        color=INK,
        size=SMALL,
    )
