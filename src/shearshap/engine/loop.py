"""The one loop: rows in blocks, each block through the method's stages, one explanation a block.

    run.on(game)                   the method and the budget are settled and checked
    for each block of rows:
        ends                       v(none) and v(all): base value, prediction, number of outputs
        groups of rows, waiting:
            stage 0                ask for what is not known, estimate; rows that are done leave
            stage 1                the others ask for more
            ...
        -> Explanation             of the block; the caller concatenates, saves or sends it

Rows of a block that are at the same stage form a group. Without a tolerance there is one stage and
one group. With one, a group splits: its rows below the tolerance are done, the others wait for the
next stage. A stage with many coalitions may not fit the memory for all rows of a group at once;
then the first rows go all the way before the next ones begin, and memory holds what a few rows
asked for.

A method that looks at rows before it chooses their coalitions (SHEAR) has one stage for each group:
the engine looks, and the design is that group's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.axes import declared
from shearshap.coalitions import EMPTY, FULL, codes
from shearshap.engine.clock import Clock
from shearshap.engine.memory import FIRST_BLOCK, most_rows
from shearshap.engine.run import Run
from shearshap.engine.stages import Schedule
from shearshap.errors import ModelError
from shearshap.explanation import Explanation
from shearshap.game import Ends, Game
from shearshap.interactions.cross import derivative_contribution, second_differences
from shearshap.interactions.fields import Slopes, check_pairs, interaction_fields, slopes
from shearshap.methods import name_of
from shearshap.methods.base import Design, Estimate, Look

LEAST_FREEDOM = 7
"""Degrees of freedom at which a row may stop: of fewer draws, the luckiest rows would stop."""


def explained_blocks(game: Game, run: Run) -> Iterator[Explanation]:
    """Yield the explanations of a game's rows, block by block, in their order.

    After the run's deadline no further block is begun; a warning says how many rows are left.
    """
    run = run.on(game)
    clock = Clock(run.deadline)
    schedule = _schedule(game, run)
    pilot = run.method.pilot_rows
    done = 0
    size = max(FIRST_BLOCK, pilot)  # the pilot rows must be in one block: they are fitted together
    while done < game.rows and size:
        block = _Block.begun(game.take(slice(done, done + size)), run, schedule, pilot)
        explanation = block.explanation()
        done += len(explanation)
        pilot = 0
        size = clock.allowed(replace(block, pilot=0).most_rows(0), done)
        if not size and done < game.rows:
            explanation = replace(explanation, notes=(clock.warning(done, game.rows, "rows"),))
        yield explanation


def _schedule(game: Game, run: Run) -> Schedule:
    """Return the stages that rows share; none for a method that looks at rows first."""
    if run.method.look(game) is not None:
        return Schedule(run.method, iter(()))
    rng = np.random.default_rng(run.seed)
    stages = run.method.stages(game, run.coalitions(game), rng, stops=run.stops)
    schedule = Schedule(run.method, stages)
    first = schedule.stage(0)  # raises, if at all, before anything is spent
    assert first is not None, "a method has at least one stage"
    if run.interactions:
        check_pairs(first.design.coalitions)
    return schedule


@dataclass(frozen=True)
class _Group:
    """Rows of a block that are at the same stage."""

    rows: Tensor  #: (r,) their numbers in the block
    stage: int
    values: Tensor  #: (r, c, k) at the stage before; at first the two ends
    evaluations: int  #: spent on each of them so far

    def take(self, rows: slice | Tensor) -> "_Group":
        """Return the group of some of its rows."""
        return replace(self, rows=self.rows[rows], values=self.values[rows])


@dataclass
class _Block:
    """A block of rows on their way through the stages."""

    game: Game
    run: Run
    schedule: Schedule
    pilot: int  #: how many of the first rows a calibration is fitted to
    ends: Ends
    slopes: Slopes | None  #: cross-contribution by derivatives, where interactions are wanted
    fields: dict[str, Tensor] = field(default_factory=dict)  #: of the rows that are done, (r, ...)
    derivative_passes: int = 0  #: spent on each row by looks

    @classmethod
    def begun(cls, game: Game, run: Run, schedule: Schedule, pilot: int) -> "_Block":
        """Ask for the two ends of every row, and for derivatives where they are wanted."""
        ends = game.ends()
        known = slopes(game) if run.interactions else None
        return cls(game, run, schedule, pilot, ends, known)

    @property
    def outputs(self) -> int:
        """The number of outputs k."""
        return self.ends.values.shape[2]

    def explanation(self) -> Explanation:
        """Bring all rows through the stages, and return what came of them."""
        rows = torch.arange(self.game.rows, device=self.game.device)
        ends = _Group(rows, 0, self.ends.values, 2 * self.game.cost)
        look = self.run.method.look(self.game)
        if look is None:
            self._through_stages(ends)
        else:
            self._after_look(ends, look)
        return self._explanation()

    def most_rows(self, number: int) -> int:
        """Return how many rows a stage can work on at once."""
        stage = self.schedule.stage(number)
        coalitions = self._looked_coalitions() if stage is None else stage.coalitions
        return most_rows(self.game, coalitions, self.outputs, pilot=self.pilot > 0)

    # Stages that rows share

    def _through_stages(self, ends: _Group) -> None:
        """Bring rows through the stages, the first rows all the way before the next ones begin."""
        waiting = [ends]
        while waiting:
            group = waiting.pop()
            size = self.most_rows(group.stage)
            if len(group.rows) > size:
                waiting.append(group.take(slice(size, None)))
                group = group.take(slice(0, size))
            more = self._one_stage(group)
            if more is not None:
                waiting.append(more)

    def _one_stage(self, group: _Group) -> _Group | None:
        """Ask for what a stage needs, keep the rows that are done, and return the others."""
        stage = self.schedule.stage(group.stage)
        assert stage is not None, "a group waits only for a stage that there is"
        values = group.values
        if len(stage.sources.fresh):
            fresh = stage.design.coalitions[:, stage.sources.fresh]
            values = torch.cat((values, self.game.take(group.rows)(fresh)), dim=1)
        values = values[:, stage.sources.source]
        evaluations = group.evaluations + len(stage.sources.fresh) * self.game.cost

        design = self.schedule.settled(group.stage, values[group.rows < self.pilot])
        estimate = design.estimate(values)
        converged = self._converged(estimate)
        more_stages = not converged.all() and self.schedule.stage(group.stage + 1) is not None
        done = converged if more_stages else torch.ones_like(converged)
        spent = torch.full_like(group.rows, evaluations)
        self._keep(group.rows, done, design, values, estimate, converged, spent)
        if not more_stages:
            return None
        return _Group(group.rows[~done], group.stage + 1, values[~done], evaluations)

    def _converged(self, estimate: Estimate) -> Tensor:
        """Return which rows' standard errors are at most the tolerance, (r,)."""
        errors = estimate.standard_errors
        too_few = estimate.degrees_of_freedom < LEAST_FREEDOM
        if self.run.tol is None or errors is None or too_few:
            return torch.zeros_like(estimate.values[:, 0, 0], dtype=torch.bool)
        return errors.flatten(1).amax(dim=1) <= self.run.tol

    # Designs of each row's own

    def _looked_coalitions(self) -> int:
        """Return the most coalitions that a row's own design may have."""
        players = self.game.players
        return min(self.run.coalitions(self.game), players << players)

    def _after_look(self, ends: _Group, look: Look) -> None:
        """Look at rows, design for them, and ask for what the look did not show."""
        size = self.most_rows(0)
        for start in range(0, len(ends.rows), size):
            group = ends.take(slice(start, start + size))
            game = self.game.take(group.rows)
            eta, seen = _looked(game, look, group.values)
            rng = np.random.default_rng(self.run.seed)  # the same draws for all rows
            coalitions = self.run.coalitions(self.game)
            design = self.run.method.design_after(self.game, coalitions, rng, eta)
            if self.run.interactions:
                check_pairs(design.coalitions)
            values, asked = _values_by_row(game, design, seen)
            spent = (asked + seen.values.shape[1]) * self.game.cost
            self.derivative_passes = max(self.derivative_passes, game.usage.derivative_passes)
            every = torch.ones_like(group.rows, dtype=torch.bool)
            estimate = design.estimate(values)
            self._keep(group.rows, every, design, values, estimate, ~every, spent)

    # What is kept

    def _keep(
        self,
        rows: Tensor,
        done: Tensor,
        design: Design,
        values: Tensor,
        estimate: Estimate,
        converged: Tensor,
        evaluations: Tensor,
    ) -> None:
        """Keep what came of the rows that are done, and what else their values show."""
        kept = estimate_fields(estimate, values)
        kept |= {"converged": converged, "row_evaluations": evaluations}
        freedom = values.new_full((len(rows),), estimate.degrees_of_freedom)
        kept["degrees_of_freedom"] = freedom
        if not done.all():
            kept = {name: part[done] for name, part in kept.items()}
        if not len(kept["values"]):
            return
        rows = rows[done]
        if self.run.interactions:
            own = design.coalitions if len(design.coalitions) == 1 else design.coalitions[done]
            known = None if self.slopes is None else self.slopes.take(rows)
            kept |= interaction_fields(own, values[done], kept["values"], known, design.calibration)
        for name, part in kept.items():
            if name not in self.fields:
                self.fields[name] = part.new_empty((self.game.rows, *part.shape[1:]))
            self.fields[name][rows] = part

    def _explanation(self) -> Explanation:
        arrays: dict[str, Any] = {name: part.cpu().numpy() for name, part in self.fields.items()}
        if self.ends.single:
            arrays |= _without_outputs(arrays)
        if not np.isfinite(arrays["standard_errors"]).any():
            arrays["standard_errors"] = None
        evaluations = arrays["row_evaluations"]
        if self.run.tol is None:
            del arrays["converged"]
            if (evaluations == evaluations[0]).all():
                del arrays["row_evaluations"]
        return Explanation(
            **{**arrays, "degrees_of_freedom": float(arrays["degrees_of_freedom"].min())},
            evaluations=int(evaluations.max()),
            derivative_passes=self.game.usage.derivative_passes + self.derivative_passes,
            method=name_of(self.run.method),
            seed=self.run.seed,
            calibration=self.schedule.calibration,
        )


