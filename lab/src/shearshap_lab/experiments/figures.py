"""The kinds of drawings that the report is made of: curves, scatter, intervals, bars, a band.

Each returns a panel of the report: an SVG with its text alternative and tooltips.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

from shearshap.report import Panel, Series
from shearshap_lab.statistics import Floats, Interval
from shearshap_lab.svg import inline

Scale = Literal["linear", "log", "evaluations", "accuracy"]

INK = "#333333"  #: notes, and lines to compare with
GRID = "#e4e4e4"
BLUE = "#0072B2"
VERMILION = "#D55E00"

SIZE = (4.4, 3.3)  #: inches: two thirds of a phone's width, a third of a page's
SMALL = 9  #: points, the font size of notes and legends
MAX_POINTS = 400  #: of a cloud
SMALLEST = 1e-16  #: drawn in place of an error of 0, which has no place on a log scale
ACCURACIES = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1)  #: ticks of an axis that is wider near 1
NEAR_1 = 3e-3  #: an accuracy within this of 1 is no longer stretched


@dataclass(frozen=True)
class Curve:
    """A line of a series, with the ends of its error bars."""

    series: Series
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    titles: Sequence[str] = ()  #: tooltips of the markers
    dashed: bool = False  #: published numbers: dashed, and without markers


@dataclass(frozen=True)
class Labels:
    """What stands beside a drawing's axes, and its scales."""

    x: str
    y: str
    alt: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    note: str = ""
    ticks: Sequence[int] = field(default=())  #: evaluations


def curves(title: str, lines: Sequence[Curve], labels: Labels, *, legend: bool = False) -> Panel:
    """Draw lines with error bars; `legend`: inside the panel, for lines that no key has."""
    figure, axes = _panel(labels)
    titles = {}
    for line in lines:
        gid = f"series-{line.series.name}"
        if line.dashed or not line.series.marker:
            style = (0, (4, 2)) if line.dashed else (0, (1, 2))
            axes.plot(
                line.x, line.y, color=line.series.color, linestyle=style, linewidth=1.1, gid=gid
            )
            continue
        y = np.asarray(line.y, dtype=float)
        if labels.y_scale == "log":
            y = np.maximum(y, SMALLEST)
        drawn, _, ends = axes.errorbar(
            line.x,
            y,
            _bars(line, y) if len(line.low) else None,
            color=line.series.color,
            marker=line.series.marker,
            label=line.series.label if legend else None,
            markersize=6,
            linewidth=1.4,
            elinewidth=1.2,
        )
        # all parts have one gid, so that a page can show and dim them together
        for artist in (drawn, *ends):
            artist.set_gid(gid)
        if len(line.titles):
            titles[gid] = list(line.titles)
    _scale(axes, labels)
    if legend:
        axes.legend(loc="best", fontsize=SMALL, frameon=False)
    return _inline(title, figure, labels.alt, titles)


def _bars(line: Curve, y: Floats) -> Floats:
    """Return the lengths of error bars (2, n), which stay above 0 on a log scale."""
    below = np.minimum(y - np.asarray(line.low), 0.9 * np.abs(y))
    return np.maximum([below, np.asarray(line.high) - y], 0)


