"""Tables in files: CSV and Parquet in, the rows as a model takes them, and explanations out."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.engine.store import written_whole
from shearshap.errors import InputError
from shearshap.explanation import Explanation

if TYPE_CHECKING:
    import pyarrow as pa

READ, WRITTEN = (".csv", ".parquet", ".pq"), (".parquet", ".pq", ".csv")
METADATA = b"shearshap"  #: the key of the facts, as JSON, in a Parquet file's metadata
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands in a CSV file for a missing value: the same words as in pandas, by which most models'
data were read.
"""
SEPARATORS = {
    ";": "semicolons",
    "\t": "tabs",
    "|": "bars",
}  #: of files that are called CSV all the same


def check_in(path: Path, what: str) -> None:
    """Raise where there is no table that could be read, before any work is done."""
    if path.suffix.lower() not in READ:
        raise InputError(f"{what}: wanted a file that ends in {', '.join(READ)}, got {path}")
    if not path.is_file():
        raise InputError(f"{what}: there is no file {path}")


def read(path: Path, what: str, *, text: Collection[str] = ()) -> "pa.Table":
    """Read a table from a CSV or Parquet file; `text` are the columns that hold text, whatever it
    looks like.
    """
    check_in(path, what)
    import pyarrow as pa

    try:
        table = (
            _read_csv(path, what, text) if path.suffix.lower() == ".csv" else _read_parquet(path)
        )
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{what}: {path} cannot be read: {error}") from error
    return _checked(table, path, what)


def _read_parquet(path: Path) -> "pa.Table":
    """Read a Parquet file, without the nameless index that pandas may have left in it."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        table = file.read().replace_schema_metadata(None)
    kept = [
        at for at, name in enumerate(table.column_names) if not name.startswith("__index_level_")
    ]
    return table.select(kept)


def _read_csv(path: Path, what: str, text: Collection[str]) -> "pa.Table":
    """Read a CSV file: whole and other numbers, True and False, and text; a date is text, as it
    stands there.
    """
    import pyarrow as pa
    from pyarrow import csv

    def table(words: Collection[str]) -> "pa.Table":
        convert = csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            column_types=dict.fromkeys(words, pa.string()),
        )
        return csv.read_csv(
            path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=convert
        )

    _check_header(path, what)
    found = table(())
    for field in found.schema:
        if pa.types.is_binary(field.type):
            raise InputError(
                f"{what}: column {field.name!r} of {path} is not UTF-8 text; save the file as UTF-8"
            )
    words = {*text, *(field.name for field in found.schema if pa.types.is_temporal(field.type))}
    return table(words) if words else found


def _check_header(path: Path, what: str) -> None:
    """Raise where the first line shows that a file is in another encoding, or separated by other
    marks.
    """
    with path.open("rb") as file:
        line = file.readline()
    try:
        header = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what}: the header of {path} is not UTF-8 text; save the file as UTF-8"
        ) from error
    other = next((told for mark, told in SEPARATORS.items() if mark in header), None)
    if other and "," not in header:
        raise InputError(
            f"{what}: the header of {path} is one column with {other} in its name; save the file "
            "with commas between "
            "the columns, or as Parquet"
        )


def _checked(table: "pa.Table", path: Path, what: str) -> "pa.Table":
    names = table.column_names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"{what}: column {doubled!r} stands twice in {path}")
    if not names or not len(table):
        raise InputError(f"{what}: there are no rows in {path}")
    return table


def without_index(table: "pa.Table") -> "pa.Table":
    """Return a table without its first column where that has no name, as an index written by pandas
    has none.
    """
    first, *others = table.column_names
    return table.select(others) if others and not first else table


def chosen(table: "pa.Table", columns: Sequence[str], path: Path) -> "pa.Table":
    """Return the columns named, in that order, decimals as floating numbers; raise where one is
    missing or nested.
    """
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        more = (
            f" ({len(missing)} of {len(columns)} are: {', '.join(missing[:8])})"
            if len(missing) > 1
            else ""
        )
        raise InputError(
            f"column {missing[0]!r} is missing from {path}{more}; the model takes "
            f"{', '.join(columns[:12])}"
            f"{', ...' if len(columns) > 12 else ''}"
        )
    import pyarrow as pa

    return pa.table({name: _plain(table[name], name, path) for name in columns})


def _plain(column: "pa.ChunkedArray", name: str, path: Path) -> "pa.ChunkedArray":
    """Return a column that holds one number, text, truth value or time in each row, or raise."""
    from pyarrow import float64, types

    kind = column.type
    if types.is_decimal(kind):
        return column.cast(float64())
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(
            f"column {name!r} of {path} holds {kind}, and a feature is one number or one text in "
            "each row; make "
            f"columns of it, or leave it out with --drop {name}"
        )
    return column


def check_full(table: "pa.Table", path: Path) -> None:
    """Raise where a value is missing, and say where."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(
                f"column {name!r} of {path} is missing in row {row} ({column.null_count} of "
                f"{len(table)} rows), and "
                "this model takes no missing values; fill them in or drop the rows"
            )


