"""A large job: from folders of Parquet, or one large file, to a folder of parts.

data ── shards ──┐                                    ┌── part-000000.parquet
                 ├── executor: explain every shard ───┼── part-000001.parquet
manifest ────────┘                                    └── ...

Memory is bounded by what is read and explained at once, and not by the files. A part is there whole
or not at all, so a job that was stopped goes on where it was. What all shards share, above all the
calibration, is fitted to a fixed sample of rows and kept in the manifest. So values depend neither
on the number of workers nor on who explained what.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from shearshap.errors import InputError, JobError
from shearshap.jobs import tables
from shearshap.jobs.background_option import BackgroundOption
from shearshap.jobs.executors import Executor, InProcess, Report
from shearshap.jobs.folder_lock import LOCK, locked
from shearshap.jobs.job import check_libraries, files_read
from shearshap.jobs.job_progress import STDERR, in_words, shown_progress
from shearshap.jobs.large_job import LargeJob, devices_of
from shearshap.jobs.manifest import MANIFEST, PARTS
from shearshap.jobs.places import WRITTEN, check_apart, check_log, check_suffix
from shearshap.jobs.planning import BACKGROUND, CONVERTED, Plan, planned
from shearshap.jobs.result import counted
from shearshap.jobs.shards import Shard
from shearshap.jobs.work import ShardWork, close_model

LOG = "_log.jsonl"  #: a line of JSON for each shard
OURS = (LOCK, LOG, MANIFEST, PARTS, CONVERTED, BACKGROUND)  #: files beside the parts
NAMED = 5  #: shards that an error names


@dataclass(frozen=True, eq=False)
class Summary:
    """What a run of a large job has done."""

    out: Path
    rows: int  #: explained in this run
    rows_before: int  #: explained in earlier runs
    rows_failed: int
    parts: int  #: in the folder
    seconds: float
    evaluations: int  #: of the model in this run, without those of the sample
    retries: int
    peak_bytes: int  #: the most memory that a worker has held
    failures: tuple[Report, ...]  #: of the shards that could not be explained
    facts: tuple[tuple[str, str], ...]  #: about the job, for people
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line for each fact."""
        speed = self.rows / max(self.seconds, 1e-9)
        memory = f"at most {self.peak_bytes / 1e6:,.0f} MB in a worker"
        lines = [
            ("rows", f"{self.rows:,} explained, {self.rows_before:,} done before"),
            ("failed", f"{self.rows_failed:,} rows" if self.rows_failed else ""),
            *self.facts,
            *(("note", note) for note in self.notes),
            ("time", f"{in_words(self.seconds)}, {speed:,.0f} rows/s"),
            ("evaluations", f"{self.evaluations:,}"),
            ("retries", str(self.retries)),
            ("memory", memory if self.peak_bytes else ""),
            ("written to", f"{self.out}, {counted(self.parts, 'part')}"),
        ]
        return "\n".join(f"{name:<12}{text}" for name, text in lines if text)


def is_large(data: Path, out: str | Path) -> bool:
    """Return whether files make a large job: a folder to read or, by its / or already, to write.

    Raise if `out` is neither the name of a folder nor that of a file of values.
    """
    if data.is_dir() or str(out).endswith(("/", os.sep)):
        return True
    if Path(out).suffix.lower() not in WRITTEN and Path(out).is_dir():
        return True
    check_suffix(Path(out))
    return False


def run(
    job: LargeJob,
    *,
    executor: Executor | None = None,
    progress: bool | None = None,
    log: Path | str | None = None,
) -> Summary:
    """Explain the rows of a large job, or those that are left, and write a part for each shard.

    Parameters
    ----------
    job
        What to explain, and where to write.
    executor
        What runs the work: `InProcess()`, `LocalProcesses(workers=2)`; None: this process.
    progress
        Whether to show the progress; None: a bar in a terminal, else lines on stderr.
    log
        Where to add a line of JSON for each shard: a new file or an earlier log, or "-" for stderr;
        None: _log.jsonl in the folder of the parts.

    Raises
    ------
    JobError
        If some shards could not be explained, after all others were: it names them.
    """
    started = time.perf_counter()
    check_libraries()
    log = job.out / LOG if log is None else log
    _check(job, log)
    with _folder(job), locked(job.out):
        _remove_partials(job.out)
        plan = planned(job)
        todo = [shard for shard in plan.shards if not plan.is_done(shard)]
        before = sum(shard.rows for shard in plan.shards) - sum(shard.rows for shard in todo)
        try:
            with shown_progress(plan.rows, before, progress=progress, log=log) as shown:
                reports = []
                with closing_reports(executor or InProcess(), plan.work, todo) as coming:
                    for report in coming:
                        reports.append(_recorded(report, plan))
                        shown.add(reports[-1])
        finally:
            close_model()
            _remove_partials(job.out)
        summary = _summary(plan, reports, before, time.perf_counter() - started)
        if summary.rows + before == plan.rows:
            (job.out / CONVERTED).unlink(missing_ok=True)
    _check_failures(summary, plan, reports)
    return summary


@contextmanager
def closing_reports(
    executor: Executor, work: ShardWork, shards: Sequence[Shard]
) -> Iterator[Iterator[Report]]:
    """Run an executor, which is stopped where the caller is."""
    reports = executor.run(work, shards) if shards else iter(())
    if hasattr(reports, "close"):
        with closing(cast(Any, reports)):
            yield reports
    else:
        yield reports


