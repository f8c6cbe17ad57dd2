"""The columns of a job's rows: the same types in every shard, and in the background.

Shards are read apart, but a column must not be whole numbers in one shard and floating ones in the
next because a value is missing there, or have other categories. So types and categories are found
for all files, and the background, before the first shard is explained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from shearshap.errors import InputError
from shearshap.jobs.shards import (
    InputFile,
    Shard,
    UnreadableError,
    batches,
    null_counts,
    read_at_once,
)

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CATEGORIES = 100_000
"""Categories of a column at most: it is more likely a text or an id."""


def common_schema(files: Sequence[InputFile], schemas: Sequence["pa.Schema"]) -> "pa.Schema":
    """Return the columns that all files have, each in a type that holds those of every file."""
    import pyarrow as pa

    first = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        if set(schema.names) != set(first.names):
            different = sorted(set(schema.names) ^ set(first.names))
            raise InputError(
                f"data: {files[0].source} and {file.source} have different columns "
                f"({', '.join(different[:5])}); all files of a job have the same"
            )
    plain = [pa.schema([(each.name, plain_type(each.type)) for each in one]) for one in schemas]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"data: the files' columns have different types: {error}") from error


def frames(
    data: "pa.Table", background: "pa.Table | None" = None, *, categories: bool = False
) -> list[Any]:
    """Return data and background as frames of pandas, in which every column has one type.

    A column that is categories in one of them is so in both. With `categories`, all text is.
    """
    import pyarrow as pa

    tables = [data] if background is None else [data, background]
    schemas = [table.schema for table in tables]
    missing = [each.name for each in data.schema if data[each.name].null_count == len(data)]
    fields = [
        (each.name, pa.null() if each.name in missing else plain_type(each.type))
        for each in data.schema
    ]
    columns = InputColumns.from_schema(pa.schema(fields), background, ordered_columns(schemas))
    names = category_columns(schemas, columns, text=categories)
    columns = columns.settled(Survey.from_tables(tables, columns, names))
    return [columns.frame(table) for table in tables]


def plain_type(kind: "pa.DataType") -> "pa.DataType":
    """Return the type of the values of categories, and any other type as it is."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def in_type(column: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray":
    """Return a column, with values for categories, in the type that it has in all shards."""
    from pyarrow import types

    # whole numbers beyond 2^53 are rounded, as pandas does beside missing ones
    return column.cast(plain_type(column.type)).cast(kind, safe=not types.is_floating(kind))


@dataclass(frozen=True, eq=False)
class InputColumns:
    """The columns that the model is given, and how to make a frame of them."""

    schema: "pa.Schema"  #: their types, for all shards and the background
    #: columns of truth values in which some are missing, which pandas has no type for
    objects: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[Any]] | None = None
    ordered: tuple[str, ...] = ()  #: columns whose categories are ordered, as in low < high

    @classmethod
    def from_schema(
        cls, schema: "pa.Schema", background: "pa.Table | None", ordered: Sequence[str] = ()
    ) -> "InputColumns":
        """Return the columns of a schema, in types that fit the background too."""
        import pyarrow as pa
        from pyarrow import types

        fields = []
        for column in schema:
            kind = column.type
            if background is not None:
                kind = _with_background(column, background[column.name])
            fields.append((column.name, pa.float64() if types.is_null(kind) else kind))
        return cls(pa.schema(fields), ordered=tuple(ordered))

    def settled(self, survey: "Survey") -> "InputColumns":
        """Return the columns with what a survey of all rows has found."""
        import pyarrow as pa
        from pyarrow import types

        fields = []
        objects = []
        for column in self.schema:
            kind = column.type
            gap = column.name in survey.gaps
            if gap and types.is_integer(kind):
                kind = pa.float64()  # as pandas has it
            if gap and types.is_boolean(kind):
                objects.append(column.name)
            fields.append((column.name, kind))
        return replace(
            self,
            schema=pa.schema(fields),
            objects=tuple(objects),
            categories=survey.categories,
        )

    def frame(self, table: "pa.Table") -> Any:
        """Return rows as a frame of pandas; raise where a cell does not fit the column."""
        import pyarrow as pa

        names = self.schema.names
        try:
            arrays = [in_type(table[name], self.schema.field(name).type) for name in names]
        except pa.ArrowException as error:
            raise InputError(f"data: the types of the columns have changed: {error}") from error
        for name, array in zip(names, arrays, strict=True):
            if array.null_count and _is_without_gaps(array.type) and name not in self.objects:
                raise InputError(
                    f"data: a value is missing in column {name!r}, where none was missing when the "
                    "job began"
                )
        frame = pa.table(arrays, schema=self.schema).to_pandas()
        for name in self.objects:
            frame[name] = frame[name].astype(object)
        for name, kinds in (self.categories or {}).items():
            frame[name] = _categorical(frame[name], kinds, name, ordered=name in self.ordered)
        return frame


