"""Made-up records of every study of the paper, with numbers known beforehand, and ways to change
them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.explanation import Floats
from shearshap.paper.experiments import paper_tables as tables
from shearshap.paper.experiments.records import STUDIES, Records, column, joined, table
from shearshap.paper.experiments.spec import ABLATED, ABLATIONS, PROTOCOLS
from shearshap.paper.experiments.studies import DERIVATIVES, FORWARD, TRUTH
from shearshap.paper.experiments.summaries import METRICS

EVALUATIONS = (8, 16, 32)
SEEDS = (0, 1)
ROUNDS = 3
ROWS = 4
TARGETS = 12
DRAWS = 10

PAPER = list(PROTOCOLS["paper"])
AUTHORS = list(PROTOCOLS["authors"])
FAIR = list(PROTOCOLS["fair"])
EVERY = tuple(dict.fromkeys((*PAPER, *AUTHORS, *FAIR, *ABLATIONS)))

SIZES = {0: 2.2, 1: 2.5}  #: mean |phi|_1 of each network; the authors' census network has 2.35
LEVEL = {
    "shear": 0.0185,
    "shear-authors": 0.0185,
    "permutation-authors": 0.11,
    "permutation-antithetic-authors": 0.057,
    "permutation-antithetic": 0.05,
    "shear-without-as": 0.03,
    "shear-without-ccs": 0.06,
    "shear-without-either": 0.09,
}
"""The error at N = 8; 0.2 for all others.

