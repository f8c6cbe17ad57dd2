"""What the benchmarks share: the Census-like network, timing and tables."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import torch
from torch import nn

INPUTS, PLAYERS, BUDGET = 107, 13, 208
GROUPS = [[i] for i in range(5)] + [
    block.tolist() for block in np.array_split(np.arange(5, INPUTS), 8)
]


def census_like() -> tuple[
    nn.Sequential, np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.float32]]
]:
    """Return a 64-64-2 network on 107 inputs (5 numbers, 8 one-hot blocks), 200 000 rows and a
    reference row.
    """
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(INPUTS, 64), nn.Softplus(), nn.Linear(64, 64), nn.Softplus(), nn.Linear(64, 2)
    )
    rng = np.random.default_rng(0)
    rows = np.zeros((200_000, INPUTS), dtype=np.float32)
    rows[:, :5] = rng.normal(size=(len(rows), 5))
    for block in GROUPS[5:]:
        rows[np.arange(len(rows)), rng.choice(block, size=len(rows))] = 1
    return net.eval(), rows, rows.mean(axis=0)


def seconds(run: Callable[[], object], device: str = "cpu", repeats: int = 5) -> float:
    """Return the median time of a run, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join(lines)


def machine(device: str = "cpu") -> str:
    """Return the machine and versions in one line."""
    names = ("shearshap", "torch", "numpy", "shap", "captum", "shapiq")
    versions = ", ".join(f"{name} {found}" for name in names if (found := _version(name)))
    place = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{os.cpu_count()} cores, {platform.machine()}"
    )
    return f"{place}; Python {platform.python_version()}, {versions}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
