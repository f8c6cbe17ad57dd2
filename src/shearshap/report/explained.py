"""The report of an explained file: a page made of its `Result` and of nothing else.

It is to be sent to somebody who was not there: first a summary in words, then pictures, then how it
was made, folded away.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shearshap.jobs.job import Job, Result
from shearshap.jobs.result import ROUNDING, file_size
from shearshap.report import Dot, Figure, Line, Page, Panel, Section, Table, chart, write
from shearshap.report.rows import MAX_FEATURES as ROW_FEATURES
from shearshap.report.rows import RowData, row_data, script, style
from shearshap.report.summary import (
    certainty,
    has_cells,
    named,
    pair_sizes,
    plain,
    points,
    sum_of_sizes,
)
from shearshap.result import views
from shearshap.result.colours import GREY, rank_colour
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes
from shearshap.result.text import counted, decimals, format_number, smallest_shown
from shearshap.result.views import Ints

SHOWN_OUTPUTS = 12  #: outputs of which the page has pictures; the file has all
DOTS = 500  #: rows drawn as dots, evenly taken; fewer if there are many outputs
MIN_DOTS = 150
GLOBAL_FEATURES = 20  #: in a chart of all rows
MAX_PAIRS = 10  #: pairs of features in the chart of interactions
BINS = 100  #: dots that fit along a line, on a screen between a phone and a desk
ACROSS = 8  #: dots that fit above each other in a line
SHADES = 8  #: steps from the lowest to the highest colour
TIMES = "\N{MULTIPLICATION SIGN}"


def report(job: Job, result: Result, facts: Mapping[str, Any]) -> Path:
    """Write the report beside the explanation's file, and return its path."""
    return write(page(result, facts), job.page)


def page(result: Result, facts: Mapping[str, Any]) -> Page:
    """Return the whole report."""
    explanation = result.explanation
    outputs, note = shown_outputs(explanation)
    rows = counted(len(explanation), "row")
    count = len(explanation.feature_names)
    features = f"each of {count:,} features" if count > 1 else "the one feature"
    of_output = named(outputs[0]) if len(outputs) == 1 else ""
    lead = f"How much {features} moved the model's prediction{of_output}, for {rows}. {note}"
    held = row_data(outputs, result)
    sections = (
        _features_section(outputs),
        _rows_section(outputs, held),
        _reading_section(outputs, result),
        _making_section(explanation, result, facts),
    )
    return Page(
        title=f"What drives the predictions for {Path(facts['data']).name}",
        lead=(lead.strip(),),
        facts=(),
        sections=sections,
        letter=True,
        points=tuple(points(outputs)),
        warnings=tuple(f"**Note.** {plain(note)}." for note in result.notes),
        style=style(),
        script=script(),
    )


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
            return [second], f"What raises it lowers “{plain(names[0])}” by as much."
    if len(outputs) > SHOWN_OUTPUTS:
        note = (
            f"The first {SHOWN_OUTPUTS} of {len(outputs)} outputs are shown; all are in the file."
        )
        return outputs[:SHOWN_OUTPUTS], note
    return outputs, ""


def _name(output: Explanation) -> str:
    return output.output_names[0]


def _panels(outputs: Sequence[Explanation], pictures: Sequence[str]) -> tuple[Panel, ...]:
    """Return a picture for each output; a single one needs no title."""
    titles = [_name(output) for output in outputs] if len(outputs) > 1 else [""]
    return tuple(Panel(title, made) for title, made in zip(titles, pictures, strict=True))


def _pick(outputs: Sequence[Explanation]) -> str:
    return "Show" if len(outputs) > 1 else ""


# All rows


def _features_section(outputs: Sequence[Explanation]) -> Section:
    figures = [_sizes_figure(outputs)]
    if len(outputs[0]) > 1:
        figures.append(_dots_figure(outputs))
    if outputs[0].interactions is not None and len(outputs[0].feature_names) > 1:
        figures.append(_pairs_figure(outputs))
    table = _feature_table(outputs[0]) if len(outputs) == 1 else _output_table(outputs)
    return Section("features", "Which features matter", (), tuple(figures), (table,))


