"""Bars: the mean sizes of values over rows, also by cohort and by class."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots.canvas import (
    CELL_LETTERS,
    SIGNS,
    axes_of,
    axis_label,
    check_explanation,
    colour_key,
    label_lines,
    number_axes,
    player_label,
    positive_count,
    shorten,
    single_output,
    tidy,
    write_numbers,
)
from shearshap.result import views
from shearshap.result.cells import has_places, same_players
from shearshap.result.colours import COHORTS, GREY, INK
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import cohorts, distinct_names, mean_sizes, side_by_side
from shearshap.result.text import decimals, format_number

THICKNESS = 0.62  #: of a bar, relative to the distance between two
TOGETHER = 0.8  #: the height of all bars of a feature, relative to the distance between two
WHISKER: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 2.5}


def bar(
    explanation: Explanation | Mapping[str, Explanation],
    *,
    groups: Any = None,
    max_players: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean size of every feature's value over the rows; for a single row, the values.

    The largest come first. Bars and whiskers are the numbers of `explanation.abs().mean()`: its
    95 % intervals cover the choice of rows and the standard errors of the values. Those of a single
    row's values cover their standard errors.

    Cohorts have bars below each other. The bars of several outputs, such as classes, follow each
    other on one line, without whiskers. Several texts have a bar for each word: its mean is over
    all texts, and a text that lacks it counts as 0.

    Parameters
    ----------
    explanation
        Of one or several outputs, or a mapping from the names of cohorts to their explanations.
    groups
        A label for each row, or anything else that `Explanation.by` takes: rows with equal labels
        are a cohort.
    max_players
        How many features to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    most = positive_count("max_players", max_players)
    if isinstance(explanation, Mapping):
        return _draw_cohorts(explanation, most, ax)
    check_explanation(explanation, "bar")
    if groups is not None:
        return _draw_cohorts(cohorts(explanation, groups), most, ax)
    if explanation.values.ndim == 3 and explanation.values.shape[2] > 1:
        return _draw_classes(explanation, most, ax)
    return _bar_of_output(single_output(explanation, "bar"), most, ax)


def _bar_of_output(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw the bars of one output."""
    single = len(explanation) == 1
    bars = views.bars_of_row(explanation, 0) if single else views.bars(explanation)
    intervals = any(bar.interval for bar in bars)
    left_out = len(bars[most:])
    bars = bars[:most]

    ax = axes_of(ax, 6.4, 1.2 + 0.3 * len(bars))
    ax.use_sticky_edges = not single
    _draw_bars(ax, bars)

    label_lines(ax, [player_label(bar.name, bar.cell) for bar in bars])
    write_numbers(ax, [bar.number for bar in bars])

    what = "Shapley value" if single else f"mean |Shapley value| of {views.rows_text(explanation)}"
    ax.set_xlabel(axis_label(explanation, what, left_out=left_out, intervals=intervals))
    tidy(ax, "x")
    number_axes(ax, "x")
    if single:
        colour_key(ax, SIGNS)
    return ax


def _draw_bars(ax: Axes, bars: list[views.Bar]) -> None:
    """Draw bars on lines 0, 1, ..., with whiskers if they have an interval."""
    sizes = [bar.size for bar in bars]
    bar_colours = [bar.colour for bar in bars]
    ax.barh(range(len(bars)), sizes, height=THICKNESS, color=bar_colours)
    _draw_whiskers(ax, range(len(bars)), sizes, [bar.interval for bar in bars])
    ax.axvline(0, color=GREY, linewidth=0.8)


def _draw_cohorts(cohorts: Mapping[str, Explanation], most: int, ax: Axes | None) -> Axes:
    """Draw a bar for each feature and cohort, with intervals."""
    parts = _checked(cohorts)
    table = side_by_side({name: views.mean_table(part) for name, part in parts.items()})
    top = table.top(most)
    intervals = views.known_intervals(top)

    thick = max(0.3, 0.13 * len(parts) + 0.1)
    ax = axes_of(ax, 6.4, 1.5 + thick * len(top))
    _draw_beside(ax, top.values, intervals)

    label_lines(ax, [shorten(name) for name in top.feature_names])
    first = next(iter(parts.values()))
    ax.set_xlabel(
        axis_label(
            first,
            "mean |Shapley value|",
            left_out=len(table) - len(top),
            intervals=any(intervals),
        )
    )
    tidy(ax, "x")
    number_axes(ax, "x")
    marks = zip(_short_names(parts), parts.values(), COHORTS, strict=False)
    colour_key(ax, {f"{name} ({views.rows_text(part)})": hue for name, part, hue in marks})
    return ax


