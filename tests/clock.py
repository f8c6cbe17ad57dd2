"""Time in tests: none depends on how fast a machine is."""

from multiprocessing.process import BaseProcess
from threading import Thread

PATIENCE = 180.0  #: seconds to wait for what comes at once, on a machine that may be busy


class Watch:
    """A clock that only models move: what the engine knows of time in a test with `watch`."""

    def __init__(self) -> None:
        self.now = 100.0  #: seconds

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        self.now += 1e-9  # nothing takes no time at all
        return self.now


def join(work: Thread | BaseProcess) -> None:
    """Wait for the end of a thread or process; fail if it does not come."""
    work.join(PATIENCE)
    assert not work.is_alive()
