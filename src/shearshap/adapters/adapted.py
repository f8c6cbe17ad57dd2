"""What an adapter tells of a model: how to ask it, and what it takes and returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shearshap.adapters.outputs import Form

_CPU = torch.device("cpu")
Embedding = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]


@dataclass(frozen=True)
class AdaptedModel:
    """A model of any kind, as the rest of the library sees it."""

    ask: Callable[[Any], Any]  #: what the model takes to what it returns
    form: Form | None = None  #: whether it returns probabilities or margins; None: unknown
    independent: bool = (
        False  #: whether each output has a probability of its own, instead of all sharing one
    )
    output_names: Sequence[str] = ()  #: of all its outputs, such as a classifier's classes
    feature_names: Sequence[str] = ()  #: of the columns that it was trained with
    takes_tensors: bool = False  #: tensors, on its device; else numpy arrays and frames
    takes_frames: bool = True  #: as they are; else as a matrix of numbers
    takes_missing: bool = False  #: whether it knows what to do with NaN in a numpy array
    device: torch.device = _CPU
    dtype: torch.dtype | None = None  #: the floating type it takes; None: the rows' own
    differentiable: bool = False  #: whether gradients flow from outputs to inputs
    embedding: Embedding | None = (
        None  #: inputs (n, d) to embeddings (n, d, e), and those to what the model returns
    )
