"""The report of the reproduction, as an HTML page and in Markdown: all of it comes from records."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from shearshap.report import Figure, Page, Panel, Section, Series, Table, write
from shearshap.store import written_whole
from shearshap_lab.experiments import figures, tables
from shearshap_lab.experiments.claims import Finding, findings
from shearshap_lab.experiments.evidence import correlation, feature_correlations
from shearshap_lab.experiments.figures import Curve, Labels
from shearshap_lab.experiments.records import Records
from shearshap_lab.experiments.results import (
    METRICS,
    READING_WORDS,
    SERIES,
    Networks,
    every_network,
    illustrated,
    label_of,
    leading,
    listed,
    published_curve,
    random_cooperators,
    series_of,
    speeds,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Reading
from shearshap_lab.markdown import markdown
from shearshap_lab.runner import column, read_records, values_of, where
from shearshap_lab.statistics import RATIO_MARGIN, SCORE_MARGIN

TITLE = "SHEAR, reproduced"
EVALUATIONS = "model evaluations for each feature, N"

RULES = (
    "A case is a data set and N, unless a claim says otherwise: SHEAR has to be better than all "
    "other methods in it. A claim **holds** if it holds in most cases against fair baselines; "
    "**holds only as the authors ran it** if it does so against the baselines of the released "
    "numbers alone; **fails** if it fails in most cases; otherwise it is **open**. A theorem fails "
    "if one case does. SHEAR is better if the whole 95 % interval of the ratio of errors is below "
    f"1 and the ratio at most {1 - RATIO_MARGIN:g}; scores are compared by their difference, at "
    f"least {SCORE_MARGIN:g}. Intervals: paired bootstrap over networks, rows and rounds, never "
    "narrower than Student's over networks. Hundreds of comparisons are made at 95 %: a few of "
    "them decide by chance."
)


def report(out: Path | str, *, docs: Path | str | None = None) -> Path:
    """Write out/report.html and out/report.md from the records in out/records.

    With `docs`, write docs/reproduction.md too, and the report to docs/reproduction/report.html.
    Return the path of the report.
    """
    out = Path(out)
    records, origin = read_records(out / "records")
    whole = page(records, origin)
    _write_text(out / "report.md", in_markdown(whole, records, origin, full=True))
    if docs is not None:
        write(whole, Path(docs) / "reproduction" / "report.html")
        short = in_markdown(whole, records, origin, full=False)
        _write_text(Path(docs) / "reproduction.md", short)
    return write(whole, out / "report.html")


def _write_text(path: Path, text: str) -> None:
    with written_whole(path) as partial_path:
        partial_path.write_text(text, encoding="utf-8")


def page(records: Records, origin: Mapping[str, Any]) -> Page:
    """Return the whole report; `origin` is the provenance of the records."""
    found = findings(records)
    every = every_network(records)
    return Page(
        TITLE,
        tuple(_lead(every)),
        (),
        tuple(_sections(found, every, records)),
        tuple(SERIES.values()),
        contents=False,
        foot=tuple(facts(every, origin)),
    )


def in_markdown(whole: Page, records: Records, origin: Mapping[str, Any], *, full: bool) -> str:
    """Return the page in Markdown; not `full`: the summary alone, with a link to the report."""
    every = every_network(records)
    parts = [f"# {'The paper, reproduced' if not full else TITLE}", *_lead(every)]
    if not full:
        parts += [
            f"Made by the command below; [the full report](reproduction/report.html) has every "
            f"figure and table.\n\n    {origin['command']}"
        ]
    for section in whole.sections if full else whole.sections[:1]:
        parts += [f"## {section.title}", *section.text]
        parts += [markdown(table).strip() for table in section.tables]
        parts += section.notes
    parts.append("## Where the numbers come from")
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts(every, origin)))
    return "\n\n".join(parts) + "\n"


def _lead(every: Sequence[Networks]) -> Iterator[str]:
    names = listed(dict.fromkeys(networks.dataset for networks in every))
    yield (
        'The main claims of "Accelerating Shapley Explanation via Contributive Cooperator '
        f'Selection" (ICML 2022), measured on {names}. What the paper calls German Credit is UCI '
        "Bank Marketing, `bank` here; Criteo's data may not be passed on, and are measured only "
        "with a file of your own."
    )
    fewest = min(networks.count for networks in every)
    if fewest == 1:
        yield (
            "There is **one network** of each kind: intervals are about its rows, and say nothing "
            "about other networks."
        )
    rows = min(networks.records["models"]["rows"].to_pylist()[0] for networks in every)
    if rows < 3:
        yield f"There are **too few rows** ({rows}) to decide anything: most claims stay open."


def facts(every: Sequence[Networks], origin: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where the numbers come from, each fact with its name."""
    yield "Command", f"`{origin['command'] or 'not known'}`"
    yield "Commit", f"`{origin['commit']}`, code `{origin['code']}`"
    yield "Versions", origin["versions"]
    yield "Machine", origin["machine"]
    minutes, seconds = divmod(round(origin["seconds"]), 60)
    yield "Wall time", f"{minutes} min {seconds} s"
    parts = [f"{each.dataset}: {each.count} {each.recipe}" for each in every]
    yield "Networks", "; ".join(parts)
    rows = {each.dataset: each.records["models"]["rows"].to_pylist()[0] for each in every}
    rounds = {
        each.dataset: int(column(each.records["estimates"], "round").max()) + 1 for each in every
    }
    sizes = [f"{name}: {rows[name]} test rows, {rounds[name]} rounds" for name in rows]
    yield "Rows and rounds", "; ".join(sizes)


