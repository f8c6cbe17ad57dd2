"""Default against default: what a user types first, in shearshap, shap and shapiq.

    python benchmarks/defaults.py                       all pairs of data and a model
    python benchmarks/defaults.py --quick               four of them, few rows
    python benchmarks/defaults.py --pairs "wine, MLP"   some of them
    python benchmarks/defaults.py --contestants shearshap shap

    shearshap    Explainer(function, background)(rows)
    shap         shap.Explainer(function, background)(rows)
    shapiq       shapiq.TabularExplainer(function, data=background, index="SV", max_order=1)
                     .explain(row, budget=256), the budget of its README's first example

All explain the same function of rows, which returns one number (the probability of class 1, the
decision or the prediction), against the same 100 background rows. In pairs named "itself",
shearshap and shap get the boosted model, and shapiq its margin as a function. shap and shapiq fail
on frames with strings: they get numbers, and a function that makes frames of them.

An error is the L2 distance from a row's true values (default_truth.py) over their L2 norm; "±" is
the standard error of its mean over the first 40 rows. Errors below 1e-6 count as exact. "Coverage"
is that of our 95 % intervals, and "se / error" their mean standard error over the mean absolute
error (1.25 if errors are normal).

Time is processor time on one thread, with everything: explainer, values and model; the median of
three runs if they are short. "Timed rows" says how many of 1,000 rows were explained: as many as
take 40 s at the rate of 40 rows, and 10 s for peers, which explain one row at a time. The model
that takes 1 ms does not sleep: each evaluation adds 1 ms to the time. Evaluations are counted in
the function.

We are "ahead" on a pair if neither error nor time is larger, and "behind" if neither is smaller.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shap
import shapiq

from default_pairs import QUICK, ROWS, SPECS, Floats, Function, Pair, Task, pair
from default_truth import Truth, truth
from setting import OUT, Tables, machine, parser_of
from shearshap import Explainer, Explanation
from shearshap_lab.provenance import commit
from shearshap_lab.runner import THREADS

FEW = 40  #: rows whose errors are measured
SECONDS = 40.0  #: of processor time that our explanation of 1,000 rows may take
PEER_SECONDS = 10.0  #: that of a peer, which explains one row at a time
SHORT = 1.0  #: seconds up to which a run is timed three times
SHAPIQ_BUDGET = 256
EXACT = 1e-6  #: a relative error below this is rounding
RESAMPLES = 10_000


class Counted:
    """A function that counts the rows it has seen."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.rows = 0

    def __call__(self, rows: Any) -> Any:
        """Return the function's outputs."""
        self.rows += len(rows)
        return self.function(rows)


# Contestants: functions of a pair, the function to explain and the number of rows


def ours(pair: Pair, function: Function, rows: int) -> Explanation:
    model = function if pair.model is None else pair.model
    return Explainer(model, pair.task.background)(pair.task.rows[:rows])


def of_shap(pair: Pair, function: Function, rows: int) -> Any:
    explained = pair.numbers.rows[:rows]
    if pair.model is not None:
        return shap.Explainer(pair.model, pair.numbers.background)(explained)
    # without a seed, no two calls agree
    return shap.Explainer(function, pair.numbers.background, seed=0)(explained, silent=True)


def of_shapiq(pair: Pair, function: Function, rows: int) -> Any:
    explainer = shapiq.TabularExplainer(
        function, data=pair.numbers.background, index="SV", max_order=1, random_state=0
    )
    answers = [explainer.explain(row, budget=SHAPIQ_BUDGET) for row in pair.numbers.rows[:rows]]
    return Values(np.stack([answer.get_n_order_values(1) for answer in answers]))


@dataclass(frozen=True)
class Values:
    """Shapley values (r, p)."""

    values: Floats


CONTESTANTS: dict[str, Callable[[Pair, Function, int], Any]] = {
    "shearshap": ours,
    "shap": of_shap,
    "shapiq": of_shapiq,
}


def task_of(name: str, pair: Pair) -> Task:
    """Return what a contestant explains: only ours can explain frames with strings."""
    return pair.task if name == "shearshap" else pair.numbers


# Measurements


