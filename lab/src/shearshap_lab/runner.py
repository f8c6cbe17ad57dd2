"""Run tasks into records: Parquet files, one for each finished task, so that a run can go on.

    tasks = [Task("census-seed0/estimates-0123abcd.parquet", "census, estimates", schema, compute)]
    tables = list(run(tasks, Path("out/parts")))

The name of a task's file covers everything that its records depend on, the code included. A run
that was stopped reads what is finished, and goes on with the task that it was at.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from shearshap.engine.loop import progress_bar
from shearshap.errors import InputError
from shearshap.store import Store, written_whole

PROVENANCE = "provenance.json"  #: the file beside records that says where they come from
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """A piece of work that gives records."""

    file: str  #: of its records, below the folder of all parts
    label: str  #: for the progress bar
    schema: pa.Schema
    compute: Callable[[], pa.Table]

    def records(self, folder: Path) -> pa.Table:
        """Return the task's records, from the folder if they are there."""
        store = Store(folder.parent, folder.name)
        read = partial(_read, schema=self.schema)
        return store.piece(self.file, self.compute, read=read, write=pq.write_table)


def run(tasks: Sequence[Task], folder: Path, *, progress: bool | None = None) -> Iterator[pa.Table]:
    """Yield the records of each task, in order."""
    folder.mkdir(parents=True, exist_ok=True)  # raises now, not after hours, if it cannot be made
    with progress_bar(progress, total=len(tasks), unit=" tasks", dynamic_ncols=True) as bar:
        for task in tasks:
            bar.set_description_str(task.label)
            yield task.records(folder)
            bar.update()


def _read(path: Path, *, schema: pa.Schema) -> pa.Table:
    try:
        records = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if records.schema != schema:
        raise InputError(f"{path} does not have the columns of these records")
    return records


def in_processes(
    function: Callable[[Item], Result],
    work: Sequence[Item],
    processes: int,
    *,
    chunk: int = 1,
    progress: bool | None = None,
) -> list[Result]:
    """Return a function's results for all items, from so many processes of one thread each.

    One is a process too, so that the number of threads, and with it the last digits, are the same
    for all numbers of processes. `chunk` items that follow one another go to the same process.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read when a library is loaded
    start = partial(torch.set_num_threads, 1)
    with ProcessPoolExecutor(processes, get_context("spawn"), start) as pool:
        results = pool.map(function, work, chunksize=chunk)
        return list(progress_bar(progress, iterable=results, total=len(work), smoothing=0))


# Records of a whole run


def write_records(records: Mapping[str, pa.Table], folder: Path, origin: dict[str, Any]) -> None:
    """Write all tables of a run and where they come from into a folder, whole or not at all."""
    with written_whole(folder) as partial_folder:
        partial_folder.mkdir()
        for name, table in records.items():
            path = partial_folder / f"{name}.parquet"
            pq.write_table(table, path, compression="zstd", compression_level=19)
        (partial_folder / PROVENANCE).write_text(json.dumps(origin, indent=2) + "\n")


def read_records(folder: Path) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Return the tables of a finished run by name, and where they come from."""
    path = folder / PROVENANCE
    try:
        origin: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; run the command again") from error
    return {file.stem: pq.read_table(file) for file in sorted(folder.glob("*.parquet"))}, origin


def records_hash(folder: Path) -> str:
    """Return the SHA-256 of the tables of a run, one after the other by name."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.parquet")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """Return records from columns, each an array or one value for all."""
    arrays = [column for column in columns.values() if isinstance(column, np.ndarray | list)]
    count = len(arrays[0]) if arrays else 1
    full = {
        name: column if isinstance(column, np.ndarray | list) else [column] * count
        for name, column in columns.items()
    }
    return pa.table({name: full[name] for name in schema.names}, schema=schema)


def column(records: pa.Table, name: str) -> NDArray[Any]:
    """Return a column as an array."""
    return np.asarray(records[name].to_numpy())


def where(records: pa.Table, **equal: Any) -> pa.Table:
    """Return the records whose columns equal these values."""
    for name, value in equal.items():
        records = records.filter(pc.equal(records[name], value))
    return records


def values_of(records: pa.Table, name: str) -> list[Any]:
    """Return the different values of a column, in their order of appearance."""
    return list(dict.fromkeys(records[name].to_pylist()))
