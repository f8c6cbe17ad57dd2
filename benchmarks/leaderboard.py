"""Our methods and estimators of shapiq, shap and captum on the games of `shear benchmark`.

    python benchmarks/leaderboard.py                    writes docs/leaderboard.md: an hour or so
    python benchmarks/leaderboard.py --quick            some minutes; prints the page only
    python benchmarks/leaderboard.py --tables FOLDER    tables of games too: each .npz file

Everything runs in one environment, on one thread; README.md says how to make it.
A run that was stopped goes on where it was.
"""

from pathlib import Path
from typing import Any

from peers import PEERS, Peer
from setting import OUT, ROOT, parser_of
from shearshap_lab.contest.contest import (
    Contest,
    Estimator,
    measured,
    our_methods,
    read_records,
    run,
)
from shearshap_lab.contest.page import Results, in_words, leaderboard, report, tally
from shearshap_lab.games.sources import SOURCES, Request
from shearshap_lab.games.tables import read_tables
from shearshap_lab.provenance import short_hash, version

PAGE = ROOT / "docs" / "leaderboard.md"

CHART = (
    "![Errors relative to permutation-antithetic, with 95 % intervals; ours in blue]"
    "(images/charts/leaderboard.svg)"
)  # `python docs/make_charts.py` draws it from the first table

NOTE = (
    "shapiq's `ShaplEIG` is left out: it evaluates one coalition at a time and fits a Gaussian "
    "process after each, which took five minutes for one game of 12 players at N = 8. All "
    "estimators run on one thread, with Python 3.12. "
    "With the same seed, `shapiq PermutationSamplingSV` draws the same permutations as our "
    "`permutation`, and with pairs `shapiq PolySHAP 2` is `shapiq KernelSHAP`."
)


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

    print(f"report    {report(out)}")
    text = page(Results(*read_records(out)))
    if options.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"page      {PAGE}")


def estimator(name: str, peer: Peer) -> Estimator:
    """Return a peer as an estimator of the contest."""

    def estimate(game: Any) -> Any:
        return peer(game, game.players, game.budget, game.seed)

    library = name.split(" ")[0]
    code = Path(__file__).with_name("peers.py").read_text()
    return Estimator(name, measured(estimate), short_hash(name, version(library), code))


def page(results: Results) -> str:
    """Return docs/leaderboard.md."""
    title, made, *parts = leaderboard(results).split("\n\n")
    lead = (
        f"Our {len(results.ours)} methods and {len(results.challengers)} estimators of other "
        "libraries (in bold) on the same games, with the same budgets. "
        "[Benchmark your estimator](howto/benchmark-your-estimator.md) says how to add yours."
    )
    first, *others = (standing for standing in results.standings if standing.complete)
    sentence = f"`{first.estimator}` has the smallest error."
    rivals = [standing.estimator for standing in others if not standing.ours]
    if first.ours and rivals:
        counts = tally(results.cells, first.estimator, rivals[:1])
        sentence += f" Against the best of theirs, `{rivals[0]}`, it is {in_words(counts)}."
    folded = [
        f"<details>\n<summary>All numbers</summary>\n\n{part}\n\n</details>"
        if part.startswith("| estimator | N = ")
        else part
        for part in parts
    ]
    return "\n\n".join((title, lead, sentence, CHART, made, *folded[:-1], NOTE, folded[-1]))


if __name__ == "__main__":
    main()
