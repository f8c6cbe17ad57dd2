"""One file for one explanation: an .npz without pickles, which numpy can open as well.

Arrays of numbers, fixed-width texts and times are entries of their own, under the field's name.
Everything else is JSON, in the entry "shearshap":

    {"format": "shearshap explanation", "version": 1, "fields": {"evaluations": 64, ...}}

JSON has fewer kinds of values than Python. A value of a kind that it lacks becomes an object with
one key, which names the kind:

    float("nan")                {"float": "nan"}
    (1, "a")                    {"tuple": [1, "a"]}
    Decimal("0.10")             {"Decimal": "0.10"}
    an array of objects (2, 1)  {"array": [[2, 1], ["a", null]]}
"""

import json
import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.store import written_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")

FORMAT = "shearshap explanation"
VERSION = 1  #: of the format; a file of a later one is refused
_HEADER = "shearshap"  #: the entry that holds the JSON

#: what reading a damaged or foreign file may raise
_UNREADABLE = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    ArithmeticError,
    MemoryError,
    tokenize.TokenError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def save(result: "DataclassInstance", path: Path) -> None:
    """Write a result to a file, whole or not at all."""
    contents = {each.name: getattr(result, each.name) for each in fields(result)}
    arrays = {name: content for name, content in contents.items() if _is_plain(content)}
    others = {name: encoded(contents[name]) for name in contents.keys() - arrays.keys()}

    header = {"format": FORMAT, "version": VERSION, "fields": others}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    arrays[_HEADER] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def load(kind: type[Result], path: Path) -> Result:
    """Return the result of a class that was saved to a file."""
    if not path.is_file():
        raise InputError(f"there is no file {path}; wanted one written by Explanation.save")
    try:
        contents = _contents(path)
        _check_fields(kind, contents)
        return kind(**contents)
    except ImportError as error:
        raise InputError(f"{path} holds values of pandas: pip install pandas") from error
    except _UNREADABLE as error:
        raise InputError(
            f"{path} cannot be read: {error}; wanted a file written by {kind.__name__}.save"
        ) from error


def _contents(path: Path) -> dict[str, Any]:
    """Return the content of every field in a file, by its name."""
    entries = _entries(path)
    if _HEADER not in entries:
        raise ValueError(f"it has no entry {_HEADER!r}")
    header = json.loads(entries.pop(_HEADER).tobytes())
    if header["format"] != FORMAT:
        raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
    if header["version"] != VERSION:
        raise ValueError(
            f"it has version {header['version']} of the format, and this shearshap reads version "
            f"{VERSION}; install a newer shearshap"
        )
    return entries | {name: decoded(content) for name, content in header["fields"].items()}


def _entries(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in an .npz file.

    Each entry is read whole before numpy sees it: only then is its checksum known to be right, and
    numpy would ask for as much memory as a damaged entry says.
    """
    with zipfile.ZipFile(path) as archive:
        contents = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    return {
        name: np.lib.format.read_array(BytesIO(content), allow_pickle=False)
        for name, content in contents.items()
    }


def _check_fields(kind: type[Result], contents: dict[str, Any]) -> None:
    """Raise if a file lacks what a class needs, or holds what it does not have."""
    known = {each.name: each for each in fields(kind)}
    foreign = sorted(contents.keys() - known.keys())
    if foreign:
        raise ValueError(f"it holds {', '.join(foreign)}, which {kind.__name__} does not have")

    needed = {
        name
        for name, each in known.items()
        if each.default is MISSING and each.default_factory is MISSING
    }
    missing = sorted(needed - contents.keys())
    if missing:
        raise ValueError(f"it has no {', '.join(missing)}")


# Values that JSON lacks


def _is_plain(content: Any) -> bool:
    """Return whether numpy can store this without pickles: an array, and not of objects."""
    return isinstance(content, np.ndarray) and content.dtype.kind in "biufcmMUS"


def encoded(value: Any) -> Any:
    """Return a value as JSON, see above; a value of an unknown kind as its text."""
    value = _python_number(value)
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
        return {"calibration": [type(value).__name__, encoded(value.to_dict())]}
    return _encoded_scalar(value)


def _python_number(value: Any) -> Any:
    """Return a number or text of numpy as Python's."""
    if isinstance(value, np.timedelta64):  # which numpy counts among the integers
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating | np.str_):
        return value.item()
    return value