At N it is sqrt(8 / N) of that. With these, every claim of the paper holds.
"""

LINE = "shear reproduce census --rows 4"
MACHINE = "an abacus, 2 cores"
VERSIONS = "shearshap 0.0"

Change = Callable[[Floats], Any]  #: new values of a column from its old ones


# One study each


def estimates(dataset: str, methods: Sequence[str], rounds: int = ROUNDS) -> pa.Table:
    """Every metric falls as the error rises; the records of the truth have no error."""
    rng = np.random.default_rng(1)
    runs = [(TRUTH, 0, 0)]
    for method in methods:
        for n in (ABLATED,) if method in ABLATIONS else EVALUATIONS:
            runs += [(method, n, number) for number in range(rounds)]
    parts = [
        estimate(dataset, method, n, number, seed, rng)
        for method, n, number in runs
        for seed in SEEDS
    ]
    return joined("estimates", parts)


def estimate(
    dataset: str, method: str, n: int, number: int, seed: int, rng: np.random.Generator
) -> pa.Table:
    """SHEAR varies little over rounds, all others much."""
    steady = method.startswith("shear")
    spread = 0.01 if steady else 0.2
    draw = (1 + spread * rng.uniform(-1, 1)) * rng.uniform(0.98, 1.02, ROWS)
    error = LEVEL.get(method, 0.2) * math.sqrt(8 / n) * draw if n else np.zeros(ROWS)
    columns = {
        "dataset": dataset,
        "seed": seed,
        "method": method,
        "n": n,
        "round": number,
        "row": np.arange(ROWS) + 100 * seed,
        "absolute_error": error,
        "ranking_accuracy": 1 - error,
        "faithfulness": 0.9 - 0.5 * error,
        "monotonicity": 0.6 - 0.25 * error,
        "evaluations": 13 * n + 2,
        "derivative_passes": 13 if steady else 0,
    }
    return table("estimates", columns)


def timings(dataset: str, methods: Sequence[str]) -> pa.Table:
    """SHEAR takes 40 ms for derivatives and 2 ms for each evaluation a feature; others 10 ms for each."""
    rng = np.random.default_rng(2)
    parts = []
    for number in range(3):
        for method, n, seconds in mean_seconds(methods):
            columns = {
                "dataset": dataset,
                "seed": SEEDS[0],
                "method": method,
                "n": n,
                "round": number,
                "rows": ROWS,
                "seconds": seconds * rng.uniform(0.98, 1.02),
                "machine": MACHINE,
            }
            parts.append(table("timings", columns))
    return joined("timings", parts)


def mean_seconds(methods: Sequence[str]) -> list[tuple[str, int, float]]:
    timed = [(DERIVATIVES, 0, 0.04)]
    for n in EVALUATIONS:
        timed.append((FORWARD, n, 0.002 * n))
        for method in methods:
            seconds = 0.04 + 0.002 * n if method == "shear" else 0.01 * n
            timed.append((method, n, seconds))
    return timed


def cooperators(dataset: str) -> pa.Table:
    """Errors are 1 over cross-contribution; both have the same scale for all targets."""
    rng = np.random.default_rng(3)
    runs = [(selection, 0, n) for selection in ("shear", "random") for n in (4, 8, 16, 32, 64)]
    runs += [("random", draw, ABLATED) for draw in range(1, DRAWS)]
    parts = []
    for seed in SEEDS:
        player = rng.integers(13, size=TARGETS)
        for selection, draw, n in runs:
            eta = n * rng.uniform(0.1, 0.9, TARGETS) + (n if selection == "shear" else 0)
            columns = {
                "dataset": dataset,
                "seed": seed,
                "row": np.arange(TARGETS) + 100 * seed,
                "player": player,
                "n": n,
                "selection": selection,
                "draw": draw,
                "cross_contribution": eta,
                "error": np.zeros(TARGETS) if n == 64 else 1 / eta,
                "share": rng.normal(size=TARGETS),
            }
            parts.append(table("cooperators", columns))
    return joined("cooperators", parts)


def bounds(dataset: str, pairs: int = 30) -> pa.Table:
    """Losses are below both bounds."""
    rng = np.random.default_rng(4)
    parts = []
    for seed in SEEDS:
        bound = 10 ** rng.uniform(-6, -1, pairs)
        columns = {
            "dataset": dataset,
            "seed": seed,
            "row": 100 * seed,
            "player": rng.integers(6, size=pairs),
            "other": rng.integers(6, 13, size=pairs),
            "loss": bound * rng.uniform(0.5, 0.95, pairs),
            "printed": bound,
            "sure": 1.02 * bound,
        }
        parts.append(table("bounds", columns))
    return joined("bounds", parts)


def illustration(dataset: str) -> pa.Table:
    """SHEAR's values differ from the exact ones, and add up to the same."""
    exact = np.array([0.5, -1.25, 0.125, 2.0, -0.25])
    parts = []
    for seed in SEEDS:
        columns = {
            "dataset": dataset,
            "seed": seed,
            "row": 7 + seed,
            "feature": ["age", "relationship", "sex", "gain", "race"],
            "value": ["39", "Not-in-family, or so they say", "Male", "0", "White"],
            "exact": exact,
            "shear": exact + np.array([0.01, -0.01, 0.02, -0.02, 0]),
            "base_value": -0.125,
            "prediction": 1.0,
            "evaluations": 210,
        }
        parts.append(table("illustration", columns))
    return joined("illustration", parts)


def models(dataset: str) -> pa.Table:
    """The networks of a data set that the paper knows are those of its table."""
    known = dataset in tables.PAPER_SPLITS
    split = tables.PAPER_SPLITS.get(dataset, (7, 13, 700, 100, 200))
    columns = {
        "dataset": dataset,
        "title": f"The {dataset} data",
        "seed": np.array(SEEDS),
        "network": "3-layer MLP",
        "activation": "softplus",
        "hidden": 64,
        "learning_rate": 1e-3,
        "batch_size": 256,
        "reference": "mean",
        **dict(zip(tables.SPLIT_COLUMNS, split, strict=True)),
        "inputs": 87,
        "epochs": 9,
        "accuracy": np.array([0.851, 0.847]),
        "majority": 0.761,
        "rows": ROWS,
        "truth": "exact" if known else "estimated, to 0.010% of mean share",
        "truth_evaluations": 8192,
        "size": np.array(list(SIZES.values())),
        "key": "abc",
        "versions": VERSIONS,
    }
    return table("models", columns)


