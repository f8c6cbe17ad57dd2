"""Every method as a captum attribution: captum's arguments in, attributions out.

    from shearshap.interop.captum import Shapley
    attributions = Shapley(model).attribute(inputs, baselines=0, target=1, n_samples=512)

Letters as everywhere: r rows, p players, k outputs, and d inputs of a row, which are the numbers of
its tensors, flat, one after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.errors import InputError, ModelError
from shearshap.explainer import explain
from shearshap.inputs.several import Layout
from shearshap.methods.base import Method

try:
    from captum.attr import PerturbationAttribution
    from captum.log import log_usage
except ImportError as error:
    raise ImportError("shearshap.interop.captum needs captum: pip install captum") from error

Tensors = Tensor | tuple[Tensor, ...]
Baselines = Tensor | float | tuple[Tensor | float, ...] | None
Index = tuple[int, ...]
Target = int | Index | Tensor | list[int] | list[Index] | None


class Shapley(PerturbationAttribution):  # type: ignore[misc]
    """Shapley values by any of this package's methods, for captum.

    Parameters
    ----------
    forward_func
        A module or a function of tensors, with an output for every row: (n,), (n, k), or more axes
        for `target` to choose from. As always in captum, a module is evaluated in the mode it is
        in: call `model.eval()` first.
    method
        A name in `shearshap.METHODS`, an instance such as `shearshap.Kriging()`, or "auto".
    seed
        Same seed, same attributions.
    """

    def __init__(
        self, forward_func: Callable[..., Any], method: str | Method = "auto", *, seed: int = 0
    ) -> None:
        super().__init__(forward_func)
        self.method = method
        self.seed = seed

    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Tensors,
        baselines: Baselines = None,
        target: Target = None,
        additional_forward_args: Any = None,
        feature_mask: Tensors | None = None,
        n_samples: int | None = None,
        perturbations_per_eval: int | None = None,
        show_progress: bool = False,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Attribute the output to the inputs: a tensor for a tensor, a tuple for a tuple.

        Attributions have the shapes of their inputs. All inputs of a player get the player's value,
        as in captum's KernelShap. Without `target`, k > 1 outputs make attributions (r, k, *shape).
        Rows are explained all at once, apart from those that differ in baseline, mask or tensors
        among `additional_forward_args`.

        Parameters
        ----------
        inputs
            A tensor (r, *shape) or a tuple of them. Integers stay exact.
        baselines
            What absent inputs are replaced with: None (zeros), a number, a tensor of one row or of
            r rows; for a tuple of inputs, a tuple of these.
        target
            Which output to explain: None, an index, a tuple of indices into an output of several
            axes, or a tensor or list with one for every row.
        additional_forward_args
            Further arguments of the forward function, after the inputs. Tensors have an entry for
            every row.
        feature_mask
            The players: integers of the inputs' shape, for one row or for r rows. Inputs with the
            same number, also in different tensors, are one player; numbers may be left out. None:
            every input is a player.
        n_samples
            Model evaluations for one row, all of them; None: 2 p + 2048, or the 2^p of all
            coalitions where those are fewer.
        perturbations_per_eval
            Perturbations of every row in one forward, which then takes r times as many rows; None:
            as memory allows.
        show_progress
            Whether to show a progress bar.
        return_convergence_delta
            Whether to return (attributions, delta), delta as of `compute_convergence_delta`.
        """
        rows = _rows(inputs, baselines, target, additional_forward_args, feature_mask)
        batch_size = None
        if perturbations_per_eval is not None:
            batch_size = perturbations_per_eval * rows.count

        blocks = rows.alike()
        phi = [
            self._values(rows.take(block), n_samples, batch_size, show_progress) for block in blocks
        ]
        in_order = torch.cat(phi)[torch.cat(blocks).argsort()]

        shaped = _attributions(in_order, rows)
        attributions = shaped if isinstance(inputs, tuple) else shaped[0]
        if not return_convergence_delta:
            return attributions
        delta = self.compute_convergence_delta(
            attributions, baselines, inputs, target, additional_forward_args, feature_mask
        )
        return attributions, delta

    def _values(
        self, rows: "_Rows", budget: int | None, batch_size: int | None, progress: bool
    ) -> Tensor:
        """Return the value of every input's player, (r, d) or (r, k, d).

        The rows must have the same baseline, mask and arguments.
        """
        players, owner = np.unique(rows.mask[0].numpy(), return_inverse=True)
        targets = sorted(set(rows.targets))
        explanation = explain(
            _Forward(self.forward_func, rows, targets),
            tuple(part.reshape(rows.count, -1) for part in rows.inputs),
            reference=tuple(part[:1].reshape(1, -1) for part in rows.baselines),
            groups=owner,
            budget=_default_budget(len(players)) if budget is None else budget,
            method=self.method,
            batch_size="auto" if batch_size is None else batch_size,
            seed=self.seed,
            progress=progress,
        )
        phi = torch.from_numpy(explanation.values[:, owner]).movedim(1, -1)
        return _own(phi, rows.targets, targets)

    def has_convergence_delta(self) -> bool:
        """Return True: `compute_convergence_delta` works."""
        return True

    @log_usage()  # type: ignore[untyped-decorator]
    def compute_convergence_delta(
        self,
        attributions: Tensors,
        start_point: Baselines,
        end_point: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        feature_mask: Tensors | None = None,
    ) -> Tensor:
        """Return by how much the values exceed F(end_point) - F(start_point).

        That is (r,), or (r, k) without `target`. `start_point` are the baselines, `end_point` the
        inputs. A player's value counts once, however many inputs it has, so pass the `feature_mask`
        of the attributions. The result is 0 up to rounding where the method promises efficiency.
        """
        rows = _rows(end_point, start_point, target, additional_forward_args, feature_mask)
        change = self._outputs(rows.inputs, rows) - self._outputs(rows.baselines, rows)

        phi = rows.layout.join(_as_tuple(attributions, "attributions")).detach().double()
        weights = _once(rows.mask).to(phi.device)
        total = torch.einsum("r...d,rd->r...", phi, weights)
        return total - change.reshape(total.shape)

    def _outputs(self, points: tuple[Tensor, ...], rows: "_Rows") -> Tensor:
        """Return the forward function's output at points, of every row's own target."""
        targets = sorted(set(rows.targets))
        with torch.no_grad():
            answer = self.forward_func(*points, *rows.arguments)
        outputs = _chosen(answer, targets, rows.count)
        return _own(outputs, rows.targets, targets).double()


