"""The chain rule against plain-Python transcriptions of its definitions."""

import itertools
import math
from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from shearshap.methods.exact import shapley_transform
from shearshap_lab.theory import (
    MAX_PLAYERS,
    Surface,
    chain_rule_errors,
    chain_rule_weights,
    cross_derivatives,
    cross_differences,
    removal_bounds,
    selection_bounds,
)

Game = Callable[[frozenset[int]], float]

PLAYERS = st.integers(2, 5)
SEEDS = st.integers(0, 2**31)
ACTIVATIONS = {"tanh": nn.Tanh, "softplus": nn.Softplus, "gelu": nn.GELU}
THIRD = {"tanh": 2.0, "softplus": 3**-1.5 / 2, "gelu": 0.779}  #: the largest |third derivative|

few = settings(max_examples=8)


# --- slow oracles -------------------------------------------------------------------------------------------


def slow_shapley(game: Game, members: Iterable[int], players: int) -> list[float]:
    """Mean marginal contribution over every order in which the members can arrive."""
    phi = [0.0] * players
    orders = list(itertools.permutations(members))
    for order in orders:
        for turn, player in enumerate(order):
            before = frozenset(order[:turn])
            phi[player] += (game(before | {player}) - game(before)) / len(orders)
    return phi


def slow_gap(game: Game, players: int, i: int, j: int) -> float:
    """phi_i(U) - phi_i(U - j)."""
    everybody = range(players)
    without = [player for player in everybody if player != j]
    return slow_shapley(game, everybody, players)[i] - slow_shapley(game, without, players)[i]


def slow_hessian(surface: Surface, coalition: Iterable[int], players: int) -> list[list[float]]:
    """One backward pass a player, at one corner."""
    inside = set(coalition)
    point = torch.tensor(
        [float(b in inside) for b in range(players)], dtype=torch.float64, requires_grad=True
    )
    (slope,) = torch.autograd.grad(surface(point[None])[0], point, create_graph=True)
    return [
        torch.autograd.grad(slope[b], point, retain_graph=True)[0].tolist() for b in range(players)
    ]


def slow_delta(surface: Surface, players: int, i: int, j: int) -> float:
    """Theorem 1's error term, one coalition after the other."""
    others, total = [b for b in range(players) if b not in (i, j)], 0.0
    for size in range(players - 1):
        for coalition in itertools.combinations(others, size):
            hessian = slow_hessian(surface, (*coalition, i, j), players)
            below = 2 * (players - size - 1) * math.comb(players, size + 1)
            total += (hessian[i][j] + hessian[j][i]) / below
    return total


def slow_epsilon(surface: Surface, players: int, i: int, j: int) -> float:
    """Equation (6), V running over what is taken away from everybody."""
    others, largest = [b for b in range(players) if b not in (i, j)], 0.0
    for size in range(players - 1):
        for gone in itertools.combinations(others, size):
            hessian = slow_hessian(surface, set(range(players)) - set(gone), players)
            largest = max(largest, abs(hessian[i][j] + hessian[j][i]) / 4)
    return largest


# --- games --------------------------------------------------------------------------------------------------


def game_of(surface: Surface, players: int) -> Game:
    def game(coalition: frozenset[int]) -> float:
        point = torch.tensor([[float(b in coalition) for b in range(players)]], dtype=torch.float64)
        return float(surface(point).detach())

    return game


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def quadratic(players: int, seed: int) -> tuple[Surface, Tensor]:
    """A random quadratic z'Az/2 + b'z + 3 and its Hessian A (p, p)."""
    matrix, slope = normal(seed, players, players), normal(seed + 1, players)
    matrix = matrix + matrix.T
    return lambda z: ((z @ matrix) * z).sum(1) / 2 + z @ slope + 3, matrix


def grouped_quadratic(players: int, seed: int) -> Surface:
    """A random quadratic of 2p inputs, two to a player."""
    inside, _ = quadratic(2 * players, seed)
    reference, row = normal(seed + 2, 2 * players), normal(seed + 3, 2 * players)
    return lambda z: inside(reference + z.repeat_interleave(2, 1) * (row - reference))


