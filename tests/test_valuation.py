"""Games of data: rows, groups of rows and members of an ensemble are worth what definitions say."""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import joblib
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from clock import Watch
from shearshap import (
    BudgetError,
    Explanation,
    InputError,
    ModelError,
    ShearWarning,
    explain_game,
    plots,
    value_data,
    value_members,
)

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X = ((X - X.mean()) / X.std()).iloc[:, :5]
TRAIN, LABELS = X[:40], Y[:40].to_numpy()
GROUPS = np.repeat(list("abcd"), 10)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)

Value = Callable[[tuple[int, ...]], Any]


def accuracy(model: Any) -> float:
    return float(np.mean(model.predict(X[100:200]) == Y[100:200]))


def shapley(value: Value, players: int) -> NDArray[np.float64]:
    """Shapley values by their definition: a player's mean step over the coalitions of the others."""
    phi = []
    for player in range(players):
        others = [other for other in range(players) if other != player]
        phi.append(
            sum(
                (np.asarray(value((*some, player))) - value(some)) / comb(players - 1, size)
                for size in range(players)
                for some in combinations(others, size)
            )
            / players
        )
    return np.array(phi)


# Values by their definitions


def test_groups_are_worth_what_the_definition_says() -> None:
    numbers = np.repeat(range(4), 10)
    most = int(LABELS.mean() > 0.5)
    constant = float(np.mean(Y[100:200] == most))

    def value(coalition: tuple[int, ...]) -> float:
        rows = np.isin(numbers, coalition)
        if len(set(LABELS[rows])) < 2:
            return constant
        return accuracy(TREE.fit(TRAIN[rows], LABELS[rows]))

    answer = value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS)
    np.testing.assert_allclose(answer.values[0], shapley(value, 4), atol=1e-12)
    assert answer.feature_names == list("abcd")
    assert answer.base_values[0] == pytest.approx(constant)
    assert answer.predictions[0] == pytest.approx(value((0, 1, 2, 3)))
    assert "or with rows of one class, is worth" in answer.notes[0]
    assert "most frequent class" in answer.notes[0]
    assert answer.model == "DecisionTreeClassifier"


def test_numbers_are_guessed_by_their_mean_and_a_function_may_fit() -> None:
    rows, labels = load_diabetes(return_X_y=True)

    def fit(some: Any, targets: Any) -> Any:
        return Ridge(1e-2).fit(some, targets)

    def error(model: Any) -> float:
        return float(mean_squared_error(labels[100:], model.predict(rows[100:])))

    answer = value_data(fit, error, rows[:5], labels[:5])
    spread = float(np.mean((labels[100:] - labels[:5].mean()) ** 2))

    def value(coalition: tuple[int, ...]) -> float:
        some = list(coalition)
        return error(fit(rows[some], labels[some])) if some else spread

    np.testing.assert_allclose(answer.values[0], shapley(value, 5), rtol=1e-9)
    assert answer.feature_names == [f"row {number}" for number in range(5)]
    assert answer.notes == (
        f"a coalition without rows is worth {spread:.4g}, the score of a constant guess, the mean "
        "of the labels",
    )


def test_members_are_worth_what_the_definition_says() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    predictions = np.clip(rng.random((5, 60)) * 0.5 + 0.4 * y, 0.01, 0.99)
    answer = value_members(predictions, log_loss, y)

    def value(coalition: tuple[int, ...]) -> float:
        some = list(coalition)
        mean = predictions[some].mean(axis=0) if some else np.full(60, y.mean())
        return float(log_loss(y, mean))

    np.testing.assert_allclose(answer.values[0], shapley(value, 5), atol=1e-12)
    both = np.stack((1 - predictions, predictions), axis=2)
    named = value_members({f"m{i}": each for i, each in enumerate(both)}, log_loss, y)
    np.testing.assert_allclose(named.values, answer.values, atol=1e-9)
    assert named.feature_names == ["m0", "m1", "m2", "m3", "m4"]


@pytest.mark.slow
def test_efficiency_symmetry_and_null_players_of_an_estimate() -> None:
    """Two groups are copies of each other, and the rows of a third are ignored by the fit."""
    rows = np.concatenate((TRAIN, TRAIN[:10], np.full((10, 5), np.nan), X[40:100]))
    labels = np.concatenate((LABELS, LABELS[:10], LABELS[:10], Y[40:100]))
    groups = np.repeat(np.arange(12), 10)

    def fit(some: Any, targets: Any) -> Any:
        known = np.isfinite(some).all(axis=1)
        if len(set(targets[known])) < 2:
            return None
        return KNeighborsClassifier(1).fit(some[known], targets[known])

    def score(model: Any) -> float:
        return 0.5 if model is None else float(model.score(X[100:160].to_numpy(), Y[100:160]))

    answer = value_data(fit, score, rows, labels, groups=groups, empty=0.5, budget=400)
    assert answer.method == "kriging"
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)
    low, high = answer.interval()
    assert low[0, 5] <= 0 <= high[0, 5]
    difference = abs(answer.values[0, 0] - answer.values[0, 4])
    assert difference <= 3 * np.hypot(*answer.standard_errors[0, [0, 4]])  # type: ignore[index]


