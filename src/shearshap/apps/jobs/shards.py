"""The rows of a job: files, the shards that they are cut into, and how shards are read.

a.parquet   row group 0   rows 0 to 99,999         shard 0: rows 0 to 65,535
                                                   shard 1: rows 65,536 to 99,999
            row group 1   rows 100,000 to 119,999  shard 2: all of them
b.parquet   row group 0   ...                      shard 3: ...

In a folder of parts each becomes a part: part-000000.parquet, part-000001.parquet and so on, in the
order of the rows. Of many small row groups or files, neighbours become one shard. A job that writes
a file has one shard, a table in memory.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
from pyarrow import types
from pyarrow.parquet import ParquetFile

from shearshap.apps.jobs.places import opened, reason
from shearshap.apps.jobs.tables import READ_ERRORS, check_names, is_index
from shearshap.apps.jobs.urls import Place
from shearshap.errors import InputError
from shearshap.result.text import counted

SHARD_ROWS = 1 << 16  #: rows of a shard at most: what is done again if a worker dies
MANY = 256  #: shards; beyond that, neighbours are merged
MAX_SHARDS = 1_000_000  #: whose names sort in the order of the rows
READ_BYTES = 1 << 25  #: bytes of a table's cells that are read at once, at eight a cell
MAX_ROWS = 1 << 14  #: rows that are explained at once: kriging takes about 20 kB for each
MIN_ROWS = 16
BUFFER = 1 << 20  #: bytes of a column's file that are read at once
READERS = 8  #: files that are read at the same time
SAMPLED_SHARDS = 16  #: shards that a sample is taken from, at most
MAX_NAMED = 3  #: files of a shard that a message names

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class UnreadableError(InputError):
    """Rows of a file cannot be read."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a row group of a Parquet file."""

    path: Place
    group: int  #: the row group in the file
    start: int  #: its first row in the row group
    rows: int
    file_row: int  #: the number of its first row in the file
    source: Place  #: the name that the user knows: of a CSV file that was converted, its own

    def first(self, rows: int) -> "Piece":
        """Return the first of its rows."""
        return replace(self, rows=rows)

    def after(self, rows: int) -> "Piece":
        """Return the rows behind the first of them."""
        return replace(
            self,
            start=self.start + rows,
            rows=self.rows - rows,
            file_row=self.file_row + rows,
        )

    def goes_on(self, other: "Piece") -> bool:
        """Return whether it is of the same row group."""
        return (self.path, self.group) == (other.path, other.group)


@dataclass(frozen=True)
class Shard:
    """Rows that follow each other in the files, or all rows of a table in memory."""

    number: int  #: its place among all shards, in the order of the rows
    first_row: int  #: the number of its first row among all rows of the job
    rows: int
    pieces: tuple[Piece, ...] = ()
    hash: str | None = None  #: of its rows when the run began; None: they could not be read
    table: pa.Table | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_table(cls, table: pa.Table) -> "Shard":
        """Return all rows of a table."""
        return cls(0, 0, len(table), table=table)

    @property
    def name(self) -> str:
        """The name of its part; names sort in the order of the rows."""
        return f"part-{self.number:06}.parquet"

    @property
    def place(self) -> str:
        """Where its rows are, in words; rows are counted from 0."""
        files = [list(pieces) for _, pieces in groupby(self.pieces, lambda each: each.path)]
        words = [_place(pieces) for pieces in files[:MAX_NAMED]]
        if len(files) > MAX_NAMED:
            words.append(f"of {counted(len(files) - MAX_NAMED, 'more file')}")
        return " and ".join(words)


def _place(pieces: Sequence[Piece]) -> str:
    """Return where rows of one file are, in words."""
    first, last = pieces[0], pieces[-1]
    end = last.file_row + last.rows - 1
    words = f"rows {first.file_row:,} to {end:,} of {first.source}"
    is_own_group = len(pieces) == 1 and first.source == first.path
    return f"{words} (row group {first.group})" if is_own_group else words


