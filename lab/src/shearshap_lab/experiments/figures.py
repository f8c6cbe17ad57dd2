"""Figures of the records: each function draws one, without a screen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shearshap.report import Series
from shearshap.result.explanation import Floats
from shearshap_lab.experiments.bootstrap import TOO_FEW, Interval
from shearshap_lab.experiments.figure_axes import (
    SIZE,
    SMALL,
    SMALLEST,
    clean,
    draw_cloud,
    draw_curve,
    draw_with_bars,
    evaluation_ticks,
    gid,
    legend,
    log_ticks,
    note,
    panel,
    sample,
    stretch_accuracies,
)
from shearshap_lab.experiments.findings.parts import (
    GRID,
    by_target,
    feature_correlations,
    overall_correlation,
    within_correlation,
)
from shearshap_lab.experiments.findings.released import setting_errors
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.studies import TRUTH
from shearshap_lab.experiments.style import (
    DASHED,
    INK,
    RANDOM,
    SELECTED,
    SERIES,
    label_of,
    line_style,
    series_of,
)
from shearshap_lab.experiments.summaries import (
    METRICS,
    Curve,
    Ints,
    Networks,
    cost,
    curve,
    published_curve,
    random_cooperators,
    speed_tenths,
    values_of,
)

EVALUATIONS = "model evaluations for each feature, N"
LONGEST = 18  #: characters of a feature's value that fit beside its bar


@dataclass(frozen=True)
class Drawing:
    """A figure, its description in words, and the tooltips of its markers by gid."""

    figure: Figure
    alt: str
    titles: dict[str, list[str]] = field(default_factory=dict)


# Metrics


def metric_curves(
    estimates: pa.Table, metric: str, methods: Sequence[str], *, published: bool = False
) -> Drawing:
    """Draw a metric of several methods on one data set against evaluations.

    With `published`, the authors' released numbers are beside ours, dashed.
    """
    figure, axes = panel(EVALUATIONS, _metric_label(metric))
    titles = {}
    numbers: list[int] = []
    for method in methods:
        series = series_of(method)
        measured = curve(where(estimates, method=method), metric)
        draw_curve(axes, series, measured.n, measured, metric)
        titles[gid(series)] = _curve_titles(series, measured)
        numbers = measured.n.tolist()

    if published:
        _draw_published(axes, values_of(estimates, "dataset")[0], methods, metric, numbers)
    evaluation_ticks(axes, numbers)
    if metric == "absolute_error":
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    elif metric == "ranking_accuracy":
        stretch_accuracies(axes)
    else:
        _draw_truth(axes, where(estimates, method=TRUTH), metric)
    alt = f"{METRICS[metric]} against {EVALUATIONS}: {_labels(methods)}."
    return Drawing(figure, alt, titles)


def _draw_published(
    axes: Axes, dataset: str, methods: Sequence[str], metric: str, numbers: Sequence[int]
) -> None:
    """Draw the released numbers of methods, dashed and without marks, where there are any."""
    name = {"absolute_error": "ae_mean", "ranking_accuracy": "acc"}[metric]
    for method in methods:
        released = published_curve(dataset, method, name)
        points = {n: released[n] for n in numbers if n in released}
        if points and method != "shear":  # SHEAR's are those of SHEAR block maximum
            _draw_dashed(axes, series_of(method), list(points), list(points.values()))


def _draw_dashed(axes: Axes, series: Series, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(x, y, color=series.color, linestyle=DASHED, linewidth=1.1, gid=gid(series))


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


def trade_off(
    estimates: pa.Table,
    timings: pa.Table,
    methods: Sequence[str],
    *,
    published: bool = False,
) -> Drawing:
    """Draw throughput against ranking accuracy on one data set, with the paper's axes.

    The timings are of one way; bars reach from the first tenth of them to the last.
    """
    metric = "ranking_accuracy"
    figure, axes = panel(_metric_label(metric), "throughput, rows a second (↑ better)")
    titles = {}
    for method in methods:
        own = where(timings, method=method)
        if len(own):
            series = series_of(method)
            accuracy = curve(where(estimates, method=method), metric)
            n, speed = speed_tenths(own)
            _draw_throughput(axes, series, accuracy.mean, speed)
            titles[gid(series)] = _trade_off_titles(series, n, accuracy, speed[:, 1])

    if published:
        _draw_published_throughput(axes, values_of(estimates, "dataset")[0], methods)
    axes.set_yscale("log")
    log_ticks(axes.yaxis)
    stretch_accuracies(axes, "x")
    alt = f"Rows explained in a second against ranking accuracy: {_labels(methods)}."
    return Drawing(figure, alt, titles)


def _draw_throughput(axes: Axes, series: Series, accuracy: Floats, speed: Floats) -> None:
    low, median, high = speed.T
    draw_with_bars(axes, series, accuracy, median, (median - low, high - median))


def _draw_published_throughput(axes: Axes, dataset: str, methods: Sequence[str]) -> None:
    for method in methods:
        speed = published_curve(dataset, method, "rows_per_s")
        accuracy = published_curve(dataset, method, "acc")
        points = [(accuracy[n], speed[n]) for n in speed if n in accuracy and 8 <= n <= 128]
        if points and method != "shear":
            x, y = zip(*points, strict=True)
            _draw_dashed(axes, series_of(method), x, y)


def _trade_off_titles(series: Series, n: Ints, accuracy: Curve, speed: Floats) -> list[str]:
    points = zip(n, speed, accuracy.mean, strict=True)
    return [
        f"{series.label}, N = {number}: {rows:,.0f} rows a second, accuracy {mean:.4f}"
        for number, rows, mean in points
    ]


# Ablations


def ablation_grid(networks: Networks, metric: str) -> Drawing:
    """Draw the 3 x 2 grid of ablations at N = 16 on one metric, with 95 % intervals."""
    figure, axes = panel("background coalitions V", _metric_label(metric))
    for column_of_grid, (name, shift) in enumerate((("with-ccs", -0.12), ("without-ccs", 0.12))):
        series = SERIES[name]
        for place, methods in enumerate(GRID.values()):
            interval = networks.resampled.mean(methods[column_of_grid], ABLATED, metric).interval()
            _draw_interval(axes, place + shift, interval, series, metric)

    axes.set_xlim(-0.6, len(GRID) - 0.4)
    axes.set_xticks(range(len(GRID)), list(GRID))
    axes.grid(visible=False, axis="x")
    if metric == "absolute_error":
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    alt = f"{METRICS[metric]} of SHEAR by how V is drawn, with and without CCS, at N = {ABLATED}."
    return Drawing(figure, alt)


def _draw_interval(axes: Axes, x: float, interval: Interval, series: Series, metric: str) -> None:
    """Draw a mean with its interval; the table of the grid has its number."""
    smallest = SMALLEST if metric == "absolute_error" else -np.inf
    mean = max(interval.value, smallest)
    ends = np.array([[mean - max(interval.low, 0.05 * abs(mean))], [interval.high - mean]])
    if metric != "absolute_error":
        ends[0] = mean - interval.low
    bars = axes.errorbar(
        x,
        mean,
        np.maximum(ends, 0),
        fmt=series.marker,
        color=series.color,
        markersize=7,
        capsize=4,
    )
    for artist in (bars[0], *bars[1], *bars[2]):
        artist.set_gid(gid(series))


# Cooperators


def contribution_cloud(networks: Networks) -> Drawing:
    """Draw errors against the summed cross-contribution of random cooperators, of all features."""
    random = random_cooperators(networks.records["cooperators"])
    eta = sample(column(random, "cross_contribution"))
    error = sample(column(random, "error"))
    positive = (eta > 0) & (error > 0)
    found = overall_correlation(networks)

    figure, axes = panel(
        "cross-contribution of the cooperators, sum of η", "absolute error of the feature"
    )
    draw_cloud(axes, eta[positive], error[positive])
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)
    note(axes, f"rank correlation {found.value:+.2f}\n(all features together)", "lower right")
    return Drawing(
        figure,
        "Errors against the summed cross-contribution of random cooperators, all features.",
    )


def contribution_by_feature(networks: Networks) -> Drawing:
    """Draw errors against cross-contribution, both over their mean for the feature of a row."""
    random = random_cooperators(networks.records["cooperators"])
    targets = by_target(random)
    eta_means, error_quartiles = _tenths(
        _over_mean(targets.cross_contribution), _over_mean(targets.error)
    )
    low, median, high = error_quartiles.T
    found = within_correlation(networks)

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
    note(axes, f"rank correlation {found.value:+.2f}\n(within a feature, mean)", "upper right")
    return Drawing(
        figure,
        "Errors against cross-contribution, both over their mean for the feature: quartiles.",
    )


def contribution_across_rows(networks: Networks, names: Sequence[str]) -> Drawing:
    """Draw the rank correlation of error and cross-contribution of each feature across rows."""
    found = feature_correlations(networks)
    order = sorted(found, key=lambda player: found[player].value)
    values = np.array([found[player].value for player in order])
    low = values - [found[player].low for player in order]
    high = np.array([found[player].high for player in order]) - values

    figure = Figure(figsize=(SIZE[0], max(SIZE[1], 0.9 + 0.19 * len(order))), layout="constrained")
    axes = figure.add_subplot()
    clean(axes)
    positions = np.arange(len(order))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.errorbar(
        values, positions, xerr=np.maximum([low, high], 0), fmt="o", color=RANDOM, markersize=4
    )
    labels = [names[player] if player < len(names) else f"feature {player}" for player in order]
    axes.set_yticks(positions, labels, fontsize=SMALL)
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.set_xlabel("rank correlation across rows")
    axes.grid(visible=False, axis="y")
    if not order:
        note(axes, TOO_FEW, "upper left")
    return Drawing(
        figure, "The rank correlation of error and cross-contribution, feature by feature."
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
    figure, axes = panel("Theorem 2's bound, as printed", "loss of a value, |φᵢ(U) - φᵢ(U - j)|")
    _draw_against(axes, column(bounds, "printed"), column(bounds, "loss"))
    note(axes, "above the line\nthe bound fails", "upper left")
    return Drawing(
        figure, "Losses of values against their bounds, and the line where both are equal."
    )


def chain_cloud(chain: pa.Table) -> Drawing:
    """Draw the losses of values against what Theorem 1's chain rule gives, by their sizes."""
    figure, axes = panel("|Δᵢⱼ| of the chain rule, as printed", "|φᵢ(U) - φᵢ(U - j)|")
    _draw_against(axes, np.abs(column(chain, "chain")), np.abs(column(chain, "loss")))
    note(axes, "on the line\nnothing remains", "upper left")
    return Drawing(figure, "Losses of values against the chain rule, and the line of equality.")


