"""Intervals of games that show little of themselves: labels, trees, rows sorted by kind."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from games import Bools, Floats, all_coalitions, exact_shares
from laws import quiet
from shearshap import METHODS, Explainer, Explanation, explain_game

Value = Callable[[Bools], Floats]


# One value in everything that was evaluated


def labels(players: int, seed: int) -> Callable[[Floats], Floats]:
    """Return whether a classifier of four linear scores chooses its class 0."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(players, 4))
    offsets = rng.normal(size=4)
    return lambda x: ((x @ weights + offsets).argmax(axis=1) == 0).astype(float)


class Seen:
    """A game that keeps what it was asked for."""

    def __init__(self, value: Callable[[Floats], Floats]) -> None:
        self.value = value
        self.values: list[float] = []
        self.coalitions: set[bytes] = set()

    def __call__(self, coalitions: Bools) -> Floats:
        values = self.value(coalitions.astype(float))
        self.values += values.tolist()
        self.coalitions |= {row.tobytes() for row in coalitions}
        return values

    def is_constant(self, players: int) -> bool:
        return len(set(self.values)) == 1 and len(self.coalitions) < 1 << players


@pytest.mark.parametrize("tol", [None, 0.01])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("auto", "kriging")))
        for name in METHODS
        if name not in ("exact", "shear")
    ],
)
def test_one_value_so_far_is_no_proof_of_exact_values(name: str, tol: float | None) -> None:
    if tol is not None and not METHODS[name].stops:
        pytest.skip("cannot stop")
    players = 8
    budget = 110 if name == "shear-unbiased" else 66
    met = 0
    for seed in range(16):
        game = Seen(labels(players, seed))
        with quiet():
            answer = explain_game(
                game, players=players, budget=budget, method=name, seed=seed, tol=tol
            )
        if not game.is_constant(players):
            continue
        met += 1
        if answer.standard_errors is not None:  # some methods have none at this budget
            assert not np.isfinite(answer.standard_errors).any()
            lower, upper = answer.interval()
            assert not np.isfinite(lower).any()
            assert not np.isfinite(upper).any()
            assert any("same value" in note for note in answer.notes)
        if tol is not None:
            assert answer.converged is not None
            assert not answer.converged.any()
            # no row stops while all it has seen is one value
            assert len(game.coalitions) > 33
    assert met >= 2


def test_only_rows_of_one_value_have_no_interval() -> None:
    players = 8
    rng = np.random.default_rng(0)
    model = labels(players, 3)
    rows = 0.3 * rng.normal(size=(60, players))
    explanation = Explainer(model, np.zeros(players))(rows, budget=34)
    errors = explanation.standard_errors
    assert errors is not None
    unknown = ~np.isfinite(errors)
    assert (unknown.all(axis=1) == unknown.any(axis=1)).all()
    assert 0 < unknown.any(axis=1).sum() < len(rows)

    exact = Explainer(model, np.zeros(players))(rows, budget=256)
    assert exact.standard_errors is not None
    assert (exact.standard_errors == 0).all()
    assert not any("same value" in note for note in exact.notes)
    constant = unknown.any(axis=1)
    assert np.abs(explanation.values - exact.values)[constant].max() > 0.01


