"""Where records come from: the code, the versions and the machine that made them."""

import os
import platform
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch

from shearshap import __version__
from shearshap.store import written_whole
from shearshap_lab.code_state import hash_of, sources, under

TRAINING = ("shearshap_lab/data", "shearshap_lab/networks")
"""The code that networks depend on."""

STUDYING = (
    "shearshap_lab/experiments/studies",
    "shearshap_lab/experiments/spec.py",
    "shearshap_lab/experiments/subject.py",
)
"""The code in experiments/ that records depend on; the rest of it only shows them."""

SHOWING = (
    "shearshap/cli.py",
    "shearshap/interop",
    "shearshap/jobs",
    "shearshap/plots",
    "shearshap/report",
    "shearshap/serve",
    "shearshap_lab/commands.py",
    "shearshap_lab/contest",
    "shearshap_lab/experiments",
    "shearshap_lab/svg.py",
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
    return hash_of(path for path in sources() if under(path, TRAINING))


@cache
def code_of_studies() -> str:
    """Return a hash of all the code that the numbers in records depend on.

    It is both packages, without what shows results or takes them elsewhere.
    """
    return hash_of(path for path in sources() if measures(path))


def measures(path: str) -> bool:
    """Return whether records depend on a file such as "shearshap/methods/shear.py"."""
    return under(path, STUDYING) or not under(path, SHOWING)


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
