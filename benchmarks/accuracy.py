"""Error against evaluations of every method, on networks trained on bundled data.

    python benchmarks/accuracy.py            every network, two seeds of each
    python benchmarks/accuracy.py --quick    one seed, fewer rows

Networks are 64-64 with ReLU or GELU, trained on the package's census (13 players) and bank (16),
and on scikit-learn's wine (13 players, its 13 columns) and digits (16 players, 2 x 2 patches of the
8 x 8 image); the explained output is one logit. The truth is exact: all 2^p coalitions. Errors are
means over rows of the mean absolute error of a row's values. N evaluations a player are a budget of
N p + 2, base value and prediction included, as in the paper.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from torch import nn

from setting import EVERY_METHOD, SAMPLING, machine, parser_of
from shearshap import Explanation, explain
from shearshap_lab import networks as models
from shearshap_lab.data import load
from shearshap_lab.markdown import plain_table

EVALUATIONS_A_PLAYER = (8, 16, 32, 64)
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


@dataclass(frozen=True)
class Setting:
    """A trained network and what to explain of it."""

    name: str
    network: nn.Module
    rows: Any
    background: Any
    groups: Any
    output: int
    players: int

    def budget(self, each: int) -> int:
        """Return the budget of so many evaluations a player."""
        return 2 + each * self.players

    def explain(
        self,
        budget: int,
        method: str,
        seed: int = 0,
        *,
        tol: float | None = None,
        interactions: bool = False,
    ) -> Explanation:
        """Return the rows' explanation."""
        return explain(
            self.network,
            self.rows,
            reference=self.background,
            groups=self.groups,
            output=self.output,
            budget=budget,
            method=EVERY_METHOD[method],
            seed=seed,
            tol=tol,
            interactions=interactions,
        )


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
    x = torch.tensor(inputs, dtype=torch.float32)
    y = torch.tensor(labels)
    for _ in range(200):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def settings(seeds: int, rows: int) -> list[Setting]:
    """Return every network to measure on."""
    makers = {
        "census": table_setting,
        "bank": table_setting,
        "wine": small_setting,
        "digits": small_setting,
    }
    return [
        make(name, kind, seed, rows)
        for name, make in makers.items()
        for kind in ACTIVATIONS
        for seed in range(seeds)
    ]


def table_setting(name: str, kind: str, seed: int, rows: int) -> Setting:
    """Return the paper's network on one of its data sets."""
    dataset = load(name, seed=seed)
    groups = list(dataset.groups.values())
    return Setting(
        name=f"{name} {kind} {seed}",
        network=models.train(dataset, activation=kind, seed=seed).network,
        rows=dataset.inputs[dataset.test[:rows]],
        background=dataset.background,
        groups=groups,
        output=1,
        players=len(groups),
    )


def small_setting(name: str, kind: str, seed: int, rows: int) -> Setting:
    """Return a network on one of scikit-learn's data sets."""
    inputs, labels, groups, output = data(name)
    x, test, y, _ = train_test_split(
        inputs, labels, test_size=0.3, random_state=seed, stratify=labels
    )
    return Setting(
        name=f"{name} {kind} {seed}",
        network=train(x, y, ACTIVATIONS[kind], seed),
        rows=test[:rows],
        background=x.mean(axis=0),
        groups=groups,
        output=output,
        players=inputs.shape[1] if groups is None else int(groups.max()) + 1,
    )


def error(setting: Setting, truth: Explanation, method: str, budget: int) -> float:
    """Return the mean absolute error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = setting.explain(budget, method)
    return float(np.abs(answer.values - truth.values).mean())


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed and 20 rows")
    quick = parser.parse_args().quick
    print(f"{machine()}\n")
    measured = settings(seeds=1 if quick else 2, rows=20 if quick else 50)
    truths = [setting.explain(1 << setting.players, "exact") for setting in measured]
    for each in EVALUATIONS_A_PLAYER:
        print(
            f"\n{each} evaluations a player: the mean absolute error over that of leverage, and "
            "leverage's own\n"
        )
        cells = [row(setting, truth, each) for setting, truth in zip(measured, truths, strict=True)]
        print(plain_table(["", *SAMPLING, "leverage's error"], cells))


def row(setting: Setting, truth: Explanation, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations a player."""
    errors = {name: error(setting, truth, name, setting.budget(each)) for name in SAMPLING}
    base = errors["leverage"]
    ratios = [f"{size / base:.2f}" for size in errors.values()]
    return [setting.name, *ratios, f"{base:.1e}"]


if __name__ == "__main__":
    main()
