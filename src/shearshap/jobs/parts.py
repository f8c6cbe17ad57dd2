"""A job whose values go to a folder of parts: from folders of Parquet, or one large file.

data ── shards ──┐                                    ┌── part-000000.parquet
                 ├── executor: explain every shard ───┼── part-000001.parquet
manifest ────────┘                                    └── ...

Memory is bounded by what is read and explained at once, and not by the files. A part is there whole
or not at all, so a job that was stopped goes on from there. What all shards share, above all the
calibration, is fitted to a fixed sample of rows and kept in the manifest. So values depend neither
on the number of workers nor on who explained what.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from tqdm import tqdm

from shearshap.errors import InputError, JobError
from shearshap.jobs.executors import Executor, InProcess, ShardResult
from shearshap.jobs.manifest import HOLDER, LOCK, MANIFEST, PARTS, locked
from shearshap.jobs.options import REPORT, Options, parse_devices
from shearshap.jobs.places import WRITTEN, FilesRead, check_apart, check_log
from shearshap.jobs.plan import BACKGROUND, CONVERTED, Plan, explained_sample, make_plan
from shearshap.jobs.result import Outcome, Result, aligned, counted, facts
from shearshap.jobs.shards import Shard
from shearshap.jobs.work import INTERACTIONS, ShardWork, close_model

LOG = "_log.jsonl"  #: a line of JSON for each shard
OURS = (
    LOCK,
    HOLDER,
    LOG,
    MANIFEST,
    PARTS,
    CONVERTED,
    BACKGROUND,
    REPORT,
)  #: files beside the parts
NAMED = 5  #: shards that an error names
SECONDS_PER_LINE = 10.0  #: between two lines of progress, at least
STDERR = "-"  #: the name of a log that goes there


def run(
    job: Options,
    read: FilesRead,
    *,
    executor: Executor | None = None,
    progress: bool | None = None,
    log: Path | str | None = None,
) -> Outcome:
    """Explain the rows of a job, or those that are left, and write a part for each shard.

    For the arguments see `Job.run`; `read` are the files that the job reads.
    """
    started = time.perf_counter()
    log = job.out / LOG if log is None else log
    _check(job, read, log)
    with _folder(job), locked(job.out):
        _remove_partials(job.out)
        plan = make_plan(job)
        todo = [shard for shard in plan.shards if not plan.is_done(shard)]
        before = sum(shard.rows for shard in plan.shards) - sum(shard.rows for shard in todo)
        page = None
        try:
            with shown_progress(plan.rows, before, progress=progress, log=log) as shown:
                reports = []
                with _closing(executor or InProcess(), plan.work, todo) as coming:
                    for report in coming:
                        reports.append(_recorded(report, plan))
                        shown.add(reports[-1])
            if job.report and not any(report.error for report in reports):
                page = _sample_report(plan)
        finally:
            close_model()
            _remove_partials(job.out)
        outcome = _outcome(plan, reports, before, page, time.perf_counter() - started)
        if outcome.rows + before == plan.rows:
            (job.out / CONVERTED).unlink(missing_ok=True)
    _check_failures(outcome, plan, reports)
    return outcome


@contextmanager
def _closing(
    executor: Executor, work: ShardWork, shards: Sequence[Shard]
) -> Iterator[Iterator[ShardResult]]:
    """Run an executor, which is stopped if the caller is."""
    reports = executor.run(work, shards) if shards else iter(())
    if hasattr(reports, "close"):
        with closing(cast(Any, reports)):
            yield reports
    else:
        yield reports


def _recorded(report: ShardResult, plan: Plan) -> ShardResult:
    """Keep the hash of a part that is finished: without it, the part would be made again."""
    if report.error is not None:
        return report
    try:
        plan.finished.add(report.hashes)
    except OSError as error:  # the disk is full
        (plan.job.out / report.shard.name).unlink(missing_ok=True)
        message = f"{plan.finished.path} cannot be written: {error.strerror or error}"
        return replace(report, rows=0, error=message)
    return report


# Before any work


def _check(job: Options, read: FilesRead, log: Path | str) -> None:
    """Raise, before any work is done, if the job cannot be done."""
    if job.shard_rows < 1:
        raise InputError(f"shard_rows: expected at least 1, got {job.shard_rows}")
    if job.overwrite:
        raise InputError("overwrite is for a file; choose an empty folder, or that of the same job")
    parse_devices(job.device)
    read = list(read)
    if isinstance(job.model, str) and Path(job.model).is_dir():
        read.append(("the model", Path(job.model)))
    check_apart(job.out, "out", read)
    if log not in (STDERR, job.out / LOG):
        check_log(Path(log), [*read, ("the parts", job.out)])


@contextmanager
def _folder(job: Options) -> Iterator[None]:
    """Make the folder of the parts; if the job cannot begin, leave no trace of it."""
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
        path.name
        for path in out.iterdir()
        if path.name not in (*OURS, INTERACTIONS) and not _is_partial(path)
    ]
    if others:
        raise InputError(
            f"out: {out} is not the folder of a large job, and not empty: it holds {min(others)}; "
            "choose another folder"
        )


def _is_partial(path: Path) -> bool:
    """Return whether a file was left half written by a process that was killed."""
    return path.name.startswith((".part-", "._")) and path.name.endswith(".partial")


def _remove_partials(out: Path) -> None:
    for path in [*out.iterdir(), *(out / INTERACTIONS).glob(".*")]:
        if _is_partial(path):
            path.unlink(missing_ok=True)


# Afterwards


def _outcome(
    plan: Plan, reports: Sequence[ShardResult], before: int, page: Path | None, seconds: float
) -> Outcome:
    done = [report for report in reports if report.error is None]
    notes = dict.fromkeys((*plan.notes, *(note for each in reports for note in each.notes)))
    notes |= dict.fromkeys(_notes_on_others(plan))
    rows = sum(report.rows for report in done)
    outcome = Outcome(
        out=plan.job.out,
        rows=rows,
        summary="",
        report=page,
        notes=tuple(notes),
        rows_before=before,
        rows_failed=plan.rows - before - rows,
        parts=sum(1 for _ in plan.job.out.glob("part-*.parquet")),
        seconds=seconds,
        evaluations=sum(report.evaluations for report in done),
        retries=sum(report.attempt - 1 for report in reports),
        peak_bytes=max((report.peak_bytes for report in reports), default=0),
        failures=tuple(report for report in reports if report.error is not None),
    )
    return replace(outcome, summary=_summary(plan, outcome))


def _summary(plan: Plan, outcome: Outcome) -> str:
    """Return a line for each fact."""
    speed = outcome.rows / max(outcome.seconds, 1e-9)
    memory = f"at most {outcome.peak_bytes / 1e6:,.0f} MB in a worker"
    page = "" if outcome.report is None else f"{outcome.report}, for a browser"
    lines = [
        ("rows", f"{outcome.rows:,} explained, {outcome.rows_before:,} done before"),
        ("failed", f"{outcome.rows_failed:,} rows" if outcome.rows_failed else ""),
        *plan.facts,
        *(("note", note) for note in outcome.notes),
        ("time", f"{duration(outcome.seconds)}, {speed:,.0f} rows/s"),
        ("evaluations", f"{outcome.evaluations:,}"),
        ("retries", str(outcome.retries)),
        ("memory", memory if outcome.peak_bytes else ""),
        ("written to", f"{outcome.out}, {counted(outcome.parts, 'part')}"),
        ("report", page),
    ]
    return aligned(lines)


def _sample_report(plan: Plan) -> Path:
    """Write the report on a sample of the rows."""
    result = explained_sample(plan)
    return write_report(plan.job, result, facts(plan.job, result))


def write_report(job: Options, result: Result, known: Mapping[str, Any]) -> Path:
    """Write the report of a job, and return its file."""
    # not at the top: the page is made of what a job's modules define
    from shearshap.report.explained import report

    try:
        return report(cast(Any, job), result, known)
    except OSError as error:
        raise InputError(
            f"report: {job.page} cannot be written: {error.strerror or error}; the values are in "
            f"{job.out}"
        ) from error


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


def _check_failures(outcome: Outcome, plan: Plan, reports: Sequence[ShardResult]) -> None:
    """Raise if shards could not be explained; the error names them."""
    if not outcome.failures:
        return
    first = [
        f"{report.shard.name} ({report.shard.place}) after "
        f"{counted(report.attempt, 'attempt')}: {report.error}"
        for report in outcome.failures[:NAMED]
    ]
    more = len(outcome.failures) - len(first)
    if more:
        first.append(f"and {more} more, in the log")
    words = f"{len(outcome.failures)} of {counted(len(plan.shards), 'shard')} failed"
    if any(report.halts for report in reports):
        words += "; stopped"
    error = JobError(
        f"{words}: {'; '.join(first)}; {outcome.out} holds {counted(outcome.parts, 'part')}, and "
        "the same command goes on from there"
    )
    error.summary = outcome
    raise error


# Progress


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
        self._shown = self.began

    def add(self, report: ShardResult) -> None:
        """Take in the report of a shard."""
        self.done += report.rows
        if self.log is not None:
            with suppress(OSError):  # of a full disk the parts' own error says more
                self.log.write(json.dumps(_entry(report)) + "\n")
                self.log.flush()
        if self.bar is not None:
            self.bar.update(report.rows)
        now = time.monotonic()
        if self.lines and (now - self._shown >= SECONDS_PER_LINE or self.done == self.total):
            self._shown = now
            print(self.line(now - self.began), file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """Return how far it is, after so many seconds."""
        new = self.done - self.before
        speed = new / max(seconds, 1e-9)
        words = f"{self.done:,} of {self.total:,} rows, {speed:,.0f} rows/s"
        if new and self.done < self.total:
            words += f", {duration((self.total - self.done) / speed)} left"
        return words


def _entry(report: ShardResult) -> dict[str, Any]:
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


def duration(seconds: float) -> str:
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
