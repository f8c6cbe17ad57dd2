"""The games of low_budgets.py: models of 30 to 200 players, with their Shapley values.

Each is made once, and kept in out/low-budgets: `load("text-90")`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from tqdm import tqdm

from docstrings import MASK, chosen_text, corpus, trained_classifier
from peers import OUT
from shearshap import explain
from shearshap_lab.games.rules import boxes
from shearshap_lab.games.tables import Bools, Floats, Game

FOLDER = OUT / "low-budgets"
ROWS = 5  #: of a game of images or of a table
DIGIT = 3  #: the class of images that is explained
TEXTS = {40: 0, 60: 3, 90: 2, 120: 4, 160: 5, 200: 1}  #: words of each text, and its package
PAIRS = {"texts": 1_000, "images": 20_000, "tables": 20_000}
"""Antithetic pairs of permutations of which values are the mean: a core would take days for more
of the texts; on a GPU they have as many as the others.
"""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, rows of it, a background and the rows' Shapley values."""

    name: str
    kind: str  #: texts, images, tables or sparse
    model: Any
    rows: Any  #: (r, p)
    background: Any  #: (p,)
    output: int | None = None  #: of the model
    scale: Any = None
    grid: tuple[int, ...] = ()  #: how the players lie, if not in a line
    truth: Floats | None = None  #: (r, p)

    def game(self, row: int) -> Game:
        """Return a row's game; absent players have the background's inputs."""
        assert self.truth is not None

        def value(coalitions: Bools) -> Floats:
            inputs = np.where(coalitions, self.rows[row], self.background)
            return self.outputs(inputs)

        return Game(self.kind, f"{self.name} {row}", value, self.truth[row])

    def outputs(self, inputs: Any) -> Floats:
        """Return the model's outputs (n,) for inputs (n, p)."""
        if isinstance(self.model, nn.Module):
            with torch.no_grad():
                return np.asarray(self.model(torch.from_numpy(inputs))[:, self.output].double())
        if isinstance(self.model, Sparse):
            return self.model(inputs)
        predict = {"margin": "decision_function", "probability": "predict_proba"}
        found = getattr(self.model, predict.get(self.scale, "predict"))(inputs)
        return np.asarray(found[:, 1] if self.scale == "probability" else found, dtype=np.float64)

    def explain(self, rows: slice, **options: Any) -> Any:
        """Explain some rows by one of our methods, which sees inputs and background."""
        return explain(
            self.model,
            self.rows[rows],
            background=self.background,
            output=self.output,
            scale=self.scale,
            progress=False,
            **options,
        )


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sum of unanimity games of 0/1 inputs (n, p)."""

    teams: Bools  #: (t, p)
    weights: Floats  #: (t,)

    def __call__(self, inputs: Any) -> Floats:
        """Return the sums (n,)."""
        value, _ = boxes(self.teams, np.zeros_like(self.teams), self.weights)
        return value(np.asarray(inputs) > 0.5)

    @property
    def values(self) -> Floats:
        """The Shapley values (p,): each weight divided among its members."""
        return np.asarray((self.weights / self.teams.sum(axis=1)) @ self.teams)


def load(name: str) -> Subject:
    """Return a game that was made before."""
    path = FOLDER / f"{name}.pt"
    if not path.is_file():
        raise SystemExit(
            f"there is no game {name!r}: make the games by "
            "`python benchmarks/low_budgets.py --make`"
        )
    made: Subject = torch.load(path, weights_only=False)
    return made


def names() -> list[str]:
    """Return the names of the games that were made."""
    return sorted(path.stem for path in FOLDER.glob("*.pt"))


def make_all(device: str = "cpu") -> None:
    """Make every game, and find its values; those of networks are sampled on a device."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for subject in tqdm([*texts(), *images(), *tables(), *sparse()], desc="values"):
        torch.save(solved(subject, device), FOLDER / f"{subject.name}.pt")


