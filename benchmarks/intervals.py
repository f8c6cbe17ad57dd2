"""How many of the exact values the 95 % intervals hold, for every method with standard errors.

    python benchmarks/intervals.py            every method, 16 seeds of each (kriging: four)
    python benchmarks/intervals.py --quick    census alone, fewer rows and one seed

The paper's networks on census and bank, softplus, trained in full; the explained output is one
logit, its truth exact. N evaluations a player are a budget of N p + 2. A cell is empty where the
method has no standard errors at that budget, with any seed. In the last columns rows may stop at a
tolerance, a tenth or a hundredth of the mean |phi|, within 64 a player.
"""

import argparse
import warnings

import numpy as np

from accuracy import Setting, table_setting
from setting import EVERY_METHOD, machine, table
from shearshap import BudgetError, Explanation

EVALUATIONS_A_PLAYER = (4, 8, 16, 32, 64)
#: exact values need no intervals, and biased methods have none
WITHOUT = ("exact", "auto", "shear", "kernel-paper", "kernel-paired-paper")
WITH_ERRORS = [name for name in EVERY_METHOD if name not in WITHOUT]
FRACTIONS = (0.1, 0.01)  #: of the mean |phi|: the tolerances


def coverage(answer: Explanation, truth: Explanation) -> float:
    """Return the fraction of exact values that the 95 % intervals hold."""
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
    slow = EVERY_METHOD[method].pilot_rows > 0
    coverages = []
    for seed in range(min(seeds, 4) if slow else seeds):
        answer = explanation(setting, method, setting.budget(each), seed, tol)
        if answer is None or answer.standard_errors is None:
            return ""
        coverages.append(coverage(answer, truth))
    return f"{np.mean(coverages):.1%}"


def explanation(
    setting: Setting, method: str, budget: int, seed: int, tol: float | None
) -> Explanation | None:
    """Return the explanation, or None where the budget is too small for the method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return setting.explain(budget, method, seed, tol=tol)
        except BudgetError:
            return None


def row(setting: Setting, truth: Explanation, method: str, seeds: int) -> list[str]:
    """Return the cells of one network and method."""
    cells = [cell(setting, truth, method, each, seeds) for each in EVALUATIONS_A_PLAYER]
    cells += stopped(setting, truth, method, seeds)
    dataset = setting.name.split()[0]
    return [dataset, method, *cells]


def stopped(setting: Setting, truth: Explanation, method: str, seeds: int) -> list[str]:
    """Return the cells where rows stop at a tolerance; empty for methods that cannot stop."""
    if not EVERY_METHOD[method].stops:
        return [""] * len(FRACTIONS)
    size = float(np.abs(truth.values).mean())
    most = EVALUATIONS_A_PLAYER[-1]
    return [cell(setting, truth, method, most, seeds, fraction * size) for fraction in FRACTIONS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="census alone, 20 rows and one seed")
    quick = parser.parse_args().quick
    names, rows, seeds = (("census",), 20, 1) if quick else (("census", "bank"), 60, 16)
    print(f"{rows} rows, {seeds} seeds; {machine()}\n")

    cells = []
    for name in names:
        setting = table_setting(name, "softplus", 0, rows)
        truth = setting.explain(1 << setting.players, "exact")
        cells += [row(setting, truth, method, seeds) for method in WITH_ERRORS]
    budgets = [f"N = {each}" for each in EVALUATIONS_A_PLAYER]
    tolerances = [f"tol {fraction:.0%}" for fraction in FRACTIONS]
    print(table(["", "", *budgets, *tolerances], cells))


if __name__ == "__main__":
    main()
