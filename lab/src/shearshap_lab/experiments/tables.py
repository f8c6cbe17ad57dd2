"""Tables of the report: each function makes one, or none if the records have nothing for it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.report import Table
from shearshap_lab.experiments.claims import Finding
from shearshap_lab.experiments.evidence import Number, compare, explained_shares
from shearshap_lab.experiments.results import (
    METRICS,
    READING_WORDS,
    RECIPE_WORDS,
    Networks,
    label_of,
    published_curve,
    speeds,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, ABLATIONS, Reading
from shearshap_lab.runner import column
from shearshap_lab.statistics import Floats

PAPER_NAMES = {"census": "Census Income", "bank": '"German Credit"', "criteo": "Cretio"}
PAPER_SPLITS = {
    "census": (5, 8, 20838, 5210, 6513),
    "bank": (7, 9, 28934, 7234, 9043),
    "criteo": (13, 26, 80000, 10000, 10000),
}  #: continuous, categorical, train, validation, test of the paper's table
PAPER_ACCURACY = {"census": 0.847, "bank": 0.898, "criteo": 0.7109}
SPLIT_COLUMNS = ("continuous", "categorical", "train", "validation", "test")


# Findings


def summary(found: Mapping[str, Finding]) -> Table:
    """Return the findings on one screen: claim, verdict, cases by reading, and a number."""
    rows = [
        (
            f"{finding.claim.says} ({finding.claim.section})",
            f"**{finding.verdict}**",
            _cases(finding),
            f"**{finding.number}** {finding.number.words}",
        )
        for finding in found.values()
    ]
    return Table(
        "The paper's claims: in how many cases they hold",
        ("the paper says", "verdict", "cases in which it holds", "one number, 95 % interval"),
        tuple(rows),
        left=4,
        compact=True,
    )


def _cases(finding: Finding) -> str:
    """Return "as run 6 of 10 (1 open); fair 0 of 10"."""
    parts = []
    for reading, outcomes in finding.counts(finding.recipe).items():
        left_open = f" ({outcomes['open']} open)" if outcomes["open"] else ""
        parts.append(f"{reading} {outcomes['holds']} of {outcomes.total()}{left_open}")
    return "; ".join(parts)


def evidence(finding: Finding) -> Table:
    """Return one claim under every reading, on every data set and both kinds of networks."""
    rows = [
        (
            each.dataset,
            RECIPE_WORDS[each.recipe],
            each.reading,
            *(str(each.outcomes[name]) for name in ("holds", "open", "fails")),
            f"{each.number} {each.number.words}",
        )
        for each in finding.evidence
    ]
    return Table(
        finding.claim.says,
        ("data set", "networks", "reading", "holds", "open", "fails", "one number"),
        tuple(rows),
        notes=(f"Cases: {finding.claim.cases}.",),
        left=3,
        open=False,
    )


# Methods


def comparison(networks: Networks, reading: Reading, metric: str) -> Table:
    """Return a metric of all methods of a reading by N: its mean, and SHEAR beside it.

    Errors are compared by SHEAR's over the method's, scores by SHEAR's less the method's.
    """
    methods = networks.methods(reading)
    timings = networks.records["timings"]
    rows = []
    for method in methods:
        cells = []
        for n in networks.n():
            mean = _mean(networks.mean(method, n, metric).mean)
            if method == "shear":
                cells.append(mean)
                continue
            found = compare(networks, "shear", method, n, metric)
            style = ".2f" if metric == "absolute_error" else "+.3f"
            cells.append(f"{mean}: {Number(found.interval, '', style)} {found.verdict}")
        rows.append((label_of(method), *cells, _speed(timings, method)))
    relation = "over" if metric == "absolute_error" else "less"
    names = ", ".join(f"{label_of(method)} is `{_library_name(method)}`" for method in methods)
    return Table(
        f"{METRICS[metric].capitalize()}, baselines {READING_WORDS[reading]}: {networks.title}",
        ("method", *(f"N = {n}" for n in networks.n()), "rows/s"),
        tuple(rows),
        notes=(
            f"Mean: SHEAR's {METRICS[metric]} {relation} the method's, 95 % interval, and the "
            f"verdict on SHEAR. Rows a second are for N = {ABLATION_N}, in a batch.",
            f"In the library: {names}.",
        ),
        open=False,
    )


def _mean(mean: float) -> str:
    return f"{mean:.1e}" if 0 < mean < 1e-3 else f"{mean:.3f}" if mean >= 0.1 else f"{mean:.4f}"


def _speed(timings: pa.Table, method: str) -> str:
    """Return the rows a second of a method at N = 16."""
    n, rates = speeds(timings, "batch", method)
    return f"{rates[n == ABLATION_N][0, 1]:,.0f}" if ABLATION_N in n else "-"


def _library_name(method: str) -> str:
    return 'Shear(interaction="block-maximum")' if method == "shear-authors" else method


def ablations(networks: Networks) -> Table:
    """Return SHEAR and its variants at N = 16, by all four metrics."""
    rows = []
    for method in ("shear", *ABLATIONS):
        cells = []
        for metric in METRICS:
            mean = networks.mean(method, ABLATION_N, metric)
            positive = metric == "absolute_error"
            interval = mean.positive_interval() if positive else mean.interval().within(-1, 1)
            cells.append(str(Number(interval, "", ".4f")))
        rows.append((label_of(method), *cells))
    return Table(
        f"Ablations at N = {ABLATION_N}: {networks.title}",
        ("variant", *METRICS.values()),
        tuple(rows),
        notes=(
            "SHEAR pairs V with its complement. Unpaired: V random, each on its own, as in the "
            "authors' code without AS. Empty: all other features absent, as in the paper's "
            "formula. Means with 95 % intervals.",
        ),
        open=False,
    )


def beside_published(networks: Networks) -> Table | None:
    """Return the methods as the authors ran them, beside their released numbers."""
    name = networks.dataset
    rows = []
    for method in networks.methods("authors"):
        medians = published_curve(name, method, "ae_median")
        means = published_curve(name, method, "ae_mean")
        accuracies = published_curve(name, method, "acc")
        for n in networks.n(method):
            if n not in medians:
                continue
            errors = networks.cube(method, n, "absolute_error")
            rows.append(
                (
                    label_of(method),
                    str(n),
                    f"{errors.mean():.4f}",
                    _number(means.get(n), 4),
                    f"{np.median(errors):.4f}",
                    f"{medians[n]:.4f}",
                    f"{networks.mean(method, n, 'ranking_accuracy').mean:.3f}",
                    _number(accuracies.get(n), 3),
                )
            )
    if not rows:
        return None
    return Table(
        f"The methods as the authors ran them, beside their released numbers: {networks.title}",
        (
            "method",
            "N",
            "error, mean",
            "released",
            "error, median",
            "released",
            "ranking accuracy",
            "released",
        ),
        tuple(rows),
        notes=("No mean is released if singular regressions make it infinite or huge.",),
        open=False,
    )


def _number(number: float | None, digits: int) -> str:
    return "-" if number is None else f"{number:.{digits}f}"


def costs(networks: Networks) -> Table:
    """Return what SHEAR's time is made of."""
    timings = networks.records["timings"]
    rows = []
    for way in timed_ways(networks):
        shares = explained_shares(timings, way)
        _, rates = speeds(timings, way, "shear")
        _, derivatives = speeds(timings, way, "derivatives")
        for (n, share), rate in zip(shares.items(), rates[:, 1], strict=True):
            part = rate / derivatives[0, 1]
            rows.append((way, str(n), f"{1e3 / rate:.3f}", f"{part:.0%}", f"{share - part:.0%}"))
    return Table(
        f"SHEAR's time for one row: {networks.dataset}",
        ("way", "N", "milliseconds", "derivatives", "forward passes"),
        tuple(rows),
        notes=("Medians of all repeats. The rest is planning, mixing rows and adding up.",),
        open=False,
    )


