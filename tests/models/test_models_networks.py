"""A zoo of networks: each is explained by its own predictions, and is afterwards as it was.

Every module gets the same six rows. Its prediction must be what it returns itself, in eval mode,
for these rows in its own type; on other scales, what the scale's definition makes of that.
"""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clock import PATIENCE
from games import Floats, network
from shearshap import Explainer, InputError, ModelError, ShearWarning
from shearshap.models.networks import eval_mode

ROWS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()
ZEROS = torch.zeros(4).double()

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*TorchScript.*"),
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
]


def body(outputs: int = 3) -> nn.Sequential:
    """A small network with dropout, of random weights that make large outputs."""
    torch.manual_seed(1)
    layers = (nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, outputs))
    net = nn.Sequential(*layers)
    with torch.no_grad():
        last: Any = net[3].weight
        last.mul_(6)
    return net.double()


class Calling(nn.Module):
    """A module of which nothing can be seen but its code."""

    def __init__(
        self,
        inner: nn.Module,
        after: Callable[[Any], Any] = lambda y: y,
        before: Callable[[Any], Any] = lambda x: x,
    ) -> None:
        super().__init__()
        self.inner = inner
        self.after = after
        self.before = before

    def forward(self, x: Tensor) -> Any:
        return self.after(self.inner(self.before(x)))


def scripted() -> nn.Module:
    net: nn.Module = torch.jit.script(body())
    return net


def exported() -> nn.Module:
    shapes = ({0: torch.export.Dim("rows")},)
    program = torch.export.export(body().eval(), (ROWS,), dynamic_shapes=shapes)
    return program.module()


def compiled() -> nn.Module:
    net: Any = torch.compile(body(), backend="eager")
    assert isinstance(net, nn.Module)
    return net


def quantized() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(  # type: ignore[no-any-return]
        body().float().eval(), {nn.Linear}, dtype=torch.qint8
    )


def three(x: Tensor) -> Tensor:
    return torch.stack((x.sum(dim=1), x[:, 0] * x[:, 1], x[:, 2] - 3), dim=1)


def hooked() -> nn.Module:
    net = body()
    net.register_forward_hook(lambda _module, _inputs, output: output * 2)
    net.register_forward_pre_hook(lambda _module, inputs: (inputs[0] + 1,))
    return net


def of_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return body()


MODULES: dict[str, Callable[[], nn.Module]] = {
    "eager": body,
    "scripted": scripted,
    "exported": exported,
    "compiled": compiled,
    "data parallel": lambda: nn.DataParallel(body()),
    "quantized": quantized,
    "half": lambda: body().half(),
    "without parameters": lambda: Calling(nn.Identity(), three),
    "buffers only": lambda: nn.BatchNorm1d(4, affine=False),
    "writes into its input": lambda: Calling(body(), before=lambda x: x.mul_(2)),
    "with hooks": hooked,
    "of inference mode": of_inference_mode,
}


def own_type(net: nn.Module) -> torch.dtype:
    """The type in which a module of the zoo takes its rows."""
    if any("quantized" in type(part).__module__ for part in net.modules()):
        return torch.float32
    tensors = [*net.parameters(), *net.buffers()]
    return tensors[0].dtype if tensors else torch.float64


def own_answer(net: nn.Module, rows: Tensor = ROWS) -> Tensor:
    """What a module itself returns in eval mode, in double precision."""
    modes = [(part, part.training) for part in parts(net)]
    for part, _ in modes:
        part.training = False
    with torch.no_grad():
        answer: Tensor = net(rows.to(own_type(net)).clone())
    for part, mode in modes:
        part.training = mode
    return (answer.to_dense() if answer.is_sparse else answer).double()


def parts(net: nn.Module) -> list[nn.Module]:
    return [part for part in net.modules() if hasattr(part, "training")]


def predictions(net: nn.Module, **options: Any) -> Floats:
    return Explainer(net, ZEROS, **options)(ROWS, budget=16).predictions


def warning_of(name: str) -> AbstractContextManager[object]:
    """Expect a warning of modules quantized dynamically: they round by the range of the batch."""
    if name != "quantized":
        return nullcontext()
    return pytest.warns(ShearWarning, match="depends on the other rows in its batch")


