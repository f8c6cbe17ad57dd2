"""Games of data: which training rows, which sources, which members of an ensemble are worth what.

    value_data(fit, score, X, y)            the players are training rows, or groups of them
    value_members(predictions, score, y)    the players are members of an ensemble

A coalition's value is the score of a model fitted on its rows, or of the mean prediction of its
members. An evaluation is expensive, so that values are computed in processes, and kept in a file as
soon as they are known:

    coalitions (c, p)  ->  known?  from memory, or a file of an earlier run
                           else    worth(coalition), in processes  ->  memory, file, progress bar

Letters: n rows, m members, p players, c coalitions, k outputs.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from shearshap.engine.loop import GameProgress
from shearshap.engine.results import with_notes
from shearshap.engine.run import Options
from shearshap.errors import InputError, ModelError
from shearshap.explainer import explained_game, player_names
from shearshap.games.batches import Batch, OutOfTime
from shearshap.games.game import FunctionGame
from shearshap.methods.base import Method
from shearshap.models import model_name
from shearshap.result.archive import fits
from shearshap.result.cells import label_array, label_text
from shearshap.result.explanation import Explanation
from shearshap.result.text import counted

Coalition = NDArray[np.bool_]  #: (p,)
Values = dict[str, Any]  #: of coalitions, by their bits in hexadecimal: numbers, or lists (k,)

MAX_NAMES = 8  #: of players in an error
SAME = 1e-6  #: relative difference of values up to which a model counts as the same


def value_data(
    fit: Any,
    score: Callable[[Any], ArrayLike],
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    empty: ArrayLike | None = None,
    budget: int | None = None,
    method: str | Method = "kriging",
    tol: float | None = None,
    deadline: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    cache: str | PathLike[str] | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Value training rows, or groups of them, by how much they improve the fitted model.

    A coalition is a set of rows or groups, and its value is `score(fit(X[rows], y[rows]))`. The
    Shapley values add up to the score with all rows minus the score with none. An evaluation is a
    fit.

    Parameters
    ----------
    fit
        A function of rows and labels that returns a fitted model, or a scikit-learn estimator,
        which is cloned. It should be deterministic: set its random state.
    score
        A function of a fitted model that returns a number, or several (k,), such as `lambda model:
        model.score(X_valid, y_valid)`. Higher need not be better.
    X, y
        The training rows (n, ...) and their labels (n,): arrays, lists, or frames.
    groups
        One label per row, such as its source: rows with equal labels get one value together. None:
        each row gets a value.
    empty
        The score without any rows, and with rows of a single class. None: the score of a constant
        guess based on all labels: scikit-learn's `DummyClassifier`, which predicts the most
        frequent class, or `DummyRegressor`, which predicts the mean. Labels are numbers if `fit` is
        a regressor, or a function and the labels are floats; otherwise they are classes.
    budget, method, tol, deadline, seed, progress
        As in `Explainer`. At the deadline, unfinished fits are dropped.
    n_jobs
        Worker processes of joblib; -1 for one per core. With 1, fits run in this process, one after
        the other. For threads, call it within `joblib.parallel_config(backend="threading")`.
    cache
        A folder that keeps every value as soon as it is known. A run that was interrupted, or one
        with a larger budget, continues from these. Other data get another file in the folder. `fit`
        and `score` must stay the same; to check this, the value of all rows is computed again.
    """
    classifies = _classifies(fit, y)
    owner, names, noun = _players(groups, X, y)
    words = "given by empty="
    if empty is None:
        empty, words = _constant_guess(score, X, y, classifies=classifies)
    classes = np.unique(np.asarray(y), return_inverse=True)[1] if classifies else None
    worth = _Refit(_trainer(fit), score, X, y, owner, classes, _number(empty, "empty"))
    model = model_name(fit) if hasattr(fit, "fit") else None
    identity = (X, y, owner, names, worth.empty, fit if hasattr(fit, "get_params") else None)
    values = _Values(worth, names, noun, n_jobs, _values_file(cache, identity))
    run = Options(None, method=method, seed=seed).run(budget, tol=tol, deadline=deadline)
    one_class = ", or with rows of one class," if classifies else ""
    note = f"a coalition without rows{one_class} is worth {_shown(worth.empty)}, {words}"
    return replace(values.explained(run, GameProgress(progress), note), model=model)


