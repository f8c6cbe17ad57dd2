"""Tables in files: CSV and Parquet in, explanations out, and where those may be written.

What is read is never written to. A file that is there already is replaced, or added to, only if an
earlier job wrote it.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import SEEK_END
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv, types
from pyarrow import parquet as pq
from pyarrow.parquet import ParquetFile

from shearshap.apps.jobs import places
from shearshap.apps.jobs.places import errors_of, local, opened, reason, written_whole
from shearshap.apps.jobs.urls import Place
from shearshap.apps.report import GENERATOR
from shearshap.data.frames import as_frame, columns_of_model, trained_order
from shearshap.errors import InputError

READ = (".csv", ".parquet", ".pq")
WRITTEN = (".parquet", ".pq", ".csv")
METADATA = b"shearshap"  #: the key of the facts, as JSON, in a Parquet file's metadata
FORMULA = r"^[=+\-@\t\r\n]"  #: how a text begins that a spreadsheet runs
NUMBER = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
PLAIN_INTEGER = r"0|-?[1-9][0-9]{0,17}"  #: a number that reads the same when written again
LARGE_INTEGER = r"\s*[+-]?[0-9]{16,}\s*"  #: a number that a floating-point number may not hold
LARGE = 2.0**53  #: beyond it, not all whole numbers are floating-point numbers
CHUNK_CELLS = 1 << 22  #: cells of a CSV file that are read at once
READ_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)  #: of pyarrow, of a Parquet file
HEAD = 4096  #: bytes of a file within which a mark is found
MARKS = {
    "out": b'"base_value',
    "interactions": b'"row","output","',
    "importance": b'"output","feature","value"',
    "plot": b"atplotlib",
    "report": f'content="{GENERATOR}'.encode(),
    "log": b'{"time": ',
}
"""Signatures of the files that we wrote, except Parquet, by kind."""

FilesRead = Sequence[tuple[str, Place]]
"""Files and folders that are read, each with what it is in words."""


# Reading


def check_in(path: Place, what: str) -> None:
    """Raise if there is no table that could be read, before any work is done."""
    if path.suffix.lower() not in READ:
        raise InputError(f"{what}: expected a file that ends in {', '.join(READ)}, got {path}")
    with errors_of(path, what):
        if not places.is_file(path):
            raise InputError(f"{what}: there is no file {path}")


def read(
    path: Place, what: str, *, text: Collection[str] = (), ids: Collection[str] = ()
) -> pa.Table:
    """Read a table from a CSV or Parquet file that `check_in` has let through.

    `what` is the first word of every error. `text` are the columns of a CSV file that hold text,
    even if it looks like numbers; `ids` are those whose digits matter, as in 007.
    """
    if path.suffix.lower() == ".csv":
        table = _read_csv(path, what, text, ids)
    else:
        table = _read_parquet(path, what)
    check_names(table.column_names, path, what)
    if not table.column_names or not len(table):
        raise InputError(f"{what}: there are no rows in {path}")
    return table


def _read_parquet(path: Place, what: str) -> pa.Table:
    """Read a Parquet file, without the nameless index that pandas may have left in it."""
    try:
        with opened(path) as source, ParquetFile(source) as file:
            table = _without_views(file.read().replace_schema_metadata(None))
    except READ_ERRORS as error:
        raise InputError(f"{what}: {path} cannot be read: {reason(error)}") from error
    # by number, since a name may be there twice
    return table.select([at for at, name in enumerate(table.column_names) if not is_index(name)])


def _without_views(table: pa.Table) -> pa.Table:
    """Return a table with plain text for views of text, of which pyarrow cannot take rows."""
    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    fields = [each.with_type(plain.get(str(each.type), each.type)) for each in table.schema]
    return table.cast(pa.schema(fields))


def is_index(name: str) -> bool:
    """Return whether a column of a Parquet file is the nameless index of pandas."""
    return name.startswith("__index_level_")


def check_names(names: Sequence[str], path: Place, what: str) -> None:
    """Raise if two columns have the same name."""
    counts = Counter(names)
    doubled = next((name for name in names if counts[name] > 1), None)
    if doubled is not None:
        raise InputError(f"{what}: duplicate column {doubled!r} in {path}")


def read_background(path: Place, columns: Sequence[str], *, text: Collection[str]) -> pa.Table:
    """Read the background's file: the columns of the data, under the names that they have there."""
    table = read(path, "background", text=text)
    names = matching_columns(table, columns, f"background: {path}")
    return select(table, names, path).rename_columns(list(columns))


