"""Every method keeps its laws, which are in laws.py: a wrong weight anywhere breaks one of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet
from hypothesis import given
from hypothesis import strategies as st

from games import Floats, random_table, shapley_by_permutations, smooth_table, table_game
from laws import (
    LAWS,
    SEEDS,
    Law,
    check_claims,
    chunks_change_nothing,
    few,
    laws_of,
    outputs_come_together_at_no_extra_evaluations,
    players_that_are_alike_have_alike_values,
    quiet,
    the_mean_over_seeds_is_the_shapley_value,
)
from shearshap import METHODS, BudgetError, Explainer, Shear, explain, explain_game


def _kept() -> list[ParameterSet]:
    """Every method with each of its laws."""
    return [
        pytest.param(name, law, id=f"{name}-{law}", marks=slow(law, name))
        for name, method in METHODS.items()
        for law in laws_of(method)
    ]


def slow(law: Law, name: str) -> list[pytest.MarkDecorator]:
    """The mark of laws that take many seeds, or some if each fits a calibration."""
    many = law.check is the_mean_over_seeds_is_the_shapley_value
    some = law.check is players_that_are_alike_have_alike_values
    fitted = name in ("auto", "kriging")
    return [pytest.mark.slow] if many or (some and fitted) else []


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize(("name", "law"), _kept())
def test_the_law_is_kept(name: str, law: Law) -> None:
    law.check(METHODS[name])


#: laws about bits, which single precision does not keep; test_shared_kernels.py has them to 1e-5
OF_BITS = (chunks_change_nothing, outputs_come_together_at_no_extra_evaluations)


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, id=str(law), marks=slow(law, "kriging"))
        for law in laws_of(METHODS["kriging"])
    ],
)
def test_kriging_keeps_its_laws_where_rows_share_kernels(
    law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    if law.check in OF_BITS:
        pytest.skip("shared kernels are solved in single precision")
    monkeypatch.setattr("shearshap.methods.kriging.shared.MIN_SHARING_ROWS", 1)
    value = table_game(smooth_table(6, 0))
    assert explain_game(value, players=6, budget=40, method="kriging").calibration.centres
    law.check(METHODS["kriging"])


@pytest.mark.parametrize("name", ["auto", "kernel", "permutation", "permutation-antithetic"])
def test_a_game_that_looks_additive_is_not_known_to_be(name: str) -> None:
    """It is, but for one coalition, which hardly any budget but all coalitions shows."""
    index = np.arange(1 << 6)
    table = (index[:, None] >> np.arange(6) & 1) @ np.linspace(-1, 2, 6)
    for place in (7, 25, 44, 50):
        check_claims(METHODS[name], table + (index == place), f"coalition {place}")


@pytest.mark.parametrize("rows", [3, 12])
@pytest.mark.parametrize("name", METHODS)
def test_background_rows_that_are_not_drawn_are_not_known(name: str, rows: int) -> None:
    """Those that were drawn are alike: three groups of features, with all their coalitions."""
    background = np.zeros((rows, 6))
    background[rows // 2, 2] = 1.0

    def rare(x: Floats) -> Floats:
        return np.where((x[:, 0] + x[:, 1] > 0) & (x[:, 2] > 0), 1.0, 0.0)

    ones = np.ones((1, 6))
    groups = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
    explainer = Explainer(rare, background, groups=groups)
    exact = replace(explainer, method="exact")(ones, budget=8 * rows)
    for seed in range(4):
        for budget in (8, 14, 20, 26):
            with quiet():
                try:
                    answer = replace(explainer, method=name, seed=seed)(ones, budget=budget)
                except BudgetError:
                    continue
            if answer.standard_errors is not None:
                known = answer.standard_errors[0] < 1e-12
                np.testing.assert_allclose(
                    answer.values[0, known], exact.values[0, known], atol=1e-9
                )


def test_every_law_is_about_several_methods() -> None:
    for law in LAWS:
        assert sum(law.applies(method) for method in METHODS.values()) > 3, str(law)


@pytest.mark.slow
def test_shear_as_printed_is_biased_and_the_law_sees_it() -> None:
    with pytest.raises(AssertionError):
        the_mean_over_seeds_is_the_shapley_value(Shear())


@pytest.mark.parametrize("activation", [torch.nn.Softplus, torch.nn.ReLU])
def test_players_who_are_alike_do_not_make_a_row_depend_on_its_neighbours(
    activation: type[torch.nn.Module],
) -> None:
    """Two copies of each column have equal cross-contributions up to rounding, which differs between batches."""
    torch.manual_seed(0)
    half = torch.randn(5, 32)
    net = torch.nn.Sequential(torch.nn.Linear(10, 32), activation(), torch.nn.Linear(32, 1))
    net[0].weight.data = torch.cat((half, half)).T.contiguous()
    rows = np.tile(np.random.default_rng(0).normal(size=(40, 5)), (1, 2))
    whole = explain(net, rows, reference=np.zeros(10), budget=82, method="shear").values
    alone = np.concatenate(
        [
            explain(net, rows[[n]], reference=np.zeros(10), budget=82, method="shear").values
            for n in range(40)
        ]
    )
    np.testing.assert_allclose(alone, whole, atol=1e-4)


@few
@given(players=st.integers(1, 6), seed=SEEDS)
def test_exact_agrees_with_all_permutations(players: int, seed: int) -> None:
    value = table_game(random_table(players, seed))
    answer = explain_game(value, players=players, budget=1 << players, method="exact")
    np.testing.assert_allclose(answer.values[0], shapley_by_permutations(value, players), atol=1e-9)
