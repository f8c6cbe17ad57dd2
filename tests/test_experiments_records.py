"""What is made of records - numbers, tables, figures, findings, text and page - against slow oracles on made-up records.

Nothing is run here: the records are synthetic, of every study, with numbers known beforehand.
"""

import dataclasses
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from scipy.stats import rankdata, spearmanr  # type: ignore[import-untyped]

from shearshap.errors import InputError
from shearshap.experiments import figures, tables
from shearshap.experiments import findings as statements
from shearshap.experiments.document import page
from shearshap.experiments.figures import Drawing
from shearshap.experiments.findings import Finding, findings, findings_table
from shearshap.experiments.printed import printed
from shearshap.experiments.records import STUDIES, Records, column, joined, kept, read, table, where, write
from shearshap.experiments.spec import (
    ABLATED,
    ABLATIONS,
    CANDIDATES,
    DATASETS,
    PROTOCOLS,
    Choice,
    Protocol,
    Spec,
    specifications,
)
from shearshap.experiments.style import SERIES, dashes, look
from shearshap.experiments.summaries import (
    METRICS,
    PUBLISHED,
    correlation,
    cost,
    curve,
    median,
    methods_of,
    published,
    published_curve,
    published_size,
    ranks,
    selected,
    speeds,
    values_of,
)
from shearshap.explanation import Floats
from shearshap.methods import METHODS, Shear
from shearshap.report import Page, Table, inline, render
from shearshap.report.page import MARKERS

EVALUATIONS, SEEDS, ROUNDS, ROWS, TARGETS, DRAWS = (8, 16, 32), (0, 1), 3, 4, 12, 10
FAIR, PAPER, AUTHORS = (list(PROTOCOLS[name]) for name in ("fair", "paper", "authors"))
EVERY = tuple(dict.fromkeys((*PAPER, *AUTHORS, *FAIR, *ABLATIONS)))
SIZES = {0: 2.2, 1: 2.5}  #: mean |phi|_1 of each network; the authors' census network has 2.35
LEVEL = {
    "shear": 0.0185, "shear-authors": 0.0185, "permutation-authors": 0.11, "permutation-antithetic-authors": 0.057,
    "permutation-antithetic": 0.05, "shear-without-as": 0.03, "shear-without-ccs": 0.06, "shear-without-either": 0.09,
}  # fmt: skip
"""The error at N = 8; of all others 0.2. At N it is sqrt(8 / N) of that, so that every statement holds at first."""
FACTS = {"command": "shear reproduce census --rows 4", "machine": "an abacus, 2 cores", "versions": "shearshap 0.0"}


# Records


def estimates(dataset: str, methods: Sequence[str], rounds: int = ROUNDS) -> pa.Table:
    rng, parts = np.random.default_rng(1), []
    for method in methods:
        steady = method.startswith("shear")
        for n in (ABLATED,) if method in ABLATIONS else EVALUATIONS:
            for seed in SEEDS:
                for number in range(rounds):
                    draw = 1 + (0.01 if steady else 0.2) * rng.uniform(-1, 1)
                    error = LEVEL.get(method, 0.2) * math.sqrt(8 / n) * draw * rng.uniform(0.98, 1.02, ROWS)
                    columns = {
                        "dataset": dataset, "seed": seed, "method": method, "n": n, "round": number,
                        "row": np.arange(ROWS) + 100 * seed, "absolute_error": error, "ranking_accuracy": 1 - error,
                        "faithfulness": rng.uniform(0.7, 0.9, ROWS), "monotonicity": rng.uniform(0.4, 0.6, ROWS),
                        "evaluations": 13 * n + 2, "derivative_passes": 13 if steady else 0,
                    }  # fmt: skip
                    parts.append(table("estimates", columns))
    return joined("estimates", parts)


def timings(dataset: str, methods: Sequence[str]) -> pa.Table:
    """SHEAR takes 40 ms for derivatives and 2 ms for each evaluation a feature; all others 10 ms for each."""
    rng, parts = np.random.default_rng(2), []
    for number in range(3):
        timed = [("derivatives", 0, 0.04)]
        for n in EVALUATIONS:
            timed.append(("forward", n, 0.002 * n))
            timed += [(method, n, 0.04 + 0.002 * n if method == "shear" else 0.01 * n) for method in methods]
        for method, n, seconds in timed:
            columns = {
                "dataset": dataset, "seed": SEEDS[0], "method": method, "n": n, "round": number, "rows": ROWS,
                "seconds": seconds * rng.uniform(0.98, 1.02),
            }  # fmt: skip
            parts.append(table("timings", columns))
    return joined("timings", parts)


def cooperators(dataset: str) -> pa.Table:
    """Errors that are 1 over cross-contribution, the scale of either the same for all targets."""
    rng, parts = np.random.default_rng(3), []
    for seed in SEEDS:
        player = rng.integers(13, size=TARGETS)
        drawn = [("shear", 0, n) for n in (4, 8, 16, 32, 64)] + [("random", 0, n) for n in (4, 8, 16, 32, 64)]
        for selection, draw, n in drawn + [("random", draw, ABLATED) for draw in range(1, DRAWS)]:
            eta = n * rng.uniform(0.1, 0.9, TARGETS) + (n if selection == "shear" else 0)
            columns = {
                "dataset": dataset, "seed": seed, "row": np.arange(TARGETS) + 100 * seed, "player": player,
                "n": n, "selection": selection, "draw": draw, "cross_contribution": eta,
                "error": np.zeros(TARGETS) if n == 64 else 1 / eta, "share": rng.normal(size=TARGETS),
            }  # fmt: skip
            parts.append(table("cooperators", columns))
    return joined("cooperators", parts)


def bounds(dataset: str, pairs: int = 30) -> pa.Table:
    rng, parts = np.random.default_rng(4), []
    for seed in SEEDS:
        bound = 10 ** rng.uniform(-6, -1, pairs)
        columns = {
            "dataset": dataset, "seed": seed, "row": 100 * seed, "player": rng.integers(6, size=pairs),
            "other": rng.integers(6, 13, size=pairs), "loss": bound * rng.uniform(0.5, 0.95, pairs), "printed": bound,
            "sure": 1.02 * bound,
        }  # fmt: skip
        parts.append(table("bounds", columns))
    return joined("bounds", parts)


def illustration(dataset: str) -> pa.Table:
    parts = []
    for seed in SEEDS:
        exact = np.array([0.5, -1.25, 0.125, 2.0, -0.25])
        columns = {
            "dataset": dataset, "seed": seed, "row": 7 + seed, "feature": ["age", "relationship", "sex", "gain", "race"],
            "value": ["39", "Not-in-family, or so they say", "Male", "0", "White"], "exact": exact,
            "shear": exact + np.array([0.01, -0.01, 0.02, -0.02, 0]), "base_value": -0.125, "prediction": 1.0,
            "evaluations": 210,
        }  # fmt: skip
        parts.append(table("illustration", columns))
    return joined("illustration", parts)


def models(dataset: str) -> pa.Table:
    known = dataset in tables.PAPER_SPLITS
    continuous, categorical, train, validation, test = tables.PAPER_SPLITS.get(dataset, (7, 13, 700, 100, 200))
    columns = {
        "dataset": dataset, "title": f"The {dataset} data", "seed": np.array(SEEDS), "network": "3-layer MLP",
        "activation": "softplus", "hidden": 64, "learning_rate": 1e-3, "batch_size": 256, "reference": "mean",
        "continuous": continuous, "categorical": categorical, "inputs": 87, "train": train, "validation": validation,
        "test": test, "epochs": 9, "accuracy": np.array([0.851, 0.847]), "majority": 0.761, "rows": ROWS,
        "truth": "exact" if known else "estimated, to 0.010% of mean share", "truth_evaluations": 8192,
        "size": np.array(list(SIZES.values())), "key": "abc",
    }  # fmt: skip
    return table("models", columns)


def synthetic(dataset: str = "census", methods: Sequence[str] = EVERY, rounds: int = ROUNDS) -> dict[str, pa.Table]:
    timed = [method for method in methods if method not in ABLATIONS]
    return {
        "models": models(dataset),
        "estimates": estimates(dataset, methods, rounds),
        "timings": timings(dataset, timed),
        "cooperators": cooperators(dataset),
        "bounds": bounds(dataset),
        "illustration": illustration(dataset),
    }


