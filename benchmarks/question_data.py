"""Questions that one can ask of a game, beside the libraries that answer them too.

    python benchmarks/questions.py data           values of training rows, beside pyDVL
    python benchmarks/questions.py data --quick   one game, few seeds

The peer of a question is compared if it is installed: `pip install pyDVL` for data. All tables that
take long are kept in out/questions. Run with OMP_NUM_THREADS=1.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from scipy.stats import t as student

from setting import OUT, Tables, machine, question_parser
from shearshap import Explanation, value_data

FOLDER = OUT / "questions"
Floats = NDArray[np.float64]


def main() -> None:
    """Answer the question."""
    options = question_parser(__doc__).parse_args()
    data(options)


def mean_and_interval(numbers: Floats) -> str:
    """Return a mean over seeds, and the half of its 95 % interval."""
    margin = student.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / len(numbers) ** 0.5
    return f"{numbers.mean():.3g} ± {margin:.2g}"


def ratio_and_interval(numbers: Floats, others: Floats) -> str:
    """Return the ratio of two means over seeds, and the half of its 95 % interval."""
    ratio = numbers.mean() / others.mean()
    relative = [each.std(ddof=1) / len(each) ** 0.5 / each.mean() for each in (numbers, others)]
    margin = ratio * np.hypot(*relative) * student.ppf(0.975, len(numbers) - 1)
    return f"{ratio:.3g} ± {margin:.2g}"


# Data: what are training rows worth?

SEEDS = 10
ROW_SEEDS = 5
NOISE = 0.4  #: of the labels of a quarter of the sources
LONG_RUN = 200_000  #: evaluations of the truth of single rows


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows in sources, a model, and rows that score it."""

    name: str
    load: Callable[..., Any]
    model: Any
    sources: int  #: that training rows are dealt out to
    rows: int  #: of each source
    known: dict[bytes, float] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """Training rows and labels, those of validation, and each training row's source."""
        X, y = self.load(return_X_y=True)
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
        rng = np.random.default_rng(0)
        order = rng.permutation(len(y))
        train = order[: self.sources * self.rows]
        valid = order[len(train) : len(train) + 500]
        source = np.repeat(np.arange(self.sources), self.rows)
        labels = y[train].copy()
        wrong = (source < self.sources // 4) & (rng.random(len(train)) < NOISE)
        labels[wrong] = rng.permutation(labels[wrong])
        return X[train], labels, X[valid], y[valid], source

    def score(self, model: Any) -> float:
        """Return accuracy, or of numbers R^2."""
        _, _, X, y, _ = self.parts
        found = model.predict(X)
        if y.dtype.kind == "f":
            return float(1 - ((y - found) ** 2).mean() / y.var())
        return float((found == y).mean())

    def valued(self, **options: Any) -> Explanation:
        """Return our answer; fits of earlier answers are not repeated."""
        X, y, _, _, source = self.parts
        cache = FOLDER / self.name
        return value_data(self.model, self.score, X, y, groups=source, cache=cache, **options)

    def worth(self, coalition: NDArray[np.bool_], empty: float) -> float:
        """Return a coalition's value by its definition, for peers."""
        key = coalition.tobytes()
        if key not in self.known:
            X, y, _, _, source = self.parts
            rows = coalition[source]
            some = rows.any() and (y.dtype.kind == "f" or len(set(y[rows])) > 1)
            fit = getattr(self.model, "fit", self.model)
            self.known[key] = self.score(fit(X[rows], y[rows])) if some else empty
        return self.known[key]


def ridge(X: Floats, y: NDArray[Any]) -> Any:
    """Fit a ridge regression of numbers, or of the classes' indicators."""
    classes = None if y.dtype.kind == "f" else np.unique(y)
    targets = y[:, None] if classes is None else 2.0 * (y[:, None] == classes) - 1
    centre, height = X.mean(axis=0), targets.mean(axis=0)
    inner = (X - centre).T @ (X - centre) + np.eye(X.shape[1])
    weights = np.linalg.solve(inner, (X - centre).T @ (targets - height))

    def predict(rows: Floats) -> NDArray[Any]:
        found = (rows - centre) @ weights + height
        return np.asarray(found[:, 0] if classes is None else classes[found.argmax(axis=1)])

    return SimpleNamespace(predict=predict)


def centroids(X: Floats, y: NDArray[Any]) -> Any:
    """Fit the centroids of classes, the nearest of which is predicted."""
    classes = np.unique(y)
    means = np.stack([X[y == each].mean(axis=0) for each in classes])

    def predict(rows: Floats) -> NDArray[Any]:
        nearest = ((means**2).sum(axis=1) - 2 * rows @ means.T).argmin(axis=1)
        return np.asarray(classes[nearest])

    return SimpleNamespace(predict=predict)


def trainings() -> list[Training]:
    """Return games of few sources, whose values can be enumerated, and one of single rows."""
    from sklearn import datasets

    cancer = datasets.load_breast_cancer
    return [
        Training("cancer-ridge-12", cancer, ridge, 12, 10),
        Training("wine-ridge-14", datasets.load_wine, ridge, 14, 6),
        Training("digits-centroids-14", datasets.load_digits, centroids, 14, 10),
        Training("diabetes-ridge-14", datasets.load_diabetes, ridge, 14, 10),
        Training("cancer-ridge-100", cancer, ridge, 100, 1),
    ]


def pydvl_values(
    worth: Callable[[NDArray[np.bool_]], float],
    players: int,
    fits: int,
    seed: int,
    *,
    truncated: bool,
) -> Floats:
    """Return pyDVL's values after so many different fits, and its permutation in progress."""
    from joblib import parallel_config
    from pydvl.utils.status import Status
    from pydvl.valuation import Dataset, PermutationSampler, RelativeTruncation, ShapleyValuation
    from pydvl.valuation.stopping import StoppingCriterion
    from pydvl.valuation.utility.base import UtilityBase

    fitted: set[bytes] = set()

    class Worth(UtilityBase):  # type: ignore[misc]
        def __call__(self, sample: Any) -> float:
            coalition = np.zeros(players, dtype=bool)
            if sample is not None:
                coalition[np.asarray(sample.subset, dtype=int)] = True
            fitted.add(coalition.tobytes())
            return worth(coalition)

    class Fits(StoppingCriterion):  # type: ignore[misc]
        def _check(self, _result: Any) -> Any:
            return Status.Converged if len(fitted) >= fits else Status.Pending

        def completion(self) -> float:
            return min(1.0, len(fitted) / fits)

    truncation = RelativeTruncation(rtol=0.05) if truncated else None
    sampler = PermutationSampler(truncation, seed=seed)
    valuation = ShapleyValuation(Worth(), sampler, is_done=Fits())
    with parallel_config(n_jobs=1):
        valuation.fit(Dataset(np.zeros((players, 1)), np.zeros(players)))
    values = np.zeros(players)
    values[valuation.result.indices] = valuation.result.values
    return values


def data(options: argparse.Namespace) -> None:
    """Print errors at equal fits, and the coverage of our intervals."""
    games = trainings()[:1] if options.quick else trainings()
    lines = []
    for game in games:
        lines += data_lines(game, options)
        print(lines[-1], flush=True)
    columns = ["game", "fits", "method", "error, % of all values ±", "over pyDVL permutations ±"]
    columns += ["rank correlation ±", "intervals that hold %"]
    Tables(machine(), options.csv).show("question-data", columns, lines)


def data_lines(game: Training, options: argparse.Namespace) -> list[list[str]]:
    """Return the lines of a game: each budget and method."""
    players = game.sources
    enumerable = players <= 16
    seeds = range(3 if options.quick else SEEDS if enumerable else ROW_SEEDS)
    truth, empty = true_values(game)
    scale = np.abs(truth).sum() / 100

    def ours(method: str) -> Callable[[int, int], tuple[Floats, float | None]]:
        def run(fits: int, seed: int) -> tuple[Floats, float | None]:
            answer = game.valued(budget=fits, seed=seed, method=method, progress=False)
            if answer.standard_errors is None:
                return answer.values[0], None
            low, high = answer.interval()
            return answer.values[0], float(((low <= truth) & (truth <= high)).mean())

        return run

    def theirs(truncated: bool) -> Callable[[int, int], tuple[Floats, float | None]]:
        def worth(coalition: NDArray[np.bool_]) -> float:
            return game.worth(coalition, empty)

        return lambda fits, seed: (
            pydvl_values(worth, players, fits, seed, truncated=truncated),
            None,
        )

    methods = {"ours": ours("auto"), "our permutations": ours("permutation-antithetic")}
    if find_spec("pydvl"):
        methods |= {"pyDVL permutations": theirs(False), "pyDVL truncated": theirs(True)}
    base = list(methods)[-2 if find_spec("pydvl") else -1]

    lines = []
    for each in (4, 8, 16) if enumerable else (4, 16):
        fits = each * players + 2
        answers = {name: [run(fits, seed) for seed in seeds] for name, run in methods.items()}
        errors = {
            name: np.array([np.abs(values - truth).mean() / scale for values, _ in found])
            for name, found in answers.items()
        }
        for name, found in answers.items():
            ranks = np.array([spearmanr(values, truth).statistic for values, _ in found])
            covered = np.array([part for _, part in found if part is not None])
            lines.append(
                [
                    game.name,
                    str(fits),
                    name,
                    mean_and_interval(errors[name]),
                    "" if name == base else ratio_and_interval(errors[name], errors[base]),
                    mean_and_interval(ranks),
                    f"{100 * covered.mean():.0f} %" if len(covered) else "",
                ]
            )
    return lines


def true_values(game: Training) -> tuple[Floats, float]:
    """Return exact values, or those of a long run, and what no rows are worth; kept in a file."""
    path = FOLDER / f"{game.name}.npz"
    if not path.exists():
        if game.sources <= 16:
            answer = game.valued(method="exact", budget=1 << game.sources)
        else:
            answer = game.valued(method="permutation-antithetic", budget=LONG_RUN, seed=999)
        np.savez(path, phi=answer.values[0], empty=answer.base_values[0])
    with np.load(path) as kept:
        return kept["phi"], float(kept["empty"])


if __name__ == "__main__":
    main()
