"""XGBoost, LightGBM and CatBoost: their boosters and their scikit-learn wrappers, with frames as
they take them.

A wrapper is asked by its own methods, which know of early stopping and missing values. Log-odds are
margins where a library's probabilities are the plain sigmoid or softmax of them, which loses no
digits; else they are made of the probabilities.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from shearshap.adapters.adapted import AdaptedModel
from shearshap.adapters.estimators import MARGINS, class_names, numpy_or_pandas, trained_names
from shearshap.adapters.outputs import Form, Scale
from shearshap.errors import InputError

LIGHTGBM_CLASSIFIERS = ("binary", "multiclass", "multiclassova", "cross_entropy")


def xgboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Tell how to ask an `XGBModel` or a `Booster`."""
    wrapped = hasattr(model, "get_booster")
    booster = model.get_booster() if wrapped else model
    objective = str(json.loads(booster.save_config())["learner"]["objective"]["name"])
    classifies = hasattr(model, "predict_proba") or objective.startswith(("binary:", "multi:"))
    plain = objective == "binary:logistic" or objective.startswith("multi:soft")
    form = _form(classifies, scale, type(model).__name__, plain=plain)
    if not wrapped and objective in ("multi:softmax", "binary:hinge", "binary:logitraw"):
        form = "margin"  # what they predict are labels, or margins already
    names = trained_names(model) if wrapped else tuple(model.feature_names or ())
    return _adapted(_xgboost_ask(model, form, wrapped=wrapped), form, model, names, scale, "polars")


def _xgboost_ask(model: Any, form: Form | None, *, wrapped: bool) -> Callable[[Any], Any]:
    if wrapped:
        if form == "probability":
            return lambda rows: model.predict_proba(rows)
        return lambda rows: model.predict(rows, output_margin=form == "margin")

    def ask(rows: Any) -> Any:
        import xgboost

        names = None if hasattr(rows, "columns") else model.feature_names
        matrix = xgboost.DMatrix(rows, feature_names=names, enable_categorical=True)
        return model.predict(matrix, output_margin=form == "margin")

    return ask


def lightgbm_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Tell how to ask an `LGBMModel` or a `Booster`."""
    wrapped = hasattr(model, "booster_")
    booster = model.booster_ if wrapped else model
    settings = _lightgbm_settings(booster)
    objective, own = settings.partition(" ")[0], not settings
    classifies = hasattr(model, "predict_proba") or objective in LIGHTGBM_CLASSIFIERS
    plain = objective == "multiclass" or (objective == "binary" and "sigmoid:1 " in f"{settings} ")
    form = _form(classifies, scale, type(model).__name__, plain=plain)
    if classifies and own:
        form = "margin"  # of an objective of the user's own, the library knows no probabilities
    names = booster.feature_name()
    numbered = names == [f"Column_{at}" for at in range(len(names))]
    ask = _lightgbm_ask(model, booster, form, proba=wrapped and form == "probability")
    return _adapted(
        ask,
        form,
        model,
        () if numbered else (trained_names(model) if wrapped else tuple(names)),
        scale,
    )


def _lightgbm_ask(
    model: Any, booster: Any, form: Form | None, *, proba: bool
) -> Callable[[Any], Any]:
    if proba:
        return lambda rows: model.predict_proba(rows)
    return lambda rows: booster.predict(rows, raw_score=form == "margin")


def _lightgbm_settings(booster: Any) -> str:
    """Return the objective and its settings as the model's file has them; nothing for one of the
    user's own.
    """
    lines = booster.model_to_string(num_iteration=0).splitlines()
    return next(
        (line.partition("=")[2] for line in lines if line.startswith("objective=")), ""
    ).replace("custom", "")


def catboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Tell how to ask a `CatBoost` model of any kind."""
    classifies = bool(class_names(model))
    plain = classifies and model.get_all_params().get("loss_function") in (
        "Logloss",
        "CrossEntropy",
        "MultiClass",
    )
    form = _form(classifies, scale, type(model).__name__, plain=plain)
    names = [str(name) for name in model.feature_names_ or []]
    numbered = names == [str(at) for at in range(len(names))]
    return _adapted(
        _catboost_ask(model, form), form, model, () if numbered else tuple(names), scale
    )


def _catboost_ask(model: Any, form: Form | None) -> Callable[[Any], Any]:
    kind = {"probability": "Probability", "margin": "RawFormulaVal"}
    if form is None:
        return lambda rows: model.predict(rows)
    return lambda rows: model.predict(rows, prediction_type=kind[form])


def _adapted(
    ask: Callable[[Any], Any],
    form: Form | None,
    model: Any,
    names: tuple[str, ...],
    scale: Scale | None,
    *kept: str,
) -> AdaptedModel:
    """Tell how to ask a booster with frames of pandas, or of the libraries `kept`."""
    classes = class_names(model) if form else ()
    return AdaptedModel(
        lambda rows: _by_class(ask(numpy_or_pandas(rows, *kept)), form, classes, scale),
        form=form,
        output_names=classes,
        feature_names=names,
        takes_missing=True,
    )


def _by_class(answer: Any, form: Form | None, classes: tuple[str, ...], scale: Scale | None) -> Any:
    """Return one number for each of two classes, where a booster gives one for both and it is no
    plain margin.
    """
    if len(classes) != 2 or np.ndim(answer) != 1 or form is None or scale in MARGINS:
        return answer
    if form == "probability":
        return np.stack((1 - answer, answer), axis=1)
    return np.stack((-answer / 2, answer / 2), axis=1)


def _form(classifies: bool, scale: Scale | None, kind: str, *, plain: bool) -> Form | None:
    """Return what to ask a booster for; `plain`: its probabilities are the sigmoid or softmax of
    its margins.
    """
    if scale in MARGINS:
        return "margin"
    if classifies:
        return "margin" if scale == "log-odds" and plain else "probability"
    if scale is not None:
        raise InputError(
            f"scale={scale!r}: this {kind} is no classifier and has no probabilities; leave scale "
            "out"
        )
    return None