def _sizes_figure(outputs: Sequence[Explanation]) -> Figure:
    caption = "How far a feature moves a prediction, up or down, on average over all rows."
    tables = [views.mean_table(output) for output in outputs]
    if any(any(views.known_intervals(table)) for table in tables):
        caption += f" The thin lines are 95 % intervals. {tables[0].interval_words}"
    if max(len(_drawn_players(output)) for output in outputs) < len(outputs[0].feature_names):
        caption += " The largest are drawn; the table has all."
    pictures = [_sizes_chart(output) for output in outputs]
    return Figure(
        "How much each feature moves the predictions",
        _panels(outputs, pictures),
        caption,
        pick=_pick(outputs),
    )


def _dots_figure(outputs: Sequence[Explanation]) -> Figure:
    rows = len(outputs[0])
    most = _dots_of_each(len(outputs))
    dots = len(_drawn_rows(outputs[0], most))
    which = "each row" if dots == rows else f"each of {dots} rows, evenly taken"
    drawn = outputs[0][_drawn_rows(outputs[0], most)]
    words = any(_has_words(drawn, int(player)) for player in _drawn_players(outputs[0]))
    caption = (
        f"A dot for {which}. Right of the line the feature raised the prediction, left of it it "
        "lowered it. Blue dots are rows in which the feature itself is low, orange dots rows in "
        "which it is high."
    )
    if words:
        caption += " Features that are no single number, such as words, are grey."
    pictures = [_dots_chart(output, most) for output in outputs]
    panels = _panels(outputs, pictures)
    return Figure("Which way, row by row", panels, caption, pick=_pick(outputs))


def _pairs_figure(outputs: Sequence[Explanation]) -> Figure:
    caption = (
        "What two features add only together, up or down, on average over all rows: the "
        f"{MAX_PAIRS} largest pairs. The file of values has the interactions of all rows."
    )
    panels = _panels(outputs, [_pairs_chart(output) for output in outputs])
    return Figure("Which features act together", panels, caption, pick=_pick(outputs))


def _output_table(outputs: Sequence[Explanation]) -> Table:
    """Return the table of all features by outputs, the largest feature first."""
    sizes = np.stack([mean_sizes(output) for output in outputs], axis=1)
    places = decimals(sizes)
    rows = [
        (
            plain(outputs[0].feature_names[player]),
            *(format_number(float(size), places) for size in sizes[player]),
        )
        for player in views.largest(sum_of_sizes(outputs)).tolist()
    ]
    names = [plain(_name(output)) for output in outputs]
    return Table(
        "All features, as a table: how far each moves each output on average",
        ("feature", *names),
        tuple(rows),
        open=False,
    )


def _feature_table(output: Explanation) -> Table:
    """Return the table of all features, the largest mean |value| first."""
    table = views.mean_table(output)
    intervals = any(views.known_intervals(table))
    places = decimals(table.values)
    rows = []
    for bar in views.bars(output):
        values = output.values[:, bar.player]
        extremes = (values.mean(), values.min(), values.max())
        margin = [_margin_text(table.upper[bar.player] - bar.size)] if intervals else []
        signed = [format_number(float(number), places, sign=True) for number in extremes]
        rows.append((plain(bar.name), bar.number, *margin, *signed))

    margin_column = ["± (95 %)"] if intervals else []
    return Table(
        "All features, as a table",
        ("feature", "moves by", *margin_column, "mean", "lowest", "highest"),
        tuple(rows),
        open=False,
    )


def _margin_text(margin: float) -> str:
    return f"{margin:.1g}" if np.isfinite(margin) else "unknown"


def _any_intervals(outputs: Sequence[Explanation]) -> bool:
    return any(views.has_intervals(output) for output in outputs)


# One row at a time


