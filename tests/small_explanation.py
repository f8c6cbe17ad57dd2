"""A small explanation to hand to other libraries, and the texts that they draw of it."""

from typing import Any

import numpy as np

from shearshap import Explanation

NAMES = ["age", "job", "pay", "sex"]


def explanation(
    *,
    outputs: tuple[int, ...] = (),
    errors: bool = True,
    words: bool = False,
    rows: int = 12,
    interactions: bool = False,
) -> Explanation:
    """Values that are largest for "pay", then "sex", "age" and "job"."""
    rng = np.random.default_rng(0)
    size = np.array([0.5, 0.1, 3.0, 1.0]).reshape(4, *[1] * len(outputs))
    values = rng.normal(size=(rows, 4, *outputs)) * size
    base = rng.normal(size=(rows, *outputs))
    pairs = rng.normal(size=(rows, 4, 4, *outputs))
    shown = np.array([["41", "cook", "9.5", None]] * rows, dtype=object)
    return Explanation(
        values=values,
        base_values=base,
        predictions=base + values.sum(axis=1),
        standard_errors=np.full(values.shape, 0.125) if errors else None,
        interactions=pairs + pairs.swapaxes(1, 2) if interactions else None,
        evaluations=64,
        derivative_passes=0,
        method="kriging",
        seed=0,
        feature_names=NAMES,
        output_names=["yes", "no", "maybe"][: outputs[0]] if outputs else ["output"],
        data=rng.normal(size=(rows, 4)),
        display_data=shown if words else None,
    )


def texts(figure: Any) -> str:
    """All texts of a figure of matplotlib."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))
