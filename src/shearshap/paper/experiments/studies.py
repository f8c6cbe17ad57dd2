"""The studies: each a function from a subject to records.

| study | the paper's | |---|---| | estimates | RQ1, RQ2 and the ablations of RQ4: four metrics of
every row (Figures 2, 3 and 4 d) | | timings | RQ3: seconds for all rows, derivatives included
(Figures 4 a-c), and the cost model of eq. (time) | | cooperators | RQ4: a feature's error among
chosen cooperators only (Figures 4 e and f) | | bounds | how tight Theorem 2 is: what leaving a
feature out takes from another, and the bounds on it | | illustration | one row, SHEAR beside the
exact values (the appendix's figure) | | models | the data sets and hyper-parameters as they are
(the appendix's tables) |
"""

import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap import __version__
from shearshap.coalitions import subsets
from shearshap.errors import ShearWarning
from shearshap.explanation import Floats
from shearshap.game import ModelGame
from shearshap.interactions.cross import cross_contribution
from shearshap.methods import METHODS
from shearshap.methods.shear import subset_weights
from shearshap.paper import theory
from shearshap.paper.experiments.records import joined, table
from shearshap.paper.experiments.spec import ABLATED, CANDIDATES
from shearshap.paper.experiments.subject import Subject
from shearshap.paper.metrics import absolute_error, faithfulness, monotonicity, ranking_accuracy
from shearshap.paper.networks.training import BATCH, RATES

VERSIONS = ", ".join(
    (
        f"shearshap {__version__}",
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}",
        f"numpy {np.__version__}",
    )
)
TRUTH = "truth"  #: the method of the ground truth's own records, whose `n` is 0
FORWARD, DERIVATIVES = (
    "forward",
    "derivatives",
)  #: what the cost model is made of, timed like methods
ILLUSTRATED = 1.73  #: f1 - f0 of the row that the paper illustrates
LEAST_SECONDS = 0.1  #: of one timing
DRAWS = 10  #: of random cooperators for each feature, where their cross-contribution is looked at
MOST_COALITIONS = 1 << 16  #: of one feature and its cooperators


def machine() -> str:
    """Return the processor and what of it is used: what timings depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = named[0] if named else platform.processor() or platform.machine()
    return (
        f"{processor}, {os.cpu_count()} cores ({torch.get_num_threads()} used), {platform.system()}"
    )


def draws(*numbers: int) -> int:
    """Return a seed that is a function of these numbers, and of nothing else."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def describe(subject: Subject) -> pa.Table:
    """Return what the data set, the network and its ground truth are."""
    dataset, trained, truth = subject.dataset, subject.trained, subject.truth
    config = trained.config
    embedded = config.kind == "deepfm"
    return table(
        "models",
        {
            "dataset": dataset.name,
            "title": dataset.title,
            "seed": trained.seed,
            "network": "DeepFM" if embedded else "3-layer MLP",
            "activation": config.activation,
            "hidden": config.hidden,
            "learning_rate": RATES[config.kind],
            "batch_size": BATCH,
            "reference": "mean, mode of categories" if embedded else "mean",
            "continuous": dataset.continuous,
            "categorical": dataset.categorical,
            "inputs": dataset.inputs.shape[1],
            "train": len(dataset.train),
            "validation": len(dataset.validation),
            "test": len(dataset.test),
            "epochs": trained.epochs,
            "accuracy": trained.test_accuracy,
            "majority": trained.majority,
            "rows": len(truth.rows),
            "truth": "exact"
            if truth.exact
            else f"estimated, expected error {truth.error:.3%} of mean share",
            "truth_evaluations": truth.evaluations,
            "size": float(np.abs(truth.values).sum(axis=1).mean()),
            "key": truth.key,
            "versions": VERSIONS,
        },
    )


def estimate(subject: Subject, method: str, n: int, number: int) -> pa.Table:
    """Return every row's metrics of one round of a method at n evaluations a feature."""
    seed = draws(subject.trained.seed, number)
    with warnings.catch_warnings():
        # too few coalitions for a regression are part of the paper's protocol
        warnings.simplefilter("ignore", ShearWarning)
        found = subject.explain(CANDIDATES[method], subject.budget(n), seed=seed)
    spent = {"evaluations": found.evaluations, "derivative_passes": found.derivative_passes}
    return _scored(subject, found.values, {"method": method, "n": n, "round": number, **spent})


