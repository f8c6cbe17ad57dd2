"""Standard errors: against slow transcriptions, against the errors themselves, and as a rule for stopping."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb, inf

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from torch import Tensor, nn

from games import (
    Bools,
    Floats,
    all_coalitions,
    exact_shares,
    network,
    random_table,
    smooth_table,
    table_game,
)
from laws import ample, full, game_of, quiet
from shearshap import (
    METHODS,
    BudgetError,
    Exact,
    Explanation,
    Kernel,
    Kriging,
    Leverage,
    MethodError,
    Permutation,
    Shear,
    Welford,
    explain,
    explain_game,
    model_game,
)
from shearshap.engine.plan import BLOCK_BYTES
from shearshap.engine.run import Options
from shearshap.engine.sampling import explained_blocks
from shearshap.games.game import CoalitionValues, FunctionGame, Game
from shearshap.games.marginal import ModelGame
from shearshap.methods import Auto, name_of
from shearshap.methods.base import Design, Method
from shearshap.methods.kernel import interleaved
from shearshap.methods.standard_errors import CHANCE, within
from shearshap_lab.data import load
from shearshap_lab.networks import train

EVERY_METHOD: dict[str, Method] = METHODS
BIASED = ("shear",)  # its spread is not its error
UNBIASED = [name for name in EVERY_METHOD if name not in BIASED]
# "auto" is one of the others
SAMPLED = [name for name in UNBIASED if name not in ("auto", "exact")]
STOPPING = [name for name, method in METHODS.items() if method.stops]


def solve(
    game: Game, method: str | Method, budget: int, seed: int, *, tol: float | None = None
) -> Explanation:
    """Explain a game with a budget of evaluations a row."""
    return Explanation.concat(
        list(explained_blocks(game, Options(None, method=method, seed=seed).run(budget, tol=tol)))
    )


def many(table: Floats, method: Method, budget: int, seeds: int) -> list[Explanation]:
    players = len(table).bit_length() - 1
    game = table_game(table)
    return [
        explain_game(game, players=players, budget=budget, method=method, seed=seed)
        for seed in range(seeds)
    ]


# Laws


@pytest.mark.parametrize("name", UNBIASED)
def test_standard_errors_are_finite_and_not_negative(name: str) -> None:
    """At the budget that makes a method exact they are zero, else positive."""
    method = EVERY_METHOD[name]
    game = game_of(7)
    every = full(method, game)
    answer = explain_game(
        table_game(random_table(7, 1, outputs=(2,))),
        players=7,
        budget=every or ample(method, game),
        method=method,
    )
    assert answer.standard_errors is not None
    assert answer.standard_errors.shape == answer.values.shape == (1, 7, 2)
    assert np.isfinite(answer.standard_errors).all()
    if every is None:
        assert (answer.standard_errors > 0).all()
    else:
        assert (answer.standard_errors == 0).all()
    assert answer.degrees_of_freedom >= 1


# kriging expects smooth games
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SAMPLED if name != "kriging"])
def test_the_mean_square_of_standard_errors_is_that_of_errors(name: str) -> None:
    """White games, the worst there are; collapsing strata errs on the safe side, and so does raising."""
    method = EVERY_METHOD[name]
    table = random_table(7, 5)
    budget = 2 + (ample(method, game_of(7)) - 2) * 3 // 4
    with quiet():
        answers = many(table, method, budget, 150)
    known = [answer for answer in answers if answer.standard_errors is not None]
    assert len(known) >= 140
    squares = np.mean([(answer.values[0] - exact_shares(table)) ** 2 for answer in known])
    claimed = np.mean([answer.standard_errors[0] ** 2 for answer in known])  # type: ignore[index]
    most = 2.2 if isinstance(method, Shear) else 1.3
    assert 0.75 < claimed / squares < most


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("permutation", 2 + 3 * 7),
        ("permutation-antithetic", 2 + 3 * 14),
        ("leverage", 2 + 2 * 7),
        ("kernel", 2 + 7),
        ("shear-unbiased", 2 + 4 * 8 + 37),
    ],
)
def test_too_few_draws_have_no_standard_errors(name: str, budget: int) -> None:
    value = table_game(random_table(8, 0))
    with quiet():
        answer = explain_game(value, players=8, budget=budget, method=EVERY_METHOD[name])
    assert answer.standard_errors is None


# Against slow transcriptions


def gains_by_order(table: Floats, inner: Bools) -> Floats:
    """What every player adds in every order, (n, p), of prefixes (n, p-1, p)."""
    players = inner.shape[2]
    gains = np.zeros((len(inner), players))
    for n, chain in enumerate(inner):
        path = [0, *(int(z @ (1 << np.arange(players))) for z in chain), (1 << players) - 1]
        for before, after in pairwise(path):
            gains[n, (before ^ after).bit_length() - 1] = table[after] - table[before]
    return gains


def moderated(draws: Floats) -> Floats:
    """The standard errors of means of draws (d, p), by the formula that raises those far below others."""
    count, players = draws.shape
    variance = draws.var(axis=0, ddof=1)
    mean = variance.mean()
    errors = np.zeros(players)
    for i in range(players):
        raised = variance[i] + 4 / (count + 3) * max(0, mean - variance[i])
        errors[i] = np.sqrt(raised / count)
    return errors


def coalitions_of(method: Method, table: Floats, budget: int, seed: int) -> Bools:
    game = FunctionGame(table_game(table), len(table).bit_length() - 1)
    return np.asarray(
        method.design(game, budget, np.random.default_rng(seed)).coalitions[0].numpy()
    )[2:]


@pytest.mark.parametrize("antithetic", [False, True])
def test_permutations_spread_over_orders(antithetic: bool) -> None:
    """If antithetic, over the means of an order and its reverse."""
    table = random_table(6, 0)
    method = Permutation(antithetic=antithetic)
    answer = explain_game(table_game(table), players=6, budget=52, method=method, seed=3)
    draws = gains_by_order(table, coalitions_of(method, table, 52, 3).reshape(10, 5, 6))
    if antithetic:
        draws = (draws[:5] + draws[5:]) / 2
    assert answer.standard_errors is not None
    np.testing.assert_allclose(answer.standard_errors[0], moderated(draws))
    assert answer.degrees_of_freedom == len(draws) + 1


@pytest.mark.parametrize("name", ["permutation", "permutation-antithetic", "leverage", "kriging"])
def test_a_game_of_one_player_has_finite_errors(name: str) -> None:
    """Every draw is alike, and there are two levels."""
    answer = explain_game(_first, players=9, budget=200, method=name)
    assert answer.standard_errors is not None
    assert np.isfinite(answer.standard_errors).all()
    assert answer.standard_errors.max() < 0.5


def test_a_player_that_decides_in_no_order_drawn_has_an_error() -> None:
    """A vote of twelve: what players 4 to 7 add is in few orders, and their errors know it."""
    weights = np.array([5, 4, 3, 2] + [1] * 8)

    def vote(z: Bools) -> Floats:
        return np.asarray((z @ weights >= 11) * 1.0)

    answer = explain_game(vote, players=12, budget=96, method="permutation-antithetic", seed=0)
    assert answer.standard_errors is not None
    assert (answer.standard_errors > 0).all()
    exact = exact_shares(vote(all_coalitions(12)))
    np.testing.assert_allclose(exact[4:], 0.0414, atol=5e-5)
    lower, upper = answer.interval(0.95)
    assert (lower[0, 4:8] <= exact[4:8]).all()
    assert (exact[4:8] <= upper[0, 4:8]).all()


@pytest.mark.parametrize("method", [Kernel(), Kernel(paired=True), Leverage(), Welford()])
def test_regressions_have_the_sandwich_of_their_residuals(method: Method) -> None:
    """By plain matrices: theta from the normal equations in p - 1 unknowns, leverages from the hat matrix."""
    players, budget, table = 7, 60, random_table(7, 5)
    answer = explain_game(table_game(table), players=players, budget=budget, method=method, seed=1)
    inner = coalitions_of(method, table, budget, 1)
    size = inner.sum(axis=1)
    drawn = np.bincount(size, minlength=8)
    weight = np.ones(len(inner))
    left_out = np.ones(len(inner))
    if not isinstance(method, Welford):
        weight = np.array([1 / (s * (players - s) * drawn[s]) for s in size])
        left_out = np.array([1 - drawn[s] / comb(players, s) for s in size])
    # the last player gets what the others leave: unknowns are the first p - 1 values
    X = inner[:, :-1] - inner[:, -1:].astype(float)
    inverse = np.linalg.inv(X.T @ (weight[:, None] * X))
    theta = inverse @ X.T * weight
    theta = np.vstack((theta, -theta.sum(axis=0)))
    leverage = np.einsum("ci,ij,cj,c->c", X, inverse, X, weight)
    residual = table[inner @ (1 << np.arange(players))] - table[0] - inner @ answer.values[0]
    draws = [[n] for n in range(len(inner))]
    if isinstance(method, Leverage) or (isinstance(method, Kernel) and method.paired):
        half = len(inner) // 2
        draws = [[n, n + half] for n in range(half)]
    variance = np.zeros(players)
    for draw in draws:
        adds = sum(theta[:, n] * residual[n] for n in draw)
        variance += left_out[draw[0]] * adds**2 / (1 - sum(leverage[n] for n in draw)) ** 2
    assert answer.standard_errors is not None
    np.testing.assert_allclose(answer.standard_errors[0], np.sqrt(variance), atol=1e-10)
    assert answer.degrees_of_freedom == len(draws) - (players - 1)


def test_shear_collapses_pairs_of_subsets_that_differ_in_the_last_cooperator() -> None:
    table, method = random_table(6, 2), Shear(unbiased=True, selection="random")
    budget = 2 + 16 * 6
    answer = explain_game(table_game(table), players=6, budget=budget, method=method, seed=4)
    values = table[coalitions_of(method, table, budget, 4) @ (1 << np.arange(6))].reshape(6, 8, 2)
    difference = values[:, :, 1] - values[:, :, 0]
    weight = [1 / (4 * comb(3, n.bit_count())) for n in range(8)]
    variance = np.zeros(6)
    for n in (0, 1):
        # subsets n and 7 - n are complements; with the last cooperator (bit 2) changed they are n + 4 and 3 - n
        one, other = (
            (difference[:, n] + difference[:, 7 - n]) / 2,
            (difference[:, n + 4] + difference[:, 3 - n]) / 2,
        )
        variance += ((2 * weight[n]) ** 2 + (2 * weight[3 - n]) ** 2) * (one - other) ** 2 / 2
    # two strata; variances far below those of other players are raised
    variance += 4 / (4 + 2) * (variance.mean() - variance).clip(min=0)
    assert answer.standard_errors is not None
    np.testing.assert_allclose(answer.standard_errors[0], np.sqrt(variance))


# Coverage


@dataclass(frozen=True)
class Case:
    """A short-trained network of one of the paper's data sets, some rows, and their exact values."""

    network: nn.Module
    rows: NDArray[np.float32]
    reference: NDArray[np.float32]
    groups: dict[str, list[int]]
    exact: Floats

    def explain(self, method: Method, each: int, seed: int) -> Explanation:
        return explain(
            self.network, self.rows, reference=self.reference, groups=self.groups, output=1, method=method, seed=seed,
            budget=2 + each * self.exact.shape[1],
        )  # fmt: skip

    def solve(
        self, method: str | Method, budget: int, tol: float | None, seed: int = 0
    ) -> Explanation:
        with model_game(
            self.network, self.rows, reference=self.reference, groups=self.groups, output=1
        ) as game:  # fmt: skip
            return solve(game, method, budget, seed, tol=tol)

    def tolerances(self, method: str, budget: int) -> Floats:
        """A tolerance, (1,), that half of the rows reach with this budget."""
        errors = self.solve(method, budget, None).standard_errors
        assert errors is not None
        return np.array([np.median(errors.max(axis=1))])

    def take(self, rows: slice | list[int]) -> "Case":
        return replace(self, rows=self.rows[rows], exact=self.exact[rows])

    def covered(self, answer: Explanation) -> float:
        lower, upper = answer.interval(0.95)
        return float(((lower <= self.exact) & (self.exact <= upper)).mean())


