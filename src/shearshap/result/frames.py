"""Explanations as tables of pandas, polars and pyarrow."""

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.cells import has_places, is_missing, padding

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Columns = dict[str, Any]  #: arrays or lists of one length, by the names of the columns


# One line for each row, player and output


def tidy(explanation: "Explanation", backend: str) -> Any:
    """Return a line for each row, player and output, in this order."""
    shape = _full_shape(explanation)
    row, player, output = np.indices(shape).reshape(3, -1)
    rows, _, outputs = shape
    columns: Columns = {
        "row": _labels(explanation)[row],
        "output": _objects(explanation.output_names)[output],
        "feature": _objects(explanation.feature_names)[player],
        "value": explanation.values.reshape(-1),
        "standard_error": _errors(explanation).reshape(-1),
    }
    if explanation.display_data is not None:
        texts = [as_text(value) for value in explanation.display_data[row, player]]
        columns["data"] = _objects(texts)
    elif explanation.data is not None:
        columns["data"] = explanation.data[row, player]
    if explanation.starts is not None and explanation.ends is not None:
        columns["start"] = explanation.starts[row, player]
        columns["end"] = explanation.ends[row, player]
    columns["base_value"] = explanation.base_values.reshape(rows, outputs)[row, output]
    columns["prediction"] = explanation.predictions.reshape(rows, outputs)[row, output]
    if explanation.texts is not None:
        columns = _of_texts(explanation, columns, row, player, output)
    return table(columns, backend)


def _of_texts(
    explanation: "Explanation",
    columns: Columns,
    row: NDArray[np.int64],
    player: NDArray[np.int64],
    output: NDArray[np.int64],
) -> Columns:
    """Return columns without parts that a text lacks; a part without a name is called by its text.

    What is explained of an answer is a column of its own.
    """
    exists = ~padding(explanation)[row, player]
    if has_places(explanation) and explanation.display_data is not None:
        columns["feature"] = explanation.display_data[row, player]
    if explanation.answers is not None:
        answers = explanation.answers.reshape(len(explanation), -1)[row, output]
        columns["answer"] = answers
        exists &= answers != ""
    return {name: column[exists] for name, column in columns.items()}


def pairs(explanation: "Explanation", backend: str) -> Any:
    """Return a line for each row, pair of players and output, in this order.

    Each pair has one line. With 3 players the pairs are

        0 0   0 1   0 2   1 1   1 2   2 2

    where 0 0, 1 1 and 2 2 are the main effects. The lines of a row and output so add up to
    prediction - base value.
    """
    interactions = explanation.interactions
    if interactions is None:
        raise InputError(
            "to_frame: the explanation has no interactions; explain with interactions=True"
        )
    rows, players, outputs = _full_shape(explanation)
    first, second = np.triu_indices(players)
    row, pair, output = np.indices((rows, len(first), outputs)).reshape(3, -1)
    names = _objects(explanation.feature_names)
    columns = {
        "row": _labels(explanation)[row],
        "output": _objects(explanation.output_names)[output],
        "feature": names[first[pair]],
        "other": names[second[pair]],
        "value": interactions[:, first, second].reshape(-1),
    }
    errors = explanation.interaction_errors
    unknown = np.full(len(row), np.nan)
    columns["standard_error"] = unknown if errors is None else errors[:, first, second].reshape(-1)
    return table(columns, backend)


def sets(explanation: "Explanation", backend: str) -> Any:
    """Return a line for each row, set of players and output, in this order.

    The names of the players of a set are joined: "age x income x city".
    """
    assert explanation.set_values is not None, "there are interactions of more than two players"
    assert explanation.set_errors is not None, "they come together"
    rows, _, outputs = _full_shape(explanation)
    members = explanation.interaction_sets
    row, place, output = np.indices((rows, len(members), outputs)).reshape(3, -1)
    names = [" x ".join(explanation.feature_names[player] for player in one) for one in members]
    columns = {
        "row": _labels(explanation)[row],
        "output": _objects(explanation.output_names)[output],
        "size": np.array([len(one) for one in members])[place],
        "features": _objects(names)[place],
        "value": explanation.set_values.reshape(-1),
        "standard_error": explanation.set_errors.reshape(-1),
    }
    return table(columns, backend)


def _full_shape(explanation: "Explanation") -> tuple[int, int, int]:
    """Return the numbers of rows, players and outputs."""
    return (*explanation.values.shape[:2], len(explanation.output_names))


# One line for each row


def wide(explanation: "Explanation", backend: str) -> Any:
    """Return one line for each row; pandas has the labels as its index, others as first column."""
    columns = _wide_columns(explanation)
    if backend == "pandas":
        return table(columns, backend).set_axis(_pandas_index(explanation), axis="index")

    name = explanation.index_name
    if not isinstance(name, str) or name in columns:
        name = "row"
    return table({name: _labels(explanation)} | columns, backend)


def _wide_columns(explanation: "Explanation") -> Columns:
    """Return base_value, prediction, gap, evaluations, converged, value.* and standard_error.*."""
    from shearshap.result.explanation import spent_evaluations

    columns = _named_columns("base_value", [""], explanation.base_values, explanation)
    columns |= _named_columns("prediction", [""], explanation.predictions, explanation)
    columns |= _named_columns("gap", [""], explanation.gap, explanation)
    columns["evaluations"] = spent_evaluations(explanation)
    if explanation.converged is not None:
        columns["converged"] = explanation.converged
    players = _middles(explanation.feature_names)
    columns |= _named_columns("value", players, explanation.values, explanation)
    columns |= _named_columns("standard_error", players, _errors(explanation), explanation)
    return columns


