"""Tables in files: CSV and Parquet in, the rows as a model takes them, and explanations out."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shearshap.data.frames import as_frame, trained_order
from shearshap.errors import InputError
from shearshap.jobs.places import METADATA
from shearshap.result.explanation import Explanation
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

READ = (".csv", ".parquet", ".pq")
FORMULA = r"^[=+\-@\t\r\n]"  #: how a text begins that a spreadsheet runs
NUMBER = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
PLAIN_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"  #: a number that reads the same when written again
CHUNK_CELLS = 1 << 22  #: cells of a CSV file that are read at once


# Reading


def check_in(path: Path, what: str) -> None:
    """Raise if there is no table that could be read, before any work is done."""
    if path.suffix.lower() not in READ:
        raise InputError(f"{what}: expected a file that ends in {', '.join(READ)}, got {path}")
    if not path.is_file():
        raise InputError(f"{what}: there is no file {path}")


def read(
    path: Path, what: str, *, text: Collection[str] = (), ids: Collection[str] = ()
) -> "pa.Table":
    """Read a table from a CSV or Parquet file that `check_in` has let through.

    `what` is the first word of every error. `text` are the columns of a CSV file that hold text,
    even if it looks like numbers; `ids` are those whose digits matter, as in 007.
    """
    import pyarrow as pa

    if path.suffix.lower() == ".csv":
        table = _read_csv(path, what, text, ids)
    else:
        try:
            table = _read_parquet(path)
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
    # by number, since a name may be there twice
    columns = [
        at for at, name in enumerate(table.column_names) if not name.startswith("__index_level_")
    ]
    return table.select(columns)


def _check_table(table: "pa.Table", path: Path, what: str) -> None:
    names = table.column_names
    check_names(names, path, what)
    if not names or not len(table):
        raise InputError(f"{what}: there are no rows in {path}")


def check_names(names: Sequence[str], path: Path, what: str) -> None:
    """Raise if two columns have the same name."""
    counts = Counter(names)
    doubled = next((name for name in names if counts[name] > 1), None)
    if doubled is not None:
        raise InputError(f"{what}: duplicate column {doubled!r} in {path}")


# CSV, as pandas reads it


def _read_csv(path: Path, what: str, text: Collection[str], ids: Collection[str]) -> "pa.Table":
    import pandas as pd
    import pyarrow as pa

    names = _csv_names(path, what)
    with _csv_errors(path, what):
        frame = pd.read_csv(path, low_memory=False, **_csv_options(names, text, ids))
        for name in set(ids) & set(names):
            if _are_plain_integers(frame[name]):
                frame[name] = frame[name].astype("int64")
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        return table.cast(pa.schema([(each.name, _small(each.type)) for each in table.schema]))


def csv_schema(path: Path, *, text: Collection[str], ids: Collection[str]) -> "pa.Schema":
    """Return the type that each column of a CSV file has by all its cells, read in chunks."""
    import pyarrow as pa

    kinds: dict[str, set[Any]] = {}
    rows = 0
    for frame in _csv_chunks(path, text, ids):
        rows += len(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for column in table.schema:
            name = column.name
            kind = _small(column.type)
            if table[name].null_count == len(table):
                kind = pa.null()
            elif name in ids and _are_plain_integers(frame[name]):
                kind = pa.int64()
            kinds.setdefault(name, set()).add(kind)
    if not rows:
        raise InputError(f"data: there are no rows in {path}")
    return pa.schema([(name, _type_of_chunks(found)) for name, found in kinds.items()])


def _type_of_chunks(kinds: set[Any]) -> "pa.DataType":
    """Return the type of a column whose chunks have these types."""
    import pyarrow as pa

    known = kinds - {pa.null()}
    if known == {pa.bool_()} or kinds == {pa.int64()}:
        return known.pop()
    # whole numbers with gaps are floating ones, as pandas has it
    return pa.float64() if known <= {pa.int64(), pa.float64()} else pa.string()


def convert_csv(path: Path, schema: "pa.Schema", to: Path, *, group_rows: int) -> None:
    """Write the rows of a CSV file to a Parquet file, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    text = [each.name for each in schema if each.type == pa.string()]
    with (
        written_whole(to) as partial,
        pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer,
    ):
        waiting = schema.empty_table()
        for frame in _csv_chunks(path, text, ()):
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
            table = pa.concat_tables([waiting, table.replace_schema_metadata(None)])
            whole = len(table) - len(table) % group_rows
            if whole:
                writer.write_table(table.slice(0, whole), row_group_size=group_rows)
            waiting = table.slice(whole)
        if len(waiting):
            writer.write_table(waiting, row_group_size=group_rows)


