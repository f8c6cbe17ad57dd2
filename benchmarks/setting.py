"""What the benchmarks have in common: options, methods, the Census-like network and timing."""

import argparse
import csv
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shearshap import METHODS
from shearshap.methods.base import Method
from shearshap_lab import provenance
from shearshap_lab.baselines import BASELINES
from shearshap_lab.games.models import KINDS, ROWS
from shearshap_lab.games.study import Task, tables, tasks
from shearshap_lab.markdown import plain_table
from shearshap_lab.runner import in_processes

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"  # git ignores it
RESULTS = ROOT / "benchmarks" / "results"  #: the published tables

Result = TypeVar("Result")

EVERY_METHOD: dict[str, Method] = {**METHODS, **BASELINES}
#: without groups of features, coarse-to-fine is permutation-antithetic
SAMPLING = [name for name in METHODS if name not in ("exact", "auto", "coarse-to-fine")]
EVALUATIONS_PER_PLAYER = (4, 8, 16, 32)  #: of studies of games; N of them are a budget of N p + 2

# the Census-like network
INPUTS = 107
PLAYERS = 13
BUDGET = 208
GROUPS = [[i] for i in range(5)] + [
    block.tolist() for block in np.array_split(np.arange(5, INPUTS), 8)
]


def census_like() -> tuple[nn.Sequential, NDArray[np.float32], NDArray[np.float32]]:
    """Return a 64-64-2 network on 107 inputs (5 numbers, 8 one-hot blocks), rows and background.

    There are 200 000 rows; the background is their mean.
    """
    torch.manual_seed(0)
    net = perceptron(INPUTS, 2, nn.Softplus)
    rng = np.random.default_rng(0)
    rows = np.zeros((200_000, INPUTS), dtype=np.float32)
    rows[:, :5] = rng.normal(size=(len(rows), 5))
    for block in GROUPS[5:]:
        rows[np.arange(len(rows)), rng.choice(block, size=len(rows))] = 1
    return net.eval(), rows, rows.mean(axis=0)


def perceptron(inputs: int, outputs: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a network of two hidden layers of 64."""
    return nn.Sequential(
        nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs)
    )


def fit(
    network: nn.Module,
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    epochs: int = 60,
    seed: int | None = None,
) -> nn.Module:
    """Train a network to classify, by Adam at 1e-3 in batches of 64; a seed decides their order."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    x = torch.from_numpy(inputs)
    y = torch.from_numpy(labels)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimiser.step()
    return network.eval()


def seconds(
    run: Callable[[], object],
    device: str = "cpu",
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of a run, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        start = clock()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - start)
    return float(np.median(times[1:]))


def machine(device: str = "cpu") -> str:
    """Return the machine and versions in one line."""
    return f"{provenance.machine(device)}; {provenance.versions('shap', 'captum', 'shapiq')}"


# Tables


@dataclass(frozen=True)
class Tables:
    """Prints tables and, if there is a folder, also writes them to CSV files.

    `pandas.read_csv(file, comment="#")` reads such a file. A table that is shown in parts, under
    one name, goes to one file.
    """

    setting: str  #: the machine, the versions, and what else was the same for all numbers
    folder: Path | None = None
    written: set[str] = field(default_factory=set)  #: names of the tables of this run

    def __post_init__(self) -> None:
        print(f"{self.setting}\n", flush=True)

    def show(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table; write it to `name`.csv, with one number in each cell.

        A column "error ±" has cells such as "0.3 ± 0.1", and becomes "error" and "error ±" in the
        file. A column "error (low to high)" has "0.3 (0.2 to 0.4)", and becomes three.
        """
        print(plain_table(columns, rows), end="\n\n", flush=True)
        if self.folder is None:
            return
        path = self.folder / f"{name}.csv"
        with path.open("a" if name in self.written else "w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            if name not in self.written:
                file.write(f"# command: {_command()}\n# setting: {self.setting}\n")
                lines.writerow([each for column in columns for each in _names(column)])
            for row in rows:
                cells = zip(columns, row, strict=True)
                lines.writerow([number for pair in cells for number in _numbers(*pair)])
        self.written.add(name)


def _command() -> str:
    """Return the command of this run, without --csv."""
    options = (each for each in sys.argv[1:] if each != "--csv")
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *options])


def _names(column: str) -> list[str]:
    """Return the columns of a file for a column of a table."""
    if column.endswith(" ±"):
        return [column.removesuffix(" ±"), column]
    if column.endswith(" (low to high)"):
        name = column.removesuffix(" (low to high)")
        return [name, f"{name} low", f"{name} high"]
    return [column]


def _numbers(column: str, cell: str) -> list[str]:
    """Return a cell's numbers, without thousands separators and percent signs."""
    count = len(_names(column))
    number = r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?"
    if count > 1:
        found = re.findall(number, cell)
    else:
        found = [cell.rstrip("% ") if re.fullmatch(f"{number} ?%?", cell) else cell]
    found = [each.replace(",", "") if re.fullmatch(number, each) else each for each in found]
    return (found + [""] * count)[:count]


# Options


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of options whose help is a script's docstring, unchanged."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--csv",
        action="store_const",
        const=RESULTS,
        help="write the tables to CSV files in benchmarks/results too",
    )
    return parser


def question_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options of one of the questions."""
    parser = parser_of(description)
    parser.add_argument("question", help="as named on the command line of questions.py")
    parser.add_argument("--quick", action="store_true", help="little of it: to see that it works")
    return parser


def game_options(parser: argparse.ArgumentParser, games: tuple[int, int]) -> argparse.Namespace:
    """Return the options of a study; `games` of each kind are measured, and if quick."""
    parser.add_argument("--quick", action="store_true", help="few games: to see that it works")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS, help="of games (all)")
    parser.add_argument("--players", nargs="+", type=int, help="numbers of players")
    parser.add_argument("--games", type=int, help=f"of each kind {games}")
    parser.add_argument("--tables", type=Path, help="a folder of .npz files, each a kind of game")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each (1)")
    options = parser.parse_args()
    options.games = options.games or games[options.quick]
    return options


def measured_games(
    options: argparse.Namespace, usual: Sequence[int], measure: Callable[[Task], Result]
) -> Iterator[tuple[int, list[Result]]]:
    """Yield each number of players, and what was measured on its games, in processes."""
    files = sorted(options.tables.glob("*.npz")) if options.tables else []
    asked = options.players or usual
    for players in sorted({*asked, *(tables(file).players for file in files)}):
        kinds = options.kinds if players in asked else ()
        work = tasks(kinds, players, options.games, files)
        # the games of one model go to one process, which trains it once
        yield players, in_processes(measure, work, options.jobs, chunk=ROWS)
