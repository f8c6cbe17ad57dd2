"""What a torch module ends in: a sigmoid, a softmax or its logarithm, as far as that can be seen.

Three kinds of modules show it: containers (the last layer of an `nn.Sequential`), TorchScript and
traced or exported graphs (the operation that makes the output). Of any other module, nothing is
known but its code.
"""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import nn

Ending = Literal["sigmoid", "softmax", "log_softmax", "log_sigmoid"]

_LAYERS: dict[str, Ending] = {
    "Sigmoid": "sigmoid",
    "Hardsigmoid": "sigmoid",
    "Softmax": "softmax",
    "Softmin": "softmax",
    "LogSoftmax": "log_softmax",
    "LogSigmoid": "log_sigmoid",
}

_OPERATIONS: dict[str, Ending] = {
    "sigmoid": "sigmoid",
    "sigmoid_": "sigmoid",
    "hardsigmoid": "sigmoid",
    "softmax": "softmax",
    "_softmax": "softmax",
    "log_softmax": "log_softmax",
    "_log_softmax": "log_softmax",
    "log_sigmoid": "log_sigmoid",
    "logsigmoid": "log_sigmoid",
}

#: Layers that return the numbers they are given, in eval mode.
_NEUTRAL_LAYERS = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.AlphaDropout)

#: Operations that return the numbers they are given, in another shape or type.
_NEUTRAL_OPERATIONS = (
    "clone",
    "contiguous",
    "detach",
    "dropout",
    "flatten",
    "reshape",
    "squeeze",
    "to",
    "unsqueeze",
    "view",
)


def ending(network: nn.Module) -> Ending | None:
    """Return what a module ends in; None where that cannot be seen, or is none of these."""
    if isinstance(network, torch.jit.ScriptModule):
        return _ending_of_script(network)
    if isinstance(network, torch.fx.GraphModule):
        return _ending_of_graph(network)
    if isinstance(network, nn.Sequential):
        return _ending_of_sequence(network)

    inner = _wrapped(network)
    if inner is not None:
        return ending(inner)
    return _ending_of_layer(network)


def _wrapped(network: nn.Module) -> nn.Module | None:
    """Return the module inside a wrapper that adds nothing to what it returns."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    name = "module" if isinstance(network, parallel) else "_orig_mod"  # of a compiled module
    inner = getattr(network, name, None)
    return inner if isinstance(inner, nn.Module) else None


def _ending_of_sequence(network: nn.Sequential) -> Ending | None:
    has_own_forward = type(network).forward is not nn.Sequential.forward
    if has_own_forward:
        return None
    layers = [layer for layer in network if not isinstance(layer, _NEUTRAL_LAYERS)]
    return ending(layers[-1]) if layers else None


def _ending_of_layer(layer: nn.Module) -> Ending | None:
    names = [ancestor.__name__ for ancestor in type(layer).__mro__]
    found = next((_LAYERS[name] for name in names if name in _LAYERS), None)
    # over another axis the numbers of a row need not sum to 1
    is_of_classes = getattr(layer, "dim", None) in (None, 1, -1)
    return found if is_of_classes else None


def _ending_of_script(network: Any) -> Ending | None:
    """Return the operation that makes the output of a TorchScript graph."""
    graph = network.inlined_graph  # its nodes live as long as it does
    outputs = list(graph.outputs())
    if len(outputs) != 1:
        return None
    return _ending_of_node(outputs[0].node())


def _ending_of_node(node: Any) -> Ending | None:
    """Return the operation of a node of TorchScript, or the one that all its branches end in."""
    while _operation(node.kind()) in _NEUTRAL_OPERATIONS:
        node = next(node.inputs()).node()
    if node.kind() == "prim::If" and node.outputsSize() == 1:
        branches = [next(block.returnNode().inputs()).node() for block in node.blocks()]
        endings = {_ending_of_node(branch) for branch in branches}
        return endings.pop() if len(endings) == 1 else None
    return _OPERATIONS.get(_operation(node.kind()))


def _ending_of_graph(network: torch.fx.GraphModule) -> Ending | None:
    """Return the operation that makes the output of a traced or exported graph."""
    output = next(node for node in reversed(network.graph.nodes) if node.op == "output")
    node = _single_node(output.args[0])
    while node is not None and node.op != "call_module" and _is_neutral(node):
        node = _single_node(node.args[0] if node.args else None)
    if node is None:
        return None
    if node.op == "call_module":
        return ending(network.get_submodule(str(node.target)))
    return _OPERATIONS.get(_name(node))


def _is_neutral(node: torch.fx.Node) -> bool:
    return _name(node) in _NEUTRAL_OPERATIONS


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
