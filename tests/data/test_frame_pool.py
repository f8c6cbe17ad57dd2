"""Mixes of a frame's rows against the slow way: cell by cell, as the library itself takes them."""

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shearshap import Explainer
from shearshap.data import encode
from shearshap.data.frames import FrameLayout, as_frame, column_labels
from shearshap.data.tables import FramePool
from shearshap.models import AdaptedModel

ROWS = 7
LIBRARIES = ("pandas", "polars", "pyarrow")
every_library = pytest.mark.parametrize("library", LIBRARIES)

DAY = dt.datetime(2020, 1, 1)
DAYS = [None, *(DAY + dt.timedelta(days=day) for day in (0, 0, 3, 1, 2, 1))]
WORDS = ["x", None, "yy", "x", "zzz", "", "x"]
FLOATS = [0.5, np.nan, -0.0, 0.0, np.nan, 0.5, np.inf]
INTEGERS = [3, 1, 2, 3, 3, -5, 0]
TRUTHS = [True, False, True, True, False, False, True]
DECIMALS = [Decimal("0.10"), None, Decimal("1.00"), Decimal("0.10"), None, None, Decimal("2.50")]


def pandas_frame() -> pd.DataFrame:
    columns: dict[str, Any] = {
        "float": FLOATS,
        "word": pd.Series(WORDS, dtype="str"),
        "integer": INTEGERS,
        "object": pd.Series(WORDS, dtype=object),
        "truth": TRUTHS,
        "narrow": np.array(FLOATS, dtype=np.float32),
        "half": np.array(FLOATS, dtype=np.float16),
        "byte": np.array(INTEGERS, dtype=np.int8),
        "float again": FLOATS[::-1],
        "day": pd.Series(DAYS, dtype="datetime64[ns]"),
        "second": pd.Series(DAYS, dtype="datetime64[s]"),
        "zone": pd.Series(DAYS, dtype="datetime64[ns, Europe/Rome]"),
        "while": pd.Series(DAYS) - DAY,
        "word again": pd.Series(WORDS[::-1], dtype="str"),
        "missing": pd.array([None, *INTEGERS[1:]], dtype="Int64"),
        "perhaps": pd.array([None, *TRUTHS[1:]], dtype="boolean"),
        "text": pd.array(WORDS, dtype="string"),
        "kind": pd.Categorical(WORDS, categories=["x", "yy", "zzz", ""]),
        "kind, other codes": pd.Categorical(WORDS, categories=["", "zzz", "yy", "x"]),
        "level": pd.Categorical(INTEGERS, ordered=True),
        "arrow": pd.Series(INTEGERS, dtype="int32[pyarrow]"),
        "month": pd.period_range("2020-01", periods=ROWS, freq="M"),
        "list": pd.Series([[1], None, [1], [2, 3], "x", 4, 1.5], dtype=object),
        "complex": np.array(INTEGERS, dtype=complex),
    }
    return pd.DataFrame(columns)


def polars_frame() -> pl.DataFrame:
    columns = [
        pl.Series("float", FLOATS),
        pl.Series("float, missing", [None, *FLOATS[1:]]),
        pl.Series("word", WORDS),
        pl.Series("integer", INTEGERS),
        pl.Series("integer, missing", [None, *INTEGERS[1:]]),
        pl.Series("byte", INTEGERS, dtype=pl.Int8),
        pl.Series("truth", TRUTHS),
        pl.Series("word again", WORDS[::-1]),
        pl.Series("day", DAYS),
        pl.Series("date", DAYS).cast(pl.Date),
        pl.Series("zone", DAYS).dt.replace_time_zone("Europe/Rome"),
        pl.Series("kind", WORDS, dtype=pl.Categorical),
        pl.Series("enum", WORDS, dtype=pl.Enum(["zzz", "x", "", "yy"])),
        pl.Series("enum again", WORDS, dtype=pl.Enum(["zzz", "x", "", "yy"])),
        pl.Series("enum, other codes", WORDS, dtype=pl.Enum(["x", "zzz", "", "yy"])),
        pl.Series("decimal", DECIMALS),
        pl.Series("list", [[1], None, [1], [2, 3], [], [4], [1]]),
        pl.Series("list again", [[1], None, [1], [2, 3], [], [4], [1]]),
        pl.Series("empty", [None] * ROWS),
    ]
    return pl.DataFrame(columns)


def pyarrow_frame() -> pa.Table:
    codes = pa.array([0, None, 1, 0, 2, 1, 0], pa.int8())
    return pa.table(
        {
            "float": pa.array(FLOATS),
            "float, missing": pa.array([None, *FLOATS[1:]]),
            "half": pa.array(np.array(FLOATS, dtype=np.float16)),
            "word": pa.array(WORDS),
            "integer": pa.array(INTEGERS),
            "integer, missing": pa.array([None, *INTEGERS[1:]]),
            "byte": pa.array(INTEGERS, pa.int8()),
            "truth": pa.array(TRUTHS),
            "truth again": pa.array(TRUTHS[::-1]),
            "day": pa.array(DAYS, pa.timestamp("us")),
            "zone": pa.array(DAYS, pa.timestamp("us", "Europe/Rome")),
            "kind": pa.DictionaryArray.from_arrays(codes, ["x", "yy", "zzz"]),
            "kind, other codes": pa.DictionaryArray.from_arrays(codes, ["zzz", "yy", "x"]),
            "large": pa.array(WORDS, pa.large_string()),
            "decimal": pa.array(DECIMALS),
            "list": pa.array([[1], None, [1], [2, 3], [], [4], [1]]),
            "empty": pa.nulls(ROWS),
        }
    )


