"""Tables: each a function of records."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments.records import column, where
from shearshap.paper.experiments.spec import ABLATED
from shearshap.paper.experiments.studies import DERIVATIVES, FORWARD
from shearshap.paper.experiments.style import look
from shearshap.paper.experiments.summaries import (
    METRICS,
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


def datasets(models: pa.Table) -> Table:
    """Return the data sets as they are, beside what the paper's table says."""
    rows = []
    for name in values_of(models, "dataset"):
        first = where(models, dataset=name).to_pylist()[0]
        found = tuple(
            first[key] for key in ("continuous", "categorical", "train", "validation", "test")
        )
        printed = PAPER_SPLITS.get(name)
        differs = "not in the paper" if printed is None else "/".join(map(str, printed))
        says = "the same" if printed == found else differs
        rows.append(
            (
                name,
                PAPER_NAMES.get(name, "none"),
                first["title"],
                *map(str, found),
                str(first["inputs"]),
                says,
            )
        )
    return Table(
        "The data sets as they are",
        (
            "data set", "the paper's name", "what it is", "numbers", "categories", "train", "validation", "test",
            "inputs", "the paper's table",
        ),
        tuple(rows),
        left=3,
    )  # fmt: skip


def hyperparameters(models: pa.Table) -> Table:
    """Return the networks, how they were trained and how good they are."""
    rows = []
    for name in values_of(models, "dataset"):
        every = where(models, dataset=name)
        first = every.to_pylist()[0]
        accuracy = " ".join(f"{100 * value:.1f}" for value in column(every, "accuracy"))
        size = " ".join(f"{value:.2f}" for value in column(every, "size"))
        printed = PAPER_ACCURACY.get(name)
        rows.append(
            (
                name, f"{first['network']}, {first['hidden']} hidden, {first['activation']}",
                f"Adam {first['learning_rate']:g}, batches of {first['batch_size']}", first["reference"],
                first["truth"], str(first["truth_evaluations"]), str(first["rows"]), size, accuracy,
                "" if printed is None else f"{100 * printed:.1f}", f"{100 * first['majority']:.1f}",
            )
        )  # fmt: skip
    return Table(
        "Networks, ground truth and accuracy, one number for each network",
        (
            "data set", "network", "training", "reference", "ground truth", "evaluations a row", "rows", "mean ‖φ‖₁",
            "test accuracy, %", "the paper's, %", "larger class, %",
        ),
        tuple(rows),
        notes=("Not in the paper: softplus, and gradient norms clipped at 0.1.",),
        left=5,
    )  # fmt: skip


def shear_beside_published(estimates: pa.Table, models: pa.Table, method: str) -> Table | None:
    """Return SHEAR's absolute error on one data set, network by network, beside the released
    numbers.
    """
    name = values_of(estimates, "dataset")[0]
    theirs, size = published_curve(name, method, "ae_mean"), published_size(name)
    mine = where(estimates, method=method)
    if not theirs or size is None or not len(mine):
        return None
    sizes = sizes_of(models)
    rows = []
    for n in sorted(set(values_of(mine, "n")) & set(theirs)):
        each = [curve(where(mine, n=n, seed=seed), "absolute_error").mean[0] for seed in sizes]
        mean, scaled = float(np.mean(each)), rescaled(mine, n, sizes, size)
        numbers = (f"{one:.4f}" for one in (*each, mean, scaled, theirs[n]))
        rows.append((str(n), *numbers, f"{scaled / theirs[n] - 1:+.0%}"))
    networks = tuple(f"network {seed}" for seed in sizes)
    return Table(
        f"{look(method).label}: absolute error on {name}, network by network, beside the authors'",
        ("N", *networks, "mean", "mean, rescaled", "published", "difference"),
        tuple(rows),
        notes=(
            f"Rescaled: times the authors' mean ‖φ‖₁, {size:.3f}, over ours "
            f"({', '.join(f'{one:.3f}' for one in sizes.values())}): networks differ in how large "
            "their shares are.",
        ),
    )


