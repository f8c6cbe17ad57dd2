"""Kernels that rows share, against each row's own equations written out."""

import json
from itertools import combinations
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
from shearshap.methods.kriging import calibration_from_dict
from shearshap.methods.kriging.calibrating import calibrate
from shearshap.methods.kriging.effort import FEW_ROWS, MANY_OUTPUTS, PLAIN, effort, shares_kernels
from shearshap.methods.kriging.fitting import FitSample, Parameters
from shearshap.methods.kriging.inflation import inflation
from shearshap.methods.kriging.kernels import odd_kernel, shapley_of_kernel, shapley_of_white
from shearshap.methods.kriging.left_out import LeaveOneOut
from shearshap.methods.kriging.minimising import minimise
from shearshap.methods.kriging.odd_even import OddEven
from shearshap.methods.kriging.pair_selection import selected_pairs
from shearshap.methods.kriging.posterior import condition, factorised
from shearshap.methods.kriging.products import Products
from shearshap.methods.kriging.quiet import row_priors
from shearshap.methods.kriging.refinement import Refinement
from shearshap.methods.kriging.relevances import (
    LARGEST_LOGIT,
    LARGEST_RELEVANCE,
    logits,
    relevance_features,
)
from shearshap.methods.kriging.row_answers import exactly_kriged
from shearshap.methods.kriging.shared import FAR, SharedKernels, central_rows
from shearshap.methods.kriging.variances import VarianceRule
from shearshap.result.calibration import Calibration

P = 8
PAIRS = 30
NUGGET = 1e-3


def signs_of(players: int, pairs: int, seed: int = 0) -> Tensor:
    """The full coalition and some pairs that kriging would choose."""
    sides = selected_pairs(players, pairs, np.random.default_rng(seed))
    return torch.tensor(np.concatenate((np.ones((1, players)), 2.0 * sides - 1)))


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


def test_products_are_what_they_say() -> None:
    u = signs_of(P, PAIRS)
    products = Products.of(u, relevance_of(3, P, 0), 40)
    for n, members in enumerate(products.members):
        T = torch.nonzero(members)[:, 0]
        np.testing.assert_array_equal(products.columns[:, n], u[:, T].prod(1))
        np.testing.assert_allclose(products.shapley[:, n], 2 * members / len(T), atol=1e-15)
        assert len(T) in (3, 5, 7)


def test_the_products_kept_have_the_largest_mean_variance() -> None:
    r = relevance_of(3, P, 0)
    products = Products.of(signs_of(P, PAIRS), r, 40)
    odd = [T for size in (3, 5, 7) for T in combinations(range(P), size)]
    scale = torch.stack([r[:, T].prod(1) for T in odd]).sum(0)
    by_T = {T: float((r[:, T].prod(1) / scale).mean()) for T in odd}
    largest = sorted(odd, key=lambda T: -by_T[T])[:40]
    kept = {tuple(torch.nonzero(members)[:, 0].tolist()) for members in products.members}
    assert kept == set(largest)
    np.testing.assert_allclose(
        products.variances(r).mean(0).sum(), sum(by_T[T] for T in largest), rtol=1e-12
    )