def score_truth(subject: Subject) -> pa.Table:
    """Return every row's metrics of the ground truth itself: what its faithfulness and monotonicity
    come to.
    """
    spent = {"evaluations": subject.truth.evaluations, "derivative_passes": 0}
    return _scored(subject, subject.truth.values, {"method": TRUTH, "n": 0, "round": 0, **spent})


def _scored(subject: Subject, shares: Floats, facts: dict[str, Any]) -> pa.Table:
    """Return the records of shares (r, p), with the facts that all rows have in common."""
    truth = subject.truth
    with subject.game() as game:
        monotone = monotonicity(shares, game)
    return table(
        "estimates",
        {
            "dataset": subject.dataset.name,
            "seed": subject.trained.seed,
            "row": truth.rows,
            "absolute_error": absolute_error(shares, truth.values),
            "ranking_accuracy": ranking_accuracy(shares, truth.values),
            "faithfulness": faithfulness(shares, subject.effects),
            "monotonicity": monotone,
            **facts,
        },
    )


def timing(subject: Subject, method: str, n: int, number: int) -> pa.Table:
    """Return the seconds that all rows take, by a method or a part of the cost model; a short run
    warms up.

    What takes no time at all is done again and again, for its mean.
    """
    work = _work(subject, method, n)
    work(slice(0, 16))
    started, times = time.perf_counter(), 0
    while times == 0 or time.perf_counter() - started < LEAST_SECONDS:
        work(slice(None))
        times += 1
    seconds = (time.perf_counter() - started) / times
    return table(
        "timings",
        {
            "dataset": subject.dataset.name,
            "seed": subject.trained.seed,
            "method": method,
            "n": n,
            "round": number,
            "rows": len(subject.truth.rows),
            "seconds": seconds,
            "machine": machine(),
        },
    )


def _work(subject: Subject, method: str, n: int) -> Callable[[slice], object]:
    """Return what is timed: explaining rows, their bare forward passes, or their derivatives."""

    def explained(rows: slice) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShearWarning)
            return subject.explain(CANDIDATES[method], subject.budget(n), rows=rows)

    def forward(rows: slice) -> object:
        with subject.game(rows) as game:
            full = torch.ones((1, subject.budget(n), game.players), dtype=torch.bool)
            return game(full)

    def derivatives(rows: slice) -> object:
        with subject.game(rows) as game:
            return cross_contribution(game)

    return {FORWARD: forward, DERIVATIVES: derivatives}.get(method, explained)


def cooperators(subject: Subject, selection: str, draw: int = 0) -> pa.Table:
    """Return |phi_i(U) - phi_i(S + i)| and sum_S eta_ij for one random feature i of every row, of
    those that matter.

    S is random, or, by `selection` "shear", the players of largest eta_ij; of every size, in later
    draws of the size that N = 16 allows.
    """
    rows, players = subject.truth.values.shape
    target = torch.from_numpy(
        _targets(subject.truth.values, np.random.default_rng(draws(subject.trained.seed, 1)))
    )
    chance = torch.from_numpy(
        np.random.default_rng(draws(subject.trained.seed, 2, draw)).random((rows, players))
    )
    every = range(1, min(players, MOST_COALITIONS.bit_length() - 1))
    ablated = [size for size in every if theory.coalitions_needed(size) == ABLATED]
    share = torch.from_numpy(subject.truth.values)[torch.arange(rows), target]
    with subject.game() as game:
        eta = cross_contribution(game)[torch.arange(rows), target]
        ranked = _others_first(chance if selection == "random" else eta, target)
        parts = [
            table(
                "cooperators",
                {
                    "dataset": subject.dataset.name,
                    "seed": subject.trained.seed,
                    "row": subject.truth.rows,
                    "player": target.numpy(),
                    "n": theory.coalitions_needed(size),
                    "selection": selection,
                    "draw": draw,
                    "cross_contribution": eta.gather(1, ranked[:, :size]).sum(dim=1).numpy(),
                    "error": (among(game, target, ranked[:, :size]) - share).abs().numpy(),
                    "share": share.numpy(),
                },
            )
            for size in (every if draw == 0 else ablated)
        ]
    return joined("cooperators", parts)


