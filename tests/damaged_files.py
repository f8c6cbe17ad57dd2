"""Damaged files and their readers, which run in a process of their own.

Readers in C++ may abort, hang or take all memory. Then the test fails that gave them the file, the
file is kept, and the other tests go on.
"""

import faulthandler
import multiprocessing
import os
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from clock import join
from shearshap.apps.jobs import tables
from shearshap.apps.jobs.columns import InputColumns, survey
from shearshap.apps.jobs.models import open_model
from shearshap.apps.jobs.shards import InputFile, batches, cut, shard_sizes
from shearshap.errors import InputError

MEMORY = 4 << 30  #: bytes of addresses that reading a file may take
SECONDS = 60  #: that it may take

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Damage:
    """Bytes of a file that have changed, counted from its start or end, and where it is cut."""

    changes: list[tuple[int, int]]
    from_end: bool
    cut_at: int | None

    def of(self, content: bytes) -> bytes:
        damaged = bytearray(content)
        for place, byte in self.changes:
            damaged[(-1 - place if self.from_end else place) % len(content)] = byte
        return bytes(damaged[: self.cut_at])


CHANGE = st.tuples(st.integers(0, 9_999), st.integers(0, 255))
DAMAGES = st.builds(
    Damage,
    changes=st.lists(CHANGE, min_size=1, max_size=5),
    from_end=st.booleans(),
    cut_at=st.none() | st.integers(0, 9_999),
)

# without Phase.shrink: what crashes a reader would start many others, and the file is kept
unshrunk = settings(phases=[Phase.explicit, Phase.generate])


class Reader:
    """A process that reads one file after the other: starting it takes seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  #: of the files
        self.log = folder / "stderr.txt"  #: what the process has written there about the last file

    def __enter__(self) -> Self:
        spawning = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(self.log, theirs), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.process.kill()
        join(self.process)

    def error(self, read: Read, content: bytes, suffix: str) -> str:
        """Return why a file is refused, or "" if it is read; fail if that ends the process."""
        file = self.folder / f"{sha256(content).hexdigest()[:16]}{suffix}"
        file.write_bytes(content)
        self.log.write_bytes(b"")
        try:
            self.pipe.send((read, file))
            error, failure = self.pipe.recv()
        except (EOFError, OSError):
            error, failure = "", self._death()
        if failure:
            pytest.fail(f"{read.__name__} of {file}: {failure}", pytrace=False)
        file.unlink()
        return str(error)

    def _death(self) -> str:
        """Return what the process died of, and start another."""
        join(self.process)
        code = self.process.exitcode
        assert code is not None
        self.__exit__()
        self.__enter__()
        words = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the process ended with {words}\n{self.log.read_text(errors='replace')}"


def _serve(log: Path, pipe: Connection) -> None:
    """Read files until there are no more: what the process runs."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    faulthandler.enable()
    _limit_memory()
    while True:
        try:
            read, file = pipe.recv()
        except EOFError:
            return
        signal.alarm(SECONDS)  # which ends the process
        pipe.send(_outcome(read, file))
        signal.alarm(0)


def _limit_memory() -> None:
    status = Path("/proc/self/statm")
    if status.exists():  # macOS has no such limit
        addresses = int(status.read_text().split()[0]) * resource.getpagesize()
        limit = addresses + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _outcome(read: Read, file: Path) -> tuple[str, str]:
    """Return the error that a user is shown, and any other, as a traceback."""
    try:
        read(file)
    except InputError as error:
        return str(error), ""
    except Exception:  # noqa: BLE001  (the test shows it)
        return "", traceback.format_exc()
    return "", ""


# Ways to read a file


def read_shards(file: Path) -> None:
    """Read a Parquet file as a large job does."""
    found = InputFile.from_parquet(file, file)
    shards = cut([found], shard_sizes([found], 1_000))
    if sum(found.groups):
        columns = InputColumns.from_files(found.schema, [found])
        survey(shards, columns, found.schema, found.schema.names)
    for shard in shards[:9]:
        for _ in batches(shard, found.schema.names, 16):
            pass


def read_table(file: Path) -> None:
    """Read a table into memory."""
    table = tables.read(file, "data")
    assert len(table)
    assert table.column_names


def read_model(file: Path) -> None:
    """Open a model."""
    open_model(str(file))


def crash(_: Path) -> None:
    """Abort, as a reader in C++ may."""
    os.abort()
