"""The manifest of a large job: what the job is, and what was fitted before its first shard.

It is a file of JSON in the folder of the parts. Its identity holds hashes of the model's files and
the background, the options and the input's files. Whoever goes on with a job must have the same
identity. Its preparation is what all shards share, however they are spread: the calibration, the
types and categories of columns, and the columns of the parts. It also holds what the model has
predicted for a few rows, which identifies a model that is not a file.

The hashes of finished parts are in a file beside it, which gets a line for each: see `PartHashes`.
The folder is locked during a run: see `locked`.
"""

import hashlib
import inspect
import json
import os
import pickle
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from shearshap import __version__
from shearshap.errors import InputError
from shearshap.jobs.models import model_files
from shearshap.jobs.options import Options
from shearshap.jobs.places import Place, opened
from shearshap.jobs.shards import InputFile
from shearshap.store import written_whole

MANIFEST = "_manifest.json"  #: readers of folders of Parquet leave out names with an underscore
PARTS = "_parts.jsonl"
LOCK = "_lock"
HOLDER = "_holder"  #: names the run that holds the lock
FORMAT = 4

IDENTIFYING = (
    "method", "budget", "tol", "seed", "outputs", "output_names", "groups", "scale", "returns",
    "multilabel", "drop", "id_column", "keep", "interactions", "interaction_index", "semivalue",
    "loss", "label", "shard_rows",
)  # fmt: skip
"""The options that decide what is written, and so must be the same to go on with a job."""

WORDS = {
    "model": "another model",
    "background": "another background",
    "inputs": "other files of data",
    "schema": "other columns in the data",
}
"""What differs, in words; any other entry of an identity is an option."""


@dataclass(frozen=True)
class Preparation:
    """What is found out once, before the first shard, and is the same for all; of JSON's types."""

    columns: list[list[str]]  #: of the explanation in a part, each with its type
    gaps: list[str]  #: columns of whole numbers or truth values, of which one is missing
    categories: dict[str, list[Any]]  #: of columns
    calibration: dict[str, Any] | None  #: None: the method needs none
    predictions: dict[str, list[float]]  #: of the model, by the number of a row among all rows
    background: str  #: in words


@dataclass(frozen=True)
class Manifest:
    """What a large job is, and what its shards share."""

    identity: dict[str, Any]  #: of JSON's types
    preparation: Preparation

    @property
    def key(self) -> str:
        """The hash of the whole, which every part names."""
        return hash_of(json.dumps(asdict(self), sort_keys=True).encode())

    def save(self, path: Path) -> None:
        """Write it whole."""
        text = json.dumps({"format": FORMAT, "hash": self.key, **asdict(self)}, indent=1)
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read what `save` wrote; raise InputError for anything else."""
        try:
            data = json.loads(path.read_bytes())
            _check_version(data, path.parent)
            loaded = cls(data["identity"], Preparation(**data["preparation"]))
            # the hash of the whole finds any damage, so what it holds is as it was written
            if data["hash"] != loaded.key:
                raise ValueError("not as it was written")
        except InputError:
            raise
        except (OSError, LookupError, ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"out: {path} is damaged; choose another folder, or delete this one"
            ) from error
        return loaded

    def check_same(self, identity: Mapping[str, Any], folder: Path) -> None:
        """Raise if a job is another one than that of this manifest, and say what differs."""
        names = [*self.identity, *(name for name in identity if name not in self.identity)]
        different = [name for name in names if self.identity.get(name) != identity.get(name)]
        if not different:
            return
        words = [
            WORDS.get(name)
            or f"{name} {_shown(self.identity.get(name))} instead of {_shown(identity.get(name))}"
            for name in different
        ]
        raise InputError(
            f"out: {folder} holds a job with {', '.join(words)}; choose another folder, or the "
            "same options as before"
        )


def _check_version(data: Mapping[str, Any], folder: Path) -> None:
    """Raise if the folder of a job was begun by another version, which alone can go on with it."""
    written = (data["identity"]["version"], data["format"])
    if written != (__version__, FORMAT):
        version, number = written
        raise InputError(
            f"out: {folder} holds a job that shearshap {version} began, in format {number}; this "
            f"is shearshap {__version__}, which has format {FORMAT}; continue it with shearshap "
            f"{version}, or choose another folder"
        )


class PartHashes:
    """The hashes of a job's finished parts, by name, in a file that gets a line for each.

    A part without a line, or whose bytes have another hash, is made again. So a run may be killed
    between a part and its line, or in the middle of a line.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key  #: of the job: lines of other jobs do not count
        self._hashes: dict[str, str] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
                if entry["job"] == key:
                    self._hashes[entry["part"]] = entry["hash"]
            except (ValueError, TypeError, KeyError, RecursionError):
                continue

    def is_done(self, name: str) -> bool:
        """Return whether a part is there, as it was written."""
        known = self._hashes.get(name)
        part = self.path.parent / name
        return known is not None and part.is_file() and file_hash(part) == known

    def add(self, hashes: Iterable[tuple[str, str]]) -> None:
        """Add the lines of files that are finished."""
        with self.path.open("a", encoding="utf-8") as file:
            for name, part_hash in hashes:
                entry = json.dumps({"job": self.key, "part": name, "hash": part_hash})
                # first the end of a line before, which may have been cut
                file.write(f"\n{entry}")