CENSUS, GERMAN = synthetic("census"), synthetic("german")
BOTH = {study: joined(study, [CENSUS[study], GERMAN[study]]) for study in STUDIES}


def revised(records: Records, study: str, name: str, change: Callable[[Floats], Any], **equal: Any) -> Records:
    """Return the records with a column of a study changed where others equal these values."""
    old = records[study]
    mask = np.logical_and.reduce(
        [column(old, key) == wanted for key, wanted in equal.items()] or [np.full(len(old), True)]
    )
    assert mask.any(), f"no {study} of {equal}"
    values = column(old, name).copy()
    values[mask] = change(values[mask])
    place = old.schema.get_field_index(name)
    return {
        **records,
        study: old.set_column(place, old.schema.field(place), pa.array(values, old.schema.field(place).type)),
    }


def only(records: Records, *methods: str) -> Records:
    """Return the records as if these methods and the ablations had been run, and no others."""
    kept = {*methods, *ABLATIONS, "forward", "derivatives"}
    named = ("estimates", "timings")
    return {
        **records,
        **{study: records[study].filter(np.isin(column(records[study], "method"), [*kept])) for study in named},
    }


def without(records: Records, *studies: str) -> Records:
    return {study: found.slice(0, 0) if study in studies else found for study, found in records.items()}


def times(factor: float) -> Callable[[Floats], Floats]:
    return lambda values: values * factor


def shuffled(records: pa.Table) -> pa.Table:
    return records.take(np.random.default_rng(5).permutation(len(records)))


def test_the_made_up_records_are_of_every_study() -> None:
    assert set(BOTH) == set(STUDIES)
    assert all(found.schema == STUDIES[study] for study, found in BOTH.items())
    assert values_of(BOTH["models"], "dataset") == ["census", "german"]
    assert set(values_of(BOTH["estimates"], "method")) == {*PAPER, *AUTHORS, *FAIR, *ABLATIONS}


# Reading and writing them


def test_one_value_stands_for_a_whole_column() -> None:
    found = table("bounds", dict.fromkeys(STUDIES["bounds"].names, 1) | {"dataset": "a", "loss": np.array([0.5, 2.0])})
    assert found.schema == STUDIES["bounds"]
    assert found["dataset"].to_pylist() == ["a", "a"]
    assert found["loss"].to_pylist() == [0.5, 2.0]
    assert len(table("bounds", dict.fromkeys(STUDIES["bounds"].names, 1) | {"dataset": "a"})) == 1


def test_records_are_those_whose_columns_equal() -> None:
    found = where(BOTH["estimates"], dataset="german", method="kriging", n=16, seed=1)
    slow = [
        row
        for row in BOTH["estimates"].to_pylist()
        if (row["dataset"], row["method"], row["n"], row["seed"]) == ("german", "kriging", 16, 1)
    ]
    assert found.to_pylist() == slow
    assert len(slow) == ROUNDS * ROWS
    assert len(where(BOTH["estimates"], dataset="nowhere")) == 0
    assert column(found, "n").tolist() == [16] * len(slow)


def test_parts_are_joined_in_order_and_none_make_an_empty_table() -> None:
    assert joined("models", []).schema == STUDIES["models"]
    assert len(joined("models", [])) == 0
    assert BOTH["models"].to_pylist() == [*CENSUS["models"].to_pylist(), *GERMAN["models"].to_pylist()]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for study, found in BOTH.items():
        write(found, tmp_path / "records" / f"{study}.parquet")
    again = read(tmp_path / "records")
    assert list(again) == list(STUDIES)
    assert all(again[study].equals(BOTH[study]) for study in STUDIES)


def test_records_are_computed_once_and_again_when_damaged(tmp_path: Path) -> None:
    path, computed = tmp_path / "parts" / "bounds.parquet", []

    def compute() -> pa.Table:
        computed.append(1)
        return CENSUS["bounds"]

    assert kept(path, "bounds", compute).equals(kept(path, "bounds", compute))
    assert len(computed) == 1
    path.write_bytes(path.read_bytes()[:-20])
    assert kept(path, "bounds", compute).equals(CENSUS["bounds"])
    assert len(computed) == 2
    write(CENSUS["models"], path)  # the columns of another version
    assert kept(path, "bounds", compute).equals(kept(path, "bounds", compute))
    assert len(computed) == 3


# What is measured


def test_a_specification_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Spec("census").rows = 1  # type: ignore[misc]
    assert Spec("census") == Spec("census")
    assert hash(Spec("census")) == hash(Spec("census"))
    assert ABLATED in Spec("census").evaluations


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "rounds: wanted a positive number, got 0"),
        ({"rows": -1}, "rows: wanted a positive number, got -1"),
        ({"timings": 0}, "timings: wanted a positive number, got 0"),
        ({"bounded_rows": 0}, "bounded_rows: wanted a positive number, got 0"),
        ({"model_seeds": ()}, "a specification needs at least one model seed and one number of evaluations a feature"),
        ({"evaluations": ()}, "a specification needs at least one model seed and one number of evaluations a feature"),
        ({"evaluations": (16, 2)}, "evaluations: SHEAR needs at least 4 for each feature, got 2"),
    ],
)
def test_a_specification_checks_its_numbers(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Spec("census", **wrong)


def test_a_specification_needs_the_evaluations_that_ablations_are_at() -> None:
    """Ablations are measured at N = 16 only, and SHEAR without it cannot be compared with them."""
    with pytest.raises(InputError, match="16"):
        Spec("census", evaluations=(8, 32))


@pytest.mark.parametrize(
    ("choice", "protocols"),
    [("paper", ("paper", "authors")), ("fair", ("fair",)), ("both", ("paper", "authors", "fair"))],
)
def test_a_choice_of_protocol_is_its_methods_each_once(choice: Choice, protocols: tuple[Protocol, ...]) -> None:
    spec = Spec("census", protocol=choice)
    assert spec.protocols == protocols
    assert set(spec.methods) == {method for protocol in protocols for method in PROTOCOLS[protocol]}
    assert len(spec.methods) == len(set(spec.methods))


@pytest.mark.parametrize("dataset", ["criteo", "criteo-synthetic"])
def test_derivatives_by_columns_are_not_asked_of_embeddings(dataset: str) -> None:
    assert set(Spec("census").methods) - set(Spec(dataset).methods) == {"shear-authors"}


def test_protocols_cover_every_method() -> None:
    assert {method for names in PROTOCOLS.values() for method in names} <= set(CANDIDATES)
    read_in_two_ways = {name for name in METHODS if name.endswith(("-paper", "-authors"))}
    assert {*FAIR, "exact"} == set(METHODS) - read_in_two_ways
    assert ({*PAPER, *AUTHORS} - set(FAIR)) == read_in_two_ways | {"shear-authors"}
    assert {name for name in PAPER if name.endswith("-authors")} == set()
    assert {name for name in AUTHORS if name.endswith("-paper")} == set()
    assert all("shear" in names and len(set(names)) == len(names) for names in PROTOCOLS.values())


def test_ablations_switch_off_what_they_say() -> None:
    shear = Shear()
    assert {
        "shear-without-as": dataclasses.replace(shear, antithetical=False),
        "shear-without-ccs": dataclasses.replace(shear, selection="random"),
        "shear-without-either": dataclasses.replace(shear, antithetical=False, selection="random"),
    } == ABLATIONS
    assert len({*ABLATIONS.values(), shear}) == 4
    assert CANDIDATES["shear-authors"] == dataclasses.replace(shear, interaction="block-maximum")


def test_specifications_of_what_is_reproduced(tmp_path: Path) -> None:
    every = specifications("all")
    assert [spec.dataset for spec in every] == ["census", "bank", "german", "criteo-synthetic"]
    assert specifications("bank") == [every[1]]
    assert {spec.model_seeds for spec in every} == {(0, 1, 2)}
    assert {spec.rounds for spec in every} == {5}
    assert {spec.protocol for spec in every} == {"both"}
    quick = specifications("all", quick=True)
    assert {spec.model_seeds for spec in quick} == {(0,)}
    assert all(fewer.rows < spec.rows and fewer.rounds < spec.rounds for fewer, spec in zip(quick, every, strict=True))
    (own,) = specifications("census", protocol="fair", rows=7, rounds=1, quick=True)
    assert (own.protocol, own.rows, own.rounds) == ("fair", 7, 1)
    file = tmp_path / "day.gz"
    file.touch()
    assert [(spec.dataset, spec.path) for spec in specifications("all", path=file)] == [
        ("census", None), ("bank", None), ("german", None), ("criteo", str(file)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"what": "iris"}, "there is nothing to reproduce on 'iris'; there are: census, bank, german, criteo, all"),
        ({"what": "bank", "path": "x"}, "path: only criteo reads a file of yours, bank needs none; got 'x'"),
        ({"what": "criteo", "path": "no/such"}, "path: there is no file 'no/such'"),
        ({"what": "bank", "protocol": "mine"}, "protocol: wanted paper, fair or both, got 'mine'"),
        ({"what": "bank", "rows": 0}, "rows: wanted a positive number, got 0"),
        ({"what": "bank", "rounds": 0}, "rounds: wanted a positive number, got 0"),
    ],
)
def test_what_cannot_be_reproduced_is_said(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        specifications(**wrong)
    assert "criteo" in DATASETS


# Numbers


def slow_curve(records: pa.Table, metric: str) -> dict[int, tuple[float, float]]:
    """N -> the mean over everything, and the deviation over rounds within a network, its square a mean over networks."""
    rows = records.to_pylist()
    found = {}
    for n in sorted({row["n"] for row in rows}):
        here = [row for row in rows if row["n"] == n]
        variances = []
        for seed in {row["seed"] for row in here}:
            means = [
                statistics.mean(row[metric] for row in here if (row["seed"], row["round"]) == (seed, number))
                for number in {row["round"] for row in here if row["seed"] == seed}
            ]
            variances.append(statistics.variance(means) if len(means) > 1 else 0.0)
        found[n] = statistics.mean(row[metric] for row in here), math.sqrt(statistics.mean(variances))
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["shear", "kernel-paper", "kriging"])
def test_a_curve_is_a_mean_and_its_deviation_over_rounds(method: str, metric: str) -> None:
    own = where(CENSUS["estimates"], method=method)
    found, slow = curve(shuffled(own), metric), slow_curve(own, metric)
    assert found.n.tolist() == list(EVALUATIONS) == list(slow)
    np.testing.assert_allclose(found.mean, [mean for mean, _ in slow.values()], rtol=1e-12)
    np.testing.assert_allclose(found.deviation, [deviation for _, deviation in slow.values()], rtol=1e-9)


