"""Every method as a captum attribution: captum's arguments in, attributions of the inputs' shape
out.

    from shearshap.interop.captum import Shear
    attributions = Shear(model).attribute(inputs, baselines=0, target=1, n_samples=512)

Letters as everywhere: r rows, p players, k outputs, and d inputs of a row: its tensors, flat, one
after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.errors import InputError, ModelError
from shearshap.explainer import explain
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


class Shear(PerturbationAttribution):  # type: ignore[misc]
    """Shapley values by any of this package's methods, for captum.

    Parameters
    ----------
    forward_func
        A module or a function of tensors, with an output for every row: (n,), (n, k), or more axes
        for `target` to choose from. As always in captum, a module is asked in the mode it is in:
        call `model.eval()` first.
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
        """Attribute the output to the inputs: a tensor for a tensor, a tuple for a tuple, each of
        its input's shape.

        All inputs of a player get the player's share, as in captum's KernelShap. Without `target`,
        k > 1 outputs make attributions (r, k, *shape). Rows are explained all at once; only rows
        that differ in baseline, mask or tensors among `additional_forward_args` are explained
        apart.

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
            What else the forward function takes, after the inputs. Tensors have an entry for every
            row.
        feature_mask
            The players: integers of the inputs' shape, for one row or for r rows. Inputs with the
            same number, also in different tensors, are one player; numbers may be left out. None:
            every input is a player.
        n_samples
            Model evaluations for one row, all of them; None: 2 p + 2048, or the 2^p of all
            coalitions where fewer.
        perturbations_per_eval
            Perturbations of every row in one forward, which so takes r times as many; None: as
            memory allows.
        show_progress
            Whether to show a progress bar.
        return_convergence_delta
            Whether to return (attributions, delta), delta as of `compute_convergence_delta`.
        """
        tensors = _tuple(inputs, "inputs")
        layout = _layout(tensors)
        rows = _Rows(
            layout.join(tensors),
            layout.join(_baselines(baselines, tensors)),
            _mask(feature_mask, tensors),
            _arguments(additional_forward_args, len(tensors[0])),
            _targets(target, len(tensors[0])),
        )
        batch_size = (
            None if perturbations_per_eval is None else perturbations_per_eval * len(tensors[0])
        )
        groups = rows.alike()
        parts = [
            self._shares(rows.take(group), layout, n_samples, batch_size, show_progress)
            for group in groups
        ]
        shares = layout.shaped(torch.cat(parts)[torch.cat(groups).argsort()])
        attributions = shares if isinstance(inputs, tuple) else shares[0]
        if not return_convergence_delta:
            return attributions
        return attributions, self.compute_convergence_delta(
            attributions, baselines, inputs, target, additional_forward_args, feature_mask
        )

    def _shares(
        self,
        rows: "_Rows",
        layout: "_Layout",
        budget: int | None,
        batch_size: int | None,
        progress: bool,
    ) -> Tensor:
        """Return the share of every input's player, (r, d) or (r, k, d), of rows that are alike but
        for the inputs.
        """
        players, owner = np.unique(rows.mask[0].numpy(), return_inverse=True)
        targets = sorted(set(rows.targets))
        answer = explain(
            _FlatModule(self.forward_func, layout, rows, targets),
            rows.inputs,
            reference=rows.baseline[0],
            groups=owner,
            budget=_default_budget(len(players)) if budget is None else budget,
            method=self.method,
            batch_size="auto" if batch_size is None else batch_size,
            seed=self.seed,
            progress=progress,
        )
        shares = torch.from_numpy(answer.values[:, owner]).movedim(1, -1)
        return _own(shares, rows.targets, targets)

    def has_convergence_delta(self) -> bool:
        """Return True: what the shares and the output's change differ by is known."""
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
        """Return by how much the shares exceed F(end_point) - F(start_point): (r,), or (r, k)
        without `target`.

        `start_point` are the baselines, `end_point` the inputs. A player's share counts once,
        however many inputs it has, so pass the `feature_mask` of the attributions. 0 up to rounding
        where the method promises efficiency.
        """
        tensors = _tuple(end_point, "end_point")
        count = len(tensors[0])
        arguments, targets = _arguments(additional_forward_args, count), _targets(target, count)
        distinct = sorted(set(targets))
        with torch.no_grad():
            present, absent = (
                _own(
                    _chosen(self.forward_func(*points, *arguments), distinct, count),
                    targets,
                    distinct,
                ).double()
                for points in (tensors, _baselines(start_point, tensors))
            )
        shares = _layout(tensors).flat(_tuple(attributions, "attributions")).double()
        total = torch.einsum(
            "r...d,rd->r...", shares, _once(_mask(feature_mask, tensors)).to(shares.device)
        )
        return total - (present - absent).reshape(total.shape)


