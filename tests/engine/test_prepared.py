"""Prepared explainers: what is found out once, and answers that depend on nothing else."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from games import Floats, network
from shearshap import BudgetError, Explainer, Explanation, ModelError, ShearWarning
from shearshap.trees.solver import METHOD

ROWS = np.random.default_rng(0).normal(size=(60, 8))


def wavy(x: Floats) -> Floats:
    return np.asarray(np.sin(x).sum(axis=1) + x[:, 0] * x[:, 1] * x[:, 2])


@pytest.mark.parametrize("method", ["auto", "leverage", "shear"])
@pytest.mark.parametrize("model", [wavy, network(8)])
def test_a_rows_answer_depends_on_the_sample_alone(model: Any, method: str) -> None:
    prepared = Explainer(model, ("mean", ROWS), method=method).prepare(ROWS[:30], budget=80)
    together = prepared.explain(ROWS[30:])
    prepared.explain(ROWS[:7], budget=76)
    for number in (0, 17, 29):
        alone = prepared.explain(ROWS[[30 + number]], index=[number])
        np.testing.assert_allclose(alone.values[0], together.values[number], atol=1e-6)
        assert alone.index.tolist() == [number]
    assert together.method == prepared.overview.method
    np.testing.assert_allclose(together.gap, 0, atol=1e-4 if method != "shear" else 10)


def test_it_is_what_the_explainer_says_of_the_sample() -> None:
    explainer = Explainer(wavy, np.zeros(8))
    whole = explainer(ROWS, budget=80)
    prepared = explainer.prepare(ROWS, budget=80)
    for answer in (prepared.overview, prepared.explain(ROWS)):
        np.testing.assert_allclose(answer.values, whole.values, atol=1e-9)
    # the options give the same answers in another process
    again = Explainer(**vars(prepared.options))(ROWS[40:], budget=80)
    np.testing.assert_allclose(again.values, whole.values[40:], atol=1e-9)


def test_data_can_be_left_out() -> None:
    frame = pd.DataFrame({"city": ["Bern", "Oslo", "Rome"], "size": [1.0, 2.0, 3.0]})
    prepared = Explainer(lambda x: x["size"] * x["city"].str.len(), frame[:1]).prepare(frame)
    whole = prepared.explain(frame[1:])
    bare = prepared.explain(frame[1:], data=False)
    np.testing.assert_array_equal(bare.values, whole.values)
    assert whole.display_data is not None
    assert (bare.data, bare.display_data) == (None, None)
    assert bare.feature_names == ["city", "size"]


def test_without_a_background_it_is_that_of_the_sample() -> None:
    explainer = Explainer(lambda x: x.sum(axis=1))
    prepared = explainer.prepare(ROWS[:10])
    np.testing.assert_allclose(
        prepared.explain(ROWS[20:22]).values, ROWS[20:22] - ROWS[:10].mean(axis=0), atol=1e-9
    )


def test_frames_are_mixed_in_the_types_of_the_sample() -> None:
    frame = pd.DataFrame({"count": [1, 2, 3, 4], "size": [0.5, 1.5, 2.5, 3.5]})
    background = pd.DataFrame({"count": [0.5], "size": [1.0]})
    prepared = Explainer(lambda x: x["count"] * x["size"], background).prepare(frame)
    assert prepared.types is not None
    assert prepared.types["count"] == np.float64
    answer = prepared.explain(frame[:2])
    assert answer.feature_names == ["count", "size"]
    np.testing.assert_allclose(answer.predictions, [0.5, 3.0])
    np.testing.assert_allclose(answer.base_values, 0.5)


def test_trees_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomForestRegressor(8, random_state=0).fit(ROWS, wavy(ROWS))
    explainer = Explainer(model, ROWS[:2])
    whole = explainer(ROWS)
    prepared = explainer.prepare(ROWS[:20])
    assert (prepared.budget, prepared.minimum_budget) == (3, 3)
    monkeypatch.setattr("shearshap.trees.model.read", None)  # nothing is read any more
    answer = prepared.explain(ROWS[20:])
    assert answer.method == METHOD
    np.testing.assert_allclose(answer.values, whole.values[20:], atol=1e-12)


def test_a_budget_that_is_too_small_and_a_row_that_fails_are_errors() -> None:
    def fails(x: Floats) -> Floats:
        if (x > 100).any():
            raise ValueError("too large")
        return wavy(x)

    prepared = Explainer(fails, np.zeros(8), method="leverage").prepare(ROWS[:20])
    assert prepared.minimum_budget > 2
    with pytest.raises(BudgetError, match="needs at least"):
        prepared.explain(ROWS[:2], budget=2)
    rows = ROWS[:4].copy()
    rows[2] = 200.0
    with pytest.raises(ModelError, match="too large") as caught:
        prepared.explain(rows, index=list("abcd"))
    assert "label 'c'" in caught.value.__notes__[0]
    assert isinstance(prepared.explain(ROWS[:2]), Explanation)


def test_rows_that_miss_the_tolerance_are_noted() -> None:
    explainer = Explainer(wavy, np.zeros(8), method="leverage")
    with pytest.warns(ShearWarning, match="did not reach tol=1e-09 within 80 evaluations"):
        prepared = explainer.prepare(ROWS[:30], budget=80, tol=1e-9)
    for rows, words in ((ROWS[:2], "2 of 2 rows"), (ROWS[:1], "the row")):
        with pytest.warns(ShearWarning, match=f"^{words} did not reach"):
            answer = prepared.explain(rows)
        assert f"{words} did not reach tol=1e-09 within 80" in answer.notes[-1]
