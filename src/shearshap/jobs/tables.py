"""Tables in files: CSV and Parquet in, the rows as a model takes them, and explanations out."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shearshap.data.frames import as_frame, trained_order
from shearshap.errors import InputError
from shearshap.jobs.csv_files import NUMBER, ids_as_written, notes_on_csv, read_csv
from shearshap.jobs.places import METADATA
from shearshap.result.explanation import Explanation
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

READ = (".csv", ".parquet", ".pq")
FORMULA = r"^[=+\-@\t\r\n]"  #: how a text begins that a spreadsheet runs


# Reading


def check_in(path: Path, what: str) -> None:
    """Raise where there is no table that could be read, before any work is done."""
    if path.suffix.lower() not in READ:
        raise InputError(f"{what}: wanted a file that ends in {', '.join(READ)}, got {path}")
    if not path.is_file():
        raise InputError(f"{what}: there is no file {path}")


def read(path: Path, what: str, *, text: Collection[str] = ()) -> "pa.Table":
    """Read a table from a CSV or Parquet file that `check_in` has let through.

    `what` is the first word of every error. `text` are the columns of a CSV file that hold text,
    even if it looks like numbers.
    """
    import pyarrow as pa

    is_csv = path.suffix.lower() == ".csv"
    try:
        table = read_csv(path, what, text) if is_csv else _read_parquet(path)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{what}: {path} cannot be read: {reason}") from error
    _check_table(table, path, what)
    return table


def _read_parquet(path: Path) -> "pa.Table":
    """Read a Parquet file, without the nameless index that pandas may have left in it."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        table = file.read().replace_schema_metadata(None)
    # by number, since a name may stand twice
    columns = [
        at for at, name in enumerate(table.column_names) if not name.startswith("__index_level_")
    ]
    return table.select(columns)


def _check_table(table: "pa.Table", path: Path, what: str) -> None:
    names = table.column_names
    counts = Counter(names)
    doubled = next((name for name in names if counts[name] > 1), None)
    if doubled is not None:
        raise InputError(f"{what}: column {doubled!r} stands twice in {path}")
    if not names or not len(table):
        raise InputError(f"{what}: there are no rows in {path}")


# Columns


def named_columns(table: "pa.Table", path: Path) -> tuple["pa.Table", list[str]]:
    """Return a table without columns that have no name and no meaning, and notes on them.

    Those are a first one, as an index written by pandas, and one that is all empty, as a comma at
    the end of every line makes it.
    """
    first, *others = table.column_names
    if others and not first:
        note = f"the first column of {path} has no name, as pandas' index has none, and is left out"
        return table.select(others), [note]
    if others and "" in others and table[""].null_count == len(table):
        note = f"a column of {path} has neither a name nor values, and is left out"
        return table.drop_columns([""]), [note]
    return table, []