@dataclass(frozen=True)
class _Rows:
    """r rows, and all else that the forward function's answer for a row depends on."""

    inputs: Tensor  #: (r, d)
    baseline: Tensor  #: (r, d)
    mask: Tensor  #: (r, d) the number of each input's player
    arguments: tuple[Any, ...]  #: tensors among them are (r, ...)
    targets: list[Index]  #: of every row; () is all outputs

    def take(self, which: Tensor) -> "_Rows":
        """Return some of the rows."""
        place = which.to(self.inputs.device)
        arguments = tuple(
            part[which.to(part.device)] if _by_row(part) else part for part in self.arguments
        )
        targets = [self.targets[row] for row in which.tolist()]
        return _Rows(self.inputs[place], self.baseline[place], self.mask[which], arguments, targets)

    def alike(self) -> list[Tensor]:
        """Return the numbers of the rows in groups that share baseline, mask and arguments."""
        settings = (self.baseline, self.mask, *filter(_by_row, self.arguments))
        labels = torch.stack([_label(setting) for setting in settings], dim=1)
        group = torch.unique(labels, dim=0, return_inverse=True)[1]
        return [(group == number).nonzero()[:, 0] for number in range(int(group.max()) + 1)]


@dataclass(frozen=True)
class _Layout:
    """How a row's tensors lie in one flat row, in a type that holds all their numbers exactly."""

    shapes: list[tuple[int, ...]]  #: of each tensor, without the axis of rows
    dtypes: list[torch.dtype]
    device: torch.device

    @property
    def mixed(self) -> bool:
        """Whether there are both floats and integers; then the flat row holds their bits, as
        integers.
        """
        return len({dtype.is_floating_point for dtype in self.dtypes}) > 1

    @property
    def dtype(self) -> torch.dtype:
        """The type of the flat row."""
        return torch.int64 if self.mixed else reduce(torch.promote_types, self.dtypes)

    def join(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """Return tensors (r, *shape) as flat rows (r, d)."""
        parts = [_bits(part) if self.mixed else part for part in tensors]
        return torch.cat(
            [part.detach().to(self.dtype).reshape(len(part), -1) for part in parts], dim=1
        )

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Return flat rows (n, d) as the tensors (n, *shape) that they were joined of."""
        parts = []
        for part, shape, dtype in zip(self._columns(flat), self.shapes, self.dtypes, strict=True):
            numbers = part.view(torch.float64) if self.mixed and dtype.is_floating_point else part
            parts.append(numbers.to(dtype).reshape(-1, *shape))
        return tuple(parts)

    def shaped(self, shares: Tensor) -> tuple[Tensor, ...]:
        """Return shares (r, d) or (r, k, d) in the tensors' shapes, as floats of at least single
        precision.
        """
        return tuple(
            part.reshape(*shares.shape[:-1], *shape).to(
                self.device, torch.promote_types(dtype, torch.float32)
            )
            for part, shape, dtype in zip(
                self._columns(shares), self.shapes, self.dtypes, strict=True
            )
        )

    def flat(self, attributions: tuple[Tensor, ...]) -> Tensor:
        """Return attributions as shares (r, d) or (r, k, d): the way back from `shaped`."""
        leading = attributions[0].ndim - len(self.shapes[0])
        return torch.cat(
            [part.detach().reshape(*part.shape[:leading], -1) for part in attributions], dim=-1
        )

    def _columns(self, flat: Tensor) -> tuple[Tensor, ...]:
        return torch.split(flat, [prod(shape) for shape in self.shapes], dim=-1)


def _bits(numbers: Tensor) -> Tensor:
    """Return integers as they are, and floats as the integers whose bits are those of a double."""
    return numbers.detach().double().view(torch.int64) if numbers.is_floating_point() else numbers


def _layout(tensors: tuple[Tensor, ...]) -> _Layout:
    shapes = [tuple(part.shape[1:]) for part in tensors]
    return _Layout(shapes, [part.dtype for part in tensors], tensors[0].device)


class _FlatModule(nn.Module):
    """A forward function of several tensors as a module of flat rows, which is what `explain`
    takes.
    """

    def __init__(
        self, forward: Callable[..., Any], layout: _Layout, rows: _Rows, targets: list[Index]
    ) -> None:
        super().__init__()
        # not as submodules: captum leaves a model's mode and place to its owner
        self._held = (
            forward,
            layout,
            [part[:1] if _by_row(part) else part for part in rows.arguments],
            targets,
        )
        dtype = layout.dtype if layout.dtype.is_floating_point else None
        self.register_buffer("_place", torch.empty(0, device=layout.device, dtype=dtype))

    def forward(self, flat: Tensor) -> Tensor:
        """Map flat rows (n, d) to the outputs of the targets, (n,) or (n, k)."""
        forward, layout, arguments, targets = self._held
        own = [
            part.expand(len(flat), *part.shape[1:]) if _by_row(part) else part for part in arguments
        ]
        return _chosen(forward(*layout.split(flat), *own), targets, len(flat))


def _default_budget(players: int) -> int:
    """Return 2 p + 2048, enough for every method on a few players and for "auto" on many, or 2^p
    where fewer.
    """
    return min(2 * players + 2048, 1 << players)


def _tuple(given: Tensors, what: str) -> tuple[Tensor, ...]:
    """Return one or several tensors as a tuple, all of as many rows."""
    tensors = given if isinstance(given, tuple) else (given,)
    if not tensors or not all(isinstance(part, Tensor) and part.ndim for part in tensors):
        kinds = ", ".join(type(part).__name__ for part in tensors)
        raise InputError(
            f"{what}: wanted a tensor (r, ...) or a tuple of them, got {kinds or 'an empty tuple'}"
        )
    if not len(tensors[0]):
        raise InputError(
            f"{what}: there are no rows in a tensor of shape {tuple(tensors[0].shape)}"
        )
    if len({len(part) for part in tensors}) > 1:
        shapes = ", ".join(str(tuple(part.shape)) for part in tensors)
        raise InputError(f"{what}: wanted tensors of as many rows each, got shapes {shapes}")
    return tensors


def _matched(given: Any, tensors: tuple[Tensor, ...], what: str) -> tuple[Any, ...]:
    """Return what was given for each of the inputs' tensors."""
    parts = given if isinstance(given, tuple) else (given,) * (len(tensors) if given is None else 1)
    if len(parts) != len(tensors):
        raise InputError(
            f"{what}: wanted one for each of the {len(tensors)} tensors in inputs, got {len(parts)}"
        )
    return parts


def _baselines(given: Baselines, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the baseline of every row, like the inputs."""
    parts = _matched(given, tensors, "baselines")
    return tuple(_baseline(part, rows) for part, rows in zip(parts, tensors, strict=True))


def _baseline(given: Tensor | float | None, rows: Tensor) -> Tensor:
    plain = torch.as_tensor(0 if given is None else given, device=rows.device)
    if plain.ndim and (plain.shape[1:] != rows.shape[1:] or len(plain) not in (1, len(rows))):
        raise InputError(
            f"baselines: wanted a number, or a tensor of shape {tuple(rows.shape)} or "
            f"{(1, *rows.shape[1:])}, "
            f"got shape {tuple(plain.shape)}"
        )
    typed = plain.detach().to(rows.dtype)
    if not rows.is_floating_point() and not torch.equal(typed.to(plain.dtype), plain):
        raise InputError(
            f"baselines: inputs of {rows.dtype} need whole numbers, got {plain.dtype} with "
            "fractions"
        )
    return typed.expand_as(rows)


def _mask(given: Tensors | None, tensors: tuple[Tensor, ...]) -> Tensor:
    """Return the number of the player that owns each input of each row, (r, d), on the CPU."""
    count = len(tensors[0])
    if given is None:
        inputs = sum(part[0].numel() for part in tensors)
        return torch.arange(inputs).expand(count, inputs)
    parts = _matched(given, tensors, "feature_mask")
    masks = [_numbers(part, rows) for part, rows in zip(parts, tensors, strict=True)]
    return torch.cat([mask.reshape(count, -1) for mask in masks], dim=1)


def _numbers(mask: Tensor, rows: Tensor) -> Tensor:
    """Return a mask like the rows; axes it lacks come first, as captum has it."""
    whole = isinstance(mask, Tensor) and not mask.is_floating_point()
    shape = (1,) * (rows.ndim - mask.ndim) + tuple(mask.shape) if whole else ()
    if len(shape) != rows.ndim or any(
        size not in (1, full) for size, full in zip(shape, rows.shape, strict=True)
    ):
        came = (
            f"{mask.dtype} of shape {tuple(mask.shape)}"
            if isinstance(mask, Tensor)
            else type(mask).__name__
        )
        raise InputError(
            f"feature_mask: wanted integers of shape {(1, *rows.shape[1:])} or "
            f"{tuple(rows.shape)}, got {came}"
        )
    return mask.cpu().long().expand_as(rows)


def _once(mask: Tensor) -> Tensor:
    """Return weights (r, d) that count every player once: one over the number of its inputs."""
    weights = []
    for row in mask.numpy():
        _, owner, sizes = np.unique(row, return_inverse=True, return_counts=True)
        weights.append(1 / sizes[owner])
    return torch.from_numpy(np.stack(weights))


def _arguments(given: Any, count: int) -> tuple[Any, ...]:
    """Return the additional arguments, tensors with an entry for every row."""
    parts = () if given is None else given if isinstance(given, tuple) else (given,)
    for part in filter(_by_row, parts):
        if len(part) not in (1, count):
            raise InputError(
                f"additional_forward_args: wanted tensors with an entry for each of {count} rows, "
                f"got shape {tuple(part.shape)}"
            )
    return tuple(part.expand(count, *part.shape[1:]) if _by_row(part) else part for part in parts)


def _by_row(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.ndim > 0


def _label(setting: Tensor) -> Tensor:
    """Return a number for every row of a setting (r, ...), the same for the same rows."""
    rows = setting.detach().reshape(len(setting), -1)
    if bool((rows == rows[:1]).all()):
        return torch.zeros(len(rows), dtype=torch.int64)
    labels: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    return labels.cpu()


def _targets(given: Target, count: int) -> list[Index]:
    """Return the indices of every row's output; () is all of them."""
    if isinstance(given, Tensor):
        given = given.item() if given.numel() == 1 else given.tolist()  # type: ignore[assignment]
    several: list[Any] = (
        given if isinstance(given, list) else [() if given is None else given] * count
    )
    targets = [index if isinstance(index, tuple) else (index,) for index in several]
    whole = all(isinstance(number, int | np.integer) for index in targets for number in index)
    if not whole or len(targets) != count:
        raise InputError(
            f"target: wanted None, an index, a tuple of indices, or a list or tensor of {count}, "
            "one for each row; "
            f"got {given!r}"
        )
    return targets


def _chosen(answer: Any, targets: list[Index], count: int) -> Tensor:
    """Return the outputs of the targets, (n,) or (n, k), of what a forward function returned."""
    if not isinstance(answer, Tensor) or answer.ndim == 0 or len(answer) != count:
        came = (
            f"shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else type(answer).__name__
        )
        raise ModelError(
            f"forward_func: wanted a tensor with an output for each of {count} rows, got {came}"
        )
    try:
        outputs = [_at(answer, index) for index in targets]
    except IndexError as error:
        raise InputError(
            f"target: {error}; the model's output has shape {tuple(answer.shape)}"
        ) from error
    return outputs[0] if len(outputs) == 1 else torch.stack(outputs, dim=1)


def _at(answer: Tensor, index: Index) -> Tensor:
    every: tuple[Any, ...] = (slice(None), *index)
    return answer[every]


def _own(outputs: Tensor, targets: list[Index], distinct: list[Index]) -> Tensor:
    """Return of (r, k, ...), one output for each distinct target, every row's own: (r, ...)."""
    if len(distinct) == 1:
        return outputs
    which = torch.tensor([distinct.index(index) for index in targets], device=outputs.device)
    return outputs[torch.arange(len(outputs), device=outputs.device), which]
