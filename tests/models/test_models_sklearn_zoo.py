"""Every estimator of scikit-learn: our numbers are the model's own, or we say why not."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

from games import Floats
from shearshap import Explainer, Explanation, InputError

pytestmark = pytest.mark.slow  # test_models_sklearn.py has what everybody uses

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
REAL = ROWS @ [1.0, -2.0, 0.5] + RNG.normal(size=60) / 4
POSITIVE = np.exp(REAL / 4)
COUNTS = POSITIVE.round()
TWO = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-1, 1])
WORDS = np.array(["no", "maybe", "yes"])[THREE]
LABELS = np.stack((TWO, ROWS[:, 1] > 0, ROWS[:, 2] > 0.3), axis=1).astype(int)
PAIR = np.stack((REAL, POSITIVE), axis=1)

SCALES = (None, "probability", "log-odds", "margin")


def explained(model: Any, rows: Any, scale: Any) -> Explanation:
    """Explain three rows against one other; with so few players, exactly."""
    answer = Explainer(model, rows[:1], scale=scale)(rows[10:13], budget=16)
    assert answer.method in ("exact", "exact (trees)")
    assert np.abs(answer.gap).max() < 1e-4 * (1 + np.abs(answer.predictions).max())
    return answer


def log_odds(chances: Any) -> Floats:
    clipped = np.clip(np.asarray(chances, dtype=float), 1e-7, 1 - 1e-7)
    return np.asarray(np.log(clipped / (1 - clipped)))


def agree(ours: Any, theirs: Any, tolerance: float = 1e-6) -> None:
    theirs = np.asarray(theirs, dtype=float)
    np.testing.assert_allclose(
        np.reshape(ours, len(theirs) if theirs.size == len(theirs) else theirs.shape),
        theirs.reshape(len(theirs)) if theirs.size == len(theirs) else theirs,
        rtol=tolerance,
        atol=tolerance,
    )


ESTIMATORS = dict(all_estimators())

#: What the constructors of some estimators need, and what makes others fast.
ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "AdaBoostClassifier": lambda: {"n_estimators": 3},
    "AdaBoostRegressor": lambda: {"n_estimators": 3},
    "BaggingClassifier": lambda: {"n_estimators": 3},
    "BaggingRegressor": lambda: {"n_estimators": 3},
    "BayesianGaussianMixture": lambda: {"n_components": 2},
    "BisectingKMeans": lambda: {"n_clusters": 2},
    "CCA": lambda: {"n_components": 1},
    "ClassifierChain": lambda: {"estimator": LogisticRegression()},
    "CalibratedClassifierCV": lambda: {"estimator": LinearSVC(), "cv": 2},
    "ExtraTreesClassifier": lambda: {"n_estimators": 3},
    "ExtraTreesRegressor": lambda: {"n_estimators": 3},
    "FixedThresholdClassifier": lambda: {"estimator": LogisticRegression()},
    "FrozenEstimator": lambda: {"estimator": LogisticRegression().fit(ROWS, TWO)},
    "GaussianMixture": lambda: {"n_components": 2},
    "GradientBoostingClassifier": lambda: {"n_estimators": 3},
    "GradientBoostingRegressor": lambda: {"n_estimators": 3},
    "GridSearchCV": lambda: {
        "estimator": DecisionTreeClassifier(),
        "param_grid": {"max_depth": [2]},
        "cv": 2,
    },
    "HistGradientBoostingClassifier": lambda: {"max_iter": 3},
    "HistGradientBoostingRegressor": lambda: {"max_iter": 3},
    "IsolationForest": lambda: {"n_estimators": 5},
    "KMeans": lambda: {"n_clusters": 2},
    "LocalOutlierFactor": lambda: {"novelty": True},
    "LogisticRegressionCV": lambda: {"Cs": 2, "cv": 2},
    "MLPClassifier": lambda: {"hidden_layer_sizes": (4,), "max_iter": 5},
    "MLPRegressor": lambda: {"hidden_layer_sizes": (4,), "max_iter": 5},
    "MiniBatchKMeans": lambda: {"n_clusters": 2},
    "MultiOutputClassifier": lambda: {"estimator": LogisticRegression()},
    "MultiOutputRegressor": lambda: {"estimator": LinearRegression()},
    "OneVsOneClassifier": lambda: {"estimator": LinearSVC()},
    "OneVsRestClassifier": lambda: {"estimator": LogisticRegression()},
    "OutputCodeClassifier": lambda: {"estimator": LogisticRegression()},
    "PLSCanonical": lambda: {"n_components": 1},
    "Pipeline": lambda: {"steps": [("last", LogisticRegression())]},
    "RadiusNeighborsClassifier": lambda: {"radius": 9.0},
    "RadiusNeighborsRegressor": lambda: {"radius": 9.0},
    "RandomForestClassifier": lambda: {"n_estimators": 3},
    "RandomForestRegressor": lambda: {"n_estimators": 3},
    "RandomizedSearchCV": lambda: {
        "estimator": LogisticRegression(),
        "param_distributions": {"C": [1.0]},
        "n_iter": 1,
        "cv": 2,
    },
    "RFE": lambda: {"estimator": LogisticRegression()},
    "RFECV": lambda: {"estimator": LogisticRegression(), "cv": 2},
    "RegressorChain": lambda: {"estimator": LinearRegression()},
    "SelfTrainingClassifier": lambda: {"estimator": LogisticRegression()},
    "StackingClassifier": lambda: {"estimators": [("tree", DecisionTreeClassifier())], "cv": 2},
    "StackingRegressor": lambda: {"estimators": [("tree", DecisionTreeRegressor())], "cv": 2},
    "TheilSenRegressor": lambda: {"max_subpopulation": 50},
    "TunedThresholdClassifierCV": lambda: {"estimator": LogisticRegression(), "cv": 2},
    "VotingClassifier": lambda: {"estimators": [("bayes", GaussianNB())], "voting": "soft"},
    "VotingRegressor": lambda: {"estimators": [("line", LinearRegression())]},
    # those below are refused before they are fitted
    "ColumnTransformer": lambda: {"transformers": []},
    "FeatureUnion": lambda: {"transformer_list": []},
    "SelectFromModel": lambda: {"estimator": LogisticRegression()},
    "SequentialFeatureSelector": lambda: {"estimator": LogisticRegression()},
    "SparseCoder": lambda: {"dictionary": np.eye(3)},
}

#: Estimators that need targets of another kind than most of their kind.
TARGETS: dict[str, Any] = {
    "CCA": PAIR,
    "ClassifierChain": LABELS,
    "FixedThresholdClassifier": TWO,
    "GammaRegressor": POSITIVE,
    "MultiOutputClassifier": LABELS,
    "MultiOutputRegressor": PAIR,
    "MultiTaskElasticNet": PAIR,
    "MultiTaskElasticNetCV": PAIR,
    "MultiTaskLasso": PAIR,
    "MultiTaskLassoCV": PAIR,
    "PLSCanonical": PAIR,
    "PoissonRegressor": COUNTS,
    "RegressorChain": PAIR,
    "SelfTrainingClassifier": THREE,
    "TunedThresholdClassifierCV": TWO,
}

#: Estimators whose rows are not just any numbers.
INPUTS: dict[str, Floats] = {
    "CategoricalNB": (np.abs(ROWS) > 1).astype(float),
    "ComplementNB": np.abs(ROWS),
    "IsotonicRegression": ROWS[:, :1],
    "MultinomialNB": np.abs(ROWS),
}

CLUSTERERS = (
    "AffinityPropagation",
    "Birch",
    "BisectingKMeans",
    "KMeans",
    "MeanShift",
    "MiniBatchKMeans",
)

DETECTORS = (
    "EllipticEnvelope",
    "IsolationForest",
    "LocalOutlierFactor",
    "OneClassSVM",
    "SGDOneClassSVM",
)

#: Those that are refused after they are fitted, and why.
REFUSED = {
    **dict.fromkeys(CLUSTERERS, "predicts labels, which are not numbers; try .*"),
    "OutputCodeClassifier": "predicts labels, which are not numbers; try a function such as",
    "BernoulliRBM": "cannot predict; .* or one of its methods",
    "FactorAnalysis": "cannot predict; .* or one of its methods",
    "PCA": "cannot predict; .* or one of its methods",
}

#: What is explained where scale is left out, of those without probabilities.
BY_MARGINS = (
    "LinearSVC",
    "NuSVC",
    "OneVsOneClassifier",
    "PassiveAggressiveClassifier",
    "Perceptron",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "SVC",
    *DETECTORS,
)

PREDICTIONS = ("predict", "predict_proba", "decision_function", "score_samples")


@cache
def fitted(name: str) -> Any:
    """Return an estimator that is fitted; what it warns about while it is fitted is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ESTIMATORS[name](**ARGUMENTS.get(name, dict)())
        usual = WORDS if is_classifier(model) else REAL
        rows = INPUTS.get(name, ROWS)
        return model.fit(rows, TARGETS.get(name, usual))