@dataclass(frozen=True)
class ShardResult:
    """The outcome of a shard's last attempt."""

    shard: Shard
    rows: int = 0  #: that are written
    seconds: float = 0.0
    evaluations: int = 0  #: of the model
    attempt: int = 1
    worker: str = ""  #: in words: host and process
    node: str = ""  #: the machine that it ran on
    peak_bytes: int = 0  #: the most memory that the worker's process has held so far
    notes: tuple[str, ...] = ()  #: for people
    error: str | None = None  #: why its part is not written
    again: bool = True  #: of an error: whether another attempt may succeed
    node_fault: bool = False  #: of an error: whether it is the machine's, and not the shard's


# Files


@dataclass(frozen=True)
class InputFile:
    """A file to explain: Parquet, as its footer describes it, or a table in memory."""

    path: Place
    source: Place  #: the name that the user knows
    groups: tuple[int, ...]  #: the rows of each row group
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    table: pa.Table | None = None

    @classmethod
    def from_parquet(cls, path: Place, source: Place) -> "InputFile":
        """Read a file's footer, but for its facts about columns: pyarrow aborts at damaged ones."""
        try:
            with _opened(path) as file:
                schema = file.schema_arrow.remove_metadata()
                metadata = file.metadata
                groups = range(metadata.num_row_groups)
                sizes = tuple(metadata.row_group(at).num_rows for at in groups)
        except READ_ERRORS as error:
            raise InputError(f"data: {path} cannot be read: {reason(error)}") from error
        check_names(schema.names, path, "data")
        for name in filter(is_index, schema.names):
            schema = schema.remove(schema.get_field_index(name))
        return cls(path, source, sizes, schema)

    @classmethod
    def from_table(cls, table: pa.Table, path: Place) -> "InputFile":
        """Return the file that a table was read from; a column of missing values has no type."""
        fields = [
            (each.name, pa.null() if table[each.name].null_count == len(table) else each.type)
            for each in table.schema
        ]
        return cls(path, path, (len(table),), pa.schema(fields), table)

    @property
    def pieces(self) -> list[Piece]:
        """Its row groups."""
        pieces = []
        row = 0
        for group, rows in enumerate(self.groups):
            pieces.append(Piece(self.path, group, 0, rows, row, self.source))
            row += rows
        return pieces


@contextmanager
def _opened(path: Place) -> Iterator[ParquetFile]:
    """Open a Parquet file so that a large row group is read bit by bit."""
    with (
        opened(path) as content,
        ParquetFile(content, buffer_size=BUFFER, page_checksum_verification=True) as file,
    ):
        yield file


# Shards


