"""A report as its readers see it: on a phone and a desk, on paper, with and without a script, and off line."""

import io
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing
from pypdf import PdfReader

import browser
from shearshap.report import Figure, Page, Panel, Section, Series, Table, write
from shearshap_lab.svg import inline

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PHONE, DESK = 360, 1280
BUDGETS = np.array([16, 32, 64, 128, 256])
pytestmark = pytest.mark.xdist_group("browser")  # one browser, whatever the number of workers

SERIES = tuple(
    Series(name, label, color, dash, marker)
    for name, label, color, dash, marker in (
        ("shear", "SHEAR", "#0072b2", "", "o"),
        ("kernel", "KernelSHAP", "#d55e00", "", "s"),
        ("kernel-paired", "KernelSHAP, paired", "#d55e00", "4 2", "D"),
        ("permutation", "Permutations", "#009e73", "", "^"),
        ("permutation-antithetic", "Permutations, antithetic", "#009e73", "4 2", "v"),
        ("stratified", "Stratified", "#7b4fa3", "", "P"),
        ("leverage", "Leverage scores", "#b0457b", "4 2", "X"),
        ("kriging", "Kriging", "#6b5b00", "", "*"),
        ("owen", "Multilinear", "#555555", "1 2", ">"),
    )
)
DASHES = {"": "-", "4 2": (0, (4, 2)), "1 2": (0, (1, 2))}


def drawing(seed: int) -> tuple[Drawing, dict[str, list[str]]]:
    """Return error against budget for every series, and what each marker's tooltip says."""
    generator = np.random.default_rng(seed)
    figure = Drawing(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="evaluations a row", ylabel="mean absolute error"
    )
    titles = {}
    for place, series in enumerate(SERIES):
        error = 0.5 * (1 + place / 3) / BUDGETS ** generator.uniform(0.5, 0.9)
        bars = axes.errorbar(
            BUDGETS,
            error,
            0.15 * error,
            color=series.color,
            marker=series.marker,
            ls=DASHES[series.dash],
            lw=1.2,
            ms=4,
            capsize=2,
        )
        for artist in (bars[0], *bars[1], *bars[2]):
            artist.set_gid(f"series-{series.name}")
        titles[f"series-{series.name}"] = [
            f"{series.label}: {e:.4f} at {b}" for b, e in zip(BUDGETS, error, strict=True)
        ]
    axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, titles


def panel(title: str, seed: int) -> Panel:
    figure, titles = drawing(seed)
    return Panel(
        title, inline(figure, alt=f"Error on {title}", titles=titles, salt=f"panel-{seed}")
    )


def wide_table(caption: str, word: str, *, is_open: bool = True) -> Table:
    columns = ("method", *(f"{budget} eval." for budget in 2 ** np.arange(4, 15)))
    rows = tuple(
        (
            f"{series.label} {word}".strip(),
            *(f"{0.4 / 2**column + 0.01 * row:.4f}" for column in range(11)),
        )
        for row, series in enumerate(SERIES)
    )
    emphasis = frozenset((0, column) for column in range(1, 12))
    notes = ("Mean of 500 rows and 10 seeds; **bold**: the least error of a column.",)
    return Table(caption, columns, rows, notes=notes, emphasis=emphasis, open=is_open)