def test_networks_that_differ_do_not_make_a_deviation() -> None:
    """Two networks whose errors are 1 and 3, with rounds that differ by 2 d: the deviation is d sqrt(2)."""
    parts = [
        dict.fromkeys(STUDIES["estimates"].names, 1)
        | {
            "dataset": "a",
            "method": "shear",
            "seed": seed,
            "round": number,
            "absolute_error": level + (0.1, -0.1)[number],
        }
        for seed, level in enumerate((1.0, 3.0))
        for number in range(2)
    ]
    found = curve(joined("estimates", [table("estimates", part) for part in parts]), "absolute_error")
    assert found.mean[0] == pytest.approx(2)
    assert found.deviation[0] == pytest.approx(0.1 * math.sqrt(2))


def test_a_single_round_has_no_deviation() -> None:
    own = where(CENSUS["estimates"], method="shear", round=1)
    assert curve(own, "absolute_error").deviation.tolist() == [0, 0, 0]


def test_the_median_is_over_everything() -> None:
    own = where(CENSUS["estimates"], method="leverage")
    slow = statistics.median(row["absolute_error"] for row in own.to_pylist() if row["n"] == 16)
    assert median(own, "absolute_error", 16) == pytest.approx(slow)


def slow_seconds(method: str, n: int) -> float:
    return float(statistics.median(where(CENSUS["timings"], method=method, n=n)["seconds"].to_pylist()))


def test_a_speed_is_rows_over_the_median_time() -> None:
    n, rows = speeds(shuffled(where(CENSUS["timings"], method="leverage")))
    assert n.tolist() == list(EVALUATIONS)
    np.testing.assert_allclose(rows, [ROWS / slow_seconds("leverage", one) for one in EVALUATIONS])


def test_the_cost_model_adds_derivatives_to_forward_passes() -> None:
    found = cost(CENSUS["timings"])
    assert found.n.tolist() == list(EVALUATIONS)
    assert found.backward == pytest.approx(slow_seconds("derivatives", 0) / ROWS)
    for place, n in enumerate(EVALUATIONS):
        assert found.measured[place] == pytest.approx(slow_seconds("shear", n) / ROWS)
        assert found.forward[place] == pytest.approx(slow_seconds("forward", n) / ROWS)
        assert found.predicted[place] == pytest.approx(found.backward + found.forward[place])
    np.testing.assert_allclose(found.measured / found.predicted, 1, atol=0.05)


def test_methods_of_a_protocol_are_those_measured() -> None:
    records = estimates("census", ["kriging", "shear", "kernel"], rounds=1)
    assert methods_of(records, PROTOCOLS["fair"]) == ["shear", "kernel", "kriging"]
    assert values_of(records, "method") == ["kriging", "shear", "kernel"]


