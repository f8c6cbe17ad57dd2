"""A row from its base value to its prediction: as steps, or as one strip."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from shearshap.plots.bar import THICKNESS, WHISKER
from shearshap.plots.canvas import (
    LETTER,
    SIGNS,
    SMALL,
    axes_of,
    axis_label,
    colour_key,
    colour_mark,
    key_below,
    label_lines,
    number_axes,
    player_label,
    positive_count,
    row_number,
    single_output,
    tidy,
    write_numbers,
)
from shearshap.result import views
from shearshap.result.colours import GREY, INK, LOWERS, RAISES
from shearshap.result.explanation import Explanation
from shearshap.result.text import decimals, format_end, format_estimate

HALF = 0.8  #: half the height of the strip, in lines of text
GAP_LINES = 1.0  #: lines of text between the strip and the first name
LINE = 0.2  #: inches: the height of a line of text


def waterfall(
    explanation: Explanation, *, row: int = 0, max_players: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how the features' values lead from a row's base value to its prediction.

    The largest come first. The features beyond `max_players` are summed as "n others". Whiskers and
    ± are 95 % intervals of the single values. A sum has none, as it is not known how the errors of
    its parts go together. What the values miss of the prediction, if anything, is a bar of its
    own, the gap.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    row
        Which of the explanation's rows.
    max_players
        How many features to show one by one; a single one beyond is shown too.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "waterfall")
    row = row_number(explanation, row)
    most = positive_count("max_players", max_players)
    view = views.waterfall(explanation, row, most)

    ax = axes_of(ax, 6.4, 1.2 + 0.3 * (len(view.steps) + 2))
    ax.use_sticky_edges = False
    _draw_steps(ax, view)

    steps = [player_label(step.name, step.cell) for step in view.steps]
    label_lines(ax, ["base value", *steps, "prediction"])
    write_numbers(ax, view.numbers)

    intervals = any(step.margin > 0 for step in view.steps)
    label = axis_label(explanation, "from base value to prediction", intervals=intervals)
    ax.set_xlabel(label)
    tidy(ax, "x")
    number_axes(ax, "x")
    colour_key(ax, SIGNS)
    return ax


def _draw_steps(ax: Axes, view: views.Waterfall) -> None:
    """Draw the steps on lines 1, 2, ..., between the base value on line 0 and the prediction."""
    lines = np.arange(1, len(view.steps) + 1)
    last = len(view.steps) + 1
    step_colours = [step.colour for step in view.steps]
    ax.barh(lines, view.sizes, left=view.starts, height=THICKNESS, color=step_colours, zorder=2)

    # a thin line leads from the end of each step to the start of the next
    ends = np.array([view.base, *view.ends])
    ax.vlines(ends, np.arange(last), np.arange(1, last + 1), color=GREY, linewidth=0.8, zorder=1)

    margins = np.array([step.margin for step in view.steps])
    known = margins > 0
    if known.any():
        ax.errorbar(ends[1:][known], lines[known], xerr=margins[known], zorder=3, **WHISKER)

    ax.plot([view.base, view.prediction], [0, last], "D", color=INK, markersize=4, zorder=3)


# One strip


@dataclass(frozen=True)
class _Piece:
    """A part of the strip."""

    start: float  #: nearer to the prediction
    end: float
    label: str

    @property
    def middle(self) -> float:
        """Where the thin line to the name begins."""
        return (self.start + self.end) / 2

    @property
    def letters_width(self) -> float:
        """About how wide the name is, in points."""
        return 0.9 * LETTER * SMALL * len(self.label) + 8


@dataclass(frozen=True)
class _Side:
    """The pieces of one sign, the largest first, and where their names stand."""

    pieces: tuple[_Piece, ...]
    colour: str
    away: Literal[1, -1]  #: names above the strip, or below

    def overflow(self, low: float, high: float, width: float, towards: int) -> float:
        """Return how far names to the right (1) or left (-1) leave axes, in points."""
        points = width / (high - low)
        rooms = [
            (high - piece.middle if towards > 0 else piece.middle - low) * points
            for piece in self.pieces
        ]
        needs = [piece.letters_width for piece in self.pieces]
        return max((need - room for need, room in zip(needs, rooms, strict=True)), default=0.0)


def force(
    explanation: Explanation, *, row: int = 0, max_players: int = 8, ax: Axes | None = None
) -> Axes:
    """Draw a row as one strip: what raises the output on the left, what lowers it on the right.

    Both meet at the prediction, the largest values nearest to it. The strip begins as far below the
    base value as all that lowers the output, so that lengths are values.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    row
        Which of the explanation's rows.
    max_players
        How many features to show one by one; a single one beyond is shown too.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "force")
    row = row_number(explanation, row)
    view = views.waterfall(explanation, row, positive_count("max_players", max_players))
    below = _side(view, RAISES, -1)
    above = _side(view, LOWERS, 1)

    lines = len(below.pieces) + len(above.pieces)
    ax = axes_of(ax, 7.2, 1.35 + LINE * (2 * HALF + 2 * GAP_LINES + lines))
    low, high = _limits(view, below, above)
    for side in (below, above):
        _draw_pieces(ax, side)
        low, high = _write_names(ax, side, low, high)

    ax.plot([view.prediction], [0], "D", color=INK, markersize=7, markeredgecolor="white", zorder=5)
    ax.plot([view.base], [0], "D", color="white", markersize=6, markeredgecolor=INK, zorder=4)
    ax.set_xlim(low, high)
    ax.set_ylim(
        -HALF - GAP_LINES - len(below.pieces) + 0.4, HALF + GAP_LINES + len(above.pieces) - 0.4
    )
    ax.set_yticks([])
    ax.set_xlabel(axis_label(explanation, "from base value to prediction"))
    tidy(ax, "x")
    ax.grid(visible=False)  # its lines would cross names
    number_axes(ax, "x")
    key_below(ax, _marks(view))
    return ax


