"""Models of every kind as one `predict`: inputs (n, *shape) to outputs (n,) or (n, k), as tensors.

Each kind of model has an adapter: a function in one of the modules here that takes the model and
returns an `AdaptedModel`. They never import a library that the model itself did not bring along.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.adapters.adapted import AdaptedModel, Embedding
from shearshap.adapters.estimators import trained_names
from shearshap.adapters.outputs import Form, Output, Outputs, Scale, checked_output, checked_scale
from shearshap.adapters.scores import PREDICTIONS, as_function, method_of_estimator
from shearshap.errors import InputError, ShearError

#: The adapter, as module.function, for every library whose models are recognised by their class.
KINDS = {
    "xgboost": "boosters.xgboost_model",
    "lightgbm": "boosters.lightgbm_model",
    "catboost": "boosters.catboost_model",
    "onnxruntime": "onnx.session",
    "sklearn": "estimators.estimator",
}

#: The adapter for any other object that predicts.
_LIKE_AN_ESTIMATOR = "estimators.estimator"

ACCEPTED = (
    "a torch.nn.Module, a scikit-learn estimator or Pipeline, a model of XGBoost, LightGBM or "
    "CatBoost, an ONNX Runtime InferenceSession, a Hugging Face text classifier with its "
    "tokenizer, or a function of a numpy array or frame"
)


def _unchanged(inputs: Tensor) -> Tensor:
    return inputs


@dataclass(frozen=True)
class Predictor:
    """A model ready to be explained: maps inputs (n, *shape) to the outputs (n,) or (n, k)."""

    adapted: AdaptedModel
    outputs: Outputs = field(default_factory=Outputs)

    #: Maps a tensor of inputs to what the model takes.
    decode: Callable[[Tensor], Any] = _unchanged

    @property
    def device(self) -> torch.device:
        """The device of its inputs and outputs."""
        return self.adapted.device

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow from outputs to inputs."""
        return self.adapted.differentiable

    @property
    def dtype(self) -> torch.dtype | None:
        """The floating-point type it takes; None: the type of the rows."""
        return self.adapted.dtype

    @property
    def embedding(self) -> Embedding | None:
        """Two functions: inputs (n, d) to embeddings (n, d, e), and embeddings to outputs."""
        if self.adapted.embedding is None:
            return None
        embed, after = self.adapted.embedding

        def outputs(embedded: Tensor) -> Tensor:
            return self.outputs(after(embedded), len(embedded))

        return embed, outputs

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n,) or (n, k)."""
        raw = self.adapted.call(self.decode(inputs))
        return self.outputs(raw, len(inputs)).to(self.device)


@contextmanager
def adapt(
    model: Any, scale: Scale | None, device: torch.device | str | None
) -> Iterator[AdaptedModel]:
    """Adapt a model of any kind, and give it back as it was."""
    if not isinstance(model, nn.Module):
        yield _adapted(model, scale)
        return

    from shearshap.adapters.modules import evaluating, module

    with evaluating(model, device) as current_device:
        yield module(model, current_device)


def _adapted(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt any model but a module."""
    for ancestor in type(model).__mro__:
        library = ancestor.__module__.partition(".")[0]
        if library in KINDS:
            return _by_adapter(KINDS[library], model, scale)

    is_instance = not isinstance(model, type)
    if is_instance and any(hasattr(model, name) for name in PREDICTIONS):
        return _by_adapter(_LIKE_AN_ESTIMATOR, model, scale)
    if callable(model):
        return _function(model, scale)

    hint = f" {model!r}; load the file first" if isinstance(model, str) else ""
    raise InputError(f"model: wanted {ACCEPTED}; got {type(model).__name__}{hint}")


def _by_adapter(place: str, model: Any, scale: Scale | None) -> AdaptedModel:
    """Call the adapter at `place`, a module.function of this package."""
    module, name = place.split(".")
    adapter: Callable[[Any, Scale | None], AdaptedModel]
    adapter = getattr(import_module(f"shearshap.adapters.{module}"), name)
    try:
        return adapter(model, scale)
    except ShearError:
        raise
    except Exception as error:  # every library has errors of its own for models not yet fitted
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"model: this {type(model).__name__} cannot predict; is it fitted? ({first_line})"
        ) from error


def _function(function: Callable[..., Any], scale: Scale | None) -> AdaptedModel:
    """Adapt a plain function, of one input or of several."""
    numbers = as_function(function)

    def call(rows: Any) -> Any:
        if isinstance(rows, tuple):
            return numbers(*rows)
        return numbers(rows)

    return AdaptedModel(
        call,
        form=_form_of_function(scale),
        feature_names=trained_names(method_of_estimator(function)),
    )


def _form_of_function(scale: Scale | None) -> Form | None:
    """Return what a plain function must return for this scale; None: anything."""
    if scale is None:
        return None
    if scale == "log-odds":
        return "probability"
    raise InputError(
        f"scale={scale!r}: the outputs of a function are explained as they are; leave scale out, "
        "or pass scale='log-odds' if the function returns probabilities"
    )


__all__ = [
    "ACCEPTED",
    "KINDS",
    "AdaptedModel",
    "Embedding",
    "Form",
    "Output",
    "Outputs",
    "Predictor",
    "Scale",
    "checked_output",
    "checked_scale",
    "adapt",
]
