"""Jobs that write a file: the values are an explainer's, nothing is lost or replaced in silence."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from explain_command import done, explain, refusal, written
from folder_jobs import wait_for
from shearshap import Explainer, Explanation, ShearWarning, __version__, importance
from shearshap.__main__ import main
from shearshap.apps.cli import app
from shearshap.apps.jobs import Job, tables
from shearshap.apps.jobs.models import open_model
from shearshap.apps.report import GENERATOR
from shearshap.errors import ModelError

pytestmark = pytest.mark.usefixtures("here")


def failed(model: object, data: object, *words: object, out: str = "values.parquet") -> str:
    """Return the line about a mistake, after which no file is left or changed."""
    before = _files()
    line = refusal(model, data, *words, out=out)
    assert _files() == before
    return line


def _files() -> dict[Path, int]:
    """The files here and when they were changed, but for what Python and a failing model leave."""
    return {
        path: path.stat().st_mtime_ns
        for path in Path().iterdir()
        if path.name != "__pycache__" and ".partial." not in path.name
    }


def facts(path: str = "values.parquet") -> dict[str, Any]:
    known: dict[str, Any] = json.loads(pq.read_schema(path).metadata[tables.METADATA])
    return known


def check_same(found: Any, wanted: Explanation) -> None:
    """Hold a file's columns against an explanation made in Python."""
    several = wanted.values.ndim == 3
    for number, output in enumerate(wanted.output_names):
        one, ending = wanted.output(number), f".{output}" if several else ""
        np.testing.assert_allclose(found[f"base_value{ending}"], one.base_values, rtol=1e-6)
        np.testing.assert_allclose(found[f"prediction{ending}"], one.predictions, rtol=1e-6)
        np.testing.assert_allclose(found[f"gap{ending}"], one.gap, atol=1e-9)
        for player, name in enumerate(wanted.feature_names):
            np.testing.assert_allclose(
                found[f"value.{name}{ending}"], one.values[:, player], rtol=1e-6, atol=1e-9
            )
            if one.standard_errors is not None:
                errors = found[f"standard_error.{name}{ending}"]
                np.testing.assert_allclose(
                    errors, one.standard_errors[:, player], rtol=1e-4, atol=1e-9
                )


# What comes out


def test_the_values_are_those_worked_out_by_hand(here: Path) -> None:
    """With b and s absent as 1 and z, a adds 2 a; b and s share b if s is x, for z adds nothing."""
    before = {path.name for path in here.iterdir()}
    text = done("score.py:predict", "rows.csv", "--background", "absent.csv")
    found = written()
    assert found["value.a"].tolist() == [2, 4, 6]
    np.testing.assert_allclose(found["value.b"], [1.5, 0, 2.5])
    np.testing.assert_allclose(found["value.s"], [2.5, 0, 3.5])
    assert found["prediction"].tolist() == [6, 4, 12]
    assert found["base_value"].tolist() == [0, 0, 0]
    assert found["evaluations"].tolist() == [8, 8, 8]
    assert found["data.s"].tolist() == ["x", "y", "x"]
    for line in (
        "rows        3 of rows.csv, 3 features each\n",
        "background  the row of absent.csv\n",
        "method      exact, 8 evaluations per row, seed 0\n",
        "mean |SHAP| a 4, s 2, b 1.33\n",
        "written to  values.parquet\n",
    ):
        assert line in text
    new = {path.name for path in here.iterdir()} - before
    assert new - {"__pycache__"} == {"values.parquet"}


def test_the_file_says_how_it_was_made() -> None:
    done("score:predict", "rows.csv", "--seed", 5, "--budget", 8, "--background", "mode:absent.csv")
    known = facts()
    assert known["command"].split()[0] == "shear"
    wanted = {"version": __version__, "method": "exact", "budget": 8, "seed": 5, "rows": 3}
    assert wanted.items() <= known.items()
    assert known["background"] == "mode of the row of absent.csv"
    assert known["features"] == ["a", "b", "s"]


def test_csv_holds_the_same_columns() -> None:
    done("score.py:both", "rows.csv", "--drop", "s")
    done("score.py:both", "rows.csv", "--drop", "s", out="values.csv")
    pd.testing.assert_frame_equal(pd.read_csv("values.csv"), written(), check_dtype=False)
    assert "value.a.output 1" in written()
    assert written()["data.s"].tolist() == ["x", "y", "x"]


