"""Figures of the records: each function draws one, without a screen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shearshap.explanation import Floats
from shearshap.paper.experiments.figure_axes import (
    SMALL,
    SMALLEST,
    clean,
    draw_cloud,
    draw_curve,
    drawn_mean,
    error_bars,
    evaluation_ticks,
    gid,
    legend,
    log_ticks,
    note,
    panel,
    sample,
    stretch_accuracies,
)
from shearshap.paper.experiments.records import column, where
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS
from shearshap.paper.experiments.studies import TRUTH
from shearshap.paper.experiments.style import (
    INK,
    RANDOM,
    SELECTED,
    label_of,
    line_style,
    series_of,
)
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

EVALUATIONS = "model evaluations for each feature, N"
ABLATION_TICKS = ("SHEAR", "without\nAS", "without\nCCS", "without\neither")
LONGEST = 18  #: characters of a feature's value that fit beside its bar


@dataclass(frozen=True)
class Drawing:
    """A figure, its description in words, and the tooltips of its markers by gid."""

    figure: Figure
    alt: str
    titles: dict[str, list[str]] = field(default_factory=dict)


# Metrics


def metric_curves(estimates: pa.Table, metric: str, methods: Sequence[str]) -> Drawing:
    """Draw a metric of several methods on one data set against evaluations."""
    figure, axes = panel(EVALUATIONS, _metric_label(metric))
    titles = {}
    for method in methods:
        series = series_of(method)
        measured = curve(where(estimates, method=method), metric)
        draw_curve(axes, series, measured.n, measured, metric)
        titles[gid(series)] = _curve_titles(series, measured)

    evaluation_ticks(axes, measured.n.tolist())
    if metric == "absolute_error":
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    elif metric == "ranking_accuracy":
        stretch_accuracies(axes)
    else:
        _draw_truth(axes, where(estimates, method=TRUTH), metric)
    alt = f"{METRICS[metric]} against {EVALUATIONS}: {_labels(methods)}."
    return Drawing(figure, alt, titles)


def _curve_titles(series: Series, measured: Curve) -> list[str]:
    points = zip(measured.n, measured.mean, measured.deviation, strict=True)
    return [
        f"{series.label}, N = {n}: {mean:.4g} ± {deviation:.2g}" for n, mean, deviation in points
    ]


def _draw_truth(axes: Axes, truth: pa.Table, metric: str) -> None:
    """Draw the score of the exact values as a horizontal line."""
    series = series_of(TRUTH)
    for mean in curve(truth, metric).mean:
        axes.axhline(
            mean,
            color=series.color,
            linestyle=line_style(series),
            linewidth=1.2,
            gid=gid(series),
        )


def trade_off(estimates: pa.Table, timings: pa.Table, methods: Sequence[str]) -> Drawing:
    """Draw ranking accuracy against throughput of several methods on one data set."""
    metric = "ranking_accuracy"
    figure, axes = panel("rows explained in a second (→ faster)", _metric_label(metric))
    titles = {}
    for method in methods:
        series = series_of(method)
        accuracy = curve(where(estimates, method=method), metric)
        _, rows_per_second = speeds(where(timings, method=method))
        draw_curve(axes, series, rows_per_second, accuracy, metric)
        titles[gid(series)] = _trade_off_titles(series, accuracy, rows_per_second)

    axes.set_xscale("log")
    log_ticks(axes.xaxis)
    stretch_accuracies(axes)
    alt = f"Ranking accuracy against rows explained in a second: {_labels(methods)}."
    return Drawing(figure, alt, titles)


def _trade_off_titles(series: Series, accuracy: Curve, rows_per_second: Floats) -> list[str]:
    points = zip(accuracy.n, rows_per_second, accuracy.mean, strict=True)
    return [
        f"{series.label}, N = {n}: {speed:,.0f} rows a second, accuracy {mean:.4f}"
        for n, speed, mean in points
    ]


# Ablations


def ablation(estimates: pa.Table, metric: str) -> Drawing:
    """Draw SHEAR and its ablations at N = 16 on one metric and one data set."""
    methods = ("shear", *ABLATIONS)
    figure, axes = panel("", _metric_label(metric))
    for position, method in enumerate(methods):
        measured = curve(where(estimates, method=method, n=ABLATED), metric)
        _draw_ablation(axes, position, series_of(method), measured, metric)
        _label_ablation(axes, position, measured, metric)

    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_xticks(range(len(methods)), ABLATION_TICKS)
    axes.grid(visible=False, axis="x")
    _limit_ablations(axes, metric)
    alt = f"{METRICS[metric]} of SHEAR and its ablations at N = {ABLATED}."
    return Drawing(figure, alt)


def _draw_ablation(axes: Axes, position: int, series: Series, measured: Curve, metric: str) -> None:
    """Draw a bar, or a point where the axis is logarithmic: there a bar's length means nothing."""
    mean = drawn_mean(measured, metric)
    if metric != "absolute_error":
        axes.bar(
            position,
            mean,
            yerr=measured.deviation,
            color=series.color,
            width=0.7,
            capsize=4,
            ecolor=INK,
        )
        return
    axes.errorbar(
        position,
        mean,
        np.reshape(error_bars(measured, metric), (2, 1)),
        fmt=series.marker,
        color=series.color,
        markersize=9,
        capsize=4,
    )


