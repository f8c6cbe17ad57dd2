"""The sections of the reproduction's page: their words, figures and tables."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.report import Figure, Panel, Section, Table
from shearshap_lab.experiments import figures
from shearshap_lab.experiments import paper_tables as tables
from shearshap_lab.experiments.bootstrap import RATIO_MARGIN, SCORE_MARGIN
from shearshap_lab.experiments.figures import Drawing
from shearshap_lab.experiments.findings import Finding, Number
from shearshap_lab.experiments.findings.comparing import compare, rivals_of
from shearshap_lab.experiments.findings.finding import READING_NAMES, READING_WORDS, leading
from shearshap_lab.experiments.findings.parts import GRID, ablated, selection_worth
from shearshap_lab.experiments.records import Records, column, where
from shearshap_lab.experiments.spec import ABLATED, Protocol
from shearshap_lab.experiments.style import series_of
from shearshap_lab.experiments.summaries import (
    METRICS,
    RECIPE_WORDS,
    Networks,
    illustrated,
    protocols_of,
    random_cooperators,
    timed_ways,
    values_of,
)
from shearshap_lab.svg import inline

PANELS: dict[str, str] = {
    "appendix": "as the appendix describes it: PS and APS by prefixes and by coins",
    "authors": "as the authors ran it; dashed: published",
    "fair": "fair: each method at its best",
    "kriging": "fair, with kriging",
}  #: the panels of a figure that compares methods, and their titles

READING_TITLES: dict[Protocol, str] = {
    protocol: f"{READING_NAMES[protocol]}: {words}" for protocol, words in READING_WORDS.items()
}


def panels_of(estimates: pa.Table) -> dict[str, list[str]]:
    """Return the methods of each panel: both readings of the appendix are in one.

    Kriging has a panel of its own beside the best of the others, which it would squeeze.
    """
    protocols = protocols_of(estimates)
    appendix = dict.fromkeys([*protocols.get("paper", []), *protocols.get("paper-coin", [])])
    fair = protocols.get("fair", [])
    beside = ("shear", "kernel-paired", "permutation-antithetic", "kriging")
    every = {
        "appendix": list(appendix),
        "authors": protocols.get("authors", []),
        "fair": [method for method in fair if method != "kriging"],
        "kriging": [method for method in beside if method in fair and "kriging" in fair],
    }
    return {name: methods for name, methods in every.items() if methods}


# The findings


def summary(found: Mapping[str, Finding], every: Sequence[Networks]) -> Section:
    """Return the findings on one screen."""
    return Section(
        "summary",
        "",
        (),
        tables=(tables.summary(found, place_of(every)),),
        notes=(THRESHOLDS,),
    )


def place_of(every: Sequence[Networks]) -> str:
    """Return which networks the numbers of the summary are of."""
    return f"{leading(every).title}, N = {ABLATED}"


THRESHOLDS = (
    "a-b-c: the claim holds in a cases, is undecided in b and fails in c; most cases are a budget "
    "and a baseline, over all data sets. SHEAR **wins** if the whole 95 % interval of the ratio of "
    f"errors is below 1 and the ratio at most {1 - RATIO_MARGIN:g}, **loses** if the reverse is "
    "true, else it is a **tie**; scores are compared by their difference, at least "
    f"{SCORE_MARGIN:g}. Intervals: paired bootstrap over networks, then rows and rounds, and never "
    "narrower than Student's over networks. "
    "Readings: the appendix's PS and APS by prefixes of permutations or by fair coins; as the "
    "authors ran them; fair, each method at its best."
)


def evidence(found: Mapping[str, Finding]) -> Section:
    """Return every claim under each reading on each data set."""
    return Section(
        "evidence",
        "The evidence, claim by claim",
        ("Each claim under every reading, on every data set and both kinds of networks.",),
        tables=tuple(tables.readings(finding) for finding in found.values()),
        open=False,
    )


# RQ1 and RQ2: metrics


def error(every: Sequence[Networks], more: Sequence[Networks]) -> Section:
    """Return RQ1: absolute error and ranking accuracy.

    `more` are networks whose errors stand beside the published ones, and nowhere else.
    """
    metrics = ("absolute_error", "ranking_accuracy")
    shown: list[Table] = []
    for networks in (*every, *more):
        beside = tables.shear_beside_published(networks)
        shown += [beside] if beside else []
    for networks in every:
        shown += _error_tables(networks, metrics)
    return Section(
        "rq1",
        "RQ1: how close to the exact Shapley values (Figure 2)",
        (
            "Absolute error is the sum over features of |φ - φ̂|; ranking accuracy ranks the "
            "signed values, and counts rank m with weight 1/m. The axis of accuracies is "
            "stretched near 1. Bars are standard deviations over rounds. The rows of a round "
            "share their random draws, which makes the bars wider than separate draws would.",
        ),
        figures=tuple(
            _metric_figure(networks, metrics, f"Figure 2: {networks.title}", "rq1")
            for networks in every
        ),
        tables=tuple(shown),
        open=False,
    )


def _error_tables(networks: Networks, metrics: Iterable[str]) -> list[Table]:
    """Return the tables of some networks: by protocol, and beside the released numbers."""
    estimates = networks.records["estimates"]
    protocols = protocols_of(estimates)
    rivals = rivals_of(networks)
    shown: list[Table | None] = []
    for protocol, methods in protocols.items():
        for metric in metrics:
            name = f"{METRICS[metric].capitalize()}, {READING_TITLES[protocol]}"
            shown.append(tables.comparison(networks, methods, metric, f"{name}: {networks.title}"))
            caption = f"SHEAR beside each baseline, {METRICS[metric]}, {READING_NAMES[protocol]}"
            shown.append(
                tables.ratios(networks, rivals[protocol], metric, f"{caption}: {networks.title}")
            )
    shown.append(tables.methods_beside_published(estimates, protocols.get("authors", [])))
    return [table for table in shown if table is not None]


def faithfulness(every: Sequence[Networks], drawn: Sequence[Networks]) -> Section:
    """Return RQ2: faithfulness and monotonicity; figures are of the networks to be drawn."""
    metrics = ("faithfulness", "monotonicity")
    return Section(
        "rq2",
        "RQ2: how faithful to the model (Figure 3)",
        (
            "Faithfulness is the correlation between the values and the change of the prediction "
            "when each feature alone is left out. Monotonicity is how often a feature, added to "
            "those ranked above it, gains at least as much as the next one.",
            "The exact Shapley values have scores of their own, below 1: the dotted line. A "
            "method above that line is not better than the exact values, but wrong in a way that "
            "these metrics reward. The paper's own figures cannot be compared: its released code "
            "does not compute its formulas, and the formulas are what is computed here.",
        ),
        figures=tuple(
            _metric_figure(networks, metrics, f"Figure 3: {networks.title}", "rq2")
            for networks in drawn
        ),
        tables=tuple(_over_rows(networks) for networks in every),
        open=False,
    )


def _over_rows(networks: Networks) -> Table:
    methods = values_of(where(networks.records["estimates"], n=ABLATED), "method")
    return tables.over_rows(networks, methods)


def _metric_figure(networks: Networks, metrics: Iterable[str], title: str, section: str) -> Figure:
    """Return a panel for each metric and kind of comparison."""
    estimates = networks.records["estimates"]
    panels = []
    for metric in metrics:
        for name, methods in panels_of(estimates).items():
            if name == "kriging" and metric != "absolute_error":
                continue
            shown = methods
            if name == "fair" and metric != "absolute_error":
                shown = protocols_of(estimates)["fair"]  # it squeezes nothing here
            published = name == "authors" and section == "rq1"
            drawing = figures.metric_curves(estimates, metric, shown, published=published)
            panel_title = f"{METRICS[metric].capitalize()}, {_panel_title(name, published)}"
            panels.append(
                _panel(panel_title, drawing, f"{section}-{networks.salt}-{metric}-{name}")
            )
    return Figure(
        title,
        tuple(panels),
        "Mean over rows, rounds and networks, with standard deviations over rounds.",
    )


def _panel_title(name: str, published: bool) -> str:
    return PANELS[name] if published else PANELS[name].removesuffix("; dashed: published")


# RQ3: speed


def speed(every: Sequence[Networks]) -> Section | None:
    """Return RQ3: throughput against accuracy, in the paper's way and in batches."""
    by_dataset = {each.dataset: each for each in every if len(each.records["timings"])}
    if not by_dataset:
        return None
    shown: list[Table] = []
    for networks in by_dataset.values():
        timings = networks.records["timings"]
        for way in timed_ways(timings):
            shown.append(tables.throughputs(timings, way))
            shown.append(tables.costs(timings, way))
    return Section(
        "rq3",
        "RQ3: how fast (Figure 4 a-c)",
        (
            "The axes are the paper's: throughput against the accuracy of the ranking. One by one "
            "is the paper's way: one row after the other, and one feature after the other. In a "
            "batch all rows are explained in one call. Methods take turns in each repeat, after a "
            "short run to warm up; marks are medians, bars reach from the first tenth of the "
            f"repeats to the last ({_timed_rows(by_dataset)}). KS is left out, as in the paper. "
            "The time includes derivatives, selection and planning.",
        ),
        figures=tuple(_trade_off_figure(networks) for networks in by_dataset.values()),
        tables=tuple(shown),
        open=False,
    )


