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

from shearshap import Explainer, Explanation, plots

mpl.use("Agg")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/wine.png"), help="where the plot goes"
    )
    out = parser.parse_args().out
    wine = load_wine()
    scaled = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    train, test, labels, truth = train_test_split(
        scaled, wine.target, test_size=0.3, random_state=0
    )
    network = fit(train, labels)
    guesses = network(torch.tensor(test, dtype=torch.float32)).argmax(dim=1).numpy()
    print(f"{(guesses == truth).mean():.0%} of {len(test)} test wines are classified right")

    explainer = Explainer(network, train, output=0, feature_names=wine.feature_names)
    explanation = explainer(test)
    exact = explainer(test[:1], budget=100 * 2**13)  # all coalitions at 100 background rows
    print(repr(explanation))
    error = np.abs(explanation.values[:1] - exact.values).mean() / np.abs(exact.values).mean()
    print(
        f"for one row at all 8192 coalitions, the mean error is {error:.2%} of the mean |value|\n"
    )
    show(explanation[0])
    out.parent.mkdir(parents=True, exist_ok=True)
    plots.waterfall(explanation, row=0).get_figure(root=True).savefig(out, dpi=150)  # type: ignore[union-attr]
    print(f"\nThe plot of row 0 is in {out}")


def fit(inputs: Any, labels: Any) -> nn.Module:
    """Return a 64-64 network trained to tell three cultivars apart."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(13, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3)
    )
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.tensor(inputs, dtype=torch.float32)
    y = torch.tensor(labels)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def show(one: Explanation) -> None:
    """Print the values of one row with their 95 % intervals, the largest first."""
    lower, upper = one.interval()
    print(f"base value {one.base_values[0]:+.3f}")
    for player in np.argsort(-np.abs(one.values[0])):
        name = one.feature_names[player]
        value = one.values[0, player]
        margin = (upper - lower)[0, player] / 2
        print(f"  {name:30s} {value:+8.4f} ± {margin:.4f}")
    print(f"  {'prediction (logit of class 0)':30s} {one.predictions[0]:+8.4f}")


if __name__ == "__main__":
    main()
