"""Explanations as tables of pandas, polars and pyarrow."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.axes import declared
from shearshap.result.cells import is_missing

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Columns = dict[str, Any]  #: arrays or lists of one length, by the names of the columns


# One line for each row, player and output


def tidy(explanation: "Explanation", backend: str) -> Any:
    """Return a line for each row, player and output, in this order."""
    data = explanation.data
    if explanation.display_data is not None:
        texts = [as_text(value) for value in explanation.display_data.flat]
        data = np.array(texts, dtype=object).reshape(explanation.display_data.shape)

    columns = {
        "row": _spread(explanation, np.arange(len(explanation)), "r"),
        "output": _spread(explanation, _objects(explanation.output_names), "k"),
        "player": _spread(explanation, _objects(explanation.feature_names), "p"),
        "value": _spread_field(explanation, "values"),
        "standard_error": _spread(explanation, _errors(explanation), "rpk"),
        "data": None if data is None else _spread(explanation, data, "rp"),
        "base_value": _spread_field(explanation, "base_values"),
        "prediction": _spread_field(explanation, "predictions"),
    }
    columns["row"] = _labels(explanation)[columns["row"]]
    return table({name: column for name, column in columns.items() if column is not None}, backend)


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
    rows, players = interactions.shape[:2]
    first, second = np.triu_indices(players)
    outputs = len(explanation.output_names)
    shape = (rows, len(first), outputs)

    row, pair, output = np.indices(shape).reshape(3, -1)
    names = _objects(explanation.feature_names)
    columns = {
        "row": _labels(explanation)[row],
        "output": _objects(explanation.output_names)[output],
        "player": names[first[pair]],
        "other": names[second[pair]],
        "value": interactions[:, first, second].reshape(-1),
    }
    return table(columns, backend)


def _spread_field(explanation: "Explanation", name: str) -> NDArray[Any]:
    letters = declared(explanation)[name].letters
    return _spread(explanation, getattr(explanation, name), letters)


def _spread(explanation: "Explanation", array: NDArray[Any], letters: str) -> NDArray[Any]:
    """Return an array with some of the axes r, p and k, repeated along the others, flat.

    Of 2 rows and 2 players, with axes "r" and "p":

        [a, b] -> [a, a, b, b]        [x, y] -> [x, y, x, y]
    """
    shape = {
        "r": len(explanation),
        "p": len(explanation.feature_names),
        "k": len(explanation.output_names),
    }
    lengths = [size if letter in letters else 1 for letter, size in shape.items()]
    return np.broadcast_to(array.reshape(lengths), tuple(shape.values())).reshape(-1)


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
    evaluations = explanation.row_evaluations
    if evaluations is None:
        evaluations = np.full(len(explanation), explanation.evaluations)

    columns = (
        _by_output("base_value", explanation.base_values, explanation)
        | _by_output("prediction", explanation.predictions, explanation)
        | _by_output("gap", explanation.gap, explanation)
        | {"evaluations": evaluations}
    )
    if explanation.converged is not None:
        columns["converged"] = explanation.converged
    columns |= _by_player("value", explanation.values, explanation)
    columns |= _by_player("standard_error", _errors(explanation), explanation)
    return columns


def _by_output(what: str, array: NDArray[Any], explanation: "Explanation") -> Columns:
    """Return a column for each output of an array (r,) or (r, k)."""
    endings = _endings(explanation)
    by_output = array.reshape(len(explanation), len(endings))
    return {what + ending: by_output[:, number] for number, ending in enumerate(endings)}


def _by_player(what: str, array: NDArray[Any], explanation: "Explanation") -> Columns:
    """Return a column for each output and player of an array (r, p) or (r, p, k)."""
    endings = _endings(explanation)
    by_output = array.reshape(*array.shape[:2], len(endings))
    return {
        f"{what}.{name}{ending}": by_output[:, player, number]
        for number, ending in enumerate(endings)
        for player, name in enumerate(_column_names(explanation))
    }


def _column_names(explanation: "Explanation") -> list[str]:
    """Return the players' names, with their numbers if two have the same name."""
    names = explanation.feature_names
    counts = Counter(names)
    return [f"{name} ({player})" if counts[name] > 1 else name for player, name in enumerate(names)]


def _endings(explanation: "Explanation") -> list[str]:
    """Return what the columns of each output end in; one output needs no ending.

    Outputs go by number if their names would make two columns the same: value.a.b.c may be
    output "c" of player "a.b", or output "b.c" of player "a".
    """
    if explanation.values.ndim == 2:
        return [""]
    players = _column_names(explanation)
    outputs = explanation.output_names
    columns = {f"{player}.{output}" for player in players for output in outputs}
    if len(columns) == len(players) * len(outputs):
        return [f".{output}" for output in outputs]
    return [f".{number}" for number in range(len(outputs))]


# Columns


def table(columns: Columns, backend: str) -> Any:
    """Return columns as a table of a library."""
    import narwhals as nw

    if backend not in ("pandas", "polars", "pyarrow"):
        raise InputError(f"backend: wanted pandas, polars or pyarrow, got {backend!r}")
    if backend == "pyarrow":
        return _pyarrow_table(columns)
    listed = {name: _listed(column) for name, column in columns.items()}
    floats = [name for name, column in columns.items() if column.dtype == float]
    try:
        made = nw.from_dict(listed, backend=backend)  # type: ignore[arg-type]
    except ImportError as error:
        raise _not_installed(backend) from error
    # NaN is a number to polars; a missing one is null
    return made.with_columns(nw.col(*floats).fill_nan(None)).to_native()


def _pyarrow_table(columns: Columns) -> Any:
    """Return columns as a table of pyarrow.

    It is made at once: setting column after column copies the list of all each time.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise _not_installed("pyarrow") from error
    arrays = {
        # NaN is a number to pyarrow; from pandas, it is a missing one
        name: pa.array(_listed(column), from_pandas=column.dtype == float)
        for name, column in columns.items()
    }
    return pa.table(arrays)


def _not_installed(backend: str) -> InputError:
    return InputError(f"backend={backend!r} is not installed: pip install {backend}")


def _listed(column: NDArray[Any]) -> Any:
    """Return a column as every library takes it: texts as a list."""
    return column.tolist() if column.dtype.kind in "OUS" else column


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
