"""Models and tables in files to explanations in files: what `shear explain` does, from Python.

    outcome = Job(model="model.onnx", data="rows.csv", out="values.parquet").run()
    print(outcome.summary)

A large job has a folder of Parquet files, or one large file, and writes a folder of parts:

    Job(model="model.onnx", data="rows", out="values/").run(executor=LocalProcesses(workers=2))
"""

from importlib.util import find_spec

from shearshap.errors import InputError

for _library in ("jinja2", "pandas", "pyarrow"):
    if find_spec(_library) is None:
        raise InputError(f"a job needs {_library}: pip install 'shearshap[explain]'")

# ruff: noqa: E402  (they need these libraries)
from shearshap.apps.jobs.executors import Executor, InProcess, LocalProcesses
from shearshap.apps.jobs.job import Job
from shearshap.apps.jobs.result import Outcome
from shearshap.apps.jobs.shards import Shard, ShardResult
from shearshap.apps.report.result import Result

__all__ = [
    "Executor",
    "InProcess",
    "Job",
    "LocalProcesses",
    "Outcome",
    "Result",
    "Shard",
    "ShardResult",
]
