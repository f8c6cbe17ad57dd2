"""torch modules: tensors in, tensors out, differentiable.

A module is switched to eval mode, on the device that the user wants, and restored afterwards.
Threads may explain the same module at once, on one device. A module that another thread trains, or
whose submodules other modules share while those are explained, must be in eval mode already.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap.models.base import AdaptedModel, Certainty, Embedding, Form

Activation = Literal["sigmoid", "softmax", "log_softmax", "log_sigmoid"]

#: By the name of a layer.
_ACTIVATIONS: dict[str, Activation] = {
    "Sigmoid": "sigmoid",
    "Hardsigmoid": "sigmoid",
    "Softmax": "softmax",
    "Softmin": "softmax",
    "LogSoftmax": "log_softmax",
    "LogSigmoid": "log_sigmoid",
}

#: Layers that return the numbers they are given, in eval mode.
_NEUTRAL_LAYERS = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.AlphaDropout)


def module(network: nn.Module, device: torch.device) -> AdaptedModel:
    """Adapt a module that is in eval mode on a device; it takes one tensor, or several."""
    _check_weights(network)
    form, certainty = _form(network)

    def call(inputs: Any) -> Any:
        result = network(*inputs) if isinstance(inputs, tuple) else network(inputs)
        # a Hugging Face model returns a record, and the logits are a field of it
        return getattr(result, "logits", result)

    return AdaptedModel(
        call,
        form=form,
        certainty=certainty,
        takes_tensors=True,
        takes_frames=False,
        takes_missing=False,
        device=device,
        dtype=_dtype(network),
        differentiable=_differentiable(network),
        embedding=_embedding(network),
        independent=_independent(network),
    )


def _check_weights(network: nn.Module) -> None:
    """Raise if a module has parameters without numbers."""
    if any(nn.parameter.is_lazy(parameter) for parameter in network.parameters()):
        raise InputError(
            "model: the module has lazy layers whose parameters do not exist yet; call it once "
            "with some rows, model(rows[:2])"
        )
    if any(tensor.is_meta for tensor in _tensors(network)):
        raise InputError(
            "model: the module has parameters on the device 'meta', which have no numbers; load "
            "its weights, or move it by to_empty first"
        )


#: What a module with a known ending returns; the logits of a log-sigmoid cannot be known.
_FORMS: dict[Activation, Form | None] = {
    "sigmoid": "probability",
    "softmax": "probability",
    "log_softmax": "margin",  # their softmax is the softmax of the logits
    "log_sigmoid": None,
}


def _form(network: nn.Module) -> tuple[Form | None, Certainty]:
    """Return what a module returns, and why that is believed."""
    last = _activation(network)
    if last is not None:
        return _FORMS[last], "known"
    if _problem_type(network) == "regression":
        return None, "known"
    return "margin", "known" if _returns_logits(network) else "assumed"


def _returns_logits(network: nn.Module) -> bool:
    """Return whether a module is one of Hugging Face, or says of itself that it returns logits."""
    libraries = {ancestor.__module__.partition(".")[0] for ancestor in type(network).__mro__}
    return "transformers" in libraries or getattr(network, "returns_logits", False) is True


def _independent(network: nn.Module) -> bool | None:
    """Return whether each output is a label of its own; None if the module does not say."""
    if _activation(network) in ("softmax", "log_softmax"):
        return False
    problem = _problem_type(network)
    if problem == "multi_label_classification":
        return True
    return False if problem == "single_label_classification" else None


def _problem_type(network: nn.Module) -> str | None:
    """Return what a Hugging Face model says that it was trained for; None if it does not."""
    config = getattr(network, "config", None)
    problem = getattr(config, "problem_type", None)
    return problem if isinstance(problem, str) else None


def _differentiable(network: nn.Module) -> bool:
    """Return whether gradients flow: not through quantized layers, or weights of inference mode."""
    if any(tensor.is_inference() for tensor in _tensors(network)):
        return False
    return not _is_quantized(network)


def _is_quantized(network: nn.Module) -> bool:
    return any(".quantized" in type(part).__module__ for part in network.modules())


def _dtype(network: nn.Module) -> torch.dtype | None:
    """Return the type of the module's first floating-point parameter or buffer."""
    for tensor in _tensors(network):
        if tensor.is_floating_point():
            return tensor.dtype
    # quantized layers take numbers of single precision, and hide their weights
    return torch.float32 if _is_quantized(network) else None


def _embedding(network: nn.Module) -> Embedding | None:
    """Return the module's methods `embed` and `from_embeddings`; None unless it has both."""
    embed = getattr(network, "embed", None)
    after = getattr(network, "from_embeddings", None)
    if embed is None or after is None:
        return None
    return embed, after


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]


# Eval mode and devices


