"""The Gaussian process, against plain sums over all interactions."""

import json
from itertools import chain, combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from games import Floats, all_coalitions, network, smooth_table, table_game
from laws import SEEDS, few
from shearshap import Kriging, MethodError, explain, explain_game
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.calibration import (
    Detrended,
    minus_log_likelihood,
    pairwise_strengths,
    row_priors,
)
from shearshap.methods.kriging.kernel import (
    Part,
    odd_covariance,
    odd_even_kernels,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.methods.kriging.method import krige
from shearshap.methods.kriging.pairs import OddEven, selected_pairs
from shearshap.methods.kriging.posterior import Process

P = 5
R = np.random.default_rng(0).uniform(0.05, 0.8, size=P)
SIGNS = 2.0 * all_coalitions(P)[[31, 1, 2, 4, 8, 16, 3, 12, 7]] - 1
ODD = [T for T in chain(*(combinations(range(P), n) for n in range(3, P + 1))) if len(T) % 2]
EVEN = [T for T in chain(*(combinations(range(P), n) for n in range(2, P + 1))) if len(T) % 2 == 0]


def product(T: tuple[int, ...], x: Floats) -> float:
    return float(np.prod([x[j] for j in T]))


def test_kernels_are_the_sums_over_interactions() -> None:
    odd, even, scale, _ = odd_even_kernels(torch.tensor(SIGNS), torch.tensor(R)[None])
    for T_set, kernel in ((ODD, odd * scale), (EVEN, even)):
        slow = np.array(
            [
                [sum(product(T, R) * product(T, u) * product(T, w) for T in T_set) for w in SIGNS]
                for u in SIGNS
            ]
        )
        np.testing.assert_allclose(kernel[0] / kernel[0, 0, 0], slow / slow[0, 0], atol=1e-12)
    assert float(scale) == pytest.approx(sum(product(T, R) for T in ODD))


def test_the_shapley_functional_of_the_kernel() -> None:
    """phi_i of prod_{j in T} u_j is 2 / |T| for odd T with i."""
    cross, variance = shapley_of_kernel(torch.tensor(SIGNS), torch.tensor(R)[None])
    slow = [
        [sum(2 / len(T) * product(T, R) * product(T, u) for T in ODD if i in T) for u in SIGNS]
        for i in range(P)
    ]
    np.testing.assert_allclose(cross[0], slow, atol=1e-12)
    slow_variance = [sum(4 / len(T) ** 2 * product(T, R) for T in ODD if i in T) for i in range(P)]
    np.testing.assert_allclose(variance[0], slow_variance, atol=1e-12)


def test_the_shapley_functional_of_white_variance() -> None:
    """o independent on the 16 pairs: the functional's covariance with each is its coefficient in eq. 3."""
    everyone = all_coalitions(P)[16:]  # the side with the last player stands for each pair
    cross, variance = shapley_of_white(torch.tensor(2.0 * everyone - 1))
    for n, side in enumerate(everyone):
        table = np.zeros(1 << P)
        index = int(side @ (1 << np.arange(P)))
        table[index], table[31 ^ index] = 1, -1
        exact = explain_game(table_game(table), players=P, budget=1 << P).values[0]
        np.testing.assert_allclose(cross[:, n], exact, atol=1e-12)
    np.testing.assert_allclose(cross.square().sum(dim=1), variance, atol=1e-12)


def slow_krige(u: Floats, odd: Floats, kernel: Floats, cross: Floats) -> Floats:
    """Universal kriging by its block system."""
    m, p = u.shape
    system = np.block([[kernel, u], [u.T, np.zeros((p, p))]])
    solved = np.linalg.solve(system, np.append(odd, np.zeros(p)))
    return np.asarray(2 * solved[m:] + cross @ solved[:m])


def test_the_posterior_mean_solves_the_kriging_system() -> None:
    game = table_game(smooth_table(P, 3))
    sides = SIGNS > 0
    inside, outside = game(sides), game(~sides)
    calibration = Calibration(players=(0.1,) * P, nugget=1e-3)
    parts = OddEven.of(torch.tensor(sides), torch.tensor(inside)[None], torch.tensor(outside)[None])
    r, _ = row_priors(parts, calibration)
    kernel, _, scale, _ = odd_even_kernels(parts.signs, r)
    cross = shapley_of_kernel(parts.signs, r)[0] / scale + 1e-3 * shapley_of_white(parts.signs)[0]
    slow = slow_krige(
        SIGNS.astype(np.float64),
        (inside - outside) / 2,
        kernel[0].numpy() + 1e-3 * np.eye(len(SIGNS)),
        cross[0].numpy(),
    )
    phi, errors = krige(parts, calibration, None)
    np.testing.assert_allclose(phi[0, 0], slow, atol=1e-8)
    assert (errors > 0).all()


def test_pairwise_strengths_are_a_ridge_regression_on_products() -> None:
    rng = np.random.default_rng(0)
    u = 2.0 * all_coalitions(P)[16:] - 1
    even = rng.normal(size=(3, 16))
    parts = OddEven(torch.tensor(u), torch.zeros(3, 16), torch.tensor(even))
    pairs = list(combinations(range(P), 2))
    X = np.array([[w[i] * w[j] for i, j in pairs] for w in u])
    X = X - X.mean(axis=0)
    ridge = 0.03 * len(pairs)
    centred = even - even.mean(axis=1, keepdims=True)
    coefficients = centred @ np.linalg.inv(X @ X.T + ridge * np.eye(16)) @ X
    slow = [
        [sum(row[n] ** 2 for n, pair in enumerate(pairs) if j in pair) for j in range(P)]
        for row in coefficients
    ]
    np.testing.assert_allclose(pairwise_strengths(parts), slow, rtol=1e-6)


def slow_kernel(T_set: list[tuple[int, ...]], u: Tensor, r: Tensor) -> Tensor:
    """The kernel of one row as a plain sum over interactions, with a unit diagonal."""
    terms = [r[list(T)].prod() * torch.outer(*2 * [u[:, T].prod(1)]) for T in T_set]
    kernel = torch.stack(terms).sum(0)
    return kernel / kernel[0, 0]


def slow_minus_log_likelihood(kernel: Tensor, trend: Tensor, y: Tensor) -> Tensor:
    """That of one row, by inverses and determinants."""
    inverse = torch.linalg.inv(kernel)
    middle = trend.mT @ inverse @ trend
    projection = inverse - inverse @ trend @ torch.linalg.inv(middle) @ trend.mT @ inverse
    freedom = len(trend) - trend.shape[1]
    square = torch.log(y @ projection @ y)
    return (torch.logdet(kernel) + torch.logdet(middle) + freedom * square) / 2


@pytest.mark.parametrize("part", ["odd", "even"])
@given(seed=SEEDS)
@few
def test_the_likelihood_and_its_slopes(part: Part, seed: int) -> None:
    """Against plain formulas, which torch differentiates."""
    rng = np.random.default_rng(seed)
    u = torch.tensor(2.0 * all_coalitions(P)[16:] - 1)
    r = torch.tensor(rng.uniform(0.01, 0.9, size=(2, P))).requires_grad_()
    nugget = torch.tensor(0.05).double().requires_grad_()
    T_set = ODD if part == "odd" else EVEN
    trend = u if part == "odd" else torch.ones_like(u[:, :1])
    seen = Detrended.from_values(trend, torch.tensor(rng.normal(size=(2, len(u)))))

    found = minus_log_likelihood(part, u, r.detach(), float(nugget.detach()), seen)
    kernels = [slow_kernel(T_set, u, row) + nugget * torch.eye(len(u)).double() for row in r]
    slow = sum(
        slow_minus_log_likelihood(kernel, trend, y)
        for kernel, y in zip(kernels, seen.residuals, strict=True)
    )
    assert isinstance(slow, Tensor)
    slow.backward()
    assert r.grad is not None
    assert nugget.grad is not None
    assert float(found.value) == pytest.approx(float(slow.detach()), abs=1e-8)
    np.testing.assert_allclose(found.in_relevances, r.grad, atol=1e-7)
    assert float(found.in_nugget) == pytest.approx(float(nugget.grad), abs=1e-7)


def test_rows_without_residuals_say_nothing_of_the_likelihood() -> None:
    """A linear odd part leaves only rounding errors: it counts neither for the value nor its slope."""
    rng = np.random.default_rng(0)
    u = torch.tensor(2.0 * all_coalitions(P)[16:] - 1)
    rough = torch.tensor(rng.normal(size=(1, len(u))))
    linear = torch.tensor(rng.normal(size=(1, P))) @ u.mT
    r = torch.tensor(np.stack((R, R)))
    both = minus_log_likelihood(
        "odd", u, r, 0.01, Detrended.from_values(u, torch.cat((rough, linear)))
    )
    alone = minus_log_likelihood("odd", u, r[:1], 0.01, Detrended.from_values(u, rough))
    assert float(both.value) == pytest.approx(float(alone.value), abs=1e-10)
    np.testing.assert_allclose(both.in_relevances[0], alone.in_relevances[0], atol=1e-10)
    assert (both.in_relevances[1] == 0).all()
    assert float(both.in_nugget) == pytest.approx(float(alone.in_nugget), abs=1e-10)


def test_constant_games_and_null_players_stay_finite() -> None:
    flat = explain_game(lambda z: np.full(len(z), 3.0), players=6, budget=40, method="kriging")
    assert (flat.values == 0).all()
    assert flat.standard_errors is not None
    assert not np.isfinite(flat.standard_errors).any()  # 24 coalitions were not evaluated
    null = explain_game(
        lambda z: z[:, 0] * z[:, 1] * z[:, 2] * 1.0, players=8, budget=100, method="kriging"
    )
    np.testing.assert_allclose(null.values[0], [1 / 3] * 3 + [0] * 5, atol=0.02)


def test_a_calibration_can_be_kept_and_given_back() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 8))
    first = explain(network(8), rows, reference=np.zeros(8), budget=100, output=1)
    assert first.method == "kriging"
    kept = Calibration.from_dict(first.calibration.to_dict())
    again = explain(
        network(8), rows[5:7], reference=np.zeros(8), budget=100, output=1, method=Kriging(kept)
    )
    np.testing.assert_allclose(again.values, first.values[5:7], atol=1e-10)
    assert again.calibration == kept
    with pytest.raises(MethodError, match="expected one fitted to 4 features, got 8"):
        explain(network(4), rows[:, :4], reference=np.zeros(4), budget=14, method=Kriging(kept))


