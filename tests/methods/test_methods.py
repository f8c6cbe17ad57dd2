"""Each method against a slow transcription of its own definition."""

import subprocess
import sys
import warnings
from itertools import pairwise
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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
from games import pairwise as pairwise_game
from shearshap import (
    Kernel,
    Leverage,
    MethodError,
    Permutation,
    Shear,
    ShearWarning,
    Welford,
    explain,
    explain_game,
)
from shearshap.games.coalitions import distinct_sets, subsets
from shearshap.games.game import FunctionGame
from shearshap.methods.base import Method
from shearshap.methods.exact import shapley_transform
from shearshap.methods.shear import (
    Differences,
    join,
    max_cooperators,
    ranked_cooperators,
    subset_weights,
)
from shearshap_lab.baselines import (
    BASELINES,
    AppendixKernel,
    AppendixPermutation,
    AuthorsKernel,
    AuthorsPermutation,
)

few = settings(max_examples=20)


def coalitions_of(method: Method, players: int, budget: int, seed: int = 0) -> Bools:
    game = FunctionGame(table_game(random_table(players, 0)), players)
    return np.asarray(
        method.design(game, budget, np.random.default_rng(seed)).coalitions[0].numpy()
    )


# Exact


@few
@given(players=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_the_transform_is_one_plain_sum_for_each_player(players: int, seed: int) -> None:
    table = random_table(players, seed, outputs=(2,))
    phi = shapley_transform(torch.from_numpy(table)[None])[0].numpy()
    np.testing.assert_allclose(phi, exact_shares(table), atol=1e-12)


# SHEAR


def test_the_papers_example_of_antithetical_sampling() -> None:
    """M = 6, i = 1, N = 8, cooperators {2, 3}, V_1 = {5}, V_2 = {5, 6}: V_3 = {4}, V_4 = {4, 6} follow."""
    chosen = subsets(2)
    assert [set(np.flatnonzero(row) + 2) for row in chosen] == [set(), {2}, {3}, {2, 3}]
    draws = np.ones((6, 2, 6))  # a draw below 1/2 joins
    draws[0, 0, [4]] = draws[0, 1, [4, 5]] = 0

    class Script:
        def random(self, shape: tuple[int, ...]) -> Floats:
            return np.concatenate((draws, np.full((6, shape[1] - 2, 6), np.nan)), axis=1)

    outsiders = Shear()._outsiders(np.full((6, 4), 0.5), 6, Script())  # type: ignore[arg-type]
    others = {4, 5, 6}
    assert [set(np.flatnonzero(row) + 1) & others for row in outsiders[0]] == [
        {5},
        {5, 6},
        {4},
        {4, 6},
    ]
    cooperators = torch.tensor([[[1, 2]] * 6])
    joined = join(torch.from_numpy(outsiders), cooperators, torch.from_numpy(chosen))
    design = Differences.of(joined, torch.from_numpy(subset_weights(chosen)))
    asked = [set((np.flatnonzero(row) + 1).tolist()) for row in design.coalitions[0, 2:10].numpy()]
    assert asked == [
        {5},
        {1, 5},
        {2, 5, 6},
        {1, 2, 5, 6},
        {3, 4},
        {1, 3, 4},
        {2, 3, 4, 6},
        {1, 2, 3, 4, 6},
    ]
    assert subset_weights(chosen).tolist() == [1 / 3, 1 / 6, 1 / 6, 1 / 3]


@pytest.mark.parametrize(
    ("budget", "cooperators"), [(2 + 4 * 6, 1), (2 + 8 * 6 - 1, 1), (2 + 8 * 6, 2), (10**6, 5)]
)
def test_shear_takes_the_largest_power_of_two_that_fits(budget: int, cooperators: int) -> None:
    assert max_cooperators(budget, 6) == cooperators


def test_shear_without_antithetical_sampling_ignores_the_others() -> None:
    """Eq. 10: the Shapley value of i in the subgame of its cooperators and itself."""
    table = smooth_table(6, 1)
    method = Shear(outsiders="empty", selection="random")
    budget = 2 + 8 * 6
    answer = explain_game(table_game(table), players=6, budget=budget, method=method, seed=3)
    game = FunctionGame(table_game(table), 6)
    design = method.design(game, budget, np.random.default_rng(3))
    for player in range(6):
        asked = design.coalitions[0, 2 + 8 * player : 10 + 8 * player].any(dim=0)
        members = np.flatnonzero(asked.numpy())
        assert len(members) == 3
        sub = np.array(
            [table[sum(1 << members[b] for b in range(3) if n >> b & 1)] for n in range(8)]
        )
        phi = exact_shares(sub)[members.tolist().index(player)]
        np.testing.assert_allclose(answer.values[0, player], phi, atol=1e-12)


def test_shear_with_independent_outsiders_pairs_nothing() -> None:
    """V_n is drawn as with antithetic outsiders, but its partner is a draw of its own."""
    budget = 2 + 16 * 10
    game = FunctionGame(lambda z: z.sum(axis=1), 10)
    designs = {
        outsiders: Shear(outsiders=outsiders, selection="random").design(
            game, budget, np.random.default_rng(3)
        )
        for outsiders in ("antithetic", "independent")
    }
    paired = designs["antithetic"].coalitions[0, 2:].unflatten(0, (10, 8, 2))[:, :, 0]
    alone = designs["independent"].coalitions[0, 2:].unflatten(0, (10, 8, 2))[:, :, 0]
    others = ~torch.eye(10, dtype=torch.bool)
    for player in range(10):
        here = others[player]
        assert torch.equal(paired[player, :4, here], ~paired[player, 4:, here].flip(0))
        assert torch.equal(paired[player, :4], alone[player, :4])
        assert not torch.equal(alone[player, :4, here], ~alone[player, 4:, here].flip(0))


@pytest.mark.slow
def test_independent_unbiased_outsiders_are_unbiased() -> None:
    table = smooth_table(5, 2)
    method = Shear(outsiders="independent", unbiased=True, selection="random")
    answers = [
        explain_game(table_game(table), players=5, budget=2 + 8 * 5, method=method, seed=seed)
        for seed in range(400)
    ]
    values = np.stack([answer.values[0] for answer in answers])
    error = values.std(axis=0) / 20
    assert (np.abs(values.mean(axis=0) - exact_shares(table)) < 4 * error).all()
    assert answers[0].standard_errors is None


def test_the_appendix_by_fair_coins_estimates_banzhaf_values() -> None:
    """The mean of v(S + i) - v(S) over all S, and not the Shapley value."""
    table = smooth_table(5, 2)
    coalitions = np.arange(32)
    banzhaf = np.array(
        [
            np.mean([table[s | 1 << i] - table[s] for s in coalitions if not s >> i & 1])
            for i in range(5)
        ]
    )
    assert np.abs(banzhaf - exact_shares(table)).max() > 0.05
    for name in ("permutation-coin-paper", "permutation-antithetic-coin-paper"):
        answer = explain_game(
            table_game(table), players=5, budget=200_002, method=BASELINES[name], seed=0
        )
        np.testing.assert_allclose(answer.values[0], banzhaf, atol=0.02)
        assert answer.standard_errors is None


def test_shear_selects_the_cooperators_of_largest_cross_contribution() -> None:
    """Player 0 acts with 3 and 4 alone; V_n of the others cancels, so four subsets are all there is."""
    answers = []

    def value(z: Bools) -> Floats:
        return np.asarray(z[:, 0] * (1.0 + 5 * z[:, 3] * z[:, 4]) + 0.001 * z[:, 1])

    table = value(all_coalitions(6))
    for method in (Shear(), Shear(selection="random")):
        draws = [
            explain_game(value, players=6, budget=2 + 8 * 6 + 22, method=method, seed=seed).values[
                0, 0
            ]
            for seed in range(20)
        ]
        answers.append(np.abs(np.array(draws) - exact_shares(table)[0]).mean())
    assert answers[0] < 1e-12 < answers[1]


@few
@given(seed=st.integers(0, 10**6))
def test_cooperators_rank_by_cross_contribution_up_to_a_relative_tolerance(seed: int) -> None:
    """Neighbours that differ by 1e-4 of the larger, or 1e-6 of the largest, go by their number."""
    rng = np.random.default_rng(seed)
    eta = rng.choice([0.0, 1e-9, 1e-3, 1.0, 1.0005], size=(6, 6)) * (1 + 1e-6 * rng.random((6, 6)))
    ranked = ranked_cooperators(torch.from_numpy(eta)[None])[0].tolist()
    for player, found in enumerate(ranked):
        others = [other for other in range(6) if other != player]
        order = sorted(others, key=lambda other: -eta[player, other])
        groups = [order[:1]]
        for larger, smaller in pairwise(order):
            gap = eta[player, larger] - eta[player, smaller]
            if gap > 1e-4 * eta[player, larger] + 1e-6 * eta.max():
                groups.append([])
            groups[-1].append(smaller)
        assert found == [other for group in groups for other in sorted(group)]


# Permutations


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("kind", [Permutation, AuthorsPermutation])
def test_permutations_average_what_each_player_adds_on_joining(
    antithetic: bool, kind: type[Permutation | AuthorsPermutation]
) -> None:
    table, players, budget = random_table(5, 9), 5, 26
    method = kind(antithetic=antithetic)
    answer = explain_game(table_game(table), players=players, budget=budget, method=method, seed=2)
    inner = coalitions_of(method, players, budget, seed=2)[2:].reshape(-1, players - 1, players)
    phi = np.zeros(players)
    for chain in inner:
        path = [0, *(int(z @ (1 << np.arange(players))) for z in chain), (1 << players) - 1]
        for before, after in pairwise(path):
            phi[(before ^ after).bit_length() - 1] += (table[after] - table[before]) / len(inner)
    np.testing.assert_allclose(answer.values[0], phi, atol=1e-12)


def test_antithetic_orders_are_followed_by_their_reverses() -> None:
    inner = coalitions_of(Permutation(antithetic=True), 5, 26, seed=2)[2:].reshape(-1, 4, 5)
    assert len(inner) == 6
    for order, reverse in zip(inner[:3], inner[3:], strict=True):
        assert (order == ~reverse[::-1]).all()


def test_papers_antithetic_sampling_pairs_complements_of_the_others() -> None:
    inner = coalitions_of(AppendixPermutation(antithetic=True), 5, 2 + 8 * 5)[2:]
    without = inner.reshape(5, 4, 2, 5)[:, :, 0]
    for player in range(5):
        others = np.delete(without[player], player, axis=1)
        assert (others[:2] == ~others[2:]).all()
        assert not without[player, :, player].any()


@pytest.mark.parametrize(("each", "spare", "orders"), [(1, 0, 1), (2, 0, 2), (7, 4, 7), (8, 0, 8)])
def test_authors_permutations_are_as_many_as_evaluations_a_player(
    each: int, spare: int, orders: int
) -> None:
    inner = coalitions_of(AuthorsPermutation(), 5, 2 + each * 5 + spare)[2:].reshape(-1, 4, 5)
    rng = np.random.default_rng(0)
    slow = rng.permuted(np.tile(np.arange(5), (orders, 1)), axis=1)
    assert len(inner) == orders
    for chain, order in zip(inner, slow, strict=True):
        assert [set(np.flatnonzero(z)) for z in chain] == [
            set(order[:size]) for size in range(1, 5)
        ]


@pytest.mark.parametrize(("each", "pairs"), [(2, 0), (3, 0), (4, 1), (5, 1), (16, 7), (64, 31)])
def test_authors_antithetic_sampling_leaves_two_orders_alone(each: int, pairs: int) -> None:
    """N permutations, rounded down to an even number: N/2 - 1 orders, each with its reverse, and two without."""
    inner = coalitions_of(AuthorsPermutation(antithetic=True), 9, 2 + each * 9)[2:].reshape(
        -1, 8, 9
    )
    assert len(inner) == 2 * pairs + 2 == each - each % 2
    chains = [chain.tobytes() for chain in inner]
    reverses = [(~chain[::-1]).tobytes() for chain in inner]
    partners = [[m for m, other in enumerate(chains) if other == reverse] for reverse in reverses]
    alone = [n for n, partner in enumerate(partners) if not partner]
    assert alone == [pairs, pairs + 1]
    assert partners[:pairs] == [[n + pairs + 2] for n in range(pairs)]


def test_authors_antithetic_sampling_is_not_exact_on_pairwise_games() -> None:
    errors = []
    value, worth = pairwise_game(7, 0)
    for method in (Permutation(antithetic=True), AuthorsPermutation(antithetic=True)):
        answer = explain_game(value, players=7, budget=2 + 8 * 7, method=method)
        errors.append(abs(answer.values[0] - worth).max())
    assert errors[0] < 1e-12 < 0.01 < errors[1]


@pytest.mark.parametrize("method", [AuthorsPermutation(), AuthorsPermutation(antithetic=True)])
def test_authors_permutations_never_list_all_coalitions(method: Method) -> None:
    answer = explain_game(
        table_game(random_table(3, 1)), players=3, budget=2 + 30 * 3, method=method
    )
    assert answer.evaluations == 2 + 30 * 2
    assert abs(answer.gap).max() < 1e-12


# Regressions


def slow_regression(
    inner: Floats, weight: Floats, values: Floats, base: float, full: float
) -> Floats:
    """The constrained least-squares problem, by its Lagrange conditions."""
    players = inner.shape[1]
    system = np.zeros((players + 1, players + 1))
    system[:players, :players] = 2 * inner.T @ (weight[:, None] * inner)
    system[:players, -1] = system[-1, :players] = 1
    right = np.append(2 * inner.T @ (weight * (values - base)), full - base)
    return np.asarray(np.linalg.solve(system, right)[:players])


@pytest.mark.parametrize("method", [Kernel(), Kernel(paired=True), Leverage(), Welford()])
def test_regressions_solve_the_weighted_least_squares_problem(method: Method) -> None:
    players, budget, table = 7, 80, random_table(7, 5)
    value = table_game(table)
    answer = explain_game(value, players=players, budget=budget, method=method, seed=1)
    inner = coalitions_of(method, players, budget, seed=1)[2:]
    size = inner.sum(axis=1)
    if isinstance(method, Welford):
        weight = np.ones(len(inner))
    else:
        drawn = np.array([(size == s).sum() for s in size])
        kernel = np.array([(players - 1) / (comb(players, s) * s * (players - s)) for s in size])
        chance = drawn / np.array([comb(players, s) for s in size])
        weight = kernel / chance
    slow = slow_regression(inner.astype(float), weight, value(inner), table[0], table[-1])
    np.testing.assert_allclose(answer.values[0], slow, atol=1e-9)


@pytest.mark.parametrize("kind", [AppendixKernel, AuthorsKernel])
@pytest.mark.parametrize("paired", [False, True])
def test_baseline_kernels_average_one_regression_for_each_player(
    kind: type[AppendixKernel | AuthorsKernel], paired: bool
) -> None:
    """Weighted by the kernel in the appendix, efficient and unweighted in the authors' code."""
    players, table = 5, random_table(5, 6)
    value, budget = table_game(table), 2 + 40 * 5
    method = kind(paired=paired)
    answer = explain_game(value, players=players, budget=budget, method=method, seed=0)
    fits = []
    for A in coalitions_of(method, players, budget)[2:].astype(float).reshape(players, 40, players):
        assert not paired or (A[:20] == 1 - A[20:]).all()
        values = value(A.astype(bool))
        if kind is AuthorsKernel:
            fits.append(slow_regression(A, np.ones(40), values, table[0], table[-1]))
            continue
        size = A.sum(axis=1)
        W = np.diag([(players - 1) / (comb(players, int(s)) * s * (players - s)) for s in size])
        fits.append(np.linalg.inv(A.T @ W @ A) @ A.T @ W @ (values - table[0]))
    np.testing.assert_allclose(answer.values[0], np.mean(fits, axis=0), atol=1e-9)


@pytest.mark.parametrize("method", [Welford(), AuthorsKernel()])
def test_independent_draws_have_sizes_by_their_kernel_mass(method: Method) -> None:
    size = coalitions_of(method, 6, 2 + 6 * 4000)[2:].sum(axis=1)
    mass = np.array([1 / (s * (6 - s)) for s in range(1, 6)])
    found = np.bincount(size, minlength=6)[1:] / len(size)
    np.testing.assert_allclose(found, mass / mass.sum(), atol=0.02)


def test_a_singular_regression_warns_and_stays_finite() -> None:
    value = table_game(smooth_table(8, 0))
    with pytest.warns(
        ShearWarning,
        match=r"a regression on 4 coalitions has rank \d of 8: its least-norm solution",
    ):
        answer = explain_game(value, players=8, budget=2 + 4 * 8, method=AppendixKernel())
    assert np.isfinite(answer.values).all()
    assert abs(answer.values).max() < 10
    assert abs(answer.values).min() > 0


@pytest.mark.parametrize("method", [Kernel(), Kernel(paired=True), Leverage()])
def test_a_regression_warns_only_if_the_coalitions_leave_a_value_open(method: Method) -> None:
    """Values are told apart up to their sum by sets less their mean; earlier stages do not count."""
    value = table_game(smooth_table(8, 0))
    smallest = method.minimum(FunctionGame(value, 8))
    are_open = []
    for budget in range(smallest, smallest + 10, 2):
        sets = coalitions_of(method, 8, budget)[2:].astype(float)
        rank = int(np.linalg.matrix_rank(sets - sets.mean(axis=1, keepdims=True)))
        are_open.append(rank < 7)
        for tol in (None, 1e-9):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                explain_game(value, players=8, budget=budget, method=method, tol=tol)
            said = [str(each.message) for each in caught if "a regression on" in str(each.message)]
            words = f"a regression on {len(sets)} coalitions has rank {rank} of 7"
            assert [each.partition(":")[0] for each in said] == [words] * are_open[-1]
    assert not are_open[-1]


def test_kernel_enumerates_small_sizes_as_soon_as_the_budget_allows() -> None:
    for method in (Kernel(), Kernel(paired=True)):
        size = coalitions_of(method, 12, 200)[2:].sum(axis=1)
        assert (size == 1).sum() == (size == 11).sum() == 12
        assert (size == 6).sum() > 0


def test_leverage_gives_every_size_the_same_draws() -> None:
    size = coalitions_of(Leverage(), 13, 2 + 12 * 10)[2:].sum(axis=1)
    assert np.bincount(size, minlength=14)[1:13].tolist() == [10] * 12


@pytest.mark.parametrize("method", [Kernel(paired=True), Leverage()])
def test_pairs_are_drawn_whole_and_without_replacement(method: Method) -> None:
    inner = coalitions_of(method, 10, 300)[2:]
    half = len(inner) // 2
    assert (inner[:half] == ~inner[half:]).all()
    assert len(np.unique(inner, axis=0)) == len(inner)


# Combinatorics


@pytest.mark.parametrize(
    ("players", "size", "count", "times"), [(5, 2, 3, 2000), (30, 7, 900, 20)], ids=str
)
def test_distinct_sets_are_uniform(players: int, size: int, count: int, times: int) -> None:
    """Also if sets that were drawn before are rejected."""
    rng = np.random.default_rng(0)
    drawn = [distinct_sets(players, size, count, rng).mean(axis=0) for _ in range(times)]
    np.testing.assert_allclose(np.mean(drawn, axis=0), size / players, atol=0.02)


def test_papers_kernel_draws_sets_uniformly() -> None:
    inner = coalitions_of(AppendixKernel(), 5, 2 + 5 * 4_000)[2:]
    counts = np.bincount(inner @ (1 << np.arange(5)), minlength=32)
    assert counts[0] == counts[31] == 0
    np.testing.assert_allclose(counts[1:31] / len(inner), 1 / 30, atol=0.006)


WRONG: list[tuple[type[Method], dict[str, str]]] = [
    (Shear, {"outsiders": "none"}),
    (Shear, {"selection": "rnd"}),
    (Shear, {"interaction": "hesian"}),
]


@pytest.mark.parametrize(("method", "options"), WRONG)
def test_unknown_options_are_refused(method: type[Method], options: dict[str, str]) -> None:
    with pytest.raises(MethodError, match="expected one of"):
        method(**options)


# Sizes


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("method", ["leverage", "permutation-antithetic", "kernel-paired"])
def test_three_hundred_players(method: str) -> None:
    worth = np.random.default_rng(0).normal(size=300)
    pair = np.random.default_rng(1).normal(size=300) / 300

    def value(z: Bools) -> Floats:
        return np.asarray(z @ worth + (z @ pair) ** 2)

    answer = explain_game(value, players=300, budget=1400, method=method)
    np.testing.assert_allclose(answer.values[0], worth + pair * pair.sum(), atol=1e-8)


def test_shear_with_three_hundred_players_builds_nothing_of_their_cube() -> None:
    biggest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal biggest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                biggest = max(biggest, result.numel())
            return result

    net = network(300, 1)
    rows = np.random.default_rng(0).normal(size=(2, 300))
    with Watch():  # type: ignore[no-untyped-call]
        answer = explain(
            net, rows, reference=np.zeros(300), budget=2 + 4 * 300, method="shear", batch_size=256
        )
    assert answer.derivative_passes == 302
    assert biggest < 300**3 / 4


@pytest.mark.slow
def test_exact_values_of_twenty_players_fit_four_gigabytes() -> None:
    script = (
        "import resource, numpy as np, torch, shearshap\n"
        "net = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))\n"
        "answer = shearshap.explain(net, np.ones((1, 20)), reference=np.zeros(20), budget=1 << 20)\n"
        "assert answer.evaluations == 1 << 20 and abs(answer.gap).max() < 1e-5\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4 << 20  # kilobytes


def test_welford_is_the_running_mean_of_the_appendix() -> None:
    """A_n and b_n updated one coalition at a time, with f(S_n) - f(0) where the appendix prints f(U) - f(0)."""
    players, budget, table = 6, 50, random_table(6, 8)
    value = table_game(table)
    answer = explain_game(value, players=players, budget=budget, method=Welford(), seed=4)
    A, b = np.zeros((players, players)), np.zeros(players)
    for n, member in enumerate(
        coalitions_of(Welford(), players, budget, seed=4)[2:].astype(float), start=1
    ):
        A = (1 - 1 / n) * A + np.outer(member, member) / n
        b = (1 - 1 / n) * b + (value(member[None].astype(bool))[0] - table[0]) * member / n
    one = np.ones(players)
    inverse = np.linalg.inv(A)
    total = table[-1] - table[0]
    slow = inverse @ (b - one * (one @ inverse @ b - total) / (one @ inverse @ one))
    np.testing.assert_allclose(answer.values[0], slow, atol=1e-9)
