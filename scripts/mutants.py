"""Measure how strong the tests are: change the code at random, and list what no test notices.

    python scripts/mutants.py --seed 1
    python scripts/mutants.py --seed 1 --count 20 --modules trees engine/linear.py
    python scripts/mutants.py --seed 1 --list

A mutant is a copy of the code with one small change: another comparison, sign, constant or index,
or a line dropped. For each one, the tests that run the changed line are run until one fails: first
those of the module's own folder, such as tests/trees, and the quickest first. A mutant that passes
them all has survived: either the tests do not hold the line, or the change makes no difference.
Which of both, a person must judge. The script is for maintainers; CI does not run it. It takes an
hour or more on two cores.

What is changed: lines of `MODULES`, the code that decides numbers and files, but for messages,
types, assertions and `__repr__`. The same seed draws the same changes of lines that stay, whatever
else is edited. Lines that no test runs are listed apart.

Which tests: coverage records the lines that each test runs, also in Python processes that the test
starts, if they end by themselves. The record is kept in out/mutants until the code or the tests
change. Tests that need a browser, Ray or a GPU are left out, and those that fail without a change.
Lines that run at import (constants, fields of classes) and those that numba compiles cannot be
recorded: their tests are those that run any function of the module.

Where: in copies of the working tree, so that the checkout is never edited. Random examples are the
same in each run.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from queue import SimpleQueue

from mutation.changes import Change, Changes, drawn
from mutation.plugin import CHOSEN, FAILED
from mutation.runs import KEPT, Runs
from mutation.trees import ROOT, copied, run_pytest

SOURCE = Path("src/shearshap")
MODULES = (
    "data",
    "engine",
    "games",
    "interactions",
    "apps/jobs",
    "methods",
    "result/archive.py",
    "store.py",
    "trees",
    "valuation.py",
)
TEST_LIMIT = 60  #: seconds of a test, on top of `SLOWER` times what the longest took
RUN_LIMIT = 300  #: seconds of all tests of a mutant, on top of `SLOWER` times what they took
SLOWER = 8  #: how much slower tests may be than under coverage
KILLERS = KEPT / "killers.json"  #: the test that killed each mutant, to be tried first next time


def main() -> None:
    """Draw mutants, run their tests and print the survivors."""
    options = _options()
    texts = {path: (ROOT / path).read_text() for path in _modules(options.modules)}
    every = [change for path, text in texts.items() for change in Changes(path, text).found]
    changes = drawn(every, texts, options.seed)
    if options.list:
        for change in islice(changes, options.count):
            _print(change, texts)
        return

    runs = Runs.of_suite(options.tests, options.jobs)
    covered: dict[Change, Mapping[str, float]] = {}
    uncovered: list[Change] = []
    for change in changes:
        if len(covered) == options.count:
            break
        tests = runs.tests(change)
        if tests:
            covered[change] = tests
        else:
            uncovered.append(change)

    with tempfile.TemporaryDirectory() as home:
        mutants = Mutants(Path(home), texts, options)
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(mutants.outcome, covered, covered.values()))
    _print_report(outcomes, uncovered, texts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, required=True, help="which changes are drawn")
    parser.add_argument("--count", type=int, default=60, help="of mutants (default: 60)")
    parser.add_argument("--modules", nargs="+", default=MODULES, help="files and folders to change")
    parser.add_argument("--tests", nargs="+", default=(), help="folders of tests (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        help="of tests for a mutant; what comes after that is left out (default: 300)",
    )
    parser.add_argument("--list", action="store_true", help="print the changes, and run nothing")
    return parser.parse_args()


def _modules(names: Sequence[str]) -> list[Path]:
    """Return the modules of the package that some names stand for, from the root on."""
    found = []
    for name in names:
        place = ROOT / SOURCE / name
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        if not files:
            sys.exit(f"--modules: there is no {place}")
        found += [file.relative_to(ROOT) for file in files]
    return found


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    change: Change
    killer: str | None  #: the test that failed
    tried: int  #: tests at most
    tests: int  #: that run the line

    @property
    def word(self) -> str:
        """Return what became of it, in a word."""
        return "survived" if self.killer is None else "killed"


class Mutants:
    """Runs tests on changes, in as many trees as run at a time."""

    def __init__(self, home: Path, texts: Mapping[Path, str], options: argparse.Namespace) -> None:
        self.texts = texts
        self.seconds = options.seconds
        self.killers = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
        self.free: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            self.free.put(copied(home / str(number) / "tree"))

    def outcome(self, change: Change, tests: Mapping[str, float]) -> Outcome:
        """Run the tests of a change until one fails."""
        name = f"{change.path} {change.scope} {change.shown(self.texts[change.path])}"
        chosen = _affordable(tests, self.killers.get(name), self.seconds)
        tree = self.free.get()
        file = tree / change.path
        file.write_text(change.applied(self.texts[change.path]))
        try:
            killer = _killer(tree, chosen)
        finally:
            file.write_text(self.texts[change.path])
            self.free.put(tree)
        if killer is not None:
            self.killers[name] = killer
            KILLERS.write_text(json.dumps(self.killers, indent=0))
        outcome = Outcome(change, killer, len(chosen), len(tests))
        print(f"{outcome.word:9} {change.path}:{change.line}  {killer or ''}", flush=True)
        return outcome


def _affordable(
    tests: Mapping[str, float], first: str | None, seconds: float
) -> Mapping[str, float]:
    """Return the tests that fit in the time, the one that killed the mutant before first."""
    total = accumulate(tests.values())
    chosen = {
        name: each
        for (name, each), sofar in zip(tests.items(), total, strict=True)
        if sofar < seconds
    }
    head = {first: tests[first]} if first in tests else {}
    return head | (chosen or dict([*tests.items()][:1]))


def _killer(tree: Path, tests: Mapping[str, float]) -> str | None:
    """Return the test that fails, or what else shows that a tree has changed."""
    chosen = tree.with_name("chosen")
    chosen.write_text("\n".join(tests))
    failed = tree.with_name("failed")
    failed.unlink(missing_ok=True)
    files = dict.fromkeys(name.partition("::")[0] for name in tests)
    timeout = TEST_LIMIT + SLOWER * max(tests.values())
    more = {CHOSEN: str(chosen), FAILED: str(failed)}
    log = tree.with_name("log")
    arguments = ["-x", "--timeout", str(timeout), *files]
    limit = RUN_LIMIT + SLOWER * sum(tests.values())
    status = run_pytest(tree, arguments, more, log, limit)
    if status == 0:
        return None
    if failed.exists():
        return failed.read_text()
    if status is None:
        return "(the time limit)"
    if status in (3, 4, 5):
        sys.exit(f"pytest could not run:\n{log.read_text()}")
    return "(pytest does not start)"


def _print_report(
    outcomes: Sequence[Outcome], uncovered: Sequence[Change], texts: Mapping[Path, str]
) -> None:
    survivors = [outcome for outcome in outcomes if outcome.killer is None]
    print(f"\nSurvivors ({len(survivors)} of {len(outcomes)}):")
    for outcome in survivors:
        _print(outcome.change, texts, f"{outcome.tried} of {outcome.tests} tests")
    print(f"\nNo test runs the line ({len(uncovered)}):")
    for change in uncovered:
        _print(change, texts)

    print(f"\n{'room':<16}{'mutants':>8}{'killed':>8}{'survived':>9}{'no test':>8}")
    rows = Counter((_room(each.change), each.word) for each in outcomes)
    rows += Counter((_room(change), "no test") for change in uncovered)
    for room in [*sorted({room for room, _ in rows}), None]:
        killed, survived, none = (
            sum(n for (at, word), n in rows.items() if word == wanted and room in (at, None))
            for wanted in ("killed", "survived", "no test")
        )
        print(f"{room or 'all':<16}{killed + survived:8}{killed:8}{survived:9}{none:8}")


def _room(change: Change) -> str:
    return change.path.relative_to(SOURCE).parts[0]


def _print(change: Change, texts: Mapping[Path, str], more: str = "") -> None:
    print(f"{change.path}:{change.line} {change.kind}, in {change.scope or 'the module'} {more}")
    print(change.shown(texts[change.path]))


if __name__ == "__main__":
    main()