def value_members(
    predictions: Mapping[str, ArrayLike] | ArrayLike,
    score: Callable[[Any, Any], ArrayLike],
    y: Any,
    *,
    empty: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    budget: int | None = None,
    method: str | Method = "kriging",
    tol: float | None = None,
    deadline: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    cache: str | PathLike[str] | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Value the members of an ensemble by how much they improve its mean prediction.

    A coalition is a set of members, and its value is `score(y, mean of their predictions)`.

    Parameters
    ----------
    predictions
        Each member's predictions for the rows on which the ensemble is judged: an array (m, n), or
        (m, n, k) with the probabilities of k classes; or a mapping from names to predictions.
    score
        A function of labels and predictions that returns a number, as scikit-learn's metrics do.
    y
        The labels (n,) of those rows.
    empty
        The score without any members. None: the score of a constant guess, the mean of the labels,
        or the frequencies of the k classes in the order of their labels.
    feature_names
        Names of the members, if `predictions` is an array.

    The other parameters are the same as in `value_data`.
    """
    if isinstance(predictions, Mapping):
        feature_names = feature_names or list(predictions)
        predictions = [np.asarray(each) for each in predictions.values()]
    stacked = np.asarray(predictions)
    if stacked.ndim not in (2, 3) or stacked.shape[1] != len(y):
        raise InputError(
            f"predictions: expected shape (members, {len(y)}) or (members, {len(y)}, classes); "
            f"got {stacked.shape}"
        )
    default = [f"member {number}" for number in range(len(stacked))]
    names = player_names(feature_names or default, len(stacked))
    words = "given by empty="
    if empty is None:
        empty = _guarded(lambda: score(y, _guess(stacked, y)))
        guess = "mean of the labels" if stacked.ndim == 2 else "frequencies of the classes"
        words = f"the score of a constant guess, the {guess}"
    worth = _MeanPrediction(stacked, score, y, _number(empty, "empty"))
    file = _values_file(cache, (stacked, y, names, worth.empty))
    values = _Values(worth, names, "member", n_jobs, file)
    run = Options(None, method=method, seed=seed).run(budget, tol=tol, deadline=deadline)
    note = f"a coalition without members is worth {_shown(worth.empty)}, {words}"
    return values.explained(run, GameProgress(progress), note)


# Value functions, of one coalition


@dataclass(frozen=True)
class _Refit:
    """The score of a model that is fitted on a coalition's rows."""

    fit: Callable[[Any, Any], Any]
    score: Callable[[Any], ArrayLike]
    X: Any
    y: Any
    owner: NDArray[np.int64]  #: (n,) the player of each row
    classes: NDArray[np.int64] | None  #: (n,) the class of each row; None: labels are numbers
    empty: Any

    def __call__(self, coalition: Coalition) -> Any:
        rows = np.flatnonzero(coalition[self.owner])
        if not len(rows) or (self.classes is not None and not np.ptp(self.classes[rows])):
            return self.empty
        return self.score(self.fit(_taken(self.X, rows), _taken(self.y, rows)))


@dataclass(frozen=True)
class _MeanPrediction:
    """The score of the mean prediction of a coalition's members."""

    predictions: NDArray[Any]  #: (m, n) or (m, n, k)
    score: Callable[[Any, Any], ArrayLike]
    y: Any
    empty: Any

    def __call__(self, coalition: Coalition) -> Any:
        if not coalition.any():
            return self.empty
        return self.score(self.y, self.predictions[coalition].mean(axis=0))


def _trainer(fit: Any) -> Callable[[Any, Any], Any]:
    """Return a function that fits a new model."""
    if hasattr(fit, "fit"):
        return partial(_fitted_clone, fit)
    if not callable(fit):
        raise InputError(
            "fit: expected a function of rows and labels, or an estimator with fit(); got "
            f"{type(fit).__name__}"
        )
    return fit  # type: ignore[no-any-return]


def _fitted_clone(estimator: Any, rows: Any, labels: Any) -> Any:
    from sklearn.base import clone

    return clone(estimator).fit(rows, labels)


def _classifies(fit: Any, y: Any) -> bool:
    """Return whether labels are classes: as an estimator says, else if they are not floats."""
    kind = getattr(fit, "_estimator_type", None)
    if hasattr(fit, "__sklearn_tags__"):
        kind = fit.__sklearn_tags__().estimator_type
    if kind in ("classifier", "regressor"):
        return bool(kind == "classifier")
    labels = np.asarray(y)
    return labels.ndim == 1 and labels.dtype.kind != "f"


def _players(groups: Any, X: Any, y: Any) -> tuple[NDArray[np.int64], list[str], str]:
    """Return the player (n,) of each row, the names of the players, and what they are."""
    rows = len(y)
    count = X.shape[0] if hasattr(X, "shape") else len(X)  # sparse matrices have no len
    if count != rows:
        raise InputError(f"y: expected {count} labels, one per row of X, got {rows}")
    if groups is None:
        labels = X.index if hasattr(X, "iloc") else range(rows)
        names = [f"row {label_text(label)}" for label in labels]
        if len(set(names)) < rows:
            names = [f"row {number}" for number in range(rows)]
        return np.arange(rows), names, "row"

    if isinstance(groups, str | Mapping) or len(groups) != rows:
        given = repr(groups) if isinstance(groups, str) else f"{len(groups)}"
        raise InputError(f"groups: expected {rows} labels, one per row, got {given}")
    texts = [label_text(label) for label in label_array(groups)]
    names = list(dict.fromkeys(texts))
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[text] for text in texts]), names, "group"


