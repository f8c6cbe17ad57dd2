"""Blocks of rows by sampling: any model is a game, whose coalition values are asked for.

A block is explained in these steps:

    part the rows          by about how many players are not null             games/active.py
    plan each part         the coalitions that its rows share, stage by stage         plan.py
    ask for the two ends   v(none), v(all): base value, prediction, number of outputs
    finish each part       its rows go through the stages of the plan
        stage 0            ask for the coalitions that are not known, and estimate
                           rows that are precise enough are finished               results.py
        stage 1            the other rows ask for more
        ...

Most rows have no null players: then a block is one part.

Rows of a part that are at the same stage form a group. Without a tolerance there is one stage and
one group. With a tolerance, groups wait on a stack. Let there be six rows, and memory for two at a
time from stage 1 on; "0-5:0" stands for the rows 0 to 5, which wait for stage 0:

    waiting, the top at the right    what happens
    0-5:0                            stage 0 finishes the rows 1 and 4
    0,2,3,5:1                        too many for memory: cut in two
    3,5:1   0,2:1                    stage 1 finishes row 0
    3,5:1   2:2                      stage 2 is the last: it finishes row 2
    3,5:1                            ...

So the first rows go all the way before the next ones begin, and memory holds the values of a few
rows only.
"""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.loop import FIRST_BLOCK, Clock, Room, blocks_of
from shearshap.engine.plan import Plan, Plans, ScheduledStage, most_rows, pilot_rows
from shearshap.engine.progress import RowProgress
from shearshap.engine.results import EVERYONE, Answer, FinishedRows
from shearshap.engine.run import Run
from shearshap.errors import ModelError, ShearWarning, level_of_caller
from shearshap.games.active import ActiveGame
from shearshap.games.coalitions import FULL, codes, end_coalitions
from shearshap.games.game import Ends, Game, ModelGame
from shearshap.interactions.cross import derivative_contribution, second_differences
from shearshap.interactions.fields import check_pairs
from shearshap.methods import Exact, name_of
from shearshap.methods.base import Look
from shearshap.methods.kriging.odd_even import evenly_spaced
from shearshap.result.explanation import Explanation


def explained_blocks(game: Game, run: Run) -> Iterator[Explanation]:
    """Yield the explanations of a game's rows, block by block; their index is rows' numbers."""
    return blocks_of(Sampling(game, run), Clock(run.deadline), at_once=run.at_once)


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
        self.rows_at_once = max(FIRST_BLOCK, pilot_rows(self.plans.settled))
        if progress is not None:
            progress.expect(self.plans.settled.most_evaluations(game))

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.game.rows

    def explain(self, rows: slice, room: Room) -> Explanation:
        """Return the explanation of a block; its index is the rows' numbers."""
        block = _Block.begun(self.game.take(rows), self.plans, first_row=rows.start)
        block.check(first=not self.plans.checked)
        self.plans.checked = True
        self.checks += block.game.usage.checks
        try:
            block.finish()
        except ModelError as error:
            if block.finished.any:
                error.finished = self._explanation(block, room)
            raise
        self.rows_at_once = block.rows_at_once()
        return self._explanation(block, room)

    def _explanation(self, block: "_Block", room: Room) -> Explanation:
        explanation = block.explanation(room)
        notes = explanation.notes
        # all coalitions make exact values too
        if self.note is not None and explanation.method != name_of(Exact()):
            notes = (*notes, self.note)
        return replace(explanation, check_evaluations=self.checks, notes=notes)


@dataclass
class _Block:
    """A block of rows, and its parts."""

    game: Game
    plans: Plans
    first_row: int  #: the number of its first row in the whole
    ends: Ends
    parts: "list[Part]"
    notes: tuple[str, ...] = ()

    @classmethod
    def begun(cls, game: Game, plans: Plans, *, first_row: int) -> "_Block":
        """Part the rows, ask for the two ends of each, and return the block."""
        parted = _parted(game, plans)
        # plans are made first: if that fails, nothing has been spent yet
        planned = [(own, plans.of(own), members) for own, members in parted]
        ends = game.ends()
        parts = [Part.begun(own, plan, ends.values, members) for own, plan, members in planned]
        return cls(game, plans, first_row, ends, parts)

    def check(self, *, first: bool) -> None:
        """Warn if predictions are not the model's own; `first`: no block was checked before."""
        doubt = self.game.doubt(self.ends, first=first)
        if doubt is not None:
            warnings.warn(doubt, ShearWarning, stacklevel=level_of_caller())
            self.notes = (doubt,)

    def finish(self) -> None:
        """Finish all rows; if the model fails, those before."""
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
    pilot: int  #: how many of the rows a calibration is fitted to
    ends: Tensor  #: (r, 2, k) the values of the empty and the full coalition
    finished: FinishedRows
    members: Tensor | None = None  #: (r,) its rows' numbers in the block; None: all rows
    look_passes: int = 0  #: passes for derivatives that looks spent on each row

    @classmethod
    def begun(cls, game: Game, plan: Plan, ends: Tensor, members: Tensor | None) -> "Part":
        """Return the part of a block's members, by the two ends of all rows of the block."""
        finished = FinishedRows.of(game, interactions=plan.run.interactions)
        own = ends if members is None else ends[members]
        return cls(game, plan, plan.next_pilot(), own, finished, members)

    @property
    def derivative_passes(self) -> int:
        """Passes for derivatives spent on each row."""
        return self.game.usage.derivative_passes + self.look_passes

    def finish(self) -> None:
        """Finish all rows; if the model fails, those before."""
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
            coalitions = _most_looked_coalitions(self.game, self.plan.run)
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
        return game(stage.design.coalitions[:, fresh])

    def _answer(self, stage: ScheduledStage, group: _Group, fresh: Tensor) -> Answer:
        """Return a stage's answer, by the values known before and the fresh ones (r, f, k)."""
        values = torch.cat((group.values, fresh), dim=1)[:, stage.sources.source]
        # spread over all rows here: if rows are sorted, the first tell little of the others
        pilot = evenly_spaced(len(values), self.pilot).to(values.device)
        design = self.plan.schedule.settled(group.stage, values[pilot])
        spent = group.evaluations + len(stage.sources.fresh) * self.game.cost
        evaluations = torch.full_like(group.rows, spent)
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
        answer = _answer_after_look(game, self.plan.run, look, group.rows, group.values)
        # each group spends the same on each of its rows
        self.look_passes = max(self.look_passes, game.usage.derivative_passes)
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


