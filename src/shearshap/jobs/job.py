"""A job of `shear explain`: from the files of a model and a table to a file of Shapley values.

model ──┐
        ├── explain ── Result ──┬── --out            values.parquet
data  ──┤                       ├── --interactions   values.interactions.parquet
        │                       ├── --report         values.html
background                      └── summary
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shearshap.errors import BudgetError, InputError, ModelError, ShearError, ShearWarning
from shearshap.explainer import Explainer
from shearshap.jobs import places, tables
from shearshap.jobs.background_option import (
    Background,
    BackgroundOption,
    background_from_file,
    background_without_file,
)
from shearshap.jobs.models import (
    FolderOpener,
    LoadedModel,
    importing,
    model_files,
    open_model,
)
from shearshap.jobs.player_options import check_groups
from shearshap.jobs.result import OUTPUTS, Result, counted, facts, summary
from shearshap.jobs.wording import in_terminal_words, without_stack_trace
from shearshap.models import Form, Scale
from shearshap.result.cells import label_array
from shearshap.result.explanation import Explanation
from shearshap.result.text import no_such

if TYPE_CHECKING:
    import pyarrow as pa

Raised = TypeVar("Raised", bound=BaseException)

__all__ = ["OUTPUTS", "Job", "Outcome", "Result", "counted"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job has done."""

    result: Result
    out: Path  #: the file of values
    report: Path | None  #: the page, if the job has one
    summary: str  #: for people, a line for each fact

    @property
    def explanation(self) -> Explanation:
        """The explanation of the rows."""
        return self.result.explanation


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model's file, a table's file and how to explain the model's predictions for its rows.

    `run` does the job. Options that are not listed here are those of `Explainer` and of its call.

    Parameters
    ----------
    model
        A folder, a file, or a place in code; see `shearshap.jobs.models.ACCEPTED`.
    data
        The rows to explain: CSV or Parquet.
    out
        Where to write the values: .parquet or .csv.
    background
        A file of rows, "mean", "median" or "mode" of the rows explained, or of a file: "mean:FILE".
        None: the background row that the model brings along, else the mean of the rows explained.
    outputs
        Names or numbers of the outputs to explain; none: all.
    output_names
        Names of all outputs of the model, where it does not bring them along.
    groups
        Columns that are one player, by the player's name; other columns are players of their own.
    interactions
        Whether to write the interactions of pairs of players, too: to `interactions_file`.
    id_column
        The column that labels the rows, and that the model does not see; None: they are numbered.
    drop
        Columns that are no input of the model.
    device
        Where to compute, such as "cuda"; None: where the model is.
    trust
        Whether to open pickles, which run whatever code is in them.
    report
        Whether to write a page for a browser beside `out`.
    overwrite
        Whether to replace files that no job has written. Those that are read are never replaced.
    command
        How the job was started, to be written into the file of values.
    folder_openers
        How to open a folder as a model; the first that does not return None is used.
    also_read
        Other files that are read, which must not be overwritten, by what they are in words.
    """

    model: str
    data: Path
    out: Path
    background: str | None = None
    budget: int | None = None
    method: str = "auto"
    outputs: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    interactions: bool = False
    id_column: str | None = None
    scale: str | None = None
    returns: str | None = None
    multilabel: bool | None = None
    drop: tuple[str, ...] = ()
    seed: int = 0
    tol: float | None = None
    batch_size: int | None = None
    device: str | None = None
    trust: bool = False
    report: bool = False
    overwrite: bool = False
    command: str = "shearshap.jobs.Job.run"
    folder_openers: Sequence[FolderOpener] = ()
    also_read: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take paths as text, too."""
        object.__setattr__(self, "data", Path(self.data))
        object.__setattr__(self, "out", Path(self.out))

    @property
    def page(self) -> Path:
        """The file of the report."""
        return self.out.with_suffix(".html")

    @property
    def interactions_file(self) -> Path:
        """The file of the interactions."""
        return places.beside(self.out, "interactions")

    @property
    def partial(self) -> Path:
        """The file of the rows that were done, where not all could be."""
        return places.beside(self.out, "partial")

    @property
    def background_option(self) -> BackgroundOption:
        """The background that the user named."""
        return BackgroundOption.parse(self.background)

    def run(self) -> Outcome:
        """Explain the rows, write the values and the report, and return what was done.

        `out` is written only where all rows could be explained. Where the model fails in the
        middle, or the job is interrupted, the rows that were done are written to `partial`, and
        the error says so.
        """
        _check(self)
        with importing(self.model):
            result = _explained(self)

        known = facts(self, result)
        tables.write(result.explanation, result.beside_values, known, self.out)
        if self.interactions:
            tables.write_pairs(result.explanation, known, self.interactions_file)
        page = _page(self, result, known) if self.report else None
        return Outcome(result, self.out, page, summary(self, result))


