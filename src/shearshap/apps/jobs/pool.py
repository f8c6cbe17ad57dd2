"""Attempts at the shards of a large job, on the workers of one machine or of several nodes.

    shard   node a   node b
      0     fails    succeeds   it was the fault of a, once
      1              succeeds
      2     fails    fails      it is the shard's fault, and reported
      3     fails    succeeds   the fault of a, twice

A node is a machine. A shard that has failed on one is tried on another, if there is one. A node is
left out for the rest of the run if a fault is the node's own, or once shards that failed there have
succeeded elsewhere `MAX_FAILURES` times in a row.
"""

import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from shearshap.apps.jobs.shards import Shard, ShardResult
from shearshap.errors import warn

MAX_FAILURES = 3  #: in a row on a node, before it is left out
MAX_REFUSALS = 2  #: errors that the same node would repeat, before a shard is given up
SECONDS_PER_LOOK = 1.0  #: between two looks at nodes and time limits, at most
MIN_LIMIT = 600.0  #: seconds of an attempt, before it counts as stuck
SLOWNESS = 20  #: how much longer than any other an attempt may take


class Work(Protocol):
    """The work on a shard: it is explained, and its part is written.

    It can be pickled. Errors are in the report; what it raises is a mistake of ours. `attempt`
    counts from 1; `worker` counts the workers from 0, and chooses the device.
    """

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        """Explain a shard, write its part, and report."""
        ...


@dataclass(frozen=True)
class Attempt:
    """An attempt at a shard."""

    shard: Shard
    number: int = 1
    seconds: float = 0.0  #: that the attempts before have taken
    failed_on: tuple[str, ...] = ()  #: nodes
    refusals: int = 0  #: errors before that the same node would repeat


class Pool(Protocol):
    """Workers on nodes, of which each makes one attempt at a time."""

    def nodes(self) -> Collection[str]:
        """Return the nodes that are there now."""
        ...

    def missing(self) -> str:
        """Wait until there is a node; if none comes, return why."""
        ...

    def begin(self, attempt: Attempt, nodes: Collection[str], /) -> str | None:
        """Begin an attempt on one of these nodes; return it, or None if no worker is idle."""
        ...

    def finished(self, seconds: float, /) -> Iterable[tuple[Attempt, ShardResult]]:
        """Wait for a finished attempt, so long at most, and return all that are, with reports."""
        ...

    def kill(self, attempt: Attempt, /) -> None:
        """End an attempt, and its worker."""
        ...


def run_in_pool(
    pool: Pool, shards: Sequence[Shard], attempts: int, limit: float | None = None
) -> Iterator[ShardResult]:
    """Try each shard up to `attempts` times, and yield its last report.

    An attempt that takes longer than `limit` seconds is ended, and has failed. By default it may
    take 20 times as long, for each of its rows, as the slowest attempt that succeeded, or 600
    seconds if that is longer; until one has succeeded, there is no limit.

    If no node is left, or none comes, the last report has a `node_fault` that names all nodes and
    what is wrong with them; other shards may have no report then.
    """
    return _Run(pool, attempts, limit, deque(Attempt(shard) for shard in shards)).reports()


def crash_report(attempt: Attempt, *, worker: str, how: str) -> ShardResult:
    """Return the report of an attempt whose worker died."""
    error = f"the worker died: {how}"
    return ShardResult(attempt.shard, attempt=attempt.number, worker=worker, error=error)


@dataclass
class _Record:
    """What has failed on which node, and the nodes that are left out for it, with the reason."""

    left_out: dict[str, str] = field(default_factory=dict)
    #: since the last success on a node: errors, by the shard's number
    failures: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    #: those of them that have succeeded elsewhere
    faults: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def doubts(self, node: str) -> bool:
        """Return whether a node is to wait until its failures have been tried elsewhere."""
        return len(self.failures[node]) >= MAX_FAILURES

    def give_up(self, attempt: Attempt) -> None:
        """Forget the failures of a shard that fails everywhere."""
        for errors in self.failures.values():
            errors.pop(attempt.shard.number, None)

    def succeed(self, attempt: Attempt, node: str) -> None:
        """Note a success, which shows that earlier failures were the fault of their nodes."""
        self.failures[node].clear()
        self.faults[node].clear()
        number = attempt.shard.number
        for other in attempt.failed_on:
            if number in self.failures[other]:
                self.faults[other].add(number)
            if len(self.faults[other]) >= MAX_FAILURES:
                times = f"{MAX_FAILURES} shards failed there, and were explained elsewhere"
                reason = f"{times}; the last: {self.failures[other][number]}"
                self.left_out.setdefault(other, reason)

    def reasons(self) -> str:
        """Return why nodes are left out, in words; a node that is alone needs no name."""
        if len(self.left_out) == 1:
            return next(iter(self.left_out.values()))
        named = [f"{node}: {reason}" for node, reason in self.left_out.items()]
        return f"no node is left: {'; '.join(named)}"


