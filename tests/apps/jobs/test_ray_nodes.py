"""Large jobs on a Ray cluster of which one node has other files than the rest, or dies."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import shearshap
from folder_jobs import GROUP, ROWS, check_whole, explained, job, values
from ray_nodes import HOST, Node, started_node
from shearshap import ShearWarning
from shearshap.apps.jobs import Outcome, Shard, ShardResult
from shearshap.apps.jobs.pool import Work
from shearshap.apps.jobs.ray import RayExecutor
from shearshap.errors import JobError

pytest.importorskip("ray")

PACKAGE = Path(shearshap.__file__).parent

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def odd(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with more CPUs than the others, so that the first worker starts there."""
    with started_node(cluster.address, tmp_path_factory.mktemp("odd") / "log", cpus=2) as node:
        yield node


@contextmanager
def left_out(reason: str) -> Iterator[None]:
    """Expect a warning that names the node and the reason."""
    words = rf"^{HOST} \(127.0.0.9, Ray node \w+\) is left out for the rest of the job: {reason}"
    with pytest.warns(ShearWarning, match=words):
        yield


def on_ray() -> Outcome:
    """The outcome of a job with one worker at a time, the first of them on the odd node."""
    return job().run(executor=RayExecutor(workers=1, attempts=2), progress=False)


@pytest.mark.usefixtures("session")
def test_a_node_without_the_library(odd: Node, folder: Path, undisturbed: pd.DataFrame) -> None:
    (folder / "other").mkdir()
    (folder / "other/__init__.py").write_text("raise ImportError('nothing here')")
    with odd.mounted(folder / "other", PACKAGE), left_out(".*: ImportError: nothing here;"):
        assert on_ray().retries == 0
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("session")
def test_a_node_without_the_data(odd: Node, folder: Path, undisturbed: pd.DataFrame) -> None:
    (folder / "empty").mkdir()
    with odd.mounted(folder / "empty", folder / "rows"):
        assert on_ray().retries == 1
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("session")
def test_a_node_whose_output_folder_is_its_own_disk(
    odd: Node, folder: Path, undisturbed: pd.DataFrame
) -> None:
    own = folder / "own"
    own.mkdir()
    (folder / "values").mkdir()
    with odd.mounted(own, folder / "values"), left_out("out: .* is not the folder of this run"):
        summary = on_ray()
    assert summary.retries == 0
    assert any("is left out" in note for note in summary.notes)
    assert not list(own.iterdir())
    check_whole(values(), undisturbed)


def refusal_of_the_odd_node() -> str:
    """The error of a job for which only the odd node has room."""
    with pytest.raises(JobError) as raised:
        job().run(executor=RayExecutor(num_cpus=2), progress=False)
    assert raised.value.summary.rows == 0
    return str(raised.value)


@pytest.mark.usefixtures("session")
def test_a_node_with_another_version(odd: Node, folder: Path) -> None:
    other = folder / "other"
    shutil.copytree(PACKAGE, other, ignore=shutil.ignore_patterns("__pycache__"))
    own = shearshap.__version__
    text = (other / "__init__.py").read_text()
    (other / "__init__.py").write_text(text.replace(f'"{own}"', '"0.0.1"'))
    with odd.mounted(other, PACKAGE):
        assert f"{HOST} has shearshap 0.0.1, and the driver has {own}" in refusal_of_the_odd_node()


@pytest.mark.usefixtures("session")
def test_a_node_with_another_model(odd: Node, folder: Path) -> None:
    other = folder / "other.py"
    other.write_text((folder / "score.py").read_text().replace("a * b * c", "a * b"))
    with odd.mounted(other, folder / "score.py"):
        assert f"score.py:predict on {HOST} is not the model that" in refusal_of_the_odd_node()


# At the end, since the node is gone then


@dataclass
class KillingTheNode:
    """An executor on the odd node alone, which dies after the first shard."""

    node: Node

    def run(self, work: Work, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        for report in RayExecutor(num_cpus=2, patience=1).run(work, shards):
            if self.node.process.poll() is None:
                self.node.kill()
            yield report


@pytest.mark.usefixtures("session", "folder")
def test_the_last_node_dies(odd: Node, undisturbed: pd.DataFrame) -> None:
    words = "no node of the Ray cluster has 2 CPUs and 0 GPUs for a worker"
    with (
        pytest.warns(ShearWarning, match=f"{words}; the job waits 1 seconds for one"),
        pytest.raises(JobError, match=f"{words}, after 1 seconds; add a node") as raised,
    ):
        job().run(executor=KillingTheNode(odd), progress=False)
    done = raised.value.summary.rows
    assert GROUP <= done < ROWS
    assert len(values()) == done

    assert explained().rows == ROWS - done
    check_whole(values(), undisturbed)
