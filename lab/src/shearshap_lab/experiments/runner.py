"""Run a specification: every task once, its records kept on disk as soon as it is finished."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from shearshap.engine.progress import progress_bar
from shearshap.store import Store, written_whole
from shearshap_lab.code_state import commit
from shearshap_lab.data import criteo, uci
from shearshap_lab.experiments import studies
from shearshap_lab.experiments.provenance import (
    VERSIONS,
    Stopwatch,
    code_of_studies,
    machine,
)
from shearshap_lab.experiments.records import PROVENANCE, STUDIES, Records, joined, part, write
from shearshap_lab.experiments.spec import (
    ABLATED,
    ABLATIONS,
    CANDIDATES,
    COMPARED,
    SLOW,
    Setting,
    Spec,
)
from shearshap_lab.experiments.subject import Subject, prepare
from shearshap_lab.theory import MOST_PLAYERS
from shearshap_lab.truth import MOST_EXACT

_EPOCH = 4e5  #: about how long an epoch of training takes, in model evaluations
_EPOCHS = 90  #: about how many there are, where training goes on until it no longer helps
_DERIVATIVES = 150  #: about how long one corner of Theorem 2 takes, in model evaluations
_ALONE = 20  #: about how many times longer a row takes alone than with others


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
        """Return the name of its records' file, which covers everything that they depend on.

        That includes the code: where it has changed, all is computed anew.
        """
        setting = subject.setting
        facts = json.dumps(
            [
                VERSIONS,
                code_of_studies(),
                subject.truth.key,
                repr(setting),
                self.study,
                self.name,
                self.facts,
            ]
        )
        key = hashlib.sha256(facts.encode()).hexdigest()[:16]
        words = (subject.dataset.name, setting.name, f"seed{setting.seed}", self.name, key)
        return "-".join(word for word in words if word) + ".parquet"


def run(
    specs: Sequence[Spec],
    out: Path | str,
    *,
    command: Sequence[str] = (),
    processes: int = 1,
    progress: bool | None = None,
) -> Records:
    """Measure what the specifications say, and return the records, which also lie in out/records.

    A run that was stopped at any point goes on with the task that it was at: the records of every
    finished task are kept in out/parts, under a name that covers what they depend on, the code
    included. The same specification gives the same records, timings aside, with the same versions
    and number of threads; with others, the same up to rounding. `command` is kept beside the
    records, with the commit, the versions, the machine and the time it took.

    Several processes, of one thread each, measure several networks at once; times are measured
    afterwards, with nothing else running.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)  # raises now, not after hours, where it cannot be made
    stopwatch = Stopwatch(out / "parts" / f"seconds-{_key(specs)}.txt")
    settings = [(spec, setting) for spec in specs for setting in spec.settings()]
    if processes > 1:
        _measure_ahead(settings, out, processes, stopwatch, progress)
    parts: dict[str, list[pa.Table]] = {study: [] for study in STUDIES}
    with progress_bar(
        progress,
        total=sum(_total_effort(spec, setting) for spec, setting in settings),
        bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left",
        smoothing=0.05,
        dynamic_ncols=True,
    ) as bar:
        for spec, setting in settings:
            for study, records in _measured(spec, setting, out, bar):
                parts[study].append(records)
                stopwatch.save()

    whole = {study: joined(study, tables) for study, tables in parts.items()}
    _write_all(whole, out / "records", _provenance(command, stopwatch))
    return whole


def _measure_ahead(
    settings: Sequence[tuple[Spec, Setting]],
    out: Path,
    processes: int,
    stopwatch: Stopwatch,
    progress: bool | None,
) -> None:
    """Measure everything but times, several networks at once, and keep it on disk."""
    # those of a data set and seed together, since they share what is trained
    shared: dict[tuple[Spec, int], list[Setting]] = {}
    for spec, setting in settings:
        shared.setdefault((spec, setting.seed), []).append(setting)
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(processes, context, partial(torch.set_num_threads, 1)) as pool,
        progress_bar(progress, total=len(shared), unit=" networks and their variants") as bar,
    ):
        futures = [
            pool.submit(_measure_untimed, spec, own, out) for (spec, _), own in shared.items()
        ]
        for future in as_completed(futures):
            future.result()
            stopwatch.save()
            bar.update()


