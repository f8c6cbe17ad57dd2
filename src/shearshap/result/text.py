"""Results as text: numbers as people read them, the first rows of an explanation, and tables.

    decimals([0.012, 4.57])                  2
    format_number(4.5678, 2)                 4.57
    format_number(-0.01234, 2, sign=True)    −0.01
    format_numbers([4.5678, 0.01])           4.57, 0.01
    format_estimate(4.5678, 0.25, 2)         +4.57 ± 0.25
    format_end(0.4274, [120.0, -31.0])       0.427

A line of an explanation's table adds up from its base value to its prediction:

    row   base value   age     hours   5 others   prediction
    a             10   +3.0     -1.0       +0.5         12.5
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.resources import files
from itertools import compress
from math import ceil, floor, log10
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shearshap.result import axes
from shearshap.result.cells import (
    MAX_OUTPUTS,
    has_classes,
    is_missing,
    label_text,
    mirrors,
    predicted_outputs,
    without_mirror,
)

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation
    from shearshap.result.importance import Importance

MINUS = "\N{MINUS SIGN}"
MAX_DIGITS = 9  #: of a base value or prediction, before and after the point
NEAR = 0.6  #: of difflib's ratio of equal letters: "sheer" is near "shear", "foo" near nothing
MAX_LISTED = 40  #: names that a message lists
MAX_LINES = 8  #: of a table of several outputs
WIDTH = 80  #: letters of a line if there is no terminal
LETTERS = 14  #: of a line of a name, at most
MAX_FEATURES = 10  #: lines of a table of importance

#: where a long name may be broken: after a sign that joins two words (customer_|lifetime_|value),
#: between a small letter and a capital (monthly|Income), and before a bracket
JOINT = re.compile(r"(?<=[_\-./:,;=+&|)\]])(?=[^\W_])|(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])|(?<=\w)(?=[(\[])")


# Numbers


def decimals(numbers: ArrayLike) -> int | None:
    """Return the decimals that show three digits of the largest number.

    None stands for powers of ten: the largest number is too small or too large for decimals.
    """
    largest = float(np.abs(np.asarray(numbers)).max(initial=0.0))
    if largest == 0:
        return 0
    if not 1e-4 <= largest < 1e7:
        return None
    return max(0, 2 - floor(log10(largest)))


def format_number(number: float, places: int | None, *, sign: bool = False) -> str:
    """Return a number with this many decimals, or as three digits and a power of ten."""
    plus = "+" if sign else ""
    if places is None:
        text = f"{number + 0.0:{plus}.3g}"  # adding 0.0 turns -0.0 into 0.0
    else:
        rounded = round(number, places) + 0.0
        text = f"{rounded:{plus},.{places}f}"
    return true_minus(text)


def format_numbers(numbers: ArrayLike, *, sign: bool = False) -> list[str]:
    """Return numbers with the decimals that the largest of them needs."""
    places = decimals(numbers)
    return [format_number(float(number), places, sign=sign) for number in np.ravel(numbers)]


def format_end(number: float, values: ArrayLike) -> str:
    """Return a base value or prediction as text: three digits of its own, or more.

    It has as many decimals as the values that lead from one to the other if those are more, so that
    small steps from a large number can be followed.
    """
    if abs(number) < 1e-9 * np.abs(np.asarray(values)).max(initial=0.0):
        number = 0.0  # up to rounding
    own = decimals(number)
    steps = decimals(values)
    if own is None and steps is not None and 1 <= abs(number) < 10**MAX_DIGITS:
        own = 0  # a large number is written in full beside steps that are
    if own is None or steps is None:
        return format_number(number, own)
    before_point = floor(log10(abs(number))) + 1 if number else 1
    room = MAX_DIGITS - max(1, before_point)
    return format_number(number, max(own, min(steps, room)))


def format_estimate(number: float, margin: float, places: int | None) -> str:
    """Return a signed number ± its margin; without a margin that rounds to 0 or is NaN."""
    text = format_number(number, places, sign=True)
    if margin >= smallest_shown(number, places):
        text += f" ± {format_number(margin, places)}"
    return text


def smallest_shown(number: float, places: int | None) -> float:
    """Return the smallest size that does not round to 0 beside a number with this many decimals."""
    return 1e-3 * abs(number) if places is None else 0.5 * 10**-places


def digits_script() -> str:
    """Return the same rules as JavaScript: `digits.decimals`, `digits.format` and others."""
    return (files("shearshap") / "digits.js").read_text(encoding="utf-8")


def true_minus(text: str) -> str:
    """Return a number's text with minus signs in place of hyphens."""
    return text.replace("-", MINUS)


# Names that are not known


