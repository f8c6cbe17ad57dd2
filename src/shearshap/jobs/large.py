"""A large job: from folders of Parquet, or one large file, to a folder of parts.

data ── shards ──┐                                    ┌── part-000000.parquet
                 ├── executor: explain every shard ───┼── part-000001.parquet
manifest ────────┘                                    └── ...

Memory is bounded by what is read and explained at once, and not by the files. A part is there whole
or not at all, so a job that was stopped goes on where it was. What all shards share, above all the
calibration, is fitted to a fixed sample of rows and kept in the manifest. So values depend neither
on the number of workers nor on who explained what.
"""

import hashlib
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from shearshap import __version__
from shearshap.engine.store import written_whole
from shearshap.errors import InputError, JobError, ModelError
from shearshap.explainer import Explainer
from shearshap.explanation import Explanation
from shearshap.jobs import tables
from shearshap.jobs.background_option import (
    Background,
    BackgroundOption,
    background_from_file,
    background_without_file,
)
from shearshap.jobs.csv_stream import convert, find_types
from shearshap.jobs.executors import Executor, InProcess, Report
from shearshap.jobs.folder_lock import LOCK, locked
from shearshap.jobs.input_columns import InputColumns, Survey, category_columns, common_schema
from shearshap.jobs.job import (
    check_libraries,
    chosen_output,
    errors_with_files,
    folder_kept,
    model_columns,
    our_warnings_as,
)
from shearshap.jobs.job_progress import in_words, shown_progress
from shearshap.jobs.manifest import MANIFEST, Manifest, Preparation, hash_of
from shearshap.jobs.models import FolderOpener, LoadedModel
from shearshap.jobs.places import METADATA, WRITTEN
from shearshap.jobs.result import counted
from shearshap.jobs.shards import SHARD_ROWS, InputFile, Shard, cut, sample
from shearshap.jobs.work import AUTO, ModelSource, ShardWork, close_model, device_of
from shearshap.methods import METHODS
from shearshap.methods.base import Method

if TYPE_CHECKING:
    import pyarrow as pa

CONVERTED = "_input.parquet"  #: the rows of a CSV file, until the job is done
BACKGROUND = "_background.parquet"  #: a sample of the rows, whose statistic is the background
LOG = "_log.jsonl"  #: a line of JSON for each shard

CALIBRATED_ROWS = 256  #: rows of the sample that a calibration is fitted to
TRIED_ROWS = 16  #: rows that a method without a calibration is tried on
BACKGROUND_ROWS = 8192  #: rows at most whose mean is a background, where the user names no other
FAILING_ROWS = 8  #: rows of the sample that the model may fail on
NAMED = 5  #: shards that an error names


@dataclass(frozen=True, kw_only=True)
class LargeJob:
    """Files of rows, a model, and how to explain its predictions: for `run`.

    Options that are not listed here are those of `Explainer` and of its call.

    Parameters
    ----------
    model
        A place, as in `Job`, or the model itself, if it can be pickled.
    data
        A folder of Parquet files, which are taken in the order of their names; or one file, Parquet
        or CSV.
    out
        The folder of the parts; it is made where it is missing. It is empty, or holds the same job,
        which then goes on.
    background
        As in `Job`: a file of rows, "mean" or another statistic, or of a file, "mean:FILE". A bare
        statistic is that of a sample of up to 8,192 of the rows explained. Anything else is taken
        as an `Explainer` takes it.
    drop
        Columns that are no input of the model.
    id_column
        The column that labels the rows, and that the model does not see; None: they are numbered.
    keep
        Columns of the data that go into the parts; None: all.
    trust
        Whether to open pickles, which run whatever code is in them.
    device
        Devices that the workers take turns with: "cuda:0,cuda:1", or "auto" for all GPUs; None:
        where the model is.
    shard_rows
        Rows of a shard at most: what is done again where a worker dies.
    folder_openers
        How to open a folder as a model; the first that does not return None is used. They go to
        other processes, so they must be functions that can be pickled.
    """

    model: Any
    data: Path
    out: Path
    background: Any = None
    budget: int | None = None
    method: str | Method = "auto"
    outputs: tuple[str, ...] = ()
    scale: str | None = None
    returns: str | None = None
    multilabel: bool | None = None
    drop: tuple[str, ...] = ()
    id_column: str | None = None
    keep: tuple[str, ...] | None = None
    seed: int = 0
    tol: float | None = None
    trust: bool = False
    device: str | None = None
    shard_rows: int = SHARD_ROWS
    folder_openers: Sequence[FolderOpener] = ()

    def __post_init__(self) -> None:
        """Take paths as text, too."""
        object.__setattr__(self, "data", Path(self.data).absolute())
        object.__setattr__(self, "out", Path(self.out).absolute())
        if isinstance(self.model, Path):
            object.__setattr__(self, "model", str(self.model))


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


