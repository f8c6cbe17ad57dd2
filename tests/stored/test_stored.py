"""What users have stored stays readable: results of commit 7cbb1c1, and of versions to come."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from shearshap import Auto, Explainer, Explanation, InputError, ShearWarning, __version__
from shearshap.apps.cli import app
from shearshap.result.calibration import Calibration

HERE = Path(__file__).parent
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
EXPLANATIONS = [name for name, content in EXPECTED.items() if "feature_names" in content]
FOLDER = (
    "explain", "--model", "score.py:product", "--data", "rows", "--id", "id", "--keep", "id",
    "--background", "all:absent.parquet", "--budget", "24", "--method", "kriging",
)  # fmt: skip


def plain(content: Any) -> Any:
    """Return a field as expected.json has it; see make.py."""
    if isinstance(content, np.ndarray):
        return [plain(each) for each in content.tolist()]
    if isinstance(content, list | tuple):
        return [plain(each) for each in content]
    if isinstance(content, dict):
        return {str(key): plain(each) for key, each in content.items()}
    if content is None or isinstance(content, bool | int | float | str):
        return content
    return repr(content) if hasattr(content, "to_dict") else str(content)


def check_same(found: Any, expected: Any) -> None:
    assert json.dumps(found) == json.dumps(expected)  # a NaN does not equal itself


def shear(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stored files, as the current folder."""
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Files of this format


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explanations(name: str) -> None:
    found = Explanation.load(HERE / f"{name}.npz")
    known = {each.name: plain(getattr(found, each.name)) for each in fields(Explanation)}
    check_same({field: known[field] for field in EXPECTED[name]}, EXPECTED[name])
    assert len(found.to_frame())
    assert str(found)


def test_a_calibration() -> None:
    kept = Calibration.from_dict(json.loads((HERE / "calibration.json").read_text()))
    assert kept == Explanation.load(HERE / "kriging.npz").calibration
    explainer = Explainer(lambda x: x.prod(axis=1), np.zeros(5), method=Auto(calibration=kept))
    assert explainer(np.ones((2, 5)), budget=24).calibration == kept


def test_values_and_their_report(here: Path) -> None:
    for name in ("values", "values.interactions", "needed"):
        table = pd.read_parquet(f"{name}.parquet")
        found = plain({column: table[column].tolist() for column in EXPECTED[name]})
        check_same(found, EXPECTED[name])
    assert shear("report", "values.parquet").exit_code == 0
    page = (here / "values.html").read_text(encoding="utf-8")
    assert "Late payments" in page
    assert "the 8 rows explained" in page
    # it knows them as its own, so they are replaced without a question
    shutil.copy("rows/0.parquet", "other.parquet")
    words = ("explain", "--model", "score.py:product", "--data", "other.parquet", "--id", "id")
    assert shear(*words, "--out", "values.parquet").exit_code == 0


def test_a_folder_of_parts(here: Path) -> None:
    found = pd.read_parquet("finished")
    check_same(plain({name: found[name].tolist() for name in found}), EXPECTED["finished"])
    before = {path.name: path.read_bytes() for path in here.glob("*/part-*")}
    finished = shear(*FOLDER, "--out", "finished/")
    resumed = shear(*FOLDER, "--out", "interrupted/")
    assert {path.name: path.read_bytes() for path in here.glob("finished/part-*")} == before
    if resumed.exit_code:  # by a version that cannot go on with it
        assert resumed.stderr.count("\n") == 1
        assert "shearshap 0.1.0" in resumed.stderr
        return
    assert "8 done before" in finished.stdout
    assert "4 explained, 4 done before" in resumed.stdout
    whole = pd.read_parquet("interrupted")
    assert whole["id"].tolist() == found["id"].tolist()
    numbers = ["base_value", "prediction"]
    np.testing.assert_allclose(whole[numbers], found[numbers])
    shares = whole[[f"value.{name}" for name in "abcde"]].sum(axis=1)
    np.testing.assert_allclose(whole["base_value"] + shares + whole["gap"], whole["prediction"])


# Files of other versions


def rewritten(path: Path, change: Callable[[dict[str, Any]], object], **arrays: Any) -> None:
    """Change the JSON of a saved explanation, and add arrays to it."""
    with np.load(path) as file:
        entries = {**file, **arrays}
    header = json.loads(entries["shearshap"].tobytes())
    change(header)
    entries["shearshap"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **entries)


@pytest.mark.usefixtures("here")
def test_files_name_the_version_that_wrote_them() -> None:
    Explanation.load("kriging.npz").save("again.npz")
    with zipfile.ZipFile("again.npz") as archive:
        assert f'"written_by": "{__version__}"'.encode() in archive.read("shearshap.npy")
    calibration = Explanation.load("kriging.npz").calibration
    assert calibration.to_dict()["version"] == __version__

    mixed = ("--data", "mixed.parquet", "--model", "score.py:predict")
    table = pd.read_parquet("values.parquet")
    names = ["a", "b", "s", "kind", "new", "day"]
    rows = table[[f"data.{name}" for name in names]].set_axis(names, axis=1)
    rows.assign(y=rows["new"]).to_parquet("mixed.parquet")
    loss = ("--label", "y", "--loss", "log loss", "--out", "importance.parquet")
    assert shear("importance", *mixed, *loss).exit_code == 0
    assert shear(*FOLDER, "--out", "parts/").exit_code == 0
    for path in ("importance.parquet", "parts/part-000000.parquet"):
        assert json.loads(pq.read_schema(path).metadata[b"shearshap"])["version"] == __version__