def staged(*pairs: int, players: int = 8) -> Calibration:
    """Stages of so many pairs, each with a nugget of its own."""
    fits = [
        Calibration(nugget=1e-3 / count, players=(0.1,) * players, pairs=count) for count in pairs
    ]
    return Calibration.joined(players, fits)


@pytest.mark.parametrize(
    "calibration",
    [Calibration(players=(0.5, -0.25), quiet_variance=0.1, centres=((0.1, 0.2),)), staged(16, 40)],
)
def test_calibrations_survive_json(calibration: Calibration) -> None:
    text = json.dumps(calibration.to_dict())
    assert Calibration.from_dict(json.loads(text)) == calibration


def test_an_explanation_takes_the_stage_of_its_budget() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    both = staged(16, 40)
    for budget, pairs in ((2 + 2 * 16, 16), (2 + 2 * 30, 16), (2 + 2 * 40, 40)):
        answers = [
            explain(network(8), rows, reference=np.zeros(8), budget=budget, method=Kriging(given))
            for given in (both, both.at(8, pairs))
        ]
        np.testing.assert_array_equal(answers[0].values, answers[1].values)
        assert answers[0].calibration == both
        assert answers[1].calibration == both.at(8, pairs)


def test_calibration_is_deterministic_and_reads_a_few_hundred_rows_at_most() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 8))
    whole = explain(network(8), rows, reference=np.zeros(8), budget=60, output=1)
    pilot = explain(
        network(8), rows[: Kriging.pilot_rows], reference=np.zeros(8), budget=60, output=1
    )
    assert whole.calibration == pilot.calibration


