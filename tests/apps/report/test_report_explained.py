"""The report of explained rows: what it says, and how it reads on a phone, at a desk, on paper and without a script."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pypdf import PdfReader

import browser
from shearshap import Explanation
from shearshap.apps.jobs import Result
from shearshap.apps.report import Figure, Line, Page, Panel, Section, chart, render, write
from shearshap.apps.report import rows as rows_module
from shearshap.apps.report.explained import page, shown_outputs
from shearshap.apps.report.summary import highlights
from shearshap.result.colours import DARK_PAGE, PAGE

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "\"'><script>alert(1)</script>"
LONG = "a-feature-whose-name-is-one-long-word-without-any-blank"
SHOWN = 30
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
    assert "</script>alert" not in text
    assert "<b>yes" not in text
    assert "\\u003cb>yes\\u003c/b>" in text  # in the data of the rows
    assert "a note with ´code´" in text


def charts_of(text: str) -> list[dict[str, Any]]:
    """The data of all charts in a page, in their order."""
    found = re.findall(r'<script type="application/json" class="chart-data">(.*?)</script>', text)
    return [json.loads(content) for content in found]


def rows_of(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The data of all rows in a page: what they have in common, and their blocks."""
    kinds = re.findall(r'<script type="application/json" class="(rows-\w+)">(.*?)</script>', text)
    assert [kind for kind, _ in kinds] == ["rows-index"] + ["rows-block"] * (len(kinds) - 1)
    index, *blocks = [json.loads(content) for _, content in kinds]
    return index, blocks


def test_all_rows_are_in_the_page_and_their_numbers_add_up() -> None:
    explained = replace(
        explanation(rows=1200), index=np.array([f"n{n}" for n in range(1200)]), index_name="id"
    )
    small = np.where(np.arange(1200) < 1000, 1.0, 0.01)[:, None]  # values of the last block
    explained = replace(
        explained,
        values=explained.values * small,
        standard_errors=np.asarray(explained.standard_errors) * small,
    )
    text = html(explained)
    index, blocks = rows_of(text)
    assert "All rows are on this page (" in text
    assert index["label"] == "id"
    assert index["labels"] == explained.index.tolist()
    assert [len(block["rows"]) for block in blocks] == [500, 500, 200]
    np.testing.assert_allclose(index["predictions"][0], explained.predictions, rtol=1e-5)

    (unit,) = index["units"]
    others, gap, *steps = blocks[2]["rows"][199][0]
    players, values, cells, margins = (steps[at::4] for at in range(4))
    assert players == np.argsort(-np.abs(explained.values[-1]))[:12].tolist()
    np.testing.assert_allclose(np.array(values) * unit, explained.values[-1][players], atol=unit)
    assert (sum(values) + others + gap) * unit == pytest.approx(
        explained.predictions[-1] - explained.base_values[-1], abs=10 * unit
    )
    half = explained.interval()[1][-1] - explained.values[-1]
    np.testing.assert_allclose(np.array(margins) * unit, half[players], atol=unit)
    assert blocks[2]["texts"][cells[players.index(0)]] == "value 0 "


def test_a_page_has_a_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_BYTES", 100_000)
    text = html(explanation(rows=3000, outputs=3))
    index, blocks = rows_of(text)
    held = len(index["labels"])
    assert 50 < held < 1000
    assert f"{held:,} of the 3,000 rows, evenly spaced, are on this page (" in text
    assert sum(len(block["rows"]) for block in blocks) == held
    assert (index["labels"][0], index["labels"][-1]) == ("0", "2999")
    data = re.findall(r'<script type="application/json" class="rows-.*?</script>', text)
    assert sum(len(part.encode()) for part in data) <= 100_000


def test_the_table_has_every_feature_with_its_mean_size() -> None:
    explained = explanation(rows=40, players=25)
    (table,) = page(result(explained), facts(explained)).sections[0].tables
    assert len(table.rows) == 25
    assert not table.open
    sizes = np.abs(explained.values).mean(axis=0)
    assert [float(row[1]) for row in table.rows] == pytest.approx(
        sorted(sizes, reverse=True), abs=0.01
    )


@pytest.mark.parametrize(("outputs", "shown"), [(1, 1), (2, 2), (4, 4), (14, 12)])
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
    assert "What raises it lowers “class 0”" in note
    rounded = replace(mirrored, values=mirrored.values + RNG.normal(size=mirrored.shape) * 1e-6)
    assert len(shown_outputs(rounded)[0]) == 1
    assert (
        "How much each of 14 features moved P(class 1), for 4 rows, compared with mean of"
        in html(replace(mirrored, scale="probability"))
    )
    assert "moved the model&#39;s prediction for “class 1”, for 4 rows" in html(mirrored)


