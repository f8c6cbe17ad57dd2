"""How tests run: one thread for each process, and the same examples every time.

Several processes that each use every core only wait for one another, and the processes in which
torch.compile would compile take longer to start than anything here to compile. New random
examples are for a developer who looks for failures: SHEARSHAP_RANDOM_EXAMPLES=1.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

import browser
from clock import Watch

torch.set_num_threads(1)
# in the background of a script it would be ignored, and in every process that a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

# no test depends on how fast a machine is
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", patient, derandomize=True)
settings.register_profile("random", patient, derandomize=False)
settings.load_profile("random" if os.environ.get("SHEARSHAP_RANDOM_EXAMPLES") else "same")

pytest_plugins = ["watchdog"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of the documents and of the laboratory by the folder they lie in."""
    for item in items:
        folder = item.path.parent
        if folder.name == "docs":
            item.add_marker("docs")
        if folder.parent.name == "lab":
            item.add_marker("lab")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The clock of deadlines and model calls."""
    from shearshap.engine import loop
    from shearshap.games import batches

    watch = Watch()
    monkeypatch.setattr(loop, "time", watch)
    monkeypatch.setattr(batches, "time", watch)
    return watch


# One Ray cluster and one browser for all tests: each takes seconds to start

STORE = 100 << 20  #: bytes of a node's object store
QUICK_DEATH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300}
"""How soon the cluster notices that a node is dead; by default after some ten seconds."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with a CPU each; its tests are in the group "ray"."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # or tests on the other cores hold workers up
        # workers unpickle what is defined in tests
        patch.setenv("PYTHONPATH", str(Path(__file__).with_name("tests")), prepend=os.pathsep)
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
    import ray

    if not ray.is_initialized():
        ray.init(cluster.address, log_to_driver=False, logging_level="error")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for each worker."""
    with browser.chromium() as driver:
        yield driver


@pytest.fixture
def driver(chromium: Any) -> Iterator[Any]:
    """The browser of all tests, with light pages again after each."""
    yield chromium
    browser.command(chromium, "Emulation.setEmulatedMedia", features=[])
