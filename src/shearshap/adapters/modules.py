"""torch modules: tensors in, tensors out, differentiable.

A module is explained in eval mode, on the device that the user wants, and is afterwards as it was.
Threads may explain modules that share submodules, such as two heads over one backbone:

    thread 1   head 1     [ eval =========== ]
    thread 2   head 2             [ eval =========== ]
               backbone   [ eval =================== ]

A submodule goes into eval mode with its first user, and back to its own mode with its last,
whichever modules they explain. The same holds for devices: whoever wants a tensor that is in use
on another device waits until it is free.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.adapters.adapted import AdaptedModel, Embedding
from shearshap.errors import InputError


def module(network: nn.Module, device: torch.device) -> AdaptedModel:
    """Adapt a module that is in eval mode on a device; it takes one tensor, or several."""

    def call(inputs: Any) -> Any:
        result = network(*inputs) if isinstance(inputs, tuple) else network(inputs)
        # a Hugging Face model returns a record, and the logits are a field of it
        return getattr(result, "logits", result)

    return AdaptedModel(
        call,
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
    """Return whether a Hugging Face model may give a text several labels at once."""
    config = getattr(network, "config", None)
    return getattr(config, "problem_type", None) == "multi_label_classification"


def _dtype(network: nn.Module) -> torch.dtype | None:
    """Return the type of the module's first floating-point parameter or buffer."""
    for tensor in _tensors(network):
        if tensor.is_floating_point():
            return tensor.dtype
    return None


def _embedding(network: nn.Module) -> Embedding | None:
    """Return the module's methods `embed` and `from_embeddings`; None unless it has both.

    `shearshap.paper.networks.DeepFM` is an example of such a module.
    """
    embed = getattr(network, "embed", None)
    after = getattr(network, "from_embeddings", None)
    if embed is None or after is None:
        return None
    return embed, after


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]


# Eval mode and devices


@contextmanager
def evaluating(network: nn.Module, device: torch.device | str | None) -> Iterator[torch.device]:
    """Put a module into eval mode on a device, and give it back as it was.

    Yields the device: that of the module's tensors where `device` is None.
    """
    use = _IN_USE.begin(network, device)
    try:
        yield use.device
    finally:
        _IN_USE.end(use)


@dataclass(frozen=True, eq=False)
class _Use:
    """A call that is using a module in eval mode on a device."""

    network: nn.Module
    device: torch.device
    thread: int


