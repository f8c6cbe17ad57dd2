"""Questions that one can ask of a game, beside the libraries that answer them too.

    python benchmarks/questions.py indices              interactions of 2 and 3, and their intervals
    python benchmarks/questions.py indices --quick      few games
    python benchmarks/questions.py indices --games FOLDER --peers PYTHON
                                                        games of files too, beside shapiq 1.8

Run with OMP_NUM_THREADS=1.
"""

import argparse
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

import shearshap
from setting import Tables, machine, question_parser
from shearshap.games.indices import interaction_index
from shearshap.interactions.indices import exact_index

Floats = NDArray[np.float64]


def main() -> None:
    """Answer the question."""
    parser = question_parser(__doc__)
    parser.add_argument("--games", type=Path, help="a folder of .npz files of games")
    parser.add_argument("--peers", help="a Python that has shapiq 1.8 and lightgbm")
    options = parser.parse_args()
    indices(options)


# Which features act together: k-SII of 2 and 3 features, beside shapiq 1.8

ORDERS = (2, 3)
EVALUATIONS_PER_PLAYER = (16, 64)
PEERS = ("KernelSHAPIQ", "SVARMIQ", "SPEX", "ProxySPEX")
RESAMPLES = 2000  #: of games, for intervals of means


def indices(options: argparse.Namespace) -> None:
    """Print errors relative to the mean |interaction|, and how often 95 % intervals hold."""
    games = model_games(1 if options.quick else 4)
    if options.games is not None:
        games |= file_games(options.games, 1 if options.quick else 2)
    calls = []
    for (name, values), order, each in product(games.items(), ORDERS, EVALUATIONS_PER_PLAYER):
        players = len(values).bit_length() - 1
        budget = 2 + each * players
        if budget < len(values):
            calls.append((name, order, each, budget))
    theirs = {} if options.peers is None else peer_answers(options.peers, games, calls)

    lines: dict[tuple[str, int, int], list[list[float]]] = {}
    for number, (name, order, each, budget) in enumerate(calls):
        errors, held = our_errors(games[name], order, budget)
        truth = exact(games[name], order)
        of_peers = [
            float(np.abs(theirs[key] - truth).mean() / np.abs(truth).mean())
            if (key := f"{peer}/{number}") in theirs
            else np.nan
            for peer in PEERS
        ]
        seconds = [float(theirs.get(f"{peer}/{number}/seconds", np.nan)) for peer in PEERS]
        source = "our models" if name.startswith("model") else "shapiq's games"
        lines.setdefault((source, order, each), []).append([errors, held, *of_peers, *seconds])
    show_indices(Tables(machine(), options.csv), lines)


def show_indices(tables: Tables, lines: dict[tuple[str, int, int], list[list[float]]]) -> None:
    """Print a line for each source of games, order and number of evaluations."""
    header = ["games", "order", "N", "intervals that hold %", "in the worst game %", "shearshap"]
    header += [*PEERS, "best peer over ours (low to high)"]
    table = []
    for (source, order, each), found in lines.items():
        numbers = np.array(found)
        peers = numbers[:, 2 : 2 + len(PEERS)]
        known = ~np.isnan(peers).all(axis=1)
        best = np.nanmin(peers[known], axis=1) if known.any() else np.array([])
        ratios = np.log(best / np.maximum(numbers[known, 0], 1e-12))
        middle = [geometric(column) for column in peers.T]
        table.append([
            f"{source} ({len(found)})", str(order), str(each),
            f"{100 * numbers[:, 1].mean():.0f} %", f"{100 * numbers[:, 1].min():.0f} %",
            geometric(numbers[:, 0]), *middle, interval(ratios),
        ])  # fmt: skip
    tables.show("question-indices", header, table)


def geometric(numbers: Floats) -> str:
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return ""
    some = "" if len(known) == len(numbers) else f" ({len(known)} games)"
    return f"{np.exp(np.log(np.maximum(known, 1e-12)).mean()):.2g}{some}"


