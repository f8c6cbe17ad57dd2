"""What may be given, and the errors for what may not: before any work, saying what was expected and what came."""

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import nn

from games import Floats, network
from shearshap import (
    BudgetError,
    InputError,
    MethodError,
    ModelError,
    ShearError,
    explain,
    explain_game,
)
from shearshap.data import encode
from shearshap.models import AdaptedModel

ROWS = np.random.default_rng(0).normal(size=(5, 4))
ZEROS = np.zeros(4)


class Spy(nn.Module):
    """Counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.asked += 1
        return x.sum(dim=1)


def spoiled(row: int, column: int, value: float) -> Floats:
    rows = ROWS.copy()
    rows[row, column] = value
    return rows


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rows": spoiled(3, 1, np.nan)}, InputError, "rows: row 3 has nan in column 1 (1 of 5 rows are not finite)"),
        ({"rows": spoiled(2, 0, -np.inf)}, InputError, "rows: row 2 has -inf in column 0"),
        ({"rows": ROWS[0]}, InputError, "rows: expected shape (r, d), got (4,); for a single row pass rows[None]"),
        ({"rows": ROWS[:, :0]}, InputError, "rows: expected rows and columns, got an array of shape (5, 0)"),
        ({"rows": [["a", "b", "c", "d"]]}, InputError, "rows: expected numbers, got an array of <U1"),
        ({"rows": [[1.0, 2.0], [3.0]]}, InputError, "rows: expected a numeric array, got ragged lists"),
        ({"rows": ROWS[:, :3]}, InputError, "background: expected one row of shape (3,) or background rows of shape (b, 3), got shape (4,)"),
        ({"reference": np.zeros(5)}, InputError, "background: expected one row of shape (4,) or background rows of shape (b, 4), got shape (5,)"),
        ({"reference": np.zeros((0, 4))}, InputError, "background: expected one row of shape (4,)"),
        ({"reference": np.full(4, np.nan)}, InputError, "background: row 0 has nan in column 0"),
        ({"reference": "average"}, InputError, "background: expected rows, such as X_train, or one of ('sample', X_train, 100), ('all', X_train), ('kmeans', X_train, 20), ('mean', X_train), ('median', X_train), ('mode', X_train); got 'average'"),
        ({"reference": ("average", ROWS)}, InputError, "background: expected rows, such as X_train, or one of"),
        ({"reference": "mean"}, InputError, "background: 'mean' needs rows; pass ('mean', X_train)"),
        ({"reference": ("sample", ROWS, 0)}, InputError, "background: expected ('sample', X_train, 100), got 0 rows"),
        ({"reference": ("kmeans", ROWS, 2.5)}, InputError, "background: expected ('kmeans', X_train, 20), got 2.5 rows"),
        ({"reference": ("all", ROWS, 3)}, InputError, "background: expected ('all', X_train), got a tuple of 3"),
        ({"reference": ("mean", np.zeros((3, 5)))}, InputError, "background: expected one row of shape (4,)"),
        ({"groups": [[0, 1], [1, 2, 3]]}, InputError, "groups overlap: input column 1 is in groups [0, 1]"),
        ({"groups": [[0, 1], [3]]}, InputError, "groups are incomplete: input columns [2] are not in any group"),
        ({"groups": [[0, 1], [2, 3, 4]]}, InputError, "groups: there is no input column 4; the rows have columns 0 to 3"),
        ({"groups": [[0, 1], []]}, InputError, "groups: group 1 needs a list of input columns (integers), got []"),
        ({"groups": [[0, 1], ["c", "d"]]}, InputError, "groups: there is no column 'c'; the rows' columns have no names; use numbers"),
        ({"groups": np.array([0, 1, 1])}, InputError, "groups: expected lists of columns or an integer mask of shape (4,)"),
        ({"groups": np.array([0.5, 1, 1, 2])}, InputError, "got an array of float64 of shape (4,)"),
        ({"groups": np.array([0, 1, 1, np.nan])}, InputError, "got an array of float64 of shape (4,)"),
        ({"groups": np.array(list("aabb"))}, InputError, "got an array of <U1 of shape (4,)"),
        ({"groups": np.array([-1, 0, 1, 2])}, InputError, "groups: expected a mask with features numbered from 0 or 1, got -1 to 2"),
        ({"budget": 12.5}, BudgetError, "budget: "),
        ({"budget": 15, "method": "exact"}, BudgetError, "exact needs at least 16 evaluations"),
        ({"budget": 31, "method": "exact", "reference": np.zeros((3, 4))}, BudgetError, "exact needs at least 48 evaluations"),
        ({"method": "sheer"}, MethodError, "there is no method 'sheer'; did you mean 'shear'?"),
        ({"output": 1.5}, InputError, "output: expected a class's index or name, several, or a function of the model's output; got 1.5"),
        ({"output": [0, 1.5]}, InputError, "output: expected a class's index or name"),
        ({"output": []}, InputError, "output: expected a class's index or name"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_work(
    options: dict[str, Any], error: type[ShearError], message: str
) -> None:
    spy = Spy()
    arguments = {"rows": ROWS, "reference": ZEROS, "budget": 16, **options}
    with pytest.raises(error, match=re.escape(message)) as caught:
        explain(spy, arguments.pop("rows"), **arguments)
    assert isinstance(caught.value, ShearError)
    assert spy.asked == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: np.where(x[:, 0] == 0, np.nan, 1.0), "the model returned nan for row 0 with 0 of 4 features present"),
        (lambda x: np.where((x != 0).sum(axis=1) == 3, np.inf, 1.0), "with 3 of 4 features present"),
        (lambda x: x @ np.ones(5), "the model failed on inputs of shape (10, 4):"),
    ],
)  # fmt: skip
def test_bad_models_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)):
        explain(model, ROWS, reference=ZEROS, budget=16)


def test_a_bad_row_is_named_by_its_place_in_the_whole() -> None:
    rows = np.ones((9, 3))
    rows[7] = 2
    with pytest.raises(ModelError, match="for row 7 with 3 of 3 features present"):
        explain(
            lambda x: np.where(x.sum(axis=1) == 6, np.nan, 1.0),
            rows,
            reference=np.zeros(3),
            budget=8,
        )


@pytest.mark.parametrize("huge", [1e39, 3e38])
def test_numbers_too_large_for_the_model_are_refused(huge: float) -> None:
    with pytest.raises(
        InputError, match=r"some numbers are too large for the model's torch.float32"
    ):
        explain(network(4).float(), np.full((2, 4), huge), reference=-np.full(4, huge), budget=16)


def test_the_default_device_changes_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    net = network(8)
    usual = explain(net, rows, reference=np.zeros(8), budget=60).values
    torch.set_default_device("meta")
    try:
        odd = explain(net, rows, reference=np.zeros(8), budget=60).values
    finally:
        torch.set_default_device(None)
    np.testing.assert_allclose(odd, usual)


def test_output_out_of_range() -> None:
    with pytest.raises(InputError, match=r"output: there is no output 2; the model has 2: 0 to 1"):
        explain(network(4), ROWS, reference=ZEROS, budget=16, output=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"value": 3}, InputError, "value: "),
        ({"players": 0}, InputError, "players: "),
        ({"value": lambda z: z[:2, 0] * 1.0}, ModelError, "the game returned shape (2,) for 6 coalitions"),
        ({"value": lambda z: z[:, 0] * np.nan}, ModelError, "the game returned nan for a coalition with 0 of 3 players"),
    ],
)  # fmt: skip
def test_bad_games_are_refused(
    options: dict[str, Any], error: type[ShearError], message: str
) -> None:
    arguments = {"value": lambda z: z.sum(axis=1), "players": 3, "budget": 8, **options}
    with pytest.raises(error, match=re.escape(message)):
        explain_game(arguments.pop("value"), **arguments)


# What may be given


def test_references() -> None:
    """A row, background rows (the mean of values, not the value at the mean), and statistics of both."""
    net, background = network(4, outputs=1), np.random.default_rng(1).normal(size=(6, 4))

    def base(reference: Any) -> float:
        return float(explain(net, ROWS, reference=reference, budget=16 * 6).base_values[0])

    def at(row: Floats) -> float:
        return float(net(torch.tensor(row)[None]).detach())

    assert base(ZEROS) == pytest.approx(at(ZEROS))
    assert base(background) == pytest.approx(np.mean([at(row) for row in background]))
    assert base(("mean", background)) == pytest.approx(at(background.mean(axis=0)))
    assert base(("median", background)) == pytest.approx(at(np.median(background, axis=0)))
    assert base(torch.tensor(background)) == pytest.approx(base(background))
    rows = np.array([[0.0, 1, 2, 3], [0, 1, 5, 3], [0, 2, 5, 3]])
    assert base(("mode", rows)) == pytest.approx(at(np.array([0.0, 1, 5, 3])))


def test_the_mode_of_a_one_hot_block_is_a_category() -> None:
    """Column by column, the mode of three categories at 40, 35 and 25 % would be no category at all."""
    codes = np.repeat([0, 1, 2], [40, 35, 25])
    rows = np.column_stack((np.eye(3)[codes], np.arange(100) % 7 == 0)).astype(float)
    seen: list[Floats] = []

    def model(x: Floats) -> Floats:
        seen.append(x)
        return np.asarray(x.sum(axis=1))

    explain(model, rows, reference=("mode", rows), groups=[[0, 1, 2], [3]], budget=4)
    assert seen[0][0].tolist() == [1, 0, 0, 0]


def test_a_number_is_the_background_of_every_input() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    for number in (1, 1.0, np.float32(1), np.array(1.0), torch.tensor(1.0)):
        answer = explain(lambda x: x.sum(axis=1), rows, reference=number, budget=8)
        np.testing.assert_allclose(answer.values, rows - 1, atol=1e-12)
    whole = explain(lambda x: 10 // (x.sum(axis=1) + 1), rows.astype(int), reference=0, budget=8)
    assert whole.base_values.tolist() == [10, 10]
    several = explain(
        lambda x, y: x.sum(axis=1) + y[:, 0], (rows, rows[:, :1]), reference=1, budget=16
    )
    np.testing.assert_allclose(several.values, np.column_stack((rows, rows[:, 0])) - 1, atol=1e-12)
    with pytest.raises(InputError, match="row 0 has nan in column 0"):
        explain(lambda x: x.sum(axis=1), rows, reference=np.nan, budget=8)


def test_outputs() -> None:
    net = network(4, outputs=3)
    every = explain(net, ROWS, reference=ZEROS, budget=16)
    assert every.values.shape == (5, 4, 3)
    assert every.predictions.shape == every.base_values.shape == every.gap.shape == (5, 3)
    one = explain(net, ROWS, reference=ZEROS, budget=16, output=-1)
    assert one.values.shape == (5, 4)
    np.testing.assert_allclose(one.values, every.values[:, :, 2])
    two = explain(net, ROWS, reference=ZEROS, budget=16, output=[2, 0])
    np.testing.assert_allclose(two.values, every.values[:, :, [2, 0]])
    margin = explain(
        net, ROWS, reference=ZEROS, budget=16, output=lambda logits: logits[:, 1] - logits[:, 0]
    )
    np.testing.assert_allclose(
        margin.values, every.values[:, :, 1] - every.values[:, :, 0], atol=1e-12
    )
    assert explain(network(4, outputs=1), ROWS, reference=ZEROS, budget=16).values.shape == (5, 4)
    second: Any = np.int64(1)
    assert explain(lambda x: x, ROWS, reference=ZEROS, budget=16, output=second).values.shape == (
        5,
        4,
    )


# What holds no numbers


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ma.masked_array(ROWS, ROWS > 1), "masked entries are not supported; fill them in, as in rows.filled(0)"),
        (ROWS * 1j, "expected numbers, got an array of complex128; pass a frame, or encode"),
        ([["1", "2", "3", "4"]] * 2, "expected numbers, got an array of <U1"),
        (np.array([["1", 2, 3.0, None]] * 2, dtype=object), "expected numbers, got an array of object"),
        (np.array([[[1], 2, 3.0, 4]] * 2, dtype=object), "expected numbers, got an array of object"),
        (ROWS.astype("datetime64[s]"), "got an array of datetime64[s]; pass a frame"),
        (torch.tensor(ROWS).to_sparse(), "expected a dense tensor of real numbers, got one of torch.float64 (torch.sparse_coo"),
        (torch.tensor(ROWS) * 1j, "got one of torch.complex128"),
        (torch.empty(5, 4, device="meta"), "(torch.strided, on meta)"),
        (torch.nested.as_nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "torch.jagged"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["rows", "reference", "statistic", "part"])
def test_what_holds_no_real_numbers_is_refused(bad: Any, message: str, place: str) -> None:
    spy = Spy()
    rows, reference = {
        "rows": (bad, ZEROS),
        "reference": (ROWS, bad),
        "statistic": (ROWS, ("mean", bad)),
        "part": ((bad, bad), 0),
    }[place]
    with pytest.raises(InputError, match=re.escape(message)):
        explain(spy, rows, reference=reference, budget=16)
    assert spy.asked == 0


def test_a_series_is_one_row_of_a_frame() -> None:
    frame = pd.DataFrame(
        {"a": [1.5, 2.5], "b": pd.Categorical(["x", "y"]), "c": [True, False], "d": [3, 4]},
        index=["first", "second"],
    )

    def model(given: pd.DataFrame) -> Any:
        assert given.dtypes.equals(frame.dtypes)
        return given["a"] * given["b"].cat.codes + given["c"] + given["d"]

    for background in (frame, ("all", frame), ("sample", frame, 1)):
        one = explain(model, frame.iloc[1], background=background, drop_null=False)
        whole = explain(model, frame[1:], background=background, drop_null=False)
        np.testing.assert_allclose(one.values, whole.values)
        assert one.index.tolist() == ["second"]


def test_a_column_is_no_row() -> None:
    with pytest.raises(InputError, match="expected a table, got a Series"):
        explain(lambda frame: frame["a"], pl.Series("a", [1.0, 2.0]), reference=0)


# Several inputs


@pytest.mark.parametrize("kind", [torch.int64, torch.int16, torch.uint8, torch.uint64, torch.bool])
def test_integers_of_every_type_are_mixed_exactly_beside_floats(kind: torch.dtype) -> None:
    large = 1 if kind == torch.bool else min(torch.iinfo(kind).max, 1 << 53)
    ids = torch.tensor([[large, large - 1], [large - 1, 1]], dtype=kind)
    numbers = torch.tensor([[0.5], [1.5]], dtype=torch.bfloat16)
    absent: Any = (torch.zeros(1), torch.zeros(2, dtype=kind))
    model = AdaptedModel(lambda x: x, takes_tensors=True)

    inputs = encode((numbers, ids), absent, None, model)
    assert not inputs.smooth
    present = torch.tensor([[True, True, False], [False, True, True]])
    mixed = torch.where(present, inputs.rows, inputs.background)
    kept_numbers, kept_ids = inputs.decode(mixed)
    assert kept_ids.dtype == kind
    assert kept_ids.tolist() == [[ids[0, 0].item(), 0], ids[1].tolist()]
    assert kept_numbers.dtype == torch.bfloat16
    assert kept_numbers.tolist() == [[0.5], [0.0]]


def test_several_floating_inputs_are_differentiated() -> None:
    net = network(4)
    whole = explain(net, ROWS, reference=ZEROS, budget=18, method="shear")
    derivatives: list[bool] = []

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> Any:
            derivatives.append(left.requires_grad)
            return self.net(torch.cat((left, right), dim=1))

    parts = (ROWS[:, :1], ROWS[:, 1:])
    background: Any = (ZEROS[:1], ZEROS[1:])
    several = explain(Joined(), parts, reference=background, budget=18, method="shear")
    np.testing.assert_allclose(several.values, whole.values, atol=1e-12)
    assert several.derivative_passes == whole.derivative_passes > 0
    assert any(derivatives)


# Labels, and names of arguments


@pytest.mark.parametrize(
    "labels",
    [
        list("abcde"),
        np.arange(5) * 10,
        [1, "b", None, 2.5, "e"],
        [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)],
    ],
)
def test_labels_of_rows(labels: Any) -> None:
    inputs = encode(ROWS, ZEROS, None, AdaptedModel(lambda x: x), index=labels)
    assert inputs.index.shape == (5,)
    assert inputs.index.tolist() == list(labels)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("id", "index: the rows are not a frame with a column 'id'; pass one label per row"),
        ([1, 2, 3], "index: expected 5 labels, one per row, got 3"),
        (np.zeros((5, 2)), "index: expected 5 labels, one per row, got shape (5, 2)"),
        (3, "index: expected a column's name or one label per row, got 3"),
    ],
)
def test_bad_labels_are_refused(index: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        encode(ROWS, ZEROS, None, AdaptedModel(lambda x: x), index=index)


@pytest.mark.parametrize(
    ("rows", "background", "message"),
    [
        (ROWS, ("mean",), ": expected ('mean', X_train), got a tuple of 1"),
        (torch.ones(2, 2, dtype=torch.int64), np.full(2, 0.5), ": integer rows need an integer"),
        ((ROWS, ROWS), ZEROS, ": the rows are a tuple of 2 inputs; pass a tuple of 2"),
        ((ROWS, ROWS), (ZEROS,) * 3, ": expected 2 parts, one for each input, got 3"),
        (
            (ROWS, ROWS),
            (ZEROS, ROWS),
            ": the parts need the same number of background rows, got [1, 5]",
        ),
    ],
)
def test_bad_backgrounds_are_refused(rows: Any, background: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape("background" + message)):
        encode(rows, background, None, AdaptedModel(lambda x: x))


def test_tuples_of_no_inputs_or_of_other_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"need the same number of rows, got \[3, 5\]"):
        encode((ROWS, ROWS[:3]), (ZEROS, ZEROS), None, AdaptedModel(lambda x: x))
    with pytest.raises(InputError, match="rows: expected a tuple of one or more inputs"):
        encode((), (), None, AdaptedModel(lambda x: x))
