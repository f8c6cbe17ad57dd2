"""Bars: the mean sizes of values over rows, also by cohort and by class."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots import canvas
from shearshap.result import views
from shearshap.result.cells import has_places, same_players, without_mirror
from shearshap.result.colours import COHORTS, GREY
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import cohorts, mean_sizes, side_by_side
from shearshap.result.text import counted, format_numbers

THICKNESS = 0.62  #: of a bar, relative to the distance between two
TOGETHER = 0.8  #: the height of all bars of a feature, relative to the distance between two


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
    most = canvas.positive_count("max_players", max_players)
    if isinstance(explanation, Mapping):
        return _draw_cohorts(explanation, most, ax)
    canvas.check_explanation(explanation, "bar")
    explanation = without_mirror(explanation)
    if groups is not None:
        return _draw_cohorts(cohorts(explanation, groups), most, ax)
    if len(explanation.output_names) > 1:
        return _draw_classes(explanation, most, ax)
    explanation = canvas.single_output(explanation, "bar")
    return _draw_bars(explanation, most, ax)


def _draw_bars(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw the bars of one output: mean |values|, or the values of a single row."""
    single = len(explanation) == 1
    if single:
        one = views.of_row(explanation, 0)
        players = len(one.feature_names)
        steps = views.waterfall(one, 0, players).steps[:players]  # without the gap
        labels = [canvas.player_label(step.name, step.cell) for step in steps]
        sizes = [step.size for step in steps]
        hues = [step.colour for step in steps]
        margins = [step.margin for step in steps]
        bounds = zip(sizes, margins, strict=True)
        intervals = [(at - half, at + half) if half > 0 else None for at, half in bounds]
        what = "Shapley value"
    else:
        table = views.mean_table(explanation)
        table = table.top(len(table))
        labels = [canvas.shorten(name) for name in table.feature_names]
        sizes = table.values.tolist()
        hues = [GREY] * len(table)
        intervals = views.known_intervals(table)
        what = "mean |Shapley value|"

    lines = range(min(most, len(sizes)))
    ax = canvas.axes_of(ax, 6.4, 1.4 + 0.3 * len(lines))
    canvas.write_question(ax, explanation, 0 if single else None)
    ax.use_sticky_edges = not single
    ax.barh(lines, sizes[:most], height=THICKNESS, color=hues[:most])
    _draw_whiskers(ax, lines, sizes[:most], intervals[:most])
    canvas.label_lines(ax, labels[:most], format_numbers(sizes[:most], sign=single))
    left_out = len(sizes) - len(lines)
    label = canvas.axis_label(explanation, what, left_out=left_out, intervals=any(intervals))
    _finish(ax, label, canvas.SIGNS if single else {})
    return ax


def _finish(ax: Axes, label: str, hues: Mapping[str, str]) -> None:
    """Write the axis of numbers, with its line at 0, and what colours mean."""
    ax.axvline(0, **canvas.ZERO)
    ax.set_xlabel(label)
    canvas.tidy(ax, "x", numbers="x")
    if hues:
        canvas.colour_key(ax, hues)


def _draw_whiskers(
    ax: Axes,
    lines: Iterable[float],
    middles: Iterable[float],
    intervals: Sequence[views.Interval | None],
    **look: Any,
) -> None:
    """Draw the intervals that are known around the ends of bars."""
    known = [each for each in zip(lines, middles, intervals, strict=True) if each[2] is not None]
    if known:
        places, ends, bounds = zip(*known, strict=True)
        lows, highs = np.array(bounds).T
        lengths = (np.array(ends) - lows, highs - np.array(ends))
        ax.errorbar(ends, places, xerr=lengths, **(canvas.WHISKER | look))


# Cohorts


def _draw_cohorts(cohorts: Mapping[str, Explanation], most: int, ax: Axes | None) -> Axes:
    """Draw a bar for each feature and cohort, with intervals, below each other around each line."""
    parts = _checked(cohorts)
    table = side_by_side({name: views.mean_table(part) for name, part in parts.items()})
    top = table.top(most)
    players = len(top)
    intervals = views.known_intervals(top)

    ax = canvas.axes_of(ax, 6.4, 1.7 + max(0.3, 0.13 * len(parts) + 0.1) * players)
    first = next(iter(parts.values()))
    canvas.write_question(ax, first, rows=counted(len(parts), "cohort"))
    height = TOGETHER / len(parts)
    for cohort, (sizes, hue) in enumerate(zip(top.values, COHORTS, strict=False)):
        lines = np.arange(players) + (cohort - (len(parts) - 1) / 2) * height
        ax.barh(lines, sizes, height=0.9 * height, color=hue, zorder=2)
        own = intervals[cohort * players : (cohort + 1) * players]
        _draw_whiskers(ax, lines, sizes, own, elinewidth=0.8, capsize=1.5)

    canvas.label_lines(ax, [canvas.shorten(name) for name in top.feature_names])
    left_out = len(table) - players
    label = canvas.axis_label(
        first, "mean |Shapley value|", left_out=left_out, intervals=any(intervals)
    )
    marks = zip(_short_names(parts), parts.values(), COHORTS, strict=False)
    _finish(ax, label, {f"{name} ({views.rows_text(part)})": hue for name, part, hue in marks})
    return ax


def _checked(cohorts: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Return the explanations of cohorts, of the same features and one output."""
    if not 1 <= len(cohorts) <= len(COHORTS):
        raise InputError(f"bar: expected 1 to {len(COHORTS)} cohorts, got {len(cohorts)}")
    parts = {name: canvas.single_output(part, "bar") for name, part in cohorts.items()}
    players = {() if has_places(part) else tuple(part.feature_names) for part in parts.values()}
    if len(players) > 1:
        raise InputError("bar: expected cohorts of the same features, got other names")
    return parts


def _short_names(names: Iterable[str]) -> list[str]:
    """Return names of few letters; in full if two would become the same."""
    short = [canvas.shorten(name, canvas.CELL_LETTERS) for name in names]
    if len(set(short)) == len(short):
        return short
    return [canvas.shorten(name, len(name)) for name in names]


# Classes


def _draw_classes(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw for each feature the mean sizes of its values for all outputs, one after the other."""
    words = same_players(explanation)
    sizes = mean_sizes(words).T  # (k, p)
    totals = sizes.sum(axis=0)
    players = views.largest(totals, most)
    sizes, hues = _largest_classes(sizes, _short_names(explanation.output_names))

    ax = canvas.axes_of(ax, 6.4, 1.7 + 0.3 * len(players))
    canvas.write_question(ax, explanation)
    starts = np.zeros(len(players))
    for size, hue in zip(sizes[:, players], hues.values(), strict=True):
        ax.barh(range(len(players)), size, left=starts, height=THICKNESS, color=hue, zorder=2)
        starts += size

    names = [canvas.shorten(words.feature_names[player]) for player in players]
    canvas.label_lines(ax, names, format_numbers(totals[players]))
    what = "mean |Shapley value|, summed over outputs"
    _finish(ax, canvas.axis_label(explanation, what, left_out=len(totals) - len(players)), hues)
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
