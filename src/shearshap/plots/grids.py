"""Plots of cells in colours: rows by players, and players by players."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from shearshap.errors import InputError
from shearshap.plots import views
from shearshap.plots.arguments import positive_count, row_number, single_output
from shearshap.plots.canvas import (
    BY_SIGN,
    BY_SIZE,
    axes_of,
    axis_label,
    colour_of,
    ink_on,
    label_lines,
    shorten,
    tidy,
    write_numbers,
)
from shearshap.plots.colours import FAINT, INK
from shearshap.plots.number_axes import SMALL, number_axis
from shearshap.plots.points import draw_colour_bar
from shearshap.plots.text_views import padding, same_players
from shearshap.plots.views import Edges, Ints, Strengths
from shearshap.result.digits import decimals, format_number
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes

Order = Literal["prediction", "similar", "given"]

#: what follows the number of rows
ORDERS = {
    "prediction": ", ordered by prediction",
    "similar": ", similar ones together",
    "given": "",
}

FAR = 99.0  #: percentile of |values| from which on colours are the darkest
NUMBERED = 10  #: players up to which cells of pairs have numbers
PAIR_LETTERS = 20  #: letters of a name beside a matrix, at most


def heatmap(
    explanation: Explanation,
    *,
    order: Order = "prediction",
    max_players: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw every value as a cell: rows side by side, players below each other, the largest first.

    A cell's colour is the value, orange where it raises the output and blue where it lowers it.
    The line on top is the prediction. The numbers on the right are mean |values|.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    order
        Of the rows: by "prediction", "similar" rows beside each other, or as "given".
    max_players
        How many players to show; the others are left out, and counted below.
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
    coloured = _draw_cells(ax, cells, aspect="auto", percentile=FAR)

    label_lines(ax, [shorten(explanation.feature_names[player]) for player in players])
    ax.set_ylim(len(players) - 0.5, -0.5)
    places = decimals(sizes)
    write_numbers(ax, [format_number(float(sizes[player]), places) for player in players])

    words = {
        "prediction": ", ordered by prediction",
        "similar": ", similar ones together",
        "given": "",
    }
    what = rows + words[order]
    ax.set_xlabel(axis_label(explanation, what, left_out=len(sizes) - len(players)))
    _frame(ax)
    ax.set_xticks([])
    _draw_predictions(ax, explanation.predictions)
    _signed_bar(ax, coloured, cells, "Shapley value", pad=0.13)
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


# Pairs of players


def interactions(
    explanation: Explanation,
    *,
    row: int | None = None,
    measure: Edges | None = None,
    max_players: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Draw what players add alone and in pairs, as a matrix.

    On the diagonal is what a player adds alone, elsewhere what two add only together: orange where
    that raises the output, blue where it lowers it. Over all rows these are means. For
    cross-contribution, which has no sign, cells are grey, and the diagonal is empty.

    Parameters
    ----------
    explanation
        Of one output, with `interactions` or `cross_contribution`.
    row
        Which row; None: the mean of all.
    measure
        "interactions" or "cross-contribution"; None: the first of the two that there is.
    max_players
        How many players to show: those with the largest values.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "interactions")
    most = positive_count("max_players", max_players)
    if row is not None:
        explanation = views.of_row(explanation, row_number(explanation, row))
    _pair_strengths(explanation, measure)
    rows = views.rows_text(explanation)
    explanation = views.same_pairs(explanation, most)
    strengths = _pair_strengths(explanation, measure)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)
    cells = _pair_cells(strengths, players)

    side = 0.42 * len(players)
    ax = axes_of(ax, 3.1 + side, max(3.0, 1.9 + side))
    coloured = _draw_cells(ax, cells, aspect="equal", signed=strengths.signed)
    _name_both_sides(ax, [explanation.feature_names[player] for player in players])
    if len(players) <= NUMBERED:
        _write_cells(ax, cells, coloured)

    what = f"mean of {rows}" if len(explanation) > 1 else ""
    left_out = len(sizes) - len(players)
    ax.set_xlabel(axis_label(explanation, what, left_out=left_out).strip())
    _frame(ax)
    if strengths.signed:
        _signed_bar(ax, coloured, cells, "alone and together", as_high=True)
    else:
        draw_colour_bar(ax, coloured, strengths.kind, as_high=True)
    return ax


def _pair_strengths(explanation: Explanation, measure: Edges | None) -> Strengths:
    """Return how players act together; raise where the explanation does not say."""
    if measure not in (None, "cross-contribution", "interactions"):
        raise InputError(
            f"measure: wanted 'interactions', 'cross-contribution' or None, got {measure!r}"
        )
    strengths = None
    if measure is None:
        strengths = views.strengths(explanation, "interactions")
    if strengths is None:
        strengths = views.strengths(explanation, measure)
    if strengths is None:
        raise InputError(
            f"interactions: this explanation has no {measure or 'interactions'}; explain with "
            "interactions=True"
        )
    return strengths


def _pair_cells(strengths: Strengths, players: Ints) -> Floats:
    """Return the means over rows of players' pairs, (n, n); NaN where nothing is measured."""
    cells: Floats = strengths.values[:, players[:, None], players].mean(axis=0)
    if not strengths.signed:
        np.fill_diagonal(cells, np.nan)
    return cells


def _name_both_sides(ax: Axes, names: list[str]) -> None:
    """Name the lines of a matrix on the left, and its columns on top."""
    short = [shorten(name, PAIR_LETTERS) for name in names]
    label_lines(ax, short)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(names)), short, rotation=45, ha="left", rotation_mode="anchor")
    ax.set_xlim(-0.5, len(names) - 0.5)


def _write_cells(ax: Axes, cells: Floats, coloured: ScalarMappable) -> None:
    """Write the numbers into cells, white on dark colours."""
    places = decimals(np.nan_to_num(cells))
    for (line, place), number in np.ndenumerate(cells):
        if np.isnan(number):
            continue
        ax.text(
            place,
            line,
            format_number(float(number), places),
            ha="center",
            va="center",
            color=ink_on(colour_of(coloured, number)),
            size=SMALL - 2,
        )


# Cells


def _draw_cells(
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


def _signed_bar(
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
    below = bool(np.nanmin(cells) < low)
    above = bool(np.nanmax(cells) > high)
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
    draw_colour_bar(
        ax,
        coloured,
        f"{label}\n← lowers   raises →",
        extend.get((below, above), "neither"),
        pad=pad,
        as_high=as_high,
    )


def _frame(ax: Axes) -> None:
    """Give cells a light frame, and labels the look of all plots."""
    tidy(ax, "both")
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(FAINT)
