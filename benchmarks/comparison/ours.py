"""Our methods as estimators: one row at a time, as the peers work, and all rows together."""

import numpy as np

from comparison.games import Game
from comparison.measurement import Answer, Estimator

METHODS = ("kriging", "leverage", "permutation-antithetic", "shear", "auto")
DIFFERENTIATES = ("shear",)  #: it needs a model that can be differentiated

TOGETHER = ", rows together"  #: how the names of these estimators end


def ours() -> list[Estimator]:
    """Return all of them, first those that explain one row at a time."""
    return [
        estimator(method, together=together) for together in (False, True) for method in METHODS
    ]


def estimator(method: str, *, together: bool) -> Estimator:
    """Return the estimator of one of our methods."""

    def answer(game: Game, rows: slice, budget: int, seed: int) -> Answer:
        explanation = game.explain(rows, method=method, budget=budget, seed=seed)
        errors = explanation.standard_errors
        has_errors = errors is not None and np.isfinite(errors).all()
        return Answer(explanation.values, explanation.interval(0.95) if has_errors else None)

    return Estimator(
        f"{method}{TOGETHER}" if together else method,
        answer,
        ours=True,
        together=together,
        differentiates=method in DIFFERENTIATES,
    )
