"""Games that try to break the engine: odd budgets, tolerances, numbers, rows and outputs.

Every check is of public behaviour, on small games whose answer is known.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from games import (
    Bools,
    Floats,
    Value,
    all_coalitions,
    exact_shares,
    network,
    random_table,
    smooth_table,
    table_game,
)
from laws import quiet
from shearshap import (
    METHODS,
    BudgetError,
    Explainer,
    Explanation,
    InputError,
    ModelError,
    explain_game,
)

STOPPING = sorted(name for name, method in METHODS.items() if method.stops)


class Counted:
    """A game that counts its evaluations."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.evaluations = 0

    def __call__(self, coalitions: Bools) -> Floats:
        self.evaluations += len(coalitions)
        return self.value(coalitions)


def explained(
    table: Floats, name: str, budget: int | None = None, tol: float | None = None
) -> Explanation:
    """A table explained by the method of a name; exact needs all coalitions."""
    players = len(table).bit_length() - 1
    enough = None if name == "exact" else budget
    with quiet():
        return explain_game(table_game(table), players=players, budget=enough, method=name, tol=tol)


def errors_of(answer: Explanation) -> Floats:
    """The standard errors; none of a method that has none."""
    return np.zeros(0) if answer.standard_errors is None else answer.standard_errors


# Budgets


def boundaries(name: str, players: int) -> list[int]:
    """Budgets around everything that a method may change its mind at."""
    every = 1 << players
    budgets = {1, 2, 3, 2 * players + 2, every - 1, every, every + 1, 4 * every}
    with pytest.raises(BudgetError, match="needs at least") as caught:
        explain_game(lambda z: z.sum(axis=1), players=players, budget=1, method=name)
    nearest = caught.value.nearest
    assert nearest is not None
    assert f"at least {nearest} evaluations" in str(caught.value)
    return sorted(budgets | {nearest - 1, nearest, nearest + 1})


@pytest.mark.parametrize("players", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", METHODS)
def test_a_budget_is_kept_or_refused_before_anything_is_evaluated(name: str, players: int) -> None:
    table = random_table(players, players)
    exact = exact_shares(table)
    refused = []
    answered = []
    for budget in boundaries(name, players):
        game = Counted(table_game(table))
        try:
            with quiet():
                answer = explain_game(game, players=players, budget=budget, method=name)
        except BudgetError:
            assert game.evaluations == 0
            refused.append(budget)
            continue
        answered.append(budget)
        assert answer.evaluations == game.evaluations <= budget
        assert np.isfinite(answer.values).all()
        assert answer.base_values[0] == table[0]
        assert answer.predictions[0] == table[-1]
        if "efficiency" in METHODS[name].promises:
            assert abs(answer.gap).max() < 1e-9
        if answer.standard_errors is not None and not answer.standard_errors.any():
            np.testing.assert_allclose(answer.values[0], exact, atol=1e-9)
    assert max(refused, default=0) < min(answered)


# Tolerances


@pytest.mark.parametrize("name", STOPPING)
def test_rows_stop_at_any_tolerance(name: str) -> None:
    table = smooth_table(7, 3)
    spent = []
    for tol in (1e-300, 1e-3, 0.05, 0.3, 1e300):
        answer = explained(table, name, 100, tol)
        assert answer.standard_errors is not None
        assert answer.converged is not None
        assert answer.converged[0] == (answer.standard_errors.max() <= tol)
        assert answer.evaluations <= (128 if name == "exact" else 100)
        spent.append(answer.evaluations)
    assert spent == sorted(spent, reverse=True)


@pytest.mark.parametrize("tol", [0, -1.0, float("nan"), float("inf"), "0.1", [0.1]])
def test_a_tolerance_must_be_a_positive_number(tol: Any) -> None:
    game = Counted(table_game(random_table(4)))
    with pytest.raises(InputError, match="tol: expected a positive number"):
        explain_game(game, players=4, tol=tol)
    assert game.evaluations == 0


# Odd numbers


@pytest.mark.parametrize("name", METHODS)
def test_values_and_errors_scale_with_the_game(name: str) -> None:
    table = random_table(6, 3)
    plain = explained(table, name, 50)
    for factor in (1e-300, 1e-9, -1.0, 1e9, 1e300):
        scaled = explained(factor * table, name, 50)
        np.testing.assert_allclose(scaled.values / factor, plain.values, rtol=1e-9, atol=1e-12)
        assert scaled.evaluations == plain.evaluations
        errors = errors_of(scaled) / abs(factor)
        np.testing.assert_allclose(errors, errors_of(plain), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_an_offset_costs_no_more_than_its_own_rounding(name: str) -> None:
    table = random_table(6, 4)
    plain = explained(table, name, 50)
    for offset in (-1e13, 1e6, 1e13):
        moved = explained(table + offset, name, 50)
        allowed = 100 * np.spacing(abs(offset))
        np.testing.assert_allclose(moved.values, plain.values, atol=allowed)
        np.testing.assert_allclose(errors_of(moved), errors_of(plain), atol=allowed)


@pytest.mark.parametrize("name", METHODS)
def test_the_smallest_numbers_there_are_do_no_harm(name: str) -> None:
    denormal = 5e-324 * np.arange(64, dtype=np.float64)
    answer = explained(denormal, name, 50)
    assert np.isfinite(answer.values).all()
    assert abs(answer.values).max() < 1e-320


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_game_must_be_finite(name: str, odd: float) -> None:
    for place in (0, -1):
        table = random_table(6, 5)
        table[place] = odd
        with pytest.raises(ModelError, match=re.escape(f"the game returned {odd}")):
            explained(table, name, 50)


@pytest.mark.parametrize("name", METHODS)
def test_sums_that_overflow_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="rescale the model's output"):
        explained(np.sign(random_table(6, 3)) * 1.7e308, name, 50)


# Scales of classifiers and networks, against formulas by hand


def log_odds(probability: Floats) -> Floats:
    return np.asarray(np.log(probability) - np.log1p(-probability))


def softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(scores: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-scores)))


