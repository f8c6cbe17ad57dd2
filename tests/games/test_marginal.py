"""What is explained is what the model says of the rows themselves, or a warning says so."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Bools, Floats
from shearshap import METHODS, Explainer, Explanation, ShearWarning, explain_game
from shearshap.games.marginal import CHECKED_ROWS, _allowed_difference

ROWS = np.random.default_rng(0).normal(size=(7, 3))
ZEROS = np.zeros(3)


def weighted(rows: Floats) -> Floats:
    return np.asarray(rows @ [1.0, 2.0, 3.0])


class Counted:
    """A model that counts the rows it is asked for."""

    def __init__(self, model: Callable[[Floats], Floats] = weighted) -> None:
        self.model = model
        self.asked = 0

    def __call__(self, rows: Floats) -> Floats:
        self.asked += len(rows)
        return self.model(rows)


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("method", ["exact", "leverage", "shear", "kriging"])
def test_a_few_rows_are_compared_and_counted(count: int, method: str) -> None:
    model = Counted()
    answer = Explainer(model, ZEROS, method=method)(ROWS[:count], budget=64)
    # few rows are asked for alone, and together with a background row
    assert answer.check_evaluations == (3 * count if count <= CHECKED_ROWS else CHECKED_ROWS)
    assert model.asked == count * answer.evaluations + answer.check_evaluations
    assert len(answer.notes) == (method == "shear")  # which has no standard errors


@pytest.mark.parametrize("count", [1, 2, 4, 5])
@pytest.mark.parametrize("background", [ROWS[-1:], ROWS[-3:]])
def test_a_model_that_looks_at_its_batch_is_found_out_by_any_row(
    count: int, background: Floats
) -> None:
    def centred(rows: Floats) -> Floats:
        return np.asarray(weighted(rows) - weighted(rows).mean())

    with pytest.warns(ShearWarning, match="depends on the other rows in its batch"):
        Explainer(centred, background)(ROWS[:count])


def test_checks_are_those_of_one_call_however_it_is_cut() -> None:
    answer = Explainer(weighted, ZEROS)(ROWS, budget=8)
    assert answer[2:].check_evaluations == 4
    assert Explanation.concat([answer[:2], answer[2:]]).check_evaluations == 4


def test_a_game_has_no_model_to_compare_with() -> None:
    asked = []

    def value(coalitions: Bools) -> Floats:
        asked.append(len(coalitions))
        return np.asarray(coalitions.sum(axis=1))

    answer = explain_game(value, players=3, budget=8)
    assert answer.check_evaluations == 0
    assert sum(asked) == 8


def test_a_network_of_whole_numbers_is_never_differentiated() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            self.table = nn.Parameter(torch.randn(7, 4, generator=generator).double())

        def forward(self, x: Tensor) -> Tensor:
            return self.table.T[torch.arange(4), x].prod(dim=1) + self.table[x].sum(dim=(1, 2))

    rows = torch.tensor([[1, 2, 3, 4], [5, 6, 1, 2]])
    background = torch.zeros(1, 4, dtype=torch.long)
    answer = Explainer(Lookup(), background, method="shear")(rows, budget=60, interactions=True)
    assert answer.derivative_passes == 0
    truth = Explainer(Lookup(), background, method="exact")(rows, budget=16)
    np.testing.assert_allclose(answer.values, truth.values, atol=0.2)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_random_model_is_found_out(method: str) -> None:
    rng = np.random.default_rng(0)

    def noisy(rows: Floats) -> Floats:
        return np.asarray(weighted(rows) + rng.normal(size=len(rows)))

    with pytest.warns(ShearWarning, match="answers two identical calls differently") as caught:
        answer = Explainer(noisy, ZEROS, method=method)(ROWS, budget=64)
    assert str(caught[0].message) in answer.notes
    assert answer.check_evaluations == 8


def test_a_module_in_training_mode_is_random_only_beyond_our_reach() -> None:
    """A module is put into eval mode; a function that calls one is not."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double().train()
    assert Explainer(net, ZEROS)(ROWS, budget=8).notes == ()

    def function(rows: Floats) -> Floats:
        return net(torch.from_numpy(rows)).detach().numpy()  # type: ignore[no-any-return]

    with pytest.warns(ShearWarning, match="random, or in training mode"):
        Explainer(function, ZEROS)(ROWS, budget=8)


def centred(rows: Floats) -> Floats:
    return weighted(rows - rows.mean(axis=0))


def test_a_model_that_depends_on_its_batch_is_found_out() -> None:
    with pytest.warns(ShearWarning, match="depends on the other rows in its batch") as caught:
        Explainer(centred, ZEROS)(ROWS, budget=8)
    assert len(caught) == 1


@pytest.mark.parametrize("count", [1, 7])
def test_row_by_row_a_batch_makes_no_difference(count: int) -> None:
    answer = Explainer(centred, ZEROS, batch_size=1)(ROWS[:count], budget=8)
    assert answer.notes == ()
    assert answer.check_evaluations == 1


