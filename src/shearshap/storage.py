"""Files that are written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield the name to write to; only what was written without an error takes the path's own name.

    The folder is made where it is missing. A file that is being written ends in .partial, and one that broke off stays
    so named.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    yield partial
    partial.replace(path)
