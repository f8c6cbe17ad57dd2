"""The page of the reproduction, and the documentation's short one: all of it comes from records."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shearshap.report import Page, Section, write
from shearshap.store import written_whole
from shearshap_lab.experiments import paper_sections as sections
from shearshap_lab.experiments.bootstrap import TOO_FEW
from shearshap_lab.experiments.findings import Finding, findings
from shearshap_lab.experiments.paper_sections import THRESHOLDS, listed, place_of
from shearshap_lab.experiments.paper_tables import markdown, summary
from shearshap_lab.experiments.records import Records, column, provenance, read
from shearshap_lab.experiments.style import SERIES
from shearshap_lab.experiments.summaries import Networks, every_network, values_of

TITLE = "SHEAR, reproduced"


def report(out: Path | str, *, docs: Path | str | None = None) -> Path:
    """Write out/report.html and out/tables.md from the records in out/records.

    With `docs`, write docs/reproduction.md too, and the report to docs/reproduction/report.html.
    Return the path of the report.
    """
    out = Path(out)
    records = read(out / "records")
    origin = provenance(out / "records")
    whole = page(records, origin)

    tables = [markdown(table) for section in whole.sections for table in section.tables]
    with written_whole(out / "tables.md") as partial:
        partial.write_text("\n".join(tables), encoding="utf-8")
    if docs is not None:
        write(whole, Path(docs) / "reproduction" / "report.html")
        with written_whole(Path(docs) / "reproduction.md") as partial:
            partial.write_text(short(records, origin), encoding="utf-8")
    return write(whole, out / "report.html")


def page(records: Records, origin: Mapping[str, Any]) -> Page:
    """Return the whole report; `origin` is the provenance of the records."""
    return Page(
        TITLE,
        (_lead(records),),
        (),
        tuple(section for section in _sections(records) if section is not None),
        tuple(SERIES.values()),
        contents=False,
        foot=tuple(facts(records, origin)),
    )


def _sections(records: Records) -> list[Section | None]:
    found = findings(records)
    every = every_network(records)
    more = every_network(records, recipes=("authors-mean",))
    # figures of both recipes look alike; the tables have the numbers of both
    drawn = list({each.dataset: each for each in reversed(every)}.values())[::-1]
    return [
        sections.summary(found, every),
        sections.evidence(found),
        sections.error(every, more),
        sections.faithfulness(every, drawn),
        sections.speed(every),
        sections.parts(every, drawn),
        sections.theory(drawn),
        sections.training(every),
        sections.illustration(records),
        sections.setup(records),
        sections.reading(),
    ]


def _lead(records: Records) -> str:
    names = listed(values_of(records["models"], "dataset"))
    return (
        'Every claim of "Accelerating Shapley Explanation via Contributive Cooperator Selection" '
        f"(ICML 2022), measured on {names}."
    )


# Provenance


def facts(records: Records, origin: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield where the numbers come from, each fact with its name."""
    every = every_network(records)
    yield "Command", f"`{origin['command'] or 'not known'}`"
    yield "Commit", f"`{origin['commit']}`, code `{origin['code']}`"
    yield "Versions", origin["versions"]
    yield "Machine", f"{origin['machine']}, {origin['threads']} threads"
    yield "Wall time", wall_time(origin["seconds"])
    yield "Networks", _seeds(every)
    yield "Rows and rounds", _rounds(every)


def wall_time(seconds: float) -> str:
    """Return "34 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h"] if hours else []
    parts += [f"{minutes} min"] if hours or minutes else []
    return " ".join([*parts, f"{rest} s"])


def _seeds(every: Iterable[Networks]) -> str:
    """Return "census: 5 authors, 5 ours; ..."."""
    counts: dict[str, list[str]] = {}
    for networks in every:
        count = len(networks.records["models"])
        counts.setdefault(networks.dataset, []).append(f"{count} {networks.recipe}")
    return "; ".join(f"{name}: {', '.join(parts)}" for name, parts in counts.items())


def _rounds(every: Iterable[Networks]) -> str:
    """Return "census: 400 test rows, 5 rounds; ..."."""
    parts = {}
    for networks in every:
        rows = networks.records["models"]["rows"].to_pylist()[0]
        rounds = int(np.max(column(networks.records["estimates"], "round"))) + 1
        noun = "round" if rounds == 1 else "rounds"
        alone = rows == len(networks.records["models"]) == 1
        few = f" ({TOO_FEW} for intervals)" if alone else ""
        parts[networks.dataset] = f"{networks.dataset}: {rows} test rows, {rounds} {noun}{few}"
    return "; ".join(parts.values())


# The documentation's page


def short(records: Records, origin: Mapping[str, Any]) -> str:
    """Return the summary as a page of the documentation, which links to the whole report."""
    found = findings(records)
    every = every_network(records)
    parts = [
        "# The paper, reproduced",
        f"{_lead(records)} This page is made by the command below, and by nothing else; "
        "[the full report](reproduction/report.html) has every figure and table.",
        f"    {origin['command']}",
        f"At commit `{origin['commit']}`, in {wall_time(origin['seconds'])}.",
        "## What holds",
        f"{THRESHOLDS} Numbers are of {place_of(every)}, unless a line says otherwise.",
        *(_paragraph(finding) for finding in found.values()),
        "## All counts",
        _table(found, every),
        "## Where the numbers come from",
        "\n".join(f"- {name}: {value}" for name, value in facts(records, origin)),
    ]
    return "\n\n".join(parts) + "\n"


def _paragraph(finding: Finding) -> str:
    headline = f"{finding.headline.words}: **{finding.headline}**"
    headline = headline[0].upper() + headline[1:]
    return f"- **{finding.claim}.** {headline}. {finding.sentence}"


def _table(found: Mapping[str, Finding], every: list[Networks]) -> str:
    """Return the counts of the summary, without its numbers and sentences."""
    whole = summary(found, place_of(every))
    lines = ["| the paper says | the authors' networks | our networks |", "| --- | --- | --- |"]
    for claim, authors, ours, *_ in whole.rows:
        lines.append(f"| {claim} | {authors} | {ours} |")
    return "\n".join(lines)
