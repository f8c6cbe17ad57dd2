"""Criteo's display advertising data, from the user's own file.

Criteo's data may not be passed on. The file is the training file of the Kaggle "Display Advertising
Challenge" (train.txt), or the small sample of it (dac_sample.txt), plain or gzipped: tab separated,
a label, 13 integers and 26 categories in hexadecimal, any of them blank.
"""

import gzip
import math
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.data.background import mode
from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap_lab.data.dataset import MISSING, Dataset, split
from shearshap_lab.data.encoder import Encoder

NUMBERS = tuple(f"I{n}" for n in range(1, 14))
CATEGORIES = tuple(f"C{n}" for n in range(1, 27))
FEATURES = len(NUMBERS) + len(CATEGORIES)
FIELDS = 1 + FEATURES
ROWS = 100_000
FEWEST = 10  #: rows, so that one is left for validation and one for testing
RARE = 5  #: categories seen less often in training share one embedding
GZIP = b"\x1f\x8b"  #: how a gzipped file begins

TITLE = "Criteo Display Advertising Challenge, a sample"
WHERE = (
    "Criteo's data cannot be shipped: download the Kaggle 'Display Advertising Challenge' data set "
    "from the Criteo AI Lab's data sets page, and pass its train.txt or dac_sample.txt (plain or "
    ".gz) as path"
)


def load(path: Path | str | None, seed: int, rows: int = ROWS) -> Dataset:
    """Return a sample of the user's own file."""
    lines = sample(check_file(path), rows, seed)
    if len(lines) < FEWEST:
        raise InputError(
            f"criteo: {path} has {len(lines)} rows; wanted at least {FEWEST}, to split them"
        )
    cells = np.array([_fields(line) for line in lines])
    return _dataset(cells, seed)


def check_file(path: Path | str | None) -> Path:
    """Return the path of the user's file, or raise if there is none."""
    if path is None:
        raise InputError(f"criteo: no file was given. {WHERE}")
    if not Path(path).is_file():
        raise InputError(f"criteo: there is no file {str(path)!r}. {WHERE}")
    return Path(path)


def sample(path: Path, rows: int, seed: int) -> list[str]:
    """Return a uniform sample of a file's lines in one pass, holding no more than the sample.

    This is Li's algorithm L (1994): instead of a draw for every line, it draws how many lines to
    skip before the next one that replaces a line of the sample.
    """
    rng = np.random.default_rng(seed)
    with _lines(path) as lines, progress_bar(None, unit=" lines", unit_scale=True) as bar:
        numbered = enumerate(lines)
        sampled = list(islice(numbered, rows))
        if not sampled:
            raise InputError(f"criteo: {path} is empty")

        last = sampled[-1]  # the last line read
        weight = 1.0
        while len(sampled) == rows:
            weight *= math.exp(math.log(1 - rng.random()) / rows)
            ahead = 1 + math.floor(math.log(1 - rng.random()) / math.log1p(-weight))
            wanted = last[0] + ahead
            skipped = deque(islice(numbered, ahead), maxlen=1)
            if skipped:
                last = skipped[0]
            bar.update(ahead)
            if last[0] < wanted:
                break  # the file is at its end
            sampled[int(rng.integers(rows))] = last

    # the last line is checked even if it was not sampled: a truncated file breaks off there
    for number, line in (*sampled, last):
        _check(path, number, line)
    return [line for _, line in sampled]


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a plain or gzipped text file; a damaged one raises an InputError."""
    with path.open("rb") as binary:
        packed = binary.read(2) == GZIP
    opened = gzip.open if packed else open
    try:
        with opened(path, "rt", encoding="ascii") as lines:
            yield lines
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"criteo: {path} is truncated or damaged ({error}); download it again"
        ) from error


def _fields(line: str) -> list[str]:
    return line.rstrip("\n").split("\t")


def _check(path: Path, number: int, line: str) -> None:
    fields = _fields(line)
    if len(fields) != FIELDS or fields[0] not in ("0", "1"):
        raise InputError(
            f"criteo: line {number + 1} of {path} has {len(fields)} fields beginning with "
            f"{fields[0][:20]!r}; wanted {FIELDS}, tab separated: a label 0 or 1, 13 integers, "
            "26 categories. Is the file truncated?"
        )


def _dataset(cells: NDArray[Any], seed: int) -> Dataset:
    """Return the data set of text cells (n, 40): numbers on a log scale, categories by index."""
    labels = (cells[:, 0] == "1").astype(np.int64)
    held_out = len(labels) // 10
    train, validation, test = split(labels, held_out, held_out, seed)

    frame = _frame(cells[:, 1:])
    training_rows = {column: values[train] for column, values in frame.items()}
    encoder = Encoder.fit(
        training_rows, NUMBERS, style="index", fill=True, logarithmic=True, at_least=RARE
    )
    inputs = encoder.encode(frame)

    return Dataset(
        name="criteo",
        title=TITLE,
        inputs=inputs,
        labels=labels,
        classes=("no click", "click"),
        groups=encoder.groups,
        display=np.where(cells[:, 1:] == "", MISSING, cells[:, 1:]).astype(object),
        encoder=encoder,
        train=train,
        validation=validation,
        test=test,
        background=_background(inputs[train]),
        source="Criteo AI Lab; the user's own copy",
        meanings={"": MISSING},
    )


def _frame(cells: NDArray[np.str_]) -> dict[str, NDArray[Any]]:
    """Return the columns of text cells (n, 39) by name; a blank number is NaN."""
    frame: dict[str, NDArray[Any]] = {}
    for column, values in zip((*NUMBERS, *CATEGORIES), cells.T, strict=True):
        frame[column] = _numbers(column, values) if column in NUMBERS else values
    return frame


def _numbers(column: str, cells: NDArray[np.str_]) -> NDArray[np.float64]:
    try:
        return np.where(cells == "", "nan", cells).astype(np.float64)
    except ValueError as error:
        raise InputError(
            f"criteo: column {column} must hold integers or blanks: {error}"
        ) from error


def _background(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of each number and the mode of each category, whose mean is no category."""
    numbers, categories = np.split(inputs, [len(NUMBERS)], axis=1)
    modes = mode(categories, np.arange(len(CATEGORIES)))
    return np.concatenate((numbers.mean(axis=0), modes)).astype(np.float32)
