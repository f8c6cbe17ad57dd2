"""The studies: each a function from a subject to records.

| study | the paper's |
| --- | --- |
| estimates | RQ1, RQ2 and the ablations of RQ4: four metrics of every row (Figures 2, 3 and 4 d) |
| timings | RQ3: seconds for all rows with derivatives (Figures 4 a-c), and eq. (time) |
| cooperators | RQ4: a feature's error among chosen cooperators only (Figures 4 e and f) |
| bounds | how tight Theorem 2 is: what one feature's value loses without another, and its bounds |
| illustration | one row, SHEAR beside the exact values (the appendix's figure) |
| models | the data sets and hyper-parameters as they are (the appendix's tables) |
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
from shearshap.explanation import Explanation, Floats
from shearshap.game import ModelGame
from shearshap.interactions.cross import cross_contribution
from shearshap.methods import METHODS
from shearshap.methods.shear import subset_weights
from shearshap.paper import theory
from shearshap.paper.experiments.records import joined, table
from shearshap.paper.experiments.spec import ABLATED, CANDIDATES
from shearshap.paper.experiments.subject import EVERY, Subject
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
FORWARD = "forward"  #: the forward passes of the cost model, timed like a method
DERIVATIVES = "derivatives"  #: its derivatives, likewise
ILLUSTRATED = 1.73  #: f1 - f0 of the row that the paper illustrates
LEAST_SECONDS = 0.1  #: of one timing
WARM_UP_ROWS = 16  #: explained before a timing starts
DRAWS = 10  #: of random cooperators for each feature, to compare with their cross-contribution
MOST_COALITIONS = 1 << 16  #: of one feature and its cooperators
NEGLIGIBLE = 1e-7  #: a value below this fraction of the row's largest is zero, up to rounding


def machine() -> str:
    """Return the processor and the cores used, which timings depend on."""
    cores = f"{os.cpu_count()} cores ({torch.get_num_threads()} used)"
    return f"{_processor()}, {cores}, {platform.system()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    if names:
        return names[0]
    return platform.processor() or platform.machine()


def draws(*numbers: int) -> int:
    """Return a seed that is a function of these numbers, and of nothing else."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _names(subject: Subject) -> dict[str, Any]:
    """Return the columns that say which network the records are of."""
    return {"dataset": subject.dataset.name, "seed": subject.trained.seed}


# The models


def describe(subject: Subject) -> pa.Table:
    """Return the record of the data set, the network and its ground truth."""
    dataset = subject.dataset
    trained = subject.trained
    truth = subject.truth
    config = trained.config
    embedded = config.kind == "deepfm"
    return table(
        "models",
        {
            **_names(subject),
            "title": dataset.title,
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
            "truth": _kind_of_truth(subject),
            "truth_evaluations": truth.evaluations,
            "size": float(np.abs(truth.values).sum(axis=1).mean()),
            "key": truth.key,
            "versions": VERSIONS,
        },
    )


def _kind_of_truth(subject: Subject) -> str:
    truth = subject.truth
    if truth.exact:
        return "exact"
    return f"estimated, expected error {truth.error:.3%} of mean absolute value"


# Estimates


def estimate(subject: Subject, method: str, n: int, number: int) -> pa.Table:
    """Return every row's metrics of one round of a method at n evaluations a feature."""
    seed = draws(subject.trained.seed, number)
    answer = _explained(subject, method, n, seed=seed)
    facts = {
        "method": method,
        "n": n,
        "round": number,
        "evaluations": answer.evaluations,
        "derivative_passes": answer.derivative_passes,
    }
    return _scored(subject, answer.values, facts)


def score_truth(subject: Subject) -> pa.Table:
    """Return every row's metrics of the ground truth itself.

    They show how faithful and monotone exact values are.
    """
    facts = {
        "method": TRUTH,
        "n": 0,
        "round": 0,
        "evaluations": subject.truth.evaluations,
        "derivative_passes": 0,
    }
    return _scored(subject, subject.truth.values, facts)


def _scored(subject: Subject, phi: Floats, facts: dict[str, Any]) -> pa.Table:
    """Return the records of values (r, p), with the facts that all rows have in common."""
    truth = subject.truth
    with subject.game() as game:
        monotone = monotonicity(phi, game)
    return table(
        "estimates",
        {
            **_names(subject),
            "row": truth.rows,
            "absolute_error": absolute_error(phi, truth.values),
            "ranking_accuracy": ranking_accuracy(phi, truth.values),
            "faithfulness": faithfulness(phi, subject.effects),
            "monotonicity": monotone,
            **facts,
        },
    )


def _explained(
    subject: Subject, method: str, n: int, *, seed: int = 0, rows: Any = EVERY
) -> Explanation:
    """Return the explanation of rows by a method at n evaluations a feature."""
    with warnings.catch_warnings():
        # too few coalitions for a regression are part of the paper's protocol
        warnings.simplefilter("ignore", ShearWarning)
        return subject.explain(CANDIDATES[method], subject.budget(n), seed=seed, rows=rows)


# Timings


def timing(subject: Subject, method: str, n: int, number: int) -> pa.Table:
    """Return the seconds that all rows take, by a method or a part of the cost model."""
    return table(
        "timings",
        {
            **_names(subject),
            "method": method,
            "n": n,
            "round": number,
            "rows": len(subject.truth.rows),
            "seconds": _seconds(_work(subject, method, n)),
            "machine": machine(),
        },
    )


