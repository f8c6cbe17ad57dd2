"""Ground truth for the paper's networks: exact Shapley values, or estimates until they have
converged, kept on disk.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError, ShearWarning
from shearshap.explainer import explain
from shearshap.result.explanation import Explanation, Floats
from shearshap.store import Store
from shearshap_lab.data import Dataset
from shearshap_lab.networks import Trained, config_for

METHOD = "permutation-antithetic"  #: of an estimate: unbiased, and exact for pairs of players
MOST_EXACT = 20  #: players up to which all coalitions are evaluated
PIECE = 1 << 22  #: model evaluations between two saves of exact values
PAIRS = 16  #: antithetic pairs of permutations in one round of an estimate
ROUNDS = (8, 1_000)  #: of an estimate, at least and at most


@dataclass(frozen=True, eq=False)
class Truth(Explanation):
    """Shapley values of r rows and p players to measure estimators against."""

    exact: bool = True  #: otherwise `standard_errors` say how far the values may be off
    key: str = ""  #: of everything that the values depend on; they lie in the folder truth-<key>

    @property
    def rows(self) -> NDArray[np.int64]:
        """Which rows of the data set were explained, (r,)."""
        return self.index

    @property
    def error(self) -> float:
        """The expected mean absolute error over mean |value|: 0 where the values are exact."""
        if self.standard_errors is None:
            return 0.0
        return _relative_error(self.values, self.standard_errors)

    @property
    def absolute_error(self) -> float:
        """The expected |.|_1 of a row's errors, on average: 0 where the values are exact."""
        if self.standard_errors is None:
            return 0.0
        return _expected(self.standard_errors.sum(axis=1))

    def __repr__(self) -> str:
        """Return the shape, and how far the values can be trusted, in one line."""
        rows, players = self.values.shape
        kind = "exact" if self.exact else f"estimated to {self.error:.2%} of mean |value|"
        return (
            f"Truth({rows} rows, {players} players, {kind}, {self.evaluations} evaluations a row)"
        )


def ground_truth(
    trained: Trained,
    dataset: Dataset,
    *,
    rows: int = 500,
    output: int = 1,
    folder: Path | str,
    tolerance: float = 0.01,
    seed: int = 0,
    progress: bool | None = None,
) -> Truth:
    """Return the Shapley values of a trained network for the first `rows` test rows of its data
    set.

    Up to 20 players the values are exact. Beyond, they are the mean over rounds of antithetic
    permutation sampling. Rounds are added until the expected mean absolute error is below
    `tolerance` times mean |value|; `seed` decides the draws.

    What is finished is kept in `folder`: a run that was stopped goes on where it was, and the same
    values are never computed twice. The key of the files covers weights, rows, background, players,
    output and method.
    """
    _check(trained, dataset, rows, tolerance)
    task = _Task(trained, dataset, dataset.test[:rows], output)
    if task.players <= MOST_EXACT:
        return _exact(task, Path(folder), progress)
    return _estimated(task, Path(folder), tolerance, seed, progress)


def _check(trained: Trained, dataset: Dataset, rows: int, tolerance: float) -> None:
    if rows < 1:
        raise InputError(f"rows: wanted a positive number of test rows, got {rows}")
    if not tolerance > 0:
        raise InputError(
            f"tolerance: wanted a positive fraction of mean |value|, such as 0.01, got {tolerance}"
        )
    if trained.config != config_for(dataset, trained.config.activation):
        raise InputError(
            f"the network does not fit the data set: it was trained on {trained.dataset!r} (seed "
            f"{trained.seed}), with {trained.config.inputs} inputs; {dataset.name!r} here has "
            f"{dataset.inputs.shape[1]}, or other categories; load the data set with the network's "
            "seed, and from the same file"
        )


