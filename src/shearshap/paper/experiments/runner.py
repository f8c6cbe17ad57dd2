"""Run a specification: every task once, each kept on disk as soon as it is finished."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from shearshap.engine.progress import progress_bar
from shearshap.engine.store import written_whole
from shearshap.paper.data import criteo, uci
from shearshap.paper.experiments import studies
from shearshap.paper.experiments.records import COMMAND, STUDIES, Records, joined, kept, write
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS, CANDIDATES, Spec
from shearshap.paper.experiments.studies import VERSIONS
from shearshap.paper.experiments.subject import Subject, prepare
from shearshap.paper.theory import MOST_PLAYERS
from shearshap.paper.truth import MOST_EXACT

_TRAINING = 1e7  #: about as many model evaluations as training takes the time of
_DERIVATIVES = 150  #: for one corner of Theorem 2, likewise


@dataclass(frozen=True)
class Task:
    """A piece of work that gives records of one study."""

    study: str
    name: str  #: what it is, apart from data set and model seed
    effort: float  #: about how long it takes, in model evaluations
    compute: Callable[[Subject], pa.Table]
    #: what else its records depend on, apart from the network, its rows and their ground truth
    facts: str = ""

    def path(self, subject: Subject, folder: Path) -> Path:
        """Return where its records lie: the name covers everything that they depend on."""
        facts = json.dumps([VERSIONS, subject.truth.key, self.study, self.name, self.facts])
        key = hashlib.sha256(facts.encode()).hexdigest()[:16]
        return (
            folder
            / self.study
            / f"{subject.dataset.name}-seed{subject.trained.seed}-{self.name}-{key}.parquet"
        )


def run(
    specs: Sequence[Spec],
    out: Path | str,
    *,
    command: Sequence[str] = (),
    progress: bool | None = None,
) -> Records:
    """Measure what the specifications say, and return the records, which also lie in out/records.

    Killed at any point and started again, it goes on with the task that it was at: every finished
    one is kept in out/parts under a name that covers what its records depend on. The same
    specification gives the same records, timings aside, with the same versions and number of
    threads; with others, the same up to rounding. `command` is kept beside the records, for the
    report.
    """
    out = Path(out)
    parts: dict[str, list[pa.Table]] = {study: [] for study in STUDIES}
    total = sum(len(spec.model_seeds) * preparation(spec) for spec in specs)
    total += sum(
        task.effort for spec in specs for seed in spec.model_seeds for task in tasks(spec, seed)
    )
    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left"
    with progress_bar(
        progress, total=total, bar_format=form, smoothing=0.05, dynamic_ncols=True
    ) as bar:
        for spec in specs:
            for seed in spec.model_seeds:
                bar.set_description_str(f"{spec.dataset}, network {seed}: training, ground truth")
                subject = prepare(spec, seed, out)
                bar.update(preparation(spec))
                for task in tasks(spec, seed):
                    bar.set_description_str(
                        f"{spec.dataset}, network {seed}: {task.study}, {task.name}"
                    )
                    path = task.path(subject, out / "parts")
                    parts[task.study].append(kept(path, task.study, partial(task.compute, subject)))
                    bar.update(task.effort)
    records = {study: joined(study, found) for study, found in parts.items()}
    with written_whole(out / "records") as folder:
        for study, found in records.items():
            write(found, folder / f"{study}.parquet")
        (folder / COMMAND).write_text(shlex.join(command) + "\n")
    return records


def tasks(spec: Spec, seed: int) -> Iterator[Task]:
    """Yield everything there is to do for the network of a model seed, in order."""
    yield Task("models", "description", 0, studies.describe)
    yield Task("estimates", studies.TRUTH, spec.rows * _players(spec), studies.score_truth)
    if _players(spec) <= MOST_EXACT:
        yield Task("illustration", "one-row", 2 ** _players(spec), studies.illustration)
    for method, n in _estimated(spec):
        yield from (_estimate(spec, method, n, number) for number in range(spec.rounds))
    yield from (_cooperators(spec, selection, draw) for selection, draw in _drawn())
    if _players(spec) <= MOST_PLAYERS:
        yield from (_bounds(spec, row) for row in range(min(spec.bounded_rows, spec.rows)))
    if seed == spec.model_seeds[0]:
        for number in range(spec.timings):
            yield from (_timing(spec, method, n, number) for method, n in _timed(spec))


def preparation(spec: Spec) -> float:
    """Return about how long training and ground truth take, in model evaluations."""
    coalitions = 2 ** _players(spec) if _players(spec) <= MOST_EXACT else 2**16
    return _TRAINING + spec.rows * coalitions


def _estimated(spec: Spec) -> Iterator[tuple[str, int]]:
    for method in spec.methods:
        for n in spec.evaluations:
            yield method, n
    for method in ABLATIONS:
        yield method, ABLATED


def _timed(spec: Spec) -> Iterator[tuple[str, int]]:
    yield studies.DERIVATIVES, 0
    for n in spec.evaluations:
        for method in (studies.FORWARD, *spec.methods):
            yield method, n


def _drawn() -> Iterator[tuple[str, int]]:
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
    effort = spec.rows * (
        ABLATED if draw else 2 * min(2 ** _players(spec), studies.MOST_COALITIONS)
    )
    compute = partial(studies.cooperators, selection=selection, draw=draw)
    return Task("cooperators", f"{selection}-draw{draw}", effort, compute)


def _bounds(spec: Spec, row: int) -> Task:
    return Task(
        "bounds", f"row{row}", _DERIVATIVES * 2 ** _players(spec), partial(studies.bounds, row=row)
    )


def _effort(spec: Spec, method: str, n: int) -> float:
    """Return about how long it takes to explain all rows; kriging solves equations that grow with
    the budget.
    """
    evaluations = n * _players(spec)
    equations = 1 + evaluations / 100 if method == "kriging" else 1
    return spec.rows * evaluations * equations


def _players(spec: Spec) -> int:
    return uci.SOURCES[spec.dataset].features if spec.dataset in uci.SOURCES else criteo.FEATURES
