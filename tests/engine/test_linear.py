"""Linear models through the front door: exact from their coefficients, or sampled if they are not.

The oracle is all 2^p coalitions through the real model.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    MultiTaskLasso,
    Perceptron,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from games import Floats, all_coalitions, exact_shares
from peer_library import peer
from shearshap import BudgetError, Explainer, Explanation, model_game
from shearshap.apps.jobs import InProcess, Job
from shearshap.engine.linear import METHOD, LinearValues

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 5))
REAL = ROWS @ [1.0, -2.0, 0.5, 0.0, 3.0] + RNG.normal(size=120) / 2
COUNTS = np.exp(REAL / 4).round() + 1
TWO = np.where(REAL > 0, "yes", "no")
THREE = np.digitize(REAL, [-1, 1])
LABELS = np.stack((REAL > 0, ROWS[:, 1] > 0), axis=1).astype(int)
BOTH = np.stack((REAL, ROWS[:, 0] - REAL), axis=1)
MARGIN: dict[str, Any] = {"scale": "margin"}

TABLE = pd.DataFrame(
    {
        "city": RNG.choice(np.array(["Bern", "Oslo", "Rome", None]), 120),
        "age": np.where(RNG.random(120) < 0.1, np.nan, ROWS[:, 0]),
        "sex": RNG.choice(["f", "m"], 120),
        "pay": ROWS[:, 1],
        "loans": RNG.integers(0, 5, 120),
    }
)
WORTH = (TABLE.city == "Rome") * 2.0 + ROWS[:, 0] + TABLE.pay * TABLE.loans
HIGH = (WORTH > 0).astype(int)


def enumerated(model: Any, rows: Any, background: Any, **options: Any) -> Floats:
    """The Shapley values (r, p, k) of all coalitions, through the real model."""
    with model_game(model, rows, background=background, **options) as game:
        values = game(torch.from_numpy(all_coalitions(game.players))[None])
    return np.stack([exact_shares(table) for table in values.numpy()])


def agrees(answer: Explanation, expected: Floats, atol: float = 1e-9) -> None:
    assert answer.method == METHOD, answer.notes
    np.testing.assert_allclose(answer.values.reshape(expected.shape), expected, atol=atol)
    np.testing.assert_array_equal(answer.standard_errors, np.zeros_like(answer.values))
    np.testing.assert_allclose(answer.gap, 0, atol=atol)
    assert answer.notes == ()


# Every family: the estimator, its target, and the options that make it linear

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "least squares": (LinearRegression(), REAL, {}),
    "least squares, one column": (LinearRegression(), REAL[:, None], {}),
    "several targets": (LinearRegression(), BOTH, {}),
    "ridge": (Ridge(), REAL, {}),
    "lasso": (Lasso(alpha=0.1), REAL, {}),
    "elastic net": (ElasticNet(alpha=0.1), REAL, {}),
    "multi-task": (MultiTaskLasso(alpha=0.1), BOTH, {}),
    "huber": (HuberRegressor(), REAL, {}),
    "sgd": (SGDRegressor(random_state=0), REAL, {}),
    "linear svr": (LinearSVR(random_state=0), REAL, {}),
    "svr": (SVR(kernel="linear"), REAL, {}),
    "partial least squares": (PLSRegression(2), BOTH, {}),
    "normal": (TweedieRegressor(power=0), REAL, {}),
    "poisson": (PoissonRegressor(), COUNTS, MARGIN),
    "gamma": (GammaRegressor(), COUNTS, MARGIN),
    "tweedie": (TweedieRegressor(power=1.5), COUNTS, MARGIN),
    "logistic": (LogisticRegression(), TWO, MARGIN),
    "logistic log-odds": (LogisticRegression(), TWO, {"scale": "log-odds"}),
    "logistic, by name": (LogisticRegression(), TWO, {"output": "yes", **MARGIN}),
    "multinomial": (LogisticRegression(), THREE, MARGIN),
    "some classes": (LogisticRegression(), THREE, {"output": ["2", "0"], **MARGIN}),
    "difference of classes": (LinearSVC(), THREE, {"output": lambda m: m[:, 2] - m[:, 0]}),
    "sgd of classes": (SGDClassifier(random_state=0), THREE, {}),
    "perceptron": (Perceptron(), TWO, {}),
    "ridge of classes": (RidgeClassifier(), THREE, {}),
    "ridge of labels": (RidgeClassifier(), LABELS, {}),
    "linear svc": (LinearSVC(), THREE, {}),
    "svc": (SVC(kernel="linear"), TWO, {}),
    "svc of pairs": (SVC(kernel="linear", decision_function_shape="ovo"), THREE, {}),
    "discriminants": (LinearDiscriminantAnalysis(), THREE, MARGIN),
    "one class": (SGDOneClassSVM(random_state=0), None, {}),
    "search": (GridSearchCV(Ridge(), {"alpha": [0.1, 1]}), REAL, {}),
}


@cache
def fitted(name: str) -> Any:
    estimator, target, _ = FAMILIES[name]
    return estimator.fit(ROWS, target)


@pytest.mark.parametrize("name", FAMILIES)
def test_values_are_those_of_all_coalitions(name: str) -> None:
    options = FAMILIES[name][2]
    expected = enumerated(fitted(name), ROWS[10:16], ROWS[:4], **options)
    agrees(Explainer(fitted(name), ROWS[:4], **options)(ROWS[10:16]), expected)


def test_bound_methods() -> None:
    for method in (fitted("ridge").predict, fitted("logistic").decision_function):
        expected = enumerated(method, ROWS[10:16], ROWS[:4])
        agrees(Explainer(method, ROWS[:4])(ROWS[10:16]), expected)


def test_single_precision() -> None:
    rows = ROWS.astype(np.float32)
    model = Ridge().fit(rows, REAL.astype(np.float32))
    answer = Explainer(model, rows[:4])(rows[10:16])
    agrees(answer, enumerated(model, rows[10:16], rows[:4]), atol=1e-5)


# Players and backgrounds


def test_groups_and_interactions() -> None:
    groups = {"first": [0, 3], "second": [1], "third": [2, 4]}
    options: dict[str, Any] = {"groups": groups, **MARGIN}
    expected = enumerated(fitted("multinomial"), ROWS[10:16], ROWS[:4], **options)
    answer = Explainer(fitted("multinomial"), ROWS[:4], **options)(ROWS[10:16], interactions=True)
    agrees(answer, expected)
    assert answer.interactions is not None
    assert answer.cross_contribution is not None
    diagonal = np.eye(3, dtype=bool)
    np.testing.assert_allclose(answer.interactions[:, diagonal], answer.values)
    assert not answer.interactions[:, ~diagonal].any()
    assert not answer.cross_contribution.any()


@settings(max_examples=50)
@given(st.data())
def test_values_of_any_columns_owners_and_weights(data: st.DataObject) -> None:
    columns, players, outputs, background = (
        data.draw(st.integers(1, most)) for most in (7, 4, 3, 5)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    owner: NDArray[np.int64] = rng.integers(players, size=columns)
    coefficients = rng.normal(size=(columns, outputs))
    others = rng.normal(size=(background, columns))
    weights = rng.dirichlet(np.ones(background)) if data.draw(st.booleans()) else None
    rows = rng.normal(size=(3, columns))

    values = LinearValues(coefficients, owner, players, others, weights).values(rows)
    present = all_coalitions(players)[:, owner]  # (c, d')
    mixed = np.where(present[None, :, None], rows[:, None, None], others)
    table = np.average(mixed @ coefficients, axis=2, weights=weights)
    np.testing.assert_allclose(values, [exact_shares(row) for row in table], atol=1e-12)


def test_weights_of_a_background_count() -> None:
    shap = peer("shap")
    centres = shap.kmeans(ROWS, 4)
    expected = enumerated(fitted("ridge"), ROWS[10:13], centres)
    agrees(Explainer(fitted("ridge"), centres)(ROWS[10:13]), expected)


@pytest.mark.parametrize("drop_null", [True, False])
def test_a_feature_that_is_the_same_everywhere_has_the_value_0(drop_null: bool) -> None:
    rows = ROWS.copy()
    rows[:, 2] = 0.1
    answer = Explainer(fitted("ridge"), rows[:7], drop_null=drop_null)(rows[10:16])
    assert answer.method == METHOD
    assert (answer.values[:, 2] == 0).all()
    assert answer.values[:, [0, 1, 4]].all()


def test_the_budget_holds_base_value_and_prediction() -> None:
    explainer = Explainer(fitted("ridge"), ROWS[:7])
    assert explainer(ROWS[10:16], budget=8).evaluations == 8
    with pytest.raises(BudgetError, match=r"exact \(linear\) needs at least 8 evaluations per row"):
        explainer(ROWS[10:16], budget=7)


def test_other_methods_sample() -> None:
    answer = Explainer(fitted("ridge"), ROWS[:7], method="permutation")(ROWS[10:16])
    assert answer.method == "permutation"
    assert answer.notes == ()


def test_blocks_and_prepared_explainers_agree() -> None:
    explainer = Explainer(fitted("multinomial"), ROWS[:7], scale="margin")
    whole = explainer(ROWS)
    streamed = Explanation.concat(list(explainer.stream(ROWS)))
    prepared = explainer.prepare(ROWS[:20])
    assert prepared.budget == 8
    for answer in (streamed, prepared.explain(ROWS)):
        assert answer.method == METHOD
        np.testing.assert_allclose(answer.values, whole.values, rtol=0, atol=1e-12)


# Pipelines


def encoded(**options: Any) -> Any:
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", **options), ["city", "sex"]),
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["age"]),
        remainder="passthrough",
    )


PIPELINES: dict[str, Callable[[], Any]] = {
    "sparse": lambda: make_pipeline(encoded(), LogisticRegression()),
    "dense": lambda: make_pipeline(
        encoded(sparse_output=False), StandardScaler(), LogisticRegression()
    ),
    "svm": lambda: make_pipeline(encoded(), SVC(kernel="linear")),
    "search": lambda: GridSearchCV(
        make_pipeline(encoded(), LogisticRegression()), {"logisticregression__C": [0.1, 1]}
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("groups", [None, {"who": ["age", "sex"], "money": ["pay", "loans"]}])
def test_pipelines_of_raw_columns(name: str, groups: Any) -> None:
    model = PIPELINES[name]().fit(TABLE, HIGH)
    options: dict[str, Any] = {"groups": groups, **MARGIN}
    expected = enumerated(model, TABLE[10:16], TABLE[:4], **options)
    answer = Explainer(model, TABLE[:4], **options)(TABLE[10:16])
    agrees(answer, expected)
    assert answer.feature_names == (["who", "money", "city"] if groups else list(TABLE.columns))


@pytest.mark.parametrize(
    "convert",
    [
        pl.from_pandas,
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        lambda frame: frame[["pay", "sex", "loans", "city", "age"]],
    ],
    ids=["polars", "pyarrow", "another order"],
)
def test_frames_of_every_library(convert: Callable[[Any], Any]) -> None:
    model = PIPELINES["sparse"]().fit(TABLE, HIGH)
    frame = convert(TABLE)
    expected = enumerated(model, frame[10:16], frame[:4], **MARGIN)
    agrees(Explainer(model, frame[:4], scale="margin")(frame[10:16]), expected)


def test_columns_of_every_type_of_number() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array(TABLE.loans, dtype="Int64"),
            "true": TABLE.sex == "f",
            "code": pd.Categorical(TABLE.loans * 10),
            "single": TABLE.pay.astype(np.float32),
        }
    )
    model = Ridge().fit(frame, REAL)
    expected = enumerated(model, frame[10:16], frame[:4])
    agrees(Explainer(model, frame[:4])(frame[10:16]), expected)


def test_generalized_linear_models_in_pipelines() -> None:
    model = make_pipeline(encoded(), PoissonRegressor()).fit(TABLE, COUNTS)
    answer = Explainer(model, TABLE[:4], scale="margin")(TABLE[10:16])
    agrees(answer, enumerated(model, TABLE[10:16], TABLE[:4], **MARGIN))
    np.testing.assert_allclose(answer.predictions, np.log(model.predict(TABLE[10:16])))


def test_shards_of_a_large_job_are_exact(tmp_path: Path) -> None:
    model = PIPELINES["sparse"]().fit(TABLE, HIGH)
    TABLE.to_parquet(tmp_path / "rows.parquet", index=False)
    job = Job(
        large=True,
        model=model,
        data=tmp_path / "rows.parquet",
        out=tmp_path / "parts",
        background=TABLE[:5],
        scale="margin",
        shard_rows=50,
    )
    job.run(executor=InProcess())
    parts = pq.read_table([str(path) for path in sorted((tmp_path / "parts").glob("*.parquet"))])
    answer = Explainer(model, TABLE[:5], scale="margin")(TABLE)
    assert answer.method == METHOD
    for place, column in enumerate(TABLE.columns):
        np.testing.assert_allclose(parts[f"value.{column}"], answer.values[:, place], atol=1e-12)


# What is not a sum is sampled


def sampled_note(model: Any, rows: Any, **options: Any) -> str:
    """Explain by fewer coalitions than there are, and return why."""
    answer = Explainer(model, rows[:2], **options)(rows[10:16], budget=2 * (1 << 5) - 4)
    assert "kriging" in answer.method
    (note,) = answer.notes
    prefix = "These values are estimates, because "
    assert note.startswith(prefix)
    return note.removeprefix(prefix)


def test_probabilities_are_sampled() -> None:
    note = "a probability is not a sum over features; scale='margin' gives exact values, faster."
    assert sampled_note(fitted("logistic"), ROWS) == note
    assert sampled_note(PIPELINES["dense"]().fit(TABLE, HIGH), TABLE) == note
    bound = sampled_note(fitted("logistic").predict_proba, ROWS)
    assert bound == "a probability is not a sum over features."


def test_a_link_is_no_sum() -> None:
    note = sampled_note(fitted("poisson"), ROWS)
    assert note.startswith("the explained outputs are not linear in its features (off by")
    assert note.endswith("; scale='margin' gives exact values, faster.")


class Clipped(Ridge):  # type: ignore[misc]
    def predict(self, rows: Any) -> Any:
        return np.clip(super().predict(rows), -3, 3)


class OnlyNamed(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """It has coefficients, and answers by their product."""

    coef_ = np.ones(5)

    def fit(self, _rows: Any, _target: Any) -> "OnlyNamed":
        return self

    def predict(self, rows: Any) -> Any:
        return np.prod(rows * self.coef_, axis=1)


def patched() -> Any:
    model = Ridge().fit(ROWS, REAL)
    model.predict = lambda rows: np.abs(rows).sum(axis=1)
    return model


@pytest.mark.parametrize(
    ("model", "options", "reason"),
    [
        (lambda: Clipped().fit(ROWS, REAL), {}, "Clipped.predict is not the library's own"),
        (patched, {}, "Ridge.predict is not the library's own"),
        (lambda: fitted("ridge"), {"output": lambda y: y.clip(-8)}, "not linear in its features"),
        (lambda: fitted("ridge"), {"output": np.exp}, "not linear in its features"),
        (
            lambda: SVC(kernel="linear", decision_function_shape="ovr").fit(ROWS, THREE),
            {},
            "not linear in its features",
        ),
        (lambda: fitted("multinomial"), {"scale": "log-odds"}, "not linear in its features"),
        (
            lambda: make_pipeline(PCA(3), Ridge()).fit(ROWS, REAL),
            {},
            "cannot match the output columns of PCA",
        ),
        (
            lambda: make_pipeline(PolynomialFeatures(), Ridge()).fit(ROWS, REAL),
            {},
            "cannot match the output columns of PolynomialFeatures",
        ),
        (
            lambda: make_pipeline(Normalizer(), Ridge()).fit(ROWS, REAL),
            {},
            "Normalizer combines several columns into one",
        ),
        (
            lambda: make_pipeline(
                FunctionTransformer(np.cumsum, kw_args={"axis": 1}, feature_names_out="one-to-one"),
                Ridge(),
            ).fit(ROWS, REAL),
            {},
            "FunctionTransformer combines several columns into one",
        ),
    ],
    ids=[
        "class", "instance", "clip", "function", "votes", "log-odds", "pca", "products", "norm",
        "sums",
    ],
)  # fmt: skip
def test_refused_with_the_reason(
    model: Callable[[], Any], options: dict[str, Any], reason: str
) -> None:
    assert reason in sampled_note(model(), ROWS, **options)


def test_neighbours_that_fill_gaps_are_no_sum() -> None:
    rows = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)
    model = make_pipeline(KNNImputer(), Ridge()).fit(rows, REAL)
    assert "KNNImputer combines several columns into one" in sampled_note(model, rows)


def test_coefficients_of_unknown_classes_are_not_read() -> None:
    for model in (
        OnlyNamed(),
        TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp).fit(ROWS, COUNTS),
        SVC(kernel="rbf").fit(ROWS, TWO),
    ):
        answer = Explainer(model, ROWS[:2])(ROWS[10:16])
        assert answer.method == "exact"  # all coalitions
        expected = enumerated(model, ROWS[10:16], ROWS[:2])
        np.testing.assert_allclose(answer.values.reshape(expected.shape), expected, atol=1e-9)


def test_a_row_that_breaks_the_sum_is_found_where_it_comes() -> None:
    explainer = Explainer(fitted("ridge"), ROWS[:2], output=lambda y: np.minimum(y, 1e4))
    prepared = explainer.prepare(ROWS)
    assert prepared.explain(ROWS[10:16]).method == METHOD

    rows = ROWS[10:16].copy()
    rows[3, 0] = 1e6
    answer = prepared.explain(rows)
    assert answer.method != METHOD
    expected = enumerated(fitted("ridge"), rows, ROWS[:2], output=explainer.output)
    np.testing.assert_allclose(answer.values, expected[..., 0], atol=1e-6)
