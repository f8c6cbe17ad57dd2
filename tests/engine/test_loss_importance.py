"""Importance by a loss: SAGE values with intervals that count rows, background and coalitions."""

import warnings
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from clock import Watch
from shearshap import (
    BudgetError,
    Conditional,
    Explainer,
    InputError,
    ShearWarning,
    importance,
    plots,
)
from shearshap.engine.importance import _variance_doubt
from shearshap.result.importance import LossImportance

mpl.use("Agg")

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4_000, 5))
LABELS = ROWS[:, 0] + ROWS[:, 0] * ROWS[:, 1] + 0.5 * ROWS[:, 2] + RNG.normal(size=4_000)


def predict(rows: Floats) -> Floats:
    """A good model, but for the feature 3, which misleads it; it does not use the last."""
    return np.asarray(rows[:, 0] + rows[:, 0] * rows[:, 1] + 0.5 * rows[:, 2] + 0.3 * rows[:, 3])


TRUTH = np.array([1.5, 0.5, 0.25, -0.09, 0.0])
"""Reductions of the variance, in terms of independent features; an interaction is shared equally.

With the features independent, the mean of f given x_S is the best prediction by x_S, but for the
term 0.3 x_3, which adds its variance to the loss once it is present.
"""


def test_values_are_those_of_independent_features() -> None:
    table = importance(predict, ROWS, LABELS, loss="mse")
    assert isinstance(table, LossImportance)
    assert table.base_loss - table.loss == pytest.approx(table.values.sum(), abs=1e-9)
    assert table.loss == pytest.approx(((predict(ROWS) - LABELS) ** 2).mean())
    assert ((table.lower <= TRUTH) & (table.upper >= TRUTH)).mean() >= 0.8
    np.testing.assert_allclose(table.values, TRUTH, atol=0.2)
    assert abs(table.values[4]) < 1e-12  # a null feature has no error, either
    assert table.lower[1] > 0 > table.upper[3]


def test_it_is_the_mean_of_the_losses_of_single_rows() -> None:
    rows = ROWS[:300]
    background = ROWS[1_000:1_040]
    table = importance(predict, rows, LABELS[:300], loss="mse", background=background)
    explainer = Explainer(predict, ("all", background), loss="mse", method="exact")
    exact = explainer(rows, y=LABELS[:300], budget=40 << 5)
    np.testing.assert_allclose(table.base_loss, -exact.base_values.mean())
    gaps = np.abs(table.values - exact.values.mean(axis=0))
    assert (gaps <= 3.5 * table.standard_errors + 1e-12).all()
    # other rows would have had other means: that is most of the error, whatever was drawn
    over_rows = exact.values.std(axis=0, ddof=1) / np.sqrt(300)
    assert (table.standard_errors[:4] > 0.7 * over_rows[:4]).all()
    assert (table.standard_errors[:4] < 2.5 * over_rows[:4]).all()


@pytest.mark.parametrize("kind", ["gaussian", "copula", "empirical"])
def test_independent_features_have_the_same_importance_given_the_others(kind: Any) -> None:
    """Draws are made anew for each block, so that the default of 100 does not limit them."""
    table = importance(
        predict, ROWS[:600], LABELS[:600], loss="mse", background=Conditional(ROWS, kind)
    )
    marginal = importance(predict, ROWS[:600], LABELS[:600], loss="mse", background=ROWS, seed=1)
    assert "10,000 samples of features that move together" in table.background
    assert "not how well 4,000 training rows show" in str(table)
    assert table.base_loss - table.loss == pytest.approx(table.values.sum(), abs=1e-9)
    both = np.hypot(table.standard_errors, marginal.standard_errors)
    assert (np.abs(table.values - marginal.values) <= 3 * both + 0.02).all()


def test_features_that_move_together_share_their_importance() -> None:
    """Of two equal columns the model uses one; given the other, it is known."""
    rows = ROWS[:600, [0, 0]] + 1e-3 * ROWS[:600, 1:3]
    options: dict[str, Any] = {"loss": "mse", "background": Conditional(rows, "gaussian")}
    table = importance(lambda x: x[:, 0], rows, rows[:, 0], **options)
    np.testing.assert_allclose(table.values, 0.5 * table.base_loss, rtol=0.1)


@pytest.mark.slow
def test_few_background_rows_at_a_time_make_no_bias() -> None:
    rows = ROWS[:64]
    labels = (ROWS[:64, 0] > 0).astype(int)

    def probability(inputs: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-3 * inputs[:, 0] - inputs[:, 1])))

    background = ROWS[:400]
    exact = Explainer(probability, ("all", background), loss="log loss", groups=[[0], [1, 2, 3, 4]])
    truth = exact(rows, y=labels).values.mean(axis=0)
    tables = [
        importance(
            probability,
            rows,
            labels,
            loss="log loss",
            background=background,
            groups=[[0], [1, 2, 3, 4]],
            seed=seed,
        )
        for seed in range(30)
    ]
    found = np.array([table.values for table in tables])
    error = found.std(axis=0, ddof=1) / np.sqrt(30)
    np.testing.assert_allclose(found.mean(axis=0), truth, atol=float(4 * error.max()) + 2e-3)


