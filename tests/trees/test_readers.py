"""Every model that is read is the sum of its leaves: on rows of all kinds, up to a constant."""

import warnings
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from shearshap.models.sklearn import side_by_side
from shearshap.trees.forest import TreeModel, UnsupportedTrees
from shearshap.trees.readers import read

Call = Callable[[Any], Any]

GENERATOR = np.random.default_rng(7)
COUNT = 240

X = GENERATOR.normal(size=(COUNT, 4))
X[:, 3] = GENERATOR.integers(0, 4, COUNT)  # ties, and zeros
Y = X[:, 0] + np.abs(X[:, 1]) * (X[:, 3] > 1) + 0.3 * np.sin(5 * X[:, 2])
BINARY = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, (0.3, 0.7)))
TARGETS = np.stack((Y, Y * X[:, 0], -X[:, 1]), axis=1)

HOLES = np.where(GENERATOR.random(X.shape) < 0.15, np.nan, X)

WORDS = np.array(["ant", "bee", "cat", "dog", "élan", "fox", "gnu"])
KINDS = GENERATOR.integers(0, 7, COUNT)
SIZES = GENERATOR.choice([10, 20, 40, 80], COUNT)
Y_KINDS = X[:, 0] + np.array([0.0, 3, 1, -2, 2, 0, 5])[KINDS] + (SIZES == 20)

#: A model in float64, and one that sums its leaves in float32.
CLOSE = 1e-9
CLOSE_32 = 1e-5


def trials(model: TreeModel, rows: Any, *, missing: bool = True) -> Any:
    """Rows that ask for trouble: new ones, missing values, thresholds and what is next to them."""
    generator = np.random.default_rng(0)
    fresh = 2 * generator.normal(size=rows.shape)
    mixed = np.where(generator.random(rows.shape) < 0.5, rows, fresh)

    decisions = model.forest.decisions
    numeric = np.isfinite(decisions.threshold)
    threshold = decisions.threshold[numeric]
    column = model.owner[decisions.column[numeric]]
    narrow = threshold.astype(np.float32)
    with np.errstate(over="ignore"):
        near = [
            threshold,
            narrow,
            np.nextafter(narrow, np.float32(np.inf)),
            np.nextafter(narrow, np.float32(-np.inf)),
            np.nextafter(threshold, np.inf),
            np.nextafter(threshold, -np.inf),
        ]
    at = []
    for values in near:
        block = rows[generator.integers(0, len(rows), len(threshold))].copy()
        block[np.arange(len(block)), column] = values
        at.append(block)

    tried = [rows, fresh, mixed, np.zeros((1, rows.shape[1])), -mixed, *at]
    if missing:
        tried.append(np.where(generator.random(rows.shape) < 0.4, np.nan, rows))
        tried.append(np.full((1, rows.shape[1]), np.nan))
    return np.concatenate(tried)


def assert_is(model: TreeModel, answer: Any, rows: Any, tolerance: float) -> None:
    """Assert that the answers to some rows are sums of leaves, plus a constant."""
    seen = model.preprocess(rows)
    assert seen.dtype == np.float64
    assert seen.shape == (len(rows), len(model.owner))
    sums = model.forest.predict(seen)
    answer = np.asarray(answer, dtype=np.float64).reshape(len(sums), -1)
    assert answer.shape == sums.shape

    rest = answer - sums
    scale = np.abs(sums).max() + 1
    assert sums.std(axis=0).max() > 1e-3, "the model says nothing"
    np.testing.assert_allclose(
        rest, np.broadcast_to(rest[0], rest.shape), rtol=0, atol=tolerance * scale
    )


def agrees(
    fitted: Any, call: Call, rows: Any, tolerance: float = CLOSE, *, missing: bool = True
) -> TreeModel:
    """Read a model of an array, and assert that its answers to all trials are sums of leaves."""
    model = read(fitted)
    tried = trials(model, rows, missing=missing)
    assert_is(model, call(tried), tried, tolerance)
    return model


# Every kind of model that is read

LABELS = np.stack((BINARY, THREE, BINARY[::-1]), axis=1)

