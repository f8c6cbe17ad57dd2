"""Blocks of rows by sampling: any model is a game, whose coalition values are asked for.

A block is explained in these steps:

    group the rows         by about how many players are not null             games/active.py
    plan each group        the coalitions that its rows share, stage by stage         plan.py
    evaluate the ends      v(none), v(all): base value, prediction, number of outputs
    finish each group      its rows go through the stages of the plan
        stage 0            evaluate the coalitions that are not known, and estimate;
                           rows that are precise enough are finished               results.py
        stage 1            evaluate more for the other rows
        ...

Most rows have no null players: then a block is one group. A method that screens rows first, such
as SHEAR, has no stages: each row has its own design.

Without a tolerance there is one stage. Before a deadline the first rows go through stages too: what
a stage takes shows whether there is time for the next, and rows keep what the last one found.

With a tolerance, rows that are at the same stage wait on a
stack. Let there be six rows, and memory for two at a time from stage 1 on; "0-5:0" stands for the
rows 0 to 5, which wait for stage 0:

    waiting, the top at the right    what happens
    0-5:0                            stage 0 finishes the rows 1 and 4
    0,2,3,5:1                        too many for memory: cut in two
    3,5:1   0,2:1                    stage 1 finishes row 0
    3,5:1   2:2                      stage 2 is the last: it finishes row 2
    3,5:1                            ...

So the first rows go all the way before the next ones begin, and memory holds the values of a few
rows only.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.loop import Clock, ResultBuffer, RowProgress, blocks_of
from shearshap.engine.plan import Plan, PlannedStage, Plans, Seconds, max_rows, threads_for
from shearshap.engine.results import EVERYONE, FinishedRows, StageEstimate
from shearshap.engine.run import Run
from shearshap.errors import STOPS, keep_finished, warn
from shearshap.games.active import ActiveGame
from shearshap.games.batches import OutOfTime
from shearshap.games.game import BatchedGame, CoalitionValues, Game, coalition_count
from shearshap.games.marginal import ModelGame
from shearshap.games.paired import PairedGame
from shearshap.interactions.indices import check_pairs
from shearshap.methods import Exact, name_of
from shearshap.methods.base import Screening
from shearshap.methods.kriging.pairs import evenly_spaced
from shearshap.result.explanation import NO_ERRORS, Explanation

FIRST_BLOCK = 16
"""Rows of the first block, at least."""

FITS_LEFT = 16
"""Refit a calibration to more rows if the time left is this many times that of a fit."""

WITHOUT_ERRORS = (
    "There are no standard errors: the error from drawing absent features is not known for a loss, "
    "nor for interactions with fewer than 4 samples."
)


def explained_blocks(
    game: Game, run: Run, progress: RowProgress | None = None, noun: str = "row"
) -> Generator[Explanation]:
    """Yield the explanations of a game's rows, block by block; their index is rows' numbers."""
    clock = Clock(run.deadline, noun)
    progress = progress or RowProgress()
    solver = Sampling(game, run, progress=progress)
    with progress.over(solver.rows, noun):
        yield from blocks_of(solver, clock, tol=run.tol, at_once=run.at_once, progress=progress)


class Sampling:
    """The solver for any game.

    `plans` are those of an earlier solver of such a game and run, whose model has been checked.
    `note` says why the values are estimates: it is added to blocks that are not exact. `checks` is
    the number of evaluations that have checked the model before.
    """

    def __init__(
        self,
        game: Game,
        run: Run,
        *,
        plans: Plans | None = None,
        progress: RowProgress | None = None,
        note: str | None = None,
        checks: int = 0,
    ) -> None:
        self.game = game
        self.plans = plans or Plans(game, run)
        self.note = note
        self.checks = checks
        # the pilot rows are all in the first block, since a calibration is fitted to them together
        self.rows_at_once = max(FIRST_BLOCK, self.plans.resolved.method.pilot_rows)
        budget = self.plans.resolved.budget
        if progress is not None and budget is not None:
            progress.expect(min(budget, game.cost * coalition_count(game)))

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.game.rows

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of a block; its index is the rows' numbers."""
        if isinstance(self.game, BatchedGame):
            clock.bound(self.game.batch)
        block = _Block(self.game.take(rows), self.plans, rows.start, clock)
        self.checks += block.game.usage.checks
        try:
            for group in block.groups:
                group.finish()
        except STOPS as error:
            if block.has_finished:
                keep_finished(error, self._explanation(block, buffer))
            raise
        if not block.has_finished:
            raise OutOfTime(block.ends.values[:0])
        self.rows_at_once = min(group.rows_at_once(0, pilot=False) for group in block.groups)
        if self.plans.resolved.method.screening(self.game) is not None:
            self.rows_at_once = min(self.rows_at_once, rows.stop)  # see `BackgroundSampling`
        return self._explanation(block, buffer)

    def _explanation(self, block: "_Block", buffer: ResultBuffer) -> Explanation:
        fields = block.fields(buffer)
        game = self.game
        if isinstance(game, ModelGame) and game.sampler and game.cost > 1 and game.parts == 1:
            _forget_errors(fields)
            fields["notes"] += (WITHOUT_ERRORS,)
        elif fields["standard_errors"] is None:
            fields["notes"] += self._missing_errors()
        # all coalitions make exact values too
        if self.note is not None and fields["method"] != name_of(Exact()):
            fields["notes"] += (self.note,)
        return Explanation(**fields, check_evaluations=self.checks)

    def _missing_errors(self) -> tuple[str, ...]:
        """Return the note that there are no error bars; warn if a larger budget would show them."""
        run = self.plans.resolved
        needed = self.plans.errors_from
        name = name_of(run.method)
        if isinstance(self.game, PairedGame):  # the mean of the pairs may have them
            return ()
        if needed is None:
            return (f"{NO_ERRORS}: {name} has no standard errors; try method='kriging'.",)
        if run.budget is None or run.budget >= needed:  # a deadline has cut it short
            return (f"{NO_ERRORS}: too few coalitions were evaluated.",)
        note = (
            f"{NO_ERRORS}: {name} has standard errors from about {needed:,} evaluations a row on, "
            f"got {run.budget:,}; pass budget={needed} or more."
        )
        warn(note)
        return (note,)


