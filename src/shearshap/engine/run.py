"""What to explain, and how: a model's options, and the method, budget and when to stop.

Options    all that is set once for many calls: the model, its background, players, outputs
Task       options, and the rows of one call
Run        the method, the budget and when to stop, checked before anything is spent
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import ceil, inf, sqrt
from typing import Any, Literal, get_args

import torch

from shearshap.data import Background, Groups
from shearshap.data.kept import kept_background
from shearshap.data.texts import TextGroups
from shearshap.errors import BudgetError, InputError, MethodError
from shearshap.games.game import Game, coalition_count
from shearshap.games.indices import SHAPLEY, InteractionName, Semivalue
from shearshap.games.loss import Loss
from shearshap.games.marginal import ModelGame
from shearshap.methods import METHODS, Exact, name_of, resolve
from shearshap.methods.base import Method
from shearshap.methods.exact import MAX_PLAYERS
from shearshap.models import Form, Output, Scale
from shearshap.numbers import check_positive, positive_int

DEFAULT_A_PLAYER = 16
"""Evaluations a player, for one row, if the user sets no budget; at most all coalitions."""

MAX_DEFAULT_BACKGROUND_ROWS = 100
"""Background rows, at most, that are drawn for a row if the user sets no budget."""

MIN_SPREAD_ROWS = 8
"""Background rows from which on the spread of their answers shows an error."""

MAX_LISTED = 1 << 4
"""Enumerate per background row up to this many coalitions, if there is no budget."""

MAX_WITH_TOLERANCE = 1 << 13
"""Coalitions of a row at most, if the user sets a tolerance and no budget.

Kriging's equations take some seconds there. With more than 128 players it is four times the usual.
"""

MAX_DEFAULT_EXACT = 1 << 16
"""Evaluations a row that exact spends without a budget: those of 16 players."""

MAX_DRAWN = 1 << 29
"""Coalitions times players of the largest design that is drawn.

