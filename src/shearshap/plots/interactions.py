"""Features that act together: as a matrix of pairs, or as a network on a circle."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from shearshap.errors import InputError
from shearshap.plots.canvas import (
    SMALL,
    axes_of,
    axis_label,
    colour_of,
    draw_colour_bar,
    ink_on,
    key_look,
    label_lines,
    positive_count,
    row_number,
    shorten,
    single_output,
)
from shearshap.plots.heatmap import draw_cells, draw_signed_bar, frame_cells
from shearshap.result import views
from shearshap.result.colours import GREY, INK, LOWERS, RAISES, sign_colour
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import decimals, format_number
from shearshap.result.views import Edges, Ints, Strengths

NUMBERED = 10  #: features up to which cells of pairs have numbers
PAIR_LETTERS = 20  #: letters of a name beside a matrix, at most
WIDEST = 7.0  #: points: the width of the strongest edge
LARGEST = 900.0  #: square points: the area of the largest node
SMALLEST = 6.0  #: square points: the area of a node with value 0
AROUND = 420.0  #: points around the circle that all nodes together may take
CLEAR = 4.0  #: points between a node and its name
CROWDED = 14  #: beyond this many features, names are written along the radius
NODE_LETTERS = 18  #: letters of a node's name, at most


def interactions(
    explanation: Explanation,
    *,
    row: int | None = None,
    measure: Edges | None = None,
    max_players: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Draw what features add alone and in pairs, as a matrix.

    On the diagonal is what a feature adds alone, elsewhere what two add only together: orange if
    that raises the output, blue if it lowers it. Over all rows these are means. For
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
        How many features to show: those with the largest values.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "interactions")
    most = positive_count("max_players", max_players)
    if row is not None:
        explanation = views.of_row(explanation, row_number(explanation, row))
    # interactions first: they have main effects for the diagonal
    measures: list[Edges | None] = ["interactions", None] if measure is None else [measure]
    _strengths(explanation, "interactions", "measure", measures)  # which tells what is missing
    rows = views.rows_text(explanation)
    explanation = views.same_pairs(explanation, most)
    strengths = _strengths(explanation, "interactions", "measure", measures)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)
    cells = _pair_cells(strengths, players)

    side = 0.42 * len(players)
    ax = axes_of(ax, 3.1 + side, max(3.0, 1.9 + side))
    coloured = draw_cells(ax, cells, aspect="equal", signed=strengths.signed)
    _name_both_sides(ax, [explanation.feature_names[player] for player in players])
    if len(players) <= NUMBERED:
        _write_cells(ax, cells, coloured)

    what = f"mean of {rows}" if len(explanation) > 1 else ""
    left_out = len(sizes) - len(players)
    ax.set_xlabel(axis_label(explanation, what, left_out=left_out).strip())
    frame_cells(ax)
    if strengths.signed:
        draw_signed_bar(ax, coloured, cells, "alone and together", as_high=True)
    else:
        draw_colour_bar(ax, coloured, strengths.kind, as_high=True)
    return ax


def _strengths(
    explanation: Explanation, plot: str, option: str, measures: Sequence[Edges | None]
) -> Strengths:
    """Return how strongly features act together, by the first measure that the explanation has."""
    for measure in measures:
        if measure not in (None, "cross-contribution", "interactions"):
            raise InputError(
                f"{option}: wanted 'interactions', 'cross-contribution' or None, got {measure!r}"
            )
        strengths = views.strengths(explanation, measure)
        if strengths is not None:
            return strengths
    raise InputError(
        f"{plot}: this explanation has no {measures[-1] or 'interactions'}; explain with "
        "interactions=True"
    )


def _pair_cells(strengths: Strengths, players: Ints) -> Floats:
    """Return the means over rows of features' pairs, (n, n); NaN if nothing is measured."""
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


# The network


def cooperators(
    explanation: Explanation,
    *,
    row: int | None = None,
    edges: Edges | None = None,
    max_players: int = 20,
    max_edges: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the features on a circle, and between them how strongly they act together.

    A node's area is |value| and its colour the value's sign; an edge's width is the
    cross-contribution (grey), or the |interaction| with the colour of its sign. Over all rows,
    sizes and widths are means of absolute values, and colours the sign of the mean.

    Parameters
    ----------
    explanation
        Of one output, with `cross_contribution` or `interactions`.
    row
        Which row; None: all of them.
    edges
        "cross-contribution" or "interactions"; None: the first of the two that there is.
    max_players
        How many features to show, the largest.
    max_edges
        How many edges to show, the strongest.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "cooperators")
    most = positive_count("max_players", max_players)
    most_edges = positive_count("max_edges", max_edges)
    if row is not None:
        explanation = views.of_row(explanation, row_number(explanation, row))
    _strengths(explanation, "cooperators", "edges", [edges])  # which tells what is missing
    explanation = views.same_pairs(explanation, most)
    strengths = _strengths(explanation, "cooperators", "edges", [edges])
    players = np.sort(views.largest(mean_sizes(explanation), most))

    ax = _whole_figure(len(players)) if ax is None else ax
    place = _circle(len(players))
    strongest = _draw_edges(ax, place, strengths, players, most_edges)
    radii = _draw_nodes(ax, place, explanation, players)

    texts = _write_names(
        ax, place, [explanation.feature_names[player] for player in players], radii
    )
    largest = float(mean_sizes(explanation).max())
    marks = _legend_marks(strengths, strongest, largest)
    ax.legend(handles=marks, loc="lower center", **key_look())
    legend_height = (1 + len(marks)) * 1.5 * SMALL
    _set_limits(ax, place, texts, radii, legend_height)
    ax.axis("off")
    return ax


