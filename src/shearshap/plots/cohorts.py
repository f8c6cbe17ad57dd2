"""Bars of several cohorts or classes: mean sizes of values, to compare."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

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
from shearshap.plots.text_views import has_places
from shearshap.result.digits import decimals, format_number
from shearshap.result.explanation import Explanation, Floats

Labels = Sequence[Any] | NDArray[Any]

TOGETHER = 0.8  #: the height of all bars of a player, relative to the distance between two players


def grouped_rows(explanation: Explanation, groups: Labels) -> dict[str, Explanation]:
    """Return an explanation for each label of rows, in the order of labels."""
    if isinstance(groups, str) or len(groups) != len(explanation):
        got = repr(groups) if isinstance(groups, str) else f"{len(groups)}"
        raise InputError(f"groups: wanted a label for each of {len(explanation)} rows, got {got}")

    labels = np.array([_label(group) for group in groups], dtype=object)
    distinct = {_label(group): group for group in groups}
    try:
        order = sorted(distinct, key=lambda label: distinct[label])
    except TypeError:  # labels of several types have no order of their own
        order = list(distinct)
    return {label: explanation[labels == label] for label in order}


def _label(group: object) -> str:
    return "missing" if views.is_missing(group) else str(group)


def draw_cohorts(cohorts: Mapping[str, Explanation], most: int, ax: Axes | None) -> Axes:
    """Draw a bar for each player and cohort, with intervals."""
    parts = _checked(cohorts)
    names = _all_players(parts.values())
    sizes = np.array([_by_name(part, names, views.mean_sizes(part)) for part in parts.values()])
    margins = np.array(
        [_by_name(part, names, views.margins(part).mean(axis=0)) for part in parts.values()]
    )
    players = views.largest(sizes.mean(axis=0), most)

    thick = max(0.3, 0.13 * len(parts) + 0.1)
    ax = axes_of(ax, 6.4, 1.5 + thick * len(players))
    _draw_beside(ax, sizes[:, players], np.nan_to_num(margins[:, players]))

    label_lines(ax, [shorten(names[player]) for player in players])
    first = next(iter(parts.values()))
    ax.set_xlabel(
        axis_label(
            first,
            "mean |Shapley value|",
            left_out=len(names) - len(players),
            intervals=bool((margins > 0).any()),
        )
    )
    tidy(ax, "x")
    number_axes(ax, "x")
    marks = zip(cohorts.items(), COHORTS, strict=False)
    hues = {
        f"{shorten(name, CELL_LETTERS)} ({views.rows_text(part)})": hue
        for (name, part), hue in marks
    }
    colour_key(ax, hues)
    return ax


def _checked(cohorts: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Return the explanations of cohorts, of the same players and one output."""
    if not 1 <= len(cohorts) <= len(COHORTS):
        raise InputError(f"bar: wanted 1 to {len(COHORTS)} cohorts, got {len(cohorts)}")
    parts = {
        str(name): views.same_players(single_output(part, "bar")) for name, part in cohorts.items()
    }
    by_places = {has_places(part) for part in cohorts.values()}
    players = {tuple(part.feature_names) for part in parts.values()}
    if len(players) > 1 and by_places != {True}:
        raise InputError("bar: wanted cohorts of the same players, got other names")
    return parts


def _all_players(parts: Any) -> list[str]:
    """Return the names of all players; cohorts of texts may have different words."""
    return list(dict.fromkeys(name for part in parts for name in part.feature_names))


def _by_name(part: Explanation, names: list[str], numbers: Floats) -> Floats:
    """Return a number for each name, 0 where the cohort does not have the player."""
    if part.feature_names == names:
        return numbers
    own = dict(zip(part.feature_names, numbers.tolist(), strict=True))
    return np.array([own.get(name, 0.0) for name in names])


def _draw_beside(ax: Axes, sizes: Floats, margins: Floats) -> None:
    """Draw the bars of cohorts, sizes (cohorts, players), below each other around each line."""
    count = len(sizes)
    height = TOGETHER / count
    for cohort, hue in zip(range(count), COHORTS, strict=False):
        lines = np.arange(sizes.shape[1]) + (cohort - (count - 1) / 2) * height
        ax.barh(lines, sizes[cohort], height=0.9 * height, color=hue, zorder=2)
        known = margins[cohort] > 0
        if known.any():
            low = np.minimum(margins[cohort], sizes[cohort])[known]
            ends = np.array([low, margins[cohort][known]])
            look: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 0.8, "capsize": 1.5}
            ax.errorbar(sizes[cohort][known], lines[known], xerr=ends, zorder=3, **look)
    ax.axvline(0, color=GREY, linewidth=0.8)


# Classes


def draw_classes(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw for each player the mean sizes of its values for all outputs, one after the other."""
    outputs = [
        views.same_players(explanation.output(number))
        for number in range(len(explanation.output_names))
    ]
    sizes = np.array([views.mean_sizes(output) for output in outputs])  # (k, p)
    totals = sizes.sum(axis=0)
    players = views.largest(totals, most)
    names = [shorten(name, CELL_LETTERS) for name in explanation.output_names]
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
