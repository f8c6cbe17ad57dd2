"""The result of explaining: Shapley values, what they add up to, how sure they are and what they
cost.
"""

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from shearshap.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of r rows and p players, for one output (no k axis) or k outputs."""

    values: Floats  #: (r, p) or (r, p, k)
    base_values: Floats  #: (r,) or (r, k): the value with all players absent
    predictions: Floats  #: (r,) or (r, k): the value with all players present
    standard_errors: Floats | None  #: like values; None where the method has none
    #: model evaluations spent on one row, base value and prediction included; the most of any row
    evaluations: int
    derivative_passes: (
        int  #: passes through the model spent on one row for derivatives, not in `evaluations`
    )
    method: str  #: its name in METHODS, or how the instance prints; what "auto" chose
    seed: int
    calibration: Any = (
        None  #: what a calibrated method fitted; give it back as an option to reuse it
    )
    degrees_of_freedom: float = (
        inf  #: of the standard errors: how many independent draws they rest on, less one
    )
    row_evaluations: NDArray[np.int64] | None = (
        None  #: (r,) evaluations of every row, where `tol` let rows stop early
    )
    converged: NDArray[np.bool_] | None = (
        None  #: (r,) whether a row's standard errors came below `tol`; None without
    )
    interactions: Floats | None = (
        None  #: (r, p, p) or (r, p, p, k): k-SII of order 2, on the diagonal the main effects
    )
    cross_contribution: Floats | None = (
        None  #: (r, p, p): how strongly two players act together, summed over outputs
    )
    feature_names: list[str] = field(default_factory=list)  #: of the p players
    output_names: list[str] = field(default_factory=list)  #: of the k outputs, or of the one
    data: Floats | None = (
        None  #: (r, p) a number for every player's value, to colour and to order by
    )
    display_data: NDArray[np.object_] | None = (
        None  #: (r, p) the values as people read them, where not `data`
    )

    def __post_init__(self) -> None:
        """Number the players and outputs that have no name."""
        _, players, *outputs = self.values.shape
        if not self.feature_names:
            object.__setattr__(self, "feature_names", [f"x{player}" for player in range(players)])
        if not self.output_names:
            names = [f"output {output}" for output in range(outputs[0])] if outputs else ["output"]
            object.__setattr__(self, "output_names", names)

    @property
    def gap(self) -> Floats:
        """What the shares miss of prediction - base value, (r,) or (r, k)."""
        return np.asarray(self.predictions - self.base_values - self.values.sum(axis=1))

    def corrected(self) -> "Explanation":
        """Return the explanation with each row's gap shared out equally, so that it adds up.

        The nearest efficient shares in the least-squares sense. Methods that promise efficiency
        need none.
        """
        players = self.values.shape[1]
        more = self.gap[:, None] / players
        pairs = self.interactions
        if pairs is not None:
            alone = np.eye(players)[:, :, None] if pairs.ndim == 4 else np.eye(players)
            pairs = pairs + alone * more[:, :, None]
        return replace(self, values=self.values + more, interactions=pairs)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the confidence interval of every value, lower and upper bound, each like `values`.

        value -+ t standard_error, with Student's t of the standard errors' degrees of freedom.
        """
        if not 0 < level < 1:
            raise InputError(f"level: wanted a number between 0 and 1, such as 0.95, got {level!r}")
        if self.standard_errors is None:
            raise InputError(
                f"{self.method} has no standard errors; try method='kriging' or "
                "'permutation-antithetic'"
            )
        margin = student.ppf((1 + level) / 2, self.degrees_of_freedom) * self.standard_errors
        return self.values - margin, self.values + margin

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def __getitem__(self, rows: int | slice | NDArray[Any] | list[int]) -> "Explanation":
        """Return the explanation of some of the rows; of a single one, with the row axis kept."""
        if isinstance(rows, tuple):
            raise InputError(
                "an explanation is indexed by rows; for one of its outputs take "
                "explanation.output(name)"
            )
        kept = np.arange(len(self))[rows].reshape(-1)
        by_row = (
            "values",
            "base_values",
            "predictions",
            "standard_errors",
            "row_evaluations",
            "converged",
        )
        more = ("interactions", "cross_contribution", "data", "display_data")
        parts = {name: getattr(self, name) for name in (*by_row, *more)}
        taken = {name: part[kept] for name, part in parts.items() if part is not None}
        if self.row_evaluations is not None and len(kept):
            taken["evaluations"] = int(self.row_evaluations[kept].max())
        return replace(self, **taken)

    def output(self, which: int | np.integer[Any] | str) -> "Explanation":
        """Return the explanation of one of several outputs, by its name or number."""
        number = self._output_number(which)
        if self.values.ndim == 2:
            return self
        parts = {
            name: getattr(self, name)
            for name in ("values", "base_values", "predictions", "standard_errors", "interactions")
        }
        chosen = {name: part[..., number] for name, part in parts.items() if part is not None}
        return replace(self, **chosen, output_names=[self.output_names[number]])

    def _output_number(self, which: int | np.integer[Any] | str) -> int:
        count = len(self.output_names)
        if isinstance(which, str) and which in self.output_names:
            return self.output_names.index(which)
        if isinstance(which, int | np.integer) and -count <= which < count:
            return int(which) % count
        raise InputError(
            f"there is no output {which!r}; there are {', '.join(self.output_names)} (0 to "
            f"{count - 1})"
        )

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a tidy table, one line for each row, player and output.

        Columns: row, output, player, value, standard_error (missing where there is none), data,
        base_value, prediction.
        """
        from shearshap.interop.conversions import tidy

        return tidy(self, backend)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` that every shap plot takes; of several outputs, one at a
        time: `[:, :, k]`.
        """
        from shearshap.interop.conversions import shap_explanation

        return shap_explanation(self)

    def to_shapiq(self, row: int = 0, output: int | str = 0) -> Any:
        """Return the `shapiq.InteractionValues` of one row and output: Shapley values, or k-SII
        where there are.
        """
        from shearshap.interop.conversions import interaction_values

        return interaction_values(self, row, output)

    def __repr__(self) -> str:
        """Return the shape, the method and the cost in one line."""
        rows, players, *outputs = self.values.shape
        several = f", {outputs[0]} outputs" if outputs else ""
        passes = f" + {self.derivative_passes} derivative passes" if self.derivative_passes else ""
        return (
            f"Explanation({rows} rows, {players} players{several}, method={self.method!r}, "
            f"{self.evaluations} evaluations{passes} a row)"
        )
