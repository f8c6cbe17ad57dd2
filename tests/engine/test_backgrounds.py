"""Several background rows, each with coalitions of its own."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clock import Watch
from games import Bools, Floats
from laws import SEEDS, few
from peer_library import peer
from shearshap import Auto, BudgetError, Explainer, Explanation, Kriging, ShearWarning
from shearshap.engine.backgrounds import average
from shearshap.engine.loop import Clock
from shearshap.methods.base import Estimate
from shearshap.methods.kriging.method import ComplementPairs
from shearshap.result.explanation import spent_evaluations

P = 8
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, P))
BACKGROUND = RNG.normal(size=(40, P))
METHODS = [
    "kriging", "leverage", "kernel-paired", "kernel", "kernel-welford", "permutation",
    "permutation-antithetic", "shear", "shear-unbiased",
]  # fmt: skip


def network(outputs: int = 1, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(P, 16), nn.GELU(), nn.Linear(16, outputs)).double()


def pairwise(x: Floats) -> Floats:
    return np.asarray(x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1) - x[:, 3] * x[:, 4])


def exact(model: Any) -> Explanation:
    return Explainer(model, BACKGROUND, method="exact")(ROWS, budget=40 << P)


@cache
def exact_network(seed: int = 0) -> Explanation:
    return exact(network(seed=seed))


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.filterwarnings("ignore:a regression on")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [100, 400, 1201])
def test_it_is_the_mean_over_background_rows_within_the_budget(method: str, budget: int) -> None:
    truth = exact_network()
    answer = Explainer(network(), BACKGROUND, method=method)(ROWS, budget=budget)
    assert answer.evaluations <= budget
    np.testing.assert_allclose(answer.base_values, truth.base_values, atol=1e-12)
    np.testing.assert_allclose(answer.predictions, truth.predictions, atol=1e-12)
    error = np.abs(answer.values - truth.values).sum() / np.abs(truth.values).sum()
    assert error < 1.5 * np.sqrt(100 / budget)


@pytest.mark.parametrize("method", ["kriging", "leverage", "permutation-antithetic"])
def test_pairwise_games_are_exact_if_all_background_rows_are_used(method: str) -> None:
    # a regression is exact once it has full rank
    budget = 40 * (6 if method == "leverage" else 2) * P + 1
    answer = Explainer(pairwise, BACKGROUND, method=method)(ROWS, budget=budget)
    np.testing.assert_allclose(answer.values, exact(pairwise).values, atol=1e-9)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


@pytest.mark.parametrize("budget", [150, 1201])
def test_a_row_depends_on_neither_neighbours_nor_outputs(budget: int) -> None:
    """With a calibration that is given: of three outputs, each is explained as if it were alone."""
    model = network(3)
    whole = Explainer(model, BACKGROUND)(ROWS, budget=budget)
    method = Auto(calibration=whole.calibration)
    again = Explainer(model, BACKGROUND, method=method)(ROWS, budget=budget)
    part = Explainer(model, BACKGROUND, method=method)(ROWS[2:4], budget=budget)
    np.testing.assert_allclose(part.values, again.values[2:4], atol=1e-9)
    errors = again[2:4].standard_errors
    assert part.standard_errors is not None
    assert errors is not None
    np.testing.assert_allclose(part.standard_errors, errors, atol=1e-9)
    alone = Explainer(model, BACKGROUND, method=method, output=1)(ROWS, budget=budget)
    np.testing.assert_allclose(alone.values, again.values[:, :, 1], atol=1e-9)
    np.testing.assert_allclose(whole.gap, 0, atol=1e-9)


@pytest.mark.slow
def test_intervals_count_coalitions_and_background_rows() -> None:
    held: dict[int, list[float]] = {budget: [] for budget in (120, 320, 650, 1201, 2400)}
    for seed in range(4):
        model = network(seed=seed)
        truth = exact_network(seed)
        for budget, shares in held.items():
            answer = Explainer(model, BACKGROUND, seed=seed)(ROWS, budget=budget)
            low, high = answer.interval()
            inside = (low <= truth.values + 1e-9) & (truth.values <= high + 1e-9)
            shares.append(float(inside.mean()))
    assert all(np.mean(shares) >= 0.9 for shares in held.values()), held


def test_weights_are_repetitions() -> None:
    shap = peer("shap")
    summary = shap.kmeans(BACKGROUND[:4], 4)
    summary.data = BACKGROUND[:4]
    counts = np.array([3, 1, 4, 2])
    summary.weights = counts / counts.sum()
    answer = Explainer(pairwise, summary, method="kriging")(ROWS, budget=4 * 2 * P + 1)
    repeated = np.repeat(BACKGROUND[:4], counts, axis=0)
    truth = Explainer(pairwise, repeated, method="exact")(ROWS, budget=10 << P)
    np.testing.assert_allclose(answer.values, truth.values, atol=1e-9)
    np.testing.assert_allclose(answer.base_values, truth.base_values, atol=1e-12)


def test_frames_and_columns_that_are_equal() -> None:
    """A feature that equals that of a background row is null in their game, and costs nothing."""
    frame = pd.DataFrame(BACKGROUND, columns=list("abcdefgh"))
    frame["a"] = np.where(frame["a"] > 0, "x", "y")
    frame["b"] = np.where(frame["b"] > 0, "u", "v")

    def model(rows: pd.DataFrame) -> Floats:
        words = (rows["a"] == "x") * 2.0 + (rows["b"] == "u")
        return np.asarray(words * np.tanh(rows["c"]) + rows["d"] * rows["e"])

    truth = Explainer(model, frame, method="exact")(frame[:3], budget=40 << P)
    answer = Explainer(model, frame)(frame[:3], budget=40 * 3 * P)
    assert answer.evaluations < 40 * 3 * P
    np.testing.assert_allclose(answer.values, truth.values, atol=0.05)
    assert list(answer.feature_names) == list("abcdefgh")


def test_tolerances() -> None:
    truth = exact_network()
    answer = Explainer(network(), BACKGROUND)(ROWS, tol=0.005, budget=20_000)
    assert answer.converged is not None
    assert answer.converged.all()
    assert answer.row_evaluations is not None
    assert (answer.row_evaluations < 20_000).all()
    assert np.abs(answer.values - truth.values).max() < 0.02
    missed = Explainer(network(), BACKGROUND)(ROWS, tol=1e-9, budget=900)
    assert missed.converged is not None
    assert not missed.converged.any()
    assert missed.row_evaluations is not None
    # as much as without a tolerance: no part of the budget is left
    assert (missed.row_evaluations > 800).all()
    assert (missed.row_evaluations <= 900).all()


# Rounds: with a tolerance, pairs get 16, 32, 64, ... coalitions, until a row is precise enough

PAIRS = 3  #: background rows
BUDGETS = [1 + PAIRS * each for each in (16, 16 + 32, 16 + 32 + 64, 16 + 32 + 64 + 128)]
NEVER = 1e-300  #: a tolerance that no row reaches


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("method", ["permutation-antithetic", "shear-unbiased", "kriging"])
def test_rows_stop_at_the_first_round_that_reaches_the_tolerance(method: str) -> None:
    """A row's answer is that of its last round, whatever the other rows and the budget are."""
    explainer = Explainer(network(), BACKGROUND[:PAIRS], method=method)
    rows = np.concatenate((ROWS, 0.1 * ROWS))
    first = explainer(rows, tol=NEVER, budget=BUDGETS[0])
    if method == "kriging":
        explainer = replace(explainer, method=Kriging(first.calibration))
    third = explainer(rows, tol=NEVER, budget=BUDGETS[2])  # by then all have errors
    assert third.standard_errors is not None
    tol = 1.5 * float(np.median(third.standard_errors.max(axis=1)))

    stopped = np.zeros(len(rows), dtype=bool)
    before = first
    for budget in BUDGETS:
        answer = explainer(rows, tol=tol, budget=budget)
        every = explainer(rows, tol=NEVER, budget=budget)
        _assert_rows_are_of(answer, every, ~stopped)
        _assert_rows_are_of(answer, before, stopped)
        errors = np.inf if answer.standard_errors is None else answer.standard_errors.max(axis=1)
        assert answer.converged is not None
        stopped = answer.converged
        errors = np.broadcast_to(errors, len(rows))
        assert (errors[stopped] <= tol).all()
        assert (errors[~stopped] > 0.4 * tol).all()  # all errors count, and Student's t
        before = answer
    assert stopped.any()
    assert before.row_evaluations is not None
    assert len(np.unique(before.row_evaluations)) > 1

    for row in range(len(rows)):
        alone = explainer(rows[[row]], tol=tol, budget=BUDGETS[-1])
        _assert_rows_are_of(alone, before[[row]], np.array([True]))


