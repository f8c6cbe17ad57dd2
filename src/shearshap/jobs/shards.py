"""Shards: the pieces into which the rows of a large job are cut.

a.parquet   row group 0   rows 0 to 99,999         shard 0: rows 0 to 49,999
                                                   shard 1: rows 50,000 to 99,999
            row group 1   rows 100,000 to 119,999  shard 2: all of them
b.parquet   row group 0   ...                      shard 3: ...

Each becomes a part, a file of its own: part-000000.parquet, part-000001.parquet and so on, in
the order of the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shearshap.errors import InputError
from shearshap.jobs.tables import check_names

if TYPE_CHECKING:
    import pyarrow as pa

SHARD_ROWS = 1 << 16
"""Rows of a shard at most: what is done again where a worker dies."""

READ_BYTES = 1 << 25
"""Bytes of a table's cells that are read at once, at eight a cell."""

MAX_ROWS = 1 << 14
"""Rows that are read, and then explained, at once: kriging takes about 20 kB for each."""

BUFFER = 1 << 20  #: bytes of a column's file that are read at once


class UnreadableError(InputError):
    """Rows of a file cannot be read."""


@dataclass(frozen=True)
class Shard:
    """Some rows of a row group of a Parquet file."""

    number: int  #: its place among all shards, in the order of the rows
    path: Path
    group: int  #: the row group in the file
    start: int  #: its first row in the row group
    rows: int
    first_row: int  #: the number of its first row among all rows of the job
    file_row: int  #: the same in its file
    source: Path  #: what the user knows the file as: of a CSV file that was converted, its own name

    @property
    def name(self) -> str:
        """The name of its part, which sorts as the rows do."""
        return f"part-{self.number:06}.parquet"

    @property
    def place(self) -> str:
        """Where its rows are, in words; rows are counted from 0."""
        last = self.file_row + self.rows - 1
        words = f"rows {self.file_row:,} to {last:,} of {self.source}"
        return words if self.source != self.path else f"{words} (row group {self.group})"


