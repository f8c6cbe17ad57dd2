"""Numbers that users give: checked where they come in."""

from math import inf
from typing import Any

import numpy as np

from shearshap.errors import BudgetError, InputError


def positive_int(name: str, number: Any) -> int:
    """Return an option that must be a positive integer; a seed may be 0."""
    is_seed = name == "seed"
    smallest = 0 if is_seed else 1
    if isinstance(number, float) and number.is_integer():
        number = int(number)  # such as 1e3
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_integer or number < smallest:
        error = BudgetError if name == "budget" else InputError
        expected = "an integer of 0 or more" if is_seed else "a positive integer"
        raise error(f"{name}: expected {expected}, got {number!r}")
    return int(number)


def check_positive(name: str, number: Any, meaning: str) -> None:
    """Raise if an option is not a positive number."""
    is_number = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    if not is_number or not 0 < number < inf:
        raise InputError(f"{name}: expected a positive number, {meaning}, got {number!r}")
