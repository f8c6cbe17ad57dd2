"""Findings on the made-up census records, by the name of the claim."""

from paper_records import CENSUS
from shearshap.paper.experiments.findings import CLAIMS, Finding
from shearshap.paper.experiments.records import Records


def held(name: str, records: Records = CENSUS) -> list[Finding]:
    """Return the findings of one claim."""
    (claim,) = (claim for claim in CLAIMS if claim.__name__ == name)
    return claim(records)


def evidence(name: str, records: Records = CENSUS) -> str:
    """Return the evidence of the last finding of a claim."""
    return held(name, records)[-1].evidence
