"""Tables made of the paper's records, against slow oracles."""

import re
import statistics

import pytest

from paper_drawings import networks, ours
from paper_oracles import slow_curve, slow_mean, slow_seconds
from paper_records import (
    AUTHORS,
    BOTH,
    CENSUS,
    EVALUATIONS,
    EVERY,
    FAIR,
    GERMAN,
    REPEATS,
    ROWS,
    SEEDS,
    only,
    revised,
    times,
)
from shearshap.report import Table
from shearshap_lab.experiments import paper_tables as tables
from shearshap_lab.experiments.findings import findings
from shearshap_lab.experiments.findings.comparing import compared
from shearshap_lab.experiments.records import where
from shearshap_lab.experiments.spec import ABLATIONS, baselines
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import (
    METRICS,
    PUBLISHED,
    Networks,
    every_network,
    published,
    published_curve,
)

OURS = ours(CENSUS)
NETWORKS = networks(OURS)
FOUND = findings(CENSUS)


def test_shear_stands_beside_the_released_numbers_network_by_network() -> None:
    made = tables.shear_beside_published(NETWORKS)
    assert made is not None
    assert made.columns == (
        "N",
        "seed 0",
        "seed 1",
        "seed 2",
        "published",
        "over published, geometric mean",
        "networks",
        "verdict",
    )
    assert [row[0] for row in made.rows] == ["8", "16", "32"]
    released = {8: 0.0185299, 16: 0.0127495, 32: 0.00868435}
    for row, (n, theirs) in zip(made.rows, released.items(), strict=True):
        each = [
            slow_mean(OURS["estimates"], "absolute_error", method="shear-authors", n=n, seed=seed)
            for seed in SEEDS
        ]
        assert row[1:5] == tuple(f"{number:.4f}" for number in (*each, theirs))
        assert row[5].startswith(f"{statistics.geometric_mean(each) / theirs:.2f} [")
        assert row[6] == f"{min(each) / theirs - 1:+.0%} to {max(each) / theirs - 1:+.0%}"
    assert "2.347" in made.notes[0]
    german = Networks("german", "ours", GERMAN)
    assert tables.shear_beside_published(german) is None
    assert tables.shear_beside_published(networks(only(OURS, "kriging"))) is None


def test_every_method_stands_beside_its_released_numbers() -> None:
    made = tables.methods_beside_published(OURS["estimates"], AUTHORS)
    assert made is not None
    wanted = []
    for method in AUTHORS:
        theirs = {
            name: published_curve("census", method, name)
            for name in ("ae_mean", "ae_median", "acc")
        }
        for n in EVALUATIONS:
            own = where(OURS["estimates"], method=method, n=n)
            numbers = {
                "ae_mean": (f"{slow_mean(own, 'absolute_error'):.4f}", 4),
                "ae_median": (f"{statistics.median(own['absolute_error'].to_pylist()):.4f}", 4),
                "acc": (f"{slow_mean(own, 'ranking_accuracy'):.3f}", 3),
            }
            cells = [
                (shown, f"{theirs[name][n]:.{digits}f}" if n in theirs[name] else "-")
                for name, (shown, digits) in numbers.items()
            ]
            wanted.append((label_of(method), str(n), *(cell for pair in cells for cell in pair)))
    assert list(made.rows) == wanted
    assert tables.methods_beside_published(GERMAN["estimates"], AUTHORS) is None


@pytest.mark.parametrize("metric", ["absolute_error", "ranking_accuracy"])
def test_a_comparison_has_a_row_for_each_method_and_the_best_in_bold(metric: str) -> None:
    made = tables.comparison(NETWORKS, FAIR, metric, "Fair")
    assert made.columns == (
        "method",
        "N = 8",
        "N = 16",
        "N = 32",
        "evaluations",
        "derivative passes",
        "rows a second",
    )
    for row, method in zip(made.rows, FAIR, strict=True):
        slow = slow_curve(where(OURS["estimates"], method=method), metric)
        digits = [3 if mean >= 0.1 else 4 for mean, _ in slow.values()]
        wanted = [f"{m:.{d}f} ± {s:.{d}f}" for (m, s), d in zip(slow.values(), digits, strict=True)]
        passes = "13" if method.startswith("shear") else "0"
        speed = f"{ROWS / slow_seconds(method, 16):,.0f}"
        assert row == (label_of(method), *wanted, "210", passes, speed)
    assert made.emphasis == {(FAIR.index("shear"), place) for place in (1, 2, 3)}
    assert "KS-Pair is `kernel-paired`" in made.notes[1]


