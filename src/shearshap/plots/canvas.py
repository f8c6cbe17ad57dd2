"""Axes, labels and the look that plots have in common."""

from collections.abc import Sequence
from math import ceil
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.layout_engine import ConstrainedLayoutEngine

from shearshap import colours
from shearshap.colours import FAINT, GREY, INK
from shearshap.explanation import Explanation

LOW_TO_HIGH = LinearSegmentedColormap.from_list("low to high", colours.LOW_TO_HIGH)
SMALL = 9  #: points: the size of labels
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


def player_label(name: str, cell: str) -> str:
    """Return "name = cell", or the name alone where the cell is not known."""
    if not cell:
        return shorten(name)
    return f"{shorten(name)} = {shorten(cell, CELL_LETTERS)}"


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
