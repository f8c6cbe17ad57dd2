"""The studies of Theorems 1 and 2 and Remark 2: what pairs of features lose without each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shearshap.interactions.cross import cross_contribution
from shearshap_lab import theory
from shearshap_lab.experiments.records import STUDIES, joined
from shearshap_lab.experiments.studies.cooperators import among, others_first, size_at
from shearshap_lab.experiments.studies.estimates import draws
from shearshap_lab.experiments.subject import Subject
from shearshap_lab.runner import table

RANDOM_SETS = 5  #: draws of random cooperators for Remark 2


@dataclass(frozen=True, eq=False)
class Pairs:
    """What the theorems say of all pairs of a row's players, (p, p) each."""

    loss: Tensor  #: phi_i(U) - phi_i(U - j)
    chain: Tensor  #: Delta_ij of Theorem 1, as printed
    printed: Tensor  #: Theorem 2's bound, by second derivatives at the corners
    sure: Tensor  #: the bound by second differences in their place


# both studies look at the same few rows
@lru_cache(maxsize=16)
def pairs_of(subject: Subject, row: int) -> Pairs:
    """Return what the theorems say of a row, by its place among the subject's rows."""
    players = subject.players
    with subject.game([row]) as game:

        def surface(z: Tensor) -> Tensor:
            return game.surface(z.float()[None])[0, :, 0]

        differences = theory.cross_differences(surface, players)
        derivatives = theory.cross_derivatives(surface, players)
    return Pairs(
        loss=theory.chain_rule_errors(differences),
        chain=theory.chain_rule_errors(derivatives),
        printed=theory.removal_bounds(derivatives),
        sure=theory.removal_bounds(differences),
    )


def pairs(subject: Subject, rows: int) -> pa.Table:
    """Return phi_i(U) - phi_i(U - j), and what Theorems 1 and 2 say of it, for pairs of rows."""
    i, j = torch.triu_indices(subject.players, subject.players, offset=1)
    tables = []
    for row in range(rows):
        matrices = vars(pairs_of(subject, row))
        columns = {name: matrix[i, j].numpy() for name, matrix in matrices.items()}
        columns |= {"player": i.numpy(), "other": j.numpy()}
        tables.append(table(STUDIES["pairs"], {**_names(subject, row), **columns}))
    return joined("pairs", tables)


def selection_bound(subject: Subject, rows: int, evaluations: Sequence[int]) -> pa.Table:
    """Return |phi_i(U) - phi_i(S + i)| and Remark 2's bounds on it, for every player i of rows.

    The cooperators S have the largest eta_ij ("shear"), the largest bound of Theorem 2 ("bound",
    which minimises that of Remark 2), or are drawn ("random").
    """
    tables = [_selection_bound(subject, row, evaluations) for row in range(rows)]
    return joined("selection_bound", tables)


def _selection_bound(subject: Subject, row: int, evaluations: Sequence[int]) -> pa.Table:
    players = subject.players
    pairs = pairs_of(subject, row)
    target = torch.arange(players)
    true = torch.from_numpy(subject.truth.values[row])
    tables = []
    # one game row for each player
    with subject.game([row] * players) as game:
        for selection, draw, score in _scores(subject, row, pairs):
            ranked = others_first(score, target)
            for n in evaluations:
                size = min(size_at(n), players - 1)
                chosen = ranked[:, :size]
                inside = torch.zeros((players, players), dtype=torch.bool).scatter(1, chosen, True)
                columns = {
                    **_names(subject, row),
                    "player": target.numpy(),
                    "n": n,
                    "selection": selection,
                    "draw": draw,
                    "bound": theory.selection_bounds(pairs.printed, inside).numpy(),
                    "sure": theory.selection_bounds(pairs.sure, inside).numpy(),
                    "error": (among(game, target, chosen) - true).abs().numpy(),
                }
                tables.append(table(STUDIES["selection_bound"], columns))
    return joined("selection_bound", tables)


def _scores(subject: Subject, row: int, pairs: Pairs) -> Iterator[tuple[str, int, Tensor]]:
    """Yield each selection, its draw and the scores (p, p) of each player's cooperators."""
    with subject.game([row]) as game:
        yield "shear", 0, cross_contribution(game)[0]
    yield "bound", 0, pairs.printed
    for draw in range(RANDOM_SETS):
        rng = np.random.default_rng(draws(subject.seed, 3, row, draw))
        yield "random", draw, torch.from_numpy(rng.random(pairs.loss.shape))


def _names(subject: Subject, row: int) -> dict[str, Any]:
    return {**subject.names, "row": int(subject.truth.rows[row])}
