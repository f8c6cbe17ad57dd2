"""A model's trees, what they see of the rows that the model is given, and whose it is.

A model is read through what is around its trees:

    model.predict_proba            the bound method of an estimator
    GridSearchCV                   predicts by the best estimator that it has found
    Pipeline                       its transformers make the columns that the trees see
    XGBClassifier, ...             the trees

    the model's columns            city              age       owned by players 1 and 0
    after the transformers         city_a  city_b    age
    as the trees see them          0       1         2
    owner                          1       1         0
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shearshap.data import Inputs
from shearshap.errors import InputError
from shearshap.models.scores import method_of_estimator
from shearshap.models.sklearn import as_taken, booster_library, source_positions
from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.readers.reading import NotTrees, read

#: Classes of scikit-learn whose models are trees; each has a classifier and a regressor.
_ESTIMATORS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
_BOOSTERS = ("GradientBoosting", "HistGradientBoosting")

#: Transformers that name their columns as if each were made of one, but look at the others.
_MIXING = ("KNNImputer", "IterativeImputer", "Normalizer")


@dataclass(frozen=True, eq=False)
class SeenTrees:
    """A forest, and how it sees the rows that the model is given."""

    forest: Forest
    see: Callable[[Any], Floats]  #: rows as the model takes them, to (r, d')
    owner: Integers  #: (d',) the player that owns each column that is seen


def innermost(model: Any) -> Any:
    """Return the estimator in a bound method and a Pipeline: it may have trees."""
    estimator = _estimator(model)
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else estimator


def has_trees(model: Any) -> bool:
    """Return whether a model is known to be made of trees, whether they can be read or not."""
    return booster_library(innermost(model)) is not None or _is_named(
        model, _ESTIMATORS + _BOOSTERS
    )


def is_boosted(model: Any) -> bool:
    """Return whether a model of trees adds up margins, so that probabilities need a link."""
    return booster_library(innermost(model)) is not None or _is_named(model, _BOOSTERS)


def _is_named(model: Any, names: tuple[str, ...]) -> bool:
    """Return whether a model extends an estimator of scikit-learn of one of these names."""
    kinds = {f"{name}{kind}" for name in names for kind in ("Classifier", "Regressor")}
    return any(
        ancestor.__name__ in kinds and ancestor.__module__.startswith("sklearn.")
        for ancestor in type(innermost(model)).__mro__
    )


def seen_trees(model: Any, inputs: Inputs) -> SeenTrees:
    """Return the trees of a model for its encoded rows; raise `NotTrees` with the reason."""
    if len(inputs.shape) != 1:
        raise NotTrees("the rows have more axes than one")
    trees = read(innermost(model))
    column = _input_columns(model, inputs)
    if len(trees.columns) and trees.columns.max() >= len(column):
        raise NotTrees("the trees ask for more columns than the rows have")
    return SeenTrees(trees.forest, _sight(model, trees.see), inputs.owner[column[trees.columns]])


def _estimator(model: Any) -> Any:
    """Return the estimator whose bound method a model is, or that a search has found, or both."""
    owner = method_of_estimator(model)
    estimator = model if owner is None else owner
    return getattr(estimator, "best_estimator_", estimator)


def _transformers(model: Any) -> Any:
    """Return the transformers of a Pipeline as one; None where there are none."""
    estimator = _estimator(model)
    if innermost(model) is estimator or len(estimator.steps) == 1:
        return None
    return estimator[:-1]


def _input_columns(model: Any, inputs: Inputs) -> Integers:
    """Return which input each column is made of that the last estimator is given."""
    order = np.arange(len(inputs.owner)) if inputs.order is None else inputs.order
    transformers = _transformers(model)
    if transformers is None:
        return order
    _refuse_mixing(transformers)
    try:
        return order[source_positions(transformers)]
    except InputError as error:
        raise NotTrees(str(error).removeprefix("groups: ").partition(";")[0]) from error
    except Exception as error:  # every transformer has errors of its own
        raise NotTrees(
            f"nothing says which columns the Pipeline's steps make of which ({error})"
        ) from error


def _refuse_mixing(transformer: Any) -> None:
    """Raise if a transformer, anywhere in a Pipeline, makes a column of several."""
    parts = [step for _, step in getattr(transformer, "steps", ())]
    parts += [part for _, part, _ in getattr(transformer, "transformers_", ())]
    for part in parts:
        _refuse_mixing(part)
    name = type(transformer).__name__
    if name in _MIXING:
        raise NotTrees(f"{name} makes each column of several")


# How trees see rows


def _sight(model: Any, see: Callable[[Any], Floats]) -> Callable[[Any], Floats]:
    """Return the function from rows as the model takes them to what its trees see."""
    transformers = _transformers(model)
    if transformers is None:
        return see
    taken = as_taken(_estimator(model))
    # to XGBoost, what a sparse matrix leaves out is missing; to all others, it is 0
    absent = np.nan if booster_library(innermost(model)) == "xgboost" else 0.0
    return lambda rows: see(_dense(transformers.transform(taken(rows)), absent))


def _dense(made: Any, absent: float) -> Any:
    """Return a sparse matrix as an array; anything else as it is."""
    if not hasattr(made, "tocoo"):
        return made
    cells = made.tocoo()
    array = np.full(made.shape, absent)
    array[cells.row, cells.col] = cells.data
    return array
