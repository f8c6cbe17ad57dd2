"""Hashes of rows: what is in the cells, however a file holds them.

The same rows have the same hash whether a table is sliced, split into chunks or row groups,
compressed, or has its text as categories. So it tells whether a shard is still made of the rows
that it was planned with, which the name, size or footer of a file cannot.

A column is hashed as a few streams of bytes, which grow row by row:

    [7, None, 9]          nulls: 1           content: 7 0 9
    ["ab", None, "c"]     nulls: 1           lengths: 2 0 1     content: a b c
    [[7], [], [8, 9]]     lengths: 1 0 2     elements, as a column of their own: 7 8 9
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from shearshap.errors import InputError

SIZE = 16  #: bytes of a hash


class RowsHash:
    """The hash of rows that come table by table."""

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: _Column(name) for name in names}
        self.rows = 0

    def update(self, table: pa.Table) -> None:
        """Add the next rows; a table may have other columns, too."""
        self.rows += len(table)
        for name, column in self._columns.items():
            for chunk in table[name].chunks:
                column.update(chunk)

    def hexdigest(self) -> str:
        """Return the hash of all rows so far, and of the names of their columns."""
        whole = blake2b(f"{self.rows}".encode(), digest_size=SIZE)
        for name, column in self._columns.items():
            whole.update(f" {len(name)} {name} ".encode(errors="surrogatepass"))
            whole.update(column.digest())
        return whole.hexdigest()


class _Column:
    """The streams of a column, or of the elements or fields of one."""

    def __init__(self, name: str) -> None:
        self.name = name  #: of the table's column, for messages
        self.kinds: list[tuple[int, str]] = []  #: the types, and the first row of each
        self.rows = 0
        self.nulls = blake2b(digest_size=SIZE)  # the numbers of the rows without a value
        self.lengths = blake2b(digest_size=SIZE)
        self.content = blake2b(digest_size=SIZE)
        self.children: dict[str, _Column] = {}

    def digest(self) -> bytes:
        whole = blake2b(str(self.kinds).encode(), digest_size=SIZE)
        for stream in (self.nulls, self.lengths, self.content):
            whole.update(stream.digest())
        for child in self.children.values():
            whole.update(child.digest())
        return whole.digest()

    def update(self, cells: pa.Array) -> None:
        if not len(cells):
            return
        cells = _plain(cells)
        kind = _kind_name(cells.type)
        if [kind] != [known for _, known in self.kinds[-1:]]:
            self.kinds.append((self.rows, kind))
        if cells.null_count:
            places = np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))
            self.nulls.update((places + self.rows).tobytes())
        self._add_values(cells)
        self.rows += len(cells)

    def _add_values(self, cells: pa.Array) -> None:
        kind = cells.type
        if types.is_null(kind):
            return
        if types.is_struct(kind):
            for field, column in zip(kind, cells.flatten(), strict=True):
                self._child(field.name).update(column)
        elif types.is_list(kind) or types.is_large_list(kind):
            lengths = pc.list_value_length(cells).fill_null(0).cast(pa.int64())
            self.lengths.update(lengths.to_numpy())
            self._child("element").update(cells.flatten())
        elif types.is_large_binary(kind):
            lengths = pc.binary_length(cells).fill_null(0)
            self.lengths.update(lengths.to_numpy())
            self.content.update(_bytes(cells))
        else:
            self.content.update(_fixed_size(cells, self.name))

    def _child(self, name: str) -> "_Column":
        return self.children.setdefault(name, _Column(self.name))


def _kind_name(kind: pa.DataType) -> str:
    """Return a type's name; text has the same however long it may be."""
    if types.is_struct(kind) or types.is_list(kind) or types.is_large_list(kind):
        return str(kind.id)  # the rest is said by the columns within it
    return "bytes" if types.is_large_binary(kind) else str(kind)


def _plain(cells: pa.Array) -> pa.Array:
    """Return cells without categories, in one of the few types that are hashed."""
    kind = cells.type
    if isinstance(cells, pa.ExtensionArray):
        return _plain(cells.storage)
    if types.is_dictionary(kind):
        return _plain(cells.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(cells))
    if types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return cells.cast(pa.list_(entry))
    if types.is_fixed_size_list(kind):
        return cells.cast(pa.list_(kind.value_type))
    if types.is_string(kind) or types.is_string_view(kind):
        return cells.cast(pa.large_string()).cast(pa.large_binary())
    if types.is_large_string(kind) or types.is_binary(kind) or types.is_binary_view(kind):
        return cells.cast(pa.large_binary())
    return cells


def _bytes(cells: pa.Array) -> Any:
    """Return the bytes of texts one after the other; those without a value have none."""
    if cells.null_count:
        cells = cells.fill_null(b"")
    _, offsets, content = cells.buffers()
    if content is None:
        return b""
    ends = np.frombuffer(offsets, np.int64, len(cells) + 1, 8 * cells.offset)
    return memoryview(content)[ends[0] : ends[-1]]


def _fixed_size(cells: pa.Array, name: str) -> Any:
    """Return the bytes of cells that have the same size; those without a value are zeros."""
    kind = cells.type
    if types.is_boolean(kind):
        return cells.fill_null(False).to_numpy(zero_copy_only=False)
    try:
        width = kind.bit_width // 8
    except ValueError as error:
        raise InputError(
            f"data: column {name!r} holds {kind}, which cannot be compared with other rows; leave "
            "it out with --drop or --keep"
        ) from error
    content = np.frombuffer(cells.buffers()[1], np.uint8, len(cells) * width, cells.offset * width)
    if not cells.null_count:
        return content
    missing = cells.is_null().to_numpy(zero_copy_only=False)
    content = content.reshape(len(cells), width).copy()
    content[missing] = 0
    return content
