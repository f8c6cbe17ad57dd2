"""Starting a service: every option of `shear explain` has the same effect in it."""

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import joblib
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from shearshap import Explanation
from shearshap.apps.cli import app as command
from shearshap.apps.jobs import Job
from shearshap.apps.jobs.models import importing
from shearshap.apps.serve import Service
from shearshap.apps.serve.prepared import prepare
from shearshap.apps.serve.schemas import plain_rows
from shearshap.errors import InputError, ModelError
from shearshap.result.explanation import spent_evaluations

MODEL = """
import numpy as np
import torch

def predict(rows):
    x = rows.to_numpy()
    scores = np.stack([x[:, 0] * x[:, 1], x[:, 2] + x[:, 3] * x[:, 4], x[:, 1] * x[:, -1]], 1)
    weights = np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)

def in_small_batches(rows):
    if len(rows) > 16:
        raise ValueError(f"{len(rows)} rows are too many at once")
    return predict(rows)

network = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Softplus())
for parameter in network.parameters():
    torch.nn.init.constant_(parameter, 0.5)
"""

OPTIONS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "background": ({"background": "median:rows.csv"}, {}),
    "budget": ({"budget": 40}, {}),
    "method": ({"method": "permutation"}, {}),
    "outputs": ({"outputs": ("2",)}, {}),
    "output_names": ({"output_names": ("no", "maybe", "yes")}, {}),
    "groups": ({"groups": {"first two": ["a", "b"]}, "budget": 20}, {"budget": 20}),
    "semivalue": ({"semivalue": "banzhaf", "method": "auto"}, {"method": "auto"}),
    "id_column": ({"id_column": "f"}, {}),
    "scale": ({"returns": "probability", "scale": "log-odds"}, {"returns": "probability"}),
    "returns": ({"returns": "margin", "scale": "probability"}, {"returns": "probability", "scale": "log-odds"}),
    "multilabel": ({"returns": "margin", "scale": "probability", "multilabel": True}, {"returns": "margin", "scale": "probability"}),
    "drop": ({"drop": ("e",)}, {}),
    "seed": ({"seed": 1}, {}),
    "tol": ({"tol": 0.1, "budget": 60, "method": "auto"}, {"budget": 60, "method": "auto"}),
}  # fmt: skip
"""Options of a job, each with and without it; others that it needs are in both."""

TESTED_BELOW = {"batch_size", "device", "interactions", "loss", "title"}
ABOUT_FILES = {"model", "data", "trust"}
NOT_OF_A_SERVICE = {
    "out", "large", "report", "overwrite", "keep", "shard_rows", "command", "interaction_index", "label",
    "deadline",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options")
    (place / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.gamma(2, 0.5, size=(12, 6)), columns=list("abcdef"))
    table.to_csv(place / "rows.csv", index=False)
    return place


def job(folder: Path, function: str = "predict", **options: Any) -> Job:
    usual = {"background": "mean:rows.csv", "budget": 30, "method": "leverage"}
    given: dict[str, Any] = usual | options
    if given["background"] is not None:
        given["background"] = given["background"].replace("rows.csv", str(folder / "rows.csv"))
    place = f"{folder / 'model.py'}:{function}"
    return Job(model=place, data=folder / "rows.csv", out=folder / "values.parquet", **given)


def assert_served(chosen: Job, expected: Explanation) -> None:
    """Check that a service of a job answers what the job writes, for all its rows."""
    with importing(chosen.model):
        served = prepare(chosen)
        answer = served.explain(plain_rows(served.rows))
    assert served.outputs == answer.output_names == expected.output_names
    assert served.overview.feature_names == answer.feature_names == expected.feature_names
    assert answer.method == expected.method

    # rows are split into other blocks
    for name in ("values", "standard_errors"):
        own, other = getattr(answer, name), getattr(expected, name)
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-7)
    for name in ("base_values", "predictions"):
        np.testing.assert_allclose(getattr(answer, name), getattr(expected, name))
    assert (spent_evaluations(answer) == spent_evaluations(expected)).all()


