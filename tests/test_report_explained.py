"""The report of explained rows: what it says, and how it reads on a phone, at a desk, on paper and without a script."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pypdf import PdfReader

import browser
from shearshap import Explanation
from shearshap.jobs import Result
from shearshap.jobs.explained_page import ROWS, page, shown_outputs
from shearshap.report import Dot, Line, chart, render, write
from shearshap.report.html_charts import Scale

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "\"'><script>alert(1)</script>"
LONG = "a-feature-whose-name-is-one-long-word-without-any-blank"
SHOWN = 12
RNG = np.random.default_rng(0)


def explanation(
    rows: int = 120, players: int = 14, outputs: int = 1, *, errors: bool = True
) -> Explanation:
    """Return values of many sizes, with names and cells that are long, missing or hostile."""
    scales = 2.0 ** -np.arange(players)
    values = RNG.normal(size=(rows, players, outputs)) * scales[:, None]
    base = RNG.normal(size=(1, outputs)).repeat(rows, axis=0)
    names = [LONG, HOSTILE, *(f"feature {n}" for n in range(players - 2))]
    display = np.array(
        [[f"value {n} {'of many words ' * (n % 3)}" for n in range(players)]] * rows, dtype=object
    )
    display[:, 2], display[:, 3] = RNG.normal(size=rows), None
    single = slice(None) if outputs > 1 else 0
    return Explanation(
        values[..., single], base[:, single], (base + values.sum(axis=1) + 0.01)[:, single],
        (0.1 * np.abs(values))[..., single] if errors else None, 200, 0, "kriging" if errors else "exact", 0,
        feature_names=names, output_names=[f"class {n}" for n in range(outputs)],
        data=RNG.normal(size=(rows, players)), display_data=display,
    )  # fmt: skip


def result(explained: Explanation, notes: tuple[str, ...] = ()) -> Result:
    data = pa.table({"a": np.arange(len(explained)), "label": ["<b>yes</b>"] * len(explained)})
    return Result(explained, data, "model.onnx", "mean of train.csv", ("a",), notes)


def facts(explained: Explanation) -> dict[str, Any]:
    return {
        "version": "0.1.0", "command": "shear explain --model model.onnx --data rows.csv --out values.parquet --report",
        "data": "rows.csv", "scale": None, "method": explained.method, "evaluations": explained.evaluations, "seed": 0,
        "rows": len(explained), "outputs": explained.output_names,
    }  # fmt: skip


def html(explained: Explanation, notes: tuple[str, ...] = ()) -> str:
    return render(page(result(explained, notes), facts(explained)))


# What it says


def test_names_and_cells_are_shown_and_never_run() -> None:
    text = html(explanation(), ("a note with `code` and **bold**",))
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<b>yes" not in text
    assert "label = &lt;b&gt;yes&lt;/b&gt;" in text
    assert "a note with ´code´" in text


def test_many_rows_are_a_sample_and_it_says_so() -> None:
    text = html(explanation())
    assert f"The first {ROWS} of 120 rows are here" in text
    assert len(re.findall("<h4>Row ", text)) == ROWS
    assert "All rows are here" in html(explanation(rows=3))


def test_the_table_has_every_feature_with_its_mean_size() -> None:
    explained = explanation(rows=40, players=25)
    (table,) = page(result(explained), facts(explained)).sections[0].tables
    assert len(table.rows) == 25
    assert not table.open
    sizes = np.abs(explained.values).mean(axis=0)
    assert [float(row[1]) for row in table.rows] == pytest.approx(
        sorted(sizes, reverse=True), abs=0.01
    )


@pytest.mark.parametrize(("outputs", "shown"), [(1, 1), (2, 2), (4, 4), (6, 4)])
def test_so_many_outputs_are_shown(outputs: int, shown: int) -> None:
    explained = explanation(rows=4, outputs=outputs)
    parts, note = shown_outputs(explained)
    assert [part.output_names for part in parts] == [[f"class {n}"] for n in range(shown)]
    assert bool(note) == (shown < outputs)
    assert html(explained).count('aria-label="Mean size of values') == shown


def test_of_two_outputs_that_mirror_each_other_one_is_shown() -> None:
    explained = explanation(rows=4, outputs=2)
    mirrored = replace(
        explained, values=np.stack((-explained.values[..., 0], explained.values[..., 0]), axis=2)
    )
    parts, note = shown_outputs(mirrored)
    assert [part.output_names for part in parts] == [["class 1"]]
    assert "what raises it lowers “class 0”" in note


def test_exact_values_have_no_intervals() -> None:
    text = html(explanation(rows=2, errors=False))
    assert "The values are exact, up to rounding." in text
    assert "±" not in text
    assert 'class="whisker"' not in text
    assert "Thin lines and ±" in html(explanation(rows=2))


def test_standard_errors_of_zero_are_not_none() -> None:
    explained = explanation(rows=2)
    sure = html(replace(explained, standard_errors=np.full_like(explained.values, 1e-12)))
    assert sure.count("The standard errors are 0, up to rounding.") == 2
    assert "no standard errors" not in sure
    assert "±" not in sure
    unknown = html(replace(explained, standard_errors=None))
    assert unknown.count("<code>kriging</code> has no standard errors here.") == 2
    assert "up to rounding" not in unknown
    assert unknown == html(
        replace(explained, standard_errors=np.full_like(explained.values, np.nan))
    )


def test_an_interval_of_any_output_is_explained() -> None:
    explained = explanation(rows=2, outputs=2)
    assert explained.standard_errors is not None
    half = html(
        replace(explained, standard_errors=explained.standard_errors * np.array([0.0, 1.0]))
    )
    for text in (half, html(explained)):
        assert (
            "In about 95 of 100 cases, for models that are smooth enough, the exact Shapley value"
            in text
        )
        assert "up to rounding" not in text


def test_one_row_has_no_swarm() -> None:
    assert "Which way, row by row" not in html(explanation(rows=1))


def test_values_that_are_all_zero_are_drawn() -> None:
    explained = explanation(rows=2)
    nothing = replace(
        explained,
        values=0 * explained.values,
        standard_errors=None,
        predictions=explained.base_values,
    )
    assert html(nothing).count("<rect") > 0


# Charts


def test_marks_stand_where_their_numbers_are() -> None:
    """From 0 to 100 with a margin of 4 at either end, 50 is in the middle and 0 at 4 of 108."""
    made = chart([Line("a", bar=(0.0, 100.0), whisker=(25.0, 50.0), point=50.0)], alt="", unit="")
    assert 'x="3.70%" width="92.59%"' in made
    assert 'cx="50.00%"' in made
    assert 'x1="26.85%" x2="50.00%"' in made


@pytest.mark.parametrize("scale", [(0.0, 1.0), (-3e-5, 2e-5), (-1234.0, 7.0), (99.9, 100.1)])
def test_ticks_are_round_and_few(scale: tuple[float, float]) -> None:
    low, high = scale
    ticks = Scale(low, high).ticks()
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    steps = np.diff(ticks)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


def test_dots_stand_off_the_middle_of_their_line() -> None:
    dots = tuple(Dot(0.0, offset, "#123456", "<title>") for offset in (-1.0, 0.0, 1.0))
    made = chart([Line("a", dots=dots)], alt="", unit="")
    assert re.findall(r'cy="([\d.]+)"', made) == ["3.0", "16.0", "29.0"]
    assert made.count('fill="#123456"') == made.count("&lt;title&gt;") == 3


# In a browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    explained = explanation(rows=SHOWN, outputs=2)
    notes = ("workclass: 3 of 120 cells hold a category that training did not have, such as 'x'",)
    return write(
        page(result(explained, notes), facts(explained)),
        tmp_path_factory.mktemp("report") / "values.html",
    )


@pytest.fixture(scope="module")
def driver() -> Iterator["Chrome"]:
    with browser.chromium() as driver:
        yield driver


OVERLAPS = """
const boxes = [...document.querySelectorAll(".chart .name, .chart .amount, .ticks span, .unit, h4, h5, .note, .picker > *")]
  .map(element => ({text: element.textContent.trim(), box: element.getBoundingClientRect()}))
  .filter(({text, box}) => text && box.width && box.height);