#: Options of all models of a library, by its name.
OPTIONS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 6, "n_jobs": 1},
    "lightgbm": {
        "n_estimators": 8,
        "num_leaves": 9,
        "min_child_samples": 5,
        "verbose": -1,
        "n_jobs": 1,
    },
    "catboost": {"iterations": 8, "verbose": 0, "allow_writing_files": False, "thread_count": 1},
    "sklearn": {"random_state": 0},
}

XGB = xgboost.XGBRegressor
XGB_CLASSES = xgboost.XGBClassifier
LGB = lightgbm.LGBMRegressor
LGB_CLASSES = lightgbm.LGBMClassifier
CAT = catboost.CatBoostRegressor
CAT_CLASSES = catboost.CatBoostClassifier
BOOSTING = GradientBoostingRegressor
BOOSTING_CLASSES = GradientBoostingClassifier
HIST = HistGradientBoostingRegressor
HIST_CLASSES = HistGradientBoostingClassifier
RF = {"boosting_type": "rf", "subsample": 0.7, "subsample_freq": 1}
SIX = {"n_estimators": 6}
EIGHT = {"max_iter": 8, "max_leaf_nodes": 9}

#: A model, and the rows and the target that it is fitted to.
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "xgboost": (XGB(max_depth=4), HOLES, Y),
    "xgboost, pruned": (XGB(max_depth=6, tree_method="exact", gamma=1.0), HOLES, Y),
    "xgboost, lossguide": (XGB(grow_policy="lossguide", max_leaves=9, max_depth=0), X, Y),
    "xgboost, binary": (XGB_CLASSES(), HOLES, BINARY),
    "xgboost, poisson": (XGB(objective="count:poisson"), X, np.abs(Y)),
    "xgboost, quantiles": (XGB(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]), X, Y),
    "xgboost, dart of classes": (XGB_CLASSES(booster="dart", rate_drop=0.4), X, THREE),
    "xgboost, forest": (xgboost.XGBRFRegressor(max_depth=5), HOLES, Y),
    "xgboost, forest of classes": (xgboost.XGBRFClassifier(max_depth=5), HOLES, THREE),
    "xgboost, parallel trees": (XGB(num_parallel_tree=3, subsample=0.5), HOLES, Y),
    "xgboost, targets": (XGB(max_depth=3), HOLES, TARGETS),
    "xgboost, vector leaves": (
        XGB(max_depth=3, multi_strategy="multi_output_tree"), HOLES, TARGETS,
    ),
    "xgboost, missing is 0": (XGB(missing=0.0), X, Y),
    "xgboost, missing is 1.1": (XGB(missing=1.1), np.where(X == 1, 1.1, X), Y),
    "lightgbm, missing": (LGB(), HOLES, Y),
    "lightgbm, zero is missing": (LGB(zero_as_missing=True), HOLES, Y),
    "lightgbm, nothing is missing": (LGB(use_missing=False), HOLES, Y),
    "lightgbm, binary": (LGB_CLASSES(), HOLES, BINARY),
    "lightgbm, classes": (LGB_CLASSES(), HOLES, THREE),
    "lightgbm, classes alone": (LGB_CLASSES(objective="multiclassova"), HOLES, THREE),
    "lightgbm, dart": (LGB(boosting_type="dart", drop_rate=0.5), HOLES, Y),
    "lightgbm, forest of classes": (LGB_CLASSES(**RF), HOLES, THREE),
    "lightgbm, extra trees": (LGB(extra_trees=True), HOLES, Y),
    "lightgbm, poisson": (LGB(objective="poisson"), X, np.abs(Y)),
    "catboost": (CAT(depth=4), HOLES, Y),
    "catboost, no missing": (CAT(depth=4), X, Y),
    "catboost, missing is highest": (CAT(depth=4, nan_mode="Max"), HOLES, Y),
    "catboost, binary": (CAT_CLASSES(depth=3), HOLES, BINARY),
    "catboost, classes": (CAT_CLASSES(depth=3), HOLES, THREE),
    "catboost, classes alone": (
        CAT_CLASSES(depth=3, loss_function="MultiClassOneVsAll"), X, THREE,
    ),
    "catboost, targets": (CAT(depth=3, loss_function="MultiRMSE"), HOLES, TARGETS),
    "catboost, lossguide": (CAT(grow_policy="Lossguide", max_leaves=9), HOLES, Y),
    "catboost, depthwise classes": (CAT_CLASSES(depth=3, grow_policy="Depthwise"), HOLES, THREE),
    "tree": (DecisionTreeRegressor(), HOLES, Y),
    "tree of classes": (DecisionTreeClassifier(max_depth=5), HOLES, THREE),
    "tree of targets": (DecisionTreeRegressor(max_depth=5), HOLES, TARGETS),
    "tree of labels": (DecisionTreeClassifier(max_depth=5), HOLES, LABELS),
    "extra tree of classes": (ExtraTreeClassifier(), HOLES, THREE),
    "forest": (RandomForestRegressor(**SIX), HOLES, Y),
    "forest of classes": (RandomForestClassifier(**SIX, class_weight="balanced"), HOLES, THREE),
    "forest of labels": (RandomForestClassifier(**SIX, max_depth=4), X, LABELS),
    "extra trees": (ExtraTreesRegressor(**SIX), HOLES, Y),
    "monotone classes": (DecisionTreeClassifier(monotonic_cst=[1, 0, 0, 1]), X, BINARY),
    "forest, poisson": (RandomForestRegressor(**SIX, criterion="poisson"), X, np.abs(Y)),
    "boosting": (BOOSTING(**SIX), X, Y),
    "boosting, huber": (BOOSTING(**SIX, loss="huber", subsample=0.7), X, Y),
    "boosting from zero": (BOOSTING(**SIX, init="zero"), X, Y),
    "boosting, binary": (BOOSTING_CLASSES(**SIX), X, BINARY),
    "boosting, classes": (BOOSTING_CLASSES(**SIX), X, THREE),
    "boosting from a constant": (
        BOOSTING_CLASSES(**SIX, init=DummyClassifier(strategy="uniform")), X, THREE,
    ),
    "boosting, stopped early": (BOOSTING_CLASSES(n_iter_no_change=2, learning_rate=0.9), X, THREE),
    "hist": (HIST(**EIGHT), HOLES, Y),
    "hist, classes": (HIST_CLASSES(**EIGHT), HOLES, THREE),
    "hist, stopped early": (
        HIST_CLASSES(**EIGHT, early_stopping=True, n_iter_no_change=2), HOLES, THREE,
    ),
}  # fmt: skip


