"""Ctrl-C in a long call: what is finished stays in the error, and a line says so."""

import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shearshap import (
    Explainer,
    Explanation,
    ModelError,
    explain_game,
    importance,
    value_members,
)
from shearshap.engine.sampling import RowGroup

Floats = NDArray[np.float64]

ROWS = np.random.default_rng(0).normal(size=(64, 8))
BATCH = 64  #: evaluations
STOPS: list[type[BaseException]] = [KeyboardInterrupt, RuntimeError]


def function(rows: Floats) -> Floats:
    return np.asarray(rows[:, :3].prod(axis=1) + np.abs(rows).sum(axis=1))


def stopping(
    calls: int, stop: type[BaseException] = KeyboardInterrupt
) -> Callable[[Floats], Floats]:
    """Return a model that is stopped after so many calls, for good."""
    done = 0

    def model(rows: Floats) -> Floats:
        nonlocal done
        done += 1
        if done > calls:
            raise stop
        return function(rows)

    return model


def finished_of(call: Callable[[], object]) -> Any:
    """Return what is finished when a call is stopped."""
    with pytest.raises((KeyboardInterrupt, ModelError)) as caught:
        call()
    return getattr(caught.value, "finished", None)


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("background", [1, 6])
@pytest.mark.parametrize("method", ["auto", "leverage", "permutation", "shear"])
def test_finished_rows_are_kept(method: str, background: int, stop: type[BaseException]) -> None:
    def explained(model: Callable[[Floats], Floats]) -> Explanation:
        explainer = Explainer(model, ROWS[-background:] + 1, method=method, batch_size=BATCH)
        return explainer(ROWS, budget=120)

    calls = 0

    def counting(rows: Floats) -> Floats:
        nonlocal calls
        calls += 1
        return function(rows)

    whole = explained(counting)
    kept = []
    for part in (0.3, 0.6, 0.9):
        finished = finished_of(partial(explained, stopping(int(part * calls), stop)))
        kept.append(0 if finished is None else len(finished))
        if finished is not None:
            np.testing.assert_array_equal(finished.index, np.arange(kept[-1]))
            # a calibration is fitted to fewer rows
            allowed = 0.01 if method == "auto" else 1e-12
            np.testing.assert_allclose(finished.values, whole.values[: kept[-1]], atol=allowed)
    assert kept == sorted(kept)
    assert kept[1] >= 16
    assert kept[2] >= 32


def test_a_line_says_what_is_finished_and_where() -> None:
    explainer = Explainer(stopping(40), ROWS[:1], method="leverage", batch_size=BATCH)
    with pytest.raises(
        KeyboardInterrupt, match=r"^finished rows: (\d+); see `finished` of this"
    ) as caught:
        explainer(ROWS, budget=120)
    count = len(caught.value.finished)  # type: ignore[attr-defined]
    assert str(caught.value) == (
        f"finished rows: {count}; see `finished` of this error, in a notebook "
        "sys.last_value.finished"
    )
    with pytest.raises(KeyboardInterrupt, match=r"^$") as caught:  # nothing is finished
        Explainer(stopping(0), ROWS[:1])(ROWS)
    assert getattr(caught.value, "finished", None) is None


def test_a_stream_yields_the_finished_rows_first() -> None:
    explainer = Explainer(stopping(40), ROWS[:1], method="leverage", batch_size=BATCH)
    blocks = explainer.stream(ROWS, budget=120)
    done: list[Explanation] = []
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        done.extend(blocks)
    whole = Explainer(function, ROWS[:1], method="leverage")(ROWS, budget=120)
    every = Explanation.concat(done)
    assert len(every) > 16
    np.testing.assert_allclose(every.values, whole.values[: len(every)], atol=1e-12)


