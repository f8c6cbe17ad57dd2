"""One battery of laws for every method: a wrong weight anywhere breaks one of them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from games import (
    Bools,
    Floats,
    additive,
    exact_shares,
    network,
    pairwise,
    random_table,
    shapley_by_permutations,
    smooth_table,
    table_game,
)
from shearshap import (
    METHODS,
    BudgetError,
    Explanation,
    Kriging,
    Shear,
    ShearWarning,
    explain,
    explain_game,
)
from shearshap.game import FunctionGame, Game
from shearshap.methods.base import Design, Estimate, Method
from shearshap.methods.differences import Differences
from shearshap.methods.kernel import Averaged, Regression

few = settings(max_examples=5, deadline=None)
every_method = pytest.mark.parametrize("name", METHODS)
PLAYERS = st.integers(6, 8)
SEEDS = st.integers(0, 10**6)
AS_PUBLISHED = (
    "-paper",
    "-authors",
)  # endings of the names of baselines that never list all coalitions


def promising(promise: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "name", [name for name, method in METHODS.items() if promise in method.promises]
    )


def ample(name: str, players: int) -> int:
    """A budget at which regressions have full rank, but not all coalitions: those who can list them all would."""
    if name == "exact":
        return 1 << players
    if name.endswith(AS_PUBLISHED):
        return 2 + 128 * players
    looks = 1 + players + players * (players - 1) // 2 if name.startswith("shear") else 0
    return looks + 2 + (16 * players if looks else min(16 * players, (1 << players) - 4))


@every_method
@few
@given(players=PLAYERS, seed=SEEDS)
def test_additive_games_are_exact(name: str, players: int, seed: int) -> None:
    value, worth = additive(players, seed)
    shares = explain_game(
        value, players=players, budget=ample(name, players), method=name, seed=seed
    )
    np.testing.assert_allclose(shares.values[0], worth, atol=1e-7)
    may_repeat = name == "exact" or name.endswith(AS_PUBLISHED) or name.startswith("shear")
    assert may_repeat or shares.evaluations < 1 << players


@promising("pairwise")
@few
@given(players=PLAYERS, seed=SEEDS)
def test_pairwise_games_are_exact_where_promised(name: str, players: int, seed: int) -> None:
    value, shares = pairwise(players, seed)
    answer = explain_game(
        value, players=players, budget=ample(name, players), method=name, seed=seed
    )
    np.testing.assert_allclose(answer.values[0], shares, atol=1e-6)


@promising("efficiency")
@few
@given(players=PLAYERS, seed=SEEDS, budget=st.integers(20, 90))
def test_shares_add_up_where_promised(name: str, players: int, seed: int, budget: int) -> None:
    value = table_game(random_table(players, seed))
    with _quiet():
        answer = explain_game(
            value, players=players, budget=_enough(name, players, budget), method=name, seed=seed
        )
    np.testing.assert_allclose(answer.gap, 0, atol=1e-8)
    assert answer.base_values[0] == value(np.zeros((1, players), dtype=bool))[0]
    assert answer.predictions[0] == value(np.ones((1, players), dtype=bool))[0]


@promising("null-player")
@few
@given(players=PLAYERS, seed=SEEDS)
def test_a_player_that_never_matters_gets_nothing(name: str, players: int, seed: int) -> None:
    table = random_table(players, seed)
    null = seed % players
    ignoring = table[np.arange(1 << players) & ~(1 << null)]
    answer = explain_game(
        table_game(ignoring), players=players, budget=ample(name, players), method=name, seed=seed
    )
    assert abs(answer.values[0, null]) < 1e-12


@pytest.mark.parametrize(
    "name", [name for name in METHODS if not name.endswith((*AS_PUBLISHED, "-welford"))]
)
@few
@given(players=st.integers(2, 6), seed=SEEDS)
def test_exact_at_full_budget(name: str, players: int, seed: int) -> None:
    table = random_table(players, seed)
    looks = 1 + players + players * (players - 1) // 2
    budget = 2 + players * (1 << players) + looks if name.startswith("shear") else 1 << players
    answer = explain_game(table_game(table), players=players, budget=budget, method=name, seed=seed)
    np.testing.assert_allclose(answer.values[0], exact_shares(table), atol=1e-9)


@promising("unbiased")
@pytest.mark.parametrize("each", [4, 8])
def test_the_mean_over_seeds_is_the_shapley_value_where_promised(name: str, each: int) -> None:
    players, seeds = 5, 600
    table = random_table(players, 3)
    budget = (
        1 << players
        if name == "exact"
        else 2 + each * players + (16 if name.startswith("shear") else 0)
    )
    budget = (
        min(budget, (1 << players) - 1)
        if name in ("permutation", "permutation-antithetic")
        else budget
    )
    draws = _draws(name, table, budget, seeds)
    error = draws.mean(axis=0) - exact_shares(table)
    tolerance = 4.5 * draws.std(axis=0) / np.sqrt(seeds) + 1e-9
    assert (abs(error) < tolerance).all(), error / tolerance
    if name != "exact":
        assert draws.std() > 0.01


def test_shear_as_printed_is_biased_and_the_law_sees_it() -> None:
    table = random_table(5, 3)
    draws = _draws("shear", table, 2 + 4 * 5 + 16, 600)
    error = draws.mean(axis=0) - exact_shares(table)
    assert (abs(error) > 6 * draws.std(axis=0) / np.sqrt(600)).any()


@every_method
def test_players_that_are_alike_get_alike_shares(name: str) -> None:
    """Sampling spreads one draw's shares; their means over seeds must agree, and at full budget the shares."""
    players, seeds = 5, 1 if name == "exact" else 300
    table = random_table(players, 11)
    index = np.arange(1 << players)
    swapped = index & ~0b11 | (index & 1) << 1 | index >> 1 & 1
    alike = (table + table[swapped]) / 2
    budget = 1 << players if name == "exact" else 31 + (16 if name.startswith("shear") else 0)
    draws = _draws(name, alike, _enough(name, players, budget), seeds)
    difference = draws[:, 0] - draws[:, 1]
    assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(seeds) + 1e-9


