"""Tables in files: read as pandas reads them, in one type with the background, or refused in a line."""

import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damaged_files import Reader, read_table
from explain_command import done, written
from explain_command import refusal as failed
from shearshap.apps.jobs import tables
from shearshap.apps.jobs.columns import InputColumns, survey, unified
from shearshap.apps.jobs.shards import InputFile, Shard
from shearshap.errors import InputError

pytestmark = pytest.mark.usefixtures("here")


def notes(text: str) -> list[str]:
    """The notes of a summary."""
    lines = [line for line in text.splitlines() if line.startswith("note ")]
    return [line.removeprefix("note").strip() for line in lines]


# Reading


def test_csv_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    text = "n,x,s,d,t\n1,0.5,a,2020-01-31,True\n,NA,,2020-02-01,False\n3,1e3,None,,True\n"
    (tmp_path / "t.csv").write_text(text + '4,2,"a, b\nc",2020-03-01,False\n')
    (found,) = frames(tables.read(tmp_path / "t.csv", "data"))
    pd.testing.assert_frame_equal(found, pd.read_csv(tmp_path / "t.csv"))


def test_parquet_is_read_without_a_nameless_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.5, 2], "s": pd.Categorical(["x", "y"])}, index=[7, 3])
    frame.to_parquet(tmp_path / "t.parquet")
    (found,) = frames(tables.read(tmp_path / "t.parquet", "data"))
    pd.testing.assert_frame_equal(found, frame.reset_index(drop=True))


