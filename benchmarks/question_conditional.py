"""Questions that one can ask of a game, beside the libraries that answer them too.

    python benchmarks/questions.py conditional                    ours alone
    python benchmarks/questions.py conditional --peer PYTHON      and shapiq's imputers

PYTHON is the interpreter of an environment with shapiq 1.8, which needs Python 3.12: this file runs
there too, and needs numpy and shapiq alone. All sides have one thread.

conditional: Shapley values of features given the others. Rows have 8 columns, of a Gaussian with
the correlations 0.7^|i - j|, or of its exponentials (log-normal columns with a Gaussian copula).
Models are linear, quadratic, and sums of trees of depth 2. Their conditional means have closed
forms, from which the truth comes by definition. Everyone is given the same 5,000 training rows, and
as many evaluations per row. shapiq's KernelSHAP gets coalitions with 10, 25 or 100 samples each.
"""

import argparse
import subprocess
import tempfile
import time
from functools import partial
from math import erf, factorial, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH = 8
TERMS = 20  #: trees of the third model
TRAIN = 5_000
EVALUATIONS = (400, 1_600, 6_400, 25_600)
DATA = {"gaussian": "gaussian", "log-normal": "copula"}  #: what is known of the data, and the kind
MODELS = ("linear", "quadratic", "trees")
SAMPLES = (10, 25, 100)  #: of each of shapiq's coalitions
NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)


def parameters(width: int = WIDTH, seed: int = 0) -> dict[str, Floats]:
    """Return the numbers of the models, and the covariance of rows."""
    rng = np.random.default_rng(seed)
    places = np.arange(width)
    roots = rng.normal(size=(width, width)) / width
    pairs = [rng.choice(width, 2, replace=False) for _ in range(TERMS)]
    return {
        "covariance": 0.7 ** np.abs(places[:, None] - places),
        "slopes": rng.normal(size=width),
        "squares": roots + roots.T,
        "columns": np.array(pairs).T.astype(np.float64),
        "limits": rng.normal(0, 0.7, size=(2, TERMS)),
        "sizes": rng.normal(size=TERMS),
    }


def model(name: str, numbers: dict[str, Floats], is_exponential: bool, rows: Floats) -> Floats:
    """Return a model's predictions for rows (n, d)."""
    if name == "trees":
        scores = np.log(rows) if is_exponential else rows
        first, second = numbers["columns"].astype(int)
        both = (scores[:, first] > numbers["limits"][0]) & (
            scores[:, second] > numbers["limits"][1]
        )
        return np.asarray(both @ numbers["sizes"])
    found = rows @ numbers["slopes"]
    if name == "quadratic":
        found = found + np.einsum("ni,ij,nj->n", rows, numbers["squares"], rows)
    return np.asarray(found)


# The truth


def conditional_values(
    name: str, numbers: dict[str, Floats], is_exponential: bool, scores: Floats
) -> Floats:
    """Return the Shapley values (r, d) of rows whose normal scores are (r, d), by definition."""
    cov = numbers["covariance"]
    width = len(cov)
    table = np.empty((1 << width, len(scores)))
    for coalition in range(1 << width):
        present = [column for column in range(width) if coalition >> column & 1]
        gain = cov[:, present] @ np.linalg.inv(cov[np.ix_(present, present)])
        left = cov - gain @ cov[present]
        table[coalition] = _mean(name, numbers, is_exponential, scores[:, present] @ gain.T, left)
    values = np.zeros((len(scores), width))
    for player in range(width):
        for coalition in range(1 << width):
            if not coalition >> player & 1:
                size = coalition.bit_count()
                weight = factorial(size) * factorial(width - size - 1) / factorial(width)
                values[:, player] += weight * (table[coalition | 1 << player] - table[coalition])
    return values


