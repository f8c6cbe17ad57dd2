"""shapiq: our approximators in its explainers, our explanations in its plots."""

import copy
import importlib
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from games import Bools, Floats, Value, exact_shares, random_table, smooth_table, table_game
from peer_library import peer
from shearshap import METHODS, BudgetError, InputError, explain_game
from small_explanation import NAMES, explanation, texts

shapiq = peer("shapiq")
mpl.use("Agg")

from shearshap.interop.shapiq import APPROXIMATORS, Kriging, Leverage, Shapley, Shear  # noqa: E402

PLAYERS = 6


class Counted:
    """A game that counts the coalitions it is asked for."""

    def __init__(self, value: Value) -> None:
        self.value, self.count = value, 0

    def __call__(self, coalitions: Bools) -> Floats:
        self.count += len(coalitions)
        return self.value(coalitions)


@pytest.fixture
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def values_of(values: Any) -> Floats:
    return np.array([values[(player,)] for player in range(values.n_players)])


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.filterwarnings("ignore:a regression on:shearshap.ShearWarning")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_an_approximator_that_keeps_its_budget(name: str) -> None:
    table = smooth_table(PLAYERS)
    for budget in (64, 60) if name != "exact" else (64,):
        game = Counted(table_game(table))
        approximator = APPROXIMATORS[name](n=PLAYERS, random_state=3)
        assert isinstance(approximator, shapiq.approximator.base.Approximator)
        answer = approximator.approximate(budget=budget, game=game)
        there = explain_game(table_game(table), players=PLAYERS, budget=budget, method=name, seed=3)
        assert 0 < game.count <= budget
        assert answer.estimation_budget == game.count
        np.testing.assert_allclose(values_of(answer), there.values[0])


def test_every_approximator_can_be_imported_by_its_name() -> None:
    module = importlib.import_module("shearshap.interop.shapiq")
    assert APPROXIMATORS.keys() == METHODS.keys()
    for name, approximator in APPROXIMATORS.items():
        assert approximator.__name__ == name.title().replace("-", "")
        assert getattr(module, approximator.__name__) is approximator
    assert not hasattr(module, "Nothing")


def test_an_answer_says_what_it_is() -> None:
    table = random_table(PLAYERS)
    game = shapiq.Game(n_players=PLAYERS, normalize=False)
    game.value_function = table_game(table)
    answer = Shapley(n=PLAYERS)(64, game)
    assert (answer.index, answer.max_order, answer.n_players) == ("SV", 1, PLAYERS)
    assert answer.baseline_value == answer[()] == table[0]
    assert not answer.estimated
    np.testing.assert_allclose(values_of(answer), exact_shares(table), atol=1e-12)
    assert Leverage(n=PLAYERS)(30, table_game(table)).estimated


def test_a_random_state_is_kept_from_call_to_call_and_none_is_none() -> None:
    value = table_game(random_table(PLAYERS))

    def twice(approximator: Any) -> bool:
        first, again = (values_of(approximator.approximate(40, value)) for _ in range(2))
        return bool(np.array_equal(first, again))

    assert twice(Leverage(n=PLAYERS, random_state=5))
    assert not twice(Leverage(n=PLAYERS))
    reset = Leverage(n=PLAYERS)
    reset.set_random_state(5)
    assert twice(reset)


def test_too_small_a_budget_is_an_error() -> None:
    value = table_game(random_table(PLAYERS))
    with pytest.raises(BudgetError, match="leverage needs at least 12 evaluations"):
        Leverage(n=PLAYERS).approximate(5, value)
    with pytest.raises(BudgetError, match="budget: expected a positive integer, got 0"):
        Kriging(n=PLAYERS).approximate(0, value)


