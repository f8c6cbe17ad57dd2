"""Mixes of rows and background: each input is the row's own, or the background's.

Letters: r rows, c coalitions, b background rows, d inputs.
"""

import torch
from torch import Tensor

MANY_INPUTS = 1 << 27
"""Inputs of all mixes together from which on a GPU mixes them by pairs."""


def mixed(rows: Tensor, background: Tensor, present: Tensor, *, by_numbers: bool) -> Tensor:
    """Return the mixes (r, c, b, d) of rows (r, d) and background (b, d).

    `present` (r or 1, c, d) says which inputs are the row's own, and `by_numbers` whether they can
    be computed: all of them are finite, and none is -0.0.
    """
    if _fit_pairs(rows, background, present):
        return _by_pairs(rows, background, present[0])[:, :, None]

    present = present.unsqueeze(2)
    rows = rows[:, None, None]
    if rows.is_floating_point() and by_numbers:
        # exact at the weights 0 and 1, and much faster than torch.where
        return torch.lerp(background, rows, present.to(rows.dtype))
    return torch.where(present, rows, background)


def _fit_pairs(rows: Tensor, background: Tensor, present: Tensor) -> bool:
    """Return whether mixes can be made by pairs, and are so many that it pays."""
    shared, coalitions, inputs = present.shape
    in_pairs = rows.dtype == torch.float32 and coalitions * inputs % 2 == 0
    are_many = rows.numel() * coalitions >= MANY_INPUTS
    return rows.is_cuda and in_pairs and are_many and shared == 1 and len(background) == 1


def _by_pairs(rows: Tensor, background: Tensor, present: Tensor) -> Tensor:
    """Return mixes (r, c, d) with one background row, of coalitions that all rows share.

    What takes time on a GPU is to find the place of each number, so two are moved at once. For each
    row there is a table of all pairs of neighbours that its mixes can have. Let x be a row of d = 3
    inputs and b the background:

        columns   0  1  2           3  4  5           6  7  8           9  10 11
        pairs     x0 x1 x2          x0 x1 x2          b0 b1 b2          b0 b1 b2
                  x1 x2 x0          b1 b2 b0          x1 x2 x0          b1 b2 b0

    After the last input comes the first one, of the next coalition. The coalitions {0, 1} and {2}
    are x0 x1 b2, b0 b1 x2, which are the columns 0, 8 and 10.
    """
    count, inputs = rows.shape
    own = torch.stack((rows, background.expand_as(rows)), dim=1)  # (r, 2, d)
    following = own.roll(-1, dims=2)
    either = own[:, :, None].expand(-1, -1, 2, -1)
    other = following[:, None].expand(-1, 2, -1, -1)
    table = torch.stack((either, other), dim=4).view(torch.int64).reshape(count, -1)  # (r, 4 d)

    absent = (~present).reshape(-1, 2).long()
    first = torch.arange(present.numel(), device=rows.device)[::2] % inputs
    columns = (2 * absent[:, 0] + absent[:, 1]) * inputs + first
    pairs = table.index_select(1, columns)
    return pairs.view(rows.dtype).reshape(count, *present.shape)