def test_a_model_that_fails_on_the_rows_themselves_is_said() -> None:
    def only_large_batches(rows: Floats) -> Floats:
        if len(rows) == 4:
            raise ValueError("four is too few")
        return weighted(rows)

    with pytest.warns(ShearWarning, match=r"fails on the rows themselves.*four is too few"):
        Explainer(only_large_batches, ZEROS)(ROWS, budget=8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_rounding_is_no_difference(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 3)).to(dtype)
    rows = np.random.default_rng(0).normal(size=(50, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Explainer(net, ("mean", rows), method="leverage")(rows, budget=100)
        Explainer(net, rows[0], method="leverage")(rows[:1], budget=100)  # nothing to explain


def test_log_odds_of_probabilities_near_one_are_compared_as_probabilities() -> None:
    """In single precision 1 - 1e-7 has log-odds that rounding moves by a lot."""

    class Sure(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            noise = 1.2e-7 * (len(x) == 4)
            return torch.full((len(x),), 1 - 2e-7, dtype=torch.float64) + noise

    def sure(rows: Floats) -> Floats:
        return Sure()(torch.from_numpy(rows)).numpy()  # type: ignore[no-any-return]

    with pytest.warns(ShearWarning) as caught:
        Explainer(sure, ZEROS, scale="log-odds")(ROWS, budget=8)
    assert all("of the model's probabilities were within" in str(each.message) for each in caught)


@pytest.mark.parametrize("output", [0, 1])
def test_differences_count_from_a_thousandth_of_an_outputs_effect_on(output: int) -> None:
    """The effect is the largest of all rows, and each output has its own."""
    size = np.array([1.0, 1e4])

    def shifted(rows: Floats) -> Floats:
        answer: Floats = weighted(rows)[:, None] * size
        if len(rows) == CHECKED_ROWS:  # the rows themselves
            answer[0, output] += shift
        return answer

    effect = np.abs(weighted(ROWS)).max() * size[output]
    explainer = Explainer(shifted, ZEROS)
    shift = 0.9e-3 * effect
    assert explainer(ROWS, budget=8).notes == ()
    shift = 1.15e-3 * effect  # rounding may be another 0.12e-3
    with pytest.warns(ShearWarning, match="for row 0"):
        explainer(ROWS, budget=8)


@pytest.mark.parametrize(
    ("dtype", "device", "part"),
    [
        (torch.float64, "cpu", 1000 * 2.0**-52),
        (torch.float32, "cpu", 1000 * 2.0**-23),
        (None, "cpu", 1000 * 2.0**-23),  # it may compute in single precision within
        (torch.bfloat16, "cpu", 0.05),
        (torch.float64, "cuda", 0.01),  # which computes in fewer digits than it stores
        (torch.float16, "cuda", 0.05),
    ],
)
def test_rounding_is_allowed_by_type_and_device(
    dtype: torch.dtype | None, device: str, part: float
) -> None:
    """As a part of each output's largest value; the effect is 0 here."""
    predict: Any = SimpleNamespace(dtype=dtype, device=torch.device(device))
    size = torch.tensor([1e6, 1e9]).double()
    ends = torch.ones(3, 2, 2).double() * size
    ends[1:] /= 2
    np.testing.assert_allclose(_allowed_difference(predict, ends), part * size, rtol=1e-3)


def test_the_check_comes_before_the_budget_is_spent() -> None:
    """Whoever has a slow model hears of it at once."""
    model = Counted(centred)

    with warnings.catch_warnings():
        warnings.simplefilter("error", ShearWarning)
        with pytest.raises(ShearWarning):
            Explainer(model, ZEROS, method="leverage")(ROWS, budget=64)
    assert model.asked == 2 * 7 + 3 * 4


def test_a_large_output_does_not_hide_another_that_changes() -> None:
    whole = np.arange(12).reshape(4, 3)

    def price_and_chance(rows: Floats) -> Floats:
        is_whole = rows.dtype.kind == "i"
        chance = 0.2 + 0.5 * (is_whole & (rows[:, 0] >= 6))  # the rows tried do not show it
        return np.stack([rows.sum(axis=1) * 1e6, chance], axis=1)

    with pytest.warns(ShearWarning, match="0.7 and 0.2 for row 2.*int64 becomes float64"):
        Explainer(price_and_chance, ("mean", whole[:2]))(whole, budget=8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_no_difference_where_a_row_is_its_own_background(dtype: torch.dtype) -> None:
    row = torch.linspace(-1, 1, 6, dtype=dtype)[None]
    for seed in range(8):
        torch.manual_seed(seed)
        layers = [nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)]
        network = nn.Sequential(*layers).to(dtype)
        with torch.no_grad():
            layers[-1].bias -= network(row)[0]  # so that the prediction is rounding alone
        assert Explainer(network, row)(row, budget=64).notes == ()
