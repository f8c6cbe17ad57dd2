"""From a task to explanations: at once, block by block, or by a model that was prepared before.

Trees and linear models know their own answer, and any other model is sampled. Each text has its own
players, so texts come before that.

What an `Explainer` finds out anew in each call is found out here once, on a sample of rows: the
background in the types that it has in common with the rows, kriging's calibration, a forest's
leaves, and the designs for each budget. So a row's answer depends neither on its neighbours nor on
who came before, and jobs, workers on other machines and a service can share what was prepared.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import torch

from shearshap.data.background import (
    MISSING,
    ParsedBackground,
    Selection,
    groups_or_clustering,
    is_default,
    parse_background,
)
from shearshap.data.stand_in import StandIn, has_no_rows, stand_in
from shearshap.engine.answers import text_blocks
from shearshap.engine.backgrounds import plans_for, sampling
from shearshap.engine.linear import linear_solver, wants_linear
from shearshap.engine.loop import Clock, RowProgress, Solver, blocks_of
from shearshap.engine.named_game import NamedGame, labelled_blocks, open_game
from shearshap.engine.plan import Plans
from shearshap.engine.results import concatenated, with_notes
from shearshap.engine.run import Options, Run, Task, positive_int
from shearshap.engine.sampling import Sampling
from shearshap.errors import InputError, ModelError, collect_warnings, recorded
from shearshap.games.loss import checked_labels, no_loss
from shearshap.games.marginal import ModelGame, no_progress
from shearshap.methods import name_of
from shearshap.methods.kriging import Calibration
from shearshap.models import AdaptedModel
from shearshap.models.huggingface import check_text_model, takes_texts
from shearshap.result.explanation import Explanation
from shearshap.trees.proof import decoded
from shearshap.trees.solver import (
    MARGIN_NOTE,
    ExactSolver,
    ExactSum,
    follows_covers,
    on_margin,
    tree_solver,
    wants_trees,
)

EXPECTED_ROWS = 10_000
"""Rows for which a forest is prepared: as many as make it worth its time."""

MAX_PLANS = 16
"""Budgets whose designs are kept."""


def _solver(
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
    options, alone = _for_covers(task.options, run)
    notes = [MARGIN_NOTE] if options is not task.options else []
    task = replace(task, options=options)
    with open_game(task, progress.evaluated, needs_background=not alone) as named:
        solver = _solver(options, named, run, progress=progress)
        with progress.over(solver.rows):
            blocks = blocks_of(solver, clock, tol=run.tol, at_once=run.at_once, progress=progress)
            for block in labelled_blocks(_named_by(solver, named), blocks):
                yield with_notes(block, notes)


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
    return _without_rows(replace(Explanation.concat(parts), calibration=calibration), own)


def _without_rows(explanation: Explanation, own: StandIn) -> Explanation:
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


def _for_covers(options: Options, run: Run) -> tuple[Options, bool]:
    """Return options, on the margin if trees follow their covers, and whether they do."""
    alone = follows_covers(options, run)
    return (on_margin(options) if alone else options), alone


# Prepared explainers


@dataclass(eq=False)
class PreparedExplainer:
    """A model ready to explain rows, as `Explainer.prepare` returns it.

    One thread at a time may call it. It holds no rows but those of the `overview`. In another
    process, an `Explainer` with its `options` gives the same answers.
    """

    options: Options  #: with the background in its types, and the calibrated method
    run: Run  #: with the budget for rows of which nothing else is said
    overview: Explanation  #: of the sample
    minimum_budget: int  #: the fewest evaluations a row
    types: Mapping[str, Any] | None  #: of the columns, if the model is given frames of pandas
    adapted: AdaptedModel
    forest: ExactSum | None = None  #: of trees or a linear model whose values are exact
    _plans: "OrderedDict[int, Plans]" = field(default_factory=OrderedDict)  #: by budget

    @property
    def budget(self) -> int:
        """The evaluations to spend on a row of which nothing else is said."""
        assert self.run.budget is not None
        return self.run.budget

    def explain(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        index: Any = None,
        data: bool = True,
        advance: Callable[[int], object] = no_progress,
    ) -> Explanation:
        """Return the explanation of rows of the same kind as those of the sample.

        `budget` is the number of model evaluations for one row, and `index` are labels of the rows.
        `data` says whether the explanation shows what features hold, and `advance` is called with
        the number of evaluations of each batch.
        """
        run = self.run
        if budget is not None:
            run = replace(run, budget=positive_int("budget", budget))
        task = Task(self.options, rows, index)
        if has_no_rows(rows):
            own = stand_in(rows, parse_background(self.options.background), index)
            none = _without_rows(self.overview, own)
            return none if data else replace(none, data=None, display_data=None)
        warned: list[str] = []
        with (
            recorded(warned),
            torch.inference_mode(False),
            open_game(task, advance, self.adapted) as named,
        ):
            solver = self._solver(named, run)
            blocks = blocks_of(solver, Clock(None), tol=run.tol)
            named_by = _named_by(solver, named)
            labelled = labelled_blocks(named_by, blocks, notes=False, data=data)
            explanation = with_notes(concatenated(labelled), warned)
        sampled = _sampling_of(solver)
        if sampled is None:
            return explanation
        # rows with few active players may be exact; that must not show in their neighbours' answers
        return replace(explanation, method=name_of(sampled.plans.resolved.method))

    def _solver(self, named: NamedGame, run: Run) -> Solver:
        if self.forest is None:
            return sampling(named.game, run, plans=self._plans_of(named.game, run))
        return ExactSolver(self.options.model, named, run, self.forest, prepared=True)

    def _plans_of(self, game: ModelGame, run: Run) -> Plans:
        """Return the plans of a budget: those of an earlier block if there are any."""
        assert run.budget is not None
        plans = self._plans.pop(run.budget, None) or plans_for(game, run)
        self._plans[run.budget] = plans
        if len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)
        return plans


def prepare(options: Options, rows: Any, run: Run) -> PreparedExplainer:
    """Explain a sample of rows, and return what explains any others."""
    if takes_texts(options.model, options.text):
        raise InputError(
            "prepare: every text has its own words, so nothing can be prepared in advance; call "
            "the explainer with the texts"
        )
    if options.loss is not None:
        raise InputError(
            "loss: labels belong to rows, so nothing can be prepared in advance; call the "
            "explainer with rows and y="
        )
    warned: list[str] = []
    with recorded(warned), torch.inference_mode(False):
        options, alone = _for_covers(options, run)
        fixed, types = with_fixed_background(options, rows, needs_background=not alone)
        with open_game(Task(fixed, rows)) as named:
            adapted = named.game.predict.adapted
            solver = _solver(fixed, named, run, rows=EXPECTED_ROWS)
            blocks = blocks_of(solver, Clock(None), tol=run.tol)
            labelled = labelled_blocks(_named_by(solver, named), blocks)
            overview = with_notes(Explanation.concat(list(labelled)), warned)
            fixed = _without_notes(fixed)
            sampled = _sampling_of(solver)
            if sampled is None:
                assert isinstance(solver, ExactSolver)
                assert solver.forest is not None
                minimum = solver.forest.evaluations
                exact = replace(run, budget=run.budget or minimum)
                return PreparedExplainer(
                    fixed, exact, overview, minimum, types, adapted, solver.forest
                )

            resolved = sampled.plans.resolved
            usual = replace(run, budget=resolved.budget)
            if hasattr(run.method, "calibration"):
                # if all coalitions were evaluated, nothing was fitted; smaller budgets need a rule
                calibration = overview.calibration or Calibration.default(named.game.players)
                method = replace(run.method, calibration=calibration)  # type: ignore[type-var]
                usual = replace(usual, method=method)
                fixed = replace(fixed, method=method)
            minimum = named.game.cost * run.method.minimum(named.game)
    overview = replace(overview, method=name_of(resolved.method))
    return PreparedExplainer(fixed, usual, overview, minimum, types, adapted)


def with_fixed_background(
    options: Options, rows: Any, *, needs_background: bool = True
) -> tuple[Options, Mapping[str, Any] | None]:
    """Return options whose background is rows in the types in which they are mixed with rows.

    The types of columns come with them, if the model is given frames of pandas; else None.
    """
    with open_game(Task(options, rows), needs_background=needs_background) as named:
        game = named.game
        first = decoded(game, game.inputs[:1])
        types = dict(first.dtypes) if hasattr(first, "iloc") else None
        inputs = named.inputs
        if game.sampler is not None:
            kept = parse_background(options.background, options.seed)
            chosen = Selection(None, inputs.background_description)
            return replace(options, background=replace(kept, chosen=chosen)), types
        chosen = Selection(None, inputs.background_description, inputs.notes, inputs.weights)
        fixed = ParsedBackground(
            "all",
            decoded(game, game.background),
            chosen=chosen,
            is_default=is_default(options.background),
        )
        groups = groups_or_clustering(options.groups, options.background)
        return replace(options, background=fixed, groups=groups), types


def _without_notes(options: Options) -> Options:
    """Return options with a fixed background, whose notes are about the rows of the sample."""
    background = options.background
    assert isinstance(background, ParsedBackground)
    assert background.chosen is not None
    quiet = replace(background, chosen=replace(background.chosen, notes=()))
    return replace(options, background=quiet)


def _named_by(solver: Solver, named: NamedGame) -> NamedGame:
    """Return the names of a solver's game: trees may not have used the background."""
    return solver.named if isinstance(solver, ExactSolver) else named


def _sampling_of(solver: Solver) -> Sampling | None:
    """Return what samples rows; None if trees or coefficients give their values."""
    sampled = solver.sampling if isinstance(solver, ExactSolver) else solver
    assert sampled is None or isinstance(sampled, Sampling)
    return sampled
