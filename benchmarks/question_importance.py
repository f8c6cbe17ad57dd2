"""Questions that one can ask of a game, beside the libraries that answer them too.

    python benchmarks/questions.py importance           which features a model needs, beside sage
    python benchmarks/questions.py importance --quick   few repetitions, without a long run

The peer of a question is compared if it is installed: `pip install sage-importance` for importance.
Run with OMP_NUM_THREADS=1.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import shearshap
from setting import Tables, machine, question_parser
from shearshap_lab.data import load

Floats = NDArray[np.float64]


def main() -> None:
    """Answer the question."""
    options = question_parser(__doc__).parse_args()
    importance(options)


# Which features a model needs: importance by a loss (SAGE), beside sage-importance

BACKGROUND = 512  #: training rows, at most: the same for both
TOLERANCE = 0.05  #: standard errors relative to the range of the values
REPETITIONS = 100  #: of samples of rows, for the coverage
SEEDS = 3


@dataclass
class Labelled:
    """A model's answers, counted, and rows with labels."""

    name: str
    answer: Callable[[Floats], Floats]  #: (n, p) to (n,)
    loss: str
    rows: Floats  #: (r, p)
    labels: NDArray[Any]  #: (r,)
    background: Floats  #: (b, p)
    evaluations: int = field(default=0)

    def __call__(self, inputs: Floats) -> Floats:
        """Return answers, and count them."""
        self.evaluations += len(inputs)
        return self.answer(inputs)

    def importance(self, rows: Any = slice(None), **options: Any) -> Any:
        """Return our importance of some rows."""
        return shearshap.importance(
            self,
            self.rows[rows],
            self.labels[rows],
            loss=self.loss,
            background=("all", self.background),
            **options,
        )

    def sage(self, width: float, seed: int) -> Any:
        """Return the importance of sage's permutations, with the same width."""
        import sage  # type: ignore[import-not-found]

        imputer = sage.MarginalImputer(self.__call__, self.background)
        loss = {"mse": "mse", "log loss": "cross entropy"}[self.loss]
        estimator = sage.PermutationEstimator(imputer, loss, random_state=seed)
        return estimator(self.rows, self.labels, batch_size=32, thresh=width, bar=False)

    def long_run(self, orders: int) -> Floats:
        """Return the values (p,) by all background rows, and joining orders with their reverses."""
        rng = np.random.default_rng(1)
        players = self.rows.shape[1]
        total = np.zeros(players)
        for row, label in zip(self.rows, self.labels, strict=True):
            for _ in range(orders):
                order = rng.permutation(players)
                for each in (order, order[::-1]):
                    present = np.argsort(each) < np.arange(players + 1)[:, None]
                    mixes = np.where(present[:, None], row, self.background)
                    means = self.answer(mixes.reshape(-1, players)).reshape(players + 1, -1).mean(1)
                    total[each] -= np.diff(_loss(self.loss, label, means))
        return total / (2 * orders * len(self.rows))


def _loss(name: str, label: Any, predictions: Floats) -> Floats:
    if name == "mse":
        return np.asarray((predictions - label) ** 2)
    return -np.log(np.clip(predictions if label else 1 - predictions, 1e-7, 1))


def labelled_models() -> list[Labelled]:
    """Return models of three families, with rows that they have not seen."""
    made = []
    inputs, numbers = datasets.load_diabetes(return_X_y=True)
    train, test, own, labels = train_test_split(inputs, numbers, random_state=0, test_size=0.5)
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(train, own)
    made.append(
        Labelled("diabetes, forest", forest.predict, "mse", test, labels, train[:BACKGROUND])
    )

    inputs, classes = datasets.load_breast_cancer(return_X_y=True)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    train, test, own, labels = train_test_split(inputs, classes, random_state=0, test_size=0.5)
    network = MLPClassifier((32,), random_state=0, alpha=1.0, max_iter=400).fit(train, own)

    def of_network(rows: Floats) -> Floats:
        return np.asarray(network.predict_proba(rows)[:, 1])

    made.append(
        Labelled("cancer, network", of_network, "log loss", test, labels, train[:BACKGROUND])
    )

    bank = load("bank")
    columns = [np.asarray(bank.display)[:, place] for place in range(len(bank.groups))]
    inputs = np.column_stack([_as_numbers(column) for column in columns])
    trees = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    trees.fit(inputs[bank.train], bank.labels[bank.train])

    def of_trees(rows: Floats) -> Floats:
        return np.asarray(trees.predict_proba(rows)[:, 1])

    rng = np.random.default_rng(0)  # the file's rows are in the order of time
    test = rng.choice(bank.test, 1_000, replace=False)
    background = inputs[rng.choice(bank.train, BACKGROUND, replace=False)]
    made.append(
        Labelled(
            "bank, boosted trees", of_trees, "log loss", inputs[test], bank.labels[test], background
        )
    )
    return made