def _label_ablation(axes: Axes, position: int, measured: Curve, metric: str) -> None:
    """Write the mean above the error bar."""
    top = drawn_mean(measured, metric)[0] + measured.deviation[0]
    axes.annotate(
        f"{measured.mean[0]:.3g}",
        (position, top),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        fontsize=SMALL,
        color=INK,
    )


def _limit_ablations(axes: Axes, metric: str) -> None:
    """Leave room for the numbers above the bars."""
    if metric == "absolute_error":
        axes.set_yscale("log")
        axes.set_ylim(top=1.8 * axes.get_ylim()[1])
        log_ticks(axes.yaxis)
    else:
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.12)


# Cooperators


def contribution_cloud(cooperators: pa.Table) -> Drawing:
    """Draw errors against the summed cross-contribution of random cooperators, as in the paper."""
    random = selected(cooperators)
    eta = sample(random.cross_contribution[:, 0])
    error = sample(random.error[:, 0])
    positive = (eta > 0) & (error > 0)

    figure, axes = panel(
        "cross-contribution of the cooperators, sum of η", "absolute error of the feature"
    )
    draw_cloud(axes, eta[positive], error[positive])
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)
    note(axes, f"rank correlation {random.between:+.2f}\n(all features together)", "lower right")
    return Drawing(
        figure,
        "Errors against the summed cross-contribution of random cooperators, one point a row.",
    )


def contribution_by_feature(cooperators: pa.Table) -> Drawing:
    """Draw errors against cross-contribution, both divided by their mean for the feature."""
    random = selected(cooperators)
    eta = _over_mean(random.cross_contribution)
    error = _over_mean(random.error)
    eta_means, error_quartiles = _tenths(eta, error)
    low, median, high = error_quartiles.T

    figure, axes = panel(
        "cross-contribution, over its mean for the feature", "error, over its mean for the feature"
    )
    axes.errorbar(
        eta_means,
        median,
        (median - low, high - median),
        fmt="o-",
        color=RANDOM,
        capsize=2,
        linewidth=1.4,
    )
    note(axes, f"rank correlation {random.within:+.2f}\n(within a feature, mean)", "upper right")
    return Drawing(
        figure,
        "Errors against cross-contribution, both over their mean for the feature: quartiles.",
    )


def _over_mean(values: Floats) -> Floats:
    """Return values (targets, draws) over the mean of their target, flattened."""
    means = values.mean(axis=1, keepdims=True)
    return np.asarray((values / np.maximum(means, 1e-300)).ravel())


