"""The Explainer: what it stores, what it takes by other names, how it labels, and that threads can share it."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from games import Floats, network
from shearshap import (
    METHODS,
    BudgetError,
    Explainer,
    InputError,
    MethodError,
    ModelError,
    Shear,
    ShearWarning,
    explain,
    model_game,
)
from shearshap.interactions.cross import _twice_differentiable

ROWS = np.random.default_rng(0).normal(size=(6, 4))
ZEROS = np.zeros(4)
ONLY_EXPLAINED = {"method", "output_names", "seed", "drop_null", "semivalue", "text"}


def test_it_is_explain_with_its_options_kept() -> None:
    net = network(4, outputs=3)
    explainer = Explainer(
        net, ("mean", ROWS), method="shear", groups=[[0, 1], [2], [3]], output=[0, 2], seed=3
    )
    once = explain(net, ROWS, reference=("mean", ROWS), method="shear", groups=[[0, 1], [2], [3]], output=[0, 2], seed=3,
                   budget=40)  # fmt: skip
    for answer in (explainer(ROWS, budget=40), explainer(ROWS, max_evals=40, silent=True)):
        np.testing.assert_array_equal(answer.values, once.values)
        assert answer.evaluations == once.evaluations <= 40


def test_functions_pass_every_option_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option comes through with a value that is not its default."""
    passed: list[Explainer] = []
    names = [option.name for option in dataclasses.fields(Explainer)]
    values = {name: object() for name in names if name != "model"}

    def remember(explainer: Explainer, *_: Any, **__: Any) -> Any:
        passed.append(explainer)
        return nullcontext()

    monkeypatch.setattr(Explainer, "__call__", remember)
    monkeypatch.setattr(Explainer, "game", remember)
    explain("model", "rows", **values)  # type: ignore[arg-type]
    of_games = {name: value for name, value in values.items() if name not in ONLY_EXPLAINED}
    with model_game("model", "rows", **of_games):  # type: ignore[arg-type]
        pass
    assert {name: getattr(passed[0], name) for name in values} == values
    assert {name: getattr(passed[1], name) for name in of_games} == of_games


def test_it_stores_options_only() -> None:
    explainer = Explainer(network(4), ZEROS)
    before = dict(vars(explainer))
    explainer(ROWS, budget=16)
    assert vars(explainer) == before
    assert vars(explainer).keys() == {field.name for field in dataclasses.fields(Explainer)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        explainer.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("players", "background", "spent"),
    [(3, 1, 8), (3, 5, 40), (6, 1, 64), (7, 1, 114), (20, 1, 322), (12, 10, 621), (12, 100, 2401)],
)
def test_without_a_budget_it_spends_sixteen_a_player_or_all_coalitions(
    players: int, background: int, spent: int
) -> None:
    explainer = Explainer(lambda x: x.sum(axis=1), np.zeros((background, players)), method="auto")
    assert explainer(np.ones((2, players))).evaluations <= spent
    assert explainer(np.ones((2, players))).evaluations > 0.9 * spent


