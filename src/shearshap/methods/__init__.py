"""Every method by name: a dict to read, and to look methods up in."""

from difflib import get_close_matches

from shearshap.errors import MethodError
from shearshap.gaussian.process import Calibration
from shearshap.methods.base import Method
from shearshap.methods.exact import Enumeration, Exact
from shearshap.methods.kernel import Kernel, Leverage, Welford
from shearshap.methods.kriging import Kriging
from shearshap.methods.permutation import Permutation
from shearshap.methods.shear import Shear

METHODS: dict[str, Method] = {
    "exact": Exact(),
    "shear": Shear(),
    "shear-unbiased": Shear(unbiased=True),
    "kernel": Kernel(),
    "kernel-paired": Kernel(paired=True),
    "kernel-welford": Welford(),
    "permutation": Permutation(),
    "permutation-antithetic": Permutation(antithetic=True),
    "leverage": Leverage(),
    "kriging": Kriging(),
}
"""The methods by name.

The paper's own protocols of the baselines are in `shearshap.paper.baselines`.
"""

MOST_KRIGED = 4096
"""Coalitions up to which "auto" takes kriging: its systems of equations have one unknown for two of
them.
"""


def resolve(method: str | Method, players: int, budget: int, *, stops: bool = False) -> Method:
    """Return the method asked for by name, as an instance, or by "auto" for this many players and
    coalitions.

    `stops`: whether rows are to stop before the budget is spent, which only "auto" heeds.
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "design"):
            raise MethodError(
                f"method: wanted a name or an instance such as Shear(), got {method!r}"
            )
        return method
    if method == "auto":
        return METHODS[automatic(players, budget, stops=stops)]
    if method not in METHODS:
        near = get_close_matches(method, ["auto", *METHODS], n=1, cutoff=0)
        raise MethodError(
            f"there is no method {method!r}; did you mean {near[0]!r}? There are: "
            f"{', '.join(METHODS)}"
        )
    return METHODS[method]


def automatic(players: int, budget: int, *, stops: bool = False) -> str:
    """Return the name of the method that "auto" stands for.

    Exact where the budget holds all coalitions, else the smallest error measured in the fair
    protocol (`benchmarks/accuracy.py`): kriging, while its systems of equations, one unknown a
    pair, stay small, else leverage. Where rows are to stop (`stops`), kriging at larger budgets
    too, unless its smallest design is all coalitions: most rows need but a part of the budget, and
    `solve` lets those that need more go on to all coalitions, or to leverage.
    """
    smallest, every = 2 + 2 * players, 1 << players
    if budget >= every and not (stops and smallest < every):
        return "exact"
    largest = min(budget, MOST_KRIGED) if stops else budget
    return "kriging" if smallest <= largest <= MOST_KRIGED else "leverage"


def name_of(method: Method) -> str:
    """Return the name in METHODS, or how the method prints itself."""
    return next((name for name, known in METHODS.items() if known == method), repr(method))


__all__ = [
    "METHODS",
    "MOST_KRIGED",
    "Calibration",
    "Enumeration",
    "Exact",
    "Kernel",
    "Kriging",
    "Leverage",
    "Permutation",
    "Shear",
    "Welford",
    "automatic",
    "name_of",
    "resolve",
]
