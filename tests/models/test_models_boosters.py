"""Every objective of XGBoost, LightGBM and CatBoost: our numbers are the model's own, or we say why not."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.model_selection import GridSearchCV

from games import Floats
from shearshap import Explainer, Explanation, InputError, ModelError

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
REAL = ROWS @ [1.0, -2.0, 0.5] + RNG.normal(size=60) / 4
POSITIVE = np.exp(REAL / 4)
COUNTS = POSITIVE.round()
TWO = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-1, 1])
LABELS = np.stack((TWO, ROWS[:, 1] > 0, ROWS[:, 2] > 0.3), axis=1).astype(int)
GROUPS = np.repeat(np.arange(6), 10)
PAIR = np.stack((REAL, POSITIVE), axis=1)

SCALES = (None, "probability", "log-odds", "margin")


def explained(model: Any, rows: Any, scale: Any = None) -> Explanation:
    """Explain three rows against one other; with so few players, exactly."""
    answer = Explainer(model, rows[:1], scale=scale)(rows[10:13], budget=16)
    assert answer.method in ("exact", "exact (trees)")
    assert np.abs(answer.gap).max() < 1e-4 * (1 + np.abs(answer.predictions).max())
    return answer


def log_odds(chances: Any) -> Floats:
    clipped = np.clip(np.asarray(chances, dtype=float), 1e-7, 1 - 1e-7)
    return np.asarray(np.log(clipped / (1 - clipped)))


def agree(ours: Any, theirs: Any, tolerance: float = 1e-6) -> None:
    theirs = np.asarray(theirs, dtype=float)
    np.testing.assert_allclose(
        np.reshape(ours, len(theirs) if theirs.size == len(theirs) else theirs.shape),
        theirs.reshape(len(theirs)) if theirs.size == len(theirs) else theirs,
        rtol=tolerance,
        atol=tolerance,
    )


QUIET_TREES: dict[str, Any] = {"n_estimators": 4, "max_depth": 2, "n_jobs": 1}


def logistic(truth: Floats, margins: Floats) -> tuple[Floats, Floats]:
    """An objective of one's own: gradient and curvature of the logistic loss."""
    chances = 1 / (1 + np.exp(-margins))
    return chances - truth, chances * (1 - chances)


#: Numbers of a scale: a probability, a prediction, a margin; or the text of a refusal.
Claims = dict[str | None, str]

