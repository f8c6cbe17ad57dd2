"""Minimise a smooth function of a few numbers by L-BFGS.

Libraries have it too. But torch's imports its compiler at the first call, which takes a second, and
SciPy's wakes the threads of its linear algebra, which then take the cores from torch's.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: from a point (n,) to the value there and its slope (n,)
Smooth = Callable[[Tensor], tuple[float, Tensor]]

ENOUGH = 1e-4  #: decrease that a step must make, as a part of what the slope promises
HALVINGS = 10  #: of a step that decreases too little
SETTLED = 1e-4  #: length of a step after which the minimum is reached


def minimise(function: Smooth, start: Tensor, steps: int) -> Tensor:
    """Return the point (n,) that at most so many steps reach from `start`."""
    here = Place(start, *function(start))
    memory = CurvatureMemory()
    for _ in range(steps):
        if not here.slope.any():
            break
        direction = -memory.inverse_times(here.slope)
        # the first step goes as far as 1 in all; later ones know the curvature
        length = 1.0 if memory.pairs else min(1.0, 1 / float(here.slope.abs().sum()))
        there = _line_search(function, here, length * direction)
        if there is None:
            break

        step = there.point - here.point
        memory.add(step, there.slope - here.slope)
        here = there
        if float(step.abs().max()) < SETTLED:
            break
    return here.point


class Place(NamedTuple):
    """A point, and what the function is there."""

    point: Tensor  #: (n,)
    value: float
    slope: Tensor  #: (n,)


def _line_search(function: Smooth, here: Place, step: Tensor) -> Place | None:
    """Return where a step leads, halved until the value decreases enough; None: it never does."""
    for _ in range(HALVINGS):
        point = here.point + step
        there = Place(point, *function(point))
        if there.value <= here.value + ENOUGH * float(step @ here.slope):
            return there
        step = step / 2
    return None


def minimise_each(
    functions: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor, steps: int
) -> Tensor:
    """Return the points (r, n) that so many steps of BFGS reach, one function for each row.

    The functions give values (r,) and slopes (r, n). A step that does not decrease a row's value
    is taken again at a quarter of its length.
    """
    here = start
    value, slope = functions(here)
    inverse = torch.eye(start.shape[1], dtype=start.dtype, device=start.device)
    inverse = inverse.expand(len(start), -1, -1)  # of the Hessian
    step = -_at_most_one(slope)
    for _ in range(steps):
        new_value, new_slope = functions(here + step)
        lower = (new_value < value) & new_slope.isfinite().all(1)
        change = new_slope - slope
        convex = lower & ((step * change).sum(1) > 1e-10)
        inverse = torch.where(convex[:, None, None], _bfgs(inverse, step, change), inverse)

        here = torch.where(lower[:, None], here + step, here)
        value = torch.where(lower, new_value, value)
        slope = torch.where(lower[:, None], new_slope, slope)
        downhill = -_at_most_one((inverse @ slope[..., None])[..., 0])
        step = torch.where(lower[:, None], downhill, step / 4)
    return here


def _at_most_one(steps: Tensor) -> Tensor:
    """Return steps (r, n), the longer ones shortened to a length of 1."""
    length: Tensor = torch.linalg.vector_norm(steps, dim=1, keepdim=True)
    return steps / length.clamp_min(1)


def _bfgs(inverse: Tensor, step: Tensor, change: Tensor) -> Tensor:
    """Return inverse Hessians (r, n, n) after steps (r, n) that changed slopes by (r, n).

    H' = (I - s y' / s'y) H (I - y s' / s'y) + s s' / s'y
    """
    product = (step * change).sum(1)[:, None, None]
    s = step[..., None]
    eye = torch.eye(step.shape[1], dtype=step.dtype, device=step.device)
    left = eye - s @ change[:, None] / product
    return left @ inverse @ left.mT + s @ s.mT / product


class CurvatureMemory:
    """The inverse Hessian, as far as the steps so far and their changes of slope show it."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Tensor, Tensor]] = []  #: step and change of slope, (n,) each

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remember a step, unless the function was not convex along it."""
        if float(step @ change) > 1e-10 * float(change @ change):
            self.pairs.append((step, change))

    def inverse_times(self, slope: Tensor) -> Tensor:
        """Return the inverse Hessian times a slope (n,), by the two loops of L-BFGS."""
        if not self.pairs:
            return slope
        product = slope.clone()
        weights = []
        for step, change in reversed(self.pairs):
            weight = (step @ product) / (step @ change)
            product -= weight * change
            weights.append(weight)

        last_step, last_change = self.pairs[-1]
        product *= (last_step @ last_change) / (last_change @ last_change)
        for (step, change), weight in zip(self.pairs, reversed(weights), strict=True):
            product += (weight - (change @ product) / (step @ change)) * step
        return product
