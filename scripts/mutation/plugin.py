"""A pytest plugin of mutants.py: record what each test runs, or run chosen tests in order.

The variables of the environment `RECORD` and `CHOSEN` say which. Coverage was started with the
process; the plugin tells it which test runs. Lines that a fixture of several tests runs belong to
all of them, and so do those of caches, which are emptied before each test.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

RECORD = "MUTANTS_RECORD"  #: the file to write the tests to, with their seconds and contexts
CONTEXT = "MUTANTS_CONTEXT"  #: the context of what processes run that the tests start
CHOSEN = "MUTANTS_CHOSEN"  #: the file with the tests to run, one a line
FAILED = "MUTANTS_FAILED"  #: the file to write the first test to that fails
NO_TEST = ""  #: the context of what no test runs


class Record:
    """Tells coverage which test runs, and keeps how long each took."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: Counter[str] = Counter()
        self.contexts: dict[str, list[str]] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """Count what the import of a module of tests runs as run by all its tests."""
        if isinstance(collector, pytest.Module):
            _switch(collector.nodeid)
        report = yield
        _switch(NO_TEST)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count what a test runs as its own."""
        _empty_caches()
        module = item.nodeid.partition("::")[0]
        self.contexts[item.nodeid] = [item.nodeid, module, *_shared_fixtures(item)]
        _switch(item.nodeid)
        result = yield
        _switch(NO_TEST)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Count what a fixture of several tests runs as run by each of them."""
        before = os.environ.get(CONTEXT, NO_TEST)
        if fixturedef.scope != "function":
            _switch(_name(fixturedef))
        result = yield
        _switch(before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how long a test took, and whether it can judge a change."""
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the tests that passed."""
        tests = {
            name: {"seconds": round(self.seconds[name], 3), "contexts": contexts}
            for name, contexts in self.contexts.items()
            if name not in self.failed
        }
        self.file.write_text(json.dumps({"tests": tests, "failed": sorted(self.failed)}))


class Choice:
    """Runs the chosen tests alone, in their order, and writes which one fails first."""

    def __init__(self, chosen: Path, failed: Path) -> None:
        self.place = {name: place for place, name in enumerate(chosen.read_text().splitlines())}
        self.failed = failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out all other tests."""
        chosen = [item for item in items if item.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a test that fails."""
        if report.failed and not self.failed.exists():
            self.failed.write_text(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Do what the environment asks for."""
    if RECORD in os.environ:
        config.pluginmanager.register(Record(Path(os.environ.pop(RECORD))))
    if CHOSEN in os.environ:
        chosen = Path(os.environ.pop(CHOSEN))
        config.pluginmanager.register(Choice(chosen, Path(os.environ.pop(FAILED))))


def _switch(context: str) -> None:
    """Count what runs from now on as run by a context, in this process and new ones."""
    coverage = Coverage.current()
    assert coverage is not None
    coverage.switch_context(context)
    os.environ[CONTEXT] = context


def _shared_fixtures(item: pytest.Item) -> list[str]:
    """Return the fixtures of a test that several tests share."""
    definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return [_name(each) for several in definitions for each in several if each.scope != "function"]


def _name(fixturedef: Any) -> str:
    return f"fixture {fixturedef.baseid}::{fixturedef.argname}"


def _empty_caches() -> None:
    """Forget what earlier tests have computed, or later ones would not run its lines."""
    modules = [module for name, module in sys.modules.items() if name.startswith("shearshap")]
    for module in modules:
        for each in list(vars(module).values()):
            if hasattr(each, "cache_clear"):
                each.cache_clear()
