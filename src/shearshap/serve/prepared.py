"""A model that is loaded, checked and calibrated once, and then explains block after block.

What an `Explainer` finds out anew in each call is found out here once, on the rows loaded: the
types in which rows and background are mixed, the background itself, kriging's calibration, and the
designs for each budget. So a row's answer depends neither on its neighbours nor on who came before.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.engine.clock import Clock
from shearshap.engine.loop import explained_blocks
from shearshap.engine.plans import Plans
from shearshap.engine.run import Run, default_budget
from shearshap.engine.sampling import NamedGame, labelled_blocks, open_game
from shearshap.engine.task import Task
from shearshap.errors import BudgetError, ModelError, ShearWarning
from shearshap.explainer import Explainer
from shearshap.games.game import ModelGame
from shearshap.jobs.job import Job, errors_with_files, explainer_of, open_files, our_warnings_as
from shearshap.methods import name_of
from shearshap.methods.kriging.method import fewest_in_pairs
from shearshap.result.explanation import Explanation
from shearshap.serve.encoding import ColumnEncoding, FrameEncoding, Rows
from shearshap.serve.features import Feature, cells_of, features_of
from shearshap.trees.exact_forest import ExactForest
from shearshap.trees.forest import UnsupportedTrees
from shearshap.trees.forests import exact_forest, note_on, wants_trees

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Advance = Callable[[int], None]

SAMPLE = 200
"""Rows loaded that are explained at the start, for the global view and the calibration."""

SERVED_ROWS = 10_000
"""Rows for which trees are prepared: as many as make it worth its time."""

KEPT_PLANS = 16
"""Budgets whose designs are kept."""


def _unseen(_evaluations: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, eq=False)
class Form:
    """How rows are given to the model: the task, which only lacks the rows, and their encoding."""

    task: Task
    encode: Callable[[Rows], Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """The explanations of a block's rows, with an axis of outputs."""

    values: Floats  #: (r, k, p)
    standard_errors: Floats | None  #: (r, k, p); None: the method has none
    base_values: Floats  #: (r, k)
    predictions: Floats  #: (r, k)
    evaluations: NDArray[np.int64]  #: (r,)
    method: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, explanation: Explanation, notes: Sequence[str]) -> "Answers":
        """Return an explanation as answers."""
        rows = len(explanation)
        spent = explanation.row_evaluations
        if spent is None:
            spent = np.full(rows, explanation.evaluations, dtype=np.int64)
        return cls(
            _outputs_first(explanation.values),
            None
            if explanation.standard_errors is None
            else _outputs_first(explanation.standard_errors),
            explanation.base_values.reshape(rows, -1),
            explanation.predictions.reshape(rows, -1),
            spent,
            explanation.method,
            tuple(dict.fromkeys((*explanation.notes, *notes))),
        )

    @classmethod
    def concat(cls, parts: Sequence["Answers"]) -> "Answers":
        """Return the answers of several blocks as one."""
        errors = [part.standard_errors for part in parts if part.standard_errors is not None]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate(errors) if len(errors) == len(parts) else None,
            np.concatenate([part.base_values for part in parts]),
            np.concatenate([part.predictions for part in parts]),
            np.concatenate([part.evaluations for part in parts]),
            ", ".join(dict.fromkeys(part.method for part in parts)),
            tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )

    def take(self, rows: slice) -> "Answers":
        """Return the answers of some of the rows."""
        errors = self.standard_errors
        return replace(
            self,
            values=self.values[rows],
            standard_errors=None if errors is None else errors[rows],
            base_values=self.base_values[rows],
            predictions=self.predictions[rows],
            evaluations=self.evaluations[rows],
        )


def _outputs_first(array: Floats) -> Floats:
    """Return an array (r, p) or (r, p, k) as (r, k, p)."""
    return array[:, None] if array.ndim == 2 else np.swapaxes(array, 1, 2)


