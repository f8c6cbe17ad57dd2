"""Texts for low_budgets.py: a small transformer tells from which package a docstring is."""

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("numpy", "scipy", "sklearn", "torch", "pandas", "sympy")
TELLTALES = {*PACKAGES, "np", "pd", "sp", "scikit", "learn", "pytorch", "dataframe"}

MASK = 0  #: the token of an absent word
RARE = 1  #: the token of every word outside the vocabulary
FILES = 300  #: of a package
MIN_WORDS = 40  #: of a docstring
MAX_WORDS = 200  #: of a text
VOCABULARY = 4_000
LENGTHS = (40, 80, 120, 200)  #: of the windows to train on; a batch has one length
STEPS = 700
BATCH = 32
RATE = 1e-3
WIDTH = 64


class Classifier(nn.Module):
    """A small transformer over words, with mean pooling, by the log-odds of one class."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.places = nn.Embedding(MAX_WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(PACKAGES))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (n, d) to log-odds of each package (n, k)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.layers(self.words(tokens) + self.places(places))
        logits: Tensor = self.head(hidden.mean(dim=1))
        others = torch.eye(len(PACKAGES), dtype=torch.bool, device=tokens.device)
        rest = logits[:, None].masked_fill(others, -torch.inf).logsumexp(dim=2)
        return logits - rest


class Corpus(NamedTuple):
    """Docstrings as tokens, and the package of each; every tenth is not trained on."""

    texts: list[Tensor]
    labels: list[int]
    vocabulary: list[str]  #: by token


def corpus() -> Corpus:
    """Return all docstrings that are long enough, each once."""
    texts = []
    labels = []
    for label, package in enumerate(PACKAGES):
        for text in dict.fromkeys(_docstrings(package)):
            found = re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower())
            words = [word for word in found if word not in TELLTALES]
            if len(words) >= MIN_WORDS:
                texts.append(words)
                labels.append(label)
    counts = Counter(word for words in texts for word in words)
    common = [word for word, _ in counts.most_common(VOCABULARY - 2)]
    vocabulary = ["[absent]", "[rare]", *common]
    tokens = {word: token for token, word in enumerate(vocabulary)}
    numbers = [torch.tensor([tokens.get(word, RARE) for word in words]) for words in texts]
    return Corpus(numbers, labels, vocabulary)


def _docstrings(package: str) -> Iterator[str]:
    """Yield the docstrings of a part of a package's files."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    paths = sorted(Path(found.origin).parent.rglob("*.py"))
    paths = [path for path in paths if "test" not in str(path)]
    order = np.random.default_rng(0).permutation(len(paths))
    for number in order[:FILES]:
        for node in ast.walk(ast.parse(paths[number].read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield ast.get_docstring(node) or ""


def trained_classifier(docs: Corpus) -> Classifier:
    """Return a transformer trained on windows of docstrings, in which words are masked."""
    torch.manual_seed(0)
    network = Classifier(len(docs.vocabulary))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3 * RATE, total_steps=STEPS)
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        tokens, labels = _batch(docs, LENGTHS[step % len(LENGTHS)], rng)
        # from none to nearly all words are absent
        absent = torch.rand(tokens.shape) < torch.rand(len(tokens), 1)
        log_odds = network(tokens.masked_fill(absent, MASK))
        loss = nn.functional.cross_entropy(nn.functional.logsigmoid(log_odds), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def _batch(docs: Corpus, length: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return windows of docstrings (n, d), and their packages (n,), all equally likely."""
    known = [n for n in range(len(docs.texts)) if n % 10 and len(docs.texts[n]) >= length]
    labels = rng.integers(len(PACKAGES), size=BATCH)
    windows = []
    for label in labels:
        text = docs.texts[rng.choice([n for n in known if docs.labels[n] == label])]
        start = rng.integers(len(text) - length + 1)
        windows.append(text[start : start + length])
    return torch.stack(windows), torch.from_numpy(labels)


def chosen_text(network: Classifier, docs: Corpus, label: int, length: int) -> Tensor:
    """Return the first held-out docstring of a package that is recognised, cut to a length."""
    for number in range(0, len(docs.texts), 10):
        tokens = docs.texts[number][:length]
        if docs.labels[number] == label and len(tokens) == length:
            with torch.no_grad():
                if int(network(tokens[None])[0].argmax()) == label:
                    return tokens
    raise SystemExit(f"no docstring of {PACKAGES[label]} with {length} words is recognised")