def frames(tables: Sequence["pa.Table"], *, categories: bool) -> list[Any]:
    """Return tables of the same columns as frames of pandas, in which every column has one type.

    Those are the data and, where there is one, the background. What is categories in one of them is
    so in both, and with `categories` all text is: the same ones, in the order of their names.
    """
    import pandas as pd
    import pyarrow as pa

    joined = {
        name: _joined([table[name] for table in tables], name) for name in tables[0].column_names
    }
    frame = pa.table(joined).unify_dictionaries().to_pandas()
    for name in frame.columns:
        partly = _partly_categories([table[name] for table in tables])
        if partly or (categories and pd.api.types.is_string_dtype(frame[name])):
            frame[name] = pd.Categorical(frame[name], categories=sorted(set(frame[name].dropna())))
    ends = np.cumsum([len(table) for table in tables])
    return [
        frame[end - len(table) : end].reset_index(drop=True)
        for table, end in zip(tables, ends, strict=True)
    ]


def _joined(columns: Sequence["pa.ChunkedArray"], name: str) -> "pa.ChunkedArray":
    """Return columns one after the other, in a type that holds them all: whole numbers may become
    floating ones.

    One whose values are all missing takes any type, and floating numbers where all are so, as in
    pandas.
    """
    import pyarrow as pa

    if _partly_categories(columns):
        columns = [_decoded(column) for column in columns]
    kinds = [column.type for column in columns if column.null_count < len(column)] or [
        columns[0].type
    ]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in kinds]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        kind = pa.float64() if pa.types.is_null(kind) else kind
        return pa.chunked_array(
            [chunk for column in columns for chunk in column.cast(kind).chunks], kind
        )
    except pa.ArrowException as error:
        data, background = map(_values_told, columns)
        raise InputError(
            f"column {name!r} holds {data} in the data, and {background} in the background; give "
            "both the same type"
        ) from error


def _partly_categories(columns: Sequence["pa.ChunkedArray"]) -> bool:
    from pyarrow import types

    return len({types.is_dictionary(column.type) for column in columns}) == 2


def _decoded(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _values_told(column: "pa.ChunkedArray") -> str:
    """Return the type of a column and one of its values, of text one that is no number."""
    values = column.drop_null().to_pylist()
    example = next(
        (value for value in values if isinstance(value, str) and not _is_number(value)), values[0]
    )
    return f"{column.type} such as {example!r}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def cells(table: "pa.Table") -> dict[str, NDArray[np.str_]]:
    """Return the columns as text without blanks around it, "" for what is missing."""
    import pyarrow as pa

    told = {name: table[name].cast(pa.string()).to_pylist() for name in table.column_names}
    return {
        name: np.array([(cell or "").strip() for cell in column], dtype=np.str_)
        for name, column in told.items()
    }


# Explanations


def check_out(path: Path, inputs: Mapping[str, Path]) -> None:
    """Raise where an explanation cannot be written to a path, before any work is done.

    `inputs` are the files that are read, see `check_place`.
    """
    if path.suffix.lower() not in WRITTEN:
        raise InputError(f"out: wanted a file that ends in {', '.join(WRITTEN)}, got {path}")
    check_place(path, "out", inputs)


def check_place(path: Path, what: str, inputs: Mapping[str, Path]) -> None:
    """Raise where a file cannot be written, or would replace one that is read.

    `inputs` are the files that are read, each by what it is in words.
    """
    if not path.parent.is_dir():
        raise InputError(f"{what}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{what}: {path} is a folder; wanted the name of a file")
    for name, file in inputs.items():
        if path.exists() and file.exists() and path.samefile(file):
            raise InputError(
                f"{what}: {path} is {name}, and would be overwritten; choose another name"
            )
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(
            f"{what}: nothing can be written to the folder {path.parent}: {error.strerror}"
        ) from error


def write(explanation: Explanation, data: "pa.Table", facts: Mapping[str, Any], path: Path) -> None:
    """Write an explanation, one line for each row, whole or not at all.

    The columns are those of `Explanation.to_frame(wide=True)`, the row's label first, and
    data.<column> for all columns that were explained. The facts are in the metadata of a Parquet
    file; CSV has no place for them.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    table = explanation.to_frame("pyarrow", wide=True)
    for name in data.column_names:
        table = table.append_column(f"data.{name}", data[name])
    table = table.replace_schema_metadata({METADATA: json.dumps(facts).encode()})

    store: Callable[..., Any] = csv.write_csv if path.suffix.lower() == ".csv" else pq.write_table
    try:
        with written_whole(path) as partial:
            store(table, partial)
    except pa.ArrowException as error:
        raise InputError(f"out: {path} cannot hold all columns: {error}; try .parquet") from error
