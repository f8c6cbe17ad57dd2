"""The laws that methods keep, each a function of a method; `laws_of` lists those that apply to one.

A law takes its budgets from the method (`minimum`) and from `ample` and `full` below, so that a new
method is tested by one line: see test_new_method.py.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from games import (
    Bools,
    Floats,
    Value,
    additive,
    exact_shares,
    network,
    pairwise,
    random_table,
    table_game,
)
from shearshap import (
    BudgetError,
    Explanation,
    Shear,
    ShearWarning,
    Welford,
    explain,
    explain_game,
    model_game,
)
from shearshap.games.game import FunctionGame, GameInfo, Usage
from shearshap.methods.base import Design, Method, Promise
from shearshap_lab.baselines import Baseline

# a smaller seed is no simpler: there is nothing to shrink
few = settings(max_examples=5, phases=(Phase.reuse, Phase.generate))
PLAYERS = st.integers(6, 8)
SEEDS = st.integers(0, 10**6)


def game_of(players: int) -> FunctionGame:
    """A game to take budgets from."""
    return FunctionGame(lambda z: z[:, 0] * 1.0, players)


def ample(method: Method, game: GameInfo) -> int:
    """A budget at which promises hold, but not for all coalitions if fewer do."""
    if isinstance(method, Baseline):
        return 2 + 128 * game.players  # none of its p regressions is singular
    if isinstance(method, Shear):
        return method.minimum(game) + 12 * game.players  # N = 16
    return max(method.minimum(game), min(2 + 16 * game.players, (1 << game.players) - 4))


def full(method: Method, game: GameInfo) -> int | None:
    """The number of coalitions at which the answer is exact; None if it never is."""
    if isinstance(method, Baseline | Welford) or getattr(method, "draws_independently", False):
        return None  # independent draws never list all coalitions
    if isinstance(method, Shear):
        # all other players are cooperators
        return method.minimum(game) + (game.players << game.players) - 4 * game.players
    return max(1 << game.players, method.minimum(game))


# What is exact


def explained_amply(method: Method, value: Value, players: int, seed: int) -> Explanation:
    """The explanation of a game with an ample budget."""
    budget = ample(method, game_of(players))
    return explain_game(value, players=players, budget=budget, method=method, seed=seed)


@few
@given(players=PLAYERS, seed=SEEDS)
def additive_games_are_exact(method: Method, players: int, seed: int) -> None:
    value, worth = additive(players, seed)
    answer = explained_amply(method, value, players, seed)
    np.testing.assert_allclose(answer.values[0], worth, atol=1e-7)


@few
@given(players=PLAYERS, seed=SEEDS)
def pairwise_games_are_exact(method: Method, players: int, seed: int) -> None:
    value, phi = pairwise(players, seed)
    answer = explained_amply(method, value, players, seed)
    np.testing.assert_allclose(answer.values[0], phi, atol=1e-6)


@few
@given(players=st.integers(2, 6), seed=SEEDS)
def a_full_budget_is_exact(method: Method, players: int, seed: int) -> None:
    table = random_table(players, seed)
    budget = full(method, game_of(players))
    assert budget is not None
    answer = explain_game(
        table_game(table), players=players, budget=budget, method=method, seed=seed
    )
    np.testing.assert_allclose(answer.values[0], exact_shares(table), atol=1e-9)


@few
@given(players=PLAYERS, seed=SEEDS, budget=st.integers(20, 90))
def values_add_up(method: Method, players: int, seed: int, budget: int) -> None:
    value = table_game(random_table(players, seed))
    enough = max(budget, method.minimum(game_of(players)))
    with quiet():
        answer = explain_game(value, players=players, budget=enough, method=method, seed=seed)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-8)


@few
@given(players=PLAYERS, seed=SEEDS)
def a_player_that_never_matters_gets_nothing(method: Method, players: int, seed: int) -> None:
    table = random_table(players, seed)
    null = seed % players
    ignoring = table_game(table[np.arange(1 << players) & ~(1 << null)])
    answer = explained_amply(method, ignoring, players, seed)
    assert abs(answer.values[0, null]) < 1e-12


@few
@given(players=PLAYERS, seed=SEEDS)
def base_value_and_prediction_are_the_games(method: Method, players: int, seed: int) -> None:
    table = random_table(players, seed)
    answer = explained_amply(method, table_game(table), players, seed)
    assert answer.base_values[0] == table[0]
    assert answer.predictions[0] == table[-1]


def every_coalition_value_counts(method: Method) -> None:
    """One coalition value that is a little off shows: an additive game is no longer exact.

    Values are counted from the last, as the first ones may only serve to choose the others.
    """
    value, worth = additive(6, 4)
    budget = ample(method, game_of(6))
    honest = explain_game(value, players=6, budget=budget, method=method)
    for place in (1, 5, 9, 20):
        off = OffOnce(value, honest.evaluations - place)
        answer = explain_game(off, players=6, budget=budget, method=method)
        assert off.evaluations == honest.evaluations
        assert abs(answer.values[0] - worth).max() > 1e-6, place


@dataclass
class OffOnce:
    """A game that answers one evaluation wrongly, the one of a number."""

    value: Value
    number: int
    evaluations: int = 0

    def __call__(self, coalitions: Bools) -> Floats:
        values = self.value(coalitions)
        place = self.number - self.evaluations
        if 0 <= place < len(values):
            values[place] += 0.1
        self.evaluations += len(values)
        return values


def what_has_no_error_is_proved(method: Method) -> None:
    """Values that are called exact, or have a standard error of 0, are the Shapley values.

    Games that jump where hardly any coalition is, and budgets from few coalitions to all.
    """
    for players in (3, 5, 7):
        for name, table in rare_games(players).items():
            check_claims(method, table, name)


def check_claims(method: Method, table: Floats, name: str) -> None:
    """Check what a method says of a game, at budgets from few coalitions to all."""
    players = len(table).bit_length() - 1
    every = 1 << players
    exact = exact_shares(table)
    size = float(np.ptp(table)) or 1.0
    for budget in sorted({2 * players + 2, 4 * players + 2, every - 2, every}):
        try:
            with quiet():
                answer = explain_game(
                    table_game(table), players=players, budget=budget, method=method
                )
        except BudgetError:
            continue
        claimed = np.full(players, "exact" in answer.method)
        if answer.standard_errors is not None:
            claimed |= answer.standard_errors[0] < 1e-12 * size
        error = np.abs(answer.values[0] - exact)
        assert (error[claimed] < 1e-9 * size).all(), (name, players, budget)


def rare_games(players: int) -> dict[str, Floats]:
    """Tables of games that are constant but for jumps, or that all players make together."""
    index = np.arange(1 << players)
    present = index[:, None] >> np.arange(players) & 1
    size = present.sum(axis=1)
    triple = (1 << 0) | (1 << players // 2) | (1 << players - 1)
    return {
        "one triple": (index == triple) * 1.0,
        "one of half the players": (index == (1 << players // 2) - 1) * 1.0,
        "a triple and more": (index & triple == triple) * 1.0,
        "all players": (size == players) * 1.0,
        "any player": (size > 0) * 1.0,
        "one player": present[:, 0] * 1.0,
        "parity": (size % 2) * 1.0,
        "product of signs": np.prod(2.0 * present - 1, axis=1),
        "majority": (2 * size > players) * 1.0,
        "middle sizes": (size == players // 2) * 1.0,
        "clipped": np.clip(present @ np.linspace(-1, 2, players), 0.0, 0.5),
        "constant": np.full(1 << players, 3.0),
    }


# Over seeds


def the_mean_over_seeds_is_the_shapley_value(method: Method) -> None:
    table = random_table(5, 3)
    game = game_of(5)
    for budget in (method.minimum(game), ample(method, game)):
        draws = values_by_seed(method, table, budget, 250)
        error = draws.mean(axis=0) - exact_shares(table)
        tolerance = 4.5 * draws.std(axis=0) / np.sqrt(len(draws)) + 1e-9
        assert (abs(error) < tolerance).all(), error / tolerance
        varies = draws.std(axis=0).max() > 0.01
        assert varies == (budget != full(method, game))


def players_that_are_alike_have_alike_values(method: Method) -> None:
    """Sampling spreads one draw's values; their means over seeds must agree."""
    table = random_table(5, 11)
    index = np.arange(1 << 5)
    swapped = index & ~0b11 | (index & 1) << 1 | index >> 1 & 1
    alike = (table + table[swapped]) / 2

    draws = values_by_seed(method, alike, ample(method, game_of(5)), 50)
    difference = draws[:, 0] - draws[:, 1]
    tolerance = 4.5 * difference.std() / np.sqrt(len(draws)) + 1e-9
    assert abs(difference.mean()) < tolerance


