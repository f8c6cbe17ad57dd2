"""What is explained is what the model says of the rows as they were given: types, digits, categories and labels."""

import datetime as dt
import re
import warnings
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from torch import nn

from games import Floats
from shearshap import Explainer, InputError, ShearWarning, explain
from shearshap.data import encode
from shearshap.models import AdaptedModel, adapt

TABLE = np.array([[1, 2], [3, 5], [4, 9]])
ID = 1 << 53


def number(cell: Any) -> float:
    """Return a number that tells a cell from any other, by its type and by every digit."""
    text = f"{type(cell).__name__} {cell}"
    return float(sum(place * ord(letter) for place, letter in enumerate(text, 1)) % 9973)


def of_array(x: Any) -> Floats:
    """A model that tells arrays apart by their types, and by every digit."""
    kind = number(str(x.dtype))
    return np.array([kind + sum(map(number, row.ravel().tolist())) for row in x])


def of_tensor(x: Any) -> torch.Tensor:
    assert isinstance(x, torch.Tensor)
    return torch.tensor([number(str(x.dtype)) + sum(map(number, row.tolist())) for row in x])


def of_frame(frame: Any) -> Floats:
    """A model that tells frames apart by their columns, their types, and every cell."""
    table = nw.from_native(frame, eager_only=True)
    kind = number(str(dict(table.schema)))
    return np.array([kind + sum(map(number, row)) for row in table.rows()])


def check(model: Any, rows: Any, background: Any) -> int:
    """Check that predictions are the model's own; return the evaluations that encoding took."""
    own = model(*rows) if isinstance(rows, tuple) else model(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        answer = Explainer(model, background)(rows, budget=64)
        np.testing.assert_allclose(answer.predictions, own)
        with adapt(model, None, None) as adapted:
            inputs = encode(rows, background, None, adapted)
            np.testing.assert_allclose(adapted.call(inputs.untouched(slice(2))), own[:2])
    return inputs.evaluations


# Arrays

NUMBERS = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "longdouble", ">i4", ">u2", ">f4", ">f8", "bool", "object",
]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("background", ["mean", "median", "mode", "rows", "zero", "bare"])
def test_arrays_of_every_type(dtype: str, background: str) -> None:
    rows = TABLE > 3 if dtype == "bool" else TABLE.astype(dtype)
    absent = {"rows": rows[:2], "zero": 0, "bare": "mean"}.get(background, (background, rows))
    check(of_array, rows, absent)
    check(of_array, np.asfortranarray(rows), absent)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_a_background_between_integers_is_used_or_refused(dtype: Any) -> None:
    rows = TABLE.astype(dtype)
    between = np.array([0.25, 1])
    with pytest.raises(
        InputError,
        match=re.escape(
            "background: the rows hold integers in column 0, the background other numbers, and "
            "the model answers differently where the rows are made floats; pass a background of "
            "integers"
        ),
    ):
        Explainer(of_array, between)(rows)
    answer = Explainer(lambda x: x @ [1.0, 10], between)(rows)
    np.testing.assert_allclose(answer.values, (rows - between) * [1, 10])


def test_a_wider_integer_does_not_overflow() -> None:
    rows = TABLE.astype(np.int8)
    answer = Explainer(lambda x: x.astype(float).sum(axis=1), np.array([1000, -1000]))(rows)
    np.testing.assert_allclose(answer.values, TABLE - [1000, -1000])


def test_digits_that_cannot_be_mixed_are_refused() -> None:
    rows = np.array([[1, 2]], dtype=np.longdouble) / 3
    if np.array_equal(rows, rows.astype(float)):
        pytest.skip("long doubles are doubles here")
    with pytest.raises(InputError, match=r"rows: float128 has more digits than can be mixed"):
        Explainer(of_array, 0)(rows)


def test_objects_keep_their_types() -> None:
    rows = np.array([[1, 0.5], [True, ID + 1], [Decimal("0.1"), 3]], dtype=object)
    for background in (("mean", TABLE), "mode", "mean", rows[:1], 0):
        check(of_array, rows, background)
    with pytest.raises(InputError, match=r"rows\[0\]: wanted numbers, got an array of objects"):
        Explainer(lambda *parts: parts[0][:, 0], 0)((rows, rows))


