"""A report is one file that shows what it was given, runs none of it, and loads nothing."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

from shearshap.report import Figure, Page, Panel, Section, Series, Table, render, write
from shearshap_lab.svg import inline

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
BUDGETS = [16, 32, 64]


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


def drawing() -> Drawing:
    """Return two series with error bars, a line and its bars under one gid, on logarithmic axes."""
    figure = Drawing(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="evaluations", title="a < b")
    for place, name in enumerate(("shear", "kernel"), start=1):
        bars = axes.errorbar(
            BUDGETS, place / np.array(BUDGETS), 0.01, marker="os"[place - 1], capsize=2
        )
        for artist in (bars[0], *bars[1], *bars[2]):
            artist.set_gid(f"series-{name}")
    return figure


def svg(salt: str = "one", alt: str = "Error falls with the budget") -> str:
    titles = {
        f"series-{name}": [f"{name} at {budget}" for budget in BUDGETS]
        for name in ("shear", "kernel")
    }
    return inline(drawing(), alt=alt, titles=titles, salt=salt)


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
    return Page(text, (text,), ((text, text),), (section,), series)


def plain(*text: str) -> Page:
    return Page("title", text, (), ())


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
    assert "@import" not in html
    assert "http:" not in html
    assert "https:" not in html


def test_a_policy_forbids_what_is_not_in_the_file() -> None:
    (policy,) = [
        attributes["content"]
        for _, attributes in Parsed(render(sample())).elements
        if "http-equiv" in attributes
    ]
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
    assert all(name.startswith(("one-", "two-")) for name in set(ids) - {"accuracy", "contents"})


def test_two_figures_of_one_salt_are_refused() -> None:
    figure = Figure("f", (Panel("a", svg("same")), Panel("b", svg("same"))), "c")
    with pytest.raises(
        ValueError,
        match=r"every id of a page must be its own, got .* more than once; give each figure a salt",
    ):
        render(Page("t", (), (), (Section("s", "s", (), (figure,)),)))


def test_the_same_page_is_the_same_file(tmp_path: Path) -> None:
    first = write(sample(), tmp_path / "new folder" / "first.html")
    second = write(sample(), tmp_path / "second.html")
    assert first.read_bytes() == second.read_bytes() == render(sample()).encode()
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["first.html", "second.html"]


def test_a_page_that_cannot_be_rendered_leaves_the_old_file(tmp_path: Path) -> None:
    path = write(sample(), tmp_path / "report.html")
    before = path.read_bytes()
    twice = Section("same", "s", ())
    with pytest.raises(ValueError, match="must be its own"):
        write(Page("t", (), (), (twice, twice)), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "run `shear --x <y>` now",
            'run <code>shear <span class="option">--x</span> &lt;y&gt;</code> now',
        ),
        ("**best** of all", "<strong>best</strong> of all"),
        ("`a ** b ** c`", "<code>a ** b ** c</code>"),
        (
            "[words & more](https://example.org/?a=1&b=2)",
            '<a href="https://example.org/?a=1&amp;b=2">words &amp; more</a>',
        ),
        ("[below](#tables)", '<a href="#tables">below</a>'),
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


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("jinja2", "the report needs jinja2: pip install jinja2"),
        ("matplotlib", r"figures need matplotlib: pip install 'shearshap\[reproduce\]'"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str, message: str
) -> None:
    page, figure = plain("words"), drawing()
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=message):
        inline(figure, alt="", titles={}, salt="a") if missing == "matplotlib" else render(page)


def test_importing_it_needs_no_extra() -> None:
    script = (
        "import sys; sys.modules |= {'matplotlib': None, 'jinja2': None}; import shearshap.report"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
