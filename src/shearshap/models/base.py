"""What the rest of the library knows of a model: how to call it, what it takes, what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Scale = Literal["probability", "log-odds", "margin", "logit"]

#: Two words for one scale: scores before they become probabilities.
MARGINS = ("margin", "logit")

#: What a model's outputs are.
Form = Literal["probability", "margin"]

#: Why a form is believed: the model says it, the user does, or nobody.
Certainty = Literal["known", "stated", "assumed"]

#: Inputs (n, d) to embeddings (n, d, e), and embeddings to what the model returns.
Embedding = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class AdaptedModel:
    """A model of any kind, as the rest of the library sees it."""

    #: Maps what the model takes to what it returns.
    call: Callable[[Any], Any]

    #: Whether it returns probabilities or margins; None: unknown.
    form: Form | None = None

    #: Why the form is believed.
    certainty: Certainty = "known"

    #: Whether each output is a probability of its own, rather than all of them summing to 1;
    #: None: unknown, and taken for no.
    independent: bool | None = None

    #: Names of all its outputs, such as a classifier's classes.
    output_names: Sequence[str] = ()

    #: Names of the columns it was trained with.
    feature_names: Sequence[str] = ()

    #: Whether it takes tensors on its device; otherwise it takes numpy arrays and frames.
    takes_tensors: bool = False

    #: Whether it takes what the rows are: tensors for tensors, arrays for arrays.
    takes_either: bool = False

    #: Whether it takes frames as they are; otherwise it takes them as a matrix of numbers.
    takes_frames: bool = True

    #: Whether NaN is allowed in a numpy array.
    takes_missing: bool = False

    device: torch.device = _CPU

    #: The floating-point type it takes; None: the type of the rows.
    dtype: torch.dtype | None = None

    #: Whether gradients flow from outputs to inputs.
    differentiable: bool = False

    #: How to differentiate a model whose inputs are indices.
    embedding: Embedding | None = None
