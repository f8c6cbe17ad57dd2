r"""The trees of CatBoost, from the JSON that a model saves.

A value above a border goes right, in float32. The trees see the numeric columns only. In an
oblivious tree all nodes of a level ask the same, and the bits of a leaf's number are the answers:

    splits       [s0, s1]                      s1
    level 0      asks s1                   0 /    \ 1
    level 1      asks s0                  s0        s0
    leaf         2 * s1 + s0             0  1      2  3
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shearshap.trees.forest import Floats, Integers, Tree, TreeModel, UnsupportedTrees, build_forest
from shearshap.trees.readers import first_line, narrowed, numbers, with_leaves_last


def read(model: Any) -> TreeModel:
    """Read a model whose trees ask about numbers only."""
    saved = _saved(model)
    floats = saved["features_info"].get("float_features", [])
    columns = np.array([feature["flat_feature_index"] for feature in floats], dtype=np.int64)
    # of a feature that had no missing value in training, NaN is above no border
    missing_left = np.array(
        [feature.get("nan_value_treatment") != "AsTrue" for feature in floats], dtype=np.bool_
    )

    scale, bias = saved["scale_and_bias"]
    outputs = max(1, np.size(bias))
    if "oblivious_trees" in saved:
        trees = [_oblivious(tree, outputs, missing_left) for tree in saved["oblivious_trees"]]
    else:
        trees = [_uneven(tree, outputs, missing_left) for tree in saved.get("trees", [])]
    scaled = [replace(tree, value=scale * tree.value) for tree in trees]
    return TreeModel(build_forest(scaled), partial(_preprocess, columns=columns), columns)


def _saved(model: Any) -> dict[str, Any]:
    if not model.is_fitted():
        raise UnsupportedTrees("it is not fitted")
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise UnsupportedTrees("it has text or embedding features, which CatBoost encodes itself")
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        try:
            _refuse_onnx(model)
            model.save_model(str(path), format="json")
        except Exception as error:  # CatBoost's own
            raise UnsupportedTrees(f"CatBoost cannot save it ({first_line(error)})") from error
        saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return saved


def _refuse_onnx(model: Any) -> None:
    """Raise for a model that was read from an ONNX file: saving its trees ends the process.

    They are not oblivious, although its parameters say so.
    """
    if model._object._is_oblivious():
        return
    if model.get_all_params().get("grow_policy", "SymmetricTree") == "SymmetricTree":
        raise UnsupportedTrees("it was read from ONNX")


def _checked(splits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the splits if all of them are about numbers."""
    for split in splits:
        kind = split.get("split_type", "FloatFeature")
        if kind != "FloatFeature":
            raise UnsupportedTrees(
                f"its trees split on CatBoost's own encodings of categories ({kind}), whose "
                "numbers only CatBoost knows"
            )
    return splits


def _oblivious(tree: dict[str, Any], outputs: int, missing_left: Any) -> Tree:
    splits = _checked(tree.get("splits") or [])
    depth = len(splits)
    leaves = 2**depth

    # all levels in one row, each twice as long as the one above it: the children of i are 2i + 1
    # and 2i + 2
    inner = np.arange(leaves - 1)
    split = np.repeat(np.arange(depth)[::-1], 2 ** np.arange(depth))
    column = np.array([each["float_feature_index"] for each in splits], dtype=np.int64)[split]
    border = np.array([each["border"] for each in splits], dtype=np.float32)[split]

    value = np.reshape(tree["leaf_values"], (leaves, outputs))
    cover = tree.get("leaf_weights", np.nan)
    children = (2 * inner + 1, 2 * inner + 2)
    return with_leaves_last(children, column, border, missing_left[column], value, cover)


def _uneven(tree: dict[str, Any], outputs: int, missing_left: Any) -> Tree:
    """Read a tree whose nodes are nested in one another."""
    nodes = [tree]
    left = []
    right = []
    # children are put behind all nodes known so far, and their turn comes later
    for node in nodes:
        is_inner = "split" in node
        left.append(len(nodes) if is_inner else -1)
        right.append(len(nodes) + 1 if is_inner else -1)
        if is_inner:
            _checked([node["split"]])
            nodes += [node["left"], node["right"]]

    splits = [node.get("split", {}) for node in nodes]
    column = np.array([split.get("float_feature_index", 0) for split in splits], dtype=np.int64)
    border = np.array([split.get("border", 0.0) for split in splits], dtype=np.float32)
    values = [np.broadcast_to(node.get("value", 0.0), (outputs,)) for node in nodes]
    return Tree(
        np.array(left),
        np.array(right),
        column,
        border.astype(np.float64),
        missing_left[column],
        np.array(values, dtype=np.float64),
        [node.get("weight", np.nan) for node in nodes],
    )


def _preprocess(rows: Any, *, columns: Integers) -> Floats:
    """Return the numeric columns of rows as the trees see them (r, d')."""
    return narrowed(numbers(rows)[:, columns])