def _without_outputs(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays that have an axis of outputs, of which there is one, without that axis."""
    letters = {name: own.letters for name, own in declared(Explanation).items()}
    return {name: part[..., 0] for name, part in arrays.items() if "k" in letters.get(name, "")}


def estimate_fields(estimate: Estimate, values: Tensor) -> dict[str, Tensor]:
    """Return the fields of an explanation that an estimate and its values (r, c, k) make.

    Standard errors that are unknown, or that overflow, are infinite.
    """
    phi = estimate.values
    if not bool(torch.isfinite(phi).all()):
        raise ModelError(
            "the model's outputs are so large that their Shapley values are not finite; "
            "rescale the model's output"
        )
    if estimate.standard_errors is None:
        errors = torch.full_like(phi, inf)
    else:
        errors = estimate.standard_errors.nan_to_num(nan=inf, posinf=inf)
    parts = {
        "values": phi,
        "base_values": values[:, EMPTY],
        "predictions": values[:, FULL],
        "standard_errors": errors,
    }
    # copies, as a view would keep all values alive
    return {name: part.clone(memory_format=torch.contiguous_format) for name, part in parts.items()}


@dataclass(frozen=True)
class _Seen:
    """Coalition values that a look has shown, the ends included."""

    keys: Tensor  #: (c,)
    values: Tensor  #: (r, c, k)


def _looked(game: Game, look: Look, ends: Tensor) -> tuple[Tensor, _Seen]:
    """Return every row's cross-contribution (r, p, p), and the coalition values seen on the way.

    `ends` (r, 2, k) are known, and not asked for again.
    """
    bounds = torch.zeros((2, game.players), dtype=torch.bool, device=game.device)
    bounds[FULL] = True
    if look.coalitions is None:
        return derivative_contribution(game, look.kind), _Seen(codes(bounds), ends)
    # the first coalition that second differences need is the full one
    without_full = look.coalitions[:, 1:]
    values = game(without_full)
    eta = second_differences(torch.cat((ends[:, FULL, None], values), dim=1), game.players)
    keys = torch.cat((codes(bounds), codes(without_full[0])))
    return eta, _Seen(keys, torch.cat((ends, values), dim=1))


def _values_by_row(game: Game, design: Design, seen: _Seen) -> tuple[Tensor, Tensor]:
    """Return the values (r, c, k) of designs (r, c, p), and how many each row asked for, (r,)."""
    coalitions = design.coalitions
    rows = len(coalitions)
    if len(seen.keys) == 2:  # only the ends are known, and they come first
        values = torch.cat((seen.values, game(coalitions[:, 2:])), dim=1)
        asked = torch.full((rows,), coalitions.shape[1] - 2, device=values.device)
        return values, asked

    order = seen.keys.argsort()
    keys = codes(coalitions.flatten(0, 1)).unflatten(0, coalitions.shape[:2])
    place = torch.searchsorted(seen.keys[order], keys).clamp_max(len(order) - 1)
    column = order[place]
    missing = seen.keys[column] != keys
    values = seen.values.gather(1, column[..., None].expand(-1, -1, seen.values.shape[2]))
    if missing.any():  # few players have no more coalitions than a look shows
        row, which = missing.nonzero(as_tuple=True)
        values[row, which] = game.each(row, coalitions[row, which])
    return values, missing.sum(dim=1)
