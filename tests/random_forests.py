"""Random forests of every shape, and their exact values by all coalitions."""

from itertools import combinations
from math import factorial

import numpy as np

from shearshap.trees.forest import Decisions, Floats, Forest, Integers


class Grower:
    """Collects the nodes of random trees."""

    def __init__(self, columns: int, outputs: int, seed: int, questions: int = 40) -> None:
        self.rng = np.random.default_rng(seed)
        self.outputs = outputs
        self.decisions = Decisions(
            column=self.rng.integers(columns, size=questions),
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

    def oblivious(self, depth: int) -> int:
        """Add a tree whose nodes of one depth take one decision."""
        return self._oblivious(self.rng.integers(len(self.decisions), size=depth).tolist())

    def chain(self, decisions: list[int]) -> int:
        """Add a tree with a leaf to the left of each node."""
        if not decisions:
            return self.leaf()
        here = self._add(decisions[0], np.zeros(self.outputs))
        self.left[here] = self.leaf()
        self.right[here] = self.chain(decisions[1:])
        return here

    def _oblivious(self, decisions: list[int]) -> int:
        if not decisions:
            return self.leaf()
        here = self._add(decisions[0], np.zeros(self.outputs))
        self.left[here] = self._oblivious(decisions[1:])
        self.right[here] = self._oblivious(decisions[1:])
        return here

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
        return grower.oblivious(depth=int(grower.rng.integers(1, 7)))
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


def enumerated_values(game: Floats, players: int) -> Floats:
    """Return the Shapley values (r, p, k) of coalition values (r, 2^p, k), by their definition."""
    values = np.zeros((len(game), players, game.shape[2]))
    for player in range(players):
        others = [other for other in range(players) if other != player]
        for coalition in _subsets(others):
            size = coalition.bit_count()
            factor = factorial(size) * factorial(players - size - 1) / factorial(players)
            values[:, player] += factor * (game[:, coalition | 1 << player] - game[:, coalition])
    return values


def enumerated_interactions(game: Floats, players: int) -> Floats:
    """Return the pairs' Shapley interaction indices (r, p, p, k), by their definition."""
    found = np.zeros((len(game), players, players, game.shape[2]))
    for first, second in combinations(range(players), 2):
        one = 1 << first
        two = 1 << second
        others = [other for other in range(players) if other not in (first, second)]
        for coalition in _subsets(others):
            size = coalition.bit_count()
            factor = factorial(size) * factorial(players - size - 2) / factorial(players - 1)
            together = game[:, coalition | one | two] + game[:, coalition]
            apart = game[:, coalition | one] + game[:, coalition | two]
            found[:, first, second] += factor * (together - apart)
        found[:, second, first] = found[:, first, second]
    return found


def _subsets(players: list[int]) -> list[int]:
    subsets = [0]
    for player in players:
        subsets += [subset | 1 << player for subset in subsets]
    return subsets
