"""Pairs left out one at a time: against solving again without them, and on games that jump or not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from games import Bools, Floats, Value, all_coalitions, exact_shares, network
from laws import SEEDS, few
from shearshap import explain_game
from shearshap.methods.kriging.calibration import PilotGames, Prior, row_priors
from shearshap.methods.kriging.kernel import (
    nugget_and_size,
    odd_covariance,
    odd_kernel,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.methods.kriging.method import krige
from shearshap.methods.kriging.pairs import OddEven, selected_pairs
from shearshap.methods.kriging.posterior import Factors, Process
from shearshap.methods.kriging.shared import calibrate
from shearshap.result.calibration import Calibration

NUGGET = 1e-3


def process_at(u: Tensor, r: Tensor, precision: Tensor | None = None) -> Process:
    """The process at pairs u (m, p), relevances and precisions (k, p)."""
    return Process.from_covariance(u, odd_covariance(u, r, NUGGET), precision)


def pair_signs(players: int, pairs: int, seed: int = 0) -> Tensor:
    """The full coalition, all single players, and then other pairs as far as there are any."""
    sides = all_coalitions(players)[1 : 1 << players - 1]  # those without the last player
    size = sides.sum(axis=1)
    others = sides[(size > 1) & (size < players - 1)]
    drawn = np.random.default_rng(seed).permutation(others)[: pairs - players]
    singles = np.eye(players, dtype=bool)
    both = np.concatenate((np.ones((1, players), dtype=bool), singles, drawn))
    return torch.tensor(2.0 * both - 1)


def relevance_of(players: int, seed: int = 0) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).uniform(0.05, 0.6, size=(1, players)))


def slow_residual(u: Tensor, kernel: Tensor, precision: Tensor, odd: Tensor, pair: int) -> float:
    """How far universal kriging from all pairs but one is off at that one, by its block system."""
    others = torch.arange(len(u)) != pair
    p = u.shape[1]
    known = u[others]
    system = torch.cat(
        (
            torch.cat((kernel[others][:, others], known), 1),
            torch.cat((known.mT, -torch.diag(precision)), 1),
        )
    )
    solved = torch.linalg.solve(system, torch.cat((odd[others], torch.zeros(p).double())))
    alpha, beta = solved.split([len(known), p])
    predicted = kernel[pair, others] @ alpha + u[pair] @ beta
    return float(odd[pair] - predicted)


def slow_residuals(u: Tensor, r: Tensor, precision: Tensor, odd: Tensor) -> Floats:
    """Every pair's residual when it is left out, (m,)."""
    kernel, _ = odd_kernel(u, r)
    with_nugget = kernel[0] + NUGGET * torch.eye(len(u)).double()
    return np.array(
        [slow_residual(u, with_nugget, precision[0], odd, pair) for pair in range(len(u))]
    )


def precision_of(players: int, seed: int) -> Tensor:
    """Of the trend's prior: flat for some players, (1, p)."""
    rng = np.random.default_rng(seed)
    proper = rng.random(players) < 0.5
    return torch.tensor(proper * rng.lognormal(size=players))[None]


def slow_weights(u: Tensor, r: Tensor, precision: Tensor) -> Floats:
    """What a unit at each pair alone adds to the values, (p, m), by the block system of all pairs."""
    m, p = u.shape
    kernel, scale = odd_kernel(u, r)
    cross = shapley_of_kernel(u, r)[0][0] / scale[0] + NUGGET * shapley_of_white(u)[0]
    with_nugget = kernel[0] + NUGGET * torch.eye(m).double()
    system = torch.cat(
        (torch.cat((with_nugget, u), 1), torch.cat((u.mT, -torch.diag(precision[0])), 1))
    )
    units = torch.cat((torch.eye(m), torch.zeros(p, m))).double()
    solved = torch.linalg.solve(system, units)
    return np.asarray((2 * solved[m:] + cross @ solved[:m]).numpy())


