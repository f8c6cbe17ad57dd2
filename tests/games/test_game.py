"""The engine: masking, batching, devices, modes and counting."""

import threading
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Bools, Floats, all_coalitions, network, predictor
from shearshap import METHODS, Explainer, ModelError, explain, explain_game, model_game
from shearshap.data import Groups
from shearshap.games.batches import Batch
from shearshap.games.devices import SMALL_BYTES, HostCopies, free_memory, to_device, to_numpy
from shearshap.games.game import FunctionGame, ModelGame, first_not_finite
from shearshap.games.mixing import MANY_INPUTS, _by_pairs, mixed
from shearshap.models import AdaptedModel, Predictor

CPU = torch.device("cpu")
GROUPS = np.array([[0, 1], [1, 2], [2, 0]])


def game_of(
    predict: Predictor,
    rows: Floats,
    background: Floats,
    owner: Floats | None = None,
    batch: int = 10**6,
) -> ModelGame:
    flat = rows.reshape(len(rows), -1)
    owned = torch.arange(flat.shape[1]) if owner is None else torch.tensor(owner.reshape(-1))
    return ModelGame(
        predict, torch.tensor(flat), torch.tensor(background.reshape(len(background), -1)), owned,
        rows.shape[1:], int(owned.max()) + 1, Batch(batch),
    )  # fmt: skip


def slow_values(
    model: nn.Module, rows: Floats, background: Floats, owner: Floats, coalitions: Bools
) -> Floats:
    """One evaluation at a time: the row where the owner is in, the background row elsewhere, then the mean."""
    table = []
    for row in rows:
        for z in coalitions:
            mixes = [np.where(z[owner], row, reference) for reference in background]
            table.append(
                np.mean(
                    [model(torch.tensor(mix[None])).detach().numpy()[0] for mix in mixes], axis=0
                )
            )
    return np.array(table).reshape(len(rows), len(coalitions), -1)


