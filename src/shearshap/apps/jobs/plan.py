"""From a job to its plan: the files are read, and what all shards share is found out once.

A file is one shard. The shards of a folder of parts also share a background, a calibration and the
columns of the parts. Those come from a fixed sample of the rows and are kept in the manifest, so
that values depend neither on the number of workers nor on which of them explained what.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet as pq

from shearshap.apps.jobs import tables
from shearshap.apps.jobs.columns import InputColumns, Survey, common_schema, survey, unified
from shearshap.apps.jobs.manifest import MANIFEST, Manifest, Preparation, Run, identity_of
from shearshap.apps.jobs.models import LoadedModel, ModelSource, exits_as_errors, restore_cwd
from shearshap.apps.jobs.options import (
    Background,
    BackgroundOption,
    Options,
    chosen_output,
    device_of,
    errors_with_files,
    parse_devices,
)
from shearshap.apps.jobs.places import exists, files_below, is_folder, written_whole
from shearshap.apps.jobs.shards import InputFile, Shard, cut, in_parallel, sample, shard_sizes
from shearshap.apps.jobs.work import ShardWork
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
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap.result.calibration import Calibration
from shearshap.result.explanation import Explanation
from shearshap.result.text import no_such
from shearshap.trees.model import has_trees
from shearshap.trees.solver import COVERS, METHOD

CONVERTED = "_input-{}.parquet"  #: the rows of a CSV file, until the run ends, with its word
BACKGROUND = "_background.parquet"  #: rows explained, of which a sample is the background

CALIBRATED_ROWS = 256  #: rows of the sample that a calibration is fitted to
TRIED_ROWS = 16  #: rows that a method without a calibration is tried on
CHECKED_ROWS = 2  #: rows whose interactions show whether the options can be combined
BACKGROUND_ROWS = 8192  #: rows explained at most to draw a background from, if the user names none
FAILING_ROWS = 8  #: rows of the sample that the model may fail on
PREDICTED_ROWS = 64  #: rows whose predictions identify a model
PREDICTED_COALITIONS = 8  #: for each of them: no player, all players, and random halves
MAX_PREDICTIONS = 1 << 16  #: numbers that the manifest keeps of them
ROUNDING = 1e-5  #: by which predictions may differ on other machines, relative to a row's largest

Answer = TypeVar("Answer")
Bar = Callable[[int], Any]  #: makes a tqdm bar for a number of rows


@dataclass(eq=False)
class Plan:
    """A job's files, read, its shards, and the work on them.

    `make_plan` fills all fields; `open_files` leaves out the work.
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

    @property
    def read(self) -> pa.Schema:
        """The columns of the data that are read: for the model, to be written, and the labels."""
        labels = () if self.job.label is None else (self.job.label,)
        names = dict.fromkeys((*self.columns.schema.names, *self.carried.names, *labels))
        schema = self.schema if self.job.large else self.data.schema
        return pa.schema([schema.field(name) for name in names])

    def survey(self, seen: Callable[[int], object] | None = None) -> Survey:
        """Look at all cells on which the types of columns depend; hash those of a large job."""
        read = self.read if self.job.large else pa.schema([])
        found = survey(self.shards, self.columns, read, self.carried.names, seen)
        if self.background_file is None:
            return found
        return found.beside(self._background_survey(), self.columns)

    @property
    def background_hash(self) -> str | None:
        """The hash of the background's rows, if they are of a file."""
        return None if self.background_file is None else self._background_survey().hashes[0]

    def _background_survey(self) -> Survey:
        assert self.background_file is not None
        table = self.background_file.table
        assert table is not None
        schema = table.select(self.columns.schema.names).schema
        return survey([Shard.from_table(table)], self.columns, schema, ())

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


