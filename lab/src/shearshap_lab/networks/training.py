"""The paper's networks: a 3-layer MLP for one-hot blocks, and DeepFM for indexed categories.

They are trained by Adam on cross-entropy, for some epochs or until validation accuracy no longer
rises. A trained network is kept in a folder: weights as safetensors, everything else as readable
JSON, never pickle.
"""

import copy
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from shearshap.engine.loop import progress_bar
from shearshap.errors import InputError
from shearshap.store import written_whole
from shearshap_lab.data import Dataset
from shearshap_lab.data import load as load_data
from shearshap_lab.data.dataset import AUTHORS, OURS, Preparation

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "softplus": nn.Softplus,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
}


@dataclass(frozen=True)
class Config:
    """What it takes to build a network again: everything but its weights."""

    kind: str  #: "mlp" or "deepfm"
    inputs: int
    outputs: int = 2
    hidden: int = 64
    activation: str = "softplus"
    #: DeepFM: embedding rows of each categorical input; those come after the numeric ones
    vocabularies: tuple[int, ...] = ()
    factors: int = 8  #: DeepFM: the size of an embedding


class MLP(nn.Module):
    """in -> 64 -> 64 -> 2 with softplus, as the paper's authors have it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.layers = _three_layers(config.inputs, config.outputs, config)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to logits (n, k)."""
        logits: Tensor = self.layers(inputs)
        return logits


class DeepFM(nn.Module):
    """DeepFM (Guo et al. 2017): three parts over shared embeddings.

    An input's embedding holds its first-order weight and its factors. That of a number is a learnt
    vector times the number. That of a category is a row of a table, found by the category's index,
    which the input holds as a float::

        input        numbers [0.3, -1.2]   categories [2., 0.], of 3 and 4 kinds
        embedding    0.3 * weights[0], -1.2 * weights[1], table[0 + 2], table[3 + 0]

    The first-order, the factorisation-machine and the deep part add up to the log-odds of class 1;
    the two logits are minus and plus half of them.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.numbers = config.inputs - len(config.vocabularies)
        width = 1 + config.factors
        self.weights = nn.Parameter(torch.randn(self.numbers, width) * 0.1)
        self.table = nn.Embedding(sum(config.vocabularies), width)
        nn.init.normal_(self.table.weight, std=0.1)
        # the first row in the table of each categorical input
        sizes = torch.tensor(config.vocabularies, dtype=torch.long)
        self.register_buffer("starts", sizes.cumsum(0) - sizes)
        self.deep = _three_layers(config.inputs * config.factors, 1, config)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to logits (n, 2)."""
        return self.from_embeddings(self.embed(inputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the embedding of each input, (n, d, 1 + factors): numbers, then categories."""
        numbers = inputs[:, : self.numbers]
        indices = inputs[:, self.numbers :].long()
        embedded_numbers = numbers[..., None] * self.weights
        embedded_categories = self.table(indices + self.get_buffer("starts"))
        return torch.cat((embedded_numbers, embedded_categories), dim=1)

    def from_embeddings(self, embedded: Tensor) -> Tensor:
        """Map embeddings (n, d, 1 + factors) to logits (n, 2).

        The pairwise part is sum_{i<j} <e_i, e_j> = (|sum_i e_i|^2 - sum_i |e_i|^2) / 2.
        """
        first = embedded[..., 0].sum(dim=1)
        factors = embedded[..., 1:]
        pairs = (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1) / 2
        deep = self.deep(factors.flatten(1))[:, 0]
        odds = self.bias + first + pairs + deep
        return torch.stack((-odds, odds), dim=1) / 2


def build(config: Config) -> MLP | DeepFM:
    """Return a new network."""
    kinds: dict[str, type[MLP | DeepFM]] = {"mlp": MLP, "deepfm": DeepFM}
    if config.kind not in kinds:
        raise InputError(f"kind: expected one of {', '.join(kinds)}, got {config.kind!r}")
    return kinds[config.kind](config)


def config_for(dataset: Dataset, activation: str = "softplus") -> Config:
    """Return the paper's network for a data set.

    That is an MLP of 64 hidden units, or DeepFM of 32 for indexed categories.
    """
    inputs = dataset.inputs.shape[1]
    encoder = dataset.encoder
    if encoder.style == "one-hot":
        return Config("mlp", inputs, activation=activation)
    # index 0 is for rare and unseen categories
    sizes = tuple(1 + len(kinds) for kinds in encoder.categories.values())
    return Config("deepfm", inputs, hidden=32, activation=activation, vocabularies=sizes)


def _three_layers(inputs: int, outputs: int, config: Config) -> nn.Sequential:
    """Return inputs -> hidden -> hidden -> outputs, of the config's hidden size and activation."""
    if config.activation not in ACTIVATIONS:
        names = ", ".join(ACTIVATIONS)
        raise InputError(f"activation: expected one of {names}, got {config.activation!r}")
    activation = ACTIVATIONS[config.activation]
    hidden = config.hidden
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        activation(),
        nn.Linear(hidden, hidden),
        activation(),
        nn.Linear(hidden, outputs),
    )


# Training


BATCH = 256
STEPS = 30_000  #: at most, if training goes on until it no longer helps
PATIENCE = 1_500  #: steps without a gain
MAX_NORM = 0.1  #: of gradients
WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"
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
    epochs: int | None = None,
    drop_last: bool = False,
    learning_rate: float | None = None,
    progress: bool | None = None,
) -> Trained:
    """Train the paper's network for a data set; keep the weights of the best validation accuracy.

    The same seed gives the same weights on the same machine. Gradients are clipped to a norm of
    0.1, as the paper's authors do. Training stops after 1,500 steps without a gain, or `steps` in
    all, at the end of an epoch; or, if `epochs` are given, after so many. `drop_last`: a last batch
    of an epoch that is not full is left out.
    """
    if steps < 1 or (epochs is not None and epochs < 1):
        raise InputError(f"expected a positive number of steps and epochs, got {steps}, {epochs}")
    config = config_for(dataset, activation)
    rate = RATES[config.kind] if learning_rate is None else learning_rate
    rows = len(dataset.train)
    epoch_steps = rows // BATCH if drop_last else -(-rows // BATCH)
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
        while done * epoch_steps < most and (epochs or steps_since_best < PATIENCE):
            _epoch(network, optimiser, dataset, drop_last=drop_last)
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


