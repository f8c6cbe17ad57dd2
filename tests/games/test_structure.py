"""Hierarchies: Owen and Winter values, by every method that knows them."""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from definitions import orders_that_keep_groups, winter_values
from games import exact_shares, pairwise, random_table, table_game
from shearshap import Explainer, Explanation, InputError, MethodError, explain_game, plots
from shearshap.games.structure import Structure, structure_of
from shearshap.methods.exact import HierarchicalEnumeration
from shearshap.result import views

NESTED = {"a": {"b": {"x0": [0], "x1": [1]}, "x2": [2]}, "c": {"x3": [3], "x4": [4]}}
PATHS = (("a", "b"), ("a", "b"), ("a",), ("c",), ("c",), ())
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
COLUMNS = ["street", "city", "rooms", "age", "pay"]

# up to six players in groups of random names, within each other
TREES = st.lists(
    st.lists(st.sampled_from("ab"), max_size=3).map(tuple), min_size=2, max_size=6
).map(tuple)


def smooth(rows: Any) -> Any:
    rows = np.asarray(rows)
    return np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2]) + rows[:, 3] * rows[:, 4] * rows[:, 0]


def solved(table: Any, **options: Any) -> Explanation:
    players = len(table).bit_length() - 1
    return explain_game(table_game(table), players=players, **options)


# The definition


@settings(max_examples=30)
@given(paths=TREES, seed=st.integers(0, 10**6))
def test_listed_coalitions_give_the_mean_over_all_orders_that_keep_groups(
    paths: Any, seed: int
) -> None:
    structure = Structure(paths)
    table = random_table(len(paths), seed)
    sets, weights = structure.listed()
    values = table_game(table)(sets.numpy())
    assert len(sets) == structure.coalitions
    assert not sets[0].any()
    assert sets[1].all()
    np.testing.assert_allclose(
        weights.to_dense().numpy() @ values, winter_values(table, paths), atol=1e-9
    )


@settings(max_examples=20)
@given(paths=TREES, seed=st.integers(0, 10**6))
def test_drawn_orders_keep_groups(paths: Any, seed: int) -> None:
    orders = Structure(paths).orders(50, np.random.default_rng(seed))
    assert set(map(tuple, orders.tolist())) <= set(orders_that_keep_groups(paths))


def test_all_orders_that_keep_groups_are_drawn_equally_often() -> None:
    orders = Structure(PATHS).orders(9600, np.random.default_rng(0))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == len(list(orders_that_keep_groups(PATHS))) == 48
    assert np.abs(counts - 200).max() < 5 * 200**0.5


# Laws


def test_values_of_groups_add_up_to_those_of_the_quotient_game() -> None:
    table = random_table(6, 1)
    answer = solved(table, groups=NESTED)
    assert answer.hierarchy == PATHS
    assert answer.method == "exact"
    assert answer.evaluations == Structure(PATHS).coalitions == 40
    quotient = solved(table, groups=[[0, 1, 2], [3, 4], [5]])
    np.testing.assert_allclose(answer.fold().values, quotient.values, atol=1e-12)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)
    inner = solved(table, groups={"a": {"b": [0, 1], "x2": [2]}, "c": {"3": [3], "4": [4]}})
    np.testing.assert_allclose(answer.fold(2).values, inner.values, atol=1e-12)


@pytest.mark.parametrize("paths", [((),) * 5, (("a",),) * 5, tuple((name,) for name in "abcde")])
def test_groups_of_one_and_one_group_of_all_are_shapley_values(paths: Any) -> None:
    table = random_table(5, 2)
    assert structure_of(paths) is None
    design = HierarchicalEnumeration(Structure(paths), torch.device("cpu"))
    values = table_game(table)(design.coalitions[0].numpy())
    found = design.estimate(torch.from_numpy(values)[None, :, None]).values[0, :, 0]
    np.testing.assert_allclose(found, exact_shares(table), atol=1e-9)


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.parametrize("method", ["exact", "permutation", "permutation-antithetic"])
def test_null_players_get_0_and_members_that_are_alike_get_the_same(method: str) -> None:
    def value(sets: Any) -> Any:  # 0 is null; 3 and 4 are alike
        return sets[:, 1] * sets[:, 2] + (sets[:, 3] + sets[:, 4]) ** 2.0 * sets[:, 5]

    budget = 40 if method == "exact" else 22
    answer = explain_game(value, players=6, groups=NESTED, method=method, budget=budget)
    assert answer.method == method
    assert abs(answer.values[0, 0]) < 1e-15
    if method == "exact":
        np.testing.assert_allclose(answer.values[0, 3], answer.values[0, 4])


