"""Features that act together: as a matrix of pairs, or as a network on a circle."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.plots.canvas import Row
from shearshap.plots.words import scaled, type_size
from shearshap.result import views
from shearshap.result.cells import by_word, has_places
from shearshap.result.colours import GREY, INK, LOWERS, RAISES, SIZES, sign_colour
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes, student_quantile
from shearshap.result.text import decimals, format_number, format_numbers
from shearshap.result.views import Edges, Ints, Strengths

HATCH = "////"
MAX_NUMBERED = 10  #: features up to which cells of pairs have numbers
MAX_EDGES = 15  #: the strongest pairs, drawn as edges
WEAKEST = 0.1  #: an edge that is drawn, relative to the strongest
WIDEST = 9.0  #: points: the width of the strongest edge
MAX_NODE_AREA = 1200.0  #: square points: the area of the largest node
MIN_NODE_AREA = 6.0  #: square points: the area of a node with value 0
CLEAR = 4.0  #: points between a node and its name
MAX_NODES = 14  #: names of more would overlap


@canvas.plot
def interactions(
    explanation: Explanation,
    *,
    row: Row | None = None,
    max_features: int = 12,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw what features add alone and in pairs, as a matrix.

    The diagonal shows what a feature adds alone, other cells what two features add only together:
    orange raises the output, blue lowers it. The 95 % interval of a hatched cell contains 0. Over
    all rows, cells are means. Cross-contributions have no sign: cells are violet, and the diagonal
    is empty.

    Parameters
    ----------
    explanation
        With one output, and `interactions` or `cross_contribution`.
    row
        Which row; None: the mean of all.
    max_features
        How many features to show: those with the largest values.
    """
    most = canvas.positive_count("max_features", max_features)
    # interactions first: they have main effects for the diagonal
    kinds: tuple[Edges, ...] = ("interactions", "cross-contribution")
    explanation = canvas.single_output(explanation, "interactions")
    some, strengths = _with_strengths(explanation, "interactions", row, most, kinds)
    sizes = mean_sizes(some)
    players = views.largest(sizes, most)
    cells: Floats = strengths.values[:, players[:, None], players].mean(axis=0)
    if not strengths.signed:
        np.fill_diagonal(cells, np.nan)

    side = 0.52 * len(players)
    room = min(words.name_room(ax), scaled(180))
    names = words.fitted_names([some.feature_names[player] for player in players], room)
    ax = canvas.axes_of(ax, 3.4 + side, max(3.4, 2.4 + side), names, texts=True)
    coloured = canvas.draw_cells(ax, cells, aspect="equal", signed=strengths.signed)
    _name_both_sides(ax, names)
    doubtful = _may_be_zero(some, strengths, cells, players)
    _hatch_cells(ax, doubtful)
    if len(players) <= MAX_NUMBERED:
        _write_cells(ax, cells, coloured)

    if row is None:
        words.write_title(ax, title, explanation)
    else:
        words.write_title(ax, title, some, 0)
    left_out = len(sizes) - len(players)
    what = "means over the rows" if len(some) > 1 else ""
    key = "hatched: the 95 % interval contains 0" if doubtful.any() else ""
    label = words.axis_label(ax, some, what, left_out=left_out)
    ax.set_xlabel("\n".join(filter(None, (label, key))))
    signed = strengths.signed
    of_one = "main effect" if some.interaction_index in (None, "k-SII") else "single feature"
    label = f"{of_one} (diagonal)\nand interaction" if signed else strengths.kind
    canvas.draw_colour_bar(ax, coloured, label, signed=signed)
    return canvas.finished(ax, show=show)


def _with_strengths(
    explanation: Explanation, plot: str, row: Row | None, most: int, kinds: Sequence[Edges]
) -> tuple[Explanation, Strengths]:
    """Return the explanation of one output, and how strongly its features act together.

    It has one row, or all. The features of texts are the `most` largest words.
    """
    explanation = canvas.single_output(explanation, plot)
    if row is not None:
        explanation = views.of_row(explanation, canvas.row_number(explanation, row))
    if has_places(explanation):
        explanation = by_word(explanation, most)
    strengths = views.strengths(explanation, kinds)
    if strengths is None:
        raise InputError(
            f"{plot}: this explanation has no {' or '.join(kinds)}; explain with interactions=True"
        )
    return explanation, strengths


