"""Plots of points: a feature's values against its contents, and swarms of all features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots import canvas
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.colours import GREY, KINDS, LOWERS
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes

AXIS_CATEGORIES = 12  #: categories on an axis, at most
COLOUR_CATEGORIES = 6  #: categories with a colour of their own, at most
MAX_FLAT_LETTERS = 64  #: letters on a line, if all categories are as long as the longest


@canvas.plot
def dependence(
    explanation: Explanation,
    player: int | str,
    *,
    cooperator: int | str | None = None,
    errors: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a feature's Shapley values against its data.

    Points are coloured by the feature that it acts with most. If the explanation does not say
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
        The feature to colour by; None: the one with the largest mean cross-contribution, or if
        there is none the largest mean |interaction|, or else the best guess.
    errors
        Whether to draw the 95 % intervals.
    """
    explanation = canvas.single_output(explanation, "dependence")
    number = canvas.player_number(explanation, player, "player")
    if cooperator is None:
        cooperator = _likely_cooperator(explanation, number)
    else:
        cooperator = canvas.player_number(explanation, cooperator, "cooperator")
    return scatter(
        explanation, number, colour=cooperator, errors=errors, ax=ax, title=title, show=show
    )


@canvas.plot
def scatter(
    explanation: Explanation,
    player: int | str,
    *,
    colour: int | str | Sequence[Any] | NDArray[Any] | Explanation | None = None,
    errors: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a feature's Shapley values against its data, in colours of your choice.

    `dependence` draws the same, and chooses the colours itself.

    Parameters
    ----------
    explanation
        Of one output, with `data` or `display_data`.
    player
        Whose values to draw: its name or number.
    colour
        The feature to colour by, or a number or label for each row; None: one colour. An
        explanation, as in shap: the feature that `dependence` chooses.
    errors
        Whether to draw the 95 % intervals.
    """
    explanation = canvas.single_output(explanation, "scatter")
    number = canvas.player_number(explanation, player, "player")
    if explanation.display_data is None and explanation.data is None:
        raise InputError(
            "the rows' data are needed; this explanation has neither data nor display_data"
        )
    own = views.column(explanation, number, AXIS_CATEGORIES)
    if isinstance(colour, Explanation):
        colour = _likely_cooperator(explanation, number)
    by = _colours(explanation, colour)
    bounds = explanation.interval(views.LEVEL) if errors else None
    values = explanation.values[:, number]

    ax = canvas.axes_of(ax, 6.4, 4.4)
    canvas.write_question(ax, explanation)
    x = _category_axis(ax, own, values) if own.categories else own.numbers
    ax.axhline(0, **canvas.ZERO)
    which: canvas.Which = "y" if own.categories else "both"
    canvas.tidy(ax, which, numbers=which)
    if bounds is not None:
        lower, upper = bounds
        ax.vlines(x, lower[:, number], upper[:, number], color=GREY, linewidth=0.6, zorder=2)

    empty = int(np.isnan(x).sum())
    note = f" ({empty} rows without a number)" if empty else ""
    ax.set_xlabel(canvas.shorten(own.name) + note)
    what = f"{explanation.semivalue} of {canvas.shorten(own.name)}"
    ax.set_ylabel(canvas.axis_label(explanation, what, intervals=errors, letters=28))

    # after the labels, as a legend may stand below them
    if by is None:
        ax.scatter(x, values, color=LOWERS, zorder=3, **canvas.dot_look(len(x)))
    elif by.categories:
        _draw_categories(ax, x, values, by)
    else:
        _draw_numbers(ax, x, values, by)
    return canvas.finished(ax, title, show)


# What to colour by


def _likely_cooperator(explanation: Explanation, player: int) -> int | None:
    """Return the number of the feature that acts most with a feature; None if that is unknown."""
    strengths = views.strengths(explanation, ("cross-contribution", "interactions"))
    if strengths is None:
        return views.likely_cooperator(explanation, player)
    together = np.abs(strengths.values).mean(axis=0)[player]
    together[player] = -1  # so that a feature is its own cooperator only if there is no other
    return int(together.argmax())


def _colours(
    explanation: Explanation, colour: int | str | Sequence[Any] | NDArray[Any] | None
) -> views.Column | None:
    """Return what the user wants to colour by: a feature, or something of each row."""
    if colour is None:
        return None
    if isinstance(colour, str | int | np.integer):
        player = canvas.player_number(explanation, colour, "colour")
        return views.column(explanation, player, COLOUR_CATEGORIES)
    contents = list(colour)
    if len(contents) != len(explanation):
        raise InputError(
            f"colour: expected a feature, or a label or number for each of {len(explanation)} "
            f"rows, got {len(contents)}"
        )
    name = str(getattr(colour, "name", None) or "")
    return views.column_of(contents, COLOUR_CATEGORIES, name=name)


# Categories


def _category_axis(ax: Axes, own: views.Column, values: Floats) -> Floats:
    """Put categories on the x-axis, and return each row's x, beside rows of like value, (r,)."""
    names = [canvas.shorten(category, canvas.CELL_LETTERS) for category in own.categories]
    ax.set_xticks(range(len(names)), names)
    if max(map(len, names)) * len(names) > MAX_FLAT_LETTERS:
        ax.tick_params(axis="x", rotation=35)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.6, len(names) - 0.4)

    bins, across = canvas.swarm_room(ax, len(names), horizontal=False)
    span = float(values.min()), float(values.max())
    offsets = np.zeros(len(values))
    for category in range(len(names)):
        members = own.numbers == category
        offsets[members] = views.swarm_offsets(values[members], span, bins=bins, across=across)
    return own.numbers + canvas.HALF_SWARM * offsets


