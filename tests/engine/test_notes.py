"""Every warning of a call is in `Explanation.notes`, and each is given once."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from torch import nn

from peer_library import peer
from shearshap import Explainer, Explanation, ShearWarning, explain, explain_game
from shearshap_lab.baselines import AppendixKernel

shap = peer("shap")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6))
Y = X[:, 0] + X[:, 1] * X[:, 2] > 0
WIDE = RNG.normal(size=(6, 24))
MIXED = pd.DataFrame({"k": [1, 2, 2], "x": [0.0, 1.0, 2.0]})
LABELS = LogisticRegression().fit(X, Y)


def smooth(rows: Any) -> Any:
    return np.tanh(rows[:, 0]) * rows[:, -1] + rows.sum(axis=1)


def noisy(rows: Any) -> Any:
    return smooth(rows) + RNG.normal(size=len(rows))


def by_batch(rows: Any) -> Any:
    return smooth(rows) - rows.mean()


def kind_of_number(frame: Any) -> Any:
    return np.full(len(frame), float(frame["k"].dtype.kind == "i"))


class Hidden(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.sum(dim=1).sigmoid()


class Noise(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.sum(dim=1) + torch.rand(len(rows))


class Steps(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows > 0).double().sum(dim=1)


def forest(kind: Any) -> Any:
    return kind(n_estimators=5, max_depth=3, random_state=0).fit(X, Y)


class Jittered:
    """A forest whose predictions are noisy: it cannot be explained by its leaves."""

    def __init__(self) -> None:
        self.forest = forest(RandomForestRegressor)

    def predict(self, rows: Any) -> Any:
        return self.forest.predict(rows) + RNG.normal(size=len(rows))


def two_blocks() -> Explanation:
    return Explanation.concat(list(Explainer(noisy, X[:1]).stream(X, budget=20)))


PROVOKED: dict[str, Callable[[], Explanation]] = {
    "few evaluations": lambda: Explainer(smooth, WIDE[:1])(WIDE, budget=7),
    "few evaluations of a game": lambda: explain_game(
        lambda z: z.sum(axis=1) * 1.0, players=24, budget=7
    ),
    "singular regression": lambda: Explainer(smooth, WIDE[:1], method=AppendixKernel())(
        WIDE, budget=2 + 4 * 24
    ),
    "labels": lambda: Explainer(LABELS.predict, X[:5])(X[:9]),
    "zero gradient": lambda: Explainer(Steps(), X[:1], method="shear")(
        X[:4], budget=200
    ),
    "random": lambda: Explainer(noisy, X[:1])(X, budget=20),
    "random module": lambda: Explainer(Noise(), X[:1])(X[:5].astype(np.float32), budget=20),
    "random forest": lambda: Explainer(Jittered(), X[:5])(X[:5], budget=200),
    "batch": lambda: Explainer(by_batch, X[:1])(X[:20], budget=20),
    "types": lambda: Explainer(kind_of_number, ("mean", MIXED))(MIXED, budget=4),
    "doubtful logits": lambda: Explainer(Hidden(), X[:1], scale="log-odds")(
        X[:20], budget=40
    ),
    "deadline": lambda: explain(smooth, X, background=X[:1], budget=20, deadline=1e-9),
    "several at once": lambda: Explainer(noisy, shap.maskers.Partition(WIDE))(WIDE, budget=42),
    "blocks": two_blocks,
    "prepared": lambda: Explainer(noisy, WIDE[:1]).prepare(WIDE, budget=7).overview,
    "prepared block": lambda: (
        Explainer(smooth, WIDE[:1]).prepare(WIDE, budget=40).explain(WIDE, budget=7)
    ),
    "nothing": lambda: Explainer(forest(RandomForestClassifier), X[:5])(X[:5]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVOKED)
def test_notes_keep_every_warning_once(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShearWarning)
        explanation = PROVOKED[name]()
    told = [str(each.message) for each in caught if issubclass(each.category, ShearWarning)]
    assert bool(told) == (name != "nothing")
    assert len(told) == len(set(told))
    assert set(told) <= set(explanation.notes)
    assert len(explanation.notes) == len(set(explanation.notes))


def test_a_call_inside_a_call_keeps_its_own_notes() -> None:
    inner: list[Explanation] = []

    def model(rows: Any) -> Any:
        if not inner:
            inner.append(Explainer(smooth, WIDE[:1])(WIDE, budget=7))
        return smooth(rows)

    with pytest.warns(ShearWarning, match="too few"):
        outer = Explainer(model, X[:1])(X[:3], budget=64)
    assert outer.notes == ()
    assert "too few" in inner[0].notes[0]
