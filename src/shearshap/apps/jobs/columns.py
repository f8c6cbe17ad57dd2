"""The columns of a job: the types that they have in all shards, and a look at all cells.

Shards are read apart, but a column must not be whole numbers in one shard and floating ones in the
next because a value is missing there, or have other categories. So types and categories are found
for all files, and the background, before the first shard is explained. The rows of each shard are
hashed on the way: see `shearshap.apps.jobs.cells`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import types

from shearshap.apps.jobs.cells import RowsHash
from shearshap.apps.jobs.shards import (
    InputFile,
    Piece,
    Shard,
    UnreadableError,
    batches,
    in_parallel,
    in_type,
    plain_type,
    read_at_once,
    read_together,
)
from shearshap.errors import InputError

MAX_CATEGORIES = 100_000  #: of a column at most: it is more likely a text or an id


def in_schema(table: pa.Table, schema: pa.Schema, exact: Collection[str]) -> pa.Table:
    """Return the columns of a schema, in its types; those in `exact` without any loss."""
    columns = []
    for each in schema:
        exactly = each.name in exact
        try:
            columns.append(in_type(table[each.name], each.type, exactly=exactly))
        except pa.ArrowException as error:
            raise InputError(_no_cast(each, table[each.name].type, error, exactly)) from error
    return pa.table(columns, schema=schema)


def _no_cast(column: pa.Field, kind: pa.DataType, error: Exception, exactly: bool) -> str:
    words = f"data: column {column.name!r} is {kind} in one file and {column.type} in others"
    if exactly:
        return (
            f"{words}, and would be written with other values ({error}); write it with one type in "
            "all files, such as text, or choose other columns with --keep"
        )
    return f"{words}: {error}"


def joined(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield tables of one schema; join small neighbours, up to a number of rows."""
    waiting: list[pa.Table] = []
    for table in tables:
        if waiting and sum(map(len, waiting)) + len(table) > rows:
            yield pa.concat_tables(waiting)
            waiting = []
        waiting.append(table)
    if waiting:
        yield pa.concat_tables(waiting)


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
    """The facts about all cells that are found before the first shard is explained."""

    gaps: tuple[str, ...]  #: columns of whole numbers or truth values, of which one is missing
    categories: dict[str, list[Any]]  #: of columns
    hashes: tuple[str | None, ...] = ()  #: of the rows of each shard; None: they cannot be read

    def beside(self, other: "Survey", columns: "InputColumns") -> "Survey":
        """Return the facts about these rows and others, such as the background's."""
        categories = {
            name: [*dict.fromkeys([*known, *other.categories[name]])]
            for name, known in self.categories.items()
        }
        return Survey(
            gaps=tuple(dict.fromkeys([*self.gaps, *other.gaps])),
            categories=columns.listed(categories),
            hashes=self.hashes,
        )


