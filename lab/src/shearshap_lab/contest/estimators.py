"""Who takes part: our methods, and estimators of the user's own, each counted and timed.

An estimator of the user's own is one of these, named as path/to/file.py:Name or module:Name:

- a `shearshap.methods.base.Method`, its class or an instance
- a function of the game to values (p,); see `CountedGame` for what the game offers. A function may
  also take `players`, `budget` and `seed`, by these names
- a shapiq approximator, its class or a `functools.partial` of it
"""

import hashlib
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from shearshap.errors import InputError, MethodError
from shearshap.explainer import explain_game
from shearshap.jobs.models import imported
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap_lab.games.tables import CountedGame, Floats, Games
from shearshap_lab.provenance import code_hash, version

OUR_METHODS = tuple(name for name in METHODS if name not in ("exact", "auto"))
"""All but "exact", which no budget here pays for, and "auto", which is one of the others."""

FACTS = ("players", "budget", "seed")  #: what a function may take besides the game


@dataclass(frozen=True)
class Answer:
    """What an estimator answered for one game, and what it spent."""

    values: Any
    evaluations: int
    seconds: float  #: of the processor, which another program beside it hardly changes
    derivative_passes: int = 0


@dataclass(frozen=True, eq=False)
class Estimator:
    """An estimator that takes part."""

    name: str
    answer: Callable[[Games, int, int, int], Answer]  #: of games, the number of one, budget, seed
    #: hash of what its answers depend on, besides game, budget and seed
    fingerprint: str
    ours: bool = False


def our_methods(names: Sequence[str] = ()) -> list[Estimator]:
    """Return our methods, or those of them that are named."""
    for name in names:
        if name not in OUR_METHODS:
            raise MethodError(
                f"there is no method {name!r} to compare with; there are: {', '.join(OUR_METHODS)}"
            )
    return [
        from_method(name, METHODS[name], fingerprint=f"{METHODS[name]!r}", ours=True)
        for name in names or OUR_METHODS
    ]


# The user's own


def open_estimator(place: str) -> Estimator:
    """Return the estimator that the command line names.

    It is opened and called within `shearshap.jobs.models.importing`.
    """
    if ":" not in place:
        raise InputError(f"method: expected path/to/file.py:Name or module:Name, got {place!r}")
    made = imported(place, "method")
    name = place.rpartition(":")[2]
    fingerprint = _fingerprint(made, place)
    if isinstance(made, type) and issubclass(made, Method):
        return from_method(name, _instance(made, place), fingerprint=fingerprint)
    if isinstance(made, Method):
        return from_method(name, made, fingerprint=fingerprint)
    if _is_approximator(made):
        return Estimator(name, measured(partial(_approximated, made)), fingerprint)
    if callable(made) and not isinstance(made, type):
        return Estimator(name, measured(_called(made, place)), fingerprint)
    raise InputError(
        "method: expected a Method, a function of a game, or the class of a shapiq approximator "
        f"at {place}, got {made!r}"
    )


def _instance(made: type[Method], place: str) -> Method:
    try:
        return made()
    except TypeError as error:
        raise InputError(
            f"method: {place} cannot be made without arguments ({error}); name an instance of it"
        ) from error


def _is_approximator(made: Any) -> bool:
    made = made.func if isinstance(made, partial) else made
    return isinstance(made, type) and hasattr(made, "approximate")


def _approximated(approximator: Callable[..., Any], game: CountedGame) -> ArrayLike:
    """Return the Shapley values by a shapiq approximator."""
    made = approximator(n=game.players, random_state=game.seed)
    return np.asarray(made.approximate(game.budget, game).get_n_order_values(1))


def _called(function: Callable[..., Any], place: str) -> Callable[[CountedGame], ArrayLike]:
    """Return a function of the game alone, for a function that may want more by name."""
    try:
        _, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InputError(
            f"method: expected a function of a game at {place}, got {function!r}"
        ) from None
    wanted = [other.name for other in others if other.default is inspect.Parameter.empty]
    unknown = [name for name in wanted if name not in FACTS]
    if unknown:
        raise InputError(
            f"method: {place} wants {', '.join(unknown)}; it gets the game, and by name "
            f"{', '.join(FACTS)}"
        )
    names = [other.name for other in others if other.name in FACTS]
    return lambda game: function(game, **{name: getattr(game, name) for name in names})


def _fingerprint(made: Any, place: str) -> str:
    """Return the hash of the code beside an estimator, whose modules it may import."""
    digest = hashlib.sha256(f"{place}\0{version('shapiq')}\0".encode())
    if isinstance(made, Method):
        digest.update(repr(made).encode())
    for path in _source_files(made, place):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _source_files(made: Any, place: str) -> list[Path]:
    module_place = place.rpartition(":")[0]
    if module_place.endswith(".py"):
        file: str | None = module_place
    else:
        module = inspect.getmodule(made)
        file = None if module is None else getattr(module, "__file__", None)
    return [] if file is None else sorted(Path(file).resolve().parent.glob("*.py"))


# Counting and timing


def from_method(name: str, method: Method, *, fingerprint: str, ours: bool = False) -> Estimator:
    """Return the estimator of a method; one that differentiates gets the model if there is one."""

    def answer(games: Games, number: int, budget: int, seed: int) -> Answer:
        if games.model is None or not differentiates(method, games.players):
            return by_coalitions(games, number, budget, seed)
        model = games.model()
        started = time.process_time()
        explanation = model.explain(number, method, budget=budget, seed=seed)
        return Answer(
            explanation.values[0],
            explanation.evaluations,
            time.process_time() - started,
            explanation.derivative_passes,
        )

    def estimate(game: CountedGame) -> Floats:
        explanation = explain_game(
            game, players=game.players, budget=game.budget, method=method, seed=game.seed
        )
        return np.asarray(explanation.values[0])

    by_coalitions = measured(estimate)
    return Estimator(name, answer, f"{code_hash()}{fingerprint}", ours)


def measured(
    estimate: Callable[[CountedGame], ArrayLike],
) -> Callable[[Games, int, int, int], Answer]:
    """Return an estimator's answers by a function of a counted game."""

    def answer(games: Games, number: int, budget: int, seed: int) -> Answer:
        game = CountedGame(games.game(number), budget=budget, seed=seed)
        started = time.process_time()
        values = estimate(game)
        return Answer(values, game.evaluations, time.process_time() - started)

    return answer


def differentiates(method: Method, players: int) -> bool:
    """Return whether a method looks at derivatives of a model that has them."""
    info: Any = SimpleNamespace(players=players, device=torch.device("cpu"), differentiable=True)
    look = method.look(info)
    return look is not None and look.kind != "distance" and look.coalitions is None