def rescaled(estimates: pa.Table, n: int, sizes: dict[int, float], size: float) -> float:
    """Return the mean absolute error at n of one method, times `size` over the networks' mean
    |phi|_1.
    """
    own = np.mean(
        [curve(where(estimates, n=n, seed=seed), "absolute_error").mean[0] for seed in sizes]
    )
    return float(own * size / np.mean(list(sizes.values())))


def beside_published(estimates: pa.Table, methods: Sequence[str]) -> Table | None:
    """Return all methods that the authors released numbers of, run as they ran them, beside those
    numbers.
    """
    name = values_of(estimates, "dataset")[0]
    rows = []
    for method in methods:
        columns = {
            key: published_curve(name, method, key) for key in ("ae_mean", "ae_median", "acc")
        }
        mine = where(estimates, method=method)
        error, accuracy = curve(mine, "absolute_error"), curve(mine, "ranking_accuracy")
        for place, n in enumerate(error.n.tolist()):
            if n in columns["ae_median"]:
                theirs = {
                    key: f"{values[n]:.{3 if key == 'acc' else 4}f}" if n in values else "-"
                    for key, values in columns.items()
                }
                rows.append(
                    (look(method).label, str(n), f"{error.mean[place]:.4f}", theirs["ae_mean"],
                     f"{median(mine, 'absolute_error', n):.4f}", theirs["ae_median"],
                     f"{accuracy.mean[place]:.3f}", theirs["acc"])
                )  # fmt: skip
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


def comparison(
    estimates: pa.Table, timings: pa.Table, methods: Sequence[str], metric: str, caption: str
) -> Table:
    """Return a metric of all methods on one data set by evaluations, with what they spend, the best
    in bold.
    """
    every = sorted(values_of(where(estimates, method=methods[0]), "n"))
    curves = [curve(where(estimates, method=method), metric) for method in methods]
    best = np.argmin if metric == "absolute_error" else np.argmax
    means = np.array([found.mean for found in curves])
    rows = [
        (
            look(method).label,
            *(
                _mean(mean, deviation)
                for mean, deviation in zip(found.mean, found.deviation, strict=True)
            ),
            *_spent(where(estimates, method=method, n=ABLATED)),
            _speed(where(timings, method=method)),
        )
        for method, found in zip(methods, curves, strict=True)
    ]
    names = ", ".join(f"{look(method).label} is `{_called(method)}`" for method in methods)
    return Table(
        caption,
        (
            "method",
            *(f"N = {n}" for n in every),
            "evaluations",
            "derivative passes",
            "rows a second",
        ),
        tuple(rows),
        notes=(
            f"{METRICS[metric].capitalize()}: mean ± standard deviation over rounds of the mean "
            "over rows. The last "
            f"columns are for N = {ABLATED}; derivative passes of a row come on top of its "
            "evaluations, base value and "
            "prediction included.",
            f"In the library: {names}.",
        ),
        emphasis=frozenset((int(best(means[:, place])), 1 + place) for place in range(len(every))),
        open=metric == "absolute_error",
    )


def over_rows(estimates: pa.Table, methods: Sequence[str]) -> Table:
    """Return all four metrics of all methods on one data set at N = 16, as the paper reports them:
    over rows.
    """
    rows = []
    for method in methods:
        found = where(estimates, method=method, n=ABLATED)
        each = [summary(column(found, metric)) for metric in METRICS]
        rows.append(
            (
                f"`{method}`",
                *(f"{one.mean:.4f} ± {one.std:.4f}" for one in each),
                f"{each[0].median:.4f}",
            )
        )
    return Table(
        f"All metrics on {values_of(estimates, 'dataset')[0]} at N = {ABLATED}: mean ± standard "
        "deviation over rows",
        ("method", *METRICS.values(), "median error"),
        tuple(rows),
        notes=("Over the rows of all rounds and networks.",),
        open=False,
    )


