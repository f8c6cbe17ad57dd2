"""The sections of the reproduction's page: their words, figures and tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments import figures
from shearshap.paper.experiments import paper_tables as tables
from shearshap.paper.experiments.figures import Drawing
from shearshap.paper.experiments.findings import findings_table
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.spec import ABLATED, Protocol
from shearshap.paper.experiments.summaries import METRICS, protocols_of, values_of
from shearshap.report import Figure, Panel, Section, Table, inline

ByDataset = Mapping[str, Records]  #: the records of each data set, by its name

PROTOCOL_TITLES: dict[Protocol, str] = {
    "paper": "paper: as the appendix describes it",
    "authors": "paper: as the authors ran it",
    "fair": "fair: each method at its best",
}


# What agrees


def summary(datasets: ByDataset) -> Section:
    """Return the findings on each data set."""
    return Section(
        "summary",
        "What agrees, and what does not",
        (
            "Each line compares a claim of the paper with the records below.",
            "The authors released numbers for census and for bank, which the paper calls German "
            "Credit. The paper's own figures of faithfulness and monotonicity cannot be compared: "
            "its released code does not compute its formulas, and the formulas are what is "
            "computed here.",
        ),
        tables=tuple(findings_table(records, name) for name, records in datasets.items()),
    )


# RQ1 and RQ2: metrics


def error(datasets: ByDataset) -> Section:
    """Return RQ1: absolute error and ranking accuracy."""
    metrics = ("absolute_error", "ranking_accuracy")
    every: list[Table] = []
    for name, records in datasets.items():
        every += _error_tables(records, name, metrics)
    return Section(
        "rq1",
        "RQ1: how close to the exact Shapley values",
        (
            "Absolute error is the sum over features of |φ - φ̂|; ranking accuracy ranks the "
            "signed values, and counts rank m with weight 1/m. The axis of accuracies is "
            "stretched near 1. Bars are standard deviations over rounds. The rows of a round "
            "share their random draws, which makes the bars wider than separate draws would.",
        ),
        figures=tuple(
            _metric_figure(records, metrics, f"Figure 2: {name}", f"rq1-{name}")
            for name, records in datasets.items()
        ),
        tables=tuple(every),
    )


def _error_tables(records: Records, name: str, metrics: Iterable[str]) -> list[Table]:
    """Return the tables of one data set: beside the released numbers, then by protocol."""
    estimates = records["estimates"]
    protocols = protocols_of(estimates)
    every = [
        tables.shear_beside_published(estimates, records["models"], "shear"),
        tables.shear_beside_published(estimates, records["models"], "shear-authors"),
    ]
    for protocol, methods in protocols.items():
        for metric in metrics:
            caption = f"{METRICS[metric].capitalize()} on {name}, {PROTOCOL_TITLES[protocol]}"
            every.append(tables.comparison(estimates, records["timings"], methods, metric, caption))
    every.append(tables.beside_published(estimates, protocols.get("authors", [])))
    return [table for table in every if table is not None]


def faithfulness(datasets: ByDataset) -> Section:
    """Return RQ2: faithfulness and monotonicity."""
    metrics = ("faithfulness", "monotonicity")
    return Section(
        "rq2",
        "RQ2: how faithful to the model",
        (
            "Faithfulness is the correlation between the values and the change of the prediction "
            "when each feature alone is left out. Monotonicity is how often a feature, added to "
            "those ranked above it, gains at least as much as the next one.",
            "The exact Shapley values have scores of their own, below 1: the dotted line. A "
            "method above that line is not better than the exact values, but wrong in a way that "
            "these metrics reward.",
        ),
        figures=tuple(
            _metric_figure(records, metrics, f"Figure 3: {name}", f"rq2-{name}")
            for name, records in datasets.items()
        ),
        tables=tuple(_over_rows(records["estimates"]) for records in datasets.values()),
    )


def _over_rows(estimates: pa.Table) -> Table:
    methods = values_of(where(estimates, n=ABLATED), "method")
    return tables.over_rows(estimates, methods)


def _metric_figure(records: Records, metrics: Iterable[str], title: str, salt: str) -> Figure:
    """Return a panel for each metric and protocol of one data set."""
    estimates = records["estimates"]
    panels = []
    for metric in metrics:
        for protocol, methods in protocols_of(estimates).items():
            drawing = figures.metric_curves(estimates, metric, methods)
            panel_title = f"{METRICS[metric].capitalize()}, {PROTOCOL_TITLES[protocol]}"
            panels.append(_panel(panel_title, drawing, f"{salt}-{metric}-{protocol}"))
    return Figure(
        title,
        tuple(panels),
        "Mean over rows, rounds and networks, with standard deviations over rounds.",
    )


# RQ3: speed


def speed(datasets: ByDataset) -> Section:
    """Return RQ3: accuracy against throughput."""
    every: list[Table] = []
    for records in datasets.values():
        every.append(tables.throughputs(records["timings"]))
        every.append(tables.costs(records["timings"]))
    return Section(
        "rq3",
        "RQ3: how fast",
        (
            "Times are medians of several runs on the first network, after a short run to warm "
            f"up. All rows are explained at once ({_timed_rows(datasets)}). With more rows, every "
            "method explains more of them in a second; kriging gains most.",
        ),
        figures=tuple(_trade_off_figure(records, name) for name, records in datasets.items()),
        tables=tuple(every),
    )


def _trade_off_figure(records: Records, name: str) -> Figure:
    panels = []
    for protocol, methods in protocols_of(records["estimates"]).items():
        drawing = figures.trade_off(records["estimates"], records["timings"], methods)
        panels.append(_panel(PROTOCOL_TITLES[protocol], drawing, f"rq3-{name}-{protocol}"))
    return Figure(
        f"Figure 4 a-c: {name}",
        tuple(panels),
        "Ranking accuracy against rows explained in a second, one mark for each N. The time "
        "includes derivatives, selection and planning; every method explains all rows at once, in "
        "one process.",
    )


def _timed_rows(datasets: ByDataset) -> str:
    """Return "400 of census, 150 of bank"."""
    parts = []
    for name, records in datasets.items():
        rows = values_of(records["timings"], "rows")[0]
        parts.append(f"{rows} of {name}")
    return ", ".join(parts)


# RQ4: the parts of SHEAR


def parts(datasets: ByDataset) -> Section:
    """Return RQ4: ablations and cooperators."""
    every: list[Figure] = []
    for name, records in datasets.items():
        every.append(_ablation_figure(records["estimates"], name))
        every.append(_cooperator_figure(records["cooperators"], name))
    return Section("rq4", "RQ4: what the parts of SHEAR contribute", (), figures=tuple(every))


def _ablation_figure(estimates: pa.Table, name: str) -> Figure:
    panels = []
    for metric, words in METRICS.items():
        drawing = figures.ablation(estimates, metric)
        panels.append(_panel(words.capitalize(), drawing, f"rq4-{name}-{metric}"))
    return Figure(
        f"Figure 4 d: {name}, ablations at N = {ABLATED}",
        tuple(panels),
        "SHEAR as it is, without antithetical sampling (AS), without contributive cooperator "
        "selection (CCS), and without either. The paper has no bar for the last.",
        key=False,
    )


def _cooperator_figure(cooperators: pa.Table, name: str) -> Figure:
    cloud = figures.contribution_cloud(cooperators)
    by_feature = figures.contribution_by_feature(cooperators)
    curves = figures.cooperator_curves(cooperators)
    return Figure(
        f"Figure 4 e and f: {name}, cooperators",
        (
            _panel("All features together", cloud, f"rq4-{name}-cloud"),
            _panel("One feature at a time", by_feature, f"rq4-{name}-feature"),
            _panel("More cooperators", curves, f"rq4-{name}-curves"),
        ),
        "Errors |φᵢ(U) - φᵢ(S + i)| of one feature of every row, when only the cooperators S "
        "play. The feature is drawn at random from those whose value is not zero. "
        f"N = {ABLATED} in the first two panels, with quartiles in the second. The last panel "
        "stops before S holds all features, where nothing is lost.",
        key=False,
    )


# One row


def illustration(records: Records) -> Section | None:
    """Return one row explained, of census if it was run; None where no row was illustrated."""
    row = _illustrated_row(records["illustration"])
    if not len(row):
        return None
    first = row.to_pylist()[0]
    drawing = figures.explanation(row)
    panel = _panel(f"SHEAR at N = {ABLATED} beside the exact values", drawing, "illustration")
    return Section(
        "illustration",
        "Illustration: one row",
        (_row_text(row), _paper_row_text(row)),
        figures=(
            Figure(
                "The appendix's figure",
                (panel,),
                f"Base value {first['base_value']:+.3f}, prediction f₁ - f₀ = "
                f"{first['prediction']:+.3f}.",
                key=False,
            ),
        ),
    )


def _illustrated_row(every: pa.Table) -> pa.Table:
    """Return the features of the first row of census, or else of the first data set."""
    census = where(every, dataset="census")
    candidates = census if len(census) else every
    if not len(candidates):
        return candidates
    first = candidates.to_pylist()[0]
    return where(candidates, dataset=first["dataset"], seed=first["seed"])


def _row_text(row: pa.Table) -> str:
    first = row.to_pylist()[0]
    base = first["base_value"]
    prediction = first["prediction"]
    total = prediction - base
    gap = total - float(column(row, "shear").sum())
    return (
        f"This is row {first['row']} of {first['dataset']}, whose f₁ - f₀ of {prediction:+.3f} is "
        "nearest to the paper's +1.73 among the rows explained. The base value is "
        f"{base:+.3f}, so the values should add up to {total:+.3f}. SHEAR's values, from "
        f"{first['evaluations']} evaluations, leave a gap of {gap:+.4f}."
    )


def _paper_row_text(row: pa.Table) -> str:
    return (
        "In the paper's row, education, marital-status and occupation have the largest values, sex "
        "has a positive value for a man, and the base value is -1.88. Here "
        f"{listed(_largest(row))} have the largest values, and {_sex(row)}."
    )


def _largest(row: pa.Table) -> list[str]:
    """Return the three features with the largest values."""
    order = np.argsort(-column(row, "exact"), kind="stable")[:3]
    features = row["feature"].to_pylist()
    return [features[place] for place in order]


def _sex(row: pa.Table) -> str:
    """Return the value of the row's sex, in words."""
    for feature in row.to_pylist():
        if feature["feature"] == "sex":
            return f"sex ({feature['value']}) has {feature['exact']:+.3f}"
    return "there is no feature sex"


