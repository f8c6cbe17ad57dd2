"""The front door: model + rows + background + groups -> explanation.

Explainer(model, background)(rows)           all rows at once
Explainer(model, background).stream(rows)    block by block
Explainer(model, background).prepare(rows)   once, to explain blocks of other rows later
explain(model, rows, background=...)         the same in one call
explain_game(value, players=...)             any cooperative game
model_game(model, rows, background=...)      the game itself, to evaluate coalitions yourself
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from shearshap.data import Background, Groups
from shearshap.data.background import parse_background
from shearshap.data.players import Grouping
from shearshap.data.texts import TextGroups
from shearshap.engine.explain import solve
from shearshap.engine.loop import GameProgress
from shearshap.engine.open import open_game
from shearshap.engine.prepared import PreparedExplainer, prepare
from shearshap.engine.results import concatenated, with_notes
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.sampling import explained_blocks
from shearshap.errors import InputError, record, recorded
from shearshap.games.batches import FIRST_BATCH, Batch, Pace
from shearshap.games.game import FunctionGame
from shearshap.games.indices import InteractionName
from shearshap.games.loss import Loss
from shearshap.games.marginal import ModelGame, no_progress
from shearshap.games.structure import structure_of
from shearshap.interop.shap import constructor_takes_shap_options, half_pairs, takes_shap_options
from shearshap.methods.base import Method
from shearshap.models import Form, Output, Scale
from shearshap.numbers import positive_int
from shearshap.result.explanation import Explanation
from shearshap.trees.solver import base_value_by_covers


@constructor_takes_shap_options
@dataclass(frozen=True, eq=False, repr=False)
class Explainer(Options):
    """Explains a model's predictions: `Explainer(model, background)(rows)`.

    An explainer only holds options, so several threads can use the same one. Options of shap, such
    as `masker`, work here too, or raise an error that names ours.

    Parameters
    ----------
    model
        The model to explain:

        - a `torch.nn.Module`, which is put into eval mode during the call
        - a scikit-learn estimator or Pipeline
        - an XGBoost, LightGBM or CatBoost model
        - an ONNX Runtime session
        - a Hugging Face text classifier or language model with its tokenizer, as a pipeline or as
          a pair. For a language model, the log-probability of an `answer` is explained.
        - any function that returns an array (n,) or (n, k). It is called with the same kind of
          object as the rows: a numpy array (n, *shape), a tensor or a frame; with `text`, a list
          of strings.
    background
        What features are compared with. An absent feature takes its values from the background:

        - rows, such as the training rows. If there are more than 100, a sample of 100 is drawn.
        - ("sample", rows, n) or ("all", rows)
        - ("kmeans", rows, k): up to k of the rows near the centres of clusters, weighted by the
          size of their cluster
        - one row, or ("mean", rows), ("median", rows) or ("mode", rows). A category that equals
          the most frequent one then gets the value 0. A mean of integers turns the column into
          floats; a warning says if that changes the model's predictions.
        - one number for all inputs, such as 0
        - `Conditional(rows)`, if features move together: absent features are drawn given the
          present ones. Trees and linear models are then sampled, too.
        - the result of `shap.kmeans`, or a tabular masker of shap
        - None: a sample of up to 100 of the rows explained. Tree ensembles that can be explained
          exactly use the covers of their nodes instead, as `shap.TreeExplainer(model)` does
          (path-dependent values); boosted classifiers are explained on their margin.

        For a text classifier, it is the token that replaces an absent one, by default the
        tokenizer's mask. For language models and functions of texts it is "remove" (the default),
        or a text that replaces each absent part, such as "..."; for language models also "mask" or
        "pad", that token for each absent token.
    method
        A name in `METHODS`, an instance such as `Shear(unbiased=True)`, or "auto": exact if the
        budget allows all coalitions, otherwise the method with the smallest measured error. With
        "auto" and "exact", tree ensembles whose explained output is linear in their leaves (margins
        of boosters, predictions without a link, probabilities of scikit-learn forests) are
        explained exactly, whatever the number of features; `Explanation.method` is then
        "exact (trees)". The same holds for predictions and margins of scikit-learn linear models:
        "exact (linear)".
    groups
        Which inputs form a feature:

        - None: every input is a feature
        - lists of input columns, by number or name, one list per feature
        - a mapping from a feature's name to its columns; columns that are not in it are features by
          themselves
        - an integer mask of the input's shape; for an image, with or without its channels. Features
          are in the order of the mask's numbers.
        - the fitted transformer that made the columns
        - a hierarchy: a mapping inside a mapping (None stands for the column with the feature's
          name), or SciPy's linkage matrix of the columns. Features of a group join together, and
          the values are Owen values, for deeper hierarchies Winter values. `Explanation.fold` shows
          the groups.

        For texts, the parts of each text; all other text always stays:

        - "words" (the default), "tokens", "sentences", "lines" or "paragraphs"
        - the name of a field of a `Prompt`, or a list of names
        - "messages" of a chat, or the messages of a role, such as "user"
        - a compiled pattern, each match of which is a part
        - spans (start, end), or a mapping from names to spans or to pieces of the text
        - a function of the text that returns one of these
        - a tuple, for a hierarchy: ("documents", "sentences") are the sentences of each document
    output
        Which output to explain: the index or name of a class, several of them, or a function of the
        model's output. None: all outputs, which costs no extra evaluations. For a language model:
        None for the whole answer; "tokens" or "sentences" for the whole answer and then each of
        them.
    scale
        "probability", "log-odds", or "margin" (also called "logit": scores before they become
        probabilities). None: the margin of boosted classifiers, the probabilities of others, and
        what any other model returns.
    returns
        What the model returns, "probability" or "margin", if that is not known: for functions, and
        for networks and ONNX models, whose outputs count as margins unless the last layer is a
        sigmoid or softmax. Only needed with `scale`.
    multilabel
        Whether each output is a separate label, so that a row may have several labels, instead of
        one of several classes. Probabilities are then a sigmoid instead of a softmax. None: as the
        model says, otherwise classes.
    feature_names, output_names
        Names of the features and of the model's outputs, if they are not known or should be
        different. With `groups`, `feature_names` may also name each input column; `groups` can then
        use these names.
    batch_size
        Rows per model call. "auto" limits memory and, on a CPU, time: a batch of a slow model takes
        about a second. It is halved when memory runs out.
    device
        Where a torch module computes. None: where it is. Models of other libraries choose their
        device themselves.
    seed
        The same seed gives the same answer for the same call. How rows are split into batches or
        calls changes nothing beyond rounding, except for "kriging", and so for "auto": it fits a
        few numbers, its calibration, to the first rows of a call. To make calls agree, pass
        `method=Auto(calibration=explanation.calibration)`.
    drop_null
        Whether to leave out features that are equal in the row and in every background row. Their
        values are 0, and the whole budget goes to the other features. False treats them like all
        others, to compare methods as in the literature.
    semivalue
        How to average over the number of other features that are present when a feature is added:
        "shapley", all numbers alike; "banzhaf", each other feature with probability 1/2 (these
        values do not add up to the prediction); or one probability for each number, from 0 to all
        others. For the methods "auto", "kriging" and "exact", and for exact trees.
    loss
        Explain how well the model predicts each row instead of its prediction: "log loss" (of class
        probabilities), "mse", "mae", or a function of labels (n,) and predictions (n,) or (n, k)
        that returns losses (n,). A feature's value is by how much it reduces the loss of the mean
        prediction over the background rows, so a positive value means that the prediction is better
        with the feature. Trees are sampled, too. See also `importance`.
    y
        The labels of the rows, for a loss: names of classes, or numbers. They may also be passed
        with the rows.
    text
        For a function that maps n strings to numbers (n,) or (n, k): the parts of a text, such as
        "words"; it takes the same options as `groups`. True: words. A scikit-learn Pipeline that
        begins with a text vectorizer does not need it.
    """

    @takes_shap_options
    def __call__(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        tol: float | None = None,
        interactions: bool | int = False,
        interaction_index: InteractionName = "k-SII",
        deadline: float | None = None,
        y: Any = None,
        answer: str | Sequence[str] | int | None = None,
        index: Any = None,
        progress: bool | None = None,
        max_evals: int | Literal["auto"] | None = None,
        silent: bool | None = None,
    ) -> Explanation:
        """Explain rows by Shapley values, all at once.

        If the model fails on the way, or Ctrl-C stops the call, the error's `finished` is the
        explanation of the rows that were done.

        Parameters
        ----------
        rows
            (r, *shape), usually (r, d): an array, a tensor, or a pandas, polars or pyarrow frame; a
            tuple of arrays for a model with several inputs. A frame of another library than the
            background's, or with types of Arrow where that has numpy's, is converted to be like it.
            Zero rows give an explanation of zero rows. For a model of texts, a list of
            strings, of `Prompt` objects, or of chats, which are lists of messages
            {"role": ..., "content": ...}. A Series is one row of a pandas frame.
        budget
            Model evaluations per row, including base value and prediction. Default: 16 per feature,
            plus 2. With b background rows, of which at most 100 count, it is sqrt(b) times as many,
            and at least 2 * b per feature; for interactions, b times as many. It is never more than
            all coalitions need, nor less than the method's minimum. The method "exact" takes all
            coalitions, if these need at most 65,536 evaluations. Exact values of trees need one
            evaluation for the prediction, and one for each background row that was given. The
            evaluations that check the model are not included: see `Explanation.check_evaluations`.
            `max_evals` is shap's name for the budget, and its "auto" is None.
        tol
            Spend evaluations on a row only until its standard errors are below this tolerance, by
            so much that it is unlikely (below 5 %) that any of its values is off by more than twice
            the tolerance; see `Explanation.converged`. Without a budget, a row gets up to 8,192
            coalitions, or four times the default if that is more. A warning, which is also in
            `Explanation.notes`, says how many rows did not reach the tolerance.
        interactions
            Whether to estimate pairwise interactions, with standard errors, and cross-contributions
            within the same budget. A number from 3 on is the largest size of the sets of features:
            `Explanation.set_values` then has all sets up to that size.
        interaction_index
            "k-SII" (n-Shapley values, the default), "SII", "STII" (Shapley-Taylor) or "FSII"
            (faithful). All but "SII" add up to the prediction.
        deadline
            Seconds after which nothing more is started; it holds to within one model call. The
            finished rows are returned, `Explanation.index` says which, and a warning says how many
            are missing. If a method can stop early, rows that were cut short return the values so
            far, with their standard errors; see `Explanation.row_evaluations`. If there is no time
            for a single row, a `BudgetError` is raised. Kriging is calibrated to up to 16 rows.
        y
            The labels of the rows, for the explainer's `loss`.
        answer
            For a language model, the answer to explain: a text, or one per prompt. None: the model
            generates it, greedily, with at most 64 tokens; a number sets another limit.
        index
            Labels of the rows for `Explanation.index`: the name of a frame's column, which the
            model then does not see, or one label per row. None: the index of a pandas frame, or the
            row numbers.
        progress
            Whether to show a progress bar. None: in a terminal or notebook, after two seconds.
            `silent=True` turns the bar off, as in shap.
        """
        budget = _either("budget", budget, "max_evals", None if max_evals == "auto" else max_evals)
        shown = _either("progress", progress, "silent", False if silent else None)
        run = self.run(
            budget,
            tol=tol,
            interactions=interactions,
            interaction_index=interaction_index,
            deadline=deadline,
        )
        task = Task(self._with_labels(y), rows, index, answer)
        blocks = solve(task, replace(run, at_once=True), shown)
        return concatenated(_outside_inference_mode(blocks))

    def stream(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        tol: float | None = None,
        interactions: bool | int = False,
        interaction_index: InteractionName = "k-SII",
        deadline: float | None = None,
        y: Any = None,
        answer: str | Sequence[str] | int | None = None,
        index: Any = None,
        progress: bool | None = None,
    ) -> Iterator[Explanation]:
        """Yield the explanations of rows block by block, as soon as each is done.

        `Explanation.concat` of all blocks is what calling the explainer returns; see `__call__` for
        the parameters. A block is as large as memory allows. The model stays in eval mode until the
        last block is taken, or the iterator is closed.
        """
        run = self.run(
            budget,
            tol=tol,
            interactions=interactions,
            interaction_index=interaction_index,
            deadline=deadline,
        )
        task = Task(self._with_labels(y), rows, index, answer)
        return _outside_inference_mode(solve(task, run, progress))

    def prepare(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        tol: float | None = None,
        interactions: bool | int = False,
        interaction_index: InteractionName = "k-SII",
        index: str | None = None,
    ) -> PreparedExplainer:
        """Prepare on a sample of rows, and return an object that explains blocks of other rows.

        On the sample, the model is checked, the types of the background are fixed, trees are read,
        and kriging is calibrated. After that, `prepared.explain(block)` returns an `Explanation` in
        which a row's values depend neither on the rows beside it nor on earlier blocks.
        `prepared.table(block)` returns a table, for data engines. A few hundred rows are enough;
        their explanation is `prepared.overview`. `index` is a column of labels, which the model
        does not see; blocks need to have it, too. See `__call__` for the other parameters.
        """
        if index is not None and not isinstance(index, str):
            raise InputError(f"index: expected the name of a column, got {type(index).__name__}")
        run = self.run(
            budget, tol=tol, interactions=interactions, interaction_index=interaction_index
        )
        return prepare(self, rows, run, index)

    def _with_labels(self, y: Any) -> "Explainer":
        return self if y is None else replace(self, y=_either("y", y, "Explainer(y=)", self.y))

    # What shap's explainers have

    @takes_shap_options
    def shap_values(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        max_evals: int | Literal["auto"] | None = None,
        silent: bool | None = None,
    ) -> NDArray[np.float64]:
        """Return `explainer(rows).values`, (r, p), or (r, p, k) for several outputs, as in shap."""
        return self(rows, budget=budget, max_evals=max_evals, silent=silent).values

    @takes_shap_options
    def shap_interaction_values(
        self, rows: Any, *, budget: int | None = None, silent: bool | None = None
    ) -> NDArray[np.float64]:
        """Return interactions (r, p, p), or (r, p, p, k), half of each pair on either side.

        The diagonal holds main effects. A feature's row sums to its Shapley value.
        """
        return half_pairs(self(rows, budget=budget, silent=silent, interactions=True))

    @property
    def expected_value(self) -> Any:
        """The model's mean output for the background, a number or one per output (k,).

        It takes one evaluation per background row. For trees without a background it is the mean
        over the training data, by their covers. `Explanation.expected_value` has it, too.
        """
        row = None
        if self.background is not None:
            row = _row_of(parse_background(self.background).rows, self.model)
        if row is None:
            base = base_value_by_covers(self, self.run(None))
            if base is None:
                raise InputError(
                    "expected_value: expected background rows, got none; try "
                    "explainer(rows).expected_value"
                )
            return float(base[0]) if len(base) == 1 else base
        # nobody is present, so that any row will do
        with self.game(row) as game:
            nobody = torch.zeros((1, 1, game.players), dtype=torch.bool, device=game.device)
            base = game(nobody)[0, 0].cpu().numpy()
        return float(base[0]) if len(base) == 1 else base

    @contextmanager
    def game(
        self, rows: Any, advance: Callable[[int], object] = no_progress
    ) -> Iterator[ModelGame]:
        """Open the cooperative game of the model's predictions for rows; see `model_game`."""
        with torch.inference_mode(False), open_game(Task(self, rows), advance) as named:
            yield named.game

    def __repr__(self) -> str:
        """Return the kind of model and background, and the options that were set, in one line."""
        options = [
            f"{each.name}={_brief(getattr(self, each.name))}"
            for each in fields(self)
            if each.name not in ("model", "background")
            and getattr(self, each.name) is not each.default
        ]
        return f"Explainer({', '.join([_brief(self.model), _brief(self.background), *options])})"


