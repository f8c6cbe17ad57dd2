"""Ground truth for the paper's networks: exact Shapley values, kept on disk.

Beyond 20 features, as of Criteo's 39, all coalitions cannot be evaluated: the values are then those
of many antithetic permutations, with standard errors.
"""

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shearshap.engine.loop import progress_bar
from shearshap.errors import InputError
from shearshap.explainer import explain
from shearshap.result.explanation import Explanation
from shearshap.store import Store
from shearshap_lab.data import Dataset
from shearshap_lab.networks import Trained, config_for

MAX_EXACT = 20  #: players up to which all coalitions are evaluated
MAX_EVALUATIONS = 1 << 22  #: of the model, between two saves
ESTIMATE = "permutation-antithetic"  #: unbiased, and exact for pairs of players
ESTIMATE_BUDGET = 1 << 17  #: evaluations of a row, of an estimate


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
        """The expected mean absolute error over mean |value|: 0 if the values are exact."""
        players = self.values.shape[1]
        size = float(np.abs(self.values).mean())
        return self.absolute_error / players / size if self.absolute_error else 0.0

    @property
    def absolute_error(self) -> float:
        """The expected |.|_1 of a row's errors, on average: 0 if the values are exact."""
        if self.standard_errors is None:
            return 0.0
        # E|error| = sqrt(2/pi) s, for normal errors of standard deviation s
        return float(np.sqrt(2 / np.pi) * self.standard_errors.sum(axis=1).mean())


def ground_truth(
    trained: Trained,
    dataset: Dataset,
    *,
    rows: int = 500,
    output: int = 1,
    folder: Path | str,
    progress: bool | None = None,
) -> Truth:
    """Return the Shapley values of a trained network for the first `rows` test rows of its data
    set.

    What is finished is kept in `folder`: a run that was stopped goes on where it was, and the same
    values are never computed twice. The key of the files covers weights, rows, background, players,
    output and method.
    """
    if rows < 1:
        raise InputError(f"rows: expected a positive number of test rows, got {rows}")
    if trained.config != config_for(dataset, trained.config.activation):
        raise InputError(
            f"expected the data that the network was trained on, {trained.dataset!r} with seed "
            f"{trained.seed}; got {dataset!r}"
        )
    players = len(dataset.groups)
    exact = players <= MAX_EXACT
    method = "exact" if exact else ESTIMATE
    budget = 1 << players if exact else ESTIMATE_BUDGET
    chosen = dataset.test[:rows]
    key = _key(trained, dataset, chosen, output, method, budget)
    store = Store(Path(folder), f"truth-{key}")

    def solved(rows: NDArray[np.int64]) -> Explanation:
        explanation = explain(
            trained.network,
            dataset.inputs[rows],
            reference=dataset.background,
            groups=dataset.groups,
            output=output,
            method=method,
            budget=budget,
            progress=False,
        )
        # the data set has the data; without them the files are half as large
        return replace(explanation, index=rows, data=None, display_data=None)

    pieces = []
    size = max(1, MAX_EVALUATIONS // budget)
    for start in progress_bar(progress, iterable=range(0, len(chosen), size), unit=" pieces"):
        part = chosen[start : start + size]
        compute = partial(solved, part)
        read = partial(_read, part)
        file = f"rows-{start:05d}.npz"
        pieces.append(store.piece(file, compute, read=read, write=Explanation.save))

    whole = Explanation.concat(pieces)
    if exact:
        whole = replace(whole, standard_errors=None)
    return Truth(**vars(whole), exact=exact, key=key)


def _read(rows: NDArray[np.int64], path: Path) -> Explanation:
    """Return the explanation in a file, which must be of these rows."""
    explanation = Explanation.load(path)
    if not np.array_equal(explanation.index, rows):
        raise InputError(f"{path} explains other rows")
    return explanation


def _key(
    trained: Trained,
    dataset: Dataset,
    rows: NDArray[np.int64],
    output: int,
    method: str,
    budget: int,
) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of everything that the values depend on."""
    facts = (asdict(trained.config), list(dataset.groups.items()), output, method, budget)
    digest = hashlib.sha256(repr(facts).encode())
    for weight in trained.network.state_dict().values():
        digest.update(weight.cpu().numpy().tobytes())
    digest.update(dataset.inputs[rows].tobytes())
    digest.update(dataset.background.tobytes())
    return digest.hexdigest()[:16]