# CSV, as pandas reads it


def _read_csv(path: Place, what: str, text: Collection[str], ids: Collection[str]) -> pa.Table:
    with _csv_errors(path, what), local(path) as file:
        (frame,) = _csv_frames(file, path, what, text, ids, rows=None)
        schema = _frame_schema([frame], file, path, what, ids)
        for name in {*ids} & {*frame.columns}:
            if schema.field(name).type == pa.int64():
                frame[name] = frame[name].astype("int64")
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    return table.replace_schema_metadata(None)


def convert_csv(
    path: Place, to: Place, *, text: Collection[str], ids: Collection[str], group_rows: int
) -> None:
    """Write the rows of a CSV file to a Parquet file, whole or not at all.

    The file is read twice, a chunk at a time: a column has the type that fits all its cells.
    """
    with _csv_errors(path, "data"), local(path) as file:
        frames = _csv_frames(file, path, "data", text, ids, rows=CHUNK_CELLS)
        schema = _frame_schema(frames, file, path, "data", ids)
        if not schema.names:
            raise InputError(f"data: there are no rows in {path}")
        with written_whole(to) as partial:
            as_text = [each.name for each in schema if each.type == pa.string()]
            texts = {name for name in ids if name in as_text}
            frames = _csv_frames(file, path, "data", as_text, texts, rows=CHUNK_CELLS)
            _write_frames(frames, schema, partial, group_rows)


def _write_frames(frames: Iterable[Any], schema: pa.Schema, to: Path, group_rows: int) -> None:
    """Write frames to a Parquet file, in row groups of fixed size."""
    with pq.ParquetWriter(to, schema, write_page_checksum=True) as writer:
        waiting = schema.empty_table()
        for frame in frames:
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
            table = pa.concat_tables([waiting, table.replace_schema_metadata(None)])
            whole = len(table) - len(table) % group_rows
            if whole:
                writer.write_table(table.slice(0, whole), row_group_size=group_rows)
            waiting = table.slice(whole)
        if len(waiting):
            writer.write_table(waiting, row_group_size=group_rows)


