"""Executors: who explains the shards of a large job.

An executor is given the work, a callable that can be pickled, and the shards. It yields one report
for each shard, in the order in which they are finished:

    for report in LocalProcesses(workers=2).run(work, shards):
        ...

What is explained, and where it is written, is the work's affair; see `shearshap.jobs.work`. So an
executor knows only of attempts and of workers that die, and every executor has the same results.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from shearshap.jobs.shards import Shard

ATTEMPTS = 3  #: at a shard, before it is given up


@dataclass(frozen=True)
class Report:
    """How a shard went, at its last attempt."""

    shard: Shard
    rows: int = 0  #: that are written
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

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> Report:
        """Explain a shard, write its part, and report."""
        ...


class Executor(Protocol):
    """Runs work on shards.

    A shard whose worker dies, or whose report has an error and says `again`, is tried again, until
    it has had its attempts. After a report that `halts`, no further shard is begun.
    """

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[Report]:
        """Yield the last report of each shard, as soon as it is there."""
        ...


def is_last(report: Report, attempts: int) -> bool:
    """Return whether a shard is not to be tried again after this report."""
    return report.error is None or not report.again or report.halts or report.attempt >= attempts


def died(shard: Shard, *, attempt: int, worker: str, how: str) -> Report:
    """Return the report of a shard whose worker died."""
    return Report(shard, attempt=attempt, worker=worker, error=f"the worker died: {how}")


@dataclass(frozen=True)
class InProcess:
    """Explains one shard after the other, in this process."""

    attempts: int = ATTEMPTS

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[Report]:
        """Yield the last report of each shard, in their order."""
        for shard in shards:
            report = _tried(work, shard, self.attempts)
            yield report
            if report.halts:
                return


def _tried(work: Work, shard: Shard, attempts: int) -> Report:
    """Return the last report of a shard."""
    seconds = 0.0
    for attempt in range(1, attempts + 1):
        report = work(shard, attempt=attempt)
        seconds += report.seconds
        if is_last(report, attempts):
            break
    return replace(report, seconds=seconds)
