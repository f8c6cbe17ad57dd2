"""Our methods and estimators of shapiq, shap and captum on the games of `shear benchmark`.

    python benchmarks/leaderboard.py                    an hour or so on one core
    python benchmarks/leaderboard.py --quick            some minutes
    python benchmarks/leaderboard.py --tables FOLDER    tables of games too: each .npz file

Everything runs in one environment, on one thread; README.md says how to make it. `--csv` writes
benchmarks/results/leaderboard*.csv. A run that was stopped continues where it stopped.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from peers import PEERS, Peer
from setting import OUT, Tables, parser_of
from shearshap_lab.contest.contest import (
    Contest,
    Estimator,
    measured,
    our_methods,
    read_records,
    run,
)
from shearshap_lab.contest.page import Results, Standing, report
from shearshap_lab.games.sources import SOURCES, Request
from shearshap_lab.games.tables import read_tables
from shearshap_lab.provenance import short_hash, version


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="few games and budgets")
    parser.add_argument("--tables", type=Path, help="a folder of .npz files, each an origin")
    parser.add_argument("--out", type=Path, default=OUT / "leaderboard", help="where to work")
    options = parser.parse_args()

    out = options.out.resolve()
    rows, seeds, evaluations = (2, 1, (8, 16)) if options.quick else (6, 2, (8, 16, 32))
    request = Request(rows, out, options.quick)
    games = [each for source in SOURCES.values() for each in source(request)]
    if options.tables:
        games += read_tables(options.tables, rows)
    peers = [estimator(name, peer) for name, peer in PEERS.items()]
    contest = Contest([*our_methods(), *peers], games, evaluations, seeds)
    run(contest, out, command="python benchmarks/leaderboard.py")

    results = Results(*read_records(out))
    origin = results.origin
    setting = f"commit {origin['commit']}; {origin['versions']}; {origin['machine']}"
    show(Tables(setting, options.csv), results)
    print(f"report    {report(out)}")


def show(tables: Tables, results: Results) -> None:
    """Print the standings, the errors on each kind of game, the games, and who has failed."""
    columns = ["estimator", "place", "error (low to high)", "better", "equal", "not known"]
    columns += ["worse", "cells answered", "cells", "ms"]
    standings = [
        standing_line(standing, place) for place, standing in enumerate(results.standings, start=1)
    ]
    tables.show("leaderboard", columns, standings)
    for kind, cells in results.by_kind().items():
        lines = []
        for name in (standing.estimator for standing in results.standings):
            errors = [cell.estimates[name].mean if name in cell.errors else None for cell in cells]
            texts = ["" if error is None else f"{error:.4f}" for error in errors]
            lines.append([kind, name, *texts])
        budgets = [f"N = {cell.n}" for cell in cells]
        tables.show("leaderboard-errors", ["games", "estimator", *budgets], lines)

    origins = results.frame.groupby("games", sort=False)
    facts = origins.agg({"kind": "first", "players": "first", "game": "nunique", "size": "first"})
    games = [[name, *map(str, own), f"{size:.3g}"] for name, *own, size in facts.itertuples()]
    columns = ["name", "kind", "players", "games", "mean absolute value"]
    tables.show("leaderboard-games", columns, games)
    columns = ["estimator", "games", "N", "reason"]
    tables.show("leaderboard-failures", columns, list(failures(results)))


def standing_line(standing: Standing, place: int) -> list[str]:
    """Return a line of the leaderboard; an estimator that failed somewhere has no place."""
    score = standing.score
    error = ""
    if score is not None:
        error = f"{score.value:.2f}"
        error += f" ({score.low:.2f} to {score.high:.2f})" if score.known else ""
    return [
        standing.estimator,
        str(place) if standing.complete else "",
        error,
        *map(str, standing.verdicts.values()),
        str(standing.answered),
        str(standing.cells),
        "" if np.isnan(standing.seconds) else f"{1000 * standing.seconds:.3g}",
    ]


def failures(results: Results) -> Iterator[list[str]]:
    """Yield which estimator failed on which games, at which N, and the first reason."""
    for standing in results.standings:
        for cell in results.cells:
            reason = cell.failures.get(standing.estimator)
            if reason is not None:
                yield [standing.estimator, cell.kind, str(cell.n), reason]


def estimator(name: str, peer: Peer) -> Estimator:
    """Return a peer as an estimator of the contest."""

    def estimate(game: Any) -> Any:
        return peer(game, game.players, game.budget, game.seed)

    library = name.split(" ")[0]
    code = Path(__file__).with_name("peers.py").read_text()
    return Estimator(name, measured(estimate), short_hash(name, version(library), code))


if __name__ == "__main__":
    main()
