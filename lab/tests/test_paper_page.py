"""The page of the reproduction, made of made-up records.

Drawing a figure as SVG takes most of the time of a page. Where a test is about the page around the
figures, they are outlines: an SVG with the groups of the figure's series and nothing else. Every
kind of figure is drawn in `test_paper_figures.py`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

import browser
from paper_records import (
    AUTHORS,
    BOTH,
    CENSUS,
    COIN,
    EVERY,
    FAIR,
    GERMAN,
    LINE,
    MACHINE,
    PAPER,
    PROVENANCE,
    VERSIONS,
    only,
    synthetic,
    without,
)
from shearshap.report import Page, render
from shearshap.report import write as write_page
from shearshap_lab.experiments import paper_sections
from shearshap_lab.experiments.findings import findings
from shearshap_lab.experiments.paper_page import page, report, short, wall_time
from shearshap_lab.experiments.paper_tables import markdown
from shearshap_lab.experiments.records import Records, write
from shearshap_lab.experiments.spec import ABLATIONS
from shearshap_lab.experiments.style import series_of

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SECTIONS = [
    "summary",
    "evidence",
    "rq1",
    "rq2",
    "rq3",
    "rq4",
    "theory",
    "training",
    "illustration",
    "setup",
    "reading",
]


def outline(figure: Figure, *, alt: str, titles: Mapping[str, Sequence[str]], salt: str) -> str:
    """Return an SVG with the groups that `inline` makes of the figure's series, all empty."""
    gids = {artist.get_gid() for artist in figure.findobj()} - {None}
    groups = "".join(f'<g class="series {gid}"></g>' for gid in sorted(map(str, gids)))
    assert set(titles) <= gids
    return f'<svg class="plot" id="{salt}-figure" aria-label="{alt}" role="img">{groups}</svg>'


@pytest.fixture(autouse=True)
def outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_sections, "inline", outline)


def section_ids(made: Page) -> list[str]:
    return [section.id for section in made.sections]


def panel_titles(made: Page) -> list[str]:
    figures = [figure for section in made.sections for figure in section.figures]
    return [panel.title for figure in figures for panel in figure.panels]


def in_a_key(method: str, html: str) -> bool:
    return f"<span>{series_of(method).label}</span>" in html


def test_the_page_shows_everything() -> None:
    made = page(BOTH, PROVENANCE)
    html = render(made)
    assert section_ids(made) == SECTIONS
    assert all(in_a_key(method, html) for method in EVERY)
    assert [section.id for section in made.sections if section.open] == ["summary"]
    titles = [figure.title for section in made.sections for figure in section.figures]
    for networks in (
        "census, the authors' networks",
        "census, our networks",
        "german, our networks",
    ):
        assert f"Figure 2: {networks}" in titles
    drawn_once = [title for title in titles if title.startswith("Figure 3")]
    assert drawn_once == [
        "Figure 3: census, the authors' networks",
        "Figure 3: german, our networks",
    ]
    assert "This is row 7 of census (the authors' networks)" in made.sections[8].text[0]
    panels = panel_titles(made)
    for words in ("Theorem 1: loss and chain rule", "Remark 2: what selection minimises"):
        assert words in panels
    assert "Absolute error, fair, with kriging" in panels
    assert "Ranking accuracy, fair, with kriging" not in panels


def test_where_the_numbers_come_from_is_at_the_foot() -> None:
    made = page(BOTH, PROVENANCE)
    assert made.facts == ()
    assert dict(made.foot) == {
        "Command": f"`{LINE}`",
        "Commit": "`0123456789abcdef0123456789abcdef01234567`, code `fedcba9876543210`",
        "Versions": VERSIONS,
        "Machine": f"{MACHINE}, 2 threads",
        "Wall time": "20 min 34 s",
        "Networks": "census: 3 authors, 3 ours; german: 3 ours",
        "Rows and rounds": "census: 4 test rows, 3 rounds; german: 4 test rows, 3 rounds",
    }
    html = render(made)
    assert html.index("<footer>") > html.index('<section id="reading">')


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.6, "8 s"), (60, "1 min 0 s"), (2047, "34 min 7 s"), (3700, "1 h 1 min 40 s")]
)  # fmt: skip
def test_a_wall_time_is_in_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert wall_time(seconds) == text


