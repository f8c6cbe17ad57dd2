"""The peers' estimators, each a function (value, players, budget, seed) -> values (p,).

`value` maps coalitions (c, p) to values (c,), and counts them. To add a peer, write such a function
and a line in PEERS. They get complement pairs where these help them, and wide batches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import shap
import torch
from captum.attr import KernelShap, ShapleyValueSampling
from shapiq import approximator as shapiq

from comparison.games import Floats

Value = Callable[[Any], Floats]
Peer = Callable[[Value, int, int, int], Floats]


def of_shapiq(make: Callable[[int, int], Any]) -> Peer:
    """Return the peer of an approximator, which is made from the number of players and the seed."""

    def estimate(value: Value, players: int, budget: int, seed: int) -> Floats:
        answer = make(players, seed).approximate(budget, value)
        return np.asarray(answer.get_n_order_values(1))

    return estimate


# A row of ones against a background of zeros: an input is then a coalition.


def shap_kernel(value: Value, players: int, budget: int, seed: int) -> Floats:
    np.random.seed(seed)  # noqa: NPY002  (shap draws from numpy's global generator)
    explainer = shap.KernelExplainer(value, np.zeros((1, players)))
    # base value and prediction are not in nsamples; by default only ten players would get a value
    answer = explainer.shap_values(
        np.ones((1, players)), nsamples=budget - 2, l1_reg=0, silent=True
    )
    return np.asarray(answer[0])


def shap_permutation(value: Value, players: int, budget: int, seed: int) -> Floats:
    masker = shap.maskers.Independent(np.zeros((1, players)))
    explainer = shap.PermutationExplainer(value, masker, seed=seed)
    answer = explainer(np.ones((1, players)), max_evals=budget, batch_size=budget, silent=True)
    return np.asarray(answer.values[0])


def captum_kernel(value: Value, players: int, budget: int, seed: int) -> Floats:
    return of_captum(KernelShap, value, players, budget, seed, samples=budget)


def captum_permutation(value: Value, players: int, budget: int, seed: int) -> Floats:
    permutations = (budget - 1) // players
    return of_captum(ShapleyValueSampling, value, players, budget, seed, samples=permutations)


def of_captum(
    method: Any, value: Value, players: int, budget: int, seed: int, *, samples: int
) -> Floats:
    """Return the values by one of captum's methods."""
    torch.manual_seed(seed)
    explainer = method(lambda inputs: torch.from_numpy(value(inputs.numpy())))
    answer = explainer.attribute(
        torch.ones(1, players),
        baselines=torch.zeros(1, players),
        n_samples=samples,
        perturbations_per_eval=budget,
    )
    return np.asarray(answer[0].double())


PEERS: dict[str, Peer] = {
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
    "shap KernelExplainer": shap_kernel,
    "shap PermutationExplainer": shap_permutation,
    "captum KernelShap": captum_kernel,
    "captum ShapleyValueSampling": captum_permutation,
}
