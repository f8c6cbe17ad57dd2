"""The report of explained rows: a page made of their `Result` and of nothing else.

It is written for readers who did not run the job: first a summary in words, then pictures, then
how it was made, folded away.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shearshap.apps.report.page import Figure, Line, Page, Panel, Section, Table, chart, resource
from shearshap.apps.report.result import ROUNDING, Result, file_size
from shearshap.apps.report.rows import RowData, row_data
from shearshap.apps.report.summary import (
    certainty,
    highlights,
    moved_output,
    pair_sizes,
    plain,
    sum_of_sizes,
)
from shearshap.result import views
from shearshap.result.cells import without_mirror
from shearshap.result.colours import rank_colour
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes
from shearshap.result.text import (
    counted,
    decimals,
    format_number,
    format_numbers,
    part_of,
    smallest_shown,
)
from shearshap.result.views import Ints

SHOWN_OUTPUTS = 12  #: outputs of which the page has pictures; the file has all
DOTS = 500  #: rows drawn as dots, evenly taken; fewer if there are many outputs
MIN_DOTS = 150
GLOBAL_FEATURES = 20  #: in a chart of all rows
MEANS = 6  #: categories whose means are written below their dots
MAX_PAIRS = 10  #: pairs of features in the chart of interactions
BINS = 100  #: dots that fit along a line, on a screen between a phone and a desk
ACROSS = 8  #: dots that fit above each other in a line
SHADES = 8  #: steps from the lowest to the highest colour
TIMES = "\N{MULTIPLICATION SIGN}"


def page(result: Result, facts: Mapping[str, Any]) -> Page:
    """Return the whole report; `facts` are those of a job, with its command and its file."""
    explanation = result.explanation
    outputs, note = shown_outputs(explanation)
    rows = counted(len(explanation), "row")
    count = len(explanation.feature_names)
    features = f"each of {count:,} features" if count > 1 else "the one feature"
    moved = moved_output(outputs[0]) if len(outputs) == 1 else "the model's predictions"
    against = plain(result.background)
    lead = f"How much {features} moved {moved}, for {rows}, compared with {against}. {note}"
    several = len(explanation) > 1 or explanation.interactions is not None
    sections = (
        *([features_section(outputs)] if several else []),
        _rows_section(outputs, row_data(outputs, result)),
        _reading_section(outputs, result),
        making_section(result, facts),
    )
    of_file = f" for {Path(facts['data']).name}" if "data" in facts else ""
    return Page(
        title=facts.get("title") or f"What drives the predictions{of_file}",
        lead=(lead.strip(),),
        sections=sections,
        standalone=True,
        highlights=tuple(highlights(outputs)),
        warnings=warnings(result),
        style=resource("rows.css"),
        script=resource("rows.js"),
    )


def warnings(result: Result) -> tuple[str, ...]:
    """Return what readers are to mind, each once."""
    notes = dict.fromkeys((*result.notes, *result.explanation.notes))
    return tuple(f"**Note.** {plain(note).rstrip('.')}." for note in notes)


def shown_outputs(explanation: Explanation) -> tuple[list[Explanation], str]:
    """Return the outputs that a report shows, and a sentence about those that it does not.

    Each output is an explanation of its own. Of two classes, the second is enough.
    """
    names = explanation.output_names
    second = without_mirror(explanation)
    if second is not explanation:
        return [second], f"What raises it lowers “{plain(names[0])}” by the same amount."
    outputs = [explanation.output(number) for number in range(len(names))]
    if len(outputs) > SHOWN_OUTPUTS:
        note = f"The first {SHOWN_OUTPUTS} of {len(outputs)} outputs are shown."
        return outputs[:SHOWN_OUTPUTS], note
    return outputs, ""


# All rows


def features_section(outputs: Sequence[Explanation]) -> Section:
    """Return the charts and the table of all features."""
    figures = [_sizes_figure(outputs)]
    if len(outputs[0]) > 1:
        figures.append(_dots_figure(outputs))
    if outputs[0].interactions is not None and len(outputs[0].feature_names) > 1:
        figures.append(_pairs_figure(outputs))
    table = _feature_table(outputs[0]) if len(outputs) == 1 else _output_table(outputs)
    return Section("features", "Which features matter", (), tuple(figures), (table,))


def _figure(
    title: str, outputs: Sequence[Explanation], charts: Sequence[str], caption: str
) -> Figure:
    """Return a figure with a chart for each output, of which readers pick one."""
    if len(outputs) == 1:
        return Figure(title, (Panel("", charts[0]),), caption)
    names = [output.output_names[0] for output in outputs]
    panels = [Panel(name, made) for name, made in zip(names, charts, strict=True)]
    return Figure(title, tuple(panels), caption, pick="Show")


def _sizes_figure(outputs: Sequence[Explanation]) -> Figure:
    """Return the charts of mean |value|, the largest features first."""
    charts = []
    has_intervals = False
    for output in outputs:
        table = views.mean_table(output)
        top = table.top(len(_drawn_players(output)))
        sizes = top.values.tolist()
        intervals = views.known_intervals(top)
        has_intervals |= any(intervals)
        bars = zip(top.feature_names, format_numbers(sizes), sizes, intervals, strict=True)
        lines = [
            Line(name, number=number, bar=(0.0, size), whisker=interval)
            for name, number, size, interval in bars
        ]
        alt = f"Mean size of values, {output.output_names[0]}"
        unit = f"how far it moves {moved_output(output)}, on average"
        charts.append(chart(lines, alt=alt, unit=unit))

    caption = "How far a feature moves a prediction, up or down, on average over all rows."
    if has_intervals:
        caption += f" The thin lines are 95 % intervals. {table.interval_words}"
    if max(len(_drawn_players(output)) for output in outputs) < len(outputs[0].feature_names):
        caption += " The largest are drawn; the table has all."
    return _figure("How much each feature moves the predictions", outputs, charts, caption)


def _drawn_players(explanation: Explanation) -> Ints:
    """Return the largest features, without those whose size would be written as 0."""
    sizes = mean_sizes(explanation)
    order = views.largest(sizes, GLOBAL_FEATURES)
    smallest = smallest_shown(float(sizes.max(initial=0.0)), decimals(sizes))
    visible = int((sizes[order] >= smallest).sum())
    return order[: max(1, visible)]


def _dots_figure(outputs: Sequence[Explanation]) -> Figure:
    """Return the charts of values row by row, a dot for each row, or for some of them."""
    rows = len(outputs[0])
    drawn = views.evenly_spaced(rows, max(MIN_DOTS, DOTS // len(outputs)))
    charts = []
    has_grey = has_colours = has_means = False
    for output in outputs:
        some = output[drawn]
        players = _drawn_players(output)
        swarms = views.swarms(some, players, bins=BINS, across=ACROSS)
        ranks = np.array([swarm.ranks for swarm in swarms])
        has_grey |= bool(np.isnan(ranks).any())
        has_colours |= not np.isnan(ranks).all()
        lines = [
            Line(swarm.name, dots=_dots(swarm), means=_means(output, player))
            for swarm, player in zip(swarms, players.tolist(), strict=True)
        ]
        has_means |= any(line.means for line in lines)
        alt = f"Values row by row, {output.output_names[0]}"
        unit = "← lowers the prediction · raises it →"
        ramp = "" if np.isnan(ranks).all() else _ramp()
        charts.append(ramp + chart(lines, alt=alt, unit=unit))

    which = "each row" if len(drawn) == rows else f"each of {len(drawn)} rows, evenly spaced"
    caption = (
        f"One dot for {which}. Right of the line, the feature raised the prediction; left of it, "
        "the feature lowered it."
    )
    if has_colours:
        caption += (
            " Blue dots are rows in which the feature itself is low, orange dots rows in which it "
            "is high."
        )
    if has_means:
        caption += " Categories are grey, with upright lines at their means."
    elif has_grey and has_colours:
        caption += " Dots without a number are grey."
    return _figure("Which way, row by row", outputs, charts, caption)


def _means(output: Explanation, player: int) -> list[tuple[float, str]]:
    """Return the mean of each category and its words, the lowest first; none without any."""
    means = views.category_means(output, player, MEANS)
    places = decimals(mean_sizes(output))
    return sorted(
        (float(f"{mean:.4g}"), f"{name} {format_number(mean, places, sign=True)}")
        for name, mean in means.items()
    )


def _dots(swarm: views.Swarm) -> dict[str, list[float]]:
    """Return a swarm's dots by their colour, in few shades and few letters."""
    by_colour: dict[str, list[float]] = {}
    shades = np.round(swarm.ranks * SHADES) / SHADES
    for value, offset, shade in zip(swarm.values, swarm.offsets, shades, strict=True):
        numbers = by_colour.setdefault(rank_colour(shade), [])
        numbers += (float(f"{value:.4g}"), float(f"{offset:.3g}"))
    return by_colour


