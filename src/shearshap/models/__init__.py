"""Models of every kind as one `predict`: inputs (n, *shape) to outputs (n,) or (n, k), as tensors.

Each kind of model has an adapter: a function in one of the modules here that takes the model and
returns an `AdaptedModel`. They never import a library that the model itself did not bring along.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.errors import InputError, ShearError
from shearshap.models.base import (
    AdaptedModel,
    Embedding,
    Form,
    Output,
    Outputs,
    Scale,
    checked_multilabel,
    checked_output,
    checked_returns,
    checked_scale,
)
from shearshap.models.networks import EvalMode, module
from shearshap.models.sklearn import (
    PREDICTIONS,
    as_function,
    method_of_estimator,
    trained_names,
    warn_of_labels,
)

#: The adapter, as module.function, for every library whose models are recognised by their class.
KINDS = {
    "xgboost": "boosters.xgboost_model",
    "lightgbm": "boosters.lightgbm_model",
    "catboost": "boosters.catboost_model",
    "onnxruntime": "onnx.session",
    "sklearn": "sklearn.estimator",
}

#: The adapter for any other object that predicts.
_LIKE_AN_ESTIMATOR = "sklearn.estimator"

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
        return self.answer(self.decode(inputs), len(inputs))

    def answer(self, rows: Any, count: int) -> Tensor:
        """Map n rows as the model takes them to outputs (n,) or (n, k)."""
        return self.outputs(self.adapted.call(rows), count).to(self.device)


@contextmanager
def adapt(
    model: Any, scale: Scale | None, device: torch.device | str | None
) -> Iterator[AdaptedModel]:
    """Adapt a model of any kind, and restore it afterwards."""
    with EvalMode(model, device) as used:
        yield adapted_model(used, scale)


def adapted_model(
    used: EvalMode,
    scale: Scale | None,
    *,
    returns: Form | None = None,
    multilabel: bool | None = None,
) -> AdaptedModel:
    """Adapt a model of any kind that is in use.

    `returns` and `multilabel` are what the user says of its outputs; raise if the model is known to
    be otherwise.
    """
    model = used.model
    if isinstance(model, nn.Module):
        adapted = _as_stated(module(model, used.device), returns)
    elif returns is None:
        adapted = _adapted(model, scale)
    else:
        adapted = _adapted_as_stated(model, scale, returns)
    warn_of_labels(model)
    return _with_labels(adapted, multilabel)


def _adapted_as_stated(model: Any, scale: Scale | None, returns: Form) -> AdaptedModel:
    """Adapt any model but a module, of which the user says what it returns."""
    own = _as_stated(_adapted(model, None), returns)
    if own.certainty == "known":
        return _adapted(model, scale)
    try:
        scaled = _adapted(model, scale)
    except InputError:
        return own  # it has no such scale by itself, but it may be computed
    return scaled if scaled.form and scaled.certainty == "known" else own


def _as_stated(adapted: AdaptedModel, returns: Form | None) -> AdaptedModel:
    """Return a model with the form that the user states, or raise if it is known to be another."""
    is_known = adapted.certainty == "known" and adapted.form is not None
    if returns is None or (is_known and adapted.form == returns):
        return adapted
    if is_known:
        kind = "probabilities" if adapted.form == "probability" else "margins"
        raise InputError(
            f"returns={returns!r}: the model is known to return {kind}; leave returns out"
        )
    return replace(adapted, form=returns, certainty="stated")


def _with_labels(adapted: AdaptedModel, multilabel: bool | None) -> AdaptedModel:
    """Return a model with labels or classes as the user states, or raise if they are known."""
    if multilabel is None or multilabel == adapted.independent:
        return adapted
    if adapted.independent is not None:
        kind = "classes of which one is true" if multilabel else "labels of their own"
        raise InputError(
            f"multilabel={multilabel}: the model's outputs are known to be {kind}; leave "
            "multilabel out"
        )
    return replace(adapted, independent=multilabel)


def _adapted(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt any model but a module."""
    if isinstance(model, type) and _is_class_of_models(model):
        raise InputError(
            f"model: expected a model, got the class {model.__name__}; pass an instance of it that "
            "is fitted or trained"
        )
    for ancestor in type(model).__mro__:
        library = ancestor.__module__.partition(".")[0]
        if library in KINDS:
            return _by_adapter(KINDS[library], model, scale)

    if any(hasattr(model, name) for name in PREDICTIONS):
        return _by_adapter(_LIKE_AN_ESTIMATOR, model, scale)
    if callable(model):
        return _function(model, scale)
    shown = repr(str(model)) if isinstance(model, str | PathLike) else ""
    raise InputError(
        f"model: expected {ACCEPTED}; got {type(model).__name__} {shown}".rstrip()
        + ("; load the file first" if shown else "")
    )


def _is_class_of_models(model: type) -> bool:
    """Return whether a class makes models, rather than being called as a function itself."""
    makes_callables = any("__call__" in vars(ancestor) for ancestor in model.__mro__)
    return makes_callables or hasattr(model, "predict") or hasattr(model, "fit")


def _by_adapter(place: str, model: Any, scale: Scale | None) -> AdaptedModel:
    """Call the adapter at `place`, a module.function of this package."""
    module, name = place.split(".")
    adapter: Callable[[Any, Scale | None], AdaptedModel]
    adapter = getattr(import_module(f"shearshap.models.{module}"), name)
    try:
        return adapter(model, scale)
    except ShearError:
        raise
    except Exception as error:  # every library has its own errors for models not yet fitted
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

    owner = method_of_estimator(function)
    return AdaptedModel(
        call,
        form=_form_of_function(scale),
        certainty="assumed",
        feature_names=trained_names(owner),
        takes_either=owner is None,
        takes_missing=owner is not None,
    )


def _form_of_function(scale: Scale | None) -> Form | None:
    """Return what a plain function must return for this scale; None: anything."""
    if scale is None:
        return None
    if scale == "log-odds":
        return "probability"
    raise InputError(
        f"scale={scale!r}: the outputs of a function are explained as they are; leave scale out, "
        "say what they are by returns='probability' or returns='margin', or pass "
        "scale='log-odds' if the function returns probabilities"
    )


__all__ = [
    "ACCEPTED",
    "KINDS",
    "AdaptedModel",
    "Embedding",
    "EvalMode",
    "Form",
    "Output",
    "Outputs",
    "Predictor",
    "Scale",
    "checked_multilabel",
    "checked_output",
    "checked_returns",
    "checked_scale",
    "adapt",
    "adapted_model",
]
