"""The plot of a player's values against its content in every row."""

import numpy as np
from matplotlib.axes import Axes

from shearshap import views
from shearshap.colours import GREY, KINDS
from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats
from shearshap.plots.arguments import player_number, single_output
from shearshap.plots.canvas import CELL_LETTERS, axes_of, axis_label, shorten, tidy
from shearshap.plots.points import (
    HALF_SWARM,
    dot_look,
    draw_colour_bar,
    draw_legend,
    draw_numbers,
    room,
)

AXIS_CATEGORIES = 12  #: categories on an axis, at most
COLOUR_CATEGORIES = 6  #: categories with a colour of their own, at most
FLAT_LETTERS = 60  #: letters of all categories together that fit on a line
FLAT_ROOM = 70  #: letters that fit if all categories are as long as the longest


def dependence(
    explanation: Explanation,
    player: int | str,
    *,
    cooperator: int | str | None = None,
    errors: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a player's values against what it is in each row.

    Points are coloured by the player that it acts with most.

    Parameters
    ----------
    explanation
        Of one output, with `data` or `display_data`.
    player
        Its name or number. Texts in `display_data` that are not all numbers are categories, the
        rarest as "others".
    cooperator
        The player to colour by; None: the one with the largest mean cross-contribution, or where
        there is none the largest mean |interaction|.
    errors
        Whether to draw the 95 % intervals.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "dependence")
    number = player_number(explanation, player, "player")
    other = _cooperator_number(explanation, number, cooperator)
    own, colour = _columns(explanation, number, other)
    bounds = explanation.interval(views.LEVEL) if errors else None

    values = explanation.values[:, number]
    ax = axes_of(ax, 6.4, 4.2)
    x = _category_axis(ax, own, values) if own.categories else own.numbers
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    tidy(ax, "y" if own.categories else "both")

    if bounds is not None:
        lower, upper = bounds
        ax.vlines(x, lower[:, number], upper[:, number], color=GREY, linewidth=0.6, zorder=2)
    _draw_coloured(ax, x, values, colour, shorten(explanation.feature_names[other]))

    ax.set_xlabel(_player_label(explanation.feature_names[number], x))
    ax.set_ylabel(axis_label(explanation, "Shapley value", intervals=errors, letters=28))
    return ax


def _cooperator_number(explanation: Explanation, player: int, cooperator: int | str | None) -> int:
    """Return the number of the player to colour by."""
    if cooperator is not None:
        return player_number(explanation, cooperator, "cooperator")

    strengths = views.strengths(explanation)
    if strengths is None:
        raise InputError(
            "dependence: this explanation does not say which players act together; "
            "explain with interactions=True, or choose one to colour by: cooperator="
        )
    together = np.abs(strengths.values).mean(axis=0)[player]
    together[player] = -1  # so that a player is its own cooperator only if there is no other
    return int(together.argmax())


def _columns(
    explanation: Explanation, player: int, other: int
) -> tuple[views.Column, views.Column]:
    """Return the cells of the player and of the player to colour by."""
    if explanation.display_data is None and explanation.data is None:
        raise InputError(
            "dependence needs the rows' data, this explanation has neither data nor display_data"
        )
    own = views.column(explanation, player, AXIS_CATEGORIES)
    colour = views.column(explanation, other, COLOUR_CATEGORIES)
    return own, colour


def _player_label(name: str, x: Floats) -> str:
    """Return the x-axis' label, with the number of rows that cannot be drawn."""
    empty = int(np.isnan(x).sum())
    note = f" ({empty} rows without a number)" if empty else ""
    return shorten(name) + note


# Categories


def _category_axis(ax: Axes, own: views.Column, values: Floats) -> Floats:
    """Put categories on the x-axis, and return each row's x, beside rows of like value, (r,)."""
    names = [shorten(category, CELL_LETTERS) for category in own.categories]
    ax.set_xticks(range(len(names)), names)
    if _need_slant(names):
        ax.tick_params(axis="x", rotation=35)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.6, len(names) - 0.4)

    bins, across = room(ax, len(names), horizontal=False)
    span = float(values.min()), float(values.max())
    offsets = np.zeros(len(values))
    for category in range(len(names)):
        members = own.numbers == category
        offsets[members] = views.swarm_offsets(values[members], span, bins=bins, across=across)
    return own.numbers + HALF_SWARM * offsets


def _need_slant(names: list[str]) -> bool:
    """Return whether names are too long to stand beside each other."""
    lengths = [len(name) for name in names]
    return sum(lengths) > FLAT_LETTERS or max(lengths) * len(names) > FLAT_ROOM


# Colours


def _draw_coloured(ax: Axes, x: Floats, y: Floats, colour: views.Column, name: str) -> None:
    """Draw points in a cooperator's colours, and beside them what the colours mean."""
    if colour.categories:
        _draw_categories(ax, x, y, colour, name)
        return

    known = colour.numbers[~np.isnan(colour.numbers)]
    limits = _limits(known)
    dots = draw_numbers(ax, x, y, colour.numbers, limits)
    if known.size:
        draw_colour_bar(ax, dots, name, _beyond(known, limits))


def _draw_categories(ax: Axes, x: Floats, y: Floats, colour: views.Column, name: str) -> None:
    hues = list(KINDS[: len(colour.categories)])
    if colour.others is not None:
        hues[colour.others] = GREY
    ax.scatter(x, y, c=[hues[int(number)] for number in colour.numbers], **dot_look(len(x)))
    draw_legend(ax, name, dict(zip(colour.categories, hues, strict=True)))


def _limits(known: Floats) -> tuple[float, float]:
    """Return the numbers where colours begin and end.

    They are the 5th and 95th percentile, so that single far numbers leave colours to the others;
    the lowest and highest number if the percentiles are equal.
    """
    if not known.size:
        return 0.0, 1.0
    percentiles = np.percentile(known, [5, 95])
    extremes = known.min(), known.max()
    for low, high in (percentiles, extremes):
        if low < high:
            return float(low), float(high)
    return float(known[0]) - 1, float(known[0]) + 1


def _beyond(known: Floats, limits: tuple[float, float]) -> str:
    """Return at which ends numbers lie beyond the limits, as matplotlib's `extend`."""
    low, high = limits
    below = bool(known.min() < low)
    above = bool(known.max() > high)
    if below and above:
        return "both"
    if below:
        return "min"
    return "max" if above else "neither"
