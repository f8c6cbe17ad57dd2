"""The peers' estimators, each a function (value, players, budget, seed) -> values (p,).

`value` maps coalitions (c, p) to values (c,), and counts them. To add a peer, write such a function
and a line in PEERS. They get complement pairs where these help them, and wide batches.
"""

from typing import Any

import numpy as np
import shap
import torch
from captum.attr import KernelShap, ShapleyValueSampling

from comparison.shapiq_peers import SHAPIQ, Floats, Peer, Value

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
    **SHAPIQ,
    "shap KernelExplainer": shap_kernel,
    "shap PermutationExplainer": shap_permutation,
    "captum KernelShap": captum_kernel,
    "captum ShapleyValueSampling": captum_permutation,
}
