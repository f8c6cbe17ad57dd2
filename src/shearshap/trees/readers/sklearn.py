"""The trees of scikit-learn: single trees, forests and gradient boosting.

A value at most as high as the threshold goes left; values are float32, thresholds float64. What is
read is what the estimator answers by leaves: a regressor's prediction, a classifier's
probabilities, the margins of gradient boosting. Several targets stand side by side; of a target
with two classes, among several, the second class alone is kept, as the first is 1 minus it.
"""

from typing import Any

import numpy as np

from shearshap.trees.forest import Floats
from shearshap.trees.readers.growing import Tree, grow
from shearshap.trees.readers.hist import read_hist
from shearshap.trees.seen_rows import narrow_numbers
from shearshap.trees.tree_model import NotTrees, TreeModel

SINGLE = ("DecisionTreeClassifier", "DecisionTreeRegressor")
FORESTS = ("ForestClassifier", "ForestRegressor")
BOOSTED = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HIST = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")

#: Why an ensemble of trees is not read, by a class that it is made of.
REASONS = {
    "IsolationForest": "its score is a power of the mean depth of leaves, not a sum of leaves",
    "AdaBoostRegressor": "it predicts the median of its trees, not a sum of leaves",
    "BaseWeightBoosting": "it adds up votes of estimators, not values of leaves",
    "BaseBagging": "it averages estimators that may see columns of their own, which is not read",
    "_BaseVoting": "it combines estimators of any kind; explain each of them instead",
    "_BaseStacking": "its last estimator sees the answers of others, not rows",
    "Pipeline": "it is a Pipeline; what is read is its last step",
}

#: Strategies of a dummy estimator that answer all rows alike.
CONSTANT_STRATEGIES = (
    "prior",
    "most_frequent",
    "uniform",
    "constant",
    "mean",
    "median",
    "quantile",
)


def read_sklearn(model: Any) -> TreeModel:
    """Read an estimator of scikit-learn, or one that extends its class."""
    ancestors = {ancestor.__name__ for ancestor in type(model).__mro__}
    if ancestors.intersection(HIST):
        return read_hist(model)
    if ancestors.intersection(BOOSTED):
        return _tree_model(_boosted(model), model)
    if ancestors.intersection(FORESTS):
        weight = 1 / len(model.estimators_)
        return _tree_model([_averaged(tree, weight) for tree in model.estimators_], model)
    if ancestors.intersection(SINGLE):
        return _tree_model([_averaged(model, 1.0)], model)
    raise NotTrees(_reason(model, ancestors))


def _reason(model: Any, ancestors: set[str]) -> str:
    name = type(model).__name__
    for ancestor, reason in REASONS.items():
        if ancestor in ancestors:
            return f"{name}: {reason}"
    return f"{name} is no kind of trees that can be read"


def _tree_model(trees: list[Tree], model: Any) -> TreeModel:
    return TreeModel(grow(trees), narrow_numbers, np.arange(model.n_features_in_))


def _averaged(estimator: Any, weight: float) -> Tree:
    """Read a tree that counts with a weight."""
    return _tree(estimator.tree_, weight * _answers(estimator))


def _answers(estimator: Any) -> Floats:
    """Return what each node of a tree answers (n, k), all targets side by side."""
    value = np.asarray(estimator.tree_.value, dtype=np.float64)  # (n, targets, classes)
    targets = value.shape[1]
    if not hasattr(estimator, "classes_"):
        return value[:, :, 0]
    classes = np.atleast_1d(estimator.n_classes_)
    tables = [_probabilities(value[:, target, : classes[target]]) for target in range(targets)]
    if targets > 1:
        tables = [table[:, 1:] if table.shape[1] == 2 else table for table in tables]
    return np.concatenate(tables, axis=1)


def _probabilities(counts: Floats) -> Floats:
    """Return probabilities (n, classes): old versions have the weights of rows instead."""
    total = counts.sum(axis=1, keepdims=True)
    return counts / np.where(total == 0, 1.0, total)


def _boosted(model: Any) -> list[Tree]:
    _refuse_rows_in_start(model.init_)
    outputs = model.estimators_.shape[1]
    trees = []
    for stage in model.estimators_:
        for output, estimator in enumerate(stage):
            nodes = np.zeros((estimator.tree_.node_count, outputs))
            nodes[:, output] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            trees.append(_tree(estimator.tree_, nodes))
    return trees


def _refuse_rows_in_start(start: Any) -> None:
    """Raise `NotTrees` if boosting starts from an estimator whose answers depend on the row."""
    name = type(start).__name__
    is_dummy = name in ("DummyClassifier", "DummyRegressor")
    if isinstance(start, str) or (is_dummy and start.strategy in CONSTANT_STRATEGIES):
        return
    raise NotTrees(
        f"init={name}: boosting starts from an estimator, whose answers are no leaves of its trees"
    )


def _tree(tree: Any, value: Floats) -> Tree:
    if type(tree).__name__ != "Tree":
        raise NotTrees(f"its trees are of the class {type(tree).__name__}, such as oblique ones")
    left = np.asarray(tree.children_left, dtype=np.int64)
    missing_left = getattr(tree, "missing_go_to_left", np.zeros(len(left)))
    return Tree(
        left,
        np.asarray(tree.children_right, dtype=np.int64),
        np.asarray(tree.feature, dtype=np.int64),
        np.asarray(tree.threshold, dtype=np.float64),
        np.asarray(missing_left, dtype=np.bool_),
        value,
    )
