"""The network of players: who acts together, and how strongly."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from shearshap.digits import decimals, written
from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats
from shearshap.plots.canvas import (
    GREY,
    INK,
    LOWERS,
    RAISES,
    SMALL,
    Ints,
    axes_of,
    checked_count,
    checked_row,
    largest,
    one_output,
    shorten,
    sign_colours,
)

Edges = Literal["cross-contribution", "interactions"]

_WIDEST, _LARGEST = 7.0, 900.0  #: points of the strongest edge; square points of the largest node
_AROUND = 600.0  #: points around the circle that all nodes together may take
_CLEAR = 4.0  #: points between a node and its name
_CROWDED = 14  #: players from which on names are written along the radius


@dataclass(frozen=True, eq=False)
class Strengths:
    """How strongly players act together."""

    kind: str  #: what it is called
    strength: Floats  #: (r, p, p)
    signed: bool  #: whether its sign says something


def strengths(one: Explanation, edges: Edges | None = None) -> Strengths | None:
    """Return the cross-contribution or interactions of an explanation, the first that it has, or
    None.
    """
    if edges not in (None, "cross-contribution", "interactions"):
        raise InputError(
            f"edges: wanted 'cross-contribution', 'interactions' or None, got {edges!r}"
        )
    if one.cross_contribution is not None and edges != "interactions":
        return Strengths("cross-contribution", one.cross_contribution, signed=False)
    if one.interactions is not None and edges != "cross-contribution":
        return Strengths("interaction", one.interactions, signed=True)
    return None


def cooperators(
    explanation: Explanation,
    *,
    row: int | None = None,
    edges: Edges | None = None,
    max_players: int = 20,
    max_edges: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the players on a circle, and between them how strongly they act together.

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
        How many players to show, the largest.
    max_edges
        How many edges to show, the strongest.
    ax
        Where to draw; None: a new figure.
    """
    one = one_output(explanation, "cooperators")
    one = one if row is None else one[checked_row(one, row)]
    count, found = checked_count("max_edges", max_edges), strengths(one, edges)
    if found is None:
        raise InputError(
            f"cooperators: this explanation has no {edges or 'interactions'}; explain with "
            "interactions=True"
        )
    sizes, means = np.abs(one.values).mean(axis=0), one.values.mean(axis=0)
    # in the players' own order, so that two rows' networks can be compared
    kept = np.sort(largest(sizes, checked_count("max_players", max_players)))
    ax = _whole_figure() if ax is None else ax
    place = _circle(len(kept))
    strongest = _draw_edges(ax, place, found, kept, count)
    biggest = min(_LARGEST, (_AROUND / len(kept)) ** 2)
    area = biggest * sizes[kept] / (sizes.max() or 1.0)
    ax.scatter(
        place[:, 0],
        place[:, 1],
        np.maximum(area, 6),
        sign_colours(means[kept]),
        edgecolors="white",
        zorder=3,
    )
    texts = _names(ax, place, [one.feature_names[player] for player in kept], np.sqrt(area) / 2)
    marks = _marks(found, strongest, float(sizes.max()))
    ax.legend(handles=marks, loc="lower center", frameon=False, fontsize=SMALL, labelcolor=INK)
    _fit(ax, place, texts, np.sqrt(area) / 2, below=(1 + len(marks)) * 1.5 * SMALL)
    ax.axis("off")
    return ax


def _whole_figure() -> Axes:
    """Return the axes of a new figure, all of it: names and legend find their place inside."""
    ax = axes_of(None, 5.6, 5.2)
    ax.set_position((0.02, 0.02, 0.96, 0.96))
    return ax


def _circle(count: int) -> Floats:
    """Return points (n, 2) on a circle, the first on top, clockwise."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.column_stack((np.cos(angle), np.sin(angle)))


def _draw_edges(ax: Axes, place: Floats, found: Strengths, kept: Ints, count: int) -> float:
    """Draw the strongest edges, the strongest last, and return how strong that is."""
    among = found.strength[:, kept[:, None], kept]
    i, j = np.triu_indices(len(kept), 1)
    size, mean = np.abs(among).mean(axis=0)[i, j], among.mean(axis=0)[i, j]
    order = largest(size, count)[::-1]
    order = order[size[order] > 0]
    strongest = float(size.max(initial=0.0))
    widths = _WIDEST * size[order] / (strongest or 1.0)
    colours = sign_colours(mean[order]) if found.signed else INK
    shade = np.clip(0.25 + 0.6 * widths / _WIDEST, 0, 1)
    ends = np.stack((place[i[order]], place[j[order]]), axis=1)
    if len(order):
        ax.add_collection(
            LineCollection(list(ends), linewidths=widths, colors=colours, alpha=shade, zorder=2)
        )
    return strongest


def _names(ax: Axes, place: Floats, names: list[str], radii: Floats) -> list[Annotation]:
    """Write each name outside the circle, clear of its node; where there are many, along the
    radius.
    """
    crowded, texts = len(names) > _CROWDED, []
    for (x, y), name, radius in zip(place.tolist(), names, radii.tolist(), strict=True):
        away, angle = radius + _CLEAR, np.degrees(np.arctan2(y, x))
        side = "center" if abs(x) < 0.1 and not crowded else "left" if x >= -1e-9 else "right"
        text = ax.annotate(
            shorten(name, 18), (x, y), (away * x, away * y), textcoords="offset points", ha=side,
            va="center" if abs(y) < 0.9 or crowded else "bottom" if y > 0 else "top", color=INK, size=SMALL,
            rotation=(angle if x >= -1e-9 else angle - 180) if crowded else 0, rotation_mode="anchor",
        )  # fmt: skip
        texts.append(text)
    return texts


def _fit(ax: Axes, place: Floats, texts: list[Annotation], radii: Floats, *, below: float) -> None:
    """Set limits so that all names, and the legend `below` in points, lie inside the axes.

    With S points to a unit, a name that needs n points beyond its node at x fits in W points if S
    |x| + n <= W / 2.
    """
    inches = 72 / ax.figure.dpi
    boxes = [text.get_window_extent() for text in texts]
    sizes = np.array([(box.width, box.height) for box in boxes]) * inches
    needs = sizes + radii[:, None] + _CLEAR
    room = np.array([ax.bbox.width, ax.bbox.height]) * inches - (0, below)
    scale = ((room / 2 - needs) / np.maximum(np.abs(place), 0.1)).min()
    half_x, half_y = (
        room / 2 / max(scale, room.min() / 8)
    )  # in a tiny plot names may leave, but something is drawn
    ax.set(
        aspect="equal",
        xlim=(-half_x, half_x),
        ylim=(-half_y - below * 2 * half_y / room[1], half_y),
    )


def _marks(found: Strengths, strongest: float, largest: float) -> list[Line2D]:
    """Return what a legend says of nodes and edges, with the largest of each as a measure."""
    size, strength = (
        written(number, decimals(np.array([number]))) for number in (largest, strongest)
    )

    def dot(colour: str, label: str) -> Line2D:
        return Line2D([], [], marker="o", linestyle="", color=colour, label=label)

    def edge(colour: str, label: str) -> Line2D:
        return Line2D([], [], color=colour, linewidth=3, label=label)

    what = f"{found.kind} (strongest {strength})"
    edges = (
        [edge(RAISES, f"positive {what}"), edge(LOWERS, "negative")]
        if found.signed
        else [edge(GREY, what)]
    )
    return [
        dot(RAISES, f"raises the output (largest |Shapley value| {size})"),
        dot(LOWERS, "lowers it"),
        *edges,
    ]
