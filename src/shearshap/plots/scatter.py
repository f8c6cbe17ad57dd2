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

    ax = canvas.axes_of(ax, 7.2, 5.0)
    words.write_title(ax, title, explanation)
    x = _category_axis(ax, own, values) if own.categories else own.numbers
    ax.axhline(0, **canvas.ZERO)
    which: canvas.Which = "y" if own.categories else "both"
    canvas.tidy(ax, which, numbers=which)
    if not own.categories:
        _draw_histogram(ax, x[~np.isnan(x)])
    if bounds is not None:
        lower, upper = bounds
        ax.vlines(x, lower[:, number], upper[:, number], color=GREY, linewidth=0.6, zorder=2)

    empty = int(np.isnan(x).sum())
    note = f" ({empty} rows without a number)" if empty else ""
    ax.set_xlabel(words.fitted(own.name, words.name_room(None)) + note)
    high = words.height_in_points(ax)
    what = words.wrapped(high, f"{explanation.semivalue} of", words.fitted(own.name, high))
    ax.set_ylabel(words.axis_label(ax, explanation, what, intervals=errors, room=high))

    # after the labels, as a legend may stand below them
    if by is None:
        ax.scatter(x, values, color=SIZES, zorder=3, **canvas.dot_look(len(x)))
    elif by.categories:
        _draw_categories(ax, x, values, by)
    else:
        _draw_numbers(ax, x, values, by)
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


def _category_axis(ax: Axes, own: views.Column, values: Floats) -> Floats:
    """Put categories on the x-axis, and return each row's x, beside rows of like value, (r,)."""
    room = words.width_in_points(ax)
    slanted = max(map(words.text_width, own.categories)) * len(own.categories) > 0.85 * room
    names = [words.fitted(category, 0.3 * room if slanted else room) for category in own.categories]
    ax.set_xticks(range(len(names)), names)
    if slanted:
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


def _draw_histogram(ax: Axes, numbers: Floats) -> None:
    """Draw how often numbers occur, as faint bars along the x-axis."""
    if np.ptp(numbers) if numbers.size else 0:
        bins = min(MAX_BINS, max(5, int(numbers.size**0.5)))
        counts, edges = np.histogram(numbers, bins)
        heights = HISTOGRAM * counts / counts.max()
        look: dict[str, Any] = {"color": FAINT, "zorder": 0.5, "align": "edge"}
        within = ax.get_xaxis_transform()
        ax.bar(edges[:-1], heights, np.diff(edges), transform=within, **look)


# Colours


def _draw_numbers(ax: Axes, x: Floats, y: Floats, by: views.Column) -> None:
    """Draw points in the colours of numbers, and beside them a bar of colours."""
    known = by.numbers[~np.isnan(by.numbers)]
    dots = canvas.draw_numbers(ax, x, y, by.numbers, _limits(known))
    if known.size:
        label = words.fitted(by.name, words.height_in_points(ax))
        canvas.draw_colour_bar(ax, dots, label, known)
    if known.size < len(by.numbers):
        canvas.key_below(ax, [canvas.colour_mark("missing", GREY, "o")])


def _draw_categories(ax: Axes, x: Floats, y: Floats, by: views.Column) -> None:
    """Draw points in the colours of categories, and beside them which is which."""
    hues = list(KINDS[: len(by.categories)])
    if by.others is not None:
        hues[by.others] = GREY
    colours = [hues[int(number)] for number in by.numbers]
    ax.scatter(x, y, c=colours, **canvas.dot_look(len(x)))
    room = 0.4 * words.width_in_points(ax)
    names = [words.fitted(category, room) for category in by.categories]
    marks = [canvas.colour_mark(name, hue, "o") for name, hue in zip(names, hues, strict=True)]
    canvas.key_beside(ax, marks, words.fitted(by.name, room))


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
    (high). Unordered categories are grey, and the most frequent ones are named at the mean of their
    values. Texts have a swarm for each word.
    """
    explanation = canvas.single_output(explanation, "beeswarm")
    most = canvas.positive_count("max_features", max_features)
    whole = explanation
    explanation = same_players(explanation)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    room = words.name_room(ax)
    names = [words.fitted(explanation.feature_names[player], room) for player in players]
    ax = canvas.lines_of(ax, names, width=6.2, line=0.42)
    words.write_title(ax, title, whole)
    ax.axvline(0, **canvas.ZERO)
    canvas.tidy(ax, "both", numbers="x")

    bins, across = canvas.swarm_room(ax, len(players), horizontal=True)
    swarms = views.swarms(explanation, players, bins=bins, across=across)
    kinds = [views.category_means(explanation, int(player)) for player in players]
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
    key = ["categories, named at their means"] if any(kinds) else []
    if missing and np.any(known):
        key.append("missing")
    if key:
        canvas.key_below(ax, [canvas.colour_mark(" or ".join(key), GREY, "o")])
    return canvas.finished(ax, show=show)


def _write_categories(ax: Axes, line: int, means: dict[str, float], width: float) -> None:
    """Write categories below their swarm, the first ones first, if there is room at their means.

    The width of the axes is in points.
    """
    low, high = ax.get_xlim()
    taken: list[tuple[float, float]] = []  # the starts and ends of names, with some space
    for name, mean in means.items():
        place = (mean - low) / (high - low) * width
        long = words.text_width(name, -2)
        beside = [edge for start, end in taken for edge in (end, start - long)]
        starts = [
            start
            for start in (place - long / 2, 0.0, width - long, *beside)
            if place - long <= start <= place and 0 <= start <= width - long
            if all(start + long <= other or start >= end for other, end in taken)
        ]
        if starts:
            start = min(starts, key=lambda start: abs(start + long / 2 - place))
            space = words.scaled(10)
            taken.append((start - space, start + long + space))
            ax.plot([mean] * 2, [line - 0.42, line + 0.1], color=INK, linewidth=1.5, zorder=4)
            ax.text(
                low + start / width * (high - low),
                line + 0.28,
                name.replace("$", r"\$"),
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
