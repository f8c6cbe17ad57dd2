"""A look at all bytes of a CSV file, which costs little beside reading its cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CHUNK = 2**20  #: bytes that are looked at together; they fit into a processor's cache
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BESIDE = np.isin(np.arange(256), list(b',\n\r"'))  #: by byte: whether it may stand beside a cell

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Content:
    """What the bytes of a file show."""

    size: int
    quotes: int  #: how many there are
    has_tidy_quotes: bool  #: whether every quoted cell begins and ends with its quotes
    nul: int | None  #: where the first NUL byte is
    has_hexadecimals: bool  #: whether there may be a number such as 0x1f

    @classmethod
    def of(cls, path: Path) -> "Content":
        """Return what the bytes of a file show."""
        quotes = 0
        is_tidy = True
        nul = None
        has_hexadecimals = False
        for window in _windows(path):
            if nul is None and b"\0" in window.text:
                nul = window.start + window.text.index(b"\0")
            has_hexadecimals = has_hexadecimals or _has_hexadecimals(window)
            if b'"' in window.text:
                places = np.flatnonzero(window.cells == ord('"'))
                is_tidy = is_tidy and _are_tidy(window, places, quotes)
                quotes += len(places)

        return cls(path.stat().st_size, quotes, is_tidy and quotes % 2 == 0, nul, has_hexadecimals)


def has_end(path: Path) -> bool:
    """Return whether the last line of a file ends like a line; an empty file has no line to cut."""
    if not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() in (b"\n", b"\r")


def has_leading_zeros(path: Path) -> bool:
    """Return whether a cell may begin with 0 and another digit."""
    return any(_has_leading_zeros(window) for window in _windows(path))


@dataclass(frozen=True)
class _Window:
    """A chunk of a file, and the bytes before and after each of its bytes."""

    start: int
    text: bytes
    cells: Bytes  #: (n,)
    before: Bytes  #: (n,)
    after: Bytes  #: (n,)


def _windows(path: Path) -> Iterator[_Window]:
    """Yield the chunks of a file, as if it stood between two ends of lines."""
    with path.open("rb") as file:
        before = b"\n"
        start = 0
        chunk = file.read(CHUNK)
        if chunk.startswith(BYTE_ORDER_MARK):
            chunk = b"\n\n\n" + chunk[3:]
        while chunk:
            following = file.read(CHUNK)
            window = np.frombuffer(before + chunk + (following[:1] or b"\n"), dtype=np.uint8)
            yield _Window(start, chunk, window[1:-1], window[:-2], window[2:])
            before = chunk[-1:]
            start += len(chunk)
            chunk = following


def _has_hexadecimals(window: _Window) -> bool:
    if b"0" not in window.text:
        return False
    is_letter = (window.after == ord("x")) | (window.after == ord("X"))
    return bool((is_letter & (window.cells == ord("0"))).any())


def _has_leading_zeros(window: _Window) -> bool:
    begins = window.before <= ord(",")  # blanks, ends of lines, quotes and commas
    has_digit = (window.after >= ord("0")) & (window.after <= ord("9"))
    return bool((begins & (window.cells == ord("0")) & has_digit).any())


def _are_tidy(window: _Window, places: NDArray[np.int64], known: int) -> bool:
    """Return whether quotes, after `known` others, open and close whole cells in turn.

    In 1,"say ""hi"" twice",2 they are the first and the last. Those in between are pairs, of which
    one closes the cell and the other opens it again.
    """
    opening = places[known % 2 :: 2]
    closing = places[1 - known % 2 :: 2]
    return bool(BESIDE[window.before[opening]].all() and BESIDE[window.after[closing]].all())
