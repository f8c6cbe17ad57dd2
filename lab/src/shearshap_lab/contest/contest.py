"""Run a contest: every estimator on every game at every budget, records kept as they are made."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.errors import InputError
from shearshap_lab import runner
from shearshap_lab.contest.estimators import Answer, Estimator
from shearshap_lab.games.tables import Floats, Games, slug
from shearshap_lab.provenance import provenance, short_hash, versions

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
            names = [each.name for each in members]
            repeated = {name for name in names if names.count(name) > 1}
            if repeated:
                raise InputError(
                    f"there are two {what} of the name {min(repeated)!r}; rename one of them"
                )

    def matches(self) -> list["Match"]:
        """Return everything that is measured in one piece."""
        return [
            Match(estimator, games, n, self.seeds)
            for games in self.games
            for n in self.evaluations
            for estimator in self.estimators
        ]


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
            text = str(raised).strip().split("\n")[0]
            failure = f"{type(raised).__name__}: {text}" if text else type(raised).__name__
        return {
            "error": error,
            "evaluations": answer.evaluations,
            "derivative_passes": answer.derivative_passes,
            "seconds": answer.seconds,
            "failure": failure,
        }

    def _judged(self, answer: Answer, game: int) -> tuple[float, str]:
        """Return the error of an answer, or why it has none."""
        if answer.evaluations > self.budget:
            return np.nan, f"spent {answer.evaluations} evaluations of {self.budget}"
        values = _checked_values(answer.values, self.games.players)
        return float(np.abs(values - self.games.phi[game]).mean()), ""


def _checked_values(values: Any, players: int) -> Floats:
    """Return an answer's values (p,), or raise if they are none."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (players,):
        raise ValueError(f"expected {players} values, got an array {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{(~np.isfinite(array)).sum()} of {players} values are not finite")
    return array


def run(
    contest: Contest, out: Path, *, command: str = "", progress: bool | None = None
) -> pa.Table:
    """Measure everything, and return the records, which also lie in out/records.

    A run that was stopped goes on where it was: the records of every finished match are kept in
    out/parts, under a name that covers what they depend on. Apart from seconds, the same contest
    gives the same records. Where they come from is kept beside them.
    """
    started = time.perf_counter()
    tasks = [match.task() for match in contest.matches()]
    records = pa.concat_tables(runner.run(tasks, out / "parts", progress=progress))
    origin = provenance(command, time.perf_counter() - started)
    runner.write_records({"records": records}, out / "records", origin)
    return records


def read_records(out: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Return the records of a contest in a folder, and where they come from."""
    tables, origin = runner.read_records(out / "records")
    return tables["records"], origin
