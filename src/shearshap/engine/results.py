"""Rows that are finished: what came of them, gathered for the block's explanation.

The rows of a block finish at different stages. Each field of the explanation is one tensor for all
rows of the block, and a row's entries are set when the row finishes:

    row                    0    1    2    3    4
    finished at stage 0         x              x
    finished at stage 1    x              x
    finished at stage 2              x
"""

from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.loop import ResultBuffer
from shearshap.engine.run import Run
from shearshap.errors import STOPS, ModelError, keep_finished, say_finished, warn
from shearshap.games.active import ActiveGame, widened, without_null
from shearshap.games.coalitions import EMPTY, FULL, are_all
from shearshap.games.game import Game
from shearshap.games.indices import SHAPLEY
from shearshap.games.marginal import ModelGame
from shearshap.interactions.cross import derivative_cross
from shearshap.interactions.indices import interaction_fields
from shearshap.methods import Exact, name_of
from shearshap.methods.base import Design, Estimate
from shearshap.methods.standard_errors import (
    ROUNDING,
    TIED,
    all_alike,
    least_errors,
    within,
)
from shearshap.models.base import Outputs, all_finite
from shearshap.result.axes import declared
from shearshap.result.explanation import Explanation, join

EVERYONE = slice(None)

ERRORS = {
    "values": "standard_errors",
    "interactions": "interaction_errors",
    "set_values": "set_errors",
}
"""Fields of numbers, and those of their standard errors."""

ALL_ALIKE = (
    "all evaluated coalitions of some rows had the same value, which does not show how far off "
    "their Shapley values may be: their standard errors are infinite; try a larger budget"
)

MIN_DEGREES_OF_FREEDOM = 7
"""Minimum degrees of freedom before a row may stop.

With fewer, standard errors are too often small by chance, and those rows would stop.
"""


@dataclass(frozen=True)
class StageEstimate:
    """The estimate that a design makes from the coalition values of some rows."""

    rows: Tensor  #: (r,) their numbers in the block
    design: Design
    values: Tensor  #: (r, c, k) of the design's coalitions
    evaluations: int  #: spent on each row so far
    estimate: Estimate
    alike: Tensor  #: (r, k), whether one value was all that was seen of many
    before: Tensor | None  #: (r, p, k), the Shapley values at the stage before, if there was one

    @classmethod
    def of(
        cls,
        rows: Tensor,
        design: Design,
        values: Tensor,
        evaluations: int,
        before: Tensor | None = None,
    ) -> "StageEstimate":
        """Return the design's estimate for rows, on each of which so much was spent.

        Standard errors of 0 would say that coalitions that were not seen are like those that were:
        that all are alike, or that the game is additive everywhere.
        """
        estimate = design.estimate(values)
        errors = estimate.standard_errors
        if errors is None or design.complete:
            none = torch.zeros_like(values[:, 0], dtype=torch.bool)
            return cls(rows, design, values, evaluations, estimate, none, before)

        low, high = values.aminmax(dim=1)
        least = least_errors(low, high, *design.coalitions.shape[1:])
        alike = all_alike(low, high)
        rounding = ROUNDING * torch.maximum(low.abs(), high.abs())
        additive = errors.amax(1) <= TIED * least + rounding
        unseen = ~_all_seen(design, (alike | additive).any(dim=1))[:, None]
        errors = torch.where((additive & unseen)[:, None], least[:, None], errors)
        alike &= unseen
        errors = torch.where(alike[:, None], inf, errors)
        estimate = replace(estimate, standard_errors=errors)
        return cls(rows, design, values, evaluations, estimate, alike, before)

    def converged(self, tol: float | None) -> Tensor:
        """Return which rows have standard errors within the tolerance, (r,).

        If standard errors rest on what the method assumes of the game, no value may have moved
        by more than twice the tolerance since the stage before either.
        """
        errors = self.estimate.standard_errors
        freedom = self.estimate.degrees_of_freedom
        if tol is None or errors is None or freedom < MIN_DEGREES_OF_FREEDOM:
            return torch.zeros_like(self.rows, dtype=torch.bool)
        small = within(errors, freedom, tol)
        if not self.design.wants_agreement:
            return small
        if self.before is None:
            return torch.zeros_like(small)
        moves = (self.estimate.values - self.before).abs()
        return small & (moves.flatten(1).amax(dim=1) <= 2 * tol)

    def fields(self) -> dict[str, Tensor]:
        """Return the answer's fields of an explanation, by name, (r, ...) each."""
        freedom = self.values.new_full(self.rows.shape, self.estimate.degrees_of_freedom)
        return {
            **estimate_fields(self.estimate, self.values),
            "row_evaluations": torch.full_like(self.rows, self.evaluations),
            "degrees_of_freedom": freedom,
            "alike": self.alike.any(dim=1),
        }


