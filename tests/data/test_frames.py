"""Rows and background of a frame in one type for each column: the rows', or one that holds both."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from games import Floats
from shearshap import Explainer, InputError, ShearWarning
from shearshap.data import encode
from shearshap.models import AdaptedModel

FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda columns: pa.table(columns),
}
every_library = pytest.mark.parametrize("library", list(FRAMES))


def codes(frame: Any) -> Floats:
    """A model that knows 1, 2 and 3, but not 1.0."""
    known = {"1": 10.0, "2": 20.0, "3": 30.0}
    column = nw.from_native(frame, eager_only=True)["k"].to_list()
    return np.array([known.get(str(value), -1.0) for value in column])


@every_library
def test_integers_beside_a_whole_number_stay_integers(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2, 3], "x": [0.0, 1.0, 2.0]})
    backgrounds: list[Any] = [("mean", rows), [2.0, 0.5], FRAMES[library]({"k": [2.0], "x": [0]})]
    for background in backgrounds:
        answer = Explainer(codes, background)(rows, budget=4)
        assert answer.notes == ()
        assert answer.predictions.tolist() == [10, 20, 30]
        assert answer.base_values.tolist() == [20, 20, 20]


@every_library
def test_integers_beside_other_numbers_become_floats(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2, 2], "x": [0.0, 1.0, 2.0]})

    def model(frame: Any) -> Any:
        return nw.from_native(frame, eager_only=True)["k"].to_numpy() * 3.0

    answer = Explainer(model, ("mean", rows))(rows, budget=4)
    np.testing.assert_allclose(answer.base_values, 5)
    assert answer.check_evaluations == len(rows)
    with pytest.warns(ShearWarning, match="column 'k': Int64 becomes Float64") as caught:
        Explainer(codes, ("mean", rows))(rows, budget=4)
    assert caught[0].filename == __file__


def test_truth_values_and_decimals_become_floats_too() -> None:
    rows = pd.DataFrame({"b": [True, False]})
    answer = Explainer(lambda frame: frame["b"] * 1.0, [0.5])(rows)
    np.testing.assert_allclose(answer.values, [[0.5], [-0.5]])
    prices = pl.DataFrame({"c": ["1.10", "2.25", "3.30"]}).cast(pl.Decimal(10, 2))
    answer = Explainer(lambda frame: frame["c"].cast(float).to_numpy(), ("mean", prices))(prices)
    np.testing.assert_allclose(answer.base_values, 6.65 / 3)


def test_whole_numbers_without_holes_fit_a_background_with_holes() -> None:
    """pandas makes floating numbers of a column as soon as one is missing."""
    rows = pd.DataFrame({"height": [180, 170]})
    background = pd.DataFrame({"height": [175.0, np.nan]})
    types = []

    def model(frame: Any) -> Floats:
        types.append(frame["height"].dtype)
        return np.asarray(frame["height"].fillna(0)) * 1.0

    np.testing.assert_allclose(Explainer(model, background)(rows).base_values, 87.5)
    assert types.count(np.dtype(np.int64)) == 1  # the comparison with the rows as they are


@every_library
def test_integers_that_floats_cannot_hold(library: str) -> None:
    large = 1 << 60
    rows = FRAMES[library]({"id": [large + 1, large + 2, large + 2], "age": [3, 4, 4]})

    def model(frame: Any) -> Floats:
        ids = nw.from_native(frame, eager_only=True)["id"].to_list()
        return np.array([float(number - large) for number in ids])

    answer = Explainer(model, ("mode", rows))(rows, budget=4)
    assert answer.predictions.tolist() == [1, 2, 2]
    assert answer.base_values.tolist() == [2, 2, 2]
    backgrounds: list[Any] = [("mean", rows), ("median", rows), [0.5, 3.5]]
    for background in backgrounds:
        message = r"background: column 'id' holds integers beyond 2\^53, .*\('mode', rows\)"
        with pytest.raises(InputError, match=message):
            Explainer(model, background)(rows)


def test_the_background_takes_on_the_types_of_the_rows() -> None:
    rows = pd.DataFrame({"i": np.array([1, 2], np.int32), "f": np.array([1, 2], np.float32), "s": ["a", "b"], "b": [True, False]})  # fmt: skip
    background = pd.DataFrame({"i": [3, 4], "f": [0.1, 0.2], "s": pd.Categorical(["b", "a"]), "b": [1, 0]})  # fmt: skip
    backgrounds: list[Any] = [background, ("mode", background), [3.0, 0.1, "b", True]]
    for absent in backgrounds:
        inputs = encode(rows, absent, None, AdaptedModel(codes))
        assert inputs.type_changes == ()
        given = inputs.decode(inputs.background)
        assert dict(given.dtypes) == dict(rows.dtypes)


@every_library
def test_a_number_is_the_background_of_a_frame_of_numbers(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2], "x": [0.5, 1.0], "b": [True, False]})
    answer = Explainer(codes, 0)(rows)
    assert answer.predictions.tolist() == [10, 20]
    assert answer.base_values.tolist() == [-1, -1]


# Categories


def categorical(library: str, values: Any, categories: Any) -> Any:
    places = pa.array([categories.index(value) for value in values], pa.int8())
    column: Any = {
        "pandas": lambda: pd.Categorical(values, categories=categories),
        "ordered": lambda: pd.Categorical(values, categories=categories, ordered=True),
        "polars": lambda: pl.Series(values, dtype=pl.Enum(categories)),
        "pyarrow": lambda: pa.DictionaryArray.from_arrays(places, categories),
    }[library]()
    return FRAMES["pandas" if library == "ordered" else library]({"c": column})


def codes_of(frame: Any) -> Any:
    if isinstance(frame, pd.DataFrame):
        return frame["c"].cat.codes.to_numpy() * 1.0
    if isinstance(frame, pl.DataFrame):
        return frame["c"].to_physical().to_numpy() * 1.0
    return frame["c"].combine_chunks().indices.to_numpy() * 1.0


every_kind = pytest.mark.parametrize("library", ["pandas", "ordered", "polars", "pyarrow"])


@every_kind
@pytest.mark.parametrize("statistic", [None, "mode"])
def test_the_rows_categories_keep_their_codes(library: str, statistic: str | None) -> None:
    rows = categorical(library, ["y", "z"], ["y", "z"])
    background = categorical(library, ["x", "x", "y"], ["x", "y", "z"])
    absent = background if statistic is None else (statistic, background)
    answer = Explainer(codes_of, absent)(rows)
    assert answer.predictions.tolist() == [0, 1]
    np.testing.assert_allclose(answer.base_values, 2 if statistic else 4 / 3)


@every_kind
def test_categories_that_only_continue_the_rows_do_not_warn(library: str) -> None:
    rows = categorical(library, ["y", "z"], ["y", "z"])
    background = categorical(library, ["x"], ["y", "z", "x"])
    answer = Explainer(codes_of, background)(rows)
    assert answer.predictions.tolist() == [0, 1]
    assert answer.base_values.tolist() == [2, 2]
    plain = Explainer(codes_of, ["x"])(rows)
    assert plain.base_values.tolist() == [2, 2]


def test_ordered_categories_stay_ordered() -> None:
    rows = categorical("ordered", ["y", "z"], ["y", "z"])
    answer = Explainer(lambda frame: (frame["c"] > "y") * 1.0, ["y"])(rows)
    assert answer.predictions.tolist() == [0, 1]


def test_polars_has_one_list_of_categories_for_all() -> None:
    rows = pl.DataFrame({"c": pl.Series(["z", "y"], dtype=pl.Categorical)})
    background = pl.DataFrame({"c": pl.Series(["x", "y", "z"], dtype=pl.Categorical)})
    answer = Explainer(codes_of, background)(rows)
    np.testing.assert_allclose(answer.predictions, codes_of(rows))
    np.testing.assert_allclose(answer.base_values, codes_of(background).mean())