def _seconds(work: Callable[[slice], object]) -> float:
    """Return the mean time of the work on all rows, after a short run to warm up.

    Work that takes almost no time is repeated.
    """
    work(slice(0, WARM_UP_ROWS))
    started = time.perf_counter()
    times = 0
    while times == 0 or time.perf_counter() - started < LEAST_SECONDS:
        work(slice(None))
        times += 1
    return (time.perf_counter() - started) / times


def _work(subject: Subject, method: str, n: int) -> Callable[[slice], object]:
    """Return what is timed: explaining rows, their bare forward passes, or their derivatives."""

    def explained(rows: slice) -> object:
        return _explained(subject, method, n, rows=rows)

    def forward(rows: slice) -> object:
        with subject.game(rows) as game:
            full = torch.ones((1, subject.budget(n), game.players), dtype=torch.bool)
            return game(full)

    def derivatives(rows: slice) -> object:
        with subject.game(rows) as game:
            return cross_contribution(game)

    return {FORWARD: forward, DERIVATIVES: derivatives}.get(method, explained)


# Cooperators


def cooperators(subject: Subject, selection: str, draw: int = 0) -> pa.Table:
    """Return the error |phi_i(U) - phi_i(S + i)| of one random feature i of every row.

    The cooperators S are random or, by `selection` "shear", the players of largest eta_ij. The
    records hold sum_S eta_ij too. Draw 0 is of every size of S, later draws of the size that N = 16
    allows. A feature whose value is zero is not chosen.
    """
    network = subject.trained.seed
    phi = torch.from_numpy(subject.truth.values)
    rows, players = phi.shape
    target = torch.from_numpy(
        _targets(subject.truth.values, np.random.default_rng(draws(network, 1)))
    )
    true = phi[torch.arange(rows), target]
    chance = np.random.default_rng(draws(network, 2, draw)).random((rows, players))

    with subject.game() as game:
        eta = cross_contribution(game)[torch.arange(rows), target]
        score = torch.from_numpy(chance) if selection == "random" else eta
        ranked = _others_first(score, target)
        tables = []
        for size in _sizes(players, every=draw == 0):
            chosen = ranked[:, :size]
            columns = {
                **_names(subject),
                "row": subject.truth.rows,
                "player": target.numpy(),
                "n": theory.coalitions_needed(size),
                "selection": selection,
                "draw": draw,
                "cross_contribution": eta.gather(1, chosen).sum(dim=1).numpy(),
                "error": (among(game, target, chosen) - true).abs().numpy(),
                "share": true.numpy(),
            }
            tables.append(table("cooperators", columns))
    return joined("cooperators", tables)


def _sizes(players: int, *, every: bool) -> list[int]:
    """Return the numbers of cooperators to try: all that can be afforded, or that of N = 16."""
    sizes = list(range(1, min(players, MOST_COALITIONS.bit_length() - 1)))
    if every:
        return sizes
    return [size for size in sizes if theory.coalitions_needed(size) == ABLATED]


def _targets(phi: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random player of each row (r,), by values (r, p).

    A player whose value is zero, such as one that equals its background, gives way to the next.
    """
    rows, players = phi.shape
    first = rng.integers(players, size=(rows, 1))
    order = (first + np.arange(players)) % players
    size = np.take_along_axis(abs(phi), order, axis=1)
    matters = size > NEGLIGIBLE * size.max(axis=1, keepdims=True)
    return np.asarray(order[np.arange(rows), matters.argmax(axis=1)])


def _others_first(score: Tensor, target: Tensor) -> Tensor:
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


# Theorem 2


def bounds(subject: Subject, row: int) -> pa.Table:
    """Return |phi_i(U) - phi_i(U - j)| and Theorem 2's bounds on it, for every pair of a row.

    The printed bound is by second derivatives at the corners, the sure one by differences in their
    place.
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
            **_names(subject),
            "row": int(subject.truth.rows[row]),
            "player": i.numpy(),
            "other": j.numpy(),
            "loss": theory.chain_rule_errors(differences).abs()[i, j].numpy(),
            "printed": theory.removal_bounds(derivatives)[i, j].numpy(),
            "sure": theory.removal_bounds(differences)[i, j].numpy(),
        },
    )


# One row


def illustration(subject: Subject) -> pa.Table:
    """Return SHEAR beside the exact values for one row.

    It is the row whose f1 - f0 is nearest to that of the paper's row.
    """
    place = int(np.abs(_margins(subject) - ILLUSTRATED).argmin())
    exact = subject.explain(
        METHODS["exact"], 1 << subject.players, output=_difference, rows=[place]
    )
    shear = subject.explain(
        METHODS["shear"], subject.budget(ABLATED), output=_difference, rows=[place]
    )
    row = int(subject.truth.rows[place])
    return table(
        "illustration",
        {
            **_names(subject),
            "row": row,
            "feature": subject.dataset.feature_names,
            "value": [str(text) for text in subject.dataset.display[row]],
            "exact": exact.values[0],
            "shear": shear.values[0],
            "base_value": float(shear.base_values[0]),
            "prediction": float(shear.predictions[0]),
            "evaluations": shear.evaluations,
        },
    )


def _margins(subject: Subject) -> NDArray[np.float64]:
    """Return f1 - f0 of every row, (r,)."""
    with torch.no_grad():
        logits = subject.trained.network(torch.from_numpy(subject.inputs))
    return np.asarray(_difference(logits).numpy(), dtype=np.float64)


def _difference(logits: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]
