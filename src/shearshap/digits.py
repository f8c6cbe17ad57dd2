"""Numbers as people read them: three digits, a true minus sign."""

from math import floor, log10

import numpy as np
from numpy.typing import NDArray

MINUS = "\N{MINUS SIGN}"


def decimals(numbers: NDArray[np.float64]) -> int | None:
    """Return how many decimals give the largest of some numbers three digits; None: write powers of
    ten.
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest == 0:
        return 0
    return max(0, 2 - floor(log10(largest))) if 1e-4 <= largest < 1e7 else None


def written(number: float, places: int | None, *, sign: bool = False) -> str:
    """Return a number with so many decimals, or with three digits and a power of ten."""
    plus = "+" if sign else ""
    text = (
        f"{number:{plus}.3g}"
        if places is None
        else f"{round(number, places) + 0.0:{plus},.{places}f}"
    )
    return text.replace("-", MINUS)


def least(number: float, places: int | None) -> float:
    """Return what is no longer 0 in so many decimals, or beside the three digits of a number."""
    return 1e-3 * abs(number) if places is None else 0.5 * 10**-places
