"""Where records come from: the code, the versions and the machine that made them."""

import hashlib
import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch

import shearshap
from shearshap import __version__
from shearshap.engine.store import written_whole

PACKAGE = Path(shearshap.__file__).parent

TRAINING = ("paper/data", "paper/networks")
"""The code that networks depend on."""

STUDYING = (
    "paper/experiments/studies",
    "paper/experiments/spec.py",
    "paper/experiments/subject.py",
)
"""The code in paper/experiments that records depend on; the rest of it only shows them."""

SHOWING = (
    "cli.py",
    "interop",
    "jobs",
    "paper/commands.py",
    "paper/experiments",
    "plots",
    "report",
    "views.py",
)
"""The code that records do not depend on."""

VERSIONS = ", ".join(
    (
        f"shearshap {__version__}",
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}",
        f"numpy {np.__version__}",
    )
)


# Code


@cache
def code_of_training() -> str:
    """Return a hash of the code that trains networks."""
    return _hash([path for path in sources() if _under(path, TRAINING)])


@cache
def code_of_studies() -> str:
    """Return a hash of all the code that the numbers in records depend on.

    It is the whole package, without what shows results or takes them elsewhere.
    """
    return _hash([path for path in sources() if measures(path)])


def measures(path: str) -> bool:
    """Return whether records depend on a file of the package, such as "methods/shear.py"."""
    return _under(path, STUDYING) or not _under(path, SHOWING)


@cache
def sources() -> tuple[str, ...]:
    """Return the Python files of the package, by their path in it."""
    return tuple(sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")))


def _under(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _hash(paths: list[str]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of files and their names."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path} ".encode())
        digest.update(hashlib.sha256((PACKAGE / path).read_bytes()).digest())
    return digest.hexdigest()[:16]


def commit() -> str:
    """Return the commit that the package is at, with "-dirty" where it was changed since.

    It is "unknown" where the package is no part of a repository.
    """
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _git(*words: str) -> str:
    command = ["git", "-C", str(PACKAGE), *words]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return finished.stdout.strip()


# Machine and time


def machine() -> str:
    """Return the processor and the cores used, which timings depend on."""
    cores = f"{os.cpu_count()} cores ({torch.get_num_threads()} used)"
    return f"{_processor()}, {cores}, {platform.system()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    if names:
        return names[0]
    return platform.processor() or platform.machine()


class Stopwatch:
    """The wall time of a run, kept in a file, so that a run that goes on adds to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = _seconds_in(path)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The wall time so far, that of earlier attempts included."""
        return self._before + time.perf_counter() - self._started

    def save(self) -> None:
        """Keep the time so far."""
        with written_whole(self._path) as partial:
            partial.write_text(f"{self.seconds:.3f}\n")


def _seconds_in(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return 0.0
