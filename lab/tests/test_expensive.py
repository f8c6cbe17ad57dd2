"""The games of benchmarks/low_budgets.py: their values, their models and what they count."""

from itertools import product
from math import factorial
from pathlib import Path

import numpy as np
import pytest
import torch

from comparison.games import Bools, Floats
from expensive import scores
from expensive.games import Expensive, ModelGame, Unanimity, load, save
from expensive.making import save_unanimity
from expensive.models import MASK, Classifier, LogOdds, Perceptron, Trees, load_model, save_model
from expensive.peers import PEERS, balanced
from expensive.scores import ESTIMATORS, Score, cell, score, top_found
from expensive.texts import masked, words_of
from expensive.truth import sampled_values, tree_values, unanimity_values
from low_budgets import METHODS, write_csv


def every_coalition(players: int) -> Bools:
    return np.array(list(product([False, True], repeat=players)))


def enumerated(game: Expensive, row: int) -> Floats:
    """The definition: the weighted mean of what a player adds to all coalitions of others."""
    players = game.players
    coalitions = every_coalition(players)
    values = {
        tuple(each): value
        for each, value in zip(
            coalitions.tolist(), game.value(row, coalitions).tolist(), strict=True
        )
    }
    answer = np.zeros(players)
    for coalition in values:
        size = sum(coalition)
        for player in np.flatnonzero(~np.array(coalition)):
            joined = list(coalition)
            joined[player] = True
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            answer[player] += weight * (values[tuple(joined)] - values[coalition])
    return answer


def text_game(folder: Path, length: int = 12) -> ModelGame:
    torch.manual_seed(0)
    sizes = {"words": 50, "longest": 20, "classes": 3}
    model = LogOdds(Classifier(**sizes).eval(), 1)
    save_model(model, folder / "models" / "text.pt", "classifier", label=1, **sizes)
    tokens = torch.randint(2, 50, (2, length)).numpy()
    save(
        "text",
        folder,
        kind="texts",
        grid=(length,),
        model=np.array("text"),
        rows=tokens,
        background=np.full(length, MASK),
        truth=np.ones((2, length)),
        standard_errors=np.zeros((2, length)),
    )
    game = load("text", folder)
    assert isinstance(game, ModelGame)
    return game


def small_trees() -> Trees:
    """Two trees of depth 2 that ask for players 0 and 1, and for player 2 twice."""
    trees = Trees(2, 7, 2)
    trees.column[:, :3] = torch.tensor([[0, 1, 2], [2, 2, 0]])
    trees.threshold[:, :3] = torch.tensor([[0.5, 0.3, 0.6], [0.5, 0.2, 0.4]])
    trees.left[:, :3] = torch.tensor([1, 3, 5])
    trees.right[:, :3] = torch.tensor([2, 4, 6])
    trees.value[:, 3:] = torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.7, 1.1, -0.4, 2.0]])
    trees.base += 4.0
    return trees.eval()


# Values


def test_values_of_unanimity_games_are_those_of_the_definition(tmp_path: Path) -> None:
    teams = [[0], [1, 3], [0, 2, 3], [2, 4]]
    weights = np.array([0.5, -1.0, 3.0, 2.0])
    save_unanimity(tmp_path, "small", [(6, teams, weights), (6, teams[:2], weights[:2])])
    game = load("small", tmp_path)
    assert isinstance(game, Unanimity)
    assert game.rows is None
    assert game.truth_error == 0
    for row in range(2):
        np.testing.assert_allclose(game.truth[row], enumerated(game, row), atol=1e-12)
    np.testing.assert_allclose(unanimity_values(6, teams, weights)[:3], [1.5, -0.5, 2.0])


def test_values_of_trees_are_those_of_the_definition() -> None:
    trees = small_trees()
    row = np.array([0.2, 0.9, 0.1], dtype=np.float32)
    background = np.array([0.8, 0.1, 0.7], dtype=np.float32)
    game = ModelGame(
        "trees",
        "tables",
        np.zeros((1, 3)),
        np.zeros((1, 3)),
        (3,),
        model=trees,
        rows=row[None],
        background=background,
    )
    exact = tree_values(trees, row.astype(float), background.astype(float))
    np.testing.assert_allclose(exact, enumerated(game, 0), atol=1e-12)
    assert np.abs(exact).min() > 0.1


