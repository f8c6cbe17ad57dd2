"""Claims are counted in the paper's cases, and the report says what the records give."""

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from browser import console, visit
from made_records import EVALUATIONS, ORIGIN, records
from shearshap_lab.experiments import page, report
from shearshap_lab.experiments.claims import CLAIMS, findings
from shearshap_lab.experiments.evidence import compare
from shearshap_lab.experiments.results import every_network
from shearshap_lab.experiments.spec import baselines
from shearshap_lab.runner import column, where, write_records

RECORDS = records(("census", "bank"))


@pytest.mark.slow
def test_every_claim_holds_if_shear_is_best() -> None:
    found = findings(RECORDS)
    assert list(found) == [claim.name for claim in CLAIMS]
    unclear = ("steadiest", "released_error")  # errors are made up, and so are their deviations
    words = {name: each.verdict for name, each in found.items() if name not in unclear}
    assert set(words.values()) == {"Holds"}, words
    for reading, outcomes in found["least_error"].counts("authors").items():
        assert outcomes == {"holds": 2 * len(EVALUATIONS)}, reading


def test_one_better_rival_is_enough_for_a_claim_to_fail() -> None:
    """SHEAR is better than four of five, and yet has not the smallest error."""
    found = findings(records(level={"permutation-antithetic": 0.01}))["least_error"]
    counts = found.counts("authors")
    assert counts["fair"] == {"fails": 3}
    assert counts["as run"] == {"holds": 3}
    assert found.verdict == "Holds only as the authors ran it"
    assert "APS" in found.number.words
    assert found.number.interval.value == pytest.approx(1.85, rel=0.05)


def test_an_equal_rival_leaves_a_claim_open() -> None:
    equal = dict.fromkeys((*baselines("fair"), *baselines("authors")), 0.0185)
    found = findings(records(level=equal))["least_error"]
    assert found.verdict == "Open"
    assert found.counts("authors")["fair"]["holds"] == 0


def test_a_claim_that_fails_everywhere() -> None:
    found = findings(records(level={"shear": 0.5, "shear-without-ccs": 0.4}))
    assert found["least_error"].verdict == "Fails"
    assert found["without_ccs"].verdict == "Fails"
    assert found["theorem_2"].verdict == "Holds"


def test_one_pair_beyond_its_bound_refutes_a_theorem() -> None:
    changed = dict(RECORDS)
    pairs = changed["pairs"]
    bounds = column(pairs, "printed").copy()
    bounds[0] /= 2
    place = pairs.schema.get_field_index("printed")
    changed["pairs"] = pairs.set_column(place, pairs.schema.field(place), [bounds])
    found = findings(changed)["theorem_2"]
    assert found.verdict == "Fails"
    assert found.counts("authors")["by differences"]["fails"] == 0


def test_comparisons_are_of_means() -> None:
    networks = every_network(RECORDS)[0]
    estimates = networks.records["estimates"]

    def mean(method: str, n: int, metric: str) -> float:
        return float(column(where(estimates, method=method, n=n), metric).mean())

    found = compare(networks, "shear", "kernel", 16, "absolute_error")
    slow = mean("shear", 16, "absolute_error") / mean("kernel", 16, "absolute_error")
    assert found.interval.value == pytest.approx(slow)
    assert found.verdict == "better"
    score = compare(networks, "shear", "kernel", 8, "faithfulness", rival_n=32)
    difference = mean("shear", 8, "faithfulness") - mean("kernel", 32, "faithfulness")
    assert score.interval.value == pytest.approx(difference)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_too_few_rows_leave_claims_open_and_the_report_says_so(rows: int) -> None:
    few = records(seeds=(0,), rows=rows, rounds=1)
    found = findings(few)
    assert found["least_error"].verdict == found["cross_contribution"].verdict == "Open"
    lead = " ".join(page._lead(every_network(few)))
    assert f"**too few rows** ({rows})" in lead
    assert "**one network**" in lead


@pytest.mark.browser
@pytest.mark.slow
def test_the_report_is_written(driver: Any, tmp_path: Path) -> None:
    write_records(records(), tmp_path / "out" / "records", ORIGIN)
    path = report(tmp_path / "out", docs=tmp_path / "docs")
    html = path.read_text()
    assert (tmp_path / "docs" / "reproduction" / "report.html").read_text() == html
    short = (tmp_path / "docs" / "reproduction.md").read_text()
    assert (tmp_path / "out" / "report.md").read_text() == short
    for claim in CLAIMS:
        assert claim.says in short
        assert claim.says in unescape(html)
    assert "shear paper reproduce census" in short
    assert "| **Holds** | as run 3 of 3; appendix 3 of 3" in short
    assert html.count("<svg") >= 20
    for width in (1280, 390):
        visit(driver, path, width=width)
        assert console(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
