"""How tests run: one thread for each process, and in CI the same examples every time.

Several processes that each use every core only wait for one another. New random examples are for a developer's machine,
where a failure can be looked into.
"""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