@dataclass(eq=False)
class Prepared:
    """A model ready to explain rows; one thread at a time may call it."""

    model: str  #: its name, for people
    background: str  #: in words
    rows: "pd.DataFrame"  #: those loaded
    features: tuple[Feature, ...]
    groups: dict[str, list[str]]  #: columns that are one player, by its name
    form: Form
    run: Run  #: with the calibration, and the default budget
    overview: Explanation  #: of a sample of the rows loaded
    least_budget: int
    notes: tuple[str, ...]
    forest: ExactForest | None = None  #: of a model of trees whose values are exact

    def __post_init__(self) -> None:
        """Begin without any plans."""
        self._plans: OrderedDict[int, Plans] = OrderedDict()

    @property
    def budget(self) -> int:
        """The evaluations to spend on a row where a request says nothing else."""
        assert self.run.budget is not None
        return self.run.budget

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs that are explained."""
        return self.overview.output_names

    def explain(self, rows: Rows, budget: int | None = None, advance: Advance = _unseen) -> Answers:
        """Explain rows of cells, all of them as one block, or raise a `ShearError`.

        `advance` is called with the number of evaluations of each batch; it may raise one, too.
        """
        run = replace(self.run, budget=budget or self.budget)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ShearWarning)
            explanation = self._explained(rows, run, advance)
        notes = [str(each.message) for each in caught if issubclass(each.category, ShearWarning)]
        return Answers.of(explanation, notes)

    def _explained(self, rows: Rows, run: Run, advance: Advance) -> Explanation:
        try:
            task = replace(self.form.task, rows=self.form.encode(rows))
            with torch.inference_mode(False), open_game(task, advance) as named:
                if self.forest is None:
                    return self._sampled(named.game, run)
                return self._by_trees(self.forest, named, run)
        except SystemExit as error:
            raise ModelError(f"the model's code called exit (with {error.code!r})") from error

    def _sampled(self, game: ModelGame, run: Run) -> Explanation:
        plans = self._plans_of(game, run)
        blocks = list(explained_blocks(game, run, plans=plans))
        # rows with few active players may be exact; that must not show in their neighbours' answers
        return replace(Explanation.concat(blocks), method=name_of(plans.settled.method))

    def _by_trees(self, forest: ExactForest, named: NamedGame, run: Run) -> Explanation:
        try:
            blocks = list(forest.blocks(named.game, run, Clock(None), _unseen, checked=True))
            return Explanation.concat(blocks)
        except UnsupportedTrees as refusal:
            # the budget that exact values take is too small for others
            usual = replace(run, budget=replace(run, budget=None).on(named.game).budget)
            note = note_on(str(refusal), self.form.task.model, named)
            sampled = self._sampled(named.game, usual)
            return replace(sampled, notes=(*sampled.notes, note))

    def _plans_of(self, game: ModelGame, run: Run) -> Plans:
        """Return the plans of a budget, those of an earlier block where there were any."""
        assert run.budget is not None
        plans = self._plans.pop(run.budget, None) or Plans(game, run)
        self._plans[run.budget] = plans
        if len(self._plans) > KEPT_PLANS:
            self._plans.popitem(last=False)
        return plans


def prepare(job: Job, *, sample: int = SAMPLE) -> Prepared:
    """Open a job's files, explain a sample of its rows, and return what explains any others."""
    opened = open_files(job)
    notes = opened.notes
    with our_warnings_as(notes), errors_with_files(job.data, opened.background):
        explainer = explainer_of(job, opened.model, opened.background)
        features = features_of(opened.rows)
        form = _form(explainer, opened.rows, features)
        chosen = cells_of(_evenly_spaced(opened.rows, sample))
        run = Run.of(
            explainer.method,
            job.budget,
            tol=job.tol,
            seed=explainer.seed,
            drop_null=explainer.drop_null,
        )
        found = _explained_sample(form, chosen, run)
        overview = found.overview
        if found.forest is None:
            settled = _settled(run, form, chosen, found)
            overview = replace(overview, method=name_of(run.on(found.game).method))
            least_budget = found.game.cost * run.method.minimum(found.game)
        else:
            least_budget = found.forest.evaluations
            settled = replace(run, budget=run.budget or least_budget)

    return Prepared(
        model=opened.model.name,
        background=opened.background.description,
        rows=opened.rows,
        features=features,
        groups={name: list(columns) for name, columns in job.groups.items()},
        form=form,
        run=settled,
        overview=overview,
        least_budget=least_budget,
        notes=tuple(dict.fromkeys((*notes, *overview.notes))),
        forest=found.forest,
    )


