"""Bars: the mean sizes of values over rows, also by cohort and by class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.result import views
from shearshap.result.cells import has_places, main_output
from shearshap.result.colours import COHORTS, GREY, SIZES, sign_colour
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import Importance, cohorts, side_by_side
from shearshap.result.text import counted, format_numbers

THICKNESS = 0.7  #: of a bar, relative to the distance between two
TOGETHER = 0.84  #: the height of all bars of a feature, relative to the distance between two

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

    The largest come first. Bars and whiskers show `explanation.abs().mean()`: its 95 % intervals
    cover the choice of rows and the standard errors of the values. For a single row they cover the
    standard errors.

    Cohorts have bars below each other. Several outputs, such as classes, are stacked on one line,
    without whiskers. Texts have a bar for each word, with the mean over all texts: a text without
    the word counts as 0.

    Parameters
    ----------
    explanation
        With one or several outputs; a mapping from names of cohorts to explanations; or a table of
        means, such as `explanation.abs().mean()`.
    groups
        One label per row, or anything else that `Explanation.by` takes: rows with equal labels form
        a cohort.
    """
    most = canvas.positive_count("max_features", max_features)
    if isinstance(explanation, Importance):
        chart = _of_table(explanation, explanation, most)
    elif isinstance(explanation, Mapping):
        chart = _of_parts(explanation, most)
    else:
        canvas.check_explanation(explanation, "bar")
        explanation = main_output(explanation)
        if groups is not None:
            chart = _of_parts(cohorts(explanation, groups), most)
        elif len(explanation) == 1 and len(explanation.output_names) == 1:
            chart = _of_row(explanation.output(0), most)
        else:
            chart = _of_table(views.mean_table(explanation), explanation, most)
    return canvas.finished(_draw(chart, ax, title), show=show)


@dataclass(frozen=True)
class _Series:
    """A bar for each feature: for a cohort or a class, or the only one."""

    sizes: Floats  #: (n,)
    hues: list[str]
    intervals: list[views.Interval | None] = field(default_factory=list)


@dataclass(frozen=True)
class _Chart:
    """What to draw: features from the top down, each with one bar or several."""

    source: Source
    what: str  #: what the numbers are
    names: list[tuple[str, str]]  #: of features, with the cell of a single row or ""
    series: list[_Series]
    left_out: int  #: features that are not shown
    numbers: list[str] = field(default_factory=list)  #: beside the bars
    key: Mapping[str, str] = field(default_factory=dict)  #: names of series and their colours
    rows: str = ""  #: what is explained, in other words than usual
    row: int | None = None  #: the single row
    stacked: bool = False  #: whether the bars of a feature follow each other on one line


def _draw(chart: _Chart, ax: Axes | None, title: str | None) -> Axes:
    """Draw bars with whiskers, their numbers and what their colours mean."""
    room = words.name_room(ax)
    labels = words.fitted_pairs(chart.names, [room] * len(chart.names))
    beside = 1 if chart.stacked else len(chart.series)  # bars below each other
    line = max(canvas.LINE, 0.15 * beside + 0.1)
    around = 1.6 + 0.13 * len(chart.key)
    ax = canvas.lines_of(ax, labels, chart.numbers, around=around, line=line)
    words.write_title(ax, title, chart.source, chart.row, rows=chart.rows)

    hues = [hue for series in chart.series for hue in series.hues]
    signed = any(hue in canvas.SIGNS for hue in hues) and not chart.key
    ax.use_sticky_edges = not signed
    height = THICKNESS if beside == 1 else TOGETHER / beside
    places = np.arange(len(labels), dtype=np.float64)
    starts = np.zeros(len(labels))
    for number, series in enumerate(chart.series):
        lines: Floats = places + (0.0 if beside == 1 else (number - (beside - 1) / 2) * height)
        thick = height if beside == 1 else 0.9 * height
        ax.barh(lines, series.sizes, thick, starts, color=series.hues, zorder=2)
        _draw_whiskers(ax, lines, series, capsize=3 if beside == 1 else 1.5)
        if chart.stacked:
            starts = starts + series.sizes

    ax.axvline(0, **canvas.ZERO)
    intervals = any(interval for series in chart.series for interval in series.intervals)
    left_out = chart.left_out
    ax.set_xlabel(
        words.axis_label(ax, chart.source, chart.what, left_out=left_out, intervals=intervals)
    )
    canvas.tidy(ax, "x", numbers="x")
    marks = [canvas.colour_mark(name, hue) for name, hue in chart.key.items()]
    canvas.key_below(ax, marks or canvas.sign_marks(hues))
    return ax


def _draw_whiskers(ax: Axes, lines: Floats, series: _Series, **look: Any) -> None:
    """Draw the intervals that are known around the ends of bars."""
    known = [at for at, interval in enumerate(series.intervals) if interval is not None]
    if known:
        ends = series.sizes[known]
        lows, highs = np.array([series.intervals[at] for at in known]).T
        lengths = (ends - lows, highs - ends)
        ax.errorbar(ends, lines[known], xerr=lengths, **(canvas.WHISKER | look))


