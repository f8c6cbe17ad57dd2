"""Estimators, and objects like them: what is explained of them, on which scale, and by which names."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.special import logit
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators
from torch import nn

from games import Floats, network, people
from shearshap import Explainer, Explanation, InputError, ModelError, ShearWarning
from shearshap.models.sklearn import LOGISTIC, estimator, made_columns

pytestmark = pytest.mark.filterwarnings("ignore:scale='log-odds'")

NUMBERS, LABELS = make_classification(
    400, 5, n_informative=4, n_redundant=0, n_classes=2, random_state=0
)
_, THREE = make_classification(400, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
WORDS = np.array(["no", "yes"])[LABELS]
FRAME = pd.DataFrame(NUMBERS, columns=list("abcde"))


def explained(model: Any, rows: Any, **options: Any) -> Explanation:
    """Explain five rows against two others, and check what holds of every explanation."""
    answer = Explainer(model, rows[:2], **options)(rows[10:15], budget=256)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-6)
    assert answer.method in ("exact", "exact (linear)", "exact (trees)", "all coalitions")
    return answer


def test_log_odds_and_margins_of_a_classifier() -> None:
    model = LogisticRegression().fit(NUMBERS, WORDS)
    chances = explained(model, NUMBERS)
    assert chances.output_names == ["no", "yes"]
    one = explained(model, NUMBERS, output="yes")
    assert (one.values.shape, one.output_names) == ((5, 5), ["yes"])
    np.testing.assert_allclose(one.values, chances.values[:, :, 1])

    odds = explained(model, NUMBERS, scale="log-odds")
    np.testing.assert_allclose(
        odds.predictions, logit(model.predict_proba(NUMBERS[10:15])), atol=1e-9
    )
    for scale in ("margin", "logit"):
        margin = explained(model, NUMBERS, scale=scale, output=1)
        assert margin.output_names == ["yes"]
        np.testing.assert_allclose(margin.predictions, model.decision_function(NUMBERS[10:15]))
        np.testing.assert_allclose(margin.values, odds.values[:, :, 1], atol=1e-9)
    with pytest.raises(
        InputError,
        match=r"the two classes have one score, that of 'yes' \(1\), got 0; try scale='log-odds'",
    ):
        explained(model, NUMBERS, scale="margin", output=0)


@pytest.mark.parametrize("name", [*LOGISTIC, "exponential", "huber", "pipeline", "boosters"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_log_odds_are_those_of_the_probabilities(name: str) -> None:
    models: dict[str, Any] = {
        "exponential": GradientBoostingClassifier(loss="exponential"),
        "huber": SGDClassifier(loss="modified_huber", random_state=0),
        "SGDClassifier": SGDClassifier(loss="log_loss", random_state=0),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "boosters": make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=5, verbose=-1)),
    }
    model = models[name] if name in models else dict(all_estimators("classifier"))[name]()
    chances = model.fit(FRAME, WORDS).predict_proba(FRAME[10:15]).clip(1e-7, 1 - 1e-7)
    odds = explained(model, FRAME, scale="log-odds")
    assert odds.output_names == ["no", "yes"]
    np.testing.assert_allclose(odds.predictions, logit(chances), rtol=1e-6)
    assert odds.method.startswith("exact (") == (name not in ("exponential", "huber"))


def test_a_linear_models_margin_is_shared_as_its_terms() -> None:
    model = LogisticRegression().fit(NUMBERS, WORDS)
    answer = explained(model, NUMBERS, scale="margin")
    np.testing.assert_allclose(
        answer.values, (NUMBERS[10:15] - NUMBERS[:2].mean(axis=0)) * model.coef_, atol=1e-9
    )


def test_an_array_for_a_model_of_named_columns_gets_its_names() -> None:
    numbers = FRAME[list("acde")]
    model = LogisticRegression().fit(numbers, WORDS)
    # scikit-learn warns if names are missing, and warnings are errors
    answer = explained(model, numbers.to_numpy())
    assert answer.feature_names == list("acde")
    np.testing.assert_allclose(answer.values, explained(model, numbers).values)
    with pytest.raises(InputError, match="trained with 4 named columns, got an array of shape"):
        Explainer(model, NUMBERS)(NUMBERS)


def test_missing_numbers_reach_models_that_take_them() -> None:
    rows = NUMBERS.copy()
    rows[::9, 1] = np.nan
    model = HistGradientBoostingClassifier(max_iter=10).fit(rows, WORDS)
    answer = explained(model, rows, scale="probability")
    assert np.isnan(rows[:2]).any()
    assert np.isnan(rows[10:20]).any()
    np.testing.assert_allclose(answer.predictions, model.predict_proba(rows[10:15]))
    np.testing.assert_allclose(
        answer.base_values, np.tile(model.predict_proba(rows[:2]).mean(axis=0), (5, 1))
    )
    mean = Explainer(model, ("mean", rows), scale="probability")(rows[10:15])
    np.testing.assert_allclose(
        mean.base_values[0], model.predict_proba(np.nanmean(rows, axis=0)[None])[0]
    )
    with pytest.raises(InputError, match="rows: row 0 has nan in column 1"):
        Explainer(nn.Linear(5, 1), np.zeros(5))(rows[:3])


# What is explained is what the model says


def test_a_detector_of_outliers_that_cannot_predict() -> None:
    with pytest.raises(InputError, match="scores only the rows it was fitted to; try novelty=True"):
        explained(LocalOutlierFactor().fit(NUMBERS), NUMBERS)


def test_labels_are_no_numbers() -> None:
    kmeans = KMeans(2, random_state=0).fit(NUMBERS)
    with pytest.raises(
        InputError, match=r"KMeans predicts labels, which are not .* model.transform"
    ):
        explained(kmeans, NUMBERS)

    hard = VotingClassifier([("line", LogisticRegression())]).fit(NUMBERS, WORDS)
    several = MultiOutputClassifier(LinearSVC()).fit(NUMBERS, np.stack((LABELS, THREE), axis=1))
    for model in (hard, several):
        with pytest.raises(InputError, match=r"predicts labels, .* CalibratedClassifierCV"):
            explained(model, NUMBERS)
    answer = explained(lambda rows: hard.predict(rows) == "yes", NUMBERS)
    np.testing.assert_array_equal(answer.predictions, hard.predict(NUMBERS[10:15]) == "yes")


def test_methods_of_classifiers_keep_the_names_of_classes() -> None:
    words = LogisticRegression().fit(NUMBERS, WORDS)
    assert explained(words.predict_proba, NUMBERS).output_names == ["no", "yes"]
    three = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, THREE)
    for method in (three.predict_proba, three.decision_function):
        assert explained(method, NUMBERS).output_names == explained(three, NUMBERS).output_names


def test_labels_are_explained_if_they_are_asked_for_with_a_warning() -> None:
    kmeans = KMeans(2, random_state=0).fit(NUMBERS)
    line = LogisticRegression().fit(NUMBERS, THREE)
    for model in (kmeans, line):
        message = rf"{type(model).__name__}.predict returns labels, .*; try the model itself"
        with pytest.warns(ShearWarning, match=message) as warned:
            answer = explained(model.predict, NUMBERS)
        assert len(warned) == 1
        assert warned[0].filename == __file__
        np.testing.assert_array_equal(answer.predictions, model.predict(NUMBERS[10:15]))

    words = LogisticRegression().fit(NUMBERS, WORDS)
    message = r"the model returned (<U3|object) such as (no|yes); .* or pass the classifier itself"
    with pytest.raises(ModelError, match=message):
        explained(words.predict, NUMBERS)
    answer = explained(words.predict, NUMBERS, output=lambda labels: labels == "yes")
    np.testing.assert_array_equal(answer.predictions, words.predict(NUMBERS[10:15]) == "yes")


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_bound_methods_are_functions(kind: str) -> None:
    """An array gets the names the estimator was fitted with, as if the estimator was passed."""
    frame = FRAME
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
    np.testing.assert_allclose(odds, logit(line.predict_proba(frame[10:15])), atol=1e-9)


def test_scores_of_pairs_of_classes_have_no_names_of_classes() -> None:
    names = np.array(["a", "b", "c"])[THREE]
    machine = SVC(kernel="linear", decision_function_shape="ovo")
    for model in (machine.fit(NUMBERS, names), RFE(machine).fit(NUMBERS, names)):
        answer = explained(model, NUMBERS)
        np.testing.assert_allclose(answer.predictions, model.decision_function(NUMBERS[10:15]))
        assert answer.output_names == ["output 0", "output 1", "output 2"]


# Several targets

INDICATORS = np.stack((LABELS, NUMBERS[:, 1] > 0, NUMBERS[:, 2] > 0.3), axis=1).astype(int)
NAMES_OF_INDICATORS = ["label 0", "label 1", "label 2"]


def positive(answer: Any) -> Floats:
    """The probability that each label is set, of a list with one table for each."""
    return np.stack([table[:, 1] for table in answer], axis=1)


def multilabel_classifiers() -> dict[str, Any]:
    line = LogisticRegression()
    return {
        "forest": RandomForestClassifier(3, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=3),
        "neighbours": KNeighborsClassifier(),
        "network": MLPClassifier((1,), solver="lbfgs", max_iter=2000, tol=0.1, random_state=0),
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
    np.testing.assert_allclose(odds, logit(clipped), atol=1e-9)


def test_margins_of_several_labels_are_independent() -> None:
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


def test_outputs_whose_classes_are_not_known_have_no_names() -> None:
    """Stacked, the probabilities are of each first class; a chain has its targets in its own order."""
    near = KNeighborsClassifier()
    models = (
        StackingClassifier([("near", near)], near, cv=2),
        ClassifierChain(LogisticRegression(), order=[2, 0, 1]),
    )
    for model in models:
        answer = explained(model.fit(NUMBERS, INDICATORS), NUMBERS)
        np.testing.assert_allclose(answer.predictions, model.predict_proba(NUMBERS[10:15]))
        assert answer.output_names == ["output 0", "output 1", "output 2"]


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
    with pytest.raises(ModelError, match=r"the model returned <U3 such as (yes|no)"):
        explained(OnlyPredictions(words=True), NUMBERS)


def test_what_is_known_of_an_estimator_cannot_be_stated_otherwise() -> None:
    rows = NUMBERS[:6]
    classifier = LogisticRegression().fit(rows, rows[:, 0] > 0)
    with pytest.raises(
        InputError,
        match="returns='margin': the model is known to return probabilities; leave returns out",
    ):
        Explainer(classifier, np.zeros(5), returns="margin")(rows)
    plain = Explainer(classifier, np.zeros(5), scale="margin")(rows)
    stated = Explainer(classifier, np.zeros(5), scale="margin", returns="probability")(rows)
    np.testing.assert_array_equal(stated.values, plain.values)

    # nobody knows of a regressor that it was fitted to log-odds, but who fitted it
    line = LinearRegression().fit(rows, rows[:, 0])
    chances = Explainer(line, np.zeros(5), scale="probability", returns="margin")(rows)
    np.testing.assert_allclose(chances.predictions, 1 / (1 + np.exp(-line.predict(rows))))


# Groups made of a fitted transformer


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_columns_made_by_one_hot_encoders(drop: Any) -> None:
    frame = people(200).dropna()
    transformer = make_column_transformer(
        ("passthrough", ["age"]),
        (OneHotEncoder(drop=drop), ["city", "member"]),
        (OneHotEncoder(), [2]),
    ).fit(frame)
    made = made_columns(transformer)
    names = list(transformer.get_feature_names_out())
    for column, own in made.items():
        assert own == [
            at for at, name in enumerate(names) if name.partition("__")[2].split("_")[0] == column
        ]
    assert sorted(at for own in made.values() for at in own) == list(range(len(names)))


def test_a_transformer_that_mixes_columns_is_refused() -> None:
    mixing = PolynomialFeatures().fit(people()[["age", "height"]].fillna(0))
    with pytest.raises(
        InputError,
        match="groups: cannot match the output columns of PolynomialFeatures to its input columns",
    ):
        Explainer(network(6), np.zeros(6), groups=mixing)(np.ones((2, 6)))


@pytest.mark.parametrize(
    "chosen",
    [
        ["age", "member"],
        [0, 4],
        slice(0, 1),
        slice("age", "city"),
        np.array([True, False, False, False, True]),
    ],
)
def test_a_transformers_columns_given_in_every_way(chosen: Any) -> None:
    frame = people().dropna()
    picked = make_column_transformer((OneHotEncoder(), chosen)).fit(frame)
    made = made_columns(picked)
    wanted = {str(name) for name in picked.feature_names_in_} & set(made)
    assert set(made) == wanted
    assert sum(len(own) for own in made.values()) == len(picked.get_feature_names_out())


def test_transformers_after_one_another_and_those_that_do_not_tell() -> None:
    frame = people(200).dropna()
    encode = make_column_transformer((OneHotEncoder(), ["city"]), ("passthrough", ["age"]))
    scaled = make_pipeline(encode, StandardScaler(with_mean=False)).set_output(transform="pandas")
    encode.set_params(sparse_threshold=0)
    encode.transformers[0][1].set_params(sparse_output=False)
    assert made_columns(scaled.fit(frame)) == {"city": [0, 1, 2], "age": [3]}
    array = OneHotEncoder().fit(frame[["city", "member"]].to_numpy())
    assert made_columns(array) == {"x0": [0, 1, 2], "x1": [3, 4]}
    best = SelectKBest(k=1).fit(frame[["age", "height"]], frame["height"] > 170)
    assert made_columns(best) == {"height": [0]}
    for odd, message in (
        (FunctionTransformer(np.log).fit(frame[["age"]]), "cannot find out which columns this"),
        (OneHotEncoder(), "cannot find out which columns this"),
        (
            make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, frame["member"]),
            "this Pipeline ends in a model; pass only its transformers, pipeline",
        ),
    ):
        with pytest.raises(InputError, match=message):
            Explainer(network(4), np.zeros(4), groups=odd)(np.ones((2, 4)))


def test_boosted_counts_are_exact_before_their_link() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    counts = rng.poisson(np.exp(x[:, 0] * x[:, 1] / 2))
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=10).fit(x, counts)
    answer = Explainer(model, x[:20], scale="margin")(x[:5])
    assert answer.method == "exact (trees)"
    np.testing.assert_allclose(answer.predictions, np.log(model.predict(x[:5])))
