"""Interactions, against the definition, plain sums over all coefficients, and shapiq."""

from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from definitions import interaction_index, pairs_of
from games import (
    Bools,
    Floats,
    all_coalitions,
    exact_shares,
    network,
    pairwise,
    random_table,
    smooth_table,
    table_game,
)
from peer_library import peer
from shearshap import METHODS, Explainer, model_game
from shearshap.games import indices
from shearshap.games.game import FunctionGame
from shearshap.interactions import kriged
from shearshap.interactions.cross import cross_contribution
from shearshap.interactions.indices import (
    estimated_second_differences,
    exact_index,
    has_pairs,
    interactions,
)
from shearshap.interactions.kriged import differences_of_kernel
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging import kernel as kernels

P = 5
R = np.random.default_rng(0).uniform(0.05, 0.8, size=P)
SIDES = all_coalitions(P)[
    [31, 1, 3, 5, 9, 17, 7, 11, 21]
]  # one side of nine pairs, the full coalition first
SIGNS: Floats = 2.0 * SIDES.astype(np.float64) - 1
EVEN = [T for T in chain(*(combinations(range(P), n) for n in range(2, P + 1))) if len(T) % 2 == 0]


def slow_interactions(table: Floats) -> Floats:
    pairs = pairs_of(table)
    return pairs + np.diag(exact_shares(table) - pairs.sum(axis=1) / 2)


def gentle_table(players: int, seed: int) -> Floats:
    """A game of a small network in which, as in trained ones, some players matter more than others."""
    net = network(players, outputs=1, seed=seed)
    inputs = all_coalitions(players) * 3 * 0.7 ** np.arange(players)
    return np.asarray(net(tensor(inputs)).detach()[:, 0])


def paired(sides: Bools) -> Bools:
    """The ends, then one side of each pair, then the other sides."""
    p = sides.shape[1]
    ends = np.stack([np.zeros(p, dtype=bool), np.ones(p, dtype=bool)])
    return np.concatenate((ends, sides, ~sides))


def some_pairs(players: int, count: int, seed: int = 0) -> Bools:
    """Single players, then `count` random sides without repeats."""
    rng = np.random.default_rng(seed)
    codes = 1 + 2 * rng.permutation(2 ** (players - 1) - 1)[:count]
    return paired(
        np.concatenate(
            (np.eye(players, dtype=bool), (codes[:, None] >> np.arange(players) & 1).astype(bool))
        )
    )


def found(sets: Bools, tables: Floats, calibration: Calibration | None = None) -> Floats:
    """The interactions of tables (r, 2^p) from some coalitions, with exact Shapley values: (r, p, p)."""
    values = tables[:, sets @ (1 << np.arange(sets.shape[1]))]
    phi = np.stack([exact_shares(table) for table in tables])
    answer = interactions(
        tensor(sets)[None],
        tensor(values)[..., None],
        tensor(phi)[..., None],
        calibration=calibration,
    )
    return np.asarray(answer[..., 0])


def tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def between(table: Floats) -> Floats:
    """The entries off the diagonal."""
    return np.asarray(table[..., ~np.eye(table.shape[-1], dtype=bool)])


# All coalitions


@pytest.mark.parametrize("players", [3, 4, 5, 6])
def test_all_coalitions_give_the_definition(players: int) -> None:
    table = random_table(players, players)
    shuffled = np.random.default_rng(0).permutation(all_coalitions(players))
    np.testing.assert_allclose(
        found(shuffled, table[None])[0], slow_interactions(table), atol=1e-12
    )


@pytest.mark.parametrize("order", [1, 2, 3, 5, 6])
def test_exact_indices_of_every_order(order: int) -> None:
    tables = np.stack([random_table(P, seed) for seed in range(2)])
    expected = [
        [interaction_index(table, players) for players in combinations(range(P), order)]
        for table in tables
    ]
    every = exact_index(tensor(tables), indices.interaction_index("SII", order, P))
    index = every[:, every.shape[1] - comb(P, order) :]
    np.testing.assert_allclose(index, np.array(expected).reshape(2, -1), atol=1e-12)