class EvalMode:
    """A context in which a module is in eval mode on a device; afterwards it is as it was.

    Any other model is used as it is.
    """

    def __init__(self, model: Any, device: torch.device | str | None = None) -> None:
        self.model = model
        self._wanted = device

        #: The device in use: that of the module's tensors unless the user wants another.
        self.device = torch.device("cpu")

    def __enter__(self) -> "EvalMode":
        if isinstance(self.model, nn.Module):
            wanted = None if self._wanted is None else _device(self._wanted)
            self.device = _begin(self.model, wanted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self.model, nn.Module):
            _end(self.model)


@dataclass
class _Use:
    """A module in use, and what it was like before."""

    modes: dict[nn.Module, bool]  #: of every submodule, parents first
    home: torch.device
    users: int = 0


_LOCK = threading.RLock()
_IN_USE: dict[nn.Module, _Use] = {}


def _begin(network: nn.Module, wanted: torch.device | None) -> torch.device:
    """Put a module into eval mode on a device, unless another thread has; return the device."""
    with _LOCK:
        here = _current_device(network)
        if network not in _IN_USE:
            modes = {part: _is_training(part) for part in network.modules()}
            _IN_USE[network] = _Use(modes, here)
        elif wanted not in (None, here):
            raise InputError(
                f"device: the model is in use on {here}; wait until that call or stream has ended, "
                "or leave device out"
            )
        _IN_USE[network].users += 1
        try:
            _eval(network)
            _move(network, wanted)
        except BaseException:
            _end(network)
            raise
        return here if wanted is None else wanted


def _end(network: nn.Module) -> None:
    """Restore a module when its last user leaves."""
    with _LOCK:
        use = _IN_USE[network]
        use.users -= 1
        if use.users:
            return
        del _IN_USE[network]
        try:
            for part, mode in use.modes.items():
                _set_mode(part, mode)
        finally:
            if _current_device(network) != use.home:
                network.to(use.home)


def _move(network: nn.Module, wanted: torch.device | None) -> None:
    places = {tensor.device for tensor in _tensors(network)}
    if wanted is None or places <= {wanted}:
        return
    if len(places) > 1:
        spread = sorted(str(place) for place in places)
        raise InputError(f"device: the model is spread over {spread}; leave device out")
    try:
        network.to(wanted)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device: the model cannot be moved to {wanted}: {error}") from error


def _eval(network: nn.Module) -> None:
    """Put a module into eval mode."""
    if not any(_is_training(part) for part in network.modules()):
        return
    try:
        network.eval()
    except NotImplementedError:
        # An exported module has only the mode it was exported in; the modules beside it have both.
        for child in network.children():
            _eval(child)


def _is_training(part: nn.Module) -> bool:
    """Return a module's mode; frozen TorchScript has none, and is in eval mode."""
    return bool(getattr(part, "training", False))


def _set_mode(part: nn.Module, mode: bool) -> None:
    """Put a single module into a mode, unless it is in it."""
    if _is_training(part) == mode:
        return
    sets_a_flag_only = getattr(part.train, "__func__", None) is nn.Module.train
    if sets_a_flag_only:
        part.training = mode
        return
    with suppress(NotImplementedError):  # from an exported module, which has only one mode
        part.train(mode)


def _current_device(network: nn.Module) -> torch.device:
    for tensor in _tensors(network):
        return tensor.device
    return torch.device("cpu")


def _device(device: torch.device | str) -> torch.device:
    """Return a device with its index: "cuda" is one of several."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        if str(device).partition(":")[0] == "cuda" and not torch.cuda.is_available():
            raise InputError(
                f"device: got {str(device)!r}, but CUDA is not available here; leave device out, "
                "or pass 'cpu'"
            ) from error
        raise InputError(
            f"device: expected one such as 'cpu' or 'cuda:0', got {device!r} ({error})"
        ) from error


# The last layer: a sigmoid, a softmax or its logarithm, as far as that can be seen
#
# Containers such as `nn.Sequential` show it. Of any other module nothing is known but its code.


def _activation(network: nn.Module) -> Activation | None:
    """Return what a module ends in; None if that cannot be seen, or is none of these."""
    if isinstance(network, nn.Sequential):
        has_own_forward = type(network).forward is not nn.Sequential.forward
        layers = [layer for layer in network if not isinstance(layer, _NEUTRAL_LAYERS)]
        return _activation(layers[-1]) if layers and not has_own_forward else None

    inner = _wrapped(network)
    if inner is not None:
        return _activation(inner)
    found = [_ACTIVATIONS.get(ancestor.__name__) for ancestor in type(network).__mro__]
    # over another axis the numbers of a row need not sum to 1
    is_of_classes = getattr(network, "dim", None) in (None, 1, -1)
    return next(filter(None, found), None) if is_of_classes else None


def _wrapped(network: nn.Module) -> nn.Module | None:
    """Return the module inside a wrapper that adds nothing to what it returns."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    name = "module" if isinstance(network, parallel) else "_orig_mod"  # of a compiled module
    inner = getattr(network, name, None)
    return inner if isinstance(inner, nn.Module) else None
