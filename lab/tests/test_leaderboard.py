"""benchmarks/leaderboard.py: answers through files, and the page that it has written."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leaderboard as command
import peers
from comparison.answers import SEEDS, answers, answers_file, write
from games import Floats, smooth_table
from shearshap_lab.contest.contest import Contest, read_records, run, seed_of
from shearshap_lab.contest.contest_page import Results
from shearshap_lab.contest.entrants import OUR_METHODS, our_methods
from shearshap_lab.contest.games import Games, write_tables

ROOT = Path(__file__).parents[2]
PLAN = command.Plan(rows=3, draws=2, each=(2, 3))


def table_games() -> Games:
    return Games("small tables", "tables", np.stack([smooth_table(4, seed) for seed in range(3)]))


def record(out: Path, name: str, peer: Any) -> None:
    """Let a peer answer the tables, as the environment does."""
    tables = write_tables(table_games(), out / "tables")
    (out / "answers").mkdir(exist_ok=True)
    for each in PLAN.each:
        place = out / "answers" / answers_file(tables, name, each, PLAN.draws, "1.0")
        write(place, answers(tables, peer, each, PLAN.draws))


def noise(value: Any, players: int, budget: int, seed: int) -> Floats:
    value(np.zeros((budget, players)))
    return np.random.default_rng(seed).normal(size=players)


def picky(value: Any, players: int, budget: int, seed: int) -> Floats:
    if budget < 14:
        raise ValueError("too few\nof them")
    value(np.zeros((budget + 1 if seed == 1_001 else budget, players)))
    return np.zeros(players)


def test_recorded_answers_take_part_as_if_they_were_given_now(tmp_path: Path) -> None:
    games = table_games()
    record(tmp_path, "theirs", noise)
    record(tmp_path, "picky", picky)
    entrants = [
        command.recorded_entrant(name, [games], tmp_path, PLAN, "1.0")
        for name in ("theirs", "picky")
    ]
    contest = Contest([*our_methods(("kernel",)), *entrants], [games], PLAN.each, PLAN.draws)
    records = run(contest, tmp_path, command="python benchmarks/leaderboard.py")
    lines: list[dict[str, Any]] = records.to_pylist()

    (line,) = (
        line
        for line in lines
        if (line["entrant"], line["n"], line["game"], line["draw"]) == ("theirs", 3, 2, 1)
    )
    answer = np.random.default_rng(seed_of(2, 1)).normal(size=4)
    assert line["error"] == pytest.approx(np.abs(answer - games.phi[2]).mean())
    assert (line["evaluations"], line["budget"], line["failure"]) == (14, 14, "")

    failures = {
        (line["n"], line["game"], line["draw"]): line["failure"]
        for line in lines
        if line["entrant"] == "picky"
    }
    assert failures[2, 0, 0] == "ValueError: too few"
    assert failures[3, 0, 0] == ""
    assert failures[3, 1, 1] == "spent 15 evaluations of 14"

    text = command.page(Results(*read_records(tmp_path)), "1.0")
    assert text.startswith("# Leaderboard\n\nOur 1 methods and 2 estimators of shapiq 1.0")
    assert "`kernel` has the smallest error. Against the best of shapiq's, `theirs`, it has" in text
    assert "charts/leaderboard.svg" in text.split("\nMade by")[0]
    assert "<summary>All numbers</summary>\n\n| estimator | N = " in text


def test_an_answer_that_is_missing_stops_the_run(tmp_path: Path) -> None:
    record(tmp_path, "theirs", noise)
    with pytest.raises(FileNotFoundError):
        command.recorded_entrant("others", [table_games()], tmp_path, PLAN, "1.0")


def test_both_sides_draw_from_the_same_seeds() -> None:
    assert [SEEDS * game + draw for game, draw in ((0, 0), (3, 2))] == [
        seed_of(0, 0),
        seed_of(3, 2),
    ]


def test_the_environment_is_of_pinned_versions() -> None:
    pinned = peers.REQUIREMENTS.read_text()
    for name in command.INSTALLED:
        assert f"\n{name}==" in pinned


# The page in the docs


PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")


def board() -> list[list[str]]:
    """The cells of the page's first table, without its head."""
    table = PAGE.split("\n## ")[1].split("\n\n")[1]
    return [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]


def test_the_page_has_our_methods_and_all_of_shapiqs() -> None:
    source = (ROOT / "benchmarks" / "comparison" / "shapiq_peers.py").read_text()
    theirs = re.findall(r'^    "(shapiq [^"]+)":', source, flags=re.MULTILINE)
    assert len(theirs) == 10
    assert {row[0] for row in board()} == {*theirs, *OUR_METHODS}
    assert "Made by `python benchmarks/leaderboard.py` at commit" in PAGE


def test_every_win_on_the_page_is_a_loss_of_another() -> None:
    wins, ties, losses = (sum(int(row[column]) for row in board()) for column in (3, 4, 5))
    assert wins == losses > 0
    assert ties % 2 == 0


def test_places_go_by_the_error() -> None:
    placed = [row for row in board() if row[1] != "-"]
    assert [row[1] for row in placed] == [str(place) for place in range(1, len(placed) + 1)]
    errors = [float(row[2].split()[0]) for row in placed]
    assert errors == sorted(errors)
    every = {row[6] for row in placed}
    assert len(every) == 1
