"""Forests are the sums of their trees, walked node by node, and hold each question once."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from shearshap.trees.forest import CategorySet, Tree, build_forest
from shearshap.trees.readers import read

#: Numbers next to thresholds, and codes: some are in no set, and fractions are cut off.
NUMBERS = [-np.inf, -1.0, -0.5, -0.0, 5e-324, 0.5, 1.0, 2.0, 3.9, 4.0, 5.0, 70.0, np.inf, np.nan]


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
            frozenset(generator.integers(3, 71, 9).tolist()),
            *generator.integers(0, 2, 2).astype(bool).tolist(),
        )
        for node in np.flatnonzero(~is_leaf & (column > 1))
    }
    return Tree(
        left=np.where(is_leaf, -1, 2 * number + 1),
        right=np.where(is_leaf, -1, 2 * number + 2),
        column=column,
        threshold=generator.choice(NUMBERS[:-1], nodes),
        missing_left=generator.random(nodes) < 0.5,
        value=generator.normal(size=(nodes, 2)),
        cover=np.nan,
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
        code = np.trunc(x)
        named = True if code in categories.left else False if code in categories.right else None
        left = categories.other_left if named is None else named
        left = categories.missing_left if np.isnan(x) else left
    return walked(tree, row, int((tree.left if left else tree.right)[node]))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_a_forest_is_the_sum_of_its_trees(seed: int, depths: list[int]) -> None:
    generator = np.random.default_rng(seed)
    trees = [drawn_tree(generator, depth) for depth in depths]
    rows = generator.choice(NUMBERS, (20, 4))
    expected = [sum(walked(tree, row) for tree in trees) for row in rows]
    forest = build_forest(trees)
    np.testing.assert_allclose(forest.predict(rows), expected, rtol=0, atol=1e-12)


def test_a_constant_model_has_no_decisions() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 2))
    model = read(DecisionTreeRegressor().fit(rows, np.full(9, 3.0)))
    seen = model.preprocess(rows)
    assert model.forest.decisions.go_right(seen).shape == (0, 9)
    assert model.forest.predict(seen).tolist() == [[3.0]] * 9