@pytest.mark.parametrize(
    ("options", "call", "error", "message"),
    [
        ({}, {"budget": 16, "max_evals": 16}, InputError, "budget and max_evals mean the same; pass only one of them"),
        ({}, {"progress": True, "silent": True}, InputError, "progress and silent mean the same"),
        ({}, {"max_evals": -3}, BudgetError, "budget: expected a positive integer, got -3"),
        ({}, {"budget": 10.5}, BudgetError, "budget: expected a positive integer, got 10.5"),
        ({}, {"budget": np.inf}, BudgetError, "budget: expected a positive integer, got inf"),
        ({}, {"interactions": 1}, InputError, "or the largest size of the sets of features, 2 or more; got 1"),
        ({}, {"interactions": 2, "interaction_index": "SIX"}, InputError, "interaction_index: expected one of k-SII, SII, STII, FSII, got 'SIX'"),
        ({"semivalue": "banzhaf"}, {"interactions": 2}, InputError, "interactions are defined for Shapley values; expected semivalue='shapley', got 'banzhaf'"),
        ({"semivalue": "banzhaf", "method": "kernel"}, {}, MethodError, "Kernel(paired=False) estimates only Shapley values; try method='auto', 'kriging' or 'exact'"),
        ({"semivalue": [0.5, 0.5]}, {}, InputError, "semivalue: expected 4 weights, for 0 to 3 other features, got 2"),
        ({"semivalue": np.array([0.5, 0.5])}, {}, InputError, "semivalue: expected 4 weights, for 0 to 3 other features, got 2"),
        ({"semivalue": np.ones((2, 2))}, {}, InputError, "semivalue: expected 'shapley', 'banzhaf', or a weight"),
        ({"feature_names": "abcd"}, {}, InputError, "feature_names: expected a list of names, got 'abcd'"),
        ({"output_names": "ab"}, {}, InputError, "output_names: expected a list of names, got 'ab'"),
        ({"semivalue": [0.5, 0.6, 0, 0]}, {}, InputError, "not negative, with the sum 1; got [0.5, 0.6, 0.0, 0.0] of sum 1.1"),
        ({"scale": "raw"}, {}, InputError, "got 'raw'; did you mean 'margin'?"),
        ({"background": None}, {"rows": ROWS[:1]}, InputError, "Background data is missing. Pass rows to compare with, for example Explainer(model, X_train)."),
        ({"scale": "chance"}, {}, InputError, "scale: expected one of probability, log-odds, margin, logit"),
        ({"scale": "margin", "output": lambda x: x}, {}, InputError, "a function passed as output= makes its own scale"),
        ({"output": "yes"}, {}, InputError, "output: there is no output 'yes', as the model's outputs have no names"),
        ({"output_names": ["a"]}, {}, InputError, "output_names: expected 2, one per output, got 1"),
        ({"output": "yes", "output_names": ["a", "b"]}, {}, InputError, "there is no output 'yes'; the model has 2: a, b (0 to 1)"),
        ({"feature_names": ["a"]}, {}, InputError, "feature_names: expected 4, one for each feature, got 1"),
        ({"seed": -1}, {}, InputError, "seed: expected an integer of 0 or more, got -1"),
        ({"device": "gpu"}, {}, InputError, "device: expected one such as 'cpu' or 'cuda:0', got 'gpu'"),
        ({"groups": {"q": 3.5}}, {}, InputError, "groups: expected a list of column numbers or names, got 3.5"),
        ({"groups": (np.zeros(3, dtype=int), np.zeros(1, dtype=int)), "background": (ZEROS[:2], ZEROS[:2])},
         {"rows": (ROWS[:, :2], ROWS[:, 2:])}, InputError, "groups: expected lists of columns or an integer mask of shape (2,), got an array of int64 of shape (3,)"),
        ({"background": ()}, {"rows": (ROWS[:, :2], ROWS[:, 2:])}, InputError, "the rows are a tuple of 2 inputs"),
        ({}, {"rows": csr_matrix(ROWS)}, InputError, "rows: a csr_matrix is not supported; pass rows.toarray()"),
    ],
)  # fmt: skip
def test_bad_options(
    options: dict[str, Any], call: dict[str, Any], error: type[Exception], message: str
) -> None:
    explainer = Explainer(network(4), **{"background": ZEROS, **options})
    with pytest.raises(error, match=re.escape(message)):
        explainer(**{"rows": ROWS, **call})


def test_names_are_checked_before_any_evaluation_is_spent() -> None:
    asked: list[int] = []

    def model(x: Floats) -> Floats:
        asked.append(len(x))
        return np.asarray(x.sum(axis=1))

    with pytest.raises(InputError, match="feature_names"):
        Explainer(model, ZEROS, feature_names=["a"])(ROWS)
    assert not asked


def test_names_of_players_and_outputs() -> None:
    net = network(4, outputs=2)
    plain = Explainer(net, ZEROS)(ROWS)
    assert plain.feature_names == ["x0", "x1", "x2", "x3"]
    assert plain.output_names == ["output 0", "output 1"]
    grouped = Explainer(net, ZEROS, groups={"left": [0, 2]}, output="b", output_names=["a", "b"])(
        ROWS
    )
    assert grouped.feature_names == ["left", "x1", "x3"]
    assert grouped.output_names == ["b"]
    assert grouped.values.shape == (6, 3)
    np.testing.assert_allclose(grouped.predictions, plain.predictions[:, 1])
    mine = Explainer(
        net, ZEROS, feature_names=list("wxyz"), output_names=["no", "yes"], output=[1]
    )(ROWS)
    assert (mine.feature_names, mine.output_names) == (list("wxyz"), ["yes"])
    assert mine.output("yes").values.shape == (6, 4)
    with pytest.raises(InputError, match=r"there is no output 'no'; there are yes \(0 to 0\)"):
        mine.output("no")


