"""Pairwise Shapley interactions, from the values that the Shapley values were computed from.

With u = 2z - 1 and v = sum_T c_T prod_{j in T} u_j, the Shapley interaction index (Grabisch &
Roubens 1999) is

    SII_ij = 4 * sum over even T containing i and j of c_T / (|T| - 1).

So it depends on the even part e(S) = (v(S) + v(S^c)) / 2 alone, which every complement pair shows.
The k-SII of order 2, or n-Shapley values (Bordt & von Luxburg 2023), divide phi_i between the
player alone and its pairs:

    Phi_ij = SII_ij,   Phi_i = phi_i - 1/2 sum_j SII_ij,
    sum_i Phi_i + sum_{i<j} Phi_ij = sum_i phi_i.

From all coalitions this is exact (`walsh`), else the posterior mean of a Gaussian process
(`kriged`). The same values give the second differences where all players are present. They are the
cross-contribution (`cross`) of a model without derivatives, and take no further evaluations.

Letters: r rows, c coalitions, m complement pairs, p players, k outputs.
"""

import torch
from torch import Tensor

from shearshap.errors import MethodError
from shearshap.games.coalitions import codes
from shearshap.interactions.kriged import kriged_interactions, kriged_second_differences
from shearshap.interactions.walsh import exact_interactions, exact_second_differences
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.kernels import chunk_entries
from shearshap.methods.kriging.odd_even import OddEven


def interactions(
    coalitions: Tensor, values: Tensor, phi: Tensor, *, calibration: Calibration | None = None
) -> Tensor:
    """Return the k-SII of order 2, (r, p, p, k): Phi_ij on both sides of the diagonal, Phi_i on it.

    Exact where the coalitions are all 2^p; else the posterior mean under the Gaussian process.

    Parameters
    ----------
    coalitions
        (r or 1, c, p) of bool, in complement pairs (see `has_pairs`), in any order. Repeats are
        allowed.
    values
        (r, c, k): the coalition values.
    phi
        (r, p, k): the Shapley values to divide.
    calibration
        The rule for relevances; None for the default.
    """
    if not has_pairs(coalitions):
        raise MethodError(
            "interactions: wanted coalitions in complement pairs, got some without their "
            "complement; try method='kriging', 'leverage', 'kernel-paired', "
            "'permutation-antithetic' or 'exact'"
        )
    if len(coalitions) > 1:
        # Every row has a design of its own, and is a table of one row.
        rows = zip(coalitions.split(1), values.split(1), phi.split(1), strict=True)
        return torch.cat([interactions(*row, calibration=calibration) for row in rows])

    flat_values = _outputs_as_rows(values)
    flat_phi = phi.mT.flatten(0, 1)
    index = _interaction_index(coalitions[0], flat_values, calibration)
    index = (index + index.mT) / 2
    index.diagonal(dim1=1, dim2=2).copy_(flat_phi - index.sum(2) / 2)

    # (r k, p, p) -> (r, p, p, k)
    return index.reshape(len(values), -1, *index.shape[1:]).permute(0, 2, 3, 1)


def _interaction_index(sets: Tensor, values: Tensor, calibration: Calibration | None) -> Tensor:
    """Return SII, (r, p, p), zero on the diagonal, of sets (c, p) and their values (r, c)."""
    players = sets.shape[1]
    distinct, complements = _complements(sets)
    if len(distinct) == 1 << players:
        tables = values[:, distinct].split(max(1, chunk_entries(values) >> players))
        return torch.cat([exact_interactions(table) for table in tables])

    parts = _odd_even(sets, values, distinct, complements)
    return kriged_interactions(parts, calibration or Calibration.default(players))


def estimated_second_differences(
    coalitions: Tensor, values: Tensor, *, calibration: Calibration | None = None
) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)| summed over outputs, (r, p, p).

    This is cross-contribution without derivatives, from the values of a design. Exact where the
    coalitions are all 2^p; else the posterior mean of the odd and the even part. See `interactions`
    for the parameters.
    """
    if len(coalitions) > 1:
        rows = zip(coalitions.split(1), values.split(1), strict=True)
        estimates = [estimated_second_differences(*row, calibration=calibration) for row in rows]
        return torch.cat(estimates)

    sets = coalitions[0]
    players = sets.shape[1]
    flat_values = _outputs_as_rows(values)
    distinct, complements = _complements(sets)
    if len(distinct) == 1 << players:
        differences = exact_second_differences(flat_values[:, distinct])
    else:
        parts = _odd_even(sets, flat_values, distinct, complements)
        calibration = calibration or Calibration.default(players)
        differences = kriged_second_differences(parts, calibration)
    return differences.abs().reshape(len(values), -1, players, players).sum(1)


def _outputs_as_rows(values: Tensor) -> Tensor:
    """Return values (r, c, k) as (r k, c), in double precision."""
    return values.mT.flatten(0, 1).double()


# Coalitions and their complements


def has_pairs(coalitions: Tensor) -> bool:
    """Return whether coalitions (r or 1, c, p) come with all their complements, in every row."""
    return all(_are_paired(sets) for sets in coalitions)


def _are_paired(sets: Tensor) -> bool:
    """Return whether sets (c, p) come with all their complements."""
    distinct, complements = _complements(sets)
    return torch.equal(sets[distinct], ~sets[complements])


def _odd_even(sets: Tensor, values: Tensor, distinct: Tensor, complements: Tensor) -> OddEven:
    """Return the odd and even parts of values (r, c), in the order of the design.

    The side with player 0 stands for a pair. In a design the full coalition is in front of all
    others, so the pair of the ends comes first.
    """
    has_first_player = sets[distinct, 0]
    inside, order = distinct[has_first_player].sort()
    outside = complements[has_first_player][order]
    return OddEven.of(sets[inside], values[:, inside], values[:, outside])


def _complements(sets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of the distinct sets among sets (c, p), and those of their complements.

    With fewer than 63 players the distinct sets are in binary counting order. A set without its
    complement gets some other place. For example:

        place       0    1    2    3    4
        sets        {}   01   0    1    0
        code        0    3    1    2    1

        distinct    0    2    3    1          {}, 0, 1, 01
        complements 1    3    2    0          01, 1, 0, {}
    """
    sorted_codes, order = codes(sets).sort(stable=True)
    is_first = torch.ones_like(sorted_codes, dtype=torch.bool)
    is_first[1:] = sorted_codes[1:] != sorted_codes[:-1]

    distinct = order[is_first]
    place = torch.searchsorted(sorted_codes[is_first], codes(~sets[distinct]))
    return distinct, distinct[place.clamp_max(len(distinct) - 1)]
