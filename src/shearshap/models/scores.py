"""Labels are not numbers: who gives nothing else is refused, and who asks for them is warned."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from shearshap.errors import InputError, ShearWarning, level_of_caller
from shearshap.models.classes import kind_of, side_by_side

#: Methods by which an object can predict.
PREDICTIONS = ("predict", "predict_proba", "decision_function", "score_samples")

#: Estimators whose `predict` returns labels.
LABELLERS = ("classifier", "clusterer", "outlier_detector")


def refuse_labels(model: Any) -> None:
    """Raise if an estimator without scores predicts labels."""
    name = type(model).__name__
    kind = kind_of(model)
    if kind == "clusterer":
        raise InputError(
            f"model: {name} predicts the labels of clusters, which are not numbers; try "
            f"{_instead_of_clusters(model)} to explain the labels as if they were numbers"
        )
    has_classes = getattr(model, "classes_", None) is not None
    if kind == "classifier" or (kind is None and has_classes):
        raise InputError(
            f"model: {name} predicts labels, which are not numbers, and has neither "
            f"predict_proba nor decision_function; try {_instead_of_classes(model)}"
        )


def _instead_of_clusters(model: Any) -> str:
    if hasattr(model, "transform"):
        return "model.transform, the distances to the clusters, or model.predict itself"
    return "model.predict itself"


def _instead_of_classes(model: Any) -> str:
    """Return what to explain in place of a classifier's labels."""
    classes = getattr(model, "classes_", None)
    if classes is None or not len(classes):
        classes = ["yes"]
    is_one_target = np.ndim(classes[-1]) == 0
    label = classes[-1] if is_one_target else classes[0][-1]
    shown = repr(label.item() if hasattr(label, "item") else label)
    column = "" if is_one_target else "[:, 0]"
    function = f"a function such as lambda rows: model.predict(rows){column} == {shown}"

    if hasattr(model, "voting"):
        return (
            "voting='soft', with members that lack probabilities wrapped in "
            f"CalibratedClassifierCV, or {function}"
        )
    if not is_one_target:
        return f"wrapping the classifier inside it in CalibratedClassifierCV, or {function}"
    return function


# Bound methods, such as model.predict_proba, passed as functions


def method_of_estimator(function: Any) -> Any:
    """Return the estimator whose bound method a function is; None if it is none."""
    owner = getattr(function, "__self__", None)
    is_method = getattr(function, "__name__", None) in (*PREDICTIONS, "transform")
    is_estimator = not isinstance(owner, type | nn.Module)  # a module's methods take tensors
    return owner if is_method and is_estimator else None


def as_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose probabilities numpy takes for one array."""
    is_method = method_of_estimator(function) is not None
    if not is_method or function.__name__ != "predict_proba":
        return function
    return lambda *rows: side_by_side(function(*rows))


def warn_of_labels(function: Any) -> None:
    """Warn if a function is the `predict` of an estimator that predicts labels."""
    owner = method_of_estimator(function)
    if owner is None or function.__name__ != "predict" or kind_of(owner) not in LABELLERS:
        return
    warnings.warn(
        f"model: {type(owner).__name__}.predict returns labels, which are not numbers: their "
        f"order and distances mean nothing. They are explained as asked; {_better(owner)}",
        ShearWarning,
        stacklevel=level_of_caller(),
    )


def _better(owner: Any) -> str:
    """Return what to explain in place of an estimator's labels."""
    has_scores = any(hasattr(owner, name) for name in ("predict_proba", "decision_function"))
    if has_scores:
        return "pass the model itself to explain its probabilities or scores"
    if kind_of(owner) != "clusterer":
        return f"try {_instead_of_classes(owner)}"
    if hasattr(owner, "transform"):
        return "pass model.transform to explain the distances to the clusters"
    return "compare them with one label to explain who gets that label"