def _may_be_zero(
    explanation: Explanation, strengths: Strengths, cells: Floats, players: Ints
) -> NDArray[np.bool_]:
    """Return which cells have an interval that holds 0, (n, n); rows may err together."""
    errors = explanation.interaction_errors
    if errors is None or not strengths.signed:
        return np.zeros(cells.shape, dtype=bool)
    error = errors[:, players[:, None], players].mean(axis=0)
    margin = student_quantile(0.95, explanation.degrees_of_freedom) * error
    return np.asarray((margin > 0) & (np.abs(cells) <= margin))


def _hatch_cells(ax: Axes, chosen: NDArray[np.bool_]) -> None:
    for line, place in np.argwhere(chosen).tolist():
        corner = (place - 0.5, line - 0.5)
        hatched = Rectangle(
            corner,
            1,
            1,
            fill=False,
            hatch=HATCH,
            edgecolor=GREY,
            alpha=0.5,
            linewidth=0,
            zorder=2.5,
        )
        ax.add_patch(hatched)


def _name_both_sides(ax: Axes, names: list[str]) -> None:
    """Name the lines of a matrix on the left, and its columns on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(names)), names, rotation=45, ha="left", rotation_mode="anchor")
    ax.set_xlim(-0.5, len(names) - 0.5)


def _write_cells(ax: Axes, cells: Floats, coloured: ScalarMappable) -> None:
    """Write the numbers into cells, white on dark colours."""
    places = decimals(np.nan_to_num(cells))
    hues = coloured.to_rgba(cells).tolist()
    for (line, place), number in np.ndenumerate(cells):
        if np.isnan(number):
            continue
        ax.text(
            place,
            line,
            format_number(float(number), places),
            ha="center",
            va="center",
            color=canvas.ink_on(hues[line][place]),
            size=type_size(-2),
        )


# The network


@canvas.plot
def cooperators(
    explanation: Explanation,
    *,
    row: Row | None = None,
    edges: Edges | None = None,
    max_features: int = 14,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw the features on a circle, and between them how strongly they act together.

    A node's area is |value| and its colour the value's sign; an edge's width is the
    cross-contribution (violet), or the |interaction| with the colour of its sign. Over all rows,
    sizes and widths are means of absolute values, and colours the sign of the mean.

    Parameters
    ----------
    explanation
        With one output, and `cross_contribution` or `interactions`.
    row
        Which row; None: all of them.
    edges
        "cross-contribution" or "interactions"; None: the first of the two that there is.
    max_features
        How many features to show, up to 14: the largest. Up to 15 edges are drawn, those with at
        least a tenth of the strongest edge's strength.
    """
    if edges not in (None, "cross-contribution", "interactions"):
        raise InputError(
            f"edges: expected 'interactions', 'cross-contribution' or None, got {edges!r}"
        )
    most = min(canvas.positive_count("max_features", max_features), MAX_NODES)
    kinds: tuple[Edges, ...] = ("cross-contribution", "interactions")
    if edges is not None:
        kinds = (edges,)
    explanation, strengths = _with_strengths(explanation, "cooperators", row, most, kinds)
    sizes = mean_sizes(explanation)
    players = np.sort(views.largest(sizes, most))
    room = 0.5 * words.name_room(ax)
    names = words.fitted_names([explanation.feature_names[player] for player in players], room)

    beside = max(map(words.text_width, names)) / 72
    ax = canvas.axes_of(ax, 5.2 + 2 * beside, 6.4)
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(players)) / len(players)
    place = np.column_stack((np.cos(angles), np.sin(angles)))  # from the top, clockwise
    strongest, hues = _draw_edges(ax, place, strengths, players)
    radii = _draw_nodes(ax, place, explanation, players)

    _write_names(ax, place, names, radii)
    ax.axis("off")
    ax.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    marks = _legend_marks(explanation, players, strengths.kind, strongest, hues)
    look = canvas.key_look()
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.06), **look)
    # above the name of the first node
    words.write_title(ax, title, explanation, None if row is None else 0, pad=2.5 * type_size())
    return canvas.finished(ax, show=show)