TIED = st.lists(st.sampled_from([-1.5, -1.0, 0.0, 0.5, 2.0]) | st.floats(-1e3, 1e3), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(TIED)
def test_ranks_are_scipys(values: list[float]) -> None:
    np.testing.assert_allclose(ranks(np.array(values)), rankdata(values))


@settings(max_examples=60, deadline=None)
@given(TIED, st.randoms(use_true_random=False))
def test_the_correlation_is_spearmans(values: list[float], random: Any) -> None:
    others = [random.choice([*values[:2], random.random()]) for _ in values]
    if min(values) == max(values) or min(others) == max(others):
        assert correlation(np.array(values), np.array(others)) == 0
    else:
        wanted = spearmanr(values, others).statistic
        assert correlation(np.array(values), np.array(others)) == pytest.approx(wanted, abs=1e-12)


def slow_selected(records: pa.Table) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Network and row -> cross-contribution and error of its random cooperators at N = 16."""
    targets: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in records.to_pylist():
        if row["selection"] == "random" and row["n"] == ABLATED:
            targets.setdefault((row["seed"], row["row"]), []).append((row["cross_contribution"], row["error"]))
    return targets


def test_correlations_between_and_within_targets() -> None:
    rng = np.random.default_rng(6)
    own = revised(CENSUS, "cooperators", "error", lambda error: error + rng.uniform(0, 0.2, len(error)))["cooperators"]
    found, targets = selected(shuffled(own)), slow_selected(own)
    assert found.error.shape == found.cross_contribution.shape == (len(SEEDS) * TARGETS, DRAWS)
    everything = [pair for pairs in targets.values() for pair in pairs]
    assert found.between == pytest.approx(spearmanr(everything).statistic)
    assert found.within == pytest.approx(statistics.mean(spearmanr(pairs).statistic for pairs in targets.values()))
    assert -1 < found.between < 0
    by_target = {tuple(sorted(pairs)) for pairs in targets.values()}
    stacked = zip(found.cross_contribution.tolist(), found.error.tolist(), strict=True)
    assert {tuple(sorted(zip(eta, error, strict=True))) for eta, error in stacked} == by_target


def test_large_targets_can_hide_what_each_of_them_shows() -> None:
    found = selected(confounded(CENSUS)["cooperators"])
    assert found.within == pytest.approx(-1)
    assert found.between > 0.5


# The authors' released numbers


def test_released_numbers_are_what_they_are() -> None:
    census = published_curve("census", "shear-authors", "ae_mean")
    assert census == {8: 0.0185299, 16: 0.0127495, 32: 0.00868435, 64: 0.005902, 128: 0.00411034}
    assert published_curve("census", "shear", "ae_mean") == census
    assert published_curve("census", "shear", "acc")[16] == 0.988718
    assert published_curve("bank", "permutation-antithetic-authors", "ae_median")[16] == 0.0561247
    assert published_curve("bank", "kernel-paired-authors", "ae_mean")[8] == published_size("bank") == 3.19449
    assert published_size("census") == 2.34738


def test_stale_and_missing_numbers_are_left_out() -> None:
    stale = [row for row in published().to_pylist() if row["note"].startswith("stale")]
    assert {(row["dataset"], row["method"], row["evaluations_per_feature"]) for row in stale} == {
        ("census", "SHEAR", 4), ("census", "SHEAR", 256),
    }  # fmt: skip
    for name in ("ae_mean", "ae_median", "acc", "rows_per_s"):
        assert not {4, 256} & set(published_curve("census", "shear", name))
        for method, theirs in PUBLISHED.items():
            for dataset in ("census", "bank"):
                wanted = {
                    row["evaluations_per_feature"]: row[name]
                    for row in published().to_pylist()
                    if (row["dataset"], row["method"]) == (dataset, theirs)
                    and row[name] is not None
                    and row not in stale
                }
                assert published_curve(dataset, method, name) == wanted
    assert set(published_curve("census", "kernel-authors", "ae_mean")) == {32, 64, 128}
    assert set(published_curve("census", "kernel-authors", "ae_median")) == {8, 16, 32, 64, 128}


def test_nothing_was_released_of_others() -> None:
    assert published_curve("german", "shear", "ae_mean") == {}
    assert published_curve("census", "kriging", "ae_mean") == {}
    assert published_curve("census", "kernel-paper", "ae_mean") == {}
    assert published_size("german") is None
    assert set(PUBLISHED) - {"shear", "kernel-welford"} == {name for name in AUTHORS if name.endswith("-authors")}


# Tables


def slow_mean(records: pa.Table, metric: str, **equal: Any) -> float:
    return float(statistics.mean(where(records, **equal)[metric].to_pylist()))


def test_rescaled_is_the_error_times_their_size_over_ours() -> None:
    own = where(CENSUS["estimates"], method="shear-authors")
    each = [slow_mean(own, "absolute_error", n=16, seed=seed) for seed in SEEDS]
    wanted = statistics.mean(each) * 3 / statistics.mean(SIZES.values())
    assert tables.rescaled(own, 16, SIZES, 3) == pytest.approx(wanted)
    assert tables.rescaled(own, 16, {0: 2.0}, 2.0) == pytest.approx(each[0])
    assert tables.rescaled(own, 16, {1: 2.0}, 1.0) == pytest.approx(each[1] / 2)


@pytest.mark.parametrize("method", ["shear", "shear-authors"])
def test_shear_stands_beside_the_released_numbers(method: str) -> None:
    found = tables.shear_beside_published(CENSUS["estimates"], CENSUS["models"], method)
    assert found is not None
    assert found.columns == ("N", "network 0", "network 1", "mean", "mean, rescaled", "published", "difference")
    assert [row[0] for row in found.rows] == ["8", "16", "32"]
    for row, (n, theirs) in zip(found.rows, {8: 0.0185299, 16: 0.0127495, 32: 0.00868435}.items(), strict=True):
        each = [slow_mean(CENSUS["estimates"], "absolute_error", method=method, n=n, seed=s) for s in SEEDS]
        scaled = statistics.mean(each) * 2.34738 / statistics.mean(SIZES.values())
        assert row[1:6] == tuple(f"{one:.4f}" for one in (*each, statistics.mean(each), scaled, theirs))
        assert row[6] == f"{100 * (scaled / theirs - 1):+.0f}%"
    assert "2.347" in found.notes[0]
    assert tables.shear_beside_published(GERMAN["estimates"], GERMAN["models"], method) is None
    assert tables.shear_beside_published(only(CENSUS, "kriging")["estimates"], CENSUS["models"], method) is None


def test_every_method_stands_beside_its_released_numbers() -> None:
    found = tables.beside_published(CENSUS["estimates"], AUTHORS)
    assert found is not None
    rows = {(row[0], row[1]): row[2:] for row in found.rows}
    assert len(rows) == len(found.rows) == len(AUTHORS) * len(EVALUATIONS)
    own = where(CENSUS["estimates"], method="kernel-authors", n=16)
    mean, middle = slow_mean(own, "absolute_error"), statistics.median(own["absolute_error"].to_pylist())
    right = slow_mean(own, "ranking_accuracy")
    assert rows["KS", "16"][:5] == (f"{mean:.4f}", "-", f"{middle:.4f}", "0.4374", f"{right:.3f}")
    assert rows["SHEAR block maximum", "16"][1] == "0.0127"
    assert rows["KS-Pair", "8"][1] == "2.3474"
    assert tables.beside_published(GERMAN["estimates"], AUTHORS) is None


def test_released_accuracies_are_rounded_like_ours() -> None:
    found = tables.beside_published(CENSUS["estimates"], AUTHORS)
    assert found is not None
    shown = {(row[0], row[1]): row[7] for row in found.rows}
    for method in AUTHORS:
        for n, accuracy in published_curve("census", method, "acc").items():
            if n in EVALUATIONS:
                assert shown[look(method).label, str(n)] == f"{accuracy:.3f}"


@pytest.mark.parametrize("metric", ["absolute_error", "ranking_accuracy"])
def test_a_comparison_has_a_row_for_each_method_and_the_best_in_bold(metric: str) -> None:
    found = tables.comparison(CENSUS["estimates"], CENSUS["timings"], FAIR, metric, "Fair")
    assert found.columns == ("method", "N = 8", "N = 16", "N = 32", "derivative passes", "rows a second, N = 16")
    assert [row[0] for row in found.rows] == [look(method).label for method in FAIR]
    for row, method in zip(found.rows, FAIR, strict=True):
        slow = slow_curve(where(CENSUS["estimates"], method=method), metric)
        digits = [3 if mean >= 0.1 else 4 for mean, _ in slow.values()]
        wanted = [f"{m:.{d}f} ± {s:.{d}f}" for (m, s), d in zip(slow.values(), digits, strict=True)]
        assert list(row[1:4]) == wanted
        assert row[4] == ("13" if method.startswith("shear") else "0")
        assert row[5] == f"{ROWS / slow_seconds(method, 16):,.0f}"
    assert found.emphasis == {(FAIR.index("shear"), 1), (FAIR.index("shear"), 2), (FAIR.index("shear"), 3)}
    assert "KS-Pair is `kernel-paired`" in found.notes[1]


def test_the_best_is_the_best_at_each_number_of_evaluations() -> None:
    better = revised(CENSUS, "estimates", "absolute_error", times(1e-6), method="kriging", n=16)
    found = tables.comparison(better["estimates"], better["timings"].slice(0, 0), FAIR, "absolute_error", "Fair")
    assert (FAIR.index("kriging"), 2) in found.emphasis
    assert len(found.emphasis) == 3
    assert re.fullmatch(r"1\.\de-07 ± \de-08", found.rows[FAIR.index("kriging")][2])
    assert {row[5] for row in found.rows} == {"-"}


def test_the_data_sets_stand_beside_the_papers() -> None:
    found = tables.datasets(BOTH["models"])
    assert [row[:3] for row in found.rows] == [
        ("census", "Census Income", "The census data"), ("german", "none", "The german data"),
    ]  # fmt: skip
    assert [row[-1] for row in found.rows] == ["the same", "not in the paper"]
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
    found = tables.costs(CENSUS["timings"])
    for row, n in zip(found.rows, EVALUATIONS, strict=True):
        backward, forward, measured = (
            1e3 * slow_seconds(*one) / ROWS for one in (("derivatives", 0), ("forward", n), ("shear", n))
        )
        model = backward + forward
        numbers = [f"{one:.3f}" for one in (backward, forward, model, measured)]
        assert row == (str(n), *numbers, f"{measured / model:.2f}", f"{100 * backward / measured:.0f}%")


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
    text = tables.markdown(Table("Sizes", ("what", "size"), (("sum of |φ|", "1"),), emphasis=frozenset({(0, 0)})))
    assert text.splitlines()[-1] == r"| **sum of \|φ\|** | 1 |"


# Findings


def confounded(records: Records) -> Records:
    """Make targets differ in scale: those of large cross-contribution have large errors too."""
    targets = where(records["cooperators"], seed=0, selection="random", draw=0, n=ABLATED)["row"].to_pylist()
    for place, row in enumerate(sorted(targets)):
        for seed in SEEDS:
            for name in ("cross_contribution", "error"):
                records = revised(records, "cooperators", name, times(30.0**place), row=row + 100 * seed)
    return records


def rising(records: Records) -> Records:
    """Make errors rise with cross-contribution, for every target."""
    return revised(records, "cooperators", "error", lambda error: 1 / np.maximum(error, 1e-3))


def better(records: Records, method: str, **equal: Any) -> Records:
    return revised(records, "estimates", "absolute_error", times(0.01), method=method, **equal)


def worse(records: Records, method: str, **equal: Any) -> Records:
    return revised(records, "estimates", "absolute_error", times(100), method=method, **equal)


def faster(records: Records, method: str, factor: float = 0.01) -> Records:
    return revised(records, "timings", "seconds", times(factor), method=method)


def unsteady(records: Records, **equal: Any) -> Records:
    """Make SHEAR's error differ much from round to round."""
    return revised(records, "estimates", "absolute_error", times(100), method="shear", round=1, **equal)


Change = Callable[[Records], Records]

CASES: list[tuple[str, Change, str]] = [
    ("released_error", lambda r: r, "agrees"),
    ("released_error", lambda r: worse(r, "shear", n=8), "partly"),
    ("released_error", lambda r: worse(r, "shear"), "does not"),
    ("released_error", lambda r: better(r, "shear"), "does not"),
    ("released_error", lambda r: revised(r, "models", "size", times(100)), "does not"),
    ("released_error", lambda r: worse(revised(r, "models", "size", times(100)), "shear"), "agrees"),
    ("order", lambda r: r, "agrees"),
    ("order", lambda r: worse(r, "permutation-antithetic-authors", n=16), "partly"),
    ("order", lambda r: worse(r, "permutation-antithetic-authors"), "does not"),
    ("order", lambda r: worse(r, "shear"), "does not"),
    ("paired_right", lambda r: r, "agrees"),
    ("paired_right", lambda r: better(r, "permutation-antithetic", n=32), "partly"),
    ("paired_right", lambda r: better(r, "permutation-antithetic"), "does not"),
    ("winner", lambda r: r, "agrees"),
    ("winner", lambda r: better(r, "kriging", n=8), "partly"),
    ("winner", lambda r: better(r, "kriging"), "does not"),
    ("winner", lambda r: better(r, "kernel-paired"), "does not"),
    ("least_deviation", lambda r: r, "agrees"),
    ("least_deviation", lambda r: unsteady(r, n=8), "partly"),
    ("least_deviation", unsteady, "does not"),
    ("selection_dominates", lambda r: r, "agrees"),
    ("selection_dominates", lambda r: worse(r, "shear-without-as"), "does not"),
    ("selection_dominates", lambda r: better(r, "shear-without-ccs"), "does not"),
    ("cross_contribution_tells", lambda r: r, "agrees"),
    ("cross_contribution_tells", confounded, "partly"),
    ("cross_contribution_tells", rising, "does not"),
    ("lower_bound", lambda r: r, "agrees"),
    ("lower_bound", lambda r: revised(r, "cooperators", "error", times(1e-3), selection="random", draw=0, row=1), "partly"),
    ("lower_bound", lambda r: revised(r, "cooperators", "error", times(1e-3), selection="random"), "does not"),
    ("one_backward", lambda r: r, "partly"),
    ("one_backward", lambda r: revised(r, "estimates", "derivative_passes", np.ones_like, method="shear"), "agrees"),
    ("one_backward", lambda r: faster(r, "shear", 20), "does not"),
    ("fastest", lambda r: r, "agrees"),
    ("fastest", lambda r: better(r, "permutation-antithetic"), "agrees"),
    ("fastest", lambda r: faster(r, "permutation-antithetic"), "agrees"),
    ("fastest", lambda r: faster(better(r, "permutation-antithetic"), "permutation-antithetic"), "does not"),
    ("fastest", lambda r: faster(better(r, "leverage"), "leverage"), "does not"),
    ("fastest", lambda r: faster(better(r, "kriging"), "kriging"), "does not"),
    ("theorem_2", lambda r: r, "agrees"),
    ("theorem_2", lambda r: revised(r, "bounds", "loss", times(2.5), seed=1), "partly"),
    ("theorem_2", lambda r: revised(r, "bounds", "printed", times(0), seed=1), "partly"),
    ("adds_up", lambda r: r, "agrees"),
    ("adds_up", lambda r: revised(r, "illustration", "shear", lambda shares: shares + 0.01, feature="age"), "partly"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "verdict"), CASES, ids=[f"{name}, {verdict}" for name, _, verdict in CASES])
def test_a_verdict_follows_the_records(name: str, change: Change, verdict: str) -> None:
    found = getattr(statements, name)(change(CENSUS))
    assert found is not None
    assert found.verdict == verdict


def test_every_statement_can_be_agreed_with_and_not() -> None:
    verdicts: dict[str, set[str]] = {}
    for name, _, verdict in CASES:
        verdicts.setdefault(name, set()).add(verdict)
    assert all("agrees" in found and len(found) > 1 for found in verdicts.values())
    claims = {finding.claim for finding in findings(CENSUS)}
    assert len(claims) == len(verdicts)
    assert claims == {getattr(statements, name)(CENSUS).claim for name in verdicts}


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("released_error", GERMAN),
        ("order", only(CENSUS, *PAPER, *FAIR)),
        ("paired_right", only(CENSUS, *PAPER, *AUTHORS)),
        ("winner", only(CENSUS, *PAPER, *AUTHORS)),
        ("fastest", only(CENSUS, *PAPER, *AUTHORS)),
        ("least_deviation", only(CENSUS, *FAIR)),
        ("theorem_2", without(CENSUS, "bounds")),
        ("adds_up", without(CENSUS, "illustration")),
    ],
)
def test_nothing_is_said_of_what_was_not_measured(name: str, records: Records) -> None:
    assert getattr(statements, name)(records) is None


