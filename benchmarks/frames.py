"""Frames of many columns beside arrays: seconds of one call, and their ratio to the array's.

    python benchmarks/frames.py                  every line
    python benchmarks/frames.py --columns 200    smaller frames

The models are linear, so that nearly all of the time is ours. Times are of the process, which
other programs on the machine change little; threads count, so set OMP_NUM_THREADS=1.
"""

import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from setting import Tables, machine, parser_of, seconds
from shearshap import Explainer

ROWS = 5
SOURCE = 100  #: rows of the background that a mean is taken of
REPEATS = 3
LIBRARIES = ("array", "pandas", "polars", "pyarrow")
SETTINGS = (("a row", "auto"), ("a row", "permutation"), ("mean", "permutation"))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--columns", type=int, default=1000)
    chosen = parser.parse_args()
    versions = f"pandas {pd.__version__}, polars {pl.__version__}, pyarrow {pa.__version__}"
    tables = Tables(f"{ROWS} rows; {versions}; {machine()}", chosen.csv)
    header = ["data", "method", "evaluations", *(f"{name}, s" for name in LIBRARIES)]
    header += [f"{name}, ratio" for name in LIBRARIES[1:]]
    lines = [
        line(name, frame, background, method)
        for name, frame in frames(chosen.columns).items()
        for background, method in SETTINGS
    ]
    tables.show("frames", header, lines)


def frames(columns: int) -> dict[str, pd.DataFrame]:
    """Return a frame of numbers, and one of numbers, integers, text and categories."""
    rng = np.random.default_rng(0)
    count = ROWS + SOURCE
    numbers = rng.normal(size=(count, columns))
    names = [f"c{number}" for number in range(columns)]
    mixed: dict[str, Any] = {}
    for number, name in enumerate(names):
        kind = number % 5
        if kind < 2:
            mixed[name] = np.where(rng.random(count) < 0.1 * kind, np.nan, numbers[:, number])
        elif kind == 2:
            mixed[name] = rng.integers(0, 9, count)
        elif kind == 3:
            mixed[name] = rng.choice(["Rome", "Oslo", "Bern"], count)
        else:
            mixed[name] = pd.Categorical(rng.choice(["low", "high"], count))
    return {
        f"{columns} columns of numbers": pd.DataFrame(numbers, columns=names),
        f"{columns} mixed columns": pd.DataFrame(mixed),
    }


def line(name: str, frame: pd.DataFrame, background: str, method: str) -> list[str]:
    """Return the times of a frame in each library, and their ratios to the array's."""
    width = frame.shape[1]
    budget = 2 * width + 2
    evaluations = 0
    times = []
    for library in LIBRARIES:
        rows, source = parts(frame, library)
        absent = ("mean", source) if background == "mean" else source[:1]
        explainer = Explainer(model, absent, method=method)
        evaluations = explainer(rows, budget=budget).evaluations
        run = partial(explainer, rows, budget=budget)
        times.append(seconds(run, repeats=REPEATS, clock=time.process_time))

    ratios = [f"{spent / times[0]:.1f}" for spent in times[1:]]
    title = f"{name}, background {background}"
    return [title, method, f"{evaluations:,}", *(f"{spent:.2f}" for spent in times), *ratios]


def parts(frame: pd.DataFrame, library: str) -> tuple[Any, Any]:
    """Return rows and background of a frame, as a library has them."""
    if library == "array":
        # of the same shape: an array has no text
        numbers = np.random.default_rng(0).normal(size=frame.shape)
        return numbers[:ROWS], numbers[ROWS:]
    rows = frame[:ROWS]
    source = frame[ROWS:].reset_index(drop=True)
    if library == "polars":
        return pl.from_pandas(rows), pl.from_pandas(source)
    if library == "pyarrow":
        return pa.Table.from_pandas(rows), pa.Table.from_pandas(source)
    return rows, source


def model(rows: Any) -> NDArray[np.float64]:
    """Return a sum over every fifth column, which all frames here hold as numbers."""
    if isinstance(rows, pa.Table):
        numbers = np.stack([column.to_numpy() for column in rows.columns[::5]], axis=1)
    elif isinstance(rows, pd.DataFrame):
        numbers = rows.iloc[:, ::5].to_numpy()
    elif isinstance(rows, pl.DataFrame):
        numbers = rows[:, ::5].to_numpy()
    else:
        numbers = rows[:, ::5]
    return np.asarray(numbers @ np.cos(np.arange(numbers.shape[1])))


if __name__ == "__main__":
    main()
