"""Error, top five and coverage at budgets from p/4 to 4p evaluations of p players.

    python benchmarks/low_budgets.py             all games and methods
    python benchmarks/low_budgets.py --quick     one game of each kind, one row
    python benchmarks/low_budgets.py --methods kriging leverage
    python benchmarks/low_budgets.py --make      train the models, and find the true values

Games are made once, in out/low-budgets: some minutes to train, and the true values of the texts
take hours on a CPU, minutes on a GPU (--device cuda). Other libraries need the environment of
benchmarks/peers.py, which is set up at the first start; without them, any environment will do.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from peers import THREADS, of_shapiq, run_inside

if TYPE_CHECKING:  # any Python can start the command, with or without our packages
    from low_budget_games import Subject
    from shearshap_lab.games.tables import CountedGame, Floats

KINDS = ("texts", "images", "tables", "sparse")
QUICK = ("text-60", "digits-perceptron-mean", "cancer-network", "sparse-100-0")
EACH = (0.25, 0.5, 1.0, 2.0, 4.0)  #: evaluations a player
TOP = 5
OURS = ("kriging", "permutation", "permutation-antithetic", "leverage")
UNKNOWN = "kriging, inputs unknown"  #: kriging that sees a function of coalitions only


# What others use when evaluations are few


def lime(_subject: "Subject", game: "CountedGame", budget: int, seed: int) -> Any:
    """Return the coefficients of LIME's weighted ridge, with its defaults for images."""
    import numpy as np
    from sklearn.linear_model import Ridge

    drawn = np.random.default_rng(seed).random((budget - 1, game.players)) < 0.5
    coalitions = np.concatenate((np.ones((1, game.players), dtype=bool), drawn))
    distances = 1 - np.sqrt(coalitions.mean(axis=1))  # cosine, from the full coalition
    weights = np.sqrt(np.exp(-(distances**2) / 0.25**2))
    return Ridge(alpha=1.0).fit(coalitions, game(coalitions), sample_weight=weights).coef_


def ridge(_subject: "Subject", game: "CountedGame", budget: int, seed: int) -> Any:
    """Return the coefficients of a cross-validated ridge, and what is left in equal parts."""
    import numpy as np
    from sklearn.linear_model import RidgeCV

    ends = np.repeat([[False], [True]], game.players, axis=1)
    drawn = np.random.default_rng(seed).random((budget - 2, game.players)) < 0.5
    coalitions = np.concatenate((ends, drawn))
    values = game(coalitions)
    fitted = RidgeCV(alphas=np.logspace(-3, 4, 15)).fit(2.0 * coalitions - 1, values)
    slopes = 2 * fitted.coef_
    return slopes + (values[1] - values[0] - slopes.sum()) / game.players


def partition(subject: "Subject", game: "CountedGame", budget: int, _seed: int) -> Any:
    """Return shap's Owen values of a balanced tree over the players' places."""
    import numpy as np
    import shap

    merges: list[tuple[int, int, float, int]] = []
    places = np.arange(game.players).reshape(subject.grid or (game.players,))

    def grow(block: Any) -> int:
        """Add the merges of a block, which halve its longest side, and return its node."""
        if block.size == 1:
            return int(block.reshape(()))
        first, second = np.array_split(block, 2, axis=int(np.argmax(block.shape)))
        merges.append((grow(first), grow(second), float(block.size), block.size))
        return game.players + len(merges) - 1

    grow(places)
    tree = np.array(merges, dtype=np.float64)
    masker = shap.maskers.Partition(np.zeros((1, game.players)), clustering=tree)
    # one at a time, or it would go beyond the budget
    row = np.ones((1, game.players))
    explainer = shap.PartitionExplainer(game, masker)
    return explainer(row, max_evals=budget, batch_size=1, silent=True).values[0]


def shapiq(name: str, **options: Any) -> Callable[..., Any]:
    """Return one of shapiq's approximators."""
    peer = of_shapiq(name, **options)
    return lambda _subject, game, budget, seed: peer(game, game.players, budget, seed)


SIMPLE = {"LIME": lime, "ridge, cross-validated": ridge}
OF_LIBRARIES = {
    "shap Partition": partition,
    # its search for hyperparameters takes minutes for a row
    "shapiq ProxySPEX": shapiq("ProxySPEX", max_order=1, index="SV", hpo=False),
    "shapiq OddSHAP": shapiq("OddSHAP"),
}
METHODS = (*OURS, UNKNOWN, *SIMPLE, *OF_LIBRARIES)


# Scores


@dataclass(frozen=True)
class Score:
    """What was measured of one method on one row of a game at one budget."""

    kind: str
    game: str
    method: str
    each: float  #: evaluations a player that were allowed
    error: float = float("nan")  #: sum of |error| over sum of |value|
    top: float = float("nan")  #: part of the five largest |values| that is found
    coverage: float = float("nan")  #: of nominal 95 % intervals; NaN if there are none
    overspent: bool = False
    failure: str = ""  #: why there are no numbers


