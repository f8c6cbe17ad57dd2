"""Tables made of the paper's records, against slow oracles."""

import re
import statistics

import pytest

from paper_oracles import slow_curve, slow_mean, slow_seconds
from paper_records import (
    AUTHORS,
    BOTH,
    CENSUS,
    EVALUATIONS,
    EVERY,
    FAIR,
    GERMAN,
    ROWS,
    SEEDS,
    SIZES,
    only,
    revised,
    times,
)
from shearshap.paper.experiments import paper_tables as tables
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS
from shearshap.paper.experiments.style import label_of
from shearshap.paper.experiments.summaries import METRICS, PUBLISHED, published, published_curve
from shearshap.report import Table


def test_rescaled_is_the_error_times_their_size_over_ours() -> None:
    own = where(CENSUS["estimates"], method="shear-authors")
    each = [slow_mean(own, "absolute_error", n=16, seed=seed) for seed in SEEDS]
    wanted = statistics.mean(each) * 3 / statistics.mean(SIZES.values())
    assert tables.rescaled(own, 16, SIZES, 3) == pytest.approx(wanted)
    assert tables.rescaled(own, 16, {0: 2.0}, 2.0) == pytest.approx(each[0])
    assert tables.rescaled(own, 16, {1: 2.0}, 1.0) == pytest.approx(each[1] / 2)


@pytest.mark.parametrize("method", ["shear", "shear-authors"])
def test_shear_stands_beside_the_released_numbers(method: str) -> None:
    made = tables.shear_beside_published(CENSUS["estimates"], CENSUS["models"], method)
    assert made is not None
    assert made.columns == (
        "N",
        "network 0",
        "network 1",
        "mean",
        "mean, rescaled",
        "published",
        "difference",
    )
    assert [row[0] for row in made.rows] == ["8", "16", "32"]
    for row, (n, theirs) in zip(
        made.rows, {8: 0.0185299, 16: 0.0127495, 32: 0.00868435}.items(), strict=True
    ):
        each = [
            slow_mean(CENSUS["estimates"], "absolute_error", method=method, n=n, seed=s)
            for s in SEEDS
        ]
        scaled = statistics.mean(each) * 2.34738 / statistics.mean(SIZES.values())
        assert row[1:6] == tuple(
            f"{number:.4f}" for number in (*each, statistics.mean(each), scaled, theirs)
        )
        assert row[6] == f"{100 * (scaled / theirs - 1):+.0f}%"
    assert "2.347" in made.notes[0]
    assert tables.shear_beside_published(GERMAN["estimates"], GERMAN["models"], method) is None
    assert (
        tables.shear_beside_published(
            only(CENSUS, "kriging")["estimates"], CENSUS["models"], method
        )
        is None
    )


def test_every_method_stands_beside_its_released_numbers() -> None:
    made = tables.beside_published(CENSUS["estimates"], AUTHORS)
    assert made is not None
    wanted = []
    for method in AUTHORS:
        theirs = {
            name: published_curve("census", method, name)
            for name in ("ae_mean", "ae_median", "acc")
        }
        for n in EVALUATIONS:
            own = where(CENSUS["estimates"], method=method, n=n)
            numbers = {
                "ae_mean": (f"{slow_mean(own, 'absolute_error'):.4f}", 4),
                "ae_median": (f"{statistics.median(own['absolute_error'].to_pylist()):.4f}", 4),
                "acc": (f"{slow_mean(own, 'ranking_accuracy'):.3f}", 3),
            }
            cells = [
                (ours, f"{theirs[name][n]:.{digits}f}" if n in theirs[name] else "-")
                for name, (ours, digits) in numbers.items()
            ]
            wanted.append((label_of(method), str(n), *(cell for pair in cells for cell in pair)))
    assert list(made.rows) == wanted
    shown = {row[:2]: row[2:] for row in made.rows}
    assert (shown["KS", "16"][1], shown["KS", "16"][3]) == ("-", "0.4374")
    assert (shown["SHEAR block maximum", "16"][1], shown["KS-Pair", "8"][1]) == ("0.0127", "2.3474")
    assert tables.beside_published(GERMAN["estimates"], AUTHORS) is None


@pytest.mark.parametrize("metric", ["absolute_error", "ranking_accuracy"])
def test_a_comparison_has_a_row_for_each_method_and_the_best_in_bold(metric: str) -> None:
    spent_more = revised(
        CENSUS,
        "estimates",
        "evaluations",
        lambda spent: spent + 5,
        method="kriging",
        n=ABLATED,
        round=1,
    )
    made = tables.comparison(spent_more["estimates"], spent_more["timings"], FAIR, metric, "Fair")
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
        slow = slow_curve(where(CENSUS["estimates"], method=method), metric)
        digits = [3 if mean >= 0.1 else 4 for mean, _ in slow.values()]
        wanted = [f"{m:.{d}f} ± {s:.{d}f}" for (m, s), d in zip(slow.values(), digits, strict=True)]
        spent = (
            "215" if method == "kriging" else "210",
            "13" if method.startswith("shear") else "0",
        )
        assert row == (
            label_of(method),
            *wanted,
            *spent,
            f"{ROWS / slow_seconds(method, 16):,.0f}",
        )
    assert made.emphasis == {(FAIR.index("shear"), place) for place in (1, 2, 3)}
    assert "KS-Pair is `kernel-paired`" in made.notes[1]
    theirs = tables.comparison(CENSUS["estimates"], CENSUS["timings"], AUTHORS, metric, "Authors")
    assert 'SHEAR block maximum is `Shear(interaction="block-maximum")`' in theirs.notes[1]


