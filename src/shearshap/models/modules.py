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
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap.models.adapted import AdaptedModel, Embedding
from shearshap.models.endings import Ending, ending
from shearshap.models.forms import Certainty, Form


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
    """Raise where a module has parameters without numbers."""
    if any(nn.parameter.is_lazy(parameter) for parameter in network.parameters()):
        raise InputError(
            "model: the module has lazy layers whose parameters do not exist yet; call it once "
            "with some rows, model(rows[:2])"
        )
    if any(tensor.is_meta for tensor in _tensors(network)):
        raise InputError(
            "model: the module has parameters on the device 'meta', where they have no numbers; "
            "load its weights, or move it by to_empty first"
        )


#: What a module with a known ending returns; nobody knows what a log-sigmoid's logits were.
_FORMS: dict[Ending, Form | None] = {
    "sigmoid": "probability",
    "softmax": "probability",
    "log_softmax": "margin",  # their softmax is the softmax of the logits
    "log_sigmoid": None,
}


def _form(network: nn.Module) -> tuple[Form | None, Certainty]:
    """Return what a module returns, and why that is believed."""
    last = ending(network)
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
    """Return whether each output is a label of its own; None where the module does not say."""
    if ending(network) in ("softmax", "log_softmax"):
        return False
    problem = _problem_type(network)
    if problem == "multi_label_classification":
        return True
    return False if problem == "single_label_classification" else None


def _problem_type(network: nn.Module) -> str | None:
    """Return what a Hugging Face model says that it was trained for; None where it does not."""
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
    """Return the type of the module's first floating-point parameter, buffer or constant."""
    for tensor in chain(_tensors(network), _constants(network)):
        if tensor.is_floating_point():
            return tensor.dtype
    # quantized layers take numbers of single precision, and hide their weights
    return torch.float32 if _is_quantized(network) else None


def _constants(network: nn.Module) -> list[Tensor]:
    """Return the tensors in the graph of frozen TorchScript, which has no parameters left."""
    if not isinstance(network, torch.jit.ScriptModule):
        return []
    graph: Any = network.inlined_graph  # its nodes live as long as it does
    nodes = graph.findAllNodes("prim::Constant")
    constants = [node.output().toIValue() for node in nodes]
    return [constant for constant in constants if isinstance(constant, Tensor)]


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


