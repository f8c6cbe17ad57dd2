"""Every method keeps its laws, which are in laws.py: a wrong weight anywhere breaks one of them."""

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet
from hypothesis import given
from hypothesis import strategies as st

from games import random_table, shapley_by_permutations, smooth_table, table_game
from laws import (
    LAWS,
    SEEDS,
    Law,
    chunks_change_nothing,
    few,
    game_of,
    laws_of,
    outputs_come_together_at_no_extra_evaluations,
    quiet,
    the_mean_over_seeds_is_the_shapley_value,
)
from shearshap import METHODS, Shear, explain, explain_game
from shearshap.methods.base import Method
from shearshap.paper.baselines import BASELINES

EVERY_METHOD: dict[str, Method] = {**METHODS, **BASELINES}


def _kept() -> list[ParameterSet]:
    """Every method with each of its laws."""
    return [
        pytest.param(name, law, id=f"{name}-{law}")
        for name, method in EVERY_METHOD.items()
        for law in laws_of(method)
    ]


@pytest.mark.parametrize(("name", "law"), _kept())
def test_the_law_is_kept(name: str, law: Law) -> None:
    law.check(EVERY_METHOD[name])


#: laws about bits, which single precision does not keep; test_shared_kernels.py has them to 1e-5
OF_BITS = (chunks_change_nothing, outputs_come_together_at_no_extra_evaluations)


@pytest.mark.parametrize("law", laws_of(METHODS["kriging"]), ids=str)
def test_kriging_keeps_its_laws_where_rows_share_kernels(
    law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    if law.check in OF_BITS:
        pytest.skip("shared kernels are solved in single precision")
    monkeypatch.setattr("shearshap.gaussian.effort.FEW_ROWS", 1)
    value = table_game(smooth_table(6, 0))
    assert explain_game(value, players=6, budget=40, method="kriging").calibration.centres
    law.check(METHODS["kriging"])


def test_every_law_is_about_several_methods() -> None:
    for law in LAWS:
        assert sum(law.applies(method) for method in EVERY_METHOD.values()) > 5, str(law)


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


@pytest.mark.parametrize(
    ("name", "golden"),
    [
        ("exact", [0.861365, -0.287908, -0.245268, 0.716469, 0.247949, -0.582594, 1.687835, -0.474047]),
        ("shear", [0.62902, -0.143163, -0.204656, 0.974085, 0.103537, -0.927447, 1.982784, -0.600103]),
        ("shear-unbiased", [1.167411, -0.511265, -0.271537, 0.831418, -0.078634, 0.074199, 1.634145, -0.14398]),
        ("kernel", [0.921833, -0.28969, -0.275878, 0.746558, 0.147326, -0.50341, 1.686286, -0.509224]),
        ("kernel-paired", [0.747714, -0.236511, -0.240728, 0.772595, 0.23075, -0.631663, 1.7717, -0.490057]),
        ("kernel-welford", [0.737179, -0.106156, -0.331189, 0.844664, 0.110282, -0.675612, 1.592047, -0.247416]),
        ("permutation", [0.874317, -0.243999, -0.47401, 0.552165, 0.156775, -0.345175, 1.633867, -0.230139]),
        ("permutation-antithetic", [0.967006, -0.38322, -0.141051, 0.719234, 0.224684, -0.546549, 1.521063, -0.437369]),
        ("leverage", [0.784299, -0.222126, -0.185048, 0.736548, 0.241698, -0.619584, 1.725586, -0.537575]),
        ("kriging", [0.86728, -0.279579, -0.241804, 0.711305, 0.259438, -0.583947, 1.680865, -0.489759]),
        ("kernel-paper", [1.054958, -0.434088, 0.007115, 0.712428, 0.547872, -0.637648, 1.580508, -0.677549]),
        ("kernel-paired-paper", [1.038027, 0.200694, -0.416768, 0.77451, 0.015505, -0.342851, 1.312035, -0.461777]),
        ("permutation-paper", [0.528151, -0.616512, -0.355483, 0.700496, 0.501736, -0.949845, 1.67338, -0.488788]),
        ("permutation-antithetic-paper", [0.639068, -0.18406, -0.232957, 0.636653, 0.701354, -0.711575, 1.895632, -0.507235]),
        ("permutation-coin-paper", [0.573127, -0.572301, -0.158064, 0.664157, 0.255841, -0.545359, 1.904558, -0.67303]),
        ("permutation-antithetic-coin-paper", [0.744954, 0.091193, -0.072695, 0.744222, 0.578402, -0.902676, 1.774367, -0.604099]),
        ("kernel-authors", [0.947642, -0.215533, -0.51809, 0.870183, 0.125468, -0.635531, 1.917636, -0.567976]),
        ("kernel-paired-authors", [0.779718, -0.329023, -0.411508, 0.571941, 0.273211, -0.27254, 1.514465, -0.202465]),
        ("permutation-authors", [0.87682, -0.306574, -0.462005, 0.525929, 0.18369, -0.273305, 1.673785, -0.294541]),
        ("permutation-antithetic-authors", [0.906806, -0.327865, -0.140273, 0.73118, 0.185898, -0.525705, 1.506919, -0.413161]),
    ],
)  # fmt: skip
def test_golden_numbers_for_a_seed(name: str, golden: list[float]) -> None:
    method = EVERY_METHOD[name]
    budget = max(120, method.minimum(game_of(8)))
    value = table_game(smooth_table(8, 0))
    with quiet():
        answer = explain_game(value, players=8, budget=budget, method=method, seed=7)
    np.testing.assert_allclose(answer.values[0], golden, atol=2e-5)
