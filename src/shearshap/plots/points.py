"""Drawing of points, one for every row: dots, their colours, and the room that they have."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colorbar import Colorbar
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from shearshap.colours import GREY, INK
from shearshap.explanation import Floats
from shearshap.plots.canvas import CELL_LETTERS, LOW_TO_HIGH, SMALL, shorten

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
    ax: Axes, dots: PathCollection, label: str, extend: str = "neither"
) -> Colorbar:
    """Draw a bar of the points' colours beside the axes, without their transparency."""
    opaque = ScalarMappable(norm=dots.norm, cmap=dots.cmap)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    bar = ax.figure.colorbar(opaque, ax=ax, aspect=30, pad=0.02, extend=extend, ticks=ticks)

    bar.outline.set_visible(False)
    bar.ax.tick_params(color=GREY, labelcolor=INK, labelsize=SMALL, length=2)
    bar.set_label(label, color=INK, size=SMALL)
    return bar


def draw_legend(ax: Axes, title: str, hues: Mapping[str, str]) -> None:
    """Write beside the axes which category has which colour."""
    marks = [_mark(shorten(category, CELL_LETTERS), hue) for category, hue in hues.items()]
    ax.legend(
        handles=marks,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
        fontsize=SMALL,
        title_fontproperties={"size": SMALL},
        labelcolor=INK,
        alignment="left",
        handletextpad=0.2,
    )


def _mark(label: str, hue: str) -> Line2D:
    return Line2D([], [], marker="o", linestyle="", color=hue, markersize=5, label=label)