@takes_shap_options
def explain(
    model: Any,
    rows: Any,
    *,
    background: Background | None = None,
    budget: int | None = None,
    method: str | Method = "auto",
    groups: Groups | TextGroups = None,
    output: Output = None,
    scale: Scale | None = None,
    returns: Form | None = None,
    multilabel: bool | None = None,
    feature_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    tol: float | None = None,
    interactions: bool | int = False,
    interaction_index: InteractionName = "k-SII",
    deadline: float | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    seed: int = 0,
    drop_null: bool = True,
    semivalue: str | Sequence[float] = "shapley",
    loss: Loss = None,
    y: Any = None,
    text: Groups | TextGroups | bool = None,
    answer: str | Sequence[str] | int | None = None,
    index: Any = None,
    progress: bool | None = None,
    reference: Background | None = None,
) -> Explanation:
    """Explain a model's predictions for rows by Shapley values, in one call.

    It does the same as `Explainer(model, background, ...)(rows, budget=budget, ...)`; see there for
    the parameters. `reference` is another name for `background`.
    """
    explainer = Explainer(
        model,
        _either("background", background, "reference", reference),
        method=method,
        groups=groups,
        output=output,
        scale=scale,
        returns=returns,
        multilabel=multilabel,
        feature_names=feature_names,
        output_names=output_names,
        batch_size=batch_size,
        device=device,
        seed=seed,
        drop_null=drop_null,
        semivalue=semivalue,
        loss=loss,
        y=y,
        text=text,
    )
    return explainer(
        rows,
        budget=budget,
        tol=tol,
        interactions=interactions,
        interaction_index=interaction_index,
        deadline=deadline,
        answer=answer,
        index=index,
        progress=progress,
    )


