"""All rows of an explained file, as data in its page, which a script pages, sorts and searches.

The file of values may have any size; the page has a bound. As many rows as fit are in it, each with
its largest features. Numbers are whole multiples of a small unit, which takes few letters, and rows
lie in blocks, so that a browser reads only those that are looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.apps.report.page import data_element
from shearshap.apps.report.result import Result
from shearshap.apps.report.summary import moved_output
from shearshap.result import views
from shearshap.result.cells import are_classes, label_text
from shearshap.result.explanation import Explanation
from shearshap.result.text import cell_content

MAX_BYTES = 8_000_000  #: of the data of all rows; the rest of a page is below 2 MB
MAX_FEATURES = 12  #: of a row
BLOCK = 500  #: rows that are read at once
UNITS = 1e4  #: in the power of ten of the largest value: the digits that are kept
MAX_EXTRA_COLUMNS = 6  #: columns shown beside a row that the model was not given
MAX_LETTERS = 80  #: letters of a cell
NO_SCRIPT = "<noscript>Single rows need JavaScript.</noscript>"
STEP_BYTES = 20  #: of a feature of a row, about

Texts = dict[str, int]  #: the numbers of texts, each once


@dataclass(frozen=True)
class RowData:
    """The markup of all rows, and how many it holds."""

    html: str
    rows: int
    bytes: int


def row_data(outputs: Sequence[Explanation], result: Result) -> RowData:
    """Return the rows as markup: data, and the place where the script shows them."""
    rows = len(outputs[0])
    fitting = MAX_BYTES // (len(outputs) * (MAX_FEATURES + 3) * STEP_BYTES)
    places = views.evenly_spaced(rows, fitting)
    data = _data(outputs, result, places)
    # cells of many letters take more room than was expected
    while len(data.encode()) > MAX_BYTES and len(places) > 1:
        fitting = int(0.9 * len(places) * MAX_BYTES / len(data.encode()))
        places = views.evenly_spaced(rows, max(1, fitting))
        data = _data(outputs, result, places)

    html = f'<div data-rows class="rows">{NO_SCRIPT}</div>\n{data}'
    return RowData(html, len(places), len(data.encode()))


def _data(outputs: Sequence[Explanation], result: Result, places: NDArray[np.int64]) -> str:
    """Return some of the rows as elements of data: an index of all, and block after block."""
    index = data_element(_index(outputs, result, places), "rows-index")
    blocks = [
        data_element(_block(outputs, result, part), "rows-block")
        for part in np.split(places, range(BLOCK, len(places), BLOCK))
    ]
    return "\n".join([index, *blocks])


# The data


def _index(
    outputs: Sequence[Explanation], result: Result, places: NDArray[np.int64]
) -> dict[str, Any]:
    """Return what all rows have in common, and their labels and predictions to sort by."""
    first = outputs[0]
    predictions = np.stack([output.predictions for output in outputs], axis=1)
    return {
        "label": first.index_name if isinstance(first.index_name, str) else "row",
        "features": first.feature_names,
        "outputs": [output.output_names[0] for output in outputs],
        "shown": [moved_output(output).removeprefix("the model's ") for output in outputs],
        "classes": len(outputs) > 1 and are_classes(predictions),
        "aside": result.extra_columns[:MAX_EXTRA_COLUMNS],
        "block": BLOCK,
        "units": [_unit(output.values) for output in outputs],
        "labels": [label_text(first.index[place]) for place in places.tolist()],
        "predictions": [_short(output.predictions[places]) for output in outputs],
        "bases": [_short(output.base_values[places]) for output in outputs],
    }


def _unit(values: NDArray[np.float64]) -> float:
    """Return the number that values are written as multiples of."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return 1.0
    return float(f"{10.0 ** np.floor(np.log10(largest)) / UNITS:.6g}")


def _short(numbers: NDArray[np.float64]) -> list[float]:
    """Return numbers to six digits."""
    return [float(f"{number:.6g}") for number in numbers]


def _block(
    outputs: Sequence[Explanation], result: Result, places: NDArray[np.int64]
) -> dict[str, Any]:
    """Return the largest features of some rows, and what the rows hold there.

    A row is, for each output, [sum of the others, gap, feature, value, cell, margin, feature, ...].
    Cells are numbers of texts.
    """
    texts: Texts = {}
    cells = _cells(result, places, texts)
    # the unit is that of all rows, whatever the largest value of a block is
    by_output = [_steps(output[places], _unit(output.values), texts) for output in outputs]
    rows = [[steps[at] for steps in by_output] for at in range(len(places))]
    return {"rows": rows, "aside": cells, "texts": list(texts)}


def _number(text: str, texts: Texts) -> int:
    short = text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 1]}…"
    return texts.setdefault(short, len(texts))


def _cells(result: Result, places: NDArray[np.int64], texts: Texts) -> list[list[int]]:
    """Return the rows' cells in columns that the model was not given, as numbers of texts."""
    if result.data is None:
        return []
    taken = result.data.select(result.extra_columns[:MAX_EXTRA_COLUMNS]).take(places)
    columns = [
        [_number(label_text(cell), texts) for cell in column.to_pylist()] for column in taken
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _steps(output: Explanation, unit: float, texts: Texts) -> list[list[int]]:
    """Return for each row its largest features, as the script takes them."""
    values = output.values
    players = values.shape[1]
    shown = players if players == MAX_FEATURES + 1 else min(MAX_FEATURES, players)
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :shown]

    margins = np.nan_to_num(views.margins(output))
    others = values.sum(axis=1) - np.take_along_axis(values, order, axis=1).sum(axis=1)
    gaps = output.gap
    rows = []
    for row, largest in enumerate(order.tolist()):
        steps = [round(float(others[row]) / unit), round(float(gaps[row]) / unit)]
        for player in largest:
            cell = _number(cell_content(output, row, player), texts)
            value = round(float(values[row, player]) / unit)
            margin = round(float(margins[row, player]) / unit)
            steps += (player, value, cell, margin)
        rows.append(steps)
    return rows
