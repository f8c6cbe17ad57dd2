"""The solver for tree ensembles: exact values from their leaves, if the model is their sum.

    read        the trees, and what they see of the rows                          model.py
    compare     model and leaves, at rows, background rows and mixes of both      proof.py
    prepare     the leaves for the background                                     values.py
    explain     rows, block by block; each row's prediction, and a mix of it, are compared too

If the trees cannot be read, or the model is not their sum, it is sampled like any other, and a
note says why. Absent players come from the background; if the user gave none, they follow the
covers of the nodes (path-dependent values), and the rows serve for the comparison alone.

Linear models have the same solver: see engine/linear.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from shearshap.data.background import MISSING, is_default
from shearshap.data.players import is_linkage, is_nested
from shearshap.engine.backgrounds import sampling
from shearshap.engine.loop import Clock, ResultBuffer, RowProgress, progress_bar
from shearshap.engine.open import NamedGame, open_game
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.sampling import Sampling
from shearshap.errors import BudgetError, InputError, ModelError, ShearError, warn
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.game import CoalitionValues
from shearshap.games.indices import SHAPLEY, Index, interaction_index
from shearshap.games.marginal import ModelGame
from shearshap.interactions.indices import check_order, k_sii, pair_matrix
from shearshap.models.base import MARGINS
from shearshap.models.sklearn import has_margins
from shearshap.result.explanation import Explanation
from shearshap.trees.forest import Floats, Forest, NotASum, UnsupportedTrees
from shearshap.trees.model import has_trees, is_boosted, tree_model
from shearshap.trees.proof import (
    LeafOutputs,
    Mixes,
    SumModel,
    compared_points,
    decoded,
    leaf_outputs,
)
from shearshap.trees.values import ExactTrees

METHOD = "exact (trees)"

COVERS = "the training data, as counted in the trees"
"""The background of path-dependent values, in words."""

PROOFS = 32
"""Mixes of each row, and of each background row, at which an unknown transformer must not mix
columns. If they are at most `MAX_PROOFS`, there are `PAIR_PROOFS` of each pair of the two."""

PAIR_PROOFS = 16
MAX_PROOFS = 1 << 16

PROVED_AT_ONCE = 1 << 12
"""Mixes that are transformed together."""

BLOCK_BYTES = 1 << 28
"""Memory for what is found out about the rows that are worked on at once."""


def wants_trees(model: Any, run: Run) -> bool:
    """Return whether a model has trees, and the method leaves it open how to be exact."""
    return run.method.takes_closed_forms and has_trees(model)


def _by_pairs(run: Run) -> bool:
    """Return whether values and the SII of pairs are all that is asked for."""
    return run.order == 1 or (run.order == 2 and run.interaction_index in ("k-SII", "SII"))


def follows_covers(options: Options, run: Run) -> bool:
    """Return whether absent players follow the covers of a model's trees, if these can be read."""
    is_hierarchy = is_nested(options.groups) or is_linkage(options.groups)
    is_open = is_default(options.background) and options.loss is None and not is_hierarchy
    knows_index = run.semivalue == SHAPLEY and _by_pairs(run)
    return is_open and knows_index and wants_trees(options.model, run)


def base_value_by_covers(options: Options, run: Run) -> Floats | None:
    """Return the base value (k,) of trees that follow their covers, without any rows to explain.

    It is None if they do not, or if they cannot be proved to be the model at a row of zeros.
    """
    if not follows_covers(options, run):
        return None
    width = getattr(getattr(options.model, "__self__", options.model), "n_features_in_", None)
    if width is None:
        return None
    # the base value is the same for all players
    task = Task(replace(options, groups=None, feature_names=None), np.zeros((1, int(width))))
    try:
        with open_game(task, needs_background=False) as named:
            return ExactSum.from_model(options.model, named, run, by_covers=True).base_value
    except (ShearError, UnsupportedTrees):
        return None


def tree_solver(
    options: Options,
    named: NamedGame,
    run: Run,
    *,
    rows: int | None = None,
    progress: RowProgress | None = None,
) -> "ExactSolver":
    """Return the solver for a model of trees, which are read and prepared for a number of rows.

    By default they are prepared for the rows of the game.
    """
    model = options.model
    forest: ExactSum | UnsupportedTrees
    with progress_bar(progress.progress if progress else False, unit=" trees") as bar:
        try:
            forest = ExactSum.from_model(
                model,
                named,
                run,
                by_covers=follows_covers(options, run),
                rows=rows,
                advance=bar.update,
            )
        except UnsupportedTrees as refusal:
            if named.game.rows == 1 and options.background is None:
                raise InputError(f"{MISSING} {_reason(refusal, model, named)}") from None
            forest = refusal
    return ExactSolver(model, named, run, forest, progress=progress)