def _shown(option: Any) -> str:
    return "unset" if option is None else json.dumps(option)


def hash_of(content: bytes) -> str:
    """Return the hash of some bytes."""
    return hashlib.sha256(content).hexdigest()


def file_hash(path: Place) -> str:
    """Return the hash of a file's bytes."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The identity of a job


def identity_of(job: Options, files: Sequence[InputFile], schema: pa.Schema) -> dict[str, Any]:
    """Return all that the values depend on, as JSON can hold it."""
    options = {name: getattr(job, name) for name in IDENTIFYING}
    if not isinstance(job.method, str):
        options["method"] = repr(job.method)
    options["loss"] = job.loss_name
    identity = {
        **options,
        "version": __version__,
        "model": _model_hash(job.model),
        "background": _background_hash(job),
        "inputs": [_input_identity(file, job.data) for file in files],
        "schema": [[each.name, str(each.type)] for each in schema],
    }
    restored: dict[str, Any] = json.loads(json.dumps(identity))  # as it comes back from the file
    return restored


def _input_identity(file: InputFile, data: Path) -> list[Any]:
    name = file.source.relative_to(data) if data.is_dir() else Path(file.source.name)
    return [name.as_posix(), file.source.stat().st_size, list(file.groups), file.footer]


def _model_hash(model: Any) -> str:
    """Return a hash of the content of a model's files; of a model in memory, of what it is.

    Its pickle would not do: of a torch module or a set it differs from process to process. What
    tells such a model from another are its predictions, which the manifest keeps too.
    """
    if not isinstance(model, str):
        _check_pickle(model)
        name = getattr(model, "__qualname__", type(model).__qualname__)
        return hash_of(f"{name} {_source(model)}".encode())
    module, _, name = model.rpartition(":")
    files = model_files(model)
    if not files:
        origin = Path(getattr(find_spec(module), "origin", None) or "")
        files = [origin] if origin.is_file() else []
    content = " ".join(file_hash(file) for file in files) or module
    return hash_of(f"{content} {'' if Path(model).exists() else name}".encode())


def _source(model: Any) -> str:
    """Return the source of a function, if it can be had."""
    try:
        return inspect.getsource(model)
    except (TypeError, OSError):  # no function, or one that was typed in
        return ""


def _check_pickle(model: Any) -> None:
    """Raise here, and not in a worker, if a model cannot be sent there."""
    try:
        pickle.dumps(model)
    except Exception as error:  # every class has its own errors
        raise InputError(
            f"model: a {type(model).__name__} cannot be pickled ({error}); pass the path of a "
            "file instead"
        ) from error


def _background_hash(job: Options) -> str:
    """Return a hash of what is named as background; what an object is, the predictions show."""
    if not isinstance(job.background, str | None):
        return hash_of(type(job.background).__qualname__.encode())
    option = job.background_option
    content = "" if option.file is None else file_hash(option.file)
    return hash_of(f"{option.choice} {option.count} {content}".encode())


# The lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise if another run holds it.

    The lock of the operating system ends with the process: a killed run leaves none behind.
    """
    holder = folder / HOLDER
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        name = holder.read_text(encoding="utf-8") if holder.exists() else "an unknown process"
        raise InputError(
            f"out: another run is using {folder} ({name}); wait for it to end, or stop it"
        ) from error
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()