# Rows


@dataclass(frozen=True)
class _Rows:
    """r rows, and all else that the forward function's answer for a row depends on."""

    inputs: tuple[Tensor, ...]  #: (r, *shape) each
    baselines: tuple[Tensor, ...]  #: (r, *shape) each
    mask: Tensor  #: (r, d) the number of each input's player
    arguments: tuple[Any, ...]  #: tensors among them are (r, ...)
    targets: list[Index]  #: of every row; () is all outputs

    @property
    def count(self) -> int:
        """The number of rows r."""
        return len(self.inputs[0])

    @property
    def layout(self) -> Layout:
        """Where each tensor lies in a flat row."""
        return _layout(self.inputs)

    def take(self, which: Tensor) -> "_Rows":
        """Return some of the rows."""
        return _Rows(
            tuple(_selected(part, which) for part in self.inputs),
            tuple(_selected(part, which) for part in self.baselines),
            self.mask[which],
            tuple(_selected(argument, which) for argument in self.arguments),
            [self.targets[row] for row in which.tolist()],
        )

    def alike(self) -> list[Tensor]:
        """Return the numbers of the rows in blocks that share baseline, mask and arguments."""
        settings = (*self.baselines, self.mask, *filter(_by_row, self.arguments))
        labels = torch.stack([_label(setting) for setting in settings], dim=1)
        block = torch.unique(labels, dim=0, return_inverse=True)[1]
        return [(block == number).nonzero()[:, 0] for number in range(int(block.max()) + 1)]


def _rows(
    inputs: Tensors, baselines: Baselines, target: Target, arguments: Any, mask: Tensors | None
) -> _Rows:
    """Check captum's arguments, and bring them into one form."""
    tensors = _as_tuple(inputs, "inputs")
    count = len(tensors[0])
    return _Rows(
        tensors,
        _baselines(baselines, tensors),
        _mask(mask, tensors),
        _arguments(arguments, count),
        _targets(target, count),
    )


def _layout(tensors: tuple[Tensor, ...]) -> Layout:
    return Layout(tuple(tuple(part.shape[1:]) for part in tensors))


def _selected(argument: Any, which: Tensor) -> Any:
    """Return some rows of a tensor (r, ...); anything else as it is."""
    return argument[which.to(argument.device)] if _by_row(argument) else argument


def _by_row(argument: Any) -> bool:
    """Return whether an argument is a tensor with an entry for every row."""
    return isinstance(argument, Tensor) and argument.ndim > 0