def test_the_types_of_a_csv_file_follow_from_all_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are read whole have the same, though the last row here is far from the first."""
    monkeypatch.setattr(tables, "CHUNK_CELLS", 1)  # chunks of 256 rows
    frame = pd.DataFrame({"whole": range(600), "late": range(600), "truth": [True, False] * 300})
    frame = frame.astype({"late": object})
    frame["number"] = frame["late"]
    frame["zeros"] = [f"{number:03}" for number in range(600)]
    frame["hex"] = ["0x1f"] * 600
    frame["empty"] = None
    frame.loc[599, ["late", "number", "whole"]] = ['text, and "quotes"', 2.5, None]
    frame.to_csv(tmp_path / "rows.csv", index=False)

    options: dict[str, Any] = {"text": (), "ids": ["zeros"], "group_rows": 180}
    tables.convert_csv(tmp_path / "rows.csv", tmp_path / "rows.parquet", **options)
    assert pq.read_metadata(tmp_path / "rows.parquet").num_row_groups == 4
    converted = pq.read_table(tmp_path / "rows.parquet")
    whole = tables.read(tmp_path / "rows.csv", "data")
    assert converted["zeros"].to_pylist() == frame["zeros"].tolist()
    assert {each.name: str(each.type) for each in converted.schema} == {
        "whole": "double", "late": "string", "truth": "bool", "number": "double", "zeros": "string", "hex": "string",
        "empty": "double",
    }  # fmt: skip
    for name in ("late", "truth", "number", "hex"):
        assert converted[name].to_pylist() == whole[name].to_pylist()

    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="there are no rows in"):
        tables.convert_csv(tmp_path / "none.csv", tmp_path / "none.parquet", **options)


@pytest.mark.parametrize("out", ["values.parquet", "values/"])
def test_ids_of_a_csv_file_are_what_is_written(here: Path, out: str) -> None:
    """Not missing, as pandas has words such as NA, and not numbers that read otherwise."""
    words = ["--id", "code", "--keep", "sign", "--drop", "sign", "--background", "few.csv"]
    for codes in (["NA", "null", "nan", "", "-0"], ["0", "-1", "12", "3", "4"]):
        lines = [f"{code},-0,{number},2" for number, code in enumerate(codes)]
        (here / "ids.csv").write_text("\n".join(["code,sign,a,b", *lines, ""]))
        shutil.rmtree("values", ignore_errors=True)
        done("score.py:product", "ids.csv", *words, out=out)
        table = pq.read_table(out)
        ids = ["" if each is None else str(each) for each in table["code"].to_pylist()]
        assert ids == codes
        assert table["data.sign"].to_pylist() == ["-0"] * 5


@pytest.mark.parametrize("other", ["", "0.5"])
@pytest.mark.parametrize("out", ["values.parquet", "values/"])
def test_whole_numbers_of_a_csv_file_are_never_rounded(
    here: Path, other: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK_CELLS", 1024)  # 256 rows
    large = 2**53 + 1
    for first, last in ((large, other), (other, large)):
        numbers = [first, *[7] * 600, last]
        lines = [f"{number},1,2" for number in numbers]
        (here / "large.csv").write_text("\n".join(["account,a,b", *lines, ""]))
        refusal = failed("score.py:product", "large.csv", out=out)
        assert re.search(f"'account' of .*large.csv holds whole numbers such as {large},", refusal)
    (here / "large.csv").write_text(f"account,a,b\n{2.0**60:.0f},1,2\n1e300,1,2\n,1,2\n")
    words = ("--drop", "account", "--background", "few.csv")
    done("score.py:product", "large.csv", *words, out=out)


def test_views_of_text_are_read_as_text() -> None:
    names = pa.array(["a", None, "b"], pa.string_view())
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "name": names}), "views.parquet")
    done("score.py:product", "views.parquet", "--background", "few.csv", "--id", "name")
    assert pq.read_table("values.parquet")["name"].to_pylist() == ["a", None, "b"]


def test_ids_that_the_model_does_not_take_keep_their_digits(here: Path) -> None:
    large = 2**64 + 1
    (here / "ids.csv").write_text(
        f"code,key,n,a,b\n007,{large},5,1,2\n,{large + 1},6,2,3\n100,{large + 2},7,3,4\n"
    )
    words = ["--drop", "code", "--drop", "key", "--drop", "n", "--background", "few.csv"]
    assert notes(done("score.py:product", "ids.csv", *words)) == []
    table = pq.read_table("values.parquet")
    assert table["data.code"].to_pylist() == ["007", None, "100"]
    assert table["data.key"].to_pylist() == [str(large), str(large + 1), str(large + 2)]
    assert table["data.n"].to_pylist() == [5, 6, 7]
    assert table["data.a"].to_pylist() == [1, 2, 3]


def test_an_index_without_a_name_is_left_out_and_told(here: Path) -> None:
    pd.read_csv("rows.csv").to_csv("indexed.csv")
    assert (here / "indexed.csv").read_text().startswith(",a,b,s\n")
    text = done("score.py:predict", "indexed.csv", "--background", "absent.csv")
    assert "rows        3 of indexed.csv, 3 features each\n" in text
    assert (
        "note        the first column of indexed.csv has no name, like a saved pandas index, and is left out\n"
        in text
    )
    assert written()["value.a"].tolist() == [2, 4, 6]
    assert "not used" not in text


def test_doubtful_cells_are_noted(here: Path) -> None:
    (here / "x.csv").write_text("a,b,s\n1,2,3\n2,3,?\n4,5,6")
    text = done("score.py:total", "x.csv")
    assert "the last line of x.csv does not end with a line break; is the file truncated?" in text
    assert (
        "column 's' of x.csv is read as text: 2 of its 3 cells are numbers, but '?' is not" in text
    )
    (here / "x.csv").write_text("a,b,s\n1,2,A11\n2,3,4\n4,5,B\n")
    assert "note" not in done("score.py:total", "x.csv", "--background", "all:x.csv")


@pytest.mark.parametrize(
    ("data", "content", "message"),
    [
        ("no.csv", None, "data: there is no file no.csv"),
        ("x.xlsx", "", "data: expected a file that ends in .csv, .parquet, .pq, got x.xlsx"),
        ("x.csv", "", "data: x.csv cannot be read: No columns to parse"),
        ("x.csv", "a,b,s\n", "data: there are no rows in x.csv"),
        ("x.csv", "a,a,s\n1,2,3\n", "data: duplicate column 'a' in x.csv"),
        ("x.csv", "a;b;s\n1,5;2;x\n2;3;y\n", "data: expected commas between the columns of x.csv"),
        ("x.csv", "a,b,s\n1,2,x\n3,4,y,5\n", "data: x.csv cannot be read: Error tokenizing data"),
        ("x.csv", "a,b,s\n1,2,x,5\n", "data: x.csv cannot be read: Length of header"),
        ("x.csv", 'a,b,s\n1,2,"x\n', "data: x.csv cannot be read: Error tokenizing data"),
        ("x.csv", "a,b,s\n1,2,\udce9\n", "data: x.csv is not UTF-8 text"),
        ("x.parquet", "a,b,s\n", "data: x.parquet cannot be read: "),
        (
            "x.csv",
            "a,b,s\n1,2,x\n",
            "Background data is missing. Pass rows to compare with, for example --background sample:train.csv.",
        ),
    ],
)
def test_tables_that_cannot_be_explained(
    here: Path, data: str, content: str | None, message: str
) -> None:
    if content is not None:
        (here / data).write_bytes(content.encode(errors="surrogateescape"))
    (here / "values.parquet").write_text("what was there before")
    assert failed("score.py:predict", data, "--overwrite").startswith(message)
    assert (here / "values.parquet").read_text() == "what was there before"


def test_a_parquet_file_that_was_cut_is_one_line(reader: Reader, here: Path) -> None:
    pd.DataFrame({"a": range(1000), "b": range(1000)}).to_parquet("x.parquet")
    content = (here / "x.parquet").read_bytes()
    for size in (0, 3, 10, len(content) // 2, len(content) - 1):
        message = reader.error(read_table, content[:size], ".parquet")
        assert re.match(r"data: [^ ]+\.parquet cannot be read: .+$", message)


def test_a_parquet_file_with_names_that_are_no_text(reader: Reader, here: Path) -> None:
    pd.DataFrame({"name": [1, 2]}).to_parquet("x.parquet")
    content = (here / "x.parquet").read_bytes()
    message = reader.error(read_table, content.replace(b"name", b"n\xff\xffe"), ".parquet")
    assert re.match(r"data: [^ ]+\.parquet cannot be read: .*utf-8", message)


@settings(max_examples=60)
@given(content=st.binary(max_size=200) | st.text(alphabet='ab1,."\n\r\t\x00é', max_size=200))
def test_any_bytes_are_a_table_or_refused(reader: Reader, content: bytes | str) -> None:
    reader.error(read_table, content.encode() if isinstance(content, str) else content, ".csv")


# Types


def frames(data: Any, background: Any = None, *, categories: bool = False) -> list[Any]:
    """Return a table and a background in the types that a job gives them."""
    tables = [table for table in (data, background) if table is not None]
    files = [InputFile.from_table(table, Path("rows.csv")) for table in tables]
    schema = unified([file.schema for file in files], "data and background")
    columns = InputColumns.from_files(schema, files, text=categories)
    shards = [Shard.from_table(table) for table in tables]
    columns = columns.settled(survey(shards, columns, pa.schema([]), ()))
    return [columns.frame(table) for table in tables]


WORDS, CODED = ["x", None, "z"], pa.array(["y", "x"]).dictionary_encode()


@pytest.mark.parametrize(
    ("data", "background", "kind"),
    [
        ([1, 2], [0.5, 1.5], "float64"),
        ([0.5, 1.5], [1, 2], "float64"),
        (pa.array([1, 2], pa.int32()), pa.array([3], pa.int64()), "int64"),
        (pa.nulls(2), [1, 2], "float64"),
        (pa.nulls(2), WORDS, "str"),
        (pa.array([None, None], pa.float64()), WORDS, "str"),
        ([True, False], [True], "bool"),
        (pa.nulls(2), pa.nulls(1), "float64"),
        (CODED, ["w", "x"], "category"),
        (CODED, pa.array(["w"]).dictionary_encode(), "category"),
        (pa.nulls(2), CODED, "category"),
    ],
)
def test_data_and_background_are_of_one_type(data: Any, background: Any, kind: str) -> None:
    for first, second in ((data, background), (background, data)):
        both = frames(pa.table({"a": first}), pa.table({"a": second}))
        assert both[0]["a"].dtype == both[1]["a"].dtype
        assert both[0]["a"].dtype == kind
        for frame, column in zip(both, (first, second), strict=True):
            cells = column if isinstance(column, list) else column.to_pylist()
            assert [None if cell != cell else cell for cell in frame["a"]] == cells
            assert frame.index.tolist() == list(range(len(column)))


@pytest.mark.parametrize(("data", "background"), [(["3", "?"], [1, 2]), ([1.5], CODED)])
def test_types_that_do_not_go_together_are_refused(data: Any, background: Any) -> None:
    with pytest.raises(InputError, match="data and background have columns of different"):
        frames(pa.table({"a": data}), pa.table({"a": background}), categories=True)


def test_text_that_becomes_categories_has_the_same_ones_everywhere() -> None:
    coded = pa.table({"a": CODED})
    for frame in frames(pa.table({"a": ["z", "x"]}), coded, categories=True):
        assert frame["a"].cat.categories.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("statistic", ["", "mean:"])
@pytest.mark.parametrize(("rows", "absent"), [("1\n3\n", "0.5\n1.5\n"), ("0.5\n1.5\n", "1\n3\n")])
def test_whole_numbers_meet_decimals(here: Path, rows: str, absent: str, statistic: str) -> None:
    (here / "sum.py").write_text(
        "def f(x):\n    return x['n'] + (x['t'] == 'w') + 0 * x['e'].fillna(0)\n"
    )
    (here / "whole.csv").write_text("n,t,e\n" + rows.replace("\n", ",w,\n"))
    (here / "decimal.csv").write_text("n,t,e\n" + absent.replace("\n", ",,1\n"))
    done("sum.py:f", "whole.csv", "--background", f"{statistic}decimal.csv")
    numbers = np.array(rows.split(), dtype=float)
    np.testing.assert_allclose(
        written()["value.n"], numbers - np.array(absent.split(), dtype=float).mean()
    )
    np.testing.assert_allclose(written()["value.t"], 1)


def test_decimals_are_numbers() -> None:
    rows = pd.DataFrame({"a": [Decimal("1.50"), Decimal("2.25")], "b": [1, 2], "s": ["x", "y"]})
    rows.to_parquet("decimals.parquet")
    assert pa.types.is_decimal(pq.read_schema("decimals.parquet").field("a").type)
    done("score.py:predict", "decimals.parquet", "--background", "absent.csv")
    np.testing.assert_allclose(written()["value.a"], [3, 4.5])
    assert written()["data.a"].tolist() == [Decimal("1.50"), Decimal("2.25")]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [([[1], [2]], "list<"), ([{"x": 1}, {"x": 2}], "struct<x: int64>"), ([b"x", b"y"], "binary")],
)
def test_nested_columns_are_refused_unless_they_are_dropped(cells: list[Any], kind: str) -> None:
    pq.write_table(
        pa.table({"a": [1, 2], "b": [1, 2], "s": ["x", "y"], "l": cells}), "nested.parquet"
    )
    told = failed("score.py:predict", "nested.parquet")
    assert told.startswith(f"column 'l' of nested.parquet holds {kind}")
    assert told.endswith(
        ", but a feature is one number or text per row; split it into columns, or leave it out with --drop l"
    )
    done("score.py:predict", "nested.parquet", "--drop", "l")


# Writing


def test_csv_holds_no_formulas(here: Path) -> None:
    texts = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "-5", "+3.5", "plain", None, "a=b", "'x"]
    frame = pd.DataFrame({"a": np.arange(12.0) - 6, "b": 1, "=t": texts})
    frame["c"] = frame["=t"].astype("category")
    frame.to_parquet("odd.parquet")
    words = ("--drop", "=t", "--drop", "c")
    done("score.py:product", "odd.parquet", *words, out="values.csv")
    found = pd.read_csv("values.csv")
    wanted = ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "'\rx", *texts[6:]]
    assert [None if text != text else text for text in found["data.=t"]] == wanted
    assert found["data.c"].equals(found["data.=t"].rename("data.c"))
    assert found["data.a"].tolist() == frame["a"].tolist()  # negative numbers stay numbers
    assert all(not name.startswith(("=", "+", "-", "@")) for name in found.columns)
    line = (here / "values.csv").read_text().splitlines()[1]
    assert line.endswith(',-6,1,"\'=1+1","\'=1+1"')

    done("score.py:product", "odd.parquet", "--id", "=t", "--drop", "c", out="ids.csv")
    assert (here / "ids.csv").read_text().startswith('"\'=t","base_value"')

    done("score.py:product", "odd.parquet", *words)
    kept = pd.read_parquet("values.parquet")["data.=t"]
    assert [None if text != text else text for text in kept] == texts