def case(name: str, rows: int) -> Case:
    data = load(name)
    net, some = train(data, steps=600, learning_rate=1e-2).network, data.inputs[data.test[:rows]]
    exact = explain(
        net, some, reference=data.background, groups=data.groups, output=1, method="exact", budget=1 << len(data.groups)
    )  # fmt: skip
    return Case(net, some, data.background, data.groups, exact.values)


@pytest.fixture(scope="module")
def census() -> Case:
    return case("census", 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("each", [8, 32])
def test_intervals_hold_the_exact_values(census: Case, each: int, name: str) -> None:
    """Nominally 95 % of them. Rows share their coalitions, and so their luck: only several seeds tell."""
    method = EVERY_METHOD[name]
    seeds = 3 if method.pilot_rows else 8  # a calibration is fitted again and again: slow
    with quiet():
        answers = [census.explain(method, each, seed) for seed in range(seeds)]
    known = [answer for answer in answers if answer.standard_errors is not None]
    assert 2 * len(known) > len(answers)
    # a player's few draws are taken for less alike than they are: see `moderated_errors`
    most = 0.998 if "permutation" in name or name == "shear-unbiased" else 0.99
    assert 0.9 <= np.mean([census.covered(answer) for answer in known]) <= most


# Stopping


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kriging", "leverage", "kernel", "permutation", "permutation-antithetic"]
)
def test_a_smaller_tolerance_takes_more_evaluations(census: Case, name: str) -> None:
    before, some = 0.0, census.take(slice(10))
    reached = some.tolerances(name, 220)
    for tol in reached * [100, 1, 0.3]:
        answer = some.solve(name, 400, tol)
        assert answer.row_evaluations is not None
        assert answer.converged is not None
        assert answer.standard_errors is not None
        assert answer.row_evaluations.max() == answer.evaluations <= 400
        assert (answer.standard_errors[answer.converged] <= tol).all()
        if name != "kriging":  # whose values may have moved
            left = answer.standard_errors[~answer.converged].max(axis=1, initial=0)
            assert (left > 0.4 * tol).all()  # all errors count, and Student's t
        assert answer.row_evaluations.mean() >= before
        before = float(answer.row_evaluations.mean())
        assert answer.converged.all() == (tol > 50 * reached)


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPPING)
def test_a_tolerance_out_of_reach_spends_the_budget_and_answers_as_without(
    census: Case, name: str
) -> None:
    """Only errors of zero, of all coalitions, are within such a tolerance."""
    rows = census.take(slice(3))
    game = game_of(13)
    budget = max(300, METHODS[name].minimum(game))
    tight, plain = rows.solve(name, budget, 1e-12), rows.solve(name, budget, None)
    assert tight.converged is not None
    assert tight.row_evaluations is not None
    assert tight.converged.tolist() == 3 * [budget == full(METHODS[name], game)]
    assert (tight.row_evaluations == plain.evaluations).all()
    assert plain.converged is None
    assert plain.row_evaluations is None
    np.testing.assert_allclose(tight.values, plain.values, atol=1e-12)
    assert plain.standard_errors is not None
    assert tight.standard_errors is not None
    np.testing.assert_allclose(tight.standard_errors, plain.standard_errors, rtol=1e-9)
    assert tight.degrees_of_freedom == plain.degrees_of_freedom
    if plain.calibration is not None:
        pairs = (budget - 2) // 2
        assert tight.calibration.at(plain.calibration.size, pairs) == plain.calibration


