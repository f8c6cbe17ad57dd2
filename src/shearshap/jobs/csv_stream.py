"""A CSV file of any size as a Parquet file, of which parts can be read.

Two passes, each of one piece of the file after the other. The first finds a type for each column,
by all its cells: numbers where every cell is one. The second writes the cells in these types.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shearshap.errors import InputError
from shearshap.jobs.csv_bytes import has_end
from shearshap.jobs.csv_files import HEXADECIMAL, MISSING, ZEROS, check_csv
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = 1 << 24  #: bytes of the file that are read at once
TRUTH = {"True", "TRUE", "true", "False", "FALSE", "false"}
INTEGER = r"^-?[0-9]{1,18}$"  #: as pyarrow reads one: +1 is a floating number to it
BLANKS = " \t"  #: that pyarrow leaves out around a number
FLOATING = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$|^[+-]?(?i:inf(?:inity)?)$"


@dataclass
class _Seen:
    """What the cells of a column have been so far."""

    any: bool = False  #: whether there was a cell that is not missing
    truth: bool = True  #: whether all of them are truth values
    integer: bool = True
    floating: bool = True
    zeros: bool = False  #: whether one is a number with leading zeros, or has too many digits

    def look(self, cells: "pa.Array") -> None:
        """Take in more cells."""
        from pyarrow import compute as pc

        cells = cells.drop_null()
        if not len(cells):
            return
        self.any = True
        self.truth = self.truth and set(cells.unique().to_pylist()[:7]) <= TRUTH
        if not self.floating:
            return
        trimmed = pc.utf8_trim(cells, BLANKS)
        self.integer = self.integer and _all_match(trimmed, INTEGER)
        self.floating = self.integer or (
            _all_match(trimmed, f"{FLOATING}") and not _any_match(trimmed, HEXADECIMAL)
        )
        self.zeros = self.zeros or _any_match(trimmed, ZEROS) or _any_match(trimmed, "[0-9]{19}")

    def type(self, *, is_input: bool) -> "pa.DataType":
        """Return the column's type; an id, which is no input, keeps its digits as text."""
        import pyarrow as pa

        if not self.any:
            return pa.float64()
        if self.truth:
            return pa.bool_()
        if not self.floating or (self.zeros and not is_input):
            return pa.string()
        return pa.int64() if self.integer else pa.float64()


def _all_match(cells: "pa.Array", pattern: str) -> bool:
    from pyarrow import compute as pc

    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())


def _any_match(cells: "pa.Array", pattern: str) -> bool:
    from pyarrow import compute as pc

    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


@dataclass(frozen=True)
class CsvTypes:
    """The columns of a CSV file, by what all their cells are."""

    seen: dict[str, _Seen] = field(default_factory=dict)

    def types(self, inputs: Collection[str], text: Collection[str]) -> dict[str, "pa.DataType"]:
        """Return the type of each column; `text` are text whatever they look like."""
        import pyarrow as pa

        return {
            name: pa.string() if name in text else seen.type(is_input=name in inputs)
            for name, seen in self.seen.items()
        }


def find_types(path: Path) -> CsvTypes:
    """Look at all cells of a file that may be larger than memory."""
    check_csv(path, "data")
    seen: dict[str, _Seen] = {}
    rows = 0
    for batch in _pieces(path, {}):
        rows += len(batch)
        for name, cells in zip(batch.schema.names, batch.columns, strict=True):
            seen.setdefault(name, _Seen()).look(cells)
    if not rows:
        raise InputError(f"data: there are no rows in {path}")
    return CsvTypes(seen)


def convert(path: Path, types: "dict[str, pa.DataType]", to: Path, *, group_rows: int) -> None:
    """Write the rows of a CSV file to a Parquet file, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    schema = pa.schema(list(types.items()))
    with (
        written_whole(to) as partial,
        pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer,
    ):
        waiting: list[pa.RecordBatch] = []
        for batch in _pieces(path, types):
            waiting.append(batch)
            table = pa.Table.from_batches(waiting, schema)
            whole = len(table) - len(table) % group_rows
            if whole:
                writer.write_table(table.slice(0, whole), row_group_size=group_rows)
                waiting = table.slice(whole).to_batches()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=group_rows)


def _pieces(path: Path, types: "dict[str, pa.DataType]") -> Iterator["pa.RecordBatch"]:
    """Yield a file's rows piece by piece: as text, or in the types given."""
    import pyarrow as pa
    from pyarrow import csv

    options = {
        "read_options": csv.ReadOptions(block_size=PIECE),
        "parse_options": csv.ParseOptions(newlines_in_values=True),
    }
    try:
        columns = types or dict.fromkeys(_names(path), pa.string())
        convert_options = csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            true_values=["True", "TRUE", "true"],
            false_values=["False", "FALSE", "false"],
            column_types=columns,
        )
        with csv.open_csv(path, convert_options=convert_options, **options) as pieces:
            yield from pieces
    except (pa.ArrowException, OSError) as error:
        cut = "" if has_end(path) else "; its last line has no end, so the file may have been cut"
        raise InputError(f"data: {path} cannot be read: {error}{cut}") from error


def _names(path: Path) -> list[str]:
    """Return the names in a file's header, which must be different."""
    from pyarrow import csv

    parse = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as pieces:
        names: list[str] = pieces.schema.names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"data: column {doubled!r} stands twice in {path}")
    return names
