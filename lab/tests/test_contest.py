"""`shear benchmark`: estimators of the user's own against ours, from tables in files to the report."""

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from browser import chromium, console, requests, visit
from games import all_coalitions, exact_shares, random_table, smooth_table
from shearshap import Kernel
from shearshap.cli import app
from shearshap.errors import InputError, MethodError
from shearshap.methods import METHODS
from shearshap.report import render
from shearshap_lab.comparisons import compared
from shearshap_lab.contest import sources
from shearshap_lab.contest.contest import SCHEMA, Contest, read_records, run, seed_of
from shearshap_lab.contest.contest_page import Results, leaderboard, page, printed, report
from shearshap_lab.contest.entrants import (
    OUR_METHODS,
    Answer,
    Entrant,
    differentiates,
    measured,
    of_method,
    open_entrant,
    our_methods,
)
from shearshap_lab.contest.games import CountedGame, Games, read_tables, write_tables
from shearshap_lab.contest.rules import RULES
from shearshap_lab.contest.setting import code_digest, commit
from shearshap_lab.contest.sources import SOURCES, Origin, Request
from shearshap_lab.contest.standings import cells_of, standings
from shearshap_lab.data import Dataset, load
from shearshap_lab.networks import train
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


def small_contest(*entrants: Entrant, **options: Any) -> Contest:
    known = [games(), games("other", seed=10)]
    ours = our_methods(("leverage", "permutation-antithetic", "kernel"))
    return Contest([*ours, *entrants], known, **{"evaluations": (2, 3), "draws": 2, **options})


def of_function(name: str, function: Callable[[CountedGame], Any]) -> Entrant:
    return Entrant(name, measured(function), fingerprint=name)


def benchmark(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)])


def without_seconds(records: pa.Table) -> pa.Table:
    return records.drop_columns(["seconds"])


# Games


def test_games_are_tables_whose_bits_are_players() -> None:
    table = random_table(3, seed=2)
    game = CountedGame(table, budget=10, seed=4)
    np.testing.assert_array_equal(game(all_coalitions(3)), table)
    assert game([True, False, True]).tolist() == [table[0b101]]
    assert game(np.array([[0.0, 1.0, 1.0]])).tolist() == [table[0b110]]
    assert (game.players, game.budget, game.seed, game.evaluations) == (3, 10, 4, 10)
    with pytest.raises(ValueError, match=r"asked for coalitions \(1, 4\), and takes \(c, 3\)"):
        game(np.ones(4))


def test_exact_values_are_those_of_all_subsets() -> None:
    known = games()
    for number in range(len(known)):
        np.testing.assert_allclose(known.phi[number], exact_shares(known.values[number]))
    assert known.size == pytest.approx(np.abs(known.phi).mean())


def test_tables_make_the_way_to_a_file_and_back(tmp_path: Path) -> None:
    known = games("some games, 1")
    path = write_tables(known, tmp_path)
    assert path.name == "some-games-1.npz"
    with np.load(path) as file:
        assert {name: file[name].shape for name in file.files} == {
            "values": (4, 32),
            "phi": (4, 5),
            "players": (),
        }
    (back,) = read_tables(tmp_path)
    assert (back.name, back.kind, back.digest) == ("some-games-1", "tables", known.digest)
    np.testing.assert_array_equal(back.phi, known.phi)
    assert len(read_tables(tmp_path, rows=3)[0]) == 3


VALUES = smooth_table(3)[None]
PHI = exact_shares(VALUES[0])[None]


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"values": VALUES, "phi": PHI}, "arrays values, phi, players: .*players"),
        (
            {"values": VALUES, "phi": PHI, "players": 4},
            r"values \(games, 16\) and phi \(games, 4\) for 4 players, got \(1, 8\) and \(1, 3\)",
        ),
        ({"values": VALUES, "phi": PHI, "players": 40}, "wanted 1 to 22 players, got 40"),
        ({"values": VALUES[:0], "phi": PHI[:0], "players": 3}, r"got \(0, 8\) and \(0, 3\)"),
        ({"values": VALUES * np.nan, "phi": PHI, "players": 3}, "finite value for each coalition"),
        (
            {"values": VALUES, "phi": PHI[:, ::-1], "players": 3},
            "phi are not the Shapley values of the tables, they are off by up to",
        ),
    ],
)
def test_files_that_are_no_tables_are_refused(
    tmp_path: Path, arrays: dict[str, Any], text: str
) -> None:
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(InputError, match=text):
        read_tables(tmp_path)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no \.npz file in the folder"):
        read_tables(tmp_path)
    (tmp_path / "no.npz").write_text("no")
    with pytest.raises(InputError, match=r"no\.npz: wanted an \.npz file"):
        read_tables(tmp_path)


