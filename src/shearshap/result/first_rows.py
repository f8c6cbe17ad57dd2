"""The first rows of an explanation, with their largest players: what its tables show.

A line of the table adds up from its base value to its prediction:

    row   base value   age     hours   5 others   prediction
    a             10   +3.0     -1.0       +0.5         12.5
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shearshap.result.digits import decimals, format_number, smallest_shown, true_minus
from shearshap.result.labels import is_missing, label_text

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Floats = NDArray[np.float64]

MOST_LINES = 8
"""Lines of a table of several outputs, at most."""

#: where a long name may be broken: after a sign that joins two words (customer_|lifetime_|value),
#: between a small letter and a capital (monthly|Income), and before a bracket
JOINT = re.compile(r"(?<=[_\-./:,;=+&|)\]])(?=[^\W_])|(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])|(?<=\w)(?=[(\[])")


@dataclass(frozen=True)
class Cell:
    """A number of a line, and what it stands for."""

    number: float
    text: str  #: the number as people read it
    content: str = ""  #: what the player holds in the row
    error: float | None = None  #: the standard error; None where it is not known


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
    def largest_error(self) -> float | None:
        """The largest standard error of a value; None where none is known."""
        errors = [cell.error for line in self.lines for cell in line.cells]
        known = [error for error in errors if error is not None]
        return max(known, default=None)


def first_rows(explanation: "Explanation", *, rows: int = 5, players: int = 5) -> FirstRows:
    """Return the first rows, each with the players that are largest among them."""
    outputs = min(len(explanation.output_names), MOST_LINES // 2)
    if outputs > 1:
        rows = min(rows, MOST_LINES // outputs)
    part = explanation[:rows]
    bases = _by_output(part.base_values, 1, outputs)
    predictions = _by_output(part.predictions, 1, outputs)
    ends = decimals(np.concatenate((bases, predictions)))

    table = _Table.of(part, players, outputs)
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
    """Return an array of the first outputs, with an axis of outputs where there was none."""
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
    def of(cls, part: "Explanation", players: int, outputs: int) -> "_Table":
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
    """Return a text of at most so many letters, with dots in the middle of a longer one."""
    if len(text) <= letters:
        return text
    start = (letters - 1) // 2
    return f"{text[:start]}…{text[len(text) - (letters - 1 - start) :]}"


def count_of(number: int, words: Sequence[str]) -> str:
    """Return a number with its noun, ("row", "rows")."""
    return f"{number:,} {words[0] if number == 1 else words[1]}"
