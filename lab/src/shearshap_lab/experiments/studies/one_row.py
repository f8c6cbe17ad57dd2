"""The study of one row: SHEAR beside the exact values."""

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.methods import METHODS
from shearshap_lab.experiments.records import table
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.studies.setting_facts import names_of
from shearshap_lab.experiments.subject import Subject

ILLUSTRATED = 1.73  #: f1 - f0 of the row that the paper illustrates


def illustration(subject: Subject) -> pa.Table:
    """Return SHEAR beside the exact values for one row.

    It is the row whose f1 - f0 is nearest to that of the paper's row.
    """
    place = int(np.abs(_margins(subject) - ILLUSTRATED).argmin())
    exact = subject.explain(
        METHODS["exact"], 1 << subject.players, output=_difference, rows=[place]
    )
    shear = subject.explain(
        METHODS["shear"], subject.budget(ABLATED), output=_difference, rows=[place]
    )
    row = int(subject.truth.rows[place])
    return table(
        "illustration",
        {
            **names_of(subject),
            "row": row,
            "feature": subject.dataset.feature_names,
            "value": [str(text) for text in subject.dataset.display[row]],
            "exact": exact.values[0],
            "shear": shear.values[0],
            "base_value": float(shear.base_values[0]),
            "prediction": float(shear.predictions[0]),
            "evaluations": shear.evaluations,
        },
    )


def _margins(subject: Subject) -> NDArray[np.float64]:
    """Return f1 - f0 of every row, (r,)."""
    with torch.no_grad():
        logits = subject.trained.network(torch.from_numpy(subject.inputs))
    return np.asarray(_difference(logits).numpy(), dtype=np.float64)


def _difference(logits: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]
