"""The trees of XGBoost, from the JSON that a booster saves.

A value below a threshold goes left, in float32. A category that is in a node's set goes right, and
any other one left. Missing values go where the node says.
"""

import json
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from shearshap.trees.forest import (
    CategorySet,
    Floats,
    Tree,
    TreeModel,
    UnsupportedTrees,
    build_forest,
)
from shearshap.trees.readers import codes_among, narrowed, numbers, one_output, own_codes

#: The codes of the categories that a model knows, by column.
Known = dict[int, dict[Any, float]]

#: The code of a category that a model does not know: it is in no set.
UNKNOWN = -1.0


def read(model: Any) -> TreeModel:
    """Read a `Booster` or one of the scikit-learn wrappers."""
    is_wrapper = hasattr(model, "get_booster")
    booster = model.get_booster() if is_wrapper else model
    learner = json.loads(booster.save_raw("json"))["learner"]
    param = learner["learner_model_param"]
    outputs = max(1, int(param["num_class"]), int(param.get("num_target", 1)))

    gbtree, weights = _gbtree(learner["gradient_booster"])
    saved = gbtree["trees"]
    if is_wrapper:
        # up to the best iteration, if it has one; a booster itself predicts by all trees
        with suppress(AttributeError):
            saved = saved[: int(gbtree["iteration_indptr"][int(model.best_iteration) + 1])]
    trees = [
        _tree(tree, int(output), weight, outputs)
        for tree, output, weight in zip(saved, gbtree["tree_info"], weights, strict=False)
    ]

    known = _known_categories(gbtree.get("cats", {}))
    columns = np.arange(int(param["num_feature"]))
    categorical = sorted({int(tree.column[node]) for tree in trees for node in tree.categories})
    # the number that stands for a missing value, as float32 holds it
    given = getattr(model, "missing", None)
    missing = np.nan if given is None else float(np.float32(given))
    preprocess = partial(_preprocess, known=known, categorical=categorical, missing=missing)
    return TreeModel(build_forest(trees), preprocess, columns)


def _gbtree(booster: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the model of trees, and the weight of each tree."""
    if booster["name"] == "gblinear":
        raise UnsupportedTrees("booster='gblinear' has no trees: it is a linear model")
    if booster["name"] == "dart":
        return booster["gbtree"]["model"], booster["weight_drop"]
    gbtree = booster["model"]
    return gbtree, [1.0] * len(gbtree["trees"])


def _tree(tree: dict[str, Any], output: int, weight: float, outputs: int) -> Tree:
    left = np.asarray(tree["left_children"], dtype=np.int64)
    threshold = np.asarray(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    default_left = np.asarray(tree["default_left"], dtype=np.bool_)
    return Tree(
        left,
        np.asarray(tree["right_children"], dtype=np.int64),
        np.asarray(tree["split_indices"], dtype=np.int64),
        np.nextafter(threshold, -np.inf),  # x < t is the same as x <= the number before t
        default_left,
        _values(tree, output, outputs) * np.float64(weight),
        tree.get("sum_hessian", np.nan),
        _category_sets(tree, default_left),
    )


def _values(tree: dict[str, Any], output: int, outputs: int) -> Floats:
    """Return the values of leaves (n, k); those of other nodes do not matter."""
    if int(tree["tree_param"].get("size_leaf_vector", 1)) <= 1:
        # a leaf has its value in the place of a threshold
        return one_output(np.asarray(tree["split_conditions"], np.float32), output, outputs)

    # the leaves of several outputs lie in a table of their own; its row is the right child
    table = np.asarray(tree["leaf_weights"], dtype=np.float32).reshape(-1, outputs)
    row = np.where(np.asarray(tree["left_children"]) < 0, tree["right_children"], 0)
    return np.asarray(table[row], dtype=np.float64)


def _category_sets(tree: dict[str, Any], default_left: Any) -> dict[int, CategorySet]:
    """Return the sets of categories, by node."""
    codes = np.asarray(tree.get("categories", []), dtype=np.int64)
    nodes = np.asarray(tree.get("categories_nodes", []), dtype=np.int64)
    starts = np.asarray(tree.get("categories_segments", []), dtype=np.int64)
    sizes = np.asarray(tree.get("categories_sizes", []), dtype=np.int64)
    return {
        node: CategorySet(
            left=frozenset(),
            right=frozenset(codes[start : start + size].tolist()),
            other_left=True,
            missing_left=bool(default_left[node]),
        )
        for node, start, size in zip(nodes.tolist(), starts, sizes, strict=True)
    }


# Rows


def _known_categories(saved: dict[str, Any]) -> Known:
    """Return the categories that the model was trained with; none if it was given codes.

    Words are saved as one text, in UTF-8, and the places where each of them starts and ends.
    """
    known: Known = {}
    for column, categories in enumerate(saved.get("enc", [])):
        values = np.asarray(categories["values"])
        if len(values) == 0:
            continue
        keys = values.tolist()
        if "offsets" in categories:
            ends = np.asarray(categories["offsets"], dtype=np.int64).tolist()
            keys = _cut(values.astype(np.int8).tobytes(), ends)
        known[column] = {key: float(code) for code, key in enumerate(keys)}
    return known


def _cut(text: bytes, ends: list[int]) -> list[bytes]:
    return [text[start:end] for start, end in pairwise(ends)]


def _keys(categories: list[Any], known: dict[Any, float]) -> list[Any]:
    """Return what stands for each category of a frame among those saved.

    Some versions count characters, not bytes, when they cut the words of pandas: "élan" is saved
    as "éla", and those of a frame to predict are cut alike.
    """
    if not all(isinstance(category, str) for category in categories):
        return categories
    words = [category.encode() for category in categories]
    if all(word in known for word in words):
        return words
    ends = np.cumsum([0, *map(len, categories)]).tolist()
    cut = _cut(b"".join(words), ends)
    return cut if all(word in known for word in cut) else words


def _preprocess(rows: Any, *, known: Known, categorical: list[int], missing: float) -> Floats:
    """Return rows as the trees see them (r, d)."""
    seen = narrowed(numbers(rows, partial(_codes, known=known)))
    if not np.isnan(missing):
        seen[seen == missing] = np.nan
    codes = seen[:, categorical]
    seen[:, categorical] = np.where(codes < 0, UNKNOWN, codes)  # -0.5 is not a code either
    return seen


def _codes(columns: dict[int, Any], *, known: Known) -> dict[int, Floats]:
    """Return the codes of categorical columns, by the categories known or else by their own."""
    own = own_codes({column: columns[column] for column in columns if column not in known})
    trained = {
        column: codes_among(
            series, _keys(list(series.cat.categories), known[column]), known[column], UNKNOWN
        )
        for column, series in columns.items()
        if column in known
    }
    return own | trained
