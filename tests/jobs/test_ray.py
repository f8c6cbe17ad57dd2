"""Large jobs on Ray: the same parts as in one process, whatever dies meanwhile; and Ray Data."""

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

from shearshap import InputError, ShearWarning
from shearshap.cli import app
from shearshap.jobs import InProcess, Job, Shard, ShardResult
from shearshap.jobs.executors import Work
from shearshap.jobs.ray import RayExecutor
from shearshap.jobs.shards import InputFile, cut

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.xdist_group("ray")  # one cluster for all tests

STORE = 100 << 20  #: bytes of a node's object store
QUICK_DEATH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300}
"""How soon the cluster notices that a node is dead; by default after some ten seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with a CPU each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # workers unpickle what is defined here
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        node = {"num_cpus": 1, "object_store_memory": STORE}
        head = {**node, "include_dashboard": False, "_system_config": QUICK_DEATH}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(**node)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def session(cluster: Any) -> None:
    """A session with the cluster; it stays open, since each new one has new workers."""
    if not ray.is_initialized():
        ray.init(cluster.address, log_to_driver=False, logging_level="error")


# The executor alone


@dataclass(frozen=True)
class Touch:
    """Work that leaves a file for each attempt; some shards' workers die, or fail."""

    out: Path
    dies: tuple[int, ...] = ()  #: shards whose worker dies
    fails: tuple[int, ...] = ()  #: shards that fail at the first attempt
    never: tuple[int, ...] = ()  #: shards that fail, and need not be tried again
    halts: tuple[int, ...] = ()
    seconds: float = 0.0

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        (self.out / f"{shard.number}-{attempt}").write_text(str(os.getpid()))
        sleep(self.seconds)
        number = shard.number
        if number in self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        report = ShardResult(
            shard, rows=shard.rows, seconds=1.0, attempt=attempt, worker=f"{worker}"
        )
        if number in self.fails and attempt == 1:
            return replace_error(report, "not now")
        if number in self.never:
            return replace_error(report, "a wrong row", again=False)
        if number in self.halts:
            return replace_error(report, "the disk is full", halts=True)
        return report


class Unknown(Touch):
    """Work whose code no worker has."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("gone",)


def replace_error(
    report: ShardResult, error: str, *, again: bool = True, halts: bool = False
) -> ShardResult:
    return ShardResult(
        report.shard, seconds=1.0, attempt=report.attempt, error=error, again=again, halts=halts
    )


def shards(count: int) -> list[Shard]:
    file = Path("rows.parquet")
    return cut([InputFile(file, file, (5,) * count)], 5)


def in_order(reports: Iterator[ShardResult]) -> list[ShardResult]:
    return sorted(reports, key=lambda report: report.shard.number)


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
    reports = list(RayExecutor().run(Touch(tmp_path, seconds=0.1), shards(8)))
    assert len(reports) == 8
    processes = {file.read_text() for file in tmp_path.iterdir()}
    assert len(processes) == 2  # one on each node, for all shards


@pytest.mark.usefixtures("session")
def test_no_shard_is_begun_after_a_report_that_halts(tmp_path: Path) -> None:
    reports = list(RayExecutor(workers=1).run(Touch(tmp_path, halts=(1,)), shards(5)))
    assert [report.error for report in reports] == [None, "the disk is full"]
    assert attempts(tmp_path) == ["0-1", "1-1"]


@pytest.mark.usefixtures("session")
def test_an_address_beside_an_open_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"address: a session of Ray is open already"):
        list(RayExecutor(address="elsewhere:6379").run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("session")
def test_a_task_that_fits_no_node_is_named(tmp_path: Path) -> None:
    run = RayExecutor(num_gpus=1).run(Touch(tmp_path), shards(1))
    with pytest.raises(ShearWarning, match=r"no node of the Ray cluster has 1 CPUs and 1 GPUs"):
        next(run)


@pytest.mark.usefixtures("session")
def test_mistakes_in_the_work_are_raised() -> None:
    missing = Path("/no/such/folder")
    with pytest.raises(FileNotFoundError, match="/no/such/folder/0-1"):
        list(RayExecutor().run(Touch(missing), shards(1)))


@pytest.mark.usefixtures("session")
def test_work_that_no_worker_can_unpickle_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a worker of Ray cannot open the job: .*No module named 'gone'"
    ):
        list(RayExecutor().run(Unknown(Path()), shards(1)))


# Whole jobs

ROWS = 240
GROUP = 20
SCORE = """
import os
import signal
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def predict(frame):
    if os.environ.get("RAY_RAYLET_PID"):
        in_a_worker()
    a, b, c, d = (frame[name].to_numpy() for name in "abcd")
    return a * b * c + np.sin(c * d)


