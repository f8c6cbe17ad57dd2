"""Results as text: numbers as people read them, the first rows of an explanation, and tables.

    decimals([0.012, 4.57])                  2
    format_number(4.5678, 2)                 4.57
    format_number(-0.01234, 2, sign=True)    −0.01
    format_estimate(4.5678, 0.25, 2)         +4.57 ± 0.25
    format_end(0.4274, [120.0, -31.0])       0.427

A line of an explanation's table adds up from its base value to its prediction:

    row   base value   age     hours   5 others   prediction
    a             10   +3.0     -1.0       +0.5         12.5
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from math import ceil, floor, log10
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shearshap.result.cells import is_missing, label_text

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation
    from shearshap.result.importance import Importance

Floats = NDArray[np.float64]

MINUS = "\N{MINUS SIGN}"
MAX_DIGITS = 9  #: of a base value or prediction, before and after the point
NEAR = 0.6  #: of difflib's ratio of equal letters: "sheer" is near "shear", "foo" near nothing
LISTED = 40  #: names that a message lists
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


def format_end(number: float, values: ArrayLike) -> str:
    """Return a base value or prediction as text: three digits of its own, or more.

    It has as many decimals as the values that lead from one to the other if those are more, so that
    small steps from a large number can be followed.
    """
    return format_number(number, end_decimals(number, values))


def end_decimals(number: float, values: ArrayLike) -> int | None:
    """Return the decimals of a base value or prediction beside the values of its row."""
    own = decimals(number)
    steps = decimals(values)
    if steps is None:
        return own
    if own is None:
        is_large = 1 <= abs(number) < 10**MAX_DIGITS
        return 0 if is_large else None

    before_point = floor(log10(abs(number))) + 1 if number else 1
    room = MAX_DIGITS - max(1, before_point)
    return max(own, min(steps, room))


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
    """Return a message about a name that is not known, where it was looked for.

    no_such("method", "sheer", METHODS) is "there is no method 'sheer'; did you mean 'shear'? There
    are: auto, exact, ...".
    """
    names = ", ".join(known[:LISTED])
    if len(known) > LISTED:
        names += f" and {len(known) - LISTED} more"
    missing = f"there is no {what} {name!r}"
    if where is not None:
        missing += f" in {where}"
    near = nearest(name, known)
    if near is None:
        return f"{missing}; there are: {names}"
    return f"{missing}; did you mean {near!r}? There are: {names}"


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that a user may have meant, or None if none is near."""
    by_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower()[:100], by_letters, n=1, cutoff=NEAR)
    return by_letters[near[0]] if near else None


# The first rows of an explanation


@dataclass(frozen=True)
class Cell:
    """A number of a line, and what it stands for."""

    number: float
    text: str  #: the number as people read it
    content: str = ""  #: what the player holds in the row
    error: float | None = None  #: the standard error; None if it is not known


@dataclass(frozen=True)
class Line:
    """A row's part of the table, for one output."""

    label: str
    output: str
    base: str
    prediction: str
    cells: tuple[Cell, ...]  #: of the columns in `FirstRows.names`


@dataclass(frozen=True)
class FirstRows:
    """The first rows of an explanation, as lines of a table."""

    names: tuple[str, ...]  #: of the columns: players, "5 others", "gap"
    lines: tuple[Line, ...]
    rows: int  #: how many rows the table has
    rows_left: int  #: how many rows it leaves out
    outputs_left: int
    span: tuple[float, float]  #: the smallest and the largest number of all cells, or 0

    @property
    def has_outputs(self) -> bool:
        """Whether there are lines for several outputs."""
        return len({line.output for line in self.lines}) > 1

    @property
    def left_out(self) -> str:
        """What the table leaves out, in words; "" if nothing."""
        left = {"more row": self.rows_left, "more output": self.outputs_left}
        return " and ".join(counted(number, noun) for noun, number in left.items() if number)

    @property
    def largest_error(self) -> float | None:
        """The largest standard error of a value; None if none is known."""
        errors = [cell.error for line in self.lines for cell in line.cells]
        known = [error for error in errors if error is not None]
        return max(known, default=None)


