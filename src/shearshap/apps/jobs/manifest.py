"""The manifest of a large job: what the job is, what was fitted before its first shard, its rows.

It is a file of JSON in the folder of the parts. Its identity holds hashes of the model and the
background, the options, and the columns. Whoever goes on with a job must have the same. Its
preparation is what all shards share, however they are spread: the calibration, the types and
categories of columns, and the columns of the parts. It also holds what the model has predicted for
a few rows, which identifies a model that is not a file. Its rows are the size and the hash of each
shard.

A part carries the same hashes, of what it was made of. So a part counts if it was made of the rows,
the model and the options that the job has now; no lock, list, name, size or time is asked.
"""

import hashlib
import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap import __version__
from shearshap.apps.jobs.cells import RowsHash
from shearshap.apps.jobs.options import Options
from shearshap.apps.jobs.places import opened, reason, written_whole
from shearshap.apps.jobs.shards import Shard
from shearshap.apps.jobs.urls import Place
from shearshap.data.frames import as_frame
from shearshap.errors import InputError
from shearshap.result.text import counted

MANIFEST = "_manifest.json"  #: readers of folders of Parquet leave out names with an underscore
RUN = "_run.json"  #: names the run that writes parts
FORMAT = 5
NUMBERS = 3
"""Counts the changes after which the same input gives other values; the golden numbers know it."""

MAX_NAMED = 3  #: shards that a message names

WORDS = {
    "model": "another model",
    "background": "another background",
    "schema": "other columns in the data",
}
"""What differs, in words; any other entry of an identity is an option."""

ShardRows = list[tuple[int, str | None]]
"""The number of rows of each shard, and their hash; None if they could not be read."""


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
    """What a large job is, what its shards share, and their rows."""

    identity: dict[str, Any]  #: of JSON's types
    preparation: Preparation
    rows: ShardRows

    @property
    def key(self) -> str:
        """The hash of all but the rows, which every part names beside the hash of its own."""
        return hash_of([self.identity, asdict(self.preparation)])

    def save(self, path: Place) -> None:
        """Write it whole."""
        contents = asdict(self)
        head = {"format": FORMAT, "version": __version__, "hash": hash_of(contents)}
        text = json.dumps(head | contents, indent=1)
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Place) -> "Manifest":
        """Read what `save` wrote; raise InputError for anything else."""
        try:
            with opened(path) as file:
                data = json.loads(file.read())
            _check_version(data, path.parent)
            rows = [(count, known) for count, known in data["rows"]]
            loaded = cls(data["identity"], Preparation(**data["preparation"]), rows)
            # the hash of the whole finds any damage, so what it holds is as it was written
            if data["hash"] != hash_of(asdict(loaded)):
                raise ValueError("not as it was written")
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"out: {path} cannot be read: {reason(error)}") from error
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"out: {path} is damaged; choose another folder, or delete this one"
            ) from error
        return loaded

    @property
    def sizes(self) -> list[int]:
        """The rows of each shard."""
        return [count for count, _ in self.rows]

    def check_count(self, rows: int, folder: Place) -> None:
        """Raise if the data has more or fewer rows than when the job began."""
        known = sum(self.sizes)
        if rows != known:
            raise InputError(
                f"out: {folder} holds a job on {counted(known, 'row')}, and the data has "
                f"{rows:,} now; choose another folder, or the same data as before"
            )

    def check_same(self, identity: Mapping[str, Any], shards: Sequence[Shard], out: Place) -> None:
        """Raise if a job is another one than that of this manifest, and say what differs."""
        names = [*self.identity, *(name for name in identity if name not in self.identity)]
        # as text: the order of groups counts, too
        different = [
            name
            for name in names
            if json.dumps(self.identity.get(name)) != json.dumps(identity.get(name))
        ]
        words = [
            WORDS.get(name)
            or f"{name} {_shown(self.identity.get(name))} instead of {_shown(identity.get(name))}"
            for name in different
        ]
        # rows that could not be read when the job began may be anything
        changed = [
            shard.place
            for shard, (_, known) in zip(shards, self.rows, strict=True)
            if known is not None and shard.hash not in (None, known)
        ]
        if changed and "schema" not in different:
            more = len(changed) - MAX_NAMED
            others = [f"{more} more places"] if more > 0 else []
            words.append(f"other data ({'; '.join([*changed[:MAX_NAMED], *others])})")
        if words:
            raise InputError(
                f"out: {out} holds a job with {', '.join(words)}; choose another folder, or the "
                "same input and options as before"
            )


