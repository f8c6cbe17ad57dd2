"""Models and tables in files to explanations in files: what `shear explain` does, from Python.

outcome = Job(model="model.onnx", data=Path("rows.csv"), out=Path("values.parquet")).run()
print(outcome.summary)

A large job has a folder of Parquet files, or one large file, and writes a folder of parts:

job = LargeJob(model="model.onnx", data=Path("rows"), out=Path("values"))
print(run(job, executor=LocalProcesses(workers=2)))
"""

from shearshap.jobs.executors import Executor, InProcess, LocalProcesses, Report
from shearshap.jobs.job import Job, Outcome
from shearshap.jobs.large import Summary, is_large, run
from shearshap.jobs.large_job import LargeJob
from shearshap.jobs.models import FolderOpener
from shearshap.jobs.result import Result
from shearshap.jobs.shards import Shard

__all__ = [
    "Executor",
    "FolderOpener",
    "InProcess",
    "Job",
    "LargeJob",
    "LocalProcesses",
    "Outcome",
    "Report",
    "Result",
    "Shard",
    "Summary",
    "is_large",
    "run",
]
