"""How an explanation settles as its budget grows."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats
from shearshap.plots.canvas import (
    GREY,
    INK,
    KINDS,
    SMALL,
    about,
    axes_of,
    checked_count,
    checked_row,
    largest,
    margins,
    one_output,
    shorten,
    tidy,
)

_MARKERS = "osD^vP<>"


def convergence(
    explanations: Sequence[Explanation] | Mapping[int, Explanation],
    *,
    row: int = 0,
    max_players: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Draw a row's values as the budget grows, with 95 % intervals as bands where there are
    standard errors.

    Parameters
    ----------
    explanations
        Of the same rows and one output, made with growing budgets: two or more, drawn where their
        evaluations are, or a mapping from budget to explanation, drawn where the budgets are.
    row
        Which of their rows.
    max_players
        How many players to show, up to 8: those with the largest values at the largest budget.
    ax
        Where to draw; None: a new figure.
    """
    spent, parts = _ordered(explanations, row)
    values = np.stack([part.values[0] for part in parts])  # (budgets, p)
    kept = largest(values[-1], min(checked_count("max_players", max_players), len(KINDS)))
    ax = axes_of(ax, 6.8, 4.2)
    ax.axhline(0, color=GREY, linewidth=0.8)
    for colour, marker, player in zip(
        KINDS, _MARKERS, kept[np.argsort(-values[-1, kept])], strict=False
    ):
        label = shorten(parts[-1].feature_names[player])
        ax.plot(
            spent,
            values[:, player],
            marker=marker,
            color=colour,
            label=label,
            linewidth=1.4,
            markersize=4,
        )
        _band(ax, spent, parts, int(player), colour)
    _doublings(ax)
    ax.set_xlabel("budget" if isinstance(explanations, Mapping) else "model evaluations")
    ax.set_ylabel(
        about(parts[-1], "Shapley value", intervals=margins(parts[0]) is not None, letters=28)
    )
    tidy(ax, "both")
    ax.legend(
        loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=SMALL, labelcolor=INK
    )
    return ax


def _ordered(
    given: Sequence[Explanation] | Mapping[int, Explanation], row: int
) -> tuple[Floats, list[Explanation]]:
    """Return budgets or evaluations, growing, and the explanations of one row at each."""
    wanted = (
        "convergence: wanted two or more explanations of the same rows, made with growing budgets"
    )
    if not isinstance(given, Mapping | Sequence) or len(given) < 2:
        raise InputError(
            f"{wanted}; got "
            f"{len(given) if isinstance(given, Mapping | Sequence) else type(given).__name__}"
        )
    wholes = [
        one_output(part, "convergence")
        for part in (given.values() if isinstance(given, Mapping) else given)
    ]
    shapes = {part.values.shape for part in wholes}
    if len(shapes) > 1:
        raise InputError(f"{wanted}; got values of shapes {', '.join(map(str, sorted(shapes)))}")
    parts = [part[checked_row(part, row)] for part in wholes]
    ends = np.array([(part.base_values[0], part.predictions[0]) for part in parts])
    if not np.allclose(ends, ends[:1], rtol=1e-3, atol=1e-3 * np.ptp(ends)):
        raise InputError(
            f"{wanted}; got other base values or predictions: "
            f"{np.unique(ends.round(6), axis=0).tolist()}"
        )
    spent = np.array(
        list(given) if isinstance(given, Mapping) else [_evaluations(part) for part in parts],
        np.float64,
    )
    order = np.argsort(spent, kind="stable")
    return spent[order], [parts[number] for number in order]


def _evaluations(part: Explanation) -> int:
    return part.evaluations if part.row_evaluations is None else int(part.row_evaluations[0])


def _band(ax: Axes, spent: Floats, parts: list[Explanation], player: int, colour: str) -> None:
    """Draw a player's intervals; a budget without standard errors, such as an exact one's, has none
    to draw.
    """
    bounds = [
        (part.values[0, player], 0.0 if (spread := margins(part)) is None else spread[0, player])
        for part in parts
    ]
    middle, margin = np.array(bounds).T
    if margin.any():
        ax.fill_between(
            spent, middle - margin, middle + margin, color=colour, alpha=0.15, linewidth=0
        )


def _doublings(ax: Axes) -> None:
    """Mark the x-axis at powers of two, written out."""
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda number, _: f"{number:,.0f}" if number >= 1 else f"{number:g}")
    )
    ax.xaxis.set_minor_locator(NullLocator())