def _encoded_scalar(value: Any) -> Any:
    """Return a time, decimal or missing value as JSON, anything else as its text."""
    if type(value).__module__.partition(".")[0] == "pandas":
        return _encoded_of_pandas(value)
    if isinstance(value, np.datetime64):
        unit, _ = np.datetime_data(value.dtype)
        return {"datetime64": [str(value), unit]}
    if isinstance(value, np.timedelta64):
        return {"timedelta64": [int(value.astype(np.int64)), *np.datetime_data(value.dtype)]}
    if type(value) is timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if type(value) is datetime:
        return _encoded_time("datetime", value)
    for kind in (date, time):
        if type(value) is kind:
            return {kind.__name__: value.isoformat()}
    if isinstance(value, Decimal):
        return {"Decimal": str(value)}
    return str(value)


def _encoded_of_pandas(value: Any) -> Any:
    """Return a scalar of pandas as JSON, without importing pandas."""
    name = type(value).__name__
    if name == "NAType":
        return {"pandas.NA": None}
    if name == "NaTType":
        return {"pandas.NaT": None}
    if name == "Timestamp":
        return _encoded_time(name, value)
    if name == "Timedelta":
        return {name: value.isoformat()}
    return str(value)


def _encoded_time(kind: str, value: datetime) -> Any:
    """Return a time as JSON, with the name of its zone if that has one, such as Europe/Berlin."""
    text = {kind: value.isoformat()}
    zone = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)  # of pytz
    return text if zone is None else {"zoned": [text, zone]}


def decoded(content: Any) -> Any:
    """Return the value that `encoded` turned into JSON."""
    if isinstance(content, list):
        return [decoded(each) for each in content]
    if not isinstance(content, dict):
        return content
    ((name, inside),) = content.items()
    return _DECODERS[name](inside)


def _array(inside: list[Any]) -> NDArray[np.object_]:
    shape, cells = inside
    array = np.empty(len(cells), dtype=object)
    # a list in an array of objects must not become an axis
    for place, cell in enumerate(cells):
        array[place] = decoded(cell)
    return array.reshape(shape)


def _pandas(name: str) -> Any:
    import pandas as pd

    return getattr(pd, name)


def _calibration(inside: list[Any]) -> Any:
    """Return a calibration from the name of its class and its numbers."""
    from shearshap.result.calibration import Calibration, CalibrationByPlayers, StagedCalibration

    name, numbers = inside
    kinds = (Calibration, StagedCalibration, CalibrationByPlayers)
    classes = {kind.__name__: kind for kind in kinds}
    if name not in classes:
        raise ValueError(f"its calibration is a {name}, which this shearshap does not know")
    return classes[name].from_dict(decoded(numbers))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda inside: tuple(decoded(each) for each in inside),
    "dict": lambda inside: {decoded(key): decoded(each) for key, each in inside},
    "array": _array,
    "calibration": _calibration,
    "pandas.NA": lambda _: _pandas("NA"),
    "pandas.NaT": lambda _: _pandas("NaT"),
    "Timestamp": lambda inside: _pandas("Timestamp")(inside),
    "Timedelta": lambda inside: _pandas("Timedelta")(inside),
    "zoned": lambda inside: decoded(inside[0]).astimezone(ZoneInfo(inside[1])),
    "datetime64": lambda inside: np.datetime64(*inside),
    "timedelta64": lambda inside: np.timedelta64(inside[0], (inside[1], inside[2])),
    "datetime": datetime.fromisoformat,
    "timedelta": lambda inside: timedelta(*inside),
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "Decimal": Decimal,
}
