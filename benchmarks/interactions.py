"""Error of pairwise interactions against evaluations, beside shapiq's estimators.

    python benchmarks/interactions.py            census, bank, wine and digits
    python benchmarks/interactions.py --quick    wine alone, fewer rows

The networks are those of accuracy.py. The index is k-SII of order 2; its truth is exact, from all
2^p coalitions. Errors are the mean absolute error over pairs of players. Every estimator gets the
same budget, N evaluations a player and two, and shapiq's regressions their complement pairs.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from accuracy import EVALUATIONS_A_PLAYER, Setting, small_setting, table_setting
from setting import machine, parser_of
from shearshap import model_game
from shearshap_lab.markdown import plain_table

Floats = np.ndarray[Any, np.dtype[np.float64]]
OURS = ("kriging", "leverage")


def ours(setting: Setting, method: str, budget: int) -> Floats:
    """Return the interactions (r, p, p) that one of our methods estimates."""
    answer = setting.explain(budget, method, interactions=True)
    assert answer.interactions is not None
    assert answer.evaluations <= budget
    return answer.interactions


def peers() -> dict[str, Callable[[int, int], Any]]:
    """Return shapiq's estimators, as functions of players and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shapiq
    index: dict[str, Any] = {"max_order": 2, "index": "k-SII"}
    paired: dict[str, Any] = {**index, "pairing_trick": True}
    return {
        "KernelSHAPIQ": lambda n, seed: shapiq.KernelSHAPIQ(n=n, random_state=seed, **paired),
        "InconsistentKernelSHAPIQ": lambda n, seed: shapiq.InconsistentKernelSHAPIQ(
            n=n, random_state=seed, **paired
        ),
        "PermutationSamplingSII": lambda n, seed: shapiq.PermutationSamplingSII(
            n=n, random_state=seed, **index
        ),
    }


def theirs(setting: Setting, make: Callable[[int, int], Any], budget: int) -> Floats:
    """Return the interactions (r, p, p) that one of shapiq's estimators finds, row by row."""
    estimated = np.zeros((len(setting.rows), setting.players, setting.players))
    options: Any = {
        "reference": setting.background,
        "groups": setting.groups,
        "output": setting.output,
    }
    for number, row in enumerate(setting.rows):
        with model_game(setting.network, row[None], **options) as game, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = make(setting.players, number).approximate(budget, _value(game))
        for members, size in answer.dict_values.items():
            if len(members) == 2:
                i, j = members
                estimated[number, i, j] = size
                estimated[number, j, i] = size
    return estimated


def _value(game: Any) -> Callable[[Any], Floats]:
    def value(coalitions: Any) -> Floats:
        sets = torch.from_numpy(np.atleast_2d(coalitions).astype(bool))
        return np.asarray(game(sets[None])[0, :, 0].numpy())

    return value


def error(estimated: Floats, truth: Floats) -> float:
    """Return the mean absolute error over pairs."""
    i, j = np.triu_indices(truth.shape[1], 1)
    return float(np.abs(estimated - truth)[:, i, j].mean())


def row(setting: Setting, truth: Floats, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations a player."""
    budget = setting.budget(each)
    own = [error(ours(setting, method, budget), truth) for method in OURS]
    peer = [error(theirs(setting, make, budget), truth) for make in peers().values()]
    errors = [f"{size:.1e}" for size in (*own, *peer)]
    return [setting.name, str(each), *errors, f"{min(peer) / own[0]:.1f}"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="wine alone, and 4 rows")
    quick = parser.parse_args().quick
    rows = 4 if quick else 10
    print(f"{rows} rows; {machine()}\n")
    cells = []
    for setting in settings(rows, quick=quick):
        truth = ours(setting, "exact", 1 << setting.players)
        cells += [row(setting, truth, each) for each in EVALUATIONS_A_PLAYER]
    print(plain_table(["", "N", *OURS, *peers(), "best of shapiq over kriging"], cells))


def settings(rows: int, *, quick: bool) -> list[Setting]:
    """Return the networks to measure on."""
    wine = small_setting("wine", "relu", 0, rows)
    if quick:
        return [wine]
    tables = [
        table_setting(name, kind, 0, rows)
        for name in ("census", "bank")
        for kind in ("relu", "gelu")
    ]
    return [*tables, wine, small_setting("digits", "relu", 0, rows)]


if __name__ == "__main__":
    main()
