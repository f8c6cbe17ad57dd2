"""Run a contest: every entrant on every game at every budget, records kept as they are made."""

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap.store import Store, written_whole
from shearshap_lab.contest.entrants import Answer, Entrant
from shearshap_lab.contest.games import Floats, Games, slug
from shearshap_lab.contest.setting import code_digest, commit, machine, versions

RECORDS = "records.parquet"
ABOUT = "about.json"

_TEXT = pa.string()
_WHOLE = pa.int64()
_NUMBER = pa.float64()

SCHEMA = pa.schema(
    {
        "kind": _TEXT,
        "games": _TEXT,  # the origin: a network, a rule, a file
        "game": _WHOLE,  # its number there
        "players": _WHOLE,
        "size": _NUMBER,  # mean |value| of all games of the origin
        "entrant": _TEXT,
        "ours": pa.bool_(),
        "n": _WHOLE,  # evaluations a player
        "budget": _WHOLE,  # n p + 2
        "draw": _WHOLE,
        "error": _NUMBER,  # mean |value - exact value| over players; NaN where it failed
        "evaluations": _WHOLE,  # that it spent
        "derivative_passes": _WHOLE,
        "seconds": _NUMBER,  # of the processor
        "failure": _TEXT,  # why there is no error; empty where there is one
    }
)
"""The columns of the records: a line for each entrant, game, budget and draw."""


@dataclass(frozen=True)
class Contest:
    """Who meets on which games."""

    entrants: Sequence[Entrant]
    games: Sequence[Games]
    evaluations: Sequence[int] = (8, 16, 32, 64)  #: a player; N of them are a budget of N p + 2
    draws: int = 3  #: seeds for each game

    def __post_init__(self) -> None:
        """Check that there is something to measure, under names of its own."""
        if not self.entrants or not self.games or not self.evaluations or self.draws < 1:
            raise InputError("a contest wants entrants, games, evaluations, and one seed or more")
        for what, names in (
            ("estimators", [entrant.name for entrant in self.entrants]),
            ("games", [games.name for games in self.games]),
        ):
            repeated = {name for name in names if names.count(name) > 1}
            if repeated:
                raise InputError(
                    f"there are two {what} of the name {min(repeated)!r}; rename one of them"
                )

    def matches(self) -> Iterator["Match"]:
        """Yield everything that is measured in one piece."""
        for games in self.games:
            for n in self.evaluations:
                for entrant in self.entrants:
                    yield Match(entrant, games, n, self.draws)


