"""Every objective of XGBoost, LightGBM and CatBoost: our numbers are the model's own, or we say why not."""

from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from scipy.special import expit, softmax
from sklearn.model_selection import GridSearchCV

from games import Floats
from shearshap import Explainer, InputError, ModelError
from zoo import (
    COUNTS,
    LABELS,
    PAIR,
    POSITIVE,
    REAL,
    ROWS,
    SCALES,
    THREE,
    TWO,
    agree,
    explained,
    log_odds,
)

FEW = ROWS[10:13]
GROUPS = np.repeat(np.arange(6), 10)

# Models

QUIET_TREES: dict[str, Any] = {"n_estimators": 4, "max_depth": 2, "n_jobs": 1}
LIGHT: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1, "verbose": -1, "min_child_samples": 5}
FOREST: dict[str, Any] = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}
CAT: dict[str, Any] = {
    "iterations": 4,
    "depth": 2,
    "thread_count": 1,
    "verbose": 0,
    "allow_writing_files": False,
}

XgbC = xgboost.XGBClassifier
XgbR = xgboost.XGBRegressor
LgbmC = lightgbm.LGBMClassifier
LgbmR = lightgbm.LGBMRegressor
CatC = catboost.CatBoostClassifier
CatR = catboost.CatBoostRegressor


def logistic(truth: Floats, margins: Floats) -> tuple[Floats, Floats]:
    """An objective of one's own: gradient and curvature of the logistic loss."""
    chances = 1 / (1 + np.exp(-margins))
    return chances - truth, chances * (1 - chances)


def own_logistic(margins: Floats, data: Any) -> tuple[Floats, Floats]:
    return logistic(data.get_label(), margins)


def xgb(kind: Any, target: Any, **options: Any) -> Any:
    return kind(**{**QUIET_TREES, **options}).fit(ROWS, target)


def xgb_booster(target: Any, obj: Any = None, **options: Any) -> Any:
    settings = {"nthread": 1, "max_depth": 2, **options}
    return xgboost.train(settings, xgboost.DMatrix(ROWS, target), 4, obj=obj)


def xgb_survival() -> Any:
    """Accelerated failure times, of which every third is not yet known."""
    data = xgboost.DMatrix(ROWS)
    data.set_float_info("label_lower_bound", POSITIVE)
    upper = np.where(np.arange(60) % 3, POSITIVE, np.inf)
    data.set_float_info("label_upper_bound", upper)
    return xgboost.train({"nthread": 1, "max_depth": 2, "objective": "survival:aft"}, data, 4)


