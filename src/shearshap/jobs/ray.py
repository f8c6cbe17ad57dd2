"""The shards of a large job as tasks of Ray, on one machine or on many.

driver                          object store          workers, on any node
work ───────── put, once ─────> work ───────────────> fetched, once for each process
shards ─────── a few at a time ─────────────────────> a task for each attempt at a shard
reports <────── as they are there ──────────────────┘
"""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from shearshap.errors import InputError, warn
from shearshap.jobs.executors import DEFAULT_ATTEMPTS, Attempt, Work, run_in_pool, worker_crashed
from shearshap.jobs.shards import Shard, ShardResult

TASKS_PER_SLOT = 2  #: in flight, so that a worker need not wait for the driver between two shards
SECONDS_TO_CONNECT = 10.0
SECONDS_TO_CANCEL = 10.0


@dataclass(frozen=True)
class RayExecutor:
    """Explains each shard in a Ray task.

    A Ray session that is already open (`ray.init`) is used, and stays open. Otherwise one is
    opened for the run. Every node needs the same libraries as the driver, and must see the files of
    the job under the same paths.

    Parameters
    ----------
    address
        "host:6379" of a cluster, "auto" for the local cluster, or "local" to
        start Ray on this machine. None: what RAY_ADDRESS says, otherwise "local".
    workers
        How many shards to explain at the same time; None: as many as the cluster has room for.
    num_cpus, num_gpus
        What Ray reserves for one task. With a fraction, such as 0.5, tasks share a GPU.
    attempts
        How often a shard is tried. A worker or a node that dies costs one attempt.
    """

    address: str | None = None
    workers: int | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    attempts: int = DEFAULT_ATTEMPTS

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        with _session(self) as ray:
            tasks = _Tasks(self, ray, work)
            if tasks.slots() == 0:
                warn(
                    f"no node of the Ray cluster has {self.num_cpus:g} CPUs and "
                    f"{self.num_gpus:g} GPUs for a shard; the job waits until one joins the "
                    "cluster, or try a smaller num_cpus or num_gpus"
                )
            try:
                yield from run_in_pool(tasks, shards, self.attempts)
            finally:
                tasks.cancel()


# The driver's side


@contextmanager
def _session(executor: RayExecutor) -> Iterator[Any]:
    """Yield the module ray, with a session open."""
    if find_spec("ray") is None:
        raise InputError("a job on Ray needs ray: pip install 'shearshap[ray]'")
    import ray

    if ray.is_initialized() and executor.address in (None, "auto"):
        yield ray
        return
    address = executor.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it reports nothing home
        cpus = executor.workers and max(1, round(executor.workers * executor.num_cpus))
        options |= {"include_dashboard": False, "num_cpus": cpus}
    try:
        _check_reachable(address)
        ray.init(address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"address: cannot open a Ray session at {address!r}: {_first_line(error)}; start a "
            "cluster with 'ray start --head', or leave the address out to run on this machine"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise if there is no server at an address of host and port: Ray would try for minutes."""
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname is not None and place.port is not None:
        socket.create_connection((place.hostname, place.port), SECONDS_TO_CONNECT).close()


class _Tasks:
    """The pool of one run: tasks in flight on the nodes of a cluster."""

    def __init__(self, executor: RayExecutor, ray: Any, work: Work) -> None:
        self.executor = executor
        self.ray = ray
        # in a list, or Ray would unpickle the work for every task, not once for each process
        self.work = [ray.put(work)]
        self.in_flight: dict[Any, Attempt] = {}
        self.task = ray.remote(
            num_cpus=executor.num_cpus,
            num_gpus=executor.num_gpus,
            scheduling_strategy="SPREAD",
            # Ray's own retries are not counted, and after a lack of memory they have no end: the
            # driver sends a shard again itself
            max_retries=0,
        )(explained)

    def slots(self) -> int:
        """Return how many tasks the nodes that are alive have room for."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(map(self._slots_of_node, nodes))

    def _slots_of_node(self, resources: Mapping[str, float]) -> int:
        wanted = {"CPU": self.executor.num_cpus, "GPU": self.executor.num_gpus}
        counts = [int(resources.get(name, 0) // size) for name, size in wanted.items() if size > 0]
        return min(counts, default=1)

    def has_room(self) -> bool:
        """Return whether another task may be in flight now; a cluster may have grown."""
        limit = self.executor.workers
        if limit is None:
            limit = max(1, TASKS_PER_SLOT * self.slots())
        return len(self.in_flight) < limit

    def begin(self, attempt: Attempt) -> None:
        """Begin a task."""
        task = self.task.remote(self.work, Path.cwd(), attempt.shard, attempt.number)
        self.in_flight[task] = attempt

    def finished(self) -> list[tuple[Attempt, ShardResult]]:
        """Wait for the next task that is done, and return its report."""
        (task,), _ = self.ray.wait(list(self.in_flight), num_returns=1)
        attempt = self.in_flight.pop(task)
        try:
            report = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            raise self._own_error(error) from error
        except self.ray.exceptions.RayError as error:
            report = worker_crashed(attempt, worker="Ray", how=_first_line(error))
        return [(attempt, report)]

    def _own_error(self, error: Any) -> Exception:
        """Return what to raise if the task itself, not the work on its shard, has failed."""
        cause = error.cause
        # a system error here is that of unpickling the work
        if isinstance(cause, ImportError | self.ray.exceptions.RaySystemError):
            return InputError(
                f"a Ray worker cannot open the job: {_first_line(cause)}; every node of the "
                "cluster needs this machine's libraries and the model's code"
            )
        return cause if isinstance(cause, Exception) else error

    def cancel(self) -> None:
        """End the tasks that are no longer needed, so that none writes a part later on."""
        tasks = list(self.in_flight)
        for task in tasks:
            self.ray.cancel(task, force=True)
        if tasks:
            self.ray.wait(tasks, num_returns=len(tasks), timeout=SECONDS_TO_CANCEL)
        self.in_flight.clear()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


# The worker's side


def explained(work: Sequence[Any], folder: Path, shard: Shard, attempt: int) -> ShardResult:
    """Return the report of an attempt at a shard; this runs in a Ray worker.

    `work` is a list of one, Ray's handle of the work; `folder` is the driver's current one.
    """
    import ray

    # in the driver's folder, so that relative paths of the job name the same files
    if not folder.is_dir():
        error = (
            f"there is no folder {folder} on the node {ray.util.get_node_ip_address()}; a job on "
            "several machines must be started in a folder that all of them share"
        )
        return ShardResult(shard, attempt=attempt, worker="Ray", error=error, node_fault=True)
    os.chdir(folder)
    cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
    torch.set_num_threads(max(1, int(cpus)))

    # Ray shows each task only its own GPUs, so the first is the one to use
    return _fetched(work[0])(shard, attempt=attempt, worker=0)


@lru_cache(maxsize=1)
def _fetched(work: Any) -> Work:
    """Return the work that lies in the object store; this process keeps it."""
    import ray

    fetched: Work = ray.get(work)
    return fetched
