"""Made-up records of every study of the paper, with numbers known beforehand, and ways to change
them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shearshap.result.explanation import Floats
from shearshap_lab.experiments import paper_tables as tables
from shearshap_lab.experiments.records import STUDIES, Records, column, joined, table
from shearshap_lab.experiments.spec import ABLATED, ABLATIONS, PROTOCOLS
from shearshap_lab.experiments.studies import DERIVATIVES, FORWARD, TRUTH
from shearshap_lab.experiments.summaries import METRICS

EVALUATIONS = (8, 16, 32)
SEEDS = (0, 1, 2)
ROUNDS = 3
ROWS = 4
TARGETS = 12
PLAYERS = 3  #: of the study of cooperators, drawn in every row
DRAWS = 10
REPEATS = 10
WAYS = ("batch", "one by one")

PAPER = list(PROTOCOLS["paper"])
AUTHORS = list(PROTOCOLS["authors"])
FAIR = list(PROTOCOLS["fair"])
COIN = list(PROTOCOLS["paper-coin"])
EVERY = tuple(dict.fromkeys((*PAPER, *COIN, *AUTHORS, *FAIR, *ABLATIONS)))
RECIPES = {"census": ("ours", "authors", "authors-mean"), "german": ("ours",)}

SIZES = {
    0: 2.2,
    1: 2.5,
    2: 2.35,
}  #: mean |phi|_1 of each network; the authors' census network has 2.35
LEVEL = {
    "shear": 0.0185,
    "shear-authors": 0.0185,
    "permutation-authors": 0.11,
    "permutation-antithetic-authors": 0.057,
    "permutation-antithetic": 0.05,
    "shear-unpaired": 0.03,
    "shear-empty": 0.04,
    "shear-without-ccs": 0.06,
    "shear-unpaired-without-ccs": 0.09,
    "shear-empty-without-ccs": 0.12,
}
"""The error at N = 8; 0.2 for all others.

