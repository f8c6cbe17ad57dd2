"""Where results come from: the code, the versions and the machine that made them.

Results that are kept on disk are named by a hash of the code, so that other code does not take
them for its own.
"""

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import shearshap

PACKAGE = Path(__file__).parent
PACKAGES = {"shearshap": Path(shearshap.__file__).parent, "shearshap_lab": PACKAGE}
LIBRARIES = ("shearshap", "torch", "numpy", "scipy", "scikit-learn")

UNRELATED = {
    *("interop", "jobs", "plots", "report", "serve"),
    *("claims.py", "commands.py", "evidence.py", "figures.py", "markdown.py", "page.py"),
    *("results.py", "statistics.py", "summary.py", "svg.py"),
}
"""Folders and files that no measured number depends on: they show numbers, or carry them away."""


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """Return what made results, by name, for a JSON file beside them."""
    return {
        "command": command,
        "commit": commit(),
        "code": code_hash(),
        "versions": versions(),
        "machine": machine(),
        "seconds": round(seconds, 1),
    }


@cache
def code_hash() -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all code that measured numbers depend on."""
    digest = hashlib.sha256()
    for name, package in PACKAGES.items():
        for path in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
            if not UNRELATED & set(path.relative_to(package).parts):
                digest.update(f"{name} {path.name} ".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def short_hash(*facts: object) -> str:
    """Return 16 hexadecimal digits of a hash of facts, for the name of a file."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def versions(*more: str) -> str:
    """Return the versions of Python and of the libraries that results depend on."""
    found = [version(library) for library in (*LIBRARIES, *more)]
    return ", ".join([f"Python {platform.python_version()}", *filter(None, found)])


def version(library: str) -> str:
    """Return "numpy 2.4.6", or nothing if the library is not installed."""
    try:
        return f"{library} {metadata.version(library)}"
    except metadata.PackageNotFoundError:
        return ""


def machine(device: str = "cpu") -> str:
    """Return the processor and the cores that are used, or the GPU."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    processor = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    return f"{processor}; threads: {torch.get_num_threads()}"


def commit() -> str:
    """Return the commit of the repository, with "-dirty" if it was changed since.

    It is "unknown" if the package is no part of a repository.
    """
    try:
        # an environment may lie inside a repository that knows nothing of what is installed there
        _git("ls-files", "--error-unmatch", "__init__.py")
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(PACKAGE), *words]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return finished.stdout.strip()