def _assert_rows_are_of(answer: Explanation, other: Explanation, which: Bools) -> None:
    """Assert that some rows of two explanations are the same."""
    for name in ("values", "standard_errors", "row_evaluations"):
        ours, theirs = getattr(answer, name), getattr(other, name)
        if (ours is None and theirs is None) or not which.any():
            continue
        np.testing.assert_allclose(ours[which], theirs[which], atol=1e-9, err_msg=name)


class Timed:
    """A function that takes a second for each row, and later perhaps a hundred."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow_from: float = np.inf) -> None:
        self.seconds = 0.0
        self.asked = 0
        self.slow_from = slow_from
        monkeypatch.setattr(Clock, "now", staticmethod(lambda: self.seconds))

    def __call__(self, x: Floats) -> Floats:
        self.asked += len(x)
        self.seconds += len(x) * (100.0 if self.asked > self.slow_from else 1.0)
        return np.asarray(np.tanh(x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1)))


OVERHEAD = PAIRS + 3  #: evaluations of the background rows, and of those that check the model


def timed(model: Timed) -> tuple[Explainer, list[Explanation]]:
    """An explainer, and its answers without a deadline after one, two and three rounds."""
    model.asked, slow_from, model.slow_from = 0, model.slow_from, np.inf
    explainer = Explainer(model, BACKGROUND[:PAIRS], method="permutation-antithetic", batch_size=8)
    answers = [explainer(ROWS[:1], tol=NEVER, budget=budget) for budget in BUDGETS]
    model.asked, model.slow_from = 0, slow_from
    return explainer, answers


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_round_is_begun_if_it_fits_before_the_deadline(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is judged by the seconds that the evaluations of the round before took."""
    model = Timed(monkeypatch)
    explainer, answers = timed(model)
    so_far, then = (answer.evaluations for answer in answers[rounds - 1 : rounds + 1])
    for part, expected in ((0.9, answers[rounds - 1]), (1.1, answers[rounds])):
        model.asked = 0
        deadline = OVERHEAD + so_far + part * (then - so_far)
        with pytest.warns(ShearWarning):
            answer = explainer(ROWS[:1], deadline=deadline, tol=NEVER, budget=BUDGETS[rounds])
        assert model.asked == OVERHEAD + expected.evaluations
        _assert_rows_are_of(answer, expected, np.array([True]))
        is_cut = expected is not answers[rounds]
        assert ("fewer evaluations than the budget" in " ".join(answer.notes)) == is_cut


