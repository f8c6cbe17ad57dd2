"""Kernels that rows share, against each row's own equations written out."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from games import Floats, network, smooth_table, table_game
from laws import SEEDS, few
from shearshap import Explanation, Kriging, explain, explain_game
from shearshap.methods.kriging.calibration import (
    FitSample,
    _from_vector,
    _to_vector,
    inflation,
    relevance_features,
)
from shearshap.methods.kriging.kernel import (
    nugget_and_size,
    odd_covariance,
    odd_kernel,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.methods.kriging.method import MANY_OUTPUTS
from shearshap.methods.kriging.pairs import OddEven, selected_pairs
from shearshap.methods.kriging.posterior import Process
from shearshap.methods.kriging.shared import MIN_SHARING_ROWS, Products, Refinement
from shearshap.result.calibration import Calibration

P = 8
PAIRS = 30
NUGGET = 1e-3
SIZE = 0.2  #: variance of the component of the size


def signs_of(players: int, pairs: int, seed: int = 0) -> Tensor:
    """The full coalition and some pairs that kriging would choose."""
    sides = selected_pairs(players, pairs, np.random.default_rng(seed))
    return torch.tensor(np.concatenate((np.ones((1, players)), 2.0 * sides - 1)))


def process_at(u: Tensor, r: Tensor) -> Process:
    return Process.from_covariance(u, odd_covariance(u, r, NUGGET, SIZE))


def relevance_of(rows: int, players: int, seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.uniform(0.05, 0.6, size=(rows, players)))


def network_parts(
    players: int, pairs: int, rows: int, activation: type[nn.Module] = nn.Softplus
) -> OddEven:
    """The odd and even parts of a network's games."""
    u = signs_of(players, pairs)
    x = torch.tensor(np.random.default_rng(1).normal(size=(rows, players)))
    net = network(players, activation=activation)
    inside = u > 0

    def values(sides: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = net(x[:, None] * sides)[..., 1]
        return answer

    unit, _ = OddEven.of(inside, values(inside), values(~inside)).normalised()
    return unit


# Products of players


@few
@given(seed=SEEDS, players=st.integers(3, 8))
def test_the_variances_of_all_products_sum_to_one(seed: int, players: int) -> None:
    """With 8 players or fewer, the odd products of three and more are of 3, 5 and 7 players."""
    r = relevance_of(4, players, seed)
    products = Products.from_relevances(signs_of(players, players), r, 10**6)
    np.testing.assert_allclose(products.variances(r).sum(1), 1, rtol=1e-10)
    some = Products.from_relevances(signs_of(players, players), r, 1)
    assert (some.variances(r).sum(1) <= 1 + 1e-12).all()


# Refinement


def dense_answer(u: Tensor, odd: Tensor, kernel: Tensor, cross: Tensor) -> tuple[Tensor, Tensor]:
    """Universal kriging by its block system: phi (p,) and o' P o."""
    m, p = u.shape
    system = torch.cat(
        (torch.cat((kernel, u), 1), torch.cat((u.mT, torch.zeros(p, p).double()), 1))
    )
    solved = torch.linalg.solve(system, torch.cat((odd, torch.zeros(p).double())))
    return 2 * solved[m:] + cross @ solved[:m], odd @ solved[:m]


class Centre:
    """One centre, its refinement, and the kernels of rows written out."""

    def __init__(self, seed: int, products: int) -> None:
        self.u = signs_of(P, PAIRS, seed)
        self.r = relevance_of(1, P, seed)
        self.products = Products.from_relevances(self.u, self.r, products)
        self.process = process_at(self.u, self.r)
        self.common = nugget_and_size(self.u, NUGGET, SIZE)
        self.refinement = Refinement.from_centre(
            self.process, self.products, self.r[0], self.common, NUGGET
        )

    def dense(self, odd: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
        """The answer of a row with variances v_T (f,) by its kernel and Shapley covariance."""
        unscaled, scale = odd_kernel(self.u, self.r)
        cross, _ = shapley_of_kernel(self.u, self.r)
        white, _ = shapley_of_white(self.u)
        g = (1 - variances.sum()) / (1 - self.refinement.variances.sum())
        own = variances - g * self.refinement.variances

        columns = self.products.columns
        kernel = (columns * own) @ columns.mT + g * unscaled[0] + self.common
        covariance = self.products.shapley @ (own[:, None] * columns.mT)
        covariance = covariance + g * cross[0] / scale[0, 0, 0] + NUGGET * white
        return dense_answer(self.u, odd, kernel, covariance)


@few
@given(seed=SEEDS)
def test_a_refinement_solves_the_rows_own_equations(seed: int) -> None:
    centre = Centre(seed, 40)
    rng = np.random.default_rng(seed)
    odd = torch.tensor(rng.normal(size=(4, PAIRS + 1)))
    variances = centre.products.variances(relevance_of(4, P, seed + 1))
    refined = centre.refinement.solve(odd, variances, 60)
    for n in range(4):
        slow, slow_square = centre.dense(odd[n], variances[n])
        np.testing.assert_allclose(refined.phi[n], slow, atol=1e-4 * float(slow.abs().max()))
        assert float(refined.squares[n]) == pytest.approx(float(slow_square), rel=1e-4)


def test_a_refinement_at_its_centre_is_the_exact_posterior() -> None:
    centre = Centre(0, 40)
    odd = torch.tensor(np.random.default_rng(0).normal(size=(3, PAIRS + 1)))
    exact = centre.process.answer(odd[None])
    variances = centre.refinement.variances.expand(3, -1)
    for steps in (1, 9):
        refined = centre.refinement.solve(odd, variances, steps)
        np.testing.assert_allclose(refined.phi, exact.mean[0], atol=1e-6)
        scale = refined.squares / max(PAIRS + 1 - P - 2, 1)
        np.testing.assert_allclose(scale, exact.scale[0], rtol=1e-6)
        np.testing.assert_allclose(refined.max_residual, exact.max_residual[0], rtol=1e-5)
        np.testing.assert_allclose(refined.rough_variance, exact.rough_variance[0], rtol=1e-5)


# Against every row's own kernel


@pytest.mark.slow
@pytest.mark.parametrize(("players", "pairs"), [(10, 50), (12, 120)])
def test_shared_kernels_are_close_to_each_rows_own(players: int, pairs: int) -> None:
    rows = np.random.default_rng(1).normal(size=(64, players))
    net = network(players, activation=nn.GELU)
    budget = 2 + 2 * pairs
    shared = explain(
        net, rows, reference=np.zeros(players), budget=budget, output=1, method="kriging"
    )
    assert isinstance(shared.calibration, Calibration)
    assert shared.calibration.centres

    own = replace(shared.calibration, centres=())
    exactly = explain(
        net, rows, reference=np.zeros(players), budget=budget, output=1, method=Kriging(own)
    )
    truth = explain(
        net, rows, reference=np.zeros(players), budget=1 << players, output=1, method="exact"
    ).values
    assert exactly.standard_errors is not None
    assert shared.standard_errors is not None
    apart = np.abs(shared.values - exactly.values) / exactly.standard_errors
    assert apart.mean() < 0.3
    assert np.abs(shared.values - truth).mean() < 1.05 * np.abs(exactly.values - truth).mean()
    ratio = np.log(shared.standard_errors / exactly.standard_errors)
    assert np.abs(ratio).mean() < 0.25


def explained(players: int, budget: int, rows: Floats, method: str | Kriging) -> Explanation:
    return explain(
        network(players),
        rows,
        reference=np.zeros(players),
        budget=budget,
        output=1,
        method=method,
        drop_null=False,  # null players are left out before kernels see them
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("players", "budget", "centres"), [(10, 100, 8), (20, 110, 8), (70, 600, 1)]
)
def test_a_row_depends_on_itself_and_the_calibration_alone(
    players: int, budget: int, centres: int
) -> None:
    """Alone, in another order, in another block, and with a calibration that was stored."""
    rows = np.random.default_rng(1).normal(size=(80, players))
    whole = explained(players, budget, rows, "kriging")
    assert isinstance(whole.calibration, Calibration)
    assert len(whole.calibration.centres) == centres
    stored = Calibration.from_dict(json.loads(json.dumps(whole.calibration.to_dict())))
    assert stored == whole.calibration

    for part in ([0], [41], [17, 3], list(range(79, 39, -1))):
        again = explained(players, budget, rows[part], Kriging(stored))
        size = np.abs(whole.values[part]).max(axis=1, keepdims=True)
        np.testing.assert_allclose(again.values / size, whole.values[part] / size, atol=1e-5)
        assert again.standard_errors is not None
        assert whole.standard_errors is not None
        np.testing.assert_allclose(again.standard_errors, whole.standard_errors[part], rtol=1e-4)


@pytest.mark.parametrize(
    ("players", "budget"),
    [
        (8, 60),
        pytest.param(12, 300, marks=pytest.mark.slow),
        pytest.param(70, 250, marks=pytest.mark.slow),
        pytest.param(70, 600, marks=pytest.mark.slow),
    ],
)
def test_pairwise_games_are_exact_with_shared_kernels(players: int, budget: int) -> None:
    """40 rows at once, by a few kernels and by one."""
    rng = np.random.default_rng(0)
    worth = rng.normal(size=players)
    upper = np.triu(rng.normal(size=(players, players)), 1)
    rows = rng.normal(size=(40, players))

    def value(x: Floats) -> Floats:
        return np.asarray(1.5 + x @ worth + np.einsum("ci,ij,cj->c", x, upper, x))

    answer = explain(value, rows, background=np.zeros(players), budget=budget, method="kriging")
    exact = rows * worth + rows * (rows @ (upper + upper.T)) / 2
    assert isinstance(answer.calibration, Calibration)
    assert answer.calibration.centres
    size = np.abs(value(rows)).max()
    np.testing.assert_allclose(answer.values, exact, atol=1e-12 * size)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12 * size)


@pytest.mark.parametrize(("players", "budget"), [(4, 10), (4, 15), (5, 30), (9, 20), (100, 204)])
def test_rows_of_nothing_and_few_pairs_are_no_trouble(players: int, budget: int) -> None:
    """A row that is the background, one that is almost, and one with a single player."""
    rows = np.random.default_rng(0).normal(size=(40, players))
    rows[3] = 0
    rows[4] *= 1e-6
    rows[5, 1:] = 0
    answer = explained(players, budget, rows, "kriging")
    assert isinstance(answer.calibration, Calibration)
    assert answer.calibration.centres
    assert answer.standard_errors is not None
    assert np.isfinite(answer.values).all()
    assert (answer.values[3] == 0).all()
    # nothing was seen of row 3 but one value
    known = np.isfinite(answer.standard_errors)
    assert known[np.arange(len(rows)) != 3].all()
    assert not known[3].any()
    np.testing.assert_allclose(answer.values[5, 1:], 0, atol=1e-10)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)


