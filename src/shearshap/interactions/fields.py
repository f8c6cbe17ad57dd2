"""Interactions for an explanation, from the values that the Shapley values were computed from."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shearshap.errors import MethodError, ModelError
from shearshap.game import Game, ModelGame
from shearshap.gaussian import Calibration
from shearshap.interactions.cross import by_derivatives
from shearshap.interactions.pairwise import estimated_second_differences, has_pairs
from shearshap.interactions.pairwise import interactions as pairwise_interactions


@dataclass(frozen=True)
class Slopes:
    """Cross-contribution by derivatives, and the rows of which they show nothing."""

    eta: Tensor  #: (r, p, p)
    blind: Tensor  #: (r,) of bool

    def take(self, rows: Tensor) -> "Slopes":
        """Return those of some of the rows."""
        return Slopes(self.eta[rows], self.blind[rows])


def check_pairs(coalitions: Tensor) -> None:
    """Raise unless coalitions come with their complements, which interactions need."""
    if not has_pairs(coalitions):
        raise MethodError(
            "interactions need coalitions with their complements, which this method does not ask "
            "for; try method='kriging', 'leverage', 'kernel-paired', 'permutation-antithetic' or "
            "'exact'"
        )


def slopes(game: Game) -> Slopes | None:
    """Return cross-contribution by derivatives, and count their passes; None: there are none."""
    if not isinstance(game, ModelGame) or not game.differentiable:
        return None
    try:
        return Slopes(*by_derivatives(game))
    except ModelError:
        return None  # a model that fails on values too will say so when they are asked for


def interaction_fields(
    coalitions: Tensor,
    values: Tensor,
    phi: Tensor,
    known: Slopes | None,
    learnt: object,
) -> dict[str, Tensor]:
    """Return the fields `interactions` and `cross_contribution` of an explanation.

    They come of coalitions (r or 1, c, p), their values (r, c, k), the Shapley values phi (r, p, k)
    and what the design learnt, where that is kriging's calibration. Derivatives show
    cross-contribution where there are any; the values show it for the other rows.
    """
    calibration = learnt if isinstance(learnt, Calibration) else None
    pairs = pairwise_interactions(coalitions, values, phi, calibration=calibration)
    eta = torch.zeros_like(pairs[..., 0])
    blind = torch.ones_like(values[:, 0, 0], dtype=torch.bool)
    if known is not None:
        eta = known.eta.clone()
        blind = known.blind
    # a row whose values are all the same has no interactions to look for
    blind = blind & (values != values[:, :1]).flatten(1).any(dim=1)
    if blind.any():
        own = coalitions if len(coalitions) == 1 else coalitions[blind]
        eta[blind] = estimated_second_differences(own, values[blind], calibration=calibration)
    return {"interactions": pairs, "cross_contribution": eta}
