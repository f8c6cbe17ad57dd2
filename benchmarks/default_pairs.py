"""The pairs of data and a model that defaults.py explains.

Each pair is one function of rows that returns one number for each row, 100 background rows, and
1,000 rows to explain. If fewer rows were held out, they are drawn again, with replacement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import xgboost
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR

from setting import fit, perceptron
from shearshap_lab.data.uci import SOURCES

Floats = NDArray[np.float64]
Function = Callable[[Any], Any]  #: rows (n, p), an array or a frame -> numbers (n,)

ROWS = 1000
BACKGROUND = 100
MIN_HELD_OUT = 40
MAX_TRAINING = 8000


@dataclass(frozen=True)
class Task:
    """What to explain."""

    function: Function
    rows: Any  #: (r, p)
    background: Any  #: (b, p)


@dataclass(frozen=True)
class Pair:
    """A model on a data set."""

    name: str
    task: Task
    numbers: Task  #: the same in numbers alone: a category is its place in a list
    model: Any = None  #: what is explained instead of the function, by its name
    forest: Any = None  #: a forest, whose values are known
    reference: int = 0  #: evaluations of a row for its true values, unless they are exact
    delay: float = 0.0  #: seconds that an evaluation is said to take, besides its own time

    @property
    def players(self) -> int:
        """The number of features p."""
        return int(self.numbers.rows.shape[1])


# Data


@dataclass(frozen=True)
class Codes:
    """Frames as arrays, in which a category is its place in a list."""

    frame: pd.DataFrame

    @cached_property
    def categories(self) -> dict[str, NDArray[np.object_]]:
        """The categories of each column of strings."""
        return {
            name: np.unique(self.frame[name].to_numpy(object))
            for name in self.frame.columns
            if not pd.api.types.is_numeric_dtype(self.frame[name])
        }

    def encode(self, frame: pd.DataFrame) -> Floats:
        """Return the array (n, p) of a frame."""
        columns = [
            np.searchsorted(self.categories[name], frame[name].to_numpy(object))
            if name in self.categories
            else frame[name].to_numpy(np.float64)
            for name in frame.columns
        ]
        return np.stack(columns, axis=1).astype(np.float64)

    def decode(self, rows: Floats) -> pd.DataFrame:
        """Return the frame of an array (n, p)."""
        columns = {}
        for name, content in zip(self.frame.columns, np.asarray(rows).T, strict=True):
            known = self.categories.get(name)
            columns[name] = content if known is None else known[content.astype(np.int64)]
        return pd.DataFrame(columns)


def shipped(name: str) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return a data set of the lab, as a frame with strings, and its labels."""
    source = SOURCES[name]
    frame = pd.DataFrame(source.read()).drop(columns=source.dropped)
    labels = (frame.pop(source.label) == source.positive).to_numpy(np.int64)
    return frame.astype(dict.fromkeys(source.numeric, np.float64)), labels


def numbered(name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return a data set of the lab as an array, and its labels."""
    frame, labels = shipped(name)
    return Codes(frame).encode(frame), labels


@cache
def data(name: str) -> tuple[Any, Any]:
    """Return the rows and labels of a data set."""
    loaders: dict[str, Callable[[], tuple[Any, Any]]] = {
        "iris": lambda: load_iris(return_X_y=True),
        "diabetes": lambda: load_diabetes(return_X_y=True),
        "wine": lambda: load_wine(return_X_y=True),
        "cancer": lambda: load_breast_cancer(return_X_y=True),
        "digits": lambda: load_digits(return_X_y=True),
        "census": lambda: shipped("census"),
        "census numbers": lambda: numbered("census"),
        "bank": lambda: shipped("bank"),
        "bank numbers": lambda: numbered("bank"),
    }
    return loaders[name]()


def split(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training rows, in random order, and of 1,000 others to explain."""
    rng = np.random.default_rng(0)
    order = rng.permutation(count)
    held_out = min(ROWS, max(MIN_HELD_OUT, count // 4))
    again = rng.choice(order[:held_out], ROWS - held_out)
    return order[held_out:][:MAX_TRAINING], np.concatenate([order[:held_out], again])


def taken(rows: Any, index: NDArray[np.int64]) -> Any:
    if isinstance(rows, pd.DataFrame):
        return rows.iloc[index].reset_index(drop=True)
    return rows[index]


# Models


class Network:
    """A torch module that classifies, trained in single precision."""

    def fit(self, rows: Floats, labels: NDArray[np.int64]) -> "Network":
        """Train on standardised rows."""
        torch.manual_seed(0)
        self.mean, self.deviation = rows.mean(axis=0), rows.std(axis=0)
        network = perceptron(rows.shape[1], 2, torch.nn.GELU)
        self.network = fit(network, self.inputs(rows), labels, epochs=30, seed=0)
        return self

    def inputs(self, rows: Floats) -> NDArray[np.float32]:
        """Return standardised rows."""
        return np.asarray((rows - self.mean) / self.deviation, dtype=np.float32)

    def predict_proba(self, rows: Floats) -> Floats:
        """Return the probabilities of both classes, (n, 2)."""
        with torch.inference_mode():
            outputs = self.network(torch.from_numpy(self.inputs(rows)))
            return np.asarray(outputs.double().softmax(1))


def scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def products() -> Any:
    """Return a logistic regression on products of two features."""
    return make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, interaction_only=True, include_bias=False),
        LogisticRegression(C=0.1, max_iter=1000),
    )


def one_hot(model: Any) -> Any:
    """Return a pipeline on frames with strings."""
    strings = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(
        make_column_transformer((encoder, strings), remainder=StandardScaler()), model
    )


def mlp() -> Any:
    return MLPClassifier(hidden_layer_sizes=(64, 64), max_iter=300, random_state=0)


def xgb() -> Any:
    return xgboost.XGBClassifier(n_estimators=100, max_depth=3, n_jobs=1, random_state=0)


def hist() -> Any:
    return HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0)


