"""Run specifications: the studies of every network, kept on disk as soon as they are finished."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from shearshap_lab import runner
from shearshap_lab.experiments.spec import (
    ABLATION_N,
    ABLATIONS,
    STUDIES,
    Records,
    Spec,
    joined,
    tidy,
)
from shearshap_lab.experiments.studies import cooperators, estimates, timings
from shearshap_lab.experiments.studies.estimates import Subject, prepare
from shearshap_lab.provenance import code_hash, provenance, short_hash, versions
from shearshap_lab.runner import Task
from shearshap_lab.theory import MAX_PLAYERS
from shearshap_lab.truth import MAX_EXACT


def run(
    specs: Sequence[Spec],
    out: Path | str,
    *,
    command: Sequence[str] = (),
    processes: int = 1,
    progress: bool | None = None,
) -> Records:
    """Measure what the specifications say, and return the records, which also lie in out/records.

    A run that was stopped goes on with the study that it was at: what is finished is kept in
    out/parts, under a name that covers what it depends on, the code included. The same
    specification gives the same records, timings aside, with the same versions and number of
    threads; with others, the same up to rounding. `command` is kept beside the records, with the
    commit, the versions, the machine and the time it took.

    Several processes, of one thread each, measure several networks at once; times are measured
    afterwards, with nothing else running.
    """
    started = time.perf_counter()
    out = Path(out)
    networks = [
        _Network(spec, recipe, seed, out)
        for spec in specs
        for recipe in spec.recipes
        for seed in spec.model_seeds
    ]
    parts = out / "parts"
    parts.mkdir(parents=True, exist_ok=True)  # raises now, not after hours, if it cannot be made
    if processes > 1:
        measure = partial(_measure_untimed, parts=parts)
        runner.in_processes(measure, networks, processes, progress=progress)

    found: dict[str, list[pa.Table]] = {study: [] for study in STUDIES}
    tasks = [(study, task) for network in networks for study, task in network.tasks()]
    tables = runner.run([task for _, task in tasks], parts, progress=progress)
    for (study, _), table in zip(tasks, tables, strict=True):
        found[study].append(table)

    records = tidy({study: joined(study, tables) for study, tables in found.items()})
    origin = provenance(shlex.join(command), time.perf_counter() - started)
    runner.write_records(records, out / "records", origin)
    return records


def _measure_untimed(network: "_Network", parts: Path) -> None:
    for study, task in network.tasks():
        if study != "timings":
            task.records(parts)


@dataclass(frozen=True)
class _Network:
    """One network that is measured; it is trained, or read, when its first study begins."""

    spec: Spec
    recipe: str
    seed: int
    out: Path

    def tasks(self) -> Iterator[tuple[str, Task]]:
        """Yield each study with its task."""
        facts = (code_hash(), versions(), self.spec)
        name = f"{self.spec.dataset}-{self.recipe}-seed{self.seed}"
        for study, compute in self._studies():
            file = f"{name}-{study}-{short_hash(*facts)}.parquet"
            label = f"{self.spec.dataset}, {self.recipe} network {self.seed}: {study}"
            work = partial(self._records, compute)
            yield study, Task(file, label, STUDIES[study], work)

    def _records(self, compute: Callable[[Subject], pa.Table]) -> pa.Table:
        return compute(_prepared(self.spec, self.recipe, self.seed, self.out))

    def _studies(self) -> Iterator[tuple[str, Callable[[Subject], pa.Table]]]:
        """Yield the studies of the network, each a function of the subject."""
        spec = self.spec
        rows = min(spec.bounded_rows, spec.rows)
        yield "models", estimates.describe
        yield "estimates", partial(estimates.estimates, cells=list(_cells(spec)))
        yield "cooperators", cooperators.cooperators
        if spec.players <= MAX_EXACT:
            yield "illustration", estimates.illustration
        if spec.players <= MAX_PLAYERS:
            yield "pairs", partial(cooperators.pairs, rows=rows)
            yield (
                "selection_bound",
                partial(cooperators.selection_bound, rows=rows, evaluations=spec.evaluations),
            )
        # time does not depend on the weights: one network is enough
        if (self.recipe, self.seed) == (spec.recipes[0], spec.model_seeds[0]):
            yield "timings", partial(timings.timings, spec=spec)


_prepared = lru_cache(maxsize=1)(prepare)  # the studies of a network follow one another


def _cells(spec: Spec) -> Iterator[tuple[str, int, int]]:
    """Yield every method whose error is measured, with its evaluations a feature and round."""
    methods = [(method, n) for method in spec.methods for n in spec.evaluations]
    methods += [(method, ABLATION_N) for method in ABLATIONS]
    for method, n in methods:
        for number in range(spec.rounds_of(method)):
            yield method, n, number
