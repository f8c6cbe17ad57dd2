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

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from shearshap.data import Inputs
from shearshap.models.sklearn import (
    LABELLERS,
    booster_library,
    estimator_rows,
    extends,
    kind_of,
    method_of_estimator,
    source_positions,
)
from shearshap.trees.forest import Floats, Integers, TreeModel, UnsupportedTrees
from shearshap.trees.readers import READERS, first_line, read
from shearshap.trees.readers.sklearn import BOOSTED, FORESTS, HIST, SINGLE

#: Methods that predictions are made by.
_PREDICTS = re.compile("^(?!set_).*(predict|decision_function|validate_X|preprocess_X)")

#: Transformers of scikit-learn that make each column of one: any other has to prove it, unless it
#: chooses columns.
_COLUMN_BY_COLUMN = {
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "TargetEncoder",
}

#: Transformers of scikit-learn that hold others, and the attribute that does.
_CONTAINERS = {
    "ColumnTransformer": "transformers_",
    "FeatureUnion": "transformer_list",
    "Pipeline": "steps",
}


def innermost(model: Any) -> Any:
    """Return the estimator in a bound method and a Pipeline: it may have trees."""
    estimator = _estimator(model)
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else estimator


def has_trees(model: Any) -> bool:
    """Return whether a model is known to be made of trees, whether they can be read or not."""
    return is_boosted(model) or extends(innermost(model), SINGLE + FORESTS)


def is_boosted(model: Any) -> bool:
    """Return whether a model of trees adds up margins, so that probabilities need a link."""
    last = innermost(model)
    return booster_library(last) is not None or extends(last, BOOSTED + HIST)


def tree_model(model: Any, inputs: Inputs) -> TreeModel:
    """Return the trees of a model for its encoded rows, with the players that own their columns.

    Raise `UnsupportedTrees` with the reason if the model may answer by something else.
    """
    trees = read(innermost(model))
    columns = seen_columns(model, inputs, trees.owner, trees.preprocess)
    return replace(trees, **columns._asdict())


class SeenColumns(NamedTuple):
    """The columns that a model's last estimator is given."""

    preprocess: Callable[[Any], Floats]  #: rows as the model takes them, to float64 (r, d')
    owner: Integers  #: (d',) the player that owns each
    unknown: tuple[str, ...]  #: transformers that may make a column of several


def seen_columns(
    model: Any, inputs: Inputs, used: Integers, to_numbers: Callable[[Any], Floats]
) -> SeenColumns:
    """Return the columns (d',) that are `used` of those that a model's last estimator is given.

    `to_numbers` maps the rows that this estimator is given to numbers (r, d'). Raise
    `UnsupportedTrees` if the model may answer by something else, or if the columns are not known.
    """
    if len(inputs.shape) != 1:
        raise UnsupportedTrees("the rows have more than one dimension")
    _refuse_other_methods(model)
    column = _input_columns(model, inputs)
    if len(used) and used.max() >= len(column):
        raise UnsupportedTrees("the model uses more columns than the rows have")
    return SeenColumns(
        _preprocess(model, to_numbers),
        inputs.owner[column[used]],
        tuple(dict.fromkeys(_unknown(_transformers(model)))),
    )


def _refuse_other_methods(model: Any) -> None:
    """Raise if a model may answer by something else than the leaves of its trees."""
    owner = method_of_estimator(model)
    if owner is not None and _library(model) not in READERS:
        raise UnsupportedTrees(
            f"{model.__name__} is not the library's own: it may change the prediction"
        )
    last = innermost(model)
    labels = kind_of(owner) in LABELLERS or getattr(last, "objective", None) == "binary:hinge"
    if owner is not None and model.__name__ == "predict" and labels:
        raise UnsupportedTrees(f"{type(owner).__name__}.predict returns labels, which are not sums")

    members = np.ravel(getattr(last, "estimators_", ()))  # of a forest, which asks its trees
    parts = [model if owner is None else owner, _estimator(model), last, *members]
    replaced = [name for part in parts for name in _replaced_on(part)]
    replaced += [name for kind in dict.fromkeys(map(type, parts)) for name in _replaced_in(kind)]
    if replaced:
        raise UnsupportedTrees(
            f"{replaced[0]} is not the library's own: it may change the prediction"
        )


