"""Models in files: every kind is read, or refused in a line, and no code is run that nobody trusts."""

import pickle
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damaged_files import DAMAGES, Damage, Reader, read_model, read_table, unshrunk
from explain_command import done, written
from explain_command import refusal as failed
from folder_jobs import save_onnx
from shearshap import Explainer
from shearshap.apps.jobs import models
from shearshap.apps.jobs.models import open_model
from shearshap.errors import InputError

pytestmark = pytest.mark.usefixtures("here")


# Folders and pickles


def test_folders_are_opened_by_entry_points(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "folder").mkdir()
    found = [SimpleNamespace(load=lambda: lambda _folder: None)]
    monkeypatch.setattr(models, "entry_points", lambda **_: found)
    with pytest.raises(InputError, match="model: folder is a folder without a model; expected a"):
        open_model("folder")
    found.append(SimpleNamespace(load=lambda: lambda _folder: np.sum))
    assert open_model("folder").model is np.sum


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


def test_a_pickle_is_opened_only_when_it_is_trusted(pipeline: Path) -> None:
    people().to_csv("people.csv", index=False)
    assert f"model: {pipeline} is a pickle, and opening one runs" in failed(pipeline, "people.csv")
    text = done(
        pipeline, "people.csv", "--trust", "--output", "yes", "--background", "mean:people.csv"
    )
    assert "not used    bought\n" in text
    assert "background  mean of the 60 rows of people.csv\n" in text
    frame = people()[["age", "city", "income"]]
    wanted = Explainer(joblib.load(pipeline), ("mean", frame), output="yes")(frame)
    assert "note        city equals the background in 23 of 60 rows" in text
    np.testing.assert_allclose(written().filter(regex=r"^value\."), wanted.values, atol=1e-9)
    pd.testing.assert_frame_equal(
        written()[["data.age", "data.city", "data.income", "data.bought"]].set_axis(people().columns, axis=1), people(),
        check_dtype=False,
    )  # fmt: skip


def test_a_column_that_the_model_needs_is_named(pipeline: Path) -> None:
    people().to_csv("people.csv", index=False)
    message = failed(pipeline, "people.csv", "--trust", "--drop", "city")
    assert message == "drop: expected a column that the model does not use, got 'city'"
    people().drop(columns="city").to_csv("people.csv", index=False)
    message = failed(pipeline, "people.csv", "--trust")
    assert message.startswith("data: people.csv: column 'city' is missing")


# Boosters and ONNX