def evidence(name: str, records: Records = CENSUS) -> str:
    found: Finding = getattr(statements, name)(records)
    return found.evidence


def test_evidence_is_of_the_records() -> None:
    means = {
        name: slow_mean(CENSUS["estimates"], "absolute_error", method=name, n=16)
        for name in (*AUTHORS, "shear-without-as", "shear-without-ccs", "permutation-antithetic")
    }
    chain = " > ".join(
        f"{means[name]:.4f}" for name in ("permutation-authors", "permutation-antithetic-authors", "shear")
    )
    assert f"N = 16: {chain};" in evidence("order")
    assert f"N = 16: {means['shear'] / means['permutation-antithetic']:.2f}" in evidence("paired_right")
    grows = (means[f"shear-without-{part}"] / means["shear"] for part in ("ccs", "as"))
    assert "grows {:.1f} times without CCS, {:.1f} times without AS".format(*grows) in evidence("selection_dominates")
    assert evidence("least_deviation") == "least of the paper's protocol at 3 of 3 numbers of evaluations"
    assert evidence("least_deviation", unsteady(CENSUS, n=8)).endswith("at 2 of 3 numbers of evaluations")
    assert "N = 16: Kriging" in evidence("winner", better(CENSUS, "kriging"))
    assert "rank correlation -1.00 over all features, -1.00 within" in evidence("cross_contribution_tells")
    assert "; 0% of random choices do better" in evidence("lower_bound")
    assert "13 derivative passes a row" in evidence("one_backward")
    assert evidence("adds_up") == "+1.1250 to share, SHEAR misses +0.0000 of it"


def test_evidence_of_theorem_2_counts_pairs() -> None:
    broken = revised(CENSUS, "bounds", "loss", lambda loss: 10 * loss, seed=1)
    assert "50.0% of 60 pairs exceed it" in evidence("theorem_2", broken)
    assert evidence("theorem_2", broken).endswith("with differences for derivatives: 50.0%")
    assert "0.0% of 60 pairs exceed it, by 0% at most" in evidence("theorem_2")


