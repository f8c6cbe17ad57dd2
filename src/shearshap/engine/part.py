"""A part of a block: rows of the same number of players, on their way through the stages.

Rows that are at the same stage form a group. Without a tolerance there is one stage and one group.
With a tolerance, groups wait on a stack. Let there be six rows, and memory for two at a time from
stage 1 on; "0-5:0" stands for the rows 0 to 5, which wait for stage 0:

    waiting, the top at the right    what happens
    0-5:0                            stage 0 finishes the rows 1 and 4
    0,2,3,5:1                        too many for memory: cut in two
    3,5:1   0,2:1                    stage 1 finishes row 0
    3,5:1   2:2                      stage 2 is the last: it finishes row 2
    3,5:1                            ...

So the first rows go all the way before the next ones begin, and memory holds the values of a few
rows only.

A method that looks at rows before it chooses their coalitions, such as SHEAR, has no stages that
rows share: every row has a design of its own, and is finished with it (looks.py).
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.engine.finished import EVERYONE, Answer, FinishedRows
from shearshap.engine.looks import answer_after_look, most_looked_coalitions
from shearshap.engine.memory import most_rows
from shearshap.engine.meter import Meter
from shearshap.engine.plans import Plan
from shearshap.engine.stages import ScheduledStage
from shearshap.errors import ModelError
from shearshap.games.game import Game
from shearshap.methods.base import Look
from shearshap.methods.kriging.odd_even import evenly_spaced


@dataclass(frozen=True)
class _Group:
    """Rows of a block that wait for the same stage."""

    rows: Tensor  #: (r,) their numbers in the block
    stage: int  #: the number of the stage that they wait for
    values: Tensor  #: (r, c, k) of the stage before; at first of the two ends
    evaluations: int  #: spent on each of them so far
    before: Tensor | None = None  #: (r, p, k), their Shapley values at the stage before

    def take(self, which: slice | Tensor) -> "_Group":
        """Return the group of some of its rows."""
        before = None if self.before is None else self.before[which]
        return replace(self, rows=self.rows[which], values=self.values[which], before=before)


@dataclass
class Part:
    """Rows of a block with equally many players, on their way through the stages of their plan."""

    game: Game
    plan: Plan
    meter: Meter
    pilot: int  #: how many of the rows a calibration is fitted to
    ends: Tensor  #: (r, 2, k) the values of the empty and the full coalition
    finished: FinishedRows
    members: Tensor | None = None  #: (r,) its rows' numbers in the block; None: all rows
    look_passes: int = 0  #: passes for derivatives that looks spent on each row

    @classmethod
    def begun(
        cls, game: Game, plan: Plan, meter: Meter, ends: Tensor, members: Tensor | None
    ) -> "Part":
        """Return the part of a block's members, by the two ends of all rows of the block."""
        finished = FinishedRows.of(game, interactions=plan.run.interactions)
        own = ends if members is None else ends[members]
        return cls(game, plan, meter, plan.next_pilot(), own, finished, members)

    @property
    def derivative_passes(self) -> int:
        """Passes for derivatives spent on each row."""
        return self.game.usage.derivative_passes + self.look_passes

    def finish(self) -> None:
        """Finish all rows; where the model fails, those before."""
        rows = torch.arange(self.game.rows, device=self.game.device)
        everyone = _Group(rows, 0, self.ends, 2 * self.game.cost)
        look = self.plan.run.method.look(self.game)
        if look is None:
            self._go_through_stages(everyone)
        else:
            self._look_and_finish(everyone, look)

    def rows_at_once(self, stage: int, *, pilot: bool) -> int:
        """Return how many rows memory holds at a stage."""
        scheduled = self.plan.schedule.stage(stage)
        if scheduled is None:
            coalitions = most_looked_coalitions(self.game, self.plan.run)
        else:
            coalitions = scheduled.coalitions
        return most_rows(self.game, coalitions, self.ends.shape[2], pilot=pilot)

    # Stages that all rows share

    def _go_through_stages(self, everyone: _Group) -> None:
        """Bring all rows through the stages, the first all the way before the next begin."""
        waiting = [everyone]
        while waiting:
            group = waiting.pop()
            size = self.rows_at_once(group.stage, pilot=self.pilot > 0)
            if len(group.rows) > size:
                waiting.append(group.take(slice(size, None)))
                group = group.take(slice(0, size))

            unfinished = self._one_stage(group)
            if unfinished is not None:
                waiting.append(unfinished)

    def _one_stage(self, group: _Group) -> _Group | None:
        """Bring a group through its stage, and return the rows that go on to the next, if any."""
        stage = self.plan.schedule.stage(group.stage)
        assert stage is not None, "a group waits only for a stage that there is"
        try:
            fresh = self._fresh_values(stage, group)
        except ModelError as error:
            if error.known is not None and len(error.known):
                answered = group.take(slice(0, len(error.known)))
                self._finish(self._answer(stage, answered, error.known))
            raise

        answer = self._answer(stage, group, fresh)
        converged = answer.converged(self.plan.run.tol)
        # a later stage is made only if a row needs it
        if converged.all() or self.plan.schedule.stage(group.stage + 1) is None:
            self._finish(answer)
            return None
        self.finished.add(answer, converged, done=converged)
        evaluations = group.evaluations + len(stage.sources.fresh) * self.game.cost
        return _Group(
            group.rows[~converged],
            group.stage + 1,
            answer.values[~converged],
            evaluations,
            before=answer.estimate.values[~converged],
        )

    def _fresh_values(self, stage: ScheduledStage, group: _Group) -> Tensor:
        """Return the values (r, f, k) of a stage's coalitions that are not known yet."""
        fresh = stage.sources.fresh
        if not len(fresh):
            return group.values[:, :0]
        everyone = len(group.rows) == self.game.rows
        game = self.game.take(slice(None) if everyone else group.rows)
        with self.meter.asking():
            return game(stage.design.coalitions[:, fresh])

    def _answer(self, stage: ScheduledStage, group: _Group, fresh: Tensor) -> Answer:
        """Return a stage's answer, by the values known before and the fresh ones (r, f, k)."""
        values = torch.cat((group.values, fresh), dim=1)[:, stage.sources.source]
        # spread over all rows here: if rows are sorted, the first tell little of the others
        pilot = evenly_spaced(len(values), self.pilot).to(values.device)
        design = self.plan.schedule.settled(group.stage, values[pilot])
        spent = group.evaluations + len(stage.sources.fresh) * self.game.cost
        evaluations = torch.full_like(group.rows, spent)
        with self.meter.solving(len(values), outputs=values.shape[2]):
            return Answer.of(group.rows, design, values, evaluations, group.before)

    def _finish(self, answer: Answer) -> None:
        """Finish all rows of an answer, whether they have converged or not."""
        self.finished.add(answer, answer.converged(self.plan.run.tol), done=EVERYONE)

    # Designs of each row's own

    def _look_and_finish(self, everyone: _Group, look: Look) -> None:
        """Look at the rows, as many at once as memory holds, and finish each with its design."""
        size = self.rows_at_once(0, pilot=self.pilot > 0)
        for start in range(0, len(everyone.rows), size):
            group = everyone.take(slice(start, start + size))
            try:
                self._look_at_group(group, look)
            except ModelError as error:
                self._look_at_rows_before(error, group, look)
                raise

    def _look_at_group(self, group: _Group, look: Look) -> None:
        game = self.game.take(group.rows)
        answer = answer_after_look(game, self.plan.run, look, group.rows, group.values)
        # each group spends the same on each of its rows
        self.look_passes = max(self.look_passes, game.usage.derivative_passes)
        self.meter.solved(len(group.rows))
        self._finish(answer)

    def _look_at_rows_before(self, error: ModelError, group: _Group, look: Look) -> None:
        """Finish the rows of a group before the one that the model failed on.

        They are asked for once more, since every row has a design of its own.
        """
        if error.row is None:
            return
        places = [self.game.place(int(row)) for row in group.rows]
        before = group.take(torch.tensor(places) < error.row)
        if len(before.rows):
            with suppress(ModelError):  # the model may fail on all that it is asked by now
                self._look_at_group(before, look)