# Nodes and edges


def _draw_edges(
    ax: Axes, place: Floats, strengths: Strengths, players: Ints
) -> tuple[float, list[str]]:
    """Draw the strongest edges, the strongest last; return how strong that is, and all colours."""
    among = strengths.values[:, players[:, None], players]
    i, j = np.triu_indices(len(players), 1)
    sizes = np.abs(among).mean(axis=0)[i, j]
    means = among.mean(axis=0)[i, j]
    strongest = float(sizes.max(initial=0.0))

    order = views.largest(sizes, MAX_EDGES)[::-1]
    order = order[sizes[order] > WEAKEST * strongest]
    if not len(order):
        return strongest, []

    ends = np.stack((place[i[order]], place[j[order]]), axis=1)
    relative = sizes[order] / strongest
    hues = [sign_colour(mean) if strengths.signed else SIZES for mean in means[order]]
    opacity = 0.1 + 0.75 * relative
    widths = scaled(WIDEST) * relative
    ax.add_collection(
        LineCollection(list(ends), linewidths=widths, colors=hues, alpha=opacity, zorder=2)
    )
    return strongest, hues


def _draw_nodes(ax: Axes, place: Floats, explanation: Explanation, players: Ints) -> Floats:
    """Draw the features' nodes, and return their radii in points, (n,)."""
    sizes = mean_sizes(explanation)
    means = explanation.values.mean(axis=0)

    area = MAX_NODE_AREA * sizes[players] / (sizes.max() or 1.0)
    hues = [sign_colour(mean) for mean in means[players]]
    x, y = place.T
    area_shown = np.maximum(area, MIN_NODE_AREA)
    ax.scatter(x, y, area_shown, hues, edgecolors="white", zorder=3, clip_on=False)
    return np.asarray(np.sqrt(area) / 2)


# Names and legend


def _write_names(ax: Axes, place: Floats, names: list[str], radii: Floats) -> None:
    """Write each name outside the circle, clear of its node."""
    for (x, y), name, radius in zip(place.tolist(), names, radii.tolist(), strict=True):
        away = radius + CLEAR
        # names above and below the circle stand in the middle over and under their nodes
        horizontal = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        vertical = "center" if abs(y) < 0.9 else "bottom" if y > 0 else "top"
        ax.annotate(
            name,
            xy=(x, y),
            xytext=(away * x, away * y),
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            color=INK,
            size=type_size(),
        )


def _legend_marks(
    explanation: Explanation, players: Ints, kind: str, strongest: float, hues: list[str]
) -> list[Line2D]:
    """Return the legend's entries for nodes and edges, with the largest of each as a measure."""
    size, strength = (format_numbers([n])[0] for n in (mean_sizes(explanation).max(), strongest))
    value = "|value|" if len(explanation) == 1 else "mean |value|"
    signs = [sign_colour(mean) for mean in explanation.values.mean(axis=0)[players].tolist()]
    nodes = {f"area: {value}, largest {size}": GREY}
    nodes |= {name: hue for hue, name in canvas.SIGNS.items() if hue in signs}
    edges = {f"width: {kind}, largest {strength}": SIZES if SIZES in hues else GREY}
    names = {RAISES: "raise the output together", LOWERS: "lower it together"}
    edges |= {name: hue for hue, name in names.items() if hue in hues}
    return [canvas.colour_mark(name, hue, "o") for name, hue in nodes.items()] + [
        Line2D([], [], color=hue, linewidth=3, label=name) for name, hue in edges.items()
    ]
