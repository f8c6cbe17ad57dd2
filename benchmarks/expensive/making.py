"""All games: models are trained, rows are chosen, and their values are found and kept."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from expensive import training
from expensive.games import FOLDER, save
from expensive.models import MASK, Convolutions, Logit, LogOdds, Perceptron, load_model, save_model
from expensive.texts import LONGEST, PACKAGES, chosen_text, corpus, trained_classifier
from expensive.truth import Floats, sampled_values, tree_values, unanimity_values

ROWS = 5  #: of a game of images or of a table
SPARSE_ROWS = 4
DIGIT = 3  #: the class of images that is explained

TEXTS = {40: 0, 60: 3, 90: 2, 120: 4, 160: 5, 200: 1}  #: words of each text, and its package

TOLERANCE = 0.01  #: of standard errors, as a part of mean |value|
MOST = 40_000  #: antithetic pairs of permutations of one row
MOST_OF_TEXT = {
    "cpu": 1_000,
    "cuda": MOST,
}  #: a core would take days for more


def make_all(folder: Path = FOLDER, *, device: str = "cpu") -> None:
    """Make every game that is not there; values are sampled on a device."""
    makers: dict[str, Callable[[Path], None]] = {
        "sparse": make_sparse,
        "tables": make_tables,
        "images": make_images,
        "texts": make_texts,
    }
    for kind, make in makers.items():
        done = folder / "models" / f"made-{kind}"
        if done.is_file():
            continue
        started = time.perf_counter()
        make(folder)
        print(f"{kind}: made in {time.perf_counter() - started:.0f} s")
        done.parent.mkdir(exist_ok=True)
        done.touch()
    complete(folder, device)


# Models and rows


def make_texts(folder: Path) -> None:
    """Train the classifier of docstrings, and choose held-out texts."""
    docstrings = corpus()
    network = trained_classifier(docstrings)
    sizes = {
        "words": len(docstrings.vocabulary),
        "longest": LONGEST,
        "classes": len(PACKAGES),
    }
    for length, label in TEXTS.items():
        name = f"text-{length}"
        tokens = chosen_text(network, docstrings, label, length)
        words = [docstrings.vocabulary[token] for token in tokens.tolist()]
        path = folder / "models" / f"{name}.pt"
        save_model(LogOdds(network, label), path, "classifier", label=label, **sizes)
        save_rows(
            folder,
            name,
            kind="texts",
            rows=tokens[None].numpy(),
            background=np.full(length, MASK),
            words=np.array(words),
        )


def make_images(folder: Path) -> None:
    """Train two networks on digits, whose absent pixels are black, or those of the mean image."""
    data = training.digits()
    chosen = np.flatnonzero(data.test & (data.labels == DIGIT))[:ROWS]
    for kind in ("convolutions", "perceptron"):
        torch.manual_seed(0)
        sizes = {"classes": 10} if kind == "convolutions" else {"inputs": 64, "classes": 10}
        network = Convolutions(10) if kind == "convolutions" else Perceptron(64, 10)
        trained = Logit(training.trained_network(network, data), DIGIT)
        path = folder / "models" / f"digits-{kind}.pt"
        save_model(trained, path, kind, label=DIGIT, **sizes)
        for word, background in (("zero", np.zeros_like(data.mean)), ("mean", data.mean)):
            save_rows(
                folder,
                f"digits-{kind}-{word}",
                kind="images",
                model=f"digits-{kind}",
                rows=data.inputs[chosen],
                background=background,
                grid=(8, 8),
            )


def make_tables(folder: Path) -> None:
    """Train a network, a logistic regression and boosted trees on tables."""
    cancer = training.breast_cancer()
    friedman = training.friedman()
    models = folder / "models"

    torch.manual_seed(0)
    network = Logit(training.trained_network(Perceptron(30, 2), cancer), 1)
    save_model(network, models / "cancer-network.pt", "perceptron", label=1, inputs=30, classes=2)
    save_table(folder, "cancer-network", cancer)

    logistic = training.trained_logistic(cancer)
    save_model(logistic, models / "cancer-logistic.pt", "logistic", inputs=30)
    save_table(folder, "cancer-logistic", cancer)

    for name, data, depth in (("cancer-trees", cancer, 3), ("friedman-trees", friedman, 4)):
        trees = training.boosted_trees(data, depth=depth)
        many, nodes = trees.column.shape
        path = models / f"{name}.pt"
        save_model(trees, path, "trees", trees=many, nodes=nodes, depth=depth)
        save_table(folder, name, data)


def save_table(folder: Path, name: str, data: training.Data) -> None:
    """Write the first rows that a table's model was not trained on."""
    rows = data.inputs[data.test][:ROWS]
    save_rows(folder, name, kind="tables", rows=rows, background=data.mean)


