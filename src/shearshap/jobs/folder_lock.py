"""The lock of a job's folder: one run at a time.

The file names the process and the host that hold it. The system's own lock on the file ends with
the process, however it ends, so a run that was killed locks nobody out. On a disk that several
hosts share, the system may not see the locks of the others: there the name of a host counts.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from shearshap.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "_lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise where another run that lives holds it."""
    path = folder / LOCK
    with path.open("a+", encoding="utf-8") as file:
        if not _locked_by_system(file):
            raise InputError(_refusal(folder, _holder(file)))
        holder = _holder(file)
        if _may_live(holder):
            raise InputError(f"{_refusal(folder, holder)}; if that run is no more, delete {path}")
        _write(file, {"pid": os.getpid(), "host": socket.gethostname()})
        try:
            yield
        finally:
            # emptied and not deleted: another run may have opened it already
            with suppress(OSError):
                _write(file, {})


def _locked_by_system(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True


def _holder(file: IO[str]) -> dict[str, Any]:
    """Return who holds, or held, the lock; nobody where the file says nothing that makes sense."""
    file.seek(0)
    with suppress(ValueError, RecursionError):
        holder = json.loads(file.read(1 << 12))
        if isinstance(holder, dict):
            return holder
    return {}


def _may_live(holder: dict[str, Any]) -> bool:
    """Return whether a holder that the system does not know of may live all the same."""
    if not holder:
        return False
    # with locks of the system's, a process of this host would still hold them
    return fcntl is None or holder.get("host") != socket.gethostname()


def _refusal(folder: Path, holder: dict[str, Any]) -> str:
    pid = holder.get("pid", "unknown")
    host = holder.get("host", "an unknown host")
    return f"out: another run is at work in {folder} (process {pid} on {host})"


def _write(file: IO[str], holder: dict[str, Any]) -> None:
    file.seek(0)
    file.truncate()
    if holder:
        file.write(json.dumps(holder))
    file.flush()