# Colours


def _draw_numbers(ax: Axes, x: Floats, y: Floats, by: views.Column) -> None:
    """Draw points in the colours of numbers, and beside them a bar of colours."""
    known = by.numbers[~np.isnan(by.numbers)]
    dots = canvas.draw_numbers(ax, x, y, by.numbers, _limits(known))
    if known.size:
        canvas.draw_colour_bar(ax, dots, canvas.shorten(by.name), known)
    if known.size < len(by.numbers):
        canvas.colour_key(ax, {"no number": GREY}, marker="o")


def _draw_categories(ax: Axes, x: Floats, y: Floats, by: views.Column) -> None:
    """Draw points in the colours of categories, and beside them which is which."""
    hues = list(KINDS[: len(by.categories)])
    if by.others is not None:
        hues[by.others] = GREY
    colours = [hues[int(number)] for number in by.numbers]
    ax.scatter(x, y, c=colours, **canvas.dot_look(len(x)))
    names = [canvas.shorten(category, canvas.CELL_LETTERS) for category in by.categories]
    marks = [canvas.colour_mark(name, hue, "o") for name, hue in zip(names, hues, strict=True)]
    canvas.key_beside(ax, marks, canvas.shorten(by.name))


def _limits(known: Floats) -> tuple[float, float]:
    """Return the numbers where colours begin and end.

    They are the 5th and 95th percentile, so that single far numbers leave colours to the others;
    the lowest and highest number if the percentiles are equal.
    """
    if not known.size:
        return 0.0, 1.0
    low, high = np.percentile(known, [5, 95])
    if low == high:
        low, high = known.min(), known.max()
    return (float(low), float(high)) if low < high else (float(low) - 1, float(high) + 1)


# All features


@canvas.plot
def beeswarm(
    explanation: Explanation,
    *,
    max_features: int = 15,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw every row's values, a swarm of points for each feature, the largest mean size first.

    A point's colour is the rank of the feature's `data` among the rows, from blue (low) to orange
    (high). It is grey if there is no number, and if categories have no order. Several texts
    have a swarm for each word.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    max_features
        How many features to show; the others are left out, and counted below.
    """
    explanation = canvas.single_output(explanation, "beeswarm")
    most = canvas.positive_count("max_features", max_features)
    whole = explanation
    explanation = same_players(explanation)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    ax = canvas.axes_of(ax, 6.8, 1.6 + 0.38 * len(players))
    canvas.write_question(ax, whole)
    canvas.label_lines(
        ax, [canvas.shorten(explanation.feature_names[player]) for player in players]
    )
    ax.axvline(0, **canvas.ZERO)
    canvas.tidy(ax, "both", numbers="x")

    bins, across = canvas.swarm_room(ax, len(players), horizontal=True)
    swarms = views.swarms(explanation, players, bins=bins, across=across)
    _draw_swarms(ax, swarms)

    left_out = len(sizes) - len(players)
    ax.set_xlabel(canvas.axis_label(explanation, explanation.semivalue, left_out=left_out))
    # some points have a colour and others are grey, which asks for an answer
    known = np.concatenate([~np.isnan(swarm.ranks) for swarm in swarms])
    if known.any() and not known.all():
        canvas.colour_key(ax, {"categorical, or missing": GREY}, marker="o")
    return canvas.finished(ax, title, show)


def _draw_swarms(ax: Axes, swarms: list[views.Swarm]) -> None:
    """Draw swarms around the lines 0, 1, ..., with a bar of their colours if there are any."""
    values = np.column_stack([swarm.values for swarm in swarms])  # (r, features)
    offsets = np.column_stack([swarm.offsets for swarm in swarms])
    ranks = np.column_stack([swarm.ranks for swarm in swarms])

    lines = np.arange(len(swarms)) + canvas.HALF_SWARM * offsets
    if len(values) == 1:
        ranks = np.full_like(ranks, np.nan)  # among one row there is no low and high
    present = ~np.isnan(values)
    dots = canvas.draw_numbers(ax, values[present], lines[present], ranks[present], (0, 1))
    if not np.isnan(ranks).all():
        bar = canvas.draw_colour_bar(ax, dots, "feature value (rank)")
        bar.set_ticks([0, 1], labels=["low", "high"])
