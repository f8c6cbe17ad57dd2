"""`shear explain`: models and tables in files to values in a file, and one clear line for what goes wrong."""

import json
import re
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explain_command import done, explain, refusal
from shearshap import Explainer, Explanation, __version__
from shearshap.errors import InputError
from shearshap.jobs import Job, models, places, tables
from shearshap.jobs.columns import frames
from shearshap.jobs.models import importing, open_model

SCORE = """
import numpy as np

def predict(frame):
    return 2 * frame["a"] + np.where(frame["s"] == "x", 1.0, 0.0) * frame["b"]

def both(frame):
    return np.stack((frame["a"], -frame["b"]), axis=1)

def failing(frame):
    if (frame["a"] == 3).any():
        raise RuntimeError("cannot score this")
    return frame["a"]

def hollow(frame):
    return np.where((frame["a"] == 2) & (frame["s"] == "y"), np.nan, frame["a"])

def stopped(frame):
    raise KeyboardInterrupt

def pairs(frame):
    return 2 * frame["a"] + np.where(frame["s"] == "x", 1.0, 0.0) * (frame["b"] - 1)

def deep(frame):
    return np.zeros((len(frame), 2, 2))

def sized(frame):
    with open("sizes", "a") as file:
        print(len(frame), file=file)
    return frame["a"]

word = "no model"
"""
ROWS = "a,b,s\n1,4,x\n2,5,y\n3,6,x\n"
ABSENT = "s,b,a\nz,1,0\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with rows, a background row and functions to explain."""
    for name, text in {"score.py": SCORE, "rows.csv": ROWS, "absent.csv": ABSENT}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    return tmp_path


def failed(model: object, data: object, *words: object, out: str = "values.parquet") -> str:
    """What is said about a mistake: one line on stderr, nothing on stdout, and no file is left or changed."""
    before = _files()
    line = refusal(model, data, *words, out=out)
    assert _files() == before
    return line


def _files() -> dict[Path, int]:
    """The files here and when they were changed, but for what Python and a model that fails leave."""
    return {
        path: path.stat().st_mtime_ns
        for path in Path().iterdir()
        if path.name != "__pycache__" and ".partial." not in path.name
    }


def written(path: str = "values.parquet") -> Any:
    return pd.read_parquet(path)


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
    """With b and s absent as 1 and z, a adds 2 a; b and s share b where s is x, for z adds nothing."""
    text = done("score.py:predict", "rows.csv", "--background", "absent.csv")
    found = written()
    assert found["value.a"].tolist() == [2, 4, 6]
    np.testing.assert_allclose(found["value.b"], [1.5, 0, 2.5])
    np.testing.assert_allclose(found["value.s"], [2.5, 0, 3.5])
    assert found["prediction"].tolist() == [6, 4, 12]
    assert found["base_value"].tolist() == [0, 0, 0]
    assert found["evaluations"].tolist() == [8, 8, 8]
    assert found["data.s"].tolist() == ["x", "y", "x"]
    assert found["standard_error.a"].tolist() == [0, 0, 0] or found["standard_error.a"].isna().all()
    for line in (
        "rows        3 of rows.csv, 3 features each\n",
        "model       score.py:predict\n",
        "background  the row of absent.csv\n",
        "method      exact, 8 evaluations a row, seed 0\n",
        "mean |SHAP| a 4, s 2, b 1.33\n",
        "written to  values.parquet\n",
    ):
        assert line in text
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == [
        "absent.csv", "rows.csv", "score.py", "values.parquet",
    ]  # fmt: skip


@pytest.mark.usefixtures("here")
def test_the_file_says_how_it_was_made() -> None:
    done("score:predict", "rows.csv", "--seed", 5, "--budget", 8, "--background", "mode:absent.csv")
    facts = json.loads(pq.read_schema("values.parquet").metadata[places.METADATA])
    assert facts["command"].split()[0] == "shear"
    assert {name: facts[name] for name in facts if name != "command"} == {
        "version": __version__, "model": "score:predict", "data": "rows.csv", "method": "exact", "budget": 8,
        "background": "mode of the row of absent.csv", "tol": None, "seed": 5, "scale": None, "returns": None,
        "multilabel": None, "evaluations": 8,
        "derivative_passes": 0, "degrees_of_freedom": None, "rows": 3, "players": ["a", "b", "s"],
        "outputs": ["output"], "id": None, "groups": None, "interactions": False,
    }  # fmt: skip