def _trade_off_figure(networks: Networks) -> Figure:
    estimates = networks.records["estimates"]
    panels = []
    for way in timed_ways(networks.records["timings"]):
        timings = where(networks.records["timings"], way=way)
        for name, methods in panels_of(estimates).items():
            shown = [method for method in methods if series_of(method).name != "kernel"]
            if name == "fair":
                shown = [*shown, *(m for m in ("kriging",) if m in values_of(timings, "method"))]
            if name != "kriging":
                published = name == "authors" and way == "one by one"
                drawing = figures.trade_off(estimates, timings, shown, published=published)
                title = f"{way.capitalize()}, {_panel_title(name, published)}"
                salt = f"rq3-{networks.dataset}-{way.replace(' ', '-')}-{name}"
                panels.append(_panel(title, drawing, salt))
    return Figure(
        f"Figure 4 a-c: {networks.title}",
        tuple(panels),
        "Rows explained in a second against ranking accuracy, one mark for each N. The published "
        "throughputs are of another machine, and leave out derivatives.",
    )


def _timed_rows(by_dataset: Mapping[str, Networks]) -> str:
    """Return "census: 20 rows one by one, 200 in a batch; ..."."""
    parts = []
    for name, networks in by_dataset.items():
        timings = networks.records["timings"]
        rows = [
            f"{values_of(where(timings, way=way), 'rows')[0]} rows {WAY_NAMES[way]}"
            for way in timed_ways(timings)
        ]
        parts.append(f"{name}: {', '.join(rows)}")
    return "; ".join(parts)