def test_several_scores_at_once() -> None:
    answer = value_data(
        TREE, lambda model: [accuracy(model), 1.0], TRAIN, LABELS, groups=GROUPS, empty=[0.0, 1.0]
    )
    assert answer.shape == (1, 4, 2)
    np.testing.assert_allclose(answer.values[0, :, 1], 0)


@pytest.mark.parametrize("kind", [np.asarray, pl.from_pandas, lambda rows: rows.values.tolist()])
def test_rows_of_any_kind(kind: Callable[[Any], Any]) -> None:
    frame = value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS, empty=0)

    def score(model: Any) -> float:
        return float(np.mean(model.predict(X[100:200].to_numpy()) == Y[100:200]))

    def fit(rows: Any, labels: Any) -> Any:
        assert isinstance(rows, type(kind(TRAIN)))
        return TREE.fit(np.asarray(rows), labels)

    other = value_data(fit, score, kind(TRAIN), LABELS.tolist(), groups=pd.Series(GROUPS), empty=0)
    np.testing.assert_allclose(other.values, frame.values)


# Processes, files, deadlines


processes = pytest.mark.xdist_group("joblib")  # whose processes stay for the next test


@pytest.mark.slow
@processes
def test_processes_and_threads_agree() -> None:
    one = value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS)
    with joblib.parallel_config(backend="threading"):
        threads = value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS, n_jobs=2)
    several = value_data(
        TREE, lambda model: accuracy(model), TRAIN, LABELS, groups=GROUPS, n_jobs=2
    )
    np.testing.assert_array_equal(one.values, threads.values)
    np.testing.assert_array_equal(one.values, several.values)


CRASH = """
import os, sys
import numpy as np
from shearshap import value_members

calls = 0
def score(y, mean):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os._exit(3)
    return float(mean.mean() ** 2)

answer = value_members(np.arange(12.0).reshape(6, 2), score, [0, 1], empty=0, cache=sys.argv[1])
print(calls, answer.values.tolist())
"""


@pytest.mark.slow
def test_a_run_that_crashed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", CRASH, str(tmp_path / "kept"), "20"]
    assert subprocess.run(command, check=False).returncode == 3
    (file,) = (tmp_path / "kept").iterdir()
    assert len(file.read_text().splitlines()) == 20  # the empty coalition needs no score
    with file.open("a") as lines:
        lines.write('{"08": 1')  # a line that was cut off
    monkeypatch.setattr(sys, "argv", ["-c", command[3], "-1"])
    exec(CRASH, {})
    calls, _, values = capsys.readouterr().out.partition(" ")
    # all 63 coalitions that are not empty, less the 19 known, and everyone once more
    assert int(calls) == 63 - 19 + 1
    whole = value_members(
        np.arange(12.0).reshape(6, 2), lambda _, mean: float(mean.mean() ** 2), [0, 1], empty=0
    )
    np.testing.assert_allclose(json.loads(values), whole.values)


def test_a_cache_belongs_to_data_and_a_model(tmp_path: Path) -> None:
    def valued(model: Any, labels: Any = LABELS, score: Any = accuracy) -> Explanation:
        return value_data(model, score, TRAIN, labels, groups=GROUPS, empty=0, cache=tmp_path)

    first = valued(TREE)
    assert not any("came from the cache" in note for note in first.notes)
    again = valued(TREE)
    np.testing.assert_array_equal(first.values, again.values)
    assert again.notes[-1] == "15 values came from the cache"
    valued(TREE, labels=1 - LABELS)
    valued(DecisionTreeClassifier(max_depth=1))
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(InputError, match=r"the value of all groups is .* fit or score has changed"):
        valued(TREE, score=lambda model: accuracy(model) / 2)


def test_damaged_lines_of_a_cache_are_ignored(tmp_path: Path) -> None:
    def valued() -> Explanation:
        return value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS, empty=0, cache=tmp_path)

    first = valued()
    (file,) = tmp_path.iterdir()
    lines = file.read_bytes().splitlines()
    key = next(iter(json.loads(lines[0])))
    damaged = [b"5", b"[" * 200_000, b'"x"', b"\xff", b"null", json.dumps({key: "x"}).encode()]
    file.write_bytes(b"\n".join([*damaged, *lines[1:]]))
    again = valued()
    np.testing.assert_array_equal(first.values, again.values)
    assert again.notes[-1] == "14 values came from the cache"