OPTIONS: list[tuple[str, list[object], dict[str, Any], dict[str, Any]]] = [
    # the model, words in a terminal, options of the explainer, options of its call
    ("predict", [], {}, {}),
    ("predict", ["--background", "absent.csv"], {"background": "absent"}, {}),
    ("predict", ["--background", "mode:absent.csv"], {"background": "mode of absent"}, {}),
    ("predict", ["--background", "sample:rows.parquet:2"], {"background": ("sample", 2)}, {}),
    ("predict", ["--background", "kmeans:rows.parquet:2"], {"background": ("kmeans", 2)}, {}),
    ("predict", ["--background", "all:rows.parquet"], {"background": ("all",)}, {}),
    ("predict", ["--background", "mean:rows.parquet"], {"background": ("mean",)}, {}),
    ("predict", ["--groups", "b and s=b, s"], {"groups": {"b and s": ["b", "s"]}}, {}),
    ("predict", ["--groups", "groups.json"], {"groups": {"b and s": ["b", "s"]}}, {}),
    ("predict", ["--groups", "nested.json"], {"groups": {"pair": {"b": None, "s": None}}}, {}),
    ("predict", ["--semivalue", "banzhaf"], {"semivalue": "banzhaf"}, {}),
    ("predict", ["--semivalue", "0.5,0,0.5"], {"semivalue": [0.5, 0, 0.5]}, {}),
    ("predict", ["--loss", "mse", "--label", "y"], {"loss": "mse"}, {"y": [3, 1, 2]}),
    ("predict", ["--method", "permutation", "--seed", 3], {"method": "permutation", "seed": 3}, {}),
    ("predict", ["--budget", 18, "--method", "leverage"], {"method": "leverage"}, {"budget": 18}),
    ("predict", ["--tol", 0.01, "--batch-size", 2], {"batch_size": 2}, {"tol": 0.01}),
    ("predict", ["--device", "cpu"], {"device": "cpu"}, {}),
    ("both", ["--output", 1], {"output": 1}, {}),
    ("both", ["--output", 1, "--output", 0], {"output": [1, 0]}, {}),
    (
        "both",
        ["--output-names", "no, yes", "--output", "yes"],
        {"output_names": ["no", "yes"], "output": "yes"},
        {},
    ),
    (
        "both",
        ["--returns", "margin", "--scale", "probability"],
        {"returns": "margin", "scale": "probability"},
        {},
    ),
    (
        "both",
        ["--returns", "margin", "--scale", "probability", "--multilabel"],
        {"returns": "margin", "scale": "probability", "multilabel": True},
        {},
    ),
]


@pytest.mark.parametrize(("model", "words", "options", "call"), OPTIONS)
def test_values_are_those_of_an_explainer(
    model: str, words: list[object], options: dict[str, Any], call: dict[str, Any]
) -> None:
    """Every option reaches the explainer, for a file and for a folder of parts."""
    rows = pd.read_csv("rows.csv").astype({"a": float, "b": float})
    absent = pd.read_csv("absent.csv").astype({"a": float, "b": float})[["a", "b", "s"]]
    backgrounds: dict[Any, Any] = {"absent": absent, "mode of absent": ("mode", absent)}
    name = options.get("background", ("sample",))
    background = backgrounds[name] if name in backgrounds else (name[0], rows, *name[1:])
    function = open_model(f"score.py:{model}").model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        wanted = Explainer(function, **(options | {"background": background}))(rows, **call)
    rows.assign(y=[3, 1, 2]).to_parquet("rows.parquet")
    absent.to_csv("absent.csv", index=False)
    Path("groups.json").write_text('{"b and s": ["b", "s"]}')
    Path("nested.json").write_text('{"pair": {"b": null, "s": null}}')
    if "--label" not in words:
        words = [*words, "--drop", "y"]
    for out in ("values.parquet", "parts/"):
        result = explain(f"score.py:{model}", "rows.parquet", *words, out=out)
        assert result.exit_code == 0, result.stderr
        check_same(written(out), wanted)