def test_what_is_tied_with_the_best_is_bold_too() -> None:
    records = OURS
    for method in ("shear", "kriging"):
        records = revised(records, "estimates", "absolute_error", lambda e: 0 * e + 1e-3, method=method, n=16)  # fmt: skip
    made = tables.comparison(networks(records), FAIR, "absolute_error", "Fair")
    bold = {(FAIR[row], place) for row, place in made.emphasis if place == 2}
    assert bold == {("shear", 2), ("kriging", 2)}
    better = revised(OURS, "estimates", "absolute_error", times(1e-6), method="kriging", n=16)
    tiny = tables.comparison(networks(better), FAIR, "absolute_error", "Fair")
    assert re.fullmatch(r"1\.\de-07 ± \de-08", tiny.rows[FAIR.index("kriging")][2])


def test_a_truth_that_is_an_estimate_shows_its_own_error() -> None:
    (german,) = every_network(GERMAN)
    made = tables.comparison(german, FAIR, "absolute_error", "Fair")
    assert made.rows[-1] == ("the truth's own error", *["1.0e-05"] * 3, "-", "-", "-")
    exact = tables.comparison(NETWORKS, FAIR, "absolute_error", "Fair")
    assert len(exact.rows) == len(FAIR)
    ranked = tables.comparison(german, FAIR, "ranking_accuracy", "Fair")
    assert len(ranked.rows) == len(FAIR)


@pytest.mark.parametrize("metric", ["absolute_error", "ranking_accuracy"])
def test_ratios_have_their_interval_and_verdict(metric: str) -> None:
    rivals = list(baselines("fair"))
    made = tables.ratios(NETWORKS, rivals, metric, "c")
    found = {(each.rival, each.n): each for each in compared(NETWORKS, rivals, metric)}
    for row, rival in zip(made.rows, rivals, strict=True):
        assert row[0] == label_of(rival)
        for cell, n in zip(row[1:], EVALUATIONS, strict=True):
            value = found[rival, n].interval.value
            style = "+.3f" if metric == "ranking_accuracy" else ".2f" if value >= 0.1 else ".2g"
            assert cell.startswith(f"{value:{style}} [")
            assert cell.endswith(f"] {found[rival, n].verdict}")


def test_the_grid_of_ablations_is_a_table() -> None:
    made = tables.ablations(NETWORKS)
    assert [row[0] for row in made.rows] == ["paired", "unpaired", "empty"]
    grid = (
        ("shear", "shear-without-ccs"),
        ("shear-unpaired", "shear-unpaired-without-ccs"),
        ("shear-empty", "shear-empty-without-ccs"),
    )
    for row, methods in zip(made.rows, grid, strict=True):
        means = [
            slow_mean(OURS["estimates"], metric, method=method, n=16)
            for metric in ("absolute_error", "ranking_accuracy")
            for method in methods
        ]
        for cell, mean in zip(row[1:], [*means, means[1] / means[0]], strict=True):
            digits = 2 if cell == row[-1] else 4
            assert cell.startswith(f"{mean:.{digits}f} [")


def test_all_metrics_are_over_rows() -> None:
    made = tables.over_rows(NETWORKS, EVERY)
    assert made.columns == ("method", *METRICS.values(), "median error")
    for row, method in zip(made.rows, EVERY, strict=True):
        own = where(OURS["estimates"], method=method, n=16)
        columns = [own[metric].to_pylist() for metric in METRICS]
        wanted = (
            f"{statistics.mean(scores):.4f} ± {statistics.pstdev(scores):.4f}" for scores in columns
        )
        assert row == (f"`{method}`", *wanted, f"{statistics.median(columns[0]):.4f}")


@pytest.mark.parametrize("way", ["batch", "one by one"])
def test_throughputs_have_their_spread_and_stand_beside_the_authors(way: str) -> None:
    made = tables.throughputs(CENSUS["timings"], way)
    assert made.columns == (
        "method",
        *(f"N = {n}" for n in EVALUATIONS),
        *(f"published, N = {n}" for n in EVALUATIONS),
    )
    assert f"Medians of {REPEATS} repeats" in made.notes[0]
    rows = where(published(), dataset="census").to_pylist()
    released = {(row["method"], row["evaluations_per_feature"]): row["rows_per_s"] for row in rows}
    measured = [method for method in EVERY if method not in ABLATIONS]
    for row, method in zip(made.rows, measured, strict=True):
        cells = []
        for n in EVALUATIONS:
            own = where(CENSUS["timings"], method=method, n=n, way=way)["seconds"].to_pylist()
            speeds = [ROWS / seconds for seconds in own]
            tenths = statistics.quantiles(speeds, n=10, method="inclusive")
            cells.append(f"{statistics.median(speeds):,.0f} ({tenths[0]:,.0f}-{tenths[-1]:,.0f})")
        for n in EVALUATIONS:
            theirs = released.get((PUBLISHED.get(method, ""), n))
            cells.append(f"{theirs:.0f} ({theirs / released['SHEAR', n]:.2f})" if theirs else "-")
        name = 'Shear(interaction="block-maximum")' if method == "shear-authors" else method
        assert row == (f"`{name}`", *cells)
    assert len(tables.throughputs(GERMAN["timings"], way).notes) == 1


