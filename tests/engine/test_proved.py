"""What is called exact, or has a standard error of 0, is proved: with every kind of background."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from games import Floats
from shearshap import METHODS, BudgetError, Conditional, Explainer, ShearWarning

PLAYERS = 6
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(12, PLAYERS)).round(1)
BINARY = (RNG.random((9, PLAYERS)) < 0.3) * 1.0
ROWS = np.vstack([np.ones(PLAYERS), NUMBERS[3], BINARY[2], [1, 0, 1, 0, 0.5, -1]])
NAMES = list("abcdef")

BACKGROUNDS: dict[str, Any] = {
    "zeros": np.zeros(PLAYERS),
    "a row": NUMBERS[0],
    "the mean": ("mean", NUMBERS),
    "three rows": NUMBERS[:3],
    "rows": NUMBERS,
    "sample": ("sample", NUMBERS, 5),
    "binary rows": BINARY,
    "equal rows": np.zeros((5, PLAYERS)),
    "frame": pd.DataFrame(NUMBERS, columns=NAMES),
}


def rare(x: Floats) -> Floats:
    return ((x[:, 0] > 0.5) & (x[:, 1] > 0.5) & (x[:, 2] > 0.5)).astype(np.float64)


def nearly_additive(x: Floats) -> Floats:
    return np.asarray(x @ np.arange(1.0, PLAYERS + 1) + 5 * rare(x))


def clipped(x: Floats) -> Floats:
    return np.asarray(np.clip(x.sum(axis=1), -0.5, 0.5))


def two_outputs(x: Floats) -> Floats:
    return np.stack([rare(x[:, ::-1]), np.where(x[:, 4] > 0, x[:, 0] * x[:, 5], 0.0)], axis=1)


MODELS: list[Callable[[Floats], Floats]] = [rare, nearly_additive, clipped, two_outputs]


def answers(explainer: Explainer, rows: Any, budgets: list[int]) -> Any:
    for budget in budgets:
        try:
            yield explainer(rows, budget=budget)
        except BudgetError:
            continue


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShearWarning)
        yield


@pytest.mark.parametrize("groups", [None, [[0, 1], [2, 3], [4, 5]]], ids=["features", "groups"])
@pytest.mark.parametrize("kind", BACKGROUNDS)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "shear"])
def test_what_has_no_error_is_the_shapley_value(name: str, kind: str, groups: Any) -> None:
    background = BACKGROUNDS[kind]
    rows: Any = ROWS
    players = PLAYERS if groups is None else len(groups)
    for model in MODELS:
        if kind == "frame":
            rows = pd.DataFrame(ROWS, columns=NAMES)
        explainer = Explainer(
            lambda x, model=model: model(np.asarray(x, dtype=float)),
            background,
            groups=groups,
        )
        count = len(background) if kind in ("three rows", "rows", "binary rows", "frame") else 5
        truth = replace(explainer, method="exact")(rows, budget=count << players)
        assert "exact" in truth.method
        every = 1 << players
        budgets = [2 * players + 2, every - 2, every, 2 * players * count, (every - 2) * count]
        for answer in answers(replace(explainer, method=name), rows, budgets):
            claimed = np.full(answer.values.shape, answer.method == "exact")
            if answer.standard_errors is not None:
                claimed |= answer.standard_errors < 1e-12
            error = np.abs(answer.values - truth.values)
            assert (error[claimed] < 1e-9).all(), (model.__name__, answer.evaluations)


@pytest.mark.parametrize("kind", ["gaussian", "copula", "empirical"])
@pytest.mark.parametrize("name", ["auto", "exact", "kriging", "leverage", "permutation"])
def test_draws_of_absent_features_are_never_exhaustive(name: str, kind: Any) -> None:
    train = np.random.default_rng(1).normal(size=(60, PLAYERS))
    for model in MODELS:
        explainer = Explainer(model, Conditional(train, kind, samples=20), method=name)
        for answer in answers(explainer, ROWS[:2], [60, 300, 20 << PLAYERS]):
            if answer.standard_errors is not None:
                assert (answer.standard_errors > 0).all(), model.__name__
