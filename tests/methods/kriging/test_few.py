"""Kriging from fewer evaluations than a complement pair for each player takes, and quiet players."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from torch import Tensor

from games import (
    Bools,
    Floats,
    additive,
    all_coalitions,
    exact_shares,
    random_table,
    smooth_table,
    table_game,
)
from shearshap import (
    BudgetError,
    Explanation,
    Kriging,
    ShearWarning,
    explain,
    explain_game,
    model_game,
)
from shearshap.games.game import FunctionGame
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.calibration import quiet_players
from shearshap.methods.kriging.few import (
    CONSTANT,
    FewPrior,
    _hadamard_coalitions,
    _spread_coalitions,
    likeliest_prior,
)
from shearshap.methods.kriging.kernel import odd_even_kernels
from shearshap.methods.kriging.pairs import signs_of
from shearshap.methods.kriging.posterior import Factors, Process

pytestmark = pytest.mark.filterwarnings("ignore:There are no error bars")


@contextmanager
def few() -> Iterator[None]:
    """Allow the warning that evaluations are fewer than players."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="kriging: .* are too few for", category=ShearWarning
        )
        yield


def wavy(rows: Floats) -> Floats:
    """A model whose answer for a row is the same in any batch, to the last bit."""
    scale = np.linspace(0.5, 1.5, rows.shape[1])
    return np.asarray(np.tanh((rows * scale).sum(axis=1)) + np.sin(rows).sum(axis=1) / 3)


def explained(rows: Floats, budget: int, **options: Any) -> Explanation:
    """The explanation of the wavy model against zeros."""
    with few():
        return explain(wavy, rows, reference=np.zeros(rows.shape[1]), budget=budget, **options)


# The process


def slow_covariance(process: FewPrior, players: int) -> Floats:
    """The covariance of the values at all coalitions: one product of players after the other."""
    signs = 2.0 * all_coalitions(players) - 1
    relevance = process.relevance[0].numpy()
    linear = process.linear[0].numpy()
    parts = [np.zeros((len(signs), len(signs))) for _ in range(2)]
    scales = [0.0, 0.0]
    for order in range(2, players + 1):
        for members in combinations(range(players), order):
            variance = relevance[list(members)].prod()
            product = signs[:, list(members)].prod(axis=1)
            parts[order % 2] += variance * np.outer(product, product)
            scales[order % 2] += variance
    even, odd = (part / scale for part, scale in zip(parts, scales, strict=True))
    of_linear = (signs * linear) @ signs.T
    white = float(process.nugget) * np.eye(len(signs))
    return np.asarray(of_linear + odd + float(process.even) * (even + CONSTANT) + white)


def prior_of(players: int, seed: int) -> FewPrior:
    generator = torch.Generator().manual_seed(seed)
    return FewPrior(
        linear=torch.rand(1, players, generator=generator, dtype=torch.float64),
        relevance=0.1 + 0.8 * torch.rand(1, players, generator=generator, dtype=torch.float64),
        nugget=torch.full((1, 1, 1), 0.02, dtype=torch.float64),
        even=torch.full((1, 1, 1), 0.7, dtype=torch.float64),
    )


def seen_of(table: Floats, columns: list[int]) -> tuple[Tensor, Tensor]:
    """The signs of coalitions (m, p), and the values there (1, k, m), less the mean of two ends."""
    players = len(table).bit_length() - 1
    signs = signs_of(torch.from_numpy(all_coalitions(players)[columns]))
    values = table[columns] - table[columns[:2]].mean(axis=0)
    return signs, torch.from_numpy(values.T)[None]


@settings(max_examples=10)
@given(
    seed=st.integers(0, 999),
    inner=st.lists(st.integers(1, 30), min_size=2, max_size=9, unique=True),
)
def test_the_answer_is_the_shapley_value_of_the_conditioned_game(
    seed: int, inner: list[int]
) -> None:
    """Against the whole game's covariance, conditioned, and the formula over subsets."""
    players = 5
    columns = [0, 31, *inner]
    table = random_table(players, seed, outputs=(2,))
    prior = prior_of(players, seed)
    signs, values = seen_of(table, columns)

    whole = slow_covariance(prior, players)
    among = whole[np.ix_(columns, columns)]
    mean = whole[:, columns] @ np.linalg.solve(among, values[0].numpy().T)
    process = Process.from_covariance(signs, prior.covariance(signs), 1 / prior.linear)
    beta, residual, _ = process.factors.regress(values)
    phi = (2 * beta + process.cross.mT @ residual).mT
    np.testing.assert_allclose(phi[0], exact_shares(mean).T, atol=1e-8)

    left = whole - whole[:, columns] @ np.linalg.solve(among, whole[columns])
    shapley = exact_shares(np.eye(1 << players))
    variance = np.einsum("ps,st,pt->p", shapley, left, shapley)
    np.testing.assert_allclose(process.condition(values).variance[0, 0], variance, atol=1e-8)


