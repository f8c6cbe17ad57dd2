"""The studies of cooperators: a feature's error among chosen cooperators only, and what pairs of
features lose without each other (Theorems 1 and 2, and Remark 2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.coalitions import subsets
from shearshap.games.marginal import ModelGame
from shearshap.interactions.cross import cross_contribution
from shearshap.methods.shear import subset_weights
from shearshap.result.explanation import Floats
from shearshap_lab import theory
from shearshap_lab.experiments.spec import ABLATION_N, STUDIES, joined
from shearshap_lab.experiments.studies.estimates import Subject, draws
from shearshap_lab.runner import table

RANDOM_SETS = 5  #: draws of random cooperators for Remark 2
DRAWS = 6  #: of random cooperators for each feature, to compare with their cross-contribution
MAX_COALITIONS = 1 << 16  #: of one feature and its cooperators
NEGLIGIBLE = 1e-7  #: a value below this fraction of the row's largest is zero, up to rounding


def cooperators(subject: Subject) -> pa.Table:
    """Return the error |phi_i(U) - phi_i(S + i)| of features i of every row.

    The cooperators S are random or, by `selection` "shear", the players of largest eta_ij. The
    records hold sum_S eta_ij too. Draw 0 is of one random feature of each row, and of every size of
    S; later draws are of every feature, and of the size that N = 16 allows. Features whose value is
    zero are left out.
    """
    phi = subject.truth.values
    players = phi.shape[1]
    targets = _targets(phi, np.random.default_rng(draws(subject.seed, 1)))
    with subject.game() as game:
        eta = cross_contribution(game)

        def records(selection: str, draw: int, targets: NDArray[np.int64], size: int) -> pa.Table:
            rng = np.random.default_rng(draws(subject.seed, 2, draw))
            chance = torch.from_numpy(rng.random(eta.shape))
            score = eta if selection == "shear" else chance
            names = {"selection": selection, "draw": draw}
            return _among_chosen(subject, game, eta, score, targets, size, names)

        tables = [
            records(selection, 0, targets, size)
            for selection in ("shear", "random")
            for size in _sizes(players)
        ]
        tables += [
            records("random", draw, np.full(len(phi), player), size_at(ABLATION_N))
            for draw in range(1, 1 + DRAWS)
            for player in range(players)
        ]
    return joined("cooperators", tables)


def _among_chosen(
    subject: Subject,
    game: ModelGame,
    eta: Tensor,
    score: Tensor,
    targets: NDArray[np.int64],
    size: int,
    names: dict[str, Any],
) -> pa.Table:
    """Return the records of targets (r,) among the others of largest score (r, p, p)."""
    truth = subject.truth
    rows = torch.arange(len(targets))
    target = torch.from_numpy(targets)
    true = torch.from_numpy(truth.values)[rows, target]
    chosen = others_first(score[rows, target], target)[:, :size]
    columns = {
        **subject.names,
        **names,
        "row": truth.rows,
        "player": targets,
        "n": theory.coalitions_needed(size),
        "cross_contribution": eta[rows, target].gather(1, chosen).sum(dim=1).numpy(),
        "error": (among(game, target, chosen) - true).abs().numpy(),
    }
    matters = _matter(truth.values)[np.arange(len(targets)), targets]
    return table(STUDIES["cooperators"], columns).filter(matters)


def size_at(n: int) -> int:
    """Return how many cooperators n evaluations a feature allow."""
    return n.bit_length() - 2


def _sizes(players: int) -> range:
    """Return the numbers of cooperators to try: all that can be afforded."""
    return range(1, min(players, MAX_COALITIONS.bit_length() - 1))


def _targets(phi: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random player of each row (r,), by values (r, p).

    A player whose value is zero, such as one that equals its background, gives way to the next.
    """
    rows, players = phi.shape
    first = rng.integers(players, size=(rows, 1))
    order = (first + np.arange(players)) % players
    matters = np.take_along_axis(_matter(phi), order, axis=1)
    return np.asarray(order[np.arange(rows), matters.argmax(axis=1)])


def _matter(phi: Floats) -> NDArray[np.bool_]:
    """Return whether values (r, p) differ from zero by more than rounding."""
    size = np.abs(phi)
    return np.asarray(size > NEGLIGIBLE * size.max(axis=1, keepdims=True))


def others_first(score: Tensor, target: Tensor) -> Tensor:
    """Return the players of each row but its target, by falling score (r, p): (r, p - 1)."""
    lowest = score.scatter(1, target[:, None], -torch.inf)
    return lowest.argsort(dim=1, descending=True, stable=True)[:, :-1]


def among(game: ModelGame, target: Tensor, cooperators: Tensor) -> Tensor:
    """Return phi_i(S + i) of each row's target i (r,) among its cooperators S (r, K), (r,).

    All other players are absent.
    """
    rows, size = cooperators.shape
    chosen = subsets(size)
    without = torch.zeros((rows, len(chosen), game.players), dtype=torch.bool)
    index = cooperators[:, None].expand(-1, len(chosen), -1)
    without.scatter_(2, index, torch.from_numpy(chosen).expand(rows, -1, -1))

    alone = torch.nn.functional.one_hot(target, game.players).bool()[:, None]
    gain = (game(without | alone) - game(without))[:, :, 0]
    return gain @ torch.from_numpy(subset_weights(chosen))


# Theorems 1 and 2, and Remark 2


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