@every_method
@few
@given(players=st.integers(1, 7), seed=SEEDS, budget=st.integers(1, 140))
def test_never_more_evaluations_than_the_budget(
    name: str, players: int, seed: int, budget: int
) -> None:
    asked: list[int] = []
    game = table_game(random_table(players, seed))

    def value(coalitions: Bools) -> Floats:
        asked.append(len(coalitions))
        return game(coalitions)

    with _quiet():
        try:
            answer = explain_game(value, players=players, budget=budget, method=name, seed=seed)
        except BudgetError:
            assert not asked
            return
    assert answer.evaluations == sum(asked) <= budget
    assert np.isfinite(answer.values).all()


@every_method
def test_the_smallest_budget_it_names_is_enough(name: str) -> None:
    value, worth = additive(6)
    with pytest.raises(
        BudgetError, match=r"needs at least \d+ evaluations a row for 6 players"
    ) as caught:
        explain_game(value, players=6, budget=3, method=name)
    smallest = int(str(caught.value).split("at least ")[1].split()[0])
    with _quiet():
        answer = explain_game(value, players=6, budget=smallest, method=name)
    assert np.isfinite(answer.values).all()
    assert abs(answer.values[0] - worth).max() < 10
    with pytest.raises(BudgetError):
        explain_game(value, players=6, budget=smallest - 1, method=name)


@every_method
def test_same_seed_same_answer_and_another_seed_another(name: str) -> None:
    players = 10
    value = table_game(random_table(players, 1))
    budget = 1 << players if name == "exact" else 100
    with _quiet():
        first, again, other = (
            explain_game(value, players=players, budget=budget, method=name, seed=seed).values
            for seed in (5, 5, 6)
        )
    assert (first == again).all()
    assert (first == other).all() == (name == "exact")


@every_method
def test_chunking_changes_nothing(name: str) -> None:
    """Rows alone, rows together, tiny batches: the same answer."""
    net, rows, budget = network(6), np.random.default_rng(0).normal(size=(9, 6)), 64

    def shares(
        part: Floats, method: str | Method = name, batch_size: int | Literal["auto"] = "auto"
    ) -> Explanation:
        with _quiet():
            return explain(
                net,
                part,
                reference=np.zeros(6),
                budget=budget - (name != "exact"),
                method=method,
                output=1,
                batch_size=batch_size,
            )

    whole = shares(rows)
    method = Kriging(whole.calibration) if name == "kriging" else name
    np.testing.assert_allclose(shares(rows, batch_size=7).values, whole.values, atol=1e-10)
    with patch.dict("shearshap.engine.stages.BLOCK_BYTES", cpu=1):
        np.testing.assert_allclose(shares(rows).values, whole.values, atol=1e-10)
    split = np.concatenate(
        [
            shares(rows[:4], method).values,
            shares(rows[4:5], method).values,
            shares(rows[5:], method).values,
        ]
    )
    np.testing.assert_allclose(split, whole.values, atol=1e-10)


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