SAMPLES = np.random.default_rng(4).normal(size=(80, 4))


def check_scale(explained_by: Explainer, wanted: Callable[[Floats], Floats]) -> None:
    """The values are those of the game that replaces inputs and computes the formula."""
    rows = SAMPLES[1:3]
    answer = explained_by(rows, budget=16)
    np.testing.assert_allclose(answer.predictions, np.squeeze(wanted(rows)), atol=1e-7)
    for row, values in zip(rows, answer.values, strict=True):
        table = wanted(np.where(all_coalitions(4), row, SAMPLES[0]))
        np.testing.assert_allclose(values, np.squeeze(exact_shares(table)), atol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "ending", "link"),
    [
        (1, None, sigmoid),
        (1, nn.Sigmoid(), sigmoid),
        (3, None, softmax),
        (3, nn.Softmax(dim=1), softmax),
        (3, nn.Softmax(dim=-1), softmax),
        (3, nn.LogSoftmax(dim=1), softmax),
        (3, nn.Sigmoid(), sigmoid),
    ],
)
def test_scales_of_networks_by_their_last_layer(
    outputs: int, ending: nn.Module | None, link: Callable[[Floats], Floats]
) -> None:
    scores = network(4, outputs)
    whole = scores if ending is None else nn.Sequential(*scores, ending)

    def of(module: nn.Module) -> Callable[[Floats], Floats]:
        return lambda rows: module(torch.from_numpy(rows)).detach().numpy()

    def probability(rows: Floats) -> Floats:
        return link(of(scores)(rows))

    def odds(rows: Floats) -> Floats:
        return log_odds(probability(rows))

    check_scale(Explainer(whole, SAMPLES[0]), of(whole))
    check_scale(Explainer(whole, SAMPLES[0], scale="probability"), probability)
    check_scale(Explainer(whole, SAMPLES[0], scale="log-odds"), odds)
    margins = Explainer(whole, SAMPLES[0], scale="margin")
    if isinstance(ending, nn.Sigmoid | nn.Softmax):
        with pytest.raises(InputError, match="scale='margin': the model returns probabilities"):
            margins(SAMPLES[1:3])
    else:
        check_scale(margins, of(whole))