@dataclass(frozen=True, eq=False)
class InputColumns:
    """The columns that the model is given, and how to make a frame of them."""

    schema: pa.Schema  #: their types, for all shards and the background
    coded: tuple[str, ...] = ()  #: columns that are categories to the model
    ordered: tuple[str, ...] = ()  #: columns whose categories are ordered, as in low < high
    #: columns of truth values in which some are missing, which pandas has no type for
    objects: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()  #: of those coded, the ones that are text in some file
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
        unordered = []
        for column in schema:
            name = column.name
            kind = column.type
            fields.append((name, pa.float64() if types.is_null(kind) else kind))
            kinds = _file_types(files, name)
            if any(map(_is_category, kinds)) or (text and _is_text(kind)):
                coded.append(name)
            if all(getattr(each, "ordered", False) for each in kinds):
                ordered.append(name)
            if not all(map(types.is_dictionary, kinds)):
                unordered.append(name)
        return cls(
            pa.schema(fields),
            coded=tuple(coded),
            ordered=tuple(ordered),
            unordered=tuple(unordered),
        )

    def listed(self, categories: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
        """Return categories in the order that counts.

        A model may have been trained on the codes of categories, so their order in the files
        counts; text has none.
        """
        return {
            name: sorted(known) if name in self.unordered else list(known)
            for name, known in categories.items()
        }

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
            arrays = [in_type(table[each.name], each.type, exactly=False) for each in self.schema]
        except pa.ArrowException as error:
            raise InputError(f"data: the types of the columns have changed: {error}") from error
        frame = pa.table(arrays, schema=self.schema).to_pandas()
        for name in self.objects:
            frame[name] = frame[name].astype(object)
        for name, kinds in self.categories.items():
            cells = pd.Categorical(frame[name], list(kinds), ordered=name in self.ordered)
            if cells.isna().sum() > frame[name].isna().sum():
                raise InputError(
                    f"data: column {name!r} holds categories that were not there when the job "
                    "began; rows that can be read only now may have them: choose another folder"
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


# A look at all cells


@dataclass(frozen=True)
class Wanted:
    """What a survey looks for."""

    schema: pa.Schema  #: of the columns that a worker reads, which are hashed; empty: no hashes
    exact: frozenset[str]  #: of them, those that must come through without loss
    doubtful: tuple[str, ...]  #: columns of which one missing value changes the type
    coded: tuple[str, ...]  #: columns that are categories

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys((*self.schema.names, *self.doubtful, *self.coded)))


@dataclass
class _Look:
    """What the rows of a shard show."""

    wanted: Wanted
    hash: RowsHash
    gaps: set[str] = field(default_factory=set)
    categories: dict[str, dict[Any, None]] = field(default_factory=dict)
    is_whole: bool = False  #: whether all rows could be read

    def add(self, table: pa.Table) -> None:
        self.hash.update(table)
        self.gaps.update(name for name in self.wanted.doubtful if table[name].null_count)
        for name in self.wanted.coded:
            _add_categories(self.categories.setdefault(name, {}), table[name], name)
        in_schema(table, self.wanted.schema, self.wanted.exact)


def survey(
    shards: Sequence[Shard],
    columns: InputColumns,
    read: pa.Schema,
    exact: Collection[str],
    seen: Callable[[int], object] | None = None,
) -> Survey:
    """Read all rows once: hash them, and find missing values and categories.

    Rows that cannot be read are left out: an error is reported when they are explained.

    Parameters
    ----------
    shards
        The rows, those of the background among them.
    columns
        The columns that the model is given.
    read
        The columns that a worker reads, which are hashed.
    exact
        Of these, the columns whose cells must come through without loss.
    seen
        Called with the number of rows that have been read since the last call.
    """
    doubtful = [each.name for each in columns.schema if _has_no_gaps(each.type)]
    wanted = Wanted(read, frozenset(exact), tuple(doubtful), columns.coded)
    looks = []
    for found in in_parallel(lambda run: _looks(run, wanted), read_together(shards)):
        looks += found
        if seen is not None:
            seen(sum(look.hash.rows for look in found))
    categories: dict[str, dict[Any, None]] = {name: {} for name in columns.coded}
    for look in looks:
        for name, known in look.categories.items():
            _add_known(categories[name], known, name)
    return Survey(
        gaps=tuple(name for name in doubtful if any(name in look.gaps for look in looks)),
        categories=columns.listed(categories),
        hashes=tuple(look.hash.hexdigest() if look.is_whole else None for look in looks),
    )


def _has_no_gaps(kind: pa.DataType) -> bool:
    """Return whether pandas has no missing values in a type."""
    return bool(types.is_integer(kind) or types.is_boolean(kind))


def _looks(run: Sequence[Shard], wanted: Wanted) -> list[_Look]:
    """Look at the rows of shards that share row groups, each of which is read once."""
    looks = [_Look(wanted, RowsHash(wanted.schema.names)) for _ in run]
    if not wanted.names:
        return looks
    try:
        for at, table in _tables(run, wanted.names):
            looks[at].add(table)
            looks[at].is_whole = looks[at].hash.rows == run[at].rows
    except UnreadableError:
        if len(run) > 1:  # some of them may be readable
            return [_looks([shard], wanted)[0] for shard in run]
    return looks


def _tables(run: Sequence[Shard], names: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of shards that follow each other, each with the number of its shard."""
    whole = replace(
        run[0],
        rows=sum(shard.rows for shard in run),
        pieces=_whole_pieces([piece for shard in run for piece in shard.pieces]),
    )
    at = 0
    left = run[0].rows
    for batch in batches(whole, names, read_at_once(len(names))):
        table = batch
        while len(table):
            taken = min(left, len(table))
            yield at, table.slice(0, taken)
            table = table.slice(taken)
            left -= taken
            if not left and at + 1 < len(run):
                at += 1
                left = run[at].rows


def _whole_pieces(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return pieces with those of one row group joined."""
    whole: list[Piece] = []
    for piece in pieces:
        if whole and whole[-1].goes_on(piece):
            whole[-1] = whole[-1].first(whole[-1].rows + piece.rows)
        else:
            whole.append(piece)
    return tuple(whole)


def _add_categories(known: dict[Any, None], column: pa.ChunkedArray, name: str) -> None:
    """Add the categories of a column's cells to those known, in the order in which they come."""
    if types.is_dictionary(column.type):
        found = [kind for chunk in column.chunks for kind in chunk.dictionary.to_pylist()]
    else:
        found = column.unique().to_pylist()
    _add_known(known, (kind for kind in found if kind is not None), name)


def _add_known(known: dict[Any, None], found: Iterable[Any], name: str) -> None:
    known.update(dict.fromkeys(found))
    if len(known) > MAX_CATEGORIES:
        raise InputError(
            f"data: column {name!r} has more than {MAX_CATEGORIES:,} different texts, which are "
            "too many to be categories; leave it out with --drop, or encode it"
        )