def test_fields_of_the_future_are_left_out_with_a_note(here: Path) -> None:
    def later(header: dict[str, Any]) -> None:
        header["written_by"] = "0.7.3"
        header["fields"] |= {"mood": {"Mood": "good"}, "notes": {"tuple": ["Few rows."]}}
        header["fields"]["calibration"]["calibration"]["dict"].append(["twist", 0.5])

    whole = Explanation.load("kriging.npz")
    rewritten(here / "kriging.npz", later, extra=np.zeros(3))
    found = Explanation.load("kriging.npz")
    np.testing.assert_array_equal(found.values, whole.values)
    assert found.calibration == whole.calibration
    assert found.notes == (
        "Few rows.",
        f"the file was written by shearshap 0.7.3; shearshap {__version__} does not know these parts of it, and leaves them out: extra, mood",
        f"the calibration was fitted by shearshap of another version; shearshap {__version__} does not know these numbers of it, and leaves them out: twist",
    )  # fmt: skip

    with pytest.warns(ShearWarning, match=r"fitted by shearshap 0\.7\.3; .* out: twist"):
        kept = Calibration.from_dict(
            {**whole.calibration.to_dict(), "twist": 1, "version": "0.7.3"}
        )
    assert kept == whole.calibration


def test_a_format_of_the_future_is_refused(here: Path) -> None:
    rewritten(here / "trees.npz", lambda header: header.update(version=2, written_by="3.0.1"))
    with pytest.raises(InputError) as raised:
        Explanation.load("trees.npz")
    assert str(raised.value) == (
        f"trees.npz was written by shearshap 3.0.1 in format 2, and shearshap {__version__} reads "
        "formats up to 1; read it with shearshap 3.0.1"
    )
    rewritten(here / "covers.npz", lambda header: header.update(version=2))
    with pytest.raises(InputError, match="read it with a later shearshap"):
        Explanation.load("covers.npz")


def changed_values(change: Callable[[dict[str, Any]], object]) -> Result:
    """Change the facts of a file of values, and ask for its report."""
    table = pq.read_table(HERE / "values.parquet")
    facts = json.loads(table.schema.metadata[b"shearshap"])
    change(facts)
    table = table.replace_schema_metadata({b"shearshap": json.dumps(facts).encode()})
    pq.write_table(table, "values.parquet")
    return shear("report", "values.parquet", "--overwrite")


def test_the_values_of_another_version(here: Path) -> None:
    def add_fields(facts: dict[str, Any]) -> None:
        facts["version"] = "0.7.3"
        facts["explanation"]["fields"]["mood"] = {"Mood": "good"}
        facts["explanation"]["arrays"].append("extra")

    result = changed_values(add_fields)
    assert result.exit_code == 0, result.stderr
    page = (here / "values.html").read_text(encoding="utf-8")
    assert "the file was written by shearshap 0.7.3" in page
    assert "leaves them out: extra, mood" in page

    result = changed_values(lambda facts: facts["explanation"].update(format=2))
    assert result.stderr.startswith(
        "error: values: values.parquet was written by shearshap 0.1.0 in format 2, and shearshap"
    )
    result = changed_values(lambda facts: (facts.update(version="2.0"), facts.pop("explanation")))
    assert result.stderr == (
        f"error: values: values.parquet was not written by shear explain {__version__}; make the "
        "report with version 2.0, which wrote it\n"
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "change",
    [
        {"data": 5}, {"title": ["x"]}, {"command": 5}, {"scale": {}}, {"background": None}, {"id": 5},
        {"groups": 5}, {"groups": {"a": 5}}, {"groups": {"a": {"b": [5]}}}, {"explanation": 5},
    ],
)  # fmt: skip
def test_values_with_facts_of_other_types(change: dict[str, Any]) -> None:
    result = changed_values(lambda facts: facts.update(change))
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: values: values.parquet was not written by shear explain"
    )
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"}, {"fields": 5}, {"arrays": 5}, {"model": 5}, {"notes": [5]}, {"columns": "x"},
        {"notes": {"tuple": 5}}, {"method": 5}, {"seed": "x"}, {"versions": {"dict": [["a", 5]]}},
        {"hierarchy": {"Decimal": "x"}}, {"output_names": {"datetime": ["2024-01-01", "Europe"]}},
    ],
)  # fmt: skip
def test_values_of_other_types(change: dict[str, Any]) -> None:
    def update(facts: dict[str, Any]) -> None:
        entry = facts["explanation"]
        for name, content in change.items():
            of_entry = name in {*entry, "format"}
            (entry if of_entry else entry["fields"])[name] = content

    result = changed_values(update)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: values: values.parquet was not written by shear explain"
    )
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("change", [{"format": 99}, {"identity": {"version": "0.0.9"}}])
def test_the_folder_of_another_version(here: Path, change: dict[str, Any]) -> None:
    path = here / "interrupted" / "_manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    result = shear(*FOLDER, "--out", "interrupted/")
    writer = "0.0.9" if "identity" in change else "0.1.0"
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert f"holds a job that shearshap {writer} began" in result.stderr
    assert f"continue it with shearshap {writer}, or choose another folder" in result.stderr
    assert sorted(path.name for path in here.glob("interrupted/part-*")) == ["part-000000.parquet"]
