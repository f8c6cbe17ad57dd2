"""XGBoost, LightGBM and CatBoost: their boosters and their scikit-learn wrappers.

A wrapper predicts by its own methods, which take care of early stopping and missing values. For
log-odds a classifier is called for its margins if its probabilities are simply their sigmoid or
softmax, since that loses no digits; otherwise log-odds are computed from its probabilities.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from shearshap.adapters.adapted import AdaptedModel
from shearshap.adapters.estimators import class_names, numpy_or_pandas, trained_names
from shearshap.adapters.outputs import MARGINS, Form, Scale
from shearshap.errors import InputError

Call = Callable[[Any], Any]

#: Objectives of XGBoost by which a bare booster predicts labels, or margins.
_XGBOOST_WITHOUT_PROBABILITIES = ("multi:softmax", "binary:hinge", "binary:logitraw")

_LIGHTGBM_CLASSIFIERS = ("binary", "multiclass", "multiclassova", "cross_entropy")

#: Losses of CatBoost whose probabilities are the sigmoid or softmax of the margins.
_CATBOOST_PLAIN = ("Logloss", "CrossEntropy", "MultiClass")


# XGBoost


def xgboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt an XGBoost `XGBModel` or `Booster`."""
    is_wrapper = hasattr(model, "get_booster")
    booster = model.get_booster() if is_wrapper else model
    objective = _xgboost_objective(booster)

    classifies = hasattr(model, "predict_proba") or objective.startswith(("binary:", "multi:"))
    is_plain = objective == "binary:logistic" or objective.startswith("multi:soft")
    form = _form(model, scale, classifies=classifies, is_plain=is_plain)

    if is_wrapper:
        call = _xgboost_wrapper_call(model, form)
        names = trained_names(model)
    else:
        if objective in _XGBOOST_WITHOUT_PROBABILITIES:
            form = "margin"
        call = _xgboost_booster_call(model, form)
        names = tuple(model.feature_names or ())
    return _adapted(model, call, form, scale, names, "polars")


def _xgboost_objective(booster: Any) -> str:
    config = json.loads(booster.save_config())
    return str(config["learner"]["objective"]["name"])


def _xgboost_wrapper_call(model: Any, form: Form | None) -> Call:
    if form == "probability":
        return lambda rows: model.predict_proba(rows)
    return lambda rows: model.predict(rows, output_margin=form == "margin")


def _xgboost_booster_call(booster: Any, form: Form | None) -> Call:
    def call(rows: Any) -> Any:
        import xgboost

        # a frame brings its own names, and an array gets those the booster was trained with
        names = None if hasattr(rows, "columns") else booster.feature_names
        matrix = xgboost.DMatrix(rows, feature_names=names, enable_categorical=True)
        return booster.predict(matrix, output_margin=form == "margin")

    return call


# LightGBM


def lightgbm_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt a LightGBM `LGBMModel` or `Booster`."""
    is_wrapper = hasattr(model, "booster_")
    booster = model.booster_ if is_wrapper else model
    settings = _lightgbm_settings(booster)
    objective = settings.partition(" ")[0]

    classifies = hasattr(model, "predict_proba") or objective in _LIGHTGBM_CLASSIFIERS
    has_plain_sigmoid = "sigmoid:1" in settings.split(" ")
    is_plain = objective == "multiclass" or (objective == "binary" and has_plain_sigmoid)
    form = _form(model, scale, classifies=classifies, is_plain=is_plain)
    # the library knows no probabilities for an objective defined by the user
    if classifies and not settings:
        form = "margin"

    call = _lightgbm_call(model, booster, form)
    return _adapted(model, call, form, scale, _lightgbm_names(model, booster))


def _lightgbm_settings(booster: Any) -> str:
    """Return the objective and its settings, as in "binary sigmoid:1"; "" for the user's own."""
    for line in booster.model_to_string(num_iteration=0).splitlines():
        key, _, settings = line.partition("=")
        if key == "objective":
            return str(settings.replace("custom", ""))
    return ""


def _lightgbm_call(model: Any, booster: Any, form: Form | None) -> Call:
    is_wrapper = model is not booster
    if is_wrapper and form == "probability":
        return lambda rows: model.predict_proba(rows)
    return lambda rows: booster.predict(rows, raw_score=form == "margin")


def _lightgbm_names(model: Any, booster: Any) -> tuple[str, ...]:
    """Return the columns a model was trained with; none if the library numbered them itself."""
    names = booster.feature_name()
    if names == [f"Column_{column}" for column in range(len(names))]:
        return ()
    is_wrapper = model is not booster
    # a booster replaces the spaces in names, and a wrapper keeps them
    return trained_names(model) if is_wrapper else tuple(names)


# CatBoost


def catboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt a `CatBoost` model of any kind."""
    classifies = bool(class_names(model))
    is_plain = classifies and model.get_all_params().get("loss_function") in _CATBOOST_PLAIN
    form = _form(model, scale, classifies=classifies, is_plain=is_plain)
    return _adapted(model, _catboost_call(model, form), form, scale, _catboost_names(model))


def _catboost_call(model: Any, form: Form | None) -> Call:
    if form is None:
        return lambda rows: model.predict(rows)
    kind = "Probability" if form == "probability" else "RawFormulaVal"
    return lambda rows: model.predict(rows, prediction_type=kind)


def _catboost_names(model: Any) -> tuple[str, ...]:
    """Return the columns a model was trained with; none if the library numbered them itself."""
    names = tuple(str(name) for name in model.feature_names_ or ())
    numbers = tuple(str(column) for column in range(len(names)))
    return () if names == numbers else names


# What they have in common


def _form(model: Any, scale: Scale | None, *, classifies: bool, is_plain: bool) -> Form | None:
    """Return what to call a booster for.

    `is_plain`: its probabilities are the sigmoid or softmax of its margins.
    """
    if scale in MARGINS:
        return "margin"
    if classifies:
        return "margin" if scale == "log-odds" and is_plain else "probability"
    if scale is not None:
        raise InputError(
            f"scale={scale!r}: this {type(model).__name__} is not a classifier and has no "
            "probabilities; leave scale out"
        )
    return None


def _adapted(
    model: Any,
    call: Call,
    form: Form | None,
    scale: Scale | None,
    feature_names: tuple[str, ...],
    *accepted: str,
) -> AdaptedModel:
    """Adapt a booster that takes frames of pandas, and of the libraries `accepted`."""
    classes = class_names(model) if form else ()

    def call_by_class(rows: Any) -> Any:
        answer = call(numpy_or_pandas(rows, *accepted))
        is_single_score = len(classes) == 2 and np.ndim(answer) == 1
        if not is_single_score or scale in MARGINS:
            return answer
        return _both_classes(answer, form)

    return AdaptedModel(
        call_by_class,
        form=form,
        output_names=classes,
        feature_names=feature_names,
        takes_missing=True,
    )


def _both_classes(score: Any, form: Form | None) -> Any:
    """Return a column for each of two classes (n, 2), from the score (n,) of the second."""
    if form == "probability":
        return np.stack((1 - score, score), axis=1)
    return np.stack((-score / 2, score / 2), axis=1)