def test_a_chart_of_sizes_holds_the_table_of_importance() -> None:
    explained = explanation(rows=50, errors=False)
    tiny = explained.values * np.where(np.arange(14) < 4, 1, 1e-6)
    small = replace(explained, values=tiny)
    sizes, dots = charts_of(html(small))
    table = small.abs().mean()
    assert [line["bar"] for line in sizes["lines"]] == [
        [0.0, pytest.approx(table.values[feature])] for feature in table.order[:4]
    ]  # what would be written as 0 is not drawn
    assert sizes["lines"][0]["whisker"] == pytest.approx(
        [table.lower[table.order[0]], table.upper[table.order[0]]]
    )
    drawn = [np.concatenate([*line["dots"].values()])[::2] for line in dots["lines"]]
    for values, feature in zip(drawn, table.order, strict=False):
        np.testing.assert_allclose(np.sort(values), np.sort(tiny[:, feature]), rtol=1e-3)


def test_no_interval_is_drawn_without_standard_errors() -> None:
    explained = explanation(rows=2)
    for errors in (None, np.full_like(explained.values, np.nan)):
        unknown = replace(explained, standard_errors=errors)
        _, blocks = rows_of(html(unknown))
        assert not any(any(row[0][5::4]) for row in blocks[0]["rows"])


# The summary


def tidy_explanation(rows: int = 200) -> Explanation:
    """Debt raises, pay lowers, the city does a little, and the last feature does nothing."""
    debt, pay = RNG.normal(size=(2, rows))
    city = np.arange(rows) % 2
    values = np.stack([0.5 * debt, -0.4 * pay, 0.1 * (city - 0.5), 0 * debt], axis=1)
    display = np.stack([debt, pay, np.array(["Oslo", "Rome"])[city], debt], axis=1, dtype=object)
    return Explanation(
        values, np.full(rows, 0.427), 0.427 + values.sum(axis=1), None, 16, 0, "exact", 0,
        feature_names=["debt", "pay", "city", "noise"], output_names=["late"],
        data=np.stack([debt, pay, city, debt], axis=1), display_data=display,
    )  # fmt: skip


def test_the_summary_is_made_from_the_numbers() -> None:
    explained = tidy_explanation()
    sizes = np.abs(explained.values).mean(axis=0)
    part = sizes[:2].sum() / sizes.sum()
    first, debt, pay, city, run, idle, sure = highlights([explained])
    assert f"Two features account for {100 * part:.0f} % of the" in first
    assert "**debt** and **pay**" in first
    assert debt == "High **debt** raises the prediction."
    assert pay == "High **pay** lowers the prediction."
    assert city == ("By **city**: “Rome” +0.0500, “Oslo” −0.0500 on average.")
    low, high = explained.predictions.min(), explained.predictions.max()
    assert run.startswith(
        f"The predictions for “late” run from {low:.2f} to {high:.2f}".replace("-", "−")
    )
    assert run.endswith("For the background the model predicts 0.427.")
    assert idle == "**noise** has no effect on any row."
    assert sure == "The values are exact, up to rounding."


def test_classes_are_counted_by_name() -> None:
    explained = explanation(rows=10, outputs=3)
    predictions = np.zeros((10, 3))
    predictions[np.arange(10), [0] * 7 + [2] * 3] = 1.0
    outputs, _ = shown_outputs(replace(explained, predictions=predictions))
    assert highlights(outputs)[1] == (
        "The model predicts **class 0** for 70 % of the rows and **class 2** for 30 % of the rows."
    )


def test_the_pair_that_acts_together_is_named_and_drawn() -> None:
    explained = tidy_explanation()
    interactions = np.zeros((len(explained), 4, 4))
    interactions[:, 0, 1] = interactions[:, 1, 0] = 0.25
    paired = replace(explained, interactions=interactions)
    assert (
        "**debt** and **pay** act together most: what each does depends on the other, by 0.250 per row on average."
        in highlights([paired])
    )
    text = html(paired)
    assert "Which features act together" in text
    (line,) = charts_of(text)[-1]["lines"]
    assert (line["name"], line["number"], line["bar"]) == ("debt × pay", "0.250", [0.0, 0.25])


def test_the_page_says_what_was_explained() -> None:
    explained = replace(
        tidy_explanation(), scale="probability", model="XGBClassifier", notes=("Mind the gap.",),
        versions={"shearshap": "0.1.0", "xgboost": "3.2"},
    )  # fmt: skip
    text = html(explained, ("mind the file",))
    for words in (
        "model.onnx (XGBClassifier)", "late; scale: probability", "shearshap 0.1.0, xgboost 3.2",
        "how far it moves P(late), on average", "</strong> Mind the gap.<", "</strong> mind the file.<",
    ):  # fmt: skip
        assert words in text