def xgb_early() -> Any:
    model = XgbC(n_estimators=60, early_stopping_rounds=2, learning_rate=0.9, n_jobs=1)
    model.fit(ROWS[:30], TWO[:30], eval_set=[(ROWS[30:], TWO[30:])], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    return model


def light(kind: Any, target: Any, **options: Any) -> Any:
    return kind(**{**LIGHT, **options}).fit(ROWS, target)


def light_booster(target: Any, **options: Any) -> Any:
    settings = {"verbose": -1, "min_data_in_leaf": 5, "num_threads": 1, **options}
    return lightgbm.train(settings, lightgbm.Dataset(ROWS, target), 4)


def light_early() -> Any:
    model = LgbmC(**{**LIGHT, "n_estimators": 60, "learning_rate": 0.9})
    stopping = [lightgbm.early_stopping(3, verbose=False)]
    model.fit(ROWS[:30], TWO[:30], eval_X=ROWS[30:], eval_y=TWO[30:], callbacks=stopping)
    assert model.best_iteration_ < 60
    return model


def cat(kind: Any, target: Any, **options: Any) -> Any:
    settings = {**CAT, **options}
    model = kind(settings) if kind is catboost.CatBoost else kind(**settings)
    return model.fit(ROWS, target)


def cat_sum() -> Any:
    return catboost.sum_models([cat(CatC, TWO, random_seed=seed) for seed in (0, 1)])


# Objectives

#: Numbers of a scale: a probability, a prediction, a margin; or the text of a refusal.
Claims = dict[str | None, str]

CHANCES: Claims = {
    None: "margin",
    "probability": "chances",
    "log-odds": "log-odds of chances",
    "margin": "margin",
}
PREDICTS: Claims = {
    None: "prediction",
    "probability": "!is not a classifier and has no probabilities",
    "log-odds": "!is not a classifier and has no probabilities",
    "margin": "margin",
}


def scores(reason: str) -> Claims:
    """The claims of one that has margins, and for this reason no probabilities."""
    refusal = f"!has no probabilities, as .*{reason}"
    return {None: "margin", "probability": refusal, "log-odds": refusal, "margin": "margin"}


#: Objectives that predict margins or labels, whose margins still define probabilities.
MARGINS: Claims = dict(CHANCES)
LAMBDA: Claims = {**scores("cross_entropy_lambda"), None: "prediction"}

#: By library and objective: how the model is made, and what it claims.
CASES: dict[str, tuple[Callable[[], Any], Claims]] = {
    "xgboost two classes": (lambda: xgb(XgbC, TWO), CHANCES),
    "xgboost three classes": (lambda: xgb(XgbC, THREE), CHANCES),
    "xgboost softmax": (lambda: xgb(XgbC, THREE, objective="multi:softmax"), CHANCES),
    "xgboost random forest": (lambda: xgb(xgboost.XGBRFClassifier, TWO), CHANCES),
    "xgboost dart": (lambda: xgb(XgbC, TWO, booster="dart", rate_drop=0.5), CHANCES),
    "xgboost labels": (lambda: xgb(XgbC, LABELS), CHANCES),
    "xgboost labels by one tree": (lambda: xgb(XgbC, LABELS, multi_strategy="multi_output_tree"), CHANCES),
    "xgboost linear": (lambda: xgb(XgbC, THREE, booster="gblinear", max_depth=None), CHANCES),
    "xgboost base score": (lambda: xgb(XgbC, TWO, base_score=0.2), CHANCES),
    "xgboost early stopping": (xgb_early, CHANCES),
    "xgboost logistic of one's own": (lambda: xgb(XgbC, TWO, objective=logistic), CHANCES),
    "xgboost squares for classes": (lambda: xgb(XgbC, TWO, objective="reg:squarederror"), CHANCES),
    "xgboost raw logits": (lambda: xgb(XgbC, TWO, objective="binary:logitraw"), MARGINS),
    "xgboost hinge": (lambda: xgb(XgbC, TWO, objective="binary:hinge"), scores("hinge")),
    "xgboost regressor of chances": (lambda: xgb(XgbR, TWO, objective="reg:logistic"), CHANCES),
    "xgboost regressor of labels": (lambda: xgb(XgbR, LABELS, objective="binary:logistic"), CHANCES),
    "xgboost regressor of classes": (lambda: xgb(XgbR, THREE, objective="multi:softprob", num_class=3), CHANCES),
    "xgboost regressor": (lambda: xgb(XgbR, REAL), PREDICTS),
    "xgboost two numbers": (lambda: xgb(XgbR, PAIR), PREDICTS),
    "xgboost counts": (lambda: xgb(XgbR, COUNTS, objective="count:poisson"), PREDICTS),
    "xgboost tweedie": (lambda: xgb(XgbR, COUNTS, objective="reg:tweedie"), PREDICTS),
    "xgboost gamma": (lambda: xgb(XgbR, POSITIVE, objective="reg:gamma"), PREDICTS),
    "xgboost hazards": (lambda: xgb(XgbR, POSITIVE * (2 * TWO - 1), objective="survival:cox"), PREDICTS),
    "xgboost failure times": (xgb_survival, PREDICTS),
    "xgboost quantiles": (lambda: xgb(XgbR, REAL, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]), PREDICTS),
    "xgboost ranker": (lambda: xgboost.XGBRanker(**QUIET_TREES).fit(ROWS, COUNTS.astype(int), qid=GROUPS), PREDICTS),
    "xgboost booster": (lambda: xgb_booster(TWO, objective="binary:logistic"), CHANCES),
    "xgboost booster of classes": (lambda: xgb_booster(THREE, objective="multi:softprob", num_class=3), CHANCES),
    "xgboost booster of labels": (lambda: xgb_booster(LABELS, objective="binary:logistic"), CHANCES),
    "xgboost booster of raw logits": (lambda: xgb_booster(TWO, objective="binary:logitraw"), MARGINS),
    "xgboost booster of softmax": (lambda: xgb_booster(THREE, objective="multi:softmax", num_class=3), MARGINS),
    "xgboost booster of hinge": (lambda: xgb_booster(TWO, objective="binary:hinge"), scores("hinge")),
    "xgboost booster of one's own": (lambda: xgb_booster(TWO, own_logistic), PREDICTS),
    "lightgbm two classes": (lambda: light(LgbmC, TWO), CHANCES),
    "lightgbm three classes": (lambda: light(LgbmC, THREE), CHANCES),
    "lightgbm one against all": (lambda: light(LgbmC, THREE, objective="multiclassova"), CHANCES),
    "lightgbm steep": (lambda: light(LgbmC, TWO, sigmoid=2.0), CHANCES),
    "lightgbm random forest": (lambda: light(LgbmC, TWO, **FOREST), CHANCES),
    "lightgbm dart": (lambda: light(LgbmC, THREE, boosting_type="dart", drop_rate=0.5), CHANCES),
    "lightgbm goss": (lambda: light(LgbmC, TWO, data_sample_strategy="goss"), CHANCES),
    "lightgbm early stopping": (light_early, CHANCES),
    "lightgbm squares for classes": (lambda: light(LgbmC, TWO, objective="regression"), CHANCES),
    "lightgbm logistic of one's own": (lambda: light(LgbmC, TWO, objective=logistic), scores("its objective is custom")),
    "lightgbm lambda": (lambda: light(LgbmR, TWO, objective="cross_entropy_lambda"), LAMBDA),
    "lightgbm regressor of chances": (lambda: light(LgbmR, TWO, objective="cross_entropy"), CHANCES),
    "lightgbm regressor of classes": (lambda: light(LgbmR, THREE, objective="multiclass", num_class=3), CHANCES),
    "lightgbm regressor": (lambda: light(LgbmR, REAL), PREDICTS),
    "lightgbm counts": (lambda: light(LgbmR, COUNTS, objective="poisson"), PREDICTS),
    "lightgbm tweedie": (lambda: light(LgbmR, COUNTS, objective="tweedie"), PREDICTS),
    "lightgbm quantile": (lambda: light(LgbmR, REAL, objective="quantile", alpha=0.3), PREDICTS),
    "lightgbm ranker": (lambda: lightgbm.LGBMRanker(**LIGHT).fit(ROWS, COUNTS.astype(int), group=[10] * 6), PREDICTS),
    "lightgbm booster": (lambda: light_booster(TWO, objective="binary"), CHANCES),
    "lightgbm booster of classes": (lambda: light_booster(THREE, objective="multiclassova", num_class=3), CHANCES),
    "lightgbm booster of forests": (lambda: light_booster(TWO, objective="binary", **FOREST), CHANCES),
    "lightgbm booster of one's own": (lambda: light_booster(TWO, objective=own_logistic), PREDICTS),
    "catboost two classes": (lambda: cat(CatC, TWO), CHANCES),
    "catboost three classes": (lambda: cat(CatC, THREE), CHANCES),
    "catboost one against all": (lambda: cat(CatC, THREE, loss_function="MultiClassOneVsAll"), CHANCES),
    "catboost focal": (lambda: cat(CatC, TWO, loss_function="Focal:focal_alpha=0.5;focal_gamma=1.0"), CHANCES),
    "catboost labels": (lambda: cat(CatC, LABELS, loss_function="MultiLogloss"), CHANCES),
    "catboost plain": (lambda: cat(catboost.CatBoost, TWO, loss_function="Logloss"), CHANCES),
    "catboost sum": (cat_sum, CHANCES),
    "catboost regressor": (lambda: cat(CatR, REAL), PREDICTS),
    "catboost two numbers": (lambda: cat(CatR, PAIR, loss_function="MultiRMSE"), PREDICTS),
    "catboost uncertainty": (lambda: cat(CatR, REAL, loss_function="RMSEWithUncertainty"), PREDICTS),
    "catboost counts": (lambda: cat(CatR, COUNTS, loss_function="Poisson"), PREDICTS),
    "catboost tweedie": (lambda: cat(CatR, COUNTS, loss_function="Tweedie:variance_power=1.5"), PREDICTS),
    "catboost hazards": (lambda: cat(CatR, POSITIVE * (2 * TWO - 1), loss_function="Cox"), PREDICTS),
    "catboost failure times": (lambda: cat(catboost.CatBoost, np.stack((POSITIVE, POSITIVE), axis=1), loss_function="SurvivalAft:dist=Normal"), PREDICTS),
    "catboost quantiles": (lambda: cat(CatR, REAL, loss_function="MultiQuantile:alpha=0.1,0.9"), PREDICTS),
    "catboost ranker": (lambda: catboost.CatBoostRanker(**CAT).fit(ROWS, COUNTS, group_id=GROUPS), PREDICTS),
}  # fmt: skip