SLOW = ("compiled", "exported")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODULES]
)
def test_a_module_is_explained_by_its_own_predictions(name: str) -> None:
    if name == "data parallel" and torch.cuda.is_available():
        pytest.skip("it takes all GPUs, and then no tensors on a CPU")
    net = MODULES[name]()
    before = [part.training for part in parts(net)]
    untouched = ROWS.clone()
    answer = own_answer(net)
    wanted = {
        None: answer,
        "margin": answer,
        "probability": answer.softmax(dim=1),
        "log-odds": answer.softmax(dim=1).clamp(1e-12, 1 - 1e-12).logit(),
    }
    # sums are taken in another order there, and then rounded
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 2e-1}.get(own_type(net), 1e-4)
    for scale, numbers in wanted.items():
        with warning_of(name):
            found = predictions(net, scale=scale)
        extreme = scale == "log-odds" and abs(numbers).max() > 20
        if not extreme:
            np.testing.assert_allclose(found, numbers, atol=tolerance, rtol=tolerance)
    assert torch.equal(ROWS, untouched)
    assert [part.training for part in parts(net)] == before


@pytest.mark.parametrize("name", ["quantized", "of inference mode", "exported", "half"])
def test_interactions_of_modules_that_may_not_be_differentiable(name: str) -> None:
    """Where there are no derivatives, second differences do."""
    net = MODULES[name]()
    with warning_of(name):
        answer = Explainer(net, ZEROS, method="shear")(ROWS, budget=32, interactions=True)
    np.testing.assert_allclose(answer.predictions, own_answer(net), atol=2e-2, rtol=2e-2)
    assert answer.interactions is not None


def test_a_module_of_indices() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 2))
    rows = torch.randint(0, 7, (6, 4))
    answer = Explainer(net, torch.zeros(4, dtype=torch.long))(rows)
    np.testing.assert_allclose(answer.predictions, net(rows).detach(), atol=1e-6)
    with pytest.raises(ModelError, match="pass rows of indices as an integer tensor"):
        Explainer(net, np.zeros(4))(rows.numpy().astype(float))


@pytest.mark.parametrize("shape", [(6, 1), (6,), (6, 1, 1), (1, 6)])
def test_one_output_in_any_shape_has_no_axis_of_outputs(shape: tuple[int, ...]) -> None:
    net = body(1)
    wrapped = Calling(net, lambda y: y.reshape([-1 if size == 6 else size for size in shape]))
    np.testing.assert_allclose(predictions(wrapped), own_answer(net)[:, 0])


# The last layer


@pytest.mark.parametrize(
    ("last", "is_probability"),
    [
        (nn.Sigmoid(), True),
        (nn.Softmax(dim=-1), True),
        (nn.Hardsigmoid(), True),
        (nn.Tanh(), False),
        (nn.Identity(), False),
    ],
)
def test_a_last_layer_is_known_by_its_kind(last: nn.Module, is_probability: bool) -> None:
    net = nn.Sequential(nn.Sequential(body(), last), nn.Dropout(), nn.Identity())
    own = own_answer(net)
    wanted = own if is_probability else own.softmax(dim=1)
    np.testing.assert_allclose(predictions(net, scale="probability"), wanted, atol=1e-9)