def test_the_data_sets_stand_beside_the_papers() -> None:
    made = tables.datasets(BOTH["models"])
    assert [row[:3] for row in made.rows] == [
        ("census", "Census Income", "The census data"), ("german", "none", "The german data"),
    ]  # fmt: skip
    assert [row[-1] for row in made.rows] == ["the same", "not in the paper"]
    other = revised(CENSUS, "models", "train", lambda train: train - 1)
    assert tables.datasets(other["models"]).rows[0][-1] == "5/8/20838/5210/6513"


def test_the_networks_are_described_by_recipe() -> None:
    made = tables.hyperparameters(BOTH["models"])
    assert [row[:2] for row in made.rows] == [
        ("census", "ours"), ("census", "authors"), ("census", "authors-mean"), ("german", "ours"),
    ]  # fmt: skip
    assert made.rows[1] == (
        "census", "authors", "3-layer MLP, 64 hidden, softplus", "standardised",
        "scikit-learn, random state 0", "20 epochs", "quirk", "exact", "0", "8192", "4", "0.001",
        "256", "9 9 9", "2.20 2.50 2.35", "85.1 84.7 84.9", "84.7", "76.1",
    )  # fmt: skip
    assert made.rows[3][7:9] == ("estimated, to 0.010% of mean share", "1.0e-05")
    assert made.rows[3][16] == ""
    slower = revised(CENSUS, "models", "learning_rate", lambda rate: rate / 10)
    made = tables.hyperparameters(slower["models"])
    assert {row[made.columns.index("learning rate")] for row in made.rows} == {"0.0001"}
    assert "0.001" not in "".join(made.notes)


def test_costs_are_in_milliseconds() -> None:
    made = tables.costs(CENSUS["timings"], "batch")
    for row, n in zip(made.rows, EVALUATIONS, strict=True):
        backward, forward, measured = (
            1e3 * slow_seconds(*timed) / ROWS
            for timed in (("derivatives", 0), ("forward", n), ("shear", n))
        )
        model = backward + forward
        numbers = [f"{part:.3f}" for part in (backward, forward, model)]
        assert row[:4] == (str(n), *numbers)
        assert float(row[4]) == pytest.approx(measured, rel=1e-2)
        assert row[5].startswith(f"{measured / model:.2f} [")
        assert row[6] == f"{100 * backward / measured:.0f}%"


def test_the_evidence_of_a_claim_has_a_row_for_each_reading() -> None:
    for finding in FOUND.values():
        made = tables.readings(finding)
        assert made.caption == finding.claim
        assert not made.open
        for row, each in zip(made.rows, finding.readings, strict=True):
            assert row[0] == each.dataset
            assert row[2:6] == (
                each.name,
                str(each.counts.wins),
                str(each.counts.ties),
                str(each.counts.losses),
            )
            assert row[6] == f"{each.number} {each.number.words}"


def test_the_summary_has_a_row_for_each_claim_and_nothing_is_partly_so() -> None:
    made = tables.summary(FOUND, "here")
    assert made.compact
    assert [row[0] for row in made.rows] == [
        finding.claim for finding in FOUND.values() if finding.brief
    ]
    assert all(all(row) for row in made.rows)
    assert "partly" not in str(made)


def test_a_table_as_markdown() -> None:
    text = tables.markdown(
        Table(
            "Errors",
            ("method", "kind", "N = 8"),
            (("a", "b", "1"), ("c", "d", "2")),
            ("A note.", "Another."),
            2,
            frozenset({(1, 2)}),
        )
    )
    assert text == (
        "### Errors\n\n| method | kind | N = 8 |\n| --- | --- | ---: |\n| a | b | 1 |\n| c | d | **2** |\n\n"
        "A note.\n\nAnother.\n"
    )


def test_a_bar_in_a_cell_is_no_new_column_of_markdown() -> None:
    text = tables.markdown(
        Table("Sizes", ("what", "size"), (("sum of |φ|", "1"),), emphasis=frozenset({(0, 0)}))
    )
    assert text.splitlines()[-1] == r"| **sum of \|φ\|** | 1 |"