def test_lists_are_arrays() -> None:
    check(lambda x: of_array(np.asarray(x)), TABLE.tolist(), ("mean", TABLE))


def test_a_model_that_writes_into_its_inputs_leaves_the_rows_alone() -> None:
    rows = TABLE.astype(float)

    def model(x: Any) -> Any:
        x *= 2
        return x.sum(axis=1)

    for given in (rows, torch.tensor(rows)):
        Explainer(model, ("mean", given))(given)
        with adapt(model, None, None) as adapted:
            adapted.call(encode(given, 0, None, adapted).untouched(slice(2)))
        np.testing.assert_array_equal(given, TABLE)


# Integers


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
def test_integers_whose_mean_is_whole_stay_integers(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2, 3], "x": [0.0, 1.0, 2.0]})
    answer = Explainer(codes, ("mean", rows))(rows, budget=4)
    assert answer.predictions.tolist() == [10, 20, 30]
    assert answer.base_values.tolist() == [20, 20, 20]
    assert encode(rows, ("mean", rows), None, AdaptedModel(codes)).evaluations == 0


@every_library
def test_a_mean_is_rounded_where_the_model_tells_integers_from_floats(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2, 2], "x": [0.0, 1.0, 2.0]})
    message = (
        "background: the model tells integers from floating numbers, so integers stay integers, "
        "and the background is rounded: mean 1.66667 of column 'k' to 2; pass "
        "background=('mode', rows), or rows of floats"
    )
    with pytest.warns(ShearWarning, match=re.escape(message)) as caught:
        answer = Explainer(codes, ("mean", rows))(rows, budget=4)
    assert caught[0].filename == __file__
    assert answer.predictions.tolist() == [10, 20, 20]
    assert answer.base_values.tolist() == [20, 20, 20]
    with pytest.warns(ShearWarning, match=re.escape(message)):
        inputs = encode(rows, ("mean", rows), None, AdaptedModel(codes))
    assert inputs.evaluations == 9  # as they are, as floats, and as they are once more


@every_library
def test_a_mean_is_exact_where_floats_do_no_harm(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2, 2], "x": [0.0, 1.0, 2.0]})

    def model(frame: Any) -> Any:
        return nw.from_native(frame, eager_only=True)["k"].to_numpy() * 3.0

    inputs = encode(rows, ("mean", rows), None, AdaptedModel(model))
    assert inputs.evaluations == 6
    answer = Explainer(model, ("mean", rows))(rows, budget=4)
    np.testing.assert_allclose(answer.base_values, 5)


def test_floats_are_tried_on_the_backgrounds_rows_alone() -> None:
    """So the rule is the same for all rows that are explained against one background."""
    background = pd.DataFrame({"k": [1, 2, 2, 2]})
    tried: list[Any] = []

    def model(frame: Any) -> Any:
        tried.append(frame.k.tolist())
        return frame.k * 1.0

    encode(pd.DataFrame({"k": [7, 8, 9]}), ("mean", background), None, AdaptedModel(model))
    assert tried == [[1, 2, 2, 2], [1.0, 2.0, 2.0, 2.0]]


def test_rows_of_an_integer_array_are_tried_alike() -> None:
    rows = np.array([[1, 2], [2, 2], [2, 5]])
    with pytest.warns(ShearWarning, match="rounded: mean 1.66667 of column 0 to 2;"):
        answer = Explainer(of_array, ("mean", rows))(rows, budget=4)
    np.testing.assert_allclose(answer.predictions, of_array(rows))
    np.testing.assert_allclose(answer.base_values, of_array(np.array([[2, 3]]))[0])
    harmless = Explainer(lambda x: x @ [3.0, 1], ("mean", rows))(rows, budget=4)
    np.testing.assert_allclose(harmless.base_values, 8)


