"""Plans: how rows are explained that have equally many players that take part.

Each number of players has a run with a method of its own choice, stages of its own, and a
calibration of its own. A plan is made when the first row comes that needs it, and kept for all rows
after. To choose coalitions and to calibrate take time, so there are few different numbers: a row is
filled up with null players to the next of them.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.memory import FIRST_BLOCK
from shearshap.engine.run import Run
from shearshap.engine.stages import Schedule
from shearshap.games.game import Game
from shearshap.interactions.fields import check_pairs
from shearshap.methods.kriging import Calibration, CalibrationByPlayers, StagedCalibration

STEP = 1.25
"""Factor from one number of players that play to the next."""

SOLVED = 320
"""Coalitions up to which equations of a row's own take little time.

Of more evaluations for each player, kriging makes more: it solves more rows' own equations. So with
more coalitions, null players of a calibrated method are left out only where that makes values
exact, or where evaluations are few.
"""

FEW_A_PLAYER = 4
"""Evaluations a player that are few: models that are explained by them take longer than kriging."""


@dataclass
class Plan:
    """A run settled for a number of players, and its stages."""

    run: Run
    schedule: Schedule
    pilot: int  #: rows that a calibration is fitted to

    @classmethod
    def of(cls, game: Game, run: Run) -> "Plan":
        """Return the plan for games like this one."""
        return cls(run, _schedule(game, run), pilot_rows(run))

    def next_pilot(self) -> int:
        """Return how many of the next rows a calibration is fitted to; 0: it is there."""
        first = self.schedule.stage(0)
        return 0 if first is not None and first.settled else self.pilot


class Plans:
    """The plans of a run, by the number of players that take part."""

    def __init__(self, game: Game, run: Run) -> None:
        self.players = game.players  #: all of them
        self.asked = run  #: as the user asked for it
        self.settled = run.on(game)  #: for all players
        self.checked = False  #: whether the game's predictions were compared with the model's
        self._plans: dict[int, Plan] = {}

    def of(self, game: Game) -> Plan:
        """Return the plan for a game of some number of players."""
        if game.players not in self._plans:
            self._plans[game.players] = Plan.of(game, self._run(game))
        return self._plans[game.players]

    def playing(self, game: Game) -> Tensor:
        """Return how many players of a row play, by how many are active, (p + 1,)."""
        run = self.settled
        every = torch.arange(self.players + 1)
        # each row has a design of its own, or needs interactions that are 0 for null players
        if run.method.look(game) is not None or run.interactions:
            return every

        coalitions = run.coalitions(game)
        sizes = torch.tensor(_sizes(self.players))
        filled = sizes[torch.searchsorted(sizes, every)]
        if run.method.pilot_rows and coalitions > max(SOLVED, FEW_A_PLAYER * self.players + 2):
            filled = torch.full_like(every, self.players)
        # where all coalitions fit the budget, there is nothing to choose or to calibrate
        listed = every < coalitions.bit_length()
        return torch.where(listed, every, filled)

    def _run(self, game: Game) -> Run:
        """Return the run for a number of players, with the budget that all rows have."""
        method = self.asked.method.for_players(game.players, self.players)
        return replace(self.asked, method=method, budget=self.settled.budget).on(game)

    @property
    def calibration(self) -> object:
        """What was learnt so far, as an option for another run; None: nothing."""
        given = getattr(self.asked.method, "calibration", None)
        if given is not None:
            return given
        learnt = {players: plan.schedule.calibration for players, plan in self._plans.items()}
        known = {
            players: each
            for players, each in learnt.items()
            if isinstance(each, Calibration | StagedCalibration)
        }
        if not known:
            return None
        if set(known) == {self.players}:
            return known[self.players]
        return CalibrationByPlayers.of(self.players, known)


def _sizes(players: int) -> list[int]:
    """Return numbers up to p, each at most a STEP larger than the one before, or by one."""
    sizes = [0]
    while sizes[-1] < players:
        sizes.append(min(max(sizes[-1] + 1, int(STEP * sizes[-1])), players))
    return sizes


def pilot_rows(run: Run) -> int:
    """Return how many of the first rows a calibration is fitted to."""
    if run.deadline is None:
        return run.method.pilot_rows
    # fewer, since the first block is finished whatever the time
    return min(run.method.pilot_rows, FIRST_BLOCK)


def _schedule(game: Game, run: Run) -> Schedule:
    """Return the stages that rows share; none for a method that looks at rows first."""
    if run.method.look(game) is not None:
        return Schedule(run.method, iter(()))

    rng = np.random.default_rng(run.seed)
    stages = run.method.stages(game, run.coalitions(game), rng, stops=run.stops)
    schedule = Schedule(run.method, stages)

    # the first stage is made now: where that fails, nothing has been spent yet
    first = schedule.stage(0)
    assert first is not None, "a method has at least one stage"
    if run.interactions:
        check_pairs(first.design.coalitions)
    return schedule
