"""The one loop: rows in blocks, each block through the method's stages, one explanation a block.

    settle the run             its method and budget, checked before anything is spent      run.py
    for each block of rows     as many as memory holds                                   memory.py
        part them              by about how many players are not null                    active.py
        plan each part         the coalitions that its rows share, stage by stage    plans, stages
        ask for the two ends   v(none), v(all): base value, prediction, number of outputs
        finish each part       its rows go through the stages of the plan                  part.py
            stage 0            ask for the coalitions that are not known, and estimate
                               rows that are precise enough are finished               finished.py
            stage 1            the other rows ask for more
            ...
        yield an Explanation   of the block; the caller concatenates, saves or sends it  room.py

Most rows have no null players: then a block is one part.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from shearshap.engine.clock import Clock, within_time
from shearshap.engine.finished import FinishedRows
from shearshap.engine.memory import FIRST_BLOCK
from shearshap.engine.meter import Meter
from shearshap.engine.part import Part
from shearshap.engine.plans import Plans, pilot_rows
from shearshap.engine.room import Room
from shearshap.engine.run import Run
from shearshap.errors import ModelError, ShearWarning, level_of_caller
from shearshap.games.active import ActiveGame
from shearshap.games.game import Ends, Game, ModelGame
from shearshap.methods import name_of
from shearshap.result.explanation import Explanation


def explained_blocks(
    game: Game,
    run: Run,
    clock: Clock | None = None,
    plans: Plans | None = None,
    meter: Meter | None = None,
) -> Iterator[Explanation]:
    """Yield the explanations of a game's rows, block by block, in their order.

    Their index is the rows' numbers in the game. After the run's deadline no further block is
    begun; a warning says how many rows are left. Where the model fails, the rows of the block that
    are finished come before the error.

    `clock` has counted the time since the run began, where that was earlier than now. `plans` are
    those of an earlier call with such a game and run, whose model has been checked. `meter` counts
    the rows as they are asked, solved and finished.
    """
    plans = plans or Plans(game, run)
    clock = clock or Clock(run.deadline)
    meter = meter or Meter()
    room = Room(game.rows if run.at_once and run.deadline is None else None)
    try:
        yield from _blocks_in(room, game, plans, clock, meter)
    finally:
        room.wait()  # where a caller has stopped before the last block, for those that it has


def _blocks_in(
    room: Room, game: Game, plans: Plans, clock: Clock, meter: Meter
) -> Iterator[Explanation]:
    """Yield the explanations of the blocks, with their arrays in a room.

    The numbers of all blocks are there when the last one is.
    """
    # the pilot rows are all in the first block, since a calibration is fitted to them together
    size = max(FIRST_BLOCK, pilot_rows(plans.settled))
    done = 0
    checks = 0
    while done < game.rows and size:
        rows = slice(done, done + size)
        block = _Block.begun(game.take(rows), plans, meter, first_row=done)
        block.check(first=not plans.checked)
        plans.checked = True
        if block.game.usage.checks:
            checks += block.game.usage.checks
            block.checks = checks
        try:
            block.finish()
        except ModelError:
            if block.finished.any:
                explanation = block.explanation(room)
                room.wait()
                yield explanation
            raise
        explanation = block.explanation(room)

        done += len(explanation)
        meter.finished(len(explanation))
        if done >= game.rows:
            room.wait()
        most = block.rows_at_once()
        size = yield from within_time(explanation, clock, most, done, game.rows)


@dataclass
class _Block:
    """A block of rows, and its parts."""

    game: Game
    plans: Plans
    first_row: int  #: the number of its first row in the whole
    ends: Ends
    parts: list[Part]
    notes: tuple[str, ...] = ()
    checks: int = 0  #: evaluations of the call so far that checked the model; 0: not in this block

    @classmethod
    def begun(cls, game: Game, plans: Plans, meter: Meter, *, first_row: int) -> "_Block":
        """Part the rows, ask for the two ends of each, and return the block."""
        parted = _parted(game, plans)
        # plans are made first: where that fails, nothing has been spent yet
        planned = [(own, plans.of(own), members) for own, members in parted]
        with meter.asking():
            ends = game.ends()
        parts = [
            Part.begun(own, plan, meter, ends.values, members) for own, plan, members in planned
        ]
        return cls(game, plans, first_row, ends, parts)

    def check(self, *, first: bool) -> None:
        """Warn if predictions are not the model's own; `first`: no block was checked before."""
        doubt = self.game.doubt(self.ends, first=first)
        if doubt is not None:
            warnings.warn(doubt, ShearWarning, stacklevel=level_of_caller())
            self.notes = (doubt,)

    def finish(self) -> None:
        """Finish all rows; where the model fails, those before."""
        for part in self.parts:
            part.finish()

    def rows_at_once(self) -> int:
        """Return how many rows memory holds when they begin."""
        return min(part.rows_at_once(0, pilot=False) for part in self.parts)

    @property
    def finished(self) -> FinishedRows:
        """The rows of all parts that are finished."""
        first = self.parts[0]
        if first.members is None:
            return first.finished
        every = FinishedRows(self.game.rows, self.game.device)
        for part in self.parts:
            assert isinstance(part.game, ActiveGame)
            assert part.members is not None
            if part.finished.any:
                every.take_in(part.finished, part.members, part.game)
        return every

    def explanation(self, room: Room) -> Explanation:
        """Return the explanation of the rows that are finished, with its arrays in a room."""
        finished = self.finished
        run = self.plans.settled
        arrays = finished.arrays(room, self.first_row, single=self.ends.single, stops=run.stops)
        methods = dict.fromkeys(name_of(part.plan.run.method) for part in self.parts)
        notes = (*self.notes, *arrays.pop("notes"))
        return Explanation(
            **arrays,
            index=self.first_row + finished.rows,
            derivative_passes=max(part.derivative_passes for part in self.parts),
            check_evaluations=self.checks,
            method=", ".join(methods),
            seed=run.seed,
            calibration=self.plans.calibration,
            notes=notes,
        )


def _parted(game: Game, plans: Plans) -> list[tuple[Game, Tensor | None]]:
    """Return the game and the members of each part of a block: rows of equally many players.

    The members (n,) are numbers of rows in the block; None: all of them, with all players.
    """
    active = game.active_players() if plans.asked.drop_null else None
    if active is None:
        return [(game, None)]
    assert isinstance(game, ModelGame)

    # a row without active players gets one: its value is prediction - base value, which is 0
    active[:, 0] |= ~active.any(dim=1)
    playing = plans.playing(game).to(active.device)[active.sum(dim=1)]
    parts: list[tuple[Game, Tensor | None]] = []
    for count in playing.unique().tolist():
        members = (playing == count).nonzero()[:, 0]
        parts.append((ActiveGame.of(game.take(members), active[members], count), members))
    return parts
