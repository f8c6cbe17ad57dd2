"""The shards of a large job as tasks of Ray, on one machine or on many.

driver                          object store          workers, on any node
work ───────── put, once ─────> work ───────────────> fetched, once for each process
shards ─────── a few at a time ─────────────────────> a task for each attempt at a shard
reports <────── as they are there ──────────────────┘
"""

import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from shearshap.errors import InputError, ShearWarning, level_of_caller
from shearshap.jobs.executors import ATTEMPTS, ShardResult, Work, is_last, worker_crashed
from shearshap.jobs.shards import Shard

TASKS_PER_SLOT = 2  #: in flight, so that a worker need not wait for the driver between two shards
SECONDS_TO_CONNECT = 10.0
SECONDS_TO_CANCEL = 10.0
USAGE_STATISTICS = "RAY_USAGE_STATS_ENABLED"


@dataclass(frozen=True)
class RayExecutor:
    """Explains each shard in a task of Ray.

    A session of Ray that is open already (`ray.init`) is used, and stays open. Else one is opened
    for the run. Every node needs the same libraries as the driver, and must see the files of the
    job under the same paths.

    Parameters
    ----------
    address
        "host:6379" of a cluster, "auto" for the one that this machine is part of, or "local" to
        start Ray on this machine. None: what RAY_ADDRESS says, else "local".
    workers
        How many shards are worked on at once; None: as many as the cluster has room for.
    num_cpus, num_gpus
        What Ray sets aside for one task; parts of a GPU, 0.5, let several tasks use it at once.
    attempts
        How often a shard is tried. A worker or a node that dies costs one attempt.
    """

    address: str | None = None
    workers: int | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    attempts: int = ATTEMPTS

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        with _session(self) as ray:
            _check_room(self, ray)
            yield from _Tasks(self, ray, work).reports(shards)


# The session


@contextmanager
def _session(executor: RayExecutor) -> Iterator[Any]:
    """Yield the module ray, with a session open."""
    if find_spec("ray") is None:
        raise InputError("a job on Ray needs ray: pip install 'shearshap[ray]'")
    import ray

    if ray.is_initialized():
        _check_same_cluster(executor.address)
        yield ray
        return

    _open(ray, executor)
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_same_cluster(address: str | None) -> None:
    """Raise where an address is given although a session is open, maybe to another cluster."""
    if address not in (None, "auto"):
        raise InputError(
            f"address: a session of Ray is open already, so {address!r} cannot be opened; leave "
            "the address out to use that session, or call ray.shutdown() first"
        )


def _open(ray: Any, executor: RayExecutor) -> None:
    address = executor.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        options |= {"include_dashboard": False, "num_cpus": _cpus_wanted(executor)}
    try:
        _check_reachable(address)
        with _no_usage_statistics():
            ray.init(address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"address: cannot open a session of Ray at {address!r}: {_first_line(error)}; start a "
            "cluster with 'ray start --head', or leave the address out to run on this machine"
        ) from error


def _check_reachable(address: str) -> None:
    """Raise where nobody listens at an address of host and port: Ray would try for minutes."""
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname is not None and place.port is not None:
        socket.create_connection((place.hostname, place.port), SECONDS_TO_CONNECT).close()


def _cpus_wanted(executor: RayExecutor) -> int | None:
    """Return how many CPUs to start Ray with on this machine; None: as many as it has."""
    if executor.workers is None:
        return None
    return max(1, round(executor.workers * executor.num_cpus))


@contextmanager
def _no_usage_statistics() -> Iterator[None]:
    """Let no Ray that is started here report home, unless the user has said that it may."""
    if USAGE_STATISTICS in os.environ:
        yield
        return
    os.environ[USAGE_STATISTICS] = "0"
    try:
        yield
    finally:
        del os.environ[USAGE_STATISTICS]


# The room


def _check_room(executor: RayExecutor, ray: Any) -> None:
    """Warn where no node has room for a task: Ray would wait for one, without a word."""
    if _slots(executor, ray) == 0:
        warnings.warn(
            f"no node of the Ray cluster has {executor.num_cpus:g} CPUs and "
            f"{executor.num_gpus:g} GPUs for a shard; the job waits until one joins the cluster, "
            "or try a smaller num_cpus or num_gpus",
            ShearWarning,
            stacklevel=level_of_caller(),
        )