@pytest.mark.filterwarnings("ignore:There are no error bars")
@pytest.mark.slow
@pytest.mark.parametrize("method", ["permutation", "permutation-antithetic"])
def test_permutations_are_unbiased(method: str) -> None:
    table = random_table(6, 3)
    values = [
        solved(table, groups=NESTED, method=method, budget=22, seed=seed).values[0]
        for seed in range(300)
    ]
    error = np.std(values, axis=0) / 300**0.5
    assert (np.abs(np.mean(values, axis=0) - winter_values(table, PATHS)) < 4 * error).all()


# Coarse to fine


def halves(players: range) -> Any:
    """Groups of two halves, again and again."""
    if len(players) == 1:
        return [players[0]]
    middle = len(players) // 2
    parts = (players[:middle], players[middle:])
    return {f"{part[0]}-{part[-1]}": halves(part) for part in parts}


def test_coarse_to_fine_is_exact_on_pairs_once_all_groups_are_open() -> None:
    value, shapley = pairwise(16, 0)
    answer = explain_game(
        value, players=16, groups=halves(range(16)), method="coarse-to-fine", budget=64
    )
    np.testing.assert_allclose(answer.values[0], shapley, atol=1e-9)


@settings(max_examples=40)
@given(budget=st.integers(4, 80), seed=st.integers(0, 10**6))
def test_coarse_to_fine_divides_games_in_which_few_sets_add_anything(
    budget: int, seed: int
) -> None:
    """Each output jumps at one number of players, so that most chains add nothing to it."""
    rng = np.random.default_rng(seed)
    least = rng.permutation(np.arange(1, 9))[:3]
    size = 10.0 ** rng.integers(-1, 2, size=3)

    def value(sets: Any) -> Any:
        return (sets.sum(axis=1)[:, None] >= least) * size

    answer = explain_game(
        value,
        players=8,
        groups=halves(range(8)),
        method="coarse-to-fine",
        budget=budget,
        seed=seed,
    )
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    assert answer.evaluations <= budget
    assert answer.standard_errors is not None
    assert (answer.standard_errors >= 0).all()


@pytest.mark.parametrize("budget", [4, 7, 16, 33, 64])
def test_coarse_to_fine_adds_up_and_keeps_to_its_budget(budget: int) -> None:
    weights = RNG.normal(size=16)

    def value(sets: Any) -> Any:
        sums = sets @ weights
        return np.stack((np.tanh(sums), sums**3), axis=1)

    answer = explain_game(
        value, players=16, groups=halves(range(16)), method="coarse-to-fine", budget=budget
    )
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    assert answer.evaluations <= budget
    assert answer.standard_errors is not None
    assert "share its value equally" in " ".join(answer.notes)


