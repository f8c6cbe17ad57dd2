"""Files and folders that are written whole or not at all, and stores of such files.

A store holds finished pieces of work, so that a run that was stopped goes on where it was:

    store = Store(Path("out"), "truth-0123456789abcdef")
    piece = store.piece("rows-00000.npz", compute, read=Explanation.load, write=Explanation.save)

The first time, `compute()` makes the piece, which is written to
out/truth-0123456789abcdef/rows-00000.npz. From then on the file is read. The key is a hash of
everything that the piece depends on: with another network or other rows it is another key.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shearshap.errors import InputError

Piece = TypeVar("Piece")


@dataclass(frozen=True)
class Store:
    """Pieces of finished work in folder/key, each in a file of its own."""

    folder: Path
    key: str

    def path(self, name: str) -> Path:
        """Return the file of a piece."""
        return self.folder / self.key / name

    def piece(
        self,
        name: str,
        compute: Callable[[], Piece],
        *,
        read: Callable[[Path], Piece],
        write: Callable[[Piece, Path], None],
    ) -> Piece:
        """Return a piece from its file; compute and write it if the file does not hold it.

        `read` raises InputError if a file is missing, damaged, or not the piece that is wanted.
        """
        path = self.path(name)
        try:
            return read(path)
        except InputError:
            piece = compute()
        with written_whole(path) as partial:
            write(piece, partial)
        return piece


def check_folder(folder: Path) -> None:
    """Raise if a folder for a run's files holds others; else make it, with its store of parts."""
    parts = folder / "parts"
    if folder.is_dir() and any(folder.iterdir()) and not parts.is_dir():
        raise InputError(
            f"out: {folder} is not empty, and holds no run of this command to continue; choose "
            "another folder"
        )
    parts.mkdir(parents=True, exist_ok=True)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield the name to write a file or a folder to; once complete, it takes the path's own name.

    What was there before is replaced, and the folder above is made if it is missing. If an
    error is raised, nothing changes. Every writer has its own name, such as
    `.3f9c2ab01d44.partial`: of two that write the same file, the last to finish wins.
    Only a process that was killed leaves such a name behind, and it is never read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _unique_name(path)
    try:
        yield partial
        _publish(partial, path)
    except BaseException:
        _remove(partial)
        raise


def _unique_name(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(6)}.partial")


def _publish(partial: Path, path: Path) -> None:
    """Give what was written its own name; a folder does not replace another one by itself."""
    if partial.is_dir():
        _remove(path)
    partial.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
