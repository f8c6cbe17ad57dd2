"""Large jobs on Ray: the same parts as in one process, whatever dies meanwhile; and Ray Data."""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from folder_jobs import ROWS, check_whole, done, job, table, values, wait_for
from shearshap import InputError, ShearWarning
from shearshap.jobs import InProcess, Shard, ShardResult
from shearshap.jobs.executors import Work
from shearshap.jobs.ray import RayExecutor
from shearshap.jobs.shards import InputFile, cut

ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]  # one cluster for all tests

# The executor alone


@dataclass(frozen=True)
class Touch:
    """Work that leaves a file for each attempt; some shards' workers die, or fail."""

    out: Path
    dies: tuple[int, ...] = ()  #: shards whose worker dies
    fails: tuple[int, ...] = ()  #: shards that fail at the first attempt
    never: tuple[int, ...] = ()  #: shards that fail, and need not be tried again
    full: tuple[int, ...] = ()
    seconds: float = 0.0
    together: int = 0  #: processes that wait for each other

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        (self.out / f"{shard.number}-{attempt}").write_text(str(os.getpid()))
        sleep(self.seconds)
        wait_for(lambda: len(processes(self.out)) >= self.together)
        number = shard.number
        if number in self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        report = ShardResult(shard, seconds=1.0, attempt=attempt, worker=str(worker))
        if number in self.fails and attempt == 1:
            return replace(report, error="not now")
        if number in self.never:
            return replace(report, error="a wrong row", again=False)
        if number in self.full:
            return replace(report, error="the disk is full", node_fault=True)
        return replace(report, rows=shard.rows)


class Unknown(Touch):
    """Work whose code no worker has."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("gone",)


def shards(count: int) -> list[Shard]:
    file = Path("rows.parquet")
    return cut([InputFile(file, file, (5,) * count)], 5)


def in_order(reports: Iterator[ShardResult]) -> list[ShardResult]:
    return sorted(reports, key=lambda report: report.shard.number)


def processes(folder: Path) -> set[str]:
    """The processes that have begun a shard."""
    return {file.read_text() for file in folder.iterdir()} - {""}


def attempts(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.usefixtures("session")
def test_reports_are_those_of_one_process(tmp_path: Path) -> None:
    work = Touch(tmp_path, fails=(1,), never=(3,))
    on_ray = in_order(RayExecutor().run(work, shards(5)))
    assert on_ray == in_order(InProcess().run(work, shards(5)))
    assert [report.attempt for report in on_ray] == [1, 2, 1, 1, 1]
    assert [report.seconds for report in on_ray] == [1, 2, 1, 1, 1]  # of both attempts
    assert [report.error for report in on_ray] == [None, None, None, "a wrong row", None]


@pytest.mark.usefixtures("session")
def test_a_process_keeps_the_work_and_tasks_are_spread(tmp_path: Path) -> None:
    reports = list(RayExecutor().run(Touch(tmp_path, together=2), shards(8)))
    assert len(reports) == 8
    assert len(processes(tmp_path)) == 2  # one on each node, for all shards


@pytest.mark.usefixtures("session")
def test_no_shard_is_begun_after_a_fault_of_the_node(tmp_path: Path) -> None:
    reports = list(RayExecutor(workers=1).run(Touch(tmp_path, full=(1,)), shards(5)))
    assert [report.error for report in reports] == [None, "the disk is full"]
    assert attempts(tmp_path) == ["0-1", "1-1"]


@pytest.mark.usefixtures("session")
def test_an_address_beside_an_open_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open a Ray session at"):
        list(RayExecutor(address="elsewhere:6379").run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("session")
def test_a_task_that_fits_no_node_is_named(tmp_path: Path) -> None:
    run = RayExecutor(num_gpus=1).run(Touch(tmp_path), shards(1))
    with pytest.raises(ShearWarning, match=r"no node of the Ray cluster has 1 CPUs and 1 GPUs"):
        next(run)


@pytest.mark.usefixtures("session")
def test_work_that_no_worker_can_unpickle_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a Ray worker cannot open the job: .*No module named 'gone'"
    ):
        list(RayExecutor().run(Unknown(Path()), shards(1)))


# Whole jobs


@pytest.mark.usefixtures("session")
def test_a_model_goes_along_with_the_work(folder: Path) -> None:
    inputs = table()[["a", "b", "c"]]
    model = LinearRegression().fit(inputs, inputs["a"] - 2 * inputs["b"])
    for out, executor in (("values", RayExecutor()), ("alone", InProcess())):
        job(model=model, out=folder / out).run(executor=executor, progress=False)
    pd.testing.assert_frame_equal(values(), values("alone"))


# Ends


@pytest.mark.usefixtures("session")
def test_tasks_in_flight_end_with_the_run(tmp_path: Path) -> None:
    run = RayExecutor().run(Touch(tmp_path, seconds=0.3), shards(9))
    next(run)
    run.close()  # type: ignore[attr-defined]
    begun = attempts(tmp_path)
    assert 1 <= len(begun) <= 5  # four in flight, and one done
    sleep(0.5)
    assert attempts(tmp_path) == begun


@dataclass
class KillingANode:
    """An executor on Ray; one of the nodes dies when it has begun a shard."""

    cluster: Any
    node: Any

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        for number, report in enumerate(RayExecutor().run(work, shards)):
            if number == 0:
                wait_for(Path("begun").exists)
                self.cluster.remove_node(self.node, allow_graceful=False)
            yield report


@pytest.mark.usefixtures("session", "folder")
def test_a_node_that_dies_changes_no_value(cluster: Any, undisturbed: pd.DataFrame) -> None:
    """The tests below have one node left."""
    (node,) = cluster.worker_nodes
    (raylet,) = node.all_processes["raylet"]
    Path("doomed").write_text(str(raylet.process.pid))
    wait_for(lambda: ray.available_resources().get("CPU") == 2)  # cancelled tasks are gone
    summary = job().run(executor=KillingANode(cluster, node), progress=False)
    assert (summary.rows, summary.rows_failed) == (ROWS, 0)
    assert 1 <= summary.retries <= 2
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("session")
def test_attempts_at_a_shard_are_capped(tmp_path: Path) -> None:
    run = RayExecutor(workers=1, attempts=1).run(Touch(tmp_path, dies=(1,)), shards(2))
    first, second = run
    assert (first.shard.number, first.attempt, first.error) == (0, 1, None)
    assert (second.shard.number, second.attempt) == (1, 1)
    assert str(second.error).startswith("the worker died: ")
    assert attempts(tmp_path) == ["0-1", "1-1"]


# Without an open session


def test_an_address_where_nobody_listens_is_refused(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        ray.shutdown()
        with pytest.raises(
            InputError, match=rf"address: cannot open a Ray session at '{address}': .*refused"
        ):
            list(RayExecutor(address).run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("folder")
def test_a_worker_that_is_killed_changes_no_value(cluster: Any, undisturbed: pd.DataFrame) -> None:
    """From the command line, and with the address of a cluster."""
    ray.shutdown()
    Path("life-1").touch()
    assert "retries     1\n" in done("--engine", "ray", "--address", cluster.address)
    assert not ray.is_initialized()
    check_whole(values(), undisturbed)
