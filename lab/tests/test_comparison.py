"""benchmarks/peers.py without the peers: games that count, rankings, tables, and estimators that fail."""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import peers as command
from comparison import games as made
from comparison import measurement
from comparison.chart import draw
from comparison.games import ModelGame, TableGame
from comparison.measurement import Answer, Estimator, Result, measure, of_peer
from comparison.ours import estimator
from comparison.ranking import best_peers, geometric_mean, relative_error
from comparison.report import about_games, by_game, evaluations_cell, failures, report, write_csv
from comparison.study import Plan, results_of, write_all
from games import Floats, all_coalitions, exact_shares

PLAYERS = 4
PLAN = Plan(rows=2, seeds=1, each=(2, 1), patience=60)


def network_game(scale: str = "logit") -> ModelGame:
    """Two rows of a small network whose third player has two inputs."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 2))
    game = ModelGame(
        f"small {scale}",
        "networks",
        truth=np.empty((2, PLAYERS)),
        inputs=torch.randn(2, 5).numpy(),
        background=torch.randn(5).numpy(),
        groups=[[0], [1], [2, 4], [3]],
        model=net,
        scale=scale,
        differentiable=True,
    )
    made.count_forwards(game, net)
    return game.with_exact_truth()


def write_table(path: Path) -> Floats:
    """Write the complete tables of the network's rows as a file of games, and return them."""
    game = network_game()
    table = np.stack([game.of_row(row)(all_coalitions(PLAYERS)) for row in range(len(game))])
    np.savez(path, values=table, phi=game.truth, players=PLAYERS)
    return table


def result(name: str, error: float, *, game: str = "a", **more: Any) -> Result:
    measured = Result(game, "kind", name, ours=False, each=8, budget=34, size=1.0)
    return replace(measured, error=error, seconds=0.5, evaluations=34.0, **more)


# Games


@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_peers_and_our_methods_see_the_same_game(scale: str) -> None:
    game = network_game(scale)
    for row in range(2):
        shares = exact_shares(game.of_row(row)(all_coalitions(PLAYERS)))
        np.testing.assert_allclose(shares, game.truth[row], atol=1e-6)


def test_a_table_of_games_is_read_from_a_folder(tmp_path: Path) -> None:
    table = write_table(tmp_path / "Small-4.npz")
    (game,) = made.table_games(tmp_path, rows=8)
    assert (game.name, game.kind, game.players, len(game)) == ("Small-4", "tables", PLAYERS, 2)
    second_and_fourth = np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(game.of_row(1)(second_and_fourth), [table[1, 0b1010]])
    np.testing.assert_allclose(game.truth[0], exact_shares(table[0]), atol=1e-6)


def test_no_more_rows_are_read_than_wanted(tmp_path: Path) -> None:
    write_table(tmp_path / "Small-4.npz")
    assert len(made.table_game(tmp_path / "Small-4.npz", rows=1)) == 1


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", values=np.zeros((1, 8)), phi=np.zeros((1, 4)), players=4)
    wanted = (
        r"wanted values \(games, 16\) and phi \(games, 4\) for 4 players, got \(1, 8\) and \(1, 4\)"
    )
    with pytest.raises(SystemExit, match=wanted):
        made.table_games(tmp_path, rows=1)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"there is no \.npz file in"):
        made.table_games(tmp_path, rows=1)


# Measuring


def test_evaluations_are_counted_at_the_game() -> None:
    def spendthrift(value: Any, players: int, budget: int, _seed: int) -> Floats:
        value(np.ones(players))
        value(np.ones((2 * budget, players)))
        return np.zeros(players)

    game = network_game()
    measured = measure(game, of_peer("spendthrift", spendthrift), 2, seeds=1, patience=60)
    assert measured.budget == 10
    assert measured.evaluations == 21
    assert evaluations_cell(measured) == "**21**"
    assert measured.error == pytest.approx(np.abs(game.truth).mean())
    assert np.isnan(measured.coverage)


