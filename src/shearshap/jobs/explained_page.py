"""The report of an explained file: a page made of its `Result` and of nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shearshap.digits import MINUS, decimals, written
from shearshap.explanation import Explanation
from shearshap.jobs.charts import (
    DOTS,
    GLOBAL,
    Step,
    dots_chart,
    largest_first,
    margins,
    plain,
    sizes_chart,
    steps,
    title,
    waterfall,
)
from shearshap.jobs.job import OUTPUTS, Job, Result, counted
from shearshap.report import Figure, Page, Panel, Section, Table, write

ROWS = 100  #: shown one by one, from the first on


def report(job: Job, result: Result, facts: Mapping[str, Any]) -> Path:
    """Write the report beside the explanation's file, and return its path."""
    return write(page(result, facts), job.page)


def page(result: Result, facts: Mapping[str, Any]) -> Page:
    """Return the whole report."""
    parts, note = shown_outputs(result.explanation)
    sections = (_features(parts), _rows(parts, result), _reading(parts, result), _making(result))
    rows, players = len(result.explanation), len(result.explanation.feature_names)
    return Page(
        f"{Path(facts['data']).name}, explained",
        (
            f"What the model made of {counted(rows, 'row')} by {counted(players, 'feature')}: how "
            "much each feature "
            f"moved each prediction. {note}".strip(),
            *(f"**Note.** {plain(told)}." for told in result.notes),
        ),
        _facts(result, facts),
        sections,
    )


def shown_outputs(explanation: Explanation) -> tuple[list[Explanation], str]:
    """Return the outputs that a report shows, each as an explanation of its own, and what to say of
    the others.

    Of two whose values are each other's negatives, as the probabilities of two classes, one tells
    all.
    """
    names = explanation.output_names
    parts = [explanation.output(number) for number in range(len(names))]
    if len(parts) == 2 and np.allclose(parts[0].values, -parts[1].values, rtol=1e-6, atol=1e-9):
        return parts[
            1:
        ], f"All is shown for “{names[1]}”; what raises it lowers “{names[0]}” by as much."
    if len(parts) > OUTPUTS:
        return parts[
            :OUTPUTS
        ], f"The first {OUTPUTS} of {len(parts)} outputs are shown; all are in the file."
    return parts, ""


# All rows


def _features(parts: list[Explanation]) -> Section:
    few = len(parts[0].feature_names) <= GLOBAL
    left_out = "" if few else f" The {GLOBAL} largest are drawn; the table has all."
    dots = min(DOTS, len(parts[0]))
    figures = [
        Figure(
            "How much each feature moves the predictions",
            tuple(Panel(title(one), sizes_chart(one)) for one in parts),
            "The mean size of a feature's values over all rows, whichever way they point."
            + _whiskers(parts)
            + left_out,
        )
    ]
    if len(parts[0]) > 1:
        figures.append(
            Figure(
                "Which way, row by row",
                tuple(Panel(title(one), dots_chart(one)) for one in parts),
                "A dot for "
                f"{'each row' if dots == len(parts[0]) else f'each of {dots} rows, evenly taken'}. Right of "
                "the line the feature raised the prediction, left of it it lowered it. The colour "
                "is the feature's own "
                "value, from the lowest (blue) to the highest (orange) of these rows; categories "
                "are in the order of "
                "their names.",
            )
        )
    return Section(
        "features",
        "Which features matter",
        (),
        figures=tuple(figures),
        tables=tuple(_players(one, several=len(parts) > 1) for one in parts),
    )


def _whiskers(parts: list[Explanation]) -> str:
    if all(margins(one) is None for one in parts):
        return " " + _sureness(parts)
    return " The thin lines are 95 % intervals of the estimate for these rows, not for others."


def _sureness(parts: list[Explanation]) -> str:
    """Return how sure values are that have no intervals to draw."""
    method = parts[0].method
    if method == "exact":
        return "The values are exact, up to rounding."
    known = [
        one.standard_errors is not None and np.isfinite(one.standard_errors).any() for one in parts
    ]
    return (
        "The standard errors are 0, up to rounding."
        if any(known)
        else f"`{method}` has no standard errors here."
    )


def _players(one: Explanation, *, several: bool) -> Table:
    sizes, spread = np.abs(one.values).mean(axis=0), margins(one)
    places = decimals(sizes)
    rows = []
    for player in largest_first(sizes):
        values = one.values[:, player]
        size = (
            written(float(sizes[player]), places),
            *(() if spread is None else (f"{spread[:, player].mean():.1g}",)),
        )
        ends = (
            written(float(end), places, sign=True)
            for end in (values.mean(), values.min(), values.max())
        )
        rows.append((plain(one.feature_names[player]), *size, *ends))
    sure = () if spread is None else ("± (95 %)",)
    return Table(
        f"All features{f', {plain(title(one))}' if several else ''}",
        ("feature", "mean |value|", *sure, "mean value", "lowest", "highest"),
        tuple(rows),
        open=len(rows) <= GLOBAL and not several,
    )


# One row at a time