Its equations take some 50 bytes for each coalition and player.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Options:
    """A model and how to explain it; see `shearshap.Explainer` for what each option may be.

    They are declared here alone: `Explainer` inherits them, and every entry point passes them on.
    """

    model: Any
    background: Background | None = None
    _: KW_ONLY
    method: str | Method = "auto"
    groups: Groups | TextGroups = None
    output: Output = None
    scale: Scale | None = None
    returns: Form | None = None
    multilabel: bool | None = None
    feature_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    batch_size: int | Literal["auto"] = "auto"
    device: torch.device | str | None = None
    seed: int = 0
    drop_null: bool = True
    semivalue: str | Sequence[float] = "shapley"
    loss: Loss = None
    y: Any = None
    text: Groups | TextGroups | bool = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: of a large background, only the rows that are used."""
        background = kept_background(self.background, self.seed, self.groups)
        return vars(self) | {"background": background}

    def run(
        self,
        budget: Any = None,
        *,
        tol: Any = None,
        interactions: bool | int = False,
        interaction_index: InteractionName = "k-SII",
        deadline: Any = None,
    ) -> "Run":
        """Return a run with these options, checked as far as that needs no game."""
        if tol is not None:
            check_positive("tol", tol, "the standard error at which to stop")
        if deadline == inf:
            deadline = None
        if deadline is not None:
            check_positive("deadline", deadline, "seconds after which to stop")
        order = _interaction_order(interactions, interaction_index)
        method = resolve(self.method)
        semivalue = SHAPLEY
        if not (isinstance(self.semivalue, str) and self.semivalue == "shapley"):
            semivalue = Semivalue.from_option(self.semivalue)
            method = method.with_semivalue(semivalue)
        if order > 1 and semivalue != SHAPLEY:
            raise InputError(
                "interactions are defined for Shapley values; expected semivalue='shapley', got "
                f"{self.semivalue!r}; ask for interactions in another call"
            )
        return Run(
            method,
            None if budget is None else positive_int("budget", budget),
            tol,
            positive_int("seed", self.seed),
            order=order,
            interaction_index=interaction_index,
            semivalue=semivalue,
            deadline=deadline,
            drop_null=self.drop_null,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """Options, and the rows to explain by them."""

    options: Options
    rows: Any
    index: Any = None  #: a column of ids, or a label for each row
    answer: Any = None  #: of a language model: what it is asked to explain


@dataclass(frozen=True)
class Run:
    """How to explain, whatever the model: the method, and what may be spent on a row."""

    method: Method
    budget: int | None = None  #: model evaluations for one row; None: `default_budget`
    tol: float | None = None  #: stop at a row once its errors are within this
    seed: int = 0
    order: int = 1  #: of the index that is asked for: 1 values, 2 pairwise interactions too, ...
    interaction_index: InteractionName = "k-SII"
    semivalue: Semivalue = SHAPLEY
    deadline: float | None = None  #: seconds after which nothing more is begun
    at_once: bool = False  #: whether all blocks will be joined, so that their arrays can be one
    drop_null: bool = True  #: whether players known to be null take no part

    @property
    def interactions(self) -> bool:
        """Whether interactions are asked for too."""
        return self.order > 1

    @property
    def index_names(self) -> dict[str, Any]:
        """The fields of an explanation that say which indices it has."""
        names: dict[str, Any] = {"semivalue": self.semivalue.name}
        if self.interactions:
            names |= {"interaction_index": self.interaction_index, "interaction_order": self.order}
        return names

    @property
    def stops(self) -> bool:
        """Whether rows may stop before their budget is spent."""
        return self.tol is not None

    @property
    def in_stages(self) -> bool:
        """Whether rows are evaluated in stages: to stop at a tolerance, or at the deadline."""
        # pairs need all coalitions of a design, so that a part of them is of no use
        cut_short = self.deadline is not None and self.method.stops and not self.interactions
        return self.stops or cut_short

    def resolve(self, game: Game) -> "Run":
        """Return the run with the budget and the method for a game, or raise."""
        budget = self.default_budget(game) if self.budget is None else self.budget
        coalitions = budget // game.cost
        if game.structure is None:
            method = self.method.select_method(game.players, coalitions, stops=self.stops)
        else:
            method = self._in_hierarchy(game, coalitions)
        if game.players == 1:
            method = Exact()  # one player's value is prediction - base value
        resolved = replace(self, method=method, budget=budget)
        resolved._check(game)
        return resolved

    def _in_hierarchy(self, game: Game, coalitions: int) -> Method:
        """Return the method that does the work for players in groups, or raise."""
        if self.interactions:
            raise InputError(
                "interactions: not defined for a hierarchy of groups; pass flat groups"
            )
        if self.semivalue != SHAPLEY:
            raise InputError(
                "semivalue: in a hierarchy of groups, values are Shapley values; pass flat groups"
            )
        method = self.method.in_hierarchy(game, coalitions, stops=self.stops)
        if method is None:
            able = [
                name for name, each in METHODS.items() if each.in_hierarchy(game, 0, stops=False)
            ]
            raise MethodError(
                f"{name_of(self.method)} does not support hierarchies of groups; these do: "
                f"{', '.join(able)}"
            )
        return method

    def by_background_row(self, game: ModelGame) -> bool:
        """Return whether each background row gets coalitions of its own.

        Not if the budget holds all coalitions of all background rows, which give exact values. But
        draws of a distribution are never all there are: their spread is a part of the error.
        """
        if self._with_every_background_row(game):
            return False
        if game.sampler is not None:
            return True
        if self.method.is_exact:
            return False
        budget = self.default_budget(game) if self.budget is None else self.budget
        return budget < game.cost * coalition_count(game)

    def default_budget(self, game: Game) -> int:
        """Return the evaluations to spend on a row if the user sets no budget.

        With b background rows, the errors of their coalitions average out: each needs fewer.
        """
        if self.method.is_exact:
            return all_coalitions_budget(game)
        smallest = self.method.minimum(game)
        coalitions = 2 + DEFAULT_A_PLAYER * game.players
        if game.cost < MIN_SPREAD_ROWS:  # too few to show errors by their spread
            smallest = max(smallest, self.method.errors_from(game) or 0)
        if self.stops:
            most = max(MAX_WITH_TOLERANCE, 4 * coalitions)
            coalitions = max(coalitions, min(most, MAX_DRAWN // game.players))
        listed = coalition_count(game)
        every = game.cost * max(listed, smallest)
        if self._with_every_background_row(game):
            return min(game.cost * max(coalitions, smallest), every)
        each = max(ceil(coalitions / sqrt(game.cost)), 2 * game.players, smallest)
        if listed <= MAX_LISTED:
            each = max(each, listed - 2)  # all but the ends, which are known
        return min(1 + min(game.cost, MAX_DEFAULT_BACKGROUND_ROWS) * each, every)

    def _with_every_background_row(self, game: Game) -> bool:
        """Return whether each coalition must be evaluated with all background rows."""
        return game.cost == 1 or self.interactions or not game.is_mean

    def coalitions(self, game: Game) -> int:
        """Return how many coalitions of a game the budget holds."""
        assert self.budget is not None, "resolve(game) sets the budget"
        return self.budget // game.cost

    def _check(self, game: Game) -> None:
        """Raise if the budget does not suffice, is too large, or the method cannot stop."""
        if self.stops and not self.method.stops:
            able = [name for name, method in METHODS.items() if method.stops]
            raise MethodError(
                f"{name_of(self.method)} cannot stop at a standard error, as tol asks; "
                f"these can: {', '.join(able)}"
            )
        method = self.method
        least = method.minimum_for_interactions if self.interactions else method.minimum
        smallest = least(game)
        check_smallest(self.method, smallest, game.players, self.budget, cost=game.cost)
        self._check_largest(game)

    def _check_largest(self, game: Game) -> None:
        """Raise if the coalitions to draw are too many to hold in memory."""
        every = coalition_count(game)
        most = MAX_DRAWN // game.players
        coalitions = min(self.coalitions(game), every)
        if coalitions <= most:
            return

        # to list all coalitions takes no equations
        can_be_listed = coalitions == every and every <= 1 << MAX_PLAYERS
        if not (can_be_listed and self.method.enumerates):
            error = BudgetError(
                f"a budget of {self.budget} evaluations per row: {coalitions} coalitions of "
                f"{game.players} features are too many to hold in memory; try a budget of at most "
                f"{most * game.cost}"
            )
            error.nearest = most * game.cost
            raise error


def check_smallest(
    method: Method, smallest: int, players: int, budget: int | None, *, cost: int = 1
) -> None:
    """Raise if a budget does not hold the coalitions that a method needs, of a cost each."""
    assert budget is not None, "resolve(game) sets the budget"
    if budget // cost >= smallest:
        return
    needed = smallest * cost
    number = str(needed) if needed < 10**9 else f"about 2^{needed.bit_length() - 1}"
    each = f" ({smallest} coalitions x {cost} background rows)" if cost > 1 else ""
    error = BudgetError(
        f"{name_of(method)} needs at least {number} evaluations per row for {players} features"
        f"{each}, got {budget}"
    )
    error.nearest = needed
    raise error


def all_coalitions_budget(game: Game) -> int:
    """Return the evaluations of all coalitions, or raise if the user must allow them."""
    needed = game.cost * coalition_count(game)
    if needed > MAX_DEFAULT_EXACT:
        every = f"2^{game.players}" if game.structure is None else f"{coalition_count(game):,}"
        raise BudgetError(
            f"exact needs all {every} coalitions of {game.players} features: {needed:,} "
            f"evaluations per row; without a budget it spends at most {MAX_DEFAULT_EXACT:,}. "
            f"Pass budget={needed} to spend them, or method='auto'"
        )
    return needed


def _interaction_order(interactions: Any, name: Any) -> int:
    """Return the order of the interactions that are asked for, 1 for none, or raise."""
    if name not in get_args(InteractionName):
        known = ", ".join(get_args(InteractionName))
        raise InputError(f"interaction_index: expected one of {known}, got {name!r}")
    if isinstance(interactions, bool):
        return 2 if interactions else 1
    if not isinstance(interactions, int) or interactions < 2:
        raise InputError(
            "interactions: expected False, True (pairs of features), or the largest size of the "
            f"sets of features, 2 or more; got {interactions!r}"
        )
    return interactions
