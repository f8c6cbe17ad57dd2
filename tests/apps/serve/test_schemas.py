"""Requests and answers: cells of every kind, there and back."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from shearshap.apps.serve.schemas import (
    Budget,
    features_from_frame,
    frame_from_rows,
    plain_rows,
    request_model,
)
from shearshap.errors import InputError


def checked(frame: pd.DataFrame, *rows: Any) -> pd.DataFrame:
    """Return rows of JSON that are taken, as a frame like another."""
    budget = Budget(default=8, minimum=2, maximum=80)
    model = request_model(features_from_frame(frame), frame, ["yes"], budget, max_rows=10)
    question = model.model_validate({"rows": list(rows)})
    return frame_from_rows(question.rows, dict(frame.dtypes))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole": pd.Series([1, 2, 3], dtype="int8"),
            "part": pd.Series([0.5, np.nan, 2.5]),
            "kind": pd.Categorical(["a", "b", "a"], categories=["a", "b", "c"]),
            "code": pd.Categorical([1, 2, 1]),
            "share": pd.Categorical([0.5, 1.5, 0.5]),
            "many": pd.Series([1, 2, None], dtype="Int64"),
            "when": pd.to_datetime(["2026-01-31", "2026-02-01", "2026-02-02"]),
            "yes": [True, False, True],
            "word": ["x", "y", "z"],
            "model_config of _ä": [1e300, 2.0, 3.0],
        }
    )


def test_cells_of_every_kind_come_back(frame: pd.DataFrame) -> None:
    rows = plain_rows(frame)
    assert rows[0] == {
        "whole": 1, "part": 0.5, "kind": "a", "code": 1, "share": 0.5, "many": 1, "when": "2026-01-31T00:00:00", "yes": True,
        "word": "x", "model_config of _ä": 1e300,
    }  # fmt: skip
    assert rows[1]["part"] is None
    pd.testing.assert_frame_equal(checked(frame, *rows), frame)
    shuffled = dict(reversed(rows[0].items()))
    pd.testing.assert_frame_equal(checked(frame, shuffled), frame[:1])


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("whole", 128, "less than or equal to 127"),
        ("whole", "1", "a valid integer"),
        ("whole", True, "a valid integer"),
        ("part", "x", "a valid number"),
        ("kind", "d", "'a', 'b' or 'c'"),
        ("code", 3, "1 or 2"),
        ("when", "yesterday", "a valid datetime"),
        ("when", "2026-01-31T12:00:00Z", "should not have timezone info"),
        ("when", "1066-10-14", "greater than or equal to 1678"),
        ("yes", 1, "a valid boolean"),
        ("word", None, "a valid string"),
    ],
)
def test_other_cells_are_refused(frame: pd.DataFrame, name: str, cell: Any, words: str) -> None:
    (row,) = plain_rows(frame[:1])
    with pytest.raises(ValidationError, match=f"rows.0.{name}\n") as caught:
        checked(frame, row | {name: cell})
    assert words in str(caught.value)


def test_times_have_a_zone_if_those_of_the_rows_loaded_do() -> None:
    zoned = pd.DataFrame({"when": pd.to_datetime(["2026-01-31", "2026-02-01"], utc=True)})
    same = checked(zoned, {"when": "2026-01-31T05:00:00+05:00"})
    pd.testing.assert_frame_equal(same, zoned[:1])
    with pytest.raises(ValidationError, match="should have timezone info"):
        checked(zoned, {"when": "2026-01-31"})


def test_columns_that_no_request_could_hold_are_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="column 'a' has no values"):
        features_from_frame(pd.DataFrame({"a": [np.nan, np.nan]}))
    with pytest.raises(InputError, match="column 'a' holds mixed cells such as"):
        features_from_frame(pd.DataFrame({"a": [date(2026, 1, 31), "y"]}))
    with pytest.raises(InputError, match="column 'a' holds integer cells such as"):
        features_from_frame(pd.DataFrame({"a": [2**70, 1]}))