@dataclass(frozen=True)
class Timed:
    """An answer, the time and the evaluations that a row took."""

    answer: Any
    seconds: float  #: of a row, with the delay of its evaluations
    processor: float  #: of all rows, without
    evaluations: float  #: of a row


def timed(name: str, pair: Pair, rows: int) -> Timed:
    """Return an explanation of rows, and the median time of three if they are short."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < SHORT:
        function = Counted(task_of(name, pair).function)
        start = time.process_time()
        answer = CONTESTANTS[name](pair, function, rows)
        times.append(time.process_time() - start)
    processor = float(np.median(times))
    return Timed(
        answer, (processor + pair.delay * function.rows) / rows, processor, function.rows / rows
    )


@dataclass(frozen=True)
class Result:
    """What was measured of a contestant on a pair."""

    pair: Pair
    contestant: str
    errors: Floats  #: (r,) relative to the norm of the true values
    few: Timed
    many: Timed
    timed_rows: int
    coverage: float | None
    calibration: float | None  #: mean standard error over mean absolute error

    @property
    def error(self) -> float:
        """The mean relative error, 0 if it is rounding."""
        error = float(self.errors.mean())
        return error if error > EXACT else 0.0

    @property
    def exact(self) -> bool:
        """Whether there is no error beyond rounding."""
        return self.error == 0


def measured(name: str, pair: Pair, true: Truth, most: int) -> Result:
    """Return what a contestant achieves on a pair."""
    CONTESTANTS[name](pair, task_of(name, pair).function, 2)  # imports, and what is compiled
    few = timed(name, pair, len(true.values))
    rate = few.processor / len(true.values)
    seconds = SECONDS if name == "shearshap" else PEER_SECONDS
    rows = int(np.clip(seconds / rate, len(true.values), most))
    many = timed(name, pair, rows) if rows > len(true.values) else few
    values = np.asarray(few.answer.values)
    gaps = np.linalg.norm(values - true.values, axis=1)
    errors = gaps / np.linalg.norm(true.values, axis=1)
    return Result(pair, name, errors, few, many, rows, *interval_facts(few.answer, true))


def interval_facts(answer: Any, true: Truth) -> tuple[float | None, float | None]:
    """Return the coverage of 95 % intervals, and the mean standard error over mean |error|."""
    if not isinstance(answer, Explanation) or answer.standard_errors is None:
        return None, None
    rounding = 1e-9 * (np.ptp(answer.predictions) or 1.0)
    low, high = answer.interval()
    gaps = np.abs(answer.values - true.values)
    held = (low - rounding <= true.values) & (true.values <= high + rounding)
    known = gaps > rounding
    if not answer.standard_errors.any() or not known.any():  # exact
        return None, None
    return float(held.mean()), float(answer.standard_errors[known].mean() / gaps[known].mean())


# Tables

HEADER = ["pair", "features", "contestant", "error ±", "evaluations", "ms per row, 40 rows"]
HEADER += ["ms per row, 1,000 rows", "timed rows", "coverage %", "se / error", "error of the truth"]


def line(result: Result, true: Truth) -> list[str]:
    deviation = result.errors.std(ddof=1) / np.sqrt(len(result.errors))
    evaluations = result.few.evaluations
    return [
        result.pair.name,
        str(result.pair.players),
        result.contestant,
        f"{result.errors.mean():.3g} ± {deviation:.1g}",
        f"{evaluations:,.0f}" if evaluations >= 1 else "",
        f"{1000 * result.few.seconds:.3g}",
        f"{1000 * result.many.seconds:.3g}",
        str(result.timed_rows),
        "" if result.coverage is None else f"{result.coverage:.0%}",
        "" if result.calibration is None else f"{result.calibration:.2f}",
        f"{true.error:.1g}",
    ]


@dataclass(frozen=True)
class Duel:
    """Our result and a peer's, on one pair."""

    ours: Result
    peer: Result

    @property
    def kind(self) -> str:
        """Who is exact."""
        names = {(0, 0): "none exact", (1, 1): "both exact"}
        only = "only ours exact" if self.ours.exact else f"only {self.peer.contestant} exact"
        return names.get((self.ours.exact, self.peer.exact), only)

    @property
    def times(self) -> tuple[float, float]:
        """Our time over the peer's, of 40 rows and of 1,000."""
        few = self.ours.few.seconds / self.peer.few.seconds
        return few, self.ours.many.seconds / self.peer.many.seconds

    def ahead(self, time_ratio: float) -> int:
        """Return 1 if we are ahead at a ratio of times, -1 if the peer is, 0 if neither is."""
        error = np.sign(self.peer.error - self.ours.error)
        speed = np.sign(1 - time_ratio)
        return int(np.sign(error + speed)) if error * speed >= 0 else 0


