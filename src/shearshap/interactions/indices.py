"""Interactions, from the values that the Shapley values were computed from.

With u = 2z - 1 and v = sum_T c_T prod_{j in T} u_j, the Shapley interaction index of a set S of
s players (Grabisch & Roubens 1999) is

    SII_S = 2^s * sum over T containing S, |T| - s even, of c_T / (|T| - s + 1).

Other indices differ in the factors of c_T alone (`shearshap.games.indices`). For order s = 1 it is
the Shapley value. For s = 2 it depends on the even part e(S) = (v(S) + v(S^c)) / 2 alone, which
every complement pair shows. The k-SII of order 2, or n-Shapley values (Bordt & von Luxburg 2023),
divide phi_i between the player alone and its pairs:

    Phi_ij = SII_ij,   Phi_i = phi_i - 1/2 sum_j SII_ij,
    sum_i Phi_i + sum_{i<j} Phi_ij = sum_i phi_i.

From all coalitions an index of any order is exact. From some, it is the posterior mean of a
Gaussian process (`kriged`), whose variance makes standard errors. The same values give the second
differences when all players are present: the cross-contribution (`cross`) of a model without
derivatives, at no extra cost.

Letters: r rows, c coalitions, m complement pairs, p players, k outputs.
"""

from collections.abc import Callable, Sequence
from math import comb

import torch
from torch import Tensor

from shearshap.errors import InputError, MethodError
from shearshap.games.coalitions import codes
from shearshap.games.indices import Index, InteractionName, interaction_index
from shearshap.interactions.cross import CrossContribution
from shearshap.interactions.kriged import (
    kriged_index,
    kriged_interactions,
    kriged_second_differences,
)
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.kernel import Part, chunk_entries
from shearshap.methods.kriging.pairs import OddEven

MAX_SETS = 1 << 15
"""Sets of features, at most, of interactions of three and more."""

MAX_ERROR_WORK = 1e8
"""Sets times complement pairs times players up to which interactions of pairs have errors.

That is some 70 players at the default budget, and a second a row.
"""


def interaction_fields(
    coalitions: Tensor,
    values: Tensor,
    phi: Tensor,
    errors: Tensor,
    known_cross: CrossContribution | None,
    learnt: object,
    name: InteractionName = "k-SII",
    order: int = 2,
    parts: int = 1,
) -> dict[str, Tensor]:
    """Return the fields of an explanation that are about features that act together.

    They are computed from coalitions (r or 1, c, p), their values (r, c, k) and the Shapley values
    phi (r, p, k) with their standard errors, with kriging's calibration if the design learnt one.
    Cross-contribution comes from derivatives or, in rows for which they say nothing, from the
    coalition values. Of `parts` outputs each, which estimate the same, it is that of the mean.
    """
    calibration = learnt if isinstance(learnt, Calibration) else None
    index = interaction_index(name, order, coalitions.shape[2])
    fields: dict[str, Tensor] = {}
    if order == 2 and name in ("k-SII", "SII"):
        # only even parts are not known yet
        pairs = interactions(coalitions, values, phi, calibration=calibration, name=name)
        _, of_sets = _of_index(coalitions, values, calibration, index, ("even",))
        pair_errors = pair_matrix(of_sets, phi.shape[1])
        diagonal = pair_errors.diagonal(dim1=1, dim2=2)
        diagonal.copy_((diagonal.square() + errors.mT.square()).sqrt())
    else:
        of_sets, set_errors = _of_index(coalitions, values, calibration, index, ("odd", "even"))
        pairs = pair_matrix(of_sets, phi.shape[1])
        pair_errors = pair_matrix(set_errors, phi.shape[1])
        if order > 2:
            fields |= {"set_values": of_sets, "set_errors": set_errors}
    fields |= {"interactions": pairs, "interaction_errors": pair_errors}

    if known_cross is None:
        eta = torch.zeros_like(pairs[..., 0])
        unknown = torch.ones_like(values[:, 0, 0], dtype=torch.bool)
    else:
        eta = known_cross.eta.clone()
        unknown = known_cross.flat

    # if all values of a row are the same, there are no interactions to look for
    varies = (values != values[:, :1]).flatten(1).any(dim=1)
    unknown = unknown & varies
    if unknown.any():
        own = coalitions if len(coalitions) == 1 else coalitions[unknown]
        eta[unknown] = estimated_second_differences(
            own, values[unknown], calibration=calibration, parts=parts
        )
    return fields | {"cross_contribution": eta}


