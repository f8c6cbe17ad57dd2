"""One file for one explanation: an .npz without pickles, which numpy can open as well.

Arrays of numbers, fixed-width texts and times are entries of their own, under the field's name.
Everything else is JSON, in the entry "shearshap":

    {"format": "shearshap explanation", "version": 1, "written_by": "0.1.0",
     "fields": {"evaluations": 64, ...}}

`version` is that of the format, and `written_by` that of shearshap. A new field leaves the format
as it is: a shearshap that does not know the field leaves it out, with a note. A file of a later
format is refused.

JSON has fewer kinds of values than Python. A value of a kind that it lacks becomes an object with
one key, which names the kind:

    float("nan")                {"float": "nan"}
    (1, "a")                    {"tuple": [1, "a"]}
    Decimal("0.10")             {"Decimal": "0.10"}
    an array of objects (2, 1)  {"array": [[2, 1], ["a", null]]}
"""

import json
import reprlib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from math import isfinite, prod
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from shearshap import __version__
from shearshap.errors import InputError, record, recorded
from shearshap.store import written_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")

FORMAT = "shearshap explanation"
VERSION = 1  #: of the format; a file of a later one is refused
_HEADER = "shearshap"  #: the entry that holds the JSON

# `save` does not compress, so the limits only meet files that others have packed
MIN_BYTES = 1 << 22  #: that every file may have once it is unpacked
TIMES_PACKED = 8  #: how many times larger than packed it may be
MAX_EMPTY = 1 << 20  #: the longest axis of an array without content
MAX_WORDS = 200  #: characters of a message that an error repeats


def save(result: "DataclassInstance", path: Path) -> None:
    """Write a result to a file, whole or not at all."""
    contents = {each.name: getattr(result, each.name) for each in fields(result)}
    arrays = {name: content for name, content in contents.items() if _is_plain(content)}
    others = {name: encoded(contents[name]) for name in contents.keys() - arrays.keys()}

    header = {"format": FORMAT, "version": VERSION, "written_by": __version__, "fields": others}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    arrays[_HEADER] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def load(
    kind: type[Result],
    path: Path,
    check: Callable[[Mapping[str, Any]], None],
    max_bytes: int | None = None,
) -> Result:
    """Return the result of a class that was saved to a file.

    `check` raises if contents of fields, which have their types, make no sense together. The file
    may have this many bytes once unpacked; None: as many as a file that `save` wrote may.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}; expected one written by {kind.__name__}.save")
    try:
        contents = _contents(kind, path, max_bytes)
        result = kind(**contents)
        check(contents)
        return result
    except (LaterFormatError, LargeFileError):
        raise
    except ImportError as error:
        raise InputError(f"{path} needs pandas: pip install pandas") from error
    except DAMAGES as error:
        raise InputError(
            f"{path} cannot be read: {first_words(error)}; expected a file written by "
            f"{kind.__name__}.save"
        ) from error


DAMAGES = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""A damaged file may hold anything in place of what the decoders expect, and raise any of these."""


def first_words(error: BaseException) -> str:
    """Return an error's text in one line, and not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_WORDS else f"{text[: MAX_WORDS - 4]} ..."


# The entries of a file


class LargeFileError(InputError):
    """A file would be larger than allowed once it is unpacked."""


def _entries(path: Path, max_bytes: int | None) -> dict[str, NDArray[Any]]:
    """Return the arrays in an .npz file.

    Each entry is read whole before numpy sees it: only then is its checksum known to be right, and
    numpy would ask for as much memory as a damaged entry says.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_size(path, archive.infolist(), max_bytes)
            return {
                entry.filename.removesuffix(".npy"): _array_of(_content(archive, entry))
                for entry in archive.infolist()
            }
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise many kinds
        raise ValueError(str(error)) from error


def _check_size(path: Path, entries: Sequence[zipfile.ZipInfo], max_bytes: int | None) -> None:
    """Raise if a file's entries have more bytes, once unpacked, than allowed."""
    most = max(MIN_BYTES, TIMES_PACKED * path.stat().st_size) if max_bytes is None else max_bytes
    size = sum(entry.file_size for entry in entries)
    if size > most:
        raise LargeFileError(
            f"{path} has {size:,} bytes once it is unpacked, and at most {most:,} are allowed; if "
            f"it comes from someone you trust, pass max_bytes={size}"
        )


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of an entry, no more than the bytes that it claims to have."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"the entry {entry.filename!r} is compressed in another way")
    with archive.open(entry) as file:
        return file.read(entry.file_size)


