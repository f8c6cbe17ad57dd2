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
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_regression
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from shearshap.models.sklearn import side_by_side
from shearshap.trees.forest import CategoryDecisions, Decisions, Forest
from shearshap.trees.readers.growing import CategorySet, Tree, bits, grow
from shearshap.trees.readers.reading import NotTrees, TreeModel, read
from shearshap.trees.readers.ubjson import parse

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
    column = model.columns[decisions.column[numeric]]
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
    seen = model.see(rows)
    assert seen.dtype == np.float64
    assert seen.shape == (len(rows), len(model.columns))
    sums = model.forest.predict(seen)
    answer = np.asarray(answer, dtype=np.float64).reshape(len(sums), -1)
    assert answer.shape == sums.shape

    decisions = model.forest.decisions
    some = seen[::5]
    number = np.repeat(np.arange(len(decisions)), len(some))
    row = np.tile(np.arange(len(some)), len(decisions))
    each = decisions.go_right_each(number, some, row).reshape(len(decisions), -1)
    np.testing.assert_array_equal(decisions.go_right(some), each)

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


# The form


def small_forest() -> Forest:
    """One tree over a number and a category, and one that is a leaf."""
    tree = Tree(
        left=np.array([1, -1, 3, -1, -1]),
        right=np.array([2, -1, 4, -1, -1]),
        column=np.array([0, 0, 1, 0, 0]),
        threshold=np.array([0.5, 0, 0, 0, 0]),
        missing_left=np.array([False] * 5),
        value=np.array([[9.0], [1.0], [9.0], [2.0], [4.0]]),
        categories={2: CategorySet(frozenset({3, 70}), frozenset({5}), True, False)},
    )
    leaf = Tree(
        left=np.array([-1]),
        right=np.array([-1]),
        column=np.array([0]),
        threshold=np.array([0.0]),
        missing_left=np.array([False]),
        value=np.array([[10.0]]),
    )
    return grow([tree, leaf], strict=True)


def test_a_forest_of_numbers_and_categories_sends_rows_where_it_should() -> None:
    rows = np.array(
        [
            [0.4, np.nan],
            [0.5, 3],
            [0.5, 3.9],  # codes are made integers by cutting
            [0.5, 70],
            [0.5, 5],
            [0.5, 6],  # no set has it
            [0.5, -1],
            [0.5, np.inf],
            [0.5, np.nan],
            [np.nan, 5],
        ]
    )
    expected = [11, 12, 12, 12, 14, 12, 12, 12, 14, 14]
    assert small_forest().predict(rows)[:, 0].tolist() == expected
    assert small_forest().predict(rows[:0]).shape == (0, 1)


def test_decisions_are_distinct_and_pruned_nodes_are_gone() -> None:
    stump = Tree(
        left=np.array([1, -1, -1, -1]),  # no parent has the last node
        right=np.array([2, -1, -1, -1]),
        column=np.array([0, 0, 0, 0]),
        threshold=np.array([0.5, 0, 0, 0]),
        missing_left=np.array([True] * 4),
        value=np.array([[0.0], [1.0], [2.0], [7.0]]),
    )
    forest = grow([stump, stump])
    assert len(forest.decisions) == 1
    assert forest.left.tolist() == [1, -1, -1, 4, -1, -1]
    assert forest.roots.tolist() == [0, 3]
    assert forest.predict(np.array([[0.5], [0.6], [np.nan]]))[:, 0].tolist() == [2, 4, 2]


