"""The results as Markdown tables and as a CSV file."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TypeVar

import numpy as np

from comparison.games import Game
from comparison.measurement import Result
from comparison.ranking import best_peers, geometric_mean, relative_error
from setting import table

Cell = Callable[[Result], str]
Item = TypeVar("Item")


def write_csv(results: Sequence[Result], path: Path) -> None:
    """Write one line for each result."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)])
        writer.writeheader()
        writer.writerows(asdict(result) for result in results)


def report(results: Sequence[Result]) -> str:
    """Return all tables: first over all games, then game by game."""
    sections = [
        *summaries(results),
        *(
            text
            for each in distinct(result.each for result in results)
            for text in details(results, each)
        ),
        failures(results),
    ]
    return "\n\n".join(section for section in sections if section)


def about_games(games: Sequence[Game]) -> str:
    """Return the table of the games, with how well their values are known."""
    cells = [[game.name, f"{game.players}", f"{len(game)}", known(game)] for game in games]
    return table(["game", "players", "rows", "values"], cells)


def known(game: Game) -> str:
    """Return how well the truth is known."""
    if not game.truth_error:
        return "exact"
    part = game.truth_error / float(np.abs(game.truth).mean())
    return f"estimated; expected error {game.truth_error:.1e}, {part:.1g} of mean \\|value\\|"


# Over all games


def summaries(results: Sequence[Result]) -> list[str]:
    """Return a table for each measure: estimators down, evaluations a player across."""
    best = best_peers(results)

    def ratio(found: Sequence[Result]) -> str:
        ratios = [relative_error(result, best) for result in found]
        numbers = [ratio for ratio in ratios if np.isfinite(ratio)]
        return f"{times(geometric_mean(numbers))} ({times(max(numbers))})" if numbers else ""

    def seconds(found: Sequence[Result]) -> str:
        return f"{geometric_mean([result.seconds for result in found]):.2g}"

    def coverage(found: Sequence[Result]) -> str:
        known = [result.coverage for result in found if np.isfinite(result.coverage)]
        return f"{np.mean(known):.0%} ({min(known):.0%})" if known else ""

    measures = {
        "Error over the best peer's with hindsight: geometric mean over games (worst game)": ratio,
        "Seconds a row: geometric mean over games": seconds,
        "Coverage of nominal 95 % intervals: mean over games (worst game)": coverage,
    }
    return [f"## {title}\n\n{summary(results, cell)}" for title, cell in measures.items()]


def summary(results: Sequence[Result], cell: Callable[[Sequence[Result]], str]) -> str:
    """Return a table of cells, each of one estimator's results at one budget."""
    budgets = distinct(result.each for result in results)
    games = len(distinct(result.game for result in results))

    rows = []
    for name in distinct(result.estimator for result in results):
        done = [result for result in results if result.estimator == name and not result.failure]
        by_budget = [[result for result in done if result.each == each] for each in budgets]
        cells = [marked(cell(found), found, games) if found else "" for found in by_budget]
        if any(cells):
            rows.append([name, *cells])
    return table(["", *(f"N = {each}" for each in budgets)], rows)


def marked(text: str, found: Sequence[Result], games: int) -> str:
    """Return a cell's text, and of how many games it is where those are not all."""
    partial = text and len(found) < games
    return f"{text}, {len(found)} of {games} games" if partial else text


# Game by game


def details(results: Sequence[Result], each: int) -> list[str]:
    """Return a table for each measure at one budget: estimators down, games across."""
    best = best_peers(results)
    measures: dict[str, Cell] = {
        "error over the best peer's": lambda result: times(relative_error(result, best)),
        "mean absolute error": lambda result: f"{result.error:.1e}",
        "seconds a row": lambda result: f"{result.seconds:.2g}",
        "coverage of nominal 95 % intervals": coverage_cell,
        "evaluations a row, counted (bold: more than the budget)": evaluations_cell,
    }
    here = [result for result in results if result.each == each]
    return [f"## N = {each}: {title}\n\n{by_game(here, cell)}" for title, cell in measures.items()]


def times(ratio: float) -> str:
    """Return a ratio with two decimals, without where it is large, and nothing of NaN."""
    if np.isnan(ratio):
        return ""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"


def coverage_cell(result: Result) -> str:
    """Return the coverage, or nothing where there are no intervals."""
    return f"{result.coverage:.0%}" if np.isfinite(result.coverage) else ""


def evaluations_cell(result: Result) -> str:
    """Return what was spent, in bold where it is more than was allowed."""
    spent = f"{result.evaluations:.0f}"
    return f"**{spent}**" if result.evaluations > result.budget else spent


def by_game(results: Sequence[Result], cell: Cell) -> str:
    """Return a table of cells, each of one estimator on one game, without empty rows."""
    games = distinct(result.game for result in results)
    found = {(result.estimator, result.game): result for result in results}

    rows = []
    for name in distinct(result.estimator for result in results):
        cells = [_cell(found.get((name, game)), cell) for game in games]
        if any(text not in ("", "failed") for text in cells):
            rows.append([name, *cells])
    return table(["", *games], rows)


def _cell(result: Result | None, cell: Cell) -> str:
    if result is None:
        return ""
    return "failed" if result.failure else cell(result)


def failures(results: Sequence[Result]) -> str:
    """Return what failed, and why; nothing where all went well."""
    cells = [
        [result.estimator, result.game, f"{result.each}", result.failure.replace("|", "\\|")]
        for result in results
        if result.failure
    ]
    return f"## Failed\n\n{table(['', 'game', 'N', 'why'], cells)}" if cells else ""


def distinct(items: Iterable[Item]) -> list[Item]:
    """Return the distinct items in the order in which they first come."""
    return list(dict.fromkeys(items))