def test_without_a_background_it_is_a_sample_of_the_rows_and_said() -> None:
    """That of a folder of parts is the same."""
    rows = pd.read_csv("many.csv").astype(float)
    wanted = Explainer(lambda frame: frame["a"] * frame["b"], ("sample", rows, 100))(rows)
    note = (
        "note        No background was given, so features are compared with 100 of the 400 rows "
        "explained. Pass --background sample:train.csv to choose.\n"
    )
    for out in ("values.parquet", "parts/"):
        text = done("score.py:product", "many.csv", out=out)
        assert "background  100 of the 400 rows explained, drawn at random\n" in text
        assert note in text
        check_same(written(out), wanted)
    known = facts()
    assert known["background"] == "100 of the 400 rows explained, drawn at random"


@pytest.mark.parametrize(
    ("background", "words"),
    [
        ("many.csv", "100 of the 400 rows of many.csv, drawn at random"),
        ("sample:many.csv", "100 of the 400 rows of many.csv, drawn at random"),
        ("sample:many.csv:30", "30 of the 400 rows of many.csv, drawn at random"),
        ("sample:few.csv", "the 3 rows of few.csv"),
        ("kmeans:many.csv:4", "4 of the 400 rows of many.csv, chosen by k-means"),
        ("all:many.csv", "the 400 rows of many.csv"),
        ("median:many.csv", "median of the 400 rows of many.csv"),
    ],
)
def test_what_is_chosen_of_a_file_is_said(background: str, words: str) -> None:
    text = done("score.py:product", "few.csv", "--background", background)
    assert f"background  {words}\n" in text
    assert "note " not in text


def test_a_row_stops_at_the_standard_error_asked_for(here: Path) -> None:
    columns = [f"x{n}" for n in range(12)]
    rows = np.random.default_rng(0).normal(size=(4, 12))
    rows[0, :3] = 2  # needs more evaluations than the others
    pd.DataFrame(rows, columns=columns).to_parquet("wide.parquet")
    (here / "wide.py").write_text(
        "def f(x):\n    return x['x0'] * x['x1'] * x['x2'] + x.sum(axis=1)\n"
    )
    background = ("--background", "mean:wide.parquet")
    words = ("--tol", 0.3, "--budget", 2000, "--method", "permutation-antithetic", *background)
    text = done("wide.py:f", "wide.parquet", *words)
    found = written()
    assert found["converged"].all()
    assert (found["evaluations"] < 2000).all()
    assert "(at most " in text
    assert (found[[f"standard_error.{name}" for name in columns]].to_numpy() <= 0.3).all()
    fewer = [f"--drop=x{number}" for number in range(8, 12)]
    (here / "wide.py").write_text("def f(x):\n    return x.sum(axis=1)\n")
    text = done(
        "wide.py:f", "wide.parquet", "--method", "kernel", "--budget", 9, *background, *fewer
    )
    assert text.count("note        a regression on 7 coalitions has rank ") == 1


@pytest.mark.usefixtures("watch")
def test_a_deadline_writes_the_rows_that_are_done(here: Path) -> None:
    (here / "slow.py").write_text("""
from shearshap.engine import loop

def f(x):
    loop.time.now += len(x) / 1000
    return x["a"] * x["b"]
""")
    # 400 rows of 4 evaluations each, which would take 1.6 seconds
    text = done("slow.py:f", "many.csv", "--background", "mean:many.csv", "--deadline", 0.4)
    check_partial("values.parquet", rows := len(written()))
    assert 0 < rows < 400
    assert text.startswith(f"rows        {rows} of many.csv, 2 features each\n")
    assert f"note        the deadline of 0.4 s was reached after {rows} of 400 rows" in text
    assert not Path("values.partial.parquet").exists()
    few = ("--background", "absent.csv", "--deadline", 0.001, "--batch-size", 1)
    message = "deadline: expected enough seconds to explain one row, got 0.001; try more seconds"
    assert failed("slow.py:f", "rows.csv", *few, out="none.parquet").startswith(message)
    assert not list(here.glob("none*"))
    large = failed("slow.py:f", "many.csv", "--deadline", 0.4, out="parts/")
    assert large.startswith("deadline is for a file; stop a large job at any time")