const unreadable = [];
boxes.forEach((first, i) => {
  if (first.box.left < 0 || first.box.right > innerWidth) unreadable.push(`${first.text} sticks out`);
  for (const other of boxes.slice(i + 1)) {
    const across = Math.min(first.box.right, other.box.right) - Math.max(first.box.left, other.box.left);
    const down = Math.min(first.box.bottom, other.box.bottom) - Math.max(first.box.top, other.box.top);
    if (across > 1 && down > 1) unreadable.push(`${first.text} overlaps ${other.text}`);
  }
});
return unreadable;
"""
browsing = pytest.mark.xdist_group("browser")


@browsing
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_can_be_read(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(OVERLAPS) == []
    assert browser.overlapping_text(driver) == []
    assert [url for url in browser.requests(driver) if not url.startswith("data:")] == [
        path.as_uri()
    ]
    assert browser.console(driver) == []


@browsing
@pytest.mark.parametrize("width", [360, 1280])
def test_the_lines_of_a_chart_share_their_scale(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    script = """
    return [...document.querySelectorAll(".chart")].filter(chart => chart.offsetParent).map(chart =>
      [...chart.querySelectorAll(".track, .ticks")].map(e => e.getBoundingClientRect()).map(b => [b.left, b.width]))"""
    for tracks in driver.execute_script(script):
        assert np.ptp(np.array(tracks), axis=0).max() < 0.5
        assert tracks[0][1] > 200


@browsing
def test_a_row_is_picked(driver: "Chrome", path: Path) -> None:
    from selenium.webdriver.support.select import Select

    browser.visit(driver, path, width=1280)
    picker = driver.find_element("class name", "picker")
    select = Select(picker.find_element("tag name", "select"))
    before, after = picker.find_elements("tag name", "button")

    def shown() -> list[str]:
        script = "return [...document.querySelectorAll('[data-pick] h4')].filter(e => e.offsetParent).map(e => e.innerText)"
        return [title.partition(":")[0] for title in driver.execute_script(script)]

    assert len(select.options) == SHOWN
    assert shown() == ["Row 0"]
    assert not before.is_enabled()
    after.click()
    assert shown() == ["Row 1"]
    select.select_by_index(SHOWN - 1)
    assert shown() == [f"Row {SHOWN - 1}"]
    assert not after.is_enabled()
    before.click()
    assert shown() == [f"Row {SHOWN - 2}"]


@browsing
def test_it_is_whole_without_a_script(driver: "Chrome", path: Path) -> None:
    browser.command(driver, "Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.visit(driver, path, width=1280)
        assert not driver.find_elements("class name", "picker")
        titles = driver.find_elements("css selector", "[data-pick] h4")
        assert len(titles) == SHOWN
        assert titles[-1].is_displayed()
    finally:
        browser.command(driver, "Emulation.setScriptExecutionDisabled", value=False)


@browsing
def test_it_prints_the_row_that_is_shown(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=1280)
    pages = PdfReader(io.BytesIO(browser.printed(driver))).pages
    text = " ".join(" ".join(sheet.extract_text() for sheet in pages).split())
    assert text.count("base value") > 2
    assert "Row 0:" in text
    assert "Row 1:" not in text
    assert "What the numbers mean" in text
    assert len(pages) < 20
