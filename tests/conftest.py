"""One Ray cluster and one browser for all tests: each takes seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import browser

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
    import ray

    if not ray.is_initialized():
        ray.init(cluster.address, log_to_driver=False, logging_level="error")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with browser.chromium() as driver:
        yield driver


@pytest.fixture
def driver(chromium: Any) -> Iterator[Any]:
    """The browser of all tests, with light pages again after each."""
    yield chromium
    browser.command(chromium, "Emulation.setEmulatedMedia", features=[])