def _csv_frames(
    file: Path,
    path: Place,
    what: str,
    text: Collection[str],
    ids: Collection[str],
    *,
    rows: int | None,
) -> Iterator[Any]:
    """Yield the rows of a CSV file as pandas frames, at once or in chunks of cells.

    `path` is what the user calls the file. A cell such as NA is missing, but an id of that name is
    one.
    """
    # the names as they are in the file: pandas would change some
    header = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = [str(name) for name in header.iloc[0]]
    if len(names) == 1 and re.search("[;\t|]", names[0]):
        raise InputError(
            f"{what}: expected commas between the columns of {path}, got the header {names[0]!r}"
        )
    check_names(names, path, what)
    options: dict[str, Any] = {
        "header": 0,
        "names": names,
        "index_col": False,
        "dtype": dict.fromkeys((name for name in names if name in text and name not in ids), str),
        "converters": {name: _marked for name in names if name in ids},
        "low_memory": False,
    }
    if rows is None:
        yield _with_ids(pd.read_csv(file, **options), ids)
        return
    with pd.read_csv(file, chunksize=max(256, rows // len(names)), **options) as chunks:
        yield from (_with_ids(chunk, ids) for chunk in chunks if len(chunk))


def _marked(cell: str) -> str:
    """Return an id that pandas does not take for a missing cell, as it would NA."""
    return f"={cell}"


def _with_ids(frame: Any, ids: Collection[str]) -> Any:
    """Return rows with the ids as they are in the file."""
    for name in {*ids} & {*frame.columns}:
        cells = frame[name].astype(str).str.slice(1)
        frame[name] = cells.where(cells != "")
    return frame


def _check_digits(file: Path, path: Place, what: str, name: str) -> None:
    """Raise if whole numbers of a column are none of the floating-point numbers they become."""
    with pd.read_csv(file, usecols=[name], dtype=str, chunksize=CHUNK_CELLS) as chunks:
        for chunk in chunks:
            cells = chunk[name].dropna()
            for cell in cells[cells.str.fullmatch(LARGE_INTEGER)]:
                if int(cell) != float(cell):
                    raise InputError(
                        f"{what}: column {name!r} of {path} holds whole numbers such as {cell}, "
                        "which would lose digits beside missing cells or fractions; leave it out "
                        "with --drop, or name it with --id"
                    )


def _frame_schema(
    frames: Iterable[Any], file: Path, path: Place, what: str, ids: Collection[str]
) -> pa.Schema:
    """Return the type that each column has by all its cells, which frames of pandas hold."""
    kinds: dict[str, set[Any]] = {}
    large: set[str] = set()  # columns with numbers that may lose digits
    for frame in frames:
        numbers = frame.select_dtypes("number")
        large.update(numbers.columns[((numbers >= LARGE) | (numbers <= -LARGE)).any()])
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for column in table.schema:
            name = column.name
            kind = column.type
            if table[name].null_count == len(table):
                kind = pa.null()
            elif name in ids and frame[name].str.fullmatch(PLAIN_INTEGER).eq(True).all():
                kind = pa.int64()  # no digit is lost
            elif pa.types.is_large_string(kind):
                kind = pa.string()
            kinds.setdefault(name, set()).add(kind)
    schema = pa.schema([(name, _common_type(found)) for name, found in kinds.items()])
    for each in schema:
        if each.name in large and each.type == pa.float64():
            _check_digits(file, path, what, each.name)
    return schema


def _common_type(kinds: set[Any]) -> pa.DataType:
    """Return the type of a column whose pieces have these types."""
    known = kinds - {pa.null()}
    if len(kinds) == len(known) == 1 or known == {pa.bool_()}:
        return known.pop()
    # whole numbers with gaps are floating ones, as pandas has it
    return pa.float64() if known <= {pa.int64(), pa.float64()} else pa.string()


@contextmanager
def _csv_errors(path: Place, what: str) -> Iterator[None]:
    """Raise the errors of pandas, and its warning of cells that have no column, as ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: {path} is not UTF-8 text; save it as UTF-8") from error
    except (
        ValueError,
        OSError,
        OverflowError,
        pa.ArrowException,
        pd.errors.ParserWarning,
    ) as error:
        words = error.strerror if isinstance(error, OSError) else None
        words = " ".join((words or str(error)).split())
        raise InputError(f"{what}: {path} cannot be read: {words}") from error


def notes(path: Place, table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Return notes on what may be wrong in a CSV file, in those of its columns that are given."""
    if path.suffix.lower() != ".csv":
        return []
    found = []
    with opened(path) as file:
        file.seek(-1, SEEK_END)
        if file.read() not in (b"\n", b"\r"):
            found.append(
                f"the last line of {path} does not end with a line break; is the file truncated?"
            )
    if all(re.fullmatch(NUMBER, name) and not name.isdecimal() for name in table.column_names):
        found.append(f"the column names of {path} are numbers; is its first line a row of data?")
    return found + _notes_on_text(path, table, columns)


def _notes_on_text(path: Place, table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Return notes on columns of text at least half of whose cells are numbers."""
    found = []
    for name in columns:
        if not types.is_string(table[name].type):
            continue
        cells = table[name].drop_null()
        are_numbers = pc.match_substring_regex(cells, NUMBER)
        numbers = pc.sum(are_numbers).as_py() or 0
        if len(cells) <= 2 * numbers < 2 * len(cells):
            other = cells.filter(pc.invert(are_numbers))[0].as_py()[:40]
            found.append(
                f"column {name!r} of {path} is read as text: {numbers:,} of its {len(cells):,} "
                f"cells are numbers, but {other!r} is not"
            )
    return found


# Columns


def matching_columns(table: pa.Table, names: Sequence[str], what: str) -> list[str]:
    """Return the columns of a table that a model's names stand for, in the model's order.

    Other columns are left out. `what` begins the error if a column is missing.
    """
    wanted = columns_of_model(table.column_names, names)
    frame = as_frame(table.select([name for name in table.column_names if name in wanted]), what)
    assert frame is not None
    return trained_order(frame, names, what)


def select(table: pa.Table, columns: Sequence[str], path: Place) -> pa.Table:
    """Return the columns named, in that order, with decimals as floating numbers."""
    chosen = {}
    for name in columns:
        column = table[name]
        kind = column.type
        if not _is_plain(kind):
            raise InputError(
                f"column {name!r} of {path} holds {kind}, but a feature is one number or text "
                f"per row; split it into columns, or leave it out with --drop {name}"
            )
        chosen[name] = column.cast(pa.float64()) if types.is_decimal(kind) else column
    return pa.table(chosen)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a column holds one number, text, truth value or time in each row."""
    return not (types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind))


# Writing


def write(table: pa.Table, facts: Mapping[str, Any], path: Place) -> None:
    """Write a table whole or not at all, in the kind that the file's name asks for.

    The facts are in the metadata of a Parquet file; CSV has no place for them.
    """
    table = table.replace_schema_metadata({METADATA: json.dumps(facts).encode()})
    try:
        with written_whole(path) as partial:
            if path.suffix.lower() == ".csv":
                columns = [_without_formulas(column) for column in table.columns]
                names = _without_formulas(pa.chunked_array([table.column_names]))
                csv.write_csv(pa.table(columns, names.to_pylist()), partial)
            else:
                pq.write_table(table, partial)
    except OSError as error:
        raise InputError(
            f"out: {path} cannot be written: {reason(error)}; no partial file was left"
        ) from error


def _without_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with an apostrophe before every text that a spreadsheet would run."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not types.is_string(column.type) and not types.is_large_string(column.type):
        return column
    runs = pc.and_not(
        pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER)
    )
    quoted = pc.replace_substring_regex(column, "^", "'")
    return pc.if_else(runs, quoted, column)


# Where files may be written


def interactions_beside(values: Place) -> Place:
    """Return the file of the interactions, beside that of the values."""
    return values.with_suffix(f".interactions{values.suffix}")


def check_suffix(path: Place) -> None:
    """Raise if a name is not that of a file of values."""
    if path.suffix.lower() not in WRITTEN:
        raise InputError(
            "out: expected a name that ends in .parquet or .csv for a file, or in / for the folder "
            f"of a large job; got {path}"
        )


def check_columns(schema: pa.Schema, path: Place) -> None:
    """Raise if a file's kind cannot hold the columns of the data, before any work is done."""
    for column in schema:
        if path.suffix.lower() == ".csv" and not _is_plain(column.type):
            raise InputError(
                f"out: {path} cannot hold column {column.name!r}, which holds {column.type}; try "
                ".parquet, or choose other columns with --keep"
            )


def check_place(path: Place, what: str, inputs: FilesRead, *, overwrite: bool = False) -> None:
    """Raise if a file cannot be written, or would replace one that must stay.

    Parameters
    ----------
    path
        The file to be written.
    what
        What it is, a key of `MARKS`: the first word of every error.
    inputs
        What is read. It is never replaced, and nothing is written into its folders.
    overwrite
        Whether to replace a file that no job has written.
    """
    check_apart(path, what, inputs)
    with errors_of(path, what):
        if not places.has_parent(path):
            raise InputError(f"{what}: there is no folder {path.parent}")
        if places.is_folder(path):
            raise InputError(f"{what}: {path} is a folder; expected the name of a file")
        if places.exists(path):
            _check_replaced(path, what, overwrite=overwrite)
    try:
        places.check_writable(path.parent)
    except OSError as error:
        raise InputError(
            f"{what}: the folder {path.parent} cannot be written to: {reason(error)}"
        ) from error


def _check_replaced(path: Place, what: str, *, overwrite: bool) -> None:
    """Raise if a file that is there must stay."""
    if not places.is_replaceable(path):
        raise InputError(f"{what}: {path} cannot be written to; choose another name")
    if not overwrite and not _is_ours(path, what):
        raise InputError(
            f"{what}: {path} already exists, and was not written by shear; choose "
            "another name, or replace it with --overwrite"
        )


def check_apart(path: Place, what: str, inputs: FilesRead) -> None:
    """Raise if what is written is read too, is in a folder that is read, or holds what is read."""
    for name, file in inputs:
        if places.same(path, file):
            raise InputError(
                f"{what}: {path} is {name}, and would be overwritten; choose another name"
            )
        if places.is_within(path, file) and places.is_folder(file):
            raise InputError(f"{what}: {path} is in the folder of {name}; choose another place")
        if places.is_within(file, path) and places.is_folder(path):
            raise InputError(f"{what}: {path} holds {name}, {file}; choose another folder")


def _is_ours(path: Place, what: str) -> bool:
    """Return whether a file was written by a job, or is empty."""
    with opened(path) as file:
        head = file.read(HEAD)
        if not head or MARKS[what] in head:
            return True
        try:
            return path.suffix in WRITTEN and METADATA in (pq.read_schema(file).metadata or {})
        except READ_ERRORS:
            return False
