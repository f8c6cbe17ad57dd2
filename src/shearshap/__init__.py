"""Shapley explanations of any model: fast, batched, with error bars and honest budgets."""

from shearshap.errors import (
    BudgetError,
    InputError,
    MethodError,
    ModelError,
    ShearError,
    ShearWarning,
)
from shearshap.explainer import Explainer, explain, explain_game, model_game
from shearshap.explanation import Explanation
from shearshap.methods import (
    METHODS,
    Auto,
    Exact,
    Kernel,
    Kriging,
    Leverage,
    Permutation,
    Shear,
    Welford,
)

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Auto",
    "BudgetError",
    "Exact",
    "Explainer",
    "Explanation",
    "InputError",
    "Kernel",
    "Kriging",
    "Leverage",
    "MethodError",
    "ModelError",
    "Permutation",
    "Shear",
    "ShearError",
    "ShearWarning",
    "Welford",
    "explain",
    "explain_game",
    "model_game",
]
