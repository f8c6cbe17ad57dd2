"""Every experiment of the paper: a frozen specification -> tidy records in Parquet -> figures,
tables and a report.
"""

from shearshap_lab.experiments.paper_page import report
from shearshap_lab.experiments.printed import printed
from shearshap_lab.experiments.records import STUDIES, read
from shearshap_lab.experiments.runner import run
from shearshap_lab.experiments.spec import ABLATIONS, PROTOCOLS, Spec, specifications

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
