"""A job of `shear explain`: from the files of a model and of rows to files of Shapley values.

model ──────┐         ┌── one shard:  values.parquet, its report and interactions beside it
data ───────┼── plan ─┤
background ─┘         └── shards ── executor ──┬── values/part-000000.parquet
                                               └── values/part-000001.parquet, ...

A file is explained in memory, in this process. The memory that a folder of parts needs is bounded
by what is read and explained at once. A part is there whole or not at all, so a job that was
stopped goes on from there.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from shearshap.errors import InputError, JobError, ModelError, ShearError, collect_warnings
from shearshap.jobs.executors import Executor, InProcess
from shearshap.jobs.manifest import HOLDER, LOCK, MANIFEST, PARTS, locked
from shearshap.jobs.models import ModelSource, exits_as_errors, model_files
from shearshap.jobs.options import (
    REPORT,
    Options,
    errors_with_files,
    parse_devices,
)
from shearshap.jobs.places import Place, errors_of, exists, is_folder
from shearshap.jobs.plan import BACKGROUND, CONVERTED, Plan, described, make_plan
from shearshap.jobs.result import Outcome, facts, file_summary, folder_summary
from shearshap.jobs.shards import Shard, ShardResult, sample
from shearshap.jobs.tables import (
    WRITTEN,
    FilesRead,
    check_apart,
    check_in,
    check_place,
    check_suffix,
    write,
)
from shearshap.jobs.values import kept, write_html
from shearshap.jobs.work import INTERACTIONS, Block
from shearshap.report.explained import page
from shearshap.report.result import Result
from shearshap.result.cells import label_array
from shearshap.result.text import counted

LOG = "_log.jsonl"  #: a line of JSON for each shard
OURS = (LOCK, HOLDER, LOG, MANIFEST, PARTS, CONVERTED, BACKGROUND, REPORT)
"""Files beside the parts."""

REPORTED_ROWS = 1024  #: rows of the sample that a report on a folder is about
MAX_NAMED = 5  #: shards or files that a message names
PARTIAL = ".*.partial"  #: what `written_whole` calls a file that is not complete
SECONDS_PER_LINE = 10.0  #: between two lines of progress, at least
LINE = "{n:,} of {total:,} rows, {rate_noinv_fmt}, {remaining} left\n"  #: of progress
STDERR = "-"  #: the name of a log that goes there


@dataclass(frozen=True, kw_only=True, repr=False)
class Job(Options):
    """A model, rows in files, and how to explain them; see `Options` for its parameters."""

    def run(
        self,
        *,
        executor: Executor | None = None,
        progress: bool | None = None,
        log: Path | str | None = None,
    ) -> Outcome:
        """Explain the rows, write the values, and return what was done.

        A file is written only if all rows could be explained. If the model fails, or the job is
        interrupted, the rows that were done are written to `partial`, and the error says so. A
        folder keeps its finished parts, and running the same job again continues from there.

        Parameters
        ----------
        executor
            What runs a large job: `InProcess()`, `LocalProcesses(workers=2)` or `RayExecutor()`.
            Default, and always for a file: this process.
        progress
            Whether to show the progress. Default: a bar in a terminal; elsewhere, for a large job,
            lines on stderr.
        log
            Where to add one line of JSON per part: a new file or an earlier log, or "-" for stderr,
            where these lines are then the only progress. Default: _log.jsonl in the folder of the
            parts.

        Raises
        ------
        JobError
            If some parts could not be written; it names them. All other parts are written first.
        """
        parse_devices(self.device)
        read = files_read(self)
        source = ModelSource(self.model, self.trust)
        try:
            if self.large:
                job = replace(self, data=self.data.absolute(), out=self.out.absolute())
                return _run_folder(job, source, read, executor or InProcess(), progress, log)
            if executor is not None or log is not None:
                raise InputError(
                    "executor and log are for large jobs; write to a folder, with / at the end "
                    "of its name, or leave them out"
                )
            return _run_file(self, source, read, progress)
        finally:
            source.close()


def files_read(job: Options) -> list[tuple[str, Place]]:
    """Return the files that a job reads, each with what it is in words, after a look at them."""
    with errors_of(job.data, "data"):
        if not is_folder(job.data):
            if job.large and not exists(job.data):
                raise InputError(f"data: there is no file or folder {job.data}")
            check_in(job.data, "data")
    read = [("the data explained", job.data)]
    if isinstance(job.model, str):
        read += [("the model", file) for file in model_files(job.model)]
    file = job.background_option.file
    if file is not None:
        check_in(file, "background")
        read.append(("the background", file))
    return read


# A file


def _run_file(job: Job, source: ModelSource, read: FilesRead, progress: bool | None) -> Outcome:
    """Explain the rows of a file, which are one shard, and write a file."""
    check_suffix(job.out)
    written = [("out", job.out), ("out", job.partial)]
    if job.interactions:
        written.append(("interactions", job.interactions_file))
    if job.report:
        written.append(("report", job.page))
    for what, path in written:
        check_place(path, what, read, overwrite=job.overwrite)

    plan = make_plan(job, source)
    (shard,) = plan.shards
    blocks: list[Block] = []
    with (
        _save_partial_on_error(plan, blocks),
        exits_as_errors(job.model_name),
        collect_warnings(plan.notes),
        errors_with_files(job.data, plan.background),
        closing(plan.work.blocks(shard, progress=progress)) as found,
    ):
        # one by one, so that those that are done outlive whatever stops the next
        for block in found:
            blocks.append(block)  # noqa: PERF402
    block = Block.concat(blocks)
    result = _result(plan, block, plan.data.take(block.numbers))
    known = facts(job, result)
    write(plan.work.values(block), known | kept(result, plan.columns.schema), job.out)
    if job.interactions:
        write(plan.work.pairs(block), known, job.interactions_file)
    report = _write_report(job, result) if job.report else None
    return Outcome(
        out=job.out,
        rows=len(result.explanation),
        summary=file_summary(job, result, report),
        report=report,
        result=result,
        notes=result.notes,
    )


@contextmanager
def _save_partial_on_error(plan: Plan, blocks: Sequence[Block]) -> Iterator[None]:
    """Write the rows that are done if the others cannot be, and say so in the error."""
    try:
        yield
    except (ShearError, KeyboardInterrupt) as error:
        if not blocks:
            raise
        job = plan.job
        message = str(error)
        block = Block.concat(blocks)
        result = _result(plan, block, plan.data.take(block.numbers))
        known = facts(job, result) | {"unfinished": message or "interrupted"}
        write(plan.work.values(block), known | kept(result, plan.columns.schema), job.partial)
        place = f"the finished rows ({len(block.numbers):,}) are in {job.partial}"
        error.args = (f"{message}; {place}" if message else place,)
        if isinstance(error, ModelError):
            error.finished = result.explanation
        raise


def _result(plan: Plan, block: Block, data: Any) -> Result:
    """Return the result for a block's rows, of which `data` has all columns, under their ids."""
    name = plan.job.id_column
    labels = block.numbers if name is None else label_array(block.data[name].to_pandas())
    background = described(plan.background, block.explanation).description
    return Result(
        explanation=replace(
            block.explanation,
            index=labels,
            index_name=name,
            background=background,
        ),
        data=data,
        model=plan.model.name,
        background=background,
        columns=tuple(plan.columns.schema.names),
        notes=tuple(dict.fromkeys((*plan.notes, *block.explanation.notes))),
        id_column=name,
    )