def _side(view: views.Waterfall, colour: str, away: Literal[1, -1]) -> _Side:
    """Return the pieces that raise the output, below the strip, or lower it, above."""
    towards = -away  # what raises is below the strip, and left of the prediction
    steps = [step for step in view.steps if step.size * towards > 0]
    steps.sort(key=lambda step: -abs(step.size))
    ends = view.prediction + away * np.cumsum([0.0, *(abs(step.size) for step in steps)])

    places = decimals(view.sizes)
    labels = [
        f"{_short_label(step)}  {format_estimate(step.size, step.margin, places)}" for step in steps
    ]
    pieces = [
        _Piece(float(start), float(end), label)
        for (start, end), label in zip(pairwise(ends), labels, strict=True)
    ]
    return _Side(tuple(pieces), colour, away)


def _short_label(step: views.Step) -> str:
    """Return a name that leaves room for the strip."""
    return player_label(step.name, step.cell, letters=20, cell_letters=14)


def _limits(view: views.Waterfall, *sides: _Side) -> tuple[float, float]:
    """Return where the x-axis begins and ends for the strip alone."""
    marks = [view.base, view.prediction]
    ends = [piece.end for side in sides for piece in side.pieces]
    low = min(*marks, *ends)
    high = max(*marks, *ends)
    margin = 0.03 * (high - low) or max(0.1, 0.1 * abs(low))
    return low - margin, high + margin


def _draw_pieces(ax: Axes, side: _Side) -> None:
    """Draw the pieces of one sign, apart by white lines."""
    starts = [min(piece.start, piece.end) for piece in side.pieces]
    sizes = [abs(piece.end - piece.start) for piece in side.pieces]
    ax.barh(
        [0.0] * len(sizes),
        sizes,
        left=starts,
        height=2 * HALF,
        color=side.colour,
        edgecolor="white",
        linewidth=0.8,
        zorder=2,
    )


def _write_names(ax: Axes, side: _Side, low: float, high: float) -> tuple[float, float]:
    """Write the names of pieces, and return limits between which all of them fit.

    Names go to the side that has more room for them. They go to the right of their thin lines in
    the order from the right, so that no line crosses a name, and the other way round.
    """
    width = ax.bbox.width * 72 / ax.figure.dpi
    towards = min((1, -1), key=lambda way: side.overflow(low, high, width, way))
    order = sorted(side.pieces, key=lambda piece: -towards * piece.middle)
    for number, piece in enumerate(order):
        height = side.away * (HALF + GAP_LINES + number)
        ends = [side.away * HALF, height]
        ax.plot([piece.middle] * 2, ends, color=GREY, linewidth=0.8, zorder=1)
        ax.annotate(
            piece.label,
            xy=(piece.middle, height),
            xytext=(4 * towards, 0),
            textcoords="offset points",
            ha="left" if towards > 0 else "right",
            va="center",
            color=INK,
            size=SMALL,
        )
    return _widened(order, towards, low, high, width)


def _widened(
    pieces: list[_Piece], towards: int, low: float, high: float, width: float
) -> tuple[float, float]:
    """Return limits between which names fit into axes that are `width` points wide.

    A name of w points at x fits to the right if (high - x) / (high - low) >= w / width.
    """
    for piece in pieces:
        part = min(0.6, piece.letters_width / width)
        if towards > 0:
            high = max(high, (piece.middle - part * low) / (1 - part))
        else:
            low = min(low, (piece.middle - part * high) / (1 - part))
    return low, high


def _marks(view: views.Waterfall) -> list[Line2D]:
    """Return the legend's entries: the two ends with their numbers, and the colours."""
    prediction = colour_mark(f"prediction {format_end(view.prediction, view.sizes)}", INK, "D")
    base = colour_mark(f"base value {format_end(view.base, view.sizes)}", "white", "D")
    base.set_markeredgecolor(INK)
    raises = colour_mark("raises the output", RAISES)
    lowers = colour_mark("lowers it", LOWERS)
    return [base, prediction, raises, lowers]
