"""What a user passes as a background, and which rows it becomes."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.typing import NDArray

from shearshap import Explainer, ShearWarning
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


def answer(background: Any, rows: Any, **options: Any) -> Any:
    """Return an explanation, whose warnings are in its notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        return Explainer(lambda x: np.asarray(x)[:, 0], background, **options)(rows)


def rows_of(inputs: Inputs) -> NDArray[Any]:
    """Return the background as the model sees it, (b, d)."""
    return np.asarray(inputs.decode(inputs.background.reshape(-1, *inputs.shape)))


def are_some_of(chosen: NDArray[Any], rows: Any) -> bool:
    """Return whether rows are different rows of others."""
    chosen_rows = [tuple(row) for row in chosen.tolist()]
    every = {tuple(row) for row in np.asarray(rows).tolist()}
    return len(set(chosen_rows)) == len(chosen_rows) and set(chosen_rows) <= every


@pytest.mark.parametrize("rows", [MANY, torch.from_numpy(MANY), PEOPLE, pl.from_pandas(PEOPLE)])
def test_without_a_background_rows_are_compared_with_a_sample_of_their_own(rows: Any) -> None:
    inputs = encoded(None, rows)
    assert len(inputs.background) == 100
    assert are_some_of(rows_of(inputs), rows)
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


def test_the_note_is_a_warning_and_stays_with_the_explanation() -> None:
    explainer = Explainer(lambda x: x.sum(axis=1))
    with pytest.warns(ShearWarning, match="No background was given") as caught:
        explanation = explainer(MANY[:20])
    assert len(caught) == 1
    assert explanation.notes == (str(caught[0].message),)
    np.testing.assert_allclose(explanation.values, MANY[:20] - MANY[:20].mean(axis=0), atol=1e-9)


def test_several_inputs_are_compared_with_the_same_rows() -> None:
    rows = (MANY[:, :2], np.arange(500)[:, None])
    inputs = encoded(None, rows)
    numbers = inputs.background[:, 2].to(int)
    np.testing.assert_array_equal(inputs.background[:, :2], MANY[numbers, :2])
