"""The games of low_budgets.py: models of 30 to 200 players, with their Shapley values.

Each is made once, and kept in out/low-budgets: `load("text-90")`.
"""

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from tqdm import tqdm

from setting import OUT, fit, perceptron
from shearshap_lab.games.rules import boxes
from shearshap_lab.games.tables import Bools, Floats, Rows

FOLDER = OUT / "low-budgets"
KINDS = ("texts", "images", "tables", "sparse")
ROWS = 5  #: of a game of images or of a table
DIGIT = 3  #: the class of images that is explained
TEXTS = {40: 0, 60: 3, 90: 2, 120: 4, 160: 5, 200: 1}  #: words of each text, and its package
PAIRS = {"texts": 1_000, "images": 20_000, "tables": 20_000}
"""Antithetic pairs of permutations of which values are the mean: a core would take days for more
of the texts; on a GPU they have as many as the others.
"""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sum of unanimity games of 0/1 inputs (n, p)."""

    teams: Bools  #: (t, p)
    weights: Floats  #: (t,)

    def __call__(self, inputs: Any) -> Floats:
        """Return the sums (n,)."""
        value, _ = boxes(self.teams, np.zeros_like(self.teams), self.weights)
        return value(np.asarray(inputs) > 0.5)


def load(name: str) -> Rows:
    """Return a game that was made before."""
    path = FOLDER / f"{name}.pt"
    if not path.is_file():
        raise SystemExit(
            f"there is no game {name!r}: make the games by "
            "`python benchmarks/low_budgets.py --make`"
        )
    made: Rows = torch.load(path, weights_only=False)
    return made


def names() -> list[str]:
    """Return the names of the games that were made."""
    return sorted(path.stem for path in FOLDER.glob("*.pt"))


def make_all(device: str) -> None:
    """Make every game, and find its values; those of networks are sampled on a device."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for rows in tqdm([*texts(), *images(), *tables(), *sparse()], desc="values"):
        torch.save(solved(rows, device), FOLDER / f"{rows.name}.pt")


def solved(rows: Rows, device: str) -> Rows:
    """Return rows with their values: exact ones of trees, those of many permutations of others."""
    if rows.phi is not None:
        return rows
    if isinstance(rows.model, GradientBoostingClassifier | GradientBoostingRegressor):
        return replace(rows, phi=rows.explain().values)
    pairs = PAIRS["images" if device == "cuda" else rows.kind]
    budget = 2 + 2 * pairs * (rows.inputs.shape[1] - 1)
    if isinstance(rows.model, nn.Module):
        rows.model.to(device)
    phi = rows.explain(method="permutation-antithetic", budget=budget, seed=1).values
    if isinstance(rows.model, nn.Module):
        rows.model.cpu()
    return replace(rows, phi=phi)


# Models and rows


def texts() -> Iterator[Rows]:
    """Yield held-out docstrings of six packages."""
    docs = corpus()
    network = trained_classifier(docs)
    for length, label in TEXTS.items():
        rows = chosen_text(network, docs, label, length)[None].numpy()
        options = {"output": label}
        background = np.full(length, MASK)
        yield Rows(f"text-{length}", "texts", network, rows, background, options=options)


def images() -> Iterator[Rows]:
    """Yield digits by two networks; absent pixels are black, or those of the mean image."""
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    test = np.arange(len(inputs)) % 5 == 0
    rows = inputs[test & (labels == DIGIT)][:ROWS]
    mean = inputs[~test].mean(axis=0)
    convolutions = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    torch.manual_seed(0)
    networks = {"convolutions": convolutions, "perceptron": perceptron(64, 10)}
    for name, network in networks.items():
        fit(network, inputs[~test], labels[~test], seed=0)
        for word, background in (("zero", np.zeros_like(mean)), ("mean", mean)):
            whole = f"digits-{name}-{word}"
            options = {"output": DIGIT}
            yield Rows(whole, "images", network, rows, background, options=options)


def tables() -> Iterator[Rows]:
    """Yield a network, a logistic regression and boosted trees on tables."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    inputs = ((inputs - inputs.mean(axis=0)) / inputs.std(axis=0)).astype(np.float32)
    test = np.arange(len(inputs)) % 5 == 0
    x, y = inputs[~test], labels[~test]
    torch.manual_seed(0)
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "network": (fit(perceptron(30, 2), x, y, seed=0), {"output": 1}),
        "logistic": (
            LogisticRegression(max_iter=1_000).fit(x, y),
            {"output": 1, "scale": "probability"},
        ),
        "trees": (
            GradientBoostingClassifier(max_depth=3, random_state=0).fit(x, y),
            {"scale": "margin"},
        ),
    }
    for name, (model, options) in models.items():
        rows = inputs[test][:ROWS]
        yield Rows(f"cancer-{name}", "tables", model, rows, x.mean(axis=0), options=options)

    inputs, labels = make_friedman1(2_000, 50, noise=1.0, random_state=0)
    test = np.arange(len(inputs)) % 5 == 0
    regression = GradientBoostingRegressor(max_depth=4, random_state=0)
    regression.fit(inputs[~test], labels[~test])
    mean = inputs[~test].mean(axis=0)
    yield Rows("friedman-trees", "tables", regression, inputs[test][:ROWS], mean)


def sparse() -> Iterator[Rows]:
    """Yield games of few active players, whose values are known in closed form."""
    rng = np.random.default_rng(0)
    for number in range(4):
        active = rng.permutation(100)[: rng.integers(5, 9)]
        pairs = [rng.choice(active, 2, replace=False) for _ in active]
        triple = rng.choice(active, 3, replace=False)
        yield _sparse(f"sparse-100-{number}", 100, [*active[:, None], *pairs, triple], rng)
    for number in range(4):
        active = rng.permutation(60)[:10]
        teams = [rng.choice(active, rng.integers(1, 11), replace=False) for _ in range(40)]
        yield _sparse(f"unanimity-60-{number}", 60, teams, rng)


def _sparse(name: str, players: int, teams: list[Any], rng: np.random.Generator) -> Rows:
    masks = np.zeros((len(teams), players), dtype=bool)
    for mask, team in zip(masks, teams, strict=True):
        mask[team] = True
    weights = rng.normal(size=len(teams))
    # each weight is divided among its members
    phi = (weights / masks.sum(axis=1)) @ masks
    rows = np.ones((1, players))
    return Rows(name, "sparse", Sparse(masks, weights), rows, np.zeros(players), phi[None])


# Texts: a small transformer says from which package a docstring is

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
