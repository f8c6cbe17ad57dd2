"""Bars of several cohorts or classes: mean sizes of values, to compare."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots import views
from shearshap.plots.arguments import single_output
from shearshap.plots.canvas import (
    CELL_LETTERS,
    axes_of,
    axis_label,
    colour_key,
    label_lines,
    number_axes,
    shorten,
    tidy,
    write_numbers,
)
from shearshap.plots.colours import COHORTS, GREY, INK
from shearshap.plots.text_views import has_places, same_players
from shearshap.result.digits import decimals, format_number
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import distinct_names, mean_sizes, side_by_side

TOGETHER = 0.8  #: the height of all bars of a player, relative to the distance between two players
WHISKER: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 2.5}


def draw_cohorts(cohorts: Mapping[str, Explanation], most: int, ax: Axes | None) -> Axes:
    """Draw a bar for each player and cohort, with intervals."""
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
    """Return the explanations of cohorts, of the same players and one output."""
    if not 1 <= len(cohorts) <= len(COHORTS):
        raise InputError(f"bar: wanted 1 to {len(COHORTS)} cohorts, got {len(cohorts)}")
    names = distinct_names(list(cohorts))
    every = [single_output(part, "bar") for part in cohorts.values()]
    players = {tuple(part.feature_names) for part in every if not has_places(part)}
    if len(players) > 1 or (players and any(has_places(part) for part in every)):
        raise InputError("bar: wanted cohorts of the same players, got other names")
    return dict(zip(names, every, strict=True))


def _short_names(names: Iterable[str]) -> list[str]:
    """Return names of few letters; in full if two would become the same."""
    short = [shorten(name, CELL_LETTERS) for name in names]
    return short if len(set(short)) == len(short) else [shorten(name, len(name)) for name in names]


def _draw_beside(ax: Axes, sizes: Floats, intervals: list[views.Interval | None]) -> None:
    """Draw the bars of cohorts, sizes (cohorts, players), below each other around each line."""
    count, players = sizes.shape
    height = TOGETHER / count
    for cohort, hue in zip(range(count), COHORTS, strict=False):
        lines = np.arange(players) + (cohort - (count - 1) / 2) * height
        ax.barh(lines, sizes[cohort], height=0.9 * height, color=hue, zorder=2)
        own = intervals[cohort * players : (cohort + 1) * players]
        draw_whiskers(ax, lines, sizes[cohort], own, elinewidth=0.8, capsize=1.5)
    ax.axvline(0, color=GREY, linewidth=0.8)


def draw_whiskers(
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


def draw_classes(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw for each player the mean sizes of its values for all outputs, one after the other."""
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
    hidden = f"\n({left_out} smaller players not shown)" if left_out else ""
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