def test_the_likelihood_is_that_of_a_normal_distribution_of_the_likeliest_scale() -> None:
    columns = [0, 31, 4, 9, 17, 22, 30]
    signs, values = seen_of(random_table(5, 3, outputs=(1,)), columns)
    prior = prior_of(5, 1)
    covariance = slow_covariance(prior, 5)[np.ix_(columns, columns)]
    slow = likeliest(values[0, 0].numpy(), covariance)
    assert float(prior.log_likelihood(signs, values)) == pytest.approx(slow, abs=1e-8)


def test_the_fit_makes_values_likelier_than_the_usual_process() -> None:
    seen = seen_of(random_table(5, 2, outputs=(1,)), [0, 31, *range(3, 29, 2)])
    nobody = torch.zeros(1, 5).double()
    usual = FewPrior.from_numbers(torch.zeros(1, 6).double(), nobody, nobody)
    best = likeliest_prior(*seen, nobody, nobody)
    assert (best.log_likelihood(*seen) > usual.log_likelihood(*seen)).all()


def likeliest(values: Floats, covariance: Floats) -> float:
    """The largest log density over all scales, but for what depends on the count alone."""
    count = len(values)
    scale = values @ np.linalg.solve(covariance, values) / count
    density = multivariate_normal(cov=scale * covariance).logpdf(values)
    return float(density + count / 2 * (np.log(2 * np.pi) + 1 - np.log(count)))


# Coalitions


@settings(max_examples=40)
@given(players=st.integers(3, 40), count=st.integers(2, 60))
def test_coalitions_are_prefixes_first_and_never_an_end(players: int, count: int) -> None:
    sets = _spread_coalitions(players, count, np.random.default_rng(3))
    assert sets.shape == (count, players)
    assert not sets.all(axis=1).any()
    assert sets.any(axis=1).all()
    if count >= players - 1:
        first = sets[: players - 1]
        np.testing.assert_array_equal(first.sum(axis=1), np.arange(1, players))
        assert (first[1:] >= first[:-1]).all()


@pytest.mark.parametrize("players", [3, 4, 8, 9, 31, 64, 100])
def test_rows_of_a_hadamard_matrix_tell_players_apart(players: int) -> None:
    size = 1 << (players - 1).bit_length()
    sets = _hadamard_coalitions(players, size - 2, np.random.default_rng(0))
    assert len(np.unique(sets, axis=0)) >= size - 3
    assert len(np.unique(sets, axis=1).T) == players


# Explanations


@pytest.mark.slow
@settings(max_examples=15)
@given(players=st.integers(3, 9), seed=st.integers(0, 99), data=st.data())
def test_values_add_up_within_any_budget(players: int, seed: int, data: st.DataObject) -> None:
    smallest = Kriging().minimum(FunctionGame(lambda z: z[:, 0] * 1.0, players))
    assert smallest == 4
    budget = data.draw(st.integers(smallest, 2 * players + 1))
    table = random_table(players, seed)
    method = data.draw(st.sampled_from(["kriging", "auto"]))
    asked: list[Bools] = []

    def value(coalitions: Bools) -> Floats:
        asked.append(coalitions)
        return table_game(table)(coalitions)

    with few():
        answer = explain_game(value, players=players, budget=budget, method=method, seed=seed)
    assert answer.method == "kriging"
    assert answer.standard_errors is None
    assert answer.evaluations == sum(map(len, asked)) == budget
    size = abs(table).max()
    np.testing.assert_allclose(answer.values.sum(), table[-1] - table[0], atol=1e-12 * size)


@pytest.mark.parametrize(("players", "smallest"), [(3, 4), (12, 4), (16, 4), (17, 5), (100, 25)])
@pytest.mark.parametrize("method", ["kriging", "auto"])
def test_the_smallest_budget_is_one_for_every_four_players(
    method: str, players: int, smallest: int
) -> None:
    value, worth = additive(players)
    with pytest.raises(BudgetError, match=f"kriging needs at least {smallest} evaluations") as told:
        explain_game(value, players=players, budget=smallest - 1, method=method)
    assert told.value.nearest == smallest
    with few():
        answer = explain_game(value, players=players, budget=smallest, method=method)
    assert answer.evaluations == smallest
    np.testing.assert_allclose(answer.values.sum(), worth.sum(), atol=1e-11)