@contextmanager
def model_game(
    model: Any,
    rows: Any,
    *,
    background: Background | None = None,
    groups: Groups = None,
    output: Output = None,
    scale: Scale | None = None,
    returns: Form | None = None,
    multilabel: bool | None = None,
    feature_names: Sequence[str] | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    loss: Loss = None,
    y: Any = None,
    advance: Callable[[int], object] = no_progress,
    reference: Background | None = None,
) -> Iterator[ModelGame]:
    """Open the cooperative game of a model's predictions, which maps coalitions to values.

    Use it to evaluate coalitions yourself, or to measure an explanation. It takes the options of
    `explain`; `advance` is called with the number of evaluations of each batch.
    """
    explainer = Explainer(
        model,
        _either("background", background, "reference", reference),
        groups=groups,
        output=output,
        scale=scale,
        returns=returns,
        multilabel=multilabel,
        feature_names=feature_names,
        batch_size=batch_size,
        device=device,
        loss=loss,
        y=y,
    )
    with explainer.game(rows, advance) as game:
        yield game


def explain_game(
    value: Callable[[NDArray[np.bool_]], ArrayLike],
    *,
    players: int,
    groups: Groups = None,
    budget: int | None = None,
    method: str | Method = "auto",
    tol: float | None = None,
    interactions: bool | int = False,
    interaction_index: InteractionName = "k-SII",
    deadline: float | None = None,
    feature_names: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
    semivalue: str | Sequence[float] = "shapley",
) -> Explanation:
    """Explain any cooperative game, given as a function of coalitions.

    `value` takes a boolean array (coalitions, players) and returns one number per coalition, (c,),
    or several, (c, k). Each call gets as many coalitions as take about a second. The explanation
    has one row, and prints as a game. `feature_names` are the names of the players. `groups` joins
    players, by their numbers from 0, to one player or to a hierarchy. See `Explainer` for the other
    parameters.
    """
    if not callable(value):
        raise InputError(
            f"value: expected a function of coalitions (c, p), got {type(value).__name__}"
        )
    players = positive_int("players", players)
    grouped = Grouping(groups).players((players,))
    count = int(grouped.owner.max()) + 1
    names = player_names(feature_names or grouped.names or None, count)
    options = Options(value, method=method, seed=seed, semivalue=semivalue)
    run = options.run(
        budget,
        tol=tol,
        interactions=interactions,
        interaction_index=interaction_index,
        deadline=deadline,
    )
    shown = GameProgress(progress)
    batch = Batch(1 << 62, Pace(FIRST_BATCH))
    game = FunctionGame(
        value if groups is None else lambda sets: value(sets[:, grouped.owner]),
        count,
        batch=batch,
        advance=shown.evaluated,
        structure=structure_of(grouped.paths),
    )
    explanation = explained_game(game, run, shown)
    return replace(explanation, hierarchy=grouped.paths, feature_names=names, game="player")


