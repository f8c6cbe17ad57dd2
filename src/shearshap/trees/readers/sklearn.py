"""The trees of scikit-learn: single trees, forests and gradient boosting.

A value at most as high as the threshold goes left; values are float32, thresholds float64. What is
read is what the estimator answers by leaves: a regressor's prediction, a classifier's
probabilities, the margins of gradient boosting. Several targets stand side by side; of a target
with two classes, among several, the second class alone is kept, as the first is 1 minus it.

If HistGradientBoosting has categories, its own encoder puts them first and numbers them:

    input column     0 number      1 category      2 number      3 category
    seen column      2             0               3             1

A missing category goes where the node says, and so does one that was not seen in training.
"""

from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.trees.forest import (
    CategorySet,
    Floats,
    Tree,
    TreeModel,
    UnsupportedTrees,
    build_forest,
)
from shearshap.trees.readers import bits, narrowed, numbers, one_output, own_values

#: Classes whose models are trees.
SINGLE = ("DecisionTreeClassifier", "DecisionTreeRegressor")
FORESTS = ("ForestClassifier", "ForestRegressor")
BOOSTED = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HIST = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def read(model: Any) -> TreeModel:
    """Read an estimator of scikit-learn, or one that extends its class."""
    ancestors = {ancestor.__name__ for ancestor in type(model).__mro__}
    if ancestors.intersection(HIST):
        return _read_hist(model)
    if ancestors.intersection(BOOSTED):
        trees = _boosted(model)
    elif ancestors.intersection(FORESTS + SINGLE):
        members = model.estimators_ if ancestors.intersection(FORESTS) else [model]
        trees = [_tree(tree.tree_, _answers(tree) / len(members)) for tree in members]
    else:
        raise UnsupportedTrees(f"{type(model).__name__} is not a kind of trees that can be read")
    return TreeModel(build_forest(trees), _narrow_numbers, np.arange(model.n_features_in_))


def _answers(estimator: Any) -> Floats:
    """Return what each node of a tree answers (n, k), all targets side by side."""
    value = np.asarray(estimator.tree_.value, dtype=np.float64)  # (n, targets, classes)
    targets = value.shape[1]
    if not hasattr(estimator, "classes_"):
        return value[:, :, 0]
    classes = np.atleast_1d(estimator.n_classes_)
    tables = [value[:, target, : classes[target]] for target in range(targets)]
    if targets > 1:
        tables = [table[:, 1:] if table.shape[1] == 2 else table for table in tables]
    return np.concatenate(tables, axis=1)


def _boosted(model: Any) -> list[Tree]:
    start = type(model.init_).__name__
    if start not in ("str", "DummyClassifier", "DummyRegressor"):
        raise UnsupportedTrees(
            f"init={start}: boosting starts from an estimator, whose predictions are not leaves of "
            "its trees"
        )
    outputs = model.estimators_.shape[1]
    trees = []
    for stage in model.estimators_:
        for output, estimator in enumerate(stage):
            nodes = model.learning_rate * estimator.tree_.value[:, 0, 0]
            trees.append(_tree(estimator.tree_, one_output(nodes, output, outputs)))
    return trees


def _tree(tree: Any, value: Floats) -> Tree:
    return Tree(
        tree.children_left,
        tree.children_right,
        tree.feature,
        tree.threshold,
        tree.missing_go_to_left,
        value,
        tree.weighted_n_node_samples,
    )


def _narrow_numbers(rows: Any) -> Floats:
    """Return rows as numbers rounded to float32; a category is taken for the number it is."""
    return narrowed(numbers(rows, own_values))


# HistGradientBoosting


def _read_hist(model: Any) -> TreeModel:
    """Read a HistGradientBoostingClassifier or -Regressor."""
    outputs = model.n_trees_per_iteration_
    known = _known_categories(model)
    trees = [
        _hist_tree(predictor, output, outputs, known)
        for iteration in model._predictors
        for output, predictor in enumerate(iteration)
    ]

    encoder = getattr(model, "_preprocessor", None)
    preprocess = partial(numbers, encode=own_values)
    columns = np.arange(model.n_features_in_)
    if encoder is not None:
        preprocess = partial(_encoded, encoder=encoder)
        is_categorical = np.asarray(encoder.transformers_[0][2], dtype=np.bool_)
        columns = np.argsort(~is_categorical, kind="stable")
    return TreeModel(build_forest(trees), preprocess, columns)


def _known_categories(model: Any) -> dict[int, frozenset[int]]:
    """Return the codes seen in training of each column of categories, by seen column."""
    sets, place = model._bin_mapper.make_known_categories_bitsets()
    is_categorical = np.asarray(model._bin_mapper.is_categorical_, dtype=np.bool_)
    return {
        int(column): bits(sets[place[column]].astype(np.int64))
        for column in np.flatnonzero(is_categorical)
    }


def _hist_tree(predictor: Any, output: int, outputs: int, known: dict[int, frozenset[int]]) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(np.bool_)
    sets = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(np.bool_) & ~leaf).tolist():
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        left = bits(words.astype(np.int64))
        missing_left = bool(nodes["missing_go_to_left"][node])
        right = known[int(nodes["feature_idx"][node])] - left
        sets[node] = CategorySet(left, right, other_left=missing_left, missing_left=missing_left)
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"],
        nodes["num_threshold"],
        nodes["missing_go_to_left"],
        one_output(nodes["value"], output, outputs),
        nodes["count"],
        sets,
    )


def _encoded(rows: Any, *, encoder: Any) -> Floats:
    """Return rows as the trees see them (r, d), by the estimator's own encoder."""
    if nw.dependencies.is_into_dataframe(rows):
        frame = nw.from_native(rows, eager_only=True)
        # scikit-learn takes frames of these two only
        is_taken = frame.implementation.is_pandas() or frame.implementation.is_polars()
        rows = rows if is_taken else frame.to_pandas()
    return np.asarray(encoder.transform(rows), dtype=np.float64)