def _tenths(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the mean of x (10,) and the quartiles of y (10, 3) in each tenth of the x."""
    edges = np.quantile(x, np.linspace(0, 1, 11))
    means = []
    quartiles = []
    for low, high in pairwise(edges):
        inside = (x >= low) & (x <= high)
        means.append(x[inside].mean())
        quartiles.append(np.quantile(y[inside], (0.25, 0.5, 0.75)))
    return np.array(means), np.array(quartiles)


def cooperator_curves(cooperators: pa.Table) -> Drawing:
    """Draw errors against N for random cooperators, and for those that SHEAR selects."""
    figure, axes = panel("coalitions for one feature, N", "absolute error of the feature")
    random = _error_band(cooperators, "random")
    shear = _error_band(cooperators, "shear")
    _draw_band(axes, random, RANDOM, "s", "random cooperators")
    _draw_band(axes, shear, SELECTED, "o", "SHEAR's")

    # Below the means by a factor only: a band may go down to almost nothing.
    lowest = min(random.mean.min(), shear.mean.min())
    axes.set_yscale("log")
    axes.set_ylim(bottom=lowest / 30)
    log_ticks(axes.yaxis)
    axes.set_xscale("log", base=2)
    legend(axes, "lower left")
    return Drawing(
        figure, "Errors against N, for random cooperators and for those that SHEAR selects."
    )


@dataclass(frozen=True)
class _Band:
    """Errors of one selection of cooperators against N."""

    n: list[int]
    mean: Floats
    low: Floats  #: the first tenth of the errors ends here
    high: Floats  #: the last tenth begins here


def _error_band(cooperators: pa.Table, selection: str) -> _Band:
    """Return the errors of a selection by N.

    Where all other features are cooperators nothing is lost, and a log scale has no place for it:
    the largest N is left out then.
    """
    largest = max(values_of(cooperators, "n"))
    records = where(cooperators, selection=selection, draw=0)
    n = column(records, "n")
    error = column(records, "error")
    errors = {number: error[n == number] for number in np.unique(n).tolist()}
    if largest in errors and errors[largest].mean() <= 1e-6:
        del errors[largest]

    tenths = np.array([np.quantile(each, (0.1, 0.9)) for each in errors.values()])
    low, high = np.maximum(tenths, SMALLEST).T
    mean = np.array([max(each.mean(), SMALLEST) for each in errors.values()])
    return _Band(list(errors), mean, low, high)


def _draw_band(axes: Axes, band: _Band, color: str, marker: str, label: str) -> None:
    axes.fill_between(band.n, band.low, band.high, color=color, alpha=0.15, linewidth=0)
    axes.plot(
        band.n,
        band.mean,
        color=color,
        marker=marker,
        linewidth=1.6,
        label=f"{label}: mean, 10-90 %",
    )


# Theory


def tightness(bounds: pa.Table) -> Drawing:
    """Draw how much of Theorem 2's bound is used: a histogram of loss over bound."""
    figure, axes = panel("loss of a value, over its bound", "pairs of features, %")
    loss = column(bounds, "loss")
    printed = _ratio(loss, column(bounds, "printed"))
    sure = _ratio(loss, column(bounds, "sure"))
    _draw_histogram(axes, printed, SELECTED, "-", "as printed, by derivatives")
    _draw_histogram(axes, sure, RANDOM, (0, (5, 2)), "by differences: always holds")

    axes.axvline(1, color=INK, linewidth=1)
    axes.set_ylim(top=1.45 * axes.get_ylim()[1])
    legend(axes, "upper left")
    return Drawing(
        figure, "Histograms of the loss of a value over its bound, as printed and by differences."
    )


def _ratio(loss: Floats, bound: Floats) -> Floats:
    """Return loss over bound; where the bound is 0, 0 for no loss and infinity for any."""
    unbounded = np.where(loss > 1e-12, np.inf, 0.0)
    return np.divide(loss, bound, out=unbounded, where=bound > 1e-12)


def _draw_histogram(
    axes: Axes, ratio: Floats, color: str, style: str | tuple[int, tuple[int, ...]], label: str
) -> None:
    """Draw a histogram in percent; ratios beyond the right edge are counted there."""
    edges = np.linspace(0, 1.25, 51).tolist()
    axes.hist(
        ratio.clip(max=1.249),
        edges,
        weights=np.full(len(ratio), 100 / len(ratio)),
        histtype="step",
        color=color,
        linestyle=style,
        linewidth=1.6,
        label=label,
    )


def bound_cloud(bounds: pa.Table) -> Drawing:
    """Draw losses against Theorem 2's bound as printed, and the line where both are equal."""
    printed = sample(column(bounds, "printed"))
    loss = sample(column(bounds, "loss"))
    positive = (printed > 0) & (loss > 0)
    printed = printed[positive]
    loss = loss[positive]

    figure, axes = panel("Theorem 2's bound, as printed", "loss of a value, |φᵢ(U) - φᵢ(U - j)|")
    draw_cloud(axes, printed, loss)
    if len(loss):
        both = np.concatenate([printed, loss])
        ends = [both.min(), both.max()]
        axes.loglog(ends, ends, color=INK, linewidth=1)
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)
    note(axes, "above the line\nthe bound fails", "upper left")
    return Drawing(
        figure, "Losses of values against their bounds, and the line where both are equal."
    )