def _measure_untimed(spec: Spec, settings: Sequence[Setting], out: Path) -> None:
    """Measure everything of some networks but times."""
    for setting in settings:
        subject = prepare(spec, setting, out)
        for task in tasks(spec, setting):
            if task.study != "timings":
                _records(task, subject, out)


def _records(task: Task, subject: Subject, out: Path) -> pa.Table:
    """Return a task's records, from disk where they are there."""
    store = Store(out / "parts", task.study)
    compute = partial(task.compute, subject)
    return part(store, task.study, task.file_name(subject), compute)


def _key(specs: Sequence[Spec]) -> str:
    """Return a hash of what is measured, and of the code that does it."""
    return hashlib.sha256(f"{code_of_studies()} {list(specs)}".encode()).hexdigest()[:16]


def _total_effort(spec: Spec, setting: Setting) -> float:
    """Return about how long one network takes, in model evaluations."""
    return preparation(spec, setting) + sum(task.effort for task in tasks(spec, setting))


def _measured(spec: Spec, setting: Setting, out: Path, bar: Any) -> Iterator[tuple[str, pa.Table]]:
    """Yield the study and the records of every task for one network."""
    network = f"{spec.dataset}, {setting.name or 'another'} network {setting.seed}"
    bar.set_description_str(f"{network}: training, ground truth")
    subject = prepare(spec, setting, out)
    bar.update(preparation(spec, setting))

    for task in tasks(spec, setting):
        bar.set_description_str(f"{network}: {task.study}, {task.name}")
        yield task.study, _records(task, subject, out)
        bar.update(task.effort)


def _provenance(command: Sequence[str], stopwatch: Stopwatch) -> dict[str, Any]:
    """Return where the records come from."""
    return {
        "commit": commit(),
        "code": code_of_studies(),
        "versions": VERSIONS,
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "seconds": round(stopwatch.seconds, 1),
        "command": shlex.join(command),
    }


def _write_all(records: Records, folder: Path, provenance: dict[str, Any]) -> None:
    """Write the records of all studies to a folder, whole or not at all."""
    with written_whole(folder) as partial_folder:
        for study, table in records.items():
            write(table, partial_folder / f"{study}.parquet")
        text = json.dumps(provenance, indent=2)
        (partial_folder / PROVENANCE).write_text(text + "\n")


# Tasks


def tasks(spec: Spec, setting: Setting) -> Iterator[Task]:
    """Yield everything there is to do for the network of a setting, in order."""
    if not setting.name:
        yield _sensitivity(spec, setting)
        return
    players = _players(spec)
    yield Task("models", "description", 0, studies.describe)
    yield Task("estimates", studies.TRUTH, spec.rows * players, studies.score_truth)
    for method, evaluations in _estimated(spec, setting):
        for number in range(spec.rounds_of(method)):
            yield _estimates(spec, method, evaluations, number)
    if setting.name == "authors-mean":
        return  # the same networks: only the errors are of interest

    if players <= MOST_EXACT:
        yield Task("illustration", "one-row", 2**players, studies.illustration)
    yield from (_cooperators(spec, selection, draw) for selection, draw in _selections())
    if players <= MOST_PLAYERS:
        for row in range(min(spec.bounded_rows, spec.rows)):
            yield from _theorems(spec, row)

    # Time does not depend on the weights: one network is enough.
    if setting.name == spec.recipes[0] and setting.seed == spec.model_seeds[0]:
        for number in range(spec.timings):
            yield from (_timings(spec, way, number) for way in studies.WAYS)


def preparation(spec: Spec, setting: Setting) -> float:
    """Return about how long training and ground truth take, in model evaluations."""
    players = _players(spec)
    coalitions = 2**players if players <= MOST_EXACT else 2**16
    training = _EPOCH * (setting.recipe.epochs or _EPOCHS)
    if setting.recipe.preparation.background == "mean" and setting.recipe.epochs == 20:
        training = 0  # the network is there already
    return training + setting.rows * coalitions