def own_numbers(name: str, model: Any, rows: Floats) -> dict[str | None, Any]:
    """What the model itself says, on every scale it has."""
    numbers: dict[str | None, Any] = {}
    if hasattr(model, "decision_function"):
        numbers["margin"] = model.decision_function(rows)
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(rows)
        if name == "MultiOutputClassifier":
            chances = np.stack([target[:, 1] for target in chances], axis=1)
        return {
            **numbers,
            None: chances,
            "probability": chances,
            "log-odds": log_odds(chances),
        }
    if name in BY_MARGINS:
        return {**numbers, None: numbers["margin"]}
    method = model.score_samples if name == "KernelDensity" else model.predict
    return {None: method(rows)}


def names_of_outputs(name: str, model: Any) -> list[str]:
    """The names that the outputs of an estimator should have where scale is left out; none if it has none."""
    if name in ("ClassifierChain", "MultiOutputClassifier"):
        return ["label 0", "label 1", "label 2"]
    if name in ("FixedThresholdClassifier", "TunedThresholdClassifierCV", "FrozenEstimator"):
        return ["0", "1"]
    if name == "SelfTrainingClassifier":
        return ["0", "1", "2"]
    return ["maybe", "no", "yes"] if hasattr(model, "classes_") else []


def is_predictor(name: str) -> bool:
    if name == "FrozenEstimator":  # it has the methods of what it freezes
        return True
    return any(hasattr(ESTIMATORS[name], method) for method in PREDICTIONS)


