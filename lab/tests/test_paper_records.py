"""Records of the paper's studies: made of columns, filtered, joined, written and read."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from paper_records import BOTH, CENSUS, EVERY, GERMAN, ROUNDS, ROWS
from shearshap.store import Store
from shearshap_lab.experiments.records import (
    STUDIES,
    column,
    joined,
    part,
    read,
    table,
    where,
    write,
)
from shearshap_lab.experiments.studies import TRUTH
from shearshap_lab.experiments.summaries import values_of


def test_the_made_up_records_are_of_every_study() -> None:
    assert set(BOTH) == set(STUDIES)
    assert all(records.schema == STUDIES[study] for study, records in BOTH.items())
    assert values_of(BOTH["models"], "dataset") == ["census", "german"]
    assert set(values_of(BOTH["estimates"], "method")) == {*EVERY, TRUTH}


def test_one_value_stands_for_a_whole_column() -> None:
    ones = dict.fromkeys(STUDIES["bounds"].names, 1) | {"dataset": "a", "recipe": "ours"}
    bounds = table("bounds", ones | {"loss": np.array([0.5, 2.0])})
    assert bounds.schema == STUDIES["bounds"]
    assert bounds["dataset"].to_pylist() == ["a", "a"]
    assert bounds["loss"].to_pylist() == [0.5, 2.0]
    assert len(table("bounds", ones)) == 1


def test_records_are_those_whose_columns_equal() -> None:
    filtered = where(BOTH["estimates"], dataset="german", method="kriging", n=16, seed=1)
    slow = [
        row
        for row in BOTH["estimates"].to_pylist()
        if (row["dataset"], row["method"], row["n"], row["seed"]) == ("german", "kriging", 16, 1)
    ]
    assert filtered.to_pylist() == slow
    assert len(slow) == ROUNDS * ROWS
    assert len(where(BOTH["estimates"], dataset="nowhere")) == 0
    assert column(filtered, "n").tolist() == [16] * len(slow)


def test_parts_are_joined_in_order_and_none_make_an_empty_table() -> None:
    assert joined("models", []).schema == STUDIES["models"]
    assert len(joined("models", [])) == 0
    assert BOTH["models"].to_pylist() == [
        *CENSUS["models"].to_pylist(),
        *GERMAN["models"].to_pylist(),
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for study, records in BOTH.items():
        write(records, tmp_path / "records" / f"{study}.parquet")
    again = read(tmp_path / "records")
    assert list(again) == list(STUDIES)
    assert all(again[study].equals(BOTH[study]) for study in STUDIES)


def test_records_are_computed_once_and_again_when_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, "parts")
    path = tmp_path / "parts" / "bounds.parquet"
    computed = []

    def compute() -> pa.Table:
        computed.append(1)
        return CENSUS["bounds"]

    def bounds() -> pa.Table:
        return part(store, "bounds", "bounds.parquet", compute)

    assert bounds().equals(bounds())
    assert len(computed) == 1
    path.write_bytes(path.read_bytes()[:-20])
    assert bounds().equals(CENSUS["bounds"])
    assert len(computed) == 2
    write(CENSUS["models"], path)  # the columns of another version
    assert bounds().equals(bounds())
    assert len(computed) == 3
