"""Semivalues, and interactions of any order and index, against their definitions."""

from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import definitions
from games import Floats, all_coalitions, exact_shares, random_table, smooth_table, table_game
from shearshap import BudgetError, Explainer, Explanation, InputError, explain_game, plots
from shearshap.games.active import set_places
from shearshap.games.indices import (
    BANZHAF,
    SHAPLEY,
    Index,
    InteractionName,
    Semivalue,
    interaction_index,
    sets_up_to,
    size_weights,
)
from shearshap.interactions.indices import exact_index
from shearshap.interop.shap import half_pairs
from shearshap.methods.kriging.kernel import index_covariance, odd_covariance, set_sums

NAMES = get_args(InteractionName)
DEFINITIONS = {
    "SII": definitions.sii,
    "k-SII": definitions.k_sii,
    "STII": definitions.stii,
    "FSII": definitions.fsii,
}
LAST = (0.0, 0.0, 0.0, 0.0, 1.0)  #: what a player adds to all others
CHANCES = {"banzhaf": np.array([1, 4, 6, 4, 1]) / 16, LAST: LAST, (0.4, 0.1, 0.1, 0.1, 0.3): None}


def tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def exact(table: Floats, index: Index) -> Floats:
    return np.asarray(exact_index(tensor(table)[None], index)[0])


def sets_of(answer: Explanation) -> Floats:
    """The numbers of all sets of the first row."""
    if answer.set_values is not None:
        return np.asarray(answer.set_values[0])
    assert answer.interactions is not None
    return sets_of_matrix(answer.interactions[0])


def sets_of_matrix(pairs: Floats) -> Floats:
    return np.concatenate((pairs.diagonal(), pairs[np.triu_indices(len(pairs), 1)]))


def curved(x: Floats) -> Floats:
    return np.asarray(np.tanh(x @ np.linspace(-1, 1.5, x.shape[1])) * (1 + x[:, 0] * x[:, 1]))


# Definitions


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_an_index_of_every_order_is_its_definition(name: InteractionName, order: int) -> None:
    table = random_table(5, order)
    expected = DEFINITIONS[name](table, order)
    assert list(expected) == sets_up_to(5, order)
    found = exact(table, interaction_index(name, order, 5))
    np.testing.assert_allclose(found, list(expected.values()), atol=1e-9)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), order=st.integers(2, 4), name=st.sampled_from(NAMES))
def test_null_players_symmetry_and_efficiency(seed: int, order: int, name: InteractionName) -> None:
    """Player 0 is null, and 1 and 2 are alike."""
    number = np.arange(1 << 6)
    swapped = number & ~0b110 | (number & 0b010) << 1 | (number & 0b100) >> 1
    table = random_table(6, seed)[number & ~1]
    table = table + table[swapped]
    found = dict(
        zip(sets_up_to(6, order), exact(table, interaction_index(name, order, 6)), strict=True)
    )
    swap = {1: 2, 2: 1}
    for one, value in found.items():
        if 0 in one:
            assert abs(value) < 1e-9
        alike = tuple(sorted(swap.get(player, player) for player in one))
        assert abs(value - found[alike]) < 1e-9
    if name != "SII":
        assert abs(sum(found.values()) - (table[-1] - table[0])) < 1e-9


@pytest.mark.parametrize("option", CHANCES)
def test_a_semivalue_is_its_definition(option: Any) -> None:
    chances = CHANCES[option] if CHANCES[option] is not None else option
    tables = [random_table(5, seed) for seed in range(2)]
    expected = definitions.semivalue(tables[0], chances)
    answer = explain_game(table_game(tables[0]), players=5, method="exact", semivalue=option)
    np.testing.assert_allclose(answer.values[0], expected, atol=1e-12)
    semivalue = Semivalue.from_option(option)
    np.testing.assert_allclose(exact(tables[0], semivalue.index(5)), expected, atol=1e-12)
    # of a sum of games it is the sum
    other, total = (
        explain_game(table_game(table), players=5, method="exact", semivalue=option)
        for table in (tables[1], tables[0] + tables[1])
    )
    np.testing.assert_allclose(total.values, answer.values + other.values, atol=1e-12)


def test_the_shapley_value_is_one_of_them() -> None:
    table = random_table(6, 0)
    np.testing.assert_allclose(exact(table, SHAPLEY.index(6)), exact_shares(table), atol=1e-12)
    even = explain_game(table_game(table), players=6, method="exact", semivalue=[1 / 6] * 6)
    np.testing.assert_allclose(even.values[0], exact_shares(table), atol=1e-12)


def test_a_semivalue_of_fewer_players_is_that_of_the_game_without_null_players() -> None:
    """Here player 3 of four is null."""
    chances = [0.4, 0.3, 0.1, 0.2]
    table = random_table(3, 0)
    wide = table[np.arange(16) & 7]
    fewer = Semivalue.from_option(chances).probabilities(3)
    np.testing.assert_allclose(
        definitions.semivalue(table, [float(chance) for chance in fewer]),
        definitions.semivalue(wide, chances)[:3],
        atol=1e-12,
    )