def no_such(what: str, name: str, known: Sequence[str], *, where: object = None) -> str:
    """Return a message about a name that is not known, and the place that lacks it.

    no_such("method", "sheer", METHODS) is "there is no method 'sheer'; did you mean 'shear'? There
    are: auto, exact, ...".
    """
    names = ", ".join(known[:MAX_LISTED])
    if len(known) > MAX_LISTED:
        names += f" and {len(known) - MAX_LISTED} more"
    missing = f"there is no {what} {name!r}"
    if where is not None:
        missing += f" in {where}"
    by_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower()[:100], by_letters, n=1, cutoff=NEAR)
    if not near:
        return f"{missing}; there are: {names}"
    return f"{missing}; did you mean {by_letters[near[0]]!r}? There are: {names}"


# What was explained


def output_text(name: str, scale: str | None) -> str:
    """Return an output and its scale in words: P(yes), log-odds of yes, margin of yes, or yes.

    It is "" if neither is known.
    """
    known = "" if name == "output" else name
    if scale is None:
        return known
    if not known:
        return scale
    if known.isdigit():
        known = f"class {known}"
    return f"P({known})" if scale == "probability" else f"{scale} of {known}"


def against(explanation: "Explanation") -> str:
    """Return what rows are compared with, "against 100 background rows"; "" if it is not known."""
    return f"against {explanation.background}" if explanation.background else ""


def question(explanation: "Explanation") -> str:
    """Return the model, the output that is shown and the background in a line; "" if unknown.

    For example "XGBClassifier: P(churn), against 100 of 1,500 background rows".
    """
    shown = without_mirror(explanation)
    count = len(shown.output_names)
    name = shown.output_names[0]
    if shown.answers is not None:
        name = "an answer"
    elif count > MAX_OUTPUTS:
        name = f"highest of {count} outputs"
    elif count > 1:
        name = f"{count} outputs"
    if has_classes(shown):
        name = "predicted class"
    output = output_text(name, explanation.scale)
    subject = ": ".join(filter(None, (explanation.model, output)))
    return ", ".join(filter(None, (subject, against(explanation))))


# The first rows of an explanation


@dataclass(frozen=True)
class Cell:
    """A number of a line, and what it stands for."""

    number: float
    text: str  #: the number as people read it
    content: str = ""  #: what the player holds in the row
    error: float = 0.0  #: the standard error; 0 if it is not known


@dataclass(frozen=True)
class Line:
    """A row's part of the table, for one output."""

    label: str  #: of the row; "" on all but the first of its lines
    output: str
    base: str
    prediction: str
    cells: tuple[Cell, ...]  #: of the columns in `FirstRows.names`


@dataclass(frozen=True)
class FirstRows:
    """The first rows of an explanation, as lines of a table."""

    names: tuple[str, ...]  #: of the columns: players, "5 others", "gap"
    lines: tuple[Line, ...]
    has_outputs: bool  #: whether there are lines for several outputs
    left_out: str  #: what the table leaves out, in words; "" if nothing

    @property
    def cells(self) -> list[Cell]:
        """The cells of all lines."""
        return [cell for line in self.lines for cell in line.cells]


