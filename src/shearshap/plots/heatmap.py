"""Plots of cells in colours: rows by features, and features by features."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from shearshap.errors import InputError
from shearshap.plots.canvas import (
    BY_SIGN,
    BY_SIZE,
    SMALL,
    axes_of,
    axis_label,
    draw_colour_bar,
    ends_beyond,
    label_lines,
    number_axis,
    positive_count,
    shorten,
    single_output,
    tidy,
    write_numbers,
)
from shearshap.result import views
from shearshap.result.cells import padding, same_players
from shearshap.result.colours import FAINT, INK
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import decimals, format_number
from shearshap.result.views import Ints

Order = Literal["prediction", "similar", "given"]

#: what follows the number of rows
ORDERS = {
    "prediction": ", ordered by prediction",
    "similar": ", similar ones together",
    "given": "",
}

FAR = 99.0  #: percentile of |values| from which on colours are the darkest


def heatmap(
    explanation: Explanation,
    *,
    order: Order = "prediction",
    max_players: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw every value as a cell: rows side by side, features below each other, the largest first.

    A cell's colour is the value, orange if it raises the output and blue if it lowers it.
    The line on top is the prediction. The numbers on the right are mean |values|.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    order
        Of the rows: by "prediction", "similar" rows beside each other, or as "given".
    max_players
        How many features to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "heatmap")
    most = positive_count("max_players", max_players)
    rows = views.rows_text(explanation)
    explanation = same_players(explanation)
    explanation = explanation[_row_order(explanation, order)]
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    ax = axes_of(ax, 6.8, 2.2 + 0.28 * len(players))
    cells = np.where(padding(explanation), np.nan, explanation.values)[:, players].T
    coloured = draw_cells(ax, cells, aspect="auto", percentile=FAR)

    label_lines(ax, [shorten(explanation.feature_names[player]) for player in players])
    ax.set_ylim(len(players) - 0.5, -0.5)
    places = decimals(sizes)
    write_numbers(ax, [format_number(float(sizes[player]), places) for player in players])

    ax.set_xlabel(axis_label(explanation, rows + ORDERS[order], left_out=len(sizes) - len(players)))
    frame_cells(ax)
    ax.set_xticks([])
    _draw_predictions(ax, explanation.predictions)
    draw_signed_bar(ax, coloured, cells, "Shapley value", pad=0.13)
    return ax


def _row_order(explanation: Explanation, order: Order) -> Ints:
    """Return the numbers of the rows in the order of drawing."""
    if order == "prediction":
        return np.argsort(explanation.predictions, kind="stable")
    if order == "given":
        return np.arange(len(explanation))
    if order == "similar":
        return _similar_rows(explanation.values)
    raise InputError(f"order: wanted 'prediction', 'similar' or 'given', got {order!r}")


def _similar_rows(values: Floats) -> Ints:
    """Return an order of rows (r,) in which neighbours have like values."""
    if len(values) < 3:
        return np.arange(len(values))
    # not at the top: it takes a while to import
    from scipy.cluster.hierarchy import leaves_list, linkage

    # distances to all others take r (r - 1) / 2 numbers; so many rows are ordered by a direction
    if len(values) > 5_000:
        centred = values - values.mean(axis=0)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        return np.argsort(centred @ direction, kind="stable")
    return np.asarray(leaves_list(linkage(values, "average")), dtype=np.int64)


def _draw_predictions(ax: Axes, predictions: Floats) -> None:
    """Draw the rows' predictions as a line above the cells."""
    above = ax.inset_axes((0.0, 1.02, 1.0, 0.18), sharex=ax)
    places = np.arange(len(predictions))
    above.plot(places, predictions, color=INK, linewidth=1.2, drawstyle="steps-mid")
    if len(predictions) == 1:
        above.plot([0], predictions, "D", color=INK, markersize=4)
    tidy(above, "y")
    above.spines["bottom"].set_visible(False)
    above.tick_params(axis="x", length=0, labelbottom=False)
    above.set_ylabel("prediction", rotation=0, ha="right", va="center", size=SMALL)
    above.yaxis.tick_right()
    above.tick_params(axis="y", length=0, labelsize=SMALL - 1)
    number_axis(above.yaxis, most=2)


# Cells


def draw_cells(
    ax: Axes,
    cells: Floats,
    *,
    aspect: Literal["auto", "equal"],
    percentile: float = 100.0,
    signed: bool = True,
) -> ScalarMappable:
    """Draw cells (lines, columns) in colours; those without a number stay empty."""
    known = np.abs(cells[~np.isnan(cells)])
    far = float(np.percentile(known, percentile)) if known.size else 0.0
    far = far or float(known.max(initial=0.0)) or 1.0
    low = -far if signed else 0.0
    cmap = BY_SIGN if signed else BY_SIZE
    norm = Normalize(low, far)
    picture = ax.imshow(cells, cmap=cmap, norm=norm, aspect=aspect, interpolation="nearest")
    picture.set_zorder(2)
    return picture


def draw_signed_bar(
    ax: Axes,
    coloured: ScalarMappable,
    cells: Floats,
    label: str,
    *,
    pad: float = 0.02,
    as_high: bool = False,
) -> None:
    """Draw a bar of the colours of both signs, with words at its ends."""
    low, high = coloured.get_clim()
    assert low is not None
    assert high is not None
    draw_colour_bar(
        ax,
        coloured,
        f"{label}\n← lowers   raises →",
        ends_beyond(cells, low, high),
        pad=pad,
        as_high=as_high,
    )


def frame_cells(ax: Axes) -> None:
    """Give cells a light frame, and labels the look of all plots."""
    tidy(ax, "both")
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(FAINT)