@pytest.mark.parametrize("together", [False, True])
def test_our_methods_are_exact_where_the_budget_holds_all_coalitions(together: bool) -> None:
    measured = measure(
        network_game(), estimator("auto", together=together), 4, seeds=1, patience=60
    )
    assert measured.failure == ""
    assert measured.error < 1e-6
    # all coalitions, and one more evaluation that checks the model
    assert measured.evaluations == 17


def test_our_methods_explain_tables(tmp_path: Path) -> None:
    write_table(tmp_path / "Small-4.npz")
    (game,) = made.table_games(tmp_path, rows=2)
    measured = measure(game, estimator("leverage", together=True), 2, seeds=2, patience=60)
    assert measured.evaluations == 10
    assert measured.error < np.abs(game.truth).mean() / 10


def test_coverage_is_the_part_of_the_truth_inside_the_intervals() -> None:
    game = TableGame("t", "tables", truth=np.array([[1.0, 2.0]]), table=np.zeros((1, 4)))
    interval = (np.array([[0.0, 2.5]]), np.array([[1.0, 3.0]]))
    sure = Estimator("sure", lambda *_: Answer(np.ones((1, 2)), interval))
    assert measure(game, sure, 1, seeds=1, patience=60).coverage == 0.5


def test_an_estimator_that_fails_does_not_stop_the_others() -> None:
    def broken(*_: object) -> Floats:
        raise ValueError("the budget is too small\nand more about it")

    def lost(_value: object, players: int, *_: object) -> Floats:
        return np.full(players, np.nan)

    def fine(_value: object, players: int, *_: object) -> Floats:
        return np.zeros(players)

    estimators = [of_peer("broken", broken), of_peer("lost", lost), of_peer("fine", fine)]
    results = results_of(network_game(), estimators, PLAN)
    assert [(found.estimator, found.each, found.failure) for found in results[:3]] == [
        ("broken", 1, "ValueError: the budget is too small"),
        ("lost", 1, "ValueError: some values are not finite"),
        ("fine", 1, ""),
    ]
    assert [found.each for found in results] == [1, 1, 1, 2, 2, 2]
    assert "| broken | small logit | 1 | ValueError: the budget is too small |" in failures(results)


def test_a_slow_estimator_is_not_tried_at_larger_budgets() -> None:
    budgets = []

    def slow(_value: object, players: int, budget: int, _seed: int) -> Floats:
        budgets.append(budget)
        return np.zeros(players)

    impatient = replace(PLAN, patience=-1)
    results = results_of(network_game(), [of_peer("slow", slow)], impatient)
    assert budgets == [6, 6]
    assert [found.each for found in results] == [1, 2]
    assert all(found.failure.startswith("TooSlowError: 0 s a row") for found in results)


