"""Exact values of forests, against all coalitions through the forest's own predictions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from random_forests import (
    SHAPES,
    Grower,
    coalition_values,
    enumerated_interactions,
    enumerated_values,
    random_forest,
    random_rows,
)
from shearshap.trees import choosing, exact_trees, gpu_tables, lanes, leaf_tables, unit_tables, walk
from shearshap.trees.coefficients import coefficients
from shearshap.trees.exact_trees import ExactTrees
from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.layout import lay_out

COLUMNS = 7
OWNERS = {
    "columns": np.arange(COLUMNS),
    "groups": np.array([2, 0, 1, 0, 2, 3, 2]),
    "one player": np.zeros(COLUMNS, dtype=np.int64),
}
WAYS = ("tables", "compiled walk", "walk")


def force(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Let all trees be solved in one way."""
    if way == "compiled walk":
        pytest.importorskip("numba")

    def choose(layout: object, *numbers: int) -> choosing.Choice:
        choice = choosing.choose(layout, *numbers)  # type: ignore[arg-type]
        return replace(choice, way=[way] * len(choice.way))

    monkeypatch.setattr(exact_trees, "choose", choose)


def even(background: Floats) -> Floats:
    return np.full(len(background), 1 / len(background))


def check(
    forest: Forest,
    owner: Integers,
    players: int,
    seen: Floats,
    background: Floats,
    weights: Floats | None = None,
) -> None:
    """Compare values, interactions and the expected output with all coalitions."""
    weigh = even(background) if weights is None else weights
    game = coalition_values(forest, owner, players, seen, background, weigh)
    prepared = ExactTrees(
        forest, owner, players, background, weights, rows=len(seen), interactions=True
    )
    np.testing.assert_allclose(prepared.expected, game[0, 0], atol=1e-12)
    values = enumerated_values(game, players)
    np.testing.assert_allclose(prepared.values(seen), values, atol=1e-10)
    pairs = enumerated_interactions(game, players)
    np.testing.assert_allclose(prepared.interactions(seen), pairs, atol=1e-10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_values_are_those_of_all_coalitions(
    shape: str, owner: Integers, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, way)
    players = int(owner.max()) + 2  # one owns nothing
    seen = random_rows(5, COLUMNS, seed=1)
    background = random_rows(6, COLUMNS, seed=2)
    for outputs in (1, 3):
        check(random_forest(shape, COLUMNS, outputs), owner, players, seen, background)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.sampled_from(SHAPES),
    outputs=st.integers(1, 3),
    rows=st.integers(1, 4),
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=4).filter(lambda some: sum(some) > 0.1),
    owner=st.lists(st.integers(0, 4), min_size=COLUMNS, max_size=COLUMNS),
    seed=st.integers(0, 10**6),
)
def test_any_forest_any_groups_any_weights(
    shape: str, outputs: int, rows: int, weights: list[float], owner: list[int], seed: int
) -> None:
    forest = random_forest(shape, COLUMNS, outputs, seed)
    weigh = np.array(weights) / sum(weights)
    background = random_rows(len(weigh), COLUMNS, seed + 1)
    seen = random_rows(rows, COLUMNS, seed + 2)
    check(forest, np.array(owner), 5, seen, background, weigh)


@pytest.mark.parametrize("way", WAYS)
def test_ten_outputs_that_trees_have_one_each_of(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, way)
    grower = Grower(COLUMNS, outputs=10, seed=3)
    grower.roots = [grower.node(4, output=number % 10) for number in range(20)]
    seen = random_rows(3, COLUMNS, seed=4)
    check(grower.forest(), np.arange(COLUMNS), COLUMNS, seen, random_rows(2, COLUMNS, seed=5))