def _rows_section(outputs: Sequence[Explanation], held: RowData) -> Section:
    rows = len(outputs[0])
    sentences = [
        "Each bar starts where the one above it ends: orange raises the prediction, blue lowers it."
    ]
    if _any_intervals(outputs):
        sentences.append("Thin lines and ± are 95 % intervals of the single values.")
    size = file_size(held.bytes)
    if held.rows == rows:
        which = "All rows are" if rows > 1 else "The row is"
        sentences.append(f"{which} in this page ({size}).")
    else:
        sentences.append(
            f"{held.rows:,} of the {rows:,} rows, evenly taken, are in this page ({size}), to keep "
            "it small enough to send; the file of values has all."
        )
    if held.features < min(outputs[0].values.shape[1], ROW_FEATURES):
        sentences.append(f"Of each row, the {held.features} largest features are kept.")
    return Section("rows", "Row by row", (" ".join(sentences),), html=held.html)


# What the numbers mean, and how they were made


def _reading_section(outputs: Sequence[Explanation], result: Result) -> Section:
    text = (
        "**Base value.** What the model returns with every feature absent, that is replaced by "
        f"the background: {result.background}.",
        "**Value.** A feature's Shapley value is its part of the way from the base value to the "
        "row's prediction, in the units of the prediction: what it adds when it comes in, averaged "
        "over all orders in which the features can come in. A row's values add up to the "
        "prediction less the base value.",
        _interval_text(outputs),
        "**Background.** Another background gives other values. A feature that is as in the "
        "background has little to explain, however much the model makes of it elsewhere.",
        "**Mixed rows.** The model is evaluated on mixtures of the row and the background. If "
        "features depend on each other, some of these never occur in practice, and the values "
        "also reflect what the model returns there.",
        "**No causes.** The values say what the model did with its inputs, not what would happen "
        "in the world if a feature were changed.",
    )
    return Section("reading", "What the numbers mean", text, open=False)


def _interval_text(outputs: Sequence[Explanation]) -> str:
    if not _any_intervals(outputs):
        return f"**Certainty.** {certainty(outputs)}"
    return (
        "**Intervals.** The values are estimates. In about 95 of 100 cases, for models that are "
        "smooth enough, the exact Shapley value, of this model, row and background, lies within "
        "the interval; for a model that jumps, in fewer. How well they hold is in the "
        "documentation, under “Error bars”. They say nothing of whether the model is right."
    )


def _making_section(explanation: Explanation, result: Result, facts: Mapping[str, Any]) -> Section:
    spent = f"{explanation.evaluations:,} model evaluations"
    if explanation.row_evaluations is not None:
        mean = explanation.row_evaluations.mean()
        spent = f"{mean:,.0f} model evaluations on average, {explanation.evaluations:,} at most,"
    text = [
        f"`{explanation.method}` spent {spent} on each row, base value and prediction included."
        + _gap_text(explanation),
        "The same command gives the same values: the seed decides every random choice. All "
        "numbers, with standard errors, are in the file beside this page, and the facts below in "
        "its metadata where it is Parquet.",
    ]
    if explanation.converged is not None and not explanation.converged.all():
        missed = int((~explanation.converged).sum())
        text.append(
            f"{missed} of {len(explanation):,} rows did not come below the standard error asked "
            "for within their budget."
        )
    return Section(
        "making", "How it was made", tuple(text), open=False, facts=_facts(result, facts)
    )


def _gap_text(explanation: Explanation) -> str:
    """Return a sentence about what the values miss of the predictions, if it is not rounding."""
    gap = float(np.abs(explanation.gap).max())
    if gap <= ROUNDING * np.abs(explanation.values).max(initial=0.0):
        return " The values of every row add up to its prediction."
    return f" The values miss at most {gap:.2g} of a row's prediction: the gap."


