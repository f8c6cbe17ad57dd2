"""Findings on the made-up records, by the name of the claim."""

from paper_records import CENSUS
from shearshap_lab.experiments.findings import CLAIMS, Counts, Finding
from shearshap_lab.experiments.findings.released import released_error
from shearshap_lab.experiments.records import Records
from shearshap_lab.experiments.summaries import every_network


def held(name: str, records: Records = CENSUS) -> Finding | None:
    """Return the finding of one claim, None where the records have nothing for it."""
    if name == "released_error":
        recipes = ("authors", "ours", "authors-mean")
        return released_error(every_network(records, recipes=recipes))
    return CLAIMS[name](every_network(records))


def counts(name: str, records: Records = CENSUS, recipe: str = "authors") -> dict[str, str]:
    """Return the wins-ties-losses of a claim by reading, on networks of one recipe."""
    finding = held(name, records)
    assert finding is not None
    found: dict[str, Counts] = finding.counts(recipe)
    return {reading: str(each) for reading, each in found.items()}
