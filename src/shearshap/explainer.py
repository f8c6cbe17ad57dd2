"""The straight line: model + rows + reference + groups -> game -> method -> design -> values ->
explanation.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from shearshap.adapters import (
    AdaptedModel,
    Output,
    Outputs,
    Predictor,
    Scale,
    adapt,
    checked_output,
    checked_scale,
)
from shearshap.engine.loop import solve
from shearshap.engine.progress import progress_bar
from shearshap.errors import BudgetError, InputError
from shearshap.explanation import Explanation
from shearshap.game import Batch, FunctionGame, ModelGame, automatic_batch
from shearshap.inputs import Background, Groups, Inputs, encode
from shearshap.methods.base import Method

EVALUATIONS_A_PLAYER = 16
"""What an `Explainer` spends on one row where no budget is given, but never more than all
coalitions.
"""


MOST_BACKGROUND = 1_000
"""Background rows beyond which a budget must be given."""


@dataclass(frozen=True, eq=False)
class Explainer:
    """A model and how to explain it; called with rows, it explains them.

    It holds options only: one explainer can explain from several threads.

    Parameters
    ----------
    model
        A `torch.nn.Module` (put into eval mode, and given back as it was), a scikit-learn estimator
        or Pipeline, a model of XGBoost, LightGBM or CatBoost, an ONNX Runtime session, a Hugging
        Face text classifier with its tokenizer (a pipeline, or both as a pair), or any function
        from a numpy array (n, *shape), or a frame, to an array (n,) or (n, k).
    background
        What an absent player is replaced with: one row; rows (b, *shape) to average over, at b
        evaluations a coalition; ("mean", rows), or "median" or "mode"; or the bare name, for the
        statistic of the rows explained. For texts: the token that stands for an absent one, by
        default the tokenizer's mask.
    method
        A name in `METHODS`, an instance such as `Shear(unbiased=True)`, or "auto": exact where the
        budget holds all coalitions, else the method with the smallest measured error.
    groups
        The players: None (every input is one), lists of input columns (numbers or names) per
        player, a mapping from a player's name to its columns (what it leaves out are players of
        their own), an integer mask of the input's shape, or the fitted transformer that made the
        columns. For texts: "words" or "tokens".
    output
        What of the model's output to explain: a class's index or name, several, or a function of
        the output; None: all of them, at no extra evaluations.
    scale
        "probability", "log-odds", "margin" or "logit" (the same: scores before they are made
        probabilities); None: what the model returns, and of a classifier with `predict_proba` the
        probabilities.
    feature_names, output_names
        Names of the players and of the model's outputs, where they are not known, or others are
        wanted.
    batch_size
        Model evaluations in one forward; "auto" bounds memory. Halved when memory runs out.
    device
        Where to compute; None: where the model is.
    seed
        Same seed, same answer, however rows are split over calls or batches.
    """

    model: Any
    background: Background | None = None
    _: KW_ONLY
    method: str | Method = "auto"
    groups: Groups | str = None
    output: Output = None
    scale: Scale | None = None
    feature_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    batch_size: int | Literal["auto"] = "auto"
    device: torch.device | str | None = None
    seed: int = 0

    def __call__(
        self,
        rows: Any,
        *,
        budget: int | None = None,
        tol: float | None = None,
        interactions: bool = False,
        progress: bool | None = None,
        max_evals: int | None = None,
        silent: bool | None = None,
    ) -> Explanation:
        """Explain rows by Shapley values, all at once.

        Parameters
        ----------
        rows
            (r, *shape), usually (r, d): an array, a tensor, a frame of pandas, polars or pyarrow; a
            tuple of arrays for a model of several inputs; texts for a text classifier.
        budget
            Model evaluations for one row, all of them, base value and prediction included;
            `max_evals` is the same by shap's name. None: 16 a player and two, or all coalitions
            where those are fewer, for each background row.
        tol
            Spend evaluations on a row only until all its standard errors are below this; see
            `Explanation.converged`.
        interactions
            Whether to tell pairwise interactions and cross-contributions too, within the same
            budget.
        progress
            Whether to show a progress bar; None: only in a terminal, after two seconds.
            `silent=True` is shap's word for never.
        """
        wanted = _either("budget", budget, "max_evals", max_evals)
        shown = _either(
            "progress", progress, "silent", None if silent is None else False if silent else None
        )
        seed = whole("seed", self.seed)
        if wanted is not None:
            wanted = whole("budget", wanted)
        text = _text_classifier(self.model)
        if text is not None:
            return text.explain(  # type: ignore[no-any-return]
                self, rows, budget=wanted, tol=tol, interactions=interactions, progress=shown
            )
        with (
            progress_bar(shown, unit=" evaluations", unit_scale=True) as bar,
            self._game(rows, bar.update) as opened,
        ):
            game, inputs = opened
            spend = default_budget(game) if wanted is None else wanted
            bar.total = game.rows * spend
            found = solve(game, self.method, spend, seed, tol=tol, interactions=interactions)
        return self._labelled(found, inputs, game.predict.outputs)

    @contextmanager
    def _game(
        self, rows: Any, advance: Callable[[int], object]
    ) -> Iterator[tuple[ModelGame, Inputs]]:
        """Open the game of the model's predictions for rows, after all that was given is checked."""
        output = checked_output(self.output)
        scale = checked_scale(self.scale, output)
        if self.background is None:
            raise InputError(
                "background: say what an absent player is replaced with, for example ('mean', "
                "train)"
            )
        with torch.inference_mode(False), adapt(self.model, scale, self.device) as adapted:
            outputs = self._outputs(output, scale, adapted)
            outputs.check()
            inputs = encode(rows, self.background, self.groups, adapted)
            _check_names(self.feature_names, int(inputs.owner.max()) + 1)
            told = replace(adapted, differentiable=adapted.differentiable and inputs.smooth)
            yield self._opened(Predictor(told, outputs, inputs.decode), inputs, advance), inputs

    def _outputs(self, output: Output, scale: Scale | None, adapted: AdaptedModel) -> Outputs:
        given = self.output_names is not None
        names = tuple(self.output_names or adapted.output_names)
        return Outputs(output, scale, adapted.form, names, adapted.independent, checked=given)

    def _opened(
        self, predict: Predictor, inputs: Inputs, advance: Callable[[int], object]
    ) -> ModelGame:
        auto = self.batch_size == "auto"
        size = (
            automatic_batch(predict, inputs.owner.size)
            if auto
            else whole("batch_size", self.batch_size)
        )
        mixed = (inputs.rows, inputs.background)
        return ModelGame(
            predict,
            *mixed,
            torch.as_tensor(inputs.owner, device=predict.device),
            inputs.shape,
            int(inputs.owner.max()) + 1,
            Batch(size),
            advance,
            # where nothing may be missing, that was checked when the rows were read
            finite=not predict.adapted.takes_missing
            or all(bool(torch.isfinite(part).all()) for part in mixed),
        )

    def _labelled(self, found: Explanation, inputs: Inputs, outputs: Outputs) -> Explanation:
        """Return an explanation with the names and values of its players and outputs."""
        return replace(
            found,
            feature_names=list(self.feature_names or inputs.names),
            output_names=outputs.chosen_names(
                found.values.shape[2] if found.values.ndim == 3 else 1
            ),
            data=inputs.data,
            display_data=inputs.display_data,
        )