def _estimated(spec: Spec, setting: Setting) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield every method whose error is measured, with its evaluations a feature."""
    for method in spec.methods_on(setting.name):
        yield method, spec.evaluations
    if setting.name != "authors-mean":
        for method in ABLATIONS:
            yield method, (ABLATED,)


def _timed(spec: Spec, way: str, number: int) -> Iterator[tuple[str, int]]:
    """Yield everything whose time is measured in a round, with its evaluations a feature."""
    # one by one they would be fitted to one row after the other; the paper does not have them
    left_out = SLOW if way == studies.ONE_BY_ONE else ()
    yield studies.DERIVATIVES, 0
    for n in spec.evaluations:
        yield studies.FORWARD, n
        for method in spec.methods:
            if method not in left_out and number < spec.timings_of(method):
                yield method, n


def _selections() -> Iterator[tuple[str, int]]:
    """Yield every way to select cooperators, with the number of the draw."""
    yield "shear", 0
    for draw in range(1 + studies.DRAWS):
        yield "random", draw


def _estimates(spec: Spec, method: str, evaluations: tuple[int, ...], number: int) -> Task:
    return Task(
        "estimates",
        f"{method}-round{number}",
        sum(_effort(spec, method, n) for n in evaluations),
        partial(studies.estimates, method=method, evaluations=evaluations, number=number),
        f"{CANDIDATES[method]!r}, {evaluations}",
    )


def _timings(spec: Spec, way: str, number: int) -> Task:
    timed = list(_timed(spec, way, number))
    one_call = way == studies.BATCH
    rows = min(spec.rows, spec.timed_rows if one_call else spec.rows_one_by_one)
    effort = sum(_effort(spec, method, n) for method, n in timed) * rows / spec.rows
    return Task(
        "timings",
        f"{way.replace(' ', '-')}-round{number}",
        effort if one_call else effort * _ALONE,
        partial(studies.timings, way=way, timed=timed, rows=rows, number=number),
        f"{timed}, {rows}, {machine()}",
    )


def _cooperators(spec: Spec, selection: str, draw: int) -> Task:
    players = _players(spec)
    every_size = 2 * min(2**players, 1 << 16)
    every_player = players * ABLATED
    compute = partial(studies.cooperators, selection=selection, draw=draw)
    effort = spec.rows * (every_player if draw else every_size)
    return Task("cooperators", f"{selection}-draw{draw}", effort, compute)


def _theorems(spec: Spec, row: int) -> Iterator[Task]:
    """Yield the studies of one row's pairs, the first of which does the work for all."""
    effort = _DERIVATIVES * 2 ** _players(spec)
    yield Task("bounds", f"row{row}", effort, partial(studies.bounds, row=row))
    yield Task("chain", f"row{row}", 0, partial(studies.chain, row=row))
    yield Task(
        "selection_bound",
        f"row{row}",
        0,
        partial(studies.selection_bound, row=row, evaluations=spec.evaluations),
        f"{spec.evaluations}",
    )


def _sensitivity(spec: Spec, setting: Setting) -> Task:
    """Return the study of a network of another training."""
    cells = list(_compared(spec))
    rounds = min(spec.rounds, 2)
    recipe = setting.recipe
    return Task(
        "sensitivity",
        f"{recipe.preparation.encoding.replace('/', '')}-{recipe.activation}",
        sum(_effort(spec, method, n) for method, n in cells) * rounds * setting.rows / spec.rows,
        partial(studies.sensitivity, cells=cells, rounds=rounds),
        f"{cells}, {rounds}",
    )


def _compared(spec: Spec) -> Iterator[tuple[str, int]]:
    """Yield the methods whose sensitivity is measured, at the fewest and the most evaluations."""
    few = dict.fromkeys((min(spec.evaluations), ABLATED))
    many = dict.fromkeys((*few, max(spec.evaluations)))
    for method in COMPARED:
        for n in few if method in SLOW else many:
            yield method, n


def _effort(spec: Spec, method: str, n: int) -> float:
    """Return about how long it takes to explain all rows, in model evaluations."""
    evaluations = n * _players(spec)
    # The equations that kriging solves grow with the budget.
    equations = 1 + evaluations / 100 if method == "kriging" else 1
    return spec.rows * evaluations * equations


def _players(spec: Spec) -> int:
    source = uci.SOURCES.get(spec.dataset)
    return criteo.FEATURES if source is None else source.features
