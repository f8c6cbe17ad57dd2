"""The result of explaining: Shapley values, what they add up to, how sure they are and what they cost."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of r rows and p players, for one output (no k axis) or k outputs."""

    values: Floats  #: (r, p) or (r, p, k)
    base_values: Floats  #: (r,) or (r, k): the value with all players absent
    predictions: Floats  #: (r,) or (r, k): the value with all players present
    standard_errors: Floats | None  #: like values; None where the method has none
    evaluations: int  #: model evaluations spent on one row, base value and prediction included
    derivative_passes: int  #: passes through the model spent on one row for derivatives, not in `evaluations`
    method: str  #: its name in METHODS, or how the instance prints; what "auto" chose
    seed: int
    calibration: Any = None  #: what a calibrated method fitted; give it back as an option to reuse it

    @property
    def gap(self) -> Floats:
        """What the shares miss of prediction - base value, (r,) or (r, k)."""
        return np.asarray(self.predictions - self.base_values - self.values.sum(axis=1))

    def corrected(self) -> "Explanation":
        """Return the explanation with each row's gap shared out equally, so that it adds up.

        The nearest efficient shares in the least-squares sense. Methods that promise efficiency need none.
        """
        return replace(self, values=self.values + self.gap[:, None] / self.values.shape[1])

    def __repr__(self) -> str:
        """Return the shape, the method and the cost in one line."""
        rows, players, *outputs = self.values.shape
        several = f", {outputs[0]} outputs" if outputs else ""
        passes = f" + {self.derivative_passes} derivative passes" if self.derivative_passes else ""
        return (
            f"Explanation({rows} rows, {players} players{several}, method={self.method!r}, "
            f"{self.evaluations} evaluations{passes} a row)"
        )
