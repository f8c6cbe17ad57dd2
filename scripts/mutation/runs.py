"""Which tests run which lines: a record of coverage, kept until the code or the tests change."""

import ast
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coverage import CoverageData

from mutation.changes import Change
from mutation.plugin import CONTEXT, RECORD
from mutation.trees import ROOT, copied, run_pytest

KEPT = ROOT / "out" / "mutants"
LEFT_OUT = ("tests/docs", "tests/plots", "tests/apps/serve")  #: tests of pages, drawings and HTTP
MARKS = "not browser and not ray and not cuda and not docs"
RECORD_LIMIT = 7200  #: seconds of the tests of a folder under coverage
SETTINGS = f"""[run]
parallel = true
data_file = {{data}}
source = {{source}}
context = ${{{{{CONTEXT}-}}}}
"""


@dataclass(frozen=True)
class Runs:
    """The tests that pass, with what they run."""

    folders: tuple["Folder", ...]

    @classmethod
    def of_suite(cls, names: Collection[str], jobs: int) -> "Runs":
        """Run tests under coverage, but for folders whose records are kept; by default all."""
        places = [place for place in _places() if not names or place.stem in names]
        with ThreadPoolExecutor(jobs) as pool:
            return cls(tuple(pool.map(Folder.recorded, places)))

    def tests(self, change: Change) -> dict[str, float]:
        """Return the tests that run a change's line with their seconds, the likeliest first."""
        found = {name: each for folder in self.folders for name, each in folder.tests(change)}
        room = change.path.with_suffix("").parts[2]

        def place(name: str) -> tuple[bool, float, str]:
            is_other = name.split("/")[1].removesuffix(".py") not in (room, f"test_{room}")
            return is_other, found[name], name

        return {name: found[name] for name in sorted(found, key=place)}


def _places() -> list[Path]:
    """Return the folders and files of tests, the longest first."""
    tests = ROOT / "tests"
    found = [each.parent for each in tests.glob("*/**/test_*.py")]
    folders = {tests / each.relative_to(tests).parts[0] for each in found}
    places = [each for each in folders if str(each.relative_to(ROOT)) not in LEFT_OUT]
    return sorted([*places, *tests.glob("test_*.py")], key=lambda place: (-_size(place), place))


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in _files(place))


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@dataclass(frozen=True)
class Folder:
    """What the tests of a folder run: a file of coverage, and one of the tests that pass."""

    coverage: Path
    names: Path

    @classmethod
    def recorded(cls, place: Path) -> "Folder":
        """Return what a folder's tests run; run them unless there is a record."""
        stem = f"{place.stem}-{_key(place)}"
        folder = cls(KEPT / f"{stem}.coverage", KEPT / f"{stem}.json")
        if not folder.names.exists():
            for old in KEPT.glob(f"{place.stem}-*"):
                old.unlink()
            folder._record(str(place.relative_to(ROOT)))
        return folder

    def _record(self, name: str) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        print(f"{name}: running under coverage", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as home:
            tree = copied(Path(home) / "tree")
            settings = Path(home) / "settings.ini"
            data = Path(home) / "data"
            data.mkdir()
            source = tree / "src" / "shearshap"
            settings.write_text(SETTINGS.format(data=data / "coverage", source=source))
            names = Path(home) / "names.json"
            more = {"COVERAGE_PROCESS_START": str(settings), RECORD: str(names)}
            log = self.names.with_suffix(".log")
            status = run_pytest(tree, [name, "-m", MARKS], more, log, RECORD_LIMIT)
            if status not in (0, 1):
                sys.exit(f"{name}: pytest did not finish; see {log}")
            merged = CoverageData(str(self.coverage))
            for part in sorted(data.iterdir()):
                found = CoverageData(str(part))
                found.read()
                merged.update(found, map_path=lambda path: path.removeprefix(f"{tree}/"))
            merged.write()
            shutil.copy(names, self.names)
        failed = _content(self.names)["failed"]
        print(f"{name}: left out as they fail or are skipped: {failed}", file=sys.stderr)

    def tests(self, change: Change) -> Iterable[tuple[str, float]]:
        """Yield the tests that run the line of a change, with their seconds."""
        span = _function_lines(change.path) if change.span is None else change.span
        lines = _contexts(self.coverage, change.path)
        contexts = {context for line in span for context in lines.get(line, ())}
        for name, test in _content(self.names)["tests"].items():
            if not contexts.isdisjoint(test["contexts"]):
                yield name, test["seconds"]


@cache
def _content(names: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(names.read_text())
    return found


@cache
def _contexts(coverage: Path, path: Path) -> dict[int, list[str]]:
    """Return the contexts that run each line of a module."""
    data = CoverageData(str(coverage))
    data.read()
    return data.contexts_by_lineno(str(path))


@cache
def _function_lines(path: Path) -> tuple[int, ...]:
    """Return the lines of a module's functions, which do not run when it is imported."""
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    spans = [range(node.body[0].lineno, (node.end_lineno or 0) + 1) for node in functions]
    return tuple({line for span in spans for line in span})


def _key(place: Path) -> str:
    """Return what a record of a folder hangs on: the code, the tests and their helpers."""
    shared = [ROOT / "conftest.py", ROOT / "pyproject.toml", *sorted((ROOT / "tests").glob("*.*"))]
    helpers = [file for file in shared if not file.name.startswith("test_")]
    every = [*_files(ROOT / "src"), *_files(ROOT / "lab" / "src"), *helpers, *_files(place)]
    found = hashlib.sha256()
    for file in every:
        found.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return found.hexdigest()[:12]
