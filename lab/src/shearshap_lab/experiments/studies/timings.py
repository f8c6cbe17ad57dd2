"""The study of timings: what rows take in one call, and one after the other."""

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import torch

from shearshap.errors import ShearWarning
from shearshap.explainer import Explainer
from shearshap.interactions.cross import cross_contribution
from shearshap_lab.experiments.spec import CANDIDATES, STUDIES, Spec, joined
from shearshap_lab.experiments.studies.estimates import LOGIT, Subject, explained
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
    if way == ONE_BY_ONE:
        each = _work_of_a_row(subject, method, n)
        return lambda rows: [each(slice(row, row + 1)) for row in range(rows.stop)]
    if method == DERIVATIVES:
        return partial(_derivatives, subject)
    if method == FORWARD:
        return partial(_forward, subject, n)
    return lambda rows: explained(subject, method, n, rows=rows)


def _work_of_a_row(subject: Subject, method: str, n: int) -> Work:
    """Return the same in the paper's way: N evaluations at a time."""
    network = subject.trained.network
    if method == DERIVATIVES:
        return partial(_derivatives, subject)
    if method == FORWARD:
        inputs = torch.from_numpy(subject.inputs)

        def forward(rows: slice) -> object:
            with torch.no_grad():
                return [network(inputs[rows].expand(n, -1)) for _ in range(subject.players)]

        return forward
    # made once: to adapt the model is no part of the time
    explainer = Explainer(
        network,
        subject.dataset.background,
        groups=subject.dataset.groups,
        output=LOGIT,
        method=CANDIDATES[method],
        batch_size=n,
    )

    def explain(rows: slice) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShearWarning)
            return explainer(subject.inputs[rows], budget=subject.budget(n), progress=False)

    return explain


def _forward(subject: Subject, n: int, rows: slice) -> object:
    with subject.game(rows) as game:
        return game(torch.ones((1, subject.budget(n), game.players), dtype=torch.bool))


def _derivatives(subject: Subject, rows: slice) -> object:
    with subject.game(rows) as game:
        return cross_contribution(game)
