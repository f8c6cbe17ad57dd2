"""Modules that share submodules, explained at the same time: modes, devices, forks and interrupts.

Threads meet at barriers and events, so that every interleaving here is the one that is meant.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from games import Floats, network
from shearshap import Explainer, InputError, ModelError
from shearshap.models.modules import _IN_USE, Lease

ROWS = np.random.default_rng(0).normal(size=(3, 4))
ZEROS = np.zeros(4)
PATIENCE = 60  #: seconds until a thread that waits in vain fails


@contextmanager
def evaluating(network: nn.Module, device: str | None) -> Iterator[torch.device]:
    """Use a module, and yield the device that it is on."""
    with Lease(network, device) as lease:
        yield lease.device


class Head(nn.Module):
    """A head over a backbone, which calls `before` in each forward."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.linear = nn.Linear(2, 1).double()
        self.before: Callable[[], object] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.before()
        return self.linear(self.backbone(x))  # type: ignore[no-any-return]


def two_heads() -> tuple[Head, Head]:
    """Two heads over one backbone with dropout, in training mode but for its frozen network."""
    torch.manual_seed(0)
    frozen = network(4)
    backbone = nn.Sequential(frozen, nn.Dropout(0.9))
    heads = Head(backbone).train(), Head(backbone).train()
    frozen.eval()
    return heads


def modes(*networks: nn.Module) -> list[bool]:
    return [part.training for net in networks for part in net.modules()]


def values(net: nn.Module) -> Floats:
    return Explainer(net, ZEROS, method="exact")(ROWS, budget=16).values


# Modes


def test_a_shared_backbone_stays_in_eval_until_its_last_user_leaves() -> None:
    first, second = two_heads()
    before = modes(first, second)
    with ExitStack() as outer:
        with evaluating(first, None):
            outer.enter_context(evaluating(second, None))
            assert not any(modes(first, second))
        assert first.training
        assert first.linear.training
        assert not any(modes(second))
    assert modes(first, second) == before


def test_two_heads_of_one_backbone_are_explained_in_two_threads() -> None:
    """The second head has to run its backbone after the first is done, and given back."""
    first, second = two_heads()
    before = modes(first, second)
    wanted = [values(first), values(second)]

    both_inside = threading.Barrier(2, timeout=PATIENCE)
    first_is_done = threading.Event()
    calls = {first: 0, second: 0}

    def meet(head: Head) -> None:
        calls[head] += 1
        if calls[head] == 1:
            both_inside.wait()
        if head is second:
            assert first_is_done.wait(PATIENCE)

    first.before = lambda: meet(first)
    second.before = lambda: meet(second)

    def explain_first() -> Floats:
        answer = values(first)
        assert first.linear.training
        first_is_done.set()
        return answer

    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(explain_first), threads.submit(values, second)]
    np.testing.assert_array_equal(answers[0].result(), wanted[0])
    np.testing.assert_array_equal(answers[1].result(), wanted[1])
    assert modes(first, second) == before


def test_a_submodule_that_is_explained_itself_is_shared_too() -> None:
    head, _ = two_heads()
    before = modes(head)
    with ExitStack() as outer:
        with evaluating(head.backbone, None):
            outer.enter_context(evaluating(head, None))
        assert not any(modes(head))
    assert modes(head) == before


def test_a_failing_head_leaves_the_other_in_eval() -> None:
    first, second = two_heads()
    before = modes(first, second)

    def fail() -> None:
        raise ValueError("no such thing")

    first.before = fail
    with evaluating(second, None):
        with pytest.raises(ModelError, match="no such thing"):
            values(first)
        assert not any(modes(second))
    assert modes(first, second) == before


