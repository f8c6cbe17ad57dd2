"""The work on a shard: its rows are read, explained block by block, and written as a part.

It is the same in every executor, and for a file, whose rows are one shard.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet as pq

from shearshap import __version__
from shearshap.errors import InputError, ModelError, ShearError, collect_warnings
from shearshap.explainer import Explainer
from shearshap.jobs.manifest import file_hash
from shearshap.jobs.models import ModelSource, restore_cwd
from shearshap.jobs.options import device_of
from shearshap.jobs.shards import (
    MIN_ROWS,
    InputColumns,
    Shard,
    ShardResult,
    batches,
    in_type,
    read_at_once,
)
from shearshap.jobs.tables import METADATA
from shearshap.result.explanation import Explanation, spent_evaluations
from shearshap.store import written_whole

Hashes = tuple[tuple[str, str], ...]  #: of files, by name

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  #: errors of a disk that takes no more files
INTERACTIONS = "_interactions"  #: the folder of interactions, among the parts


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that were explained together."""

    explanation: Explanation
    data: pa.Table  #: the rows' columns, as they were read
    numbers: NDArray[np.int64]  #: of the rows among all rows of the job

    @classmethod
    def concat(cls, blocks: Sequence["Block"]) -> "Block":
        """Return several blocks as one."""
        return cls(
            Explanation.concat(block.explanation for block in blocks),
            pa.concat_tables([block.data for block in blocks]),
            np.concatenate([block.numbers for block in blocks]),
        )


@dataclass(frozen=True, eq=False)
class ShardWork:
    """What every worker of a job needs to know; it can be pickled.

    A model that is a file is opened by each process. A model that is an object goes along with the
    work: an executor on several machines sends the work there once, not with every shard.
    """

    source: ModelSource
    options: dict[str, Any]  #: of the `Explainer`, but for its model
    call: dict[str, Any]  #: of its call
    columns: InputColumns  #: that the model is given
    carried: pa.Schema  #: columns of the data that are written, and that of the ids
    id_column: str | None = None
    label: str | None = None  #: the column of labels, for a loss
    devices: tuple[str, ...] = ()  #: that workers take turns with; none: where the model is
    out: Path = Path()  #: the folder of the parts
    key: str = ""  #: the hash of the manifest, which every part names
    part_columns: Mapping[str, str] = field(default_factory=dict)  #: of the explanation: types

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Explain a shard, write its part, and report."""
        started = time.perf_counter()
        node = socket.gethostname()
        report = ShardResult(shard, attempt=attempt, worker=f"{node}:{os.getpid()}", node=node)
        notes: list[str] = []
        try:
            with collect_warnings(notes):
                evaluations, hashes = self._write_part(shard, attempt, worker, notes)
            report = replace(report, rows=shard.rows, hashes=hashes, evaluations=evaluations)
        except OSError as error:
            message = f"{self.out / shard.name} cannot be written: {error.strerror or error}"
            report = replace(report, error=message, node_fault=error.errno in FULL)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (one must not stop the others)
            again = not isinstance(error, InputError)
            report = replace(report, error=_in_words(error, shard), again=again)
        seconds = time.perf_counter() - started
        distinct = tuple(dict.fromkeys(notes))
        return replace(report, seconds=seconds, peak_bytes=_peak_bytes(), notes=distinct)

    def blocks(
        self, shard: Shard, *, rows: int = 0, worker: int = 0, progress: bool | None = False
    ) -> Generator[Block]:
        """Yield the blocks of a shard, of which at most so many rows are read at once."""
        model = self.source.open_in_worker().model
        explainer = Explainer(model, **self.options, device=device_of(self.devices, worker))
        first_row = shard.first_row
        for table in batches(shard, self.names, rows):
            frame = self.columns.frame(table)
            y = None if self.label is None else table[self.label].to_pandas()
            with _row_of_all(first_row), restore_cwd():
                for explanation in explainer.stream(frame, y=y, progress=progress, **self.call):
                    at = explanation.index
                    yield Block(explanation, _rows_at(table, at), first_row + at)
            first_row += len(table)

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        labels = () if self.label is None else (self.label,)
        return list(dict.fromkeys((*self.columns.schema.names, *self.carried.names, *labels)))

    def values(self, block: Block) -> pa.Table:
        """Return a line for each row: its label, base value, prediction, values, and data."""
        wide = block.explanation.to_frame("pyarrow", wide=True)
        values = dict(zip(wide.column_names[1:], wide.columns[1:], strict=True))
        data = {
            f"data.{each.name}": in_type(block.data[each.name], each.type)
            for each in self._carried_data()
        }
        name = self._label_name([*values, *data])
        return pa.table({name: self.labels(block)} | values | data)

    def pairs(self, block: Block) -> pa.Table:
        """Return the interactions: a line for each row, output and pair, or set, of features."""
        numbered = replace(block.explanation, index=np.arange(len(block.explanation)))
        table = numbered.to_frame("pyarrow", interactions=True)
        return table.set_column(0, "row", self.labels(block).take(table["row"]))

    def labels(self, block: Block) -> pa.Array | pa.ChunkedArray:
        """Return the ids of a block's rows, or their numbers among all rows."""
        if self.id_column is None:
            return pa.array(block.numbers)
        return in_type(block.data[self.id_column], self.carried.field(self.id_column).type)

    def _carried_data(self) -> list[pa.Field]:
        return [each for each in self.carried if each.name != self.id_column]

    def _label_name(self, others: Sequence[str]) -> str:
        """Return the name of the column of labels beside others."""
        name = self.id_column
        return "row" if name is None or name in {*others, *self.part_columns} else name

    # Parts

    def _write_part(
        self, shard: Shard, attempt: int, worker: int, notes: list[str]
    ) -> tuple[int, Hashes]:
        """Write the part of a shard; return the evaluations that it took, and the files' hashes."""
        # memory may have run out at the attempt before
        rows = max(MIN_ROWS, min(shard.rows, read_at_once(len(self.columns.schema))) >> attempt - 1)
        evaluations = 0
        hashes: dict[str, str] = {}
        with ExitStack() as files:
            # the part last, since it stands for both
            schema = self.part_schema()
            part = files.enter_context(_part_writer(self.out, shard.name, schema, hashes))
            pairs = None
            if self.call.get("interactions"):
                name = f"{INTERACTIONS}/{shard.name}"
                schema = self._pair_schema()
                pairs = files.enter_context(_part_writer(self.out, name, schema, hashes))
            # closed at once if it fails: then the model's folder is left, too
            blocks = files.enter_context(closing(self.blocks(shard, rows=rows, worker=worker)))
            for block in blocks:
                evaluations += int(spent_evaluations(block.explanation).sum())
                notes += block.explanation.notes
                _write_lines(part, self.values(block))
                if pairs is not None:
                    _write_lines(pairs, self.pairs(block))
        return evaluations, tuple(hashes.items())

    def part_schema(self) -> pa.Schema:
        """Return the columns of a part."""
        data = [pa.field(f"data.{each.name}", each.type) for each in self._carried_data()]
        label = pa.int64()
        if self.id_column is not None:
            label = self.carried.field(self.id_column).type
        types = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
        fields = [pa.field(self._label_name([each.name for each in data]), label)]
        fields += [pa.field(name, types[kind]) for name, kind in self.part_columns.items()]
        metadata = {METADATA: json.dumps({"job": self.key, "version": __version__}).encode()}
        return pa.schema([*fields, *data], metadata=metadata)

    def _pair_schema(self) -> pa.Schema:
        """Return the columns of a part's interactions."""
        schema = self.part_schema()
        text = pa.string()
        members = [("feature", text), ("other", text)]
        if self.call["interactions"] > 2:
            members = [("size", pa.int64()), ("features", text)]
        numbers = [(name, pa.float64()) for name in ("value", "standard_error")]
        fields = [("row", schema.field(0).type), ("output", text), *members, *numbers]
        return pa.schema(fields, metadata=schema.metadata)