# Theory


def theory(datasets: ByDataset) -> Section:
    """Return how tight Theorem 2 is, and the cost model beside measured times."""
    return Section(
        "theory",
        "Theory: how tight Theorem 2 is, and what SHEAR costs",
        (
            "The paper states the bound, which leaves out a remainder, and the cost model, but "
            "measures neither.",
        ),
        figures=tuple(_theory_figure(records, name) for name, records in datasets.items()),
    )


def _theory_figure(records: Records, name: str) -> Figure:
    bounds = records["bounds"]
    cost = _panel("The cost model", figures.cost_model(records["timings"]), f"theory-{name}-cost")
    title = f"Theorem 2 and the cost model: {name}"
    if not len(bounds):
        return Figure(
            title,
            (cost,),
            "The time for one row. Theorem 2's bound needs derivatives at all coalitions, and is "
            "left out here: there are too many features.",
            key=False,
        )
    tightness = figures.tightness(bounds)
    cloud = figures.bound_cloud(bounds)
    return Figure(
        title,
        (
            _panel("How much of the bound is used", tightness, f"theory-{name}-tightness"),
            _panel("Loss against bound", cloud, f"theory-{name}-cloud"),
            cost,
        ),
        "First the loss |φᵢ(U) - φᵢ(U - j)| over Theorem 2's bound on it, for pairs of features; "
        "ratios above 1.25 are counted at the right edge. Then the same losses against their "
        "bounds, and the time for one row.",
        key=False,
    )


