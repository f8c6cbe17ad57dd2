"""Criteo's display advertising data: the user's own file, and synthetic data of the same schema.

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

from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap.inputs.background import mode
from shearshap.paper.data.dataset import Dataset, Encoder, split

NUMBERS = tuple(f"I{n}" for n in range(1, 14))
CATEGORIES = tuple(f"C{n}" for n in range(1, 27))
FEATURES = len(NUMBERS) + len(CATEGORIES)
FIELDS = 1 + FEATURES
ROWS = 100_000
FEWEST = 10  #: rows, so that one is left for validation and one for testing
RARE = 5  #: categories seen less often in training share one embedding

TITLE = "Criteo Display Advertising Challenge, a sample"
SYNTHETIC_TITLE = "synthetic data of Criteo's schema, with planted interactions (not Criteo's data)"
WHERE = (
    "Criteo's data cannot be shipped: download the Kaggle 'Display Advertising Challenge' data "
    "set from the "
    "Criteo AI Lab's data sets page, and pass its train.txt or dac_sample.txt (plain or .gz) as "
    "path"
)


def load(path: Path | str | None, seed: int, rows: int = ROWS) -> Dataset:
    """Return a sample of the user's own file."""
    if path is None:
        raise InputError(f"criteo: no file was given. {WHERE}")
    if not Path(path).is_file():
        raise InputError(f"criteo: there is no file {str(path)!r}. {WHERE}")
    lines = sample(Path(path), rows, seed)
    if len(lines) < FEWEST:
        raise InputError(
            f"criteo: {path} has {len(lines)} rows; wanted at least {FEWEST}, to split them"
        )
    cells = np.array([line.rstrip("\n").split("\t") for line in lines])
    return _dataset("criteo", TITLE, cells, seed, "Criteo AI Lab; the user's own copy")


def sample(path: Path, rows: int, seed: int) -> list[str]:
    """Return a uniform sample of a file's lines in one pass, holding no more than the sample (Li's
    algorithm L).
    """
    rng = np.random.default_rng(seed)
    with _lines(path) as lines, progress_bar(None, unit=" lines", unit_scale=True) as bar:
        numbered = enumerate(lines)
        kept = list(islice(numbered, rows))
        last = kept[-1:]
        weight = 1.0
        while len(kept) == rows:
            weight *= math.exp(math.log(1 - rng.random()) / rows)
            ahead = 1 + math.floor(math.log(1 - rng.random()) / math.log1p(-weight))
            wanted = last[0][0] + ahead
            last = list(deque(islice(numbered, ahead), maxlen=1)) or last
            bar.update(ahead)
            if last[0][0] < wanted:
                break
            kept[int(rng.integers(rows))] = last[0]
    if not kept:
        raise InputError(f"criteo: {path} is empty")
    for number, line in (*kept, *last):
        _check(path, number, line)
    return [line for _, line in kept]


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a plain or gzipped text file; a gzip file that breaks off is an error of ours."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    try:
        with (
            gzip.open(path, "rt", encoding="ascii")
            if packed
            else path.open(encoding="ascii") as lines
        ):
            yield lines
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"criteo: {path} is truncated or damaged ({error}); download it again"
        ) from error


def _check(path: Path, number: int, line: str) -> None:
    fields = line.rstrip("\n").split("\t")
    if len(fields) != FIELDS or fields[0] not in ("0", "1"):
        raise InputError(
            f"criteo: line {number + 1} of {path} has {len(fields)} fields beginning with "
            f"{fields[0][:20]!r}; wanted "
            f"{FIELDS}, tab separated: a label 0 or 1, 13 integers, 26 categories. Is the file "
            "truncated?"
        )


