"""How tests run: one thread for each process, and in CI the same examples every time.

Several processes that each use every core only wait for one another, and the processes in which
torch.compile would compile take longer to start than anything here to compile. New random
examples are for a developer's machine, where a failure can be looked into.
"""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of the documents and of the laboratory by the folder they lie in."""
    for item in items:
        folder = item.path.parent
        if folder.name == "docs":
            item.add_marker("docs")
        if folder.parent.name == "lab":
            item.add_marker("lab")
