"""Each metric against a slow transcription of the paper's formula; degenerate rows and error texts, pinned."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from games import Floats, network, predictor, table_game
from shearshap import InputError
from shearshap.games.batches import Batch
from shearshap.games.game import FunctionGame, Game
from shearshap.games.marginal import ModelGame
from shearshap_lab.metrics import (
    absolute_error,
    faithfulness,
    monotonicity,
    ranking_accuracy,
    removal_effects,
)

some = settings(max_examples=60)
SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=6)
TIED = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0])
WIDE = TIED | st.floats(-1e6, 1e6)
GROUPS = np.array([0, 1, 1, 2, 3, 3, 3])


def two_tables(elements: st.SearchStrategy[float]) -> st.SearchStrategy[tuple[Floats, Floats]]:
    return SHAPES.flatmap(
        lambda shape: st.tuples(
            arrays(float, shape, elements=elements), arrays(float, shape, elements=elements)
        )
    )


def network_game(rows: int = 3, background: int = 2, output: int | None = 1) -> ModelGame:
    rng = np.random.default_rng(0)
    predict = predictor(network(7).eval(), output)
    inputs, reference = (
        torch.tensor(rng.normal(size=(rows, 7))),
        torch.tensor(rng.normal(size=(background, 7))),
    )
    return ModelGame(predict, inputs, reference, torch.tensor(GROUPS), (7,), 4, Batch(10))


def value_of(game: Game, row: int, members: set[int]) -> float:
    """One value of one row, asked for alone."""
    coalition = torch.tensor([[[player in members for player in range(game.players)]]])
    return float(game.take(slice(row, row + 1))(coalition)[0, 0, 0])


def slow_order(phi: Floats) -> list[int]:
    return sorted(range(len(phi)), key=lambda player: (-phi[player], player))


def slow_error(phi: Floats, truth: Floats) -> float:
    return sum(abs(float(truth[i]) - float(phi[i])) for i in range(len(truth)))


def slow_accuracy(phi: Floats, truth: Floats) -> float:
    estimated, true = slow_order(phi), slow_order(truth)
    alike = Fraction(1e-7) * max(abs(Fraction(float(one))) for one in truth)
    away = [
        abs(Fraction(float(truth[i])) - Fraction(float(truth[j])))
        for i, j in zip(estimated, true, strict=True)
    ]
    hits = sum(1 / m for m in range(1, len(truth) + 1) if away[m - 1] <= alike)
    return hits / sum(1 / m for m in range(1, len(truth) + 1))


def slow_monotonicity(phi: Floats, game: Game, row: int) -> float:
    players = range(len(phi))
    delta = []
    for i in slow_order(phi):
        before = {j for j in players if j != i and phi[j] >= phi[i]}
        delta.append(value_of(game, row, before | {i}) - value_of(game, row, before))
    return sum(delta[m] >= delta[m + 1] for m in range(len(delta) - 1)) / (len(delta) - 1)


# Against the truth


@some
@given(two_tables(WIDE))
def test_absolute_error_is_the_sum_over_players(tables: tuple[Floats, Floats]) -> None:
    phi, truth = tables
    slow = [slow_error(*rows) for rows in zip(phi, truth, strict=True)]
    np.testing.assert_allclose(absolute_error(phi, truth), slow, rtol=1e-12)


@some
@given(two_tables(TIED) | two_tables(WIDE))
def test_ranking_accuracy_weighs_the_top_ranks_most(tables: tuple[Floats, Floats]) -> None:
    phi, truth = tables
    slow = [slow_accuracy(*rows) for rows in zip(phi, truth, strict=True)]
    np.testing.assert_allclose(ranking_accuracy(phi, truth), slow, rtol=1e-12)


def test_players_of_equal_true_values_may_stand_in_any_order() -> None:
    """Three players that never matter: an estimate's noise about zero says nothing about its ranking."""
    truth = [[2.0, 0.0, 1e-12, 0.0, -1.0]]
    assert ranking_accuracy([[2.1, -1e-9, 1e-9, 3e-3, -1.2]], truth).tolist() == [1.0]
    assert ranking_accuracy([[1.0, 2.0]], [[5.0, 5.0]]).tolist() == [1.0]
    assert ranking_accuracy([[2.0, 0.1, -0.1, 0.0, 0.2]], truth).tolist() != [1.0]