def test_explanations_with_such_rows_are_printed_saved_and_drawn(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    from shearshap import plots

    players = 8
    rows = 0.3 * np.random.default_rng(0).normal(size=(20, players))
    explanation = Explainer(labels(players, 3), np.zeros(players))(rows, budget=34)
    for part in (explanation, explanation[unknown_row(explanation)]):
        with redirect_stdout(io.StringIO()) as printed:
            print(part)
        assert "nan" not in printed.getvalue()
        assert "nan" not in part._repr_html_()
        frame = part.to_frame()
        assert len(frame) >= len(part)
        part.save(tmp_path / "part.npz")
        back = Explanation.load(tmp_path / "part.npz")
        np.testing.assert_array_equal(back.standard_errors, part.standard_errors)
        importance = part.abs.mean()
        assert not np.isnan(importance.upper).any()
        plots.waterfall(part[0])
        plots.bar(part)
        plt.close("all")


def unknown_row(explanation: Explanation) -> int:
    assert explanation.standard_errors is not None
    return int(np.flatnonzero(~np.isfinite(explanation.standard_errors).all(axis=1))[0])


def test_what_is_known_to_be_constant_stays_exact() -> None:
    # all coalitions are evaluated
    few = explain_game(lambda z: np.ones(len(z)), players=4, budget=16)
    assert few.standard_errors is not None
    assert (few.standard_errors == 0).all()
    for name in ("leverage", "kernel", "kernel-paired"):
        every = explain_game(lambda z: np.ones(len(z)), players=4, budget=16, method=name)
        assert every.standard_errors is not None
        assert (every.standard_errors == 0).all()
        assert not every.notes

    # the row is the background
    rows = np.vstack([np.zeros(30), np.ones(30)])
    explanation = Explainer(lambda x: np.tanh(x @ np.arange(30.0)), np.zeros(30))(rows, tol=0.1)
    assert explanation.standard_errors is not None
    assert (explanation.standard_errors[0] == 0).all()

    # additive: no residuals, but different values
    additive = explain_game(lambda z: z @ np.arange(10.0), players=10, budget=162)
    assert additive.standard_errors is not None
    assert (additive.standard_errors > 0).all()  # nothing shows that it is additive elsewhere
    assert (additive.standard_errors < 1e-3 * additive.values.sum()).all()
    # rounding of large values leaves residuals that are no errors
    shifted = explain_game(lambda z: z @ np.arange(10.0) / 1e3 + 1e6, players=10, budget=162)
    assert shifted.standard_errors is not None
    np.testing.assert_allclose(shifted.standard_errors, additive.standard_errors / 1e3, rtol=1e-3)


# Players that add nothing in what was evaluated, and matter elsewhere


@dataclass(frozen=True)
class Leaf:
    """A leaf of a tree over coalitions: reached if some players are in and some are out."""

    inside: frozenset[int]
    outside: frozenset[int]
    value: float


def random_tree(players: int, depth: int, seed: int) -> list[Leaf]:
    """Return the leaves of a tree that asks for another random player at each node."""
    rng = np.random.default_rng(seed)

    def grown(leaf: Leaf, levels: int) -> list[Leaf]:
        if not levels:
            return [replace(leaf, value=rng.normal())]
        free = sorted(set(range(players)) - leaf.inside - leaf.outside)
        player = frozenset([int(rng.choice(free))])
        present = replace(leaf, inside=leaf.inside | player)
        absent = replace(leaf, outside=leaf.outside | player)
        return grown(present, levels - 1) + grown(absent, levels - 1)

    return grown(Leaf(frozenset(), frozenset(), 0.0), depth)


def tree_game(leaves: list[Leaf], players: int) -> Value:
    """Return the game: the value of the leaf that a coalition reaches."""
    inside = np.array([[player in leaf.inside for player in range(players)] for leaf in leaves])
    outside = np.array([[player in leaf.outside for player in range(players)] for leaf in leaves])
    values = np.array([leaf.value for leaf in leaves])

    def value(z: Bools) -> Floats:
        missing = ~z @ inside.T.astype(float) + z @ outside.T.astype(float)
        return np.asarray((missing == 0) @ values)

    return value


def tree_values(leaves: list[Leaf], players: int) -> Floats:
    """Return the Shapley values: those inside share a leaf's value, those outside take it away."""
    phi = np.zeros(players)
    for leaf in leaves:
        inside = len(leaf.inside)
        outside = len(leaf.outside)
        ways = comb(inside + outside, inside)
        phi[list(leaf.inside)] += leaf.value / max(inside, 1) / ways
        phi[list(leaf.outside)] -= leaf.value / max(outside, 1) / ways
    return phi


def test_values_of_trees_by_their_leaves() -> None:
    leaves = random_tree(8, 5, seed=0)
    table = tree_game(leaves, 8)(all_coalitions(8))
    np.testing.assert_allclose(tree_values(leaves, 8), exact_shares(table), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("each", [4, 8])
@pytest.mark.parametrize("trees", [1, 3])
def test_intervals_of_kriging_hold_on_trees(each: int, trees: int) -> None:
    """At few evaluations many players have added nothing yet, though trees ask for all of them."""
    held = []
    for seed in range(6):
        players = (16, 24)[seed % 2]
        leaves = [
            leaf
            for tree in range(trees)
            for leaf in random_tree(players, 7, seed=100 * seed + tree)
        ]
        answer = explain_game(
            tree_game(leaves, players),
            players=players,
            budget=each * players + 2,
            method="kriging",
            seed=seed,
        )
        lower, upper = answer.interval()
        phi = tree_values(leaves, players)
        held += ((lower[0] <= phi) & (phi <= upper[0])).tolist()
    assert np.mean(held) >= 0.9


# Rows sorted by kind


@pytest.mark.slow
@pytest.mark.parametrize("additive", [300, 900])
def test_additive_rows_that_come_first_do_not_calibrate_the_others(additive: int) -> None:
    """Rows with a mark in their cells are explained by a staircase, the others add up."""
    players = 10
    rng = np.random.default_rng(0)
    weights = rng.normal(size=players)
    slopes = rng.normal(size=players)

    def model(x: Floats) -> Floats:
        marked = (np.abs(np.modf(1e3 * x)[0] - 0.5) < 1e-4).any(axis=1)
        return np.where(marked, np.floor(1.5 * x @ slopes), x @ weights)

    rows = rng.normal(size=(additive + 40, players)).round(3)
    rows[additive:] += 0.0005
    explainer = Explainer(model, np.zeros(players), method="kriging")
    exact = explainer(rows[additive:], budget=1024)
    for explanation in (
        explainer(rows, budget=162),
        Explanation.concat(list(explainer.stream(rows, budget=162))),
    ):
        np.testing.assert_array_equal(explanation.index, np.arange(len(rows)))
        np.testing.assert_allclose(
            explanation.values[:additive], rows[:additive] * weights, atol=1e-12
        )
        lower, upper = explanation[additive:].interval()
        held = (lower <= exact.values) & (exact.values <= upper)
        assert held.mean() >= 0.95