def test_near_singular_kernels_get_a_larger_nugget() -> None:
    """A very smooth game at a budget near all coalitions."""
    worth = np.linspace(0.01, 0.02, 9)
    answer = explain_game(lambda z: np.exp(z @ worth), players=9, budget=500, method="kriging")
    exact = explain_game(lambda z: np.exp(z @ worth), players=9, budget=512)
    np.testing.assert_allclose(answer.values, exact.values, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("activation", [torch.nn.ReLU, torch.nn.GELU])
def test_intervals_hold_the_exact_values_and_errors_are_below_leverage(
    activation: type[torch.nn.Module],
) -> None:
    """Small and quick; benchmarks/accuracy.py has the trained networks."""
    rows = np.random.default_rng(0).normal(size=(40, 11))
    net = network(11, activation=activation)
    exact = explain(net, rows, reference=np.zeros(11), budget=1 << 11, output=1).values
    for each in (8, 16, 32):
        errors = {}
        for method in ("kriging", "leverage"):
            answer = explain(
                net, rows, reference=np.zeros(11), budget=each * 11, output=1, method=method
            )
            errors[method] = np.abs(answer.values - exact)
            if answer.standard_errors is not None:
                assert 0.8 < (errors[method] <= 1.96 * answer.standard_errors).mean() < 0.995
        assert errors["kriging"].mean() < 0.8 * errors["leverage"].mean()


def process_rows(rows: int, players: int, r: Floats, seed: int) -> tuple[OddEven, Floats]:
    """Games drawn from the process itself, seen at some pairs, and their Shapley values."""
    rng = np.random.default_rng(seed)
    sides = selected_pairs(players, 40, rng)
    u = np.concatenate((np.ones((1, players)), 2.0 * sides - 1))
    linear = rng.normal(size=(rows, players))
    odd = linear @ u.T
    phi = 2 * linear
    for size in range(3, players + 1, 2):
        for T in combinations(range(players), size):
            c = rng.normal(size=rows) * np.sqrt(product(T, r))
            odd += c[:, None] * np.prod(u[:, T], axis=1)
            phi[:, T] += 2 * c[:, None] / size
    even = torch.zeros(rows, len(u)).double()
    return OddEven(torch.tensor(u), torch.tensor(odd), even), phi


def test_standard_errors_are_right_where_the_process_is() -> None:
    """Games from the prior: standardised errors have unit variance (Student's, hence the correction of the scale)."""
    r = np.linspace(0.05, 0.5, 8)
    parts, truth = process_rows(600, 8, r, 0)
    covariance = odd_covariance(parts.signs, torch.tensor(r)[None], 0.0)
    process = Process.from_covariance(parts.signs, covariance)
    means, variances, scales, _ = process.condition(parts.odd[None])
    z = (means[0].numpy() - truth) / np.sqrt((scales * variances)[0].numpy())
    assert 0.93 < (z**2).mean() < 1.07
    assert 0.93 < (abs(z) < 1.96).mean() < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 2, 6, 12])
def test_few_pairs_have_students_intervals(more: int) -> None:
    """At 1, 2, 4 and 7 degrees of freedom; with fewer than seven no row stops.

    With single players alone nothing shows how rough a game is, and intervals are wider.
    """
    held = []
    rows = np.random.default_rng(0).normal(size=(60, 8))
    for seed in range(4):
        torch.manual_seed(seed)
        first = nn.Linear(8, 32)
        first.weight.data *= 2
        net = nn.Sequential(first, nn.GELU(), nn.Linear(32, 1)).double()
        exact = explain(net, rows, reference=np.zeros(8), budget=256, method="exact")
        kriged = explain(net, rows, reference=np.zeros(8), budget=18 + more, method="kriging")
        assert kriged.degrees_of_freedom == 1 + more // 2
        lower, upper = kriged.interval()
        held.append((lower <= exact.values) & (exact.values <= upper))
        stopped = explain(
            net, rows, reference=np.zeros(8), budget=18 + more, method="kriging", tol=0.1
        )
        assert stopped.converged is not None
        assert stopped.converged.any() == (more == 12)
    assert 0.9 < np.mean(held) < (0.99 if more else 0.998)