# One row, and means over rows


def _of_row(explanation: Explanation, most: int) -> _Chart:
    """Return the chart of a single row's values."""
    one = views.of_row(explanation, 0)
    players = len(one.feature_names)
    steps = views.waterfall(one, 0, players).steps[: min(most, players)]  # without the gap
    intervals = [
        (step.size - step.margin, step.size + step.margin) if step.margin > 0 else None
        for step in steps
    ]
    sizes = np.array([step.size for step in steps])
    return _Chart(
        source=explanation,
        what=explanation.semivalue,
        names=[(step.name, step.cell) for step in steps],
        series=[_Series(sizes, [step.colour for step in steps], intervals)],
        left_out=players - len(steps),
        numbers=format_numbers(sizes, sign=True),
        row=0,
    )


def _of_table(table: Importance, source: Source, most: int) -> _Chart:
    """Return the chart of means over rows: by cohort, by output, or of one output."""
    several = len(table.output_names) > 1
    if table.cohorts is not None and not several:
        return _of_cohorts(table, source, [counted(rows, "row") for rows in table.rows], most)
    if table.cohorts is not None or (several and not table.sizes):
        raise InputError(
            "bar: expected the means of one output, or the mean sizes of several without cohorts; "
            "take explanation.output(name) first"
        )
    if several:
        return _of_classes(table, source, most)
    top = table.top(most)
    sizes = top.values.reshape(-1)
    signed = table.coloured
    hues = [sign_colour(size) if signed else SIZES for size in sizes.tolist()]
    return _Chart(
        source=source,
        what=_mean(table, source),
        names=[(name, "") for name in top.feature_names],
        series=[_Series(sizes, hues, views.known_intervals(top))],
        left_out=len(table) - len(top),
        numbers=format_numbers(sizes, sign=signed),
    )


def _mean(table: Importance, source: Source) -> str:
    # a table of importance does not say what its means are of
    what = getattr(source, "semivalue", "Shapley value")
    return table.axis.replace("Shapley value", what)


# Cohorts


def _of_parts(cohorts: Mapping[str, Explanation], most: int) -> _Chart:
    """Return the chart of the mean sizes of explanations that are each a cohort."""
    parts = _checked(cohorts)
    table = side_by_side({name: views.mean_table(part) for name, part in parts.items()})
    counts = [views.rows_text(part) for part in parts.values()]
    return _of_cohorts(table, next(iter(parts.values())), counts, most)


def _of_cohorts(table: Importance, source: Source, counts: list[str], most: int) -> _Chart:
    """Return the chart of a bar for each feature and cohort."""
    names = table.cohorts or []
    _check_count(len(names))
    top = table.top(most)
    players = len(top)
    intervals = views.known_intervals(top)
    series = [
        _Series(sizes, [hue] * players, intervals[at * players : (at + 1) * players])
        for at, (sizes, hue) in enumerate(zip(top.full(top.values)[:, :, 0], COHORTS, strict=False))
    ]
    marks = zip(names, counts, COHORTS, strict=False)
    return _Chart(
        source=source,
        what=_mean(table, source),
        names=[(name, "") for name in top.feature_names],
        series=series,
        left_out=len(table) - players,
        key={f"{name} ({count})": hue for name, count, hue in marks},
        rows=counted(len(names), "cohort"),
    )


def _checked(cohorts: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Return the explanations of cohorts, of the same features and one output."""
    _check_count(len(cohorts))
    parts = {name: canvas.single_output(part, "bar") for name, part in cohorts.items()}
    players = {() if has_places(part) else tuple(part.feature_names) for part in parts.values()}
    if len(players) > 1:
        raise InputError("bar: expected cohorts with the same features, got other names")
    return parts


def _check_count(cohorts: int) -> None:
    if not 1 <= cohorts <= len(COHORTS):
        raise InputError(f"bar: expected 1 to {len(COHORTS)} cohorts, got {cohorts}")


# Classes


def _of_classes(table: Importance, source: Source, most: int) -> _Chart:
    """Return the chart of each feature's mean sizes for all outputs, one after the other."""
    sizes = table.values.T  # (k, p)
    totals = sizes.sum(axis=0)
    players = views.largest(totals, most)
    sizes, hues = _largest_classes(sizes, table.output_names)
    return _Chart(
        source=source,
        what=f"{_mean(table, source)}, summed over outputs",
        names=[(table.feature_names[player], "") for player in players],
        series=[
            _Series(size, [hue] * len(players))
            for size, hue in zip(sizes[:, players], hues.values(), strict=True)
        ],
        left_out=len(totals) - len(players),
        numbers=format_numbers(totals[players]),
        key=hues,
        stacked=True,
    )


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
