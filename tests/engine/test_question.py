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

from shearshap import Explainer, Explanation, InputError, __version__, explain_game

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


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        ({"background": X[:10]}, {}, "background; part 0 has '20 background rows', part 1 '10"),
        ({"background": X[20:40]}, {}, "background; their base values differ: "),
        ({"semivalue": "banzhaf"}, {}, "kind of values; part 0 has 'Shapley value', part 1 'Banz"),
        ({"scale": "log-odds"}, {}, "scale; part 0 has 'probability', part 1 'log-odds'"),
        ({}, {"interaction_index": "SII"}, "interaction index; part 0 has 'k-SII', part 1 'SII'"),
        ({}, {"interactions": 3}, "with interactions of the same order; got orders 2 and 3"),
    ],
    ids=["background", "rows of the background", "semivalue", "scale", "index", "order"],
)
def test_parts_of_other_questions_are_refused(
    options: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    usual: dict[str, Any] = {"background": X[:20], "output": "churn"}
    has_interactions = "semivalue" not in options
    one = Explainer(PIPELINE, **usual)(X[:2], interactions=has_interactions)
    own = {"interactions": has_interactions} | asked
    other = Explainer(PIPELINE, **(usual | options))(X[2:4], **own)
    with pytest.raises(InputError, match=message):
        Explanation.concat([one, other])
    both = Explanation.concat([one, one])
    assert (both.background, both.model) == (one.background, one.model)


def test_modules_and_games() -> None:
    net = nn.Sequential(nn.Linear(4, 2)).double()
    explanation = Explainer(net, np.zeros((3, 4)))(X.to_numpy()[:3])
    assert (explanation.model, explanation.scale) == ("Sequential", None)
    stated = Explainer(net, np.zeros((3, 4)), returns="margin")(X.to_numpy()[:3])
    assert stated.scale == "margin"
    game = explain_game(lambda z: z.sum(axis=1) * 1.0, players=3)
    assert (game.background, game.model, game.versions) == (None, None, {})