def _called(method: str) -> str:
    """Return how the library calls a method: its name, or the instance."""
    return 'Shear(interaction="block-maximum")' if method == "shear-authors" else method


def _spent(estimates: pa.Table) -> tuple[str, str]:
    """Return the evaluations and the derivative passes of a row."""
    return str(column(estimates, "evaluations").max()), str(
        column(estimates, "derivative_passes").max()
    )


def _mean(mean: float, deviation: float) -> str:
    """Return a mean to three digits, and its deviation to the same place."""
    if 0 < mean < 1e-3:
        return f"{mean:.1e} ± {deviation:.0e}"
    digits = 3 if mean >= 0.1 else 4
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _speed(timings: pa.Table) -> str:
    n, rows = speeds(timings)
    return f"{rows[n == ABLATED][0]:,.0f}" if ABLATED in n else "-"


def throughputs(timings: pa.Table) -> Table:
    """Return rows a second of every method on one data set, and over SHEAR's, beside the authors'."""
    name = values_of(timings, "dataset")[0]
    methods = [
        method for method in values_of(timings, "method") if method not in (FORWARD, DERIVATIVES)
    ]
    every, shear = speeds(where(timings, method="shear"))
    theirs = {method: published_curve(name, method, "rows_per_s") for method in methods}
    shown = [n for n in every.tolist() if n in theirs["shear"]]
    rows = []
    for method in methods:
        own = speeds(where(timings, method=method))[1]
        ours = (f"{one:,.0f} ({one / base:.2f})" for one, base in zip(own, shear, strict=True))
        published = (
            f"{theirs[method][n]:.0f} ({theirs[method][n] / theirs['shear'][n]:.2f})"
            if n in theirs[method]
            else "-"
            for n in shown
        )
        rows.append((f"`{_called(method)}`", *ours, *published))
    return Table(
        f"Rows explained in a second on {name}, and over SHEAR's",
        ("method", *(f"N = {n}" for n in every.tolist()), *(f"published, N = {n}" for n in shown)),
        tuple(rows),
        notes=("The authors' times are of an Apple M1, one row at a time, without derivatives.",)
        if shown
        else (),
        open=False,
    )


def costs(timings: pa.Table) -> Table:
    """Return the cost model beside the measured time of SHEAR on one data set."""
    found = cost(timings)
    rows = []
    for n, forward, predicted, measured in zip(
        found.n, found.forward, found.predicted, found.measured, strict=True
    ):
        milliseconds = (
            f"{1e3 * one:.3f}" for one in (found.backward, forward, predicted, measured)
        )
        rows.append(
            (
                str(n),
                *milliseconds,
                f"{measured / predicted:.2f}",
                f"{found.backward / measured:.0%}",
            )
        )
    return Table(
        f"SHEAR's time for one row on {values_of(timings, 'dataset')[0]}, in milliseconds",
        (
            "N",
            "t_backward",
            "N t_forward",
            "model",
            "measured",
            "measured / model",
            "derivatives' part",
        ),
        tuple(rows),
        notes=(
            "t_backward is all derivative passes of the selection, one backward for each feature; "
            "forward passes are N "
            "for each feature.",
        ),
        open=False,
    )


def markdown(table: Table) -> str:
    """Return a table as Markdown, its best cells in bold."""
    aligned = ["---" if place < table.left else "---:" for place in range(len(table.columns))]
    escaped = [[text.replace("|", "\\|") for text in row] for row in table.rows]
    rows = [
        [f"**{text}**" if (i, j) in table.emphasis else text for j, text in enumerate(row)]
        for i, row in enumerate(escaped)
    ]
    lines = "\n".join(f"| {' | '.join(line)} |" for line in (table.columns, aligned, *rows))
    return "\n\n".join((f"### {table.caption}", lines, *table.notes)) + "\n"