def first_rows(explanation: "Explanation", *, rows: int = 5, players: int = 5) -> FirstRows:
    """Return the first rows, each with the players that are largest among them."""
    outputs = min(len(explanation.output_names), MAX_LINES // 2)
    if outputs > 1:
        rows = min(rows, MAX_LINES // outputs)
    part = explanation[:rows]
    bases = _by_output(part.base_values, 1, outputs)
    predictions = _by_output(part.predictions, 1, outputs)
    ends = decimals(np.concatenate((bases, predictions)))

    table = _Table.from_explanation(part, players, outputs)
    lines = [
        Line(
            str(part.index[row]),
            explanation.output_names[output],
            format_number(float(bases[row, output]), ends),
            format_number(float(predictions[row, output]), ends),
            table.cells(row, output),
        )
        for row in range(len(part))
        for output in range(outputs)
    ]
    return FirstRows(
        table.names,
        tuple(lines),
        len(part),
        len(explanation) - len(part),
        len(explanation.output_names) - outputs,
        (float(table.numbers.min(initial=0.0)), float(table.numbers.max(initial=0.0))),
    )


def _by_output(array: Floats, axes: int, outputs: int) -> Floats:
    """Return an array of the first outputs, with an axis of outputs if there was none."""
    whole = array[..., None] if array.ndim == axes else array
    return whole[..., :outputs]


@dataclass(frozen=True)
class _Table:
    """The numbers of the first rows, and where they come from."""

    part: "Explanation"
    shown: NDArray[np.int64]  #: the players that have a column of their own, the first columns
    names: tuple[str, ...]  #: of the columns
    numbers: Floats  #: (r, columns, k)
    places: int | None  #: decimals

    @classmethod
    def from_explanation(cls, part: "Explanation", players: int, outputs: int) -> "_Table":
        """Return the table of the largest players; the others are one column, and the gap."""
        values = _by_output(part.values, 2, outputs)
        sizes = np.abs(values).sum(axis=(0, 2))
        order = np.argsort(-sizes, kind="stable")
        # "1 others" would take the same room as the player, and say less
        shown = order if len(order) <= players + 1 else order[:players]
        others = order[len(shown) :]

        columns = [values[:, player] for player in shown]
        names = [part.feature_names[player] for player in shown]
        if len(others):
            columns.append(values[:, others].sum(axis=1))
            names.append(f"{len(others):,} others")

        numbers = np.stack(columns, axis=1)
        places = decimals(numbers)
        gap = _by_output(part.gap, 1, outputs)
        largest = float(np.abs(numbers).max(initial=0.0))
        if np.abs(gap).max(initial=0.0) >= smallest_shown(largest, places):
            numbers = np.concatenate((numbers, gap[:, None]), axis=1)
            names.append("gap")
        return cls(part, shown, tuple(names), numbers, places)

    def cells(self, row: int, output: int) -> tuple[Cell, ...]:
        """Return the cells of a line."""
        numbers = self.numbers[row, :, output].tolist()
        return tuple(self._cell(row, output, column, each) for column, each in enumerate(numbers))

    def _cell(self, row: int, output: int, column: int, number: float) -> Cell:
        text = format_number(number, self.places, sign=True)
        if column >= len(self.shown):
            return Cell(number, text)
        player = int(self.shown[column])
        content = cell_content(self.part, row, player)
        return Cell(number, text, content, self._error(row, player, output))

    def _error(self, row: int, player: int, output: int) -> float | None:
        errors = self.part.standard_errors
        if errors is None:
            return None
        error = float(errors[row, player] if errors.ndim == 2 else errors[row, player, output])
        return error if np.isfinite(error) else None


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
    """Return a text of at most so many letters; a longer one has an ellipsis after two thirds."""
    if len(text) <= letters:
        return text
    head = ceil(2 * (letters - 1) / 3)
    tail = letters - 1 - head
    return f"{text[:head].rstrip()}…{text[len(text) - tail :].lstrip()}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "1 row" or "2 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# Tables for terminals


def explanation_text(explanation: "Explanation") -> str:
    """Return an explanation's one line, and its first rows as a table that fits the terminal."""
    width = _width()
    table = ""
    for players in range(8, 0, -1):
        view = first_rows(explanation, players=players)
        table = _aligned(_cells(view), left=2 if view.has_outputs else 1)
        if max(map(len, table.splitlines())) <= width:
            break
    below = _below(view)
    return "\n".join([repr(explanation), "", table, *below])


def _cells(view: FirstRows) -> list[list[str]]:
    """Return the table's cells, its head first."""
    outputs = view.has_outputs
    head = ["row", *(["output"] if outputs else []), "base value", *view.names, "prediction"]
    body = []
    before = None
    for line in view.lines:
        label = "" if outputs and line.label == before else shortened(line.label, LETTERS)
        before = line.label
        output = [shortened(line.output, LETTERS)] if outputs else []
        numbers = [cell.text for cell in line.cells]
        body.append([label, *output, line.base, *numbers, line.prediction])
    return [*_two_lines(head), *body]


def _two_lines(names: list[str]) -> list[list[str]]:
    """Return the head of a table in one line or two, where long names are broken at a joint."""
    broken = [_broken(name) for name in names]
    upper = [first for first, _ in broken]
    lower = [second for _, second in broken]
    return [upper, lower] if any(upper) else [lower]


def _broken(name: str) -> tuple[str, str]:
    """Return a name in two lines, the first of them empty if one is enough."""
    if len(name) <= LETTERS:
        return "", name
    joints = [joint.end() for joint in re.finditer(rf" |{JOINT.pattern}", name)]
    if not joints:
        return "", shortened(name, LETTERS)
    middle = min(joints, key=lambda place: abs(place - len(name) / 2))
    first = name[:middle].rstrip()
    return shortened(first, LETTERS), shortened(name[middle:], LETTERS)


def _below(view: FirstRows) -> list[str]:
    """Return what is to be said below the table."""
    lines = [f"... and {view.left_out}"] if view.left_out else []
    error = view.largest_error
    if error is not None and error > 0:
        lines.append(f"standard errors of these values: at most {error:.2g}")
    return lines


def importance_text(table: "Importance") -> str:
    """Return the most important players, a line each, with intervals."""
    top = table.top(MAX_FEATURES)
    numbers = top.full(top.values)
    lower = top.full(top.lower)
    upper = top.full(top.upper)
    places = decimals(numbers)

    def interval(low: float, high: float) -> str:
        if not np.isfinite(high):
            return "unknown"
        return f"{format_number(low, places)} to {format_number(high, places)}"

    several_outputs = len(table.output_names) > 1
    head = [
        "feature",
        *(["cohort"] if table.cohorts is not None else []),
        *(["output"] if several_outputs else []),
        table.kind,
        f"{100 * table.level:g} % interval",
    ]
    body = []
    for player, name in enumerate(top.feature_names):
        for cohort in range(len(table.rows)):
            for output in range(len(table.output_names)):
                at = (cohort, player, output)
                line = ["" if cohort or output else shortened(name, 32)]
                if table.cohorts is not None:
                    line.append("" if output else shortened(table.cohorts[cohort], 32))
                if several_outputs:
                    line.append(shortened(table.output_names[output], LETTERS))
                line.append(format_number(float(numbers[at]), places, sign=not table.sizes))
                line.append(interval(float(lower[at]), float(upper[at])))
                body.append(line)

    text = _aligned([head, *body], left=len(head) - 2)
    left_out = len(table) - len(top)
    below = [f"... and {left_out:,} more features"] if left_out else []
    below.append(table.interval_words)
    return "\n".join([repr(table), "", text, *below])


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


def _width() -> int:
    """Return how many letters a line of the terminal has; a fixed number if there is none."""
    try:
        if sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):
        pass
    return WIDTH
