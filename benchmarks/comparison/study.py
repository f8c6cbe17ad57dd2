"""All estimators on all games, and what is written of them."""

import argparse
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path

import torch
from tqdm import tqdm

from comparison.games import Game, all_games, quick_games, table_games
from comparison.measurement import Estimator, Result, TooSlowError, measure, of_peer
from comparison.ours import ours
from comparison.report import about_games, report, write_csv
from setting import machine


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rows: int  #: of each game, at most
    seeds: int  #: runs over all rows
    each: Sequence[int]  #: evaluations a player, one budget for each number
    patience: float  #: most seconds for one row

    def changed_by(self, options: argparse.Namespace) -> "Plan":
        """Return the plan with what the command line asks for."""
        asked = {field.name: getattr(options, field.name) for field in fields(self)}
        return replace(self, **{name: value for name, value in asked.items() if value is not None})


FULL = Plan(rows=6, seeds=2, each=(8, 16, 32, 64), patience=10)
QUICK = Plan(rows=3, seeds=1, each=(8, 32), patience=3)


def run(options: argparse.Namespace) -> None:
    """Measure everything that the command line asks for, and write tables, CSV file and chart."""
    from comparison.peers import PEERS

    torch.set_num_threads(options.threads)
    logging.getLogger("shap").setLevel(logging.ERROR)
    plan = (QUICK if options.quick else FULL).changed_by(options)
    estimators = [*(of_peer(name, peer) for name, peer in PEERS.items()), *ours()]
    options.out.mkdir(parents=True, exist_ok=True)

    games: list[Game] = []
    results: list[Result] = []
    for game in chosen_games(options, plan.rows):
        games.append(game)
        results += results_of(game, estimators, plan)
        # at once, so that a run that is stopped leaves what it has
        write_csv(results, options.out / "results.csv")

    write_all(games, results, head(plan, options.threads), options.out)


def chosen_games(options: argparse.Namespace, rows: int) -> Iterator[Game]:
    """Yield the games that the command line asks for."""
    tables = table_games(options.tables, rows) if options.tables else []
    networks = options.out / "networks"
    make = quick_games if options.quick else all_games
    models = [] if options.only_tables else make(rows, threads=options.threads, folder=networks)
    yield from chain(models, tables)


def results_of(game: Game, estimators: Sequence[Estimator], plan: Plan) -> list[Result]:
    """Return the results of all estimators that fit a game, at growing budgets."""
    fitting = [estimator for estimator in estimators if estimator.fits(game)]
    work = [(each, estimator) for each in sorted(plan.each) for estimator in fitting]

    results = []
    slow: dict[str, Result] = {}  # by estimator; those are not tried at larger budgets
    with tqdm(work, desc=game.name, mininterval=1) as bar:
        for each, estimator in bar:
            bar.set_postfix_str(f"N = {each}, {estimator.name}")
            if estimator.name in slow:
                result = replace(slow[estimator.name], each=each)
            else:
                result = measure(game, estimator, each, seeds=plan.seeds, patience=plan.patience)
            if result.failure.startswith(TooSlowError.__name__):
                slow[estimator.name] = result
            results.append(result)
    return results


def head(plan: Plan, threads: int) -> str:
    """Return the machine, and how much was measured."""
    return (
        f"{machine()}; threads of every estimator: {threads}. "
        f"At most {plan.rows} rows of each game, seeds: {plan.seeds}. "
        "N evaluations a player are a budget of N p + 2, base value and prediction included."
    )


def write_all(games: Sequence[Game], results: Sequence[Result], head: str, folder: Path) -> None:
    """Print the tables, and write them, the CSV file and the chart into a folder."""
    from comparison.chart import draw

    text = "\n\n".join(("# Peers", head, about_games(games), report(results)))
    print(text)
    (folder / "report.md").write_text(f"{text}\n", encoding="utf-8")
    write_csv(results, folder / "results.csv")
    draw(results, folder / "error-against-seconds.png")
    print(f"\nwritten: report.md, results.csv and error-against-seconds.png in {folder}")