# Sections


def _sections(
    found: Mapping[str, Finding], every: list[Networks], records: Records
) -> Iterator[Section]:
    # figures of both recipes look alike; the tables have the numbers of both
    drawn = list({each.dataset: each for each in reversed(every)}.values())[::-1]
    folded = partial(Section, open=False)
    yield Section(
        "summary",
        "What holds, and what does not",
        (f"Numbers are of {leading(every).title}, N = {ABLATION_N}, unless a line says more.",),
        tables=(tables.summary(found),),
        notes=(RULES,),
    )
    yield folded(
        "evidence",
        "The evidence, claim by claim",
        ("Each claim under every reading, on every data set and both kinds of networks.",),
        tables=tuple(tables.evidence(finding) for finding in found.values()),
    )
    yield _metric_section(every, every, "rq1", ("absolute_error", "ranking_accuracy"))
    yield _metric_section(every, drawn, "rq2", ("faithfulness", "monotonicity"))
    timed = list({each.dataset: each for each in drawn if timed_ways(each)}.values())
    yield folded(
        "rq3",
        "RQ3: accuracy against speed (Figure 4 a-c)",
        (
            "Derivatives count, other than in the authors' timings. One row at a time, this "
            "library's overhead hides the methods' cost. Bars reach from the first tenth of the "
            "timings to the last; the axis of accuracies is stretched near 1.",
        ),
        figures=tuple(_trade_off(networks) for networks in timed),
        tables=tuple(tables.costs(networks) for networks in timed),
    )
    yield folded(
        "rq4",
        "RQ4: what the parts of SHEAR contribute (Figure 4 d-f)",
        (
            '"Without AS" has two readings. By the paper\'s formula all other features are absent: '
            "V is empty. In the authors' code V is random but unpaired.",
        ),
        figures=tuple(_parts_figure(networks) for networks in drawn),
        tables=tuple(tables.ablations(networks) for networks in every),
    )
    theory = [each for each in drawn if len(each.records["pairs"])]
    yield folded(
        "theory",
        "Theory: Theorems 1 and 2, and Remark 2",
        (
            "The paper states these, and measures none of them. Theorem 1 says what a feature's "
            "value loses without another one: Δᵢⱼ, by second derivatives at the corners, and a "
            "remainder. Theorem 2 bounds the loss by the largest of these derivatives; with "
            "differences in their place the bound always holds. Remark 2 adds up the bounds over "
            "all features that are not selected.",
        ),
        figures=tuple(_theory_figure(networks) for networks in theory),
    )
    shown = [each for each in drawn if len(each.records["illustration"])]
    yield folded(
        "illustration",
        "Illustration: one row",
        ("The row whose f₁ - f₀ is nearest to that of the paper's row, +1.73.",),
        figures=tuple(_row_figure(networks) for networks in shown),
    )
    yield folded(
        "setup",
        "Data, networks and ground truth as they are",
        (),
        tables=(tables.datasets(records["models"]), tables.hyperparameters(every)),
    )
    reading = (files("shearshap_lab.experiments") / "reading.md").read_text(encoding="utf-8")
    yield folded("reading", "How the paper was read", tuple(reading.strip().split("\n\n")))


