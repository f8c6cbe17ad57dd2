"""The manifest of a large job: what the job is, and what was fitted before its first shard.

It is a file of JSON in the folder of the parts. Its identity holds hashes of the model's files and
the background, the options and the input's files. Whoever goes on with a job must have the same
identity. Its preparation is what all shards share, however they are spread: the calibration, the
types and categories of columns, and the columns of the parts. It also holds what the model has
predicted for a few rows, which tells a model that is no file from another.

The hashes of finished parts are in a file beside it, which gets a line for each: see `PartHashes`.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shearshap.errors import InputError, ShearError
from shearshap.jobs.input_columns import Survey
from shearshap.methods.kriging import AnyCalibration, calibration_from_dict
from shearshap.store import written_whole

MANIFEST = "_manifest.json"  #: readers of folders of Parquet leave out names with an underscore
PARTS = "_parts.jsonl"
FORMAT = 2
LARGEST = 1 << 28  #: bytes of a manifest
TYPES = ("int64", "double", "bool")  #: of the columns of a part
KEYS = {"format", "hash", "identity", "preparation"}

WORDS = {
    "model": "another model",
    "background": "another background",
    "inputs": "other files of data",
    "schema": "other columns in the data",
    "version": "another version of shearshap",
}
"""What differs, in words; any other entry of an identity is an option."""


@dataclass(frozen=True)
class Preparation:
    """What is found out once, before the first shard, and is the same for all."""

    columns: tuple[tuple[str, str], ...]  #: of the explanation in a part, each with its type
    survey: Survey  #: of the cells of all rows
    calibration: AnyCalibration | None  #: None: the method needs none
    background: str | None  #: the hash of the file of background rows that the job keeps
    predictions: dict[str, list[float]]  #: of the model, by the number of a row among all rows

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict that JSON can hold."""
        calibration = self.calibration
        return {
            "columns": [list(column) for column in self.columns],
            "gaps": list(self.survey.gaps),
            "categories": self.survey.categories,
            "calibration": None if calibration is None else calibration.to_dict(),
            "background": self.background,
            "predictions": self.predictions,
        }

    @classmethod
    def from_dict(cls, data: Any) -> "Preparation":
        """Return what `to_dict` wrote, or raise ValueError."""
        names = {"columns", "gaps", "categories", "calibration", "background", "predictions"}
        _check(isinstance(data, dict) and set(data) == names)
        _check(isinstance(data["background"], str | None))
        _check(isinstance(data["columns"], list) and isinstance(data["categories"], dict))
        _check(isinstance(data["gaps"], list))
        _check(all(isinstance(name, str) for name in data["gaps"]))
        for column in data["columns"]:
            _check(isinstance(column, list) and len(column) == 2)
            _check(isinstance(column[0], str) and column[1] in TYPES)
        for kinds in data["categories"].values():
            _check(isinstance(kinds, list))
            _check(all(isinstance(kind, str | int | float) for kind in kinds))
        _check(isinstance(data["predictions"], dict) and _are_numbers(data["predictions"]))
        _check(all(isinstance(each, list) for each in data["predictions"].values()))
        return cls(
            columns=tuple((name, kind) for name, kind in data["columns"]),
            survey=Survey(tuple(data["gaps"]), data["categories"]),
            calibration=_calibration(data["calibration"]),
            background=data["background"],
            predictions=data["predictions"],
        )


@dataclass(frozen=True)
class Manifest:
    """What a large job is, and what its shards share."""

    identity: dict[str, Any]  #: of JSON's types
    preparation: Preparation

    @property
    def key(self) -> str:
        """The hash of the whole, which every part names."""
        return _hash(self._body())

    def _body(self) -> dict[str, Any]:
        return {"identity": self.identity, "preparation": self.preparation.to_dict()}

    def save(self, path: Path) -> None:
        """Write it whole."""
        text = json.dumps({"format": FORMAT, "hash": self.key, **self._body()}, indent=1)
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read what `save` wrote; raise InputError for anything else."""
        try:
            _check(path.stat().st_size <= LARGEST)
            data = json.loads(path.read_bytes())
            _check(isinstance(data, dict) and set(data) == KEYS and data["format"] == FORMAT)
            _check(isinstance(data["identity"], dict))
            loaded = cls(data["identity"], Preparation.from_dict(data["preparation"]))
            _check(loaded.key == data["hash"])
        except OSError as error:
            raise InputError(f"out: {path} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"out: {path} is damaged, or the manifest of another version; choose another "
                "folder, or delete this one"
            ) from error
        return loaded

    def check_same(self, identity: Mapping[str, Any], folder: Path) -> None:
        """Raise where a job is another one than that of this manifest, and say what differs."""
        names = [*self.identity, *(name for name in identity if name not in self.identity)]
        different = [name for name in names if self.identity.get(name) != identity.get(name)]
        if not different:
            return
        words = ", ".join(self._difference(name, identity.get(name)) for name in different)
        raise InputError(
            f"out: {folder} holds a job with {words}; choose another folder, or the same options "
            "as before"
        )

    def _difference(self, name: str, now: Any) -> str:
        if name in WORDS:
            return WORDS[name]
        return f"{name} {_shown(self.identity.get(name))}, and not {_shown(now)}"


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

    def is_done(self, part: Path) -> bool:
        """Return whether a part is there, as it was written."""
        known = self._hashes.get(part.name)
        return known is not None and part.is_file() and file_hash(part) == known

    def add(self, name: str, part_hash: str) -> None:
        """Add the line of a part that is finished."""
        entry = json.dumps({"job": self.key, "part": name, "hash": part_hash})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{entry}")  # first the end of a line before, which may have been cut


def _shown(option: Any) -> str:
    return "unset" if option is None else json.dumps(option)


def hash_of(content: bytes) -> str:
    """Return the hash of some bytes."""
    return hashlib.sha256(content).hexdigest()


def file_hash(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash(body: Mapping[str, Any]) -> str:
    return hash_of(json.dumps(body, sort_keys=True).encode())


def _check(holds: bool) -> None:
    """Raise ValueError where a manifest is not as it should be; `load` says so in words."""
    if not holds:
        raise ValueError("no manifest")


def _calibration(data: Any) -> AnyCalibration | None:
    """Return the calibration that a manifest holds, all of whose numbers are numbers."""
    if data is None:
        return None
    _check(isinstance(data, dict) and _are_numbers(data))
    try:
        calibration = calibration_from_dict(data)
        # what is left out, or has another form, does not come back the same
        is_same = json.loads(json.dumps(calibration.to_dict())) == data
    except (KeyError, TypeError, AttributeError, AssertionError, ShearError) as error:
        raise ValueError("no calibration") from error
    _check(is_same)
    return calibration


KIND = re.compile(r"[a-z-]{1,40}")


def _are_numbers(data: Any, name: str = "") -> bool:
    """Return whether all in a calibration are finite numbers, but for its kinds."""
    if isinstance(data, dict):
        return all(_are_numbers(each, name) for name, each in data.items())
    if isinstance(data, list):
        return all(_are_numbers(each) for each in data)
    if isinstance(data, str):
        return name == "kind" and KIND.fullmatch(data) is not None
    if data is None:
        return name == "quiet_variance"
    return isinstance(data, int | float) and not isinstance(data, bool) and math.isfinite(data)