def test_rows_are_labelled_by_a_column(here: Path) -> None:
    (here / "named.csv").write_text("id,a,b,s\n007,1,4,x\n008,2,5,y\n010,3,6,x\n")
    text = done("score.py:predict", "named.csv", "--background", "absent.csv", "--id", "id")
    assert "row id      id\n" in text
    assert "not used" not in text
    found = written()
    assert found.columns[0] == "id"
    assert found["id"].tolist() == ["007", "008", "010"]  # as written, to be joined with
    assert "data.id" not in found
    np.testing.assert_allclose(found["value.a"], [2, 4, 6])
    for _ in range(2):  # a file that a run with ids wrote may be replaced by the next
        done("score.py:predict", "named.csv", "--id", "id", "--keep", "b", out="named_values.csv")
    assert Path("named_values.csv").read_text().startswith('"id","base_value","prediction"')
    assert pd.read_csv("named_values.csv").columns[-1] == "data.b"


def test_interactions_go_to_a_file_of_their_own() -> None:
    """Only b and s interact: if s is x they add b together, half of it each."""
    words = ("--background", "absent.csv", "--interactions")
    text = done("score.py:pairs", "rows.csv", *words)
    assert "\n            values.interactions.parquet, the interactions\n" in text
    found = pd.read_parquet("values.interactions.parquet")
    assert list(found.columns) == ["row", "output", "feature", "other", "value", "standard_error"]
    pair = found[(found.feature == "b") & (found.other == "s")]
    np.testing.assert_allclose(pair.value, [3, 0, 5], atol=1e-9)
    for _ in range(2):  # its own files are replaced
        done("score.py:pairs", "rows.csv", *words, out="values.csv")
    Path("other.interactions.csv").write_text("mine")
    told = failed("score.py:pairs", "rows.csv", "--interactions", out="other.csv")
    assert told.startswith("interactions: other.interactions.csv already exists")


def test_interactions_of_three_features() -> None:
    words = ("--background", "absent.csv", "--interactions", 3, "--interaction-index", "STII")
    done("score.py:pairs", "rows.csv", *words)
    done("score.py:pairs", "rows.csv", *words, out="parts/")
    found = pd.read_parquet("values.interactions.parquet")
    assert found["features"][:7].tolist() == ["a", "b", "s", "a x b", "a x s", "b x s", "a x b x s"]
    np.testing.assert_allclose(found[found["features"] == "b x s"].value, [3, 0, 5], atol=1e-9)
    pd.testing.assert_frame_equal(found, pd.read_parquet("parts/_interactions"))


def test_every_option_of_an_explainer_is_one_of_a_job() -> None:
    """Rows of files have names, and a job says where it is done: few options make no sense.

    Texts are explained in Python alone.
    """
    called = signature(Explainer.__call__).parameters
    known = {each.name for each in fields(Explainer)} | {*called}
    known -= {"self", "rows", "index", "progress", "deadline", "max_evals", "silent"}
    known -= {"feature_names", "drop_null", "text", "answer"}
    renamed = {"output": "outputs", "y": "label"}
    assert {renamed.get(name, name) for name in known} <= {each.name for each in fields(Job)}


def test_the_features_that_a_model_needs() -> None:
    """The label is what the model predicts, and s is the same in all rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "s": "x"})
    rows["y"] = 2 * rows["a"] + rows["b"]
    rows.to_csv("labelled.csv", index=False)

    words = ["--model", "score.py:predict", "--data", "labelled.csv", "--label", "y"]
    words += ["--loss", "mse", "--out", "needed.csv", "--plot", "needed.png"]
    for _ in range(2):  # its own files are replaced
        result = CliRunner().invoke(app, ["importance", *words])
        assert result.exit_code == 0, result.output
    assert "reduction of mse" in result.output
    needed = pd.read_csv("needed.csv").set_index("feature").value
    expected = importance(
        open_model("score.py:predict").model, rows[["a", "b", "s"]], rows["y"], loss="mse"
    )
    np.testing.assert_allclose(needed[["a", "b", "s"]], expected.values, rtol=1e-6)
    assert needed["a"] > needed["b"] > 1e-9 > abs(needed["s"])
    assert Path("needed.png").stat().st_size > 1_000

    Path("needed.csv").unlink()
    Path("quota.py").write_text(
        "from score import predict\ncalls = 0\n\ndef f(frame):\n    global calls\n    calls += 1\n"
        "    if calls > 20:\n        raise KeyboardInterrupt\n    return predict(frame)\n"
    )
    result = CliRunner().invoke(app, ["importance", "--model", "quota.py:f", *words[2:]])
    assert result.exit_code == 130
    assert "reduction of mse" in result.stdout
    assert result.stderr == "stopped; the table is by the rows so far, and no file was left\n"
    assert not Path("needed.csv").exists()

    Path("mine.png").write_text("mine")
    result = CliRunner().invoke(app, ["importance", *words[:-1], "mine.png"])
    assert "plot: mine.png already exists" in result.stderr
    result = CliRunner().invoke(app, ["importance", *words[:-1], "needed.gif"])
    assert "plot: expected a file that ends in .png, .svg" in result.stderr


def test_a_job_runs_without_the_command(here: Path) -> None:
    out = here / "values.parquet"
    job = Job(
        model="score.py:predict",
        data=Path("rows.csv"),
        out=out,
        background="absent.csv",
        report=True,
    )
    outcome = job.run()
    np.testing.assert_allclose(outcome.explanation.values[:, 0], [2, 4, 6])
    check_same(written(), outcome.explanation)
    assert (outcome.out, outcome.report) == (out, here / "values.html")
    page = here / "values.html"
    assert "<!DOCTYPE html>" in page.read_text()
    size = round(page.stat().st_size / 1000)
    assert f"report      {outcome.report}, {size} kB, for a browser" in outcome.summary


def test_the_background_of_a_model_is_used_if_none_is_named(here: Path) -> None:
    (here / "own.py").write_text("""
