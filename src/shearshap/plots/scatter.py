"""Plots of points: a feature's values against its contents, and swarms of all features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.colours import FAINT, GREY, INK, KINDS, SIZES
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes

AXIS_CATEGORIES = 12  #: categories on an axis, at most
COLOUR_CATEGORIES = 6  #: categories with a colour of their own, at most
HISTOGRAM = 0.14  #: the height of a histogram, relative to that of the axes
MAX_BINS = 30  #: of a histogram
MAX_NAMES = 4  #: categories named below a swarm
FAR = 0.16  #: from a category's mean to its name, relative to the width of the axes


@canvas.plot
def dependence(
    explanation: Explanation,
    feature: int | str,
    *,
    cooperator: int | str | None = None,
    errors: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a feature's Shapley values against its data.

    Points are coloured by the feature that it interacts with most. Without interactions, that is
    the feature that best explains the remaining spread of the values among rows with similar data.

    Parameters
    ----------
    explanation
        With one output, and `data` or `display_data`.
    feature
        Its name or number. Texts in `display_data` that are not all numbers are categories, the
        rarest as "others".
    cooperator
        The feature to colour by. None: the one with the largest mean cross-contribution or, without
        these, the largest mean |interaction| or, without both, the best guess.
    errors
        Whether to draw the 95 % intervals.
    """
    explanation = canvas.single_output(explanation, "dependence")
    number = canvas.feature_number(explanation, feature, "feature")
    if cooperator is None:
        cooperator = _likely_cooperator(explanation, number)
    else:
        cooperator = canvas.feature_number(explanation, cooperator, "cooperator")
    return scatter(
        explanation, number, colour=cooperator, errors=errors, ax=ax, title=title, show=show
    )


