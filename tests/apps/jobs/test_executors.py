"""Which attempts are made, and on which nodes: in a pool that is made up, and in processes."""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from shearshap import ShearWarning
from shearshap.apps.jobs import Executor, InProcess, LocalProcesses, Shard, ShardResult, pool
from shearshap.apps.jobs.pool import Attempt, run_in_pool
from shearshap.apps.jobs.shards import InputFile, cut

Answer = Callable[[Attempt, str], ShardResult]


def shards(count: int, rows: int = 5) -> list[Shard]:
    file = Path("rows.parquet")
    return cut([InputFile(file, file, (rows,) * count)], [rows] * count)


def good(attempt: Attempt) -> ShardResult:
    return ShardResult(attempt.shard, rows=5, seconds=1.0, attempt=attempt.number)


def bad(attempt: Attempt, error: str = "not now", *, again: bool = True) -> ShardResult:
    return replace(good(attempt), rows=0, error=error, again=again)


def fault(attempt: Attempt, error: str) -> ShardResult:
    return replace(bad(attempt, error), node_fault=True)


@dataclass
class Nodes:
    """A pool of nodes with so many workers each; each look at it finishes the oldest attempt.

    An answer of None means that the attempt is never finished.
    """

    answer: Callable[[Attempt, str], ShardResult | None]
    workers: dict[str, int]
    log: list[tuple[int, str]] = field(default_factory=list)  #: shards and nodes
    busy: list[tuple[Attempt, str]] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    clock: float = 0.0
    late: str = ""  #: a node that comes when there is none

    def nodes(self) -> Collection[str]:
        return self.workers

    def missing(self) -> str:
        if not self.late:
            return "there is no node"
        self.workers[self.late] = 1
        return ""

    def begin(self, attempt: Attempt, nodes: Collection[str]) -> str | None:
        used = [node for _, node in self.busy]
        free = [node for node in nodes if used.count(node) < self.workers[node]]
        if not free:
            return None
        self.log.append((attempt.shard.number, free[0]))
        self.busy.append((attempt, free[0]))
        return free[0]

    def finished(self, seconds: float) -> Iterator[tuple[Attempt, ShardResult]]:
        for attempt, node in self.busy:
            report = self.answer(attempt, node)
            if report is not None:
                self.busy.remove((attempt, node))
                yield attempt, report
                return
        self.clock += seconds

    def kill(self, attempt: Attempt) -> None:
        self.killed.append(attempt.shard.number)
        self.busy = [each for each in self.busy if each[0] != attempt]

    def run(
        self, count: int, attempts: int = 3, *, limit: float | None = None
    ) -> list[ShardResult]:
        """The reports of so many shards, in their order."""
        reports = list(run_in_pool(self, shards(count), attempts, limit))
        return sorted(reports, key=lambda report: report.shard.number)


def on(node: str, report: Callable[[Attempt], ShardResult]) -> Answer:
    """An answer that is good on every node but one."""
    return lambda attempt, place: report(attempt) if place == node else good(attempt)


def errors(reports: list[ShardResult]) -> list[str | None]:
    return [report.error for report in reports]


# Attempts


def test_every_shard_is_explained_once() -> None:
    nodes = Nodes(lambda attempt, _: good(attempt), {"a": 2, "b": 1})
    reports = nodes.run(7)
    assert [report.shard.number for report in reports] == list(range(7))
    assert {report.node for report in reports} == {"a", "b"}
    assert sorted(number for number, _ in nodes.log) == list(range(7))


def test_a_failure_is_tried_again_on_another_node() -> None:
    nodes = Nodes(on("a", bad), {"a": 1, "b": 1})
    (report,) = nodes.run(1)
    assert nodes.log == [(0, "a"), (0, "b")]
    assert (report.error, report.attempt, report.node) == (None, 2, "b")
    assert report.seconds == 2.0  # of both attempts


def test_a_failure_on_the_only_node_is_tried_again_there_after_the_others() -> None:
    nodes = Nodes(
        lambda attempt, _: bad(attempt) if attempt.number < 3 else good(attempt), {"a": 1}
    )
    assert errors(nodes.run(2)) == [None, None]
    assert [number for number, _ in nodes.log] == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_attempts_are_capped(attempts: int) -> None:
    nodes = Nodes(lambda attempt, _: bad(attempt), {"a": 1, "b": 1})
    reports = nodes.run(3, attempts)
    assert errors(reports) == ["not now"] * 3
    assert [report.attempt for report in reports] == [attempts] * 3
    assert len(nodes.log) == 3 * attempts


@pytest.mark.parametrize(("names", "tried"), [("a", 1), ("ab", 2), ("abc", 2)])
def test_an_error_that_stays_is_tried_once_on_another_node(names: str, tried: int) -> None:
    def refuse(attempt: Attempt, _: str) -> ShardResult:
        return bad(attempt, "a wrong row", again=False)

    nodes = Nodes(refuse, dict.fromkeys(names, 1))
    (report,) = nodes.run(1)
    assert (report.error, report.attempt) == ("a wrong row", tried)
    assert len({node for _, node in nodes.log}) == tried


