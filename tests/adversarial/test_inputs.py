"""What reaches the model, and what comes back, is what the user gave, or a note says how it is not."""

import datetime as dt
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
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


def test_truth_values_that_become_floats_are_noted() -> None:
    rows = pd.DataFrame({"c": [True, False]})

    def model(frame: Any) -> Floats:
        return frame["c"].to_numpy() * 1.0 + (frame["c"].dtype == bool)  # type: ignore[no-any-return]

    notes = checked(model, pd.DataFrame({"c": [0.5]}), rows).notes
    assert "column 'c': Boolean becomes Float64" in notes[0]


KEPT: dict[str, tuple[Any, Any]] = {
    "codes of text": ({"c": ["007", "08", "7"]}, {"c": ["007"]}),
    "dates": ({"c": pl.Series([dt.date(2024, 1, day) for day in (1, 2, 3)])}, {"c": [dt.date(2023, 5, 6)]}),
    "large integers": ({"c": [2**53 + 1, 2**62 + 1, 3]}, {"c": [2**53 + 3]}),
    "truth values": ({"c": [True, False, True]}, {"c": [False]}),
    "single precision": ({"c": pl.Series([0.1, 0.2, 0.3], dtype=pl.Float32)}, {"c": [0.5]}),
}  # fmt: skip


@pytest.mark.parametrize("library", list(FRAMES))
@pytest.mark.parametrize("kind", list(KEPT))
def test_cells_reach_the_model_as_they_are(library: str, kind: str) -> None:
    rows, background = (
        {name: column.to_list() if isinstance(column, pl.Series) and library != "polars" else column}
        for given in KEPT[kind]
        for name, column in given.items()
    )  # fmt: skip
    make = FRAMES[library]

    def model(frame: Any) -> Floats:
        return np.array([float(sum(map(ord, row[0]))) for row in texts(frame)])

    answer = checked(model, make(background), make(rows))
    assert answer.notes == ()
    if kind != "single precision":  # the background takes the precision of the rows
        np.testing.assert_allclose(answer.base_values, model(make(background))[0])