def forest() -> Any:
    return RandomForestClassifier(100, n_jobs=1, random_state=0)


def stack() -> Any:
    members = [("svc", scaled(SVC())), ("mlp", scaled(mlp())), ("boosted", hist())]
    return StackingClassifier(members, LogisticRegression(), cv=3)


def regression_stack() -> Any:
    trees = RandomForestRegressor(20, max_depth=5, random_state=0)
    return StackingRegressor(
        [("svr", scaled(SVR(C=100))), ("ridge", RidgeCV()), ("forest", trees)], RidgeCV(), cv=3
    )


def gaussian_process() -> Any:
    kernel = RBF(3.0) + WhiteKernel(0.5)
    return scaled(GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))


@dataclass(frozen=True)
class Spec:
    """How to make a pair: data, a model, and the model's method that is explained."""

    data: str
    model: Callable[[], Any]
    output: Literal["predict", "predict_proba", "decision_function", "margin"] = "predict_proba"
    as_model: bool = False  #: whether the model itself is explained, on its own scale
    known: bool = False  #: whether the model is a forest, whose values are known
    reference: int = 2_000_000
    delay: float = 0.0


SPECS: Mapping[str, Spec] = {
    "iris, Gaussian process": Spec("iris", lambda: scaled(GaussianProcessClassifier())),
    "diabetes, MLP": Spec(
        "diabetes",
        lambda: scaled(MLPRegressor(hidden_layer_sizes=(64,), max_iter=2000, random_state=0)),
        "predict",
    ),
    "diabetes, SVR": Spec("diabetes", lambda: scaled(SVR(C=100)), "predict"),
    "diabetes, Gaussian process": Spec("diabetes", gaussian_process, "predict"),
    "diabetes, neighbours": Spec("diabetes", lambda: scaled(KNeighborsRegressor(10)), "predict"),
    "diabetes, stack": Spec("diabetes", regression_stack, "predict"),
    "diabetes, XGBoost itself": Spec(
        "diabetes",
        lambda: xgboost.XGBRegressor(n_estimators=100, max_depth=3, n_jobs=1),
        "predict",
        as_model=True,
    ),
    "wine, MLP": Spec("wine", lambda: scaled(mlp())),
    "wine, SVC": Spec("wine", lambda: scaled(SVC()), "decision_function"),
    "wine, calibrated SVC": Spec(
        "wine", lambda: CalibratedClassifierCV(scaled(SVC()), ensemble=False)
    ),
    "wine, neighbours": Spec("wine", lambda: scaled(KNeighborsClassifier(10))),
    "wine, gradient boosting": Spec(
        "wine", lambda: GradientBoostingClassifier(n_estimators=20, random_state=0)
    ),
    "cancer, MLP": Spec("cancer", lambda: scaled(mlp())),
    "cancer, MLP that takes 1 ms": Spec("cancer", lambda: scaled(mlp()), delay=1e-3),
    "cancer, torch": Spec("cancer", Network),
    "cancer, logistic on products": Spec("cancer", products),
    "cancer, SVC": Spec("cancer", lambda: scaled(SVC()), "decision_function", reference=800_000),
    "cancer, calibrated SVC": Spec(
        "cancer", lambda: CalibratedClassifierCV(scaled(SVC()), ensemble=False), reference=800_000
    ),
    "cancer, stack": Spec("cancer", stack, reference=400_000),
    "cancer, XGBoost": Spec("cancer", xgb),
    "cancer, hist gradient boosting": Spec("cancer", hist, reference=1_000_000),
    "cancer, forest": Spec("cancer", forest, known=True),
    "digits, MLP": Spec("digits", lambda: scaled(mlp())),
    "digits, forest": Spec("digits", forest, known=True),
    "census, one-hot MLP": Spec("census", lambda: one_hot(mlp())),
    "census, hist gradient boosting": Spec("census numbers", hist),
    "census, hist gradient boosting itself": Spec(
        "census numbers", hist, "decision_function", as_model=True
    ),
    "census, forest": Spec("census numbers", forest, known=True),
    "bank, one-hot logistic": Spec("bank", lambda: one_hot(LogisticRegression(max_iter=1000))),
    "bank, XGBoost": Spec("bank numbers", xgb),
}

QUICK = ("iris, Gaussian process", "diabetes, XGBoost itself", "cancer, MLP", "bank, XGBoost")


def output_of(model: Any, method: str) -> Function:
    """Return the function of rows (n, p) that is explained: of several classes, it is class 1."""

    def function(rows: Any) -> Floats:
        outputs = getattr(model, method)(rows)
        return np.asarray(outputs if outputs.ndim == 1 else outputs[:, 1])

    return function


def pair(name: str) -> Pair:
    """Return a pair, its model trained."""
    spec = SPECS[name]
    rows, labels = data(spec.data)
    train, explained = split(len(rows))
    model = spec.model().fit(taken(rows, train), labels[train])
    function = output_of(model, spec.output)
    task = Task(function, taken(rows, explained), taken(rows, train[:BACKGROUND]))
    numbers = task
    if isinstance(rows, pd.DataFrame):
        codes = Codes(rows)
        numbers = Task(
            lambda each: function(codes.decode(each)),
            codes.encode(task.rows),
            codes.encode(task.background),
        )
    return Pair(
        name=name,
        task=task,
        numbers=numbers,
        model=model if spec.as_model else None,
        forest=model if spec.known else None,
        reference=spec.reference,
        delay=spec.delay,
    )