def library_of(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


def linear_answer(model: Any) -> Call:
    """The method of a fitted model whose answers are linear in its leaves."""
    margins: dict[str, dict[str, Any]] = {
        "xgboost": {"output_margin": True},
        "lightgbm": {"raw_score": True},
        "catboost": {"prediction_type": "RawFormulaVal"},
    }
    if library_of(model) in margins:
        return lambda rows: model.predict(rows, **margins[library_of(model)])
    if hasattr(model, "decision_function"):
        return model.decision_function  # type: ignore[no-any-return]
    if hasattr(model, "predict_proba"):
        return lambda rows: np.asarray(side_by_side(model.predict_proba(rows)))
    return model.predict  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_a_model_is_the_sum_of_its_leaves(name: str) -> None:
    model, rows, target = MODELS[name]
    library = library_of(model)
    fitted = model.set_params(**OPTIONS[library]).fit(rows, target)
    takes_missing = library != "sklearn" or rows is HOLES or name.startswith("hist")
    close = CLOSE_32 if library == "xgboost" else CLOSE
    read_model = agrees(fitted, linear_answer(fitted), rows, close, missing=takes_missing)
    covers = np.add.reduceat(read_model.forest.cover, read_model.forest.roots)
    assert (covers > 0).all()

    if library == "lightgbm":
        agrees(fitted.booster_, linear_answer(fitted.booster_), rows)
        tiny = rows[:40].copy()
        tiny[:, 3] = np.resize([1e-36, -1e-36, 1e-34, -1e-34, np.float32(1e-35), 0.0], 40)
        assert_is(read(fitted), fitted.predict(tiny, raw_score=True), tiny, CLOSE)
    if library == "xgboost" and np.isnan(fitted.missing):
        own = fitted.get_booster()
        agrees(
            own,
            lambda given: own.predict(xgboost.DMatrix(given), output_margin=True),
            rows,
            CLOSE_32,
        )


def ranked_by_lightgbm() -> Any:
    data = lightgbm.Dataset(HOLES, THREE, group=[10] * 24)
    return lightgbm.train({"objective": "lambdarank", "verbose": -1, "num_threads": 1}, data, 5)


def scaled_catboost() -> Any:
    fitted = CAT(depth=3, **OPTIONS["catboost"]).fit(HOLES, Y)
    fitted.set_scale_and_bias(2.5, -3.0)
    return fitted


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_predictions_that_are_linear_themselves() -> None:
    qid = np.arange(COUNT) // 10
    ranker = xgboost.XGBRanker(**OPTIONS["xgboost"]).fit(HOLES, THREE, qid=qid)
    agrees(ranker, ranker.predict, HOLES, CLOSE_32)
    averaging = LGB(**RF, **OPTIONS["lightgbm"]).fit(HOLES, Y)
    for model in (averaging, ranked_by_lightgbm(), scaled_catboost()):
        agrees(model, model.predict, HOLES)


# XGBoost


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_xgboost_that_stopped_early_predicts_by_the_best_iteration_as_a_wrapper_only(
    booster: str,
) -> None:
    fitted = xgboost.XGBClassifier(
        n_estimators=40,
        early_stopping_rounds=3,
        learning_rate=1.0,
        n_jobs=1,
        booster=booster,
        num_parallel_tree=2,
    )
    fitted.fit(X[:120], THREE[:120], eval_set=[(X[120:], THREE[120:])], verbose=False)
    own = fitted.get_booster()
    assert fitted.best_iteration + 1 < own.num_boosted_rounds()
    short = agrees(fitted, linear_answer(fitted), X, CLOSE_32)
    long = agrees(
        own, lambda rows: own.predict(xgboost.DMatrix(rows), output_margin=True), X, CLOSE_32
    )
    assert len(short.forest.roots) == 6 * (fitted.best_iteration + 1) < len(long.forest.roots)


def frame_of_kinds(library: str, kinds: Any, sizes: Any, numbers: Any) -> Any:
    """A frame with two columns of categories, words and numbers, between numbers."""
    words = np.where(kinds < 0, None, WORDS[kinds])
    frame = pd.DataFrame(
        {
            "x": numbers[:, 0],
            "kind": pd.Series(pd.Categorical(words)),
            "z": pd.Series(numbers[:, 3]).astype("Int64"),
            "size": pd.Series(pd.Categorical(sizes)),
        }
    )
    if library == "pandas":
        return frame
    if library == "pyarrow":
        return pa.Table.from_pandas(frame)
    return pl.from_pandas(frame.assign(size=sizes)).with_columns(
        pl.col("kind").cast(pl.Categorical)
    )


def kinds_frames(library: str) -> tuple[Any, list[Any]]:
    """A frame to train with, and some more whose categories are others, or in another order."""
    generator = np.random.default_rng(1)
    trained = frame_of_kinds(library, KINDS, SIZES, X)
    drawn = generator.integers(-1, 7, 60)
    some = frame_of_kinds(library, drawn, SIZES[:60], X[60:120])
    few = frame_of_kinds(library, generator.integers(4, 7, 30), np.full(30, 20), X[:30])
    return trained, [trained, some, few]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("one_hot", [2, 100])
def test_xgboost_with_categories_of_frames(library: str, one_hot: int) -> None:
    trained, frames = kinds_frames(library)
    fitted = xgboost.XGBRegressor(
        n_estimators=8, max_depth=4, enable_categorical=True, max_cat_to_onehot=one_hot, n_jobs=1
    ).fit(trained, Y_KINDS)
    model = read(fitted)
    assert model.forest.decisions.categories
    for frame in frames:
        assert_is(model, fitted.predict(frame), frame, CLOSE_32)


def test_xgboost_with_codes_of_categories_in_an_array() -> None:
    rows = np.column_stack((X[:, 0], KINDS, HOLES[:, 1]))
    target = Y_KINDS - 9 * (KINDS == 0)
    fitted = xgboost.XGBRegressor(
        n_estimators=8,
        enable_categorical=True,
        feature_types=["q", "c", "q"],
        max_cat_to_onehot=2,
        n_jobs=1,
    ).fit(rows, target)
    strange = rows[:11].copy()
    strange[:, 1] = [7, 40, 6.7, np.nan, 1e6, 2, 3.2, 5, 0.5, -1, -0.5]
    model = read(fitted)
    for some in (rows, strange):
        assert_is(model, fitted.predict(some), some, CLOSE_32)


# LightGBM


def test_lightgbm_that_stopped_early_predicts_by_the_best_iteration() -> None:
    fitted = lightgbm.train(
        {
            "objective": "multiclass",
            "num_class": 3,
            "verbose": -1,
            "learning_rate": 0.7,
            "num_threads": 1,
        },
        lightgbm.Dataset(X[:120], THREE[:120]),
        60,
        valid_sets=[lightgbm.Dataset(X[120:], THREE[120:])],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    assert 0 < fitted.best_iteration < fitted.current_iteration()
    model = agrees(fitted, lambda rows: fitted.predict(rows, raw_score=True), X)
    assert len(model.forest.roots) == 3 * fitted.best_iteration


def lightgbm_kinds(rows: Any, target: Any = Y_KINDS, **more: Any) -> Any:
    options = OPTIONS["lightgbm"] | {
        "min_data_per_group": 5,
        "cat_smooth": 1.0,
        "max_cat_to_onehot": 2,
    }
    return lightgbm.LGBMRegressor(**options).fit(rows, target, **more)


def test_lightgbm_with_categories_of_frames() -> None:
    trained, frames = kinds_frames("pandas")
    fitted = lightgbm_kinds(trained)
    model = read(fitted)
    assert model.forest.decisions.categories
    reordered = trained.assign(kind=trained["kind"].cat.reorder_categories(list(WORDS[::-1])))
    unseen = trained.assign(kind=pd.Categorical(np.resize(["gnu", "yak", "ant"], COUNT)))
    for frame in (*frames, reordered, unseen):
        answer = fitted.predict(frame)
        assert_is(model, answer, frame, CLOSE)

    # a column of another library has its categories by name too
    table = pa.Table.from_pandas(trained)
    np.testing.assert_array_equal(model.preprocess(table), model.preprocess(trained))
    loaded = read(lightgbm.Booster(model_str=fitted.booster_.model_to_string()))
    np.testing.assert_array_equal(loaded.preprocess(reordered), model.preprocess(trained))


def test_lightgbm_with_infinite_thresholds_beside_categories() -> None:
    """A split of the missing values from all others has a threshold that no integer holds."""
    trained, _ = kinds_frames("pandas")
    gaps = np.where(np.arange(COUNT) % 3 == 0, np.nan, 1.0)
    frame = trained.assign(gaps=gaps)
    fitted = lightgbm_kinds(frame, Y_KINDS + 10 * np.isnan(gaps))
    model = read(fitted)
    assert model.forest.decisions.categories
    assert_is(model, fitted.predict(frame), frame, CLOSE)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:categorical_feature:UserWarning")
def test_lightgbm_with_codes_of_categories_in_an_array() -> None:
    rows = np.column_stack((X[:, 0], np.array([0, 40, 2, 33, 99, 5, 6])[KINDS], HOLES[:, 1]))
    fitted = lightgbm_kinds(rows, categorical_feature=[1])
    strange = rows[:10].copy()
    strange[:, 1] = [-1, 41, 40.7, np.nan, 1e6, -0.5, 99, 6, 0, 3e9]
    model = read(fitted)
    assert model.forest.decisions.categories
    for some in (rows, strange, rows.astype(np.float32)):
        assert_is(model, fitted.predict(some), some, CLOSE)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_lightgbm_rounds_integers_of_an_array() -> None:
    rows = GENERATOR.integers(2**26, 2**26 + 40, (COUNT, 2))
    fitted = lightgbm.LGBMRegressor(**OPTIONS["lightgbm"]).fit(
        rows.astype(np.float64), rows[:, 0] % 40
    )
    assert_is(read(fitted), fitted.predict(rows), rows, CLOSE)
    assert_is(read(fitted), fitted.predict(rows.astype(np.float64)), rows.astype(np.float64), CLOSE)


def test_lightgbm_whose_columns_are_taken_in_two_ways_is_refused() -> None:
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 7}
    first = lightgbm.train(options, lightgbm.Dataset(X, Y), 4)
    both = lightgbm.train(options, lightgbm.Dataset(HOLES, Y), 4, init_model=first)
    with pytest.raises(UnsupportedTrees, match="missing values of a column in two ways"):
        read(both)


# CatBoost


def test_catboost_sees_the_numbers_of_a_frame() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "word": "same", "b": HOLES[:, 1]})
    fitted = CAT(depth=3, cat_features=["word"], **OPTIONS["catboost"]).fit(frame, Y)
    model = read(fitted)
    assert model.owner.tolist() == [0, 2]
    assert_is(model, fitted.predict(frame), frame, CLOSE)


