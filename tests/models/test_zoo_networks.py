"""A zoo of networks and functions: each is explained by its own predictions on untouched rows, or refused in words.

Every module gets the same six rows. Its prediction must be what it returns itself, in eval mode, for these rows
in its own type; on other scales, what the scale's definition makes of that.
"""

from collections import namedtuple
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

from games import Floats
from shearshap import Explainer, InputError, ModelError, ShearWarning, explain, model_game
from shearshap.models.endings import ending
from shearshap.models.modules import _IN_USE

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

    def __init__(self, inner: nn.Module, after: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = inner
        self.after = after

    def forward(self, x: Tensor) -> Any:
        return self.after(self.inner(x))


# The modules


def traced() -> nn.Module:
    net: nn.Module = torch.jit.trace(body().eval(), ROWS)
    return net


def scripted() -> nn.Module:
    net: nn.Module = torch.jit.script(body())
    return net


def frozen() -> nn.Module:
    net: nn.Module = torch.jit.freeze(torch.jit.script(body().float().eval()))
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


class WithoutParameters(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack((x.sum(dim=1), x[:, 0] * x[:, 1], x[:, 2] - 3), dim=1)


class BuffersOnly(nn.Module):
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).reshape(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table


class MixedTypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)).double())  # type: ignore[no-any-return]


class WritesIntoItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = body()

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        x[:, 0] = 1
        return self.inner(x)  # type: ignore[no-any-return]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.inside = nn.Linear(1, 8)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.inside(x[:, :, None])).mean(dim=1))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.memory = nn.LSTM(1, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.memory(x[:, :, None])
        return self.head(states[:, -1])  # type: ignore[no-any-return]


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.reshape(-1, 1, 2, 2))  # type: ignore[no-any-return]


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
    "traced": traced,
    "scripted": scripted,
    "frozen": frozen,
    "exported": exported,
    "compiled": compiled,
    "data parallel": lambda: nn.DataParallel(body()),
    "quantized": quantized,
    "half": lambda: body().half(),
    "bfloat16": lambda: body().bfloat16(),
    "without parameters": WithoutParameters,
    "buffers only": BuffersOnly,
    "mixed types": MixedTypes,
    "writes into its input": WritesIntoItsInput,
    "attention": Attention,
    "recurrent": Recurrent,
    "convolution": Convolution,
    "with hooks": hooked,
    "of inference mode": of_inference_mode,
    "not contiguous": lambda: Calling(body(), lambda y: y.flip(1).t().contiguous().t()),
    "sparse": lambda: Calling(body(), lambda y: y.to_sparse()),
    "whole numbers": lambda: Calling(body(), lambda y: (y * 100).long()),
}


def own_type(net: nn.Module) -> torch.dtype:
    """The type in which a module of the zoo takes its rows."""
    if isinstance(net, torch.jit.ScriptModule) and not list(net.parameters()):
        return torch.float32
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


def log_odds(chances: Tensor) -> Tensor:
    return torch.log(chances / (1 - chances))


def warning_of(name: str) -> AbstractContextManager[object]:
    """Expect a warning of modules quantized dynamically: they round by the range of the batch."""
    if name != "quantized":
        return nullcontext()
    return pytest.warns(ShearWarning, match="depends on the rows beside it in its batch")


@pytest.mark.parametrize("name", MODULES)
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
        "log-odds": log_odds(answer.softmax(dim=1).clamp(1e-12, 1 - 1e-12)),
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
    assert _IN_USE.is_empty


@pytest.mark.parametrize("name", ["quantized", "of inference mode", "frozen", "exported", "half"])
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


def test_rows_that_require_gradients_are_explained_and_get_none() -> None:
    rows = ROWS.clone().requires_grad_()
    net = body()
    answer = Explainer(net, ZEROS)(rows)
    np.testing.assert_allclose(answer.predictions, own_answer(net), atol=1e-9)
    assert rows.grad is None
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("shape", [(6, 1), (6,), (6, 1, 1), (1, 6)])
def test_one_output_in_any_shape_has_no_axis_of_outputs(shape: tuple[int, ...]) -> None:
    net = body(1)
    wrapped = Calling(net, lambda y: y.reshape([-1 if size == 6 else size for size in shape]))
    np.testing.assert_allclose(predictions(wrapped), own_answer(net)[:, 0])


