"""From a job to its plan: the files are read, and what all shards share is found out once.

A file is one shard. The shards of a folder of parts also share a background, a calibration and the
columns of the parts. Those come from a fixed sample of the rows and are kept in the manifest, so
that values depend neither on the number of workers nor on which of them explained what.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet as pq

from shearshap.data.background import (
    DEFAULT_ROWS,
    STATISTICS,
    ParsedBackground,
    Selection,
    is_default,
    parse_background,
    starts_with_name,
)
from shearshap.errors import InputError, ModelError, collect_warnings
from shearshap.explainer import Explainer
from shearshap.jobs import tables
from shearshap.jobs.manifest import MANIFEST, PARTS, Manifest, PartHashes, Preparation, identity_of
from shearshap.jobs.models import LoadedModel, ModelSource, exits_as_errors, restore_cwd
from shearshap.jobs.options import (
    Background,
    BackgroundOption,
    Options,
    chosen_output,
    device_of,
    errors_with_files,
    parse_devices,
)
from shearshap.jobs.shards import (
    InputColumns,
    InputFile,
    Shard,
    Survey,
    common_schema,
    cut,
    sample,
    survey,
    unified,
)
from shearshap.jobs.work import INTERACTIONS, ShardWork
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap.result.calibration import Calibration
from shearshap.result.explanation import Explanation
from shearshap.result.text import no_such
from shearshap.store import written_whole
from shearshap.trees.model import has_trees
from shearshap.trees.solver import COVERS, METHOD

CONVERTED = "_input.parquet"  #: the rows of a CSV file, until the job is done
BACKGROUND = "_background.parquet"  #: rows explained, of which a sample is the background

CALIBRATED_ROWS = 256  #: rows of the sample that a calibration is fitted to
TRIED_ROWS = 16  #: rows that a method without a calibration is tried on
BACKGROUND_ROWS = 8192  #: rows explained at most to draw a background from, if the user names none
FAILING_ROWS = 8  #: rows of the sample that the model may fail on
PREDICTED_ROWS = 64  #: rows whose predictions identify a model
PREDICTED_COALITIONS = 8  #: for each of them: no player, all players, and random halves
MAX_PREDICTIONS = 1 << 16  #: numbers that the manifest keeps of them
ROUNDING = 1e-5  #: by which predictions may differ on other machines, relative to the largest

Answer = TypeVar("Answer")


@dataclass(eq=False)
class Plan:
    """A job's files, read, its shards, and the work on them.

    `make_plan` fills all fields; `open_files` leaves out the work and the parts that are finished.
    """

    job: Options
    model: LoadedModel
    files: Sequence[InputFile]
    shards: list[Shard]
    schema: pa.Schema  #: of all columns of the data
    carried: pa.Schema  #: of the columns that are written beside the values, and of the ids
    columns: InputColumns  #: that the model is given
    background_file: InputFile | None
    notes: list[str]
    background: Background = field(init=False)  #: once the types of columns are settled
    work: ShardWork = field(init=False)
    finished: PartHashes = field(init=False)  #: of a folder

    @property
    def rows(self) -> int:
        """All rows of the job."""
        return sum(shard.rows for shard in self.shards)

    @property
    def data(self) -> pa.Table:
        """All rows and columns of a job that writes a file."""
        (shard,) = self.shards
        assert shard.table is not None
        return shard.table.select(self.schema.names)

    @property
    def frame(self) -> Any:
        """The rows of a job that writes a file, as the model is given them."""
        return self.columns.frame(self.data)

    def survey(self) -> Survey:
        """Look at all cells on which the types of columns depend."""
        files = [*self.files, self.background_file]
        return survey([file for file in files if file is not None], self.columns)

    def settle(self, found: Survey) -> None:
        """Settle the types of columns, and with them the background."""
        self.columns = self.columns.settled(found)
        self.background = _background(self)

    def explainer_options(self, calibration: Any = None) -> dict[str, Any]:
        """Return the options of the `Explainer`, but for its model and device."""
        job = self.job
        names = job.output_names
        return {
            "background": _shared(self.background) if job.large else self.background.value,
            "method": _calibrated(job.method, calibration),
            "groups": dict(job.groups) or None,
            "output": chosen_output(job.outputs, names or self.model.outputs),
            "output_names": names or None,
            "batch_size": job.batch_size or "auto",
            "scale": job.scale,
            "returns": job.returns,
            "multilabel": job.multilabel,
            "seed": job.seed,
            "semivalue": job.semivalue,
            "loss": job.loss,
        }

    def explainer(self) -> Explainer:
        """Return the explainer with the job's options."""
        device = device_of(parse_devices(self.job.device), worker=0)
        return Explainer(self.model.model, **self.explainer_options(), device=device)

    def is_done(self, shard: Shard) -> bool:
        """Return whether the files of a shard are there, as this job has written them."""
        names = [shard.name]
        if self.job.interactions:
            names.append(f"{INTERACTIONS}/{shard.name}")
        return all(self.finished.is_done(name) for name in names)


