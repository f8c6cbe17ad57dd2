"""The work on a shard: its rows are read, explained block by block, and written as a part.

It is the same in every executor. Where the same process works on several shards, the model is
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

import torch

from shearshap.errors import InputError, ModelError, ShearError
from shearshap.explainer import Explainer
from shearshap.games.batches import out_of_memory
from shearshap.jobs.executors import Report
from shearshap.jobs.input_columns import InputColumns
from shearshap.jobs.job import folder_kept, our_warnings_as
from shearshap.jobs.manifest import file_hash
from shearshap.jobs.models import (
    FolderOpener,
    LoadedModel,
    described,
    importing,
    open_model,
)
from shearshap.jobs.places import METADATA
from shearshap.jobs.shards import Shard, batches, read_at_once
from shearshap.jobs.wording import in_terminal_words, without_stack_trace
from shearshap.result.explanation import Explanation
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  #: errors of a disk that takes no more files
AUTO = "auto"  #: as a device: the GPUs of the worker's machine
FEWEST_ROWS = 16  #: that are explained at once where memory runs out


@dataclass(frozen=True, eq=False)
class ModelSource:
    """A model: a place that every process opens for itself, or an object that goes along."""

    model: Any  #: text: a place, see `shearshap.jobs.models`; anything else: the model itself
    trust: bool = False
    folder_openers: Sequence[FolderOpener] = ()

    @contextmanager
    def opened(self) -> Iterator[LoadedModel]:
        """Open the model; where it is code, it can import the modules beside it."""
        if not isinstance(self.model, str):
            yield described(self.model, f"a {type(self.model).__name__}", "")
            return
        with importing(self.model):
            with folder_kept():
                loaded = open_model(
                    self.model, trust=self.trust, folder_openers=self.folder_openers
                )
            yield loaded


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
    part_columns: tuple[tuple[str, str], ...]  #: of the explanation in a part
    carried: "pa.Schema"  #: columns of the data that go into the part
    id_column: str | None = None
    devices: tuple[str, ...] = ()  #: that workers take turns with; none: where the model is

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> Report:
        """Explain a shard, write its part, and report."""
        started = time.perf_counter()
        report = Report(shard, attempt=attempt, worker=_this_process())
        notes: list[str] = []
        try:
            with our_warnings_as(notes):
                evaluations, part_hash = self._write_part(shard, worker)
            report = replace(report, rows=shard.rows, part_hash=part_hash, evaluations=evaluations)
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

    def explainer(self, model: Any, device: str | None) -> Explainer:
        """Return the explainer of the job."""
        return Explainer(model, **self.options, device=device)

    def _write_part(self, shard: Shard, worker: int) -> tuple[int, str]:
        """Write the part of a shard; return the evaluations that it took, and the part's hash.

        Where memory runs out, it is tried again with half as many rows at once.
        """
        device = device_of(self.devices, worker)
        explainer = self.explainer(_opened_model(self), device)
        rows = read_at_once(len(self.columns.schema))
        while True:
            try:
                return self._write_blocks(shard, explainer, rows)
            except Exception as error:
                cause = error.__cause__ if isinstance(error, ModelError) else error
                if cause is None or not out_of_memory(cause) or rows <= FEWEST_ROWS:
                    raise
            rows = max(FEWEST_ROWS, min(rows, shard.rows) // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _write_blocks(self, shard: Shard, explainer: Explainer, rows: int) -> tuple[int, str]:
        from pyarrow import parquet as pq

        evaluations = 0
        schema = self.part_schema()
        with written_whole(self.out / shard.name) as partial:
            with pq.ParquetWriter(partial, schema, write_page_checksum=True) as writer:
                for explanation, data, first_row in self._blocks(shard, explainer, rows):
                    evaluations += spent(explanation)
                    writer.write_table(self._table(explanation, data, first_row, schema))
            part_hash = file_hash(partial)
        return evaluations, part_hash

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

    def _table(
        self, explanation: Explanation, data: "pa.Table", first_row: int, schema: "pa.Schema"
    ) -> "pa.Table":
        """Return the lines of a block."""
        import numpy as np
        import pyarrow as pa

        wide = explanation.to_frame("pyarrow", wide=True)
        if self.id_column is None:
            label = pa.array(np.arange(first_row, first_row + len(explanation)))
        else:
            label = _in_type(data[self.id_column], schema.field(0).type)
        columns = [label]
        for name, _ in self.part_columns:
            # a block may have no standard errors where others have some
            known = name in wide.column_names
            columns.append(wide[name] if known else pa.nulls(len(wide), schema.field(name).type))
        others = [field for field in self.carried if field.name != self.id_column]
        columns += [_in_type(data[field.name], field.type) for field in others]
        return pa.table(columns, schema=schema)


def device_of(devices: Sequence[str], worker: int) -> str | None:
    """Return the device of a worker; "auto" is a GPU of its machine, if there is one."""
    if not devices:
        return None
    name = devices[worker % len(devices)]
    if name != AUTO:
        return name
    gpus = torch.cuda.device_count()
    return f"cuda:{worker % gpus}" if gpus else None


def spent(explanation: Explanation) -> int:
    """Return the evaluations of all rows together."""
    if explanation.row_evaluations is None:
        return explanation.evaluations * len(explanation)
    return int(explanation.row_evaluations.sum())


def _in_type(column: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray":
    """Return a column of the data in the type that it has in all parts."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type == kind else column.cast(kind)


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
    return in_terminal_words(" ".join(without_stack_trace(str(error)).split()))


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
