"""The solver for tree ensembles: exact values from their leaves, where the model is their sum.

Where it is not, or where its trees cannot be read, the model is sampled like any other, and a note
says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from shearshap.engine.clock import Clock
from shearshap.engine.loop import explained_blocks
from shearshap.engine.progress import progress_bar
from shearshap.engine.run import Run
from shearshap.engine.sampling import NamedGame, labelled_blocks, open_game
from shearshap.engine.task import Task
from shearshap.errors import BudgetError
from shearshap.methods import Auto, Exact, name_of
from shearshap.models.outputs import MARGINS
from shearshap.result.explanation import Explanation
from shearshap.trees.exact_forest import ExactForest
from shearshap.trees.forest import UnsupportedTrees
from shearshap.trees.model import has_trees, is_boosted

EVERY_COALITION = name_of(Exact())


def solve(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation] | None:
    """Return the explanations of a tree ensemble; None for other models, and other methods."""
    if not wants_trees(task.model, run):
        return None
    return _explained(task, run, progress)


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


def note_on(reason: str, model: Any, named: NamedGame) -> str:
    """Return why values were estimated rather than taken from the leaves, in a sentence."""
    sentence = f"the values are not computed from the trees: {reason}"
    is_margin = named.outputs.scale in MARGINS
    return sentence if is_margin or not is_boosted(model) else f"{sentence}; {_ADVICE}"


_ADVICE = "with scale='margin' they are, wherever the trees can be read"


def _explained(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation]:
    """Yield the explanations of a task's rows, block by block."""
    clock = Clock(run.deadline)
    meter = _Meter(progress)
    with open_game(task, meter.advance) as named:
        yield from labelled_blocks(named, _blocks(task, named, run, clock, meter))


@dataclass
class _Meter:
    """Shows evaluations in a progress bar, once there is one."""

    progress: bool | None
    bar: Any = None

    def advance(self, evaluations: int) -> None:
        """Move the bar on."""
        if self.bar is not None:
            self.bar.update(evaluations)


def _blocks(
    task: Task, named: NamedGame, run: Run, clock: Clock, meter: _Meter
) -> Iterator[Explanation]:
    """Yield exact explanations as long as the model is the sum of its leaves, then sampled ones."""
    done = 0
    try:
        with progress_bar(meter.progress, unit=" trees") as bar:
            forest = exact_forest(task.model, named, run, advance=bar.update, device=task.device)
        with progress_bar(meter.progress, total=named.game.rows, unit=" rows") as bar:
            for block in forest.blocks(named.game, run, clock, bar.update):
                yield block
                done += len(block)
    except UnsupportedTrees as refusal:
        note = note_on(str(refusal), task.model, named)
    else:
        return
    yield from _sampled(named, run, clock, meter, done, note)


def _sampled(
    named: NamedGame, run: Run, clock: Clock, meter: _Meter, done: int, note: str
) -> Iterator[Explanation]:
    """Yield the explanations of the rows from `done` on by the method; the first has the note."""
    game = named.game
    if done:
        game = game.take(slice(done, None))
    try:
        settled = run.on(game)
    except BudgetError as error:
        error.add_note(note[0].upper() + note[1:] + ".")
        raise

    total = game.rows * settled.most_evaluations(game)
    with progress_bar(meter.progress, total=total, unit=" evaluations", unit_scale=True) as bar:
        meter.bar = bar
        for block in explained_blocks(game, run, clock):
            checks = named.game.usage.checks + block.check_evaluations
            block = replace(block, check_evaluations=checks)
            # all coalitions make exact values too
            if block.method != EVERY_COALITION:
                block = replace(block, notes=(*block.notes, note))
            yield replace(block, index=block.index + done)
        bar.total = bar.n  # rows may have needed less