def many_features() -> Records:
    fair = synthetic("criteo-synthetic", [*FAIR, *ABLATIONS])
    return without(fair, "illustration", "bounds", "chain", "selection_bound")


@pytest.mark.parametrize(
    ("records", "panels", "absent"),
    [
        (
            lambda: only(GERMAN, *PAPER, *COIN, *AUTHORS),
            {"appendix", "authors"},
            {"training"},
        ),
        (many_features, {"fair", "kriging"}, {"training", "illustration"}),
    ],
    ids=["paper", "fair, 39 features"],
)
def test_a_page_of_one_protocol(
    records: Callable[[], Records], panels: set[str], absent: set[str]
) -> None:
    own = records()
    assert set(paper_sections.panels_of(own["estimates"])) == panels
    made = page(own, PROVENANCE)
    render(made)
    assert set(SECTIONS) - set(section_ids(made)) == absent
    assert ("Theorem 2: loss against bound" in panel_titles(made)) == ("illustration" not in absent)


def test_the_report_is_made_of_what_lies_in_a_folder(tmp_path: Path) -> None:
    records = only(CENSUS, *FAIR)
    for study, table in records.items():
        write(table, tmp_path / "records" / f"{study}.parquet")
    (tmp_path / "records" / "provenance.json").write_text(json.dumps(PROVENANCE))
    assert report(tmp_path, docs=tmp_path / "docs") == tmp_path / "report.html"

    made = page(records, PROVENANCE)
    assert (tmp_path / "report.html").read_text() == render(made)
    tables = [markdown(table) for section in made.sections for table in section.tables]
    assert (tmp_path / "tables.md").read_text() == "\n".join(tables)
    assert (tmp_path / "docs" / "reproduction" / "report.html").read_text() == render(made)
    assert (tmp_path / "docs" / "reproduction.md").read_text() == short(records, PROVENANCE)


def test_the_documentation_is_short_and_says_where_it_comes_from() -> None:
    text = short(BOTH, PROVENANCE)
    assert len(text) < 20_000
    assert f"    {LINE}\n" in text
    assert "At commit `0123456789abcdef0123456789abcdef01234567`, in 20 min 34 s." in text
    assert "(reproduction/report.html)" in text
    for finding in findings(BOTH).values():
        words = finding.headline.words
        headline = f"{words[0].upper()}{words[1:]}: **{finding.headline}**."
        assert f"**{finding.claim}.** {headline} {finding.sentence}" in text


# In a browser


@pytest.fixture(scope="module")
def driver() -> Iterator["Chrome"]:
    with browser.chromium() as driver:
        yield driver


@pytest.mark.xdist_group("browser")
def test_the_summary_fits_one_screen(tmp_path: Path, driver: "Chrome") -> None:
    path = write_page(page(BOTH, PROVENANCE), tmp_path / "report.html")
    browser.visit(driver, path, width=1280, height=800)
    bottom = driver.execute_script(
        "return document.querySelector('table').getBoundingClientRect().bottom"
    )
    assert bottom < 800
    assert driver.execute_script("return document.documentElement.scrollHeight") < 1600
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert driver.execute_script(wide) == 0
    browser.visit(driver, path, width=390, height=800)
    assert driver.execute_script(wide) == 0
    assert not browser.console(driver)


@pytest.mark.xdist_group("browser")
def test_a_link_to_a_folded_section_opens_it(tmp_path: Path, driver: "Chrome") -> None:
    path = write_page(page(only(GERMAN, *FAIR), PROVENANCE), tmp_path / "report.html")
    browser.visit(driver, path, width=1280)
    is_open = "return document.querySelector('#rq1 > details').open"
    assert not driver.execute_script(is_open)
    driver.get(f"{path.as_uri()}#rq1")
    assert driver.execute_script(is_open)