def the_same_seed_gives_the_same_values_and_another_seed_others(method: Method) -> None:
    value = table_game(random_table(10, 1))
    game = game_of(10)
    budget = ample(method, game)
    first, again, other = (
        explain_game(value, players=10, budget=budget, method=method, seed=seed).values
        for seed in (5, 5, 6)
    )
    assert (first == again).all()
    assert (first == other).all() == (budget == full(method, game))


def values_by_seed(method: Method, table: Floats, budget: int, seeds: int) -> Floats:
    """The values for many seeds, (seeds, p)."""
    players = len(table).bit_length() - 1
    value = table_game(table)
    with quiet():
        answers = [
            explain_game(value, players=players, budget=budget, method=method, seed=seed)
            for seed in range(seeds)
        ]
    return np.concatenate([answer.values for answer in answers])


# Budgets


def budgets_are_in_order(method: Method) -> None:
    """Ample is enough, and less than all coalitions where less is enough."""
    for players in (5, 6, 8, 10, 13):
        game = game_of(players)
        smallest, enough, every = method.minimum(game), ample(method, game), full(method, game)
        assert 2 <= smallest <= enough
        if every is not None:
            assert enough < every or smallest == enough == every


@few
@given(players=st.integers(1, 7), seed=SEEDS, budget=st.integers(1, 140))
def never_more_evaluations_than_the_budget(
    method: Method, players: int, seed: int, budget: int
) -> None:
    evaluated: list[int] = []
    game = table_game(random_table(players, seed))

    def value(coalitions: Bools) -> Floats:
        evaluated.append(len(coalitions))
        return game(coalitions)

    with quiet():
        try:
            answer = explain_game(value, players=players, budget=budget, method=method, seed=seed)
        except BudgetError:
            assert not evaluated
            assert players == 1 or budget < method.minimum(game_of(players))
            return
    assert answer.evaluations == sum(evaluated) <= budget
    assert np.isfinite(answer.values).all()