def first_rows(explanation: "Explanation", *, rows: int = 5, players: int = 5) -> FirstRows:
    """Return the first rows, each with the players that are largest among them."""
    explanation = without_mirror(explanation)
    first = explanation[:rows]
    predicted = predicted_outputs(explanation)
    if predicted is not None:
        parts = [replace(first, **axes.of_output(first, predicted[:rows]), output_names=["output"])]
        names_of_outputs = [[explanation.output_names[number]] for number in predicted[:rows]]
    else:
        shown_outputs = explanation.output_names[:MAX_OUTPUTS]
        if len(shown_outputs) > 1:
            first = explanation[: min(rows, MAX_LINES // len(shown_outputs))]
        parts = [first.output(number) for number in range(len(shown_outputs))]
        names_of_outputs = [shown_outputs] * len(first)

    values = np.stack([part.values for part in parts], axis=2)  # (r, p, k)
    order = np.argsort(-np.abs(values).sum(axis=(0, 2)), kind="stable")
    # "1 others" would take the same room as the player, and say less
    shown = order if len(order) <= players + 1 else order[:players]
    others = order[len(shown) :]
    names = [explanation.feature_names[player] for player in shown]
    columns = [values[:, player] for player in shown]
    if len(others):
        names.append(f"{len(others):,} others")
        columns.append(values[:, others].sum(axis=1))

    largest = float(np.abs(columns).max(initial=0.0))
    places = decimals(largest)
    gap = np.stack([part.gap for part in parts], axis=1)
    if np.abs(gap).max(initial=0.0) >= smallest_shown(largest, places):
        names.append("gap")
        columns.append(gap)

    ends = decimals([(part.base_values, part.predictions) for part in parts])
    lines = [
        Line(
            "" if output else str(part.index[row]),
            names_of_outputs[row][output],
            format_number(float(part.base_values[row]), ends),
            format_number(float(part.predictions[row]), ends),
            _cells(part, row, shown, [float(column[row, output]) for column in columns], places),
        )
        for row in range(len(first))
        for output, part in enumerate(parts)
    ]
    more = len(explanation) - len(first)
    left_out = counted(more, "more row") if more else ""
    has_outputs = len(explanation.output_names) > 1
    return FirstRows(tuple(names), tuple(lines), has_outputs, left_out)


def _cells(
    part: "Explanation",
    row: int,
    shown: NDArray[np.int64],
    numbers: list[float],
    places: int | None,
) -> tuple[Cell, ...]:
    """Return the cells of a row: of the players that are shown, of the others, and the gap."""
    texts = [format_number(number, places, sign=True) for number in numbers]
    cells = [Cell(number, text) for number, text in zip(numbers, texts, strict=True)]
    for column, player in enumerate(shown.tolist()):
        content = cell_content(part, row, player)
        error = 0.0 if part.standard_errors is None else float(part.standard_errors[row, player])
        known = error if np.isfinite(error) else 0.0
        cells[column] = Cell(numbers[column], texts[column], content, known)
    return tuple(cells)


def cell_content(explanation: "Explanation", row: int, player: int) -> str:
    """Return what a player holds in a row, as people read it; "" if that is not known.

    It is not known if a player's `data` have no number in any row: the player may be a group of
    several inputs.
    """
    if explanation.display_data is not None:
        return _cell_text(explanation.display_data[row, player])
    if explanation.data is None or np.isnan(explanation.data[:, player]).all():
        return ""
    return _cell_text(explanation.data[row, player])


def _cell_text(content: object) -> str:
    if isinstance(content, float | np.floating) and not is_missing(content):
        # four digits; but a large number is not rounded to a power of ten
        number = float(content)
        whole = 1e4 <= abs(number) < 1e10
        return true_minus(f"{number:,.0f}" if whole else f"{content:.4g}")
    return label_text(content)


def shortened(text: str, letters: int) -> str:
    """Shorten a text to a number of letters, with an ellipsis after two thirds."""
    if len(text) <= letters:
        return text
    head = ceil(2 * (letters - 1) / 3)
    tail = letters - 1 - head
    return f"{text[:head].rstrip()}…{text[len(text) - tail :].lstrip()}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "1 row" or "2 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def part_of(some: int, count: int, noun: str) -> str:
    """Return how many of all are meant, "3 of 40 rows", or "the row" if there is one only."""
    return f"the {noun}" if count == 1 else f"{some:,} of {count:,} {noun}s"


# Tables for terminals


def explanation_text(explanation: "Explanation") -> str:
    """Return an explanation's one line, and its first rows as a table that fits the terminal."""
    above = list(filter(None, (repr(explanation), question(explanation))))
    if explanation.game is not None:
        missing = wrap(explanation.missing_errors, WIDTH)
        return "\n".join([*above, ends_text(explanation), "", game_text(explanation), *missing])
    from shearshap.result.passages import are_passages, passages_text

    if are_passages(explanation):
        missing = wrap(explanation.missing_errors, WIDTH)
        return "\n".join([*above, "", passages_text(explanation), *missing])
    width = get_terminal_size((WIDTH, 24)).columns
    table = ""
    for players in range(8, 0, -1):
        view = first_rows(explanation, players=players)
        table = _first_rows_text(view)
        if max(map(len, table.splitlines())) <= width:
            break

    below = [f"... and {view.left_out}"] if view.left_out else []
    error = max((cell.error for cell in view.cells), default=0.0)
    if error > 0:
        below.append(f"largest standard error shown: {error:.2g}")
    # what standard errors do not count belongs beside them; warnings have shown the other notes
    about_errors = [note for note in explanation.notes if note.startswith("Standard errors")]
    about_errors += filter(None, [explanation.missing_errors])
    below += [line for note in about_errors for line in wrap(note, width)]
    return "\n".join([*above, "", table, *below])


def _first_rows_text(view: FirstRows) -> str:
    """Return the first rows as a table, with a column of outputs if there are several."""
    names = ["row", "output", "base value", *view.names, "prediction"]
    upper, lower = (list(line) for line in zip(*map(_two_lines, names), strict=True))
    lines = [upper, lower] if any(upper) else [lower]
    for line in view.lines:
        numbers = [cell.text for cell in line.cells]
        label, output = (shortened(word, LETTERS) for word in (line.label, line.output))
        lines.append([label, output, line.base, *numbers, line.prediction])
    if view.has_outputs:
        return _aligned(lines, left=2)
    return _aligned([[label, *rest] for label, _, *rest in lines], left=1)


def _two_lines(name: str) -> tuple[str, str]:
    """Return a name in two lines, broken near its middle; "" and the name if one is enough."""
    joints = [joint.end() for joint in re.finditer(rf" |{JOINT.pattern}", name)]
    if len(name) <= LETTERS or not joints:
        return "", shortened(name, LETTERS)
    middle = min(joints, key=lambda place: abs(place - len(name) / 2))
    return shortened(name[:middle].rstrip(), LETTERS), shortened(name[middle:], LETTERS)


@dataclass(frozen=True)
class Mean:
    """A line of a table of importance: a feature's mean in a cohort, for an output."""

    cohort: str
    output: str
    size: float
    low: float
    high: float
    text: str  #: the mean as people read it
    interval: str  #: "0.1 to 0.3"


def importance_rows(table: "Importance") -> list[tuple[str, list[Mean]]]:
    """Return the most important features, and for each its means by cohort and output."""
    top = without_mirrored_means(table).top(MAX_FEATURES)
    places = decimals(top.values)
    arrays = [top.full(array) for array in (top.values, top.lower, top.upper)]
    cohorts = top.cohorts or [""]

    def mean(cohort: int, player: int, output: int) -> Mean:
        size, low, high = (float(array[cohort, player, output]) for array in arrays)
        text = format_number(size, places, sign=not top.sizes)
        interval = f"{format_number(low, places)} to {format_number(high, places)}"
        if not np.isfinite(high):
            interval = "unknown"
        return Mean(cohorts[cohort], top.output_names[output], size, low, high, text, interval)

    return [
        (name, [mean(g, player, k) for g in range(len(cohorts)) for k in range(arrays[0].shape[2])])
        for player, name in enumerate(top.feature_names)
    ]


def without_mirrored_means(table: "Importance") -> "Importance":
    """Return a table of the second of two outputs that mirror each other; else of all."""
    means = table.full(table.values)
    if means.shape[2] != 2 or not mirrors(
        (-1 if table.sizes else 1) * means[..., 0], means[..., 1]
    ):
        return table
    return replace(
        table,
        values=table.values[..., 1],
        standard_errors=table.standard_errors[..., 1],
        lower=table.lower[..., 1],
        upper=table.upper[..., 1],
        output_names=table.output_names[1:],
    )


def importance_text(table: "Importance") -> str:
    """Return the most important features, a line each for every cohort and output."""
    table = without_mirrored_means(table)
    return "\n".join([repr(table), "", _means_text(table), table.interval_words])


def game_text(explanation: "Explanation") -> str:
    """Return the largest values of a game, a line each for every player and output."""
    assert explanation.game is not None, "an explanation of rows has no such table"
    return _means_text(explanation.mean(), explanation.game, "value")


def ends_text(explanation: "Explanation") -> str:
    """Return what no player of a game is worth, and all of them: "0.5 with none, 0.9 with all"."""
    outputs = [explanation.output(number) for number in range(len(explanation.output_names))]
    return ", ".join(
        f"{f'{part.output_names[0]}: ' if len(outputs) > 1 else ''}"
        f"{format_end(float(part.base_values[0]), part.values)} with none, "
        f"{format_end(float(part.predictions[0]), part.values)} with all"
        for part in outputs[:MAX_OUTPUTS]
    )


def _means_text(table: "Importance", noun: str = "feature", kind: str | None = None) -> str:
    """Return the lines of a table of importance; `kind` says what the numbers are."""
    interval = f"{100 * table.level:g} % interval"
    lines = [[noun, "cohort", "output", kind or table.kind, interval]]
    for name, means in importance_rows(table):
        before = ""
        for mean in means:
            cohort = "" if mean.cohort == before else shortened(mean.cohort, 32)
            before = mean.cohort
            feature = shortened(name, 32) if mean is means[0] else ""
            output = shortened(mean.output, LETTERS)
            lines.append([feature, cohort, output, mean.text, mean.interval])

    used = (True, table.cohorts is not None, len(table.output_names) > 1, True, True)
    text = _aligned([list(compress(line, used)) for line in lines], left=sum(used) - 2)
    left_out = max(0, len(table) - MAX_FEATURES)
    below = [f"... and {counted(left_out, f'more {noun}')}"] if left_out else []
    return "\n".join([text, *below])


def _aligned(cells: list[list[str]], left: int) -> str:
    """Return cells in columns, the first `left` of them aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join(lines)