FRAMES = {"pandas": pandas_frame, "polars": polars_frame, "pyarrow": pyarrow_frame}


def pool_of(native: Any, order: Any) -> FramePool:
    frame = as_frame(native, "rows")
    assert frame is not None
    names = [frame.columns[place] for place in order]
    return FramePool(frame, FrameLayout(names, column_labels(native, "rows")))


def slow_mix(native: Any, order: Any, cells: Any) -> Any:
    """Return a mix of cells (m, d), of one column after the other in a given order."""
    if isinstance(native, pd.DataFrame):
        columns = [native.iloc[cells[:, at], at].reset_index(drop=True) for at in order]
        return pd.concat(columns, axis=1).set_axis(native.columns[order], axis=1)
    if isinstance(native, pl.DataFrame):
        return pl.DataFrame([native.to_series(int(at)).gather(cells[:, at]) for at in order])
    columns = [native.column(int(at)).take(pa.array(cells[:, at])) for at in order]
    return pa.table(columns, names=[native.column_names[at] for at in order])


def check_equal(mixed: Any, wanted: Any) -> None:
    """Check that two frames have the same types, labels and cells, missing ones included."""
    assert type(mixed) is type(wanted)
    if isinstance(mixed, pd.DataFrame):
        pd.testing.assert_frame_equal(mixed, wanted, check_exact=True)
        for name in mixed:  # in pandas, categories in two orders are of one type
            if isinstance(mixed[name].dtype, pd.CategoricalDtype):
                np.testing.assert_array_equal(mixed[name].cat.codes, wanted[name].cat.codes)
    elif isinstance(mixed, pl.DataFrame):
        assert mixed.schema == wanted.schema
        assert mixed.equals(wanted)
    else:
        assert mixed.schema.equals(wanted.schema, check_metadata=True)
        assert str(mixed.to_pylist()) == str(wanted.to_pylist())  # nan is not equal to itself


def orders(width: int) -> list[Any]:
    return [np.arange(width), np.random.default_rng(0).permutation(width)]


@every_library
def test_mixes_of_every_type(library: str) -> None:
    native = FRAMES[library]()
    width = native.shape[1]
    cells = np.random.default_rng(1).integers(0, ROWS, (50, width))
    for order in orders(width):
        pool = pool_of(native, order)
        for some in (cells, cells[:1]):
            check_equal(pool.mix(some), slow_mix(native, order, some))


@every_library
def test_frames_of_every_type_reach_the_model_as_they_are(library: str) -> None:
    native = FRAMES[library]()
    backgrounds: list[Any] = [("mode", native), native[:2]]
    for background in backgrounds:
        inputs = encode(native, background, None, AdaptedModel(lambda frame: frame))
        check_equal(inputs.decode(inputs.rows), native)
        check_equal(inputs.untouched(slice(None)), native)
        assert inputs.notes == ()


@pytest.mark.parametrize("order", orders(4))
def test_mixes_of_pandas_numbers_of_one_type(order: Any) -> None:
    native = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=list("abcd"))
    cells = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
    check_equal(pool_of(native, order).mix(cells), slow_mix(native, order, cells))


@pytest.mark.parametrize("labels", [range(24), pd.MultiIndex.from_product([range(4), range(6)])])
def test_labels_of_pandas_come_back(labels: Any) -> None:
    native = pandas_frame().set_axis(pd.Index(labels), axis=1)
    cells = np.random.default_rng(2).integers(0, ROWS, (9, 24))
    for order in orders(24):
        pool = pool_of(native, order)
        mixed = pool.mix(cells)
        check_equal(mixed, slow_mix(native, order, cells))
        mixed.columns.name = "another"
        assert pool.mix(cells).columns.name is None


def test_a_model_may_write_into_a_mix() -> None:
    native = pandas_frame()
    pool = pool_of(native, range(24))
    cells = np.random.default_rng(3).integers(0, ROWS, (9, 24))
    mixed = pool.mix(cells)
    mixed["float"] = 1.0
    mixed.loc[0, "word"] = "other"
    mixed.loc[1, "integer"] = 99
    mixed.loc[2, "object"] = "other"
    check_equal(pool.mix(cells), slow_mix(native, np.arange(24), cells))
    check_equal(native, pandas_frame())


UNCOMPARED = {"list", "list again", "empty", "complex", "month", "object"}


@every_library
def test_cells_like_those_of_a_row(library: str) -> None:
    native = FRAMES[library]()
    pool = pool_of(native, range(native.shape[1]))
    table = nw.from_native(native, eager_only=True)
    for row in range(ROWS):
        like = pool.like(row)
        for place, name in enumerate(table.columns):
            if name not in UNCOMPARED:
                texts = [str(cell) for cell in table[name].to_list()]  # with the sign of zeros
                if library == "pyarrow" and texts[row] == "nan":
                    continue  # which is not equal to itself there
                assert like[:, place].tolist() == [text == texts[row] for text in texts], name


def test_wide_frames_are_made_of_many_rows_at_once() -> None:
    """Each column takes its time, whatever the number of its rows."""
    frame = pd.DataFrame(np.zeros((2, 5000))).rename(columns=str)
    sizes = []

    def model(given: Any) -> Any:
        sizes.append(len(given))
        return given.iloc[:, 0].to_numpy() + 1

    Explainer(model, 1.0, method="permutation")(frame, budget=5002)
    assert max(sizes) > 600  # an array's batches hold 209 rows of 5000 inputs