WAY_NAMES = {"one by one": "one by one", "batch": "in a batch"}


# RQ4: the parts of SHEAR


def parts(every: Sequence[Networks], drawn: Sequence[Networks]) -> Section:
    """Return RQ4: ablations and cooperators; figures are of the networks to be drawn."""
    shown: list[Figure] = []
    able = ablated(every)
    for networks in drawn:
        if networks in able:
            shown.append(_ablation_figure(networks))
        if len(random_cooperators(networks.records["cooperators"])):
            shown.append(_cooperator_figure(networks))
    return Section(
        "rq4",
        "RQ4: what the parts of SHEAR contribute (Figure 4 d-f)",
        (
            '"Without AS" has two readings. By the paper\'s formula all other features are absent: '
            "V is empty. In the authors' code V is random but unpaired. With and without CCS, that "
            "makes a grid of three by two.",
            *(_grid_words(networks) for networks in able),
        ),
        figures=tuple(shown),
        tables=tuple(tables.ablations(networks) for networks in able),
        open=False,
    )


def _grid_words(networks: Networks) -> str:
    """Return what the grid of some networks shows, in numbers."""
    worth = {name: str(Number(selection_worth(networks, name), "")) for name in GRID}
    pairs = compare(networks, "shear-unpaired", "shear", ABLATED, "absolute_error").interval
    empty = compare(networks, "shear-empty", "shear", ABLATED, "absolute_error").interval
    return (
        f"**{networks.title}.** Without CCS the error is {worth['paired']} times as large where V "
        f"is paired, {worth['unpaired']} times unpaired, {worth['empty']} times empty. With CCS, "
        f"unpairing V makes the error {Number(pairs, '')} times as large, emptying it "
        f"{Number(empty, '')} times."
    )


def _ablation_figure(networks: Networks) -> Figure:
    panels = []
    for metric, words in METRICS.items():
        drawing = figures.ablation_grid(networks, metric)
        panels.append(_panel(words.capitalize(), drawing, f"rq4-{networks.salt}-{metric}"))
    return Figure(
        f"Figure 4 d: ablations at N = {ABLATED}, {networks.title}",
        tuple(panels),
        "V paired with CCS is SHEAR. The paper has V paired without CCS, and one bar without AS. "
        "Bars are 95 % intervals of the means.",
    )