METRIC_TEXT = {
    "rq1": (
        "RQ1: how close to the exact Shapley values (Figure 2)",
        "Absolute error is the sum over features of |φ - φ̂|; ranking accuracy ranks the signed "
        "values, and counts rank m with weight 1/m. The axis of accuracies is stretched near 1. "
        "Bars are 95 % intervals of the means; dashed lines are the authors' released numbers.",
    ),
    "rq2": (
        "RQ2: how faithful to the model (Figure 3)",
        "Faithfulness is the correlation between the values and the change of the prediction when "
        "each feature alone is left out. Monotonicity is how often a feature, added to those "
        "ranked above it, gains at least as much as the next one. The exact Shapley values have "
        "scores below 1: the dotted line. A method above that line is not better than the exact "
        "values, but wrong in a way that these metrics reward.",
    ),
}


def _metric_section(
    every: Sequence[Networks], drawn: Sequence[Networks], name: str, metrics: tuple[str, str]
) -> Section:
    """Return the section of two metrics: figures of some networks, tables of all."""
    title, text = METRIC_TEXT[name]
    shown: list[Table | None] = []
    if name == "rq1":
        shown += [tables.beside_published(each) for each in every if each.recipe == "authors"]
    shown += [
        tables.comparison(networks, reading, metric)
        for networks in every
        for metric in metrics
        for reading in READINGS
    ]
    return Section(
        name,
        title,
        (text,),
        figures=tuple(_metric_figure(networks, metrics) for networks in drawn),
        tables=tuple(table for table in shown if table is not None),
        open=False,
    )


# Figures


def _metric_figure(networks: Networks, metrics: Sequence[str]) -> Figure:
    panels = [
        _metric_panel(networks, reading, metric) for metric in metrics for reading in READINGS
    ]
    names = listed(METRICS[metric] for metric in metrics)
    return Figure(f"{names.capitalize()}: {networks.title}", tuple(panels), "")


def _metric_panel(networks: Networks, reading: Reading, metric: str) -> Panel:
    lines = []
    numbers = networks.n()
    for method in networks.methods(reading):
        lines.append(_metric_curve(networks, method, metric))
        if reading == "authors" and method != "shear":  # SHEAR's are those of SHEAR block maximum
            lines += _published_curve(networks, method, metric)
    if metric in ("faithfulness", "monotonicity"):
        exact = networks.mean("truth", 0, metric).mean
        lines.append(Curve(SERIES["truth"], numbers, [exact] * len(numbers)))
    arrow = "↓" if metric == "absolute_error" else "↑"
    labels = ", ".join(label_of(method) for method in networks.methods(reading))
    scales = {"absolute_error": "log", "ranking_accuracy": "accuracy"}
    return figures.curves(
        f"{METRICS[metric].capitalize()}, baselines {READING_WORDS[reading]}",
        lines,
        Labels(
            EVALUATIONS,
            f"{METRICS[metric]} ({arrow} better)",
            f"{METRICS[metric]} against {EVALUATIONS}, {networks.title}: {labels}.",
            x_scale="evaluations",
            y_scale=scales.get(metric, "linear"),  # type: ignore[arg-type]
            ticks=numbers,
        ),
    )


def _metric_curve(networks: Networks, method: str, metric: str) -> Curve:
    numbers = networks.n(method)
    series = series_of(method)
    means = [networks.mean(method, n, metric) for n in numbers]
    found = [
        mean.positive_interval() if metric == "absolute_error" else mean.interval().within(-1, 1)
        for mean in means
    ]
    return Curve(
        series,
        numbers,
        [each.value for each in found],
        [each.low if each.known else each.value for each in found],
        [each.high if each.known else each.value for each in found],
        [
            f"{series.label}, N = {n}: {each.value:.4g}"
            for n, each in zip(numbers, found, strict=True)
        ],
    )


def _published_curve(networks: Networks, method: str, metric: str) -> list[Curve]:
    """Return the released numbers of a method as a dashed line, if there are any."""
    name = {"absolute_error": "ae_mean", "ranking_accuracy": "acc"}.get(metric, "")
    released = published_curve(networks.dataset, method, name) if name else {}
    points = {n: released[n] for n in networks.n(method) if n in released}
    if not points:
        return []
    return [Curve(series_of(method), list(points), list(points.values()), dashed=True)]