@contextmanager
def _part_writer(
    folder: Path, name: str, schema: pa.Schema, hashes: dict[str, str]
) -> Iterator[Any]:
    """Open a Parquet file that is written whole or not at all; then add its hash to the others."""
    with written_whole(folder / name) as partial:
        with pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer:
            yield writer
        hashes[name] = file_hash(partial)


def _write_lines(writer: Any, table: pa.Table) -> None:
    """Write the lines of a block, which may have no standard errors when others have some."""
    schema = writer.schema
    known = {*table.column_names}
    columns = [
        table[each.name].cast(each.type) if each.name in known else pa.nulls(len(table), each.type)
        for each in schema
    ]
    writer.write_table(pa.table(columns, schema=schema))


def _rows_at(table: pa.Table, at: NDArray[np.int64]) -> pa.Table:
    """Return rows by their numbers, without a copy if they are consecutive.

    Before an error, a stream yields all rows that are done, which need not be.
    """
    is_slice = at[-1] - at[0] + 1 == len(at)
    return table.slice(at[0], len(at)) if is_slice else table.take(at)


@contextmanager
def _row_of_all(first_row: int) -> Iterator[None]:
    """Add to a model's error the row among all rows of the job, if that is another number."""
    try:
        yield
    except ModelError as error:
        if error.row is not None and first_row:
            error.args = (f"{error}; this is row {first_row + error.row:,} of all rows",)
        raise


def _in_words(error: BaseException, shard: Shard) -> str:
    """Return an error as one line."""
    if isinstance(error, SystemExit):
        return f"the model's code called exit (with {error.code!r}) on {shard.place}"
    line = " ".join(str(error).split())
    return line if isinstance(error, ShearError) else f"{type(error).__name__}: {line}"


def _peak_bytes() -> int:
    """Return the most memory that this process has held; 0 if that is not known."""
    try:
        # not getrusage: a process begins with the peak of the one that started it
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) << 10 if lines else 0
