"""What results depend on besides their own inputs: code, versions, machine."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

import shearshap

LIBRARIES = ("shearshap", "torch", "numpy", "scipy", "scikit-learn")
UNRELATED = (
    "cli.py",
    "comparisons.py",
    "contest/benchmark.py",
    "contest/contest_page.py",
    "contest/standings.py",
    "interop/",
    "jobs/",
    "paper/experiments/",
    "plots/",
    "report/",
    "views.py",
)
"""What no error that is measured depends on, in the package."""


@cache
def code_digest() -> str:
    """Return the hash of the package's code, apart from what no measured error depends on."""
    root = Path(shearshap.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if not place.startswith(UNRELATED):
            digest.update(f"{place}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> str:
    """Return the versions of Python and of the libraries that results depend on."""
    return ", ".join(
        [f"Python {platform.python_version()}", *filter(None, map(version, LIBRARIES))]
    )


def version(library: str) -> str:
    """Return "numpy 2.4.6", or nothing where the library is not installed."""
    try:
        return f"{library} {metadata.version(library)}"
    except metadata.PackageNotFoundError:
        return ""


def machine() -> str:
    """Return the processors, and how many of them are used."""
    used = torch.get_num_threads()
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}; threads: {used}"


def commit() -> str:
    """Return the commit that the package is of; "unknown" where it is no part of a repository."""
    git = ["git", "-C", str(Path(shearshap.__file__).parent)]
    try:
        # an environment may lie inside a repository that knows nothing of what is installed there
        _printed([*git, "ls-files", "--error-unmatch", "__init__.py"])
        head = _printed([*git, "rev-parse", "--short=12", "HEAD"])
        changed = _printed([*git, "status", "--porcelain", "--", "."])
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _printed(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
