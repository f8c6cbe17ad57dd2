"""Train a small network on the wine data, explain its test rows, print and plot one of them.

python examples/wine.py [--out out/wine.png]
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn

from shearshap import Explanation, explain

mpl.use("Agg")
import matplotlib.pyplot as plt

BLUE, RED = "#0072B2", "#D55E00"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/wine.png"), help="where the plot goes")
    out = parser.parse_args().out
    wine = load_wine()
    scaled = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    train, test, labels, truth = train_test_split(scaled, wine.target, test_size=0.3, random_state=0)
    network = fit(train, labels)
    guesses = network(torch.tensor(test, dtype=torch.float32)).argmax(dim=1).numpy()
    print(f"{(guesses == truth).mean():.0%} of {len(test)} test wines are classified right")

    explanation = explain(network, test, reference=train.mean(axis=0), budget=208, output=0)
    exact = explain(network, test, reference=train.mean(axis=0), budget=1 << 13, output=0)
    print(explanation)
    error = np.abs(explanation.values - exact.values).mean() / np.abs(exact.values).mean()
    print(f"against all 8192 coalitions, the mean error is {error:.2%} of the mean share\n")
    show(explanation, 0, wine.feature_names)
    plot(explanation, exact, 0, wine.feature_names, out)
    print(f"\nThe plot of row 0 is in {out}")


def fit(inputs: Any, labels: Any) -> nn.Module:
    """Return a 64-64 network trained to tell three cultivars apart."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(13, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, y = torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def show(explanation: Explanation, row: int, names: list[str]) -> None:
    print(f"row {row}: base value {explanation.base_values[row]:+.3f}")
    errors = np.zeros(13) if explanation.standard_errors is None else explanation.standard_errors[row]
    for player in np.argsort(-np.abs(explanation.values[row])):
        print(f"  {names[player]:30s} {explanation.values[row, player]:+8.4f} ± {errors[player]:.4f}")
    print(f"  {'prediction (logit of class 0)':30s} {explanation.predictions[row]:+8.4f}")


def plot(explanation: Explanation, exact: Explanation, row: int, names: list[str], out: Path) -> None:
    order = np.argsort(np.abs(exact.values[row]))
    shares = explanation.values[row, order]
    errors = None if explanation.standard_errors is None else 1.96 * explanation.standard_errors[row, order]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.barh(range(13), shares, xerr=errors, color=np.where(shares < 0, RED, BLUE).tolist(), capsize=3, alpha=0.8)
    axes.plot(exact.values[row, order], range(13), "k|", markersize=12, label="exact")
    axes.set_yticks(range(13), [names[player] for player in order])
    axes.set_xlabel("share of the logit of class 0, with 95 % intervals")
    axes.set_title(f"{explanation.method}, {explanation.evaluations} of {exact.evaluations} evaluations")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.legend(loc="lower right")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