def _middles(feature_names: list[str]) -> list[str]:
    """Return the players in the names of columns, each of them once."""
    counts = Counter(feature_names)
    return [
        f".{name} ({player})" if counts[name] > 1 else f".{name}"
        for player, name in enumerate(feature_names)
    ]


def _named_columns(
    what: str, middles: list[str], array: NDArray[Any], explanation: "Explanation"
) -> Columns:
    """Return a column for each output, and each player if the array has them, by their names.

    One output needs no ending.
    """
    several = explanation.values.ndim == 3
    endings = [f".{name}" for name in explanation.output_names] if several else [""]
    whole = array.reshape(len(explanation), len(middles), len(endings))
    columns = {
        f"{what}{middle}{ending}": whole[:, player, output]
        for output, ending in enumerate(endings)
        for player, middle in enumerate(middles)
    }
    if len(columns) < len(middles) * len(endings):
        raise InputError("to_frame: two columns would have the same name; rename an output")
    return columns


# Back to arrays


def wide_arrays(
    table: Any, feature_names: list[str], output_names: list[str]
) -> dict[str, NDArray[Any]]:
    """Return the arrays that `wide` made columns of a pyarrow table of, by their fields."""
    several = "base_value" not in table.column_names
    endings = [f".{name}" for name in output_names] if several else [""]

    def array(what: str, middles: list[str]) -> NDArray[Any]:
        columns = [
            table[f"{what}{middle}{ending}"].to_numpy() for middle in middles for ending in endings
        ]
        whole = np.stack(columns, axis=1).reshape(len(table), len(middles), len(endings))
        return whole if several else whole[:, :, 0]

    players = _middles(feature_names)
    arrays = {
        "base_values": array("base_value", [""])[:, 0],
        "predictions": array("prediction", [""])[:, 0],
        "row_evaluations": table["evaluations"].to_numpy(),
        "values": array("value", players),
        "standard_errors": array("standard_error", players),
    }
    if "converged" in table.column_names:
        arrays["converged"] = table["converged"].to_numpy()
    return arrays


def pair_matrices(table: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the interactions that `pairs` or `sets` made lines of a pyarrow table of.

    `shape` is that of the values: (r, p) or (r, p, k).
    """
    rows, players, *outputs = shape
    first, second = np.triu_indices(players)
    values = table["value"].to_numpy()
    if "size" in table.column_names:  # single players, and then pairs
        values = values[table["size"].to_numpy() <= 2]
        single, pair = np.arange(players), np.triu_indices(players, k=1)
        first, second = np.append(single, pair[0]), np.append(single, pair[1])
    values = values.reshape(rows, len(first), *outputs)
    matrices = np.empty((rows, players, players, *outputs))
    matrices[:, first, second] = values
    matrices[:, second, first] = values
    return matrices


# Columns


def table(columns: Columns, backend: str) -> Any:
    """Return columns as a table of a library; a NaN is a missing number there."""
    if backend not in ("pandas", "polars", "pyarrow"):
        raise InputError(f"backend: expected pandas, polars or pyarrow, got {backend!r}")
    try:
        library = import_module(backend)
    except ImportError as error:
        raise InputError(f"backend={backend!r} is not installed: pip install {backend}") from error
    if not len(next(iter(columns.values()))):
        return _table_of_none(columns, backend)
    # texts as a list, which every library takes
    listed = {
        name: column.tolist() if column.dtype.kind in "OUS" else column
        for name, column in columns.items()
    }
    if backend == "pandas":
        return library.DataFrame(listed)
    if backend == "polars":
        return library.DataFrame(listed, nan_to_null=True)
    arrays = {
        name: library.array(column, from_pandas=isinstance(column, np.ndarray))
        for name, column in listed.items()
    }
    return library.table(arrays)


def _table_of_none(columns: Columns, backend: str) -> Any:
    """Return columns without a line as a table, in the types that they have with lines."""
    line = {
        name: _objects([""]) if column.dtype.kind in "OUS" else np.zeros(1, column.dtype)
        for name, column in columns.items()
    }
    return table(line, backend)[:0]


def _labels(explanation: "Explanation") -> NDArray[Any]:
    """Return the rows' labels as a column holds them: tuples and mixed kinds as text."""
    labels = explanation.index
    if labels.dtype.kind != "O":
        return labels
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and tuple not in kinds:
        return labels
    return _objects([as_text(label) for label in labels])


def _pandas_index(explanation: "Explanation") -> Any:
    """Return the rows' labels as an index of pandas; tuples make one of several levels."""
    import pandas as pd

    labels = explanation.index
    name = explanation.index_name
    if not len(labels) or not all(isinstance(label, tuple) for label in labels):
        return pd.Index(labels, name=name)
    return pd.MultiIndex.from_tuples(labels, names=name if isinstance(name, tuple) else None)


def _errors(explanation: "Explanation") -> NDArray[np.float64]:
    """Return the standard errors, NaN if there are none."""
    if explanation.standard_errors is None:
        return np.full(explanation.values.shape, np.nan)
    return explanation.standard_errors


def _objects(texts: list[Any]) -> NDArray[np.object_]:
    return np.array(texts, dtype=object)


def as_text(value: Any) -> str | None:
    """Return a value as people read it, None if it is missing."""
    return None if is_missing(value) else str(value)
