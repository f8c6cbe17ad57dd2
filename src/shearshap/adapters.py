"""Models of every kind -> one `predict`: inputs (n, *shape) to outputs (n,) or (n, k), as tensors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.errors import InputError, ModelError

Output = int | Sequence[int] | Callable[[Any], Any] | None
Embedding = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]


class Predictor(Protocol):
    """A model, ready to be asked: where it lives, what it takes and whether it can be differentiated."""

    @property
    def device(self) -> torch.device:
        """The device its inputs live on."""

    @property
    def dtype(self) -> torch.dtype | None:
        """The floating type it takes; None where it takes the rows' own type."""

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow from outputs to inputs."""

    @property
    def embedding(self) -> Embedding | None:
        """Where to differentiate a model of indices, since nothing lies between two of them; None: at its inputs.

        Two functions: inputs (n, d) to embeddings (n, d, e), and embeddings to outputs.
        """

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n,) or (n, k)."""


@contextmanager
def opened(model: Any, output: Output, device: torch.device | str | None) -> Iterator[Predictor]:
    """Make a model ready to be asked, and give it back as it was."""
    if isinstance(model, nn.Module):
        with _evaluating(model, device) as home:
            yield TorchPredictor(model, output, home)
    elif callable(model):
        yield CallablePredictor(model, output, torch.device(device or "cpu"))
    else:
        raise InputError(
            f"model: wanted a torch.nn.Module or a callable on numpy arrays, got {type(model).__name__}; "
            "a fitted estimator's method will do, for example model.predict_proba"
        )


@dataclass(frozen=True)
class TorchPredictor:
    """A torch module: tensors in, tensors out, differentiable."""

    module: nn.Module
    output: Output
    device: torch.device
    differentiable = True

    @property
    def dtype(self) -> torch.dtype | None:
        """The type of the module's first floating parameter or buffer."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        return next((t.dtype for t in tensors if t.is_floating_point()), None)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n,) or (n, k)."""
        return _choose(self.module(inputs), self.output, len(inputs))

    @property
    def embedding(self) -> Embedding | None:
        """The module's own `embed` and `from_embeddings`, if it has both, as `shearshap.models.DeepFM` does."""
        embed, after = getattr(self.module, "embed", None), getattr(self.module, "from_embeddings", None)
        if embed is None or after is None:
            return None
        return embed, lambda embedded: _choose(after(embedded), self.output, len(embedded))


@dataclass(frozen=True)
class CallablePredictor:
    """A plain function from a numpy array (n, *shape) to an array (n,) or (n, k)."""

    function: Callable[[Any], Any]
    output: Output
    device: torch.device
    dtype = None
    differentiable = False
    embedding = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n,) or (n, k)."""
        answer = _choose(self.function(inputs.cpu().numpy()), self.output, len(inputs))
        return answer.to(self.device)


@contextmanager
def _evaluating(module: nn.Module, device: torch.device | str | None) -> Iterator[torch.device]:
    """Put a module into eval mode on a device, and back into each submodule's mode and place afterwards."""
    homes = {tensor.device for tensor in (*module.parameters(), *module.buffers())} or {torch.device("cpu")}
    home = next(iter(homes))
    target = home if device is None else torch.device(device)
    if len(homes) > 1 and device is not None:
        raise InputError(f"device: the model is spread over {sorted(map(str, homes))}; leave device out")
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        if target != home:
            module.to(target)
        yield target
    finally:
        for part, training in modes:
            part.train(training)  # a module may do more than keep the flag; parents come before their parts
        if target != home:
            module.to(home)


def _choose(raw: Any, output: Output, rows: int) -> Tensor:
    """Return the outputs to explain, (n,) or (n, k), of what a model returned."""
    if callable(output):
        raw = output(raw)
    answer = _tensor(raw)
    if answer.numel() == rows:
        answer = answer.reshape(rows)
    if answer.ndim not in (1, 2) or len(answer) != rows or answer.numel() == 0:
        raise ModelError(
            f"the model returned shape {tuple(answer.shape)} for {rows} rows; wanted ({rows},) or ({rows}, k). "
            "Pass output= a function of the model's output that gives such a shape"
        )
    return answer if output is None or callable(output) else _indexed(answer, output)


def _tensor(raw: Any) -> Tensor:
    if isinstance(raw, Tensor):
        return raw if raw.is_floating_point() else raw.double()
    try:
        if isinstance(raw, tuple | list) and any(np.ndim(part) for part in raw):
            raise TypeError
        return torch.from_numpy(np.array(raw, dtype=np.float64))  # a copy: the model may use its memory again
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"the model returned a {type(raw).__name__} that is no array of numbers; "
            "pass output= a function that picks the array out of it"
        ) from error


def _indexed(answer: Tensor, output: int | Sequence[int]) -> Tensor:
    outputs = 1 if answer.ndim == 1 else answer.shape[1]
    wanted = [output] if isinstance(output, int) else list(output)
    outside = [index for index in wanted if not -outputs <= index < outputs]
    if outside:
        raise InputError(f"output: there is no output {outside[0]}; the model has {outputs} (0 to {outputs - 1})")
    table = answer[:, None] if answer.ndim == 1 else answer
    return table[:, output] if isinstance(output, int) else table[:, wanted]


def checked_output(output: Any) -> Output:
    """Return `output` as None, a function, an index or a list of indices, or raise."""
    if output is None:
        return None
    if callable(output):
        return output  # type: ignore[no-any-return]
    several = isinstance(output, Sequence | np.ndarray) and not isinstance(output, str)
    indices = list(output) if several else [output]
    if not indices or not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in indices):
        raise InputError(f"output: wanted a class index, several, or a function of the model's output; got {output!r}")
    return [int(i) for i in indices] if several else int(output)
