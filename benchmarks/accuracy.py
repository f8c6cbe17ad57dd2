"""Error against evaluations of every method, on networks trained on bundled data.

    python benchmarks/accuracy.py            every network, two seeds of each
    python benchmarks/accuracy.py --quick    one seed, fewer rows

Networks are 64-64 with ReLU or GELU, trained on the package's census (13 players) and bank (16),
and on scikit-learn's wine (13 players, its 13 columns) and digits (16 players, 2 x 2 patches of the
8 x 8 image); the explained output is one logit. The truth is exact: all 2^p coalitions. Errors are
means over rows of the mean absolute error of a row's values, divided by those of leverage. N
evaluations per player are a budget of N p + 2, base value and prediction included, as in the paper.
"""

import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from torch import nn

from setting import SAMPLING, Tables, fit, machine, parser_of, perceptron
from shearshap import Explanation
from shearshap_lab import networks
from shearshap_lab.data import load
from shearshap_lab.games.tables import Rows

EVALUATIONS_PER_PLAYER = (8, 16, 32, 64)
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
DATA = ("census", "bank", "wine", "digits")


def network_rows(data: str, activation: str, seed: int, rows: int) -> Rows:
    """Return test rows of a network, by the logit of one class."""
    name = f"{data} {activation} {seed}"
    if data not in ("wine", "digits"):
        dataset = load(data, seed=seed)
        trained = networks.train(dataset, activation=activation, seed=seed)
        inputs = dataset.inputs[dataset.test[:rows]]
        options = {"groups": list(dataset.groups.values()), "output": 1}
        return Rows(name, data, trained.network, inputs, dataset.background, options=options)

    if data == "wine":
        inputs, labels = load_wine(return_X_y=True)
        inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
        options = {"groups": [[column] for column in range(13)], "output": 0}
    else:
        inputs, labels = load_digits(return_X_y=True)
        inputs = inputs / 16
        patches = np.arange(64).reshape(4, 2, 4, 2).swapaxes(1, 2).reshape(16, 4)
        options = {"groups": patches.tolist(), "output": 3}
    x, test, y, _ = train_test_split(
        inputs, labels, test_size=0.3, random_state=seed, stratify=labels
    )
    torch.manual_seed(seed)
    network = perceptron(inputs.shape[1], labels.max() + 1, ACTIVATIONS[activation])
    fit(network, x.astype(np.float32), y, epochs=200)
    return Rows(name, data, network, test[:rows], x.mean(axis=0), options=options)


def players_of(rows: Rows) -> int:
    """Return the number of players p."""
    return len(rows.options["groups"])


def explained(rows: Rows, each: int, method: str, *, interactions: bool = False) -> Explanation:
    """Explain the rows at so many evaluations per player."""
    budget = 2 + each * players_of(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rows.explain(method=method, budget=budget, interactions=interactions)


def exact(rows: Rows, *, interactions: bool = False) -> Explanation:
    """Return the exact values, of all coalitions."""
    every = 1 << players_of(rows)
    return rows.explain(method="exact", budget=every, interactions=interactions)


def line(rows: Rows, truth: Explanation, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations per player."""
    errors = {
        name: float(np.abs(explained(rows, each, name).values - truth.values).mean())
        for name in SAMPLING
    }
    base = errors["leverage"]
    ratios = [f"{size / base:.2f}" for size in errors.values()]
    return [rows.name, str(each), *ratios, f"{base:.1e}"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed and 20 rows")
    options = parser.parse_args()
    quick = options.quick
    tables = Tables(machine(), options.csv)
    every = [
        network_rows(data, activation, seed, 20 if quick else 50)
        for data in DATA
        for activation in ACTIVATIONS
        for seed in range(1 if quick else 2)
    ]
    truths = [exact(rows) for rows in every]
    for each in EVALUATIONS_PER_PLAYER:
        lines = [line(rows, truth, each) for rows, truth in zip(every, truths, strict=True)]
        tables.show("accuracy", ["network", "N", *SAMPLING, "leverage's error"], lines)


if __name__ == "__main__":
    main()