def _replaced_on(part: Any) -> Iterator[str]:
    """Yield the methods of an instance that take the place of its class's."""
    for name, attribute in vars(part).items():
        if callable(attribute) and _PREDICTS.search(name) and hasattr(type(part), name):
            yield f"{type(part).__name__}.{name}"


def _replaced_in(kind: type) -> Iterator[str]:
    """Yield the methods of a class, or of its ancestors, that take the place of a library's."""
    known = [ancestor for ancestor in kind.__mro__ if _library(ancestor) in READERS]
    names = dict.fromkeys(name for ancestor in known for name in vars(ancestor))
    for name in filter(_PREDICTS.search, names):
        first = next(ancestor for ancestor in kind.__mro__ if name in vars(ancestor))
        if not {_library(first), _library(vars(first)[name])} <= {*READERS, ""}:
            yield f"{first.__name__}.{name}"


def _library(item: Any) -> str:
    """Return the package that a class or a function is defined in; "" if it does not say."""
    return str(getattr(item, "__module__", None) or "").partition(".")[0]


def _estimator(model: Any) -> Any:
    """Return the estimator whose bound method a model is, or that a search has found, or both."""
    owner = method_of_estimator(model)
    estimator = model if owner is None else owner
    return getattr(estimator, "best_estimator_", estimator)


def _transformers(model: Any) -> Any:
    """Return the transformers of a Pipeline as one; None if there are none."""
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
    try:
        return order[source_positions(transformers)]
    except Exception as error:  # every transformer has its own errors
        reason = first_line(error).removeprefix("groups: ").partition(";")[0]
        raise UnsupportedTrees(
            f"it is not known which columns the Pipeline's steps make from which ({reason})"
        ) from error


def _unknown(transformer: Any) -> Iterator[str]:
    """Yield the names of transformers, in a Pipeline, that may make a column of several."""
    if transformer is None or isinstance(transformer, str):  # "passthrough" or "drop"
        return
    kind = type(transformer)
    is_own = _library(kind) == "sklearn" and "transform" not in vars(transformer)
    if is_own and kind.__name__ in _CONTAINERS:
        for _, part, *_ in getattr(transformer, _CONTAINERS[kind.__name__]):
            yield from _unknown(part)
    elif not is_own or not _works_by_column(transformer):
        yield kind.__name__


def _works_by_column(transformer: Any) -> bool:
    """Return whether a transformer of scikit-learn is known to make each column of one."""
    name = type(transformer).__name__
    if name != "FunctionTransformer":
        return name in _COLUMN_BY_COLUMN or hasattr(transformer, "get_support")
    function = transformer.func
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1)


# Rows


def _preprocess(model: Any, of_reader: Callable[[Any], Floats]) -> Callable[[Any], Floats]:
    """Return the function from rows as the model takes them to what its trees see."""
    transformers = _transformers(model)
    # to XGBoost, what a sparse matrix leaves out is missing; to all others, it is 0
    absent = np.nan if booster_library(innermost(model)) == "xgboost" else 0.0

    def preprocess(rows: Any) -> Floats:
        made = rows
        if transformers is not None:
            given = estimator_rows(rows)
            try:
                made = _dense(transformers.transform(given), absent)
            except Exception as error:  # every transformer has its own errors
                reason = first_line(error)
                raise UnsupportedTrees(f"the Pipeline's steps fail ({reason})") from error
        try:
            return of_reader(made)
        except (TypeError, ValueError) as error:  # of words, for example
            raise UnsupportedTrees(
                f"the columns that the model sees are not known ({error})"
            ) from error

    return preprocess


def _dense(made: Any, absent: float) -> Any:
    """Return a sparse matrix as an array; anything else as it is."""
    if not hasattr(made, "tocoo"):
        return made
    cells = made.tocoo()
    array = np.full(made.shape, absent)
    array[cells.row, cells.col] = cells.data
    return array