class Merging(nn.Module):
    """Does more than set a flag when its mode changes, as adapters of low rank do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.merged = False

    def train(self, mode: bool = True) -> "Merging":
        self.merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


def test_a_module_with_its_own_train_waits_for_its_shared_submodules() -> None:
    _, head = two_heads()
    merging = Merging(head.backbone).train()
    before = modes(merging)
    with ExitStack() as outer:
        with evaluating(merging, None):
            outer.enter_context(evaluating(head, None))
        assert not any(modes(head))
        assert merging.merged
    assert not merging.merged
    assert modes(merging) == before


def test_a_module_with_its_own_train_keeps_its_frozen_submodules() -> None:
    merging = Merging(nn.Sequential(Merging(nn.Dropout()), nn.Dropout())).train()
    merging.inner.eval()
    before = modes(merging)
    with evaluating(merging, None):
        assert not any(modes(merging))
    assert modes(merging) == before == [True, False, False, False, False]


def test_a_module_that_cannot_be_switched_is_given_back() -> None:
    class Stubborn(nn.Dropout):
        def train(self, mode: bool = True) -> "Stubborn":
            if not mode:
                raise ValueError("training only")
            return super().train(mode)

    net = nn.Sequential(nn.Dropout(), Stubborn()).train()
    with pytest.raises(ValueError, match="training only"), evaluating(net, None):
        pass
    assert modes(net) == [True, True, True]


def test_an_exported_module_beside_others() -> None:
    """It has only one mode, but dropout beside it must be off."""
    program = torch.export.export(
        network(4).eval(),
        (torch.zeros(3, 4).double(),),
        dynamic_shapes=({0: torch.export.Dim("rows")},),
    )
    net = nn.Sequential(program.module(), nn.Dropout(0.9))
    before = modes(net)
    with evaluating(net, None):
        assert not net[1].training
    assert modes(net) == before
    np.testing.assert_array_equal(values(net), values(net))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_compiled_modules() -> None:
    net = nn.Sequential(network(4), nn.Dropout(0.9)).train()
    net[0].eval()
    compiled: Any = torch.compile(net)
    before = modes(net)
    with evaluating(compiled, None):
        assert not any(modes(net))
    assert modes(net) == before


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_modules() -> None:
    net = nn.Sequential(network(4), nn.Dropout(0.9)).train()
    net[0].eval()
    scripted = torch.jit.trace(net, torch.zeros(3, 4).double(), check_trace=False)
    before = modes(scripted)
    with evaluating(scripted, None):
        assert not any(modes(scripted))
    assert modes(scripted) == before
    assert any(before)


# Devices


class Travelling(Head):
    """A head that can go to the device "meta" and back, and notes where it went.

    "meta" is the one other device that every machine has. Its tensors have no numbers.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__(backbone)
        self.journeys: list[str] = []
        self.was_looked_at = threading.Event()

    def to(self, device: torch.device) -> "Travelling":  # type: ignore[override]
        self.journeys.append(device.type)
        return self.to_empty(device=device)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        self.was_looked_at.set()
        return super().buffers(recurse)


def travelling_heads() -> tuple[Travelling, Travelling]:
    backbone = network(4)
    return Travelling(backbone), Travelling(backbone)


def devices(*networks: nn.Module) -> set[str]:
    return {tensor.device.type for net in networks for tensor in net.parameters()}


def test_two_heads_go_to_the_same_device_together_and_come_home() -> None:
    first, second = travelling_heads()
    with ExitStack() as outer:
        with evaluating(first, "meta") as device:
            assert device.type == "meta"
            outer.enter_context(evaluating(second, "meta"))
            assert devices(first, second) == {"meta"}
        assert devices(second) == {"meta"}
    assert devices(first, second) == {"cpu"}


def test_without_a_device_a_module_is_used_where_another_call_moved_it() -> None:
    head, _ = travelling_heads()
    with ExitStack() as outer:
        with evaluating(head, "meta"):
            assert outer.enter_context(evaluating(head, None)).type == "meta"
        assert devices(head) == {"meta"}
    assert devices(head) == {"cpu"}
    assert head.journeys == ["meta", "cpu"]


def test_a_module_whose_tensors_only_its_own_to_knows() -> None:
    class Unregistered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tensors = [torch.zeros(3)]

        def to(self, device: torch.device) -> "Unregistered":  # type: ignore[override]
            self.tensors = [torch.zeros(3, device=device)]
            return self

    net = Unregistered()
    with ExitStack() as outer:
        with evaluating(net, "meta"):
            outer.enter_context(evaluating(net, "meta"))
        assert net.tensors[0].device.type == "meta"
    assert net.tensors[0].device.type == "cpu"


@pytest.mark.parametrize(
    ("used", "wanted"), [("cpu", "meta"), (None, "meta"), ("meta", "cpu"), ("meta", None)]
)
def test_who_wants_a_shared_parameter_elsewhere_waits(used: str | None, wanted: str | None) -> None:
    first, second = travelling_heads()
    entered = threading.Event()

    def use_second() -> str:
        with evaluating(second, wanted) as device:
            entered.set()
            assert devices(second) == {device.type}
            return device.type

    with ThreadPoolExecutor(1) as threads:
        with evaluating(first, used) as device:
            second.was_looked_at.clear()
            waiting = threads.submit(use_second)
            assert second.was_looked_at.wait(PATIENCE)
            # The lock is free again only once the second call has entered, or waits.
            with evaluating(nn.Identity(), None):
                assert second.journeys == []
                assert devices(first) == {device.type}
        assert waiting.result(PATIENCE) == (wanted or "cpu")
    assert entered.is_set()
    assert devices(first, second) == {"cpu"}


