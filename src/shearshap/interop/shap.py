"""Explanations as shap's, for its plots."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.frames import as_text

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation


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
        values = _half_pairs(explanation)
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


def _half_pairs(explanation: "Explanation") -> NDArray[np.float64]:
    """Return interactions with half of a pair's on each side of the diagonal, as in shap.

    So values[i] = sum over j of interactions[i, j].
    """
    if explanation.interactions is None:
        raise InputError(
            "to_shap: the explanation has no interactions; explain with interactions=True"
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
