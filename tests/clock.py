"""A clock that only models move, so that no test of a deadline depends on how fast a machine is."""


class Watch:
    """What the engine knows of time while a test has the fixture `watch`."""

    def __init__(self) -> None:
        self.now = 100.0  #: seconds

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        self.now += 1e-9  # nothing takes no time at all
        return self.now
