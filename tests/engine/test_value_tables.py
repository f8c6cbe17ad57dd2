"""Tables of values, for data engines: one schema, whatever the batch, and small pickles."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from recipes import COUNT, HOUSES, PLAYERS, check_values, prepared, price
from shearshap import Conditional, Explainer, InputError
from shearshap.engine.prepared import PreparedExplainer

NUMBERS = HOUSES[PLAYERS[:3]]
WORTH = price(HOUSES)


def in_arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


BATCHES: dict[str, Any] = {
    "pandas": lambda rows: rows,
    "pandas of Arrow": lambda rows: in_arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_pandas,
    "pyarrow": in_arrow,
    "record batch": lambda rows: pa.RecordBatch.from_pandas(rows, preserve_index=False),
    "arrays": lambda rows: {name: rows[name].to_numpy() for name in rows},
    "objects": lambda rows: {name: rows[name].to_numpy(dtype=object) for name in rows},
    "other order": lambda rows: rows[rows.columns[::-1]],
}


def copied(ready: PreparedExplainer) -> PreparedExplainer:
    """What another process gets."""
    copy: PreparedExplainer = pickle.loads(pickle.dumps(ready))
    assert copy is not ready
    return copy


def test_the_schema_is_known_before_the_first_batch() -> None:
    ready = prepared()
    assert ready.schema == pa.schema(
        {
            "id": pa.string(),
            "base_value": pa.float64(),
            "prediction": pa.float64(),
            "gap": pa.float64(),
            "evaluations": pa.int64(),
            **{f"value.{name}": pa.float64() for name in PLAYERS},
            **{f"standard_error.{name}": pa.float64() for name in PLAYERS},
        }
    )
    frame = ready.explain(HOUSES).to_frame("pyarrow", wide=True)
    check_values(frame.cast(ready.schema).to_pandas(), ready)


@pytest.mark.parametrize("kind", BATCHES)
def test_every_kind_of_batch(kind: str) -> None:
    ready = prepared()
    for count in (0, 1, COUNT):
        values = ready.table(BATCHES[kind](HOUSES[:count]))
        assert values.schema == ready.schema
        assert len(values) == count
    check_values(values.to_pandas(), ready)


def test_values_do_not_depend_on_batches_or_copies() -> None:
    ready = prepared()
    copy = copied(ready)
    for sizes in ([1, 1, 2, 36, 80], [50, 70]):
        ends = np.cumsum(sizes)
        parts = [
            copy.table(HOUSES[end - size : end]) for size, end in zip(sizes, ends, strict=True)
        ]
        check_values(pa.concat_tables(parts).to_pandas(), ready)


@pytest.mark.parametrize(
    "explainer",
    [
        Explainer(price, HOUSES[:9], method="leverage"),
        Explainer(price, HOUSES[:9], method="kernel"),
        Explainer(price, Conditional(HOUSES[PLAYERS], samples=9)),
    ],
)
def test_columns_do_not_depend_on_the_rows(explainer: Explainer) -> None:
    columns = HOUSES[PLAYERS]
    if not isinstance(explainer.background, Conditional):
        explainer = Explainer(price, columns[:9], method=explainer.method)
    calls: list[dict[str, Any]] = [{}, {"tol": 0.5}]
    for call in calls:
        if call and explainer.method == "kernel":
            continue
        ready = explainer.prepare(columns[:30], budget=90, **call)
        schemas = [ready.table(columns[at : at + 3]).schema for at in (0, 3, 60)]
        assert schemas == [ready.schema] * 3
        assert ("converged" in ready.schema.names) == bool(call)


def forest(rows: Any, worth: Any) -> Any:
    return RandomForestRegressor(8, random_state=0).fit(rows, worth)


@pytest.mark.parametrize(
    "explainer",
    [
        Explainer(forest(NUMBERS, WORTH), NUMBERS),
        Explainer(forest(NUMBERS, WORTH)),
        Explainer(RandomForestClassifier(4, random_state=0).fit(NUMBERS, HOUSES["city"]), NUMBERS),
        Explainer(LinearRegression().fit(NUMBERS, WORTH), ("median", NUMBERS)),
        Explainer(torch.nn.Linear(3, 2), NUMBERS),
    ],
)
def test_copies_of_every_kind_of_model(explainer: Explainer) -> None:
    ready = explainer.prepare(NUMBERS[:40])
    expected = ready.table(NUMBERS)
    copy = copied(ready)
    assert copy.explain(NUMBERS[:1]).method == ready.overview.method
    for name, column in zip(ready.schema.names, copy.table(in_arrow(NUMBERS)), strict=True):
        np.testing.assert_allclose(column, expected[name], atol=1e-6)


def test_samples_of_arrays_take_arrays() -> None:
    table = NUMBERS.to_numpy()
    ready = Explainer(lambda x: x[:, 0] * x[:, 1] + x[:, 2], table[:5]).prepare(table[:30])
    expected = ready.table(table)
    assert expected.schema == ready.schema
    for batch in ({"data": table}, in_arrow(NUMBERS), NUMBERS):
        assert ready.table(batch).equals(expected)
    trained = Explainer(forest(NUMBERS, WORTH), NUMBERS).prepare(table[:30])
    assert trained.table(NUMBERS[NUMBERS.columns[::-1]]).equals(trained.table(table))


# Ids


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (np.arange(COUNT, dtype=np.int32), pa.int32()),
        (pd.Categorical(["a", "b"] * (COUNT // 2)), pa.string()),
        (pd.date_range("2026-01-01", periods=COUNT, unit="us"), pa.timestamp("us")),
        ([Decimal(1)] * 40 + [Decimal(10**9)] * (COUNT - 40), pa.decimal128(38, 0)),
        (["a"] * 40 + [None] * (COUNT - 40), pa.string()),
        (pd.array([1] * 40 + [None] * (COUNT - 40), dtype="Int64"), pa.int64()),
    ],
)
def test_ids_of_every_type_are_carried_along(ids: Any, kind: pa.DataType) -> None:
    rows = HOUSES[PLAYERS].assign(key=ids)
    ready = Explainer(price, rows[PLAYERS][:9]).prepare(rows[:40], budget=90, index="key")
    values = ready.table(rows)
    assert values.schema.field("key").type == kind
    assert values["key"].to_pylist() == pa.array(rows["key"]).cast(kind).to_pylist()
    assert "key" not in [name.split(".")[-1] for name in ready.schema.names[1:]]


def test_an_id_may_have_the_name_of_another_column() -> None:
    rows = HOUSES.rename(columns={"id": "prediction"})
    ready = Explainer(price, HOUSES[PLAYERS][:9]).prepare(rows[:40], index="prediction")
    assert ready.table(rows)["row"].to_pylist() == HOUSES["id"].tolist()


def test_what_is_wrong_with_a_batch() -> None:
    ready = prepared()
    for batch, words in (
        ("rows.parquet", "batch: expected a frame, a record batch, .* got str"),
        (HOUSES.drop(columns="id"), "batch: column 'id' is missing"),
        (HOUSES.drop(columns="area"), "batch: column 'area' is missing"),
        (HOUSES.assign(more=1), "batch: unexpected column 'more'"),
        ({"area": np.zeros(3), "age": np.zeros(2)}, "batch: the arrays are no columns of a table"),
        (HOUSES.assign(area="large"), "column 'area' is Float64, but String in the rows"),
    ):
        with pytest.raises(InputError, match=words):
            ready.table(batch)
    numbered = Explainer(price, HOUSES[PLAYERS][:9]).prepare(
        HOUSES.assign(id=range(COUNT))[:40], index="id"
    )
    with pytest.raises(InputError, match="batch: column 'id' cannot become int64"):
        numbered.table(HOUSES)
    for index, words in (("key", "name of a column of the rows, got 'key'"), ([1], "got list")):
        with pytest.raises(InputError, match=words):
            Explainer(price, HOUSES).prepare(HOUSES, index=index)  # type: ignore[arg-type]


# Copies in other threads and processes


def test_a_copy_is_small_and_a_process_opens_it_once() -> None:
    many = pd.concat([HOUSES] * 200)
    ready = Explainer(price, many).prepare(HOUSES[:40], budget=120, index="id")
    ready.table(HOUSES)
    pickled = pickle.dumps(ready)
    assert len(pickled) < 60_000
    copy = pickle.loads(pickled)
    assert pickle.loads(pickled) is copy
    assert copied(prepared()) is not copy


def test_threads_share_what_was_prepared() -> None:
    ready = prepared()
    parts = [HOUSES[at : at + 10] for at in range(0, COUNT, 10)]
    with ThreadPoolExecutor(4) as threads:
        values = pa.concat_tables(threads.map(ready.table, parts))
    check_values(values.to_pandas(), ready)


def test_another_process_computes_the_same_in_one_thread(tmp_path: Path) -> None:
    ready = prepared()
    (tmp_path / "ready.pickle").write_bytes(pickle.dumps(ready))
    code = f"""
import pickle, sys
import torch
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import recipes
used = []
recipes.price = lambda rows, own=recipes.price: (used.append(torch.get_num_threads()), own(rows))[1]
torch.set_num_threads(2)
ready = pickle.load(open({str(tmp_path / "ready.pickle")!r}, "rb"))
ready.table(recipes.HOUSES).to_pandas().to_parquet({str(tmp_path / "values.parquet")!r})
assert set(used) == {{1}}, used
assert torch.get_num_threads() == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    check_values(pd.read_parquet(tmp_path / "values.parquet"), ready)
