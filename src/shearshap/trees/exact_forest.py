"""Exact Shapley values of games whose model is a sum of leaves, proved to be so.

read        the trees, and what they see of the rows                          seen_trees.py
compare     model and leaves, at rows, background rows and mixes of both      leaf_outputs.py
prepare     the leaves for the background                                     trees/exact_trees.py
explain     rows, block by block; each block's predictions are compared too
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.clock import Clock, within_time
from shearshap.engine.memory import FIRST_BLOCK
from shearshap.engine.room import Room
from shearshap.engine.run import Run
from shearshap.engine.sampling import NamedGame
from shearshap.errors import BudgetError, ShearWarning, level_of_caller
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.game import Ends, ModelGame
from shearshap.result.explanation import Explanation
from shearshap.trees.exact_trees import ExactTrees
from shearshap.trees.forest import Floats
from shearshap.trees.leaf_outputs import LeafOutputs, Points, leaf_outputs, precision_of
from shearshap.trees.readers.reading import NotTrees
from shearshap.trees.seen_trees import SeenTrees, seen_trees
from shearshap.trees.tree_pairs import SecondDifferences, order_two

METHOD = "exact (trees)"

COMPARED = 32
"""Rows, and background rows, at which model and leaves are compared."""

MIXES = 64
"""Mixes of those rows and background rows, player by player, at which they are compared too."""

BLOCK_BYTES = 1 << 28
"""Memory for what is found out about the rows that are worked on at once."""

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class ExactForest:
    """The trees of a model, proved to be the model, and ready to explain rows of its games.

    It depends on the model, the background and the players: games of other rows can share it.
    """

    seen: SeenTrees
    outputs: LeafOutputs
    trees: ExactTrees
    second_differences: SecondDifferences | None  #: None: interactions are not wanted
    base_value: Floats  #: (k,)
    single: bool  #: whether there is one output, without an axis
    evaluations: int  #: of a row: its prediction, and the base value that it shares with others
    checks: int  #: evaluations by which model and leaves were compared

    @classmethod
    def of(
        cls,
        model: Any,
        named: NamedGame,
        run: Run,
        *,
        rows: int | None = None,
        advance: Advance | None = None,
        device: torch.device | None = None,
    ) -> "ExactForest":
        """Read a model's trees and prepare them; raise `NotTrees` where they are not the model.

        `rows` is how many will come, by default those of the game. `advance` is called with the
        number of trees that are ready. `device` is where tables are looked up.
        """
        game = _silent(named.game)
        _check_budget(run, game)
        seen = seen_trees(model, named.inputs)
        comparison = _Comparison.of(game, seen, np.random.default_rng(run.seed))
        outputs = leaf_outputs(game.predict.outputs, seen.forest, comparison.points)

        background = seen.see(_decoded(game, game.background))
        weights = named.inputs.weights
        players = game.players
        trees = ExactTrees(
            seen.forest,
            seen.owner,
            players,
            background,
            weights,
            rows=game.rows if rows is None else rows,
            interactions=run.interactions,
            advance=advance,
            device=device,
        )
        second = None
        if run.interactions:
            second = SecondDifferences(seen.forest, seen.owner, players, background, weights)
        empty = end_coalitions(players, game.device)[:, [EMPTY]]
        base_value = game.take(slice(0, 1))(empty)[0, 0].double().cpu().numpy()
        return cls(
            seen,
            outputs,
            trees,
            second,
            base_value,
            comparison.single,
            evaluations=game.cost + 1,
            checks=comparison.evaluations,
        )

    def blocks(
        self,
        game: ModelGame,
        run: Run,
        clock: Clock,
        advance: Advance,
        *,
        checked: bool = False,
    ) -> Iterator[Explanation]:
        """Yield the explanations of a game's rows, block by block, in their order.

        Their index is the rows' numbers. Raise `NotTrees` before a block whose predictions are not
        those of the leaves. `advance` is called with the number of rows that are done. `checked`
        says that the model was checked in an earlier call with such a game.
        """
        game = _silent(game)
        room = Room(game.rows if run.at_once and run.deadline is None else None)
        most = self._most_rows(game, interactions=run.interactions)
        size = most if run.deadline is None else FIRST_BLOCK
        done = 0
        while done < game.rows and size:
            explanation = self._block(game.take(slice(done, done + size)), run, room, done)
            if not done and not checked:
                explanation = self._checked(game, explanation)
            done += len(explanation)
            advance(len(explanation))

            size = yield from within_time(explanation, clock, most, done, game.rows)

    def _most_rows(self, game: ModelGame, *, interactions: bool) -> int:
        """Return how many rows to work on at once, at least one."""
        cells = game.players * game.players if interactions else game.players
        cells = cells * sum(self.outputs.matrix.shape) + len(self.seen.owner)
        return max(1, BLOCK_BYTES // (8 * cells))

    def _block(self, game: ModelGame, run: Run, room: Room, first_row: int) -> Explanation:
        """Return the explanation of a block of rows."""
        predictions = _predictions(game)
        seen = self.seen.see(_decoded(game, game.inputs))
        leaves = self.trees.values(seen)
        values = self.outputs(leaves)
        self._compare(predictions, values, first_row)

        fields = {
            "values": values,
            "base_values": np.broadcast_to(self.base_value, predictions.shape).copy(),
            "predictions": predictions,
            "standard_errors": np.zeros_like(values),
        }
        if self.second_differences is not None:
            index = self.outputs(self.trees.interactions(seen))
            fields["interactions"] = order_two(index, values)
            differences = self.outputs(self.second_differences(seen))
            fields["cross_contribution"] = np.abs(differences).sum(axis=3)
        return self._explanation(game, run, fields, room, first_row)

    def _compare(self, predictions: Floats, values: Floats, first_row: int) -> None:
        """Raise where the values of a row do not add up to its prediction, but for rounding."""
        gaps = np.abs(predictions - self.base_value - values.sum(axis=1))
        wrong = np.argwhere(~(gaps <= 2 * self.outputs.allowed))
        if len(wrong):
            row, output = wrong[0]
            raise NotTrees(
                f"at row {first_row + row} its leaves add up to another prediction (by "
                f"{gaps[row, output]:.2g})"
            )

    def _explanation(
        self,
        game: ModelGame,
        run: Run,
        fields: dict[str, Floats],
        room: Room,
        first_row: int,
    ) -> Explanation:
        arrays: dict[str, Any] = {
            name: room.array(name, torch.from_numpy(field), first_row)
            for name, field in fields.items()
        }
        if self.single:
            # a sum over outputs has no axis of them
            arrays |= {
                name: array[..., 0]
                for name, array in arrays.items()
                if name != "cross_contribution"
            }
        rows = game.rows
        if run.stops:
            arrays["converged"] = np.ones(rows, dtype=np.bool_)
            arrays["row_evaluations"] = np.full(rows, self.evaluations, dtype=np.int64)
        return Explanation(
            **arrays,
            index=np.arange(first_row, first_row + rows),
            evaluations=self.evaluations,
            derivative_passes=0,
            method=METHOD,
            seed=run.seed,
        )

    def _checked(self, game: ModelGame, first: Explanation) -> Explanation:
        """Return the first block; warn where its predictions are not the model's own."""
        base_values = torch.from_numpy(first.base_values.reshape(len(first), -1))
        predictions = torch.from_numpy(first.predictions.reshape(len(first), -1))
        ends = torch.stack((base_values, predictions), dim=1).to(game.device)
        doubt = game.doubt(Ends(ends, self.single))
        if doubt is not None:
            warnings.warn(doubt, ShearWarning, stacklevel=level_of_caller())
        return replace(
            first,
            check_evaluations=self.checks + game.usage.checks,
            notes=() if doubt is None else (doubt,),
        )


