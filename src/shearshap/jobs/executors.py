"""Executors: who explains the shards of a large job.

An executor is given the work, a callable that can be pickled, and the shards. It yields one report
for each shard, in the order in which they are finished:

    for report in LocalProcesses(workers=2).run(work, shards):
        ...

What is explained, and where it is written, is the work's affair; see `shearshap.jobs.work`. So an
executor knows only of attempts and of workers that die, and every executor has the same results.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Protocol

import torch
from tqdm import tqdm

from shearshap.errors import InputError
from shearshap.jobs.shards import Shard

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""How libraries are told how many threads to use."""

PATIENCE = 5.0  #: seconds that a worker has to end

ATTEMPTS = 3  #: at a shard, before it is given up


@dataclass(frozen=True)
class ShardResult:
    """How a shard went, at its last attempt."""

    shard: Shard
    rows: int = 0  #: that are written
    hashes: tuple[tuple[str, str], ...] = ()  #: of the files written, by name
    seconds: float = 0.0
    evaluations: int = 0  #: of the model
    attempt: int = 1
    worker: str = ""  #: in words: host and process
    peak_bytes: int = 0  #: the most memory that the worker's process has held so far
    notes: tuple[str, ...] = ()  #: for people
    error: str | None = None  #: why its part is not written
    again: bool = True  #: of an error: whether another attempt may succeed
    halts: bool = False  #: of an error: whether no other shard can be written either


class Work(Protocol):
    """What is done to a shard: it is explained, and its part is written.

    It can be pickled. Errors are in the report; what it raises is a mistake of ours. `attempt` is
    for the report; `worker` counts the workers from 0, and chooses the device.
    """

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Explain a shard, write its part, and report."""
        ...


class Executor(Protocol):
    """Runs work on shards.

    A shard whose worker dies, or whose report has an error and says `again`, is tried again, until
    it has had its attempts. After a report that `halts`, no new shard is started.
    """

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        ...


def is_last(report: ShardResult, attempts: int) -> bool:
    """Return whether a shard is not to be tried again after this report."""
    return report.error is None or not report.again or report.halts or report.attempt >= attempts


def worker_crashed(shard: Shard, *, attempt: int, worker: str, how: str) -> ShardResult:
    """Return the report of a shard whose worker died."""
    return ShardResult(shard, attempt=attempt, worker=worker, error=f"the worker died: {how}")


@dataclass(frozen=True)
class InProcess:
    """Explains one shard after the other, in this process."""

    attempts: int = ATTEMPTS

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, in their order."""
        for shard in shards:
            report = _tried(work, shard, self.attempts)
            yield report
            if report.halts:
                return


def _tried(work: Work, shard: Shard, attempts: int) -> ShardResult:
    """Return the last report of a shard."""
    seconds = 0.0
    for attempt in range(1, attempts + 1):
        report = work(shard, attempt=attempt)
        seconds += report.seconds
        if is_last(report, attempts):
            break
    return replace(report, seconds=seconds)


# Processes on this machine


@dataclass(frozen=True)
class LocalProcesses:
    """Explains shards in processes of this machine, each of which uses one thread.

    A process that dies is replaced, and its shard is tried again.
    """

    workers: int
    attempts: int = ATTEMPTS

    def __post_init__(self) -> None:
        """Check the number of workers."""
        if self.workers < 1:
            raise InputError(f"workers: expected at least 1, got {self.workers}")

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        """Yield the last report of each shard, as soon as it is there."""
        waiting = deque(_Attempt(shard) for shard in shards)
        workers = [_Worker(work, number) for number in range(min(self.workers, len(shards)))]
        halted = False
        try:
            while (waiting and not halted) or any(worker.task for worker in workers):
                for worker in workers:
                    if waiting and not halted and worker.task is None:
                        worker.begin(waiting.popleft())

                for worker in _ready(workers):
                    task, report = worker.finish()
                    halted = halted or report.halts
                    if is_last(report, self.attempts):
                        yield replace(report, seconds=task.seconds + report.seconds)
                    else:
                        seconds = task.seconds + report.seconds
                        waiting.append(_Attempt(task.shard, task.attempt + 1, seconds))
        finally:
            for worker in workers:
                worker.stop()


@dataclass(frozen=True)
class _Attempt:
    """A shard, and the number of the attempt at it."""

    shard: Shard
    attempt: int = 1
    seconds: float = 0.0  #: that the attempts before have taken


@dataclass
class _Worker:
    """A process that is given one shard after the other, and is replaced where it dies."""

    work: Work
    number: int
    task: _Attempt | None = None
    process: SpawnProcess | None = None
    pipe: Connection | None = field(default=None, repr=False)

    def begin(self, task: _Attempt) -> None:
        """Send a shard to the process, which is started where there is none."""
        if self.process is None:
            self._start()
        assert self.pipe is not None
        self.task = task
        with suppress(OSError):  # it has died already, and `finish` finds that out
            self.pipe.send((task.shard, task.attempt))

    def finish(self) -> tuple[_Attempt, ShardResult]:
        """Return the task and its report; where the process has died, the report says so."""
        task = self.task
        assert task is not None
        assert self.pipe is not None
        self.task = None
        try:
            report: ShardResult = self.pipe.recv()
        except (EOFError, OSError):
            report = self._reap(task)
        return task, report

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(self.work, self.number, theirs))
        with _one_thread(), _uninterrupted():
            self.process.start()
        theirs.close()  # so that the pipe ends where the process does

    def _reap(self, task: _Attempt) -> ShardResult:
        """Return the report of a process that has died; the next task starts another one."""
        process = self.process
        assert process is not None
        process.join(PATIENCE)
        code = process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            known = -code in set(signal.Signals)  # signals of one's own have no name
            how = f"signal {signal.Signals(-code).name if known else -code}"
        name = f"process {process.pid}"
        self.stop()
        return worker_crashed(task.shard, attempt=task.attempt, worker=name, how=how)

    def stop(self) -> None:
        """End the process: an idle one ends by itself once its pipe is closed."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
        process = self.process
        if process is None:
            return
        if self.task is not None:
            process.terminate()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
        self.process = None


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """Wait until one of the workers at least has a report, or has died."""
    busy = [worker for worker in workers if worker.task is not None]
    ready = connection.wait([worker.pipe for worker in busy if worker.pipe is not None])
    return [worker for worker in busy if worker.pipe in ready]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread, unless the user has said more."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


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
    while True:
        try:
            shard, attempt = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(work(shard, attempt=attempt, worker=number))


def _end_with_driver() -> None:
    """End this process as soon as the driver does: nobody would read its reports."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


def executor_for(
    engine: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    gpus: float | None = None,
) -> Executor:
    """Return an executor by its name in the command line.

    Parameters
    ----------
    engine
        "local": processes of this machine, or with one worker this process; "ray": tasks of Ray.
    workers
        How many. Default: one, and of Ray as many as the cluster has room for.
    address
        Of the Ray cluster; see `RayExecutor`.
    gpus
        That Ray sets aside for a task.
    """
    if engine == "ray":
        from shearshap.jobs.ray import RayExecutor  # it stands on this module

        return RayExecutor(address=address, workers=workers, num_gpus=gpus or 0)
    if engine != "local":
        raise InputError(f"engine: expected local or ray, got {engine!r}")
    if address is not None or gpus is not None:
        raise InputError("address and gpus are for --engine ray; leave them out")
    if workers is None or workers == 1:
        return InProcess()
    return LocalProcesses(workers)
