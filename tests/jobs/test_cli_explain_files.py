"""`shear explain` and its files: nothing is lost or replaced in silence, and no failure looks like success."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax

from explain_command import done, explain
from explain_command import refusal as failed
from shearshap import Explainer, Explanation
from shearshap.errors import BudgetError, InputError, ModelError
from shearshap.jobs import Job, places
from shearshap.report import GENERATOR

SCORE = """
import sys

def product(frame):
    return frame["a"] * frame["b"]

def total(frame):
    return frame.select_dtypes("number").sum(axis=1)

def exits(frame):
    sys.exit(0)

def exits_late(frame):
    if (frame["a"] == 300).any():
        raise SystemExit("done")
    return frame["a"] * frame["b"]

def fails_late(frame):
    if (frame["a"] == 300).any():
        raise RuntimeError("no 300")
    return frame["a"] * frame["b"]

def stopped_late(frame):
    if (frame["a"] == 300).any():
        raise KeyboardInterrupt
    return frame["a"] * frame["b"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with functions to explain and 400 rows."""
    (tmp_path / "score.py").write_text(SCORE)
    lines = [f"{number},{number % 7}\n" for number in range(400)]
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(lines))
    (tmp_path / "few.csv").write_text("a,b\n" + "".join(lines[:3]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    return tmp_path


def notes(text: str) -> list[str]:
    """The notes of a summary."""
    lines = [line for line in text.splitlines() if line.startswith("note ")]
    return [line.removeprefix("note").strip() for line in lines]


# What the model returns


@pytest.mark.parametrize("words", [[], ["--multilabel"]])
def test_what_a_function_returns_can_be_told(here: Path, words: list[str]) -> None:
    (here / "two.py").write_text(
        "import numpy as np\n\n\n"
        "def scores(frame):\n    return np.stack([frame['a'], -2 * frame['b']], axis=1)\n"
    )
    message = failed("two.py:scores", "few.csv", "--scale", "probability")
    assert "returns='margin'" in message

    done("two.py:scores", "few.csv", "--scale", "probability", "--returns", "margin", *words)
    table = pd.read_parquet("values.parquet")
    scores = np.stack([table["data.a"], -2 * table["data.b"]], axis=1)
    wanted = 1 / (1 + np.exp(-scores)) if words else softmax(scores, axis=1)
    found = table[["prediction.output 0", "prediction.output 1"]]
    np.testing.assert_allclose(found, wanted)


# Models that end the program


def test_a_model_that_calls_exit_is_an_error(here: Path) -> None:
    assert failed("score.py:exits", "few.csv") == (
        "the code of the model score.py:exits called exit (with 0); take the call out, or put it "
        "under if __name__ == '__main__'"
    )
    (here / "script.py").write_text("raise SystemExit\n")
    assert failed("script.py:f", "few.csv").startswith(
        "the code of the model script.py:f called exit (with None); take"
    )
    assert not list(here.glob("values*"))
    job = Job(model="score.py:exits", data=here / "few.csv", out=here / "values.parquet")
    with pytest.raises(ModelError, match="called exit"):
        job.run()


class Exits:
    """Ends the program when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (0,)


@pytest.mark.usefixtures("here")
def test_a_pickle_that_calls_exit_is_an_error() -> None:
    joblib.dump(Exits(), "model.joblib")
    assert failed("model.joblib", "few.csv", "--trust").startswith(
        "the code of the model model.joblib called exit (with 0); take the call out"
    )


def test_a_model_that_ends_the_command_by_its_own_means_is_an_error(here: Path) -> None:
    (here / "own.py").write_text("""
import typer

class Model:
    feature_names_in_ = ["a", "b"]

    def predict(self, rows):
        return rows["a"]

    def unseen(self, rows):
        raise typer.Exit(0)

model = Model()
""")
    assert failed("own.py:model", "few.csv") == "the code of the model own.py:model called exit"


# Rows that were done


def whole() -> Explanation:
    rows = pd.read_csv("rows.csv")
    return Explainer(lambda frame: frame["a"] * frame["b"], "mean")(rows)


def check_partial(path: str, rows: int) -> None:
    """Hold the file of finished rows against the explanation of all rows."""
    found = pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)
    assert len(found) == rows
    wanted = whole()[found["row"].to_numpy()]
    np.testing.assert_allclose(found["value.a"], wanted.values[:, 0])
    np.testing.assert_allclose(found["value.b"], wanted.values[:, 1])
    assert found["data.a"].tolist() == found["row"].tolist()
    assert found["data.b"].tolist() == (found["row"] % 7).tolist()


