"""Our methods and shapiq's newest estimators on the games of `shear benchmark`.

    python benchmarks/leaderboard.py            writes docs/leaderboard.md: half an hour on 2 cores
    python benchmarks/leaderboard.py --quick    a few minutes; prints the page only

shapiq's newest estimators need Python 3.12. They run in an environment of their own, which the
first start makes, on the games' tables in files; what they answer is read from files too. A run
that was stopped goes on where it was.
"""

import argparse
import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from comparison.answers import SEEDS, answers_file
from peers import OUT, REQUIREMENTS, ROOT, THREADS, environment_with
from shearshap_lab.contest.contest import Contest, read_records, run
from shearshap_lab.contest.contest_page import Results, in_words, leaderboard, report
from shearshap_lab.contest.entrants import Answer, Entrant, our_methods
from shearshap_lab.contest.games import Games, slug, write_tables
from shearshap_lab.contest.sources import NETWORKS, TREES, Request, from_rules
from shearshap_lab.contest.standings import tally

ENVIRONMENT = OUT / "leaderboard-env"
PAGE = ROOT / "docs" / "leaderboard.md"
INSTALLED = ("shapiq", "lightgbm", "xgboost-cpu")  #: the last two are proxies of shapiq's
LEFT_OUT = ("german network",)  #: 20 players: a table has a million values

CHART = (
    "![Errors relative to permutation-antithetic, with 95 % intervals; ours in blue]"
    "(images/charts/leaderboard.svg)"
)  # `python docs/make_charts.py` draws it from the first table

ERRORS = "| estimator | N = "  #: how a table of errors starts

LEFT_OUT_NOTE = (
    "shapiq's `ShaplEIG` is left out: it evaluates one coalition at a time and fits a Gaussian "
    "process after each, which took five minutes for one game of 12 players at N = 8. shapiq's "
    "estimators were timed in an environment with Python 3.12; all run on one thread. "
    "With the same seed, `shapiq PermutationSamplingSV` draws the same permutations as our "
    "`permutation`, and with pairs `shapiq PolySHAP 2` is `shapiq KernelSHAP`."
)


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rows: int  #: games of each model or rule
    draws: int
    each: tuple[int, ...]  #: evaluations a player


FULL = Plan(rows=6, draws=2, each=(8, 16, 32))
QUICK = Plan(rows=2, draws=1, each=(8, 16))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few games and budgets")
    parser.add_argument("--out", type=Path, default=OUT / "leaderboard", help="where to work")
    parser.add_argument("--python", help="a Python 3.12 to make the environment with")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    out = options.out.resolve()
    torch.set_num_threads(1)

    python = prepared_environment(options.python)
    games = exported_games(out, plan, quick=options.quick)
    answer_in(python, out, plan)
    shapiq = shapiq_version(python)
    recorded = [recorded_entrant(name, games, out, plan, shapiq) for name in estimators_in(python)]
    contest = Contest([*our_methods(), *recorded], games, plan.each, plan.draws)
    run(contest, out, command="python benchmarks/leaderboard.py")

    print(f"report    {report(out)}")
    text = page(Results(*read_records(out)), shapiq)
    if options.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"page      {PAGE}")


def exported_games(out: Path, plan: Plan, *, quick: bool) -> list[Games]:
    """Return the games, after writing them as files of tables."""
    request = Request(plan.rows, out)
    origins = [origin for origin in (*TREES, *NETWORKS) if origin.name not in LEFT_OUT]
    models = [origin.games(request) for origin in (origins[::3] if quick else origins)]
    games = [*from_rules(request), *models]
    for each in games:
        write_tables(each, out / "tables")
    return games


# The environment


def prepared_environment(wanted: str | None) -> Path:
    """Return the Python of shapiq's environment, set up where that is needed."""
    installed = ["--constraint", str(REQUIREMENTS), *INSTALLED]
    return environment_with(ENVIRONMENT, installed, repr(INSTALLED).encode(), wanted)


def answer_in(python: Path, out: Path, plan: Plan) -> None:
    """Let shapiq's estimators answer the tables, each on one thread."""
    command = ["-m", "comparison.answers", str(out / "tables"), str(out / "answers")]
    numbers = ["--draws", str(plan.draws), "--each", *map(str, plan.each)]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": ""}
    subprocess.run(
        [str(python), *command, *numbers], cwd=ROOT / "benchmarks", env=environment, check=True
    )


def shapiq_version(python: Path) -> str:
    """Return the version of shapiq in the environment."""
    return printed(python, "from importlib.metadata import version; print(version('shapiq'))")


def estimators_in(python: Path) -> list[str]:
    """Return the names of shapiq's estimators that take part."""
    code = "from comparison.shapiq_peers import SHAPIQ; print('\\n'.join(SHAPIQ))"
    return printed(python, code).splitlines()


def printed(python: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [str(python), "-c", code],
        cwd=ROOT / "benchmarks",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


# Recorded answers


def recorded_entrant(
    name: str, games: Sequence[Games], out: Path, plan: Plan, shapiq: str
) -> Entrant:
    """Return the entrant whose answers lie in files, of which none may be missing."""
    digest = hashlib.sha256(name.encode())
    arrays: dict[tuple[str, int], dict[str, Any]] = {}
    for each in games:
        tables = out / "tables" / f"{slug(each.name)}.npz"
        for n in plan.each:
            path = out / "answers" / answers_file(tables, name, n, plan.draws, shapiq)
            digest.update(path.read_bytes())
            with np.load(path) as file:
                arrays[each.name, n] = {field: file[field] for field in file.files}

    def answer(games: Games, number: int, budget: int, seed: int) -> Answer:
        recorded = arrays[games.name, (budget - 2) // games.players]
        draw = seed - SEEDS * number
        return Answer(
            recorded["values"][number, draw],
            int(recorded["evaluations"][number, draw]),
            float(recorded["seconds"][number, draw]),
            failure=str(recorded["failures"][number, draw]),
        )

    return Entrant(name, answer, fingerprint=digest.hexdigest()[:16])


# The page


def page(results: Results, shapiq: str) -> str:
    """Return docs/leaderboard.md."""
    title, *rest = leaderboard(results).split("\n\n")
    lead = (
        f"Our {len(results.ours)} methods and {len(results.challengers)} estimators of shapiq "
        f"{shapiq} (in bold) on the same games, with the same budgets. "
        "[Benchmark your estimator](howto/benchmark-your-estimator.md) says how to add yours."
    )
    first, *others = (standing for standing in results.standings if standing.complete)
    sentence = f"`{first.entrant}` has the smallest error."
    peers = [standing for standing in others if not standing.ours]
    if first.ours and peers:
        counts = tally(results.cells, first.entrant, [peers[0].entrant])
        sentence += (
            f" Against the best of shapiq's, `{peers[0].entrant}`, it has {in_words(*counts)} in "
            f"{len(results.cells)} cells."
        )
    made, *parts = rest
    parts = [folded(part) if part.startswith(ERRORS) else part for part in parts]
    above = (title, lead, sentence, CHART, made)
    return "\n\n".join((*above, *parts[:-1], f"{LEFT_OUT_NOTE}\n\n{parts[-1]}"))


def folded(table: str) -> str:
    """Return a table that a reader opens."""
    return f"<details>\n<summary>All numbers</summary>\n\n{table}\n\n</details>"


if __name__ == "__main__":
    main()
