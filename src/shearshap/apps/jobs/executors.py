"""Executors: the processes that explain the shards of a large job.

An executor is given the work, a callable that can be pickled, and the shards. It yields one report
for each shard, in the order in which they are finished:

    for report in LocalProcesses(workers=2).run(work, shards):
        ...

What is explained, and where it is written, is the work's affair; see `shearshap.apps.jobs.work`.
So an executor knows only of attempts and of workers that die, and all have the same results.
`shearshap.apps.jobs.pool` says what is tried again, and where.
"""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Protocol, cast

import torch
from tqdm import tqdm

from shearshap.apps.jobs.pool import Attempt, Work, crash_report, run_in_pool
from shearshap.apps.jobs.shards import Shard, ShardResult
from shearshap.errors import InputError
from shearshap.forks import ForkSafeLock

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that set how many threads a library uses."""

SECONDS_TO_END = 5.0  #: that a worker has
DEFAULT_ATTEMPTS = 3  #: at a shard, before it is given up


class Executor(Protocol):
    """Runs work on shards.

    A shard is tried again, up to a number of attempts, if its worker dies, or if its report has an
    error and says `again`. A node that has a fault is left out; see `shearshap.apps.jobs.pool`.
    """

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        ...


# This process


@dataclass(frozen=True)
class InProcess:
    """Explains one shard after the other, in this process."""

    attempts: int = DEFAULT_ATTEMPTS

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard."""
        return run_in_pool(_ThisProcess(work), shards, self.attempts)


class _OneNode:
    """A pool of workers on this machine."""

    def nodes(self) -> list[str]:
        return [socket.gethostname()]

    def missing(self) -> str:
        return ""  # this machine is always there


@dataclass
class _ThisProcess(_OneNode):
    """A pool of one worker, this process."""

    work: Work
    task: Attempt | None = None

    def begin(self, attempt: Attempt, nodes: Collection[str]) -> str | None:
        if self.task is not None:
            return None
        self.task = attempt
        (node,) = nodes
        return node

    def finished(self, _: float) -> Iterator[tuple[Attempt, ShardResult]]:
        assert self.task is not None
        attempt = self.task
        self.task = None
        yield attempt, self.work(attempt.shard, attempt=attempt.number)

    def kill(self, _: Attempt) -> None:
        """Do nothing: no attempt is under way when somebody looks."""


# Processes on this machine


@dataclass(frozen=True)
class LocalProcesses:
    """Explains shards in processes on this machine, with one thread each.

    A process that dies is replaced, and its shard is tried again. So is one whose attempt takes
    longer than `limit` seconds; see `shearshap.apps.jobs.pool.run_in_pool` for the default.
    """

    workers: int
    attempts: int = DEFAULT_ATTEMPTS
    limit: float | None = None

    def __post_init__(self) -> None:
        """Check the number of workers."""
        if self.workers < 1:
            raise InputError(f"workers: expected at least 1, got {self.workers}")

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        pool = _Processes(work)
        try:
            for number in range(min(self.workers, len(shards))):
                pool.workers.append(_Worker(work, number))
            yield from run_in_pool(pool, shards, self.attempts, self.limit)
        finally:
            for worker in pool.workers:
                worker.stop()


@dataclass
class _Processes(_OneNode):
    """A pool of processes."""

    work: Work
    workers: "list[_Worker]" = field(default_factory=list)

    def begin(self, attempt: Attempt, nodes: Collection[str]) -> str | None:
        idle = next((worker for worker in self.workers if worker.is_idle), None)
        if idle is None:
            return None
        idle.task = attempt
        with suppress(OSError):  # it has died already, and `finished` finds that out
            idle.pipe.send((attempt.shard, attempt.number))
        (node,) = nodes
        return node

    def finished(self, seconds: float) -> Iterator[tuple[Attempt, ShardResult]]:
        awaited = {worker.pipe: worker for worker in self.workers if not worker.is_idle}
        for pipe in connection.wait(list(awaited), seconds):
            worker = awaited[cast(Connection, pipe)]
            task = worker.task
            if task is None:
                worker.start()
                continue
            try:
                report = worker.pipe.recv()
                worker.task = None
            except (EOFError, OSError):
                report = worker.crash_report(task)
                self._replace(worker)
            yield task, report

    def kill(self, attempt: Attempt) -> None:
        self._replace(next(worker for worker in self.workers if worker.task == attempt))

    def _replace(self, worker: "_Worker") -> None:
        worker.stop()
        self.workers[worker.number] = _Worker(self.work, worker.number)


class _Worker:
    """A process that is given one shard after the other."""

    def __init__(self, work: Work, number: int) -> None:
        self.number = number
        self.task: Attempt | None = None
        self.has_started = False
        spawning = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(work, number, theirs))
        with _one_thread(), _uninterrupted():
            self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    @property
    def is_idle(self) -> bool:
        """Whether it can be given a shard."""
        return self.has_started and self.task is None

    def start(self) -> None:
        """Take the word of the process that it has started, from when on time counts."""
        with suppress(EOFError, OSError):  # it has died, which its first attempt finds out
            self.pipe.recv()
        self.has_started = True

    def crash_report(self, task: Attempt) -> ShardResult:
        """Return the report of a task whose process has died."""
        self.process.join(SECONDS_TO_END)
        code = self.process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            known = -code in set(signal.Signals)  # real-time signals have no name
            how = f"signal {signal.Signals(-code).name if known else -code}"
        return crash_report(task, worker=f"process {self.process.pid}", how=how)

    def stop(self) -> None:
        """End the process; what it is writing is not complete, and so is never read."""
        self.pipe.close()
        if self.is_idle:
            self.process.join(SECONDS_TO_END)  # it ends by itself
        self.process.kill()
        self.process.join()
        self.process.close()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread, unless the user has said more."""
    with _STARTING:
        added = [name for name in THREADS if name not in os.environ]
        os.environ.update(dict.fromkeys(added, "1"))
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]


_STARTING = ForkSafeLock()
"""Held while a process is started: the environment belongs to all threads."""


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, from their first import on.

    It is for the driver, which ends them, and which gets it as soon as they are started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # it unblocks the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(work: Work, number: int, pipe: Connection) -> None:
    """Work on shards until there are no more: what a worker's process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # if it could not be blocked
    threading.Thread(target=_end_with_driver, daemon=True).start()
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # its own is one between processes, which outlives us
    with suppress(OSError):  # the driver has ended, which the next line finds out
        pipe.send("started")
    while True:
        try:
            shard, attempt = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(work(shard, attempt=attempt, worker=number))


def _end_with_driver() -> None:
    """End this process as soon as the driver ends: its reports would not be read."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


# By name


def executor_for(
    engine: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    gpus: float | None = None,
) -> Executor:
    """Return an executor by its name in the command line; see `RayExecutor` for the address.

    By default there is one worker, this process; of Ray as many as the cluster has room for.
    """
    if engine == "ray":
        from shearshap.apps.jobs.ray import RayExecutor  # it stands on this module

        return RayExecutor(address=address, workers=workers, num_gpus=gpus or 0)
    if engine != "local":
        raise InputError(f"engine: expected local or ray, got {engine!r}")
    if address is not None or gpus is not None:
        raise InputError("address and gpus are for --engine ray; leave them out")
    return InProcess() if workers in (None, 1) else LocalProcesses(workers)