class Model:
    background_ = {"a": 1.0, "code": "7"}
    text_columns_ = ("code",)
    feature_names_in_ = ["a", "code"]

    def predict(self, rows):
        return rows["a"] + 10 * (rows["code"] == "07")

    def unseen(self, rows):
        return [f"there are {len(rows)} rows"]

model = Model()
""")
    (here / "codes.csv").write_text("code,a\n07,3\n7,4\n")
    text = done("own.py:model", "codes.csv")
    assert "background  the model's background, from its training rows\n" in text
    assert "note        there are 2 rows\n" in text
    assert written()["value.a"].tolist() == [2, 3]
    assert written()["value.code"].tolist() == [10, 0]
    done("own.py:model", "codes.csv", "--background", "mean:codes.csv")
    assert written()["value.a"].tolist() == [-0.5, 0.5]


def test_the_program_explains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tests of interrupts start it as a process."""
    words = "explain --model score.py:predict --data rows.csv --out values.parquet"
    monkeypatch.setattr(sys, "argv", ["shear", *words.split()])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
    assert facts()["command"] == f"shear {words}"


# Mistakes


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("model.h5", (), "model: cannot tell what 'model.h5' is; expected a folder that"),
        ("model.onnx", (), "model: there is no file model.onnx"),
        ("absent.py:f", (), "model: there is no file absent.py"),
        ("broken.py:f", (), "model: broken.py cannot be imported: ValueError: no weights"),
        ("score.py:missing", (), "model: there is no 'missing' in score.py; it has predict, pairs, both"),
        (".", (), "model: . is a folder without a model; expected a folder that"),
        ("score.py:predict", ("--drop", "d"), "drop: there is no column 'd' in rows.csv; there are: a, b, s"),
        ("score.py:predict", ("--drop", "a"), "the model failed on inputs of shape (18, 2): KeyError: 'a' (first on row 0"),
        ("score.py:hollow", ("--background", "absent.csv"), "the model returned nan for row 1 with 3 of 3 features"),
        ("score.py:predict", ("--background", "rows.txt"), "background: expected a file that ends in .csv, .parquet"),
        ("score.py:predict", ("--background", "mean:no.csv"), "background: there is no file no.csv"),
        ("score.py:predict", ("--background", "b.csv"), "background: b.csv: column 'b' is missing (2 of 3 are: "),
        ("score.py:predict", ("--background", "mean:"), "background: expected a file, such as train.csv or mean:train.csv; got 'mean:'"),
        ("score.py:predict", ("--background", "mean"), "background: expected a file, such as train.csv or mean:train.csv; got 'mean'"),
        ("score.py:predict", ("--background", "sample:rows.csv:0"), "background: rows.csv: expected ('sample', X_train, 100), got 0 rows"),
        ("score.py:predict", ("--method", "sheer"), "there is no method 'sheer'; did you mean 'shear'? There are: auto"),
        ("score.py:predict", ("--id", "ID"), "id: there is no column 'ID' in rows.csv; there are: a, b, s"),
        ("score.py:predict", ("--groups", "pair"), "groups: expected NAME=COLUMN,COLUMN, or a .json file"),
        ("score.py:predict", ("--groups", "pair=a,,b"), "groups: expected NAME=COLUMN,COLUMN"),
        ("score.py:predict", ("--groups", "one=a", "--groups", "one=b"), "groups: duplicate group 'one'"),
        ("score.py:predict", ("--groups", "no.json"), "groups: no.json cannot be read: "),
        ("score.py:predict", ("--loss", "mse"), "loss: expected both a loss and a label, or neither; got loss 'mse' and label None"),
        ("score.py:predict", ("--loss", "mse", "--label", "y"), "label: there is no column 'y' in rows.csv"),
        ("score.py:predict", ("--semivalue", "owen"), "semivalue: expected shapley, banzhaf, or weights separated by commas; got 'owen'"),
        ("score.py:predict", ("--interactions", "--semivalue", "banzhaf"), "interactions are defined for Shapley values"),
        ("score.py:both", ("--output-names", "yes,yes"), "output-names: duplicate name 'yes'"),
        ("score.py:both", ("--output-names", "yes,"), "output-names: expected names separated by commas; got 'yes,'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_each(
    here: Path, model: str, words: tuple[str, ...], message: str
) -> None:
    (here / "b.csv").write_text("a\n1\n")
    (here / "broken.py").write_text("raise ValueError('no weights')\n")
    assert failed(model, "rows.csv", *words).startswith(message)
    assert "broken" not in sys.modules