# Looks: methods that look at a row before they choose its coalitions, such as SHEAR, have no
# stages that rows share. Every row has a design of its own, and is finished with it:
#
#     look       every row's cross-contributions, by derivatives or from the values of coalitions
#     design     the method's, each row with coalitions of its own
#     values     those that the look has shown already; the others are asked for


@dataclass(frozen=True)
class _SeenValues:
    """Coalition values that are known after a look, those of the two ends first."""

    coalitions: Tensor  #: (c, p)
    values: Tensor  #: (r, c, k)


def _answer_after_look(game: Game, run: Run, look: Look, rows: Tensor, ends: Tensor) -> Answer:
    """Look at a game's rows, design for each, ask for what is not known yet, and estimate.

    `rows` (r,) are the rows' numbers in their block, and `ends` (r, 2, k) the values of the two
    ends.
    """
    eta, seen = _looked(game, look, ends)
    rng = np.random.default_rng(run.seed)  # the same draws for all rows
    design = run.method.design_after(game, run.coalitions(game), rng, eta)
    if run.interactions:
        check_pairs(design.coalitions)

    values, fresh = _values_by_row(game, design.coalitions, seen)
    evaluations = (seen.values.shape[1] + fresh) * game.cost
    return Answer.of(rows, design, values, evaluations)


def _most_looked_coalitions(game: Game, run: Run) -> int:
    """Return the most coalitions that a row's own design may have."""
    # with all the others as cooperators, 2^p coalitions for each of p players
    every = game.players << game.players
    return min(run.coalitions(game), every)


def _looked(game: Game, look: Look, ends: Tensor) -> tuple[Tensor, _SeenValues]:
    """Return what the look shows of every row, (r, ...), and the values seen on the way."""
    both_ends = end_coalitions(game.players, game.device)[0]
    if look.kind == "distance":
        return game.distances(), _SeenValues(both_ends, ends)
    if look.coalitions is None:
        return derivative_contribution(game, look.kind), _SeenValues(both_ends, ends)

    # the full coalition comes first there, and is known
    without_full = look.coalitions[:, 1:]
    values = game(without_full)
    eta = second_differences(torch.cat((ends[:, FULL, None], values), dim=1), game.players)

    coalitions = torch.cat((both_ends, without_full[0]))
    return eta, _SeenValues(coalitions, torch.cat((ends, values), dim=1))


def _values_by_row(game: Game, designs: Tensor, seen: _SeenValues) -> tuple[Tensor, Tensor]:
    """Return the values (r, c, k) of designs (r, c, p), and how many were asked for, (r,).

    With numbers in place of coalitions, and x where a value must be asked for:

        seen       0  7  6  5  3      in columns 0 1 2 3 4, for all rows alike
        row 0      0  7  5  4         columns  0  1  3  x
        row 1      0  7  2  4         columns  0  1  x  x
    """
    rows, count, outputs = seen.values.shape
    designs = designs.expand(rows, -1, -1)
    if count == 2:
        # only the ends are known, and they come first: all else is asked for at once
        values = torch.cat((seen.values, game(designs[:, 2:])), dim=1)
        fresh = torch.full((rows,), designs.shape[1] - 2, device=values.device)
        return values, fresh

    row, place, column = _places_seen(designs, seen.coalitions)
    values = seen.values.new_empty((*designs.shape[:2], outputs))
    values[row, place] = seen.values[row, column]
    missing = torch.ones(designs.shape[:2], dtype=torch.bool, device=values.device)
    missing[row, place] = False
    if missing.any():  # with few players, a look may show all coalitions
        row, place = missing.nonzero(as_tuple=True)
        values[row, place] = game.each(row, designs[row, place])
    return values, missing.sum(dim=1)


def _places_seen(designs: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the row and place of all coalitions of designs (r, c, p) that are seen, and where.

    The last of the three is a coalition's column among those seen, (c', p).
    """
    # few coalitions have a size that was seen: only those get a key, which takes eight bytes
    sizes = designs.sum(dim=2)
    row, place = torch.isin(sizes, seen.sum(dim=1).unique()).nonzero(as_tuple=True)
    keys = codes(designs[row, place])

    seen_keys, order = codes(seen).sort()
    nearest = torch.searchsorted(seen_keys, keys).clamp_max(len(order) - 1)
    known = seen_keys[nearest] == keys
    return row[known], place[known], order[nearest[known]]
