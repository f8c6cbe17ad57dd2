"""Bars: the mean sizes of values over rows, also by cohort and by class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots import canvas
from shearshap.result import views
from shearshap.result.cells import has_places, without_mirror
from shearshap.result.colours import COHORTS, GREY, sign_colour
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import Importance, cohorts, side_by_side
from shearshap.result.text import counted, format_numbers

THICKNESS = 0.62  #: of a bar, relative to the distance between two
TOGETHER = 0.8  #: the height of all bars of a feature, relative to the distance between two

Source = Explanation | Importance  #: what the bars are of, which labels name


@canvas.plot
def bar(
    explanation: Explanation | Importance | Mapping[str, Explanation],
    *,
    groups: Any = None,
    max_features: int = 15,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
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
        Of one or several outputs; a mapping from the names of cohorts to their explanations; or a
        table of means, such as `explanation.abs().mean()`.
    groups
        A label for each row, or anything else that `Explanation.by` takes: rows with equal labels
        are a cohort.
    max_features
        How many features to show; the others are left out, and counted below.
    """
    most = canvas.positive_count("max_features", max_features)
    if isinstance(explanation, Importance):
        ax = _draw_table(explanation, explanation, most, ax)
    elif isinstance(explanation, Mapping):
        ax = _draw_parts(explanation, most, ax)
    else:
        canvas.check_explanation(explanation, "bar")
        explanation = without_mirror(explanation)
        if groups is not None:
            ax = _draw_parts(cohorts(explanation, groups), most, ax)
        elif len(explanation) == 1 and len(explanation.output_names) == 1:
            ax = _draw_row(explanation.output(0), most, ax)
        else:
            ax = _draw_table(views.mean_table(explanation), explanation, most, ax)
    return canvas.finished(ax, title, show)


def _draw_row(explanation: Explanation, most: int, ax: Axes | None) -> Axes:
    """Draw the values of a single row."""
    one = views.of_row(explanation, 0)
    players = len(one.feature_names)
    steps = views.waterfall(one, 0, players).steps[:players]  # without the gap
    labels = [canvas.player_label(step.name, step.cell) for step in steps]
    sizes = [step.size for step in steps]
    hues = [step.colour for step in steps]
    intervals = [
        (step.size - step.margin, step.size + step.margin) if step.margin > 0 else None
        for step in steps
    ]
    bars = _Bars(labels, sizes, hues, intervals)
    return _draw_bars(bars, explanation, explanation.semivalue, most, ax, row=0)


@dataclass(frozen=True)
class _Bars:
    """Bars from the top down."""

    labels: list[str]
    sizes: list[float]
    hues: list[str]
    intervals: list[views.Interval | None]


def _draw_bars(
    bars: _Bars, source: Source, what: str, most: int, ax: Axes | None, row: int | None = None
) -> Axes:
    """Draw the first bars, coloured by sign or all grey."""
    signed = set(bars.hues) != {GREY}
    lines = range(min(most, len(bars.sizes)))
    ax = canvas.axes_of(ax, 6.4, 1.4 + 0.3 * len(lines))
    canvas.write_question(ax, source, row)
    ax.use_sticky_edges = not signed
    ax.barh(lines, bars.sizes[:most], height=THICKNESS, color=bars.hues[:most])
    _draw_whiskers(ax, lines, bars.sizes[:most], bars.intervals[:most])
    numbers = format_numbers(bars.sizes[:most], sign=signed)
    canvas.label_lines(ax, bars.labels[:most], numbers)
    left_out = len(bars.sizes) - len(lines)
    label = canvas.axis_label(source, what, left_out=left_out, intervals=any(bars.intervals))
    _finish(ax, label, canvas.SIGNS if signed else {})
    return ax


def _draw_table(table: Importance, source: Source, most: int, ax: Axes | None) -> Axes:
    """Draw means over rows: by cohort, by output, or of one output."""
    several = len(table.output_names) > 1
    if table.cohorts is not None and not several:
        counts = [counted(rows, "row") for rows in table.rows]
        return _draw_cohorts(table, source, counts, most, ax)
    if table.cohorts is not None or (several and not table.sizes):
        raise InputError(
            "bar: expected the means of one output, or the mean sizes of several without cohorts; "
            "take explanation.output(name) first"
        )
    if several:
        return _draw_classes(table, source, most, ax)
    table = table.top(len(table))
    labels = [canvas.shorten(name) for name in table.feature_names]
    sizes = table.values.reshape(-1).tolist()
    hues = [sign_colour(size) if table.coloured else GREY for size in sizes]
    bars = _Bars(labels, sizes, hues, views.known_intervals(table))
    return _draw_bars(bars, source, _mean(table, source), most, ax)


