"""Models of every kind, with the real libraries: what they are asked for, on which scale, and by which names."""

import re
import subprocess
import sys
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from torch import nn

from games import Floats
from shearshap import Explainer, Explanation, InputError, ModelError, ShearWarning
from shearshap.models import KINDS, Outputs
from shearshap.models.huggingface import FramedClassifier, text_classifier
from shearshap.models.sklearn import estimator

NUMBERS, LABELS = make_classification(
    400, 5, n_informative=4, n_redundant=0, n_classes=2, random_state=0
)
_, THREE = make_classification(400, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
WORDS = np.array(["no", "yes"])[LABELS]
FRAME = pd.DataFrame(NUMBERS, columns=list("abcde")).assign(
    kind=pd.Categorical(
        np.where(NUMBERS[:, 0] > 0, "up", "down"), categories=["up", "down", "flat"]
    )
)
FRAME.loc[::9, "b"] = np.nan


def explained(model: Any, rows: Any, **options: Any) -> Explanation:
    """Explain five rows against two others, and check what holds of every explanation."""
    answer = Explainer(model, rows[:2], **options)(rows[10:15], budget=256)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-6)
    assert answer.method in ("exact", "exact (trees)")
    return answer


def log_odds(chances: Floats) -> Floats:
    return np.asarray(np.log(chances / (1 - chances)))


# scikit-learn


def test_classifiers_are_asked_for_probabilities_and_named_by_class() -> None:
    model = LogisticRegression().fit(NUMBERS, WORDS)
    answer = explained(model, NUMBERS)
    assert answer.output_names == ["no", "yes"]
    np.testing.assert_allclose(answer.predictions, model.predict_proba(NUMBERS[10:15]))
    one = explained(model, NUMBERS, output="yes")
    assert (one.values.shape, one.output_names) == ((5, 5), ["yes"])
    np.testing.assert_allclose(one.values, answer.values[:, :, 1])


def test_log_odds_and_margins_of_a_classifier() -> None:
    model = LogisticRegression().fit(NUMBERS, WORDS)
    odds = explained(model, NUMBERS, scale="log-odds")
    np.testing.assert_allclose(
        odds.predictions, log_odds(model.predict_proba(NUMBERS[10:15])), atol=1e-9
    )
    for scale in ("margin", "logit"):
        margin = explained(model, NUMBERS, scale=scale, output=1)
        assert margin.output_names == ["yes"]
        np.testing.assert_allclose(margin.predictions, model.decision_function(NUMBERS[10:15]))
        np.testing.assert_allclose(margin.values, odds.values[:, :, 1], atol=1e-9)
    with pytest.raises(
        InputError,
        match=r"one score for two classes, that of 'yes' \(1\), got 0; try scale='log-odds'",
    ):
        explained(model, NUMBERS, scale="margin", output=0)


def test_a_linear_models_margin_is_shared_as_its_terms() -> None:
    model = LogisticRegression().fit(NUMBERS, WORDS)
    answer = explained(model, NUMBERS, scale="margin")
    np.testing.assert_allclose(
        answer.values, (NUMBERS[10:15] - NUMBERS[:2].mean(axis=0)) * model.coef_, atol=1e-9
    )


def test_estimators_without_probabilities_or_margins() -> None:
    svc = LinearSVC().fit(NUMBERS, THREE)
    with pytest.raises(
        InputError,
        match="LinearSVC has no probabilities; leave scale out, try scale='margin', or wrap it",
    ):
        explained(svc, NUMBERS, scale="probability")
    np.testing.assert_allclose(
        explained(svc, NUMBERS).predictions, svc.decision_function(NUMBERS[10:15])
    )
    assert explained(svc, NUMBERS, output="2").output_names == ["2"]
    forest = RandomForestClassifier(5).fit(NUMBERS, WORDS)
    with pytest.raises(
        InputError, match="RandomForestClassifier has no decision_function; try scale='log-odds'"
    ):
        explained(forest, NUMBERS, scale="margin")
    assert np.isfinite(explained(forest, NUMBERS, scale="log-odds").values).all()
    line = LinearRegression().fit(NUMBERS, NUMBERS.sum(axis=1))
    assert explained(line, NUMBERS).output_names == ["output"]
    with pytest.raises(
        InputError,
        match="scale='probability': LinearRegression has no probabilities; leave scale out",
    ):
        explained(line, NUMBERS, scale="probability")
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(InputError, match="model: a StandardScaler cannot predict"):
        explained(StandardScaler().fit(NUMBERS), NUMBERS)


def test_an_array_for_a_model_of_named_columns_gets_its_names() -> None:
    numbers = FRAME[list("acde")]
    model = LogisticRegression().fit(numbers, WORDS)
    answer = explained(
        model, numbers.to_numpy()
    )  # scikit-learn warns where names are missing, and warnings are errors
    assert answer.feature_names == list("acde")
    np.testing.assert_allclose(answer.values, explained(model, numbers).values)
    with pytest.raises(
        InputError,
        match=r"the model was trained with 4 named columns, got an array of shape \(400, 5\)",
    ):
        Explainer(model, NUMBERS)(NUMBERS)


def test_missing_numbers_reach_models_that_take_them() -> None:
    rows = FRAME[list("abcde")].to_numpy()
    model = HistGradientBoostingClassifier(max_iter=10).fit(rows, WORDS)
    answer = explained(model, rows)
    assert np.isnan(rows[:2]).any()
    assert np.isnan(rows[10:20]).any()
    np.testing.assert_allclose(answer.predictions, model.predict_proba(rows[10:15]))
    np.testing.assert_allclose(
        answer.base_values, np.tile(model.predict_proba(rows[:2]).mean(axis=0), (5, 1))
    )
    mean = Explainer(model, ("mean", rows))(rows[10:15])
    np.testing.assert_allclose(
        mean.base_values[0], model.predict_proba(np.nanmean(rows, axis=0)[None])[0]
    )
    with pytest.raises(InputError, match="rows: row 0 is nan at column 1"):
        Explainer(nn.Linear(5, 1), np.zeros(5))(rows[:3])


class SavedClassifier:
    """No estimator of any library, but an object with the same methods and attributes."""

    classes_ = np.array(["no", "yes"])
    feature_names_in_ = np.array(list("abcde"))

    def __init__(self) -> None:
        self.columns: list[list[str]] = []

    def decision_function(self, rows: Any) -> Floats:
        self.columns.append(list(rows.columns))
        return np.asarray(np.tanh(rows.to_numpy()).sum(axis=1))

    def predict_proba(self, rows: Any) -> Floats:
        second = 1 / (1 + np.exp(-self.decision_function(rows)))
        return np.stack((1 - second, second), axis=1)

    def predict(self, rows: Any) -> Any:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_an_object_with_the_methods_of_a_classifier(kind: str) -> None:
    frame = pd.DataFrame(NUMBERS, columns=list("abcde"))
    rows = frame if kind == "frame" else NUMBERS
    model = SavedClassifier()
    probabilities = model.predict_proba(frame[10:15])
    margins = model.decision_function(frame[10:15])

    answer = explained(model, rows)
    assert (answer.output_names, answer.feature_names) == (["no", "yes"], list("abcde"))
    np.testing.assert_allclose(answer.predictions, probabilities)
    for scale in ("margin", "logit"):
        one = explained(model, rows, scale=scale)
        assert one.output_names == ["yes"]
        np.testing.assert_allclose(one.predictions, margins)
        np.testing.assert_allclose(
            explained(model, rows, scale=scale, output="yes").values, one.values
        )
    odds = explained(model, rows, scale="log-odds", output="yes")
    np.testing.assert_allclose(odds.predictions, margins, atol=1e-9)
    assert all(columns == list("abcde") for columns in model.columns)


