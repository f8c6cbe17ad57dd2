"""Any budget: other libraries take every number of evaluations, and most methods need a few.

A method that cannot work with a budget gives way to one that can, and a warning says so: kriging
down to four evaluations, or one for every four players, then a permutation of blocks. The budget is
kept, down to the two evaluations of the empty and the full coalition. What kriging itself warns of,
where there are fewer evaluations than players, is passed on.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import BudgetError, ShearWarning, level_of_caller
from shearshap.games.coalitions import with_ends
from shearshap.games.game import GameInfo
from shearshap.methods import Auto
from shearshap.methods.base import Design, Estimate, Method, Promise, as_tensor
from shearshap.result.explanation import Explanation

Explain = Callable[[str | Method, int], Explanation]
"""Explains by a method, within a budget."""


def explained_within(budget: int, method: str | Method, explain: Explain) -> Explanation:
    """Return an explanation within any positive budget, by the method or, if need be, another."""
    try:
        return explain(method, budget)
    except BudgetError as error:
        if error.nearest is None:
            raise
        problem = error

    assert problem.nearest is not None
    if problem.nearest < budget:
        _warn(f"{problem}; {problem.nearest} were used")
        return explained_within(problem.nearest, method, explain)

    explanation = _explained_by_another(budget, explain)
    _warn(
        f"{problem}; {explanation.method} took its place, with {explanation.evaluations} "
        "evaluations"
    )
    return explanation


def _explained_by_another(budget: int, explain: Explain) -> Explanation:
    try:
        return explain(Auto(), budget)
    except BudgetError:
        return explained_within(max(budget, 2), Blocks(), explain)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, ShearWarning, stacklevel=level_of_caller())


# The method that needs the least


@dataclass(frozen=True, repr=False)
class Blocks(Method):
    """Players join in one random order, block by block, and a block's gain is split equally.

    For five players in the order 3 0 4 1 2, and a budget of 4:

        coalition    none   {3, 0}   {3, 0, 4, 1}   all
        block               3 0      4 1            2

    With more evaluations than players, every block is a single player: one permutation. With two
    evaluations there is one block, and all players have the same value.
    """

    def __repr__(self) -> str:
        """Return the name that explanations report."""
        return "a permutation of blocks"

    @property
    def promises(self) -> frozenset[Promise]:
        """The gains of all blocks add up."""
        return frozenset({"efficiency"})

    def minimum(self, _game: GameInfo) -> int:
        """Return 2, the empty and the full coalition."""
        return 2

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design of as many blocks as the budget allows, of equal sizes up to one."""
        count = min(budget - 1, game.players)
        blocks = np.array_split(rng.permutation(game.players), count)

        block = np.empty(game.players, dtype=np.int64)
        for number, members in enumerate(blocks):
            block[members] = number

        joined = block < np.arange(1, count)[:, None]
        return JoiningBlocks(with_ends(as_tensor(joined, game)[None]), as_tensor(block, game))


@dataclass(frozen=True)
class JoiningBlocks(Design):
    """The two ends, then the unions of the first 1, 2, ... blocks."""

    coalitions: Tensor  #: (1, c, p)
    block: Tensor  #: (p,) the number of each player's block

    def estimate(self, values: Tensor) -> Estimate:
        """Return each player's part of its block's gain."""
        empty = values[:, :1]
        full = values[:, 1:2]
        gains = torch.cat((empty, values[:, 2:], full), dim=1).diff(dim=1)

        sizes = self.block.bincount()
        equal_parts = gains / sizes[:, None]
        return Estimate(equal_parts[:, self.block])