def _check_version(data: Mapping[str, Any], folder: Place) -> None:
    """Raise if the folder of a job was begun by a version that had other values or files."""
    identity = data["identity"]
    if (data["format"], identity.get("numbers")) != (FORMAT, NUMBERS):
        version = data.get("version", identity.get("version"))
        raise InputError(
            f"out: {folder} holds a job that shearshap {version} began, in format "
            f"{data['format']}; this is shearshap {__version__}, which has format {FORMAT}, or "
            f"other values; continue it with shearshap {version}, or choose another folder"
        )


def _shown(option: Any) -> str:
    return "unset" if option is None else json.dumps(option)


def hash_of(content: Any) -> str:
    """Return the hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# The identity of a job


def identity_of(
    job: Options, schema: pa.Schema, *, model: str, background: str | None
) -> dict[str, Any]:
    """Return all that the values depend on beside the rows, as JSON can hold it.

    `model` and `background` are the hashes of what was read.
    """
    options = {name: getattr(job, name) for name in job.identifying()}
    if not isinstance(job.method, str):
        options["method"] = repr(job.method)
    options["loss"] = job.loss_name
    identity = {
        **options,
        "numbers": NUMBERS,
        "model": model,
        "background": _background(job, background),
        "schema": [[each.name, str(each.type)] for each in schema],
    }
    restored: dict[str, Any] = json.loads(json.dumps(identity))  # as it comes back from the file
    return restored


def _background(job: Options, rows: str | None) -> Any:
    """Return what is named as background, and hashes of the rows in it."""
    if not isinstance(job.background, str | None):
        return _named(job.background)
    option = job.background_option
    return f"{option.choice} {option.count} {rows}"


def _named(background: Any) -> Any:
    """Return words and numbers as they are, and hashes of frames and arrays.

    What any other object is, only the model's predictions show.
    """
    if isinstance(background, str | int | float | None):
        return background
    if isinstance(background, tuple):
        return [_named(each) for each in background]
    frame = as_frame(background, "background")
    if frame is not None:
        known = RowsHash(frame.columns)
        known.update(frame.to_arrow())
        return known.hexdigest()
    if hasattr(background, "__array__") or isinstance(background, list):
        array = np.asarray(background)
        if array.dtype != object:
            shape = f"{array.dtype} {array.shape}".encode()
            return hashlib.sha256(shape + array.tobytes()).hexdigest()
    return type(background).__qualname__


# The run


@dataclass(frozen=True)
class Run:
    """The run that writes the parts of a folder: the last that has begun.

    Its file holds a random word, which workers compare before each shard. So a run that goes on
    with a folder stops one that is still at work there, and a node whose folder is its own disk is
    found out: it has no such file, or one with another word.
    """

    out: Place
    word: str = field(default_factory=lambda: secrets.token_hex(8))

    def check_free(self) -> None:
        """Raise if a process on this machine is at work in the folder."""
        known = self._known()
        process = known.get("process")
        if known.get("host") != socket.gethostname() or not isinstance(process, list):
            return
        pid, started = (*process, None, None)[:2]
        if not isinstance(pid, int) or started is None:
            return
        if pid != os.getpid() and _started(pid) == started:
            raise InputError(
                f"out: another run is using {self.out} (process {pid} on {known['host']}); wait "
                "for it to end, or stop it"
            )

    def begin(self) -> None:
        """Take the folder over."""
        process = (os.getpid(), _started(os.getpid()))
        entry = {"word": self.word, "host": socket.gethostname(), "process": process}
        with written_whole(self.out / RUN) as partial:
            partial.write_text(json.dumps(entry), encoding="utf-8")

    def is_current(self) -> bool:
        """Return whether no other run has taken the folder over, as far as can be seen here."""
        return bool(self._known().get("word") == self.word)

    def _known(self) -> dict[str, Any]:
        """Return what the folder's file of the run holds; nothing if there is none."""
        try:
            with opened(self.out / RUN) as file:
                known = json.loads(file.read())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}


def _started(pid: int) -> str | None:
    """Return when a process was started, which tells it from a later one of the same number.

    None: it has ended, or that is not known here.
    """
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        facts = status.rpartition(")")[2].split()
        return None if facts[0] == "Z" else facts[19]
    return None
