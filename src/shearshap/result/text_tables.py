"""Results as tables of text, for terminals and `print`."""

import os
import re
import sys
from typing import TYPE_CHECKING

import numpy as np

from shearshap.result.digits import decimals, format_number
from shearshap.result.first_rows import JOINT, FirstRows, count_of, first_rows, shortened
from shearshap.result.importance import Importance

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

WIDTH = 80  #: letters of a line where there is no terminal
LETTERS = 14  #: of a line of a name, at most
MOST_PLAYERS = 10  #: lines of a table of importance


def explanation_text(explanation: "Explanation") -> str:
    """Return an explanation's one line, and its first rows as a table that fits the terminal."""
    width = _width()
    table = ""
    for players in range(8, 0, -1):
        view = first_rows(explanation, players=players)
        table = _aligned(_cells(view), left=_left_columns(view))
        if max(map(len, table.splitlines())) <= width:
            break
    below = _below(view)
    return "\n".join([repr(explanation), "", table, *below])


def _left_columns(view: FirstRows) -> int:
    return 2 if _has_outputs(view) else 1


def _has_outputs(view: FirstRows) -> bool:
    return len({line.output for line in view.lines}) > 1


def _cells(view: FirstRows) -> list[list[str]]:
    """Return the table's cells, its head first."""
    outputs = _has_outputs(view)
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
    """Return a name in two lines, the first of them empty where one is enough."""
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
    lines = []
    left = []
    if view.rows_left:
        left.append(f"{count_of(view.rows_left, ('more row', 'more rows'))}")
    if view.outputs_left:
        left.append(f"{count_of(view.outputs_left, ('more output', 'more outputs'))}")
    if left:
        lines.append(f"... and {' and '.join(left)}")
    error = view.largest_error
    if error is not None and error > 0:
        lines.append(f"standard errors of these values: at most {error:.2g}")
    return lines


def importance_text(table: Importance) -> str:
    """Return the most important players, a line each, with intervals."""
    top = table.top(MOST_PLAYERS)
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
        "player",
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
    below = [f"... and {left_out:,} more players"] if left_out else []
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
    """Return how many letters a line of the terminal has; a fixed number where there is none."""
    try:
        if sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):
        pass
    return WIDTH
