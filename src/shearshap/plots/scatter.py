"""Plots of a feature's values against the content of a feature in every row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots.canvas import (
    CELL_LETTERS,
    HALF_SWARM,
    axes_of,
    axis_label,
    colour_key,
    dot_look,
    draw_colour_bar,
    draw_legend,
    draw_numbers,
    ends_beyond,
    number_axes,
    player_number,
    room,
    shorten,
    single_output,
    tidy,
)
from shearshap.result import views
from shearshap.result.colours import GREY, KINDS, LOWERS
from shearshap.result.explanation import Explanation, Floats

AXIS_CATEGORIES = 12  #: categories on an axis, at most
COLOUR_CATEGORIES = 6  #: categories with a colour of their own, at most
FEW = 300  #: rows up to which dots are large
LARGE_DOT = 5.5  #: points: the diameter of the dots of few rows
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
    """Draw a feature's values against what it is in each row.

    Points are coloured by the feature that it acts with most. Where the explanation does not say
    which that is, it is guessed: the feature that goes best with what the values differ by among
    rows that are alike in the feature itself.

    Parameters
    ----------
    explanation
        Of one output, with `data` or `display_data`.
    player
        Its name or number. Texts in `display_data` that are not all numbers are categories, the
        rarest as "others".
    cooperator
        The feature to colour by; None: the one with the largest mean cross-contribution, or where
        there is none the largest mean |interaction|, or else the best guess.
    errors
        Whether to draw the 95 % intervals.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "dependence")
    number = player_number(explanation, player, "player")
    _check_data(explanation, "dependence")
    other = _cooperator_number(explanation, number, cooperator)
    colour = None if other is None else _player_colour(explanation, other)
    return _draw(explanation, number, number, colour, errors=errors, ax=ax)


def scatter(
    explanation: Explanation,
    player: int | str,
    *,
    against: int | str | None = None,
    colour: int | str | Sequence[Any] | NDArray[Any] | None = None,
    errors: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a feature's values against what any feature is in each row, in colours of your choice.

    `dependence` draws the same, and chooses the colours itself.

    Parameters
    ----------
    explanation
        Of one output, with `data` or `display_data`.
    player
        Whose values to draw: its name or number.
    against
        The feature on the x-axis; None: the same.
    colour
        The feature to colour by, or a number or label for each row; None: one colour.
    errors
        Whether to draw the 95 % intervals.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "scatter")
    number = player_number(explanation, player, "player")
    across = number if against is None else player_number(explanation, against, "against")
    _check_data(explanation, "scatter")
    return _draw(
        explanation, number, across, _chosen_colour(explanation, colour), errors=errors, ax=ax
    )


def _draw(
    explanation: Explanation,
    player: int,
    across: int,
    colour: "_Colour | None",
    *,
    errors: bool,
    ax: Axes | None,
) -> Axes:
    """Draw a feature's values against the cells of a feature."""
    own = views.column(explanation, across, AXIS_CATEGORIES)
    bounds = explanation.interval(views.LEVEL) if errors else None
    values = explanation.values[:, player]

    ax = axes_of(ax, 6.4, 4.2)
    x = _category_axis(ax, own, values) if own.categories else own.numbers
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    tidy(ax, "y" if own.categories else "both")
    number_axes(ax, "y" if own.categories else "both")

    if bounds is not None:
        lower, upper = bounds
        ax.vlines(x, lower[:, player], upper[:, player], color=GREY, linewidth=0.6, zorder=2)
    ax.set_xlabel(_player_label(explanation.feature_names[across], x))
    whose = "" if player == across else f" of {shorten(explanation.feature_names[player])}"
    ax.set_ylabel(axis_label(explanation, f"Shapley value{whose}", intervals=errors, letters=28))

    # after the labels, as a legend may stand below them
    if colour is None:
        ax.scatter(x, values, color=LOWERS, zorder=3, **dot_look(len(x)))
    else:
        _draw_coloured(ax, x, values, colour)
    if not own.categories:
        _enlarge_dots(ax)
    return ax


def _enlarge_dots(ax: Axes) -> None:
    """Make the dots of few rows larger; in swarms they stand side by side, and have no room."""
    for dots in ax.collections:
        if isinstance(dots, PathCollection) and len(np.asarray(dots.get_offsets())) <= FEW:
            dots.set_sizes([LARGE_DOT**2])


def _check_data(explanation: Explanation, plot: str) -> None:
    if explanation.display_data is None and explanation.data is None:
        raise InputError(
            f"{plot} needs the rows' data, this explanation has neither data nor display_data"
        )


def _player_label(name: str, x: Floats) -> str:
    """Return the x-axis' label, with the number of rows that cannot be drawn."""
    empty = int(np.isnan(x).sum())
    note = f" ({empty} rows without a number)" if empty else ""
    return shorten(name) + note


# The feature to colour by


def _cooperator_number(
    explanation: Explanation, player: int, cooperator: int | str | None
) -> int | None:
    """Return the number of the feature to colour by; None if none can be told."""
    if cooperator is not None:
        return player_number(explanation, cooperator, "cooperator")

    strengths = views.strengths(explanation)
    if strengths is None:
        return views.likely_cooperator(explanation, player)
    together = np.abs(strengths.values).mean(axis=0)[player]
    together[player] = -1  # so that a feature is its own cooperator only if there is no other
    return int(together.argmax())


@dataclass(frozen=True, eq=False)
class _Colour:
    """What points are coloured by."""

    name: str
    column: views.Column


def _player_colour(explanation: Explanation, player: int) -> _Colour:
    name = shorten(explanation.feature_names[player])
    return _Colour(name, views.column(explanation, player, COLOUR_CATEGORIES))


def _chosen_colour(
    explanation: Explanation, colour: int | str | Sequence[Any] | NDArray[Any] | None
) -> _Colour | None:
    """Return what the user wants to colour by: a feature, or something of each row."""
    if colour is None:
        return None
    if isinstance(colour, str) or np.ndim(colour) == 0:
        return _player_colour(explanation, player_number(explanation, colour, "colour"))  # type: ignore[arg-type]

    contents = list(colour)  # type: ignore[arg-type]
    if len(contents) != len(explanation):
        raise InputError(
            f"colour: wanted a feature, or a number or label for each of {len(explanation)} rows, "
            f"got {len(contents)}"
        )
    name = shorten(str(getattr(colour, "name", None) or ""))
    return _Colour(name, views.column_of(contents, COLOUR_CATEGORIES))


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


def _draw_coloured(ax: Axes, x: Floats, y: Floats, by: _Colour) -> None:
    """Draw points in colours, and beside them what the colours mean."""
    if by.column.categories:
        _draw_categories(ax, x, y, by.column, by.name)
        return

    numbers = by.column.numbers
    known = numbers[~np.isnan(numbers)]
    limits = _limits(known)
    dots = draw_numbers(ax, x, y, numbers, limits)
    if known.size:
        draw_colour_bar(ax, dots, by.name, ends_beyond(known, *limits))
    if known.size < numbers.size:
        colour_key(ax, {"no number": GREY}, marker="o")


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