def differs(explanation: Explanation, other: Explanation) -> bool:
    names = (explanation.feature_names, explanation.output_names)
    if names != (other.feature_names, other.output_names):
        return True
    return not np.allclose(explanation.values, other.values)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_service_answers_what_explain_writes(option: str, folder: Path) -> None:
    chosen, without = (job(folder, **given) for given in OPTIONS[option])
    expected = chosen.run().explanation
    assert differs(expected, without.run().explanation), "the option must show in this test"
    assert_served(chosen, expected)


@pytest.mark.parametrize("background", [None, "sample:rows.csv:9", "kmeans:rows.csv:3"])
def test_the_service_has_the_background_of_explain(background: str | None, folder: Path) -> None:
    chosen = job(folder, background=background, budget=190, method="auto")
    assert_served(chosen, chosen.run().explanation)


def test_trees_without_a_background_follow_their_covers_in_the_service(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=80), "city": rng.choice(["Bern", "Oslo"], 80)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame["city"] = frame["city"].astype("category")
    worth = frame["age"] * frame["city"].cat.codes
    model = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1)
    joblib.dump(model.fit(frame, worth), tmp_path / "model.joblib")

    served = prepare(
        Job(model=str(tmp_path / "model.joblib"), data=tmp_path / "rows.csv", trust=True)
    )
    answer = served.explain(plain_rows(served.rows)[:1])
    assert "training data" in served.background
    np.testing.assert_allclose(
        answer.values, model.predict(frame[:1], pred_contrib=True)[:, :-1], atol=1e-12
    )


def test_the_model_is_called_with_no_more_than_the_batch_size(folder: Path) -> None:
    with pytest.raises(ModelError, match="rows are too many at once"):
        prepare(job(folder, "in_small_batches"))
    chosen = job(folder, "in_small_batches", batch_size=16)
    assert_served(chosen, chosen.run().explanation)


def test_a_device_is_that_of_the_explainer(folder: Path) -> None:
    with pytest.raises(InputError, match="device: expected"):
        prepare(job(folder, "network", device="nowhere"))
    chosen = job(folder, "network", device="cpu")
    assert_served(chosen, chosen.run().explanation)


def test_interactions_are_refused_since_no_answer_has_them(folder: Path) -> None:
    with pytest.raises(InputError, match="a service does not answer with interactions"):
        Service(job=job(folder, interactions=True)).check()


def test_a_loss_is_refused_since_requests_have_no_labels(folder: Path) -> None:
    with pytest.raises(InputError, match="the rows of requests have no labels"):
        Service(job=job(folder, loss="mse", label="f")).check()


def test_groups_of_features_are_those_of_explain(folder: Path) -> None:
    groups = {"left": {"a": None, "b and c": ["b", "c"]}, "right": {"d": None, "e": None}}
    chosen = job(folder, groups=groups, method="auto")
    assert_served(chosen, chosen.run().explanation)
    with importing(chosen.model):
        assert prepare(chosen).groups == {"a": ["a"], "b and c": ["b", "c"], "d": ["d"], "e": ["e"]}


def test_the_title_is_that_of_the_page(folder: Path) -> None:
    with importing(job(folder).model):
        assert prepare(job(folder, title="Who leaves?")).model == "Who leaves?"


def test_no_option_of_a_job_is_forgotten() -> None:
    """An option that a job gains must be tested above, or be one that a service cannot have."""
    known = set(OPTIONS) | TESTED_BELOW | ABOUT_FILES | NOT_OF_A_SERVICE
    assert {each.name for each in fields(Job)} == known


# The command


OF_EXPLAIN_ALONE = {
    "out", "report", "overwrite", "interactions", "interaction_index", "loss", "label", "deadline",
    "keep", "workers", "engine", "address", "gpus", "shard_rows", "log",
}  # fmt: skip
"""Options about files to write and large jobs."""


def test_serve_has_the_options_of_explain() -> None:
    commands: Any = typer.main.get_command(command)
    explain, serve = (
        {each.name for each in commands.commands[name].params} for name in ("explain", "serve")
    )
    assert explain - serve == OF_EXPLAIN_ALONE