def is_large(data: Path, out: Path) -> bool:
    """Return whether files make a large job: a folder to read, or a name of a folder to write."""
    return data.is_dir() or not out.suffix


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
        Who explains: `InProcess()`, `LocalProcesses(workers=2)`; None: this process.
    progress
        Whether to show how the job gets on; None: a bar in a terminal, else lines on stderr.
    log
        Where to add a line of JSON for each shard: a file, or "-" for stderr; None: _log.jsonl in
        the folder of the parts.

    Raises
    ------
    JobError
        Where some shards could not be explained, after all others were: it names them.
    """
    started = time.perf_counter()
    check_libraries()
    _check(job)
    with _folder(job), locked(job.out):
        _remove_partials(job.out)
        plan = _planned(job)
        todo = [shard for shard in plan.shards if not plan.is_done(shard)]
        before = sum(shard.rows for shard in plan.shards) - sum(shard.rows for shard in todo)
        try:
            with shown_progress(
                plan.rows, before, progress=progress, log=job.out / LOG if log is None else log
            ) as shown:
                reports = []
                with closing_reports(executor or InProcess(), plan.work, todo) as coming:
                    for report in coming:
                        reports.append(report)
                        shown.add(report)
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


# Before any work


def _check(job: LargeJob) -> None:
    """Raise, before any work is done, where the job cannot be done."""
    if job.shard_rows < 1:
        raise InputError(f"shard_rows: wanted at least 1, got {job.shard_rows}")
    devices = _devices(job.device)
    if any(name.startswith("cuda") for name in devices) and not torch.cuda.is_available():
        raise InputError(f"device: there is no GPU here, and {job.device} was wanted")
    if not job.data.exists():
        raise InputError(f"data: there is no file or folder {job.data}")
    if job.data.is_file():
        tables.check_in(job.data, "data")
    if job.data.is_dir() and job.out.resolve().is_relative_to(job.data.resolve()):
        raise InputError(f"out: {job.out} is in the folder of the data; choose another place")
    if isinstance(job.background, str | None):
        file = BackgroundOption.parse(job.background).file
        if file is not None:
            tables.check_in(file, "background")


def _devices(text: str | None) -> tuple[str, ...]:
    """Return the devices that an option names."""
    if text is None:
        return ()
    if text == AUTO:
        return (AUTO,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        try:
            torch.device(name)
        except RuntimeError as error:
            raise InputError(
                f"device: wanted auto, or names such as cpu or cuda:0,cuda:1; got {text!r}"
            ) from error
    return names


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
    if not (out / MANIFEST).exists():
        _check_empty(out)
    try:
        yield
    finally:
        if is_new and not (out / MANIFEST).exists():
            for name in (CONVERTED, BACKGROUND, LOCK):
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # of another run that has begun meanwhile
                out.rmdir()


def _check_empty(out: Path) -> None:
    ours = (LOCK, CONVERTED, BACKGROUND, LOG)
    others = [
        path.name for path in out.iterdir() if path.name not in ours and not _is_partial(path)
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


# The plan


@dataclass(frozen=True, eq=False)
class Plan:
    """A job's shards, and the work on them."""

    job: LargeJob
    shards: list[Shard]
    work: ShardWork
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows of the job."""
        return sum(shard.rows for shard in self.shards)

    def is_done(self, shard: Shard) -> bool:
        """Return whether the part of a shard is there, and is this job's."""
        import pyarrow as pa
        from pyarrow import parquet as pq

        try:
            metadata = pq.read_metadata(self.job.out / shard.name)
        except (pa.ArrowException, OSError):
            return False
        schema = self.work.part_schema()
        is_ours = (metadata.metadata or {}).get(METADATA) == schema.metadata[METADATA]
        return bool(is_ours and metadata.num_rows == shard.rows)