# What is explained is what the model says


def test_outlier_detectors_are_explained_by_their_score() -> None:
    from sklearn.ensemble import IsolationForest
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    alone = IsolationForest(n_estimators=5, random_state=0).fit(NUMBERS)
    last = make_pipeline(StandardScaler(), alone).fit(NUMBERS)
    for model in (alone, last):
        for scale in (None, "margin"):
            answer = explained(model, NUMBERS, scale=scale)
            np.testing.assert_allclose(answer.predictions, model.decision_function(NUMBERS[10:15]))
        with pytest.raises(InputError, match=r"has no probabilities; leave scale out$"):
            explained(model, NUMBERS, scale="log-odds")


def test_a_detector_of_outliers_that_cannot_predict() -> None:
    from sklearn.neighbors import LocalOutlierFactor

    with pytest.raises(InputError, match="scores only the rows it was fitted to; try novelty=True"):
        explained(LocalOutlierFactor().fit(NUMBERS), NUMBERS)


def test_a_density_is_explained_by_its_logarithm() -> None:
    from sklearn.neighbors import KernelDensity

    model = KernelDensity().fit(NUMBERS)
    np.testing.assert_allclose(
        explained(model, NUMBERS).predictions, model.score_samples(NUMBERS[10:15])
    )


def test_labels_are_no_numbers() -> None:
    from sklearn.cluster import KMeans, MeanShift
    from sklearn.ensemble import VotingClassifier
    from sklearn.multioutput import MultiOutputClassifier

    kmeans = KMeans(2, random_state=0).fit(NUMBERS)
    with pytest.raises(
        InputError,
        match=r"model: KMeans predicts the labels of clusters, which are not numbers; try "
        r"model.transform, the distances to the clusters, or model.predict itself",
    ):
        explained(kmeans, NUMBERS)
    with pytest.raises(InputError, match=r"; try model.predict itself to explain the labels as if"):
        explained(MeanShift(bandwidth=9).fit(NUMBERS), NUMBERS)

    hard = VotingClassifier([("line", LogisticRegression())]).fit(NUMBERS, WORDS)
    with pytest.raises(
        InputError,
        match="VotingClassifier predicts labels, which are not numbers, and has neither "
        "predict_proba nor decision_function; try voting='soft', .*CalibratedClassifierCV, or a "
        r"function such as lambda rows: model.predict\(rows\) == 'yes'",
    ):
        explained(hard, NUMBERS)
    answer = explained(lambda rows: hard.predict(rows) == "yes", NUMBERS)
    np.testing.assert_array_equal(answer.predictions, hard.predict(NUMBERS[10:15]) == "yes")

    several = MultiOutputClassifier(LinearSVC()).fit(NUMBERS, np.stack((LABELS, THREE), axis=1))
    with pytest.raises(
        InputError,
        match="try wrapping the classifier inside it in CalibratedClassifierCV, or a function "
        r"such as lambda rows: model.predict\(rows\)\[:, 0\] == 1",
    ):
        explained(several, NUMBERS)


def test_labels_are_explained_where_they_are_asked_for() -> None:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import IsolationForest

    kmeans = KMeans(2, random_state=0).fit(NUMBERS)
    forest = IsolationForest(n_estimators=5, random_state=0).fit(NUMBERS)
    line = LogisticRegression().fit(NUMBERS, THREE)
    advice = {
        kmeans: "pass model.transform to explain the distances",
        forest: "pass the model itself to explain its probabilities or scores",
        line: "pass the model itself",
    }
    for model, hint in advice.items():
        name = type(model).__name__
        with pytest.warns(
            ShearWarning, match=f"{name}.predict returns labels, which are not .*; {hint}"
        ) as warned:
            answer = explained(model.predict, NUMBERS)
        assert warned[0].filename == __file__
        np.testing.assert_array_equal(answer.predictions, model.predict(NUMBERS[10:15]))

    words = LogisticRegression().fit(NUMBERS, WORDS)
    with (
        pytest.warns(ShearWarning, match="labels"),
        pytest.raises(
            ModelError,
            match=r"the model returned (labels|words) such as '(no|yes)'",
        ),
    ):
        explained(words.predict, NUMBERS)
    with pytest.warns(ShearWarning, match="labels"):
        answer = explained(words.predict, NUMBERS, output=lambda labels: labels == "yes")
    np.testing.assert_array_equal(answer.predictions, words.predict(NUMBERS[10:15]) == "yes")

    digits = LogisticRegression().fit(NUMBERS, LABELS.astype(str))
    with (
        pytest.warns(ShearWarning, match="labels"),
        pytest.raises(ModelError, match=r"returned (labels|words) such as '[01]'"),
    ):
        explained(digits.predict, NUMBERS)


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_bound_methods_are_functions(kind: str) -> None:
    """An array gets the names the estimator was fitted with, as where the estimator itself is passed."""
    from sklearn.cluster import KMeans
    from sklearn.neighbors import KernelDensity

    frame = pd.DataFrame(NUMBERS, columns=list("abcde"))
    rows = frame if kind == "frame" else NUMBERS
    line = LogisticRegression().fit(frame, WORDS)
    regression = LinearRegression().fit(frame, NUMBERS.sum(axis=1))
    methods = [
        line.predict_proba,
        line.decision_function,
        regression.predict,
        KMeans(2, random_state=0).fit(frame).transform,
        KernelDensity().fit(frame).score_samples,
    ]
    for method in methods:
        answer = explained(method, rows)
        np.testing.assert_allclose(answer.predictions, method(frame[10:15]))
        assert answer.feature_names == list("abcde")
    odds = explained(line.predict_proba, rows, scale="log-odds").predictions
    np.testing.assert_allclose(odds, log_odds(line.predict_proba(frame[10:15])), atol=1e-9)


def test_a_sparse_transform_is_a_function() -> None:
    from sklearn.preprocessing import OneHotEncoder

    rows = NUMBERS.round()
    encoder = OneHotEncoder().fit(rows)
    np.testing.assert_allclose(
        explained(encoder.transform, rows).predictions, encoder.transform(rows[10:15]).toarray()
    )


def test_scores_of_pairs_of_classes_are_named_by_pair() -> None:
    from sklearn.feature_selection import RFE
    from sklearn.svm import SVC

    names = np.array(["a", "b", "c"])[THREE]
    machine = SVC(kernel="linear", decision_function_shape="ovo")
    for model in (machine.fit(NUMBERS, names), RFE(machine).fit(NUMBERS, names)):
        answer = explained(model, NUMBERS)
        np.testing.assert_allclose(answer.predictions, model.decision_function(NUMBERS[10:15]))
        assert answer.output_names == ["a against b", "a against c", "b against c"]
        # the winner of a pair is the first where the score is positive
        wins = model.decision_function(NUMBERS) > 0
        beats_both = wins[:, 0] & wins[:, 1]
        assert set(model.predict(NUMBERS[beats_both])) == {"a"}


# Several targets

