"""A worker that dies and a test that hangs end the run, with a message."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from folder_jobs import wait_for

ROOT = Path(__file__).parents[1]

HEAD = """
import ctypes, os, signal, subprocess, threading, time, warnings
from pathlib import Path
import pytest
"""

DIES = """
@pytest.mark.parametrize("number", range(6))
def test_before(number):
    pass

def test_it():
    child = subprocess.Popen(["sleep", "1000"])
    Path("child").write_text(str(child.pid))
    warnings.simplefilter("ignore")
    if os.fork() == 0:
        time.sleep(1000)  # it holds what the worker holds
    os.kill(os.getpid(), signal.SIGKILL)
"""

HANGS = """
def test_it():
    threading.Event().wait()
"""

HANGS_IN_C = """
def test_it():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(1000)  # which does not let other threads run
"""

HANGS_AFTER_A_FAILURE = """
@pytest.fixture
def server():
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    yield
    thread.join()

def test_it(server):
    raise RuntimeError
"""

HANGS_AT_IMPORT = """
time.sleep(1000)
"""

CRASH = r"worker 'gw\d' crashed while running '[^ ]+::test_it'"


def run(folder: Path, content: str, **limits: int) -> str:
    """Run tests as scripts/check.sh does, with other limits, and return the end of the output."""
    (folder / "test_made.py").write_text(HEAD + content)
    command = (ROOT / "scripts" / "check.sh").read_text().splitlines()[-1]
    options = command.removeprefix("exec .venv/bin/pytest ").removesuffix(' "$@"')
    words = [*shlex.split(options.replace("auto", "2")), "-c", str(ROOT / "pyproject.toml")]
    words += [word for name, limit in limits.items() for word in ("-o", f"{name}={limit}")]
    plugins = ("xdist", "pytest_timeout", "watchdog", "no:cacheprovider")
    words += [word for plugin in plugins for word in ("-p", plugin)]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words, f"--rootdir={folder}", "test_made.py"],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "tests")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    return ended.stdout


def has_ended(process: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_worker_that_dies(tmp_path: Path) -> None:
    output = run(tmp_path, DIES)
    assert re.search(CRASH, output)
    assert "1 failed, 6 passed" in output
    wait_for(lambda: has_ended(int((tmp_path / "child").read_text())))


HANGING: dict[str, tuple[str, dict[str, int], list[str]]] = {
    "in Python": (HANGS, {"timeout": 1}, [r"Timeout \(>1.0s\)", "Interrupted: .*::test_it hangs"]),
    "in C": (HANGS_IN_C, {"process_timeout": 1}, ["Timeout .* line .* in test_it", CRASH]),
    "after a failure": (
        HANGS_AFTER_A_FAILURE, {"process_timeout": 1}, [r"in join\b.* in server", CRASH],
    ),
    "at import": (HANGS_AT_IMPORT, {"run_timeout": 1}, ["no test began or ended for 1 s: the run "]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", HANGING)
def test_a_hang(tmp_path: Path, place: str) -> None:
    content, limits, messages = HANGING[place]
    output = run(tmp_path, content, **limits)
    for message in messages:
        assert re.search(message, output, re.DOTALL), output


@pytest.mark.slow
def test_an_error_at_import_is_no_hang(tmp_path: Path) -> None:
    output = run(tmp_path, "try:\n    1 / 0\nfinally:\n    time.sleep(0.1)\n")
    assert "ZeroDivisionError" in output
    assert "crashed" not in output
    assert "Timeout" not in output