# Before any work


def _check(job: Job) -> None:
    """Raise, before any work is done, where the job cannot be done."""
    check_libraries(report=job.report)
    read = files_read(job.model, job.data, job.background)
    read += list(job.also_read.items())
    places.check_out(job.out, read, overwrite=job.overwrite)
    if job.interactions:
        places.check_place(job.interactions_file, "interactions", read, overwrite=job.overwrite)
    if job.report:
        places.check_place(job.page, "report", read, overwrite=job.overwrite)

    tables.check_in(job.data, "data")
    background_file = job.background_option.file
    if background_file is not None:
        tables.check_in(background_file, "background")


def check_libraries(*, report: bool = False) -> None:
    """Raise where a library is missing that jobs need."""
    needed = {"pyarrow": "shear explain", "pandas": "shear explain"}
    if report:
        needed["jinja2"] = "--report"
    for library, what in needed.items():
        if find_spec(library) is None:
            raise InputError(f"{what} needs {library}: pip install 'shearshap[explain]'")


def files_read(model: Any, data: Path, background: Any) -> list[tuple[str, Path]]:
    """Return the files that a job reads, each with what it is in words."""
    read = [("the data explained", data)]
    if isinstance(model, str):
        read += [("the model", file) for file in model_files(model)]
    if isinstance(background, str | None):
        file = BackgroundOption.parse(background).file
        read += [("the background", file)] if file is not None else []
    return read


# The work


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
        )


def open_files(job: Job) -> Opened:
    """Read the job's files."""
    with folder_kept():
        model = open_model(job.model, trust=job.trust, folder_openers=job.folder_openers)
    table = tables.read(job.data, "data", text=model.text_columns)
    data, notes = tables.named_columns(table, job.data)
    tables.check_columns(data, job.out)
    drop = [*job.drop, *_id_to_drop(job, model, data)]
    columns = model_columns(model, data, job.data, drop=drop)
    check_groups(job.groups, columns)
    data = tables.with_ids_as_written(data, columns, job.data)
    rows, background, more_notes = _rows_and_background(job, model, data, columns)
    every_note = [*notes, *more_notes, *model.notes(rows)]
    return Opened(model, data, columns, rows, background, every_note, job.id_column)


def _id_to_drop(job: Job, model: LoadedModel, data: "pa.Table") -> list[str]:
    """Return the column of ids, unless there is none or the model takes it; raise if it is not."""
    if job.id_column is None:
        return []
    if job.id_column not in data.column_names:
        message = no_such("column", job.id_column, data.column_names, where=job.data)
        raise InputError(f"id: {message}")
    taken = job.id_column in model.columns or job.id_column in job.drop
    return [] if taken else [job.id_column]


def _explained(job: Job) -> Result:
    """Explain the rows of the job's file; only where not all can be, some are written."""
    with exits_as_errors(job.model):
        opened = open_files(job)

    blocks: list[Explanation] = []
    with (
        _finished_rows_kept(job, blocks, opened),
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
        )
        for block in stream:
            blocks.append(block)  # noqa: PERF402
    return opened.result(Explanation.concat(blocks))


@contextmanager
def exits_as_errors(model: str) -> Iterator[None]:
    """Raise an error where the model's code ends the program, which would look like success."""
    try:
        yield
    except SystemExit as error:
        raise ModelError(
            f"the code of the model {model} called exit (with {error.code!r}); take the call "
            "out, or put it under if __name__ == '__main__'"
        ) from error


@contextmanager
def folder_kept() -> Iterator[None]:
    """Go back to the current folder where the model's code has left it.

    Else a relative path would name another file from then on.
    """
    folder = Path.cwd()
    try:
        yield
    finally:
        os.chdir(folder)


@contextmanager
def _finished_rows_kept(job: Job, blocks: Sequence[Explanation], opened: Opened) -> Iterator[None]:
    """Write the rows that are done where the others cannot be, and say so in the error."""
    try:
        yield
    except (ShearError, KeyboardInterrupt) as error:
        message = in_terminal_words(without_stack_trace(str(error)))
        if not blocks:
            raise _reworded(error, message) from error

        kept = opened.result(Explanation.concat(blocks))
        finished = kept.explanation
        known = facts(job, kept)
        known["unfinished"] = message or "interrupted"
        tables.write(finished, kept.beside_values, known, job.partial)
        place = f"what was done before, {counted(len(finished), 'row')}, is in {job.partial}"
        again = _reworded(error, f"{message}; {place}" if message else place)
        if isinstance(again, ModelError):
            again.finished = finished
        raise again from error


