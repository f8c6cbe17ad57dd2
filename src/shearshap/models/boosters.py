"""XGBoost, LightGBM and CatBoost: their boosters and their scikit-learn wrappers.

A wrapper predicts by its own methods, which take care of early stopping and missing values. What
its numbers are depends on the objective it was trained for, not on its class: a regressor may be
trained for probabilities, and a classifier for scores. Each library has a table of its objectives
here; those not in it are treated as regression.

For log-odds a booster is called for its margins if its probabilities are simply their sigmoid or
softmax, since that loses no digits; otherwise log-odds are computed from its probabilities.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shearshap.errors import InputError
from shearshap.models.base import MARGINS, AdaptedModel, Form, Scale
from shearshap.models.sklearn import (
    class_names,
    names_of_columns,
    numpy_or_pandas,
    score_of_each,
    trained_names,
)

Call = Callable[[Any], Any]


@dataclass(frozen=True)
class Objective:
    """What a booster was trained for, as far as its numbers depend on it."""

    #: Whether it has probabilities.
    has_probabilities: bool = False
    #: Whether those are the sigmoid or softmax of its margins.
    is_plain: bool = False
    #: Whether each margin is the log-odds of a probability, if they are plain.
    is_sigmoid: bool = False
    #: Whether each output is a probability of its own, rather than all of them summing to 1.
    independent: bool = False
    #: Whether margins stand in for its predictions, which are labels, or margins already.
    by_margins: bool = False
    #: Why it has no probabilities, if one might expect them.
    remark: str = ""

    @property
    def is_log_odds(self) -> bool:
        """Whether its one margin is the log-odds of the second of two classes."""
        return self.is_plain and self.is_sigmoid and not self.independent


_REGRESSION = Objective()
_SIGMOID = Objective(has_probabilities=True, is_plain=True, is_sigmoid=True)
_SIGMOIDS = replace(_SIGMOID, independent=True)
_SOFTMAX = Objective(has_probabilities=True, is_plain=True)
_OTHER_PROBABILITIES = Objective(has_probabilities=True)

_XGBOOST = {
    "binary:logistic": _SIGMOID,
    "reg:logistic": _SIGMOID,
    "binary:logitraw": replace(_SIGMOID, by_margins=True),
    "binary:hinge": Objective(
        by_margins=True, remark="binary:hinge separates classes without probabilities"
    ),
    "multi:softprob": _SOFTMAX,
    "multi:softmax": replace(_SOFTMAX, by_margins=True),
}

_LIGHTGBM = {
    "binary": _SIGMOID,
    "cross_entropy": _SIGMOID,
    "multiclass": _SOFTMAX,
    "multiclassova": _SIGMOIDS,
    "cross_entropy_lambda": Objective(
        remark="cross_entropy_lambda predicts log(1 + exp(margin)), which may exceed 1"
    ),
}

_CATBOOST = {
    "Logloss": _SIGMOID,
    "CrossEntropy": _SIGMOID,
    "Focal": _SIGMOID,
    "MultiClass": _SOFTMAX,
    "MultiClassOneVsAll": _SIGMOIDS,
    "MultiLogloss": _SIGMOIDS,
    "MultiCrossEntropy": _SIGMOIDS,
}

#: Losses of CatBoost with one margin for two classes.
_CATBOOST_SINGLE = ("Logloss", "CrossEntropy", "Focal")

#: Losses of CatBoost whose outputs are labels that do not exclude one another.
_CATBOOST_MULTILABEL = ("MultiLogloss", "MultiCrossEntropy")


# XGBoost


def xgboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt an XGBoost `XGBModel` or `Booster`."""
    is_wrapper = hasattr(model, "get_booster")
    booster = model.get_booster() if is_wrapper else model
    learner = json.loads(booster.save_config())["learner"]
    objective = _xgboost_objective(model, learner["objective"]["name"])
    labels = int(learner["learner_model_param"].get("num_target", 1))
    if labels > 1 and objective.has_probabilities:
        objective = replace(objective, independent=True)
    form = _form(model, scale, objective)

    call = _xgboost_wrapper_call if is_wrapper else _xgboost_booster_call
    columns = trained_names(model) if is_wrapper else tuple(model.feature_names or ())
    names = _names(model, objective, labels)
    return _adapted(call(model, form), form, scale, objective, names, columns, "polars")


def _xgboost_objective(model: Any, name: str) -> Objective:
    objective = _XGBOOST.get(name, _REGRESSION)
    if not hasattr(model, "predict_proba"):
        return objective
    # a classifier turns labels of multi:softmax into probabilities, but not those of others
    if name == "multi:softmax":
        return replace(objective, by_margins=False)
    return _OTHER_PROBABILITIES if objective == _REGRESSION else objective


def _xgboost_wrapper_call(model: Any, form: Form | None) -> Call:
    if form == "probability" and hasattr(model, "predict_proba"):
        return lambda rows: model.predict_proba(rows)
    if form == "margin":
        return lambda rows: model.predict(rows, output_margin=True)
    return lambda rows: model.predict(rows)


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
    objective = _lightgbm_objective(model, booster)
    form = _form(model, scale, objective)
    call = _lightgbm_call(model, booster, form)
    columns = names_of_columns(booster.feature_name())
    if columns and is_wrapper:
        columns = trained_names(model)  # with the spaces that a booster replaces
    return _adapted(call, form, scale, objective, _names(model, objective), columns)


