"""Files and folders at paths of this machine and at URLs of object stores and of HDFS.

    data = place("s3://bucket/rows")
    for file, size in files_below(data, (".parquet",)):
        with opened(file) as source: ...
    with written_whole(place("s3://bucket/values.parquet")) as partial: ...

Only this module knows where a place lies; all others ask its functions. pyarrow's filesystems open
URLs, and find their credentials and endpoints by the environment, or in the URL.

An object store has no folders: a folder is all that begins with its name, and is not made. An
object appears whole or not at all, since it is written to a file of this machine first, and sent
when it is complete: pyarrow's streams cannot be given up.

What goes wrong at a URL is an `OSError` as at a path, with an `errno` and a `strerror` in words;
`errors_of` raises both as `InputError`.
"""

import errno
import os
import re
import signal
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from secrets import token_hex
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, copy_files

from shearshap import store
from shearshap.apps.jobs.urls import OBJECT_STORES, Place, Url, is_utf8, without_secrets
from shearshap.errors import InputError

HIDDEN = (".", "_")  #: how names begin that readers of folders leave out
CHUNK = 1 << 24  #: bytes that are copied at once
SPACE = 65536  #: bytes that a disk must have left
TRIAL = ".may-write.partial"  #: an object that shows that others can be written

S3_ERROR = re.compile(r"AWS Error (\w+) during (\w+) operation(?:.*Details: (.*))?", re.DOTALL)
S3_REASONS = {
    "ACCESS_DENIED": (errno.EACCES, "access denied"),
    "EXPIRED_TOKEN": (errno.EACCES, "the credentials have expired"),
    "INVALID_ACCESS_KEY_ID": (errno.EACCES, "the access key is not known"),
    "SIGNATURE_DOES_NOT_MATCH": (errno.EACCES, "the secret key is not accepted"),
    "NETWORK_CONNECTION": (errno.EHOSTUNREACH, "the server cannot be reached"),
    "NO_SUCH_BUCKET": (errno.ENOENT, "there is no such bucket"),
    "NO_SUCH_KEY": (errno.ENOENT, "there is no such object"),
}
MAX_REASON = 300  #: characters of another library's message that are repeated


# Looking


def exists(place: Place) -> bool:
    """Return whether there is a file or folder."""
    return place.exists() if isinstance(place, Path) else _type(place) != FileType.NotFound


def is_folder(place: Place) -> bool:
    """Return whether this is a folder; in an object store, whether anything is in it."""
    return place.is_dir() if isinstance(place, Path) else _type(place) == FileType.Directory


def is_file(place: Place) -> bool:
    """Return whether this is a file, or an object."""
    return place.is_file() if isinstance(place, Path) else _type(place) == FileType.File


def size(place: Place) -> int:
    """Return the bytes of a file."""
    if isinstance(place, Path):
        return place.stat().st_size
    info = _info(place)
    if info.type != FileType.File:
        raise _no_such_file(place)
    return int(info.size)


def same(one: Place, other: Place) -> bool:
    """Return whether two places are the same file or folder, by whatever names."""
    if isinstance(one, Path) and isinstance(other, Path):
        is_same = one.resolve() == other.resolve()
        return is_same or (one.exists() and other.exists() and one.samefile(other))
    return _identity(one) == _identity(other)


def is_within(place: Place, folder: Place) -> bool:
    """Return whether a place is a folder, or would be in it."""
    if isinstance(place, Path) and isinstance(folder, Path):
        return place.resolve().is_relative_to(folder.resolve())
    store, key = _identity(place)
    other, parent = _identity(folder)
    return store == other and PurePosixPath(key).is_relative_to(parent)


def _identity(place: Place) -> tuple[str, str]:
    """Return what is the same of all names of a place; two accounts' buckets pass for the same."""
    if isinstance(place, Path):
        return "file", str(place.resolve())
    with _errors_in_words(place):
        system, path = _opened_system(place)
        return system.type_name, path


def _type(url: Url) -> Any:
    return _info(url).type


def _info(url: Url) -> Any:
    with _errors_in_words(url):
        system, path = _opened_system(url)
        return system.get_file_info(path)


def has_parent(place: Place) -> bool:
    """Return whether the folder of a file is there; in a store it need not be."""
    return not isinstance(place, Path) or place.parent.is_dir()


def is_replaceable(place: Place) -> bool:
    """Return whether a file that is there can be written to, as far as can be seen."""
    return not isinstance(place, Path) or (place.is_file() and os.access(place, os.W_OK))