class Lease:
    """A model in use: a module is in eval mode on a device until it is given back.

    Any other model is used as it is. An interrupt may come at any moment, also while the module is
    being given back. Whoever holds a lease therefore gives it back once more on any error:

        lease = Lease(model, device)
        try:
            with lease:
                ...
        except BaseException:
            lease.give_back()
            raise
    """

    def __init__(self, model: Any, device: torch.device | str | None = None) -> None:
        self.model = model
        self.wanted = device
        self.thread = threading.get_ident()

        #: The device in use: that of the module's tensors where the user wants none.
        self.device = torch.device("cpu")

    def __enter__(self) -> "Lease":
        try:
            if isinstance(self.model, nn.Module):
                self.thread = threading.get_ident()
                self.device = _IN_USE.begin(self)
        except BaseException:
            self.give_back()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Give the module back as it was; does nothing where that is done already."""
        if isinstance(self.model, nn.Module):
            _IN_USE.end(self)


class _InUse:
    """The modules that the threads of this process are using, and what they were like before.

    Every change of a module is written down before it is made, and crossed out only after it is
    undone. So an interrupt at any moment leaves nothing that `end` cannot give back.
    """

    def __init__(self) -> None:
        self._set_lock()
        self._uses: list[Lease] = []

        #: The own mode of every submodule that was put into eval mode.
        self._modes: dict[nn.Module, bool] = {}

        #: The own device of every module that was moved.
        self._homes: dict[nn.Module, torch.device] = {}

    def _set_lock(self) -> None:
        # The lock itself is entered, not the condition: Python runs no signal handler between
        # taking a lock and entering the block that lets it go, but it does within a condition.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    @property
    def is_empty(self) -> bool:
        """Whether no module is in use, and all are as they were."""
        return not (self._uses or self._modes or self._homes)

    def begin(self, use: Lease) -> torch.device:
        """Put a module into eval mode on a device, as soon as no other call needs it elsewhere."""
        network = use.model
        target = None if use.wanted is None else _device(use.wanted)
        with self._lock:
            homes = self._homes_of(network)
            if target is not None and len(homes) > 1:
                spread = sorted(str(home) for home in homes)
                raise InputError(f"device: the model is spread over {spread}; leave device out")

            if not self._available(network, target):
                self._check_not_waiting_for_itself()
            self._changed.wait_for(lambda: self._available(network, target))
            self._uses.append(use)
            self._switch_to_eval(network)
            if target is None:
                return _current_device(network)
            self._move(network, homes[0], target)
            return target

    def _check_not_waiting_for_itself(self) -> None:
        """Raise where a use of this same thread is in the way: it would wait for ever."""
        own = threading.get_ident()
        if any(use.thread == own for use in self._uses):
            raise InputError(
                "device: the model is in use on another device by a stream of this thread that is "
                "not finished; take its last block, or close it, first"
            )

    def end(self, use: Lease) -> None:
        """Give back what no other call is using; does nothing where that is done already."""
        with self._lock:
            self._uses = [other for other in self._uses if other is not use]
            self._changed.notify_all()  # whoever waits goes on when the lock is free
            try:
                self._restore_modes()
            finally:
                self._bring_home()

    # Modes

    def _switch_to_eval(self, network: nn.Module) -> None:
        for part in network.modules():
            self._modes.setdefault(part, _is_training(part))
        _eval(network)

    def _restore_modes(self) -> None:
        """Put every submodule that nobody uses any more back into its own mode."""
        used = {part for use in self._uses for part in use.model.modules()}
        free = [part for part in self._modes if part not in used]
        for part in free:
            if not _has_own_train(part):
                _set_mode(part, self._modes[part])
                del self._modes[part]
            elif used.isdisjoint(part.modules()):
                self._restore_by_own_train(part)
            # Otherwise its `train` would reach submodules in use: it waits until they are free.

    def _restore_by_own_train(self, network: nn.Module) -> None:
        """Put a module back into its mode by its `train`, which reaches its submodules too."""
        modes = {part: self._modes.get(part, _is_training(part)) for part in network.modules()}
        try:
            # Parents come first: what a parent's `train` does to a submodule is set right after.
            for part, mode in modes.items():
                _set_mode(part, mode)
        except Exception:
            del self._modes[network]  # its own error, which another try would not mend
            raise
        del self._modes[network]

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
        return {id(tensor) for use in self._uses for tensor in _tensors(use.model)}

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
        networks_in_use = {use.model for use in self._uses}
        for network in list(self._homes):
            tensors = {id(tensor) for tensor in _tensors(network)}
            if network not in networks_in_use and tensors.isdisjoint(tensors_in_use):
                self._send_home(network)

    def _send_home(self, network: nn.Module) -> None:
        try:
            network.to(self._homes[network])
        except Exception:
            del self._homes[network]  # its own error, which another try would not mend
            raise
        del self._homes[network]

    # Forks

    def before_fork(self) -> None:
        """Wait until no other thread is changing anything, so that the child sees a whole state."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Let the other threads go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Give back what the other threads were using, since they do not exist in the child."""
        self._set_lock()
        this_thread = threading.get_ident()
        self._uses = [use for use in self._uses if use.thread == this_thread]
        # An accelerator cannot be used after a fork: what was moved stays where it is.
        self._homes.clear()
        self._restore_modes()


def _eval(network: nn.Module) -> None:
    """Put a module into eval mode."""
    if not any(_is_training(part) for part in network.modules()):
        return
    try:
        _train(network, False)
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
    if not _has_own_train(part):
        part.training = mode
        return
    with suppress(NotImplementedError):  # from an exported module, which has only one mode
        _train(part, mode)


def _train(part: nn.Module, mode: bool) -> None:
    """Call a module's `train`, again where an interrupt cut it short: half a switch is none."""
    try:
        part.train(mode)
    except Exception:
        raise
    except BaseException:
        part.train(mode)
        raise


def _has_own_train(part: nn.Module) -> bool:
    """Return whether a module does more than set a flag when its mode changes."""
    return getattr(part.train, "__func__", None) is not nn.Module.train


def _current_device(network: nn.Module) -> torch.device:
    for tensor in _tensors(network) or _constants(network):
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
