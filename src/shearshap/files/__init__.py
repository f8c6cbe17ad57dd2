"""`shear explain`: models and tables in files to explanations in files, and a report of them.

`explain_file` does a `Job`, `write` keeps its `Result`, `summary` tells of it and `report` shows it.
"""

from shearshap.files.document import report
from shearshap.files.job import Job, Result, explain_file, facts, summary
from shearshap.files.tables import write

__all__ = ["Job", "Result", "explain_file", "facts", "report", "summary", "write"]
