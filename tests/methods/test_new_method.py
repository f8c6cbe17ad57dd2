"""A new method takes one class and one line: every law can be run on it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from torch import Tensor

from laws import LAWS, Law, laws_of
from shearshap.games.coalitions import Bools, with_ends
from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Estimate, Method, Promise, as_tensor


@dataclass(frozen=True)
class MonteCarlo(Method):
    """What a player adds to random coalitions of the others, one sum for each player."""

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset({"unbiased", "null-player"})

    def minimum(self, game: GameInfo) -> int:
        return 2 + 2 * game.players

    draws_independently: ClassVar[bool] = True  # for the laws: no budget makes it exact

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> "Gains":
        draws = (budget - 2) // (2 * game.players)
        players = range(game.players)
        without = np.stack([_others(player, len(players), draws, rng) for player in players])
        own = np.eye(game.players, dtype=bool)[:, None]
        both = np.stack((without, without | own))
        return Gains(with_ends(as_tensor(both.reshape(1, -1, game.players), game)))


@dataclass(frozen=True)
class Gains(Design):
    """Columns: the ends; coalitions without the player, player by player; the same with it."""

    coalitions: Tensor  #: (1, 2 + 2 p n, p)

    def estimate(self, values: Tensor) -> Estimate:
        players = self.coalitions.shape[-1]
        without, joined = values[:, 2:].unflatten(1, (2, players, -1)).unbind(dim=1)
        return Estimate((joined - without).mean(dim=2))


def _others(player: int, players: int, draws: int, rng: np.random.Generator) -> Bools:
    """Coalitions without one player: all sizes alike, and all of a size alike, (draws, p)."""
    size = rng.integers(players, size=(draws, 1))
    order = rng.permuted(np.tile(np.arange(players - 1), (draws, 1)), axis=1)
    return np.insert(order < size, player, False, axis=1)


METHODS: dict[str, Method] = {"monte-carlo": MonteCarlo()}


MANY_SEEDS = "the_mean_over_seeds_is_the_shapley_value"


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, id=str(law), marks=[pytest.mark.slow] * (str(law) == MANY_SEEDS))
        for law in laws_of(METHODS["monte-carlo"])
    ],
)
def test_a_new_method_keeps_the_laws(law: Law) -> None:
    law.check(METHODS["monte-carlo"])


@dataclass(frozen=True)
class Wrong(MonteCarlo):
    """The same with a sum over the draws in place of their mean."""

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> "Gains":
        return Summed(super().design(game, budget, rng).coalitions)


@dataclass(frozen=True)
class Summed(Gains):
    def estimate(self, values: Tensor) -> Estimate:
        draws = (values.shape[1] - 2) // (2 * self.coalitions.shape[-1])
        return Estimate(super().estimate(values).values * draws)


@dataclass(frozen=True)
class Boastful(MonteCarlo):
    """The same with promises that it does not keep."""

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset({"efficiency", "pairwise", "unbiased", "null-player"})

    draws_independently: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        (Wrong(), "additive_games_are_exact"),
        pytest.param(Wrong(), MANY_SEEDS, marks=pytest.mark.slow),
        (Boastful(), "values_add_up"),
        (Boastful(), "pairwise_games_are_exact"),
        (Boastful(), "a_full_budget_is_exact"),
    ],
    ids=str,
)
def test_a_wrong_method_breaks_a_law(method: Method, broken: str) -> None:
    (law,) = (law for law in LAWS if str(law) == broken)
    assert law.applies(method)
    with pytest.raises(AssertionError):
        law.check(method)