@pytest.mark.usefixtures("here")
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
    ("predict", ["--background", "mode"], {"background": "mode"}, {}),
    ("predict", ["--groups", "b and s=b,s"], {"groups": {"b and s": ["b", "s"]}}, {}),
    ("predict", ["--method", "permutation", "--seed", 3], {"method": "permutation", "seed": 3}, {}),
    ("predict", ["--budget", 6, "--method", "leverage"], {"method": "leverage"}, {"budget": 6}),
    ("predict", ["--tol", 0.01, "--batch-size", 2], {"batch_size": 2}, {"tol": 0.01}),
    ("predict", ["--device", "cpu"], {"device": "cpu"}, {}),
    ("both", ["--output", 1], {"output": 1}, {}),
    ("both", ["--output", 1, "--output", 0], {"output": [1, 0]}, {}),
    ("both", ["--output-names", "no,yes"], {"output_names": ["no", "yes"]}, {}),
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


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("model", "words", "options", "call"), OPTIONS)
def test_values_are_those_of_an_explainer(
    model: str, words: list[object], options: dict[str, Any], call: dict[str, Any]
) -> None:
    """Every option reaches the explainer, for a file and for a folder of parts."""
    rows = pd.read_csv("rows.csv").astype({"a": float, "b": float})
    absent = pd.read_csv("absent.csv").astype({"a": float, "b": float})[["a", "b", "s"]]
    backgrounds: dict[Any, Any] = {"absent": absent, "mode of absent": ("mode", absent)}
    background = options.get("background", "mean")
    wanted = Explainer(
        open_model(f"score.py:{model}").model,
        **(options | {"background": backgrounds.get(background, background)}),
    )(rows, **call)
    rows.to_parquet("rows.parquet")
    absent.to_csv("absent.csv", index=False)
    for data, out in (("rows.parquet", "values.parquet"), ("rows.parquet", "parts/")):
        result = explain(f"score.py:{model}", data, *words, out=out)
        assert result.exit_code == 0, result.stderr
        check_same(written(out), wanted)


def test_a_row_stops_at_the_standard_error_asked_for(here: Path) -> None:
    columns = [f"x{n}" for n in range(12)]
    rows = np.random.default_rng(0).normal(size=(4, 12))
    pd.DataFrame(rows, columns=columns).to_parquet("wide.parquet")
    (here / "wide.py").write_text("def f(x):\n    return (x['x0'] * x['x1']) + x.sum(axis=1)\n")
    text = done(
        "wide.py:f",
        "wide.parquet",
        "--tol",
        0.5,
        "--budget",
        2000,
        "--method",
        "permutation-antithetic",
    )
    found = written()
    assert found["converged"].all()
    assert (found["evaluations"] < 2000).all()
    assert "(at most " in text
    errors = found[[f"standard_error.{name}" for name in columns]].to_numpy()
    assert (errors <= 0.5).all()


def test_a_warning_of_ours_is_a_note(here: Path) -> None:
    (here / "wide.py").write_text("def f(x):\n    return x.sum(axis=1)\n")
    pd.DataFrame(np.eye(8), columns=list("abcdefgh")).to_csv("wide.csv", index=False)
    text = done("wide.py:f", "wide.csv", "--method", "kernel", "--budget", 9)
    assert text.count("note        a regression on 7 coalitions has rank ") == 1


def test_names_that_would_clash_give_way_to_numbers() -> None:
    values = np.arange(8.0).reshape(1, 2, 4)[..., :2]
    names = {"feature_names": ["a", "a.b"], "output_names": ["b.c", "c"]}
    found = Explanation(values, values[:, 0], values[:, 1], None, 4, 0, "exact", 0, **names)  # type: ignore[arg-type]
    made = found.to_frame("pyarrow", wide=True)
    assert [name for name in made.column_names if name.startswith("value")] == [
        "value.a.0", "value.a.b.0", "value.a.1", "value.a.b.1",
    ]  # fmt: skip