def make_plan(job: Options, source: ModelSource) -> Plan:
    """Open a job's model and files, read or make the manifest of a folder, and return the plan."""
    call: dict[str, Any] = {
        "budget": job.budget,
        "tol": job.tol,
        "deadline": job.deadline,
        "interactions": job.interactions,
        "interaction_index": job.interaction_index,
    }
    with exits_as_errors(job.model_name), restore_cwd():
        plan = open_files(job, source.open())
        Explainer(None, method=job.method, semivalue=job.semivalue).run(**call)  # checks them
        manifest = _manifest(plan) if job.large else None

    calibration = None
    if manifest is not None and manifest.preparation.calibration is not None:
        calibration = Calibration.from_dict(manifest.preparation.calibration)
    plan.work = ShardWork(
        source=source,
        options=plan.explainer_options(calibration),
        call=call,
        columns=plan.columns,
        carried=plan.carried,
        id_column=job.id_column,
        label=job.label,
        devices=parse_devices(job.device),
    )
    if manifest is not None:
        parts = dict(manifest.preparation.columns)
        plan.work = replace(plan.work, out=job.out, key=manifest.key, part_columns=parts)
        plan.finished = PartHashes(job.out / PARTS, manifest.key)
    return plan


# The files


def open_files(job: Options, model: LoadedModel) -> Plan:
    """Read a job's files, and find out which of their columns the model is given."""
    files = _input_files(job, model)
    schema = common_schema(files)
    notes = []
    if len(schema) > 1 and not schema.names[0]:
        schema = schema.remove(0)
        notes.append(
            f"the first column of {job.data} has no name, like a saved pandas index, and is left "
            "out"
        )
    chosen = _model_schema(job, model, schema)
    background_file = None
    with_background = list(files)
    file = job.background_option.file
    if file is not None:
        table = tables.read_background(file, chosen.names, text=model.text_columns)
        background_file = InputFile.from_table(table, file)
        with_background.append(background_file)
        chosen = unified([chosen, background_file.schema], "data and background")

    table = files[0].table
    plan = Plan(
        job,
        model,
        files,
        cut(files, job.shard_rows if table is None else len(table)),
        schema,
        _carried(job, schema if table is None else table.select(schema.names).schema),
        InputColumns.from_files(chosen, with_background, text=model.categories),
        background_file,
        notes,
    )
    if table is not None:
        tables.check_columns(plan.carried, job.out)
        plan.settle(plan.survey())
        _add_notes(plan)
    return plan


def _background(plan: Plan) -> Background:
    """Return the background: rows of a file, an object, the model's own row, or a sample."""
    job = plan.job
    option = job.background_option
    if plan.background_file is not None:
        rows = plan.columns.frame(plan.background_file.table)
        return Background(option.of_rows(rows), option.words(len(rows)), option.file)
    if job.background is not None:
        return Background(job.background, _words_of(job.background))
    if plan.model.background is not None:
        return Background(plan.model.background, "the model's background, from its training rows")
    return _own_sample(plan, None if job.large else plan.frame)


def _words_of(background: Any) -> str:
    """Return a background that was passed from Python in words."""
    if starts_with_name(background) and len(background) > 1:
        name, rows, *count = background
        return BackgroundOption(name, count=count[0] if count else None).words(len(rows))
    return f"a {type(background).__name__}"


def _shared(background: Background) -> Any:
    """Return the background of all shards; of a statistic, without notes on a shard's rows."""
    value = background.value
    if not starts_with_name(value) or value[0] not in STATISTICS:
        return value
    return replace(parse_background(value), chosen=Selection(None, background.description))


def _own_sample(plan: Plan, rows: Any) -> Background:
    """Return a sample of rows explained, since no background was named; None: not yet read."""
    count = plan.rows
    if count == 1:
        if has_trees(plan.model.model):
            return Background(None, "the row explained", plan.job.data)
        raise InputError(
            "Background data is missing. Pass rows to compare with, for example --background "
            "sample:train.csv."
        )
    words = f"the {count:,} rows explained"
    if count > DEFAULT_ROWS:
        words = f"{DEFAULT_ROWS} of {words}"
    note = (
        f"No background was given, so features are compared with {words}. Pass --background "
        "sample:train.csv to choose."
    )
    value = None
    if rows is not None:
        value = ParsedBackground("sample", rows, seed=plan.job.seed, is_default=True, note=note)
    shown = f"{words}, drawn at random" if count > DEFAULT_ROWS else words
    return Background(value, shown, plan.job.data)


