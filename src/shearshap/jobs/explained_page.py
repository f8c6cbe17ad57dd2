"""The report of an explained file: a page made of its `Result` and of nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shearshap import views
from shearshap.digits import decimals, format_end, format_number, true_minus
from shearshap.explanation import Explanation
from shearshap.jobs.explained_charts import (
    GLOBAL,
    LOCAL,
    cell_detail,
    dots_chart,
    drawn_rows,
    row_chart,
    sizes_chart,
)
from shearshap.jobs.job import OUTPUTS, Job, Result, counted
from shearshap.report import Figure, Page, Panel, Section, Table, write

ROWS = 100  #: shown one by one, from the first on
NAMED = 3  #: the largest values of a row that the table of rows names
ASIDE = 6  #: columns shown beside a row that the model was not given


def report(job: Job, result: Result, facts: Mapping[str, Any]) -> Path:
    """Write the report beside the explanation's file, and return its path."""
    return write(page(result, facts), job.page)


def page(result: Result, facts: Mapping[str, Any]) -> Page:
    """Return the whole report."""
    explanation = result.explanation
    outputs, note = shown_outputs(explanation)
    rows = counted(len(explanation), "row")
    features = counted(len(explanation.feature_names), "feature")
    lead = (
        f"What the model made of {rows} by {features}: how much each feature moved each "
        f"prediction. {note}"
    )
    notes = [f"**Note.** {plain(note)}." for note in result.notes]
    sections = (
        _features_section(outputs),
        _rows_section(outputs, result),
        _reading_section(outputs, result),
        _making_section(explanation),
    )
    title = f"{Path(facts['data']).name}, explained"
    return Page(title, (lead.strip(), *notes), _facts(result, facts), sections)


def shown_outputs(explanation: Explanation) -> tuple[list[Explanation], str]:
    """Return the outputs that a report shows, and a sentence about those that it does not.

    Each output is an explanation of its own. If the values of two are each other's negatives, as
    for the probabilities of two classes, the second is enough.
    """
    names = explanation.output_names
    outputs = [explanation.output(number) for number in range(len(names))]
    if len(outputs) == 2:
        first, second = outputs
        if np.allclose(first.values, -second.values, rtol=1e-6, atol=1e-9):
            note = f"All is shown for “{names[1]}”; what raises it lowers “{names[0]}” by as much."
            return [second], note
    if len(outputs) > OUTPUTS:
        note = f"The first {OUTPUTS} of {len(outputs)} outputs are shown; all are in the file."
        return outputs[:OUTPUTS], note
    return outputs, ""


def plain(text: str) -> str:
    """Return a text in which a page marks up nothing."""
    text = text.replace("`", "\N{ACUTE ACCENT}")
    text = text.replace("**", "*\N{WORD JOINER}*")
    return text.replace("](", "]\N{WORD JOINER}(")


def _name(output: Explanation) -> str:
    return output.output_names[0]


def _with_output(caption: str, output: Explanation, *, several: bool) -> str:
    """Return a table's caption, with the name of its output where there are several."""
    return f"{caption}, {plain(_name(output))}" if several else caption


# All rows


def _features_section(outputs: Sequence[Explanation]) -> Section:
    figures = [_sizes_figure(outputs)]
    if len(outputs[0]) > 1:
        figures.append(_dots_figure(outputs))
    several = len(outputs) > 1
    tables = [_feature_table(output, several=several) for output in outputs]
    return Section("features", "Which features matter", (), tuple(figures), tuple(tables))


def _sizes_figure(outputs: Sequence[Explanation]) -> Figure:
    caption = "The mean size of a feature's values over all rows, whichever way they point."
    if _any_intervals(outputs):
        caption += (
            " The thin lines are 95 % intervals of the estimate for these rows, not for others."
        )
    else:
        caption += f" {_sureness(outputs)}"
    if len(outputs[0].feature_names) > GLOBAL:
        caption += f" The {GLOBAL} largest are drawn; the table has all."

    panels = tuple(Panel(_name(output), sizes_chart(output)) for output in outputs)
    return Figure("How much each feature moves the predictions", panels, caption)


