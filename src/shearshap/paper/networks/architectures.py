"""The paper's networks: a 3-layer MLP for tables of one-hot blocks, DeepFM for indexed categories."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap.paper.data import Dataset

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
    vocabularies: tuple[
        int, ...
    ] = ()  #: DeepFM: embedding rows of each categorical input, after the numeric ones
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
    """DeepFM (Guo et al. 2017): first-order, factorisation-machine and deep parts over shared
    embeddings.

    An input's embedding holds its first-order weight and its factors. A number's is a learnt vector
    times the number; a category's is a row of a table, found by its index, which is held in the
    input as a float. The three parts add up to the log-odds of class 1; the two logits are minus
    and plus half of them.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.numbers = config.inputs - len(config.vocabularies)
        width = 1 + config.factors
        self.weights = nn.Parameter(torch.randn(self.numbers, width) * 0.1)
        self.table = nn.Embedding(sum(config.vocabularies), width)
        nn.init.normal_(self.table.weight, std=0.1)
        starts = (
            torch.tensor([0, *config.vocabularies[:-1]]).cumsum(0)
            if config.vocabularies
            else torch.zeros(0)
        )
        self.register_buffer("starts", starts.long())
        self.deep = _three_layers(config.inputs * config.factors, 1, config)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to logits (n, 2)."""
        return self.from_embeddings(self.embed(inputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the embedding of each input, (n, d, 1 + factors): numbers first, then categories."""
        numbers, indices = inputs[:, : self.numbers], inputs[:, self.numbers :]
        rows = indices.long() + self.get_buffer("starts")
        return torch.cat((numbers[..., None] * self.weights, self.table(rows)), dim=1)

    def from_embeddings(self, embedded: Tensor) -> Tensor:
        """Map embeddings (n, d, 1 + factors) to logits (n, 2).

        The pairwise part is sum_{i<j} <e_i, e_j> = (|sum_i e_i|^2 - sum_i |e_i|^2) / 2.
        """
        first, factors = embedded[..., 0].sum(dim=1), embedded[..., 1:]
        pairs = (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1) / 2
        odds = self.bias + first + pairs + self.deep(factors.flatten(1))[:, 0]
        return torch.stack((-odds, odds), dim=1) / 2


def build(config: Config) -> MLP | DeepFM:
    """Return a new network."""
    kinds: dict[str, type[MLP | DeepFM]] = {"mlp": MLP, "deepfm": DeepFM}
    if config.kind not in kinds:
        raise InputError(f"kind: wanted one of {', '.join(kinds)}, got {config.kind!r}")
    return kinds[config.kind](config)


def config_for(dataset: Dataset, activation: str = "softplus") -> Config:
    """Return the paper's network for a data set: an MLP of 64 hidden units, or DeepFM of 32 for
    indexed categories.
    """
    encoder, inputs = dataset.encoder, dataset.inputs.shape[1]
    if encoder.style == "one-hot":
        return Config("mlp", inputs, activation=activation)
    sizes: Sequence[int] = [1 + len(kinds) for kinds in encoder.categories.values()]
    return Config("deepfm", inputs, hidden=32, activation=activation, vocabularies=tuple(sizes))


def _three_layers(inputs: int, outputs: int, config: Config) -> nn.Sequential:
    """Return inputs -> hidden -> hidden -> outputs, with the config's hidden size and activation."""
    act, hidden = _activation(config.activation), config.hidden
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        act(),
        nn.Linear(hidden, hidden),
        act(),
        nn.Linear(hidden, outputs),
    )


def _activation(name: str) -> type[nn.Module]:
    if name not in ACTIVATIONS:
        raise InputError(f"activation: wanted one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]
