"""The one loop: blocks, stages, screenings, deadlines, errors in the middle, and the seam before it."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from clock import Watch
from games import Floats, network, random_table, table_game
from shearshap import (
    BudgetError,
    Explainer,
    Explanation,
    InputError,
    ModelError,
    ShearWarning,
    explain,
    explain_game,
)
from shearshap.engine import loop, plan
from shearshap.methods import Auto
from shearshap.methods.kriging.pairs import PivotedFactor

ROWS = np.random.default_rng(0).normal(size=(40, 6))
ZEROS = np.zeros(6)


def stepwise(rows: Floats) -> Floats:
    """A model of products of steps, which answers a row alike in any batch."""
    steps = (rows > 0.3) * 1.0
    return np.asarray(
        steps[:, 0] * steps[:, 1] + steps[:, 2] * rows[:, 3] - steps[:, 4] * steps[:, 5]
    )


# Blocks


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows each, after the first."""
    monkeypatch.setitem(plan.BLOCK_BYTES, "cpu", 30_000)


class LateCopies:
    """Copies that are not there before they are waited for, as those from a GPU may be."""

    most_waiting = 0

    def __init__(self) -> None:
        self.waiting: list[tuple[Tensor, Tensor]] = []

    def start(self, source: Tensor, destination: Tensor) -> None:
        destination.zero_()
        self.waiting.append((source, destination))
        LateCopies.most_waiting = max(LateCopies.most_waiting, len(self.waiting))

    def wait(self) -> None:
        for source, destination in self.waiting:
            destination.copy_(source)
        self.waiting = []


@pytest.mark.usefixtures("small_blocks")
def test_blocks_are_copied_while_the_next_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Explainer(stepwise, ZEROS, method="leverage")
    wanted = explainer(ROWS, budget=30)
    monkeypatch.setattr(loop, "HostCopies", LateCopies)
    answer = explainer(ROWS, budget=30)
    np.testing.assert_array_equal(answer.values, wanted.values)
    np.testing.assert_array_equal(answer.predictions, wanted.predictions)
    np.testing.assert_array_equal(answer.standard_errors, wanted.standard_errors)
    fields = 4  # values, base values, predictions and standard errors
    assert LateCopies.most_waiting > 2 * fields


@pytest.mark.usefixtures("small_blocks")
def test_blocks_before_an_error_are_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_late(rows: Floats) -> Floats:
        if (rows == ROWS[38]).all(axis=1).any():
            raise ValueError("no such row")
        return stepwise(rows)

    monkeypatch.setattr(loop, "HostCopies", LateCopies)
    with pytest.raises(ModelError) as failure:
        Explainer(fails_late, ZEROS, method="leverage")(ROWS, budget=30)
    finished = failure.value.finished
    assert finished is not None
    assert len(finished) > 16
    wanted = Explainer(stepwise, ZEROS, method="leverage")(ROWS, budget=30)
    np.testing.assert_array_equal(finished.values, wanted.values[: len(finished)])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("tol", [None, 0.05])
def test_the_stream_yields_blocks_whose_concatenation_is_the_call(tol: float | None) -> None:
    explainer = Explainer(stepwise, ZEROS, method="leverage")
    blocks = list(explainer.stream(ROWS, budget=40, tol=tol))
    whole = explainer(ROWS, budget=40, tol=tol)
    assert len(blocks) > 2
    assert sum(len(block) for block in blocks) == len(ROWS)
    joined = Explanation.concat(blocks)
    np.testing.assert_allclose(joined.values, whole.values, atol=1e-12)
    np.testing.assert_array_equal(joined.index, np.arange(len(ROWS)))
    np.testing.assert_array_equal(joined.data, ROWS)


def test_a_block_is_there_before_the_next_is_begun(small_blocks: None) -> None:  # noqa: ARG001
    asked: list[int] = []

    def model(rows: Floats) -> Floats:
        asked.append(len(rows))
        return stepwise(rows)

    blocks = Explainer(model, ZEROS, method="leverage").stream(ROWS, budget=40)
    first = next(blocks)
    assert sum(asked) == len(first) * first.evaluations + first.check_evaluations
    assert len(first) < len(ROWS)


