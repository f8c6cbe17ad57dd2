"""All kinds of games by name, and the games of each by number."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.random import Generator

from kinds import models, rules
from kinds.game import ENUMERATED, Game, Rows

RULES: dict[str, Callable[[int, Generator], rules.Made]] = {
    "weighted votes": rules.votes,
    "exp(linear)": rules.exponential,
    "logistic": rules.logistic,
    "gloves": rules.gloves,
    "maximum": rules.maximum,
    "AND": rules.conjunction,
    "unanimity sums": rules.unanimity,
    "odd parity": rules.odd_parity,
    "even parity": rules.even_parity,
    "dominating player": rules.dominating,
    "near-additive": rules.near_additive,
}

MODELS: dict[str, Callable[[int, int, Generator], Rows]] = {
    "boosted trees": models.boosted_trees,
    "forests": models.forest,
    "networks by logit": models.logits,
    "networks by probability": models.probabilities,
    "hard labels": models.labels,
}

KINDS = (*RULES, *MODELS)

#: their values come from all coalitions
OF_FEW_PLAYERS = ("networks by probability", "hard labels")


def has(kind: str, players: int) -> bool:
    """Return whether there are games of a kind with so many players."""
    return players <= ENUMERATED or kind not in OF_FEW_PLAYERS


def make(kind: str, players: int, number: int) -> Game:
    """Return a game of a kind by its number, always the same."""
    if kind in MODELS:
        rows = make_rows(kind, players, number // models.ROWS)
        return rows.game(number % models.ROWS)
    rng = generator(kind, players, number)
    value, phi = RULES[kind](players, rng)
    return Game(kind, f"{kind} {number}", value, phi)


@lru_cache(maxsize=2)
def make_rows(kind: str, players: int, number: int) -> Rows:
    """Return the rows of a model of a kind by its number, always the same."""
    rng = generator(kind, players, number)
    rows = MODELS[kind](players, number, rng)
    return replace(rows, kind=kind, name=f"{kind} {number}, {rows.name}")


def generator(kind: str, players: int, number: int) -> Generator:
    """Return the source of a game's random numbers."""
    return np.random.default_rng([crc32(kind.encode()), players, number])