def _label(setting: Tensor) -> Tensor:
    """Return a number for every row of a setting (r, ...), the same for the same rows."""
    rows = setting.detach().reshape(len(setting), -1)
    if bool((rows == rows[:1]).all()):
        return torch.zeros(len(rows), dtype=torch.int64)
    labels: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    return labels.cpu()


def _attributions(phi: Tensor, rows: _Rows) -> tuple[Tensor, ...]:
    """Return values (r, d) or (r, k, d) in the inputs' shapes.

    They are floats of at least single precision.
    """
    device = rows.inputs[0].device
    return tuple(
        part.to(device, torch.promote_types(own.dtype, torch.float32))
        for part, own in zip(rows.layout.split(phi), rows.inputs, strict=True)
    )


def _default_budget(players: int) -> int:
    """Return 2 p + 2048, or 2^p where those are fewer.

    That is enough for every method on a few players, and for "auto" on many.
    """
    return min(2 * players + 2048, 1 << players)


# The forward function


class _Forward(nn.Module):
    """A forward function as a module of flat tensors, one for each input: what `explain` takes."""

    def __init__(self, forward: Callable[..., Any], rows: _Rows, targets: list[Index]) -> None:
        super().__init__()
        self.call = _Call(
            forward,
            rows.layout,
            tuple(argument[:1] if _by_row(argument) else argument for argument in rows.arguments),
            targets,
        )
        # it says where to compute; an integer, so that every input keeps its own floating type
        place = torch.empty(0, dtype=torch.int64, device=rows.inputs[0].device)
        self.register_buffer("place", place)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map inputs (n, size) each to the outputs of the targets, (n,) or (n, k)."""
        return self.call(inputs)


@dataclass(frozen=True)
class _Call:
    """How to call a forward function.

    The module above holds it through this class, and not as a submodule of its own, since captum
    leaves a model's mode and device to its owner.
    """

    forward: Callable[..., Any]
    layout: Layout
    arguments: tuple[Any, ...]  #: tensors among them are (1, ...), for all rows
    targets: list[Index]

    def __call__(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Map inputs (n, size) each to the outputs of the targets, (n,) or (n, k)."""
        count = len(inputs[0])
        shaped = [
            part.reshape(count, *shape)
            for part, shape in zip(inputs, self.layout.shapes, strict=True)
        ]
        arguments = [_repeated(argument, count) for argument in self.arguments]
        return _chosen(self.forward(*shaped, *arguments), self.targets, count)


def _repeated(argument: Any, count: int) -> Any:
    """Return a tensor of one row or of `count` rows (count, ...); anything else as it is."""
    return argument.expand(count, *argument.shape[1:]) if _by_row(argument) else argument


def _chosen(answer: Any, targets: list[Index], count: int) -> Tensor:
    """Return the outputs of the targets, (n,) or (n, k), of what a forward function returned."""
    if not isinstance(answer, Tensor) or answer.ndim == 0 or len(answer) != count:
        shown = type(answer).__name__
        if isinstance(answer, Tensor):
            shown = f"shape {tuple(answer.shape)}"
        raise ModelError(
            f"forward_func: wanted a tensor with an output for each of {count} rows, got {shown}"
        )
    try:
        outputs = [_at(answer, index) for index in targets]
    except IndexError as error:
        raise InputError(
            f"target: {error}; the model's output has shape {tuple(answer.shape)}"
        ) from error
    return outputs[0] if len(outputs) == 1 else torch.stack(outputs, dim=1)


def _at(answer: Tensor, index: Index) -> Tensor:
    every_row: tuple[Any, ...] = (slice(None), *index)
    return answer[every_row]


def _own(outputs: Tensor, targets: list[Index], distinct: list[Index]) -> Tensor:
    """Return every row's own output, (r, ...), of one for each distinct target, (r, k, ...)."""
    if len(distinct) == 1:
        return outputs
    which = torch.tensor([distinct.index(index) for index in targets], device=outputs.device)
    return outputs[torch.arange(len(outputs), device=outputs.device), which]


# captum's arguments


def _as_tuple(tensors: Tensors, argument: str) -> tuple[Tensor, ...]:
    """Return one or several tensors as a tuple, all with the same number of rows."""
    several = tensors if isinstance(tensors, tuple) else (tensors,)
    if not several or not all(_by_row(part) for part in several):
        kinds = ", ".join(type(part).__name__ for part in several) or "an empty tuple"
        raise InputError(f"{argument}: wanted a tensor (r, ...) or a tuple of them, got {kinds}")
    if len(several[0]) == 0:
        raise InputError(
            f"{argument}: there are no rows in a tensor of shape {tuple(several[0].shape)}"
        )
    if len({len(part) for part in several}) > 1:
        shapes = ", ".join(str(tuple(part.shape)) for part in several)
        raise InputError(
            f"{argument}: wanted tensors of the same number of rows, got shapes {shapes}"
        )
    return several