def test_a_file_that_one_node_cannot_read_is_read_on_another() -> None:
    def unreadable(attempt: Attempt) -> ShardResult:
        number = attempt.shard.number
        return bad(attempt, "cannot be read", again=False) if number == 1 else good(attempt)

    reports = Nodes(on("a", unreadable), {"a": 1, "b": 1}).run(4)
    assert errors(reports) == [None] * 4


# Nodes that are left out


def test_a_node_with_a_fault_is_left_out_at_once_and_costs_no_attempt() -> None:
    nodes = Nodes(on("a", lambda attempt: fault(attempt, "another version")), {"a": 1, "b": 1})
    with pytest.warns(ShearWarning, match=r"^a is left out for the rest .*: another version$"):
        reports = nodes.run(6, attempts=1)
    assert errors(reports) == [None] * 6
    assert [report.attempt for report in reports] == [1] * 6
    assert [node for _, node in nodes.log].count("a") == 1


def test_of_all_nodes_but_one_with_faults_the_one_does_everything() -> None:
    names = "abcdefgh"
    nodes = Nodes(
        lambda attempt, node: good(attempt) if node == "e" else fault(attempt, "no data"),
        dict.fromkeys(names, 2),
    )
    with pytest.warns(ShearWarning) as warned:
        reports = nodes.run(40, attempts=1)
    assert errors(reports) == [None] * 40
    assert {str(each.message)[0] for each in warned} == set(names) - {"e"}
    assert len(warned) == len(names) - 1


def test_the_run_ends_when_no_node_is_left() -> None:
    nodes = Nodes(lambda attempt, node: fault(attempt, f"no {node}"), {"a": 1, "b": 1})
    with pytest.warns(ShearWarning, match="a is left out"):
        (report,) = nodes.run(9)
    assert report.node_fault
    assert report.error == "no node is left: a: no a; b: no b"
    assert len(nodes.log) == 2


def test_what_is_finished_before_no_node_is_left_is_reported() -> None:
    def full(attempt: Attempt, _: str) -> ShardResult:
        return good(attempt) if attempt.shard.number < 3 else fault(attempt, "the disk is full")

    reports = Nodes(full, {"a": 1}).run(9)
    assert errors(reports) == [None, None, None, "the disk is full"]


def test_a_node_that_keeps_failing_is_left_out() -> None:
    nodes = Nodes(on("a", bad), {"a": 1, "b": 3})
    with pytest.warns(ShearWarning, match=r"a is left out .*3 shards failed there.*: not now"):
        reports = nodes.run(50)
    assert errors(reports) == [None] * 50
    assert [node for _, node in nodes.log].count("a") == 3


def test_a_fast_bad_node_does_not_eat_the_queue() -> None:
    """It fails at once, while the others take long."""
    steps = 0

    def answer(attempt: Attempt, node: str) -> ShardResult | None:
        nonlocal steps
        steps += 1
        if node == "a":
            return bad(attempt, "no data here", again=False)
        return good(attempt) if steps % 10 == 0 else None

    nodes = Nodes(answer, {"a": 4, "b": 2, "c": 2})
    with pytest.warns(ShearWarning, match="a is left out"):
        reports = nodes.run(100)
    assert errors(reports) == [None] * 100
    assert [node for _, node in nodes.log].count("a") <= 8


def test_shards_that_fail_everywhere_are_no_fault_of_a_node() -> None:
    def odd(attempt: Attempt, _: str) -> ShardResult:
        return bad(attempt) if attempt.shard.number % 2 else good(attempt)

    nodes = Nodes(odd, {"a": 1, "b": 1})
    assert errors(nodes.run(30)) == [None, "not now"] * 15
    assert {node for _, node in nodes.log[-4:]} == {"a", "b"}


def test_a_model_that_fails_on_all_rows_is_reported_for_all_shards() -> None:
    nodes = Nodes(lambda attempt, _: bad(attempt), {"a": 2, "b": 2})
    assert errors(nodes.run(20)) == ["not now"] * 20


def test_failures_with_successes_between_them_leave_no_node_out() -> None:
    answers = 0

    def sometimes(attempt: Attempt) -> ShardResult:
        nonlocal answers
        answers += 1
        return good(attempt) if answers % 3 == 0 else bad(attempt)

    nodes = Nodes(on("a", sometimes), {"a": 1, "b": 1})
    assert errors(nodes.run(30)) == [None] * 30
    assert answers > 9


def test_a_node_that_comes_later_is_waited_for() -> None:
    nodes = Nodes(lambda attempt, _: good(attempt), {}, late="a")
    assert errors(nodes.run(3)) == [None] * 3


