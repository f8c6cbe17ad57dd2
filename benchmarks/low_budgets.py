"""Error, top five and coverage at budgets from p/4 to 4p evaluations of p players.

    python benchmarks/low_budgets.py             all games and methods
    python benchmarks/low_budgets.py --quick     one game of each kind, one row
    python benchmarks/low_budgets.py --methods kriging leverage
    python benchmarks/low_budgets.py --make      train the models, and find the true values

Games are made once, in out/expensive: a minute or two to train, and the true values of the texts
take hours on a CPU, minutes on a GPU (--device cuda). Other libraries need the environment of
benchmarks/peers.py, which is set up at the first start; without them, any environment will do.
"""

import argparse
import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from peers import ENVIRONMENT, THREADS, prepared_environment

if TYPE_CHECKING:  # any Python can start the command, with or without our packages
    from expensive.scores import Score

KINDS = ("texts", "images", "tables", "sparse")
QUICK = ("text-60", "digits-perceptron-mean", "cancer-network", "sparse-100")

OURS = (
    "kriging",
    "kriging, inputs unknown",
    "permutation",
    "permutation-antithetic",
    "leverage",
)
SIMPLE = ("LIME", "ridge, cross-validated")
OF_LIBRARIES = ("shap Partition", "shapiq ProxySPEX", "shapiq OddSHAP")
METHODS = (*OURS, *SIMPLE, *OF_LIBRARIES)


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one game of each kind, one row")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of games (all)")
    parser.add_argument("--games", nargs="+", help="names of games (all)")
    parser.add_argument("--rows", type=int, help="rows of each game, at most (all; quick: 1)")
    parser.add_argument("--seeds", type=int, help="runs over all rows (2; quick: 1)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="(all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--make", action="store_true", help="make the games, and measure nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of --make (cpu)")
    parser.add_argument("--python", help="a Python 3.12 to make the environment with")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    inside = Path(sys.prefix).resolve() == ENVIRONMENT.resolve()
    if options.make:
        from expensive.making import make_all

        make_all(device=options.device)
    elif inside or not set(options.methods) & set(OF_LIBRARIES):
        measure(options)
    else:
        python = prepared_environment(options.python)
        command = [str(python), str(Path(__file__).resolve()), *sys.argv[1:]]
        raise SystemExit(subprocess.run(command, check=False).returncode)


def measure(options: argparse.Namespace) -> None:
    """Measure what the command line asks for, and print and write the tables."""
    # before numpy and torch are loaded, here and in the processes that are started
    os.environ.update(dict.fromkeys(THREADS, "1"))
    from expensive.games import FOLDER, load, names
    from expensive.scores import report
    from setting import machine

    rows = options.rows or (1 if options.quick else None)
    seeds = options.seeds or (1 if options.quick else 2)
    wanted = options.games or (QUICK if options.quick else names())
    chosen = [name for name in wanted if load(name).kind in options.kinds]
    chosen.sort(key=lambda name: KINDS.index(load(name).kind))

    work = [(name, method, rows, seeds) for name in chosen for method in options.methods]
    scores: list[Score] = []
    context = get_context("spawn")  # a fork of a process with torch's threads can hang
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for number, part in enumerate(pool.map(scores_of, work), start=1):
            scores += part
            print(f"{number} of {len(work)}", end="\r", file=sys.stderr)

    text = "\n\n".join(
        (
            f"{machine()}. Seeds: {seeds}. Budgets are the number given, and 2 for base value and "
            "prediction.",
            report(scores),
        )
    )
    print(text)
    (FOLDER / "report.md").write_text(f"{text}\n", encoding="utf-8")
    write_csv(scores, FOLDER / "results.csv")


def scores_of(work: tuple[str, str, int | None, int]) -> "list[Score]":
    """Return the scores of a method on a game, at all budgets."""
    import torch

    from expensive.games import load
    from expensive.scores import EACH, score

    name, method, rows, seeds = work
    torch.set_num_threads(1)
    game = load(name, rows=rows)
    return [
        score(game, method, each, row, seed)
        for each in EACH
        for seed in range(seeds)
        for row in range(len(game))
    ]


def write_csv(scores: "Sequence[Score]", path: Path) -> None:
    """Write one line for each score."""
    from expensive.scores import Score

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Score)])
        writer.writeheader()
        writer.writerows(asdict(score) for score in scores)


if __name__ == "__main__":
    main()