class Image(nn.Module):
    """Takes rows of shape (3, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(6)

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1:] == (3, 2)
        return self.inner(x.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("batch", [1, 3, 7, 64, 10**6])
@pytest.mark.parametrize("shared", [True, False])
def test_values_against_one_evaluation_at_a_time(batch: int, shared: bool) -> None:
    rng = np.random.default_rng(0)
    rows, background = rng.normal(size=(4, 3, 2)), rng.normal(size=(3, 3, 2))
    game = game_of(predictor(Image()), rows, background, GROUPS, batch)
    coalitions = all_coalitions(3)
    own = np.stack([rng.permutation(coalitions) for _ in rows])
    asked = coalitions[None] if shared else own
    values = game(torch.from_numpy(asked)).numpy()
    slow = [
        slow_values(Image(), rows[[r]], background, GROUPS, asked[0 if shared else r])[0]
        for r in range(len(rows))
    ]
    np.testing.assert_allclose(values, np.array(slow), atol=1e-12)
    assert game.usage.evaluations == 8 * 3


def test_every_evaluation_is_counted_and_no_batch_is_too_large() -> None:
    sizes: list[int] = []

    def model(x: Floats) -> Floats:
        sizes.append(len(x))
        return np.asarray(x.sum(axis=1))

    rng = np.random.default_rng(0)
    for name in METHODS:
        sizes.clear()
        rows, background = rng.normal(size=(5, 4)), rng.normal(size=(2, 4))
        budget = 200 if name != "exact" else 32
        answer = explain(
            model, rows, reference=background, budget=budget, method=name, batch_size=16
        )
        asked = answer.evaluations * len(rows) + answer.check_evaluations
        assert sum(sizes) == asked, name
        assert answer.evaluations <= budget
        assert max(sizes) <= 16


def test_out_of_memory_halves_the_batch_for_good() -> None:
    sizes: list[int] = []

    class Small(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.append(len(x))
            if len(x) > 5:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return x.sum(dim=1)

    rows = np.random.default_rng(0).normal(size=(6, 3))
    game = game_of(predictor(Small()), rows, np.zeros((1, 3)))
    values = game(torch.from_numpy(all_coalitions(3))[None])
    expected = rows @ all_coalitions(3).T
    np.testing.assert_allclose(values[..., 0].numpy(), expected, atol=1e-12)
    assert sizes[0] == 48
    assert sum(size > 5 for size in sizes) <= 4
    assert game.batch.size <= 5


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] can't allocate memory: 8 bytes")]
)
def test_out_of_memory_on_one_evaluation_is_an_error(error: Exception) -> None:
    def model(_: Floats) -> Floats:
        raise error

    with pytest.raises(ModelError, match="out of memory on a single model evaluation"):
        explain(model, np.ones((2, 3)), reference=np.zeros(3), budget=8)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("event 'out of memory' is not in the vocabulary"),
        ValueError("not enough memory cells in row 3"),
        KeyError("out of memory"),
    ],
)
def test_a_message_that_mentions_memory_is_the_models_own(error: Exception) -> None:
    sizes: list[int] = []

    def model(rows: Floats) -> Floats:
        sizes.append(len(rows))
        if (rows == 1).all(axis=1).any():
            raise error
        return np.asarray(rows.sum(axis=1))

    with pytest.raises(ModelError, match=type(error).__name__) as caught:
        explain(model, np.ones((2, 3)), reference=np.zeros(3), budget=8)
    assert "out of memory on" not in str(caught.value)
    assert caught.value.__cause__ is error
    assert caught.value.row == 0


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory",
        "MPS backend out of memory (MPS allocated: 9 GB)",
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: 8 bytes",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "std::bad_alloc",
        "Failed to allocate memory for requested buffer of size 1073741824",
    ],
)
def test_what_libraries_say_when_memory_ran_out_halves_the_batch(message: str) -> None:
    def model(rows: Floats) -> Floats:
        if len(rows) > 5:
            raise RuntimeError(message)
        return np.asarray(rows.sum(axis=1))

    answer = explain(model, np.ones((6, 3)), reference=np.zeros(3), budget=8)
    np.testing.assert_allclose(answer.values, 1)


def test_the_model_is_given_back_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    net.train()
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    rows = np.random.default_rng(0).normal(size=(3, 4))
    first, second = (
        explain(net, rows, reference=rows[0], budget=100, method="shear") for _ in range(2)
    )
    assert (first.values == second.values).all()  # dropout was off
    assert [part.training for part in net] == [True, False, True, True]
    assert net.training
    assert all((net.state_dict()[name] == value).all() for name, value in before.items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_model_is_given_back_as_it_was_after_an_error() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, _: Tensor) -> Tensor:
            raise ValueError("no")

    net = Broken().train()
    with pytest.raises(
        ModelError,
        match=r"the model failed on inputs of shape \(4, 3\): ValueError: no \(first on row 0 with 0 of 3",
    ):
        explain(net, np.ones((2, 3)), reference=np.zeros(3), budget=8)
    assert net.training
    assert net.layer.training


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_models_of_any_precision(dtype: torch.dtype) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4))
    exact = explain(network(4), rows, reference=np.zeros(4), budget=16).values
    answer = explain(network(4).to(dtype), rows, reference=np.zeros(4), budget=16).values
    assert answer.dtype == np.float64
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.3}[dtype]
    np.testing.assert_allclose(answer, exact, atol=tolerance)


def test_integer_tensors_stay_integers_for_embeddings() -> None:
    net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 1)).double()
    rows = torch.tensor([[1, 2], [4, 0]])
    answer = explain(net, rows, reference=torch.tensor([3, 3]), budget=4)
    both = net(rows)[:, 0] - net(torch.tensor([[3, 3]]))[0, 0]
    np.testing.assert_allclose(answer.values.sum(axis=1), both.detach().numpy(), atol=1e-9)
    assert (
        explain(
            net, rows, reference=torch.tensor([3, 3]), budget=14, method="shear"
        ).derivative_passes
        == 0
    )


def test_a_game_of_coalitions_alone() -> None:
    game = FunctionGame(lambda z: z.sum(axis=1), 3)
    assert game(torch.from_numpy(all_coalitions(3))[None])[0, :, 0].tolist() == [
        0,
        1,
        1,
        2,
        1,
        2,
        2,
        3,
    ]
    assert game.usage.evaluations == 8
    assert game.take(slice(0, 1)).usage.evaluations == 0
    with pytest.raises(ModelError, match="has no derivatives"):
        game.surface(torch.ones(1, 1, 3))


def test_a_callable_lives_on_the_cpu() -> None:
    predict = Predictor(AdaptedModel(lambda x: x[:, :1]))
    assert predict(torch.ones(3, 2)).tolist() == [1, 1, 1]
    assert not predict.differentiable


def test_a_model_may_use_its_memory_again() -> None:
    memory = np.empty(1000)

    def model(x: Floats) -> Floats:
        memory[: len(x)] = np.tanh(x.sum(axis=1))
        return memory[: len(x)]

    rows = np.random.default_rng(0).normal(size=(5, 4))
    again = explain(model, rows, reference=np.zeros(4), budget=16, batch_size=8)
    fresh = explain(lambda x: np.tanh(x.sum(axis=1)), rows, reference=np.zeros(4), budget=16)
    np.testing.assert_allclose(again.values, fresh.values, atol=1e-12)


def test_a_game_may_spoil_what_it_is_given() -> None:
    def value(z: Bools) -> Floats:
        answer = np.tanh(z.sum(axis=1) - 2.5)
        z[:] = False
        return np.asarray(answer)

    spoiled = explain_game(value, players=8, budget=60)
    whole = explain_game(lambda z: np.tanh(z.sum(axis=1) - 2.5), players=8, budget=60)
    np.testing.assert_allclose(spoiled.values, whole.values)


@pytest.mark.parametrize("name", ["shear", "kriging", "exact"])
def test_inference_mode_around_it_changes_nothing(name: str) -> None:
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    net, budget = network(4).float(), 34 if name == "shear" else 14 + 2 * (name == "exact")
    outside = explain(net, rows, reference=np.zeros(4), budget=budget, method=name)
    with torch.inference_mode():
        inside = explain(net, rows * 1, reference=np.zeros(4), budget=budget, method=name)
    np.testing.assert_allclose(inside.values, outside.values, atol=1e-6)


def test_modules_that_do_more_than_keep_their_mode_are_given_back() -> None:
    class Merging(nn.Linear):
        merged = False

        def train(self, mode: bool = True) -> "Merging":
            self.merged = not mode
            return super().train(mode)

    layer = Merging(3, 1)
    net = nn.Sequential(layer).train()
    explain(net, np.ones((2, 3)), reference=np.zeros(3), budget=8)
    assert layer.training
    assert not layer.merged


def test_values_are_not_kept_alive_by_the_explanation() -> None:
    answer = explain(lambda x: x.sum(axis=1), np.ones((6, 5)), reference=np.zeros(5), budget=32)
    assert answer.predictions.strides == (8,)
    assert answer.base_values.strides == (8,)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_gives_the_same_values(name: str) -> None:
    rng = np.random.default_rng(0)
    net, rows = network(8).float(), rng.normal(size=(50, 8))
    budget = 256 if name == "exact" else 250
    on_cpu = explain(net, rows, reference=np.zeros(8), budget=budget, method=name, output=1)
    on_gpu = explain(
        net, rows, reference=np.zeros(8), budget=budget, method=name, output=1, device="cuda"
    )
    np.testing.assert_allclose(on_gpu.values, on_cpu.values, atol=1e-4)
    assert next(net.parameters()).device.type == "cpu"


def test_free_memory_is_known_of_gpus_alone() -> None:
    assert free_memory(torch.device("cpu")) is None


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_what_torch_keeps_for_later_is_free() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    torch.cuda.empty_cache()
    before = free_memory(device)
    held = torch.empty(1 << 28, dtype=torch.uint8, device=device)
    during = free_memory(device)
    del held
    after = free_memory(device)
    assert before is not None
    assert during is not None
    assert after is not None
    assert before - during >= 1 << 28
    assert after - during >= 1 << 28


# Mixes


@pytest.mark.parametrize(("rows", "coalitions", "inputs"), [(5, 4, 3), (7, 20, 11), (3, 5, 8)])
def test_mixes_by_pairs_are_those_one_by_one(rows: int, coalitions: int, inputs: int) -> None:
    torch.manual_seed(0)
    x = torch.randn((rows, inputs))
    background = torch.randn((1, inputs))
    present = torch.rand((1, coalitions, inputs)) < 0.5
    wanted = torch.where(present, x[:, None], background)
    assert torch.equal(_by_pairs(x, background, present[0]), wanted)
    assert torch.equal(mixed(x, background, present, by_numbers=True)[:, :, 0], wanted)
    assert torch.equal(mixed(x, background, present, by_numbers=False)[:, :, 0], wanted)


@pytest.mark.parametrize(
    ("groups", "value_of_first"), [(None, 1), ([[2], [0], [1]], 300), ([[0, 2], [1]], 301)]
)
def test_an_input_is_present_where_its_owner_is(groups: Groups, value_of_first: int) -> None:
    rows = np.array([[1.0, 20.0, 300.0]])
    game = model_game(lambda x: x.sum(axis=1), rows, background=np.zeros(3), groups=groups)
    with game as opened:
        first = torch.arange(opened.players) == 0
        assert opened(first[None, None]).item() == value_of_first


def test_values_whose_sum_overflows_are_finite() -> None:
    values = torch.full((2, 3, 1), 1e308, dtype=torch.float64)
    assert first_not_finite(values) is None
    values[1, 2] = -torch.inf
    assert first_not_finite(values) == [1, 2, 0]
    values[0, 1] = torch.inf
    assert first_not_finite(values) == [0, 1, 0]


# Large copies between a GPU and the host

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def test_what_the_cpu_holds_is_not_copied() -> None:
    numbers = torch.arange(6.0).reshape(2, 3)
    assert np.shares_memory(to_numpy(numbers), numbers.numpy())
    assert to_device(numbers, CPU, torch.float32) is numbers
    np.testing.assert_array_equal(to_device(numbers, CPU, torch.float64), numbers)


@pytest.mark.cuda
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("rows", [1, 70_000, 299_593, 1_000_003])
def test_copies_through_pinned_memory_are_complete(rows: int, dtype: torch.dtype) -> None:
    drawn = torch.randint(0, 100, (rows, 7), device="cuda")
    there = (drawn > 50) if dtype == torch.bool else drawn.to(dtype)
    here = to_numpy(there)
    assert torch.equal(torch.from_numpy(here), there.cpu())
    strided = to_numpy(there[:, ::3])
    np.testing.assert_array_equal(strided, here[:, ::3])

    back = to_device(torch.from_numpy(here), there.device, torch.float32)
    assert torch.equal(back, there.float())


@pytest.mark.cuda
@needs_gpu
def test_copies_wait_for_the_gpu_s_work() -> None:
    for _ in range(3):
        grown = torch.ones((1 << 22, 2), device="cuda")
        for _ in range(200):
            grown = grown + 1
        assert (to_numpy(grown) == 201).all()


class FakeGpu:
    """A tensor that passes for one of a GPU, whose copy waits for a signal."""

    device = SimpleNamespace(type="cuda")
    nbytes = 2 * SMALL_BYTES


def test_copies_aside_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    may_copy = threading.Event()

    def copy(_source: object, destination: torch.Tensor, _computed: object) -> None:
        assert may_copy.wait(timeout=60)
        destination.fill_(7.0)

    monkeypatch.setattr("shearshap.games.devices._copy_aside", copy)
    monkeypatch.setattr(torch.cuda, "Event", MagicMock())
    monkeypatch.setattr(torch.cuda, "current_stream", MagicMock())
    here = torch.zeros(3)
    copies = HostCopies()
    copies.start(FakeGpu(), here)  # type: ignore[arg-type]
    assert here.tolist() == [0, 0, 0]
    may_copy.set()
    copies.wait()
    assert here.tolist() == [7, 7, 7]
    copies.wait()


def test_what_goes_wrong_in_a_copy_aside_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = MagicMock(side_effect=RuntimeError("the GPU is gone"))
    monkeypatch.setattr("shearshap.games.devices._copy_aside", failing)
    monkeypatch.setattr(torch.cuda, "Event", MagicMock())
    monkeypatch.setattr(torch.cuda, "current_stream", MagicMock())
    copies = HostCopies()
    copies.start(FakeGpu(), torch.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        copies.wait()


@pytest.mark.cuda
@needs_gpu
def test_copies_aside_are_complete_while_the_gpu_goes_on() -> None:
    copies = HostCopies()
    here = [torch.zeros((1 << 21, 3), dtype=torch.float64) for _ in range(6)]
    for number, destination in enumerate(here):
        grown = torch.full((1 << 21, 3), float(number), dtype=torch.float64, device="cuda")
        for _ in range(50):
            grown = grown + 1
        copies.start(grown, destination)
        del grown  # its memory must not be used again before it is copied
    copies.wait()
    for number, destination in enumerate(here):
        assert (destination == number + 50).all()


@pytest.mark.cuda
@needs_gpu
def test_pinned_memory_is_let_go() -> None:
    numbers = torch.ones(1 << 24, device="cuda")
    to_numpy(numbers)
    kept = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    copies = [to_numpy(numbers) for _ in range(20)]
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] <= kept
    assert all(copy.sum() == numbers.numel() for copy in copies)


@pytest.mark.cuda
@needs_gpu
def test_many_mixes_on_a_gpu_are_exact() -> None:
    x = torch.randn((7000, 101), device="cuda")
    background = torch.randn((1, 101), device="cuda")
    present = torch.rand((1, 200, 101), device="cuda") < 0.5
    assert x.numel() * 200 >= MANY_INPUTS
    wanted = torch.where(present, x[:, None], background)
    assert torch.equal(mixed(x, background, present, by_numbers=True)[:, :, 0], wanted)


@pytest.mark.cuda
@needs_gpu
def test_many_rows_on_a_gpu_have_the_values_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.engine.plan.BLOCK_BYTES", {"cpu": 1 << 24, "cuda": 1 << 26})
    rows = np.random.default_rng(0).normal(size=(60_000, 8))
    net = network(8).float()
    explainer = Explainer(net, np.zeros(8), method="leverage", output=1)
    on_cpu = explainer(rows, budget=40)
    on_gpu = replace(explainer, device="cuda")(rows, budget=40)
    np.testing.assert_allclose(on_gpu.values, on_cpu.values, atol=1e-4)
    assert on_gpu.standard_errors is not None
    assert on_cpu.standard_errors is not None
    np.testing.assert_allclose(on_gpu.standard_errors, on_cpu.standard_errors, atol=1e-4)
    np.testing.assert_allclose(on_gpu.predictions, on_cpu.predictions, atol=1e-4)
    np.testing.assert_array_equal(on_gpu.data, rows)
    np.testing.assert_array_equal(on_gpu.index, np.arange(60_000))


@pytest.mark.cuda
@needs_gpu
def test_a_stream_on_a_gpu_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.engine.plan.BLOCK_BYTES", {"cpu": 1 << 24, "cuda": 1 << 26})
    rows = np.random.default_rng(0).normal(size=(60_000, 8))
    net = network(8).float()
    explainer = Explainer(net, np.zeros(8), method="leverage", output=1, device="cuda")
    whole = explainer(rows, budget=40)

    blocks = explainer.stream(rows, budget=40)
    first = next(blocks)
    second = next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert len(second) > 1000
    after = len(first) + len(second)
    np.testing.assert_allclose(second.values, whole.values[len(first) : after], atol=1e-5)
    assert next(net.parameters()).device.type == "cpu"


@pytest.mark.cuda
@needs_gpu
def test_rows_before_an_error_on_a_gpu_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.engine.plan.BLOCK_BYTES", {"cpu": 1 << 24, "cuda": 1 << 26})
    rows = np.random.default_rng(0).normal(size=(60_000, 8))
    rows[50_000, 0] = 99.0
    net = network(8).float().cuda()

    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] == 99, torch.nan, self.net(x))

    whole = explain(net, rows[:50_000], background=np.zeros(8), budget=40, method="leverage")
    with pytest.raises(ModelError, match="row 50000") as caught:
        explain(Failing(), rows, background=np.zeros(8), budget=40, method="leverage")
    finished = caught.value.finished
    assert finished is not None
    assert len(finished) > 16
    np.testing.assert_allclose(finished.values, whole.values[: len(finished)], atol=1e-4)
