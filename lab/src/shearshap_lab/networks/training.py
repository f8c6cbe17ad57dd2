"""Training: Adam on cross-entropy, for some epochs or until validation accuracy no longer rises."""

import copy
import math
from collections.abc import Iterator, Sequence
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
    (trained,) = train_until(
        dataset,
        (epochs,),
        activation=activation,
        seed=seed,
        steps=steps,
        patience=patience,
        batch_size=batch_size,
        drop_last=drop_last,
        learning_rate=learning_rate,
        clip=clip,
        progress=progress,
    )
    return trained


def train_until(
    dataset: Dataset,
    stops: Sequence[int | None],
    *,
    activation: str = "softplus",
    seed: int = 0,
    steps: int = STEPS,
    patience: int = 1_500,
    batch_size: int = BATCH,
    drop_last: bool = False,
    learning_rate: float | None = None,
    clip: float = 0.1,
    progress: bool | None = None,
) -> list[Trained]:
    """Return what `train` gives for each of several `epochs`, in the time of the longest.

    A shorter training is the beginning of a longer one.
    """
    _check(dataset, steps, stops, batch_size, drop_last)
    config = config_for(dataset, activation)
    rate = RATES[config.kind] if learning_rate is None else learning_rate

    trained: dict[int | None, Trained] = {}
    best = -1.0
    done = 0
    steps_since_best = 0
    epoch_steps = _steps_of_an_epoch(dataset, batch_size, drop_last)
    longest = max((stop * epoch_steps for stop in stops if stop), default=0)
    with (
        torch.random.fork_rng(devices=[]),
        progress_bar(
            progress, total=max(longest, steps if None in stops else 0), unit=" steps"
        ) as bar,
    ):
        torch.manual_seed(seed)
        network = build(config)
        weights = copy.deepcopy(network.state_dict())
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        while not trained.keys() >= set(stops):
            _epoch(network, optimiser, _batches(dataset, batch_size, drop_last), clip)
            done += 1
            reached = accuracy(network, dataset, dataset.validation)
            steps_since_best += epoch_steps
            if reached > best:
                best = reached
                steps_since_best = 0
                weights = copy.deepcopy(network.state_dict())
            bar.update(epoch_steps)
            bar.set_postfix(validation=f"{best:.4f}")

            spent = steps_since_best >= patience or done * epoch_steps >= steps
            for stop in {done, None} if spent else {done}:
                if stop in stops and stop not in trained:
                    trained[stop] = _trained(dataset, config, weights, seed, done, best)
    return [trained[stop] for stop in stops]


def _trained(
    dataset: Dataset,
    config: Config,
    weights: dict[str, Tensor],
    seed: int,
    epochs: int,
    validation_accuracy: float,
) -> Trained:
    """Return a network of these weights, and how good it is."""
    with torch.random.fork_rng(devices=[]):
        network = build(config)  # draws weights, which training must not notice
    network.load_state_dict(weights)
    network.eval()
    return Trained(
        network=network,
        config=config,
        dataset=dataset.name,
        seed=seed,
        epochs=epochs,
        validation_accuracy=validation_accuracy,
        test_accuracy=accuracy(network, dataset, dataset.test),
        majority=_majority(dataset.labels[dataset.test]),
        preparation=dataset.preparation,
    )


def _check(
    dataset: Dataset, steps: int, stops: Sequence[int | None], batch_size: int, drop_last: bool
) -> None:
    if steps < 1:
        raise InputError(f"steps: wanted a positive number of batches, got {steps}")
    for epochs in stops:
        if epochs is not None and epochs < 1:
            raise InputError(f"epochs: wanted a positive number, got {epochs}")
    rows = len(dataset.train)
    if drop_last and rows < batch_size:
        raise InputError(
            f"drop_last: {rows} training rows do not fill one batch of {batch_size}; pass a "
            "smaller batch_size"
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


def _majority(labels: NDArray[np.int64]) -> float:
    return float(np.bincount(labels).max() / len(labels))


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