@dataclass
class _Run:
    """A run of shards in a pool."""

    pool: Pool
    attempts: int
    limit: float | None
    waiting: deque[Attempt]
    record: _Record = field(default_factory=_Record)
    #: attempts that have begun: their nodes, and the time when they did
    begun: dict[Attempt, tuple[str, float]] = field(default_factory=dict)
    now: float = 0.0  #: seconds that this process has waited for workers
    slowest: float = 0.0  #: seconds for a row, of the attempts that succeeded

    def reports(self) -> Iterator[ShardResult]:
        """Yield the last report of each shard."""
        while self.waiting or self.begun:
            self._begin()
            reason = self._end()
            if reason:
                first = self.waiting[0]
                yield ShardResult(first.shard, attempt=first.number, error=reason, node_fault=True)
                return
            for attempt, report in self._finished():
                node, _ = self.begun.pop(attempt)
                report = replace(report, node=node)
                self._record(attempt, report)
                following = self._following(attempt, report)
                if following is None:
                    yield replace(report, seconds=attempt.seconds + report.seconds)

    def _end(self) -> str:
        """Return why no shard can be explained any more; wait for a node if there is none."""
        if self.begun:
            return ""
        nodes = self.pool.nodes()
        if not nodes:
            return self.pool.missing()
        return self.record.reasons() if self.record.left_out.keys() >= {*nodes} else ""

    def _usable(self) -> list[str]:
        return [node for node in self.pool.nodes() if node not in self.record.left_out]

    def _others(self, failed_on: Collection[str]) -> list[str]:
        return [node for node in self._usable() if node not in failed_on]

    # Begin

    def _begin(self) -> None:
        """Begin the attempts that there are workers for."""
        passed = []
        while self.waiting and self._usable():
            attempt = self.waiting.popleft()
            node = self.pool.begin(attempt, self._choice(attempt))
            if node is not None:
                self.begun[attempt] = (node, self.now)
                continue
            passed.append(attempt)
            if not attempt.failed_on:  # then there is no worker for the others, either
                break
        self.waiting.extendleft(reversed(passed))

    def _choice(self, attempt: Attempt) -> list[str]:
        """Return the nodes that an attempt may be made on."""
        nodes = self._others(attempt.failed_on) or self._usable()
        return [node for node in nodes if not self.record.doubts(node)] or nodes

    # Finish

    def _finished(self) -> Iterator[tuple[Attempt, ShardResult]]:
        """Yield attempts that are finished, and those that have taken too long."""
        started = time.monotonic()
        finished = list(self.pool.finished(SECONDS_PER_LOOK))
        # if this process was stopped for a while, its workers were too
        self.now += min(time.monotonic() - started, 2 * SECONDS_PER_LOOK)
        yield from finished
        for attempt, (_, begun) in list(self.begun.items()):
            limit = self._limit_of(attempt.shard)
            if limit is not None and self.now - begun > limit:
                self.pool.kill(attempt)
                yield attempt, _stuck_report(attempt, self.now - begun, limit)

    def _limit_of(self, shard: Shard) -> float | None:
        if self.limit is not None or not self.slowest:
            return self.limit
        return max(MIN_LIMIT, SLOWNESS * self.slowest * shard.rows)

    def _record(self, attempt: Attempt, report: ShardResult) -> None:
        """Note what a report says of nodes, and warn of one that is left out and not the last."""
        known = list(self.record.left_out)
        if report.error is None:
            self.slowest = max(self.slowest, report.seconds / max(1, attempt.shard.rows))
            self.record.succeed(attempt, report.node)
        elif report.node_fault:
            self.record.left_out.setdefault(report.node, report.error)
        else:
            self.record.failures[report.node][attempt.shard.number] = report.error
        for node, reason in self.record.left_out.items():
            if node not in known and self._usable():
                warn(f"{node} is left out for the rest of the job: {reason}")

    def _following(self, attempt: Attempt, report: ShardResult) -> Attempt | None:
        """Return the next attempt at a shard, which now waits; None if there is none."""
        if report.error is None:
            return None
        following = replace(
            attempt,
            number=attempt.number + (not report.node_fault),
            seconds=attempt.seconds + report.seconds,
            failed_on=(*attempt.failed_on, report.node),
            refusals=attempt.refusals + (not report.again and not report.node_fault),
        )
        elsewhere = bool(self._others(following.failed_on))
        may_succeed = report.again or (elsewhere and following.refusals < MAX_REFUSALS)
        if not report.node_fault and (following.number > self.attempts or not may_succeed):
            self.record.give_up(attempt)
            return None
        # at once if that shows whose fault it is; otherwise later, which may help
        if report.node_fault or (elsewhere and attempt.number == 1):
            self.waiting.appendleft(following)
        else:
            self.waiting.append(following)
        return following


def _stuck_report(attempt: Attempt, seconds: float, limit: float) -> ShardResult:
    error = (
        f"the worker was ended: no answer after {seconds:,.0f} seconds, with a limit of "
        f"{limit:,.0f}"
    )
    return ShardResult(attempt.shard, seconds=seconds, attempt=attempt.number, error=error)