def test_groups_of_a_game_that_saturates_are_opened_where_they_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither half of the players is worth anything without the other."""

    def error(seed: int) -> float:
        weights = np.random.default_rng(seed).uniform(0, 2, size=16)

        def value(sets: Any) -> Any:
            return 1 / (1 + np.exp(12 - 16 * (sets @ weights) / weights.sum()))

        groups = halves(range(16))
        truth = explain_game(value, players=16, groups=groups, method="exact").values
        found = explain_game(value, players=16, groups=groups, method="coarse-to-fine", budget=24)
        np.testing.assert_allclose(found.gap, 0, atol=1e-9)
        return float(np.abs(found.values - truth).mean() / np.abs(truth).mean())

    alone = np.mean([error(seed) for seed in range(8)])
    monkeypatch.setattr("shearshap.methods.coarse.UNEVEN", 0.0)
    assert alone < 0.9 * np.mean([error(seed) for seed in range(8)])


def test_coarse_to_fine_knows_a_game_of_one_value_by_its_openings() -> None:
    """Not by its ends, which may be equal: only a game that never changes has unknown errors."""

    def value(sets: Any) -> Any:
        return np.stack((sets.sum(axis=1) % 16 * 1.0, np.ones(len(sets))), axis=1)

    answer = explain_game(
        value, players=16, groups=halves(range(16)), method="coarse-to-fine", budget=20
    )
    assert answer.standard_errors is not None
    assert np.isfinite(answer.standard_errors[..., 0]).all()
    assert np.isinf(answer.standard_errors[..., 1]).all()


def test_coarse_to_fine_opens_the_groups_that_matter() -> None:
    answer = explain_game(
        lambda sets: sets[:, 5] * 3.0 + sets[:, 6],
        players=64,
        groups=halves(range(64)),
        method="auto",
        budget=16,
    )
    assert answer.method == "coarse-to-fine"
    np.testing.assert_allclose(answer.values[0, 5:7], [3, 1], atol=1e-12)


@settings(max_examples=10)
@given(budget=st.integers(6, 60), seed=st.integers(0, 10**6))
def test_rows_do_not_depend_on_their_neighbours(budget: int, seed: int) -> None:
    """Neither their openings nor what they spend, if each opens other groups."""
    x = np.random.default_rng(seed).normal(size=(6, 9))
    groups = {"a": {"b": {"c": [0, 1], "d": [2]}, "e": [3], "f": [4]}, "g": [5], "h": [6, 7, 8]}

    def curved(rows: Any) -> Any:
        return smooth(rows[:, :5]) + np.abs(rows[:, 5:].sum(axis=1)) * rows[:, 3]

    asked: list[int] = []

    def model(rows: Any) -> Any:
        asked.append(len(rows))
        return curved(rows)

    explainer = Explainer(model, np.zeros(9), groups=groups, method="coarse-to-fine")
    together = explainer(x, budget=budget)
    spent = sum(asked) - together.check_evaluations
    alone = [explainer(x[[row]], budget=budget) for row in range(6)]
    values = np.concatenate([answer.values for answer in alone])
    np.testing.assert_allclose(together.values, values, atol=1e-12)
    each = [answer.evaluations for answer in alone]
    assert together.evaluations == max(each) <= budget
    assert spent == sum(each)


@pytest.mark.slow
def test_intervals_cover() -> None:
    inside = []
    for seed in range(40):
        weights = np.random.default_rng(seed).normal(size=(2, 16))

        def value(sets: Any, weights: Any = weights) -> Any:
            return np.tanh(sets @ weights[0]) * (1 + sets @ weights[1])

        truth = explain_game(value, players=16, groups=halves(range(16)), method="exact")
        for budget in (8, 16, 64):
            answer = explain_game(value, players=16, groups=halves(range(16)), budget=budget)
            low, high = answer.interval()
            inside.append((low <= truth.values) & (truth.values <= high))
    assert np.mean(inside) > 0.9


# Models


def test_columns_of_a_frame_by_their_names() -> None:
    frame = pd.DataFrame(X, columns=COLUMNS)
    home = dict.fromkeys(["street", "city"])
    answer = Explainer(smooth, frame[:1], groups={"home": {"place": home, "rooms": [2]}})(frame[5:])
    assert answer.feature_names == COLUMNS
    assert answer.hierarchy == (("home", "place"), ("home", "place"), ("home",), (), ())
    folded = answer.fold()
    assert folded.feature_names == ["home", "age", "pay"]
    assert folded.groups == {"home": ["street", "city", "rooms"]}
    assert "home" in str(folded)
    np.testing.assert_allclose(folded.gap, 0, atol=1e-12)
    again = Explanation.concat([answer[:3], answer[3:]])
    assert again.hierarchy == answer.hierarchy


def test_pictures_show_the_group_beside_the_feature() -> None:
    frame = pd.DataFrame(X, columns=COLUMNS)
    groups = {"home": dict.fromkeys(["street", "rooms"]), "who": dict.fromkeys(["age", "pay"])}
    answer = Explainer(smooth, frame[:1], groups=groups)(frame[5:6])
    names = [step.name for step in views.waterfall(answer, 0, 10).steps]
    assert {"home: street", "home: rooms", "who: age", "who: pay", "city"} == set(names)
    homes = [place for place, name in enumerate(names) if name.startswith("home")]
    assert homes[1] == homes[0] + 1
    for shown in (answer, answer.fold()):
        for plot in (plots.waterfall, plots.bar):
            plot(shown)
            plt.close()
        assert "home" in (shown._repr_html_() + str(shown)) or shown is answer


def test_saved_explanations_keep_the_hierarchy(tmp_path: Any) -> None:
    answer = Explainer(smooth, X[:1], groups=linkage(X.T))(X[:2])
    answer.save(tmp_path / "answer.npz")
    assert Explanation.load(tmp_path / "answer.npz").hierarchy == answer.hierarchy


def test_several_background_rows_are_averaged() -> None:
    groups = {"left": {"x0": [0], "x1": [1]}, "right": {"x2": [2], "x3": [3]}}
    exact = Explainer(smooth, X[:6], groups=groups, method="exact")(X[10:14])
    single = [
        Explainer(smooth, X[row], groups=groups, method="exact")(X[10:14]).values
        for row in range(6)
    ]
    np.testing.assert_allclose(exact.values, np.mean(single, axis=0), atol=1e-9)
    drawn = Explainer(smooth, X[:6], groups=groups)(X[10:14], budget=80)
    np.testing.assert_allclose(drawn.gap, 0, atol=1e-9)


def test_trees_are_sampled_and_linear_models_stay_exact() -> None:
    groups = {"left": {"x0": [0], "x1": [1]}, "right": {"x2": [2], "x3": [3]}}
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, smooth(X))
    ours = Explainer(forest, X[:3], groups=groups)(X[:4], budget=10_000)
    truth = Explainer(forest.predict, X[:3], groups=groups, method="exact")(X[:4])
    np.testing.assert_allclose(ours.values, truth.values, atol=1e-9)
    assert Explainer(forest, groups=groups)(X[:4]).background is not None
    line = LinearRegression().fit(X, smooth(X))
    assert Explainer(line, X[:3], groups=groups)(X[:4]).method == "exact (linear)"


# Refusals


@pytest.mark.parametrize("method", ["kernel", "leverage", "shear", "kriging"])
def test_methods_that_do_not_know_hierarchies_name_those_that_do(method: str) -> None:
    with pytest.raises(
        MethodError, match=r"does not support hierarchies .* auto, exact, permutation"
    ):
        solved(random_table(6, 0), groups=NESTED, method=method)


def not_a_tree() -> Any:
    twice = linkage(X.T)
    twice[1, 0] = twice[0, 0]
    return twice


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (lambda: {"a": {"b": {}}, "c": [0]}, "group 'b' is empty"),
        (lambda: {"a": {"b": []}}, "group 0 needs a list of input columns"),
        (lambda: {"a": {"b": [0, 1], "c": [1]}}, "column 1 is in groups"),
        (lambda: {"a": {"b": [0]}, "c": {"b": [1]}}, "two features are called 'b'"),
        (lambda: {"a": {"b": None}}, "there is no column 'b'"),
        (not_a_tree, r"linkage matrix of 5 columns, of shape \(4, 4\), that joins every column"),
        (lambda: linkage(X[:, :3].T), r"linkage matrix of 5 columns, of shape \(4, 4\)"),
    ],
)
def test_what_is_no_hierarchy_is_refused(groups: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Explainer(smooth, X[:1], groups=groups())(X[:2])


def test_interactions_and_folds_without_a_hierarchy_are_refused() -> None:
    with pytest.raises(InputError, match="not defined for a hierarchy"):
        solved(random_table(6, 0), groups=NESTED, interactions=True)
    with pytest.raises(InputError, match="no hierarchy; explain with nested groups="):
        solved(random_table(4, 0)).fold()
    with pytest.raises(InputError, match="expected a depth of 1, 2"):
        solved(random_table(6, 0), groups=NESTED).fold(0)
