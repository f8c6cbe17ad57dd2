"""`shearshap.interop.captum.Shapley` against captum's own Shapley values, through captum's own tools."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import network
from shearshap import METHODS, BudgetError, InputError, Kriging, ModelError, explain
from shearshap.games.marginal import CHECKED_ROWS

captum = pytest.importorskip("captum", reason="the peers extra is not installed")

from captum.attr import NoiseTunnel, ShapleyValues  # noqa: E402
from captum.metrics import infidelity  # noqa: E402

from shearshap.interop.captum import Shapley  # noqa: E402

GAPS = "ignore:Feature mask is missing some integers:UserWarning"


def rows(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        count, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def theirs(forward: Callable[..., Any], inputs: Any, **options: Any) -> Any:
    """Captum's average over all orders of the players."""
    return ShapleyValues(forward).attribute(inputs, **options)


def assert_same(ours: Any, other: Any) -> None:
    """Captum adds up in single precision."""
    ours, other = (part if isinstance(part, tuple) else (part,) for part in (ours, other))
    assert len(ours) == len(other)
    for mine, given in zip(ours, other, strict=True):
        assert mine.shape == given.shape
        torch.testing.assert_close(mine.float(), given.float(), atol=2e-5, rtol=2e-5)


class Counted(nn.Module):
    """A model that counts the rows it is asked for, and the largest batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.count, self.largest = model, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += len(x)
        self.largest = max(self.largest, len(x))
        answer: Tensor = self.model(x)
        return answer


class TwoInputs(nn.Module):
    """Numbers and token indices, as in many recommenders."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.table = nn.Embedding(7, 2).double()
        with torch.no_grad():
            self.table.weight.copy_(torch.randn(7, 2, generator=generator))
        self.net = network(6)

    def forward(self, numbers: Tensor, tokens: Tensor, scale: Tensor | float = 1.0) -> Tensor:
        joined = torch.cat((numbers.flatten(1), self.table(tokens).flatten(1)), dim=1)
        answer: Tensor = self.net(joined) * torch.as_tensor(scale).reshape(-1, 1)
        return answer


TARGETS: list[Any] = [
    0,
    -1,
    torch.tensor(1),
    torch.tensor([0, 1, 1]),
    [1, 0, 1],
    [(0,), (1,), (0,)],
]
BASELINES: list[Any] = [0.5, rows(1, 4, seed=1), rows(2, 4, seed=1)[[0, 1, 0]], (rows(1, 4),)]


@pytest.mark.parametrize(
    "options",
    [
        *({"target": target} for target in TARGETS),
        *({"target": 1, "baselines": baselines} for baselines in BASELINES),
    ],
)
def test_targets_and_baselines_are_captums(options: dict[str, Any]) -> None:
    net, x = network(4), rows(3, 4)
    assert_same(Shapley(net).attribute(x, **options), theirs(net, x, **options))


def test_outputs_of_several_axes() -> None:
    net, x = nn.Sequential(network(4, outputs=6), nn.Unflatten(1, (2, 3))), rows(3, 4)
    ours = Shapley(net).attribute(x)
    assert ours.shape == (3, 2, 3, 4)
    assert_same(ours, theirs(net, x))
    part = (slice(0, 1), slice(1, 3))
    targets: list[Any] = [1, (1, 2), [(0, 1), (1, 1), (0, 0)], part]
    for target in targets:
        assert_same(Shapley(net).attribute(x, target=target), theirs(net, x, target=target))
    _, delta = Shapley(net).attribute(x, return_convergence_delta=True)
    torch.testing.assert_close(delta, torch.zeros(3, 2, 3, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.filterwarnings(GAPS)
@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([[3, 3, 1], [0, 1, 1]]),
        torch.tensor([[[0.0, 0.0, 1.0], [2.0, 1.0, 1.0]]] * 2),
        torch.tensor([[[0], [1]]]),
    ],
    ids=["no axis of rows, gaps", "of all rows, floats", "broadcast"],
)
def test_feature_masks_are_captums(mask: Tensor) -> None:
    net, x = nn.Sequential(nn.Flatten(), network(6)), rows(2, 2, 3)
    assert_same(
        Shapley(net).attribute(x, feature_mask=mask, target=0),
        theirs(net, x, feature_mask=mask, target=0),
    )