@pytest.mark.slow
def test_a_stage_that_no_pilot_row_reaches_keeps_the_calibration_before(
    census: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two easy pilot rows, two that go on: the answer is that of the two's calibration, given."""
    evaluations = census.solve("kriging", 400, 3e-4).row_evaluations
    assert evaluations is not None
    easy, hard = (
        np.argsort(evaluations, kind="stable")[:16],
        np.argsort(evaluations, kind="stable")[-2:],
    )
    assert evaluations[hard].min() > evaluations[easy].max()
    monkeypatch.setattr(Kriging, "pilot_rows", 16)
    mixed = census.take([*easy.tolist(), *hard.tolist()])
    answer = mixed.solve("kriging", 400, 3e-4)
    assert answer.row_evaluations is not None
    assert answer.converged is not None
    later = answer.row_evaluations > answer.row_evaluations[:16].max()
    given = mixed.solve(Kriging(answer.calibration), 400, 3e-4)
    assert answer.calibration is not None
    np.testing.assert_allclose(given.values[later], answer.values[later], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kriging", "leverage", "permutation", "permutation-antithetic"])
def test_intervals_hold_the_exact_values_where_rows_stop(census: Case, name: str) -> None:
    """Stopping at an estimated error favours estimates that are too small; the least degrees of freedom limit it."""
    tol = float(census.tolerances(name, 300)[0])
    answers = [census.solve(name, 800, tol, seed) for seed in range(1 if name == "kriging" else 8)]
    spent = np.concatenate([answer.row_evaluations for answer in answers])
    assert len(set(spent.tolist())) > 1
    assert 0.9 <= np.mean([census.covered(answer) for answer in answers]) <= 0.99


@pytest.mark.parametrize("method", ["kriging", "auto"])
def test_kriging_stops_at_its_second_stage_at_the_earliest(method: str) -> None:
    """However large the tolerance: 60 coalitions of 20 players are one stage, 64 are two."""
    weights = np.random.default_rng(0).normal(size=20)
    game = FunctionGame(lambda z: np.tanh(z @ weights), 20)
    one_stage = solve(game, method, 60, 0, tol=1e6)
    assert one_stage.converged is not None
    assert one_stage.degrees_of_freedom == 10
    assert one_stage.evaluations == 60
    assert not one_stage.converged.any()

    two_stages = solve(game, method, 64, 0, tol=1e6)
    assert two_stages.converged is not None
    assert two_stages.evaluations == 64
    assert two_stages.converged.all()


@pytest.mark.slow
@pytest.mark.parametrize("freedom", [7.0, 12.0, 100.0, inf])
def test_rows_stop_once_it_is_unlikely_that_any_value_is_far_off(freedom: float) -> None:
    """As by Student's t: the chances of more than twice the tolerance add up to at most 4.6 %."""
    rng = np.random.default_rng(0)
    errors = rng.lognormal(-1.5, 0.5, size=(2000, 12))
    chances = 2 * student.sf(2 / errors, freedom).sum(axis=1)
    stopped = within(torch.from_numpy(errors), freedom, 1.0).numpy()
    sure = abs(np.log(chances / CHANCE)) > 0.05  # the formula there is a close one
    np.testing.assert_array_equal(stopped[sure], (chances < CHANCE)[sure])
    assert 0 < stopped.sum() < len(stopped)


@pytest.mark.parametrize(
    ("error", "players", "stops"),
    [(0.999, 1, True), (1.001, 1, False), (0.999, 2, False), (0.6, 12, True), (0.0, 12, True)],
)
def test_the_more_values_may_be_off_the_smaller_are_the_errors_of_rows_that_stop(
    error: float, players: int, stops: bool
) -> None:
    alike = torch.full((1, players), error, dtype=torch.float64)
    assert within(alike, inf, 1.0).tolist() == [stops]
    assert not within(torch.full_like(alike, inf), inf, 1.0).any()


def test_rows_that_converged_are_seldom_off_by_more_than_twice_the_tolerance() -> None:
    """The product of some players, whose values have alike errors: leverage stopped too early."""
    tol, off = 0.05, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        members = rng.permutation(12) < rng.integers(2, 13)
        exact = members / members.sum()
        answer = explain_game(
            lambda z, members=members: z[:, members].all(axis=1) * 1.0,  # type: ignore[misc]
            players=12, budget=2000, tol=tol, method="leverage", seed=seed,
        )  # fmt: skip
        assert answer.converged is not None
        assert answer.converged.all()
        off.append(abs(answer.values[0] - exact).max() > 2 * tol)
    assert np.mean(off) <= 0.05


def test_votes_stop_only_if_they_were_seen_at_most_sizes() -> None:
    """Kriging asks for coalitions of few sizes at first; in between, votes may jump anywhere."""
    tol, off, stopped = 0.05, 0, 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        weights = rng.lognormal(size=12)
        threshold = rng.uniform(0.3, 0.8) * weights.sum()
        table = (all_coalitions(12) @ weights >= threshold) * 1.0
        answer = explain_game(
            table_game(table), players=12, budget=450, tol=tol, method="kriging", seed=seed
        )
        assert answer.converged is not None
        far = abs(answer.values[0] - exact_shares(table)).max() > 2 * tol
        off += int(answer.converged[0] and far)
        stopped += int(answer.converged[0])
    assert off <= 1
    assert stopped > 10


def test_a_budget_for_all_coalitions_ends_with_all_of_them() -> None:
    asked: list[Bools] = []
    table = random_table(8, 0)

    def value(z: Bools) -> Floats:
        asked.append(z)
        return table_game(table)(z)

    for name in ("auto", "kriging", "permutation", "leverage"):
        asked.clear()
        answer = solve(FunctionGame(value, 8), name, 256, 0, tol=1e-9)
        everything = np.concatenate(asked)
        assert len(asked) > 1
        assert len(np.unique(everything, axis=0)) == len(everything) == answer.evaluations == 256
        assert answer.converged is not None
        assert answer.converged.all()
        np.testing.assert_allclose(answer.values[0], exact_shares(table), atol=1e-9)
        assert answer.standard_errors is not None
        assert abs(answer.standard_errors).max() == 0
    assert (
        solve(FunctionGame(table_game(smooth_table(8, 0)), 8), "auto", 256, 0, tol=0.5).evaluations
        < 100
    )


def test_exact_and_a_single_player_have_always_converged() -> None:
    for game, wanted in (
        (FunctionGame(table_game(random_table(4, 0)), 4), Exact()),
        (FunctionGame(_first, 1), "auto"),
    ):
        answer = solve(game, wanted, 16, 0, tol=1e-6)
        assert answer.converged is not None
        assert answer.converged.all()
        assert answer.row_evaluations == [1 << game.players]


def automatic(players: int, budget: int, *, stops: bool = False) -> str:
    """The name of the method that "auto" takes."""
    return name_of(Auto().select_method(players, budget, stops=stops))


def test_auto_prefers_a_method_that_can_stop() -> None:
    assert automatic(13, 10_000) == "exact"
    assert automatic(13, 10_000, stops=True) == automatic(13, 200, stops=True) == "kriging"
    assert automatic(20, 16_384) == automatic(20, 16_384, stops=True) == "kriging"
    assert automatic(20, 16_385, stops=True) == "kriging"
    assert automatic(30, 10**6, stops=True) == "kriging"
    assert automatic(20, 16_385) == "leverage"
    assert automatic(13, 20, stops=True) == automatic(500, 125) == "kriging"
    assert automatic(150, 5_000) == "kriging"
    # regressions with hardly more equations than unknowns are far off
    few = [automatic(151, 5_000), automatic(2500, 10**5, stops=True), automatic(1024, 2_050)]
    assert {*few} == {"permutation-antithetic"}
    few = [automatic(players, 100, stops=True) for players in (2, 3, 4)]
    assert few == ["exact", "exact", "kriging"]


@pytest.mark.parametrize(
    "method", [method for method in EVERY_METHOD.values() if not method.stops], ids=repr
)
def test_methods_that_cannot_stop_name_those_that_can(method: Method) -> None:
    with pytest.raises(MethodError, match=f"cannot stop .* these can: {', '.join(STOPPING)}"):
        solve(FunctionGame(_never, 5), method, 10_000, 0, tol=0.1)


@pytest.mark.filterwarnings("ignore:There are no error bars")
def test_a_budget_without_standard_errors_never_converges() -> None:
    answer = solve(
        FunctionGame(table_game(random_table(8, 0)), 8), "permutation", 2 + 2 * 7, 0, tol=10.0
    )
    assert answer.converged is not None
    assert not answer.converged.any()
    assert answer.standard_errors is None
    with pytest.raises(BudgetError):
        solve(FunctionGame(_never, 8), "permutation", 5, 0, tol=10.0)


@pytest.mark.parametrize(
    "method",
    [Kriging(), Leverage(), Kernel(), Welford(), Permutation(), Permutation(antithetic=True)],
)
def test_first_parts_are_nested_designs_of_their_own(method: Method) -> None:
    game = FunctionGame(table_game(smooth_table(9, 0)), 9)
    whole: Design = method.design(game, 300, np.random.default_rng(0))
    before: set[int] = set()
    for count in (60, 100, 200):
        part = whole.first(count)
        columns = part.keys.tolist()
        assert columns[:2] == [0, 1]
        assert len(set(columns)) == len(columns) <= count
        assert len(columns) > count - 18
        assert before <= set(columns)
        assert torch.equal(part.design.coalitions, whole.coalitions[:, part.keys])
        before = set(columns)


def test_beginnings_of_a_regressions_draws_are_divided_among_sizes_as_the_whole() -> None:
    """Thirty draws of three sizes in proportion 1 : 1 : 2; the first size has only four."""
    counts, size = np.array([4, 9, 17]), np.repeat([0, 1, 2], [4, 9, 17])
    for seed in range(20):
        order = interleaved(counts, np.array([1.0, 1.0, 2.0]), np.random.default_rng(seed))
        assert sorted(order) == list(range(30))
        assert abs(np.bincount(size[order[:12]], minlength=3) - [3, 3, 6]).max() <= 1
        assert abs(np.bincount(size[order[:24]], minlength=3) - [4, 6.7, 13.3]).max() <= 1.4


def test_a_network_of_random_weights_stops_by_block_as_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 8))

    def stopped() -> Explanation:
        with model_game(network(8), rows, reference=np.zeros(8), output=1) as game:
            return solve(game, "leverage", 200, 0, tol=0.015)

    whole = stopped()
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 1)
    apart = stopped()
    np.testing.assert_allclose(apart.values, whole.values, atol=1e-10)
    assert whole.row_evaluations is not None
    assert apart.row_evaluations is not None
    assert (apart.row_evaluations == whole.row_evaluations).all()
    assert len(set(whole.row_evaluations.tolist())) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "permutation-antithetic"])
