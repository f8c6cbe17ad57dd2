"""Explanations as shap's, for its plots."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from shearshap.errors import InputError
from shearshap.interop.tabular import as_text

if TYPE_CHECKING:
    from shearshap.explanation import Explanation


def shap_explanation(explanation: "Explanation") -> Any:
    """Return the `shap.Explanation` of `Explanation.to_shap`."""
    try:
        import shap
    except ImportError as error:
        raise InputError("to_shap needs shap: pip install shap") from error

    lower = None
    upper = None
    if explanation.standard_errors is not None:
        lower, upper = explanation.interval()

    labels = None
    if explanation.display_data is not None:
        labels = np.vectorize(_label, otypes=[object])(explanation.display_data)

    several = explanation.values.ndim == 3
    return shap.Explanation(
        values=explanation.values,
        base_values=explanation.base_values,
        data=labels if explanation.data is None else explanation.data,
        display_data=labels,
        feature_names=list(explanation.feature_names),
        output_names=list(explanation.output_names) if several else None,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _label(value: Any) -> Any:
    """Return a value as shap can write it: a number or a text.

    A missing value is a text too, as shap's plots fail at None and NaN.
    """
    text = as_text(value)
    if text is None:
        return "missing"
    return value if isinstance(value, Real) else text
