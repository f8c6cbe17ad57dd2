"""Every experiment of the paper: a frozen specification -> tidy records in Parquet -> figures,
tables and a report.
"""

from shearshap_lab.experiments.page import printed, report
from shearshap_lab.experiments.runner import run
from shearshap_lab.experiments.spec import ABLATIONS, READINGS, STUDIES, Spec, read, specifications

__all__ = [
    "ABLATIONS",
    "READINGS",
    "STUDIES",
    "Spec",
    "printed",
    "read",
    "report",
    "run",
    "specifications",
]