def test_data_is_a_number_for_each_player() -> None:
    """A single input's number, the place of what is on in a one-hot block, the mean of any other block."""
    rows = np.array([[0.5, 0, 1, 0, 2, 4], [0.25, 1, 0, 0, 3, 3]])
    answer = Explainer(lambda x: x.sum(axis=1), np.zeros(6), groups=[[0], [1, 2, 3], [4, 5]])(rows)
    assert answer.data is not None
    np.testing.assert_array_equal(answer.data, [[0.5, 1, 3], [0.25, 0, 3]])
    assert answer.display_data is None


def test_a_missing_number_is_missing_in_its_own_player_alone() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = np.array([[np.nan, 0, 1, 2, 4], [1, 1, 0, np.nan, 3]])
    model = HistGradientBoostingRegressor(max_iter=2).fit(rows, [0, 1])
    answer = Explainer(model, rows[:1], groups=[[0], [1, 2], [3, 4]])(rows)
    assert answer.data is not None
    np.testing.assert_array_equal(answer.data, [[np.nan, 1, 3], [1, 0, np.nan]])


def test_a_correction_keeps_interactions_and_values_together() -> None:
    for output in (None, 1):
        answer = Explainer(network(4), ZEROS, method="shear", output=output)(
            ROWS, budget=40, interactions=True
        )
        assert abs(answer.gap).max() > 1e-4
        fixed = answer.corrected()
        assert fixed.interactions is not None
        diagonal = np.moveaxis(np.diagonal(fixed.interactions, axis1=1, axis2=2), -1, 1)
        np.testing.assert_allclose(
            (fixed.interactions.sum(axis=2) + diagonal) / 2, fixed.values, atol=1e-12
        )


def test_intervals_are_the_values_and_their_errors() -> None:
    answer = dataclasses.replace(
        Explainer(network(4), ZEROS, output=0)(ROWS),
        standard_errors=np.full((6, 4), 0.5),
        degrees_of_freedom=4.0,
    )
    lower, upper = answer.interval(0.95)
    np.testing.assert_allclose(
        upper - answer.values, 0.5 * 2.7764451051977987
    )  # Student's t table, 4 degrees
    np.testing.assert_allclose(answer.values - lower, upper - answer.values)
    with pytest.raises(InputError, match="level: expected a number between 0 and 1"):
        answer.interval(95)
    with pytest.raises(InputError, match=r"shear has no standard errors; try method='kriging'"):
        dataclasses.replace(answer, standard_errors=None, method="shear").interval()


# Scales


def test_log_odds_of_margins_stay_finite_where_a_probability_is_one() -> None:
    def margins(x: Tensor) -> Tensor:
        return torch.stack((400 * x[:, 0], -400 * x[:, 0]), dim=1)

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return margins(x)

    answer = Explainer(Net(), np.zeros(1), scale="log-odds")(np.ones((1, 1)))
    np.testing.assert_allclose(answer.predictions, [[800, -800]])


def test_the_log_odds_of_a_function_of_probabilities() -> None:
    explainer = Explainer(lambda x: x, np.full(2, 0.5), scale="log-odds")
    with pytest.warns(ShearWarning, match=r"\d of the model's probabilities were within 1e-07 of"):
        answer = explainer(np.array([[0.9, 1.0], [0.2, 0.0]]))
    assert "exact" not in answer.method
    assert answer.standard_errors is not None
    assert np.isinf(answer.standard_errors).all()
    np.testing.assert_allclose(answer.predictions[:, 0], np.log([9, 0.25]))
    assert np.isfinite(answer.predictions).all()
    assert abs(answer.predictions[:, 1]).min() > 16
    with pytest.raises(
        ModelError, match=r"scale='log-odds' needs probabilities, but the model returned 0 to 2"
    ):
        Explainer(lambda x: x, np.zeros(2), scale="log-odds")(np.array([[1.0, 2.0]]))
    with pytest.raises(InputError, match="a function's outputs are explained unchanged"):
        Explainer(lambda x: x, np.zeros(2), scale="margin")(np.ones((1, 2)))


# Several inputs


