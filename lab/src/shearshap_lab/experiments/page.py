"""The pages of the reproduction, all of it from records: a summary and what is beyond the paper in
Markdown, a figure, and a report in HTML.

    FOLDER/reproduction.md              Should I use SHEAR? Which claims hold?
    FOLDER/beyond-the-paper.md          newer methods, other networks
    FOLDER/reproduction/report.html     every figure, and the evidence for each claim
    FOLDER/images/reproduction.svg      Figure 2 a in three readings
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from shearshap.apps.report import Page, Section, Table, write
from shearshap.result.colours import page_colours
from shearshap.store import written_whole
from shearshap_lab.experiments import figures
from shearshap_lab.experiments.claims import Finding, findings
from shearshap_lab.experiments.evidence import READING_NAMES, Number, compare
from shearshap_lab.experiments.results import (
    METRICS,
    READING_WORDS,
    SERIES,
    Networks,
    every_network,
    label_of,
    leading,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, STUDIES, Records
from shearshap_lab.experiments.summary import (
    RULES,
    TITLE,
    answer,
    beyond,
    caveats,
    claims_table,
    counted_cases,
    facts,
    numbers_are_of,
    summary,
)
from shearshap_lab.runner import column, read_records, records_hash

STYLE = """
@media (min-width: 40.01rem) {
  .prose.compact th:nth-child(1) { width: 34%; }
  .prose.compact th:nth-child(2) { width: 13%; }
  .prose.compact th:nth-child(3) { width: 21%; }
  .prose.compact th:nth-child(4) { width: auto; }
  .prose.compact strong { white-space: normal; }
}
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  .plot { background: #fff; border-radius: 6px; }
  .swatch { background: #fff; border-radius: 3px; }
}
"""


def write_pages(records: Path | str, folder: Path | str) -> Path:
    """Write all pages from the records in a folder, and return the path of the report."""
    folder = Path(folder)
    tables, origin = read_records(Path(records))
    origin["records"] = records_hash(Path(records))
    every = every_network(tables)
    found = findings(tables)
    for name, text in {
        "reproduction.md": summary(found, every, origin),
        "beyond-the-paper.md": beyond(found, every),
    }.items():
        with written_whole(folder / name) as partial_path:
            partial_path.write_text(text, encoding="utf-8")
    figures.overview(leading(every), folder / "images" / "reproduction.svg")
    return write(report(found, every, origin), folder / "reproduction" / "report.html")


def report(
    found: Mapping[str, Finding], every: Sequence[Networks], origin: Mapping[str, Any]
) -> Page:
    """Return the report."""
    return Page(
        TITLE,
        (*caveats(every), *answer(found, every)),
        tuple(_sections(found, every)),
        tuple(SERIES.values()),
        contents=False,
        foot=tuple(facts(every, origin)),
        style=page_colours(dark=True) + STYLE,
    )


# The sections of the report


def _sections(found: Mapping[str, Finding], every: Sequence[Networks]) -> Iterator[Section]:
    # figures of both recipes look alike; the table of evidence has the numbers of both
    drawn = [each for each in every if each.recipe == leading(every).recipe]
    folded = partial(Section, open=False)
    header, rows = claims_table(found, mark="")
    claims = Table("The paper's claims", header, tuple(rows), left=4, compact=True)
    yield Section(
        "summary",
        "What holds, and what does not",
        (numbers_are_of(leading(every)),),
        tables=(claims,),
        notes=RULES,
    )
    yield folded(
        "evidence",
        "The evidence, claim by claim",
        ("Each claim under every reading, on every data set and both kinds of networks.",),
        tables=(_evidence_table(found),),
    )
    metrics = ("absolute_error", "ranking_accuracy")
    yield folded(
        "rq1",
        "RQ1: how close to the exact Shapley values (Figure 2)",
        (
            "Absolute error is the sum over features of |φ - φ̂|; ranking accuracy ranks the signed "
            "values, and counts rank m with weight 1/m.",
        ),
        figures=tuple(figures.metric_figure(networks, metrics) for networks in drawn),
        tables=tuple(_metrics_table(networks, metrics) for networks in drawn),
    )
    metrics = ("faithfulness", "monotonicity")
    yield folded(
        "rq2",
        "RQ2: how faithful to the model (Figure 3)",
        (
            "Faithfulness is the correlation between the values and the change of the prediction "
            "when each feature alone is left out. Monotonicity is how often a feature, added to "
            "those ranked above it, gains at least as much as the next one. The exact Shapley "
            "values have scores below 1: a method above that line is not better than the exact "
            "values, but wrong in a way that these metrics reward.",
        ),
        figures=tuple(figures.metric_figure(networks, metrics) for networks in drawn),
        tables=tuple(_metrics_table(networks, metrics) for networks in drawn),
    )
    yield folded(
        "rq3",
        "RQ3: accuracy against speed (Figure 4 a-c)",
        (
            "Times include derivatives, unlike the authors' timings. One row at a time, the "
            "overhead of this library's calls is larger than the cost of the methods at every N, "
            "so that timing decides no claim.",
        ),
        figures=tuple(figures.trade_off(networks) for networks in drawn if timed_ways(networks)),
    )
    yield folded(
        "rq4",
        "RQ4: what the parts of SHEAR contribute (Figure 4 d-f)",
        (
            '"Without AS" has two readings. By the paper\'s formula all other features are absent: '
            "V is empty. In the authors' code V is random but unpaired.",
        ),
        figures=tuple(figures.parts_figure(networks) for networks in drawn),
    )
    yield folded(
        "illustration",
        "Illustration: one row",
        ("The row whose f₁ - f₀ is nearest to that of the paper's row, +1.73.",),
        figures=tuple(
            figures.row_figure(each) for each in drawn if len(each.records["illustration"])
        ),
    )
    yield folded(
        "setup",
        "Data, networks and ground truth as they are",
        (),
        tables=(_setup_table(every),),
    )
    reading = (files("shearshap_lab.experiments") / "reading.md").read_text(encoding="utf-8")
    yield folded("reading", "How the paper was read", tuple(reading.strip().split("\n\n")))


def _evidence_table(found: Mapping[str, Finding]) -> Table:
    """Return all claims under every reading, on every data set and both kinds of networks."""
    rows = [
        (
            f"{finding.claim.title} ({finding.claim.section})",
            f"{each.dataset}, {each.recipe}",
            each.reading if each.decides else f"{each.reading} (decides nothing)",
            counted_cases(each.outcomes),
            each.number.told(),
        )
        for finding in found.values()
        for each in finding.evidence
    ]
    cases = [f"{each.claim.title}: {each.claim.cases}" for each in found.values()]
    return Table(
        "Cases in which a claim holds, and one number",
        ("claim", "networks", "reading", "it holds in", "one number"),
        tuple(rows),
        notes=(f"Cases, for each data set. {'. '.join(cases)}.",),
        left=5,
        compact=True,
    )


def _metrics_table(networks: Networks, metrics: Sequence[str]) -> Table:
    """Return the metrics of all methods by reading and N: the mean, and SHEAR beside it."""
    rows = [
        (METRICS[metric], READING_NAMES[reading], label_of(method), *cells)
        for metric in metrics
        for reading in READINGS
        for method in networks.methods(reading)
        for cells in [[_metric_cell(networks, method, n, metric) for n in networks.n()]]
        if method != "shear" or reading == "authors"
    ]
    return Table(
        f"{' and '.join(METRICS[metric] for metric in metrics).capitalize()}: {networks.title}",
        ("metric", "baselines", "method", *(f"N = {n}" for n in networks.n())),
        tuple(rows),
        notes=(
            "Each cell: the mean; SHEAR's error over the method's, or SHEAR's score less the "
            "method's, with its 95 % interval; and whether SHEAR is better. Baselines: "
            + "; ".join(f"{READING_NAMES[name]}, {words}" for name, words in READING_WORDS.items())
            + ".",
        ),
        left=3,
    )


def _metric_cell(networks: Networks, method: str, n: int, metric: str) -> str:
    mean = networks.mean(method, n, metric).mean
    cell = f"{mean:.1e}" if 0 < mean < 1e-3 else f"{mean:.3g}"
    if method == "shear":
        return cell
    found = compare(networks, "shear", method, n, metric)
    number = Number(found.interval, style=".2f" if metric == "absolute_error" else "+.4f")
    return f"{cell}; {number}: {found.verdict}"


# The data and the networks

PAPER_ACCURACY = {"census": "84.7", "bank": "89.8", "criteo": "71.09"}  #: %
VARYING = ("seed", "accuracy")  #: columns of the record of a network that others do not share
NUMBERS = ("learning_rate", "majority", "truth_error", "size")


def _setup_table(every: Sequence[Networks]) -> Table:
    """Return the data sets and networks as they are, with the accuracy that the paper prints."""
    shared = [name for name in STUDIES["models"].names if name not in VARYING]
    columns = []
    for networks in every:
        models = networks.records["models"]
        first = models.to_pylist()[0]
        cells = [f"{first[name]:.4g}" if name in NUMBERS else str(first[name]) for name in shared]
        accuracies = " ".join(f"{100 * each:.1f}" for each in column(models, "accuracy"))
        columns.append((*cells, accuracies, PAPER_ACCURACY.get(networks.dataset, "")))
    names = (*(name.replace("_", " ") for name in shared), "accuracies, %", "the paper's, %")
    return Table(
        "Data sets, networks and ground truth; what differs between networks is of the first",
        ("", *(each.title for each in every)),
        tuple(zip(names, *columns, strict=True)),
        notes=(
            "All: Adam. Not in the paper: softplus, gradient norms clipped at 0.1, and how columns "
            "are encoded. Quirk: the background of a category is the mean of its 0/1 columns, in a "
            "space where these columns are standardised. `size` is mean ‖φ‖₁.",
        ),
        left=1 + len(every),
    )


# For a terminal


def printed(records: Records) -> str:
    """Return the networks, the errors at N = 16 and the verdicts, as text."""
    lines = []
    every = every_network(records)
    for networks in every:
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
            errors = [
                (networks.mean(method, ABLATION_N, "absolute_error").mean, label_of(method))
                for method in networks.methods(reading)
            ]
            ranking = ", ".join(f"{name} {error:.2g}" for error, name in sorted(errors))
            lines.append(f"{reading:<12}absolute error at N = {ABLATION_N}: {ranking}")
        lines.append("")
    lines += [caveat.replace("**", "") for caveat in caveats(every)]
    found = findings(records).values()
    lines += [f"{each.verdict}: {each.claim.title} ({each.claim.section})" for each in found]
    return "\n".join(lines)