At N it is sqrt(8 / N) of that. With these, every claim of the paper holds.
"""

LINE = "shear paper reproduce census --rows 4"
MACHINE = "an abacus, 2 cores"
VERSIONS = "shearshap 0.0"

Change = Callable[[Floats], Any]  #: new values of a column from its old ones


# One study each


def estimates(
    dataset: str, methods: Sequence[str], rounds: int = ROUNDS, recipe: str = "ours"
) -> pa.Table:
    """Every metric falls as the error rises; the records of the truth have no error."""
    rng = np.random.default_rng(1)
    runs = [(TRUTH, 0, 0)]
    for method in methods:
        for n in (ABLATED,) if method in ABLATIONS else EVALUATIONS:
            runs += [(method, n, number) for number in range(rounds)]
    parts = [
        estimate(dataset, recipe, method, n, number, seed, rng)
        for method, n, number in runs
        for seed in SEEDS
    ]
    return joined("estimates", parts)


def estimate(
    dataset: str,
    recipe: str,
    method: str,
    n: int,
    number: int,
    seed: int,
    rng: np.random.Generator,
) -> pa.Table:
    """SHEAR varies little over rounds, all others much; rows differ, and are alike to all methods."""
    steady = method.startswith("shear")
    spread = 0.01 if steady else 0.2
    row = np.arange(ROWS) / ROWS - 0.5 * (ROWS - 1) / ROWS  # 0 on average
    draw = (1 + spread * rng.uniform(-1, 1)) * (1 + 0.2 * row) * rng.uniform(0.98, 1.02, ROWS)
    error = LEVEL.get(method, 0.2) * math.sqrt(8 / n) * draw if n else np.zeros(ROWS)
    columns = {
        "dataset": dataset,
        "recipe": recipe,
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
    for number in range(REPEATS):
        for way in WAYS:
            for method, n, seconds in mean_seconds(methods):
                columns = {
                    "dataset": dataset,
                    "recipe": "ours",
                    "seed": SEEDS[0],
                    "way": way,
                    "method": method,
                    "n": n,
                    "round": number,
                    "rows": ROWS,
                    "seconds": seconds * rng.uniform(0.98, 1.02) * (1 if way == "batch" else 5),
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


def cooperators(dataset: str, recipe: str = "ours") -> pa.Table:
    """Errors are 1 over cross-contribution; both have the same scale for all targets."""
    rng = np.random.default_rng(3)
    runs = [(selection, n) for selection in ("shear", "random") for n in (4, 8, 16, 32, 64)]
    parts = []
    for seed in SEEDS:
        row = np.arange(TARGETS) + 100 * seed
        player = rng.integers(PLAYERS, size=TARGETS)
        for selection, n in runs:
            eta = n * rng.uniform(0.1, 0.9, TARGETS) + (n if selection == "shear" else 0)
            parts.append(_cooperators(dataset, recipe, seed, row, player, n, selection, 0, eta))
        for draw in range(1, DRAWS + 1):
            rows = np.repeat(row, PLAYERS)
            every = np.tile(np.arange(PLAYERS), TARGETS)
            eta = ABLATED * rng.uniform(0.1, 0.9, len(rows))
            parts.append(
                _cooperators(dataset, recipe, seed, rows, every, ABLATED, "random", draw, eta)
            )
    return joined("cooperators", parts)


def _cooperators(
    dataset: str,
    recipe: str,
    seed: int,
    row: Any,
    player: Any,
    n: int,
    selection: str,
    draw: int,
    eta: Floats,
) -> pa.Table:
    columns = {
        "dataset": dataset,
        "recipe": recipe,
        "seed": seed,
        "row": row,
        "player": player,
        "n": n,
        "selection": selection,
        "draw": draw,
        "cross_contribution": eta,
        "error": np.zeros(len(eta)) if n == 64 else 1 / eta,
        "value": 0.1 * eta,
    }
    return table("cooperators", columns)


def bounds(dataset: str, pairs: int = 30, recipe: str = "ours") -> pa.Table:
    """Losses are below both bounds."""
    rng = np.random.default_rng(4)
    parts = []
    for seed in SEEDS:
        bound = 10 ** rng.uniform(-6, -1, pairs)
        columns = {
            "dataset": dataset,
            "recipe": recipe,
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


def chain(dataset: str, recipe: str = "ours", pairs: int = 30) -> pa.Table:
    """The chain rule gives 96 to 99 % of each loss."""
    rng = np.random.default_rng(5)
    parts = []
    for seed in SEEDS:
        for row in range(2):
            loss = 10 ** rng.uniform(-6, -1, pairs) * rng.choice([-1, 1], pairs)
            given = loss * rng.uniform(0.96, 0.99, pairs)
            columns = {
                "dataset": dataset,
                "recipe": recipe,
                "seed": seed,
                "row": 100 * seed + row,
                "player": rng.integers(6, size=pairs),
                "other": rng.integers(6, 13, size=pairs),
                "loss": loss,
                "chain": given,
                "remainder": loss - given,
            }
            parts.append(table("chain", columns))
    return joined("chain", parts)


def selection_bound(dataset: str, recipe: str = "ours") -> pa.Table:
    """SHEAR's bound is 1.1 times the smallest, random ones are 2 times as large; errors are below."""
    rng = np.random.default_rng(6)
    runs = [("bound", 0, 1.0), ("shear", 0, 1.1), *(("random", draw, 2.0) for draw in range(5))]
    parts = []
    for seed in SEEDS:
        for row in range(3):
            scale = rng.uniform(0.5, 1.5, 13)
            for n in EVALUATIONS:
                for selection, draw, factor in runs:
                    bound = factor * scale / n
                    columns = {
                        "dataset": dataset,
                        "recipe": recipe,
                        "seed": seed,
                        "row": 100 * seed + row,
                        "player": np.arange(13),
                        "n": n,
                        "selection": selection,
                        "draw": draw,
                        "bound": bound,
                        "sure": 1.1 * bound,
                        "error": bound * rng.uniform(0.2, 0.4, 13),
                    }
                    parts.append(table("selection_bound", columns))
    return joined("selection_bound", parts)


SETTINGS = {
    ("standardised", "20 epochs", "quirk", "softplus"): 1.0,
    ("standardised", "20 epochs", "mean", "softplus"): 0.9,
    ("standardised", "80 epochs", "mean", "softplus"): 2.0,
    ("0/1", "20 epochs", "mean", "softplus"): 0.25,
    ("0/1", "80 epochs", "mean", "softplus"): 1.2,
    ("standardised", "20 epochs", "quirk", "relu"): 1.5,
}  #: a setting, and how many times larger errors are than with the authors'
SENSITIVE = {
    "shear": 0.0185,
    "permutation-antithetic": 0.015,
    "kernel-paired": 0.01,
    "kriging": 0.001,
}


