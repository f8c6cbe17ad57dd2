"""Model files that a library reads in native code, which a broken file may take down.

A library raises an error for most broken files. Some files end the process, though, or are never
done with:

    .txt (LightGBM), .ubj (XGBoost)              some broken files end the process
    .json (XGBoost), .cbm (CatBoost), .onnx      every broken file that was tried raises an error

So a file of the first two kinds is looked at for its end, which one that was cut has lost. It is
then loaded in a process of its own, by the native library alone, since packages are slow to import.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shearshap.errors import InputError

PATIENCE = 60  #: seconds to load a file, and one more for each megabyte of it
MEGABYTE = 2**20
LONGEST = 300  #: characters of another library's message that are repeated
REFUSED = 3  #: exit status of the process where the library raised an error

CHILD = """
import ctypes, os, sys
name, library, file = sys.argv[1:]
try:
    import resource
    limit = 2**33 + 20 * os.path.getsize(file)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
except (ImportError, ValueError, OSError):
    pass
try:
    library = ctypes.CDLL(library)
except OSError:
    sys.exit(0)

model = ctypes.c_void_p()
number = ctypes.c_uint64()
file = os.fsencode(file)
if name == "LightGBM":
    status = library.LGBM_BoosterCreateFromModelfile(
        file, ctypes.byref(number), ctypes.byref(model)
    )
    last_error = library.LGBM_GetLastError
    if not status and hasattr(library, "LGBM_BoosterGetLoadedParam"):
        # the package asks for the parameters next, and broken ones end the process, too
        length = ctypes.c_int64(2**20)
        text = ctypes.create_string_buffer(length.value)
        status = library.LGBM_BoosterGetLoadedParam(model, length, ctypes.byref(length), text)
else:
    library.XGBoosterCreate(None, number, ctypes.byref(model))
    status = library.XGBoosterLoadModel(model, file)
    last_error = library.XGBGetLastError
if status:
    last_error.restype = ctypes.c_char_p
    sys.stdout.buffer.write(last_error())
    sys.stdout.flush()
    os._exit(3)
os._exit(0)
"""
"""The code of that process.

Some broken files make a library take memory without end, so there is a limit. A library that does
not load is left to the process that loads the file next.
"""

SECTION = re.MULTILINE | re.DOTALL

STACK_TRACE = re.compile(r"\s*Stack trace:[ \t]*(?:\n\s*\[bt\][^\n]*)*\s*")
SOURCE = re.compile(
    r"^(?:\[\d\d:\d\d:\d\d\]\s*)?"  # XGBoost's time of day
    r"(?:\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : )?"
    r"(?:\S+\.(?:cc|cpp|cu|cuh|h|hpp):\d+:\s*)?"  # a line of the library's own source
)


@dataclass(frozen=True)
class NativeFormat:
    """A kind of file that can end the process that loads it."""

    name: str  #: of the library, as `CHILD` knows it
    library: Callable[[], str]  #: where the native library is
    whole: Callable[[Path], bool]  #: whether a file has its end
    sound: Callable[[Path], bool] = lambda _file: True  #: whether its end can be read


def check_native_file(file: Path) -> None:
    """Raise where loading a file would fail, end the process, or take for ever."""
    kind = FORMATS.get(file.suffix.lower())
    if kind is None:
        return
    if not kind.whole(file):
        raise InputError(
            f"model: {file} is cut short, or no model of {kind.name}: its end is missing"
        )
    if not kind.sound(file):
        raise InputError(
            f"model: {file} is broken, or no model of {kind.name}: its parameters cannot be read"
        )
    try:
        library = kind.library()
    except (ImportError, AttributeError):
        return  # what is not installed is told by the loader
    if sys.executable:  # there is none where Python is a part of another program
        _check_in_child(file, kind.name, library)


def _check_in_child(file: Path, name: str, library: str) -> None:
    command = [sys.executable, "-I", "-c", CHILD, name, library, str(file)]
    patience = PATIENCE + file.stat().st_size / MEGABYTE
    broken = f"model: {file} is broken, or no model of {name}"
    try:
        child = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=patience
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{broken}: it was not loaded within {patience:.0f} seconds") from error

    if child.returncode == REFUSED:
        message = child.stdout.decode(errors="replace").strip().rpartition("[LightGBM] [Fatal] ")[2]
        raise InputError(f"model: {file} cannot be read: {name}Error: {first_line(message)}")
    if child.returncode:
        raise InputError(f"{broken}: loading it ended the process (status {child.returncode})")


# LightGBM and XGBoost


def _lightgbm_library() -> str:
    from lightgbm import basic

    return str(basic._LIB._name)


def _whole_lightgbm(file: Path) -> bool:
    """Return whether a file of LightGBM has all trees and parameters.

    LightGBM loads some that were cut, with fewer trees and without a word.
    """
    text = file.read_bytes()
    if not re.search(rb"^version=v[3-9]", text, re.MULTILINE):
        return True  # older ones do not mark the end, and LightGBM refuses what is none of its own
    has_parameters = re.search(rb"^parameters:", text, re.MULTILINE)
    mark = rb"^end of parameters" if has_parameters else rb"^end of trees"
    end = re.search(mark, text, re.MULTILINE)
    if end is None:
        return False
    # the Python package writes the categories of pandas last; other programs write nothing there
    rest = text[end.end() :].strip()
    return not rest or not b"pandas_categorical:".startswith(rest)


def _sound_lightgbm(file: Path) -> bool:
    """Return whether each line of the parameters is [name: value].

    On others the Python package ends the process, or not, as memory happens to be.
    """
    section = re.search(rb"^parameters:(.*?)^end of parameters", file.read_bytes(), SECTION)
    lines = [] if section is None else section[1].split(b"\n")
    return all(re.fullmatch(rb"\[\w+: .*\]\s*|\s*", line) for line in lines)


def _xgboost_library() -> str:
    from xgboost import core

    return str(core._LIB._name)


def _whole_ubj(file: Path) -> bool:
    """Return whether a file of binary JSON ends with the end of an object."""
    return file.read_bytes().endswith(b"}")


FORMATS = {
    ".txt": NativeFormat("LightGBM", _lightgbm_library, _whole_lightgbm, _sound_lightgbm),
    ".ubj": NativeFormat("XGBoost", _xgboost_library, _whole_ubj),
}


# Messages of other libraries


def without_stack_trace(message: str) -> str:
    """Return a message without the addresses of native code that a library puts into it."""
    return STACK_TRACE.sub(" ", message).strip()


def first_line(message: str) -> str:
    """Return the first line of a message that means something, without places in native code."""
    lines = (line.strip() for line in without_stack_trace(message).splitlines())
    line = next((line for line in lines if line and not line.startswith("[bt]")), "")
    return SOURCE.sub("", line).rstrip(" :")[:LONGEST]
