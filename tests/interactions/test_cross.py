"""Cross-contribution, each way against a slow oracle, and the choice between them."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Floats, network, predictor
from shearshap import MethodError, Shear, ShearWarning, explain
from shearshap.games.batches import Batch
from shearshap.games.marginal import ModelGame
from shearshap.interactions.cross import (
    block_maximum,
    cross_contribution,
    gradient_differences,
    hessian,
)
from shearshap.models import AdaptedModel, Predictor

GROUPS = np.array([0, 1, 1, 2, 3, 3, 3])
PLAYERS = 4


def game_of(net: nn.Module, rows: int = 3, background: int = 1) -> ModelGame:
    rng = np.random.default_rng(0)
    predict = predictor(net.eval())
    inputs = torch.tensor(rng.normal(size=(rows, 7)))
    absent = torch.tensor(rng.normal(size=(background, 7)))
    return ModelGame(predict, inputs, absent, torch.tensor(GROUPS), (7,), PLAYERS, Batch(1000))


def surface(game: ModelGame, row: int, z: Tensor) -> Tensor:
    """g(z) of one row, written out: every output of the mean over background rows, summed by the caller."""
    points = [xbar + z[GROUPS] * (game.inputs[row] - xbar) for xbar in game.background]
    return torch.stack([game.predict(point[None])[0] for point in points]).mean(dim=0)


def slow_hessian(game: ModelGame, step: float = 1e-4) -> Floats:
    """|d2_ij g + d2_ji g| summed over outputs, by central differences of g."""
    eta = np.zeros((game.rows, PLAYERS, PLAYERS))
    unit = torch.eye(PLAYERS, dtype=torch.float64) * step
    one = torch.ones(PLAYERS, dtype=torch.float64)
    for row in range(game.rows):
        for i, j in combinations(range(PLAYERS), 2):
            g = [
                surface(game, row, one + a * unit[i] + b * unit[j])
                for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            ]
            second = (g[0] - g[1] - g[2] + g[3]) / (4 * step**2)
            eta[row, i, j] = eta[row, j, i] = 2 * second.detach().abs().sum()
    return eta


@pytest.mark.parametrize("background", [1, 3])
def test_hessian_against_central_differences(background: int) -> None:
    game = game_of(network(7), background=background)
    np.testing.assert_allclose(hessian(game), slow_hessian(game), rtol=1e-4, atol=1e-6)
    assert game.usage.derivative_passes == (1 + 2 * (1 + PLAYERS)) * background
    assert game.usage.evaluations == 0


def test_gradient_differences_against_one_gradient_at_a_time() -> None:
    game = game_of(network(7, activation=nn.ReLU))
    slow = np.zeros((game.rows, PLAYERS, PLAYERS))
    for row in range(game.rows):

        def slope(z: Tensor, row: int = row) -> Tensor:
            return torch.autograd.functional.jacobian(lambda at: surface(game, row, at), z)  # type: ignore[no-any-return]

        one = torch.ones(PLAYERS, dtype=torch.float64)
        for i in range(PLAYERS):
            for j in set(range(PLAYERS)) - {i}:
                without = one.clone()
                without[j] = 0
                slow[row, i, j] = (slope(one) - slope(without))[:, i].abs().sum()
    np.testing.assert_allclose(gradient_differences(game), slow, atol=1e-10)
    assert game.usage.derivative_passes == 3 * (PLAYERS + 1)


def test_second_differences_against_four_values() -> None:
    game = game_of(network(7), background=2)

    def value(row: int, absent: set[int]) -> Tensor:
        z = torch.ones(PLAYERS, dtype=torch.float64)
        z[list(absent)] = 0
        return surface(game, row, z)

    slow = np.zeros((game.rows, PLAYERS, PLAYERS))
    for row in range(game.rows):
        for i, j in combinations(range(PLAYERS), 2):
            second = value(row, set()) - value(row, {i}) - value(row, {j}) + value(row, {i, j})
            slow[row, i, j] = slow[row, j, i] = second.detach().abs().sum()
    np.testing.assert_allclose(cross_contribution(game, "second-differences"), slow, atol=1e-10)
    assert game.usage.evaluations == (1 + PLAYERS + PLAYERS * (PLAYERS - 1) // 2) * 2
    assert game.usage.derivative_passes == 0


def test_block_maximum_against_input_by_input() -> None:
    net = network(7, outputs=1)
    game = game_of(net)
    slow = np.zeros((game.rows, PLAYERS, PLAYERS))
    for row in range(game.rows):
        second = torch.autograd.functional.hessian(lambda x: net(x)[0], game.inputs[row])
        shift = (game.inputs[row] - game.background[0]).abs()
        fine = 2 * second.abs() * shift[:, None] * shift
        for i, j in combinations(range(PLAYERS), 2):
            slow[row, i, j] = slow[row, j, i] = fine[np.flatnonzero(i == GROUPS)][
                :, np.flatnonzero(j == GROUPS)
            ].max()
    np.testing.assert_allclose(block_maximum(game), slow, atol=1e-10)
    assert game.usage.derivative_passes == 7 + 2


def test_automatic_choice() -> None:
    smooth = game_of(network(7))
    assert (cross_contribution(smooth) == hessian(game_of(network(7)))).all()
    kinked = game_of(network(7, activation=nn.ReLU))
    assert (
        cross_contribution(kinked) == gradient_differences(game_of(network(7, activation=nn.ReLU)))
    ).all()
    assert kinked.usage.derivative_passes == (1 + 2 * (1 + PLAYERS)) + 3 * (PLAYERS + 1)


def test_a_two_class_relu_softmax_has_a_hessian_of_rank_one_which_is_not_used() -> None:
    net = nn.Sequential(network(7, activation=nn.ReLU), nn.Softmax(dim=1))
    ranking = hessian(game_of(net)).argsort(dim=2)
    eta = cross_contribution(game_of(net))
    assert (eta == gradient_differences(game_of(net))).all()
    assert (eta.argsort(dim=2) != ranking).any()


def test_pieces_of_rows_change_nothing() -> None:
    whole = hessian(game_of(network(7), rows=9))
    pieces = game_of(network(7), rows=9)
    pieces.batch.size = 2 * PLAYERS
    np.testing.assert_allclose(hessian(pieces), whole, atol=1e-12)


def test_out_of_memory_halves_the_rows_differentiated_at_once() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(7)

        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return self.inner(x)  # type: ignore[no-any-return]

    np.testing.assert_allclose(
        hessian(game_of(Small(), rows=9)), hessian(game_of(network(7), rows=9)), atol=1e-12
    )


def test_pieces_of_the_background_change_nothing() -> None:
    whole = game_of(network(7), rows=2, background=5)
    pieces = game_of(network(7), rows=2, background=5)
    pieces.batch.size = PLAYERS
    np.testing.assert_allclose(hessian(pieces), hessian(whole), atol=1e-12)
    assert pieces.usage == whole.usage


def test_derivatives_of_what_has_none_are_refused() -> None:
    game = game_of(network(7))
    game.predict = Predictor(AdaptedModel(lambda x: x[:, 0]))
    with pytest.raises(
        MethodError, match="interaction='hessian' needs a model that can be differentiated"
    ):
        cross_contribution(game, "hessian")


def test_a_gradient_that_is_zero_warns() -> None:
    class Steps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x > 0).double().sum(dim=1)

    with pytest.warns(ShearWarning, match="the model's gradient is zero"):
        explain(Steps(), np.ones((2, 4)), reference=np.zeros(4), budget=40, method="shear")


@pytest.mark.parametrize(
    "kind", ["hessian", "gradient-differences", "second-differences", "block-maximum", "auto"]
)
def test_shear_works_with_each(kind: str) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 7))
    answer = explain(
        network(7),
        rows,
        reference=np.zeros(7),
        budget=120,
        groups=GROUPS,
        output=0,
        method=Shear(interaction=kind),  # type: ignore[arg-type]
    )
    exact = explain(network(7), rows, reference=np.zeros(7), budget=16, groups=GROUPS, output=0)
    np.testing.assert_allclose(
        answer.values, exact.values, atol=1e-9
    )  # N = 16: all coalitions of 4 players


def test_attention_and_recurrence_can_be_differentiated_twice() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(1, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.recur = nn.LSTM(8, 4, batch_first=True)
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.lift(x[..., None])
            mixed, _ = self.attend(tokens, tokens, tokens, need_weights=False)
            _, (last, _) = self.recur(mixed)
            return self.head(last[-1])  # type: ignore[no-any-return]

    torch.manual_seed(0)
    net = Mixed().double()
    game = game_of(net)
    np.testing.assert_allclose(hessian(game), slow_hessian(game), rtol=1e-3, atol=1e-5)