@pytest.mark.parametrize("way", ["tables", "compiled walk"])
def test_all_ways_agree(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = random_forest("mixed", columns=12, outputs=2, seed=6)
    owner = np.arange(12)
    seen = random_rows(200, 12, seed=7)
    background = random_rows(30, 12, seed=8)
    force(monkeypatch, "walk")
    plain = ExactTrees(forest, owner, 12, background, rows=200, interactions=True)
    force(monkeypatch, way)
    other = ExactTrees(forest, owner, 12, background, rows=200, interactions=True)
    np.testing.assert_allclose(other.values(seen), plain.values(seen), atol=1e-12)
    pairs = plain.interactions(seen[:20])
    np.testing.assert_allclose(other.interactions(seen[:20]), pairs, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_rows_in_any_split_give_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, way)
    forest = random_forest("mixed", COLUMNS, seed=9)
    background = random_rows(5, COLUMNS, seed=10)
    seen = random_rows(150, COLUMNS, seed=11)
    prepared = ExactTrees(forest, np.arange(COLUMNS), COLUMNS, background, rows=150)
    whole = prepared.values(seen)
    parts = [prepared.values(seen[start : start + 37]) for start in range(0, 150, 37)]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-13)
    assert prepared.values(seen[:0]).shape == (0, COLUMNS, 1)


@pytest.mark.parametrize("way", WAYS)
def test_small_memory_gives_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, way)
    forest = random_forest("mixed", COLUMNS, outputs=2, seed=12)
    background = random_rows(20, COLUMNS, seed=13)
    seen = random_rows(80, COLUMNS, seed=14)

    def values() -> tuple[Floats, Floats]:
        prepared = ExactTrees(
            forest, np.arange(COLUMNS), COLUMNS, background, rows=80, interactions=True
        )
        return prepared.values(seen), prepared.interactions(seen[:9])

    roomy = values()
    monkeypatch.setattr(exact_trees, "NODES", 100)
    monkeypatch.setattr(exact_trees, "KEPT", 0)
    monkeypatch.setattr(choosing, "TOGETHER", 1000)
    monkeypatch.setattr(lanes, "ANSWERS", 1000)
    monkeypatch.setattr(unit_tables, "SCRATCH", 1000)
    monkeypatch.setattr(unit_tables, "CACHED", 1000)
    monkeypatch.setattr(unit_tables, "ROWS", 16)
    monkeypatch.setattr(walk, "STATES", 1000)
    monkeypatch.setattr(walk, "CELLS", 1000)
    for found, expected in zip(values(), roomy, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_background_of_ten_thousand_rows_is_the_mean_of_its_parts() -> None:
    forest = random_forest("shallow", COLUMNS, seed=15)
    background = random_rows(10_000, COLUMNS, seed=16)
    seen = random_rows(20, COLUMNS, seed=17)

    def values(some: Floats) -> Floats:
        return ExactTrees(forest, np.arange(COLUMNS), COLUMNS, some, rows=20).values(seen)

    halves = values(background[:4000]) * 0.4 + values(background[4000:]) * 0.6
    np.testing.assert_allclose(values(background), halves, atol=1e-12)


@pytest.mark.parametrize("way", ["compiled walk", "walk"])
def test_more_players_on_a_path_than_a_word_has_bits(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, way)
    players = 150
    grower = Grower(players, outputs=1, seed=18, questions=players)
    chain = replace(grower.decisions, column=np.arange(players))
    grower.decisions = chain
    grower.roots = [grower.chain(list(range(players)))]
    forest = grower.forest()
    seen = np.full((2, players), 9.0)
    background = np.full((1, players), -9.0)
    background[0, 100:] = 9.0  # only a hundred players differ

    prepared = ExactTrees(forest, np.arange(players), players, background, rows=2)
    values = prepared.values(seen)[0, :, 0]

    # v(S) is the leaf of the first of the hundred that is absent: with q = the players before it
    # and itself as u, or with q = all hundred at the end of the chain
    leaves = forest.value[forest.left[forest.left >= 0], 0]
    end = forest.predict(seen[:1])[0, 0]
    expected = np.zeros(players)
    factors = coefficients(100)
    for first in range(100):
        expected[:first] += leaves[first] * factors.present[first, 1]
        expected[first] -= leaves[first] * factors.absent[first, 1]
    expected[:100] += end * factors.present[100, 0]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_wide_forests_have_tables_of_few_columns() -> None:
    columns = 200
    grower = Grower(columns, outputs=1, seed=19, questions=500)
    grower.roots = [grower.node(3, chance=1) for _ in range(12)]
    forest = grower.forest()
    owner = np.arange(columns)
    background = random_rows(4, columns, seed=20)
    layout = lay_out(forest, owner, np.arange(12))
    made = unit_tables.Tables(layout, columns, background, even(background))
    seen = random_rows(30, columns, seed=21)
    sums = np.zeros((30, columns, 1))
    made.add(seen, sums)
    plain = np.zeros((30, columns, 1))
    walk.Walk(layout, columns, background, even(background)).add(seen, plain)
    np.testing.assert_allclose(sums, plain, atol=1e-12)
    used = sum(product.table.shape[1] for product in made.products)
    assert used < len(np.unique(layout.player)) + 50


# How trees are solved


def ways(rows: int, shape: str, background: int) -> set[str]:
    forest = random_forest(shape, columns=30, seed=22)
    seen = random_rows(background, 30, seed=23)
    prepared = ExactTrees(forest, np.arange(30), 30, seen, rows=rows)
    return {part.way for part in prepared._parts}


def test_one_row_takes_the_walk_and_many_rows_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "start_of_numba", lambda: 1e9)
    assert ways(rows=1, shape="bushy", background=1) == {"walk"}
    assert ways(rows=10_000, shape="bushy", background=100) == {"tables"}


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "start_of_numba", lambda: np.inf)
    assert ways(rows=100, shape="chains", background=10) <= {"walk", "tables"}