def finished_rows(message: str) -> int:
    """The number of rows that a message says are done."""
    return int(message.partition("what was done before, ")[2].partition(" row")[0])


@pytest.mark.parametrize("out", ["values.parquet", "values.csv"])
def test_rows_that_were_done_outlive_a_model_that_fails(here: Path, out: str) -> None:
    kept = f"values.partial{Path(out).suffix}"
    message = failed("score.py:fails_late", "rows.csv", out=out)
    assert message.startswith("the model failed on inputs of shape ")
    assert "RuntimeError: no 300 " in message
    assert "(first on row 300 with 2 of 2 players present); what" in message
    assert message.endswith(f" rows, is in {kept}")
    assert 16 <= finished_rows(message) <= 300
    check_partial(kept, finished_rows(message))
    assert not (here / out).exists()

    message = failed("score.py:exits_late", "rows.csv", out=out)
    assert message.startswith("the code of the model score.py:exits_late called exit (with 'done')")
    check_partial(kept, finished_rows(message))


@pytest.mark.usefixtures("here")
def test_the_file_of_finished_rows_says_what_stopped_it() -> None:
    message = failed("score.py:fails_late", "rows.csv")
    facts = json.loads(pq.read_schema("values.partial.parquet").metadata[places.METADATA])
    assert facts["rows"] == finished_rows(message)
    assert facts["unfinished"] == message.partition("; what was done")[0]
    done("score.py:product", "rows.csv")
    facts = json.loads(pq.read_schema("values.parquet").metadata[places.METADATA])
    assert "unfinished" not in facts


def test_rows_that_were_done_outlive_an_interrupt(here: Path) -> None:
    result = explain("score.py:stopped_late", "rows.csv")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("stopped; what was done before, ")
    assert result.stderr.endswith(" rows, is in values.partial.parquet\n")
    check_partial("values.partial.parquet", finished_rows(result.stderr))
    assert not (here / "values.parquet").exists()


def test_finished_rows_of_a_block_are_kept_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream yields them before the error; they need not be the first of their block."""
    explanation = whole()

    def stream(*_: object, **__: object) -> Any:
        yield explanation[:16]
        yield explanation[[20, 21, 399]]
        raise ModelError("the model broke")

    with monkeypatch.context() as patched:
        patched.setattr(Explainer, "stream", stream)
        job = Job(model="score.py:product", data=here / "rows.csv", out=here / "v.parquet")
        message = "the model broke; what was done before, 19 rows"
        with pytest.raises(ModelError, match=message) as info:
            job.run()
    assert info.value.finished.index.tolist() == [*range(16), 20, 21, 399]
    check_partial("v.partial.parquet", 19)


@pytest.mark.parametrize("model", ["fails_late", "fails_at_once"])
def test_the_error_of_a_job_says_where_the_model_failed(here: Path, model: str) -> None:
    with (here / "score.py").open("a") as file:
        file.write("\n\ndef fails_at_once(frame):\n    raise RuntimeError('never')\n")
    job = Job(model=f"score.py:{model}", data=here / "rows.csv", out=here / "v.parquet")
    with pytest.raises(ModelError) as info:
        job.run()
    error = info.value
    assert error.row == (300 if model == "fails_late" else 0)
    assert error.coalition.tolist() == ([True] * 2 if model == "fails_late" else [False] * 2)
    assert list(error.inputs.columns) == ["a", "b"]


def test_the_error_of_a_job_has_the_nearest_budget(here: Path) -> None:
    job = Job(
        model="score.py:product",
        data=here / "few.csv",
        out=here / "v.parquet",
        method="exact",
        budget=3,
    )
    with pytest.raises(BudgetError) as info:
        job.run()
    assert info.value.nearest == 4


def test_ids_that_the_model_does_not_take_keep_their_digits(here: Path) -> None:
    large = 2**64 + 1
    (here / "ids.csv").write_text(
        f"code,key,n,a,b\n007,{large},5,1,2\n,{large + 1},6,2,3\n100,{large + 2},7,3,4\n"
    )
    words = ["--drop", "code", "--drop", "key", "--drop", "n"]
    assert notes(done("score.py:product", "ids.csv", *words)) == []
    table = pq.read_table("values.parquet")
    assert table["data.code"].to_pylist() == ["007", None, "100"]
    assert table["data.key"].to_pylist() == [str(large), str(large + 1), str(large + 2)]
    assert table["data.n"].to_pylist() == [5, 6, 7]
    assert table["data.a"].to_pylist() == [1, 2, 3]


def test_a_model_that_fails_at_once_leaves_no_file(here: Path) -> None:
    (here / "bad.py").write_text("def f(frame):\n    raise RuntimeError('never')\n")
    assert "what was done" not in failed("bad.py:f", "rows.csv")
    assert not list(here.glob("values*"))


# Broken models


@pytest.fixture(scope="module")
def boosters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small models of every native format."""
    import catboost
    import lightgbm
    import xgboost
    from onnx import TensorProto, helper, save

    folder = tmp_path_factory.mktemp("boosters")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    labels = (rows["a"] * rows["b"] > 0).astype(int)
    light = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1)
    light.fit(rows, labels).booster_.save_model(folder / "model.txt")
    extreme = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(rows, labels)
    extreme.save_model(folder / "model.json")
    extreme.save_model(folder / "model.ubj")
    cat = catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False)
    cat.fit(rows, labels).save_model(str(folder / "model.cbm"))

    weights = helper.make_tensor("w", TensorProto.FLOAT, (2, 1), [2.0, -1.0])
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])]
        for name, size in (("x", 2), ("y", 1))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, folder / "model.onnx")
    return folder


