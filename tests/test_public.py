"""The public names, pinned."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shearshap
from shearshap.paper.baselines import BASELINES


def test_the_public_names() -> None:
    assert shearshap.__all__ == [
        "METHODS", "Auto", "BudgetError", "Exact", "Explainer", "Explanation", "InputError", "Kernel", "Kriging", "Leverage", "MethodError",
        "ModelError", "Permutation", "Shear", "ShearError", "ShearWarning", "Welford", "explain", "explain_game",
        "model_game",
    ]  # fmt: skip


def test_the_signatures_that_stay() -> None:
    def parameters(function: Callable[..., Any]) -> list[str]:
        return list(inspect.signature(function).parameters)

    assert parameters(shearshap.explain) == [
        "model", "rows", "background", "budget", "method", "groups", "output", "scale", "returns", "multilabel", "tol",
        "interactions", "deadline", "batch_size", "device", "seed", "progress", "reference",
    ]  # fmt: skip
    assert parameters(shearshap.Explainer) == [
        "model", "background", "method", "groups", "output", "scale", "returns", "multilabel", "feature_names", "output_names", "batch_size",
        "device", "seed",
    ]  # fmt: skip
    run = ["budget", "tol", "interactions", "deadline", "index", "progress"]
    assert parameters(shearshap.Explainer.__call__) == ["self", "rows", *run, "max_evals", "silent"]
    assert parameters(shearshap.Explainer.stream) == ["self", "rows", *run]
    assert parameters(shearshap.explain_game) == [
        "value", "players", "budget", "method", "tol", "interactions", "seed",
    ]  # fmt: skip


def test_the_methods_and_what_they_promise() -> None:
    assert {name: sorted(method.promises) for name, method in shearshap.METHODS.items()} == {
        "auto": ["efficiency", "pairwise"],
        "exact": ["efficiency", "null-player", "pairwise", "unbiased"],
        "shear": ["null-player", "pairwise"],
        "shear-unbiased": ["null-player", "pairwise", "unbiased"],
        "kernel": ["efficiency"],
        "kernel-paired": ["efficiency", "pairwise"],
        "kernel-welford": ["efficiency"],
        "permutation": ["efficiency", "null-player", "unbiased"],
        "permutation-antithetic": ["efficiency", "null-player", "pairwise", "unbiased"],
        "leverage": ["efficiency", "pairwise"],
        "kriging": ["efficiency", "pairwise"],
    }


def test_the_papers_baselines_and_what_they_promise() -> None:
    assert {name: sorted(method.promises) for name, method in BASELINES.items()} == {
        "kernel-paper": [],
        "kernel-paired-paper": [],
        "permutation-paper": ["null-player", "unbiased"],
        "permutation-antithetic-paper": ["null-player", "pairwise", "unbiased"],
        "permutation-coin-paper": ["null-player"],
        "permutation-antithetic-coin-paper": ["null-player", "pairwise"],
        "kernel-authors": ["efficiency"],
        "kernel-paired-authors": ["efficiency", "pairwise"],
        "permutation-authors": ["efficiency", "null-player", "unbiased"],
        "permutation-antithetic-authors": ["efficiency", "null-player", "unbiased"],
    }


def test_a_baseline_is_used_as_an_instance_and_not_by_name() -> None:
    weights = np.arange(5.0)
    answer = shearshap.explain_game(
        lambda z: z @ weights, players=5, budget=700, method=BASELINES["permutation-paper"]
    )
    np.testing.assert_allclose(answer.values[0], weights)
    with pytest.raises(shearshap.MethodError, match="there is no method 'permutation-paper'"):
        shearshap.explain_game(
            lambda z: z @ weights, players=5, budget=700, method="permutation-paper"
        )


def test_every_method_is_documented_and_frozen() -> None:
    for method in (*shearshap.METHODS.values(), *BASELINES.values()):
        assert type(method).__doc__
        assert type(method).__dataclass_params__.frozen  # type: ignore[attr-defined]
