"""The page of an explanation alone: rows as in the report of a file, and texts in colours.

Of texts, each is shown with its parts in the colours of the output that is picked, and below it
are its parts, ranked, with intervals.
"""

from dataclasses import replace
from importlib.resources import files

import numpy as np

from shearshap.apps.report.explained import (
    features_section,
    interval_meaning,
    making_section,
    page,
    shown_outputs,
    warnings,
)
from shearshap.apps.report.page import Line, Page, Section, chart, resource
from shearshap.apps.report.result import Result
from shearshap.apps.report.summary import highlights, moved_output, plain
from shearshap.errors import InputError
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.explanation import Explanation
from shearshap.result.passages import View, are_passages, coloured_html
from shearshap.result.passages import views as text_views
from shearshap.result.text import counted, decimals, format_estimate, part_of, shortened

MAX_TEXTS = 200  #: in a page
MAX_COLOURS = 100_000  #: parts times outputs of all texts in a page, which take 60 letters each
RANKED = 12  #: parts in the chart of a text
LETTERS = 90  #: of a part in a chart


def explanation_page(explanation: Explanation, title: str | None) -> Page:
    """Return the report of an explanation of which no more is known than it says itself."""
    if explanation.game is not None or len(explanation) == 0:
        what = "no rows" if explanation.game is None else "a game"
        raise InputError(f"to_html: expected an explanation of rows or texts, got one of {what}")
    background = explanation.background or "the background"
    result = Result(explanation, None, "", background, tuple(explanation.feature_names))
    if are_passages(explanation):
        return _text_page(result, title)
    return page(result, {"title": title})


def _text_page(result: Result, title: str | None) -> Page:
    explanation = result.explanation
    outputs = _outputs(explanation)
    texts = "the text" if len(explanation) == 1 else counted(len(explanation), "text")
    moved = moved_output(outputs[0]) if len(outputs) == 1 else "the model's predictions"
    if explanation.answers is not None:
        moved = f"the {explanation.scale} of the answer"
    sections = [_texts_section(explanation)]
    if len(explanation) > 1:
        sections.append(features_section(outputs))
    sections += [_reading_section(outputs, result), making_section(result, {})]
    return Page(
        title=title or ("Why this answer?" if explanation.answers is not None else "Why?"),
        lead=(
            f"How much each part of {texts} moved {moved}, compared with "
            f"{plain(result.background)}.",
        ),
        sections=tuple(sections),
        standalone=True,
        highlights=tuple(highlights(outputs)),
        warnings=warnings(result),
        style=f"{_notebook_style()}\n{resource('texts.css')}",
    )


def _outputs(explanation: Explanation) -> list[Explanation]:
    """Return the outputs that all texts have, each with players that are the same in all texts."""
    if explanation.answers is not None:  # of several outputs, the first is the whole answer
        explanation = explanation.output(0)
    one = len(explanation) == 1
    alike = views.of_row(explanation, 0) if one else same_players(explanation)
    if one and alike.display_data is not None:
        pairs = zip(alike.feature_names, map(str, alike.display_data[0]), strict=True)
        names = [
            name if name == text else f"{name} (“{shortened(' '.join(text.split()), 60)}”)"
            for name, text in pairs
        ]
        alike = replace(alike, feature_names=names)
    # a word is in a text or not: its cells say no more than that
    return shown_outputs(replace(alike, display_data=None))[0]


def _notebook_style() -> str:
    return (files("shearshap.result") / "notebook.css").read_text(encoding="utf-8")


# Text by text


def _texts_section(explanation: Explanation) -> Section:
    count = len(explanation)
    shown = text_views(explanation, MAX_TEXTS)
    colours = np.cumsum([len(view.spans) * view.picked for view in shown])
    shown = shown[: max(1, int((colours <= MAX_COLOURS).sum()))]
    sentences = ["Orange parts raise the output, blue parts lower it; stronger colours mean more."]
    if max(view.picked for view in shown) > 1:
        sentences.append("Pick an output above a text to see its own colours.")
    if any(view.margins.any() for view in shown):
        sentences.append("Thin lines and ± are 95 % intervals.")
    if len(shown) < count:
        which = part_of(len(shown), count, "text")
        sentences.append(f"The first {which} are on this page, to keep it small enough to send.")
    html = f'<div class="shear">{coloured_html(shown, _ranked)}</div>'
    return Section("texts", "Text by text", (" ".join(sentences),), html=html)


def _ranked(view: View, output: int) -> str:
    """Return the chart of a text's largest parts."""
    values = view.values[:, output]
    margins = view.margins[:, output]
    order = views.largest(values, RANKED)
    places = decimals(values[order])
    lines = []
    for part in order.tolist():
        start, end = view.spans[part]
        piece = shortened(" ".join(view.text[start:end].split()), LETTERS)
        value = float(values[part])
        margin = float(margins[part])
        lines.append(
            Line(
                view.names[part] or piece,
                detail=piece if view.names[part] else "",
                number=format_estimate(value, margin, places),
                kind="raises" if value >= 0 else "lowers",
                bar=(0.0, value),
                whisker=(value - margin, value + margin) if margin > 0 else None,
            )
        )
    left = len(values) - len(order)
    rest = f"; {counted(left, 'smaller part')} not drawn" if left else ""
    unit = f"← lowers · raises →{rest}"
    return chart(lines, alt=f"Parts of text {view.label}, {view.outputs[output]}", unit=unit)


# What the numbers mean


def _reading_section(outputs: list[Explanation], result: Result) -> Section:
    text = (
        "**Base value.** What the model predicts with every part absent, compared with "
        f"{plain(result.background)}.",
        "**Value.** A part's Shapley value is its contribution to the difference between the "
        "base value and the prediction: what it adds when it joins the others, averaged over all "
        "orders in which parts can join. The values of a text add up to the prediction less the "
        "base value.",
        interval_meaning(outputs),
        "**About the model.** A part with a large value made the output higher, whether the output "
        "is true or not. Two parts that say the same share their value.",
    )
    return Section("reading", "What the numbers mean", text, open=False)
