"""How many of the exact values the 95 % intervals of every method hold, on networks trained on
census and bank.

    python benchmarks/intervals.py            every method, 16 seeds of each (kriging: four)
    python benchmarks/intervals.py --quick    census alone, fewer rows and one seed

The paper's networks, softplus, trained in full; the explained output is one logit, its truth exact.
N evaluations a player are a budget of N p + 2. A cell is empty where the method has no standard
errors at that budget, with any seed. The last columns let rows stop at a tolerance, a tenth of the
mean |share| and a hundredth, within 64 a player.
"""

import argparse
import warnings
from typing import Any

import numpy as np

from accuracy import Setting, table_setting
from setting import machine, table
from shearshap import METHODS, BudgetError, Explanation, explain

EVALUATIONS_A_PLAYER = (4, 8, 16, 32, 64)
TELLING = [
    name
    for name in METHODS
    if name not in ("exact", "shear", "kernel-paper", "kernel-paired-paper")
]
PARTS = (0.1, 0.01)  #: of the mean |share|: the tolerances


def held(answer: Explanation, truth: Explanation) -> float:
    """Return the share of exact values that the 95 % intervals hold."""
    lower, upper = answer.interval(0.95)
    return float(((lower <= truth.values) & (truth.values <= upper)).mean())


def cell(
    setting: Setting,
    truth: Explanation,
    method: str,
    each: int,
    seeds: int,
    tol: float | None = None,
) -> str:
    """Return the mean coverage over seeds, or nothing where there are no standard errors."""
    found = []
    for seed in range(min(seeds, 4) if method == "kriging" else seeds):
        answer = asked(setting, method, 2 + each * setting.players, seed, tol)
        if answer is None or answer.standard_errors is None:
            return ""
        found.append(held(answer, truth))
    return f"{np.mean(found):.1%}"


def asked(
    setting: Setting, method: str, budget: int, seed: int, tol: float | None
) -> Explanation | None:
    """Return the explanation, or None where the budget is too small for the method."""
    options: Any = {
        "reference": setting.reference,
        "groups": setting.groups,
        "output": setting.output,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return explain(
                setting.network, setting.rows, budget=budget, method=method, seed=seed, tol=tol, **options
            )  # fmt: skip
        except BudgetError:
            return None


def row(setting: Setting, truth: Explanation, method: str, seeds: int) -> list[str]:
    """Return the cells of one network and method."""
    cells = [cell(setting, truth, method, each, seeds) for each in EVALUATIONS_A_PLAYER]
    size = float(np.abs(truth.values).mean())
    stops = METHODS[method].stops
    last = EVALUATIONS_A_PLAYER[-1]
    cells += [
        cell(setting, truth, method, last, seeds, part * size) if stops else "" for part in PARTS
    ]
    return [setting.name.split()[0], method, *cells]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="census alone, 20 rows and one seed")
    quick = parser.parse_args().quick
    names, rows, seeds = (("census",), 20, 1) if quick else (("census", "bank"), 60, 16)
    tried = [table_setting(name, "softplus", 0, rows) for name in names]
    print(f"{rows} rows, {seeds} seeds; {machine()}\n")
    cells = []
    for setting in tried:
        truth = setting.explain(1 << setting.players, "exact")
        cells += [row(setting, truth, method, seeds) for method in TELLING]
    header = [
        "",
        "",
        *(f"N = {each}" for each in EVALUATIONS_A_PLAYER),
        *(f"tol {part:.0%}" for part in PARTS),
    ]
    print(table(header, cells))


if __name__ == "__main__":
    main()
