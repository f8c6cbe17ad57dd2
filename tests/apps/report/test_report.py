"""A page is one file that shows what it was given, runs none of it, and loads nothing."""

import io
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure as Drawing
from pypdf import PdfReader

import browser
from shearshap.apps.report import Figure, Page, Panel, Section, Series, Table, render, write
from shearshap_lab.svg import inline

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"


class Parsed(HTMLParser):
    """The elements of a page in order, with their attributes, and its text without script and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] not in ("script", "style"):
            self.text.append(data)

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


@cache
def svg(salt: str = "one", alt: str = "Error falls with the budget") -> str:
    """Return a picture of two series."""
    figure = Drawing(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot(xlabel="evaluations", title="a < b")
    for name in ("shear", "kernel"):
        (line,) = axes.plot([16, 32, 64], marker="o")
        line.set_gid(f"series-{name}")
    return inline(figure, alt=alt, titles={}, salt=salt)


def sample(text: str = "words") -> Page:
    """Return a page that has everything once, and `text` in every place for text."""
    panels = (Panel(text, svg("one", text)), Panel(text, svg("two", text)))
    table = Table(
        text, (text, text), ((text, "1"), (text, "2")), notes=(text,), emphasis=frozenset({(1, 1)})
    )
    figure = Figure(text, panels, text)
    section = Section(
        "accuracy", text, (text,), (figure,), (table, replace(table, open=False)), (text,)
    )
    series = (
        Series("shear", text, text, text, "o"),
        Series("kernel", text, text),
        Series("absent", "Absent", "red"),
    )
    return Page(text, (text,), (section,), series, foot=((text, text),))


def plain(*text: str) -> Page:
    return Page("title", text, ())


def test_what_it_is_given_is_shown_and_never_run() -> None:
    page = Parsed(render(sample(HOSTILE)))
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "img" not in {tag for tag, _ in page.elements}
    assert not {
        name for _, attributes in page.elements for name in attributes if name.startswith("on")
    }
    in_text = "".join(page.text).count(HOSTILE)
    in_attributes = [
        value for _, attributes in page.elements for value in attributes.values()
    ].count(HOSTILE)
    harmless = render(sample("words"))
    assert in_text + in_attributes == "".join(Parsed(harmless).text).count(
        "words"
    ) + harmless.count('="words"')
    assert in_text > 20


def test_it_loads_nothing() -> None:
    html = render(sample()).replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    page = Parsed(html)
    assert not page.attributes("src") + page.attributes("xlink:href")
    assert {tag for tag, attributes in page.elements if "href" in attributes} == {
        "a",
        "link",
        "use",
    }
    assert all(
        address.startswith("#") or address == "data:," for address in page.attributes("href")
    )
    assert all(address.startswith("#") for address in re.findall(r"url\(([^)]*)\)", html))
    assert not re.search("@import|https?:", html)
    (policy,) = page.attributes("content")[1:2]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_every_id_is_its_own_and_every_reference_finds_one() -> None:
    html = render(sample())
    page = Parsed(html)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    references = {address[1:] for address in page.attributes("href") if address.startswith("#")}
    references |= set(re.findall(r"url\(#([^)]*)\)", html)) | set(
        page.attributes("aria-labelledby")
    )
    assert references <= set(ids)
    assert {"accuracy", "contents"} < set(ids)


def test_the_same_page_is_the_same_file(tmp_path: Path) -> None:
    first = write(sample(), tmp_path / "new folder" / "first.html")
    second = write(sample(), tmp_path / "second.html")
    assert first.read_bytes() == second.read_bytes() == render(sample()).encode()
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["first.html", "second.html"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "run `shear --x <y>` now",
            'run <code>shear <span class="option">--x</span> &lt;y&gt;</code> now',
        ),
        ("**best** of all", "<strong>best</strong> of all"),
        (
            "[words & more](https://example.org/?a=1&b=2)",
            '<a href="https://example.org/?a=1&amp;b=2">words &amp; more</a>',
        ),
        ("[no](javascript:alert(1))", "[no](javascript:alert(1))"),
        (
            '[no](https://x"onclick="alert(1))',
            '<a href="https://x&#34;onclick=&#34;alert(1">no</a>)',
        ),
        ("2 * 3 * 4 and a_b", "2 * 3 * 4 and a_b"),
    ],
)
def test_text_is_marked_up(text: str, html: str) -> None:
    assert f'<p class="lead">{html}</p>' in render(plain(text))


def test_a_figure_lists_the_series_it_draws() -> None:
    page = sample()
    assert re.findall('<li data-series="(.*?)">', render(page)) == ["shear", "kernel"]
    figure = replace(page.sections[0].figures[0], key=False)
    assert "<li data-series" not in render(
        replace(page, sections=(Section("s", "s", (), (figure,)),))
    )


def test_a_missing_jinja2_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="the report needs jinja2: pip install jinja2"):
        render(plain("words"))


def test_importing_it_needs_no_extra() -> None:
    script = "import sys; sys.modules |= {'matplotlib': None, 'jinja2': None}; import shearshap.apps.report"
    subprocess.run([sys.executable, "-c", script], check=True)


# In a browser: on a phone, at a desk and on paper


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two figures, a small table, a wide one, and a folded one."""
    series = (Series("shear", "SHEAR", "#0072b2"), Series("kernel", "KernelSHAP", "#d55e00"))
    panels = [Panel(name, svg(name)) for name in ("census", "bank", "german", "deep")]
    figures = (Figure("Three", tuple(panels[:3]), ""), Figure("One", tuple(panels[3:]), ""))
    small = Table("Data sets", ("data set", "rows"), (("census", "32,561"), ("german", "1,000")))
    columns = ("method", *(f"{2**power} eval." for power in range(4, 15)))
    rows = (("SHEAR", *["0.1234"] * 11), ("KernelSHAP folded", *["0.5678"] * 11))
    wide = Table("Error by budget", columns, rows[:1])
    folded = Table("Error, second network", columns, rows[1:], open=False)
    sections = (
        Section("accuracy", "Accuracy", ("See [the tables](#tables).",), figures),
        Section("tables", "All numbers", (), tables=(small, wide, folded)),
    )
    facts = (("command", "`shear paper reproduce --datasets census,bank,german --budgets 16,32`"),)
    page = Page("How far the estimators are", ("Lead.",), sections, series, foot=facts)
    return write(page, tmp_path_factory.mktemp("report") / "report.html")