@pytest.mark.parametrize(
    "answers",
    [
        lambda numbers: torch.tensor(numbers, requires_grad=True),
        lambda numbers: list(numbers),
        lambda numbers: pd.Series(numbers),
        lambda numbers: np.array(numbers),
    ],
)
def test_answers_of_every_kind_are_compared(answers: Any) -> None:
    rows = np.array([[1], [2], [2]])
    same = AdaptedModel(lambda x: answers((x[:, 0] * 1.5).tolist()))
    other = AdaptedModel(lambda x: answers([float(x.dtype.kind == "i")] * len(x)))
    assert encode(rows, "mean", None, same).background.dtype == torch.float64
    with pytest.warns(ShearWarning, match="the model tells integers"):
        assert encode(rows, "mean", None, other).background.dtype == torch.int64


@pytest.mark.parametrize("answer", [object(), {"a": 1}, None, [[1], [2, 3]]])
def test_answers_that_cannot_be_compared_are_the_same(answer: Any) -> None:
    inputs = encode(TABLE, "mean", None, AdaptedModel(lambda _: answer))
    assert inputs.background.dtype == torch.float64


def test_labels_are_compared_too() -> None:
    def model(x: Any) -> Any:
        return np.array(["whole" if x.dtype.kind == "i" else "other"] * len(x))

    with pytest.warns(ShearWarning, match="the model tells integers"):
        encode(TABLE, "mean", None, AdaptedModel(model))


def test_a_model_that_takes_floats_alone_gets_them() -> None:
    def model(x: Any) -> Any:
        assert x.dtype.kind == "f"
        return x.sum(axis=1)

    inputs = encode(TABLE, "mean", None, AdaptedModel(model))
    assert inputs.evaluations == 3
    with pytest.warns(ShearWarning, match="fails on the rows themselves, but not on mixes"):
        answer = Explainer(model, "mean")(TABLE)
    np.testing.assert_allclose(answer.values, TABLE - TABLE.mean(axis=0))


# Ids


IDS = np.array([[ID + 1, 1], [(1 << 62) + 3, 2], [-(1 << 60) - 1, 4]])


@pytest.mark.parametrize("background", ["median", "mode", "rows", "zero"])
def test_large_ids_of_an_array_are_exact(background: str) -> None:
    absent: Any = {"rows": IDS[:2], "zero": 0}.get(background, (background, IDS))
    assert check(of_array, IDS, absent) == 0
    inputs = encode(IDS, absent, None, AdaptedModel(of_array))
    if background == "median":
        assert inputs.decode(inputs.background).tolist() == [[ID + 1, 2]]


def test_the_mean_of_large_ids_is_rounded_without_doubles() -> None:
    with pytest.warns(
        ShearWarning, match=r"beyond 2\^53, .*rounded: mean 2.33333 of column 1 to 2"
    ):
        inputs = encode(IDS, ("mean", IDS), None, AdaptedModel(of_array))
    total = sum(IDS[:, 0].tolist())
    assert inputs.background[0, 1] == 2
    assert abs(inputs.background[0, 0].item() * 3 - total) <= 1


@pytest.mark.parametrize("statistic", ["mean", "median", "mode"])
def test_unsigned_ids_are_exact(statistic: str) -> None:
    rows = np.array([[2**64 - 1], [2**64 - 1]], dtype=np.uint64)
    inputs = encode(rows, (statistic, rows), None, AdaptedModel(of_array))
    assert inputs.decode(inputs.background).tolist() == [[2**64 - 1]]
    check(of_array, rows, (statistic, rows))


def test_ids_beside_other_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"integers beyond 2\^53, which floating numbers cannot"):
        Explainer(of_array, np.array([0.5, 1]))(IDS)
    check(of_array, IDS, np.array([3.0, 1.0]))