def _planned(job: LargeJob) -> Plan:
    """Read the manifest of the job, or make it, and return the plan."""
    source = ModelSource(job.model, job.trust, job.folder_openers)
    with source.opened() as model, folder_kept():
        files = _input_files(job, model)
        planning = _Planning.of(job, source, model, files)
        manifest = planning.manifest()
    work = planning.work(manifest)
    facts = (
        ("of", f"{counted(len(files), 'file')} at {job.data}"),
        ("model", model.name),
        ("background", planning.background.description),
    )
    return Plan(job, planning.shards, work, facts, tuple(planning.notes))


def _input_files(job: LargeJob, model: LoadedModel) -> list[InputFile]:
    """Return the files to explain; those of a CSV file's rows are converted first."""
    if job.data.is_dir():
        paths = [path for path in sorted(job.data.rglob("*")) if _is_data(path, job.data)]
        files = [InputFile.of(path, path) for path in paths]
    elif job.data.suffix.lower() == ".csv":
        files = [_converted(job, model)]
    else:
        files = [InputFile.of(job.data, job.data)]
    files = [file for file in files if sum(file.groups)]
    if not files:
        raise InputError(f"data: there are no rows in the Parquet files of {job.data}")
    return files


def _is_data(path: Path, folder: Path) -> bool:
    """Return whether a file is one of Parquet, and not hidden, as other readers have it."""
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def _converted(job: LargeJob, model: LoadedModel) -> InputFile:
    """Return the rows of a CSV file as a Parquet file in the job's folder."""
    path = job.out / CONVERTED
    # one that is there without a manifest may be of another job
    if not path.exists() or not (job.out / MANIFEST).exists():
        found = find_types(job.data)
        inputs = set(model.columns) or set(found.seen) - {*job.drop, job.id_column}
        types = found.types(inputs, model.text_columns)
        convert(job.data, types, path, group_rows=job.shard_rows)
    return InputFile.of(path, job.data)