@dataclass(frozen=True)
class InputFile:
    """A Parquet file to explain, as its footer describes it."""

    path: Path
    source: Path  #: what the user knows it as
    groups: tuple[int, ...]  #: the rows of each row group
    footer: str = ""  #: its hash, which changes with almost any cell

    @classmethod
    def of(cls, path: Path, source: Path) -> "InputFile":
        """Read a file's footer."""
        with _opened(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        return cls(path, source, tuple(groups), _footer_hash(path))


def _footer_hash(path: Path) -> str:
    """Return the hash of the end of a Parquet file: ..., the footer, its size, PAR1."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, 2)
        return sha256(file.read(size)).hexdigest()


def cut(files: Sequence[InputFile], shard_rows: int) -> list[Shard]:
    """Return the shards of files, each of at most so many rows of one row group."""
    shards: list[Shard] = []
    before = 0  # rows of the files before
    for file in files:
        file_row = 0
        for group, rows in enumerate(file.groups):
            for start in range(0, rows, shard_rows):
                shard = Shard(
                    number=len(shards),
                    path=file.path,
                    group=group,
                    start=start,
                    rows=min(shard_rows, rows - start),
                    first_row=before + file_row + start,
                    file_row=file_row + start,
                    source=file.source,
                )
                shards.append(shard)
            file_row += rows
        before += file_row
    return shards


def input_schema(path: Path) -> "pa.Schema":
    """Return the columns of a Parquet file, without the nameless index of pandas."""
    try:
        with _opened(path) as file:
            schema = file.schema_arrow.remove_metadata()
            names = schema.names
    except UnicodeDecodeError as error:
        raise InputError(f"data: {path} cannot be read: a name in it is no text") from error
    check_names(names, path, "data")
    for name in names:
        if name.startswith("__index_level_"):
            schema = schema.remove(schema.get_field_index(name))
    return schema


def null_counts(path: Path) -> list[dict[str, int]]:
    """Return how many values are missing in each row group, by column, as far as the footer says.

    A dictionary's null may be among its values, which are not counted; so categories are left out.
    """
    from pyarrow import types

    with _opened(path) as file:
        plain = {field.name for field in file.schema_arrow if not types.is_dictionary(field.type)}
        metadata = file.metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        return [
            {
                column.path_in_schema: column.statistics.null_count
                for column in (group.column(at) for at in range(group.num_columns))
                if column.path_in_schema in plain
                and column.statistics is not None
                and column.statistics.has_null_count
            }
            for group in groups
        ]


def read_at_once(columns: int) -> int:
    """Return how many rows of a table of so many columns are read at once."""
    return max(256, min(MAX_ROWS, READ_BYTES // (8 * max(1, columns))))


def batches(shard: Shard, columns: Sequence[str], rows: int) -> Iterator["pa.Table"]:
    """Yield the rows of a shard, at most so many at once; errors say where they are."""
    import pyarrow as pa

    try:
        yield from _batches(shard, columns, rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UnreadableError(f"data: {shard.place} cannot be read: {reason}") from error


def _batches(shard: Shard, columns: Sequence[str], rows: int) -> Iterator["pa.Table"]:
    import pyarrow as pa

    at = 0  # in the row group
    end = shard.start + shard.rows
    with _opened(shard.path) as file:
        # in large row groups, those before the shard are read too, which costs little beside
        # explaining
        pieces = file.iter_batches(rows, row_groups=[shard.group], columns=list(columns))
        for piece in pieces:
            first = max(at, shard.start)
            last = min(at + len(piece), end)
            if first < last:
                table = pa.Table.from_batches([piece.slice(first - at, last - first)])
                yield table.replace_schema_metadata(None)
            at += len(piece)
            if at >= end:
                return
    raise UnreadableError(f"data: {shard.place} are not all there; the file has changed")


def _opened(path: Path) -> Any:
    """Open a Parquet file so that a large row group is read bit by bit."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path, buffer_size=BUFFER, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"data: {path} cannot be read: {error}") from error


def sample(shards: Sequence[Shard], columns: Sequence[str], count: int) -> "pa.Table":
    """Return up to `count` rows of evenly spaced shards, in their order: the same every time.

    Where there are no more than that, they are all rows. A shard that cannot be read is left out:
    who explains it says what is wrong with it.
    """
    return numbered_sample(shards, columns, count)[0]


def numbered_sample(
    shards: Sequence[Shard], columns: Sequence[str], count: int
) -> tuple["pa.Table", list[int]]:
    """Return the rows of a sample, and their numbers among all rows of the job."""
    import pyarrow as pa

    pieces = []
    numbers = []
    for shard, positions in _places(shards, count):
        try:
            pieces.append(_rows_at(shard, columns, positions))
            numbers += [shard.first_row + at for at in positions]
        except UnreadableError as error:
            unreadable = error
    if not pieces:
        raise unreadable
    return pa.concat_tables(pieces, promote_options="permissive"), numbers


SAMPLED_SHARDS = 16  #: shards that a sample is taken from, at most


def _places(shards: Sequence[Shard], count: int) -> list[tuple[Shard, list[int]]]:
    """Return the shards of a sample, and which of its rows are taken from each."""
    every = sum(shard.rows for shard in shards)
    if every <= count:
        return [(shard, list(range(shard.rows))) for shard in shards]

    number = min(SAMPLED_SHARDS, len(shards), count)
    chosen = [shards[at * len(shards) // number] for at in range(number)]
    quota = -(-count // number)
    places = []
    for shard in chosen:
        taken = min(quota, shard.rows, count)
        places.append((shard, [at * shard.rows // taken for at in range(taken)]))
        count -= taken
    return [(shard, positions) for shard, positions in places if positions]


def _rows_at(shard: Shard, columns: Sequence[str], positions: Sequence[int]) -> "pa.Table":
    """Return some rows of a shard, whose numbers in it increase."""
    import pyarrow as pa

    pieces = []
    start = 0
    for table in batches(shard, columns, read_at_once(len(columns))):
        inside = [at - start for at in positions if start <= at < start + len(table)]
        # typed, since a list without numbers has no type
        pieces.append(_decoded(table.take(pa.array(inside, pa.int64()))))
        start += len(table)
    return pa.concat_tables(pieces, promote_options="permissive")


def _decoded(table: "pa.Table") -> "pa.Table":
    """Return a table with texts for categories, which may be texts in another file."""
    from pyarrow import types

    for place, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            values = table[field.name].cast(field.type.value_type)
            table = table.set_column(place, field.name, values)
    return table