#: What everybody trains; the others are marked slow.
USUAL = (
    "two classes",
    "three classes",
    "regressor",
    "counts",
    "ranker",
    "booster",
    "labels",
    "dart",
)


def own_numbers(model: Any, claim: str) -> Any:
    """The model's own answer for few rows."""
    library = type(model).__module__.partition(".")[0]
    if library == "catboost":
        if claim == "prediction" or isinstance(model, catboost.CatBoostRanker):
            return model.predict(FEW)
        kind = "RawFormulaVal" if claim == "margin" else "Probability"
        return model.predict(FEW, prediction_type=kind)
    rows = xgboost.DMatrix(FEW) if isinstance(model, xgboost.Booster) else FEW
    if claim == "margin":
        option = "output_margin" if library == "xgboost" else "raw_score"
        return model.predict(rows, **{option: True})
    if claim == "chances" and hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return model.predict(rows)


def chances_of(model: Any, claims: Claims) -> Any:
    """The model's own probabilities, or those that its margins define."""
    if claims is not MARGINS:
        return own_numbers(model, "chances")
    margins = own_numbers(model, "margin")
    if margins.ndim == 2:
        return softmax(margins, axis=1)
    chances = expit(margins)
    return np.stack((1 - chances, chances), axis=1) if hasattr(model, "classes_") else chances