CHANCES: Claims = {
    None: "chances",
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


def check(model: Any, claims: Claims, own: Callable[[str], Any], tolerance: float) -> None:
    for scale in SCALES:
        claim = claims[scale]
        if claim.startswith("!"):
            with pytest.raises(InputError, match=f"scale='{scale}': this .*{claim[1:]}"):
                explained(model, ROWS, scale)
        elif claim == "log-odds of chances":
            ours = explained(model, ROWS, scale).predictions
            agree(ours, log_odds(own("chances")), 100 * tolerance)
        else:
            agree(explained(model, ROWS, scale).predictions, own(claim), tolerance)


def both(second: Floats) -> Floats:
    return np.stack((1 - second, second), axis=1)


def xgboost_own(model: Any, claim: str) -> Any:
    few = ROWS[10:13]
    rows = xgboost.DMatrix(few) if isinstance(model, xgboost.Booster) else few
    if claim == "margin":
        return model.predict(rows, output_margin=True)
    if claim == "chances" and hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return model.predict(rows)


def xgb(kind: Any, target: Any, **options: Any) -> Any:
    return kind(**{**QUIET_TREES, **options}).fit(ROWS, target)


def xgb_booster(target: Any, **options: Any) -> Any:
    objective = options.pop("obj", None)
    return xgboost.train(
        {"nthread": 1, "max_depth": 2, **options}, xgboost.DMatrix(ROWS, target), 4, obj=objective
    )


def xgb_early(*, bare: bool) -> Any:
    model = xgboost.XGBClassifier(
        n_estimators=60, early_stopping_rounds=2, learning_rate=0.9, n_jobs=1
    )
    model.fit(ROWS[:30], TWO[:30], eval_set=[(ROWS[30:], TWO[30:])], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    return model.get_booster() if bare else model


Classifier = xgboost.XGBClassifier

Regressor = xgboost.XGBRegressor

XGBOOST: dict[str, tuple[Callable[[], Any], Claims]] = {
    "two classes": (lambda: xgb(Classifier, TWO), CHANCES),
    "three classes": (lambda: xgb(Classifier, THREE), CHANCES),
    "softmax": (lambda: xgb(Classifier, THREE, objective="multi:softmax"), CHANCES),
    "random forest": (lambda: xgb(xgboost.XGBRFClassifier, TWO), CHANCES),
    "labels": (lambda: xgb(Classifier, LABELS), CHANCES),
    "labels by one tree": (
        lambda: xgb(Classifier, LABELS, multi_strategy="multi_output_tree"),
        CHANCES,
    ),
    "linear": (lambda: xgb(Classifier, THREE, booster="gblinear", max_depth=None), CHANCES),
    "base score": (lambda: xgb(Classifier, TWO, base_score=0.2), CHANCES),
    "early stopping": (lambda: xgb_early(bare=False), CHANCES),
    "logistic of one's own": (lambda: xgb(Classifier, TWO, objective=logistic), CHANCES),
    "squares for classes": (lambda: xgb(Classifier, TWO, objective="reg:squarederror"), CHANCES),
    "hinge": (lambda: xgb(Classifier, TWO, objective="binary:hinge"), scores("hinge")),
    "regressor of chances": (lambda: xgb(Regressor, TWO, objective="binary:logistic"), CHANCES),
    "regressor of labels": (lambda: xgb(Regressor, LABELS, objective="binary:logistic"), CHANCES),
    "regressor of classes": (
        lambda: xgb(Regressor, THREE, objective="multi:softprob", num_class=3),
        CHANCES,
    ),
    "regressor": (lambda: xgb(Regressor, REAL), PREDICTS),
    "two numbers": (lambda: xgb(Regressor, PAIR), PREDICTS),
    "counts": (lambda: xgb(Regressor, COUNTS, objective="count:poisson"), PREDICTS),
    "quantiles": (
        lambda: xgb(Regressor, REAL, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]),
        PREDICTS,
    ),
    "ranker": (
        lambda: xgboost.XGBRanker(**QUIET_TREES).fit(ROWS, COUNTS.astype(int), qid=GROUPS),
        PREDICTS,
    ),
    "booster": (lambda: xgb_booster(TWO, objective="binary:logistic"), CHANCES),
    "booster of classes": (
        lambda: xgb_booster(THREE, objective="multi:softprob", num_class=3),
        CHANCES,
    ),
    "booster of labels": (lambda: xgb_booster(LABELS, objective="binary:logistic"), CHANCES),
    "booster of hinge": (lambda: xgb_booster(TWO, objective="binary:hinge"), scores("hinge")),
    "booster of one's own": (
        lambda: xgb_booster(TWO, obj=lambda m, d: logistic(d.get_label(), m)),
        PREDICTS,
    ),
}


@pytest.mark.parametrize("case", XGBOOST)
def test_xgboost(case: str) -> None:
    make, claims = XGBOOST[case]
    model = make()
    check(model, claims, partial(xgboost_own, model), 1e-5)


@pytest.mark.parametrize("kind", ["classifier", "regressor", "booster"])
def test_xgboost_objectives_that_answer_by_margins_or_labels(kind: str) -> None:
    """For binary:logitraw and multi:softmax the library gives no probabilities, but margins that define them."""
    make = {
        "classifier": lambda *args, **options: xgb(Classifier, *args, **options),
        "regressor": lambda *args, **options: xgb(Regressor, *args, **options),
        "booster": xgb_booster,
    }[kind]
    raw = make(TWO, objective="binary:logitraw")
    margins = xgboost_own(raw, "margin")
    chances = 1 / (1 + np.exp(-margins))
    has_classes = kind == "classifier"
    agree(explained(raw, ROWS, None).predictions, margins, 1e-5)
    agree(explained(raw, ROWS, "margin").predictions, margins, 1e-5)
    wanted = both(chances) if has_classes else chances
    agree(explained(raw, ROWS, "probability").predictions, wanted, 1e-5)
    agree(explained(raw, ROWS, "log-odds").predictions, log_odds(wanted), 1e-4)

    if has_classes:
        return
    labels = make(THREE, objective="multi:softmax", num_class=3)
    margins = xgboost_own(labels, "margin")
    chances = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    agree(explained(labels, ROWS, None).predictions, margins, 1e-5)
    agree(explained(labels, ROWS, "probability").predictions, chances, 1e-5)
    agree(explained(labels, ROWS, "log-odds").predictions, log_odds(chances), 1e-4)
    np.testing.assert_array_equal(chances.argmax(axis=1), xgboost_own(labels, "prediction"))


LIGHT: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1, "verbose": -1, "min_child_samples": 5}