INDICATORS = np.stack((LABELS, NUMBERS[:, 1] > 0, NUMBERS[:, 2] > 0.3), axis=1).astype(int)
NAMES_OF_INDICATORS = ["label 0", "label 1", "label 2"]


def positive(answer: Any) -> Floats:
    """The probability that each label is set, of a list with one table for each."""
    return np.stack([table[:, 1] for table in answer], axis=1)


def multilabel_classifiers() -> dict[str, Any]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    line = LogisticRegression()
    return {
        "forest": RandomForestClassifier(3, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=3),
        "neighbours": KNeighborsClassifier(),
        "network": MLPClassifier((4,), solver="lbfgs", max_iter=2000, random_state=0),
        "multi-output": MultiOutputClassifier(line),
        "chain": ClassifierChain(line),
        "one against rest": OneVsRestClassifier(line),
        "search": GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2]}, cv=2),
        "pipeline": make_pipeline(StandardScaler(), OneVsRestClassifier(line)),
        "pipeline of a list": make_pipeline(StandardScaler(), MultiOutputClassifier(line)),
    }


@pytest.mark.parametrize("name", multilabel_classifiers())
def test_classifiers_of_several_labels(name: str) -> None:
    model = multilabel_classifiers()[name].fit(NUMBERS, INDICATORS)
    own = model.predict_proba(NUMBERS[10:15])
    chances = positive(own) if isinstance(own, list) else own
    answer = explained(model, NUMBERS)
    np.testing.assert_allclose(answer.predictions, chances)
    assert answer.output_names == NAMES_OF_INDICATORS

    one = explained(model, NUMBERS, output="label 1")
    np.testing.assert_allclose(one.predictions, chances[:, 1])
    odds = explained(model, NUMBERS, scale="log-odds").predictions
    clipped = chances.clip(1e-7, 1 - 1e-7)
    np.testing.assert_allclose(odds, log_odds(clipped), atol=1e-9)


def test_margins_of_several_labels_are_independent() -> None:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import ClassifierChain

    for kind in (RidgeClassifier(), OneVsRestClassifier(LinearSVC()), ClassifierChain(LinearSVC())):
        model = kind.fit(NUMBERS, INDICATORS)
        answer = explained(model, NUMBERS)
        np.testing.assert_allclose(answer.predictions, model.decision_function(NUMBERS[10:15]))
        assert answer.output_names == NAMES_OF_INDICATORS
        adapted = estimator(model, None)
        assert adapted.independent
        assert adapted.form == "margin"


def test_targets_of_several_classes_stand_side_by_side() -> None:
    letters = np.array(["x", "y", "z"])[THREE]
    model = RandomForestClassifier(3, random_state=0).fit(
        NUMBERS, np.stack((WORDS, letters), axis=1)
    )
    answer = explained(model, NUMBERS)
    first, second = model.predict_proba(NUMBERS[10:15])
    np.testing.assert_allclose(answer.predictions, np.concatenate((first[:, 1:], second), axis=1))
    assert answer.output_names == ["target 0: yes", "target 1: x", "target 1: y", "target 1: z"]
    bound = explained(model.predict_proba, NUMBERS)
    np.testing.assert_array_equal(bound.values, answer.values)
    with pytest.raises(InputError, match="has no decision_function; try scale='log-odds'"):
        explained(model, NUMBERS, scale="margin")


def test_tables_of_several_targets_can_be_taken_one_by_one() -> None:
    model = RandomForestClassifier(3, random_state=0).fit(
        NUMBERS, np.stack((LABELS, THREE), axis=1)
    )
    _, second = model.predict_proba(NUMBERS[10:15])
    for given in (model, model.predict_proba):
        answer = explained(given, NUMBERS, output=lambda tables: tables[1])
        np.testing.assert_allclose(answer.predictions, second)
        assert explained(given, NUMBERS, output=len_of_tables).predictions.tolist() == [2] * 5


def len_of_tables(tables: Any) -> Floats:
    first, _ = tables
    return np.full(len(first), float(len(tables)))


def test_stacked_labels_are_named_by_the_class_whose_probability_they_are() -> None:
    """scikit-learn's StackingClassifier returns the probabilities of the first class of each target."""
    from sklearn.ensemble import StackingClassifier
    from sklearn.neighbors import KNeighborsClassifier

    neighbours = KNeighborsClassifier()
    model = StackingClassifier([("near", neighbours)], KNeighborsClassifier(), cv=2)
    model.fit(NUMBERS, INDICATORS)
    answer = explained(model, NUMBERS)
    np.testing.assert_allclose(answer.predictions, model.predict_proba(NUMBERS[10:15]))
    final = model.final_estimator_.predict_proba(model.transform(NUMBERS[10:15]))
    np.testing.assert_allclose(answer.predictions, 1 - positive(final))
    assert answer.output_names == ["target 0: 0", "target 1: 0", "target 2: 0"]


def test_meta_estimators_of_numbers() -> None:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.multioutput import MultiOutputRegressor, RegressorChain

    line = LinearRegression()
    both = np.stack((NUMBERS.sum(axis=1), NUMBERS[:, 0] ** 2), axis=1)
    logarithm = TransformedTargetRegressor(line, func=np.log, inverse_func=np.exp)
    for kind, target in (
        (MultiOutputRegressor(line), both),
        (RegressorChain(line), both),
        (line, both),
        (logarithm, np.exp(both[:, 0])),
    ):
        model = kind.fit(NUMBERS, target)
        np.testing.assert_allclose(
            explained(model, NUMBERS).predictions, model.predict(NUMBERS[10:15])
        )


# Objects of no library we know


class OnlyProbabilities:
    """Neither `predict` nor classes, and lists in place of arrays."""

    def predict_proba(self, rows: Any) -> list[list[float]]:
        second = 1 / (1 + np.exp(-rows.sum(axis=1)))
        return [[1 - chance, chance] for chance in second.tolist()]


class OnlyPredictions:
    """A model of a library that knows nothing of estimators."""

    def __init__(self, words: bool = False) -> None:
        self.words = words

    def predict(self, rows: Any) -> Any:
        total = rows.sum(axis=1)
        return np.where(total > 0, "yes", "no") if self.words else total


def test_objects_with_probabilities_alone_or_predictions_alone() -> None:
    model = OnlyProbabilities()
    np.testing.assert_allclose(
        explained(model, NUMBERS).predictions, model.predict_proba(NUMBERS[10:15])
    )
    np.testing.assert_allclose(
        explained(model, NUMBERS, scale="log-odds", output=1).predictions,
        NUMBERS[10:15].sum(axis=1),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        explained(OnlyPredictions(), NUMBERS).predictions, NUMBERS[10:15].sum(axis=1)
    )
    with pytest.raises(ModelError, match=r"the model returned (labels|words) such as '(yes|no)'"):
        explained(OnlyPredictions(words=True), NUMBERS)


class WrappedNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network in an estimator, which takes rows of float32 alone, as wrappers of torch do."""

    def fit(self, rows: Floats, labels: Any) -> "WrappedNetwork":
        torch.manual_seed(0)
        self.classes_ = np.unique(labels)
        self.network_ = nn.Sequential(nn.Linear(rows.shape[1], 2), nn.Softmax(dim=1))
        return self

    def predict_proba(self, rows: Any) -> Any:
        with torch.no_grad():
            return self.network_(torch.from_numpy(rows)).numpy()

    def predict(self, rows: Any) -> Any:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


def test_an_estimator_around_a_network_gets_rows_of_its_own_precision() -> None:
    rows = NUMBERS.astype(np.float32)
    model = WrappedNetwork().fit(rows, WORDS)
    answer = Explainer(model, rows[0])(rows[10:15])
    np.testing.assert_allclose(answer.predictions, model.predict_proba(rows[10:15]), atol=1e-6)
    assert answer.output_names == ["no", "yes"]


# Boosters


def boosters() -> dict[str, Any]:
    """Classifiers of two and three classes and a regressor of each library, fitted to a frame with categories."""
    quiet: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "cat_features": ["kind"]}
    made: dict[str, Any] = {
        "xgboost": (
            xgboost.XGBClassifier,
            xgboost.XGBRegressor,
            {"n_estimators": 8, "enable_categorical": True},
        ),
        "lightgbm": (
            lightgbm.LGBMClassifier,
            lightgbm.LGBMRegressor,
            {"n_estimators": 8, "verbose": -1},
        ),
        "catboost": (
            catboost.CatBoostClassifier,
            catboost.CatBoostRegressor,
            {"iterations": 8, **quiet},
        ),
    }
    fitted = {}
    for name, (classifier, regressor, options) in made.items():
        fitted[name] = (
            classifier(**options).fit(FRAME, LABELS),
            classifier(**options).fit(FRAME, THREE),
            regressor(**options).fit(FRAME, NUMBERS.sum(axis=1)),
        )
    return fitted


@pytest.fixture(scope="module", name="fitted")
def _fitted() -> dict[str, Any]:
    return boosters()


LIBRARIES = ("xgboost", "lightgbm", "catboost")


def margins(library: str, model: Any, rows: Any) -> Floats:
    option: Any = {"xgboost": {"output_margin": True}, "lightgbm": {"raw_score": True},
              "catboost": {"prediction_type": "RawFormulaVal"}}[library]  # fmt: skip
    return np.asarray(model.predict(rows, **option))


@pytest.mark.parametrize("library", LIBRARIES)
def test_boosted_classifiers(library: str, fitted: dict[str, Any]) -> None:
    two, three, _ = fitted[library]
    rows = FRAME[10:15]
    answer = explained(two, FRAME)
    assert answer.output_names == ["0", "1"]
    assert answer.feature_names == [*"abcde", "kind"]
    np.testing.assert_allclose(answer.predictions, two.predict_proba(rows), atol=1e-6)
    many = explained(three, FRAME, output=["2", "0"])
    assert many.output_names == ["2", "0"]
    np.testing.assert_allclose(many.predictions, three.predict_proba(rows)[:, [2, 0]], atol=1e-6)
    np.testing.assert_allclose(
        explained(two, FRAME, scale="margin").predictions, margins(library, two, rows), atol=1e-6
    )
    np.testing.assert_allclose(
        explained(three, FRAME, scale="margin").predictions,
        margins(library, three, rows),
        atol=1e-6,
    )
    odds = explained(two, FRAME, scale="log-odds")
    np.testing.assert_allclose(odds.predictions[:, 1], margins(library, two, rows), atol=1e-6)
    np.testing.assert_allclose(odds.predictions[:, 0], -odds.predictions[:, 1])
    chances = three.predict_proba(rows)
    np.testing.assert_allclose(
        explained(three, FRAME, scale="log-odds").predictions, log_odds(chances), atol=1e-4
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_boosted_regressors(library: str, fitted: dict[str, Any]) -> None:
    *_, model = fitted[library]
    np.testing.assert_allclose(
        explained(model, FRAME).predictions, model.predict(FRAME[10:15]), atol=1e-5
    )
    with pytest.raises(
        InputError, match="is not a classifier and has no probabilities; leave scale out"
    ):
        explained(model, FRAME, scale="probability")


@pytest.mark.parametrize("library", LIBRARIES)
def test_boosters_take_polars_as_they_take_pandas(library: str, fitted: dict[str, Any]) -> None:
    two, *_ = fitted[library]
    if library == "catboost":  # it knows no category but a string
        ours, theirs = FRAME.assign(kind=FRAME["kind"].astype(str)), None
        theirs = pl.from_pandas(ours)
    else:
        ours, theirs = FRAME, pl.from_pandas(FRAME)
    np.testing.assert_allclose(
        explained(two, theirs).values, explained(two, ours).values, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_plain_boosters(kind: str) -> None:
    numbers = FRAME[list("abcde")]
    rows = numbers if kind == "frame" else numbers.to_numpy()
    theirs = xgboost.train(
        {"objective": "binary:logistic"}, xgboost.DMatrix(rows, LABELS), num_boost_round=5
    )
    matrix = xgboost.DMatrix(rows[10:15])
    np.testing.assert_allclose(
        explained(theirs, rows).predictions, theirs.predict(matrix), atol=1e-6
    )
    np.testing.assert_allclose(
        explained(theirs, rows, scale="log-odds").predictions,
        theirs.predict(matrix, output_margin=True),
        atol=1e-6,
    )
    labels = xgboost.train(
        {"objective": "multi:softmax", "num_class": 3}, xgboost.DMatrix(rows, THREE), 5
    )
    chances = explained(labels, rows, scale="probability").predictions
    np.testing.assert_array_equal(chances.argmax(axis=1), labels.predict(matrix))
    light = lightgbm.train(
        {"objective": "binary", "verbose": -1}, lightgbm.Dataset(rows, LABELS), 5
    )
    np.testing.assert_allclose(explained(light, rows).predictions, light.predict(rows[10:15]))
    np.testing.assert_allclose(
        explained(light, rows, scale="margin").predictions,
        light.predict(rows[10:15], raw_score=True),
    )
    names = list("abcde") if kind == "frame" else ["x0", "x1", "x2", "x3", "x4"]
    assert explained(light, rows).feature_names == explained(theirs, rows).feature_names == names


def test_wrappers_answer_as_their_own_methods_do() -> None:
    """Early stopping, another word for missing, objectives whose probabilities are no softmax, links of regressors."""
    held_out = [(NUMBERS[200:], LABELS[200:])]
    early = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=2, learning_rate=0.9)
    early.fit(NUMBERS[:200], LABELS[:200], eval_set=held_out, verbose=False)
    assert early.best_iteration < early.get_booster().num_boosted_rounds() - 1
    holes = np.where(np.isnan(FRAME[list("abcde")].to_numpy()), -999, NUMBERS)
    classifiers = [
        (early, NUMBERS),
        (xgboost.XGBClassifier(n_estimators=5, missing=-999).fit(holes, LABELS), holes),
        (xgboost.XGBClassifier(n_estimators=5, objective="multi:softmax").fit(NUMBERS, THREE), NUMBERS),
        (lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, objective="multiclassova").fit(NUMBERS, THREE), NUMBERS),
        (lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, sigmoid=2.0).fit(NUMBERS, LABELS), NUMBERS),
        (catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False,
                                     loss_function="MultiClassOneVsAll").fit(NUMBERS, THREE), NUMBERS),
    ]  # fmt: skip
    for model, rows in classifiers:
        wanted = model.predict_proba(rows[10:15])
        np.testing.assert_allclose(explained(model, rows).predictions, wanted, atol=1e-6)
        np.testing.assert_allclose(
            explained(model, rows, scale="log-odds").predictions, log_odds(wanted), atol=1e-4
        )
    counts = np.abs(NUMBERS[:, 0]).round()
    regressors = {
        "xgboost": xgboost.XGBRegressor(n_estimators=5, objective="count:poisson").fit(
            NUMBERS, counts
        ),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, objective="poisson").fit(
            NUMBERS, counts
        ),
        "catboost": catboost.CatBoostRegressor(
            iterations=5, verbose=0, allow_writing_files=False, loss_function="Poisson"
        ).fit(NUMBERS, counts),
    }
    for library, model in regressors.items():
        np.testing.assert_allclose(
            explained(model, NUMBERS).predictions, model.predict(NUMBERS[10:15]), atol=1e-6
        )
        np.testing.assert_allclose(
            explained(model, NUMBERS, scale="margin").predictions,
            margins(library, model, NUMBERS[10:15]),
            atol=1e-6,
        )


def test_a_booster_of_an_objective_of_ones_own_has_margins_only() -> None:
    def logistic(truth: Floats, raw: Floats) -> tuple[Floats, Floats]:
        chance = 1 / (1 + np.exp(-raw))
        return chance - truth, chance * (1 - chance)

    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, objective=logistic).fit(
        NUMBERS, LABELS
    )
    answer = explained(model, NUMBERS, scale="margin")
    np.testing.assert_allclose(answer.predictions, model.predict(NUMBERS[10:15], raw_score=True))


def test_names_that_a_library_made_up_are_not_taken_for_names() -> None:
    """LightGBM calls the columns of an array Column_0, Column_1, ..., and meta-estimators pass that on."""
    from sklearn.model_selection import GridSearchCV

    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1)
    search = GridSearchCV(model, {"max_depth": [2]}, cv=2).fit(NUMBERS, LABELS)
    answer = explained(search, NUMBERS)
    assert answer.feature_names == ["x0", "x1", "x2", "x3", "x4"]
    np.testing.assert_allclose(answer.predictions, search.predict_proba(NUMBERS[10:15]))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_booster_fitted_to_columns_that_are_numbers(library: str) -> None:
    options: dict[str, Any] = {
        "xgboost": {"n_estimators": 3},
        "lightgbm": {"n_estimators": 3, "verbose": -1},
        "catboost": {"iterations": 3, "verbose": 0, "allow_writing_files": False},
    }[library]
    kind = {
        "xgboost": xgboost.XGBClassifier,
        "lightgbm": lightgbm.LGBMClassifier,
        "catboost": catboost.CatBoostClassifier,
    }[library]
    model = kind(**options).fit(pd.DataFrame(NUMBERS), LABELS)
    own = model.predict_proba(pd.DataFrame(NUMBERS[10:15]))
    np.testing.assert_allclose(explained(model, NUMBERS).predictions, own, atol=1e-6)


def test_names_with_spaces_and_names_like_numbers() -> None:
    spaced = FRAME[list("ab")].rename(columns={"a": "first one", "b": "Column_b"})
    for model in (
        lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(spaced, LABELS),
        lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(spaced, LABELS), 5),
    ):
        usual, turned = (
            explained(model, frame) for frame in (spaced, spaced[["Column_b", "first one"]])
        )
        assert usual.feature_names == ["first one", "Column_b"]
        np.testing.assert_allclose(turned.values[:, ::-1], usual.values, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        xgboost.XGBClassifier(),
        lightgbm.LGBMClassifier(),
        catboost.CatBoostClassifier(),
        xgboost.Booster(),
    ],
)
def test_models_that_are_not_fitted(model: Any) -> None:
    with pytest.raises((InputError, ModelError), match=r"is it fitted\?|fit"):
        explained(model, NUMBERS)


def test_exact_agrees_with_shaps_tree_explainer_in_margin_space() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        model = xgboost.XGBClassifier(n_estimators=40, max_depth=4).fit(NUMBERS, LABELS)
        tree = shap.TreeExplainer(
            model, NUMBERS[:1], feature_perturbation="interventional", model_output="raw"
        )
        theirs = tree(NUMBERS[10:60])
    ours = Explainer(model, NUMBERS[:1], method="exact", scale="margin")(NUMBERS[10:60], budget=32)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-4)


# ONNX Runtime


def exported(network: nn.Module, example: tuple[Any, ...], folder: Any) -> Any:
    import logging
    import warnings

    import onnxruntime

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    rows = torch.export.Dim("rows")
    shapes = tuple({0: rows} for _ in example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            example,
            folder / "net.onnx",
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
        )
    return onnxruntime.InferenceSession(folder / "net.onnx")


class Pair(nn.Module):
    """Two inputs: indices and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(5, 2), nn.Linear(7, 3)

    def forward(self, indices: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.head(torch.cat((self.table(indices).flatten(1), numbers), dim=1)))


