"""What exact values of tree ensembles take: tables and walks beside shap's TreeExplainer.

    python benchmarks/trees.py                          every family, b = 1, 10 and 100
    python benchmarks/trees.py --families xgboost       some of them
    python benchmarks/trees.py --without-numba          by numpy alone
    python benchmarks/trees.py --quick                  200 rows, b = 1 and 10, each timed once
    python benchmarks/trees.py --covers                 without a background, by depth

Times include everything but the fit: reading the model, preparing its tables, and the values of
2000 rows of 12 columns against b background rows. All libraries run on one thread, one after the
other within one process, and each ratio is of two times next to each other. Times are processor
time: medians of 3, or the only one if a run takes more than 20 seconds. If shap would take
minutes, it explains fewer rows, and its time is scaled. "Difference" is the largest one from
shap's values, and "sum" by how much the values miss the prediction less the base value.

Without a background (`--covers`), values are path-dependent: 50 trees of each depth, or a random
forest of 20, explain 200 and 10,000 rows, beside shap's C++ (which asks that of XGBoost, LightGBM
and CatBoost). Of trees deeper than 8, shap explains at most 1,000 rows.

woodelf (`pip install woodelf_explainer`) is timed once if it is installed. shapiq is left out:
its tree explainer has no interventional values.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import catboost
import lightgbm
import numpy as np
import shap
import xgboost
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from setting import Tables, machine, parser_of
from shearshap.trees import values
from shearshap.trees.readers import read
from shearshap.trees.values import ExactTrees
from shearshap_lab.runner import THREADS

Floats = NDArray[np.float64]

COLUMNS = 12
ROWS = 2000
REPEATS = 3
LONG = 20.0  #: seconds from which on a run is timed once
COVER_ROWS = 1000  #: of deep trees that shap gets at most, without a background
PAIRS = {"catboost": 40_000, "random forest": 40_000}  #: rows * b that shap gets at most


# The models


def data(rows: int = 6000) -> tuple[Floats, Floats]:
    """Return inputs and a target with products, waves and thresholds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS))
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] * (x[:, 4] > 0)
    return x, y + 0.2 * x[:, 5:].sum(axis=1) + 0.3 * rng.normal(size=rows)


FAMILIES: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=150, max_depth=5, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(
        n_estimators=150, num_leaves=31, n_jobs=1, verbose=-1
    ),
    "hist gradient boosting": lambda: HistGradientBoostingRegressor(
        max_iter=100, max_leaf_nodes=31, early_stopping=False
    ),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=500, depth=6, thread_count=1, verbose=0, allow_writing_files=False
    ),
    "random forest": lambda: RandomForestRegressor(100, n_jobs=1, random_state=0),
}


# Who explains


def ours(model: Any, rows: Floats, background: Floats | None) -> Floats:
    trees = read(model)
    others = None if background is None else trees.preprocess(background)
    exact = ExactTrees(trees.forest, trees.owner, COLUMNS, others, rows=len(rows))
    return exact.values(trees.preprocess(rows))[:, :, 0]


def of_shap(model: Any, rows: Floats, background: Floats | None) -> Floats:
    way = "tree_path_dependent" if background is None else "interventional"
    explainer = shap.TreeExplainer(model, background, feature_perturbation=way)
    return np.asarray(explainer.shap_values(rows, check_additivity=False))


def of_woodelf(model: Any, rows: Floats, background: Floats | None) -> Floats:
    import pandas as pd
    from woodelf import WoodelfExplainer

    names = [f"Column_{number}" for number in range(COLUMNS)]
    others = None if background is None else pd.DataFrame(background, columns=names)
    explainer = WoodelfExplainer(model, others)
    values = explainer.shap_values(pd.DataFrame(rows, columns=names))
    return np.asarray(values, dtype=np.float64)


class Timed(NamedTuple):
    """The values of rows, and the seconds they took."""

    values: Floats
    processor: float
    wall: float


def timed(run: Callable[[], Floats], repeats: int) -> Timed:
    """Return the values of a run, and the medians of its times."""
    times = []
    for _ in range(repeats):
        start = time.process_time(), time.perf_counter()
        values = run()
        times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
        if times[-1][0] > LONG:
            break
    return Timed(values, *np.median(times, axis=0).tolist())


# The table

HEADER = ["model", "background rows", "rows per second", "shap rows per second"]
HEADER += ["times shap's speed", "times shap's speed, wall time", "woodelf, times shap's speed"]
HEADER += ["difference", "sum", "shap's sum"]


