"""Figures: each a function of records, drawn without a screen; none knows where its records came
from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
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

from shearshap.explanation import Floats
from shearshap.paper.experiments.records import column, where
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS
from shearshap.paper.experiments.studies import TRUTH
from shearshap.paper.experiments.style import dashes, look
from shearshap.paper.experiments.summaries import (
    METRICS,
    Curve,
    cost,
    curve,
    selected,
    speeds,
    values_of,
)
from shearshap.report import Series

SIZE = (4.4, 3.3)  #: inches: two thirds of a phone's width, a third of a page's
INK, RANDOM, CHOSEN = "#333333", "#0072B2", "#D55E00"
ACCURACIES = (
    0,
    0.5,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
    1,
)  #: marks of an axis that is wider near 1, where methods differ
EVALUATIONS = "model evaluations for each feature, N"
LEAST = 1e-16  #: drawn for no error at all
POINTS = 600  #: drawn at most in a cloud


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows in words, and the tooltips of its markers by gid."""

    figure: Figure
    alt: str
    titles: dict[str, list[str]] = field(default_factory=dict)


def metric_curves(estimates: pa.Table, metric: str, methods: Sequence[str]) -> Drawing:
    """Draw a metric of several methods on one data set against evaluations, with deviations over
    rounds.
    """
    figure, axes = _panel(EVALUATIONS, f"{METRICS[metric]}{_better(metric)}")
    drawing = Drawing(figure, f"{METRICS[metric]} against {EVALUATIONS}: {_names(methods)}.")
    for method in methods:
        found, series = curve(where(estimates, method=method), metric), look(method)
        _draw(axes, series, found.n, found, metric)
        drawing.titles[f"series-{series.name}"] = [
            f"{series.label}, N = {n}: {mean:.4g} ± {deviation:.2g}"
            for n, mean, deviation in zip(found.n, found.mean, found.deviation, strict=True)
        ]
    _doubling(axes, found.n.tolist())
    if metric in ("faithfulness", "monotonicity"):
        _level(axes, where(estimates, method=TRUTH), metric)
    if metric == "absolute_error":
        axes.set_yscale("log")
        _decades(axes.yaxis)
    if metric == "ranking_accuracy":
        _stretch(axes)
    return drawing


def trade_off(estimates: pa.Table, timings: pa.Table, methods: Sequence[str]) -> Drawing:
    """Draw ranking accuracy against throughput of several methods on one data set."""
    figure, axes = _panel(
        "rows explained in a second (→ faster)", f"ranking accuracy{_better('ranking_accuracy')}"
    )
    drawing = Drawing(
        figure, f"Ranking accuracy against rows explained in a second: {_names(methods)}."
    )
    for method in methods:
        accuracy, series = curve(where(estimates, method=method), "ranking_accuracy"), look(method)
        _, rows = speeds(where(timings, method=method))
        _draw(axes, series, rows, accuracy, "ranking_accuracy")
        drawing.titles[f"series-{series.name}"] = [
            f"{series.label}, N = {n}: {speed:,.0f} rows a second, accuracy {mean:.4f}"
            for n, speed, mean in zip(accuracy.n, rows, accuracy.mean, strict=True)
        ]
    axes.set_xscale("log")
    _decades(axes.xaxis)
    _stretch(axes)
    return drawing


def ablation(estimates: pa.Table, metric: str) -> Drawing:
    """Draw SHEAR and its ablations at N = 16 on one metric and one data set."""
    methods = ["shear", *ABLATIONS]
    figure, axes = _panel("", f"{METRICS[metric]}{_better(metric)}")
    drawing = Drawing(figure, f"{METRICS[metric]} of SHEAR and its ablations at N = {ABLATED}.")
    for place, method in enumerate(methods):
        found, series = curve(where(estimates, method=method, n=ABLATED), metric), look(method)
        mean = _shown(found.mean, metric)
        if metric == "absolute_error":
            # on a logarithmic axis the length of a bar means nothing
            axes.errorbar(
                place, mean, np.reshape(_bars(found, metric), (2, 1)), fmt=series.marker, color=series.color,
                markersize=9, capsize=4,
            )  # fmt: skip
        else:
            axes.bar(
                place,
                mean,
                yerr=found.deviation,
                color=series.color,
                width=0.7,
                capsize=4,
                ecolor=INK,
            )
        axes.annotate(
            f"{found.mean[0]:.3g}", (place, mean[0] + found.deviation[0]), xytext=(0, 7),
            textcoords="offset points", ha="center", fontsize=9, color=INK,
        )  # fmt: skip
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_xticks(
        range(len(methods)), ["SHEAR", "without\nAS", "without\nCCS", "without\neither"]
    )
    axes.grid(visible=False, axis="x")
    if metric == "absolute_error":
        axes.set_yscale("log")
        axes.set_ylim(top=axes.get_ylim()[1] * 1.8)
        _decades(axes.yaxis)
    else:
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.12)
    return drawing