def _matched(parts: Any, tensors: tuple[Tensor, ...], argument: str) -> tuple[Any, ...]:
    """Return the part of an argument that belongs to each of the inputs' tensors."""
    if parts is None:
        return (None,) * len(tensors)
    several = parts if isinstance(parts, tuple) else (parts,)
    if len(several) != len(tensors):
        raise InputError(
            f"{argument}: wanted one for each of the {len(tensors)} tensors in inputs, got "
            f"{len(several)}"
        )
    return several


def _baselines(baselines: Baselines, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the baseline of every row, like the inputs."""
    parts = _matched(baselines, tensors, "baselines")
    return tuple(_baseline(part, rows) for part, rows in zip(parts, tensors, strict=True))


def _baseline(baseline: Tensor | float | None, rows: Tensor) -> Tensor:
    """Return one input's baseline of every row, (r, *shape)."""
    plain = torch.as_tensor(0 if baseline is None else baseline, device=rows.device)
    if plain.ndim and tuple(plain.shape) not in (tuple(rows.shape), (1, *rows.shape[1:])):
        raise InputError(
            f"baselines: wanted a number, or a tensor of shape {tuple(rows.shape)} or "
            f"{(1, *rows.shape[1:])}, got shape {tuple(plain.shape)}"
        )
    typed = plain.detach().to(rows.dtype)
    if not rows.is_floating_point() and not torch.equal(typed.to(plain.dtype), plain):
        raise InputError(
            f"baselines: inputs of {rows.dtype} need whole numbers, got {plain.dtype} with "
            "fractions"
        )
    return typed.expand_as(rows)


def _mask(mask: Tensors | None, tensors: tuple[Tensor, ...]) -> Tensor:
    """Return the number of the player that owns each input of each row, (r, d), on the CPU."""
    count = len(tensors[0])
    layout = _layout(tensors)
    if mask is None:
        return torch.arange(layout.width).expand(count, layout.width)
    parts = _matched(mask, tensors, "feature_mask")
    return layout.join(
        tuple(_player_numbers(part, rows) for part, rows in zip(parts, tensors, strict=True))
    )


def _player_numbers(mask: Any, rows: Tensor) -> Tensor:
    """Return a mask in the shape of the rows; missing axes come first, as in captum."""
    shown = type(mask).__name__
    if isinstance(mask, Tensor):
        shown = f"{mask.dtype} of shape {tuple(mask.shape)}"
        if not mask.is_floating_point():
            try:
                return mask.cpu().long().expand_as(rows)
            except RuntimeError:  # it has another shape
                pass
    raise InputError(
        f"feature_mask: wanted integers of shape {(1, *rows.shape[1:])} or {tuple(rows.shape)}, "
        f"got {shown}"
    )


def _once(mask: Tensor) -> Tensor:
    """Return weights (r, d) that count every player once: one over the number of its inputs."""
    weights = []
    for row in mask.numpy():
        _, owner, sizes = np.unique(row, return_inverse=True, return_counts=True)
        weights.append(1 / sizes[owner])
    return torch.from_numpy(np.stack(weights))


def _arguments(arguments: Any, count: int) -> tuple[Any, ...]:
    """Return the additional arguments, tensors with an entry for every row."""
    if arguments is None:
        return ()
    several = arguments if isinstance(arguments, tuple) else (arguments,)
    for argument in several:
        if _by_row(argument) and len(argument) not in (1, count):
            raise InputError(
                f"additional_forward_args: wanted tensors with an entry for each of {count} rows, "
                f"got shape {tuple(argument.shape)}"
            )
    return tuple(_repeated(argument, count) for argument in several)


def _targets(target: Any, count: int) -> list[Index]:
    """Return the indices of every row's output; () is all of them."""
    if isinstance(target, Tensor):
        target = target.item() if target.numel() == 1 else target.tolist()
    if target is None:
        return [()] * count

    several = target if isinstance(target, list) else [target] * count
    targets = [index if isinstance(index, tuple) else (index,) for index in several]
    whole = all(isinstance(number, int | np.integer) for index in targets for number in index)
    if not whole or len(targets) != count:
        raise InputError(
            f"target: wanted None, an index, a tuple of indices, or a list or tensor of {count}, "
            f"one for each row; got {target!r}"
        )
    return targets
