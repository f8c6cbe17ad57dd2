"""The rows of a job: files, the shards that they are cut into, and the types of their columns.

a.parquet   row group 0   rows 0 to 99,999         shard 0: rows 0 to 49,999
                                                   shard 1: rows 50,000 to 99,999
            row group 1   rows 100,000 to 119,999  shard 2: all of them
b.parquet   row group 0   ...                      shard 3: ...

In a folder of parts each becomes a part: part-000000.parquet, part-000001.parquet and so on, in the
order of the rows. A job that writes a file has one shard, a table in memory.

Shards are read apart, but a column must not be whole numbers in one shard and floating ones in the
next because a value is missing there, or have other categories. So types and categories are found
for all files, and the background, before the first shard is explained.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import types
from pyarrow.parquet import ParquetFile

from shearshap.errors import InputError
from shearshap.jobs.places import Place
from shearshap.jobs.tables import READ_ERRORS, check_names, is_index
from shearshap.result.text import counted

SHARD_ROWS = 1 << 16  #: rows of a shard at most: what is done again if a worker dies
READ_BYTES = 1 << 25  #: bytes of a table's cells that are read at once, at eight a cell
MAX_ROWS = 1 << 14  #: rows that are explained at once: kriging takes about 20 kB for each
MIN_ROWS = 16
BUFFER = 1 << 20  #: bytes of a column's file that are read at once
SAMPLED_SHARDS = 16  #: shards that a sample is taken from, at most
MAX_CATEGORIES = 100_000  #: of a column at most: it is more likely a text or an id


class UnreadableError(InputError):
    """Rows of a file cannot be read."""


@dataclass(frozen=True)
class Shard:
    """Some rows of a row group of a Parquet file, or all rows of a table in memory."""

    number: int  #: its place among all shards, in the order of the rows
    path: Path
    group: int  #: the row group in the file
    start: int  #: its first row in the row group
    rows: int
    first_row: int  #: the number of its first row among all rows of the job
    file_row: int  #: the same in its file
    source: Path  #: the name that the user knows: of a CSV file that was converted, its own
    table: pa.Table | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of its part; names sort in the order of the rows."""
        return f"part-{self.number:06}.parquet"

    @property
    def place(self) -> str:
        """Where its rows are, in words; rows are counted from 0."""
        last = self.file_row + self.rows - 1
        words = f"rows {self.file_row:,} to {last:,} of {self.source}"
        return words if self.source != self.path else f"{words} (row group {self.group})"


@dataclass(frozen=True)
class ShardResult:
    """The outcome of a shard's last attempt."""

    shard: Shard
    rows: int = 0  #: that are written
    hashes: tuple[tuple[str, str], ...] = ()  #: of the files written, by name
    seconds: float = 0.0
    evaluations: int = 0  #: of the model
    attempt: int = 1
    worker: str = ""  #: in words: host and process
    node: str = ""  #: the machine that it ran on: the host's name, or what Ray calls the node
    peak_bytes: int = 0  #: the most memory that the worker's process has held so far
    notes: tuple[str, ...] = ()  #: for people
    error: str | None = None  #: why its part is not written
    again: bool = True  #: of an error: whether another attempt may succeed
    node_fault: bool = False  #: of an error: whether it is the node's, and not the shard's


# Files


@dataclass(frozen=True)
class InputFile:
    """A file to explain: Parquet, as its footer describes it, or a table in memory."""

    path: Any  #: a `Place`
    source: Any  #: the name that the user knows
    groups: tuple[int, ...]  #: the rows of each row group
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    footer: str = ""  #: its hash, which changes with almost any cell
    table: pa.Table | None = None

    @classmethod
    def from_parquet(cls, path: Path, source: Path) -> "InputFile":
        """Read a file's footer, but for its facts about columns: pyarrow aborts at damaged ones."""
        try:
            with _opened(path) as file:
                schema = file.schema_arrow.remove_metadata()
                metadata = file.metadata
                groups = range(metadata.num_row_groups)
                sizes = tuple(metadata.row_group(at).num_rows for at in groups)
        except READ_ERRORS as error:
            raise InputError(f"data: {path} cannot be read: {error}") from error
        check_names(schema.names, path, "data")
        for name in filter(is_index, schema.names):
            schema = schema.remove(schema.get_field_index(name))
        return cls(path, source, sizes, schema, _footer_hash(path))

    @classmethod
    def from_table(cls, table: pa.Table, path: Place) -> "InputFile":
        """Return the file that a table was read from; a column of missing values has no type."""
        fields = [
            (each.name, pa.null() if table[each.name].null_count == len(table) else each.type)
            for each in table.schema
        ]
        return cls(path, path, (len(table),), pa.schema(fields), table=table)


