"""Axes of the paper's figures: an empty panel, its scales and ticks, curves, clouds and notes."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    ScalarFormatter,
)
from numpy.typing import ArrayLike

from shearshap.report import Series
from shearshap.result.explanation import Floats
from shearshap_lab.experiments.style import GRID, INK, RANDOM, line_style
from shearshap_lab.experiments.summaries import Curve

Corner = Literal["upper left", "upper right", "lower left", "lower right"]

SIZE = (4.4, 3.3)  #: inches: two thirds of a phone's width, a third of a page's
SMALL = 9  #: points, the font size of notes and legends

#: ticks of an axis that is wider near 1, where methods differ
ACCURACIES = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1)
NEAR_1 = 3e-3  #: an accuracy within this of 1 is no longer stretched

POINTS = 400  #: the most points of a cloud
SMALLEST = 1e-16  #: drawn in place of an error of 0, which has no place on a log scale


def panel(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Return an empty figure of the usual size, and its axes."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    clean(axes)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure, axes


def clean(axes: Axes) -> None:
    """Take the frame away at the top and right, and put a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def legend(axes: Axes, corner: Corner) -> None:
    """Add a small legend without a frame."""
    axes.legend(loc=corner, fontsize=SMALL, frameon=False)


def note(axes: Axes, text: str, corner: Corner) -> None:
    """Write a note into a corner."""
    vertical, side = corner.split()
    x = {"left": 0.03, "right": 0.97}[side]
    y = {"upper": 0.97, "lower": 0.03}[vertical]
    alignment = {"upper": "top", "lower": "bottom"}[vertical]
    axes.text(
        x,
        y,
        text,
        transform=axes.transAxes,
        ha=side,
        va=alignment,
        fontsize=SMALL,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2},
    )


# Scales and ticks


def evaluation_ticks(axes: Axes, n: Sequence[int]) -> None:
    """Make the horizontal axis logarithmic, with a tick at every number of evaluations."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(n)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())


def log_ticks(axis: Axis) -> None:
    """Give a logarithmic axis as many ticks as can be read."""
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    decades = float(np.log10(high / low))
    if decades >= 3:
        axis.set_major_locator(LogLocator(numticks=7))
        return

    # Powers of ten alone would be too few: add steps between them.
    steps = (1, 2, 5) if decades < 1.5 else (1, 3)
    ticks = _inside(_multiples_of_powers(steps, low, high), low, high)
    if len(ticks) < 3:
        ticks = _inside(np.asarray(MaxNLocator(4).tick_values(low, high)), low, high)
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _multiples_of_powers(steps: Sequence[int], low: float, high: float) -> Floats:
    """Return the steps times every power of ten around an interval, in order."""
    first = np.floor(np.log10(low))
    last = np.ceil(np.log10(high))
    powers = 10.0 ** np.arange(first, last + 1)
    return np.sort(np.outer(steps, powers).ravel())


def _inside(ticks: Floats, low: float, high: float) -> Floats:
    return ticks[(ticks >= low) & (ticks <= high)]


def stretch_accuracies(axes: Axes, which: Literal["x", "y"] = "y") -> None:
    """Make an axis wider near 1: logarithmic in what is missing from 1."""

    def stretched(accuracy: Floats) -> Floats:
        # NEAR_1 keeps an accuracy of 1 finite, and one just above it, inside the margin, too.
        missing = np.maximum(1 - accuracy, -NEAR_1 / 2)
        return -np.log(missing + NEAR_1)

    def accuracy_at(position: Floats) -> Floats:
        return 1 + NEAR_1 - np.exp(-position)

    drawn = [line.get_xdata() if which == "x" else line.get_ydata() for line in axes.lines]
    lowest = min(float(np.min(np.asarray(each, dtype=float))) for each in drawn if np.size(each))
    bottom = max(0.0, min(0.99, lowest - 0.1 * (1 - lowest)))
    axis = axes.xaxis if which == "x" else axes.yaxis
    if which == "x":
        axes.set_xscale("function", functions=(stretched, accuracy_at))
        axes.set_xlim(bottom, 1.001)
    else:
        axes.set_yscale("function", functions=(stretched, accuracy_at))
        axes.set_ylim(bottom, 1.001)
    axis.set_major_locator(FixedLocator(ACCURACIES))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda accuracy, _: f"{accuracy:g}"))


# Curves and clouds


def draw_curve(axes: Axes, series: Series, x: ArrayLike, measured: Curve, metric: str) -> None:
    """Draw a curve with its error bars."""
    mean = drawn_mean(measured, metric)
    bars = error_bars(measured, metric)
    draw_with_bars(axes, series, x, mean, bars, line_style(series))


def draw_with_bars(
    axes: Axes,
    series: Series,
    x: ArrayLike,
    y: ArrayLike,
    bars: ArrayLike,
    style: tuple[int, tuple[int, ...]] | str = "-",
) -> None:
    """Draw a series with error bars.

    All parts have one gid, so that a page can show and dim them together.
    """
    line, _, ends = axes.errorbar(
        x,
        y,
        bars,
        color=series.color,
        linestyle=style,
        marker=series.marker,
        markersize=6,
        linewidth=1.4,
        elinewidth=1.2,
    )
    for artist in (line, *ends):
        artist.set_gid(gid(series))


def gid(series: Series) -> str:
    """Return the name by which a page finds the artists of a series."""
    return f"series-{series.name}"


def drawn_mean(measured: Curve, metric: str) -> Floats:
    """Return means as they are drawn: an error of 0 stands at the foot of its log scale."""
    if metric == "absolute_error":
        return np.maximum(measured.mean, SMALLEST)
    return measured.mean


def error_bars(measured: Curve, metric: str) -> tuple[Floats, Floats]:
    """Return the lengths of the error bars below and above the mean.

    The bar of an error stays above 0, where a log scale ends; the bar of a score ends at 1.
    """
    if metric == "absolute_error":
        below = np.minimum(measured.deviation, 0.9 * measured.mean)
        return below, measured.deviation
    above = np.minimum(measured.deviation, 1 - measured.mean)
    return measured.deviation, above


def sample(values: Floats) -> Floats:
    """Return at most POINTS of the values, evenly spaced."""
    step = max(1, -(-len(values) // POINTS))
    return values[::step]


def draw_cloud(axes: Axes, x: Floats, y: Floats) -> None:
    """Draw points on two logarithmic axes; both coordinates are above 0."""
    axes.loglog(x, y, "o", markersize=3.5, color=RANDOM, alpha=0.5, markeredgewidth=0)