def _dataset(
    name: str,
    title: str,
    cells: NDArray[Any],
    seed: int,
    source: str,
    planted: tuple[tuple[str, ...], ...] = (),
) -> Dataset:
    """Return the data set of text cells (n, 40): numbers on a log scale, categories by index."""
    labels = (cells[:, 0] == "1").astype(np.int64)
    held = len(labels) // 10
    train, validation, test = split(labels, held, held, seed)
    frame: dict[str, NDArray[Any]] = {
        column: log_scale(column, cells[:, 1 + n]) for n, column in enumerate(NUMBERS)
    } | {column: cells[:, 1 + len(NUMBERS) + n] for n, column in enumerate(CATEGORIES)}
    seen = {column: values[train] for column, values in frame.items()}
    encoder = Encoder.fit(seen, NUMBERS, style="index", fill=True, at_least=RARE)
    inputs = encoder.encode(frame)
    numbers, categories = np.split(inputs[train], [len(NUMBERS)], axis=1)
    reference = np.concatenate((numbers.mean(axis=0), mode(categories, np.arange(len(CATEGORIES)))))
    display = np.where(cells[:, 1:] == "", "missing", cells[:, 1:]).astype(object)
    return Dataset(
        name, title, inputs, labels, ("no click", "click"), encoder.groups, display, encoder,
        train, validation, test, reference.astype(np.float32), source, synthetic=bool(planted), planted=planted,
    )  # fmt: skip


def log_scale(column: str, cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return sign(x) log(1 + |x|) of counts that are skewed over many orders of magnitude; NaN
    where blank.
    """
    try:
        numbers = np.where(cells == "", "nan", cells).astype(np.float64)
    except ValueError as error:
        raise InputError(
            f"criteo: column {column} must hold integers or blanks: {error}"
        ) from error
    return np.asarray(np.sign(numbers) * np.log1p(np.abs(numbers)))


# Synthetic data

PAIRS = (("C1", "C2"), ("C3", "C4"), ("C5", "C6"), ("C7", "C8"), ("I1", "C9"), ("I2", "C10"))
TRIPLES = (("C11", "C12", "C13"), ("C14", "C15", "C16"))


def synthetic(seed: int, rows: int = ROWS) -> Dataset:
    """Return made-up data of Criteo's schema, with known interactions of order two and three.

    Skewed counts, a fifth of them missing; skewed categories of 4 to 2000 kinds, some blank. The
    log-odds of a click are a sum of single effects and, for each planted pair or triple, of a
    product of the features' hidden values.
    """
    rng = np.random.default_rng(seed)
    counts = np.floor(rng.lognormal(1.5, 1.5, size=(rows, len(NUMBERS))))
    kinds = np.array(
        [
            4,
            6,
            4,
            8,
            6,
            4,
            10,
            6,
            4,
            6,
            4,
            4,
            6,
            4,
            4,
            4,
            20,
            50,
            100,
            200,
            500,
            1000,
            2000,
            30,
            12,
            300,
        ]
    )
    drawn = np.stack([_skewed(rng, int(kind), rows) for kind in kinds], axis=1)
    hidden = {name: _standard(np.log1p(counts[:, n])) for n, name in enumerate(NUMBERS)}
    signs = [
        rng.permutation(np.arange(kind) % 2 * 2.0 - 1) for kind in kinds
    ]  # both signs, whatever the draw
    hidden |= {name: _standard(signs[n][drawn[:, n]]) for n, name in enumerate(CATEGORIES)}
    single = sum(rng.normal() * 0.2 * values for values in hidden.values())
    joint = sum(
        1.2 * np.prod([hidden[name] for name in names], axis=0) for names in (*PAIRS, *TRIPLES)
    )
    odds = single + joint - 1.2
    labels = rng.random(rows) < 1 / (1 + np.exp(-odds))
    numbers = np.where(rng.random(counts.shape) < 0.2, "", counts.astype(int).astype(str))
    names = np.char.mod("%08x", (drawn + 1) * 2654435761 % (1 << 32))
    blank = (rng.random(drawn.shape) < 0.02) & (np.arange(len(kinds)) >= 16)
    cells = np.column_stack((labels.astype(int).astype(str), numbers, np.where(blank, "", names)))
    return _dataset(
        "criteo-synthetic",
        SYNTHETIC_TITLE,
        cells,
        seed,
        "made by shearshap",
        planted=(*PAIRS, *TRIPLES),
    )


def _skewed(rng: np.random.Generator, kinds: int, rows: int) -> NDArray[np.int64]:
    """Draw categories whose frequencies fall like 1 / rank^0.7."""
    weight = 1 / np.arange(1, kinds + 1) ** 0.7
    return rng.choice(kinds, size=rows, p=weight / weight.sum())


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = values.std()
    return (values - values.mean()) / deviation if deviation else values