def test_mixed_objects_reach_the_model_as_they_are() -> None:
    cells = np.array([1, "1", 1.0, True, None, float("nan"), Decimal(1), dt.date(2024, 1, 1)], dtype=object)  # fmt: skip
    rows = pd.DataFrame({"c": pd.Series(cells, dtype=object)})

    def model(frame: Any) -> Floats:
        return np.array([sum(map(ord, f"{type(cell).__name__}{cell}")) for cell in frame["c"]]) * 1.0  # fmt: skip

    answer = checked(model, rows, rows)
    assert answer.notes == ()
    np.testing.assert_allclose(answer.base_values, model(rows).mean())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_stay_as_they_are_cost_no_more(dtype: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(dtype)
    for model, given in ((lambda x: x.sum(axis=1), rows), (nn.Linear(3, 1), torch.tensor(rows))):
        answer = Explainer(model, ("mean", given))(given)
        assert answer.check_evaluations == 4


def test_a_model_that_fails_on_another_type_is_told_of_it() -> None:
    """It takes integers for the rows that are tried, and no floats for another."""

    def model(x: Any) -> Floats:
        if x.dtype.kind == "f" and (x == 7).any():
            raise IndexError("no integer")
        return np.asarray(x.sum(axis=1))

    with pytest.raises(ModelError, match="the rows' type int64 becomes float64"):
        Explainer(model, ("mean", np.array([[1, 2], [2, 3]])))(np.array([[7, 1], [2, 1]]))


# Negative zeros, and missing values of two kinds


def signs(x: Any) -> Floats:
    return np.asarray(np.copysign(1.0, x[:, 0]) + 10 * np.copysign(1.0, x[:, 1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_negative_zeros_of_rows_and_background_reach_the_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    zeros = np.array([0.0, -0.0, 1.0, -1.0])
    rows = rng.choice(zeros, (ROWS, 3))
    for count in (1, 4):
        background = rng.choice(zeros, (count, 3))
        expected = signs(background).mean()
        frame = pd.DataFrame(rows, columns=list("abc"))
        absent = pd.DataFrame(background, columns=list("abc"))
        answers = [Explainer(signs, background)(rows)]
        answers.append(Explainer(lambda x: signs(x.to_numpy()), absent)(frame))
        by_polars = Explainer(lambda x: signs(x.to_numpy()), pl.from_pandas(absent))
        answers.append(by_polars(pl.from_pandas(frame)))
        by_arrow = Explainer(lambda x: signs(np.asarray(x)), pa.Table.from_pandas(absent))
        answers.append(by_arrow(pa.Table.from_pandas(frame)))
        for answer in answers:
            assert answer.notes == ()
            np.testing.assert_allclose(answer.base_values, expected)
            np.testing.assert_allclose(answer.predictions, signs(rows))
            first = np.copysign(1.0, rows[:, 0]) - np.copysign(1.0, background[:, 0]).mean()
            np.testing.assert_allclose(answer.values[:, 0], first, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_negative_zeros_reach_a_module(dtype: torch.dtype) -> None:
    class Signs(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.copysign(torch.ones_like(x), x).sum(dim=1)

    answer = Explainer(Signs(), torch.tensor([[-0.0, 0.0]], dtype=dtype))(
        torch.tensor([[0.0, 1.0], [1.0, -0.0]], dtype=dtype)
    )
    assert answer.base_values.tolist() == [0, 0]
    assert answer.values.tolist() == [[2, 0], [2, -2]]


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


def test_none_that_the_type_of_the_rows_does_not_have_is_noted() -> None:
    rows = pd.DataFrame({"c": pd.Series(["a", "b"], dtype="str"), "x": [1.0, 2.0]})
    with pytest.warns(ShearWarning, match="column 'c' holds None, which becomes another missing"):
        answer = Explainer(kinds_of_missing, objects(None, float("nan")))(rows)
    assert len(answer.notes) == 1


# What models and games return


def some_masked(count: int) -> Any:
    return np.ma.masked_array(np.arange(float(count)), [True] + [False] * (count - 1))


REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "masked": (some_masked, "returned masked values"),
    "masked in a list": (lambda n: [np.ma.masked] + [1.0] * (n - 1), "returned masked values"),
    "masked integers": (lambda n: np.ma.masked_equal(np.zeros(n, dtype=int), 0), "masked values"),
    "complex": (lambda n: np.arange(n) * 1j, "returned complex numbers"),
    "complex without imaginary part": (lambda n: np.ones(n) + 0j, "returned complex numbers"),
    "complex tensor": (lambda n: torch.ones(n, dtype=torch.complex64), "complex numbers"),
    "dates": (lambda n: np.full(n, np.datetime64("2024-01-01")), "returned dates or times"),
    "durations": (lambda n: np.arange(n).astype("timedelta64[s]"), "returned dates or times"),
    "pandas dates": (lambda n: pd.Series(pd.to_datetime(["2024"] * n)), "dates or times"),
    "digits": (lambda n: np.arange(n).astype(str), "returned words such as '0'"),
    "digits in a list": (lambda n: ["1"] * n, "returned words such as '1'"),
    "bytes": (lambda n: np.arange(n).astype(bytes), "returned words"),
    "digits among objects": (lambda n: np.array([1.0] * (n - 1) + ["2"], dtype=object), "words such as '2'"),
    "decimals": (lambda n: [Decimal(1)] * n, "returned objects such as Decimal"),
    "fractions": (lambda n: np.array([Fraction(1, 2)] * n), "returned objects such as Fraction"),
    "complex objects": (lambda n: np.array([1j] * n, dtype=object), "returned objects such as 1j"),
    "none": (lambda n: [1.0] * (n - 1) + [None], "returned objects such as None"),
    "dates of Python": (lambda n: [dt.date(2024, 1, 1)] * n, "returned objects such as"),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_is_no_number_is_refused_from_models_and_games(kind: str) -> None:
    answer, message = REFUSED[kind]
    with pytest.raises(ModelError, match=f"^the model .*{message}|^the model {message}"):
        explain(lambda x: answer(len(x)), np.ones((4, 3)), background=np.zeros(3))
    with pytest.raises(ModelError, match=f"^the game .*{message}|^the game {message}"):
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


def test_a_game_may_use_its_memory_again() -> None:
    memory = np.empty(8)

    def game(coalitions: Bools) -> Floats:
        memory[: len(coalitions)] = coalitions.sum(axis=1)
        return memory[: len(coalitions)]

    np.testing.assert_allclose(explain_game(game, players=3, method="exact").values, 1)


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
    shap = pytest.importorskip("shap")
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
    shap = pytest.importorskip("shap")
    centres = np.random.default_rng(0).normal(size=(4, 5))
    summary = shap.kmeans(centres, 4)
    summary.data = centres
    summary.weights = np.array([0, 0, 0.25, 0.75])
    repeated = centres[[2, 3, 3, 3]]
    model = Weighted(0)
    rows = torch.zeros(2, 5, dtype=torch.float64)
    cut = Explainer(model, summary, method="shear", batch_size=5)(rows, budget=4 * 24)
    whole = Explainer(model, repeated, method="shear")(rows, budget=4 * 24)
    np.testing.assert_allclose(cut.values, whole.values, atol=1e-10)


# Messages


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_softmax_over_the_rows_depends_on_the_batch(count: int, rows: int) -> None:
    def model(x: Any) -> Floats:
        powers = np.exp(x.sum(axis=1))
        return np.asarray(powers / powers.sum())

    rng = np.random.default_rng(count)
    with pytest.warns(ShearWarning, match="depends on the rows beside it in its batch"):
        Explainer(model, rng.normal(size=(count, 3)))(rng.normal(size=(rows, 3)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_cuda_that_is_not_there_is_said(device: Any) -> None:
    with pytest.raises(InputError, match=r"^device: got 'cuda.*CUDA is not available"):
        Explainer(nn.Linear(3, 1), torch.zeros(1, 3), device=device)(torch.ones(1, 3))


@pytest.mark.parametrize("scale", ["probability", "log-odds"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_percentages_are_not_taken_for_margins(scale: Any, dtype: torch.dtype) -> None:
    class Percent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 3, dtype=dtype)

        def forward(self, x: Tensor) -> Tensor:
            return 100 * torch.softmax(self.layer(x), dim=1)

    rows = torch.randn(5, 4, dtype=dtype)
    with pytest.raises(InputError, match="sum to 100, as percentages do"):
        Explainer(Percent(), rows, scale=scale)(rows)
    assert Explainer(Percent(), rows)(rows).notes == ()
    Explainer(Percent(), rows, scale=scale, returns="margin")(rows)