def the_smallest_budget_it_names_is_enough(method: Method) -> None:
    value, worth = additive(6)
    with pytest.raises(BudgetError, match=r"needs at least \d+ evaluations per row") as caught:
        explain_game(value, players=6, budget=3, method=method)
    smallest = int(str(caught.value).split("at least ")[1].split()[0])
    assert smallest == method.minimum(game_of(6))

    with quiet():
        answer = explain_game(value, players=6, budget=smallest, method=method)
    assert np.isfinite(answer.values).all()
    assert abs(answer.values[0] - worth).max() < 10
    if "efficiency" in method.promises:
        np.testing.assert_allclose(answer.gap, 0, atol=1e-12)
    with pytest.raises(BudgetError):
        explain_game(value, players=6, budget=smallest - 1, method=method)


# Designs


def a_design_never_evaluates_the_model(method: Method) -> None:
    """Neither does a stage, nor a design of screened rows, nor what the screening asks for."""
    for differentiable in (False, True):
        game = SilentGame(7, differentiable)
        for budget in (method.minimum(game), ample(method, game)):
            with quiet():
                designs = designs_of(method, game, budget)
            for design in designs:
                empty, full = design.coalitions[0, :2]
                assert not empty.any()
                assert full.all()
                assert design.coalitions.shape[1] <= budget
                assert design.coalitions.shape[2] == 7


def designs_of(method: Method, game: GameInfo, budget: int) -> list[Design]:
    """All that a method designs for a game: at once, stage by stage, and after a screening."""
    rng = np.random.default_rng(0)
    designs = [method.design(game, budget, rng)]
    if method.stops:
        designs += [stage.design for stage in method.stages(game, budget, rng, stops=True)]
    if method.screening(game) is not None:
        eta = torch.from_numpy(rng.random((3, 7, 7)))
        designs.append(method.design_for(game, budget, rng, eta))
    return designs


