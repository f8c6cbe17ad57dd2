"""What an explanation knows of its question: background, scale, groups, model and versions."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

from shearshap import Explainer, Explanation, __version__, explain_game

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 4)), columns=list("abcd"))
Y = np.where(X["a"] + X["b"] > 0, "churn", "stays")
PIPELINE = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
FIELDS = ("background", "background_rows", "scale", "groups", "model")

QUESTIONS: dict[str, tuple[Any, Any, dict[str, Any], tuple[Any, ...]]] = {
    "pipeline": (PIPELINE, X[:20], {}, ("20 background rows", 20, "probability", None, "Pipeline(LogisticRegression)")),
    "log-odds of groups": (
        PIPELINE, ("mean", X), {"scale": "log-odds", "groups": {"ab": ["a", "b"]}},
        ("the mean of 60 rows", 1, "log-odds", {"ab": ["a", "b"]}, "Pipeline(LogisticRegression)"),
    ),
    "margin": (SVC().fit(X, Y), X[:1], {}, ("one background row", 1, "margin", None, "SVC")),
    "regression": (
        RandomForestRegressor(3).fit(X, X["a"]), X[:5], {},
        ("5 background rows", 5, None, None, "RandomForestRegressor"),
    ),
    "method": (
        PIPELINE.predict_proba, X[:2], {},
        ("2 background rows", 2, "probability", None, "Pipeline(LogisticRegression).predict_proba"),
    ),
    "function": (lambda rows: rows["a"] ** 2, X[:2], {}, ("2 background rows", 2, None, None, "function")),
    "a function of the output": (
        PIPELINE, X[:2], {"output": lambda answer: answer[:, 0] ** 2},
        ("2 background rows", 2, None, None, "Pipeline(LogisticRegression)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_explanation_knows_its_question(name: str, tmp_path: Path) -> None:
    model, background, options, known = QUESTIONS[name]
    explanation = Explainer(model, background, **options)(X[:5])
    assert tuple(getattr(explanation, field) for field in FIELDS) == known
    assert explanation.versions["shearshap"] == __version__
    assert explanation.versions["torch"] == torch.__version__
    assert explanation.versions["numpy"] == np.__version__
    if name != "function":
        assert explanation.versions["sklearn"] == sklearn.__version__

    explanation.save(tmp_path / "e.npz")
    parts = [explanation[:2], explanation[2:]]
    last = explanation.output(0)
    for other in (Explanation.load(tmp_path / "e.npz"), *parts, Explanation.concat(parts), last):
        assert tuple(getattr(other, field) for field in FIELDS) == known
        assert other.versions == explanation.versions


def test_parts_with_other_questions_have_what_they_share() -> None:
    one = Explainer(PIPELINE, X[:20], output="churn")(X[:2])
    other = Explainer(PIPELINE, X[:10], output="churn")(X[:2])
    both = Explanation.concat([one, other])
    assert (both.background, both.background_rows) == (None, None)
    assert (both.model, both.versions) == (one.model, one.versions)


def test_modules_and_games() -> None:
    net = nn.Sequential(nn.Linear(4, 2)).double()
    explanation = Explainer(net, np.zeros((3, 4)))(X.to_numpy()[:3])
    assert (explanation.model, explanation.scale) == ("Sequential", None)
    stated = Explainer(net, np.zeros((3, 4)), returns="margin")(X.to_numpy()[:3])
    assert stated.scale == "margin"
    game = explain_game(lambda z: z.sum(axis=1) * 1.0, players=3)
    assert (game.background, game.model, game.versions) == (None, None, {})
