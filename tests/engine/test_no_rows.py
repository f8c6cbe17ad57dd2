"""Zero rows, as an empty partition of a table has: their explanation has the form of any other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from games import Floats, network
from shearshap import METHODS, Conditional, Explainer, Explanation, InputError, importance

ROWS = np.random.default_rng(0).normal(size=(16, 4))
FRAME = pd.DataFrame(ROWS, columns=list("abcd"))
WORTH = ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2]
CLASSES = np.where(WORTH > 0, "yes", "no")
MIXED = FRAME.assign(
    city=np.where(WORTH > 0, "Bern", "Oslo"),
    kind=pd.Categorical(CLASSES),
    day=pd.Timestamp("2026-01-01"),
    id=np.arange(16) + 100,
)

OF_THE_ROWS = {
    "evaluations",
    "derivative_passes",
    "check_evaluations",
    "degrees_of_freedom",
    "calibration",
    "background_rows",
    "notes",
    "row_evaluations",
    "seconds",
}
"""Fields that are of the rows explained, and may be others if there are none."""


def product(x: Any) -> Floats:
    table = np.asarray(x)
    return np.asarray(table[:, 0] * table[:, 1] + table[:, 2])


def in_bern(frame: Any) -> Floats:
    worth: Floats = np.asarray(frame["a"])
    return np.where(np.asarray(frame["city"]).astype(str) == "Bern", worth, 0.0)


def check_is_empty(empty: Explanation, whole: Explanation) -> None:
    """Assert that an explanation of zero rows has the form of that of some."""
    for name, content in vars(whole).items():
        own = getattr(empty, name)
        if isinstance(content, np.ndarray) and (own is not None or name not in OF_THE_ROWS):
            assert own.shape == (0, *content.shape[1:]), name
            assert own.dtype == content.dtype, name
        elif name not in OF_THE_ROWS:
            assert own == content, name
    kinds: list[dict[str, Any]] = [{}, {"wide": True}]
    if whole.interactions is not None:
        kinds.append({"interactions": True})
    for options in kinds:
        for backend in ("polars", "pyarrow"):
            tables = [each.to_frame(backend, **options) for each in (empty, whole)]
            assert tables[0].schema == tables[1].schema
            assert len(tables[0]) == 0
        frames = [each.to_frame(**options) for each in (empty, whole)]
        pd.testing.assert_series_equal(frames[0].dtypes, frames[1].dtypes)
        assert frames[0].index.dtype == frames[1].index.dtype
    for parts in ([empty, whole], [whole, empty], [empty, whole, empty]):
        joined = Explanation.concat(parts)
        np.testing.assert_array_equal(joined.values, whole.values)
        assert vars(joined).keys() == vars(whole).keys()
        assert (joined.evaluations, joined.notes) == (whole.evaluations, whole.notes)
        assert joined.degrees_of_freedom == whole.degrees_of_freedom
        assert (joined.standard_errors is None) == (whole.standard_errors is None)


def check(explainer: Explainer, rows: Any, **call: Any) -> None:
    whole = explainer(rows, **call)
    check_is_empty(explainer(rows[:0], **call), whole)
    (block,) = explainer.stream(rows[:0], **call)
    check_is_empty(block, whole)


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_by_every_method(method: str, outputs: int) -> None:
    def model(x: Floats) -> Floats:
        return product(x) if outputs == 1 else np.stack([product(x), -product(x)], axis=1)

    check(Explainer(model, np.full(4, 9.0), method=method), ROWS)


CALLS: list[dict[str, Any]] = [{}, {"interactions": True}, {"interactions": 3}, {"tol": 0.5}]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "explainer",
    [
        Explainer(product, 0),
        Explainer(product, FRAME),
        Explainer(product, ("kmeans", FRAME, 4)),
        Explainer(product, Conditional(FRAME)),
        Explainer(network(4), ("mean", FRAME)),
        Explainer(RandomForestRegressor(4, random_state=0).fit(FRAME, WORTH), FRAME),
        Explainer(RandomForestClassifier(4, random_state=0).fit(FRAME, CLASSES), FRAME),
        Explainer(LinearRegression().fit(FRAME, WORTH), FRAME),
        Explainer(product, FRAME, groups={"ab": ["a", "b"]}, method="kriging"),
    ],
)
def test_of_every_kind_of_model_and_background(explainer: Explainer, call: dict[str, Any]) -> None:
    check(explainer, FRAME, **call)
    calls: list[int] = []
    prepared = explainer.prepare(FRAME, **call)
    empty = prepared.explain(FRAME[:0], advance=calls.append)
    check_is_empty(empty, prepared.explain(FRAME))
    assert not calls  # an empty partition costs nothing
    assert prepared.explain(FRAME[:0], data=False).data is None


KINDS: list[Callable[[pd.DataFrame], Any]] = [lambda x: x, pl.from_pandas, pa.Table.from_pandas]


@pytest.mark.parametrize("kind", KINDS)
def test_of_frames_with_labels(kind: Callable[[pd.DataFrame], Any], tmp_path: Path) -> None:
    rows = kind(MIXED)
    explainer = Explainer(in_bern, rows, method="leverage")
    whole = explainer(rows, index="id")
    empty = explainer(rows[:0], index="id")
    check_is_empty(empty, whole)
    assert empty.index.dtype == np.int64
    check_is_empty(explainer.prepare(rows, budget=100).explain(rows[:0]), explainer(rows))

    empty.save(tmp_path / "empty.npz")
    check_is_empty(Explanation.load(tmp_path / "empty.npz"), whole)
    assert "0 rows" in str(empty)


def test_of_arrays_tensors_and_several_inputs() -> None:
    check(Explainer(network(4), torch.zeros(4)), torch.from_numpy(ROWS).float())
    images = ROWS.reshape(4, 4, 2, 2)
    masks = np.array([[0, 1], [2, 2]])
    check(Explainer(lambda x: x.sum(axis=(1, 2, 3)), images[:3], groups=masks), images)
    both = (ROWS, ROWS[:, :2])
    explainer = Explainer(lambda one, other: one[:, 0] * other[:, 1], both)
    check_is_empty(explainer((ROWS[:0], ROWS[:0, :2])), explainer(both))


@pytest.mark.parametrize("loss", ["log loss", lambda y, predictions: (predictions - y) ** 2])
def test_of_a_loss(loss: Any) -> None:
    forest = RandomForestClassifier(4, random_state=0).fit(ROWS, CLASSES)
    labels: Any = CLASSES
    model: Any = forest
    if loss != "log loss":
        model, labels = product, WORTH
    explainer = Explainer(model, ROWS[:8], loss=loss)
    check_is_empty(explainer(ROWS[:0], y=labels[:0]), explainer(ROWS, y=labels))
    for given, words in ((None, "expected y="), (labels[:1], "expected 0 labels")):
        with pytest.raises(InputError, match=words):
            explainer(ROWS[:0], y=given)


def test_trees_need_no_background() -> None:
    numbers = RandomForestRegressor(4, random_state=0).fit(FRAME, WORTH)
    check(Explainer(numbers), FRAME)
    check_is_empty(Explainer(numbers).prepare(FRAME).explain(FRAME[:0]), Explainer(numbers)(FRAME))


def test_what_cannot_be_known_is_an_error() -> None:
    for rows, words in (
        (ROWS[:0, :3], r"row of shape \(3,\)"),
        (FRAME[["a"]][:0], "unexpected column 'b'"),
        (np.zeros((0, 0)), r"expected rows and columns, got an array of shape \(0, 0\)"),
    ):
        with pytest.raises(InputError, match=words):
            Explainer(product, FRAME if isinstance(rows, pd.DataFrame) else ROWS)(rows)
    with pytest.raises(InputError, match="Background data is missing"):
        Explainer(product)(ROWS[:0])
    with pytest.raises(InputError, match="expected 0 labels"):
        Explainer(product, ROWS)(ROWS[:0], index=["a"])
    with pytest.raises(InputError, match="expected rows"):
        Explainer(product, ROWS).prepare(ROWS[:0])
    with pytest.raises(InputError, match="expected rows"):
        importance(product, ROWS[:0], WORTH[:0], loss="mse")