@few
@given(seed=SEEDS)
def test_max_residual_is_that_of_an_inner_pair(seed: int) -> None:
    u = pair_signs(5, 12, seed)
    r = relevance_of(5, seed)
    odd = torch.tensor(np.random.default_rng(seed).normal(size=(3, len(u))))
    flat = torch.zeros_like(r)
    found = process_at(u, r).answer(odd[None])
    slow = np.array([slow_residuals(u, r, flat, row) for row in odd])
    size = (u > 0).sum(1).numpy()
    inner = (size > 1) & (size < 4)
    np.testing.assert_allclose(
        found.max_residual[0, :, 0], abs(slow[:, inner]).max(axis=1), rtol=1e-8
    )


@few
@given(seed=SEEDS)
def test_the_rough_variance_is_a_sum_over_pairs(seed: int) -> None:
    """sum_n W_in^2 e_n^2, where column n of W is what a unit at pair n alone makes of the values."""
    players = 5
    u = pair_signs(players, 12, seed)
    m = len(u)
    r = relevance_of(players, seed)
    precision = precision_of(players, seed)
    odd = torch.tensor(np.random.default_rng(seed).normal(size=m))
    weights = slow_weights(u, r, precision)

    residuals = slow_residuals(u, r, precision, odd)
    slow = np.zeros(players)
    for i in range(players):
        for n in range(m):
            slow[i] += weights[i, n] ** 2 * residuals[n] ** 2
    found = process_at(u, r, precision).answer(odd[None, None]).rough_variance
    assert found.shape == (1, 1, players)
    np.testing.assert_allclose(found[0, 0], slow, rtol=1e-8)


# The component of the size


def test_a_function_of_the_size_has_no_shapley_values_and_is_found_out() -> None:
    """So no player gets what only the number of players makes; each gets its own worth."""
    worth = np.random.default_rng(0).normal(size=10)
    bump = np.array([0.0, 9, 4, 7, 1, 5, 8, 2, 6, 3, 0])

    def value(z: Bools) -> Floats:
        return np.asarray(z @ worth + bump[z.sum(axis=1)])

    answer = explain_game(value, players=10, budget=122, method="kriging")
    assert isinstance(answer.calibration, Calibration)
    assert answer.calibration.size_variance > 1
    np.testing.assert_allclose(answer.values[0], worth, atol=0.02)


# Games


def parts_of(value: Value, players: int, pairs: int, seed: int = 0) -> OddEven:
    """The odd and even parts of a game at pairs that kriging would choose."""
    chosen = selected_pairs(players, pairs, np.random.default_rng(seed))
    sides = np.concatenate((np.ones((1, players), dtype=bool), chosen))
    inside = torch.tensor(value(sides))[None]
    outside = torch.tensor(value(~sides))[None]
    return OddEven.of(torch.tensor(sides), inside, outside)


def errors_of(parts: OddEven) -> tuple[Floats, Floats]:
    """The standard errors of one row, and what the process alone makes of them, (p,) each."""
    calibration, _ = calibrate(parts)
    _, errors = krige(parts, calibration, None)
    unit, size = parts.normalised()
    relevance, precision = row_priors(unit, calibration)
    numbers = (calibration.nugget, calibration.size_variance)
    covariance = odd_covariance(unit.signs, relevance, *numbers)
    process = Process.from_covariance(unit.signs, covariance, precision)
    posterior = process.condition(unit.odd_by_row)
    alone = size * calibration.inflation * (posterior.scale * posterior.variance).sqrt()
    return errors[0, 0].numpy(), alone[0, 0].numpy()


def vote(players: int, seed: int) -> Value:
    """A weighted vote: lognormal weights, and a threshold of 0.3 to 0.8 of all."""
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(size=players)
    threshold = rng.uniform(0.3, 0.8) * weights.sum()
    return lambda z: (z @ weights >= threshold) * 1.0


@pytest.mark.parametrize("seed", range(4))
def test_a_vote_has_larger_errors_than_the_process_expects(seed: int) -> None:
    errors, smooth = errors_of(parts_of(vote(10, seed), 10, 60))
    assert (errors > smooth).all()
    assert np.median(errors / smooth) > 1.2


@pytest.mark.parametrize("seed", range(4))
def test_a_smooth_network_has_the_errors_of_the_process(seed: int) -> None:
    net = network(10, activation=nn.Tanh, seed=seed)
    row = np.random.default_rng(seed).normal(size=10)

    def value(z: Bools) -> Floats:
        with torch.no_grad():
            return np.asarray(net(torch.tensor(z * row * 0.3))[:, 1].numpy())

    errors, smooth = errors_of(parts_of(value, 10, 80))
    np.testing.assert_allclose(errors, smooth, rtol=0.02)