FOREST: dict[str, Any] = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}


def lightgbm_own(model: Any, claim: str) -> Any:
    few = ROWS[10:13]
    if claim == "margin":
        return model.predict(few, raw_score=True)
    if claim == "chances" and hasattr(model, "predict_proba"):
        return model.predict_proba(few)
    return model.predict(few)


def light(kind: Any, target: Any, **options: Any) -> Any:
    return kind(**{**LIGHT, **options}).fit(ROWS, target)


def light_booster(target: Any, **options: Any) -> Any:
    settings = {"verbose": -1, "min_data_in_leaf": 5, "num_threads": 1, **options}
    return lightgbm.train(settings, lightgbm.Dataset(ROWS, target), 4)


def light_early(*, bare: bool) -> Any:
    model = lightgbm.LGBMClassifier(**{**LIGHT, "n_estimators": 60, "learning_rate": 0.9})
    model.fit(
        ROWS[:30],
        TWO[:30],
        eval_X=ROWS[30:],
        eval_y=TWO[30:],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
    )
    assert model.best_iteration_ < 60
    return model.booster_ if bare else model


LgbmC = lightgbm.LGBMClassifier

LgbmR = lightgbm.LGBMRegressor

LAMBDA: Claims = {**scores("cross_entropy_lambda"), None: "prediction"}

LIGHTGBM: dict[str, tuple[Callable[[], Any], Claims]] = {
    "two classes": (lambda: light(LgbmC, TWO), CHANCES),
    "three classes": (lambda: light(LgbmC, THREE), CHANCES),
    "one against all": (lambda: light(LgbmC, THREE, objective="multiclassova"), CHANCES),
    "steep": (lambda: light(LgbmC, TWO, sigmoid=2.0), CHANCES),
    "random forest": (lambda: light(LgbmC, TWO, **FOREST), CHANCES),
    "early stopping": (lambda: light_early(bare=False), CHANCES),
    "squares for classes": (lambda: light(LgbmC, TWO, objective="regression"), CHANCES),
    "logistic of one's own": (
        lambda: light(LgbmC, TWO, objective=logistic),
        scores("objective of your own"),
    ),
    "lambda": (lambda: light(LgbmR, TWO, objective="cross_entropy_lambda"), LAMBDA),
    "regressor of chances": (lambda: light(LgbmR, TWO, objective="binary"), CHANCES),
    "regressor of classes": (
        lambda: light(LgbmR, THREE, objective="multiclass", num_class=3),
        CHANCES,
    ),
    "regressor": (lambda: light(LgbmR, REAL), PREDICTS),
    "counts": (lambda: light(LgbmR, COUNTS, objective="poisson"), PREDICTS),
    "ranker": (
        lambda: lightgbm.LGBMRanker(**LIGHT).fit(ROWS, COUNTS.astype(int), group=[10] * 6),
        PREDICTS,
    ),
    "booster": (lambda: light_booster(TWO, objective="binary"), CHANCES),
    "booster of classes": (
        lambda: light_booster(THREE, objective="multiclassova", num_class=3),
        CHANCES,
    ),
    "booster of forests": (
        lambda: light_booster(
            TWO, objective="binary", boosting="rf", bagging_freq=1, bagging_fraction=0.7
        ),
        CHANCES,
    ),
    "booster of one's own": (
        lambda: light_booster(TWO, objective=lambda m, d: logistic(d.get_label(), m)),
        PREDICTS,
    ),
}