@browser.browsing
@pytest.mark.parametrize("width", [360, 1280, 2560])
def test_it_can_be_read(driver: "Chrome", path: Path, width: int) -> None:
    browser.visit(driver, path, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.overlapping_text(driver) == []
    assert [url for url in browser.requests(driver) if not url.startswith("data:")] == [
        path.as_uri()
    ]
    assert browser.console(driver) == []
    boxes = [panel.rect for panel in driver.find_elements("class name", "panel")[:3]]
    side_by_side = len({box["y"] for box in boxes}) == 1
    assert side_by_side == (width > 360)


@browser.browsing
def test_a_wide_table_scrolls_by_itself_and_says_so(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=360)
    small, wide = driver.find_elements("css selector", "figure .scroller")
    assert driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", wide)
    assert wide.find_element("class name", "hint").is_displayed()
    assert not small.find_element("class name", "hint").is_displayed()
    name = wide.find_element("css selector", "tbody th")
    before = name.rect["x"]
    driver.execute_script("arguments[0].scrollLeft = 200", wide)
    assert wide.get_property("scrollLeft") == 200
    assert name.rect["x"] == before


@browser.browsing
def test_a_series_is_highlighted_in_every_figure(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=1280)
    dimmed = "return [...document.querySelectorAll('.plot .dimmed')].map(e => e.classList[1])"
    button = driver.find_element("css selector", ".key button[data-series='kernel']")
    button.click()
    assert driver.execute_script(dimmed) == ["series-shear"] * 4
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert driver.execute_script(dimmed) == []


@browser.browsing
def test_a_folded_table_is_printed_and_stays_folded(driver: "Chrome", path: Path) -> None:
    browser.visit(driver, path, width=1280)
    folded = driver.find_element("css selector", "details tbody th")
    assert not folded.is_displayed()
    pages = PdfReader(io.BytesIO(browser.printed(driver))).pages
    text = unicodedata.normalize("NFKC", " ".join(page.extract_text() for page in pages))
    printed = " ".join(text.split())
    assert "KernelSHAP folded" in printed
    assert printed.count("16384 eval.") == 2
    assert "Contents" not in printed
    assert "scroll sideways" not in printed
    assert not folded.is_displayed()