def line(family: str, model: Any, rows: Floats, background: Floats, repeats: int) -> list[str]:
    b = len(background)
    mine = timed(lambda: ours(model, rows, background), repeats)
    fewer = rows[: max(50, PAIRS.get(family, len(rows) * b) // b)]
    theirs = timed(lambda: of_shap(model, fewer, background), repeats)
    scale = len(rows) / len(fewer)
    return [
        family,
        str(b),
        f"{len(rows) / mine.processor:,.0f}",
        f"{len(fewer) / theirs.processor:,.0f}",
        f"{theirs.processor * scale / mine.processor:.1f}",
        f"{theirs.wall * scale / mine.wall:.1f}",
        woodelf_cell(model, rows, background, theirs.processor * scale),
        f"{np.abs(mine.values[: len(fewer)] - theirs.values).max():.0e}",
        f"{missed(model, rows, background, mine.values):.0e}",
        f"{missed(model, fewer, background, theirs.values):.0e}",
    ]


def woodelf_cell(model: Any, rows: Floats, background: Floats | None, of: float) -> str:
    """Return woodelf's speed, "" if it is not installed or takes no such model."""
    try:
        found = timed(lambda: of_woodelf(model, rows, background), 1)
    except Exception:  # noqa: BLE001  (another library, which may refuse in any way)
        return ""
    return f"{of / found.processor:.1f}"


def missed(model: Any, rows: Floats, background: Floats, values: Floats) -> float:
    """Return the largest difference of the values' sum from prediction less base value."""
    gained = model.predict(rows) - np.mean(model.predict(background))
    return float(np.abs(values.sum(axis=1) - gained).max())


# Without a background

COVER_HEADER = ["model", "depth", "leaves per tree", "rows", "rows per second"]
COVER_HEADER += ["shap rows per second", "times shap's speed", "woodelf, times shap's speed"]
COVER_HEADER += ["difference / largest value"]

DEEP: dict[str, Callable[[int], Any]] = {
    "xgboost": lambda depth: xgboost.XGBRegressor(n_estimators=50, max_depth=depth, n_jobs=1),
    "lightgbm": lambda depth: lightgbm.LGBMRegressor(
        n_estimators=50, max_depth=depth, num_leaves=1 << depth, n_jobs=1, verbose=-1
    ),
    "hist gradient boosting": lambda depth: HistGradientBoostingRegressor(
        max_iter=50, max_depth=depth, max_leaf_nodes=None, early_stopping=False
    ),
    "catboost": lambda depth: catboost.CatBoostRegressor(
        iterations=50, depth=depth, thread_count=1, verbose=0, allow_writing_files=False
    ),
    "random forest": lambda depth: RandomForestRegressor(
        20, max_depth=depth, n_jobs=1, random_state=0
    ),
}


def cover_line(family: str, depth: int, model: Any, rows: Floats, repeats: int) -> list[str]:
    ours(model, rows, None)  # imports, and what is compiled
    of_shap(model, rows[:2], None)
    mine = timed(lambda: ours(model, rows, None), repeats)
    fewer = rows[:COVER_ROWS] if depth > 8 else rows
    theirs = timed(lambda: of_shap(model, fewer, None), repeats if len(rows) < 1000 else 1)
    seconds = theirs.processor * len(rows) / len(fewer)
    forest = read(model).forest
    leaves = np.count_nonzero(forest.left < 0) / len(forest.roots)
    gap = np.abs(mine.values[: len(fewer)] - theirs.values).max() / np.abs(theirs.values).max()
    return [
        family,
        str(depth),
        f"{leaves:,.0f}",
        f"{len(rows):,}",
        f"{len(rows) / mine.processor:,.0f}",
        f"{len(rows) / seconds:,.0f}",
        f"{seconds / mine.processor:.1f}",
        woodelf_cell(model, rows, None, seconds),
        f"{gap:.0e}",
    ]


def cover_lines(
    families: list[str], depths: list[int], sizes: list[int], repeats: int
) -> list[list[str]]:
    x, y = data(12_000)
    lines = []
    for family, depth in product(families, depths):
        model = DEEP[family](depth).fit(x, y)
        for rows in sizes:
            lines.append(cover_line(family, depth, model, x[:rows], repeats))
            print(*lines[-1], sep=", ", flush=True)
    return lines


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--backgrounds", nargs="*", type=int, default=[1, 10, 100])
    parser.add_argument("--without-numba", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--covers", action="store_true")
    parser.add_argument("--depths", nargs="*", type=int, default=[4, 6, 8, 12])
    options = parser.parse_args()
    pinned = dict.fromkeys(THREADS, "1")
    if not pinned.items() <= dict(os.environ).items():
        # libraries count cores when they are imported: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **pinned})

    warnings.simplefilter("ignore")
    if options.without_numba:
        values.start_of_numba = lambda: float(np.inf)
    rows = 200 if options.quick else ROWS
    repeats = 1 if options.quick else REPEATS
    backgrounds = options.backgrounds[:2] if options.quick else options.backgrounds

    if options.covers:
        sizes = [200] if options.quick else [200, 10_000]
        lines = cover_lines(options.families, options.depths, sizes, repeats)
        Tables(machine(), options.csv).show("trees-without-background", COVER_HEADER, lines)
        return
    x, y = data()
    lines = []
    for family in options.families:
        model = FAMILIES[family]().fit(x, y)
        ours(model, x[:rows], x[-1:])  # imports, and what is compiled
        of_shap(model, x[:2], x[-1:])
        for b in backgrounds:
            lines.append(line(family, model, x[:rows], x[-b:], repeats))
            print(*lines[-1], flush=True)
    Tables(f"{rows} rows; {machine()}", options.csv).show("trees", HEADER, lines)


if __name__ == "__main__":
    main()