def _rows(parts: list[Explanation], result: Result) -> Section:
    count = min(ROWS, len(parts[0]))
    which = "All rows" if count == len(parts[0]) else f"The first {count} of {len(parts[0]):,} rows"
    parts = [one[:count] for one in parts]
    panels = tuple(Panel(_row_title(parts, row), _row(parts, row, result)) for row in range(count))
    unsure = any(margins(one) is not None for one in parts)
    figure = Figure(
        "From the base value to the prediction",
        panels,
        "Each bar starts where the one above it ends: orange raises the prediction, blue lowers "
        "it. "
        + ("Thin lines and ± are 95 % intervals of the single values. " if unsure else "")
        + "What the values miss of the prediction, if anything, is the gap.",
        pick="Show",
    )
    text = f"{which} are here, counted from 0 as in the file's column `row`."
    return Section(
        "rows",
        "Row by row",
        (text,),
        (figure,),
        tuple(_row_table(one, several=len(parts) > 1) for one in parts),
    )


def _row_title(parts: list[Explanation], row: int) -> str:
    ends = [written(float(one.predictions[row]), decimals(one.predictions)) for one in parts]
    names = [f"{title(one)} " if len(parts) > 1 else "" for one in parts]
    return f"Row {row}: {', '.join(map(''.join, zip(names, ends, strict=True)))}"


def _row(parts: list[Explanation], row: int, result: Result) -> str:
    """Return the charts of one row, one for each output, and what the file says of it beside."""
    from markupsafe import Markup

    made = []
    for one in parts:
        above = Markup("<h5>{}</h5>").format(title(one)) if len(parts) > 1 else ""
        made.append(str(above) + waterfall(one, row))
    aside = ", ".join(f"{name} = {result.data[name][row].as_py()}" for name in result.aside[:6])
    note = Markup('<p class="note">Not given to the model: {}</p>').format(aside) if aside else ""
    return "".join(made) + str(note)


def _row_table(one: Explanation, *, several: bool) -> Table:
    places = decimals(one.values)
    rows = []
    for row in range(len(one)):
        ends = (one.base_values[row], one.predictions[row])
        told = (_step_told(step, places) for step in steps(one[row], 0)[:3])
        gap = (
            f"{one.gap[row]:.1g}".replace("-", MINUS)
            if abs(one.gap[row]) > 1e-9 * np.abs(one.values).max()
            else "0"
        )
        rows.append(
            (f"{row}", ", ".join(told), *(written(float(end), places) for end in ends), gap)
        )
    return Table(
        f"Rows 0 to {len(one) - 1}{f', {plain(title(one))}' if several else ''}",
        ("row", "largest values", "base value", "prediction", "gap"),
        tuple(rows),
        left=2,
        open=False,
    )


def _step_told(step: Step, places: int | None) -> str:
    return plain(
        f"{step.label} {step.detail} {written(step.size, places, sign=True)}".replace("  ", " ")
    )


# What it means, and how it was made


def _reading(parts: list[Explanation], result: Result) -> Section:
    sure = (
        "**Intervals.** The values are estimates. In about 95 of 100 cases, for models that are "
        "smooth enough, the "
        "exact Shapley value, of this model, row and background, lies within the interval; for a "
        "model that jumps, in "
        "fewer. How well they hold is in the documentation, under “Error bars”. They say nothing "
        "of whether the model "
        "is right."
        if any(margins(one) is not None for one in parts)
        else f"**Sureness.** {_sureness(parts)}"
    )
    return Section(
        "reading",
        "What the numbers mean",
        (
            "**Base value.** What the model returns with every feature absent, that is replaced "
            "by the background: "
            f"{result.background}.",
            "**Value.** A feature's Shapley value is its share of the way from the base value to "
            "the row's prediction, "
            "in the units of the prediction: what it adds when it comes in, averaged over all "
            "orders in which the "
            "features can come in. A row's values add up to prediction less base value; the gap "
            "is what they miss.",
            sure,
            "**Background.** Another background gives other values. A feature that is as in the "
            "background has little "
            "to explain, however much the model makes of it elsewhere.",
            "**Mixed rows.** The model is asked about rows that are part row, part background. "
            "Where features go "
            "together, some of these are rows that never occur, and the values tell what the "
            "model makes of them, too.",
            "**No causes.** The values say what the model did with its inputs, not what would "
            "happen in the world if a "
            "feature were changed.",
        ),
    )


def _making(result: Result) -> Section:
    one = result.explanation
    gap = np.abs(one.gap).max()
    spent = f"{one.evaluations:,} model evaluations"
    if one.row_evaluations is not None:
        spent = f"{one.row_evaluations.mean():,.0f} model evaluations on average, {one.evaluations:,} at most,"
    text = (
        f"`{one.method}` spent {spent} on each row, base value and prediction included. The "
        "largest gap of a row is "
        f"{gap:.2g}.",
        "The same command gives the same values: the seed decides every random choice. All "
        "numbers, with standard "
        "errors, are in the file beside this page, and the facts above in its metadata where it "
        "is Parquet.",
    )
    missed = one.converged is not None and int((~one.converged).sum())
    more = f"{missed} of {len(one):,} rows did not come below the standard error asked for within their budget."
    return Section("making", "How it was made", (*text, more) if missed else text)


def _facts(result: Result, facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    scale = facts["scale"] or "what the model returns"
    told = {
        "Command": f"`{facts['command']}`",
        "Model": plain(result.model),
        "Rows": plain(f"{facts['rows']:,} of {facts['data']}"),
        "Background": plain(result.background),
        "Outputs": plain(f"{', '.join(facts['outputs'])}; scale: {scale}"),
        "Not used": plain(", ".join(result.aside)),
        "Method": f"{facts['method']}, {facts['evaluations']:,} evaluations a row at most, seed {facts['seed']}",
        "Version": f"shearshap {facts['version']}",
    }
    return tuple((name, value) for name, value in told.items() if value)