def _taken(rows: Any, places: NDArray[np.int64]) -> Any:
    """Return some of the rows, in the same kind of object."""
    if isinstance(rows, list | tuple):
        return [rows[place] for place in places]
    native = nw.from_native(rows, eager_only=True, allow_series=True, pass_through=True)
    if native is rows:  # an array, a tensor, a sparse matrix
        return rows[places]
    return native[places].to_native()


# What nobody is worth


def _constant_guess(
    score: Callable[[Any], ArrayLike],
    X: Any,
    y: Any,
    *,
    classifies: bool,
) -> tuple[ArrayLike, str]:
    """Return the score of a guess that knows the labels alone, and the guess in words."""
    try:
        from sklearn.dummy import DummyClassifier, DummyRegressor
    except ImportError as error:
        raise InputError(
            "empty: without scikit-learn, pass empty=, the score without any data"
        ) from error
    guess = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    what = "most frequent class" if classifies else "mean of the labels"
    value = _guarded(lambda: score(guess.fit(X, y)))
    return value, f"the score of a constant guess, the {what}"


def _guess(predictions: NDArray[Any], y: Any) -> NDArray[np.float64]:
    """Return a constant guess in the shape of a member's predictions, (n,) or (n, k)."""
    if predictions.ndim == 2:
        return np.full(predictions.shape[1:], np.mean(np.asarray(y, dtype=np.float64)))
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return np.broadcast_to(counts / counts.sum(), predictions.shape[1:])


def _guarded(score: Callable[[], ArrayLike]) -> ArrayLike:
    try:
        return score()
    except Exception as error:
        raise InputError(
            f"empty: scoring a constant guess failed with {type(error).__name__}: {error}; pass "
            "empty=, the score without any data"
        ) from error