def cost_model(timings: pa.Table) -> Drawing:
    """Draw SHEAR's time for one row against N, measured and by t_backward + N t_forward."""
    seconds = cost(timings)
    predicted = 1e3 * seconds.predicted
    measured = 1e3 * seconds.measured
    backward = 1e3 * seconds.backward

    figure, axes = panel(EVALUATIONS, "time for one row, ms")
    dashed = (0, (5, 2))
    axes.plot(seconds.n, predicted, color=INK, linestyle=dashed, label="t_backward + N t_forward")
    axes.plot(seconds.n, measured, "o", color=SELECTED, markersize=6, label="SHEAR, measured")
    axes.axhline(backward, color=RANDOM, linewidth=1.2, label="t_backward: all derivatives")

    axes.set_yscale("log")
    evaluation_ticks(axes, seconds.n.tolist())
    legend(axes, "upper left")
    axes.set_ylim(top=2 * axes.get_ylim()[1])
    log_ticks(axes.yaxis)
    return Drawing(figure, "SHEAR's time for one row against N: measured, and by the cost model.")


# One row


def explanation(illustration: pa.Table) -> Drawing:
    """Draw one row's explanation by SHEAR beside the exact values."""
    rows = sorted(illustration.to_pylist(), key=lambda row: abs(row["exact"]))
    positions = range(len(rows))
    shear = np.array([row["shear"] for row in rows])
    exact = [row["exact"] for row in rows]
    colors = np.where(shear < 0, RANDOM, SELECTED).tolist()

    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    clean(axes)
    axes.barh(positions, shear, color=colors, height=0.65, label=f"SHEAR, N = {ABLATED}")
    axes.plot(exact, positions, "|", color="black", markersize=13, markeredgewidth=2, label="exact")
    axes.set_yticks(positions, [f"{row['feature']} = {_short(row['value'])}" for row in rows])
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("Shapley value for f₁ - f₀")
    axes.grid(visible=False, axis="y")
    legend(axes, "lower right")
    return Drawing(
        figure, "One row's features by their values: bars for SHEAR, marks for the exact values."
    )


def _short(value: str) -> str:
    if len(value) <= LONGEST:
        return value
    return f"{value[: LONGEST - 2]}…"


# Words


def _metric_label(metric: str) -> str:
    arrow = "↓" if metric == "absolute_error" else "↑"
    return f"{METRICS[metric]} ({arrow} better)"


def _labels(methods: Sequence[str]) -> str:
    return ", ".join(label_of(method) for method in methods)