def test_only_the_first_call_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 9, *range(10, 100)])  # the first call takes 9 seconds, the others one each
    monkeypatch.setattr(measurement, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    quick = of_peer("quick", lambda _value, players, *_: np.zeros(players))
    measured = measure(network_game(), quick, 2, seeds=1, patience=3)
    assert measured.failure == ""
    assert measured.seconds == 1


def test_methods_with_derivatives_are_left_out_where_there_are_none(tmp_path: Path) -> None:
    write_table(tmp_path / "Small-4.npz")
    (table,) = made.table_games(tmp_path, rows=1)
    shear = estimator("shear", together=False)
    assert results_of(table, [shear], PLAN) == []
    assert shear.fits(network_game())


# Ranking and tables


def test_the_best_peer_is_chosen_for_each_game_with_hindsight() -> None:
    mine = result("mine", 0.1, ours=True)
    results = [
        result("p", 0.4),
        result("q", 0.2),
        result("q", 0.9, game="b"),
        result("p", 0.3, game="b"),
        result("r", np.nan, failure="lost"),
        mine,
    ]
    best = best_peers(results)
    assert {place: found.estimator for place, found in best.items()} == {
        ("a", 8): "q",
        ("b", 8): "p",
    }
    assert relative_error(mine, best) == pytest.approx(0.5)
    assert np.isnan(relative_error(replace(mine, game="c"), best))


def test_errors_below_rounding_count_as_equal() -> None:
    exact = result("exact", 3e-9, size=0.5)
    best = best_peers([exact])
    assert relative_error(replace(exact, error=0.0), best) == 1
    assert relative_error(replace(exact, error=5e-6), best) == pytest.approx(10)


def test_geometric_means() -> None:
    assert geometric_mean([0.5, 8.0]) == pytest.approx(2)
    assert geometric_mean([0.0, 1.0]) == 0
    assert np.isnan(geometric_mean([]))


def test_a_table_has_a_line_for_each_estimator_that_has_a_number() -> None:
    results = [
        result("p", 0.4),
        result("p", np.nan, game="b", failure="lost"),
        result("q", np.nan, failure="lost"),
    ]
    text = by_game(results, lambda found: f"{found.error:.1f}")
    assert text.splitlines() == ["|  | a | b |", "| --- | --- | --- |", "| p | 0.4 | failed |"]


def test_the_report_ranks_over_all_games_and_game_by_game() -> None:
    text = report(
        [
            result("p", 0.4),
            result("p", 250.0, game="b"),
            result("q", 0.2, coverage=0.9),
            result("q", 2.0, game="b", coverage=1.0),
            result("r", 0.3),
            result("s", 0.3, game="c", ours=True),
        ]
    )
    lines = text.splitlines()
    assert "| p | 15.81 (125), 2 of 3 games |" in lines
    assert "| q | 1.00 (1.00), 2 of 3 games |" in lines
    assert "| r | 1.50 (1.50), 1 of 3 games |" in lines
    assert "| q | 95% (90%), 2 of 3 games |" in lines
    assert "| p | 2.00 | 125 |  |" in lines
    assert "| p | 4.0e-01 | 2.5e+02 |  |" in lines
    assert "| q | 90% | 100% |  |" in lines
    assert "| r | 34 |  |  |" in lines
    assert "| s |  |  | 3.0e-01 |" in lines
    assert "nan" not in text
    assert "Failed" not in text


def test_the_truth_of_a_game_is_told() -> None:
    exact = TableGame("t", "tables", truth=np.ones((3, 2)), table=np.zeros((3, 4)))
    estimated = TableGame(
        "u", "k", truth=-np.ones((1, 2)), table=np.zeros((1, 4)), truth_error=1e-4
    )
    assert about_games([exact, estimated]).splitlines()[2:] == [
        "| t | 2 | 3 | exact |",
        r"| u | 2 | 1 | estimated; expected error 1.0e-04, 0.0001 of mean \|value\| |",
    ]


def test_the_csv_file_has_a_line_for_each_result(tmp_path: Path) -> None:
    write_csv([result("p", 0.25), result("q", np.nan, failure="a, b")], tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["estimator"] for line in lines] == ["p", "q"]
    assert (lines[0]["error"], lines[0]["budget"]) == ("0.25", "34")
    assert lines[1]["failure"] == "a, b"


def test_a_run_on_a_table_writes_report_file_and_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "Small-4.npz")
    (game,) = made.table_games(tmp_path, rows=2)
    ours = [
        estimator(name, together=flag) for name in ("leverage", "auto") for flag in (False, True)
    ]
    results = results_of(game, ours, replace(PLAN, each=(2, 3)))
    write_all([game], results, "this machine", tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert text in capsys.readouterr().out.replace("\n\nwritten", "\nwritten")
    assert "## N = 3: mean absolute error\n\n|  | Small-4 |" in text
    assert (tmp_path / "results.csv").read_text().count("\n") == 9
    assert (tmp_path / "error-against-seconds.png").read_bytes()[:4] == b"\x89PNG"


def test_the_chart_leaves_out_what_has_no_number(tmp_path: Path) -> None:
    results = [
        result("p", 0.4),
        result("p", np.nan, game="b", failure="lost"),
        result("q", 0.2),
        result("q", 0.1, game="b"),
    ]
    draw(results, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 10_000


# The command


def test_a_python_that_is_not_312_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"need Python 3\.12, and none was found"):
        command.python_312(str(tmp_path / "python"))


def test_the_pinned_versions_name_every_peer() -> None:
    pinned = command.REQUIREMENTS.read_text()
    for name in ("shap", "shapiq", "captum", "xgboost-cpu", "torch"):
        assert f"\n{name}==" in pinned