def _lightgbm_objective(model: Any, booster: Any) -> Objective:
    """Read the objective from a model's header: "objective=binary sigmoid:1"."""
    header = booster.model_to_string(num_iteration=1).splitlines()
    lines = [line for line in header if line.startswith("objective=")]
    settings = lines[0].partition("=")[2].split(" ") if lines else ["custom"]
    classifies = hasattr(model, "predict_proba")

    if settings[0] == "custom" and classifies:
        return Objective(
            by_margins=True,
            remark="its objective is custom",
        )
    objective = _LIGHTGBM.get(settings[0], _REGRESSION)
    if objective == _REGRESSION and classifies:
        return _OTHER_PROBABILITIES

    steepness = [setting for setting in settings if setting.startswith("sigmoid:")]
    is_averaged = "average_output" in header  # of a random forest, whose margins are summed
    is_scaled = any(setting != "sigmoid:1" for setting in steepness)
    return replace(objective, is_plain=objective.is_plain and not is_averaged and not is_scaled)


def _lightgbm_call(model: Any, booster: Any, form: Form | None) -> Call:
    if form == "probability" and hasattr(model, "predict_proba"):
        return lambda rows: model.predict_proba(rows)
    if form == "margin":
        return lambda rows: booster.predict(rows, raw_score=True)
    # the `predict` of a classifier returns labels
    predicts = booster if hasattr(model, "predict_proba") else model
    return lambda rows: predicts.predict(rows)


# CatBoost


def catboost_model(model: Any, scale: Scale | None) -> AdaptedModel:
    """Adapt a `CatBoost` model of any kind."""
    loss = _catboost_loss(model)
    objective = _catboost_objective(model, loss)
    form = _form(model, scale, objective)
    names = _catboost_output_names(model, scale, loss)
    columns = names_of_columns(model.feature_names_, made_up="")
    return _adapted(_catboost_call(model, form), form, scale, objective, names, columns)


def _catboost_loss(model: Any) -> str:
    """Return the name of the loss, without its settings; "" if a model does not know it."""
    try:
        loss = model.get_all_params().get("loss_function", "")
    except Exception:  # noqa: BLE001  (a sum of models, or a model of another format, knows none)
        return ""
    return str(loss).partition(":")[0]


def _catboost_objective(model: Any, loss: str) -> Objective:
    objective = _CATBOOST.get(loss)
    # read from an ONNX file, two classes have two margins, and their softmax is not a sigmoid
    has_two_margins = loss in _CATBOOST_SINGLE and np.ndim(model.get_scale_and_bias()[1]) == 1
    if objective is not None and not has_two_margins:
        return objective
    # it knows its classes, and so its probabilities, but not how they are made of margins
    if class_names(model):
        return _OTHER_PROBABILITIES
    if hasattr(model, "predict_proba"):
        return Objective(
            by_margins=True, remark=f"it was fitted without classes ({loss or 'no'} loss)"
        )
    return _REGRESSION


def _catboost_output_names(model: Any, scale: Scale | None, loss: str) -> tuple[str, ...]:
    if loss == "RMSEWithUncertainty" and scale is None:
        return ("mean", "variance")
    names = class_names(model)
    if loss in _CATBOOST_MULTILABEL:
        return tuple(f"label {name}" for name in names)
    return names


def _catboost_call(model: Any, form: Form | None) -> Call:
    is_ranker = getattr(model, "_estimator_type", None) == "ranker"
    # a ranker predicts margins, and takes no other wish
    if form is None or is_ranker:
        return lambda rows: model.predict(rows)
    kind = "Probability" if form == "probability" else "RawFormulaVal"
    return lambda rows: model.predict(rows, prediction_type=kind)


# What they have in common


def _form(model: Any, scale: Scale | None, objective: Objective) -> Form | None:
    """Return what to call a booster for."""
    if scale in MARGINS:
        return "margin"
    if objective.has_probabilities:
        loses_no_digits = scale == "log-odds" and objective.is_plain
        return "margin" if objective.by_margins or loses_no_digits else "probability"
    if scale is not None:
        reason = "is not a classifier and has no probabilities; leave scale out"
        if objective.remark:
            reason = f"has no probabilities, as {objective.remark}; try scale='margin'"
        raise InputError(f"scale={scale!r}: this {type(model).__name__} {reason}")
    return "margin" if objective.by_margins else None


def _names(model: Any, objective: Objective, labels: int = 1) -> tuple[str, ...]:
    """Return the names of a classifier's classes, or of its labels if it has several."""
    if not objective.has_probabilities and not objective.by_margins:
        return ()
    if labels > 1:
        return tuple(f"label {label}" for label in range(labels))
    return class_names(model)


def _adapted(
    call: Call,
    form: Form | None,
    scale: Scale | None,
    objective: Objective,
    names: tuple[str, ...],
    columns: tuple[str, ...],
    *accepted: str,
) -> AdaptedModel:
    """Adapt a booster that takes frames of pandas, and of the libraries `accepted`."""
    keeps_single_score = scale in MARGINS or (scale is None and form == "margin")

    def call_by_class(rows: Any) -> Any:
        answer = call(numpy_or_pandas(rows, *accepted))
        is_single_score = len(names) == 2 and np.ndim(answer) == 1
        if not is_single_score or keeps_single_score:
            return answer
        # the score is the second class's
        if form == "probability":
            return np.stack((1 - answer, answer), axis=1)
        return score_of_each(answer)

    return AdaptedModel(
        call_by_class,
        form=form,
        independent=objective.independent or None,
        is_log_odds=objective.is_log_odds,
        output_names=names,
        feature_names=columns,
        takes_missing=True,
    )
