"""Error, top five and coverage at budgets from p/4 to 4p evaluations of p players.

    python benchmarks/low_budgets.py             all games and methods
    python benchmarks/low_budgets.py --quick     one game of each kind, one row
    python benchmarks/low_budgets.py --methods kriging leverage
    python benchmarks/low_budgets.py --make      train the models, and find the true values

Games are made once, in out/low-budgets: some minutes to train, and the true values of the texts
take hours on a CPU, minutes on a GPU (--device cuda). Other libraries need the environment of
benchmarks/peers.py; without them, any environment will do.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge, RidgeCV

from low_budget_games import KINDS, load, make_all, names
from peers import of_shapiq
from setting import Tables, machine, parser_of
from shearshap import Explanation, explain_game
from shearshap_lab.games.study import Subject, record, top_found
from shearshap_lab.games.tables import CountedGame, Rows
from shearshap_lab.runner import in_processes

QUICK = ("text-60", "digits-perceptron-mean", "cancer-network", "sparse-100-0")
EACH = (0.25, 0.5, 1.0, 2.0, 4.0)  #: evaluations per player
OURS = ("kriging", "permutation", "permutation-antithetic", "leverage")
UNKNOWN = "kriging, inputs unknown"  #: kriging that sees a function of coalitions only


# What others use when evaluations are few


def lime(game: Any, players: int, budget: int, seed: int) -> Any:
    """Return the coefficients of LIME's weighted ridge, with its defaults for images."""
    drawn = np.random.default_rng(seed).random((budget - 1, players)) < 0.5
    coalitions = np.concatenate((np.ones((1, players), dtype=bool), drawn))
    distances = 1 - np.sqrt(coalitions.mean(axis=1))  # cosine, from the full coalition
    weights = np.sqrt(np.exp(-(distances**2) / 0.25**2))
    return Ridge(alpha=1.0).fit(coalitions, game(coalitions), sample_weight=weights).coef_


def ridge(game: Any, players: int, budget: int, seed: int) -> Any:
    """Return the coefficients of a cross-validated ridge, and what is left in equal parts."""
    ends = np.repeat([[False], [True]], players, axis=1)
    drawn = np.random.default_rng(seed).random((budget - 2, players)) < 0.5
    coalitions = np.concatenate((ends, drawn))
    values = game(coalitions)
    fitted = RidgeCV(alphas=np.logspace(-3, 4, 15)).fit(2.0 * coalitions - 1, values)
    slopes = 2 * fitted.coef_
    return slopes + (values[1] - values[0] - slopes.sum()) / players


def partition(game: Any, players: int, budget: int, _seed: int) -> Any:
    """Return shap's Owen values of a balanced tree over the players' places."""
    import shap

    merges: list[tuple[int, int, float, int]] = []

    def grow(block: Any) -> int:
        """Add the merges of a block, which halve its longest side, and return its node."""
        if block.size == 1:
            return int(block.reshape(()))
        first, second = np.array_split(block, 2, axis=int(np.argmax(block.shape)))
        merges.append((grow(first), grow(second), float(block.size), block.size))
        return players + len(merges) - 1

    # 64 players are the pixels of a digit; others stand in a line
    grow(np.arange(players).reshape((8, 8) if players == 64 else (players,)))
    tree = np.array(merges, dtype=np.float64)
    masker = shap.maskers.Partition(np.zeros((1, players)), clustering=tree)
    explainer = shap.PartitionExplainer(game, masker)
    # one at a time, or it would go beyond the budget
    row = np.ones((1, players))
    return explainer(row, max_evals=budget, batch_size=1, silent=True).values[0]


SIMPLE: dict[str, Callable[..., Any]] = {"LIME": lime, "ridge, cross-validated": ridge}
OF_LIBRARIES: dict[str, Callable[..., Any]] = {
    "shap Partition": partition,
    # its search for hyperparameters takes minutes for a row
    "shapiq ProxySPEX": of_shapiq("ProxySPEX", max_order=1, index="SV", hpo=False),
    "shapiq OddSHAP": of_shapiq("OddSHAP"),
}
METHODS = (*OURS, UNKNOWN, *SIMPLE, *OF_LIBRARIES)


# Scores


