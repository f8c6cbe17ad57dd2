"""Places of the files that a job writes: whether they can be written, and what they would replace.

What is read is never written to. A file that is there already is replaced, or added to, only if an
earlier job wrote it. A Parquet file says so in its metadata, a page in its head, a CSV file by the
columns that it begins with, and a log by its first line.
"""

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from shearshap.errors import InputError
from shearshap.report import GENERATOR
from shearshap.store import LONGEST_NAME, shortened

WRITTEN = (".parquet", ".pq", ".csv")
METADATA = b"shearshap"  #: the key of the facts, as JSON, in a Parquet file's metadata
HEAD = 4096  #: bytes of a page within which its generator is named
SPACE = 65536  #: bytes that a disk must have left
MAX_LINE = 1 << 16  #: bytes of a log's first line

FilesRead = Sequence[tuple[str, Path]]
"""Files and folders that are read, each with what it is in words."""


def check_out(path: Path, inputs: FilesRead, *, overwrite: bool = False) -> None:
    """Raise where an explanation cannot be written to a path, before any work is done.

    For the other arguments, see `check_place`.
    """
    check_suffix(path)
    check_place(path, "out", inputs, overwrite=overwrite)
    check_place(beside(path, "partial"), "out", inputs, overwrite=overwrite)


def check_suffix(path: Path) -> None:
    """Raise if a name is not that of a file of values."""
    if path.suffix.lower() not in WRITTEN:
        raise InputError(
            f"out: expected a file that ends in {', '.join(WRITTEN)}, or for a large job a folder, "
            f"with / at its end; got {path}"
        )


def beside(out: Path, what: str) -> Path:
    """Return a file beside `out`: values.partial.parquet, with the rows that were done."""
    ending = f".{what}{out.suffix}"
    return out.with_name(shortened(out.stem, LONGEST_NAME - len(ending)) + ending)


def check_place(path: Path, what: str, inputs: FilesRead, *, overwrite: bool = False) -> None:
    """Raise where a file cannot be written, or would replace one that must stay.

    Parameters
    ----------
    path
        The file to be written.
    what
        The first word of every error.
    inputs
        What is read. It is never replaced, and nothing is written into its folders.
    overwrite
        Whether to replace a file that no job has written.
    """
    _check_name(path, what)
    check_apart(path, what, inputs)
    if not path.parent.is_dir():
        raise InputError(f"{what}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{what}: {path} is a folder; wanted the name of a file")
    if path.exists():
        _check_replaced(path, what, overwrite=overwrite)
    _check_folder(path.parent, what)


def check_apart(path: Path, what: str, inputs: FilesRead) -> None:
    """Raise if what is written is read too, is in a folder that is read, or holds what is read."""
    place = path.resolve()
    for name, file in inputs:
        read = file.resolve()
        if place == read or (path.exists() and file.exists() and path.samefile(file)):
            raise InputError(
                f"{what}: {path} is {name}, and would be overwritten; choose another name"
            )
        if file.is_dir() and place.is_relative_to(read):
            raise InputError(f"{what}: {path} is in the folder of {name}; choose another place")
        if path.is_dir() and read.is_relative_to(place):
            raise InputError(f"{what}: {path} holds {name}, {file}; choose another folder")


def check_log(path: Path, inputs: FilesRead) -> None:
    """Raise if lines of a log cannot be added to a path, before any work is done."""
    is_device = path.exists() and not path.is_file() and not path.is_dir()
    if not is_device:  # /dev/null, for one, has nothing to lose
        check_place(path, "log", inputs)


def _check_name(path: Path, what: str) -> None:
    """Raise where no file can have this name."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:  # such as a name that is too long
        raise InputError(f"{what}: {path} cannot be written: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{what}: {str(path)!r} is not a valid file name: {error}") from error


def _check_replaced(path: Path, what: str, *, overwrite: bool) -> None:
    """Raise where the file that is there must stay."""
    if not path.is_file():
        raise InputError(f"{what}: {path} is not a regular file; choose another name")
    if not os.access(path, os.W_OK):
        raise InputError(f"{what}: {path} is write-protected; choose another name")
    is_log = what == "log"
    if not overwrite and not is_ours(path, is_log=is_log):
        way_out = "" if is_log else ", or replace it with --overwrite"
        raise InputError(
            f"{what}: {path} is there already, and was not written by shear explain; choose "
            f"another name{way_out}"
        )


def _check_folder(folder: Path, what: str) -> None:
    """Raise where a folder takes no files, or its disk is full."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(SPACE))
    except OSError as error:
        raise InputError(
            f"{what}: nothing can be written to the folder {folder}: {error.strerror}"
        ) from error


def is_ours(path: Path, *, is_log: bool = False) -> bool:
    """Return whether a file was written by a job, or is empty."""
    if not path.stat().st_size:
        return True
    if is_log:
        return _is_our_log(path)
    suffix = path.suffix.lower()
    if suffix == ".html":
        return _is_our_page(path)
    return _is_our_csv(path) if suffix == ".csv" else _is_our_parquet(path)


def _is_our_log(path: Path) -> bool:
    with path.open("rb") as file:
        line = file.readline(MAX_LINE)
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and {"shard", "first_row", "worker"} <= set(entry)


def _is_our_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HEAD)
    return f'<meta name="generator" content="{GENERATOR}'.encode() in head


def _is_our_parquet(path: Path) -> bool:
    import pyarrow as pa
    from pyarrow import parquet as pq

    try:
        metadata = pq.read_schema(path).metadata
    except (pa.ArrowException, OSError):
        return False
    return METADATA in (metadata or {})


def _is_our_csv(path: Path) -> bool:
    """Return whether the header is that of values, or that of interactions.

    label, base_value, ..., evaluations, ..., value.<player>, ...; or row, output, player, other.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        try:
            names = next(csv.reader(file), [])
        except csv.Error:
            return False
    starts = [name.partition(".")[0] for name in names]
    of_values = starts[1:2] == ["base_value"] and {"evaluations", "value"} <= set(starts)
    return of_values or names == ["row", "output", "player", "other", "value"]
