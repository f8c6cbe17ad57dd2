"""The solver for tree ensembles: exact values from their leaves, where the model is their sum.

Where it is not, or where its trees cannot be read, the model is sampled like any other, and a note
says why.
"""

from collections.abc import Iterator
from typing import Any

import torch

from shearshap.engine.block import Sampling
from shearshap.engine.loop import Clock, Room
from shearshap.engine.progress import RowProgress, progress_bar
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.sampling import NamedGame, named_blocks, open_game
from shearshap.errors import BudgetError
from shearshap.methods import Auto, Exact
from shearshap.models.base import MARGINS
from shearshap.result.explanation import Explanation
from shearshap.trees.exact_forest import ExactForest, ForestBlocks
from shearshap.trees.forest import UnsupportedTrees
from shearshap.trees.model import has_trees, is_boosted


def solve(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation] | None:
    """Return the explanations of a tree ensemble; None for other models, and other methods."""
    if not wants_trees(task.options.model, run):
        return None
    return _explained(task, run, progress)


def _explained(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation]:
    """Yield the explanations of a task's rows, block by block."""
    clock = Clock(run.deadline)
    shown = RowProgress(progress)
    with open_game(task, shown.asked) as named:
        solver = tree_solver(task.options, named, run, progress=shown)
        yield from named_blocks(named, solver, run, clock, shown)


def tree_solver(
    options: Options,
    named: NamedGame,
    run: Run,
    *,
    rows: int | None = None,
    progress: RowProgress | None = None,
) -> "TreeSolver":
    """Return the solver for a model of trees, which are read and prepared for a number of rows.

    By default they are prepared for the rows of the game.
    """
    forest = None
    reason = None
    try:
        with progress_bar(progress.progress if progress else False, unit=" trees") as bar:
            forest = exact_forest(
                options.model, named, run, rows=rows, advance=bar.update, device=options.device
            )
    except UnsupportedTrees as refusal:
        reason = str(refusal)
    return TreeSolver(options.model, named, run, forest, reason=reason, progress=progress)


class TreeSolver:
    """The solver for trees: exact as long as the model is the sum of its leaves, then sampling.

    `forest` is None if the model is known not to be that, and `reason` says why. `checked` says
    that the model was checked in an earlier call with such a game. `fallback` is the run by which
    rows are sampled, if it is another one.
    """

    def __init__(
        self,
        model: Any,
        named: NamedGame,
        run: Run,
        forest: ExactForest | None,
        *,
        reason: str | None = None,
        checked: bool = False,
        fallback: Run | None = None,
        progress: RowProgress | None = None,
    ) -> None:
        self.model = model
        self.named = named
        self.run = run
        self.fallback = fallback or run
        self.progress = progress
        self.exact: ForestBlocks | None = None
        self.sampling: Sampling | None = None
        if forest is None:
            self._fall_back(str(reason))
        else:
            self.exact = ForestBlocks(forest, named.game, run, checked=checked)

    @property
    def forest(self) -> ExactForest | None:
        """The forest; None if the model is not the sum of its leaves."""
        return None if self.exact is None else self.exact.forest

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.named.game.rows

    @property
    def rows_at_once(self) -> int:
        """How many rows the next block may have."""
        solver = self.exact or self.sampling
        assert solver is not None
        return solver.rows_at_once

    def explain(self, rows: slice, room: Room) -> Explanation:
        """Return the explanation of a block, or of its first rows if they must be sampled."""
        if self.exact is not None:
            try:
                return self.exact.explain(rows, room)
            except UnsupportedTrees as refusal:
                self._fall_back(str(refusal))
        assert self.sampling is not None
        last = min(rows.stop, rows.start + self.sampling.rows_at_once)
        return self.sampling.explain(slice(rows.start, last), room)

    def _fall_back(self, reason: str) -> None:
        """Sample the rows from now on, with a note of the reason."""
        note = _note_on(reason, self.model, self.named)
        self.exact = None
        try:
            self.sampling = Sampling(
                self.named.game,
                self.fallback,
                progress=self.progress,
                note=note,
                checks=self.named.game.usage.checks,
            )
        except BudgetError as error:
            error.add_note(note[0].upper() + note[1:] + ".")
            raise


def wants_trees(model: Any, run: Run) -> bool:
    """Return whether a model has trees, and the method leaves it open how to be exact."""
    return isinstance(run.method, Auto | Exact) and has_trees(model)


def exact_forest(
    model: Any,
    named: NamedGame,
    run: Run,
    *,
    rows: int | None = None,
    advance: Any = None,
    device: torch.device | str | None = None,
) -> ExactForest:
    """Return a model's trees, ready to explain; raise `UnsupportedTrees` if they are not it."""
    outputs = named.outputs
    if is_boosted(model) and outputs.form == "probability":
        # known beforehand: reading the trees would take its time for nothing
        raise UnsupportedTrees("the probabilities of boosted trees are not linear in their leaves")
    where = None if device is None else torch.device(device)
    return ExactForest.of(model, named, run, rows=rows, advance=advance, device=where)


def _note_on(reason: str, model: Any, named: NamedGame) -> str:
    """Return why values were estimated rather than taken from the leaves, in a sentence."""
    sentence = f"the values are not computed from the trees: {reason}"
    is_margin = named.outputs.scale in MARGINS
    return sentence if is_margin or not is_boosted(model) else f"{sentence}; {_ADVICE}"


_ADVICE = "with scale='margin' they are, wherever the trees can be read"