def check_writable(folder: Place) -> None:
    """Raise an `OSError` if no file can be written to a folder.

    A store is asked by a small object, which is removed if it may be.
    """
    if isinstance(folder, Path):
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(SPACE))
        return
    trial = folder / TRIAL
    with written_whole(trial) as partial:
        partial.touch()
    with suppress(PermissionError):
        remove(trial)


def names_in(folder: Place) -> list[str]:
    """Return the names of all files and folders in a folder, also hidden ones, sorted."""
    if isinstance(folder, Path):
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    with _errors_in_words(folder):
        system, path = _opened_system(folder)
        found = system.get_file_info(FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in found)


def absolute(place: Place) -> Place:
    """Return the place by a name that does not depend on the current folder."""
    return place.absolute() if isinstance(place, Path) else place


def files_below(
    folder: Place, suffixes: Iterable[str], what: str = "data"
) -> list[tuple[Place, int]]:
    """Return the files in a folder and below that have such endings, sorted, with their sizes.

    Hidden files and folders are left out, as by other readers. Links count; what has several names
    is there once.
    Whatever cannot be looked at is an `InputError`, which begins with `what`: no file that counts
    is missing from the list.
    """
    endings = tuple(suffixes)
    with errors_of(folder, what):
        if isinstance(folder, Path):
            paths = [path for path in _walked(folder, what) if path.suffix.lower() in endings]
            files: dict[tuple[int, int], tuple[Place, int]] = {}
            for path in sorted(paths, key=lambda each: (each.is_symlink(), each)):
                status = _regular(path, what)
                files.setdefault((status.st_dev, status.st_ino), (path, status.st_size))
            return sorted(files.values())
        found = [
            (PurePosixPath(name), size)
            for name, size in _listed(folder)
            if PurePosixPath(name).suffix.lower() in endings and not _is_hidden(name)
        ]
        return [(folder / str(name), size) for name, size in sorted(found)]


def _walked(folder: Path, what: str) -> Iterator[Path]:
    """Yield what is in a folder of this machine and below and is no folder."""
    seen = set()  # a link may lead back up, and every folder is read once

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, followlinks=True, onerror=fail):
        real = os.path.realpath(parent)
        is_new = real not in seen
        seen.add(real)
        folders[:] = sorted(name for name in folders if is_new and not name.startswith(HIDDEN))
        for name in names if is_new else ():
            if name.startswith(HIDDEN):
                continue
            path = Path(parent, name)
            if not is_utf8(name):
                raise InputError(f"{what}: the name {str(path)!r} is not UTF-8; rename it")
            if path.is_symlink() and not path.exists():
                raise InputError(f"{what}: {path} is a link to nothing; remove it")
            yield path