def test_sampled_values_are_within_their_standard_errors() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(Perceptron(6, 1), torch.nn.Flatten(0)).eval()
    row = torch.randn(6)
    background = torch.zeros(6)
    values, errors = sampled_values(model, row, background, tolerance=0.01, most=20_000)
    game = ModelGame(
        "net",
        "tables",
        values[None],
        errors[None],
        (6,),
        model=model,
        rows=row[None].numpy(),
        background=background.numpy(),
    )
    assert 0 < errors.max() <= 0.01 * np.abs(values).mean()
    assert (np.abs(values - enumerated(game, 0)) <= 4 * errors + 1e-6).all()


# Texts


def test_the_full_coalition_of_a_text_has_the_models_own_output(tmp_path: Path) -> None:
    game = text_game(tmp_path)
    assert game.rows is not None
    ends = np.repeat([[False], [True]], 12, axis=1)
    model = load_model(tmp_path / "models" / "text.pt")
    logits = model.network(torch.from_numpy(game.rows[1:]))  # type: ignore[operator]
    probability = float(logits.softmax(dim=1)[0, 1])
    empty, full = game.values(1, ends)
    assert full == pytest.approx(np.log(probability / (1 - probability)), abs=1e-5)
    assert empty == pytest.approx(float(model(torch.full((1, 12), MASK))[0]), abs=1e-5)


def test_words_do_not_name_the_package() -> None:
    words = words_of("NumPy's `np.dot` of 2 arrays.")
    assert " ".join(words) == "' s ` . dot ` of 2 arrays ."


def test_words_are_masked_at_every_rate() -> None:
    tokens = torch.full((2_000, 20), 7)
    absent = (masked(tokens, torch.Generator().manual_seed(0)) == MASK).double().mean(dim=1)
    assert float(absent.mean()) == pytest.approx(0.5, abs=0.03)
    assert float((absent < 0.2).double().mean()) == pytest.approx(0.2, abs=0.04)


# Scores


def test_evaluations_are_counted_whoever_asks(tmp_path: Path) -> None:
    game = text_game(tmp_path)
    game.values(0, every_coalition(12)[:7])
    assert game.evaluations == 7
    for name in ("leverage", "LIME", "ridge, cross-validated"):
        measured = score(game, name, 4.0, row=1, seed=0)
        assert measured.failure == ""
        # our calls look at the model's own output once more
        assert 50 <= measured.evaluations <= 50 + (name == "leverage")
        assert measured.budget == 50


def test_a_budget_that_is_too_small_leaves_its_cell_empty(tmp_path: Path) -> None:
    measured = score(text_game(tmp_path), "leverage", 0.25, row=0, seed=0)
    assert measured.failure == "the budget is too small"
    assert cell([measured]) == ""


def test_the_top_five_of_equal_estimates_are_not_found() -> None:
    truth = np.arange(10.0)
    assert top_found(-truth, truth) == 1
    assert top_found(np.zeros(10), truth) == 0


def test_a_cell_is_a_mean_over_games_and_bold_where_more_was_spent() -> None:
    def measured(game: str, error: float, spent: int) -> Score:
        return Score("k", game, "e", 1.0, 10, 0, 0, evaluations=spent, error=error, top=0.4)

    few = [measured("a", 0.1, 10), measured("a", 0.3, 11), measured("b", 0.4, 9)]
    assert cell(few) == "0.30, 40%"
    assert cell([*few, measured("b", 0.4, 12)]) == "**0.30, 40%**"


def test_the_tree_over_places_halves_the_longest_side() -> None:
    np.testing.assert_array_equal(balanced((4,)), [[0, 1, 2, 2], [2, 3, 2, 2], [4, 5, 4, 4]])
    image = balanced((2, 2))
    np.testing.assert_array_equal(image[:2, :2], [[0, 1], [2, 3]])
    assert balanced((7,)).shape == (6, 4)


def test_the_commands_methods_are_those_that_are_measured(tmp_path: Path) -> None:
    assert tuple(ESTIMATORS) == METHODS
    assert set(PEERS) < set(METHODS)
    write_csv([Score("k", "a", "e", 1.0, 10, 0, 0, failure="x, y")], tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines()[1].endswith('"x, y"')
    assert scores.EACH == (0.25, 0.5, 1, 2, 4)
