"""Ground truth for the paper's networks: exact Shapley values, or estimates until they have
converged, kept on disk.
"""

import hashlib
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shearshap.engine.progress import progress_bar
from shearshap.engine.store import written_whole
from shearshap.errors import InputError, ShearWarning
from shearshap.explainer import explain
from shearshap.explanation import Explanation, Floats
from shearshap.paper.data import Dataset
from shearshap.paper.networks import Trained, config_for

METHOD = (
    "permutation-antithetic"  #: of an estimate: unbiased, and exact for pairs that act together
)
MOST_EXACT = 20  #: players up to which all coalitions are asked for
PIECE = 1 << 22  #: model evaluations between two saves of exact values
PAIRS = 16  #: antithetic pairs of permutations in one round of an estimate
ROUNDS = (8, 1_000)  #: of an estimate, at least and at most


@dataclass(frozen=True, eq=False)
class Truth:
    """Shapley values of r rows and p players to measure estimators against."""

    values: Floats  #: (r, p)
    base_values: Floats  #: (r,)
    predictions: Floats  #: (r,)
    standard_errors: Floats | None  #: (r, p); None where the values are exact
    rows: NDArray[np.int64]  #: (r,) which rows of the data set
    evaluations: int  #: model evaluations for one row
    exact: bool
    key: str  #: of everything that the values depend on; they lie in the folder truth-<key>

    @property
    def error(self) -> float:
        """The expected mean absolute error over mean |share|: 0 where the values are exact."""
        return (
            0.0
            if self.standard_errors is None
            else _relative_error(self.values, self.standard_errors)
        )

    def __repr__(self) -> str:
        """Return the shape, and how far the values can be trusted, in one line."""
        rows, players = self.values.shape
        kind = "exact" if self.exact else f"estimated to {self.error:.2%} of mean |share|"
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
    permutation sampling, as many as bring the expected mean absolute error below `tolerance` times
    mean |share|; `seed` decides the draws.

    What is finished is kept in `folder`: a run that was stopped goes on where it was, and the same
    question is never computed twice. The key of the files covers weights, rows, reference, players,
    output and method.
    """
    _check(trained, dataset, rows, tolerance)
    question = _Question(trained, dataset, dataset.test[:rows], output)
    if len(dataset.groups) <= MOST_EXACT:
        return _exact(question, Path(folder), progress)
    return _estimated(question, Path(folder), tolerance, seed, progress)


def _check(trained: Trained, dataset: Dataset, rows: int, tolerance: float) -> None:
    if rows < 1:
        raise InputError(f"rows: wanted a positive number of test rows, got {rows}")
    if not tolerance > 0:
        raise InputError(
            f"tolerance: wanted a positive share of mean |share|, such as 0.01, got {tolerance}"
        )
    if trained.config != config_for(dataset, trained.config.activation):
        raise InputError(
            f"the network does not fit the data set: it was trained on {trained.dataset!r} (seed "
            f"{trained.seed}), with "
            f"{trained.config.inputs} inputs; {dataset.name!r} here has "
            f"{dataset.inputs.shape[1]}, or other "
            "categories; load the data set with the network's seed, and from the same file"
        )


@dataclass(frozen=True)
class _Question:
    """What the values are of."""

    trained: Trained
    dataset: Dataset
    rows: NDArray[np.int64]
    output: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (r, p) of the answer."""
        return len(self.rows), len(self.dataset.groups)

    def ask(self, rows: NDArray[np.int64], method: str, budget: int, seed: int = 0) -> Explanation:
        """Explain some of the rows."""
        return explain(
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

    def key(self, method: str) -> str:
        """Return 16 hexadecimal digits of the SHA-256 of everything that the answer depends on."""
        facts = [
            self.trained.config.to_dict(),
            list(self.dataset.groups.items()),
            self.output,
            method,
        ]
        digest = hashlib.sha256(json.dumps(facts).encode())
        arrays = {
            name: value.cpu().numpy() for name, value in self.trained.network.state_dict().items()
        }
        arrays |= {"rows": self.dataset.inputs[self.rows], "reference": self.dataset.background}
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Piece:
    """A finished part of the answer, as it lies on disk."""

    values: Floats
    base_values: Floats
    predictions: Floats
    evaluations: int


def _exact(question: _Question, folder: Path, progress: bool | None) -> Truth:
    """Ask for all coalitions, in pieces of some rows each."""
    key = question.key("exact")
    budget = 1 << question.shape[1]
    size = max(1, PIECE // budget)
    parts = [question.rows[start : start + size] for start in range(0, len(question.rows), size)]
    pieces = [
        _piece(
            folder / f"truth-{key}" / f"rows-{number * size:05d}.npz",
            (len(part), question.shape[1]),
            partial(question.ask, part, "exact", budget),
        )
        for number, part in enumerate(progress_bar(progress, iterable=parts, unit=" pieces"))
    ]
    return Truth(
        values=np.concatenate([piece.values for piece in pieces]),
        base_values=np.concatenate([piece.base_values for piece in pieces]),
        predictions=np.concatenate([piece.predictions for piece in pieces]),
        standard_errors=None,
        rows=question.rows,
        evaluations=pieces[0].evaluations,
        exact=True,
        key=key,
    )


def _estimated(
    question: _Question, folder: Path, tolerance: float, seed: int, progress: bool | None
) -> Truth:
    """Average rounds of all rows until the standard errors are small enough."""
    budget = 2 + 2 * PAIRS * (question.shape[1] - 1)
    key = question.key(f"{METHOD}, {budget} evaluations a round, seed {seed}")
    mean, squares, evaluations = np.zeros(question.shape), np.zeros(question.shape), 0
    for count, piece in enumerate(
        _rounds(question, folder / f"truth-{key}", budget, seed, progress), start=1
    ):
        # Welford's update: squares about the mean, without the cancellation of sum x^2 - count
        # mean^2.
        change = piece.values - mean
        mean += change / count
        squares += change * (piece.values - mean)
        evaluations += piece.evaluations
        errors = np.sqrt(squares / (count * max(1, count - 1)))
        if count >= ROUNDS[0] and _relative_error(mean, errors) <= tolerance:
            break
    else:
        warnings.warn(
            f"after {count} rounds the expected error is {_relative_error(mean, errors):.2%} of "
            "mean |share|, above "
            f"the tolerance of {tolerance:.2%}; the standard errors say how far to trust each "
            "value",
            ShearWarning,
            stacklevel=3,
        )
    return Truth(
        mean, piece.base_values, piece.predictions, errors, question.rows, evaluations, exact=False, key=key
    )  # fmt: skip


def _rounds(
    question: _Question, folder: Path, budget: int, seed: int, progress: bool | None
) -> Iterator[_Piece]:
    """Yield explanations of all rows, each with its own draws."""
    for number in progress_bar(progress, iterable=range(ROUNDS[1]), unit=" rounds"):
        draws = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
        ask = partial(question.ask, question.rows, METHOD, budget, draws)
        yield _piece(folder / f"round-{number:05d}.npz", question.shape, ask)


def _relative_error(values: Floats, errors: Floats) -> float:
    """Return E|estimate - truth| over mean |share|; of a normal error with deviation s, E|error| =
    sqrt(2/pi) s.
    """
    size = np.abs(values).mean()
    expected = np.sqrt(2 / np.pi) * errors.mean()
    return float(expected / size) if expected else 0.0


def _piece(path: Path, shape: tuple[int, int], compute: Callable[[], Explanation]) -> _Piece:
    """Return the piece kept at a path; one that is not there, or is damaged, is computed and kept."""
    kept = _read(path, shape)
    if kept is not None:
        return kept
    answer = compute()
    piece = _Piece(answer.values, answer.base_values, answer.predictions, answer.evaluations)
    _write(path, piece)
    return piece


def _read(path: Path, shape: tuple[int, int]) -> _Piece | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            piece = _Piece(
                kept["values"], kept["base_values"], kept["predictions"], int(kept["evaluations"])
            )
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return None
    sizes = piece.values.shape, piece.base_values.shape, piece.predictions.shape
    return piece if sizes == (shape, shape[:1], shape[:1]) else None


def _write(path: Path, piece: _Piece) -> None:
    with written_whole(path) as name, name.open("wb") as file:
        np.savez(
            file,
            values=piece.values,
            base_values=piece.base_values,
            predictions=piece.predictions,
            evaluations=np.int64(piece.evaluations),
        )