SUMMARY = ["against", "pairs", "number", "error ratio (low to high)"]
SUMMARY += ["time ratio, 40 rows (low to high)", "time ratio, 1,000 rows (low to high)"]
SUMMARY += ["ahead, 40 rows (low to high)", "ahead, 1,000 rows (low to high)"]
SUMMARY += ["behind, 40 rows (low to high)", "behind, 1,000 rows (low to high)"]


def summary(name: str, results: Sequence[Result]) -> Iterable[list[str]]:
    """Yield lines of our results against a peer's, by who is exact, and of all pairs."""
    by_pair = {(each.pair.name, each.contestant): each for each in results}
    duels = [
        Duel(by_pair[each.pair.name, "shearshap"], each)
        for each in results
        if each.contestant == name
    ]
    for kind in sorted(
        {duel.kind for duel in duels}, key=lambda kind: (kind != "none exact", kind)
    ):
        part = [duel for duel in duels if duel.kind == kind]
        yield [name, kind, *ratios(part, with_errors=kind == "none exact")]
    yield [name, "all", *ratios(duels, with_errors=False)]


def ratios(duels: Sequence[Duel], *, with_errors: bool) -> list[str]:
    """Return the cells of some pairs, with intervals by drawing pairs again."""
    times = np.array([duel.times for duel in duels])  # (n, 2)
    ahead = np.array([[duel.ahead(each) for each in duel.times] for duel in duels])
    errors = [duel.ours.error / duel.peer.error for duel in duels] if with_errors else None
    return [
        str(len(duels)),
        "" if errors is None else drawn(np.log(errors), lambda each: np.exp(each.mean(-1)), ".2f"),
        *(drawn(np.log(each), lambda each: np.exp(each.mean(-1)), ".2g") for each in times.T),
        *(drawn(each, lambda each: each.sum(-1), ".0f") for each in (ahead == 1).T),
        *(drawn(each, lambda each: each.sum(-1), ".0f") for each in (ahead == -1).T),
    ]


def drawn(numbers: Floats, statistic: Callable[[Floats], Floats], form: str) -> str:
    """Return a statistic of numbers with a bootstrap interval, none if there is one number."""
    value = f"{statistic(numbers):{form}}"
    if len(numbers) < 2:
        return value
    places = np.random.default_rng(0).integers(len(numbers), size=(RESAMPLES, len(numbers)))
    low, high = np.quantile(statistic(numbers[places]), [0.025, 0.975])
    return f"{value} ({low:{form}} to {high:{form}})"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="few pairs and rows: that it works")
    parser.add_argument("--pairs", nargs="+", choices=SPECS, metavar="PAIR", help="by name (all)")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--out", type=Path, default=OUT / "defaults", help="for the true values")
    options = parser.parse_args()
    pinned = dict.fromkeys(THREADS, "1")
    if not pinned.items() <= dict(os.environ).items():
        # libraries count cores when they are imported: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **pinned})

    warnings.simplefilter("ignore")
    few, many = (4, 20) if options.quick else (FEW, ROWS)
    names = options.pairs or (QUICK if options.quick else SPECS)
    setting = f"{few} and {many} rows; commit {commit()}; {machine()}"
    tables = Tables(setting, options.csv)
    results = []
    for name in names:
        case = pair(name)
        evaluations = case.reference // 50 if options.quick else case.reference
        true = truth(case, few, evaluations, options.out)
        found = [measured(each, case, true, many) for each in options.contestants]
        tables.show("defaults", HEADER, [line(each, true) for each in found])
        results += found
    peers = [each for each in options.contestants if each != "shearshap"]
    if "shearshap" in options.contestants:
        lines = [each for peer in peers for each in summary(peer, results)]
        tables.show("defaults-summary", SUMMARY, lines)


if __name__ == "__main__":
    main()