class ExactSolver:
    """The solver for sums: exact as long as the model is that of its terms, then sampling.

    `forest` may be the reason why the model is known not to be that. One that is `prepared` was
    checked in an earlier call, whose budget is too small to sample rows by.
    """

    def __init__(
        self,
        model: Any,
        named: NamedGame,
        run: Run,
        forest: "ExactSum | UnsupportedTrees",
        *,
        prepared: bool = False,
        progress: RowProgress | None = None,
    ) -> None:
        self.model = model
        self.named = named
        if isinstance(forest, ExactSum) and forest.by_covers:
            inputs = replace(named.inputs, background_description=COVERS, notes=())
            self.named = replace(named, inputs=inputs)
        self.run = run
        self.forest: ExactSum | None = None
        self.checked = prepared
        self.fallback = replace(run, budget=None) if prepared else run
        self.progress = progress
        self.sampling: Sampling | None = None
        self._rng = np.random.default_rng((run.seed, 1))
        if isinstance(forest, UnsupportedTrees):
            self.sampling = self._fall_back(forest)
        else:
            self.forest = forest

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.named.game.rows

    @property
    def rows_at_once(self) -> int:
        """How many rows the next block may have."""
        if self.sampling is not None:
            return self.sampling.rows_at_once
        assert self.forest is not None
        players = self.named.game.players
        cells = players * players if self.run.interactions else players
        numbers = cells * sum(self.forest.outputs.matrix.shape) + len(self.forest.seen.owner)
        return max(1, BLOCK_BYTES // (8 * numbers))

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of a block, or of its first rows if they must be sampled."""
        if self.sampling is None:
            try:
                return self._explain_exactly(rows, buffer)
            except UnsupportedTrees as refusal:
                if self.forest is not None and self.forest.by_covers:
                    # sampled rows would be compared with something else than those before
                    raise ModelError(
                        f"The model is not the sum of its trees: {refusal}. Pass a background, "
                        "for example Explainer(model, X_train), to estimate its values."
                    ) from refusal
                self.sampling = self._fall_back(refusal)
        last = min(rows.stop, rows.start + self.sampling.rows_at_once)
        return self.sampling.explain(slice(rows.start, last), buffer, clock)

    def _explain_exactly(self, rows: slice, buffer: ResultBuffer) -> Explanation:
        """Return the explanation of a block, whose index is the rows' numbers.

        Raise `UnsupportedTrees` if its predictions are not those of the leaves.
        """
        assert self.forest is not None
        game = _silent(self.named.game)
        block = game.take(rows)
        try:
            explanation = self.forest.explained(block, self.run, buffer, rows.start, self._rng)
        except UnsupportedTrees:
            # as many predictions, and the base value, are of no use any more
            game.usage.checks += 2 * block.usage.checks + (0 if rows.start else game.cost)
            raise
        self._check_consistency(block, explanation)
        self.checked = True
        game.usage.checks += block.usage.checks
        return replace(explanation, check_evaluations=game.usage.checks)

    def _check_consistency(self, game: ModelGame, block: Explanation) -> None:
        """Warn if the predictions of a block are not the model's own."""
        both = (block.base_values, block.predictions)
        both_ends = np.stack([values.reshape(len(block), -1) for values in both], axis=1)
        values = torch.from_numpy(both_ends).to(game.device)
        ends = CoalitionValues(values, block.values.ndim == 2)
        warning = game.consistency_warning(ends, first=not self.checked)
        if warning is not None:
            warn(warning)

    def _fall_back(self, reason: UnsupportedTrees) -> Sampling:
        """Return what samples the rows from now on, with a note of the reason."""
        self.forest = None
        note = _reason(reason, self.model, self.named)
        game = self.named.game
        try:
            return sampling(
                game, self.fallback, progress=self.progress, note=note, checks=game.usage.checks
            )
        except BudgetError as error:
            error.add_note(note)
            raise


def _reason(refusal: UnsupportedTrees, model: Any, named: NamedGame) -> str:
    """Return why values are estimates, and whether those of margins would not be."""
    note = f"These values are estimates, because {refusal}"
    outputs = named.outputs
    is_margin = outputs.scale in MARGINS or (outputs.scale is None and outputs.form == "margin")
    is_free = not is_margin and not callable(outputs.output)
    if isinstance(refusal, NotASum) and is_free and has_margins(model):
        note += "; scale='margin' gives exact values, faster"
    return f"{note}."


class SumValues(Protocol):
    """The Shapley values of what a model adds up, for a background."""

    @property
    def background(self) -> Floats | None:
        """(b, d') as the terms see it; None: trees follow their covers."""

    def values(self, seen: Floats) -> Floats:
        """Return the players' Shapley values (r, p, f) of rows (r, d')."""

    def interactions(self, seen: Floats) -> Floats:
        """Return the pairs' Shapley interactions (r, p, p, f)."""

    def index(self, seen: Floats, index: Index) -> Floats:
        """Return an index of sets (r, q, f), in the order of `sets_up_to`."""

    def second_differences(self, seen: Floats) -> Floats:
        """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (r, p, p, f)."""


@dataclass(frozen=True, eq=False)
class ExactSum:
    """The trees of a model, or its coefficients, proved to be it, and ready to explain rows.

    It depends on the model, the background and the players: games of other rows can share it.
    """

    method: str  #: its name in explanations
    seen: SumModel
    outputs: LeafOutputs
    trees: SumValues
    base_value: Floats  #: (k,)
    single: bool  #: whether there is one output, without an axis
    evaluations: int  #: of a row: its prediction, and the base value that it shares with others

    @classmethod
    def from_model(
        cls,
        model: Any,
        named: NamedGame,
        run: Run,
        *,
        by_covers: bool = False,
        rows: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> "ExactSum":
        """Read a model's trees and prepare them; raise `UnsupportedTrees` if they are not it.

        `by_covers`: absent players follow the covers, and do not come from the background.
        `rows` is how many will come, by default those of the game. `advance` is called with the
        number of trees that are ready.
        """
        if is_boosted(model) and named.outputs.form == "probability":
            # known beforehand: reading the trees would take its time for nothing
            raise NotASum("a probability is not a sum over trees")
        game = named.game
        check_budget(METHOD, 0 if by_covers else game.cost, run)
        seen = tree_model(model, named.inputs)
        if by_covers and seen.unknown and game.rows == 1:
            raise UnsupportedTrees(
                f"one row does not show whether {' or '.join(seen.unknown)} combines several "
                "columns into one"
            )

        def prepared() -> ExactTrees:
            return ExactTrees(
                seen.forest,
                seen.owner,
                game.players,
                None if by_covers else seen.preprocess(decoded(game, game.background)),
                None if by_covers else named.inputs.weights,
                rows=game.rows if rows is None else rows,
                interactions=run.interactions,
                semivalue=run.semivalue,
                advance=advance,
            )

        return cls.proved(METHOD, game, run, seen, prepared)

    @classmethod
    def proved(
        cls,
        method: str,
        game: ModelGame,
        run: Run,
        seen: SumModel,
        prepared: Callable[[], SumValues],
    ) -> "ExactSum":
        """Compare a game with the sums of its model, and then prepare their Shapley values.

        Raise `UnsupportedTrees` if the two differ.
        """
        game = _silent(game)
        rng = np.random.default_rng(run.seed)
        points, single = compared_points(game, seen, rng)
        outputs = leaf_outputs(game.predict.outputs, seen.forest, points, rng)
        trees = prepared()
        if trees.background is None:
            assert isinstance(seen.forest, Forest)
            base_value = outputs.constant + outputs(seen.forest.mean)
            return cls(method, seen, outputs, trees, base_value, single, evaluations=1)
        base_value = _answers(game.take(slice(0, 1)), EMPTY)[0]
        return cls(method, seen, outputs, trees, base_value, single, evaluations=game.cost + 1)

    @property
    def by_covers(self) -> bool:
        """Whether absent players follow the covers of the training data."""
        return self.trees.background is None

    def explained(
        self,
        game: ModelGame,
        run: Run,
        buffer: ResultBuffer,
        first_row: int,
        rng: np.random.Generator,
    ) -> Explanation:
        """Return the explanation of a block of rows, whose first has a number among all rows.

        Raise `UnsupportedTrees` if its predictions are not those of the leaves.
        """
        seen = self.seen.preprocess(decoded(game, game.inputs))
        self._prove_columns(game, seen, run.seed)
        predictions = self._compared_predictions(game, seen, first_row, rng)
        values = self.outputs(self.trees.values(seen))
        if run.semivalue == SHAPLEY:
            gaps = predictions - self.base_value - values.sum(axis=1)
        else:
            leaves = self.outputs(self.seen.forest.predict(seen))
            gaps = predictions - self.outputs.constant - leaves
        self._refuse_gaps(gaps, first_row, "row")

        fields = {
            "values": values,
            "base_values": np.broadcast_to(self.base_value, predictions.shape).copy(),
            "predictions": predictions,
            "standard_errors": np.zeros_like(values),
        }
        if run.interactions:
            fields |= self._interactions(seen, values, run)
        if self.single:
            # a sum over outputs has no axis of them
            fields = {name: field[..., 0] for name, field in fields.items()}
        if run.interactions:
            differences = self.outputs(self.trees.second_differences(seen))
            fields["cross_contribution"] = np.abs(differences).sum(axis=3)

        rows = game.rows
        arrays: dict[str, Any] = {
            name: buffer.array(name, torch.from_numpy(field), first_row)
            for name, field in fields.items()
        }
        if run.stops:
            arrays["converged"] = np.ones(rows, dtype=np.bool_)
            arrays["row_evaluations"] = np.full(rows, self.evaluations, dtype=np.int64)
        return Explanation(
            **arrays,
            index=np.arange(first_row, first_row + rows),
            evaluations=self.evaluations,
            derivative_passes=0,
            method=self.method,
            seed=run.seed,
            **run.index_names,
        )

    def _interactions(self, seen: Floats, values: Floats, run: Run) -> dict[str, Floats]:
        """Return the fields of an explanation about features that act together."""
        if _by_pairs(run):
            sii = self.outputs(self.trees.interactions(seen))
            tensors = (torch.from_numpy(values), torch.from_numpy(sii))
            pairs = k_sii(*tensors, run.interaction_index).numpy()
            return {"interactions": pairs, "interaction_errors": np.zeros_like(pairs)}
        players = values.shape[1]
        check_order(players, run.order)
        index = interaction_index(run.interaction_index, run.order, players)
        of_sets = self.outputs(self.trees.index(seen, index))
        pairs = pair_matrix(torch.from_numpy(of_sets), players).numpy()
        fields = {"interactions": pairs, "interaction_errors": np.zeros_like(pairs)}
        if run.order > 2:
            fields |= {"set_values": of_sets, "set_errors": np.zeros_like(of_sets)}
        return fields

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
            answers = _answers(both, FULL)
        except ModelError as error:
            _answers(game, FULL)  # raises if it is not for a mix
            raise UnsupportedTrees(f"the model fails on a mix of rows ({error})") from error

        game.usage.checks += rows
        background = self._seen_background(game)
        leaves = self.seen.forest.predict(mixes.seen(self.seen, seen, background))
        gaps = answers[rows:] - self.outputs.constant - self.outputs(leaves)
        self._refuse_gaps(gaps, first_row, "a mix of row")
        return answers[:rows]

    def _seen_background(self, game: ModelGame) -> Floats:
        """Return the background rows (b, d') as the trees see them."""
        if self.trees.background is not None:
            return self.trees.background
        return self.seen.preprocess(decoded(game, game.background))

    def _refuse_gaps(self, gaps: Floats, first_row: int, place: str) -> None:
        """Raise if gaps between model and leaves (r, k) are more than rounding."""
        wrong = np.argwhere(~(np.abs(gaps) <= 2 * self.outputs.allowed))
        if len(wrong):
            row, output = wrong[0]
            raise UnsupportedTrees(
                f"at {place} {first_row + row} its {self.seen.forest.noun} add up to a different "
                f"prediction (by {abs(gaps[row, output]):.2g})"
            )

    def _prove_columns(self, game: ModelGame, seen: Floats, seed: int) -> None:
        """Raise if a transformer that is not known makes a column of several, at any row."""
        if not self.seen.unknown:
            return
        rng = np.random.default_rng((seed, 2))
        rows = game.rows
        others = game.cost
        background = self._seen_background(game)
        of_pairs = min(PAIR_PROOFS * rows * others, MAX_PROOFS)
        count = max(PROOFS * rows, PROOFS * others, of_pairs)
        for start in range(0, count, PROVED_AT_ONCE):
            number = np.arange(start, min(start + PROVED_AT_ONCE, count))
            mixes = Mixes(
                number % rows,
                (number % rows + number // rows) % others,
                present=rng.random((len(number), game.players)) < 0.5,
            )
            mixes.prove_columns(game, self.seen, seen, background)


def check_budget(method: str, of_base: int, run: Run) -> None:
    """Raise if the budget does not hold a row's prediction and the evaluations `of_base` value."""
    needed = of_base + 1
    if run.budget is not None and run.budget < needed:
        error = BudgetError(
            f"{method} needs at least {needed} evaluations per row, one for its prediction and "
            f"{of_base} for the base value, got {run.budget}"
        )
        error.nearest = needed
        raise error


def _answers(game: ModelGame, end: int) -> Floats:
    """Return the values (r, k) of an end: base values, or predictions at one evaluation each."""
    if end == FULL:
        game = game.take(background=slice(0, 1))
    coalition = end_coalitions(game.players, game.device)[:, [end]]
    return np.asarray(game(coalition)[:, 0].double().cpu().numpy())


def _silent(game: ModelGame) -> ModelGame:
    """Return the game without a progress bar of its evaluations: it is not what takes the time."""
    return replace(game, advance=lambda _evaluations: None)
