"""Models of every kind -> one `predict`: inputs (n, *shape) to outputs (n,) or (n, k), as tensors.

Each kind has a module here with a function of a model that tells how to ask it; it is imported only
when such a model is given, and a model's library is never imported at all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.adapters.adapted import AdaptedModel, Embedding
from shearshap.adapters.outputs import Form, Output, Outputs, Scale, checked_output, checked_scale
from shearshap.errors import InputError, ShearError

KINDS = {
    "xgboost": "boosters.xgboost_model",
    "lightgbm": "boosters.lightgbm_model",
    "catboost": "boosters.catboost_model",
    "onnxruntime": "onnx.session",
    "sklearn": "estimators.estimator",
}
"""Libraries whose models are known by the package of their class, and the function that adapts
them.
"""

ACCEPTED = (
    "a torch.nn.Module, a scikit-learn estimator or Pipeline, a model of XGBoost, LightGBM or "
    "CatBoost, an ONNX "
    "Runtime InferenceSession, a Hugging Face text classifier with its tokenizer, or a function "
    "of a numpy "
    "array or frame"
)


@dataclass(frozen=True)
class Predictor:
    """A model ready to be asked: inputs (n, *shape) as a tensor to the outputs to explain, (n,) or
    (n, k).
    """

    adapted: AdaptedModel
    outputs: Outputs = field(default_factory=Outputs)
    decode: Callable[[Tensor], Any] = lambda inputs: (
        inputs
    )  #: a tensor of inputs to what the model takes

    @property
    def device(self) -> torch.device:
        """The device its inputs live on."""
        return self.adapted.device

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow from outputs to inputs."""
        return self.adapted.differentiable

    @property
    def dtype(self) -> torch.dtype | None:
        """The floating type it takes; None where it takes the rows' own type."""
        return self.adapted.dtype

    @property
    def embedding(self) -> Embedding | None:
        """Where to differentiate a model of indices: inputs (n, d) to embeddings (n, d, e), and
        those to outputs.
        """
        if self.adapted.embedding is None:
            return None
        embed, after = self.adapted.embedding
        return embed, lambda embedded: self.outputs(after(embedded), len(embedded))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n,) or (n, k)."""
        return self.outputs(self.adapted.ask(self.decode(inputs)), len(inputs)).to(self.device)


@contextmanager
def adapt(
    model: Any, scale: Scale | None, device: torch.device | str | None
) -> Iterator[AdaptedModel]:
    """Make a model ready to be asked, and give it back as it was."""
    if isinstance(model, nn.Module):
        from shearshap.adapters.modules import evaluating, module

        with evaluating(model, device) as home:
            yield module(model, home)
        return
    yield _adapted(model, scale)


def _adapted(model: Any, scale: Scale | None) -> AdaptedModel:
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in KINDS:
            return _told(KINDS[library], model, scale)
    if not isinstance(model, type) and hasattr(model, "predict"):
        return _told("estimators.estimator", model, scale)
    if callable(model):
        return AdaptedModel(
            lambda rows: model(*rows) if isinstance(rows, tuple) else model(rows),
            _form_of_function(scale),
        )
    raise InputError(f"model: wanted {ACCEPTED}; got {_said(model)}")


def _told(place: str, model: Any, scale: Scale | None) -> AdaptedModel:
    """Return what the adapter at a place tells of a model."""
    module, name = place.split(".")
    adapter: Callable[[Any, Scale | None], AdaptedModel] = getattr(
        import_module(f"shearshap.adapters.{module}"), name
    )
    try:
        return adapter(model, scale)
    except ShearError:
        raise
    except Exception as error:  # whatever the library raises of a model that is not ready
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"model: this {type(model).__name__} cannot be asked; is it fitted? ({told})"
        ) from error


def _form_of_function(scale: Scale | None) -> Form | None:
    """Return what a plain function returns, for the scale asked for: probabilities, where their
    log-odds are wanted.
    """
    if scale in (None, "log-odds"):
        return None if scale is None else "probability"
    raise InputError(
        f"scale={scale!r}: a function has one scale, its own; leave scale out, or pass "
        "scale='log-odds' where the "
        "function returns probabilities"
    )


def _said(model: Any) -> str:
    kind = type(model).__name__
    return f"{kind} {model!r}; load the file first" if isinstance(model, str) else kind


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
