"""Error against evaluations, every method in the fair protocol, on networks trained on bundled
data.

    python benchmarks/accuracy.py            every network, two seeds of each
    python benchmarks/accuracy.py --quick    one seed, fewer rows

Networks are 64-64 with ReLU or GELU, trained on the package's census (13 players) and bank (16),
and on scikit-learn's wine (13 players, its 13 columns) and digits (16 players, 2 x 2 patches of the
8 x 8 image); the explained output is one logit. The truth is exact: all 2^p coalitions. Errors are
means over rows of the mean absolute error of a row's shares. N evaluations a player are a budget of
N p + 2, base value and prediction included, as in the paper.
"""

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from torch import nn

from setting import machine, table
from shearshap import METHODS, Explanation, explain
from shearshap.paper import networks as models
from shearshap.paper.data import load

EVALUATIONS_A_PLAYER = (8, 16, 32, 64)
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
FAIR = [name for name in METHODS if name != "exact" and not name.endswith(("-paper", "-authors"))]


@dataclass(frozen=True)
class Setting:
    """A trained network and what to explain of it."""

    name: str
    network: nn.Module
    rows: Any
    reference: Any
    groups: Any
    output: int
    players: int

    def explain(self, budget: int, method: str, seed: int = 0) -> Explanation:
        """Return the rows' explanation."""
        return explain(
            self.network, self.rows, reference=self.reference, groups=self.groups, output=self.output,
            budget=budget, method=method, seed=seed,
        )  # fmt: skip


def data(name: str) -> tuple[Any, Any, Any, int]:
    """Return inputs, labels, groups and the class to explain."""
    if name == "wine":
        inputs, labels = load_wine(return_X_y=True)
        return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), labels, None, 0
    inputs, labels = load_digits(return_X_y=True)
    patch = np.arange(8) // 2
    return inputs / 16, labels, (4 * patch[:, None] + patch).reshape(-1), 3


def train(inputs: Any, labels: Any, activation: type[nn.Module], seed: int) -> nn.Module:
    """Return a 64-64 network after 200 epochs of Adam at 1e-3."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(inputs.shape[1], 64),
        activation(),
        nn.Linear(64, 64),
        activation(),
        nn.Linear(64, labels.max() + 1),
    )
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, y = torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels)
    for _ in range(200):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def settings(seeds: int, rows: int) -> list[Setting]:
    kinds = [(kind, seed) for kind in ACTIVATIONS for seed in range(seeds)]
    tables = [table_setting(name, *kind, rows) for name in ("census", "bank") for kind in kinds]
    return tables + [
        small_setting(name, *kind, rows) for name in ("wine", "digits") for kind in kinds
    ]


def table_setting(name: str, kind: str, seed: int, rows: int) -> Setting:
    """Return the paper's network on one of its data sets."""
    dataset = load(name, seed=seed)
    network = models.train(dataset, activation=kind, seed=seed).network
    groups, test = list(dataset.groups.values()), dataset.inputs[dataset.test[:rows]]
    return Setting(
        f"{name} {kind} {seed}", network, test, dataset.background, groups, 1, len(groups)
    )


def small_setting(name: str, kind: str, seed: int, rows: int) -> Setting:
    """Return a network on one of scikit-learn's data sets."""
    inputs, labels, groups, output = data(name)
    x, test, y, _ = train_test_split(
        inputs, labels, test_size=0.3, random_state=seed, stratify=labels
    )
    players = inputs.shape[1] if groups is None else int(groups.max()) + 1
    network = train(x, y, ACTIVATIONS[kind], seed)
    return Setting(
        f"{name} {kind} {seed}", network, test[:rows], x.mean(axis=0), groups, output, players
    )


def error(setting: Setting, truth: Explanation, method: str, budget: int) -> float:
    """Return the mean absolute error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = setting.explain(budget, method)
    return float(np.abs(answer.values - truth.values).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed and 20 rows")
    quick = parser.parse_args().quick
    print(f"{machine()}\n")
    tried = settings(seeds=1 if quick else 2, rows=20 if quick else 50)
    truths = [setting.explain(1 << setting.players, "exact") for setting in tried]
    for each in EVALUATIONS_A_PLAYER:
        print(
            f"\n{each} evaluations a player: the mean absolute error over that of leverage, and "
            "leverage's own\n"
        )
        cells = [row(setting, truth, each) for setting, truth in zip(tried, truths, strict=True)]
        print(table(["", *FAIR, "leverage's error"], cells))


def row(setting: Setting, truth: Explanation, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations a player."""
    found = {name: error(setting, truth, name, each * setting.players + 2) for name in FAIR}
    base = found["leverage"]
    return [setting.name, *(f"{miss / base:.2f}" for miss in found.values()), f"{base:.1e}"]


if __name__ == "__main__":
    main()
