"""Promises about batches, memory and budgets that users of other libraries have asked for.

One test for each complaint that a test can hold, named by repository and number.
"""

from typing import Any

import numpy as np

from games import Floats
from shearshap import Explainer

ROWS = np.random.default_rng(0).normal(size=(40, 5))


class Counting:
    """A model that knows how often it was asked, and for how many rows at most."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, x: Any) -> Floats:
        self.sizes.append(len(x))
        return np.asarray(np.tanh(np.asarray(x, dtype=float)).prod(axis=1))


def test_rows_are_explained_together_shap_217_835_2328_1897_4194() -> None:
    model = Counting()
    answer = Explainer(model, np.zeros(5))(ROWS, budget=32)
    assert answer.values.shape == (40, 5)
    # a first block, then all the rest, the ends of each before the others: not one call a row
    assert len(model.sizes) <= 4 + 1  # and one call that checks the model
    assert sum(model.sizes) == 40 * 32 + answer.check_evaluations


def test_memory_is_bounded_by_a_batch_size_shap_1977_1173_captum_646_1350() -> None:
    model = Counting()
    Explainer(model, ROWS, batch_size=64)(ROWS, budget=40 * 32)
    assert max(model.sizes) <= 64
    wide, players = Counting(), np.arange(2000) % 6
    Explainer(wide, np.zeros((20, 2000)), groups=players)(np.ones((10, 2000)), budget=20 * 64)
    number = 8
    assert sum(wide.sizes) * 2000 * number > 2e8  # what all inputs at once would take
    assert max(wide.sizes) * 2000 * number < 2e7


def test_without_a_budget_many_players_do_not_mean_all_coalitions_shapiq_354_355() -> None:
    answer = Explainer(lambda x: x.sum(axis=1), np.zeros(42))(np.ones((2, 42)))
    assert answer.evaluations <= 2 + 16 * 42
    np.testing.assert_allclose(answer.values, 1, atol=1e-6)