def test_a_closed_stream_gives_the_model_back() -> None:
    net = network(6).train()
    blocks = Explainer(net, ZEROS, method="leverage").stream(np.tile(ROWS, (10, 1)), budget=40)
    next(blocks)
    assert not net.training
    blocks.close()  # type: ignore[attr-defined]
    assert net.training


def test_inference_mode_between_two_blocks_is_the_callers(small_blocks: None) -> None:  # noqa: ARG001
    net = network(6)
    with torch.inference_mode():
        for _ in Explainer(net, ZEROS, method="shear").stream(ROWS, budget=60):
            assert torch.is_inference_mode_enabled()


# Auto carries a calibration


@pytest.mark.parametrize("budget", [400, pytest.param(1 << 12, marks=pytest.mark.slow)])
def test_parts_of_a_job_under_auto_with_a_tolerance_agree_with_the_whole(budget: int) -> None:
    """A jumpy game of 12 players, rows cut in two, with what the whole was fitted to."""
    rng = np.random.default_rng(3)
    weights = rng.lognormal(size=12)
    rows = rng.normal(size=(30, 12))

    def vote(x: Floats) -> Floats:
        return np.asarray(((np.abs(x) * weights).sum(axis=1) >= 0.4 * weights.sum()) * 1.0)

    def explained(part: Floats, calibration: object = None) -> Explanation:
        explainer = Explainer(vote, np.zeros(12), method=Auto(calibration=calibration))
        return explainer(part, budget=budget, tol=0.05)

    whole = explained(rows)
    assert whole.row_evaluations is not None
    assert len(set(whole.row_evaluations.tolist())) > 1
    parts = [explained(rows[:11], whole.calibration), explained(rows[11:], whole.calibration)]
    joined = Explanation.concat(parts)
    np.testing.assert_allclose(joined.values, whole.values, atol=1e-9)
    np.testing.assert_array_equal(joined.row_evaluations, whole.row_evaluations)
    assert joined.method == whole.method


