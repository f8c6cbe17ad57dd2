"""What each mechanism of kriging is worth: its error without one, over that with all of them.

    python benchmarks/ablation.py                     12 and 30 players, all kinds of games
    python benchmarks/ablation.py --quick             few games of each kind
    python benchmarks/ablation.py --tables FOLDER     tables of games too: each .npz file

N evaluations per player are a budget of N p + 2. Each game is explained alone. A cell is a kind of
game and an N: it compares the mean errors over games. A ratio above 1 says that the mechanism
lowers errors. Coverage is the part of the exact values that 95 % intervals hold.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from setting import EVALUATIONS_PER_PLAYER, Tables, game_options, machine, measured_games, parser_of
from shearshap.methods.kriging import pairs
from shearshap_lab.games.models import MODELS
from shearshap_lab.games.rules import RULES
from shearshap_lab.games.study import Task, measured, subject_of
from shearshap_lab.games.tables import Floats

PLAYERS = (12, 30)
NONE = 1e-9  #: of the range: an error that is as good as none
LOW = 0.9  #: coverage that is too low

MODULE = "shearshap.methods.kriging."
Change = dict[str, Any]


def nothing_rough(_values: torch.Tensor, max_residual: torch.Tensor) -> torch.Tensor:
    """Return that residuals of pairs left out do not count."""
    return torch.zeros_like(max_residual)


WITHOUT: dict[str, Change] = {
    "nothing": {},
    "the fit": {"calibration.FIT_STEPS": 0},
    "the even part in the fit": {"calibration.EVEN_WEIGHT": 0.0},
    "quiet players": {"calibration.QUIET_VARIANCES": (None,)},
    "the component of the size": {"calibration.SIZE_VARIANCES": ()},
    "the size in the selection": {"pairs.SELECTION_SIZE": 0.0},
    "the selection of pairs": {"pairs.CANDIDATES": 1},
    "prefixes": {"pairs.PREFIX_LIMIT": 0.0},
    "inflation": {"calibration.MAX_INFLATION": 1.0},
    "pairs left out": {"posterior._roughness": nothing_rough},
}


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """Switch a mechanism off; selections made before are forgotten."""
    pairs._selections_made.cache_clear()
    with ExitStack() as stack:
        for name, value in change.items():
            stack.enter_context(patch(MODULE + name, value))
        yield
    pairs._selections_made.cache_clear()


def measure(task: Task) -> tuple[str, Floats]:
    """Return a game's kind, and its errors and coverage, (2, N, mechanisms).

    Both are NaN if the budget holds all coalitions.
    """
    subject = subject_of(task.game())
    players = subject.phi.shape[1]
    found = np.full((2, len(EVALUATIONS_PER_PLAYER), len(WITHOUT)), np.nan)
    for at, each in enumerate(EVALUATIONS_PER_PLAYER):
        budget = each * players + 2
        if budget >= 1 << players:
            continue
        for number, change in enumerate(WITHOUT.values()):
            with changed(change):
                record = measured(subject, "kriging", budget, seed=task.number)
            found[:, at, number] = record["error"], record["held"] / max(record["known"], 1)
    return subject.kind, found


def family(kind: str) -> str:
    """Return what sort of game a kind is."""
    return "rules" if kind in RULES else "models" if kind in MODELS else "tables"


def report(tables: Tables, players: int, results: list[tuple[str, Floats]]) -> None:
    """Print the table of one number of players: a line for each mechanism."""
    kinds = list(dict.fromkeys(kind for kind, _ in results))
    means = np.stack(
        [np.mean([found for name, found in results if name == kind], axis=0) for kind in kinds]
    )
    ratios = (means[:, 0] + NONE) / (means[:, 0, :, :1] + NONE)  # (kinds, N, mechanisms)
    families = [family(kind) for kind in kinds]
    shown = sorted(set(families))

    lines = []
    for number, name in enumerate(WITHOUT):
        by_family = [geometric(ratios[np.array(families) == each, :, number]) for each in shown]
        coverage = means[:, 1, :, number]
        known = coverage[np.isfinite(coverage)]
        worst = int(np.nanmax(ratios[..., number], axis=1).argmax())
        lines.append(
            [
                str(players),
                name,
                *(f"{ratio:.2f}" for ratio in by_family),
                f"{np.nanmax(ratios[..., number]):.2f}",
                kinds[worst],
                f"{known.mean():.3f}",
                str((known < LOW).sum()),
                str(len(known)),
            ]
        )
    header = ["players", "without", *shown, "largest cell", "games of the largest cell"]
    tables.show("ablation", [*header, "coverage", "cells below 90 %", "cells"], lines)


def geometric(ratios: Floats) -> float:
    """Return the geometric mean of those that are known."""
    return float(np.exp(np.nanmean(np.log(ratios))))


def main() -> None:
    given = game_options(parser_of(__doc__), games=(8, 2))
    tables = Tables(f"{given.games} games of each kind; {machine()}", given.csv)
    for players, results in measured_games(given, PLAYERS, measure):
        report(tables, players, results)


if __name__ == "__main__":
    main()