def test_options_of_the_command_reach_the_service(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Service] = []
    monkeypatch.setattr(Service, "run", lambda service, _say: started.append(service))
    words = ["serve", "--model", "m.py:f", "--data", str(folder / "rows.csv")]
    words += ["--groups", "first=a,b", "--output-names", "no,maybe,yes", "--batch-size", "7"]
    words += ["--device", "cpu", "--max-evaluations", "5000", "--id", "f", "--title", "Who leaves?"]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    (service,) = started
    assert service.job.groups == {"first": ["a", "b"]}
    assert service.job.output_names == ("no", "maybe", "yes")
    assert (service.job.batch_size, service.job.device) == (7, "cpu")
    assert (service.job.id_column, service.job.title) == ("f", "Who leaves?")
    assert service.limits.evaluations == 5000


def test_ids_and_title_of_the_command_are_in_the_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.read_csv(folder / "rows.csv")
    table.insert(2, "customer", [f"C-{number}" for number in range(len(table))])
    table.to_csv(folder / "customers.csv", index=False)
    started: list[Service] = []
    monkeypatch.setattr(Service, "run", lambda service, _say: started.append(service))
    words = ["serve", "--model", f"{folder / 'model.py'}:predict", "--port", "0"]
    words += [
        "--data",
        str(folder / "customers.csv"),
        "--background",
        f"mean:{folder / 'rows.csv'}",
    ]
    assert CliRunner().invoke(command, [*words, "--id", "customer"]).exit_code == 0
    assert (
        CliRunner()
        .invoke(command, [*words, "--drop", "customer", "--title", "Who leaves?"])
        .exit_code
        == 0
    )
    labelled, titled = started

    with labelled.running() as address:
        about = httpx.get(f"{address}/about").json()
        assert about["id_column"] == "customer"
        assert about["model"] != "Who leaves?"
        assert [each["name"] for each in about["features"]] == list("abcdef")
        rows = httpx.get(f"{address}/rows?limit=12").json()
        assert rows["ids"] == table["customer"].tolist()
        assert httpx.get(f"{address}/ids?search=c-11").json()["rows"] == [
            {"number": 11, "id": "C-11"}
        ]
        answer = httpx.post(f"{address}/explain", json={"rows": rows["rows"][:1]}).json()
        assert answer["features"] == list("abcdef")
    with titled.running() as address:
        about = httpx.get(f"{address}/about").json()
        assert (about["model"], about["id_column"]) == ("Who leaves?", None)
        assert httpx.get(f"{address}/rows").json()["ids"] == list("0123456789")


def refusal(*words: object) -> str:
    result = CliRunner().invoke(command, ["serve", *map(str, words)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr.removeprefix("error: ").strip()


def test_what_cannot_be_started_is_refused_in_a_line(folder: Path) -> None:
    given = ("--model", f"{folder / 'model.py'}:predict", "--data", folder / "rows.csv")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(*given, "--port", port)
    assert said.startswith(f"port: cannot bind to 127.0.0.1:{port}: Address already in use")
    (folder / "model.pkl").write_bytes(b"")
    said = refusal("--model", folder / "model.pkl", "--data", folder / "rows.csv", "--port", 0)
    assert "is a pickle, and opening one runs whatever code is in it" in said


# Who may send requests


def test_others_can_be_let_in_only_with_a_token(folder: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        with pytest.raises(InputError, match=f"others can reach {host}, so a token is needed"):
            Service(job=job(folder), host=host).check()
    for host in ("localhost", "127.8.8.8", "::1"):
        Service(job=job(folder), host=host).check()
    with pytest.raises(InputError, match="expected at least 16 characters, got 5; try "):
        Service(job=job(folder), host="0.0.0.0", token="short").check()
    with pytest.raises(InputError, match="expected ASCII characters"):
        Service(job=job(folder), token="ä" * 20).check()
    service = Service(job=job(folder), host="0.0.0.0", token="correct-horse-battery-staple")
    service.check()
    assert service.hosts is None
    assert Service(job=job(folder)).hosts == ("localhost", "127.0.0.1", "::1")


def test_the_container_is_made_of_files_that_there_are() -> None:
    root = Path(__file__).parents[3]
    steps = (root / "deploy" / "Containerfile").read_text()
    sent = (root / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", steps, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (root / name).exists()
        assert f"!{name}" in sent
    assert steps.rindex("USER shear") > steps.rindex("RUN ")
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", steps, re.MULTILINE)
    program, *words = json.loads(entry)
    assert program == "shear"
    said = refusal(*words[1:], "--model", "m", "--data", "d", "--port", "0")
    assert "so a token is needed" in said