def test_a_deadline_keeps_what_is_known(tmp_path: Path, watch: Watch) -> None:
    def slow(_y: Any, mean: Any) -> float:
        watch.now += 0.004
        return float(np.tanh(mean).mean())

    predictions = np.random.default_rng(1).normal(size=(10, 20))
    options: dict[str, Any] = {"empty": 0, "cache": tmp_path}
    with pytest.warns(ShearWarning, match="the deadline of 0.8 s was reached: the game has fewer"):
        cut = value_members(
            predictions, slow, np.zeros(20), budget=1000, deadline=0.8, method="kriging", **options
        )
    assert cut.evaluations < 1000
    with pytest.raises(BudgetError, match="expected enough seconds to explain one game"):
        value_members(predictions[:, :5], slow, np.zeros(5), deadline=1e-6, **options)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": GROUPS[:3]}, "groups: expected 40 labels, one per row, got 3"),
        ({"groups": "source"}, "groups: expected 40 labels, one per row, got 'source'"),
        ({"y": LABELS[:3]}, "y: expected 40 labels, one per row of X, got 3"),
        ({"fit": 3}, "fit: expected a function of rows and labels, or an estimator"),
        ({"score": lambda m: m.tree_.node_count}, "empty: scoring a constant guess failed"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    arguments = {"fit": TREE, "score": accuracy, "X": TRAIN, "y": LABELS, **options}
    with pytest.raises(InputError, match=message):
        value_data(**arguments)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=[pytest.mark.slow, processes])])
def test_a_fit_that_fails_names_its_coalition(n_jobs: int) -> None:
    def fit(rows: Any, labels: Any) -> Any:
        if len(rows) == 20 and rows.index[0] == 10:
            raise ValueError("too few")
        return LogisticRegression().fit(rows, labels)

    with pytest.raises(ModelError, match=r"2 of 4 groups \(b, [cd]\) .*ValueError: too few") as e:
        value_data(fit, accuracy, TRAIN, LABELS, groups=GROUPS, n_jobs=n_jobs)
    assert e.value.coalition.sum() == 2
    with pytest.raises(ModelError, match="score: expected a finite number"):
        value_data(TREE, lambda _: np.nan, TRAIN, LABELS, groups=GROUPS, empty=0)


def test_bad_predictions() -> None:
    with pytest.raises(InputError, match=r"predictions: expected shape \(members, 3\)"):
        value_members(np.zeros((4, 5)), log_loss, [0, 1, 0])


# Games that print as games


def test_a_game_has_names_and_prints_as_a_game() -> None:
    names = [f"member {letter}" for letter in "abcdefghijklmnopqrst"]
    answer = explain_game(
        lambda z: z @ np.arange(20.0) + z.any(axis=1), players=20, feature_names=names
    )
    assert repr(answer) == "Explanation(game of 20 players, method='kriging', 322 evaluations)"
    text = str(answer)
    assert "0 with none, 191 with all" in text.replace(".0", "")
    assert "member t" in text
    assert "10 more players" in text
    assert " row" not in text
    assert "game of 20 players" in answer._repr_html_()
    assert "per row" not in answer._repr_html_()
    assert list(answer.to_frame()["feature"]) == names
    assert answer.mean().interval_words == "Intervals cover the standard errors of the values."
    low, _ = answer.interval()
    np.testing.assert_allclose(answer.mean().lower, low[0])


def test_a_game_is_kept_and_drawn(tmp_path: Path) -> None:
    mpl.use("Agg")
    answer = value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS)
    answer.save(tmp_path / "game.npz")
    assert repr(Explanation.load(tmp_path / "game.npz")).startswith("Explanation(game of 4 groups")
    assert plots.bar(answer).get_title() == "game of 4 groups"


def test_names_of_players_are_checked() -> None:
    for names, message in ((["a"], "expected 2 names"), (["a", "a"], "got 'a' twice")):
        with pytest.raises(InputError, match=f"feature_names: .*{message}"):
            explain_game(lambda z: z.sum(axis=1), players=2, feature_names=names)


def test_progress_counts_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    explain_game(lambda z: z.sum(axis=1), players=6, progress=True)
    assert "64/64" in capsys.readouterr().err
    value_data(TREE, accuracy, TRAIN, LABELS, groups=GROUPS, progress=True)
    assert "16/16" in capsys.readouterr().err


def test_a_game_keeps_its_deadline(watch: Watch) -> None:
    def slow(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        watch.now += 0.002 * len(coalitions)
        return np.asarray(np.sqrt(coalitions.sum(axis=1)))

    with pytest.warns(ShearWarning, match="the deadline of 1 s was reached"):
        answer = explain_game(slow, players=14, budget=8000, deadline=1)
    assert answer.evaluations < 8000
    assert watch.now <= 101.5  # a call takes a part of the time