def contribution_cloud(cooperators: pa.Table) -> Drawing:
    """Draw errors against summed cross-contribution of random cooperators, as the paper does."""
    found = selected(cooperators)
    eta, error = (_sample(part[:, 0]) for part in (found.cross_contribution, found.error))
    kept = (eta > 0) & (error > 0)
    figure, axes = _panel(
        "cross-contribution of the cooperators, sum of η", "absolute error of the feature"
    )
    axes.loglog(
        eta[kept], error[kept], "o", markersize=3.5, color=RANDOM, alpha=0.5, markeredgewidth=0
    )
    for axis in (axes.xaxis, axes.yaxis):
        _decades(axis)
    _note(axes, f"rank correlation {found.between:+.2f}\n(all features together)", "lower right")
    return Drawing(
        figure,
        "Errors against the summed cross-contribution of random cooperators, one point a row.",
    )


def contribution_share(cooperators: pa.Table) -> Drawing:
    """Draw each target feature's errors, over their mean, by how much of its cross-contribution S
    holds.
    """
    found = selected(cooperators)
    scaled, relative = _over_mean(found.cross_contribution), _over_mean(found.error)
    edges = np.quantile(scaled, np.linspace(0, 1, 11))
    bins = [(scaled >= low) & (scaled <= high) for low, high in pairwise(edges)]
    middle = np.array([scaled[chosen].mean() for chosen in bins])
    low, centre, high = np.array(
        [np.quantile(relative[chosen], (0.25, 0.5, 0.75)) for chosen in bins]
    ).T
    figure, axes = _panel(
        "cross-contribution, over its mean for the feature", "error, over its mean for the feature"
    )
    axes.errorbar(
        middle,
        centre,
        (centre - low, high - centre),
        fmt="o-",
        color=RANDOM,
        capsize=2,
        linewidth=1.4,
    )
    _note(axes, f"rank correlation {found.within:+.2f}\n(within a feature, mean)", "upper right")
    return Drawing(
        figure,
        "Errors against cross-contribution, both over their mean for the feature: quartiles.",
    )


def cooperator_curves(cooperators: pa.Table) -> Drawing:
    """Draw errors against N for random cooperators, and for those that SHEAR selects."""
    figure, axes = _panel("coalitions for one feature, N", "absolute error of the feature")
    largest, lowest = max(values_of(cooperators, "n")), np.inf
    drawing = Drawing(
        figure, "Errors against N, for random cooperators and for those that SHEAR selects."
    )
    for selection, color, marker, label in (
        ("random", RANDOM, "s", "random cooperators"),
        ("shear", CHOSEN, "o", "SHEAR's"),
    ):
        found = where(cooperators, selection=selection, draw=0)
        n, error = column(found, "n"), column(found, "error")
        # with every other feature a cooperator there is no error left, and no place for it on a log
        # scale
        every = [one for one in np.unique(n) if one < largest or error[n == one].mean() > 1e-6]
        mean = np.array([max(error[n == one].mean(), LEAST) for one in every])
        low, high = np.array([np.quantile(error[n == one], (0.1, 0.9)) for one in every]).T
        axes.fill_between(
            every,
            np.maximum(low, LEAST),
            np.maximum(high, LEAST),
            color=color,
            alpha=0.15,
            linewidth=0,
        )
        lowest = min(lowest, mean.min() / 30)
        axes.plot(
            every, mean, color=color, marker=marker, linewidth=1.6, label=f"{label}: mean, 10-90 %"
        )
    axes.set_yscale("log")
    axes.set_ylim(bottom=lowest)
    _decades(axes.yaxis)
    axes.set_xscale("log", base=2)
    axes.legend(loc="lower left", fontsize=9, frameon=False)
    return drawing