def _array_of(content: bytes) -> NDArray[Any]:
    """Return the array of an entry, of which numpy only knows what it claims to hold."""
    file = BytesIO(content)
    read_header = _READ_HEADER[np.lib.format.read_magic(file)]
    shape, _, kind = read_header(file)
    if prod(shape) * kind.itemsize > len(content):
        raise ValueError(f"an array of the shape {shape} has {len(content)} bytes")
    file.seek(0)
    return _bounded(np.lib.format.read_array(file))


_READ_HEADER: dict[tuple[int, int], Callable[[BytesIO], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""What reads the header of an array, by the version of numpy's format."""


def _bounded(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array; raise if it has no content, and yet an axis with a million names to make."""
    if not array.nbytes and max(array.shape, default=0) > MAX_EMPTY:
        raise ValueError(f"an array has the shape {array.shape}, and no content")
    return array


def _contents(kind: type[Result], path: Path, max_bytes: int | None) -> dict[str, Any]:
    """Return the content of every field of a class that a file has, by its name."""
    entries = _entries(path, max_bytes)
    if _HEADER not in entries:
        raise ValueError(f"it has no entry {_HEADER!r}")
    header = json.loads(entries.pop(_HEADER).tobytes())
    if not isinstance(header, dict) or not isinstance(header.get("fields"), dict):
        raise ValueError(f"its entry {_HEADER!r} has no fields")
    if header.get("format") != FORMAT:
        raise ValueError(f"its format is {header.get('format')!r}, not {FORMAT!r}")
    writer = header.get("written_by")
    check_format(f"{path}", header.get("version"), VERSION, writer)

    others = header["fields"]
    notes = notes_on_unknown(kind, [*entries, *others], writer)
    known = {each.name for each in fields(kind)}
    contents: dict[str, Any] = {name: entries[name] for name in entries.keys() & known}
    with recorded(notes):
        contents |= {name: decoded(others[name]) for name in others.keys() & known}
    check_types(kind, contents)
    if notes:
        contents["notes"] = (*contents.get("notes", ()), *notes)
    return contents


# The types of fields


def check_types(kind: "type[DataclassInstance]", contents: Mapping[str, Any]) -> None:
    """Raise if a field of a class cannot hold its content."""
    for each in fields(kind):
        if each.name in contents and not fits(contents[each.name], each.type):
            raise ValueError(f"its field {each.name!r} holds {reprlib.repr(contents[each.name])}")


def fits(content: Any, kind: Any) -> bool:
    """Return whether a content is of a type, such as `dict[str, list[str]] | None`.

    Lists count as tuples, whole numbers as floats, and all real numbers of arrays as floats. Any
    other type holds anything, since other objects are saved as their text.
    """
    origin = get_origin(kind)
    inside = get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(content, each) for each in inside)
    if origin is np.ndarray:
        return isinstance(content, np.ndarray) and _fits_array(content, inside[1])
    if origin is dict:
        return isinstance(content, dict) and all(
            fits(key, inside[0]) and fits(each, inside[1]) for key, each in content.items()
        )
    if origin is list or inside[1:] == (...,):
        return isinstance(content, list | tuple) and all(fits(each, inside[0]) for each in content)
    if kind in (int, float):
        return isinstance(content, int | kind) and not isinstance(content, bool)
    if kind is str:
        # half a character of UTF-16 is no text, and no table holds it
        return isinstance(content, str) and content == content.encode(errors="replace").decode()
    return isinstance(content, kind) if kind in (bool, NoneType) else True


def _fits_array(array: NDArray[Any], kind: Any) -> bool:
    (scalar,) = get_args(kind)
    return array.dtype.kind in KINDS_OF_ARRAYS.get(scalar, "biufcmMUSO")


KINDS_OF_ARRAYS = {np.float64: "biuf", np.int64: "iu", np.bool_: "b"}
"""The kinds of arrays that fields of these types hold; others hold any."""


# Files of other versions of shearshap


class LaterFormatError(InputError):
    """A file has a later format than this version of shearshap reads."""


def check_format(place: str, number: Any, newest: int, writer: Any) -> None:
    """Raise if a file's format is later than the newest that is known here.

    `place` begins the error, and `writer` is the version that wrote the file, if it says so.
    """
    if not isinstance(writer, str | None) or type(number) is not int:
        raise ValueError(f"its version is {reprlib.repr(number)}, of {reprlib.repr(writer)}")
    if number > newest:
        version = f"shearshap {writer}" if writer else "a later shearshap"
        raise LaterFormatError(
            f"{place} was written by {version} in format {number}, and shearshap {__version__} "
            f"reads formats up to {newest}; read it with {version}"
        )


def notes_on_unknown(kind: type[Result], names: Iterable[str], writer: Any) -> list[str]:
    """Return a note that names those fields of a file that a class does not have."""
    unknown = sorted({*names} - {each.name for each in fields(kind)})
    if not unknown:
        return []
    version = f"shearshap {writer}" if writer else "another version of shearshap"
    return [
        f"the file was written by {version}; shearshap {__version__} does not know these parts of "
        f"it, and leaves them out: {', '.join(unknown)}"
    ]


# Values that JSON lacks


def _is_plain(content: Any) -> bool:
    """Return whether numpy can store this without pickles: an array, and not of objects."""
    return isinstance(content, np.ndarray) and content.dtype.kind in "biufcmMUS"


def encoded(value: Any) -> Any:
    """Return a value as JSON, see above; a value of an unknown kind as its text."""
    # numpy counts its times of day among the integers
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [encoded(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(each)] for key, each in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": [list(value.shape), [encoded(each) for each in value.flat]]}
    if hasattr(value, "to_dict") and hasattr(value, "from_dict"):
        return {"calibration": encoded(value.to_dict())}
    name = type(value).__name__
    return {name: _ENCODERS[name](value)} if name in _ENCODERS else str(value)


#: what a value of a kind is made from, by the name of its class; pandas is not imported for that
_ENCODERS: dict[str, Callable[[Any], Any]] = {
    "NAType": lambda _: None,
    "NaTType": lambda _: None,
    "Timestamp": lambda value: _time_and_zone(value),
    "datetime": lambda value: _time_and_zone(value),
    "Timedelta": lambda value: value.isoformat(),
    "timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "date": date.isoformat,
    "time": time.isoformat,
    "Decimal": str,
    "datetime64": lambda value: [str(value), np.datetime_data(value.dtype)[0]],
    "timedelta64": lambda value: [int(value.astype(np.int64)), *np.datetime_data(value.dtype)],
}


def _time_and_zone(value: datetime) -> list[str | None]:
    """Return a time, and the name of its zone if that has one, such as Europe/Berlin."""
    zone = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)  # of pytz
    return [value.isoformat(), zone]


def decoded(content: Any) -> Any:
    """Return the value that `encoded` turned into JSON."""
    if isinstance(content, list):
        return [decoded(each) for each in content]
    if not isinstance(content, dict):
        return content
    kinds = [*content]
    if len(kinds) != 1 or kinds[0] not in _DECODERS:
        raise ValueError(f"it has a value of an unknown kind, {reprlib.repr(kinds)}")
    return _DECODERS[kinds[0]](content[kinds[0]])


def _array(inside: list[Any]) -> NDArray[np.object_]:
    shape, cells = inside
    array = np.empty(len(cells), dtype=object)
    # a list in an array of objects must not become an axis
    for place, cell in enumerate(cells):
        array[place] = decoded(cell)
    return _bounded(array.reshape(shape))


def _pandas(name: str) -> Any:
    import pandas as pd

    return getattr(pd, name)


def _calibration(inside: Any) -> Any:
    """Return a calibration from its numbers."""
    from shearshap.result.calibration import Calibration

    calibration, notes = Calibration.read(decoded(inside))
    record(notes)
    return calibration


def _in_zone(moment: Any, zone: str | None) -> Any:
    return moment if zone is None else moment.astimezone(ZoneInfo(zone))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda inside: tuple(decoded(each) for each in inside),
    "dict": lambda inside: {decoded(key): decoded(each) for key, each in inside},
    "array": _array,
    "calibration": _calibration,
    "NAType": lambda _: _pandas("NA"),
    "NaTType": lambda _: _pandas("NaT"),
    "Timestamp": lambda inside: _in_zone(_pandas("Timestamp")(inside[0]), inside[1]),
    "datetime": lambda inside: _in_zone(datetime.fromisoformat(inside[0]), inside[1]),
    "Timedelta": lambda inside: _pandas("Timedelta")(inside),
    "timedelta": lambda inside: timedelta(*inside),
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "Decimal": Decimal,
    "datetime64": lambda inside: np.datetime64(*inside),
    "timedelta64": lambda inside: np.timedelta64(inside[0], (inside[1], inside[2])),
}