def described(background: Background, explanation: Explanation) -> Background:
    """Return a background in the words of what was explained: trees may have needed none."""
    if is_default(background.value) and explanation.method == METHOD:
        return replace(background, description=COVERS)
    return background


def _add_notes(plan: Plan) -> None:
    """Add notes on what may be wrong in the files of a job that writes a file."""
    model = plan.model
    # what the model calls text is text
    names = [name for name in plan.columns.schema.names if name not in model.text_columns]
    data = plan.job.data
    plan.notes += tables.notes(data, plan.data, names)
    file = plan.background_file
    if file is not None and file.path != data:
        plan.notes += tables.notes(file.path, file.table, names)
    if hasattr(model.model, "unseen"):
        plan.notes += model.model.unseen(plan.frame)


def _model_schema(job: Options, model: LoadedModel, schema: pa.Schema) -> pa.Schema:
    """Return the columns to give to the model: those of its training, or else all not dropped."""
    names = schema.names
    _check_columns(job, model, names)
    empty = schema.empty_table()
    if model.columns:
        chosen = tables.matching_columns(empty, model.columns, f"data: {job.data}")
    else:
        chosen = [name for name in names if name not in job.unseen_columns]
    if "" in chosen:
        raise InputError(
            f"data: column {names.index('') + 1} of {job.data} has no name; give it one, or leave "
            "it out with --drop ''"
        )
    if not chosen:
        raise InputError(f"data: no column of {job.data} is left for the model; drop fewer")
    return tables.select(empty, chosen, job.data).schema


def _check_columns(job: Options, model: LoadedModel, names: Sequence[str]) -> None:
    """Raise if a column that an option names is not there, or is one that the model takes."""
    if (job.loss is None) != (job.label is None):
        raise InputError(
            f"loss: expected both a loss and a label, or neither; got loss {job.loss!r} and "
            f"label {job.label!r}"
        )
    options = {"id": [job.id_column], "label": [job.label], "keep": job.keep, "drop": job.drop}
    for option, wanted in options.items():
        for name in wanted or ():
            if name is not None and name not in names:
                raise InputError(f"{option}: {no_such('column', name, names, where=job.data)}")
    for option in ("drop", "label"):
        for name in options[option] or ():
            if name in model.columns:
                raise InputError(
                    f"{option}: expected a column that the model does not use, got {name!r}"
                )