# scikit-learn


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_hist_gradient_boosting_with_categories_of_frames(library: str) -> None:
    trained, frames = kinds_frames(library)
    if library == "pyarrow":
        trained = trained.to_pandas()
    fitted = HistGradientBoostingRegressor(max_iter=8, categorical_features="from_dtype").fit(
        trained, Y_KINDS
    )
    model = read(fitted)
    assert model.forest.decisions.categories
    columns = [1, 3, 0, 2] if library != "polars" else [1, 0, 2, 3]
    assert model.owner.tolist() == columns
    for frame in frames:
        known = frame.to_pandas() if library == "pyarrow" else frame
        assert_is(model, fitted.predict(known), frame, CLOSE)


@pytest.mark.parametrize(
    "estimator", [DecisionTreeRegressor(max_depth=5), HistGradientBoostingRegressor(max_iter=4)]
)
def test_sklearn_takes_categories_that_are_numbers_for_those(estimator: Any) -> None:
    if isinstance(estimator, HistGradientBoostingRegressor):
        estimator.set_params(categorical_features=None)
    frame = pd.DataFrame({"x": X[:, 0], "size": pd.Categorical(SIZES), "z": X[:, 3] > 1})
    fitted = estimator.fit(frame, Y_KINDS + SIZES)
    assert_is(read(fitted), fitted.predict(frame), frame, CLOSE)


