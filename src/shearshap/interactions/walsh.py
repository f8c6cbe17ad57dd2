"""Pairwise interactions and second differences of tables, the values of all 2^p coalitions.

A table is in binary counting order: bit i of a coalition's number says whether player i is in it.
For p = 2:

    number     0    1    2    3
    coalition  {}   0    1    01

So the even columns are the coalitions without player 0, the odd ones those with it.
"""

import torch
from torch import Tensor


def exact_interactions(table: Tensor) -> Tensor:
    """Return SII, (r, p, p), zero on the diagonal, of tables (r, 2^p)."""
    coefficients = _walsh_transform(table)
    size = _set_sizes(table)
    is_even = (size % 2 == 0) & (size > 0)
    weight = torch.where(is_even, 4 / (size - 1), 0.0)
    upper = _pair_sums(weight * coefficients)
    return upper + upper.mT


def exact_second_differences(table: Tensor) -> Tensor:
    """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (r, p, p), of tables (r, 2^p).

    It is zero on the diagonal.
    """
    players = _players(table)
    full = (1 << players) - 1
    bit = 1 << torch.arange(players, device=table.device)

    without_one = table[:, full - bit]
    without_both = table[:, full - (bit[:, None] | bit)]
    differences = (
        table[:, full, None, None] - without_one[:, :, None] - without_one[:, None] + without_both
    )
    return differences - torch.diag_embed(differences.diagonal(dim1=1, dim2=2))


def _players(table: Tensor) -> int:
    return table.shape[1].bit_length() - 1


def _walsh_transform(table: Tensor) -> Tensor:
    """Return the coefficients c_T, (r, 2^p), of tables (r, 2^p)."""
    for _ in range(_players(table)):
        # Each turn takes the lowest bit and makes it the highest.
        absent = table[:, ::2]
        present = table[:, 1::2]
        table = torch.cat(((absent + present) / 2, (present - absent) / 2), dim=1)
    return table


def _set_sizes(table: Tensor) -> Tensor:
    """Return |T| of every T, (2^p,)."""
    sizes = table.new_zeros(1)
    for _ in range(_players(table)):
        sizes = torch.cat((sizes, sizes + 1))
    return sizes


def _pair_sums(table: Tensor) -> Tensor:
    """Return the sums over all T that contain i and j > i, (r, p, p), of tables (r, 2^p).

    Elsewhere they are 0. The table is folded in half, one player at a time.
    """
    players = _players(table)
    sums = table.new_zeros(len(table), players, players)
    for i in range(players):
        # Players before i are folded away, so player i has the lowest bit.
        absent = table[:, ::2]
        present = table[:, 1::2]
        sums[:, i, i + 1 :] = _member_sums(present)
        table = absent + present
    return sums


def _member_sums(table: Tensor) -> Tensor:
    """Return the sums over all T that contain i, (r, p), of tables (r, 2^p)."""
    sums = table.new_zeros(len(table), _players(table))
    for i in range(_players(table)):
        absent = table[:, ::2]
        present = table[:, 1::2]
        sums[:, i] = present.sum(1)
        table = absent + present
    return sums