@every_library
@pytest.mark.parametrize("statistic", ["mean", "median", "mode"])
def test_large_ids_of_a_frame_are_exact(library: str, statistic: str) -> None:
    rows = FRAMES[library]({"id": [ID + 1, ID + 3, (1 << 62) + 1], "x": [0.5, 1.0, 2.0]})
    assert check(of_frame, rows, (statistic, rows)) == 0
    inputs = encode(rows, (statistic, rows), None, AdaptedModel(of_frame))
    absent = nw.from_native(inputs.decode(inputs.background), eager_only=True)["id"][0]
    total = 2 * ID + 4 + (1 << 62) + 1
    expected = {"mean": (total + 1) // 3, "median": ID + 3, "mode": ID + 1}[statistic]
    assert absent == expected


@pytest.mark.parametrize("statistic", ["mean", "median", "mode"])
def test_large_ids_of_several_inputs_are_exact(statistic: str) -> None:
    ids = IDS[:, :1]
    numbers = TABLE.astype(np.float32)

    def model(x: Any, y: Any) -> Floats:
        return of_array(x) + of_array(y)

    check(model, (numbers, ids), (statistic, (numbers, ids)))
    adapted = AdaptedModel(lambda parts: model(*parts))
    inputs = encode((numbers, ids), (statistic, (numbers, ids)), None, adapted)
    absent = inputs.decode(inputs.background)[1].item()
    if statistic == "mean":
        assert abs(absent * 3 - sum(ids[:, 0].tolist())) <= 1
    else:
        assert absent in ids


# Precision


@pytest.mark.parametrize("background", ["mean", "median", "mode", "doubles"])
def test_single_precision_stays_single(background: str) -> None:
    net = nn.Linear(3, 1)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    absent = rows[:2].astype(np.float64) if background == "doubles" else (background, rows)

    def model(x: Any) -> Any:
        return net(torch.from_numpy(x)).detach().numpy()

    answer = Explainer(model, absent)(rows)
    np.testing.assert_allclose(answer.predictions, model(rows)[:, 0])

    def of_pandas(frame: pd.DataFrame) -> Any:
        return model(frame.to_numpy().copy())

    frame = pd.DataFrame(rows, columns=list("abc"))
    given = frame[:2].astype(np.float64) if background == "doubles" else (background, frame)
    same = Explainer(of_pandas, given)(frame)
    np.testing.assert_allclose(same.values, answer.values, atol=1e-6)
    of_tensors = Explainer(lambda x: net(x), absent)(torch.tensor(rows))
    np.testing.assert_allclose(of_tensors.values, answer.values, atol=1e-6)


# Functions of tensors


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool],
)  # fmt: skip
@pytest.mark.parametrize("background", ["mode", "rows", "zero"])
def test_a_function_gets_tensors_for_tensors(dtype: torch.dtype, background: str) -> None:
    rows = torch.tensor(TABLE).to(dtype)
    absent: Any = {"mode": ("mode", rows), "rows": rows[:1].numpy(force=True) if dtype != torch.bfloat16 else rows[:1], "zero": 0}[background]  # fmt: skip
    check(of_tensor, rows, absent)


def test_a_function_of_several_tensors() -> None:
    rows = (torch.tensor(TABLE).float(), torch.tensor(TABLE))
    check(lambda x, y: of_tensor(x) + of_tensor(y), rows, 0)
    mixed = (torch.tensor(TABLE).float(), TABLE)
    check(lambda x, y: of_tensor(x).numpy() + of_array(y), mixed, 0)


def test_answers_that_require_a_gradient() -> None:
    net = nn.Linear(2, 1)

    def model(x: torch.Tensor) -> Any:
        with torch.enable_grad():
            return net(x.requires_grad_())

    rows = torch.tensor(TABLE).float()
    answer = Explainer(model, ("mean", rows))(rows)
    np.testing.assert_allclose(answer.predictions, net(rows).detach()[:, 0], rtol=1e-6)


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
    with adapt(net, None, None) as adapted:
        first = encode(TABLE, ("mean", TABLE), None, adapted).untouched(slice(2))
    assert first.dtype == torch.float64
    np.testing.assert_allclose(answer.predictions[:2], net(first).detach()[:, 0])


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
    with pytest.warns(
        ShearWarning,
        match="background: column 'c' has the categories x, y, z there and y, z in the rows, so a "
        "category's code differs, and a model that uses codes reads the two differently; give both",
    ):
        answer = Explainer(codes_of, absent)(rows)
    assert answer.predictions.tolist() == [0, 1]
    np.testing.assert_allclose(answer.base_values, 2 if statistic else 4 / 3)
    check(codes_of, rows, absent)


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
    check(codes_of, rows, background)