def _form(explainer: Explainer, rows: "pd.DataFrame", features: Sequence[Feature]) -> Form:
    """Return how to give rows to the model, as the rows loaded say."""
    task = explainer._task(rows, None)
    with open_game(task, _unseen) as named:
        first = named.inputs.decode(named.inputs.rows[:1])
        background = named.inputs.decode(named.inputs.background)

    # a model that takes frames is given them in the types that rows and background have in common
    takes_frames = hasattr(first, "columns")
    types = dict((first if takes_frames else rows).dtypes)
    fixed = replace(task, background=background)
    frames = FrameEncoding(features, types)
    set_by_user = (task.groups, task.output_names, task.returns, task.multilabel)
    is_plain = all(option is None for option in set_by_user)
    if hasattr(task.model, "encoded_") and takes_frames and is_plain:
        return _encoded_form(fixed, frames)
    return Form(fixed, frames)


def _encoded_form(task: Task, frames: FrameEncoding) -> Form:
    """Return the form of a model that encodes column by column: encoded rows are mixed."""
    module, encode, groups = task.model.encoded_
    inside = replace(
        task,
        model=module,
        background=torch.from_numpy(encode(task.background)),
        groups=groups,
        scale=task.scale or "probability",
        returns="margin",
        output_names=[str(name) for name in task.model.classes_],
    )
    return Form(inside, ColumnEncoding(frames, encode, groups))


def _evenly_spaced(rows: "pd.DataFrame", count: int) -> "pd.DataFrame":
    places = np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))
    return rows.iloc[places].reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class _Sample:
    """A sample of rows, explained."""

    overview: Explanation
    game: ModelGame
    forest: ExactForest | None  #: None: the model is not explained by trees


def _explained_sample(form: Form, rows: Rows, run: Run) -> _Sample:
    """Explain a sample of rows."""
    task = replace(form.task, rows=form.encode(rows))
    with torch.inference_mode(False), open_game(task, _unseen) as named:
        note = None
        if wants_trees(task.model, run):
            try:
                forest = exact_forest(task.model, named, run, rows=SERVED_ROWS)
                blocks = forest.blocks(named.game, run, Clock(None), _unseen)
                overview = Explanation.concat(list(labelled_blocks(named, blocks)))
                return _Sample(overview, named.game, forest)
            except UnsupportedTrees as refusal:
                note = note_on(str(refusal), task.model, named)
        blocks = explained_blocks(named.game, run)
        overview = Explanation.concat(list(labelled_blocks(named, blocks)))
        if note is not None:
            overview = replace(overview, notes=(*overview.notes, note))
        return _Sample(overview, named.game, None)


def _settled(run: Run, form: Form, rows: Rows, found: _Sample) -> Run:
    """Return the run with its budget, and with kriging's calibration where it has one."""
    budget = run.on(found.game).budget
    method = run.method
    if not hasattr(method, "calibration"):
        return replace(run, budget=budget)
    calibration = found.overview.calibration
    if calibration is None:
        calibration = _calibration_below(run, form, rows, found.game)
    calibrated = replace(method, calibration=calibration)  # type: ignore[type-var]
    return replace(run, method=calibrated, budget=budget)


def _calibration_below(run: Run, form: Form, rows: Rows, game: ModelGame) -> Any:
    """Return the calibration for budgets that do not hold all coalitions, where the default does.

    None where such budgets need none, since there are too few players.
    """
    try:
        usual = default_budget(game) // game.cost
    except BudgetError:  # of very many background rows
        return None
    coalitions = min(usual, (1 << game.players) - 2)
    if coalitions < fewest_in_pairs(game.players):
        return None
    below = _explained_sample(form, rows, replace(run, budget=coalitions * game.cost))
    return below.overview.calibration