class Mixed(nn.Module):
    """Two inputs: indices (n, 3) and numbers (n, 2, 2)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.inner = nn.Embedding(9, 2), network(10).float()

    def forward(self, indices: Tensor, numbers: Tensor) -> Tensor:
        assert indices.dtype == torch.int64
        assert indices.shape[1:] == (3,)
        assert numbers.shape[1:] == (2, 2)
        return self.inner(torch.cat((self.table(indices).flatten(1), numbers.flatten(1)), dim=1))  # type: ignore[no-any-return]


def mixed_rows() -> tuple[Any, Floats]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 9, (4, 3)), rng.normal(size=(4, 2, 2))


@pytest.mark.parametrize("method", ["exact", "shear"])
def test_several_inputs_against_one_evaluation_at_a_time(method: str) -> None:
    net = Mixed()
    indices, numbers = mixed_rows()
    masks = (np.array([0, 1, 1]), np.array([[2, 2], [3, 1]]))
    answer = Explainer(
        net, (np.zeros(3, dtype=int), np.zeros((2, 2))), groups=masks, method=method
    )((indices, numbers), budget=100)
    owner = np.concatenate([mask.reshape(-1) for mask in masks])

    def value(row: int, present: Any) -> Floats:
        kept = np.array(present)[owner]
        ids, xs = indices[row] * kept[:3], (numbers[row].reshape(-1) * kept[3:]).reshape(2, 2)
        return at_both(net, ids, xs)

    from games import all_coalitions, exact_shares

    for row in range(4):
        table = np.array([value(row, present) for present in all_coalitions(4)])
        wanted = np.stack([exact_shares(table[:, k]) for k in range(table.shape[1])], axis=1)
        np.testing.assert_allclose(answer.values[row], wanted, atol=1e-5)


def at_both(net: nn.Module, indices: Any, numbers: Any) -> Floats:
    given = torch.tensor(indices)[None], torch.tensor(numbers, dtype=torch.float32)[None]
    return net(*given).detach().double().numpy()[0]  # type: ignore[no-any-return]


def test_statistics_of_several_inputs() -> None:
    indices, numbers = mixed_rows()
    answer = Explainer(Mixed(), ("mode", (indices, numbers)))((indices, numbers), budget=128)
    assert answer.values.shape == (4, 7, 2)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


def test_chosen_outputs_without_names_keep_their_numbers() -> None:
    net = network(4, outputs=3)
    assert Explainer(net, ZEROS, output=[2, 0])(ROWS).output_names == ["output 2", "output 0"]
    assert Explainer(net, ZEROS, output=2)(ROWS).output_names == ["output 2"]
    named = Explainer(net, ZEROS, output=lambda y: y[:, :2], output_names=["a", "b"])(ROWS)
    assert named.output_names == ["a", "b"]


def test_a_large_background_needs_no_larger_budget() -> None:
    background = np.random.default_rng(0).normal(size=(1001, 4))
    every = ("all", background)
    assert Explainer(network(4), every)(ROWS[:1]).evaluations <= 1 + 100 * 16
    whole = Explainer(network(4), every)(ROWS[:1], budget=16 * 1001)
    assert (whole.method, whole.evaluations) == ("exact", 16 * 1001)


def test_a_slice_or_a_number_is_a_players_columns_too() -> None:
    answer = Explainer(lambda x: x.sum(axis=1), ZEROS, groups={"last": 3, "first": slice(0, 2)})(
        ROWS
    )
    assert answer.feature_names == ["last", "first", "x2"]


def test_rows_at_their_reference_do_not_warn() -> None:
    """Their derivatives in player space are zero, and the model is fine; warnings are errors here."""
    rows = np.concatenate((np.zeros((1, 4)), ROWS))
    Explainer(network(4), ZEROS, method="shear")(rows[:1], budget=40)
    Explainer(network(4), ZEROS, method="shear")(rows, budget=40)


@pytest.mark.slow
def test_an_exported_module_is_explained() -> None:
    net = network(4).float().eval()
    batch = torch.export.Dim("batch")
    program = torch.export.export(net, (torch.zeros(3, 4),), dynamic_shapes=({0: batch},))
    answer = Explainer(program.module(), ZEROS, method="exact")(ROWS, budget=16)
    np.testing.assert_allclose(
        answer.values, Explainer(net, ZEROS, method="exact")(ROWS, budget=16).values, atol=1e-6
    )


# Threads


class Moody(nn.Module):
    """Answers nonsense in training mode, and lets other threads in while it works."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(4)
        self.dropout = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> Tensor:
        import time

        time.sleep(0.001)
        return self.dropout(self.inner(x))  # type: ignore[no-any-return]