# All studies


def synthetic(
    dataset: str = "census", methods: Sequence[str] = EVERY, rounds: int = ROUNDS
) -> dict[str, pa.Table]:
    timed = [method for method in methods if method not in ABLATIONS]
    return {
        "models": models(dataset),
        "estimates": estimates(dataset, methods, rounds),
        "timings": timings(dataset, timed),
        "cooperators": cooperators(dataset),
        "bounds": bounds(dataset),
        "illustration": illustration(dataset),
    }


CENSUS = synthetic("census")
GERMAN = synthetic("german")
BOTH = {study: joined(study, [CENSUS[study], GERMAN[study]]) for study in STUDIES}


# Changes


def revised(records: Records, study: str, name: str, change: Change, **equal: Any) -> Records:
    """Return the records with a column of a study changed where others equal these values."""
    old = records[study]
    mask = np.full(len(old), True)
    for key, wanted in equal.items():
        mask &= column(old, key) == wanted
    assert mask.any(), f"no {study} of {equal}"

    values = column(old, name).copy()
    values[mask] = change(values[mask])
    place = old.schema.get_field_index(name)
    field = old.schema.field(place)
    return {**records, study: old.set_column(place, field, pa.array(values, field.type))}


def only(records: Records, *methods: str) -> Records:
    """Return the records as if these methods and the ablations had been run, and no others."""
    names = [*methods, *ABLATIONS, TRUTH, FORWARD, DERIVATIVES]
    measured = {
        study: records[study].filter(np.isin(column(records[study], "method"), names))
        for study in ("estimates", "timings")
    }
    return {**records, **measured}


def without(records: Records, *studies: str) -> Records:
    return {**records, **{study: records[study].slice(0, 0) for study in studies}}


def shuffled(records: pa.Table) -> pa.Table:
    return records.take(np.random.default_rng(5).permutation(len(records)))


def times(factor: float) -> Callable[[Floats], Floats]:
    return lambda values: values * factor


def constant(value: float) -> Callable[[Floats], Floats]:
    return lambda values: np.full_like(values, value)


def error(records: Records, change: Change, **equal: Any) -> Records:
    return revised(records, "estimates", "absolute_error", change, **equal)


def better(records: Records, method: str, **equal: Any) -> Records:
    return error(records, times(0.01), method=method, **equal)


def worse(records: Records, method: str, **equal: Any) -> Records:
    return error(records, times(100), method=method, **equal)


def scored(records: Records, metrics: Sequence[str], change: Change, **equal: Any) -> Records:
    for metric in metrics:
        records = revised(records, "estimates", metric, change, **equal)
    return records


SCORES = tuple(METRICS)[1:]  #: the metrics of which larger is better


def accurate(records: Records, method: str) -> Records:
    """Make a method better by all metrics."""
    return better(scored(records, SCORES, constant(1), method=method), method)


def inaccurate(records: Records, method: str) -> Records:
    """Make a method worse by all metrics."""
    return worse(scored(records, SCORES, constant(0), method=method), method)


def unsteady(records: Records, **equal: Any) -> Records:
    """Make SHEAR's error and accuracy differ much from round to round."""
    records = scored(records, ("ranking_accuracy",), constant(0), method="shear", round=1, **equal)
    return worse(records, "shear", round=1, **equal)


def lucky(records: Records, **equal: Any) -> Records:
    """Make random cooperators better than those that SHEAR selects."""
    return revised(records, "cooperators", "error", times(1e-3), selection="random", **equal)


def flat(records: Records) -> Records:
    """Make features interact nowhere: nothing to select by, nothing to lose."""
    for name in ("cross_contribution", "error"):
        records = revised(records, "cooperators", name, constant(0))
    for name in ("loss", "printed", "sure"):
        records = revised(records, "bounds", name, constant(0))
    return records