# Cells of every kind

CELLS: dict[str, dict[str, Any]] = {
    "pandas": {
        "Int64": pd.array([1, 2, 4], dtype="Int64"),
        "Int64 with NA": pd.array([1, None, 4], dtype="Int64"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "Float32": pd.array([1.5, None, 4], dtype="Float32"),
        "objects": np.array([1, 2, 3], dtype=object),
        "several types": np.array([1, "a", None], dtype=object),
        "uint8": np.array([1, 2, 4], dtype=np.uint8),
        "float16": np.array([1, 2, 4.5], dtype=np.float16),
        "float32": np.array([1, 2, 4.5], dtype=np.float32),
        "int64[pyarrow]": pd.array([1, 2, 4], dtype="int64[pyarrow]"),
        "string[pyarrow]": pd.array(["a", "b", "c"], dtype="string[pyarrow]"),
        "decimal[pyarrow]": pd.array([Decimal("1.10"), Decimal("2.25"), Decimal("3.30")], dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
        "dictionary[pyarrow]": pd.array(["a", "b", "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
        "datetime": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
        "time zone": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).tz_localize("Europe/Rome"),
        "timedelta": pd.to_timedelta([1, 2, 3], unit="D"),
        "period": pd.period_range("2024", periods=3, freq="M"),
        "decimals": np.array([Decimal("1.1"), Decimal(2), Decimal(3)], dtype=object),
        "bool": [True, False, True],
        "sparse": pd.arrays.SparseArray([0, 0, 1]),
        "holes": [1.0, np.nan, 3.0],
        "categories of integers": pd.Categorical([3, 1, 3]),
    },
    "polars": {
        "Int8": pl.Series([1, 2, 4], dtype=pl.Int8),
        "Int128": pl.Series([1, 2, 4], dtype=pl.Int128),
        "UInt64": pl.Series([2**64 - 1, 2**63, 1], dtype=pl.UInt64),
        "Decimal": pl.Series([Decimal("1.10"), Decimal("2.25"), Decimal("3.30")], dtype=pl.Decimal(10, 2)),
        "Categorical": pl.Series(["z", "y", "z"], dtype=pl.Categorical),
        "Enum": pl.Series(["z", "y", "z"], dtype=pl.Enum(["y", "q", "z"])),
        "Date": [dt.date(2024, 1, 1)] * 3,
        "Duration": [dt.timedelta(1)] * 3,
        "Float32": pl.Series([1, 2, 4.5], dtype=pl.Float32),
        "holes": [1, None, 4],
        "nothing": [None] * 3,
        "bytes": [b"a", b"b", b"c"],
    },
    "pyarrow": {
        "int8": pa.array([1, 2, 4], pa.int8()),
        "holes": pa.array([1, None, 4]),
        "decimal": pa.array([Decimal("1.10"), Decimal("2.25"), Decimal("3.30")]),
        "dictionary": pa.array(["z", "y", "z"]).dictionary_encode(),
        "timestamp": pa.array([dt.datetime(2024, 1, 1)] * 3),
        "float32": pa.array([1, 2, 4.5], pa.float32()),
        "float16": pa.array([1, 2, 4.5], pa.float16()),
        "bool": pa.array([True, None, False]),
        "large_string": pa.array(["a", "b", "c"], pa.large_string()),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("library", "kind"), [(library, kind) for library in CELLS for kind in CELLS[library]]
)
def test_cells_of_every_kind(library: str, kind: str) -> None:
    rows = FRAMES[library]({"x": [0.5, 1.0, 2.0], "c": CELLS[library][kind]})
    for background in (("mean", rows), ("median", rows), ("mode", rows), rows[:1], "mode"):
        check(of_frame, rows, background)


def test_the_mean_of_decimals_has_their_digits() -> None:
    rows = pl.DataFrame({"c": CELLS["polars"]["Decimal"]})
    inputs = encode(rows, ("mean", rows), None, AdaptedModel(of_frame))
    assert inputs.decode(inputs.background)["c"].to_list() == [Decimal("2.22")]


def test_a_foreign_order_of_bytes_in_pandas_is_refused() -> None:
    rows = pd.DataFrame({"c": np.array([1, 2], dtype=">i4")})
    with pytest.raises(InputError, match=r"rows: column 'c' is >i4, of a foreign order of bytes"):
        Explainer(of_frame, 0)(rows)


def test_the_background_takes_on_the_types_of_the_rows() -> None:
    rows = pd.DataFrame({"i": np.array([1, 2], np.int32), "f": np.array([1, 2], np.float32), "s": ["a", "b"], "b": [True, False]})  # fmt: skip
    background = pd.DataFrame({"i": [3, 4], "f": [0.1, 0.2], "s": pd.Categorical(["b", "a"]), "b": [1, 0]})  # fmt: skip
    backgrounds: list[Any] = [background, ("mode", background), [3.0, 0.1, "b", True]]
    for absent in backgrounds:
        inputs = encode(rows, absent, None, AdaptedModel(of_frame))
        given = inputs.decode(inputs.background)
        assert dict(given.dtypes) == dict(rows.dtypes)
        check(of_frame, rows, absent)


def test_truth_values_beside_a_number_between_them() -> None:
    rows = pd.DataFrame({"b": [True, False]})
    with pytest.raises(InputError, match="the rows hold integers in column 'b'"):
        Explainer(of_frame, [0.5])(rows)
    answer = Explainer(lambda frame: frame["b"] * 1.0, [0.5])(rows)
    np.testing.assert_allclose(answer.values, [[0.5], [-0.5]])


def test_the_model_sees_no_index_and_its_own_order_of_columns() -> None:
    rows = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}, index=[9, 9])
    adapted = AdaptedModel(lambda x: x, feature_names=("a", "b"))
    for background in (("mean", rows), rows[:1], "mean"):
        inputs = encode(rows, background, None, adapted)
        for given in (inputs.untouched(slice(1)), inputs.decode(inputs.rows)):
            assert given.columns.tolist() == ["a", "b"]
            assert given.index.tolist() == list(range(len(given)))


# Labels of columns


def test_columns_may_be_labelled_by_numbers() -> None:
    rows = pd.DataFrame(np.arange(6.0).reshape(3, 2))

    def model(frame: Any) -> Any:
        assert frame.columns.tolist() == [0, 1]
        return 10 * frame[0] + frame[1]

    for background in (("mean", rows), rows.mean(), rows.mean().to_dict(), [2.0, 3.0]):
        answer = Explainer(model, background)(rows)
        assert answer.feature_names == ["0", "1"]
        np.testing.assert_allclose(answer.values, (rows - [2, 3]) * [10, 1], atol=1e-12)
    grouped = Explainer(model, ("mean", rows), groups={"both": ["0", "1"]})(rows)
    assert grouped.feature_names == ["both"]
    check(model, rows, ("mean", rows))


def test_a_column_of_ids_beside_columns_labelled_by_numbers() -> None:
    rows = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    inputs = encode(rows, ("mean", rows), None, AdaptedModel(of_frame), index="1")
    assert inputs.index.tolist() == [1, 3, 5]
    for given in (inputs.untouched(slice(3)), inputs.decode(inputs.rows)):
        assert given.columns.tolist() == [0]


def test_columns_of_several_levels() -> None:
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    rows = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=levels)
    check(lambda frame: frame["a"][1] * 10 + frame["a"][2], rows, ("mean", rows))


@pytest.mark.parametrize("labels", [[0, 0], [0, "0"], [1, "a"]])
def test_labels_that_are_alike_or_of_several_kinds_are_refused(labels: Any) -> None:
    rows = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=labels)
    with pytest.raises(
        InputError, match="rows: column names must be all strings or all of another"
    ):
        Explainer(of_frame, 0)(rows)


