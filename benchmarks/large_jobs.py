"""A large job: resampled Census rows at 32 evaluations each, in local processes.

    python benchmarks/large_jobs.py                     2,000,000 rows, with 2 workers
    python benchmarks/large_jobs.py --rows 100000 --compare
                                                        and beside it 1 worker, and a plain loop

It prints seconds, rows per second, CPU time and the most memory that a worker held, and compares
the ids of the parts with those of the input. A plain loop reads, explains and writes the same rows
in one process, without shards, attempts or a log.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv, dataset
from pyarrow import parquet as pq

from shearshap import Auto, Explainer
from shearshap.apps.jobs import Job, LocalProcesses
from shearshap_lab import networks
from shearshap_lab.data import load
from shearshap_lab.runner import THREADS

BUDGET = 32
FILES = 8
GROUP_ROWS = 1 << 17
STEPS = 2000  #: of the network's training

Facts = tuple[int, float, int]  #: rows, seconds and the most bytes that a worker held


# What each process does


def write_rows(folder: Path, rows: int) -> None:
    """Train the network, and write resampled rows of its data to some files."""
    census = load("census")
    networks.save(networks.train(census, steps=STEPS), folder / "network")
    every = csv.read_csv(census.write(folder / "all.csv"))
    rng = np.random.default_rng(0)
    (folder / "rows").mkdir()
    for number, ids in enumerate(np.array_split(np.arange(rows), FILES)):
        chosen = every.take(rng.integers(0, len(every), len(ids)))
        chosen = chosen.add_column(0, "id", [pa.array(ids)])
        pq.write_table(chosen, folder / "rows" / f"{number}.parquet", row_group_size=GROUP_ROWS)


def explain(folder: Path, workers: int) -> Facts:
    """Run the job with so many workers, and return what it took."""
    job = Job(
        large=True,
        model=str(folder / "network"),
        data=folder / "rows",
        out=folder / f"workers-{workers}",
        budget=BUDGET,
        id_column="id",
        keep=(),
    )
    summary = job.run(executor=LocalProcesses(workers))
    print(summary)
    return summary.rows, summary.seconds, summary.peak_bytes


def loop(folder: Path) -> Facts:
    """Explain the rows of one file after the other, all with the calibration of the first."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    model = networks.open_folder(folder / "network")
    assert model is not None
    explainer = Explainer(model, model.background_)
    names = list(model.feature_names_in_)
    (folder / "loop").mkdir()
    count = 0
    rows = 0
    for path in sorted((folder / "rows").iterdir()):
        for batch in pq.ParquetFile(path).iter_batches(1 << 14, columns=["id", *names]):
            frame = batch.to_pandas()
            explanation = explainer(frame[names], budget=BUDGET, progress=False)
            explainer = replace(explainer, method=Auto(explanation.calibration))
            values = explanation.to_frame("pyarrow", wide=True)
            values = values.append_column("id", pa.array(frame["id"]))
            pq.write_table(values, folder / "loop" / f"{count:06}.parquet")
            count += 1
            rows += len(frame)
    return rows, time.perf_counter() - started, 0


# All of them, one after the other


def line_of(name: str, part: Callable[[Path], Facts], folder: Path) -> list[str]:
    """Run a part in a process of its own, and return what it took with all that it started."""
    before = getrusage(RUSAGE_CHILDREN)
    started = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        rows, seconds, peak = pool.submit(part, folder).result()
    wall = time.perf_counter() - started
    after = getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [
        name,
        f"{seconds:.1f}",
        f"{rows / seconds:,.0f}",
        f"{wall:.1f}",
        f"{cpu:.1f}",
        f"{peak / 1e6:,.0f}" if peak else "",
    ]


def check_ids(folder: Path, rows: int) -> str:
    """Return whether the ids of the parts are those of the input, in its order."""
    ids = dataset.dataset(folder, format="parquet").to_table(columns=["id"])["id"].to_numpy()
    return "equal to the input's" if np.array_equal(ids, np.arange(rows)) else "NOT the input's"


def compare(
    folder: Path, rows: int, parts: dict[str, Callable[[Path], Facts]], csv: Path | None
) -> None:
    """Make the rows, run the parts and print a table."""
    if not (folder / "rows").exists():
        write_rows(folder, rows)
    for name in parts:
        shutil.rmtree(folder / name, ignore_errors=True)
    os.environ[THREADS[0]] = "1"  # of the processes that are started
    from setting import (  # not above: workers load this module, and their memory counts
        Tables,
        machine,
    )

    lines = [line_of(name, part, folder) for name, part in parts.items()]
    tables = Tables(f"{rows:,} rows of Census, {BUDGET} evaluations each; {machine()}", csv)
    header = ["run", "seconds", "rows per second", "wall s", "CPU s", "peak MB of a worker"]
    tables.show("large-jobs", header, lines)
    for name in parts:
        if name != "loop":
            print(f"ids of {name}: {check_ids(folder / name, rows)}")


def main() -> None:
    from setting import parser_of

    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compare", action="store_true", help="1 worker and a plain loop too")
    parser.add_argument("--folder", type=Path, help="where to work; kept (else a temporary folder)")
    given = parser.parse_args()
    counts = (1, given.workers) if given.compare else (given.workers,)
    parts: dict[str, Callable[[Path], Facts]] = {
        f"workers-{count}": partial(explain, workers=count) for count in counts
    }
    if given.compare:
        parts["loop"] = loop
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        compare(folder, given.rows, parts, given.csv)


if __name__ == "__main__":
    main()
