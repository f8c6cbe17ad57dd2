"""What users of other libraries complain about, and how it is here; `docs/faq.md` tells it in words.

One test for each complaint that a test can hold, named by repository and number.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from games import Floats, network
from shearshap import METHODS, Explainer

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


def test_one_hot_columns_are_one_player_shap_1654_397_679_alibi_879() -> None:
    """The Shapley value of the group as one player, which the sum of its columns' values is not."""
    frame = pd.DataFrame(np.eye(3), columns=["city_a", "city_b", "city_c"]).assign(
        x=[1.0, 2.0, 3.0]
    )

    def model(f: Any) -> Floats:
        one_hot = f[["city_a", "city_b", "city_c"]].sum(axis=1).to_numpy() == 1
        return np.where(one_hot, f["x"].to_numpy() * (1 + f["city_b"].to_numpy()), -100.0)

    city = {"city": ["city_a", "city_b", "city_c"]}
    grouped = Explainer(model, frame[:1], groups=city)(frame[1:])
    assert grouped.feature_names == ["city", "x"]
    np.testing.assert_allclose(grouped.values, np.array([[1.5, 1.5], [0, 2]]))
    each = Explainer(model, frame[:1])(frame[1:])
    assert abs(each.values[:, :3].sum(axis=1) - grouped.values[:, 0]).max() > 0.4


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_add_up_is_told_shap_4251_3363_3505_4239_captum_1113(method: str) -> None:
    """Methods that promise efficiency have it; the others tell their gap, and can close it."""
    answer = Explainer(network(5), np.zeros(5), method=method)(
        ROWS, budget=40 if method == "exact" else 700
    )
    adds = answer.predictions - answer.base_values - answer.values.sum(axis=1)
    np.testing.assert_allclose(answer.gap, adds)
    if "efficiency" in METHODS[method].promises:
        np.testing.assert_allclose(answer.gap, 0, atol=1e-8)
    np.testing.assert_allclose(answer.corrected().gap, 0, atol=1e-8)


def test_a_background_of_many_rows_is_averaged_over_captum_1789() -> None:
    """The mean of values over the background, not the value at its mean."""
    background = np.random.default_rng(1).normal(size=(7, 5))
    model = Counting()
    answer = Explainer(model, background)(ROWS, budget=7 * 32)
    np.testing.assert_allclose(answer.base_values, model(background).mean())
    assert abs(answer.base_values[0] - float(model(background.mean(axis=0)[None])[0])) > 1e-4
