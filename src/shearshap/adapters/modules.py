"""torch modules: tensors in, tensors out, differentiable."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from shearshap.adapters.adapted import AdaptedModel, Embedding
from shearshap.errors import InputError


def module(network: nn.Module, device: torch.device) -> AdaptedModel:
    """Tell how to ask a module that is in eval mode on a device: one tensor, or one for each of
    several inputs.
    """

    def ask(inputs: Any) -> Any:
        answer = network(*inputs) if isinstance(inputs, tuple) else network(inputs)
        return getattr(
            answer, "logits", answer
        )  # a Hugging Face model returns a record of several things

    return AdaptedModel(
        ask,
        form="margin",
        takes_tensors=True,
        takes_frames=False,
        takes_missing=False,
        device=device,
        dtype=_dtype(network),
        differentiable=True,
        embedding=_embedding(network),
        independent=_independent(network),
    )


def _independent(network: nn.Module) -> bool:
    """Return whether a Hugging Face model says that its labels do not exclude each other."""
    return (
        getattr(getattr(network, "config", None), "problem_type", None)
        == "multi_label_classification"
    )


def _dtype(network: nn.Module) -> torch.dtype | None:
    """Return the type of the module's first floating parameter or buffer."""
    tensors = (*network.parameters(), *network.buffers())
    return next((t.dtype for t in tensors if t.is_floating_point()), None)


def _embedding(network: nn.Module) -> Embedding | None:
    """Return the module's own `embed` and `from_embeddings`, if it has both, as
    `shearshap.paper.networks.DeepFM` does.
    """
    embed, after = getattr(network, "embed", None), getattr(network, "from_embeddings", None)
    return None if embed is None or after is None else (embed, after)


def _device(device: torch.device | str) -> torch.device:
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise InputError(
            f"device: wanted one such as 'cpu' or 'cuda:0', got {device!r} ({error})"
        ) from error


@dataclass
class _Use:
    """A module in eval mode on a device, and how many calls, of several threads, are using it so."""

    target: torch.device
    home: torch.device
    modes: list[tuple[nn.Module, bool]]
    users: int = 0


_changed = threading.Condition()
_uses: WeakKeyDictionary[nn.Module, _Use] = WeakKeyDictionary()


@contextmanager
def evaluating(network: nn.Module, device: torch.device | str | None) -> Iterator[torch.device]:
    """Put a module into eval mode on a device, and back into each submodule's mode and place
    afterwards.

    Threads share it: the first one puts it there, the last one back; who wants another device
    waits.
    """
    with _changed:
        use = _begun(network, device)
        use.users += 1
    try:
        yield use.target
    finally:
        with _changed:
            use.users -= 1
            if not use.users:
                _uses.pop(network)
                _restore(network, use)
                _changed.notify_all()


def _begun(network: nn.Module, device: torch.device | str | None) -> _Use:
    """Return the use that is going on, on that device, or begin one."""
    while (use := _uses.get(network)) is not None:
        if device is None or use.target == _device(device):
            return use
        _changed.wait()
    use = _placed(network, device)
    try:
        _switch(network)
        if use.target != use.home:
            network.to(use.target)
    except (RuntimeError, AssertionError) as error:
        _restore(network, use)
        raise InputError(f"device: the model cannot be moved to {use.target}: {error}") from error
    except BaseException:
        _restore(network, use)
        raise
    _uses[network] = use
    return use


def _switch(network: nn.Module) -> None:
    try:
        network.eval()
    except NotImplementedError:  # an exported module has one mode, the one that it was exported in
        return


def _placed(network: nn.Module, device: torch.device | str | None) -> _Use:
    tensors: list[Tensor] = [*network.parameters(), *network.buffers()]
    homes = {tensor.device for tensor in tensors} or {torch.device("cpu")}
    if len(homes) > 1 and device is not None:
        raise InputError(
            f"device: the model is spread over {sorted(map(str, homes))}; leave device out"
        )
    home = next(iter(homes))
    target = home if device is None else _device(device)
    return _Use(target, home, [(part, part.training) for part in network.modules()])


def _restore(network: nn.Module, use: _Use) -> None:
    for part, training in use.modes:
        if part.training != training:
            part.train(
                training
            )  # a module may do more than keep the flag; parents come before their parts
    if use.target != use.home:
        network.to(use.home)
