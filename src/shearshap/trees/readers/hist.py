"""The trees of scikit-learn's HistGradientBoosting, on the scale of its margins.

Where it has categories, an encoder of its own puts them first and numbers them:

    input column     0 number      1 category      2 number      3 category
    seen column      2             0               3             1

A missing category goes where the node says, and so does one that was not seen in training.
"""

from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.trees.forest import Floats, Integers
from shearshap.trees.readers.growing import CategorySet, Tree, bits, grow
from shearshap.trees.seen_rows import numbers, own_values
from shearshap.trees.tree_model import TreeModel

Sets = dict[int, frozenset[int]]


def read_hist(model: Any) -> TreeModel:
    """Read a HistGradientBoostingClassifier or -Regressor."""
    outputs = model.n_trees_per_iteration_
    known = _known(model)
    trees = [
        _tree(predictor, output, outputs, known)
        for iteration in model._predictors
        for output, predictor in enumerate(iteration)
    ]

    encoder = getattr(model, "_preprocessor", None)
    if encoder is None:
        see = partial(numbers, encode=own_values)
        return TreeModel(grow(trees), see, np.arange(model.n_features_in_))
    return TreeModel(grow(trees), partial(_encoded, encoder=encoder), _columns(encoder))


def _known(model: Any) -> Sets:
    """Return the codes seen in training of each column of categories, by seen column."""
    sets, place = model._bin_mapper.make_known_categories_bitsets()
    is_categorical = np.asarray(model._bin_mapper.is_categorical_, dtype=np.bool_)
    return {
        int(column): bits(sets[place[column]].astype(np.int64))
        for column in np.flatnonzero(is_categorical)
    }


def _tree(predictor: Any, output: int, outputs: int, known: Sets) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(np.bool_)
    values = np.zeros((len(nodes), outputs))
    values[:, output] = nodes["value"]
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(np.bool_),
        values,
        _category_sets(predictor, leaf, known),
    )


def _category_sets(predictor: Any, leaf: Any, known: Sets) -> dict[int, CategorySet]:
    nodes = predictor.nodes
    asks = np.flatnonzero(nodes["is_categorical"].astype(np.bool_) & ~leaf)
    sets = {}
    for node in asks.tolist():
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        left = bits(words.astype(np.int64))
        missing_left = bool(nodes["missing_go_to_left"][node])
        right = known[int(nodes["feature_idx"][node])] - left
        sets[node] = CategorySet(left, right, other_left=missing_left, missing_left=missing_left)
    return sets


# Rows


def _columns(encoder: Any) -> Integers:
    """Return the input column of each column that the encoder makes (d',)."""
    is_categorical = np.asarray(encoder.transformers_[0][2], dtype=np.bool_)
    return np.append(np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical))


def _encoded(rows: Any, *, encoder: Any) -> Floats:
    """Return rows as the trees see them (r, d), by the estimator's own encoder."""
    if nw.dependencies.is_into_dataframe(rows):
        frame = nw.from_native(rows, eager_only=True)
        # scikit-learn takes frames of these two only
        is_taken = frame.implementation.is_pandas() or frame.implementation.is_polars()
        rows = rows if is_taken else frame.to_pandas()
    return np.asarray(encoder.transform(rows), dtype=np.float64)