def _trade_off(networks: Networks) -> Figure:
    timings = networks.records["timings"]
    panels = []
    for way in timed_ways(networks):
        lines = []
        for method in networks.methods("fair"):
            n, rates = speeds(timings, way, method)
            if len(n):
                accuracy = [networks.mean(method, int(each), "ranking_accuracy").mean for each in n]
                low, middle, high = rates.T.tolist()
                lines.append(Curve(series_of(method), accuracy, middle, low, high))
        labels = Labels(
            "ranking accuracy (↑ better)",
            "throughput, rows a second (↑ better)",
            f"Rows explained in a second against ranking accuracy, {way}, {networks.dataset}.",
            x_scale="accuracy",
            y_scale="log",
        )
        panels.append(figures.curves(way.capitalize(), lines, labels))
    return Figure(f"Figure 4 a-c: {networks.dataset}", tuple(panels), "Fair baselines.")


def _parts_figure(networks: Networks) -> Figure:
    """Return the ablations, and what cooperators do to errors."""
    panels = [_ablation_panel(networks)]
    random = random_cooperators(networks)
    if len(random):
        found = correlation(random)
        panels.append(
            figures.scatter(
                "Figure 4 e: error and cross-contribution",
                column(random, "cross_contribution"),
                column(random, "error"),
                Labels(
                    "cross-contribution of the cooperators, sum of η",
                    "absolute error of the feature",
                    f"Errors against the summed cross-contribution of random cooperators, "
                    f"{networks.title}.",
                    note=f"rank correlation {found.value:+.2f}",
                ),
            )
        )
        panels.append(_feature_panel(networks))
        panels.append(_cooperator_panel(networks))
    return Figure(
        f"Figure 4 d-f: {networks.title}",
        tuple(panels),
        "Errors |φᵢ(U) - φᵢ(S + i)| of features whose value is not zero, when only the cooperators "
        "S play. The last panel has one random feature of each row, and stops before S holds all "
        "features, where nothing is lost.",
        key=False,
    )


def _ablation_panel(networks: Networks) -> Panel:
    variants = {
        "V paired": ("shear", "shear-without-ccs"),
        "V unpaired": ("shear-unpaired", "shear-unpaired-without-ccs"),
        "V empty": ("shear-empty", "shear-empty-without-ccs"),
    }
    groups = {
        name: {
            look: networks.mean(method, ABLATION_N, "absolute_error").positive_interval()
            for look, method in zip(("with-ccs", "without-ccs"), methods, strict=True)
        }
        for name, methods in variants.items()
    }
    labels = Labels(
        f"absolute error at N = {ABLATION_N} (circles: with CCS)",
        "",
        f"Errors of SHEAR by how V is drawn, with and without CCS, {networks.title}.",
        x_scale="log",
    )
    looks = [SERIES["with-ccs"], SERIES["without-ccs"]]
    return figures.intervals("Figure 4 d: ablations", groups, looks, labels)


def _feature_panel(networks: Networks) -> Panel:
    found = feature_correlations(random_cooperators(networks))
    names = [row["feature"] for row in illustrated(networks.records["illustration"])]
    series = Series("feature", "feature", figures.BLUE, marker="o")
    order = sorted(found, key=lambda player: found[player].value)
    groups = {
        (names[player] if player < len(names) else f"feature {player}"): {"feature": found[player]}
        for player in order
    }
    labels = Labels(
        "rank correlation of error and cross-contribution",
        "",
        f"Rank correlations of each feature across rows, {networks.title}.",
    )
    return figures.intervals("One feature across rows", groups, [series], labels)


def _cooperator_panel(networks: Networks) -> Panel:
    records = where(networks.records["cooperators"], draw=0)
    groups = {}
    for selection, name in (("random", "random cooperators"), ("shear", "SHEAR's")):
        own = where(records, selection=selection)
        n = column(own, "n")
        errors = {each: column(own, "error")[n == each] for each in np.unique(n).tolist()}
        groups[name] = {each: error for each, error in errors.items() if error.mean() > 1e-6}
    labels = Labels(
        "coalitions for one feature, N",
        "absolute error of the feature",
        f"Errors against N, of random cooperators and of SHEAR's, {networks.title}.",
        x_scale="evaluations",
        y_scale="log",
    )
    return figures.band("Figure 4 f: more cooperators", groups, labels)