def test_a_sequence_with_a_forward_of_its_own_does_not_show_its_ending() -> None:
    class Reversed(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            for layer in reversed(self):
                x = layer(x)
            return x

    net = Reversed(body(), nn.Softmax(dim=1))
    np.testing.assert_allclose(predictions(net, scale="margin"), own_answer(net))


def test_log_sigmoids_have_no_scale_until_it_is_stated() -> None:
    net = nn.Sequential(body(1), nn.LogSigmoid())
    np.testing.assert_allclose(predictions(net), own_answer(net)[:, 0])
    with pytest.raises(
        InputError, match=r"it is not known whether the model returns .* pass returns="
    ):
        predictions(net, scale="probability")
    stated = predictions(net, scale="probability", returns="margin")
    np.testing.assert_allclose(stated, own_answer(net)[:, 0].sigmoid())


# What cannot be seen: refused, doubted, or stated


def hidden_softmax() -> nn.Module:
    return Calling(body(), lambda y: y.softmax(dim=1))


def hidden_sigmoid(outputs: int) -> nn.Module:
    return Calling(body(outputs), torch.sigmoid)


@pytest.mark.parametrize("scale", ["log-odds", "probability", "margin"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_classes_that_sum_to_one_are_refused_until_they_are_stated(
    scale: str, dtype: torch.dtype
) -> None:
    net = hidden_softmax().to(dtype)
    with pytest.raises(
        InputError,
        match=rf"scale='{scale}': the model's 3 outputs lie in \[0, 1\] and sum to 1, so they may be "
        r"probabilities; pass returns='probability' if they are, or returns='margin' "
        r"if they are not \(and multilabel=True if",
    ):
        predictions(net, scale=scale)
    assert net.training
    # stated, there is no doubt
    stated = predictions(net, scale=scale, returns="margin")
    wanted = own_answer(net)
    scaled = {
        "log-odds": wanted.softmax(dim=1).logit(),
        "probability": wanted.softmax(dim=1),
        "margin": wanted,
    }
    tolerance = 1e-5 if dtype in (torch.float32, torch.float64) else 2e-2
    np.testing.assert_allclose(stated, scaled[scale], atol=tolerance)
    if scale == "margin":
        with pytest.raises(InputError, match="the model returns probabilities and has no margins"):
            predictions(net, scale=scale, returns="probability")


@pytest.mark.parametrize(
    ("outputs", "scale"), [(1, "log-odds"), (1, "probability"), (3, "log-odds")]
)
def test_outputs_between_0_and_1_are_doubted(outputs: int, scale: Any) -> None:
    net = hidden_sigmoid(outputs)
    doubt = rf"scale='{scale}': .* treated as logits, .* pass returns='probability' if they are"
    with pytest.warns(ShearWarning, match=doubt) as caught:
        answer = Explainer(net, ZEROS, scale=scale)(ROWS)
    assert caught[0].filename == __file__
    assert len(answer.notes) == 1
    assert answer.notes[0] == str(caught[0].message)

    stated = Explainer(net, ZEROS, scale=scale, returns="probability")(ROWS)
    own = own_answer(net)
    wanted = own.logit() if scale == "log-odds" else own
    np.testing.assert_allclose(
        stated.predictions, wanted[:, 0] if outputs == 1 else wanted, atol=1e-4
    )
    assert stated.notes == ()
    assert Explainer(net, ZEROS, scale=scale, returns="margin")(ROWS).notes == ()
    assert Explainer(net, ZEROS)(ROWS).notes == ()


def test_stated_probabilities_that_are_none_are_refused() -> None:
    for scale in ("probability", "log-odds"):
        with pytest.raises(
            ModelError,
            match=r"returns='probability': the model returned -.* to .*, which are not probabilities",
        ):
            predictions(body(), scale=scale, returns="probability")


@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_labels_of_their_own(kind: Any) -> None:
    """Each label has a sigmoid of its own, and not a part in a softmax."""
    net = body() if kind == "margin" else hidden_sigmoid(3)
    options = {"returns": kind, "multilabel": True}
    chances = own_answer(body()).sigmoid()
    np.testing.assert_allclose(predictions(net, scale="probability", **options), chances, atol=1e-9)
    np.testing.assert_allclose(
        predictions(net, scale="log-odds", **options), own_answer(body()), atol=1e-4
    )
    one = Explainer(net, ZEROS, output=1, scale="probability", **options)(ROWS)
    np.testing.assert_allclose(one.predictions, chances[:, 1], atol=1e-9)


def test_what_is_known_of_a_module_cannot_be_stated_otherwise() -> None:
    soft = nn.Sequential(body(), nn.Softmax(dim=1))
    with pytest.raises(
        InputError,
        match="returns='margin': the model is known to return probabilities; leave returns out",
    ):
        predictions(soft, scale="probability", returns="margin")
    with pytest.raises(
        InputError,
        match="multilabel=True: the model's outputs are known to be exclusive classes",
    ):
        predictions(soft, scale="probability", multilabel=True)
    np.testing.assert_allclose(
        predictions(soft, scale="probability", returns="probability", multilabel=False),
        own_answer(soft),
    )
    logs = nn.Sequential(body(), nn.LogSoftmax(dim=1))
    with pytest.raises(
        InputError, match="returns='probability': the model is known to return margins"
    ):
        predictions(logs, scale="probability", returns="probability")


def test_modules_without_numbers() -> None:
    with pytest.raises(
        InputError, match="lazy layers whose parameters do not exist yet; call it once"
    ):
        predictions(nn.Sequential(nn.LazyLinear(3), nn.ReLU()))
    with pytest.raises(InputError, match="parameters on the device 'meta', which holds no numbers"):
        predictions(nn.Linear(4, 2, device="meta"))


def test_log_odds_of_probabilities_are_differentiated_without_warnings() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    rows = torch.randn(3, 4)
    answer = Explainer(net, torch.zeros(4), method="shear", scale="log-odds")(rows, budget=60)
    assert answer.derivative_passes > 0
    wanted = net(rows).logit().detach().numpy()
    np.testing.assert_allclose(answer.predictions, wanted, atol=1e-4)


# Eval mode and devices


class Hooked(nn.Module):
    """A network that calls `before` in each forward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.before: Callable[[], object] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.before()
        return self.inner(x)  # type: ignore[no-any-return]


def partly_frozen() -> Hooked:
    """A network with dropout, in training mode but for a frozen part."""
    torch.manual_seed(0)
    frozen = network(4)
    net = Hooked(nn.Sequential(frozen, nn.Dropout(0.9))).train()
    frozen.eval()
    return net


def modes(*networks: nn.Module) -> list[bool]:
    return [part.training for net in networks for part in parts(net)]


def values(net: nn.Module) -> Floats:
    return Explainer(net, ZEROS, method="exact")(ROWS[:3], budget=16).values


def test_eval_mode_is_left_after_success_error_and_interrupt() -> None:
    net = partly_frozen()
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
        for _ in Explainer(net, ZEROS).stream(ROWS.repeat(20, 1)):
            assert not net.training
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert all(modes(net))


@pytest.mark.parametrize("training", [False, True])
def test_one_module_is_explained_in_two_threads(training: bool) -> None:
    """The second goes on after the first is done."""
    net = partly_frozen().train(training)
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
        np.testing.assert_array_equal(answer.result(PATIENCE), wanted)
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
    with eval_mode(merging):
        assert merging.merged
        assert not any(modes(merging))
    assert not merging.merged
    assert modes(merging) == before == [True, False, False, False, False]


@pytest.mark.parametrize("make", [exported, pytest.param(compiled, marks=pytest.mark.slow)])
def test_modules_made_from_others_are_restored(make: Callable[[], nn.Module]) -> None:
    """An exported module has only one mode, and dropout beside it has both."""
    net = nn.Sequential(make(), nn.Dropout(0.9))
    before = modes(net)
    with eval_mode(net):
        dropout: Any = net[1]
        assert not dropout.training
    assert modes(net) == before


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
    first = eval_mode(net, "meta")
    with eval_mode(net, "meta") as second:
        assert second.type == "meta"
        with first, eval_mode(net) as third:
            assert third.type == "meta"
        assert devices(net) == {"meta"}
        with pytest.raises(InputError, match="device: the model is in use on meta"):
            eval_mode(net, "cpu").__enter__()
    assert devices(net) == {"cpu"}
    assert net.journeys == ["meta", "cpu"]
    assert all(modes(net))


def test_a_module_spread_over_devices_stays_where_it_is() -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1, device="meta"))
    with eval_mode(net) as used:
        assert used.type == "cpu"
        assert devices(net) == {"cpu", "meta"}
    with pytest.raises(InputError, match=r"spread over \['cpu', 'meta'\]"), eval_mode(net, "cpu"):
        pass
