"""The page of the reproduction, made of made-up records.

Drawing a figure as SVG takes most of the time of a page. Where a test is about the page around the
figures, they are outlines: an SVG with the groups of the figure's series and nothing else. Every
kind of figure is drawn for the first data set of `test_the_page_shows_everything`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from paper_records import (
    AUTHORS,
    BOTH,
    CENSUS,
    EVERY,
    FAIR,
    GERMAN,
    LINE,
    MACHINE,
    PAPER,
    VERSIONS,
    only,
    synthetic,
    without,
)
from shearshap.paper.experiments import paper_sections
from shearshap.paper.experiments.paper_page import page, report
from shearshap.paper.experiments.paper_tables import markdown
from shearshap.paper.experiments.records import COMMAND, Records, write
from shearshap.paper.experiments.spec import ABLATIONS, PROTOCOLS
from shearshap.paper.experiments.style import label_of
from shearshap.report import Page, inline, render

SECTIONS = ["summary", "rq1", "rq2", "rq3", "rq4", "illustration", "theory", "setup", "reading"]
PROTOCOL_WORDS = {
    "paper": "paper: as the appendix describes it",
    "authors": "paper: as the authors ran it",
    "fair": "fair: each method at its best",
}


def outline(figure: Figure, *, alt: str, titles: Mapping[str, Sequence[str]], salt: str) -> str:
    """Return an SVG with the groups that `inline` makes of the figure's series, all empty."""
    gids = {artist.get_gid() for artist in figure.findobj()} - {None}
    groups = "".join(f'<g class="series {gid}"></g>' for gid in sorted(map(str, gids)))
    assert set(titles) <= gids
    return f'<svg class="plot" id="{salt}-figure" aria-label="{alt}" role="img">{groups}</svg>'


def outline_german(figure: Figure, *, salt: str, **words: Any) -> str:
    draw = outline if "-german-" in salt else inline
    return draw(figure, salt=salt, **words)


def section_ids(made: Page) -> list[str]:
    return [section.id for section in made.sections]


def panel_titles(made: Page) -> list[str]:
    figures = [figure for section in made.sections for figure in section.figures]
    return [panel.title for figure in figures for panel in figure.panels]


def in_a_key(method: str, html: str) -> bool:
    return f"<span>{label_of(method)}</span>" in html


def test_the_page_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_sections, "inline", outline_german)
    made = page(BOTH, LINE)
    html = render(made)
    assert section_ids(made) == SECTIONS
    assert all(f'<section id="{name}">' in html for name in SECTIONS)
    assert all(in_a_key(method, html) for method in EVERY if method not in ABLATIONS)
    assert "<code>shear reproduce census <span" in html
    assert dict(made.facts) == {
        "Command": f"`{LINE}`",
        "Networks": "census: seeds 0 and 1; german: seeds 0 and 1",
        "Rows and rounds": "census: 4 test rows, 3 rounds; german: 4 test rows, 3 rounds",
        "Machine of the timings": MACHINE,
        "Versions": VERSIONS,
    }
    summary, rq1 = made.sections[:2]
    assert [len(table.rows) for table in summary.tables] == [17, 15]
    # two metrics of three protocols, and what was released for census
    assert len(rq1.tables) == 2 * 6 + 3
    assert "This is row 7 of census, whose f₁ - f₀ of +1.000" in made.sections[5].text[0]
    for dataset in ("census", "german"):
        assert f"Figure 2: {dataset}" in html
        assert f"Theorem 2 and the cost model: {dataset}" in html


def many_features() -> Records:
    fair = synthetic("criteo-synthetic", [*FAIR, *ABLATIONS])
    return without(fair, "illustration", "bounds")


@pytest.mark.parametrize(
    ("records", "protocols", "sections"),
    [
        (lambda: only(GERMAN, *PAPER, *AUTHORS), ["paper", "authors"], SECTIONS),
        (many_features, ["fair"], [name for name in SECTIONS if name != "illustration"]),
    ],
    ids=["paper", "fair, 39 features"],
)
def test_a_page_of_one_protocol(
    records: Callable[[], Records],
    protocols: list[str],
    sections: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paper_sections, "inline", outline)
    made = page(records(), "")
    html = render(made)
    assert dict(made.facts)["Command"] == "`not known`"
    assert section_ids(made) == sections

    run = [methods for name, methods in PROTOCOLS.items() if name in protocols]
    assert all(in_a_key(method, html) for methods in run for method in methods)
    titles = panel_titles(made)
    shown = [
        name for name, words in PROTOCOL_WORDS.items() if any(words in title for title in titles)
    ]
    assert shown == protocols
    lead = [name for name in ("paper", "fair") if f"**{name}**" in " ".join(made.lead)]
    assert lead == [name for name in ("paper", "fair") if name in protocols]
    assert ("Loss against bound" in titles) == ("illustration" in sections)


def test_the_report_is_made_of_what_lies_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_sections, "inline", outline)
    records = only(CENSUS, *FAIR)
    for study, table in records.items():
        write(table, tmp_path / "records" / f"{study}.parquet")
    (tmp_path / "records" / COMMAND).write_text(f"{LINE}\n")
    assert report(tmp_path) == tmp_path / "report.html"

    made = page(records, LINE)
    assert (tmp_path / "report.html").read_text() == render(made)
    tables = [markdown(table) for section in made.sections for table in section.tables]
    assert (tmp_path / "tables.md").read_text() == "\n".join(tables)
