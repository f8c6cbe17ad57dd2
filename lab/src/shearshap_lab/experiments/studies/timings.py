"""The study of timings: what rows take in one call, and one after the other."""

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product

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
    for number, way in product(range(spec.timings), WAYS):
        rows = min(spec.rows, spec.timed_rows if way == BATCH else spec.rows_one_by_one)
        for method, n in _timed(spec, way, number):
            columns = {
                **subject.names,
                "way": way,
                "method": method,
                "n": n,
                "round": number,
                "rows": rows,
                "seconds": _seconds(_work(subject, way, method, n), rows),
                "machine": machine(),
            }
            tables.append(table(STUDIES["timings"], columns))
    return joined("timings", tables)


def _timed(spec: Spec, way: str, number: int) -> Iterator[tuple[str, int]]:
    """Yield everything that is timed in a round, with its evaluations a feature."""
    yield DERIVATIVES, 0
    for n in spec.evaluations:
        yield FORWARD, n
        for method in spec.timed_methods:
            # kriging takes long; one by one it would be fitted to one row after the other
            if method != "kriging" or (way == BATCH and number < max(1, spec.timings // 2)):
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
    network = subject.trained.network
    # made once: to adapt the model is no part of the time
    explainer = Explainer(
        network,
        subject.dataset.background,
        groups=subject.dataset.groups,
        output=LOGIT,
        method=CANDIDATES.get(method, "auto"),
        batch_size=n or "auto",
    )

    inputs = torch.from_numpy(subject.inputs)

    def work(rows: slice) -> object:
        if method == DERIVATIVES:
            with subject.game(rows) as game:
                return cross_contribution(game)
        if method == FORWARD and way == BATCH:
            with subject.game(rows) as game:
                return game(torch.ones((1, subject.budget(n), game.players), dtype=torch.bool))
        if method == FORWARD:
            with torch.no_grad():
                return [network(inputs[rows].expand(n, -1)) for _ in range(subject.players)]
        if way == BATCH:
            return explained(subject, method, n, rows=rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShearWarning)
            return explainer(subject.inputs[rows], budget=subject.budget(n), progress=False)

    if way == BATCH:
        return work
    return lambda rows: [work(slice(row, row + 1)) for row in range(rows.stop)]