def test_outputs_of_any_size_share_kernels() -> None:
    """As exact as outputs of one size, since a row's size is taken out first."""
    plain = np.stack([smooth_table(8, seed) for seed in range(40)], axis=1)
    size = 10.0 ** np.random.default_rng(0).integers(-150, 150, size=40)
    answers = [
        explain_game(table_game(table), players=8, budget=80, method="kriging").values
        for table in (plain, plain * size)
    ]
    np.testing.assert_allclose(answers[1] / size, answers[0], atol=1e-4)


def test_equal_rows_have_equal_values() -> None:
    same = np.repeat(np.random.default_rng(0).normal(size=(1, 8)), 40, axis=0)
    answer = explained(8, 80, same, "kriging")
    assert isinstance(answer.calibration, Calibration)
    assert len(answer.calibration.centres) == 1
    np.testing.assert_allclose(np.ptp(answer.values, axis=0), 0, atol=1e-6)


# Outputs


@pytest.mark.parametrize("rows", [3, 40])
def test_many_outputs_have_one_kernel_for_each_row(rows: int) -> None:
    """Equal outputs have the values of one alone, and an output's size does not matter."""
    inputs = np.random.default_rng(0).normal(size=(rows, 8))
    net = network(8, outputs=1)
    size = 10.0 ** np.arange(-50, 50, 100 / MANY_OUTPUTS)

    def repeated(x: Floats) -> Floats:
        with torch.no_grad():
            return np.asarray(net(torch.tensor(x)).numpy() * size)

    options: dict[str, Any] = {"background": np.zeros(8), "budget": 80, "method": "kriging"}
    many = explain(repeated, inputs, **options)
    assert isinstance(many.calibration, Calibration)
    assert many.calibration.centres == ()
    assert many.standard_errors is not None

    own = Kriging(calibration=many.calibration)
    alone = explain(net, inputs, background=np.zeros(8), budget=80, method=own, output=0)
    assert alone.standard_errors is not None
    for output, factor in enumerate(size):
        np.testing.assert_allclose(many.values[..., output] / factor, alone.values, atol=1e-9)
        errors = many.standard_errors[..., output] / factor
        np.testing.assert_allclose(errors, alone.standard_errors, rtol=1e-6)