numbers_near = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, np.inf, np.nan])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_decisions_answer_as_their_definition_says(data: st.DataObject) -> None:
    asked = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                numbers_near.filter(lambda x: x > -np.inf),
                st.booleans(),
                st.booleans(),
            ),
            min_size=1,
            max_size=6,
        )
    )
    rows = data.draw(st.lists(st.tuples(numbers_near, numbers_near, numbers_near), max_size=5))
    seen = np.array(rows, dtype=np.float64).reshape(-1, 3)
    column, threshold, strict, missing_left = (np.array(part) for part in zip(*asked, strict=True))
    answers = Decisions(column, threshold, strict, missing_left).go_right(seen)

    assert answers.dtype == np.uint8
    for number, (of, limit, below, left) in enumerate(asked):
        for row, values in enumerate(seen):
            x = values[of]
            goes_left = left if np.isnan(x) else x < limit if below else x <= limit
            assert answers[number, row] == (not goes_left)


def test_decisions_about_categories_may_stand_between_others() -> None:
    decisions = Decisions(
        np.array([1, 0, 1]),
        np.array([np.nan, 0.5, np.nan]),
        np.array([False] * 3),
        np.array([True, True, False]),
        (
            CategoryDecisions(
                np.array([0, 2]), np.array([4]), np.array([[1, 0, 0], [0, 1, 1]], dtype=np.uint8)
            ),
        ),
    )
    seen = np.array([[0.0, 4.0], [1.0, 5.0], [np.nan, np.nan]])
    assert decisions.go_right(seen).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]


def drawn_tree(generator: np.random.Generator, depth: int) -> Tree:
    """A tree of a depth that asks about numbers (columns 0, 1) and categories (2, 3)."""
    inner = 2**depth - 1
    nodes = 2 * inner + 1
    number = np.arange(nodes)
    is_leaf = number >= inner
    column = generator.integers(0, 4, nodes)
    sets = {
        int(node): CategorySet(
            frozenset(generator.integers(0, 3, 2).tolist()),
            frozenset(generator.integers(3, 6, 2).tolist()),
            *generator.integers(0, 2, 2).astype(bool).tolist(),
        )
        for node in np.flatnonzero(~is_leaf & (column > 1))
    }
    return Tree(
        left=np.where(is_leaf, -1, 2 * number + 1),
        right=np.where(is_leaf, -1, 2 * number + 2),
        column=column,
        threshold=generator.integers(-1, 2, nodes).astype(float),
        missing_left=generator.random(nodes) < 0.5,
        value=generator.normal(size=(nodes, 2)),
        categories=sets,
    )