def random_game(players: int, seed: int) -> Surface:
    """Any 2^p values, looked up; defined at the corners only."""
    table = normal(seed, 2**players)
    return lambda z: table[(z @ (2.0 ** torch.arange(players)).to(z)).long()]


def multilinear(players: int, seed: int) -> Surface:
    """Owen's multilinear extension of `random_game`."""
    table = normal(seed, 2**players)

    def surface(z: Tensor) -> Tensor:
        values = table.expand(len(z), -1)
        for player in range(players):
            values = values[:, 0::2] * (1 - z[:, [player]]) + values[:, 1::2] * z[:, [player]]
        return values[:, 0]

    return surface


def network(
    players: int, seed: int, *, activation: type[nn.Module] = nn.Tanh, scale: float = 1.0
) -> Surface:
    """A random smooth network of p inputs, seen from a row `scale` times its first distance from 0."""
    steps, out = network_steps(players, seed)
    bend, bias = activation(), normal(seed + 3, 8)
    return lambda z: bend(scale * z @ steps.T + bias) @ out


def network_steps(players: int, seed: int) -> tuple[Tensor, Tensor]:
    """How far each player moves each of 8 hidden units, (8, p), and what those units count for, (8,)."""
    return normal(seed, 8, players) * normal(seed + 2, players), normal(seed + 1, 8)


def subgame_shapley(surface: Surface, members: Tensor) -> Tensor:
    """The Shapley values (p,) of the game among `members` (p,) of bool only, from all coalitions."""
    phi = torch.zeros(len(members), dtype=torch.float64)
    size = int(members.sum())
    points = torch.zeros(1 << size, len(members), dtype=torch.float64)
    points[:, members] = (torch.arange(1 << size)[:, None] >> torch.arange(size) & 1).double()
    if size:
        values = surface(points).detach().double()
        phi[members] = shapley_transform(values[None, :, None])[0, :, 0]
    return phi


def gaps(surface: Surface, players: int) -> Tensor:
    """phi_i(U) - phi_i(U - j) for every pair, (p, p), by brute force; 0 on the diagonal."""
    everybody = torch.ones(players, dtype=torch.bool)
    whole = subgame_shapley(surface, everybody)
    without = [subgame_shapley(surface, torch.arange(players) != j) for j in range(players)]
    return (whole[:, None] - torch.stack(without, 1)).fill_diagonal_(0)


def random_cooperators(players: int, seed: int) -> Tensor:
    return (normal(seed, players, players) > 0).fill_diagonal_(fill_value=False)


def selection_gaps(surface: Surface, cooperators: Tensor) -> Tensor:
    """phi_i(U) - phi_i(S_i + i) for every player, (p,), by brute force."""
    players = len(cooperators)
    whole = subgame_shapley(surface, torch.ones(players, dtype=torch.bool))
    members = cooperators | torch.eye(players, dtype=torch.bool)
    return whole - torch.stack([subgame_shapley(surface, members[i])[i] for i in range(players)])


# --- the fast tensors against the slow definitions ----------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("players", [2, 4])
def test_delta_and_epsilon_transcribe_the_paper(activation: str, players: int) -> None:
    surface = network(players, 1, activation=ACTIVATIONS[activation])
    cross = cross_derivatives(surface, players)
    delta, epsilon = chain_rule_errors(cross), removal_bounds(cross)
    for i, j in itertools.permutations(range(players), 2):
        assert float(delta[i, j]) == pytest.approx(slow_delta(surface, players, i, j), abs=1e-12)
        assert float(epsilon[i, j]) == pytest.approx(
            slow_epsilon(surface, players, i, j), abs=1e-12
        )


@given(players=st.integers(2, 40))
def test_the_weights_of_theorem_1_sum_to_one_half(players: int) -> None:
    counts = torch.tensor(
        [math.comb(players - 2, size) for size in range(players - 1)], dtype=torch.float64
    )
    assert float(counts @ chain_rule_weights(players)) == pytest.approx(0.5, rel=1e-12)