def _cooperator_figure(networks: Networks) -> Figure:
    cooperators = networks.records["cooperators"]
    salt = f"rq4-{networks.salt}"
    names = _feature_names(networks)
    across = figures.contribution_across_rows(networks, names)
    return Figure(
        f"Figure 4 e and f: cooperators, {networks.title}",
        (
            _panel("All features together", figures.contribution_cloud(networks), f"{salt}-cloud"),
            _panel(
                "Within a feature", figures.contribution_by_feature(networks), f"{salt}-feature"
            ),
            _panel("One feature across rows", across, f"{salt}-across"),
            _panel("More cooperators", figures.cooperator_curves(cooperators), f"{salt}-curves"),
        ),
        "Errors |φᵢ(U) - φᵢ(S + i)| of features whose value is not zero, when only the cooperators "
        f"S play: three readings of Figure 4 e, at N = {ABLATED}. Within a feature: over the draws "
        "of one feature of one row, with quartiles. Across rows: one feature at a time, with 95 % "
        "intervals. The last panel, Figure 4 f, has one random feature of each row, and stops "
        "before S holds all features, where nothing is lost.",
        key=False,
    )


def _feature_names(networks: Networks) -> list[str]:
    """Return the names of features; none where no row was illustrated."""
    rows = illustrated(networks.records["illustration"])
    return [row["feature"] for row in rows]


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
        open=False,
    )


def _illustrated_row(every: pa.Table) -> pa.Table:
    """Return the features of the first row of census, or else of the first data set."""
    census = where(every, dataset="census")
    candidates = census if len(census) else every
    authors = where(candidates, recipe="authors")
    candidates = authors if len(authors) else candidates
    if not len(candidates):
        return candidates
    first = candidates.to_pylist()[0]
    same = ("dataset", "recipe", "seed")
    return where(candidates, **{name: first[name] for name in same})