# Ids, groups, names of outputs, interactions


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
    # a file that a run with ids wrote may be replaced by the next
    done("score.py:predict", "named.csv", "--id", "id", out="named_values.csv")
    assert Path("named_values.csv").read_text().startswith('"id","base_value","prediction"')
    done("score.py:predict", "named.csv", "--id", "id", out="named_values.csv")


def test_rows_done_before_a_failure_keep_their_ids(here: Path) -> None:
    rows = "".join(f"n{n},{n / 100},1,x\n" for n in range(200, 400))
    (here / "many.csv").write_text("id,a,b,s\n" + rows.replace("3.0,", "3,"))
    told = refusal(
        "score.py:failing", "many.csv", "--id", "id", "--background", "mode", out="values.csv"
    )
    assert "cannot score this" in told
    partial = pd.read_csv("values.partial.csv")
    assert partial["id"].tolist() == [f"n{n}" for n in range(200, 200 + len(partial))]
    assert partial["data.a"].tolist() == [n / 100 for n in range(200, 200 + len(partial))]


def test_columns_are_grouped(here: Path) -> None:
    words = ("--background", "absent.csv", "--groups", "b and s=b, s")
    text = done("score.py:predict", "rows.csv", *words)
    assert "2 features each" in text
    found = written()
    assert [name for name in found if name.startswith("value.")] == ["value.b and s", "value.a"]
    np.testing.assert_allclose(found["value.b and s"], [4, 0, 6])
    assert json.loads(pq.read_schema("values.parquet").metadata[b"shearshap"])["groups"] == {
        "b and s": ["b", "s"]
    }
    (here / "groups.json").write_text('{"b and s": ["b", "s"]}')
    done("score.py:predict", "rows.csv", *words[:2], "--groups", "groups.json", out="same.parquet")
    pd.testing.assert_frame_equal(written("same.parquet"), found)


@pytest.mark.usefixtures("here")
def test_interactions_go_to_a_file_of_their_own() -> None:
    """Only b and s interact: where s is x they add b together, half of it each."""
    words = ("--background", "absent.csv", "--interactions")
    text = done("score.py:pairs", "rows.csv", *words)
    assert (
        "written to  values.parquet\n            values.interactions.parquet, pair by pair\n"
        in text
    )
    found = pd.read_parquet("values.interactions.parquet")
    assert list(found.columns) == ["row", "output", "player", "other", "value"]
    pair = found[(found.player == "b") & (found.other == "s")]
    np.testing.assert_allclose(pair.value, [3, 0, 5], atol=1e-9)
    done("score.py:pairs", "rows.csv", *words, out="values.csv")
    done("score.py:pairs", "rows.csv", *words, out="values.csv")  # its own files are replaced
    Path("other.interactions.csv").write_text("mine")
    told = failed("score.py:pairs", "rows.csv", "--interactions", out="other.csv")
    assert told.startswith("interactions: other.interactions.csv is there already")


@pytest.mark.usefixtures("here")
def test_a_batch_size_is_passed_on() -> None:
    done("score.py:sized", "rows.csv", "--batch-size", 2)
    assert max(map(int, Path("sizes").read_text().split())) == 2


# Folders of models


def test_folders_are_opened_by_entry_points(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "folder").mkdir()
    found = [SimpleNamespace(load=lambda: lambda _folder: None)]
    monkeypatch.setattr(models, "entry_points", lambda **_: found)
    with pytest.raises(InputError, match="model: folder is a folder without a model; wanted a"):
        open_model("folder")
    found.append(SimpleNamespace(load=lambda: lambda _folder: np.sum))
    assert open_model("folder").model is np.sum


# Jobs in Python


def test_a_job_runs_without_the_command(here: Path) -> None:
    job = Job(
        model="score.py:predict",
        data=here / "rows.csv",
        out=here / "values.parquet",
        background="absent.csv",
        report=True,
    )
    outcome = job.run()
    np.testing.assert_allclose(outcome.explanation.values[:, 0], [2, 4, 6])
    check_same(written(), outcome.explanation)
    assert outcome.out == here / "values.parquet"
    assert outcome.report == here / "values.html"
    assert "<!DOCTYPE html>" in outcome.report.read_text()
    assert outcome.report is not None
    size = round(outcome.report.stat().st_size / 1000)
    assert f"report      {outcome.report}, {size} kB, for a browser" in outcome.summary
    assert outcome.result is not None
    assert outcome.result.background == "the row of absent.csv"


