"""Frames of pandas, polars and pyarrow: columns, order, types, strings and missing values reach the model as they were."""

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from games import Floats, all_coalitions, exact_shares, network, people
from shearshap import Explainer, InputError
from shearshap.data import encode
from shearshap.data.frames import FrameLayout, as_frame, column_labels
from shearshap.data.tables import FramePool
from shearshap.models import AdaptedModel

LIBRARIES = ("pandas", "polars", "pyarrow")
every_library = pytest.mark.parametrize("library", LIBRARIES)


def like(library: str, frame: pd.DataFrame) -> Any:
    if library == "pandas":
        return frame
    return (
        pl.from_pandas(frame)
        if library == "polars"
        else pa.Table.from_pandas(frame, preserve_index=False)
    )


def some(frame: Any, start: int, stop: int) -> Any:
    return frame.slice(start, stop - start) if isinstance(frame, pa.Table) else frame[start:stop]


def cells(frame: Any) -> list[tuple[Any, ...]]:
    table = nw.from_native(frame, eager_only=True)
    return [
        tuple(None if x is None or x is pd.NA or x != x else x for x in row) for row in table.rows()
    ]


class Recorder:
    """A model that keeps what it was given, and knows nothing else."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __call__(self, frame: Any) -> Floats:
        self.given.append(frame)
        return np.array([float(hash(row[:2]) % 97) for row in cells(frame)])


@every_library
def test_values_against_one_evaluation_at_a_time(library: str) -> None:
    """The slow way: a frame of one row for every coalition, put together cell by cell."""
    frame = like(library, people())
    model = Recorder()
    answer = Explainer(model, some(frame, 3, 4))(some(frame, 20, 22))
    (absent,) = cells(some(frame, 3, 4))
    for at, row in enumerate(cells(some(frame, 20, 22))):
        mixes = [
            tuple(r if z else a for z, r, a in zip(kept, row, absent, strict=True))
            for kept in all_coalitions(5)
        ]
        table = np.array([float(hash(mix[:2]) % 97) for mix in mixes])
        np.testing.assert_allclose(answer.values[at], exact_shares(table), atol=1e-9)


# Statistics


@every_library
@pytest.mark.parametrize("statistic", ["mean", "median", "mode"])
def test_statistics_of_frames(library: str, statistic: str) -> None:
    frame = like(library, people())
    inputs = encode(some(frame, 0, 2), (statistic, frame), None, AdaptedModel(Recorder()))
    pandas = people()
    (absent,) = cells(inputs.decode(inputs.background))
    commonest = {name: pandas[name].value_counts(dropna=False).max() for name in pandas}
    for name, value in zip(pandas, absent, strict=True):
        numbers = name in ("age", "height")
        if numbers and statistic != "mode":
            assert value == pytest.approx(getattr(pandas[name], statistic)())
        else:
            same = pandas[name].isna() if value is None else pandas[name] == value
            assert same.sum() == commonest[name]


def test_the_mode_takes_a_groups_columns_together() -> None:
    frame = pl.DataFrame(
        {"a": ["x"] * 4 + ["y"] * 3 + ["z"] * 3, "b": ["p", "q", "r", "s"] + ["p"] * 6}
    )
    model = Recorder()
    Explainer(model, ("mode", frame), groups={"both": ["a", "b"]})(frame[:2])
    assert cells(model.given[0])[0] == ("y", "p")


NUMBERS_WITH_A_GAP = pd.DataFrame({"x": [1.0, np.nan, 3.0, 8.0]})


@pytest.mark.parametrize(
    "frame",
    [
        *(like(library, NUMBERS_WITH_A_GAP) for library in LIBRARIES),
        NUMBERS_WITH_A_GAP.astype("Int64"),
        pl.DataFrame({"x": [1.0, float("nan"), 3.0, 8.0]}),
    ],
)
def test_statistics_leave_nan_out_in_every_library(frame: Any) -> None:
    model = Recorder()
    Explainer(model, ("mean", frame))(some(frame, 0, 2))
    assert cells(model.given[0])[0] == (4.0,)


# What people read


def test_numbers_for_strings_and_words_for_people() -> None:
    frame = people()[:3]
    answer = Explainer(Recorder(), people()[10:11])(frame)
    assert answer.data is not None
    assert answer.display_data is not None
    np.testing.assert_array_equal(answer.data[:, 0], frame["age"])
    assert answer.display_data[:, 1].tolist() == [None if x != x else x for x in frame["city"]]
    words = sorted(set(frame["city"].dropna()))
    assert [
        words[int(code)] if code < len(words) else None for code in answer.data[:, 1]
    ] == answer.display_data[:, 1].tolist()


def test_frames_of_one_hot_columns_show_the_column_that_is_on() -> None:
    frame = pd.DataFrame({"age": [30.0, 40.0], "city_Rome": [1.0, 0.0], "city_Oslo": [0.0, 1.0]})
    answer = Explainer(
        lambda x: x.to_numpy().sum(axis=1), frame[:1], groups={"city": ["city_Rome", "city_Oslo"]}
    )(frame)
    assert answer.feature_names == ["city", "age"]
    assert answer.display_data is not None
    assert answer.display_data.tolist() == [["city_Rome", 30.0], ["city_Oslo", 40.0]]


def test_a_pandas_index_labels_the_rows() -> None:
    model = AdaptedModel(lambda x: x)
    frame = people(3).set_index(pd.Index(["x", "y", "z"], name="key"))
    inputs = encode(frame, frame[:1], None, model)
    assert inputs.index.tolist() == ["x", "y", "z"]
    assert inputs.index_name == "key"

    pairs = [("a", 1), ("a", 2), ("b", 1)]
    levels = pd.MultiIndex.from_tuples(pairs, names=["shop", "day"])
    inputs = encode(frame.set_index(levels), frame[:1], None, model)
    assert inputs.index.dtype == object
    assert inputs.index.tolist() == pairs
    assert inputs.index_name == ("shop", "day")


@every_library
@pytest.mark.parametrize("background", ["with ids", "without ids", "mean"])
def test_a_column_of_ids_labels_the_rows_and_stays_away_from_the_model(
    library: str, background: str
) -> None:
    ids = [f"id {row}" for row in range(60)]
    frame = like(library, people().assign(id=ids))
    plain = like(library, people())
    absent: Any = {
        "with ids": some(frame, 0, 2),
        "without ids": some(plain, 0, 2),
        "mean": ("mean", frame),
    }[background]

    inputs = encode(frame, absent, None, AdaptedModel(lambda x: x), index="id")
    assert inputs.index.tolist() == ids
    assert inputs.index_name == "id"
    assert inputs.names == ["age", "city", "kind", "height", "member"]
    assert list(nw.from_native(inputs.decode(inputs.rows)).columns) == inputs.names


def test_a_column_of_ids_for_a_model_of_numbers() -> None:
    numbers = people()[["age", "member"]].assign(id=np.arange(60) + 100)
    model = AdaptedModel(lambda x: x, takes_frames=False)
    inputs = encode(numbers, ("mean", numbers), None, model, index="id")
    assert inputs.index.tolist() == list(range(100, 160))
    assert inputs.rows.shape == (60, 2)


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "cba"])
@pytest.mark.parametrize("ordered", [False, True])
def test_codes_of_categories_are_those_of_the_rows(order: str, *, ordered: bool) -> None:
    """A model that reads codes predicts the same, however the background orders its categories."""

    def by_code(frame: pd.DataFrame) -> Any:
        return frame["kind"].cat.codes.to_numpy() * 10.0 + frame["x"].to_numpy()

    kinds = pd.CategoricalDtype(list("abc"), ordered=ordered)
    rows = pd.DataFrame({"kind": pd.Series(list("abca"), dtype=kinds), "x": np.arange(4.0)})
    others = rows.iloc[[2, 1]].astype({"kind": pd.CategoricalDtype(list(order), ordered=ordered)})
    try:
        answer = Explainer(by_code, others)(rows)
    except InputError as error:  # another order is another type of ordered categories
        assert ordered and order != "abc", error  # noqa: PT017, PT018
        return
    np.testing.assert_array_equal(answer.predictions, by_code(rows))
    as_rows = others.astype({"kind": kinds})
    np.testing.assert_allclose(answer.base_values, by_code(as_rows).mean())
    assert answer.notes == ()


@pytest.mark.parametrize("labels", [np.arange(3), np.array(["a", "b", "c"], dtype=object)])
def test_labels_and_data_are_the_explanations_own(labels: Any) -> None:
    """Whoever writes into the arrays of the one does not change those of the other."""
    rows = np.arange(6.0).reshape(3, 2)
    before = rows.copy(), labels.copy()
    answer = Explainer(lambda x: x.sum(axis=1), 0.0)(rows, index=labels)
    assert answer.data is not None
    answer.index[0], answer.data[0] = answer.index[1], 100.0
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(labels, before[1])
    rows[1], labels[1] = 200.0, labels[2]
    assert answer.data[1].tolist() == [2.0, 3.0]
    assert answer.index[1] == before[1][1]


def test_labels_of_a_frames_rows() -> None:
    model = AdaptedModel(lambda x: x)
    labels = pd.Series(["a", "b"], name="key")
    inputs = encode(people(2), people(1), None, model, index=labels)
    assert inputs.index.tolist() == ["a", "b"]
    assert inputs.index_name == "key"
    with pytest.raises(
        InputError, match=r"index: there is no column 'key'; the rows have age, city"
    ):
        encode(people(2), people(1), None, model, index="key")
    with pytest.raises(InputError, match=r"index: expected 2 labels, one per row, got 3"):
        encode(people(2), people(1), None, model, index=["a", "b", "c"])


# What is refused


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            {"place": ["town"]},
            "groups: there is no column 'town'; the rows have age, city, kind, height, member",
        ),
        (
            [["age", "city"], ["kind"], ["height"]],
            "groups are incomplete: input columns [4] are not in any group",
        ),
        ({"age": ["city"]}, "groups: group 'age' is named like a column outside it"),
    ],
)
def test_groups_by_name_are_checked(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(Recorder(), people()[:1], groups=groups)(people()[:2])


@pytest.mark.parametrize(
    ("rows", "background", "message"),
    [
        (people().drop(columns="city"), people(), "background: unexpected column 'city'"),
        (people(), people().drop(columns=["city", "age"]), "background: column 'age' is missing (2 of 5 are: ['age', 'city'])"),
        (people().assign(city=[7] + ["Bern"] * 59), like("polars", people()), "rows: the pandas frame cannot become a polars frame: "),
        (people(), people()[:0], "background: the frame has no rows"),
        (people()[[]], people(), "rows: expected rows and columns, got a frame of shape (60, 0)"),
        (people(), np.zeros(3), "background: expected a frame with the rows' columns, a row by name, or an array of shape (b, 5)"),
        (people(), [[1, 2], [3]], "or an array of shape (b, 5), got list of another shape"),
        (people(), {"age": 3}, "background: 'city' is missing; expected age, city, kind, height, member"),
        (people(), ("mean", people(), 1), "background: expected ('mean', X_train), got a tuple of 3"),
        (people().assign(age="old"), people(), "background: column 'age' is Int64, but String in the rows; give both the same type"),
        (people().assign(member="no"), people(), "background: column 'member' is Boolean, but String in the rows"),
        (people(), ("mean", people().assign(height=np.nan)), "background: all values of column 'height' are missing, so it has no mean"),
        (people().rename(columns={"age": 7}), people(), "rows: column names must be unique, and all strings or all of another type; got 7 among 7, 'city'"),
        (people()[:1], None, "Background data is missing. Pass rows to compare with, for example Explainer(model, X_train)."),
        (people(), "mean", "background: 'mean' needs rows; pass ('mean', X_train)"),
        (people(), ("average", people()), "background: expected rows, such as X_train, or one of ('sample', X_train, 100)"),
    ],
)  # fmt: skip
def test_bad_frames_are_refused_before_any_work(rows: Any, background: Any, message: str) -> None:
    model = Recorder()
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(model, background)(rows)
    assert not model.given


NUMBERS = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("model", "background", "rows", "message"),
    [
        (Recorder(), torch.zeros(1, 2).to_sparse(), NUMBERS, "background: expected a dense tensor"),
        (Recorder(), np.ma.masked_array([1.0, 1.0], [True, False]), NUMBERS, "background: masked entries are not supported"),
        (Recorder(), 0, NUMBERS.assign(s="x"), "background: column 's' is Float64, but String in the rows"),
        (nn.Linear(2, 1), {"a": 1.0, "b": "x"}, NUMBERS, "'b' is 'x', but this kind of model takes numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_our_words(
    model: Any, background: Any, rows: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Explainer(model, background)(rows)


# Models


def test_torch_takes_frames_of_numbers_only() -> None:
    net = network(2)
    rows = np.random.default_rng(0).normal(size=(4, 2))
    expected = Explainer(net, ("mean", rows))(rows)
    for library in LIBRARIES:
        frame = like(library, pd.DataFrame(rows, columns=["a", "b"]))
        answer = Explainer(net, ("mean", frame))(frame)
        np.testing.assert_allclose(answer.values, expected.values)
        assert answer.feature_names == ["a", "b"]
    with pytest.raises(
        InputError, match="rows: column 'city' is String, but this kind of model takes numbers only"
    ):
        Explainer(net, people()[["city", "age"]])(people()[["city", "age"]])


def pipeline(frame: Any, labels: Any) -> Pipeline:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city", "kind"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "height"]),
        remainder="passthrough",
    )
    return make_pipeline(columns, LogisticRegression()).fit(frame, labels)


LABELS = np.where((people(400)["age"] > 50) ^ (people(400)["city"] == "Rome"), "yes", "no")


@pytest.mark.slow
def test_a_pipeline_explains_its_original_columns_alike_in_every_library() -> None:
    """But for missing strings, which are NaN in pandas and None in polars, two words to scikit-learn."""
    complete = people(400).assign(city=people(400)["city"].fillna("Bern"))
    model = pipeline(complete, LABELS)
    answers = []
    for library in LIBRARIES:
        frame = like(library, complete)
        answers.append(Explainer(model, ("mean", frame))(some(frame, 0, 20)))
    for answer in answers:
        assert answer.feature_names == ["age", "city", "kind", "height", "member"]
        assert answer.output_names == ["no", "yes"]
        np.testing.assert_allclose(answer.values, answers[0].values, atol=1e-12)
        np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    np.testing.assert_allclose(
        answers[0].predictions, model.predict_proba(complete[:20]), atol=1e-12
    )


def test_columns_in_another_order_are_taken_by_name() -> None:
    model = pipeline(people(400), LABELS)
    usual = Explainer(model, people(400)[:2])(people(400)[:5])
    mixed = people(400)[["member", "kind", "age", "height", "city"]]
    answer = Explainer(model, mixed[:2])(mixed[:5])
    assert answer.feature_names == list(mixed.columns)
    order = [answer.feature_names.index(name) for name in usual.feature_names]
    np.testing.assert_allclose(answer.values[:, order], usual.values)


def test_what_is_given_by_place_goes_by_the_rows_own_order() -> None:
    """The model sees its columns as it was trained; whoever explains sees their own."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    model = LinearRegression().fit(frame, 10 * frame["a"] + frame["b"])
    turned = frame[["b", "a"]]
    for background in (
        np.array([1.0, 2.0]),
        [1, 2],
        {"a": 2.0, "b": 1.0},
        pd.Series({"a": 2.0, "b": 1.0}),
        pd.DataFrame({"a": [2.0], "b": [1.0]}),
    ):
        answer = Explainer(
            model, background, feature_names=["Bee", "Ay"], groups={"first": [0], "second": [1]}
        )(turned)
        np.testing.assert_allclose(answer.base_values, 21)
        np.testing.assert_allclose(
            answer.values, np.stack((turned["b"] - 1, 10 * (turned["a"] - 2)), axis=1), atol=1e-9
        )
        assert answer.feature_names == ["Bee", "Ay"]