# A number for a frame


@every_library
def test_a_number_is_the_background_of_a_frame_of_numbers(library: str) -> None:
    rows = FRAMES[library]({"k": [1, 2], "x": [0.5, 1.0], "b": [True, False]})
    check(of_frame, rows, 0)
    answer = Explainer(codes, 0)(rows)
    assert answer.base_values.tolist() == [-1, -1]
    words = FRAMES[library]({"x": [0.5, 1.0], "s": ["a", "b"]})
    with pytest.raises(
        InputError,
        match="background: wanted a frame or a row by name, as column 's' is String; got the number",
    ):
        Explainer(of_frame, 0)(words)


def test_masked_backgrounds_of_frames_are_refused() -> None:
    rows = pd.DataFrame({"x": [0.5, 1.0]})
    with pytest.raises(InputError, match="background: masked entries are no numbers"):
        explain(of_frame, rows, reference=np.ma.masked_array([1.0], [True]), budget=4)


def test_a_random_model_is_not_taken_for_one_that_tells_integers_from_floats() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"k": [1, 2, 4], "x": [0.0, 1.0, 2.0]})

    def noisy(frame: pd.DataFrame) -> Floats:
        return np.asarray(rng.normal(size=len(frame)))

    with pytest.warns(ShearWarning, match="two identical calls differently") as caught:
        Explainer(noisy, ("mean", rows))(rows)
    assert len(caught) == 1