def interactions(
    coalitions: Tensor,
    values: Tensor,
    phi: Tensor,
    *,
    calibration: Calibration | None = None,
    name: InteractionName = "k-SII",
) -> Tensor:
    """Return the k-SII of order 2, (r, p, p, k): Phi_ij on both sides of the diagonal, Phi_i on it.

    For "SII", Phi_i is phi_i.

    Exact if the coalitions are all 2^p; else the posterior mean under the Gaussian process.

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
    check_pairs(coalitions)
    index = _of_design(coalitions, values, calibration, _exact_matrix, kriged_interactions)
    return k_sii(phi, (index + index.transpose(1, 2)) / 2, name)


def _of_index(
    coalitions: Tensor,
    values: Tensor,
    calibration: Calibration | None,
    index: Index,
    which: Sequence[Part],
) -> tuple[Tensor, Tensor]:
    """Return an index of q sets, or that of a part of the game, and its errors, (r, q, k) each."""

    def exact(table: Tensor) -> Tensor:
        found = exact_index(table, index)
        return torch.stack((found, torch.zeros_like(found)), dim=1)

    def kriged(parts: OddEven, calibration: Calibration) -> Tensor:
        work = float(index.sets) * parts.signs.numel()
        if work > MAX_ERROR_WORK and index.order == 2 and len(which) == 1:
            return parts.odd.new_full((len(parts.odd), 2, index.sets), torch.inf)
        return torch.stack(kriged_index(parts, calibration, index, which), dim=1)

    found = _of_design(coalitions, values, calibration, exact, kriged)
    return found[:, 0], found[:, 1]


def pair_matrix(of_sets: Tensor, players: int) -> Tensor:
    """Return the numbers of pairs, and on the diagonal of single players, (r, p, p, k)."""
    i, j = torch.triu_indices(players, players, offset=1, device=of_sets.device)
    rows, _, outputs = of_sets.shape
    matrix = of_sets.new_zeros(rows, players, players, outputs)
    pairs = of_sets[:, players : players + len(i)]
    matrix[:, i, j] = pairs
    matrix[:, j, i] = pairs
    matrix.diagonal(dim1=1, dim2=2).copy_(of_sets[:, :players].mT)
    return matrix


def check_order(players: int, order: int) -> None:
    """Raise if there are too many sets of features."""
    sets = sum(comb(players, size) for size in range(1, order + 1))
    if order > 2 and sets > MAX_SETS:
        raise InputError(
            f"interactions={order}: expected at most {MAX_SETS:,} sets of features, got {sets:,} "
            f"of {players} features; try interactions=2, or groups= for fewer features"
        )


def estimated_second_differences(
    coalitions: Tensor, values: Tensor, *, calibration: Calibration | None = None, parts: int = 1
) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)| summed over outputs, (r, p, p).

    This is cross-contribution without derivatives, from the values of a design. Exact if the
    coalitions are all 2^p; else the posterior mean of the odd and the even part. See `interactions`
    for the parameters.
    """
    differences = _of_design(
        coalitions, values, calibration, exact_second_differences, kriged_second_differences
    )
    of_outputs: Tensor = differences.unflatten(3, (-1, parts)).mean(4)
    return of_outputs.abs().sum(3)