PREDICTORS = [name for name in ESTIMATORS if is_predictor(name) and name not in REFUSED]

WITHOUT_PREDICTION = [name for name in ESTIMATORS if not is_predictor(name)]


def test_every_estimator_of_scikit_learn_is_in_the_zoo() -> None:
    assert {*PREDICTORS, *REFUSED, *WITHOUT_PREDICTION} == set(ESTIMATORS)
    assert len(ESTIMATORS) > 190
    assert len(PREDICTORS) > 100

    exceptions = {*ARGUMENTS, *TARGETS, *INPUTS, *REFUSED, *BY_MARGINS}
    assert exceptions <= set(ESTIMATORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_what_is_explained_is_what_the_estimator_says(name: str) -> None:
    model = fitted(name)
    rows = INPUTS.get(name, ROWS)
    own = own_numbers(name, model, rows[10:13])

    for scale in SCALES:
        if scale in own:
            answer = explained(model, rows, scale)
            agree(answer.predictions, own[scale], 1e-9)
            names = names_of_outputs(name, model)
            if scale == "margin" and len(names) == 2:
                names = names[1:]  # one score for two classes
            assert answer.output_names == names or answer.output_names[0].startswith("output")
            assert bool(names) != answer.output_names[0].startswith("output")
            continue
        with pytest.raises(InputError, match=f"scale={scale!r}: {name} has no .*; "):
            explained(model, rows, scale)


@pytest.mark.parametrize("name", REFUSED)
def test_labels_are_refused_with_the_reason(name: str) -> None:
    model = fitted(name)
    for scale in SCALES:
        with pytest.raises(InputError, match=f"model: (a )?{name} {REFUSED[name]}"):
            explained(model, ROWS, scale)


@pytest.mark.parametrize("name", WITHOUT_PREDICTION)
def test_what_cannot_predict_is_refused(name: str) -> None:
    model = ESTIMATORS[name](**ARGUMENTS.get(name, dict)())
    with pytest.raises(InputError, match=f"model: a {name} cannot predict[;:] "):
        explained(model, ROWS, None)
