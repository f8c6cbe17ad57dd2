"""A job of `shear explain`: from the files of a model and of rows to files of Shapley values.

model ──────┐         ┌── one shard:  values.parquet, its report and interactions beside it
data ───────┼── plan ─┤
background ─┘         └── shards ── executor ──┬── values/part-000000.parquet
                                               └── values/part-000001.parquet, ...

A file is explained in memory, in this process. The memory that a folder of parts needs is bounded
by what is read and explained at once. A part is there whole or not at all, so a job that was
stopped goes on from there.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shearshap.apps.jobs.executors import Executor, InProcess
from shearshap.apps.jobs.folder import run_folder
from shearshap.apps.jobs.models import ModelSource, absolute_model, exits_as_errors, model_files
from shearshap.apps.jobs.options import Options, errors_with_files, parse_devices
from shearshap.apps.jobs.places import absolute, errors_of, exists, is_folder
from shearshap.apps.jobs.plan import Plan, make_plan
from shearshap.apps.jobs.result import Outcome, facts, file_summary, report_of, result_of
from shearshap.apps.jobs.tables import FilesRead, check_in, check_place, check_suffix, write
from shearshap.apps.jobs.urls import Place
from shearshap.apps.jobs.values import kept
from shearshap.apps.jobs.work import Block
from shearshap.errors import InputError, ModelError, ShearError, collect_warnings


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
        source = ModelSource(self.model, self.trust, hashed=bool(self.large))
        try:
            if self.large:
                # workers may have another current folder
                place = absolute_model(self.model)
                source = replace(source, model=place, name=self.model_name)
                job = replace(self, data=absolute(self.data), out=absolute(self.out))
                return run_folder(job, source, read, executor or InProcess(), progress, log)
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
    result = result_of(plan, block, plan.data.take(block.numbers))
    known = facts(job, result)
    write(plan.work.values(block), known | kept(result, plan.columns.schema), job.out)
    if job.interactions:
        write(plan.work.pairs(block), known, job.interactions_file)
    report = report_of(job, result) if job.report else None
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
        result = result_of(plan, block, plan.data.take(block.numbers))
        known = facts(job, result) | {"unfinished": message or "interrupted"}
        write(plan.work.values(block), known | kept(result, plan.columns.schema), job.partial)
        place = f"the finished rows ({len(block.numbers):,}) are in {job.partial}"
        error.args = (f"{message}; {place}" if message else place,)
        if isinstance(error, ModelError):
            error.finished = result.explanation
        raise