class _InUse:
    """The modules that the threads of this process are using, and what they were like before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._uses: list[_Use] = []

        #: The own mode of every submodule that was put into eval mode.
        self._modes: dict[nn.Module, bool] = {}

        #: The own device of every module that was moved.
        self._homes: dict[nn.Module, torch.device] = {}

    def begin(self, network: nn.Module, device: torch.device | str | None) -> _Use:
        """Put a module into eval mode on a device, as soon as no other call needs it elsewhere."""
        target = None if device is None else _device(device)
        with self._changed:
            homes = self._homes_of(network)
            if target is not None and len(homes) > 1:
                spread = sorted(str(home) for home in homes)
                raise InputError(f"device: the model is spread over {spread}; leave device out")

            if not self._available(network, target):
                self._check_not_waiting_for_itself()
            self._changed.wait_for(lambda: self._available(network, target))
            current = _current_device(network) if target is None else target
            use = _Use(network, current, threading.get_ident())
            self._uses.append(use)
            try:
                self._switch_to_eval(network)
                if target is not None:
                    self._move(network, homes[0], target)
            except BaseException:
                self._release(use)
                raise
            return use

    def _check_not_waiting_for_itself(self) -> None:
        """Raise where a use of this same thread is in the way: it would wait for ever."""
        own = threading.get_ident()
        if any(use.thread == own for use in self._uses):
            raise InputError(
                "device: the model is in use on another device by a stream of this thread that is "
                "not finished; take its last block, or close it, first"
            )

    def end(self, use: _Use) -> None:
        """Give back what no other call is using."""
        with self._changed:
            self._release(use)

    def _release(self, use: _Use) -> None:
        self._uses = [other for other in self._uses if other is not use]
        self._changed.notify_all()  # whoever waits goes on when the lock is free
        try:
            self._restore_modes()
        finally:
            self._bring_home()

    # Modes

    def _switch_to_eval(self, network: nn.Module) -> None:
        for part in network.modules():
            self._modes.setdefault(part, part.training)
        _eval(network)

    def _restore_modes(self) -> None:
        """Put every submodule that nobody uses any more back into its own mode."""
        used = {part for use in self._uses for part in use.network.modules()}
        free = [part for part in self._modes if part not in used]
        for part in free:
            if not _has_own_train(part):
                part.training = self._modes.pop(part)
            elif used.isdisjoint(part.modules()):
                self._restore_by_own_train(part)
            # Otherwise its `train` would reach submodules in use: it waits until they are free.

    def _restore_by_own_train(self, network: nn.Module) -> None:
        """Put a module back into its mode by its `train`, which reaches its submodules too."""
        modes = {part: self._modes.get(part, part.training) for part in network.modules()}
        del self._modes[network]
        # Parents come first: what a parent's `train` does to a submodule is set right afterwards.
        for part, mode in modes.items():
            if part.training != mode:
                _set_mode(part, mode)

    # Devices

    def _available(self, network: nn.Module, device: torch.device | None) -> bool:
        """Return whether a module can be used on a device now; None: on any."""
        tensors = _tensors(network)
        if device is not None:
            in_use = self._tensors_in_use()
            return all(tensor.device == device for tensor in tensors if id(tensor) in in_use)

        # A module may be spread over devices, but not because another call moved a part of it.
        if len({tensor.device for tensor in tensors}) <= 1:
            return True
        moved = self._homes_of_moved_tensors()
        return all(id(tensor) not in moved for tensor in tensors)

    def _tensors_in_use(self) -> set[int]:
        """Return the ids of all tensors in use."""
        return {id(tensor) for use in self._uses for tensor in _tensors(use.network)}

    def _homes_of_moved_tensors(self) -> dict[int, torch.device]:
        """Return the own device of every tensor that was moved, by the tensor's id."""
        return {
            id(tensor): home
            for network, home in self._homes.items()
            for tensor in _tensors(network)
        }

    def _homes_of(self, network: nn.Module) -> list[torch.device]:
        """Return the devices that a module's tensors belong on, each once."""
        moved = self._homes_of_moved_tensors()
        homes = [moved.get(id(tensor), tensor.device) for tensor in _tensors(network)]
        return list(dict.fromkeys(homes)) or [torch.device("cpu")]

    def _move(self, network: nn.Module, home: torch.device, device: torch.device) -> None:
        is_there = all(tensor.device == device for tensor in _tensors(network))
        # a module may have tensors that only its own `to` knows
        if is_there and (device == home or network in self._homes):
            return
        self._homes.setdefault(network, home)
        try:
            network.to(device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"device: the model cannot be moved to {device}: {error}") from error

    def _bring_home(self) -> None:
        """Move every module back to its own device, once all of it is free.

        A module with a part on another device could not be called, so it goes home as a whole.
        """
        tensors_in_use = self._tensors_in_use()
        networks_in_use = {use.network for use in self._uses}
        for network in list(self._homes):
            tensors = {id(tensor) for tensor in _tensors(network)}
            if network not in networks_in_use and tensors.isdisjoint(tensors_in_use):
                network.to(self._homes.pop(network))

    # Forks

    def before_fork(self) -> None:
        """Wait until no other thread is changing anything, so that the child sees a whole state."""
        self._changed.acquire()

    def after_fork_in_parent(self) -> None:
        """Let the other threads go on."""
        self._changed.release()

    def after_fork_in_child(self) -> None:
        """Give back what the other threads were using, since they do not exist in the child."""
        self._changed = threading.Condition()
        this_thread = threading.get_ident()
        self._uses = [use for use in self._uses if use.thread == this_thread]
        # An accelerator cannot be used after a fork: what was moved stays where it is.
        self._homes.clear()
        self._restore_modes()


def _eval(network: nn.Module) -> None:
    """Put a module into eval mode."""
    if not any(part.training for part in network.modules()):
        return
    try:
        network.eval()
    except NotImplementedError:
        # An exported module has only the mode it was exported in; the modules beside it have both.
        for child in network.children():
            _eval(child)


def _set_mode(part: nn.Module, mode: bool) -> None:
    if not _has_own_train(part):
        part.training = mode
        return
    with suppress(NotImplementedError):  # from an exported module, which has only one mode
        part.train(mode)


def _has_own_train(part: nn.Module) -> bool:
    """Return whether a module does more than set a flag when its mode changes."""
    return getattr(part.train, "__func__", None) is not nn.Module.train


def _current_device(network: nn.Module) -> torch.device:
    for tensor in _tensors(network):
        return tensor.device
    return torch.device("cpu")


def _device(device: torch.device | str) -> torch.device:
    """Return a device with its index: "cuda" is one of several."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"device: wanted one such as 'cpu' or 'cuda:0', got {device!r} ({error})"
        ) from error


_IN_USE = _InUse()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_IN_USE.before_fork,
        after_in_parent=_IN_USE.after_fork_in_parent,
        after_in_child=_IN_USE.after_fork_in_child,
    )