@pytest.mark.parametrize("case", LIGHTGBM)
def test_lightgbm(case: str) -> None:
    make, claims = LIGHTGBM[case]
    model = make()
    check(model, claims, partial(lightgbm_own, model), 1e-9)


CAT: dict[str, Any] = {
    "iterations": 4,
    "depth": 2,
    "thread_count": 1,
    "verbose": 0,
    "allow_writing_files": False,
}


def catboost_own(model: Any, claim: str) -> Any:
    few = ROWS[10:13]
    if claim == "prediction" or (claim == "margin" and isinstance(model, catboost.CatBoostRanker)):
        return model.predict(few)
    kind = "RawFormulaVal" if claim == "margin" else "Probability"
    return model.predict(few, prediction_type=kind)


def cat(kind: Any, target: Any, **options: Any) -> Any:
    settings = {**CAT, **options}
    model = kind(settings) if kind is catboost.CatBoost else kind(**settings)
    return model.fit(ROWS, target)


def cat_sum(target: Any, **options: Any) -> Any:
    kind = catboost.CatBoostRegressor if target is REAL else catboost.CatBoostClassifier
    return catboost.sum_models(
        [cat(kind, target, random_seed=seed, **options) for seed in (0, 1)], weights=[0.5, 0.5]
    )


CatC = catboost.CatBoostClassifier

CatR = catboost.CatBoostRegressor

CATBOOST: dict[str, tuple[Callable[[], Any], Claims]] = {
    "two classes": (lambda: cat(CatC, TWO), CHANCES),
    "three classes": (lambda: cat(CatC, THREE), CHANCES),
    "one against all": (lambda: cat(CatC, THREE, loss_function="MultiClassOneVsAll"), CHANCES),
    "labels": (lambda: cat(CatC, LABELS, loss_function="MultiLogloss"), CHANCES),
    "plain": (lambda: cat(catboost.CatBoost, TWO, loss_function="Logloss"), CHANCES),
    "sum": (lambda: cat_sum(TWO), CHANCES),
    "regressor": (lambda: cat(CatR, REAL), PREDICTS),
    "two numbers": (lambda: cat(CatR, PAIR, loss_function="MultiRMSE"), PREDICTS),
    "uncertainty": (lambda: cat(CatR, REAL, loss_function="RMSEWithUncertainty"), PREDICTS),
    "counts": (lambda: cat(CatR, COUNTS, loss_function="Poisson"), PREDICTS),
    "quantiles": (
        lambda: cat(CatR, REAL, loss_function="MultiQuantile:alpha=0.1,0.5,0.9"),
        PREDICTS,
    ),
    "ranker": (
        lambda: catboost.CatBoostRanker(**CAT).fit(ROWS, COUNTS, group_id=GROUPS),
        PREDICTS,
    ),
}


@pytest.mark.parametrize("case", CATBOOST)
def test_catboost(case: str) -> None:
    make, claims = CATBOOST[case]
    model = make()
    check(model, claims, partial(catboost_own, model), 1e-9)


@pytest.mark.parametrize("suffix", ["cbm", "json", "onnx"])
def test_catboost_models_read_from_files(suffix: str, tmp_path: Any) -> None:
    path = tmp_path / f"model.{suffix}"
    cat(CatC, TWO).save_model(path, format=suffix)
    for kind in (catboost.CatBoost, CatC, CatR):
        model = kind().load_model(path, format=suffix)
        check(model, CHANCES, partial(catboost_own, model), 1e-6)


def test_a_catboost_classifier_that_knows_no_classes(tmp_path: Any) -> None:
    cat(CatR, REAL).save_model(tmp_path / "numbers.cbm")
    model = CatC().load_model(tmp_path / "numbers.cbm")
    check(model, scores("it knows no classes"), partial(catboost_own, model), 1e-9)