def shard_sizes(files: Sequence[InputFile], shard_rows: int) -> list[int]:
    """Return the rows of each shard, up to a maximum.

    They are those of a row group, or of a part of one. Of more than `MANY`, neighbours are merged.
    """
    sizes = [
        min(shard_rows, rows - start)
        for file in files
        for rows in file.groups
        for start in range(0, rows, shard_rows)
    ]
    if len(sizes) <= MANY:
        return sizes
    most = min(shard_rows, -(-sum(sizes) // MANY))
    merged = [0]
    for size in sizes:
        if merged[-1] and merged[-1] + size > most:
            merged.append(0)
        merged[-1] += size
    return merged


def cut(files: Sequence[InputFile], sizes: Sequence[int]) -> list[Shard]:
    """Return the shards of files, by their total number of rows."""
    if len(sizes) > MAX_SHARDS:
        raise InputError(
            f"shard_rows: expected at most {MAX_SHARDS:,} shards, got {len(sizes):,}; try a larger "
            "--shard-rows"
        )
    left = deque(piece for file in files for piece in file.pieces if piece.rows)
    shards = []
    first_row = 0
    for number, size in enumerate(sizes):
        shards.append(Shard(number, first_row, size, _taken(left, size)))
        first_row += size
    return shards


def _taken(left: deque[Piece], rows: int) -> tuple[Piece, ...]:
    """Take rows from the pieces that are left."""
    pieces = []
    while rows:
        piece = left.popleft()
        if piece.rows > rows:
            left.appendleft(piece.after(rows))
            piece = piece.first(rows)
        pieces.append(piece)
        rows -= piece.rows
    return tuple(pieces)


def read_together(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Return shards in runs of those that share row groups, which are then read only once."""
    runs: list[list[Shard]] = []
    for shard in shards:
        before = runs[-1][-1].pieces[-1:] if runs else ()
        if before and shard.pieces and before[0].goes_on(shard.pieces[0]):
            runs[-1].append(shard)
        else:
            runs.append([shard])
    return runs


def in_parallel(call: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Yield what a function that waits for files returns for each item, in their order."""
    pool = ThreadPoolExecutor(READERS)
    try:
        yield from pool.map(call, items)
    finally:
        pool.shutdown(cancel_futures=True)


# Rows


def read_at_once(columns: int) -> int:
    """Return the rows to read at once, by the number of columns."""
    return max(256, min(MAX_ROWS, READ_BYTES // (8 * max(1, columns))))


def batches(shard: Shard, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a shard in batches; a table in memory is one batch."""
    if shard.table is not None:
        yield shard.table.select(list(columns))
        return
    try:
        for path, pieces in groupby(shard.pieces, lambda piece: piece.path):
            with _opened(path) as file:
                for piece in pieces:
                    yield from _rows_of_piece(file, piece, columns, rows)
    except READ_ERRORS as error:
        raise UnreadableError(f"data: {shard.place} cannot be read: {reason(error)}") from error


def _rows_of_piece(
    file: ParquetFile, piece: Piece, columns: Sequence[str], rows: int
) -> Iterator[pa.Table]:
    """Yield some rows of a row group.

    Those before them in the row group are read, too, which costs little beside explaining.
    """
    at = 0  # in the row group
    end = piece.start + piece.rows
    if piece.group < file.metadata.num_row_groups:
        for batch in file.iter_batches(rows, row_groups=[piece.group], columns=list(columns)):
            first = max(at, piece.start)
            last = min(at + len(batch), end)
            if first < last:
                table = pa.Table.from_batches([batch.slice(first - at, last - first)])
                yield table.replace_schema_metadata(None)
            at += len(batch)
            if at >= end:
                return
    raise pa.ArrowInvalid(
        f"the row group has {counted(at, 'row')}; the file is damaged, or was changed while it was "
        "read"
    )


def sample(shards: Sequence[Shard], schema: pa.Schema, count: int) -> tuple[pa.Table, list[int]]:
    """Return up to `count` rows, the same every time, and their numbers among all rows.

    They are of evenly spaced shards, in their order; all rows if there are no more than that. A
    shard that cannot be read is left out: an error is reported when it is explained.
    """
    pieces = []
    numbers = []
    for shard, positions in _sampled_rows(shards, count):
        try:
            pieces.append(_rows_at(shard, schema, positions))
            numbers += [shard.first_row + at for at in positions]
        except UnreadableError as error:
            unreadable = error
    if not pieces:
        raise unreadable
    return pa.concat_tables(pieces), numbers


def _sampled_rows(shards: Sequence[Shard], count: int) -> list[tuple[Shard, list[int]]]:
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


def _rows_at(shard: Shard, schema: pa.Schema, positions: Sequence[int]) -> pa.Table:
    """Return some rows of a shard, whose numbers in it increase, in the types of all shards."""
    pieces = []
    start = 0
    for table in batches(shard, schema.names, read_at_once(len(schema))):
        columns = [in_type(table[each.name], each.type, exactly=False) for each in schema]
        plain = pa.table(columns, schema=schema)
        inside = [at - start for at in positions if start <= at < start + len(table)]
        # typed, since a list without numbers has no type
        pieces.append(plain.take(pa.array(inside, pa.int64())))
        start += len(table)
    return pa.concat_tables(pieces)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of categories, and any other type as it is."""
    return kind.value_type if types.is_dictionary(kind) else kind


def in_type(column: pa.ChunkedArray, kind: pa.DataType, *, exactly: bool) -> pa.ChunkedArray:
    """Return a column, with values for categories, in the type that it has in all shards.

    Decimal numbers, and whole numbers beyond 2^53, that become floating ones are rounded, as pandas
    does beside missing ones, or, if they must be kept exactly, are an error.
    """
    if column.type == kind:
        return column
    plain = column.cast(plain_type(column.type))
    if exactly and _decimals(plain.type) > _decimals(kind):
        raise pa.ArrowInvalid("decimal numbers would be rounded")
    return plain.cast(kind, safe=exactly or not types.is_floating(kind))


def _decimals(kind: pa.DataType) -> int:
    """Return how many decimal numbers a cell of a type has, in lists and fields too."""
    within = (kind.field(at).type for at in range(kind.num_fields))
    return bool(types.is_decimal(kind)) + sum(map(_decimals, within))
