"""Files and folders that are written whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield the name to write a file or a folder to; only what was written without an error takes
    the path's own name.

    What lay there before is replaced. The folder above is made where it is missing. What is being
    written ends in .partial; it goes when an error is raised, and stays only where the process was
    killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    _remove(partial)
    try:
        yield partial
    except BaseException:
        _remove(partial)
        raise
    if partial.is_dir():
        _remove(path)
    partial.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