def _footer_hash(path: Path) -> str:
    """Return the hash of the end of a Parquet file: ..., the footer, its size, PAR1."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, 2)
        return sha256(file.read(size)).hexdigest()


def _opened(path: Path) -> Any:
    """Open a Parquet file so that a large row group is read bit by bit."""
    return ParquetFile(path, buffer_size=BUFFER, page_checksum_verification=True)


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
                    table=file.table,
                )
                shards.append(shard)
            file_row += rows
        before += file_row
    return shards


# Rows


def read_at_once(columns: int) -> int:
    """Return how many rows of a table of so many columns are read at once."""
    return max(256, min(MAX_ROWS, READ_BYTES // (8 * max(1, columns))))


def batches(shard: Shard, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a shard, at most so many at once; a table in memory is one batch."""
    if shard.table is not None:
        yield shard.table.select(list(columns))
        return
    at = 0  # in the row group
    end = shard.start + shard.rows
    try:
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
    except READ_ERRORS as error:
        reason = " ".join(str(error).split())
        raise UnreadableError(f"data: {shard.place} cannot be read: {reason}") from error
    raise UnreadableError(
        f"data: {shard.place} cannot be read: the row group has {counted(at, 'row')}; the file is "
        "damaged, or was changed while it was read"
    )


def sample(
    shards: Sequence[Shard], columns: Sequence[str], count: int
) -> tuple[pa.Table, list[int]]:
    """Return up to `count` rows, the same every time, and their numbers among all rows.

    They are of evenly spaced shards, in their order; all rows if there are no more than that. A
    shard that cannot be read is left out: an error is reported when it is explained.
    """
    pieces = []
    numbers = []
    for shard, positions in _sampled_rows(shards, count):
        try:
            pieces.append(_rows_at(shard, columns, positions))
            numbers += [shard.first_row + at for at in positions]
        except UnreadableError as error:
            unreadable = error
    if not pieces:
        raise unreadable
    return pa.concat_tables(pieces, promote_options="permissive"), numbers


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


def _rows_at(shard: Shard, columns: Sequence[str], positions: Sequence[int]) -> pa.Table:
    """Return some rows of a shard, whose numbers in it increase, with texts for categories."""
    pieces = []
    start = 0
    for table in batches(shard, columns, read_at_once(len(columns))):
        # categories may be texts in another file
        plain = pa.table({name: _decoded(table[name]) for name in table.column_names})
        inside = [at - start for at in positions if start <= at < start + len(table)]
        # typed, since a list without numbers has no type
        pieces.append(plain.take(pa.array(inside, pa.int64())))
        start += len(table)
    return pa.concat_tables(pieces, promote_options="permissive")


# Types of columns


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of categories, and any other type as it is."""
    return kind.value_type if types.is_dictionary(kind) else kind


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(plain_type(column.type))


def in_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column, with values for categories, in the type that it has in all shards."""
    if column.type == kind:
        return column
    # whole numbers beyond 2^53 are rounded, as pandas does beside missing ones
    return _decoded(column).cast(kind, safe=not types.is_floating(kind))


def common_schema(files: Sequence[InputFile]) -> pa.Schema:
    """Return the columns that all files have, each in a type that holds those of every file."""
    first = files[0]
    for file in files:
        different = sorted({*file.schema.names} ^ {*first.schema.names})
        if different:
            raise InputError(
                f"data: {first.source} and {file.source} have different columns "
                f"({', '.join(different[:5])}); all files of a job need the same"
            )
    return unified([file.schema for file in files], "data: the files")


def unified(schemas: Sequence[pa.Schema], what: str) -> pa.Schema:
    """Return the columns of the first schema, in types that hold the values of all schemas."""
    plain = [pa.schema([(each.name, plain_type(each.type)) for each in one]) for one in schemas]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"{what} have columns of different types: {error}") from error


@dataclass(frozen=True)
class Survey:
    """The facts about all cells on which a column's type depends."""

    gaps: tuple[str, ...]  #: columns of whole numbers or truth values, of which one is missing
    categories: dict[str, list[Any]]  #: of columns


