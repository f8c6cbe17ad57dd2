"""Kriging from fewer evaluations than a complement pair for each player takes.

Coalitions are rows of a Hadamard matrix, which tell all players apart as well as so few can. From
about one evaluation a player on, the prefixes of a joining order come first: they show what every
player adds on joining once.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import hadamard
from torch import Tensor

from shearshap.errors import ShearWarning, level_of_caller
from shearshap.games.coalitions import Bools, with_ends
from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Estimate, Look, Method, Promise, as_tensor
from shearshap.methods.kriging.few import FewValues, krige_few
from shearshap.methods.kriging.odd_even import signs_of
from shearshap.methods.permutation import prefixes, random_orders

PLAYERS_AN_EVALUATION = 4
"""Players for which there is at least one evaluation."""


@dataclass(frozen=True, repr=False)
class FewKriging(Method):
    """Kriging with a prior on the linear part too, for a budget below two a player.

    It has no standard errors: too few values tell whether they would hold.
    """

    enumerates = False

    def __repr__(self) -> str:
        """Return the name that explanations report: kriging chooses it, never a user."""
        return "kriging"

    @property
    def stops(self) -> bool:
        """Whether a row can stop: it may be asked to, and never does."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient."""
        return frozenset({"efficiency"})

    def minimum(self, game: GameInfo) -> int:
        """Return an evaluation for every four players, but the two ends and two more at least."""
        return max(4, -(-game.players // PLAYERS_AN_EVALUATION))

    def look(self, _game: GameInfo) -> Look:
        """Return the look at how far each player's inputs are from the background's."""
        return Look("distance", None)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design for rows whose players all take part."""
        return self.design_after(game, budget, rng, torch.ones(1, game.players).double())

    def design_after(
        self, game: GameInfo, budget: int, rng: np.random.Generator, eta: Tensor
    ) -> Design:
        """Return the design of rows whose players are at distances eta (r, p)."""
        if budget < game.players:
            warnings.warn(
                f"kriging: {budget} coalitions for {game.players} players tell little more than "
                "which players matter most; there are no standard errors",
                ShearWarning,
                stacklevel=level_of_caller(),
            )
        inner = as_tensor(spread_coalitions(game.players, budget - 2, rng), game)
        return FewCoalitions(with_ends(inner[None]), _positive(eta))


@dataclass(frozen=True)
class FewCoalitions(Design):
    """Coalitions that all rows share, from which each row's own process makes Shapley values."""

    coalitions: Tensor  #: (1, 2 + c, p)
    distance: Tensor  #: (r, p) of players' inputs from the background's

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior means."""
        signs = signs_of(self.coalitions[0]).to(values.device)
        return Estimate(krige_few(FewValues.of(signs, values.mT, self.distance)).mT)


def _positive(distance: Tensor) -> Tensor:
    """Return distances (r, p) of which none is 0: where one is, the smallest other, or 1."""
    others = torch.where(distance > 0, distance, torch.inf).amin(dim=1, keepdim=True)
    others = others.nan_to_num(posinf=1.0)
    return torch.where(distance > 0, distance, others)


def spread_coalitions(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return coalitions (count, p) that tell players apart."""
    chains = min(count // (players - 1), 2)
    order = random_orders(players, 1, rng)
    both = np.concatenate((order, order[:, ::-1]))[:chains]
    drawn = [prefixes(both)] if chains else []
    missing = count - chains * (players - 1)
    return np.concatenate([*drawn, hadamard_coalitions(players, missing, rng)])


def hadamard_coalitions(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return rows of Hadamard matrices, (count, p), of random columns and signs."""
    size = 1 << max(players - 1, 1).bit_length()
    matrix = hadamard(size) > 0
    drawn = [np.zeros((0, players), dtype=bool)]
    while sum(map(len, drawn)) < count:
        columns = rng.permutation(size)[:players]
        flipped = rng.random(players) < 0.5
        rows = matrix[:, columns] ^ flipped
        inner = rows[rows.any(axis=1) & ~rows.all(axis=1)]
        drawn.append(rng.permutation(inner))
    return np.concatenate(drawn)[:count]