def _mean(
    name: str, numbers: dict[str, Floats], is_exponential: bool, means: Floats, cov: Floats
) -> Floats:
    """Return a model's mean (r,) over Gaussian scores of means (r, d) and a covariance (d, d)."""
    variances = np.maximum(np.diag(cov), 0)
    if name == "trees":
        return _trees(numbers, means, cov, np.sqrt(variances))
    moments, seconds = means, means[:, :, None] * means[:, None] + cov
    if is_exponential:
        moments = np.exp(means + variances / 2)
        seconds = moments[:, :, None] * moments[:, None] * np.exp(cov)
    found = moments @ numbers["slopes"]
    if name == "quadratic":
        found = found + np.einsum("rij,ij->r", seconds, numbers["squares"])
    return np.asarray(found)


def _trees(numbers: dict[str, Floats], means: Floats, cov: Floats, deviations: Floats) -> Floats:
    """Return the mean of the trees: probabilities of two halves of a bivariate Gaussian."""
    first, second = numbers["columns"].astype(int)
    deviations = np.maximum(deviations, 1e-9)
    h = (means[:, first] - numbers["limits"][0]) / deviations[first]
    k = (means[:, second] - numbers["limits"][1]) / deviations[second]
    # P(both) = Phi(h) Phi(k) + the integral of the bivariate density over correlations 0 to rho
    rho = np.clip(cov[first, second] / (deviations[first] * deviations[second]), -0.999, 0.999)
    rho = np.where(np.minimum(deviations[first], deviations[second]) < 1e-6, 0, rho)
    r = rho[:, None] * (NODES + 1) / 2  # (terms, nodes)
    h, k = np.clip(h, -30, 30)[..., None], np.clip(k, -30, 30)[..., None]
    density = np.exp(-(h**2 - 2 * r * h * k + k**2) / (2 * (1 - r**2))) / (
        2 * np.pi * np.sqrt(1 - r**2)
    )
    normal = np.vectorize(lambda z: (1 + erf(z / sqrt(2))) / 2)
    both = (normal(h) * normal(k))[..., 0] + rho / 2 * (density @ WEIGHTS)
    return np.asarray(both @ numbers["sizes"])


# Ours and theirs: values and seconds a row


def ours(
    kind: Any, predict: Any, train: Floats, rows: Floats, budget: int, seed: int
) -> tuple[Any, float]:
    """Return our explanation, and its seconds a row, the fit included."""
    from shearshap import Conditional, Explainer

    started = time.perf_counter()
    found = Explainer(predict, Conditional(train, kind), seed=seed)(rows, budget=budget)
    return found, (time.perf_counter() - started) / len(rows)