def test_all_coalitions_are_listed_only_for_rows_that_need_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shearshap.methods.exact.subsets", _never)
    answer = solve(FunctionGame(_first, 24), name, 1 << 24, 0, tol=0.1)
    # the game has two levels, so that many draws must show that it never jumps elsewhere
    assert answer.evaluations < 2000
    assert answer.converged is not None
    assert answer.converged.all()
    with pytest.raises(AssertionError, match="the game was asked"):
        solve(FunctionGame(_first, 8), "exact", 1 << 8, 0, tol=0.1)


@pytest.mark.parametrize("tol", [None, 0.1])
@pytest.mark.parametrize(("players", "budget"), [(40, 10**9), (40, 10**13), (31, 1 << 31)])
def test_a_budget_too_large_to_hold_says_what_to_try(
    players: int, budget: int, tol: float | None
) -> None:
    most = (1 << 29) // players
    message = f"coalitions of {players} features are too many to hold in memory; try a budget of at most {most}$"
    with pytest.raises(BudgetError, match=message):
        solve(FunctionGame(_never, players), "leverage", budget, 0, tol=tol)


def test_rows_that_auto_cannot_make_precise_stop_where_kriging_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shearshap.methods.auto.MAX_KRIGED", 40)
    answer = solve(FunctionGame(table_game(random_table(9, 0)), 9), "auto", 300, 0, tol=1e-6)
    assert (answer.method, answer.evaluations) == ("kriging", 40)
    assert answer.converged is not None
    assert not answer.converged.any()
    smooth = solve(FunctionGame(table_game(smooth_table(9, 0)), 9), "auto", 300, 0, tol=0.5)
    assert smooth.evaluations <= 40


