"""The summary of an explanation, in sentences made from its numbers: the start of a report."""

from collections.abc import Sequence

import numpy as np

from shearshap.apps.report.result import ROUNDING
from shearshap.result import views
from shearshap.result.cells import are_classes
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import mean_sizes
from shearshap.result.text import counted, decimals, format_number, format_numbers, output_text

MAIN_SHARE = 2 / 3  #: of the movement, that the features named first account for
NAMED = 5  #: features named at most
DESCRIBED = 3  #: features whose direction is described
CLEAR = 0.5  #: rank correlation from which on "high raises" is said
MIN_ROWS = 5  #: fewer rows have no direction
CATEGORIES = 12  #: of a feature of words, whose means are compared
MEANS = 4  #: categories whose means are told, at most

WORDS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}  #: up to NAMED


def highlights(outputs: Sequence[Explanation]) -> list[str]:
    """Return the sentences of a summary, the most important first; `**name**` is bold.

    Each of the outputs is an explanation of one output. With several, the sizes of all count, and
    directions are left to the pictures.
    """
    sizes = sum_of_sizes(outputs)
    if sizes.max(initial=0.0) == 0:
        return ["No feature moves any prediction: all rows get the base value."]

    sentences = [_decisive(outputs[0].feature_names, sizes)]
    if len(outputs) == 1:
        sentences += _directions(outputs[0], views.largest(sizes, DESCRIBED))
        sentences.append(_range(outputs[0]))
    else:
        sentences.append(_by_output(outputs))
    sentences += _idle(outputs[0].feature_names, sizes)
    sentences += _pairs(outputs)
    sentences.append(certainty(outputs))
    return sentences


def sum_of_sizes(outputs: Sequence[Explanation]) -> Floats:
    """Return every feature's mean |value|, (p,), summed over the outputs."""
    return np.asarray(sum(mean_sizes(output) for output in outputs))


# Which features


def _decisive(names: Sequence[str], sizes: Floats) -> str:
    """Return the sentence about the features that account for most of the movement."""
    order = views.largest(sizes)
    parts = np.cumsum(sizes[order]) / sizes.sum()
    count = int(np.searchsorted(parts, MAIN_SHARE - 1e-12)) + 1
    subject = "One feature accounts" if count == 1 else f"{WORDS.get(count)} features account"
    if count > NAMED:
        count = NAMED
        subject = f"The {NAMED} largest features account"
    return (
        f"{subject} for {_percent(parts[count - 1])} of the total attribution: "
        f"{_listed([names[n] for n in order[:count]])}."
    )


def _idle(names: Sequence[str], sizes: Floats) -> list[str]:
    """Return the sentence about features that do nothing."""
    nothing = ROUNDING * sizes.max()
    idle = [name for name, size in zip(names, sizes, strict=True) if size <= nothing]
    if not idle:
        return []
    which = _listed(idle) if len(idle) <= NAMED else counted(len(idle), "feature")
    return [f"{which} {'has' if len(idle) == 1 else 'have'} no effect on any row."]


# Which way


def _directions(output: Explanation, players: views.Ints) -> list[str]:
    """Return the sentences that say which way the largest features move predictions."""
    if len(output) < MIN_ROWS:
        return []
    sentences = []
    for player in players.tolist():
        values = output.values[:, player]
        moves = np.ptp(values) > ROUNDING * np.abs(output.values).max()
        if not moves or not views.has_cells(output, player):
            continue
        column = views.column(output, player, CATEGORIES)
        name = f"**{_bold(output.feature_names[player])}**"
        if column.categories:
            sentences += _category_direction(name, column, values)
            continue
        correlation = _correlation(column.numbers, values)
        if abs(correlation) >= CLEAR:
            verb = "raises" if correlation > 0 else "lowers"
            sentences.append(f"High {name} {verb} the prediction.")
    return sentences


def _correlation(numbers: Floats, values: Floats) -> float:
    """Return the rank correlation of a feature with its values; above 0, high numbers raise."""
    known = np.isfinite(numbers)
    numbers = numbers[known]
    values = values[known]
    if len(numbers) < MIN_ROWS or np.ptp(numbers) == 0 or np.ptp(values) == 0:
        return 0.0
    from scipy.stats import spearmanr  # which takes a second: workers of a job need no report

    return float(spearmanr(numbers, values).statistic)


