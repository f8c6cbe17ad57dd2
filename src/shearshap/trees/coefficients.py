"""What a leaf adds to the players that keep a background row or the row itself away from it.

For one row x, one background row z and one leaf, let q be the players whose conditions z fails on
the leaf's path, and u those that x fails. The coalition S, x on S and z elsewhere, reaches the
leaf iff q is within S and u outside of it. So the leaf counts iff q and u are disjoint, and its
game is value * [q <= S][S & u = 0], with a = |q| and b = |u|:

    a player of q gets   value * (a-1)! b! / (a+b)!,    one of u   -value * a! (b-1)! / (a+b)!,
    two of q interact by value * (a-2)! b! / (a+b-1)!,  two of u by value * a! (b-2)! / (a+b-1)!,
    one of each by      -value * (a-1)! (b-1)! / (a+b-1)!.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from shearshap.trees.forest import Floats


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The factors of a leaf's value, (m+1, m+1) each: by a = |q|, then by b = |u|."""

    present: Floats  #: for a player of q
    absent: Floats  #: for a player of u, without its sign
    both_present: Floats  #: for two players of q
    both_absent: Floats  #: for two players of u
    mixed: Floats  #: for one of each, without its sign


@lru_cache
def coefficients(most: int) -> Coefficients:
    """Return the factors for paths of up to `most` players."""
    # binomials are exact integers, whatever their size: factorials would overflow from 171! on
    return Coefficients(
        present=_table(most, lambda a, b: 1 / (a * comb(a + b, a)) if a else 0.0),
        absent=_table(most, lambda a, b: 1 / (b * comb(a + b, b)) if b else 0.0),
        both_present=_table(most, lambda a, b: _two(a, b)),
        both_absent=_table(most, lambda a, b: _two(b, a)),
        mixed=_table(most, lambda a, b: 1 / (b * comb(a + b - 1, b)) if a and b else 0.0),
    )


def _two(a: int, b: int) -> float:
    """Return (a-2)! b! / (a+b-1)!, 0 where there are no two."""
    return 1 / ((a - 1) * comb(a + b - 1, b)) if a >= 2 else 0.0


def _table(most: int, entry: Callable[[int, int], float]) -> Floats:
    sizes = range(most + 1)
    return np.array([[entry(a, b) for b in sizes] for a in sizes], dtype=np.float64)