def _theory_figure(networks: Networks) -> Figure:
    pairs = networks.records["pairs"]
    loss = np.abs(column(pairs, "loss"))
    chain = figures.scatter(
        "Theorem 1: loss and chain rule",
        np.abs(column(pairs, "chain")),
        loss,
        Labels(
            "|Δᵢⱼ| of the chain rule, as printed",
            "|φᵢ(U) - φᵢ(U - j)|",
            f"Losses of values against the chain rule, {networks.title}.",
            note="on the line\nnothing remains",
        ),
        diagonal=True,
    )
    bound = figures.scatter(
        "Theorem 2: loss and bound",
        column(pairs, "printed"),
        loss,
        Labels(
            "Theorem 2's bound, as printed",
            "|φᵢ(U) - φᵢ(U - j)|",
            f"Losses of values against their bounds, {networks.title}.",
            note="above the line\nthe bound fails",
        ),
        diagonal=True,
    )
    rows = len(values_of(pairs, "row"))
    return Figure(
        f"The theorems: {networks.title}",
        (chain, bound, _selection_panel(networks)),
        f"Pairs of features of {rows} row{'s' if rows > 1 else ''} a network.",
        key=False,
    )


def _selection_panel(networks: Networks) -> Panel:
    """Draw Remark 2's bound, and dashed the error that it bounds, against N."""
    records = networks.records["selection_bound"]
    numbers = sorted(values_of(records, "n"))
    lines = []
    for name, label, colour, marker in (
        ("random", "random", figures.BLUE, "s"),
        ("shear", "SHEAR's", figures.VERMILION, "o"),
        ("bound", "the bound's least", "#009E73", "^"),
    ):
        series = Series(name, label, colour, marker=marker)
        own = where(records, selection=name)
        for what in ("bound", "error"):
            means = [float(column(where(own, n=n), what).mean()) for n in numbers]
            means = np.maximum(means, figures.SMALLEST).tolist()
            lines.append(Curve(series, numbers, means, dashed=what == "error"))
    labels = Labels(
        EVALUATIONS,
        "mean over features and rows",
        f"Remark 2's bound, and dashed the error below it, against N, {networks.title}.",
        x_scale="evaluations",
        y_scale="log",
        ticks=numbers,
    )
    return figures.curves("Remark 2: what selection minimises", lines, labels, legend=True)


def _row_figure(networks: Networks) -> Figure:
    rows = sorted(illustrated(networks.records["illustration"]), key=lambda row: abs(row["exact"]))
    first = rows[0]
    names = [f"{row['feature']} = {row['value'][:18]}" for row in rows]
    shear = [row["shear"] for row in rows]
    gap = first["prediction"] - first["base_value"] - sum(shear)
    panel = figures.bars(
        f"SHEAR at N = {ABLATION_N} beside the exact values",
        names,
        shear,
        [row["exact"] for row in rows],
        Labels(
            "Shapley value for f₁ - f₀",
            "",
            f"One row's features by their values, {networks.title}: bars for SHEAR, marks for the "
            "exact values.",
        ),
    )
    return Figure(
        f"The appendix's figure: {networks.title}",
        (panel,),
        f"Base value {first['base_value']:+.3f}, prediction f₁ - f₀ = {first['prediction']:+.3f}. "
        f"SHEAR's values, from {first['evaluations']} evaluations, leave a gap of {gap:+.4f}.",
        key=False,
    )


# For a terminal


def printed(records: Records) -> str:
    """Return the networks, the errors at N = 16 and the verdicts, as text."""
    lines = []
    for networks in every_network(records):
        models = networks.records["models"]
        first = models.to_pylist()[0]
        accuracies = " ".join(f"{100 * each:.1f}%" for each in column(models, "accuracy"))
        lines += [
            f"{networks.title}: {first['title']}",
            f"networks  {networks.count}, with test accuracy {accuracies}",
            f"truth     {first['truth']}, {first['rows']} rows, {first['truth_evaluations']} "
            "evaluations each",
        ]
        for reading in READINGS:
            errors = {
                method: networks.mean(method, ABLATION_N, "absolute_error").mean
                for method in networks.methods(reading)
            }
            ranking = ", ".join(
                f"{label_of(method)} {errors[method]:.2g}"
                for method in sorted(errors, key=errors.__getitem__)
            )
            lines.append(f"{reading:<12}absolute error at N = {ABLATION_N}: {ranking}")
        lines.append("")
    for finding in findings(records).values():
        lines.append(f"{finding.verdict}: {finding.claim.says}")
    return "\n".join(lines)
