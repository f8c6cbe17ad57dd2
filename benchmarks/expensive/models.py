"""The models, each a module from inputs (n, d) to one number for each, (n,), and its file."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MASK = 0  #: the token of an absent word
RARE = 1  #: the token of every word outside the vocabulary

WIDTH = 64
HEADS = 4
LAYERS = 2


class Classifier(nn.Module):
    """A small transformer over words, with mean pooling."""

    def __init__(self, words: int, longest: int, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.places = nn.Embedding(longest, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (n, d) to logits (n, k)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.layers(self.words(tokens) + self.places(places))
        logits: Tensor = self.head(hidden.mean(dim=1))
        return logits


class Convolutions(nn.Module):
    """A small convolutional network of 8 x 8 images."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 16, 64),
            nn.ReLU(),
            nn.Linear(64, classes),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Map images (n, 64) to logits (n, k)."""
        logits: Tensor = self.layers(inputs)
        return logits


class Perceptron(nn.Module):
    """A network of two hidden layers of 64 with ReLU."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to logits (n, k)."""
        logits: Tensor = self.layers(inputs)
        return logits


class OneClass(nn.Module):
    """One class of a network."""

    def __init__(self, network: nn.Module, label: int) -> None:
        super().__init__()
        self.network = network
        self.label = label


class LogOdds(OneClass):
    """The log-odds of one class of a network."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to log-odds (n,)."""
        logits: Tensor = self.network(inputs)
        others = torch.arange(logits.shape[1], device=logits.device) != self.label
        return logits[:, self.label] - logits[:, others].logsumexp(dim=1)


class Logit(OneClass):
    """The logit of one class of a network."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to logits (n,)."""
        logits: Tensor = self.network(inputs)
        return logits[:, self.label]


class Logistic(nn.Module):
    """The probability of a logistic regression."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to probabilities (n,)."""
        logits: Tensor = self.linear(inputs)
        return logits[:, 0].sigmoid()


class Trees(nn.Module):
    """A sum of regression trees, all padded to the same number of nodes.

    A leaf is its own child, so that inputs that have arrived stay there.
    """

    column: Tensor  #: (trees, nodes)
    threshold: Tensor  #: (trees, nodes)
    left: Tensor  #: (trees, nodes)
    right: Tensor  #: (trees, nodes)
    value: Tensor  #: (trees, nodes)
    base: Tensor  #: ()

    def __init__(self, trees: int, nodes: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.register_buffer("column", torch.zeros(trees, nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(trees, nodes, dtype=torch.float64))
        self.register_buffer("left", torch.arange(nodes).repeat(trees, 1))
        self.register_buffer("right", torch.arange(nodes).repeat(trees, 1))
        self.register_buffer("value", torch.zeros(trees, nodes, dtype=torch.float64))
        self.register_buffer("base", torch.zeros((), dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, d) to the sum of the leaves' values, (n,)."""
        tree = torch.arange(len(self.column), device=inputs.device)
        node = torch.zeros(len(inputs), len(tree), dtype=torch.int64, device=inputs.device)
        for _ in range(self.depth):
            number = inputs.gather(1, self.column[tree, node])
            goes_left = number.double() <= self.threshold[tree, node]
            node = torch.where(goes_left, self.left[tree, node], self.right[tree, node])
        return self.base + self.value[tree, node].sum(dim=1)


KINDS: dict[str, Any] = {
    "classifier": lambda label, **sizes: LogOdds(Classifier(**sizes), label),
    "convolutions": lambda label, **sizes: Logit(Convolutions(**sizes), label),
    "perceptron": lambda label, **sizes: Logit(Perceptron(**sizes), label),
    "logistic": Logistic,
    "trees": Trees,
}


def save_model(module: nn.Module, path: Path, kind: str, **options: int) -> None:
    """Write a module's weights, and how it is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"kind": kind, "options": options, "weights": module.state_dict()}, path)


def load_model(path: Path) -> nn.Module:
    """Return the module in a file."""
    saved = torch.load(path, weights_only=True)
    module: nn.Module = KINDS[saved["kind"]](**saved["options"])
    module.load_state_dict(saved["weights"])
    return module.eval().requires_grad_(requires_grad=False)