def test_a_few_deep_trees_do_not_start_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    grower = Grower(30, outputs=1, seed=29, questions=30)
    grower.decisions = replace(grower.decisions, column=np.arange(30))
    grower.roots = [grower.node(3, chance=1) for _ in range(50)]
    grower.roots.append(grower.chain(list(range(20))))  # too many players for a table
    layout = lay_out(grower.forest(), np.arange(30), np.arange(51))
    for start, compiled in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(choosing, "start_of_numba", lambda start=start: start)
        way = choosing.choose(layout, 51, 30_000, 1).way
        assert ("compiled walk" in way) == compiled


def test_every_tree_is_counted_once() -> None:
    forest = random_forest("mixed", COLUMNS, seed=24)
    ready: list[int] = []
    background = random_rows(2, COLUMNS, seed=25)
    ExactTrees(forest, np.arange(COLUMNS), COLUMNS, background, rows=10, advance=ready.append)
    assert sum(ready) == len(forest.roots)


# Tables of leaves


@pytest.mark.parametrize("players", [4, 5, 9])
def test_matrices_and_transforms_give_the_same(
    players: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = np.random.default_rng(26).random((3, 1 << players))
    monkeypatch.setattr(leaf_tables, "SMALL", 20)
    by_matrix = leaf_tables.leaf_values(weights, players)
    pairs_by_matrix = leaf_tables.leaf_interactions(weights, players)
    monkeypatch.setattr(leaf_tables, "SMALL", 3)
    by_transform = leaf_tables.leaf_values(weights, players)
    np.testing.assert_allclose(by_transform, by_matrix, atol=1e-12 * weights.sum())
    pairs = leaf_tables.leaf_interactions(weights, players)
    np.testing.assert_allclose(pairs, pairs_by_matrix, atol=1e-12 * weights.sum())


def test_an_oblivious_tree_is_one_unit() -> None:
    grower = Grower(COLUMNS, outputs=1, seed=27)
    grower.roots = [grower.oblivious(6), grower.oblivious(7)]
    layout = lay_out(grower.forest(), np.arange(COLUMNS), np.arange(2))
    background = random_rows(3, COLUMNS, seed=28)
    made = unit_tables.Tables(layout, COLUMNS, background, even(background))
    assert made.units.bits.tolist() == [6, 7]


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.cuda,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here"),
            ],
        ),
    ],
)
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("shape", ["mixed", "oblivious"])
def test_look_ups_by_torch_are_those_of_numpy(
    shape: str, pairs: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_tables, "ROWS", 8)  # several blocks
    owner = OWNERS["groups"]
    forest = random_forest(shape, COLUMNS, seed=4)
    layout = lay_out(forest, owner, np.arange(len(forest.roots)))
    background = random_rows(6, COLUMNS, seed=5)
    tables = unit_tables.Tables(layout, 4, background, even(background), pairs=pairs)

    seen = random_rows(20, COLUMNS, seed=6)
    cells = 16 if pairs else 4
    by_numpy = np.zeros((len(seen), cells, forest.outputs))
    tables.add(seen, by_numpy)
    by_torch = np.zeros_like(by_numpy)
    gpu_tables.GpuTables(tables, torch.device(device)).add(seen, by_torch)
    np.testing.assert_allclose(by_torch, by_numpy, atol=1e-13)
    assert np.abs(by_numpy).max() > 0