def check(model: Any, claims: Claims, tolerance: float = 1e-5) -> None:
    for scale in SCALES:
        claim = claims[scale]
        if claim.startswith("!"):
            with pytest.raises(InputError, match=f"scale='{scale}': this .*{claim[1:]}"):
                explained(model, ROWS, scale)
        elif claim == "log-odds of chances":
            ours = explained(model, ROWS, scale).predictions
            agree(ours, log_odds(chances_of(model, claims)), 100 * tolerance)
        elif claim == "chances":
            agree(explained(model, ROWS, scale).predictions, chances_of(model, claims), tolerance)
        else:
            agree(explained(model, ROWS, scale).predictions, own_numbers(model, claim), tolerance)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] * (case.partition(" ")[2] not in USUAL))
        for case in CASES
    ],
)
def test_numbers_are_the_models_own_on_every_scale_it_has(case: str) -> None:
    make, claims = CASES[case]
    check(make(), claims, 1e-5 if case.startswith("xgboost") else 1e-9)


@pytest.mark.parametrize("suffix", ["cbm", "json", "onnx"])
def test_catboost_models_read_from_files(suffix: str, tmp_path: Any) -> None:
    path = tmp_path / f"model.{suffix}"
    cat(CatC, TWO).save_model(path, format=suffix)
    for kind in (catboost.CatBoost, CatC, CatR):
        check(kind().load_model(path, format=suffix), CHANCES, 1e-6)


def test_a_catboost_classifier_that_knows_no_classes(tmp_path: Any) -> None:
    cat(CatR, REAL).save_model(tmp_path / "numbers.cbm")
    model = CatC().load_model(tmp_path / "numbers.cbm")
    check(model, scores("it was fitted without classes"), 1e-9)