def in_a_worker():
    doomed = HERE / "doomed"
    if doomed.exists() and doomed.read_text() == os.environ["RAY_RAYLET_PID"]:
        (HERE / "begun").touch()
        time.sleep(60)
    if mortal():
        os.kill(os.getpid(), signal.SIGKILL)


def mortal():
    try:
        (HERE / "mortal").unlink()  # by one worker only
    except FileNotFoundError:
        return False
    return True
"""
"""A model that kills one worker where there is a file `mortal`, and that hangs on the node of the file `doomed`."""


def table() -> pd.DataFrame:
    rows = np.random.default_rng(0).normal(size=(ROWS, 4))
    return pd.DataFrame(rows, columns=list("abcd")).assign(id=[f"{at:05}" for at in range(ROWS)])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with rows and a model in it, and the values of a run in one process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    Path("score.py").write_text(SCORE)
    Path("rows").mkdir()
    table().to_parquet("rows/all.parquet", row_group_size=GROUP)
    return tmp_path


def job(**options: Any) -> Job:
    wanted: dict[str, Any] = {"model": "score.py:predict", "data": "rows", "out": "values"}
    return Job(**({"large": True} | wanted | {"id_column": "id", "budget": 12} | options))


def check_whole() -> None:
    """Every id exactly once, in the order of the rows, and the values of one process."""
    job(out="alone").run(executor=InProcess(), progress=False)
    found = pd.read_parquet("values")
    assert found["id"].tolist() == table()["id"].tolist()
    pd.testing.assert_frame_equal(found, pd.read_parquet("alone"))
    assert not list(Path("values").glob(".*.partial"))


@pytest.mark.usefixtures("session")
def test_a_model_goes_along_with_the_work(here: Path) -> None:
    inputs = table().drop(columns="id")
    model = LinearRegression().fit(inputs, inputs["a"] - 2 * inputs["b"])
    for out, executor in (("values", RayExecutor()), ("alone", InProcess())):
        job(model=model, out=here / out).run(executor=executor, progress=False)
    pd.testing.assert_frame_equal(pd.read_parquet("values"), pd.read_parquet("alone"))


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


def test_an_address_where_nobody_listens_is_refused(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        ray.shutdown()
        with pytest.raises(
            InputError, match=rf"address: cannot open a session of Ray at '{address}': .*refused"
        ):
            list(RayExecutor(address).run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("here")
def test_a_worker_that_is_killed_changes_no_value(cluster: Any) -> None:
    """From the command line, and with the address of a cluster."""
    ray.shutdown()
    Path("mortal").touch()
    given = "explain --model score.py:predict --data rows --out values/ --id id --budget 12"
    words = [*given.split(), "--engine", "ray", "--address", cluster.address]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "retries     1\n" in result.stdout
    assert not ray.is_initialized()
    check_whole()


def wait_for(file: Path) -> None:
    deadline = monotonic() + 60
    while not file.exists():
        assert monotonic() < deadline, f"there is no {file}"
        sleep(0.05)


@dataclass
class KillingANode:
    """An executor on Ray; one of the nodes dies when it has begun a shard."""

    cluster: Any
    node: Any

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        for number, report in enumerate(RayExecutor().run(work, shards)):
            if number == 0:
                wait_for(Path("begun"))
                self.cluster.remove_node(self.node, allow_graceful=False)
            yield report


@pytest.mark.usefixtures("session", "here")
def test_a_node_that_dies_changes_no_value(cluster: Any) -> None:
    """Tests after this one have one node left."""
    (node,) = cluster.worker_nodes
    (raylet,) = node.all_processes["raylet"]
    Path("doomed").write_text(str(raylet.process.pid))
    summary = job().run(executor=KillingANode(cluster, node), progress=False)
    assert (summary.rows, summary.rows_failed) == (ROWS, 0)
    assert 1 <= summary.retries <= 2
    check_whole()


@pytest.mark.usefixtures("session")
def test_attempts_at_a_shard_are_capped(tmp_path: Path) -> None:
    run = RayExecutor(workers=1, attempts=1).run(Touch(tmp_path, dies=(1,)), shards(2))
    first, second = run
    assert (first.shard.number, first.attempt, first.error) == (0, 1, None)
    assert (second.shard.number, second.attempt) == (1, 1)
    assert str(second.error).startswith("the worker died: ")
    assert attempts(tmp_path) == ["0-1", "1-1"]