# Set-up and reading


def setup(records: Records) -> Section:
    """Return the data sets, the networks and their ground truth."""
    return Section(
        "setup",
        "Data, networks and ground truth as they are",
        (
            "What the paper calls German Credit is UCI Bank Marketing: its split sizes give it "
            "away. The data set that it names, Statlog German Credit, is `german` here.",
            "Criteo's data may not be passed on, and the authors released nothing for it. Its 39 "
            "features make 2³⁹ coalitions, so the exact values that the paper mentions cannot "
            "have been computed as described. `criteo-synthetic` is made-up data with the same "
            "schema. Its ground truth is estimated and has an error of its own: an error measured "
            "close to that one is no longer the method's.",
        ),
        tables=(tables.datasets(records["models"]), tables.hyperparameters(records["models"])),
    )


READING = (
    "**Blocks.** The paper does not discuss one-hot blocks. Here a feature owns its whole block, "
    "and cross-contribution is the Hessian in the space of features. The authors take the largest "
    "entry over pairs of columns, which the figures call SHEAR block maximum.",
    "**Networks.** 64-64 with softplus, which the paper does not say. With ReLU the Hessian, and "
    "so the cross-contribution, would be zero almost everywhere.",
    "**KS and KS-Pair.** The appendix prints a regression weighted by the kernel, without the "
    "constraint that values add up, and does not say how coalitions are drawn; here its reading "
    "draws them uniformly. The released numbers agree with a regression that has the constraint, "
    "on coalitions drawn from the kernel. At small N the regressions are singular: the authors' "
    "values are then zero or huge, and ours are the least-norm solution.",
    "**KS-WF.** The appendix prints f(U) - f(0) where f(S) - f(0) is meant, and says that all "
    "kernel methods run M loops of N coalitions. A running mean over all of them is one regression "
    "on N M coalitions, and that is what is run.",
    "**PS and APS.** The appendix describes N random coalitions for each feature. Their "
    "differences would take 2 N evaluations, so N / 2 coalitions are drawn here. The released "
    "numbers are those of N whole permutations, two of which APS leaves unpaired.",
    "**SHEAR.** It is biased, because its background coalitions include each feature with "
    "probability 1/2. SHEAR unbiased draws that probability, so that it is not biased.",
)


def reading() -> Section:
    """Return how the paper was read where it leaves a choice."""
    return Section("reading", "How the paper was read", READING)


# Helpers


def _panel(title: str, drawing: Drawing, salt: str) -> Panel:
    svg = inline(
        drawing.figure, alt=drawing.alt, titles=drawing.titles, salt=salt.replace("_", "-")
    )
    return Panel(title, svg)


def listed(items: Sequence[Any]) -> str:
    """Return "a, b and c"."""
    words = [str(item) for item in items]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