def explained_game(game: FunctionGame, run: Run, progress: GameProgress) -> Explanation:
    """Return the explanation of one game, whose players have no names yet."""
    blocks = explained_blocks(game, run, progress, "game")
    return concatenated(_outside_inference_mode(blocks))


def player_names(names: Sequence[str] | None, players: int) -> list[str]:
    """Return the names of a game's players, x0, x1, ... by default, or raise."""
    if names is None:
        return [f"x{player}" for player in range(players)]
    texts = [str(name) for name in names]
    if isinstance(names, str) or len(texts) != players:
        raise InputError(f"feature_names: expected {players} names, got {_brief(names)}")
    if len(set(texts)) < players:
        twice = next(name for name in texts if texts.count(name) > 1)
        raise InputError(f"feature_names: expected names that differ, got {twice!r} twice")
    return texts


def _row_of(background: Any, model: Any) -> Any:
    """Return a row of a background's form; None if it does not show how many inputs there are."""
    if isinstance(background, tuple):
        return tuple(_row_of(part, model) for part in background)
    if isinstance(background, Mapping) or type(background).__name__ == "Series":
        import pandas as pd

        return pd.DataFrame({name: [cell] for name, cell in dict(background).items()})
    if isinstance(background, int | float):
        width = getattr(getattr(model, "__self__", model), "n_features_in_", None)
        return None if width is None else np.full((1, int(width)), float(background))
    rows = np.asarray(background) if isinstance(background, list) else background
    if not hasattr(rows, "shape"):
        return None
    return rows[:1] if len(rows.shape) > 1 else rows[None]