# --- what is exact ------------------------------------------------------------------------------------------


@few
@given(players=st.integers(1, 7), seed=SEEDS)
def test_with_differences_the_chain_rule_is_an_identity(players: int, seed: int) -> None:
    surface = random_game(players, seed)
    errors = chain_rule_errors(cross_differences(surface, players))
    assert_close(errors, gaps(surface, players), rtol=0, atol=1e-10)


@few
@given(players=PLAYERS, seed=SEEDS)
def test_with_differences_the_bounds_hold_for_every_game(players: int, seed: int) -> None:
    surface, cooperators = random_game(players, seed), random_cooperators(players, seed + 9)
    removal = removal_bounds(cross_differences(surface, players))
    assert (gaps(surface, players).abs() <= removal + 1e-12).all()
    assert (
        selection_gaps(surface, cooperators).abs() <= selection_bounds(removal, cooperators) + 1e-12
    ).all()


@few
@given(players=PLAYERS, seed=SEEDS)
def test_theorems_1_and_2_are_exact_and_tight_on_quadratics(players: int, seed: int) -> None:
    surface, matrix = quadratic(players, seed)
    cross = cross_derivatives(surface, players)
    half = (matrix / 2).fill_diagonal_(0)
    assert_close(chain_rule_errors(cross), half, rtol=0, atol=1e-10)
    assert_close(removal_bounds(cross), half.abs(), rtol=0, atol=1e-10)
    assert slow_gap(game_of(surface, players), players, 0, 1) == pytest.approx(
        float(half[0, 1]), abs=1e-10
    )


@few
@given(players=PLAYERS, seed=SEEDS)
@pytest.mark.parametrize("kind", [grouped_quadratic, multilinear])
def test_theorems_1_and_2_are_exact_where_the_docstring_says(
    kind: Callable[[int, int], Surface], players: int, seed: int
) -> None:
    surface, cooperators = kind(players, seed), random_cooperators(players, seed + 9)
    cross, gap = cross_derivatives(surface, players), gaps(surface, players)
    assert_close(cross, cross_differences(surface, players), rtol=0, atol=1e-10)
    assert_close(chain_rule_errors(cross), gap, rtol=0, atol=1e-10)
    removal = removal_bounds(cross)
    assert (gap.abs() <= removal + 1e-10).all()
    assert (
        selection_gaps(surface, cooperators).abs() <= selection_bounds(removal, cooperators) + 1e-10
    ).all()


# --- what is not --------------------------------------------------------------------------------------------


def order(sizes: list[Tensor]) -> float:
    """The power of the scale with which a matrix shrinks, given it at one scale and at half of it."""
    large, small = (float(size.abs().max()) for size in sizes)
    return math.log2(large / small)


# fixed seeds: a random network whose leading term nearly cancels shows its order only at far smaller scales
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_remainder_of_theorem_1_is_of_third_order(activation: str, seed: int) -> None:
    terms, remainders = [], []
    for scale in (2**-7, 2**-8):
        surface = network(4, seed, activation=ACTIVATIONS[activation], scale=scale)
        terms.append(chain_rule_errors(cross_derivatives(surface, 4)))
        remainders.append(gaps(surface, 4) - terms[-1])
    assert order(terms) == pytest.approx(2, abs=0.2)
    assert order(remainders) == pytest.approx(3, abs=0.2)


def test_a_cubic_breaks_the_printed_bound_and_not_the_exact_one() -> None:
    def surface(z: Tensor) -> Tensor:
        return (2 * z[:, 0] - z[:, 0] ** 2) * z[:, 1]

    assert float(gaps(surface, 2)[0, 1]) == pytest.approx(0.5)
    assert float(removal_bounds(cross_derivatives(surface, 2))[0, 1]) == 0
    assert float(removal_bounds(cross_differences(surface, 2))[0, 1]) == pytest.approx(0.5)


# --- Remark 1, and the boundary -----------------------------------------------------------------------------


def test_too_many_players_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at most 16 players, got 17"):
        cross_differences(random_game(2, 0), MAX_PLAYERS + 1)