def test_a_missing_column_is_named() -> None:
    model = pipeline(people(400), LABELS)
    with pytest.raises(
        InputError, match=r"rows: column 'city' is missing \(1 of 5 are: \['city'\]\)"
    ):
        Explainer(model, people())(people().drop(columns="city"))
    with pytest.raises(
        InputError,
        match="rows: unexpected column 'label'; drop columns that the model does not take",
    ):
        Explainer(model, people())(people().assign(label=1))


def test_one_hot_blocks_behind_a_transformer_are_players_by_their_original_column() -> None:
    """The model behind the transformer, explained on transformed rows, gives what the whole Pipeline gives."""
    model = pipeline(people(400), LABELS)
    before, after = model[:-1], model[-1]
    whole = Explainer(model, people(400)[7:8], scale="log-odds")(people(400)[:6])
    rows, reference = before.transform(people(400)[:6]), before.transform(people(400)[7:8])
    behind = Explainer(after, np.asarray(reference, float), groups=before, scale="log-odds")(
        np.asarray(rows, float)
    )
    order = [behind.feature_names.index(name) for name in whole.feature_names]
    np.testing.assert_allclose(behind.values[:, order], whole.values, atol=1e-9)


# Labels of columns


def test_the_model_sees_no_index_and_its_own_order_of_columns() -> None:
    rows = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}, index=[9, 9])
    adapted = AdaptedModel(lambda x: x, feature_names=("a", "b"))
    for background in (("mean", rows), rows[:1], None):
        inputs = encode(rows, background, None, adapted)
        for given in (inputs.original_rows(slice(1)), inputs.decode(inputs.rows)):
            assert given.columns.tolist() == ["a", "b"]
            assert given.index.tolist() == list(range(len(given)))


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