def save_rows(
    folder: Path,
    name: str,
    *,
    kind: str,
    rows: NDArray[Any],
    background: NDArray[Any],
    model: str | None = None,
    grid: tuple[int, ...] | None = None,
    **others: NDArray[Any],
) -> None:
    """Write the game of a model, whose values are not known yet."""
    save(
        name,
        folder,
        kind=kind,
        grid=grid or (rows.shape[1],),
        model=model or name,
        rows=rows,
        background=background,
        **others,
    )


# Sparse games


def make_sparse(folder: Path) -> None:
    """Draw games of few active players, whose values are known in closed form."""
    rng = np.random.default_rng(0)
    products = [drawn_products(rng, players=100, active=int(n)) for n in rng.integers(5, 9, 4)]
    save_unanimity(folder, "sparse-100", products)
    crowd = [drawn_crowd(rng, players=60, active=10, games=40) for _ in range(SPARSE_ROWS)]
    save_unanimity(folder, "unanimity-60", crowd)


Drawn = tuple[int, list[list[int]], Floats]


def drawn_products(rng: np.random.Generator, *, players: int, active: int) -> Drawn:
    """Return the number of players, each active one, some pairs and a triple; and weights."""
    chosen = rng.permutation(players)[:active].tolist()
    alone = [[player] for player in chosen]
    pairs = [rng.choice(chosen, 2, replace=False).tolist() for _ in range(active)]
    triple = [rng.choice(chosen, 3, replace=False).tolist()]
    teams = [*alone, *pairs, *triple]
    return players, teams, rng.normal(size=len(teams))


def drawn_crowd(rng: np.random.Generator, *, players: int, active: int, games: int) -> Drawn:
    """Return the number of players, teams of any size among the active ones, and weights."""
    chosen = rng.permutation(players)[:active].tolist()
    sizes = rng.integers(1, active + 1, games)
    teams = [rng.choice(chosen, int(size), replace=False).tolist() for size in sizes]
    return players, teams, rng.normal(size=games)


def save_unanimity(folder: Path, name: str, drawn: list[Drawn]) -> None:
    """Write sums of unanimity games with their values; rows are padded by weights of zero."""
    players = drawn[0][0]
    most = max(len(teams) for _, teams, _ in drawn)
    masks = np.zeros((len(drawn), most, players), dtype=bool)
    weights = np.zeros((len(drawn), most))
    truth = np.zeros((len(drawn), players))
    for row, (_, teams, own) in enumerate(drawn):
        for number, team in enumerate(teams):
            masks[row, number, team] = True
        weights[row, : len(own)] = own
        truth[row] = unanimity_values(players, teams, own)
    save(
        name,
        folder,
        kind="sparse",
        grid=(players,),
        teams=masks,
        weights=weights,
        truth=truth,
        standard_errors=np.zeros_like(truth),
    )


# Values


def complete(folder: Path, device: str) -> None:
    """Find the values of all games that have none yet."""
    unknown = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            if "truth" not in file:
                unknown.append(path)
    for path in tqdm(unknown, desc="values"):
        with np.load(path) as file:
            arrays = dict(file)
        truth, errors = true_values(arrays, folder, device)
        known = {**arrays, "truth": truth, "standard_errors": errors}
        np.savez_compressed(path, **known)


def true_values(
    arrays: dict[str, NDArray[Any]], folder: Path, device: str
) -> tuple[Floats, Floats]:
    """Return the values of all rows (r, p), and their standard errors (r, p)."""
    model: Any = load_model(folder / "models" / f"{arrays['model']}.pt")
    if str(arrays["model"]).endswith("trees"):
        exact = np.stack([tree_values(model, row, arrays["background"]) for row in arrays["rows"]])
        return exact, np.zeros_like(exact)

    most = MOST_OF_TEXT[device] if str(arrays["kind"]) == "texts" else MOST
    found = [
        sampled_values(
            model,
            torch.from_numpy(row),
            torch.from_numpy(arrays["background"]),
            tolerance=TOLERANCE,
            most=most,
            device=device,
            seed=number,
        )
        for number, row in enumerate(arrays["rows"])
    ]
    return np.stack([values for values, _ in found]), np.stack([errors for _, errors in found])