@pytest.mark.parametrize("players", [8, 12])
def test_evaluations_that_are_fewer_than_players_are_warned_of(players: int) -> None:
    value, _ = additive(players)
    with pytest.warns(
        ShearWarning,
        match=f"kriging: {players - 1} evaluations are too few for {players} features: only the "
        "ranking is meaningful",
    ) as caught:
        explain_game(value, players=players, budget=players - 1)
    assert caught[0].filename == __file__
    explain_game(value, players=players, budget=players)  # warnings are errors here


@pytest.mark.parametrize("budget", [5, 9, 13, 19])
def test_players_at_the_background_get_nothing_and_take_no_part(budget: int) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 9))
    rows[:, 4] = 0
    rows[1, :3] = 0
    rows[2, 1:] = 0  # one player that matters
    rows[3, 2:] = 0  # two
    rows[4] = 0  # none
    answer = explained(rows, budget)
    assert (answer.values[rows == 0] == 0).all()
    assert (abs(answer.values[rows != 0]) > 1e-6).all()
    change = wavy(rows) - wavy(np.zeros((1, 9)))
    np.testing.assert_allclose(answer.values.sum(axis=1), change, atol=1e-12)
    assert answer.values[2, 0] == pytest.approx(change[2], abs=1e-14)

    # what two players have is exact: all their coalitions are asked for
    exact = explain(wavy, rows[3:4], reference=np.zeros(9), budget=512, method="exact")
    np.testing.assert_allclose(answer.values[3], exact.values[0], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [6, 13, 19])
def test_a_row_depends_on_its_own_values_alone(budget: int) -> None:
    rows = np.random.default_rng(1).normal(size=(7, 9))
    rows[2, 3] = 0
    rows[5, 1:] = 0
    whole = explained(rows, budget).values
    alone = [explained(rows[[n]], budget).values[0] for n in range(7)]
    np.testing.assert_allclose(alone, whole, atol=1e-12)
    np.testing.assert_allclose(explained(rows[::-1], budget).values[::-1], whole, atol=1e-12)
    small = explained(rows, budget, batch_size=5).values
    np.testing.assert_allclose(small, whole, atol=1e-12)


def test_several_outputs_share_a_fit_and_add_up() -> None:
    table = smooth_table(8, 0)[:, None] * np.array([1.0, -2.0, 0.0])
    answer = explain_game(table_game(table), players=8, budget=12, method="kriging")
    assert answer.values.shape == (1, 8, 3)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)
    first = answer.values[..., 0]
    np.testing.assert_allclose(answer.values[..., 1], -2 * first, atol=1e-10)
    assert (answer.values[..., 2] == 0).all()
    alone = explain_game(table_game(table[:, 0]), players=8, budget=12, method="kriging")
    assert abs(alone.values - first).max() < 0.5


def test_rows_that_are_all_the_background_have_no_values() -> None:
    answer = explained(np.zeros((3, 9)), 8)
    assert (answer.values == 0).all()
    assert answer.evaluations == 2


@pytest.mark.parametrize("budget", [10, 14, 17])
@pytest.mark.parametrize("worth", [1e-150, 3.0, 1e150])
def test_one_player_that_matters_is_found(budget: int, worth: float) -> None:
    answer = explain_game(lambda z: worth * z[:, 5], players=8, budget=budget)
    np.testing.assert_allclose(answer.values[0] / worth, np.eye(8)[5], atol=0.01)


@pytest.mark.parametrize("method", ["kriging", "auto"])
def test_a_tolerance_stops_no_row(method: str) -> None:
    value, _ = additive(8)
    answer = explain_game(value, players=8, budget=12, method=method, tol=1e9)
    assert answer.converged is not None
    assert not answer.converged.any()
    assert answer.evaluations == 12
    plain = explain_game(value, players=8, budget=12, method=method)
    np.testing.assert_array_equal(answer.values, plain.values)


def test_players_far_from_the_background_have_more_by_far() -> None:
    """Where evaluations do not tell two players apart, the distance does."""
    rows = np.array([[3.0, *[0.01] * 23]])
    with few():
        answer = explain(
            lambda x: x.sum(axis=1), rows, reference=np.zeros(24), budget=6, method="kriging"
        )
    assert answer.values[0, 0] > 2
    assert abs(answer.values[0, 1:]).max() < 0.1


# Distances