# Against the model


@pytest.mark.parametrize("rows", [1, 3])
def test_removal_effects_of_a_network(rows: int) -> None:
    game = network_game(rows)
    everyone = set(range(4))
    slow = [
        [value_of(game, r, everyone) - value_of(game, r, everyone - {i}) for i in range(4)]
        for r in range(rows)
    ]
    effects = removal_effects(game)
    np.testing.assert_allclose(effects, slow, atol=1e-12)
    assert effects.dtype == np.float64
    assert game.usage.evaluations == 5 * game.cost


@some
@given(two_tables(TIED))
def test_faithfulness_is_pearsons_correlation(tables: tuple[Floats, Floats]) -> None:
    phi, effects = tables
    slow = [
        np.corrcoef(x, y)[0, 1] if np.ptp(x) and np.ptp(y) else 0.0
        for x, y in zip(effects, phi, strict=True)
    ]
    np.testing.assert_allclose(faithfulness(phi, effects), slow, atol=1e-7)
    np.testing.assert_allclose(faithfulness(1e-6 * phi, 1e9 * effects), slow, atol=1e-7)


@pytest.mark.parametrize("flat", [[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [0.3, 0.1 + 0.2, 0.3]])
def test_what_is_constant_correlates_with_nothing(flat: list[float]) -> None:
    assert faithfulness([flat], [[1.0, 2.0, 5.0]]).tolist() == [0.0]
    assert faithfulness([[1.0, 2.0, 5.0]], [flat]).tolist() == [0.0]
    assert faithfulness([flat], [flat]).tolist() == [0.0]


def test_a_single_player_has_no_correlation_and_is_in_order() -> None:
    game = FunctionGame(lambda z: z[:, 0] * 2.0, 1)
    assert faithfulness([[2.0]], removal_effects(game)).tolist() == [0.0]
    assert monotonicity([[2.0]], game).tolist() == [1.0]


@some
@given(players=st.integers(2, 5), data=st.data(), seed=st.integers(0, 10**6))
def test_monotonicity_of_any_game(players: int, data: st.DataObject, seed: int) -> None:
    """Values are small integers, so that differences tie too."""
    game = FunctionGame(
        table_game(np.random.default_rng(seed).integers(0, 3, size=1 << players).astype(float)),
        players,
    )
    phi = data.draw(arrays(float, (1, players), elements=TIED))
    assert monotonicity(phi, game).tolist() == [slow_monotonicity(phi[0], game, 0)]


@pytest.mark.parametrize("decimals", [0, 6])
def test_monotonicity_of_a_network(decimals: int) -> None:
    """Rows have values, ties and orders of their own."""
    game = network_game(rows=8)
    phi = np.random.default_rng(1).normal(size=(8, 4)).round(decimals)
    slow = [slow_monotonicity(phi[r], game, r) for r in range(8)]
    assert monotonicity(phi, game).tolist() == slow
    assert len(set(slow)) > 1
    assert game.usage.evaluations == 8 * game.cost


# What is refused

TWO = np.ones((2, 3))
WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (absolute_error, (np.ones((2, 3, 4)), TWO), "values: expected shape (r, p), got (2, 3, 4)"),
    (ranking_accuracy, (TWO, np.ones(3)), "truth: expected shape (r, p), got (3,)"),
    (ranking_accuracy, (TWO, np.ones((4, 3))), "truth: expected the shape of values, (2, 3)"),
    (faithfulness, ([[3.0, math.inf]], [[3.0, 4.0]]), "values: expected finite numbers, got inf"),
    (
        monotonicity,
        (TWO, FunctionGame(lambda z: z[:, 0], 3)),
        "game: expected 2 rows and 3 players, like values",
    ),
    (removal_effects, (network_game(output=None),), "game: expected one output, got 2"),
]


@pytest.mark.parametrize(("metric", "arguments", "text"), WRONG)
def test_errors_say_what_was_wanted(metric: Any, arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(text)}"):
        metric(*arguments)
