"""Arrays and tensors reach the model in their own type, or in one that they share with the background."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from games import Floats
from shearshap import Explainer, InputError, ShearWarning
from shearshap.data import encode
from shearshap.models import AdaptedModel, adapted_model

TABLE = np.array([[1, 2], [3, 5], [4, 9]])
ID = 1 << 53
IDS = np.array([[ID + 1, 1], [(1 << 62) + 3, 2], [-(1 << 60) - 1, 4]])


def digits(x: Any) -> Floats:
    """A model that tells numbers apart by every digit, and arrays by their kind of number."""
    return np.array([sum(map(ord, f"{x.dtype.kind} {row.tolist()}")) for row in x]) * 1.0


@pytest.mark.parametrize("background", ["mode", "rows", "zero"])
@pytest.mark.parametrize("dtype", [*"bilBQefd?", ">i4", ">f8"])
def test_arrays_of_every_type_reach_the_model_as_they_are(dtype: str, background: str) -> None:
    rows = TABLE.astype(dtype)
    absent: Any = {"mode": ("mode", rows), "rows": rows[:2], "zero": 0}[background]
    seen = []

    def model(x: Any) -> Floats:
        seen.append(x.dtype)
        return digits(x)

    for given in (rows, np.asfortranarray(rows)):
        answer = Explainer(model, absent)(given, budget=64)
        np.testing.assert_allclose(answer.predictions, digits(rows))
    assert set(seen) == {rows.dtype.newbyteorder("="), rows.dtype}


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("background", [("mean", TABLE[:2]), np.array([0.25, 1])])
def test_integers_beside_other_numbers_become_floats(dtype: Any, background: Any) -> None:
    rows = (TABLE % 7).astype(dtype)
    if isinstance(background, tuple):
        absent = background[1].astype(dtype)
        expected = absent.mean(axis=0)
        background = ("mean", absent)
    else:
        expected = background
    answer = Explainer(lambda x: x @ [1.0, 10], background)(rows)
    assert answer.notes == ()
    np.testing.assert_allclose(answer.values, (rows - expected) * [1, 10])


def test_a_model_that_takes_floats_alone_gets_them() -> None:
    def model(x: Any) -> Any:
        assert x.dtype.kind == "f"
        return x.sum(axis=1)

    with pytest.warns(ShearWarning, match="fails on the rows themselves, but not on mixes"):
        answer = Explainer(model, ("mean", TABLE))(TABLE)
    np.testing.assert_allclose(answer.values, TABLE - TABLE.mean(axis=0))


def test_objects_become_floats() -> None:
    rows = np.array([[1, 0.5], [True, 7], [Decimal("0.5"), 3]], dtype=object)
    answer = Explainer(lambda x: x.astype(float) @ [1.0, 10], ("mean", TABLE))(rows)
    np.testing.assert_allclose(
        answer.values, (rows.astype(float) - TABLE.mean(axis=0)) * [1, 10], atol=1e-9
    )
    assert answer.check_evaluations == 3 * len(rows)
    with pytest.warns(ShearWarning, match="the rows' type object becomes float64"):
        Explainer(lambda x: np.array([float(isinstance(row[0], int)) for row in x]), 0)(rows)


def test_a_wider_integer_does_not_overflow() -> None:
    rows = TABLE.astype(np.int8)
    answer = Explainer(lambda x: x.astype(float).sum(axis=1), np.array([1000, -1000]))(rows)
    np.testing.assert_allclose(answer.values, TABLE - [1000, -1000])


# Integers that floating numbers cannot hold


@pytest.mark.parametrize("background", ["mode", "rows", "zero", "whole"])
def test_large_integers_are_exact(background: str) -> None:
    absent: Any = {"rows": IDS[:2], "zero": 0, "whole": np.array([3.0, 1.0])}
    answer = Explainer(digits, absent.get(background, (background, IDS)))(IDS)
    np.testing.assert_allclose(answer.predictions, digits(IDS))
    largest = np.array([[2**64 - 1], [2**64 - 1]], dtype=np.uint64)
    inputs = encode(largest, ("mode", largest), None, AdaptedModel(digits))
    assert inputs.decode(inputs.background).tolist() == [[2**64 - 1]]


@pytest.mark.parametrize("background", [("mean", IDS), ("median", IDS), np.array([0.5, 1])])
@pytest.mark.parametrize("kind", ["array", "tensor", "tuple"])
def test_large_integers_beside_floats_are_refused(background: Any, kind: str) -> None:
    rows: Any = {"array": IDS, "tensor": torch.tensor(IDS), "tuple": (IDS, IDS)}[kind]
    absent = (background, background) if kind == "tuple" else background
    message = r"integers beyond 2\^53, which floats cannot hold exactly; pass rows and"
    if not isinstance(background, tuple) and kind != "array":
        message = "integer rows need an integer background"
    with pytest.raises(InputError, match=f"^background: .*{message}"):
        Explainer(lambda *parts: digits(parts[0]), absent)(rows)


# Precision, tensors and modules


@pytest.mark.parametrize("background", ["mean", "median", "mode", "doubles"])
def test_single_precision_stays_single(background: str) -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    absent = rows[:2].astype(np.float64) if background == "doubles" else (background, rows)

    def model(x: Any) -> Any:
        return net(torch.from_numpy(x)).detach().numpy()

    answer = Explainer(model, absent)(rows)
    np.testing.assert_allclose(answer.predictions, model(rows)[:, 0], atol=1e-6)

    def of_pandas(frame: pd.DataFrame) -> Any:
        return model(frame.to_numpy().copy())

    frame = pd.DataFrame(rows, columns=list("abc"))
    given = frame[:2].astype(np.float64) if background == "doubles" else (background, frame)
    same = Explainer(of_pandas, given)(frame)
    np.testing.assert_allclose(same.values, answer.values, atol=1e-6)
    of_tensors = Explainer(lambda x: net(x), absent)(torch.tensor(rows))
    np.testing.assert_allclose(of_tensors.values, answer.values, atol=1e-6)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool],
)  # fmt: skip
@pytest.mark.parametrize("background", ["mode", "rows", "zero"])
def test_a_function_gets_tensors_for_tensors(dtype: torch.dtype, background: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == dtype
        return x.double().sum(dim=1)

    rows = torch.tensor(TABLE).to(dtype)
    absent: Any = {"mode": ("mode", rows), "rows": rows[:1], "zero": 0}[background]
    answer = Explainer(model, absent)(rows)
    np.testing.assert_allclose(answer.predictions, model(rows))


def test_a_function_of_several_inputs_gets_each_as_it_was_given() -> None:
    def model(x: Any, y: Any) -> Floats:
        assert isinstance(x, torch.Tensor)
        assert x.dtype == torch.float32
        return np.asarray(x[:, 0]) + digits(y)

    rows = (torch.tensor(TABLE).float(), TABLE)
    np.testing.assert_allclose(Explainer(model, 0)(rows).predictions, model(*rows))


def test_an_estimator_gets_arrays_for_tensors() -> None:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(TABLE, TABLE[:, 0])
    rows = torch.tensor(TABLE).float()
    answer = Explainer(model, ("mean", rows))(rows)
    np.testing.assert_allclose(answer.predictions, TABLE[:, 0], atol=1e-6)
    with pytest.raises(
        InputError, match=r"takes numpy arrays, which cannot be torch.bfloat16; pass"
    ):
        Explainer(model, 0)(rows.bfloat16())


def test_modules_get_what_they_take() -> None:
    net = nn.Linear(2, 1).double()
    answer = Explainer(net, ("mean", TABLE))(TABLE)
    adapted = adapted_model(net, torch.device("cpu"))
    first = encode(TABLE, ("mean", TABLE), None, adapted).original_rows(slice(2))
    assert first.dtype == torch.float64
    np.testing.assert_allclose(answer.predictions[:2], net(first).detach()[:, 0])


def test_a_background_of_bfloat16_beside_integers() -> None:
    """numpy has no such type, and takes it in double precision."""
    background = torch.full((1, 2), 0.5, dtype=torch.bfloat16)
    answer = Explainer(lambda x: x.sum(axis=1), background)(np.array([[1, 2]]))
    np.testing.assert_allclose(answer.values, [[0.5, 1.5]])
