"""A large job: resampled Census rows at 32 evaluations each, in local processes.

    python benchmarks/large_jobs.py                     2,000,000 rows, with 2 workers
    python benchmarks/large_jobs.py --rows 100000 --compare
                                                        and beside it 1 worker, and a plain loop

Reported are seconds, rows a second, CPU time and the most memory that a worker held. The ids of the
parts are compared with those of the input. A plain loop reads, explains and writes the same rows in
one process, without shards, attempts or a log.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv, dataset
from pyarrow import parquet as pq

from setting import machine, parser_of
from shearshap import Auto, Explainer
from shearshap.jobs import Executor, Job, LocalProcesses
from shearshap_lab import networks
from shearshap_lab.data import load
from shearshap_lab.markdown import plain_table
from shearshap_lab.runner import THREADS

BUDGET = 32
FILES = 8
GROUP_ROWS = 1 << 17
STEPS = 2000  #: of the network's training


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


def explain(folder: Path, out: str, executor: Executor) -> None:
    """Run the job, and write down what it took."""
    job = Job(
        large=True,
        model=str(folder / "network"),
        data=folder / "rows",
        out=folder / out,
        budget=BUDGET,
        id_column="id",
        keep=(),
    )
    summary = job.run(executor=executor)
    print(summary)
    facts = {"rows": summary.rows, "seconds": summary.seconds, "peak": summary.peak_bytes}
    (folder / f"{out}.json").write_text(json.dumps(facts))


def loop(folder: Path) -> None:
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
    facts = {"rows": rows, "seconds": time.perf_counter() - started, "peak": 0}
    (folder / "loop.json").write_text(json.dumps(facts))


def do_part(part: str, folder: Path, rows: int) -> None:
    if part == "rows":
        write_rows(folder, rows)
    elif part == "loop":
        loop(folder)
    else:
        explain(folder, part, LocalProcesses(int(part.removeprefix("workers-"))))


# All of them, one after the other


def line_of(part: str, folder: Path, rows: int) -> list[str]:
    """Run a part in a process of its own, and return what it took with all that it started."""
    started = time.perf_counter()
    process = subprocess.Popen(command(part, folder, rows), env=os.environ | {THREADS[0]: "1"})
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if status:
        raise SystemExit(f"{part} failed")
    facts = json.loads((folder / f"{part}.json").read_text())
    return [
        part,
        f"{facts['seconds']:.1f}",
        f"{facts['rows'] / facts['seconds']:,.0f}",
        f"{wall:.1f}",
        f"{usage.ru_utime + usage.ru_stime:.1f}",
        f"{facts['peak'] / 1e6:,.0f}" if facts["peak"] else "",
    ]


def command(part: str, folder: Path, rows: int) -> list[str]:
    words = ["--part", part, "--folder", str(folder), "--rows", str(rows)]
    return [sys.executable, __file__, *words]


def check_ids(folder: Path, rows: int) -> str:
    """Return whether the ids of the parts are those of the input, in its order."""
    ids = dataset.dataset(folder, format="parquet").to_table(columns=["id"])["id"].to_numpy()
    return "equal to the input's" if np.array_equal(ids, np.arange(rows)) else "NOT the input's"


def compare(folder: Path, rows: int, parts: list[str]) -> None:
    """Make the rows, run the parts and print a table."""
    if not (folder / "rows").exists():
        subprocess.run(command("rows", folder, rows), check=True)
    for part in parts:
        shutil.rmtree(folder / part, ignore_errors=True)
    lines = [line_of(part, folder, rows) for part in parts]
    print(f"\n{machine()}; {rows:,} rows of Census, {BUDGET} evaluations each\n")
    header = ["", "seconds", "rows/s", "wall s", "CPU s", "peak MB of a worker"]
    print(plain_table(header, lines))
    for part in parts:
        if part != "loop":
            print(f"\nids of {part}: {check_ids(folder / part, rows)}")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compare", action="store_true", help="1 worker and a plain loop too")
    parser.add_argument("--folder", type=Path, help="where to work; kept (else a temporary folder)")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # what a process of ours is to do
    given = parser.parse_args()
    if given.part is not None:
        do_part(given.part, given.folder, given.rows)
        return
    parts = [f"workers-{given.workers}"]
    if given.compare:
        parts = ["workers-1", *parts, "loop"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        compare(folder, given.rows, parts)


if __name__ == "__main__":
    main()