@dataclass(frozen=True, eq=False)
class _Comparison:
    """A model and its leaves at some points of a game."""

    points: Points
    single: bool
    evaluations: int

    @classmethod
    def of(cls, game: ModelGame, seen: SeenTrees, rng: np.random.Generator) -> "_Comparison":
        """Compare at rows, background rows, and mixes of both.

        What the trees see of a mix is mixed of what they see of a row and of a background row. So
        the comparison proves, too, that every column is made of its owner's inputs alone.
        """
        rows = game.inputs[_some(game.rows, rng)]
        background = game.background[_some(game.cost, rng)]
        row = rng.integers(len(rows), size=MIXES)
        other = rng.integers(len(background), size=MIXES)
        present = rng.random((MIXES, game.players)) < rng.random((MIXES, 1))

        own = torch.from_numpy(present)[:, game.owner.cpu()].to(rows.device)
        mixes = torch.where(own, rows[row], background[other])
        inputs = _decoded(game, torch.cat((rows, background, mixes)))

        seen_rows = seen.see(_decoded(game, rows))
        seen_background = seen.see(_decoded(game, background))
        seen_mixes = np.where(present[:, seen.owner], seen_rows[row], seen_background[other])
        leaves = seen.forest.predict(np.concatenate((seen_rows, seen_background, seen_mixes)))

        count = len(leaves)
        raw = game.predict.adapted.call(inputs)
        explained = game.predict.outputs(raw, count).double().cpu()
        points = Points(leaves, explained.reshape(count, -1).numpy(), precision_of(raw))
        return cls(points, explained.ndim == 1, count)


def _some(count: int, rng: np.random.Generator) -> Tensor:
    """Return some of the numbers below a count, in order."""
    chosen = rng.choice(count, size=min(count, COMPARED), replace=False)
    return torch.from_numpy(np.sort(chosen))


def _decoded(game: ModelGame, inputs: Tensor) -> Any:
    """Return inputs (n, d) as the model takes them."""
    return game.predict.decode(inputs.reshape(-1, *game.shape))


def _predictions(game: ModelGame) -> Floats:
    """Return the model's answers for the rows, (r, k), at one evaluation each."""
    alone = replace(game, background=game.background[:1], weights=None)
    full = end_coalitions(game.players, game.device)[:, [FULL]]
    return np.asarray(alone(full)[:, 0].double().cpu().numpy())


def _silent(game: ModelGame) -> ModelGame:
    """Return the game without a progress bar of its evaluations: it is not what takes the time."""
    return replace(game, advance=lambda _evaluations: None)


def _check_budget(run: Run, game: ModelGame) -> None:
    needed = game.cost + 1
    if run.budget is None or run.budget >= needed:
        return
    error = BudgetError(
        f"{METHOD} needs at least {needed} evaluations a row, one for its prediction and "
        f"{game.cost} for the base value, got {run.budget}"
    )
    error.nearest = needed
    raise error
