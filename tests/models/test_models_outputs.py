"""What functions and modules may return, its scales, and what is no model at all."""

import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.special import expit, logit, softmax
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

from games import Floats
from shearshap import Explainer, InputError, ModelError
from shearshap.models import KINDS

ROWS = np.random.default_rng(0).normal(size=(6, 4))
ZEROS = np.zeros(4)


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
    "Series": (lambda x: pd.Series(total(x), index=[f"row {i}" for i in range(len(x))]), total),
    "frame": (lambda x: pd.DataFrame(first_two(x), columns=["a", "b"]), first_two),
    "polars": (lambda x: pl.DataFrame(first_two(x)), first_two),
    "tensor that requires gradients": (differentiable, total),
    "column": (lambda x: total(x)[:, None], total),
    "bools": (lambda x: x[:, 0] > 0, lambda x: x[:, 0] > 0),
    "ints": (lambda x: (10 * x[:, 0]).astype(int), lambda x: (10 * x[:, 0]).astype(int)),
    "objects": (lambda x: total(x).astype(object), total),
    "sparse matrix": (lambda x: csr_matrix(first_two(x)), first_two),
    "reversed": (lambda x: x[:, ::-1], lambda x: x[:, ::-1]),
    "read-only": (lambda x: np.broadcast_to(3.0, x.shape), lambda x: np.full(x.shape, 3.0)),
    "in columns": (np.asfortranarray, np.array),
    "writes into its input": (
        lambda x: np.multiply(x, 2, out=x).sum(axis=1),
        lambda x: 2 * total(x),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_functions(name: str) -> None:
    function, wanted = ANSWERS[name]
    rows = ROWS.copy()
    answer = Explainer(function, ZEROS)(rows)
    np.testing.assert_allclose(answer.predictions, wanted(ROWS), rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(rows, ROWS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.where(x[:, 0] > 0, "yes", "no"), "returned <U3 such as (yes|no)"),
        (
            lambda x: pd.DataFrame({"label": ["yes"] * len(x)}),
            "returned (object|<U3|str) such as yes",
        ),
        (
            lambda x: x.sum(),
            r"returned shape \(\) for \d+ rows, a single number; expected one per row",
        ),
        (lambda _: 3, r"returned shape \(\) for \d+ rows, a single number"),
        (lambda x: x.sum(axis=1) * 1j, "returned complex128"),
        (lambda x: x[:, 0].astype("datetime64[s]"), "returned datetime64"),
        (lambda x: (x[:, 0], x[:, 1]), "returned a tuple, .* for the first of its 2"),
        (lambda x: [first_two(x), first_two(x)], "returned a list, which is not an array"),
        (lambda _: None, "returned a NoneType"),
        (lambda x: x.sum(axis=0), r"returned shape \(4,\) for \d+ rows"),
    ],
)
def test_answers_of_functions_that_are_refused(function: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Explainer(function, ZEROS)(ROWS)


@dataclass
class Record:
    score: Any
    other: int = 0


Named = namedtuple("Named", ["score", "other"])


@pytest.mark.parametrize(
    ("after", "output"),
    [
        (lambda y: (y, y), lambda y: y[0]),
        (lambda y: [y, y], lambda y: y[1]),
        (lambda y: {"score": y, "other": y}, lambda y: y["score"]),
        (Record, lambda y: y.score),
        (lambda y: Named(y, 1), lambda y: y.score),
        (lambda y: y * 1j, lambda y: y.imag),
        (lambda y: y[:, None], lambda y: y[:, 0]),
    ],
)
def test_answers_that_need_a_function_to_be_read(after: Any, output: Any) -> None:
    def function(x: Floats) -> Any:
        return after(first_two(x))

    with pytest.raises(ModelError, match=r"(p|P)ass output= a function"):
        Explainer(function, ZEROS)(ROWS)
    answer = Explainer(function, ZEROS, output=output)(ROWS)
    np.testing.assert_allclose(answer.predictions, first_two(ROWS))


def test_scales_of_functions() -> None:
    def margins(x: Floats) -> Floats:
        return np.stack((x[:, 0] * x[:, 1], x.sum(axis=1), 2 * x[:, 2]), axis=1)

    def chances(x: Floats) -> Floats:
        return np.asarray(softmax(margins(x), axis=1))

    def found(function: Any, **options: Any) -> Floats:
        return Explainer(function, ZEROS, **options)(ROWS).predictions

    own = margins(ROWS)
    wanted = chances(ROWS)
    odds = logit(wanted)
    np.testing.assert_allclose(found(margins, scale="probability", returns="margin"), wanted)
    np.testing.assert_allclose(found(margins, scale="log-odds", returns="margin"), odds)
    np.testing.assert_allclose(found(margins, scale="logit", returns="margin"), own)
    labels = found(margins, scale="probability", returns="margin", multilabel=True)
    np.testing.assert_allclose(labels, expit(own))
    np.testing.assert_allclose(found(chances, scale="log-odds"), odds, atol=1e-4)
    np.testing.assert_allclose(found(chances, scale="probability", returns="probability"), wanted)
    np.testing.assert_allclose(found(margins, returns="margin"), own)
    with pytest.raises(
        InputError, match="pass returns='probability' or returns='margin' to say what they are, or"
    ):
        found(margins, scale="probability")
    with pytest.raises(ModelError, match="scale='log-odds' needs probabilities"):
        found(margins, scale="log-odds")
    with pytest.raises(InputError, match="the model returns probabilities and has no margins"):
        found(chances, scale="margin", returns="probability")


# No models at all


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            nn.Linear,
            "model: expected a model, got the class Linear; pass a fitted or trained instance",
        ),
        (
            RandomForestClassifier,
            "got the class RandomForestClassifier; pass a fitted or trained instance",
        ),
        ("model.onnx", "model: expected a torch.nn.Module, .* got str 'model.onnx'; load the file"),
        (Path("model.onnx"), r"got \w+Path 'model.onnx'; load the file first"),
        (None, "model: expected a torch.nn.Module, .* got NoneType"),
        ([nn.Linear(4, 1), nn.Linear(4, 1)], "got list"),
        ({"first": nn.Linear(4, 1)}, "got dict"),
        ((nn.Linear(4, 1), nn.Linear(4, 1)), "with its tokenizer, .* got tuple of Linear, Linear"),
        (3.0, "model: expected a torch.nn.Module, .* got float"),
    ],
)
def test_what_is_no_model(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Explainer(model, ZEROS)(ROWS)


@pytest.mark.slow
def test_no_library_is_imported_before_a_model_of_it_is_given() -> None:
    code = (
        "import sys, numpy as np, shearshap\n"
        "shearshap.Explainer(lambda x: x.sum(axis=1), np.zeros(3))(np.ones((2, 3)))\n"
        f"print([name for name in {[*KINDS, 'transformers', 'pandas', 'polars', 'shap', 'captum', 'shapiq', 'matplotlib']} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