def scores_of(work: tuple[str, str], rows: int | None, seeds: int) -> list[dict[str, Any]]:
    """Return the records of a method on a game, at all budgets."""
    name, method = work
    subject = load(name)
    count = len(subject.inputs[:rows])
    # other draws for each row, or a single lucky draw would decide
    return [
        {"kind": subject.kind, "game": name, "method": method, "each": each}
        | score(subject, method, each, row, seed * count + row)
        for each in EACH
        for seed in range(seeds)
        for row in range(count)
    ]


def score(rows: Rows, method: str, each: float, row: int, seed: int) -> dict[str, Any]:
    """Call a method once; return error, top five and coverage, or why there are none."""
    game = rows.game(row)
    budget = round(each * game.players) + 2
    counted = CountedGame(game, budget=budget, seed=seed)
    options: dict[str, Any] = {"budget": budget, "seed": seed}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method in OURS:
                answer: Any = rows.explain(slice(row, row + 1), method=method, **options)
            elif method == UNKNOWN:
                answer = explain_game(counted, players=game.players, method="kriging", **options)
            else:
                peer = (SIMPLE | OF_LIBRARIES)[method]
                answer = np.asarray(peer(counted, game.players, budget, seed))[None]
    except Exception as error:  # noqa: BLE001  (whatever happens in a peer, the others go on)
        return {"failure": f"{type(error).__name__}: {error}".split("\n")[0]}
    size = np.abs(game.phi).mean()
    subject = Subject(rows.kind, game.phi[None], np.array([size]), rows.explain)
    values = answer.values if isinstance(answer, Explanation) else answer
    found = {
        "error": float(np.abs(values[0] - game.phi).mean() / size),
        "top": top_found(values[0], game.phi),
        "overspent": counted.evaluations > budget,
        "failure": "",
    }
    if isinstance(answer, Explanation):
        held = record(answer, subject, None)
        if held["known"] == held["values"]:
            found["coverage"] = held["held"] / held["values"]
    return found


# The tables


def report(tables: Tables, scores: pd.DataFrame) -> None:
    """Print a table for each kind of game, and what failed."""
    header = ["games", "method", "evaluations per player", "error", "top five %"]
    header += ["intervals that hold %", "over budget"]
    for kind in [kind for kind in KINDS if kind in set(scores["kind"])]:
        own = scores[scores["kind"] == kind]
        lines = [
            [kind, str(name), f"{each:g}", *cells]
            for name, of_method in own.groupby("method", sort=False)
            for each in EACH
            if (cells := _cells(of_method[of_method["each"] == each]))
        ]
        tables.show("few-evaluations", header, lines)
    failed = scores[~scores["failure"].str.startswith("BudgetError") & (scores["failure"] != "")]
    if len(failed):
        kept = failed.drop_duplicates(["method", "kind", "each"])
        lines = kept[["method", "kind", "each", "failure"]].astype(str).to_numpy().tolist()
        columns = ["method", "games", "evaluations per player", "reason"]
        tables.show("few-evaluations-failures", columns, lines)


def _cells(scores: pd.DataFrame) -> list[str]:
    """Return means over games, rows and seeds, and whether more was spent; none if one failed."""
    if not len(scores) or (scores["failure"] != "").any():
        return []
    error, top, covered = scores.groupby("game")[["error", "top", "coverage"]].mean().mean()
    held = f"{covered:.0%}" if scores["coverage"].notna().all() else ""
    return [f"{error:.2f}", f"{top:.0%}", held, "yes" if scores["overspent"].any() else ""]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="one game of each kind, one row")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of games (all)")
    parser.add_argument("--games", nargs="+", help="names of games (all)")
    parser.add_argument("--rows", type=int, help="rows of each game, at most (all; quick: 1)")
    parser.add_argument("--seeds", type=int, help="runs over all rows (2; quick: 1)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="(all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--make", action="store_true", help="make the games, and measure nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of --make (cpu)")
    options = parser.parse_args()
    if options.make:
        make_all(options.device)
        return
    rows = options.rows or (1 if options.quick else None)
    seeds = options.seeds or (1 if options.quick else 2)
    wanted = options.games or (QUICK if options.quick else names())
    chosen = [name for name in wanted if load(name).kind in options.kinds]
    work = [(name, method) for name in chosen for method in options.methods]
    found = in_processes(partial(scores_of, rows=rows, seeds=seeds), work, options.jobs)
    empty = {"coverage": np.nan, "overspent": False}
    scores = pd.DataFrame([{**empty, **line} for of_work in found for line in of_work])
    report(Tables(f"{seeds} seeds; {machine()}", options.csv), scores)


if __name__ == "__main__":
    main()