def test_approximators_are_copied_and_pickled_for_other_processes() -> None:
    for kind in APPROXIMATORS.values():
        known = kind(n=PLAYERS, random_state=3)
        for other in (copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
            assert type(other) is type(known)
            assert other == known
            assert other.method == known.method


def test_further_arguments_are_taken_as_shapiqs_approximators_do() -> None:
    value = table_game(random_table(PLAYERS))
    plain = Kriging(n=PLAYERS, random_state=0).approximate(30, value)
    more = Kriging(n=PLAYERS, random_state=0).approximate(30, value, 5, batch_size=7)
    called = Kriging(PLAYERS, 0, max_order=1, index="SV")(30, value, replacement=True)
    np.testing.assert_array_equal(values_of(plain), values_of(more))
    np.testing.assert_array_equal(values_of(plain), values_of(called))


def test_other_indices_and_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="Invalid index 'SII'"):
        Kriging(n=PLAYERS, index="SII")
    with pytest.raises(InputError, match="max_order: expected 1, Shapley values, got 2; for pairs"):
        Shapley(n=PLAYERS, max_order=2)


@pytest.mark.parametrize("explainer", ["TabularExplainer", "Explainer"])
def test_shapiqs_explainers_take_them(explainer: str) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5))
    targets = rows[:, 0] * rows[:, 1] + rows[:, 2]
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=10, min_samples_leaf=5, random_state=0
    ).fit(rows, targets)
    options = {"data": rows, "index": "SV", "max_order": 1, "imputer": "baseline"}
    theirs, kriging, shear = (
        getattr(shapiq, explainer)(model, approximator=each, random_state=0, **options)
        for each in ("regression", Kriging(n=5), Shear(n=5))
    )
    exact = values_of(theirs.explain(rows[0], budget=32))
    np.testing.assert_allclose(values_of(kriging.explain(rows[0], budget=32)), exact, atol=1e-8)
    answers = shear.explain_X(rows[:2], budget=5 * 32 + 18)
    assert [answer.index for answer in answers] == ["SV", "SV"]
    np.testing.assert_allclose(values_of(answers[0]), exact, atol=0.2)


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_shapley_values_are_looked_up_by_player(outputs: tuple[int, ...]) -> None:
    ours = explanation(outputs=outputs)
    last = (*outputs, 1)[0] - 1
    there = ours.to_shapiq(row=2, output=last)
    own = ours.output(last)
    assert (there.index, there.max_order, there.estimation_budget) == ("SV", 1, 64)
    assert there.estimated
    assert there[()] == there.baseline_value == own.base_values[2]
    np.testing.assert_array_equal(values_of(there), own.values[2])


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_interactions_are_looked_up_by_pair(outputs: tuple[int, ...]) -> None:
    ours = explanation(outputs=outputs, interactions=True)
    last = (*outputs, 1)[0] - 1
    there = ours.to_shapiq(row=1, output=last)
    own = ours.output(last).interactions
    assert own is not None
    assert (there.index, there.max_order) == ("k-SII", 2)
    for i in range(4):
        assert there[(i,)] == own[1, i, i]
        for j in range(i + 1, 4):
            assert there[(i, j)] == there[(j, i)] == own[1, i, j]
    assert there[()] == ours.output(last).base_values[1]


@pytest.mark.slow
@pytest.mark.usefixtures("_closed_figures")
@pytest.mark.filterwarnings("ignore:The set_(bad|over|under) function:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "plot", ["network", "si_graph", "force", "waterfall", "upset", "stacked_bar", "bar", "beeswarm"]
)
def test_shapiqs_plots(plot: str) -> None:
    ours = explanation(rows=3, interactions=True)
    options: dict[str, Any] = {"feature_names": NAMES, "show": False}
    if plot in ("bar", "beeswarm"):
        many = [ours.to_shapiq(row) for row in range(3)]
        data = {"data": np.zeros((3, 4))} if plot == "beeswarm" else {}
        drawn = getattr(shapiq.plot, f"{plot}_plot")(many, **data, **options)
    else:
        drawn = getattr(ours.to_shapiq(), f"plot_{plot}")(**options)
    drawn = drawn[0] if isinstance(drawn, tuple) else drawn
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    assert all(name in texts(figure) for name in NAMES)


def test_without_shapiq_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapiq.approximator.base", None)
    monkeypatch.delitem(sys.modules, "shearshap.interop.shapiq")
    with pytest.raises(ImportError, match="needs shapiq: pip install shapiq"):
        importlib.import_module("shearshap.interop.shapiq")
    with pytest.raises(ImportError, match="needs shapiq: pip install shapiq"):
        explanation().to_shapiq()