def score(subject: "Subject", method: str, each: float, row: int, seed: int) -> Score:
    """Call a method once, and compare its answer with the truth."""
    import numpy as np

    from shearshap import explain_game
    from shearshap_lab.games.tables import CountedGame

    budget = round(each * subject.rows.shape[1]) + 2
    game = subject.game(row)
    counted = CountedGame(game, budget=budget, seed=seed)
    place = (subject.kind, subject.name, method, each)
    interval = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method in OURS:
                options: dict[str, Any] = {"method": method, "budget": budget, "seed": seed}
                answer = subject.explain(slice(row, row + 1), **options)
            elif method == UNKNOWN:
                answer = explain_game(
                    counted, players=game.players, method="kriging", budget=budget, seed=seed
                )
            else:
                answer = None
                values = (SIMPLE | OF_LIBRARIES)[method](subject, counted, budget, seed)
    except Exception as error:  # noqa: BLE001  (whatever happens in a peer, the others go on)
        return Score(*place, failure=f"{type(error).__name__}: {error}".split("\n")[0])
    if answer is not None:
        values = answer.values[0]
        if answer.standard_errors is not None and np.isfinite(answer.standard_errors).all():
            interval = answer.interval(0.95)
    truth = game.phi
    return Score(
        *place,
        error=float(np.abs(values - truth).sum() / np.abs(truth).sum()),
        top=_top_found(np.asarray(values), truth),
        coverage=float("nan") if interval is None else _coverage(interval, truth),
        overspent=counted.evaluations > budget,
    )


def _top_found(values: "Floats", truth: "Floats") -> float:
    """Return how many of the largest |values| are among the largest estimates.

    Ties are broken by the order of players, so that many zeros do not help.
    """
    wanted = set((-abs(truth)).argsort()[:TOP].tolist())
    found = set((-abs(values)).argsort(kind="stable")[:TOP].tolist())
    return len(wanted & found) / TOP


def _coverage(interval: tuple[Any, Any], truth: "Floats") -> float:
    """Return how many true values the intervals contain, up to rounding."""
    low, high = interval
    rounding = 1e-6 * abs(truth).mean()
    return float(((low[0] - rounding <= truth) & (truth <= high[0] + rounding)).mean())


def scores_of(work: tuple[str, str, int | None, int]) -> list[Score]:
    """Return the scores of a method on a game, at all budgets."""
    import torch

    from low_budget_games import load

    name, method, rows, seeds = work
    torch.set_num_threads(1)
    subject = load(name)
    count = len(subject.rows[:rows])
    # other draws for each row, or a single lucky draw would decide
    return [
        score(subject, method, each, row, seed * count + row)
        for each in EACH
        for seed in range(seeds)
        for row in range(count)
    ]


# The tables


def report(scores: Sequence[Score]) -> str:
    """Return a table for each kind of game, and what failed."""
    from shearshap_lab.markdown import plain_table

    parts = []
    for kind in dict.fromkeys(score.kind for score in scores):
        own = [score for score in scores if score.kind == kind]
        lines = [
            [name, *(_cell([s for s in own if s.method == name and s.each == e]) for e in EACH)]
            for name in dict.fromkeys(score.method for score in own)
        ]
        header = ["error, top five, coverage", *(f"{each:g} p" for each in EACH)]
        parts.append(f"## {kind.capitalize()}\n\n{plain_table(header, lines)}")
    failed = {
        (score.method, score.kind, f"{score.each:g} p"): score.failure
        for score in scores
        if score.failure and not score.failure.startswith("BudgetError")
    }
    if failed:
        lines = [[*place, reason] for place, reason in failed.items()]
        parts.append(f"## Failed\n\n{plain_table(['', 'kind', 'budget', 'why'], lines)}")
    return "\n\n".join(parts)


def _cell(scores: Sequence[Score]) -> str:
    """Return means over games, rows and seeds; empty if one is missing, bold if overspent."""
    import numpy as np

    if not scores or any(score.failure for score in scores):
        return ""
    games = dict.fromkeys(score.game for score in scores)
    by_game = [[s for s in scores if s.game == game] for game in games]
    fields = ("error", "top", "coverage")
    error, top, covered = (
        np.mean([np.mean([getattr(score, name) for score in own]) for own in by_game])
        for name in fields
    )
    text = f"{error:.2f}, {top:.0%}" + (f", {covered:.0%}" if np.isfinite(covered) else "")
    return f"**{text}**" if any(score.overspent for score in scores) else text


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one game of each kind, one row")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of games (all)")
    parser.add_argument("--games", nargs="+", help="names of games (all)")
    parser.add_argument("--rows", type=int, help="rows of each game, at most (all; quick: 1)")
    parser.add_argument("--seeds", type=int, help="runs over all rows (2; quick: 1)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="(all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--make", action="store_true", help="make the games, and measure nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of --make (cpu)")
    parser.add_argument("--python", help="a Python 3.12 to make the environment with")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.make:
        from low_budget_games import make_all

        make_all(options.device)
        return
    if set(options.methods) & set(OF_LIBRARIES):
        run_inside(__file__, options.python)
    # before numpy and torch are loaded, here and in the processes that are started
    os.environ.update(dict.fromkeys(THREADS, "1"))
    from low_budget_games import FOLDER, load, names
    from setting import machine

    rows = options.rows or (1 if options.quick else None)
    seeds = options.seeds or (1 if options.quick else 2)
    wanted = options.games or (QUICK if options.quick else names())
    chosen = [name for name in wanted if load(name).kind in options.kinds]
    work = [(name, method, rows, seeds) for name in chosen for method in options.methods]
    context = get_context("spawn")  # a fork of a process with torch's threads can hang
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        scores = [score for part in pool.map(scores_of, work) for score in part]
    scores.sort(key=lambda score: KINDS.index(score.kind))
    text = f"{machine()}. Seeds: {seeds}. Budgets are the number given, and 2.\n\n{report(scores)}"
    print(text)
    (FOLDER / "report.md").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