class FinishedRows:
    """The fields of a block's rows, set as the rows finish."""

    def __init__(self, game: Game, run: Run, *, whole: bool = False) -> None:
        self.count = game.rows
        self.run = run
        self.parts = game.parts if isinstance(game, ModelGame) else 1  #: of draws: see `_joined`
        #: the rows of a whole block are those of its groups, with their fields
        self.cross = derivative_cross(game) if run.interactions and not whole else None
        self.fields: dict[str, Tensor] = {}  #: by name, (r, ...) each
        self.done = torch.zeros(game.rows, dtype=torch.bool, device=game.device)

    def add(self, made: StageEstimate, converged: Tensor, done: Tensor | slice) -> None:
        """Set the fields of those rows of an answer that are done, (r,) of bool, or of all."""
        fields = made.fields() | {"converged": converged}
        rows = made.rows[done]
        if not len(rows):
            return

        finished = {name: part[done] for name, part in fields.items()}
        if self.run.interactions:
            design = made.design
            shared = len(design.coalitions) == 1
            together = interaction_fields(
                design.coalitions if shared else design.coalitions[done],
                made.values[done],
                finished["values"],
                finished["standard_errors"],
                None if self.cross is None else self.cross.take(rows),
                design.calibration,
                self.run.interaction_index,
                self.run.order,
                self.parts,
            )
            for name in together.keys() & {"interaction_errors", "set_errors"}:
                together[name].movedim(-1, 1)[made.alike[done]] = inf
            finished |= together
        if self.parts > 1:
            finished = _joined(finished, self.parts, self.run.tol)
        for name, part in finished.items():
            self._set(name, rows, part)
        self.done[rows] = True

    def merge(self, part: "FinishedRows", rows: Tensor, game: ActiveGame) -> None:
        """Add the finished rows of a game among some players, as rows of a game of all.

        `rows` (n,) are the numbers of the part's rows here.
        """
        done = part.done
        fields = {name: field[done] for name, field in part.fields.items()}
        active = game.active[done]
        if self.run.semivalue == SHAPLEY:
            fields["values"] = without_null(fields["values"], active)
        else:
            fields["values"] = torch.where(active[:, :, None], fields["values"], 0.0)
        errors = fields["standard_errors"]
        fields["standard_errors"] = torch.where(game.active[done][:, :, None], errors, 0.0)

        own = game.own[done]
        for name, field in fields.items():
            wide = widened(field, _letters(name), own, game.game.players, self.run.order)
            self._set(name, rows[done], wide)
        # without standard errors of its players, a row has none for null players either
        without = ~errors.isfinite().flatten(1).any(dim=1)
        self.fields["standard_errors"][rows[done][without]] = inf
        self.done[rows[done]] = True

    def _set(self, name: str, rows: Tensor, part: Tensor) -> None:
        """Set a field of the rows of these numbers (n,), to (n, ...)."""
        if name not in self.fields:
            self.fields[name] = part.new_empty((self.count, *part.shape[1:]))
        self.fields[name][rows] = part

    def arrays(
        self, buffer: ResultBuffer, first_row: int, *, single: bool, run: Run
    ) -> dict[str, Any]:
        """Return the fields of the finished rows as an explanation has them.

        Fields that say nothing are left out.

        `first_row` is the number of the block's first row in the whole, `single` is whether there
        is one output, without an axis of outputs.
        """
        # without a copy in the usual case
        which = slice(None) if self.done.all() else self.done
        fields = {name: part[which] for name, part in self.fields.items()}
        freedom = float(fields.pop("degrees_of_freedom").min())
        alike = bool(fields.pop("alike").any())
        fewest, most = fields["row_evaluations"].aminmax()
        if not run.stops:
            del fields["converged"]
        if fewest == most and not run.in_stages:
            del fields["row_evaluations"]

        # drop empty fields before copying
        has_errors = alike or bool(fields["standard_errors"].isfinite().any())
        if not has_errors:
            del fields["standard_errors"]

        arrays: dict[str, Any] = {
            name: buffer.array(name, part, first_row) for name, part in fields.items()
        }
        if single:  # an axis of outputs has one entry
            arrays |= {name: part[..., 0] for name, part in arrays.items() if "k" in _letters(name)}
        if not has_errors:
            arrays["standard_errors"] = None
        return arrays | {
            "evaluations": int(most),
            "degrees_of_freedom": freedom,
            "notes": (ALL_ALIKE,) if alike else (),
        }


