"""What is explained by default, as the table in docs/howto/pipelines.md has it, for every family of models."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from shearshap import Explainer, InputError, ShearWarning

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pipelines.md"
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 3))
TWO = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(int)
THREE = TWO + (ROWS[:, 2] > 1)
REAL = ROWS @ [1.0, -2.0, 0.5]


def boosted(target: Any) -> list[Any]:
    """Boosted classifiers of all libraries that are installed, also in a Pipeline and a search."""
    models = [
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=3)),
    ]
    for library, name, options in (
        ("xgboost", "XGBClassifier", {"n_estimators": 3, "n_jobs": 1}),
        ("lightgbm", "LGBMClassifier", {"n_estimators": 3, "n_jobs": 1, "verbose": -1}),
        ("catboost", "CatBoostClassifier", {"iterations": 3, "thread_count": 1, "silent": True,
                                            "allow_writing_files": False}),
    ):  # fmt: skip
        try:
            kind = getattr(__import__(library), name)
        except ImportError:
            continue
        models.append(kind(**options))
        models.append(make_pipeline(StandardScaler(), kind(**options)))
        if library != "catboost":
            models.append(GridSearchCV(kind(**options), {"max_depth": [2]}, cv=2))
    return [model.fit(ROWS, target) for model in models]


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2).double()


FAMILIES: dict[str, Callable[[], list[Any]]] = {
    "boosted classifier, two classes": lambda: boosted(TWO),
    "boosted classifier, three classes": lambda: boosted(THREE),
    "random forest, two classes": lambda: [RandomForestClassifier(3).fit(ROWS, TWO)],
    "logistic regression": lambda: [LogisticRegression().fit(ROWS, TWO)],
    "linear SVM": lambda: [LinearSVC().fit(ROWS, TWO)],
    "any other classifier": lambda: [
        GaussianNB().fit(ROWS, TWO),
        KNeighborsClassifier().fit(ROWS, TWO),
    ],
    "bound method `predict_proba`": lambda: [
        model.predict_proba for model in (GaussianNB().fit(ROWS, TWO), *boosted(TWO))
    ],
    "boosted regressor": lambda: [HistGradientBoostingRegressor(max_iter=3).fit(ROWS, REAL)],
    "linear regressor": lambda: [LinearRegression().fit(ROWS, REAL)],
    "any other regressor": lambda: [KNeighborsRegressor().fit(ROWS, REAL)],
    "network of torch": lambda: [network()],
    "function": lambda: [lambda rows: rows[:, 0] * rows[:, 1]],
}


def test_a_device_that_is_of_no_use_is_named() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="CUDA is not available here"):
            Explainer(GaussianNB().fit(ROWS, TWO), ROWS[:5], device="cuda")(ROWS[:4])
    with pytest.warns(
        ShearWarning, match="device='meta' is not used: only torch modules are moved"
    ):
        Explainer(GaussianNB().fit(ROWS, TWO), ROWS[:5], device="meta")(ROWS[:4])
    Explainer(GaussianNB().fit(ROWS, TWO), ROWS[:5], device="cpu")(ROWS[:4])


def table() -> dict[str, list[str]]:
    """The lines of the table, by their first cell."""
    lines = PAGE.read_text(encoding="utf-8").partition("| model | explained by default |")[2]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines.split("\n\n")[0].splitlines()[2:]
    ]
    return {first: others for first, *others in cells}


def test_the_table_has_every_family() -> None:
    assert list(table()) == list(FAMILIES)


@pytest.mark.filterwarnings("ignore:scale='log-odds'")  # of neighbours, which are often sure
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_explained_is_what_the_table_says(family: str) -> None:
    words, scale, outputs, other = table()[family]
    for model in FAMILIES[family]():
        calls = [Explainer(model, ROWS[:5])(ROWS[:4])]
        if "boosted" in family or "forest" in family:
            calls.append(Explainer(model)(ROWS[:4]))
        calls.append(Explainer(model, ROWS[:5], method="kernel")(ROWS[:4]))
        calls.append(Explainer(model, ROWS[:5]).prepare(ROWS[:4]).overview)
        for found in calls:
            assert (found.scale or "") == scale
            assert np.ndim(found.predictions) == 1 + (int(outputs) > 1)
            np.testing.assert_allclose(found.predictions, calls[0].predictions, atol=1e-6)
        assert ("exact (" in calls[0].method) == ("exactly" in words)
        asked = re.search('scale=`?"(.*?)"', other)
        if asked is not None:
            options: dict[str, Any] = {"scale": asked[1]}
            changed = Explainer(model, ROWS[:5], **options)(ROWS[:4])
            assert changed.scale in (asked[1], "log-odds")
            assert changed.scale != scale or scale == "log-odds"
            assert "exact" not in other or "exact (" in changed.method
