"""scikit-learn estimators and Pipelines, and any other object that predicts.

What is explained is what the model says about a row: a classifier's probabilities, or its margins
if it has no others, an outlier detector's score, the log-density of a density model, a regressor's
prediction. Labels of classes and clusters are not numbers, and are not explained as if they were.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from torch import nn

from shearshap.errors import InputError, warn
from shearshap.models.base import MARGINS, AdaptedModel, Form, Scale, libraries

Method = Callable[[Any], Any]

#: Methods by which an object can predict.
PREDICTIONS = ("predict", "predict_proba", "decision_function", "score_samples")

#: Estimators whose `predict` returns labels.
LABELLERS = ("classifier", "clusterer", "outlier_detector")

#: Classifiers of boosted trees.
BOOSTED = ("GradientBoostingClassifier", "HistGradientBoostingClassifier")

#: Classifiers whose score of two classes is their log-odds, if they have no other loss.
LOGISTIC = (
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
    "LinearDiscriminantAnalysis",
    "LogisticRegression",
    "LogisticRegressionCV",
    "SGDClassifier",
)


#: Classifiers whose probabilities of three classes or more are the softmax of their scores.
SOFTMAX = (
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
    "LogisticRegression",
    "LogisticRegressionCV",
)

#: Modules of scikit-learn whose log-probabilities are no logarithms of probabilities.
OWN_LOGARITHMS = ("sklearn.naive_bayes", "sklearn.discriminant_analysis")


def estimator(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt an estimator: by its probabilities or scores if it has any, else by `predict`."""
    if scale in (*MARGINS, "log-odds") and ends_in_booster(model):
        return _booster_in_pipeline(model, scale)
    method, form = _method(model, scale)

    def call(rows: Any) -> Any:
        answer = method(estimator_rows(rows))
        return side_by_side(answer) if form == "probability" else answer

    names: tuple[str, ...] = ()
    if form is not None:
        names = _margin_names(model) if form == "margin" else _output_names(model)
    return AdaptedModel(
        call,
        form=form,
        independent=_is_multilabel(model) or None,
        is_log_odds=form == "margin" and _is_logistic(model),
        output_names=names,
        feature_names=trained_names(model),
        takes_missing=True,
    )


def ends_in_booster(model: Any) -> bool:
    """Return whether a model is a Pipeline that ends in a model of a library of boosters."""
    steps = getattr(model, "steps", None) or [("", None)]
    return booster_library(steps[-1][1]) is not None


def booster_library(model: Any) -> str | None:
    """Return the library of a booster; None for other models."""
    boosters = ("xgboost", "lightgbm", "catboost")
    return next((name for name in libraries(model) if name in boosters), None)