@pytest.mark.parametrize("name", ["batches.Box.halves", "game.in_batches"])
def test_control_c_between_two_batches(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    explainer = Explainer(function, ROWS[:1], method="leverage", batch_size=BATCH)
    whole = explainer(ROWS, budget=120)
    usual = pkgutil.resolve_name(f"shearshap.games.{name}")
    done = 0

    def interrupted(*given: Any) -> Any:
        nonlocal done
        done += 1
        if done == last:
            raise KeyboardInterrupt
        return usual(*given)

    monkeypatch.setattr(f"shearshap.games.{name}", interrupted)
    last = 0  # never
    explainer(ROWS, budget=120)
    last, done = int(0.9 * done), 0
    finished = finished_of(lambda: explainer(ROWS, budget=120))
    assert 16 <= len(finished) < len(ROWS)
    np.testing.assert_allclose(finished.values, whole.values[: len(finished)], atol=1e-12)


def test_a_second_interrupt_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While rows that are answered are still estimated; those of the blocks before are kept."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RowGroup, "_finish", interrupted)
    explainer = Explainer(stopping(40), ROWS[:1], method="leverage", batch_size=BATCH)
    assert len(finished_of(lambda: explainer(ROWS, budget=120))) == 16


def test_texts_that_are_finished_are_kept() -> None:
    texts = ["a good film", "a bad one", "good film", "bad film"]

    def picky(batch: list[str]) -> list[float]:
        if any("bad film" in text for text in batch):
            raise KeyboardInterrupt
        return [float(len(text)) for text in batch]

    finished = finished_of(lambda: Explainer(picky, text="words")(texts))
    assert finished.index.tolist() == [0, 1]


def test_a_model_that_explains_another_one_does_not_mix_them_up() -> None:
    inner = Explainer(stopping(40), ROWS[:1], method="leverage", batch_size=BATCH)

    def model(rows: Floats) -> Floats:
        return np.resize(inner(ROWS, budget=120).values[:, 0], len(rows))

    assert finished_of(lambda: Explainer(model, ROWS[:1])(ROWS)) is None


def test_a_prepared_explainer_keeps_them_too() -> None:
    live = True

    def model(rows: Floats) -> Floats:
        if not live and (rows[:, 0] == ROWS[40, 0]).any():
            raise KeyboardInterrupt
        return function(rows)

    prepared = Explainer(model, ROWS[:1], method="leverage", batch_size=BATCH).prepare(ROWS[:9])
    live = False
    finished = finished_of(lambda: prepared.explain(ROWS))
    assert 0 < len(finished) < 41


@pytest.mark.parametrize("stop", STOPS)
def test_importance_is_kept_of_the_rows_so_far(stop: type[BaseException]) -> None:
    y = function(ROWS) + 1
    whole = importance(function, ROWS, y, loss="mse", budget=3000, batch_size=BATCH)
    late = stopping(40, stop)
    finished = finished_of(
        lambda: importance(late, ROWS, y, loss="mse", budget=3000, batch_size=BATCH)
    )
    assert 0 < finished.rows[0] < whole.rows[0]
    assert (np.abs(finished.values - whole.values) < 6 * finished.standard_errors).all()


def test_the_values_of_a_game_are_in_its_cache(tmp_path: Path) -> None:
    """The same call goes on from there."""
    calls = 0

    def score(labels: Any, predictions: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return float(-((labels - predictions) ** 2).mean())

    def valued() -> Explanation:
        return value_members(ROWS.T[:, :20], score, ROWS[:20, 0], cache=tmp_path, budget=32)

    with pytest.raises(KeyboardInterrupt, match=r"^the cache has 2\d values in .*; make the same"):
        valued()
    before = calls
    valued()
    assert calls - before < 12


def test_a_game_has_nothing_finished() -> None:
    def value(_: object) -> Floats:
        raise KeyboardInterrupt

    assert finished_of(lambda: explain_game(value, players=5)) is None


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")
def test_control_c_ends_a_call_with_one_line() -> None:
    script = """
import time
import numpy as np
from shearshap import Explainer

calls = 0

def model(rows):
    global calls
    calls += 1
    if calls == 40:
        print("begun", flush=True)
        time.sleep(600)
    return rows.prod(axis=1)

try:
    Explainer(model, np.zeros(8), batch_size=64)(np.ones((64, 8)), budget=120)
except KeyboardInterrupt as error:
    print(len(error.finished), flush=True)
    raise
"""
    call = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert call.stdout is not None
    assert call.stdout.readline() == "begun\n"
    call.send_signal(signal.SIGINT)
    said, message = call.communicate(timeout=180)
    assert call.returncode == -signal.SIGINT
    assert int(said) > 16
    last = message.splitlines()[-1]
    assert last.startswith(f"KeyboardInterrupt: finished rows: {int(said)}; see `finished`")
