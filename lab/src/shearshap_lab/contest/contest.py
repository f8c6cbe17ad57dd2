"""A contest: every estimator on every game at every budget, records kept as they are made.

Who takes part: our methods, and estimators of the user's own, each counted and timed.

An estimator of the user's own is one of these, named as path/to/file.py:Name or module:Name:

- a `shearshap.methods.base.Method`, its class or an instance
- a function of the game to values (p,); see `CountedGame` for what the game offers. A function may
  also take `players`, `budget` and `seed`, by these names
- a shapiq approximator, its class or a `functools.partial` of it
"""

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from shearshap.apps.jobs.models import imported
from shearshap.errors import InputError, MethodError
from shearshap.explainer import explain_game
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap_lab import runner
from shearshap_lab.games.tables import CountedGame, Floats, Games, slug
from shearshap_lab.provenance import code_hash, provenance, short_hash, version, versions

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

    It is opened and called within `shearshap.apps.jobs.models.importing`.
    """
    if ":" not in place:
        raise InputError(f"method: expected path/to/file.py:Name or module:Name, got {place!r}")
    made = imported(place, "method")
    name = place.rpartition(":")[2]
    fingerprint = _fingerprint(made, place)
    if isinstance(made, type) and issubclass(made, Method):
        made = made()
    if isinstance(made, Method):
        return from_method(name, made, fingerprint=fingerprint)
    kind = made.func if isinstance(made, partial) else made
    if isinstance(kind, type) and hasattr(kind, "approximate"):
        return Estimator(name, measured(partial(_approximated, made)), fingerprint)
    if callable(made) and not isinstance(made, type):
        return Estimator(name, measured(_called(made, place)), fingerprint)
    raise InputError(
        "method: expected a Method, a function of a game, or the class of a shapiq approximator "
        f"at {place}, got {made!r}"
    )


def _approximated(approximator: Callable[..., Any], game: CountedGame) -> ArrayLike:
    """Return the Shapley values by a shapiq approximator."""
    made = approximator(n=game.players, random_state=game.seed)
    return np.asarray(made.approximate(game.budget, game).get_n_order_values(1))


def _called(function: Callable[..., Any], place: str) -> Callable[[CountedGame], ArrayLike]:
    """Return a function of the game alone, for a function that may want more by name."""
    _, *others = inspect.signature(function).parameters.values()
    wanted = [other.name for other in others if other.default is inspect.Parameter.empty]
    unknown = [name for name in wanted if name not in FACTS]
    if unknown:
        raise InputError(
            f"method: {place} takes {', '.join(unknown)}; expected the game and, by "
            f"name, any of {', '.join(FACTS)}"
        )
    names = [other.name for other in others if other.name in FACTS]
    return lambda game: function(game, **{name: getattr(game, name) for name in names})


def _fingerprint(made: Any, place: str) -> str:
    """Return the hash of the code beside an estimator, whose modules it may import."""
    facts = [place, version("shapiq"), repr(made) if isinstance(made, Method) else ""]
    module = inspect.getmodule(made)
    file = place.rpartition(":")[0] if ".py:" in place else getattr(module, "__file__", None)
    if file is not None:
        paths = sorted(Path(file).resolve().parent.glob("*.py"))
        facts += [f"{path.name} {path.read_text()}" for path in paths]
    return short_hash(*facts)


# Counting and timing


def from_method(name: str, method: Method, *, fingerprint: str, ours: bool = False) -> Estimator:
    """Return the estimator of a method; one that differentiates gets the model if there is one."""

    def answer(games: Games, number: int, budget: int, seed: int) -> Answer:
        if games.model is None or not method.differentiates:
            return by_coalitions(games, number, budget, seed)
        started = time.process_time()
        row = slice(number, number + 1)
        explanation = games.model.explain(row, method=method, budget=budget, seed=seed)
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


# The contest


SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "games": pa.string(),  # the origin: a network, a rule, a file
        "game": pa.int64(),  # its number there
        "players": pa.int64(),
        "size": pa.float64(),  # mean |value| of all games of the origin
        "estimator": pa.string(),
        "ours": pa.bool_(),
        "n": pa.int64(),  # evaluations a player
        "budget": pa.int64(),  # n p + 2
        "seed": pa.int64(),
        "error": pa.float64(),  # mean |value - exact value| over players; NaN if it failed
        "evaluations": pa.int64(),  # that it spent
        "derivative_passes": pa.int64(),
        "seconds": pa.float64(),  # of the processor
        "failure": pa.string(),  # why there is no error; empty if there is one
    }
)
"""The columns of the records: a line for each estimator, game, budget and seed."""


@dataclass(frozen=True)
class Contest:
    """Which estimators are measured on which games."""

    estimators: Sequence[Estimator]
    games: Sequence[Games]
    evaluations: Sequence[int] = (8, 16, 32, 64)  #: a player; N of them are a budget of N p + 2
    seeds: int = 3  #: runs on each game

    def __post_init__(self) -> None:
        """Check that there is something to measure, under names of its own."""
        if not self.estimators or not self.games or not self.evaluations or self.seeds < 1:
            raise InputError("a contest needs estimators, games, evaluations, and a seed or more")
        for what, members in (("estimators", self.estimators), ("games", self.games)):
            if len({each.name for each in members}) < len(members):
                raise InputError(f"expected {what} with different names; rename one of them")


@dataclass(frozen=True)
class Match:
    """One estimator on the games of one origin at one budget."""

    estimator: Estimator
    games: Games
    n: int
    seeds: int

    @property
    def budget(self) -> int:
        """Evaluations a game, base value and prediction included."""
        return self.n * self.games.players + 2

    def task(self) -> runner.Task:
        """Return its task; the name of the file covers everything that the records depend on."""
        facts = (
            versions(),
            self.games.digest,
            self.games.kind,
            self.estimator.fingerprint,
            self.estimator.ours,
            self.seeds,
        )
        name = f"{slug(self.games.name)}-{slug(self.estimator.name)}-n{self.n}"
        return runner.Task(
            f"{name}-{short_hash(*facts)}.parquet",
            f"{self.games.name}, N = {self.n}: {self.estimator.name}",
            SCHEMA,
            self.measure,
        )

    def measure(self) -> pa.Table:
        """Return the records of all games and seeds."""
        lines = [
            {
                "kind": self.games.kind,
                "games": self.games.name,
                "game": game,
                "players": self.games.players,
                "size": self.games.size,
                "estimator": self.estimator.name,
                "ours": self.estimator.ours,
                "n": self.n,
                "budget": self.budget,
                "seed": seed,
                **self._answered(game, seed),
            }
            for game in range(len(self.games))
            for seed in range(self.seeds)
        ]
        return pa.Table.from_pylist(lines, schema=SCHEMA)

    def _answered(self, game: int, seed: int) -> dict[str, Any]:
        """Return what the estimator made of one game; whatever it does wrong, the others go on."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # another seed for each game, or one lucky draw decides
                answer = self.estimator.answer(self.games, game, self.budget, 1_000 * game + seed)
            error, failure = self._judged(answer, game)
        except (Exception, SystemExit) as raised:  # noqa: BLE001  (code of other people)
            answer = Answer(None, evaluations=0, seconds=np.nan)
            error = np.nan
            failure = f"{type(raised).__name__}: {raised}".strip().split("\n")[0]
        return {
            "error": error,
            "evaluations": answer.evaluations,
            "derivative_passes": answer.derivative_passes,
            "seconds": answer.seconds,
            "failure": failure,
        }

    def _judged(self, answer: Answer, game: int) -> tuple[float, str]:
        """Return the error of an answer, or why it has none."""
        players = self.games.players
        if answer.evaluations > self.budget:
            return np.nan, f"spent {answer.evaluations} evaluations of {self.budget}"
        values = np.asarray(answer.values, dtype=np.float64)
        if values.shape != (players,):
            return np.nan, f"expected {players} values, got an array {values.shape}"
        if not np.isfinite(values).all():
            return np.nan, f"{(~np.isfinite(values)).sum()} of {players} values are not finite"
        return float(np.abs(values - self.games.phi[game]).mean()), ""


def run(
    contest: Contest, out: Path, *, command: str = "", progress: bool | None = None
) -> pa.Table:
    """Measure everything, and return the records, which also lie in out/records.

    A run that was stopped goes on where it was: the records of every finished match are kept in
    out/parts, under a name that covers what they depend on. Apart from seconds, the same contest
    gives the same records. Where they come from is kept beside them.
    """
    started = time.perf_counter()
    tasks = [
        Match(estimator, games, n, contest.seeds).task()
        for games in contest.games
        for n in contest.evaluations
        for estimator in contest.estimators
    ]
    records = pa.concat_tables(runner.run(tasks, out / "parts", progress=progress))
    origin = provenance(command, time.perf_counter() - started)
    runner.write_records({"records": records}, out / "records", origin)
    return records


def read_records(out: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Return the records of a contest in a folder, and where they come from."""
    tables, origin = runner.read_records(out / "records")
    return tables["records"], origin
