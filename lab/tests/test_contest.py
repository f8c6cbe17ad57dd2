"""`shear benchmark`: estimators of the user's own against ours, from tables in files to the report."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from browser import chromium, console, requests, visit
from games import all_coalitions, exact_shares, smooth_table
from peer_library import peer
from shearshap.apps.cli import app
from shearshap_lab.contest.contest import (
    Contest,
    Estimator,
    measured,
    open_estimator,
    our_methods,
    read_records,
    run,
)
from shearshap_lab.contest.page import Results, report
from shearshap_lab.data import load
from shearshap_lab.games import sources
from shearshap_lab.games.sources import Request
from shearshap_lab.games.tables import CountedGame, Games, write_tables
from shearshap_lab.networks import train
from shearshap_lab.statistics import judged_ratio, mean_over, ratio
from shearshap_lab.truth import ground_truth

PLAYERS = 5

MINE = '''
import numpy as np
from helper import FACTOR
from shearshap import Kernel

paired = Kernel(paired=True)


class Plain(Kernel):
    pass


def sums(game):
    """One permutation after the other."""
    rng = np.random.default_rng(game.seed)
    total = np.zeros(game.players)
    count = 0
    while game.evaluations + game.players + 1 <= game.budget:
        order = rng.permutation(game.players)
        joined = np.argsort(order) < np.arange(game.players + 1)[:, None]
        total[order] += FACTOR * np.diff(game(joined))
        count += 1
    return total / count


def by_name(game, seed, players, budget, scale=1.0):
    assert (seed, players, budget) == (game.seed, game.players, game.budget)
    return np.full(players, scale)


def greedy(game):
    game(np.ones((game.budget + 3, game.players)))
    return np.zeros(game.players)


def broken(game):
    raise ValueError("it does not work\\nat all")


def leaves(game):
    raise SystemExit(3)


def lost(game):
    return np.array([np.nan] * 2 + [0.0] * (game.players - 2))


def short(game):
    return np.zeros(3)


def wants_more(game, colour):
    return np.zeros(game.players)


number = 5
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with mine.py, a module beside it, and a folder of tables."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("FACTOR = 1.0\n")
    for number, name in enumerate(("smooth", "other")):
        write_tables(games(name, seed=10 * number), tmp_path / "tables")
    return tmp_path


def games(name: str = "smooth", *, seed: int = 0, count: int = 4) -> Games:
    tables = [smooth_table(PLAYERS, seed + number) for number in range(count)]
    return Games(name, "tables", np.stack(tables))


def small_contest(*estimators: Estimator, **options: Any) -> Contest:
    known = [games(), games("other", seed=10)]
    ours = our_methods(("leverage", "permutation-antithetic", "kernel"))
    return Contest([*ours, *estimators], known, **{"evaluations": (2, 3), "seeds": 2, **options})


def known_shares(game: CountedGame) -> Any:
    """The exact values of one of our games, which is known by two of its values."""
    seen = game(all_coalitions(PLAYERS)[1:3])
    tables = [table for known in (games(), games("other", seed=10)) for table in known.values]
    return exact_shares(next(table for table in tables if np.array_equal(table[1:3], seen)))


def of_function(name: str, function: Callable[[CountedGame], Any]) -> Estimator:
    return Estimator(name, measured(function), fingerprint=name)


def benchmark(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)])


# Sources


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "STEPS", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("short_training")
def test_a_network_is_a_table_with_the_papers_ground_truth(tmp_path: Path) -> None:
    census = sources.NETWORKS[0].games(Request(2, tmp_path))
    assert (census.name, census.kind, census.players) == ("census network", "networks", 13)
    data = load("census")
    trained = train(data, steps=1, progress=False)
    truth = ground_truth(trained, data, rows=2, folder=tmp_path / "truth", progress=False)
    np.testing.assert_allclose(census.phi, truth.values, atol=1e-6)

    shear = our_methods(("shear",))[0].answer(census, 1, 8 * 13 + 2, 0)
    assert (shear.evaluations, shear.derivative_passes > 0) == (106, True)
    leverage = our_methods(("leverage",))[0].answer(census, 1, 8 * 13 + 2, 0)
    assert (leverage.evaluations, leverage.derivative_passes) == (106, 0)


# Estimators


@pytest.mark.slow
def test_a_shapiq_approximator_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapiq = peer("shapiq")
    (tmp_path / "theirs.py").write_text(
        "from functools import partial\nfrom shapiq import KernelSHAP, PermutationSamplingSV\n"
        "paired = partial(KernelSHAP, pairing_trick=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    known = games()
    for name in ("KernelSHAP", "paired", "PermutationSamplingSV"):
        answer = open_estimator(f"theirs.py:{name}").answer(known, 0, 22, 5)
        assert 10 < answer.evaluations <= 22
        assert np.abs(answer.values - known.phi[0]).mean() < known.size
    direct = shapiq.KernelSHAP(n=5, random_state=5).approximate(
        22, CountedGame(known.game(0), budget=22, seed=5)
    )
    answer = open_estimator("theirs.py:KernelSHAP").answer(known, 0, 22, 5)
    np.testing.assert_array_equal(answer.values, direct.get_n_order_values(1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.py:nothing", r"method: there is no 'nothing' in .*mine\.py; it has"),
        ("other.py:sums", r"method: there is no file .*other\.py"),
        ("mine.py", r"expected path/to/file\.py:Name or module:Name, got 'mine\.py'"),
        ("mine.py:number", r"expected a Method, a function of a game, or the class .*, got 5"),
        (
            "mine.py:wants_more",
            "takes colour; expected the game and, by name, any of players, budget, seed",
        ),
    ],
)
def test_what_cannot_take_part_is_refused(place: Path, name: str, text: str) -> None:
    answer = benchmark("--method", place / name if ".py:" in name else name, "--tables", place)
    assert answer.exit_code == 2
    assert re.search(text, answer.output)


def test_no_attribute_of_a_game_gives_values_that_are_not_counted() -> None:
    known = games().game(0)
    game = CountedGame(known, budget=7, seed=0)
    everything = all_coalitions(PLAYERS)
    game(everything[:3])
    arrays = [value for value in vars(game).values() if isinstance(value, np.ndarray)]
    assert arrays == []
    np.testing.assert_array_equal(game._value(everything), known.value(everything))
    assert game.evaluations == 3 + len(everything)
    with pytest.raises(AttributeError):
        game.evaluations = 0  # type: ignore[misc]


# The contest


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    calls = []
    stop_at = 11

    def estimate(game: CountedGame) -> Any:
        calls.append(game.seed)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return np.full(PLAYERS, game(all_coalitions(PLAYERS)[:3])[1])

    contest = small_contest(of_function("mine", estimate))
    with pytest.raises(KeyboardInterrupt):
        run(contest, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "records").exists()
    resumed = run(contest, tmp_path / "stopped")
    # the match that was under way is measured again, from its start; 2 origins, 2 budgets
    assert len(calls) == stop_at + 2 * 2 * 8 - 8

    whole = run(contest, tmp_path / "whole")
    assert resumed.drop_columns(["seconds"]).equals(whole.drop_columns(["seconds"]))
    before = len(calls)
    assert run(contest, tmp_path / "whole").equals(whole)
    assert len(calls) == before
    assert read_records(tmp_path / "whole")[0].equals(whole)


# Standings


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A contest with one estimator that is good, one that is bad, and one that fails at N = 3."""

    def noisy(scale: float) -> Callable[[CountedGame], Any]:
        def estimate(game: CountedGame) -> Any:
            exact = known_shares(game)
            noise = np.random.default_rng(game.seed).normal(size=game.players)
            return exact + scale * noise

        return estimate

    def fails(game: CountedGame) -> Any:
        if game.budget > 12:
            raise RuntimeError("too many")
        return np.zeros(game.players)

    out = tmp_path_factory.mktemp("contest")
    estimators = [
        of_function("good", noisy(1e-3)),
        of_function("bad", noisy(2.0)),
        of_function("fails", fails),
    ]
    run(small_contest(*estimators), out, command="a command")
    return Results(*read_records(out))


