"""The study of timings: what rows take in one call, and one after the other."""

import time
import warnings
from collections.abc import Callable, Iterator

import pyarrow as pa
import torch

from shearshap.errors import ShearWarning
from shearshap.explainer import Explainer
from shearshap.interactions.cross import cross_contribution
from shearshap_lab.experiments.records import STUDIES, joined
from shearshap_lab.experiments.spec import CANDIDATES, Spec
from shearshap_lab.experiments.studies.estimates import explained
from shearshap_lab.experiments.subject import LOGIT, Subject
from shearshap_lab.provenance import machine
from shearshap_lab.runner import table

FORWARD = "forward"  #: the forward passes of the cost model, timed like a method
DERIVATIVES = "derivatives"  #: its derivatives, likewise

BATCH = "batch"  #: all rows in one call
ONE_BY_ONE = "one by one"
"""The paper's way: row after row, and of each row N evaluations at a time, a feature's own."""
WAYS = (BATCH, ONE_BY_ONE)

MIN_SECONDS = 0.01  #: of one timing
WARM_UP_ROWS = 1  #: explained before a timing starts

Work = Callable[[slice], object]


def timings(subject: Subject, spec: Spec) -> pa.Table:
    """Return the seconds of every method and part of the cost model, once in each round."""
    tables = []
    for number in range(spec.timings):
        for way in WAYS:
            most = spec.timed_rows if way == BATCH else spec.rows_one_by_one
            tables.append(_round(subject, spec, way, number, min(spec.rows, most)))
    return joined("timings", tables)


def _round(subject: Subject, spec: Spec, way: str, number: int, rows: int) -> pa.Table:
    timed = list(_timed(spec, way, number))
    return table(
        STUDIES["timings"],
        {
            **subject.names,
            "way": way,
            "method": [method for method, _ in timed],
            "n": [n for _, n in timed],
            "round": number,
            "rows": rows,
            "seconds": [_seconds(_work(subject, way, method, n), rows) for method, n in timed],
            "machine": machine(),
        },
    )


def _timed(spec: Spec, way: str, number: int) -> Iterator[tuple[str, int]]:
    """Yield everything that is timed in a round, with its evaluations a feature."""
    yield DERIVATIVES, 0
    for n in spec.evaluations:
        yield FORWARD, n
        for method in spec.methods:
            # kriging takes long; one by one it would be fitted to one row after the other
            if method != "kriging" or (way == BATCH and number < max(1, spec.timings // 3)):
                yield method, n


def _seconds(work: Work, rows: int) -> float:
    """Return the mean time of the work on some rows, after a short run to warm up.

    Work that takes almost no time is repeated.
    """
    work(slice(0, min(rows, WARM_UP_ROWS)))
    started = time.perf_counter()
    times = 0
    while times == 0 or time.perf_counter() - started < MIN_SECONDS:
        work(slice(0, rows))
        times += 1
    return (time.perf_counter() - started) / times


def _work(subject: Subject, way: str, method: str, n: int) -> Work:
    """Return what is timed: explaining rows, their bare forward passes, or their derivatives."""

    def explain(rows: slice) -> object:
        return explained(subject, method, n, rows=rows)

    def forward(rows: slice) -> object:
        with subject.game(rows) as game:
            full = torch.ones((1, subject.budget(n), game.players), dtype=torch.bool)
            return game(full)

    def derivatives(rows: slice) -> object:
        with subject.game(rows) as game:
            return cross_contribution(game)

    if way == BATCH:
        return {FORWARD: forward, DERIVATIVES: derivatives}.get(method, explain)
    return {
        FORWARD: _forward_one_by_one(subject, n),
        DERIVATIVES: _one_by_one(derivatives),
    }.get(method) or _explain_one_by_one(subject, method, n)


def _one_by_one(work: Work) -> Work:
    """Return the work on rows that is done for one row after the other."""

    def each(rows: slice) -> object:
        return [work(slice(row, row + 1)) for row in range(rows.stop)]

    return each


def _explain_one_by_one(subject: Subject, method: str, n: int) -> Work:
    explainer = Explainer(
        subject.trained.network,
        subject.dataset.background,
        groups=subject.dataset.groups,
        output=LOGIT,
        method=CANDIDATES[method],
        batch_size=n,
    )
    inputs = subject.inputs
    budget = subject.budget(n)

    def explain(rows: slice) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShearWarning)
            return explainer(inputs[rows], budget=budget, progress=False)

    return _one_by_one(explain)


def _forward_one_by_one(subject: Subject, n: int) -> Work:
    """Return the bare forward passes: for each row, a batch of N for each feature."""
    network = subject.trained.network
    inputs = torch.from_numpy(subject.inputs)

    def forward(rows: slice) -> object:
        with torch.no_grad():
            batch = inputs[rows].expand(n, -1)
            return [network(batch) for _ in range(subject.players)]

    return _one_by_one(forward)
