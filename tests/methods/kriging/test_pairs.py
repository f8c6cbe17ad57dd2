"""The selection of pairs, against one step at a time and against trying every candidate."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from games import Floats, all_coalitions
from shearshap.games.coalitions import Bools
from shearshap.methods.kriging import pairs as pair_selection
from shearshap.methods.kriging.kernel import (
    odd_even_kernels,
    shapley_of_kernel,
    shapley_of_white,
    size_covariance,
)
from shearshap.methods.kriging.pairs import (
    SELECTION_LINEAR,
    SELECTION_NUGGET,
    SELECTION_SIZE,
    PivotedFactor,
    SelectionPrior,
    candidate_pairs,
    pivoted_cholesky,
    selected_pairs,
)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Let every test make its selections anew."""
    pair_selection._selections_made.cache_clear()


def covariances(pairs: Bools) -> tuple[Floats, Floats]:
    """The prior's covariances of pairs after the full coalition, and with the Shapley values."""
    players = pairs.shape[1]
    u = torch.tensor(np.concatenate((np.ones((1, players)), 2.0 * pairs - 1)))
    r = u.new_full((1, players), min(3 / players, 0.5))
    kernel, _, scale, _ = odd_even_kernels(u, r)
    of_kernel, _ = shapley_of_kernel(u, r)
    of_white, _ = shapley_of_white(u)
    size = (u > 0).sum(1)
    K = (
        kernel[0]
        + SELECTION_SIZE * size_covariance(players)[size][:, size]
        + SELECTION_NUGGET * torch.eye(len(u)).to(u)
        + SELECTION_LINEAR / players * u @ u.mT
    )
    cross = of_kernel[0] / scale[0] + SELECTION_NUGGET * of_white
    return K.numpy(), (cross + 2 * SELECTION_LINEAR / players * u.mT).numpy()


def slow_choice(pairs: Bools, count: int) -> NDArray[np.int64]:
    """The greedy choice, one pivot at a time, with the whole covariance conditioned on each."""
    K, cross = covariances(pairs)
    chosen: list[int] = []
    for step in range(count + 1):
        gain = np.square(cross).sum(0) / K.diagonal().clip(1e-9)
        gain[chosen] = 0
        tied = (gain / gain.max() * 1e6).round()
        pivot = step if step <= pairs.shape[1] else int(tied.argmax())
        chosen.append(pivot)
        row = K[pivot] / math.sqrt(K[pivot, pivot])
        cross = cross - np.outer(cross[:, pivot] / math.sqrt(K[pivot, pivot]), row)
        K = K - np.outer(row, row)
    return np.array(chosen[1:]) - 1


def assert_begins_as_it_should(pairs: Bools) -> None:
    """Single players from 1.75 pairs a player on, below that the prefixes of a joining order."""
    count, players = pairs.shape
    if count >= 1.75 * players:
        np.testing.assert_array_equal(pairs[:players], np.eye(players, dtype=bool))
        return
    chain = pairs[: players - 1]
    np.testing.assert_array_equal(chain.sum(axis=1), np.arange(1, players))
    assert (chain[1:] >= chain[:-1]).all()