def _ramp() -> str:
    """Return the meaning of the dots' colours."""
    shades = [rank_colour(shade / SHADES) for shade in range(SHADES + 1)]
    boxes = [
        f'<rect x="{12 * at}" width="12" height="10" fill="{c}"/>' for at, c in enumerate(shades)
    ]
    width = 12 * len(shades)
    ramp = f'<svg width="{width}" height="10" aria-hidden="true">{"".join(boxes)}</svg>'
    return f'<p class="ramp"><span>feature is low</span>{ramp}<span>feature is high</span></p>'


def _pairs_figure(outputs: Sequence[Explanation]) -> Figure:
    """Return the charts of the pairs of features that act together most."""
    charts = []
    names = outputs[0].feature_names
    for output in outputs:
        strengths = pair_sizes(output)
        order = np.argsort(-strengths, axis=None, kind="stable")[:MAX_PAIRS]
        pairs = [divmod(flat, len(names)) for flat in order.tolist() if strengths.flat[flat] > 0]
        sizes = [float(strengths[pair]) for pair in pairs]
        lines = [
            Line(f"{names[first]} {TIMES} {names[second]}", number=number, bar=(0.0, size))
            for (first, second), number, size in zip(
                pairs, format_numbers(sizes), sizes, strict=True
            )
        ]
        alt = f"Pairs of features that act together, {output.output_names[0]}"
        charts.append(chart(lines, alt=alt, unit="size of the interaction, on average"))
    caption = (
        "What two features add only together, up or down, on average over all rows: the "
        f"{MAX_PAIRS} largest pairs."
    )
    return _figure("Which features act together", outputs, charts, caption)


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
    columns = ("feature", *(plain(output.output_names[0]) for output in outputs))
    title = "All features, as a table: how far each moves each output on average"
    return Table(title, columns, tuple(rows), open=False)