def _slots(executor: RayExecutor, ray: Any) -> int:
    """Return how many tasks the nodes that are alive have room for."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(_slots_of_node(executor, resources) for resources in nodes)


def _slots_of_node(executor: RayExecutor, resources: Mapping[str, float]) -> int:
    wanted = {"CPU": executor.num_cpus, "GPU": executor.num_gpus}
    counts = [int(resources.get(name, 0) // size) for name, size in wanted.items() if size > 0]
    return min(counts, default=1)


# The driver's side


@dataclass(frozen=True)
class _Attempt:
    """A task in flight."""

    shard: Shard
    number: int = 1
    seconds: float = 0.0  #: of the attempts before


class _Tasks:
    """The tasks of one run."""

    def __init__(self, executor: RayExecutor, ray: Any, work: Work) -> None:
        self.executor = executor
        self.ray = ray
        # in a list, or Ray would unpickle the work for every task, not once for each process
        self.work = [ray.put(work)]
        self.folder = Path.cwd()
        self.task = _task(executor, ray)
        self.in_flight: dict[Any, _Attempt] = {}

    def reports(self, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        waiting = deque(_Attempt(shard) for shard in shards)
        halted = False
        try:
            while (waiting and not halted) or self.in_flight:
                if not halted:
                    self.fill(waiting)
                report = self.next_report()
                halted = halted or report.halts
                if is_last(report, self.executor.attempts):
                    yield report
                else:
                    waiting.append(_Attempt(report.shard, report.attempt + 1, report.seconds))
        finally:
            self.cancel()

    def fill(self, waiting: deque[_Attempt]) -> None:
        """Begin as many tasks as there is room for."""
        limit = self.limit()
        while waiting and len(self.in_flight) < limit:
            attempt = waiting.popleft()
            task = self.task.remote(self.work, self.folder, attempt.shard, attempt.number)
            self.in_flight[task] = attempt

    def limit(self) -> int:
        """Return how many tasks may be in flight now; a cluster may have grown."""
        if self.executor.workers is not None:
            return self.executor.workers
        return max(1, TASKS_PER_SLOT * _slots(self.executor, self.ray))

    def next_report(self) -> ShardResult:
        """Wait for the next task that is done, and return its report."""
        (task,), _ = self.ray.wait(list(self.in_flight), num_returns=1)
        attempt = self.in_flight.pop(task)
        report = self.report(task, attempt)
        return replace(report, seconds=attempt.seconds + report.seconds)

    def report(self, task: Any, attempt: _Attempt) -> ShardResult:
        try:
            report: ShardResult = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            raise _own_error(error, self.ray) from error
        except self.ray.exceptions.RayError as error:
            how = _first_line(error)
            return worker_crashed(attempt.shard, attempt=attempt.number, worker="Ray", how=how)
        return report

    def cancel(self) -> None:
        """End the tasks that nobody waits for any more, so that none writes a part later on."""
        tasks = list(self.in_flight)
        for task in tasks:
            self.ray.cancel(task, force=True)
        if tasks:
            self.ray.wait(tasks, num_returns=len(tasks), timeout=SECONDS_TO_CANCEL)
        self.in_flight.clear()


def _task(executor: RayExecutor, ray: Any) -> Any:
    """Return the task of Ray that explains a shard."""
    return ray.remote(
        num_cpus=executor.num_cpus,
        num_gpus=executor.num_gpus,
        scheduling_strategy="SPREAD",
        # Ray's own retries are not counted, and after a lack of memory they have no end: the driver
        # sends a shard again itself
        max_retries=0,
    )(explained)


def _own_error(error: Any, ray: Any) -> Exception:
    """Return what to raise where the task itself, not the work on its shard, has failed."""
    cause = error.cause
    # a system error here is that of unpickling the work
    if isinstance(cause, ImportError | ray.exceptions.RaySystemError):
        return InputError(
            f"a worker of Ray cannot open the job: {_first_line(cause)}; every node of the cluster "
            "needs the libraries that this machine has, and the code of the model"
        )
    return cause if isinstance(cause, Exception) else error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


# The worker's side


def explained(work: Sequence[Any], folder: Path, shard: Shard, attempt: int) -> ShardResult:
    """Return the report of an attempt at a shard; this runs in a worker of Ray.

    `work` is a list of one, Ray's handle of the work; `folder` is the driver's current one.
    """
    import ray

    # in the driver's folder, so that relative paths of the job name the same files
    if not folder.is_dir():
        return ShardResult(shard, attempt=attempt, worker="Ray", error=_no_folder(folder, ray))
    os.chdir(folder)
    torch.set_num_threads(_threads(ray))

    # Ray shows each task only its own GPUs, so the first is the one to use
    return _fetched(work[0])(shard, attempt=attempt, worker=0)


@lru_cache(maxsize=1)
def _fetched(work: Any) -> Callable[..., ShardResult]:
    """Return the work that lies in the object store; this process keeps it."""
    import ray

    fetched: Work = ray.get(work)
    return fetched


def _threads(ray: Any) -> int:
    """Return the number of CPUs that Ray has set aside for this task, and at least one."""
    cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
    return max(1, int(cpus))


def _no_folder(folder: Path, ray: Any) -> str:
    node = ray.util.get_node_ip_address()
    return (
        f"there is no folder {folder} on the node {node}; a job on several machines must be "
        "started in a folder that all of them share"
    )
