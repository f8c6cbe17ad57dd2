"""Tables of the records: each function makes one, or none where the records have nothing for it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments.records import column, where
from shearshap.paper.experiments.spec import ABLATED
from shearshap.paper.experiments.studies import DERIVATIVES, FORWARD
from shearshap.paper.experiments.style import label_of
from shearshap.paper.experiments.summaries import (
    METRICS,
    Cost,
    Curve,
    cost,
    curve,
    median,
    published_curve,
    published_size,
    sizes_of,
    speeds,
    values_of,
)
from shearshap.paper.metrics import summary
from shearshap.report import Table

PAPER_NAMES = {"census": "Census Income", "bank": '"German Credit"', "criteo": "Cretio"}
PAPER_SPLITS = {
    "census": (5, 8, 20838, 5210, 6513),
    "bank": (7, 9, 28934, 7234, 9043),
    "criteo": (13, 26, 80000, 10000, 10000),
}  #: continuous, categorical, train, validation, test of the paper's table
PAPER_ACCURACY = {"census": 0.847, "bank": 0.898, "criteo": 0.7109}

SPLIT_COLUMNS = ("continuous", "categorical", "train", "validation", "test")
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
    names = values_of(models, "dataset")
    return Table(
        "Networks, ground truth and accuracy, one number for each network",
        (
            "data set",
            "network",
            "training",
            "background",
            "ground truth",
            "evaluations a row",
            "rows",
            "mean ‖φ‖₁",
            "test accuracy, %",
            "the paper's, %",
            "larger class, %",
        ),
        tuple(_network_row(where(models, dataset=name)) for name in names),
        notes=("Not in the paper: softplus, and gradient norms clipped at 0.1.",),
        left=5,
    )


def _network_row(models: pa.Table) -> tuple[str, ...]:
    """Return the row of one data set, whose networks differ in size and accuracy alone."""
    first = models.to_pylist()[0]
    sizes = " ".join(f"{size:.2f}" for size in column(models, "size"))
    accuracies = " ".join(_percent(accuracy) for accuracy in column(models, "accuracy"))
    printed = PAPER_ACCURACY.get(first["dataset"])
    return (
        first["dataset"],
        f"{first['network']}, {first['hidden']} hidden, {first['activation']}",
        f"Adam {first['learning_rate']:g}, batches of {first['batch_size']}",
        first["background"],
        first["truth"],
        str(first["truth_evaluations"]),
        str(first["rows"]),
        sizes,
        accuracies,
        "" if printed is None else _percent(printed),
        _percent(first["majority"]),
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


# The authors' released numbers


def shear_beside_published(estimates: pa.Table, models: pa.Table, method: str) -> Table | None:
    """Return SHEAR's absolute error on one data set, by network, beside the released numbers."""
    name = values_of(estimates, "dataset")[0]
    published = published_curve(name, method, "ae_mean")
    published_norm = published_size(name)
    own = where(estimates, method=method)
    if not published or published_norm is None or not len(own):
        return None

    sizes = sizes_of(models)
    shared = sorted(set(values_of(own, "n")) & set(published))
    rows = [_published_row(own, n, sizes, published_norm, published[n]) for n in shared]
    norms = ", ".join(f"{size:.3f}" for size in sizes.values())
    return Table(
        f"{label_of(method)}: absolute error on {name}, network by network, beside the authors'",
        (
            "N",
            *(f"network {seed}" for seed in sizes),
            "mean",
            "mean, rescaled",
            "published",
            "difference",
        ),
        tuple(rows),
        notes=(
            f"Rescaled: multiplied by the authors' mean ‖φ‖₁, {published_norm:.3f}, and divided by "
            f"ours ({norms}), because networks differ in how large their values are.",
        ),
    )


def _published_row(
    estimates: pa.Table,
    n: int,
    sizes: Mapping[int, float],
    published_norm: float,
    published: float,
) -> tuple[str, ...]:
    errors = _errors_by_network(estimates, n, sizes)
    scaled = rescaled(estimates, n, sizes, published_norm)
    numbers = (*errors, float(np.mean(errors)), scaled, published)
    cells = (f"{number:.4f}" for number in numbers)
    return (str(n), *cells, f"{scaled / published - 1:+.0%}")


def rescaled(estimates: pa.Table, n: int, sizes: Mapping[int, float], size: float) -> float:
    """Return the mean absolute error of one method at n, rescaled to another mean |phi|_1.

    `sizes` are the networks' own, by seed; `size` is what they are rescaled to.
    """
    error = np.mean(_errors_by_network(estimates, n, sizes))
    return float(error * size / np.mean(list(sizes.values())))


def _errors_by_network(estimates: pa.Table, n: int, seeds: Mapping[int, float]) -> list[float]:
    runs = [where(estimates, n=n, seed=seed) for seed in seeds]
    return [curve(run, "absolute_error").mean[0] for run in runs]