def _booster_in_pipeline(pipeline: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt a Pipeline by its booster's own margins, for which a Pipeline has no method."""
    from shearshap.models import boosters

    booster = pipeline.steps[-1][1]
    adapted: AdaptedModel = getattr(boosters, f"{booster_library(booster)}_model")(booster, scale)
    before = pipeline[:-1]

    def call(rows: Any) -> Any:
        made = estimator_rows(rows)
        # a Pipeline without steps before its last one has no `transform`
        return adapted.call(before.transform(made) if len(before) else made)

    return replace(adapted, call=call, feature_names=trained_names(pipeline))


def _method(model: Any, scale: Scale | None) -> tuple[Method, Form | None]:
    """Return the method of an estimator that predicts on a scale, and what it returns."""
    predicts = any(hasattr(model, name) for name in PREDICTIONS[:-1])
    # a transformer may have a density too, but it is not what it is made for
    is_density = hasattr(model, "score_samples") and not hasattr(model, "transform")
    if not predicts and not is_density:
        raise _cannot_predict(model)
    probabilities = getattr(model, "predict_proba", None)
    scores = _scores(model)
    margins = scores or _before_link(model)

    if margins is not None and scale in MARGINS:
        return margins, "margin"
    if scores is not None and scale == "log-odds" and _is_logistic(model):
        return lambda rows: score_of_each(scores(rows)), "margin"
    before_softmax = _before_softmax(model)
    if before_softmax is not None and scale == "log-odds":
        return before_softmax, "margin"
    if probabilities is not None and scale in MARGINS:
        raise InputError(
            f"scale={scale!r}: {type(model).__name__} has no decision_function; try "
            "scale='log-odds', which is computed from its probabilities"
        )
    if probabilities is not None:
        return probabilities, "probability"
    if scores is not None and scale is None:
        return scores, "margin"

    if scores is None:
        _refuse_labels(model)
    if scale is not None:
        wanted = "decision_function" if scale in MARGINS else "probabilities"
        hint = "" if kind_of(model) == "regressor" else ", or wrap it in CalibratedClassifierCV"
        raise InputError(
            f"scale={scale!r}: {type(model).__name__} has no {wanted}; leave scale out{hint}"
        )
    return getattr(model, "predict", None) or model.score_samples, None


def found_by_search(model: Any) -> Any:
    """Return the estimator that a search of scikit-learn predicts by; any other model as it is."""
    is_search = type(model).__module__.startswith("sklearn.model_selection")
    return getattr(model, "best_estimator_", model) if is_search else model


def adds_up_margins(model: Any) -> bool:
    """Return whether a model is of boosted trees, which add up margins and not probabilities."""
    last = innermost(model)
    is_boosted = extends(last, BOOSTED) or booster_library(last) is not None
    return is_boosted and has_margins(model)


def extends(estimator: Any, names: Sequence[str]) -> bool:
    """Return whether an estimator is of a class of scikit-learn of one of these names."""
    return any(
        ancestor.__name__ in names and ancestor.__module__.partition(".")[0] == "sklearn"
        for ancestor in type(estimator).__mro__
    )


def has_margins(model: Any) -> bool:
    """Return whether scale='margin' can explain a model; it cannot explain bound methods."""
    if method_of_estimator(model) is not None:
        return False
    model = found_by_search(model)
    if booster_library(model) is not None or ends_in_booster(model):
        return True
    return (_scores(model) or _before_link(model)) is not None


def _scores(model: Any) -> Method | None:
    """Return `decision_function`; that of a regressor, in other libraries, is its prediction."""
    return None if kind_of(model) == "regressor" else getattr(model, "decision_function", None)


def _is_logistic(model: Any) -> bool:
    """Return whether a classifier's probability of the second class is the sigmoid of its score.

    Then the score is the log-odds. It loses no digits, and may be a sum that is known exactly.
    """
    inner = innermost(model)
    own = type(inner)  # a class that extends it may predict otherwise
    is_known = own.__name__ in LOGISTIC and own.__module__.startswith("sklearn.")
    is_plain = getattr(inner, "loss", "log_loss") == "log_loss"
    is_softmax = getattr(inner, "multi_class", None) == "multinomial"  # of scikit-learn before 1.8
    return is_known and is_plain and not is_softmax and len(class_names(inner)) == 2


def _before_softmax(model: Any) -> Method | None:
    """Return what has a classifier's probabilities as its softmax, and loses no digits; or None.

    Those are the scores of some classifiers, and the log-probabilities of those that compute more
    than the logarithms of their probabilities.
    """
    inner = innermost(model)
    if _is_multilabel(model):
        return None
    is_plain = getattr(inner, "loss", "log_loss") == "log_loss"
    is_one_by_one = getattr(inner, "multi_class", "auto") == "ovr"
    is_one_by_one |= getattr(inner, "solver", "") == "liblinear"
    if type(inner).__name__ in SOFTMAX and is_plain and not is_one_by_one:
        return _scores(model) if len(class_names(inner)) > 2 else None
    makers = [each for each in type(inner).__mro__ if "predict_log_proba" in vars(each)]
    own = bool(makers) and makers[0].__module__.startswith(OWN_LOGARITHMS)
    is_foreign = bool(makers) and not makers[0].__module__.startswith("sklearn.")
    return getattr(model, "predict_log_proba", None) if own or is_foreign else None


def score_of_each(score: Any) -> Any:
    """Return the one score (n,) of two classes as a margin for each, (n, 2)."""
    return np.stack((-score / 2, score / 2), axis=1)


def _before_link(model: Any) -> Method | None:
    """Return what a model with a link, such as a Poisson regressor, predicts before it, or None."""
    inner = innermost(model)
    loss = getattr(inner, "_base_loss", None)  # of generalized linear models
    if getattr(inner, "loss", None) in ("poisson", "gamma"):  # of HistGradientBoostingRegressor
        loss = getattr(inner, "_loss", None)
    link = getattr(loss, "link", None)
    if link is None:
        return None
    return lambda rows: link.link(np.asarray(model.predict(rows)))


def trained_names(model: Any) -> tuple[str, ...]:
    """Return the columns of the frame an estimator was fitted to; none if it was an array."""
    try:
        names = getattr(model, "feature_names_in_", None)
    except Exception:  # noqa: BLE001  (wrappers raise their own errors if there are none)
        return ()
    return names_of_columns(names)


def names_of_columns(names: Any, made_up: str = "Column_") -> tuple[str, ...]:
    """Return columns' names; none if the library made them up, as LightGBM's Column_0."""
    own = tuple(str(name) for name in (() if names is None else names))
    return () if own == tuple(f"{made_up}{column}" for column in range(len(own))) else own


# Refusals


def _cannot_predict(model: Any) -> InputError:
    hint = "pass a fitted estimator, or a Pipeline that ends in one"
    if kind_of(model) == "outlier_detector":
        hint = "it scores only the rows it was fitted to; try novelty=True"
    elif hasattr(model, "transform"):
        hint += ", or one of its methods, such as model.transform"
    return InputError(f"model: a {type(model).__name__} cannot predict; {hint}")


def _refuse_labels(model: Any) -> None:
    """Raise if an estimator without scores predicts labels."""
    kind = kind_of(model)
    has_classes = getattr(model, "classes_", None) is not None
    if kind in ("clusterer", "classifier") or (kind is None and has_classes):
        raise InputError(
            f"model: {type(model).__name__} predicts labels, which are not numbers; try "
            f"{_INSTEAD_OF_LABELS}"
        )


#: What to explain in place of labels.
_INSTEAD_OF_LABELS = (
    "a function such as lambda rows: model.predict(rows) == label, model.transform for distances "
    "to clusters, or a classifier wrapped in CalibratedClassifierCV"
)


# Bound methods, such as model.predict_proba, passed as functions


def method_of_estimator(function: Any) -> Any:
    """Return the estimator whose bound method a function is; None if it is none."""
    owner = getattr(function, "__self__", None)
    is_method = getattr(function, "__name__", None) in (*PREDICTIONS, "transform")
    is_estimator = not isinstance(owner, type | nn.Module)  # a module's methods take tensors
    return owner if is_method and is_estimator else None


def names_of_method(function: Any) -> tuple[str, ...]:
    """Return the names of the outputs of an estimator's bound method, if they are known."""
    owner = method_of_estimator(function)
    names = {"predict_proba": _output_names, "decision_function": _margin_names}
    name = getattr(function, "__name__", "")
    return names[name](owner) if owner is not None and name in names else ()


def warn_of_labels(function: Any) -> None:
    """Warn if a function is the `predict` of an estimator that predicts labels that are numbers."""
    owner = method_of_estimator(function)
    if owner is None or function.__name__ != "predict" or kind_of(owner) not in LABELLERS:
        return
    if any(isinstance(name, str) for name in getattr(owner, "classes_", ())):
        return  # words are an error, unless output= makes numbers of them
    warn(
        f"model: {type(owner).__name__}.predict returns labels, which are not numbers: their "
        "order and distances mean nothing. They are explained as asked; try the model itself if it "
        f"has probabilities or scores, {_INSTEAD_OF_LABELS}"
    )


# The columns of an estimator's answer: its classes, its targets, its labels
#
#     three classes, one target:          three targets of two classes each (several labels):
#
#     predict_proba   (n, 3)              predict_proba   (n, 3), or a list of three (n, 2)
#     output_names    no, maybe, yes      output_names    label 0, label 1, label 2


def kind_of(model: Any) -> str | None:
    """Return "classifier", "regressor", "clusterer", "outlier_detector", ...; None if unknown."""
    own = getattr(model, "_estimator_type", None)  # of scikit-learn before 1.6, and of others
    if own is not None:
        return str(own)
    try:
        kind = model.__sklearn_tags__().estimator_type
    except Exception:  # noqa: BLE001  (other libraries have no tags, or tags of their own)
        return None
    return None if kind is None else str(kind)


def innermost(model: Any) -> Any:
    """Return the estimator that answers inside a Pipeline, a search or a selector of features."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return innermost(steps[-1][1])
    if hasattr(model, "best_estimator_"):
        return innermost(model.best_estimator_)
    is_ensemble = hasattr(model, "estimators_")  # it keeps what it copies under estimator_
    if hasattr(model, "estimator_") and not is_ensemble:
        return innermost(model.estimator_)
    return model


def class_names(model: Any) -> tuple[str, ...]:
    """Return the names of a classifier's classes; none if it has several targets, or no names."""
    classes = getattr(model, "classes_", None)
    if classes is None or _are_targets(classes):
        return ()
    return tuple(str(name) for name in classes)


def _output_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of an estimator's `predict_proba`, if they are known."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return ()
    if _are_targets(classes):
        return _target_names(innermost(model), classes)
    if _is_multilabel(model):
        return tuple(f"label {name}" for name in classes)
    return class_names(model)


def _margin_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of an estimator's `decision_function`, if they are known."""
    compares_pairs = getattr(innermost(model), "decision_function_shape", None) == "ovo"
    return () if compares_pairs else _output_names(model)


def _is_multilabel(model: Any) -> bool:
    """Return whether a classifier's outputs are labels that do not exclude one another."""
    if _are_targets(getattr(model, "classes_", None)):
        return True
    inner = innermost(model)
    if getattr(inner, "multilabel_", False):
        return True
    binarizer = getattr(inner, "_label_binarizer", None)
    return str(getattr(binarizer, "y_type_", "")).startswith("multilabel")


def _are_targets(classes: Any) -> bool:
    """Return whether there is one array of classes for each of several targets."""
    return isinstance(classes, list) and any(getattr(part, "shape", ()) for part in classes)


def _target_names(model: Any, targets: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the columns of `Tables`.

    There are none for a StackingClassifier, whose probabilities are those of each target's first
    class, nor for a chain in an order of its own.
    """
    is_stack = any(cls.__name__ == "StackingClassifier" for cls in type(model).__mro__)
    order = list(getattr(model, "order_", ()))
    if is_stack or order != sorted(order):
        return ()
    if all(list(classes) == [0, 1] for classes in targets):
        return tuple(f"label {target}" for target in range(len(targets)))
    return tuple(
        f"target {target}: {name}"
        for target, classes in enumerate(targets)
        for name in (classes[1:] if len(classes) == 2 else classes)
    )


# Probabilities of several targets


class Tables(Sequence[Any]):
    """One table of probabilities for each target, which numpy takes for one: side by side.

    Of a target with two classes the second alone is kept: the first is 1 minus it.
    """

    def __init__(self, tables: list[Any]) -> None:
        self.tables = tables

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, target: Any) -> Any:
        return self.tables[target]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        tables = [np.asarray(table, dtype) for table in self.tables]
        shown = [table[:, 1:] if table.shape[1] == 2 else table for table in tables]
        return np.concatenate(shown, axis=1)


def side_by_side(answer: Any) -> Any:
    """Return probabilities as what numpy takes for one array, if they are a list.

    They are a list of rows, or of one table for each target. A function that the user passes as
    output= can still take the tables one by one.
    """
    if not isinstance(answer, list):
        return answer
    if all(isinstance(row, list | tuple) for row in answer):
        return np.asarray(answer)
    return Tables(answer) if all(np.ndim(table) == 2 for table in answer) else answer


# Frames


def numpy_or_pandas(rows: Any, *accepted: str) -> Any:
    """Return a frame of a library that is not `accepted` as pandas; anything else as it is."""
    if not nw.dependencies.is_into_dataframe(rows):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    library = frame.implementation.value
    return rows if library in ("pandas", *accepted) else frame.to_pandas()


def estimator_rows(rows: Any) -> Any:
    """Return rows as scikit-learn takes them: pyarrow tables as pandas, anything else as it is."""
    return numpy_or_pandas(rows, "polars")


# Transformers whose input columns are the players
#
#     input columns         city               age
#     output columns        city_a   city_b    age
#     made_columns          {"city": [0, 1], "age": [2]}


def made_columns(transformer: Any) -> dict[str, list[int]]:
    """Return the output columns of a fitted transformer, by the input column each is made from.

    For explaining the model behind the transformer on rows already transformed: the columns of a
    one-hot encoding are one player.
    """
    try:
        sources = _sources(transformer, _input_names(transformer))
    except InputError:
        raise
    except Exception as error:  # every transformer has its own errors
        kind = type(transformer).__name__
        raise InputError(
            f"groups: cannot find out which columns this {kind} makes ({error})"
        ) from error

    players: dict[str, list[int]] = {}
    for column, source in enumerate(sources):
        players.setdefault(source, []).append(column)
    return players


def source_positions(transformer: Any) -> list[int]:
    """Return the position of the input column that each output column is made from."""
    positions = [str(position) for position in range(len(_input_names(transformer)))]
    return [int(source) for source in _sources(transformer, positions)]


def _input_names(transformer: Any) -> list[str]:
    """Return the columns a transformer was fitted to: their names, or x0, x1, ... for an array."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        return [f"x{column}" for column in range(transformer.n_features_in_)]
    return [str(name) for name in names]


def _sources(transformer: Any, columns: list[str]) -> list[str]:
    """Return the source of each output column.

    `columns` are the sources of the transformer's input columns, which may themselves be made by
    a transformer before it.
    """
    if hasattr(transformer, "transformers_"):
        return _sources_of_column_transformer(transformer, columns)
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            if step not in (None, "passthrough"):
                columns = _sources(step, columns)
        return columns

    inputs = _input_names(transformer)
    plain = copy(transformer)
    if hasattr(plain, "feature_name_combiner"):  # without the categories of an encoder
        plain.feature_name_combiner = lambda column, _category: column
    made_from = [str(name) for name in plain.get_feature_names_out()]
    if getattr(transformer, "add_indicator", False):  # of an imputer: whether a value was missing
        made_from = [name.removeprefix("missingindicator_") for name in made_from]
    if not set(made_from) <= set(inputs):
        raise InputError(
            f"groups: cannot match the output columns of {type(transformer).__name__} to its "
            "input columns; pass lists of columns"
        )
    return [columns[inputs.index(name)] for name in made_from]


def _sources_of_column_transformer(transformer: Any, columns: list[str]) -> list[str]:
    slices = transformer.output_indices_
    sources = [""] * sum(part.stop - part.start for part in slices.values())

    for name, inner, _ in transformer.transformers_:
        part = slices[name]
        if part.stop == part.start:
            continue
        # users choose columns by names, numbers, masks, slices or functions: it has resolved them
        positions = transformer._transformer_to_input_indices[name]
        own_columns = [columns[position] for position in positions]
        is_unchanged = isinstance(inner, str) and inner == "passthrough"
        sources[part] = own_columns if is_unchanged else _sources(inner, own_columns)
    return sources
