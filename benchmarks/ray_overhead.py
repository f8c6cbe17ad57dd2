"""What Ray costs: one large job in this process, and on Ray with one and with two workers.

    python benchmarks/ray_overhead.py

A network of 13 inputs, 64-64-1, is explained at 32 evaluations per row. The time of Ray is that of
all its processes: the start of a session, the workers' imports, and the job.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import psutil
import ray
import torch
from torch import nn

from setting import Tables, machine, parser_of, perceptron
from shearshap.apps.jobs import Executor, InProcess, Job
from shearshap.apps.jobs.ray import RayExecutor

INPUTS = 13
BUDGET = 32
SHARD_ROWS = 16_384


def write_rows(folder: Path, count: int) -> None:
    folder.mkdir()
    rows = np.random.default_rng(0).normal(size=(count, INPUTS)).astype(np.float32)
    frame = pd.DataFrame(rows, columns=[f"x{number}" for number in range(INPUTS)])
    frame.to_parquet(folder / "rows.parquet", row_group_size=SHARD_ROWS)


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds, and CPU seconds of all processes, of work that may start Ray; end Ray."""
    cpu = cpu_seconds()
    started = time.perf_counter()
    work()
    found = time.perf_counter() - started, cpu_seconds() - cpu
    ray.shutdown()
    return found


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its descendants, those that have ended too."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))


def run_job(executor: Executor, folder: Path, workers: int) -> None:
    """Do the whole job, the start of Ray included."""
    if workers:
        start_ray(workers)
    torch.manual_seed(0)
    job = Job(
        large=True,
        model=perceptron(INPUTS, 1, nn.Softplus).eval(),
        data=folder / "rows",
        out=folder / f"out-{workers}",
        background=0,
        budget=BUDGET,
        shard_rows=SHARD_ROWS,
    )
    job.run(executor=executor, progress=False)


def start_ray(workers: int) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        "local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_400_000)
    options = parser.parse_args()
    rows = options.rows
    torch.set_num_threads(1)
    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", rows)
        for workers in (0, 1, 2):
            executor = RayExecutor() if workers else InProcess()
            seconds, cpu = cost(partial(run_job, executor, folder, workers))
            title = f"Ray, workers: {workers}" if workers else "this process"
            cells = [f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{cpu:.1f}"]
            lines.append([f"{rows:,}", title, *cells])
    setting = f"shards of {SHARD_ROWS:,} rows; {machine()}, ray {ray.__version__}"
    columns = ["rows", "run", "seconds", "rows per second", "CPU seconds"]
    Tables(setting, options.csv).show("ray", columns, lines)


if __name__ == "__main__":
    main()