@pytest.mark.slow
def test_the_errors_of_a_vote_are_not_far_below_its_own() -> None:
    """Over twelve votes, standardised errors have a root mean square of 1.5 at most."""
    squares = []
    for seed in range(12):
        value = vote(10, seed)
        answer = explain_game(value, players=10, budget=150, method="kriging", seed=seed)
        assert answer.standard_errors is not None
        off = answer.values[0] - exact_shares(value(all_coalitions(10)))
        squares.append(np.mean((off / answer.standard_errors[0]) ** 2))
    assert np.sqrt(np.mean(squares)) < 1.5


@pytest.mark.parametrize(("players", "count"), [(6, 6), (9, 9), (30, 31)])
def test_a_pair_that_nothing_foresees_errs_as_the_others_do(players: int, count: int) -> None:
    """Prefixes that alone tell two players apart leave nothing to compare with: 0 / 0."""
    rng = np.random.default_rng(0)
    sides = selected_pairs(players, count, rng)
    u = torch.tensor(2.0 * np.concatenate((np.ones((1, players), dtype=bool), sides)) - 1)
    ranks = [np.linalg.matrix_rank(np.delete(u.numpy(), n, axis=0)) for n in range(len(u))]
    foreseen = np.array(ranks) == players
    assert not foreseen.all()
    assert foreseen.any()

    odd = torch.tensor(rng.normal(size=(1, 1, len(u))))
    flat = torch.zeros(1, players).double()
    r = relevance_of(players)
    found = process_at(u, r, flat).answer(odd)
    kernel = odd_kernel(u, r)[0][0] + NUGGET * torch.eye(len(u)).double()
    largest = max(
        abs(slow_residual(u, kernel, flat[0], odd[0, 0], int(pair)))
        for pair in np.flatnonzero(foreseen)
    )
    most = largest**2 * found.unit_variance
    assert (found.rough_variance <= most * (1 + 1e-6)).all()
    assert (found.max_residual <= largest * (1 + 1e-6)).all()


@few
@given(seed=SEEDS, players=st.integers(4, 6), more=st.integers(0, 6))
def test_residuals_are_those_of_solving_again_without_the_pair(
    seed: int, players: int, more: int
) -> None:
    """One pair after the other is the only one that may have a residual, so that its residual shows."""
    u = pair_signs(players, players + more, seed)
    r = relevance_of(players, seed)
    precision = precision_of(players, seed)
    odd = torch.tensor(np.random.default_rng(seed).normal(size=len(u)))
    slow = slow_residuals(u, r, precision, odd)
    for pair in range(len(u)):
        only = torch.arange(len(u)) == pair
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "shearshap.methods.kriging.posterior.inner_pairs", lambda _, only=only: only
            )
            found = process_at(u, r, precision).answer(odd[None, None])
        assert float(found.max_residual) == pytest.approx(abs(slow[pair]), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("players", [3, 8])
@pytest.mark.parametrize("quiet_variance", [None, 0.1])
def test_likelihoods_that_share_a_factorisation_are_those_of_each_kernel(
    players: int, quiet_variance: float | None
) -> None:
    generator = torch.Generator().manual_seed(players)
    u = 1 - 2 * torch.randint(2, (40, players), generator=generator).double()
    features = torch.randn(5, players, 4, generator=generator, dtype=torch.float64)
    odd = torch.randn(5, 40, generator=generator, dtype=torch.float64)
    quiet = torch.rand(5, players, generator=generator) < 0.3
    base = replace(Calibration.default(players), nugget=1e-3, quiet_variance=quiet_variance)
    choices = [replace(base, size_variance=size) for size in (0.0, 0.1, 10.0)]

    expected = []
    for choice in choices:
        relevance, precision = Prior.from_calibration(choice, features, quiet)
        kernel, _ = odd_kernel(u, relevance)
        kernel += nugget_and_size(u, choice.nugget, choice.size_variance)
        factors = Factors.from_kernel(kernel, u, precision)
        expected.append(factors.log_likelihood(factors.regress(odd[:, None]).squares).sum())

    found = PilotGames(u, odd, features, quiet).log_likelihoods(choices)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)
