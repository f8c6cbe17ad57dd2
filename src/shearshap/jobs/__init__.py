"""Models and tables in files to explanations in files: what `shear explain` does, from Python.

outcome = Job(model="model.onnx", data=Path("rows.csv"), out=Path("values.parquet")).run()
print(outcome.summary)
"""

from shearshap.jobs.job import Job, Outcome
from shearshap.jobs.models import FolderOpener
from shearshap.jobs.result import Result

__all__ = ["FolderOpener", "Job", "Outcome", "Result"]
