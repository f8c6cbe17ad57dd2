"""From a large job to its plan: files are cut into shards, and a sample prepares them all.

What all shards share is found out once and kept in the manifest: the types of columns, the
background, the calibration.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch

from shearshap.errors import InputError, ModelError
from shearshap.explainer import Explainer, model_game
from shearshap.jobs import tables
from shearshap.jobs.columns import (
    InputColumns,
    Survey,
    category_columns,
    common_schema,
    ordered_columns,
)
from shearshap.jobs.manifest import (
    MANIFEST,
    PARTS,
    Manifest,
    PartHashes,
    Preparation,
    file_hash,
    identity_of,
)
from shearshap.jobs.models import (
    LoadedModel,
    ModelSource,
    exits_as_errors,
    folder_kept,
    model_columns,
)
from shearshap.jobs.options import (
    Background,
    Options,
    background_from_file,
    background_without_file,
    check_groups,
    chosen_output,
    device_of,
    errors_with_files,
    explainer_options,
    our_warnings_as,
    parse_devices,
)
from shearshap.jobs.result import Result, counted
from shearshap.jobs.shards import InputFile, Shard, cut, input_schema, numbered_sample, sample
from shearshap.jobs.work import INTERACTIONS, ShardWork
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap.result.cells import label_array
from shearshap.result.explanation import Explanation
from shearshap.result.text import no_such
from shearshap.store import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

CONVERTED = "_input.parquet"  #: the rows of a CSV file, until the job is done
BACKGROUND = "_background.parquet"  #: a sample of the rows, whose statistic is the background

CALIBRATED_ROWS = 256  #: rows of the sample that a calibration is fitted to
TRIED_ROWS = 16  #: rows that a method without a calibration is tried on
BACKGROUND_ROWS = 8192  #: rows at most whose mean is a background, where the user names no other
REPORTED_ROWS = 1024  #: rows of the sample that a report is about
FAILING_ROWS = 8  #: rows of the sample that the model may fail on
PREDICTED_ROWS = 64  #: rows whose predictions tell one model from another
PREDICTED_COALITIONS = 8  #: for each of them: no player, all players, and random halves
MAX_PREDICTIONS = 1 << 16  #: numbers that the manifest keeps of them
ROUNDING = 1e-5  #: by which predictions may differ on other machines, relative to the largest

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Plan:
    """A job's shards, and the work on them."""

    job: Options
    shards: list[Shard]
    work: ShardWork
    finished: PartHashes
    facts: tuple[tuple[str, str], ...]
    background: str  #: in words
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows of the job."""
        return sum(shard.rows for shard in self.shards)

    def is_done(self, shard: Shard) -> bool:
        """Return whether the files of a shard are there, as this job has written them."""
        names = [shard.name]
        if self.job.interactions:
            names.append(f"{INTERACTIONS}/{shard.name}")
        return all(self.finished.is_done(name) for name in names)


def make_plan(job: Options) -> Plan:
    """Read the manifest of the job, or make it, and return the plan."""
    source = ModelSource(job.model, job.trust)
    with exits_as_errors(job.model_name), source.opened() as model, folder_kept():
        files = _input_files(job, model)
        planning = _Planner.from_files(job, source, model, files)
        manifest = planning.manifest()
    work = planning.work(manifest)
    facts = (
        ("input", f"{counted(len(files), 'file')} at {job.data}"),
        ("model", model.name),
        ("background", planning.background.description),
    )
    finished = PartHashes(job.out / PARTS, manifest.key)
    words = planning.background.description
    return Plan(job, planning.shards, work, finished, facts, words, tuple(planning.notes))


def explained_sample(plan: Plan) -> Result:
    """Explain a sample of the rows again, for a report."""
    job = plan.job
    work = plan.work
    names = list(dict.fromkeys([*work.columns.schema.names, *work.carried.names]))
    data, numbers = numbered_sample(plan.shards, names, REPORTED_ROWS)
    notes = list(plan.notes)
    if len(data) < plan.rows:
        notes.append(f"the report is about a sample of {len(data):,} of the {plan.rows:,} rows")
    device = device_of(work.devices, worker=0)
    with work.source.opened() as model, folder_kept(), our_warnings_as(notes):
        explainer = Explainer(model.model, **work.options, device=device)
        explanation = explainer(work.columns.frame(data), progress=False, **work.call)
    index = np.array(numbers)
    if job.id_column is not None:
        index = label_array(data[job.id_column].to_pandas())
    return Result(
        explanation=replace(explanation, index=index, index_name=job.id_column),
        data=data,
        model=job.model_name,
        background=plan.background,
        columns=tuple(work.columns.schema.names),
        id_column=job.id_column,
        notes=tuple(notes),
    )


def _input_files(job: Options, model: LoadedModel) -> list[InputFile]:
    """Return the files to explain; those of a CSV file's rows are converted first."""
    if job.data.is_dir():
        paths = [path for path in _all_files(job.data) if _is_data(path, job.data)]
        files = [InputFile.of(path, path) for path in paths]
    elif job.data.suffix.lower() == ".csv":
        files = [_converted(job, model)]
    else:
        files = [InputFile.of(job.data, job.data)]
    files = [file for file in files if sum(file.groups)]
    if not files:
        raise InputError(f"data: there are no rows in the Parquet files of {job.data}")
    return files