@pytest.mark.parametrize(
    ("table", "expected"), [([1.0, 3.0], [[2.0]]), ([1.0, 2.0, 4.0, 9.0], [[1, 4], [4, 3]])]
)
def test_games_of_one_and_two_players(table: list[float], expected: list[list[float]]) -> None:
    players = len(table) // 2
    np.testing.assert_allclose(
        found(all_coalitions(players), np.array([table]))[0], expected, atol=1e-12
    )


def test_repeats_and_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = np.stack([random_table(P, seed) for seed in range(3)])
    once = found(all_coalitions(P), tables)
    monkeypatch.setitem(kernels.CHUNK_ENTRIES, "cpu", 32)
    twice = found(np.concatenate((all_coalitions(P), all_coalitions(P)[:7])), tables)
    np.testing.assert_allclose(twice, once, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("players", [4, 7])
def test_exact_agrees_with_shapiq(players: int) -> None:
    shapiq = peer("shapiq")
    table = random_table(players, 1)
    value = table_game(table)
    computer = shapiq.ExactComputer(
        n_players=players, game=lambda z: value(np.atleast_2d(z).astype(bool))
    )
    theirs = computer("k-SII", order=2)
    ours = found(all_coalitions(players), table[None])[0]
    for i, j in combinations(range(players), 2):
        assert ours[i, j] == pytest.approx(theirs[(i, j)], abs=1e-9)
    np.testing.assert_allclose(np.diag(ours), [theirs[(i,)] for i in range(players)], atol=1e-9)


# Some pairs


def product(T: tuple[int, ...], x: Floats) -> float:
    return float(np.prod([x[j] for j in T]))


def slow_cross(r: Floats, u: Floats) -> Floats:
    """SII_ij[k(., u)], (p, p, m): it is 4 / (|T| - 1) of prod_{j in T} u_j for even T with i and j."""
    cross = np.zeros((P, P, len(u)))
    for T in EVEN:
        for i, j in combinations(T, 2):
            cross[i, j] += [4 / (len(T) - 1) * product(T, r) * product(T, w) for w in u]
    return cross + cross.transpose(1, 0, 2)


def even_part(table: Floats) -> Floats:
    value = table_game(table)
    return (value(SIDES) + value(~SIDES)) / 2


def slow_kernel(r: Floats, u: Floats) -> Floats:
    return np.array(
        [[sum(product(T, r) * product(T, a) * product(T, b) for T in EVEN) for b in u] for a in u]
    )


def test_the_answer_solves_the_kriging_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary kriging by its block system, at known relevances."""
    monkeypatch.setattr(kriged, "relevances", lambda *_: tensor(R)[None])
    monkeypatch.setattr(kriged, "LEVELS", [0])
    table, u = smooth_table(P, 3), SIGNS
    even = even_part(table)
    one = np.ones((len(u), 1))
    system = np.block([[slow_kernel(R, u), one], [one.T, np.zeros((1, 1))]])
    dual = np.linalg.solve(system, np.append(even, 0))[:-1]
    answer = found(paired(SIDES[1:]), table[None])[0]
    np.testing.assert_allclose(
        between(answer), between(slow_cross(R, u) @ dual), atol=1e-5
    )  # but for the nugget


@pytest.mark.parametrize(("seed", "level"), [(0, 1), (3, -2), (5, 0)])
def test_the_level_has_the_largest_likelihood(seed: int, level: int) -> None:
    """[log|K| + log(1' K^-1 1) + (m - 1) log(y' P y)] / 2, transcribed, is least at the level chosen."""
    u = SIGNS
    y = even_part(smooth_table(P, seed))
    logits = np.log(R / (0.95 - R))
    chosen = kriged.at_likeliest_level(tensor(u), tensor(y)[None], tensor(logits)[None])[0]

    def loss(r: Floats) -> float:
        kernel = slow_kernel(r, u)
        inverse = np.linalg.inv(kernel / kernel[0, 0] + 1e-8 * np.eye(len(u)))
        total = inverse.sum()
        left = y @ inverse @ (y - (inverse @ y).sum() / total)
        return (
            float(-np.linalg.slogdet(inverse)[1] + np.log(total) + (len(u) - 1) * np.log(left)) / 2
        )

    tried = {shift: 0.95 / (1 + np.exp(-(logits + shift).clip(-9, 9))) for shift in kriged.LEVELS}
    assert min(tried, key=lambda shift: loss(tried[shift])) == level
    np.testing.assert_allclose(chosen, logits + level, rtol=1e-9)


@pytest.mark.parametrize("method", ["kriging", "leverage", "kernel-paired"])
@pytest.mark.parametrize("players", [6, 8])
def test_pairwise_games_are_exact_given_enough_pairs(method: str, players: int) -> None:
    value, phi = pairwise(players, 2)
    pairs = players * (players - 1) // 2 + 9
    game = FunctionGame(value, players)
    sets = METHODS[method].design(game, 2 * pairs, np.random.default_rng(0)).coalitions
    assert sets.shape[1] < 2**players
    answer = interactions(sets, game(sets), tensor(phi)[None, :, None])[0, ..., 0]
    table = value(all_coalitions(players))
    np.testing.assert_allclose(answer, slow_interactions(table), atol=2e-5 * np.ptp(table))


def test_less_error_than_a_regression_on_products() -> None:
    p = 9
    bits = 1 << np.arange(p)
    tables = np.stack([gentle_table(p, seed) for seed in range(4)])
    sets = some_pairs(p, 120)
    inside = sets[2 : 2 + p + 120]
    even = (tables[:, inside @ bits] + tables[:, ~inside @ bits]) / 2
    i, j = np.triu_indices(p, 1)
    u = 2.0 * inside - 1
    products = np.column_stack((np.ones(len(u)), u[:, i] * u[:, j]))
    regressed = 4 * np.linalg.lstsq(products, even.T)[0][1:].T
    exact = np.stack([slow_interactions(table) for table in tables])[:, i, j]
    assert (
        np.abs(found(sets, tables)[:, i, j] - exact).mean() < np.abs(regressed - exact).mean() / 3
    )


def test_null_players_get_almost_nothing() -> None:
    z = all_coalitions(8)
    table = np.tanh(z[:, :7] @ np.random.default_rng(0).normal(size=7))
    answer = found(some_pairs(8, 50), table[None])[0]
    assert np.abs(answer[7, :7]).max() < 0.02 * np.abs(between(answer)).max()
    additive = found(some_pairs(8, 20), (z @ np.arange(8.0) + 3)[None])[0]
    np.testing.assert_allclose(additive, np.diag(np.arange(8.0)), atol=1e-9)


@pytest.mark.parametrize("count", [3, 12])
def test_answers_are_symmetric_and_efficient(count: int) -> None:
    tables = np.stack([smooth_table(7, seed) for seed in range(3)])
    answer = found(some_pairs(7, count), tables)
    np.testing.assert_array_equal(answer, answer.transpose(0, 2, 1))
    upper = np.triu(answer).sum(axis=(1, 2))
    np.testing.assert_allclose(upper, tables[:, -1] - tables[:, 0], atol=1e-9)


def test_players_may_be_renamed() -> None:
    table = smooth_table(7, 1)
    sets = some_pairs(7, 15)
    order = np.random.default_rng(0).permutation(7)
    plain = found(sets, table[None])[0]
    renamed = table_game(table)(all_coalitions(7)[:, np.argsort(order)])
    np.testing.assert_allclose(
        found(sets[:, order], renamed[None])[0], plain[np.ix_(order, order)], atol=1e-9
    )


def test_rows_outputs_order_and_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row's and output's answer is its own, however rows are split and coalitions listed."""
    p = 7
    rng = np.random.default_rng(0)
    sets, net = some_pairs(p, 20), network(p, outputs=3)
    rows = tensor(rng.normal(size=(4, 1, p)))
    values = net(rows * tensor(sets)).detach()
    phi = tensor(rng.normal(size=(4, p, 3)))
    together = interactions(tensor(sets)[None], values, phi)
    assert together.shape == (4, p, p, 3)
    mixed = rng.permutation(np.append(np.arange(len(sets)), [5, 9]))
    monkeypatch.setitem(kernels.CHUNK_ENTRIES, "cpu", 1)
    for row in range(4):
        for output in range(3):
            one = (slice(row, row + 1), slice(None), slice(output, output + 1))
            alone = interactions(tensor(sets[mixed])[None], values[:, mixed][one], phi[one])
            np.testing.assert_allclose(alone[0, ..., 0], together[row, ..., output], atol=1e-7)


def test_of_too_many_pairs_some_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    table, sets = gentle_table(9, 0), some_pairs(9, 120)
    exact = slow_interactions(table)
    monkeypatch.setattr(kriged, "LEVEL_PAIRS", 30)
    monkeypatch.setattr(kriged, "MAX_PAIRS", 60)
    miss = np.abs(found(sets, table[None])[0] - exact)
    assert 0 < between(miss).mean() < 0.2 * np.abs(between(exact)).mean()


# Pairs or none


def test_rows_with_designs_of_their_own() -> None:
    tables = np.stack([smooth_table(6, 0), smooth_table(6, 1)])
    sets = np.stack([some_pairs(6, 10, 0), some_pairs(6, 10, 1)])
    values = np.take_along_axis(tables, sets @ (1 << np.arange(6)), axis=1)
    phi = np.stack([exact_shares(table) for table in tables])
    answer = interactions(tensor(sets), tensor(values)[..., None], tensor(phi)[..., None])
    for row in range(2):
        np.testing.assert_allclose(
            answer[row, ..., 0], found(sets[row], tables[row : row + 1])[0], atol=1e-9
        )
    sets[1, 5, 3] = ~sets[1, 5, 3]
    assert not has_pairs(tensor(sets))


@pytest.mark.parametrize("players", [40, 62, 63, 90])
def test_pairs_of_many_players_are_found(players: int) -> None:
    sides = np.random.default_rng(0).random((200, players)) < 0.5
    sets = paired(sides)
    mixed = np.random.default_rng(1).permutation(sets)
    assert has_pairs(tensor(mixed)[None])
    assert not has_pairs(tensor(mixed[1:])[None])
    mixed[17, 3] = ~mixed[17, 3]
    assert not has_pairs(tensor(mixed)[None])


def test_pairwise_games_of_many_players() -> None:
    """With few of them that matter, far fewer pairs than 70 * 69 / 2 tell which interact."""
    sets = paired(np.random.default_rng(0).random((400, 70)) < 0.5)
    values = 3.0 * (sets[:, 4] & sets[:, 8]) + sets[:, 2]
    answer = interactions(
        tensor(sets)[None], tensor(values)[None, :, None], torch.zeros(1, 70, 1).double()
    )[0, ..., 0]
    off = np.triu(answer.numpy(), 1)
    assert off[4, 8] == pytest.approx(3, abs=0.2)
    off[4, 8] = 0
    assert np.abs(off).max() < 0.2


# Second differences where all players are present


def top_differences(table: Floats) -> Floats:
    """The definition, transcribed: |v(U) - v(U-i) - v(U-j) + v(U-ij)|."""
    p, every = len(table).bit_length() - 1, len(table) - 1
    found = np.zeros((p, p))
    for i, j in ((i, j) for i in range(p) for j in range(p) if i != j):
        a = 1 << i
        b = 1 << j
        found[i, j] = abs(table[every] - table[every - a] - table[every - b] + table[every - a - b])
    return found


@pytest.mark.parametrize("players", [2, 3, 5])
def test_second_differences_of_all_coalitions(players: int) -> None:
    tables = np.stack([random_table(players, seed, (2,)) for seed in range(3)])
    found = estimated_second_differences(tensor(all_coalitions(players))[None], tensor(tables))
    wanted = [top_differences(table[:, 0]) + top_differences(table[:, 1]) for table in tables]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("odd", [True, False])
def test_the_second_difference_of_a_kernel_against_plain_sums(odd: bool) -> None:
    duals = np.random.default_rng(1).normal(size=(1, len(SIGNS)))
    sizes = [n for n in range(2, P + 1) if n % 2 == odd]
    sets = [T for n in sizes for T in combinations(range(P), n)]
    slow = np.zeros((P, P))
    for T in sets:
        part = 4 * (duals[0] * np.prod(R[list(T)] * SIGNS[:, list(T)], axis=1)).sum()
        for i, j in ((i, j) for i in T for j in T if i != j):
            slow[i, j] += part
    fast = differences_of_kernel(tensor(SIGNS), tensor(R[None]), tensor(duals), odd=odd)
    np.testing.assert_allclose(fast[0].numpy(), slow, atol=1e-12)


def test_second_differences_of_pairwise_games_from_some_pairs() -> None:
    value, _ = pairwise(6, 2)
    sides = some_pairs(6, 20)
    asked = paired(sides)
    found = estimated_second_differences(tensor(asked)[None], tensor(value(asked))[None, :, None])
    np.testing.assert_allclose(
        found[0].numpy(), top_differences(value(all_coalitions(6))), atol=1e-4
    )


@pytest.mark.parametrize("method", ["kriging", "leverage"])
def test_second_differences_are_close_on_smooth_games(method: str) -> None:
    """Half of the coalitions of a small network tell the strongest pairs of players."""
    players = 8
    tables = np.stack([gentle_table(players, seed) for seed in range(4)])
    design = METHODS[method].design(
        FunctionGame(lambda z: z.sum(axis=1), players), 128, np.random.default_rng(0)
    )
    asked = design.coalitions[0].numpy() @ (1 << np.arange(players))
    found = estimated_second_differences(
        design.coalitions, tensor(tables[:, asked])[..., None]
    ).numpy()
    wanted = np.stack([top_differences(table) for table in tables])
    assert abs(found - wanted).mean() < 0.1 * wanted.mean()


class Numpy(nn.Module):
    """What autograd cannot follow."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(_steep(x.numpy()))


class Steps(nn.Module):
    """What has slopes of zero everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.sum(1) > 0.3).double() + (x[:, 0] * x[:, 1] > 0).double()


