"""How far draws lie apart: what standard errors are made of."""

import torch
from torch import Tensor

FEWEST = 4
"""The smallest number of draws that have standard errors.

Fewer lie close together by chance too often, even with Student's t.
"""


def normalised(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x divided by its largest size along an axis, and that size, with an axis of length 1.

    Squares of the result cannot overflow.
    """
    size = x.abs().amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return x / size, size


def sample_deviation(draws: Tensor, dim: int) -> Tensor:
    """Return the root of the unbiased variance over one axis.

    Over an inner axis it is faster than `Tensor.std`.
    """
    apart, size = normalised(draws - draws.mean(dim, keepdim=True), dim)
    variance = apart.square().sum(dim) / (draws.shape[dim] - 1)
    return size.squeeze(dim) * variance.sqrt()