@dataclass(frozen=True)
class Match:
    """One entrant on the games of one origin at one budget."""

    entrant: Entrant
    games: Games
    n: int
    draws: int

    @property
    def budget(self) -> int:
        """Evaluations a game, base value and prediction included."""
        return self.n * self.games.players + 2

    @property
    def file_name(self) -> str:
        """The name of its records' file, which covers everything that they depend on."""
        facts = [
            SCHEMA.to_string(),
            versions(),
            self.games.digest,
            self.games.kind,
            self.entrant.fingerprint,
            self.entrant.ours,
            self.n,
            self.draws,
        ]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return f"{slug(self.games.name)}-{slug(self.entrant.name)}-n{self.n}-{key}.parquet"

    def measure(self) -> pa.Table:
        """Return the records of all games and draws."""
        pairs = [(game, draw) for game in range(len(self.games)) for draw in range(self.draws)]
        lines = [self._line(game, draw) for game, draw in pairs]
        return pa.Table.from_pylist(lines, schema=SCHEMA)

    def _line(self, game: int, draw: int) -> dict[str, Any]:
        return {
            "kind": self.games.kind,
            "games": self.games.name,
            "game": game,
            "players": self.games.players,
            "size": self.games.size,
            "entrant": self.entrant.name,
            "ours": self.entrant.ours,
            "n": self.n,
            "budget": self.budget,
            "draw": draw,
            **self._answered(game, draw),
        }

    def _answered(self, game: int, draw: int) -> dict[str, Any]:
        """Return what the entrant made of one game; whatever it does wrong, the others go on."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = self.entrant.answer(self.games, game, self.budget, seed_of(game, draw))
            error, failure = self._judged(answer, game)
        except (Exception, SystemExit) as raised:  # noqa: BLE001
            answer = Answer(None, evaluations=0, seconds=np.nan)
            error = np.nan
            failure = first_line(raised)
        return {
            "error": error,
            "evaluations": answer.evaluations,
            "derivative_passes": answer.derivative_passes,
            "seconds": answer.seconds,
            "failure": failure,
        }

    def _judged(self, answer: Answer, game: int) -> tuple[float, str]:
        """Return the error of an answer, or why it has none."""
        if answer.failure:
            return np.nan, answer.failure
        if answer.evaluations > self.budget:
            return np.nan, f"spent {answer.evaluations} evaluations of {self.budget}"
        values = checked_values(answer.values, self.games.players)
        return float(np.abs(values - self.games.phi[game]).mean()), ""


def seed_of(game: int, draw: int) -> int:
    """Return the seed that all entrants get: another for each game, or one lucky draw decides."""
    return 1_000 * game + draw


def checked_values(values: Any, players: int) -> Floats:
    """Return an answer's values (p,), or raise where they are none."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (players,):
        raise ValueError(f"wanted {players} values, got an array {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{(~np.isfinite(array)).sum()} of {players} values are not finite")
    return array


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its text."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def run(
    contest: Contest, out: Path, *, command: str = "", progress: bool | None = None
) -> pa.Table:
    """Measure everything, and return the records, which also lie in out/records.parquet.

    A run that was stopped goes on where it was: the records of every finished match are kept in
    out/parts, under a name that covers what they depend on. Apart from seconds, the same contest
    gives the same records. What made them is kept in out/about.json.
    """
    started = time.perf_counter()
    store = Store(out, "parts")
    matches = list(contest.matches())
    parts = []
    with progress_bar(
        progress,
        total=sum(map(_effort, matches)),
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left",
        smoothing=0.05,
        dynamic_ncols=True,
    ) as bar:
        for match in matches:
            bar.set_description_str(f"{match.games.name}, N = {match.n}: {match.entrant.name}")
            parts.append(
                store.piece(match.file_name, match.measure, read=_read, write=pq.write_table)
            )
            bar.update(_effort(match))

    records = pa.concat_tables(
        _named(match, part) for match, part in zip(matches, parts, strict=True)
    )
    about = {
        "command": command,
        "commit": commit(),
        "code": code_digest(),
        "versions": versions(),
        "machine": machine(),
        "seconds": round(time.perf_counter() - started, 1),
    }
    with written_whole(out / RECORDS) as partial_file:
        pq.write_table(records, partial_file)
    with written_whole(out / ABOUT) as partial_file:
        partial_file.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return records


def read_records(out: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Return the records in a folder, and what made them."""
    about = json.loads((out / ABOUT).read_text(encoding="utf-8"))
    return pq.read_table(out / RECORDS), about


def _effort(match: Match) -> float:
    """Return about how long a match takes: kriging's equations grow with the budget."""
    equations = 1 + match.budget / 100 if match.entrant.name == "kriging" else 1
    return len(match.games) * match.draws * match.budget * equations


def _named(match: Match, part: pa.Table) -> pa.Table:
    """Return a part with the names of this contest: a file may have been renamed since."""
    for column, name in (("games", match.games.name), ("entrant", match.entrant.name)):
        place = SCHEMA.get_field_index(column)
        part = part.set_column(place, SCHEMA.field(place), [[name] * len(part)])
    return part


def _read(path: Path) -> pa.Table:
    try:
        part = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if part.schema != SCHEMA:
        raise InputError(f"{path} has other columns than the records of a contest")
    return part


__all__ = ["SCHEMA", "Contest", "Match", "read_records", "run"]
