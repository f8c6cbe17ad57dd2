"""The public names, pinned."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shearshap
from shearshap_lab.baselines import BASELINES


def test_the_public_names() -> None:
    assert shearshap.__all__ == [
        "METHODS", "Auto", "BudgetError", "CoarseToFine", "CompletionEndpoint", "Conditional", "Exact", "Explainer", "Explanation", "InputError", "Kernel", "Kriging", "Leverage", "MethodError",
        "ModelError", "Permutation", "Prompt", "Shear", "ShearError", "ShearWarning", "Welford", "explain", "explain_game",
        "importance", "model_game", "patches", "value_data", "value_members",
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
        "coarse-to-fine": ["efficiency"],
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


# Names come when they are used


HEAVY = ("torch", "numpy", "scipy", "pandas", "pyarrow", "narwhals")


@pytest.mark.slow
def test_a_fresh_interpreter_loads_names_when_they_are_used_and_finds_the_classes_of_pickles() -> (
    None
):
    explanation = shearshap.explain_game(lambda z: z.sum(axis=1), players=3)
    explainer = shearshap.Explainer(max, method=shearshap.Shear(unbiased=True))
    script = f"""
import pickle, sys
import shearshap as s
print([name for name in {HEAVY} if name in sys.modules])
explanation, explainer = pickle.loads({pickle.dumps((explanation, explainer))!r})
print(explanation.values.round(6).tolist(), explainer.method.unbiased)
print(set(s.__all__) <= set(dir(s)), "__version__" in dir(s))
print(s.methods.__name__, s.plots.__name__)
print(all(getattr(s, name) is not None for name in s.__all__))
from shearshap import *
print(explain.__module__)
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines() == [
        "[]",
        "[[1.0, 1.0, 1.0]] True",
        "True True",
        "shearshap.methods shearshap.plots",
        "True",
        "shearshap.explainer",
    ]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shearshap' has no attribute 'explian'"):
        shearshap.explian  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(shearshap, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'explian'"):
        exec("from shearshap import explian")


def test_a_type_checker_knows_every_name() -> None:
    """They are imported for it, and no name that is not public is."""
    tree = ast.parse(Path(shearshap.__file__).read_text())
    branches = [node for node in tree.body if isinstance(node, ast.If)]
    (typed,) = [node for node in branches if ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in [*tree.body, *typed.body] if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    assert set(shearshap.__all__) == names - {"import_module", "TYPE_CHECKING"}