def _feature_table(output: Explanation) -> Table:
    """Return the table of all features, the largest mean |value| first."""
    table = views.mean_table(output)
    intervals = any(views.known_intervals(table))
    places = decimals(table.values)
    rows = []
    for player in table.order.tolist():
        size = float(table.values[player])
        margin = table.upper[player] - size
        values = output.values[:, player]
        extremes = (values.mean(), values.min(), values.max())
        cells = [plain(table.feature_names[player]), format_number(size, places)]
        if intervals:
            cells.append(f"{margin:.1g}" if np.isfinite(margin) else "unknown")
        cells += (format_number(float(number), places, sign=True) for number in extremes)
        rows.append(tuple(cells))

    margin_column = ["± (95 %)"] if intervals else []
    columns = ("feature", "moves by", *margin_column, "mean", "lowest", "highest")
    return Table("All features, as a table", columns, tuple(rows), open=False)


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
        sentences.append(f"{which} on this page ({size}).")
    else:
        sentences.append(
            f"{held.rows:,} of the {rows:,} rows, evenly spaced, are on this page ({size}), to "
            "keep it small enough to send."
        )
    return Section("rows", "Row by row", (" ".join(sentences),), html=held.html)


def _any_intervals(outputs: Sequence[Explanation]) -> bool:
    return any((views.margins(output) > 0).any() for output in outputs)


# What the numbers mean, and how they were made


def interval_meaning(outputs: Sequence[Explanation]) -> str:
    """Return what intervals say, or how sure the values are without any."""
    if not _any_intervals(outputs):
        return f"**Certainty.** {certainty(outputs)}"
    return (
        "**Intervals.** The values are estimates. If the model is smooth, about 95 of 100 "
        "intervals contain the exact Shapley value of this model, row and background; if it "
        "jumps, fewer do. The documentation has measurements, under “How precise is it?”. "
        "Intervals do not show whether the model is right."
    )


