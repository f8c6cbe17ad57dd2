"""What reaches the model, and what comes back, is what the user gave, or a note says how it is not."""

import datetime as dt
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from games import Bools, Floats
from peer_library import peer
from shearshap import (
    Explainer,
    Explanation,
    InputError,
    ModelError,
    ShearWarning,
    explain,
    explain_game,
)

SEEDS = range(3)
ROWS = 90  # more than the first block holds

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda columns: pa.table(columns),
}


def texts(frame: Any) -> list[tuple[str, ...]]:
    """Return the cells of a frame as they print."""
    table = nw.from_native(frame, eager_only=True)
    return [tuple(map(str, row)) for row in table.rows()]


def checked(model: Any, background: Any, rows: Any, *, stream: bool = False) -> Explanation:
    """Explain, and check that predictions are the model's own, or that notes count those that are not."""
    explainer = Explainer(model, background)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        answer = Explanation.concat(list(explainer.stream(rows))) if stream else explainer(rows)
    wrong = int((np.abs(answer.predictions - np.asarray(model(rows))) > 1e-6).sum())
    named = [re.search(r"(\d+) of the \d+ rows from row", note) for note in answer.notes]
    assert wrong == sum(int(found[1]) for found in named if found)
    return answer


# Types that change on the way


def in_frame(risky: set[str]) -> Callable[[Any], Floats]:
    """Return a model of frames that looks the cells of the first column up by their text."""
    return lambda frame: np.array([0.5 * (row[0] in risky) + float(row[1]) for row in texts(frame)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("library", list(FRAMES))
def test_codes_that_become_floats_are_counted_in_every_row(library: str, seed: int) -> None:
    """No row of the background, and none of the first rows, shows that the model tells 7 from 7.0."""
    rng = np.random.default_rng(seed)
    zips = rng.integers(100, 120, ROWS)
    rare = rng.choice(np.arange(20, ROWS), 3, replace=False)
    zips[rare] = [7, 8, 7]
    rows = FRAMES[library]({"zip": zips, "age": rng.normal(size=ROWS)})
    train = FRAMES[library]({"zip": [100, 101, 103], "age": [0.1, 0.2, 0.3]})
    model = in_frame({"7", "8"})
    for stream in (False, True):
        answer = checked(model, ("mean", train), rows, stream=stream)
        assert answer.notes
        assert "column 'zip': Int64 becomes Float64" in answer.notes[0]
        assert answer.check_evaluations >= ROWS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint8])
