"""What users of shap bring along: its options by our names, and our explanations for its plots.

`OPTIONS` is the table of docs/howto/coming-from.md as code. Functions take shap's options by
`takes_shap_options`, which leaves their signatures, and so their documentation, as they are.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.frames import as_text

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

P = ParamSpec("P")
T = TypeVar("T")


# shap's options


@dataclass(frozen=True)
class ShapOption:
    """What to do here instead of passing an option of shap."""

    advice: str  #: "link='logit' is shap's; here, ..."
    #: our options that mean the same, by shap's value as text; other values get the advice
    same: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


#: Options that have another name here, and take the same.
RENAMED = {
    "masker": "background",
    "data": "background",
    "max_display": "max_features",
    "max_players": "max_features",  # our own names of earlier versions
    "player": "feature",
    "color": "colour",
}

_NOTHING: dict[str, Any] = {}  #: the default of ours is what shap's option asks for
_BUDGET = "pass budget=, which counts every model evaluation:"

OPTIONS = {
    # of explainers
    "algorithm": ShapOption(
        "leave it out, since trees are recognised, or pass method=",
        {
            "auto": _NOTHING,
            "exact": {"method": "exact"},
            "permutation": {"method": "permutation-antithetic"},
            "kernel": {"method": "kernel-paired"},
            "sampling": {"method": "permutation"},
        },
    ),
    "link": ShapOption("pass scale='log-odds'", {"identity": _NOTHING}),
    "linearize_link": ShapOption("pass scale=, the scale of the predictions"),
    "model_output": ShapOption(
        "pass scale='margin' for raw scores, or output= for one of several outputs",
        {"probability": {"scale": "probability"}},
    ),
    "feature_perturbation": ShapOption(
        "leave it and the background out, for path-dependent values of trees",
        {"auto": _NOTHING, "interventional": _NOTHING},
    ),
    # of calls
    "nsamples": ShapOption(
        f"{_BUDGET} nsamples times the number of background rows", {"auto": _NOTHING}
    ),
    "npermutations": ShapOption(
        f"{_BUDGET} 2 * npermutations * features times the number of background rows"
    ),
    "l1_reg": ShapOption(
        "leave it out, since all features count", {"0": _NOTHING, "False": _NOTHING}
    ),
    "check_additivity": ShapOption(
        "look at explanation.gap: prediction - base value - sum of values", {"False": _NOTHING}
    ),
    "approximate": ShapOption("leave it out, since trees are exact", {"False": _NOTHING}),
    "main_effects": ShapOption(
        "pass interactions=True, and take the diagonal of explanation.interactions",
        {"False": _NOTHING},
    ),
    "error_bounds": ShapOption("use explanation.interval()", {"True": _NOTHING, "False": _NOTHING}),
    "batch_size": ShapOption("pass Explainer(..., batch_size=)", {"auto": _NOTHING}),
    "outputs": ShapOption("pass Explainer(..., output=)"),
}


def takes_shap_options(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that takes shap's options too, or raises with what they are here."""
    known = list(signature(function).parameters)

    @wraps(function)
    def translated(*args: Any, **options: Any) -> T:
        ours = {name: value for name, value in options.items() if name in known}
        taken = {*known[: len(args)], *ours}
        for name in options:
            if name in known:
                continue
            for own, value in _translated(name, options[name], known).items():
                if own in taken:
                    raise InputError(f"{own} and {name} mean the same; pass only one of them")
                taken.add(own)
                ours[own] = value
        return function(*args, **ours)

    return translated


def constructor_takes_shap_options(cls: type[T]) -> type[T]:
    """Return a class whose constructor takes shap's options too."""
    cls.__init__ = takes_shap_options(cls.__init__)  # type: ignore[method-assign]
    return cls


def _translated(name: str, value: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Return our options for one that a function with the options `known` does not have."""
    if name in RENAMED:
        if RENAMED[name] in known:
            return {RENAMED[name]: value}
        raise InputError(f"{name}= is a shap option; it does not exist here")
    option = OPTIONS.get(name)
    if option is None:
        return {name: value}  # Python says that there is none
    text = str(getattr(value, "__name__", value))  # links are functions, or their names
    if text in option.same:
        return option.same[text]
    shown = repr(value) if isinstance(value, str | Real) else ""
    raise InputError(f"{name}={shown} is a shap option; here, {option.advice}")


# Explanations as shap's


def shap_explanation(explanation: "Explanation", *, interactions: bool) -> Any:
    """Return the `shap.Explanation` of `Explanation.to_shap`."""
    try:
        import shap
    except ImportError as error:
        raise InputError("to_shap needs shap: pip install shap") from error

    values = explanation.values
    lower = None
    upper = None
    if interactions:
        values = half_pairs(explanation)
    elif explanation.standard_errors is not None:
        lower, upper = explanation.interval()
    labels = None
    if explanation.display_data is not None:
        labels = np.vectorize(_label, otypes=[object])(explanation.display_data)

    several = explanation.values.ndim == 3
    return shap.Explanation(
        values=values,
        base_values=explanation.base_values,
        data=labels if explanation.data is None else explanation.data,
        display_data=labels,
        feature_names=list(explanation.feature_names),
        output_names=list(explanation.output_names) if several else None,
        compute_time=explanation.seconds,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def half_pairs(explanation: "Explanation") -> NDArray[np.float64]:
    """Return interactions with half of a pair's on each side of the diagonal, as in shap.

    So values[i] = sum over j of interactions[i, j].
    """
    if explanation.interactions is None:
        raise InputError(
            "to_shap: the explanation has no interactions; explain with interactions=True"
        )
    if explanation.interaction_index not in (None, "k-SII") or explanation.interaction_order > 2:
        raise InputError(
            "to_shap: shap's interactions are k-SII of order 2, got "
            f"{explanation.interaction_index} of order {explanation.interaction_order}"
        )
    factor = 0.5 * (1 + np.eye(explanation.values.shape[1]))
    if explanation.values.ndim == 3:
        factor = factor[:, :, None]
    return explanation.interactions * factor


def _label(value: Any) -> Any:
    """Return a value as shap can write it: a number or a text.

    A missing value is a text too, as shap's plots fail at None and NaN.
    """
    text = as_text(value)
    if text is None:
        return "missing"
    return value if isinstance(value, Real) else text