def test_the_background_of_a_model_is_used_where_none_is_named(here: Path) -> None:
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
    assert "background  the model's own, from its training rows\n" in text
    assert "note        there are 2 rows\n" in text
    assert written()["value.a"].tolist() == [2, 3]
    assert written()["value.code"].tolist() == [10, 0]
    text = done("own.py:model", "codes.csv", "--background", "mean")
    assert written()["value.a"].tolist() == [-0.5, 0.5]


# Models of other libraries


def people(rows: int = 60) -> Any:
    """Rows with numbers, text and missing values, and a label that depends on them."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 60, rows), "city": rng.choice(["Bern", "Oslo", "Rome"], rows)}
    )
    frame["income"] = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(3, 1, rows).round(3))
    frame["bought"] = np.where((frame["age"] > 40) ^ (frame["city"] == "Rome"), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = make_column_transformer(
        (OneHotEncoder(), ["city"]), (SimpleImputer(), ["age", "income"])
    )
    frame = people()
    fitted = make_pipeline(columns, LogisticRegression()).fit(
        frame[["age", "city", "income"]], frame["bought"]
    )
    path = tmp_path_factory.mktemp("pipeline") / "model.joblib"
    joblib.dump(fitted, path)
    return path


@pytest.mark.usefixtures("here")
def test_a_pickle_is_opened_only_when_it_is_trusted(pipeline: Path) -> None:
    people().to_csv("people.csv", index=False)
    assert failed(pipeline, "people.csv").startswith(
        f"model: {pipeline} is a pickle, and opening one runs whatever code is in it; if you know who made it, add --trust"
    )
    text = done(
        pipeline, "people.csv", "--trust", "--output", "yes", "--background", "mean:people.csv"
    )
    assert "not used    bought\n" in text
    assert "background  mean of the 60 rows of people.csv\n" in text
    frame = people()[["age", "city", "income"]]
    check_same(written(), Explainer(joblib.load(pipeline), ("mean", frame), output="yes")(frame))
    pd.testing.assert_frame_equal(
        written()[["data.age", "data.city", "data.income", "data.bought"]].set_axis(people().columns, axis=1), people(),
        check_dtype=False,
    )  # fmt: skip


def boosted(kind: str, frame: Any, labels: Any) -> tuple[str, Any]:
    """Return the file of a booster that takes text, and its chances for the rows of a frame."""
    if kind == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(
            iterations=5, verbose=0, allow_writing_files=False, cat_features=["city"]
        )
        model.fit(frame, labels).save_model("model.cbm")
        return "model.cbm", model.predict_proba(frame)[:, 1]
    frame = frame.astype({"city": "category"})
    if kind == "xgboost":
        import xgboost

        model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(
            frame, labels
        )
        model.save_model("model.ubj")
        return "model.ubj", model.predict_proba(frame)[:, 1]
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1, n_jobs=1).fit(
        frame, labels
    )
    model.booster_.save_model("model.txt")
    return "model.txt", model.predict_proba(frame)[:, 1]


@pytest.mark.usefixtures("here")
def test_a_booster_is_not_given_text_and_numbers_in_one_column() -> None:
    frame = people()
    frame.to_csv("people.csv", index=False)
    frame.assign(city=np.arange(len(frame)) % 3).to_csv("coded.csv", index=False)
    file, _ = boosted(
        "xgboost", frame[["age", "city", "income"]], (frame["bought"] == "yes").astype(int)
    )
    assert failed(file, "people.csv", "--background", "mode:coded.csv") == (
        "column 'city' holds string in the data, and int64 in the background; give both the same type"
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost"])
def test_boosters_take_text_as_they_were_trained_with(kind: str) -> None:
    frame = people()
    frame.to_csv("people.csv", index=False)
    frame[frame["city"] != "Rome"].to_csv("north.csv", index=False)
    file, chances = boosted(
        kind, frame[["age", "city", "income"]], (frame["bought"] == "yes").astype(int)
    )
    words = ("--output", "1") if kind == "catboost" else ()
    done(file, "people.csv", "--background", "mode:north.csv", *words)
    np.testing.assert_allclose(written()["prediction"], chances, rtol=1e-5)
    assert np.abs(written()["value.city"]).max() > 0.01
    assert np.abs(written()["gap"]).max() < 1e-6


@pytest.mark.usefixtures("here")
def test_lightgbm_knows_columns_with_spaces_by_underscores() -> None:
    import lightgbm

    frame = people()[["age", "income"]].rename(columns={"age": "age in years"})
    labels = (people()["bought"] == "yes").astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1)
    model.fit(frame, labels).booster_.save_model("model.txt")
    frame.assign(id=range(len(frame))).to_csv("people.csv", index=False)
    text = done("model.txt", "people.csv")
    assert "not used    id\n" in text
    np.testing.assert_allclose(written()["prediction"], model.predict_proba(frame)[:, 1])
    assert "value.age in years" in written()


def linear_onnx(path: Path) -> None:
    from onnx import TensorProto, helper, save

    weights = helper.make_tensor("w", TensorProto.FLOAT, (2, 1), [2.0, -1.0])
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])]
        for name, size in (("x", 2), ("y", 1))
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weights]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_an_onnx_file(here: Path) -> None:
    linear_onnx(here / "model.onnx")
    done("model.onnx", "rows.csv", "--drop", "s", "--background", "absent.csv")
    assert written()["value.a"].tolist() == [2, 4, 6]
    assert written()["value.b"].tolist() == [-3, -4, -5]
    assert failed("model.onnx", "rows.csv") == (
        "the model takes 2 columns, and rows.csv has 3: a, b, s; leave out what it does not use with --drop COLUMN"
    )
    (here / "holes.csv").write_text("a,b\n1,2\n3,NA\n")
    told = failed("model.onnx", "holes.csv")
    assert told.startswith("data: holes.csv: row 1 is nan at column b (1 of 2 rows ")


# Functions

CODE = """
from __future__ import annotations
import dataclasses, pickle, sys