def solved(subject: Subject, device: str = "cpu") -> Subject:
    """Return a game with its values: exact ones of trees, those of many permutations of others."""
    if subject.truth is not None:
        return subject
    players = subject.rows.shape[1]
    options: dict[str, Any] = {}
    if not isinstance(subject.model, GradientBoostingClassifier | GradientBoostingRegressor):
        kind = "images" if device == "cuda" else subject.kind
        budget = 2 + 2 * PAIRS[kind] * (players - 1)
        options = {"method": "permutation-antithetic", "budget": budget, "seed": 1}
    if isinstance(subject.model, nn.Module):
        subject.model.to(device)
    found = subject.explain(slice(None), **options)
    if isinstance(subject.model, nn.Module):
        subject.model.cpu()
    return replace(subject, truth=found.values)


# Models and rows


def texts() -> Iterator[Subject]:
    """Yield held-out docstrings of six packages."""
    docs = corpus()
    network = trained_classifier(docs)
    for length, label in TEXTS.items():
        rows = chosen_text(network, docs, label, length)[None].numpy()
        background = np.full(length, MASK)
        yield Subject(f"text-{length}", "texts", network, rows, background, output=label)


def images() -> Iterator[Subject]:
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
    networks = {"convolutions": convolutions, "perceptron": perceptron(64, 10)}
    for name, network in networks.items():
        trained(network, inputs[~test], labels[~test])
        for word, background in (("zero", np.zeros_like(mean)), ("mean", mean)):
            whole = f"digits-{name}-{word}"
            yield Subject(whole, "images", network, rows, background, output=DIGIT, grid=(8, 8))


def tables() -> Iterator[Subject]:
    """Yield a network, a logistic regression and boosted trees on tables."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    inputs = ((inputs - inputs.mean(axis=0)) / inputs.std(axis=0)).astype(np.float32)
    test = np.arange(len(inputs)) % 5 == 0
    rows = inputs[test][:ROWS]
    mean = inputs[~test].mean(axis=0)
    network = trained(perceptron(30, 2), inputs[~test], labels[~test])
    yield Subject("cancer-network", "tables", network, rows, mean, output=1)
    logistic = LogisticRegression(max_iter=1_000).fit(inputs[~test], labels[~test])
    yield Subject("cancer-logistic", "tables", logistic, rows, mean, 1, "probability")
    trees = GradientBoostingClassifier(max_depth=3, random_state=0)
    trees.fit(inputs[~test], labels[~test])
    yield Subject("cancer-trees", "tables", trees, rows, mean, scale="margin")

    inputs, labels = make_friedman1(2_000, 50, noise=1.0, random_state=0)
    test = np.arange(len(inputs)) % 5 == 0
    regression = GradientBoostingRegressor(max_depth=4, random_state=0)
    regression.fit(inputs[~test], labels[~test])
    mean = inputs[~test].mean(axis=0)
    yield Subject("friedman-trees", "tables", regression, inputs[test][:ROWS], mean)


def perceptron(inputs: int, classes: int) -> nn.Module:
    """Return a network of two hidden layers of 64 with ReLU."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes)
    )


def trained(network: nn.Module, inputs: Any, labels: Any) -> nn.Module:
    """Train a network by Adam to classify, for 60 epochs, and return it."""
    x: Tensor = torch.from_numpy(inputs)
    y = torch.from_numpy(labels)
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(60):
        for chosen in torch.randperm(len(x), generator=generator).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[chosen]), y[chosen]).backward()
            optimiser.step()
    return network.eval()


def sparse() -> Iterator[Subject]:
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


def _sparse(name: str, players: int, teams: list[Any], rng: np.random.Generator) -> Subject:
    masks = np.zeros((len(teams), players), dtype=bool)
    for mask, team in zip(masks, teams, strict=True):
        mask[team] = True
    model = Sparse(masks, rng.normal(size=len(teams)))
    rows = np.ones((1, players))
    return Subject(name, "sparse", model, rows, np.zeros(players), truth=model.values[None])
