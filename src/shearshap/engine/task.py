"""What is to be explained: a model, rows, and how the user wants to see both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from shearshap.models import Form, Output, Scale


@dataclass(frozen=True, eq=False)
class Task:
    """A model and rows, with the options that say what of them is explained.

    See `shearshap.Explainer` for what each of them may be.
    """

    model: Any
    rows: Any
    background: Any
    groups: Any = None
    output: Output = None
    scale: Scale | None = None
    returns: Form | None = None
    multilabel: bool | None = None
    feature_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    batch_size: int | Literal["auto"] = "auto"
    device: torch.device | str | None = None
    index: Any = None  #: a column of ids, or a label for each row
    background_word: str = "background"  #: the name the user passed it by, for errors
