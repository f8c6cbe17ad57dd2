"""The method that chooses a method: exact where the budget allows it, else the smallest error."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Method, Promise, Stage, keyed_by_members, nested
from shearshap.methods.exact import Exact
from shearshap.methods.kernel import Leverage
from shearshap.methods.kriging.method import Kriging, calibration_for, fewest_in_pairs

MOST_KRIGED = 1 << 14
"""Coalitions up to which kriging is taken: its equations have an unknown for every two of them."""

MOST_PLAYERS = 150
"""Players up to which kriging is taken. With more, its error is about that of leverage."""

FEW_A_PLAYER = 8
"""Coalitions a player below which kriging is taken for more players too, where it gains much."""

MOST_PLAYERS_OF_FEW = 500
"""Players up to which that is so."""

WORTHWHILE = 16
"""How many times kriging's coalitions leverage may need for an error as small.

Where the budget leaves fewer, rows do not go on from kriging to leverage.
"""


@dataclass(frozen=True)
class Auto(Method):
    """The best method for the number of players and the budget.

    Exact if the budget allows all coalitions; otherwise the method with the smallest measured error
    (`benchmarks/accuracy.py`): kriging, but leverage beyond MOST_PLAYERS, where kriging gains
    little, and beyond MOST_KRIGED coalitions, where its equations become large. The choice depends
    on sizes alone, so the same call has the same answer on every machine.

    If rows may stop early (`tol`), kriging is used at larger budgets too, since most rows need only
    a part of them. Rows that need more go on to all coalitions, or to leverage.

    Parameters
    ----------
    calibration
        What kriging fitted in an earlier run, from `Explanation.calibration`. With it, a row has
        the same values in every run. None: it is fitted to the first rows of a call, as
        `Kriging` says.
    """

    calibration: Any = field(default=None, repr=False)

    @property
    def stops(self) -> bool:
        """Whether a row can stop early: yes, with all the methods that it chooses from."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """What kriging, leverage and exact values have in common."""
        return frozenset({"efficiency", "pairwise"})

    def chosen(self, players: int, coalitions: int, *, stops: bool) -> Method:
        """Return the method that does the work."""
        smallest = fewest_in_pairs(players)
        every = 1 << players
        few = coalitions < FEW_A_PLAYER * players
        most_players = MOST_PLAYERS_OF_FEW if few else MOST_PLAYERS
        kriging = Kriging(calibration=self.calibration)
        if coalitions >= every:
            # kriging goes on to all coalitions by itself, for the rows that need them
            return kriging if stops and smallest < every else Exact()
        if players > most_players:
            return Leverage()
        if coalitions <= MOST_KRIGED:
            return kriging.chosen(players, coalitions, stops=stops)
        return KrigingThenLeverage(calibration=self.calibration) if stops else Leverage()

    def for_players(self, players: int, every: int) -> Method:
        """Return the method with kriging's calibration for this number of active players."""
        return replace(self, calibration=calibration_for(self.calibration, players, every))

    def minimum(self, game: GameInfo) -> int:
        """Return kriging's minimum or, with very many players, leverage's."""
        if game.players > MOST_PLAYERS_OF_FEW:
            return Leverage().minimum(game)
        return Kriging().minimum(game)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design of the method chosen."""
        return self.chosen(game.players, budget, stops=False).design(game, budget, rng)


@dataclass(frozen=True, repr=False)
class KrigingThenLeverage(Method):
    """Kriging as far as it goes well, then leverage for the rows that need more."""

    calibration: Any = None
    pilot_rows = Kriging.pilot_rows
    enumerates = False

    def __repr__(self) -> str:
        """Return the name that explanations report: it is chosen by "auto", never by hand."""
        return "kriging then leverage"

    @property
    def stops(self) -> bool:
        """Whether a row can stop early."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """What both methods promise."""
        return frozenset({"efficiency", "pairwise"})

    @property
    def kriging(self) -> Kriging:
        """The first of the two methods."""
        return Kriging(calibration=self.calibration)

    def minimum(self, game: GameInfo) -> int:
        """Return the fewest coalitions that kriging takes in pairs."""
        return fewest_in_pairs(game.players)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return leverage's design of the whole budget."""
        return Leverage().design(game, budget, rng)

    def stages(
        self,
        game: GameInfo,
        budget: int,
        rng: np.random.Generator,
        *,
        stops: bool,  # noqa: ARG002  (rows always may: that is what it is for)
    ) -> Iterator[Stage]:
        """Yield kriging's stages and, where enough of the budget is left, leverage's."""
        kriged = self.kriging.design(game, min(budget, MOST_KRIGED), rng)
        yield from keyed_by_members(nested(kriged, self.kriging.smallest_stage(game)))

        left = budget - MOST_KRIGED + 2  # the two ends are known
        least = WORTHWHILE * MOST_KRIGED
        if left >= least:
            design = Leverage().design(game, left, rng)
            yield from keyed_by_members(nested(design, least // 2))

    def calibration_of(self, designs: Sequence[Design]) -> object:
        """Return what kriging's stages learnt."""
        return self.kriging.calibration_of(designs)
