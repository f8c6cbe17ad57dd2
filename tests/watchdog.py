"""The end of a run in which a test hangs or a worker dies: a plugin of pytest.

A hang is ended by the first of three that can reach it, each later than the one before:

1. pytest-timeout interrupts the main thread by a signal: the test fails, and its fixtures end.
2. `Limit` ends the process from a thread of C, though C code holds the interpreter or blocks
   signals, or fixtures hang after the failure.
3. `Watchdog`, in the process that directs the workers, ends the run. It counts from the last test
   that began or ended, so that a slow machine has the time that it needs.

The limits are in pyproject.toml. The first hang stops the run, and so does a worker that dies;
what they leave behind is killed.
"""

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

SECONDS = 2.0  #: between two looks at the processes of a run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the limits to those of pytest-timeout."""
    parser.addini("process_timeout", "seconds until a process ends whose test hangs", default="0")
    parser.addini("run_timeout", "seconds until a run ends in which nothing happens", default="0")


def pytest_configure(config: pytest.Config) -> None:
    """Watch a process that runs tests, or one that directs others."""
    directs = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    limit = int(config.getini("run_timeout" if directs else "process_timeout"))
    if limit:
        config.pluginmanager.register(Watchdog(limit) if directs else Limit(limit))


class Limit:
    """The limit of a process that runs tests."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.end = 0.0  #: of the time of the test that runs; 0: none does
        self.stderr = os.dup(2)  # which is another file while a test runs

    def pytest_runtest_logstart(self) -> None:
        """Count from the start of each test."""
        self.end = time.monotonic() + self.limit
        self._count()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Go on after a failure, at which pytest stops counting: fixtures may hang too."""
        if self.end:
            self._count()

    def pytest_enter_pdb(self) -> None:
        """Leave a person a day."""
        self.end += 86_400

    def _count(self) -> None:
        left = max(self.end - time.monotonic(), 0.1)
        faulthandler.dump_traceback_later(left, exit=True, file=self.stderr)

    def pytest_runtest_logfinish(self) -> None:
        """Stop counting."""
        self.end = 0.0
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Stop the run at the first hang: what waits for the same server would hang as well."""
        report = yield
        if call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
            item.session.shouldstop = f"{item.nodeid} hangs"
        return report


class Watchdog:
    """The limit of a run with workers."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.stderr = os.dup(2)
        self.running: dict[str, float] = {}  #: when each test began that has not ended
        self.latest = time.monotonic()  #: when the last test began or ended
        os.environ[MARK] = "1"
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self.latest = self.running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that a test has ended."""
        self.latest = time.monotonic()
        self.running.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test has ended with its worker."""
        if str(report.when) == "???":
            self.pytest_runtest_logfinish(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Kill what the workers have left behind."""
        _kill(_processes())

    def _watch(self) -> None:
        while not (hang := self._hang()):
            time.sleep(SECONDS)
            processes = _processes()
            if any(state == "Z" for state, _ in processes.values()):
                _kill(_orphans(processes))  # they may hold the pipe of a dead worker open
        os.write(self.stderr, f"\n{hang} for {self.limit} s: the run ends here\n".encode())
        faulthandler.dump_traceback(self.stderr)
        _kill(_processes())
        os._exit(1)

    def _hang(self) -> str:
        """Return what hangs, or ""."""
        long_ago = time.monotonic() - self.limit
        running = list(self.running.items())
        hanging = [test for test, begun in running if begun < long_ago]
        if hanging:
            return f"{' and '.join(hanging)} did not end"
        return "no test began or ended" if not running and self.latest < long_ago else ""


# The processes of a run: Linux only

MARK = f"TEST_RUN_{os.getpid()}"  #: a variable that all processes of a run inherit

Processes = dict[int, tuple[str, int]]  #: the state and the parent of each, by number


def _processes() -> Processes:
    """Return the processes that this one has started, directly or not."""
    processes: Processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            own = int(parent) == os.getpid()
            if own or MARK.encode() in (folder / "environ").read_bytes():
                processes[int(folder.name)] = state, int(parent)
    return processes


def _orphans(processes: Processes) -> list[int]:
    """Return the processes whose parents are dead."""
    alive = {number for number, (state, _) in processes.items() if state != "Z"}
    return [
        number
        for number, (_, parent) in processes.items()
        if parent not in alive and parent != os.getpid()
    ]


def _kill(processes: Iterable[int]) -> None:
    for number in processes:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
