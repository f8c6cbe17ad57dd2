"""XGBoost, LightGBM and CatBoost: their boosters and their scikit-learn wrappers, with frames as they take them."""

import json
from typing import Any

import numpy as np

from shearshap.adapters.adapted import Adapted
from shearshap.adapters.estimators import MARGINS, class_names, numpy_or_pandas, trained_names
from shearshap.adapters.outputs import Form, Scale
from shearshap.errors import InputError


def xgboost_model(model: Any, scale: Scale | None) -> Adapted:
    """Tell how to ask an `XGBModel` or a `Booster`."""
    if hasattr(model, "get_booster"):
        booster, names, classes = model.get_booster(), trained_names(model), class_names(model)
    else:
        booster, names, classes = model, tuple(model.feature_names or ()), ()
    objective = str(json.loads(booster.save_config())["learner"]["objective"]["name"])
    form = _form(objective.startswith(("binary:", "multi:")), scale, type(model).__name__)
    labels = objective == "multi:softmax" or objective == "binary:hinge"
    raw = form == "margin" or labels or objective == "binary:logitraw"

    def ask(rows: Any) -> Any:
        import xgboost

        matrix = xgboost.DMatrix(_xgboost_rows(rows), feature_names=_names(rows, booster), enable_categorical=True)
        return _by_class(booster.predict(matrix, output_margin=raw), told, classes, scale)

    told: Form | None = "margin" if form and raw else form
    return Adapted(
        ask,
        form=told,
        output_names=classes if form else (),
        feature_names=names,
        takes_missing=True,
    )


def _xgboost_rows(rows: Any) -> Any:
    return numpy_or_pandas(rows, "polars")


def _names(rows: Any, booster: Any) -> Any:
    """Return the names to give an array's columns; a frame has its own."""
    return None if hasattr(rows, "columns") else booster.feature_names


def lightgbm_model(model: Any, scale: Scale | None) -> Adapted:
    """Tell how to ask an `LGBMModel` or a `Booster`."""
    wrapped = hasattr(model, "booster_")
    booster = model.booster_ if wrapped else model
    objective = str(booster.params.get("objective", "") or _lightgbm_objective(booster))
    classifies = hasattr(model, "predict_proba") or objective.startswith(("binary", "multiclass", "cross_entropy"))
    form = _form(classifies, scale, type(model).__name__)
    names, classes = booster.feature_name(), class_names(model)

    def ask(rows: Any) -> Any:
        return _by_class(booster.predict(numpy_or_pandas(rows), raw_score=form == "margin"), form, classes, scale)

    return Adapted(
        ask,
        form=form,
        output_names=classes if form else (),
        feature_names=() if all(name.startswith("Column_") for name in names) else tuple(names),
        takes_missing=True,
    )


def _lightgbm_objective(booster: Any) -> str:
    lines = booster.model_to_string(num_iteration=0).splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("objective=")), "")


def catboost_model(model: Any, scale: Scale | None) -> Adapted:
    """Tell how to ask a `CatBoost` model of any kind."""
    classes = class_names(model)
    form = _form(bool(classes), scale, type(model).__name__)
    kind = "Probability" if form == "probability" else "RawFormulaVal"
    names = model.feature_names_ or []

    def ask(rows: Any) -> Any:
        return _by_class(model.predict(numpy_or_pandas(rows), prediction_type=kind), form, classes, scale)

    return Adapted(
        ask,
        form=form,
        output_names=classes if form else (),
        feature_names=() if all(str(name).isdigit() for name in names) else tuple(names),
        takes_missing=True,
    )


def _by_class(answer: Any, form: Form | None, classes: tuple[str, ...], scale: Scale | None) -> Any:
    """Return one number for each of two classes, where a booster gives one for both and it is no plain margin."""
    if len(classes) != 2 or np.ndim(answer) != 1 or form is None or scale in MARGINS:
        return answer
    if form == "probability":
        return np.stack((1 - answer, answer), axis=1)
    return np.stack((-answer / 2, answer / 2), axis=1)


def _form(classifies: bool, scale: Scale | None, kind: str) -> Form | None:
    """Return what to ask a booster for: a classifier's probabilities or margins; a regressor has one answer."""
    if classifies:
        return "margin" if scale in MARGINS or scale == "log-odds" else "probability"
    if scale in ("probability", "log-odds"):
        raise InputError(f"scale={scale!r}: this {kind} is no classifier and has no probabilities; leave scale out")
    return None