def _csv_chunks(path: Path, text: Collection[str], ids: Collection[str]) -> Iterator[Any]:
    """Yield the rows of a CSV file as frames of pandas, whose types may differ."""
    import pandas as pd

    names = _csv_names(path, "data")
    check_names(names, path, "data")
    rows = max(256, CHUNK_CELLS // len(names))
    options = _csv_options(names, text, ids)
    with (
        _csv_errors(path, "data"),
        pd.read_csv(path, low_memory=False, chunksize=rows, **options) as chunks,
    ):
        yield from chunks


def _csv_names(path: Path, what: str) -> list[str]:
    """Return the names in the header as they are in the file: pandas would change some."""
    import pandas as pd

    with _csv_errors(path, what):
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
        names = [str(name) for name in header.iloc[0]]
    if len(names) == 1 and re.search("[;\t|]", names[0]):
        raise InputError(
            f"{what}: expected commas between the columns of {path}, got the header {names[0]!r}"
        )
    check_names(names, path, what)
    return names


def _csv_options(
    names: Sequence[str], text: Collection[str], ids: Collection[str]
) -> dict[str, Any]:
    as_text = dict.fromkeys((name for name in names if name in {*text, *ids}), str)
    return {"header": 0, "names": list(names), "index_col": False, "dtype": as_text}


@contextmanager
def _csv_errors(path: Path, what: str) -> Iterator[None]:
    """Raise the errors of pandas, and its warning of cells that have no column, as ours."""
    import pandas as pd
    import pyarrow as pa

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: {path} is not UTF-8 text; save it as UTF-8") from error
    except (
        ValueError,
        OSError,
        OverflowError,
        pd.errors.ParserWarning,
        pa.ArrowException,
    ) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{what}: {path} cannot be read: {reason}") from error


def _small(kind: "pa.DataType") -> "pa.DataType":
    """Return pyarrow's usual type of text for the large one that pandas makes."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return pa.float64()
    return pa.string() if pa.types.is_large_string(kind) else kind


def _are_plain_integers(cells: Any) -> bool:
    """Return whether texts are whole numbers that lose no digit as such."""
    return bool(cells.notna().all() and cells.str.fullmatch(PLAIN_INTEGER).all())


def notes(path: Path, table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on what may be wrong in a CSV file, in those of its columns that are given."""
    if path.suffix.lower() != ".csv":
        return []
    found = []
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read() not in (b"\n", b"\r"):
            found.append(f"the last line of {path} has no end; the file may have been cut")
    if all(re.fullmatch(NUMBER, name) and not name.isdecimal() for name in table.column_names):
        found.append(f"the names in the header of {path} are numbers; is its first line a row?")
    return found + _notes_on_text(path, table, columns)


def _notes_on_text(path: Path, table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on columns of text at least half of whose cells are numbers."""
    from pyarrow import compute as pc
    from pyarrow import types

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


def read_background(path: Path, columns: Sequence[str], *, text: Collection[str]) -> "pa.Table":
    """Read the background's file: the columns of the data, under the names that they have there."""
    table = read(path, "background", text=text)
    names = matching_columns(table, columns, f"background: {path}")
    return select(table, names, path).rename_columns(list(columns))


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


def select(table: "pa.Table", columns: Sequence[str], path: Path) -> "pa.Table":
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

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not types.is_string(column.type) and not types.is_large_string(column.type):
        return column
    runs = pc.and_not(
        pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER)
    )
    quoted = pc.replace_substring_regex(column, "^", "'")
    return pc.if_else(runs, quoted, column)
