"""From a task to explanations, block by block: which solver explains its rows.

Trees and linear models know their own answer, and any other model is sampled. Each text has its own
players, so texts come before that. Zero rows are explained by a row that stands in for them.
"""

from collections.abc import Generator
from dataclasses import replace
from math import inf

import torch

from shearshap.data.background import MISSING, groups_or_clustering, parse_background
from shearshap.data.stand_in import StandIn, has_no_rows, stand_in
from shearshap.engine.answers import text_blocks
from shearshap.engine.backgrounds import sampling
from shearshap.engine.linear import linear_solver, wants_linear
from shearshap.engine.loop import Clock, RowProgress, Solver, blocks_of
from shearshap.engine.open import NamedGame, labelled_blocks, open_game
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.sampling import Sampling
from shearshap.errors import InputError, ModelError, collect_warnings
from shearshap.games.loss import checked_labels, no_loss
from shearshap.models.huggingface import check_text_model, takes_texts
from shearshap.result.explanation import Explanation, join
from shearshap.trees.solver import (
    ExactSolver,
    follows_covers,
    tree_solver,
    wants_trees,
)


def solver_for(
    options: Options,
    named: NamedGame,
    run: Run,
    *,
    rows: int | None = None,
    progress: RowProgress | None = None,
) -> Solver:
    """Return the solver for a game: trees and linear models know their answer, others are sampled.

    `rows` is what to prepare for, if more will come than those of the game.
    """
    is_open = options.loss is None and named.game.sampler is None
    if not isinstance(options.model, torch.nn.Module) and is_open:
        # trees give Shapley values; the values of a linear model are the same in any hierarchy
        if wants_trees(options.model, run) and named.game.structure is None:
            return tree_solver(options, named, run, rows=rows, progress=progress)
        if wants_linear(options.model, run):
            return linear_solver(options.model, named, run, progress=progress)
    return sampling(named.game, run, progress=progress)


def solve(task: Task, run: Run, progress: bool | None = None) -> Generator[Explanation]:
    """Return the explanations of a task's rows, block by block."""
    options = task.options
    check_text_model(options.model, task.rows, options.background)
    reads_texts = takes_texts(options.model, options.text)
    if options.loss is not None and reads_texts:
        raise InputError("loss: expected a model for tables or arrays, got one for texts")
    if task.answer is not None and not reads_texts:
        raise InputError("answer: expected a language model with its tokenizer")
    if not reads_texts and isinstance(task.rows, list) and isinstance((*task.rows, 0)[0], str):
        raise InputError(
            "rows: expected numbers, got texts; for a function of texts pass text='words'"
        )
    blocks = text_blocks if reads_texts else _blocks
    return blocks(task, run, RowProgress(progress))


def _blocks(task: Task, run: Run, progress: RowProgress) -> Generator[Explanation]:
    if has_no_rows(task.rows):
        yield _of_no_rows(task, run)
        return
    clock = Clock(run.deadline)
    alone = follows_covers(task.options, run)
    with open_game(task, progress.evaluated, needs_background=not alone) as named:
        solver = solver_for(task.options, named, run, progress=progress)
        with progress.over(solver.rows):
            blocks = blocks_of(solver, clock, tol=run.tol, at_once=run.at_once, progress=progress)
            yield from labelled_blocks(named_by(solver, named), blocks)


def _of_no_rows(task: Task, run: Run) -> Explanation:
    """Return the explanation of zero rows: that of a row that stands in for them, without it."""
    options = task.options
    background = options.background
    is_alone = follows_covers(options, run)
    if background is None and not is_alone:
        raise InputError(MISSING)
    own = stand_in(task.rows, parse_background(background, options.seed), task.index)
    options = replace(
        options,
        background=None if background is None else own.background,
        groups=groups_or_clustering(options.groups, background),
    )
    if checked_labels(options.loss, options.y, 0) is not None:
        options = replace(options, loss=no_loss(options.loss), y=[0])
    # all features take part: the row may be the background's own
    every = replace(run, drop_null=False)
    try:
        with collect_warnings([]):  # about a row that nobody asked for
            parts = list(_blocks(Task(options, own.row), every, RowProgress()))
    except ModelError as error:
        if background is None:
            raise InputError(f"{MISSING} There are no rows, and {error}") from error
        raise
    calibration = getattr(run.method, "calibration", None)
    return without_rows(replace(join(parts), calibration=calibration), own)


def without_rows(explanation: Explanation, own: StandIn) -> Explanation:
    """Return an explanation of zero rows like that of others, which changes nothing beside them."""
    return replace(
        explanation[:0],
        index=own.index,
        index_name=own.index_name,
        evaluations=0,
        derivative_passes=0,
        degrees_of_freedom=inf,
        notes=(),
    )


def named_by(solver: Solver, named: NamedGame) -> NamedGame:
    """Return the names of a solver's game: trees may not have used the background."""
    return solver.named if isinstance(solver, ExactSolver) else named


def sampling_of(solver: Solver) -> Sampling | None:
    """Return what samples rows; None if trees or coefficients give their values."""
    sampled = solver.sampling if isinstance(solver, ExactSolver) else solver
    assert sampled is None or isinstance(sampled, Sampling)
    return sampled
