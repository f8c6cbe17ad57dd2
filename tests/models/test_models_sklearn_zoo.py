"""Every estimator of scikit-learn: our numbers are the model's own, or we say why not."""

import warnings
from functools import cache
from inspect import signature
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
from shearshap import InputError
from zoo import (
    COUNTS,
    LABELS,
    PAIR,
    POSITIVE,
    REAL,
    ROWS,
    SCALES,
    THREE,
    TWO,
    agree,
    explained,
    log_odds,
)

pytestmark = pytest.mark.slow  # test_models_sklearn.py has what everybody uses

WORDS = np.array(["no", "maybe", "yes"])[THREE]

ESTIMATORS = dict(all_estimators())

#: What makes some estimators fast, if they take it.
FAST: dict[str, Any] = {"n_estimators": 3, "n_clusters": 2, "cv": 2, "Cs": 2}

#: What constructors need.
NEEDED: dict[str, Any] = {
    "estimator": LogisticRegression(),
    "steps": [("last", LogisticRegression())],
    "param_grid": {"C": [1.0]},
    "param_distributions": {"C": [1.0]},
    # those below are refused before they are fitted
    "transformers": [],
    "transformer_list": [],
    "dictionary": np.eye(3),
}

#: What some estimators need besides.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "BayesianGaussianMixture": {"n_components": 2},
    "CCA": {"n_components": 1},
    "CalibratedClassifierCV": {"estimator": LinearSVC()},
    "FrozenEstimator": {"estimator": LogisticRegression().fit(ROWS, TWO)},
    "GaussianMixture": {"n_components": 2},
    "HistGradientBoostingClassifier": {"max_iter": 3},
    "HistGradientBoostingRegressor": {"max_iter": 3},
    "LocalOutlierFactor": {"novelty": True},
    "MLPClassifier": {"hidden_layer_sizes": (4,), "max_iter": 5},
    "MLPRegressor": {"hidden_layer_sizes": (4,), "max_iter": 5},
    "MultiOutputRegressor": {"estimator": LinearRegression()},
    "OneVsOneClassifier": {"estimator": LinearSVC()},
    "PLSCanonical": {"n_components": 1},
    "RadiusNeighborsClassifier": {"radius": 9.0},
    "RadiusNeighborsRegressor": {"radius": 9.0},
    "RandomizedSearchCV": {"n_iter": 1},
    "RegressorChain": {"estimator": LinearRegression()},
    "SelfTrainingClassifier": {"estimator": LogisticRegression()},
    "StackingClassifier": {"estimators": [("tree", DecisionTreeClassifier())]},
    "StackingRegressor": {"estimators": [("tree", DecisionTreeRegressor())]},
    "TheilSenRegressor": {"max_subpopulation": 50},
    "VotingClassifier": {"estimators": [("bayes", GaussianNB())], "voting": "soft"},
    "VotingRegressor": {"estimators": [("line", LinearRegression())]},
}


def made(name: str) -> Any:
    """Return an estimator that is not fitted."""
    options = signature(ESTIMATORS[name]).parameters
    fast = {option: value for option, value in FAST.items() if option in options}
    needed = {
        option: NEEDED[option]
        for option, parameter in options.items()
        if parameter.default is parameter.empty and option in NEEDED
    }
    return ESTIMATORS[name](**{**fast, **needed, **ARGUMENTS.get(name, {})})


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

LARGEST = np.log(1e7 - 1)

#: Boosted trees, whose margins are explained where scale is left out.
BOOSTED = ("GradientBoostingClassifier", "HistGradientBoostingClassifier")

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
        model = made(name)
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
        usual = numbers["margin"] if name in BOOSTED else chances
        return {**numbers, None: usual, "probability": chances, "log-odds": log_odds(chances)}
    if name in BY_MARGINS:
        return {**numbers, None: numbers["margin"]}
    method = model.score_samples if name == "KernelDensity" else model.predict
    numbers = {None: method(rows)}
    if name in ("GammaRegressor", "PoissonRegressor"):
        numbers["margin"] = np.log(numbers[None])
    if name == "TweedieRegressor":
        numbers["margin"] = numbers[None]  # its link is the identity
    return numbers


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


@pytest.mark.filterwarnings("ignore:scale='log-odds'")
@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_what_is_explained_is_what_the_estimator_says(name: str) -> None:
    model = fitted(name)
    rows = INPUTS.get(name, ROWS)
    own = own_numbers(name, model, rows[10:13])

    for scale in SCALES:
        if scale in own:
            answer = explained(model, rows, scale)
            found = answer.predictions
            if scale == "log-odds":  # that of probabilities, which are clipped
                found = found.clip(-LARGEST, LARGEST)
            agree(found, own[scale], 1e-9 if scale != "log-odds" else 1e-6)
            names = names_of_outputs(name, model)
            if answer.scale in ("margin", "log-odds") and answer.predictions.ndim == 1:
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
    model = made(name)
    with pytest.raises(InputError, match=f"model: a {name} cannot predict[;:] "):
        explained(model, ROWS, None)