@pytest.mark.parametrize(
    ("rows", "background", "groups", "wanted"),
    [
        ([[1.0, 2.0, -3.0]], [0.0, 2.0, 0.0], None, [1, 0, 3]),
        ([[0.0, 5.0, 2.0]], [[0.0, 5.0, 1.0], [3.0, 5.0, 1.0]], None, [4.5**0.5, 0, 1]),
        ([[3.0, 4.0, 1.0, 0.0]], [0.0] * 4, [[0, 1], [2], [3]], [5, 1, 0]),
        ([[7, 900, 0, 3]], [0, 1, 0, 3], [[0, 1], [2], [3]], [1, 0, 0]),
    ],
    ids=["floats", "several background rows", "groups", "tokens"],
)
def test_distances(rows: Any, background: Any, groups: Any, wanted: list[float]) -> None:
    """Tokens are the same or not."""
    own, others = torch.tensor(rows), torch.tensor(background)
    with model_game(lambda x: x.sum(1) * 1.0, own, reference=others, groups=groups) as game:
        np.testing.assert_allclose(game.distances()[0], wanted)


# Joins and quiet players


def single_players(players: int, *more: tuple[int, ...]) -> Bools:
    sides = [np.ones((1, players), dtype=bool), np.eye(players, dtype=bool)]
    larger = [np.isin(np.arange(players), members)[None] for members in more]
    return np.concatenate(sides + larger)


@settings(max_examples=25)
@given(players=st.integers(1, 7), data=st.data())
def test_quiet_players_against_a_double_loop(players: int, data: st.DataObject) -> None:
    numbers = st.integers(0, (1 << players) - 1)
    chosen = data.draw(st.lists(numbers, min_size=1, max_size=20, unique=True))
    members = all_coalitions(players)[chosen]
    joins = [
        (before, after, int(np.flatnonzero(members[after] & ~members[before])[0]))
        for before in range(len(members))
        for after in range(len(members))
        if (members[after] >= members[before]).all()
        and members[after].sum() == members[before].sum() + 1
    ]
    levels = np.random.default_rng(players).integers(0, 2, size=(3, len(members)))
    signs = signs_of(torch.from_numpy(members))
    quiet = quiet_players(signs, torch.from_numpy(levels).double()).numpy()
    for row in range(3):
        for player in range(players):
            gains = [levels[row, a] - levels[row, b] for b, a, who in joins if who == player]
            assert quiet[row, player] == (bool(gains) and not any(gains))


@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_of_proper_priors_is_a_normal_distributions(seed: int) -> None:
    """With all coefficients Gaussian, nothing is restricted."""
    rng = np.random.default_rng(seed)
    u = torch.from_numpy(2.0 * single_players(5, (0, 1), (1, 2), (0, 4)) - 1)
    odd = torch.from_numpy(rng.normal(size=(1, len(u))))
    precision = torch.from_numpy(rng.uniform(0.1, 10, size=(1, 5)))
    r = torch.from_numpy(rng.uniform(0.1, 0.8, size=(1, 5)))
    kernel = odd_even_kernels(u, r).odd + 0.01 * torch.eye(len(u)).double()
    factors = Factors.from_kernel(kernel, u, precision)
    found = float(factors.log_likelihood(factors.regress(odd[None]).squares))
    covariance = (kernel[0] + u / precision @ u.mT).numpy()
    assert found == pytest.approx(likeliest(odd[0].numpy(), covariance), abs=1e-9)


@pytest.mark.parametrize("budget", [26, 34, 50, 100])
@pytest.mark.parametrize("seed", range(3))
def test_pairwise_games_stay_exact_with_quiet_players(budget: int, seed: int) -> None:
    """Some players do nothing; one adds nothing alone nor last, since its interactions cancel."""
    players = 12
    rng = np.random.default_rng(seed)
    worth = rng.normal(size=players)
    upper = np.triu(rng.normal(size=(players, players)), 1)
    worth[6:] = 0
    upper[:, 6:] = 0
    upper[0, 6] = 1.5
    upper[1, 6] = -1.5
    phi = worth + (upper + upper.T).sum(axis=1) / 2

    def value(z: Bools) -> Floats:
        return np.asarray(0.5 + z @ worth + np.einsum("ci,ij,cj->c", z, upper, z))

    answer = explain_game(value, players=players, budget=budget, method="kriging", seed=seed)
    np.testing.assert_allclose(answer.values[0], phi, atol=1e-10)


# Stored calibrations


def test_a_game_with_quiet_players_keeps_its_answer_by_its_calibration() -> None:
    table = np.asarray(
        all_coalitions(8) @ np.eye(8)[0] * 0.1 + all_coalitions(8)[:, :3].all(axis=1)
    )
    value = table_game(table)
    first = explain_game(value, players=8, budget=40, method="kriging")
    stored = json.loads(json.dumps(first.calibration.to_dict()))
    method = Kriging(calibration=Calibration.from_dict(stored))
    again = explain_game(value, players=8, budget=40, method=method)
    assert method.calibration is not None
    np.testing.assert_allclose(again.values, first.values, atol=1e-12)
    assert first.calibration.quiet_variance is not None