def test_a_parameter_shared_by_two_layers_is_waited_for_too() -> None:
    first, second = Travelling(network(4)), Travelling(network(4))
    second.linear.weight = first.linear.weight

    def use_second() -> None:
        with evaluating(second, "meta"):
            assert devices(second) == {"meta"}

    with ThreadPoolExecutor(1) as threads:
        with evaluating(first, None):
            second.was_looked_at.clear()
            waiting = threads.submit(use_second)
            assert second.was_looked_at.wait(PATIENCE)
            with evaluating(nn.Identity(), None):
                assert second.journeys == []
        waiting.result(PATIENCE)
    assert devices(first, second) == {"cpu"}


def test_a_module_that_cannot_be_moved_is_given_back() -> None:
    class Heavy(Travelling):
        def to(self, device: torch.device) -> "Heavy":  # type: ignore[override]
            self.journeys.append(device.type)
            if device.type == "meta":
                raise RuntimeError("too heavy")
            return self

    net = Heavy(network(4)).train()
    with (
        pytest.raises(InputError, match="device: the model cannot be moved to meta: too heavy"),
        evaluating(net, "meta"),
    ):
        pass
    assert net.journeys == ["meta", "cpu"]
    assert all(modes(net))


def test_a_module_spread_over_devices_stays_where_it_is() -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1, device="meta"))
    with evaluating(net, None) as device:
        assert device.type == "cpu"
        assert devices(net) == {"cpu", "meta"}
    with (
        pytest.raises(InputError, match=r"spread over \['cpu', 'meta'\]; leave device out"),
        evaluating(net, "cpu"),
    ):
        pass


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_two_heads_on_a_gpu_in_two_threads() -> None:
    first, second = two_heads()
    wanted = [values(first), values(second)]
    both_inside = threading.Barrier(2, timeout=PATIENCE)
    met: set[Head] = set()

    def meet(head: Head) -> None:
        if head not in met:
            met.add(head)
            both_inside.wait()

    first.before = lambda: meet(first)
    second.before = lambda: meet(second)

    def on_gpu(head: Head) -> Floats:
        explainer = Explainer(head, ZEROS, method="exact", device="cuda")
        return explainer(ROWS, budget=16).values

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(on_gpu, (first, second)))
    np.testing.assert_allclose(answers, wanted, atol=1e-9)
    assert devices(first, second) == {"cpu"}


# Forks

FORK = """
    import os, signal, threading
    import numpy as np
    import torch
    from torch import nn
    from shearshap import Explainer
    from shearshap.models.modules import Lease

    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.9)).double().train()
    explainer = Explainer(net, np.zeros(4))
    rows = np.ones((2, 4))
    in_use, go_on = threading.Event(), threading.Event()

    def check_in_child():
        signal.alarm(60)  # a child that waits in vain ends
        assert all(part.training for part in net.modules())
        first, second = explainer(rows).values, explainer(rows).values
        assert np.array_equal(first, second)
        assert all(part.training for part in net.modules())

    def fork(in_child):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                in_child()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
"""

WHILE_ANOTHER_THREAD_EXPLAINS = """
    def forward(x):
        in_use.set()
        assert go_on.wait(60)
        return x

    class Waiting(nn.Module):
        def forward(self, x):
            return forward(x)

    net.append(Waiting())
    thread = threading.Thread(target=explainer, args=(rows,))
    thread.start()
    assert in_use.wait(60)
    assert not any(part.training for part in net.modules())

    def in_child():
        global forward
        forward = lambda x: x
        check_in_child()

    fork(in_child)
    assert not any(part.training for part in net.modules())
    go_on.set()
    thread.join()
    assert all(part.training for part in net.modules())
"""

WHILE_ANOTHER_THREAD_HOLDS_THE_LOCK = """
    class Slow(nn.Identity):
        def train(self, mode=True):
            in_use.set()
            assert go_on.wait(60)
            return super().train(mode)

    net.append(Slow())
    thread = threading.Thread(target=explainer, args=(rows,))
    thread.start()
    assert in_use.wait(60)
    os.register_at_fork(before=go_on.set)
    fork(check_in_child)
    thread.join()
    assert all(part.training for part in net.modules())
"""

