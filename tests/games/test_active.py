"""Null players, whose inputs are the background's, take no part: in any method, at any budget."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from games import Floats
from shearshap import Explanation, explain, model_game
from shearshap.errors import MethodError, ModelError
from shearshap.games.marginal import ModelGame
from shearshap.methods import METHODS, Auto, Kriging
from shearshap.methods.kriging import Calibration

PLAYERS = 9
SAMPLED = [name for name in METHODS if name != "exact"]


def wavy(x: Floats) -> Floats:
    """Return a smooth function in which every input matters, and pairs and triples act together."""
    return np.asarray(
        np.sin(x).sum(axis=1) + x[:, 0] * x[:, 1] * x[:, 2] + np.cos(x[:, 3] * x[:, 5]) * x[:, 4]
    )


def sparse_rows(count: int, seed: int = 0, null: float = 0.4) -> Floats:
    """Return rows (n, 9) of which some inputs are 0, the background's."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, PLAYERS))
    rows[rng.random(rows.shape) < null] = 0
    return rows


def explained(rows: Floats, budget: int = 90, **options: Any) -> Explanation:
    return explain(wavy, rows, background=np.zeros(PLAYERS), budget=budget, **options)


def exact_values(rows: Floats) -> Floats:
    return explained(rows, 512, method="exact", drop_null=False).values


# Explanations


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_null_players_have_no_value_and_values_are_nearer_to_the_truth(method: str) -> None:
    rows = sparse_rows(40)
    budget = 512 if method == "exact" else 100
    truth = exact_values(rows)
    errors = []
    kept_errors = []
    for seed in range(3):
        answer = explained(rows, budget, method=method, seed=seed)
        kept = explained(rows, budget, method=method, seed=seed, drop_null=False)
        assert (answer.values[rows == 0] == 0).all()
        errors.append(abs(answer.values - truth).mean())
        kept_errors.append(abs(kept.values - truth).mean())
    assert np.mean(errors) < max(0.7 * np.mean(kept_errors), 1e-12)


@pytest.mark.parametrize("method", SAMPLED)
def test_few_active_players_are_exact_and_cost_less(method: str) -> None:
    rows = sparse_rows(30, null=0.8)
    active = (rows != 0).sum(axis=1)
    few = active <= 3
    answer = explained(rows, 100, method=method)
    np.testing.assert_allclose(answer.values[few], exact_values(rows[few]), atol=1e-9)
    assert answer.row_evaluations is not None
    assert (answer.row_evaluations[active <= 1] == 2).all()
    assert (answer.row_evaluations <= 100).all()