@every_method
def test_outputs_come_together_at_no_extra_evaluations(name: str) -> None:
    table = random_table(5, 2, outputs=(3,))
    method: Method = METHODS[name]
    if isinstance(
        method, Shear
    ):  # cooperators are selected for all outputs together: take the choice out
        method = Shear(selection="random", unbiased=method.unbiased)
    budget = 32 if name == "exact" else 31
    with _quiet():
        together = explain_game(table_game(table), players=5, budget=budget, method=method)
        if name == "kriging":
            method = Kriging(together.calibration)
        apart = [
            explain_game(table_game(table[:, k]), players=5, budget=budget, method=method)
            for k in range(3)
        ]
    assert together.values.shape == (1, 5, 3)
    assert together.evaluations == apart[0].evaluations
    for k, single in enumerate(apart):
        np.testing.assert_allclose(together.values[..., k], single.values, atol=1e-10)


@every_method
@pytest.mark.parametrize("entry", [1, 2, 5, 9, 20])
def test_a_wrong_weight_breaks_a_law(name: str, entry: int) -> None:
    """One weight off by a little: an additive game is no longer exact, whatever the method and the weight."""
    value, worth = additive(6, 4)
    budget = ample(name, 6)
    method = METHODS[name]

    def bent(game: Game, coalitions: int, rng: np.random.Generator) -> Design:
        design = right(game, coalitions, rng)
        if isinstance(design, Regression):
            weights = design.solution.weights
            weights.view(-1)[entry % weights.numel()] += 0.01
            return design
        if isinstance(design, Averaged | Differences):
            weights = design.weights.clone()
            weights.view(-1)[entry % weights.numel()] += 0.01
            return replace(design, weights=weights)
        return Bent(design.coalitions, design, entry)

    right = method.design
    with patch.object(type(method), "design", lambda _self, *arguments: bent(*arguments)):
        answer = explain_game(value, players=6, budget=budget, method=name)
    unused = (
        name in ("kernel-paper", "kernel-paired-paper") and entry == 1
    )  # they do not look at the prediction
    assert (abs(answer.values[0] - worth).max() > 1e-6) or unused


@dataclass(frozen=True)
class Bent(Design):
    """A design without a table of weights, as if all weights of one coalition were off."""

    coalitions: torch.Tensor
    inner: Design
    entry: int

    def fit(self, values: torch.Tensor) -> Design:
        return replace(self, inner=self.inner.fit(values))

    def estimate(self, values: torch.Tensor) -> Estimate:
        off = values.clone()
        off[:, self.entry] += 0.1
        return self.inner.estimate(off)


def _enough(name: str, players: int, budget: int) -> int:
    """The budget, or the smallest that the method can work with."""
    return max(budget, METHODS[name].minimum(FunctionGame(lambda z: z[:, 0], players)))


def _draws(name: str, table: Floats, budget: int, seeds: int) -> Floats:
    """The shares for many seeds, (seeds, p)."""
    players = len(table).bit_length() - 1
    with _quiet():
        answers = [
            explain_game(table_game(table), players=players, budget=budget, method=name, seed=s)
            for s in range(seeds)
        ]
    return np.concatenate([answer.values for answer in answers])


@contextmanager
def _quiet() -> Iterator[None]:
    """Allow the warning that a regression is singular, where a law is about something else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        yield


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
        ("kriging", [0.866582, -0.280511, -0.243491, 0.714027, 0.259364, -0.582177, 1.679784, -0.489778]),
        ("kernel-paper", [1.054958, -0.434088, 0.007115, 0.712428, 0.547872, -0.637648, 1.580508, -0.677549]),
        ("kernel-paired-paper", [1.038027, 0.200694, -0.416768, 0.77451, 0.015505, -0.342851, 1.312035, -0.461777]),
        ("permutation-paper", [0.528151, -0.616512, -0.355483, 0.700496, 0.501736, -0.949845, 1.67338, -0.488788]),
        ("permutation-antithetic-paper", [0.639068, -0.18406, -0.232957, 0.636653, 0.701354, -0.711575, 1.895632, -0.507235]),
        ("kernel-authors", [0.947642, -0.215533, -0.51809, 0.870183, 0.125468, -0.635531, 1.917636, -0.567976]),
        ("kernel-paired-authors", [0.779718, -0.329023, -0.411508, 0.571941, 0.273211, -0.27254, 1.514465, -0.202465]),
        ("permutation-authors", [0.87682, -0.306574, -0.462005, 0.525929, 0.18369, -0.273305, 1.673785, -0.294541]),
        ("permutation-antithetic-authors", [0.906806, -0.327865, -0.140273, 0.73118, 0.185898, -0.525705, 1.506919, -0.413161]),
    ],
)  # fmt: skip
def test_golden_numbers_for_a_seed(name: str, golden: list[float]) -> None:
    budget = 256 if name == "exact" else 120
    with _quiet():
        answer = explain_game(
            table_game(smooth_table(8, 0)), players=8, budget=budget, method=name, seed=7
        )
    np.testing.assert_allclose(answer.values[0], golden, atol=2e-5)
