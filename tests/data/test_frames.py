"""Rows and background of a frame in one type for each column: the rows', or one that holds both."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from games import Floats
from shearshap import Conditional, Explainer, InputError, ShearWarning
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
    assert answer.check_evaluations == 3 * len(rows)
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


# Types of Arrow, and tables of two libraries

NUMPY = pd.DataFrame(
    {
        "a": np.linspace(-1, 1, 12),
        "count": np.arange(12),
        "city": ["Bern", "Oslo", "Rome"] * 4,
        "member": np.arange(12) % 2 == 0,
        "day": pd.date_range("2026-01-01", periods=12),
        "kind": pd.Categorical(["u", "v"] * 6),
    }
)


class InNumpy:
    """A model that fails if some of its columns have types of Arrow and the others of numpy."""

    def __init__(self) -> None:
        self.types: list[Any] = []

    def __call__(self, f: Any) -> Any:
        self.types.append(f.dtypes)
        in_bern = f["a"] * (f["city"] == "Bern") + f["count"] * f["member"]
        return in_bern + f["a"] * (f["day"] > pd.Timestamp("2026-01-05")) * (f["kind"] == "u")


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "Arrow": lambda f: pa.Table.from_pandas(f).to_pandas(types_mapper=pd.ArrowDtype),
    "Arrow text": lambda f: f.astype({"city": pd.ArrowDtype(pa.string())}),
    "Dask's text": lambda f: f.astype({"city": "string[pyarrow]"}),
    "pandas.NA": lambda f: f.convert_dtypes(),
    # categories as text: polars 1.20 cannot give pandas its own
    "polars": lambda f: pl.from_pandas(f.astype({"kind": str} if "kind" in f else {})),
    "pyarrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prepared", [False, True])
def test_rows_of_other_types_are_those_of_the_background(kind: str, prepared: bool) -> None:
    model = InNumpy()
    explainer = Explainer(model, NUMPY, method="leverage")
    explain: Any = explainer.prepare(NUMPY[:4], budget=64).explain if prepared else explainer
    expected = explain(NUMPY)
    answer = explain(KINDS[kind](NUMPY))
    np.testing.assert_allclose(answer.values, expected.values, atol=1e-12)
    assert answer.display_data.tolist() == expected.display_data.tolist()
    assert answer.notes == expected.notes
    for types in model.types:
        pd.testing.assert_series_equal(types, NUMPY.dtypes)
    assert len(explain(KINDS[kind](NUMPY)[:0])) == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "polars"])
@pytest.mark.parametrize("choice", [(), ("median",), ("kmeans", 4), Conditional])
def test_a_background_of_other_types_is_in_those_of_the_rows(kind: str, choice: Any) -> None:
    def background(rows: Any) -> Any:
        if choice is Conditional:
            return Conditional(rows, samples=5)
        return (choice[0], rows, *choice[1:]) if choice else rows

    plain = NUMPY.drop(columns="day")

    def model(f: Any) -> Any:
        return f["a"] * (f["city"] == "Bern") + f["count"] * f["member"] * (f["kind"] == "u")

    expected = Explainer(model, background(plain))(plain, budget=200)
    answer = Explainer(model, background(KINDS[kind](plain)))(plain, budget=200)
    np.testing.assert_allclose(answer.values, expected.values, atol=1e-12)


def test_rows_and_background_of_arrow_stay_what_they_are() -> None:
    rows = KINDS["Arrow"](NUMPY[["a", "count"]])
    types: list[Any] = []

    def model(f: Any) -> Any:
        types.append(f.dtypes)
        return f["a"] * f["count"]

    for background in (rows, ("kmeans", rows, 3), [0.5, 2], {"a": 0.5, "count": 2}):
        Explainer(model, background)(rows)
    for each in types:
        assert each.tolist() == rows.dtypes.tolist()


def arrow(*cells: Any, kind: Any) -> pd.Series:
    return pd.Series(cells, dtype=pd.ArrowDtype(kind))


@pytest.mark.parametrize(
    ("cells", "background", "taken"),
    [
        (arrow(1.5, None, kind=pa.float64()), [1.0, 2.0], np.dtype(float)),
        (arrow(1, None, kind=pa.int64()), [1, 2], np.dtype(float)),
        (arrow(1, 300, kind=pa.int64()), np.array([1, 2], dtype=np.int8), np.dtype(int)),
        (arrow(1, 3, kind=pa.int64()), np.array([1, 2], dtype=np.int8), np.dtype(np.int8)),
        (arrow("x", None, kind=pa.string()), ["x", "y"], pd.Series(["x"]).dtype),
        (arrow("x", None, kind=pa.string()), pd.Series(["x", "y"], dtype=object), np.dtype(object)),
        (arrow("x", "y", kind=pa.string()), pd.Categorical(["y", "x"]), pd.CategoricalDtype(["x", "y"])),
        (arrow("x", "z", kind=pa.string()), pd.Categorical(["y", "x"]), pd.Series(["x"]).dtype),
        (arrow(True, None, kind=pa.bool_()), [True, False], np.dtype(object)),
        (arrow(Decimal("1.10"), None, kind=pa.decimal128(9, 2)), [0.5, 1.0], np.dtype(float)),
        (arrow(date(2026, 1, 2), None, kind=pa.date32()), pd.to_datetime(["2026-01-01"] * 2), "datetime64"),
    ],
)  # fmt: skip
def test_cells_keep_their_values_in_the_type_of_the_background(
    cells: Any, background: Any, taken: Any
) -> None:
    """Missing cells stay missing; a type is another one only if it could not hold them."""
    given: list[Any] = []

    def model(frame: Any) -> Floats:
        given.append(frame["k"])
        return np.where(frame["k"].notna(), frame["x"], 0.0)

    rows = pd.DataFrame({"k": cells, "x": [1.0, 2.0]})
    Explainer(model, pd.DataFrame({"k": background, "x": [0.0, 0.5]}))(rows)
    assert all(str(column.dtype).startswith(str(taken)) for column in given)
    known = [None if cell is pd.NA else cell for cell in cells]
    seen = {None if pd.isna(cell) else cell for column in given for cell in column}
    for cell in known:
        like = float(cell) if isinstance(cell, Decimal) else cell
        assert (pd.Timestamp(like) if isinstance(like, date) else like) in seen


def test_what_has_no_common_type_names_the_column() -> None:
    background = pd.DataFrame({"k": [1.0, 2.0], "x": [0.0, 0.5]})
    for cells in (arrow("a", "b", kind=pa.string()), arrow("1", "2", kind=pa.string())):
        for rows in (
            pd.DataFrame({"k": cells, "x": [1.0, 2.0]}),
            pa.table({"k": pa.array(cells), "x": [1.0, 2.0]}),
            pl.DataFrame({"k": cells.tolist(), "x": [1.0, 2.0]}),
        ):
            with pytest.raises(InputError, match="column 'k' is Float64, but String in the rows"):
                Explainer(codes, background)(rows)
    rows = pd.DataFrame({"k": arrow(2**53 + 1, None, kind=pa.int64()), "x": [1.0, 2.0]})
    with pytest.raises(InputError, match="column 'k' holds integers beyond"):
        Explainer(codes, background.astype({"k": int}))(rows)


def test_a_pipeline_of_pandas_takes_rows_of_every_library() -> None:
    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    columns = NUMPY[["city", "a", "count"]]
    model = make_pipeline(encode, LinearRegression()).fit(columns, NUMPY["a"] * NUMPY["count"])
    expected = Explainer(model, columns)(columns)
    for kind in ("polars", "pyarrow", "Arrow"):
        answer = Explainer(model, columns)(KINDS[kind](columns))
        np.testing.assert_allclose(answer.values, expected.values, atol=1e-12)
        assert answer.method == expected.method
