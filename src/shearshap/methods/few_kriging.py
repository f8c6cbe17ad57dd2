"""Kriging from fewer evaluations than a complement pair for each player takes.

Coalitions are rows of a Hadamard matrix, which tell all players apart as well as so few can. From
about one evaluation a player on, the prefixes of a joining order come first: they show what every
player adds on joining once. Players whose inputs are the background's take no part. Where the
budget holds all coalitions of the others, values are exact.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import hadamard
from torch import Tensor

from shearshap.coalitions import Bools, subsets, with_ends
from shearshap.errors import ShearWarning, level_of_caller
from shearshap.game import GameInfo
from shearshap.gaussian.few import FewValues, krige_few
from shearshap.gaussian.odd_even import signs_of
from shearshap.methods.base import Design, Estimate, Look, Method, Promise
from shearshap.methods.exact import shapley_transform
from shearshap.methods.permutation import prefixes, random_orders

PLAYERS_AN_EVALUATION = 4
"""Players for which there is at least one evaluation."""

MOST_LISTED = 16
"""Players below which all coalitions are listed where the budget holds them."""


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
        seed = int(rng.integers(1 << 62))
        taking_part = (eta > 0).cpu().numpy()
        patterns, pattern = np.unique(taking_part, axis=0, return_inverse=True)
        sets = np.stack([coalitions_of(players, budget - 2, seed) for players in patterns])
        inner = torch.from_numpy(sets[pattern.reshape(-1)]).to(game.device)
        return FewCoalitions(with_ends(inner), eta)


@dataclass(frozen=True)
class FewCoalitions(Design):
    """Coalitions of each row's own, from which its own process makes Shapley values."""

    coalitions: Tensor  #: (r, 2 + c, p)
    distance: Tensor  #: (r, p) of players' inputs from the background's; 0: they take no part

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior means."""
        # Each row has a fit of its own. With so few evaluations, models take far longer.
        rows = [self._of_row(row, values[row].mT) for row in range(len(values))]
        return Estimate(torch.stack(rows).mT)

    def _of_row(self, row: int, values: Tensor) -> Tensor:
        """Return the Shapley values (k, p) of a row with values (k, c)."""
        players = self.distance[row] > 0
        active = int(players.sum())
        phi = values.new_zeros(len(values), len(players))
        if 0 < active < MOST_LISTED and 1 << active <= values.shape[1]:
            phi[:, players] = _exact(values[:, : 1 << active])
        elif active:
            signs = signs_of(self.coalitions[row][:, players]).to(values.device)
            phi[:, players] = krige_few(FewValues.of(signs, values, self.distance[row][players]))
        return phi


def _exact(values: Tensor) -> Tensor:
    """Return the Shapley values (k, p) of values (k, 2^p): the ends, then in counting order."""
    counted = torch.cat((values[:, :1], values[:, 2:], values[:, 1:2]), dim=1)
    return shapley_transform(counted.mT[None])[0].mT


def coalitions_of(players: Bools, count: int, seed: int) -> Bools:
    """Return coalitions (count, p) of those players (p,) that take part.

    Where there are fewer than `count`, all of them come first, then empty ones.
    """
    rng = np.random.default_rng(seed)
    active = int(players.sum())
    sets = np.zeros((count, len(players)), dtype=bool)
    if active < MOST_LISTED and 1 << active <= count + 2:
        inner = subsets(active)[1:-1]
        sets[: len(inner), players] = inner
    else:
        sets[:, players] = spread_coalitions(active, count, rng)
    return sets


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
