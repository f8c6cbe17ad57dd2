"""torch modules: tensors in, tensors out, differentiable.

A module is explained in eval mode, on the device that the user wants, and is afterwards as it was.
Threads may explain the same module at once, on one device. A module that another thread trains, or
whose submodules other modules share while those are explained, must be in eval mode already.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap.models.base import AdaptedModel, Certainty, Embedding, Form

Activation = Literal["sigmoid", "softmax", "log_softmax", "log_sigmoid"]

#: By the name of a layer or operation, in small letters without underscores.
_ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": "sigmoid",
    "hardsigmoid": "sigmoid",
    "softmax": "softmax",
    "softmin": "softmax",
    "logsoftmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
}

#: Layers that return the numbers they are given, in eval mode.
_NEUTRAL_LAYERS = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.AlphaDropout)

#: Operations that return the numbers they are given, in another shape or type.
_RESHAPING = ("flatten", "reshape", "squeeze", "unsqueeze", "view")
_COPYING = ("clone", "contiguous", "detach", "dropout", "to")
_NEUTRAL_OPERATIONS = (*_RESHAPING, *_COPYING)


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
    """Return whether each output is a label of its own; None where the module does not say."""
    if _activation(network) in ("softmax", "log_softmax"):
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
    is_moved: bool = False
    users: int = 0


_LOCK = threading.RLock()
_IN_USE: dict[nn.Module, _Use] = {}


def _begin(network: nn.Module, wanted: torch.device | None) -> torch.device:
    """Put a module into eval mode on a device, unless another thread has; return the device."""
    with _LOCK:
        use = _IN_USE.get(network)
        if use is None:
            modes = {part: _is_training(part) for part in network.modules()}
            use = _Use(modes, _current_device(network))
        elif wanted not in (None, _current_device(network)):
            raise InputError(
                f"device: the model is in use on {_current_device(network)}; wait until that call "
                "or stream has ended, or leave device out"
            )
        _IN_USE[network] = use
        use.users += 1
        try:
            _eval(network)
            _move(network, wanted, use)
        except BaseException:
            _end(network)
            raise
        return _current_device(network) if wanted is None else wanted


def _end(network: nn.Module) -> None:
    """Give a module back as it was, once its last user leaves."""
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
            if use.is_moved:
                network.to(use.home)


def _move(network: nn.Module, wanted: torch.device | None, use: _Use) -> None:
    places = {tensor.device for tensor in _tensors(network)}
    if wanted is None or use.is_moved or (wanted == use.home and places <= {wanted}):
        return
    if len(places) > 1:
        spread = sorted(str(place) for place in places)
        raise InputError(f"device: the model is spread over {spread}; leave device out")
    use.is_moved = True
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
    for tensor in _tensors(network) or _constants(network):
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
            f"device: wanted one such as 'cpu' or 'cuda:0', got {device!r} ({error})"
        ) from error


# The last layer: a sigmoid, a softmax or its logarithm, as far as that can be seen
#
# Three kinds of modules show it: containers (the last layer of an `nn.Sequential`), TorchScript and
# traced or exported graphs (the operation that makes the output). Of any other module, nothing is
# known but its code.


def _activation(network: nn.Module) -> Activation | None:
    """Return what a module ends in; None where that cannot be seen, or is none of these."""
    if isinstance(network, torch.jit.ScriptModule):
        return _activation_of_script(network)
    if isinstance(network, torch.fx.GraphModule):
        return _activation_of_graph(network)
    if isinstance(network, nn.Sequential):
        return _activation_of_sequence(network)

    inner = _wrapped(network)
    if inner is not None:
        return _activation(inner)
    return _activation_of_layer(network)


def _wrapped(network: nn.Module) -> nn.Module | None:
    """Return the module inside a wrapper that adds nothing to what it returns."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    name = "module" if isinstance(network, parallel) else "_orig_mod"  # of a compiled module
    inner = getattr(network, name, None)
    return inner if isinstance(inner, nn.Module) else None


def _activation_of_sequence(network: nn.Sequential) -> Activation | None:
    has_own_forward = type(network).forward is not nn.Sequential.forward
    if has_own_forward:
        return None
    layers = [layer for layer in network if not isinstance(layer, _NEUTRAL_LAYERS)]
    return _activation(layers[-1]) if layers else None


def _named_activation(name: str) -> Activation | None:
    return _ACTIVATIONS.get(name.lower().replace("_", ""))


def _activation_of_layer(layer: nn.Module) -> Activation | None:
    found = [_named_activation(ancestor.__name__) for ancestor in type(layer).__mro__]
    # over another axis the numbers of a row need not sum to 1
    is_of_classes = getattr(layer, "dim", None) in (None, 1, -1)
    return next(filter(None, found), None) if is_of_classes else None


def _activation_of_script(network: Any) -> Activation | None:
    """Return the operation that makes the output of a TorchScript graph."""
    graph = network.inlined_graph  # its nodes live as long as it does
    outputs = list(graph.outputs())
    if len(outputs) != 1:
        return None
    return _activation_of_node(outputs[0].node())


def _activation_of_node(node: Any) -> Activation | None:
    """Return the operation of a node of TorchScript, or the one that all its branches end in."""
    while _operation(node.kind()) in _NEUTRAL_OPERATIONS:
        node = next(node.inputs()).node()
    if node.kind() == "prim::If" and node.outputsSize() == 1:
        branches = [next(block.returnNode().inputs()).node() for block in node.blocks()]
        activations = {_activation_of_node(branch) for branch in branches}
        return activations.pop() if len(activations) == 1 else None
    return _named_activation(_operation(node.kind()))


def _activation_of_graph(network: torch.fx.GraphModule) -> Activation | None:
    """Return the operation that makes the output of a traced or exported graph."""
    output = next(node for node in reversed(network.graph.nodes) if node.op == "output")
    node = _single_node(output.args[0])
    while node is not None and _name(node) in _NEUTRAL_OPERATIONS:
        node = _single_node(node.args[0] if node.args else None)
    if node is None:
        return None
    if node.op == "call_module":
        return _activation(network.get_submodule(str(node.target)))
    return _named_activation(_name(node))


def _single_node(made: Any) -> torch.fx.Node | None:
    """Return the node that makes an output, which may be packed as the only one of several."""
    while isinstance(made, Iterable) and not isinstance(made, torch.fx.Node):
        parts = list(made)
        if len(parts) != 1:
            return None
        made = parts[0]
    return made if isinstance(made, torch.fx.Node) else None


def _name(node: torch.fx.Node) -> str:
    """Return the name of a node's function or method: "softmax" of aten.softmax.int."""
    if node.op not in ("call_function", "call_method"):
        return ""
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.partition(".")[0]


def _operation(kind: str) -> str:
    """Return the name of an operation of TorchScript: "softmax" of aten::softmax."""
    return kind.rpartition("::")[2]