@pytest.mark.parametrize(("players", "count"), [(4, 6), (5, 8), (9, 15), (40, 40), (40, 69)])
def test_prefixes_leave_as_many_pairs_as_were_asked_for(
    players: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single players fill up where candidates are few: all pairs there are, or as affordable."""
    monkeypatch.setattr(pair_selection, "SELECTION_WORK", 0)
    for seed in range(5):
        pairs = selected_pairs(players, count, np.random.default_rng(seed))
        assert pairs.shape == (count, players)
        assert len(np.unique(np.concatenate((pairs, ~pairs)), axis=0)) == 2 * count
        assert_begins_as_it_should(pairs)


def test_prefixes_come_without_other_single_players_where_there_is_a_choice() -> None:
    pairs = selected_pairs(12, 16, np.random.default_rng(3))
    # the first prefix, and the complement of the last
    assert np.isin(pairs.sum(axis=1), (1, 11)).sum() == 2


@pytest.mark.parametrize(
    ("players", "count"),
    [(4, 6), (5, 12), (8, 40), (10, 80), pytest.param(13, 150, marks=pytest.mark.slow), (16, 64)],
)
def test_the_choice_is_that_of_one_step_at_a_time(players: int, count: int) -> None:
    """Gains can rise while other pairs are chosen, so that no list of the best stays the best."""
    for seed in range(3):
        pairs = candidate_pairs(players, 6 * count, np.random.default_rng(seed))
        np.testing.assert_array_equal(pivoted_cholesky(pairs, count), slow_choice(pairs, count))


def test_a_wrong_proposal_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = candidate_pairs(10, 320, np.random.default_rng(0))
    right = pivoted_cholesky(pairs, 40)
    monkeypatch.setattr(pair_selection, "SHORTLIST", 3)
    monkeypatch.setattr(pair_selection, "PROPOSED_GAIN", 0.0)
    np.testing.assert_array_equal(pivoted_cholesky(pairs, 40), right)


@pytest.mark.parametrize("wrong", [1, 4, 9])
def test_proposals_count_up_to_the_first_that_is_not_the_best(wrong: int) -> None:
    """All of them if they are right; else no fewer, so that no step is wasted, and no more."""
    players = 9
    pairs = candidate_pairs(players, 200, np.random.default_rng(0))
    best = pivoted_cholesky(pairs, 40)[players:] + 1
    factor = PivotedFactor(SelectionPrior.from_pairs(pairs), 60)
    factor.append(factor.step_on(np.arange(players + 1)))
    assert factor.best_pivots(factor.step_on(best)) == len(best)
    proposed = best.copy()
    proposed[wrong] = 200  # a pair that is never among the best
    assert 200 not in best
    assert factor.best_pivots(factor.step_on(proposed)) == wrong


def test_rounding_errors_do_not_change_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other machines and other numbers of threads add up in another order."""
    pairs = candidate_pairs(12, 768, np.random.default_rng(0))
    here = pivoted_cholesky(pairs, 96)

    prior = SelectionPrior.from_pairs(pairs)
    noise = 1 + 1e-14 * np.random.default_rng(1).normal(size=(12, 769))
    rounded = replace(prior, cross=prior.cross * noise)
    monkeypatch.setattr(SelectionPrior, "from_pairs", lambda _pairs: rounded)
    np.testing.assert_array_equal(pivoted_cholesky(pairs, 96), here)


def test_the_first_pairs_are_the_selection_of_fewer() -> None:
    pairs = candidate_pairs(11, 400, np.random.default_rng(0))
    few = pivoted_cholesky(pairs, 30)
    np.testing.assert_array_equal(pivoted_cholesky(pairs, 70)[:30], few)


def test_without_time_a_selection_is_the_beginning_of_the_whole() -> None:
    begun = selected_pairs(30, 200, np.random.default_rng(5), lambda: False)
    assert len(begun) == 30
    whole = selected_pairs(30, 200, np.random.default_rng(5))
    assert len(whole) == 200
    np.testing.assert_array_equal(whole[:30], begun)


def test_other_draws_make_another_selection() -> None:
    rng = np.random.default_rng(5)
    first = selected_pairs(12, 40, rng)
    second = selected_pairs(12, 40, rng)
    assert (first != second).any()
    assert (first != selected_pairs(12, 40, np.random.default_rng(6))).any()


@settings(max_examples=20)
@given(players=st.integers(3, 14), seed=st.integers(0, 99), data=st.data())
def test_every_beginning_of_a_selection_is_one(
    players: int, seed: int, data: st.DataObject
) -> None:
    """No pair is there twice, and with the full coalition they tell all players apart."""
    most = min(60, (1 << players - 1) - 1)
    count = data.draw(st.integers(players, most))
    pairs = selected_pairs(players, count, np.random.default_rng(seed))
    assert_begins_as_it_should(pairs)
    for part in {players, (players + count) // 2, count}:
        first = pairs[:part]
        both = np.concatenate((first, ~first))
        assert len(np.unique(both, axis=0)) == 2 * part
        assert not both.all(axis=1).any()
        with_full = np.concatenate((np.ones((1, players)), 2.0 * first - 1))
        assert np.linalg.matrix_rank(with_full) == players


def test_every_pivot_lowers_the_variance_most() -> None:
    """The greedy choice against trying every candidate: total posterior variance by plain linear algebra."""
    rng = np.random.default_rng(0)
    sides = np.concatenate((np.eye(6, dtype=bool), rng.permutation(all_coalitions(6)[33:62])[:10]))
    chosen = pivoted_cholesky(sides, 8)
    K, b = covariances(sides)

    def explained(rows: list[int]) -> float:
        part = b[:, rows]
        return float(np.trace(part @ np.linalg.inv(K[np.ix_(rows, rows)]) @ part.T))

    have = list(range(7))
    for pick in chosen[6:] + 1:
        gains = {n: explained([*have, n]) for n in range(len(K)) if n not in have}
        assert gains[pick] == pytest.approx(max(gains.values()), rel=1e-4)
        have.append(int(pick))


def test_threads_share_the_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(players: int, count: int, rng: np.random.Generator, _: object) -> Bools:
        return rng.random((count, players)) < 0.5

    def select(seed: int) -> list[Bools]:
        rng = np.random.default_rng(seed)
        return [selected_pairs(3, 4, rng) for _ in range(2000)]

    monkeypatch.setattr(pair_selection, "_selection", drawn)  # so that most time goes to sharing
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(select, range(16)))
    finally:
        sys.setswitchinterval(before)
    for seed, pairs in enumerate(found):
        rng = np.random.default_rng(seed)
        np.testing.assert_array_equal(pairs, [drawn(3, 4, rng, None) for _ in pairs])