@dataclass(frozen=True, eq=False)
class InputColumns:
    """The columns that the model is given, and how to make a frame of them."""

    schema: pa.Schema  #: their types, for all shards and the background
    coded: tuple[str, ...] = ()  #: columns that are categories to the model
    ordered: tuple[str, ...] = ()  #: columns whose categories are ordered, as in low < high
    #: columns of truth values in which some are missing, which pandas has no type for
    objects: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def from_files(
        cls, schema: pa.Schema, files: Sequence[InputFile], *, text: bool = False
    ) -> "InputColumns":
        """Return the columns of a schema that all files have, the background's too.

        Those that are categories in one of the files are so in all. With `text`, all text is
        categories.
        """
        fields = []
        coded = []
        ordered = []
        for column in schema:
            name = column.name
            kind = column.type
            fields.append((name, pa.float64() if types.is_null(kind) else kind))
            kinds = _file_types(files, name)
            if any(map(_is_category, kinds)) or (text and _is_text(kind)):
                coded.append(name)
            if all(getattr(each, "ordered", False) for each in kinds):
                ordered.append(name)
        return cls(pa.schema(fields), tuple(coded), tuple(ordered))

    def settled(self, survey: Survey) -> "InputColumns":
        """Return the columns with what a survey of all rows has found."""
        gaps = [each for each in self.schema if each.name in survey.gaps]
        whole = [each.name for each in gaps if types.is_integer(each.type)]
        fields = [
            (each.name, pa.float64() if each.name in whole else each.type)  # as pandas has it
            for each in self.schema
        ]
        return replace(
            self,
            schema=pa.schema(fields),
            objects=tuple(each.name for each in gaps if types.is_boolean(each.type)),
            categories=survey.categories,
        )

    def frame(self, table: pa.Table) -> Any:
        """Return rows as a frame of pandas; raise if a cell does not fit the column."""
        try:
            arrays = [in_type(table[each.name], each.type) for each in self.schema]
        except pa.ArrowException as error:
            raise InputError(f"data: the types of the columns have changed: {error}") from error
        frame = pa.table(arrays, schema=self.schema).to_pandas()
        for name in self.objects:
            frame[name] = frame[name].astype(object)
        for name, kinds in self.categories.items():
            cells = pd.Categorical(frame[name], list(kinds), ordered=name in self.ordered)
            if cells.isna().sum() > frame[name].isna().sum():
                raise InputError(
                    f"data: column {name!r} holds categories that were not there when the job began"
                )
            frame[name] = cells
        return frame


def _file_types(files: Sequence[InputFile], name: str) -> list[pa.DataType]:
    """Return the types of a column, without those of files in which it has no values."""
    kinds = [file.schema.field(name).type for file in files]
    return [kind for kind in kinds if not types.is_null(kind)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_category(kind: pa.DataType) -> bool:
    """Return whether a type is of categories, of the kinds that a manifest can hold."""
    if not types.is_dictionary(kind):
        return False
    value = kind.value_type
    return _is_text(value) or bool(types.is_integer(value) or types.is_floating(value))


def survey(files: Sequence[InputFile], columns: InputColumns) -> Survey:
    """Read the columns in which a missing value changes the type, and those of categories.

    Rows that cannot be read are left out: an error is reported when they are explained.
    """
    # the types in which pandas has no missing values
    doubtful = [
        each.name
        for each in columns.schema
        if types.is_integer(each.type) or types.is_boolean(each.type)
    ]
    gaps: set[str] = set()
    categories: dict[str, dict[Any, None]] = {name: {} for name in columns.coded}
    for file in files:
        for group in cut([file], max(file.groups)):
            undecided = [name for name in doubtful if name not in gaps]
            read = list(dict.fromkeys([*undecided, *columns.coded]))
            try:
                for table in batches(group, read, read_at_once(len(read))) if read else ():
                    gaps.update(name for name in undecided if table[name].null_count)
                    for name, known in categories.items():
                        _add_categories(known, table[name], name)
            except UnreadableError:
                continue

    listed = {}
    for name, known in categories.items():
        # a model may have been trained on the codes of categories, so their order in the files
        # counts; text has none
        has_order = all(map(types.is_dictionary, _file_types(files, name)))
        listed[name] = list(known) if has_order else sorted(known)
    return Survey(tuple(name for name in doubtful if name in gaps), listed)


def _add_categories(known: dict[Any, None], column: pa.ChunkedArray, name: str) -> None:
    """Add the categories of a column's cells to those known, in the order in which they come."""
    if types.is_dictionary(column.type):
        found = [kind for chunk in column.chunks for kind in chunk.dictionary.to_pylist()]
    else:
        found = column.unique().to_pylist()
    known.update((kind, None) for kind in found if kind is not None)
    if len(known) > MAX_CATEGORIES:
        raise InputError(
            f"data: column {name!r} has more than {MAX_CATEGORIES:,} different texts, which are "
            "too many to be categories; leave it out with --drop, or encode it"
        )