def _with_background(field: "pa.Field", background: "pa.ChunkedArray") -> "pa.DataType":
    """Return a type that holds a column of the data and of the background."""
    import pyarrow as pa

    kind = plain_type(background.type)
    if background.null_count == len(background):
        return field.type
    schemas = [pa.schema([("", field.type)]), pa.schema([("", kind)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException as error:
        raise InputError(
            f"column {field.name!r} holds {field.type} in the data, and {kind} in the background; "
            "give both the same type"
        ) from error


def _categorical(column: Any, kinds: Sequence[Any], name: str, *, ordered: bool) -> Any:
    import pandas as pd

    categorical = pd.Categorical(column, categories=list(kinds), ordered=ordered)
    if categorical.isna().sum() > column.isna().sum():
        raise InputError(
            f"data: column {name!r} holds categories that were not there when the job began"
        )
    return categorical


def _is_without_gaps(kind: "pa.DataType") -> bool:
    """Return whether pandas has no missing values in a type."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_boolean(kind))


def category_columns(
    schemas: Sequence["pa.Schema"], columns: InputColumns, *, text: bool
) -> list[str]:
    """Return the columns that are categories to the model: in any file; with `text`, all text."""
    names = {each.name for schema in schemas for each in schema if _is_category(each.type)}
    if text:
        names |= {each.name for each in columns.schema if _is_text(each.type)}
    return [name for name in columns.schema.names if name in names]


def ordered_columns(schemas: Sequence["pa.Schema"]) -> list[str]:
    """Return the columns whose categories are ordered in every file."""
    from pyarrow import types

    return [
        name
        for name in schemas[0].names
        if all(types.is_dictionary(schema.field(name).type) for schema in schemas)
        and all(schema.field(name).type.ordered for schema in schemas)
    ]


def _is_text(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_category(kind: "pa.DataType") -> bool:
    """Return whether a type is of categories, of the kinds that a manifest can hold."""
    from pyarrow import types

    if not types.is_dictionary(kind):
        return False
    value = kind.value_type
    return _is_text(value) or bool(types.is_integer(value) or types.is_floating(value))


@dataclass(frozen=True)
class Survey:
    """What the cells of all rows are, as far as a column's type depends on it."""

    gaps: tuple[str, ...]  #: columns of whole numbers or truth values, of which one is missing
    categories: dict[str, list[Any]]  #: of columns

    @classmethod
    def from_tables(
        cls, tables: Sequence["pa.Table"], columns: InputColumns, names: Sequence[str]
    ) -> "Survey":
        """Look at all cells of tables, of which some columns, by name, are categories."""
        doubtful = [each.name for each in columns.schema if _is_without_gaps(each.type)]
        gaps: set[str] = set()
        categories = {name: _Categories() for name in names}
        for table in tables:
            _look(table, doubtful, gaps, categories)
        found = {name: kinds.listed() for name, kinds in categories.items()}
        return cls(tuple(name for name in doubtful if name in gaps), found)

    @classmethod
    def from_shards(
        cls,
        shards: Sequence[Shard],
        background: "pa.Table | None",
        columns: InputColumns,
        names: Sequence[str],
    ) -> "Survey":
        """Look at the columns in which a value may be missing, and at categories, by name.

        A file's footer counts missing values, so cells are read only for categories and if there is
        no count. Categories have the order that they have in the files, since a model may have been
        trained on their codes. Those of a column that is text in some file have the order of their
        names. A shard that cannot be read is left out: who explains it says what is wrong with it.
        """
        doubtful = [field.name for field in columns.schema if _is_without_gaps(field.type)]
        gaps: set[str] = set()
        categories = {name: _Categories() for name in names}
        nulls = {path: null_counts(path) for path in {shard.path for shard in shards}}
        for shard in shards:
            counts = nulls[shard.path][shard.group]
            gaps.update(name for name in doubtful if counts.get(name))
            uncounted = [name for name in doubtful if name not in counts]
            read = list(dict.fromkeys([*uncounted, *names]))
            if not read:
                continue
            try:
                for table in batches(shard, read, read_at_once(len(read))):
                    _look(table, uncounted, gaps, categories)
            except UnreadableError:
                continue
        if background is not None:
            _look(background, doubtful, gaps, categories)
        found = {name: kinds.listed() for name, kinds in categories.items()}
        return cls(tuple(name for name in doubtful if name in gaps), found)


@dataclass
class _Categories:
    """The categories of a column, as far as its cells were looked at."""

    kinds: dict[Any, None] = field(default_factory=dict)  #: in the order in which they came
    has_order: bool = True  #: whether they are categories in all files, which have an order

    def look(self, column: "pa.ChunkedArray") -> None:
        """Take in more cells."""
        from pyarrow import types

        if types.is_dictionary(column.type):
            for chunk in column.chunks:
                self.kinds.update(dict.fromkeys(chunk.dictionary.drop_null().to_pylist()))
            return
        self.has_order = False
        self.kinds.update(dict.fromkeys(column.unique().drop_null().to_pylist()))

    def listed(self) -> list[Any]:
        """Return the categories in their order."""
        return list(self.kinds) if self.has_order else sorted(self.kinds)


def _look(
    table: "pa.Table",
    doubtful: Sequence[str],
    gaps: set[str],
    categories: Mapping[str, _Categories],
) -> None:
    """Take in more rows."""
    gaps.update(name for name in doubtful if table[name].null_count)
    for name, known in categories.items():
        known.look(table[name])
        if len(known.kinds) > MAX_CATEGORIES:
            raise InputError(
                f"data: column {name!r} has more than {MAX_CATEGORIES:,} different texts, which "
                "are too many to be categories; leave it out with --drop, or encode it"
            )
