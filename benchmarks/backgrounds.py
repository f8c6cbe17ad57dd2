"""Error against evaluations with 10, 100 and 1,000 background rows.

    python benchmarks/backgrounds.py            networks on census and bank, 12 rows
    python benchmarks/backgrounds.py --quick    census alone, 4 rows

The explained output is a probability; the truth is exact, all coalitions at all background rows. An
error is the sum of a row's absolute errors over the sum of its |values|, its mean over rows and
three seeds. "each coalition at all rows" spends its evaluations as other libraries do: a coalition
costs as many as there are background rows. A cell is empty if a method cannot work with so few. The
last columns are of ours: how many of the 95 % intervals hold, and the mean absolute error over the
standard deviation of the predictions.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from setting import Tables, machine, parser_of
from shearshap import Explainer, Explanation, explain_game
from shearshap_lab import networks
from shearshap_lab.data import load

Floats = NDArray[np.float64]

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
SEEDS = 3
CASES = {"census": ("gelu", (10, 100, 1_000)), "bank": ("relu", (10, 100))}


@dataclass(frozen=True)
class Case:
    """A network's probability as a function of features: a category is the number of its column."""

    model: Callable[[Floats], Floats]
    rows: Floats  #: (r, p)
    background: Floats  #: (b, p)

    @property
    def players(self) -> int:
        """The number of features p."""
        return int(self.rows.shape[1])

    def exact(self) -> Explanation:
        """Return the values from all coalitions at all background rows."""
        every = len(self.background) << self.players
        background = ("all", self.background)
        explainer = Explainer(self.model, background, method="exact", batch_size=1 << 16)
        return explainer(self.rows, budget=every)


def case(data: str, activation: str, count: int, rows: int) -> Case:
    """Return the case of a data set, with `count` training rows as the background."""
    dataset = load(data)
    network = networks.train(dataset, activation=activation).network
    blocks = list(dataset.groups.values())

    def decoded(features: Floats) -> torch.Tensor:
        inputs = torch.zeros(len(features), dataset.inputs.shape[1])
        for content, columns in zip(torch.from_numpy(features).T, blocks, strict=True):
            if len(columns) == 1:
                inputs[:, columns[0]] = content.float()
            else:
                present = content >= 0
                inputs[present, columns[0] + content[present].long()] = 1
        return inputs

    def model(features: Floats) -> Floats:
        with torch.no_grad():
            return np.asarray(network(decoded(features)).softmax(1)[:, 1].double())

    def encoded(numbers: NDArray[np.int64]) -> Floats:
        inputs = dataset.inputs[numbers]
        parts = [
            inputs[:, columns[0]]
            if len(columns) == 1
            else np.where(inputs[:, columns].any(axis=1), inputs[:, columns].argmax(axis=1), -1)
            for columns in blocks
        ]
        return np.stack(parts, axis=1).astype(np.float64)

    return Case(model, encoded(dataset.test[:rows]), encoded(dataset.train[:count]))


def ours(case: Case, budget: int, seed: int) -> Explanation:
    return Explainer(case.model, ("all", case.background), seed=seed)(case.rows, budget=budget)


def at_all_rows(case: Case, budget: int, seed: int) -> Floats:
    values = []
    for row in case.rows:

        def value(sets: NDArray[np.bool_], row: Floats = row) -> Floats:
            mixed = np.where(sets[:, None], row, case.background)
            answer = case.model(mixed.reshape(-1, case.players))
            return np.asarray(answer.reshape(len(sets), -1).mean(axis=1))

        coalitions = budget // len(case.background)
        answer = explain_game(value, players=case.players, budget=coalitions, seed=seed)
        values.append(answer.values[0])
    return np.array(values)


def shap_permutation(case: Case, budget: int, seed: int) -> Floats:
    import shap

    masker = shap.maskers.Independent(case.background, max_samples=len(case.background))
    explainer = shap.PermutationExplainer(case.model, masker, seed=seed)
    evaluations = budget // len(case.background)
    return np.asarray(explainer(case.rows, max_evals=evaluations, silent=True).values)


def shap_kernel(case: Case, budget: int, seed: int) -> Floats:
    import shap

    np.random.seed(seed)  # noqa: NPY002 (shap draws from it)
    explainer = shap.KernelExplainer(case.model, case.background)
    samples = budget // len(case.background)
    return np.asarray(explainer.shap_values(case.rows, nsamples=samples, silent=True))


PEERS = {
    "each coalition at all rows": at_all_rows,
    "shap Permutation": shap_permutation,
    "shap Kernel": shap_kernel,
}


def line(case: Case, truth: Explanation, budget: int, seeds: int) -> list[str]:
    """Return the cells of a budget."""
    size = np.abs(truth.values).sum(axis=1)

    def error(values: Floats) -> float:
        return float((np.abs(values - truth.values).sum(axis=1) / size).mean())

    found = [ours(case, budget, seed) for seed in range(seeds)]
    cells = [f"{budget:,}", f"{np.mean([error(each.values) for each in found]):.3f}"]
    for peer in PEERS.values():
        if budget // len(case.background) < 2 * case.players + 2:
            cells.append("")
            continue
        cells.append(f"{np.mean([error(peer(case, budget, s)) for s in range(seeds)]):.3f}")

    bounds = [each.interval() for each in found if each.standard_errors is not None]
    spread = truth.predictions.std()
    rounding = 1e-5 * spread  # of networks in single precision
    held = [
        (low - rounding <= truth.values) & (truth.values <= high + rounding) for low, high in bounds
    ]
    part = np.mean([np.abs(each.values - truth.values).mean() for each in found]) / spread
    return [*cells, f"{np.mean(held):.0%}" if held else "", f"{part:.1%}"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="census alone, 4 rows and one seed")
    options = parser.parse_args()
    quick = options.quick
    rows, seeds = (4, 1) if quick else (12, SEEDS)
    warnings.simplefilter("ignore")
    tables = Tables(f"{rows} rows, {seeds} seeds; {machine()}", options.csv)
    columns = ["data", "features", "background rows", "evaluations", "shearshap", *PEERS]
    columns += ["intervals that hold %", "error over spread %"]
    for data, (activation, counts) in CASES.items():
        if quick and data != "census":
            continue
        for count in counts:
            measured = case(data, activation, count, rows)
            truth = measured.exact()
            here = [data, str(measured.players), f"{count:,}"]
            lines = [[*here, *line(measured, truth, budget, seeds)] for budget in BUDGETS]
            tables.show("backgrounds", columns, lines)


if __name__ == "__main__":
    main()