@dataclasses.dataclass
class Weights:
    a: float
    kind: dataclasses.KW_ONLY
    b: float = 1.0

weights = pickle.loads(pickle.dumps(Weights(2.0)))

def predict(rows):
    from beside import bias
    return weights.a * rows["a"] + rows["b"] + bias
"""


@pytest.mark.parametrize("name", ["scored", "json", "scored.v2"])
def test_a_file_of_code_is_a_module_like_any_other(here: Path, name: str) -> None:
    """Its dataclasses and pickles find it, it finds what lies beside it when it is called, and it hides no other."""
    (here / "code").mkdir()
    (here / "code" / f"{name}.py").write_text(CODE)
    (here / "code" / "beside.py").write_text("bias = 5\n")
    before, json_module = list(sys.path), sys.modules["json"]
    done(f"code/{name}.py:predict", "rows.csv", "--drop", "s", "--background", "absent.csv")
    assert written()["value.a"].tolist() == [2, 4, 6]
    assert sys.path == before
    assert sys.modules["json"] is json_module
    assert "beside" not in sys.modules  # another model may have another module of that name


def test_a_file_of_code_that_fails_is_forgotten(here: Path) -> None:
    (here / "broken.py").write_text("raise ValueError('no weights')\n")
    assert (
        failed("broken.py:f", "rows.csv")
        == "model: broken.py cannot be imported: ValueError: no weights"
    )
    assert "broken" not in sys.modules


def test_only_code_finds_modules_in_the_folder_of_the_command(here: Path) -> None:
    for model, found in {
        "m.onnx": False,
        "m.json": False,
        ".": False,
        "m.pkl": True,
        "m:f": True,
        "m.py:f": True,
    }.items():
        with importing(model):
            assert (str(here) in sys.path) == found, model
        assert str(here) not in sys.path


# Tables


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


@pytest.mark.usefixtures("here")
def test_columns_that_csv_cannot_hold_are_told() -> None:
    pd.DataFrame({"a": [1, 2], "b": [1, 2], "s": ["x", "y"], "l": [[1], [2]]}).to_parquet(
        "lists.parquet"
    )
    told = failed("score.py:predict", "lists.parquet", "--drop", "l", out="values.csv")
    assert told.startswith("out: values.csv cannot hold all columns: ")
    done("score.py:predict", "lists.parquet", "--drop", "l")


def stacked(data: Any, background: Any, *, categories: bool = False) -> list[Any]:
    return frames(pa.table(data), pa.table(background), categories=categories)


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
        both = stacked({"a": first}, {"a": second})
        assert both[0]["a"].dtype == both[1]["a"].dtype
        assert both[0]["a"].dtype == kind
        for frame, column in zip(both, (first, second), strict=True):
            cells = column if isinstance(column, list) else column.to_pylist()
            assert [None if cell != cell else cell for cell in frame["a"]] == cells
            assert frame.index.tolist() == list(range(len(column)))


@pytest.mark.parametrize(("data", "background"), [(["3", "?"], [1, 2]), ([1.5], CODED)])
def test_types_that_do_not_go_together_are_refused(data: Any, background: Any) -> None:
    with pytest.raises(InputError, match=r"column 'a' holds .* in the background; give both"):
        stacked({"a": data}, {"a": background}, categories=True)


def test_text_that_becomes_categories_has_the_same_ones_everywhere() -> None:
    for frame in stacked({"a": ["z", "x"]}, {"a": CODED}, categories=True):
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


def test_a_column_all_missing_has_no_mean(here: Path) -> None:
    (here / "x.csv").write_text("a,b,s\n1,,x\n2,,y\n")
    told = failed("score.py:predict", "x.csv")
    assert told == "background: x.csv: all values of column 'b' are missing, so it has no mean"


@pytest.mark.usefixtures("here")
def test_decimals_are_numbers() -> None:
    rows = pd.DataFrame({"a": [Decimal("1.50"), Decimal("2.25")], "b": [1, 2], "s": ["x", "y"]})
    rows.to_parquet("decimals.parquet")
    assert pa.types.is_decimal(pq.read_schema("decimals.parquet").field("a").type)
    done("score.py:predict", "decimals.parquet", "--background", "absent.csv")
    np.testing.assert_allclose(written()["value.a"], [3, 4.5])
    assert written()["data.a"].tolist() == [Decimal("1.50"), Decimal("2.25")]


def test_an_index_without_a_name_is_left_out_and_told(here: Path) -> None:
    pd.read_csv("rows.csv").to_csv("indexed.csv")
    assert (here / "indexed.csv").read_text().startswith(",a,b,s\n")
    text = done("score.py:predict", "indexed.csv", "--background", "absent.csv")
    assert "rows        3 of indexed.csv, 3 features each\n" in text
    assert (
        "note        the first column of indexed.csv has no name, as pandas' index has none, and is left out\n"
        in text
    )
    assert written()["value.a"].tolist() == [2, 4, 6]
    assert "not used" not in text


@pytest.mark.usefixtures("here")
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
        ", and a feature is one number or one text in each row; make columns of it, or leave it out with --drop l"
    )
    done("score.py:predict", "nested.parquet", "--drop", "l")


# Mistakes


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("model.h5", (), "model: cannot tell what 'model.h5' is; wanted a folder that"),
        ("model.onnx", (), "model: there is no file model.onnx"),
        ("rows.json", (), "model: there is no file rows.json"),
        ("absent.py:f", (), "model: there is no file absent.py"),
        ("nowhere:f", (), "model: nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("score.py:missing", (), "model: there is no 'missing' in score.py; it has predict, both, failing, hollow"),
        ("score.py:word", (), "model: wanted a torch.nn.Module, "),
        (".", (), "model: . is a folder without a model; wanted a folder that"),
        ("score.py:failing", ("--drop", "d"), "drop: there is no column 'd' in rows.csv; there are: a, b, s"),
        ("score.py:predict", ("--drop", "a"), "the model failed on inputs of shape (6, 2): KeyError: 'a' (first on row 0 with"),
        ("score.py:predict", ("--background", "rows.txt"), "background: expected a file that ends in .csv, .parquet"),
        ("score.py:predict", ("--background", "mean:no.csv"), "background: there is no file no.csv"),
        ("score.py:predict", ("--background", "b.csv"), "background: b.csv: column 'b' is missing (2 of 3 are: "),
        ("score.py:predict", ("--background", ""), "background: expected mean, median or mode, a file, or mean:FILE; got ''"),
        ("score.py:predict", ("--background", "mean:"), "background: expected mean, median or mode, a file, or mean:FILE; got 'mean:'"),
        ("score.py:predict", ("--method", "magic"), "there is no method 'magic'; there are: auto, exact, shear"),
        ("score.py:predict", ("--method", "sheer"), "there is no method 'sheer'; did you mean 'shear'? There are: auto"),
        ("score.py:predict", ("--background", "avg:absent.csv"), "background: expected the statistic mean, median or mode, got 'avg'; try mean:absent.csv"),
        ("score.py:predict", ("--background", "s3://absent.csv"), "background: there is no file s3:/absent.csv"),
        ("score.py:predict", ("--id", "ID"), "id: there is no column 'ID' in rows.csv; there are: a, b, s"),
        ("score.py:predict", ("--groups", "pair"), "groups: expected NAME=COLUMN,COLUMN, or a .json file such as {'address': ['street', 'city']}; got 'pair'"),
        ("score.py:predict", ("--groups", "pair=a,,b"), "groups: expected NAME=COLUMN,COLUMN"),
        ("score.py:predict", ("--groups", "pair=a,d"), "groups: there is no column 'd'; there are: a, b, s"),
        ("score.py:predict", ("--groups", "one=a,b", "--groups", "two=b,s"), "groups: column 'b' is in 'one' and in 'two'; a column belongs to one group"),
        ("score.py:predict", ("--groups", "one=a", "--groups", "one=b"), "groups: duplicate group 'one'"),
        ("score.py:predict", ("--groups", "no.json"), "groups: no.json cannot be read: "),
        ("score.py:both", ("--output-names", "yes"), "output_names: wanted 2, one for each output, got 1"),
        ("score.py:both", ("--output-names", "yes,yes"), "output-names: duplicate name 'yes'"),
        ("score.py:both", ("--output-names", "yes,"), "output-names: expected names with commas between them; got 'yes,'"),
        ("score.py:predict", ("--output", "yes"), "output: there is no output 'yes', as the model's outputs have no"),
        ("score.py:predict", ("--scale", "odd"), "scale: wanted one of probability, log-odds, margin, logit, or none"),
        ("score.py:predict", ("--budget", "1", "--method", "leverage"), "leverage needs at least 6 evaluations a row"),
        ("score.py:predict", ("--tol", "0"), "tol: wanted a positive number"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_each(
    here: Path, model: str, words: tuple[str, ...], message: str
) -> None:
    (here / "b.csv").write_text("a\n1\n")
    told = failed(model, "rows.csv", *words)
    assert told.startswith(message)


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
            "background: x.csv: ",
        ),
    ],
)
def test_tables_that_cannot_be_explained(
    here: Path, data: str, content: str | None, message: str
) -> None:
    if content is not None:
        (here / data).write_bytes(content.encode(errors="surrogateescape"))
    assert failed("score.py:predict", data).startswith(message)
    (here / "values.parquet").write_text("what was there before")
    assert failed("score.py:predict", data, "--overwrite").startswith(message)


def test_a_column_that_stands_twice_in_parquet_is_told(here: Path) -> None:
    doubled = pa.Table.from_arrays([pa.array([1, 2])] * 3, names=["a", "b", "a"])
    pq.write_table(doubled, here / "x.parquet")
    assert failed("score.py:predict", "x.parquet") == "data: duplicate column 'a' in x.parquet"


def test_a_model_that_fails_is_told_with_the_row_and_the_coalition(here: Path) -> None:
    (here / "values.parquet").write_text("what was there before")
    words = ("--background", "absent.csv", "--overwrite")
    told = failed("score.py:failing", "rows.csv", *words)
    assert "RuntimeError: cannot score this (first on row 2 with 3 of 3 players present)" in told
    told = failed("score.py:hollow", "rows.csv", *words)
    assert told.startswith("the model returned nan for row 1 with 3 of 3 players present")
    assert (here / "values.parquet").read_text() == "what was there before"
    done("score.py:predict", "rows.csv", "--overwrite")
    assert len(written()) == 3


def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(here: Path) -> None:
    assert failed("no model", "rows.csv", out="no/values.parquet") == "out: there is no folder no"
    assert failed("no model", "rows.csv", out="values.txt") == (
        "out: expected a file that ends in .parquet, .pq, .csv, or for a large job a folder, with / at its end; got values.txt"
    )
    (here / "d.csv").mkdir()
    assert (
        failed("no model", "rows.csv", out="d.csv")
        == "out: d.csv is a folder; wanted the name of a file"
    )
    (here / "values.html").mkdir()
    assert (
        failed("no model", "rows.csv", "--report")
        == "report: values.html is a folder; wanted the name of a file"
    )


@pytest.mark.skipif(
    not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to"
)
@pytest.mark.usefixtures("here")
def test_a_folder_that_takes_no_files_is_refused_before_any_work() -> None:
    told = failed("no model", "rows.csv", out="/proc/values.parquet")
    assert told.startswith("out: nothing can be written to the folder /proc: ")


@pytest.mark.parametrize(
    ("words", "out", "told"),
    [
        ((), "rows.csv", "the data explained"),
        (("--background", "absent.csv"), "absent.csv", "the background"),
        (("--background", "mode:absent.csv"), "absent.csv", "the background"),
        (("--background", "mode:absent.csv"), "link.csv", "the background"),
        ((), "code.csv", "the model"),
    ],
)
def test_what_is_read_is_not_overwritten(
    here: Path, words: tuple[str, ...], out: str, told: str
) -> None:
    (here / "link.csv").symlink_to("absent.csv")
    (here / "code.csv").symlink_to("score.py")
    assert failed("score.py:predict", "rows.csv", *words, out=out) == (
        f"out: {out} is {told}, and would be overwritten; choose another name"
    )


@pytest.mark.usefixtures("here")
def test_a_column_that_the_model_needs_is_named(pipeline: Path) -> None:
    people().drop(columns="city").to_csv("people.csv", index=False)
    assert failed(pipeline, "people.csv", "--trust").startswith(
        "data: people.csv: column 'city' is missing"
    )
    people().to_csv("people.csv", index=False)
    assert failed(pipeline, "people.csv", "--trust", "--drop", "city") == (
        "drop: the model takes column 'city', which cannot be dropped"
    )


def test_a_background_too_large_to_average_over_needs_a_budget(here: Path) -> None:
    (here / "large.csv").write_text(ROWS + "1,4,x\n" * 1000)
    told = failed("score.py:predict", "rows.csv", "--background", "large.csv")
    assert told.startswith(
        "background: large.csv: every coalition is evaluated at each of the 1,003"
    )
    assert "budget" in told
    done("score.py:predict", "rows.csv", "--background", "large.csv", "--budget", 8 * 1003)
    assert written()["evaluations"].tolist() == [8 * 1003] * 3


def test_an_interrupted_run_writes_nothing(here: Path) -> None:
    result = explain("score.py:stopped", "rows.csv")
    assert (result.exit_code, result.stdout, result.stderr) == (
        130,
        "",
        "stopped; no file is left half written\n",
    )
    assert not (here / "values.parquet").exists()


def test_the_extras_bring_what_the_commands_need() -> None:
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    extras = {
        name: {re.split(r"[>=]", package)[0] for package in packages}
        for name, packages in project["optional-dependencies"].items()
    }
    assert extras["explain"] == {"filelock", "jinja2", "pandas", "pyarrow"}
    apart = {"all", "dev", "docs", "peers"}  # for those who work on it
    (every,) = (re.findall(r"\w+", each) for each in extras["all"] if "[" in each)
    assert {"shearshap", *extras} - apart == set(every)


# From a terminal


def test_the_program_explains_and_reports(here: Path) -> None:
    command = [
        "explain",
        "--model",
        "score.py:predict",
        "--data",
        "rows.csv",
        "--out",
        "values.parquet",
        "--report",
    ]
    finished = subprocess.run(
        [sys.executable, "-m", "shearshap.cli", *command], capture_output=True, text=True
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert re.search(r"\nreport      values.html, \d+ kB, for a browser\n$", finished.stdout)
    facts = json.loads(pq.read_schema("values.parquet").metadata[places.METADATA])
    assert facts["command"] == "shear " + " ".join(command)
    assert facts["command"] in (here / "values.html").read_text().replace(
        '<span class="option">', ""
    ).replace("</span>", "")
