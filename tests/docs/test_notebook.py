"""The notebooks: they run in a kernel, and tables and bars can be read at any width, in light and dark themes."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import browser
import shearshap

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "first_look.ipynb"

SLOW = """
import time
import numpy as np
from shearshap import Explainer

def slow(rows):
    time.sleep(0.02 * len(rows))
    return rows.sum(axis=1)

Explainer(slow, np.zeros(4))(np.ones((10, 4)))
"""


def executed(notebook: Any, folder: Path) -> tuple[Any, list[dict[str, str]]]:
    """Run a notebook in a kernel of this Python; return it, and each update of its displays."""
    updates: list[dict[str, str]] = []

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
            if message["msg_type"] in ("display_data", "update_display_data"):
                updates.append(message["content"]["data"])
            return super().process_message(message, cell, cell_index)

    client = Client(
        notebook, timeout=300, coalesce_streams=True, resources={"metadata": {"path": str(folder)}}
    )
    client.create_kernel_manager()
    client.km._kernel_spec = _kernel()
    client.execute()
    return notebook, updates


def _kernel() -> Any:
    """Return a kernel of the Python that runs the tests, with the package under test."""
    from jupyter_client.kernelspec import KernelSpec

    source = str(Path(shearshap.__file__).parents[1])
    paths = [source, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="test",
        language="python",
        env={
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "OMP_NUM_THREADS": "1",
        },
    )


def html_of(cell: Any) -> str:
    """Return all the HTML that a cell shows."""
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


# one worker for all of them: they look at one run
pytestmark = pytest.mark.xdist_group("notebook")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[dict[str, str]]]:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(SLOW))
    return executed(notebook, tmp_path_factory.mktemp("notebook"))


def cells_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_every_cell_runs_and_shows_what_it_should(ran: tuple[Any, list[dict[str, str]]]) -> None:
    explainer, explained, means, cohorts, by_age, one, printed, _ = cells_of(ran[0])
    text = explainer.outputs[0]["data"]["text/plain"]
    assert text == "Explainer(<HistGradientBoostingRegressor>, <DataFrame of shape (442, 10)>)"
    assert "<b>Explanation</b>" in html_of(explained)
    assert "… and 437 more rows" in html_of(explained)
    assert "mean |value|" in html_of(means)
    assert "sex 1 (235 rows)" in html_of(cohorts)
    assert "age ≤ 38" in html_of(by_age)
    assert ">17</td>" in html_of(one)
    assert printed.outputs[0]["text"].startswith("Explanation(1 row, 10 features")
    assert not any(
        output.get("name") == "stderr" for cell in cells_of(ran[0]) for output in cell.outputs
    )


def test_bars_reach_their_end_and_a_slow_call_has_one_without_being_asked(
    ran: tuple[Any, list[dict[str, str]]],
) -> None:
    *cells, slow = [
        "".join(output.get("text", "") for output in cell.outputs) for cell in cells_of(ran[0])
    ]
    assert any("442/442 rows" in text for text in cells)
    assert "10/10 rows" in slow


# The other examples


def shown(name: str, folder: Path) -> tuple[str, int]:
    """Run an example at a small size; return all the text that it shows, and how many pictures."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    for cell in cells_of(notebook):
        cell.source = cell.source.replace("ROWS = 20_000", "ROWS = 400")
    executed(notebook, folder)
    outputs = [output for cell in cells_of(notebook) for output in cell.outputs]
    texts = [
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs
    ]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    return "\n".join(texts), pictures


@pytest.mark.slow
def test_credit_is_explained_by_raw_columns_and_reported(tmp_path: Path) -> None:
    text, pictures = shown("credit", tmp_path)
    assert pictures == 3
    assert "checking" in text
    assert "written to  values.parquet" in text
    report = (tmp_path / "values.html").read_text(encoding="utf-8")
    assert "Why these applicants are a risk" in report
    assert "no checking account" in report


@pytest.mark.slow
def test_pictures_are_explained_within_their_errors(tmp_path: Path) -> None:
    text, pictures = shown("images", tmp_path)
    assert pictures == 2
    inside = re.search(r"within two standard errors: (\d+)%", text)
    assert inside is not None
    assert int(inside[1]) >= 90


@pytest.mark.slow
def test_the_document_with_the_answer_comes_first(tmp_path: Path) -> None:
    text, pictures = shown("why_this_answer", tmp_path)
    assert pictures == 2
    values = dict(re.findall(r"([+−][\d.]+)  █+ +documents \d: (\w+)", text))
    assert next(iter(values.values())) == "Cleo"


@pytest.mark.slow
@pytest.mark.ray
def test_a_large_job_on_ray_goes_on_where_it_was(tmp_path: Path) -> None:
    text, _ = shown("large_job", tmp_path)
    assert "400 explained, 0 done before" in text
    assert "0 explained, 400 done before" in text
    assert "background  5 of the 442 rows passed, chosen by k-means" in text
    assert (tmp_path / "values" / "_report.html").exists()


# In a browser


PAGE = """<!doctype html><html><head><meta charset="utf-8">
<meta name="color-scheme" content="light dark"><title>notebook</title></head>
<body style="margin:16px">{cells}</body></html>"""

UNREADABLE = """
const found = [];
const boxes = [...document.querySelectorAll(".shear td, .shear th, .shear .shear-key span")]
  .filter(element => element.offsetParent !== null)
  .map(element => ({element, box: element.getBoundingClientRect()}));
boxes.forEach((first, i) => boxes.slice(i + 1).forEach(other => {
  const a = first.box, b = other.box;
  if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    found.push(`${first.element.textContent} overlaps ${other.element.textContent}`);
}));
for (const element of document.querySelectorAll(".shear td, .shear-name")) {
  if (element.scrollWidth > element.clientWidth + 1) found.push(`${element.textContent} is cut`);
}
if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than its window");
return found;
"""

LUMINANCE = """
const shown = document.querySelector(".shear td");
return getComputedStyle(shown).color + " " + getComputedStyle(document.querySelector(".shear"))
  .getPropertyValue("--raises");
"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tables_can_be_read(
    ran: tuple[Any, list[dict[str, str]]],
    driver: "Chrome",
    tmp_path: Path,
    width: int,
    scheme: str,
) -> None:
    page = tmp_path / "page.html"
    cells = "<hr>".join(html_of(cell) for cell in cells_of(ran[0]))
    page.write_text(PAGE.format(cells=cells), encoding="utf-8")
    browser.command(
        driver,
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    browser.visit(driver, page, width=width)
    assert driver.execute_script(UNREADABLE) == []
    colours = driver.execute_script(LUMINANCE)
    light_on_dark = ("rgb(255, 255, 255)", "#F0873E")
    dark_on_light = ("rgb(0, 0, 0)", "#D55E00")
    for colour in light_on_dark if scheme == "dark" else dark_on_light:
        assert colour in colours
    assert browser.console(driver) == []