def test_codes_in_arrays_are_counted_in_every_row(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(100, 120, (ROWS, 2)).astype(dtype)
    rows[rng.integers(20, ROWS), 0] = 7
    train = np.array([[100, 101], [101, 101], [103, 101]], dtype=dtype)

    def model(x: Any) -> Floats:
        return np.array([0.5 * (str(row[0]) == "7") + float(row[1]) for row in x])

    for stream in (False, True):
        notes = checked(model, ("mean", train), rows, stream=stream).notes
        assert f"the rows' type {np.dtype(dtype)} becomes float64" in notes[0]


def test_codes_stay_integers_beside_a_background_of_integers() -> None:
    rows = pd.DataFrame({"zip": [100] * 20 + [7], "age": np.arange(21.0)})
    assert checked(in_frame({"7"}), ("mode", rows), rows).notes == ()
    assert checked(in_frame({"7"}), ("mean", rows), rows).notes != ()


def test_rows_of_trees_are_counted_too() -> None:
    """A model whose trees can be read, and whose predictions depend on types in one row."""
    from sklearn.tree import DecisionTreeRegressor

    class Tree(DecisionTreeRegressor):  # type: ignore[misc]
        def predict(self, table: Any, **options: Any) -> Any:
            known = np.asarray(table)
            is_rare = (known[:, 0] == 7) & (known.dtype.kind == "i")
            return super().predict(known, **options) + is_rare

    rows = np.random.default_rng(0).integers(100, 120, (ROWS, 2))
    rows[77, 0] = 7
    tree = Tree(max_depth=3).fit(rows, rows.sum(axis=1))
    with pytest.warns(ShearWarning, match=r"1 of the \d+ rows .*int64 becomes float64"):
        Explainer(tree, ("mean", rows[:3]))(rows)


NULLABLE = pd.array([1, None, 3, 2] * 20 + [7], dtype="Int64")
SECONDS = pd.to_datetime(["2024-01-01", "2024-01-02"] * 40).as_unit("s")
CHANGES: dict[str, tuple[Any, Any, Any]] = {
    # rows, background, and a model that tells the types apart in some rows only
    "nullable integers": (
        {"c": NULLABLE}, {"c": pd.array([2.5], dtype="Float64")},
        lambda frame: np.array([float(str(cell) == "7") for cell in frame["c"]]),
    ),
    "small integers": (
        {"c": np.array([1, 100] * 40, dtype=np.int8)}, {"c": [1000]},
        lambda frame: (frame["c"] + frame["c"].dtype.type(100)).to_numpy() * 1.0,
    ),
    "more categories": (
        {"c": pd.Categorical(["a", "b"] * 40)}, {"c": pd.Categorical(["z"])},
        lambda frame: len(frame["c"].cat.categories) * (frame["c"] == "b").to_numpy() * 1.0,
    ),
    "units of time": (
        {"c": SECONDS}, {"c": pd.to_datetime(["2024-01-01 00:00:00.5"]).as_unit("ms")},
        lambda frame: frame["c"].astype("int64").to_numpy() * 1e-9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(CHANGES))
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_rows_of_other_types_are_all_compared(kind: str) -> None:
    columns, absent, model = CHANGES[kind]
    rows = pd.DataFrame(columns)
    answer = checked(model, pd.DataFrame(absent), rows)
    assert answer.check_evaluations >= len(rows)


def test_mixed_objects_reach_the_model_as_they_are() -> None:
    cells = np.array([1, "1", 1.0, True, None, float("nan"), Decimal(1), dt.date(2024, 1, 1)], dtype=object)  # fmt: skip
    rows = pd.DataFrame({"c": pd.Series(cells, dtype=object)})

    def model(frame: Any) -> Floats:
        return np.array([sum(map(ord, f"{type(cell).__name__}{cell}")) for cell in frame["c"]]) * 1.0  # fmt: skip

    answer = checked(model, rows, rows)
    assert answer.notes == ()
    np.testing.assert_allclose(answer.base_values, model(rows).mean())


def test_a_model_that_fails_on_another_type_is_told_of_it() -> None:
    """It takes integers for the rows that are tried, and no floats for another."""

    def model(x: Any) -> Floats:
        if x.dtype.kind == "f" and (x == 7).any():
            raise IndexError("no integer")
        return np.asarray(x.sum(axis=1))

    with pytest.raises(ModelError, match="the rows' type int64 becomes float64"):
        Explainer(model, ("mean", np.array([[1, 2], [2, 3]])))(np.array([[7, 1], [2, 1]]))


# Negative zeros, and missing values of two kinds


def kinds_of_missing(frame: Any) -> Floats:
    worth = {type(None): 1.0, float: 5.0, str: 100.0}
    return np.array([worth[type(cell)] for cell in frame["c"]])


def objects(*cells: Any) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.Series(cells, dtype=object), "x": np.arange(float(len(cells)))})


def test_none_and_nan_of_a_background_are_two() -> None:
    rows = objects("a", None, float("nan"))
    for cells in ((None, float("nan")), (float("nan"), None), (float("nan"), "b", None)):
        backgrounds: list[Any] = [objects(*cells), [[cell, 0.0] for cell in cells]]
        for background in backgrounds:
            answer = Explainer(kinds_of_missing, background)(rows)
            assert answer.notes == ()
            np.testing.assert_allclose(answer.predictions, kinds_of_missing(rows))
            np.testing.assert_allclose(answer.base_values, kinds_of_missing(objects(*cells)).mean())


# What models and games return


def some_masked(count: int) -> Any:
    return np.ma.masked_array(np.arange(float(count)), [True] + [False] * (count - 1))


REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "masked": (some_masked, "masked values"),
    "complex without imaginary part": (lambda n: np.ones(n) + 0j, "complex128"),
    "complex tensor": (lambda n: torch.ones(n, dtype=torch.complex64), "torch.complex64"),
    "dates": (lambda n: np.full(n, np.datetime64("2024-01-01")), "datetime64"),
    "durations": (lambda n: np.arange(n).astype("timedelta64[s]"), "timedelta64"),
    "pandas dates": (lambda n: pd.Series(pd.to_datetime(["2024"] * n)), "datetime64"),
    "digits in a list": (lambda n: ["1"] * n, "<U1 such as 1"),
    "bytes": (lambda n: np.arange(n).astype(bytes), "such as b'0'"),
    "digits among objects": (lambda n: np.array([1.0] * (n - 1) + ["2"], dtype=object), "object such as 2"),
    "decimals": (lambda n: [Decimal(1)] * n, "object such as 1"),
    "none": (lambda n: [1.0] * (n - 1) + [None], "object such as None"),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_is_no_number_is_refused_from_models_and_games(kind: str) -> None:
    answer, message = REFUSED[kind]
    with pytest.raises(ModelError, match=f"^the model returned .*{message}"):
        explain(lambda x: answer(len(x)), np.ones((4, 3)), background=np.zeros(3))
    with pytest.raises(ModelError, match=f"^the game returned .*{message}"):
        explain_game(lambda coalitions: answer(len(coalitions)), players=3)


ACCEPTED: dict[str, Callable[[Any], Any]] = {
    "truth values": lambda total: total > 1,
    "integers": lambda total: total.astype(int),
    "unsigned": lambda total: total.astype(np.uint8),
    "half precision": lambda total: total.astype(np.float16),
    "long doubles": lambda total: total.astype(np.longdouble),
    "nothing masked": lambda total: np.ma.masked_array(total, np.zeros(len(total), dtype=bool)),
    "tensor": lambda total: torch.tensor(total),
    "with gradient": lambda total: torch.tensor(total, dtype=torch.float64, requires_grad=True),
    "list": lambda total: total.tolist(),
    "series": lambda total: pd.Series(total),
    "nullable": lambda total: pd.Series(total).astype("Int64"),
    "polars": lambda total: pl.Series(total),
    "objects that are numbers": lambda total: total.astype(object),
}


@pytest.mark.parametrize("kind", list(ACCEPTED))
def test_numbers_of_every_kind_are_taken_from_models_and_games(kind: str) -> None:
    answer = ACCEPTED[kind]
    expected = [1 / 3] * 3 if kind == "truth values" else [1.0] * 3
    of_model = explain(
        lambda x: answer(x.sum(axis=1)), np.ones((2, 3)), background=np.zeros(3), method="exact"
    )

    def game(coalitions: Bools) -> Any:
        return answer(coalitions.sum(axis=1) * 1.0)

    of_game = explain_game(game, players=3, method="exact")
    np.testing.assert_allclose(of_model.values, [expected] * 2, atol=1e-12)
    np.testing.assert_allclose(of_game.values, [expected], atol=1e-12)


# Weights of a background


class Weighted(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", ["shear", "leverage"])
def test_a_weighted_background_that_is_cut_is_that_of_its_rows_repeated(
    method: str, seed: int
) -> None:
    shap = peer("shap")
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 5))
    counts = rng.permutation([1, 2, 3, 1, 4, 5])
    summary = shap.kmeans(centres, 6)
    summary.data = centres
    summary.weights = counts / counts.sum()
    repeated = np.repeat(centres, counts, axis=0)
    rows = torch.tensor(rng.normal(size=(3, 5)))
    model = Weighted(seed)
    cut = Explainer(model, summary, method=method, batch_size=5)(
        rows, budget=24 * len(centres), interactions=True
    )
    whole = Explainer(model, repeated, method=method)(
        rows, budget=24 * len(repeated), interactions=True
    )
    for name in ("base_values", "values", "interactions", "cross_contribution"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), atol=1e-10)


def test_a_background_row_without_weight_does_not_count() -> None:
    shap = peer("shap")
    centres = np.random.default_rng(0).normal(size=(4, 5))
    summary = shap.kmeans(centres, 4)
    summary.data = centres
    summary.weights = np.array([0, 0, 0.25, 0.75])
    repeated = centres[[2, 3, 3, 3]]
    model = Weighted(0)
    rows = torch.zeros(2, 5, dtype=torch.float64)
    cut = Explainer(model, summary, method="shear", batch_size=5)(rows, budget=4 * 32)
    whole = Explainer(model, repeated, method="shear")(rows, budget=4 * 32)
    np.testing.assert_allclose(cut.values, whole.values, atol=1e-10)


# Messages


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_cuda_that_is_not_there_is_said(device: Any) -> None:
    with pytest.raises(InputError, match=r"^device: got 'cuda.*CUDA is not available"):
        Explainer(nn.Linear(3, 1), torch.zeros(1, 3), device=device)(torch.ones(1, 3))
