"""A made-up file of Criteo's format, with interactions that a network can learn."""

from pathlib import Path

import numpy as np


def criteo_file(path: Path, rows: int = 3000, seed: int = 0) -> Path:
    """Write rows of a label, 13 integers and 26 categories, some of them blank."""
    rng = np.random.default_rng(seed)
    counts = np.floor(rng.lognormal(1.5, 1.5, size=(rows, 13))).astype(int)
    kinds = rng.integers(0, 4 + np.arange(26), size=(rows, 26))
    signs = 2.0 * (kinds % 2) - 1
    odds = 1.5 * (signs[:, 0] * signs[:, 1] + signs[:, 2] * signs[:, 3] * signs[:, 4]) - 1
    labels = rng.random(rows) < 1 / (1 + np.exp(-odds))
    blank = rng.random((rows, 39)) < 0.05
    cells = np.concatenate([counts.astype(str), np.char.mod("%08x", kinds + 1)], axis=1)
    cells = np.where(blank, "", cells)
    lines = ["\t".join((str(int(label)), *line)) for label, line in zip(labels, cells, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path
