"""Run a specification: every task once, its records kept on disk as soon as it is finished."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from shearshap.engine.progress import progress_bar
from shearshap.engine.store import Store, written_whole
from shearshap.paper.data import criteo, uci
from shearshap.paper.experiments import studies
from shearshap.paper.experiments.records import COMMAND, STUDIES, Records, joined, part, write
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS, CANDIDATES, Spec
from shearshap.paper.experiments.studies import VERSIONS
from shearshap.paper.experiments.subject import Subject, prepare
from shearshap.paper.theory import MOST_PLAYERS
from shearshap.paper.truth import MOST_EXACT

_TRAINING = 1e7  #: about how long training takes, in model evaluations
_DERIVATIVES = 150  #: about how long one corner of Theorem 2 takes, in model evaluations


@dataclass(frozen=True)
class Task:
    """A piece of work that gives records of one study."""

    study: str
    name: str  #: within its study, data set and model seed
    effort: float  #: about how long it takes, in model evaluations
    compute: Callable[[Subject], pa.Table]
    #: what its records depend on besides the network, its rows and their ground truth
    facts: str = ""

    def file_name(self, subject: Subject) -> str:
        """Return the name of its records' file, which covers everything that they depend on."""
        facts = json.dumps([VERSIONS, subject.truth.key, self.study, self.name, self.facts])
        key = hashlib.sha256(facts.encode()).hexdigest()[:16]
        return f"{subject.dataset.name}-seed{subject.trained.seed}-{self.name}-{key}.parquet"


def run(
    specs: Sequence[Spec],
    out: Path | str,
    *,
    command: Sequence[str] = (),
    progress: bool | None = None,
) -> Records:
    """Measure what the specifications say, and return the records, which also lie in out/records.

    A run that was stopped at any point goes on with the task that it was at: the records of every
    finished task are kept in out/parts, under a name that covers what they depend on. The same
    specification gives the same records, timings aside, with the same versions and number of
    threads; with others, the same up to rounding. `command` is kept beside the records, for the
    report.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)  # raises now, not after hours, where it cannot be made
    subjects = [(spec, seed) for spec in specs for seed in spec.model_seeds]
    parts: dict[str, list[pa.Table]] = {study: [] for study in STUDIES}
    with progress_bar(
        progress,
        total=sum(_total_effort(spec, seed) for spec, seed in subjects),
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left",
        smoothing=0.05,
        dynamic_ncols=True,
    ) as bar:
        for spec, seed in subjects:
            for study, records in _measured(spec, seed, out, bar):
                parts[study].append(records)

    whole = {study: joined(study, tables) for study, tables in parts.items()}
    _write_all(whole, out / "records", command)
    return whole


def _total_effort(spec: Spec, seed: int) -> float:
    """Return about how long one network takes, in model evaluations."""
    return preparation(spec) + sum(task.effort for task in tasks(spec, seed))


def _measured(spec: Spec, seed: int, out: Path, bar: Any) -> Iterator[tuple[str, pa.Table]]:
    """Yield the study and the records of every task for one network."""
    network = f"{spec.dataset}, network {seed}"
    bar.set_description_str(f"{network}: training, ground truth")
    subject = prepare(spec, seed, out)
    bar.update(preparation(spec))

    for task in tasks(spec, seed):
        bar.set_description_str(f"{network}: {task.study}, {task.name}")
        store = Store(out / "parts", task.study)
        compute = partial(task.compute, subject)
        yield task.study, part(store, task.study, task.file_name(subject), compute)
        bar.update(task.effort)


def _write_all(records: Records, folder: Path, command: Sequence[str]) -> None:
    """Write the records of all studies to a folder, whole or not at all."""
    with written_whole(folder) as partial_folder:
        for study, table in records.items():
            write(table, partial_folder / f"{study}.parquet")
        (partial_folder / COMMAND).write_text(shlex.join(command) + "\n")


def tasks(spec: Spec, seed: int) -> Iterator[Task]:
    """Yield everything there is to do for the network of a model seed, in order."""
    players = _players(spec)
    yield Task("models", "description", 0, studies.describe)
    yield Task("estimates", studies.TRUTH, spec.rows * players, studies.score_truth)
    if players <= MOST_EXACT:
        yield Task("illustration", "one-row", 2**players, studies.illustration)

    for method, n in _estimated(spec):
        yield from (_estimate(spec, method, n, number) for number in range(spec.rounds))

    yield from (_cooperators(spec, selection, draw) for selection, draw in _selections())

    if players <= MOST_PLAYERS:
        bounded = min(spec.bounded_rows, spec.rows)
        yield from (_bounds(spec, row) for row in range(bounded))

    # Time does not depend on the weights: one network is enough.
    if seed == spec.model_seeds[0]:
        for number in range(spec.timings):
            yield from (_timing(spec, method, n, number) for method, n in _timed(spec))


def preparation(spec: Spec) -> float:
    """Return about how long training and ground truth take, in model evaluations."""
    players = _players(spec)
    coalitions = 2**players if players <= MOST_EXACT else 2**16
    return _TRAINING + spec.rows * coalitions


def _estimated(spec: Spec) -> Iterator[tuple[str, int]]:
    """Yield every method whose error is measured, with its evaluations a feature."""
    for method in spec.methods:
        for n in spec.evaluations:
            yield method, n
    for method in ABLATIONS:
        yield method, ABLATED


def _timed(spec: Spec) -> Iterator[tuple[str, int]]:
    """Yield everything whose time is measured, with its evaluations a feature."""
    yield studies.DERIVATIVES, 0
    for n in spec.evaluations:
        for method in (studies.FORWARD, *spec.methods):
            yield method, n


def _selections() -> Iterator[tuple[str, int]]:
    """Yield every way to select cooperators, with the number of the draw."""
    yield "shear", 0
    for draw in range(studies.DRAWS):
        yield "random", draw


def _estimate(spec: Spec, method: str, n: int, number: int) -> Task:
    name = f"{method}-n{n}-round{number}"
    compute = partial(studies.estimate, method=method, n=n, number=number)
    return Task("estimates", name, _effort(spec, method, n), compute, repr(CANDIDATES[method]))


def _timing(spec: Spec, method: str, n: int, number: int) -> Task:
    name = f"{method}-n{n}-round{number}"
    compute = partial(studies.timing, method=method, n=n, number=number)
    facts = f"{CANDIDATES.get(method)}, {studies.machine()}"
    return Task("timings", name, _effort(spec, method, n), compute, facts)


def _cooperators(spec: Spec, selection: str, draw: int) -> Task:
    every = 2 * min(2 ** _players(spec), studies.MOST_COALITIONS)
    effort = spec.rows * (ABLATED if draw else every)
    compute = partial(studies.cooperators, selection=selection, draw=draw)
    return Task("cooperators", f"{selection}-draw{draw}", effort, compute)


def _bounds(spec: Spec, row: int) -> Task:
    effort = _DERIVATIVES * 2 ** _players(spec)
    return Task("bounds", f"row{row}", effort, partial(studies.bounds, row=row))


def _effort(spec: Spec, method: str, n: int) -> float:
    """Return about how long it takes to explain all rows, in model evaluations."""
    evaluations = n * _players(spec)
    # The equations that kriging solves grow with the budget.
    equations = 1 + evaluations / 100 if method == "kriging" else 1
    return spec.rows * evaluations * equations


def _players(spec: Spec) -> int:
    source = uci.SOURCES.get(spec.dataset)
    return criteo.FEATURES if source is None else source.features