def _write_report(job: Options, result: Result) -> Place:
    """Write the report of a job, and return its file."""
    try:
        return write_html(page(result, facts(job, result)), job.page)
    except OSError as error:
        raise InputError(
            f"report: {job.page} cannot be written: {error.strerror or error}; the values are in "
            f"{job.out}"
        ) from error


# A folder of parts


def _run_folder(
    job: Job,
    source: ModelSource,
    read: FilesRead,
    executor: Executor,
    progress: bool | None,
    log: Path | str | None,
) -> Outcome:
    """Explain the rows of a job, or those that are left, and write a part for each shard."""
    started = time.perf_counter()
    log = job.out / LOG if log is None else log
    _check_folder_job(job, read, log)
    with _folder(job), locked(job.out):
        _remove_partials(job.out)
        plan = make_plan(job, source)
        todo = [shard for shard in plan.shards if not plan.is_done(shard)]
        before = plan.rows - sum(shard.rows for shard in todo)
        shown = progress is not False and log != STDERR  # where only lines of JSON are expected
        reports = []
        report = None
        try:
            with (
                _progress_bar(plan.rows, before, shown=shown) as bar,
                ExitStack() as stack,
            ):
                file = sys.stderr
                if log != STDERR:
                    file = stack.enter_context(Path(log).open("a", encoding="utf-8"))
                coming = executor.run(plan.work, todo) if todo else iter(())
                stack.callback(getattr(coming, "close", lambda: None))  # if this is interrupted
                for each in coming:
                    reports.append(_recorded(each, plan))
                    bar.update(reports[-1].rows)
                    with suppress(OSError):  # of a full disk the parts' own error says more
                        print(json.dumps(_log_entry(reports[-1])), file=file, flush=True)
            if job.report and not any(each.error for each in reports):
                report = _sample_report(plan)
        finally:
            _remove_partials(job.out)
        seconds = time.perf_counter() - started
        outcome = _outcome(plan, reports, before=before, report=report, seconds=seconds)
        if outcome.rows + before == plan.rows:
            (job.out / CONVERTED).unlink(missing_ok=True)
    if outcome.failures:
        raise _failure(outcome, plan)
    return outcome


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