def accuracy(network: nn.Module, dataset: Dataset, rows: NDArray[np.int64]) -> float:
    """Return the fraction of rows whose larger logit is that of their label."""
    network.eval()
    with torch.no_grad():
        guesses = network(torch.from_numpy(dataset.inputs[rows])).argmax(dim=1).numpy()
    return float((guesses == dataset.labels[rows]).mean())


def _epoch(network: nn.Module, optimiser: Any, dataset: Dataset, *, drop_last: bool) -> None:
    """Train on the training rows once, in a new random order."""
    inputs = torch.from_numpy(dataset.inputs)
    labels = torch.from_numpy(dataset.labels)
    rows = torch.from_numpy(dataset.train)
    shuffled = rows[torch.randperm(len(rows))]
    network.train()
    for batch in shuffled.split(BATCH):
        if drop_last and len(batch) < BATCH:
            return
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
        optimiser.step()


# Recipes


@dataclass(frozen=True)
class Recipe:
    """How rows are prepared, and when training stops.

    The paper states little of it, though it changes SHEAR's error up to eightfold.
    """

    preparation: Preparation = OURS
    epochs: int | None = None  #: None: until validation accuracy no longer rises
    drop_last: bool = False  #: whether a last batch that is not full is left out
    activation: str = "softplus"

    @property
    def stopping(self) -> str:
        """When training stops, in words."""
        return "patience" if self.epochs is None else f"{self.epochs} epochs"

    def load(self, name: str, *, seed: int = 0, path: Path | str | None = None) -> Dataset:
        """Return a data set by name, prepared as the recipe says."""
        return load_data(name, seed=seed, path=path, preparation=self.preparation)

    def train(self, dataset: Dataset, **options: Any) -> Trained:
        """Train the paper's network for a data set as the recipe says; options are of `train`."""
        fixed = {name: getattr(self, name) for name in ("activation", "epochs", "drop_last")}
        return train(dataset, **fixed, **options)


RECIPES: dict[str, Recipe] = {
    "ours": Recipe(),
    "authors": Recipe(AUTHORS, epochs=20, drop_last=True),
}
"""The recipes by name.

- ours: raw 0/1 blocks, a split that is stratified and depends on the seed, training until it no
  longer helps, explained against the mean of the training rows
- authors: as the paper's authors did it; the seed decides the weights and batches only
"""


def recipe_of(name: str) -> Recipe:
    """Return a recipe by its name, or raise if there is none."""
    if name not in RECIPES:
        raise InputError(f"recipe: expected one of {', '.join(RECIPES)}, got {name!r}")
    return RECIPES[name]


# Files


def save(trained: Trained, folder: Path | str) -> Path:
    """Write a trained network into a folder, and return the folder."""
    folder = Path(folder)
    state = trained.network.state_dict()
    weights = {name: value.contiguous() for name, value in state.items()}
    facts = {name: value for name, value in vars(trained).items() if name != "network"}
    facts |= {"config": asdict(trained.config), "preparation": asdict(trained.preparation)}
    with written_whole(folder / WEIGHTS) as partial:
        partial.write_bytes(safetensors.torch.save(weights))
    with written_whole(folder / DESCRIPTION) as partial:
        partial.write_text(json.dumps(facts, indent=2) + "\n")
    return folder


def is_saved(folder: Path | str) -> bool:
    """Return whether a folder holds a network, or what is left of one."""
    return any((Path(folder) / name).is_file() for name in (WEIGHTS, DESCRIPTION))


def load(folder: Path | str) -> Trained:
    """Read a trained network back; raise if its files are missing or damaged."""
    folder = Path(folder)
    try:
        facts: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text())
        config = facts.pop("config")
        config = Config(**{**config, "vocabularies": tuple(config["vocabularies"])})
        preparation = Preparation(**facts.pop("preparation"))
        network = build(config)
        network.load_state_dict(safetensors.torch.load((folder / WEIGHTS).read_bytes()))
        trained = Trained(network.eval(), config, **facts, preparation=preparation)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{folder}: expected a network, as 'shear paper train' saves it in {DESCRIPTION} and "
            f"{WEIGHTS}; {error}"
        ) from error
    return trained
