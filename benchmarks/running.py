"""What intervals.py and simple.py have in common: options, tasks and processes."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from tqdm import tqdm

from setting import parser_of
from shearshap_lab.games.models import KINDS, ROWS, has, make
from shearshap_lab.games.tables import Game, read_table

EVALUATIONS_A_PLAYER = (4, 8, 16, 32)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """A game to measure on, by its number: processes make it for themselves."""

    kind: str
    players: int
    number: int
    file: Path | None = None  #: of a table

    def game(self) -> Game:
        """Return the game."""
        if self.file is not None:
            return tables(self.file).game(self.number)
        return make(self.kind, self.players, self.number)


tables = lru_cache(maxsize=4)(read_table)


def numbers_of_players(options: argparse.Namespace) -> list[int]:
    """Return the chosen numbers of players, and those of the tables."""
    of_tables = {tables(file).players for file in files(options)}
    return [*options.players, *sorted(of_tables - set(options.players))]


def tasks(options: argparse.Namespace, players: int) -> list[Task]:
    """Return the games of all chosen kinds, and of the tables with so many players."""
    made = [
        Task(kind, players, number)
        for kind in options.kinds
        if players in options.players and has(kind, players)
        for number in range(options.games)
    ]
    from_tables = [
        Task(file.stem, players, number, file)
        for file in files(options)
        if tables(file).players == players
        for number in range(min(options.games, len(tables(file))))
    ]
    return made + from_tables


def files(options: argparse.Namespace) -> list[Path]:
    """Return the files of tables."""
    return sorted(options.tables.glob("*.npz")) if options.tables else []


def in_processes(
    function: Callable[[Task], Result], work: Sequence[Task], jobs: int
) -> Iterable[Result]:
    """Return the function's results for all tasks, from so many processes of one thread each.

    One job is a process too, so that the number of threads, and with it the last digits, are the
    same for all numbers of jobs.
    """
    for name in THREADS:
        os.environ[name] = "1"
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        # the games of one model go to one process, which trains it once
        results = pool.map(function, work, chunksize=ROWS)
        return list(tqdm(results, total=len(work), smoothing=0))


# Options


def parser(description: str | None, players: str, games: int) -> argparse.ArgumentParser:
    """Return the options that both commands have."""
    made = parser_of(description)
    made.add_argument("--quick", action="store_true", help="few games: to see that it works")
    made.add_argument("--tables", type=Path, help="a folder of .npz files, each a kind of game")
    made.add_argument(
        "--kinds", type=kinds, default=KINDS, help=f"some of {', '.join(KINDS)} (all), or none"
    )
    made.add_argument("--players", type=numbers, help=f"numbers of players ({players})")
    made.add_argument("--games", type=int, help=f"of each kind ({games}; quick: fewer)")
    made.add_argument("--jobs", type=int, default=1, help="processes, of one thread each (1)")
    return made


def kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of a list with commas."""
    return () if text == "none" else chosen(text, KINDS)


def chosen(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a list with commas, which must be known."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return names


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with commas."""
    return tuple(int(number) for number in text.split(","))