def sample() -> Page:
    census = Figure(
        "Error against budget",
        tuple(panel(title, seed) for seed, title in enumerate(("census", "bank", "german"))),
        "Mean absolute error over mean |value|. Bars: standard errors over ten seeds. Both axes are logarithmic.",
    )
    pair = Figure(
        "The same, for two networks",
        (panel("deep", 3), panel("wide", 4)),
        "Rows are the same as above, seeds are not.",
    )
    text = (
        "Each estimator spends the same number of model evaluations on a row, and is measured against exact values. "
        "`shear` picks coalitions from the features that interact most; the others draw them.",
        "See [the tables](#tables) for every number, and [the paper](https://arxiv.org/abs/2202.11845) for the idea.",
    )
    small = Table(
        "Data sets",
        ("data set", "kind", "rows", "players"),
        (("census", "tabular", "32,561", "13"), ("german", "tabular", "1,000", "20")),
        left=2,
    )
    return Page(
        title="How far the estimators are from exact Shapley values",
        lead=(
            "SHEAR has the least error at every budget on all three data sets; the gap is widest where budgets are small.",
        ),
        facts=(
            ("machine", "8 cores, x86-64, no GPU"),
            ("versions", "shearshap 0.1.0, torch 2.13.0, Python 3.11.7"),
            ("seeds", "0 to 9"),
            (
                "command",
                "`shear paper reproduce --datasets census,bank,german --budgets 16,32,64,128,256 --seeds 10 --out report`",
            ),
        ),
        sections=(
            Section(
                "accuracy",
                "Accuracy",
                text,
                figures=(census, pair),
                notes=("Lines stop where a method needs no more.",),
            ),
            Section(
                "tables",
                "All numbers",
                ("Every number in the figures.",),
                tables=(
                    small,
                    wide_table("Error by budget", ""),
                    wide_table("Error by budget, second network", "folded", is_open=False),
                ),
            ),
        ),
        series=SERIES,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(sample(), tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def driver() -> Iterator["Chrome"]:
    with browser.chromium() as driver:
        yield driver


@pytest.fixture
def scriptless(driver: "Chrome") -> Iterator["Chrome"]:
    browser.command(driver, "Emulation.setScriptExecutionDisabled", value=True)
    yield driver
    browser.command(driver, "Emulation.setScriptExecutionDisabled", value=False)


def boxes(driver: "Chrome", selector: str) -> list[dict[str, float]]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect().toJSON())"
    rectangles: list[dict[str, float]] = driver.execute_script(script, selector)
    return rectangles


def opacities(driver: "Chrome") -> dict[str, set[str]]:
    """Return the opacity of everything drawn, by series, once no transition runs."""
    script = """
    document.getAnimations().forEach(animation => animation.finish());
    return [...document.querySelectorAll(".plot .series")].map(e => [e.classList[1], getComputedStyle(e).opacity])"""
    by_series: dict[str, set[str]] = {}
    for name, opacity in driver.execute_script(script):
        by_series.setdefault(name.removeprefix("series-"), set()).add(opacity)
    return by_series


def button(driver: "Chrome", name: str) -> Any:
    return driver.find_element("css selector", f".key button[data-series='{name}']")


def words(pdf: bytes) -> str:
    """Return the text of a PDF on one line, ligatures taken apart."""
    text = " ".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def test_it_loads_nothing_and_logs_nothing(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=DESK)
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [url for url in browser.requests(driver) if not url.startswith("data:")] == [
        path.as_uri()
    ]
    assert browser.console(driver) == []


@pytest.mark.parametrize("width", [PHONE, 768, DESK, 2560])
def test_it_never_scrolls_sideways(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    assert driver.execute_script("return innerWidth") == width
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_panels_stand_side_by_side_on_a_desk(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=DESK)
    first, second, third = boxes(driver, ".panel")[:3]
    assert first["top"] == second["top"] == third["top"]
    assert first["right"] <= second["left"]
    assert second["right"] <= third["left"]


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_text_in_figures_can_be_read(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    assert browser.overlapping_text(driver) == []


def test_a_wide_table_scrolls_by_itself_and_says_so(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=PHONE)
    small, wide = driver.find_elements("css selector", "figure .scroller")
    assert driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", wide)
    assert wide.find_element("class name", "hint").is_displayed()
    assert not small.find_element("class name", "hint").is_displayed()
    name = wide.find_element("css selector", "tbody th")
    before = name.rect["x"]
    driver.execute_script("arguments[0].scrollLeft = 200", wide)
    assert wide.get_property("scrollLeft") == 200
    assert name.rect["x"] == before


def test_a_series_is_highlighted_in_every_figure(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=DESK)
    assert set().union(*opacities(driver).values()) == {"1"}
    button(driver, "kernel").click()
    dimmed = opacities(driver)
    assert dimmed.pop("kernel") == {"1"}
    assert len(dimmed) == len(SERIES) - 1
    assert set().union(*dimmed.values()) == {"0.12"}
    pressed = driver.find_elements("css selector", ".key button[aria-pressed='true']")
    assert [key.text for key in pressed] == ["KernelSHAP", "KernelSHAP"]
    button(driver, "kernel").click()
    assert set().union(*opacities(driver).values()) == {"1"}
    assert not driver.find_elements("css selector", ".key button[aria-pressed='true']")


def test_it_is_whole_without_a_script(scriptless: "Chrome", path: Path) -> None:
    browser.visit(scriptless, path, width=DESK)
    assert not scriptless.find_elements("css selector", ".key button")
    keys = scriptless.find_elements("class name", "key")
    assert [len(key.find_elements("tag name", "li")) for key in keys] == [len(SERIES), len(SERIES)]
    assert all(plot.rect["width"] > 250 for plot in scriptless.find_elements("class name", "plot"))
    assert "SHEAR folded" in words(browser.printed(scriptless))


def test_a_folded_table_is_printed_and_stays_folded(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=DESK)
    folded = driver.find_element("css selector", "details tbody th")
    assert not folded.is_displayed()
    printed = words(browser.printed(driver))
    for series in SERIES:
        assert f"{series.label} folded" in printed
    assert printed.count("16384 eval.") == 2
    assert "Contents" not in printed
    assert "scroll sideways" not in printed
    assert not folded.is_displayed()


def test_nothing_is_cut_off_on_paper(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=680)  # of A4, between the margins
    browser.command(driver, "Emulation.setEmulatedMedia", media="print")
    try:
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 680
        assert all(table["right"] <= 680 for table in boxes(driver, "table"))
        first, second, third = boxes(driver, ".panel")[:3]
        assert first["top"] == second["top"] < third["top"]
    finally:
        browser.command(driver, "Emulation.setEmulatedMedia", media="")


def test_a_missing_browser_skips_unless_one_is_required(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SHEARSHAP_REQUIRE_BROWSER", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="needs a browser: no chromium, no chromedriver"),
        browser.chromium(),
    ):
        pass
    monkeypatch.setenv("SHEARSHAP_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="needs a browser"), browser.chromium():
        pass