def _all_files(folder: Path) -> list[Path]:
    """Return the files in a folder and those below, sorted by path; links to folders count."""
    found = []
    seen = set()  # a link may lead back up, and every folder is read once
    for place, folders, names in os.walk(folder, followlinks=True):
        real = Path(place).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        found += [Path(place, name) for name in names]
    return sorted(found)


def _is_data(path: Path, folder: Path) -> bool:
    """Return whether a file is one of Parquet, and not hidden, as other readers have it."""
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def _converted(job: Options, model: LoadedModel) -> InputFile:
    """Return the rows of a CSV file as a Parquet file in the job's folder."""
    # every time: both the CSV file and a copy of an earlier run may have changed
    path = job.out / CONVERTED
    ids = job.unused_columns(model.columns)
    schema = tables.csv_schema(job.data, text=model.text_columns, ids=ids)
    tables.convert_csv(job.data, schema, path, group_rows=job.shard_rows)
    return InputFile.of(path, job.data)


@dataclass(eq=False)
class _Planner:
    """What is known of a job before its manifest is."""

    job: Options
    source: ModelSource
    model: LoadedModel
    files: Sequence[InputFile]
    shards: list[Shard]
    schema: "pa.Schema"  #: of all columns of the data
    columns: InputColumns  #: that the model is given, before all rows were looked at
    schemas: "list[pa.Schema]"  #: of each file, and of the background's
    background_table: "pa.Table | None"  #: of a file
    background: Background
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_files(
        cls, job: Options, source: ModelSource, model: LoadedModel, files: Sequence[InputFile]
    ) -> "_Planner":
        """Find the columns of the data and the background."""
        schemas = [input_schema(file.path) for file in files]
        schema = common_schema(files, schemas)
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
        if not names:
            raise InputError(f"data: no column of {job.data} is left for the model; drop fewer")
        check_groups(job.groups, names)
        chosen = tables.select(empty, names, job.data)
        file = job.background_option.file
        background = None
        if file is not None:
            background = tables.read_background(file, names, text=model.text_columns)
            schemas.append(background.schema)
        return cls(
            job,
            source,
            model,
            files,
            cut(files, job.shard_rows),
            schema,
            InputColumns.from_schema(chosen.schema, background, _ordered(schemas, names)),
            schemas,
            background,
            background_without_file(job, model.background),
            notes,
        )

    def manifest(self) -> Manifest:
        """Return the manifest of the folder, which is made if there is none."""
        identity = identity_of(self.job, self.files, self.schema)
        path = self.job.out / MANIFEST
        if path.exists():
            manifest = Manifest.load(path)
            manifest.check_same(identity, self.job.out)
            columns = self.columns.settled(manifest.preparation.survey)
            self._check_background(columns, manifest.preparation.background)
            self._set_background(columns)
            self._check_predictions(columns, manifest.preparation.predictions)
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
            call={"budget": job.budget, "tol": job.tol, "interactions": job.interactions},
            columns=self.columns.settled(preparation.survey),
            part_columns=preparation.columns,
            carried=_carried(job, self.schema),
            id_column=job.id_column,
            devices=parse_devices(job.device),
        )

    def _surveyed(self) -> Survey:
        names = category_columns(self.schemas, self.columns, text=self.model.categories)
        return Survey.from_shards(self.shards, self.background_table, self.columns, names)

    def _sample_background(self, columns: InputColumns) -> None:
        """Write the sample of the rows explained whose statistic is the background.

        It stays in the job's folder: a row that can be read only later must not change it.
        """
        from pyarrow import parquet as pq

        if isinstance(self.background.value, str) and self.background_table is None:
            table = sample(self.shards, columns.schema.names, BACKGROUND_ROWS)
            with written_whole(self.job.out / BACKGROUND) as partial:
                pq.write_table(table, partial, write_page_checksum=True)

    def _background_hash(self) -> str | None:
        """Return the hash of the sample whose statistic is the background; None: there is none."""
        path = self.job.out / BACKGROUND
        return file_hash(path) if path.is_file() else None

    def _check_background(self, columns: InputColumns, known: str | None) -> None:
        """Make the sample again if its file has changed; raise if it does not come out the same."""
        if known is None or self._background_hash() == known:
            return
        self._sample_background(columns)
        if self._background_hash() != known:
            raise InputError(
                f"out: {self.job.out / BACKGROUND} is damaged or was replaced, and the rows of the "
                "data do not give the same again; choose another folder"
            )

    def _predictions(self, columns: InputColumns) -> dict[str, list[float]]:
        """Return what the model predicts for a few rows, by the rows' numbers.

        Each row is asked for whole, without any player, and without some of them: other models may
        agree on the rows of the data, and not on such mixed rows, which decide the values.
        """
        table, numbers = numbered_sample(self.shards, columns.schema.names, PREDICTED_ROWS)
        frame = columns.frame(table)
        frame.index = numbers
        options = self._options(None)
        for name in ("method", "output_names", "seed"):  # which only explanations have
            del options[name]
        names = self.job.output_names
        if names:
            wanted = [
                str(names.index(each)) if each in names else each for each in self.job.outputs
            ]
            options["output"] = chosen_output(wanted, ())
        device = device_of(parse_devices(self.job.device), worker=0)

        def predict(frame: Any) -> Any:
            with model_game(self.model.model, frame, device=device, **options) as game:
                half = np.random.default_rng(0).random((PREDICTED_COALITIONS, game.players)) < 0.5
                half[:2] = [[False], [True]]
                values = game(torch.from_numpy(half)[None].to(game.device))
            return values.flatten(1).tolist()

        with our_warnings_as(self.notes), errors_with_files(self.job.data, self.background):
            values, frame = _on_sound_rows(predict, frame)
        step = -(-len(values) * len(values[0]) // MAX_PREDICTIONS)
        return {
            str(row): each for row, each in zip(frame.index[::step], values[::step], strict=True)
        }

    def _check_predictions(self, columns: InputColumns, known: Mapping[str, list[float]]) -> None:
        """Raise if the model does not predict what it did when the job began."""
        now = self._predictions(columns)
        rows = [row for row in now if row in known]
        before = np.array([known[row] for row in rows])
        after = np.array([now[row] for row in rows])
        scale = np.abs(before).max(initial=0.0)
        if before.shape == after.shape and np.allclose(
            after, before, rtol=0, atol=ROUNDING * scale
        ):
            return
        raise InputError(
            f"out: {self.job.out} holds a job with another model: its predictions for the same "
            "rows were different; choose another folder, or the same model as before (a model "
            "whose predictions change from call to call cannot be explained in several runs)"
        )

    def _set_background(self, columns: InputColumns) -> None:
        """Read the background's rows: of its file, or of the sample of the rows explained."""
        job = self.job
        if self.background_table is not None:
            option = job.background_option
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
        method = _calibrated(self.job.method, calibration)
        return explainer_options(
            self.job, self.background.value, self.model.outputs, calibrated=method
        )

    def _prepared(self, columns: InputColumns, survey: Survey) -> Preparation:
        """Explain a sample, which shows the columns of the parts, and fit the calibration to it."""
        job = self.job
        fitted = hasattr(METHODS.get(cast(str, job.method), job.method), "calibration")
        count = CALIBRATED_ROWS if fitted else TRIED_ROWS
        frame = columns.frame(sample(self.shards, columns.schema.names, count))
        devices = parse_devices(job.device)
        explainer = Explainer(
            self.model.model, **self._options(None), device=device_of(devices, worker=0)
        )

        def explain(frame: Any) -> Explanation:
            return explainer(frame, budget=job.budget, tol=job.tol, progress=False)

        with our_warnings_as(self.notes), errors_with_files(job.data, self.background):
            explanation, _ = _on_sound_rows(explain, frame)
        table = explanation.to_frame("pyarrow", wide=True)
        part_columns = tuple((each.name, str(each.type)) for each in list(table.schema)[1:])
        return Preparation(
            part_columns,
            survey,
            cast(Any, explanation.calibration),
            self._background_hash(),
            self._predictions(columns),
        )


def _on_sound_rows(call: Callable[[Any], Answer], frame: Any) -> tuple[Answer, Any]:
    """Call a function of a sample, without the few rows that the model fails on.

    Return what it returns, and the rows that are left. The shards of the others report them.
    """
    for _ in range(FAILING_ROWS):
        try:
            return call(frame), frame
        except ModelError as error:
            if error.row is None or len(frame) == 1:
                raise
            frame = frame.drop(index=frame.index[error.row])
    return call(frame), frame


def _calibrated(method: str | Method, calibration: Any) -> str | Method:
    """Return a method with a calibration, if it takes one and has none."""
    instance = METHODS.get(method) if isinstance(method, str) else method
    if calibration is None or getattr(instance, "calibration", calibration) is not None:
        return method
    return cast(Method, replace(cast(Any, instance), calibration=calibration))


def _ordered(schemas: "Sequence[pa.Schema]", names: Sequence[str]) -> list[str]:
    """Return the columns of the model whose categories are ordered in every file."""
    import pyarrow as pa

    chosen = [pa.schema([schema.field(name) for name in names]) for schema in schemas]
    return ordered_columns(chosen)


def _carried(job: Options, schema: "pa.Schema") -> "pa.Schema":
    """Return the columns of the data that go into the parts."""
    import pyarrow as pa

    names = schema.names if job.keep is None else list(dict.fromkeys(job.keep))
    for name in names:
        _check_there("keep", name, schema, job.data)
    if job.id_column is not None and job.id_column not in names:
        names = [job.id_column, *names]
    return pa.schema([schema.field(name) for name in names])


def _check_there(option: str, name: str, schema: "pa.Schema", data: Path) -> None:
    if name not in schema.names:
        raise InputError(f"{option}: {no_such('column', name, schema.names, where=data)}")