def _carried(job: Options, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the data that are written beside the values, and that of the ids."""
    names = schema.names if job.keep is None else list(dict.fromkeys(job.keep))
    if job.id_column is not None and job.id_column not in names:
        names = [job.id_column, *names]
    return pa.schema([schema.field(name) for name in names])


def _input_files(job: Options, model: LoadedModel) -> list[InputFile]:
    """Return the files to explain: one that is read, or those of a folder, not yet read."""
    # columns named that the model does not take are ids, whose digits matter
    ids = {*job.unseen_columns} - {*model.columns, job.label}
    if not job.large:
        table = tables.read(job.data, "data", text=model.text_columns, ids=ids)
        return [InputFile.from_table(table, job.data)]
    if job.data.is_dir():
        files = [InputFile.from_parquet(path, path) for path in _parquet_files(job.data)]
    elif job.data.suffix.lower() == ".csv":
        # every time: both the CSV file and a copy of an earlier run may have changed
        path = job.out / CONVERTED
        text = model.text_columns
        tables.convert_csv(job.data, path, text=text, ids=ids, group_rows=job.shard_rows)
        files = [InputFile.from_parquet(path, job.data)]
    else:
        files = [InputFile.from_parquet(job.data, job.data)]
    files = [file for file in files if sum(file.groups)]
    if not files:
        raise InputError(f"data: the Parquet files in {job.data} have no rows")
    return files


def _parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below, sorted by path; links to folders count.

    Hidden files and folders are left out, as by other readers.
    """
    found = []
    seen = set()  # a link may lead back up, and every folder is read once
    for place, folders, names in os.walk(folder, followlinks=True):
        real = Path(place).resolve()
        is_new = real not in seen
        seen.add(real)
        folders[:] = sorted(name for name in folders if is_new and name[0] not in "._")
        paths = [Path(place, name) for name in names if is_new and name[0] not in "._"]
        found += [path for path in paths if path.suffix.lower() in (".parquet", ".pq")]
    return sorted(found)


def _calibrated(method: str | Method, calibration: Any) -> str | Method:
    """Return a method with a calibration, if it takes one and has none."""
    instance = METHODS.get(method) if isinstance(method, str) else method
    if calibration is None or getattr(instance, "calibration", calibration) is not None:
        return method
    return cast(Method, replace(cast(Any, instance), calibration=calibration))


# What the shards of a folder share


def _manifest(plan: Plan) -> Manifest:
    """Return the manifest of the folder, which is made if there is none."""
    job = plan.job
    identity = identity_of(job, plan.files, plan.schema)
    path = job.out / MANIFEST
    if path.exists():
        manifest = Manifest.load(path)
        manifest.check_same(identity, job.out)
        preparation = manifest.preparation
        plan.settle(Survey(tuple(preparation.gaps), preparation.categories))
        _sample_background(plan, is_new=False)
        plan.background = replace(plan.background, description=preparation.background)
        _check_predictions(plan, preparation.predictions)
        return manifest

    found = plan.survey()
    plan.settle(found)
    _sample_background(plan, is_new=True)
    manifest = Manifest(identity, _prepared(plan, found))
    manifest.save(path)
    return manifest


def _prepared(plan: Plan, found: Survey) -> Preparation:
    """Explain a sample, which shows the columns of the parts, and fit the calibration to it."""
    job = plan.job
    fitted = hasattr(METHODS.get(cast(str, job.method), job.method), "calibration")
    count = CALIBRATED_ROWS if fitted else TRIED_ROWS
    labels = [] if job.label is None else [job.label]
    rows, _ = sample(plan.shards, [*plan.columns.schema.names, *labels], count)
    explainer = plan.explainer()

    def explain(frame: Any) -> Explanation:
        y = None if job.label is None else rows[job.label].to_pandas()[frame.index]
        return explainer(frame, budget=job.budget, tol=job.tol, y=y, progress=False)

    with collect_warnings(plan.notes), errors_with_files(job.data, plan.background):
        explanation, _ = _on_sound_rows(explain, plan.columns.frame(rows))
    plan.notes += [note for note in explanation.notes if note not in plan.notes]
    plan.background = described(plan.background, explanation)
    table = explanation.to_frame("pyarrow", wide=True)
    calibration = explanation.calibration
    return Preparation(
        columns=[[each.name, str(each.type)] for each in list(table.schema)[1:]],
        gaps=list(found.gaps),
        categories=found.categories,
        calibration=None if calibration is None else calibration.to_dict(),
        predictions=_predictions(plan),
        background=plan.background.description,
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


def _sample_background(plan: Plan, *, is_new: bool) -> None:
    """Read the rows of which the background is a sample, if the user named none.

    They stay in the job's folder: a row that can be read only later must not change the background.
    """
    if plan.background.value is not None:
        return
    path = plan.job.out / BACKGROUND
    if is_new:
        table, _ = sample(plan.shards, plan.columns.schema.names, BACKGROUND_ROWS)
        with written_whole(path) as partial:
            pq.write_table(table, partial, write_page_checksum=True)
    plan.background = _own_sample(plan, plan.columns.frame(tables.read(path, "out")))


# Predictions that identify a model


def _predictions(plan: Plan) -> dict[str, list[float]]:
    """Return what the model predicts for a few rows, by the rows' numbers.

    Each row is asked for whole, without any player, and without some of them: other models may
    agree on the rows of the data, and not on such mixed rows, which decide the values. They depend
    on the background, too, so that one that was replaced is noticed.
    """
    job = plan.job
    table, numbers = sample(plan.shards, plan.columns.schema.names, PREDICTED_ROWS)
    frame = plan.columns.frame(table)
    frame.index = numbers
    explainer = replace(plan.explainer(), loss=None)

    def predict(frame: Any) -> Any:
        with explainer.game(frame) as game:
            half = np.random.default_rng(0).random((PREDICTED_COALITIONS, game.players)) < 0.5
            half[:2] = [[False], [True]]
            values = game(torch.from_numpy(half)[None].to(game.device))
        return values.flatten(1).tolist()

    with collect_warnings(plan.notes), errors_with_files(job.data, plan.background):
        values, frame = _on_sound_rows(predict, frame)
    step = -(-len(values) * len(values[0]) // MAX_PREDICTIONS)
    return {str(row): each for row, each in zip(frame.index[::step], values[::step], strict=True)}


def _check_predictions(plan: Plan, known: Mapping[str, list[float]]) -> None:
    """Raise if the model does not predict what it did when the job began."""
    now = _predictions(plan)
    rows = [row for row in now if row in known]
    before = np.array([known[row] for row in rows])
    after = np.array([now[row] for row in rows])
    margin = ROUNDING * np.abs(before).max(initial=0.0)
    if before.shape == after.shape and np.allclose(after, before, rtol=0, atol=margin):
        return
    raise InputError(
        f"out: {plan.job.out} holds a job with another model or background: its predictions for "
        "the same rows were different; choose another folder, or the same model as before (a model "
        "whose predictions change from call to call cannot be explained in several runs)"
    )
