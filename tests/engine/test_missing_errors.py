"""Values without error bars: the call says so, and names a budget with which there are some."""

import re
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shearshap import BudgetError, Explainer, InputError, ShearWarning
from shearshap.apps.report.summary import certainty
from shearshap.models.base import MIN_PROBABILITY

RNG = np.random.default_rng(0)
X = RNG.normal(size=(140, 20))
METHODS = [
    "auto", "kriging", "kernel", "kernel-paired", "kernel-welford", "leverage", "permutation",
    "permutation-antithetic", "shear-unbiased", "coarse-to-fine",
]  # fmt: skip


def model(rows: Any) -> Any:
    return rows[:, 0] * rows[:, 1] * rows[:, 2] + np.abs(rows.sum(axis=1))


@pytest.mark.filterwarnings("ignore:a regression on")
@pytest.mark.parametrize("players", [6, 20])
@pytest.mark.parametrize("background", [1, 3, 40])
@pytest.mark.parametrize("method", METHODS)
def test_the_budget_that_is_named_shows_errors(method: str, background: int, players: int) -> None:
    explainer = Explainer(model, X[:background, :players], method=method)
    rows = X[100:102, :players]
    smallest = _smallest(explainer, rows)
    with pytest.warns(ShearWarning) as caught:
        few = explainer(rows, budget=smallest)
    assert few.standard_errors is None
    (note,) = [note for note in few.notes if note.startswith("There are no error bars")]
    assert note in [str(each.message) for each in caught]
    named = re.search(r"pass budget=(\d+) or more\.$", note)
    assert named is not None
    enough = explainer(rows, budget=int(named[1]))
    assert enough.standard_errors is not None
    assert np.isfinite(enough.standard_errors).all()


def _smallest(explainer: Explainer, rows: Any) -> int:
    """Return the smallest budget of an explainer, which its error names."""
    try:
        explainer(rows, budget=1)
    except BudgetError as error:
        return int(vars(error)["nearest"])
    return 1


def test_whoever_reads_such_values_is_told() -> None:
    pytest.importorskip("matplotlib")
    from shearshap import plots

    with pytest.warns(ShearWarning, match="There are no error bars: kriging has standard errors"):
        few = Explainer(model, X[:1])(X[100:102], budget=30)
    assert "There are no error bars" in " ".join(str(few).split())
    assert "There are no error bars" in certainty([few])
    with pytest.raises(InputError, match=r"There are no error bars: .*; pass budget=42 or more"):
        few.interval()
    assert "(no error bars)" in plots.waterfall(few[0]).get_xlabel()
    shear = Explainer(model, X[:1], method="shear")(X[100:102])
    assert "shear has no standard errors; try method='kriging'" in shear.missing_errors
    assert Explainer(model, X[:1])(X[100:102]).missing_errors == ""


# Log-odds


def log_odds(logarithms: Any) -> Any:
    """The log-odds of each class, from logarithms of probabilities (n, k)."""
    others = [np.delete(logarithms, at, axis=1) for at in range(logarithms.shape[1])]
    return logarithms - np.stack([np.logaddexp.reduce(each, axis=1) for each in others], axis=1)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    "classifier",
    [
        GaussianNB(),
        make_pipeline(StandardScaler(), LogisticRegression(C=1e6)),
        HistGradientBoostingClassifier(max_iter=60, learning_rate=1.0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_log_odds_are_the_models_own_however_sure_it_is(classifier: Any, count: int) -> None:
    data = load_breast_cancer()
    rows = data.data[:, :5]
    target = data.target + 2 * (count == 3) * (data.data[:, 0] > 20)
    fitted = classifier.fit(rows, target)
    found = Explainer(fitted, rows[:3], scale="log-odds")(rows[:40])
    margins = getattr(fitted, "decision_function", fitted.predict_proba)(rows[:40])
    if isinstance(fitted, GaussianNB):
        own = log_odds(fitted.predict_log_proba(rows[:40]))
    elif count == 2:
        own = np.stack((-margins, margins), axis=1)
    else:
        own = log_odds(margins - np.logaddexp.reduce(margins, axis=1, keepdims=True))
    np.testing.assert_allclose(found.predictions, own, rtol=1e-6, atol=1e-6)
    assert np.abs(found.predictions).max() > -np.log(MIN_PROBABILITY)
    assert "exact" in found.method


def test_clipped_log_odds_are_never_exact() -> None:
    rows = X[:, :4]
    neighbours = KNeighborsClassifier(3).fit(rows, rows[:, 0] > 0)
    with pytest.warns(ShearWarning, match=r"probabilities were within 1e-07 of 0 or 1\."):
        found = Explainer(neighbours, rows[:3], scale="log-odds")(rows[:5])
    assert "exact" not in found.method
    assert found.standard_errors is not None
    assert np.isinf(found.standard_errors).all()
    assert any("may be far off, and have no standard errors" in note for note in found.notes)
