"""Exact Shapley values of games whose model is a sum of leaves, proved to be so.

read        the trees, and what they see of the rows                          model.py
compare     model and leaves, at rows, background rows and mixes of both      proof.py
prepare     the leaves for the background                                     values.py
explain     rows, block by block; each row's prediction, and a mix of it, are compared too
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from shearshap.engine.loop import Room
from shearshap.engine.run import Run
from shearshap.engine.sampling import NamedGame
from shearshap.errors import BudgetError, ModelError, ShearWarning, level_of_caller
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.game import Ends, ModelGame
from shearshap.result.explanation import Explanation
from shearshap.trees.forest import Floats, TreeModel, UnsupportedTrees
from shearshap.trees.model import tree_model
from shearshap.trees.proof import LeafOutputs, Mixes, compared_points, decoded, leaf_outputs
from shearshap.trees.values import ExactTrees, SecondDifferences, order_two

METHOD = "exact (trees)"

PROOFS = 32
"""Mixes of each row, and of each background row, at which an unknown transformer must not mix
columns. If they are at most `MAX_PROOFS`, there are `PAIR_PROOFS` of each pair of the two."""

PAIR_PROOFS = 16
MAX_PROOFS = 1 << 16

PROVED_AT_ONCE = 1 << 12
"""Mixes that are transformed together."""

BLOCK_BYTES = 1 << 28
"""Memory for what is found out about the rows that are worked on at once."""

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class ExactForest:
    """The trees of a model, proved to be the model, and ready to explain rows of its games.

    It depends on the model, the background and the players: games of other rows can share it.
    """

    seen: TreeModel
    outputs: LeafOutputs
    trees: ExactTrees
    second_differences: SecondDifferences | None  #: None: interactions are not wanted
    base_value: Floats  #: (k,)
    single: bool  #: whether there is one output, without an axis
    evaluations: int  #: of a row: its prediction, and the base value that it shares with others

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
        """Read a model's trees and prepare them; raise `UnsupportedTrees` if they are not it.

        `rows` is how many will come, by default those of the game. `advance` is called with the
        number of trees that are ready. `device` is where tables are looked up.
        """
        game = _silent(named.game)
        _check_budget(run, game)
        seen = tree_model(model, named.inputs)
        rng = np.random.default_rng(run.seed)
        points, single = compared_points(game, seen, rng)
        outputs = leaf_outputs(game.predict.outputs, seen.forest, points, rng)

        background = seen.preprocess(decoded(game, game.background))
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
            single,
            evaluations=game.cost + 1,
        )

    def explained(
        self,
        game: ModelGame,
        run: Run,
        room: Room,
        first_row: int,
        rng: np.random.Generator,
    ) -> Explanation:
        """Return the explanation of a block of rows, whose first has a number among all rows.

        Raise `UnsupportedTrees` if its predictions are not those of the leaves.
        """
        seen = self.seen.preprocess(decoded(game, game.inputs))
        self._prove_columns(game, seen, run.seed)
        predictions = self._compared_predictions(game, seen, first_row, rng)
        leaves = self.trees.values(seen)
        values = self.outputs(leaves)
        self._refuse_gaps(predictions - self.base_value - values.sum(axis=1), first_row, "row")

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

    def rows_at_once(self, game: ModelGame, *, interactions: bool) -> int:
        """Return how many rows memory holds at once, at least one."""
        cells = game.players * game.players if interactions else game.players
        cells = cells * sum(self.outputs.matrix.shape) + len(self.seen.owner)
        return max(1, BLOCK_BYTES // (8 * cells))

    def _compared_predictions(
        self, game: ModelGame, seen: Floats, first_row: int, rng: np.random.Generator
    ) -> Floats:
        """Return the rows' predictions (r, k); raise if a mix of a row is not its leaves."""
        rows = game.rows
        # one draw for a row after the other: how rows are split makes no difference
        numbers = rng.random((rows, 1 + game.players))
        mixes = Mixes(
            np.arange(rows),
            (numbers[:, 0] * game.cost).astype(np.int64),
            present=numbers[:, 1:] < 0.5,
        )
        assert game.places is not None
        both = replace(
            game,
            inputs=torch.cat((game.inputs, mixes.inputs(game))),
            places=torch.cat((game.places, game.places)),
        )
        try:
            answers = _predictions(both)
        except ModelError as error:
            _predictions(game)  # raises if it is not for a mix
            raise UnsupportedTrees(f"the model fails on a mix of rows ({error})") from error

        game.usage.checks += rows
        leaves = self.seen.forest.predict(mixes.seen(self.seen, seen, self.trees.background))
        gaps = answers[rows:] - self.outputs.constant - self.outputs(leaves)
        self._refuse_gaps(gaps, first_row, "a mix of row")
        return answers[:rows]

    def _refuse_gaps(self, gaps: Floats, first_row: int, place: str) -> None:
        """Raise if gaps between model and leaves (r, k) are more than rounding."""
        wrong = np.argwhere(~(np.abs(gaps) <= 2 * self.outputs.allowed))
        if len(wrong):
            row, output = wrong[0]
            raise UnsupportedTrees(
                f"at {place} {first_row + row} its leaves add up to another prediction (by "
                f"{abs(gaps[row, output]):.2g})"
            )

    def _prove_columns(self, game: ModelGame, seen: Floats, seed: int) -> None:
        """Raise if a transformer that is not known makes a column of several, at any row."""
        if not self.seen.unknown:
            return
        rng = np.random.default_rng((seed, 2))
        rows = game.rows
        others = game.cost
        of_pairs = min(PAIR_PROOFS * rows * others, MAX_PROOFS)
        count = max(PROOFS * rows, PROOFS * others, of_pairs)
        for start in range(0, count, PROVED_AT_ONCE):
            number = np.arange(start, min(start + PROVED_AT_ONCE, count))
            mixes = Mixes(
                number % rows,
                (number % rows + number // rows) % others,
                present=rng.random((len(number), game.players)) < 0.5,
            )
            mixes.prove_columns(game, self.seen, seen, self.trees.background)

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


class ForestBlocks:
    """The blocks of a game's rows, explained by a forest, in their order.

    `checked` says that the model was checked in an earlier call with such a game.
    """

    def __init__(
        self, forest: ExactForest, game: ModelGame, run: Run, *, checked: bool = False
    ) -> None:
        self.forest = forest
        self.game = _silent(game)
        self.run = run
        self.checked = checked
        self.rows_at_once = forest.rows_at_once(game, interactions=run.interactions)
        self._rng = np.random.default_rng((run.seed, 1))

    def explain(self, rows: slice, room: Room) -> Explanation:
        """Return the explanation of a block, whose index is the rows' numbers.

        Raise `UnsupportedTrees` if its predictions are not those of the leaves.
        """
        usage = self.game.usage
        block = self.game.take(rows)
        try:
            explanation = self.forest.explained(block, self.run, room, rows.start, self._rng)
        except UnsupportedTrees:
            # as many predictions, and the base value, are of no use any more
            usage.checks += 2 * block.usage.checks + (0 if rows.start else self.game.cost)
            raise
        doubt = self._doubt(block, explanation)
        self.checked = True
        usage.checks += block.usage.checks
        notes = () if doubt is None else (doubt,)
        return replace(explanation, check_evaluations=usage.checks, notes=notes)

    def _doubt(self, game: ModelGame, block: Explanation) -> str | None:
        """Warn if the predictions of a block are not the model's own, and return why."""
        base_values = torch.from_numpy(block.base_values.reshape(len(block), -1))
        predictions = torch.from_numpy(block.predictions.reshape(len(block), -1))
        ends = torch.stack((base_values, predictions), dim=1).to(game.device)
        doubt = game.doubt(Ends(ends, self.forest.single), first=not self.checked)
        if doubt is not None:
            warnings.warn(doubt, ShearWarning, stacklevel=level_of_caller())
        return doubt


def _predictions(game: ModelGame) -> Floats:
    """Return the model's answers for the rows, (r, k), at one evaluation each."""
    alone = game.take(background=slice(0, 1))
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
