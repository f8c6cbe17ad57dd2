"""Texts: from which package a docstring is, told by a small transformer."""

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from expensive.models import MASK, RARE, Classifier

PACKAGES = ("numpy", "scipy", "sklearn", "torch", "pandas", "sympy")
TELLTALES = {*PACKAGES, "np", "pd", "sp", "scikit", "learn", "pytorch", "dataframe"}

FILES = 300  #: of a package
SHORTEST = 40  #: words of a docstring
LONGEST = 200  #: words of a text
VOCABULARY = 4_000

LENGTHS = (40, 80, 120, 200)  #: of the windows to train on; a batch has one length
STEPS = 700
BATCH = 32
RATE = 1e-3


@dataclass(frozen=True)
class Corpus:
    """Docstrings as tokens, and the package of each."""

    texts: list[Tensor]
    labels: list[int]
    vocabulary: list[str]  #: by token


def package_docstrings(package: str) -> Iterator[str]:
    """Yield the docstrings of a part of a package's files."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent
    paths = [path for path in sorted(folder.rglob("*.py")) if "test" not in str(path)]
    order = np.random.default_rng(0).permutation(len(paths))
    for number in order[:FILES]:
        tree = ast.parse(paths[number].read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield ast.get_docstring(node) or ""


def words_of(text: str) -> list[str]:
    """Return a text's words in small letters, without those that name a package."""
    words = re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower())
    return [word for word in words if word not in TELLTALES]


def corpus() -> Corpus:
    """Return all docstrings that are long enough, each once."""
    texts = []
    labels = []
    for label, package in enumerate(PACKAGES):
        distinct = dict.fromkeys(package_docstrings(package))
        for text in distinct:
            words = words_of(text)
            if len(words) >= SHORTEST:
                texts.append(words)
                labels.append(label)

    counts = Counter(word for words in texts for word in words)
    common = [word for word, _ in counts.most_common(VOCABULARY - 2)]
    vocabulary = ["[absent]", "[rare]", *common]
    tokens = {word: token for token, word in enumerate(vocabulary)}
    numbers = [torch.tensor([tokens.get(word, RARE) for word in words]) for words in texts]
    return Corpus(numbers, labels, vocabulary)


def held_out(corpus: Corpus) -> list[int]:
    """Return the docstrings that are not trained on: every tenth."""
    return list(range(0, len(corpus.texts), 10))


def trained_classifier(corpus: Corpus, *, steps: int = STEPS) -> Classifier:
    """Return a transformer trained on windows of docstrings, where absent words are masked."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = Classifier(len(corpus.vocabulary), LONGEST, len(PACKAGES))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3 * RATE, total_steps=steps)

    training = sorted(set(range(len(corpus.texts))) - set(held_out(corpus)))
    by_length = {
        length: by_package(corpus, [n for n in training if len(corpus.texts[n]) >= length])
        for length in LENGTHS
    }
    for step in range(steps):
        length = LENGTHS[step % len(LENGTHS)]
        tokens, labels = batch(corpus, by_length[length], length, generator)
        loss = nn.functional.cross_entropy(network(masked(tokens, generator)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def by_package(corpus: Corpus, numbers: list[int]) -> list[list[int]]:
    """Return the docstrings of each package."""
    return [
        [number for number in numbers if corpus.labels[number] == label]
        for label in range(len(PACKAGES))
    ]


def batch(
    corpus: Corpus, numbers: list[list[int]], length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return windows of docstrings (n, d), and their packages (n,), all equally likely."""

    def draw(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    windows = []
    labels = []
    for _ in range(BATCH):
        label = draw(len(PACKAGES))
        text = corpus.texts[numbers[label][draw(len(numbers[label]))]]
        start = draw(len(text) - length + 1)
        windows.append(text[start : start + length])
        labels.append(label)
    return torch.stack(windows), torch.tensor(labels)


def masked(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """Return windows with words absent at random, from none to nearly all of them."""
    rate = torch.rand(len(tokens), 1, generator=generator)
    absent = torch.rand(tokens.shape, generator=generator) < rate
    return tokens.masked_fill(absent, MASK)


def accuracy(network: Classifier, corpus: Corpus, length: int) -> float:
    """Return how many held-out docstrings are recognised by their first words."""
    numbers = [n for n in held_out(corpus) if len(corpus.texts[n]) >= length]
    tokens = torch.stack([corpus.texts[n][:length] for n in numbers])
    labels = torch.tensor([corpus.labels[n] for n in numbers])
    with torch.no_grad():
        return float((network(tokens).argmax(dim=1) == labels).double().mean())


def chosen_text(network: Classifier, corpus: Corpus, label: int, length: int) -> Tensor:
    """Return the first held-out docstring of a package that is recognised, cut to a length."""
    for number in held_out(corpus):
        tokens = corpus.texts[number][:length]
        if corpus.labels[number] != label or len(tokens) < length:
            continue
        with torch.no_grad():
            logits = network(tokens[None])[0]
        if int(logits.argmax()) == label:
            return tokens
    raise SystemExit(f"no docstring of {PACKAGES[label]} with {length} words is recognised")
