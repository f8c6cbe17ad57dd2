"""Error against seconds: a panel for each kind of game, a line for each estimator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from comparison.measurement import Result
from comparison.ours import METHODS, TOGETHER
from comparison.ranking import geometric_mean
from comparison.report import distinct
from shearshap.result.colours import FAINT, INK, KINDS

BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BROWN, BLACK = KINDS
DARK_GREY = "#7F7F7F"

STYLES = {
    "kriging": (VERMILION, "o"),
    "leverage": (ORANGE, "s"),
    "permutation-antithetic": (BROWN, "D"),
    "shear": (BLACK, "^"),
    "shapiq KernelSHAP": (BLUE, "o"),
    "shapiq LeverageSHAP": (BLUE, "s"),
    "shapiq PolySHAP 2": (BLUE, "x"),
    "shapiq PolySHAP 3": (BLUE, "^"),
    "shapiq OddSHAP": (GREEN, "o"),
    "shapiq RegressionMSR linear": (GREEN, "s"),
    "shapiq RegressionMSR xgb": (GREEN, "D"),
    "shapiq ProxySHAP": (GREEN, "^"),
    "shapiq SVARM": (SKY, "v"),
    "shapiq PermutationSamplingSV": (SKY, "D"),
    "shap KernelExplainer": (PINK, "o"),
    "shap PermutationExplainer": (PINK, "D"),
    "captum KernelShap": (DARK_GREY, "o"),
    "captum ShapleyValueSampling": (DARK_GREY, "D"),
}
"""Colour and marker of each estimator; one that is not here is drawn in ink, with a plus."""

HIDDEN = ("auto", f"auto{TOGETHER}")
"""Left out: their marks would lie on those of the method that "auto" chooses."""

COLUMNS = 2  #: of panels


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw the chart into a PNG file."""
    shown = [result for result in results if not result.failure and result.estimator not in HIDDEN]
    kinds = distinct(result.kind for result in shown)
    names = distinct(result.estimator for result in shown)
    rows = -(-len(kinds) // COLUMNS)

    with mpl.rc_context({"text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK}):
        figure, axes = plt.subplots(
            rows, COLUMNS, figsize=(14, 0.8 + 5 * rows), squeeze=False, layout="constrained"
        )
        panels = list(axes.flatten())
        for kind in kinds:
            draw_panel(panels.pop(0), kind, [result for result in shown if result.kind == kind])
        for panel in panels:
            panel.set_visible(False)

        figure.suptitle(title(shown), x=0.01, ha="left", fontsize=14)
        figure.legend(handles=list(legend_entries(names)), loc="outside right upper", frameon=False)
        figure.savefig(path, dpi=120)
        plt.close(figure)


def title(results: Sequence[Result]) -> str:
    """Return what the chart shows."""
    budgets = ", ".join(map(str, sorted({result.each for result in results})))
    return (
        f"Error against time at {budgets} evaluations a player (the marks grow with them); "
        "lower and further left is better"
    )


def draw_panel(panel: Any, kind: str, results: Sequence[Result]) -> None:
    """Draw the games of one kind."""
    games = len({result.game for result in results})
    budgets = sorted({result.each for result in results})
    several = f" (geometric means of {games} games)" if games > 1 else ""
    panel.set_title(kind + several, loc="left", fontsize=12, pad=10)
    panel.set(xscale="log", yscale="log", xlabel="seconds a row", ylabel="mean absolute error")
    panel.grid(which="major", color=FAINT, linewidth=0.9)
    panel.grid(which="minor", color=FAINT, linewidth=0.3)
    panel.spines[["top", "right"]].set_visible(False)

    for name in distinct(result.estimator for result in results):
        line = [result for result in results if result.estimator == name]
        draw_line(panel, marks_of(line, budgets, games), style(name))


@dataclass(frozen=True)
class Mark:
    """An estimator at one budget: geometric means over the games of a kind."""

    seconds: float
    error: float
    size: float  #: over that of the marks in the legend


def marks_of(results: Sequence[Result], budgets: Sequence[int], games: int) -> list[Mark]:
    """Return a mark for each budget at which the estimator has answered all games."""
    marks = []
    for number, each in enumerate(budgets):
        here = [result for result in results if result.each == each]
        if len(here) == games:
            seconds = geometric_mean([result.seconds for result in here])
            error = geometric_mean([result.error for result in here])
            marks.append(Mark(seconds, error, size=0.7 + 0.6 * number / max(1, len(budgets) - 1)))
    return marks


def draw_line(panel: Any, marks: Sequence[Mark], style: dict[str, Any]) -> None:
    """Draw marks that grow with the budget, and the line that joins them."""
    seconds = [mark.seconds for mark in marks]
    errors = [mark.error for mark in marks]
    panel.plot(seconds, errors, **{**style, "marker": ""})
    for mark in marks:
        size = style["markersize"] * mark.size
        panel.plot(mark.seconds, mark.error, **{**style, "markersize": size})


def style(name: str) -> dict[str, Any]:
    """Return how a line is drawn: ours heavily, filled where rows are explained together."""
    method = name.removesuffix(TOGETHER)
    colour, marker = STYLES.get(method, (INK, "+"))
    ours = method in METHODS
    together = name.endswith(TOGETHER)
    return {
        "color": colour,
        "marker": marker,
        "markerfacecolor": colour if together or not ours else "white",
        "markersize": 7 if ours else 5,
        "linewidth": 2 if ours else 1,
        "linestyle": "-" if together or not ours else "--",
        "alpha": 1 if ours else 0.75,
        "zorder": 3 if ours else 2,
    }


def legend_entries(names: Sequence[str]) -> Iterator[Line2D]:
    """Yield a heading for each library and way of calling, and a line for each estimator."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: name.removesuffix(TOGETHER) not in METHODS):
        groups.setdefault(_group(name), []).append(name)

    for heading, members in groups.items():
        yield Line2D([], [], linestyle="", label=f"$\\bf{{{heading}}}$")
        for name in members:
            label = name.removesuffix(TOGETHER).removeprefix(f"{heading} ")
            yield Line2D([], [], label=label, **style(name))
        yield Line2D([], [], linestyle="", label=" ")


def _group(name: str) -> str:
    if name.endswith(TOGETHER):
        return r"shearshap,\ all\ rows\ together"
    if name in METHODS:
        return r"shearshap,\ one\ row\ at\ a\ time"
    return name.split(" ")[0]
