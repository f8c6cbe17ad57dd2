"""Draw the charts of the benchmarks, docs/images/charts/*.svg, from benchmarks/results/*.csv.

python docs/make_charts.py
"""

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shearshap.result.colours import FAINT, GREY, INK, KINDS

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
CHARTS = DOCS / "images" / "charts"

OURS = KINDS[0]
PEERS = KINDS[1]
LIBRARIES = ("shap", "captum", "shapiq")
COLOURS = (*KINDS, GREY)
MARKERS = "osD^vPX<>"  #: one for each colour, so that lines differ without colours too


def main() -> None:
    """Write all charts."""
    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "font.size": 9,
            "svg.hashsalt": "shearshap",  # the same file for the same numbers
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GREY,
            "axes.titlesize": 9,
            "axes.axisbelow": True,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "figure.facecolor": "white",
            "legend.frameon": False,
            "legend.fontsize": 8,
        }
    )
    CHARTS.mkdir(parents=True, exist_ok=True)
    for name, figure in charts().items():
        figure.savefig(CHARTS / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def charts() -> dict[str, Figure]:
    """Return all charts by name."""
    return {
        "leaderboard": leaderboard(),
        "throughput": throughput(),
        "trees": trees(),
        "latency": latency(),
        "accuracy": accuracy(),
        "backgrounds": backgrounds(),
        "few-evaluations": few_evaluations(),
        "interactions": interactions(),
        "intervals": intervals(),
        "simple": simple(),
        "scaling": scaling(),
        "language": language(),
    }


def table(name: str) -> pd.DataFrame:
    """Return a table of the results."""
    return pd.read_csv(RESULTS / f"{name}.csv", comment="#")


# Bars and dots, one row for each name


def leaderboard() -> Figure:
    """Draw the errors of all estimators, with intervals."""
    lines = table("leaderboard").sort_values("error", ignore_index=True)
    figure, ax = _figure(len(lines))
    for at, line in lines.iterrows():
        colour = _colour(line["estimator"])
        ax.plot([line["error low"], line["error high"]], [at, at], color=colour, linewidth=1.5)
        ax.plot(line["error"], at, _mark(line["estimator"]), color=colour, markersize=5)
    ax.axvline(1, color=GREY, linewidth=0.8)
    _log_x(ax, [0.2, 0.5, 1, 2, 5, 10])
    _rows(ax, lines["estimator"])
    ax.set_xlabel("error, relative to permutation-antithetic (smaller is better)")
    for label, colour, mark in (("shearshap", OURS, "o"), ("other libraries", PEERS, "s")):
        ax.plot([], [], mark, color=colour, label=label)
    ax.legend(loc="upper right")
    return figure


def throughput() -> Figure:
    """Draw rows per second, ours and those of other libraries."""
    lines = table("throughput-cpu").sort_values("rows per second", ascending=False)
    lines = lines[~lines["method"].str.contains("bare|paper")]
    names = list(lines["method"])
    figure, ax = _figure(len(names))
    bars = ax.barh(names, lines["rows per second"], color=list(map(_colour, names)), height=0.6)
    ax.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    _log_x(ax, [10, 100, 1_000, 10_000])
    ax.set_xlim(10, 30_000)
    _rows(ax, names)
    ax.set_xlabel("rows per second, on 2 cores (larger is better)")
    for label, colour in (("shearshap", OURS), ("other libraries", PEERS)):
        ax.barh(0, 0, color=colour, label=label)
    ax.legend(loc="lower right")
    return figure


def trees() -> Figure:
    """Draw rows per second of exact values of trees, beside shap's."""
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.4), layout="constrained", sharey=True)
    columns = {
        "shearshap": ("rows per second", OURS, -0.2),
        "shap.TreeExplainer": ("shap rows per second", PEERS, 0.2),
    }
    for ax, (count, lines) in zip(axes, table("trees").groupby("background rows"), strict=True):
        for label, (column, colour, shift) in columns.items():
            places = np.arange(len(lines)) + shift
            ax.barh(places, lines[column], height=0.36, color=colour, label=label)
        ax.set_title(f"{count} background row{'' if count == 1 else 's'}")
        _log_x(ax, [10, 100, 1_000, 10_000])
        ax.set_xlim(5, 60_000)
        ax.grid(axis="x", color=FAINT, linewidth=0.6)
    axes[0].set_yticks(range(len(lines)), lines["model"])
    axes[0].invert_yaxis()
    figure.supxlabel("rows per second, exact values (larger is better)", fontsize=9)
    _legend(figure, axes[0])
    return figure