def test_auto_reports_the_method_it_chose() -> None:
    game = table_game(random_table(8, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        methods = {
            budget: explain_game(game, players=8, budget=budget, method="auto").method
            for budget in (16, 100, 256)
        }
    assert methods == {16: "kriging", 100: "kriging", 256: "exact"}


# Deadlines


def slow(watch: Watch, seconds_a_row: float) -> Explainer:
    def model(rows: Floats) -> Floats:
        watch.now += len(rows) * seconds_a_row / 40
        return stepwise(rows)

    return Explainer(model, ZEROS, method="leverage")


def test_a_deadline_returns_what_is_done_and_says_what_is_not(watch: Watch) -> None:
    rows = np.tile(ROWS, (5, 1))
    whole = slow(watch, 0)(rows, budget=40)
    with pytest.warns(
        ShearWarning, match=r"the deadline of 60 s was reached after \d+ of 200 rows"
    ):
        part = slow(watch, 1)(rows, budget=40, deadline=60)
    assert 45 <= len(part) <= 60
    np.testing.assert_allclose(part.values, whole.values[: len(part)], atol=1e-12)
    np.testing.assert_array_equal(part.index, np.arange(len(part)))
    assert f"after {len(part)} of 200 rows" in part.notes[-1]


def test_a_deadline_before_the_first_result_is_an_error(watch: Watch) -> None:
    with pytest.raises(
        BudgetError, match=r"deadline: expected enough seconds to explain one row, got 0.001;"
    ):
        replace(slow(watch, 1), batch_size=4)(ROWS, budget=40, deadline=0.001)


def test_one_model_call_more_is_made_for_a_first_result(watch: Watch) -> None:
    with pytest.warns(ShearWarning, match="after 1 of 40 rows"):
        part = replace(slow(watch, 1), batch_size=40)(ROWS, budget=40, deadline=0.001)
    assert len(part) == 1
    assert watch.now <= 102


@pytest.mark.parametrize("method", ["leverage", "kriging", "permutation-antithetic"])
@pytest.mark.parametrize("tol", [None, 1e-9])
@pytest.mark.filterwarnings("ignore:the deadline of")
def test_rows_return_what_their_stages_have_found_until_the_deadline(
    watch: Watch, method: str, tol: float | None
) -> None:
    """A row takes 1,000 s, more than there are."""
    rows = np.random.default_rng(2).normal(size=(6, 12))

    def model(points: Floats) -> Floats:
        watch.now += len(points)
        return np.asarray(np.tanh(points[:, :6].sum(axis=1)) * (1 + points[:, 6:].sum(axis=1)))

    explainer = Explainer(model, np.zeros(12), method=method, batch_size=8)
    part = explainer(rows, budget=1000, tol=tol, deadline=400)
    assert watch.now - 100 <= 400 + 8  # one model call
    assert part.row_evaluations is not None
    assert 1 <= len(part) < 6
    assert (part.row_evaluations < 1000).all()
    assert (part.row_evaluations >= 24).all()
    assert part.standard_errors is not None
    assert "have fewer evaluations than the budget allows" in part.notes[0]
    if tol is not None:
        assert "did not reach tol=1e-09" in part.notes[1]
        assert "pass a longer deadline=" in part.notes[1]


@pytest.mark.parametrize("tol", [None, 1e-9])
@pytest.mark.filterwarnings("ignore:the deadline of", "ignore:.*did not reach tol")
def test_a_deadline_may_come_between_background_rows(watch: Watch, tol: float | None) -> None:
    """A row takes about 4 s, and each model call 0.1 s."""
    explainer = replace(slow(watch, 1), background=ROWS[:8], batch_size=4)
    whole = explainer(ROWS[8:16], budget=160, tol=tol)
    for deadline in (4.6, 5.0, 9.3, 14.8):
        started = watch.now
        part = explainer(ROWS[8:16], budget=160, tol=tol, deadline=deadline)
        assert watch.now - started <= deadline + 0.3
        assert 1 <= len(part) < 8
        if tol is None:
            np.testing.assert_allclose(part.values, whole.values[: len(part)], atol=1e-12)


def test_pairs_are_selected_in_half_of_the_time(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = PivotedFactor.append

    def slow_step(self: PivotedFactor, found: Any) -> None:
        watch.now += 1
        step(self, found)

    monkeypatch.setattr(PivotedFactor, "append", slow_step)
    rows = np.random.default_rng(7).normal(size=(3, 31))
    explainer = Explainer(lambda x: np.sin(x).sum(axis=1), np.zeros(31), method="kriging")
    with pytest.warns(ShearWarning, match="some rows have fewer evaluations than the budget"):
        part = explainer(rows, budget=500, deadline=8)
    assert watch.now - 100 <= 5
    assert 64 <= part.evaluations < 500
    np.testing.assert_allclose(part.gap, 0, atol=1e-9)


def test_the_clock_is_real_otherwise() -> None:
    calls: list[int] = []

    def model(points: Floats) -> Floats:
        calls.append(len(points))
        return stepwise(points)

    explainer = Explainer(model, ZEROS, method="leverage", batch_size=40)
    with pytest.warns(ShearWarning, match="the deadline of 1e-09 s was reached after 1 of 40 rows"):
        explainer(ROWS, budget=40, deadline=1e-9)
    assert len(calls) == 2  # for the ends, and one more


# Tolerances


def test_a_tolerance_goes_beyond_the_default_budget() -> None:
    rows = np.random.default_rng(2).normal(size=(3, 9))
    explainer = Explainer(lambda x: stepwise(x[:, :6]) * x[:, 6:].sum(axis=1), np.zeros(9))
    whole = explainer(rows)
    precise = explainer(rows, tol=1e-9)
    assert whole.evaluations == 146
    assert precise.evaluations == 512
    assert precise.converged is not None
    assert precise.converged.all()
    assert precise.notes == ()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.usefixtures("small_blocks")
def test_rows_that_miss_the_tolerance_are_counted_once(at_once: bool) -> None:
    explainer = Explainer(stepwise, ZEROS, method="leverage")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if at_once:
            explanation = explainer(ROWS, budget=40, tol=0.05)
        else:
            explanation = Explanation.concat(list(explainer.stream(ROWS, budget=40, tol=0.05)))
    assert explanation.converged is not None
    missed = int((~explanation.converged).sum())
    sentence = (
        f"{missed} of 40 rows did not reach tol=0.05 within 40 evaluations; pass a larger budget="
    )
    assert explanation.notes.count(sentence) == 1
    assert [str(each.message) for each in caught] == [sentence]


@pytest.mark.parametrize("deadline", [1e6, 1e308, float("inf")])
def test_a_deadline_that_does_not_come_changes_nothing(deadline: float) -> None:
    explainer = Explainer(stepwise, ZEROS, method="leverage")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = explainer(ROWS, budget=40, deadline=deadline)
    without = explainer(ROWS, budget=40)
    np.testing.assert_allclose(answer.values, without.values, atol=1e-12)
    assert answer.notes == without.notes


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), "soon", True])
def test_a_deadline_is_a_positive_number(deadline: object) -> None:
    with pytest.raises(InputError, match="deadline: expected a positive number, seconds"):
        Explainer(stepwise, ZEROS)(ROWS, budget=40, deadline=deadline)  # type: ignore[arg-type]