def _row_text(row: pa.Table) -> str:
    first = row.to_pylist()[0]
    base = first["base_value"]
    prediction = first["prediction"]
    total = prediction - base
    gap = total - float(column(row, "shear").sum())
    return (
        f"This is row {first['row']} of {first['dataset']} ({RECIPE_WORDS[first['recipe']]}), "
        f"whose f₁ - f₀ of {prediction:+.3f} is nearest to the paper's +1.73 among the rows "
        f"explained. The base value is {base:+.3f}, so the values should add up to {total:+.3f}. "
        f"SHEAR's values, from {first['evaluations']} evaluations, leave a gap of {gap:+.4f}."
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


def theory(every: Sequence[Networks]) -> Section:
    """Return Theorems 1 and 2, Remark 2 and the cost model beside what was measured."""
    figures_of = [_theory_figure(networks) for networks in every]
    by_dataset = {each.dataset: each for each in every if len(each.records["timings"])}
    figures_of += [_cost_figure(networks) for networks in by_dataset.values()]
    return Section(
        "theory",
        "Theory: Theorems 1 and 2, Remark 2, and what SHEAR costs",
        (
            "The paper states these, and measures none of them.",
            "Theorem 1 says what a feature's value loses without another one: Δᵢⱼ, by second "
            "derivatives at the corners, and a remainder. Theorem 2 bounds the loss by the largest "
            "of these derivatives. Remark 2 adds up the bounds over all features that are not "
            "selected; selection by cross-contribution is meant to minimise that sum.",
        ),
        figures=tuple(figure for figure in figures_of if figure is not None),
        open=False,
    )


def _theory_figure(networks: Networks) -> Figure | None:
    records = networks.records
    salt = f"theory-{networks.salt}"
    panels = []
    if len(records["chain"]):
        chain = figures.chain_cloud(records["chain"])
        panels.append(_panel("Theorem 1: loss and chain rule", chain, f"{salt}-chain"))
    if len(records["bounds"]):
        cloud = figures.bound_cloud(records["bounds"])
        panels.append(_panel("Theorem 2: loss against bound", cloud, f"{salt}-cloud"))
        tightness = figures.tightness(records["bounds"])
        panels.append(_panel("How much of the bound is used", tightness, f"{salt}-tightness"))
    if len(records["selection_bound"]):
        bound = figures.selection_bounds(records["selection_bound"])
        panels.append(_panel("Remark 2: what selection minimises", bound, f"{salt}-selection"))
    if not panels:
        return None
    return Figure(
        f"The theorems: {networks.title}",
        tuple(panels),
        "Pairs of features of a few rows. Ratios above 1.25 are counted at the right edge. Remark "
        "2: solid lines are bounds, dotted ones the errors that they bound.",
        key=False,
    )


def _cost_figure(networks: Networks) -> Figure:
    timings = networks.records["timings"]
    panels = []
    for way in timed_ways(timings):
        drawing = figures.cost_model(where(timings, way=way))
        salt = f"theory-{networks.dataset}-cost-{way.replace(' ', '-')}"
        panels.append(_panel(way.capitalize(), drawing, salt))
    return Figure(
        f"The cost model: {networks.dataset}", tuple(panels), "The time for one row.", key=False
    )


# What training does


def training(every: Sequence[Networks]) -> Section | None:
    """Return the errors on networks that were trained in other ways."""
    by_dataset = {each.dataset: each for each in every if len(each.records["sensitivity"])}
    if not by_dataset:
        return None
    return Section(
        "training",
        "Sensitivity: what training does to the errors",
        (
            "All networks have the paper's layers. One choice at a time is changed from what the "
            "authors did: standardised columns, 20 epochs, a background with their quirk, "
            "softplus. Raw 0/1 columns have no quirk. A mark is the mean over seeds of the "
            "networks, a line their range.",
        ),
        figures=tuple(_training_figure(networks) for networks in by_dataset.values()),
        open=False,
    )


def _training_figure(networks: Networks) -> Figure:
    sensitivity = networks.records["sensitivity"]
    panels = [
        _panel(
            f"N = {n}",
            figures.training(sensitivity, n),
            f"training-{networks.dataset}-{n}",
        )
        for n in sorted(values_of(sensitivity, "n"))
    ]
    return Figure(
        f"Errors by training: {networks.dataset}",
        tuple(panels),
        "How far marks of one colour lie apart is what training does; how far those of one line do "
        "is what the choice of method does.",
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
        open=False,
    )


READING = (
    "**Blocks.** The paper does not discuss one-hot blocks. Here a feature owns its whole block, "
    "and cross-contribution is the Hessian in the space of features. The authors take the largest "
    "entry over pairs of columns, which the figures call SHEAR block maximum.",
    "**Networks.** 64-64 with softplus, which the paper does not say. With ReLU the Hessian, and "
    "so the cross-contribution, would be zero almost everywhere. The authors standardised one-hot "
    "columns too, trained for 20 epochs and kept the best validation state. Their background of a "
    "category is the mean of its unscaled columns. Ours have raw 0/1 columns, stop by patience, "
    "and have the mean of the training rows as background.",
    "**KS and KS-Pair.** The appendix prints a regression weighted by the kernel, without the "
    "constraint that values add up, and does not say how coalitions are drawn; here its reading "
    "draws them uniformly. The released numbers agree with a regression that has the constraint, "
    "on coalitions drawn from the kernel. At small N the regressions are singular: the authors' "
    "values are then zero or huge, and ours are the least-norm solution.",
    "**KS-WF.** The appendix prints f(U) - f(0) where f(S) - f(0) is meant, and says that all "
    "kernel methods run M loops of N coalitions. A running mean over all of them is one regression "
    "on N M coalitions, and that is what is run.",
    "**PS and APS.** The appendix describes N random coalitions for each feature. Their "
    "differences would take 2 N evaluations, so N / 2 coalitions are drawn here, in two readings: "
    "prefixes of random permutations, or each feature in or out by a fair coin. The released "
    "numbers are those of N whole permutations, two of which APS leaves unpaired.",
    "**SHEAR.** It is biased, because its background coalitions include each feature with "
    "probability 1/2. SHEAR unbiased draws that probability, so that it is not biased.",
)


def reading() -> Section:
    """Return how the paper was read where it leaves a choice."""
    return Section("reading", "How the paper was read", READING, open=False)


# Helpers


def _panel(title: str, drawing: Drawing, name: str) -> Panel:
    """Return a panel; its ids begin with a few letters made of its name, which is its own."""
    salt = "f" + hashlib.sha256(name.encode()).hexdigest()[:6]
    svg = inline(drawing.figure, alt=drawing.alt, titles=drawing.titles, salt=salt)
    return Panel(title, svg)


def listed(items: Sequence[Any]) -> str:
    """Return "a, b and c"."""
    words = [str(item) for item in items]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"
