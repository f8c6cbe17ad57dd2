"""What others use where evaluations are few: (game, value, budget, seed) -> values (p,).

`value` maps coalitions (c, p) of a row to values (c,), and counts them. To add a peer, write such a
function and a line in PEERS.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparison.games import Bools, Floats
from expensive.games import Expensive

Value = Callable[[Any], Floats]
Peer = Callable[[Expensive, Value, int, int], Floats]

PENALTIES = np.logspace(-3, 4, 15)  #: of the cross-validated ridge
LIME_WIDTH = 0.25  #: of LIME's kernel; it and the penalty are LIME's defaults for images
LIME_PENALTY = 1.0


# Linear models of random coalitions


def lime(game: Expensive, value: Value, budget: int, seed: int) -> Floats:
    """Return the coefficients of LIME's weighted ridge, which do not sum to the prediction."""
    from sklearn.linear_model import Ridge

    drawn = random_coalitions(game.players, budget - 1, seed)
    coalitions = np.concatenate((np.ones((1, game.players), dtype=bool), drawn))
    distances = 1 - np.sqrt(coalitions.mean(axis=1))  # cosine, from the full coalition
    weights = np.sqrt(np.exp(-(distances**2) / LIME_WIDTH**2))
    fitted = Ridge(alpha=LIME_PENALTY).fit(coalitions, value(coalitions), sample_weight=weights)
    return np.asarray(fitted.coef_, dtype=np.float64)


def ridge(game: Expensive, value: Value, budget: int, seed: int) -> Floats:
    """Return the coefficients of a cross-validated ridge, and what is left in equal parts."""
    from sklearn.linear_model import RidgeCV

    ends = np.repeat([[False], [True]], game.players, axis=1)
    coalitions = np.concatenate((ends, random_coalitions(game.players, budget - 2, seed)))
    values = value(coalitions)
    fitted = RidgeCV(alphas=PENALTIES).fit(2.0 * coalitions - 1, values)
    slopes = 2 * np.asarray(fitted.coef_, dtype=np.float64)
    left = values[1] - values[0] - slopes.sum()
    return np.asarray(slopes + left / game.players)


def random_coalitions(players: int, count: int, seed: int) -> Bools:
    """Return coalitions (c, p) in which each player is present with probability 1/2."""
    return np.random.default_rng(seed).random((count, players)) < 0.5


# shap's Partition explainer


def partition(game: Expensive, value: Value, budget: int, _seed: int) -> Floats:
    """Return shap's Owen values of a balanced tree over the players' places."""
    import shap

    masker = shap.maskers.Partition(np.zeros((1, game.players)), clustering=balanced(game.grid))
    explainer = shap.PartitionExplainer(value, masker)
    # one at a time, or it would go beyond the budget
    answer = explainer(np.ones((1, game.players)), max_evals=budget, batch_size=1, silent=True)
    return np.asarray(answer.values[0], dtype=np.float64)


def balanced(grid: tuple[int, ...]) -> Floats:
    """Return a tree over places, as scipy's linkage (p - 1, 4), that halves the longest side."""
    merges: list[tuple[int, int, float, int]] = []
    places = np.arange(np.prod(grid)).reshape(grid)

    def grow(block: NDArray[np.int64]) -> int:
        """Add a block's merges, and return its node."""
        if block.size == 1:
            return int(block.reshape(()))
        axis = int(np.argmax(block.shape))
        first, second = np.array_split(block, 2, axis=axis)
        pair = (grow(first), grow(second))
        merges.append((*pair, float(block.size), block.size))
        return places.size + len(merges) - 1

    grow(places)
    return np.array(merges, dtype=np.float64)


# shapiq's


def proxy_spex(game: Expensive, value: Value, budget: int, seed: int) -> Floats:
    from shapiq import approximator as shapiq

    from comparison.shapiq_peers import of_shapiq

    made = of_shapiq(
        # its search for hyperparameters takes minutes for a row
        lambda p, seed: shapiq.ProxySPEX(n=p, max_order=1, index="SV", hpo=False, random_state=seed)
    )
    return made(value, game.players, budget, seed)


def odd_shap(game: Expensive, value: Value, budget: int, seed: int) -> Floats:
    from shapiq import approximator as shapiq

    from comparison.shapiq_peers import of_shapiq

    made = of_shapiq(lambda p, seed: shapiq.OddSHAP(p, random_state=seed))
    return made(value, game.players, budget, seed)


PEERS: dict[str, Peer] = {
    "LIME": lime,
    "ridge, cross-validated": ridge,
    "shap Partition": partition,
    "shapiq ProxySPEX": proxy_spex,
    "shapiq OddSHAP": odd_shap,
}