@few
@given(seed=SEEDS, players=st.integers(3, 8))
def test_the_variances_of_all_products_sum_to_one(seed: int, players: int) -> None:
    """With 8 players or fewer, the odd products of three and more are of 3, 5 and 7 players."""
    r = relevance_of(4, players, seed)
    products = Products.of(signs_of(players, players), r, 10**6)
    np.testing.assert_allclose(products.variances(r).sum(1), 1, rtol=1e-10)
    some = Products.of(signs_of(players, players), r, 1)
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
        self.products = Products.of(self.u, self.r, products)
        self.factors = factorised(self.u, self.r, NUGGET)
        self.refinement = Refinement.of(self.u, self.factors, self.products, self.r[0], NUGGET)

    def dense(self, odd: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
        """The answer of a row with variances v_T (f,) by its kernel and Shapley covariance."""
        unscaled, scale = odd_kernel(self.u, self.r)
        cross, _ = shapley_of_kernel(self.u, self.r)
        white, _ = shapley_of_white(self.u)
        g = (1 - variances.sum()) / (1 - self.refinement.variances.sum())
        own = variances - g * self.refinement.variances

        columns = self.products.columns
        eye = torch.eye(len(self.u)).double()
        kernel = (columns * own) @ columns.mT + g * unscaled[0] + NUGGET * eye
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
    exact = condition(centre.factors, odd[None])
    variances = centre.refinement.variances.expand(3, -1)
    for steps in (1, 9):
        refined = centre.refinement.solve(odd, variances, steps)
        np.testing.assert_allclose(refined.phi, exact.mean[0], atol=1e-6)
        scale = refined.squares / max(PAIRS + 1 - P - 2, 1)
        np.testing.assert_allclose(scale, exact.scale[0], rtol=1e-6)


def test_pairs_left_out_of_a_refinement_at_its_centre_are_those_of_the_exact_answer() -> None:
    centre = Centre(0, 40)
    odd = torch.tensor(np.random.default_rng(0).normal(size=(3, PAIRS + 1)))
    residual = condition(centre.factors, odd[None]).residual
    exact = LeaveOneOut.of(centre.u, centre.factors).given(residual)
    variances = centre.refinement.variances.expand(3, -1)
    refined = centre.refinement.solve(odd, variances, 9)
    np.testing.assert_allclose(refined.surprise, exact.surprise[0], rtol=1e-5)
    np.testing.assert_allclose(refined.rough_variance, exact.variance[0], rtol=1e-5)


@pytest.mark.parametrize("activation", [nn.GELU, nn.ReLU, nn.Softplus])
def test_pairs_left_out_of_refined_rows_are_about_those_of_exact_ones(
    activation: type[nn.Module],
) -> None:
    """The diagonal of P is the centre's. What it makes is about right near it, for each row."""
    parts = network_parts(10, 60, 64, activation)
    calibration, shared = calibrate(parts)
    assert shared is not None
    prior = row_priors(parts, relevance_features(parts), calibration)
    refined = shared.kriged(parts)
    exact = exactly_kriged(parts.signs, parts.odd_by_row, prior, shared.nugget)

    distance = torch.cdist(logits(prior.relevance), logits(shared.centres)).amin(1)
    near = (distance < FAR) & (distance > 0)
    assert int(near.sum()) > 10
    surprises = (refined.surprise / exact.surprise)[near].log().abs()
    deviations = (refined.rough_variance / exact.rough_variance)[near].log().abs() / 2
    assert float(surprises.mean()) < 0.35
    assert float(deviations.mean()) < 0.35
    assert float(surprises.max()) < 1.2

    at_centre = distance == 0
    np.testing.assert_allclose(
        refined.surprise[at_centre], exact.surprise[at_centre], rtol=2e-2, atol=1e-6
    )


def test_converged_rows_stay_as_they_are() -> None:
    """The same row, alone with as many steps as it needs, and beside rows that need more."""
    centre = Centre(0, 40)
    odd = torch.tensor(np.random.default_rng(0).normal(size=(3, PAIRS + 1)))
    near = centre.refinement.variances * 0.999
    far = centre.products.variances(relevance_of(2, P, 5))
    alone = centre.refinement.solve(odd[:1], near[None], 60)
    beside = centre.refinement.solve(odd, torch.cat((near[None], far)), 60)
    for few_steps, many in zip(alone, beside, strict=True):
        np.testing.assert_allclose(many[:1], few_steps, rtol=1e-6)


def test_odd_parts_of_nothing_are_nothing() -> None:
    centre = Centre(0, 40)
    variances = centre.products.variances(relevance_of(2, P, 5))
    refined = centre.refinement.solve(torch.zeros(2, PAIRS + 1).double(), variances, 9)
    for field in (refined.phi, refined.squares, refined.surprise, refined.rough_variance):
        assert (field == 0).all()


def test_a_refinement_does_not_depend_on_the_rows_beside_it() -> None:
    """Long before it has converged: rounding errors must not grow from step to step."""
    parts = network_parts(12, 150, 40)
    calibration, shared = calibrate(parts)
    assert shared is not None
    assert len(calibration.centres) == effort(*parts.signs.shape).centres
    together = shared.kriged(parts)
    each = [shared.kriged(parts.take(torch.tensor([n]))) for n in range(40)]
    means = torch.cat([alone.mean for alone in each])
    scales = torch.cat([alone.scale for alone in each])
    deviations = (together.scale * together.variance).sqrt()
    assert float(((means - together.mean) / deviations).abs().max()) < 0.01
    np.testing.assert_allclose(scales, together.scale, rtol=1e-4)
    surprises = torch.cat([alone.surprise for alone in each])
    np.testing.assert_allclose(surprises, together.surprise, rtol=1e-2)


# Against every row's own kernel


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

    own = calibration_from_dict({**shared.calibration.to_dict(), "centres": []})
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
    stored = calibration_from_dict(json.loads(json.dumps(whole.calibration.to_dict())))
    assert stored == whole.calibration

    for part in ([0], [41], [17, 3], list(range(79, 39, -1))):
        again = explained(players, budget, rows[part], Kriging(stored))
        size = np.abs(whole.values[part]).max(axis=1, keepdims=True)
        np.testing.assert_allclose(again.values / size, whole.values[part] / size, atol=1e-5)
        assert again.standard_errors is not None
        assert whole.standard_errors is not None
        np.testing.assert_allclose(again.standard_errors, whole.standard_errors[part], rtol=1e-4)


def test_a_calibration_stored_without_centres_still_loads() -> None:
    calibration = Calibration(level=-2.0, players=(0.5, -0.25))
    old = calibration.to_dict()
    del old["centres"]
    assert calibration_from_dict(old) == calibration
    assert Calibration.from_dict(old).at(9).centres == ()


@pytest.mark.parametrize(("players", "budget"), [(8, 60), (12, 300), (70, 250), (70, 600)])
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


def test_games_are_spread_over_rows_and_outputs() -> None:
    zeros = torch.zeros(12 * 9, 4).double()
    parts = OddEven(torch.ones(4, 3).double(), zeros, zeros, outputs=9)
    few = parts.spread_games(6)
    assert len(set((few // 9).tolist())) == 6
    assert len(set((few % 9).tolist())) == 6
    many = parts.spread_games(50)
    assert len(set(many.tolist())) == 50
    assert set((many // 9).tolist()) == set(range(12))
    assert set((many % 9).tolist()) == set(range(9))


# Variances


def test_the_variance_rule_is_right_between_its_rows() -> None:
    parts = network_parts(10, 60, 64)
    calibration, shared = calibrate(parts)
    assert shared is not None
    prior = row_priors(parts, relevance_features(parts), calibration)
    relevance = prior.relevance
    exact = exactly_kriged(parts.signs, parts.odd_by_row, prior, shared.nugget).variance[:, 0]
    rule = VarianceRule.fitted(relevance[::8], exact[::8])
    found = rule.variances(relevance)
    assert float((found / exact).log().abs().mean()) < 0.5
    assert (found > 0).all()


@few
@given(seed=SEEDS)
def test_the_variance_rule_is_bounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variance = torch.tensor(rng.lognormal(size=(5, P)))
    rule = VarianceRule.fitted(relevance_of(5, P, seed), variance)
    far = torch.tensor(rng.uniform(1.2e-4, 0.949, size=(50, P)))
    found = rule.variances(far)
    assert float(found.min()) >= float(variance.min()) / np.e * (1 - 1e-9)
    assert float(found.max()) <= float(variance.max()) * np.e * (1 + 1e-9)


# Fitting


def test_a_quadratic_has_its_minimum_found() -> None:
    rng = np.random.default_rng(0)
    root = torch.tensor(rng.normal(size=(6, 6)))
    matrix = root @ root.mT + torch.eye(6).double()
    target = torch.tensor(rng.normal(size=6))

    def function(x: Tensor) -> tuple[float, Tensor]:
        slope = matrix @ (x - target)
        return float(0.5 * (x - target) @ slope), slope

    found = minimise(function, torch.zeros(6).double(), 100)
    np.testing.assert_allclose(found, target, atol=1e-3)


def rosenbrock(x: Tensor) -> tuple[float, Tensor]:
    a, b = x.tolist()
    slope = [-2 * (1 - a) - 40 * a * (b - a * a), 20 * (b - a * a)]
    return (1 - a) ** 2 + 10 * (b - a * a) ** 2, x.new_tensor(slope)


def test_a_curved_valley_is_followed_to_its_end() -> None:
    found = minimise(rosenbrock, torch.tensor([-1.2, 1.0]).double(), 200)
    np.testing.assert_allclose(found, [1, 1], atol=1e-2)


@given(a=st.floats(-30, 30), b=st.floats(-30, 30), steps=st.integers(0, 8))
def test_the_minimum_is_never_above_the_start(a: float, b: float, steps: int) -> None:
    start = torch.tensor([a, b]).double()
    assert rosenbrock(minimise(rosenbrock, start, steps))[0] <= rosenbrock(start)[0]


def test_where_nothing_slopes_the_start_is_the_minimum() -> None:
    start = torch.tensor([1.0, 2.0])
    assert (minimise(lambda x: (3.0, torch.zeros_like(x)), start, 8) == start).all()


def test_values_that_are_not_numbers_are_no_minimum() -> None:
    def function(x: Tensor) -> tuple[float, Tensor]:
        inside = bool((x.abs() < 0.5).all())
        return (float(x.sum()) if inside else float("nan")), torch.ones_like(x)

    found = minimise(function, torch.zeros(2).double(), 8)
    assert (found.abs() < 0.5).all()
    assert float(found.sum()) < 0


@few
@given(seed=SEEDS, level=st.sampled_from([0.0, 3.0, 12.0]))
def test_the_slope_of_the_fit_is_that_of_its_values(seed: int, level: float) -> None:
    """Against central differences; at a level of 12 some relevances are at their bound."""
    parts = network_parts(6, 20, 6)
    sample = FitSample.of(parts, relevance_features(parts))
    rng = np.random.default_rng(seed)
    centre = Parameters.prior_centre(6, parts.signs).to_vector()
    x = centre + torch.tensor(0.1 * rng.normal(size=len(centre)))
    x[0] += level
    x[4] = np.log(1e-2)
    _, slope = sample.minus_log_likelihood(x)
    for n in range(len(x)):
        h = torch.zeros_like(x)
        h[n] = 1e-5
        up, _ = sample.minus_log_likelihood(x + h)
        down, _ = sample.minus_log_likelihood(x - h)
        assert float(slope[n]) == pytest.approx(float(up - down) / 2e-5, rel=1e-4, abs=1e-4)


# Factors and inflation


def test_the_first_factors_are_those_of_the_first_pairs() -> None:
    u = signs_of(P, PAIRS)
    r = relevance_of(3, P, 0)
    nested = factorised(u, r, NUGGET).first(20)
    direct = factorised(u[:20], r, NUGGET)
    for ours, theirs in zip(nested, direct, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_inflation_by_nested_factors_is_that_of_separate_parts() -> None:
    """Moves in standard deviations, pooled: their 95 % quantile over 1.96, shrunk by 10 moves."""
    u = signs_of(P, PAIRS)
    m = PAIRS + 1
    r = relevance_of(3, P, 0)
    # rougher than the kernels say
    odd = torch.tensor(np.random.default_rng(0).normal(size=(3, 1, m)))
    whole = condition(factorised(u, r, NUGGET), odd)
    factors = [1.0]
    for size in ((m + P) // 2, (3 * m + P) // 4, (7 * m + P) // 8):
        part = condition(factorised(u[:size], r, NUGGET), odd[..., :size])
        expected = (part.scale * (part.variance - whole.variance)).sqrt()
        moves = ((whole.mean - part.mean) / expected).abs().flatten().numpy()
        factor = np.quantile(moves, 0.95) / 1.96
        factors.append(factor ** (len(moves) / (len(moves) + 10)))
    found = inflation(factorised(u, r, NUGGET), odd)
    assert 1 < found == pytest.approx(min(max(factors), 3.0), rel=1e-6)


# Effort


@given(pairs=st.integers(2, 5000), players=st.integers(3, 200))
def test_effort_is_plain_or_within_its_bounds(pairs: int, players: int) -> None:
    work = effort(pairs, players)
    assert work == effort(pairs, players)
    if work != PLAIN:
        assert 4 <= work.centres <= 8
        assert 9 <= work.steps <= 28
        assert work.products >= 4 * pairs + 128
        assert pairs <= 1024


def test_many_players_have_one_kernel() -> None:
    assert effort(126, 70).centres == 8
    assert effort(301, 70) is PLAIN
    assert effort(2000, 20) is PLAIN
    assert effort(50, 20).centres == 8


def test_few_rows_have_kernels_of_their_own() -> None:
    assert not shares_kernels(FEW_ROWS - 1, 100)
    assert shares_kernels(FEW_ROWS, 100)
    assert shares_kernels(2, 1000)
    assert not shares_kernels(2, 700)
    assert not shares_kernels(1, 5000)


def test_outputs_count_as_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(FEW_ROWS // 2, 8))
    net = network(8, outputs=2)
    one = explain(net, rows, reference=np.zeros(8), budget=60, output=1, method="kriging")
    both = explain(net, rows, reference=np.zeros(8), budget=60, method="kriging")
    assert isinstance(one.calibration, Calibration)
    assert isinstance(both.calibration, Calibration)
    assert one.calibration.centres == ()
    assert len(both.calibration.centres) == 8


# Centres


def test_centres_are_rows_that_stand_for_all() -> None:
    """Three groups of rows: a centre in each."""
    rng = np.random.default_rng(0)
    logit = np.repeat([[-4.0], [0.0], [4.0]], 10, axis=0) + 0.1 * rng.normal(size=(30, 3))
    relevance = torch.tensor(LARGEST_RELEVANCE / (1 + np.exp(-logit)))
    assert sorted(int(row) // 10 for row in central_rows(relevance, 3)) == [0, 1, 2]
    assert len(central_rows(relevance[:2], 8)) == 2
    assert np.abs(logit).max() < LARGEST_LOGIT


def test_equal_rows_need_one_centre() -> None:
    assert len(central_rows(torch.full((40, 3), 0.3).double(), 8)) < 40
    calibration = Calibration(players=(0.0,) * P, centres=((0.3,) * P,) * 3)
    parts = network_parts(P, PAIRS, 5)
    again = SharedKernels.of(parts.signs, calibration).kriged(parts)
    once = Calibration(players=(0.0,) * P, centres=((0.3,) * P,))
    alone = SharedKernels.of(parts.signs, once).kriged(parts)
    np.testing.assert_allclose(again.mean, alone.mean, atol=1e-9)