def test_a_column_of_ids_beside_columns_labelled_by_numbers() -> None:
    rows = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    inputs = encode(rows, ("mean", rows), None, AdaptedModel(Recorder()), index="1")
    assert inputs.index.tolist() == [1, 3, 5]
    for given in (inputs.original_rows(slice(3)), inputs.decode(inputs.rows)):
        assert given.columns.tolist() == [0]


@pytest.mark.parametrize("labels", [[0, 0], [0, "0"], [1, "a"]])
def test_labels_that_are_alike_or_of_several_kinds_are_refused(labels: Any) -> None:
    rows = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=labels)
    with pytest.raises(
        InputError, match="rows: column names must be unique, and all strings or all"
    ):
        Explainer(Recorder(), 0)(rows)


# Mixes of every type, against the slow way: cell by cell, as the library itself takes them

ROWS = 7

DAY = dt.datetime(2020, 1, 1)
DAYS = [None, *(DAY + dt.timedelta(days=day) for day in (0, 0, 3, 1, 2, 1))]
WORDS = ["x", None, "yy", "x", "zzz", "", "x"]
FLOATS = [0.5, np.nan, 0.0, 0.0, np.nan, 0.5, np.inf]
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
    plain = native[["float", "float again"]] if library == "pandas" else native
    for frame in (native, plain):  # with one type of numpy, there is only a block
        width = frame.shape[1]
        cells = np.random.default_rng(1).integers(0, ROWS, (50, width))
        for order in orders(width):
            pool = pool_of(frame, order)
            for mix in (cells, cells[:1]):
                check_equal(pool.mix(mix), slow_mix(frame, order, mix))