def notes(path: Path, table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on what may be wrong in a file, in those of its columns that are given."""
    return notes_on_csv(path, table, columns) if path.suffix.lower() == ".csv" else []


def with_ids_as_written(table: "pa.Table", used: Sequence[str], path: Path) -> "pa.Table":
    """Return a table in which ids such as 007, in columns that no model takes, keep their digits.

    So what is written can be joined with the user's other tables.
    """
    if path.suffix.lower() != ".csv":
        return table
    taken = set(used)
    others = [name for name in table.column_names if name and name not in taken]
    for name, cells in ids_as_written(path, table, others).items():
        table = table.set_column(table.column_names.index(name), name, cells)
    return table


def matching_columns(table: "pa.Table", names: Sequence[str], what: str) -> list[str]:
    """Return the columns of a table that a model's names stand for, in the model's order.

    Other columns are left out. `what` begins the error where a column is missing.
    """
    # LightGBM keeps an underscore for a space; a column of the model's very name comes first
    spaced = {name.replace(" ", "_"): name for name in table.column_names}
    exact = dict.fromkeys(table.column_names)
    columns = [name if name in exact else spaced.get(name) for name in names]
    known = list(dict.fromkeys(column for column in columns if column is not None))
    frame = as_frame(table.select(known), what)
    assert frame is not None
    return trained_order(frame, names, what)


def chosen(table: "pa.Table", columns: Sequence[str], path: Path) -> "pa.Table":
    """Return the columns named, in that order, with decimals as floating numbers."""
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
            f"each row; make columns of it, or leave it out with --drop {name}"
        )
    return column


# Frames


def frames(tables: Sequence["pa.Table"], *, categories: bool) -> list[Any]:
    """Return tables of the same columns as frames of pandas, in which every column has one type.

    Those are the data and, where there is one, the background. A column that is categories in one
    of them is so in both. With `categories`, all text is. Both have the same categories, in the
    order of their names.
    """
    import pandas as pd
    import pyarrow as pa

    names = tables[0].column_names
    columns = {name: [table[name] for table in tables] for name in names}
    joined = pa.table({name: _joined(parts, name) for name, parts in columns.items()})
    frame = joined.unify_dictionaries().to_pandas()
    for name, parts in columns.items():
        is_text = categories and pd.api.types.is_string_dtype(frame[name])
        if is_text or _partly_categories(parts):
            kinds = sorted(set(frame[name].dropna()))
            frame[name] = pd.Categorical(frame[name], categories=kinds)
    return _separated(frame, [len(table) for table in tables])


def _separated(frame: Any, sizes: Sequence[int]) -> list[Any]:
    """Return consecutive pieces of a frame, each with an index from 0 on."""
    pieces = []
    start = 0
    for size in sizes:
        pieces.append(frame[start : start + size].reset_index(drop=True))
        start += size
    return pieces


def _joined(columns: Sequence["pa.ChunkedArray"], name: str) -> "pa.ChunkedArray":
    """Return columns one after the other, in a type that holds them all.

    Whole numbers may become floating ones. A column whose values are all missing takes any type;
    where all columns are so, they are floating numbers, as in pandas.
    """
    import pyarrow as pa

    if _partly_categories(columns):
        columns = [_decoded(column) for column in columns]
    try:
        kind = _common_type(columns)
        chunks = [chunk for column in columns for chunk in column.cast(kind).chunks]
        return pa.chunked_array(chunks, kind)
    except pa.ArrowException as error:
        data, background = (_example(column) for column in columns)
        raise InputError(
            f"column {name!r} holds {data} in the data, and {background} in the background; give "
            "both the same type"
        ) from error


def _common_type(columns: Sequence["pa.ChunkedArray"]) -> "pa.DataType":
    """Return a type that holds the values of all columns; raise pyarrow's error if none does."""
    import pyarrow as pa

    known = [column.type for column in columns if column.null_count < len(column)]
    schemas = [pa.schema([("", kind)]) for kind in known or [columns[0].type]]
    common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    return pa.float64() if pa.types.is_null(common) else common


def _partly_categories(columns: Sequence["pa.ChunkedArray"]) -> bool:
    from pyarrow import types

    return len({types.is_dictionary(column.type) for column in columns}) == 2


def _decoded(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _example(column: "pa.ChunkedArray") -> str:
    """Return the type of a column and one of its values, of text one that is no number."""
    values = column.drop_null().to_pylist()
    words = (value for value in values if isinstance(value, str) and not _is_number(value))
    return f"{column.type} such as {next(words, values[0])!r}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Explanations


def check_columns(data: "pa.Table", path: Path) -> None:
    """Raise where a file's kind cannot hold the columns of the data, before any work is done."""
    import pyarrow as pa

    # all rows, since bytes that are no text may stand in any of them
    _store(data, pa.MockOutputStream(), path)


def write(explanation: Explanation, data: "pa.Table", facts: Mapping[str, Any], path: Path) -> None:
    """Write an explanation, one line for each row, whole or not at all.

    The columns are those of `Explanation.to_frame(wide=True)`, the row's label first, and
    data.<column> for all columns that were explained. The facts are in the metadata of a Parquet
    file; CSV has no place for them.
    """
    values = explanation.to_frame("pyarrow", wide=True)
    names = [*values.column_names, *(f"data.{name}" for name in data.column_names)]
    # all at once: each column that is appended copies the list of all
    table = type(values).from_arrays([*values.columns, *data.columns], names=names)
    _write_whole(table, facts, path)


def write_pairs(explanation: Explanation, facts: Mapping[str, Any], path: Path) -> None:
    """Write the interactions: a line for each row, output and pair of players."""
    _write_whole(explanation.to_frame("pyarrow", interactions=True), facts, path)


def _write_whole(table: "pa.Table", facts: Mapping[str, Any], path: Path) -> None:
    table = table.replace_schema_metadata({METADATA: json.dumps(facts).encode()})
    try:
        with written_whole(path) as partial:
            _store(table, partial, path)
    except OSError as error:
        raise InputError(
            f"out: {path} cannot be written: {error.strerror or error}; no file is left half "
            "written"
        ) from error


def _store(table: "pa.Table", place: "Path | pa.NativeFile", path: Path) -> None:
    """Write a table to a file or a stream, in the kind that a path's name asks for."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    try:
        if path.suffix.lower() == ".csv":
            csv.write_csv(_without_formulas(table), place)
        else:
            pq.write_table(table, place)
    except pa.ArrowException as error:
        raise InputError(f"out: {path} cannot hold all columns: {error}; try .parquet") from error


def _without_formulas(table: "pa.Table") -> "pa.Table":
    """Return a table with an apostrophe before every text that a spreadsheet would run."""
    columns = [_without_formula(column) for column in table.columns]
    return type(table).from_arrays(columns, names=table.column_names)


def _without_formula(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    from pyarrow import compute as pc
    from pyarrow import types

    column = _decoded(column)
    if not types.is_string(column.type) and not types.is_large_string(column.type):
        return column
    runs = pc.and_not(
        pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER)
    )
    quoted = pc.replace_substring_regex(column, "^", "'")
    return pc.if_else(runs, quoted, column)