def theirs(
    kind: str, predict: Any, train: Floats, rows: Floats, budget: int, samples: int, seed: int
) -> tuple[Floats, float]:
    """Return the values of shapiq's KernelSHAP with an imputer, and the seconds a row."""
    import shapiq
    from shapiq.imputer.gaussian_copula_imputer import GaussianCopulaImputer
    from shapiq.imputer.gaussian_imputer import GaussianImputer

    imputers = {"gaussian": GaussianImputer, "copula": GaussianCopulaImputer}
    started = time.perf_counter()
    imputer = imputers[kind](predict, train, sample_size=samples, random_state=seed)
    values = np.zeros(rows.shape)
    for at, row in enumerate(rows):
        imputer.fit(row)
        estimator = shapiq.KernelSHAP(n=WIDTH, random_state=seed, pairing_trick=True)
        found = estimator.approximate(budget // samples, imputer)
        values[at] = found.get_n_order_values(1)
    return values, (time.perf_counter() - started) / len(rows)


def peer(folder: Path) -> None:
    """Answer all tasks of a folder with shapiq: values (seeds, r, d), seconds, in files beside."""
    tasks = np.load(folder / "tasks.npz")
    numbers = {
        name.removeprefix("model "): tasks[name] for name in tasks if name.startswith("model ")
    }
    for data, kind in DATA.items():
        for name in MODELS:
            predict = partial(model, name, numbers, data == "log-normal")
            for budget in EVALUATIONS:
                for samples in SAMPLES:
                    if not 2 * WIDTH <= budget // samples <= 1 << WIDTH:
                        continue
                    runs = [
                        theirs(
                            kind,
                            predict,
                            tasks[f"train {data}"],
                            tasks[f"rows {data}"],
                            budget,
                            samples,
                            seed,
                        )
                        for seed in range(int(tasks["seeds"]))
                    ]
                    values, seconds = zip(*runs, strict=True)
                    np.savez(
                        folder / f"{data} {name} {budget} {samples}.npz",
                        values=values,
                        seconds=seconds,
                    )


def conditional(rows: int, seeds: int, python: str | None, *, csv: bool) -> None:
    """Print errors, seconds and coverage on data whose conditional values are known."""
    from setting import RESULTS, Tables, machine  # not above: the peer's Python has no shearshap

    numbers = parameters()
    rng = np.random.default_rng(1)
    scores = rng.multivariate_normal(np.zeros(WIDTH), numbers["covariance"], size=TRAIN + rows)
    tables = {"gaussian": scores, "log-normal": np.exp(scores)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if python is not None:
            split: dict[str, Any] = {
                f"train {data}": table[rows:] for data, table in tables.items()
            }
            split |= {f"rows {data}": table[:rows] for data, table in tables.items()}
            split |= {f"model {key}": value for key, value in numbers.items()}
            np.savez(folder / "tasks.npz", seeds=seeds, **split)
            subprocess.run([python, __file__, "peer", "--folder", name], check=True)
        lines = []
        for data, kind in DATA.items():
            for each in MODELS:
                truth = conditional_values(each, numbers, data == "log-normal", scores[:rows])
                predict = partial(model, each, numbers, data == "log-normal")
                for budget in EVALUATIONS:
                    table = tables[data]
                    runs = [
                        ours(kind, predict, table[rows:], table[:rows], budget, seed)
                        for seed in range(seeds)
                    ]
                    found = [run for run, _ in runs]
                    lows, highs = zip(*(run.interval() for run in found), strict=True)
                    coverage = np.mean(
                        [
                            (low <= truth) & (truth <= high)
                            for low, high in zip(lows, highs, strict=True)
                        ]
                    )
                    cells = [_error([run.values for run in found], truth)]
                    times = []
                    for samples in SAMPLES:
                        file = folder / f"{data} {each} {budget} {samples}.npz"
                        cells.append("")
                        if file.exists():
                            answer = np.load(file)
                            cells[-1] = _error(answer["values"], truth)
                            times.append(answer["seconds"].min())
                    seconds = min(seconds for _, seconds in runs)
                    cells += [f"{1e3 * seconds:.0f}", f"{1e3 * min(times, default=0):.0f}"]
                    lines.append([data, each, f"{budget:,}", *cells, f"{coverage:.0%}"])
        columns = ["data", "model", "evaluations", "shearshap ±"]
        columns += [f"shapiq, {samples} samples ±" for samples in SAMPLES]
        columns += ["shearshap, ms per row", "shapiq, ms per row", "intervals that hold %"]
        shown = Tables(f"{rows} rows, {seeds} seeds; {machine()}", RESULTS if csv else None)
        shown.show("question-conditional", columns, lines)


def _error(values: Any, truth: Floats) -> str:
    """Return the mean absolute error as a part of the mean |value|, with its 95 % interval."""
    by_row = np.abs(np.asarray(values) - truth).mean(axis=(0, 2)) / np.abs(truth).mean()
    return f"{by_row.mean():.3f} ± {1.96 * by_row.std(ddof=1) / sqrt(len(by_row)):.3f}"


def main() -> None:
    """Answer a question."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=["conditional", "peer"])
    parser.add_argument("--peer", metavar="PYTHON", help="of an environment with shapiq 1.8")
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--csv", action="store_true", help="write benchmarks/results too")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.question == "peer":
        peer(given.folder)
    else:
        conditional(given.rows, given.seeds, given.peer, csv=given.csv)


if __name__ == "__main__":
    main()