@canvas.plot
def scatter(
    explanation: Explanation,
    feature: int | str,
    *,
    colour: int | str | Sequence[Any] | NDArray[Any] | Explanation | None = None,
    errors: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw a feature's Shapley values against its data, in colours that you choose.

    `dependence` draws the same, and chooses the colours itself.

    Parameters
    ----------
    explanation
        With one output, and `data` or `display_data`.
    feature
        Whose values to draw: its name or number.
    colour
        The feature to colour by, or one number or label per row. None: one colour. An explanation,
        as in shap: the feature that `dependence` chooses.
    errors
        Whether to draw the 95 % intervals.
    """
    explanation = canvas.single_output(explanation, "scatter")
    number = canvas.feature_number(explanation, feature, "feature")
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

    key: list[str] = []
    if by is not None and by.categories:
        room = 0.4 * words.width_in_points(ax) if ax else words.scaled(200)
        key = [words.fitted(name, room) for name in (by.name, *by.categories)]
    ax = canvas.axes_of(ax, 6.6 if key else 7.2, 5.0, beside=key)
    words.write_title(ax, title, explanation)
    x = own.numbers
    levels = _levels(own)
    if own.categories:
        ax.set_xlim(-0.6, len(own.categories) - 0.4)
    if levels is not None:
        x = _side_by_side(ax, x, values, levels)
    ax.axhline(0, **canvas.ZERO)
    which: canvas.Which = "y" if own.categories else "both"
    canvas.tidy(ax, which, numbers=which)
    if not own.categories:
        _draw_histogram(ax, own.numbers[~np.isnan(own.numbers)], levels)
    if bounds is not None:
        lower, upper = bounds
        ax.vlines(x, lower[:, number], upper[:, number], color=GREY, linewidth=0.6, zorder=2)

    empty = int(np.isnan(x).sum())
    note = f" ({empty} missing, not shown)" if empty else ""
    ax.set_xlabel(words.fitted(own.name, words.name_room(None)) + note)
    high = words.height_in_points(ax)
    what = words.wrapped(high, f"{explanation.semivalue} of", words.fitted(own.name, high))
    ax.set_ylabel(words.axis_label(ax, explanation, what, intervals=errors, room=high))

    _draw_points(ax, x, values, by, key)  # after the labels, as a legend may stand below them
    if own.categories:
        _name_categories(ax, own.categories)
    return canvas.finished(ax, show=show)


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
        player = canvas.feature_number(explanation, colour, "colour")
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


def _name_categories(ax: Axes, categories: Sequence[str]) -> None:
    """Put categories on the x-axis: each on as many lines as it needs, or slanted."""
    room = words.settled_width(ax)
    each = room / len(categories) - words.type_size()
    names = [words.wrapped(each, words.fitted(category, room)) for category in categories]
    slanted = max(map(words.text_width, names)) > each
    if slanted:
        names = words.fitted_names(categories, 0.4 * room)
    ax.set_xticks(range(len(names)), names)
    if slanted:
        ax.tick_params(axis="x", rotation=35)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _levels(own: views.Column) -> NDArray[Any] | None:
    """Return the numbers of categories, or the few numbers that occur; None if there are many."""
    if own.categories:
        return np.arange(len(own.categories))
    levels = np.unique(own.numbers[~np.isnan(own.numbers)])
    few = 1 < len(levels) <= AXIS_CATEGORIES and len(own.numbers) > 2 * len(levels)
    return levels if few else None


def _side_by_side(ax: Axes, numbers: Floats, values: Floats, levels: NDArray[Any]) -> Floats:
    """Return each row's x, (r,): its number, moved aside from rows of like value."""
    gap = float(np.diff(levels).min()) if len(levels) > 1 else 1.0
    swarms = int(np.ptp(levels) / gap) + 1
    bins, across = canvas.swarm_room(ax, swarms, horizontal=False)
    span = float(values.min()), float(values.max())
    offsets = np.zeros(len(values))
    for level in levels:
        members = numbers == level
        offsets[members] = views.swarm_offsets(values[members], span, bins=bins, across=across)
    return np.asarray(numbers + canvas.HALF_SWARM * gap * offsets)


def _draw_histogram(ax: Axes, numbers: Floats, levels: NDArray[Any] | None) -> None:
    """Draw how often numbers occur, as faint bars along the x-axis; a bar for each level."""
    if levels is not None:
        counts = (numbers[:, None] == levels).sum(axis=0)
        middles, widths = levels, 0.8 * np.diff(levels).min()
    elif np.ptp(numbers) if numbers.size else 0:
        bins = min(MAX_BINS, max(5, int(numbers.size**0.5)))
        counts, edges = np.histogram(numbers, bins)
        middles, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
    else:
        return
    heights = HISTOGRAM * counts / counts.max()
    within = ax.get_xaxis_transform()
    ax.bar(middles, heights, widths, transform=within, color=FAINT, zorder=0.5)


# Colours


def _draw_points(ax: Axes, x: Floats, y: Floats, by: views.Column | None, key: list[str]) -> None:
    """Draw points in one colour, in those of categories with their names, or of numbers."""
    if by is None:
        ax.scatter(x, y, color=SIZES, zorder=3, **canvas.dot_look(len(x)))
    elif by.categories:
        _draw_categories(ax, x, y, by, key)
    else:
        _draw_numbers(ax, x, y, by)


def _draw_numbers(ax: Axes, x: Floats, y: Floats, by: views.Column) -> None:
    """Draw points in the colours of numbers, and beside them a bar of colours."""
    known = by.numbers[~np.isnan(by.numbers)]
    dots = canvas.draw_numbers(ax, x, y, by.numbers, _limits(known))
    label = words.fitted(by.name, words.height_in_points(ax))
    if known.size:
        canvas.draw_colour_bar(ax, dots, label, known)
    if known.size < len(by.numbers):
        canvas.key_below(ax, [canvas.colour_mark(f"{label} missing", GREY, "o")])


def _draw_categories(ax: Axes, x: Floats, y: Floats, by: views.Column, key: list[str]) -> None:
    """Draw points in the colours of categories, and beside them which is which, below a title."""
    hues = list(KINDS[: len(by.categories)])
    if by.others is not None:
        hues[by.others] = GREY
    colours = [hues[int(number)] for number in by.numbers]
    ax.scatter(x, y, c=colours, **canvas.dot_look(len(x)))
    title, *names = key
    marks = [canvas.colour_mark(name, hue, "o") for name, hue in zip(names, hues, strict=True)]
    canvas.key_beside(ax, marks, title)


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
    """Draw every row's values as a swarm of points per feature, the largest mean size first.

    A point's colour is the rank of the feature's `data` among the rows, from blue (low) to orange
    (high). Unordered categories are grey; the most frequent ones are named below, each with a line
    to the mean of its values. Several texts have a swarm for each word.
    """
    explanation = canvas.single_output(explanation, "beeswarm")
    most = canvas.positive_count("max_features", max_features)
    whole = explanation
    explanation = same_players(explanation)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    room = words.name_room(ax)
    names = words.fitted_names([explanation.feature_names[player] for player in players], room)
    by_word = explanation is not whole  # whose cells say no more than the words
    kinds = [{} if by_word else views.category_means(explanation, int(n)) for n in players]
    # names of categories need room
    ax = canvas.lines_of(ax, names, width=6.2, line=0.48 if any(kinds) else 0.42)
    words.write_title(ax, title, whole)
    ax.axvline(0, **canvas.ZERO)
    canvas.tidy(ax, "both", numbers="x")

    bins, across = canvas.swarm_room(ax, len(players), horizontal=True)
    swarms = views.swarms(explanation, players, bins=bins, across=across)
    # the swarms of categories leave room for names below
    middles = [line - (0.2 if means else 0.0) for line, means in enumerate(kinds)]
    halves = [0.22 if means else canvas.HALF_SWARM for means in kinds]
    _draw_swarms(ax, swarms, middles, halves)
    width = words.settled_width(ax)
    for line, means in enumerate(kinds):
        _write_categories(ax, line, means, width)

    left_out = len(sizes) - len(players)
    ax.set_xlabel(words.axis_label(ax, explanation, explanation.semivalue, left_out=left_out))
    # some points have a colour and others are grey, which asks for an answer
    known = [~np.isnan(swarm.ranks) for swarm in swarms]
    missing = any(not ranks.all() for ranks, means in zip(known, kinds, strict=True) if not means)
    key = ["categories (lines: means)"] if any(kinds) else []
    if missing and np.any(known):
        key.append("missing")
    if key:
        canvas.key_below(ax, [canvas.colour_mark(" or ".join(key), GREY, "o")])
    return canvas.finished(ax, show=show)


def _write_categories(ax: Axes, line: int, means: dict[str, float], width: float) -> None:
    """Write the most frequent categories below their swarm, with lines to their means.

    Names that would stand far from their means are left out. The width of the axes is in points.
    """
    low, high = ax.get_xlim()
    space = words.scaled(10)
    shown: list[tuple[float, float, str]] = []  # the mean, the width in points and the name
    middles: Floats = np.zeros(0)
    for name, mean in means.items():
        more = sorted([*shown, (mean, words.text_width(name, -2), name)])
        places = np.array([(mean - low) / (high - low) * width for mean, _, _ in more])
        widths = np.array([long for _, long, _ in more]) + space
        moved = views.spread(places, widths, -space / 2, width + space / 2)
        fits = widths.sum() <= 0.85 * width  # a grid of axes may still make them narrower
        if fits and np.abs(moved - places).max() <= FAR * width:
            shown, middles = more, moved
        if len(shown) == MAX_NAMES:
            break
    for (mean, _, name), middle in zip(shown, middles.tolist(), strict=True):
        x = low + middle / width * (high - low)
        ax.plot([mean, mean], [line - 0.42, line + 0.02], color=INK, linewidth=1.5, zorder=4)
        ax.plot([mean, x], [line + 0.02, line + 0.15], color=INK, linewidth=0.7, zorder=4)
        ax.text(
            x,
            line + 0.33,
            name.replace("$", r"\$"),
            ha="center",
            va="center",
            color=INK,
            size=words.type_size(-2),
        )


def _draw_swarms(
    ax: Axes, swarms: list[views.Swarm], middles: list[float], halves: list[float]
) -> None:
    """Draw swarms around lines (p,), so high (p,), with a bar of their colours if there are any."""
    values = np.column_stack([swarm.values for swarm in swarms])  # (r, features)
    offsets = np.column_stack([swarm.offsets for swarm in swarms])
    ranks = np.column_stack([swarm.ranks for swarm in swarms])

    lines = np.array(middles) + np.array(halves) * offsets
    if len(values) == 1:
        ranks = np.full_like(ranks, np.nan)  # among one row there is no low and high
    present = ~np.isnan(values)
    dots = canvas.draw_numbers(ax, values[present], lines[present], ranks[present], (0, 1))
    if not np.isnan(ranks).all():
        bar = canvas.draw_colour_bar(ax, dots, "feature value (rank)")
        bar.set_ticks([0, 1], labels=["low", "high"])
        low, high = bar.ax.get_yticklabels()
        low.set_verticalalignment("bottom")
        high.set_verticalalignment("top")