def test_onnx_sessions_of_one_and_several_inputs(tmp_path: Any) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 3))
    rows = NUMBERS.astype(np.float32)
    session = exported(network, (torch.tensor(rows[:2]),), tmp_path)
    for scale in (None, "probability", "log-odds"):
        ours, theirs = explained(network, rows, scale=scale), explained(session, rows, scale=scale)
        np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)
    pair, indices = Pair(), np.random.default_rng(0).integers(0, 5, (6, 2))
    session = exported(pair, (torch.tensor(indices[:2]), torch.tensor(rows[:2, :3])), tmp_path)
    given, absent = (indices, rows[:6, :3]), (np.zeros(2, dtype=int), np.zeros(3, dtype=np.float32))
    ours, theirs = (Explainer(model, absent)(given) for model in (pair, session))
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)


def test_an_onnx_session_of_columns_takes_a_frame(tmp_path: Any) -> None:
    """A model with an input for each column, strings among them, as converted scikit-learn Pipelines have."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    inputs = [
        helper.make_tensor_value_info("age", TensorProto.FLOAT, [None, 1]),
        helper.make_tensor_value_info("city", TensorProto.STRING, [None, 1]),
    ]
    nodes = [
        helper.make_node("LabelEncoder", ["city"], ["code"], domain="ai.onnx.ml",
                         keys_strings=["Rome", "Oslo"], values_floats=[3.0, 5.0], default_float=-1.0),
        helper.make_node("Mul", ["age", "code"], ["logits"]),
    ]  # fmt: skip
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, 1])
    graph = helper.make_graph(nodes, "g", inputs, [output])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(
        helper.make_model(graph, opset_imports=imports, ir_version=9), tmp_path / "columns.onnx"
    )
    session = onnxruntime.InferenceSession(tmp_path / "columns.onnx")
    frame = pd.DataFrame({"city": ["Rome", "Oslo", "Bern"], "age": [2.0, 4.0, 1.0]})
    answer = Explainer(session, frame[2:])(frame[:2])
    assert answer.feature_names == ["city", "age"]
    np.testing.assert_allclose(answer.predictions, [6, 20])
    np.testing.assert_allclose(answer.base_values, -1)
    np.testing.assert_allclose(answer.values, [[6, 1], [15, 6]])


def onnx_session(nodes: Any, inputs: Any, outputs: Any, folder: Any) -> Any:
    import onnx
    import onnxruntime
    from onnx import helper

    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        folder / "made.onnx",
    )
    return onnxruntime.InferenceSession(folder / "made.onnx")


@pytest.mark.parametrize("size", [1, 3])
def test_an_onnx_session_of_a_fixed_number_of_rows(size: int, tmp_path: Any) -> None:
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [size, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [size, 4])]
    session = onnx_session([helper.make_node("Tanh", ["x"], ["y"])], inputs, outputs, tmp_path)
    rows = NUMBERS[:5, :4]
    answer = Explainer(session, np.zeros(4))(rows)
    np.testing.assert_allclose(answer.predictions, np.tanh(rows))
    np.testing.assert_allclose(np.einsum("rpp->rp", answer.values), np.tanh(rows), atol=1e-12)


def test_an_onnx_session_of_whole_numbers_takes_no_others(tmp_path: Any) -> None:
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [None, 2])]
    outputs = [helper.make_tensor_value_info("probs", TensorProto.FLOAT, [None, 2])]
    session = onnx_session(
        [helper.make_node("Cast", ["x"], ["probs"], to=TensorProto.FLOAT)],
        inputs,
        outputs,
        tmp_path,
    )
    rows = np.array([[1, 2], [3, 5], [3, 2]])
    np.testing.assert_allclose(Explainer(session, ("mode", rows))(rows).base_values, [[3, 2]] * 3)
    with pytest.raises(
        InputError,
        match=r"input 'x' takes integers, but the rows or the background hold other numbers; .* try \('mode', rows\)",
    ):
        Explainer(session, ("mean", rows))(rows)
    with pytest.raises(
        InputError, match="scale='margin': the model returns probabilities and has no margins"
    ):
        Explainer(session, ("mode", rows), scale="margin")(rows)


# Texts


def words() -> tuple[Any, Any]:
    """A tiny classifier of texts, and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    known = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "film",
        "was",
        "good",
        "bad",
        "##ly",
        "not",
        "great",
        "aw",
        "##ful",
    ]
    rules = Tokenizer(
        models.WordPiece({word: at for at, word in enumerate(known)}, unk_token="[UNK]")
    )
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=rules, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
    torch.manual_seed(0)
    size = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    labels = {0: "negative", 1: "positive"}
    config = BertConfig(
        vocab_size=len(known),
        max_position_embeddings=32,
        initializer_range=0.5,
        id2label=labels,
        **size,
    )
    return BertForSequenceClassification(config).eval(), tokenizer


