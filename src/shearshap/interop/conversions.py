"""Explanations for other libraries: shap's, shapiq's, and tables."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError

if TYPE_CHECKING:
    from shearshap.explanation import Explanation


def tidy(explanation: "Explanation", backend: str) -> Any:
    """Return the table of `Explanation.to_frame`."""
    import narwhals as nw

    columns = _columns(explanation)
    floats = [
        name
        for name, column in columns.items()
        if isinstance(column, np.ndarray) and column.dtype == float
    ]
    try:
        # NaN is a number to polars and pyarrow; a missing one is null
        return (
            nw.from_dict(columns, backend=backend)  # type: ignore[arg-type]
            .with_columns(nw.col(*floats).fill_nan(None))
            .to_native()
        )
    except ImportError as error:
        raise InputError(f"backend={backend!r} is not installed: pip install {backend}") from error


def _columns(explanation: "Explanation") -> dict[str, Any]:
    """Return the columns of the tidy table, each of r p k entries."""
    rows, players, outputs = (
        len(explanation),
        len(explanation.feature_names),
        len(explanation.output_names),
    )
    shape = (rows, players, outputs)

    def spread(array: NDArray[Any], *own: int) -> NDArray[Any]:
        """Return an array over some of the axes r, p, k, repeated over the others, flat."""
        sizes = [shape[axis] if axis in own else 1 for axis in range(3)]
        return np.broadcast_to(array.reshape(sizes), shape).reshape(-1)

    errors = (
        np.full(shape, np.nan)
        if explanation.standard_errors is None
        else explanation.standard_errors
    )
    columns = {
        "row": spread(np.arange(rows), 0),
        "output": spread(np.array(explanation.output_names, dtype=object), 2).tolist(),
        "player": spread(np.array(explanation.feature_names, dtype=object), 1).tolist(),
        "value": spread(explanation.values, 0, 1, 2),
        "standard_error": spread(errors, 0, 1, 2),
    }
    if explanation.display_data is not None:
        columns["data"] = [_told(value) for value in spread(explanation.display_data, 0, 1)]
    elif explanation.data is not None:
        columns["data"] = spread(explanation.data, 0, 1)
    ends = {"base_value": explanation.base_values, "prediction": explanation.predictions}
    return columns | {name: spread(end, 0, 2) for name, end in ends.items()}


def _told(value: Any) -> str | None:
    """Return a value as people read it, None where it is missing: NaN is not equal to itself."""
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return None if missing else str(value)


def shap_explanation(explanation: "Explanation") -> Any:
    """Return the `shap.Explanation` of `Explanation.to_shap`."""
    try:
        import shap
    except ImportError as error:
        raise InputError("to_shap needs shap: pip install shap") from error
    lower, upper = (None, None) if explanation.standard_errors is None else explanation.interval()
    words = (
        None
        if explanation.display_data is None
        else np.vectorize(_label, otypes=[object])(explanation.display_data)
    )
    return shap.Explanation(
        values=explanation.values,
        base_values=explanation.base_values,
        data=words if explanation.data is None else explanation.data,
        display_data=words,
        feature_names=list(explanation.feature_names),
        output_names=list(explanation.output_names) if explanation.values.ndim == 3 else None,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _label(value: Any) -> Any:
    """Return a value as shap can write it: a number, or a string also for a missing value, where
    its plots fail.
    """
    told = _told(value)
    return "missing" if told is None else value if isinstance(value, Real) else told


def interaction_values(explanation: "Explanation", row: int, output: int | str) -> Any:
    """Return the `shapiq.InteractionValues` of `Explanation.to_shapiq`."""
    try:
        from shapiq import InteractionValues
    except ImportError as error:
        raise InputError("to_shapiq needs shapiq: pip install shapiq") from error
    one = explanation[row].output(output)
    base = float(one.base_values[0])
    index, order, numbers = "SV", 1, [one.values[0]]
    if one.interactions is not None:
        pairs = one.interactions[0]
        index, order, numbers = (
            "k-SII",
            2,
            [pairs.diagonal(), pairs[np.triu_indices(len(pairs), 1)]],
        )
    return InteractionValues(
        values=np.concatenate(([base], *numbers)),
        index=index,
        max_order=order,
        min_order=0,
        n_players=one.values.shape[1],
        baseline_value=base,
        estimated=one.standard_errors is None or bool(one.standard_errors.any()),
        estimation_budget=one.evaluations,
    )