@pytest.mark.slow
def test_intervals_hold() -> None:
    """Of other rows, labels and draws: at least 90 % of 95 % intervals."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng([1, seed])
        rows = rng.normal(size=(200, 5))
        noise = rng.normal(size=200)
        labels = rows[:, 0] + rows[:, 0] * rows[:, 1] + 0.5 * rows[:, 2] + noise
        table = importance(
            predict, rows, labels, loss="mse", background=ROWS[:2_000], budget=25_000, seed=seed
        )
        held.append((table.lower <= TRUTH) & (table.upper >= TRUTH))
    assert np.mean(np.array(held)[:, :4]) >= 0.9  # the last one is null, and known


def test_few_large_residuals_have_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(400, 1))
    assert _variance_doubt(gaussian, 399)[0] == pytest.approx(2 / 399, rel=0.3)
    rare = (np.arange(400) < 4).astype(float)[:, None]
    # the variance of so rare an event is known as by about 4 rows
    assert _variance_doubt(rare - rare.mean(), 399)[0] == pytest.approx(1 / 4, rel=0.1)
    assert _variance_doubt(np.zeros((5, 1)), 4)[0] == 0.5


def test_budget_tolerance_and_deadline(watch: Watch) -> None:
    counted: list[int] = []

    def model(rows: Floats) -> Floats:
        counted.append(len(rows))
        watch.now += len(rows) * 1e-5
        return predict(rows)

    table = importance(model, ROWS, LABELS, loss="mse", budget=2e4)  # type: ignore[arg-type]
    assert sum(counted) == table.evaluations <= 20_000
    assert table.converged is None
    close = importance(model, ROWS, LABELS, loss="mse", tol=0.12)
    assert close.converged
    assert close.standard_errors.max() <= 0.12
    assert close.rows[0] < 4_000
    with pytest.warns(ShearWarning, match=r"did not reach tol=0\.001 with 500 rows"):
        importance(model, ROWS[:500], LABELS[:500], loss="mse", tol=0.001)
    with pytest.raises(BudgetError, match="importance of 5 features needs at least"):
        importance(model, ROWS, LABELS, loss="mse", budget=100)
    with pytest.raises(BudgetError, match="deadline"):
        importance(model, ROWS, LABELS, loss="mse", deadline=1e-9)
    started = watch.now
    quick = importance(model, ROWS, LABELS, loss="mse", tol=1e-4, deadline=0.5)
    assert watch.now - started < 0.6
    assert 2 <= quick.rows[0] < 4_000


def test_same_seed_same_answer() -> None:
    first, same, other = (
        importance(predict, ROWS, LABELS, loss="mse", budget=20_000, seed=seed)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.values, same.values)
    assert (first.values != other.values).any()


def test_frames_with_strings_groups_and_classes() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["a", "b", "c"], 400),
            "age": rng.normal(size=400),
            "pay": rng.normal(size=400),
        }
    )
    labels = np.where((frame["city"] == "a") | (frame["age"] > 1), "yes", "no")
    frame_numbers = pd.DataFrame(
        {"a": frame["city"] == "a", "age": frame["age"], "pay": frame["pay"]}
    )
    forest = RandomForestClassifier(20, random_state=0).fit(frame_numbers.to_numpy(float), labels)

    def model(rows: pd.DataFrame) -> Any:
        numbers = np.column_stack([rows["city"] == "a", rows["age"], rows["pay"]])
        return forest.predict_proba(numbers.astype(float))[:, 1]

    table = importance(
        model, frame, labels == "yes", loss="log loss", groups={"money": ["age", "pay"]}
    )
    assert set(table.feature_names) == {"city", "money"}
    assert table.values[table.feature_names.index("city")] > 0
    named = importance(
        forest,
        frame_numbers.to_numpy(float),
        labels,
        loss="log loss",
        feature_names=["a", "b", "c"],
    )
    assert named.feature_names == ["a", "b", "c"]


def test_it_is_shown_as_a_table_and_as_bars() -> None:
    table = importance(predict, ROWS[:200], LABELS[:200], loss="mse", seed=3)
    text = str(table)
    assert text.startswith("Importance(mse ")
    assert "reduction of mse" in text
    assert "Intervals cover the choice of rows, background rows and coalitions." in text
    frame = table.to_frame()
    assert frame["feature"].tolist()[0] == "x0"
    assert {"value", "lower", "upper", "standard_error"} <= set(frame.columns)
    assert "reduction of mse" in table._repr_html_()
    ax = plots.bar(table)
    assert "reduction of mse" in ax.get_xlabel()
    plt.close("all")


def test_models_that_are_not_what_they_seem_and_bad_rows() -> None:
    def random(rows: Floats) -> Floats:
        return predict(rows) + np.random.default_rng().normal(size=len(rows))

    with pytest.warns(ShearWarning, match="answers two identical calls differently"):
        importance(random, ROWS[:100], LABELS[:100], loss="mse")
    with pytest.raises(InputError, match="importance: expected at least 2 rows, got 1"):
        importance(predict, ROWS[:1], LABELS[:1], loss="mse", background=ROWS[:9])
    with pytest.raises(InputError, match="y: expected 10 labels, one per row, got 9"):
        importance(predict, ROWS[:10], LABELS[:9], loss="mse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = importance(predict, ROWS[:50], LABELS[:50], loss="mse", groups=[[0, 1, 2, 3, 4]])
    np.testing.assert_allclose(one.values, one.base_loss - one.loss)