def _category_direction(name: str, column: views.Column, values: Floats) -> list[str]:
    """Return the sentence about the mean value of each category, or of the highest and lowest."""
    means = {
        category: float(values[column.numbers == number].mean())
        for number, category in enumerate(column.categories)
        if number != column.others
    }
    if len(means) < 2:
        return []
    places = decimals(values)
    ordered = sorted(means, key=lambda category: -means[category])
    parts = [f"“{plain(each)}” {format_number(means[each], places, sign=True)}" for each in ordered]
    if len(parts) > MEANS:
        left_out = counted(len(parts) - MEANS, "other")
        parts = [*parts[: MEANS // 2], f"{left_out} between", *parts[-MEANS // 2 :]]
    return [f"By {name}: {', '.join(parts)} on average."]


# How large


def _range(output: Explanation) -> str:
    """Return the sentence about the predictions and where they start."""
    predictions = output.predictions
    base = _own(float(output.base_values.mean()))
    name = named(output)
    if len(predictions) == 1:
        what = f"The {output.scale}{name.replace(' for', ' of', 1)}"
        if output.scale is None:
            what = f"The prediction{name}"
        return f"{what} is {_own(float(predictions[0]))}; it starts from {base}."
    numbers = [predictions.min(), predictions.max(), predictions.mean()]
    low, high, mean = format_numbers(numbers)
    return (
        f"The predictions{name} run from {low} to {high}, with a mean of {mean}. For the "
        f"background the model predicts {base}."
    )


def named(output: Explanation) -> str:
    """Return " for “yes”" if the output has a name, else ""."""
    name = output.output_names[0]
    return "" if name == "output" else f" for “{plain(name)}”"


def moved_output(output: Explanation) -> str:
    """Return what a feature moves: P(yes), or "the model's prediction for “yes”"."""
    if output.scale is not None:
        return plain(output_text(output.output_names[0], output.scale))
    return f"the model's prediction{named(output)}"


def _own(number: float) -> str:
    """Return a number rounded by its own size."""
    return format_numbers([number])[0]


def _by_output(outputs: Sequence[Explanation]) -> str:
    """Return the sentence about the outputs that most rows have as their highest."""
    predictions = np.stack([output.predictions for output in outputs], axis=1)
    names = [output.output_names[0] for output in outputs]
    if not are_classes(predictions):
        moved = [mean_sizes(output).sum() for output in outputs]
        most = names[int(np.argmax(moved))]
        return f"Of the {len(names)} outputs shown, **{_bold(most)}** moves most."

    counts = np.bincount(predictions.argmax(axis=1), minlength=len(names))
    order = np.argsort(-counts, kind="stable")[:DESCRIBED]
    parts = [
        f"**{_bold(names[n])}** for {_percent(counts[n] / counts.sum())} of the rows"
        for n in order
        if counts[n]
    ]
    return f"The model predicts {_joined(parts)}."


def _pairs(outputs: Sequence[Explanation]) -> list[str]:
    """Return the sentence about the pair of features that act together most."""
    if outputs[0].interactions is None or len(outputs[0].feature_names) < 2:
        return []
    strengths = pair_sizes(outputs[0])
    first, second = np.unravel_index(int(strengths.argmax()), strengths.shape)
    if strengths[first, second] <= ROUNDING * mean_sizes(outputs[0]).max():
        return ["No two features act together: each adds the same whatever the others are."]
    names = outputs[0].feature_names
    size = _own(float(strengths[first, second]))
    return [
        f"{_listed([names[first], names[second]])} act together most: what each does depends on "
        f"the other, by {size} per row on average."
    ]


def pair_sizes(output: Explanation) -> Floats:
    """Return the mean size of each pair's interaction, (p, p), once: above the diagonal."""
    assert output.interactions is not None
    return np.asarray(np.triu(np.abs(output.interactions).mean(axis=0), k=1))


# How sure


def certainty(outputs: Sequence[Explanation]) -> str:
    """Return the sentence about how far to trust the numbers."""
    method = outputs[0].method
    margins = [views.margins(output) for output in outputs]
    known = np.concatenate([margin[np.isfinite(margin)].ravel() for margin in margins])
    if known.size and known.max() > 0:
        margin = f"{known.mean():.2g}"
        largest = _own(float(max(mean_sizes(output).max() for output in outputs)))
        return (
            f"The values are estimates, accurate to about ±{margin} for a single row (95 % "
            f"intervals); the largest feature moves predictions by {largest} on average."
        )
    if set(method.split(", ")) == {"exact"}:
        return "The values are exact, up to rounding."
    errors = [output.standard_errors for output in outputs]
    if any(error is not None and np.isfinite(error).any() for error in errors):
        return "The standard errors are 0, up to rounding."
    return plain(outputs[0].missing_errors)


# Words


def _percent(part: float) -> str:
    """Return a part of 1 in percent, never rounded to nothing."""
    return "less than 1 %" if 0 < part < 0.01 else f"{100 * part:.0f} %"


def _listed(names: Sequence[str]) -> str:
    """Return names in bold, as a list in a sentence."""
    return _joined([f"**{_bold(name)}**" for name in names])


def _joined(parts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _bold(name: str) -> str:
    """Return a name that stands between the signs of bold text."""
    return plain(name).replace("*", "\N{ASTERISK OPERATOR}")


def plain(text: str) -> str:
    """Return a text in which a page marks up nothing."""
    text = text.replace("`", "\N{ACUTE ACCENT}")
    text = text.replace("**", "*\N{WORD JOINER}*")
    return text.replace("](", "]\N{WORD JOINER}(")