def _check_folder_job(job: Job, read: FilesRead, log: Path | str) -> None:
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
    if isinstance(job.model, str) and Path(job.model).is_dir():
        read.append(("the model", Path(job.model)))
    check_apart(job.out, "out", read)
    is_device = Path(log).exists() and not Path(log).is_file() and not Path(log).is_dir()
    # /dev/null, for one, has nothing to lose
    if log not in (STDERR, job.out / LOG) and not is_device:
        check_place(Path(log), "log", [*read, ("the parts", job.out)])


@contextmanager
def _folder(job: Job) -> Iterator[None]:
    """Make the folder of the parts; if the job cannot begin, leave no trace of it."""
    out = job.out
    if not out.is_dir() and (out.exists() or out.suffix.lower() in WRITTEN):
        raise InputError(f"out: {out} is a file; a large job writes a folder of parts")
    is_new = not out.exists()
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"out: {out} cannot be created: {error.strerror or error}") from error
    for path in out.iterdir():
        known = path.name in (*OURS, INTERACTIONS) or path.match(PARTIAL)
        if not known and not (out / MANIFEST).exists():
            raise InputError(
                f"out: {out} is not the folder of a large job, and not empty: it holds "
                f"{path.name}; choose another folder"
            )
    try:
        yield
    finally:
        if is_new and not (out / MANIFEST).exists():
            for name in OURS:
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # of another run that has begun meanwhile
                out.rmdir()


def _remove_partials(out: Path) -> None:
    """Remove the files that a process that was killed has left half written."""
    for path in [*out.glob(PARTIAL), *(out / INTERACTIONS).glob(PARTIAL)]:
        path.unlink(missing_ok=True)


def _sample_report(plan: Plan) -> Place:
    """Explain a sample of the rows again, and write the report on it."""
    work = plan.work
    data, numbers = sample(plan.shards, work.names, REPORTED_ROWS)
    notes = plan.notes
    if len(data) < plan.rows:
        notes.append(f"the report covers a sample of {len(data):,} of the {plan.rows:,} rows")
    place = plan.job.data
    shard = Shard(0, place, 0, 0, len(data), 0, 0, place, table=data)
    with collect_warnings(notes):
        block = Block.concat(list(work.blocks(shard)))
    block = replace(block, numbers=np.array(numbers)[block.numbers])
    return _write_report(plan.job, _result(plan, block, data))


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
        parts=sum(1 for _ in plan.job.out.glob("part-*.parquet")),
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
    every = {path.name for path in plan.job.out.iterdir()}
    others = sorted(name for name in every - parts if not name.startswith(("_", ".")))
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


def _progress_bar(total: int, before: int, *, shown: bool) -> Any:
    """Return a bar of the rows done; elsewhere than in a terminal, it writes a line at times."""
    in_terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=before,
        unit=" rows",
        unit_scale=in_terminal,
        mininterval=0.1 if in_terminal else SECONDS_PER_LINE,
        delay=0 if in_terminal else SECONDS_PER_LINE,
        bar_format=None if in_terminal else LINE,
        disable=not shown,
    )


def _log_entry(report: ShardResult) -> dict[str, Any]:
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
