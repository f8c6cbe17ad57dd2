"""The trees of LightGBM, from the text that a booster saves.

A value at most as high as the threshold goes left. What a missing value is, a node's
`decision_type` says: none (NaN is 0), zero (0 is missing, and so is NaN), or NaN. All nodes take
a column alike, unless training went on with other data; such models are not read.
"""

from functools import partial
from typing import Any

import numpy as np

from shearshap.trees.forest import (
    CategorySet,
    Floats,
    Integers,
    Tree,
    TreeModel,
    UnsupportedTrees,
    build_forest,
)
from shearshap.trees.readers import (
    bits,
    codes_among,
    narrowed,
    numbers,
    one_output,
    own_codes,
    with_leaves_last,
)

#: How a node takes a column: its missing values, or that it is one of categories.
NONE, ZERO, NAN, CATEGORY = range(4)

#: The bits of a node's decision type; the two above them are the kind of missing values.
IS_CATEGORY = 1
MISSING_LEFT = 2

#: What is at most that far from 0 is 0.
NEARLY_ZERO = float(np.float32(1e-35))

#: Objectives whose predictions are not sums of leaves, as their margins are.
LINKED = (
    "binary",
    "multiclass",
    "multiclassova",
    "cross_entropy",
    "cross_entropy_lambda",
    "poisson",
    "gamma",
    "tweedie",
)

Fields = dict[str, str]


def read(model: Any) -> TreeModel:
    """Read a `Booster` or one of the scikit-learn wrappers, up to its best iteration."""
    booster = model.booster_ if hasattr(model, "booster_") else model
    head, *blocks = booster.model_to_string().split("\nTree=")
    header = _fields(head)
    outputs = int(header["num_tree_per_iteration"])
    divisor = len(blocks) // outputs if _predicts_averages(head, header) else 1
    raw = [_fields(block.partition("\nend of trees")[0]) for block in blocks]
    kinds = _kinds(int(header["max_feature_idx"]) + 1, raw)
    trees = [_tree(tree, number % outputs, outputs, divisor) for number, tree in enumerate(raw)]

    categories = [list(column) for column in booster.pandas_categorical or ()]
    preprocess = partial(_preprocess, kinds=kinds, categories=categories)
    return TreeModel(build_forest(trees), preprocess, np.arange(len(kinds)))


def _fields(text: str) -> Fields:
    """Return the values of lines such as "num_leaves=31", by name."""
    lines = [line.partition("=") for line in text.splitlines()]
    return {name: value for name, equals, value in lines if equals}


def _predicts_averages(head: str, header: Fields) -> bool:
    """Return whether the answer that is linear in the leaves is their mean.

    So it is for the predictions of a random forest, but its margins are the sums.
    """
    objective = header.get("objective", "").split(" ")
    has_link = objective[0] in LINKED or "sqrt" in objective
    return "average_output" in head.splitlines() and not has_link


def _array(fields: Fields, name: str, kind: Any) -> Any:
    return np.array(fields.get(name, "").split(), dtype=kind)


def _decision_kinds(fields: Fields) -> Integers:
    """Return how each inner node takes its column (n,)."""
    decision_type = _array(fields, "decision_type", np.int64)
    is_category = (decision_type & IS_CATEGORY) > 0
    return np.where(is_category, CATEGORY, (decision_type >> 2) & 3)


def _kinds(inputs: int, trees: list[Fields]) -> Integers:
    """Return how the nodes of all trees take each column (d,)."""
    taken = np.full((inputs, 4), False)
    for tree in trees:
        taken[_array(tree, "split_feature", np.int64), _decision_kinds(tree)] = True
    if (taken.sum(axis=1) > 1).any():
        raise UnsupportedTrees("its trees treat the missing values of a column in two ways")
    return np.where(taken.any(axis=1), taken.argmax(axis=1), NAN)


def _tree(fields: Fields, output: int, outputs: int, divisor: int) -> Tree:
    if fields.get("is_linear", "0").strip() == "1":
        raise UnsupportedTrees("linear_tree=True: its leaves are linear models, not numbers")
    value = _array(fields, "leaf_value", np.float64) / divisor
    inner = len(value) - 1
    sides = [_array(fields, f"{side}_child", np.int64)[:inner] for side in ("left", "right")]
    # a leaf i is -1 - i there, and behind the inner nodes here
    left, right = (np.where(side < 0, inner - 1 - side, side) for side in sides)

    kind = _decision_kinds(fields)[:inner]
    default_left = (_array(fields, "decision_type", np.int64) & MISSING_LEFT) > 0
    return with_leaves_last(
        (left, right),
        _array(fields, "split_feature", np.int64),
        _array(fields, "threshold", np.float64),
        default_left & (kind != NONE),  # if none is missing it does not matter
        one_output(value, output, outputs),
        _array(fields, "leaf_count", np.float64) if "leaf_count" in fields else np.nan,
        _category_sets(fields, kind),
    )


def _category_sets(fields: Fields, kind: Integers) -> dict[int, CategorySet]:
    """Return the sets of categories that go left, by node; all others and NaN go right."""
    nodes = np.flatnonzero(kind == CATEGORY)
    if not len(nodes):
        return {}
    threshold = _array(fields, "threshold", np.float64)[nodes].astype(np.int64)  # of a set
    start = _array(fields, "cat_boundaries", np.int64)
    words = _array(fields, "cat_threshold", np.int64)
    return {
        node: CategorySet(bits(words[start[number] : start[number + 1]]))
        for node, number in zip(nodes.tolist(), threshold, strict=True)
    }


# Rows


def _preprocess(rows: Any, *, kinds: Integers, categories: list[list[Any]]) -> Floats:
    """Return rows as the trees see them (r, d)."""
    seen = np.array(numbers(rows, partial(_codes, categories=categories)))  # written to below
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iub":
        seen = narrowed(seen)  # LightGBM makes float32 of an array of integers

    seen[np.abs(seen) <= NEARLY_ZERO] = 0.0
    seen[np.isnan(seen) & (kinds == NONE)] = 0.0
    seen[(seen == 0.0) & (kinds == ZERO)] = np.nan
    return seen


def _codes(columns: dict[int, Any], *, categories: list[list[Any]]) -> dict[int, Floats]:
    """Return codes among the categories trained with; columns are matched by their order."""
    if len(columns) != len(categories):
        return own_codes(columns)
    codes = [{value: float(code) for code, value in enumerate(column)} for column in categories]
    return {
        position: codes_among(series, series.cat.categories, own, np.nan)
        for (position, series), own in zip(columns.items(), codes, strict=True)
    }
