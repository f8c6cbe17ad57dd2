"""Ground truth: exact where it can be, honest where it cannot, never stale, never computed twice."""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from made_criteo import criteo_file
from shearshap import Explanation, InputError, explain
from shearshap_lab import truth
from shearshap_lab.data import Dataset, load
from shearshap_lab.networks import Trained, train
from shearshap_lab.truth import Truth, ground_truth

PLAYERS, ROWS = 5, 7


class Counted:
    """`explain`, which counts its calls and may fail after some."""

    def __init__(self, fail_after: int = 10**9) -> None:
        self.calls, self.fail_after = 0, fail_after

    def __call__(self, *args: Any, **options: Any) -> Explanation:
        if self.calls == self.fail_after:
            raise KeyboardInterrupt
        self.calls += 1
        return explain(*args, **options)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(truth, "explain", counted)
    return counted


@pytest.fixture(scope="module")
def german() -> Dataset:
    """German credit, its 20 features joined into few players."""
    dataset = load("german")
    columns = np.array_split(np.arange(dataset.inputs.shape[1]), PLAYERS)
    return replace(dataset, groups={f"player {n}": part.tolist() for n, part in enumerate(columns)})


@pytest.fixture(scope="module")
def mlp(german: Dataset) -> Trained:
    return train(german, steps=30, learning_rate=0.01)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load("criteo", path=criteo_file(tmp_path_factory.mktemp("criteo") / "train.txt", 500))


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows a piece."""
    monkeypatch.setattr(truth, "MAX_EVALUATIONS", 2 << PLAYERS)


def pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("truth-*/*"))


def same(one: Truth, other: Truth) -> None:
    for name in (
        "values",
        "base_values",
        "predictions",
        "standard_errors",
        "rows",
        "evaluations",
        "exact",
        "key",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# Exact


@pytest.mark.usefixtures("_small_pieces")
def test_exact_values_are_those_of_explain(mlp: Trained, german: Dataset, tmp_path: Path) -> None:
    found = ground_truth(mlp, german, rows=ROWS, folder=tmp_path)
    wanted = explain(
        mlp.network, german.inputs[german.test[:ROWS]], reference=german.background, groups=german.groups,
        budget=1 << PLAYERS, method="exact", output=1,
    )  # fmt: skip
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, wanted.base_values, atol=1e-6)
    np.testing.assert_allclose(found.predictions, wanted.predictions, atol=1e-6)
    np.testing.assert_array_equal(found.rows, german.test[:ROWS])
    assert (found.exact, found.standard_errors) == (True, None)
    assert (found.error, found.absolute_error) == (0, 0)
    assert found.evaluations == 1 << PLAYERS


@pytest.mark.usefixtures("_small_pieces")
def test_nothing_is_computed_twice(
    mlp: Trained, german: Dataset, tmp_path: Path, counted: Counted
) -> None:
    first = ground_truth(mlp, german, rows=ROWS, folder=tmp_path)
    assert counted.calls == len(pieces(tmp_path)) == 4
    counted.fail_after = counted.calls
    same(ground_truth(mlp, german, rows=ROWS, folder=tmp_path), first)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("finished", [0, 3])
def test_a_run_that_was_stopped_goes_on(
    mlp: Trained, german: Dataset, tmp_path: Path, counted: Counted, finished: int
) -> None:
    counted.fail_after = finished
    with pytest.raises(KeyboardInterrupt):
        ground_truth(mlp, german, rows=ROWS, folder=tmp_path)
    assert len(pieces(tmp_path)) == finished
    counted.calls, counted.fail_after = 0, 100
    resumed = ground_truth(mlp, german, rows=ROWS, folder=tmp_path)
    assert counted.calls == 4 - finished
    same(resumed, ground_truth(mlp, german, rows=ROWS, folder=tmp_path / "fresh"))


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("damage", ["empty", "flipped", "other rows", "pickle"])
def test_a_damaged_piece_is_computed_again(
    mlp: Trained, german: Dataset, tmp_path: Path, counted: Counted, damage: str
) -> None:
    first = ground_truth(mlp, german, rows=ROWS, folder=tmp_path)
    path = pieces(tmp_path)[1]
    content = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "flipped":
        spoiled = bytearray(content)
        spoiled[content.index(first.values[2].tobytes())] ^= 255
        path.write_bytes(spoiled)
    elif damage == "other rows":
        path.write_bytes(pieces(tmp_path)[3].read_bytes())
    else:
        with path.open("wb") as file:
            np.savez(file, values=np.array([{}, {}], dtype=object))
    counted.calls = 0
    same(ground_truth(mlp, german, rows=ROWS, folder=tmp_path), first)
    assert counted.calls == 1
    assert path.read_bytes() == content


def test_the_key_covers_all_that_the_values_depend_on(
    mlp: Trained, german: Dataset, tmp_path: Path
) -> None:
    def key(
        trained: Trained = mlp, dataset: Dataset = german, rows: int = 2, output: int = 1
    ) -> str:
        return ground_truth(trained, dataset, rows=rows, output=output, folder=tmp_path).key

    heavier = copy.deepcopy(mlp.network)
    with torch.no_grad():
        next(heavier.parameters())[0, 0] += 1e-3
    other_act = train(german, steps=1, activation="relu")
    other_act.network.load_state_dict(mlp.network.state_dict())
    inputs = german.inputs.copy()
    inputs[german.test[1], 0] += 1
    names = list(german.groups)
    regrouped = dict(zip(names, reversed(german.groups.values()), strict=True))
    keys = [
        key(),
        key(replace(mlp, network=heavier)),
        key(other_act),
        key(rows=3),
        key(dataset=replace(german, inputs=inputs)),
        key(dataset=replace(german, background=german.background + 1)),
        key(dataset=replace(german, groups=regrouped)),
        key(output=0),
    ]
    assert len(set(keys)) == len(keys)
    assert key(copy.deepcopy(mlp)) == keys[0]
    assert re.fullmatch("[0-9a-f]{16}", keys[0])
    assert {path.parent.name for path in pieces(tmp_path)} == {f"truth-{one}" for one in keys}


# Estimated


def test_many_players_are_estimated_and_never_called_exact(
    made: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth, "ESTIMATE_BUDGET", 2 + 2 * 38 * 50)
    deepfm = train(made, steps=30, learning_rate=3e-3)
    found = ground_truth(deepfm, made, rows=4, folder=tmp_path)
    assert not found.exact
    assert found.standard_errors is not None
    assert found.values.shape == found.standard_errors.shape == (4, 39)
    assert 2000 < found.evaluations <= 2 + 2 * 38 * 50
    row_errors = [sum(np.sqrt(2 / np.pi) * error for error in row) for row in found.standard_errors]
    assert found.absolute_error == pytest.approx(np.mean(row_errors))
    size = np.abs(found.values).mean()
    assert found.error == pytest.approx(np.mean(row_errors) / 39 / size)


# Inputs


def test_what_makes_no_sense_is_refused(
    mlp: Trained, german: Dataset, made: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="rows: expected a positive number of test rows, got 0"):
        ground_truth(mlp, german, rows=0, folder=tmp_path)
    with pytest.raises(InputError, match="output: there is no output 2; the model has 2"):
        ground_truth(mlp, german, output=2, folder=tmp_path)
    message = "expected the data that the network was trained on, 'german' with seed 0; got Dataset"
    with pytest.raises(InputError, match=re.escape(message)):
        ground_truth(mlp, made, folder=tmp_path)
    assert pieces(tmp_path) == []
