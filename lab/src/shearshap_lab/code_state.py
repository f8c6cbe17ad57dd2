"""The code of shearshap and shearshap_lab: its files, hashes of them, and its commit.

Results that are kept on disk are named by it, so that other code does not take them for its own.
"""

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import shearshap

PACKAGE = Path(__file__).parent
PACKAGES = {"shearshap": Path(shearshap.__file__).parent, "shearshap_lab": PACKAGE}


@cache
def sources() -> tuple[str, ...]:
    """Return the Python files of both packages, such as "shearshap/methods/shear.py"."""
    return tuple(
        sorted(
            f"{name}/{path.relative_to(package).as_posix()}"
            for name, package in PACKAGES.items()
            for path in package.rglob("*.py")
        )
    )


def under(path: str, places: tuple[str, ...]) -> bool:
    """Return whether a path is one of the files, or lies in one of the folders."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def hash_of(paths: Iterable[str]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of source files and their names."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path} ".encode())
        name, _, within = path.partition("/")
        digest.update(hashlib.sha256((PACKAGES[name] / within).read_bytes()).digest())
    return digest.hexdigest()[:16]


def commit(digits: int = 40) -> str:
    """Return the commit that the package is at, with "-dirty" where it was changed since.

    It is "unknown" where the package is no part of a repository.
    """
    try:
        # an environment may lie inside a repository that knows nothing of what is installed there
        _git("ls-files", "--error-unmatch", "__init__.py")
        head = _git("rev-parse", "HEAD")[:digits]
        changed = _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _git(*words: str) -> str:
    command = ["git", "-C", str(PACKAGE), *words]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return finished.stdout.strip()
