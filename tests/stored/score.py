"""Models of the stored files. Leave this file as it is: the folders of jobs know its hash."""

from typing import Any

import numpy as np


def predict(frame: Any) -> Any:
    """Return (n,) probabilities."""
    level = (
        frame["a"] + frame["b"].fillna(0) * (frame["kind"] == "low") + frame["new"].astype(float)
    )
    return 1 / (1 + np.exp(-level - (frame["s"] == "x") * frame["b"].fillna(1)))


def product(frame: Any) -> Any:
    """Return (n,) numbers."""
    return frame["a"] * frame["b"] + np.sin(frame["c"] * frame["d"]) - frame["e"]