@dataclass(eq=False)
class _Planning:
    """What is known of a job before its manifest is."""

    job: LargeJob
    source: ModelSource
    model: LoadedModel
    files: Sequence[InputFile]
    shards: list[Shard]
    schema: "pa.Schema"  #: of all columns of the data
    columns: InputColumns  #: that the model is given, before all rows were looked at
    background_table: "pa.Table | None"  #: of a file
    background: Background
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, job: LargeJob, source: ModelSource, model: LoadedModel, files: Sequence[InputFile]
    ) -> "_Planning":
        """Find the columns of the data and the background."""
        schema = common_schema(files)
        notes: list[str] = []
        if schema.names[0] == "" and len(schema.names) > 1:
            schema = schema.remove(0)
            notes.append("the first column has no name, as pandas' index has none, and is left out")
        empty = schema.empty_table()
        drop = list(job.drop)
        if job.id_column is not None:
            _check_there("id", job.id_column, schema, job.data)
            if job.id_column not in model.columns:
                drop.append(job.id_column)
        _carried(job, schema)  # it raises where a column to keep is not there
        names = model_columns(model, empty, job.data, drop=drop)
        chosen = tables.chosen(empty, names, job.data)
        background_table = _background_table(job, model, names)
        return cls(
            job,
            source,
            model,
            files,
            cut(files, job.shard_rows),
            schema,
            InputColumns.of(chosen, background_table),
            background_table,
            _described_background(job, model),
            notes,
        )

    def manifest(self) -> Manifest:
        """Return the manifest of the folder, which is made where there is none."""
        identity = _identity(self.job, self.files, self.schema)
        path = self.job.out / MANIFEST
        if path.exists():
            manifest = Manifest.load(path)
            manifest.check_same(identity, self.job.out)
            self._set_background(self.columns.settled(manifest.preparation.survey))
            return manifest

        survey = self._surveyed()
        columns = self.columns.settled(survey)
        self._sample_background(columns)
        self._set_background(columns)
        manifest = Manifest(identity, self._prepared(columns, survey))
        manifest.save(path)
        return manifest

    def work(self, manifest: Manifest) -> ShardWork:
        """Return the work on each shard."""
        preparation = manifest.preparation
        job = self.job
        return ShardWork(
            out=job.out,
            key=manifest.key,
            source=self.source,
            options=self._options(preparation.calibration),
            call={"budget": job.budget, "tol": job.tol},
            columns=self.columns.settled(preparation.survey),
            part_columns=preparation.columns,
            carried=_carried(job, self.schema),
            id_column=job.id_column,
            devices=_devices(job.device),
        )

    def _surveyed(self) -> Survey:
        names = category_columns(self.files, self.columns, text=self.model.categories)
        return Survey.of(self.shards, self.background_table, self.columns, names)

    def _sample_background(self, columns: InputColumns) -> None:
        """Write the sample of the rows explained whose statistic is the background.

        It stays in the job's folder: a row that can be read only later must not change it.
        """
        from pyarrow import parquet as pq

        if isinstance(self.background.value, str) and self.background_table is None:
            table = sample(self.shards, columns.schema.names, BACKGROUND_ROWS)
            with written_whole(self.job.out / BACKGROUND) as partial:
                pq.write_table(table, partial, write_page_checksum=True)

    def _set_background(self, columns: InputColumns) -> None:
        """Read the background's rows: of its file, or of the sample of the rows explained."""
        job = self.job
        if self.background_table is not None:
            option = BackgroundOption.parse(job.background)
            self.background = background_from_file(option, columns.frame(self.background_table))
        elif isinstance(self.background.value, str):
            table = tables.read(job.out / BACKGROUND, "background")
            every = sum(shard.rows for shard in self.shards)
            words = self.background.description
            if len(table) < every:
                words = f"{self.background.value} of {len(table):,} of the rows explained"
            value = (self.background.value, columns.frame(table))
            self.background = Background(value, words, job.data)

    def _options(self, calibration: Any) -> dict[str, Any]:
        """Return the options of the explainer."""
        job = self.job
        return {
            "background": self.background.value,
            "method": _calibrated(job.method, calibration),
            "output": chosen_output(job.outputs, self.model.outputs),
            "scale": job.scale,
            "returns": job.returns,
            "multilabel": job.multilabel,
            "seed": job.seed,
        }

    def _prepared(self, columns: InputColumns, survey: Survey) -> Preparation:
        """Explain a sample, which shows the columns of the parts, and fit the calibration to it."""
        job = self.job
        fitted = hasattr(METHODS.get(cast(str, job.method), job.method), "calibration")
        count = CALIBRATED_ROWS if fitted else TRIED_ROWS
        frame = columns.frame(sample(self.shards, columns.schema.names, count))
        devices = _devices(job.device)
        explainer = Explainer(
            self.model.model, **self._options(None), device=device_of(devices, worker=0)
        )
        with our_warnings_as(self.notes), errors_with_files(job.data, self.background):
            explanation = _explained_sample(explainer, frame, budget=job.budget, tol=job.tol)
        table = explanation.to_frame("pyarrow", wide=True)
        part_columns = tuple((each.name, str(each.type)) for each in list(table.schema)[1:])
        return Preparation(part_columns, survey, cast(Any, explanation.calibration))


def _explained_sample(
    explainer: Explainer, frame: Any, *, budget: int | None, tol: float | None
) -> Explanation:
    """Explain a sample, without the few rows that the model fails on: their shards report them."""
    for _ in range(FAILING_ROWS):
        try:
            return explainer(frame, budget=budget, tol=tol, progress=False)
        except ModelError as error:
            if error.row is None or len(frame) == 1:
                raise
            frame = frame.drop(index=frame.index[error.row]).reset_index(drop=True)
    return explainer(frame, budget=budget, tol=tol, progress=False)


def _calibrated(method: str | Method, calibration: Any) -> str | Method:
    """Return a method with a calibration, where it takes one and has none."""
    instance = METHODS.get(method) if isinstance(method, str) else method
    if calibration is None or getattr(instance, "calibration", calibration) is not None:
        return method
    return cast(Method, replace(cast(Any, instance), calibration=calibration))