@pytest.mark.filterwarnings(GAPS)
def test_several_inputs_of_several_types() -> None:
    net, x, tokens = TwoInputs(), rows(3, 2), torch.tensor([[1, 2], [3, 6], [0, 5]])
    assert_same(Shapley(net).attribute((x, tokens), target=1), theirs(net, (x, tokens), target=1))
    shared = (torch.tensor([[0, 1]]), torch.tensor([[1, 3]]))
    options: dict[str, Any] = {"feature_mask": shared, "target": 0}
    options["baselines"] = (rows(1, 2, seed=4), 4)
    ours = Shapley(net).attribute((x, tokens), **options)
    assert_same(ours, theirs(net, (x, tokens), **options))
    assert ours[0].dtype == torch.float64
    assert ours[1].dtype == torch.float32
    torch.testing.assert_close(ours[0][:, 1].float(), ours[1][:, 0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_types_reach_the_forward_function_and_integers_stay_exact(dtype: torch.dtype) -> None:
    large = (1 << 40) + 1

    def forward(numbers: Tensor, keys: Tensor) -> Tensor:
        assert keys.dtype == torch.int64
        assert numbers.dtype == dtype
        return numbers[:, 0].float() * (keys[:, 0] == large)

    given = (torch.tensor([[2.0]], dtype=dtype), torch.tensor([[large]]))
    number, key = Shapley(forward).attribute(given)
    assert number.dtype == torch.float32
    assert number.item() == key.item() == 1


@pytest.mark.parametrize(
    "arguments", [torch.tensor([1.0, 2.0, 3.0]), (torch.tensor([2.0]),), 3.0, torch.tensor(0.5)]
)
def test_additional_arguments_go_with_their_rows(arguments: Any) -> None:
    net, inputs = TwoInputs(), (rows(3, 2), torch.tensor([[1, 2], [3, 6], [0, 5]]))
    ours = Shapley(net).attribute(inputs, target=1, additional_forward_args=arguments)
    one_by_one = [
        theirs(
            net,
            tuple(part[row : row + 1] for part in inputs),
            target=1,
            additional_forward_args=own,
        )
        for row, own in enumerate(
            arguments[:, None]
            if isinstance(arguments, Tensor) and arguments.ndim
            else [arguments] * 3
        )
    ]
    assert_same(ours, tuple(torch.cat(parts) for parts in zip(*one_by_one, strict=True)))


@pytest.mark.parametrize("length", [1, 5])
def test_arguments_of_another_length_than_the_rows_are_passed_as_they_are(length: int) -> None:
    net, x, weight = network(4), rows(3, 4), rows(length, 4, seed=2)

    def forward(x: Tensor, weight: Tensor, mode: str, nothing: None) -> Tensor:
        assert weight.shape == (length, 4)
        assert mode == "sum"
        assert nothing is None
        answer: Tensor = net(x * weight.sum(dim=0))
        return answer

    arguments = (weight, "sum", None)
    ours = Shapley(forward).attribute(x, target=0, additional_forward_args=arguments)
    assert_same(ours, theirs(forward, x, target=0, additional_forward_args=arguments))


@pytest.mark.filterwarnings("ignore:a regression on:shearshap.ShearWarning")
@pytest.mark.parametrize("method", [*METHODS, Kriging()], ids=str)
def test_every_method_gives_the_numbers_of_explain(method: Any) -> None:
    """The same seed, budget and background: the same design, so the same numbers."""
    net, x, budget = network(8), rows(3, 8), 256 if method == "exact" else 120
    ours = Shapley(net, method).attribute(x, 0.25, target=1, n_samples=budget)
    there = explain(net, x, reference=np.full(8, 0.25), budget=budget, method=method, output=1)
    np.testing.assert_allclose(ours.numpy(), there.values, atol=1e-12)


def test_a_budget_is_the_evaluations_of_a_row_and_batches_are_bounded() -> None:
    net, x = Counted(network(8)), rows(5, 8)
    Shapley(net).attribute(x, target=0, n_samples=40, perturbations_per_eval=3)
    assert 5 * 30 < net.count <= 5 * 40 + CHECKED_ROWS
    assert 5 < net.largest <= 3 * 5


def test_rows_of_the_same_target_and_baseline_go_together() -> None:
    net, x = Counted(network(4)), rows(4, 4)
    Shapley(net).attribute(x, rows(2, 4, seed=1)[[0, 1, 1, 0]], target=[0, 1, 1, 0])
    assert net.largest == 2 * 14  # all but the two ends, which are asked first


def test_a_model_keeps_its_mode_and_gradients_reach_a_forward_function() -> None:
    net, x = network(6).train(), rows(2, 6).requires_grad_()
    modes = []

    def forward(x: Tensor) -> Tensor:
        modes.append((net.training, x.requires_grad))
        answer: Tensor = net(x)
        return answer

    answer = Shapley(forward, "shear").attribute(x, target=0, n_samples=6 * 8 + 2)
    assert {training for training, _ in modes} == {True}
    assert any(differentiated for _, differentiated in modes)
    assert net.training
    assert not answer.requires_grad


def test_infidelity_of_exact_values_of_an_additive_model_is_zero() -> None:
    weight, x = torch.tensor([1.0, -2.0, 0.5]), rows(4, 3).float()
    baseline = torch.full((1, 3), 0.25)
    attributions = Shapley(lambda x: x @ weight).attribute(x, baseline)

    def perturb(inputs: Tensor, baselines: Tensor) -> tuple[Tensor, Tensor]:
        gone = torch.rand(inputs.shape, generator=torch.Generator().manual_seed(0)) < 0.5
        return gone.float(), torch.where(gone, baselines, inputs)

    options = {"baselines": baseline.expand(4, 3), "n_perturb_samples": 8}
    score = infidelity(lambda x: x @ weight, perturb, x, attributions, **options)
    torch.testing.assert_close(score, torch.zeros(4), atol=1e-6, rtol=0)
    wrong = infidelity(lambda x: x @ weight, perturb, x, -attributions, **options)
    assert (wrong > 1e-3).all()


@pytest.mark.parametrize("kind", ["smoothgrad", "vargrad"])
def test_a_noise_tunnel_smooths_it(kind: str) -> None:
    net, x = network(4), rows(2, 4)
    options: dict[str, Any] = {"nt_type": kind, "nt_samples": 4, "target": torch.tensor([1, 0])}
    answers = []
    for one in (Shapley(net), ShapleyValues(net)):
        torch.manual_seed(0)
        answers.append(NoiseTunnel(one).attribute(x, baselines=rows(2, 4, seed=1), **options))
    assert_same(*answers)


def test_the_delta_is_what_values_miss_and_counts_a_player_once() -> None:
    net, x, baselines = network(6), rows(3, 6), rows(3, 6, seed=1)
    mask = torch.tensor([[0, 0, 1, 3, 3, 3]])
    attribution = Shapley(net)
    assert attribution.has_convergence_delta()
    values, delta = attribution.attribute(
        x, baselines, 1, feature_mask=mask, return_convergence_delta=True
    )
    torch.testing.assert_close(delta, torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0)
    change = (net(x) - net(baselines))[:, 1].detach()
    delta = attribution.compute_convergence_delta(
        2 * values, baselines, x, target=1, feature_mask=mask
    )
    torch.testing.assert_close(delta, change, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"inputs": [1.0]}, "inputs: expected a tensor"),
        ({"inputs": (rows(2, 4), rows(3, 4))}, "inputs: expected tensors with the same number"),
        ({"inputs": rows(0, 4)}, "inputs: expected tensors .* none of them empty"),
        ({"baselines": rows(2, 4)}, r"baselines: expected a number, .* got shape \(2, 4\)"),
        ({"baselines": (0, 0)}, "baselines: expected one per tensor in inputs, 1"),
        ({"feature_mask": torch.full((1, 4), 0.5)}, "feature_mask: expected whole numbers"),
        ({"feature_mask": torch.zeros(5, dtype=torch.int64)}, r"int64 of shape \(5,\)"),
        ({"feature_mask": torch.arange(12).reshape(3, 4)}, "mask that differs from row to row"),
        ({"target": 7}, r"target: index 7 is out of bounds .* has shape \(\d+, 2\)"),
        ({"target": [0, 1]}, r"target: expected None, an index, .* of 3, .*; got \[0, 1\]"),
        ({"target": torch.tensor(0.5)}, "target: expected None, an index.*; got 0.5"),
        ({"inputs": torch.ones(2, 3, dtype=torch.int64), "baselines": 0.5}, "need whole numbers"),
        ({"perturbations_per_eval": 0}, "perturbations_per_eval: expected a positive integer"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Shapley(network(4)).attribute(**{"inputs": rows(3, 4), "target": 0} | options)


@pytest.mark.parametrize("answer", [lambda x: x[0, :3], lambda x: x.sum(), lambda _: [1.0]])
def test_an_output_for_every_row_is_needed(answer: Callable[[Tensor], Any]) -> None:
    with pytest.raises(ModelError, match=r"forward_func: expected .*one output per row"):
        Shapley(answer).attribute(rows(3, 4), n_samples=16)


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(BudgetError, match="leverage needs at least 16 evaluations"):
        Shapley(network(8), "leverage").attribute(rows(3, 8), target=1, n_samples=7)


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("method", METHODS)
def test_the_default_budget_is_enough_for_every_method(method: str) -> None:
    net, x = network(3), rows(2, 3)
    values = Shapley(net, method).attribute(x, target=1)
    sampled = method == "kernel-welford"  # it never lists all coalitions
    atol = 0.5 if sampled else 0.02
    torch.testing.assert_close(values.float(), theirs(net, x, target=1), atol=atol, rtol=0)


def test_players_without_the_shape_of_the_inputs() -> None:
    """KernelShap's option: a column for every number from the smallest to the largest."""
    net, x = network(4), rows(3, 4)
    mask = torch.tensor([[5, 5, 2, 3]])
    whole = Shapley(net).attribute(x, target=1, feature_mask=mask)
    players = Shapley(net).attribute(x, target=1, feature_mask=mask, return_input_shape=False)
    zero = torch.zeros(3, dtype=torch.float64)
    expected = torch.stack((whole[:, 2], whole[:, 3], zero, whole[:, 0]), dim=1)
    torch.testing.assert_close(players, expected)


def test_without_captum_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    monkeypatch.delitem(sys.modules, "shearshap.interop.captum")
    with pytest.raises(
        ImportError, match=r"shearshap\.interop\.captum needs captum: pip install captum"
    ):
        importlib.import_module("shearshap.interop.captum")