def interval(logs: Floats) -> str:
    """Return the geometric mean, and its 95 % interval over games, by resampling them."""
    if not len(logs):
        return ""
    rng = np.random.default_rng(0)
    means = rng.choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.percentile(means, [2.5, 97.5]))
    return f"{np.exp(logs.mean()):.1f} ({low:.1f} to {high:.1f})"


def our_errors(values: Floats, order: int, budget: int) -> tuple[float, float]:
    """Return the error of the largest sets, and the part of all intervals that hold."""
    players = len(values).bit_length() - 1
    answer = shearshap.explain_game(
        lambda z: values[z @ (1 << np.arange(players))],
        players=players,
        budget=budget,
        method="kriging",
        interactions=order,
    )
    truth = exact(values, order)
    assert answer.interactions is not None
    low, high = answer.interaction_interval()
    i, j = np.triu_indices(players, 1)
    if order == 2:
        found, low, high = answer.interactions[0][i, j], low[0][i, j], high[0][i, j]
    else:
        assert answer.set_values is not None
        own = [place for place, one in enumerate(answer.interaction_sets) if len(one) == order]
        found, low, high = answer.set_values[0, own], low[0, own], high[0, own]
    slack = 1e-9 * np.abs(values).max()  # rounding
    held = (low - slack <= truth) & (truth <= high + slack)
    return float(np.abs(found - truth).mean() / np.abs(truth).mean()), float(held.mean())


def exact(values: Floats, order: int) -> Floats:
    """Return the k-SII of all sets of `order` players."""
    players = len(values).bit_length() - 1
    every = exact_index(torch.from_numpy(values)[None], interaction_index("k-SII", order, players))
    count = len(interaction_sets(players, order))
    return np.asarray(every[0, -count:])


def interaction_sets(players: int, order: int) -> NDArray[np.int64]:
    from shearshap.games.coalitions import members_of_all_sets

    return members_of_all_sets(players, order)


def peer_answers(python: str, games: dict[str, Floats], calls: list[Any]) -> dict[str, Floats]:
    """Return what index_peers.py writes, run by another Python."""
    numbers = {name: number for number, name in enumerate(games)}
    most = max(EVALUATIONS_PER_PLAYER)
    asked = [
        (numbers[name], order, budget, name.startswith("model") and each == most)
        for name, order, each, budget in calls
    ]
    with tempfile.TemporaryDirectory() as folder:
        tables, answers = Path(folder, "tables.npz"), Path(folder, "answers.npz")
        arrays: dict[str, Any] = {str(numbers[name]): values for name, values in games.items()}
        np.savez(tables, calls=asked, **arrays)
        script = Path(__file__).with_name("index_peers.py")
        subprocess.run([python, str(script), str(tables), str(answers)], check=True)
        return dict(np.load(answers))


def file_games(folder: Path, most: int) -> dict[str, Floats]:
    """Return up to so many games of each file: `values` (games, 2^p) in binary counting order."""
    games = {}
    for path in sorted(folder.glob("*.npz")):
        for number, values in enumerate(np.load(path)["values"][:most]):
            games[f"{path.stem} {number}"] = values.astype(np.float64)
    return games


def model_games(rows: int) -> dict[str, Floats]:
    """Return the games of some predictions of a network and of boosted trees, against the mean."""
    games = {}
    wine, cultivar = datasets.load_wine(return_X_y=True)
    cancer, malignant = datasets.load_breast_cancer(return_X_y=True)
    for data, (inputs, labels) in {
        "wine": (wine, cultivar),
        "cancer": (cancer[:, :12], malignant),
    }.items():
        inputs = scale(inputs)
        for model in (
            MLPClassifier(32, max_iter=500, random_state=0),
            GradientBoostingClassifier(random_state=0),
        ):
            model.fit(inputs, labels)
            players = inputs.shape[1]
            every = (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(bool)
            for row in range(0, 20 * rows, 20):
                mixed = np.where(every, inputs[row], inputs.mean(axis=0))
                values = model.predict_proba(mixed)[:, 1]
                games[f"model {type(model).__name__} {data} {row}"] = values
    return games


if __name__ == "__main__":
    main()