@dataclass(frozen=True)
class _Task:
    """What is to be explained."""

    trained: Trained
    dataset: Dataset
    rows: NDArray[np.int64]  #: (r,) of the data set
    output: int

    @property
    def players(self) -> int:
        """The number of players."""
        return len(self.dataset.groups)

    def explain(
        self, rows: NDArray[np.int64], method: str, budget: int, seed: int = 0
    ) -> Explanation:
        """Explain some of the rows; they are labelled by their numbers in the data set."""
        explanation = explain(
            self.trained.network,
            self.dataset.inputs[rows],
            reference=self.dataset.background,
            budget=budget,
            method=method,
            groups=self.dataset.groups,
            output=self.output,
            seed=seed,
            progress=False,
        )
        # The data set has the data; without them the files are half as large.
        return replace(explanation, index=rows, data=None, display_data=None)

    def key(self, method: str) -> str:
        """Return 16 hexadecimal digits of the SHA-256 of everything that the values depend on."""
        facts = [
            self.trained.config.to_dict(),
            list(self.dataset.groups.items()),
            self.output,
            method,
        ]
        weights = self.trained.network.state_dict()
        arrays = {name: weight.cpu().numpy() for name, weight in weights.items()}
        arrays["rows"] = self.dataset.inputs[self.rows]
        # Keys of earlier versions hold for as long as this word stays.
        arrays["reference"] = self.dataset.background

        digest = hashlib.sha256(json.dumps(facts).encode())
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]

    def piece(
        self, store: Store, name: str, rows: NDArray[np.int64], method: str, budget: int, seed: int
    ) -> Explanation:
        """Return the explanation of some of the rows, from the store where it is there."""
        return store.piece(
            name,
            partial(self.explain, rows, method, budget, seed),
            read=partial(_read, rows),
            write=Explanation.save,
        )


def _read(rows: NDArray[np.int64], path: Path) -> Explanation:
    """Return the explanation in a file, which must be of these rows."""
    explanation = Explanation.load(path)
    if not np.array_equal(explanation.index, rows):
        raise InputError(f"{path} explains other rows")
    return explanation


def _exact(task: _Task, folder: Path, progress: bool | None) -> Truth:
    """Evaluate all coalitions, in pieces of some rows each."""
    key = task.key("exact")
    store = Store(folder, f"truth-{key}")
    budget = 1 << task.players
    size = max(1, PIECE // budget)

    starts = range(0, len(task.rows), size)
    pieces = [
        task.piece(
            store,
            f"rows-{start:05d}.npz",
            task.rows[start : start + size],
            "exact",
            budget,
            seed=0,
        )
        for start in progress_bar(progress, iterable=starts, unit=" pieces")
    ]
    whole = replace(Explanation.concat(pieces), standard_errors=None)
    return Truth(**vars(whole), exact=True, key=key)


def _estimated(
    task: _Task, folder: Path, tolerance: float, seed: int, progress: bool | None
) -> Truth:
    """Average rounds of all rows until the standard errors are small enough."""
    budget = 2 + 2 * PAIRS * (task.players - 1)
    key = task.key(f"{METHOD}, {budget} evaluations a round, seed {seed}")
    store = Store(folder, f"truth-{key}")
    least, most = ROUNDS

    mean = np.zeros((len(task.rows), task.players))
    squares = np.zeros_like(mean)
    evaluations = 0
    rounds = _rounds(task, store, budget, seed, progress)
    for count, explanation in enumerate(rounds, start=1):
        # Welford's update: squares about the mean, without the cancellation of sum x^2 - count
        # mean^2.
        change = explanation.values - mean
        mean += change / count
        squares += change * (explanation.values - mean)
        evaluations += explanation.evaluations
        errors = np.sqrt(squares / (count * max(1, count - 1)))
        if count >= least and _relative_error(mean, errors) <= tolerance:
            break
    else:
        warnings.warn(
            f"after {most} rounds the expected error is {_relative_error(mean, errors):.2%} of "
            f"mean |value|, above the tolerance of {tolerance:.2%}; the standard errors say how "
            "far to trust each value",
            ShearWarning,
            stacklevel=3,
        )
    whole = replace(
        explanation,
        values=mean,
        standard_errors=errors,
        degrees_of_freedom=float(count - 1),
        evaluations=evaluations,
        seed=seed,
    )
    return Truth(**vars(whole), exact=False, key=key)


def _rounds(
    task: _Task, store: Store, budget: int, seed: int, progress: bool | None
) -> Iterator[Explanation]:
    """Yield explanations of all rows, each with its own draws."""
    most = ROUNDS[1]
    for number in progress_bar(progress, iterable=range(most), unit=" rounds"):
        draws = np.random.SeedSequence((seed, number)).generate_state(1)
        name = f"round-{number:05d}.npz"
        yield task.piece(store, name, task.rows, METHOD, budget, int(draws[0]))


def _relative_error(values: Floats, errors: Floats) -> float:
    """Return E|estimate - truth| over mean |value|."""
    size = float(np.abs(values).mean())
    expected = _expected(errors)
    return expected / size if expected else 0.0


def _expected(errors: Floats) -> float:
    """Return the mean of E|error| = sqrt(2/pi) s, for normal errors of standard deviations s."""
    return float(np.sqrt(2 / np.pi) * errors.mean())