def explain(
    model: Any,
    rows: Any,
    *,
    reference: Background,
    budget: int,
    method: str | Method = "auto",
    groups: Groups = None,
    output: Output = None,
    scale: Scale | None = None,
    tol: float | None = None,
    interactions: bool = False,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Explanation:
    """Explain a model's predictions for many rows at once by Shapley values.

    `Explainer(model, reference, ...)(rows, budget=budget, ...)` in one call; see there for the
    parameters.
    """
    whole("budget", budget)
    explainer = Explainer(
        model, reference, method=method, groups=groups, output=output, scale=scale, batch_size=batch_size,
        device=device, seed=seed,
    )  # fmt: skip
    return explainer(rows, budget=budget, tol=tol, interactions=interactions, progress=progress)


@contextmanager
def model_game(
    model: Any,
    rows: Any,
    *,
    reference: Background,
    groups: Groups = None,
    output: Output = None,
    scale: Scale | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: torch.device | str | None = None,
    advance: Callable[[int], object] = lambda _evaluations: None,
) -> Iterator[ModelGame]:
    """Open the cooperative game of a model's predictions, which maps coalitions of players to
    values.

    For those who want to ask coalitions of their own, or to measure an explanation
    (`shearshap.paper.metrics`). The options are those of `explain`; `advance` is told how many
    evaluations each batch took.
    """
    explainer = Explainer(
        model, reference, groups=groups, output=output, scale=scale, batch_size=batch_size, device=device
    )  # fmt: skip
    with explainer._game(rows, advance) as (game, _):
        yield game


def explain_game(
    value: Callable[[NDArray[np.bool_]], ArrayLike],
    *,
    players: int,
    budget: int,
    method: str | Method = "auto",
    tol: float | None = None,
    interactions: bool = False,
    seed: int = 0,
) -> Explanation:
    """Explain any cooperative game: `value` maps coalitions (c, p) of bool to values (c,) or (c,
    k).

    The explanation has one row. See `Explainer` for `budget`, `method`, `tol`, `interactions` and
    `seed`.
    """
    if not callable(value):
        raise InputError(
            f"value: wanted a function of coalitions (c, p), got {type(value).__name__}"
        )
    players, budget, seed = whole("players", players), whole("budget", budget), whole("seed", seed)
    with torch.inference_mode(False):
        return solve(
            FunctionGame(value, players), method, budget, seed, tol=tol, interactions=interactions
        )


def _check_names(names: Sequence[str] | None, players: int) -> None:
    if names is not None and len(names) != players:
        raise InputError(f"feature_names: wanted {players}, one for each player, got {len(names)}")


def _text_classifier(model: Any) -> Any:
    """Return the text classifier, if a model is one: a `transformers` pipeline, or a pair with a
    tokenizer.
    """
    if not isinstance(model, tuple) and type(model).__module__.partition(".")[0] != "transformers":
        return None
    from shearshap.adapters.text import text_classifier

    return text_classifier(model)


def default_budget(game: ModelGame) -> int:
    """Return the evaluations to spend on a row where no budget is given."""
    if game.cost > MOST_BACKGROUND:
        raise BudgetError(
            f"each of the {game.cost:,} background rows is asked for every coalition; pass "
            "('mean', background), fewer "
            "rows, or a budget that allows for them"
        )
    several = 2 + EVALUATIONS_A_PLAYER * game.players
    return game.cost * (min(several, 1 << game.players) if game.players < 16 else several)


def whole(name: str, number: Any) -> int:
    """Return an option that must be a positive integer, or a seed, which may be 0."""
    error = BudgetError if name == "budget" else InputError
    counts = isinstance(number, int | np.integer) and not isinstance(number, bool)
    smallest = 0 if name == "seed" else 1
    if not counts or number < smallest:
        raise error(
            f"{name}: wanted {'an integer from 0' if name == 'seed' else 'a positive integer'}, "
            f"got {number!r}"
        )
    return int(number)


def _either(name: str, given: Any, other_name: str, other: Any) -> Any:
    """Return the one that was given of two spellings of an option."""
    if given is not None and other is not None:
        raise InputError(f"{name} and {other_name} are the same; give one of the two")
    return other if given is None else given