def _forget_errors(fields: dict[str, Any]) -> None:
    """Say in the fields of an explanation that its errors are not known."""
    fields["standard_errors"] = None
    for name in ("interaction_errors", "set_errors"):
        if fields.get(name) is not None:
            fields[name] = np.full_like(fields[name], inf)


class _Block:
    """A block of rows: its groups, and the two ends of all rows, compared with the model."""

    def __init__(self, game: Game, plans: Plans, first_row: int, clock: Clock) -> None:
        # plans are made first: if that fails, nothing has been spent yet
        parts = _parted(game, plans)
        planned = [(own, plans.of(own, clock.first_half()), members) for own, members in parts]
        self.game = game
        self.plans = plans
        self.first_row = first_row  #: its number in the whole
        self.ends = game.ends()
        self.groups = [
            RowGroup(own, plan, self.ends.values, members, clock) for own, plan, members in planned
        ]
        if clock.has_time():
            compare_with_model(game, self.ends, plans)

    @property
    def has_finished(self) -> bool:
        """Whether any of its rows are finished."""
        return any(bool(group.finished.done.any()) for group in self.groups)

    def fields(self, buffer: ResultBuffer) -> dict[str, Any]:
        """Return what an explanation has of the rows that are finished, with arrays in a buffer."""
        finished = self._finished()
        run = self.plans.resolved
        fields = finished.arrays(buffer, self.first_row, single=self.ends.single, run=run)
        used = [group.plan.run.method for group in self.groups]
        notes = dict.fromkeys(method.note for method in used if method.note is not None)
        return fields | {
            "notes": (*fields["notes"], *notes),
            "index": self.first_row + np.flatnonzero(finished.done.cpu().numpy()),
            "derivative_passes": max(group.derivative_passes for group in self.groups),
            "method": ", ".join(dict.fromkeys(name_of(method) for method in used)),
            "seed": run.seed,
            "calibration": self.plans.calibration,
            **run.index_names,
        }

    def _finished(self) -> FinishedRows:
        """Return the rows of all groups that are finished."""
        first = self.groups[0]
        if first.members is None:
            return first.finished
        every = FinishedRows(self.game, self.plans.resolved, whole=True)
        for group in self.groups:
            assert isinstance(group.game, ActiveGame)
            assert group.members is not None
            if group.finished.done.any():
                every.merge(group.finished, group.members, group.game)
        return every


def compare_with_model(game: Game, ends: CoalitionValues, plans: Plans) -> None:
    """Warn if a block's predictions are not the model's own."""
    warning = game.consistency_warning(ends, first=not plans.checked)
    plans.checked = True
    if warning is not None:
        warn(warning)