def _page(job: Job, result: Result, known: Mapping[str, Any]) -> Path:
    """Write the report."""
    # not at the top: the page is made of what this module defines
    from shearshap.report.explained import report

    try:
        return report(job, result, known)
    except OSError as error:
        raise InputError(
            f"report: {job.page} cannot be written: {error.strerror or error}; the values are in "
            f"{job.out}"
        ) from error


def model_columns(
    model: LoadedModel, data: "pa.Table", path: Path, *, drop: Sequence[str]
) -> list[str]:
    """Return the columns of a table, read from a path, to give to the model.

    They are those that it was trained with, else all that are not dropped.
    """
    names = data.column_names
    for name in drop:
        if name not in names:
            raise InputError(f"drop: {no_such('column', name, names, where=path)}")
        if name in model.columns:
            raise InputError(f"drop: the model takes column {name!r}, which cannot be dropped")
    if model.columns:
        return tables.matching_columns(data, model.columns, f"data: {path}")

    columns = [name for name in names if name not in drop]
    if "" in columns:
        raise InputError(
            f"data: column {names.index('') + 1} of {path} has no name; give it one, or leave "
            "it out with --drop ''"
        )
    if model.width not in (None, len(columns)):
        raise InputError(
            f"the model takes {model.width} columns, and {path} has {len(columns)}: "
            f"{', '.join(columns)}; leave out what is no input with --drop COLUMN"
        )
    return columns


def _rows_and_background(
    job: Job, model: LoadedModel, data: "pa.Table", columns: Sequence[str]
) -> tuple[Any, Background, list[str]]:
    """Return the rows as a frame of pandas, the background, and notes on the files of both."""
    chosen = tables.chosen(data, columns, job.data)
    # what the model calls text is text
    doubtful = [name for name in columns if name not in model.text_columns]
    notes = tables.notes(job.data, data, doubtful)
    option = job.background_option
    if option.file is None:
        (rows,) = tables.frames([chosen], categories=model.categories)
        return rows, background_without_file(option, model.background, job.data), notes

    table = tables.read(option.file, "background", text=model.text_columns)
    columns = tables.matching_columns(table, columns, f"background: {option.file}")
    absent = tables.chosen(table, columns, option.file)
    # both at once, so that every column has one type
    rows, background_rows = tables.frames([chosen, absent], categories=model.categories)
    if option.file != job.data:
        notes += tables.notes(option.file, table, doubtful)
    return rows, background_from_file(option, background_rows), notes


def explainer_of(job: Job, model: LoadedModel, background: Background) -> Explainer:
    """Return the explainer with a job's options."""
    return Explainer(
        model.model,
        background.value,
        method=job.method,
        groups=dict(job.groups) or None,
        output=chosen_output(job.outputs, job.output_names or model.outputs),
        output_names=job.output_names or None,
        batch_size=job.batch_size or "auto",
        device=job.device,
        scale=cast(Scale | None, job.scale),  # the explainer checks it
        returns=cast(Form | None, job.returns),  # and this
        multilabel=job.multilabel,
        seed=job.seed,
    )


def chosen_output(wanted: Sequence[str], names: Sequence[str]) -> Any:
    """Return the outputs to explain as an `Explainer` takes them."""
    outputs = [_name_or_number(text, names) for text in wanted]
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def _name_or_number(text: str, names: Sequence[str]) -> str | int:
    """Return an output's name where there is such a name, else its number."""
    is_number = text.removeprefix("-").isdecimal()
    return int(text) if is_number and text not in names else text


@contextmanager
def our_warnings_as(notes: list[str]) -> Iterator[None]:
    """Add our own warnings to the notes, and pass on those of other libraries."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShearWarning)
        yield
    for warning in caught:
        if not issubclass(warning.category, ShearWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
            continue
        note = in_terminal_words(" ".join(str(warning.message).split()))
        if note not in notes:
            notes.append(note)


@contextmanager
def errors_with_files(data: Path, background: Background) -> Iterator[None]:
    """Name the file in the explainer's errors about rows or background."""
    try:
        yield
    except (InputError, BudgetError) as error:
        message = str(error)
        about_background = (
            message.startswith(("background", "reference")) or "background rows" in message
        )
        if message.startswith("rows:"):
            reason = message.removeprefix("rows: ")
            message = f"data: {data}: {reason}"
        elif about_background and background.source is not None:
            reason = message.removeprefix("background: ").removeprefix("reference: ")
            message = f"background: {background.source}: {reason}"
        raise _reworded(error, message) from error


def _reworded(error: Raised, message: str) -> Raised:
    """Return an error with another message, and all else that it tells."""
    again = copy(error)
    again.args = (message,) if message else ()
    return again