# Errors in the middle


def test_a_model_error_in_the_middle_names_the_row_and_keeps_what_is_finished(
    small_blocks: None,  # noqa: ARG001
) -> None:
    def model(rows: Floats) -> Floats:
        if (rows == 99).any():
            raise ValueError("ninety-nine")
        return stepwise(rows)

    rows = ROWS.copy()
    rows[33, 2] = 99
    explainer = Explainer(model, ZEROS, method="leverage")
    with pytest.raises(ModelError, match=r"ninety-nine.*first on row 33 with 6 of 6") as caught:
        explainer(rows, budget=40)
    finished = caught.value.finished
    assert 16 <= len(finished) <= 33
    whole = Explainer(stepwise, ZEROS, method="leverage")(ROWS, budget=40)
    np.testing.assert_allclose(finished.values, whole.values[: len(finished)], atol=1e-12)


class Dying:
    """A model that answers for so many rows, and then never again, as behind a quota."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def __call__(self, rows: Floats) -> Floats:
        self.left -= len(rows)
        if self.left < 0:
            raise RuntimeError("no quota left")
        return stepwise(rows)


@pytest.mark.parametrize("method", ["leverage", "permutation", "kernel-paired"])
def test_rows_that_are_answered_in_full_are_kept_when_the_model_dies(method: str) -> None:
    """Batches of one row each: 4 checks, the ends of 16 rows, and then some rows in full."""
    budget = 40
    dying = Dying(4 + 16 * 2 + 9 * (budget - 2) + 7)
    explainer = Explainer(dying, ZEROS, method=method, batch_size=budget - 2)
    with pytest.raises(ModelError, match="no quota left") as caught:
        explainer(ROWS[:16], budget=budget)
    finished = caught.value.finished
    np.testing.assert_array_equal(finished.index, np.arange(len(finished)))
    assert len(finished) >= 9
    whole = Explainer(stepwise, ZEROS, method=method)(ROWS[:16], budget=budget)
    np.testing.assert_allclose(finished.values, whole.values[: len(finished)], atol=1e-12)


def test_rows_that_converged_are_kept_when_the_model_dies() -> None:
    """With a tolerance rows finish in any order, and their labels say which they are."""
    rows = np.tile(ROWS[:16], 2)
    # these add up, and converge at once
    rows[:8] = np.random.default_rng(1).uniform(0.1, 0.2, size=(8, 12))
    rows = rows.reshape(2, 8, 12).swapaxes(0, 1).reshape(16, 12)[::-1]  # in turn
    labels = [f"row {number}" for number in range(16)]

    def model(rows: Floats) -> Floats:
        return np.asarray(stepwise(rows[:, :6]) * (1 + rows[:, 6:].sum(axis=1)) + rows.sum(axis=1))

    def explained(model: Callable[[Floats], Floats]) -> Explanation:
        explainer = Explainer(model, np.zeros(12), method="leverage", batch_size=8)
        return explainer(rows, budget=1000, tol=0.01, index=labels)

    whole = explained(model)
    spent = whole.row_evaluations
    assert spent is not None
    early = np.flatnonzero(spent == spent.min())
    assert 8 <= len(early) < 16
    assert early[0] < 8  # they are not the first rows

    enough_for_the_first_stage = 4 + 16 * int(spent.min())
    dying = Dying(enough_for_the_first_stage + 5)
    with pytest.raises(ModelError, match="no quota left") as caught:
        explained(lambda rows: model(rows) + 0 * dying(rows[:, :6]))
    finished = caught.value.finished
    assert finished.index.tolist() == [labels[row] for row in early]
    assert finished.converged.all()
    np.testing.assert_allclose(finished.values, whole.values[early], atol=1e-12)


def test_a_stream_yields_what_is_finished_before_the_error() -> None:
    budget = 40
    dying = Dying(4 + 16 * 2 + 5 * (budget - 2))
    blocks = Explainer(dying, ZEROS, method="leverage", batch_size=8).stream(
        ROWS[:16], budget=budget
    )
    first = next(blocks)
    np.testing.assert_array_equal(first.index, np.arange(5))
    with pytest.raises(ModelError, match="no quota left"):
        next(blocks)


def test_an_error_leads_to_the_row_and_the_coalition() -> None:
    """The question that failed can be asked again."""

    def model(frame: pd.DataFrame) -> Floats:
        if ((frame["a"] == 2) & (frame["b"] == 0)).any():
            raise ValueError("bad mix")
        return frame.to_numpy().sum(axis=1)  # type: ignore[no-any-return]

    rows = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 1.0], "c": [3.0, 3.0]}, index=["u", "v"])
    background = pd.DataFrame({"a": [0.0], "b": [0.0], "c": [0.0]})
    with pytest.raises(ModelError, match="bad mix") as caught:
        Explainer(model, background)(rows, budget=8)
    error = caught.value
    assert error.row == 1
    assert error.coalition.tolist() == [True, False, False]
    assert error.inputs.to_numpy().tolist() == [[2.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="bad mix"):
        model(error.inputs)

    notes = "\n".join(error.__notes__)
    assert "Row 1 has the label 'v'" in notes
    assert "Features present: a; absent: b, c." in notes


def test_an_error_of_nan_leads_there_too() -> None:
    def model(rows: Floats) -> Floats:
        return np.where((rows[:, 0] == 2) & (rows[:, 1] == 0), np.nan, 1.0)

    with pytest.raises(ModelError, match="nan for row 1 with 1 of 2 features") as caught:
        Explainer(model, np.zeros(2))(np.array([[1.0, 1.0], [2.0, 1.0]]), budget=4)
    assert caught.value.row == 1
    assert caught.value.coalition.tolist() == [True, False]
    np.testing.assert_array_equal(caught.value.inputs, [[2.0, 0.0]])
    assert len(caught.value.finished) == 1


def test_an_error_at_once_has_nothing_finished() -> None:
    def model(_rows: Floats) -> Floats:
        raise ValueError("never")

    with pytest.raises(ModelError, match="never") as caught:
        explain(model, ROWS, background=ZEROS, budget=40)
    assert caught.value.finished is None


# A run


def test_a_slow_consumer_uses_up_the_deadline(watch: Watch) -> None:
    blocks = slow(watch, 1).stream(np.tile(ROWS, (5, 1)), budget=40, deadline=60)
    first = next(blocks)
    watch.now += 100
    with pytest.warns(ShearWarning, match="after 1 of 200 rows"):
        assert list(blocks) == []
    assert len(first) == 1
