"""Drawing of points, one for every row: dots, their colours, and the room that they have."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colorbar import Colorbar

from shearshap.plots.canvas import CELL_LETTERS, LOW_TO_HIGH, colour_mark, key_look, shorten
from shearshap.plots.colours import GREY, INK
from shearshap.plots.number_axes import SMALL, number_axis
from shearshap.result.explanation import Floats

DOT = 4.0  #: points: the diameter
MANY = 5_000  #: points beyond which a vector graphic holds them as one picture
HALF_SWARM = 0.42  #: half the width of a swarm, relative to the distance between two


def room(ax: Axes, swarms: int, *, horizontal: bool) -> tuple[int, float]:
    """Return how many dots fit along the values, and how many across a swarm.

    Swarms are horizontal, one below the other, or stand side by side.
    """
    box = ax.get_window_extent()
    along, across = (box.width, box.height) if horizontal else (box.height, box.width)
    dot = DOT * ax.figure.dpi / 72

    bins = int(0.9 * along / dot)
    levels = 2 * HALF_SWARM * across / swarms / dot
    return max(1, bins), max(1.0, levels)


def draw_numbers(
    ax: Axes, x: Floats, y: Floats, numbers: Floats, limits: tuple[float, float]
) -> PathCollection:
    """Draw points that are coloured by numbers between limits; grey ones without a number first."""
    known = ~np.isnan(numbers)
    look = dot_look(len(x))
    if not known.all():
        ax.scatter(x[~known], y[~known], color=GREY, zorder=2, **look)

    low, high = limits
    return ax.scatter(
        x[known],
        y[known],
        c=numbers[known],
        cmap=LOW_TO_HIGH,
        vmin=low,
        vmax=high,
        zorder=3,
        **look,
    )


def dot_look(points: int) -> dict[str, Any]:
    """Return the options of `Axes.scatter` for this number of points."""
    return {"s": DOT**2, "linewidths": 0, "alpha": 0.85, "rasterized": points > MANY}


def draw_colour_bar(
    ax: Axes,
    coloured: ScalarMappable,
    label: str,
    extend: str = "neither",
    *,
    pad: float = 0.02,
    as_high: bool = False,
) -> Colorbar:
    """Draw a bar of colours beside the axes, without the transparency of what is drawn in them.

    With `as_high` it is as high as a picture whose pixels are squares, which may not fill its axes.
    """
    opaque = ScalarMappable(norm=coloured.norm, cmap=coloured.cmap)
    if as_high:
        beside = ax.inset_axes((1.04, 0.0, 0.05, 1.0))
        bar = ax.figure.colorbar(opaque, cax=beside, extend=extend)
    else:
        bar = ax.figure.colorbar(opaque, ax=ax, aspect=30, pad=pad, extend=extend)
    number_axis(bar.ax.yaxis, most=5)

    bar.outline.set_visible(False)
    bar.ax.tick_params(color=GREY, labelcolor=INK, labelsize=SMALL, length=2)
    bar.set_label(label, color=INK, size=SMALL)
    return bar


def draw_legend(ax: Axes, title: str, hues: Mapping[str, str]) -> None:
    """Write beside the axes which category has which colour."""
    marks = [
        colour_mark(shorten(category, CELL_LETTERS), hue, "o") for category, hue in hues.items()
    ]
    legend = ax.legend(
        handles=marks,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1, 1),
        title_fontproperties={"size": SMALL},
        alignment="left",
        **key_look(),
    )
    legend.get_title().set_color(INK)
