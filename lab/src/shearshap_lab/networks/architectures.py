"""The paper's networks: a 3-layer MLP for one-hot blocks, and DeepFM for indexed categories."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap_lab.data import Dataset

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        """Return the config of `to_dict`'s values."""
        return cls(**{**values, "vocabularies": tuple(values["vocabularies"])})


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
        raise InputError(f"kind: wanted one of {', '.join(kinds)}, got {config.kind!r}")
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
    activation = _activation(config.activation)
    hidden = config.hidden
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        activation(),
        nn.Linear(hidden, hidden),
        activation(),
        nn.Linear(hidden, outputs),
    )


def _activation(name: str) -> type[nn.Module]:
    if name not in ACTIVATIONS:
        raise InputError(f"activation: wanted one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]