def test_a_large_output_does_not_hide_one_that_tells_integers_from_floats() -> None:
    def price_and_chance(rows: Any) -> Floats:
        chance = np.full(len(rows), 0.7 if rows.dtype.kind == "i" else 0.2)
        return np.stack([rows.sum(axis=1) * 1e6, chance], axis=1)

    with pytest.raises(InputError, match="the model answers differently where the rows are made"):
        Explainer(price_and_chance, TABLE + 0.5)(TABLE)


def test_the_mode_of_a_one_hot_block_is_one_hot_in_a_tuple_too() -> None:
    blocks = np.array(
        [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    )
    numbers = np.zeros((7, 1))
    inputs = encode(
        (numbers, blocks),
        ("mode", (numbers, blocks)),
        [[0], [1, 2, 3]],
        AdaptedModel(lambda *parts: parts[0]),
    )
    assert inputs.background.tolist() == [[0, 0, 0, 1]]


@every_library
def test_ids_do_not_round_the_columns_beside_them(library: str) -> None:
    """Only what floats would change stays integers: the mean of an age is exact beside ids."""
    rows = FRAMES[library]({"id": [2**60 + 1, 2**60 + 2], "age": [3, 4]})
    seen = []

    def model(frame: Any) -> Any:
        table = nw.from_native(frame, eager_only=True)
        seen.extend(table["id"].to_list())
        return table["age"].to_numpy() * 1.0

    answer = Explainer(model, ("mean", rows))(rows, budget=4)
    np.testing.assert_allclose(answer.base_values, 3.5)
    assert {2**60 + 1, 2**60 + 2} <= set(seen)

    background = FRAMES[library]({"id": [0.5], "age": [3.5]})
    with pytest.raises(InputError, match="hold integers beyond 2\\^53"):
        Explainer(model, background)(rows, budget=4)


NUMBERS = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("model", "background", "rows", "message"),
    [
        (codes, ("mean", np.full((3, 2), 2**60)), np.ones((2, 2), np.int8), "rows of int8 cannot hold"),
        (codes, torch.zeros(1, 2).to_sparse(), NUMBERS, "a tensor that is sparse"),
        (nn.Linear(2, 1), {"a": 1.0, "b": "x"}, NUMBERS, "'b' is 'x', and this kind of model takes"),
    ],
)  # fmt: skip
def test_backgrounds_that_do_not_fit_are_refused_in_our_words(
    model: Any, background: Any, rows: Any, message: str
) -> None:
    with pytest.raises(InputError, match=f"^background: .*{message}"):
        Explainer(model, background)(rows)


def test_a_background_of_bfloat16_beside_integers() -> None:
    """numpy has no such type, and takes it in double precision."""
    background = torch.full((1, 2), 0.5, dtype=torch.bfloat16)
    answer = Explainer(lambda x: x.sum(axis=1), background)(np.array([[1, 2]]))
    np.testing.assert_allclose(answer.values, [[0.5, 1.5]])