def _as_numbers(column: NDArray[Any]) -> Floats:
    try:
        return column.astype(np.float64)
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(np.float64)


def importance(options: argparse.Namespace) -> None:
    """Print evaluations, seconds and errors at the same width, and how many intervals hold."""
    has_peer = find_spec("sage") is not None
    seeds = 1 if options.quick else SEEDS
    tables = Tables(f"{seeds} seeds; {machine()}", options.csv)
    header = ["model", "library", "width %"]
    header += [f"{name} (low to high)" for name in ("evaluations", "seconds", "error %")]
    held_header = ["model", "rows", "intervals that hold % ±"]
    for model in labelled_models():
        truth = model.long_run(1 if options.quick else 2)
        span = np.ptp(truth)
        runs: dict[str, list[list[float]]] = {"shearshap": [], "sage": []}
        for seed in range(seeds):
            run = partial(model.importance, tol=TOLERANCE * span, seed=seed)
            ours, cost = _measured(model, run)
            width = ours.standard_errors.max() / np.ptp(ours.values)
            runs["shearshap"].append([width, *cost, _error(ours.values, truth)])
            if has_peer:
                peer, cost = _measured(model, partial(model.sage, width, seed))
                reached = peer.std.max() / np.ptp(peer.values)
                runs["sage"].append([reached, *cost, _error(peer.values, truth)])
        lines = [
            [model.name, library, *_cells(np.array(numbers))]
            for library, numbers in runs.items()
            if numbers
        ]
        tables.show("question-importance", header, lines)
        held = [model.name, *_coverage(model, truth, 10 if options.quick else REPETITIONS)]
        tables.show("question-importance-intervals", held_header, [held])


def _measured(model: Labelled, call: Callable[[], Any]) -> tuple[Any, tuple[int, float]]:
    """Return a result, with the evaluations and the seconds that it took."""
    model.evaluations = 0
    started = time.perf_counter()
    result = call()
    return result, (model.evaluations, time.perf_counter() - started)


def _error(values: Floats, truth: Floats) -> float:
    """Return the root of the mean squared error, relative to the range of the true values."""
    return float(np.sqrt(np.mean((values - truth) ** 2)) / np.ptp(truth))


def _cells(numbers: Floats) -> list[str]:
    """Return the means over seeds of width, evaluations, seconds and error, with their ranges."""
    width, evaluations, seconds, error = numbers.T
    return [
        f"{100 * width.mean():.1f} %",
        f"{evaluations.mean():,.0f} ({evaluations.min():,.0f} to {evaluations.max():,.0f})",
        f"{seconds.mean():.1f} ({seconds.min():.1f} to {seconds.max():.1f})",
        f"{100 * error.mean():.1f} % ({100 * error.min():.1f} to {100 * error.max():.1f})",
    ]


def _coverage(model: Labelled, truth: Floats, repetitions: int) -> list[str]:
    """Return how many 95 % intervals hold, for rows drawn with replacement from all."""
    count = len(model.rows)
    held = []
    for seed in range(repetitions):
        rows = np.random.default_rng(seed).integers(count, size=min(count, 300))
        table = model.importance(rows, seed=seed)
        held.append(((table.lower <= truth) & (truth <= table.upper)).mean())
    margin = 1.96 * np.std(held, ddof=1) / np.sqrt(repetitions)
    return [f"{min(count, 300)}", f"{100 * np.mean(held):.1f} % ± {100 * margin:.1f}"]


if __name__ == "__main__":
    main()