def tightness(bounds: pa.Table) -> Drawing:
    """Draw how much of Theorem 2's bound is used: the loss of a share over its bound, as a
    histogram.
    """
    loss = column(bounds, "loss")
    figure, axes = _panel("loss of a share, over its bound", "pairs of features, %")
    edges = np.linspace(0, 1.25, 51).tolist()
    for name, color, style, label in (
        ("printed", CHOSEN, "-", "as printed, by derivatives"),
        ("sure", RANDOM, (0, (5, 2)), "by differences: always holds"),
    ):
        ratio = _ratio(loss, column(bounds, name))
        weights = np.full(len(ratio), 100 / len(ratio))
        axes.hist(
            ratio.clip(max=1.249), edges, weights=weights, histtype="step", color=color, linestyle=style, linewidth=1.6,
            label=label,
        )  # fmt: skip
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.45)
    axes.legend(loc="upper left", fontsize=9, frameon=False)
    return Drawing(
        figure, "Histograms of the loss of a share over its bound, as printed and by differences."
    )


def bound_cloud(bounds: pa.Table) -> Drawing:
    """Draw the loss of a share against Theorem 2's bound as printed."""
    printed, loss = _sample(column(bounds, "printed")), _sample(column(bounds, "loss"))
    kept = (printed > 0) & (loss > 0)
    figure, axes = _panel("Theorem 2's bound, as printed", "loss of a share, |φᵢ(U) - φᵢ(U - j)|")
    axes.loglog(
        printed[kept], loss[kept], "o", markersize=3.5, color=RANDOM, alpha=0.5, markeredgewidth=0
    )
    if kept.any():
        ends = [
            min(printed[kept].min(), loss[kept].min()),
            max(printed[kept].max(), loss[kept].max()),
        ]
        axes.loglog(ends, ends, color=INK, linewidth=1)
    for axis in (axes.xaxis, axes.yaxis):
        _decades(axis)
    _note(axes, "above the line\nthe bound fails", "upper left")
    return Drawing(
        figure, "Losses of shares against their bounds, and the line where both are equal."
    )


def cost_model(timings: pa.Table) -> Drawing:
    """Draw SHEAR's time for one row against N, measured and by t_backward + N t_forward."""
    found = cost(timings)
    figure, axes = _panel(EVALUATIONS, "time for one row, ms")
    axes.plot(
        found.n,
        found.predicted * 1e3,
        color=INK,
        linestyle=(0, (5, 2)),
        label="t_backward + N t_forward",
    )
    axes.plot(
        found.n, found.measured * 1e3, "o", color=CHOSEN, markersize=6, label="SHEAR, measured"
    )
    axes.axhline(
        found.backward * 1e3, color=RANDOM, linewidth=1.2, label="t_backward: all derivatives"
    )
    axes.set_yscale("log")
    _doubling(axes, found.n.tolist())
    axes.legend(loc="upper left", fontsize=9, frameon=False)
    axes.set_ylim(top=axes.get_ylim()[1] * 2)
    _decades(axes.yaxis)
    return Drawing(figure, "SHEAR's time for one row against N: measured, and by the cost model.")


def explanation(illustration: pa.Table) -> Drawing:
    """Draw one row's explanation by SHEAR beside the exact values."""
    rows = sorted(illustration.to_pylist(), key=lambda row: abs(row["exact"]))
    shares = np.array([row["shear"] for row in rows])
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    _clean(axes)
    places, colors = range(len(rows)), np.where(shares < 0, RANDOM, CHOSEN).tolist()
    axes.barh(places, shares, color=colors, height=0.65, label=f"SHEAR, N = {ABLATED}")
    exact = [row["exact"] for row in rows]
    axes.plot(exact, places, "|", color="black", markersize=13, markeredgewidth=2, label="exact")
    axes.set_yticks(places, [f"{row['feature']} = {_short(row['value'])}" for row in rows])
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("share of f₁ - f₀")
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", fontsize=9, frameon=False)
    return Drawing(
        figure, "One row's features by their shares: bars for SHEAR, marks for the exact values."
    )


def _short(value: str) -> str:
    return value if len(value) <= 18 else f"{value[:16]}…"


