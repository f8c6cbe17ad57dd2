"""Large jobs on Ray: the same parts as in one process, whatever dies meanwhile; and Ray Data."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from folder_jobs import ROWS, check_whole, done, job, table, values, wait_for
from shearshap import InputError, ShearWarning
from shearshap.apps.jobs import InProcess, Shard, ShardResult
from shearshap.apps.jobs.pool import Work
from shearshap.apps.jobs.ray import RayExecutor
from shearshap.apps.jobs.shards import InputFile, cut

ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]  # one cluster for all tests

# The executor alone


@dataclass(frozen=True)
class Touch:
    """Work that leaves a file for each attempt; some shards' workers die, or fail."""

    out: Path
    ends: Mapping[int, int] = field(default_factory=dict)  #: shards: the signals that end workers
    fails: tuple[int, ...] = ()  #: shards that fail at the first attempt
    never: tuple[int, ...] = ()  #: shards that fail, and need not be tried again
    seconds: float = 0.0
    mistakes: tuple[int, ...] = ()  #: shards for which the work itself raises
    together: int = 0  #: processes that wait for each other

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        (self.out / f"{shard.number}-{attempt}").write_text(str(os.getpid()))
        sleep(self.seconds)
        wait_for(lambda: len(processes(self.out)) >= self.together)
        number = shard.number
        if number in self.ends:
            os.kill(os.getpid(), self.ends[number])
            sleep(600)
        if number in self.mistakes:
            raise TypeError("a mistake")
        report = ShardResult(shard, seconds=1.0, attempt=attempt, worker=str(worker))
        if number in self.fails and attempt == 1:
            return replace(report, error="not now")
        if number in self.never:
            return replace(report, error="a wrong row", again=False)
        return replace(report, rows=shard.rows)


class Unknown(Touch):
    """Work whose code no worker has."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("gone",)


def shards(count: int) -> list[Shard]:
    file = Path("rows.parquet")
    return cut([InputFile(file, file, (5,) * count)], [5] * count)


def in_order(reports: Iterator[ShardResult]) -> list[ShardResult]:
    return sorted(reports, key=lambda report: report.shard.number)


def processes(folder: Path) -> set[str]:
    """The processes that have begun a shard."""
    return {file.read_text() for file in folder.iterdir()} - {""}


def attempts(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.usefixtures("session")
def test_reports_are_those_of_one_process(tmp_path: Path) -> None:
    """But for the node; and two processes do all the work, one on each node."""
    work = Touch(tmp_path, fails=(1,), never=(3,), together=2)
    on_ray = in_order(RayExecutor().run(work, shards(5)))
    assert len(processes(tmp_path)) == 2
    assert [report.attempt for report in on_ray] == [1, 2, 1, 2, 1]  # also on the other node
    assert len({report.node for report in on_ray}) == 2
    alone = in_order(InProcess().run(replace(work, together=0), shards(5)))
    assert [replace(report, node="", attempt=1, seconds=1) for report in on_ray] == [
        replace(report, node="", attempt=1, seconds=1) for report in alone
    ]


@pytest.mark.usefixtures("session")
def test_an_address_beside_an_open_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open a Ray session at"):
        list(RayExecutor(address="elsewhere:6379").run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("session")
def test_a_task_that_fits_no_node_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    words = "no node of the Ray cluster has 1 CPUs and 0.5 GPUs for a worker"
    with pytest.warns(ShearWarning, match=f"{words}; the job waits 1 seconds for one"):
        (report,) = RayExecutor(num_gpus=0.5, patience=1).run(Touch(tmp_path), shards(3))
    assert str(report.error).startswith(f"{words}, after 1 seconds; add a node")


@pytest.mark.usefixtures("session")
def test_work_that_no_worker_can_unpickle_is_refused() -> None:
    with pytest.warns(ShearWarning, match="is left out .* cannot open the job") as warned:
        (report,) = RayExecutor(workers=1).run(Unknown(Path()), shards(4))
    assert len(warned) == 1  # of the last one, the error says it
    assert str(report.error).startswith("no node is left: ")
    assert str(report.error).count("No module named 'gone'") == 2


# Whole jobs


@pytest.mark.usefixtures("session")
def test_a_model_goes_along_with_the_work(folder: Path) -> None:
    inputs = table()[["a", "b", "c"]]
    model = LinearRegression().fit(inputs, inputs["a"] - 2 * inputs["b"])
    for out, executor in (("values", RayExecutor(workers=1)), ("alone", InProcess())):
        job(model=model, out=folder / out).run(executor=executor, progress=False)
    pd.testing.assert_frame_equal(values(), values("alone"))


# Ends


@pytest.mark.usefixtures("session")
def test_attempts_in_flight_end_with_the_run_and_so_do_the_processes(tmp_path: Path) -> None:
    run = RayExecutor().run(Touch(tmp_path, seconds=0.3), shards(9))
    next(run)
    pids = processes(tmp_path)
    run.close()  # type: ignore[attr-defined]
    wait_for(lambda: not any(Path("/proc", pid).exists() for pid in pids))
    assert len(attempts(tmp_path)) <= 4  # two in flight, one done, and perhaps one after it
    wait_for(lambda: ray.available_resources().get("CPU") == 2)  # nothing waits for room, either


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
def test_workers_that_die_or_hang_fail_one_shard_only(tmp_path: Path) -> None:
    ends = {1: signal.SIGABRT, 3: signal.SIGSTOP}
    work = Touch(tmp_path, ends=ends, mistakes=(5,))
    reports = in_order(RayExecutor(workers=1, attempts=1, limit=3).run(work, shards(6)))
    assert [report.error is None for report in reports] == [True, False] * 3
    assert str(reports[1].error).startswith("the worker died: ")
    assert str(reports[3].error).startswith("the worker was ended: no answer after ")
    assert reports[5].error == "the worker died: TypeError: a mistake"
    assert attempts(tmp_path) == [f"{number}-1" for number in range(6)]
    pid = (tmp_path / "3-1").read_text()
    wait_for(lambda: not Path("/proc", pid).exists())


# Without an open session


def test_parts_in_a_copy_of_the_working_directory_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ray job submit --working-dir` starts the job in one, of which every node has its own."""
    copy = folder / "working_dir_files/_ray_pkg_0123456789abcdef"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    for out in ("values", "below/values"):
        with pytest.raises(InputError, match=r"out: .*_ray_pkg_.* is in Ray's copy of the working"):
            job(
                data=folder / "rows", background=None, model=f"{folder}/score.py:predict", out=out
            ).run()
    assert not list(copy.iterdir())


def test_a_cluster_that_wants_a_token_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        note = (
            "InvalidAuthToken: Authentication token is missing. Note: RAY_AUTH_MODE is 'disabled'"
        )
        raise ConnectionError("Failed to connect") from RuntimeError(note)

    ray.shutdown()
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(
        InputError, match="Failed to connect, which wants a token: set RAY_AUTH_MODE"
    ):
        list(RayExecutor("auto").run(Touch(tmp_path), shards(1)))


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
