"""What Ray costs: one large job in this process, and on Ray with one and with two workers.

    python benchmarks/ray_overhead.py

A network of 13 inputs, 64-64-1, is explained at 32 evaluations a row. The time of Ray is that of
all its processes: the start of a session, the workers' imports, and the job. CPU time is read from
/proc, so the machine must run Linux.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import ray
import torch
from torch import nn

from setting import machine, parser_of, perceptron
from shearshap.jobs import Executor, InProcess, Job, Shard, ShardResult
from shearshap.jobs.ray import RayExecutor
from shearshap.jobs.shards import InputFile, cut
from shearshap_lab.markdown import plain_table

INPUTS = 13
BUDGET = 32
SHARD_ROWS = 16_384
EMPTY_SHARDS = 1000
TICKS = os.sysconf("SC_CLK_TCK")


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
    stats = {int(path.name): _stat(path) for path in Path("/proc").glob("[0-9]*")}
    ours = {os.getpid()}
    grown = True
    while grown:
        children = {pid for pid, stat in stats.items() if stat and int(stat[1]) in ours}
        grown = not children <= ours
        ours |= children
    # fields 14 to 17 of the line: of the process, and of its children that have ended
    ticks = [int(tick) for pid in ours for tick in stats[pid][11:15]]
    return sum(ticks) / TICKS


def _stat(process: Path) -> list[str]:
    """Return the fields of a process from the third on; none if it has just ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


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


def nothing(shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
    """Report of a shard without any work."""
    return ShardResult(shard, attempt=attempt, worker=str(worker))


def milliseconds_of_a_shard() -> float:
    """Return the wall time that a shard takes on one worker of Ray if there is nothing to do."""
    file = Path("rows.parquet")
    shards = cut([InputFile(file, file, (1,) * EMPTY_SHARDS)], 1)
    start_ray(1)
    executor = RayExecutor()
    list(executor.run(nothing, shards[:2]))  # starts the worker
    started = time.perf_counter()
    list(executor.run(nothing, shards))
    seconds = time.perf_counter() - started
    ray.shutdown()
    return 1000 * seconds / EMPTY_SHARDS


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_400_000)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", rows)
        for workers in (0, 1, 2):
            executor = RayExecutor() if workers else InProcess()
            seconds, cpu = cost(partial(run_job, executor, folder, workers))
            title = f"Ray, workers: {workers}" if workers else "this process"
            lines.append([title, f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{cpu:.1f}"])
    print(f"{rows:,} rows in shards of {SHARD_ROWS:,}; {machine()}, ray {ray.__version__}\n")
    print(plain_table(["", "seconds", "rows/s", "CPU seconds"], lines))
    print(f"\na shard without work: {milliseconds_of_a_shard():.1f} ms")


if __name__ == "__main__":
    main()
