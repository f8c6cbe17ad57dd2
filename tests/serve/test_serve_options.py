"""Every option that shapes an explanation does so in the service as in `shear explain`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

import browser
from shearshap import Explanation
from shearshap.cli import app as command
from shearshap.errors import InputError, ModelError
from shearshap.jobs import Job
from shearshap.serve import Service

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

CLOSE: Any = {"rtol": 1e-5, "atol": 1e-7}  # rows are split into other blocks

BASE: Mapping[str, Any] = {"background": "mean", "budget": 30}

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "background": {"background": "median"},
    "budget": {"budget": 40},
    "method": {"method": "permutation"},
    "outputs": {"outputs": ("2",)},
    "output_names": {"output_names": ("no", "maybe", "yes")},
    "groups": {"groups": {"first two": ["a", "b"]}, "budget": 20},
    "id_column": {"id_column": "f"},
    "scale": {"returns": "probability", "scale": "log-odds"},
    "returns": {"returns": "margin", "scale": "probability"},
    "multilabel": {"returns": "margin", "scale": "probability", "multilabel": True},
    "drop": {"drop": ("e",)},
    "seed": {"seed": 1},
    "tol": {"tol": 0.1, "budget": 60},
}
"""Options by the name of their field, each with others that it needs."""

NEEDED: Mapping[str, Any] = {
    "groups": {"budget": 20},
    "tol": {"budget": 60},
    "scale": {"returns": "probability"},
    "returns": {"returns": "probability", "scale": "log-odds"},
    "multilabel": {"returns": "margin", "scale": "probability"},
}
"""What is set without the option, where that is more than the base."""

TESTED_BY_FAILURES = {"batch_size", "device", "interactions"}
ABOUT_FILES = {"model", "data", "trust"}
NOT_OF_A_SERVICE = {
    "out", "large", "report", "overwrite", "keep", "shard_rows", "command",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options")
    (place / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.gamma(2, 0.5, size=(40, 6)), columns=list("abcdef"))
    table.to_csv(place / "rows.csv", index=False)
    return place


def job(folder: Path, function: str = "predict", **options: Any) -> Job:
    given = dict(BASE) | options
    return Job(
        model=f"{folder / 'model.py'}:{function}",
        data=folder / "rows.csv",
        out=folder / "values.parquet",
        **given,
    )


def answer_to(served: Job) -> dict[str, Any]:
    """Return what a service of a job says of all its rows."""
    with (
        Service(job=served, port=0).running() as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        rows = client.get("/rows", params={"limit": 100}).json()["rows"]
        answer = client.post("/explain", json={"rows": rows})
        overview = client.get("/global").json()
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    assert overview["features"] == content["features"]
    return content


def outputs_first(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an array (r, p) or (r, p, k) as (r, k, p)."""
    return array[:, None] if array.ndim == 2 else np.swapaxes(array, 1, 2)


def assert_same(answer: Mapping[str, Any], expected: Explanation) -> None:
    def stacked(name: str) -> NDArray[np.float64]:
        return np.array([own[name] for own in answer["explanations"]], dtype=np.float64)

    rows = len(expected)
    assert answer["features"] == expected.feature_names
    assert answer["outputs"] == expected.output_names
    assert answer["method"] == expected.method
    np.testing.assert_allclose(stacked("values"), outputs_first(expected.values), **CLOSE)
    np.testing.assert_allclose(stacked("base_value"), expected.base_values.reshape(rows, -1))
    np.testing.assert_allclose(stacked("prediction"), expected.predictions.reshape(rows, -1))
    assert expected.standard_errors is not None
    np.testing.assert_allclose(
        stacked("standard_errors"), outputs_first(expected.standard_errors), **CLOSE
    )
    spent = expected.row_evaluations
    spent = np.full(rows, expected.evaluations) if spent is None else spent
    np.testing.assert_array_equal(stacked("evaluations"), spent)


def differs(explanation: Explanation, other: Explanation) -> bool:
    names = (explanation.feature_names, explanation.output_names)
    if names != (other.feature_names, other.output_names):
        return True
    return not np.allclose(explanation.values, other.values)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_service_answers_what_explain_writes(option: str, folder: Path) -> None:
    chosen = job(folder, **OPTIONS[option])
    expected = chosen.run().explanation
    without = job(folder, **NEEDED.get(option, {})).run().explanation
    assert differs(expected, without), "the option must show in this test"
    assert_same(answer_to(chosen), expected)


