"""What a large job is: files of rows, a model, options, and all that its values depend on."""

import inspect
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from shearshap import __version__
from shearshap.errors import InputError
from shearshap.jobs.background_option import BackgroundOption
from shearshap.jobs.manifest import file_hash, hash_of
from shearshap.jobs.models import FolderOpener, model_files
from shearshap.jobs.shards import SHARD_ROWS, InputFile
from shearshap.jobs.work import AUTO
from shearshap.methods.base import Method

if TYPE_CHECKING:
    import pyarrow as pa


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
        The folder of the parts, which is created if it is missing. It must be empty, or hold the
        same job, which is then continued.
    background
        As in `Job`: a file of rows, "mean" or another statistic, or of a file, "mean:FILE". A bare
        statistic is that of a sample of up to 8,192 of the rows explained. Anything else is taken
        as an `Explainer` takes it.
    output_names, groups
        As in `Job`.
    drop
        Columns that are no input of the model.
    id_column
        The column that labels the rows, and that the model does not see; None: they are numbered.
    keep
        Columns of the data that go into the parts; None: all.
    trust
        Whether to open pickles, which run whatever code is in them.
    device
        Devices that the workers are distributed over: "cuda:0,cuda:1", or "auto" for all GPUs;
        None: where the model is.
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
    output_names: tuple[str, ...] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scale: str | None = None
    returns: str | None = None
    multilabel: bool | None = None
    drop: tuple[str, ...] = ()
    id_column: str | None = None
    keep: tuple[str, ...] | None = None
    seed: int = 0
    tol: float | None = None
    batch_size: int | None = None
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


def devices_of(text: str | None) -> tuple[str, ...]:
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


def identity_of(job: LargeJob, files: Sequence[InputFile], schema: "pa.Schema") -> dict[str, Any]:
    """Return all that the values depend on, as JSON can hold it."""
    named = {"output_names": list(job.output_names), "groups": job.groups}
    return {
        # only those that were given, so that folders of jobs without them stay the same
        **{name: option for name, option in named.items() if option},
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
    """Return a hash of the content of a model's files; of a model in memory, of what it is.

    Its pickle would not do: of a torch module or a set it differs from process to process. What
    such a model is told by are its predictions, which the manifest keeps too.
    """
    if not isinstance(model, str):
        _pickled(model, "model")  # to raise here, and not in a worker
        return hash_of(f"{_name(model)} {_source(model)}".encode())
    path = Path(model)
    files = model_files(model)
    if path.is_dir():
        text = [f"{file.relative_to(path).as_posix()} {file_hash(file)}" for file in files]
        return hash_of("\n".join(text).encode())
    module, _, name = model.rpartition(":")
    if not files:
        origin = Path(getattr(find_spec(module), "origin", None) or "")
        files = [origin] if origin.is_file() else []
    content = " ".join(file_hash(file) for file in files) or module
    return hash_of(f"{content} {'' if path.is_file() else name}".encode())


def _name(model: Any) -> str:
    return str(getattr(model, "__qualname__", type(model).__qualname__))


def _source(model: Any) -> str:
    """Return the source of a function, if it can be had."""
    try:
        return inspect.getsource(model)
    except (TypeError, OSError):  # no function, or one that was typed in
        return ""


def _background_hash(background: Any) -> str:
    if not isinstance(background, str | None):
        return hash_of(_pickled(_plain(background), "background"))
    option = BackgroundOption.parse(background)
    content = "" if option.file is None else file_hash(option.file)
    return hash_of(f"{option.statistic} {content}".encode())


def _plain(background: Any) -> Any:
    """Return a background without tensors, whose pickles differ from process to process."""
    if isinstance(background, torch.Tensor):
        return background.detach().cpu().numpy()
    if isinstance(background, tuple | list):
        return [_plain(each) for each in background]
    return background


def _pickled(value: Any, what: str) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:  # every class has errors of its own
        raise InputError(
            f"{what}: a {type(value).__name__} cannot be pickled ({error}); give the place of a "
            "file instead"
        ) from error
