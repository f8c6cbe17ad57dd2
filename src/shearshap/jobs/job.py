"""A job of `shear explain`: from the files of a model and of rows to files of Shapley values.

model ──┐
data  ──┼── Job.run ──┬── a file:   values.parquet, its report and interactions beside it
background            └── a folder: values/part-000000.parquet, ... (see `shearshap.jobs.parts`)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shearshap.errors import InputError, ModelError, ShearError
from shearshap.explainer import Explainer
from shearshap.jobs import parts, places, tables
from shearshap.jobs.columns import frames
from shearshap.jobs.executors import Executor
from shearshap.jobs.models import (
    LoadedModel,
    exits_as_errors,
    folder_kept,
    importing,
    model_columns,
    model_files,
    open_model,
)
from shearshap.jobs.options import (
    Background,
    Options,
    background_from_file,
    background_without_file,
    check_groups,
    device_of,
    errors_with_files,
    explainer_options,
    our_warnings_as,
    parse_devices,
    reworded,
)
from shearshap.jobs.result import Outcome, Result, counted, facts, summary
from shearshap.result.cells import label_array
from shearshap.result.explanation import Explanation
from shearshap.result.text import no_such

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Job",
    "Outcome",
    "Result",
    "counted",
    "errors_with_files",
    "exits_as_errors",
    "explainer_of",
    "folder_kept",
    "open_files",
    "our_warnings_as",
]


@dataclass(frozen=True, kw_only=True)
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

        A file is written only if all its rows could be explained. If the model fails in the middle,
        or the job is interrupted, the rows that were done are written to `partial`, and the error
        says so. A folder of parts keeps those that are finished, and the same job goes on from
        there.

        Parameters
        ----------
        executor
            What runs the work on a folder of parts: `InProcess()`, `LocalProcesses(workers=2)`,
            `RayExecutor()`. Default, and for a file: this process.
        progress
            Whether to show the progress. Default: a bar in a terminal; of a folder, lines on stderr
            elsewhere.
        log
            Where to add a line of JSON for each part of a folder: a new file or an earlier log, or
            "-" for stderr. Default: _log.jsonl among the parts.

        Raises
        ------
        JobError
            If some parts of a folder could not be written, after all others were: it names them.
        """
        _check_libraries(self)
        read = _files_read(self)
        if self.large:
            job = replace(self, data=self.data.absolute(), out=self.out.absolute())
            return parts.run(job, read, executor=executor, progress=progress, log=log)
        if executor is not None or log is not None:
            raise InputError(
                "executor and log are for a folder of parts; write to a folder, with / at the end "
                "of its name, or leave them out"
            )
        return _run_file(self, read, progress=progress)


# Before any work


def _check_libraries(job: Job) -> None:
    """Raise if a library is missing that the job needs."""
    needed = {"pyarrow": "shear explain", "pandas": "shear explain"}
    if job.large:
        needed["filelock"] = "shear explain"
    if job.report:
        needed["jinja2"] = "--report"
    for library, what in needed.items():
        if find_spec(library) is None:
            raise InputError(f"{what} needs {library}: pip install 'shearshap[explain]'")


def _files_read(job: Job) -> list[tuple[str, Path]]:
    """Return the files that a job reads, each with what it is in words, after a look at them."""
    if job.data.is_dir() or (job.large and not job.data.exists()):
        if not job.data.exists():
            raise InputError(f"data: there is no file or folder {job.data}")
    else:
        tables.check_in(job.data, "data")
    read = [("the data explained", job.data)]
    if isinstance(job.model, str):
        read += [("the model", file) for file in model_files(job.model)]
    file = job.background_option.file
    if file is not None:
        tables.check_in(file, "background")
        read.append(("the background", file))
    return read


# A file


def _run_file(job: Job, read: places.FilesRead, *, progress: bool | None) -> Outcome:
    """Explain the rows of a file, and write a file."""
    places.check_out(job.out, read, overwrite=job.overwrite)
    if job.interactions:
        places.check_place(job.interactions_file, "interactions", read, overwrite=job.overwrite)
    if job.report:
        places.check_place(job.page, "report", read, overwrite=job.overwrite)
    if not isinstance(job.model, str):
        raise InputError(
            f"model: expected the place of a model, got {job.model_name}; to explain a model in "
            "memory, call an Explainer, or write a folder of parts"
        )
    with importing(job.model):
        result = _explained(job, progress=progress)

    known = facts(job, result)
    tables.write(result.explanation, result.beside_values, known, job.out)
    if job.interactions:
        tables.write_pairs(result.explanation, known, job.interactions_file)
    page = parts.write_report(job, result, known) if job.report else None
    return Outcome(
        out=job.out,
        rows=len(result.explanation),
        summary=summary(job, result),
        report=page,
        result=result,
        notes=result.notes,
    )