def test_hist_gradient_boosting_with_categories_of_an_array() -> None:
    rows = np.column_stack((X[:, 0], KINDS, HOLES[:, 1], SIZES))
    fitted = HistGradientBoostingClassifier(max_iter=8, categorical_features=[1, 3]).fit(
        rows[KINDS != 5], np.digitize(Y_KINDS, (0, 2))[KINDS != 5]
    )
    strange = rows[:6].copy()
    strange[:, 1] = [-1, 7, 6.5, np.nan, 300, 256]
    model = read(fitted)
    assert model.owner.tolist() == [1, 3, 0, 2]
    for some in (rows, strange):
        assert_is(model, fitted.decision_function(some), some, CLOSE)


# What is not read


def catboost_of(column: str, values: Any, kind: str) -> Any:
    """A model of CatBoost with a column that it encodes itself."""
    frame = pd.DataFrame({"a": X[:, 0], column: values})
    model = CAT_CLASSES(depth=3, **{kind: [column]}, **OPTIONS["catboost"])
    return model.fit(frame, KINDS == 2)


PAIRS = [" ".join(WORDS[[kind, other]]) for kind, other in zip(KINDS, KINDS[::-1], strict=True)]

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "gblinear": (lambda: XGB(booster="gblinear", n_jobs=1).fit(X, Y), "gblinear.*linear model"),
    "linear leaves": (
        lambda: LGB(linear_tree=True, **OPTIONS["lightgbm"]).fit(X, Y),
        "linear_tree=True: its leaves are linear models",
    ),
    "words of catboost": (
        lambda: catboost_of("word", WORDS[KINDS], "cat_features"),
        "CatBoost's own encodings of categories",
    ),
    "text of catboost": (
        lambda: catboost_of("text", PAIRS, "text_features"),
        "it has text or embedding features",
    ),
    "init": (
        lambda: BOOSTING(n_estimators=2, init=LinearRegression()).fit(X, Y),
        "init=LinearRegression: boosting starts from an estimator",
    ),
    "linear": (lambda: LinearRegression().fit(X, Y), "LinearRegression is not a kind of trees"),
    "function": (lambda: lambda rows: rows, "a function is not from a library"),
    "not fitted XGBoost": (XGB, "the trees of this XGBRegressor cannot be read"),
    "not fitted LightGBM": (LGB, "the trees of this LGBMRegressor cannot be read"),
    "not fitted CatBoost": (CAT, "it is not fitted"),
    "not fitted forest": (RandomForestRegressor, "the trees of this RandomForestRegressor cannot"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_with_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()
    with pytest.raises(UnsupportedTrees, match=reason) as caught:
        read(model)
    assert "\n" not in str(caught.value)
