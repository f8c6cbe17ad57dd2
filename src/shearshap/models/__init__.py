"""Models of every kind as one `predict`: inputs (n, *shape) to outputs (n,) or (n, k), as tensors.

Each kind of model has an adapter: a function in one of the modules here that takes the model and
returns an `AdaptedModel`. They never import a library that the model itself did not bring along.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    check_statements,
    checked_output,
    checked_scale,
    libraries,
    library_versions,
    model_name,
)
from shearshap.models.boosters import catboost_model, lightgbm_model, xgboost_model
from shearshap.models.networks import eval_mode, module
from shearshap.models.onnx import session
from shearshap.models.sklearn import (
    PREDICTIONS,
    adds_up_margins,
    estimator,
    found_by_search,
    method_of_estimator,
    names_of_method,
    side_by_side,
    trained_names,
    warn_of_labels,
)

Adapter = Callable[[Any, Scale | None], AdaptedModel]

#: The adapter for every library whose models are recognised by their class.
KINDS: dict[str, Adapter] = {
    "xgboost": xgboost_model,
    "lightgbm": lightgbm_model,
    "catboost": catboost_model,
    "onnxruntime": session,
    "sklearn": estimator,
}

ACCEPTED = (
    "a torch.nn.Module, a scikit-learn estimator or Pipeline, an XGBoost, LightGBM or CatBoost "
    "model, an ONNX Runtime InferenceSession, a Hugging Face text classifier or language model "
    "with its tokenizer, or a function of a numpy array or frame"
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


def adapted_model(
    model: Any,
    device: torch.device,
    scale: Scale | None = None,
    *,
    returns: Form | None = None,
    multilabel: bool | None = None,
    is_open: bool = False,
) -> AdaptedModel:
    """Adapt a model of any kind; a module is in eval mode on the device.

    `returns` and `multilabel` are what the user says of its outputs; raise if the model is known to
    be otherwise. `is_open` says that the scale may be chosen here if it is None.
    """
    if isinstance(model, nn.Module):
        adapted = _as_stated(module(model, device), returns)
    elif scale is None and returns is None and is_open:
        adapted = _on_usual_scale(model)
    else:
        # what the user states is said of the model's own outputs, on no scale
        adapted = _as_stated(_adapted(model, None if returns else scale), returns)
        if returns is not None and adapted.certainty == "known":
            adapted = _adapted(model, scale)
    warn_of_labels(model)
    return _with_labels(adapted, multilabel)


def _on_usual_scale(model: Any) -> AdaptedModel:
    """Adapt a model on the scale of its family: boosted trees on their margin, as in shap.

    There their values are exact, with and without a background.
    """
    adapted = _adapted(model, None)
    if adapted.form != "probability" or not adds_up_margins(model):
        return adapted
    return replace(_adapted(model, "margin"), usual_scale="margin")


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
        kind = "exclusive classes" if multilabel else "independent labels"
        raise InputError(
            f"multilabel={multilabel}: the model's outputs are known to be {kind}; leave "
            "multilabel out"
        )
    return replace(adapted, independent=multilabel)


def _adapted(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt any model but a module."""
    model = found_by_search(model)
    if isinstance(model, type):
        raise InputError(
            f"model: expected a model, got the class {model.__name__}; pass a fitted or trained "
            "instance"
        )
    library = next((name for name in libraries(model) if name in KINDS), None)
    if library is not None:
        return _by_adapter(KINDS[library], model, scale)
    if any(hasattr(model, name) for name in PREDICTIONS):
        return _by_adapter(estimator, model, scale)
    if callable(model):
        return _function(model, scale)
    shown = repr(str(model)) if isinstance(model, str | PathLike) else ""
    raise InputError(
        f"model: expected {ACCEPTED}; got {type(model).__name__} {shown}".rstrip()
        + ("; load the file first" if shown else "")
    )


def _by_adapter(adapter: Adapter, model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt a model of a library, and say so if that fails because it is not fitted."""
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
    owner = method_of_estimator(function)
    is_probabilities = owner is not None and function.__name__ == "predict_proba"

    def call(rows: Any) -> Any:
        answer = function(*rows) if isinstance(rows, tuple) else function(rows)
        return side_by_side(answer) if is_probabilities else answer

    return AdaptedModel(
        call,
        form="probability" if is_probabilities else _form_of_function(scale),
        certainty="known" if is_probabilities else "assumed",
        output_names=names_of_method(function),
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
        f"scale={scale!r}: a function's outputs are explained unchanged; leave scale out, pass "
        "returns='probability' or returns='margin' to say what they are, or pass "
        "scale='log-odds' if the function returns probabilities"
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
    "check_statements",
    "checked_output",
    "checked_scale",
    "adapted_model",
    "eval_mode",
    "library_versions",
    "model_name",
]