# Endings: known to return probabilities, or log-probabilities


@pytest.mark.skipif(not torch.distributed.is_available(), reason="no distributed torch here")
def test_wrappers_show_the_ending_inside() -> None:
    probable = nn.Sequential(body(), nn.Softmax(dim=1))
    wrappers: list[Any] = [nn.DataParallel(probable), torch.compile(probable, backend="eager")]
    assert [ending(wrapper) for wrapper in wrappers] == ["softmax", "softmax"]


def graph(net: nn.Module) -> nn.Module:
    return torch.fx.symbolic_trace(net.eval())


class Functional(nn.Module):
    """Ends in a call of a function, which a graph shows and an eager module does not."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


class Softmax(Functional):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.inner(x), dim=1)


class LogSoftmax(Functional):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.log_softmax(self.inner(x), dim=1)


class OneSigmoid(Functional):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.inner(x)).squeeze(1)


FUNCTIONAL = {"softmax": Softmax, "log_softmax": LogSoftmax, "sigmoid": OneSigmoid}


def export(net: nn.Module) -> nn.Module:
    shapes = ({0: torch.export.Dim("rows")},)
    return torch.export.export(net.eval(), (ROWS,), dynamic_shapes=shapes).module()


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "sigmoid"])
@pytest.mark.parametrize("made", ["sequence", "script", "trace", "freeze", "graph", "export"])
def test_scales_of_a_module_whose_ending_can_be_seen(kind: str, made: str) -> None:
    inner = body(1 if kind == "sigmoid" else 3)
    layers = {
        "softmax": nn.Softmax(dim=1),
        "log_softmax": nn.LogSoftmax(dim=1),
        "sigmoid": nn.Sigmoid(),
    }
    functional = FUNCTIONAL[kind](inner).eval()
    makers: dict[str, Callable[[], Any]] = {
        "sequence": lambda: nn.Sequential(inner, nn.Sequential(layers[kind], nn.Identity())),
        "script": lambda: torch.jit.script(functional),
        "trace": lambda: torch.jit.trace(functional, ROWS),
        "freeze": lambda: torch.jit.freeze(torch.jit.script(functional)),
        "graph": lambda: graph(nn.Sequential(inner, layers[kind])),
        "export": lambda: export(functional),
    }
    net = makers[made]()
    assert ending(net) == kind

    logits = own_answer(inner)
    chances = logits.softmax(dim=1) if kind != "sigmoid" else logits[:, 0].sigmoid()
    np.testing.assert_allclose(predictions(net, scale="probability"), chances, atol=1e-6)
    np.testing.assert_allclose(
        predictions(net, scale="log-odds"), log_odds(chances), atol=1e-4, rtol=1e-4
    )
    if kind == "log_softmax":
        np.testing.assert_allclose(predictions(net, scale="margin"), chances.log(), atol=1e-6)
    else:
        with pytest.raises(InputError, match="returns probabilities and has no margins"):
            predictions(net, scale="margin")


def test_the_log_odds_of_a_sure_network_with_a_sigmoid_are_its_logits() -> None:
    """A second sigmoid would make 0.9995 of 8.37."""
    line = nn.Linear(4, 1).double()
    with torch.no_grad():
        line.weight.fill_(0)
        line.bias.fill_(8.37)
    sure = nn.Sequential(line, nn.Sigmoid())
    np.testing.assert_allclose(predictions(sure, scale="log-odds"), 8.37, rtol=1e-5)
    np.testing.assert_allclose(predictions(sure, scale="probability"), 1 / (1 + np.exp(-8.37)))


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (nn.Sigmoid(), "sigmoid"),
        (nn.Softmax(dim=-1), "softmax"),
        (nn.Softmax(dim=0), None),
        (nn.LogSigmoid(), "log_sigmoid"),
        (nn.Hardsigmoid(), "sigmoid"),
        (nn.ReLU(), None),
        (nn.Identity(), None),
    ],
)
def test_the_last_layer(last: nn.Module, wanted: str | None) -> None:
    assert (
        ending(nn.Sequential(nn.Sequential(nn.Linear(4, 2), last), nn.Dropout(), nn.Identity()))
        == wanted
    )


def test_a_sequence_with_a_forward_of_its_own_does_not_show_its_ending() -> None:
    class Reversed(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            for layer in reversed(self):
                x = layer(x)
            return x

    assert ending(Reversed(nn.Linear(4, 2), nn.Sigmoid())) is None


def test_log_sigmoids_have_no_scale_until_it_is_stated() -> None:
    net = nn.Sequential(body(1), nn.LogSigmoid())
    np.testing.assert_allclose(predictions(net), own_answer(net)[:, 0])
    with pytest.raises(
        InputError, match=r"nothing says whether the model returns .* pass returns="
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
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_classes_that_sum_to_one_are_refused_until_they_are_stated(
    scale: str, dtype: torch.dtype
) -> None:
    net = hidden_softmax().to(dtype)
    with pytest.raises(
        InputError,
        match=rf"scale='{scale}': the model's 3 outputs lie in \[0, 1\] and sum to 1, as probabilities do, "
        r"but nothing says what they are; pass returns='probability' if they are, or returns='margin' "
        r"if they are not \(and multilabel=True if",
    ):
        predictions(net, scale=scale)
    assert net.training
    # stated, there is no doubt
    stated = predictions(net, scale=scale, returns="margin")
    wanted = own_answer(net)
    scaled = {
        "log-odds": log_odds(wanted.softmax(dim=1)),
        "probability": wanted.softmax(dim=1),
        "margin": wanted,
    }
    tolerance = 1e-5 if dtype in (torch.float32, torch.float64) else 2e-2
    np.testing.assert_allclose(stated, scaled[scale], atol=tolerance)
    if scale == "margin":
        with pytest.raises(InputError, match="the model returns probabilities and has no margins"):
            predictions(net, scale=scale, returns="probability")


def test_stated_probabilities_are_made_log_odds_once() -> None:
    net = hidden_softmax()
    found = predictions(net, scale="log-odds", returns="probability")
    np.testing.assert_allclose(found, log_odds(own_answer(net)), atol=1e-4)
    np.testing.assert_allclose(
        predictions(net, scale="probability", returns="probability"), own_answer(net)
    )
    np.testing.assert_allclose(predictions(net, returns="probability"), own_answer(net))


@pytest.mark.parametrize(
    ("outputs", "scale"), [(1, "log-odds"), (1, "probability"), (3, "log-odds")]
)
def test_outputs_between_0_and_1_are_doubted(outputs: int, scale: Any) -> None:
    net = hidden_sigmoid(outputs)
    doubt = (
        rf"scale='{scale}': the model's outputs are taken for scores .* but all that were seen lie in "
        r"\[0, 1\] \(.* to .*\), as probabilities do; pass returns='probability' if they are"
    )
    with pytest.warns(ShearWarning, match=doubt) as caught:
        answer = Explainer(net, ZEROS, scale=scale)(ROWS)
    assert caught[0].filename == __file__
    assert len(answer.notes) == 1
    assert answer.notes[0] == str(caught[0].message)

    stated = Explainer(net, ZEROS, scale=scale, returns="probability")(ROWS)
    own = own_answer(net)
    wanted = log_odds(own) if scale == "log-odds" else own
    np.testing.assert_allclose(
        stated.predictions, wanted[:, 0] if outputs == 1 else wanted, atol=1e-4
    )
    assert stated.notes == ()
    assert Explainer(net, ZEROS, scale=scale, returns="margin")(ROWS).notes == ()
    assert Explainer(net, ZEROS)(ROWS).notes == ()


def test_a_few_outputs_between_0_and_1_are_no_reason_to_doubt() -> None:
    net = hidden_sigmoid(1)
    answer = Explainer(net, torch.zeros(3).double(), scale="log-odds", groups=[[0], [1], [2]])
    short = Calling(nn.Linear(3, 1).double(), torch.sigmoid)
    few = Explainer(short, answer.background, scale="log-odds")(ROWS[:1, :3])
    assert few.evaluations == 8
    assert few.notes == ()


def test_one_output_outside_the_unit_interval_is_enough() -> None:
    calls: list[int] = []

    def late(y: Tensor) -> Tensor:
        calls.append(1)
        return torch.sigmoid(y) if len(calls) < 2 else y

    with pytest.warns(ShearWarning, match="depends on the rows beside it") as caught:
        assert predictions(Calling(body(1), late), scale="log-odds").shape == (6,)
    assert len(caught) == 1  # and no doubt of the scale


def test_stated_probabilities_that_are_none_are_refused() -> None:
    for scale in ("probability", "log-odds"):
        with pytest.raises(
            ModelError,
            match=r"returns='probability': the model returned -.* to .*, which are no probabilities",
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
        match="multilabel=True: the model's outputs are known to be classes of which one is true",
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


# Refused in words


@dataclass
class Record:
    score: Tensor
    other: int = 0


Named = namedtuple("Named", ["score", "other"])


@pytest.mark.parametrize(
    ("after", "message", "output"),
    [
        (lambda y: (y, y), "returned a tuple, which is not an array of numbers; pass output= .* for the first of its 2", lambda y: y[0]),
        (lambda y: {"score": y, "aux": y}, r"returned a dict, which is not an array .* such as lambda result: result\['score'\]", lambda y: y["score"]),
        (Record, "returned a Record, which is not an array of numbers; pass output=", lambda y: y.score),
        (lambda y: Named(y, 1), "returned a Named, which is not an array", lambda y: y.score),
        (lambda y: [y, y], "returned a list, which is not an array .* for the first of its 2", lambda y: y[1]),
        (lambda y: y.to(torch.complex128), "returned complex numbers; pass output= a function that makes them real", lambda y: y.real),
        (lambda _: None, "returned a NoneType, which is not an array of numbers", lambda _: torch.zeros(2)),
        (lambda y: y[:, None], r"returned shape \(\d+, 1, 3\) for \d+ rows; wanted .* Pass output=", lambda y: y[:, 0]),
        (lambda y: y.sum(), r"returned shape \(\) for \d+ rows, a single number; wanted one for each row", lambda _: torch.zeros(2)),
        (lambda y: y[:1], r"returned shape \(1, 3\) for \d+ rows", lambda _: torch.zeros(2)),
    ],
)  # fmt: skip
def test_answers_that_need_a_function_to_be_read(after: Any, message: str, output: Any) -> None:
    net = Calling(body(), after)
    with pytest.raises(ModelError, match=message):
        predictions(net)
    chosen = output(net.eval()(ROWS))
    if len(chosen) == len(ROWS):
        np.testing.assert_allclose(predictions(net, output=output), chosen.detach())


def test_a_recurrent_layer_returns_a_tuple() -> None:
    layer = nn.LSTM(4, 2, batch_first=True)
    rows = torch.randn(3, 5, 4)
    with pytest.raises(ModelError, match="returned a tuple, which"):
        Explainer(layer, torch.zeros(5, 4))(rows)
    last = Explainer(layer, torch.zeros(5, 4), output=lambda result: result[0][:, -1])(rows)
    np.testing.assert_allclose(last.predictions, layer(rows)[0][:, -1].detach(), atol=1e-6)


def test_modules_without_numbers() -> None:
    with pytest.raises(
        InputError, match="lazy layers whose parameters do not exist yet; call it once"
    ):
        predictions(nn.Sequential(nn.LazyLinear(3), nn.ReLU()))
    with pytest.raises(
        InputError, match="parameters on the device 'meta', where they have no numbers"
    ):
        predictions(nn.Linear(4, 2, device="meta"))
    assert _IN_USE.is_empty


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"returns": "logits"}, "returns: wanted 'probability' or 'margin', what the model's outputs are, .* got 'logits'"),
        ({"returns": True}, "returns: wanted 'probability' or 'margin'"),
        ({"multilabel": "yes"}, r"multilabel: wanted True \(each output is a label of its own\), False"),
    ],
)  # fmt: skip
def test_wrong_words_for_what_a_model_returns(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        predictions(body(), **options)


# ONNX graphs

WEIGHTS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def session(nodes: Any, inputs: Any, outputs: Any, domains: tuple[str, ...] = ("",)) -> Any:
    """An ONNX Runtime session of a graph with the weights W (4, 3)."""
    import onnxruntime
    from onnx import helper, numpy_helper

    weights = [numpy_helper.from_array(WEIGHTS, "W")]
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    versions = {"": 17, "ai.onnx.ml": 3}
    opsets = [helper.make_opsetid(domain, versions[domain]) for domain in domains]
    model = helper.make_model(made, opset_imports=opsets, ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString())


def tensor(name: str, kind: str, shape: list[Any]) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)


def headed(head: str | None, name: str = "out", rows: Any = None) -> Any:
    """A linear model of three outputs, with or without an activation at its end."""
    from onnx import helper

    nodes = [helper.make_node("MatMul", ["x", "W"], [name if head is None else "z"])]
    if head is not None:
        nodes.append(helper.make_node(head, ["z"], [name]))
    return session(nodes, [tensor("x", "FLOAT", [rows, 4])], [tensor(name, "FLOAT", [rows, 3])])


def linear(rows: Tensor = ROWS) -> Tensor:
    return rows @ torch.as_tensor(WEIGHTS).double()


@pytest.mark.parametrize("rows", [None, "batch", 1, 4])
def test_onnx_logits(rows: Any) -> None:
    net = headed(None, rows=rows)
    chances = linear().softmax(dim=1)
    np.testing.assert_allclose(predictions(net), linear(), atol=1e-5)
    np.testing.assert_allclose(predictions(net, scale="margin"), linear(), atol=1e-5)
    np.testing.assert_allclose(predictions(net, scale="probability"), chances, atol=1e-5)
    np.testing.assert_allclose(predictions(net, scale="log-odds"), log_odds(chances), atol=1e-4)
    labels = predictions(net, scale="probability", multilabel=True)
    np.testing.assert_allclose(labels, linear().sigmoid(), atol=1e-5)


def test_an_onnx_softmax_is_refused_unless_its_name_or_the_user_says_what_it_is() -> None:
    wanted = linear().softmax(dim=1)
    with pytest.raises(InputError, match=r"3 outputs lie in \[0, 1\] and sum to 1"):
        predictions(headed("Softmax"), scale="log-odds")
    for net, options in (
        (headed("Softmax"), {"returns": "probability"}),
        (headed("Softmax", "class_probs"), {}),
    ):
        np.testing.assert_allclose(
            predictions(net, scale="log-odds", **options), log_odds(wanted), atol=1e-4
        )
    with pytest.raises(InputError, match="returns='margin': the model is known to return prob"):
        predictions(headed("Softmax", "class_probs"), scale="log-odds", returns="margin")


def test_an_onnx_sigmoid_is_doubted_and_a_log_softmax_is_taken_for_margins() -> None:
    with pytest.warns(ShearWarning, match=r"all that were seen lie in \[0, 1\]"):
        predictions(headed("Sigmoid"), scale="log-odds")
    stated = predictions(
        headed("Sigmoid"), scale="log-odds", returns="probability", multilabel=True
    )
    np.testing.assert_allclose(stated, linear(), atol=1e-4)
    logs = headed("LogSoftmax", "log_probs")
    np.testing.assert_allclose(
        predictions(logs, scale="probability"), linear().softmax(dim=1), atol=1e-5
    )


@pytest.mark.parametrize("kind", ["tensor", "maps"])
@pytest.mark.parametrize("labels", ["INT64", "STRING"])
def test_onnx_classifiers_with_labels_first(kind: str, labels: str) -> None:
    """As converters of scikit-learn make them: a label, and probabilities as a tensor or as dicts."""
    from onnx import helper

    words = ["a", "b", "c"]
    classes: dict[str, Any] = (
        {"classlabels_strings": words} if labels == "STRING" else {"classlabels_ints": [0, 1, 2]}
    )
    zipped: dict[str, Any] = (
        {"classlabels_strings": words} if labels == "STRING" else {"classlabels_int64s": [0, 1, 2]}
    )
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            coefficients=WEIGHTS.T.ravel().tolist(),
            intercepts=[0.0] * 3,
            post_transform="SOFTMAX",
            **classes,
        )
    ]
    outputs = [tensor("label", labels, [None]), tensor("scores", "FLOAT", [None, 3])]
    if kind == "maps":
        from onnx import TensorProto

        nodes.append(
            helper.make_node("ZipMap", ["scores"], ["chances"], domain="ai.onnx.ml", **zipped)
        )
        key = getattr(TensorProto, labels)
        value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
        outputs[1] = helper.make_value_info("chances", maps)

    net = session(nodes, [tensor("x", "FLOAT", [None, 4])], outputs, ("", "ai.onnx.ml"))
    wanted = linear().softmax(dim=1)
    np.testing.assert_allclose(predictions(net), wanted, atol=1e-6)
    np.testing.assert_allclose(
        predictions(net, scale="log-odds", returns="probability"), log_odds(wanted), atol=1e-4
    )
    with pytest.raises(InputError, match="sum to 1"):
        predictions(net, scale="log-odds")


@pytest.mark.parametrize(
    ("kind", "to"), [("FLOAT16", "FLOAT16"), ("INT64", "FLOAT"), ("DOUBLE", "FLOAT")]
)
def test_onnx_inputs_of_other_types(kind: str, to: str) -> None:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "W"], ["z"]),
        helper.make_node("Cast", ["z"], ["out"], to=getattr(TensorProto, to)),
    ]
    net = session(nodes, [tensor("x", kind, [None, 4])], [tensor("out", to, [None, 3])])
    rows = (3 * ROWS).round()
    answer = Explainer(net, ZEROS.numpy())(rows.numpy(), budget=16)
    np.testing.assert_allclose(
        answer.predictions, linear(rows), atol=2e-2 if to == "FLOAT16" else 1e-4
    )


def test_numbers_that_are_too_large_for_an_onnx_input() -> None:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Cast", ["x"], ["out"], to=TensorProto.FLOAT)]
    net = session(nodes, [tensor("x", "FLOAT16", [None, 4])], [tensor("out", "FLOAT", [None, 4])])
    with pytest.raises(
        InputError, match=r"input 'x' takes float16, but the rows .* numbers too large for it"
    ):
        Explainer(net, ZEROS.numpy())(1e6 + ROWS.numpy())


def test_onnx_graphs_of_several_inputs_one_of_a_fixed_number_of_rows() -> None:
    from onnx import helper

    nodes = [
        helper.make_node("Concat", ["x", "y"], ["xy"], axis=1),
        helper.make_node("MatMul", ["xy", "W"], ["out"]),
    ]
    net = session(
        nodes,
        [tensor("x", "FLOAT", [None, 2]), tensor("y", "FLOAT", [2, 2])],
        [tensor("out", "FLOAT", [2, 3])],
    )
    rows = (ROWS[:, :2].numpy(), ROWS[:, 2:].numpy())
    answer = Explainer(net, (np.zeros(2), np.zeros(2)))(rows, budget=16)
    np.testing.assert_allclose(answer.predictions, linear(), atol=1e-5)


def test_an_onnx_graph_of_labels_only() -> None:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Cast", ["x"], ["label"], to=TensorProto.INT64)]
    net = session(nodes, [tensor("x", "FLOAT", [None, 4])], [tensor("label", "INT64", [None, 4])])
    with pytest.raises(
        InputError, match=r"no output of floating-point numbers, only label: tensor\(int64\)"
    ):
        predictions(net)


# Plain functions


def first_two(x: Floats) -> Floats:
    return np.asarray(x[:, :2])


def total(x: Floats) -> Floats:
    return np.asarray(x.sum(axis=1))


def differentiable(x: Floats) -> Tensor:
    return torch.as_tensor(x).requires_grad_().sum(dim=1)


ANSWERS: dict[str, tuple[Callable[[Floats], Any], Callable[[Floats], Any]]] = {
    "list": (lambda x: total(x).tolist(), total),
    "list of lists": (lambda x: first_two(x).tolist(), first_two),
    "list of arrays": (lambda x: list(first_two(x)), first_two),
    "list of tensors": (lambda x: list(differentiable(x)), total),
    "list of columns of one": (lambda x: list(total(x)[:, None]), total),
    "Series": (lambda x: pd.Series(total(x), index=[f"row {i}" for i in range(len(x))]), total),
    "frame": (lambda x: pd.DataFrame(first_two(x), columns=["a", "b"]), first_two),
    "polars": (lambda x: pl.DataFrame(first_two(x)), first_two),
    "tensor that requires gradients": (differentiable, total),
    "column": (lambda x: total(x)[:, None], total),
    "single precision": (lambda x: total(x).astype(np.float32), total),
    "half precision": (lambda x: total(x).astype(np.float16), total),
    "bools": (lambda x: x[:, 0] > 0, lambda x: x[:, 0] > 0),
    "tensor of bools": (lambda x: torch.as_tensor(x[:, 0] > 0), lambda x: x[:, 0] > 0),
    "ints": (lambda x: (10 * x[:, 0]).astype(int), lambda x: (10 * x[:, 0]).astype(int)),
    "objects": (lambda x: total(x).astype(object), total),
    "sparse matrix": (lambda x: csr_matrix(first_two(x)), first_two),
    "writes into its input": (
        lambda x: np.multiply(x, 2, out=x).sum(axis=1),
        lambda x: 2 * total(x),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_functions(name: str) -> None:
    function, wanted = ANSWERS[name]
    rows = ROWS.numpy().copy()
    answer = Explainer(function, np.zeros(4))(rows)
    np.testing.assert_allclose(answer.predictions, wanted(ROWS.numpy()), rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(rows, ROWS.numpy())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.where(x[:, 0] > 0, "yes", "no"), "returned words such as '(yes|no)'; wanted numbers: return probabilities"),
        (lambda x: ["yes"] * len(x), "returned words such as 'yes'; wanted numbers"),
        (lambda x: pd.Series(["yes"] * len(x), dtype="category"), "returned words such as 'yes'; wanted numbers"),
        (lambda x: pd.DataFrame({"label": ["yes"] * len(x)}), "returned words such as 'yes'; wanted numbers"),
        (lambda x: x.sum(), r"returned shape \(\) for \d+ rows, a single number; wanted one for each row, as in x.sum\(axis=1\)"),
        (lambda _: 3, r"returned shape \(\) for \d+ rows, a single number"),
        (lambda x: x.sum(axis=1) * 1j, "returned complex numbers"),
        (lambda x: (x[:, 0], x[:, 1]), "returned a tuple, which is not an array of numbers; pass output= .* for the first of its 2"),
        (lambda x: [first_two(x), first_two(x)], "returned a list, which is not an array of numbers; pass output="),
        (lambda _: None, "returned a NoneType"),
        (lambda x: x.sum(axis=0), r"returned shape \(4,\) for \d+ rows"),
    ],
)  # fmt: skip
def test_answers_of_functions_that_are_refused(function: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Explainer(function, np.zeros(4))(ROWS.numpy())


def test_scales_of_functions() -> None:
    logits = body(3)

    def margins(x: Floats) -> Floats:
        return np.asarray(own_answer(logits, torch.as_tensor(x)))

    def chances(x: Floats) -> Floats:
        return np.asarray(torch.as_tensor(margins(x)).softmax(dim=1))

    def found(function: Any, **options: Any) -> Floats:
        return Explainer(function, np.zeros(4), **options)(ROWS.numpy()).predictions

    wanted = torch.as_tensor(chances(ROWS.numpy()))
    own = margins(ROWS.numpy())
    np.testing.assert_allclose(found(margins, scale="probability", returns="margin"), wanted)
    np.testing.assert_allclose(found(margins, scale="log-odds", returns="margin"), log_odds(wanted))
    np.testing.assert_allclose(found(margins, scale="logit", returns="margin"), own)
    np.testing.assert_allclose(
        found(margins, scale="probability", returns="margin", multilabel=True),
        torch.as_tensor(own).sigmoid(),
    )
    np.testing.assert_allclose(found(chances, scale="log-odds"), log_odds(wanted), atol=1e-4)
    np.testing.assert_allclose(found(chances, scale="probability", returns="probability"), wanted)
    np.testing.assert_allclose(found(margins, returns="margin"), own)
    with pytest.raises(
        InputError, match=r"scale='probability': .* say what they are by returns='probability' or"
    ):
        found(margins, scale="probability")
    with pytest.raises(
        ModelError, match=r"scale='log-odds' needs probabilities, .* pass returns='margin' if"
    ):
        found(margins, scale="log-odds")
    with pytest.raises(InputError, match="the model returns probabilities and has no margins"):
        found(chances, scale="margin", returns="probability")


def test_the_options_are_those_of_explain_and_of_a_game_too() -> None:
    net = hidden_softmax()
    options: Any = {"scale": "log-odds", "returns": "probability", "multilabel": False}
    once = explain(net, ROWS, background=ZEROS, budget=16, **options)
    np.testing.assert_allclose(once.predictions, log_odds(own_answer(net)), atol=1e-4)
    with model_game(net, ROWS, background=ZEROS, **options) as game:
        full = game(torch.ones(1, 1, 4, dtype=torch.bool))
    np.testing.assert_allclose(full[:, 0], once.predictions)


def test_what_is_known_of_an_estimator_cannot_be_stated_otherwise() -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    rows = ROWS.numpy()
    classifier = LogisticRegression().fit(rows, rows[:, 0] > 0)
    with pytest.raises(
        InputError,
        match="returns='margin': the model is known to return probabilities; leave returns out",
    ):
        Explainer(classifier, ZEROS.numpy(), returns="margin")(rows)
    plain = Explainer(classifier, ZEROS.numpy(), scale="margin")(rows)
    stated = Explainer(classifier, ZEROS.numpy(), scale="margin", returns="probability")(rows)
    np.testing.assert_array_equal(stated.values, plain.values)

    # nobody knows of a regressor that it was fitted to log-odds, but who fitted it
    line = LinearRegression().fit(rows, rows[:, 0])
    chances = Explainer(line, ZEROS.numpy(), scale="probability", returns="margin")(rows)
    np.testing.assert_allclose(chances.predictions, 1 / (1 + np.exp(-line.predict(rows))))


# No models at all


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear, "model: wanted a model, got the class Linear; pass an instance of it that is fitted or trained"),
        (Calling, "model: wanted a model, got the class Calling; pass an instance"),
        (RandomForestClassifier, "model: wanted a model, got the class RandomForestClassifier; pass an instance"),
        ("model.onnx", "model: wanted a torch.nn.Module, .* got str 'model.onnx'; load the file first"),
        (Path("model.onnx"), r"got \w+Path 'model.onnx'; load the file first"),
        (None, "model: wanted a torch.nn.Module, .* got None"),
        ([nn.Linear(4, 1), nn.Linear(4, 1)], "got list of 2; explain one model after the other"),
        ({"first": nn.Linear(4, 1)}, "got dict of 1; explain one model after the other"),
        ((nn.Linear(4, 1), nn.Linear(4, 1)), "model: the second of a pair is the tokenizer of the model, got Linear"),
        (3.0, "model: wanted a torch.nn.Module, .* got float"),
    ],
)  # fmt: skip
def test_what_is_no_model(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Explainer(model, ZEROS)(ROWS)