@pytest.mark.filterwarnings("ignore:There are no error bars")
def test_a_round_that_the_deadline_cuts_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model slows down in the second round, so that only its first calls come in time."""
    model = Timed(monkeypatch)
    explainer, (first, *_) = timed(model)
    model.slow_from = OVERHEAD + first.evaluations + 16
    deadline = 1000.0
    with pytest.warns(ShearWarning, match="it has fewer evaluations than the budget allows"):
        cut = explainer(ROWS[:1], deadline=deadline, tol=NEVER, budget=BUDGETS[-1])
    assert OVERHEAD + first.evaluations + 16 < model.asked < OVERHEAD + first.evaluations + 40
    _assert_rows_are_of(cut, first, np.array([True]))


@pytest.mark.filterwarnings("ignore:There are no error bars", "ignore:a regression on")
@pytest.mark.parametrize("method", ["auto", "kernel", "leverage", "permutation", "shear"])
def test_a_null_player_has_the_value_0_if_few_background_rows_are_drawn(method: str) -> None:
    """Its value is equal in all rows; the mean of those drawn is corrected for the others."""
    rows = np.array([[0, 0, 1, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0.0]])
    row = np.ones((1, 6))
    explainer = Explainer(lambda x: x @ np.arange(1.0, 7), rows, method=method)
    answer = explainer(row, budget=96 if method == "shear" else 62)
    assert answer.values[0, 3] == 0
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


# Kriging whose equations take the time

SOLVED = np.random.default_rng(8).normal(size=(43, 8))  #: 40 background rows and 3 others


def solved_in(watch: Watch, monkeypatch: pytest.MonkeyPatch, steep_from: float = np.inf) -> None:
    """Let the equations of a pair take 5 ms for 32 coalitions, and four times that for 64.

    From a number of coalitions on they take twenty times as long.
    """
    estimate = ComplementPairs.estimate

    def slow_estimate(self: ComplementPairs, values: torch.Tensor) -> Estimate:
        pairs, coalitions, _ = values.shape
        steep = 20 if coalitions >= steep_from else 1
        watch.now += steep * 0.005 * pairs * (coalitions / 32) ** 2
        return estimate(self, values)

    monkeypatch.setattr(ComplementPairs, "estimate", slow_estimate)


@pytest.mark.filterwarnings("ignore:the deadline of", "ignore:.*did not reach tol")
@pytest.mark.parametrize("budget", [5_000, 7_000, 9_900])
@pytest.mark.parametrize("tol", [None, NEVER])
def test_a_deadline_is_kept_while_equations_are_solved(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, tol: float | None, budget: int
) -> None:
    """A row takes 2 s or more; in stages or rounds of few coalitions, a fraction of a second."""
    solved_in(watch, monkeypatch)
    explainer = Explainer(function, SOLVED[:40], method="kriging")
    started = watch.now
    part = explainer(SOLVED[[40]], budget=budget, tol=tol, deadline=1.0)
    assert watch.now - started <= 1.1
    assert part.evaluations >= 1 + 40 * 16
    assert part.standard_errors is not None
    np.testing.assert_allclose(part.gap, 0, atol=1e-9)
    assert "it has fewer evaluations than the budget allows" in part.notes[0]
    whole = Explainer(function, SOLVED[:40], method="exact")(SOLVED[[40]], budget=40 << 8)
    np.testing.assert_allclose(part.values, whole.values, atol=0.1)


@pytest.mark.filterwarnings("ignore:the deadline of", "ignore:.*did not reach tol")
def test_a_round_ends_between_designs_at_the_deadline(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could know that its equations take so long: the round before counts."""
    explainer = Explainer(function, SOLVED[:40], method="kriging")
    first = explainer(SOLVED[[40]], budget=1 + 40 * 16, tol=NEVER)
    explainer(SOLVED[[40]], budget=1 + 40 * 48, tol=NEVER)  # its pairs are selected by now
    solved_in(watch, monkeypatch, steep_from=34)
    started = watch.now
    cut = explainer(SOLVED[[40]], budget=1 + 40 * 48, tol=NEVER, deadline=2.0)
    assert watch.now - started <= 2.0 + 20 * 0.005 * 5 * (34 / 32) ** 2  # one of eight designs
    _assert_rows_are_of(cut, first, np.array([True]))


