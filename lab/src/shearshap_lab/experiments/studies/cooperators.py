"""The study of cooperators: a feature's error among chosen cooperators only."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.coalitions import subsets
from shearshap.games.game import ModelGame
from shearshap.interactions.cross import cross_contribution
from shearshap.methods.shear import subset_weights
from shearshap.result.explanation import Floats
from shearshap_lab import theory
from shearshap_lab.experiments.records import STUDIES, joined
from shearshap_lab.experiments.spec import ABLATION_N
from shearshap_lab.experiments.studies.estimates import draws
from shearshap_lab.experiments.subject import Subject
from shearshap_lab.runner import table

DRAWS = 10  #: of random cooperators for each feature, to compare with their cross-contribution
MOST_COALITIONS = 1 << 16  #: of one feature and its cooperators
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
        "value": true.numpy(),
    }
    matters = _matter(truth.values)[np.arange(len(targets)), targets]
    return table(STUDIES["cooperators"], columns).filter(matters)


def size_at(n: int) -> int:
    """Return how many cooperators n evaluations a feature allow."""
    return n.bit_length() - 2


def _sizes(players: int) -> range:
    """Return the numbers of cooperators to try: all that can be afforded."""
    return range(1, min(players, MOST_COALITIONS.bit_length() - 1))


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