def test_the_findings_are_a_table() -> None:
    found = findings_table(CENSUS, "census")
    assert found.caption == "What the paper says, and what census shows"
    assert len(found.rows) == len(findings(CENSUS)) == 12
    assert {row[1] for row in found.rows} <= {"**agrees**", "**partly**", "**does not**"}
    assert all(all(row) for row in found.rows)


# Text


def test_what_is_printed() -> None:
    text = printed(BOTH)
    census, german = text.split("\n\n")
    assert census.startswith(
        "census: The census data\nnetworks  2, of test accuracy 85.1% 84.7%\ntruth     exact, 4 rows"
    )
    assert german.startswith("german: The german data")
    lines = census.splitlines()
    assert "row 7, explained by SHEAR in 210 evaluations (exact values beside it)" in lines
    shares = [line.split()[0] for line in lines if line.startswith("  ")]
    assert shares == ["base", "gain", "relationship", "age", "race", "sex", "prediction,"]
    assert f"  {'relationship':<16}{'Not-in-family, or so':<22}{'-1.2600':>9}{'-1.2500':>11}" in lines
    for protocol, methods in PROTOCOLS.items():
        error = {name: slow_mean(CENSUS["estimates"], "absolute_error", method=name, n=16) for name in methods}
        ordered = ", ".join(f"{look(name).label} {error[name]:.2g}" for name in sorted(methods, key=error.__getitem__))
        assert f"{protocol:<9} absolute error at N = 16: {ordered}" in lines


def test_a_row_that_is_not_there_is_not_printed() -> None:
    assert "explained by SHEAR" not in printed(without(CENSUS, "illustration", "bounds"))


@pytest.mark.parametrize(("methods", "absent"), [(FAIR, ("paper", "authors")), ([*PAPER, *AUTHORS], ("fair",))])
def test_only_protocols_that_were_run_are_printed(methods: list[str], absent: tuple[str, ...]) -> None:
    lines = printed(only(CENSUS, *methods)).splitlines()
    assert not [line for line in lines if line.startswith(absent)]
    assert [line for line in lines if "absolute error at N = 16" in line]


# Figures

DRAWINGS: dict[str, Callable[[Records], Drawing]] = {
    **{
        f"{metric} {protocol}": lambda own, metric=metric, methods=methods: figures.metric_curves(  # type: ignore[misc]
            own["estimates"], metric, list(methods)
        )
        for metric, (protocol, methods) in zip(METRICS, [*PROTOCOLS.items(), ("fair", PROTOCOLS["fair"])], strict=True)
    },
    "trade-off": lambda own: figures.trade_off(own["estimates"], own["timings"], FAIR),
    "ablated error": lambda own: figures.ablation(own["estimates"], "absolute_error"),
    "ablated accuracy": lambda own: figures.ablation(own["estimates"], "ranking_accuracy"),
    "contribution cloud": lambda own: figures.contribution_cloud(own["cooperators"]),
    "contribution share": lambda own: figures.contribution_share(own["cooperators"]),
    "cooperators": lambda own: figures.cooperator_curves(own["cooperators"]),
    "tightness": lambda own: figures.tightness(own["bounds"]),
    "bound cloud": lambda own: figures.bound_cloud(own["bounds"]),
    "cost": lambda own: figures.cost_model(own["timings"]),
    "explanation": lambda own: figures.explanation(where(own["illustration"], seed=0)),
}
SCALES = {
    "absolute_error paper": ("log", "log"), "ranking_accuracy authors": ("log", "function"),
    "faithfulness fair": ("log", "linear"), "monotonicity fair": ("log", "linear"), "trade-off": ("log", "function"),
    "ablated error": ("linear", "log"), "ablated accuracy": ("linear", "linear"), "contribution cloud": ("log", "log"),
    "contribution share": ("linear", "linear"), "cooperators": ("log", "log"), "tightness": ("linear", "linear"),
    "bound cloud": ("log", "log"), "cost": ("log", "log"), "explanation": ("linear", "linear"),
}  # fmt: skip


def only_axes(drawing: Drawing) -> Axes:
    (axes,) = drawing.figure.axes
    return axes


def xs(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_xdata(), dtype=float)


def ys(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_ydata(), dtype=float)


def markup(drawing: Drawing) -> ET.Element:
    return ET.fromstring(inline(drawing.figure, alt=drawing.alt, titles=drawing.titles, salt="a"))


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_figure_names_its_axes_and_stands_in_a_page(name: str) -> None:
    drawing = DRAWINGS[name](CENSUS)
    axes = only_axes(drawing)
    assert isinstance(drawing.figure, Figure)
    assert (axes.get_xscale(), axes.get_yscale()) == SCALES[name]
    for axis in (axes.xaxis, axes.yaxis):
        named = [label.get_text() for label in axis.get_ticklabels()]
        words = [text for text in named if re.search("[A-Za-z]", text)]
        assert axis.get_label_text() or (name.startswith(("ablated", "explanation")) and words == named)
    root = markup(drawing)
    assert root.get("aria-label") == drawing.alt != ""
    shown = {text.text for text in root.iter("text")}
    assert {label for label in (axes.get_xlabel(), axes.get_ylabel()) if label} <= shown


def error_bars(axes: Axes) -> Iterator[ErrorbarContainer]:
    return (found for found in axes.containers if isinstance(found, ErrorbarContainer))


def heights(container: ErrorbarContainer) -> list[float]:
    """Return half the length of each bar."""
    (bars,) = container.lines[2]
    assert isinstance(bars, LineCollection)
    return [float(np.ptp(np.asarray(segment)[:, 1])) / 2 for segment in bars.get_segments()]


@pytest.mark.parametrize("metric", METRICS)
def test_every_method_is_a_line_with_its_deviations(metric: str) -> None:
    drawing = figures.metric_curves(CENSUS["estimates"], metric, FAIR)
    drawn = list(error_bars(only_axes(drawing)))
    assert len(drawn) == len(FAIR)
    for container, method in zip(drawn, FAIR, strict=True):
        line, series = container.lines[0], look(method)
        slow = slow_curve(where(CENSUS["estimates"], method=method), metric)
        assert line is not None
        assert (line.get_gid(), line.get_color(), line.get_marker()) == (
            f"series-{method}",
            series.color,
            series.marker,
        )
        np.testing.assert_allclose(xs(line), list(slow))
        np.testing.assert_allclose(ys(line), [mean for mean, _ in slow.values()])
        np.testing.assert_allclose(heights(container), [deviation for _, deviation in slow.values()], rtol=1e-6)
        assert {part.get_gid() for part in (*container.lines[1], *container.lines[2])} == {f"series-{method}"}
    assert only_axes(drawing).get_xticks().tolist() == list(EVALUATIONS)


def told(drawing: Drawing, gid: str) -> list[list[str | None]]:
    """Return the tooltips of a series' markers, of each group of them."""
    groups = [group for group in markup(drawing).iter("g") if gid in group.get("class", "").split()]
    every = [[use.findtext("title") for use in group.iter("use")] for group in groups]
    return [texts for texts in every if texts]


def test_markers_tell_their_numbers() -> None:
    drawing = figures.metric_curves(CENSUS["estimates"], "absolute_error", AUTHORS)
    assert set(drawing.titles) == {f"series-{look(method).name}" for method in AUTHORS}
    slow = slow_curve(where(CENSUS["estimates"], method="shear-authors"), "absolute_error")
    wanted = [f"SHEAR block maximum, N = {n}: {mean:.4g} ± {deviation:.2g}" for n, (mean, deviation) in slow.items()]
    assert drawing.titles["series-shear-block"] == wanted
    assert told(drawing, "series-shear-block") == [wanted] * 3  # the line's markers, and the caps at either end


