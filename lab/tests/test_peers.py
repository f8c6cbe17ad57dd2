"""Exact values against other people's: shap's ExactExplainer and shapiq's ExactComputer."""

import warnings

import numpy as np
import pytest

from games import Bools, Floats, network, random_table, table_game
from shearshap import explain, explain_game

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    shap = pytest.importorskip("shap", reason="the peers extra is not installed")
    shapiq = pytest.importorskip("shapiq", reason="the peers extra is not installed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_agrees_with_shapiq_on_random_games(seed: int) -> None:
    value = table_game(random_table(7, seed))
    computer = shapiq.ExactComputer(
        n_players=7, game=lambda z: value(np.atleast_2d(z).astype(bool))
    )
    theirs = computer("SV")
    answer = explain_game(value, players=7, budget=1 << 7)
    np.testing.assert_allclose(answer.values[0], [theirs[(i,)] for i in range(7)], atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_exact_agrees_with_shap_on_a_game_of_indicators() -> None:
    """shap masks columns by a background row of zeros, so rows of ones make any table a model."""
    value = table_game(random_table(6, 3))

    def model(x: Floats) -> Floats:
        present: Bools = np.asarray(x) > 0.5
        return value(present)

    masker = shap.maskers.Independent(np.zeros((1, 6)))
    theirs = shap.explainers.ExactExplainer(model, masker)(np.ones((1, 6)))
    ours = explain(model, np.ones((1, 6)), reference=np.zeros(6), budget=64)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-9)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_exact_agrees_with_shap_on_a_network_and_background_rows() -> None:
    import torch

    rng = np.random.default_rng(0)
    net, background, rows = network(5), rng.normal(size=(4, 5)), rng.normal(size=(3, 5))

    def model(x: Floats) -> Floats:
        return np.asarray(net(torch.tensor(x)).detach().numpy())

    masker = shap.maskers.Independent(background)
    theirs = shap.explainers.ExactExplainer(model, masker)(rows)
    ours = explain(net, rows, reference=background, budget=32 * 4)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-9)
