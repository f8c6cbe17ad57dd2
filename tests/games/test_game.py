"""The engine: masking, batching, devices, modes and counting."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Bools, Floats, all_coalitions, network, predictor
from shearshap import METHODS, Explainer, Explanation, ModelError, explain, explain_game
from shearshap.engine.run import Options
from shearshap.engine.sampling import explained_blocks
from shearshap.games.batches import Batch, Box, HostCopies, to_numpy
from shearshap.games.game import BatchedGame, Usage
from shearshap.games.marginal import ModelGame
from shearshap.models import Predictor

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


# Large copies between a GPU and the host

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


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


# Another value function


@dataclass
class Masked(BatchedGame):
    """A value function without a background: absent inputs are 0."""

    inputs: Tensor  #: (r, d)
    batch: Batch = field(default_factory=lambda: Batch(50))
    usage: Usage = field(default_factory=Usage)
    advance = staticmethod(lambda _evaluations: None)
    type_changes = ()
    cost = 1
    device = torch.device("cpu")
    differentiable = False

    def __post_init__(self) -> None:
        self.players = self.inputs.shape[1]
        self.shape = (self.players,)

    @property
    def rows(self) -> int:
        return len(self.inputs)

    def outputs(self, coalitions: Tensor, box: Box) -> Tensor:
        return torch.from_numpy(waves(self.evaluated(coalitions, box).numpy()))

    def evaluated(self, coalitions: Tensor, box: Box) -> Tensor:
        own = box.rows if len(coalitions) > 1 else slice(None)
        return self.inputs[box.rows, None, None] * coalitions[own, box.coalitions, None]

    def mean(self, outputs: Tensor) -> Tensor:
        return outputs[:, :, 0]

    def take(self, rows: slice | Tensor) -> "Masked":
        return replace(self, inputs=self.inputs[rows], usage=Usage())

    def distances(self) -> Tensor:
        return self.inputs.abs()


def waves(rows: Floats) -> Floats:
    return np.asarray(np.sin(rows).sum(axis=-1) + rows[..., 0] * rows[..., 1] * rows[..., 2])


def test_another_value_function_needs_no_engine_of_its_own() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 6))
    game = Masked(torch.from_numpy(rows))
    for method in ("leverage", "kriging", "shear"):
        blocks = explained_blocks(game, Options(game, method=method).run(64))
        answer = Explanation.concat(list(blocks))
        wanted = Explainer(waves, np.zeros(6), method=method)(rows, budget=64)
        np.testing.assert_allclose(answer.values, wanted.values, atol=1e-12)
        assert answer.evaluations == wanted.evaluations