# Sources


def test_rules_vary_and_are_the_same_every_time(tmp_path: Path) -> None:
    first = list(SOURCES["rules"](Request(3, tmp_path)))
    again = list(SOURCES["rules"](Request(2, tmp_path)))
    assert [each.name for each in first] == list(RULES)
    for each, other in zip(first, again, strict=True):
        assert each.values.shape == (3, 4096)
        np.testing.assert_array_equal(each.values[:2], other.values)
        assert not np.array_equal(each.values[0], each.values[1])


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        ("weighted votes", lambda table: set(table.tolist()) == {0.0, 1.0}),
        ("gloves", lambda table: table[0] == 0 and table.max() <= 2 and (table % 1 == 0).all()),
        ("maximum", lambda table: table[0] == 0 and len(set(table.tolist())) == 6),
        ("unanimity sums", lambda table: table[0] == 0 and len(set(table.round(9).tolist())) > 16),
        ("logistic", lambda table: table.min() > 0 and table.max() < 1),
    ],
)
def test_rules_are_the_games_they_are_named_after(
    rule: str, check: Callable[[np.ndarray], bool]
) -> None:
    table = RULES[rule](all_coalitions(PLAYERS), np.random.default_rng(0))
    assert table.shape == (32,)
    assert check(table)


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "STEPS", 1)


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


def test_trees_are_tables_which_are_made_once(tmp_path: Path) -> None:
    made = []

    def make(dataset: Dataset, folder: Path) -> dict[str, Any]:
        made.append(folder)
        return sources._forest(
            replace(dataset, train=dataset.train[:300], test=dataset.test), folder
        )

    origin = Origin("census forest", "trees", "census", make)
    first = origin.games(Request(1, tmp_path))
    again = origin.games(Request(1, tmp_path))
    assert made == [tmp_path]
    np.testing.assert_array_equal(first.values, again.values)
    assert first.values.shape == (1, 8192)
    assert 0 <= first.values.min() <= first.values.max() <= 1
    assert first.model is None
    np.testing.assert_allclose(
        first.phi.sum(axis=1), first.values[:, -1] - first.values[:, 0], atol=1e-9
    )


def test_every_source_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match="games of trees need sklearn: pip install"):
        list(SOURCES["trees"](Request(1, tmp_path)))


# Entrants


def test_only_methods_that_select_by_cross_contribution_differentiate() -> None:
    assert [name for name in OUR_METHODS if differentiates(METHODS[name], 9)] == [
        "shear",
        "shear-unbiased",
    ]


@pytest.mark.parametrize("entrant", our_methods(), ids=lambda entrant: entrant.name)
def test_our_methods_keep_the_budget(entrant: Entrant) -> None:
    known = Games("wide", "tables", smooth_table(10)[None])
    answer = entrant.answer(known, 0, 16 * 10 + 2, 3)
    assert 0.5 * 162 < answer.evaluations <= 162
    assert answer.values.shape == (10,)
    assert answer.seconds > 0


def test_an_unknown_method_of_ours_is_refused() -> None:
    with pytest.raises(MethodError, match="there is no method 'exact' to compare with; there are:"):
        our_methods(("kriging", "exact"))


def test_a_method_is_asked_as_explain_game_asks_it() -> None:
    known = games()
    mine = of_method("mine", Kernel(paired=True), fingerprint="")
    (ours,) = our_methods(("kernel-paired",))
    np.testing.assert_array_equal(
        mine.answer(known, 1, 22, 7).values, ours.answer(known, 1, 22, 7).values
    )


