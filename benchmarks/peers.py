"""Other libraries' estimators.

Each estimator is a function (game, players, budget, seed) -> values (p,), where the game maps
coalitions (c, p) to values (c,) and counts them. They get complement pairs if these help them, and
wide batches. To add one, write such a function and a line in PEERS.

shapiq's newest estimators need Python 3.12, and the versions in peers-requirements.txt; README.md
says how to make an environment for them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

Peer = Callable[[Any, int, int, int], Any]


# Estimators


def of_shapiq(name: str, **options: Any) -> Peer:
    """Return the peer of one of shapiq's approximators."""

    def estimate(game: Any, players: int, budget: int, seed: int) -> Any:
        from shapiq import approximator

        made = getattr(approximator, name)(n=players, random_state=seed, **options)
        return made.approximate(budget, game).get_n_order_values(1)

    return estimate


# A row of ones against a background of zeros: an input is then a coalition.


def shap_kernel(game: Any, players: int, budget: int, seed: int) -> Any:
    import shap

    np.random.seed(seed)  # noqa: NPY002  (shap draws from numpy's global generator)
    explainer = shap.KernelExplainer(game, np.zeros((1, players)))
    # base value and prediction are not in nsamples; by default only ten players would get a value
    row = np.ones((1, players))
    return explainer.shap_values(row, nsamples=budget - 2, l1_reg=0, silent=True)[0]


def shap_permutation(game: Any, players: int, budget: int, seed: int) -> Any:
    import shap

    masker = shap.maskers.Independent(np.zeros((1, players)))
    explainer = shap.PermutationExplainer(game, masker, seed=seed)
    row = np.ones((1, players))
    return explainer(row, max_evals=budget, batch_size=budget, silent=True).values[0]


def of_captum(name: str, game: Any, players: int, budget: int, seed: int) -> Any:
    from captum import attr

    torch.manual_seed(seed)
    explainer = getattr(attr, name)(lambda inputs: torch.from_numpy(game(inputs.numpy())))
    answer = explainer.attribute(
        torch.ones(1, players),
        baselines=torch.zeros(1, players),
        n_samples=budget if name == "KernelShap" else (budget - 1) // players,
        perturbations_per_eval=budget,
    )
    return answer[0].double().numpy()


PEERS: dict[str, Peer] = {
    "shapiq KernelSHAP": of_shapiq("KernelSHAP", pairing_trick=True),
    "shapiq LeverageSHAP": of_shapiq("LeverageSHAP"),
    "shapiq PolySHAP 2": of_shapiq("PolySHAP", max_order=2, pairing_trick=True),
    "shapiq PolySHAP 3": of_shapiq("PolySHAP", max_order=3, pairing_trick=True),
    "shapiq OddSHAP": of_shapiq("OddSHAP"),
    "shapiq RegressionMSR linear": of_shapiq("RegressionMSR", index="SV", proxy_model="linear"),
    "shapiq RegressionMSR xgb": of_shapiq("RegressionMSR", index="SV", proxy_model="xgboost"),
    "shapiq ProxySHAP": of_shapiq("ProxySHAP", max_order=1, index="SV", adjustment=True),
    "shapiq SVARM": of_shapiq("SVARM"),
    "shapiq PermutationSamplingSV": of_shapiq("PermutationSamplingSV"),
    "shap KernelExplainer": shap_kernel,
    "shap PermutationExplainer": shap_permutation,
    "captum KernelShap": partial(of_captum, "KernelShap"),
    "captum ShapleyValueSampling": partial(of_captum, "ShapleyValueSampling"),
}
