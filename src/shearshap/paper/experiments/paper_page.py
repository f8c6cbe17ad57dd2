"""The page of the reproduction: everything on it comes from the records."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shearshap.engine.store import written_whole
from shearshap.paper.experiments import paper_sections as sections
from shearshap.paper.experiments.paper_sections import ByDataset, listed
from shearshap.paper.experiments.paper_tables import markdown
from shearshap.paper.experiments.records import Records, column, provenance, read
from shearshap.paper.experiments.spec import Protocol
from shearshap.paper.experiments.style import SERIES
from shearshap.paper.experiments.summaries import by_dataset, protocols_of, values_of
from shearshap.report import Page, Section, write

PROTOCOL_TEXTS: dict[Protocol, str] = {
    "paper": "**paper** runs the baselines as the paper does, in two readings: as its appendix "
    "describes them, and as the authors' released numbers show that they were run.",
    "fair": "**fair** gives every method the same budget of model evaluations, and runs the best "
    "implementation of each.",
}


def report(out: Path | str) -> Path:
    """Write out/report.html and out/tables.md from the records in out/records.

    Return the path of the report.
    """
    out = Path(out)
    records = read(out / "records")
    command = provenance(out / "records")["command"]
    whole = page(records, command)

    tables = [markdown(table) for section in whole.sections for table in section.tables]
    with written_whole(out / "tables.md") as partial:
        partial.write_text("\n".join(tables), encoding="utf-8")
    return write(whole, out / "report.html")


def page(records: Records, command: str) -> Page:
    """Return the whole report; `command` is what made the records."""
    return Page(
        "SHEAR, reproduced",
        tuple(_lead(records)),
        tuple(_facts(records, command)),
        tuple(section for section in _sections(records) if section is not None),
        tuple(SERIES.values()),
    )


def _sections(records: Records) -> list[Section | None]:
    datasets = by_dataset(records)
    return [
        sections.summary(datasets),
        sections.error(datasets),
        sections.faithfulness(datasets),
        sections.speed(datasets),
        sections.parts(datasets),
        sections.illustration(records),
        sections.theory(datasets),
        sections.setup(records),
        sections.reading(),
    ]


def _lead(records: Records) -> Iterable[str]:
    names = listed(values_of(records["models"], "dataset"))
    yield (
        'Every experiment of "Accelerating Shapley Explanation via Contributive Cooperator '
        f'Selection" (ICML 2022), run on {names}.'
    )
    for protocol in protocols_of(records["estimates"]):
        if protocol in PROTOCOL_TEXTS:
            yield PROTOCOL_TEXTS[protocol]


def _facts(records: Records, command: str) -> Iterable[tuple[str, str]]:
    datasets = by_dataset(records)
    yield "Command", f"`{command or 'not known'}`"
    yield "Networks", _seeds(datasets)
    yield "Rows and rounds", _rounds(datasets)
    yield "Machine of the timings", "; ".join(values_of(records["timings"], "machine"))
    yield "Versions", "; ".join(values_of(records["models"], "versions"))


def _seeds(datasets: ByDataset) -> str:
    """Return "census: seeds 0, 1 and 2; ..."."""
    parts = []
    for name, records in datasets.items():
        seeds = values_of(records["models"], "seed")
        noun = "seed" if len(seeds) == 1 else "seeds"
        parts.append(f"{name}: {noun} {listed(seeds)}")
    return "; ".join(parts)


def _rounds(datasets: ByDataset) -> str:
    """Return "census: 400 test rows, 5 rounds; ..."."""
    parts = []
    for name, records in datasets.items():
        rows = records["models"]["rows"].to_pylist()[0]
        rounds = int(np.max(column(records["estimates"], "round"))) + 1
        noun = "round" if rounds == 1 else "rounds"
        parts.append(f"{name}: {rows} test rows, {rounds} {noun}")
    return "; ".join(parts)
