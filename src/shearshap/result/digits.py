"""Numbers as people read them: three digits, a true minus sign.

decimals([0.012, 4.57])                  2
format_number(4.5678, 2)                 4.57
format_number(-0.01234, 2, sign=True)    −0.01
format_estimate(4.5678, 0.25, 2)         +4.57 ± 0.25
format_end(0.4274, [120.0, -31.0])       0.427

Scripts of pages follow the same rules, in digits.js.
"""

from importlib.resources import files
from math import floor, log10

import numpy as np
from numpy.typing import ArrayLike

MINUS = "\N{MINUS SIGN}"
MOST_DIGITS = 9  #: of a base value or prediction, before and after the point


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
        text = f"{number + 0.0:{plus}.3g}"  # adding 0.0 turns -0.0 into 0.0
    else:
        rounded = round(number, places) + 0.0
        text = f"{rounded:{plus},.{places}f}"
    return true_minus(text)


def format_end(number: float, values: ArrayLike) -> str:
    """Return a base value or prediction as text: three digits of its own, or more.

    It has as many decimals as the values that lead from one to the other if those are more, so that
    small steps from a large number can be followed.
    """
    return format_number(number, end_decimals(number, values))


def end_decimals(number: float, values: ArrayLike) -> int | None:
    """Return the decimals of a base value or prediction beside the values of its row."""
    own = decimals(number)
    steps = decimals(values)
    if steps is None:
        return own
    if own is None:
        is_large = 1 <= abs(number) < 10**MOST_DIGITS
        return 0 if is_large else None

    before_point = floor(log10(abs(number))) + 1 if number else 1
    room = MOST_DIGITS - max(1, before_point)
    return max(own, min(steps, room))


def format_estimate(number: float, margin: float, places: int | None) -> str:
    """Return a signed number ± its margin; without a margin that rounds to 0 or is NaN."""
    text = format_number(number, places, sign=True)
    if margin >= smallest_shown(number, places):
        text += f" ± {format_number(margin, places)}"
    return text


def smallest_shown(number: float, places: int | None) -> float:
    """Return the smallest size that does not round to 0 beside a number with this many decimals."""
    return 1e-3 * abs(number) if places is None else 0.5 * 10**-places


def script() -> str:
    """Return the same rules as JavaScript: `digits.decimals`, `digits.format` and others."""
    return (files("shearshap") / "digits.js").read_text(encoding="utf-8")


def true_minus(text: str) -> str:
    """Return a number's text with minus signs in place of hyphens."""
    return text.replace("-", MINUS)
