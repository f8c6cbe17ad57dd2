"""Large jobs on Ray: the same parts as in one process, whatever dies meanwhile; and Ray Data."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from shearshap import InputError, ShearWarning
from shearshap.jobs.executors import InProcess, Report
from shearshap.jobs.ray_executor import RayExecutor
from shearshap.jobs.shards import Shard

if find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("ray")  # one cluster for all tests

STORE = 100 << 20  #: bytes of a node's object store
QUICK_DEATH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300}
"""How soon the cluster notices that a node is dead; by default after some ten seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with a CPU each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # workers unpickle what is defined here
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        node = {"num_cpus": 1, "object_store_memory": STORE}
        head = {**node, "include_dashboard": False, "_system_config": QUICK_DEATH}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(**node)
        ray.init(cluster.address, log_to_driver=False, logging_level="error")
        yield cluster
        ray.shutdown()
        cluster.shutdown()


# The executor alone


@dataclass(frozen=True)
class Touch:
    """Work that leaves a file for each attempt; some shards' workers die, or fail."""

    out: Path
    dies: tuple[int, ...] = ()  #: shards whose worker dies, at the first attempt
    always_dies: tuple[int, ...] = ()
    fails: tuple[int, ...] = ()  #: shards that fail at the first attempt
    never: tuple[int, ...] = ()  #: shards that fail, and need not be tried again
    halts: tuple[int, ...] = ()
    seconds: float = 0.0

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> Report:
        (self.out / f"{shard.number}-{attempt}").write_text(str(os.getpid()))
        sleep(self.seconds)
        number = shard.number
        if number in self.always_dies or (number in self.dies and attempt == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        report = Report(shard, rows=shard.rows, seconds=1.0, attempt=attempt, worker=f"{worker}")
        if number in self.fails and attempt == 1:
            return replace_error(report, "not now")
        if number in self.never:
            return replace_error(report, "a wrong row", again=False)
        if number in self.halts:
            return replace_error(report, "the disk is full", halts=True)
        return report


class Unknown:
    """Work whose code no worker has."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("gone",)

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> Report:
        raise AssertionError


def replace_error(report: Report, error: str, *, again: bool = True, halts: bool = False) -> Report:
    return Report(report.shard, seconds=1.0, attempt=report.attempt, error=error, again=again, halts=halts)


def shards(count: int) -> list[Shard]:
    return [Shard(number, Path("rows.parquet"), 0, 5 * number, 5, 5 * number) for number in range(count)]


def in_order(reports: Iterator[Report]) -> list[Report]:
    return sorted(reports, key=lambda report: report.shard.number)


def attempts(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.usefixtures("cluster")
def test_reports_are_those_of_one_process(tmp_path: Path) -> None:
    work = Touch(tmp_path, fails=(1,), never=(3,))
    on_ray = in_order(RayExecutor().run(work, shards(5)))
    assert on_ray == in_order(InProcess().run(work, shards(5)))
    assert [report.attempt for report in on_ray] == [1, 2, 1, 1, 1]
    assert [report.seconds for report in on_ray] == [1, 2, 1, 1, 1]  # of both attempts
    assert [report.error for report in on_ray] == [None, None, None, "a wrong row", None]


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_dies_costs_an_attempt(tmp_path: Path) -> None:
    work = Touch(tmp_path, dies=(0, 2), always_dies=(1,))
    reports = in_order(RayExecutor(attempts=2).run(work, shards(4)))
    assert [report.attempt for report in reports] == [2, 2, 2, 1]
    assert [report.shard.number for report in reports if report.error] == [1]
    assert str(reports[1].error).startswith("the worker died: ")
    assert attempts(tmp_path) == ["0-1", "0-2", "1-1", "1-2", "2-1", "2-2", "3-1"]


@pytest.mark.usefixtures("cluster")
def test_a_process_keeps_the_work_and_tasks_are_spread(tmp_path: Path) -> None:
    reports = list(RayExecutor().run(Touch(tmp_path, seconds=0.1), shards(8)))
    assert len(reports) == 8
    processes = {file.read_text() for file in tmp_path.iterdir()}
    assert len(processes) == 2  # one on each node, for all shards


@pytest.mark.usefixtures("cluster")
def test_no_shard_is_begun_after_a_report_that_halts(tmp_path: Path) -> None:
    reports = list(RayExecutor(workers=1).run(Touch(tmp_path, halts=(1,)), shards(5)))
    assert [report.error for report in reports] == [None, "the disk is full"]
    assert attempts(tmp_path) == ["0-1", "1-1"]


@pytest.mark.usefixtures("cluster")
def test_tasks_in_flight_end_with_the_run(tmp_path: Path) -> None:
    run = RayExecutor().run(Touch(tmp_path, seconds=0.3), shards(9))
    next(run)
    run.close()  # type: ignore[attr-defined]
    begun = attempts(tmp_path)
    assert 1 <= len(begun) <= 5  # four in flight, and one done
    sleep(0.5)
    assert attempts(tmp_path) == begun


@pytest.mark.usefixtures("cluster")
def test_mistakes_in_the_work_are_raised() -> None:
    missing = Path("/no/such/folder")
    with pytest.raises(FileNotFoundError, match="/no/such/folder/0-1"):
        list(RayExecutor().run(Touch(missing), shards(1)))


@pytest.mark.usefixtures("cluster")
def test_work_that_no_worker_can_unpickle_is_refused() -> None:
    with pytest.raises(InputError, match=r"a worker of Ray cannot open the job: .*No module named 'gone'"):
        list(RayExecutor().run(Unknown(), shards(1)))


@pytest.mark.usefixtures("cluster")
def test_an_address_beside_an_open_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"address: a session of Ray is open already"):
        list(RayExecutor(address="elsewhere:6379").run(Touch(tmp_path), shards(1)))


@pytest.mark.usefixtures("cluster")
def test_a_task_that_fits_no_node_is_named(tmp_path: Path) -> None:
    run = RayExecutor(num_gpus=1).run(Touch(tmp_path), shards(1))
    with pytest.raises(ShearWarning, match=r"no node of the Ray cluster has 1 CPUs and 1 GPUs"):
        next(run)
