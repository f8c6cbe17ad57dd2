"""What results depend on besides their own inputs: code, versions, machine."""

import os
import platform
from functools import cache
from importlib import metadata

import torch

from shearshap_lab import code_state
from shearshap_lab.code_state import hash_of, sources, under

LIBRARIES = ("shearshap", "torch", "numpy", "scipy", "scikit-learn")
UNRELATED = (
    "shearshap/cli.py",
    "shearshap/interop",
    "shearshap/jobs",
    "shearshap/plots",
    "shearshap/report",
    "shearshap/serve",
    "shearshap_lab/commands.py",
    "shearshap_lab/experiments",
    "shearshap_lab/svg.py",
)
"""What no error that is measured depends on, in the package."""


@cache
def code_digest() -> str:
    """Return the hash of the package's code, apart from what no measured error depends on."""
    return hash_of(path for path in sources() if not under(path, UNRELATED))


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
    """Return the commit that the package is at, in short; see `code_state`."""
    return code_state.commit(digits=12)
