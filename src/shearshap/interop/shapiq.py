"""Every method as a shapiq approximator: a game and a budget in, `shapiq.InteractionValues` out.

    from shearshap.interop.shapiq import Kriging values = Kriging(n=13,
    random_state=0).approximate(budget=208, game=game) explainer = shapiq.TabularExplainer(model,
    data, approximator=Kriging(n=13), index="SV", max_order=1)

`Shapley` takes any method by name or instance; the other classes, all in `APPROXIMATORS`, have
theirs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.explainer import explain_game
from shearshap.methods import METHODS
from shearshap.methods.base import Method

try:
    from shapiq.approximator.base import Approximator
except ImportError as error:
    raise ImportError("shearshap.interop.shapiq needs shapiq: pip install shapiq") from error


class Shapley(Approximator):  # type: ignore[misc]
    """Shapley values (index "SV") by any of this package's methods.

    Parameters
    ----------
    n
        The number of players.
    method
        A name in `shearshap.METHODS`, an instance such as `shearshap.Shear(unbiased=True)`, or
        "auto".
    random_state
        Same number, same answer, also in a second call. None: other draws in every call.
    """

    valid_indices = ("SV",)

    def __init__(
        self, n: int, *, method: str | Method = "auto", random_state: int | None = None
    ) -> None:
        super().__init__(n, max_order=1, index="SV", random_state=random_state)
        self.method = method

    def approximate(
        self, budget: int, game: Callable[[NDArray[np.bool_]], NDArray[np.float64]]
    ) -> Any:
        """Return the `InteractionValues` of a game, which maps coalitions (c, n) of bool to values
        (c,).

        The game is asked for at most `budget` coalitions, the empty and the full one included.
        """
        seed = (
            int(self._rng.integers(1 << 31)) if self._random_state is None else self._random_state
        )
        return explain_game(
            game, players=self.n, budget=budget, method=self.method, seed=seed
        ).to_shapiq()


def _approximator(name: str) -> type[Shapley]:
    """Return the class of a method in METHODS: that of "kernel-paired" is KernelPaired."""

    class Named(Shapley):
        def __init__(self, n: int, *, random_state: int | None = None) -> None:
            super().__init__(n, method=name, random_state=random_state)

    Named.__name__ = Named.__qualname__ = "".join(word.capitalize() for word in name.split("-"))
    Named.__doc__ = f"Shapley values by the method {name!r}: {METHODS[name].__doc__}"
    return Named


APPROXIMATORS: dict[str, type[Shapley]] = {name: _approximator(name) for name in METHODS}
"""The class of every method, by its name in METHODS."""

Exact = APPROXIMATORS["exact"]
Shear = APPROXIMATORS["shear"]
ShearUnbiased = APPROXIMATORS["shear-unbiased"]
Kernel = APPROXIMATORS["kernel"]
KernelPaired = APPROXIMATORS["kernel-paired"]
KernelWelford = APPROXIMATORS["kernel-welford"]
Permutation = APPROXIMATORS["permutation"]
PermutationAntithetic = APPROXIMATORS["permutation-antithetic"]
Leverage = APPROXIMATORS["leverage"]
Kriging = APPROXIMATORS["kriging"]
