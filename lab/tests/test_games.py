"""Games: closed forms against all subsets, models against their own predictions, tables in files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interactions
import intervals
import simple
from games import all_coalitions, exact_shares, random_table, smooth_table
from shearshap import Explanation, explain_game
from shearshap.errors import InputError
from shearshap_lab.games import models, rules, study
from shearshap_lab.games.models import KINDS, MODELS, has, make, make_rows
from shearshap_lab.games.rules import RULES
from shearshap_lab.games.tables import CountedGame, Floats, Game, Games, read_tables, write_tables


def by_subsets(game: Game) -> Floats:
    """The Shapley values by the definition, over all subsets."""
    return exact_shares(game.value(all_coalitions(game.players)))


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("players", [5, 8])
@pytest.mark.parametrize("number", range(2))
def test_values_of_rules_are_those_of_all_subsets(kind: str, players: int, number: int) -> None:
    game = make(kind, players, number)
    np.testing.assert_allclose(game.phi, by_subsets(game), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_values_of_models_are_those_of_all_subsets(kind: str) -> None:
    rows = make_rows(kind, 9, 1)
    for row in range(3):
        game = rows.game(row)
        np.testing.assert_allclose(game.phi, by_subsets(game), atol=1e-9)


def test_wide_networks_are_solved_by_sines() -> None:
    """As wide networks are, with all inputs but nine at the background."""
    rng = np.random.default_rng(0)
    _, inputs, net = models.network(30, 0, rng)
    background = inputs.mean(axis=0)
    row = background.copy()
    row[:9] = inputs[5, :9]

    def value(coalitions: np.ndarray) -> Floats:
        absent = np.zeros((len(coalitions), 21), dtype=bool)
        present = np.concatenate([coalitions, absent], axis=1)
        return models.logit(net, np.where(present, row, background))

    phi = models.values_of_logit(net, row, background)
    np.testing.assert_allclose(phi[:9], exact_shares(value(all_coalitions(9))), atol=1e-8)
    np.testing.assert_allclose(phi[9:], 0, atol=1e-12)


@pytest.mark.parametrize("players", [12, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_games_vary_and_are_the_same_every_time(kind: str, players: int) -> None:
    if not has(kind, players):
        return
    game = make(kind, players, 0)
    assert game.range > 0
    np.testing.assert_array_equal(game.phi, make(kind, players, 0).phi)
    coalitions = np.random.default_rng(0).random((500, players)) < 0.5
    assert not np.array_equal(game.value(coalitions), make(kind, players, 3).value(coalitions))


@pytest.mark.parametrize("players", [12, 30, 60, 100])
@pytest.mark.parametrize("kind", RULES)
def test_values_add_up(kind: str, players: int) -> None:
    game = make(kind, players, 1)
    ends = np.repeat([[False], [True]], players, axis=1)
    none, every = game.value(ends)
    assert game.phi.sum() == pytest.approx(every - none, abs=1e-9)


def test_a_hundred_weights_squared() -> None:
    """A dynamic program that loses its digits shows here: phi_i = w_i (sum of all weights)."""
    weights = np.random.default_rng(0).integers(1, 20, size=100)
    outcomes = np.arange(weights.sum() + 1.0) ** 2
    expected = weights * weights.sum()
    phi = rules.of_weighted_sum(weights, outcomes)
    np.testing.assert_allclose(phi, expected, rtol=1e-11)


@given(st.integers(1, 7), st.integers(0, 2**20))
@settings(max_examples=30)
def test_any_outcome_of_a_weighted_sum(players: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 20, size=players)
    outcomes = rng.normal(size=weights.sum() + 1)
    table = outcomes[all_coalitions(players) @ weights]
    phi = rules.of_weighted_sum(weights, outcomes)
    np.testing.assert_allclose(phi, exact_shares(table), atol=1e-12)


@given(st.integers(1, 7), st.integers(0, 2**20))
@settings(max_examples=30)
def test_any_boxes(players: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 3, size=(5, players))
    value, phi = rules.boxes(state == 1, state == 2, rng.normal(size=5))
    np.testing.assert_allclose(phi, exact_shares(value(all_coalitions(players))), atol=1e-12)


@given(st.integers(1, 7), st.integers(0, 2**20))
@settings(max_examples=30)
def test_any_product_also_of_zeros_and_complex_factors(players: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.choice([0, -1, 0.5, 2, 1j], size=players)
    table = np.where(all_coalitions(players), factors, 1).prod(axis=1)
    phi = rules.of_products(factors)
    np.testing.assert_allclose(phi.real, exact_shares(table.real), atol=1e-12)
    np.testing.assert_allclose(phi.imag, exact_shares(table.imag), atol=1e-12)


# Tables


def games(name: str = "smooth") -> Games:
    return Games(name, "tables", np.stack([smooth_table(5, number) for number in range(4)]))


def test_games_are_tables_whose_bits_are_players() -> None:
    table = random_table(3, seed=2)
    game = CountedGame(Games("t", "tables", table[None]).game(0), budget=10, seed=4)
    np.testing.assert_array_equal(game(all_coalitions(3)), table)
    assert game([True, False, True]).tolist() == [table[0b101]]
    assert game(np.array([[0.0, 1.0, 1.0]])).tolist() == [table[0b110]]
    assert (game.players, game.budget, game.seed, game.evaluations) == (3, 10, 4, 10)
    with pytest.raises(ValueError, match=r"expected coalitions \(c, 3\), got \(1, 4\)"):
        game(np.ones(4))


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
        ({"values": VALUES, "phi": PHI, "players": 40}, "expected 1 to 22 players, got 40"),
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


# What is measured on them


def additive_subject() -> study.Subject:
    phi = np.array([[1.0, 2.0, 3.0, 0.0]])
    return study.Subject("additive", phi, np.array([6.0]), explain_game)


def answer(values: list[float], errors: list[float], *, converged: bool) -> Explanation:
    return Explanation(
        np.array([values]),
        np.zeros(1),
        np.ones(1),
        np.array([errors]),
        evaluations=10,
        derivative_passes=0,
        method="leverage",
        seed=0,
        converged=np.array([converged]),
    )


def test_values_without_an_interval_count_apart() -> None:
    """Held: the first, within one error, and the second, right up to rounding. Missed: the third."""
    given_answer = answer([1.1, 2 + 1e-12, 4.0, 0.5], [0.1, 0.0, 0.1, np.inf], converged=False)
    counts = study.record(given_answer, additive_subject(), None)
    assert (counts["values"], counts["known"], counts["held"]) == (4, 3, 2)
    assert counts["widths"][0] == pytest.approx(2 * 1.959964 * 0.1 / 1.5)
    assert counts["error"] == pytest.approx((0.1 + 1.0 + 0.5) / 4 / 6)
    assert counts["standard errors"] / counts["errors"] == pytest.approx(0.2 / 1.1)
    assert study.record(None, additive_subject(), None)["known"] == 0


@pytest.mark.parametrize(("converged", "wrong"), [(True, 1), (False, 0)])
def test_a_row_is_wrong_if_it_converged_and_is_far_off(converged: bool, wrong: int) -> None:
    given_answer = answer([1.0, 2.0, 3.3, 0.0], [0.1] * 4, converged=converged)
    counts = study.record(given_answer, additive_subject(), 0.1)
    spent = given_answer.evaluations
    assert counts == {"rows": 1, "converged": int(converged), "wrong": wrong, "spent": spent}
    assert study.record(given_answer, additive_subject(), 0.2)["wrong"] == 0


def test_rows_of_a_model_are_measured_alone_and_together() -> None:
    alone, together = study.subjects(study.Task("networks by logit", 6, 0))
    for subject, values in ((alone, 6), (together, 60)):
        # 32 evaluations a player are all coalitions of six, so the values are exact
        found = study.measured(subject, "leverage", 32 * 6 + 2)
        assert (found["values"], found["held"]) == (values, values)
        assert found["error"] < 1e-9
    assert (alone.kind, together.kind) == ("networks by logit", "networks by logit, together")
    assert study.measured(alone, "permutation-antithetic", 5)["error"] is np.nan


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (simple, "| maximum | 0."),
        (intervals, "| leverage | 0 | 4 |"),
        (interactions, "| wine relu"),
    ],
)
@pytest.mark.slow
def test_a_benchmark_prints_its_table(
    module: Any, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--quick"]
    if module is not interactions:
        words += ["--kinds", "maximum", "--players", "6", "--games", "2"]
    if module is intervals:  # without a process: that of `simple` is enough
        words += ["--methods", "leverage", "--no-conditional"]
        monkeypatch.setattr("setting.in_processes", lambda f, work, *_, **__: [*map(f, work)])
    monkeypatch.setattr("sys.argv", ["benchmark", *words])
    module.main()
    assert line in capsys.readouterr().out