def test_a_node_that_does_not_come_ends_the_run() -> None:
    (report,) = Nodes(lambda attempt, _: good(attempt), {}).run(3)
    assert (report.error, report.node_fault) == ("there is no node", True)


# Workers that are stuck


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Nodes], Nodes]:
    """Let the time of a pool be the time."""

    def use(nodes: Nodes) -> Nodes:
        monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: nodes.clock))
        return nodes

    return use


def stuck(numbers: Collection[int], times: int = 1) -> Callable[[Attempt, str], ShardResult | None]:
    return lambda attempt, _: (
        None if attempt.shard.number in numbers and attempt.number <= times else good(attempt)
    )


def test_an_attempt_over_the_limit_is_ended_and_tried_again(
    clocked: Callable[[Nodes], Nodes],
) -> None:
    nodes = clocked(Nodes(stuck([1]), {"a": 1, "b": 1}))
    reports = nodes.run(5, limit=30)
    assert errors(reports) == [None] * 5
    assert nodes.killed == [1]
    assert reports[1].attempt == 2
    assert 30 < nodes.clock < 33


def test_a_shard_that_is_always_stuck_fails(clocked: Callable[[Nodes], Nodes]) -> None:
    nodes = clocked(Nodes(stuck([0, 2], times=9), {"a": 1}))
    reports = nodes.run(4, attempts=2, limit=30)
    text = "the worker was ended: no answer after 31 seconds, with a limit of 30"
    assert errors(reports) == [text, None, text, None]
    assert nodes.killed == [0, 2, 0, 2]


@pytest.mark.parametrize(("seconds", "limit"), [(1.0, 600), (29.9, 600), (60.0, 1200)])
def test_the_limit_follows_the_slowest_attempt(
    clocked: Callable[[Nodes], Nodes], seconds: float, limit: float
) -> None:
    def answer(attempt: Attempt, node: str) -> ShardResult | None:
        report = stuck([3])(attempt, node)
        return report and replace(report, seconds=seconds)

    nodes = clocked(Nodes(answer, {"a": 1}))
    assert errors(nodes.run(5)) == [None] * 5
    assert limit < nodes.clock < limit + 3


def test_a_large_shard_has_more_time_than_a_small_one(clocked: Callable[[Nodes], Nodes]) -> None:
    file = Path("rows.parquet")
    sizes = cut([InputFile(file, file, (1, 100))], [1, 100])
    nodes = clocked(Nodes(stuck([1]), {"a": 1}))
    assert errors(list(run_in_pool(nodes, sizes, 3))) == [None, None]
    assert 20 * 100 < nodes.clock < 20 * 100 + 3


def test_before_the_first_success_there_is_no_limit(clocked: Callable[[Nodes], Nodes]) -> None:
    """A shard may take hours, and nothing says how long."""
    nodes = Nodes(lambda attempt, _: good(attempt) if nodes.clock > 9000 else None, {"a": 1})
    assert errors(clocked(nodes).run(2)) == [None, None]
    assert nodes.killed == []


# This machine


@dataclass(frozen=True)
class Touch:
    """Work that leaves a file for each attempt; the workers of some shards die, hang, or fail."""

    out: Path
    ends: Mapping[int, int] = field(default_factory=dict)  #: shards: the signals that end workers
    full: tuple[int, ...] = ()

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        (self.out / f"{shard.number}-{attempt}").write_text(str(worker))
        if shard.number in self.ends:
            os.kill(os.getpid(), self.ends[shard.number])
            time.sleep(600)
        report = ShardResult(shard, rows=shard.rows, attempt=attempt)
        if shard.number in self.full:
            return replace(report, rows=0, error="the disk is full", node_fault=True)
        return report


def in_order(executor: Executor, work: Touch, count: int) -> list[ShardResult]:
    return sorted(executor.run(work, shards(count)), key=lambda report: report.shard.number)


@pytest.mark.parametrize("executor", [InProcess(), LocalProcesses(1)])
def test_a_fault_of_this_machine_ends_the_run(tmp_path: Path, executor: Executor) -> None:
    reports = in_order(executor, Touch(tmp_path, full=(1,)), 5)
    assert errors(reports) == [None, "the disk is full"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0-1", "1-1"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_worker_that_aborts_fails_one_shard_only(tmp_path: Path) -> None:
    work = Touch(tmp_path, ends={1: signal.SIGABRT})
    reports = in_order(LocalProcesses(1, attempts=2), work, 3)
    assert errors(reports) == [None, "the worker died: signal SIGABRT", None]
    assert [report.attempt for report in reports] == [1, 2, 1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_worker_that_is_stopped_fails_one_shard_only(tmp_path: Path) -> None:
    work = Touch(tmp_path, ends={1: signal.SIGSTOP})
    reports = in_order(LocalProcesses(1, attempts=1, limit=1), work, 3)
    assert [report.error is None for report in reports] == [True, False, True]
    assert str(reports[1].error).startswith("the worker was ended: no answer after ")
