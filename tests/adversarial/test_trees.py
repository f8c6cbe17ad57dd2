"""Models of trees that are almost sums of leaves: "exact (trees)" must be what it says.

The oracle mixes rows itself, and asks the real model for all 2^p coalitions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from games import Floats, all_coalitions, exact_shares
from shearshap import Explainer

SEEDS = range(3)
PLAYERS = 5
FEW = {"n_estimators": 5, "max_depth": 4, "random_state": 0}
XGB = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
LIGHT = {"n_estimators": 5, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
HIST = {"max_iter": 5, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 0}

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*returns labels:shearshap.ShearWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
]


@dataclass
class Case:
    """A model, the function of rows that is explained, and the options that say so."""

    model: Any
    call: Callable[[Any], Any]
    rows: Any
    background: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Data:
    """Rows whose target is mostly above 0, and rarely far below."""

    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.rows = rng.normal(size=(150, PLAYERS))
        rare = (self.rows[:, 0] > 0.8) & (self.rows[:, 1] > 0.8)
        self.target = 3 + self.rows[:, 2] + self.rows[:, 3] - 12.0 * rare
        self.two = (rare | (rng.random(150) < 0.03)).astype(int)
        self.three = np.digitize(self.target, [0.0, 3.0])
        self.gaps = np.where(rng.random(self.rows.shape) < 0.02, np.nan, self.rows)
        self.table = pd.DataFrame(
            {
                "city": rng.integers(0, 4, 150).astype(float),
                "income": np.where(rng.random(150) < 0.04, np.nan, self.rows[:, 1]),
                "age": self.rows[:, 2],
                "debt": self.rows[:, 3],
                "loans": rng.integers(0, 5, 150).astype(float),
            }
        )

    def case(self, model: Any, call: Any, rows: Any = None, **options: Any) -> Case:
        rows = self.rows if rows is None else rows
        return Case(model, call, rows[20:28], rows[:6], options)


def all_values(case: Case) -> Floats:
    """The Shapley values (r, p, k) by all coalitions of all rows, through the real model."""
    rows = case.rows
    table = isinstance(rows, pd.DataFrame)
    own = np.asarray(rows)
    others = np.asarray(case.background)
    sets = all_coalitions(own.shape[1])
    mixes = np.where(sets[None, :, None], own[:, None, None], others)  # (r, c, b, d)
    flat = mixes.reshape(-1, own.shape[1])
    inputs = pd.DataFrame(flat, columns=rows.columns).astype(rows.dtypes) if table else flat
    answers = np.asarray(case.call(inputs), dtype=np.float64)
    worths = answers.reshape(*mixes.shape[:3], -1).mean(axis=2)
    return np.stack([exact_shares(worth) for worth in worths])


def explained(case: Case) -> Any:
    """Explain by fewer evaluations than all coalitions take."""
    budget = len(case.background) * ((1 << PLAYERS) - 4)
    return Explainer(case.model, case.background, **case.options)(case.rows, budget=budget)


def is_right(case: Case, answer: Any) -> None:
    expected = all_values(case)
    np.testing.assert_allclose(answer.values.reshape(expected.shape), expected, atol=2e-5)


# Not sums of leaves, or not known to be


class Clipped(RandomForestRegressor):  # type: ignore[misc]
    def predict(self, rows: Any) -> Any:
        return np.maximum(super().predict(rows), 0)


class ClippedBooster(xgboost.XGBRegressor):  # type: ignore[misc]
    def predict(self, rows: Any) -> Any:
        return np.maximum(super().predict(rows), 0)


class Cut(HistGradientBoostingRegressor):  # type: ignore[misc]
    def _raw_predict(self, rows: Any, n_threads: Any = None) -> Any:
        return np.maximum(super()._raw_predict(rows, n_threads), 0)


class ClippedSearch(GridSearchCV):  # type: ignore[misc]
    def predict(self, rows: Any) -> Any:
        return np.maximum(super().predict(rows), 0)


class Imputer(KNNImputer):  # type: ignore[misc]
    """Fills in by neighbours, under another name."""


class Shrunk(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Halves the third column in the rare rows whose first is large."""

    def fit(self, rows: Any, _target: Any = None) -> "Shrunk":
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, rows: Any) -> Any:
        rows = np.array(rows)
        rows[:, 2] = np.where(rows[:, 0] > 1.5, rows[:, 2] / 2, rows[:, 2])
        return rows


def by_city(table: Any) -> Any:
    medians = pd.Series([-3.0, 0.0, 1.0, 4.0])
    return table.assign(income=table.income.fillna(table.city.map(medians)))


def forest(data: Data, rows: Any = None) -> Any:
    return RandomForestRegressor(**FEW).fit(data.rows if rows is None else rows, data.target)


def classifier(data: Data) -> Any:
    return RandomForestClassifier(**FEW).fit(data.rows, data.two)


