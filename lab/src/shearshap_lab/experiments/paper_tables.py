"""Tables of the records: each function makes one, or none where the records have nothing for it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.report import Table
from shearshap_lab.experiments.bootstrap import over_networks
from shearshap_lab.experiments.findings import Finding, Number
from shearshap_lab.experiments.findings.comparing import compare, compared
from shearshap_lab.experiments.findings.parts import GRID, selection_worth
from shearshap_lab.experiments.findings.released import beside_published, judged_published
from shearshap_lab.experiments.findings.speed import cost_ratios
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.studies import DERIVATIVES, FORWARD
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import (
    METRICS,
    RECIPE_WORDS,
    Cost,
    Curve,
    Networks,
    cost,
    curve,
    median,
    published_curve,
    published_size,
    sizes_of,
    speed_tenths,
    speeds,
    values_of,
)
from shearshap_lab.metrics import summary as metric_summary

PAPER_NAMES = {"census": "Census Income", "bank": '"German Credit"', "criteo": "Cretio"}
PAPER_SPLITS = {
    "census": (5, 8, 20838, 5210, 6513),
    "bank": (7, 9, 28934, 7234, 9043),
    "criteo": (13, 26, 80000, 10000, 10000),
}  #: continuous, categorical, train, validation, test of the paper's table
PAPER_ACCURACY = {"census": 0.847, "bank": 0.898, "criteo": 0.7109}

SPLIT_COLUMNS = ("continuous", "categorical", "train", "validation", "test")
NUMBER = f"a number at N = {ABLATED}, 95 % interval"
MISSING = "-"  #: in a cell for which there is no number


# Data sets and networks


def datasets(models: pa.Table) -> Table:
    """Return the data sets as they are, beside what the paper's table says."""
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
        tuple(_dataset_row(first) for first in _first_networks(models)),
        left=3,
    )


def _first_networks(models: pa.Table) -> list[dict[str, Any]]:
    """Return the record of the first network of each data set."""
    names = values_of(models, "dataset")
    return [where(models, dataset=name).to_pylist()[0] for name in names]


def _dataset_row(first: Mapping[str, Any]) -> tuple[str, ...]:
    name = first["dataset"]
    split = tuple(first[key] for key in SPLIT_COLUMNS)
    return (
        name,
        PAPER_NAMES.get(name, "none"),
        first["title"],
        *map(str, split),
        str(first["inputs"]),
        _paper_split(name, split),
    )


def _paper_split(dataset: str, split: tuple[int, ...]) -> str:
    """Return what the paper's table says of a data set, in words where it agrees."""
    printed = PAPER_SPLITS.get(dataset)
    if printed is None:
        return "not in the paper"
    if printed == split:
        return "the same"
    return "/".join(map(str, printed))


def hyperparameters(models: pa.Table) -> Table:
    """Return the networks, how they were trained and how good they are."""
    kinds = dict.fromkeys(
        zip(models["dataset"].to_pylist(), models["recipe"].to_pylist(), strict=True)
    )
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
            "its error",
            "evaluations a row",
            "rows",
            "learning rate",
            "batch size",
            "epochs",
            "mean ‖φ‖₁",
            "test accuracy, %",
            "the paper's, %",
            "larger class, %",
        ),
        tuple(_network_row(where(models, dataset=name, recipe=recipe)) for name, recipe in kinds),
        notes=(
            "All: Adam. Not in the paper: softplus, gradient norms clipped at 0.1, and how columns "
            "are encoded. Quirk: the background of a category is the mean of its 0/1 columns, in a "
            "space where these columns are standardised.",
            "The error of a truth that is an estimate is that of its sum of |φ| over features.",
        ),
        left=8,
        open=False,
    )


