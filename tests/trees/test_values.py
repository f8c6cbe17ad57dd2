"""Exact values of forests, against all coalitions through the forest's own predictions."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from definitions import pairs_of
from games import exact_shares
from shearshap.trees import leaves, tables, walk
from shearshap.trees import values as tree_values
from shearshap.trees.forest import Decisions, Floats, Forest, Integers
from shearshap.trees.leaves import coefficients
from shearshap.trees.values import ExactTrees


class Grower:
    """Collects the nodes of random trees."""

    def __init__(self, columns: int, outputs: int, seed: int, questions: int = 40) -> None:
        self.rng = np.random.default_rng(seed)
        self.outputs = outputs
        self.decisions = Decisions(
            column=np.sort(self.rng.integers(columns, size=questions)),
            threshold=self.rng.normal(size=questions).round(1),
            missing_left=self.rng.random(questions) < 0.5,
        )
        self.left: list[int] = []
        self.right: list[int] = []
        self.decision: list[int] = []
        self.value: list[Floats] = []
        self.roots: list[int] = []

    def leaf(self, output: int | None = None) -> int:
        """Add a leaf, with a value for all outputs or for one."""
        value = self.rng.normal(size=self.outputs)
        if output is not None:
            value = np.where(np.arange(self.outputs) == output, value, 0)
        return self._add(-1, value)

    def node(self, depth: int, chance: float = 0.8, output: int | None = None) -> int:
        """Add a random subtree, at most so deep."""
        if depth == 0 or self.rng.random() > chance:
            return self.leaf(output)
        here = self._add(int(self.rng.integers(len(self.decisions))), np.zeros(self.outputs))
        self.left[here] = self.node(depth - 1, chance, output)
        self.right[here] = self.node(depth - 1, chance, output)
        return here

    def oblivious(self, decisions: list[int]) -> int:
        """Add a tree whose nodes of one depth take one decision."""
        if not decisions:
            return self.leaf()
        here = self._add(decisions[0], np.zeros(self.outputs))
        self.left[here] = self.oblivious(decisions[1:])
        self.right[here] = self.oblivious(decisions[1:])
        return here

    def chain(self, decisions: list[int]) -> int:
        """Add a tree with a leaf to the left of each node."""
        if not decisions:
            return self.leaf()
        here = self._add(decisions[0], np.zeros(self.outputs))
        self.left[here] = self.leaf()
        self.right[here] = self.chain(decisions[1:])
        return here

    def _covers(self) -> Floats:
        """Return random covers of leaves; no training data reached some of them."""
        rng = np.random.default_rng(len(self.left))
        cover = rng.exponential(size=len(self.left)) * (rng.random(len(self.left)) < 0.9)
        cover[np.array(self.left) >= 0] = 0.0
        starts = np.array(self.roots, dtype=np.int64)
        sizes = np.diff([*starts, len(cover)])
        empty = np.repeat(np.add.reduceat(cover, starts) == 0, sizes) if len(starts) else ()
        return np.where(empty, np.array(self.left) < 0, cover) if len(starts) else cover

    def _add(self, decision: int, value: Floats) -> int:
        self.left.append(-1)
        self.right.append(-1)
        self.decision.append(decision)
        self.value.append(value)
        return len(self.left) - 1

    def forest(self) -> Forest:
        """Return the trees whose roots were noted."""
        return Forest(
            left=np.array(self.left, dtype=np.int64),
            right=np.array(self.right, dtype=np.int64),
            decision=np.array(self.decision, dtype=np.int64),
            value=np.array(self.value, dtype=np.float64).reshape(-1, self.outputs),
            cover=self._covers(),
            roots=np.array(self.roots, dtype=np.int64),
            decisions=self.decisions,
        )


SHAPES = ("stumps", "shallow", "bushy", "deep", "oblivious", "leaves", "chains", "mixed", "none")


def random_forest(shape: str, columns: int, outputs: int = 1, seed: int = 0) -> Forest:
    """Return a few trees of a shape."""
    grower = Grower(columns, outputs, seed)
    kinds = SHAPES[:-2] if shape == "mixed" else (shape,)
    for kind in kinds:
        for number in range(0 if shape == "none" else 3):
            grower.roots.append(_tree(grower, kind, number % outputs))
    return grower.forest()


def _tree(grower: Grower, shape: str, output: int) -> int:
    if shape == "oblivious":
        depth = int(grower.rng.integers(1, 7))
        return grower.oblivious(grower.rng.integers(len(grower.decisions), size=depth).tolist())
    if shape == "chains":
        return grower.chain(grower.rng.integers(len(grower.decisions), size=15).tolist())
    if shape == "leaves":
        return grower.leaf()
    if shape == "stumps":
        return grower.node(1, chance=1)
    if shape == "shallow":
        return grower.node(3, output=output)
    return grower.node(5, chance=0.95) if shape == "bushy" else grower.node(12, chance=0.75)


def random_rows(rows: int, columns: int, seed: int, missing: float = 0.1) -> Floats:
    """Return rows with ties to the thresholds and with missing values."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(rows, columns)).round(1)
    return np.where(rng.random(seen.shape) < missing, np.nan, seen)