def _dots_figure(outputs: Sequence[Explanation]) -> Figure:
    rows = len(outputs[0])
    dots = len(drawn_rows(outputs[0]))
    which = "each row" if dots == rows else f"each of {dots} rows, evenly taken"
    caption = (
        f"A dot for {which}. Right of the line the feature raised the prediction, left of it it "
        "lowered it. The colour is the feature's own value, from the lowest (blue) to the highest "
        "(orange) of these rows; categories without an order are grey."
    )
    panels = tuple(Panel(_name(output), dots_chart(output)) for output in outputs)
    return Figure("Which way, row by row", panels, caption)


def _feature_table(output: Explanation, *, several: bool) -> Table:
    """Return the table of all features, the largest mean |value| first."""
    intervals = views.has_intervals(output)
    places = decimals(views.mean_sizes(output))
    rows = []
    for bar in views.bars(output):
        values = output.values[:, bar.player]
        extremes = (values.mean(), values.min(), values.max())
        margin = [_margin_text(bar.margin)] if intervals else []
        signed = [format_number(float(number), places, sign=True) for number in extremes]
        rows.append((plain(bar.name), bar.number, *margin, *signed))

    margin_column = ["± (95 %)"] if intervals else []
    return Table(
        _with_output("All features", output, several=several),
        ("feature", "mean |value|", *margin_column, "mean value", "lowest", "highest"),
        tuple(rows),
        open=len(rows) <= GLOBAL and not several,
    )


def _margin_text(margin: float) -> str:
    return "unknown" if np.isnan(margin) else f"{margin:.1g}"


def _any_intervals(outputs: Sequence[Explanation]) -> bool:
    return any(views.has_intervals(output) for output in outputs)


def _sureness(outputs: Sequence[Explanation]) -> str:
    """Return a sentence about the errors of values that have no intervals to draw."""
    method = outputs[0].method
    if method == "exact":
        return "The values are exact, up to rounding."
    errors = [output.standard_errors for output in outputs]
    if any(error is not None and np.isfinite(error).any() for error in errors):
        return "The standard errors are 0, up to rounding."
    return f"`{method}` has no standard errors here."


# One row at a time


def _rows_section(outputs: Sequence[Explanation], result: Result) -> Section:
    rows = len(outputs[0])
    count = min(ROWS, rows)
    which = "All rows" if count == rows else f"The first {count} of {rows:,} rows"
    text = f"{which} are here, counted from 0 as in the file's column `row`."

    outputs = [output[:count] for output in outputs]
    several = len(outputs) > 1
    tables = tuple(_row_table(output, several=several) for output in outputs)
    return Section("rows", "Row by row", (text,), (_rows_figure(outputs, result),), tables)


def _rows_figure(outputs: Sequence[Explanation], result: Result) -> Figure:
    """Return the charts of single rows, to pick from."""
    panels = tuple(
        Panel(_row_title(outputs, row), _row_panel(outputs, row, result))
        for row in range(len(outputs[0]))
    )
    sentences = [
        "Each bar starts where the one above it ends: orange raises the prediction, blue lowers it."
    ]
    if _any_intervals(outputs):
        sentences.append("Thin lines and ± are 95 % intervals of the single values.")
    sentences.append("What the values miss of the prediction, if anything, is the gap.")
    caption = " ".join(sentences)
    return Figure("From the base value to the prediction", panels, caption, pick="Show")


def _row_title(outputs: Sequence[Explanation], row: int) -> str:
    predictions = []
    for output in outputs:
        number = format_number(float(output.predictions[row]), decimals(output.predictions))
        predictions.append(f"{_name(output)} {number}" if len(outputs) > 1 else number)
    return f"Row {row}: {', '.join(predictions)}"


def _row_panel(outputs: Sequence[Explanation], row: int, result: Result) -> str:
    """Return the charts of a row, one for each output, and the cells not given to the model."""
    from markupsafe import Markup

    parts = []
    for output in outputs:
        if len(outputs) > 1:
            parts.append(str(Markup("<h5>{}</h5>").format(_name(output))))
        parts.append(row_chart(output, row))

    columns = result.aside[:ASIDE]
    if columns:
        cells = [f"{name} = {result.data[name][row].as_py()}" for name in columns]
        note = Markup('<p class="note">Not given to the model: {}</p>')
        parts.append(str(note.format(", ".join(cells))))
    return "".join(parts)