def _mean(table: Importance, source: Source) -> str:
    # a table of importance does not say what its means are of
    what = getattr(source, "semivalue", "Shapley value")
    return table.axis.replace("Shapley value", what)


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


def _draw_parts(cohorts: Mapping[str, Explanation], most: int, ax: Axes | None) -> Axes:
    """Draw the mean sizes of explanations that are each a cohort."""
    parts = _checked(cohorts)
    table = side_by_side({name: views.mean_table(part) for name, part in parts.items()})
    counts = [views.rows_text(part) for part in parts.values()]
    return _draw_cohorts(table, next(iter(parts.values())), counts, most, ax)


def _draw_cohorts(
    table: Importance, source: Source, counts: list[str], most: int, ax: Axes | None
) -> Axes:
    """Draw a bar for each feature and cohort, with intervals, below each other around each line."""
    names = table.cohorts or []
    _check_count(len(names))
    top = table.top(most)
    players = len(top)
    intervals = views.known_intervals(top)

    ax = canvas.axes_of(ax, 6.4, 1.7 + max(0.3, 0.13 * len(names) + 0.1) * players)
    canvas.write_question(ax, source, rows=counted(len(names), "cohort"))
    height = TOGETHER / len(names)
    for cohort, (sizes, hue) in enumerate(
        zip(top.full(top.values)[:, :, 0], COHORTS, strict=False)
    ):
        lines = np.arange(players) + (cohort - (len(names) - 1) / 2) * height
        ax.barh(lines, sizes, height=0.9 * height, color=hue, zorder=2)
        own = intervals[cohort * players : (cohort + 1) * players]
        _draw_whiskers(ax, lines, sizes, own, elinewidth=0.8, capsize=1.5)

    canvas.label_lines(ax, [canvas.shorten(name) for name in top.feature_names])
    left_out = len(table) - players
    label = canvas.axis_label(
        source, _mean(table, source), left_out=left_out, intervals=any(intervals)
    )
    marks = zip(_short_names(names), counts, COHORTS, strict=False)
    _finish(ax, label, {f"{name} ({count})": hue for name, count, hue in marks})
    return ax


def _checked(cohorts: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Return the explanations of cohorts, of the same features and one output."""
    _check_count(len(cohorts))
    parts = {name: canvas.single_output(part, "bar") for name, part in cohorts.items()}
    players = {() if has_places(part) else tuple(part.feature_names) for part in parts.values()}
    if len(players) > 1:
        raise InputError("bar: expected cohorts of the same features, got other names")
    return parts


def _check_count(cohorts: int) -> None:
    if not 1 <= cohorts <= len(COHORTS):
        raise InputError(f"bar: expected 1 to {len(COHORTS)} cohorts, got {cohorts}")


def _short_names(names: Iterable[str]) -> list[str]:
    """Return names of few letters; in full if two would become the same."""
    short = [canvas.shorten(name, canvas.CELL_LETTERS) for name in names]
    if len(set(short)) == len(short):
        return short
    return [canvas.shorten(name, len(name)) for name in names]


# Classes


def _draw_classes(table: Importance, source: Source, most: int, ax: Axes | None) -> Axes:
    """Draw for each feature the mean sizes of its values for all outputs, one after the other."""
    sizes = table.values.T  # (k, p)
    totals = sizes.sum(axis=0)
    players = views.largest(totals, most)
    sizes, hues = _largest_classes(sizes, _short_names(table.output_names))

    ax = canvas.axes_of(ax, 6.4, 1.7 + 0.3 * len(players))
    canvas.write_question(ax, source)
    starts = np.zeros(len(players))
    for size, hue in zip(sizes[:, players], hues.values(), strict=True):
        ax.barh(range(len(players)), size, left=starts, height=THICKNESS, color=hue, zorder=2)
        starts += size

    names = [canvas.shorten(table.feature_names[player]) for player in players]
    canvas.label_lines(ax, names, format_numbers(totals[players]))
    what = f"{_mean(table, source)}, summed over outputs"
    _finish(ax, canvas.axis_label(source, what, left_out=len(totals) - len(players)), hues)
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