# Models that fail, or end the program


MEAN = ("--background", "mean:many.csv")


def check_partial(path: str, rows: int) -> None:
    """Hold the file of finished rows against the explanation of all rows."""
    found = pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)
    assert len(found) == rows
    every = pd.read_csv("many.csv")
    whole = Explainer(lambda frame: frame["a"] * frame["b"], ("mean", every))(every)
    wanted = whole[found["row"].to_numpy()]
    np.testing.assert_allclose(found["value.a"], wanted.values[:, 0])
    np.testing.assert_allclose(found["value.b"], wanted.values[:, 1])
    assert found["data.a"].tolist() == found["row"].tolist()
    assert found["data.b"].tolist() == (found["row"] % 7).tolist()


def finished_rows(message: str) -> int:
    """Return the number of rows that a message says are done."""
    return int(message.partition("the finished rows (")[2].partition(")")[0])


@pytest.mark.parametrize("out", ["values.parquet", "values.csv"])
def test_rows_that_were_done_outlive_a_model_that_fails(here: Path, out: str) -> None:
    kept = f"values.partial{Path(out).suffix}"
    message = failed("score.py:fails_late", "many.csv", *MEAN, out=out)
    assert message.startswith("the model failed on inputs of shape ")
    assert "RuntimeError: no 300 " in message
    assert "(first on row 300 with 2 of 2 features present); the finished rows (" in message
    assert message.endswith(f") are in {kept}")
    assert 16 <= finished_rows(message) <= 300
    check_partial(kept, finished_rows(message))
    assert not (here / out).exists()
    if out.endswith(".parquet"):
        assert facts(kept)["rows"] == finished_rows(message)
        assert facts(kept)["unfinished"] == message.partition("; the finished rows")[0]

    message = failed("score.py:exits_late", "many.csv", *MEAN, out=out)
    assert message.startswith("the code of the model score.py:exits_late called exit (with 'done')")
    check_partial(kept, finished_rows(message))

    rows = pd.read_csv("many.csv")
    rows.assign(id=[f"n{number}" for number in rows.a]).to_csv("named.csv", index=False)
    failed("score.py:fails_late", "named.csv", "--id", "id", *MEAN, out=out)
    found = pd.read_csv(kept) if out.endswith(".csv") else pd.read_parquet(kept)
    assert found["id"].tolist() == [f"n{number}" for number in range(len(found))]