def test_one_explainer_explains_from_several_threads() -> None:
    net = Moody().train()
    explainer = Explainer(net, ZEROS, method=Shear(), batch_size=32)
    parts = [ROWS + shift for shift in range(12)]
    wanted = [explainer(part, budget=34).values for part in parts]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda part: explainer(part, budget=34).values, parts))
    for ours, theirs in zip(wanted, found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert net.training
    assert net.dropout.training
    assert _twice_differentiable.threads == 0
    assert torch.backends.cuda.flash_sdp_enabled()


# Models that fail


def test_a_model_that_fails_only_on_large_batches_is_told_as_it_is() -> None:
    def model(x: Floats) -> Floats:
        if len(x) > 1:
            raise ValueError("one at a time")
        return np.asarray(x.sum(axis=1))

    with pytest.raises(ModelError, match=r"inputs of shape \(12, 4\): ValueError: one at a time$"):
        Explainer(model, ZEROS, batch_size=100)(ROWS, budget=16)


@pytest.mark.parametrize("error", [ValueError("odd"), IndexError("far")])
def test_a_module_that_fails_is_not_said_to_lack_derivatives(error: Exception) -> None:
    class Broken(nn.Module):
        def forward(self, _: Tensor) -> Tensor:
            raise error

    with pytest.raises(
        ModelError,
        match=rf"the model failed on inputs of shape .*: {type(error).__name__}: {error}",
    ):
        Explainer(Broken(), ZEROS, method="shear")(ROWS, budget=40)


# Interactions


@pytest.mark.parametrize(
    "method", ["exact", "kriging", "leverage", "kernel-paired", "permutation-antithetic"]
)
@pytest.mark.parametrize("tol", [None, 0.02])
def test_interactions_come_with_the_values_at_no_more_than_the_budget(
    method: str, tol: float | None
) -> None:
    asked: list[int] = []
    net = network(6, outputs=2)

    def model(x: Floats) -> Floats:
        asked.append(len(x))
        return np.asarray(net(torch.tensor(x)).detach().numpy())

    rows = np.random.default_rng(0).normal(size=(7, 6))
    explainer = Explainer(model, np.zeros(6), method=method)
    plain = explainer(rows, budget=64, tol=tol)
    alone = sum(asked)
    asked.clear()
    answer = explainer(rows, budget=64, tol=tol, interactions=True)
    assert sum(asked) == alone <= 7 * 64 + answer.check_evaluations
    # the products of two calls may round differently, by where their numbers lie in memory
    np.testing.assert_allclose(answer.values, plain.values, rtol=0, atol=1e-14)
    assert answer.interactions is not None
    assert answer.cross_contribution is not None
    assert (answer.interactions.shape, answer.cross_contribution.shape) == ((7, 6, 6, 2), (7, 6, 6))
    halves = answer.interactions.sum(axis=2) + np.einsum("rppk->rpk", answer.interactions)
    np.testing.assert_allclose(
        halves / 2, answer.values, atol=1e-9
    )  # a pair's part is shared by both
    one = answer[2].output(1)
    assert one.interactions is not None
    np.testing.assert_array_equal(one.interactions[0], answer.interactions[2, :, :, 1])
    exact = explainer.__class__(model, np.zeros(6), method="exact")(
        rows, budget=64, interactions=True
    )
    assert exact.interactions is not None
    assert (
        abs(answer.interactions - exact.interactions).mean() < 0.3 * abs(exact.interactions).mean()
    )


def test_a_module_has_cross_contributions_by_its_derivatives() -> None:
    from shearshap import model_game
    from shearshap.interactions.cross import cross_contribution

    net = network(6, outputs=2)
    rows = np.random.default_rng(0).normal(size=(7, 6))
    answer = Explainer(net, np.zeros(6), method="kriging")(rows, budget=40, interactions=True)
    with model_game(net, rows, reference=np.zeros(6)) as game:
        wanted = cross_contribution(game).numpy()
    assert answer.cross_contribution is not None
    np.testing.assert_allclose(answer.cross_contribution, wanted, atol=1e-9)
    assert answer.derivative_passes == game.usage.derivative_passes > 0
    assert answer.evaluations <= 40


@pytest.mark.parametrize("method", ["kernel", "permutation", "kernel-welford"])
def test_interactions_need_complements(method: str) -> None:
    asked: list[int] = []

    def model(x: Floats) -> Floats:
        asked.append(len(x))
        return np.asarray(x.sum(axis=1))

    with pytest.raises(
        MethodError,
        match=r"interactions need coalitions and their complements.*try method='kriging'",
    ):
        Explainer(model, np.zeros(6), method=method)(np.ones((2, 6)), budget=40, interactions=True)
    assert not asked


def test_one_player_has_no_interactions() -> None:
    answer = Explainer(lambda x: x[:, 0] ** 2, np.zeros(1))(np.full((2, 1), 3.0), interactions=True)
    assert answer.interactions is not None
    np.testing.assert_allclose(answer.interactions, [[[9]], [[9]]])


def test_a_row_that_fails_at_a_later_stage_is_named_by_its_place_in_the_whole() -> None:
    """Rows that stopped early leave gaps before it."""

    def model(x: Floats) -> Floats:
        rough = x[:, 0] > 1
        late = rough & (x[:, 1:].sum(axis=1) == 6) & (x[:, 1] == 0) & (x[:, 2] == 0)
        wild = np.sin(1e3 * (x @ np.arange(1, 10) ** 2))
        return np.where(late, np.nan, np.where(rough, wild, x.sum(axis=1)))

    rows = np.ones((9, 9))
    rows[5, 0] = 2
    with pytest.raises(
        ModelError, match="the model returned nan for row 5 with 7 of 9 features present"
    ):
        Explainer(model, np.zeros(9), method="kriging")(rows, budget=512, tol=1e-3)


# Budgets of their own


@pytest.mark.parametrize("players", [3, 8, 11])
def test_exact_without_a_budget_takes_all_coalitions(players: int) -> None:
    rows = np.random.default_rng(0).normal(size=(2, players))
    answer = Explainer(lambda x: x.prod(axis=1), np.ones(players), method="exact")(rows)
    assert answer.evaluations == 2**players
    np.testing.assert_array_equal(answer.standard_errors, 0)


def test_exact_without_a_budget_says_how_many_it_would_take() -> None:
    rows = np.ones((1, 20))
    explainer = Explainer(lambda x: x.sum(axis=1), np.zeros(20), method="exact")
    with pytest.raises(BudgetError, match=r"2\^20.*1,048,576 evaluations per row.*budget=1048576"):
        explainer(rows)

    # background rows count
    several = Explainer(lambda x: x.sum(axis=1), np.zeros((40, 12)), method="exact")
    with pytest.raises(BudgetError, match="163,840 evaluations per row"):
        several(rows[:, :12])


@pytest.mark.parametrize("players", [1, 2, 3, 5])
@pytest.mark.parametrize("method", METHODS)
def test_without_a_budget_every_method_gets_what_it_needs(method: str, players: int) -> None:
    rows = np.random.default_rng(0).normal(size=(2, players))
    background = np.zeros((2, players))
    answer = Explainer(lambda x: x.sum(axis=1), background, method=method)(rows)
    np.testing.assert_allclose(answer.values, rows, atol=1e-9)


# How it prints


def test_an_explainer_prints_its_options_and_not_its_background() -> None:
    background = np.zeros((200, 6))
    assert repr(Explainer(np.tanh, background)) == (
        "Explainer(<ufunc tanh>, <ndarray of shape (200, 6)>)"
    )

    def model(x: Floats) -> Floats:
        return x

    network = nn.Sequential(nn.Linear(6, 500), nn.Linear(500, 1))
    assert repr(Explainer(model, ("mean", background), output="yes", seed=3)) == (
        "Explainer(<function model>, ('mean', <ndarray of shape (200, 6)>), output='yes', seed=3)"
    )
    printed = repr(
        Explainer(network, 0, groups={"a": [0, 1]}, method=Shear(unbiased=True), device="cpu")
    )
    assert printed.startswith("Explainer(<Sequential>, 0, method=Shear(")
    assert printed.endswith("groups=<dict of 1>, device='cpu')")
    assert repr(Explainer(network, background=[[0.0] * 6] * 9)) == (
        "Explainer(<Sequential>, <list of 9>)"
    )
