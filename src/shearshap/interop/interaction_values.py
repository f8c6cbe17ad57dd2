"""Explanations as shapiq's `InteractionValues`, for its plots."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shearshap.errors import InputError

if TYPE_CHECKING:
    from shearshap.explanation import Explanation


def interaction_values(explanation: "Explanation", row: int, output: int | str) -> Any:
    """Return the `shapiq.InteractionValues` of `Explanation.to_shapiq`."""
    try:
        from shapiq import InteractionValues
    except ImportError as error:
        raise InputError("to_shapiq needs shapiq: pip install shapiq") from error

    single = explanation[row].output(output)
    base_value = float(single.base_values[0])
    errors = single.standard_errors

    # shapiq wants one flat array: the empty coalition, each player, and each pair.
    numbers = [np.array([base_value]), single.values[0]]
    if single.interactions is not None:
        pairs = single.interactions[0]
        above = np.triu_indices(len(pairs), 1)
        numbers = [np.array([base_value]), pairs.diagonal(), pairs[above]]

    return InteractionValues(
        values=np.concatenate(numbers),
        index="SV" if single.interactions is None else "k-SII",
        max_order=len(numbers) - 1,
        min_order=0,
        n_players=single.values.shape[1],
        baseline_value=base_value,
        estimated=errors is None or bool(errors.any()),
        estimation_budget=single.evaluations,
    )