def test_many_categories_are_told_by_the_highest_and_the_lowest() -> None:
    explained = tidy_explanation(210)
    city = np.arange(210) % 7
    display = explained.display_data
    assert display is not None
    display[:, 2] = np.array(list("ABCDEFG"))[city]
    values = explained.values.copy()
    values[:, 2] = city - 3.0
    (sentence,) = [each for each in highlights([replace(explained, values=values)]) if "By" in each]
    assert sentence == (
        "By **city**: “G” +3.00, “F” +2.00, 3 others between, “B” −2.00, “A” −3.00 on average."
    )


def test_categories_have_their_means_below_their_dots(tmp_path: Path) -> None:
    explained = tidy_explanation(20)
    values = explained.values[:, 2]
    assert explained.display_data is not None
    cities = explained.display_data[:, 2]
    html = explained.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    for city in ("Oslo", "Rome"):
        assert f"{city} {values[cities == city].mean():+.3f}".replace("-", "−") in html


# In a browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many rows by id, two outputs, long names."""
    explained = explanation(rows=SHOWN, outputs=2)
    labels = np.array([f"customer-{100 + 7 * n}" for n in range(SHOWN)])
    explained = replace(explained, index=labels, index_name="id")
    notes = ("workclass: 3 of 120 cells hold a category that training did not have, such as 'x'",)
    return write(
        page(result(explained, notes), facts(explained)),
        tmp_path_factory.mktemp("report") / "values.html",
    )


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows of one output."""
    explained = explanation(rows=3, players=5, errors=False)
    made = page(result(explained), facts(explained))
    return write(made, tmp_path_factory.mktemp("few") / "values.html")


OVERLAPS = """
const selector = ".chart .name, .chart .amount, .ticks span, .unit, h1, h2, h3, h4, .note, .picker > *, .lead, .highlights li, "
  + ".warnings p, figcaption, .ramp, .rows th, .rows td, .section > p";
const boxes = [...document.querySelectorAll(selector)]
  .map(element => ({text: element.textContent.trim() || element.tagName, box: element.getBoundingClientRect()}))
  .filter(({box}) => box.width && box.height);
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
CONTRAST = """
const channels = text => text.match(/[\\d.]+/g).map(Number);
const light = text => {
  const [r, g, b] = channels(text).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
  }
  return "rgb(255, 255, 255)";
};
const faint = [];
for (const element of document.querySelectorAll("h1, h2, h3, p, li, th, td, small, b, .name, .amount, .ticks span, button:enabled, figcaption")) {
  if (!element.textContent.trim() || !element.getClientRects().length) continue;
  const [one, two] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (two + 0.05);
  if (ratio < 4.5) faint.push(`${element.tagName} ${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
}
return faint;
"""