BY_THE_THREAD_THAT_EXPLAINS = """
    def in_child():
        signal.alarm(60)
        assert not any(part.training for part in net.modules())
        context.__exit__(None, None, None)
        check_in_child()

    context = Lease(net, None)
    context.__enter__()
    fork(in_child)
    context.__exit__(None, None, None)
    assert all(part.training for part in net.modules())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks are tested on Linux")
@pytest.mark.parametrize(
    "case",
    [
        WHILE_ANOTHER_THREAD_EXPLAINS,
        WHILE_ANOTHER_THREAD_HOLDS_THE_LOCK,
        BY_THE_THREAD_THAT_EXPLAINS,
    ],
)
def test_a_fork(case: str) -> None:
    """The child finds every module as it was, and can explain it."""
    code = textwrap.dedent(FORK) + textwrap.dedent(case)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Python warns about any fork of a process with threads
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr


# Interrupts
#
# Python raises a KeyboardInterrupt where it looks for signals: when a function of its own begins, and
# when one in C has returned. A profiler is called at the same places, so it can raise one at each.


class Interrupter:
    """Raises a KeyboardInterrupt at the n-th place in some files where one may come."""

    FILES = ("adapters", "solvers", "explainer.py", "contextlib.py", "threading.py", "module.py")

    def __init__(self, moment: int | None) -> None:
        self.moment = moment
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        is_ours = any(name in file for name in self.FILES)
        if event not in ("call", "c_return") or not is_ours:
            return
        self.count += 1
        if self.count == self.moment:
            raise KeyboardInterrupt

    def run(self, function: Callable[[], object]) -> bool:
        """Call a function, and return whether it was interrupted."""
        sys.setprofile(self)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


def check_nothing_is_held() -> None:
    assert _IN_USE.is_empty
    with ThreadPoolExecutor(1) as threads:  # in another thread, as this one may hold the lock
        assert threads.submit(_IN_USE._lock.acquire, timeout=PATIENCE).result()
        threads.submit(_IN_USE._lock.release).result()


def every_moment(function: Callable[[], object]) -> range:
    dry_run = Interrupter(None)
    dry_run.run(function)
    assert dry_run.count > 100
    return range(1, dry_run.count)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_that_is_interrupted_at_any_moment_gives_the_module_back() -> None:
    net = nn.Sequential(nn.Linear(2, 2), Merging(nn.Dropout()), nn.Linear(2, 1)).double().train()
    net[2].eval()
    before = modes(net)
    explainer = Explainer(net, np.zeros(2), scale="log-odds")

    def run() -> object:
        return explainer(np.ones((1, 2)), progress=False)

    wanted = explainer(np.ones((1, 2))).values
    interrupted = 0
    moments = every_moment(run)
    for moment in moments:
        interrupted += Interrupter(moment).run(run)
        assert modes(net) == before, moment
        assert not net[1].merged, moment
        assert _IN_USE.is_empty, moment
    assert interrupted > 0.9 * len(moments)
    check_nothing_is_held()
    np.testing.assert_array_equal(explainer(np.ones((1, 2))).values, wanted)


def test_a_stream_that_is_interrupted_between_blocks_gives_the_module_back() -> None:
    net = network(4).train()

    def consume() -> None:
        for _ in Explainer(net, ZEROS).stream(np.tile(ROWS, (20, 1))):
            assert not net.training
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert all(modes(net))
    check_nothing_is_held()


def test_a_callback_that_is_interrupted_gives_the_module_back() -> None:
    net = network(4).train()
    hook = net.register_forward_hook(lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        values(net)
    except KeyboardInterrupt:
        assert all(modes(net))  # at once, while the traceback still holds every frame
        check_nothing_is_held()
    else:
        pytest.fail("there was no interrupt")
    hook.remove()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_module_on_its_way_to_a_device_or_back_comes_home() -> None:
    class Light(nn.Sequential):
        def to(self, device: torch.device) -> "Light":  # type: ignore[override]
            return self.to_empty(device=device)

    head = Light(nn.Linear(2, 2), nn.Linear(2, 1)).train()

    def use() -> None:
        lease = Lease(head, "meta")
        try:
            with lease:
                pass
        except BaseException:
            lease.give_back()
            raise

    for moment in every_moment(use):
        Interrupter(moment).run(use)
        assert devices(head) == {"cpu"}, moment
        assert all(modes(head)), moment
        assert _IN_USE.is_empty, moment
    check_nothing_is_held()


AT_RANDOM = """
    import random, signal
    import numpy as np
    import torch
    from torch import nn
    from shearshap import Explainer
    from shearshap.models.modules import _IN_USE

    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.9)).double().train()
    rows = np.ones((40, 4))
    explainer = Explainer(net, np.zeros(4))
    wanted = explainer(rows).values
    random.seed(0)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    for _ in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 0.012))
            explainer(rows, progress=False)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupted += 1
            assert all(part.training for part in net.modules())
            assert _IN_USE.is_empty
            assert not _IN_USE._lock._is_owned()
    assert interrupted > 30, interrupted
    assert np.array_equal(explainer(rows).values, wanted)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_interrupts_at_random_moments() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(AT_RANDOM)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr
