"""Interactions for an explanation, from the values that the Shapley values were computed from."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.errors import MethodError, ModelError
from shearshap.games.active import ActiveGame
from shearshap.games.game import Game, ModelGame
from shearshap.interactions.cross import by_derivatives
from shearshap.interactions.pairwise import estimated_second_differences, has_pairs
from shearshap.interactions.pairwise import interactions as pairwise_interactions
from shearshap.methods.kriging import Calibration


@dataclass(frozen=True)
class CrossContribution:
    """Cross-contribution by derivatives, and the rows about which derivatives say nothing."""

    eta: Tensor  #: (r, p, p)
    flat: Tensor  #: (r,) of bool: whether all of a row's derivatives are zero

    def take(self, rows: Tensor) -> "CrossContribution":
        """Return that of some of the rows."""
        return CrossContribution(self.eta[rows], self.flat[rows])


def check_pairs(coalitions: Tensor) -> None:
    """Raise unless coalitions come with their complements, which interactions need."""
    if not has_pairs(coalitions):
        raise MethodError(
            "interactions need coalitions with their complements, which this method does not ask "
            "for within this budget; try method='kriging', 'leverage', 'kernel-paired', "
            "'permutation-antithetic' or 'exact', with two evaluations a player and two more"
        )


def derivative_cross(game: Game) -> CrossContribution | None:
    """Return cross-contribution by derivatives, and count their passes; None: there are none."""
    if isinstance(game, ActiveGame):
        every = derivative_cross(game.game)
        return None if every is None else replace(every, eta=game.pairs_of(every.eta))
    if not isinstance(game, ModelGame) or not game.differentiable:
        return None
    try:
        eta, flat = by_derivatives(game)
    except ModelError:
        # a model that fails on plain values too raises when those are asked for
        return None
    return CrossContribution(eta, flat)


def interaction_fields(
    coalitions: Tensor,
    values: Tensor,
    phi: Tensor,
    known_cross: CrossContribution | None,
    learnt: object,
) -> dict[str, Tensor]:
    """Return the fields `interactions` and `cross_contribution` of an explanation.

    They are computed from coalitions (r or 1, c, p), their values (r, c, k) and the Shapley values
    phi (r, p, k), with kriging's calibration where the design learnt one. Cross-contribution comes
    from derivatives or, in rows where they say nothing, from the coalition values.
    """
    calibration = learnt if isinstance(learnt, Calibration) else None
    pairs = pairwise_interactions(coalitions, values, phi, calibration=calibration)

    if known_cross is None:
        eta = torch.zeros_like(pairs[..., 0])
        unknown = torch.ones_like(values[:, 0, 0], dtype=torch.bool)
    else:
        eta = known_cross.eta.clone()
        unknown = known_cross.flat

    # where all values of a row are the same, there are no interactions to look for
    varies = (values != values[:, :1]).flatten(1).any(dim=1)
    unknown = unknown & varies
    if unknown.any():
        own = coalitions if len(coalitions) == 1 else coalitions[unknown]
        eta[unknown] = estimated_second_differences(own, values[unknown], calibration=calibration)
    return {"interactions": pairs, "cross_contribution": eta}
