"""The page of an explanation: of rows, and of texts in colours."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import browser
from shearshap import Explainer, Explanation, InputError, Prompt
from small_explanation import explanation as small_explanation

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = '<script>alert(1)</script> "it\'s" <b>bad</b> `code` **film** [a](https://b)'


def scores(texts: list[str]) -> Any:
    return np.array([[len(text) ** 2, text.count("bad")] for text in texts])


def explained(texts: Any, **options: Any) -> Explanation:
    names = ["letters <i>", "bad"]
    return Explainer(scores, text="words", output_names=names, **options)(texts)


def charts(page: str) -> list[Any]:
    found = re.findall(r'<script type="application/json" class="chart-data">(.*?)</script>', page)
    return [json.loads(content) for content in found]


def test_texts_are_shown_in_colours_with_their_parts_ranked(tmp_path: Path) -> None:
    answer = explained(["a bad film", "good"])
    path = answer.to_html(tmp_path / "why.html", title="Why <b>?")
    page = path.read_text(encoding="utf-8")
    assert "<title>Why &lt;b&gt;?</title>" in page
    assert page.count('class="shear-passage"') == 2
    assert page.count('type="radio"') == 4
    assert ">film</span>" in page
    first, second = charts(page)[:2]
    order = np.argsort(-np.abs(answer.values[0, :, 0]))
    assert [line["name"] for line in first["lines"]] == [["a", "bad", "film"][at] for at in order]
    np.testing.assert_allclose(
        [line["bar"][1] for line in first["lines"]], answer.values[0, order, 0]
    )
    assert second["lines"][0]["name"] == "bad"
    assert second["lines"][0]["kind"] == "raises"
    assert "How much each feature moves the predictions" in page
    alone = answer[0].to_html(tmp_path / "one.html").read_text(encoding="utf-8")
    assert "How much each feature moves the predictions" not in alone


def test_intervals_and_names_of_fields(tmp_path: Path) -> None:
    prompt = Prompt("{docs}?", {"docs": ["a b", "bad film", "c"]})
    answer = Explainer(scores, text=True)([prompt]).output(0)
    unsure = replace(answer, standard_errors=np.full(answer.values.shape, 0.5))
    page = unsure.to_html(tmp_path / "why.html").read_text(encoding="utf-8")
    (chart,) = charts(page)
    line = chart["lines"][0]
    low, high = (float(end[0, 1]) for end in unsure.interval())
    assert (line["name"], line["detail"]) == ("docs 1", "bad film")
    assert line["whisker"] == pytest.approx([low, high])
    assert "±" in line["number"]
    assert "95 % intervals" in page


def test_texts_are_shown_as_they_are_and_never_run(tmp_path: Path) -> None:
    labels = ["<u>0</u>", "<u>1</u>"]
    answer = Explainer(scores, text="words", output_names=["<i>", "bad"])(
        [HOSTILE, "so"], index=labels
    )
    noted = replace(answer, notes=("<em>mind</em>",))
    page = noted.to_html(tmp_path / "why.html", title=HOSTILE).read_text(encoding="utf-8")
    for tag in ("<script>alert", "<b>bad", "<i>", "<u>", "<em>", 'href="https://b"'):
        assert tag not in page
    assert "&lt;b&gt;bad&lt;/b&gt;" in page
    assert all(json.dumps(chart) for chart in charts(page))


def test_a_page_of_many_texts_has_a_bound_and_says_so(tmp_path: Path) -> None:
    answer = explained(["a bad film"] * 230)
    page = answer.to_html(tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count('class="shear-passage"') == 200
    assert "The first 200 of 230 texts are on this page" in page


def test_rows_get_the_report_of_a_file(tmp_path: Path) -> None:
    path = small_explanation().to_html(tmp_path / "rows.html", title="Rows")
    page = path.read_text(encoding="utf-8")
    assert "<h1>Rows</h1>" in page
    for words in ("Which features matter", "Row by row", "The same call gives the same values"):
        assert words in page
    assert "in the file" not in page


def test_games_and_no_rows_have_no_page(tmp_path: Path) -> None:
    game = replace(small_explanation()[0], game="member")
    with pytest.raises(InputError, match="rows or texts, got one of a game"):
        game.to_html(tmp_path / "game.html")
    with pytest.raises(InputError, match="got one of no rows"):
        small_explanation()[:0].to_html(tmp_path / "none.html")


@browser.browsing
@pytest.mark.parametrize("width", [360, 1280])
def test_a_picked_output_has_its_own_colours_and_ranking(
    driver: "Chrome", tmp_path: Path, width: int
) -> None:
    path = explained(["a bad film " * 9, "so bad"]).to_html(tmp_path / "why.html")
    browser.visit(driver, path, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    shown = """
    const all = [...document.querySelectorAll(".shear-passage .chart")].filter(e => e.offsetParent);
    return all.map(e => e.ariaLabel)"""
    assert driver.execute_script(shown) == [
        "Parts of text 0, letters <i>",
        "Parts of text 1, letters <i>",
    ]
    driver.execute_script("document.querySelectorAll('.shear-passage input')[1].click()")
    assert driver.execute_script(shown) == ["Parts of text 0, bad", "Parts of text 1, letters <i>"]
    colour = "return getComputedStyle(document.querySelector('.shear-text span')).backgroundColor"
    assert "0%" in driver.execute_script(colour) or "/ 0)" in driver.execute_script(colour)
    assert browser.console(driver) == []