def _parted(game: Game, plans: Plans) -> list[tuple[Game, Tensor | None]]:
    """Return the game and the members of each group of a block: rows of equally many players.

    The members (n,) are numbers of rows in the block; None: all of them, with all players.
    """
    active = game.active_players() if plans.requested.drop_null else None
    if active is None or game.structure is not None:  # groups would differ from row to row
        return [(game, None)]
    assert isinstance(game, ModelGame)

    # a row without active players gets one: its value is prediction - base value, which is 0
    active[:, 0] |= ~active.any(dim=1)
    playing = plans.padded_player_counts(game).to(active.device)[active.sum(dim=1)]
    groups: list[tuple[Game, Tensor | None]] = []
    for count in playing.unique().tolist():
        members = (playing == count).nonzero()[:, 0]
        groups.append((ActiveGame.of(game.take(members), active[members], count), members))
    return groups


@dataclass(frozen=True)
class _Waiting:
    """Rows of a group that wait for the same stage."""

    rows: Tensor  #: (r,) their numbers in the group
    stage: int  #: the number of the stage that they wait for
    values: Tensor  #: (r, c, k) of the stage before; at first of the two ends
    evaluations: int  #: spent on each of them so far
    before: Tensor | None = None  #: (r, p, k), their Shapley values at the stage before

    def take(self, which: slice | Tensor) -> "_Waiting":
        """Return some of the rows."""
        before = None if self.before is None else self.before[which]
        return replace(self, rows=self.rows[which], values=self.values[which], before=before)


