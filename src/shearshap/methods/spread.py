"""How far draws lie apart, for standard errors."""

import torch
from torch import Tensor

FEWEST = 4
"""Draws that have standard errors: fewer lie close together by chance too often, whatever Student's
t allows.
"""


def normalised(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x over its largest along one axis, so that squares stay finite, and that largest, the
    axis kept.
    """
    size = x.abs().amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return x / size, size


def sample_deviation(draws: Tensor, dim: int) -> Tensor:
    """Return the root of the unbiased variance over one axis, sooner than `Tensor.std` does over an
    inner one.
    """
    apart, size = normalised(draws - draws.mean(dim, keepdim=True), dim)
    return size.squeeze(dim) * (apart.square().sum(dim) / (draws.shape[dim] - 1)).sqrt()
