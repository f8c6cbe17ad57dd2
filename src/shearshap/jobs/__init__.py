"""`shear explain`: models and tables in files to explanations in files, and a report of them.

`explain_file` does a `Job`, `write` keeps its `Result`, `summary` tells of it and `report` shows
it.
"""

from shearshap.jobs.explained_page import report
from shearshap.jobs.job import Job, Result, explain_file, facts, summary
from shearshap.jobs.tables import write

__all__ = ["Job", "Result", "explain_file", "facts", "report", "summary", "write"]