@dataclass(frozen=True, eq=False)
class Opened:
    """A job's files, read: the model, the table, and what of the table the model is given."""

    model: LoadedModel
    data: "pa.Table"
    columns: Sequence[str]  #: that the model is given
    rows: Any  #: those columns, as a frame of pandas
    background: Background
    notes: list[str]
    id_column: str | None = None
    keep: tuple[str, ...] | None = None

    def result(self, explanation: Explanation) -> Result:
        """Return the result for all rows, or for those that are explained, under their ids."""
        is_whole = len(explanation) == len(self.data)
        data = self.data if is_whole else self.data.take(explanation.index)
        if self.id_column is not None:
            labels = label_array(data[self.id_column].to_pandas())
            explanation = replace(explanation, index=labels, index_name=self.id_column)
        return Result(
            explanation=explanation,
            data=data,
            model=self.model.name,
            background=self.background.description,
            columns=tuple(self.columns),
            id_column=self.id_column,
            notes=tuple(self.notes),
            keep=self.keep,
        )


def open_files(job: Job) -> Opened:
    """Read the job's files."""
    with folder_kept():
        model = open_model(job.model, trust=job.trust)
    ids = job.unused_columns(model.columns)
    table = tables.read(job.data, "data", text=model.text_columns, ids=ids)
    data, notes = tables.named_columns(table, job.data)
    tables.check_columns(data, job.out)
    named = {"id": [job.id_column] if job.id_column is not None else [], "keep": job.keep or ()}
    for option, names in named.items():
        for name in names:
            if name not in data.column_names:
                message = no_such("column", name, data.column_names, where=job.data)
                raise InputError(f"{option}: {message}")
    drop = dict.fromkeys([*job.drop, *sorted(ids)])
    columns = model_columns(model, data, job.data, drop=list(drop))
    check_groups(job.groups, columns)
    rows, background, more_notes = _rows_and_background(job, model, data, columns)
    every_note = [*notes, *more_notes, *model.notes(rows)]
    return Opened(model, data, columns, rows, background, every_note, job.id_column, job.keep)


def _rows_and_background(
    job: Job, model: LoadedModel, data: "pa.Table", columns: Sequence[str]
) -> tuple[Any, Background, list[str]]:
    """Return the rows as a frame of pandas, the background, and notes on the files of both."""
    chosen = tables.select(data, columns, job.data)
    # what the model calls text is text
    doubtful = [name for name in columns if name not in model.text_columns]
    notes = tables.notes(job.data, data, doubtful)
    option = job.background_option
    if option.file is None:
        (rows,) = frames(chosen, categories=model.categories)
        return rows, background_without_file(job, model.background), notes

    background = tables.read_background(option.file, columns, text=model.text_columns)
    # both at once, so that every column has one type
    rows, background_rows = frames(chosen, background, categories=model.categories)
    if option.file != job.data:
        notes += tables.notes(option.file, background, doubtful)
    return rows, background_from_file(option, background_rows), notes


def explainer_of(job: Job, model: LoadedModel, background: Background) -> Explainer:
    """Return the explainer with a job's options."""
    options = explainer_options(job, background.value, model.outputs)
    device = device_of(parse_devices(job.device), worker=0)
    return Explainer(model.model, **options, device=device)


def _explained(job: Job, *, progress: bool | None) -> Result:
    """Explain the rows of the job's file; if not all can be, those that were done are written."""
    with exits_as_errors(job.model):
        opened = open_files(job)

    blocks: list[Explanation] = []
    with (
        _save_partial_on_error(job, blocks, opened),
        exits_as_errors(job.model),
        folder_kept(),
        our_warnings_as(opened.notes),
        errors_with_files(job.data, opened.background),
    ):
        explainer = explainer_of(job, opened.model, opened.background)
        # one by one, so that those that are done outlive whatever stops the next
        stream = explainer.stream(
            opened.rows,
            budget=job.budget,
            tol=job.tol,
            interactions=job.interactions,
            progress=progress,
        )
        for block in stream:
            blocks.append(block)  # noqa: PERF402
    return opened.result(Explanation.concat(blocks))


@contextmanager
def _save_partial_on_error(
    job: Job, blocks: Sequence[Explanation], opened: Opened
) -> Iterator[None]:
    """Write the rows that are done if the others cannot be, and say so in the error."""
    try:
        yield
    except (ShearError, KeyboardInterrupt) as error:
        message = str(error)
        if not blocks:
            raise

        kept = opened.result(Explanation.concat(blocks))
        finished = kept.explanation
        known = facts(job, kept)
        known["unfinished"] = message or "interrupted"
        tables.write(finished, kept.beside_values, known, job.partial)
        place = f"what was done before, {counted(len(finished), 'row')}, is in {job.partial}"
        again = reworded(error, f"{message}; {place}" if message else place)
        if isinstance(again, ModelError):
            again.finished = finished
        raise again from error