def _background_table(
    job: LargeJob, model: LoadedModel, columns: Sequence[str]
) -> "pa.Table | None":
    """Read the file of the background, if it is one."""
    if not isinstance(job.background, str | None):
        return None
    file = BackgroundOption.parse(job.background).file
    if file is None:
        return None
    table = tables.read(file, "background", text=model.text_columns)
    names = tables.matching_columns(table, columns, f"background: {file}")
    return tables.chosen(table, names, file).rename_columns(list(columns))


def _described_background(job: LargeJob, model: LoadedModel) -> Background:
    if not isinstance(job.background, str | None):
        return Background(job.background, f"a {type(job.background).__name__}")
    option = BackgroundOption.parse(job.background)
    return background_without_file(option, model.background, job.data)


def _carried(job: LargeJob, schema: "pa.Schema") -> "pa.Schema":
    """Return the columns of the data that go into the parts."""
    import pyarrow as pa

    names = schema.names if job.keep is None else list(job.keep)
    for name in names:
        _check_there("keep", name, schema, job.data)
    if job.id_column is not None and job.id_column not in names:
        names = [job.id_column, *names]
    return pa.schema([schema.field(name) for name in names])


def _check_there(option: str, name: str, schema: "pa.Schema", data: Path) -> None:
    if name not in schema.names:
        raise InputError(
            f"{option}: there is no column {name!r} in {data}; it has {', '.join(schema.names)}"
        )


# What a job is


def _identity(job: LargeJob, files: Sequence[InputFile], schema: "pa.Schema") -> dict[str, Any]:
    """Return all that the values depend on, as JSON can hold it."""
    return {
        "version": __version__,
        "model": _model_hash(job.model),
        "background": _background_hash(job.background),
        "method": job.method if isinstance(job.method, str) else repr(job.method),
        "budget": job.budget,
        "tol": job.tol,
        "seed": job.seed,
        "outputs": list(job.outputs),
        "scale": job.scale,
        "returns": job.returns,
        "multilabel": job.multilabel,
        "drop": list(job.drop),
        "id": job.id_column,
        "keep": None if job.keep is None else list(job.keep),
        "shard_rows": job.shard_rows,
        "inputs": [_input_identity(file, job.data) for file in files],
        "schema": [[each.name, str(each.type)] for each in schema],
    }


def _input_identity(file: InputFile, data: Path) -> list[Any]:
    name = file.source.relative_to(data) if data.is_dir() else Path(file.source.name)
    return [name.as_posix(), file.source.stat().st_size, list(file.groups), file.footer]


def _model_hash(model: Any) -> str:
    """Return a hash of the content of a model's files, or of the model itself."""
    if not isinstance(model, str):
        return _pickle_hash(model, "model")
    path = Path(model)
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        text = [f"{file.relative_to(path).as_posix()} {_file_hash(file)}" for file in files]
        return hash_of("\n".join(text).encode())
    if path.is_file():
        return _file_hash(path)
    module, _, name = model.rpartition(":")
    code = Path(module)
    if not code.is_file():
        origin = getattr(find_spec(module), "origin", None)
        code = Path(origin or "")
    content = _file_hash(code) if code.is_file() else module
    return hash_of(f"{content} {name}".encode())


def _background_hash(background: Any) -> str:
    if not isinstance(background, str | None):
        return _pickle_hash(background, "background")
    option = BackgroundOption.parse(background)
    content = "" if option.file is None else _file_hash(option.file)
    return hash_of(f"{option.statistic} {content}".encode())


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pickle_hash(value: Any, what: str) -> str:
    try:
        return hash_of(pickle.dumps(value))
    except Exception as error:  # every class has errors of its own
        raise InputError(
            f"{what}: a {type(value).__name__} cannot be pickled ({error}); give the place of a "
            "file instead"
        ) from error


# Afterwards


def _summary(plan: Plan, reports: Sequence[Report], before: int, seconds: float) -> Summary:
    failures = tuple(report for report in reports if report.error is not None)
    done = [report for report in reports if report.error is None]
    notes = dict.fromkeys((*plan.notes, *(note for each in reports for note in each.notes)))
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
        f"{words}: {'; '.join(first)}; {counted(summary.parts, 'part')} are in {summary.out}, and "
        "the same command goes on from there"
    )
    error.summary = summary
    raise error
