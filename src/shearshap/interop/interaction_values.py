"""Explanations as shapiq's `InteractionValues`, for its plots."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation


def interaction_values(explanation: "Explanation", row: int, output: int | str) -> Any:
    """Return the `shapiq.InteractionValues` of `Explanation.to_shapiq`."""
    try:
        from shapiq import InteractionValues
    except ImportError as error:
        raise InputError("to_shapiq needs shapiq: pip install shapiq") from error

    single = explanation[row].output(output)
    base_value = float(single.base_values[0])
    orders = _values_by_order(single)
    errors = single.standard_errors
    return InteractionValues(
        values=np.concatenate(([base_value], *orders)),
        index="SV" if single.interactions is None else "k-SII",
        max_order=len(orders),
        min_order=0,
        n_players=single.values.shape[1],
        baseline_value=base_value,
        estimated=errors is None or bool(errors.any()),
        estimation_budget=single.evaluations,
    )


def _values_by_order(single: "Explanation") -> list[NDArray[np.float64]]:
    """Return the values of each player and, where there are interactions, of each pair i < j."""
    if single.interactions is None:
        return [single.values[0]]
    pairs = single.interactions[0]
    above = np.triu_indices(len(pairs), 1)
    return [pairs.diagonal(), pairs[above]]