def scatter(title: str, x: Floats, y: Floats, labels: Labels, *, diagonal: bool = False) -> Panel:
    """Draw points on two logarithmic axes, and the line where both are equal."""
    figure, axes = _panel(labels)
    step = max(1, -(-len(x) // MAX_POINTS))
    positive = (x > 0) & (y > 0)
    x = x[positive][::step]
    y = y[positive][::step]
    axes.loglog(x, y, "o", markersize=3.5, color=BLUE, alpha=0.5, markeredgewidth=0)
    if diagonal and len(x):
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.loglog(ends, ends, color=INK, linewidth=1)
    for axis in (axes.xaxis, axes.yaxis):
        _log_ticks(axis)
    return _inline(title, figure, labels.alt)


def intervals(
    title: str,
    groups: Mapping[str, Mapping[str, Interval]],
    series: Sequence[Series],
    labels: Labels,
) -> Panel:
    """Draw numbers with intervals: groups from below, in each of them a mark for each series."""
    height = max(SIZE[1], 0.9 + 0.19 * len(groups))
    figure, axes = _panel(labels, (SIZE[0], height))
    shifts = np.linspace(0.12, -0.12, len(series)) if len(series) > 1 else [0.0]
    for look, shift in zip(series, shifts, strict=True):
        for place, marks in enumerate(groups.values()):
            if look.name not in marks:
                continue
            found = marks[look.name]
            value = max(found.value, SMALLEST) if labels.x_scale == "log" else found.value
            ends = [value - found.low, found.high - value] if found.known else [0, 0]
            bars = axes.errorbar(
                value,
                place + shift,
                xerr=np.maximum(ends, 0)[:, None],
                fmt=look.marker,
                color=look.color,
                markersize=5,
                capsize=3,
            )
            for artist in (bars[0], *bars[1], *bars[2]):
                artist.set_gid(f"series-{look.name}")
    axes.set_yticks(range(len(groups)), list(groups), fontsize=SMALL)
    axes.set_ylim(-0.7, len(groups) - 0.3)
    axes.grid(visible=False, axis="y")
    if labels.x_scale == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(5))
    _scale(axes, labels)
    return _inline(title, figure, labels.alt)


def bars(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    marks: Sequence[float],
    labels: Labels,
) -> Panel:
    """Draw a bar for each value, the first at the bottom, and a mark to compare it with."""
    figure, axes = _panel(labels, (5.2, 0.9 + 0.28 * len(names)))
    places = range(len(names))
    colours = np.where(np.asarray(values) < 0, BLUE, VERMILION).tolist()
    axes.barh(places, values, color=colours, height=0.65, label="SHEAR")
    axes.plot(marks, places, "|", color="black", markersize=13, markeredgewidth=2, label="exact")
    axes.set_yticks(places, list(names))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", fontsize=SMALL, frameon=False)
    return _inline(title, figure, labels.alt)


def band(title: str, groups: Mapping[str, Mapping[int, Floats]], labels: Labels) -> Panel:
    """Draw means against x with a band from the first tenth to the last, for each group."""
    figure, axes = _panel(labels)
    lowest = []
    for (name, by_x), colour, marker in zip(groups.items(), (BLUE, VERMILION), "so", strict=False):
        low, high = np.array([np.quantile(each, (0.1, 0.9)) for each in by_x.values()]).T
        mean = np.maximum([each.mean() for each in by_x.values()], SMALLEST)
        x = list(by_x)
        axes.fill_between(x, np.maximum(low, SMALLEST), high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, mean, color=colour, marker=marker, label=f"{name}: mean, 10-90 %")
        lowest.append(mean.min())
    _scale(axes, labels)
    # below the means by a factor only: a band may go down to almost nothing
    axes.set_ylim(bottom=min(lowest) / 30)
    _log_ticks(axes.yaxis)
    axes.legend(loc="lower left", fontsize=SMALL, frameon=False)
    return _inline(title, figure, labels.alt)


# Axes


def _panel(labels: Labels, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes, with a light grid behind the data."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(labels.x)
    axes.set_ylabel(labels.y)
    if labels.note:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2}
        axes.text(
            0.03,
            0.97,
            labels.note,
            transform=axes.transAxes,
            va="top",
            fontsize=SMALL,
            color=INK,
            bbox=box,
        )
    return figure, axes


def _scale(axes: Axes, labels: Labels) -> None:
    """Give both axes their scales and ticks, by what was drawn."""
    for which, scale in (("x", labels.x_scale), ("y", labels.y_scale)):
        axis = axes.xaxis if which == "x" else axes.yaxis
        set_scale = axes.set_xscale if which == "x" else axes.set_yscale
        if scale == "log":
            set_scale("log")
            _log_ticks(axis)
        elif scale == "evaluations":
            set_scale("log", base=2)
            if labels.ticks:
                axis.set_major_locator(FixedLocator(sorted(labels.ticks)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(ScalarFormatter())
        elif scale == "accuracy":
            _stretch(axes, which)


def _log_ticks(axis: Axis) -> None:
    """Give a logarithmic axis as many ticks as can be read."""
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    decades = float(np.log10(high / low))
    if decades >= 3:
        axis.set_major_locator(LogLocator(numticks=7))
        return
    # powers of ten alone would be too few: add steps between them
    steps = (1, 2, 5) if decades < 1.5 else (1, 3)
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.sort(np.outer(steps, powers).ravel())
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    if len(ticks) < 3:
        ticks = np.asarray(MaxNLocator(4).tick_values(low, high))
        ticks = ticks[(ticks >= low) & (ticks <= high)]
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _stretch(axes: Axes, which: str) -> None:
    """Make an axis of accuracies wider near 1: logarithmic in what is missing from 1."""

    def stretched(accuracy: Floats) -> Floats:
        # NEAR_1 keeps an accuracy of 1 finite, and one just above it, inside the margin, too
        return -np.log(np.maximum(1 - accuracy, -NEAR_1 / 2) + NEAR_1)

    def accuracy_at(position: Floats) -> Floats:
        return 1 + NEAR_1 - np.exp(-position)

    drawn = [line.get_xdata() if which == "x" else line.get_ydata() for line in axes.lines]
    lowest = min(float(np.min(np.asarray(each, dtype=float))) for each in drawn if np.size(each))
    bottom = max(0.0, min(0.99, lowest - 0.1 * (1 - lowest)))
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_scale = axes.set_xscale if which == "x" else axes.set_yscale
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    set_scale("function", functions=(stretched, accuracy_at))
    set_limits(bottom, 1.001)
    axis.set_major_locator(FixedLocator(ACCURACIES))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda accuracy, _: f"{accuracy:g}"))


def _inline(
    title: str, figure: Figure, alt: str, titles: Mapping[str, Sequence[str]] | None = None
) -> Panel:
    """Return the panel; its ids begin with letters made of what is drawn, which is its own."""
    svg = inline(figure, alt=alt, titles=titles or {}, salt="panel")
    digest = hashlib.sha256(f"{title} {alt} {svg}".encode()).hexdigest()[:8]
    return Panel(title, svg.replace("panel-", f"f{digest}-"))