def test_the_trade_off_is_accuracy_against_speed() -> None:
    drawing = figures.trade_off(CENSUS["estimates"], CENSUS["timings"], FAIR)
    drawn = list(error_bars(only_axes(drawing)))
    assert len(drawn) == len(FAIR)
    for container, method in zip(drawn, FAIR, strict=True):
        slow = slow_curve(where(CENSUS["estimates"], method=method), "ranking_accuracy")
        line = container.lines[0]
        assert line is not None
        np.testing.assert_allclose(xs(line), [ROWS / slow_seconds(method, n) for n in EVALUATIONS])
        np.testing.assert_allclose(ys(line), [mean for mean, _ in slow.values()])
        np.testing.assert_allclose(heights(container), [deviation for _, deviation in slow.values()], rtol=1e-6)
    speed, mean = (
        ROWS / slow_seconds("shear", 8),
        slow_curve(where(CENSUS["estimates"], method="shear"), "ranking_accuracy")[8][0],
    )
    assert told(drawing, "series-shear")[0][0] == f"SHEAR, N = 8: {speed:,.0f} rows a second, accuracy {mean:.4f}"


@pytest.mark.parametrize("name", ["ranking_accuracy authors", "trade-off"])
def test_accuracies_are_stretched_near_1_and_all_in_sight(name: str) -> None:
    axes = only_axes(DRAWINGS[name](CENSUS))
    low, high = axes.get_ylim()
    drawn = np.concatenate([ys(line) for line in axes.lines])
    assert low <= drawn.min() <= drawn.max() <= high
    screen = axes.transData.transform([(16, y) for y in (0.8, 0.9, 0.98, 0.99)])[:, 1]
    assert np.all(np.diff(screen) > 0)
    assert (screen[3] - screen[2]) / 0.01 > 2 * (screen[1] - screen[0]) / 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_ablations_are_bars_with_deviations(metric: str) -> None:
    axes = only_axes(figures.ablation(CENSUS["estimates"], metric))
    bars = [found for found in axes.containers if isinstance(found, BarContainer)]
    methods = ["shear", *ABLATIONS]
    assert len(bars) == len(methods) == len(axes.get_xticklabels()) == len(axes.texts)
    for bar, note, method in zip(bars, axes.texts, methods, strict=True):
        mean, deviation = slow_curve(where(CENSUS["estimates"], method=method, n=16), metric)[16]
        assert bar.patches[0].get_height() == pytest.approx(mean)
        assert bar.errorbar is not None
        assert heights(bar.errorbar) == [pytest.approx(deviation, rel=1e-6)]
        assert note.get_text() == f"{mean:.3g}"
        assert axes.get_ylim()[0] < mean + deviation < axes.get_ylim()[1]


def test_clouds_have_a_point_for_each_target_and_at_most_so_many() -> None:
    cloud = only_axes(figures.contribution_cloud(CENSUS["cooperators"]))
    assert len(xs(cloud.lines[0])) == len(SEEDS) * TARGETS
    assert "rank correlation -1.00" in cloud.texts[0].get_text()
    losses = only_axes(figures.bound_cloud(CENSUS["bounds"]))
    assert len(xs(losses.lines[0])) == len(CENSUS["bounds"])
    assert np.all(ys(losses.lines[0]) < xs(losses.lines[0]))
    for pairs in (600, 601, 1100, 5000):
        many = only_axes(figures.bound_cloud(where(bounds("census", pairs), seed=0)))
        assert figures.POINTS / 3 < len(xs(many.lines[0])) <= figures.POINTS


def test_errors_of_one_feature_by_its_share_of_cross_contribution() -> None:
    """The tenths of all draws by eta over its target's mean, and the quartiles of errors over their target's mean."""
    axes = only_axes(figures.contribution_share(CENSUS["cooperators"]))
    pairs = []
    for target in slow_selected(CENSUS["cooperators"]).values():
        eta, error = (statistics.mean(part) for part in zip(*target, strict=True))
        pairs += [(one / eta, other / error) for one, other in target]
    pairs.sort()
    tenth = len(pairs) // 10
    (container,) = error_bars(axes)
    line, (bars,) = container.lines[0], container.lines[2]
    assert isinstance(bars, LineCollection)
    ends = [np.asarray(segment)[:, 1].tolist() for segment in bars.get_segments()]
    for place, (x, y, (low, high)) in enumerate(zip(xs(line), ys(line), ends, strict=True)):
        inside = pairs[place * tenth : (place + 1) * tenth]
        quartiles = statistics.quantiles([error for _, error in inside], n=4, method="inclusive")
        assert x == pytest.approx(statistics.mean(eta for eta, _ in inside))
        assert [low, y, high] == pytest.approx(quartiles)
    assert len(ends) == 10
    assert "rank correlation -1.00" in axes.texts[0].get_text()


def test_cooperators_are_two_lines_that_stop_before_nothing_is_lost() -> None:
    axes = only_axes(figures.cooperator_curves(CENSUS["cooperators"]))
    assert len(axes.lines) == len(axes.collections) == 2
    for line, selection in zip(axes.lines, ("random", "shear"), strict=True):
        own = where(CENSUS["cooperators"], selection=selection, draw=0)
        wanted = {n: slow_mean(own, "error", n=n) for n in (4, 8, 16, 32)}
        np.testing.assert_allclose(xs(line), list(wanted))
        np.testing.assert_allclose(ys(line), list(wanted.values()))
    # where not all features can be cooperators something is lost to the end, and shown
    lossy = revised(CENSUS, "cooperators", "error", lambda error: error + 0.01)
    shown = only_axes(figures.cooperator_curves(lossy["cooperators"])).lines[0]
    assert xs(shown).tolist() == [4, 8, 16, 32, 64]


def test_tightness_is_a_histogram_in_percent() -> None:
    broken = revised(CENSUS, "bounds", "loss", lambda loss: 10 * loss, seed=1)
    broken = revised(broken, "bounds", "printed", times(0), seed=1)
    drawing = figures.tightness(broken["bounds"])
    for patch in only_axes(drawing).patches:
        y = np.asarray(patch.get_path().vertices)[:, 1]  # a line of steps: 0, then each height twice
        assert y[1:-1:2].sum() == pytest.approx(100)
    legend = only_axes(drawing).get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 2


def test_the_cost_model_is_beside_the_measured_time() -> None:
    predicted, measured, backward = only_axes(figures.cost_model(CENSUS["timings"])).lines
    found = cost(CENSUS["timings"])
    np.testing.assert_allclose(ys(predicted), 1e3 * found.predicted)
    np.testing.assert_allclose(ys(measured), 1e3 * found.measured)
    np.testing.assert_allclose(ys(backward), 1e3 * found.backward)


def test_an_explanation_has_a_bar_for_each_feature_the_largest_on_top() -> None:
    axes = only_axes(figures.explanation(where(CENSUS["illustration"], seed=0)))
    features = [label.get_text().split(" = ")[0] for label in axes.get_yticklabels()]
    assert features == ["sex", "race", "age", "relationship", "gain"]
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == pytest.approx(
        [0.145, -0.25, 0.51, -1.26, 1.98]
    )
    assert xs(axes.lines[0]).tolist() == [0.125, -0.25, 0.5, -1.25, 2.0]
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) < 40


def constant(value: float) -> Callable[[Floats], Floats]:
    return lambda values: np.full_like(values, value)


def error(records: Records, change: Callable[[Floats], Any], **equal: Any) -> Records:
    return revised(records, "estimates", "absolute_error", change, **equal)


def accuracy(records: Records, value: float, **equal: Any) -> Records:
    return revised(records, "estimates", "ranking_accuracy", constant(value), **equal)


def uncertain(records: Records, *evaluations: int) -> Records:
    """Make KS's error vary over rounds by more than its mean, so that there is no place for the bar's lower end."""
    for n in evaluations:
        records = error(records, times(30), method="kernel-paper", round=0, n=n)
    return records


def flat(records: Records) -> Records:
    """Make features interact nowhere: nothing to select by, nothing to lose."""
    for study, names in {"cooperators": ("cross_contribution", "error"), "bounds": ("loss", "printed", "sure")}.items():
        for name in names:
            records = revised(records, study, name, constant(0))
    return records


