"""shapiq's estimators on tables of games in files: tables in, values and what they cost out.

    python -m comparison.answers TABLES OUT --each 8 16 --draws 2

It needs numpy, tqdm and shapiq alone. Each .npz file of answers has, for all games and draws of a
file of tables, by one estimator at one budget: `values` (g, draws, p), `evaluations`, `seconds` of
the processor, and `failures` (g, draws). Files that are there already are kept.
"""

import argparse
import hashlib
import time
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

if TYPE_CHECKING:
    from comparison.shapiq_peers import Floats, Peer

SEEDS = 1_000  #: the seed of a game and a draw is SEEDS * game + draw


class Table:
    """A game as a table, which counts what is asked of it."""

    def __init__(self, values: "Floats", players: int) -> None:
        self.values = values  # (2^p,)
        self.places = 1 << np.arange(players)
        self.evaluations = 0

    def __call__(self, coalitions: Any) -> "Floats":
        """Return the values (c,) of coalitions (c, p) or (p,)."""
        present = np.atleast_2d(np.asarray(coalitions)) > 0.5
        self.evaluations += len(present)
        return np.asarray(self.values[present @ self.places])


def main() -> None:
    from comparison.shapiq_peers import SHAPIQ

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--each", type=int, nargs="+", required=True)
    parser.add_argument("--draws", type=int, required=True)
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    work = list(product(sorted(options.tables.glob("*.npz")), options.each, SHAPIQ.items()))
    with tqdm(work, mininterval=1) as bar:
        for path, each, (name, peer) in bar:
            bar.set_postfix_str(f"{path.stem}, N = {each}, {name}")
            place = options.out / answers_file(path, name, each, options.draws, version("shapiq"))
            if not place.exists():
                write(place, answers(path, peer, each, options.draws))


def answers_file(tables: Path, name: str, each: int, draws: int, shapiq: str) -> str:
    """Return the name of a file of answers, which covers what they depend on."""
    digest = hashlib.sha256(tables.read_bytes() + f"{name} {each} {draws} {shapiq}".encode())
    return f"{tables.stem}-{name.replace(' ', '-')}-n{each}-{digest.hexdigest()[:12]}.npz"


def answers(path: Path, peer: "Peer", each: int, draws: int) -> dict[str, Any]:
    """Return an estimator's answers for the games of a file, by the names of the arrays."""
    with np.load(path) as file:
        tables = file["values"]
        players = int(file["players"])
    budget = each * players + 2
    lines = [
        answer(Table(table, players), peer, players, budget, SEEDS * game + draw)
        for game, table in enumerate(tables)
        for draw in range(draws)
    ]
    names = ("values", "evaluations", "seconds", "failures")
    columns = zip(*lines, strict=True)
    shape = (len(tables), draws)
    arrays = {name: np.array(column) for name, column in zip(names, columns, strict=True)}
    return {name: array.reshape(*shape, *array.shape[1:]) for name, array in arrays.items()}


def answer(
    game: Table, peer: "Peer", players: int, budget: int, seed: int
) -> "tuple[Floats, int, float, str]":
    """Return values, evaluations, seconds, and why it failed."""
    values = np.full(players, np.nan)
    failure = ""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(peer(game, players, budget, seed), dtype=np.float64)
    except Exception as error:  # noqa: BLE001  (whatever happens in a peer, the others go on)
        failure = f"{type(error).__name__}: {error}".strip().split("\n")[0]
    return values, game.evaluations, time.process_time() - started, failure


def write(place: Path, arrays: dict[str, Any]) -> None:
    """Write a file of answers whole or not at all."""
    partial = place.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    partial.replace(place)


if __name__ == "__main__":
    main()
