"""ONNX Runtime sessions: one array, or one for each of several inputs, such as the columns of a
frame.
"""

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.adapters.adapted import AdaptedModel
from shearshap.adapters.outputs import Form, Scale
from shearshap.errors import InputError

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES: dict[str, Any] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_, "tensor(string)": np.object_, **{f"tensor({name})": np.dtype(name) for name in WHOLE},
}  # fmt: skip
"""The numpy type of every kind of input."""


def session(model: Any, _scale: Scale | None) -> AdaptedModel:
    """Tell how to ask an `InferenceSession`: for its probabilities if an output is named so, else
    its first numbers.
    """
    inputs, chosen = model.get_inputs(), _output(model)
    names = tuple(one.name for one in inputs)
    odd = [one for one in inputs if one.type not in TYPES]
    if odd:
        raise InputError(
            f"model: the ONNX model's input {odd[0].name!r} is a {odd[0].type}, which is not "
            "supported"
        )
    fixed = inputs[0].shape[0] if inputs[0].shape and isinstance(inputs[0].shape[0], int) else None

    def run(feed: dict[str, Any]) -> NDArray[Any]:
        return _numbers(model.run([chosen.name], feed)[0])

    def ask(rows: Any) -> Any:
        given = _parts(rows, names)
        feed = {one.name: _typed(one, part) for one, part in zip(inputs, given, strict=True)}
        return run(feed) if fixed is None else _in_batches(run, feed, fixed)

    form: Form = "probability" if "prob" in chosen.name.lower() else "margin"
    return AdaptedModel(
        ask, form=form, feature_names=names if len(names) > 1 else (), takes_frames=len(names) > 1
    )


def _in_batches(
    run: Callable[[dict[str, Any]], NDArray[Any]], feed: dict[str, Any], size: int
) -> NDArray[Any]:
    """Run a session of a fixed number of rows as often as it takes; the last batch is filled up."""
    count = len(next(iter(feed.values())))
    places = [np.arange(start, start + size).clip(max=count - 1) for start in range(0, count, size)]
    found = [run({name: part[place] for name, part in feed.items()}) for place in places]
    return np.concatenate(found)[:count]


def _parts(rows: Any, names: tuple[str, ...]) -> list[Any]:
    """Return one array for each input: the rows, the parts of a tuple, or the columns of a frame."""
    if nw.dependencies.is_into_dataframe(rows):
        frame = nw.from_native(rows, eager_only=True)
        return [frame[name].to_numpy()[:, None] for name in names]
    return list(rows) if isinstance(rows, tuple) else [rows]


def _typed(one: Any, part: Any) -> NDArray[Any]:
    """Return an array as an input takes it: in its type, and without the axis of columns where it
    has none.
    """
    array = np.asarray(part)
    array = array[:, 0] if len(one.shape) == 1 and array.ndim == 2 else array
    typed = array.astype(TYPES[one.type])
    if typed.dtype.kind in "iu" and array.dtype.kind == "f" and not np.array_equal(typed, array):
        raise InputError(
            f"the model's input {one.name!r} takes whole numbers, and rows or background hold "
            "others; "
            "for the background try ('mode', rows)"
        )
    return typed


def _output(model: Any) -> Any:
    """Return the output to explain: one named as probabilities, else the first of floating numbers."""
    outputs = model.get_outputs()
    named = [one for one in outputs if "prob" in one.name.lower()]
    floating = [
        one for one in outputs if one.type in ("tensor(float)", "tensor(double)", "tensor(float16)")
    ]
    if not named and not floating:
        kinds = ", ".join(f"{one.name}: {one.type}" for one in outputs)
        raise InputError(f"model: the ONNX model has no output of floating numbers, only {kinds}")
    return (named or floating)[0]


def _numbers(answer: Any) -> NDArray[Any]:
    """Return an array; a converted classifier may give a dict of probabilities for each row."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer])
    return np.asarray(answer)