def latency() -> Figure:
    """Draw the seconds of one call."""
    lines = table("latency")
    figure, ax = _figure(len(lines), width=8)
    columns = {"auto": (OURS, "o"), "leverage": (KINDS[4], "D"), "the model": (GREY, "|")}
    for name, (colour, mark) in columns.items():
        times = lines[f"{name}, s"]
        ax.plot(
            times, range(len(lines)), mark, color=colour, markersize=6, markeredgewidth=1.5,
            label=name,
        )  # fmt: skip
    _log_x(ax, [0.001, 0.01, 0.1, 1])
    _rows(ax, lines["call"])
    ax.set_xlabel("seconds per call (smaller is better)")
    ax.legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


# Errors by budget


def accuracy() -> Figure:
    """Draw the geometric mean of the errors over networks, by budget."""
    lines = table("accuracy")
    # without groups of features, coarse-to-fine is permutation-antithetic
    left_out = ("leverage's error", "coarse-to-fine")
    methods = [name for name in lines.columns[2:] if name not in left_out]
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    means = np.exp(np.log(lines[methods]).groupby(lines["N"]).mean())
    others = [name for name in methods if name not in ("kriging", "leverage")]
    _named_lines(ax, means, ["kriging", *others, "leverage"])
    _budgets(ax, means.index, [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    ax.set_ylabel("error, relative to leverage")
    return figure


def interactions() -> Figure:
    """Draw the errors of interactions relative to kriging's, by budget."""
    lines = table("interactions")
    methods = list(lines.columns[2:-1])
    ratios = lines[methods].div(lines["kriging"], axis=0)
    means = np.exp(np.log(ratios).groupby(lines["N"]).mean())
    figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
    _named_lines(ax, means, methods)
    _budgets(ax, means.index, [1, 2, 5, 10, 20, 50, 100])
    ax.set_ylabel("error, relative to kriging")
    return figure


def backgrounds() -> Figure:
    """Draw the error by evaluations, in a panel for each data set and background."""
    lines = table("backgrounds")
    methods = {
        "shearshap": "shearshap",
        "each coalition at all rows": "kriging, each coalition at all background rows",
        "shap Permutation": "shap Permutation",
        "shap Kernel": "shap Kernel",
    }
    figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), layout="constrained", sharey=True)
    panels = product(("census", "bank"), (10, 100))
    for ax, (data, count) in zip(axes, panels, strict=True):
        own = lines[(lines["data"] == data) & (lines["background rows"] == count)]
        for at, (column, label) in enumerate(methods.items()):
            errors = own[column].where(own[column] > 0)  # 0.000 is not on a logarithmic axis
            _line(ax, own["evaluations"], errors, at, label)
        ax.set_title(f"{data.capitalize()}, {count} background rows")
        _log_x(ax, [500, 2_000, 8_000])
        _log_y(ax, [0.001, 0.01, 0.1])
    axes[0].set_ylabel("error / mean |value|")
    figure.supxlabel("evaluations per row", fontsize=9)
    _legend(figure, axes[0])
    return figure


