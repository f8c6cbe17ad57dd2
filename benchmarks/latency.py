"""What a user waits for: seconds of calls that are small, or wide, or have many outputs.

    python benchmarks/latency.py                 every line
    python benchmarks/latency.py --quick         without the lines of many players or outputs
    python benchmarks/latency.py --lines census  the lines that have this in their names

Each line is a call of `shearshap.explain` with `method="auto"`, beside the same call with
`leverage` and the bare model on as many inputs. Times are medians of later calls, or that of the
only call if one takes seconds. "First call" is that of a fresh process, after the imports.
"""

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from torch import nn

from setting import (
    BUDGET,
    GROUPS,
    PLAYERS,
    Tables,
    census_like,
    machine,
    parser_of,
    perceptron,
    seconds,
)
from shearshap import Auto, Explanation, explain
from shearshap.methods.base import Method

Floats = NDArray[np.float64]

ONCE = 2.0  #: seconds from which on a call is timed once
BATCH = 8192  #: inputs that the bare model gets at once
HEADER = ("call", "auto chose", "auto, s", "leverage, s", "ratio", "the model, s")
FIRST_CALL = "1 row, 30 features, a 64-64-1 network"


@dataclass(frozen=True)
class Line:
    """A model and what to explain of it."""

    name: str
    model: Any
    rows: Any
    background: Any
    options: dict[str, Any] = field(default_factory=dict)
    predict: Callable[[Any], object] | None = None  #: the model itself, if it is no function
    calibrated: bool = False  #: whether the calibration is given
    slow: bool = False

    def explain(self, method: str | Method) -> Explanation:
        """Return the rows' explanation."""
        return explain(
            self.model, self.rows, background=self.background, method=method, **self.options
        )

    def bare(self, evaluations: int) -> None:
        """Ask the model alone for as many outputs as an explanation of the rows takes."""
        total = evaluations * len(self.rows)
        inputs = self.rows.repeat(-(-min(total, BATCH) // len(self.rows)), axis=0)
        predict = self.predict or self.model
        for start in range(0, total, BATCH):
            predict(inputs[: total - start])


# The lines


def lines() -> list[Line]:
    """Return every line of the table."""
    return [
        digits(),
        _of_function("10 rows, 200 features", 10, 200),
        one_row(),
        _of_function("3 rows, 1000 features, budget 4002", 3, 1000, budget=4002),
        _of_function("10 rows, 20 features, 1000 outputs", 10, 20, outputs=1000),
        *census(),
    ]


def digits() -> Line:
    """Return 100 images of digits and a logistic regression, explained in all classes."""
    inputs, labels = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=200).fit(inputs / 16, labels)
    return Line(
        "100 digits, 64 features, 10 classes, logistic regression",
        model,
        inputs[:100] / 16,
        inputs.mean(axis=0) / 16,
        predict=model.predict_proba,
        slow=True,
    )


def _of_function(
    name: str, rows: int, players: int, outputs: int | None = None, budget: int | None = None
) -> Line:
    """Return rows of a numpy function."""
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(players, 64)) / np.sqrt(players)
    outer = rng.normal(size=(64,) if outputs is None else (64, outputs))

    def function(x: Floats) -> Floats:
        return np.asarray(np.tanh(x @ inner) @ outer)

    inputs = rng.normal(size=(rows, players))
    name = f"{name}, a numpy function"
    return Line(name, function, inputs, np.zeros(players), {"budget": budget}, slow=True)


def one_row() -> Line:
    """Return one row of a small network: what a service explains at a time."""
    torch.manual_seed(0)
    net = perceptron(30, 1).eval()
    rows = np.random.default_rng(0).normal(size=(1, 30)).astype(np.float32)
    return Line(FIRST_CALL, net, rows, np.zeros(30, dtype=np.float32), predict=_forward(net))


def census() -> list[Line]:
    """Return 2000 rows of the Census-like network: with the fit, without, and at a large budget."""
    net, rows, background = census_like()
    name = "2000 rows, the Census-like network"
    options = {"groups": GROUPS, "output": 1, "budget": BUDGET}
    line = Line(
        f"{name}, {BUDGET} evaluations",
        net,
        rows[:2000],
        background,
        options,
        predict=_forward(net),
    )
    large = {**options, "budget": 64 * PLAYERS + 2}
    return [
        line,
        replace(line, name=f"{line.name}, the calibration given", calibrated=True),
        replace(line, name=f"{name}, 64 evaluations per player", options=large, slow=True),
    ]


def _forward(net: nn.Module) -> Callable[[Any], object]:
    def forward(x: NDArray[np.float32]) -> object:
        with torch.no_grad():
            return net(torch.from_numpy(x))

    return forward


# Times


def cells(line: Line) -> list[str]:
    """Return the cells of a line."""
    auto = Auto()
    if line.calibrated:
        auto = Auto(calibration=line.explain(auto).calibration)

    start = time.perf_counter()
    answer = line.explain(auto)
    once = time.perf_counter() - start

    took = once if once > ONCE else seconds(lambda: line.explain(auto))
    leverage = seconds(lambda: line.explain("leverage"))
    bare = seconds(lambda: line.bare(answer.evaluations))
    return _formatted(line.name, answer.method, took, leverage, bare)


def first_call(line: Line, threads: int) -> list[str]:
    """Return the cells of the first call in a fresh process: medians over three processes."""
    took = {"auto": [0.0] * 3, "leverage": [0.0] * 3}
    for method, times in took.items():
        for run in range(len(times)):
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                times[run] = pool.submit(time_first_call, method, threads).result()
    answer = line.explain("auto")
    bare = seconds(lambda: line.bare(answer.evaluations))
    auto, leverage = (float(np.median(times)) for times in took.values())
    return _formatted(f"{line.name}: first call", answer.method, auto, leverage, bare)


def time_first_call(method: str, threads: int) -> float:
    """Return the seconds of this process's first call."""
    torch.set_num_threads(threads)
    line = one_row()
    with threadpool_limits(threads):
        start = time.perf_counter()
        line.explain(method)
        return time.perf_counter() - start


def _formatted(name: str, method: str, auto: float, leverage: float, bare: float) -> list[str]:
    times = [f"{took:.3g}" for took in (auto, leverage)]
    return [name, method, *times, f"{auto / leverage:.1f}", f"{bare:.2g}"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the slow lines")
    parser.add_argument("--lines", default="", help="only lines with this in their names")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch and numpy")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    warnings.simplefilter("ignore")
    with threadpool_limits(asked.threads):
        tables = Tables(f"{asked.threads} threads; {machine()}", asked.csv)
        rows = []
        for line in lines():
            if asked.lines not in line.name or (asked.quick and line.slow):
                continue
            rows.append(cells(line))
            if line.name == FIRST_CALL:
                rows.append(first_call(line, asked.threads))
        tables.show("latency", HEADER, rows)


if __name__ == "__main__":
    main()