def _draw_against(axes: Axes, given: Floats, loss: Floats) -> None:
    """Draw positive losses against what is given for them, and the line where both are equal."""
    given = sample(given)
    loss = sample(loss)
    positive = (given > 0) & (loss > 0)
    given = given[positive]
    loss = loss[positive]

    draw_cloud(axes, given, loss)
    if len(loss):
        both = np.concatenate([given, loss])
        ends = [both.min(), both.max()]
        axes.loglog(ends, ends, color=INK, linewidth=1)
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)


SELECTIONS = {
    "random": (RANDOM, "s", "random"),
    "shear": (SELECTED, "o", "SHEAR's"),
    "bound": ("#009E73", "^", "the bound's least"),
}  #: colour, mark and name of each way to choose cooperators


def selection_bounds(records: pa.Table) -> Drawing:
    """Draw Remark 2's bound and the error that it bounds against N, for each selection."""
    figure, axes = panel(EVALUATIONS, "mean over features and rows")
    numbers = sorted(values_of(records, "n"))
    for name, (color, mark, label) in SELECTIONS.items():
        own = where(records, selection=name)
        for column_name, style in (("bound", "-"), ("error", ":")):
            means = [column(where(own, n=n), column_name).mean() for n in numbers]
            axes.plot(
                numbers,
                np.maximum(means, SMALLEST),
                color=color,
                marker=mark,
                linestyle=style,
                markersize=5,
                label=f"{label}: bound" if column_name == "bound" else None,
            )
    axes.set_yscale("log")
    evaluation_ticks(axes, numbers)
    log_ticks(axes.yaxis)
    axes.set_ylim(bottom=0.1 * axes.get_ylim()[0])
    legend(axes, "lower left")
    return Drawing(figure, "Remark 2's bound, and the error below it, against N.")