def _joined(fields: dict[str, Tensor], parts: int, tol: float | None) -> dict[str, Tensor]:
    """Return the fields of k outputs, from those of k outputs for each of g parts of the draws.

    Draws of absent features (games/conditional.py) are never all there are. If every coalition is
    evaluated with all of them, the spread over g parts of them shows the error of the mean:

        se^2 = (mean se over parts)^2  +  spread^2 / g
    """
    by_part = {
        name: field.unflatten(-1, (-1, parts))
        for name, field in fields.items()
        if "k" in _letters(name)
    }
    joined = {name: field.mean(dim=-1) for name, field in by_part.items()}
    for name, errors in ERRORS.items():
        if errors in joined:
            spread = by_part[name].var(dim=-1) / parts
            joined[errors] = (joined[errors].square() + spread).sqrt()
    freedom = fields["degrees_of_freedom"].clamp_max(parts - 1)
    small = within(joined["standard_errors"], freedom, tol or 0.0)
    return fields | joined | {"converged": small, "degrees_of_freedom": freedom}


def concatenated(blocks: Generator[Explanation]) -> Explanation:
    """Return all blocks as one explanation; an error on the way holds those finished before."""
    finished: list[Explanation] = []
    # closed at once: an error's traceback would keep them, and the model, as they are
    with closing(blocks):
        try:
            finished.extend(blocks)
        except STOPS as error:
            done = join(finished) if finished else None
            keep_finished(error, done)
            if done is not None:
                say_finished(error, f"finished rows: {len(done):,}")
            raise
    return join(finished)


def without_claims(block: Explanation, outputs: Outputs) -> Explanation:
    """Return a block that claims nothing of its errors if numbers of the model were clipped."""
    warning = outputs.clipping_warning()
    if warning is None:
        return block
    warn(warning)
    names = ("standard_errors", "interaction_errors", "set_errors")
    unknown = {
        name: np.full_like(errors, inf)
        for name in names
        if (errors := getattr(block, name)) is not None
    }
    converged = None if block.converged is None else np.zeros_like(block.converged)
    method = block.method.replace(name_of(Exact()), "all coalitions")
    return replace(block, **unknown, method=method, converged=converged)


def with_notes(explanation: Explanation, notes: Iterable[str]) -> Explanation:
    """Return an explanation with further notes, each once."""
    every = tuple(dict.fromkeys((*explanation.notes, *notes)))
    return explanation if every == explanation.notes else replace(explanation, notes=every)


def _all_seen(design: Design, asked: Tensor) -> Tensor:
    """Return which of the rows asked for, (r,) of bool, have all coalitions in their design."""
    found = torch.zeros_like(asked)
    shared, count, players = design.coalitions.shape
    if count < 1 << players:
        return found
    if shared == 1:
        return asked & are_all(design.coalitions[0])
    for row in asked.nonzero()[:, 0]:
        found[row] = are_all(design.coalitions[row])
    return found


def _letters(name: str) -> str:
    """Return the axes of a field; one that explanations do not have has rows alone."""
    axes = declared(Explanation).get(name)
    return "r" if axes is None else axes.letters


def estimate_fields(estimate: Estimate, values: Tensor) -> dict[str, Tensor]:
    """Return the fields that an estimate and its coalition values (r, c, k) make, by name.

    Standard errors that are unknown, or that overflow, are infinite.
    """
    phi = estimate.values
    if not all_finite(phi):
        raise ModelError(
            "the model's outputs are so large that their Shapley values are not finite; "
            "rescale the model's output"
        )
    if estimate.standard_errors is None:
        errors = torch.full_like(phi, inf)
    else:
        errors = estimate.standard_errors.nan_to_num(nan=inf, posinf=inf)
    return {
        "values": phi,
        "base_values": values[:, EMPTY],
        "predictions": values[:, FULL],
        "standard_errors": errors,
    }
