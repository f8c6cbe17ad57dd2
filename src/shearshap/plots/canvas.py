"""Axes, labels and the look that plots have in common."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from shearshap.plots import colours
from shearshap.plots.colours import FAINT, GREY, INK, LOWERS, PAPER, RAISES
from shearshap.plots.number_axes import LETTER, SMALL, number_axis
from shearshap.result.explanation import Explanation

LOW_TO_HIGH = LinearSegmentedColormap.from_list("low to high", colours.LOW_TO_HIGH)

#: values by their sign: nothing where they are 0
BY_SIGN = LinearSegmentedColormap.from_list("by sign", (LOWERS, PAPER, RAISES))

#: sizes without a sign
BY_SIZE = LinearSegmentedColormap.from_list("by size", (PAPER, "#4D4D4D"))

RGB = tuple[float, float, float]

SIGNS = {"raises the output": RAISES, "lowers the output": LOWERS}  #: what the two colours mean
NAME_LETTERS = 26  #: letters of a player's name, at most
CELL_LETTERS = 20  #: letters of a cell, at most


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes, or those of a new figure that has a size in inches and room for labels."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    return plt.figure(figsize=(width, height), layout=layout).add_subplot()


def tidy(ax: Axes, grid: Literal["x", "y", "both"]) -> None:
    """Leave only the bottom line of the frame, and a light grid along one axis or both."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=FAINT, linewidth=0.6)
    ax.tick_params(color=GREY, labelcolor=INK, labelsize=SMALL, length=3)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.label.set(color=INK, size=SMALL + 1)
    ax.yaxis.label.set(color=INK, size=SMALL + 1)


def number_axes(ax: Axes, which: Literal["x", "y", "both"]) -> None:
    """Write the numbers of axes in full, as many as there is room for."""
    if which in ("x", "both"):
        number_axis(ax.xaxis)
    if which in ("y", "both"):
        number_axis(ax.yaxis)


# What colours mean


def colour_key(ax: Axes, hues: Mapping[str, str], *, marker: str = "s") -> Legend:
    """Write below the x-axis and its label what colours mean, beside each other."""
    marks = [colour_mark(label, hue, marker) for label, hue in hues.items()]
    return key_below(ax, marks)


def key_below(ax: Axes, marks: Sequence[Line2D]) -> Legend:
    """Write a legend below the x-axis and its label, in one line if that has room for it."""
    widths = [0.9 * LETTER * SMALL * len(str(mark.get_label())) + 3 * SMALL for mark in marks]
    room = ax.bbox.width * 72 / ax.figure.dpi
    columns = len(marks) if sum(widths) <= 1.1 * room else int(room / max(widths))
    down = ScaledTranslation(0, -_points_below(ax) / 72, ax.figure.dpi_scale_trans)
    return ax.legend(
        handles=marks,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + down,
        ncols=min(max(1, columns), len(marks)),
        borderaxespad=0.0,
        **key_look(),
    )


def key_look() -> dict[str, Any]:
    """Return the options of `Axes.legend` that all legends have."""
    return {
        "frameon": False,
        "fontsize": SMALL,
        "labelcolor": INK,
        "handletextpad": 0.4,
        "columnspacing": 1.4,
    }


def colour_mark(label: str, hue: str, marker: str = "s") -> Line2D:
    """Return a legend's entry for a colour."""
    return Line2D([], [], marker=marker, linestyle="", color=hue, markersize=6, label=label)


def _points_below(ax: Axes) -> float:
    """Return how far the x-axis reaches down with its numbers and its label, in points."""
    ticks = 1.2 * SMALL + 8 if ax.xaxis.get_visible() else 4
    label = ax.get_xlabel()
    lines = label.count("\n") + 1 if label else 0
    return ticks + 4 + 1.25 * (SMALL + 1) * lines + 1


def colour_of(colours: ScalarMappable, number: float) -> RGB:
    """Return the colour of a number: red, green and blue from 0 to 1."""
    red, green, blue = colours.to_rgba(np.array([number]))[0, :3].tolist()
    return red, green, blue


def ink_on(colour: RGB) -> str:
    """Return the colour of text that can be read on a colour: white on a dark one."""
    red, green, blue = colour
    brightness = 0.299 * red + 0.587 * green + 0.114 * blue  # as the eye sees it
    return "white" if brightness < 0.58 else INK


# Words


def label_lines(ax: Axes, labels: Sequence[str]) -> None:
    """Name the lines 0, 1, ... of a plot from the top down."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def write_numbers(ax: Axes, numbers: Sequence[str]) -> None:
    """Write numbers to the right of the lines 0, 1, ... of a plot."""
    for line, text in enumerate(numbers):
        ax.annotate(
            text,
            xy=(1, line),
            xytext=(6, 0),
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            color=INK,
            size=SMALL,
            annotation_clip=False,
        )


def player_label(
    name: str, cell: str, letters: int = NAME_LETTERS, cell_letters: int = CELL_LETTERS
) -> str:
    """Return "name = cell", or the name alone where the cell is not known or says the same."""
    if cell in ("", name):
        return shorten(name, letters)
    return f"{shorten(name, letters)} = {shorten(cell, cell_letters)}"


def shorten(text: str, letters: int = NAME_LETTERS) -> str:
    """Return a text on one line; a long one has an ellipsis after two thirds of its letters.

    Dollar signs are escaped, as matplotlib would read what is between two of them as mathematics.
    """
    line = " ".join(text.split())
    if len(line) > letters:
        head = ceil(2 * (letters - 1) / 3)
        tail = letters - 1 - head
        line = f"{line[:head].rstrip()}…{line[-tail:].lstrip()}"
    return line.replace("$", r"\$")


def axis_label(
    explanation: Explanation,
    what: str,
    *,
    left_out: int = 0,
    intervals: bool = False,
    letters: int = 40,
) -> str:
    """Return what an axis shows, its output if that has a name, and how many players are left out.

    Parameters
    ----------
    explanation
        Of one output, whose name has at most `letters` letters in the label.
    what
        The first words.
    left_out
        How many players the plot does not show.
    intervals
        Whether the plot shows intervals.
    letters
        See `explanation`.
    """
    first = f"{what}, with 95 % intervals" if intervals else what
    lines = [first]

    name = explanation.output_names[0]
    if name != "output":
        lines.append(f"output: {shorten(name, letters)}")
    if left_out:
        lines.append(f"({left_out} smaller players not shown)")
    return "\n".join(lines)
