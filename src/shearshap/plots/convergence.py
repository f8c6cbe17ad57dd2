"""The plot of how an explanation settles as its budget grows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.result import views
from shearshap.result.colours import KINDS
from shearshap.result.explanation import Explanation, Floats, spent_evaluations

MARKERS = "osD^vP<>"  #: one for each of the colours in KINDS
EXPECTED = (
    "convergence: expected two or more explanations of the same rows, made with growing budgets"
)


@canvas.plot
def convergence(
    explanations: Sequence[Explanation] | Mapping[int, Explanation],
    *,
    row: canvas.Row = 0,
    max_features: int = 6,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a row's values as the budget grows, with 95 % intervals as bands.

    Parameters
    ----------
    explanations
        Two or more explanations of the same rows and one output, made with growing budgets and
        drawn at their evaluations; or a mapping from budget to explanation, drawn at the budgets.
    max_features
        How many features to show, up to 8: those with the largest values at the largest budget.
    """
    budgets, parts = _ordered(explanations, row)
    most = min(canvas.positive_count("max_features", max_features), len(KINDS))
    last = parts[-1].values[0]
    players = views.largest(last, most)
    # the legend is beside the ends of the lines: both in the same order
    from_the_top = players[np.argsort(-last[players])]

    room = words.name_room(ax)
    names = words.fitted_names([parts[-1].feature_names[player] for player in from_the_top], room)
    ax = canvas.axes_of(ax, 6.4, 4.8, beside=names)
    words.write_title(ax, title, parts[-1], 0)
    ax.axhline(0, **canvas.ZERO)
    looks = zip(names, KINDS, MARKERS, strict=False)
    for player, (name, colour, marker) in zip(from_the_top.tolist(), looks, strict=True):
        _draw_feature(ax, budgets, parts, player, label=name, color=colour, marker=marker)

    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("budget" if isinstance(explanations, Mapping) else "model evaluations")
    intervals = bool((views.margins(parts[0]) > 0).any())
    what = parts[-1].semivalue
    room = words.height_in_points(ax)
    ax.set_ylabel(words.axis_label(ax, parts[-1], what, intervals=intervals, room=room))
    canvas.tidy(ax, "both", numbers="y")
    canvas.key_beside(ax, ax.get_legend_handles_labels()[0])
    return canvas.finished(ax, show=show)


def _draw_feature(
    ax: Axes, budgets: Floats, parts: list[Explanation], player: int, **look: Any
) -> None:
    """Draw a feature's values, and a band of its intervals if any budget has some."""
    values = np.array([part.values[0, player] for part in parts])
    margins = np.array([views.margins(part)[0, player] for part in parts])
    width, size = words.scaled(1.8), words.scaled(5)
    ax.plot(budgets, values, linewidth=width, markersize=size, **look)
    if margins.any():
        lower = values - margins
        upper = values + margins
        ax.fill_between(budgets, lower, upper, color=look["color"], alpha=0.15, linewidth=0)


# The explanations, checked


def _ordered(
    explanations: Sequence[Explanation] | Mapping[int, Explanation], row: canvas.Row
) -> tuple[Floats, list[Explanation]]:
    """Return budgets or evaluations, growing, and the explanation of one row at each."""
    if not isinstance(explanations, Mapping | Sequence) or len(explanations) < 2:
        raise InputError(f"{EXPECTED}; got {explanations!r}")
    given = explanations.values() if isinstance(explanations, Mapping) else explanations
    wholes = [canvas.single_output(whole, "convergence") for whole in given]
    if len({whole.values.shape for whole in wholes}) > 1:
        shapes = ", ".join(str(whole.values.shape) for whole in wholes)
        raise InputError(f"{EXPECTED}; got values of shapes {shapes}")

    parts = [views.of_row(whole, canvas.row_number(whole, row)) for whole in wholes]
    ends = np.array([(part.base_values[0], part.predictions[0]) for part in parts])
    if not np.allclose(ends, ends[:1], rtol=1e-3, atol=1e-3 * np.ptp(ends)):
        raise InputError(f"{EXPECTED}; got different base values or predictions: {ends.tolist()}")

    evaluations = [int(spent_evaluations(part)[0]) for part in parts]
    budgets = list(explanations) if isinstance(explanations, Mapping) else evaluations
    order = np.argsort(budgets, kind="stable")
    return np.array(budgets, np.float64)[order], [parts[place] for place in order]
