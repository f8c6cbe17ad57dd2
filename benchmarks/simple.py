"""Kriging's error over that of the simple methods, leverage and antithetic permutations.

    python benchmarks/simple.py                     12, 30, 60 and 100 players, all kinds of games
    python benchmarks/simple.py --quick             few games of each kind, 12 and 30 players
    python benchmarks/simple.py --tables FOLDER     tables of games too: each .npz file
    python benchmarks/simple.py --kinds gloves forests --players 12 --both --jobs 2

N evaluations per player are a budget of N p + 2, for all methods. An error is the mean absolute
error of a game's values over the game's range, and a cell compares means over all games of a kind.
Each game is explained alone. A ratio below 1 means that kriging's error is smaller than that of
the better of the two.
"""

from functools import partial

import numpy as np

from setting import EVALUATIONS_PER_PLAYER, Tables, game_options, machine, measured_games, parser_of
from shearshap_lab.games.study import Task, measured, subject_of
from shearshap_lab.games.tables import Floats

SIMPLE = ("leverage", "permutation-antithetic")
METHODS = ("kriging", *SIMPLE)
NONE = 1e-6  #: of the range: an error that is as good as none
HIGH = 1.05  #: a ratio that is too high
PLAYERS = (12, 30, 60, 100)


def errors_of(task: Task, seeds: int) -> tuple[str, Floats]:
    """Return a game's kind, and the errors (N, methods), as means over seeds."""
    subject = subject_of(task.game())
    players = subject.phi.shape[1]
    runs = [
        [
            [
                measured(subject, method, each * players + 2, seed=seed)["error"]
                for method in METHODS
            ]
            for each in EVALUATIONS_PER_PLAYER
        ]
        for seed in range(task.number * seeds, (task.number + 1) * seeds)
    ]
    return subject.kind, np.mean(runs, axis=0)


def ratio_of(errors: Floats) -> tuple[float, float, list[float]]:
    """Return kriging's error over the better method's, its standard error, and that over each.

    Errors are (games, methods), kriging's first.
    """
    errors = np.maximum(errors, NONE)
    means = errors.mean(axis=0)
    ratios = means[0] / means[1:]
    ratio = ratios.max()  # the better one has the smaller error
    better = errors[:, 1 + ratios.argmax()]
    differences = errors[:, 0] - ratio * better
    uncertainty = np.sqrt((differences**2).sum()) / better.sum()
    return float(ratio), float(uncertainty), ratios.tolist()


def report(tables: Tables, players: int, results: list[tuple[str, Floats]], *, both: bool) -> None:
    """Print the table of one number of players, and how many of its cells are too high."""
    lines = []
    cells: list[tuple[float, float, str]] = []
    for kind in dict.fromkeys(kind for kind, _ in results):
        errors = np.stack([found for name, found in results if name == kind])
        texts = []
        for at, n in enumerate(EVALUATIONS_PER_PLAYER):
            ratio, uncertainty, ratios = ratio_of(errors[:, at])
            cells.append((ratio, uncertainty, f"{kind}, N = {n}"))
            each = f" ({', '.join(f'{other:.2f}' for other in ratios)})" if both else ""
            texts.append(f"{ratio:.2f}{each}")
        lines.append([str(players), kind, *texts])
    high = [cell for cell in cells if cell[0] > HIGH]
    surely = [ratio for ratio, uncertainty, _ in high if ratio - 2 * uncertainty > 1]
    worst, uncertainty, name = max(cells)
    header = ["players", "games", *(f"N = {each}" for each in EVALUATIONS_PER_PLAYER)]
    tables.show("simple", header, lines)
    print(
        f"cells above {HIGH}: {len(high)} of {len(cells)}, "
        f"{len(surely)} of them above 1 by more than two standard errors; the worst "
        f"{worst:.2f} (standard error {uncertainty:.2f}; {name})\n"
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="runs on each game (1)")
    parser.add_argument("--both", action="store_true", help=f"the ratios to {' and '.join(SIMPLE)}")
    given = game_options(parser, games=(20, 5))
    setting = f"{given.games} games of each kind, {given.seeds} seeds; {machine()}"
    tables = Tables(setting, given.csv)
    usual = PLAYERS[:2] if given.quick else PLAYERS
    measure = partial(errors_of, seeds=given.seeds)
    for players, results in measured_games(given, usual, measure):
        report(tables, players, results, both=given.both)


if __name__ == "__main__":
    main()