def _brief(content: Any) -> str:
    """Return what an option is in a few words: never the numbers of an array, or a network."""
    if content is None or isinstance(content, str | int | float | Method | torch.device):
        return repr(content)
    if isinstance(content, tuple):
        return f"({', '.join(map(_brief, content))})"
    kind = type(content).__name__
    if isinstance(content, list | dict):
        return f"<{kind} of {len(content)}>"
    if hasattr(content, "shape"):
        return f"<{kind} of shape {tuple(content.shape)}>"
    return f"<{kind} {content.__name__}>" if hasattr(content, "__name__") else f"<{kind}>"


def _outside_inference_mode(blocks: Generator[Explanation]) -> Generator[Explanation]:
    """Yield blocks made outside torch's inference mode, in which there are no derivatives.

    The mode is left for each block, and not for all of them: between two blocks it is the caller's.
    Each block knows the seconds that it took, and what was warned of meanwhile.
    """
    notes: list[str] = []
    # a stream that is closed early closes what it draws from, which gives the model back
    with closing(blocks):
        while True:
            started = time.perf_counter()
            warned = len(notes)
            with torch.inference_mode(False), recorded(notes):
                block = next(blocks, None)
            if block is None:
                record(notes[warned:])  # there is no block to hold them
                return
            block = with_notes(block, notes[warned:])
            yield replace(block, seconds=time.perf_counter() - started)


def _either(name: str, value: Any, other_name: str, other: Any) -> Any:
    """Return the value of an option that has two names, under whichever the user passed it."""
    if value is not None and other is not None:
        raise InputError(f"{name} and {other_name} mean the same; pass only one of them")
    return other if value is None else value