# Kriging


def test_sums_over_sets_are_those_of_the_kernel() -> None:
    """2^s prod_S a sum_n M(n) e_n(a without S), by plain sums."""
    a = np.random.default_rng(0).uniform(-0.9, 0.9, size=(2, 6))
    moments = [0.5, -1.0, 0.3, 2.0, 0.1]
    found = set_sums(tensor(a), torch.tensor([[0, 1], [2, 5]]), moments)
    for place, members in enumerate(((0, 1), (2, 5))):
        others = [player for player in range(6) if player not in members]
        sums = [
            sum(a[:, list(some)].prod(axis=1) for some in combinations(others, n)) for n in range(5)
        ]
        expected = 4 * a[:, members].prod(axis=1) * np.tensordot(moments, np.array(sums), 1)
        np.testing.assert_allclose(found[:, place], expected, atol=1e-12)


def test_the_general_covariance_is_that_of_shapley_values() -> None:
    rng = np.random.default_rng(0)
    for players in (5, 13, 40):
        u = tensor(rng.choice([-1.0, 1.0], size=(12, players)))
        r = tensor(rng.uniform(0.01, 0.6, size=(2, players)))
        own = odd_covariance(u, r, 0.1, 0.3)
        general = index_covariance("odd", u, r, SHAPLEY.index(players), 0.1, 0.3)
        for left, right in zip(own[:3], general[:3], strict=True):
            np.testing.assert_allclose(left, right, atol=1e-13)


def test_an_index_of_a_game_of_the_size_alone() -> None:
    sizes = np.random.default_rng(0).normal(size=7)
    table = sizes[all_coalitions(6).sum(axis=1)]
    index = interaction_index("FSII", 3, 6)
    found = dict(zip(sets_up_to(6, 3), exact(table, index), strict=True))
    for size, weights in enumerate(size_weights(index), start=1):
        assert abs(found[tuple(range(size))] - sizes @ weights) < 1e-9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [2, 3])
def test_kriging_is_near_the_definition_by_its_errors(name: InteractionName, order: int) -> None:
    games = [smooth_table(9, seed) for seed in range(4)]
    held, close = [], []
    for table in games:
        truth = exact(table, interaction_index(name, order, 9))
        answer = explain_game(
            table_game(table), players=9, budget=200, interactions=order, interaction_index=name
        )
        low, high = answer.interaction_interval()
        if order == 2:
            low, high = (sets_of_matrix(bound[0]) for bound in (low, high))
        held.append((np.ravel(low) <= truth + 1e-9) & (truth - 1e-9 <= np.ravel(high)))
        close.append(np.abs(sets_of(answer) - truth).mean() / np.abs(truth).mean())
        if name != "SII":
            total = answer.predictions - answer.base_values
            np.testing.assert_allclose(sets_of(answer).sum(), total, atol=1e-8)
    assert np.mean(held) > 0.9
    assert np.mean(close) < 0.3


@pytest.mark.parametrize("option", CHANCES)
def test_kriging_of_a_semivalue(option: Any) -> None:
    option = option if isinstance(option, str) else (*option[:-1], 0.0, 0.0, 0.0, 0.0, option[-1])
    held = []
    for seed in range(6):
        table = smooth_table(9, seed)
        chances = Semivalue.from_option(option).probabilities(9)
        truth = definitions.semivalue(table, [float(chance) for chance in chances])
        answer = explain_game(table_game(table), players=9, budget=150, semivalue=option)
        low, high = answer.interval()
        held.append((low[0] - 1e-9 <= truth) & (truth <= high[0] + 1e-9))
        assert answer.method == "kriging"
        assert np.abs(answer.values[0] - truth).mean() < 0.2 * np.abs(truth).mean()
    assert np.mean(held) > 0.9


def test_all_coalitions_have_no_errors() -> None:
    answer = explain_game(
        table_game(random_table(6, 0)), players=6, method="kriging", budget=64, interactions=3
    )
    assert answer.set_errors is not None
    assert not answer.set_errors.any()


# Models


def test_trees_and_linear_models_have_exact_semivalues() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5))
    forest = RandomForestRegressor(8, max_depth=4, random_state=0).fit(rows, curved(rows))
    for option in ("banzhaf", (0.4, 0.1, 0.1, 0.1, 0.3)):
        answer = Explainer(forest, rows[:7], semivalue=option)(rows[10:13])
        assert answer.method == "exact (trees)"
        sampled = Explainer(forest.predict, rows[:7], semivalue=option, method="exact")
        np.testing.assert_allclose(answer.values, sampled(rows[10:13]).values, atol=1e-12)
    # without a background it is sampled from the rows
    assert "rows" in str(Explainer(forest, semivalue="banzhaf")(rows[10:13]).background)
    line = LinearRegression().fit(rows, curved(rows))
    ours = Explainer(line, rows[:7], semivalue="banzhaf")(rows[10:13])
    np.testing.assert_allclose(ours.values, Explainer(line, rows[:7])(rows[10:13]).values)