@pytest.mark.parametrize("suffix", [".txt", ".json", ".cbm", ".onnx"])
def test_a_model_file_that_was_cut_is_one_line(
    here: Path, boosters: Path, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    content = (boosters / f"model{suffix}").read_bytes()
    file = here / f"cut{suffix}"
    places_to_cut = [0, 4, len(content) // 3, len(content) // 2, len(content) - 40]
    for size in places_to_cut:
        file.write_bytes(content[:size])
        message = failed(file.name, "few.csv")
        assert message.startswith(f"model: cut{suffix} ")
        assert len(message) < 400
    lines = capfd.readouterr().err.splitlines()
    assert not [line for line in lines if not line.startswith("[LightGBM] [Fatal]")]


def test_a_model_of_lightgbm_without_its_last_trees_is_refused(here: Path, boosters: Path) -> None:
    """LightGBM itself loads such a file with fewer trees, and without a word."""
    content = (boosters / "model.txt").read_text()
    (here / "cut.txt").write_text(content[: content.index("end of trees")])
    assert failed("cut.txt", "few.csv") == (
        "model: cut.txt is cut short, or no model of LightGBM: its end is missing"
    )


def test_a_model_of_lightgbm_without_its_categories_is_refused(here: Path, boosters: Path) -> None:
    """LightGBM itself loads such a file, and codes categories by the rows that it is given."""
    content = (boosters / "model.txt").read_text()
    last = content.index("pandas_categorical")
    for size in (last + 1, last + 10, last + 17):
        (here / "cut.txt").write_text(content[:size])
        assert failed("cut.txt", "few.csv") == (
            "model: cut.txt is cut short, or no model of LightGBM: its end is missing"
        )
    (here / "cut.txt").write_text(content[:last])  # as other programs than Python write it
    done("cut.txt", "few.csv")


# Files that are there already


@pytest.mark.parametrize("out", ["values.parquet", "values.csv"])
def test_a_file_of_ours_is_replaced_and_no_other(here: Path, out: str) -> None:
    done("score.py:product", "few.csv", "--report", out=out)
    done("score.py:total", "few.csv", "--report", out=out)  # both are ours

    frame = pd.DataFrame({"row": [1], "value": [2]})
    write = frame.to_csv if out.endswith(".csv") else frame.to_parquet
    write(out, index=False)
    before = (here / out).read_bytes()
    assert failed("no model", "few.csv", out=out) == (
        f"out: {out} is there already, and was not written by shear explain; choose another name, "
        "or replace it with --overwrite"
    )
    assert (here / out).read_bytes() == before
    done("score.py:product", "few.csv", "--overwrite", out=out)
    assert (here / out).read_bytes() != before

    (here / out).write_bytes(b"")  # as a script may have made it to have a name of its own
    done("score.py:product", "few.csv", out=out)


def test_a_page_of_another_maker_is_not_replaced(here: Path) -> None:
    (here / "values.html").write_text("<!DOCTYPE html>\n<title>My notes</title>\n")
    assert failed("no model", "few.csv", "--report").startswith(
        "report: values.html is there already, and was not written by shear explain"
    )
    assert "My notes" in (here / "values.html").read_text()
    done("score.py:product", "few.csv")  # without --report, it is in nobody's way
    done("score.py:product", "few.csv", "--report", "--overwrite")
    page = (here / "values.html").read_text()
    assert f'<meta name="generator" content="{GENERATOR}">' in page


def test_the_file_of_finished_rows_replaces_no_other(here: Path) -> None:
    (here / "values.partial.parquet").write_text("mine")
    assert failed("no model", "few.csv").startswith(
        "out: values.partial.parquet is there already, and was not written by shear explain"
    )
    (here / "values.partial.csv").write_text("a,b\n1,2\n")
    message = failed("score.py:product", "values.partial.csv", "--overwrite", out="values.csv")
    assert message.startswith("out: values.partial.csv is the data explained, and would be")


def test_what_is_read_is_not_replaced_even_so(here: Path) -> None:
    message = failed("score.py:product", "few.csv", "--overwrite", out="few.csv")
    assert (
        message
        == "out: few.csv is the data explained, and would be overwritten; choose another name"
    )
    (here / "few.csv").replace(here / "other.csv")
    os.mkfifo(here / "values.csv")
    assert failed("no model", "other.csv", "--overwrite", out="values.csv") == (
        "out: values.csv is not a regular file; choose another name"
    )


# Places


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_the_longest_name_can_be_written(here: Path, suffix: str, letter: str) -> None:
    """Though the names of the file that is being written, and of finished rows, are longer."""
    stem = letter * ((255 - len(suffix)) // len(letter.encode()))
    done("score.py:product", "few.csv", out=stem + suffix)
    assert (here / (stem + suffix)).is_file()
    failed("score.py:fails_late", "rows.csv", out=stem + suffix)
    assert len(list(here.glob(f"*.partial{suffix}"))) == 1


@pytest.mark.usefixtures("here")
def test_names_that_no_file_can_have_are_refused_before_any_work() -> None:
    name = "x" * 300 + ".csv"
    assert (
        failed("no model", "few.csv", out=name)
        == f"out: {name} cannot be written: File name too long"
    )
    name = "x/" * 2100 + "y.csv"
    assert failed("no model", "few.csv", out=name).endswith("cannot be written: File name too long")
    name = "x" * 251 + ".pq"
    assert failed("no model", "few.csv", "--report", out=name).startswith("report: xxx")
    job = Job(model="no model", data=Path("few.csv"), out=Path("a\0b.csv"))
    with pytest.raises(
        InputError, match=r"out: 'a\\x00b.csv' is not a valid file name: embedded null"
    ):
        job.run()
    assert (
        failed("no model", "few.csv", out="few.csv/values.csv") == "out: there is no folder few.csv"
    )


@pytest.mark.usefixtures("here")
def test_a_full_disk_is_noticed_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> "FullDisk":
            return self

        def __exit__(self, *_: object) -> None: ...
        def write(self, _: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(places, "TemporaryFile", FullDisk)
    assert failed("no model", "few.csv") == (
        "out: nothing can be written to the folder .: No space left on device"
    )


@pytest.mark.parametrize("writer", ["pyarrow.parquet.write_table", "pyarrow.csv.write_csv"])
def test_a_disk_that_runs_full_leaves_nothing_half_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    out = "values.csv" if "csv" in writer else "values.parquet"

    def full(_: object, place: Any) -> None:
        if isinstance(place, Path):
            place.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer, full)
    assert failed("score.py:product", "few.csv", out=out) == (
        f"out: {out} cannot be written: No space left on device; no file is left half written"
    )
    assert not [
        path
        for path in here.iterdir()
        if path.suffix in (".partial", Path(out).suffix)
        and path.name not in ("few.csv", "rows.csv")
    ]


def test_a_report_that_cannot_be_written_leaves_the_values(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shearshap.report.explained.report", full)
    assert failed("score.py:product", "few.csv", "--report") == (
        "report: values.html cannot be written: No space left on device; the values are in values.parquet"
    )
    assert len(pd.read_parquet("values.parquet")) == 3
    assert not (here / "values.html").exists()


def test_columns_that_a_file_cannot_hold_are_told_before_any_work(here: Path) -> None:
    nested = pa.table({"a": [1, 2], "b": [3, 4], "l": [[1], [2]]})
    pq.write_table(nested, here / "nested.parquet")
    words = ("--drop", "l")
    message = failed("score.py:exits", "nested.parquet", *words, out="values.csv")
    assert message.startswith("out: values.csv cannot hold all columns: ")
    odd = pa.table({"a": [1, 2], "b": [3, 4], "l": [b"text", b"\xff"]})
    pq.write_table(odd, here / "nested.parquet")
    message = failed("score.py:exits", "nested.parquet", *words, out="values.csv")
    assert message.startswith("out: values.csv cannot hold all columns: Invalid UTF8")


@pytest.mark.parametrize("where", ["at import", "in a prediction"])
def test_a_model_that_changes_the_folder_changes_no_paths(here: Path, where: str) -> None:
    (here / "other").mkdir()
    (here / "other" / "few.csv").write_text("a,b\n7,7\n8,8\n")
    change = f"os.chdir({str(here / 'other')!r})"
    first, later = (change, "pass") if where == "at import" else ("pass", change)
    (here / "moves.py").write_text(
        f"import os\n{first}\ndef f(frame):\n    {later}\n    return frame['a'] * frame['b']\n"
    )
    done("moves.py:f", "few.csv")
    assert pd.read_parquet(here / "values.parquet")["data.a"].tolist() == [0, 1, 2]
    assert sorted(path.name for path in (here / "other").iterdir()) == ["few.csv"]


# Texts that a spreadsheet would run


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

    done("score.py:product", "odd.parquet", *words)
    kept = pd.read_parquet("values.parquet")["data.=t"]
    assert [None if text != text else text for text in kept] == texts


# Tables that were cut, or are of another kind


def test_a_byte_order_mark_is_dropped(here: Path) -> None:
    (here / "x.csv").write_bytes(b"\xef\xbb\xbf" + b"a,b\n1,2\n3,4\n")
    assert notes(done("score.py:product", "x.csv")) == []
    assert pd.read_parquet("values.parquet")["data.a"].tolist() == [1, 3]


def test_a_parquet_file_that_was_cut_is_one_line(here: Path) -> None:
    pd.DataFrame({"a": range(1000), "b": range(1000)}).to_parquet("x.parquet")
    content = (here / "x.parquet").read_bytes()
    for size in (0, 3, 10, len(content) // 2, len(content) - 1):
        (here / "x.parquet").write_bytes(content[:size])
        assert failed("score.py:product", "x.parquet").startswith(
            "data: x.parquet cannot be read: "
        )


# Cells that may mean something else

# From a terminal


@pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")
def test_control_c_keeps_the_rows_that_were_done(here: Path) -> None:
    (here / "slow.py").write_text("""
import pathlib, time

def f(frame):
    if (frame["a"] == 300).any():
        pathlib.Path("begun").touch()
        time.sleep(60)
    return frame["a"] * frame["b"]
""")
    words = ["--model", "slow.py:f", "--data", "rows.csv", "--out", "values.parquet"]
    command = subprocess.Popen(
        [sys.executable, "-m", "shearshap.cli", "explain", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_until((here / "begun").exists)
    command.send_signal(signal.SIGINT)
    _, message = command.communicate(timeout=60)
    assert command.returncode == 130
    assert message.endswith(" rows, is in values.partial.parquet\n")
    check_partial("values.partial.parquet", finished_rows(message))


def _wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def test_doubtful_cells_are_noted(here: Path) -> None:
    (here / "x.csv").write_text("a,b,s\n1,2,3\n2,3,?\n4,5,6")
    text = done("score.py:total", "x.csv")
    assert "the last line of x.csv has no end; the file may have been cut" in text
    assert (
        "column 's' of x.csv is read as text: 2 of its 3 cells are numbers, but '?' is not" in text
    )
    (here / "x.csv").write_text("a,b,s\n1,2,A11\n2,3,4\n4,5,B\n")
    assert "note" not in done("score.py:total", "x.csv")