def test_names_of_boosters() -> None:
    words = np.array(["no", "yes"])[TWO]
    for model in (light(LgbmC, words), cat(CatC, words)):
        assert explained(model, ROWS, None).output_names == ["no", "yes"]
        assert explained(model, ROWS, "log-odds").output_names == ["no", "yes"]
        assert explained(model, ROWS, "margin").output_names == ["yes"]

    labels = ["label 0", "label 1", "label 2"]
    two_labels = xgb(Classifier, LABELS[:, :2])
    for scale in SCALES:
        assert explained(xgb(Classifier, LABELS), ROWS, scale).output_names == labels
        assert explained(two_labels, ROWS, scale).output_names == labels[:2]
    soft = cat(CatC, LABELS, loss_function="MultiLogloss")
    assert explained(soft, ROWS, None).output_names == labels

    assert explained(xgb(Classifier, TWO, objective="binary:hinge"), ROWS, None).output_names == [
        "1"
    ]
    uncertain = cat(CatR, REAL, loss_function="RMSEWithUncertainty")
    assert explained(uncertain, ROWS, None).output_names == ["mean", "variance"]


# Frames and names

FRAME = pd.DataFrame(ROWS, columns=list("abc")).assign(
    kind=pd.Categorical(np.where(ROWS[:, 0] > 0, "up", "down"), categories=["up", "down", "flat"])
)
FRAME.loc[::9, "b"] = np.nan

#: The classifier of each library, and its options for a frame with categories.
CLASSIFIERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "xgboost": (Classifier, {**QUIET_TREES, "enable_categorical": True}),
    "lightgbm": (LgbmC, LIGHT),
    "catboost": (CatC, {**CAT, "cat_features": ["kind"]}),
}


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_a_frame_with_categories_and_gaps(library: str) -> None:
    kind, options = CLASSIFIERS[library]
    # CatBoost knows no category but a string
    frame = FRAME.assign(kind=FRAME["kind"].astype(str)) if library == "catboost" else FRAME
    model = kind(**options).fit(frame, THREE)
    answer = explained(model, frame)
    assert answer.feature_names == [*"abc", "kind"]
    agree(answer.predictions, model.predict_proba(frame[10:13]))
    some = Explainer(model, frame[:1], output=["2", "0"])(frame[10:13])
    assert some.output_names == ["2", "0"]
    agree(some.predictions, model.predict_proba(frame[10:13])[:, [2, 0]])
    agree(explained(model, pl.from_pandas(frame)).values, answer.values)


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_a_booster_fitted_to_columns_that_are_numbers(library: str) -> None:
    kind, options = CLASSIFIERS[library]
    plain = {name: option for name, option in options.items() if name != "cat_features"}
    model = kind(**plain).fit(pd.DataFrame(ROWS), TWO)
    agree(explained(model, ROWS).predictions, model.predict_proba(pd.DataFrame(ROWS[10:13])))


def test_an_own_number_for_missing_values() -> None:
    holes = np.where(ROWS > 1, -999, ROWS)
    model = Classifier(**QUIET_TREES, missing=-999).fit(holes, TWO)
    agree(explained(model, holes).predictions, model.predict_proba(holes[10:13]))


def test_names_that_a_library_made_up_are_not_taken_for_names() -> None:
    """LightGBM calls the columns of an array Column_0, ..., and meta-estimators pass that on."""
    search = GridSearchCV(LgbmC(**LIGHT), {"max_depth": [2]}, cv=2).fit(ROWS, TWO)
    answer = explained(search, ROWS)
    assert answer.feature_names == ["x0", "x1", "x2"]
    agree(answer.predictions, search.predict_proba(ROWS[10:13]))


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


def test_exact_agrees_with_shaps_tree_explainer_in_margin_space() -> None:
    model = Classifier(n_estimators=40, max_depth=4, n_jobs=1).fit(ROWS, TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        tree = shap.TreeExplainer(
            model, ROWS[:1], feature_perturbation="interventional", model_output="raw"
        )
        theirs = tree(ROWS[10:60])
    ours = Explainer(model, ROWS[:1], method="exact", scale="margin")(ROWS[10:60], budget=8)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-4)