def test_the_model_is_called_with_no_more_than_the_batch_size(folder: Path) -> None:
    with pytest.raises(ModelError, match="rows are too many at once"):
        answer_to(job(folder, "in_small_batches"))
    chosen = job(folder, "in_small_batches", batch_size=16)
    assert_same(answer_to(chosen), chosen.run().explanation)


def test_a_device_is_that_of_the_explainer(folder: Path) -> None:
    wrong = job(folder, "network", device="nowhere")
    with pytest.raises(InputError, match=r"device: (wanted|expected)"):
        wrong.run()
    with pytest.raises(InputError, match=r"device: (wanted|expected)"):
        answer_to(wrong)
    chosen = job(folder, "network", device="cpu")
    assert_same(answer_to(chosen), chosen.run().explanation)


def test_interactions_are_refused_since_no_answer_has_them(folder: Path) -> None:
    with pytest.raises(InputError, match="a service does not answer with interactions"):
        Service(job=job(folder, interactions=True)).check()


def test_no_option_of_a_job_is_forgotten() -> None:
    """An option that a job gains must be tested above, or be one that a service cannot have."""
    known = set(OPTIONS) | TESTED_BY_FAILURES | ABOUT_FILES | NOT_OF_A_SERVICE
    assert {each.name for each in fields(Job)} == known


# The command


OF_EXPLAIN_ALONE = {
    "out", "report", "overwrite", "interactions", "id_column",
    "keep", "workers", "engine", "address", "gpus", "shard_rows", "log",
}  # fmt: skip
"""Options about files to write and large jobs; a service leaves out a column of ids by --drop."""


def test_serve_has_the_options_of_explain() -> None:
    commands: Any = typer.main.get_command(command)
    explain, serve = (
        {each.name: each for each in commands.commands[name].params}
        for name in ("explain", "serve")
    )
    assert set(explain) - set(serve) == OF_EXPLAIN_ALONE
    for name in set(explain) & set(serve) - {"model", "data", "background", "budget"}:
        assert serve[name].help == explain[name].help, name
        assert serve[name].default == explain[name].default, name


def test_options_of_the_command_reach_the_service(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Service] = []
    monkeypatch.setattr(Service, "run", lambda service, _say: started.append(service))
    words = ["serve", "--model", "m.py:f", "--data", str(folder / "rows.csv")]
    words += ["--groups", "first=a,b", "--output-names", "no,maybe,yes", "--batch-size", "7"]
    words += ["--device", "cpu", "--max-evaluations", "5000"]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    (service,) = started
    assert service.job.groups == {"first": ["a", "b"]}
    assert service.job.output_names == ("no", "maybe", "yes")
    assert (service.job.batch_size, service.job.device) == (7, "cpu")
    assert service.limits.evaluations == 5000


# The page


@pytest.mark.parametrize("width", [1280, 390])
def test_a_group_is_one_line_with_a_cell_for_each_column(folder: Path, width: int) -> None:
    grouped = job(folder, groups={"first two": ["a", "b"]}, budget=20)
    with Service(job=grouped, port=0).running() as address, browser.chromium() as driver:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.command(driver, "Emulation.setDeviceMetricsOverride", **size)
        driver.get(address)
        wait(driver, "return !/^[–]?$/.test(document.getElementById('prediction').textContent)")
        lines = driver.find_elements("css selector", ".lines .line")
        names = {line.get_attribute("data-feature") for line in lines}
        assert names == {"first two", "c", "d", "e", "f"}
        group = driver.find_element("css selector", "[data-feature='first two']")
        labels = ("a", "b")
        fields_of_group = [
            group.find_element("css selector", f"input[type=number][aria-label='{name}']")
            for name in labels
        ]
        before = driver.find_element("id", "prediction").text
        driver.execute_script(
            "arguments[0].value = 9; arguments[0].dispatchEvent(new Event('input'))",
            fields_of_group[0],
        )
        wait(driver, f"return document.getElementById('prediction').textContent !== '{before}'")
        assert "back to" in group.text
        driver.find_element("css selector", "[data-feature='first two'] .name button").click()
        wait(driver, f"return document.getElementById('prediction').textContent === '{before}'")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.console(driver) == []


def wait(driver: Any, script: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda page: page.execute_script(script))
