"""A model that is loaded and prepared once, and then explains rows of cells block after block."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.engine.prepared import PreparedExplainer, with_fixed_background
from shearshap.errors import ModelError, ShearWarning
from shearshap.explainer import Explainer
from shearshap.jobs.job import Job, errors_with_files, explainer_of, open_files, our_warnings_as
from shearshap.result.explanation import Explanation
from shearshap.serve.encoding import ColumnEncoding, FrameEncoding, Rows
from shearshap.serve.features import Feature, cells_of, features_of
from shearshap.trees.exact_forest import ExactForest

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Advance = Callable[[int], None]
Encode = Callable[[Rows], Any]

SAMPLE = 200
"""Rows loaded that are explained at the start, for the global view and the calibration."""


def _unseen(_evaluations: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The explanations of a block's rows, with an axis of outputs."""

    values: Floats  #: (r, k, p)
    standard_errors: Floats | None  #: (r, k, p); None: the method has none
    base_values: Floats  #: (r, k)
    predictions: Floats  #: (r, k)
    evaluations: NDArray[np.int64]  #: (r,)
    method: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, explanation: Explanation, notes: Sequence[str]) -> "Answers":
        """Return an explanation as answers."""
        rows = len(explanation)
        spent = explanation.row_evaluations
        if spent is None:
            spent = np.full(rows, explanation.evaluations, dtype=np.int64)
        return cls(
            _outputs_first(explanation.values),
            None
            if explanation.standard_errors is None
            else _outputs_first(explanation.standard_errors),
            explanation.base_values.reshape(rows, -1),
            explanation.predictions.reshape(rows, -1),
            spent,
            explanation.method,
            tuple(dict.fromkeys((*explanation.notes, *notes))),
        )

    @classmethod
    def concat(cls, parts: Sequence["Answers"]) -> "Answers":
        """Return the answers of several blocks as one."""
        errors = [part.standard_errors for part in parts if part.standard_errors is not None]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate(errors) if len(errors) == len(parts) else None,
            np.concatenate([part.base_values for part in parts]),
            np.concatenate([part.predictions for part in parts]),
            np.concatenate([part.evaluations for part in parts]),
            ", ".join(dict.fromkeys(part.method for part in parts)),
            tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )

    def take(self, rows: slice) -> "Answers":
        """Return the answers of some of the rows."""
        errors = self.standard_errors
        return replace(
            self,
            values=self.values[rows],
            standard_errors=None if errors is None else errors[rows],
            base_values=self.base_values[rows],
            predictions=self.predictions[rows],
            evaluations=self.evaluations[rows],
        )


def _outputs_first(array: Floats) -> Floats:
    """Return an array (r, p) or (r, p, k) as (r, k, p)."""
    return array[:, None] if array.ndim == 2 else np.swapaxes(array, 1, 2)


@dataclass(eq=False)
class Prepared:
    """A model ready to explain rows of cells; one thread at a time may call it."""

    model: str  #: its name, for people
    background: str  #: in words
    rows: "pd.DataFrame"  #: those loaded
    features: tuple[Feature, ...]
    groups: dict[str, list[str]]  #: columns that are one player, by its name
    encode: Encode  #: rows of cells as the model takes them
    explainer: PreparedExplainer
    notes: tuple[str, ...]

    @property
    def overview(self) -> Explanation:
        """The explanation of a sample of the rows loaded."""
        return self.explainer.overview

    @property
    def forest(self) -> ExactForest | None:
        """The forest of a model of trees whose values are exact."""
        return self.explainer.forest

    @property
    def budget(self) -> int:
        """The evaluations to spend on a row if a request says nothing else."""
        return self.explainer.budget

    @property
    def least_budget(self) -> int:
        """The fewest evaluations a row."""
        return self.explainer.minimum_budget

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs that are explained."""
        return self.overview.output_names

    def explain(self, rows: Rows, budget: int | None = None, advance: Advance = _unseen) -> Answers:
        """Explain rows of cells, all of them as one block, or raise a `ShearError`.

        `advance` is called with the number of evaluations of each batch; it may raise one, too.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ShearWarning)
            try:
                frame = self.encode(rows)
                explanation = self.explainer.explain(frame, budget=budget, advance=advance)
            except SystemExit as error:
                raise ModelError(f"the model's code called exit (with {error.code!r})") from error
        notes = [str(each.message) for each in caught if issubclass(each.category, ShearWarning)]
        return Answers.of(explanation, notes)


def prepare(job: Job, *, sample: int = SAMPLE) -> Prepared:
    """Open a job's files, explain a sample of its rows, and return what explains any others."""
    opened = open_files(job)
    notes = opened.notes
    with our_warnings_as(notes), errors_with_files(job.data, opened.background):
        features = features_of(opened.rows)
        explainer = explainer_of(job, opened.model, opened.background)
        explainer, encode = _encoded(explainer, opened.rows, features)
        chosen = cells_of(_evenly_spaced(opened.rows, sample))
        prepared = explainer.prepare(encode(chosen), budget=job.budget, tol=job.tol)

    return Prepared(
        model=opened.model.name,
        background=opened.background.description,
        rows=opened.rows,
        features=features,
        groups={name: list(columns) for name, columns in job.groups.items()},
        encode=encode,
        explainer=prepared,
        notes=tuple(dict.fromkeys((*notes, *prepared.overview.notes))),
    )


def _encoded(
    explainer: Explainer, rows: "pd.DataFrame", features: Sequence[Feature]
) -> tuple[Explainer, Encode]:
    """Return the explainer with the background of all rows loaded, and how it is given rows."""
    fixed, types = with_fixed_background(explainer, rows)
    assert isinstance(fixed, Explainer)
    frames = FrameEncoding(features, types or dict(rows.dtypes))
    set_by_user = (fixed.groups, fixed.output_names, fixed.returns, fixed.multilabel)
    is_plain = all(option is None for option in set_by_user)
    if types is None or not hasattr(fixed.model, "encoded_") or not is_plain:
        return fixed, frames

    # a model that encodes column by column: encoded rows are mixed
    module, encode, groups = fixed.model.encoded_
    inside = replace(
        fixed,
        model=module,
        background=torch.from_numpy(encode(fixed.background)),
        groups=groups,
        scale=fixed.scale or "probability",
        returns="margin",
        output_names=[str(name) for name in fixed.model.classes_],
    )
    return inside, ColumnEncoding(frames, encode, groups)


def _evenly_spaced(rows: "pd.DataFrame", count: int) -> "pd.DataFrame":
    places = np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))
    return rows.iloc[places].reset_index(drop=True)
