"""Every method as a captum attribution: captum's arguments in, attributions out.

    from shearshap.interop.captum import Shapley
    attributions = Shapley(model).attribute(inputs, baselines=0, target=1, n_samples=512)

Letters as everywhere: r rows, p players, k outputs, and d inputs of a row, which are the numbers of
its tensors, flat, one after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.data.arrays import Layout
from shearshap.errors import BudgetError, InputError, ModelError
from shearshap.explainer import explain
from shearshap.methods.base import Method
from shearshap.numbers import positive_int

try:
    from captum.attr import PerturbationAttribution
    from captum.log import log_usage
except ImportError as error:
    raise ImportError("shearshap.interop.captum needs captum: pip install captum") from error

Tensors = Tensor | tuple[Tensor, ...]
Baselines = Tensor | float | tuple[Tensor | float, ...] | None
Index = tuple[Any, ...]  #: integers or slices, after the axis of rows; () is all outputs
Target = int | Index | Tensor | list[int] | list[Index] | None


class Shapley(PerturbationAttribution):  # type: ignore[misc]
    """Shapley values by any of this package's methods, for captum.

    Parameters
    ----------
    forward_func
        A module or a function of tensors with one output per row: (n,), (n, k), or more axes for
        `target` to choose from. As always in captum, a module is evaluated in its current mode:
        call `model.eval()` first.
    method
        A name in `shearshap.METHODS`, an instance such as `shearshap.Kriging()`, or "auto".
    seed
        The same seed gives the same attributions.
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
        return_input_shape: bool = True,
    ) -> Any:
        """Attribute the output to the inputs: a tensor for a tensor, a tuple for a tuple.

        Attributions have the shapes of their inputs. All inputs of a feature get its value,
        as in captum's KernelShap. Without `target`, k > 1 outputs make attributions (r, k, *shape).
        Rows are explained together if they have the same target, baseline and tensors among
        `additional_forward_args`.

        Parameters
        ----------
        inputs, baselines, target
            As in captum: a tensor (r, *shape) or a tuple of them; None, numbers, or tensors of one
            row or of r rows; None, an index, a tuple of indices or slices, or one for every row.
        additional_forward_args
            Further arguments of the forward function, after the inputs. A tensor with an entry for
            every row is repeated with the rows; anything else is passed as it is.
        feature_mask
            The features: whole numbers in the shape of one row, the same for all rows. Inputs with
            the same number, also in different tensors, are one feature; numbers may be left out.
            None: every input is a feature.
        n_samples
            Model evaluations per row; each of the first four rows takes one more, which checks
            the model. None: 2 p + 2048, or the 2^p of all coalitions if those are fewer, or what
            the method needs if that is more.
        perturbations_per_eval
            Perturbations of every row per forward pass, which then has r times as many rows. None:
            as memory allows.
        return_convergence_delta
            Whether to return (attributions, delta), delta as of `compute_convergence_delta`.
        return_input_shape
            False: return the values of the features, (r, p) or (r, k, p), in the order of their
            numbers in `feature_mask`, from the smallest; a number left out has the value 0.
        """
        rows = _Rows.from_captum(inputs, baselines, target, additional_forward_args, feature_mask)
        batch_size: Any = "auto"
        if perturbations_per_eval is not None:
            batch_size = positive_int("perturbations_per_eval", perturbations_per_eval) * rows.count

        blocks = rows.alike()
        values = [
            self._values(rows.take(block), n_samples, batch_size, show_progress) for block in blocks
        ]
        phi = torch.cat(values)[torch.cat(blocks).argsort()]

        attributions: Any = _in_shape(phi, rows)
        if not isinstance(inputs, tuple):
            (attributions,) = attributions
        answer = attributions if return_input_shape else _of_players(phi, rows)
        if not return_convergence_delta:
            return answer
        delta = self.compute_convergence_delta(
            attributions, baselines, inputs, target, additional_forward_args, feature_mask
        )
        return answer, delta

    def _values(
        self, rows: "_Rows", n_samples: int | None, batch_size: Any, progress: bool
    ) -> Tensor:
        """Return the value of every input's player, (r, d) or (r, k, d), of rows that are alike."""
        players, owner = np.unique(rows.mask.numpy(), return_inverse=True)
        model = _Forward(self.forward_func, rows)

        explained = partial(
            explain,
            model,
            _flat(rows.inputs),
            reference=_flat(tuple(part[:1] for part in rows.baselines)),
            groups=owner,
            method=self.method,
            batch_size=batch_size,
            seed=self.seed,
            progress=progress,
        )
        usual = min(2 * len(players) + 2048, 1 << len(players))
        try:
            explanation = explained(budget=usual if n_samples is None else n_samples)
        except BudgetError as error:
            if n_samples is not None or error.nearest is None:
                raise
            explanation = explained(budget=error.nearest)

        phi = torch.from_numpy(explanation.values[:, owner]).movedim(1, -1)
        return phi if phi.ndim == 2 else phi.unflatten(1, model.output_shape)

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
        inputs. A feature's value counts once, even if it has several inputs, so pass the
        `feature_mask` of the attributions. The result is 0 up to rounding if the method promises
        efficiency.
        """
        rows = _Rows.from_captum(
            end_point, start_point, target, additional_forward_args, feature_mask
        )
        change = self._outputs(rows.inputs, rows) - self._outputs(rows.baselines, rows)

        phi = rows.layout.join(_as_tuple(attributions, "attributions")).detach().double()
        _, owner, sizes = rows.mask.unique(return_inverse=True, return_counts=True)
        total: Tensor = phi @ (1 / sizes.double())[owner].to(phi.device)
        return total - change.reshape(total.shape)

    def _outputs(self, points: tuple[Tensor, ...], rows: "_Rows") -> Tensor:
        """Return the forward function's output at points, of every row's own target."""
        with torch.no_grad():
            answer = self.forward_func(*points, *rows.arguments)
        own = [_chosen(answer, index)[row] for row, index in enumerate(rows.targets)]
        return torch.stack(own).double()


# The forward function


class _Forward(nn.Module):
    """A forward function as a module of flat tensors, one for each input: what `explain` takes.

    The forward function is not a submodule, since captum leaves its mode and device to its owner.
    """

    def __init__(self, forward: Callable[..., Any], rows: "_Rows") -> None:
        super().__init__()
        self._call = (forward,)  # in a tuple, where torch does not look for submodules
        self._rows = rows
        self.output_shape: tuple[int, ...] = ()  #: of one row, as it was last returned
        # it says where to compute; an integer, so that every input keeps its own floating type
        place = torch.empty(0, dtype=torch.int64, device=rows.inputs[0].device)
        self.register_buffer("place", place)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map inputs (n, size) each to outputs (n,) or (n, k)."""
        count = len(inputs[0])
        shapes = self._rows.layout.shapes
        shaped = [part.reshape(count, *shape) for part, shape in zip(inputs, shapes, strict=True)]
        answer = self._call[0](*shaped, *self._rows.arguments_of_first(count))
        outputs = _chosen(answer, self._rows.targets[0])
        if len(outputs) != count:
            raise ModelError(
                f"forward_func: expected one output per row ({count}), got shape "
                f"{tuple(outputs.shape)}"
            )
        self.output_shape = tuple(outputs.shape[1:])
        return outputs.flatten(1) if outputs.ndim > 2 else outputs