@pytest.mark.parametrize("name", ["k-SII", "SII", "STII", "FSII"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_trees_and_linear_models_have_exact_interactions(name: InteractionName, order: int) -> None:
    """From their leaves: the same as from all coalitions."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5))
    forest = RandomForestRegressor(4, max_depth=5, random_state=0).fit(rows, curved(rows))
    line = LinearRegression().fit(rows, curved(rows))
    asked: dict[str, Any] = {"interactions": order, "interaction_index": name}
    for model, method in ((forest, "exact (trees)"), (line, "exact (linear)")):
        ours = Explainer(model, rows[:7])(rows[10:13], **asked)
        every = Explainer(model.predict, rows[:7], method="exact")(rows[10:13], **asked)
        assert ours.method == method
        found, expected = (np.asarray(each.interactions) for each in (ours, every))
        np.testing.assert_allclose(found, expected, atol=1e-12)
        if order > 2:
            found, expected = (np.asarray(each.set_values) for each in (ours, every))
            np.testing.assert_allclose(found, expected, atol=1e-12)
            assert not np.asarray(ours.set_errors).any()


def test_null_features_take_no_part() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 7))
    rows[1, 2] = rows[2, :2] = 0.0
    for method, budget in (("exact", 128), ("kriging", 100)):
        explainer = Explainer(curved, np.zeros(7), method=method)
        answer = explainer(rows, budget=budget, interactions=3)
        assert answer.set_values is not None
        assert answer.set_errors is not None
        with_null = [place for place, one in enumerate(answer.interaction_sets) if 2 in one]
        assert not answer.set_values[1, with_null].any()
        assert not answer.set_errors[1, with_null].any()
    banzhaf = Explainer(curved, np.zeros(7), semivalue="banzhaf")(rows, budget=100)
    assert banzhaf.values[1, 2] == 0.0
    own = torch.tensor([[0, 2, 3], [1, 2, 3]])
    places, count = set_places(own, 4, 2)
    sets = sets_up_to(4, 2)
    assert count == len(sets)
    assert [sets[place] for place in places[0]] == [(0,), (2,), (3,), (0, 2), (0, 3), (2, 3)]


def test_background_rows_have_semivalues_too() -> None:
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(20, 9)), rng.normal(size=(3, 9))
    exactly = Explainer(curved, background, semivalue="banzhaf", method="exact")
    truth = exactly(rows, budget=20 << 9).values
    answer = Explainer(curved, background, semivalue="banzhaf")(rows, budget=600)
    low, high = answer.interval()
    assert ((low <= truth) & (truth <= high)).mean() > 0.9


# The explanation


def test_an_explanation_says_what_it_has() -> None:
    value = table_game(smooth_table(8, 0))
    banzhaf = explain_game(value, players=8, semivalue="banzhaf")
    assert banzhaf.semivalue == BANZHAF.name
    assert "Banzhaf values" in str(banzhaf)
    assert plots.bar(banzhaf).get_xlabel().startswith("Banzhaf value")
    answer = explain_game(value, players=8, interactions=3, interaction_index="STII", budget=100)
    assert (answer.interaction_index, answer.interaction_order) == ("STII", 3)
    frame = answer.to_frame(interactions=True)
    assert list(frame) == ["row", "output", "size", "features", "value", "standard_error"]
    assert frame.features[8] == "x0 x x1"
    both = Explanation.concat([answer, answer[:1]])
    assert both.set_values is not None
    assert both.set_values.shape == (2, len(answer.interaction_sets))
    with pytest.raises(InputError, match="k-SII of order 2, got STII of order 3"):
        half_pairs(answer)
    with pytest.raises(InputError, match="expected an explanation with interactions"):
        banzhaf.interaction_interval()


def test_a_pair_that_may_be_zero_is_hatched() -> None:
    answer = explain_game(
        table_game(smooth_table(10, 1)), players=10, budget=60, interactions=True, method="kriging"
    )
    low, high = answer.interaction_interval()
    doubtful = (low[0] <= 0) & (high[0] >= 0)
    assert 0 < doubtful.sum() < doubtful.size
    ax = plots.interactions(answer, row=0)
    assert len(ax.patches) == doubtful.sum()
    assert "hatched: the 95 % interval contains 0" in ax.get_xlabel()


def test_too_many_sets_are_an_error() -> None:
    with pytest.raises(InputError, match="expected at most 32,768 sets of features, got 36,050"):
        explain_game(lambda z: z[:, 0] * 1.0, players=60, interactions=3)
    with pytest.raises(BudgetError, match="needs at least 20 evaluations"):
        explain_game(table_game(random_table(9, 0)), players=9, budget=8, semivalue="banzhaf")
