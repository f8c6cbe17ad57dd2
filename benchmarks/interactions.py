"""Error of pairwise interactions against evaluations, beside shapiq's estimators.

    python benchmarks/interactions.py            census, bank, wine and digits
    python benchmarks/interactions.py --quick    wine alone, fewer rows

The networks are those of accuracy.py. The index is k-SII of order 2; its truth is exact, from all
2^p coalitions. Errors are the mean absolute error over pairs of players. Every estimator gets the
same budget, N evaluations per player and two, and shapiq's regressions their complement pairs.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np

from accuracy import EVALUATIONS_PER_PLAYER, exact, explained, network_rows, players_of
from setting import Tables, machine, parser_of
from shearshap_lab.games.tables import Floats, Rows

OURS = ("kriging", "leverage")
PEERS: dict[str, dict[str, Any]] = {
    "KernelSHAPIQ": {"pairing_trick": True},
    "InconsistentKernelSHAPIQ": {"pairing_trick": True},
    "PermutationSamplingSII": {},
}  #: shapiq's estimators with their options
TABLES = [(data, activation) for data in ("census", "bank") for activation in ("relu", "gelu")]
NETWORKS = [*TABLES, ("wine", "relu"), ("digits", "relu")]


def theirs(rows: Rows, name: str, each: int) -> Floats:
    """Return the interactions (r, p, p) that one of shapiq's estimators finds, row by row."""
    import shapiq

    players = players_of(rows)
    estimated = np.zeros((len(rows), players, players))
    for row in range(len(rows)):
        options: Any = {"max_order": 2, "index": "k-SII", **PEERS[name]}
        estimator = getattr(shapiq, name)(n=players, random_state=row, **options)
        answer = estimator.approximate(2 + each * players, partial(_values, rows, row))
        for members, size in answer.dict_values.items():
            if len(members) == 2:
                i, j = members
                estimated[row, i, j] = size
                estimated[row, j, i] = size
    return estimated


def _values(rows: Rows, row: int, coalitions: Any) -> Floats:
    return rows.values(row, np.atleast_2d(coalitions).astype(bool))


def error(estimated: Floats | None, truth: Floats) -> float:
    """Return the mean absolute error over pairs."""
    assert estimated is not None
    i, j = np.triu_indices(truth.shape[1], 1)
    return float(np.abs(estimated - truth)[:, i, j].mean())


def line(rows: Rows, truth: Floats, each: int) -> list[str]:
    """Return the cells of one network at so many evaluations per player."""
    answers = [explained(rows, each, method, interactions=True) for method in OURS]
    own = [error(answer.interactions, truth) for answer in answers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peers = [error(theirs(rows, name, each), truth) for name in PEERS]
    errors = [f"{size:.1e}" for size in (*own, *peers)]
    return [rows.name, str(each), *errors, f"{min(peers) / own[0]:.1f}"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="wine alone, and 4 rows")
    options = parser.parse_args()
    quick = options.quick
    count = 4 if quick else 10
    tables = Tables(f"{count} rows; {machine()}", options.csv)
    lines = []
    for data, activation in [("wine", "relu")] if quick else NETWORKS:
        rows = network_rows(data, activation, 0, count)
        truth = exact(rows, interactions=True).interactions
        assert truth is not None
        lines += [line(rows, truth, each) for each in EVALUATIONS_PER_PLAYER]
    columns = ["network", "N", *OURS, *PEERS, "best of shapiq over kriging"]
    tables.show("interactions", columns, lines)


if __name__ == "__main__":
    main()
