"""Modules in use are in eval mode on the wanted device, and are afterwards as they were."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Floats, network
from shearshap import Explainer, InputError, ModelError
from shearshap.models.networks import EvalMode

ROWS = np.random.default_rng(0).normal(size=(3, 4))
ZEROS = np.zeros(4)
PATIENCE = 60  #: seconds until a thread that waits in vain fails


class Hooked(nn.Module):
    """A network that calls `before` in each forward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.before: Callable[[], object] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.before()
        return self.inner(x)  # type: ignore[no-any-return]


def hooked() -> Hooked:
    """A network with dropout, in training mode but for a frozen part."""
    torch.manual_seed(0)
    frozen = network(4)
    net = Hooked(nn.Sequential(frozen, nn.Dropout(0.9))).train()
    frozen.eval()
    return net


def modes(*networks: nn.Module) -> list[bool]:
    return [part.training for net in networks for part in net.modules()]


def values(net: nn.Module) -> Floats:
    return Explainer(net, ZEROS, method="exact")(ROWS, budget=16).values


# Modes


def test_eval_mode_is_left_after_success_error_and_interrupt() -> None:
    net = hooked()
    before = modes(net)
    assert len(set(before)) == 2

    net.before = lambda: pytest.fail("in training mode") if any(modes(net)) else None
    np.testing.assert_array_equal(values(net), values(net))
    assert modes(net) == before

    def fail() -> None:
        raise ValueError("no such thing")

    net.before = fail
    with pytest.raises(ModelError, match="no such thing"):
        values(net)
    assert modes(net) == before

    net.before = lambda: signal.raise_signal(signal.SIGINT)
    try:
        values(net)
    except KeyboardInterrupt:
        assert modes(net) == before  # at once, while the traceback still holds every frame
    else:
        pytest.fail("there was no interrupt")


def test_a_stream_that_is_interrupted_between_blocks_gives_the_module_back() -> None:
    net = network(4).train()

    def consume() -> None:
        for _ in Explainer(net, ZEROS).stream(np.tile(ROWS, (20, 1))):
            assert not net.training
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert all(modes(net))


@pytest.mark.parametrize("training", [False, True])
def test_one_module_is_explained_in_two_threads(training: bool) -> None:
    """The second goes on after the first is done."""
    net = hooked().train(training)
    wanted = values(net)
    both_inside = threading.Barrier(2, timeout=PATIENCE)
    first_is_done = threading.Event()
    met: set[int] = set()

    def meet() -> None:
        thread = threading.get_ident()
        if thread not in met:
            met.add(thread)
            place = both_inside.wait()
            if place:
                assert first_is_done.wait(PATIENCE)

    net.before = meet

    def explained() -> Floats:
        answer = values(net)
        first_is_done.set()
        return answer

    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(explained) for _ in range(2)]
    for answer in answers:
        np.testing.assert_array_equal(answer.result(), wanted)
    assert all(mode is training for mode in modes(net))


class Merging(Hooked):
    """Does more than set a flag when its mode changes, as adapters of low rank do."""

    merged = False

    def train(self, mode: bool = True) -> "Merging":
        self.merged = not mode
        return super().train(mode)


def test_a_module_with_its_own_train_keeps_its_frozen_submodules() -> None:
    merging = Merging(nn.Sequential(Merging(nn.Dropout()), nn.Dropout())).train()
    merging.inner.eval()
    before = modes(merging)
    with EvalMode(merging):
        assert merging.merged
        assert not any(modes(merging))
    assert not merging.merged
    assert modes(merging) == before == [True, False, False, False, False]


def test_a_module_that_cannot_be_switched_is_given_back() -> None:
    class Stubborn(nn.Dropout):
        def train(self, mode: bool = True) -> "Stubborn":
            if not mode:
                raise ValueError("training only")
            return super().train(mode)

    net = nn.Sequential(nn.Dropout(), Stubborn()).train()
    with pytest.raises(ValueError, match="training only"), EvalMode(net):
        pass
    assert modes(net) == [True, True, True]


def exported() -> nn.Module:
    """An exported module, which has only one mode, and dropout beside it."""
    program = torch.export.export(
        network(4).eval(),
        (torch.zeros(3, 4).double(),),
        dynamic_shapes=({0: torch.export.Dim("rows")},),
    )
    return nn.Sequential(program.module(), nn.Dropout(0.9))


def compiled() -> nn.Module:
    return torch.compile(hooked())  # type: ignore[return-value]


def scripted() -> nn.Module:
    script: Any = torch.jit.trace(hooked().inner, torch.zeros(3, 4).double(), check_trace=False)
    return script  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("make", [exported, compiled, scripted])
def test_modules_made_from_others(make: Callable[[], nn.Module]) -> None:
    net = make()
    before = modes(net)
    with EvalMode(net):
        names = [getattr(part, "original_name", type(part).__name__) for part in net.modules()]
        dropouts = dict(zip(names, modes(net), strict=True))
        assert dropouts["Dropout"] is False
    assert modes(net) == before
    assert any(before)


# Devices


class Travelling(Hooked):
    """A module that can go to the device "meta" and back, and notes where it went.

    "meta" is the one other device that every machine has. Its tensors have no numbers.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__(inner)
        self.journeys: list[str] = []

    def to(self, device: torch.device) -> "Travelling":  # type: ignore[override]
        self.journeys.append(device.type)
        return self.to_empty(device=device)


def devices(net: nn.Module) -> set[str]:
    return {tensor.device.type for tensor in net.parameters()}


def test_a_module_goes_to_a_device_and_comes_home_with_its_last_user() -> None:
    net = Travelling(network(4)).train()
    first = EvalMode(net, "meta")
    with EvalMode(net, "meta") as second:
        assert second.device.type == "meta"
        with first, EvalMode(net) as third:
            assert third.device.type == "meta"
        assert devices(net) == {"meta"}
        with pytest.raises(InputError, match="device: the model is in use on meta"):
            EvalMode(net, "cpu").__enter__()
    assert devices(net) == {"cpu"}
    assert net.journeys == ["meta", "cpu"]
    assert all(modes(net))


def test_a_module_that_cannot_be_moved_is_given_back() -> None:
    class Heavy(Travelling):
        def to(self, device: torch.device) -> "Heavy":  # type: ignore[override]
            self.journeys.append(device.type)
            if device.type == "meta":
                raise RuntimeError("too heavy")
            return self

    net = Heavy(network(4)).train()
    with pytest.raises(InputError, match="to meta: too heavy"), EvalMode(net, "meta"):
        pass
    assert net.journeys == ["meta", "cpu"]
    assert all(modes(net))


def test_a_module_spread_over_devices_stays_where_it_is() -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1, device="meta"))
    with EvalMode(net) as used:
        assert used.device.type == "cpu"
        assert devices(net) == {"cpu", "meta"}
    with pytest.raises(InputError, match=r"spread over \['cpu', 'meta'\]"), EvalMode(net, "cpu"):
        pass
