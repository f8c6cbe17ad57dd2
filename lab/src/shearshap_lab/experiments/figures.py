"""The figures of the report: each a function of networks, drawn from their records.

A panel is an SVG with its text alternative; artists of a series have one gid, so that the page can
show and dim them together.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from shearshap.apps.report import Figure, Panel, Series
from shearshap_lab.experiments.results import (
    METRICS,
    READING_WORDS,
    SERIES,
    Networks,
    correlation,
    label_of,
    metric_interval,
    published_curve,
    random_cooperators,
    series_of,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Reading
from shearshap_lab.runner import column, where
from shearshap_lab.statistics import Floats
from shearshap_lab.svg import inline

INK = "#333333"  #: notes, and lines to compare with
BLUE = "#0072B2"
VERMILION = "#D55E00"

SIZE = (4.4, 3.3)  #: inches: two thirds of a phone's width, a third of a page's
SMALL = 9  #: points, the font size of notes and legends
MAX_POINTS = 400  #: of a cloud
MIN_DRAWN = 1e-16  #: drawn in place of an error of 0, which has no place on a log scale
MIN_MISSING = 1e-3  #: of a ranking accuracy of 1, likewise
EVALUATIONS = "model evaluations for each feature, N"


def metric_figure(networks: Networks, metrics: Sequence[str]) -> Figure:
    """Draw metrics against N, in a panel for each reading."""
    panels = [_metric_panel(networks, metric, each) for metric in metrics for each in READINGS]
    names = " and ".join(METRICS[metric] for metric in metrics)
    caption = "Bars are 95 % intervals of the means."
    if any(_released(networks, method, metrics[0]) for method in networks.methods("authors")):
        caption += " Dashed: the authors' released numbers."
    if set(metrics) & {"faithfulness", "monotonicity"}:
        caption += " Dotted: the score of the exact values."
    return Figure(f"{names.capitalize()}: {networks.title}", tuple(panels), caption)


RELEASED = {"absolute_error": "ae_mean", "ranking_accuracy": "acc"}  #: columns of released numbers


def _released(networks: Networks, method: str, metric: str) -> dict[int, float]:
    """Return the released numbers of a method by N, at the N that are measured here."""
    # those of SHEAR are of SHEAR block maximum
    if method == "shear" or metric not in RELEASED:
        return {}
    known = published_curve(networks.dataset, method, RELEASED[metric])
    return {n: known[n] for n in networks.n(method) if n in known}


def _metric_panel(networks: Networks, metric: str, reading: Reading) -> Panel:
    methods = networks.methods(reading)
    name = METRICS[metric]

    def paint(axes: Axes) -> None:
        _metric_curves(axes, networks, metric, methods)
        for method in methods if reading == "authors" else ():
            points = _released(networks, method, metric)
            colour = series_of(method).color
            axes.plot(list(points), list(points.values()), "--", color=colour, linewidth=1)
        if metric not in RELEASED:
            exact = networks.mean("truth", 0, metric).mean
            axes.axhline(exact, color=INK, linestyle=":", gid="series-truth")

    arrow = "↓" if metric == "absolute_error" else "↑"
    labels = ", ".join(label_of(method) for method in methods)
    return _panel(
        f"{name.capitalize()}, baselines {READING_WORDS[reading]}",
        (EVALUATIONS, f"{name} ({arrow} better)"),
        f"{name} against {EVALUATIONS}, {networks.title}: {labels}.",
        paint,
    )


def _metric_curves(
    axes: Axes, networks: Networks, metric: str, methods: Sequence[str]
) -> dict[str, Any]:
    """Draw a metric of methods against N with intervals, and return the lines by method."""
    drawn = {}
    for method in methods:
        numbers = networks.n(method)
        found = [metric_interval(networks, method, n, metric) for n in numbers]
        ends = [(each.low, each.high) if each.known else (each.value,) * 2 for each in found]
        values = [each.value for each in found]
        drawn[method] = _curve(axes, series_of(method), numbers, values, np.array(ends))
    if metric == "absolute_error":
        axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(networks.n()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    return drawn


OVERVIEW: dict[Reading, str] = {
    "paper": "Baselines as the appendix describes them",
    "authors": "Baselines as the authors ran them",
    "fair": "Fair: each method at its best",
}  #: the panels of the one figure that the page shows


def overview(networks: Networks, path: Path) -> None:
    """Draw Figure 2 a, errors against N, in three readings side by side, as an SVG file."""
    drawing = Drawing(figsize=(9.6, 3.9), layout="constrained", facecolor="white")
    every = drawing.subplots(1, len(OVERVIEW), sharey=True)
    for axes, (reading, title) in zip(every, OVERVIEW.items(), strict=True):
        methods = ["shear", *networks.rivals(reading)]
        lines = _metric_curves(axes, networks, "absolute_error", methods)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("evaluations per feature, N")
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    every[0].set_ylabel("absolute error (↓ better)")
    labels = [label_of(method) for method in lines]
    drawing.legend(lines.values(), labels, loc="outside lower center", ncols=6, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "shear"}):
        drawing.savefig(path, metadata={"Date": None})


def trade_off(networks: Networks) -> Figure:
    """Draw rows per second against ranking accuracy, for each way of timing."""
    panels = []
    for way in timed_ways(networks):

        def paint(axes: Axes, way: str = way) -> None:
            for method in networks.methods("fair"):
                seconds = networks.row_seconds(way, method)
                missing = [
                    max(MIN_MISSING, 1 - networks.mean(method, n, "ranking_accuracy").mean)
                    for n in seconds
                ]
                if missing:
                    tenths = [np.quantile(1 / each, (0.1, 0.5, 0.9)) for each in seconds.values()]
                    rates = np.array(tenths)
                    _curve(axes, series_of(method), missing, rates[:, 1], rates[:, [0, 2]])
            axes.set(xscale="log", yscale="log")

        titles = ("1 - ranking accuracy (← better)", "throughput, rows per second (↑ better)")
        alt = f"Rows explained per second against ranking accuracy, {way}, {networks.dataset}."
        panels.append(_panel(way.capitalize(), titles, alt, paint))
    caption = "Fair baselines. Bars reach from the first tenth of the timings to the last."
    return Figure(f"Figure 4 a-c: {networks.dataset}", tuple(panels), caption)


def parts_figure(networks: Networks) -> Figure:
    """Draw the ablations, and what cooperators do to errors."""
    alt = f"Errors of SHEAR by how V is drawn, with and without CCS, {networks.title}."
    titles = (f"absolute error at N = {ABLATION_N} (circles: with CCS)", "")
    ablations = _panel("Figure 4 d: ablations", titles, alt, lambda axes: _ablate(axes, networks))
    panels = [ablations]
    random = random_cooperators(networks)
    if len(random):
        titles = ("cross-contribution of the cooperators, sum of η", "error of the feature")
        alt = f"Errors against the cross-contribution of random cooperators, {networks.title}."
        title = "Figure 4 e: error and cross-contribution"
        panels.append(_panel(title, titles, alt, lambda axes: _correlate(axes, random)))
        titles = ("coalitions for one feature, N", "absolute error of the feature")
        alt = f"Errors against N, of random cooperators and of SHEAR's, {networks.title}."
        title = "Figure 4 f: more cooperators"
        panels.append(_panel(title, titles, alt, lambda axes: _cooperate(axes, networks)))
    return Figure(
        f"Figure 4 d-f: {networks.title}",
        tuple(panels),
        "Errors |φᵢ(U) - φᵢ(S + i)| of features whose value is not zero, when only the cooperators "
        "S play. The last panel has one random feature of each row, with bars from the first tenth "
        "to the last, and stops before S holds all features, where nothing is lost.",
        key=False,
    )


def _ablate(axes: Axes, networks: Networks) -> None:
    """Draw SHEAR's errors with each way of drawing V, with CCS above those without."""
    variants = {"V paired": "shear", "V unpaired": "shear-unpaired", "V empty": "shear-empty"}
    for place, method in enumerate(variants.values()):
        for shift, suffix, look in ((0.1, "", "with-ccs"), (-0.1, "-without-ccs", "without-ccs")):
            found = metric_interval(networks, method + suffix, ABLATION_N, "absolute_error")
            value = max(found.value, MIN_DRAWN)
            if found.known:
                axes.plot([found.low, found.high], [place + shift] * 2, color=SERIES[look].color)
            axes.plot(value, place + shift, SERIES[look].marker, color=SERIES[look].color)
    axes.set_xscale("log")
    axes.set_yticks(range(len(variants)), list(variants), fontsize=SMALL)
    axes.set_ylim(-0.7, len(variants) - 0.3)


