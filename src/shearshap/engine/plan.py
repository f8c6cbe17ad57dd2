"""Plans: how rows are explained that have equally many players that take part.

Each number of players has a run with a method of its own choice, stages of its own, and a
calibration of its own. A plan is made when the first row comes that needs it, and kept for all rows
after. To choose coalitions and to calibrate take time, so there are few different numbers: a row is
filled up with null players to the next of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.engine.loop import FIRST_BLOCK
from shearshap.engine.run import Run
from shearshap.games.game import Game
from shearshap.interactions.fields import check_pairs
from shearshap.methods.base import Design, Method, Stage
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

BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows worked on at once, by the game's device."""

PILOT_BYTES = 1 << 28
"""The same for pilot rows, on all devices: a calibration is fitted to those worked on at once."""

Keys = NDArray[np.int64]


@dataclass
class Plan:
    """A run settled for a number of players, and its stages."""

    run: Run
    schedule: "Schedule"
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
        self.settled = self._settled(game, run)  #: for all players
        self.checked = False  #: whether the game's predictions were compared with the model's
        self._plans: dict[int, Plan] = {}

    def of(self, game: Game) -> Plan:
        """Return the plan for a game of some number of players."""
        if game.players not in self._plans:
            run = self.settled
            if game.players < self.players:
                # all rows have the same budget, however many of their players are active
                run = self._settled(game, replace(self.asked, budget=run.budget))
            self._plans[game.players] = Plan.of(game, run)
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

    def _settled(self, game: Game, run: Run) -> Run:
        """Return a run with the method and the budget for a game's number of players."""
        method = run.method.for_players(game.players, self.players)
        return replace(run, method=method).on(game)

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


def _schedule(game: Game, run: Run) -> "Schedule":
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


def most_rows(game: Game, coalitions: int, outputs: int, *, pilot: bool) -> int:
    """Return how many rows to work on at once, at least one."""
    memory = PILOT_BYTES if pilot else BLOCK_BYTES.get(game.device.type, BLOCK_BYTES["cpu"])
    # a byte for each player, and six double numbers for each output
    bytes_a_coalition = game.players + 48 * outputs
    return max(1, memory // (coalitions * bytes_a_coalition))


# Stages


@dataclass(frozen=True)
class Sources:
    """Where the values of a stage's coalitions come from.

    Some coalitions of a stage were in the stage before: their values are known. The others are
    fresh, and are asked for. Coalitions with equal keys are the same:

        known before     key 7   key 3   key 9
        the stage        key 3   key 5   key 9   key 5
        fresh                    ^                        column 1 is asked for, and used twice
        source           1       3       2       3        places in (known before, fresh)
    """

    fresh: Tensor  #: (f,) which of the stage's coalitions to ask for
    source: Tensor  #: (c,) places of all its values, those known before and the fresh ones joined

    @classmethod
    def between(cls, known: Keys, keys: Keys, device: torch.device) -> "Sources":
        """Return the sources of coalitions of these keys (c,), where those of `known` (c',) are."""
        both = np.concatenate((known, keys))
        _, first, group = np.unique(both, return_index=True, return_inverse=True)
        # a key is fresh where it occurs first after the known ones
        fresh = np.sort(first[first >= len(known)]) - len(known)

        # of each distinct key: its place in (known before, fresh)
        place = np.empty(len(first), dtype=np.int64)
        place[group[: len(known)]] = np.arange(len(known))
        place[group[len(known) + fresh]] = len(known) + np.arange(len(fresh))
        source = place[group[len(known) :]]
        return cls(torch.from_numpy(fresh).to(device), torch.from_numpy(source).to(device))


@dataclass
class ScheduledStage:
    """A stage of a run, and where the values of its coalitions come from."""

    design: Design
    keys: Keys
    sources: Sources
    settled: bool = False  #: whether the design has the calibration that it keeps

    @property
    def coalitions(self) -> int:
        """How many coalitions the stage has in all."""
        return len(self.keys)


class Schedule:
    """The stages of a run, in order: made when a row needs them, calibrated once, and shared."""

    def __init__(self, method: Method, stages: Iterator[Stage]) -> None:
        self.method = method
        self._to_come = stages
        self._made: list[ScheduledStage] = []

    def stage(self, number: int) -> ScheduledStage | None:
        """Return a stage, made now if no row was there before; None after the last."""
        if number == len(self._made):
            stage = next(self._to_come, None)
            if stage is None:
                return None
            self._made.append(self._scheduled(stage))
        return self._made[number]

    def _scheduled(self, stage: Stage) -> ScheduledStage:
        keys = stage.keys.cpu().numpy()
        # before the first stage the two ends are known, with which every stage begins
        known = self._made[-1].keys if self._made else keys[:2]
        device = stage.design.coalitions.device
        return ScheduledStage(stage.design, keys, Sources.between(known, keys, device))

    def settled(self, number: int, pilot: Tensor) -> Design:
        """Return a stage's design, with the calibration that it keeps from now on.

        The first rows that get there settle it: it is fitted to the values (r, c, k) of the pilot
        rows among them. If there are none, it takes the calibration of the stage before. Rows
        that tell nothing leave it to the next.
        """
        stage = self._made[number]
        if not stage.settled:
            if len(pilot):
                stage.design = stage.design.fit(pilot)
            elif number and stage.design.calibration is None:
                before = self._made[number - 1].design
                stage.design = stage.design.calibrated(before.calibration)
            stage.settled = not stage.design.tentative
        return stage.design

    @property
    def calibration(self) -> object:
        """What the stages so far have learnt."""
        return self.method.calibration_of([stage.design for stage in self._made])