# Fitting


@few
@given(seed=SEEDS, level=st.sampled_from([0.0, 3.0, 12.0]))
def test_the_slope_of_the_fit_is_that_of_its_values(seed: int, level: float) -> None:
    """Against central differences; at a level of 12 some relevances are at their bound."""
    parts = network_parts(6, 20, 6)
    sample = FitSample.from_parts(parts, relevance_features(parts))
    rng = np.random.default_rng(seed)
    centre = _to_vector(Calibration.default(6))
    x = centre + torch.tensor(0.1 * rng.normal(size=len(centre)))
    x[0] += level
    x[4] = np.log(1e-2)
    _, slope = sample.minus_log_likelihood(_from_vector(x))
    for n in range(len(x)):
        h = torch.zeros_like(x)
        h[n] = 1e-5
        up, _ = sample.minus_log_likelihood(_from_vector(x + h))
        down, _ = sample.minus_log_likelihood(_from_vector(x - h))
        assert float(slope[n]) == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4)


# Factors and inflation


def test_inflation_by_nested_factors_is_that_of_separate_parts() -> None:
    """Moves in standard deviations, pooled: their 95 % quantile over 1.96, shrunk by 10 moves."""
    u = signs_of(P, PAIRS)
    m = PAIRS + 1
    r = relevance_of(3, P, 0)
    # rougher than the kernels say
    odd = torch.tensor(np.random.default_rng(0).normal(size=(3, 1, m)))
    whole = process_at(u, r).condition(odd)
    factors = [1.0]
    for size in ((m + P) // 2, (3 * m + P) // 4, (7 * m + P) // 8):
        part = process_at(u[:size], r).condition(odd[..., :size])
        expected = (part.scale * (part.variance - whole.variance)).sqrt()
        moves = ((whole.mean - part.mean) / expected).abs().flatten().numpy()
        factor = np.quantile(moves, 0.95) / 1.96
        factors.append(factor ** (len(moves) / (len(moves) + 10)))
    found = inflation(process_at(u, r), odd)
    assert 1 < found == pytest.approx(min(max(factors), 3.0), rel=1e-6)


def test_outputs_count_as_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(MIN_SHARING_ROWS // 2, 8))
    net = network(8, outputs=2)
    one = explain(net, rows, reference=np.zeros(8), budget=60, output=1, method="kriging")
    both = explain(net, rows, reference=np.zeros(8), budget=60, method="kriging")
    assert isinstance(one.calibration, Calibration)
    assert isinstance(both.calibration, Calibration)
    assert one.calibration.centres == ()
    assert len(both.calibration.centres) == 8