def test_the_best_is_the_best_at_each_number_of_evaluations() -> None:
    better = revised(CENSUS, "estimates", "absolute_error", times(1e-6), method="kriging", n=16)
    made = tables.comparison(
        better["estimates"], better["timings"].slice(0, 0), FAIR, "absolute_error", "Fair"
    )
    assert (FAIR.index("kriging"), 2) in made.emphasis
    assert len(made.emphasis) == 3
    assert re.fullmatch(r"1\.\de-07 ± \de-08", made.rows[FAIR.index("kriging")][2])
    assert {row[-1] for row in made.rows} == {"-"}


def test_all_metrics_are_over_rows() -> None:
    made = tables.over_rows(CENSUS["estimates"], EVERY)
    assert made.columns == ("method", *METRICS.values(), "median error")
    for row, method in zip(made.rows, EVERY, strict=True):
        own = where(CENSUS["estimates"], method=method, n=16)
        columns = [own[metric].to_pylist() for metric in METRICS]
        wanted = (
            f"{statistics.mean(scores):.4f} ± {statistics.pstdev(scores):.4f}" for scores in columns
        )
        assert row == (f"`{method}`", *wanted, f"{statistics.median(columns[0]):.4f}")


@pytest.mark.parametrize(
    ("records", "shown"), [(CENSUS, EVALUATIONS), (GERMAN, ())], ids=["census", "german"]
)
def test_throughputs_are_over_shears_and_beside_the_authors(
    records: Records, shown: tuple[int, ...]
) -> None:
    made = tables.throughputs(records["timings"])
    ours = (f"N = {n}" for n in EVALUATIONS)
    theirs = (f"published, N = {n}" for n in shown)
    assert made.columns == ("method", *ours, *theirs)
    assert len(made.notes) == (1 if shown else 0)
    rows = where(published(), dataset="census").to_pylist()
    released = {(row["method"], row["evaluations_per_feature"]): row["rows_per_s"] for row in rows}
    measured = [method for method in EVERY if method not in ABLATIONS]
    for row, method in zip(made.rows, measured, strict=True):
        cells = []
        for n in EVALUATIONS:
            speed, base = (ROWS / slow_seconds(name, n) for name in (method, "shear"))
            cells.append(f"{speed:,.0f} ({speed / base:.2f})")
        for n in shown:
            theirs_at_n = released.get((PUBLISHED.get(method, ""), n))
            ratio = theirs_at_n / released["SHEAR", n] if theirs_at_n else None
            cells.append(f"{theirs_at_n:.0f} ({ratio:.2f})" if theirs_at_n else "-")
        name = 'Shear(interaction="block-maximum")' if method == "shear-authors" else method
        assert row == (f"`{name}`", *cells)


def test_the_data_sets_stand_beside_the_papers() -> None:
    made = tables.datasets(BOTH["models"])
    assert [row[:3] for row in made.rows] == [
        ("census", "Census Income", "The census data"), ("german", "none", "The german data"),
    ]  # fmt: skip
    assert [row[-1] for row in made.rows] == ["the same", "not in the paper"]
    other = revised(CENSUS, "models", "train", lambda train: train - 1)
    assert tables.datasets(other["models"]).rows[0][-1] == "5/8/20838/5210/6513"


def test_the_networks_are_described() -> None:
    census, german = tables.hyperparameters(BOTH["models"]).rows
    assert census == (
        "census", "3-layer MLP, 64 hidden, softplus", "Adam 0.001, batches of 256", "mean", "exact", "8192", "4",
        "2.20 2.50", "85.1 84.7", "84.7", "76.1",
    )  # fmt: skip
    assert german[4] == "estimated, to 0.010% of mean share"
    assert german[9] == ""


def test_costs_are_in_milliseconds() -> None:
    made = tables.costs(CENSUS["timings"])
    for row, n in zip(made.rows, EVALUATIONS, strict=True):
        backward, forward, measured = (
            1e3 * slow_seconds(*timed) / ROWS
            for timed in (("derivatives", 0), ("forward", n), ("shear", n))
        )
        model = backward + forward
        numbers = [f"{part:.3f}" for part in (backward, forward, model, measured)]
        assert row == (
            str(n),
            *numbers,
            f"{measured / model:.2f}",
            f"{100 * backward / measured:.0f}%",
        )


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