@pytest.fixture(scope="module")
def boosters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of people, by every library, each beside its chances."""
    import catboost
    import lightgbm
    import xgboost

    folder = tmp_path_factory.mktemp("boosters")
    frame = people()[["age", "city", "income"]]
    coded = frame.astype({"city": "category"})
    labels = (people()["bought"] == "yes").astype(int)
    light = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1, n_jobs=1)
    extreme = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1)
    cat = catboost.CatBoostClassifier(
        iterations=5, verbose=0, allow_writing_files=False, cat_features=["city"]
    )
    light.fit(coded, labels).booster_.save_model(folder / "model.txt")
    extreme.fit(coded, labels).save_model(folder / "model.json")
    cat.fit(frame, labels).save_model(str(folder / "model.cbm"))
    for suffix, model, rows in (
        (".txt", light, coded),
        (".json", extreme, coded),
        (".cbm", cat, frame),
    ):
        np.save(folder / f"chances{suffix}.npy", model.predict_proba(rows)[:, 1])
    save_onnx(folder / "model.onnx", [2.0, -1.0])
    return folder


@pytest.mark.parametrize("suffix", [".txt", ".json", ".cbm"])
def test_boosters_take_text_as_they_were_trained_with(boosters: Path, suffix: str) -> None:
    frame = people()
    frame.to_csv("people.csv", index=False)
    frame[frame["city"] != "Rome"].to_csv("north.csv", index=False)
    words = ("--output", "1") if suffix == ".cbm" else ()
    words = ("--scale", "probability", "--background", "mode:north.csv", *words)
    done(boosters / f"model{suffix}", "people.csv", *words)
    chances = np.load(boosters / f"chances{suffix}.npy")
    np.testing.assert_allclose(written()["prediction"], chances, rtol=1e-5)
    assert np.abs(written()["value.city"]).max() > 0.01
    assert np.abs(written()["gap"]).max() < 1e-6


def test_lightgbm_knows_columns_with_spaces_by_underscores() -> None:
    import lightgbm

    frame = people()[["age", "income"]].rename(columns={"age": "age in years"})
    labels = (people()["bought"] == "yes").astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1)
    model.fit(frame, labels).booster_.save_model("model.txt")
    frame.assign(id=range(len(frame))).to_csv("people.csv", index=False)
    text = done("model.txt", "people.csv", "--scale", "probability")
    assert "not used    id\n" in text
    np.testing.assert_allclose(written()["prediction"], model.predict_proba(frame)[:, 1])
    assert "value.age in years" in written()


def test_an_onnx_file(here: Path) -> None:
    save_onnx(here / "model.onnx", [2.0, -1.0])
    done("model.onnx", "rows.csv", "--drop", "s", "--background", "absent.csv")
    assert written()["value.a"].tolist() == [2, 4, 6]
    assert written()["value.b"].tolist() == [-3, -4, -5]
    message = failed("model.onnx", "rows.csv", "--drop", "s", "--drop", "b")
    assert message.startswith("the model failed on inputs of shape (18, 1): ")
    (here / "holes.csv").write_text("a,b\n1,2\n3,NA\n")
    told = failed("model.onnx", "holes.csv")
    assert told.startswith("data: holes.csv: row 1 has nan in column b (1 of 2 rows ")


@pytest.mark.parametrize("suffix", [".txt", ".json", ".cbm", ".onnx"])
def test_a_model_file_that_was_cut_is_one_line(reader: Reader, boosters: Path, suffix: str) -> None:
    content = (boosters / f"model{suffix}").read_bytes()
    places_to_cut = [0, 4, len(content) // 3, len(content) // 2, len(content) - 40]
    for size in places_to_cut:
        message = reader.error(read_model, content[:size], suffix)
        assert re.match(rf"model: [^ ]+{suffix} .{{1,300}}$", message), message
        lines = reader.log.read_text().splitlines()
        assert not [line for line in lines if not line.startswith("[LightGBM] [Fatal]")]


# CatBoost checks nothing: it reads half of such files, and one in sixty ends the process
@pytest.mark.parametrize("suffix", [".txt", ".json", ".onnx"])
@settings(unshrunk, max_examples=30)
@given(damage=DAMAGES)
def test_no_damage_to_a_model_file_crashes_its_reader(
    reader: Reader, boosters: Path, suffix: str, damage: Damage
) -> None:
    content = (boosters / f"model{suffix}").read_bytes()
    error = reader.error(read_model, damage.of(content), suffix)
    assert not error or re.fullmatch(rf"model: [^ ]+{suffix} .+", error)


def test_a_model_of_lightgbm_without_its_categories_is_refused(here: Path, boosters: Path) -> None:
    """LightGBM itself loads such a file, and codes categories by the rows that it is given."""
    content = (boosters / "model.txt").read_text()
    last = content.index("pandas_categorical")
    for size in (last + 1, last + 10, last + 17):
        (here / "cut.txt").write_text(content[:size])
        assert failed("cut.txt", "few.csv") == (
            "model: cut.txt is truncated, or not a LightGBM model: its end is missing"
        )
    (here / "cut.txt").write_text(content[:last])  # as other programs than Python write it
    open_model("cut.txt")


# Code

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


# Files that are broken, or that would run code


class Payload:
    """An object whose pickle writes a file when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize(
    "suffix", [".pkl", ".joblib", ".json", ".txt", ".onnx", ".csv", ".parquet"]
)
def test_no_code_of_a_file_is_run(reader: Reader, suffix: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    content = pickle.dumps(Payload(mark))
    read = read_table if suffix in (".csv", ".parquet") else read_model
    assert reader.error(read, content, suffix)
    assert not mark.exists()
    pickle.loads(content)  # though it would
    assert mark.exists()


@settings(max_examples=10)
@given(name=st.text(min_size=1, max_size=30).filter(lambda name: "\x00" not in name))
def test_any_name_is_a_model_or_refused(name: str) -> None:
    with pytest.raises(InputError, match="model: "):
        open_model(f"no-such-place/{name}")