def of_model(made: Callable[[Data], Any]) -> Callable[[Data], Case]:
    def build(data: Data) -> Case:
        model = made(data)
        return data.case(model, model.predict)

    return build


def of_output(
    made: Callable[[Data], Any], function: Callable[[Any], Any]
) -> Callable[[Data], Case]:
    def build(data: Data) -> Case:
        model = made(data)
        answer = getattr(model, "predict_proba", model.predict)
        return data.case(model, lambda rows: function(answer(rows)), output=function)

    return build


def bound(made: Callable[[Data], Any], method: str = "predict") -> Callable[[Data], Case]:
    def build(data: Data) -> Case:
        function = getattr(made(data), method)
        return data.case(function, function)

    return build


def of_steps(*steps: Any, rows: str = "rows", last: Any = RandomForestRegressor) -> Any:
    def build(data: Data) -> Case:
        own = getattr(data, rows)
        model = make_pipeline(*(step() for step in steps), last(**FEW)).fit(own, data.target)
        return data.case(model, model.predict, own)

    return build


def patched(data: Data) -> Case:
    model = forest(data)
    own = model.predict
    model.predict = lambda rows: np.maximum(own(rows), 0)
    return data.case(model, model.predict)


def patched_tree(data: Data) -> Case:
    model = forest(data)
    tree = model.estimators_[0]
    own = tree.predict
    tree.predict = lambda rows, **options: np.maximum(own(rows, **options), 2)
    return data.case(model, model.predict)


def foreign_method(data: Data) -> Case:
    def predict(self: Any, rows: Any) -> Any:
        return np.maximum(type(self).predict(self, rows), 0)

    model = forest(data)
    method = MethodType(predict, model)
    return data.case(method, method)


def multiclass(data: Data) -> Any:
    return RandomForestClassifier(**FEW).fit(data.rows, data.three)


def one_to_one(function: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: FunctionTransformer(function, feature_names_out="one-to-one")


DOUBTFUL: dict[str, Callable[[Data], Case]] = {
    "clipped output": of_output(
        lambda data: xgboost.XGBRegressor(**XGB).fit(data.rows, data.target),
        lambda answer: np.maximum(answer, 0),
    ),
    "clipped forest": of_model(lambda data: Clipped(**FEW).fit(data.rows, data.target)),
    "clipped booster": of_model(lambda data: ClippedBooster(**XGB).fit(data.rows, data.target)),
    "cut margins": of_model(lambda data: Cut(**HIST).fit(data.rows, data.target)),
    "clipped search": of_model(
        lambda data: ClippedSearch(
            RandomForestRegressor(**FEW), {"max_depth": [4]}, cv=2
        ).fit(data.rows, data.target)
    ),
    "patched instance": patched,
    "patched tree": patched_tree,
    "a method of one's own": foreign_method,
    "labels of a forest": bound(classifier),
    "labels of XGBoost": bound(
        lambda data: xgboost.XGBClassifier(**XGB).fit(data.rows, data.two)
    ),
    "labels of a hinge": bound(
        lambda data: xgboost.XGBRegressor(**XGB, objective="binary:hinge").fit(data.rows, data.two)
    ),
    "labels of a Pipeline": bound(
        lambda data: make_pipeline(StandardScaler(), RandomForestClassifier(**FEW)).fit(
            data.rows, data.two
        )
    ),
    "threshold": of_output(classifier, lambda chances: chances[:, 1] > 0.5),
    "largest of three": of_output(multiclass, lambda chances: chances.max(axis=1)),
    "filled by city": of_steps(one_to_one(by_city), rows="table"),
    "neighbours in a union": of_steps(
        lambda: FeatureUnion([("knn", KNNImputer())], verbose_feature_names_out=False), rows="gaps"
    ),
    "neighbours by another name": of_steps(Imputer, rows="gaps"),
    "shrunk by another column": of_steps(Shrunk),
    "normalizer": of_steps(Normalizer),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_is_not_proved_is_sampled(name: str) -> None:
    for seed in SEEDS:
        case = DOUBTFUL[name](Data(seed))
        answer = explained(case)
        if answer.method == "exact (trees)":  # proved for these rows
            is_right(case, answer)
        elif answer.method != "exact":
            notes = [note for note in answer.notes if note.startswith("These values are estimates")]
            assert len(notes) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("clipped output", "the explained outputs are not linear in its leaves"),
        ("clipped forest", "Clipped.predict is not the library's own"),
        ("clipped booster", "ClippedBooster.predict is not the library's own"),
        ("cut margins", "Cut._raw_predict is not the library's own"),
        ("patched instance", "RandomForestRegressor.predict is not the library's own"),
        ("patched tree", "DecisionTreeRegressor.predict is not the library's own"),
        ("a method of one's own", "predict is not the library's own"),
        ("labels of a Pipeline", "Pipeline.predict returns labels"),
        ("threshold", "the explained outputs are not linear in its leaves"),
        ("neighbours by another name", "Imputer combines several columns into one"),
        ("normalizer", "Normalizer combines several columns into one"),
    ],
)
def test_the_note_says_why(name: str, reason: str) -> None:
    assert reason in " ".join(explained(DOUBTFUL[name](Data(0))).notes)