def _steep(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.tanh(x.sum(axis=1)) * x[:, 0])


@pytest.mark.parametrize("tol", [None, 1e-9])
@pytest.mark.parametrize("model", [Numpy(), Steps()])
def test_where_derivatives_tell_nothing_the_values_do(model: nn.Module, tol: float | None) -> None:
    """Without a warning, and not at a row that equals its background, whose differences are zero."""
    rows = np.concatenate((np.random.default_rng(0).normal(size=(5, 5)), np.zeros((1, 5))))
    explainer = Explainer(model, np.zeros(5))
    answer = explainer(rows, budget=32, tol=tol, interactions=True)
    plain = Explainer(lambda x: model(torch.from_numpy(x)).numpy(), np.zeros(5))
    wanted = plain(rows, budget=32, tol=tol, interactions=True)
    assert answer.cross_contribution is not None
    assert wanted.cross_contribution is not None
    np.testing.assert_allclose(answer.cross_contribution, wanted.cross_contribution, atol=1e-9)
    assert (answer.cross_contribution[:5].max(axis=(1, 2)) > 0.05).sum() >= 4
    assert abs(answer.cross_contribution[5]).max() == 0
    assert answer.evaluations == wanted.evaluations


def test_a_row_without_slopes_among_others() -> None:
    """At the second row the ReLU is off, and with any one of its players absent, but with two it is on."""

    class Hill(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(1 - x.square().sum(1)) * (1 + x[:, 0] * x[:, 1])

    rows = np.array([[0.3, 0.2, 0.1], [0.8, 0.8, 0.8]])
    answer = Explainer(Hill(), np.zeros(3))(rows, budget=8, interactions=True)
    with model_game(Hill(), rows[:1], reference=np.zeros(3)) as game:
        first = cross_contribution(game)
    assert answer.cross_contribution is not None
    np.testing.assert_allclose(answer.cross_contribution[0], first[0], atol=1e-12)
    np.testing.assert_allclose(answer.cross_contribution[1], 0.36 * (1 - np.eye(3)), atol=1e-12)


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("name", ["shear", "shear-unbiased"])
def test_shears_coalitions_have_their_complements(name: str) -> None:
    """Interactions add up to the sum of the Shapley values, which is not that of an efficient method."""
    rows = np.random.default_rng(0).normal(size=(3, 6))
    answer = Explainer(network(6), np.zeros(6), method=name, output=1)(
        rows, budget=2 + 4 * 6, interactions=True
    )
    assert answer.interactions is not None
    both = answer.interactions
    total = (both.sum(axis=(1, 2)) + np.einsum("rii->r", both)) / 2
    np.testing.assert_allclose(total, answer.values.sum(axis=1), atol=1e-9)
    assert abs(total - (answer.predictions - answer.base_values)).max() > 1e-6