# All coalitions


def coalition_values(
    forest: Forest, owner: Integers, players: int, seen: Floats, background: Floats, weights: Floats
) -> Floats:
    """Return v(S) (r, 2^p, k) through the forest's predictions; bit i of S is player i."""
    members = (np.arange(1 << players)[:, None] >> np.arange(players)) & 1
    present = members[:, owner].astype(bool)
    games = []
    for row in seen:
        mixed = np.where(present[:, None], row, background)
        output = forest.predict(mixed.reshape(-1, seen.shape[1]))
        games.append(weights @ output.reshape(1 << players, len(background), -1))
    return np.array(games).reshape(len(seen), 1 << players, forest.outputs)


def cover_coalition_values(forest: Forest, owner: Integers, players: int, seen: Floats) -> Floats:
    """Return v(S) (r, 2^p, k) by the definition: absent players go both ways, by the covers."""
    present = ((np.arange(1 << players)[:, None] >> np.arange(players)) & 1).astype(bool)
    right = forest.decisions.go_right(seen)

    def cover(node: int) -> float:
        if forest.left[node] < 0:
            return float(forest.cover[node])
        return cover(forest.left[node]) + cover(forest.right[node])

    def expected(node: int, row: int) -> Floats:
        left, after = forest.left[node], forest.right[node]
        if left < 0:
            return np.broadcast_to(forest.value[node], (1 << players, forest.outputs))
        both = cover(node)
        part = cover(left) / both if both > 0 else 0.5
        decision = forest.decision[node]
        values = (expected(left, row), expected(after, row))
        absent = part * values[0] + (1 - part) * values[1]
        player = owner[forest.decisions.column[decision]]
        return np.where(present[:, [player]], values[right[decision, row]], absent)

    shape = (len(seen), 1 << players, forest.outputs)
    sums = [sum(expected(root, row) for root in forest.roots) for row in range(len(seen))]
    return np.array([np.broadcast_to(total, shape[1:]) for total in sums]).reshape(shape)


# Against all coalitions

COLUMNS = 5
OWNERS = {
    "columns": np.arange(COLUMNS),
    "groups": np.array([2, 0, 1, 0, 3]),
    "one player": np.zeros(COLUMNS, dtype=np.int64),
}
# numba compiles for seconds, and once for each worker
COMPILED = pytest.param(
    "compiled walk", marks=[pytest.mark.slow, pytest.mark.xdist_group("compiled")]
)
WAYS = ("tables", COMPILED, "walk")
CHOOSE = tree_values.choose