def sensitivity(dataset: str) -> pa.Table:
    """Training moves errors 8 times; the paper's methods differ 1.85 times."""
    parts = []
    for (encoding, stopping, background, activation), factor in SETTINGS.items():
        for seed in range(3):
            for method, level in SENSITIVE.items():
                for n in (8, 16, 128):
                    columns = {
                        "dataset": dataset,
                        "encoding": encoding,
                        "stopping": stopping,
                        "background": background,
                        "activation": activation,
                        "seed": seed,
                        "method": method,
                        "n": n,
                        "error": level * factor * math.sqrt(8 / n) * (1 + 0.05 * seed),
                        "size": 2.3,
                        "accuracy": 0.847,
                        "epochs": 20,
                    }
                    parts.append(table("sensitivity", columns))
    return joined("sensitivity", parts)


def illustration(dataset: str, recipe: str = "ours") -> pa.Table:
    """SHEAR's values differ from the exact ones, and add up to the same."""
    exact = np.array([0.5, -1.25, 0.125, 2.0, -0.25])
    parts = []
    for seed in SEEDS:
        columns = {
            "dataset": dataset,
            "recipe": recipe,
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


def models(dataset: str, recipe: str = "ours") -> pa.Table:
    """The networks of a data set that the paper knows are those of its table."""
    known = dataset in tables.PAPER_SPLITS
    split = tables.PAPER_SPLITS.get(dataset, (7, 13, 700, 100, 200))
    theirs = recipe.startswith("authors")
    columns = {
        "dataset": dataset,
        "recipe": recipe,
        "title": f"The {dataset} data",
        "seed": np.array(SEEDS),
        "network": "3-layer MLP",
        "activation": "softplus",
        "hidden": 64,
        "learning_rate": 1e-3,
        "batch_size": 256,
        "encoding": "standardised" if theirs else "0/1",
        "split": "scikit-learn, random state 0" if theirs else "stratified, by seed",
        "stopping": "20 epochs" if theirs else "patience",
        "background": "quirk" if recipe == "authors" else "mean",
        **dict(zip(tables.SPLIT_COLUMNS, split, strict=True)),
        "inputs": 87,
        "epochs": 9,
        "accuracy": np.array([0.851, 0.847, 0.849]),
        "majority": 0.761,
        "rows": ROWS,
        "truth": "exact" if known else "estimated, to 0.010% of mean share",
        "truth_evaluations": 8192,
        "truth_error": 0.0 if known else 1e-4,
        "truth_absolute_error": 0.0 if known else 1e-5,
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
    parts = [
        of_recipe(dataset, recipe, methods, rounds) for recipe in RECIPES.get(dataset, ("ours",))
    ]
    trained = {study: joined(study, [part[study] for part in parts]) for study in parts[0]}
    tried = sensitivity(dataset) if dataset == "census" else STUDIES["sensitivity"].empty_table()
    return {**trained, "timings": timings(dataset, timed), "sensitivity": tried}


def of_recipe(
    dataset: str, recipe: str, methods: Sequence[str], rounds: int
) -> dict[str, pa.Table]:
    """Return the records of one recipe; "authors-mean" has SHEAR's estimates alone."""
    if recipe == "authors-mean":
        methods = [method for method in ("shear", "shear-authors") if method in methods]
        every = {study: schema.empty_table() for study, schema in STUDIES.items()}
        del every["timings"], every["sensitivity"]
        own = estimates(dataset, methods, rounds, recipe)
        return {**every, "models": models(dataset, recipe), "estimates": own}
    return {
        "models": models(dataset, recipe),
        "estimates": estimates(dataset, methods, rounds, recipe),
        "cooperators": cooperators(dataset, recipe),
        "bounds": bounds(dataset, recipe=recipe),
        "chain": chain(dataset, recipe),
        "selection_bound": selection_bound(dataset, recipe),
        "illustration": illustration(dataset, recipe),
    }


CENSUS = synthetic("census")
GERMAN = synthetic("german")
BOTH = {study: joined(study, [CENSUS[study], GERMAN[study]]) for study in STUDIES}
PROVENANCE = {
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "code": "fedcba9876543210",
    "versions": VERSIONS,
    "machine": MACHINE,
    "threads": 2,
    "seconds": 1234.5,
    "command": LINE,
}


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
    for name in ("loss", "chain", "remainder"):
        records = revised(records, "chain", name, constant(0))
    for name in ("bound", "sure", "error"):
        records = revised(records, "selection_bound", name, constant(0))
    return records
