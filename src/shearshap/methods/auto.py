"""The method that chooses a method: exact if the budget allows it, else the smallest error."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from shearshap.games.game import GameInfo
from shearshap.games.indices import SHAPLEY, Semivalue
from shearshap.methods.base import Design, Method, Promise
from shearshap.methods.coarse import CoarseToFine
from shearshap.methods.exact import Exact
from shearshap.methods.kernel import Leverage
from shearshap.methods.kriging.method import Kriging, check_calibration
from shearshap.methods.kriging.pairs import min_in_pairs
from shearshap.methods.permutation import Permutation

MAX_KRIGED = 1 << 14
"""Coalitions up to which kriging is used: its equations have an unknown for every two of them."""

MAX_PLAYERS = 150
"""Players up to which kriging is used.

With more it takes long. A regression such as leverage has an unknown for each player, and is far
off if it has hardly more equations: at 1,024 players and twice as many coalitions its error is 27
times the values themselves, and that of permutations .27 (a game of 30 players that matter).
"""

FEW_PER_PLAYER = 8
"""Below this many coalitions per player kriging is used up to `MAX_PLAYERS_OF_FEW` players."""

MAX_PLAYERS_OF_FEW = 500


@dataclass(frozen=True)
class Auto(Method):
    """The best method for the number of features and the budget.

    Exact if the budget allows all coalitions; otherwise the method with the smallest measured error
    (`benchmarks/accuracy.py`): kriging, but antithetic permutations beyond MAX_PLAYERS, and
    leverage beyond MAX_KRIGED coalitions, where the equations of kriging become large. The choice
    depends on sizes alone, so the same call has the same answer on every machine.

    If rows may stop early (`tol`), kriging is used at larger budgets, too, since most rows need
    only a part of them. Rows that need more evaluate all coalitions, if the budget allows it.

    Parameters
    ----------
    calibration
        What kriging fitted in an earlier run, from `Explanation.calibration`. With it, a row has
        the same values in every run. None: it is fitted to the first rows of a call, as
        `Kriging` says.
    """

    calibration: Any = field(default=None, repr=False)
    refined: bool = field(default=True, repr=False)  #: of kriging
    semivalue: Semivalue = field(default=SHAPLEY, repr=False)
    takes_closed_forms: ClassVar[bool] = True
    calibrates: ClassVar[bool] = True
    # what kriging, leverage and exact values have in common
    stops: ClassVar[bool] = True
    promises: ClassVar[frozenset[Promise]] = frozenset({"efficiency", "pairwise"})

    def select_method(self, players: int, coalitions: int, *, stops: bool) -> Method:
        """Return the method that does the work."""
        smallest = min_in_pairs(players)
        every = 1 << players
        few = coalitions < FEW_PER_PLAYER * players
        max_players = MAX_PLAYERS_OF_FEW if few else MAX_PLAYERS
        kriging = Kriging(self.calibration, self.refined, semivalue=self.semivalue)
        if coalitions >= every:
            # kriging goes on to all coalitions by itself, for the rows that need them
            return kriging if stops and smallest < every else Exact(self.semivalue)
        only_kriging = self.semivalue != SHAPLEY
        too_few = coalitions < 2 * players  # for a permutation and its reverse
        if players > max_players and not (only_kriging or too_few):
            return Permutation(antithetic=True)
        if coalitions <= MAX_KRIGED:
            return kriging.select_method(players, coalitions, stops=stops)
        if stops or only_kriging:
            return _BoundedKriging(self.calibration, self.refined, semivalue=self.semivalue)
        return Leverage()

    def for_draws(self) -> Method:
        """Return antithetic permutations: kriging's intervals are too narrow there."""
        return Permutation(antithetic=True) if self.semivalue == SHAPLEY else self

    def estimator(self) -> Method:
        """Return kriging."""
        return Kriging()

    def in_hierarchy(self, game: GameInfo, coalitions: int, *, stops: bool) -> Method:
        """Return exact values, groups before their members or, if rows may stop, permutations."""
        return CoarseToFine().in_hierarchy(game, coalitions, stops=stops)

    def check_players(self, players: int) -> None:
        """Raise if the calibration is for another number of players."""
        super().check_players(players)
        check_calibration(self.calibration, players)

    def minimum(self, game: GameInfo) -> int:
        """Return kriging's minimum, which is smaller than leverage's."""
        if game.structure is not None:
            return CoarseToFine().minimum(game)
        return Kriging(semivalue=self.semivalue).minimum(game)

    def errors_from(self, game: GameInfo) -> int:
        """Return the number of the method for few coalitions, or for players in groups."""
        if game.structure is not None:
            return CoarseToFine().errors_from(game)
        is_kriged = game.players <= MAX_PLAYERS_OF_FEW or self.semivalue != SHAPLEY
        method = Kriging() if is_kriged else Permutation(antithetic=True)
        return method.errors_from(game)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design of the method chosen."""
        return self.select_method(game.players, budget, stops=False).design(game, budget, rng)


@dataclass(frozen=True, repr=False)
class _BoundedKriging(Kriging):
    """Kriging from as many coalitions as its equations can hold, whatever the budget."""

    enumerates: ClassVar[bool] = False

    def __repr__(self) -> str:
        """Return the name that explanations report: "auto" chooses it, never a user."""
        return repr(Kriging())

    def select_method(self, _players: int, _coalitions: int, *, stops: bool) -> Method:  # noqa: ARG002
        """Return this method: it is chosen for large budgets alone."""
        return self

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return kriging's design of at most MAX_KRIGED coalitions."""
        return super().design(game, min(budget, MAX_KRIGED), rng)