def _flat(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors (r, *shape) as (r, size)."""
    return tuple(part.reshape(len(part), -1) for part in tensors)


def _chosen(answer: Any, index: Index) -> Tensor:
    """Return a target's outputs, (n, ...), of what a forward function returned."""
    if not isinstance(answer, Tensor) or answer.ndim == 0:
        got = "a single number" if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(f"forward_func: expected a tensor with one output per row, got {got}")
    try:
        return answer[(slice(None), *index)]
    except IndexError as error:
        raise InputError(
            f"target: {error}; the model's output has shape {tuple(answer.shape)}"
        ) from error


# Attributions


def _in_shape(phi: Tensor, rows: "_Rows") -> tuple[Tensor, ...]:
    """Return values (r, d) or (r, k, d) in the inputs' shapes, in single precision at least."""
    parts = zip(rows.layout.split(phi), rows.inputs, strict=True)
    return tuple(
        part.to(own.device, torch.promote_types(own.dtype, torch.float32)) for part, own in parts
    )


def _of_players(phi: Tensor, rows: "_Rows") -> Tensor:
    """Return the values of players, (r, p) or (r, k, p), of values of inputs, (r, d) or (r, k, d).

    With the mask 3 3 5 and the values a a b, that is a 0 b.
    """
    numbers = rows.mask - rows.mask.min()
    of_players = phi.new_zeros(*phi.shape[:-1], int(numbers.max()) + 1)
    of_players[..., numbers] = phi
    return of_players.to(rows.inputs[0].device)


# captum's arguments


@dataclass(frozen=True)
class _Rows:
    """r rows, and all else that the forward function's answer for a row depends on."""

    inputs: tuple[Tensor, ...]  #: (r, *shape) each
    baselines: tuple[Tensor, ...]  #: (r, *shape) each
    mask: Tensor  #: (d,) the number of each input's player
    targets: list[Index]  #: one for each row
    arguments: tuple[Any, ...]  #: further ones of the forward function
    by_row: tuple[bool, ...]  #: whether each is a tensor with an entry for every row

    @classmethod
    def from_captum(
        cls,
        inputs: Tensors,
        baselines: Baselines,
        target: Target,
        arguments: Any,
        mask: Tensors | None,
    ) -> "_Rows":
        """Check captum's arguments, and bring them into one form."""
        tensors = _as_tuple(inputs, "inputs")
        count = len(tensors[0])
        several = arguments if isinstance(arguments, tuple) else (arguments,)
        if arguments is None:
            several = ()
        absent = zip(_matched(baselines, tensors, "baselines"), tensors, strict=True)
        return cls(
            tensors,
            tuple(_baseline(part, rows) for part, rows in absent),
            _mask(mask, tensors),
            _targets(target, count),
            several,
            tuple(_has_rows(part) and len(part) == count for part in several),
        )

    @property
    def count(self) -> int:
        """The number of rows r."""
        return len(self.inputs[0])

    @property
    def layout(self) -> Layout:
        """The place of each tensor in a flat row."""
        return Layout(tuple(tuple(part.shape[1:]) for part in self.inputs))

    def take(self, which: Tensor) -> "_Rows":
        """Return some of the rows."""
        arguments = zip(self.arguments, self.by_row, strict=True)
        return replace(
            self,
            inputs=tuple(part[which.to(part.device)] for part in self.inputs),
            baselines=tuple(part[which.to(part.device)] for part in self.baselines),
            targets=[self.targets[row] for row in which.tolist()],
            arguments=tuple(
                part[which.to(part.device)] if by_row else part for part, by_row in arguments
            ),
        )

    def alike(self) -> list[Tensor]:
        """Return the numbers of the rows in blocks that share target, baseline and arguments."""
        names = [str(index) for index in self.targets]
        labels = [torch.from_numpy(np.unique(names, return_inverse=True)[1])]
        of_rows = [part for part, by_row in zip(self.arguments, self.by_row, strict=True) if by_row]
        labels += [_label(setting) for setting in (*self.baselines, *of_rows)]
        block = torch.unique(torch.stack(labels, dim=1), dim=0, return_inverse=True)[1]
        return [(block == number).nonzero()[:, 0] for number in range(int(block.max()) + 1)]

    def arguments_of_first(self, copies: int) -> list[Any]:
        """Return the arguments of the first row, for as many copies of it."""
        return [
            part[:1].expand(copies, *part.shape[1:]) if by_row else part
            for part, by_row in zip(self.arguments, self.by_row, strict=True)
        ]


def _has_rows(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.ndim > 0


def _label(setting: Tensor) -> Tensor:
    """Return a number for every row of a setting (r, ...), the same for the same rows."""
    rows = setting.detach().reshape(len(setting), -1)
    if bool((rows == rows[:1]).all()):
        return torch.zeros(len(rows), dtype=torch.int64)
    labels: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    return labels.cpu()


def _as_tuple(tensors: Tensors, argument: str) -> tuple[Tensor, ...]:
    """Return one or several tensors as a tuple, all with the same number of rows."""
    several = tensors if isinstance(tensors, tuple) else (tensors,)
    if not several or not all(_has_rows(part) for part in several):
        kinds = ", ".join(type(part).__name__ for part in several) or "an empty tuple"
        raise InputError(f"{argument}: expected a tensor (r, ...) or a tuple of them, got {kinds}")

    shapes = ", ".join(str(tuple(part.shape)) for part in several)
    if len({len(part) for part in several}) > 1 or not all(part.numel() for part in several):
        raise InputError(
            f"{argument}: expected tensors with the same number of rows, none of them empty, got "
            f"shapes {shapes}"
        )
    return several


def _matched(parts: Any, tensors: tuple[Tensor, ...], argument: str) -> tuple[Any, ...]:
    """Return the part of an argument that belongs to each of the inputs' tensors."""
    if parts is None:
        return (None,) * len(tensors)
    several = parts if isinstance(parts, tuple) else (parts,)
    if len(several) != len(tensors):
        raise InputError(
            f"{argument}: expected one per tensor in inputs, {len(tensors)}, got {len(several)}"
        )
    return several


def _baseline(baseline: Tensor | float | None, rows: Tensor) -> Tensor:
    """Return one input's baseline of every row, (r, *shape)."""
    plain = torch.as_tensor(0 if baseline is None else baseline, device=rows.device)
    if plain.ndim and tuple(plain.shape) not in (tuple(rows.shape), (1, *rows.shape[1:])):
        raise InputError(
            f"baselines: expected a number, or a tensor of shape {tuple(rows.shape)} or "
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
    """Return the number of the player that owns each input of a row, (d,), on the CPU."""
    if mask is None:
        return torch.arange(sum(part[0].numel() for part in tensors))
    pairs = zip(_matched(mask, tensors, "feature_mask"), tensors, strict=True)
    numbers = torch.cat(_flat(tuple(_player_numbers(part, rows) for part, rows in pairs)), dim=1)
    if not bool((numbers == numbers[:1]).all()):
        raise InputError(
            "feature_mask: expected the same features in all rows, got a mask that differs from "
            "row to row; explain rows with other features in separate calls"
        )
    return numbers[0]


def _player_numbers(mask: Any, rows: Tensor) -> Tensor:
    """Return a mask in the shape of the rows; missing axes come first, as in captum."""
    shown = type(mask).__name__
    if isinstance(mask, Tensor):
        shown = f"{mask.dtype} of shape {tuple(mask.shape)}"
        numbers = mask.cpu().long()
        if torch.equal(numbers.to(mask.dtype), mask.cpu()):
            try:
                return numbers.expand_as(rows)
            except RuntimeError:  # it has another shape
                pass
    raise InputError(
        f"feature_mask: expected whole numbers of shape {(1, *rows.shape[1:])}, got {shown}"
    )


def _targets(target: Any, count: int) -> list[Index]:
    """Return the target of each of `count` rows."""
    if isinstance(target, Tensor):
        target = target.item() if target.numel() == 1 else target.tolist()
    if target is None:
        return [()] * count

    several = target if isinstance(target, list) else [target] * count
    indices = [index if isinstance(index, tuple) else (index,) for index in several]
    usable = all(isinstance(part, int | np.integer | slice) for index in indices for part in index)
    if not usable or len(indices) != count:
        raise InputError(
            f"target: expected None, an index, a tuple of indices, or a list or tensor of {count}, "
            f"one for each row; got {target!r}"
        )
    return indices
