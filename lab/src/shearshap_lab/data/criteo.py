"""Criteo's display advertising data, from the user's own file.

Criteo's data may not be passed on. The file is the training file of the Kaggle "Display Advertising
Challenge" (train.txt), or the small sample of it (dac_sample.txt), plain or gzipped: tab separated,
a label, 13 integers and 26 categories in hexadecimal, any of them blank.
"""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.data.background import mode
from shearshap.errors import InputError
from shearshap_lab.data.dataset import MISSING, Dataset, Encoder, split

NUMBERS = tuple(f"I{n}" for n in range(1, 14))
CATEGORIES = tuple(f"C{n}" for n in range(1, 27))
FEATURES = len(NUMBERS) + len(CATEGORIES)
FIELDS = 1 + FEATURES
ROWS = 100_000
MIN_ROWS = 10  #: rows, so that one is left for validation and one for testing
RARE = 5  #: categories seen less often in training share one embedding
GZIP = b"\x1f\x8b"  #: how a gzipped file begins

TITLE = "Criteo Display Advertising Challenge, a sample"
WHERE = (
    "Criteo's data cannot be shipped: download the Kaggle 'Display Advertising Challenge' data set "
    "from the Criteo AI Lab's data sets page, and pass its train.txt or dac_sample.txt (plain or "
    ".gz) as path"
)


def load(path: Path | str | None, seed: int, rows: int = ROWS) -> Dataset:
    """Return a sample of the user's own file: numbers on a log scale, categories by index."""
    lines = sample(check_file(path), rows, seed)
    if len(lines) < MIN_ROWS:
        raise InputError(f"criteo: expected at least {MIN_ROWS} rows, got {len(lines)} in {path}")
    cells = np.array([line.rstrip("\n").split("\t") for line in lines])
    labels = (cells[:, 0] == "1").astype(np.int64)
    cells = cells[:, 1:]
    held_out = len(labels) // 10
    train, validation, test = split(labels, held_out, held_out, seed)

    frame: dict[str, NDArray[Any]] = {}
    for column, values in zip((*NUMBERS, *CATEGORIES), cells.T, strict=True):
        frame[column] = _numbers(column, values) if column in NUMBERS else values
    training_rows = {column: values[train] for column, values in frame.items()}
    encoder = Encoder.fit(
        training_rows, NUMBERS, style="index", fill=True, logarithmic=True, at_least=RARE
    )
    inputs = encoder.encode(frame)
    # the mean of each number and the mode of each category, whose mean is no category
    numbers, categories = np.split(inputs[train], [len(NUMBERS)], axis=1)
    modes = mode(categories, np.arange(len(CATEGORIES)))
    background = np.concatenate((numbers.mean(axis=0), modes)).astype(np.float32)
    return Dataset(
        name="criteo",
        title=TITLE,
        inputs=inputs,
        labels=labels,
        classes=("no click", "click"),
        groups=encoder.groups,
        display=np.where(cells == "", MISSING, cells).astype(object),
        encoder=encoder,
        train=train,
        validation=validation,
        test=test,
        background=background,
        source="Criteo AI Lab; the user's own copy",
        meanings={"": MISSING},
    )


def check_file(path: Path | str | None) -> Path:
    """Return the path of the user's file, or raise if there is none."""
    if path is None:
        raise InputError(f"criteo: no file was given. {WHERE}")
    if not Path(path).is_file():
        raise InputError(f"criteo: there is no file {str(path)!r}. {WHERE}")
    return Path(path)


def sample(path: Path, rows: int, seed: int) -> list[str]:
    """Return a uniform sample of a file's lines, in their order."""
    with path.open("rb") as binary:
        opened = gzip.open if binary.read(2) == GZIP else open
    try:
        with opened(path, "rt", encoding="ascii") as lines:
            total = sum(1 for _ in lines)
        chosen = np.random.default_rng(seed).choice(total, min(rows, total), replace=False)
        # the last line is checked even if it was not sampled: a truncated file breaks off there
        wanted = {total - 1, *chosen.tolist()}
        with opened(path, "rt", encoding="ascii") as lines:
            found = {number: line for number, line in enumerate(lines) if number in wanted}
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"criteo: {path} is truncated or damaged ({error}); download it again"
        ) from error
    for number, line in found.items():
        _check(path, number, line)
    return [found[number] for number in sorted(chosen.tolist())]


def _check(path: Path, number: int, line: str) -> None:
    fields = line.rstrip("\n").split("\t")
    if len(fields) != FIELDS or fields[0] not in ("0", "1"):
        raise InputError(
            f"criteo: line {number + 1} of {path} has {len(fields)} fields beginning with "
            f"{fields[0][:20]!r}; expected {FIELDS}, tab separated: a label 0 or 1, 13 integers, "
            "26 categories. Is the file truncated?"
        )


def _numbers(column: str, cells: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return a column of numbers; a blank one is NaN."""
    try:
        return np.where(cells == "", "nan", cells).astype(np.float64)
    except ValueError as error:
        raise InputError(
            f"criteo: column {column} must hold integers or blanks: {error}"
        ) from error