def _row_table(output: Explanation, *, several: bool) -> Table:
    """Return the table of rows: their largest values, base value, prediction and gap."""
    places = decimals(output.values)
    rounding = 1e-9 * np.abs(output.values).max()
    rows = []
    for row in range(len(output)):
        steps = views.waterfall(output, row, LOCAL).steps[:NAMED]
        largest = ", ".join(_step_text(step, places) for step in steps)
        base = format_end(float(output.base_values[row]), output.values)
        prediction = format_end(float(output.predictions[row]), output.values)
        gap = float(output.gap[row])
        gap_text = true_minus(f"{gap:.1g}") if abs(gap) > rounding else "0"
        rows.append((f"{row}", largest, base, prediction, gap_text))

    return Table(
        _with_output(f"Rows 0 to {len(output) - 1}", output, several=several),
        ("row", "largest values", "base value", "prediction", "gap"),
        tuple(rows),
        left=2,
        open=False,
    )


def _step_text(step: views.Step, places: int | None) -> str:
    number = format_number(step.size, places, sign=True)
    words = [step.name, cell_detail(step.cell), number]
    return plain(" ".join(word for word in words if word))


# What the numbers mean, and how they were made


def _reading_section(outputs: Sequence[Explanation], result: Result) -> Section:
    text = (
        "**Base value.** What the model returns with every feature absent, that is replaced by "
        f"the background: {result.background}.",
        "**Value.** A feature's Shapley value is its part of the way from the base value to the "
        "row's prediction, in the units of the prediction: what it adds when it comes in, averaged "
        "over all orders in which the features can come in. A row's values add up to prediction "
        "less base value; the gap is what they miss.",
        _interval_text(outputs),
        "**Background.** Another background gives other values. A feature that is as in the "
        "background has little to explain, however much the model makes of it elsewhere.",
        "**Mixed rows.** The model is asked about rows that are part row, part background. Where "
        "features go together, some of these are rows that never occur, and the values tell what "
        "the model makes of them, too.",
        "**No causes.** The values say what the model did with its inputs, not what would happen "
        "in the world if a feature were changed.",
    )
    return Section("reading", "What the numbers mean", text)


def _interval_text(outputs: Sequence[Explanation]) -> str:
    if not _any_intervals(outputs):
        return f"**Sureness.** {_sureness(outputs)}"
    return (
        "**Intervals.** The values are estimates. In about 95 of 100 cases, for models that are "
        "smooth enough, the exact Shapley value, of this model, row and background, lies within "
        "the interval; for a model that jumps, in fewer. How well they hold is in the "
        "documentation, under “Error bars”. They say nothing of whether the model is right."
    )


def _making_section(explanation: Explanation) -> Section:
    spent = f"{explanation.evaluations:,} model evaluations"
    if explanation.row_evaluations is not None:
        mean = explanation.row_evaluations.mean()
        spent = f"{mean:,.0f} model evaluations on average, {explanation.evaluations:,} at most,"
    gap = np.abs(explanation.gap).max()
    text = [
        f"`{explanation.method}` spent {spent} on each row, base value and prediction included. "
        f"The largest gap of a row is {gap:.2g}.",
        "The same command gives the same values: the seed decides every random choice. All "
        "numbers, with standard errors, are in the file beside this page, and the facts above in "
        "its metadata where it is Parquet.",
    ]
    if explanation.converged is not None and not explanation.converged.all():
        missed = int((~explanation.converged).sum())
        text.append(
            f"{missed} of {len(explanation):,} rows did not come below the standard error asked "
            "for within their budget."
        )
    return Section("making", "How it was made", tuple(text))


def _facts(result: Result, facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the lines at the top of the page, without those that would be empty."""
    outputs = ", ".join(facts["outputs"])
    scale = facts["scale"] or "what the model returns"
    cost = f"{facts['evaluations']:,} evaluations a row at most"
    lines = {
        "Command": f"`{facts['command']}`",
        "Model": plain(result.model),
        "Rows": plain(f"{facts['rows']:,} of {facts['data']}"),
        "Background": plain(result.background),
        "Outputs": plain(f"{outputs}; scale: {scale}"),
        "Not used": plain(", ".join(result.aside)),
        "Method": f"{facts['method']}, {cost}, seed {facts['seed']}",
        "Version": f"shearshap {facts['version']}",
    }
    return tuple((name, line) for name, line in lines.items() if line)