def k_sii(phi: Tensor, index: Tensor, name: InteractionName = "k-SII") -> Tensor:
    """Return the k-SII of order 2, (r, p, p, k), of Shapley values and SII, zero on the diagonal.

    Phi_ij = SII_ij on both sides of the diagonal, and Phi_i = phi_i - 1/2 sum_j SII_ij on it. For
    "SII" it is phi_i.
    """
    pairs = index.clone()
    alone = phi - index.sum(2) / 2 if name == "k-SII" else phi
    pairs.diagonal(dim1=1, dim2=2).copy_(alone.mT)
    return pairs


def _of_design(
    coalitions: Tensor,
    values: Tensor,
    calibration: Calibration | None,
    exact: Callable[[Tensor], Tensor],
    kriged: Callable[[OddEven, Calibration], Tensor],
) -> Tensor:
    """Return some numbers (r, ..., k) of coalitions and values.

    `exact` makes them (r, ...) of tables (r, 2^p), and `kriged` of odd and even parts.
    """
    if len(coalitions) > 1:
        # every row has its own design, and is a table of one row
        rows = zip(coalitions.split(1), values.split(1), strict=True)
        return torch.cat([_of_design(*row, calibration, exact, kriged) for row in rows])

    sets = coalitions[0]
    players = sets.shape[1]
    flat_values = values.mT.flatten(0, 1).double()  # (r k, c)
    distinct, complements = _complements(sets)
    if len(distinct) == 1 << players:
        tables = flat_values[:, distinct].split(max(1, chunk_entries(flat_values) >> players))
        found = torch.cat([exact(table) for table in tables])
    else:
        parts = _odd_even(sets, flat_values, distinct, complements)
        found = kriged(parts, calibration or Calibration.default(players))
    by_row: Tensor = found.unflatten(0, (len(values), -1))
    return by_row.movedim(1, -1)


# Exactly, from tables: the values of all 2^p coalitions, in binary counting order. Bit i of a
# coalition's number says whether player i is in it. For p = 2:
#
#     number     0    1    2    3
#     coalition  {}   0    1    01
#
# So the even columns are the coalitions without player 0, the odd ones those with it.


def exact_index(table: Tensor, index: Index) -> Tensor:
    """Return an index of tables (r, 2^p), (r, q), in the order of `sets_up_to`."""
    coefficients = _walsh_transform(table)
    sizes = _set_sizes(table).long()
    found = []
    for size, moments in enumerate(index.moments, start=1):
        factors = [0.0] * size + [2.0**size * float(moment) for moment in moments]
        found.append(_superset_sums(table.new_tensor(factors)[sizes] * coefficients, size))
    return torch.cat(found, dim=1)


def _exact_matrix(table: Tensor) -> Tensor:
    """Return SII of pairs, (r, p, p), zero on the diagonal, of tables (r, 2^p)."""
    players = _players(table)
    of_sets = exact_index(table, interaction_index("SII", 2, players))
    of_sets[:, :players] = 0.0
    return pair_matrix(of_sets[..., None], players)[..., 0]


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
        # each turn takes the lowest bit and makes it the highest
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


def _superset_sums(table: Tensor, order: int) -> Tensor:
    """Return the sums over all T that contain S, for all S of `order` players, of (r, 2^p).

    The table is folded in half, one player at a time, so that the first one has the lowest bit.
    """
    if order == 0:
        return table.sum(1, keepdim=True)
    sums = [table[:, :0]]
    for _ in range(_players(table)):
        absent = table[:, ::2]
        present = table[:, 1::2]
        sums.append(_superset_sums(present, order - 1))
        table = absent + present
    return torch.cat(sums, dim=1)


# Coalitions and their complements


def check_pairs(coalitions: Tensor) -> None:
    """Raise unless coalitions come with their complements, which interactions need."""
    if not has_pairs(coalitions):
        raise MethodError(
            "interactions need coalitions and their complements, which this method does not "
            "evaluate with this budget; try method='kriging', 'leverage', 'kernel-paired', "
            "'permutation-antithetic' or 'exact', with a budget of 2 per feature, plus 2"
        )


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
