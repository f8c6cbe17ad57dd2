"""The plot of all values as cells in colours, rows by features."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.result import views
from shearshap.result.cells import padding, same_players
from shearshap.result.colours import INK
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import format_numbers
from shearshap.result.views import Ints

Order = Literal["prediction", "similar", "given"]

#: what the x-axis shows
ORDERS = {
    "prediction": "rows, ordered by prediction",
    "similar": "rows, similar ones together",
    "given": "rows",
}

LINE = 0.32  #: inches: the height of a feature's cells
FAR = 99.0  #: percentile of |values| from which on colours are the darkest


@canvas.plot
def heatmap(
    explanation: Explanation,
    *,
    order: Order = "similar",
    max_features: int = 15,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw every value as a cell: a column per row, a line per feature, the largest first.

    A cell's colour is the value, orange if it raises the output and blue if it lowers it.
    The line on top is the prediction. The numbers on the right are mean |values|.

    Parameters
    ----------
    order
        The order of rows: "similar" (similar rows together), "prediction", or "given".
    """
    explanation = canvas.single_output(explanation, "heatmap")
    most = canvas.positive_count("max_features", max_features)
    whole = explanation
    explanation = same_players(explanation)
    explanation = explanation[_row_order(explanation, order)]
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    room = words.name_room(ax)
    names = words.fitted_names([explanation.feature_names[player] for player in players], room)
    numbers = format_numbers(sizes[players])
    around = max(2.4, 3.6 - LINE * len(names))  # a single line needs as much for the colour bar
    ax = canvas.lines_of(ax, names, numbers, width=7.2, around=around, line=LINE)
    ax.set_ylim(len(players) - 0.5, -0.5)
    canvas.write_beside(ax, -0.6, "mean\n|value|", va="bottom")
    words.write_title(ax, title, whole)
    cells = np.where(padding(explanation), np.nan, explanation.values)[:, players].T
    coloured = canvas.draw_cells(ax, cells, aspect="auto", percentile=FAR)

    left_out = len(sizes) - len(players)
    ax.set_xlabel(f"{ORDERS[order]}\n{words.left_out_label(left_out)}".strip())
    ax.set_xticks([])
    _draw_predictions(ax, explanation.predictions)
    high = words.height_in_points(ax)
    label = words.axis_label(ax, explanation, explanation.semivalue, room=high)
    beside = max(map(words.text_width, [*numbers, "|value|"]))
    canvas.draw_colour_bar(ax, coloured, label, cells, signed=True, after=beside)
    words.settled_width(ax)  # what is above the axes is a share of their height
    return canvas.finished(ax, show=show)


def _row_order(explanation: Explanation, order: Order) -> Ints:
    """Return the numbers of the rows in the order of drawing."""
    if order == "prediction":
        return np.argsort(explanation.predictions, kind="stable")
    if order == "given":
        return np.arange(len(explanation))
    if order == "similar":
        return _similar_rows(explanation.values, explanation.predictions)
    raise InputError(f"order: expected 'prediction', 'similar' or 'given', got {order!r}")


def _similar_rows(values: Floats, predictions: Floats) -> Ints:
    """Return an order of rows (r,) in which neighbours have like values.

    Of two clusters that are joined, the one with lower predictions comes first.
    """
    if len(values) < 3:
        return np.argsort(predictions, kind="stable")
    # distances to all others take r (r - 1) / 2 numbers; with many rows, a direction orders them
    if len(values) > 5_000:
        centred = values - values.mean(axis=0)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        return np.argsort(centred @ direction, kind="stable")
    # not at the top: it takes a while to import
    from scipy.cluster.hierarchy import linkage

    clusters = [[row] for row in range(len(values))]
    for pair in linkage(values, "average")[:, :2].astype(np.int64).tolist():
        low, high = sorted((clusters[at] for at in pair), key=lambda own: predictions[own].mean())
        clusters.append(low + high)
    return np.array(clusters[-1], dtype=np.int64)


def _draw_predictions(ax: Axes, predictions: Floats) -> None:
    """Draw the rows' predictions as a line above the cells."""
    height = min(0.4, 1.7 / len(ax.get_yticks()))  # that of as many lines
    above = ax.inset_axes((0.0, 1.02, 1.0, height), sharex=ax)
    places = np.arange(len(predictions))
    above.plot(places, predictions, color=INK, linewidth=1.2, drawstyle="steps-mid")
    if len(predictions) == 1:
        above.plot([0], predictions, "D", color=INK, markersize=4)
    canvas.tidy(above, "y")
    above.spines["bottom"].set_visible(False)
    above.tick_params(axis="x", length=0, labelbottom=False)
    above.set_ylabel("prediction", rotation=0, ha="right", va="center")
    canvas.number_axis(above.yaxis, most=2)