class RowGroup:
    """Rows of a block with equally many players, on their way through the stages of their plan."""

    def __init__(
        self, game: Game, plan: Plan, ends: Tensor, members: Tensor | None, clock: Clock
    ) -> None:
        self.game = game
        self.clock = clock
        self.plan = plan
        self.members = members  #: (r,) its rows' numbers in the block; None: all rows
        #: (r, 2, k) the values of the empty and the full coalition, from those of all rows
        self.ends = ends if members is None else ends[members]
        self.pilot = plan.next_pilot()  #: how many of the rows a calibration is fitted to
        self.finished = FinishedRows(game, plan.run)
        self.screening_passes = 0  #: passes for derivatives that screening spent on each row

    @property
    def derivative_passes(self) -> int:
        """Passes for derivatives spent on each row."""
        return self.game.usage.derivative_passes + self.screening_passes

    def finish(self) -> None:
        """Finish all rows; if the model fails, or time is up, those before."""
        rows = torch.arange(self.game.rows, device=self.game.device)
        everyone = _Waiting(rows, 0, self.ends, 2 * self.game.cost)
        screening = self.plan.run.method.screening(self.game)
        if screening is None:
            self._go_through_stages(everyone)
            if not self.plan.run.stops:
                self.plan.join_stages()
            return
        size = self.rows_at_once(0, pilot=False)
        try:
            for start in range(0, len(rows), size):
                self._screen_and_finish(everyone.take(slice(start, start + size)), screening)
        except OutOfTime:
            self.clock.stopped = True

    def rows_at_once(self, stage: int, *, pilot: bool) -> int:
        """Return how many rows memory holds at a stage."""
        planned = self.plan.stage(stage)
        if planned is not None:
            coalitions = len(planned.keys)
        else:
            # a design of a row's own: SHEAR has up to 2^p coalitions for each of p players
            every = self.game.players << self.game.players
            coalitions = min(self.plan.run.coalitions(self.game), every)
        return max_rows(self.game, coalitions, self.ends.shape[2], pilot=pilot)

    # Stages that all rows share

    def _go_through_stages(self, everyone: _Waiting) -> None:
        """Bring all rows through the stages, the first all the way before the next begin."""
        stack = [everyone]
        while stack:
            waiting = stack.pop()
            size = self.rows_at_once(waiting.stage, pilot=self.pilot > 0)
            size = min(size, self._affordable_rows(waiting))
            if not size:
                self._leave(waiting)
                continue
            if len(waiting.rows) > size:
                stack.append(waiting.take(slice(size, None)))
                waiting = waiting.take(slice(0, size))

            unfinished = self._one_stage(waiting)
            if unfinished is not None:
                stack.append(unfinished)

    def _affordable_rows(self, waiting: _Waiting) -> int:
        """Return how many rows there is time for at their stage, and 0 if the next must not begin.

        The first stage of the first row is begun in any case.
        """
        count = len(waiting.rows)
        if self.clock.deadline is None or not (waiting.stage or self.clock.done):
            return count
        left = self.clock.left
        expected = self.plan.expected_seconds(waiting.stage)
        a_row = expected.evaluating + expected.solving
        return int(min(max(left - expected.fitting, 0) / max(a_row, 1e-9), count))

    def _leave(self, waiting: _Waiting) -> None:
        """Stop rows at the deadline; keep the last estimate, if there is one."""
        if waiting.stage:
            self.clock.cut = True
        else:
            self.clock.stopped = True

    def _one_stage(self, waiting: _Waiting) -> _Waiting | None:
        """Bring rows through their stage, and return those that go on to the next, if any."""
        stage = self.plan.stage(waiting.stage)
        assert stage is not None, "rows wait only for a stage that there is"
        started = self.clock.now()
        try:
            if len(stage.fresh):
                everyone = len(waiting.rows) == self.game.rows
                game = self.game.take(slice(None) if everyone else waiting.rows)
                fresh = game(stage.design.coalitions[:, stage.fresh])
            else:
                fresh = waiting.values[:, :0]
        except OutOfTime as late:
            fresh = late.known
            self._leave(waiting.take(slice(len(fresh), None)))
            if not len(fresh):
                return None
            waiting = waiting.take(slice(0, len(fresh)))
        except STOPS as error:
            known = vars(error).get("known")
            if known is not None and len(known):
                answered = waiting.take(slice(0, len(known)))
                self._finish(self._estimate(stage, answered, known))
            raise

        evaluating = (self.clock.now() - started) / len(waiting.rows)
        made = self._estimate(stage, waiting, fresh, evaluating)
        converged = made.converged(self.plan.run.tol)
        # a later stage is made only if a row needs it
        if converged.all() or self.plan.stage(waiting.stage + 1) is None:
            self.finished.add(made, converged, done=EVERYONE)
            return None
        # if time is up before the next stage, rows have what this one has found
        has_deadline = self.clock.deadline is not None
        self.finished.add(made, converged, done=EVERYONE if has_deadline else converged)
        return _Waiting(
            waiting.rows[~converged],
            waiting.stage + 1,
            made.values[~converged],
            made.evaluations,
            before=made.estimate.values[~converged],
        )

    def _estimate(
        self, stage: PlannedStage, waiting: _Waiting, fresh: Tensor, evaluating: float = 0.0
    ) -> StageEstimate:
        """Return a stage's estimate, by the values known before and the fresh ones (r, f, k).

        `evaluating` is how many seconds these took for a row.
        """
        values = torch.cat((waiting.values, fresh), dim=1)[:, stage.source]
        # spread over all rows here: if rows are sorted, the first say little about the others
        pilot = evenly_spaced(len(values), self.pilot).to(values.device)
        spent = waiting.evaluations + len(stage.fresh) * self.game.cost
        if stage.pilot_rows and self.clock.left < FITS_LEFT * stage.seconds.fitting:
            pilot = pilot[:0]  # no time to fit again, to more rows
        if not self.clock.has_time():
            pilot = pilot[:0]
        started = self.clock.now()
        with threads_for(len(stage.keys)):
            design = self.plan.calibrated_design(waiting.stage, values[pilot])
            fitted = self.clock.now()
            made = StageEstimate.of(waiting.rows, design, values, spent, waiting.before)
        solving = (self.clock.now() - fitted) / len(values)
        stage.seconds = Seconds(evaluating, solving, max(fitted - started, stage.seconds.fitting))
        return made

    def _finish(self, made: StageEstimate) -> None:
        """Finish all rows of an estimate, whether they have converged or not."""
        self.finished.add(made, made.converged(self.plan.run.tol), done=EVERYONE)

    # Designs of each row's own

    def _screen_and_finish(self, waiting: _Waiting, screening: Screening) -> None:
        """Screen some rows, make the design of each, and finish them."""
        run = self.plan.run
        game = self.game.take(waiting.rows)
        rng = np.random.default_rng(run.seed)  # the same draws for all rows
        eta = screening.at(game, waiting.values, run.coalitions(game), rng)
        with threads_for(run.coalitions(game)):
            design = run.method.design_for(game, run.coalitions(game), rng, eta)
        if run.interactions:
            check_pairs(design.coalitions)

        values = waiting.values
        if design.coalitions.shape[1] > 2:
            values = torch.cat((values, game(design.coalitions[:, 2:])), dim=1)
        # all groups spend the same on each of their rows
        self.screening_passes = max(self.screening_passes, game.usage.derivative_passes)
        spent = 2 * game.cost + game.usage.evaluations
        with threads_for(values.shape[1]):
            made = StageEstimate.of(waiting.rows, design, values, spent)
        self._finish(made)