# Data sets and networks


def datasets(models: pa.Table) -> Table:
    """Return the data sets as they are, beside what the paper's table says."""
    first = {row["dataset"]: row for row in reversed(models.to_pylist())}
    rows = [_dataset_row(row) for row in reversed(first.values())]
    return Table(
        "The data sets as they are",
        (
            "data set",
            "the paper's name",
            "what it is",
            "numbers",
            "categories",
            "train",
            "validation",
            "test",
            "inputs",
            "the paper's table",
        ),
        tuple(rows),
        left=3,
    )


def _dataset_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    name = row["dataset"]
    split = tuple(row[key] for key in SPLIT_COLUMNS)
    printed = PAPER_SPLITS.get(name)
    said = "not in the paper" if printed is None else "/".join(map(str, printed))
    agreed = "the same" if printed == split else said
    return (
        name,
        PAPER_NAMES.get(name, "none"),
        row["title"],
        *map(str, split),
        str(row["inputs"]),
        agreed,
    )


def hyperparameters(every: list[Networks]) -> Table:
    """Return the networks, how they were trained and how good they are."""
    return Table(
        "Networks, ground truth and accuracy, one number for each network",
        (
            "data set",
            "recipe",
            "network",
            "encoding",
            "split",
            "stopping",
            "background",
            "ground truth",
            "rows",
            "mean ‖φ‖₁",
            "test accuracy, %",
            "the paper's, %",
            "larger class, %",
        ),
        tuple(_network_row(networks) for networks in every),
        notes=(
            "All: Adam. Not in the paper: softplus, gradient norms clipped at 0.1, and how columns "
            "are encoded. Quirk: the background of a category is the mean of its 0/1 columns, in a "
            "space where these columns are standardised.",
        ),
        left=8,
        open=False,
    )


def _network_row(networks: Networks) -> tuple[str, ...]:
    models = networks.records["models"]
    first = models.to_pylist()[0]
    printed = PAPER_ACCURACY.get(networks.dataset)
    return (
        networks.dataset,
        networks.recipe,
        f"{first['network']}, {first['hidden']} hidden, {first['activation']}, learning rate "
        f"{first['learning_rate']:g}, batches of {first['batch_size']}",
        first["encoding"],
        first["split"],
        first["stopping"],
        first["background"],
        f"{first['truth']}, {first['truth_evaluations']} evaluations a row",
        str(first["rows"]),
        _each(column(models, "size"), ".2f"),
        _each(100 * column(models, "accuracy"), ".1f"),
        "" if printed is None else f"{100 * printed:.1f}",
        f"{100 * first['majority']:.1f}",
    )


def _each(numbers: Floats, style: str) -> str:
    return " ".join(f"{number:{style}}" for number in numbers)
