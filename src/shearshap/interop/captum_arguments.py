"""captum's arguments, checked and brought into one form.

Letters as everywhere: r rows, p players, and d inputs of a row, which are the numbers of its
tensors, flat, one after the other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.data.multi_input import Layout
from shearshap.errors import InputError

Tensors = Tensor | tuple[Tensor, ...]
Baselines = Tensor | float | tuple[Tensor | float, ...] | None
Index = tuple[Any, ...]  #: integers or slices, after the axis of rows
Target = int | Index | Tensor | list[int] | list[Index] | None


@dataclass(frozen=True)
class Rows:
    """r rows, and all else that the forward function's answer for a row depends on."""

    inputs: tuple[Tensor, ...]  #: (r, *shape) each
    baselines: tuple[Tensor, ...]  #: (r, *shape) each
    mask: Tensor  #: (r, d) the number of each input's player
    arguments: "Arguments"
    targets: list[Index]  #: the different ones; () is all outputs
    target: Tensor  #: (r,) the place of every row's own among them

    @classmethod
    def of(
        cls,
        inputs: Tensors,
        baselines: Baselines,
        target: Target,
        arguments: Any,
        mask: Tensors | None,
    ) -> "Rows":
        """Check captum's arguments, and bring them into one form."""
        tensors = as_tuple(inputs, "inputs")
        count = len(tensors[0])
        targets, own = _targets(target, count)
        return cls(
            tensors,
            _baselines(baselines, tensors),
            _mask(mask, tensors),
            Arguments.of(arguments, count),
            targets,
            own,
        )

    @property
    def count(self) -> int:
        """The number of rows r."""
        return len(self.inputs[0])

    @property
    def layout(self) -> Layout:
        """Where each tensor lies in a flat row."""
        return Layout(tuple(tuple(part.shape[1:]) for part in self.inputs))

    def take(self, which: Tensor) -> "Rows":
        """Return some of the rows, with their own targets only."""
        used, own = torch.unique(self.target[which], return_inverse=True)
        return Rows(
            tuple(_selected(part, which) for part in self.inputs),
            tuple(_selected(part, which) for part in self.baselines),
            self.mask[which],
            self.arguments.take(which),
            [self.targets[place] for place in used.tolist()],
            own,
        )

    def alike(self) -> list[Tensor]:
        """Return the numbers of the rows in blocks that share baseline, mask and arguments."""
        settings = (*self.baselines, self.mask, *self.arguments.of_rows)
        labels = torch.stack([_label(setting) for setting in settings], dim=1)
        block = torch.unique(labels, dim=0, return_inverse=True)[1]
        return [(block == number).nonzero()[:, 0] for number in range(int(block.max()) + 1)]

    def own_outputs(self, outputs: Tensor) -> Tensor:
        """Return every row's own output, (r, ...), of one for each target, (r, k, ...)."""
        if len(self.targets) == 1:
            return outputs
        places = self.target.to(outputs.device)
        return outputs[torch.arange(len(outputs), device=outputs.device), places]


@dataclass(frozen=True)
class Arguments:
    """The additional arguments of the forward function: some are of each row, others of all."""

    every: tuple[Any, ...]
    by_row: tuple[bool, ...]  #: whether each is a tensor with an entry for every row

    @classmethod
    def of(cls, arguments: Any, count: int) -> "Arguments":
        """Return one or several arguments for `count` rows.

        A tensor of any other length is the same for all rows, and passed as it is.
        """
        if arguments is None:
            return cls((), ())
        several = arguments if isinstance(arguments, tuple) else (arguments,)
        return cls(several, tuple(_has_rows(part) and len(part) == count for part in several))

    @property
    def of_rows(self) -> list[Tensor]:
        """Those of each row, (r, ...)."""
        pairs = zip(self.every, self.by_row, strict=True)
        return [argument for argument, by_row in pairs if by_row]

    def take(self, which: Tensor) -> "Arguments":
        """Return the arguments of some of the rows."""
        pairs = zip(self.every, self.by_row, strict=True)
        taken = [_selected(argument, which) if by_row else argument for argument, by_row in pairs]
        return Arguments(tuple(taken), self.by_row)

    def of_first(self, copies: int) -> list[Any]:
        """Return the arguments of the first row, for as many copies of it."""
        pairs = zip(self.every, self.by_row, strict=True)
        return [
            argument[:1].expand(copies, *argument.shape[1:]) if by_row else argument
            for argument, by_row in pairs
        ]


def _selected(tensor: Tensor, which: Tensor) -> Tensor:
    return tensor[which.to(tensor.device)]


def _has_rows(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.ndim > 0


def _label(setting: Tensor) -> Tensor:
    """Return a number for every row of a setting (r, ...), the same for the same rows."""
    rows = setting.detach().reshape(len(setting), -1)
    if bool((rows == rows[:1]).all()):
        return torch.zeros(len(rows), dtype=torch.int64)
    labels: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    return labels.cpu()


# Inputs and baselines


def as_tuple(tensors: Tensors, argument: str) -> tuple[Tensor, ...]:
    """Return one or several tensors as a tuple, all with the same number of rows."""
    several = tensors if isinstance(tensors, tuple) else (tensors,)
    if not several or not all(_has_rows(part) for part in several):
        kinds = ", ".join(type(part).__name__ for part in several) or "an empty tuple"
        raise InputError(f"{argument}: wanted a tensor (r, ...) or a tuple of them, got {kinds}")

    shapes = ", ".join(str(tuple(part.shape)) for part in several)
    if len({len(part) for part in several}) > 1:
        raise InputError(
            f"{argument}: wanted tensors of the same number of rows, got shapes {shapes}"
        )
    if not any(part.numel() for part in several):
        raise InputError(f"{argument}: there is nothing to explain in tensors of shape {shapes}")
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


# Players


def _mask(mask: Tensors | None, tensors: tuple[Tensor, ...]) -> Tensor:
    """Return the number of the player that owns each input of each row, (r, d), on the CPU."""
    count = len(tensors[0])
    layout = Layout(tuple(tuple(part.shape[1:]) for part in tensors))
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
        numbers = mask.cpu().long()
        if mask.is_floating_point() and not torch.equal(numbers.to(mask.dtype), mask.cpu()):
            shown += " with fractions"
        else:
            try:
                return numbers.expand_as(rows)
            except RuntimeError:  # it has another shape
                pass
    raise InputError(
        f"feature_mask: wanted integers of shape {(1, *rows.shape[1:])} or {tuple(rows.shape)}, "
        f"got {shown}"
    )


# Targets


def _targets(target: Any, count: int) -> tuple[list[Index], Tensor]:
    """Return the different targets, and the place of every row's own among them, (r,)."""
    if isinstance(target, Tensor):
        target = target.item() if target.numel() == 1 else target.tolist()
    if target is None:
        return [()], torch.zeros(count, dtype=torch.int64)

    of_rows = isinstance(target, list)
    several = target if of_rows else [target]
    indices = [index if isinstance(index, tuple) else (index,) for index in several]
    known = int | np.integer if of_rows else int | np.integer | slice
    usable = all(isinstance(part, known) for index in indices for part in index)
    if not usable or (of_rows and len(indices) != count):
        raise InputError(
            f"target: wanted None, an index, a tuple of indices, or a list or tensor of {count}, "
            f"one for each row; got {target!r}"
        )
    if not of_rows:
        return indices, torch.zeros(count, dtype=torch.int64)

    different = sorted(set(indices))
    return different, torch.tensor([different.index(index) for index in indices])
