"""Plans: how to explain rows with the same number of active players.

Each number of players has its own run, with its own choice of a method, stages and calibration.
A plan is made when the first row comes that needs it, and kept for all rows
after. To choose coalitions and to calibrate take time, so there are few different numbers: a row is
filled up with null players to the next of them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Thread

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.engine.run import Run
from shearshap.games.game import Game
from shearshap.interactions.indices import check_order, check_pairs
from shearshap.methods.base import Design, Stage
from shearshap.methods.kriging import Calibration

PLAYERS_STEP = 1.25
"""Factor from one number of players that play to the next."""

FEW_PILOT_ROWS = 16
"""Rows to which a calibration is fitted if there is a deadline: a fit to fewer is made again."""

MAX_CHEAP_COALITIONS = 320
"""Coalitions up to which a row's own equations take little time.

Dropping null players raises evaluations per player, and above this size kriging's per-row solves
dominate. So with more coalitions, null players of a calibrated method are left out only if that
makes values exact, or if evaluations are few.
"""

FEW_PER_PLAYER = 4
"""Below this many evaluations per player the model, not kriging, dominates the time."""

BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows worked on at once, by the game's device."""

PILOT_BYTES = 1 << 28
"""The same for pilot rows, on all devices: a calibration is fitted to those worked on at once."""

Keys = NDArray[np.int64]


class Plans:
    """The plans of a run, by the number of players that take part."""

    def __init__(self, game: Game, run: Run) -> None:
        self.players = game.players  #: all of them
        self.requested = run  #: as the user asked for it
        self.resolved = self._resolved(game, run)  #: for all players
        self.checked = False  #: whether the game's predictions were compared with the model's
        coalitions = run.method.errors_from(game)
        #: a budget from which on there are standard errors; None: there are none
        self.errors_from = None if coalitions is None else game.cost * coalitions
        self._plans: dict[int, Plan] = {}

    def of(self, game: Game, has_time: Callable[[], bool]) -> "Plan":
        """Return the plan for a game of some number of players, made as long as there is time."""
        if game.players not in self._plans:
            run = self.resolved
            if game.players < self.players:
                # all rows have the same budget, however many of their players are active
                run = self._resolved(game, replace(self.requested, budget=run.budget))
            self._plans[game.players] = Plan(game, run, has_time)
        return self._plans[game.players]

    def padded_player_counts(self, game: Game) -> Tensor:
        """Return how many players of a row play, by how many are active, (p + 1,)."""
        run = self.resolved
        every = torch.arange(self.players + 1)
        # each row has its own design, or needs interactions that are 0 for null players
        if run.method.screening(game) is not None or run.interactions:
            return every

        coalitions = run.coalitions(game)
        sizes = torch.tensor(_sizes(self.players))
        filled = sizes[torch.searchsorted(sizes, every)]
        few = max(MAX_CHEAP_COALITIONS, FEW_PER_PLAYER * self.players + 2)
        if run.method.pilot_rows and coalitions > few:
            filled = torch.full_like(every, self.players)
        # if all coalitions fit the budget, there is nothing to choose or to calibrate
        listed = every < coalitions.bit_length()
        return torch.where(listed, every, filled)

    def _resolved(self, game: Game, run: Run) -> Run:
        """Return a run with the method and the budget for a game's number of players."""
        run.method.check_players(self.players)
        return run.resolve(game)

    @property
    def calibration(self) -> object:
        """The calibration so far, as an option for another run; None if there is none."""
        given = getattr(self.requested.method, "calibration", None)
        if given is not None:
            return given
        learnt = [each for plan in self._plans.values() for each in plan.calibrations]
        known = [each for each in learnt if isinstance(each, Calibration)]
        return Calibration.joined(self.players, known) if known else None


def _sizes(players: int) -> list[int]:
    """Return numbers up to p, each at most a step larger than the one before, or by one."""
    sizes = [0]
    while sizes[-1] < players:
        sizes.append(min(max(sizes[-1] + 1, int(PLAYERS_STEP * sizes[-1])), players))
    return sizes