@pytest.mark.parametrize("method", [name for name in SAMPLED if name not in ("kriging", "auto")])
def test_a_rows_answer_does_not_depend_on_its_neighbours(method: str) -> None:
    rows = sparse_rows(12, seed=1)
    whole = explained(rows, method=method)
    alone = np.concatenate([explained(rows[[n]], method=method).values for n in range(12)])
    np.testing.assert_allclose(alone, whole.values, atol=1e-12)
    turned = explained(rows[::-1], method=method).values[::-1]
    np.testing.assert_allclose(turned, whole.values, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kriging", "auto"])
@pytest.mark.parametrize("tol", [None, 0.02])
def test_with_its_calibration_neither_does_krigings(method: str, tol: float | None) -> None:
    rows = sparse_rows(20, seed=1, null=0.1)
    rows[3:] += 0.01 * (rows[3:] == 0)  # most rows have no null player
    whole = explained(rows, method=method, tol=tol)
    assert whole.calibration.others
    fixed = {"kriging": Kriging, "auto": Auto}[method](calibration=whole.calibration)
    alone = np.concatenate([explained(rows[[n]], method=fixed, tol=tol).values for n in range(20)])
    np.testing.assert_allclose(alone, whole.values, atol=1e-9)


@pytest.mark.slow
def test_rows_without_null_players_are_as_if_alone() -> None:
    """Rows of another number of active players are calibrated apart."""
    full = np.random.default_rng(2).normal(size=(15, PLAYERS))
    rows = np.concatenate((full, sparse_rows(15)))
    alone = explained(full, method="kriging")
    np.testing.assert_allclose(explained(rows, method="kriging").values[:15], alone.values)
    np.testing.assert_array_equal(
        explained(full, method="kriging", drop_null=False).values, alone.values
    )


@pytest.mark.parametrize("method", ["kriging", "leverage", "permutation-antithetic"])
def test_null_players_are_known_for_certain(method: str) -> None:
    rows = sparse_rows(10)
    answer = explained(rows, method=method)
    assert answer.standard_errors is not None
    assert (answer.standard_errors[rows == 0] == 0).all()
    lower, upper = answer.interval()
    inside = (lower - 1e-9 <= exact_values(rows)) & (exact_values(rows) <= upper + 1e-9)
    assert inside.mean() > 0.9


def test_a_method_without_standard_errors_has_none_for_null_players_either() -> None:
    rows = sparse_rows(10, null=0.2)
    rows = rows[(rows != 0).sum(axis=1) > 6]
    assert explained(rows, method="shear").standard_errors is None


def test_groups_are_null_where_all_their_inputs_are() -> None:
    rows = np.array([[0.0, 0.0, 1.0, 0.0, 2.0, 0, 0, 0, 0], [0.0, 3.0, 0.0, 0, 0, 0, 0, 0, 1.0]])
    groups = [[0, 1], [2, 3], [4], [5, 6, 7, 8]]
    answer = explained(rows, 16, groups=groups)
    every = explained(rows, 16, groups=groups, method="exact", drop_null=False)
    np.testing.assert_allclose(answer.values, every.values, atol=1e-12)
    assert answer.evaluations == 4
    assert every.evaluations == 16


def test_a_player_is_null_only_if_it_equals_every_background_row() -> None:
    background = np.zeros((3, PLAYERS))
    background[1, 4] = 1.0
    rows = np.zeros((2, PLAYERS))
    rows[:, 0] = 1.0
    rows[1, 4] = 1.0
    answer = explain(wavy, rows, background=background, budget=3 * 100)
    every = explain(wavy, rows, background=background, budget=3 * 512, drop_null=False)
    np.testing.assert_allclose(answer.values, every.values, atol=1e-12)
    assert answer.values[0, 4] != 0
    assert answer.evaluations <= 3 * 4


@pytest.mark.parametrize("method", ["kriging", "exact", "leverage"])
def test_interactions_of_null_players_are_zero(method: str) -> None:
    network = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 2))
    torch.manual_seed(0)
    rows = torch.randn(6, 5)
    rows[0, 1] = 0
    rows[1, 2:4] = 0
    rows[2] = 0
    rows[3, 1:] = 0
    budget = 32
    answer = explain(network, rows, background=0.0, budget=budget, method=method, interactions=True)
    every = explain(
        network,
        rows,
        background=0.0,
        budget=budget,
        method="exact",
        interactions=True,
        drop_null=False,
    )
    assert answer.interactions is not None
    assert every.interactions is not None
    np.testing.assert_allclose(answer.interactions, every.interactions, atol=1e-6)
    assert answer.cross_contribution is not None
    assert every.cross_contribution is not None
    np.testing.assert_allclose(answer.cross_contribution, every.cross_contribution, atol=1e-6)


@pytest.mark.parametrize(
    "interaction", ["hessian", "gradient-differences", "second-differences", "block-maximum"]
)
def test_shear_selects_among_active_players(interaction: str) -> None:
    from shearshap.methods import Shear

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(7, 16), nn.Softplus(), nn.Linear(16, 1))
    rows = torch.randn(5, 7)
    rows[1, 3] = 0
    rows[2, 4:6] = 0
    method = Shear(interaction=interaction)  # type: ignore[arg-type]
    answer = explain(network, rows, background=0.0, budget=100, method=method)
    exact = explain(network, rows, background=0.0, budget=128, method="exact")
    assert (answer.values[rows.numpy() == 0] == 0).all()
    assert abs(answer.values - exact.values).max() < 0.1 * abs(exact.values).max()


def test_methods_chosen_for_fewer_players_are_named() -> None:
    rows = np.random.default_rng(0).normal(size=(3, PLAYERS))
    rows[1, 3:] = 0
    assert explained(rows, 60).method == "exact, kriging"


def test_an_error_leads_to_the_row_and_to_all_players() -> None:
    rows = sparse_rows(20, null=0.3)
    rows[7] = [1.0, 2, 2.0, 2, 0, 3.0, 2, 2, 4.0]

    def fails(x: Floats) -> Floats:
        if ((x[:, 5] == 3.0) & (x[:, 8] == 0)).any():
            raise ValueError("no")
        return wavy(x)

    with pytest.raises(ModelError) as told:
        explain(fails, rows, background=np.zeros(PLAYERS), budget=80, method="leverage")
    assert told.value.row == 7
    assert told.value.coalition is not None
    assert told.value.coalition.shape == (PLAYERS,)
    assert told.value.coalition[5]
    assert not told.value.coalition[[4, 8]].any()
    assert told.value.finished is not None
    assert 7 not in told.value.finished.index


