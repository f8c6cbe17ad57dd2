"""Training: Adam on cross-entropy in batches of 256, stopped when the validation rows no longer
gain.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap.paper.data import Dataset
from shearshap.paper.networks.architectures import Config, build, config_for

BATCH = 256
RATES = {"mlp": 1e-3, "deepfm": 1e-4}  #: learning rates of the paper's hyper-parameter table


@dataclass(frozen=True)
class Trained:
    """A network, how it was trained and how good it is."""

    network: nn.Module
    config: Config
    dataset: str
    seed: int
    epochs: int  #: run until the validation rows no longer gained
    validation_accuracy: float
    test_accuracy: float
    majority: float  #: the share of the larger class among the test rows


def train(
    dataset: Dataset,
    *,
    activation: str = "softplus",
    seed: int = 0,
    steps: int = 30_000,
    patience: int = 1_500,
    batch_size: int = BATCH,
    learning_rate: float | None = None,
    clip: float = 0.1,
    progress: bool | None = None,
) -> Trained:
    """Train the paper's network for a data set, and keep the weights with the best validation
    accuracy.

    The same seed gives the same weights on the same machine. Gradients are clipped to a norm of
    0.1, as the paper's authors do. Training stops after `patience` steps without a gain, or `steps`
    in all, at the end of an epoch.
    """
    if steps < 1:
        raise InputError(f"steps: wanted a positive number of batches, got {steps}")
    config = config_for(dataset, activation)
    rate = RATES[config.kind] if learning_rate is None else learning_rate
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build(config)
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        inputs, labels = torch.from_numpy(dataset.inputs), torch.from_numpy(dataset.labels)
        best, weights, since, epoch = -1.0, copy.deepcopy(network.state_dict()), 0, 0
        each = math.ceil(len(dataset.train) / batch_size)
        with progress_bar(progress, total=steps, unit=" steps") as bar:
            while since < patience and epoch * each < steps:
                _epoch(network, optimiser, inputs, labels, dataset.train, batch_size, clip)
                gained = accuracy(network, dataset, dataset.validation)
                epoch, since = epoch + 1, 0 if gained > best else since + each
                if since == 0:
                    best, weights = gained, copy.deepcopy(network.state_dict())
                bar.update(each)
                bar.set_postfix(validation=f"{best:.4f}")
    network.load_state_dict(weights)
    network.eval()
    test = dataset.labels[dataset.test]
    return Trained(
        network, config, dataset.name, seed, epoch, best, accuracy(network, dataset, dataset.test),
        float(np.bincount(test).max() / len(test)),
    )  # fmt: skip


def accuracy(network: nn.Module, dataset: Dataset, rows: NDArray[np.int64]) -> float:
    """Return the share of rows whose larger logit is their label's."""
    network.eval()
    with torch.no_grad():
        guesses = network(torch.from_numpy(dataset.inputs[rows])).argmax(dim=1).numpy()
    return float((guesses == dataset.labels[rows]).mean())


def _epoch(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    rows: NDArray[np.int64],
    batch_size: int,
    clip: float,
) -> None:
    network.train()
    for batch in torch.from_numpy(rows)[torch.randperm(len(rows))].split(batch_size):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimiser.step()
