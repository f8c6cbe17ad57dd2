"""Numbers as people read them: three digits, a true minus sign.

decimals([0.012, 4.57])                  2
format_number(4.5678, 2)                 4.57
format_number(-0.01234, 2, sign=True)    −0.01
format_estimate(4.5678, 0.25, 2)         +4.57 ± 0.25
"""

from math import floor, log10

import numpy as np
from numpy.typing import ArrayLike

MINUS = "\N{MINUS SIGN}"


def decimals(numbers: ArrayLike) -> int | None:
    """Return the decimals that show three digits of the largest number.

    None stands for powers of ten: the largest number is too small or too large for decimals.
    """
    largest = float(np.abs(np.asarray(numbers)).max(initial=0.0))
    if largest == 0:
        return 0
    if not 1e-4 <= largest < 1e7:
        return None
    return max(0, 2 - floor(log10(largest)))


def format_number(number: float, places: int | None, *, sign: bool = False) -> str:
    """Return a number with this many decimals, or as three digits and a power of ten."""
    plus = "+" if sign else ""
    if places is None:
        text = f"{number:{plus}.3g}"
    else:
        rounded = round(number, places) + 0.0  # adding 0.0 turns -0.0 into 0.0
        text = f"{rounded:{plus},.{places}f}"
    return true_minus(text)


def format_estimate(number: float, margin: float, places: int | None) -> str:
    """Return a signed number ± its margin; without a margin that rounds to 0 or is NaN."""
    text = format_number(number, places, sign=True)
    if margin >= smallest_shown(number, places):
        text += f" ± {format_number(margin, places)}"
    return text


def smallest_shown(number: float, places: int | None) -> float:
    """Return the smallest size that does not round to 0 beside a number with this many decimals."""
    return 1e-3 * abs(number) if places is None else 0.5 * 10**-places


def true_minus(text: str) -> str:
    """Return a number's text with minus signs in place of hyphens."""
    return text.replace("-", MINUS)