def test_a_shapiq_approximator_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapiq = pytest.importorskip("shapiq")
    (tmp_path / "theirs.py").write_text(
        "from functools import partial\nfrom shapiq import KernelSHAP, PermutationSamplingSV\n"
        "paired = partial(KernelSHAP, pairing_trick=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    known = games()
    for name in ("KernelSHAP", "paired", "PermutationSamplingSV"):
        answer = open_entrant(f"theirs.py:{name}").answer(known, 0, 22, 5)
        assert 10 < answer.evaluations <= 22
        assert np.abs(answer.values - known.phi[0]).mean() < known.size
    direct = shapiq.KernelSHAP(n=5, random_state=5).approximate(
        22, CountedGame(known.values[0], budget=22, seed=5)
    )
    answer = open_entrant("theirs.py:KernelSHAP").answer(known, 0, 22, 5)
    np.testing.assert_array_equal(answer.values, direct.get_n_order_values(1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.py:nothing", r"method: there is no 'nothing' in .*mine\.py; it has"),
        ("other.py:sums", r"method: there is no file .*other\.py"),
        ("mine.py", r"wanted path/to/file\.py:Name or module:Name, got 'mine\.py'"),
        ("mine.py:number", r"wanted a Method, a function of a game, or the class .*, got 5"),
        (
            "mine.py:wants_more",
            "wants colour; it gets the game, and by name players, budget, seed",
        ),
    ],
)
def test_what_cannot_take_part_is_refused(place: Path, name: str, text: str) -> None:
    answer = benchmark("--method", place / name if ".py:" in name else name, "--folder", place)
    assert answer.exit_code == 2
    assert re.search(text, answer.output)


# The contest


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
    assert not (tmp_path / "stopped" / "records.parquet").exists()
    resumed = run(contest, tmp_path / "stopped")
    # the match that was under way is measured again, from its start; 2 origins, 2 budgets
    assert len(calls) == stop_at + 2 * 2 * 8 - 8

    whole = run(contest, tmp_path / "whole")
    assert without_seconds(resumed).equals(without_seconds(whole))
    before = len(calls)
    assert run(contest, tmp_path / "whole").equals(whole)
    assert len(calls) == before
    assert pq.read_table(tmp_path / "whole" / "records.parquet").equals(whole)


def test_records_have_a_line_for_each_entrant_game_budget_and_draw(tmp_path: Path) -> None:
    records = run(small_contest(), tmp_path, command="shear benchmark")
    assert records.schema == SCHEMA
    assert len(records) == 3 * 8 * 2 * 2
    known = games()
    line = records.to_pylist()[1]
    assert (line["games"], line["game"], line["draw"], line["n"]) == ("smooth", 0, 1, 2)
    (leverage,) = our_methods(("leverage",))
    answer = leverage.answer(known, 0, 12, seed_of(0, 1))
    assert line["error"] == pytest.approx(np.abs(answer.values - known.phi[0]).mean())
    assert (line["budget"], line["evaluations"], line["failure"]) == (12, 12, "")
    about = json.loads((tmp_path / "about.json").read_text())
    assert about["command"] == "shear benchmark"
    assert (about["code"], about["commit"]) == (code_digest(), commit())


def test_a_renamed_entrant_keeps_its_records_under_the_new_name(tmp_path: Path) -> None:
    mine = Entrant("mine", lambda *_: Answer(np.zeros(PLAYERS), 0, 0.0), fingerprint="f")
    run(small_contest(mine), tmp_path)
    records = run(small_contest(replace(mine, name="yours")), tmp_path)
    assert "yours" in records["entrant"].to_pylist()
    assert "mine" not in records["entrant"].to_pylist()


def test_two_of_one_name_are_refused() -> None:
    mine = of_function("kernel", lambda game: np.zeros(game.players))
    with pytest.raises(InputError, match="two estimators of the name 'kernel'"):
        small_contest(mine)
    with pytest.raises(InputError, match="two games of the name 'smooth'"):
        Contest([mine], [games(), games()])
    with pytest.raises(InputError, match="wants entrants, games, evaluations"):
        Contest([mine], [])


# Standings


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A contest with one estimator that is good, one that is bad, and one that fails at N = 3."""

    def noisy(scale: float) -> Callable[[CountedGame], Any]:
        def estimate(game: CountedGame) -> Any:
            exact = exact_shares(game._values)
            noise = np.random.default_rng(game.seed).normal(size=game.players)
            return exact + scale * noise

        return estimate

    def fails(game: CountedGame) -> Any:
        if game.budget > 12:
            raise RuntimeError("too many")
        return np.zeros(game.players)

    out = tmp_path_factory.mktemp("contest")
    entrants = [
        of_function("good", noisy(1e-3)),
        of_function("bad", noisy(2.0)),
        of_function("fails", fails),
    ]
    run(small_contest(*entrants), out, command="a command")
    return Results(*read_records(out))


def lines_of(results: Results, **equal: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = results.records.to_pylist()
    return [line for line in lines if all(line[name] == equal[name] for name in equal)]


def errors_of(results: Results, entrant: str, n: int) -> np.ndarray:
    """The relative errors (games, draws), one record after the other."""
    lines = lines_of(results, entrant=entrant, n=n)
    return np.array([line["error"] / line["size"] for line in lines]).reshape(-1, 2)


def test_cells_hold_the_relative_errors(results: Results) -> None:
    cells = cells_of(results.records)
    assert [(cell.kind, cell.n) for cell in cells] == [("tables", 2), ("tables", 3)]
    for cell in cells:
        for entrant in cell.errors:
            np.testing.assert_allclose(cell.errors[entrant], errors_of(results, entrant, cell.n))
        assert cell.origins == ("smooth",) * 4 + ("other",) * 4
    assert cells[0].failures == {}
    assert cells[1].failures == {"fails": "RuntimeError: too many (16 of 16 times)"}


def test_comparisons_in_a_cell_are_those_of_the_errors(results: Results) -> None:
    for cell in results.cells:
        for entrant in cell.errors:
            for other in cell.errors:
                wanted = compared(
                    cell.errors[entrant],
                    cell.errors[other],
                    clusters=cell.origins,
                    seed=cell.seed,
                )
                found = cell.compared(entrant, other)
                assert found.ratio == pytest.approx(wanted.ratio)
                assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
                assert found.verdict == wanted.verdict


def test_standings_are_those_of_a_slow_count(results: Results) -> None:
    by_name = {standing.entrant: standing for standing in results.standings}
    assert results.yardstick == "permutation-antithetic"
    for name, standing in by_name.items():
        ratios = []
        verdicts = []
        for cell in results.cells:
            if name not in cell.errors:
                continue
            mine = errors_of(results, name, cell.n)
            ratios.append(mine.mean() / errors_of(results, results.yardstick, cell.n).mean())
            for other in set(cell.errors) - {name}:
                theirs = errors_of(results, other, cell.n)
                comparison = compared(mine, theirs, clusters=cell.origins, seed=cell.seed)
                verdicts.append(comparison.verdict)
        assert standing.score is not None
        assert standing.score.ratio == pytest.approx(np.prod(ratios) ** (1 / len(ratios)))
        counts = tuple(verdicts.count(verdict) for verdict in ("win", "tie", "loss"))
        assert (standing.wins, standing.ties, standing.losses) == counts
        seconds = [line["seconds"] for line in lines_of(results, entrant=name, n=2)]
        assert standing.seconds == pytest.approx(np.median(seconds))
    good = by_name["good"]
    assert results.standings[0] == good
    assert (good.wins, good.ties, good.losses) == (9, 0, 0)
    assert good.score is not None
    assert good.score.high < 0.1
    assert by_name["bad"].losses == 9
    assert (by_name["fails"].answered, by_name["fails"].complete) == (1, False)
    assert results.standings[-1].entrant == "fails"


def test_without_the_usual_yardstick_another_takes_its_place(tmp_path: Path) -> None:
    zeros = of_function("zeros", lambda game: np.zeros(game.players))
    contest = Contest([zeros, *our_methods(("kernel",))], [games()], (2,), 2)
    records = run(contest, tmp_path)
    found = standings(records, cells_of(records))
    (kernel,) = (standing for standing in found if standing.entrant == "kernel")
    assert kernel.score is not None
    assert kernel.score.ratio == 1


def test_errors_below_rounding_tie(tmp_path: Path) -> None:
    def estimate(off: float, game: CountedGame) -> Any:
        return exact_shares(game._values) + off

    exact = [
        of_function(name, partial(estimate, off))
        for name, off in (("exact", 0.0), ("nearly", 1e-9))
    ]
    (cell,) = cells_of(run(Contest(exact, [games()], (2,), 2), tmp_path))
    assert cell.compared("exact", "nearly").verdict == "tie"
    assert cell.mean("exact") == 1e-6


# Pages


def test_the_leaderboard_says_what_the_records_give(results: Results) -> None:
    text = leaderboard(results)
    board = text.split("\n## ")[1].splitlines()
    for place, standing in enumerate(results.standings, start=1):
        assert standing.score is not None
        name = standing.entrant if standing.ours else f"**{standing.entrant}**"
        (line,) = (line for line in board if line.startswith(f"| {name} |"))
        _, _, found, error, *counts = (cell.strip() for cell in line.split("|"))
        assert found == (str(place) if standing.complete else "-")
        assert float(error.split()[0]) == pytest.approx(standing.score.ratio, rel=0.05)
        assert counts[:4] == [
            str(standing.wins),
            str(standing.ties),
            str(standing.losses),
            f"{standing.answered} of 2",
        ]
    row = next(line for line in text.splitlines() if line.startswith("| leverage | 0."))
    first = errors_of(results, "leverage", 2).mean()
    second = errors_of(results, "leverage", 3).mean()
    assert row == f"| leverage | {first:.4f} | {second:.4f} |"
    assert "| fails | tables | 3 | RuntimeError: too many (16 of 16 times) |" in text
    assert "Made by `a command` at commit" in text
    assert "| smooth | tables | 5 | 4 |" in text


def test_the_report_counts_wins_ties_and_losses_against_ours(results: Results) -> None:
    html = render(page(results))
    text = re.sub(r"<[^>]+>", "", html)
    assert "good against 3 methods of ours: 6 wins, 0 ties, 0 losses. Its error is" in text
    assert "It failed in 1 of 2 cells: RuntimeError: too many (16 of 16 times)." in text
    cell = results.cells[0]
    duel = cell.compared("bad", "kernel")
    assert f"{duel.ratio:.2f} ({duel.low:.2f} to {duel.high:.2f}) loss" in text or (
        f"{duel.ratio:.0f} ({duel.low:.0f} to {duel.high:.0f}) loss" in text
    )
    assert "fails failed" in text


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_fits_a_screen_and_a_phone(tmp_path: Path, width: int) -> None:
    zeros = of_function("zeros", lambda game: np.zeros(game.players))
    contest = Contest([*our_methods(), zeros], [games()], (3,), 2)
    run(contest, tmp_path, command="shear benchmark --method mine.py:zeros")
    path = report(tmp_path)
    with chromium() as driver:
        visit(driver, path, width=width)
        assert console(driver) == []
        assert requests(driver) == [path.as_uri()]
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        table = "document.querySelector('#leaderboard table')"
        bottom = driver.execute_script(f"return {table}.getBoundingClientRect().bottom")
        assert width == 390 or bottom < 850


def test_an_estimator_without_any_answer_has_a_line_of_its_own(tmp_path: Path) -> None:
    def broken(_game: CountedGame) -> Any:
        raise ValueError("no")

    run(small_contest(of_function("broken", broken)), tmp_path)
    path = report(tmp_path)
    assert "answered no cell: ValueError: no (16 of 16 times)." in path.read_text()
    assert "broken answered no cell: ValueError: no" in printed(tmp_path)
    assert (
        "| **broken** | - | - | 0 | 0 | 0 | 0 of 2 | - |"
        in (tmp_path / "leaderboard.md").read_text()
    )


# The command


def test_the_command_compares_estimators_of_all_sorts(place: Path) -> None:
    names = ["paired", "Plain", "sums", "by_name", "greedy", "broken", "leaves", "lost", "short"]
    methods = [part for name in names for part in ("--method", place / f"mine.py:{name}")]
    options = ["--folder", place / "tables", "--evaluations", "3,2", "--seeds", 2]
    against = ["--against", "kernel,kernel-paired,permutation"]
    answer = benchmark(*methods, *options, *against, "--out", place / "out")
    assert answer.exit_code == 0, answer.output

    records, about = read_records(place / "out")
    results = Results(records, about)
    failures = {
        name: {line["failure"] for line in lines_of(results, entrant=name, n=2)} for name in names
    }
    assert failures == {
        "paired": {""},
        "Plain": {""},
        "sums": {""},
        "by_name": {""},
        "greedy": {"spent 15 evaluations of 12"},
        "broken": {"ValueError: it does not work"},
        "leaves": {"SystemExit: 3"},
        "lost": {"ValueError: 2 of 5 values are not finite"},
        "short": {"ValueError: wanted 5 values, got an array (3,)"},
    }
    same = zip(
        lines_of(results, entrant="paired"),
        lines_of(results, entrant="kernel-paired"),
        strict=True,
    )
    assert all(mine["error"] == ours["error"] for mine, ours in same)
    spent = {line["evaluations"] for line in lines_of(results, entrant="sums", n=2)}
    assert spent == {12}
    assert "greedy answered no cell: spent 15 evaluations of 12" in answer.output
    assert "paired against 3 methods of ours:" in answer.output
    assert (place / "out" / "report.html").read_text().lstrip().startswith("<!DOCTYPE html>")
    assert (place / "out" / "leaderboard.md").read_text().startswith("# Leaderboard")


def test_an_estimator_that_has_changed_is_measured_again(place: Path) -> None:
    options = ["--folder", place / "tables", "--evaluations", 3, "--against", "kernel"]
    arguments = ["--method", place / "mine.py:sums", *options, "--out", place / "out"]
    errors = []
    for factor in (1, 1, 2):
        (place / "helper.py").write_text(f"FACTOR = {factor}\n")
        assert benchmark(*arguments).exit_code == 0
        records = Results(*read_records(place / "out"))
        errors.append([line["error"] for line in lines_of(records, entrant="sums")])
    assert errors[0] == errors[1]
    assert max(errors[0]) < max(errors[2])


def test_a_name_that_is_taken_becomes_the_whole_place(place: Path) -> None:
    (place / "more.py").write_text("def kernel(game):\n    return [0.0] * game.players\n")
    method = f"{place / 'more.py'}:kernel"
    options = ["--folder", place / "tables", "--evaluations", 3, "--against", "kernel"]
    answer = benchmark("--method", method, *options, "--out", place / "out")
    assert answer.exit_code == 0, answer.output
    assert f"{method} against 1 method of ours" in answer.output


def test_games_are_exported_as_tables(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    answer = benchmark("--games", "rules", "--rows", 2, "--export", folder, "--out", tmp_path)
    assert answer.exit_code == 0, answer.output
    assert f"written   {folder / 'weighted-votes.npz'}" in answer.output
    back = {each.name: each for each in read_tables(folder)}
    for each in SOURCES["rules"](Request(2, tmp_path)):
        other = back[each.name.replace(" ", "-")]
        np.testing.assert_array_equal(each.values, other.values)
    assert not (tmp_path / "records.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--games", "chess"], "wanted some of rules, trees, networks, got 'chess'; for tables"),
        (["--evaluations", "8,no"], "--evaluations: wanted positive whole numbers"),
        (["--evaluations", "0"], "--evaluations: wanted positive whole numbers"),
        (["--against", "best"], "there is no method 'best' to compare with"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    answer = benchmark(*arguments, "--out", tmp_path)
    assert answer.exit_code == 2
    assert text in answer.output