def _checked(cohorts: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Return the explanations of cohorts, of the same features and one output."""
    if not 1 <= len(cohorts) <= len(COHORTS):
        raise InputError(f"bar: wanted 1 to {len(COHORTS)} cohorts, got {len(cohorts)}")
    names = distinct_names(list(cohorts))
    every = [single_output(part, "bar") for part in cohorts.values()]
    players = {tuple(part.feature_names) for part in every if not has_places(part)}
    if len(players) > 1 or (players and any(has_places(part) for part in every)):
        raise InputError("bar: wanted cohorts of the same features, got other names")
    return dict(zip(names, every, strict=True))


def _short_names(names: Iterable[str]) -> list[str]:
    """Return names of few letters; in full if two would become the same."""
    short = [shorten(name, CELL_LETTERS) for name in names]
    return short if len(set(short)) == len(short) else [shorten(name, len(name)) for name in names]


def _draw_beside(ax: Axes, sizes: Floats, intervals: list[views.Interval | None]) -> None:
    """Draw the bars of cohorts, sizes (cohorts, features), below each other around each line."""
    count, players = sizes.shape
    height = TOGETHER / count
    for cohort, hue in zip(range(count), COHORTS, strict=False):
        lines = np.arange(players) + (cohort - (count - 1) / 2) * height
        ax.barh(lines, sizes[cohort], height=0.9 * height, color=hue, zorder=2)
        own = intervals[cohort * players : (cohort + 1) * players]
        _draw_whiskers(ax, lines, sizes[cohort], own, elinewidth=0.8, capsize=1.5)
    ax.axvline(0, color=GREY, linewidth=0.8)


def _draw_whiskers(
    ax: Axes,
    lines: Iterable[float],
    middles: Iterable[float],
    intervals: Iterable[views.Interval | None],
    **look: Any,
) -> None:
    """Draw the intervals that are known around the ends of bars."""
    known = [each for each in zip(lines, middles, intervals, strict=True) if each[2] is not None]
    if known:
        places, ends, bounds = zip(*known, strict=True)
        lows, highs = np.array(bounds).T
        lengths = (np.array(ends) - lows, highs - np.array(ends))
        ax.errorbar(ends, places, xerr=lengths, zorder=3, **(WHISKER | look))


# Classes


def _draw_classes(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw for each feature the mean sizes of its values for all outputs, one after the other."""
    outputs = [
        same_players(explanation.output(number)) for number in range(len(explanation.output_names))
    ]
    sizes = np.array([mean_sizes(output) for output in outputs])  # (k, p)
    totals = sizes.sum(axis=0)
    players = views.largest(totals, most)
    names = _short_names(explanation.output_names)
    sizes, hues = _largest_classes(sizes, names)

    ax = axes_of(ax, 6.4, 1.5 + 0.3 * len(players))
    starts = np.zeros(len(players))
    for size, hue in zip(sizes[:, players], hues.values(), strict=True):
        ax.barh(range(len(players)), size, left=starts, height=0.62, color=hue, zorder=2)
        starts += size

    ax.axvline(0, color=GREY, linewidth=0.8)
    label_lines(ax, [shorten(outputs[0].feature_names[player]) for player in players])
    places = decimals(totals)
    write_numbers(ax, [format_number(float(totals[player]), places) for player in players])

    left_out = len(totals) - len(players)
    what = f"mean |Shapley value| of {views.rows_text(explanation)}, summed over outputs"
    hidden = f"\n({left_out} smaller features not shown)" if left_out else ""
    ax.set_xlabel(what + hidden)
    tidy(ax, "x")
    number_axes(ax, "x")
    colour_key(ax, hues)
    return ax


def _largest_classes(sizes: Floats, names: list[str]) -> tuple[Floats, dict[str, str]]:
    """Return sizes (k, p) and colours by name; beyond the colours, the smallest are one."""
    if len(names) <= len(COHORTS):
        return sizes, dict(zip(names, COHORTS, strict=False))

    shown = len(COHORTS) - 1
    order = views.largest(sizes.sum(axis=1))
    kept = np.sort(order[:shown])
    others = sizes[order[shown:]].sum(axis=0)
    hues = dict(zip([names[output] for output in kept], COHORTS, strict=False))
    hues[f"{len(names) - shown} others"] = GREY
    return np.vstack((sizes[kept], others)), hues