def walked(tree: Tree, row: Any, node: int = 0) -> Any:
    """The leaf of one row, by the definition of a tree."""
    if tree.left[node] < 0:
        return tree.value[node]
    x = row[tree.column[node]]
    left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
    if node in tree.categories:
        categories = tree.categories[node]
        named = True if x in categories.left else False if x in categories.right else None
        left = categories.other_left if named is None else named
        left = categories.missing_left if np.isnan(x) else left
    return walked(tree, row, int((tree.left if left else tree.right)[node]))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_a_forest_is_the_sum_of_its_trees(seed: int, depths: list[int]) -> None:
    generator = np.random.default_rng(seed)
    trees = [drawn_tree(generator, depth) for depth in depths]
    rows = generator.integers(-2, 8, (20, 4)).astype(float)
    rows[generator.random(rows.shape) < 0.2] = np.nan
    expected = [sum(walked(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(grow(trees).predict(rows), expected, rtol=0, atol=1e-12)


def test_a_model_that_says_the_same_of_all_rows_has_no_decisions() -> None:
    model = read(DecisionTreeRegressor().fit(X, np.full(COUNT, 3.0)))
    assert model.forest.decisions.go_right(model.see(X)).shape == (0, COUNT)
    assert model.forest.predict(model.see(X)).tolist() == [[3.0]] * COUNT


def test_bits_are_numbered_from_the_lowest_of_the_first_word() -> None:
    assert bits(np.array([0b101, 1 << 31])) == {0, 2, 63}


def test_ubjson_of_every_kind() -> None:
    data = b"{" + b"L" + (1).to_bytes(8, "big") + b"a" + b"[$d#L" + (2).to_bytes(8, "big")
    data += np.array([0.5, -1], dtype=">f4").tobytes()
    data += (
        b"L"
        + (1).to_bytes(8, "big")
        + b"b"
        + b"[SL"
        + (1).to_bytes(8, "big")
        + b"xTFZi\xffCy[#i\x01U\x07]}"
    )
    value = parse(data)
    assert value["a"].tolist() == [0.5, -1]
    assert value["b"] == ["x", True, False, None, -1, "y", [7]]
    with pytest.raises(ValueError, match="'q'"):
        parse(b"q")


# XGBoost


def xgb_margin(model: Any) -> Call:
    return lambda rows: model.predict(rows, output_margin=True)


XGBOOST: dict[str, tuple[Any, Any, Any]] = {
    "regressor": (xgboost.XGBRegressor(max_depth=4), HOLES, Y),
    "exact, pruned": (xgboost.XGBRegressor(max_depth=6, tree_method="exact", gamma=1.0), HOLES, Y),
    "lossguide": (xgboost.XGBRegressor(grow_policy="lossguide", max_leaves=9, max_depth=0), X, Y),
    "binary": (xgboost.XGBClassifier(), HOLES, BINARY),
    "classes": (xgboost.XGBClassifier(max_depth=3), HOLES, THREE),
    "poisson": (xgboost.XGBRegressor(objective="count:poisson"), X, np.abs(Y)),
    "quantiles": (
        xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]),
        X,
        Y,
    ),
    "dart": (xgboost.XGBRegressor(booster="dart", rate_drop=0.4, seed=3), HOLES, Y),
    "dart of classes": (xgboost.XGBClassifier(booster="dart", rate_drop=0.4), X, THREE),
    "random forest": (xgboost.XGBRFRegressor(max_depth=5), HOLES, Y),
    "random forest of classes": (xgboost.XGBRFClassifier(max_depth=5), HOLES, THREE),
    "parallel trees": (xgboost.XGBRegressor(num_parallel_tree=3, subsample=0.5), HOLES, Y),
    "targets": (xgboost.XGBRegressor(max_depth=3), HOLES, TARGETS),
    "vector leaves": (
        xgboost.XGBRegressor(max_depth=3, multi_strategy="multi_output_tree"),
        HOLES,
        TARGETS,
    ),
    "missing is 0": (xgboost.XGBRegressor(missing=0.0), X, Y),
    "missing is 1.1": (xgboost.XGBRegressor(missing=1.1), np.where(X == 1, 1.1, X), Y),
    "monotone": (xgboost.XGBRegressor(monotone_constraints=(1, 0, 0, 1)), HOLES, Y),
    "constant": (xgboost.XGBRegressor(base_score=5.0), HOLES, Y),
}


@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost(name: str) -> None:
    wrapper, rows, target = XGBOOST[name]
    fitted = wrapper.set_params(n_estimators=6, n_jobs=1).fit(rows, target)
    model = agrees(fitted, xgb_margin(fitted), rows, CLOSE_32)
    booster = fitted.get_booster()
    if fitted.missing is None or np.isnan(fitted.missing):
        agrees(
            booster,
            lambda given: booster.predict(xgboost.DMatrix(given), output_margin=True),
            rows,
            CLOSE_32,
        )
    assert model.columns.tolist() == [0, 1, 2, 3]


def test_xgboost_ranks() -> None:
    fitted = xgboost.XGBRanker(n_estimators=5, n_jobs=1)
    fitted.fit(HOLES, THREE, qid=np.arange(COUNT) // 10)
    agrees(fitted, fitted.predict, HOLES, CLOSE_32)


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
    short = agrees(fitted, xgb_margin(fitted), X, CLOSE_32)
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


def test_xgboost_sees_categories_of_pyarrow_and_words_by_name() -> None:
    trained = frame_of_kinds("pandas", KINDS, SIZES, X)
    fitted = xgboost.XGBRegressor(n_estimators=8, enable_categorical=True, n_jobs=1).fit(
        trained, Y_KINDS
    )
    model = read(fitted)
    seen = model.see(trained)
    np.testing.assert_array_equal(model.see(pa.Table.from_pandas(trained)), seen)
    np.testing.assert_array_equal(model.see(trained.assign(kind=WORDS[KINDS].astype(object))), seen)


def test_xgboost_with_a_category_not_seen_in_training_cannot_predict() -> None:
    trained = frame_of_kinds("pandas", np.minimum(KINDS, 3), SIZES, X)
    fitted = xgboost.XGBRegressor(n_estimators=8, enable_categorical=True, n_jobs=1).fit(
        trained, Y_KINDS
    )
    frame = frame_of_kinds("pandas", KINDS, SIZES, X)
    with pytest.raises(xgboost.core.XGBoostError, match="category not in the training set"):
        fitted.predict(frame)
    np.testing.assert_array_equal(read(fitted).see(frame)[:, 1], np.where(KINDS > 3, -1, KINDS))


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


def lgb_margin(model: Any) -> Call:
    return lambda rows: model.predict(rows, raw_score=True)


QUIET: dict[str, Any] = {
    "n_estimators": 8,
    "num_leaves": 9,
    "min_child_samples": 5,
    "verbose": -1,
    "n_jobs": 1,
}

LIGHTGBM: dict[str, tuple[Any, Any, Any]] = {
    "no missing": (lightgbm.LGBMRegressor(), X, Y),
    "missing": (lightgbm.LGBMRegressor(), HOLES, Y),
    "zero is missing": (lightgbm.LGBMRegressor(zero_as_missing=True), HOLES, Y),
    "nothing is missing": (lightgbm.LGBMRegressor(use_missing=False), HOLES, Y),
    "binary": (lightgbm.LGBMClassifier(), HOLES, BINARY),
    "classes": (lightgbm.LGBMClassifier(), HOLES, THREE),
    "classes, each alone": (lightgbm.LGBMClassifier(objective="multiclassova"), HOLES, THREE),
    "dart": (lightgbm.LGBMRegressor(boosting_type="dart", drop_rate=0.5), HOLES, Y),
    "random forest of classes": (
        lightgbm.LGBMClassifier(boosting_type="rf", subsample=0.7, subsample_freq=1),
        HOLES,
        THREE,
    ),
    "extra trees": (lightgbm.LGBMRegressor(extra_trees=True), HOLES, Y),
    "goss": (lightgbm.LGBMRegressor(data_sample_strategy="goss"), HOLES, Y),
    "poisson": (lightgbm.LGBMRegressor(objective="poisson"), X, np.abs(Y)),
    "monotone": (lightgbm.LGBMRegressor(monotone_constraints=[1, 0, 0, 1]), HOLES, Y),
}


@pytest.mark.parametrize("name", LIGHTGBM)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_lightgbm(name: str) -> None:
    wrapper, rows, target = LIGHTGBM[name]
    fitted = wrapper.set_params(**QUIET).fit(rows, target)
    agrees(fitted, lgb_margin(fitted), rows)
    model = agrees(fitted.booster_, lgb_margin(fitted.booster_), rows)
    assert model.columns.tolist() == [0, 1, 2, 3]

    tiny = rows[:40].copy()
    tiny[:, 3] = np.resize([1e-36, -1e-36, 1e-34, -1e-34, np.float32(1e-35), 0.0], 40)
    assert_is(model, fitted.predict(tiny, raw_score=True), tiny, CLOSE)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_a_random_forest_of_lightgbm_predicts_means() -> None:
    fitted = lightgbm.LGBMRegressor(
        boosting_type="rf", subsample=0.7, subsample_freq=1, **QUIET
    ).fit(HOLES, Y)
    agrees(fitted, fitted.predict, HOLES)


def test_lightgbm_ranks() -> None:
    fitted = lightgbm.train(
        {"objective": "lambdarank", "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(HOLES, THREE, group=[10] * 24),
        5,
    )
    agrees(fitted, fitted.predict, HOLES)


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
    model = agrees(fitted, lgb_margin(fitted), X)
    assert len(model.forest.roots) == 3 * fitted.best_iteration


def lightgbm_kinds(rows: Any, **more: Any) -> Any:
    options = QUIET | {"min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 2}
    return lightgbm.LGBMRegressor(**options).fit(rows, Y_KINDS, **more)


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
    np.testing.assert_array_equal(model.see(table), model.see(trained))
    loaded = read(lightgbm.Booster(model_str=fitted.booster_.model_to_string()))
    np.testing.assert_array_equal(loaded.see(reordered), model.see(trained))


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
    fitted = lightgbm.LGBMRegressor(**QUIET).fit(rows.astype(np.float64), rows[:, 0] % 40)
    assert_is(read(fitted), fitted.predict(rows), rows, CLOSE)
    assert_is(read(fitted), fitted.predict(rows.astype(np.float64)), rows.astype(np.float64), CLOSE)


def test_lightgbm_whose_columns_are_taken_in_two_ways() -> None:
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 7}
    first = lightgbm.train(options, lightgbm.Dataset(X, Y), 4)
    both = lightgbm.train(options, lightgbm.Dataset(HOLES, Y), 4, init_model=first)
    model = agrees(both, both.predict, HOLES)
    assert len(model.columns) > 4
    assert set(model.columns.tolist()) == {0, 1, 2, 3}


# CatBoost


CATBOOST: dict[str, tuple[Any, Any, Any]] = {
    "regressor": (catboost.CatBoostRegressor(depth=4), HOLES, Y),
    "no missing": (catboost.CatBoostRegressor(depth=4), X, Y),
    "missing is highest": (catboost.CatBoostRegressor(depth=4, nan_mode="Max"), HOLES, Y),
    "binary": (catboost.CatBoostClassifier(depth=3), HOLES, BINARY),
    "classes": (catboost.CatBoostClassifier(depth=3), HOLES, THREE),
    "each class alone": (
        catboost.CatBoostClassifier(depth=3, loss_function="MultiClassOneVsAll"),
        X,
        THREE,
    ),
    "targets": (catboost.CatBoostRegressor(depth=3, loss_function="MultiRMSE"), HOLES, TARGETS),
    "depthwise": (catboost.CatBoostRegressor(depth=4, grow_policy="Depthwise"), HOLES, Y),
    "lossguide": (catboost.CatBoostRegressor(grow_policy="Lossguide", max_leaves=9), HOLES, Y),
    "depthwise classes": (
        catboost.CatBoostClassifier(depth=3, grow_policy="Depthwise"),
        HOLES,
        THREE,
    ),
    "monotone": (catboost.CatBoostRegressor(depth=3, monotone_constraints=[1, 0, 0, 1]), X, Y),
}


def quiet_catboost(model: Any, rounds: int = 8) -> Any:
    return model.set_params(iterations=rounds, verbose=0, allow_writing_files=False, thread_count=1)


def raw_values(model: Any) -> Call:
    return lambda rows: model.predict(rows, prediction_type="RawFormulaVal")


@pytest.mark.parametrize("name", CATBOOST)
def test_catboost(name: str) -> None:
    model, rows, target = CATBOOST[name]
    fitted = quiet_catboost(model).fit(rows, target)
    agrees(fitted, raw_values(fitted), rows)


def test_catboost_with_a_scale_and_a_constant() -> None:
    fitted = quiet_catboost(catboost.CatBoostRegressor(depth=3)).fit(HOLES, Y)
    fitted.set_scale_and_bias(2.5, -3.0)
    agrees(fitted, fitted.predict, HOLES)


def test_catboost_that_stopped_early() -> None:
    fitted = quiet_catboost(catboost.CatBoostRegressor(depth=3, learning_rate=0.9), 60)
    fitted.fit(X[:120], Y[:120], eval_set=(X[120:], Y[120:]), early_stopping_rounds=3)
    assert fitted.tree_count_ < 40
    agrees(fitted, fitted.predict, X)


def test_catboost_sees_the_numbers_of_a_frame() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "word": "same", "b": HOLES[:, 1]})
    fitted = quiet_catboost(catboost.CatBoostRegressor(depth=3, cat_features=["word"])).fit(
        frame, Y
    )
    model = read(fitted)
    assert model.columns.tolist() == [0, 2]
    assert_is(model, fitted.predict(frame), frame, CLOSE)


# scikit-learn


def tables_side_by_side(model: Any) -> Call:
    return lambda rows: np.asarray(side_by_side(model.predict_proba(rows)))


LABELS = np.stack((BINARY, THREE, BINARY[::-1]), axis=1)

SKLEARN: dict[str, tuple[Any, Any, Any]] = {
    "tree": (DecisionTreeRegressor(), HOLES, Y),
    "tree of classes": (DecisionTreeClassifier(max_depth=5), HOLES, THREE),
    "tree of two classes": (DecisionTreeClassifier(max_depth=5), HOLES, BINARY),
    "tree of targets": (DecisionTreeRegressor(max_depth=5), HOLES, TARGETS),
    "tree of labels": (DecisionTreeClassifier(max_depth=5), HOLES, LABELS),
    "extra tree": (ExtraTreeRegressor(), X, Y),
    "extra tree of classes": (ExtraTreeClassifier(), HOLES, THREE),
    "forest": (RandomForestRegressor(n_estimators=6), HOLES, Y),
    "forest of classes": (RandomForestClassifier(n_estimators=6), HOLES, THREE),
    "forest of weighted classes": (
        RandomForestClassifier(n_estimators=6, class_weight="balanced", max_depth=4),
        HOLES,
        THREE,
    ),
    "forest of targets": (RandomForestRegressor(n_estimators=6, max_depth=4), HOLES, TARGETS),
    "forest of labels": (RandomForestClassifier(n_estimators=6, max_depth=4), X, LABELS),
    "extra trees": (ExtraTreesRegressor(n_estimators=6), HOLES, Y),
    "extra trees of classes": (ExtraTreesClassifier(n_estimators=6), X, BINARY),
    "monotone": (RandomForestRegressor(n_estimators=6, monotonic_cst=[1, 0, 0, 1]), X, Y),
    "monotone classes": (
        DecisionTreeClassifier(monotonic_cst=[1, 0, 0, 1], max_depth=4),
        X,
        BINARY,
    ),
    "poisson": (RandomForestRegressor(n_estimators=6, criterion="poisson"), X, np.abs(Y)),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_trees_and_forests_of_sklearn(name: str) -> None:
    estimator, rows, target = SKLEARN[name]
    fitted = estimator.set_params(random_state=0).fit(rows, target)
    call = tables_side_by_side(fitted) if hasattr(fitted, "predict_proba") else fitted.predict
    agrees(fitted, call, rows, missing=rows is HOLES)


BOOSTED: dict[str, tuple[Any, Any]] = {
    "regressor": (GradientBoostingRegressor(), Y),
    "absolute": (GradientBoostingRegressor(loss="huber", subsample=0.7), Y),
    "from zero": (GradientBoostingRegressor(init="zero"), Y),
    "binary": (GradientBoostingClassifier(), BINARY),
    "classes": (GradientBoostingClassifier(), THREE),
    "from a constant": (
        GradientBoostingClassifier(init=DummyClassifier(strategy="uniform")),
        THREE,
    ),
    "stopped early": (GradientBoostingClassifier(n_iter_no_change=2, learning_rate=0.9), THREE),
}


@pytest.mark.parametrize("name", BOOSTED)
def test_gradient_boosting_of_sklearn(name: str) -> None:
    estimator, target = BOOSTED[name]
    rounds = 60 if name == "stopped early" else 6
    fitted = estimator.set_params(n_estimators=rounds, random_state=0).fit(X, target)
    call = getattr(fitted, "decision_function", fitted.predict)
    model = agrees(fitted, call, X, missing=False)
    assert len(model.forest.roots) < 60


HIST: dict[str, tuple[Any, Any, Any]] = {
    "regressor": (HistGradientBoostingRegressor(), HOLES, Y),
    "no missing": (HistGradientBoostingRegressor(), X, Y),
    "binary": (HistGradientBoostingClassifier(), HOLES, BINARY),
    "classes": (HistGradientBoostingClassifier(), HOLES, THREE),
    "stopped early": (
        HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=2),
        HOLES,
        THREE,
    ),
    "monotone": (HistGradientBoostingRegressor(monotonic_cst=[1, 0, 0, 1]), HOLES, Y),
}


@pytest.mark.parametrize("name", HIST)
def test_hist_gradient_boosting(name: str) -> None:
    estimator, rows, target = HIST[name]
    fitted = estimator.set_params(max_iter=8, max_leaf_nodes=9, random_state=0).fit(rows, target)
    agrees(fitted, getattr(fitted, "decision_function", fitted.predict), rows)


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
    assert model.columns.tolist() == columns
    for frame in frames:
        known = frame.to_pandas() if library == "pyarrow" else frame
        assert_is(model, fitted.predict(known), frame, CLOSE)


def test_hist_gradient_boosting_with_categories_not_seen_in_training() -> None:
    trained = frame_of_kinds("pandas", np.minimum(KINDS, 4), SIZES, X)
    fitted = HistGradientBoostingRegressor(max_iter=8, categorical_features="from_dtype").fit(
        trained, Y_KINDS
    )
    frame = frame_of_kinds("pandas", KINDS, np.where(SIZES == 10, 15, SIZES), X)
    assert_is(read(fitted), fitted.predict(frame), frame, CLOSE)


@pytest.mark.parametrize(
    "estimator", [DecisionTreeRegressor(max_depth=5), HistGradientBoostingRegressor(max_iter=4)]
)
def test_sklearn_takes_categories_that_are_numbers_for_those(estimator: Any) -> None:
    if isinstance(estimator, HistGradientBoostingRegressor):
        estimator.set_params(categorical_features=None)
    frame = pd.DataFrame({"x": X[:, 0], "size": pd.Categorical(SIZES), "z": X[:, 3] > 1})
    fitted = estimator.fit(frame, Y_KINDS + SIZES)
    assert_is(read(fitted), fitted.predict(frame), frame, CLOSE)


def test_a_search_is_read_as_what_it_found() -> None:
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": [2, 3]}, cv=2).fit(X, Y)
    agrees(search, search.predict, X, missing=False)


def test_hist_gradient_boosting_with_categories_of_an_array() -> None:
    rows = np.column_stack((X[:, 0], KINDS, HOLES[:, 1], SIZES))
    fitted = HistGradientBoostingClassifier(max_iter=8, categorical_features=[1, 3]).fit(
        rows[KINDS != 5], np.digitize(Y_KINDS, (0, 2))[KINDS != 5]
    )
    strange = rows[:6].copy()
    strange[:, 1] = [-1, 7, 6.5, np.nan, 300, 256]
    model = read(fitted)
    assert model.columns.tolist() == [1, 3, 0, 2]
    for some in (rows, strange):
        assert_is(model, fitted.decision_function(some), some, CLOSE)


# What is not read


def linear_leaves() -> Any:
    options = QUIET | {"linear_tree": True}
    return lightgbm.LGBMRegressor(**options).fit(X, Y)


def words_of_catboost() -> Any:
    frame = pd.DataFrame({"a": X[:, 0], "word": WORDS[KINDS]})
    return quiet_catboost(catboost.CatBoostRegressor(depth=3, cat_features=["word"])).fit(
        frame, Y_KINDS
    )


def text_of_catboost() -> Any:
    texts = [" ".join(WORDS[[kind, other]]) for kind, other in zip(KINDS, KINDS[::-1], strict=True)]
    frame = pd.DataFrame({"a": X[:, 0], "text": texts})
    model = quiet_catboost(catboost.CatBoostClassifier(depth=3, text_features=["text"]))
    return model.fit(frame, KINDS == 2)


def started_from_an_estimator() -> Any:
    return GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, Y)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "gblinear": (
        lambda: xgboost.XGBRegressor(booster="gblinear", n_estimators=2, n_jobs=1).fit(X, Y),
        "gblinear.*linear model",
    ),
    "linear leaves": (linear_leaves, "linear_tree=True: its leaves are linear models"),
    "words of catboost": (words_of_catboost, "CatBoost's own encodings of categories"),
    "text of catboost": (text_of_catboost, "it has features of text or embeddings"),
    "init": (started_from_an_estimator, "init=LinearRegression: boosting starts from an estimator"),
    "isolation": (lambda: IsolationForest(n_estimators=2).fit(X), "IsolationForest: .* mean depth"),
    "ada": (lambda: AdaBoostRegressor(n_estimators=2).fit(X, Y), "AdaBoostRegressor: .*median"),
    "ada of classes": (
        lambda: AdaBoostClassifier(n_estimators=2).fit(X, BINARY),
        "AdaBoost.*votes",
    ),
    "bagging": (
        lambda: BaggingRegressor(n_estimators=2).fit(X, Y),
        "BaggingRegressor: it averages",
    ),
    "voting": (
        lambda: VotingRegressor([("a", DecisionTreeRegressor())]).fit(X, Y),
        "VotingRegressor: it combines",
    ),
    "stacking": (
        lambda: StackingRegressor([("a", DecisionTreeRegressor())]).fit(X, Y),
        "StackingRegressor: its last estimator",
    ),
    "pipeline": (
        lambda: make_pipeline(StandardScaler(), DecisionTreeRegressor()).fit(X, Y),
        "it is a Pipeline",
    ),
    "linear": (lambda: LinearRegression().fit(X, Y), "LinearRegression is no kind of trees"),
    "function": (lambda: lambda rows: rows, "a function is of no library"),
    "not fitted": (xgboost.XGBRegressor, "the trees of this XGBRegressor cannot be read"),
    "not fitted forest": (RandomForestRegressor, "the trees of this RandomForestRegressor cannot"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_with_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()
    with pytest.raises(NotTrees, match=reason) as caught:
        read(model)
    assert "\n" not in str(caught.value)


def test_a_subclass_is_read_as_what_it_extends() -> None:
    class Own(RandomForestRegressor):  # type: ignore[misc]
        pass

    fitted = Own(n_estimators=3, random_state=0).fit(HOLES, Y)
    agrees(fitted, fitted.predict, HOLES)


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), columns=st.integers(1, 6), depth=st.integers(1, 5))
def test_any_booster_of_numbers(seed: int, columns: int, depth: int) -> None:
    rows, target = make_regression(60, columns, n_informative=1, random_state=seed)
    rows = np.round(rows, 1)
    rows[::5, seed % columns] = np.nan
    tree = xgboost.XGBRegressor(n_estimators=3, max_depth=depth, n_jobs=1).fit(rows, target)
    agrees(tree, tree.predict, rows, CLOSE_32)
    booster = lightgbm.train(
        {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 3, "max_depth": depth},
        lightgbm.Dataset(rows, target),
        3,
    )
    agrees(booster, booster.predict, rows)
