"""torch modules: tensors in, tensors out, differentiable.

A module is switched to eval mode, on the device that the user wants, and restored afterwards.
Threads may explain the same module at once, on one device. A module that another thread trains, or
whose submodules other modules share while those are explained, must be in eval mode already.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.errors import InputError, warn
from shearshap.forks import ForkSafeLock
from shearshap.models.base import AdaptedModel, Certainty, Embedding, Form, libraries

#: What a module returns, and whether each output is a label of its own, by the name of its last
#: layer; None: unknown. The logits of a log-sigmoid cannot be known.
_ENDINGS: dict[str, tuple[Form | None, bool | None]] = {
    "Sigmoid": ("probability", None),
    "Hardsigmoid": ("probability", None),
    "Softmax": ("probability", False),
    "Softmin": ("probability", False),
    "LogSoftmax": ("margin", False),  # their softmax is the softmax of the logits
    "LogSigmoid": (None, None),
}

#: Layers that return the numbers they are given, in eval mode.
_NEUTRAL_LAYERS = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.AlphaDropout)


def module(network: nn.Module, device: torch.device) -> AdaptedModel:
    """Adapt a module that is in eval mode on a device; it takes one tensor, or several."""
    _check_weights(network)
    form, certainty, independent = _form(network)

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
        device=device,
        dtype=_dtype(network),
        differentiable=_differentiable(network),
        embedding=_embedding(network),
        independent=independent,
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
            "model: the module has parameters on the device 'meta', which holds no numbers; load "
            "its weights, or move it by to_empty first"
        )


def _form(network: nn.Module) -> tuple[Form | None, Certainty, bool | None]:
    """Return what a module returns, why that is believed, and whether its outputs are labels."""
    last = _last_layer(network)
    if last is not None:
        form, independent = _ENDINGS[last]
        return form, "known", independent

    # what a Hugging Face model says that it was trained for
    problem = getattr(getattr(network, "config", None), "problem_type", None)
    if problem == "regression":
        return None, "known", None
    kinds = {"multi_label_classification": True, "single_label_classification": False}
    is_label = kinds.get(problem) if isinstance(problem, str) else None
    says_logits = getattr(network, "returns_logits", False) is True
    is_known = says_logits or "transformers" in libraries(network)
    return "margin", "known" if is_known else "assumed", is_label


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


def _tensors(network: nn.Module) -> Iterator[Tensor]:
    return chain(network.parameters(), network.buffers())


# Eval mode and devices


@dataclass
class _Use:
    """A module in use, and what it was like before."""

    modes: dict[nn.Module, bool]  #: of every submodule, parents first
    home: torch.device
    users: int = 0


_LOCK = ForkSafeLock()
_IN_USE: dict[nn.Module, _Use] = {}


@contextmanager
def eval_mode(model: Any, device: torch.device | str | None = None) -> Iterator[torch.device]:
    """Yield the device of a module, in eval mode there; afterwards the module is as it was.

    Any other model is used as it is, where it is.
    """
    if not isinstance(model, nn.Module):
        if device is not None and _device(device).type != "cpu":
            warn(
                f"device={str(device)!r} is not used: only torch modules are moved to a device; "
                f"this {type(model).__name__} computes where its own library does"
            )
        yield torch.device("cpu")
        return
    used = _begin(model, None if device is None else _device(device))
    try:
        yield used
    finally:
        _end(model)


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
            for part in network.modules():
                _set_mode(part, mode=False)
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
    if wanted is None:
        return
    places = {tensor.device for tensor in _tensors(network)}
    if places <= {wanted}:
        return
    if len(places) > 1:
        spread = sorted(str(place) for place in places)
        raise InputError(f"device: the model is spread over {spread}; leave device out")
    try:
        network.to(wanted)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device: the model cannot be moved to {wanted}: {error}") from error


def _is_training(part: nn.Module) -> bool:
    """Return a module's mode; frozen TorchScript has none, and is in eval mode."""
    return bool(getattr(part, "training", False))


def _set_mode(part: nn.Module, mode: bool) -> None:
    """Put a module and its submodules into a mode, unless it is in it."""
    if _is_training(part) != mode:
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


def _last_layer(network: nn.Module) -> str | None:
    """Return the name in `_ENDINGS` of the layer that a module ends in; None if it is not seen."""
    if isinstance(network, nn.Sequential):
        has_own_forward = type(network).forward is not nn.Sequential.forward
        layers = [layer for layer in network if not isinstance(layer, _NEUTRAL_LAYERS)]
        return _last_layer(layers[-1]) if layers and not has_own_forward else None

    # wrappers, also that of a compiled module, add nothing to what the inner module returns
    is_parallel = isinstance(network, nn.DataParallel | nn.parallel.DistributedDataParallel)
    inner = getattr(network, "module" if is_parallel else "_orig_mod", None)
    if isinstance(inner, nn.Module):
        return _last_layer(inner)
    # over another axis the numbers of a row need not sum to 1
    if getattr(network, "dim", None) not in (None, 1, -1):
        return None
    names = (ancestor.__name__ for ancestor in type(network).__mro__)
    return next((name for name in names if name in _ENDINGS), None)
