"""shapiq's estimators of interactions, run by a Python that has shapiq 1.8: see questions.py.

    python benchmarks/index_peers.py TABLES ANSWERS

TABLES is an .npz with the values of all coalitions of each game ("0", "1", ...; bit i of a place is
player i), and for each call a line (game, order, budget, slow) in "calls". SPEX, which takes a
minute or two a game, is asked in slow calls alone. ANSWERS gets the k-SII of all
sets of that order, by peer and call, in dictionary order; a peer that fails has none.
"""

import contextlib
import os
import sys
import time
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import shapiq

PEERS: dict[str, dict[str, Any]] = {
    "KernelSHAPIQ": {"pairing_trick": True},
    "SVARMIQ": {},
    "SPEX": {},
    "ProxySPEX": {"hpo": False},  # its search for hyperparameters takes a minute a game
}  #: shapiq's estimators, with their options


def main() -> None:
    tables = np.load(sys.argv[1])
    answers = {}
    for number, (game, order, budget, slow) in enumerate(tables["calls"].tolist()):
        values = tables[str(game)]
        for peer in PEERS:
            if peer == "SPEX" and not slow:
                continue
            started = time.perf_counter()
            try:
                answers[f"{peer}/{number}"] = answer(peer, values, order, budget)
            except (ValueError, IndexError) as error:  # its budget is too small
                print(f"{peer}, {budget} evaluations: {error}", file=sys.stderr)
            answers[f"{peer}/{number}/seconds"] = np.array(time.perf_counter() - started)
            np.savez(sys.argv[2], **answers)


def answer(peer: str, values: Any, order: int, budget: int) -> Any:
    """Return a peer's interactions of all sets of `order` players of a table (2^p,)."""
    players = len(values).bit_length() - 1

    def game(coalitions: Any) -> Any:
        return values[np.atleast_2d(coalitions).astype(np.int64) @ (1 << np.arange(players))]

    made = getattr(shapiq.approximator, peer)(
        n=players, max_order=order, index="k-SII", random_state=0, **PEERS[peer]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = made.approximate(budget, game).dict_values
    return np.array([found.get(one, 0.0) for one in combinations(range(players), order)])


if __name__ == "__main__":
    # LightGBM writes thousands of lines from C
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        main()
