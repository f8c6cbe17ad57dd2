"""How good the paper's networks are, and whether DeepFM finds planted interactions.

    python benchmarks/training.py           census, bank, german, criteo-synthetic, three seeds each
    python benchmarks/training.py census    one of them

A seed decides the split, the first weights and the batches. For criteo-synthetic,
cross-contribution at DeepFM's embeddings (the mean over 300 test rows) ranks all pairs of features;
the AUC is the chance that a planted pair stands above a pair that no planted interaction joins.
"""

import argparse
from itertools import combinations
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from setting import machine, table
from shearshap.games.batches import Batch
from shearshap.games.game import ModelGame
from shearshap.interactions.cross import cross_contribution, hessian
from shearshap.models import Outputs, Predictor
from shearshap.models.networks import module
from shearshap_lab import data
from shearshap_lab import networks as models

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

    accuracies = []
    agreements = []
    for name in chosen.names:
        runs = [train(name, seed) for seed in range(chosen.seeds)]
        accuracies.append(accuracy(name, [trained for _, trained in runs]))
        agreements += [agreement(dataset, trained) for dataset, trained in runs if dataset.planted]

    header = ["", "test accuracy by seed", "mean", "over the majority class", "paper"]
    print(table(header, accuracies))
    if agreements:
        header = ["seed", "AUC by Hessian", "AUC by second differences", "rank correlation"]
        print("\n" + table(header, agreements))


def accuracy(name: str, runs: list[models.Trained]) -> list[str]:
    """Return the row of a data set: how good its networks are."""
    scores = [trained.test_accuracy for trained in runs]
    margins = [trained.test_accuracy - trained.majority for trained in runs]
    return [
        name,
        " ".join(f"{score:.1%}" for score in scores),
        f"{np.mean(scores):.1%}",
        f"{100 * np.mean(margins):+.1f} points",
        PAPER.get(name, ""),
    ]


def train(name: str, seed: int) -> tuple[data.Dataset, models.Trained]:
    dataset = data.load(name, seed=seed)
    return dataset, models.train(dataset, seed=seed)


def agreement(dataset: data.Dataset, trained: models.Trained) -> list[str]:
    """Return the row of a seed: how well two ways find planted pairs, and how alike they are."""
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
    curved = hessian(game).mean(dim=0).numpy()
    differing = cross_contribution(game, "second-differences").mean(dim=0).numpy()
    upper = np.triu_indices(players, 1)
    correlation = spearmanr(curved[upper], differing[upper]).statistic
    areas = [f"{auc(eta, dataset):.3f}" for eta in (curved, differing)]
    return [str(trained.seed), *areas, f"{correlation:.3f}"]


def auc(eta: Any, dataset: data.Dataset) -> float:
    """Return the chance that a planted pair's cross-contribution exceeds an unplanted pair's."""
    number = {name: player for player, name in enumerate(dataset.feature_names)}
    planted = [sorted(number[name] for name in names) for names in dataset.planted]
    planted_pairs = {tuple(members) for members in planted if len(members) == 2}
    interacting = {pair for members in planted for pair in combinations(members, 2)}
    unplanted = set(combinations(range(len(number)), 2)) - interacting

    above = np.array([eta[i, j] for i, j in planted_pairs])
    below = np.array([eta[i, j] for i, j in unplanted])
    return float((above[:, None] > below).mean())


if __name__ == "__main__":
    main()