def _regular(path: Path, what: str) -> os.stat_result:
    """Return facts about a file; a pipe, from which nothing may ever come, is an error."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{what}: {path} is not a file but a pipe, socket or device; remove it")
    return status


def _listed(folder: Url) -> Iterator[tuple[str, int]]:
    """Yield the names of all files below a folder, with their sizes."""
    with _errors_in_words(folder):
        system, path = _opened_system(folder)
        infos = system.get_file_info(FileSelector(path, recursive=True))
    for info in infos:
        if info.type == FileType.File:
            yield info.path.removeprefix(path).lstrip("/"), info.size


def _is_hidden(name: str) -> bool:
    return any(part.startswith(HIDDEN) for part in name.split("/"))


# Reading and writing


def all_files(folder: Place) -> list[Place]:
    """Return all files in a folder and below, hidden ones too."""
    if isinstance(folder, Path):
        return [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [folder / name for name, _ in sorted(_listed(folder))]


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    """Open a file to read it, from any position, and close it: a file of pyarrow."""
    if isinstance(place, Path):
        if not stat.S_ISREG(place.stat().st_mode):  # nothing may ever come from a pipe
            raise OSError(errno.EINVAL, "not a file", os.fspath(place))
        with pa.OSFile(os.fspath(place)) as file:
            yield file
        return
    with _errors_in_words(place):
        system, path = _opened_system(place)
        with system.open_input_file(path) as file:
            yield file


@contextmanager
def local(place: Place) -> Iterator[Path]:
    """Yield a file or folder of this machine that has the same content and name.

    A path is yielded itself. Of a URL it is a copy, which is removed afterwards.
    """
    if isinstance(place, Path):
        yield place
        return
    with TemporaryDirectory(prefix="shear-") as folder:
        copy = Path(folder, place.name or "bucket")
        with _errors_in_words(place):
            system, path = _opened_system(place)
            if system.get_file_info(path).type == FileType.NotFound:
                raise _no_such_file(place)
            copy_files(
                path,
                str(copy),
                source_filesystem=system,
                destination_filesystem=LocalFileSystem(),
                chunk_size=CHUNK,
            )
        yield copy


@contextmanager
def written_whole(place: Place) -> Iterator[Path]:
    """Yield the name to write a file to; once complete, it is in its place.

    What was there before is replaced. If an error is raised, nothing changes. See
    `shearshap.store.written_whole` for paths; a URL's file waits in the folder of temporary files.
    """
    if isinstance(place, Path):
        with store.written_whole(place) as partial:
            yield partial
        return
    with TemporaryDirectory(prefix="shear-") as folder:
        partial = Path(folder, place.name)
        yield partial
        _send(partial, place)


def _send(file: Path, url: Url) -> None:
    """Send a complete file to a store.

    pyarrow finishes an object that it has begun, whatever happens meanwhile: a Ctrl-C would leave
    part of the file.
    """
    with _errors_in_words(url), _interrupted_later():
        _sent(file, url)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM, which reach only the main thread, until the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))
    }
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _sent(file: Path, url: Url) -> None:
    system, path = _opened_system(url)
    if url.scheme in OBJECT_STORES:
        _write(file, system, path)
        return
    # in HDFS a file is there while it is written
    partial = str(PurePosixPath(path).with_name(f".{token_hex(6)}.partial"))
    try:
        _write(file, system, partial)
        system.move(partial, path)
    except BaseException:
        with suppress(OSError):
            system.delete_file(partial)
        raise


def _write(file: Path, system: Any, path: str) -> None:
    """Write a file to a filesystem in one call, from which errors come back in `close`."""
    stream = system.open_output_stream(path)
    if file.stat().st_size:
        with pa.memory_map(str(file)) as source:
            stream.write(source.read_buffer())
    stream.close()


def remove(place: Place) -> None:
    """Remove a file, if it is there.

    In an object store pyarrow leaves an empty object with the folder's name, as for a new folder.
    """
    if isinstance(place, Path):
        place.unlink(missing_ok=True)
        return
    with _errors_in_words(place), suppress(FileNotFoundError):
        system, path = _opened_system(place)
        system.delete_file(path)


# The filesystem of a URL


def _opened_system(url: Url) -> tuple[Any, str]:
    """Return the filesystem of a URL, and the name that a place has in it."""
    query = f"?{url.query}" if url.query else ""
    root = f"{url.scheme}://{url.authority}/{query}"
    try:
        system, base = _system(root, os.getpid())
    except (pa.ArrowException, ValueError) as error:
        words = str(error).replace(root, without_secrets(root))
        # without the cause, whose text has the keys
        raise OSError(errno.EINVAL, _first_line(words), str(url)) from None
    if not url.key or base in ("", "/"):
        return system, base + url.key
    return system, f"{base}/{url.key}"


@lru_cache(maxsize=64)
def _system(root: str, process: int) -> tuple[Any, str]:
    """Return the filesystem of a bucket or host, and its name there; each process has its own.

    A process that was forked must not use the connections of another.
    """
    del process
    system, base = FileSystem.from_uri(root)
    return system, base


# Errors


@contextmanager
def errors_of(place: Place, what: str, done: str = "read") -> Iterator[None]:
    """Raise what goes wrong at a place as an `InputError`, which begins with `what`.

    `done` is what cannot be done: "read" or "written".
    """
    try:
        with _errors_in_words(place):
            yield
    except OSError as error:
        raise InputError(f"{what}: {place} cannot be {done}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Return why something went wrong, in one line."""
    return _first_line(getattr(error, "strerror", None) or str(error))


@contextmanager
def _errors_in_words(place: Place) -> Iterator[None]:
    """Raise an error of pyarrow about a URL as that of a path would be, with an errno and words."""
    try:
        yield
    except OSError as error:
        if isinstance(place, Path) or error.filename is not None:
            raise
        if isinstance(error, FileNotFoundError):
            raise _no_such_file(place) from error
        found = S3_ERROR.search(str(error))
        if found is None:
            raise
        code, operation, details = found.groups()
        number, words = S3_REASONS.get(code, (errno.EIO, f"the store answered {code}"))
        words = f"{words} ({_first_line(details or operation)})"
        raise OSError(number, words, str(place)) from error


def _no_such_file(url: Url) -> OSError:
    return FileNotFoundError(errno.ENOENT, "there is no such file or folder", str(url))


def _first_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:MAX_REASON] if lines else ""