def _panel(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    _clean(axes)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _clean(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)


def _doubling(axes: Axes, n: Sequence[int]) -> None:
    """Give the horizontal axis a mark at every number of evaluations that was run."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(n)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())


def _decades(axis: Axis) -> None:
    """Give a logarithmic axis as many marks as can be read: powers of ten, and steps between them
    where few are.
    """
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    span = float(np.log10(high / low))
    if span >= 3:
        axis.set_major_locator(LogLocator(numticks=7))
        return
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    marks = np.sort(np.outer((1, 2, 5) if span < 1.5 else (1, 3), powers).ravel())
    if ((marks >= low) & (marks <= high)).sum() < 3:
        marks = np.asarray(MaxNLocator(4).tick_values(low, high))
    axis.set_major_locator(FixedLocator(marks[(marks >= low) & (marks <= high)].tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _stretch(axes: Axes) -> None:
    """Make an axis of accuracies wider near 1: by the logarithm of what is missing, and a little
    more.
    """
    little = 3e-3
    lowest = min(float(np.min(np.asarray(line.get_ydata(), dtype=float))) for line in axes.lines)
    axes.set_yscale(
        "function",
        functions=(
            lambda y: -np.log(np.maximum(1 - y, -little / 2) + little),
            lambda z: 1 + little - np.exp(-z),
        ),
    )
    axes.yaxis.set_major_locator(FixedLocator(ACCURACIES))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_ylim(max(0.0, min(0.99, lowest - 0.1 * (1 - lowest))), 1.001)


def _level(axes: Axes, truth: pa.Table, metric: str) -> None:
    """Draw the ground truth's own score as a line across."""
    series = look(TRUTH)
    for mean in curve(truth, metric).mean:
        axes.axhline(
            mean,
            color=series.color,
            linestyle=dashes(series),
            linewidth=1.2,
            gid=f"series-{series.name}",
        )


def _bars(found: Curve, metric: str) -> tuple[Floats, Floats]:
    """Return the error bars below and above: an error stays above 0, where a log scale ends; a
    score ends at 1.
    """
    if metric == "absolute_error":
        return np.minimum(found.deviation, 0.9 * found.mean), found.deviation
    return found.deviation, np.minimum(found.deviation, 1 - found.mean)


def _shown(mean: Floats, metric: str) -> Floats:
    """Return means as they are drawn; no error at all stands at the foot of its logarithmic axis."""
    return np.maximum(mean, LEAST) if metric == "absolute_error" else mean


def _draw(axes: Axes, series: Series, across: ArrayLike, found: Curve, metric: str) -> None:
    """Draw a curve with its error bars, all under one name, so that they are shown and dimmed
    together.
    """
    line, caps, bars = axes.errorbar(
        across, _shown(found.mean, metric), _bars(found, metric), color=series.color, linestyle=dashes(series),
        marker=series.marker, markersize=6, capsize=2, linewidth=1.4,
    )  # fmt: skip
    for part in (line, *caps, *bars):
        part.set_gid(f"series-{series.name}")


def _better(metric: str) -> str:
    return " (↓ better)" if metric == "absolute_error" else " (↑ better)"


def _names(methods: Sequence[str]) -> str:
    return ", ".join(look(method).label for method in methods)


def _note(axes: Axes, text: str, corner: str) -> None:
    up, side = corner.split()
    axes.text(
        {"left": 0.03, "right": 0.97}[side], {"upper": 0.97, "lower": 0.03}[up], text, transform=axes.transAxes,
        ha=side, va={"upper": "top", "lower": "bottom"}[up], fontsize=9, color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2},
    )  # fmt: skip


def _sample(values: Floats) -> Floats:
    """Return at most so many values as make a cloud, evenly taken."""
    return values[:: max(1, -(-len(values) // POINTS))]


def _over_mean(values: Floats) -> Floats:
    """Return values (targets, draws) over their target's mean, all in one."""
    return np.asarray((values / np.maximum(values.mean(axis=1, keepdims=True), 1e-300)).ravel())


def _ratio(loss: Floats, bound: Floats) -> Floats:
    """Return loss over bound; 0 of 0 is nothing lost."""
    return np.divide(loss, bound, out=np.where(loss > 1e-12, np.inf, 0.0), where=bound > 1e-12)
