"""A large job: a folder of parts, which one executor or the next fills.

    manifest ── shards ── those without their part ── executor ──┬── part-000000.parquet
                                                                 └── part-000001.parquet, ...

A part is there whole or not at all, and carries what it was made of. So a job that was stopped goes
on with the parts that are missing or damaged, and ends with a look at every one.
"""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from shearshap.apps.jobs.executors import Executor
from shearshap.apps.jobs.manifest import MANIFEST, RUN, Manifest, Run
from shearshap.apps.jobs.models import ModelSource
from shearshap.apps.jobs.options import Options
from shearshap.apps.jobs.places import (
    TRIAL,
    check_writable,
    errors_of,
    exists,
    is_file,
    is_folder,
    names_in,
    opened,
    remove,
    written_whole,
)
from shearshap.apps.jobs.plan import CONVERTED, Plan, make_plan
from shearshap.apps.jobs.result import Outcome, folder_summary, report_of, result_of
from shearshap.apps.jobs.shards import Shard, ShardResult, in_parallel, sample
from shearshap.apps.jobs.tables import WRITTEN, FilesRead, check_apart, check_place
from shearshap.apps.jobs.urls import Place, Url, place
from shearshap.apps.jobs.work import INTERACTIONS, Block
from shearshap.errors import InputError, JobError, collect_warnings, recorded
from shearshap.result.text import counted

LOG = "_log.jsonl"  #: a line of JSON for each shard
LEFT_OVER = re.compile(r"_input-[0-9a-f]{16}\.parquet|\.[0-9a-f]{12}\.partial")
"""The names of what a process that was killed leaves: rows of a CSV file, and half of a file."""

REPORTED_ROWS = 1024  #: rows of the sample that a report on a folder is about
MAX_NAMED = 5  #: shards or files that a message names
SECONDS_TO_READ = 2.0  #: before reading shows a bar
SECONDS_PER_LINE = 10.0  #: between two lines of progress, at least
LINE = "{desc}{n:,} of {total:,} rows, {rate_noinv_fmt}, {remaining} left\n"  #: of progress
STDERR = "-"  #: the name of a log that goes there
RAY_COPY = "_ray_pkg_"  #: how the names of Ray's copies of a working directory begin


def run_folder(
    job: Options,
    source: ModelSource,
    read: FilesRead,
    executor: Executor,
    progress: bool | None,
    log: Place | str | None,
) -> Outcome:
    """Explain the rows of a job, or those that are left, and write a part for each shard."""
    started = time.perf_counter()
    if log is None:
        log = job.out / LOG
    elif log != STDERR:
        log = place(log, "log")
    _check_folder_job(job, read, log)
    run = Run(job.out)
    with _folder(job, run):
        shown = progress is not False and log != STDERR  # where only lines of JSON are expected
        plan = make_plan(job, source, run, bar=partial(_progress_bar, shown=shown, what="reading"))
        run.begin()
        _remove_left_overs(run)
        todo = _todo(plan)
        before = plan.rows - sum(shard.rows for shard in todo)
        with _progress_bar(plan.rows, before, shown=shown) as bar, _opened_log(log) as file:
            reports = _reports(plan, todo, executor, bar, file)
        reports = _checked(plan, todo, reports)
        report = None
        if job.report and not any(each.error for each in reports):
            report = _sample_report(plan)
        seconds = time.perf_counter() - started
        outcome = _outcome(plan, reports, before=before, report=report, seconds=seconds)
    if outcome.failures:
        raise _failure(outcome, plan)
    return outcome


def _todo(plan: Plan) -> list[Shard]:
    """Return the shards whose parts are missing or damaged, or made of something else."""
    present = set(names_in(plan.job.out))
    known = [shard for shard in plan.shards if shard.name in present]
    are_done = in_parallel(lambda shard: plan.work.is_done(shard, whole=True), known)
    done = {shard.number for shard, is_done in zip(known, are_done, strict=True) if is_done}
    return [shard for shard in plan.shards if shard.number not in done]


def _reports(
    plan: Plan, todo: Sequence[Shard], executor: Executor, bar: Any, log: TextIO
) -> list[ShardResult]:
    """Return the reports of an executor on shards, each with a line in the log."""
    reports = []
    run = plan.work.run
    assert run is not None
    with ExitStack() as stack:
        stack.enter_context(recorded(plan.notes))  # warnings of nodes that are left out
        coming = executor.run(plan.work, todo) if todo else iter(())
        stack.callback(getattr(coming, "close", lambda: None))  # if this is interrupted
        for report in coming:
            reports.append(report)
            bar.update(report.rows)
            with suppress(OSError):  # of a full disk the parts' own error says more
                print(json.dumps(_log_entry(report)), file=log, flush=True)
            if report.error is not None:
                _check_current(run)
    return reports


def _check_current(run: Run) -> None:
    """Raise if the folder is no longer this run's."""
    with errors_of(run.out, "out"):
        if not run.is_current():
            raise InputError(
                f"out: another run has taken {run.out} over, or the folder is gone; finished work "
                "is kept"
            )