def max_rows(game: Game, coalitions: int, outputs: int, *, pilot: bool) -> int:
    """Return how many rows to work on at once, at least one."""
    memory = PILOT_BYTES if pilot else BLOCK_BYTES.get(game.device.type, BLOCK_BYTES["cpu"])
    # a byte for each player, and six double numbers for each output
    bytes_a_coalition = game.players + 48 * outputs
    return max(1, memory // (coalitions * bytes_a_coalition))


class Plan:
    """A run for a number of players, and its stages: made when a row needs them, and shared.

    A method that screens rows first has no stages: each row has its own design.
    """

    def __init__(self, game: Game, run: Run, has_time: Callable[[], bool]) -> None:
        self.run = run
        self.pilot = run.method.pilot_rows  #: rows that a calibration is fitted to
        if run.deadline is not None:
            self.pilot = min(self.pilot, FEW_PILOT_ROWS)
        self._coalitions = run.coalitions(game)  #: that the budget holds
        self._made: list[PlannedStage] = []
        self._to_come: Iterator[Stage] = iter(())
        if run.method.screening(game) is not None:
            return

        rng = np.random.default_rng(run.seed)
        method = run.method.within(has_time)
        self._to_come = method.stages(game, self._coalitions, rng, stops=run.in_stages)
        # the first stage is made now: if that fails, nothing has been spent yet
        first = self.stage(0)
        assert first is not None, "a method has at least one stage"
        if run.interactions:
            check_pairs(first.design.coalitions)
            check_order(game.players, run.order)

    def next_pilot(self) -> int:
        """Return how many of the next rows a calibration is fitted to; 0: it is there."""
        return 0 if self._made and self._made[0].is_calibrated else self.pilot

    def stage(self, number: int) -> "PlannedStage | None":
        """Return a stage, made now if no row was there before; None after the last."""
        if number == len(self._made):
            with threads_for(self._coalitions):
                stage = next(self._to_come, None)
            if stage is None:
                return None
            known = self._made[-1].keys if self._made else None
            self._made.append(PlannedStage.after(known, stage))
        return self._made[number]

    def calibrated_design(self, number: int, pilot: Tensor) -> Design:
        """Return a stage's design, with the calibration that it keeps from now on.

        The first rows that get there settle it: it is fitted to the values (r, c, k) of the pilot
        rows among them. If there are none, it takes that of the stage before, or the usual one.
        Uninformative rows, or very few rows before a deadline, postpone the fit.
        """
        stage = self._made[number]
        if not stage.is_calibrated:
            if len(pilot):
                stage.fit(pilot)
            elif stage.design.calibration is None:
                before = self._made[number - 1].design.calibration if number else None
                stage.design = stage.design.calibrated(before)
            enough = self.run.deadline is None or stage.pilot_rows >= FEW_PILOT_ROWS
            stage.is_calibrated = enough and not stage.design.tentative
        return stage.design

    def expected_seconds(self, number: int) -> "Seconds":
        """Return what a stage takes: as measured, or by the stage before; 0: nothing is known."""
        stage = self._made[number]
        if stage.seconds.known or not number:
            return replace(stage.seconds, fitting=0.0)
        before = self._made[number - 1]
        return before.seconds.at(len(stage.keys) / len(before.keys))

    def join_stages(self) -> None:
        """Let rows go to the last stage at once, after the first rows have shown what it takes."""
        last = self._made[-1]
        if len(self._made) == 1 or not last.seconds.known or self.stage(len(self._made)):
            return
        keys = torch.from_numpy(last.keys).to(last.fresh.device)
        whole = PlannedStage.after(None, Stage(keys, last.design))
        share = len(whole.fresh) / max(len(last.fresh), 1)
        seconds = replace(last.seconds, evaluating=share * last.seconds.evaluating)
        self._made = [replace(last, fresh=whole.fresh, source=whole.source, seconds=seconds)]

    @property
    def calibrations(self) -> list[object]:
        """What each of the stages so far has learnt."""
        return [stage.design.calibration for stage in self._made]


@dataclass(frozen=True)
class Seconds:
    """What a stage takes."""

    evaluating: float = 0.0  #: a row's coalitions
    solving: float = 0.0  #: a row's equations
    fitting: float = 0.0  #: the calibration

    @property
    def known(self) -> bool:
        """Whether it was measured."""
        return self.evaluating + self.solving > 0

    def at(self, growth: float) -> "Seconds":
        """Scale the times to `growth` times as many coalitions.

        Kriging's equations take the third power only if they are very large: 4 times is the most
        that was measured at twice as many, up to 8,192.
        """
        square = growth**2
        return Seconds(growth * self.evaluating, square * self.solving, square * self.fitting)


@dataclass
class PlannedStage:
    """A stage, and where the values of its coalitions come from.

    Some coalitions of a stage were in the stage before: their values are known. The others are
    fresh, and are asked for. Coalitions with equal keys are the same:

        known before     key 7   key 3   key 9
        the stage        key 3   key 5   key 9   key 5
        fresh                    ^                        column 1 is asked for, and used twice
        source           1       3       2       3        places in (known before, fresh)
    """

    design: Design
    keys: Keys  #: (c,)
    fresh: Tensor  #: (f,) which of the stage's coalitions to ask for
    source: Tensor  #: (c,) places of all its values, those known before and the fresh ones joined
    unfitted: Design  #: the design without a calibration
    is_calibrated: bool = False  #: whether the design has the calibration that it keeps
    pilot_rows: int = 0  #: rows that it was fitted to
    seconds: Seconds = Seconds()  #: that it took last

    @classmethod
    def after(cls, known: Keys | None, stage: Stage) -> "PlannedStage":
        """Return a stage after one whose coalitions have the keys `known` (c',)."""
        keys = stage.keys.cpu().numpy()
        if known is None:
            # before the first stage the two ends are known, with which every stage begins
            known = keys[:2]

        both = np.concatenate((known, keys))
        _, first, group = np.unique(both, return_index=True, return_inverse=True)
        # a key is fresh if it occurs first after the known ones
        fresh = np.sort(first[first >= len(known)]) - len(known)

        # of each distinct key: its place in (known before, fresh)
        place = np.empty(len(first), dtype=np.int64)
        place[group[: len(known)]] = np.arange(len(known))
        place[group[len(known) + fresh]] = len(known) + np.arange(len(fresh))
        source = place[group[len(known) :]]
        device = stage.design.coalitions.device
        return cls(
            stage.design,
            keys,
            torch.from_numpy(fresh).to(device),
            torch.from_numpy(source).to(device),
            stage.design,
        )

    def fit(self, pilot: Tensor) -> None:
        """Fit the design to pilot rows (r, c, k), again if they are many more than before."""
        if not self.pilot_rows or self.design.tentative:
            self.design = self.design.fit(pilot)
            self.pilot_rows = len(pilot)
        elif len(pilot) >= 4 * self.pilot_rows:
            fitted = self.unfitted.fit(pilot)
            if not fitted.tentative:
                self.design = fitted
                self.pilot_rows = len(pilot)


# Threads: one for small equations, all of torch's for large ones. A kriging of a few hundred
# coalitions makes thousands of tensor operations, most of which take microseconds. Threads that
# wait for each other there cost more than they save, and on a busy machine each operation waits for
# the scheduler. The model is never called inside: it keeps its threads.

MAX_SMALL_EQUATIONS = 4096
"""Coalitions up to which equations are small: matrices of 2,048 x 2,048, in complement pairs."""


def threads_for(coalitions: int) -> AbstractContextManager[None]:
    """Return a context in which equations of this many coalitions take as many threads as help."""
    return one_thread() if coalitions <= MAX_SMALL_EQUATIONS else nullcontext()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute by one thread if it is called from this one; other threads do not notice.

    torch's number belongs to the thread that sets it, but a thread that calls torch for the first
    time begins with what any other has set last. So it is set once more, elsewhere, as it was.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        elsewhere = Thread(target=torch.set_num_threads, args=(before,))
        elsewhere.start()
        elsewhere.join()
        yield
    finally:
        torch.set_num_threads(before)