def _facts(result: Result, facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the facts of how it was made, without those that would be empty."""
    outputs = ", ".join(facts["outputs"])
    scale = facts["scale"] or "what the model returns"
    cost = f"{facts['evaluations']:,} evaluations a row at most"
    groups = facts.get("groups") or {}
    lines = {
        "Command": f"`{facts['command']}`",
        "Model": plain(result.model),
        "Rows": plain(f"{facts['rows']:,} of {facts['data']}"),
        "Row id": plain(result.id_column or ""),
        "Background": plain(result.background),
        "Outputs": plain(f"{outputs}; scale: {scale}"),
        "Groups": plain("; ".join(f"{name}: {', '.join(of)}" for name, of in groups.items())),
        "Not used": plain(", ".join(result.aside)),
        "Method": f"{facts['method']}, {cost}, seed {facts['seed']}",
        "Version": f"shearshap {facts['version']}",
    }
    return tuple((name, line) for name, line in lines.items() if line)


# Charts


def _sizes_chart(explanation: Explanation) -> str:
    """Return the chart of mean |value|, the largest features first."""
    bars = views.bars(explanation)[: len(_drawn_players(explanation))]
    lines = [
        Line(bar.name, "", bar.number, (0.0, bar.size), bar.colour, bar.interval) for bar in bars
    ]
    alt = f"Mean size of values, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit="how far it moves a prediction, on average")


def _dots_chart(explanation: Explanation, dots: int = DOTS) -> str:
    """Return the chart of values row by row, a dot for each row or for `dots` of them."""
    rows = _drawn_rows(explanation, dots)
    players = _drawn_players(explanation)
    drawn = explanation[rows]

    swarms = views.swarms(drawn, players, bins=BINS, across=ACROSS)
    lines = [Line(swarm.name, dots=_dots(swarm, drawn)) for swarm in swarms]
    alt = f"Values row by row, {explanation.output_names[0]}"
    return _key() + chart(lines, alt=alt, unit="← lowers the prediction · raises it →")


def _key() -> str:
    """Return the meaning of the dots' colours."""
    shades = [rank_colour(shade / SHADES) for shade in range(SHADES + 1)]
    boxes = [
        f'<rect x="{12 * at}" width="12" height="10" fill="{c}"/>' for at, c in enumerate(shades)
    ]
    width = 12 * len(shades)
    ramp = f'<svg width="{width}" height="10" aria-hidden="true">{"".join(boxes)}</svg>'
    return f'<p class="ramp"><span>feature is low</span>{ramp}<span>feature is high</span></p>'


def _drawn_players(explanation: Explanation) -> Ints:
    """Return the largest features, without those whose size would be written as 0."""
    sizes = mean_sizes(explanation)
    order = views.largest(sizes, GLOBAL_FEATURES)
    smallest = smallest_shown(float(sizes.max(initial=0.0)), decimals(sizes))
    visible = int((sizes[order] >= smallest).sum())
    return order[: max(1, visible)]


def _drawn_rows(explanation: Explanation, dots: int = DOTS) -> Ints:
    """Return the numbers of the rows that are drawn as dots."""
    count = min(dots, len(explanation))
    return np.unique(np.linspace(0, len(explanation) - 1, count).astype(np.int64))


def _dots_of_each(outputs: int) -> int:
    """Return how many rows are drawn as dots for each of the outputs."""
    return max(MIN_DOTS, DOTS // outputs)


def _dots(swarm: views.Swarm, drawn: Explanation) -> tuple[Dot, ...]:
    """Return a swarm's dots, in few shades; grey if a feature is words, which have no order."""
    is_words = _has_words(drawn, swarm.player)
    dots = []
    for value, offset, rank in zip(swarm.values, swarm.offsets, swarm.ranks, strict=True):
        colour = GREY if is_words or np.isnan(rank) else rank_colour(round(rank * SHADES) / SHADES)
        dots.append(Dot(float(value), float(offset), colour))
    return tuple(dots)


def _has_words(explanation: Explanation, player: int) -> bool:
    """Return whether a feature's cells are words, and not numbers."""
    if not has_cells(explanation, player):
        return False
    return bool(views.column(explanation, player, 1).categories)


def _pairs_chart(explanation: Explanation) -> str:
    """Return the chart of the pairs of features that act together most."""
    sizes = pair_sizes(explanation)
    order = np.argsort(-sizes, axis=None, kind="stable")[:MAX_PAIRS]
    places = decimals(sizes)
    names = explanation.feature_names
    lines = []
    for flat in order.tolist():
        first, second = divmod(flat, len(names))
        size = float(sizes[first, second])
        if size > 0:
            name = f"{names[first]} {TIMES} {names[second]}"
            lines.append(Line(name, number=format_number(size, places), bar=(0.0, size)))
    alt = f"Pairs of features that act together, {explanation.output_names[0]}"
    return chart(lines, alt=alt, unit="size of the interaction, on average")