def _checked(
    plan: Plan, todo: Sequence[Shard], reports: Sequence[ShardResult]
) -> list[ShardResult]:
    """Return the reports after a look at every part: with those that are not there as errors.

    Every row is in one shard, so the parts together hold every row once.
    """
    reported = {each.shard.number: each for each in reports}
    unfinished = {shard.number for shard in todo} - {
        number for number, each in reported.items() if each.error is None
    }
    finished = [shard for shard in plan.shards if shard.number not in unfinished]
    lost = [
        shard
        for shard, is_done in zip(finished, in_parallel(plan.work.is_done, finished), strict=True)
        if not is_done
    ]
    why = f"its part is not in {plan.job.out}: it was removed, or is on another machine's own disk"
    if not any(each.error for each in reports):  # or the run has stopped before them
        lost += [shard for shard in todo if shard.number not in reported]
    failed = {shard.number: ShardResult(shard, error=why) for shard in lost}
    _check_manifest(plan)
    return [*{**reported, **failed}.values()]


def _check_manifest(plan: Plan) -> None:
    """Raise if the folder is that of another job now, begun at the same time."""
    path = plan.job.out / MANIFEST
    if Manifest.load(path).key != plan.work.key:
        raise InputError(f"out: another job has begun in {plan.job.out}; choose another folder")


def _check_folder_job(job: Options, read: FilesRead, log: Place | str) -> None:
    """Raise, before any work is done, if the job cannot be done."""
    if job.shard_rows < 1:
        raise InputError(f"shard_rows: expected at least 1, got {job.shard_rows}")
    if job.deadline is not None:
        raise InputError(
            "deadline is for a file; stop a large job at any time, and run it again to continue"
        )
    if job.overwrite:
        raise InputError(
            "overwrite is for a file; choose an empty folder, or the same job's folder"
        )
    read = list(read)
    if isinstance(job.model, str) and is_folder(model := place(job.model, "model")):
        read.append(("the model", model))
    check_apart(job.out, "out", read)
    if isinstance(job.out, Path) and any(part.startswith(RAY_COPY) for part in job.out.parts):
        raise InputError(
            f"out: {job.out} is in Ray's copy of the working directory, and every node has its own "
            "copy; choose an absolute path on a shared disk, or a bucket"
        )
    if log in (STDERR, job.out / LOG):
        return
    log = place(log, "log")
    # /dev/null, for one, has nothing to lose
    is_device = exists(log) and not is_file(log) and not is_folder(log)
    if not is_device:
        check_place(log, "log", [*read, ("the parts", job.out)])


@contextmanager
def _folder(job: Options, run: Run) -> Iterator[None]:
    """Make the folder of the parts; if the job cannot begin, leave no trace of it."""
    out = job.out
    with errors_of(out, "out"):
        if is_file(out) or (out.suffix.lower() in WRITTEN and not is_folder(out)):
            raise InputError(
                f"out: {out} is the name of a file; a large job writes a folder of parts"
            )
        is_new = not exists(out)
    if isinstance(out, Path):
        with errors_of(out, "out", "created"):
            out.mkdir(exist_ok=True)
    with errors_of(out, "out"):
        present = names_in(out)
        if MANIFEST not in present:
            _check_empty(out, present)
        run.check_free()
    try:
        with errors_of(out, "out", "written to"):
            check_writable(out)
        yield
    finally:
        with suppress(PermissionError):  # of a store that lets nothing be removed
            _tidy(run, is_new=is_new)


def _tidy(run: Run, *, is_new: bool) -> None:
    """Remove what a run needs no more; if the job could not begin, all of it."""
    out = run.out
    if run.is_current():
        _remove_left_overs(run)
        remove(out / RUN)
    remove(out / CONVERTED.format(run.word))
    if is_new and MANIFEST not in names_in(out):
        for name in filter(_is_left_over, names_in(out)):
            remove(out / name)
        if isinstance(out, Path):
            with suppress(OSError):  # of another run that has begun meanwhile
                out.rmdir()


def _check_empty(out: Place, present: Sequence[str]) -> None:
    others = [name for name in present if not _is_left_over(name)]
    if others:
        raise InputError(
            f"out: {out} is not the folder of a large job, and not empty: it holds {others[0]}; "
            "choose another folder"
        )


def _is_left_over(name: str) -> bool:
    """Return whether a job that could not begin, or a process that was killed, has left a file."""
    return name in (RUN, LOG, TRIAL) or LEFT_OVER.fullmatch(name) is not None


def _remove_left_overs(run: Run) -> None:
    """Remove what a process that was killed has left."""
    for folder in (run.out, run.out / INTERACTIONS):
        for name in names_in(folder):
            if LEFT_OVER.fullmatch(name) and run.word not in name and is_file(folder / name):
                with suppress(PermissionError):  # of a store that lets nothing be removed
                    remove(folder / name)