def test_names_of_boosters() -> None:
    words = np.array(["no", "yes"])[TWO]
    for model in (light(LgbmC, words), cat(CatC, words)):
        assert explained(model, ROWS, None).output_names == ["yes"]
        assert explained(model, ROWS, "probability").output_names == ["no", "yes"]
        assert explained(model, ROWS, "log-odds").output_names == ["no", "yes"]
        assert explained(model, ROWS, "margin").output_names == ["yes"]

    labels = ["label 0", "label 1", "label 2"]
    two_labels = xgb(XgbC, LABELS[:, :2])
    for scale in SCALES:
        assert explained(xgb(XgbC, LABELS), ROWS, scale).output_names == labels
        assert explained(two_labels, ROWS, scale).output_names == labels[:2]
    soft = cat(CatC, LABELS, loss_function="MultiLogloss")
    assert explained(soft, ROWS, None).output_names == labels

    assert explained(xgb(XgbC, TWO, objective="binary:hinge"), ROWS, None).output_names == ["1"]
    uncertain = cat(CatR, REAL, loss_function="RMSEWithUncertainty")
    assert explained(uncertain, ROWS, None).output_names == ["mean", "variance"]


# Frames and names

FRAME = pd.DataFrame(ROWS, columns=list("abc")).assign(
    kind=pd.Categorical(np.where(ROWS[:, 0] > 0, "up", "down"), categories=["up", "down", "flat"])
)
FRAME.loc[::9, "b"] = np.nan

#: The classifier of each library, and its options for a frame with categories.
CLASSIFIERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "xgboost": (XgbC, {**QUIET_TREES, "enable_categorical": True}),
    "lightgbm": (LgbmC, LIGHT),
    "catboost": (CatC, {**CAT, "cat_features": ["kind"]}),
}


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_a_frame_with_categories_and_gaps(library: str) -> None:
    kind, options = CLASSIFIERS[library]
    # CatBoost knows no category but a string
    frame = FRAME.assign(kind=FRAME["kind"].astype(str)) if library == "catboost" else FRAME
    model = kind(**options).fit(frame, THREE)
    answer = explained(model, frame, "probability")
    assert answer.feature_names == [*"abc", "kind"]
    agree(answer.predictions, model.predict_proba(frame[10:13]))
    some = Explainer(model, frame[:1], output=["2", "0"], scale="probability")(frame[10:13])
    assert some.output_names == ["2", "0"]
    agree(some.predictions, model.predict_proba(frame[10:13])[:, [2, 0]])
    agree(explained(model, pl.from_pandas(frame), "probability").values, answer.values)


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_a_booster_fitted_to_columns_that_are_numbers(library: str) -> None:
    kind, options = CLASSIFIERS[library]
    plain = {name: option for name, option in options.items() if name != "cat_features"}
    model = kind(**plain).fit(pd.DataFrame(ROWS), TWO)
    answer = explained(model, ROWS, "probability")
    agree(answer.predictions, model.predict_proba(pd.DataFrame(FEW)))


def test_an_own_number_for_missing_values() -> None:
    holes = np.where(ROWS > 1, -999, ROWS)
    model = XgbC(**QUIET_TREES, missing=-999).fit(holes, TWO)
    answer = explained(model, holes, "probability")
    agree(answer.predictions, model.predict_proba(holes[10:13]))


def test_names_that_a_library_made_up_are_not_taken_for_names() -> None:
    """LightGBM calls the columns of an array Column_0, ..., and meta-estimators pass that on."""
    search = GridSearchCV(LgbmC(**LIGHT), {"max_depth": [2]}, cv=2).fit(ROWS, TWO)
    answer = explained(search, ROWS, "probability")
    assert answer.feature_names == ["x0", "x1", "x2"]
    agree(answer.predictions, search.predict_proba(FEW))


def test_names_with_spaces_and_names_like_numbers() -> None:
    spaced = FRAME[list("ab")].rename(columns={"a": "first one", "b": "Column_b"})
    for model in (
        LgbmC(**LIGHT).fit(spaced, TWO),
        lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(spaced, TWO), 5),
    ):
        usual = explained(model, spaced)
        turned = explained(model, spaced[["Column_b", "first one"]])
        assert usual.feature_names == ["first one", "Column_b"]
        np.testing.assert_allclose(turned.values[:, ::-1], usual.values, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        xgboost.XGBClassifier(),
        lightgbm.LGBMClassifier(),
        catboost.CatBoostClassifier(),
        xgboost.Booster(),
    ],
)
def test_models_that_are_not_fitted(model: Any) -> None:
    with pytest.raises((InputError, ModelError), match=r"is it fitted\?|fit"):
        explained(model, ROWS)