def test_a_deadline_that_does_not_come_changes_nothing(watch: Watch) -> None:
    started = watch.now
    explainer = Explainer(function, SOLVED[:40], method="kriging")
    whole = explainer(SOLVED[40:], budget=4_000)
    calibrated = replace(explainer, method=Kriging(whole.calibration))
    timed = calibrated(SOLVED[40:], budget=4_000, deadline=9.0)
    _assert_rows_are_of(timed, whole, np.ones(3, bool))
    assert watch.now - started < 1.0


def function(x: Floats) -> Floats:
    return np.asarray(np.tanh(x[:, 0] * x[:, 1]) + np.sin(x[:, 2:].sum(axis=1)))


def test_a_prepared_explainer_gives_the_same_answers() -> None:
    prepared = Explainer(network(), BACKGROUND).prepare(ROWS, budget=500)
    first = prepared.explain(ROWS[:2])
    np.testing.assert_allclose(first.values, prepared.explain(ROWS).values[:2], atol=1e-9)
    assert first.evaluations <= 500


def test_a_budget_that_is_too_small() -> None:
    with pytest.raises(BudgetError, match=r"permutation needs at least 8 evaluations.*, got 4"):
        Explainer(network(), BACKGROUND, method="permutation")(ROWS, budget=4)


def test_the_base_values_evaluations_are_counted_once() -> None:
    calls = []

    def model(x: Floats) -> Floats:
        calls.append(len(x))
        return np.asarray(np.tanh(x).sum(axis=1))

    answer = Explainer(model, BACKGROUND)(ROWS, budget=300)
    spent = answer.evaluations * len(ROWS) + answer.check_evaluations
    assert sum(calls) <= spent
    assert answer.check_evaluations >= len(BACKGROUND)