def beside_published(estimates: pa.Table, methods: Sequence[str]) -> Table | None:
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


def comparison(
    estimates: pa.Table, timings: pa.Table, methods: Sequence[str], metric: str, caption: str
) -> Table:
    """Return a metric of all methods on one data set by evaluations, the best in bold.

    The last columns are what the methods spend.
    """
    curves = {method: curve(where(estimates, method=method), metric) for method in methods}
    rows = []
    for method, measured in curves.items():
        spent = _spent(where(estimates, method=method, n=ABLATED))
        speed = _speed(where(timings, method=method))
        rows.append((label_of(method), *_means(measured), *spent, speed))

    n = sorted(values_of(where(estimates, method=methods[0]), "n"))
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
        emphasis=_best_cells(list(curves.values()), metric),
        open=metric == "absolute_error",
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


def _best_cells(curves: Sequence[Curve], metric: str) -> frozenset[tuple[int, int]]:
    """Return the (row, column) of the best mean at each N; the first column is the method."""
    means = np.array([measured.mean for measured in curves])
    best = means.argmin(axis=0) if metric == "absolute_error" else means.argmax(axis=0)
    return frozenset((row, 1 + place) for place, row in enumerate(best.tolist()))


def _comparison_note(metric: str) -> str:
    return (
        f"{METRICS[metric].capitalize()}: mean ± standard deviation over rounds of the mean over "
        f"rows. The last columns are for N = {ABLATED}. The evaluations of a row include its base "
        "value and prediction; its derivative passes are not among them."
    )


def over_rows(estimates: pa.Table, methods: Sequence[str]) -> Table:
    """Return all four metrics of all methods on one data set at N = 16, over rows."""
    name = values_of(estimates, "dataset")[0]
    rows = [_metrics_row(where(estimates, method=method, n=ABLATED), method) for method in methods]
    return Table(
        f"All metrics on {name} at N = {ABLATED}: mean ± standard deviation over rows",
        ("method", *METRICS.values(), "median error"),
        tuple(rows),
        notes=("Over the rows of all rounds and networks.",),
        open=False,
    )


def _metrics_row(estimates: pa.Table, method: str) -> tuple[str, ...]:
    summaries = {metric: summary(column(estimates, metric)) for metric in METRICS}
    cells = (f"{each.mean:.4f} ± {each.std:.4f}" for each in summaries.values())
    return (f"`{method}`", *cells, f"{summaries['absolute_error'].median:.4f}")


# Speed


def throughputs(timings: pa.Table) -> Table:
    """Return the rows a second of every method on one data set, beside the authors'."""
    name = values_of(timings, "dataset")[0]
    n, _ = speeds(where(timings, method="shear"))
    shared = [number for number in n.tolist() if number in _published_speeds(name, "shear")]
    methods = [
        method for method in values_of(timings, "method") if method not in (FORWARD, DERIVATIVES)
    ]
    rows = []
    for method in methods:
        ours = _speeds_over_shear(timings, method)
        published = _published_over_shear(name, method, shared)
        rows.append((f"`{_library_name(method)}`", *ours, *published))

    note = "The authors measured on an Apple M1, one row at a time, without derivatives."
    return Table(
        f"Rows explained in a second on {name}, and relative to SHEAR",
        (
            "method",
            *(f"N = {number}" for number in n.tolist()),
            *(f"published, N = {number}" for number in shared),
        ),
        tuple(rows),
        notes=(note,) if shared else (),
        open=False,
    )


def _speeds_over_shear(timings: pa.Table, method: str) -> list[str]:
    """Return the rows a second of a method at each N, and over SHEAR's in brackets."""
    _, own = speeds(where(timings, method=method))
    _, shear = speeds(where(timings, method="shear"))
    pairs = zip(own, shear, strict=True)
    return [f"{speed:,.0f} ({speed / base:.2f})" for speed, base in pairs]


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


def costs(timings: pa.Table) -> Table:
    """Return the cost model beside the measured time of SHEAR on one data set."""
    name = values_of(timings, "dataset")[0]
    seconds = cost(timings)
    return Table(
        f"SHEAR's time for one row on {name}, in milliseconds",
        (
            "N",
            "t_backward",
            "N t_forward",
            "model",
            "measured",
            "measured / model",
            "t_backward / measured",
        ),
        tuple(_cost_row(seconds, place) for place in range(len(seconds.n))),
        notes=(
            "t_backward is the time of all derivative passes of the selection, one backward pass "
            "for each feature. There are N forward passes for each feature.",
        ),
        open=False,
    )


def _cost_row(seconds: Cost, place: int) -> tuple[str, ...]:
    backward = seconds.backward
    forward = seconds.forward[place]
    predicted = seconds.predicted[place]
    measured = seconds.measured[place]
    milliseconds = (f"{1e3 * part:.3f}" for part in (backward, forward, predicted, measured))
    return (
        str(seconds.n[place]),
        *milliseconds,
        f"{measured / predicted:.2f}",
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
