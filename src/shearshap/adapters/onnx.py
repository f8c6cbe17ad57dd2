"""ONNX Runtime sessions: one array, or one for each of several inputs, such as the columns of a frame."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.adapters.adapted import Adapted
from shearshap.adapters.outputs import Form, Scale
from shearshap.errors import InputError

TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(string)": np.object_,
}  # fmt: skip


def session(model: Any, _scale: Scale | None) -> Adapted:
    """Tell how to ask an `InferenceSession`: for its probabilities if an output is named so, else its first numbers."""
    inputs, chosen = model.get_inputs(), _output(model)
    names = tuple(one.name for one in inputs)

    def ask(rows: Any) -> Any:
        given = _parts(rows, names)
        typed: list[Any] = [np.asarray(part, TYPES[one.type]) for one, part in zip(inputs, given, strict=True)]
        return _numbers(model.run([chosen.name], dict(zip(names, typed, strict=True)))[0])

    form: Form = "probability" if "prob" in chosen.name.lower() else "margin"
    return Adapted(ask, form=form, feature_names=names if len(names) > 1 else (), takes_frames=len(names) > 1)


def _parts(rows: Any, names: tuple[str, ...]) -> list[Any]:
    """Return one array for each input: the rows, the parts of a tuple, or the columns (n, 1) of a frame."""
    if nw.dependencies.is_into_dataframe(rows):
        frame = nw.from_native(rows, eager_only=True)
        return [frame[name].to_numpy()[:, None] for name in names]
    return list(rows) if isinstance(rows, tuple) else [rows]


def _output(model: Any) -> Any:
    """Return the output to explain: one named as probabilities, else the first of floating numbers."""
    outputs = model.get_outputs()
    named = [one for one in outputs if "prob" in one.name.lower()]
    floating = [one for one in outputs if one.type in ("tensor(float)", "tensor(double)", "tensor(float16)")]
    if not named and not floating:
        kinds = ", ".join(f"{one.name}: {one.type}" for one in outputs)
        raise InputError(f"model: the ONNX model has no output of floating numbers, only {kinds}")
    return (named or floating)[0]


def _numbers(answer: Any) -> Any:
    """Return an array; a converted classifier may give a dict of probabilities for each row."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer])
    return answer