# The average by its formulas


@few
@given(seed=SEEDS, count=st.integers(8, 20))
def test_the_average_by_plain_loops(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(25, 1))
    drawn = torch.from_numpy(rng.permutation(25)[:count])
    values = rng.normal(size=(1, count, 3, 1))
    errors = rng.uniform(0.1, 1, size=values.shape)
    found = average(
        torch.tensor(values), torch.tensor(errors), torch.tensor(base), drawn, None, unbiased=False
    )
    f = base[drawn, 0]
    for player in range(3):
        phi = values[0, :, player, 0]
        slope, constant = np.polyfit(f, phi, 1)
        assert float(found[0][0, player, 0]) == pytest.approx(slope * base.mean() + constant)
        variances = values[0, :, :, 0].var(axis=0, ddof=1)
        spread = max(variances[player], variances.mean() / 10)
        between = (1 - count / 25) * spread / count
        within = (errors[0, :, player, 0] ** 2).sum() / count**2
        assert found[1] is not None
        assert float(found[1][0, player, 0]) == pytest.approx(np.sqrt(between + within))
    assert found[2] == count - 1


def test_pairs_that_showed_one_value_are_as_uncertain_as_the_worst() -> None:
    errors = torch.tensor([[0.1, 0.3, np.inf]]).reshape(1, 3, 1, 1)
    values = torch.zeros(1, 3, 1, 1)
    base = torch.zeros(3, 1)
    found = average(values, errors, base, torch.arange(3), None, unbiased=False)
    assert found[1] is not None
    assert float(found[1]) == pytest.approx(np.sqrt(0.01 + 0.09 + 0.09) / 3)
    unknown = torch.full_like(errors, np.inf)
    assert average(values, unknown, base, torch.arange(3), None, unbiased=False)[1] is None


def test_estimates_are_never_certain() -> None:
    """Pairs with few active features are exact; they say nothing about the others."""
    rng = np.random.default_rng(1)
    background = (rng.random((100, 10)) < 0.5).astype(float)
    rows = (rng.random((5, 10)) < 0.5).astype(float)
    weights = rng.normal(size=(10, 8))

    def model(x: Floats) -> Floats:
        return np.asarray(np.tanh(x @ weights).sum(axis=1))

    truth = Explainer(model, background, method="exact")(rows, budget=100 << 10)
    answer = Explainer(model, background, method="permutation-antithetic")(rows)
    assert answer.standard_errors is not None
    assert np.isfinite(answer.standard_errors).all()
    lower, upper = answer.interval(0.95)
    assert ((lower <= truth.values) & (truth.values <= upper)).mean() > 0.9


def test_a_budget_for_interactions_is_that_of_all_background_rows() -> None:
    with pytest.raises(BudgetError, match=r"\(18 coalitions x 40 background rows\), got 300"):
        Explainer(pairwise, BACKGROUND)(ROWS, interactions=True, budget=300)


def test_the_evaluations_of_a_row_do_not_depend_on_the_rows_beside_it() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 6))
    background = rows[:5].copy()
    rows[::3, 2:] = background[1, 2:]  # some features are null against one background row
    prepared = Explainer(lambda x: x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1), background).prepare(
        rows, budget=120
    )
    together = prepared.explain(rows)
    alone = [prepared.explain(rows[[row]]) for row in range(12)]
    spent = [int(spent_evaluations(each)[0]) for each in alone]
    assert len(set(spent)) > 1
    assert spent_evaluations(together).tolist() == spent
    assert Explanation.concat(alone).evaluations == together.evaluations
