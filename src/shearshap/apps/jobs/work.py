"""The work on a shard: its rows are read, explained block by block, and written as a part.

It is the same in every executor, and for a file, whose rows are one shard.

A worker may be on another machine than the driver, and any time may have passed. So it compares
its version, folder and model with the driver's, and hashes the rows as it reads them. The part
carries what it was made of: see `shearshap.apps.jobs.manifest`.
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
from shearshap.apps.jobs.cells import RowsHash
from shearshap.apps.jobs.columns import InputColumns, in_schema, joined
from shearshap.apps.jobs.manifest import Run
from shearshap.apps.jobs.models import ModelSource, restore_cwd
from shearshap.apps.jobs.options import device_of
from shearshap.apps.jobs.places import opened, reason, written_whole
from shearshap.apps.jobs.shards import (
    BUFFER,
    MIN_ROWS,
    Shard,
    ShardResult,
    batches,
    in_type,
    read_at_once,
)
from shearshap.apps.jobs.tables import METADATA, READ_ERRORS
from shearshap.apps.jobs.urls import Place
from shearshap.errors import InputError, ModelError, ShearError, collect_warnings
from shearshap.explainer import Explainer
from shearshap.result.explanation import Explanation, join, spent_evaluations

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  #: errors of a disk that takes no more files
INTERACTIONS = "_interactions"  #: the folder of interactions, among the parts


class NodeError(InputError):
    """A machine has not what the job needs: its fault, and not the shard's."""


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
            join([block.explanation for block in blocks]),
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
    read: pa.Schema  #: of all columns that are read
    carried: pa.Schema  #: columns of the data that are written, and that of the ids
    id_column: str | None = None
    label: str | None = None  #: the column of labels, for a loss
    devices: tuple[str, ...] = ()  #: that workers take turns with; none: where the model is
    out: Place = Path()  #: the folder of the parts
    run: Run | None = None  #: that writes them
    key: str = ""  #: of the manifest
    model_hash: str = ""  #: of the model that the driver has opened
    version: str = __version__  #: the driver's
    part_columns: Mapping[str, str] = field(default_factory=dict)  #: of the explanation: types

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Explain a shard, write its part, and report."""
        started = time.perf_counter()
        report = ShardResult(shard, attempt=attempt, worker=f"{socket.gethostname()}:{os.getpid()}")
        notes: list[str] = []
        try:
            self._check_node()
            with collect_warnings(notes):
                evaluations = self._write_part(shard, attempt, worker, notes)
            report = replace(report, rows=shard.rows, evaluations=evaluations)
        except OSError as error:
            message = f"{self.out / shard.name} cannot be written: {reason(error)}"
            report = replace(report, error=message, node_fault=error.errno in FULL)
        except NodeError as error:
            report = replace(report, error=str(error), node_fault=True)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (one must not stop the others)
            again = not isinstance(error, InputError)
            report = replace(report, error=_in_words(error, shard), again=again)
        seconds = time.perf_counter() - started
        distinct = tuple(dict.fromkeys(notes))
        return replace(report, seconds=seconds, peak_bytes=_peak_bytes(), notes=distinct)

    def blocks(
        self, shard: Shard, *, rows: int = 0, worker: int = 0, progress: bool | None = False
    ) -> Generator[Block]:
        """Yield the blocks of a shard; limit the rows that are read at once."""
        model = self.source.open_in_worker().model
        explainer = Explainer(model, **self.options, device=device_of(self.devices, worker))
        first_row = shard.first_row
        for table in joined(self._tables(shard, rows), rows):
            frame = self.columns.frame(table)
            y = None if self.label is None else table[self.label].to_pandas()
            with _row_of_all(first_row), restore_cwd():
                for explanation in explainer.stream(frame, y=y, progress=progress, **self.call):
                    at = explanation.index
                    yield Block(explanation, _rows_at(table, at), first_row + at)
            first_row += len(table)

    def _tables(self, shard: Shard, rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a shard, in types that are the same for all shards.

        Raise behind the last if they are not those that the job began with: a part is not complete
        before.
        """
        names = self.read.names
        exact = set(self.carried.names)
        found = RowsHash(names)
        for table in batches(shard, names, rows):
            if shard.table is None:
                found.update(table)
            yield in_schema(table, self.read, exact)
        if shard.table is None and found.hexdigest() != shard.hash:
            raise NodeError(
                f"data: {shard.place}: these are not the rows that the run began with; the data "
                "has been changed since, or is another on this machine"
            )

    def values(self, block: Block) -> pa.Table:
        """Return a line for each row: its label, base value, prediction, values, and data."""
        wide = block.explanation.to_frame("pyarrow", wide=True)
        values = dict(zip(wide.column_names[1:], wide.columns[1:], strict=True))
        data = {
            f"data.{each.name}": in_type(block.data[each.name], each.type, exactly=True)
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
        kind = self.carried.field(self.id_column).type
        return in_type(block.data[self.id_column], kind, exactly=True)

    def _carried_data(self) -> list[pa.Field]:
        return [each for each in self.carried if each.name != self.id_column]

    def _label_name(self, others: Sequence[str]) -> str:
        """Return the name of the column of labels beside others."""
        name = self.id_column
        return "row" if name is None or name in {*others, *self.part_columns} else name

    # Parts

    def _check_node(self) -> None:
        """Raise if this machine has another version, folder or model than the driver."""
        if self.version != __version__:
            raise NodeError(
                f"{socket.gethostname()} has shearshap {__version__}, and the driver has "
                f"{self.version}; install the same version on all machines"
            )
        if self.run is not None and not self.run.is_current():
            raise NodeError(
                f"out: {self.out} on {socket.gethostname()} is not the folder of this run: another "
                "run has taken it over, or it is a disk of that machine's own; the folder must be "
                "one that all machines share"
            )
        try:
            model = self.source.open_in_worker()
        except InputError as error:
            raise NodeError(f"{error} (on {socket.gethostname()})") from error
        if model.hash != self.model_hash:
            raise NodeError(
                f"model: {model.name} on {socket.gethostname()} is not the model that the run "
                "began with; it has been changed since, or is another on that machine"
            )

    def _check_readable(self, shard: Shard) -> None:
        """Raise if the rows could not be read when the run began, and so have no hash."""
        if shard.hash is None:
            for _ in batches(shard, self.read.names, read_at_once(len(self.read))):
                pass
            raise InputError(
                f"data: {shard.place} could not be read when the run began; run the same command "
                "again"
            )

    def _write_part(self, shard: Shard, attempt: int, worker: int, notes: list[str]) -> int:
        """Write the part of a shard; return the evaluations that it took."""
        self._check_readable(shard)
        # memory may have run out at the attempt before
        rows = max(MIN_ROWS, min(shard.rows, read_at_once(len(self.columns.schema))) >> attempt - 1)
        evaluations = 0
        with ExitStack() as files:
            # the part last, since it stands for both
            part, *pairs = [
                files.enter_context(_part_writer(place, schema))
                for place, schema in self._files(shard).items()
            ]
            # closed at once if it fails: then the model's folder is left, too
            blocks = files.enter_context(closing(self.blocks(shard, rows=rows, worker=worker)))
            for block in blocks:
                evaluations += int(spent_evaluations(block.explanation).sum())
                notes += block.explanation.notes
                _write_lines(part, self.values(block))
                for each in pairs:
                    _write_lines(each, self.pairs(block))
        return evaluations

    def _files(self, shard: Shard) -> dict[Place, pa.Schema]:
        """Return the columns of the files of a shard, by their places, the part first.

        Their metadata are what the part is made of.
        """
        files = {self.out / shard.name: self.part_schema()}
        if self.call.get("interactions"):
            files[self.out / INTERACTIONS / shard.name] = self._pair_schema()
        rows = [shard.first_row, shard.rows, shard.hash]
        facts = {"job": self.key, "model": self.model_hash, "rows": rows, "version": __version__}
        metadata = {METADATA: json.dumps(facts).encode()}
        return {place: schema.with_metadata(metadata) for place, schema in files.items()}

    def is_done(self, shard: Shard, *, whole: bool = False) -> bool:
        """Return whether the files of a shard are there, made of what the job has now.

        With `whole`, files on a disk are read to the end, where a bit may have changed: each page
        has a checksum. An object store has checksums of its own.
        """
        if shard.hash is None:
            return False
        return all(
            _is_part(place, schema, whole=whole and isinstance(place, Path))
            for place, schema in self._files(shard).items()
        )

    def part_schema(self) -> pa.Schema:
        """Return the columns of a part."""
        data = [pa.field(f"data.{each.name}", each.type) for each in self._carried_data()]
        label = pa.int64()
        if self.id_column is not None:
            label = self.carried.field(self.id_column).type
        types = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
        fields = [pa.field(self._label_name([each.name for each in data]), label)]
        fields += [pa.field(name, types[kind]) for name, kind in self.part_columns.items()]
        return pa.schema([*fields, *data])

    def _pair_schema(self) -> pa.Schema:
        """Return the columns of a part's interactions."""
        schema = self.part_schema()
        text = pa.string()
        members = [("feature", text), ("other", text)]
        if self.call["interactions"] > 2:
            members = [("size", pa.int64()), ("features", text)]
        numbers = [(name, pa.float64()) for name in ("value", "standard_error")]
        return pa.schema(
            [("row", schema.field(0).type), ("output", text), *members, *numbers],
        )


@contextmanager
def _part_writer(place: Place, schema: pa.Schema) -> Iterator[Any]:
    """Open a Parquet file that is written whole or not at all."""
    with (
        written_whole(place) as partial,
        pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer,
    ):
        yield writer


def _is_part(place: Place, schema: pa.Schema, *, whole: bool) -> bool:
    """Return whether a file has such columns, and is made of this."""
    try:
        with (
            opened(place) as content,
            pq.ParquetFile(content, buffer_size=BUFFER, page_checksum_verification=True) as file,
        ):
            found = file.schema_arrow
            if not found.equals(schema) or _made_of(found) != _made_of(schema):
                return False
            # of some damaged pages pyarrow reads no rows, without an error
            return not whole or sum(map(len, file.iter_batches())) == file.metadata.num_rows
    except (*READ_ERRORS, InputError, LookupError, ValueError, TypeError, RecursionError):
        return False


def _made_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the hashes of what a part is made of."""
    facts: dict[str, Any] = json.loads((schema.metadata or {})[METADATA])
    return {name: facts.get(name) for name in ("job", "model", "rows")}


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
