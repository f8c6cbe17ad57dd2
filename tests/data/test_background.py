"""What a user passes as a background, and which rows it becomes."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shearshap import Conditional, Explainer, ShearWarning
from shearshap.data import Inputs, encode
from shearshap.models import AdaptedModel

MANY = np.random.default_rng(0).normal(size=(500, 3))
PEOPLE = pd.DataFrame(
    {
        "age": np.arange(500) % 90,
        "city": np.array(["Rome", "Oslo", "Bern"])[np.arange(500) % 3],
        "height": MANY[:, 0],
    }
)


def encoded(background: Any, rows: Any = MANY, seed: int = 0) -> Inputs:
    return encode(rows, background, None, AdaptedModel(lambda x: x), seed=seed)


def table_of(inputs: Inputs) -> NDArray[Any]:
    """Return the background as the model sees it, side by side, (b, d)."""
    seen = inputs.decode(inputs.background.reshape(-1, *inputs.shape))
    if isinstance(seen, tuple):
        return np.concatenate([np.asarray(part) for part in seen], axis=1)
    return np.asarray(seen)


def are_some_of(chosen: NDArray[Any], rows: Any) -> bool:
    """Return whether rows are different rows of others."""
    chosen_rows = [tuple(row) for row in chosen.tolist()]
    every = {tuple(row) for row in np.asarray(rows).tolist()}
    return len(set(chosen_rows)) == len(chosen_rows) and set(chosen_rows) <= every


@pytest.mark.parametrize("rows", [MANY, torch.from_numpy(MANY), PEOPLE, pl.from_pandas(PEOPLE)])
def test_without_a_background_rows_are_compared_with_a_sample_of_their_own(rows: Any) -> None:
    inputs = encoded(None, rows)
    assert len(inputs.background) == 100
    assert are_some_of(table_of(inputs), rows)
    assert inputs.background_description == "100 of the 500 rows explained, drawn at random"
    (note,) = inputs.notes
    assert note == (
        "No background was given, so features are compared with 100 of the 500 rows explained. "
        "Pass Explainer(model, X_train) to choose."
    )


def test_all_rows_are_the_sample_if_they_are_few() -> None:
    inputs = encoded(None, MANY[:7])
    np.testing.assert_array_equal(inputs.background, MANY[:7])
    assert inputs.background_description == "the 7 rows explained"


def test_the_note_stays_with_the_explanation() -> None:
    explanation = Explainer(lambda x: x.sum(axis=1))(MANY[:20])
    (note,) = explanation.notes
    assert note.startswith("No background was given")
    np.testing.assert_allclose(explanation.values, MANY[:20] - MANY[:20].mean(axis=0), atol=1e-9)


def test_several_inputs_are_compared_with_the_same_rows() -> None:
    rows = (MANY[:, :2], np.arange(500)[:, None])
    inputs = encoded(None, rows)
    numbers = inputs.background[:, 2].long()
    np.testing.assert_array_equal(inputs.background[:, :2], MANY[numbers, :2])


# The rows that are chosen


def forms(kind: str) -> tuple[Any, Any]:
    """Return 500 rows of a kind, and 5 rows to explain."""
    every: Any = {
        "array": MANY,
        "tensor": torch.from_numpy(MANY),
        "pandas": PEOPLE,
        "polars": pl.from_pandas(PEOPLE),
        "pyarrow": pa.Table.from_pandas(PEOPLE),
        "tuple": (MANY[:, :2], MANY[:, 2:]),
    }[kind]
    if kind == "tuple":
        return every, tuple(part[:5] for part in every)
    return every, every[:5]


KINDS = ["array", "tensor", "pandas", "polars", "pyarrow", "tuple"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("choice", "count", "description"),
    [
        ((None,), 100, "100 of 500 background rows, drawn at random"),
        (("sample",), 100, "100 of 500 background rows, drawn at random"),
        (("sample", 7), 7, "7 of 500 background rows, drawn at random"),
        (("sample", 900), 500, "500 background rows"),
        (("all",), 500, "500 background rows"),
        (("kmeans", 8), 8, "8 of 500 background rows, chosen by k-means"),
        (("mode",), 1, "the mode of 500 rows"),
    ],
)
def test_every_form_for_every_kind_of_rows(
    kind: str, choice: tuple[Any, ...], count: int, description: str
) -> None:
    every, explained = forms(kind)
    background = every if choice[0] is None else (choice[0], every, *choice[1:])
    inputs = encoded(background, explained)
    assert len(inputs.background) == count
    assert inputs.background_description == description
    is_silent = choice[0] in ("sample", "all", "kmeans")
    assert bool(inputs.notes) != is_silent or choice[0] == "mode"
    if choice[0] != "mode":
        whole = MANY if kind in ("array", "tensor", "tuple") else PEOPLE
        assert are_some_of(table_of(inputs), whole)
    if choice[0] == "kmeans":
        assert inputs.weights is not None
        assert inputs.weights.sum() == pytest.approx(1)
        assert (inputs.weights > 0).all()
    else:
        assert inputs.weights is None


@settings(max_examples=10)
@given(rows=st.integers(101, 400), count=st.integers(1, 100), seed=st.integers(0, 2**32))
def test_a_sample_depends_on_the_rows_and_the_seed_alone(rows: int, count: int, seed: int) -> None:
    table = np.arange(rows, dtype=float)[:, None]
    drawn = encoded(("sample", table, count), MANY[:3, :1], seed).background
    again = encoded(("sample", table, count), MANY[:50, :1] + 1, seed).background
    assert torch.equal(drawn, again)
    chosen = drawn[:, 0]
    assert len(chosen.unique()) == count
    assert torch.equal(chosen, chosen.sort().values)
    assert set(chosen.tolist()) <= set(range(rows))


def test_another_seed_is_another_sample() -> None:
    samples = [encoded(MANY, MANY[:3], seed).background for seed in (0, 0, 1)]
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[0], samples[2])


def test_every_row_is_drawn_equally_often() -> None:
    table = np.arange(120.0)[:, None]
    drawn = [encoded(("sample", table, 30), MANY[:1, :1], seed).background for seed in range(400)]
    counts = np.bincount(torch.cat(drawn).flatten().long().numpy(), minlength=120)
    assert (np.abs(counts - 100) < 5 * np.sqrt(100 * 0.75)).all()


def test_a_large_background_is_a_sample_and_says_so() -> None:
    explainer = Explainer(lambda x: x.sum(axis=1), MANY)
    (note,) = explainer(MANY[:3]).notes
    assert note == (
        "The background is 100 of the 500 rows passed, drawn at random. Pass ('sample', X_train, "
        "n) or ('all', X_train) to choose."
    )


def test_clusters_are_found_and_weighted_by_their_size() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    centres = np.array([[0.0, 0], [10, 0], [0, 10]])
    table = centres[codes] + 0.1 * rng.normal(size=(100, 2))
    inputs = encoded(("kmeans", table, 3), table[:2])
    own = [int(np.abs(centres - row).sum(axis=1).argmin()) for row in inputs.background.numpy()]
    assert sorted(own) == [0, 1, 2]
    assert inputs.weights is not None
    np.testing.assert_allclose(inputs.weights, np.array([0.5, 0.3, 0.2])[own])


def test_clusters_of_a_frame_see_its_categories() -> None:
    frame = pd.DataFrame({"city": ["Rome"] * 60 + ["Oslo"] * 40, "flag": [True] * 100})
    inputs = encoded(("kmeans", frame, 2), frame[:2])
    assert inputs.weights is not None
    cities = np.asarray(inputs.decode(inputs.background)["city"]).tolist()
    assert dict(zip(cities, inputs.weights, strict=True)) == {"Rome": 0.6, "Oslo": 0.4}


def test_a_value_is_the_weighted_mean_over_clusters() -> None:
    inputs = encoded(("kmeans", MANY, 5), MANY[:4])
    explanation = Explainer(lambda x: x.sum(axis=1), ("kmeans", MANY, 5))(MANY[:4])
    assert inputs.weights is not None
    centre = inputs.weights @ inputs.background.numpy()
    np.testing.assert_allclose(explanation.values, MANY[:4] - centre, atol=1e-9)


def test_every_cluster_has_a_row_of_its_own() -> None:
    """Near the middle of many columns, one row may be the nearest to several centres."""
    table = np.random.default_rng(0).normal(size=(2000, 30))
    assert len(encoded(("kmeans", table, 20), table[:2]).background) == 20


def test_equal_rows_are_fewer_clusters() -> None:
    inputs = encoded(("kmeans", np.ones((50, 3)), 5), MANY[:2])
    assert inputs.background.tolist() == [[1, 1, 1]]
    np.testing.assert_array_equal(inputs.weights, [1.0])


def test_prepared_options_keep_the_rows_and_their_weights() -> None:
    def model(x: NDArray[Any]) -> Any:
        return x[:, 0] * x[:, 1] + x[:, 2]

    for background in (("kmeans", MANY, 5), ("all", MANY), ("sample", MANY, 9)):
        explainer = Explainer(model, background)
        whole = explainer(MANY[:6])
        prepared = explainer.prepare(MANY[:20])
        again = Explainer(**vars(prepared.options))(MANY[:6])
        for answer in (prepared.explain(MANY[:6]), again):
            np.testing.assert_allclose(answer.values, whole.values, atol=1e-9)


def test_several_inputs_are_prepared() -> None:
    def model(first: NDArray[Any], second: NDArray[Any]) -> Any:
        return first[:, 0] * first[:, 1] + second[:, 0]

    rows, every = (MANY[:6, :2], MANY[:6, 2:]), (MANY[:, :2], MANY[:, 2:])
    for background in (None, ("kmeans", every, 5), ("sample", every, 9)):
        explainer = Explainer(model, background)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShearWarning)
            whole, prepared = explainer(rows), explainer.prepare(rows)
        np.testing.assert_allclose(prepared.explain(rows).values, whole.values, atol=1e-9)


# Features that equal the background


def test_a_category_that_equals_a_statistic_is_noted() -> None:
    def model(frame: pd.DataFrame) -> Any:
        return frame["age"] * (frame["city"] == "Oslo") + frame["height"]

    rows = PEOPLE[:90]
    for statistic in ("mean", "median", "mode"):
        train = pd.concat([PEOPLE, PEOPLE[PEOPLE.city == "Rome"]])
        explanation = Explainer(model, (statistic, train))(rows)
        note = "city equals the background in 30 of 90 rows, so its value is 0 there."
        assert explanation.notes == (note,)
        assert (explanation.values[rows.city == "Rome", 1] == 0).all()


def test_the_worst_features_are_named_once() -> None:
    frame = pd.DataFrame({name: ["x"] * size + ["y"] * (9 - size) for name, size in
                          {"a": 5, "b": 8, "c": 6, "d": 7}.items()})  # fmt: skip
    inputs = encoded(("mode", frame), frame)
    assert inputs.notes == (
        "b equals the background in 8 of 9 rows, d in 7, c in 6, so their values are 0 there.",
    )
    assert encoded(("mode", frame[["a"]].assign(n=1.0)), frame[["a"]].assign(n=1.0)).notes == (
        "a equals the background in 5 of 9 rows, so its value is 0 there.",
    )
    assert encoded(("mode", frame), frame[:1]).notes == (
        "d equals the background in the row, c too, b too, so their values are 0 there.",
    )


# What an explainer takes along when it is pickled

LARGE = np.random.default_rng(0).normal(size=(20_000, 3)).round(2)
TABLE = pd.DataFrame(LARGE, columns=list("abc")).assign(
    city=np.where(LARGE[:, 0] > 0, "Bern", "Oslo"), id=np.arange(20_000)
)


def first_by_second(x: Any) -> Any:
    table = x[["a", "b"]].to_numpy() if hasattr(x, "columns") else np.asarray(x)
    return table[:, 0] * table[:, 1]


def in_bern(x: Any) -> Any:
    return np.where(np.asarray(x["city"]).astype(str) == "Bern", np.asarray(x["a"]), 0.0)


def two_inputs(one: Any, other: Any) -> Any:
    return one[:, 0] * other[:, 1]


KEPT_KINDS: dict[str, tuple[Any, Any]] = {
    "array": (first_by_second, LARGE),
    "tensor": (torch.nn.Linear(3, 1), torch.from_numpy(LARGE).float()),
    "pandas": (in_bern, TABLE),
    "polars": (in_bern, pl.from_pandas(TABLE)),
    "pyarrow": (in_bern, pa.Table.from_pandas(TABLE)),
}


@pytest.mark.parametrize("kind", KEPT_KINDS)
@pytest.mark.parametrize(
    ("choice", "size"),
    [((), 100), (("sample", 30), 30), (("kmeans", 5), 10_000), (("median",), 1), (("mean",), 1)],
)
def test_a_pickled_explainer_takes_along_no_more_rows_than_it_uses(
    kind: str, choice: Any, size: int
) -> None:
    model, rows = KEPT_KINDS[kind]
    background = (choice[0], rows, *choice[1:]) if choice else rows
    explainer = Explainer(model, background, method="leverage")
    call: dict[str, Any] = {"budget": 2_000} | ({"index": "id"} if model is in_bern else {})
    answer = explainer(rows[:3], **call)
    pickled = pickle.dumps(explainer)  # also after a call
    assert len(pickled) < 6_000 + 60 * size
    again = pickle.loads(pickled)(rows[:3], **call)
    np.testing.assert_array_equal(again.values, answer.values)
    for name in ("background", "background_rows", "notes"):
        assert getattr(again, name) == getattr(answer, name)


def test_a_pickled_explainer_of_several_inputs_takes_the_drawn_rows_of_all() -> None:
    inputs = (LARGE, LARGE[:, :2])
    few = tuple(part[:2] for part in inputs)
    explainer = Explainer(two_inputs, inputs)
    pickled = pickle.dumps(explainer)
    assert len(pickled) < 10_000
    np.testing.assert_array_equal(pickle.loads(pickled)(few).values, explainer(few).values)


@pytest.mark.parametrize(
    "background",
    [
        LARGE[0],
        LARGE[:50],
        ("all", LARGE[:200]),
        ("mode", LARGE[:200]),
        Conditional(LARGE[:200]),
        ("average", LARGE),
        LARGE.reshape(200, 300),  # one row, of an image
        None,
    ],
)
def test_a_background_that_is_used_as_it_is_stays_so(background: Any) -> None:
    explainer = Explainer(first_by_second, background, groups=[[0], [1, 2]])
    kept = pickle.loads(pickle.dumps(explainer)).background
    if isinstance(background, Conditional):
        background, kept = background.train, kept.train
    np.testing.assert_equal(kept, background)
