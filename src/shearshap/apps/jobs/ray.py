"""The shards of a large job on the nodes of a Ray cluster.

driver                        object store         workers: actors, on the nodes with room
work ──────── put, once ────> work ──────────────> fetched, once for each worker
shards ─────────────────────────────────────────── one attempt after the other ──┐
reports <─────── as they are there ──────────────────────────────────────────────┘

The driver chooses the node of each worker, so a shard can be tried on another, and a node can be
left out. A worker's process is the job's own, and ends with it.
"""

import math
import os
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from shearshap.apps.jobs.executors import DEFAULT_ATTEMPTS
from shearshap.apps.jobs.pool import Attempt, Work, crash_report, run_in_pool
from shearshap.apps.jobs.shards import Shard, ShardResult
from shearshap.errors import InputError, warn

SECONDS_TO_CONNECT = 10.0
SECONDS_PER_LIST = 1.0  #: that a list of nodes is used for: each is a call of the cluster
PATIENCE = 600.0  #: seconds to wait for a node


@dataclass(frozen=True)
class RayExecutor:
    """Explains shards in the processes of Ray actors.

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
        What Ray reserves for one worker. With a fraction, such as 0.5, workers share a GPU.
    attempts
        How often a shard is tried. A worker or a node that dies costs one attempt.
    limit
        Seconds that an attempt may take; for the default see
        `shearshap.apps.jobs.pool.run_in_pool`.
    patience
        Seconds to wait for a node if there is none, or none with room for a worker.
    """

    address: str | None = None
    workers: int | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    attempts: int = DEFAULT_ATTEMPTS
    limit: float | None = None
    patience: float = PATIENCE

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        with _session(self) as ray:
            pool = _Actors(self, ray, work, min(len(shards), self.workers or len(shards)))
            try:
                yield from run_in_pool(pool, shards, self.attempts, self.limit)
            finally:
                pool.close()


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
        reason = _first_line(error)
        if "RAY_AUTH_MODE" in str(error.__cause__):
            reason += ", which wants a token: set RAY_AUTH_MODE=token"
        raise InputError(
            f"address: cannot open a Ray session at {address!r}: {reason}; start a cluster with "
            "'ray start --head', or leave the address out to run on this machine"
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


@dataclass(eq=False)
class _Worker:
    """An actor, as the driver knows it."""

    node: str
    actor: Any
    ready: Any  #: Ray's handle of the answer that the actor has started; None: it has
    task: Any = None  #: Ray's handle of the report of an attempt
    attempt: Attempt | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it can be given a shard."""
        return self.ready is None and self.attempt is None


@dataclass
class _Actors:
    """The pool of one run: actors on the nodes of a cluster."""

    executor: RayExecutor
    ray: Any
    work: Any
    limit: int  #: of workers
    workers: list[_Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        # in a list, or Ray would unpickle the work with the arguments, where errors end the actor
        self.work = [self.ray.put(self.work)]
        self.listed = -math.inf  # when the nodes were
        self.slots: dict[str, int] = {}  #: by node
        self.ids: dict[str, str] = {}  #: what Ray calls the nodes
        self.is_short = False  #: whether shards wait for workers
        self.requests: list[Any] = []  #: tasks that do nothing, but ask for room
        # by value, or a node would import all of this for it
        self.request = self._with_resources(lambda: None)

    def nodes(self) -> Collection[str]:
        """Return the nodes that are alive, and have room for a worker."""
        if time.monotonic() >= self.listed + SECONDS_PER_LIST:
            alive = {_name(node): node for node in self.ray.nodes() if node["Alive"]}
            slots = {name: self._slots(node["Resources"]) for name, node in alive.items()}
            self.slots = {name: count for name, count in slots.items() if count}
            self.ids = {name: node["NodeID"] for name, node in alive.items()}
            self.listed = time.monotonic()
            for worker in [each for each in self.workers if each.attempt is None]:
                if worker.node not in self.slots:
                    self.end(worker)
        return self.slots

    def _slots(self, resources: Mapping[str, float]) -> int:
        wanted = {"CPU": self.executor.num_cpus, "GPU": self.executor.num_gpus}
        counts = [int(resources.get(name, 0) // size) for name, size in wanted.items() if size > 0]
        return min(counts, default=1)

    def missing(self) -> str:
        """Wait until there is a node; if none comes, return why."""
        patience = self.executor.patience
        reason = (
            f"no node of the Ray cluster has {self.executor.num_cpus:g} CPUs and "
            f"{self.executor.num_gpus:g} GPUs for a worker"
        )
        advice = "try a smaller num_cpus or num_gpus"
        warn(f"{reason}; the job waits {patience:,.0f} seconds for one; or {advice}")
        end = time.monotonic() + patience
        while not self.nodes():
            self._request_nodes(1)
            if time.monotonic() >= end:
                return f"{reason}, after {patience:,.0f} seconds; add a node, or {advice}"
            time.sleep(SECONDS_PER_LIST / 4)
        return ""

    def begin(self, attempt: Attempt, nodes: Collection[str]) -> str | None:
        """Begin an attempt with an idle worker; if there is none, start workers."""
        for worker in self.workers:
            if worker.is_idle and worker.node in nodes:
                worker.attempt = attempt
                worker.task = worker.actor.explained.remote(attempt.shard, attempt.number)
                return worker.node
        self._start(nodes)
        self.is_short = True
        return None

    def _request_nodes(self, count: int) -> None:
        """Limit the tasks that wait for resources, so that an autoscaler adds nodes for them."""
        if self.requests:
            _, self.requests = self.ray.wait(
                self.requests, num_returns=len(self.requests), timeout=0
            )
        for request in self.requests[count:]:
            self.ray.cancel(request)
        missing = count - len(self.requests)
        self.requests = self.requests[:count] + [self.request.remote() for _ in range(missing)]

    def _with_resources(self, remote: Any) -> Any:
        executor = self.executor
        return self.ray.remote(num_cpus=executor.num_cpus, num_gpus=executor.num_gpus)(remote)

    def _start(self, nodes: Collection[str]) -> None:
        """Start workers where there is room; at the limit, one in place of an idle one."""
        room = Counter({node: self.slots.get(node, 0) for node in nodes})
        room.subtract(worker.node for worker in self.workers if worker.node in room)
        starting = any(each.ready is not None and each.node in room for each in self.workers)
        while max(room.values(), default=0) > 0:
            if len(self.workers) >= self.limit:
                idle = [worker for worker in self.workers if worker.is_idle]
                if starting or not idle:
                    return
                self.end(idle[0])
            (node, _), *_ = room.most_common(1)
            room[node] -= 1
            self.workers.append(self._started(node))
            starting = True

    def _started(self, node: str) -> _Worker:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._with_resources(ShardActor).options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.ids[node], soft=False)
        )
        started = actor.remote(self.work, Path.cwd())
        return _Worker(node, started, started.ready.remote())

    def finished(self, seconds: float) -> Iterator[tuple[Attempt, ShardResult]]:
        """Wait for reports, or for workers that have started."""
        # as many as there are: a cluster may double until it has room for all shards
        more = self.limit - sum(self.slots.values()) if self.is_short else 0
        self._request_nodes(max(0, min(more, len(self.workers))))
        self.is_short = False
        awaited = {worker.task or worker.ready: worker for worker in self.workers}
        awaited.pop(None, None)  # of idle workers
        if not awaited:
            time.sleep(seconds)
            return
        done, _ = self.ray.wait(list(awaited), num_returns=1, timeout=seconds)
        for handle in done:
            worker = awaited[handle]
            if worker.attempt is None:
                self._check_started(worker)
                continue
            report = self._report(worker, worker.attempt)
            attempt = worker.attempt
            worker.task = worker.attempt = None
            yield attempt, report

    def _check_started(self, worker: _Worker) -> None:
        """Note that a worker has started; if it could not, its first attempt says why."""
        try:
            self.ray.get(worker.ready)
        except self.ray.exceptions.RayError:
            self.listed = -math.inf  # its node may be gone, which is no fault of a shard
        worker.ready = None

    def _report(self, worker: _Worker, attempt: Attempt) -> ShardResult:
        """Return the report of an attempt; a worker that has died is forgotten."""
        try:
            report: ShardResult = self.ray.get(worker.task)
        except self.ray.exceptions.RayError as error:
            self.end(worker)
            self.listed = -math.inf  # its node may have died with it
            is_raised = isinstance(error, self.ray.exceptions.RayTaskError)
            how = _last_line(error) if is_raised else _first_line(error)
            report = crash_report(attempt, worker="Ray", how=how)
            if getattr(error, "actor_init_failed", False):
                report = replace(report, error=_unopened(error), node_fault=True)
        return report

    def kill(self, attempt: Attempt) -> None:
        """End an attempt, and its worker."""
        self.end(next(worker for worker in self.workers if worker.attempt == attempt))

    def close(self) -> None:
        """End all workers."""
        self._request_nodes(0)
        for worker in list(self.workers):
            self.end(worker)

    def end(self, worker: _Worker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        self.ray.kill(worker.actor)


def _name(node: Mapping[str, Any]) -> str:
    """Return what users are told of a node."""
    host = node["NodeManagerHostname"]
    name = node.get("NodeName") or node["NodeManagerAddress"]
    return f"{host} ({name}, Ray node {node['NodeID'][:8]})"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2] or type(error).__name__


def _unopened(error: BaseException) -> str:
    """Return why a node cannot open the job, of which the last line of the error says most."""
    return (
        f"a Ray worker cannot open the job: {_last_line(error)}; every node of the "
        "cluster needs this machine's libraries and the model's code"
    )


# The worker's side


class ShardActor:
    """Explains shards in a process of its own, for one job.

    `work` is a list of one, Ray's handle of the work; `folder` is the driver's current one.
    """

    def __init__(self, work: Sequence[Any], folder: Path) -> None:
        """Prepare this process, which is the job's own."""
        import ray

        if folder.is_dir():  # there, relative paths in the model's code name the same files
            os.chdir(folder)
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
        torch.set_num_threads(max(1, int(cpus)))
        self.handle = work[0]
        self.work: Work | None = None
        self.fault = ""

    def ready(self) -> None:
        """Fetch the work: from then on time counts."""
        import ray

        try:
            self.work = ray.get(self.handle)
        except Exception as error:  # noqa: BLE001  (of unpickling, there are all kinds)
            self.fault = _unopened(error)

    def explained(self, shard: Shard, attempt: int) -> ShardResult:
        """Return the report of an attempt at a shard."""
        if self.work is None:
            return ShardResult(shard, attempt=attempt, error=self.fault, node_fault=True)
        # Ray shows each worker only its own GPUs, so the first is the one to use
        return self.work(shard, attempt=attempt, worker=0)