def make_plan(
    job: Options, source: ModelSource, run: Run | None = None, *, bar: Bar | None = None
) -> Plan:
    """Open a job's model and files, read or make the manifest of a folder, and return the plan.

    A large job has a run, and shows with a bar how far it has read the rows.
    """
    call: dict[str, Any] = {
        "budget": job.budget,
        "tol": job.tol,
        "deadline": job.deadline,
        "interactions": job.interactions,
        "interaction_index": job.interaction_index,
    }
    with exits_as_errors(job.model_name), restore_cwd():
        plan = open_files(job, source.open(), run)
        Explainer(None, method=job.method, semivalue=job.semivalue).run(**call)  # checks them
        manifest = None if run is None or bar is None else _manifest(plan, bar)

    calibration = None
    if manifest is not None and manifest.preparation.calibration is not None:
        calibration = Calibration.from_dict(manifest.preparation.calibration)
    plan.work = ShardWork(
        source=replace(source, helpers=plan.model.helpers),
        options=plan.explainer_options(calibration),
        call=call,
        columns=plan.columns,
        read=plan.read,
        carried=plan.carried,
        id_column=job.id_column,
        label=job.label,
        devices=parse_devices(job.device),
        model_hash=plan.model.hash,
    )
    if manifest is not None:
        parts = dict(manifest.preparation.columns)
        plan.work = replace(plan.work, out=job.out, run=run, key=manifest.key, part_columns=parts)
    return plan


# The files


def open_files(job: Options, model: LoadedModel, run: Run | None = None) -> Plan:
    """Read a job's files, and find out which of their columns the model is given."""
    files = _input_files(job, model, run)
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
        [Shard.from_table(table)] if table is not None else _shards(job, files),
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


def _input_files(job: Options, model: LoadedModel, run: Run | None) -> list[InputFile]:
    """Return the files to explain: one that is read, or those of a folder, not yet read."""
    # columns named that the model does not take are ids, whose digits matter
    ids = {*job.unseen_columns} - {*model.columns, job.label}
    if run is None:
        table = tables.read(job.data, "data", text=model.text_columns, ids=ids)
        return [InputFile.from_table(table, job.data)]
    if is_folder(job.data):
        places = [place for place, _ in files_below(job.data, (".parquet", ".pq"))]
        files = list(in_parallel(lambda place: InputFile.from_parquet(place, place), places))
    elif job.data.suffix.lower() == ".csv":
        # every time: both the CSV file and a copy of an earlier run may have changed
        path = job.out / CONVERTED.format(run.word)
        text = model.text_columns
        tables.convert_csv(job.data, path, text=text, ids=ids, group_rows=job.shard_rows)
        files = [InputFile.from_parquet(path, job.data)]
    else:
        files = [InputFile.from_parquet(job.data, job.data)]
    files = [file for file in files if sum(file.groups)]
    if not files:
        raise InputError(f"data: the Parquet files in {job.data} have no rows")
    return files


def _shards(job: Options, files: Sequence[InputFile]) -> list[Shard]:
    """Return the shards of a large job: as its manifest has them, or new ones."""
    path = job.out / MANIFEST
    if not exists(path):
        return cut(files, shard_sizes(files, job.shard_rows))
    manifest = Manifest.load(path)
    manifest.check_count(sum(sum(file.groups) for file in files), job.out)
    return cut(files, manifest.sizes)


def _calibrated(method: str | Method, calibration: Any) -> str | Method:
    """Return a method with a calibration, if it takes one and has none."""
    instance = METHODS.get(method) if isinstance(method, str) else method
    if calibration is None or getattr(instance, "calibration", calibration) is not None:
        return method
    return cast(Method, replace(cast(Any, instance), calibration=calibration))


# What the shards of a folder share