def _correlate(axes: Axes, random: pa.Table) -> None:
    """Draw errors against cross-contributions, on logarithmic axes."""
    x = column(random, "cross_contribution")
    y = column(random, "error")
    shown = np.flatnonzero((x > 0) & (y > 0))[:: max(1, -(-len(x) // MAX_POINTS))]
    axes.loglog(x[shown], y[shown], "o", markersize=3.5, color=BLUE, alpha=0.5, markeredgewidth=0)
    note = f"rank correlation {correlation(random).value:+.2f}"
    axes.set_title(note, loc="left", fontsize=SMALL, color=INK)


def _cooperate(axes: Axes, networks: Networks) -> None:
    """Draw errors among random cooperators, and among SHEAR's, against their number."""
    records = where(networks.records["cooperators"], draw=0)
    for selection, look in (("random", "without-ccs"), ("shear", "with-ccs")):
        own = where(records, selection=selection)
        n = column(own, "n")
        errors = {each: column(own, "error")[n == each] for each in np.unique(n).tolist()}
        errors = {each: error for each, error in errors.items() if error.mean() > 1e-6}
        tenths = np.array([np.quantile(each, (0.1, 0.9)) for each in errors.values()])
        means = [float(each.mean()) for each in errors.values()]
        drawn = _curve(axes, SERIES[look], list(errors), means, tenths)
        drawn.set_label({"random": "random cooperators", "shear": "SHEAR's"}[selection])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(loc="best", fontsize=SMALL, frameon=False)


def row_figure(networks: Networks) -> Figure:
    """Draw the features of the illustrated row of the first network."""
    records = networks.records["illustration"]
    rows = where(records, seed=records["seed"][0]).to_pylist()
    rows.sort(key=lambda row: abs(row["exact"]))
    first = rows[0]
    shear = [row["shear"] for row in rows]
    gap = first["prediction"] - first["base_value"] - sum(shear)

    def paint(axes: Axes) -> None:
        places = range(len(rows))
        colours = [BLUE if value < 0 else VERMILION for value in shear]
        axes.barh(places, shear, color=colours, height=0.65, label="SHEAR")
        exact = [row["exact"] for row in rows]
        axes.plot(exact, places, "|", color="black", markersize=13, label="exact")
        axes.set_yticks(places, [f"{row['feature']} = {row['value'][:18]}" for row in rows])
        axes.legend(loc="lower right", fontsize=SMALL, frameon=False)

    alt = f"One row's features, {networks.title}: bars for SHEAR, marks for the exact values."
    title = f"SHEAR at N = {ABLATION_N} beside the exact values"
    size = (5.2, 0.9 + 0.28 * len(rows))
    panel = _panel(title, ("Shapley value for f₁ - f₀", ""), alt, paint, size)
    caption = (
        f"Base value {first['base_value']:+.3f}, prediction f₁ - f₀ = {first['prediction']:+.3f}. "
        f"SHEAR's values, from {first['evaluations']} evaluations, leave a gap of {gap:+.4f}."
    )
    return Figure(f"The appendix's figure: {networks.title}", (panel,), caption, key=False)


# Panels


def _curve(
    axes: Axes, series: Series, x: Sequence[float], y: Sequence[float] | Floats, ends: Floats
) -> Any:
    """Draw a line of a series with error bars to their ends (n, 2), which stay above 0."""
    middle = np.maximum(np.asarray(y, dtype=float), MIN_DRAWN)
    below = np.minimum(middle - ends[:, 0], 0.9 * middle)
    lengths = np.maximum([below, ends[:, 1] - middle], 0)
    look: Any = {"color": series.color, "marker": series.marker, "markersize": 6, "linewidth": 1.4}
    drawn, _, bars = axes.errorbar(x, middle, lengths, elinewidth=1.2, **look)
    for artist in (drawn, *bars):
        artist.set_gid(f"series-{series.name}")
    return drawn


def _panel(
    title: str,
    labels: tuple[str, str],
    alt: str,
    paint: Callable[[Axes], None],
    size: tuple[float, float] = SIZE,
) -> Panel:
    """Return a panel with a light grid; its ids begin with letters made of its own texts."""
    figure = Drawing(figsize=size, layout="constrained")
    axes = figure.add_subplot(xlabel=labels[0], ylabel=labels[1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    paint(axes)
    # tooltips of the markers of series
    titles = {
        str(line.get_gid()): [
            f"{x:.4g}, {y:.4g}" for x, y in np.asarray(line.get_xydata()).tolist()
        ]
        for line in axes.lines
        if line.get_gid()
    }
    digest = hashlib.sha256(f"{title} {alt}".encode()).hexdigest()[:8]
    return Panel(title, inline(figure, alt=alt, titles=titles, salt=f"f{digest}"))