CURVES = ["absolute_error paper", "ranking_accuracy authors", "trade-off"]
COOPERATORS = ["contribution cloud", "contribution share", "cooperators"]
DEGENERATE: dict[str, tuple[Records, list[str]]] = {
    "one round": (synthetic(rounds=1), [*CURVES, "ablated error", "ablated accuracy"]),
    "no error at N = 32": (accuracy(error(CENSUS, constant(0), n=32), 1, n=32), CURVES),
    "no error at N = 16": (accuracy(error(CENSUS, constant(0), n=16), 1, n=16), [*CURVES, "ablated error"]),
    "no error of SHEAR": (error(CENSUS, constant(0), method="shear"), ["absolute_error paper", "ablated error"]),
    "no error at all": (accuracy(error(CENSUS, constant(0)), 1), [*CURVES, "ablated error", "ablated accuracy"]),
    "uncertain at N = 8": (uncertain(CENSUS, 8), ["absolute_error paper"]),
    "uncertain at N = 16": (uncertain(CENSUS, 16), ["absolute_error paper"]),
    "uncertain at N = 8 and 16": (uncertain(CENSUS, 8, 16), ["absolute_error paper"]),
    "uncertain throughout": (error(CENSUS, times(1e4), round=0), ["absolute_error paper", "ablated error"]),
    "every ranking wrong": (accuracy(CENSUS, 0), CURVES[1:]),
    "constant cross-contribution": (
        revised(CENSUS, "cooperators", "cross_contribution", constant(0.1)),
        COOPERATORS[:2],
    ),
    "no interactions": (flat(CENSUS), [*COOPERATORS, "tightness", "bound cloud"]),
    "one target": ({**CENSUS, "cooperators": where(CENSUS["cooperators"], seed=0, row=3)}, COOPERATORS),
}


@pytest.mark.parametrize(("what", "name"), [(what, name) for what, (_, names) in DEGENERATE.items() for name in names])
def test_a_figure_of_extremes_is_drawn(what: str, name: str) -> None:
    """Without a warning, which would be an error here."""
    markup(DRAWINGS[name](DEGENERATE[what][0]))


def test_a_network_without_interactions_breaks_no_theorem() -> None:
    found = statements.theorem_2(flat(CENSUS))
    assert found is None or found.verdict == "agrees"


# Colours


def linear(color: str) -> Floats:
    """Return the linear RGB of #rrggbb."""
    coded = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> Floats:
    """Return CIE Lab of linear RGB, white being D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb.clip(0, 1)
    part = xyz / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(part > (6 / 29) ** 3, np.cbrt(part), part / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


SIGHT: Mapping[str, Floats] = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "print in grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
"""What becomes of linear RGB: Machado, Oliveira and Fernandes, 2009, severity 1; and by luminance alone."""


def apart(first: str, second: str, sight: str) -> float:
    """Return how far two colours are from one another in CIE Lab."""
    return float(np.linalg.norm(lab(SIGHT[sight] @ linear(first)) - lab(SIGHT[sight] @ linear(second))))


def test_red_and_green_come_close_to_those_who_cannot_tell_them_apart() -> None:
    for sight in ("protanopia", "deuteranopia"):
        np.testing.assert_allclose(SIGHT[sight].sum(axis=1), 1, atol=1e-5)  # greys stay grey
        assert apart("#808000", "#b26e00", sight) < apart("#808000", "#b26e00", "normal") / 2
    np.testing.assert_allclose(lab(linear("#ff0000")), [53.2, 80.1, 67.2], atol=0.1)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_two_methods_of_a_figure_look_alike(protocol: Protocol, sight: str) -> None:
    """Colours that are close to some eyes are told apart by their markers."""
    for one, other in combinations(map(look, PROTOCOLS[protocol]), 2):
        assert one.label != other.label
        assert (one.color, one.marker) != (other.color, other.marker)
        if apart(one.color, other.color, sight) < 10:
            assert one.marker != other.marker


def test_every_method_has_a_look_that_pages_can_draw() -> None:
    assert {look(method).name for method in (*EVERY, "truth")} == set(SERIES)
    for series in SERIES.values():
        assert series.marker in MARKERS
        assert series.marker or series.name == "truth"
        assert re.fullmatch("#[0-9A-F]{6}", series.color)
        assert apart(series.color, "#FFFFFF", "normal") > 25
    assert look("kernel-paired") == look("kernel-paired-paper") == look("kernel-paired-authors")
    assert look("shear-authors") != look("shear")


def test_the_truths_own_score_is_a_line_across() -> None:
    own = CENSUS["estimates"]
    truth = where(own, method="shear", n=8, round=0)
    truth = truth.set_column(truth.column_names.index("method"), "method", pa.array(["truth"] * len(truth)))
    records = pa.concat_tables([own, truth])
    for metric in METRICS:
        axes = only_axes(figures.metric_curves(records, metric, ["shear", "kernel"]))
        across = [ys(line).tolist() for line in axes.lines if line.get_gid() == "series-truth"]
        mean = slow_mean(truth, metric)
        assert across == ([[pytest.approx(mean)] * 2] if metric in ("faithfulness", "monotonicity") else [])


@pytest.mark.parametrize("ends", [(4100, 4600), (0.9, 1.1), (3e-4, 0.02), (1e-6, 0.3), (0.011, 0.37)])
def test_marks_of_a_logarithmic_axis_are_few_and_in_sight(ends: tuple[float, float]) -> None:
    axes = Figure().add_subplot()
    axes.set_yscale("log")
    axes.set_ylim(*ends)
    figures._decades(axes.yaxis)
    marks = [mark for mark in axes.yaxis.get_ticklocs() if ends[0] <= mark <= ends[1]]
    assert 2 <= len(marks) <= 8


def test_a_dash_is_matplotlibs_too() -> None:
    assert dashes(SERIES["kernel"]) == (0, (5, 2))
    assert dashes(SERIES["shear"]) == "-"


# The page


def section_ids(made: Page) -> list[str]:
    return [section.id for section in made.sections]


def panel_titles(made: Page) -> list[str]:
    return [panel.title for section in made.sections for figure in section.figures for panel in figure.panels]


SECTIONS = ["summary", "rq1", "rq2", "rq3", "rq4", "illustration", "theory", "setup", "reading"]


def test_the_page_shows_everything() -> None:
    made = page(BOTH, FACTS)
    html = render(made)
    assert section_ids(made) == SECTIONS
    assert all(f'<section id="{name}">' in html for name in SECTIONS)
    assert all(f"<span>{look(method).label}</span>" in html for method in EVERY if method not in ABLATIONS)
    assert "<code>shear reproduce census <span" in html
    facts = dict(made.facts)
    assert facts["Networks"] == "census: seeds 0 and 1; german: seeds 0 and 1"
    assert facts["Rows and rounds"] == "census: 4 test rows, 3 rounds; german: 4 test rows, 3 rounds"
    assert (facts["Machine"], facts["Versions"]) == (FACTS["machine"], FACTS["versions"])
    summary, rq1 = made.sections[:2]
    assert [len(found.rows) for found in summary.tables] == [12, 11]
    assert len(rq1.tables) == 2 * 6 + 3  # two metrics of three protocols, and what was released for census
    assert "Row 7 of census, whose f₁ - f₀ of +1.000" in made.sections[5].text[0]
    for dataset in ("census", "german"):
        assert f"Figure 2: {dataset}" in html
        assert f"Theorem 2 and the cost model: {dataset}" in html


OWN = {
    "paper": "paper: as the appendix describes it",
    "authors": "paper: as the authors ran it",
    "fair": "fair: each method at its best",
}


@pytest.mark.parametrize(
    ("records", "protocols", "sections"),
    [
        (only(GERMAN, *PAPER, *AUTHORS), {"paper", "authors"}, SECTIONS),
        (
            without(synthetic("criteo-synthetic", [*FAIR, *ABLATIONS]), "illustration", "bounds"),
            {"fair"},
            [name for name in SECTIONS if name != "illustration"],
        ),
    ],
    ids=["paper", "fair, 39 features"],
)
def test_a_page_of_one_protocol(records: Records, protocols: set[str], sections: list[str]) -> None:
    made = page(records, FACTS)
    html = render(made)
    assert section_ids(made) == sections
    assert all(
        f"<span>{look(method).label}</span>" in html
        for name, methods in PROTOCOLS.items()
        if name in protocols
        for method in methods
    )
    titles = panel_titles(made)
    shown = {name for name, words in OWN.items() if any(words in title for title in titles)}
    assert shown == protocols
    assert ("Loss against bound" in titles) == ("illustration" in sections)
