"""Shapley explanations of any model: fast, batched, with error bars and honest budgets.

Names come from their modules when they are first used: torch takes seconds to import, and
`shear --help` needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from shearshap.errors import (
    BudgetError,
    InputError,
    MethodError,
    ModelError,
    ShearError,
    ShearWarning,
)

if TYPE_CHECKING:
    from shearshap.data.background import Conditional
    from shearshap.data.players import patches
    from shearshap.data.texts import Prompt
    from shearshap.engine.importance import importance
    from shearshap.explainer import Explainer, explain, explain_game, model_game
    from shearshap.methods import (
        METHODS,
        Auto,
        CoarseToFine,
        Exact,
        Kernel,
        Kriging,
        Leverage,
        Permutation,
        Shear,
        Welford,
    )
    from shearshap.models.endpoint import CompletionEndpoint
    from shearshap.result.explanation import Explanation
    from shearshap.valuation import value_data, value_members

__version__ = "0.2.0"

__all__ = [
    "METHODS",
    "Auto",
    "BudgetError",
    "CoarseToFine",
    "CompletionEndpoint",
    "Conditional",
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
    "Prompt",
    "Shear",
    "ShearError",
    "ShearWarning",
    "Welford",
    "explain",
    "explain_game",
    "importance",
    "model_game",
    "patches",
    "value_data",
    "value_members",
]

_MODULES = {
    **dict.fromkeys(__all__, "methods"),
    **dict.fromkeys(("Explainer", "explain", "explain_game", "model_game"), "explainer"),
    **dict.fromkeys(("value_data", "value_members"), "valuation"),
    "CompletionEndpoint": "models.endpoint",
    "Conditional": "data.background",
    "Explanation": "result.explanation",
    "Prompt": "data.texts",
    "importance": "engine.importance",
    "patches": "data.players",
}
"""The modules that the public names come from; those of the errors are there already."""


if not TYPE_CHECKING:  # else a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Return a public name, or a module of the package, and import it first."""
        if name in _MODULES:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
            globals()[name] = value  # so that this function is asked only once
            return value
        missing = AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name.endswith("Explainer"):
            missing.add_note(f"In place of shap.{name}, use Explainer(model, background)(rows).")
        if name.startswith("__"):
            raise missing
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":  # a library that our module needs
                raise
            raise missing from None


def __dir__() -> list[str]:
    """Return all names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