def force(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Let all trees be solved in one way."""
    if way == "compiled walk":
        pytest.importorskip("numba")

    def choose(layout: object, *numbers: int) -> tree_values.Choice:
        choice = CHOOSE(layout, *numbers)  # type: ignore[arg-type]
        return replace(choice, way=[way] * len(choice.way))

    monkeypatch.setattr(tree_values, "choose", choose)


def check(
    forest: Forest,
    owner: Integers,
    players: int,
    seen: Floats,
    background: Floats | None,
    weights: Floats | None = None,
) -> None:
    """Compare values and interactions with all coalitions."""
    if background is None:
        game = cover_coalition_values(forest, owner, players, seen)
        np.testing.assert_allclose(game[:, 0], np.tile(forest.mean, (len(seen), 1)), atol=1e-10)
    else:
        weigh = np.full(len(background), 1 / len(background)) if weights is None else weights
        game = coalition_values(forest, owner, players, seen, background, weigh)
    prepared = ExactTrees(
        forest, owner, players, background, weights, rows=len(seen), interactions=True
    )
    table = game.swapaxes(0, 1)  # (2^p, r, k)
    values = exact_shares(table).swapaxes(0, 1)
    np.testing.assert_allclose(prepared.values(seen), values, atol=1e-10)
    pairs = np.moveaxis(pairs_of(table), 2, 0)
    np.testing.assert_allclose(prepared.interactions(seen), pairs, atol=1e-10)
    differences = np.moveaxis(second_differences_of(table), 2, 0)
    np.testing.assert_allclose(prepared.second_differences(seen), differences, atol=1e-10)


def second_differences_of(table: Floats) -> Floats:
    """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (p, p, r, k), of all coalitions (2^p, r, k)."""
    full = len(table) - 1
    players = full.bit_length()
    found = np.zeros((players, players, *table.shape[1:]))
    for i in range(players):
        for j in range(players):
            a, b = 1 << i, 1 << j
            if i != j:
                found[i, j] = table[full] - table[full ^ a] - table[full ^ b] + table[full ^ a ^ b]
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_values_are_those_of_all_coalitions(
    shape: str, owner: Integers, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, way)
    players = int(owner.max()) + 2  # one owns nothing
    seen = random_rows(4, COLUMNS, seed=1)
    background = random_rows(4, COLUMNS, seed=2)
    for outputs in (1, 3):
        check(random_forest(shape, COLUMNS, outputs), owner, players, seen, background)
        check(random_forest(shape, COLUMNS, outputs), owner, players, seen, None)


@settings(max_examples=12)
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
    check(forest, np.array(owner), 5, seen, None)


@pytest.mark.parametrize("way", WAYS)
def test_small_memory_gives_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, way)
    forest = random_forest("mixed", COLUMNS, outputs=2, seed=12)
    background = random_rows(5, COLUMNS, seed=13)
    seen = random_rows(70, COLUMNS, seed=14)

    def values() -> tuple[Floats, Floats]:
        prepared = ExactTrees(
            forest, np.arange(COLUMNS), COLUMNS, background, rows=70, interactions=True
        )
        return prepared.values(seen), prepared.interactions(seen[:9])

    roomy = values()
    monkeypatch.setattr(tree_values, "MAX_NODES", 100)
    monkeypatch.setattr(tree_values, "MAX_KEPT_BYTES", 0)
    monkeypatch.setattr(tree_values, "MAX_BATCH_BYTES", 1000)
    if way == "compiled walk":
        from shearshap.trees import compiled

        monkeypatch.setattr(compiled, "MAX_ANSWER_BYTES", 1000)
    monkeypatch.setattr(tables, "SCRATCH", 1000)
    monkeypatch.setattr(tables, "CACHED", 1000)
    monkeypatch.setattr(tables, "ROWS", 16)
    monkeypatch.setattr(walk, "STATES", 24)
    monkeypatch.setattr(walk, "CELLS", 1000)
    for found, expected in zip(values(), roomy, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("way", [COMPILED, "walk"])
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


# numba's cache


@pytest.mark.parametrize("chosen", [True, False])
def test_what_numba_compiled_is_found_where_numba_keeps_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: bool
) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "shearshap.trees.compiled", raising=False)
    monkeypatch.setattr(tree_values, "__file__", str(tmp_path / "trees" / "values.py"))
    if chosen:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    else:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    kind = "UserProvidedCacheLocator" if chosen else "InTreeCacheLocator"
    locator = getattr(caching, kind)(force, str(tmp_path / "trees" / "compiled.py"))

    before = tree_values.start_of_numba()
    folder = Path(locator.get_cache_path())
    folder.mkdir(parents=True)
    (folder / "compiled.walk-64.py311.nbi").touch()
    assert tree_values.start_of_numba() < before


# Progress


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
    monkeypatch.setattr(leaves, "MAX_MATRIX_PLAYERS", 20)
    by_matrix = leaves.leaf_values(weights, players)
    pairs_by_matrix = leaves.leaf_interactions(weights, players)
    monkeypatch.setattr(leaves, "MAX_MATRIX_PLAYERS", 3)
    by_transform = leaves.leaf_values(weights, players)
    np.testing.assert_allclose(by_transform, by_matrix, atol=1e-12 * weights.sum())
    pairs = leaves.leaf_interactions(weights, players)
    np.testing.assert_allclose(pairs, pairs_by_matrix, atol=1e-12 * weights.sum())
