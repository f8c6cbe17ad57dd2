"""Error of pairwise interactions against evaluations, beside shapiq's estimators, on networks
trained on bundled data.

    python benchmarks/interactions.py            census, bank, wine and digits
    python benchmarks/interactions.py --quick    wine alone, fewer rows

The networks of accuracy.py. The index is k-SII of order 2; its truth is exact, from all 2^p
coalitions. Errors are the mean absolute error over pairs of players. Every estimator gets the same
budget, N evaluations a player and two, and shapiq's regressions their complement pairs.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from accuracy import EVALUATIONS_A_PLAYER, Setting, small_setting, table_setting
from setting import machine, table
from shearshap import explain, model_game

Floats = np.ndarray[Any, np.dtype[np.float64]]
OURS = ("kriging", "leverage")


def ours(setting: Setting, method: str, budget: int) -> Floats:
    """Return the interactions (r, p, p) that one of our methods estimates."""
    answer = explain(
        setting.network, setting.rows, reference=setting.reference, groups=setting.groups, output=setting.output,
        budget=budget, method=method, interactions=True,
    )  # fmt: skip
    assert answer.interactions is not None
    assert answer.evaluations <= budget
    return answer.interactions


def peers() -> dict[str, Callable[[int, int], Any]]:
    """Return shapiq's estimators, as functions of players and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shapiq
    told: dict[str, Any] = {"max_order": 2, "index": "k-SII"}
    return {
        "KernelSHAPIQ": lambda n, seed: shapiq.KernelSHAPIQ(
            n=n, pairing_trick=True, random_state=seed, **told
        ),
        "InconsistentKernelSHAPIQ": lambda n, seed: shapiq.InconsistentKernelSHAPIQ(
            n=n, pairing_trick=True, random_state=seed, **told
        ),
        "PermutationSamplingSII": lambda n, seed: shapiq.PermutationSamplingSII(
            n=n, random_state=seed, **told
        ),
    }


def theirs(setting: Setting, make: Callable[[int, int], Any], budget: int) -> Floats:
    """Return the interactions (r, p, p) that one of shapiq's estimators finds, row by row."""
    found = np.zeros((len(setting.rows), setting.players, setting.players))
    options: Any = {
        "reference": setting.reference,
        "groups": setting.groups,
        "output": setting.output,
    }
    for at, row in enumerate(setting.rows):
        with model_game(setting.network, row[None], **options) as game, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = make(setting.players, at).approximate(budget, _value(game))
        for pair, number in told.dict_values.items():
            if len(pair) == 2:
                found[at, pair[0], pair[1]] = found[at, pair[1], pair[0]] = number
    return found


def _value(game: Any) -> Callable[[Any], Floats]:
    def value(coalitions: Any) -> Floats:
        asked = torch.from_numpy(np.atleast_2d(coalitions).astype(bool))
        return np.asarray(game(asked[None])[0, :, 0].numpy())

    return value


def error(found: Floats, truth: Floats) -> float:
    """Return the mean absolute error over pairs."""
    upper = np.triu_indices(truth.shape[1], 1)
    return float(np.abs(found - truth)[:, upper[0], upper[1]].mean())


def row(setting: Setting, truth: Floats, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations a player."""
    budget = each * setting.players + 2
    misses = [error(ours(setting, method, budget), truth) for method in OURS]
    misses += [error(theirs(setting, make, budget), truth) for make in peers().values()]
    return [
        setting.name,
        str(each),
        *(f"{miss:.1e}" for miss in misses),
        f"{min(misses[2:]) / misses[0]:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="wine alone, and 4 rows")
    quick = parser.parse_args().quick
    rows = 4 if quick else 10
    tried = [small_setting("wine", "relu", 0, rows)]
    if not quick:
        tables = [
            table_setting(name, kind, 0, rows)
            for name in ("census", "bank")
            for kind in ("relu", "gelu")
        ]
        tried = [*tables, *tried, small_setting("digits", "relu", 0, rows)]
    print(f"{rows} rows; {machine()}\n")
    truths = [ours(setting, "exact", 1 << setting.players) for setting in tried]
    cells = [row(setting, truth, each) for setting, truth in zip(tried, truths, strict=True)
             for each in EVALUATIONS_A_PLAYER]  # fmt: skip
    print(table(["", "N", *OURS, *peers(), "best of shapiq over kriging"], cells))


if __name__ == "__main__":
    main()