def few_evaluations() -> Figure:
    """Draw the error by budget, in a panel for each kind of games."""
    lines = table("few-evaluations")
    methods = ("kriging", "permutation-antithetic", "LIME", "shap Partition", "shapiq ProxySPEX")
    figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), layout="constrained", sharey=True)
    for ax, (kind, own) in zip(axes, lines.groupby("games", sort=False), strict=True):
        for at, method in enumerate(methods):
            errors = own[own["method"] == method].set_index("evaluations per player")["error"]
            _line(ax, errors.index, errors, at, method)
        ax.set_xscale("log", base=2)
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
        ax.set_title(kind)
        _log_y(ax, [0.05, 0.1, 0.2, 0.5, 1, 2])
    axes[0].set_ylabel("error / mean |value|")
    figure.supxlabel("evaluations per feature", fontsize=9)
    _legend(figure, axes[0])
    return figure


def language() -> Figure:
    """Draw recall and error by evaluations, for each kind of prompt, with standard errors."""
    lines = table("language")
    methods = {
        "kriging": "shearshap (kriging)",
        "captum KernelShap": "captum KernelShap",
        "captum ShapleyValueSampling": "captum ShapleyValueSampling",
        "shap Partition": "shap Partition",
        "LIME": "LIME",
        "leave-one-out": "leave-one-out",
    }
    titles = {
        "recall": "one passage",
        "repeated": "two passages that say the same",
        "negation": "one passage and a negation",
        "two hops": "two passages, both needed",
    }
    figure, axes = plt.subplots(
        2, 4, figsize=(9, 5), layout="constrained", sharex=True, sharey="row"
    )
    for column, (kind, own) in enumerate(lines.groupby("prompts", sort=False)):
        for at, (method, label) in enumerate(methods.items()):
            of_method = own[own["method"] == method].set_index("N")
            for ax, measure in zip(axes[:, column], ("recall", "error"), strict=True):
                means, errors = of_method[measure], of_method[f"{measure} ±"]
                ax.errorbar(means.index, means, errors, color=KINDS[at], linewidth=0.8, fmt="none")
                _line(ax, means.index, means, at, label)
                ax.grid(axis="y", color=FAINT, linewidth=0.6)
        axes[0, column].set_title(titles[kind], fontsize=8)
        axes[1, column].set_xscale("log", base=2)
        axes[1, column].set_xticks([0.5, 1, 2, 4], ["½", "1", "2", "4"])
    axes[0, 0].set_ylabel("recall (larger is better)")
    axes[1, 0].set_ylabel("error (smaller is better)")
    _log_y(axes[1, 0], [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
    figure.supxlabel("evaluations per passage", fontsize=9)
    _legend(figure, axes[0, 0], columns=3)
    return figure


# Dots, one for each kind of games


def intervals() -> Figure:
    """Draw how many exact values 95 % intervals contain."""
    lines = table("intervals")
    figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained", sharey=True)
    for ax, method in zip(axes, ("kriging", "leverage", "permutation-antithetic"), strict=True):
        own = lines[lines["method"] == method]
        ax.axhline(95, color=GREY, linewidth=0.8)
        held = own[[f"N = {each} %" for each in (4, 8, 16, 32)]]
        # a cell in which most values have no interval says so, and is not drawn
        _dots(ax, held.apply(pd.to_numeric, errors="coerce"))
        ax.set_title(method)
        ax.set_ylim(85, 100.5)
    axes[0].set_ylabel("exact values in the interval, %")
    figure.supxlabel("evaluations per feature (each dot is a kind of game)", fontsize=9)
    return figure


def simple() -> Figure:
    """Draw kriging's error over that of the better simple method."""
    lines = table("simple")
    figure, axes = plt.subplots(1, 4, figsize=(8, 3), layout="constrained", sharey=True)
    for ax, (players, own) in zip(axes, lines.groupby("players"), strict=True):
        ax.axhline(1, color=GREY, linewidth=0.8)
        _dots(ax, own[[f"N = {each}" for each in (4, 8, 16, 32)]])
        ax.set_title(f"{players} features")
    axes[0].set_ylabel("kriging's error, relative to\nthe better simple method")
    figure.supxlabel("evaluations per feature (each dot is a kind of game)", fontsize=9)
    return figure


def scaling() -> Figure:
    """Draw the time per evaluation, by rows and by budget."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained", sharey=True)
    names = {"scaling-rows": "rows", "scaling-evaluations": "evaluations per feature"}
    for ax, (name, label) in zip(axes, names.items(), strict=True):
        lines = table(name).set_index("method")
        order = ["kriging", *(method for method in lines.index if method != "kriging")]
        for at, method in enumerate(order):
            _line(ax, range(lines.shape[1]), lines.loc[method], at, method)
        ax.set_xticks(range(lines.shape[1]), lines.columns)
        ax.set_xlabel(label)
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", color=FAINT, linewidth=0.6)
    axes[0].set_ylabel("microseconds per evaluation")
    axes[0].legend()
    return figure


# What they have in common


def _figure(rows: int, width: float = 7) -> tuple[Figure, Axes]:
    """Return a figure with room for a number of named rows."""
    return plt.subplots(figsize=(width, 0.9 + 0.24 * rows), layout="constrained")


def _rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart, the first at the top."""
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.invert_yaxis()
    ax.grid(axis="x", color=FAINT, linewidth=0.6)


def _line(ax: Axes, x: Iterable[float], y: Iterable[float], at: int, label: str) -> None:
    """Draw a line in the colour and with the marker of its number; the first, ours, is thicker."""
    ax.plot(
        list(x), list(y), marker=MARKERS[at], color=COLOURS[at], markersize=4,
        linewidth=1.2 if at else 2.5, zorder=2 if at else 3, label=label,
    )  # fmt: skip


def _named_lines(ax: Axes, means: pd.DataFrame, order: Sequence[str]) -> None:
    """Draw a line for each column, its name beside its end, apart if lines end close together."""
    for at, method in enumerate(order):
        _line(ax, means.index, means[method], at, method)
    last = 0.0
    for method, height in means.iloc[-1].sort_values().items():
        last = max(height, last * 1.22)
        ax.annotate(
            method, (means.index[-1], last), xytext=(8, 0), textcoords="offset points",
            va="center", color=COLOURS[order.index(method)], fontsize=8, annotation_clip=False,
        )  # fmt: skip


def _budgets(ax: Axes, budgets: Sequence[int], ticks: Sequence[float]) -> None:
    """Scale the axes of a chart of errors by evaluations per feature."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(budgets), [str(budget) for budget in budgets])
    ax.set_xlabel("evaluations per feature")
    _log_y(ax, ticks)


def _dots(ax: Axes, columns: pd.DataFrame) -> None:
    """Draw the numbers of each column as dots, side by side."""
    for at, name in enumerate(columns):
        side = np.linspace(-0.25, 0.25, len(columns))
        ax.plot(at + side, columns[name], "o", color=OURS, markersize=3, alpha=0.8)
    budgets = [name.removeprefix("N = ").removesuffix(" %") for name in columns]
    ax.set_xticks(range(len(budgets)), budgets)
    ax.set_xlim(-0.5, len(budgets) - 0.5)
    ax.grid(axis="y", color=FAINT, linewidth=0.6)


def _log_x(ax: Axes, ticks: Sequence[float]) -> None:
    """Write a logarithmic axis with plain numbers."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    ax.minorticks_off()


def _log_y(ax: Axes, ticks: Sequence[float]) -> None:
    ax.set_yscale("log")
    ax.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(axis="y", color=FAINT, linewidth=0.6)


def _legend(figure: Figure, ax: Axes, columns: int = 5) -> None:
    """Name the lines of a panel above all panels."""
    figure.legend(*ax.get_legend_handles_labels(), ncols=columns, loc="outside upper center")


def _colour(name: str) -> str:
    """Return the colour of an estimator: ours, or another library's."""
    return PEERS if name.startswith(LIBRARIES) else OURS


def _mark(name: str) -> str:
    """Return the marker of an estimator: ours, or another library's."""
    return "s" if name.startswith(LIBRARIES) else "o"


if __name__ == "__main__":
    main()