def lines_of(results: Results, **equal: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = results.records.to_pylist()
    return [line for line in lines if all(line[name] == equal[name] for name in equal)]


def errors_of(results: Results, estimator: str, n: int) -> np.ndarray:
    """The relative errors (games, draws), one record after the other."""
    lines = lines_of(results, estimator=estimator, n=n)
    return np.array([line["error"] / line["size"] for line in lines]).reshape(-1, 2)


def slow_comparison(results: Results, name: str, other: str, n: int) -> Any:
    """The ratio of errors, origins being clusters, games rows and seeds rounds."""
    both = [errors_of(results, each, n) for each in (name, other)]
    first, second = (mean_over(errors.mean(axis=1).reshape(2, 4)) for errors in both)
    return ratio(first, second)


def test_standings_are_those_of_a_slow_count(results: Results) -> None:
    by_name = {standing.estimator: standing for standing in results.standings}
    assert results.baseline == "permutation-antithetic"
    for name, standing in by_name.items():
        ratios = []
        verdicts = []
        for cell in results.cells:
            if name not in cell.errors:
                continue
            mine = errors_of(results, name, cell.n)
            ratios.append(mine.mean() / errors_of(results, results.baseline, cell.n).mean())
            verdicts += [
                judged_ratio(slow_comparison(results, name, other, cell.n))
                for other in set(cell.errors) - {name}
            ]
        assert standing.score is not None
        assert standing.score.value == pytest.approx(np.prod(ratios) ** (1 / len(ratios)))
        assert standing.verdicts == {
            verdict: verdicts.count(verdict) for verdict in standing.verdicts
        }
        seconds = [line["seconds"] for line in lines_of(results, estimator=name, n=2)]
        assert standing.seconds == pytest.approx(np.median(seconds))
    good = by_name["good"]
    assert results.standings[0] == good
    assert good.verdicts["better"] == 9
    assert good.score is not None
    assert good.score.value < 0.1
    assert (by_name["fails"].answered, by_name["fails"].complete) == (1, False)
    assert results.standings[-1].estimator == "fails"


def test_errors_below_rounding_are_equal(tmp_path: Path) -> None:
    def estimate(off: float, game: CountedGame) -> Any:
        return known_shares(game) + off

    exact = [
        of_function(name, partial(estimate, off))
        for name, off in (("exact", 0.0), ("nearly", 1e-9))
    ]
    (cell,) = Results(run(Contest(exact, [games()], (2,), 2), tmp_path), {}).cells
    assert cell.compared("exact", "nearly")[1] == "equal"
    assert cell.estimates["exact"].mean == 1e-6


# Pages


@pytest.mark.browser
@pytest.mark.slow
def test_the_report_fits_a_screen_and_a_phone(tmp_path: Path) -> None:
    zeros = of_function("zeros", lambda game: np.zeros(game.players))
    contest = Contest([*our_methods(("kernel", "leverage")), zeros], [games()], (3,), 2)
    run(contest, tmp_path, command="shear benchmark --method mine.py:zeros")
    path = report(tmp_path)
    with chromium() as driver:
        for width in (1280, 390):
            visit(driver, path, width=width)
            assert console(driver) == []
            assert requests(driver) == [path.as_uri()]
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width


# The command


@pytest.mark.slow
def test_the_command_compares_estimators_of_all_sorts(place: Path) -> None:
    names = ["paired", "Plain", "sums", "by_name", "greedy", "broken", "leaves", "lost", "short"]
    methods = [part for name in names for part in ("--method", place / f"mine.py:{name}")]
    options = ["--tables", place / "tables", "--evaluations", "3,2", "--seeds", 2]
    against = ["--against", "kernel,kernel-paired,permutation"]
    answer = benchmark(*methods, *options, *against, "--out", place / "out")
    assert answer.exit_code == 0, answer.output

    results = Results(*read_records(place / "out"))
    failures = {
        name: {line["failure"] for line in lines_of(results, estimator=name, n=2)} for name in names
    }
    assert failures == {
        "paired": {""},
        "Plain": {""},
        "sums": {""},
        "by_name": {""},
        "greedy": {"spent 15 evaluations of 12"},
        "broken": {"ValueError: it does not work"},
        "leaves": {"SystemExit: 3"},
        "lost": {"2 of 5 values are not finite"},
        "short": {"expected 5 values, got an array (3,)"},
    }
    same = zip(
        lines_of(results, estimator="paired"),
        lines_of(results, estimator="kernel-paired"),
        strict=True,
    )
    assert all(mine["error"] == ours["error"] for mine, ours in same)
    spent = {line["evaluations"] for line in lines_of(results, estimator="sums", n=2)}
    assert spent == {12}
    assert "greedy answered no cell: spent 15 evaluations of 12" in answer.output
    assert "paired against 3 methods of ours:" in answer.output
    assert (place / "out" / "report.html").read_text().lstrip().startswith("<!DOCTYPE html>")
    assert (place / "out" / "leaderboard.md").read_text().startswith("# Leaderboard")


def test_an_estimator_that_has_changed_is_measured_again(place: Path) -> None:
    options = ["--tables", place / "tables", "--evaluations", 3, "--against", "kernel"]
    arguments = ["--method", place / "mine.py:sums", *options, "--out", place / "out"]
    errors = []
    for factor in (1, 1, 20):  # of another length: times of files are too coarse for bytecode
        (place / "helper.py").write_text(f"FACTOR = {factor}\n")
        assert benchmark(*arguments).exit_code == 0
        records = Results(*read_records(place / "out"))
        errors.append([line["error"] for line in lines_of(records, estimator="sums")])
    assert errors[0] == errors[1]
    assert max(errors[0]) < max(errors[2])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--games", "chess"], "expected some of rules, trees, networks, got 'chess'; for tables"),
        (["--evaluations", "8,no"], "--evaluations: expected positive whole numbers"),
        (["--evaluations", "0"], "--evaluations: expected positive whole numbers"),
        (["--against", "best"], "there is no method 'best' to compare with"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    answer = benchmark(*arguments, "--out", tmp_path)
    assert answer.exit_code == 2
    assert text in answer.output
