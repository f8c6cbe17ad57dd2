"""How a large job gets on: a bar in a terminal, a line now and then elsewhere, and a log.

The log has a line of JSON for each shard.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from shearshap.errors import InputError
from shearshap.jobs.executors import Report

EVERY = 10.0  #: seconds between two lines, at least
STDERR = "-"  #: the name of a log that goes there


@dataclass
class JobProgress:
    """Rows done, rows a second and the time left."""

    total: int  #: rows of the job
    before: int  #: rows that earlier runs have done
    bar: Any  #: tqdm's, in a terminal; None: lines, or nothing
    lines: bool  #: whether to write lines
    log: IO[str] | None

    def __post_init__(self) -> None:
        """Begin to count."""
        self.done = self.before
        self.began = time.monotonic()
        self._told = self.began

    def add(self, report: Report) -> None:
        """Take in the report of a shard."""
        self.done += report.rows
        if self.log is not None:
            with suppress(OSError):  # of a full disk the parts' own error says more
                self.log.write(json.dumps(_entry(report)) + "\n")
                self.log.flush()
        if self.bar is not None:
            self.bar.update(report.rows)
        now = time.monotonic()
        if self.lines and (now - self._told >= EVERY or self.done == self.total):
            self._told = now
            print(self.line(now - self.began), file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """Return how far it is, after so many seconds."""
        new = self.done - self.before
        speed = new / max(seconds, 1e-9)
        words = f"{self.done:,} of {self.total:,} rows, {speed:,.0f} rows/s"
        if new and self.done < self.total:
            words += f", {in_words((self.total - self.done) / speed)} left"
        return words


def _entry(report: Report) -> dict[str, Any]:
    """Return what the log has of a shard."""
    shard = report.shard
    return {
        "time": round(time.time(), 3),
        "shard": shard.name,
        "source": str(shard.source),
        "group": shard.group,
        "first_row": shard.first_row,
        "rows": report.rows,
        "seconds": round(report.seconds, 3),
        "evaluations": report.evaluations,
        "attempt": report.attempt,
        "worker": report.worker,
        "peak_bytes": report.peak_bytes,
        "error": report.error,
    }


def in_words(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def shown_progress(
    total: int, before: int, *, progress: bool | None, log: Path | str | None
) -> Iterator[JobProgress]:
    """Show how a job gets on.

    `progress` None: a bar in a terminal, lines elsewhere; False: nothing. `log` is a file to add
    to, or "-" for stderr.
    """
    in_terminal = sys.stderr.isatty()
    wanted = progress is not False
    with ExitStack() as stack:
        bar = None
        if wanted and in_terminal:
            options = {"total": total, "initial": before, "unit": " rows", "unit_scale": True}
            bar = stack.enter_context(tqdm(**options))
        file: IO[str] | None = None
        if log == STDERR:
            file = sys.stderr
        elif log is not None:
            file = stack.enter_context(_opened(Path(log)))
        yield JobProgress(total, before, bar, wanted and not in_terminal, file)


def _opened(log: Path) -> IO[str]:
    try:
        return log.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"log: {log} cannot be written: {error.strerror or error}") from error
