"""How good the paper's networks are on its data sets, over seeds, and whether DeepFM finds planted
interactions.

    python benchmarks/training.py              census, bank, german and criteo-synthetic, three
    seeds each python benchmarks/training.py census       one of them

A seed decides the split, the first weights and the batches. For criteo-synthetic,
cross-contribution at DeepFM's embeddings (the mean over 300 test rows) ranks all pairs of features;
the AUC is the chance that a planted pair stands above a pair that shares no planted interaction.
"""

import argparse
from itertools import combinations
from typing import Any

import numpy as np
import torch

from setting import machine, table
from shearshap.adapters import Outputs, Predictor
from shearshap.adapters.modules import module
from shearshap.batches import Batch
from shearshap.game import ModelGame
from shearshap.interactions.cross import cross_contribution, hessian
from shearshap.paper import data
from shearshap.paper import networks as models

NAMES = ("census", "bank", "german", "criteo-synthetic")
PAPER = {"census": "84.7 %", "bank": "89.8 %"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print(f"{machine()}\n")
    rows, found = [], []
    for name in chosen.names:
        runs = [train(name, seed) for seed in range(chosen.seeds)]
        scores = [trained.test_accuracy for _, trained in runs]
        margins = [trained.test_accuracy - trained.majority for _, trained in runs]
        rows.append(
            [
                name,
                " ".join(f"{score:.1%}" for score in scores),
                f"{np.mean(scores):.1%}",
                f"{100 * np.mean(margins):+.1f} points",
                PAPER.get(name, ""),
            ]
        )
        found += [agreement(dataset, trained) for dataset, trained in runs if dataset.planted]
    print(table(["", "test accuracy by seed", "mean", "over the majority class", "paper"], rows))
    if found:
        print(
            "\n"
            + table(
                ["seed", "AUC by Hessian", "AUC by second differences", "rank correlation"], found
            )
        )


def train(name: str, seed: int) -> tuple[data.Dataset, models.Trained]:
    dataset = data.load(name, seed=seed)
    return dataset, models.train(dataset, seed=seed)


def agreement(dataset: data.Dataset, trained: models.Trained) -> list[str]:
    """Return the row of a seed: how well planted pairs are found, and how alike two ways of finding
    them are.
    """
    rows = torch.from_numpy(dataset.inputs[dataset.test[:300]])
    players = rows.shape[1]
    game = ModelGame(
        Predictor(module(trained.network, torch.device("cpu")), Outputs(1)),
        rows,
        torch.from_numpy(dataset.background)[None],
        torch.arange(players),
        (players,),
        players,
        Batch(20_000),
    )
    etas = (hessian(game), cross_contribution(game, "second-differences"))
    ways = [eta.mean(dim=0).numpy() for eta in etas]
    upper = np.triu_indices(players, 1)
    ranks = [np.argsort(np.argsort(eta[upper])) for eta in ways]
    correlation = np.corrcoef(ranks[0], ranks[1])[0, 1]
    return [str(trained.seed), *(f"{auc(eta, dataset):.3f}" for eta in ways), f"{correlation:.3f}"]


def auc(eta: Any, dataset: data.Dataset) -> float:
    """Return the chance that a planted pair's cross-contribution is above that of a pair without
    interaction.
    """
    number = {name: player for player, name in enumerate(dataset.feature_names)}
    planted = [[number[name] for name in names] for names in dataset.planted]
    pairs = {tuple(sorted(names)) for names in planted if len(names) == 2}
    together = {pair for names in planted for pair in combinations(sorted(names), 2)}
    above = np.array([eta[i, j] for i, j in pairs])
    below = np.array(
        [eta[i, j] for i, j in combinations(range(len(number)), 2) if (i, j) not in together]
    )
    return float((above[:, None] > below).mean())


if __name__ == "__main__":
    main()
