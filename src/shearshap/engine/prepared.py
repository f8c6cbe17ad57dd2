"""Explanations by a model that was prepared before.

What an `Explainer` finds out anew in each call is found out here once, on a sample of rows: the
background in the types that it has in common with the rows, kriging's calibration, a forest's
leaves, and the designs for each budget. So a row's answer depends neither on its neighbours nor on
who came before, and data engines, workers on other machines and a service can share it.

    pickled                          each process, once
    the model and the options        the model as the library sees it
    the fixed background             the leaves of its trees
    the calibration                  the designs for each budget
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import torch

from shearshap.data.background import (
    ParsedBackground,
    Selection,
    groups_or_clustering,
    is_default,
    parse_background,
)
from shearshap.data.stand_in import has_no_rows, stand_in
from shearshap.engine.backgrounds import plans_for, sampling
from shearshap.engine.explain import named_by, sampling_of, solver_for, without_rows
from shearshap.engine.loop import Clock, Solver, blocks_of
from shearshap.engine.open import NamedGame, labelled_blocks, open_game
from shearshap.engine.plan import Plans, one_thread
from shearshap.engine.results import concatenated, with_notes
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.tables import (
    columns_of_sample,
    id_field,
    rows_of_batch,
    values_schema,
    values_table,
)
from shearshap.errors import InputError, ModelError, recorded
from shearshap.forks import ForkSafeLock
from shearshap.games.marginal import ModelGame, no_progress
from shearshap.methods import name_of
from shearshap.methods.kriging import Calibration
from shearshap.models import AdaptedModel
from shearshap.models.huggingface import takes_texts
from shearshap.numbers import positive_int
from shearshap.result.explanation import Explanation, join
from shearshap.trees.proof import decoded
from shearshap.trees.solver import ExactSolver, ExactSum, follows_covers

if TYPE_CHECKING:
    import pyarrow as pa

EXPECTED_ROWS = 10_000
"""Rows for which a forest is prepared: as many as make it worth its time."""

MAX_PLANS = 16
"""Budgets whose designs are kept."""

MAX_COPIES = 4
"""Prepared explainers from pickles that a process keeps."""


@dataclass(eq=False)
class PreparedExplainer:
    """A model ready to explain rows, as `Explainer.prepare` returns it.

    Threads can share it; they take turns. It can be pickled, and is opened once in each process
    that it is sent to, however often. It holds no rows but the background's and those of the
    `overview`.
    """

    options: Options  #: with the background in its types, and the calibrated method
    run: Run  #: with the budget for rows of which nothing else is said
    overview: Explanation  #: of the sample
    minimum_budget: int  #: the fewest evaluations a row
    types: Mapping[str, Any] | None  #: of the columns, if the model is given frames of pandas
    columns: tuple[str, ...] | None  #: of the sample; None: it was an array
    ids: "pa.Field | None" = None  #: the column of labels, which the model does not get
    is_exact: bool = False  #: whether values are those of trees, or of a linear model
    _key: str = field(default_factory=lambda: uuid4().hex)  #: that of all its copies
    _opened: "_Opened" = field(default_factory=lambda: _Opened())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is opened from a pickle, without what each process finds out for itself."""
        names = [each.name for each in fields(self) if each.name != "_opened"]
        contents = {name: getattr(self, name) for name in names}
        return _opened_once, (contents,)

    def __dask_tokenize__(self) -> str:
        """Return what tells it from others in a graph of Dask."""
        return self._key

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

        `budget` is the number of model evaluations for one row, and `index` are labels of the rows,
        by default those of the column that `prepare` was told. `data` says whether the explanation
        shows what features hold, and `advance` is called with the number of evaluations of each
        batch.
        """
        run = self.run
        if budget is not None:
            run = replace(run, budget=positive_int("budget", budget))
        if index is None and self.ids is not None:
            index = self.ids.name
        if has_no_rows(rows):
            own = stand_in(rows, parse_background(self.options.background), index)
            none = without_rows(self.overview, own)
            return none if data else replace(none, data=None, display_data=None)
        with self._opened.turn:
            return self._explained(Task(self.options, rows, index), run, data, advance)

    def _explained(
        self, task: Task, run: Run, data: bool, advance: Callable[[int], object]
    ) -> Explanation:
        """Return the explanation of some rows, of which there is at least one."""
        warned: list[str] = []
        with (
            recorded(warned),
            torch.inference_mode(False),
            open_game(task, advance, self._opened.adapted) as named,
        ):
            self._opened.adapted = named.game.predict.adapted
            solver = self._solver(named, run)
            blocks = blocks_of(solver, Clock(None), tol=run.tol)
            labelled = labelled_blocks(named_by(solver, named), blocks, notes=False, data=data)
            explanation = with_notes(concatenated(labelled), warned)
        sampled = sampling_of(solver)
        if sampled is None:
            return explanation
        # rows with few active players may be exact; that must not show in their neighbours' answers
        return replace(explanation, method=name_of(sampled.plans.resolved.method))

    def _solver(self, named: NamedGame, run: Run) -> Solver:
        if self.is_exact:
            return ExactSolver(self.options.model, named, run, self._exact_sum(), prepared=True)
        return sampling(named.game, run, plans=self._plans_of(named.game, run))

    def _exact_sum(self) -> ExactSum:
        """Return the trees or the coefficients, which each process reads once."""
        if self._opened.exact is None:
            rows = parse_background(self.options.background).rows
            with open_game(Task(self.options, rows), adapted=self._opened.adapted) as named:
                solver = solver_for(self.options, named, self.run, rows=EXPECTED_ROWS)
            self._opened.exact = _exact_of(solver)
        if self._opened.exact is None:
            raise ModelError(
                "the model is not the one that was prepared: its values are not exact here; use "
                "the same version of its library in all processes"
            )
        return self._opened.exact

    def _plans_of(self, game: ModelGame, run: Run) -> Plans:
        """Return the plans of a budget: those of an earlier block if there are any."""
        assert run.budget is not None
        kept = self._opened.plans
        # at a fork, another thread may have been at work on a plan
        key = (os.getpid(), run.budget)
        plans = kept.pop(key, None) or plans_for(game, run)
        kept[key] = plans
        if len(kept) > MAX_PLANS:
            kept.popitem(last=False)
        return plans

    # Tables of values, for data engines

    @cached_property
    def schema(self) -> "pa.Schema":
        """The columns of `table`, and their types: a schema of pyarrow.

        They are the ids, if `prepare` was told their column, and those of
        `Explanation.to_frame(wide=True)`, standard errors included, which may be missing.
        """
        return values_schema(self.overview, self.ids)

    def table(self, batch: Any) -> "pa.Table":
        """Return the values of a batch of rows as a table of pyarrow, whose schema is `schema`.

        It is the function that Ray Data, Spark and Dask apply to each part of a table. A row's
        values do not depend on how rows are cut into batches. A CPU computes in one thread, since
        engines start a task for each CPU.

        Parameters
        ----------
        batch
            A pandas or polars frame, a table or record batch of pyarrow, or a mapping from the
            names of columns to arrays. If the sample was an array, it may also be an array, or a
            mapping from one name to an array. There may be no rows in it.
        """
        rows = rows_of_batch(batch, self.columns, self.ids)
        if not len(rows):
            return self.schema.empty_table()
        with one_thread():
            explanation = self.explain(rows, data=False)
        return values_table(explanation, rows, self.ids, self.schema)


@dataclass(eq=False)
class _Opened:
    """What each process finds out for itself about a prepared explainer, and keeps."""

    adapted: AdaptedModel | None = None
    exact: ExactSum | None = None  #: the trees or the coefficients, if values are theirs
    plans: "OrderedDict[tuple[int, int], Plans]" = field(default_factory=OrderedDict)
    """By process and budget."""

    turn: ForkSafeLock = field(default_factory=ForkSafeLock)  #: of the thread that explains


_COPIES: "OrderedDict[str, PreparedExplainer]" = OrderedDict()
"""Prepared explainers from pickles, by their keys: an engine sends one with every task."""

_COPYING = ForkSafeLock()


def _opened_once(contents: dict[str, Any]) -> PreparedExplainer:
    """Return the prepared explainer of a pickle: the earlier copy if this process has one."""
    key = contents["_key"]
    with _COPYING:
        copy = _COPIES.pop(key, None) or PreparedExplainer(**contents)
        _COPIES[key] = copy
        if len(_COPIES) > MAX_COPIES:
            _COPIES.popitem(last=False)
    return copy


def _exact_of(solver: Solver) -> ExactSum | None:
    return solver.forest if isinstance(solver, ExactSolver) else None


def prepare(options: Options, rows: Any, run: Run, index: str | None = None) -> PreparedExplainer:
    """Explain a sample of rows, and return what explains any others; `index` names their labels."""
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
    ids = None if index is None else id_field(rows, index)
    warned: list[str] = []
    with recorded(warned), torch.inference_mode(False):
        alone = follows_covers(options, run)
        fixed, types = with_fixed_background(options, rows, index, needs_background=not alone)
        with open_game(Task(fixed, rows, index)) as named:
            solver = solver_for(fixed, named, run, rows=EXPECTED_ROWS)
            blocks = blocks_of(solver, Clock(None), tol=run.tol)
            labelled = labelled_blocks(named_by(solver, named), blocks)
            overview = with_notes(join(list(labelled)), warned)
            prepared = PreparedExplainer(
                _without_notes(fixed),
                run,
                overview,
                minimum_budget=0,
                types=types,
                columns=columns_of_sample(rows, index, named.game.predict.adapted.feature_names),
                ids=ids,
                _opened=_Opened(named.game.predict.adapted, _exact_of(solver)),
            )
            sampled = sampling_of(solver)
            if sampled is None:
                return _of_exact(prepared)
            return _of_sampled(prepared, named.game, sampled.plans.resolved)


def _of_exact(prepared: PreparedExplainer) -> PreparedExplainer:
    """Return what was prepared of a model whose values are exact."""
    exact = prepared._exact_sum()
    run = replace(prepared.run, budget=prepared.run.budget or exact.evaluations)
    return replace(prepared, run=run, minimum_budget=exact.evaluations, is_exact=True)


def _of_sampled(prepared: PreparedExplainer, game: ModelGame, resolved: Run) -> PreparedExplainer:
    """Return what was prepared of a model that is sampled, with the calibration of the sample."""
    run = prepared.run
    options = prepared.options
    overview = prepared.overview
    usual = replace(run, budget=resolved.budget)
    if hasattr(run.method, "calibration"):
        # if all coalitions were evaluated, nothing was fitted; smaller budgets need a rule
        calibration = overview.calibration or Calibration.default(game.players)
        method = replace(run.method, calibration=calibration)  # type: ignore[type-var]
        usual = replace(usual, method=method)
        options = replace(options, method=method)
    return replace(
        prepared,
        options=options,
        run=usual,
        overview=replace(overview, method=name_of(resolved.method)),
        minimum_budget=game.cost * run.method.minimum(game),
    )


def with_fixed_background(
    options: Options, rows: Any, index: str | None = None, *, needs_background: bool = True
) -> tuple[Options, Mapping[str, Any] | None]:
    """Return options whose background is rows in the types in which they are mixed with rows.

    The types of columns come with them, if the model is given frames of pandas; else None.
    """
    with open_game(Task(options, rows, index), needs_background=needs_background) as named:
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