def _targets(shares: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random player of each row (r,); one that has no share, as at its reference, gives
    way to the next.
    """
    rows, players = shares.shape
    order = (rng.integers(players, size=(rows, 1)) + np.arange(players)) % players
    size = np.take_along_axis(abs(shares), order, axis=1)
    first = (size > 1e-7 * size.max(axis=1, keepdims=True)).argmax(axis=1)
    return np.asarray(order[np.arange(rows), first])


def _others_first(score: Tensor, target: Tensor) -> Tensor:
    """Return the players of each row but its target, by falling score (r, p): (r, p - 1)."""
    lowest = score.scatter(1, target[:, None], -torch.inf)
    return lowest.argsort(dim=1, descending=True, stable=True)[:, :-1]


def among(game: ModelGame, target: Tensor, cooperators: Tensor) -> Tensor:
    """Return phi_i(S + i): each row's target's (r,) share among its cooperators (r, K) only, all
    others absent.
    """
    rows, size = cooperators.shape
    chosen = subsets(size)
    without = torch.zeros((rows, len(chosen), game.players), dtype=torch.bool)
    index = cooperators[:, None].expand(-1, len(chosen), -1)
    without.scatter_(2, index, torch.from_numpy(chosen).expand(rows, -1, -1))
    alone = torch.nn.functional.one_hot(target, game.players).bool()[:, None]
    gain = (game(without | alone) - game(without))[:, :, 0]
    return gain @ torch.from_numpy(subset_weights(chosen))


def bounds(subject: Subject, row: int) -> pa.Table:
    """Return, for every pair (i, j) of a row, |phi_i(U) - phi_i(U - j)| and Theorem 2's bounds on
    it.

    As printed, by second derivatives at the corners; and for sure, by differences in their place.
    """
    players = subject.players
    with subject.game([row]) as game:

        def surface(z: Tensor) -> Tensor:
            return game.surface(z.float()[None])[0, :, 0]

        differences = theory.cross_differences(surface, players)
        derivatives = theory.cross_derivatives(surface, players)
    i, j = torch.triu_indices(players, players, offset=1)
    return table(
        "bounds",
        {
            "dataset": subject.dataset.name,
            "seed": subject.trained.seed,
            "row": int(subject.truth.rows[row]),
            "player": i.numpy(),
            "other": j.numpy(),
            "loss": theory.chain_rule_errors(differences).abs()[i, j].numpy(),
            "printed": theory.removal_bounds(derivatives)[i, j].numpy(),
            "sure": theory.removal_bounds(differences)[i, j].numpy(),
        },
    )


def illustration(subject: Subject) -> pa.Table:
    """Return SHEAR beside the exact values for the row whose f1 - f0 is nearest to that of the
    paper's row.
    """
    margin = _margin(subject)
    place = int(np.abs(margin - ILLUSTRATED).argmin())
    exact = subject.explain(
        METHODS["exact"], 1 << subject.players, output=_difference, rows=[place]
    )
    found = subject.explain(
        METHODS["shear"], subject.budget(ABLATED), output=_difference, rows=[place]
    )
    row = int(subject.truth.rows[place])
    return table(
        "illustration",
        {
            "dataset": subject.dataset.name,
            "seed": subject.trained.seed,
            "row": row,
            "feature": subject.dataset.feature_names,
            "value": [str(text) for text in subject.dataset.display[row]],
            "exact": exact.values[0],
            "shear": found.values[0],
            "base_value": float(found.base_values[0]),
            "prediction": float(found.predictions[0]),
            "evaluations": found.evaluations,
        },
    )


def _margin(subject: Subject) -> NDArray[np.float64]:
    with torch.no_grad():
        logits = subject.trained.network(torch.from_numpy(subject.inputs))
    return np.asarray(_difference(logits).numpy(), dtype=np.float64)


def _difference(logits: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]