def prefer(driver: "Chrome", scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.command(driver, "Emulation.setEmulatedMedia", features=features)


@browser.browsing
@pytest.mark.parametrize(
    ("which", "width", "scheme"),
    [
        ("path", 360, "light"),
        ("path", 768, "dark"),
        ("path", 1280, "light"),
        ("few", 390, "dark"),
        ("few", 1280, "dark"),
    ],
)
def test_it_can_be_read(
    driver: "Chrome", request: pytest.FixtureRequest, which: str, width: int, scheme: str
) -> None:
    path = request.getfixturevalue(which)
    prefer(driver, scheme)
    browser.visit(driver, path, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(OVERLAPS) == []
    assert driver.execute_script(CONTRAST) == []
    assert browser.overlapping_text(driver) == []
    assert [url for url in browser.requests(driver) if not url.startswith("data:")] == [
        path.as_uri()
    ]
    assert browser.console(driver) == []

    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    wanted = (PAGE if scheme == "light" else DARK_PAGE)["paper"]
    assert paper == f"rgb({', '.join(str(int(wanted[at : at + 2], 16)) for at in (1, 3, 5))})"


@browser.browsing
@pytest.mark.parametrize("width", [360, 1280])
def test_the_lines_of_a_chart_share_their_scale(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    script = """
    return [...document.querySelectorAll(".chart")].filter(chart => chart.offsetParent).map(chart =>
      [...chart.querySelectorAll(".track, .ticks")].map(e => e.getBoundingClientRect()).map(b => [b.left, b.width]))"""
    for tracks in driver.execute_script(script):
        assert np.ptp(np.array(tracks), axis=0).max() < 0.5
        assert tracks[0][1] > 200


@browser.browsing
def test_marks_stand_where_their_numbers_are(driver: "Chrome", tmp_path: Path) -> None:
    """From 0 to 100 with a margin of 4 at either end, 50 is in the middle and 0 at 4 of 108."""
    dots = {"#123456": [50.0, -1.0, 50.0, 0.0, 50.0, 1.0]}
    lines = [Line("a_b", "7", bar=(100.0, 0.0), whisker=(25.0, 50.0)), Line("swarm", dots=dots)]
    figure = Figure("f", (Panel("", chart(lines, alt="", unit="units")),), "")
    drawn = Page("t", (), (Section("s", "s", (), (figure,)),))
    browser.visit(driver, write(drawn, tmp_path / "chart.html"), width=1280)
    read = """return [...document.querySelectorAll(arguments[0])].map(e => arguments[1].map(n => e.getAttribute(n)))"""
    assert driver.execute_script(read, ".track rect", ["x", "width"]) == [["3.70%", "92.59%"]]
    assert driver.execute_script(read, ".whisker", ["x1", "x2"])[0] == ["26.85%", "50.00%"]
    assert driver.execute_script(read, ".dots path", ["stroke", "d"]) == [
        ["#123456", "M500 3.0h0M500 16.0h0M500 29.0h0"]
    ]
    texts = [e.text for e in driver.find_elements("css selector", ".name, .amount, .ticks span")]
    assert texts == ["a_b", "7", "swarm", "", "0", "25", "50", "75", "100"]


def labels_shown(driver: "Chrome") -> list[str]:
    script = "return [...document.querySelectorAll('.rows tbody th')].map(e => e.textContent)"
    found: list[str] = driver.execute_script(script)
    return found


def title(driver: "Chrome") -> str:
    return str(driver.execute_script("return document.querySelector('.rows h3').textContent"))


@browser.browsing
def test_rows_are_searched_sorted_and_paged(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=1280)
    index, _ = rows_of(path.read_text())
    by_prediction = np.argsort(-np.array(index["predictions"][0]), kind="stable")
    labels = [index["labels"][n] for n in by_prediction]
    assert labels_shown(driver) == labels[:12]  # the highest prediction first
    assert title(driver).startswith(f"id {labels[0]}: prediction for “class 0” ")

    before, after = driver.find_elements("css selector", ".pager button")
    assert not before.is_enabled()
    after.click()
    assert labels_shown(driver) == labels[12:24]
    assert driver.find_element("css selector", ".pager .counter").text == f"13–24 of {SHOWN}"
    after.click()
    assert labels_shown(driver) == labels[24:]
    assert not after.is_enabled()

    by_label, by_size = driver.find_elements("css selector", ".rows thead button")[:2]
    by_label.click()
    assert labels_shown(driver) == index["labels"][:12]
    by_label.click()
    assert labels_shown(driver) == index["labels"][::-1][:12]
    by_size.click()
    by_size.click()
    assert labels_shown(driver) == labels[::-1][:12]

    search = driver.find_element("css selector", ".rows input")
    search.send_keys("CUSTOMER-121")
    assert labels_shown(driver) == ["customer-121"]
    assert title(driver).startswith("id customer-121: ")
    assert driver.find_element("css selector", ".tools .counter").text == "1 found"
    search.send_keys("x")
    assert labels_shown(driver) == []


@browser.browsing
def test_outputs_are_picked_everywhere_at_once(driver: "Chrome", path: Path) -> None:
    from selenium.webdriver.support.select import Select

    browser.visit(driver, path, width=1280)
    lists = [Select(element) for element in driver.find_elements("tag name", "select")]
    assert len(lists) == 3  # two figures and the rows
    assert [option.text for option in lists[0].options] == ["class 0", "class 1"]
    lists[0].select_by_index(1)
    assert [each.first_selected_option.text for each in lists] == ["class 1"] * 3
    assert "prediction for “class 1”" in title(driver)
    lists[2].select_by_index(0)
    assert [each.first_selected_option.text for each in lists] == ["class 0"] * 3


@browser.browsing
def test_it_prints_the_row_that_is_shown(driver: "Chrome", path: Path) -> None:
    prefer(driver, "dark")  # paper is white all the same
    browser.visit(driver, path, width=1280)
    pages = PdfReader(io.BytesIO(browser.printed(driver))).pages
    text = " ".join(" ".join(sheet.extract_text() for sheet in pages).split())
    assert text.count("customer-") == 1
    assert "What the numbers mean" in text
    assert "Not causes." in text
    assert len(pages) < 12
