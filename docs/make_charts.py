"""Draw the charts of the benchmarks, docs/images/charts/*.svg, from the tables on their pages.

python docs/make_charts.py
"""

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shearshap.result.colours import FAINT, GREY, INK, KINDS

DOCS = Path(__file__).parent
BENCHMARKS = DOCS.parent / "benchmarks" / "README.md"
LEADERBOARD = DOCS / "leaderboard.md"
CHARTS = DOCS / "images" / "charts"

OURS = KINDS[0]
PEERS = KINDS[1]
PEER_NAMES = ("shap.", "captum ", "shapiq ")

Table = list[dict[str, str]]  #: a dict for each line; its first column is named ""


def main() -> None:
    """Read the tables, and write a chart of each."""
    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "font.size": 9,
            "svg.hashsalt": "shearshap",  # the same file for the same numbers
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GREY,
            "axes.titlesize": 9,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "figure.facecolor": "white",
        }
    )
    CHARTS.mkdir(parents=True, exist_ok=True)
    for name, figure in charts().items():
        figure.savefig(CHARTS / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def charts() -> dict[str, Figure]:
    """Return all charts by name."""
    page = BENCHMARKS.read_text(encoding="utf-8")
    return {
        "leaderboard": leaderboard(tables(LEADERBOARD.read_text(encoding="utf-8"))[0]),
        "throughput": throughput(tables(section(page, "Throughput"))[0]),
        "trees": trees(tables(section(page, "Trees"))[0]),
        "latency": latency(tables(section(page, "Latency"))[0]),
        "accuracy": accuracy(tables(section(page, "Accuracy in the fair protocol"))),
        "few-evaluations": few_evaluations(section(page, "Few evaluations")),
        "interactions": interactions(tables(section(page, "Interactions"))[0]),
        "intervals": intervals(tables(section(page, "Intervals"))[:3]),
        "simple": simple(tables(section(page, "Kriging against the simple methods"))),
        "scaling": scaling(tables(section(page, "Scaling"))),
    }


def section(page: str, title: str) -> str:
    """Return the part of a page below a heading of the second level."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def tables(text: str) -> list[Table]:
    """Return the tables of a text, each a list of lines by the names of their columns."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, flags=re.MULTILINE):
        lines = [_cells(line) for line in block.strip().splitlines()]
        names = lines[0]
        found.append([dict(zip(names, line, strict=True)) for line in lines[2:]])
    return found


def _cells(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def number(cell: str) -> float:
    """Return the first number of a cell; NaN where there is none."""
    match = re.search(r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?", cell)
    return float(match[0].replace(",", "")) if match else float("nan")


def leaderboard(table: Table) -> Figure:
    """Draw the errors of all estimators, with intervals."""
    table = sorted(table, key=lambda line: number(line["error"]))
    names = [line["estimator"].replace("*", "") for line in table]
    errors = np.array([number(line["error"]) for line in table])
    bounds = np.array(
        [[float(end) for end in re.findall(r"[\d.]+", line["error"])[1:]] for line in table]
    )
    figure, ax = _figure(len(names))
    for at, name in enumerate(names):
        colour = _colour(name)
        ax.plot(bounds[at], [at, at], color=colour, linewidth=1.5)
        ax.plot(errors[at], at, "o", color=colour, markersize=5)
    ax.axvline(1, color=GREY, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
    ax.minorticks_off()
    _rows(ax, names)
    ax.set_xlabel("error, relative to permutation-antithetic (smaller is better)")
    _legend_of_origin(ax, "upper right")
    return figure


def throughput(table: Table) -> Figure:
    """Draw rows a second, ours and those of peers."""
    table = sorted(
        (line for line in table if not line[""].startswith("bare") and "paper" not in line[""]),
        key=lambda line: -number(line["rows/s"]),
    )
    names = [line[""] for line in table]
    rows = [number(line["rows/s"]) for line in table]
    figure, ax = _figure(len(names))
    ax.barh(range(len(names)), rows, color=[_colour(name) for name in names], height=0.6)
    for at, count in enumerate(rows):
        ax.text(count * 1.08, at, f"{count:,.0f}", va="center", fontsize=8)
    ax.set_xscale("log")
    ax.set_xlim(10, 30_000)
    ax.set_xticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
    ax.minorticks_off()
    _rows(ax, names)
    ax.set_xlabel("rows a second, on 2 cores (larger is better)")
    _legend_of_origin(ax, "lower right")
    return figure


def trees(table: Table) -> Figure:
    """Draw rows a second of exact values of trees, beside shap's."""
    names = list(dict.fromkeys(line["model"] for line in table))
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.4), layout="constrained", sharey=True)
    for ax, background in zip(axes, ("1", "10", "100"), strict=True):
        lines = [line for line in table if line["b"] == background]
        places = np.arange(len(names))
        for shift, column, colour in ((-0.2, "rows/s", OURS), (0.2, "shap rows/s", PEERS)):
            rows = [number(line[column]) for line in lines]
            ax.barh(places + shift, rows, height=0.36, color=colour)
        ax.set_xscale("log")
        ax.set_xlim(5, 50_000)
        ax.set_xticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
        ax.minorticks_off()
        ax.set_title(f"{background} background row{'' if background == '1' else 's'}")
        ax.grid(axis="x", color=FAINT, linewidth=0.6)
        ax.set_axisbelow(True)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.supxlabel("rows a second, exact values (larger is better)", fontsize=9)
    bars = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (OURS, PEERS)]
    labels = ["shearshap", "shap.TreeExplainer"]
    figure.legend(bars, labels, frameon=False, ncols=2, loc="outside upper center")
    return figure


def latency(table: Table) -> Figure:
    """Draw the seconds of one call."""
    names = [line[""] for line in table]
    figure, ax = _figure(len(names), width=8)
    columns = {"auto, s": KINDS[0], "leverage, s": KINDS[5], "the model, s": GREY}
    for column, colour in columns.items():
        seconds = [number(line[column]) for line in table]
        label = column.removesuffix(", s")
        ax.plot(seconds, range(len(names)), "o", color=colour, markersize=6, label=label)
    ax.set_xscale("log")
    ax.set_xticks([0.001, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    ax.minorticks_off()
    _rows(ax, names)
    ax.set_xlabel("seconds of one call (smaller is better)")
    ax.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def accuracy(by_budget: list[Table]) -> Figure:
    """Draw the geometric mean of the errors over networks, by budget."""
    budgets = [8, 16, 32, 64]
    methods = [name for name in by_budget[0][0] if name and "error" not in name]
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ends = {}
    for at, method in enumerate(methods):
        ratios = [[number(line[method]) for line in table] for table in by_budget[: len(budgets)]]
        means = [float(np.exp(np.mean(np.log(numbers)))) for numbers in ratios]
        best = method == "kriging"
        colour = KINDS[0] if best else (KINDS[1:] * 2)[at]
        ax.plot(budgets, means, "o-", color=colour, linewidth=2.5 if best else 1.2, markersize=4)
        ends[method] = (means[-1], colour)
    _label_ends(ax, budgets[-1], ends)
    _errors_by_budget(ax, budgets, [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    ax.set_ylabel("error, relative to leverage")
    return figure


def few_evaluations(text: str) -> Figure:
    """Draw the error by budget, in a panel for each kind of games."""
    panels = {
        title: tables(text.split(f"### {title}\n")[1])[0]
        for title in ("Texts", "Images", "Tables", "Sparse")
    }
    shown = ("kriging", "permutation-antithetic", "LIME", "shap Partition *", "shapiq ProxySPEX *")
    budgets = [0.25, 0.5, 1, 2, 4]
    figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), layout="constrained", sharey=True)
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        lines = {line["error, top five, coverage"]: line for line in table}
        for colour, name in zip(KINDS, shown, strict=False):
            errors = [number(lines[name][f"{budget:g} p"]) for budget in budgets]
            width = 2.5 if name == "kriging" else 1.2
            ax.plot(
                budgets, errors, "o-", color=colour, linewidth=width, markersize=3, label=name[:22]
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(budgets, ["¼", "½", "1", "2", "4"])
        ax.set_title(title.lower())
        ax.grid(axis="y", color=FAINT, linewidth=0.6)
    _plain_y(axes[0], [0.05, 0.1, 0.2, 0.5, 1, 2])
    axes[0].set_ylabel("error over |value|")
    figure.supxlabel("evaluations a player", fontsize=9)
    labels = [name.removesuffix(" *") for name in shown]
    figure.legend(
        axes[0].get_lines(), labels, frameon=False, ncols=5, loc="outside upper center", fontsize=8
    )
    return figure


def interactions(table: Table) -> Figure:
    """Draw the errors of interactions relative to kriging's, by budget."""
    methods = ["leverage", "KernelSHAPIQ", "InconsistentKernelSHAPIQ", "PermutationSamplingSII"]
    budgets = [8, 16, 32, 64]
    figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
    ends = {}
    for at, method in enumerate(["kriging", *methods]):
        means = []
        for budget in budgets:
            lines = [line for line in table if line["N"] == str(budget)]
            ratios = [number(line[method]) / number(line["kriging"]) for line in lines]
            means.append(float(np.exp(np.mean(np.log(ratios)))))
        width = 2.5 if method == "kriging" else 1.2
        ax.plot(budgets, means, "o-", color=KINDS[at], linewidth=width, markersize=4)
        ends[method] = (means[-1], KINDS[at])
    _label_ends(ax, budgets[-1], ends)
    _errors_by_budget(ax, budgets, [1, 2, 5, 10, 20, 50, 100])
    ax.set_ylabel("error, relative to kriging")
    return figure


def intervals(by_method: list[Table]) -> Figure:
    """Draw how many exact values 95 % intervals contain, a dot for each kind of games."""
    budgets = ["N = 4", "N = 8", "N = 16", "N = 32"]
    titles = ("kriging", "leverage", "permutation-antithetic")
    figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained", sharey=True)
    for ax, title, table in zip(axes, titles, by_method, strict=True):
        ax.axhline(95, color=GREY, linewidth=0.8)
        for at, budget in enumerate(budgets):
            held = np.array([number(line[budget]) for line in table])
            side = np.linspace(-0.25, 0.25, len(held))
            ax.plot(at + side, held, "o", color=OURS, markersize=3, alpha=0.8)
        ax.set_xticks(range(4), [budget.removeprefix("N = ") for budget in budgets])
        ax.set_title(title)
        ax.set_xlim(-0.5, 3.5)
        ax.set_ylim(85, 100.5)
    axes[0].set_ylabel("exact values in the interval, %")
    figure.supxlabel("evaluations a player (each dot is a kind of game)", fontsize=9)
    return figure


def simple(by_players: list[Table]) -> Figure:
    """Draw kriging's error over that of the better simple method, a dot for each kind of games."""
    budgets = ["N = 4", "N = 8", "N = 16", "N = 32"]
    players = (12, 30, 60, 100)
    figure, axes = plt.subplots(1, 4, figsize=(8, 3), layout="constrained", sharey=True)
    for ax, count, table in zip(axes, players, by_players, strict=True):
        ax.axhline(1, color=GREY, linewidth=0.8)
        for at, budget in enumerate(budgets):
            ratios = np.array([number(line[budget]) for line in table])
            side = np.linspace(-0.25, 0.25, len(ratios))
            ax.plot(at + side, ratios, "o", color=OURS, markersize=3, alpha=0.8)
        ax.set_xticks(range(4), [budget.removeprefix("N = ") for budget in budgets])
        ax.set_title(f"{count} players")
    axes[0].set_ylabel("kriging's error, relative to\nthe better simple method")
    figure.supxlabel("evaluations a player (each dot is a kind of game)", fontsize=9)
    return figure


def scaling(pair: list[Table]) -> Figure:
    """Draw the time of an evaluation by rows, and by evaluations."""
    labels = ("rows", "evaluations a player")
    figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained", sharey=True)
    for ax, label, table in zip(axes, labels, pair, strict=True):
        sizes = [name for name in table[0] if name]
        for colour, line in zip(KINDS[1:], table, strict=False):
            times = [number(line[size]) for size in sizes]
            shown = OURS if line[""] == "kriging" else colour
            ax.plot(range(len(sizes)), times, "o-", color=shown, markersize=3, label=line[""])
        ax.set_xticks(range(len(sizes)), sizes)
        ax.set_xlabel(label)
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", color=FAINT, linewidth=0.6)
    axes[0].set_ylabel("microseconds an evaluation")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def _figure(rows: int, width: float = 7) -> tuple[Figure, Axes]:
    """Return a figure with room for a number of named rows."""
    return plt.subplots(figsize=(width, 0.9 + 0.24 * rows), layout="constrained")


def _rows(ax: Axes, names: list[str]) -> None:
    """Name the rows of a chart, the first at the top."""
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.invert_yaxis()
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)


def _errors_by_budget(ax: Axes, budgets: list[int], ticks: list[float]) -> None:
    """Scale the axes of a chart of errors by budget."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(budgets, [str(budget) for budget in budgets])
    _plain_y(ax, ticks)
    ax.grid(axis="y", color=FAINT, linewidth=0.6)
    ax.set_xlabel("evaluations a player")


def _plain_y(ax: Axes, ticks: list[float]) -> None:
    """Write a logarithmic axis with plain numbers."""
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _label_ends(ax: Axes, at: float, ends: dict[str, tuple[float, str]]) -> None:
    """Write each line's name beside its end, moved apart where lines end close together."""
    last = 0.0
    for name, (height, colour) in sorted(ends.items(), key=lambda end: end[1][0]):
        last = max(height, last * 1.22)
        ax.annotate(
            name, (at, last), xytext=(8, 0), textcoords="offset points", va="center",
            color=colour, fontsize=8, annotation_clip=False,
        )  # fmt: skip


def _colour(name: str) -> str:
    """Return the colour of an estimator, by whose it is."""
    return PEERS if name.startswith(PEER_NAMES) else OURS


def _legend_of_origin(ax: Axes, place: str) -> None:
    """Say which colour is ours."""
    for label, colour in (("shearshap", OURS), ("other libraries", PEERS)):
        ax.plot([], [], "s", color=colour, label=label)
    ax.legend(frameon=False, loc=place)


if __name__ == "__main__":
    main()