def _recorded(report: Report, plan: Plan) -> Report:
    """Keep the hash of a part that is finished: without it, the part would be made again."""
    if report.error is not None:
        return report
    try:
        plan.finished.add(report.shard.name, report.part_hash)
    except OSError as error:  # the disk is full
        (plan.job.out / report.shard.name).unlink(missing_ok=True)
        message = f"{plan.finished.path} cannot be written: {error.strerror or error}"
        return replace(report, rows=0, error=message)
    return report


# Before any work


def _check(job: LargeJob, log: Path | str) -> None:
    """Raise, before any work is done, where the job cannot be done."""
    if job.shard_rows < 1:
        raise InputError(f"shard_rows: wanted at least 1, got {job.shard_rows}")
    devices = devices_of(job.device)
    if any(name.startswith("cuda") for name in devices) and not torch.cuda.is_available():
        raise InputError(f"device: there is no GPU here, and {job.device} was wanted")
    if not job.data.exists():
        raise InputError(f"data: there is no file or folder {job.data}")
    if job.data.is_file():
        tables.check_in(job.data, "data")
    read = files_read(job.model, job.data, job.background)
    if isinstance(job.model, str) and Path(job.model).is_dir():
        read.append(("the model", Path(job.model)))
    check_apart(job.out, "out", read)
    if log not in (STDERR, job.out / LOG):
        check_log(Path(log), [*read, ("the parts", job.out)])
    if isinstance(job.background, str | None):
        file = BackgroundOption.parse(job.background).file
        if file is not None:
            tables.check_in(file, "background")


@contextmanager
def _folder(job: LargeJob) -> Iterator[None]:
    """Make the folder of the parts; where the job cannot begin, leave no trace of it."""
    out = job.out
    if out.suffix.lower() in WRITTEN and not out.is_dir():
        raise InputError(
            f"out: {out} is the name of a file; the rows of a folder are written to a folder"
        )
    if out.exists() and not out.is_dir():
        raise InputError(f"out: {out} is a file; a large job writes a folder of parts")
    if not out.parent.is_dir():
        raise InputError(f"out: there is no folder {out.parent}")
    is_new = not out.exists()
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"out: {out} cannot be made: {error.strerror or error}") from error
    for path in out.iterdir():
        if path.is_dir() and (path.name in OURS or path.match("part-*.parquet")):
            raise InputError(f"out: {path} is a folder, and a file of the job belongs there")
    if not (out / MANIFEST).exists():
        _check_empty(out)
    try:
        yield
    finally:
        if is_new and not (out / MANIFEST).exists():
            for name in OURS:
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # of another run that has begun meanwhile
                out.rmdir()


def _check_empty(out: Path) -> None:
    others = [
        path.name for path in out.iterdir() if path.name not in OURS and not _is_partial(path)
    ]
    if others:
        raise InputError(
            f"out: {out} is no folder of a large job, and is not empty: it holds {min(others)}; "
            "choose another folder"
        )


def _is_partial(path: Path) -> bool:
    """Return whether a file was left half written by a process that was killed."""
    return path.name.startswith((".part-", "._")) and path.name.endswith(".partial")


def _remove_partials(out: Path) -> None:
    for path in out.iterdir():
        if _is_partial(path):
            path.unlink(missing_ok=True)


# Afterwards


def _summary(plan: Plan, reports: Sequence[Report], before: int, seconds: float) -> Summary:
    failures = tuple(report for report in reports if report.error is not None)
    done = [report for report in reports if report.error is None]
    notes = dict.fromkeys((*plan.notes, *(note for each in reports for note in each.notes)))
    notes |= dict.fromkeys(_notes_on_others(plan))
    rows = sum(report.rows for report in done)
    return Summary(
        out=plan.job.out,
        rows=rows,
        rows_before=before,
        rows_failed=plan.rows - before - rows,
        parts=sum(1 for _ in plan.job.out.glob("part-*.parquet")),
        seconds=seconds,
        evaluations=sum(report.evaluations for report in done),
        retries=sum(report.attempt - 1 for report in reports),
        peak_bytes=max((report.peak_bytes for report in reports), default=0),
        failures=failures,
        facts=plan.facts,
        notes=tuple(notes),
    )


def _notes_on_others(plan: Plan) -> list[str]:
    """Return a note if readers of the folder would take a file that is not of the job for one."""
    parts = {shard.name for shard in plan.shards}
    names = {path.name for path in plan.job.out.iterdir()} - parts
    others = sorted(name for name in names if not name.startswith(("_", ".")))
    if not others:
        return []
    return [
        f"{plan.job.out} also holds {', '.join(others[:NAMED])}, not of this job: whoever reads "
        "the folder as one table reads that too, or fails; move it away"
    ]


def _check_failures(summary: Summary, plan: Plan, reports: Sequence[Report]) -> None:
    """Raise where shards could not be explained; the error names them."""
    if not summary.failures:
        return
    first = [
        f"{report.shard.name} ({report.shard.place}) after "
        f"{counted(report.attempt, 'attempt')}: {report.error}"
        for report in summary.failures[:NAMED]
    ]
    more = len(summary.failures) - len(first)
    if more:
        first.append(f"and {more} more, in the log")
    every = counted(len(plan.shards), "shard")
    words = f"{len(summary.failures)} of {every} could not be explained"
    if any(report.halts for report in reports):
        words += ", and no more were begun"
    error = JobError(
        f"{words}: {'; '.join(first)}; {summary.out} holds {counted(summary.parts, 'part')}, and "
        "the same command goes on from there"
    )
    error.summary = summary
    raise error