def _sample_report(plan: Plan) -> Place:
    """Explain a sample of the rows again, and write the report on it."""
    work = plan.work
    data, numbers = sample(plan.shards, plan.read, REPORTED_ROWS)
    notes = plan.notes
    if len(data) < plan.rows:
        notes.append(f"the report covers a sample of {len(data):,} of the {plan.rows:,} rows")
    with collect_warnings(notes):
        block = Block.concat(list(work.blocks(Shard.from_table(data))))
    block = replace(block, numbers=np.array(numbers)[block.numbers])
    return report_of(plan.job, result_of(plan, block, data))


# Afterwards


def _outcome(
    plan: Plan,
    reports: Sequence[ShardResult],
    *,
    before: int,
    report: Place | None,
    seconds: float,
) -> Outcome:
    done = [each for each in reports if each.error is None]
    notes = [*plan.notes, *(note for each in reports for note in each.notes)]
    rows = sum(each.rows for each in done)
    outcome = Outcome(
        out=plan.job.out,
        rows=rows,
        summary="",
        report=report,
        notes=tuple(dict.fromkeys([*notes, *_notes_on_others(plan)])),
        rows_before=before,
        rows_failed=plan.rows - before - rows,
        parts=sum(1 for name in names_in(plan.job.out) if fnmatchcase(name, "part-*.parquet")),
        seconds=seconds,
        evaluations=sum(each.evaluations for each in done),
        retries=sum(each.attempt - 1 for each in reports),
        peak_bytes=max((each.peak_bytes for each in reports), default=0),
        failures=tuple(each for each in reports if each.error is not None),
    )
    known = [
        ("input", f"{counted(len(plan.files), 'file')} at {plan.job.data}"),
        ("model", plan.model.name),
        ("background", plan.background.description),
    ]
    return replace(outcome, summary=folder_summary(outcome, known))


def _notes_on_others(plan: Plan) -> list[str]:
    """Return a note if readers of the folder would take a file that is not of the job for one."""
    parts = {shard.name for shard in plan.shards}
    every = set(names_in(plan.job.out))
    others = sorted(name for name in every - parts if not name.startswith(("_", ".")))
    if INTERACTIONS in every:
        more = sorted(set(names_in(plan.job.out / INTERACTIONS)) - parts)
        others += [f"{INTERACTIONS}/{name}" for name in more if not name.startswith(("_", "."))]
    if not others:
        return []
    names = ", ".join(others[:MAX_NAMED])
    return [
        f"{plan.job.out} also holds {names}, which this job did not write: reading the folder as "
        "one table reads that too, or fails; move it away"
    ]


def _failure(outcome: Outcome, plan: Plan) -> JobError:
    """Return the error that names the shards that could not be explained."""
    first = [
        f"{report.shard.name} ({report.shard.place}) after "
        f"{counted(report.attempt, 'attempt')}: {report.error}"
        for report in outcome.failures[:MAX_NAMED]
    ]
    more = len(outcome.failures) - len(first)
    if more:
        first.append(f"and {more} more, in the log")
    words = f"{len(outcome.failures)} of {counted(len(plan.shards), 'shard')} failed"
    if any(report.node_fault for report in outcome.failures):
        words += "; stopped"
    error = JobError(
        f"{words}: {'; '.join(first)}; {outcome.out} holds {counted(outcome.parts, 'part')}; run "
        "the same command again to continue"
    )
    error.summary = outcome
    return error


# Progress


def _progress_bar(total: int, before: int = 0, *, shown: bool, what: str = "") -> Any:
    """Return a bar of the rows done; elsewhere than in a terminal, it writes a line at times."""
    in_terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=before,
        desc=what or None,
        unit=" rows",
        unit_scale=in_terminal,
        mininterval=0.1 if in_terminal else SECONDS_PER_LINE,
        delay=(SECONDS_TO_READ if what else 0) if in_terminal else SECONDS_PER_LINE,
        bar_format=None if in_terminal else LINE,
        disable=not shown,
    )


@contextmanager
def _opened_log(log: Place | str) -> Iterator[TextIO]:
    """Open a log to add lines to; one in an object store is sent when the run ends."""
    if log == STDERR:
        yield sys.stderr
    elif isinstance(log, Url):
        before = b""
        if exists(log):
            with opened(log) as earlier:
                before = earlier.read()
        lines = StringIO()
        try:
            yield lines
        finally:
            # of a store that takes nothing more the parts' own error says more
            with suppress(OSError), written_whole(log) as partial:
                partial.write_bytes(before + lines.getvalue().encode())
    else:
        with ExitStack() as stack:
            with errors_of(Path(log), "log", "written to"):
                file = stack.enter_context(Path(log).open("a", encoding="utf-8"))
            yield file


def _log_entry(report: ShardResult) -> dict[str, Any]:
    """Return what the log has of a shard."""
    shard = report.shard
    return {
        "time": round(time.time(), 3),
        "shard": shard.name,
        "source": str(shard.pieces[0].source),
        "first_row": shard.first_row,
        "rows": report.rows,
        "seconds": round(report.seconds, 3),
        "evaluations": report.evaluations,
        "attempt": report.attempt,
        "worker": report.worker,
        "peak_bytes": report.peak_bytes,
        "error": report.error,
    }
