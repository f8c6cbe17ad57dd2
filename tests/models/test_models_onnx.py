"""ONNX Runtime sessions: graphs made here, and networks exported by torch."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from games import Floats
from shearshap import Explainer, InputError, ShearWarning

ROWS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()
ZEROS = np.zeros(4)
WEIGHTS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def predictions(net: Any, **options: Any) -> Floats:
    return Explainer(net, ZEROS, **options)(ROWS.numpy(), budget=16).predictions


def session(nodes: Any, inputs: Any, outputs: Any, domains: tuple[str, ...] = ("",)) -> Any:
    """An ONNX Runtime session of a graph with the weights W (4, 3)."""
    weights = [numpy_helper.from_array(WEIGHTS, "W")]
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    versions = {"": 17, "ai.onnx.ml": 3}
    opsets = [helper.make_opsetid(domain, versions[domain]) for domain in domains]
    model = helper.make_model(made, opset_imports=opsets, ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString())


def tensor(name: str, kind: str, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)


def headed(head: str | None, name: str = "out", rows: Any = None) -> Any:
    """A linear model of three outputs, with or without an activation at its end."""
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
    np.testing.assert_allclose(predictions(net, scale="log-odds"), chances.logit(), atol=1e-4)
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
            predictions(net, scale="log-odds", **options), wanted.logit(), atol=1e-4
        )
    with pytest.raises(InputError, match="returns='margin': the model is known to return prob"):
        predictions(headed("Softmax", "class_probs"), scale="log-odds", returns="margin")


def test_an_onnx_sigmoid_is_doubted_and_a_log_softmax_is_taken_for_margins() -> None:
    with pytest.warns(ShearWarning, match=r"the first of them lie in \[0, 1\]"):
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
        predictions(net, scale="log-odds", returns="probability"), wanted.logit(), atol=1e-4
    )
    with pytest.raises(InputError, match="sum to 1"):
        predictions(net, scale="log-odds")


@pytest.mark.parametrize(
    ("kind", "to"), [("FLOAT16", "FLOAT16"), ("INT64", "FLOAT"), ("DOUBLE", "FLOAT")]
)
def test_onnx_inputs_of_other_types(kind: str, to: str) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "W"], ["z"]),
        helper.make_node("Cast", ["z"], ["out"], to=getattr(TensorProto, to)),
    ]
    net = session(nodes, [tensor("x", kind, [None, 4])], [tensor("out", to, [None, 3])])
    rows = (3 * ROWS).round()
    answer = Explainer(net, ZEROS)(rows.numpy(), budget=16)
    np.testing.assert_allclose(
        answer.predictions, linear(rows), atol=2e-2 if to == "FLOAT16" else 1e-4
    )


def test_onnx_graphs_of_several_inputs_one_of_a_fixed_number_of_rows() -> None:
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


def test_an_onnx_session_of_columns_takes_a_frame() -> None:
    """An input for each column, strings among them, as converted scikit-learn Pipelines have."""
    encoder = helper.make_node(
        "LabelEncoder",
        ["city"],
        ["code"],
        domain="ai.onnx.ml",
        keys_strings=["Rome", "Oslo"],
        values_floats=[3.0, 5.0],
        default_float=-1.0,
    )
    net = session(
        [encoder, helper.make_node("Mul", ["age", "code"], ["logits"])],
        [tensor("age", "FLOAT", [None, 1]), tensor("city", "STRING", [None, 1])],
        [tensor("logits", "FLOAT", [None, 1])],
        ("", "ai.onnx.ml"),
    )
    frame = pd.DataFrame({"city": ["Rome", "Oslo", "Bern"], "age": [2.0, 4.0, 1.0]})
    answer = Explainer(net, frame[2:])(frame[:2])
    assert answer.feature_names == ["city", "age"]
    np.testing.assert_allclose(answer.predictions, [6, 20])
    np.testing.assert_allclose(answer.base_values, -1)
    np.testing.assert_allclose(answer.values, [[6, 1], [15, 6]])


def test_an_onnx_session_of_whole_numbers_takes_no_others() -> None:
    cast = helper.make_node("Cast", ["x"], ["probs"], to=TensorProto.FLOAT)
    net = session([cast], [tensor("x", "UINT8", [None, 2])], [tensor("probs", "FLOAT", [None, 2])])
    rows = np.array([[1, 2], [3, 5], [3, 2]])
    np.testing.assert_allclose(Explainer(net, ("mode", rows))(rows).base_values, [[3, 2]] * 3)
    with pytest.raises(InputError, match=r"input 'x' takes integers, .* try \('mode', rows\)"):
        Explainer(net, ("mean", rows))(rows)
    with pytest.raises(InputError, match="the model returns probabilities and has no margins"):
        Explainer(net, ("mode", rows), scale="margin")(rows)


# Exported networks


def exported(network: nn.Module, example: tuple[Any, ...], folder: Any) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    rows = torch.export.Dim("rows")
    shapes = tuple({0: rows} for _ in example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            example,
            folder / "net.onnx",
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
        )
    return onnxruntime.InferenceSession(folder / "net.onnx")


class Pair(nn.Module):
    """Two inputs: indices and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(5, 2), nn.Linear(7, 3)

    def forward(self, indices: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.head(torch.cat((self.table(indices).flatten(1), numbers), dim=1)))


@pytest.mark.slow
def test_onnx_sessions_of_one_and_several_inputs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 3))
    net = exported(network, (ROWS[:2].float(),), tmp_path)
    for scale in (None, "probability", "log-odds"):
        wanted = predictions(network, scale=scale)
        np.testing.assert_allclose(predictions(net, scale=scale), wanted, atol=1e-5)

    pair = Pair()
    indices = np.random.default_rng(0).integers(0, 5, (6, 2))
    numbers = ROWS[:, :3].float()
    net = exported(pair, (torch.tensor(indices[:2]), numbers[:2]), tmp_path)
    rows = (indices, numbers.numpy())
    background = (np.zeros(2, dtype=int), np.zeros(3, dtype=np.float32))
    ours, theirs = (Explainer(model, background)(rows) for model in (pair, net))
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)