def cost_model(timings: pa.Table) -> Drawing:
    """Draw SHEAR's time for one row against N, measured and by t_backward + N t_forward."""
    seconds = cost(timings)
    predicted = 1e3 * seconds.predicted
    measured = 1e3 * seconds.measured
    backward = 1e3 * seconds.backward

    figure, axes = panel(EVALUATIONS, "time for one row, ms")
    axes.plot(seconds.n, predicted, color=INK, linestyle=DASHED, label="t_backward + N t_forward")
    axes.plot(seconds.n, measured, "o", color=SELECTED, markersize=6, label="SHEAR, measured")
    axes.axhline(backward, color=RANDOM, linewidth=1.2, label="t_backward: all derivatives")

    axes.set_yscale("log")
    evaluation_ticks(axes, seconds.n.tolist())
    legend(axes, "upper left")
    axes.set_ylim(top=2 * axes.get_ylim()[1])
    log_ticks(axes.yaxis)
    return Drawing(figure, "SHEAR's time for one row against N: measured, and by the cost model.")


# What training does


def training(sensitivity: pa.Table, n: int) -> Drawing:
    """Draw the errors of methods on networks trained in different ways: means and ranges."""
    names = list(setting_errors(sensitivity, "shear", n))
    figure = Figure(figsize=(SIZE[0], 1.1 + 0.25 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    clean(axes)
    for method in values_of(sensitivity, "method"):
        series = series_of(method)
        errors = setting_errors(sensitivity, method, n)
        for place, name in enumerate(reversed(names)):
            if name in errors:
                _draw_range(axes, series, np.maximum(errors[name], SMALLEST), place)
    axes.set_yticks(range(len(names)), list(reversed(names)), fontsize=SMALL)
    axes.set_xscale("log")
    log_ticks(axes.xaxis)
    axes.set_xlabel(f"absolute error at N = {n} (← better)")
    axes.grid(visible=False, axis="y")
    return Drawing(figure, f"Errors of methods on networks trained in different ways, N = {n}.")


def _draw_range(axes: Axes, series: Series, errors: Floats, place: int) -> None:
    """Draw the geometric mean of the networks' errors, and a line from the least to the largest."""
    name = gid(series)
    axes.plot(
        [errors.min(), errors.max()], [place, place], color=series.color, linewidth=1.2, gid=name
    )
    axes.plot(
        np.exp(np.log(errors).mean()),
        place,
        series.marker,
        color=series.color,
        markersize=6,
        gid=name,
    )


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