def _manifest(plan: Plan, bar: Bar) -> Manifest:
    """Return the manifest of the folder, which is made if there is none, after a look at all rows.

    Of a manifest that is there, the rows must be those of now.
    """
    job = plan.job
    path = job.out / MANIFEST
    with bar(plan.rows) as shown:
        found = plan.survey(shown.update)
    pairs = zip(plan.shards, found.hashes, strict=True)
    plan.shards = [replace(shard, hash=known) for shard, known in pairs]
    identity = identity_of(job, plan.read, model=plan.model.hash, background=plan.background_hash)
    if not exists(path):
        plan.settle(found)
        sampled = _sample_background(plan)
        rows = [(shard.rows, shard.hash) for shard in plan.shards]
        manifest = Manifest(identity, _prepared(plan, found), rows)
        manifest.save(path)
        _keep_background(plan, sampled)
        return manifest

    manifest = Manifest.load(path)
    manifest.check_same(identity, plan.shards, job.out)
    preparation = manifest.preparation
    plan.settle(Survey(tuple(preparation.gaps), preparation.categories))
    sampled = _sample_background(plan)
    plan.background = replace(plan.background, description=preparation.background)
    _check_predictions(plan, preparation.predictions)
    _keep_background(plan, sampled)
    known = [
        (shard.rows, shard.hash or before)  # some can be read that could not
        for shard, (_, before) in zip(plan.shards, manifest.rows, strict=True)
    ]
    if known != manifest.rows:
        manifest = replace(manifest, rows=known)
        manifest.save(path)
    return manifest


def _prepared(plan: Plan, found: Survey) -> Preparation:
    """Explain a sample, which shows the columns of the parts, and fit the calibration to it."""
    job = plan.job
    fitted = hasattr(METHODS.get(cast(str, job.method), job.method), "calibration")
    count = CALIBRATED_ROWS if fitted else TRIED_ROWS
    labels = [] if job.label is None else [job.label]
    schema = pa.schema([*plan.columns.schema, *map(plan.read.field, labels)])
    rows, _ = sample(plan.shards, schema, count)
    explainer = plan.explainer()

    def explain(frame: Any, **more: Any) -> Explanation:
        y = None if job.label is None else rows[job.label].to_pandas()[frame.index]
        return explainer(frame, budget=job.budget, tol=job.tol, y=y, progress=False, **more)

    frame = plan.columns.frame(rows)
    if job.interactions:  # what cannot be combined with them is refused now, and not by each shard
        of_pairs = {
            "interactions": job.interactions,
            "interaction_index": job.interaction_index,
        }
        with collect_warnings([]), suppress(ModelError):
            explain(frame[:CHECKED_ROWS], **of_pairs)
    with collect_warnings(plan.notes), errors_with_files(job.data, plan.background):
        explanation, _ = _on_sound_rows(explain, frame)
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


def _sample_background(plan: Plan) -> pa.Table | None:
    """Read the rows of which the background is a sample, if the user named none.

    Return those that are not yet in the job's folder, where they must stay: a row that can be read
    only later must not change the background.
    """
    if plan.background.value is not None:
        return None
    path = plan.job.out / BACKGROUND
    new = None
    if exists(path):
        table = tables.read(path, "out")
    else:
        new = table = sample(plan.shards, plan.columns.schema, BACKGROUND_ROWS)[0]
    plan.background = _own_sample(plan, plan.columns.frame(table))
    return new


def _keep_background(plan: Plan, table: pa.Table | None) -> None:
    if table is not None:
        with written_whole(plan.job.out / BACKGROUND) as partial:
            pq.write_table(table, partial, write_page_checksum=True)


# Predictions that identify a model


def _predictions(plan: Plan) -> dict[str, list[float]]:
    """Return what the model predicts for a few rows, by the rows' numbers.

    Each row is asked for whole, without any player, and without some of them: other models may
    agree on the rows of the data, and not on such mixed rows, which decide the values. They depend
    on the background, too, so that one that was replaced is noticed.
    """
    job = plan.job
    table, numbers = sample(plan.shards, plan.columns.schema, PREDICTED_ROWS)
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
    if before.shape == after.shape:
        # each row has a margin of its own: large predictions must not hide changes of others
        sizes = np.abs(before).max(axis=1, keepdims=True, initial=0.0)
        margins = ROUNDING * np.maximum(sizes, np.median(sizes))
        if (np.abs(after - before) <= margins).all():
            return
    raise InputError(
        f"out: {plan.job.out} holds a job with another model or background: its predictions for "
        "the same rows were different; choose another folder, or the same model as before (a model "
        "whose predictions change from call to call cannot be explained in several runs)"
    )