def _whole_figure(players: int) -> Axes:
    """Return axes that fill a new figure: names and legend find their place inside them."""
    larger = 1.4 if players > CROWDED else 0.0
    ax = axes_of(None, 5.6 + larger, 5.2 + larger)
    ax.set_position((0.02, 0.02, 0.96, 0.96))
    return ax


def _circle(count: int) -> Floats:
    """Return points (n, 2) on a circle, the first on top, clockwise."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.column_stack((np.cos(angle), np.sin(angle)))


# Nodes and edges


def _draw_edges(ax: Axes, place: Floats, strengths: Strengths, players: Ints, most: int) -> float:
    """Draw the strongest edges, the strongest last, and return how strong that is."""
    among = strengths.values[:, players[:, None], players]
    i, j = np.triu_indices(len(players), 1)
    sizes = np.abs(among).mean(axis=0)[i, j]
    means = among.mean(axis=0)[i, j]
    strongest = float(sizes.max(initial=0.0))

    order = views.largest(sizes, most)[::-1]
    order = order[sizes[order] > 0]
    if not len(order):
        return strongest

    ends = np.stack((place[i[order]], place[j[order]]), axis=1)
    widths = WIDEST * sizes[order] / strongest
    hues = [sign_colour(mean) for mean in means[order]] if strengths.signed else INK
    opacity = 0.25 + 0.6 * widths / WIDEST
    ax.add_collection(
        LineCollection(list(ends), linewidths=widths, colors=hues, alpha=opacity, zorder=2)
    )
    return strongest


def _draw_nodes(ax: Axes, place: Floats, explanation: Explanation, players: Ints) -> Floats:
    """Draw the features' nodes, and return their radii in points, (n,)."""
    sizes = mean_sizes(explanation)
    means = explanation.values.mean(axis=0)

    biggest = min(LARGEST, (AROUND / len(players)) ** 2)
    area = biggest * sizes[players] / (sizes.max() or 1.0)
    hues = [sign_colour(mean) for mean in means[players]]
    x, y = place.T
    ax.scatter(x, y, np.maximum(area, SMALLEST), hues, edgecolors="white", zorder=3)
    return np.asarray(np.sqrt(area) / 2)


# Names, legend and limits


def _write_names(ax: Axes, place: Floats, names: list[str], radii: Floats) -> list[Annotation]:
    """Write each name outside the circle, clear of its node; many names along the radius."""
    crowded = len(names) > CROWDED
    texts = []
    for (x, y), name, radius in zip(place.tolist(), names, radii.tolist(), strict=True):
        away = radius + CLEAR
        horizontal, vertical = _alignment(x, y, crowded=crowded)
        text = ax.annotate(
            shorten(name, NODE_LETTERS),
            xy=(x, y),
            xytext=(away * x, away * y),
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            color=INK,
            size=SMALL,
            rotation=_radial_angle(x, y) if crowded else 0,
            rotation_mode="anchor",
        )
        texts.append(text)
    return texts


def _alignment(x: float, y: float, *, crowded: bool) -> tuple[str, str]:
    """Return the horizontal and vertical alignment that keeps a name outside the circle."""
    horizontal = "left" if _is_right(x) else "right"
    vertical = "center"
    if not crowded:
        # names above and below the circle stand in the middle over and under their nodes
        if abs(x) < 0.1:
            horizontal = "center"
        if abs(y) >= 0.9:
            vertical = "bottom" if y > 0 else "top"
    return horizontal, vertical


def _radial_angle(x: float, y: float) -> float:
    """Return the angle of a radius in degrees, turned so that text on it is not upside down."""
    angle = float(np.degrees(np.arctan2(y, x)))
    return angle if _is_right(x) else angle - 180


def _is_right(x: float) -> bool:
    """Return whether a point is on the right half of the circle; its top and bottom are."""
    return x >= -1e-9


def _set_limits(
    ax: Axes, place: Floats, texts: list[Annotation], radii: Floats, legend_height: float
) -> None:
    """Set limits so that all names, and below them the legend (in points), lie inside the axes.

    With S points to a unit, a name that needs n points beyond its node at x fits in W points if S
    |x| + n <= W / 2.
    """
    inches = 72 / ax.figure.dpi
    boxes = [text.get_window_extent() for text in texts]
    sizes = np.array([(box.width, box.height) for box in boxes]) * inches
    needs = sizes + radii[:, None] + CLEAR

    room = np.array([ax.bbox.width, ax.bbox.height]) * inches - (0, legend_height)
    scale = ((room / 2 - needs) / np.maximum(np.abs(place), 0.1)).min()
    scale = max(scale, room.min() / 8)  # names may leave a tiny plot, but something is drawn

    half_x, half_y = room / 2 / scale
    below = legend_height * 2 * half_y / room[1]
    ax.set(aspect="equal", xlim=(-half_x, half_x), ylim=(-half_y - below, half_y))


def _legend_marks(strengths: Strengths, strongest: float, largest: float) -> list[Line2D]:
    """Return the legend's entries for nodes and edges, with the largest of each as a measure."""
    size = format_number(largest, decimals(largest))
    strength = format_number(strongest, decimals(strongest))
    what = f"{strengths.kind} (strongest {strength})"

    nodes = [
        _node_mark(RAISES, f"raises the output (largest |Shapley value| {size})"),
        _node_mark(LOWERS, "lowers it"),
    ]
    if not strengths.signed:
        return [*nodes, _edge_mark(GREY, what)]
    return [*nodes, _edge_mark(RAISES, f"positive {what}"), _edge_mark(LOWERS, "negative")]


def _node_mark(colour: str, label: str) -> Line2D:
    return Line2D([], [], marker="o", linestyle="", color=colour, label=label)


def _edge_mark(colour: str, label: str) -> Line2D:
    return Line2D([], [], color=colour, linewidth=3, label=label)
