"""How much work kriging spends on rows, by sizes alone: pairs m and players p."""

import math
from dataclasses import dataclass

MOST_CENTRES = 8  #: kernels that all rows share
FEWEST_CENTRES = 4
CENTRE_WORK = 6e9  #: multiplications that the matrices of all centres may cost

MOST_REFINED = 1024  #: pairs up to which rows refine the answer of their centre
PRODUCT_WORK = 1.25e6  #: pairs times products that are always affordable
LEAST_TRIPLES = 0.1  #: part of all triples of players that the products must be able to include
LEAST_STEPS = 9  #: of conjugate gradients
MOST_STEPS = 24

FEW_ROWS = 32  #: pilot rows below which no rows share kernels
EXACT_WORK = 1e9  #: pilot rows times cubed pairs that exact solutions may cost

MANY_OUTPUTS = 8  #: from which on those of a row have one kernel


@dataclass(frozen=True)
class Effort:
    """How many kernels rows share, and how far a row goes beyond them."""

    centres: int  #: relevances at which there are shared kernels
    products: int  #: products of players that describe what is a row's own
    steps: int  #: of conjugate gradients with them


#: one kernel for all rows, and nothing of their own
PLAIN = Effort(centres=1, products=0, steps=0)


def effort(pairs: int, players: int) -> Effort:
    """Return the effort for m pairs of p players.

    A row's own kernel pays where a few products of players make most of it. With many players it
    lowers errors by a tenth or two, but takes many times as long.
    """
    triples = math.comb(players, 3)
    affordable = min(triples, int(PRODUCT_WORK / pairs))
    products = max(4 * pairs + 128, affordable)
    if pairs > MOST_REFINED or products < LEAST_TRIPLES * triples:
        return PLAIN

    centres = int(CENTRE_WORK / (pairs**2 * (pairs + products)))
    centres = max(FEWEST_CENTRES, min(centres, MOST_CENTRES))
    steps = max(LEAST_STEPS, min(pairs // 10, MOST_STEPS))
    return Effort(centres, products, steps)


def shares_kernels(rows: int, pairs: int) -> bool:
    """Return whether a calibration to so many rows, at m pairs, lets rows share kernels.

    A few rows do not say which relevances others have, and their equations are soon solved. A
    single row has nothing to share.
    """
    return rows >= FEW_ROWS or (rows > 1 and rows * pairs**3 > EXACT_WORK)