def _number(value: ArrayLike, what: str) -> Any:
    """Return a value as a float, or as a list of k, or raise."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf" or numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise ModelError(f"{what}: expected a finite number, or several (k,); got {value!r}")
    return numbers.astype(np.float64).tolist()


def _shown(value: Any) -> str:
    return ", ".join(f"{number:.4g}" for number in np.atleast_1d(value))


# All coalitions


@dataclass(eq=False)
class _Values:
    """The values of coalitions, each computed once."""

    worth: Callable[[Coalition], ArrayLike]
    names: list[str]
    noun: str  #: what a player is
    n_jobs: int
    file: "_ValuesFile | None"
    known: Values = field(default_factory=dict)
    stored: frozenset[str] = frozenset()  #: keys of the values of earlier runs
    reused: set[str] = field(default_factory=set)  #: keys of those that were of use

    def explained(self, run: Any, progress: GameProgress, note: str) -> Explanation:
        """Return the explanation of the game."""
        batch = Batch(1 << 62)
        if self.file is not None:
            self.known = self.file.read()
            self.stored = frozenset(self.known)

        def values(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
            return self.of(coalitions, batch, progress)

        game = FunctionGame(values, len(self.names), batch=batch)
        try:
            explanation = explained_game(game, run, progress)
        except KeyboardInterrupt as stop:
            if self.file is not None:
                kept = f"{counted(len(self.known), 'value')} in {self.file.path.parent}"
                stop.args = (f"the cache has {kept}; make the same call again to go on",)
            raise
        notes = [note]
        if self.reused:
            notes.append(f"{counted(len(self.reused), 'value')} came from the cache")
        named = replace(explanation, feature_names=self.names, game=self.noun)
        return with_notes(named, notes)

    def of(
        self, coalitions: NDArray[np.bool_], batch: Batch, progress: GameProgress
    ) -> NDArray[np.float64]:
        """Return the values (c,) or (c, k) of coalitions; `OutOfTime` if time is up before."""
        keys = [bits.tobytes().hex() for bits in np.packbits(coalitions, axis=1)]
        missing = {
            key: coalition
            for key, coalition in zip(keys, coalitions, strict=True)
            if key not in self.known or coalition.all()
        }
        self.reused |= self.stored & ({*keys} - {*missing})
        progress.evaluated(len(keys) - len(missing))
        for done, (key, value) in enumerate(self._computed(missing), start=1):
            self._keep(key, value, everyone=bool(missing[key].all()))
            progress.evaluated(1)
            if done < len(missing) and not batch.has_time():
                raise OutOfTime(torch.empty(0, len(keys), 1, 1))

        values = [self.known[key] for key in keys]
        shapes = {np.shape(value) for value in values}
        if len(shapes) > 1:
            raise ModelError(f"score: expected one shape for all coalitions, got {sorted(shapes)}")
        return np.array(values)

    def _computed(self, missing: dict[str, Coalition]) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values of coalitions, as soon as each is known."""
        if self.n_jobs == 1:
            for key, coalition in missing.items():
                yield _evaluated(self.worth, self.names, self.noun, key, coalition)
            return
        joblib = _joblib("n_jobs")
        one = joblib.delayed(_evaluated)
        parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator_unordered")
        yield from parallel(
            one(self.worth, self.names, self.noun, key, coalition)
            for key, coalition in missing.items()
        )

    def _keep(self, key: str, value: Any, *, everyone: bool) -> None:
        """Keep a value, in the file too; that of everyone must be what it was before."""
        before = self.known.get(key)
        self.known[key] = value
        if self.file is None:
            return
        if before is None:
            self.file.append(key, value)
        elif everyone and not np.allclose(before, value, rtol=SAME, atol=1e-12):
            raise InputError(
                f"cache: in {self.file.path.parent}, the value of all {self.noun}s is "
                f"{_shown(before)}, now {_shown(value)}: fit or score has changed, or is random; "
                "pass another folder, or set the random state"
            )


def _evaluated(
    worth: Callable[[Coalition], ArrayLike],
    names: list[str],
    noun: str,
    key: str,
    coalition: Coalition,
) -> tuple[str, Any]:
    """Return a coalition's key and value; if it fails, the error names the players."""
    try:
        return key, _number(worth(coalition), "score")
    except Exception as error:
        present = [name for name, there in zip(names, coalition, strict=True) if there]
        more = f" and {len(present) - MAX_NAMES} more" if len(present) > MAX_NAMES else ""
        reason = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
        failure = ModelError(
            f"the value of {len(present)} of {counted(len(names), noun)} "
            f"({', '.join(present[:MAX_NAMES])}{more}) cannot be computed: {reason}"
        )
        failure.coalition = coalition
        raise failure from error


# Values on disk


@dataclass(frozen=True)
class _ValuesFile:
    """Values of coalitions in a file, a line of JSON each; a damaged line is ignored."""

    path: Path

    def read(self) -> Values:
        """Return all values, and end the file with a line feed."""
        if not self.path.exists():
            return {}
        text = self.path.read_text(encoding="utf-8", errors="replace")
        if not text.endswith("\n"):
            self._write("\n")
        known: Values = {}
        for line in text.splitlines():
            with suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if fits(entry, dict[str, float | list[float]]):
                    known |= entry
        return known

    def append(self, key: str, value: Any) -> None:
        """Add a value."""
        self._write(json.dumps({key: value}) + "\n")

    def _write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)


def _values_file(folder: str | PathLike[str] | None, identity: object) -> _ValuesFile | None:
    """Return the file of a game in a folder, named by what makes the game; None without one."""
    if folder is None:
        return None
    name = _joblib("cache").hash(identity)
    Path(folder).mkdir(parents=True, exist_ok=True)
    return _ValuesFile(Path(folder) / f"{name}.jsonl")


def _joblib(option: str) -> Any:
    try:
        import joblib
    except ImportError as error:
        raise InputError(f"{option}: it needs joblib; pip install joblib") from error
    return joblib
