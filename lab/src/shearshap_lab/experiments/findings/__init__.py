"""What the paper claims, and what the records show: each claim is a function of all networks.

A claim is counted under each reading of the paper: in how many cases it holds (a win), is left open
(a tie) and fails (a loss), by intervals of `bootstrap`.
"""

from collections.abc import Callable, Sequence

from shearshap_lab.experiments.findings import comparing, parts, released, speed, theorems
from shearshap_lab.experiments.findings.finding import Counts, Finding, Number, Reading
from shearshap_lab.experiments.records import Records
from shearshap_lab.experiments.summaries import MEASURED, Networks, every_network

__all__ = ["CLAIMS", "Counts", "Finding", "Number", "Reading", "findings"]

CLAIMS: dict[str, Callable[[Sequence[Networks]], Finding | None]] = {
    "least_error": comparing.least_error,
    "best_ranking": comparing.best_ranking,
    "perturbation": comparing.perturbation,
    "consistent": comparing.consistent,
    "steadiest": comparing.steadiest,
    "newer_methods": comparing.newer_methods,
    "one_by_one": speed.one_by_one,
    "in_batches": speed.in_batches,
    "cost_model": speed.cost_model,
    "selection_dominates": parts.selection_dominates,
    "pairing": parts.pairing,
    "cross_contribution": parts.cross_contribution,
    "lower_bound": parts.lower_bound,
    "theorem_1": theorems.theorem_1,
    "theorem_2": theorems.theorem_2,
    "remark_2": theorems.remark_2,
    "efficiency": theorems.efficiency,
    "released_order": comparing.released_order,
    "training": released.training,
}
"""Every claim, in the order of the report; one that was not measured has no finding."""


def findings(records: Records) -> dict[str, Finding]:
    """Return every finding that the records allow, by the name of its claim.

    The first is about the released errors, which are judged on more recipes than all the others.
    """
    more = (*MEASURED, "authors-mean")
    every = {"released_error": released.released_error(every_network(records, recipes=more))}
    networks = every_network(records)
    every |= {name: claim(networks) for name, claim in CLAIMS.items()}
    return {name: finding for name, finding in every.items() if finding is not None}
