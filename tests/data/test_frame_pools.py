"""Mixes of a frame's rows, made at once, against the slow way: one column after the other."""

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
from shearshap.data import frame_pools
from shearshap.data.frame_pools import ColumnPool, frame_pool
from shearshap.data.native_frames import FrameLayout, as_frame, column_labels

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


def pools(native: Any, order: Any) -> tuple[Any, Any]:
    """Return the pool of a frame, and the slow one."""
    frame = as_frame(native, "rows")
    assert frame is not None
    names = [frame.columns[place] for place in order]
    layout = FrameLayout(names, column_labels(native, "rows"))
    return frame_pool(frame, layout), ColumnPool(frame, layout)


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
@pytest.mark.parametrize("are_laid_out", [True, False])
def test_mixes_of_every_type(
    library: str, are_laid_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not are_laid_out:
        monkeypatch.setattr(frame_pools, "MOST_CELLS", 0)
    native = FRAMES[library]()
    width = native.shape[1]
    cells = np.random.default_rng(1).integers(0, ROWS, (50, width))
    for order in orders(width):
        pool, slow = pools(native, order)
        check_equal(pool.mix(cells), slow.mix(cells))
        check_equal(pool.mix(cells[:1]), slow.mix(cells[:1]))


@every_library
def test_mixes_of_one_type(library: str) -> None:
    numbers = np.arange(12.0).reshape(3, 4)
    pandas = pd.DataFrame(numbers, columns=list("abcd"))
    native = {
        "pandas": pandas,
        "polars": pl.from_pandas(pandas),
        "pyarrow": pa.Table.from_pandas(pandas),
    }[library]
    cells = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
    for order in orders(4):
        pool, slow = pools(native, order)
        check_equal(pool.mix(cells), slow.mix(cells))


@pytest.mark.parametrize("labels", [range(24), pd.MultiIndex.from_product([range(4), range(6)])])
def test_labels_of_pandas_come_back(labels: Any) -> None:
    native = pandas_frame().set_axis(pd.Index(labels), axis=1)
    cells = np.random.default_rng(2).integers(0, ROWS, (9, 24))
    for order in orders(24):
        pool, slow = pools(native, order)
        mixed = pool.mix(cells)
        check_equal(mixed, slow.mix(cells))
        mixed.columns.name = "another"
        assert pool.mix(cells).columns.name is None


def test_a_model_may_write_into_a_mix() -> None:
    native = pandas_frame()
    pool, slow = pools(native, range(24))
    cells = np.random.default_rng(3).integers(0, ROWS, (9, 24))
    mixed = pool.mix(cells)
    mixed["float"] = 1.0
    mixed.loc[0, "word"] = "other"
    mixed.loc[1, "integer"] = 99
    mixed.loc[2, "object"] = "other"
    check_equal(pool.mix(cells), slow.mix(cells))
    check_equal(native, pandas_frame())


@every_library
def test_cells_like_those_of_a_row(library: str) -> None:
    native = FRAMES[library]()
    pool, slow = pools(native, range(native.shape[1]))
    for row in range(ROWS):
        like = pool.like(row)
        np.testing.assert_array_equal(like, slow.like(row))
    assert like.any()
    assert not like.all()


@every_library
def test_wide_frames_are_not_read_column_by_column(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of columns, each through a library's own checks, took most of the time."""
    width = 300
    pandas = pd.DataFrame(np.arange(3.0 * width).reshape(3, width)).set_axis(
        [f"x{number}" for number in range(width)], axis=1
    )
    native = {
        "pandas": pandas,
        "polars": pl.from_pandas(pandas),
        "pyarrow": pa.Table.from_pandas(pandas),
    }[library]
    looks = 0
    original = nw.DataFrame.__getitem__

    def counted(frame: Any, item: Any) -> Any:
        nonlocal looks
        looks += isinstance(item, str)
        return original(frame, item)

    monkeypatch.setattr(nw.DataFrame, "__getitem__", counted)
    model = Explainer(lambda frame: np.asarray(frame)[:, 0], native[:1], method="permutation")
    answer = model(native[1:2], budget=width + 1)
    np.testing.assert_allclose(answer.values[0, 0], width)
    # numbers for people are read in pyarrow column by column, once
    assert looks == (width if library == "pyarrow" else 0)


def test_wide_frames_are_made_of_many_rows_at_once() -> None:
    """Each column takes its time, whatever the number of its rows."""
    frame = pd.DataFrame(np.zeros((2, 5000))).rename(columns=str)
    sizes = []

    def model(given: Any) -> Any:
        sizes.append(len(given))
        return given.iloc[:, 0].to_numpy() + 1

    Explainer(model, 1.0, method="permutation")(frame, budget=5002)
    assert max(sizes) > 600  # an array's batches hold 209 rows of 5000 inputs
