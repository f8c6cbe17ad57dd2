"""shapiq's estimators as functions (value, players, budget, seed) -> values (p,).

It needs numpy and shapiq alone: leaderboard.py runs it in an environment without torch.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shapiq import approximator as shapiq

Floats = NDArray[np.float64]
Value = Callable[[Any], Floats]
Peer = Callable[[Value, int, int, int], Floats]


def of_shapiq(make: Callable[[int, int], Any]) -> Peer:
    """Return the peer of an approximator, which is made from the number of players and the seed."""

    def estimate(value: Value, players: int, budget: int, seed: int) -> Floats:
        answer = make(players, seed).approximate(budget, value)
        return np.asarray(answer.get_n_order_values(1))

    return estimate


SHAPIQ: dict[str, Peer] = {
    "shapiq KernelSHAP": of_shapiq(
        lambda p, seed: shapiq.KernelSHAP(p, pairing_trick=True, random_state=seed)
    ),
    "shapiq LeverageSHAP": of_shapiq(lambda p, seed: shapiq.LeverageSHAP(p, random_state=seed)),
    "shapiq PolySHAP 2": of_shapiq(
        lambda p, seed: shapiq.PolySHAP(p, max_order=2, pairing_trick=True, random_state=seed)
    ),
    "shapiq PolySHAP 3": of_shapiq(
        lambda p, seed: shapiq.PolySHAP(p, max_order=3, pairing_trick=True, random_state=seed)
    ),
    "shapiq OddSHAP": of_shapiq(lambda p, seed: shapiq.OddSHAP(p, random_state=seed)),
    "shapiq RegressionMSR linear": of_shapiq(
        lambda p, seed: shapiq.RegressionMSR(p, "SV", proxy_model="linear", random_state=seed)
    ),
    "shapiq RegressionMSR xgb": of_shapiq(
        lambda p, seed: shapiq.RegressionMSR(p, "SV", proxy_model="xgboost", random_state=seed)
    ),
    "shapiq ProxySHAP": of_shapiq(
        lambda p, seed: shapiq.ProxySHAP(
            p, max_order=1, index="SV", adjustment=True, random_state=seed
        )
    ),
    "shapiq SVARM": of_shapiq(lambda p, seed: shapiq.SVARM(p, random_state=seed)),
    "shapiq PermutationSamplingSV": of_shapiq(
        lambda p, seed: shapiq.PermutationSamplingSV(p, random_state=seed)
    ),
}
