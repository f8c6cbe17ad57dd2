"""What Ray costs: one large job in this process, and on Ray with one and with two workers.

    python benchmarks/ray_overhead.py

A network of 13 inputs, 64-64-1, is explained at 32 evaluations a row. The time of Ray is that of
all its processes: the start of a session, the workers' imports, and the job. CPU time is read from
/proc, so the machine must run Linux.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import ray
import torch
from torch import nn

from setting import machine, parser_of
from shearshap.jobs import Executor, InProcess, Job, Shard, ShardResult
from shearshap.jobs.ray import RayExecutor
from shearshap.jobs.shards import InputFile, cut
from shearshap_lab.markdown import plain_table

INPUTS = 13
BUDGET = 32
SHARD_ROWS = 16_384
EMPTY_SHARDS = 1000
TICKS = os.sysconf("SC_CLK_TCK")


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_400_000)
    return parser.parse_args()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(INPUTS, 64), nn.Softplus(), nn.Linear(64, 64), nn.Softplus(), nn.Linear(64, 1)
    ).eval()


def write_rows(folder: Path, count: int) -> None:
    folder.mkdir()
    rows = np.random.default_rng(0).normal(size=(count, INPUTS)).astype(np.float32)
    frame = pd.DataFrame(rows, columns=[f"x{number}" for number in range(INPUTS)])
    frame.to_parquet(folder / "rows.parquet", row_group_size=SHARD_ROWS)


@dataclass(frozen=True)
class Cost:
    """What a run has taken."""

    seconds: float
    cpu_seconds: float  #: of this process and of all that it has started


def cost(work: Callable[[], object]) -> Cost:
    """Run something that starts Ray and leaves it running, or does without; then end Ray."""
    cpu = cpu_seconds()
    started = time.perf_counter()
    work()
    found = Cost(time.perf_counter() - started, cpu_seconds() - cpu)
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
    """Return the fields of a process from the third on; none where it has just ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def job_on(executor: Executor, folder: Path, name: str, workers: int) -> Callable[[], object]:
    """Return a function that does the whole job, the start of Ray included."""

    def work() -> object:
        if workers:
            start_ray(workers)
        job = Job(
            large=True,
            model=network(),
            data=folder / "rows",
            out=folder / name,
            background="mean",
            budget=BUDGET,
            shard_rows=SHARD_ROWS,
        )
        return job.run(executor=executor, progress=False)

    return work


def start_ray(workers: int) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        "local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )


@dataclass(frozen=True)
class Nothing:
    """Work that is none."""

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Report."""
        return ShardResult(shard, attempt=attempt, worker=str(worker))


def milliseconds_of_a_shard() -> float:
    """Return the wall time that a shard takes on one worker of Ray where there is nothing to do."""
    file = Path("rows.parquet")
    shards = cut([InputFile(file, file, (1,) * EMPTY_SHARDS)], 1)
    start_ray(1)
    executor = RayExecutor()
    list(executor.run(Nothing(), shards[:2]))  # starts the worker
    started = time.perf_counter()
    list(executor.run(Nothing(), shards))
    seconds = time.perf_counter() - started
    ray.shutdown()
    return 1000 * seconds / EMPTY_SHARDS


def lines(costs: dict[str, Cost], rows: int) -> list[list[str]]:
    alone = costs["this process"]
    return [
        [
            name,
            f"{found.seconds:.1f}",
            f"{rows / found.seconds:,.0f}",
            f"{found.cpu_seconds:.1f}",
            f"{found.cpu_seconds / alone.cpu_seconds - 1:+.0%}",
        ]
        for name, found in costs.items()
    ]


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    runs: dict[str, tuple[Any, int]] = {
        "this process": (InProcess(), 0),
        "Ray, 1 worker": (RayExecutor(), 1),
        "Ray, 2 workers": (RayExecutor(), 2),
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", given.rows)
        costs = {
            title: cost(job_on(executor, folder, f"out-{workers}", workers))
            for title, (executor, workers) in runs.items()
        }
    print(f"{given.rows:,} rows in shards of {SHARD_ROWS:,}; {machine()}, ray {ray.__version__}\n")
    print(
        plain_table(["", "seconds", "rows/s", "CPU seconds", "more CPU"], lines(costs, given.rows))
    )
    print(f"\na shard without work: {milliseconds_of_a_shard():.1f} ms")


if __name__ == "__main__":
    main()