@dataclass(frozen=True)
class SilentGame:
    """A game that fails when it is evaluated."""

    players: int
    differentiable: bool
    rows: int = 3
    cost: int = 1
    structure: None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    usage: Usage = field(default_factory=Usage)

    def take(self, rows: slice | Tensor) -> "SilentGame":
        raise AssertionError(f"a design looked at rows {rows}")

    def __call__(self, coalitions: Tensor) -> Tensor:
        raise AssertionError(f"a design evaluated {coalitions.shape[1]} coalitions")

    def distances(self) -> Tensor:
        raise AssertionError("a design measured distances")

    def surface(self, z: Tensor) -> Tensor:
        raise AssertionError(f"a design differentiated at {z.shape[1]} points")


def chunks_change_nothing(method: Method) -> None:
    """Rows alone, rows together, tiny batches: the same answer."""
    net = network(6)
    rows = np.random.default_rng(0).normal(size=(9, 6))
    with model_game(net, rows, reference=np.zeros(6)) as game:
        budget = ample(method, game)

    def explained(
        part: Floats, by: Method = method, batch_size: int | Literal["auto"] = "auto"
    ) -> Explanation:
        return explain(
            net,
            part,
            reference=np.zeros(6),
            budget=budget,
            method=by,
            output=1,
            batch_size=batch_size,
        )

    whole = explained(rows)
    np.testing.assert_allclose(explained(rows, batch_size=7).values, whole.values, atol=1e-10)
    with patch.dict("shearshap.engine.plan.BLOCK_BYTES", cpu=1):
        np.testing.assert_allclose(explained(rows).values, whole.values, atol=1e-10)

    settled = calibrated_as(method, whole)
    parts = [explained(part, settled).values for part in (rows[:4], rows[4:5], rows[5:])]
    np.testing.assert_allclose(np.concatenate(parts), whole.values, atol=1e-10)


def outputs_come_together_at_no_extra_evaluations(method: Method) -> None:
    table = random_table(5, 2, outputs=(3,))
    if isinstance(method, Shear):
        # cooperators are selected for all outputs together: leave the selection out
        method = replace(method, selection="random")
    budget = ample(method, game_of(5))

    together = explain_game(table_game(table), players=5, budget=budget, method=method)
    assert together.values.shape == (1, 5, 3)
    settled = calibrated_as(method, together)
    for output in range(3):
        alone = explain_game(table_game(table[:, output]), players=5, budget=budget, method=settled)
        assert together.evaluations == alone.evaluations
        np.testing.assert_allclose(together.values[..., output], alone.values, atol=1e-10)


def calibrated_as(method: Method, answer: Explanation) -> Method:
    """The method with an answer's calibration, where it fits one to the rows it explains."""
    if answer.calibration is None:
        return method
    calibrated: Method = replace(method, calibration=answer.calibration)  # type: ignore[type-var]
    return calibrated


@contextmanager
def quiet() -> Iterator[None]:
    """Allow the warning that a regression is singular, where a law is about something else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        yield


# All of them


@dataclass(frozen=True)
class Law:
    """A check that methods must pass."""

    check: Callable[[Method], None]
    promise: Promise | None = None  #: the law is about methods that promise this
    where: Callable[[Method], bool] = lambda _method: True

    def applies(self, method: Method) -> bool:
        promised = self.promise is None or self.promise in method.promises
        return promised and self.where(method)

    def __str__(self) -> str:
        return self.check.__name__


def becomes_exact(method: Method) -> bool:
    return full(method, game_of(5)) is not None


LAWS = (
    Law(additive_games_are_exact),
    Law(pairwise_games_are_exact, promise="pairwise"),
    Law(a_full_budget_is_exact, where=becomes_exact),
    Law(values_add_up, promise="efficiency"),
    Law(a_player_that_never_matters_gets_nothing, promise="null-player"),
    Law(base_value_and_prediction_are_the_games),
    Law(every_coalition_value_counts),
    Law(what_has_no_error_is_proved),
    Law(the_mean_over_seeds_is_the_shapley_value, promise="unbiased"),
    Law(players_that_are_alike_have_alike_values),
    Law(the_same_seed_gives_the_same_values_and_another_seed_others),
    Law(budgets_are_in_order),
    Law(never_more_evaluations_than_the_budget),
    Law(the_smallest_budget_it_names_is_enough),
    Law(a_design_never_evaluates_the_model),
    Law(chunks_change_nothing),
    Law(outputs_come_together_at_no_extra_evaluations),
)


def laws_of(method: Method) -> list[Law]:
    """The laws that a method must keep."""
    return [law for law in LAWS if law.applies(method)]
