"""ONNX Runtime sessions: one array, or one for each input, such as the columns of a frame."""

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.models.base import AdaptedModel, Certainty, Form, Scale

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

_FLOATS: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
}

#: The numpy type of every kind of input.
TYPES: dict[str, Any] = {
    **_FLOATS,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
    **{f"tensor({name})": np.dtype(name) for name in _INTEGERS},
}


def session(model: Any, _scale: Scale | None) -> AdaptedModel:
    """Adapt an `InferenceSession`, by its output of probabilities or its first of numbers."""
    inputs = model.get_inputs()
    output = _output(model)
    for node in inputs:
        if node.type not in TYPES:
            raise InputError(
                f"model: the ONNX model's input {node.name!r} is a {node.type}, which is not "
                "supported"
            )

    names = tuple(node.name for node in inputs)
    sizes = [node.shape[0] for node in inputs if node.shape]
    batch_size = next((size for size in sizes if isinstance(size, int)), None)  # None: any

    def run(feed: dict[str, Any]) -> NDArray[Any]:
        return _numbers(model.run([output.name], feed)[0])

    def call(rows: Any) -> Any:
        arrays = _arrays(rows, names)
        feed = {node.name: _typed(node, part) for node, part in zip(inputs, arrays, strict=True)}
        if batch_size is None:
            return run(feed)
        return _in_batches(run, feed, batch_size)

    form: Form = "probability" if _is_probability(output) else "margin"
    certainty: Certainty = "known" if form == "probability" else "assumed"
    has_columns = len(names) > 1
    return AdaptedModel(
        call,
        form=form,
        certainty=certainty,
        feature_names=names if has_columns else (),
        takes_frames=has_columns,
    )


def _in_batches(
    run: Callable[[dict[str, Any]], NDArray[Any]], feed: dict[str, Any], size: int
) -> NDArray[Any]:
    """Run a session that takes `size` rows at once; the last batch repeats the last row."""
    count = len(next(iter(feed.values())))
    outputs = []
    for start in range(0, count, size):
        rows = np.arange(start, start + size).clip(max=count - 1)
        outputs.append(run({name: part[rows] for name, part in feed.items()}))
    return np.concatenate(outputs)[:count]


def _arrays(rows: Any, names: tuple[str, ...]) -> list[Any]:
    """Return one array for each input: the rows, the items of a tuple, or a frame's columns."""
    if nw.dependencies.is_into_dataframe(rows):
        frame = nw.from_native(rows, eager_only=True)
        return [frame[name].to_numpy()[:, None] for name in names]
    return list(rows) if isinstance(rows, tuple) else [rows]


def _typed(node: Any, part: Any) -> NDArray[Any]:
    """Return an array in the type and number of dimensions that an input takes."""
    array = np.asarray(part)
    is_column = array.ndim == 2 and len(node.shape) == 1
    if is_column:
        array = array[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
        typed = array.astype(TYPES[node.type])

    is_narrower = typed.dtype.kind == "f" and array.dtype.kind == "f"
    if is_narrower and bool((np.isinf(typed) & np.isfinite(array)).any()):
        raise InputError(
            f"the model's input {node.name!r} takes {typed.dtype}, but the rows or the background "
            "hold numbers too large for it"
        )
    is_rounded = typed.dtype.kind in "iu" and array.dtype.kind == "f"
    if is_rounded and not np.array_equal(typed, array):
        raise InputError(
            f"the model's input {node.name!r} takes integers, but the rows or the background hold "
            "other numbers; for the background try ('mode', rows)"
        )
    return typed


def _output(model: Any) -> Any:
    """Return the output to explain: one named as probabilities, or the first of numbers."""
    outputs = model.get_outputs()
    probabilities = [node for node in outputs if _is_probability(node)]
    floats = [node for node in outputs if node.type in _FLOATS]
    maps = [node for node in outputs if _is_map(node)]
    candidates = probabilities + floats + maps
    if not candidates:
        kinds = ", ".join(f"{node.name}: {node.type}" for node in outputs)
        raise InputError(
            f"model: the ONNX model has no output of floating-point numbers, only {kinds}"
        )
    return candidates[0]


def _is_probability(node: Any) -> bool:
    """Return whether an output is named as probabilities, and not as their logarithms."""
    name = node.name.lower()
    is_number = node.type in _FLOATS or _is_map(node)
    return is_number and "prob" in name and "log" not in name


def _is_map(node: Any) -> bool:
    """Return whether an output is a list of dicts of numbers, as converted classifiers make."""
    is_of_numbers = node.type.endswith(("tensor(float)))", "tensor(double)))"))
    return bool(is_of_numbers and node.type.startswith("seq(map("))


def _numbers(output: Any) -> NDArray[Any]:
    """Return an array; some converted classifiers return a dict of probabilities for each row."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        return np.array([list(row.values()) for row in output])
    return np.asarray(output)