@pytest.fixture(scope="module", name="classifier")
def _classifier() -> tuple[Any, Any]:
    return words()


def logits(classifier: tuple[Any, Any], ids: list[int]) -> Floats:
    return classifier[0](input_ids=torch.tensor([ids])).logits.detach().double().numpy()[0]  # type: ignore[no-any-return]


def test_tokens_against_one_evaluation_at_a_time(classifier: tuple[Any, Any]) -> None:
    from games import all_coalitions, exact_shares

    answer = Explainer(classifier)(["the film was good", "not bad"])
    assert answer.output_names == ["negative", "positive"]
    assert answer.display_data is not None
    assert answer.display_data.tolist() == [["the", "film", "was", "good"], ["not", "bad", "", ""]]
    for row, inner in enumerate(([5, 6, 7, 8], [11, 9])):
        masked = [
            [token if kept else 4 for token, kept in zip(inner, z, strict=True)]
            for z in all_coalitions(len(inner))
        ]
        table = np.array([logits(classifier, [2, *tokens, 3]) for tokens in masked])
        for output in range(2):
            wanted = exact_shares(table[:, output])
            np.testing.assert_allclose(answer.values[row, : len(inner), output], wanted, atol=1e-5)
    assert (answer.values[1, 2:] == 0).all()
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


def test_words_are_groups_of_tokens(classifier: tuple[Any, Any]) -> None:
    answer = Explainer(classifier, groups="words", output="positive", scale="probability")(
        ["the film was awful badly"]
    )
    assert answer.feature_names == ["the", "film", "was", "awful", "badly"]
    whole = torch.tensor(logits(classifier, [2, 5, 6, 7, 13, 14, 9, 10, 3])).softmax(dim=0)[1]
    np.testing.assert_allclose(answer.predictions, [float(whole)], atol=1e-6)
    masked = torch.tensor(logits(classifier, [2, *[4] * 7, 3])).softmax(dim=0)[1]
    np.testing.assert_allclose(answer.base_values, [float(masked)], atol=1e-6)


def test_shear_differentiates_a_text_at_its_embeddings(classifier: tuple[Any, Any]) -> None:
    model, _ = classifier
    model.train()
    answer = Explainer(classifier, method="shear", output=1)(["the film was not awful"], budget=120)
    assert answer.derivative_passes > 0
    assert model.training
    model.eval()
    exact = Explainer(classifier, method="exact", output=1)(["the film was not awful"], budget=64)
    assert abs(answer.values - exact.values).max() < 0.2 * abs(exact.values).max()


def test_labels_that_do_not_exclude_each_other_have_chances_of_their_own(
    classifier: tuple[Any, Any],
) -> None:
    from transformers import pipeline

    model, tokenizer = classifier
    model.config.problem_type = "multi_label_classification"
    try:
        answer = Explainer(classifier, scale="probability")(["not bad"])
        said = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)(
            "not bad"
        )
    finally:
        model.config.problem_type = None
    wanted = {
        one["label"]: one["score"] for one in (said[0] if isinstance(said[0], list) else said)
    }
    np.testing.assert_allclose(
        answer.predictions[0], [wanted["negative"], wanted["positive"]], atol=1e-6
    )


