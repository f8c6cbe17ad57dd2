"""Frames of pandas, polars and pyarrow: columns, order, types, strings and missing values reach the model as they were."""

import re
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

from games import Floats, all_coalitions, exact_shares, network
from shearshap import Explainer, InputError
from shearshap.data import encode
from shearshap.data.background import STATISTICS
from shearshap.models import AdaptedModel

LIBRARIES = ("pandas", "polars", "pyarrow")
every_library = pytest.mark.parametrize("library", LIBRARIES)


def people(count: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, count),
            "city": rng.choice(np.array(["Rome", "Oslo", "Bern", None]), count),
            "kind": pd.Categorical(rng.choice(list("abc"), count), categories=list("cab")),
            "height": np.where(rng.random(count) < 0.2, np.nan, rng.normal(170, 10, count)),
            "member": rng.random(count) < 0.5,
        }
    )


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


def schema(frame: Any) -> Any:
    if isinstance(frame, pd.DataFrame):
        return dict(frame.dtypes)
    return frame.schema


class Recorder:
    """A model that keeps what it was given, and knows nothing else."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __call__(self, frame: Any) -> Floats:
        self.given.append(frame)
        return np.array([float(hash(row[:2]) % 97) for row in cells(frame)])


@every_library
def test_the_model_sees_frames_as_they_were_given(library: str) -> None:
    frame = like(library, people())
    rows, background = some(frame, 10, 14), some(frame, 0, 2)
    model = Recorder()
    answer = Explainer(model, background)(rows)
    assert answer.feature_names == ["age", "city", "kind", "height", "member"]
    for given in model.given:
        assert type(given) is type(frame)
        assert list(nw.from_native(given).columns) == answer.feature_names
        assert schema(given) == schema(frame)
    mixes = {row for given in model.given for row in cells(given)}
    for row, absent in ((row, absent) for row in cells(rows) for absent in cells(background)):
        assert row in mixes
        assert absent in mixes
        assert (row[0], *absent[1:]) in mixes
        assert (*row[:3], absent[3], row[4]) in mixes
    known = [set(column) for column in zip(*cells(rows), *(), strict=True)]
    absent_known = [set(column) for column in zip(*cells(background), strict=True)]
    for row in mixes:
        assert all(
            value in ours | theirs
            for value, ours, theirs in zip(row, known, absent_known, strict=True)
        )


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


@every_library
@pytest.mark.parametrize("groups", [None, {"both": ["city", "height"]}])
def test_a_new_statistic_is_one_line_for_frames(
    library: str, groups: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATISTICS, "maximum", lambda rows, _owner: np.nanmax(rows, axis=0))
    frame = like(library, people())
    model = Recorder()
    Explainer(model, ("maximum", frame), groups=groups)(some(frame, 0, 2))

    age, city, kind, height, member = cells(model.given[0])[0]
    pandas = people()
    assert age == pandas["age"].max()
    assert height == pandas["height"].max()
    for name, value in (("city", city), ("kind", kind), ("member", member)):
        same = pandas[name].isna() if value is None else pandas[name] == value
        assert same.sum() == pandas[name].value_counts(dropna=False).max()


def test_the_mode_takes_a_groups_columns_together() -> None:
    frame = pl.DataFrame(
        {"a": ["x"] * 4 + ["y"] * 3 + ["z"] * 3, "b": ["p", "q", "r", "s"] + ["p"] * 6}
    )
    model = Recorder()
    Explainer(model, ("mode", frame), groups={"both": ["a", "b"]})(frame[:2])
    assert cells(model.given[0])[0] == ("y", "p")


def test_statistics_leave_nan_out_in_every_library() -> None:
    for library in LIBRARIES:
        frame = like(library, pd.DataFrame({"x": [1.0, np.nan, 3.0, 8.0]}))
        model = Recorder()
        Explainer(model, ("mean", frame))(some(frame, 0, 2))
        assert cells(model.given[0])[0] == (4.0,)
    nullable = pd.DataFrame({"x": pd.array([1, None, 3, 8], dtype="Int64")})
    model = Recorder()
    Explainer(model, ("mean", nullable))(nullable[:2])
    assert cells(model.given[0])[0] == (4.0,)
    with_nan = pl.DataFrame({"x": [1.0, float("nan"), 3.0, 8.0]})
    model = Recorder()
    Explainer(model, ("median", with_nan))(with_nan[:2])
    assert cells(model.given[0])[0] == (3.0,)


# What people read


def test_numbers_for_strings_and_words_for_people() -> None:
    frame = people()[:3]
    answer = Explainer(Recorder(), people()[10:11])(frame)
    assert answer.data is not None
    assert answer.display_data is not None
    np.testing.assert_array_equal(answer.data[:, 0], frame["age"])
    assert answer.display_data[:, 1].tolist() == [None if x != x else x for x in frame["city"]]
    words = sorted({x for x in frame["city"] if x == x})
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
    with pytest.raises(InputError, match=r"index: wanted 2 labels, one for each row, got 3"):
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
            "groups are incomplete: input columns [4] belong to no player",
        ),
        ({"age": ["city"]}, "groups: player 'age' leaves out the column of its own name"),
        (
            {"x": ["age", "city"], "y": ["city"]},
            "groups overlap: input column 1 is in the groups of players [0, 1]",
        ),
    ],
)
def test_groups_by_name_are_checked(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(Recorder(), people()[:1], groups=groups)(people()[:2])


@pytest.mark.parametrize(
    ("rows", "background", "message"),
    [
        (people().drop(columns="city"), people(), "background: there is no use for column 'city'"),
        (people(), people().drop(columns=["city", "age"]), "background: column 'age' is missing (2 of 5 are: ['age', 'city'])"),
        (people(), like("polars", people()), "background: it is a polars frame and the rows are pandas; give both as one"),
        (people(), people()[:0], "background: there are no rows in the frame"),
        (people()[:0], people(), "rows: there is nothing to explain in a frame of shape (0, 5)"),
        (people(), np.zeros(3), "background: wanted a frame with the rows' columns, a row by name, or an array of shape (b, 5)"),
        (people(), [[1, 2], [3]], "or an array of shape (b, 5), got list of another shape"),
        (people(), {"age": 3}, "background: 'city' is missing; wanted age, city, kind, height, member"),
        (people(), ("mean", people(), 1), "background: wanted a pair such as ('mean', rows), got a tuple of 3"),
        (people().assign(age="old"), people(), "rows: column 'age' is String, and Int64 in the background; give both the same type"),
        (people().assign(member="no"), people(), "rows: column 'member' is String, and Boolean in the background"),
        (people(), ("mean", people().assign(height=np.nan)), "background: all values of column 'height' are missing, so it has no mean"),
        (people().rename(columns={"age": 7}), people(), "rows: column names must be all strings or all of another kind, and no two of them alike, got 7 among 7, 'city'"),
        (people()[:1], "mean", "there is only one, which would be its own background; pass background=('mean', rows)"),
        (people(), ("average", people()), "background: wanted one of mean, median, mode"),
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
        (Recorder(), torch.zeros(1, 2).to_sparse(), NUMBERS, "background: .*a tensor that is sparse"),
        (Recorder(), np.ma.masked_array([1.0, 1.0], [True, False]), NUMBERS, "background: masked entries are no numbers"),
        (Recorder(), 0, NUMBERS.assign(s="x"), "as column 's' is String; got the number 0"),
        (Recorder(), 0, NUMBERS.astype(">i4"), "rows: column 'a' is >i4, of a foreign order of bytes"),
        (nn.Linear(2, 1), {"a": 1.0, "b": "x"}, NUMBERS, "'b' is 'x', and this kind of model takes numbers"),
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
        InputError, match="rows: column 'city' is String, and this kind of model takes numbers only"
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


@pytest.mark.parametrize("fitted", ["pandas", "polars"])
def test_a_pipeline_explains_its_original_columns_alike_in_every_library(fitted: str) -> None:
    """A missing string is NaN in pandas and None elsewhere: the model gets what it was fitted to."""
    model = pipeline(like(fitted, people(400)), LABELS)
    answers = []
    for library in LIBRARIES:
        frame = like(library, people(400))
        answers.append(Explainer(model, ("mean", frame))(some(frame, 0, 20)))
    for answer in answers:
        assert answer.feature_names == ["age", "city", "kind", "height", "member"]
        assert answer.output_names == ["no", "yes"]
        np.testing.assert_allclose(answer.values, answers[0].values, atol=1e-12)
        np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    np.testing.assert_allclose(
        answers[0].predictions, model.predict_proba(like(fitted, people(400))[:20]), atol=1e-12
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
        frame[:0],
    ):
        if isinstance(background, pd.DataFrame):
            background = pd.DataFrame({"a": [2.0], "b": [1.0]})
        answer = Explainer(
            model, background, feature_names=["Bee", "Ay"], groups={"first": [0], "second": [1]}
        )(turned)
        np.testing.assert_allclose(answer.base_values, 21)
        np.testing.assert_allclose(
            answer.values, np.stack((turned["b"] - 1, 10 * (turned["a"] - 2)), axis=1), atol=1e-9
        )
        assert answer.feature_names == ["Bee", "Ay"]


def test_a_series_by_name_for_a_network() -> None:
    net = network(2)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(4, 2)), columns=["a", "b"])
    mixed = Explainer(net, frame.mean()[["b", "a"]])(frame)
    np.testing.assert_allclose(mixed.values, Explainer(net, ("mean", frame))(frame).values)


def test_a_missing_column_is_named() -> None:
    model = pipeline(people(400), LABELS)
    with pytest.raises(
        InputError, match=r"rows: column 'city' is missing \(1 of 5 are: \['city'\]\)"
    ):
        Explainer(model, people())(people().drop(columns="city"))
    with pytest.raises(
        InputError,
        match="rows: there is no use for column 'label'; drop what the model does not take",
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
    for background in (("mean", rows), rows[:1], "mean"):
        inputs = encode(rows, background, None, adapted)
        for given in (inputs.untouched(slice(1)), inputs.decode(inputs.rows)):
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
    for given in (inputs.untouched(slice(3)), inputs.decode(inputs.rows)):
        assert given.columns.tolist() == [0]


def test_columns_of_several_levels() -> None:
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    rows = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=levels)
    answer = Explainer(lambda frame: frame["a"][1] * 10 + frame["a"][2], ("mean", rows))(rows)
    np.testing.assert_allclose(answer.values, (rows - [2, 3]) * [10, 1], atol=1e-12)


@pytest.mark.parametrize("labels", [[0, 0], [0, "0"], [1, "a"]])
def test_labels_that_are_alike_or_of_several_kinds_are_refused(labels: Any) -> None:
    rows = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=labels)
    with pytest.raises(
        InputError, match="rows: column names must be all strings or all of another"
    ):
        Explainer(Recorder(), 0)(rows)
