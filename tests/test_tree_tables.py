"""Exact values of forests, against all coalitions through the forest's own predictions."""

import numpy as np
import pytest

from random_forests import (
    SHAPES,
    coalition_values,
    enumerated_interactions,
    enumerated_values,
    random_forest,
    random_rows,
)
from shearshap.trees.exact import ExactTrees
from shearshap.trees.forest import Floats, Integers

COLUMNS = 7
OWNERS = {
    "columns": np.arange(COLUMNS),
    "groups": np.array([2, 0, 1, 0, 2, 3, 2]),
    "one player": np.zeros(COLUMNS, dtype=np.int64),
}


def even(background: Floats) -> Floats:
    return np.full(len(background), 1 / len(background))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_values_are_those_of_all_coalitions(shape: str, owner: Integers, outputs: int) -> None:
    forest = random_forest(shape, COLUMNS, outputs)
    players = int(owner.max()) + 2  # one owns nothing
    seen = random_rows(5, COLUMNS, seed=1)
    background = random_rows(6, COLUMNS, seed=2)
    game = coalition_values(forest, owner, players, seen, background, even(background))

    exact = ExactTrees(forest, owner, players, background, rows=5, interactions=True)

    np.testing.assert_allclose(exact.expected, game[0, 0], atol=1e-12)
    np.testing.assert_allclose(exact.values(seen), enumerated_values(game, players), atol=1e-10)
    pairs = enumerated_interactions(game, players)
    np.testing.assert_allclose(exact.interactions(seen), pairs, atol=1e-10)