def test_rows_that_were_done_outlive_an_interrupt(here: Path) -> None:
    result = explain("score.py:stopped_late", "many.csv", *MEAN)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("stopped; the finished rows (")
    assert result.stderr.endswith(") are in values.partial.parquet\n")
    check_partial("values.partial.parquet", finished_rows(result.stderr))
    assert not (here / "values.parquet").exists()

    result = explain("score.py:stopped", "rows.csv")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped; no partial file was left\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_rows_that_were_done(here: Path, number: signal.Signals) -> None:
    (here / "slow.py").write_text("""
import os, pathlib, signal, time

def f(frame):
    mixed = frame["b"] % 1 > 0  # b is the mean, which is no integer
    if ((frame["a"] == 300) & mixed).any():
        child = os.fork()
        if not child:  # it ends by the signal, and keeps nothing
            signal.raise_signal(signal.SIGTERM)
        pathlib.Path("beginning").write_text(str(os.waitpid(child, 0)[1]))
        os.rename("beginning", "begun")  # which then has its text
        time.sleep(600)
    return frame["a"] * frame["b"]
""")
    words = ["--model", "slow.py:f", "--data", "many.csv", "--out", "values.parquet", *MEAN]
    words += ["--batch-size", "64"]
    command = subprocess.Popen(
        [sys.executable, "-m", "shearshap.apps.cli", "explain", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for((here / "begun").exists)
    command.send_signal(number)
    _, message = command.communicate(timeout=180)
    assert command.returncode == 128 + number
    assert message.endswith(") are in values.partial.parquet\n")
    check_partial("values.partial.parquet", finished_rows(message))
    assert finished_rows(message) > 100  # not the blocks before alone, which have 16 rows
    assert (here / "begun").read_text() == str(int(signal.SIGTERM))


def test_finished_rows_of_a_block_are_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream yields them before the error; they need not be the first of their block."""
    rows = pd.read_csv("many.csv")
    explanation = Explainer(lambda frame: frame["a"] * frame["b"], ("mean", rows))(rows)

    def stream(*_: object, **__: object) -> Any:
        yield explanation[:16]
        yield explanation[[20, 21, 399]]
        raise ModelError("the model broke")

    with monkeypatch.context() as patched:
        patched.setattr(Explainer, "stream", stream)
        message = r"the model broke; the finished rows \(19\) are in "
        with pytest.raises(ModelError, match=message) as info:
            Job(
                model="score.py:product",
                data=Path("many.csv"),
                out=Path("v.parquet"),
                background="mean:many.csv",
            ).run()
    assert info.value.finished.index.tolist() == [*range(16), 20, 21, 399]
    check_partial("v.partial.parquet", 19)


def test_a_model_that_ends_the_program_is_an_error(here: Path) -> None:
    assert failed("score.py:exits", "few.csv") == (
        "the code of the model score.py:exits called exit (with 0); remove the call, or put it "
        "under if __name__ == '__main__'"
    )
    (here / "script.py").write_text("raise SystemExit\n")
    assert "script.py:f called exit (with None)" in failed("script.py:f", "few.csv")


@pytest.mark.parametrize("place", ["at import", "in a prediction"])
def test_a_model_that_changes_the_folder_changes_no_paths(here: Path, place: str) -> None:
    (here / "other").mkdir()
    (here / "other" / "few.csv").write_text("a,b\n7,7\n8,8\n")
    change = f"os.chdir({str(here / 'other')!r})"
    first, later = (change, "pass") if place == "at import" else ("pass", change)
    (here / "moves.py").write_text(
        f"import os\n{first}\ndef f(frame):\n    {later}\n    return frame['a'] * frame['b']\n"
    )
    done("moves.py:f", "few.csv")
    assert pd.read_parquet(here / "values.parquet")["data.a"].tolist() == [0, 1, 2]
    assert sorted(path.name for path in (here / "other").iterdir()) == ["few.csv"]


# Files that are there already


@pytest.mark.parametrize("out", ["values.parquet", "values.csv"])
def test_a_file_of_ours_is_replaced_and_no_other(here: Path, out: str) -> None:
    done("score.py:product", "few.csv", "--report", out=out)
    done("score.py:total", "few.csv", "--report", out=out)  # both are ours

    frame = pd.DataFrame({"row": [1], "value": [2]})
    write = frame.to_csv if out.endswith(".csv") else frame.to_parquet
    write(out, index=False)
    assert failed("no model", "few.csv", out=out) == (
        f"out: {out} already exists, and was not written by shear; choose another name, "
        "or replace it with --overwrite"
    )
    done("score.py:product", "few.csv", "--overwrite", out=out)
    assert "base_value" in (pd.read_csv(out) if out.endswith(".csv") else written(out))

    (here / out).write_bytes(b"")  # as a script may have made it to have a name of its own
    done("score.py:product", "few.csv", out=out)


def test_no_page_and_no_partial_file_of_another_maker_is_replaced(here: Path) -> None:
    (here / "values.html").write_text("<!DOCTYPE html>\n<title>My notes</title>\n")
    assert failed("no model", "few.csv", "--report").startswith(
        "report: values.html already exists"
    )
    done("score.py:product", "few.csv")  # without --report, it is in nobody's way
    done("score.py:product", "few.csv", "--report", "--overwrite")
    page = (here / "values.html").read_text()
    assert f'<meta name="generator" content="{GENERATOR}">' in page
    (here / "values.partial.parquet").write_text("mine")
    assert failed("no model", "few.csv").startswith("out: values.partial.parquet already exists")


@pytest.mark.parametrize(
    ("words", "out", "what"),
    [
        ((), "rows.csv", "the data explained"),
        (("--overwrite",), "rows.csv", "the data explained"),
        (("--background", "mode:absent.csv"), "absent.csv", "the background"),
        (("--background", "mode:absent.csv"), "link.csv", "the background"),
        ((), "code.csv", "the model"),
    ],
)
def test_what_is_read_is_not_overwritten(
    here: Path, words: tuple[str, ...], out: str, what: str
) -> None:
    (here / "link.csv").symlink_to("absent.csv")
    (here / "code.csv").symlink_to("score.py")
    assert failed("score.py:predict", "rows.csv", *words, out=out) == (
        f"out: {out} is {what}, and would be overwritten; choose another name"
    )


# Places


def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(here: Path) -> None:
    (here / "d.csv").mkdir()
    os.mkfifo(here / "pipe.csv")
    places = {
        "no/values.parquet": "out: there is no folder no",
        "few.csv/values.csv": "out: there is no folder few.csv",
        "values.txt": "out: expected a name that ends in .parquet or .csv for a file, or in / for ",
        "values": "out: expected a name that ends in .parquet or .csv for a file, or in / for the ",
        "d.csv": "out: d.csv is a folder; expected the name of a file",
        "pipe.csv": "out: pipe.csv cannot be written to; choose another name",
        "x" * 300 + ".csv": "[Errno 36] File name too long",
    }
    if Path("/proc/self").is_dir():  # not even root can write there
        places["/proc/values.parquet"] = "out: the folder /proc cannot be written to: "
    for out, message in places.items():
        assert failed("no model", "few.csv", out=out).startswith(message)
    (here / "values.html").mkdir()
    assert failed("no model", "few.csv", "--report").startswith("report: values.html is a folder")


def test_a_full_disk_is_noticed_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> "FullDisk":
            return self

        def __exit__(self, *_: object) -> None: ...
        def write(self, _: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shearshap.apps.jobs.places.TemporaryFile", FullDisk)
    assert failed("no model", "few.csv") == (
        "out: the folder . cannot be written to: No space left on device"
    )


@pytest.mark.parametrize("writer", ["pyarrow.parquet.write_table", "pyarrow.csv.write_csv"])
def test_a_disk_that_runs_full_leaves_nothing_half_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    out = "values.csv" if "csv" in writer else "values.parquet"

    def full(_: object, place: Path) -> None:
        place.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer, full)
    assert failed("score.py:product", "few.csv", out=out) == (
        f"out: {out} cannot be written: No space left on device; no partial file was left"
    )
    assert not list(here.glob("*.partial"))


def test_a_report_that_cannot_be_written_leaves_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shearshap.apps.jobs.values.render", full)
    message = refusal("score.py:product", "few.csv", "--report")
    assert message.endswith("No space left on device; the values are in values.parquet")
    assert len(written()) == 3


@pytest.mark.parametrize("cells", [[[1], [2]], [b"text", b"\xff"]])
def test_columns_that_a_file_cannot_hold_are_told_before_any_work(cells: list[Any]) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [3, 4], "l": cells}), "nested.parquet")
    message = failed("score.py:exits", "nested.parquet", "--drop", "l", out="values.csv")
    assert message.startswith("out: values.csv cannot hold column 'l', which holds ")
    done("score.py:product", "nested.parquet", "--drop", "l")
    done("score.py:product", "nested.parquet", "--drop", "l", "--keep", "a", out="values.csv")
