"""The report of the reproduction, as an HTML page and in Markdown: all of it comes from records."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from shearshap.report import Page, Section, Table, write
from shearshap.store import written_whole
from shearshap_lab.experiments import figures
from shearshap_lab.experiments.claims import Finding, findings
from shearshap_lab.experiments.evidence import Number, compare
from shearshap_lab.experiments.results import (
    METRICS,
    READING_WORDS,
    RECIPE_WORDS,
    SERIES,
    Networks,
    every_network,
    label_of,
    leading,
    listed,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, STUDIES, Reading, Records
from shearshap_lab.markdown import markdown
from shearshap_lab.runner import column, read_records
from shearshap_lab.statistics import RATIO_MARGIN, SCORE_MARGIN

TITLE = "SHEAR, reproduced"

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
    """Write out/report.html, and its summary to out/report.md, from the records in out/records.

    With `docs`, write docs/reproduction.md and docs/reproduction/report.html too. Return the path
    of the report.
    """
    out = Path(out)
    records, origin = read_records(out / "records")
    whole = page(records, origin)
    summary = in_markdown(whole, records, origin)
    pages = {out / "report.md": summary}
    if docs is not None:
        write(whole, Path(docs) / "reproduction" / "report.html")
        pages[Path(docs) / "reproduction.md"] = summary
    for path, text in pages.items():
        with written_whole(path) as partial_path:
            partial_path.write_text(text, encoding="utf-8")
    return write(whole, out / "report.html")


def page(records: Records, origin: Mapping[str, Any]) -> Page:
    """Return the whole report; `origin` is the provenance of the records."""
    every = every_network(records)
    sections = tuple(_sections(findings(records), every))
    foot = tuple(facts(every, origin))
    series = tuple(SERIES.values())
    return Page(TITLE, tuple(_lead(every)), sections, series, contents=False, foot=foot)


def in_markdown(whole: Page, records: Records, origin: Mapping[str, Any]) -> str:
    """Return the summary in Markdown, with a link to the report."""
    every = every_network(records)
    summary = whole.sections[0]
    parts = [
        "# The paper, reproduced",
        *_lead(every),
        "Made by the command below; [the full report](reproduction/report.html) has every figure "
        f"and table.\n\n    {origin['command']}",
        f"## {summary.title}",
        *summary.text,
        *(markdown(table).strip() for table in summary.tables),
        *summary.notes,
        "## Where the numbers come from",
        "\n".join(f"- {name}: {value}" for name, value in facts(every, origin)),
    ]
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


def _sections(found: Mapping[str, Finding], every: list[Networks]) -> Iterator[Section]:
    # figures of both recipes look alike; the tables have the numbers of both
    drawn = list({each.dataset: each for each in reversed(every)}.values())[::-1]
    folded = partial(Section, open=False)
    yield Section(
        "summary",
        "What holds, and what does not",
        (f"Numbers are of {leading(every).title}, N = {ABLATION_N}, unless a line says more.",),
        tables=(_summary_table(found),),
        notes=(RULES,),
    )
    yield folded(
        "evidence",
        "The evidence, claim by claim",
        ("Each claim under every reading, on every data set and both kinds of networks.",),
        tables=tuple(_evidence_table(finding) for finding in found.values()),
    )
    metrics = ("absolute_error", "ranking_accuracy")
    yield folded(
        "rq1",
        "RQ1: how close to the exact Shapley values (Figure 2)",
        (
            "Absolute error is the sum over features of |φ - φ̂|; ranking accuracy ranks the signed "
            "values, and counts rank m with weight 1/m. Bars are 95 % intervals of the means; "
            "dashed lines are the authors' released numbers.",
        ),
        figures=tuple(figures.metric_figure(networks, metrics) for networks in every),
        tables=tuple(_comparisons(every, metrics)),
    )
    metrics = ("faithfulness", "monotonicity")
    yield folded(
        "rq2",
        "RQ2: how faithful to the model (Figure 3)",
        (
            "Faithfulness is the correlation between the values and the change of the prediction "
            "when each feature alone is left out. Monotonicity is how often a feature, added to "
            "those ranked above it, gains at least as much as the next one. The exact Shapley "
            "values have scores below 1: the dotted line. A method above that line is not better "
            "than the exact values, but wrong in a way that these metrics reward.",
        ),
        figures=tuple(figures.metric_figure(networks, metrics) for networks in drawn),
        tables=tuple(_comparisons(every, metrics)),
    )
    yield folded(
        "rq3",
        "RQ3: accuracy against speed (Figure 4 a-c)",
        (
            "Derivatives count, other than in the authors' timings. One row at a time, this "
            "library's overhead hides the methods' cost. Bars reach from the first tenth of the "
            "timings to the last.",
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


def _comparisons(every: Sequence[Networks], metrics: Sequence[str]) -> Iterator[Table]:
    for networks, metric, reading in product(every, metrics, READINGS):
        yield _comparison_table(networks, reading, metric)


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
            errors = [
                (networks.mean(method, ABLATION_N, "absolute_error").mean, label_of(method))
                for method in networks.methods(reading)
            ]
            ranking = ", ".join(f"{name} {error:.2g}" for error, name in sorted(errors))
            lines.append(f"{reading:<12}absolute error at N = {ABLATION_N}: {ranking}")
        lines.append("")
    lines += [f"{each.verdict}: {each.claim.says}" for each in findings(records).values()]
    return "\n".join(lines)


# Tables


PAPER_ACCURACY = {"census": "84.7", "bank": "89.8", "criteo": "71.09"}  #: %
VARYING = ("seed", "accuracy")  #: columns of the record of a network that others do not share
NUMBERS = ("learning_rate", "majority", "truth_error", "size")


# Findings


def _summary_table(found: Mapping[str, Finding]) -> Table:
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


def _evidence_table(finding: Finding) -> Table:
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


def _comparison_table(networks: Networks, reading: Reading, metric: str) -> Table:
    """Return a metric of all methods of a reading by N: its mean, and SHEAR beside it.

    Errors are compared by SHEAR's over the method's, scores by SHEAR's less the method's.
    """
    methods = networks.methods(reading)
    errors = metric == "absolute_error"
    rows = []
    for method in methods:
        cells = []
        for n in networks.n():
            mean = networks.mean(method, n, metric).mean
            cell = f"{mean:.1e}" if 0 < mean < 1e-3 else f"{mean:.3g}"
            if method != "shear":
                found = compare(networks, "shear", method, n, metric)
                number = Number(found.interval, "", ".2f" if errors else "+.3f")
                cell = f"{cell}: {number} {found.verdict}"
            cells.append(cell)
        rows.append((label_of(method), *cells))
    names = ", ".join(f"{label_of(method)} is `{_library_name(method)}`" for method in methods)
    return Table(
        f"{METRICS[metric].capitalize()}, baselines {READING_WORDS[reading]}: {networks.title}",
        ("method", *(f"N = {n}" for n in networks.n())),
        tuple(rows),
        notes=(
            f"Mean: SHEAR's {METRICS[metric]} {'over' if errors else 'less'} the method's, 95 % "
            "interval, and the verdict on SHEAR.",
            f"In the library: {names}.",
        ),
        open=False,
    )


def _library_name(method: str) -> str:
    return 'Shear(interaction="block-maximum")' if method == "shear-authors" else method


def _setup_table(every: Sequence[Networks]) -> Table:
    """Return the data sets and networks as they are, with the accuracy that the paper prints."""
    shared = [name for name in STUDIES["models"].names if name not in VARYING]
    rows = []
    for networks in every:
        models = networks.records["models"]
        first = models.to_pylist()[0]
        cells = [f"{first[name]:.4g}" if name in NUMBERS else str(first[name]) for name in shared]
        accuracies = " ".join(f"{100 * each:.1f}" for each in column(models, "accuracy"))
        rows.append((*cells, accuracies, PAPER_ACCURACY.get(networks.dataset, "")))
    return Table(
        "Data sets, networks and ground truth; what differs, of the first network",
        (*(name.replace("_", " ") for name in shared), "accuracies, %", "the paper's, %"),
        tuple(rows),
        notes=(
            "All: Adam. Not in the paper: softplus, gradient norms clipped at 0.1, and how columns "
            "are encoded. Quirk: the background of a category is the mean of its 0/1 columns, in a "
            "space where these columns are standardised. `size` is mean ‖φ‖₁.",
        ),
        left=10,
        open=False,
    )