@pytest.mark.parametrize("name", ["clipped booster", "patched instance"])
def test_the_predictions_are_those_of_the_method_that_took_its_place(name: str) -> None:
    case = DOUBTFUL[name](Data(0))
    np.testing.assert_allclose(explained(case).predictions, case.call(case.rows), atol=1e-6)


def leaking(rows: Any) -> Any:
    """A column that takes from others, but only where two of them are far out, as one row is."""
    found = np.array(rows, dtype=float)
    found[:, 1] += 2.0 * ((found[:, 0] > 50) & (found[:, 2] > 50) & (found[:, 3] < 50))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_single_row_among_many_shows_that_columns_are_combined(seed: int) -> None:
    """The row itself does not: only some of its mixes with the background do."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 5))
    rows[50, [0, 2, 3]] = 100.0
    forest = RandomForestRegressor(5, max_depth=4, random_state=0)
    model = make_pipeline(one_to_one(leaking)(), forest).fit(rows, rows[:, 1] + rows[:, 4])
    answer = Explainer(model, rows[:1], seed=seed)(rows, budget=32)
    truth = Explainer(model.predict, rows[:1], method="exact")(rows, budget=32)
    np.testing.assert_allclose(answer.values, truth.values, atol=1e-9)
    assert answer.method != "exact (trees)"


# Sums of leaves


def with_infinity(made: Callable[[Data], Any], *, is_bound: bool) -> Callable[[Data], Case]:
    def build(data: Data) -> Case:
        rows = data.gaps.copy()
        rows[20:24, 2] = [np.inf, -np.inf, 1e308, -1e308]
        rows[1, 3] = np.inf
        model = made(data)
        return data.case(model.predict if is_bound else model, model.predict, rows)

    return build


class Tracked(RandomForestRegressor):  # type: ignore[misc]
    """Knows when it was made, and predicts as ever."""

    def fit(self, rows: Any, target: Any) -> "Tracked":
        self.made = "today"
        super().fit(rows, target)
        return self

    def predict_interval(self, rows: Any) -> Any:
        return np.stack([tree.predict(rows) for tree in self.estimators_]).std(axis=0)


class Doubled(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Works column by column, which it has to prove."""

    def fit(self, rows: Any, _target: Any = None) -> "Doubled":
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, rows: Any) -> Any:
        return np.maximum(2 * np.asarray(rows), -1)


PROVED: dict[str, Callable[[Data], Case]] = {
    "affine output": of_output(forest, lambda answer: 3 - 2 * answer),
    "clip beyond the range": of_output(forest, lambda answer: np.clip(answer, -100, 100)),
    "difference of classes": of_output(
        multiclass, lambda chances: 1 - chances[:, 0] + 2 * chances[:, 2]
    ),
    "subclass": of_model(lambda data: Tracked(**FEW).fit(data.rows, data.target)),
    "bound forest": bound(forest),
    "bound LightGBM": bound(
        lambda data: lightgbm.LGBMRegressor(**LIGHT).fit(data.rows, data.target)
    ),
    "bound probabilities": bound(multiclass, "predict_proba"),
    "bound search": bound(
        lambda data: GridSearchCV(RandomForestRegressor(**FEW), {"max_depth": [4]}, cv=2).fit(
            data.rows, data.target
        )
    ),
    "LightGBM, infinite": with_infinity(
        lambda data: lightgbm.LGBMRegressor(**LIGHT).fit(data.gaps, data.target), is_bound=False
    ),
    "histograms, infinite, bound": with_infinity(
        lambda data: HistGradientBoostingRegressor(**HIST).fit(data.gaps, data.target),
        is_bound=True,
    ),
    "scaled and chosen": of_steps(
        SimpleImputer, StandardScaler, lambda: SelectKBest(f_regression, k=4), rows="gaps"
    ),
    "columns by a function": of_steps(one_to_one(lambda rows: np.where(rows > 1, 1, rows))),
    "a transformer of one's own": of_steps(Doubled),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_what_is_a_sum_of_leaves_is_exact(name: str) -> None:
    for seed in SEEDS[:2]:
        case = PROVED[name](Data(seed))
        answer = explained(case)
        assert answer.method == "exact (trees)", answer.notes
        scale = max(1.0, np.abs(answer.predictions).max())
        expected = all_values(case)
        np.testing.assert_allclose(
            answer.values.reshape(expected.shape), expected, atol=2e-6 * scale
        )
