"""Every experiment of the paper: a frozen specification -> tidy records in Parquet -> figures,
tables and a report.
"""

from shearshap.paper.experiments.paper_page import report
from shearshap.paper.experiments.printed import printed
from shearshap.paper.experiments.records import STUDIES, read
from shearshap.paper.experiments.runner import run
from shearshap.paper.experiments.spec import ABLATIONS, PROTOCOLS, Spec, specifications

__all__ = [
    "ABLATIONS",
    "PROTOCOLS",
    "STUDIES",
    "Spec",
    "printed",
    "read",
    "report",
    "run",
    "specifications",
]