def _network_row(models: pa.Table) -> tuple[str, ...]:
    """Return the row of one data set and recipe, whose networks differ in numbers alone."""
    first = models.to_pylist()[0]
    sizes = " ".join(f"{size:.2f}" for size in column(models, "size"))
    accuracies = " ".join(_percent(accuracy) for accuracy in column(models, "accuracy"))
    epochs = " ".join(str(each) for each in models["epochs"].to_pylist())
    printed = PAPER_ACCURACY.get(first["dataset"])
    truth_error = column(models, "truth_absolute_error").mean()
    return (
        first["dataset"],
        first["recipe"],
        f"{first['network']}, {first['hidden']} hidden, {first['activation']}",
        first["encoding"],
        first["split"],
        first["stopping"],
        first["background"],
        first["truth"],
        f"{truth_error:.1e}" if truth_error else "0",
        str(first["truth_evaluations"]),
        str(first["rows"]),
        f"{first['learning_rate']:g}",
        str(first["batch_size"]),
        epochs,
        sizes,
        accuracies,
        "" if printed is None else _percent(printed),
        _percent(first["majority"]),
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


# Findings


def summary(found: Mapping[str, Finding], place: str) -> Table:
    """Return the findings on one screen: claim, counts by reading, a number and a sentence.

    `place` says which networks the numbers are of.
    """
    rows = [
        (
            finding.claim,
            _counts(finding, "authors", "authors-mean"),
            _counts(finding, "ours"),
            f"**{finding.headline}** {finding.headline.words}",
            finding.sentence,
        )
        for finding in found.values()
        if finding.brief
    ]
    return Table(
        f"Wins-ties-losses by reading, and one number with its 95 % interval ({place})",
        ("the paper says", "the authors' networks", "our networks", "one number", "in a sentence"),
        tuple(rows),
        left=5,
        compact=True,
    )


def _counts(finding: Finding, *recipes: str) -> str:
    """Return "prefixes 3-1-2, coins 6-0-0"."""
    counts = finding.counts(*recipes)
    return ", ".join(f"{name} **{each}**" for name, each in counts.items()) or MISSING


def readings(finding: Finding) -> Table:
    """Return one claim under every reading, on every data set."""
    rows = [
        (
            each.dataset,
            RECIPE_WORDS[each.recipe],
            each.name,
            str(each.counts.wins),
            str(each.counts.ties),
            str(each.counts.losses),
            f"{each.number} {each.number.words}",
        )
        for each in finding.readings
    ]
    return Table(
        finding.claim,
        ("data set", "networks", "reading", "wins", "ties", "losses", NUMBER),
        tuple(rows),
        notes=(f"Counted: {finding.cases}. {finding.sentence}", *finding.notes),
        left=3,
        open=False,
    )


# The authors' released numbers


def shear_beside_published(networks: Networks) -> Table | None:
    """Return SHEAR's error by network, as it is, over the released numbers."""
    ratios = beside_published(networks)
    if not ratios:
        return None
    method = "shear-authors" if networks.resampled.n("shear-authors") else "shear"
    published = published_curve(networks.dataset, method, "ae_mean")
    sizes = ", ".join(f"{each:.3f}" for each in sizes_of(networks.records["models"]).values())
    seeds = sorted(values_of(networks.records["models"], "seed"))
    rows = [
        (
            str(n),
            *(f"{each * published[n]:.4f}" for each in ratio),
            f"{published[n]:.4f}",
            str(Number(over_networks(ratio), "")),
            f"{ratio.min() - 1:+.0%} to {ratio.max() - 1:+.0%}",
            judged_published(ratio),
        )
        for n, ratio in ratios.items()
    ]
    return Table(
        f"{label_of(method)}'s error beside the published, not rescaled: {networks.title}",
        (
            "N",
            *(f"seed {seed}" for seed in seeds),
            "published",
            "over published, geometric mean",
            "networks",
            "verdict",
        ),
        tuple(rows),
        notes=(
            f"The authors' mean ‖φ‖₁ is {published_size(networks.dataset):.3f}, ours: {sizes}.",
        ),
        open=False,
    )


def methods_beside_published(estimates: pa.Table, methods: Sequence[str]) -> Table | None:
    """Return the methods as the authors ran them, beside their released numbers."""
    name = values_of(estimates, "dataset")[0]
    rows = []
    for method in methods:
        rows += _method_beside_published(where(estimates, method=method), name, method)
    if not rows:
        return None
    return Table(
        f"The methods on {name} as the authors ran them, beside their released numbers",
        (
            "method",
            "N",
            "error, mean",
            "published",
            "error, median",
            "published",
            "ranking accuracy",
            "published",
        ),
        tuple(rows),
        notes=("No mean is published where singular regressions make it infinite or huge.",),
        open=False,
    )


def _method_beside_published(
    estimates: pa.Table, dataset: str, method: str
) -> list[tuple[str, ...]]:
    """Return a row for each N at which the authors released a median error of the method."""
    published_mean = published_curve(dataset, method, "ae_mean")
    published_median = published_curve(dataset, method, "ae_median")
    published_accuracy = published_curve(dataset, method, "acc")
    error = curve(estimates, "absolute_error")
    accuracy = curve(estimates, "ranking_accuracy")
    return [
        (
            label_of(method),
            str(n),
            f"{mean_error:.4f}",
            _number(published_mean.get(n), digits=4),
            f"{median(estimates, 'absolute_error', n):.4f}",
            _number(published_median.get(n), digits=4),
            f"{mean_accuracy:.3f}",
            _number(published_accuracy.get(n), digits=3),
        )
        for n, mean_error, mean_accuracy in zip(
            error.n.tolist(), error.mean, accuracy.mean, strict=True
        )
        if n in published_median
    ]


def _number(number: float | None, *, digits: int) -> str:
    if number is None:
        return MISSING
    return f"{number:.{digits}f}"


# Methods compared


def comparison(networks: Networks, methods: Sequence[str], metric: str, caption: str) -> Table:
    """Return a metric of all methods on one data set by evaluations, the best in bold.

    The last columns are what the methods spend. A truth that is an estimate has a row of its own.
    """
    estimates = networks.records["estimates"]
    timings = where(networks.records["timings"], way="batch")
    rows = []
    for method in methods:
        own = where(estimates, method=method)
        spent = _spent(where(own, n=ABLATED))
        speed = _speed(where(timings, method=method))
        rows.append((label_of(method), *_means(curve(own, metric)), *spent, speed))

    n = networks.resampled.n(methods[0])
    if metric == "absolute_error" and networks.truth_error:
        error = f"{networks.truth_error:.1e}"
        rows.append(("the truth's own error", *[error] * len(n), MISSING, MISSING, MISSING))
    names = ", ".join(f"{label_of(method)} is `{_library_name(method)}`" for method in methods)
    return Table(
        caption,
        (
            "method",
            *(f"N = {number}" for number in n),
            "evaluations",
            "derivative passes",
            "rows a second",
        ),
        tuple(rows),
        notes=(_comparison_note(metric), f"In the library: {names}."),
        emphasis=_best_cells(networks, methods, metric),
        open=False,
    )


def ratios(networks: Networks, rivals: Sequence[str], metric: str, caption: str) -> Table:
    """Return SHEAR beside each of its rivals at each N: number, interval and verdict."""
    found = {(each.rival, each.n): each for each in compared(networks, rivals, metric)}
    n = networks.resampled.n("shear")
    style = ".2f" if metric == "absolute_error" else "+.3f"
    rows = [
        (
            label_of(rival),
            *(
                f"{Number(found[rival, each].interval, '', style)} {found[rival, each].verdict}"
                for each in n
            ),
        )
        for rival in rivals
    ]
    what = "over the baseline's" if metric == "absolute_error" else "less the baseline's"
    return Table(
        caption,
        ("baseline", *(f"N = {each}" for each in n)),
        tuple(rows),
        notes=(f"SHEAR's {METRICS[metric]} {what}, its 95 % interval, and the verdict on SHEAR.",),
        open=False,
    )


def ablations(networks: Networks) -> Table:
    """Return the 3 x 2 grid of ablations at N = 16: the error and the ranking accuracy."""
    rows = []
    for name, methods in GRID.items():
        cells = []
        for metric, style in (("absolute_error", ".4f"), ("ranking_accuracy", ".4f")):
            for method in methods:
                interval = networks.resampled.mean(method, ABLATED, metric).interval()
                cells.append(str(Number(interval, "", style)))
        worth = Number(selection_worth(networks, name), "")
        rows.append((name, *cells, str(worth)))
    return Table(
        f"The 3 x 2 grid of ablations at N = {ABLATED}: {networks.title}",
        (
            "background coalitions V",
            "error, with CCS",
            "error, without",
            "ranking accuracy, with CCS",
            "ranking accuracy, without",
            "error without CCS over with",
        ),
        tuple(rows),
        notes=(
            "Paired: V and its complement, as SHEAR draws them. Unpaired: V random, each on its "
            "own, as in the authors' code without AS. Empty: all other features absent, as in the "
            "paper's formula. Means with 95 % intervals.",
        ),
        open=False,
    )


def _means(measured: Curve) -> list[str]:
    points = zip(measured.mean, measured.deviation, strict=True)
    return [_mean(mean, deviation) for mean, deviation in points]


def _mean(mean: float, deviation: float) -> str:
    """Return a mean to three digits, and its deviation to the same place."""
    if 0 < mean < 1e-3:
        return f"{mean:.1e} ± {deviation:.0e}"
    digits = 3 if mean >= 0.1 else 4
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _spent(estimates: pa.Table) -> tuple[str, str]:
    """Return the evaluations and the derivative passes of a row."""
    evaluations = column(estimates, "evaluations").max()
    passes = column(estimates, "derivative_passes").max()
    return str(evaluations), str(passes)


def _speed(timings: pa.Table) -> str:
    """Return the rows a second of one method at N = 16."""
    n, rows_per_second = speeds(timings)
    if ABLATED not in n:
        return MISSING
    return f"{rows_per_second[n == ABLATED][0]:,.0f}"


def _best_cells(
    networks: Networks, methods: Sequence[str], metric: str
) -> frozenset[tuple[int, int]]:
    """Return the (row, column) of the best at each N and of all that are tied with it."""
    cells = set()
    sign = 1 if metric == "absolute_error" else -1
    for place, n in enumerate(networks.resampled.n(methods[0])):
        means = [sign * networks.resampled.mean(each, n, metric).mean for each in methods]
        best = methods[int(np.argmin(means))]
        for row, method in enumerate(methods):
            if compare(networks, best, method, n, metric).verdict == "tie":
                cells.add((row, 1 + place))
    return frozenset(cells)


def _comparison_note(metric: str) -> str:
    return (
        f"{METRICS[metric].capitalize()}: mean ± standard deviation over rounds of the mean over "
        f"rows. The last columns are for N = {ABLATED}. The evaluations of a row include its base "
        "value and prediction; its derivative passes are not among them. Bold: the best, and what "
        "is tied with it."
    )


def over_rows(networks: Networks, methods: Sequence[str]) -> Table:
    """Return all four metrics of all methods on one data set at N = 16, over rows."""
    estimates = networks.records["estimates"]
    rows = [_metrics_row(where(estimates, method=method, n=ABLATED), method) for method in methods]
    return Table(
        f"All metrics at N = {ABLATED}, mean ± standard deviation over rows: {networks.title}",
        ("method", *METRICS.values(), "median error"),
        tuple(rows),
        notes=("Over the rows of all rounds and networks.",),
        open=False,
    )


def _metrics_row(estimates: pa.Table, method: str) -> tuple[str, ...]:
    summaries = {metric: metric_summary(column(estimates, metric)) for metric in METRICS}
    cells = (f"{each.mean:.4f} ± {each.std:.4f}" for each in summaries.values())
    return (f"`{method}`", *cells, f"{summaries['absolute_error'].median:.4f}")


# Speed


def throughputs(timings: pa.Table, way: str) -> Table:
    """Return the rows a second of every method on one data set, beside the authors'."""
    name = values_of(timings, "dataset")[0]
    timings = where(timings, way=way)
    n, _ = speeds(where(timings, method="shear"))
    shared = [number for number in n.tolist() if number in _published_speeds(name, "shear")]
    methods = [
        method for method in values_of(timings, "method") if method not in (FORWARD, DERIVATIVES)
    ]
    rows = []
    for method in methods:
        ours = _speed_cells(where(timings, method=method), n.tolist())
        published = _published_over_shear(name, method, shared)
        rows.append((f"`{_library_name(method)}`", *ours, *published))

    repeats = len(values_of(timings, "round"))
    note = "The authors measured on an Apple M1, one row at a time, without derivatives."
    return Table(
        f"Rows explained in a second on {name}, {way}",
        (
            "method",
            *(f"N = {number}" for number in n.tolist()),
            *(f"published, N = {number}" for number in shared),
        ),
        tuple(rows),
        notes=(
            f"Medians of {repeats} repeats, in which all methods take turns; in brackets the first "
            "and the last tenth. Beside published ones, in brackets, their ratio to SHEAR's.",
            *([note] if shared else []),
        ),
        open=False,
    )


def _speed_cells(timings: pa.Table, numbers: Sequence[int]) -> list[str]:
    """Return the median rows a second at each N, with the first and the last tenth."""
    n, tenths = speed_tenths(timings)
    by_n = dict(zip(n.tolist(), tenths.tolist(), strict=True))
    cells = []
    for number in numbers:
        if number in by_n:
            low, median, high = by_n[number]
            cells.append(f"{median:,.0f} ({low:,.0f}-{high:,.0f})")
        else:
            cells.append(MISSING)
    return cells


def _published_over_shear(dataset: str, method: str, n: Sequence[int]) -> list[str]:
    """Return the same of the authors' released numbers."""
    own = _published_speeds(dataset, method)
    shear = _published_speeds(dataset, "shear")
    return [
        f"{own[number]:.0f} ({own[number] / shear[number]:.2f})" if number in own else MISSING
        for number in n
    ]


def _published_speeds(dataset: str, method: str) -> dict[int, float]:
    return published_curve(dataset, method, "rows_per_s")


def costs(timings: pa.Table, way: str) -> Table:
    """Return the cost model beside the measured time of SHEAR on one data set."""
    name = values_of(timings, "dataset")[0]
    timings = where(timings, way=way)
    seconds = cost(timings)
    intervals = cost_ratios(timings)
    return Table(
        f"SHEAR's time for one row on {name}, {way}, in milliseconds",
        (
            "N",
            "t_backward",
            "N t_forward",
            "model",
            "measured",
            "measured / model",
            "t_backward / measured",
        ),
        tuple(
            _cost_row(seconds, place, Number(intervals[int(n)], ""))
            for place, n in enumerate(seconds.n)
        ),
        notes=(
            "t_backward is the time of all derivative passes of the selection, one backward pass "
            "for each feature. There are N forward passes for each feature. The interval is over "
            "repeats.",
        ),
        open=False,
    )


def _cost_row(seconds: Cost, place: int, ratio: Number) -> tuple[str, ...]:
    backward = seconds.backward
    forward = seconds.forward[place]
    predicted = seconds.predicted[place]
    measured = seconds.measured[place]
    milliseconds = (f"{1e3 * part:.3f}" for part in (backward, forward, predicted, measured))
    return (
        str(seconds.n[place]),
        *milliseconds,
        str(ratio),
        f"{backward / measured:.0%}",
    )


def _library_name(method: str) -> str:
    """Return what the library calls a method: its name, or the instance."""
    if method == "shear-authors":
        return 'Shear(interaction="block-maximum")'
    return method


# Markdown


def markdown(table: Table) -> str:
    """Return a table as Markdown, its best cells in bold."""
    alignment = ["---" if place < table.left else "---:" for place in range(len(table.columns))]
    rows = [_markdown_row(table, place) for place in range(len(table.rows))]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in (table.columns, alignment, *rows))
    return "\n\n".join((f"### {table.caption}", lines, *table.notes)) + "\n"


def _markdown_row(table: Table, row: int) -> list[str]:
    """Return the cells of a row; a bar in a cell would begin a new column."""
    cells = [text.replace("|", "\\|") for text in table.rows[row]]
    for place, cell in enumerate(cells):
        if (row, place) in table.emphasis:
            cells[place] = f"**{cell}**"
    return cells
