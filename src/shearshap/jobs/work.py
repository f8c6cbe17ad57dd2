"""The work on a shard: its rows are read, explained block by block, and written as a part.

It is the same in every executor. If the same process works on several shards, the model is
opened once.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from shearshap.errors import InputError, ModelError, ShearError
from shearshap.explainer import Explainer
from shearshap.games.batches import out_of_memory
from shearshap.jobs.columns import InputColumns, in_type
from shearshap.jobs.executors import ShardResult
from shearshap.jobs.manifest import file_hash
from shearshap.jobs.models import ModelSource, folder_kept
from shearshap.jobs.options import device_of, our_warnings_as
from shearshap.jobs.places import METADATA
from shearshap.jobs.shards import Shard, batches, read_at_once
from shearshap.result.explanation import Explanation
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

Hashes = tuple[tuple[str, str], ...]  #: of files, by name

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  #: errors of a disk that takes no more files
MIN_ROWS = 16  #: that are explained at once if memory runs out
INTERACTIONS = "_interactions"  #: the folder of interactions, among the parts


@dataclass(frozen=True, eq=False)
class ShardWork:
    """What every worker of a job needs to know; it can be pickled.

    A model that is a file is opened by each process. A model that is an object goes along with the
    work: who runs on several machines sends the work there once, and not with every shard.
    """

    out: Path  #: the folder of the parts
    key: str  #: the hash of the manifest, which every part names
    source: ModelSource
    options: dict[str, Any]  #: of the `Explainer`, but for its model
    call: dict[str, Any]  #: of its call
    columns: InputColumns  #: that the model is given
    part_columns: tuple[tuple[str, str], ...]  #: of the explanation in a part, with their types
    carried: "pa.Schema"  #: columns of the data that go into the part
    id_column: str | None = None
    devices: tuple[str, ...] = ()  #: that workers take turns with; none: where the model is

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Explain a shard, write its part, and report."""
        started = time.perf_counter()
        report = ShardResult(shard, attempt=attempt, worker=_this_process())
        notes: list[str] = []
        try:
            with our_warnings_as(notes):
                evaluations, hashes = self._write_part(shard, worker)
            report = replace(report, rows=shard.rows, hashes=hashes, evaluations=evaluations)
        except OSError as error:
            full = error.errno in FULL
            message = f"{self.out / shard.name} cannot be written: {error.strerror or error}"
            report = replace(report, error=message, halts=full)
        except InputError as error:
            report = replace(report, error=_one_line(error), again=False)
        except (ShearError, SystemExit) as error:
            report = replace(report, error=_in_words(error, shard))
        except Exception as error:  # noqa: BLE001  (one shard must not stop the others)
            report = replace(report, error=f"{type(error).__name__}: {_one_line(error)}")
        seconds = time.perf_counter() - started
        return replace(report, seconds=seconds, peak_bytes=peak_bytes(), notes=tuple(notes))

    def _write_part(self, shard: Shard, worker: int) -> tuple[int, Hashes]:
        """Write the part of a shard; return the evaluations that it took, and the files' hashes.

        If memory runs out, it is tried again with half as many rows at once.
        """
        device = device_of(self.devices, worker)
        explainer = Explainer(_opened_model(self), **self.options, device=device)
        rows = read_at_once(len(self.columns.schema))
        while True:
            try:
                return self._write_blocks(shard, explainer, rows)
            except Exception as error:
                cause = error.__cause__ if isinstance(error, ModelError) else error
                if cause is None or not out_of_memory(cause) or rows <= MIN_ROWS:
                    raise
            rows = max(MIN_ROWS, min(rows, shard.rows) // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _write_blocks(self, shard: Shard, explainer: Explainer, rows: int) -> tuple[int, Hashes]:
        evaluations = 0
        with ExitStack() as files:
            # the part last, since it stands for both
            part = files.enter_context(_PartWriter.open(self.out, shard.name, self.part_schema()))
            pairs = None
            if self.call.get("interactions"):
                name = f"{INTERACTIONS}/{shard.name}"
                pairs = files.enter_context(_PartWriter.open(self.out, name, self._pair_schema()))
            for explanation, data, first_row in self._blocks(shard, explainer, rows):
                evaluations += spent(explanation)
                label = self._label(explanation, data, first_row)
                part.write(self._columns(explanation, data, label))
                if pairs is not None:
                    pairs.write(_pair_columns(explanation, label))
        hashes = [(each.name, each.hash) for each in (pairs, part) if each is not None]
        return evaluations, tuple(hashes)

    def _blocks(
        self, shard: Shard, explainer: Explainer, rows: int
    ) -> Iterator[tuple[Explanation, "pa.Table", int]]:
        """Yield explanations of blocks, their rows of the data, and the number of the first."""
        names = dict.fromkeys((*self.columns.schema.names, *self.carried.names))
        if self.id_column is not None:
            names[self.id_column] = None
        first_row = shard.first_row
        for table in batches(shard, list(names), rows):
            at = 0
            frame = self.columns.frame(table)
            with _row_of_all(first_row), folder_kept():
                for block in explainer.stream(frame, progress=False, **self.call):
                    yield block, table.slice(at, len(block)), first_row + at
                    at += len(block)
            first_row += len(table)

    def part_schema(self) -> "pa.Schema":
        """Return the columns of a part."""
        import pyarrow as pa

        data = [field for field in self.carried if field.name != self.id_column]
        label = pa.field("row", pa.int64())
        if self.id_column is not None:
            taken = {*dict(self.part_columns), *(f"data.{field.name}" for field in data)}
            name = self.id_column if self.id_column not in taken else "row"
            label = pa.field(name, self.carried.field(self.id_column).type)
        types = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
        fields = [label]
        fields += [pa.field(name, types[kind]) for name, kind in self.part_columns]
        fields += [pa.field(f"data.{field.name}", field.type) for field in data]
        return pa.schema(fields, metadata={METADATA: json.dumps({"job": self.key}).encode()})

    def _label(
        self, explanation: Explanation, data: "pa.Table", first_row: int
    ) -> "pa.Array | pa.ChunkedArray":
        """Return the ids of a block's rows, or their numbers among all rows."""
        import pyarrow as pa

        if self.id_column is None:
            return pa.array(np.arange(first_row, first_row + len(explanation)))
        return in_type(data[self.id_column], self.carried.field(self.id_column).type)

    def _columns(self, explanation: Explanation, data: "pa.Table", label: Any) -> list[Any]:
        """Return the columns of a block's lines."""
        import pyarrow as pa

        wide = explanation.to_frame("pyarrow", wide=True)
        schema = self.part_schema()
        columns = [label]
        for name, _ in self.part_columns:
            # a block may have no standard errors when others have some
            known = name in wide.column_names
            columns.append(wide[name] if known else pa.nulls(len(wide), schema.field(name).type))
        others = [field for field in self.carried if field.name != self.id_column]
        columns += [in_type(data[field.name], field.type) for field in others]
        return columns

    def _pair_schema(self) -> "pa.Schema":
        """Return the columns of a part's interactions."""
        import pyarrow as pa

        label = self.part_schema().field(0).type
        texts = [(name, pa.string()) for name in ("output", "player", "other")]
        fields = [("row", label), *texts, ("value", pa.float64())]
        return pa.schema(fields, metadata=self.part_schema().metadata)


def _pair_columns(explanation: Explanation, label: Any) -> list[Any]:
    """Return the columns of the interactions in a block: a line for each row, output and pair."""
    numbered = replace(explanation, index=np.arange(len(explanation)))
    table = numbered.to_frame("pyarrow", interactions=True)
    return [label.take(table["row"]), *table.columns[1:]]


@dataclass
class _PartWriter:
    """Writes a Parquet file block by block, whole or not at all."""

    name: str
    writer: Any
    hash: str = ""  #: once the file is complete

    @classmethod
    @contextmanager
    def open(cls, folder: Path, name: str, schema: "pa.Schema") -> Iterator["_PartWriter"]:
        """Open the file for a while."""
        from pyarrow import parquet as pq

        with written_whole(folder / name) as partial:
            with pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer:
                part = cls(name, writer)
                yield part
            part.hash = file_hash(partial)

    def write(self, columns: Sequence[Any]) -> None:
        """Write the lines of a block."""
        import pyarrow as pa

        schema = self.writer.schema
        columns = [each.cast(kind) for each, kind in zip(columns, schema.types, strict=True)]
        self.writer.write_table(pa.table(columns, schema=schema))


def spent(explanation: Explanation) -> int:
    """Return the evaluations of all rows together."""
    if explanation.row_evaluations is None:
        return explanation.evaluations * len(explanation)
    return int(explanation.row_evaluations.sum())


# The model, once in each process

_OPENED: dict[str, Any] = {}  #: the model of the job that this process works on, by the job's key
_OPEN = ExitStack()  #: what closes it


def _opened_model(work: ShardWork) -> Any:
    """Return the model of a job, which this process opens the first time."""
    if work.key not in _OPENED:
        close_model()
        _OPENED[work.key] = _OPEN.enter_context(work.source.opened()).model
    return _OPENED[work.key]


def close_model() -> None:
    """Forget the model that this process has opened."""
    _OPENED.clear()
    _OPEN.close()


# Errors in words


@contextmanager
def _row_of_all(first_row: int) -> Iterator[None]:
    """Add to a model's error the row among all rows of the job."""
    try:
        yield
    except ModelError as error:
        if error.row is not None:
            error.args = (f"{error}; among all rows it is row {first_row + error.row:,}",)
        raise


def _in_words(error: BaseException, shard: Shard) -> str:
    if isinstance(error, SystemExit):
        return f"the code of the model called exit (with {error.code!r}) at {shard.place}"
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


# The process


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def peak_bytes() -> int:
    """Return the most memory that this process has held; 0 where that is not known."""
    try:
        # not getrusage: a process begins with the peak of the one that started it
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    except (OSError, StopIteration):
        return _peak_by_usage()


def _peak_by_usage() -> int:
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