def test_equal_cells_of_a_frame_are_null() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [5, 6], "d": [0.0, 1.0]})
    background = pd.DataFrame({"a": [1.0], "b": ["y"], "c": [6], "d": [0.5]})

    def model(x: Any) -> Floats:
        return np.asarray(x["a"] * (x["b"] == "x") + x["c"] * x["d"])

    answer = explain(model, frame, background=background, budget=16)
    assert (answer.values[0] != 0).tolist() == [False, True, True, True]
    assert (answer.values[1] != 0).tolist() == [False, False, False, True]
    assert answer.row_evaluations is not None
    assert answer.row_evaluations.tolist() == [8, 4]


# Which players are active


def game_of(rows: Any, background: Any, **options: Any) -> ModelGame:
    with model_game(lambda x: x.sum(1) * 1.0, rows, background=background, **options) as game:
        return game


@settings(max_examples=60)
@given(data=st.data())
def test_active_players_are_those_whose_inputs_differ(data: st.DataObject) -> None:
    numbers = st.sampled_from([0.0, 1.0])
    inputs = 5
    rows = np.array(data.draw(st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1)))
    background = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1, max_size=3))
    )
    groups = data.draw(st.sampled_from([None, [[0, 1], [2], [3, 4]], [[0, 4], [1, 2, 3]]]))
    game = game_of(rows, background, groups=groups)
    active = game.active_players()
    columns = groups or [[column] for column in range(inputs)]
    wanted = [
        [any((row[column] != background[:, column]).any() for column in own) for own in columns]
        for row in rows
    ]
    found = np.ones_like(wanted) if active is None else active.numpy()
    np.testing.assert_array_equal(found, wanted)


def test_missing_and_infinite_inputs_are_the_same_where_both_are() -> None:
    nan, inf = torch.nan, torch.inf
    game = replace(
        game_of(np.ones((1, 5)), np.zeros(5)),
        inputs=torch.tensor([[nan, nan, 2.0, inf, inf]]),
        background=torch.tensor([[nan, 1.0, nan, inf, 0.0]]),
    )
    active = game.active_players()
    assert active is not None
    assert active.tolist() == [[False, True, True, False, True]]
    assert game.distances().tolist() == [[0, 1, 1, 0, 1]]


# Calibrations by the number of active players


def test_the_nearest_number_of_players_is_taken() -> None:
    five = Calibration(level=-1.0, players=(0.0,) * 5)
    nine = Calibration(level=-4.0, players=(0.1,) * 9, pairs=8)
    both = Calibration.joined(12, [nine, five])
    assert both.size == 12
    assert both.at(5, 99) == five
    assert both.at(9, 99) == nine
    assert both.at(3, 0) == Calibration(level=-1.0, players=(0.0,) * 3)
    assert both.at(10, 8).level == -4.0
    assert Calibration.from_dict(json.loads(json.dumps(both.to_dict()))) == both


def test_a_calibration_of_other_players_is_refused_before_any_work() -> None:
    asked: list[Floats] = []

    def model(x: Floats) -> Floats:
        asked.append(x)
        return wavy(x)

    other = Calibration.joined(8, [Calibration.default(5)])
    for method in (Auto(calibration=other), Kriging(calibration=Calibration.default(5))):
        with pytest.raises(MethodError, match=r"fitted to 9 features, got [58]"):
            explain(model, sparse_rows(3), background=np.zeros(9), budget=80, method=method)
    assert not asked


# Rows filled up with null players


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [name for name in SAMPLED if name not in ("shear", "shear-unbiased")]
)
def test_filled_up_rows_add_up_and_their_null_players_have_nothing(method: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 30))
    for row, active in zip(rows, range(18, 30), strict=True):
        row[rng.permutation(30)[active:]] = 0

    def model(x: Floats) -> Floats:
        return np.asarray(np.sin(x).sum(axis=1) + x[:, 0] * x[:, 1] * x[:, 2])

    answer = explain(model, rows, background=np.zeros(30), budget=200, method=method)
    assert (answer.values[rows == 0] == 0).all()
    if "efficiency" in METHODS[method].promises:
        np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    if answer.standard_errors is not None:
        known = np.isfinite(answer.standard_errors).all(axis=1)
        assert known.any()
        assert (answer.standard_errors[known][rows[known] == 0] == 0).all()
        assert (answer.standard_errors[rows != 0] > 0).mean() > 0.5
    if answer.calibration is not None:
        every = (answer.calibration, *answer.calibration.others)
        assert sorted(fit.size for fit in every) == [18, 22, 27, 30]
