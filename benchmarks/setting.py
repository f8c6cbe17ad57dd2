"""What the benchmarks have in common: methods, the Census-like network, timing and the machine."""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shearshap import METHODS
from shearshap.methods.base import Method
from shearshap_lab import provenance
from shearshap_lab.baselines import BASELINES

EVERY_METHOD: dict[str, Method] = {**METHODS, **BASELINES}
SAMPLING = [name for name in METHODS if name not in ("exact", "auto")]

# the Census-like network
INPUTS = 107
PLAYERS = 13
BUDGET = 208
GROUPS = [[i] for i in range(5)] + [
    block.tolist() for block in np.array_split(np.arange(5, INPUTS), 8)
]


def census_like() -> tuple[nn.Sequential, NDArray[np.float32], NDArray[np.float32]]:
    """Return a 64-64-2 network on 107 inputs (5 numbers, 8 one-hot blocks), rows and background.

    There are 200 000 rows; the background is their mean.
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


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of options whose help is a script's docstring, as it stands."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def machine(device: str = "cpu") -> str:
    """Return the machine and versions in one line."""
    return f"{provenance.machine(device)}; {provenance.versions('shap', 'captum', 'shapiq')}"