@pytest.mark.parametrize(
    ("name", "tol"), [("exact", None), ("kriging", None), ("kriging", 1e-9), ("leverage", 1e-9)]
)
def test_no_more_rows_than_fit_are_worked_on_at_once(
    name: str, tol: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty outputs, unknown before the model is asked: every block keeps to its memory, and counts add up."""
    memory, shapes = 1 << 20, list[tuple[int, int]]()
    monkeypatch.setitem(BLOCK_BYTES, "cpu", memory)
    monkeypatch.setattr("shearshap.engine.plan.PILOT_BYTES", memory)
    ask = ModelGame.evaluate

    def watched(game: ModelGame, coalitions: Tensor) -> CoalitionValues:
        answer = ask(game, coalitions)
        shapes.append((answer.values.shape[0], answer.values.shape[1]))
        return answer

    monkeypatch.setattr(ModelGame, "evaluate", watched)
    rows = np.random.default_rng(0).normal(size=(20, 8))
    answer = explain(
        network(8, outputs=30), rows, reference=np.zeros(8), budget=256, method=name, tol=tol
    )
    assert sum(rows * count for rows, count in shapes) == 20 * answer.evaluations
    assert max(rows * count for rows, count in shapes) * (8 + 48 * 30) <= memory
    assert max(rows for rows, count in shapes if count > 2) > 1


# Sizes


def _first(z: Bools) -> Floats:
    return np.asarray(z[:, 0] * 2.0)


def _never(_: Bools) -> Floats:
    raise AssertionError("the game was asked")
