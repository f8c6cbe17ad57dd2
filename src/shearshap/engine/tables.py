"""Batches of data engines: the rows in them, and the tables of values that come back.

An engine such as Ray Data, Spark or Dask passes each batch in a form of its own, and wants a table
whose columns and types it knows before the first batch.

    batch                            rows
    a frame, a record batch          its columns, in the order of the sample
    {"a": array (n,), ...}           the same
    {"data": array (n, *shape)}      the array, if the sample was one
    an array, a tensor               itself

    values    the ids, if there are any; then the columns of `Explanation.to_frame(wide=True)`
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from shearshap.data.frames import FrameLayout, aligned, as_frame, column_labels, matrix
from shearshap.errors import InputError
from shearshap.result.explanation import Explanation

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of_sample(rows: Any, index: Any, trained: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the columns of a sample, but for that of the labels; None: an array.

    If the model was `trained` with named columns, those of an array are theirs.
    """
    frame = None if isinstance(rows, tuple) else as_frame(rows, "rows")
    if frame is None:
        return tuple(trained) or None
    return tuple(name for name in frame.columns if name != index)


def rows_of_batch(batch: Any, columns: Sequence[str] | None, ids: "pa.Field | None") -> Any:
    """Return the rows of a batch with the columns of the sample, and the ids.

    `columns` are None if the sample was an array.
    """
    if isinstance(batch, np.ndarray | Tensor):
        return batch
    given = _table(batch)
    frame = None if isinstance(given, np.ndarray) else as_frame(given, "batch")
    if frame is None and not isinstance(given, np.ndarray):
        raise InputError(
            "batch: expected a frame, a record batch, a mapping from names to arrays, or an array; "
            f"got {type(batch).__name__}"
        )
    if frame is None or not len(frame):
        return given
    if columns is None:
        return matrix(frame, "batch")
    wanted = columns if ids is None else (ids.name, *columns)
    ordered = aligned(frame, wanted, "batch")
    return FrameLayout(wanted, column_labels(given, "batch")).native(ordered)


def _table(batch: Any) -> Any:
    """Return a batch as a table, or as the array that is all of it."""
    import pyarrow as pa

    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if not isinstance(batch, Mapping):
        return batch
    arrays = {str(name): np.asarray(column) for name, column in batch.items()}
    if len(arrays) == 1 and next(iter(arrays.values())).ndim > 1:
        return next(iter(arrays.values()))
    try:
        return pa.table(
            {
                name: pa.array(each, from_pandas=each.dtype == object)
                for name, each in arrays.items()
            }
        )
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"batch: the arrays are no columns of a table: {error}") from error


# Values


def id_field(rows: Any, name: str) -> "pa.Field":
    """Return the column of ids of a table of values, in a type that holds those of all batches."""
    import pyarrow as pa

    kind = _column(rows, name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        kind = pa.decimal128(38, kind.scale)
    is_text = pa.types.is_large_string(kind) or pa.types.is_null(kind) or "view" in str(kind)
    return pa.field(name, pa.string() if is_text else kind)


def _column(rows: Any, name: str) -> "pa.Array | pa.ChunkedArray":
    frame = as_frame(rows, "rows")
    if frame is None or name not in frame.columns:
        raise InputError(f"index: expected the name of a column of the rows, got {name!r}")
    return frame[name].to_arrow()


def values_schema(explanation: Explanation, ids: "pa.Field | None") -> "pa.Schema":
    """Return the columns of a table of values, and their types."""
    import pyarrow as pa

    own = list(explanation[:0].to_frame("pyarrow", wide=True).schema)[1:]
    return pa.schema(own if ids is None else [_named_apart(ids, own), *own])


def _named_apart(ids: "pa.Field", others: "Sequence[pa.Field]") -> "pa.Field":
    """Return the column of ids, called row if its name is that of another."""
    return ids.with_name("row") if ids.name in {each.name for each in others} else ids


def values_table(
    explanation: Explanation, rows: Any, ids: "pa.Field | None", schema: "pa.Schema"
) -> "pa.Table":
    """Return a line for each row, with the ids that are among the columns of the rows."""
    import pyarrow as pa

    columns = explanation.to_frame("pyarrow", wide=True).columns[1:]
    if ids is not None:
        try:
            columns = [_column(rows, ids.name).cast(ids.type), *columns]
        except pa.ArrowException as error:
            raise InputError(
                f"batch: column {ids.name!r} cannot become {ids.type}, as in the sample: {error}"
            ) from error
    return pa.table(columns, schema=schema)
