"""What the paper claims, what the records show, and why: each claim is a function of the records of
one data set.
"""

from collections.abc import Callable

from shearshap.paper.experiments.findings.bounds import efficiency, theorem_2
from shearshap.paper.experiments.findings.error import (
    least_error,
    released_best,
    released_error,
    released_order,
    state_of_the_art,
)
from shearshap.paper.experiments.findings.finding import Finding, Verdict
from shearshap.paper.experiments.findings.measured import consistent, least_deviation, perturbation
from shearshap.paper.experiments.findings.parts import (
    cross_contribution,
    lower_bound,
    selection_dominates,
)
from shearshap.paper.experiments.findings.speed import cost_model, fastest
from shearshap.paper.experiments.records import Records
from shearshap.report import Table

__all__ = ["CLAIMS", "Finding", "Verdict", "findings", "findings_table"]

CLAIMS: tuple[Callable[[Records], list[Finding]], ...] = (
    released_error,
    released_order,
    released_best,
    least_error,
    state_of_the_art,
    perturbation,
    consistent,
    least_deviation,
    selection_dominates,
    cross_contribution,
    lower_bound,
    fastest,
    cost_model,
    efficiency,
    theorem_2,
)
"""Every claim, in the order of the report; one that was not measured has no finding."""


def findings(records: Records) -> list[Finding]:
    """Return every finding that the records of one data set allow."""
    return [finding for claim in CLAIMS for finding in claim(records)]


def findings_table(records: Records, dataset: str) -> Table:
    """Return the findings on one data set as a table."""
    rows = [
        (finding.claim, f"**{finding.verdict}**", finding.evidence, finding.why)
        for finding in findings(records)
    ]
    return Table(
        f"What the paper says, and what {dataset} shows",
        ("the paper says", "here", "what was measured", "why"),
        tuple(rows),
        left=4,
    )