@every_library
def test_frames_of_every_type_reach_the_model_as_they_are(library: str) -> None:
    native = FRAMES[library]()
    backgrounds: list[Any] = [("mode", native), native[:2]]
    for background in backgrounds:
        inputs = encode(native, background, None, AdaptedModel(lambda frame: frame))
        check_equal(inputs.decode(inputs.rows), native)
        check_equal(inputs.original_rows(slice(None)), native)


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
            # narwhals before 2.24 does not know half precision
            if name not in UNCOMPARED and table[name].dtype != nw.Unknown():
                texts = [str(cell) for cell in table[name].to_list()]
                if library == "pyarrow" and texts[row] == "nan":
                    continue  # which is not equal to itself there
                assert like[:, place].tolist() == [text == texts[row] for text in texts], name


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.slow
def test_wide_frames_are_made_of_many_rows_at_once() -> None:
    """Each column takes its time, whatever the number of its rows."""
    frame = pd.DataFrame(np.zeros((2, 3000))).rename(columns=str)
    sizes = []

    def model(given: Any) -> Any:
        sizes.append(len(given))
        return given.iloc[:, 0].to_numpy() + 1

    Explainer(model, 1.0, method="permutation")(frame, budget=3002)
    assert max(sizes) > 600  # an array's batches hold 349 rows of 3000 inputs
