"""Every method as a shapiq approximator: a game and a budget in, `shapiq.InteractionValues` out.

    from shearshap.interop.shapiq import Kriging

    approximator = Kriging(n=13, random_state=0)
    values = approximator.approximate(budget=208, game=game)
    explainer = shapiq.TabularExplainer(
        model, data, approximator=approximator, index="SV", max_order=1
    )

`Shapley` takes any method, by name or as an instance. Every method of `shearshap.METHODS` also has
a class of its own, such as `Kriging` or `KernelPaired`; `APPROXIMATORS` holds them all.
`interaction_values` makes shapiq's result of an explanation, for its plots.
"""

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shearshap.errors import InputError
from shearshap.explainer import explain_game
from shearshap.games.indices import BANZHAF
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap.result.explanation import Explanation

try:
    from shapiq import InteractionValues
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
        The same number gives the same values, also in a second call. None: new draws in every
        call.
    max_order, index
        1 and "SV", in case your code passes them to every approximator.
    """

    valid_indices = ("SV",)

    def __init__(
        self,
        n: int,
        random_state: int | None = None,
        *,
        method: str | Method = "auto",
        max_order: int = 1,
        index: str = "SV",
    ) -> None:
        if max_order != 1:
            raise InputError(
                f"max_order: expected 1, Shapley values, got {max_order}; for pairs take "
                "shearshap.explain_game(..., interactions=True).to_shapiq()"
            )
        super().__init__(n, max_order=1, index=index, random_state=random_state)
        self.method = method

    def approximate(
        self,
        budget: int,
        game: Callable[[NDArray[np.bool_]], ArrayLike],
        *args: Any,  # noqa: ARG002  (shapiq's explainers may pass more than is needed here)
        **kwargs: Any,  # noqa: ARG002
    ) -> Any:
        """Return the `InteractionValues` of a game.

        The game maps coalitions (c, n) of bool to their values (c,). It is evaluated at `budget`
        coalitions at most, the empty and the full one included. Further arguments are ignored, as
        shapiq's approximators do.
        """
        seed = self._random_state
        if seed is None:
            seed = int(self._rng.integers(1 << 31))

        explanation = explain_game(
            game, players=self.n, budget=budget, method=self.method, seed=seed
        )
        return interaction_values(explanation, 0, 0)


def _approximator(name: str) -> type[Shapley]:
    """Return the class of a method in METHODS: for "kernel-paired" it is KernelPaired."""
    contents = {
        "__init__": partialmethod(Shapley.__init__, method=name),
        "__doc__": f"Shapley values by the method {name!r}: {METHODS[name].__doc__}",
        "__module__": __name__,  # where pickle finds the class by its name
    }
    return type(name.title().replace("-", ""), (Shapley,), contents)


#: the class of every method, by its name in METHODS
APPROXIMATORS: dict[str, type[Shapley]] = {name: _approximator(name) for name in METHODS}


def interaction_values(explanation: Explanation, row: int, output: int | str) -> Any:
    """Return the `shapiq.InteractionValues` of `Explanation.to_shapiq`."""
    single = explanation[row].output(output)
    base_value = float(single.base_values[0])
    orders = [single.values[0]]
    index = "BV" if single.semivalue == BANZHAF.name else "SV"
    if single.interactions is not None:
        pairs = single.interactions[0]
        orders = [pairs.diagonal(), pairs[np.triu_indices(len(pairs), 1)]]
        index = single.interaction_index or "k-SII"
    if single.set_values is not None:
        orders = [single.set_values[0]]
    errors = single.standard_errors
    return InteractionValues(
        values=np.concatenate(([base_value], *orders)),
        index=index,
        max_order=1 if single.interactions is None else single.interaction_order,
        min_order=0,
        n_players=single.values.shape[1],
        baseline_value=base_value,
        estimated=errors is None or bool(errors.any()),
        estimation_budget=single.evaluations,
    )


def __getattr__(name: str) -> type[Shapley]:
    """Return the class of a method by its own name, so that `Kriging` can be imported."""
    for approximator in APPROXIMATORS.values():
        if approximator.__name__ == name:
            return approximator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