def _reading_section(outputs: Sequence[Explanation], result: Result) -> Section:
    text = (
        "**Base value.** What the model predicts with every feature replaced by the background: "
        f"{result.background}.",
        "**Value.** A feature's Shapley value is its contribution to the difference between the "
        "base value and the row's prediction, in the units of the prediction: what it adds when "
        "it joins the others, averaged over all orders in which features can join. A row's "
        "values add up to the prediction less the base value.",
        interval_meaning(outputs),
        "**Background.** Another background gives other values. A feature that has the same value "
        "as the background gets almost 0, even if the model relies on it for other rows.",
        "**Mixed rows.** The model is evaluated on mixtures of the row and the background. If "
        "features depend on each other, some of these never occur in practice, and the values "
        "also reflect what the model returns there.",
        "**Not causes.** The values show how the model used its inputs, not what would happen in "
        "the world if a feature changed.",
    )
    return Section("reading", "What the numbers mean", text, open=False)


def making_section(result: Result, facts: Mapping[str, Any]) -> Section:
    """Return what the values cost, and what is needed to compute them again."""
    explanation = result.explanation
    spent = f"{explanation.evaluations:,} model evaluations"
    if explanation.row_evaluations is not None:
        mean = explanation.row_evaluations.mean()
        spent = f"{mean:,.0f} model evaluations on average, {explanation.evaluations:,} at most,"
    gap = float(np.abs(explanation.gap).max())
    adds_up = "The values of every row add up to its prediction."
    if gap > ROUNDING * np.abs(explanation.values).max(initial=0.0):
        adds_up = f"The values of a row miss its prediction by at most {gap:.2g} (the gap)."
    text = [
        f"`{explanation.method}` spent {spent} on each row, base value and prediction included. "
        + adds_up,
        "The same command gives the same values: the seed decides every random choice. All "
        "numbers, with standard errors, are in the file beside this page, and the facts below in "
        "its metadata if it is Parquet."
        if "command" in facts
        else "The same call gives the same values: the seed decides every random choice.",
    ]
    if explanation.converged is not None and not explanation.converged.all():
        missed = int((~explanation.converged).sum())
        text.append(
            f"{part_of(missed, len(explanation), 'row').capitalize()} did not reach the "
            "requested standard error within the budget."
        )
    lines = _facts(explanation, result, facts)
    return Section("making", "How it was made", tuple(text), open=False, facts=lines)


def _facts(
    explanation: Explanation, result: Result, facts: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return the facts of how it was made, without those that would be empty."""
    outputs = ", ".join(explanation.output_names)
    scale = explanation.scale or facts.get("scale") or "what the model returns"
    cost = f"{explanation.evaluations:,} evaluations per row at most"
    model = explanation.model or ""
    if result.model:
        model = f"{result.model} ({model})" if model else result.model
    of_file = f" of {facts['data']}" if "data" in facts else ""
    lines = {
        "Command": f"`{facts['command']}`" if "command" in facts else "",
        "Model": plain(model),
        "Rows": plain(f"{len(explanation):,}{of_file}"),
        "Row id": plain(result.id_column or ""),
        "Background": plain(result.background),
        "Outputs": plain(f"{outputs}; scale: {scale}"),
        "Groups": plain(_group_words(facts.get("groups") or explanation.groups or {})),
        "Not used": plain(", ".join(result.extra_columns)),
        "Method": f"{explanation.method}, {cost}, seed {explanation.seed}",
        "Versions": ", ".join(
            f"{name} {version}" for name, version in explanation.versions.items()
        ),
    }
    return tuple((name, line) for name, line in lines.items() if line)


def _group_words(groups: Mapping[str, Any]) -> str:
    """Return groups in words, with the groups within a group in brackets."""
    words = []
    for name, inside in groups.items():
        if isinstance(inside, Mapping):
            words.append(f"{name} ({_group_words(inside)})")
        else:
            words.append(name if inside is None else f"{name}: {', '.join(inside)}")
    return "; ".join(words)
