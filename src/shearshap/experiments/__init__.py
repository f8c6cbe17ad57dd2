"""Every experiment of the paper: a frozen specification -> tidy records in Parquet -> figures, tables and a report."""

from shearshap.experiments.document import report
from shearshap.experiments.printed import printed
from shearshap.experiments.records import STUDIES, read
from shearshap.experiments.run import run
from shearshap.experiments.spec import ABLATIONS, PROTOCOLS, Spec, specifications

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