def test_a_pipeline_and_bare_token_ids(classifier: tuple[Any, Any]) -> None:
    from transformers import pipeline

    model, tokenizer = classifier
    pair = Explainer(classifier, output=1)(["the film was good"])
    piped = Explainer(pipeline("text-classification", model=model, tokenizer=tokenizer), output=1)(
        ["the film was good"]
    )
    np.testing.assert_allclose(pair.values, piped.values, atol=1e-6)
    mask = np.array([0, 1, 2, 3, 4, 5])
    bare = Explainer(model, torch.tensor([2, 4, 4, 4, 4, 3]), groups=mask, output=1)(
        torch.tensor([[2, 5, 6, 7, 8, 3]])
    )
    np.testing.assert_allclose(bare.values[:, 1:5], pair.values, atol=1e-6)
    # the ends are asked in a batch of their own, where single precision rounds otherwise
    np.testing.assert_allclose(bare.values[:, [0, 5]], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "texts", "message"),
    [
        ({}, "one text", "rows: wanted a list of texts, got one text; pass [text]"),
        ({}, [3], "rows: wanted a list of texts, got int"),
        ({}, {"text": ["good"]}, "rows: wanted a list of texts, got dict"),
        (
            {"feature_names": ["a"]},
            ["good"],
            "feature_names: the players of a text are named by its own words",
        ),
        (
            {"groups": np.zeros(3, dtype=int)},
            ["good"],
            "groups: for texts, wanted 'tokens' or 'words'",
        ),
        ({}, [], "rows: wanted a list of texts, got none"),
        ({}, [""], "rows: text 0 has no tokens: ''"),
        (
            {"background": "[BLANK]"},
            ["good"],
            "background: the tokenizer has no token '[BLANK]'; try '[MASK]'",
        ),
        (
            {"background": np.zeros(3)},
            ["good"],
            "background: for texts, wanted a token such as '[MASK]', got ndarray",
        ),
        (
            {"groups": "letters"},
            ["good"],
            "groups: for texts, wanted 'tokens' or 'words', got 'letters'",
        ),
    ],
)
def test_bad_texts(
    classifier: tuple[Any, Any], options: dict[str, Any], texts: Any, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(classifier, **options)(texts)


def test_a_text_model_without_its_tokenizer_says_what_it_lacks(classifier: tuple[Any, Any]) -> None:
    from transformers import AutoModelForMaskedLM, BertConfig, BertModel, pipeline

    model, tokenizer = classifier
    lacks_tokenizer = (
        "model: a BertForSequenceClassification reads texts by its tokenizer; pass both, "
        "Explainer((model, tokenizer))"
    )
    small = BertConfig(
        vocab_size=15,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    filler = pipeline(
        "fill-mask", model=AutoModelForMaskedLM.from_config(small), tokenizer=tokenizer
    )
    cases: list[tuple[Any, Any, Any, str]] = [
        (model, None, ["good"], lacks_tokenizer),
        (model, "[MASK]", pd.Series(["good"]), lacks_tokenizer),
        (model, None, torch.tensor([[5, 6]]), lacks_tokenizer),
        (
            tokenizer,
            None,
            ["good"],
            "is a tokenizer; pass the model with it, Explainer((model, tokenizer))",
        ),
        (
            (tokenizer, model),
            None,
            ["good"],
            "model: got (tokenizer, model), the wrong way round; pass (model, tokenizer)",
        ),
        ([model, tokenizer], None, ["good"], "model: got a list; pass a tuple, (model, tokenizer)"),
        (
            (model, "bert-base"),
            None,
            ["good"],
            "model: the second of a pair is the tokenizer of the model, got str",
        ),
        (
            filler,
            None,
            ["good"],
            "model: this pipeline is for the task 'fill-mask'; wanted one for 'text-classification'",
        ),
    ]
    for wrong, background, texts, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            Explainer(wrong, background)(texts)
    with pytest.raises(
        ModelError, match="without logits; wanted a model for sequence classification"
    ):
        Explainer((BertModel(small), tokenizer))(["good"])


def test_what_a_text_classifier_says_of_its_labels_cannot_be_stated_otherwise(
    classifier: tuple[Any, Any],
) -> None:
    model, _ = classifier
    labels = Explainer(classifier, scale="probability", multilabel=True)(["not bad"])
    wanted = torch.tensor(logits(classifier, [2, 11, 9, 3])).sigmoid()
    np.testing.assert_allclose(labels.predictions[0], wanted, atol=1e-6)
    model.config.problem_type = "multi_label_classification"
    try:
        with pytest.raises(
            InputError,
            match="multilabel=False: the model's outputs are known to be labels of their own",
        ):
            Explainer(classifier, scale="probability", multilabel=False)(["not bad"])
    finally:
        model.config.problem_type = None
    with pytest.raises(InputError, match="returns='probability': the model is known to"):
        Explainer(classifier, scale="probability", returns="probability")(["not bad"])


def test_a_text_in_tokens_and_words(classifier: tuple[Any, Any]) -> None:
    adapted = text_classifier(classifier)
    assert adapted is not None
    adapted.check()
    (text,) = adapted.texts(["the film was badly"], "words")
    assert text.tokens.tolist() == [2, 5, 6, 7, 9, 10, 3]
    assert text.content.tolist() == [1, 2, 3, 4, 5]
    assert text.row.tolist() == [5, 6, 7, 9, 10]
    assert text.owners == [0, 1, 2, 3, 3]
    assert text.names == ["the", "film", "was", "badly"]
    (text,) = adapted.texts(["the film was badly"], "tokens")
    assert text.names == ["the", "film", "was", "bad", "ly"]
    assert (adapted.absent_token(None), adapted.absent_token("[PAD]")) == (4, 0)
    assert adapted.output_names == ("negative", "positive")


def test_a_framed_classifier_answers_by_tokens_as_by_embeddings(
    classifier: tuple[Any, Any],
) -> None:
    adapted = text_classifier(classifier)
    assert adapted is not None
    framed = FramedClassifier(adapted.model, *adapted.texts(["the film was badly"], "tokens"))
    content = torch.tensor([[5, 6, 7, 9, 10], [4, 6, 4, 9, 4]])
    wanted = [logits(classifier, [2, *tokens, 3]) for tokens in content.tolist()]
    np.testing.assert_allclose(framed(content).detach(), wanted, atol=1e-6)
    embedded = framed.embed(content)
    np.testing.assert_allclose(framed.from_embeddings(embedded).detach(), wanted, atol=1e-5)


@pytest.mark.parametrize("model", [nn.Linear(2, 1), (nn.Linear(2, 1), None), (1, 2, 3), None])
def test_what_is_no_text_classifier(model: Any) -> None:
    assert text_classifier(model) is None


def test_a_text_classifier_whose_labels_have_no_names(classifier: tuple[Any, Any]) -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier[0]

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

    answer = Explainer((Bare(), classifier[1]))(["not bad"])
    assert answer.output_names == ["output 0", "output 1"]
    np.testing.assert_allclose(answer.values, Explainer(classifier)(["not bad"]).values)


# Answers


def reversed_columns(x: Floats) -> Floats:
    return x[:, ::-1]


def read_only(x: Floats) -> Floats:
    answer = np.array(x)
    answer.flags.writeable = False
    return answer


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (reversed_columns, NUMBERS[10:15, ::-1]),
        (read_only, NUMBERS[10:15]),
        (np.asfortranarray, NUMBERS[10:15]),
        (pd.DataFrame, NUMBERS[10:15]),
        (lambda x: x.astype(">f8"), NUMBERS[10:15]),
        (lambda x: np.broadcast_to(3.0, x.shape), np.full((5, 5), 3.0)),
        (lambda x: np.ma.array(x[:, :2]), NUMBERS[10:15, :2]),
        (lambda x: (x[:, 0] > 0).tolist(), NUMBERS[10:15, 0] > 0),
    ],
)
def test_answers_in_memory_of_every_kind(model: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(explained(model, NUMBERS).predictions, wanted)


def test_an_answer_is_not_copied_before_the_game_copies_it() -> None:
    raw = np.ones((4, 3))
    assert Outputs()(raw, 4).data_ptr() == raw.ctypes.data


# All kinds


def test_the_census_network_is_explained_alike_through_torch_onnx_a_function_and_a_frame(
    tmp_path: Any,
) -> None:
    from shearshap_lab import data
    from shearshap_lab import networks as models

    census = data.load("census")
    network = models.train(census, steps=200).network
    rows, train = census.inputs[census.test][:8], census.inputs[census.train]
    frame, frames = (
        pd.DataFrame(part, columns=[f"c{i}" for i in range(part.shape[1])])
        for part in (rows, train)
    )

    def function(x: Any) -> Floats:
        given = torch.tensor(np.asarray(x), dtype=torch.float32)
        return network(given).detach().numpy()  # type: ignore[no-any-return]

    session = exported(network, (torch.tensor(rows[:2], dtype=torch.float32),), tmp_path)
    answers = [
        Explainer(model, ("mean", background), groups=census.groups)(given, budget=208)
        for model, given, background in (
            (network, rows, train), (session, rows, train), (function, rows, train), (function, frame, frames),
            (network, frame, frames),
        )
    ]  # fmt: skip
    for answer in answers[1:]:
        np.testing.assert_allclose(answer.values, answers[0].values, atol=1e-5)
        assert answer.evaluations == answers[0].evaluations


def test_no_library_is_imported_before_a_model_of_it_is_given() -> None:
    code = (
        "import sys, numpy as np, shearshap\n"
        "shearshap.Explainer(lambda x: x.sum(axis=1), np.zeros(3))(np.ones((2, 3)))\n"
        f"print([name for name in {[*KINDS, 'transformers', 'pandas', 'polars', 'shap', 'captum', 'shapiq', 'matplotlib']} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_texts_carry_their_labels(classifier: tuple[Any, Any]) -> None:
    texts = ["the film was good", "good"]
    named = Explainer(classifier, output=1)(texts, index=["a", "b"])
    assert named.index.tolist() == ["a", "b"]
    series = pd.Series(texts, index=pd.Index([7, 9], name="review"))
    labelled = Explainer(classifier, output=1)(series)
    assert labelled.index.tolist() == [7, 9]
    assert labelled.index_name == "review"
    np.testing.assert_allclose(labelled.values, named.values, atol=1e-6)
    with pytest.raises(InputError, match="index: wanted 2 labels, one for each row, got 1"):
        Explainer(classifier)(texts, index=["a"])


@pytest.mark.parametrize("method", ["auto", "shear"])
def test_an_error_leads_to_the_text_it_came_of(
    classifier: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    model, _ = classifier
    own = type(model).forward

    def forward(self: Any, input_ids: Any = None, **rest: Any) -> Any:
        if input_ids is not None:
            is_great = (input_ids == 12).any(dim=1)
            is_masked = (input_ids == 4).any(dim=1)
            if bool((is_great & is_masked).any()):
                raise RuntimeError("great alone")
        return own(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(type(model), "forward", forward)
    texts = ["the film", "not bad", "good", "the great film"]
    labels = ["a", "b", "c", "d"]
    with pytest.raises(ModelError, match=r"\(first on row 3 with [12] of 3 players") as caught:
        Explainer(classifier, method=method)(texts, budget=16, index=labels)
    error = caught.value
    assert error.row == 3
    assert error.finished.index.tolist() == ["a", "b", "c"]
    words = np.array(["the", "great", "film"])
    present = ", ".join(words[error.coalition])
    absent = ", ".join(words[~error.coalition])
    assert "great" in present
    notes = "".join(error.__notes__)
    assert "Row 3 has the label 'd'." in notes
    assert f"Players present: {present}; absent: {absent}." in notes


def test_the_first_text_alone_tells_whether_the_model_agrees(classifier: tuple[Any, Any]) -> None:
    answer = Explainer(classifier)(["the film", "not bad", "good"])
    assert answer.check_evaluations == 1
    blocks = list(Explainer(classifier).stream(["the film", "not bad", "good"]))
    assert [block.check_evaluations for block in blocks] == [1, 0, 0]


def test_targets_of_a_chain_are_named_in_their_own_order() -> None:
    """A chain keeps the classes in the order in which it predicts the targets."""
    from sklearn.multioutput import ClassifierChain
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    targets = np.stack([rows[:, 0] > 0, np.where(rows[:, 1] > 0, 3, 2)], axis=1).astype(int)
    chain = ClassifierChain(LogisticRegression(), order=[1, 0]).fit(rows, targets)
    pipeline = make_pipeline(StandardScaler(), chain).fit(rows, targets)
    for model in (chain, pipeline):
        answer = Explainer(model, rows.mean(axis=0))(rows[:2])
        assert answer.output_names == ["target 0: 1", "target 1: 3"]
        np.testing.assert_allclose(answer.predictions, model.predict_proba(rows[:2]), atol=1e-9)


def test_labels_are_warned_of_once() -> None:
    import warnings

    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = LogisticRegression().fit(rows, rows[:, 0] > 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Explainer(model.predict, rows.mean(axis=0), returns="probability")(rows[:2])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_method_of_a_module_takes_tensors() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def predict(self, rows: torch.Tensor) -> torch.Tensor:
            return self.layer(rows).softmax(dim=1)  # type: ignore[no-any-return]

    network = Network()
    rows = torch.randn(2, 3)
    answer = Explainer(network.predict, torch.zeros(3))(rows)
    wanted = network.predict(rows).detach().numpy()
    np.testing.assert_allclose(answer.predictions, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_numbers(kind: str) -> None:
    def model(rows: Floats) -> Any:
        return rows[:, 0].astype(kind)

    with pytest.raises(ModelError, match="the model returned dates or times"):
        Explainer(model, np.zeros(2))(np.ones((1, 2)))


def test_a_frame_of_texts_is_not_read_as_the_names_of_its_columns(
    classifier: tuple[Any, Any],
) -> None:
    frame = pd.DataFrame({"good": ["not bad"]})
    for rows in (frame, pl.from_pandas(frame)):
        with pytest.raises(InputError, match="got a DataFrame; pass its column of texts"):
            Explainer(classifier)(rows)
    with pytest.raises(InputError, match="rows: wanted a list of texts, got none"):
        Explainer(classifier)([])


def test_a_text_model_for_regression_has_no_probabilities(
    classifier: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = classifier
    monkeypatch.setattr(model.config, "problem_type", "regression")
    wanted = [logits(classifier, [2, 8, 3])]
    np.testing.assert_allclose(Explainer(classifier)(["good"]).predictions, wanted, atol=1e-6)
    with pytest.raises(InputError, match="nothing says whether the model returns probabilities"):
        Explainer(classifier, scale="probability")(["good"])
    stated = Explainer(classifier, scale="probability", returns="margin")(["good"])
    np.testing.assert_allclose(stated.predictions.sum(axis=1), 1, atol=1e-6)


def test_a_model_without_classes_predicts_numbers() -> None:
    """An object of an unknown library may have the attribute all the same."""

    class Model:
        classes_ = None

        def predict(self, rows: Floats) -> Floats:
            return 2 * rows[:, 0]

    answer = Explainer(Model(), np.zeros(2))(np.array([[3.0, 1.0]]))
    np.testing.assert_allclose(answer.values, [[6, 0]], atol=1e-12)


def test_probabilities_may_be_rounded_beyond_1() -> None:
    """As the mean of an ensemble's in single precision may be."""

    class Ensemble(nn.Module):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            sure = torch.ones(len(rows)) + 2e-7
            return torch.stack((sure, 1 - sure), dim=1) + 0 * rows[:, :1]

    assert float(Ensemble()(torch.ones(1, 2)).max()) > 1
    options: dict[str, Any] = {"scale": "log-odds", "returns": "probability"}
    answer = Explainer(Ensemble(), torch.zeros(2), **options)(torch.ones(1, 2))
    np.testing.assert_allclose(answer.predictions, [[16.1, -16.1]], atol=0.1)


def test_log_odds_of_probabilities_are_differentiated_without_warnings() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    rows = torch.randn(3, 4)
    answer = Explainer(network, torch.zeros(4), method="shear", scale="log-odds")(rows, budget=60)
    assert answer.derivative_passes > 0
    wanted = network(rows).logit().detach().numpy()
    np.testing.assert_allclose(answer.predictions, wanted, atol=1e-4)
