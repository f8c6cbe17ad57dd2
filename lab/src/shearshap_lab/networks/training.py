"""Training: Adam on cross-entropy, for some epochs or until validation accuracy no longer rises."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap_lab.data import Dataset
from shearshap_lab.data.preparation import OURS, Preparation
from shearshap_lab.networks.architectures import Config, build, config_for

BATCH = 256
STEPS = 30_000  #: at most, where training goes on until it no longer helps
RATES = {"mlp": 1e-3, "deepfm": 1e-4}  #: learning rates of the paper's hyper-parameter table


@dataclass(frozen=True)
class Trained:
    """A network, how it was trained and how good it is."""

    network: nn.Module
    config: Config
    dataset: str
    seed: int
    epochs: int  #: run, of which the best was kept
    validation_accuracy: float
    test_accuracy: float
    majority: float  #: the fraction of the test rows that are of the larger class
    preparation: Preparation = OURS  #: of the rows that it was trained on


def train(
    dataset: Dataset,
    *,
    activation: str = "softplus",
    seed: int = 0,
    steps: int = STEPS,
    patience: int = 1_500,
    epochs: int | None = None,
    batch_size: int = BATCH,
    drop_last: bool = False,
    learning_rate: float | None = None,
    clip: float = 0.1,
    progress: bool | None = None,
) -> Trained:
    """Train the paper's network for a data set; keep the weights of the best validation accuracy.

    The same seed gives the same weights on the same machine. Gradients are clipped to a norm of
    0.1, as the paper's authors do. Training stops after `patience` steps without a gain, or `steps`
    in all, at the end of an epoch; or, where `epochs` are given, after so many. `drop_last`: a last
    batch of an epoch that is not full is left out.
    """
    if steps < 1 or (epochs is not None and epochs < 1):
        raise InputError(f"expected a positive number of steps and epochs, got {steps}, {epochs}")
    if drop_last and len(dataset.train) < batch_size:
        raise InputError(
            f"drop_last: {len(dataset.train)} training rows do not fill one batch of {batch_size}; "
            "pass a smaller batch_size"
        )
    config = config_for(dataset, activation)
    rate = RATES[config.kind] if learning_rate is None else learning_rate
    epoch_steps = _steps_of_an_epoch(dataset, batch_size, drop_last)
    most = steps if epochs is None else epochs * epoch_steps

    best = -1.0
    done = 0
    steps_since_best = 0
    with (
        torch.random.fork_rng(devices=[]),
        progress_bar(progress, total=most, unit=" steps") as bar,
    ):
        torch.manual_seed(seed)
        network = build(config)
        weights = copy.deepcopy(network.state_dict())
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        while done * epoch_steps < most and (epochs or steps_since_best < patience):
            _epoch(network, optimiser, _batches(dataset, batch_size, drop_last), clip)
            done += 1
            steps_since_best += epoch_steps
            reached = accuracy(network, dataset, dataset.validation)
            if reached > best:
                best = reached
                steps_since_best = 0
                weights = copy.deepcopy(network.state_dict())
            bar.update(epoch_steps)
            bar.set_postfix(validation=f"{best:.4f}")

    network.load_state_dict(weights)
    labels = dataset.labels[dataset.test]
    return Trained(
        network=network.eval(),
        config=config,
        dataset=dataset.name,
        seed=seed,
        epochs=done,
        validation_accuracy=best,
        test_accuracy=accuracy(network, dataset, dataset.test),
        majority=float(np.bincount(labels).max() / len(labels)),
        preparation=dataset.preparation,
    )


def _steps_of_an_epoch(dataset: Dataset, batch_size: int, drop_last: bool) -> int:
    rows = len(dataset.train)
    return rows // batch_size if drop_last else math.ceil(rows / batch_size)


def accuracy(network: nn.Module, dataset: Dataset, rows: NDArray[np.int64]) -> float:
    """Return the fraction of rows whose larger logit is that of their label."""
    network.eval()
    with torch.no_grad():
        guesses = network(torch.from_numpy(dataset.inputs[rows])).argmax(dim=1).numpy()
    return float((guesses == dataset.labels[rows]).mean())


def _batches(dataset: Dataset, size: int, drop_last: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and labels of the training rows, in a new random order."""
    inputs = torch.from_numpy(dataset.inputs)
    labels = torch.from_numpy(dataset.labels)
    rows = torch.from_numpy(dataset.train)
    shuffled = rows[torch.randperm(len(rows))]
    for batch in shuffled.split(size):
        if drop_last and len(batch) < size:
            return
        yield inputs[batch], labels[batch]


def _epoch(
    network: nn.Module, optimiser: Any, batches: Iterator[tuple[Tensor, Tensor]], clip: float
) -> None:
    network.train()
    for inputs, labels in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimiser.step()
